"""WordPath: from word to word, monotone in every coordinate.

Takes a `Vocabulary` and a table of walks over it; gives polylines. It recognises words by their vectors, looks up the
words on their way, and monotonizes these one after the other. `captum_dig.quadrature` comes next.
"""

import itertools
import math
from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any, cast

import torch
from torch import Tensor

from captum_dig.paths.anchors import AnchorSearch
from captum_dig.paths.base import PathGenerator, seed_of
from captum_dig.paths.bundles import Together
from captum_dig.paths.folders import TableFolder, digest
from captum_dig.paths.monotone import monotonize
from captum_dig.paths.polylines import Polyline, StepPlaces, on_pieces
from captum_dig.paths.tables import RankedTable, WalkTable
from captum_dig.paths.walks import Walk
from captum_dig.threads import Lock
from captum_dig.vocabulary import Vocabulary, check_rows

# Tables kept, one per baseline vector; a ranked table of a 256,000-word vocabulary takes 65 MB.
_TABLES = 8
# Elements of the points of walks that are kept; further ones are made again. A device waits where points are made.
_KEPT = 2**22
_KEPT_ON_DEVICE = 2**27
# Elements of the points that are made together: few enough for a processor's cache.
_CACHED = 2**16


class WordPath(PathGenerator):
    """A path from word to word, monotone in every coordinate, over the words of a `WalkTable`.

    Every vector along the last dimension of the inputs is a word of its own. Words are recognised by their vectors. A
    vector that is no row (noise, a soft prompt) starts its walk at the nearest row and still ends exactly at itself.
    Where input and baseline agree, the path is constant. Ranked rows are kept for later calls, so the first sentence
    takes longest. Results do not depend on earlier calls, and threads may share one object.

    Subclasses implement `make_table`.

    Args:
        walk: How to go from word to word.
    """

    monotone = True
    vocabulary: Vocabulary

    def __init__(self, walk: Walk) -> None:
        self.walk = walk
        self.vocabulary, self.strategy, self.candidates = walk.vocabulary, walk.search, walk.candidates
        self.n_anchors, self.n_neighbors = walk.n_anchors, walk.n_neighbors
        self._tables: OrderedDict[bytes, WalkTable] = OrderedDict()
        self._lock = Lock()

    def __getstate__(self) -> dict[str, Any]:
        # A copy looks its tables up again.
        return {**vars(self), "_tables": OrderedDict()}

    def __repr__(self) -> str:
        name = type(self).__name__
        rows, index = self.vocabulary.fingerprint[:12], self.vocabulary.index_name
        some = "" if self.candidates is None else f", candidates={digest(self.candidates.numpy())[:8]}"
        search = "" if index == "Flat" else f", index={index!r}"
        numbers = f"n_anchors={self.n_anchors}, n_neighbors={self.n_neighbors}"
        return f"{name}({self.strategy!r}, {numbers}, vocabulary={rows}{search}{some})"

    def describe(self) -> dict[str, int | None]:
        """Return the numbers of anchors and neighbours, and the seed of a random search."""
        return {"n_anchors": self.n_anchors, "n_neighbors": self.n_neighbors, "seed": seed_of(self.strategy)}

    def passed_words(self, ids: Tensor, goal: int) -> Tensor:
        """Find the anchors of some words."""
        return self.anchor_ids(ids, goal)[:, 1:]

    def ways(self, inputs: Tensor, baselines: Tensor) -> Tensor:
        """Build the knots of single words: no word depends on the others."""
        return self(inputs, baselines)

    @abstractmethod
    def make_table(self, baseline: Tensor) -> WalkTable:
        """Make the table of the walks to a baseline, a vector of shape (D,), float32 on the CPU."""

    def anchor_ids(self, input_ids: Tensor, baseline_id: int) -> Tensor:
        """Find the words that the paths of some words visit.

        Args:
            input_ids: Rows, shape (N,), any integer dtype.
            baseline_id: The row that the paths go to.

        Returns:
            Row ids, shape (N, m + 1), int64 on the CPU, the word itself first. Where no candidate is left,
            `baseline_id`, or the first row that equals it.

        Raises:
            TypeError: If the ids are no integers.
            ValueError: If the ids have another shape or are not rows of the vocabulary.

        Example:
            >>> vocabulary = Vocabulary(torch.tensor([[0.0], [1.0], [2.0], [4.0]]))
            >>> MonotonicPath(vocabulary, n_anchors=3, n_neighbors=3).anchor_ids(torch.tensor([3]), baseline_id=0)
            tensor([[3, 2, 1, 0]])
        """
        ids = check_rows("input_ids", input_ids, len(self.vocabulary))
        most = len(self.vocabulary) - 1
        if isinstance(baseline_id, bool) or not hasattr(baseline_id, "__index__") or not 0 <= baseline_id <= most:
            raise ValueError(f"ids must be rows of the vocabulary, from 0 to {most}, got {baseline_id!r}")
        # The first of several equal rows represents them all, as for paths that start from vectors.
        goal = self.vocabulary.rows[[baseline_id]]
        return self.table(goal[0]).walk(ids, int(self.vocabulary.find(goal)))

    def table(self, baseline: Tensor) -> WalkTable:
        """Look up the table of the walks to a baseline.

        Args:
            baseline: The vector, shape (D,), float32 on the CPU.

        Returns:
            The table, which later calls share.
        """
        key = baseline.numpy().tobytes()
        # A tensor made in inference mode could not be changed outside of it.
        with self._lock, torch.inference_mode(mode=False):
            if key not in self._tables:
                self._tables[key] = self.make_table(baseline.clone())
            self._tables.move_to_end(key)
            if len(self._tables) > _TABLES:
                self._tables.popitem(last=False)
            return self._tables[key]

    def knots(self, inputs: Tensor, baselines: Tensor) -> Tensor | Polyline:
        """Look up the anchors of every different word once; the polyline monotonizes them."""
        if inputs.dim() < 2 or inputs.shape[-1] != self.vocabulary.dim:
            raise ValueError(
                f"inputs must have shape (B, ..., {self.vocabulary.dim}), the width of the vocabulary, "
                f"got {tuple(inputs.shape)}; "
                "attribute to the layer that `model.get_input_embeddings()` returns"
            )
        if inputs.dim() == 2:
            # The words of a polyline of shape (B, D) are coordinates, and a walk moves none by itself.
            return Together((cast("Polyline", self.knots(inputs[:, None], baselines[:, None])),)).knots()[0, :, :, 0]
        ends = inputs.reshape(-1, inputs.shape[-1])
        starts = baselines.reshape(-1, baselines.shape[-1])
        goals = self.vocabulary.find(starts.to("cpu", torch.float32))
        firsts, numbers = self._different(ends, starts, goals)
        ends, starts = ends[firsts], starts[firsts]
        rows, anchors = self._anchors(ends, starts, goals[firsts])
        return Monotonized(inputs, baselines, numbers.to(inputs.device), (ends, starts), rows, anchors)

    def _different(self, ends: Tensor, starts: Tensor, goals: Tensor) -> tuple[Tensor, Tensor]:
        """Find the different pairs of (N, D) ends: where each stands first, (U,), and the number of each, (N,)."""
        rows = self.vocabulary.find(ends.to("cpu", torch.float32))
        places = torch.arange(len(ends), device="cpu")
        known = (rows >= 0) & (goals >= 0)
        keys = torch.where(known, rows * len(self.vocabulary) + goals, -1 - places)
        numbers = torch.unique(keys, return_inverse=True)[1]
        firsts = torch.full((int(numbers.max()) + 1,), len(ends), device="cpu").scatter_reduce(
            0, numbers, places, "amin"
        )
        # Vectors of double precision may differ and be the same row.
        same = [(vectors == vectors[firsts[numbers].to(vectors.device)]).all(dim=1).cpu() for vectors in (ends, starts)]
        other = (~(same[0] & same[1])).nonzero()[:, 0]
        numbers[other] = len(firsts) + torch.arange(len(other), device="cpu")
        return torch.cat([firsts, other]), numbers

    def _anchors(self, ends: Tensor, starts: Tensor, goals: Tensor) -> tuple[Tensor, Tensor]:
        """Vectors, (M, D), and for each anchor its number among these, (m, U), from the input's side, or -1.

        -1 stands for the baseline itself, which need not be a row: where a word rests, or a walk is without candidates.
        """
        ids = torch.full((self.n_anchors, len(ends)), -1, dtype=torch.int64, device="cpu")
        moving = (ends != starts).any(dim=1)
        if bool(moving.any()):
            ids[:, moving.cpu()] = self._walk(ends[moving], starts[moving], goals[moving.cpu()])
        if ends.device.type == "cpu" and ends.dtype == self.vocabulary.rows.dtype:
            return self.vocabulary.rows, ids
        # Each row is copied once to the device of the inputs.
        met, numbers = torch.unique(ids.clamp(min=0), return_inverse=True)
        rows = self.vocabulary.rows[met].to(ends.device, torch.promote_types(ends.dtype, torch.float32))
        return rows, torch.where(ids < 0, ids, numbers).to(ends.device)

    def _walk(self, ends: Tensor, starts: Tensor, goal_ids: Tensor) -> Tensor:
        """The anchors of vectors that differ from their baselines, (N, D): row ids, (m, N), on the CPU."""
        words = self.vocabulary.locate(ends)
        goals = starts.to("cpu", torch.float32)
        # Comparing ids is quicker than comparing rows.
        strange = goal_ids < 0
        which = goal_ids.clone()
        which[strange] = -1 - torch.unique(goals[strange], dim=0, return_inverse=True)[1]
        ids = torch.empty((self.n_anchors, len(ends)), dtype=torch.int64, device="cpu")
        for number in which.unique():
            here = which == number
            first = int(here.to(torch.int8).argmax())
            ids[:, here] = self.table(goals[first]).walk(words[here], int(goal_ids[first]))[:, 1:].T
        return ids


