"""The rows that an embedding layer can emit, searchable: the first stage of the flow.

Takes the table of a model's input embeddings; gives row ids for vectors, the K nearest rows of a row, and the distance
from any point to its nearest row. `captum_dig.paths.tables` walks over these neighbours.
"""

import functools
import hashlib
import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from captum_dig.checks import at_least_one
from captum_dig.errors import VocabularyError
from captum_dig.vocabulary.indexes import CHUNK, build_index

# Elements of a (rows, K, D) temporary; larger blocks leave the processor's caches and run slower.
BLOCK_ELEMENTS = 4_000_000
# Neighbours searched for a row with other contents.
_DUPLICATES = 9
# Rows sampled for the typical distance between rows.
_SPACING_SAMPLE = 256
# Larger coordinates have squares that float32 cannot add up.
_LARGEST = 1e17
_REMEDY = (
    "attribute to the layer that `model.get_input_embeddings()` returns and build the vocabulary from the same layer"
)


class Vocabulary:
    """The rows of an embedding table, with exact look-up and nearest-neighbour search.

    The rows are a snapshot in float32 on the CPU; the table may have any dtype and device. A model that is fine-tuned
    afterwards needs a new vocabulary. The rows are stored once, also for an HNSW index. Several threads may query it at
    once.

    Args:
        weight: The rows, shape (V, D), finite, any floating dtype and device.
        index: A FAISS factory string. ``"Flat"`` is exact; others are approximate, such as ``"HNSW32"``. Parameters of
            the search may follow a semicolon: ``"IVF256,SQ8;nprobe=16"``.
        copy: Whether the rows are copied. False shares the memory of `weight` if it is float32 on the CPU and
            contiguous; nobody may change it then while the vocabulary is in use.

    Raises:
        TypeError: If `weight` is not a floating-point tensor, or `index` no string.
        ValueError: If `weight` is not of shape (V, D) with at least one row and column, or FAISS does not know `index`.
        VocabularyError: If `weight` holds NaN, infinity or numbers whose squares overflow.

    Example:
        >>> vocabulary = Vocabulary(torch.tensor([[0.0, 0.0], [1.0, 0.0], [5.0, 0.0]]))
        >>> vocabulary.neighbors(torch.tensor([0]), n_neighbors=2)
        tensor([[1, 2]])
    """

    # Tensors made in inference mode could not be used with gradients outside of it.
    @torch.inference_mode(mode=False)
    def __init__(self, weight: Tensor, *, index: str = "Flat", copy: bool = True) -> None:
        if not isinstance(weight, Tensor) or not weight.is_floating_point():
            got = weight.dtype if isinstance(weight, Tensor) else type(weight).__name__
            raise TypeError(f"weight must be a floating-point tensor, got {got}; {_REMEDY}")
        if weight.dim() != 2 or weight.numel() == 0:
            raise ValueError(f"weight must have shape (V, D) with V, D >= 1, got {tuple(weight.shape)}; {_REMEDY}")
        rows = weight.detach().to("cpu", torch.float32, copy=copy or weight.is_inference()).contiguous()
        bad = [first for first, chunk in _chunks(rows) if not bool(chunk.isfinite().all())]
        if bad:
            row = next(r for r in range(bad[0], len(rows)) if not bool(rows[r].isfinite().all()))
            raise VocabularyError(
                f"weight must be finite, got NaN or infinity in row {row}; "
                "check that the model was loaded and trained correctly"
            )
        largest = max(abs(float(end)) for end in rows.aminmax())
        if largest > _LARGEST:
            raise VocabularyError(
                f"weight must lie within ±{_LARGEST:.0e}, got {largest:.3g}; distances would overflow"
            )
        self.index_name = index
        self._index = build_index(rows, index)
        self._rows = self._index.rows
        hashes = _hash_rows(self._rows)
        # A stable sort: of equal rows the first one is found.
        self._sorted_hashes, self._hash_order = torch.sort(hashes, stable=True)

    @classmethod
    @torch.inference_mode(mode=False)
    def from_layer(cls, layer: nn.Module, *, index: str = "Flat", copy: bool = True) -> "Vocabulary":
        """Collect the rows as an embedding layer emits them.

        The layer is called on every id. A layer that scales its table (Gemma, mBART) therefore gives the scaled rows.
        So does a layer that Captum wrapped in an `InterpretableEmbeddingBase`.

        Args:
            layer: A module that maps ids of shape (N,) to rows of shape (N, D), such as `nn.Embedding`.
            index: A FAISS factory string, as in the constructor.
            copy: As in the constructor. A layer that scales its table is copied in any case.

        Returns:
            The vocabulary of that layer.

        Raises:
            TypeError: If `layer` is not a table of embeddings.

        Example:
            >>> len(Vocabulary.from_layer(nn.Embedding(7, 3)))
            7
        """
        # Captum's wrapper returns its input; the table is the module inside.
        table: Any = layer
        while not hasattr(table, "weight") and isinstance(getattr(table, "embedding", None), nn.Module):
            table = table.embedding
        weight = getattr(table, "weight", None)
        if not isinstance(table, nn.Module) or not isinstance(weight, Tensor) or weight.dim() != 2:
            raise TypeError(
                "layer must be an embedding table with a `weight` of shape (V, D), "
                f"got {type(layer).__name__}; {_REMEDY}"
            )
        emitted: Tensor | None = None
        blocks = torch.arange(len(weight), device=weight.device).split(CHUNK)
        with torch.no_grad():
            if not copy and all(_alike(table(ids), weight[ids]) for ids in blocks):
                return cls(weight, index=index, copy=False)
            for ids in blocks:
                rows = table(ids)
                if rows.dim() != 2 or len(rows) != len(ids):
                    raise TypeError(
                        "layer must map ids of shape (N,) to rows of shape (N, D), "
                        f"got shape {tuple(rows.shape)} for N = {len(ids)} from {type(layer).__name__}; {_REMEDY}"
                    )
                if emitted is None:
                    emitted = torch.empty(len(weight), rows.shape[1], dtype=torch.float32, device="cpu")
                emitted[int(ids[0]) : int(ids[-1]) + 1] = rows
        # Nobody else has the collected rows.
        return cls(weight if emitted is None else emitted, index=index, copy=False)

    def __getstate__(self) -> dict[str, Any]:
        # The index holds the rows.
        return {name: value for name, value in vars(self).items() if name != "_rows"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._rows = self._index.rows

    def __deepcopy__(self, memo: dict[int, Any]) -> "Vocabulary":
        # A vocabulary is immutable.
        return self

    def __repr__(self) -> str:
        return f"Vocabulary({self.fingerprint[:12]}, index={self.index_name!r})"

    def __len__(self) -> int:
        """Return V, the number of rows."""
        return len(self._rows)

    @property
    def dim(self) -> int:
        """D, the width of a row."""
        return self._rows.shape[1]

    @property
    def rows(self) -> Tensor:
        """The rows, shape (V, D), float32 on the CPU; read only."""
        return self._rows

    @functools.cached_property
    def fingerprint(self) -> str:
        """Hexadecimal SHA-256 of the shape and contents of the rows, the same on every machine."""
        digest = hashlib.sha256(f"float32 {tuple(self._rows.shape)}".encode())
        for _, chunk in _chunks(self._rows):
            digest.update(chunk.numpy().astype("<f4", copy=False).tobytes())
        return digest.hexdigest()

    @functools.cached_property
    def spacing(self) -> float:
        """The median distance from a row to the nearest row with other contents, over an even sample of rows."""
        step = max(1, len(self) // _SPACING_SAMPLE)
        ids = torch.arange(0, len(self), step, device="cpu")
        distances, _ = self._search(self._rows[ids], min(len(self), _DUPLICATES))
        distances = torch.where(distances > 0, distances, torch.inf).amin(dim=1)
        distances = distances[distances.isfinite()]
        return float(distances.median()) if len(distances) else 0.0

    def find(self, vectors: Tensor) -> Tensor:
        """Look up vectors that are rows, bit for bit in float32.

        Args:
            vectors: Shape (N, D), any floating dtype and device.

        Returns:
            Row ids, shape (N,), int64 on the CPU; the first of several equal rows, and -1 for a vector that is no row.

        Raises:
            ValueError: If the vectors are not of shape (N, D).

        Example:
            >>> Vocabulary(torch.eye(3)).find(torch.tensor([[0.0, 1.0, 0.0], [0.0, 0.5, 0.0]]))
            tensor([ 1, -1])
        """
        vectors = self._as_queries(vectors)
        hashes = _hash_rows(vectors)
        slots = torch.searchsorted(self._sorted_hashes, hashes).clamp_(max=len(self) - 1)
        ids = self._hash_order[slots]
        found = (self._rows[ids] == vectors).all(dim=1)
        # Two rows may have one hash, and the first of them may be the wrong one.
        for i in (~found & (self._sorted_hashes[slots] == hashes)).nonzero()[:, 0]:
            equal = self.equal_rows(vectors[i])
            if len(equal):
                ids[i], found[i] = equal[0], True
        return torch.where(found, ids, -1)

    def equal_rows(self, vector: Tensor) -> Tensor:
        """Find every row that equals a vector.

        Args:
            vector: Shape (D,), any floating dtype and device.

        Returns:
            Row ids in order, shape (N,), int64 on the CPU.

        Raises:
            ValueError: If the vector has another shape.

        Example:
            >>> Vocabulary(torch.tensor([[1.0], [2.0], [1.0]])).equal_rows(torch.tensor([1.0]))
            tensor([0, 2])
        """
        if vector.shape != (self.dim,):
            raise ValueError(f"vector must have shape ({self.dim},), got {tuple(vector.shape)}; {_REMEDY}")
        vectors = self._as_queries(vector[None])
        hashes = _hash_rows(vectors)
        first = torch.searchsorted(self._sorted_hashes, hashes)
        end = torch.searchsorted(self._sorted_hashes, hashes, right=True)
        ids = self._hash_order[int(first) : int(end)]
        return ids[(self._rows[ids] == vectors).all(dim=1)]

    def nearest(self, vectors: Tensor) -> tuple[Tensor, Tensor]:
        """Search the nearest row of any vectors.

        Args:
            vectors: Shape (N, D), any floating dtype and device.

        Returns:
            Row ids, shape (N,), int64, and Euclidean distances, shape (N,), float32, both on the CPU.

        Raises:
            ValueError: If the vectors are not of shape (N, D).

        Example:
            >>> ids, distances = Vocabulary(torch.eye(3)).nearest(torch.tensor([[0.0, 1.5, 0.0]]))
            >>> ids, distances
            (tensor([1]), tensor([0.5000]))
        """
        distances, ids = self._search(self._as_queries(vectors), 1)
        return ids[:, 0], distances[:, 0]

    def locate(self, vectors: Tensor) -> Tensor:
        """Assign every vector to a row: itself where it is one, else the nearest row.

        Args:
            vectors: Shape (N, D), any floating dtype and device.

        Returns:
            Row ids, shape (N,), int64 on the CPU.

        Raises:
            ValueError: If the vectors are not of shape (N, D).
            VocabularyError: If a vector is farther from every row than rows typically are from each other.

        Example:
            >>> Vocabulary(torch.eye(3)).locate(torch.tensor([[0.0, 1.1, 0.0]]))
            tensor([1])
        """
        vectors = self._as_queries(vectors)
        ids = self.find(vectors)
        strange = ids < 0
        if bool(strange.any()):
            ids[strange], distances = self.nearest(vectors[strange])
            farthest = float(distances.max())
            if not farthest < self.spacing:
                raise VocabularyError(
                    f"inputs must be rows of the vocabulary or lie nearer to one than its rows lie to each other "
                    f"({self.spacing:.4g}), got {int((distances >= self.spacing).sum())} vectors "
                    f"at a distance of up to {farthest:.4g}; where noise was added to rows, as NoiseTunnel does, "
                    f"add less, such as stdevs={self._little_noise():.1g}; else {_REMEDY}"
                )
        return ids

    def neighbors(self, ids: Tensor, n_neighbors: int, candidates: Tensor | None = None) -> Tensor:
        """Search the rows nearest to given rows, nearest first.

        A row is never its own neighbour, also where another row equals it. Equal distances are ordered by row id. The
        neighbours of a row do not depend on the other rows of the call.

        Args:
            ids: Row ids, shape (N,), any integer dtype.
            n_neighbors: The paper's K, at least 1.
            candidates: Rows that may be neighbours, a boolean mask of shape (V,); None for all.

        Returns:
            Row ids, shape (N, K), int64 on the CPU. Where fewer than K rows can be neighbours, or an approximate index
            finds fewer, the tail is -1.

        Raises:
            TypeError: If `ids` are no integers.
            ValueError: If `ids` have another shape or are not rows, or `n_neighbors` is below 1.

        Example:
            >>> vocabulary = Vocabulary(torch.tensor([[0.0], [1.0], [3.0], [3.0]]))
            >>> vocabulary.neighbors(torch.tensor([0, 2]), n_neighbors=3)
            tensor([[1, 2, 3],
                    [3, 1, 0]])
        """
        at_least_one("n_neighbors", n_neighbors)
        ids = check_rows("ids", ids, len(self))
        queries = self._rows[ids]
        found = self._index.search(queries, n_neighbors + 1, None if candidates is None else candidates.cpu())
        found = torch.where(found == ids[:, None], -1, found)
        ranked = self._rank(queries, found)[1][:, :n_neighbors]
        return nn.functional.pad(ranked, (0, n_neighbors - ranked.shape[1]), value=-1)

    def around(self, vectors: Tensor, n_neighbors: int, candidates: Tensor | None = None) -> Tensor:
        """Search the rows nearest to any vectors, nearest first; a vector that is a row finds itself first.

        Args:
            vectors: Shape (N, D), any floating dtype and device.
            n_neighbors: The K of the search, at least 1.
            candidates: Rows that may be found, a boolean mask of shape (V,); None for all.

        Returns:
            Row ids, shape (N, K), int64 on the CPU, as `neighbors` gives them.

        Raises:
            ValueError: If the vectors are not of shape (N, D), or `n_neighbors` is below 1.

        Example:
            >>> Vocabulary(torch.tensor([[0.0], [1.0], [3.0]])).around(torch.tensor([[2.1]]), n_neighbors=2)
            tensor([[2, 1]])
        """
        at_least_one("n_neighbors", n_neighbors)
        mask = None if candidates is None else candidates.cpu()
        parts = self._as_queries(vectors).split(CHUNK)
        ranked = [self._rank(q, self._index.search(q, n_neighbors, mask))[1][:, :n_neighbors] for q in parts]
        return torch.cat([nn.functional.pad(r, (0, n_neighbors - r.shape[1]), value=-1) for r in ranked])

    def recall(self, n_neighbors: int, n_rows: int = 256) -> float:
        """Measure how many of the true nearest rows the index finds; 1 for an exact one.

        Args:
            n_neighbors: The K of the search, at least 1.
            n_rows: The number of rows to try, evenly spread over the vocabulary, at least 1.

        Returns:
            The mean share of the K nearest rows that are found, in [0, 1].

        Raises:
            ValueError: If a number is below 1.

        Example:
            >>> Vocabulary(torch.eye(4)).recall(n_neighbors=2)
            1.0
        """
        at_least_one("n_rows", n_rows)
        ids = torch.arange(0, len(self), max(1, len(self) // n_rows), device="cpu")[:n_rows]
        reachable = min(n_neighbors, len(self) - 1)
        if not reachable:
            return 1.0
        found = 0
        for row, neighbors in zip(ids, self.neighbors(ids, n_neighbors), strict=True):
            distances = torch.cat([(chunk - self._rows[row]).square_().sum(dim=1) for _, chunk in _chunks(self._rows)])
            distances[row] = torch.inf
            # By distance, because any of several equally near rows may be found.
            farthest = distances.kthvalue(reachable).values
            found += int((distances[neighbors[neighbors >= 0]] <= farthest).sum())
        return found / (reachable * len(ids))

    def _little_noise(self) -> float:
        """A standard deviation of noise that keeps vectors near their rows: a third of the limit."""
        return self.spacing / (3 * math.sqrt(self.dim))

    def _search(self, queries: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """Distances and ids of the nearest rows, exactly ordered, shape (N, count) each, count <= V."""
        parts = [self._rank(q, self._index.search(q, count)) for q in queries.split(CHUNK)]
        return torch.cat([p[0][:, :count] for p in parts]), torch.cat([p[1][:, :count] for p in parts])

    def _rank(self, queries: Tensor, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Order ids by exact distance, then id. An index rounds distances, and differently in each batch."""
        distances = torch.empty(ids.shape, dtype=torch.float32, device="cpu")
        ids = ids.sort(dim=1).values
        step = max(1, BLOCK_ELEMENTS // max(1, ids.shape[1] * self.dim))
        for start in range(0, len(queries), step):
            block = slice(start, start + step)
            difference = self._rows[ids[block].clamp(min=0)] - queries[block, None]
            distances[block] = difference.square_().sum(dim=-1).sqrt_()
        distances[ids < 0] = torch.inf
        distances, order = distances.sort(dim=1, stable=True)
        return distances, ids.gather(1, order)

    def _as_queries(self, vectors: Tensor) -> Tensor:
        if vectors.dim() != 2 or vectors.shape[1] != self.dim:
            raise ValueError(f"vectors must have shape (N, {self.dim}), got {tuple(vectors.shape)}; {_REMEDY}")
        return vectors.detach().to("cpu", torch.float32).contiguous()


def _alike(rows: Tensor, others: Tensor) -> bool:
    """Whether rows are others to the last bit, in float32 on the CPU."""
    places = {(each.device.type, each.dtype) for each in (rows, others)}
    return places == {("cpu", torch.float32)} and torch.equal(rows, others)


def _chunks(rows: Tensor) -> Iterator[tuple[int, Tensor]]:
    """Blocks of rows with the number of their first row."""
    for first in range(0, len(rows), CHUNK):
        yield first, rows[first : first + CHUNK]


def _hash_rows(rows: Tensor) -> Tensor:
    """A 64-bit hash of each row's bits; 0.0 and -0.0 count as equal."""
    generator = torch.Generator("cpu").manual_seed(0)
    multipliers = torch.randint(-(2**63), 2**63 - 1, (rows.shape[1],), generator=generator, device="cpu") | 1
    bits = [((chunk + 0.0).view(torch.int32) * multipliers).sum(dim=1) for _, chunk in _chunks(rows)]
    return torch.cat(bits) if bits else torch.zeros(0, dtype=torch.int64, device="cpu")


def check_rows(name: str, ids: Tensor, n_rows: int) -> Tensor:
    """Require ids of rows. PyTorch would read -1 as the last row, and booleans as a mask.

    Args:
        name: The name of the ids in messages.
        ids: Row ids, shape (N,), any integer dtype.
        n_rows: V, the number of rows of the vocabulary.

    Returns:
        The ids, int64 on the CPU.

    Raises:
        TypeError: If they are no integers.
        ValueError: If they have another shape, or one of them is no row.
    """
    if not isinstance(ids, Tensor) or ids.is_floating_point() or ids.is_complex() or ids.dtype == torch.bool:
        got = ids.dtype if isinstance(ids, Tensor) else type(ids).__name__
        raise TypeError(f"{name} must be a tensor of integers, got {got}")
    if ids.dim() != 1:
        raise ValueError(f"{name} must have shape (N,), got {tuple(ids.shape)}")
    ids = ids.detach().to("cpu", torch.int64)
    outside = ids[(ids < 0) | (ids >= n_rows)]
    if len(outside):
        raise ValueError(f"{name} must be rows of the vocabulary, from 0 to {n_rows - 1}, got {int(outside[0])}")
    return ids


def check_candidates(candidates: Tensor, n_rows: int) -> Tensor:
    """Return a copy of a mask of candidates, on the CPU.

    Args:
        candidates: The mask.
        n_rows: V, the number of rows of the vocabulary.

    Returns:
        Shape (V,), boolean.

    Raises:
        ValueError: If it is no boolean mask of that shape, or allows no row.
    """
    if not isinstance(candidates, Tensor) or candidates.dtype != torch.bool or candidates.shape != (n_rows,):
        got = (
            f"{candidates.dtype} {tuple(candidates.shape)}"
            if isinstance(candidates, Tensor)
            else type(candidates).__name__
        )
        raise ValueError(f"candidates must be a boolean mask of shape ({n_rows},), got {got}")
    if not bool(candidates.any()):
        raise ValueError("candidates must allow at least one row, got a mask that is False everywhere")
    return candidates.detach().cpu().clone()
