"""WordPath: from word to word, monotone in every coordinate.

Takes a `Vocabulary` and a table of walks over it; gives knots. It recognises words by their vectors, looks up the words
on their way, and monotonizes these one after the other. `captum_dig.quadrature` comes next.
"""

from abc import abstractmethod
from collections import OrderedDict
from typing import Any, cast

import torch
from torch import Tensor

from captum_dig.paths.anchors import AnchorSearch
from captum_dig.paths.base import PathGenerator, seed_of
from captum_dig.paths.folders import TableFolder, digest
from captum_dig.paths.monotone import monotonize
from captum_dig.paths.tables import RankedTable, WalkTable
from captum_dig.paths.walks import Walk
from captum_dig.threads import Lock
from captum_dig.vocabulary import Vocabulary, check_rows

# Tables kept, one per baseline vector; a ranked table of a 256,000-word vocabulary takes 65 MB.
_TABLES = 8


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

    def knots(self, inputs: Tensor, baselines: Tensor) -> Tensor:
        """Walk from each vector to its baseline, monotonize the anchors, and return the points in reverse."""
        if inputs.dim() < 2 or inputs.shape[-1] != self.vocabulary.dim:
            raise ValueError(
                f"inputs must have shape (B, ..., {self.vocabulary.dim}), the width of the vocabulary, "
                f"got {tuple(inputs.shape)}; "
                "attribute to the layer that `model.get_input_embeddings()` returns"
            )
        # Half precision would round every step. One rounding at the end keeps the paths monotone.
        precise = torch.promote_types(inputs.dtype, torch.float32)
        ends = inputs.reshape(-1, inputs.shape[-1])
        starts = baselines.reshape(-1, baselines.shape[-1])
        moving = (ends != starts).any(dim=1)
        knots = ends.expand(self.n_anchors + 2, *ends.shape).clone()
        knots[0] = starts
        if bool(moving.any()):
            knots[:, moving] = self._walk(ends[moving].to(precise), starts[moving].to(precise)).to(inputs.dtype)
        return knots.reshape(len(knots), *inputs.shape)

    def _walk(self, inputs: Tensor, baselines: Tensor) -> Tensor:
        """Knots of vectors that differ from their baselines: two tensors (N, D) to one of (m + 2, N, D)."""
        anchors = self._anchors(inputs, baselines)
        points = [inputs]
        for anchor in anchors:
            points.append(monotonize(anchor, points[-1], baselines, self.n_anchors))
        return torch.stack([*points, baselines]).flip(0)

    def _anchors(self, inputs: Tensor, baselines: Tensor) -> Tensor:
        """Vectors of the anchors, shape (m, N, D), from the input's side."""
        starts = self.vocabulary.locate(inputs)
        goals = baselines.to("cpu", torch.float32)
        goal_ids = self.vocabulary.find(goals)
        # Comparing ids is quicker than comparing rows.
        strange = goal_ids < 0
        which = goal_ids.clone()
        which[strange] = -1 - torch.unique(goals[strange], dim=0, return_inverse=True)[1]
        ids = torch.empty((self.n_anchors, len(inputs)), dtype=torch.int64, device="cpu")
        for number in which.unique():
            here = which == number
            first = int(here.to(torch.int8).argmax())
            ids[:, here] = self.table(goals[first]).walk(starts[here], int(goal_ids[first]))[:, 1:].T
        # Each row is copied once to the device of the inputs.
        met, places = torch.unique(ids.clamp(min=0), return_inverse=True)
        anchors = self.vocabulary.rows[met].to(inputs)[places.to(inputs.device)]
        # A walk without candidates waits at the baseline, which need not be a row.
        return torch.where((ids < 0)[..., None].to(inputs.device), baselines, anchors)


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