class Monotonized(Polyline):
    """Walks from word to word, monotonized when a point is wanted.

    A word that stands in several places of a batch has one walk. Points depend on those before them, so every few
    points of each walk are kept, and those between are made again. This is quick from the inputs to the baselines.

    Args:
        inputs: Where the paths end, shape (B, T, ..., D).
        baselines: Where they begin, same shape.
        numbers: The walk of each vector of the inputs, shape (N,), on their device.
        ends: Where the walks begin and where they end, two tensors of shape (U, D).
        rows: Vectors of anchors, shape (M, D), float32 or wider.
        anchors: The number of each anchor among the rows, from the input's side, shape (m, U); -1 for the baseline.
    """

    def __init__(
        self,
        inputs: Tensor,
        baselines: Tensor,
        numbers: Tensor,
        ends: tuple[Tensor, Tensor],
        rows: Tensor,
        anchors: Tensor,
    ) -> None:
        super().__init__(inputs, baselines, len(anchors) + 1)
        self._numbers = numbers.reshape(len(inputs), -1)
        # Half precision would round every step. One rounding at the end keeps the paths monotone.
        start, self._goals = (vectors.to(self.precise) for vectors in ends)
        self._rows, self._n_anchors = rows, len(anchors)
        # The last step goes to the baseline.
        self._anchors = torch.cat([anchors, torch.full_like(anchors[:1], -1)])
        on_host = start.device.type == "cpu"
        self._stride = math.ceil(len(self._anchors) * start.numel() / (_KEPT if on_host else _KEPT_ON_DEVICE))
        self._at_once = max(1, (_CACHED if on_host else _KEPT) // start.shape[1])
        self._last: tuple[Tensor, Tensor] | None = None
        self._kept = start.new_empty(self.n_pieces // self._stride + 1, *start.shape)
        self._kept[0] = start
        self._lengths = start.new_empty(self.n_pieces, len(start))
        every = torch.arange(len(start), device=start.device)
        for first in range(0, len(start), self._at_once):
            some = slice(first, first + self._at_once)
            walked = self._walked(every[some], start[some], torch.zeros_like(every[some]), self.n_pieces)
            for step, (before, after) in enumerate(itertools.pairwise(walked), 1):
                self._lengths[-step, some] = (self._rounded(before) - self._rounded(after)).norm(dim=1)
                if step % self._stride == 0:
                    self._kept[step // self._stride, some] = after

    def lengths(self) -> Tensor:
        """Return the lengths of the pieces, measured when the walks were made."""
        each = self._lengths[:, self._numbers].unflatten(2, (self.n_words, -1))
        # A word of one vector keeps its length to the last bit.
        lengths: Tensor = each.norm(dim=-1) if each.shape[-1] > 1 else each[..., 0]
        return lengths

    def pieces(self, numbers: Tensor) -> tuple[Tensor, Tensor]:
        """Look up the points before and behind each piece, or make them from the last one that is kept."""
        steps = self._steps(numbers)
        if self._stride == 1:
            walks = self._numbers.flatten()
            left, right = self._kept[steps + 1, walks], self._kept[steps, walks]
        else:
            self._last = None
            left, right = (torch.cat(parts, dim=1) for parts in zip(*self._in_turn(steps), strict=True))
        shape = (*numbers.shape[:2], self.n_words, -1)
        return self._rounded(left).reshape(shape), self._rounded(right).reshape(shape)

    def steps(self, cells: StepPlaces) -> tuple[Tensor, Tensor]:
        """Make nodes and displacements of a few words at a time, where not all points are kept."""
        if self._stride == 1:
            return super().steps(cells)
        n_steps = len(cells.node)
        each = StepPlaces(*(None if places is None else self._each(places) for places in cells))  # type: ignore[arg-type]
        shape = (n_steps, *self.inputs.shape)
        points, moves = self.inputs.new_empty(shape), self._kept.new_empty(shape)
        flat = [made.reshape(n_steps, self._numbers.numel(), -1) for made in (points, moves)]
        in_turn = self._in_turn(self._steps(cells.numbers()))
        for place, (left, right) in zip(itertools.count(0, self._at_once), in_turn, strict=False):
            some = slice(place, place + self._at_once)
            here = StepPlaces(*(None if places is None else places[:, some] for places in each))  # type: ignore[arg-type]
            made = on_pieces(self._rounded(left), self._rounded(right), here)
            for whole, part in zip(flat, made, strict=True):
                whole[:, some] = part
        return points, moves

    def _each(self, numbers: Tensor) -> Tensor:
        """Repeat values for words, (n, B, 1) or (n, B, W), for each of their vectors, (n, N)."""
        n_vectors = self._numbers.shape[1]
        if numbers.shape[-1] not in (1, n_vectors):
            numbers = numbers.repeat_interleave(n_vectors // self.n_words, dim=-1)
        return numbers.expand(*numbers.shape[:2], n_vectors).flatten(1)

    def _steps(self, numbers: Tensor) -> Tensor:
        """The step at the end of each piece; a walk goes the other way, so the end of the last piece is its begin."""
        return self.n_pieces - 1 - self._each(numbers)

    def _in_turn(self, steps: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """Make the points behind and before some steps, (n, N), a few words at a time: pairs of (n, N', D)."""
        walks = self._numbers.flatten()
        first, last = steps.amin(dim=0), steps.amax(dim=0)
        # An attribution goes from the inputs to the baselines, as walks do: it goes on where the last call ended.
        begin, points = self._last or (first + 1, self._goals.new_zeros(len(walks), self._goals.shape[1]))
        passed = begin > first
        begin = torch.where(passed, first // self._stride * self._stride, begin)
        reached = torch.empty_like(points)
        for place in range(0, len(walks), self._at_once):
            some = slice(place, place + self._at_once)
            kept = self._kept[begin[some] // self._stride, walks[some]]
            start = torch.lerp(points[some], kept, passed[some, None].to(kept.dtype))
            offset = steps[:, some] - begin[some]
            columns = torch.arange(len(start), device=start.device)
            made = torch.stack(list(self._walked(walks[some], start, begin[some], int(offset.max()) + 1)))
            reached[some] = made[last[some] - begin[some], columns]
            yield made[offset + 1, columns], made[offset, columns]
        self._last = last, reached

    def _walked(self, walks: Tensor, points: Tensor, begin: Tensor, n_steps: int) -> Iterator[Tensor]:
        """Yield a point of each walk, after `begin` steps, and those of the next steps, shape (N, D) each."""
        goals = self._goals[walks]
        yield points
        for step in range(n_steps):
            # Behind its end a walk stays where it is.
            anchors = self._anchors[(begin + step).clamp(max=self._n_anchors), walks]
            rests = (anchors < 0).to(points.dtype)[:, None]
            # For single rows `lerp` takes a third of the time of `torch.where`, and gives either end exactly.
            there = torch.lerp(self._rows[anchors.clamp(min=0)], goals, rests)
            points = monotonize(there, points, goals, self._n_anchors)
            yield points

    def _rounded(self, points: Tensor) -> Tensor:
        """Round points to the dtype of the inputs, as knots are."""
        return points.to(self.inputs.dtype).to(self.precise)


class MonotonicPath(WordPath):
    """The path of Discretized Integrated Gradients: from word to word, monotone in every coordinate.

    Every vector along the last dimension of the inputs is a word of its own. Words are recognised by their vectors. A
    vector that is no row (noise, a soft prompt) starts its walk at the nearest row and still ends exactly at itself.
    Where input and baseline agree, the path is constant. Ranked rows are kept for later calls, so the first sentence
    takes longest. Results do not depend on earlier calls, and threads may share one object.

    Args:
        vocabulary: The rows of the embedding layer that is attributed to.
        strategy: ``"greedy"``, ``"maxcount"``, ``"random_neighbor"``, ``"random_anchor"``, or an `AnchorSearch`.
        n_anchors: The paper's m: words on the way, at least 1. The number of gradients is `n_steps`, not this.
        n_neighbors: The paper's K: candidates for each anchor, at least 1.
        candidates: Rows that may be anchors, a boolean mask of shape (V,); None for every row, as in the paper.
        seed: For the random strategies; None draws one from torch's generator.
        folder: The folder for ranked tables of other processes; None for no folder. Tables of random strategies and of
            an `AnchorSearch` of your own are not written.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If `strategy` is unknown, a number is below 1, or `candidates` has another shape or allows no row.

    Example:
        >>> vocabulary = Vocabulary(torch.tensor([[0.0, 0.0], [1.0, 2.0], [2.0, 2.0], [4.0, 3.0]]))
        >>> path = MonotonicPath(vocabulary, "greedy", n_anchors=2, n_neighbors=3)
        >>> path(torch.tensor([[4.0, 3.0]]), torch.tensor([[0.0, 0.0]]))[:, 0].tolist()
        [[0.0, 0.0], [1.0, 2.0], [2.0, 2.0], [4.0, 3.0]]

    References:
        Sanyal and Ren (2021), section 2.3, algorithms 1 and 2 [sanyal-ren-2021].
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        strategy: str | AnchorSearch = "greedy",
        n_anchors: int = 30,
        n_neighbors: int = 500,
        *,
        candidates: Tensor | None = None,
        seed: int | None = None,
        folder: TableFolder | None = None,
    ) -> None:
        super().__init__(Walk.over(vocabulary, strategy, n_anchors, n_neighbors, candidates, seed, folder))

    @classmethod
    def along(cls, walk: Walk) -> "MonotonicPath":
        """Make the path of a walk."""
        return cls(
            walk.vocabulary,
            walk.search,
            walk.n_anchors,
            walk.n_neighbors,
            candidates=walk.candidates,
            folder=walk.folder,
        )

    def make_table(self, baseline: Tensor) -> RankedTable:
        """Make the table that ranks each row's neighbours once."""
        return RankedTable(self.walk, baseline)

    def table(self, baseline: Tensor) -> RankedTable:
        """Look up the ranked table of the paths to a baseline.

        Args:
            baseline: The vector, shape (D,), float32 on the CPU.

        Returns:
            The table, which later calls share.
        """
        return cast("RankedTable", super().table(baseline))

    def store(self) -> None:
        """Write the ranked tables to the folder, if there is one."""
        with self._lock:
            tables = [cast("RankedTable", table) for table in self._tables.values()]
        for table in tables:
            table.store()
