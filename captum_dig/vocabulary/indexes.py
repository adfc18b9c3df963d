"""RowIndex: a search for the rows of a table near a vector.

Takes rows; gives for any vectors the ids of a few rows that include the nearest. `captum_dig.vocabulary.rows` measures
and sorts these, so an index may round but must not miss a row.
"""

import functools
import re
from abc import ABC, abstractmethod
from typing import Any, NamedTuple, final

import numpy as np
import torch
from torch import Tensor

from captum_dig.errors import MissingExtraError

# Rows handled at once where a temporary of (rows, D) is needed.
CHUNK = 512
# Extra rows fetched from FAISS, which rounds distances: few at first, then more if the order is still unclear.
_SLACK = (8, 64)
# How far from the origin a table's centre may lie, in squared distances of its rows from the centre.
_FAR = 8
# From this many elements on, reading a table at half precision saves more time than a few more distances cost.
_LARGE = 2**26
# Elements of a (queries, V) temporary of HalfPrecisionIndex.
_BLOCK = 2**24
# Relative errors of rounding to bfloat16 and of a float32 addition, doubled to be safe.
_HALF, _SINGLE = 2.0**-8, 2.0**-23


class RowIndex(ABC):
    """A search over the rows of one table.

    Subclasses implement `shortlist`.

    Attributes:
        rows: The rows, which nobody changes.

    Args:
        rows: The rows, shape (V, D), float32 on the CPU, contiguous.
    """

    def __init__(self, rows: Tensor) -> None:
        self.rows = rows

    def __getstate__(self) -> dict[str, Any]:
        # A pickled view would bring the whole table that it is part of.
        whole = self.rows.untyped_storage().nbytes() == self.rows.nbytes
        return vars(self) | {"rows": self.rows if whole else self.rows.clone()}

    @abstractmethod
    def shortlist(self, queries: Tensor, count: int, candidates: Tensor | None) -> Tensor:
        """Search as `search` does; `count` is at least 1, and at least `count` rows may be found."""

    @final
    def search(self, queries: Tensor, count: int, candidates: Tensor | None = None) -> Tensor:
        """Find rows that include the nearest ones.

        Args:
            queries: Shape (N, D), float32 on the CPU, contiguous.
            count: The number of nearest rows that must be included, at least 1.
            candidates: Rows that may be found, a boolean mask of shape (V,); None for all.

        Returns:
            Row ids, shape (N, M), in any order, -1 where there is none. There are at least `count` of them, unless the
            table has fewer rows or an approximate index finds fewer.
        """
        available = len(self.rows) if candidates is None else int(candidates.sum())
        count = min(count, available)
        if count < 1 or not len(queries):
            return torch.empty((len(queries), max(0, count)), dtype=torch.int64, device="cpu")
        return self.shortlist(queries, count, candidates)


class Found(NamedTuple):
    """The rows that a search for candidates gives for N queries.

    Attributes:
        ids: Row ids, shape (N, M), -1 where there is none.
        distances: Squared distances, shape (N, M), as the search rounds them.
        edge: A lower bound of the squared distances of the other candidates, shape (N,), likewise.
        complete: Whether every candidate is among them, shape (N,).
    """

    ids: Tensor
    distances: Tensor
    edge: Tensor
    complete: Tensor


