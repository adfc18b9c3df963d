"""Strategies: paths that go by a name.

Takes a `Vocabulary` and the numbers that anchor searches need, gives the path that a name stands for.
`captum_dig.text` lets its users choose among them.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import TypeAlias

from torch import Tensor

from captum_dig.errors import at_least_one
from captum_dig.paths import MonotonicPath, PathGenerator, StaggeredPath, StraightLine, UniformPath
from captum_dig.paths.anchors import STRATEGIES, AnchorSearch
from captum_dig.paths.tables import TableFolder
from captum_dig.threads import Lock
from captum_dig.vocabulary import Vocabulary

Strategy: TypeAlias = str | AnchorSearch | PathGenerator

# Paths kept, each with up to as many tables.
_PATHS = 8
_SEEDED = ("random_neighbor", "random_anchor", "staggered")
NAMES = (*STRATEGIES, "straight_line", "staggered", "uniform")


def _every_row() -> None:
    return None


class PathShelf:
    """Paths over one vocabulary, each made when it is first asked for; the last 8 are kept.

    Args:
        vocabulary: The rows.
        n_anchors: The paper's m.
        n_neighbors: The paper's K.
        candidates: Gives the rows that may be anchors, a boolean mask of shape (V,), or None for all. It is called when
            a path is first asked for that looks for anchors.
        seed: For strategies that draw. None is 0 where words are staggered, and a draw of torch's for random searches.
        folder: Where ranked tables are kept for other processes; None for nowhere.

    Raises:
        ValueError: If a number is below 1.

    Example:
        >>> import torch
        >>> shelf = PathShelf(Vocabulary(torch.eye(4)), n_anchors=2, n_neighbors=3)
        >>> shelf.path("straight_line"), shelf.path("uniform")
        (StraightLine(), UniformPath(Greedy(), n_anchors=2, n_neighbors=3, vocabulary=...))
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        n_anchors: int,
        n_neighbors: int,
        candidates: Callable[[], Tensor | None] = _every_row,
        seed: int | None = None,
        folder: TableFolder | None = None,
    ) -> None:
        self._vocabulary = vocabulary
        self._n_anchors = at_least_one("n_anchors", n_anchors)
        self._n_neighbors = at_least_one("n_neighbors", n_neighbors)
        self._candidates = candidates
        self._seed = seed
        self._folder = folder
        self._paths: OrderedDict[tuple[Hashable, int | None], PathGenerator] = OrderedDict()
        # By their names, so that a random search comes back with the seed that it drew.
        self._searches: dict[str, AnchorSearch] = {}
        self._lock = Lock()

    def path(self, strategy: Strategy, *, seed: int | None = None) -> PathGenerator:
        """Look up a path.

        Args:
            strategy: One of `NAMES`, an `AnchorSearch`, or a path, which is itself.
            seed: For random strategies; None for the shelf's own.

        Returns:
            The path: the same object as long as it is kept, and later an equal one.

        Raises:
            ValueError: If there is no such strategy, or it does not fit the numbers.
        """
        if isinstance(strategy, PathGenerator):
            return strategy
        if strategy not in _SEEDED:
            seed = None
        key = (_key(strategy), seed)
        with self._lock:
            if key not in self._paths:
                self._paths[key] = self._make(strategy, self._seed if seed is None else seed)
            self._paths.move_to_end(key)
            if len(self._paths) > _PATHS:
                self._paths.popitem(last=False)
            return self._paths[key]

    def _make(self, strategy: str | AnchorSearch, seed: int | None) -> PathGenerator:
        if not isinstance(strategy, AnchorSearch) and strategy not in NAMES:
            names = ", ".join(map(repr, NAMES))
            raise ValueError(f"strategy must be one of {names}, an AnchorSearch or a PathGenerator, got {strategy!r}")
        if strategy == "straight_line":
            return StraightLine()
        if strategy == "staggered":
            return StaggeredPath(StraightLine(), seed=0 if seed is None else seed)
        candidates = self._candidates()
        if strategy == "uniform":
            return UniformPath(
                self._vocabulary, n_anchors=self._n_anchors, n_neighbors=self._n_neighbors, candidates=candidates
            )
        if isinstance(strategy, str) and seed is None:
            if strategy not in self._searches:
                self._searches[strategy] = STRATEGIES[strategy](None)
            strategy = self._searches[strategy]
        return MonotonicPath(
            self._vocabulary,
            strategy,
            self._n_anchors,
            self._n_neighbors,
            candidates=candidates,
            seed=seed,
            folder=self._folder,
        )


def _key(strategy: str | AnchorSearch) -> Hashable:
    try:
        hash(strategy)
    except TypeError:
        # Its path keeps the search alive, so that no other one has its id.
        return id(strategy)
    return strategy
