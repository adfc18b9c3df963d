"""WalkTable: the words on the way from each word to a baseline.

Takes a `Vocabulary`, an `AnchorSearch` and a baseline; gives for some word ids the ids of the words on their way. Each
walk is computed once. A `RankedTable` ranks each row's best candidates when a walk first meets the row; a later walk
only looks them up and skips visited words. `TableFolder` keeps the ranked rows for the next process.
`captum_dig.paths.words` turns the anchors into knots.
"""

import functools
import json
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import torch
from torch import Tensor

from captum_dig.errors import PathError
from captum_dig.paths.anchors import Neighborhood
from captum_dig.paths.folders import Array, digest
from captum_dig.paths.walks import Walk
from captum_dig.threads import Lock
from captum_dig.vocabulary import BLOCK_ELEMENTS, check_rows

# Rows searched at once: FAISS reads the whole vocabulary for every search.
_SEARCH_ROWS = 1024
# Marks the end of a walk; the table does not know the row of the baseline.
AT_BASELINE: Final = -2
# Raise it with every change to the file format, or to the results of neighbours, costs or monotonize.
_FORMAT_VERSION: Final = 1


class WalkTable(ABC):
    """The walks from words to one baseline. Each is a function of its word and is computed once.

    Subclasses implement `find`.

    Args:
        walk: How to go from word to word. The paper's m is also the length of the walks.
        baseline: The vector that paths go to, shape (D,), float32.
    """

    @torch.inference_mode(mode=False)
    def __init__(self, walk: Walk, baseline: Tensor) -> None:
        self._walk, self._baseline = walk, baseline
        vocabulary = walk.vocabulary
        # Walks must not end early at another row with the contents of the baseline, such as a table's padding.
        self._is_baseline = torch.zeros(len(vocabulary), dtype=torch.bool, device="cpu")
        self._is_baseline[vocabulary.equal_rows(baseline)] = True
        # int32 halves the memory of a table and holds any row id.
        self._walks = torch.empty((len(vocabulary), walk.n_anchors + 1), dtype=torch.int32, device="cpu")
        self._walked = torch.zeros(len(vocabulary), dtype=torch.bool, device="cpu")

    @abstractmethod
    def find(self, words: Tensor) -> Tensor:
        """Find the walks of different words, shape (N,): row ids, shape (N, m + 1), AT_BASELINE after their end."""

    def walk(self, input_ids: Tensor, baseline_id: int) -> Tensor:
        """Walk from every word to the baseline, and visit no word twice.

        Args:
            input_ids: The words, shape (N,), any integer dtype.
            baseline_id: The row of the baseline, which ends a walk; -1 if the baseline is no row.

        Returns:
            Row ids, shape (N, m + 1), the word itself first; `baseline_id` from the place on where no candidate is
            left.

        Raises:
            TypeError: If the words are no integers.
            ValueError: If they have another shape or are not rows of the vocabulary.
        """
        input_ids = check_rows("input_ids", input_ids, len(self._walk.vocabulary))
        new = torch.unique(input_ids[self._walked[input_ids].logical_not()])
        if len(new):
            self._walks[new] = self.find(new).to(torch.int32)
            self._walked[new] = True
        walks = self._walks[input_ids].to(torch.int64)
        return torch.where(walks == AT_BASELINE, baseline_id, walks)

    def _moving(self, current: Tensor) -> Tensor:
        """Mark the walks that have not reached the baseline."""
        return (current >= 0) & ~self._is_baseline[current.clamp(min=0)]

    def _allowed(self, proposed: Tensor) -> Tensor:
        """The candidates, with -1 in place of the baseline."""
        return torch.where(self._is_baseline[proposed.clamp(min=0)], -1, proposed)

    def _order(self, ids: Tensor, proposed: Tensor) -> Tensor:
        """Candidates by cost, the nearer first among equals, absent ones last."""
        rows = self._walk.vocabulary.rows
        costs = self._walk.search(
            Neighborhood(ids, rows[ids], proposed, rows[proposed.clamp(min=0)], self._baseline, self._walk.n_anchors)
        )
        ranked = proposed.gather(1, costs.sort(dim=1, stable=True).indices)
        return ranked.gather(1, (ranked < 0).sort(dim=1, stable=True).indices)

    def _in_order(self, ids: Tensor, proposed: Tensor) -> Tensor:
        """The same for many words, in blocks that stay in the processor's caches."""
        step = max(1, BLOCK_ELEMENTS // max(1, proposed.shape[1] * self._walk.vocabulary.dim))
        blocks = zip(ids.split(step), proposed.split(step), strict=True)
        return torch.cat([self._order(words, candidates) for words, candidates in blocks])

    @staticmethod
    def _step(options: Tensor, visited: Tensor) -> Tensor:
        """The first option of each walk that it has not visited, shape (N, 1)."""
        taken = (options[:, :, None] == visited[:, None, :]).any(dim=-1) | (options < 0)
        free = taken.logical_not()
        first = options.gather(1, free.to(torch.int8).argmax(dim=1, keepdim=True))
        return torch.where(free.any(dim=1, keepdim=True), first, AT_BASELINE)


class RankedTable(WalkTable):
    """Each row's best candidates on the way to one baseline, ranked when a walk first meets the row.

    Args:
        walk: How to go from word to word; its folder keeps ranked rows for other processes.
        baseline: The vector that paths go to, shape (D,), float32.

    Example:
        >>> from captum_dig import Greedy, Vocabulary
        >>> vocabulary = Vocabulary(torch.tensor([[0.0], [1.0], [2.0], [4.0]]))
        >>> table = RankedTable(Walk(vocabulary, Greedy(), n_anchors=2, n_neighbors=3), vocabulary.rows[0])
        >>> table.walk(torch.tensor([3]), baseline_id=0)
        tensor([[3, 2, 1]])
    """

    @torch.inference_mode(mode=False)
    def __init__(self, walk: Walk, baseline: Tensor) -> None:
        super().__init__(walk, baseline)
        n_rows = len(walk.vocabulary)
        # A walk has at most m words and the baseline behind it, so one candidate more than those is always free.
        self._depth = walk.n_anchors + 2
        self._ranked = torch.full((n_rows, self._depth), -1, dtype=torch.int32, device="cpu")
        self._known = torch.zeros(n_rows, dtype=torch.bool, device="cpu")
        self._lock = Lock()
        self._folder = walk.folder if walk.search.identity is not None else None
        self._n_stored = 0
        if self._folder is not None:
            self._take(self._folder.load(self.key, n_rows, self._depth))
            self._n_stored = self.n_ranked

    def __len__(self) -> int:
        """Return V, the number of rows."""
        return len(self._known)

    @property
    def n_ranked(self) -> int:
        """How many rows have been ranked."""
        return int(self._known.sum())

    @functools.cached_property
    def key(self) -> str:
        """Everything that the table depends on, as JSON: the contents of the vocabulary, never a model's name."""
        mask = "all" if self._walk.candidates is None else digest(self._walk.candidates.numpy())
        values = {
            "format": _FORMAT_VERSION,
            "vocabulary": self._walk.vocabulary.fingerprint,
            "index": self._walk.vocabulary.index_name,
            "strategy": self._walk.search.identity,
            "baseline": digest(self._baseline.numpy()),
            "n_anchors": self._walk.n_anchors,
            "n_neighbors": self._walk.n_neighbors,
            "candidates": mask,
        }
        return json.dumps(values, sort_keys=True)

    def find(self, words: Tensor) -> Tensor:
        """Walk from different words, to the best candidate that has not been visited each time."""
        visited: Tensor = words[:, None]
        for _ in range(self._walk.n_anchors):
            moving = self._moving(visited[:, -1])
            options = torch.full((len(words), self._depth), -1, dtype=torch.int64, device="cpu")
            options[moving] = self._options(visited[moving, -1])
            visited = torch.cat([visited, self._step(options, visited)], dim=1)
        return visited

    def rank(self, ids: Tensor) -> None:
        """Rank the rows that have not been ranked yet.

        Args:
            ids: Rows, shape (N,), any integer dtype.

        Raises:
            TypeError: If the ids are no integers.
            ValueError: If they have another shape or are not rows of the vocabulary.
        """
        ids = check_rows("ids", ids, len(self))
        # One thread ranks a row while the others wait, so no row is ranked twice.
        with self._lock:
            new = torch.unique(ids[self._known[ids].logical_not()])
            for block in new.split(_SEARCH_ROWS) if len(new) else ():
                self._ranked[block] = self._best(block).to(torch.int32)
                self._known[block] = True

    def rank_all(self) -> Iterator[int]:
        """Rank the whole vocabulary, block by block; yields how many rows are done."""
        for block in torch.arange(len(self._walk.vocabulary), device="cpu").split(_SEARCH_ROWS):
            self.rank(block)
            yield int(block[-1]) + 1

    def store(self) -> Path | None:
        """Write the rows ranked since the last call to the folder; return the file, or None if there is none."""
        with self._lock:
            if self._folder is None:
                return None
            if self.n_ranked == self._n_stored:
                return self._folder.path(self.key)
            # Another process may have ranked other rows in the meantime.
            self._take(self._folder.load(self.key, len(self._walk.vocabulary), self._depth))
            ids = self._known.nonzero()[:, 0]
            self._n_stored = len(ids)
            return self._folder.save(self.key, ids.to(torch.int32).numpy(), self._ranked[ids].numpy())

    def _take(self, found: tuple[Array, Array] | None) -> None:
        if found is not None:
            ids = torch.from_numpy(found[0]).to(torch.int64)
            self._ranked[ids] = torch.from_numpy(found[1])
            self._known[ids] = True

    def _options(self, ids: Tensor) -> Tensor:
        """The ranked candidates of some rows, shape (N, depth), int64."""
        self.rank(ids)
        return self._ranked[ids].to(torch.int64)

    def _best(self, ids: Tensor) -> Tensor:
        """Rank the candidates of some rows: shape (N, depth)."""
        best = self._in_order(ids, self._propose(ids))[:, : self._depth]
        return torch.nn.functional.pad(best, (0, self._depth - best.shape[1]), value=-1)

    def _propose(self, ids: Tensor) -> Tensor:
        """The candidates of some rows, the baseline not among them."""
        proposed = self._walk.search.propose(
            self._walk.vocabulary, ids, self._walk.n_neighbors, self._walk.n_anchors, self._walk.candidates
        )
        name = f"{type(self._walk.search).__name__}.propose"
        if proposed.dim() != 2 or len(proposed) != len(ids) or proposed.dtype != torch.int64:
            raise PathError(f"{name} must return int64 ids of shape ({len(ids)}, K), got {tuple(proposed.shape)}")
        if bool(((proposed < -1) | (proposed >= len(self._walk.vocabulary))).any()):
            raise PathError(f"{name} must return rows below {len(self._walk.vocabulary)}, or -1 where there is none")
        return self._allowed(proposed)