class NearbyIndex(RowIndex):
    """A search that asks FAISS for a few rows more than are wanted, because FAISS rounds distances.

    Subclasses implement `nearest`.
    """

    @abstractmethod
    def nearest(self, queries: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """Search the whole table, without a mask.

        Args:
            queries: Shape (N, D), float32 on the CPU, contiguous.
            count: The number of rows for each query, at most V.

        Returns:
            Squared distances and row ids, shape (N, count) each, nearest first; -1 where an approximate index ends.
        """

    def among(self, queries: Tensor, count: int, slack: int, candidates: Tensor | None) -> "Found":
        """Search among the candidates.

        Args:
            queries: As in `nearest`.
            count: The number of rows that are wanted.
            slack: How many more are fetched.
            candidates: As in `search`.

        Returns:
            The rows, those of candidates first.
        """
        n_rows = len(self.rows)
        if candidates is None:
            candidates = torch.ones(n_rows, dtype=torch.bool, device="cpu")
        available = int(candidates.sum())
        wanted = min(count + slack, available)
        # Fetch more rows than the mask is likely to drop: a second search costs more than a longer one.
        fetched = wanted if available == n_rows else min(n_rows, 2 * wanted * n_rows // available)
        while True:
            distances, found = self.nearest(queries, fetched)
            allowed = (found >= 0) & candidates[found.clamp(min=0)]
            short = allowed.sum(dim=1) < count
            # An approximate index that returns -1 finds no more rows.
            if fetched == n_rows or not bool(short.any()) or bool((found[short] < 0).any()):
                break
            fetched = min(n_rows, 2 * fetched)
        # Allowed ones first, in the index's order.
        order = torch.sort(allowed.logical_not(), dim=1, stable=True).indices[:, :wanted]
        kept, kept_distances = allowed.gather(1, order), distances.gather(1, order)
        edge = torch.where(kept[:, -1], kept_distances[:, -1], distances[:, -1])
        ids = torch.where(kept, found.gather(1, order), -1)
        return Found(ids, kept_distances, edge, kept.sum(dim=1) == available)


class FlatIndex(NearbyIndex):
    """The exact search of FAISS, which reads the rows where they are; nothing is built or copied.

    FAISS computes a squared distance as |q|² + |r|² - 2 q·r, which cancels for two long, similar vectors. Tables far
    from the origin are therefore shifted to it. If rounding could have changed a result, the search is repeated,
    finally in double precision.

    Example:
        >>> index = FlatIndex(torch.tensor([[0.0], [1.0], [5.0]]))
        >>> index.search(torch.tensor([[0.9]]), count=1, candidates=torch.tensor([True, False, True]))
        tensor([[0, 2]])
    """

    @functools.cached_property
    def _center(self) -> Tensor | None:
        return _far_center(self.rows)

    @functools.cached_property
    def _shifted(self) -> Tensor:
        return self.rows if self._center is None else self.rows - self._center

    def __getstate__(self) -> dict[str, Any]:
        return {"rows": super().__getstate__()["rows"]}

    def nearest(self, queries: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """Search every row."""
        distances, found = _faiss().knn(queries.numpy(), self._shifted.numpy(), count)
        return torch.from_numpy(distances), torch.from_numpy(found)

    def shortlist(self, queries: Tensor, count: int, candidates: Tensor | None) -> Tensor:
        """Search with FAISS; if rounding may have changed the result, search again with more rows, then exactly."""
        shifted = queries if self._center is None else queries - self._center
        found, settled = self._search(shifted, count, _SLACK[0], candidates)
        for slack in (*_SLACK[1:], None):
            left = settled.logical_not().nonzero()[:, 0]
            if not len(left):
                break
            if slack is None:
                more = self._search_exactly(shifted[left], count, candidates)
            else:
                more, settled[left] = self._search(shifted[left], count, slack, candidates)
            width = max(found.shape[1], more.shape[1])
            found, more = (torch.nn.functional.pad(f, (0, width - f.shape[1]), value=-1) for f in (found, more))
            found[left] = more
        return found

    def _search(self, queries: Tensor, count: int, slack: int, candidates: Tensor | None) -> tuple[Tensor, Tensor]:
        """Ids that FAISS finds, shape (N, M), and whether they certainly include the nearest, shape (N,)."""
        found, distances, edge, complete = self.among(queries, count, slack, candidates)
        # A row within that distance has a bounded length; each length and product is a sum of D rounded numbers.
        reach = 2 * queries.norm(dim=1) + edge.clamp(min=0).sqrt()
        error = _SINGLE * (8 + queries.shape[1] ** 0.5) * reach.square()
        return found, complete | (edge - distances[:, count - 1] > 2 * error)

    def _search_exactly(self, queries: Tensor, count: int, candidates: Tensor | None) -> Tensor:
        """Ids of the nearest rows and a few more, by distances in double precision."""
        found = []
        for block in queries.double().split(max(1, _BLOCK // len(self.rows))):
            columns = []
            for chunk in self._shifted.split(CHUNK):
                rows = chunk.double()
                columns.append(rows.square().sum(dim=1) - 2 * block @ rows.T + block.square().sum(dim=1)[:, None])
            # In single precision equal rows are equally far; take the first ones.
            distances = torch.cat(columns, dim=1).float()
            if candidates is not None:
                distances[:, candidates.logical_not()] = torch.inf
            nearest = distances.sort(dim=1, stable=True)
            some = slice(count + _SLACK[0])
            found.append(torch.where(nearest.values[:, some].isfinite(), nearest.indices[:, some], -1))
        return torch.cat(found)


class FaissIndex(NearbyIndex):
    """The index that a FAISS factory string describes, such as ``"HNSW32"``; it may be approximate.

    Args:
        rows: The rows, shape (V, D), float32 on the CPU, contiguous. An index that stores them unchanged has the only
            copy in `rows`.
        factory: The factory string; parameters of the search may follow a semicolon.

    Raises:
        ValueError: If FAISS cannot build that index over these rows.

    Example:
        >>> index = FaissIndex(torch.tensor([[0.0], [1.0], [5.0]]), "HNSW8")
        >>> index.search(torch.tensor([[0.9]]), count=1)[0, 0]
        tensor(1)
    """

    def __init__(self, rows: Tensor, factory: str) -> None:
        faiss = _faiss()
        if links := [int(n) for n in re.findall(r"HNSW(\d+)", factory) if int(n) < 2]:
            # Here FAISS would end the process.
            raise ValueError(
                f"index must give each row of a graph at least 2 links, got {factory!r} with {links[0]}; try 'HNSW32'"
            )
        if re.search(r"[A-Za-z]0+(?!\d)", factory.partition(";")[0]):
            # Older releases of FAISS divide by it, which ends the process.
            raise ValueError(f"index must have no part of size 0, got {factory!r}; try 'IVF256,Flat'")
        structure, _, parameters = factory.partition(";")
        try:
            index = faiss.index_factory(rows.shape[1], structure.strip())
            if not index.is_trained:
                index.train(rows.numpy())
            index.add(rows.numpy())
            if parameters.strip():
                faiss.ParameterSpace().set_index_parameters(index, parameters.strip())
            # Some wrong parameters fail only in a search.
            nearest = index.search(rows[:1].numpy(), 1)[1]
            if nearest[0, 0] < 0:
                raise RuntimeError("it finds nothing")
        except RuntimeError as error:
            # A message of FAISS begins with the place in its C++ source and ends with the reason.
            reason = str(error).strip().splitlines()[-1]
            raise ValueError(
                f"index must be a FAISS factory string that fits {tuple(rows.shape)} rows, got {factory!r} ({reason}); "
                "try 'Flat' or 'HNSW32'"
            ) from error
        self._index = index
        shared = self._shared_rows()
        super().__init__(rows if shared is None else shared)

    def __getstate__(self) -> dict[str, Any]:
        # An approximate index is serialized by FAISS; a rebuilt one could find other rows.
        state = vars(self) | {"_index": _faiss().serialize_index(self._index)}
        return state | {"rows": None} if self._shared_rows() is not None else state

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._index = _faiss().deserialize_index(state["_index"])
        shared = self._shared_rows()
        self.rows = state["rows"] if shared is None else shared

    def _shared_rows(self) -> Tensor | None:
        """The rows inside the index without a copy, if it holds them unchanged."""
        faiss, index = _faiss(), self._index
        storage = faiss.downcast_index(index.storage) if isinstance(index, faiss.IndexHNSW) else index
        if not isinstance(storage, faiss.IndexFlat):
            return None
        return torch.from_numpy(np.asarray(_Storage(index, storage)))

    def nearest(self, queries: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """Search with the index."""
        distances, found = map(torch.from_numpy, self._index.search(queries.numpy(), count))
        return distances, found.to(torch.int64)

    def shortlist(self, queries: Tensor, count: int, candidates: Tensor | None) -> Tensor:
        """Search once: an approximate index promises nothing."""
        return self.among(queries, count, _SLACK[0], candidates).ids


class HalfPrecisionIndex(RowIndex):
    """An exhaustive search that reads the rows at half precision and drops only rows that are certainly too far.

    The time of a search over a large table is the time to read it. The distance from a rounded row minus the largest
    error of the rounding is a lower bound. A row whose lower bound exceeds the upper bounds of `count` other rows is
    not among the nearest.

    Args:
        rows: The rows, shape (V, D), float32 on the CPU.

    Example:
        >>> index = HalfPrecisionIndex(torch.tensor([[0.0], [1.0], [5.0]]))
        >>> index.search(torch.tensor([[0.9]]), count=1)
        tensor([[1]])
    """

    def __init__(self, rows: Tensor) -> None:
        super().__init__(rows)
        # A shift of all rows changes no distance, and short vectors round less.
        self._center = _center(rows)
        self._coarse = torch.empty(rows.shape, dtype=torch.bfloat16, device="cpu")
        # Each row's squared length, its length after rounding, and its rounding error.
        self._measures = torch.empty(3, len(rows), dtype=torch.float32, device="cpu")
        for chunk, coarse, measures in zip(
            rows.split(CHUNK), self._coarse.split(CHUNK), self._measures.split(CHUNK, dim=1), strict=True
        ):
            rounded, *values = _round(chunk - self._center)
            coarse.copy_(rounded)
            measures.copy_(torch.stack(values))

    @classmethod
    def suits(cls, rows: Tensor) -> bool:
        """Whether the table is large, and this machine multiplies at half precision."""
        return rows.numel() >= _LARGE and torch.backends.cpu.get_cpu_capability() == "AVX512"

    def shortlist(self, queries: Tensor, count: int, candidates: Tensor | None) -> Tensor:
        """Bound the distances from below and above, and keep the rows that can be among the nearest."""
        blocks = queries.split(max(1, _BLOCK // len(self.rows)))
        found = [self._search(block, count, candidates) for block in blocks]
        width = max(block.shape[1] for block in found)
        return torch.cat([torch.nn.functional.pad(f, (0, width - f.shape[1]), value=-1) for f in found])

    def _search(self, queries: Tensor, count: int, candidates: Tensor | None) -> Tensor:
        squares, lengths, moved = self._measures
        coarse, own_squares, own_lengths, own_moved = _round(queries - self._center)
        products = (coarse @ self._coarse.T).float()
        # |q·r - q'·r'| <= |q - q'||r'| + |q||r - r'|, plus the rounding of the float32 sum and of the result.
        slopes = torch.stack([own_moved + _SINGLE * self.rows.shape[1] * own_lengths, own_squares.sqrt()], dim=1)
        radius = slopes @ torch.stack([lengths, moved])
        radius.add_(products.abs(), alpha=_HALF).mul_(2)
        # The lengths and the later distances are float32 sums themselves.
        radius.add_(squares + own_squares[:, None], alpha=16 * _SINGLE)
        # Squared distances without the query's own length, which is the same for every row.
        lower = products.mul_(-2).add_(squares).sub_(radius)
        if candidates is not None:
            lower[:, candidates.logical_not()] = torch.inf
        farthest = (lower + radius.mul_(2)).topk(count, largest=False).values[:, -1:]
        kept = int((lower <= farthest).sum(dim=1).max())
        nearest = lower.topk(kept, largest=False)
        return torch.where(nearest.values <= farthest, nearest.indices, -1)


class _Storage:
    """The rows inside a flat FAISS index, as an array that keeps the index alive."""

    def __init__(self, owner: Any, flat: Any) -> None:
        self._owner = owner
        values = _faiss().rev_swig_ptr(flat.get_xb(), flat.ntotal * flat.d)
        self.__array_interface__ = values.reshape(flat.ntotal, flat.d).__array_interface__


def build_index(rows: Tensor, factory: str) -> RowIndex:
    """Build the index for a factory string.

    Args:
        rows: The rows, shape (V, D), float32 on the CPU.
        factory: ``"Flat"`` for an exact search, or another FAISS factory string.

    Returns:
        The index.

    Raises:
        TypeError: If `factory` is no string.
        ValueError: If FAISS cannot build that index over these rows.
    """
    if not isinstance(factory, str):
        raise TypeError(f"index must be a FAISS factory string, got {factory!r}; try 'Flat' or 'HNSW32'")
    structure, _, parameters = factory.partition(";")
    if structure.strip() != "Flat" or parameters.strip():
        return FaissIndex(rows, factory)
    return HalfPrecisionIndex(rows) if HalfPrecisionIndex.suits(rows) else FlatIndex(rows)


def _faiss() -> Any:
    """FAISS, whose import takes a quarter of a second; its type stubs miss overloads."""
    try:
        import faiss
    except ImportError as error:
        raise MissingExtraError(
            f"a search for neighbours needs FAISS, got: {error}; python -m pip install faiss-cpu"
        ) from error
    return faiss


def _center(rows: Tensor) -> Tensor:
    """The mean row."""
    return torch.stack([chunk.sum(dim=0) for chunk in rows.split(CHUNK)]).sum(dim=0) / len(rows)


def _far_center(rows: Tensor) -> Tensor | None:
    """The mean row, if it is far longer than the distances of the rows from it."""
    center = _center(rows)
    spread = sum(float((chunk - center).square().sum()) for chunk in rows.split(CHUNK)) / len(rows)
    return center if float(center.square().sum()) > _FAR * spread else None


def _round(vectors: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Rows as bfloat16, their squared lengths, their lengths after rounding, and their rounding errors."""
    coarse = vectors.bfloat16()
    rounded = coarse.float()
    return coarse, vectors.square().sum(dim=1), rounded.norm(dim=1), (vectors - rounded).norm(dim=1)
