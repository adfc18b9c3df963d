"""The rows that an embedding layer can emit, searchable: the first stage of the flow.

Takes the table of a model's input embeddings, gives row ids for vectors, the K nearest rows of a row, and the distance
from any point to its nearest row. `captum_dig.anchors` walks over the neighbours that are found here.
"""

import functools
import hashlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from captum_dig.errors import VocabularyError, at_least_one

# Rows handled at once where a temporary of (rows, D) or larger is needed.
_CHUNK = 4096
# Elements of a (rows, K, D) temporary; larger blocks leave the processor's caches and run slower.
BLOCK_ELEMENTS = 4_000_000
# Extra neighbours fetched before the exact re-ranking: the index rounds distances, which can swap the last few.
_SLACK = 8
# Rows sampled to learn how far rows typically are from each other.
_SPACING_SAMPLE = 256
# Larger coordinates have squares that float32 cannot add up.
_LARGEST = 1e17
_REMEDY = (
    "attribute to the layer that `model.get_input_embeddings()` returns and build the vocabulary from the same layer"
)


class Vocabulary:
    """The rows of an embedding table, with exact look-up and nearest-neighbour search.

    The rows are a snapshot in float32 on the CPU, whatever the dtype and device of the table: a model that is
    fine-tuned afterwards needs a new vocabulary. A flat index is also the only place where they are stored. Queries may
    come from several threads at once.

    Args:
        weight: The rows, shape (V, D), finite, any floating dtype and device.
        index: A FAISS factory string. ``"Flat"`` (`IndexFlatL2`) is exact; ``"HNSW32"`` or ``"IVF256,Flat"`` are
            approximate.

    Raises:
        TypeError: If `weight` is not a floating-point tensor.
        ValueError: If `weight` is not of shape (V, D) with at least one row and column, or FAISS does not know `index`.
        VocabularyError: If `weight` holds NaN, infinity or numbers whose squares overflow.

    Example:
        >>> vocabulary = Vocabulary(torch.tensor([[0.0, 0.0], [1.0, 0.0], [5.0, 0.0]]))
        >>> vocabulary.neighbors(torch.tensor([0]), n_neighbors=2)
        tensor([[1, 2]])
    """

    def __init__(self, weight: Tensor, *, index: str = "Flat") -> None:
        if not isinstance(weight, Tensor) or not weight.is_floating_point():
            got = weight.dtype if isinstance(weight, Tensor) else type(weight).__name__
            raise TypeError(f"weight must be a floating-point tensor, got {got}; {_REMEDY}")
        if weight.dim() != 2 or weight.numel() == 0:
            raise ValueError(f"weight must have shape (V, D) with V, D >= 1, got {tuple(weight.shape)}; {_REMEDY}")
        rows = weight.detach().to("cpu", torch.float32)
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
        self._index = _build_index(rows, index)
        self._rows = _stored_rows(self._index, rows)
        hashes = _hash_rows(self._rows)
        # Stable, so that of equal rows the first one is found.
        self._sorted_hashes, self._hash_order = torch.sort(hashes, stable=True)

    @classmethod
    def from_layer(cls, layer: nn.Module, *, index: str = "Flat") -> "Vocabulary":
        """Collect the rows as an embedding layer emits them.

        The layer is called on every id, so a layer that scales its table (Gemma, mBART) or that Captum wrapped in an
        `InterpretableEmbeddingBase` gives the rows that the model really sees.

        Args:
            layer: A module that maps ids of shape (N,) to rows of shape (N, D), such as `nn.Embedding`.
            index: A FAISS factory string, as in the constructor.

        Returns:
            The vocabulary of that layer.

        Raises:
            TypeError: If `layer` is not a table of embeddings.

        Example:
            >>> len(Vocabulary.from_layer(nn.Embedding(7, 3)))
            7
        """
        # Captum's wrapper answers with its input; the table is the module inside.
        table: Any = layer
        while not hasattr(table, "weight") and isinstance(getattr(table, "embedding", None), nn.Module):
            table = table.embedding
        weight = getattr(table, "weight", None)
        if not isinstance(table, nn.Module) or not isinstance(weight, Tensor) or weight.dim() != 2:
            raise TypeError(
                "layer must be an embedding table with a `weight` of shape (V, D), "
                f"got {type(layer).__name__}; {_REMEDY}"
            )
        ids = torch.arange(len(weight), device=weight.device)
        with torch.no_grad():
            rows = [table(chunk).detach().to("cpu", torch.float32) for chunk in ids.split(_CHUNK)]
        emitted = torch.cat(rows)
        if emitted.dim() != 2 or len(emitted) != len(weight):
            raise TypeError(
                "layer must map ids of shape (N,) to rows of shape (N, D), "
                f"got shape {tuple(emitted.shape)} for N = {len(weight)} from {type(layer).__name__}; {_REMEDY}"
            )
        return cls(emitted, index=index)

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
        ids = torch.arange(0, len(self), step)
        distances, _ = self._search(self._rows[ids], min(len(self), 1 + _SLACK))
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
        # Two rows with one hash: the first of them need not be the right one.
        for i in (~found & (self._sorted_hashes[slots] == hashes)).nonzero()[:, 0]:
            equal = (self._rows == vectors[i]).all(dim=1).nonzero()[:, 0]
            if len(equal):
                ids[i], found[i] = equal[0], True
        return torch.where(found, ids, -1)

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
        distances, ids = self._search(self._as_queries(vectors), min(len(self), 1 + _SLACK))
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
                    f"at a distance of up to {farthest:.4g}; {_REMEDY}"
                )
        return ids

    def neighbors(self, ids: Tensor, n_neighbors: int, candidates: Tensor | None = None) -> Tensor:
        """Search the rows nearest to given rows, nearest first.

        A row is never its own neighbour, also where another row equals it. Equal distances go by row id. The answer for
        a row does not depend on which others are asked for.

        Args:
            ids: Row ids, shape (N,), int64.
            n_neighbors: The paper's K, at least 1.
            candidates: Rows that may be neighbours, a boolean mask of shape (V,); None for all.

        Returns:
            Row ids, shape (N, K), int64 on the CPU. Where fewer than K rows can be neighbours, or an approximate index
            finds fewer, the tail is -1.

        Raises:
            ValueError: If `n_neighbors` is below 1.

        Example:
            >>> vocabulary = Vocabulary(torch.tensor([[0.0], [1.0], [3.0], [3.0]]))
            >>> vocabulary.neighbors(torch.tensor([0, 2]), n_neighbors=3)
            tensor([[1, 2, 3],
                    [3, 1, 0]])
        """
        at_least_one("n_neighbors", n_neighbors)
        ids = ids.cpu()
        queries = self._rows[ids]
        candidates = torch.ones(len(self), dtype=torch.bool) if candidates is None else candidates.cpu()
        available = int(candidates.sum())
        wanted = min(n_neighbors + _SLACK, available)
        reachable = (available - candidates[ids].to(torch.int64)).clamp_(max=wanted)
        # With a mask, more are fetched than it is likely to drop, because a second search costs more than a longer one.
        surplus = 1 if available == len(self) else 2
        fetched = min(len(self), 1 + surplus * wanted * len(self) // max(1, available))
        while True:
            found = self._index_search(queries, fetched)
            allowed = (found >= 0) & (found != ids[:, None]) & candidates[found.clamp(min=0)]
            short = allowed.sum(dim=1) < reachable
            # An approximate index that answers -1 has nothing more to give.
            if fetched == len(self) or not bool(short.any()) or bool((found[short] < 0).any()):
                break
            fetched = min(len(self), 2 * fetched)
        # Allowed ones first, in the index's order; what the slack does not cover is cut off.
        order = torch.sort(allowed.logical_not(), dim=1, stable=True).indices[:, :wanted]
        kept = torch.where(allowed.gather(1, order), found.gather(1, order), -1)
        ranked = self._rank(queries, kept)[1][:, :n_neighbors]
        return nn.functional.pad(ranked, (0, n_neighbors - ranked.shape[1]), value=-1)

    def _search(self, queries: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """Distances and ids of the nearest rows, exactly ordered, shape (N, count) each."""
        parts = [self._rank(q, self._index_search(q, count)) for q in queries.split(_CHUNK)]
        if not parts:
            return queries.new_zeros((0, count)), torch.zeros((0, count), dtype=torch.int64)
        return torch.cat([p[0] for p in parts]), torch.cat([p[1] for p in parts])

    def _index_search(self, queries: Tensor, count: int) -> Tensor:
        found = self._index.search(queries.numpy(), count)[1]
        return torch.from_numpy(found).to(torch.int64)

    def _rank(self, queries: Tensor, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Order ids by exact distance, then id; an index rounds distances, and differently for different batches."""
        distances = torch.empty(ids.shape)
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


class _IndexStorage:
    """The rows inside a flat FAISS index as an array that keeps the index alive."""

    def __init__(self, index: Any) -> None:
        import faiss

        self._index = index
        flat = faiss.rev_swig_ptr(index.get_xb(), index.ntotal * index.d)
        self.__array_interface__ = flat.reshape(index.ntotal, index.d).__array_interface__


def _build_index(rows: Tensor, factory: str) -> Any:
    import faiss

    try:
        index = faiss.index_factory(rows.shape[1], factory)
        if not index.is_trained:
            index.train(rows.numpy())
        index.add(rows.numpy())
    except RuntimeError as error:
        # FAISS reports the place in its C++ source first and the reason last.
        reason = str(error).strip().splitlines()[-1]
        raise ValueError(
            f"index must be a FAISS factory string that fits {tuple(rows.shape)} rows, got {factory!r} ({reason}); "
            "try 'Flat' or 'HNSW32'"
        ) from error
    return index


def _stored_rows(index: Any, rows: Tensor) -> Tensor:
    """The rows without a second copy where the index holds them as they are."""
    import faiss

    if isinstance(index, faiss.IndexFlat):
        return torch.from_numpy(np.asarray(_IndexStorage(index)))
    return rows.clone(memory_format=torch.contiguous_format)


def _chunks(rows: Tensor) -> Iterator[tuple[int, Tensor]]:
    """Blocks of rows with the number of their first row."""
    for first in range(0, len(rows), _CHUNK):
        yield first, rows[first : first + _CHUNK]


def _hash_rows(rows: Tensor) -> Tensor:
    """A 64-bit hash of each row's bits; 0.0 and -0.0 count as equal."""
    generator = torch.Generator().manual_seed(0)
    multipliers = torch.randint(-(2**63), 2**63 - 1, (rows.shape[1],), generator=generator) | 1
    bits = [((chunk + 0.0).view(torch.int32) * multipliers).sum(dim=1) for _, chunk in _chunks(rows)]
    return torch.cat(bits) if bits else torch.zeros(0, dtype=torch.int64)
