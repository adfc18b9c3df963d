"""NamedMethods: attribution methods by name, over one vocabulary.

Takes a name of the catalogue, a search, a path or a method; gives a method, the same object each time. `explain` and
`compare` both look up methods here, and therefore take the same names.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, cast

from captum_dig.catalogue import CATALOGUE, Catalogue
from captum_dig.entries import STRATEGIES
from captum_dig.methods.along_path import PathMethod
from captum_dig.methods.base import AttributionMethod
from captum_dig.paths import MonotonicPath, PathGenerator, Walk
from captum_dig.paths.anchors import AnchorSearch
from captum_dig.threads import Lock

Strategy: TypeAlias = str | AnchorSearch | PathGenerator | AttributionMethod

# Methods kept; the tables of a path over 256,000 rows take 65 MB.
_KEPT = 8


class NamedMethods:
    """Methods over one vocabulary, each made on first use.

    The last 8 are kept, so later calls use the ranked tables of their paths.

    Args:
        walk: Returns the settings of a walk. It is called when a path first needs words.
        seed: For methods that draw. None means 0 for staggered words, and a draw of torch's for random searches.
        catalogue: The catalogue for names.

    Example:
        >>> import torch
        >>> from captum_dig import Vocabulary
        >>> named = NamedMethods(lambda: Walk.over(Vocabulary(torch.eye(4)), n_anchors=2, n_neighbors=3))
        >>> named.find("straight_line").path, named.find("leave_one_out").path
        (StraightLine(), None)
    """

    def __init__(self, walk: Callable[[], Walk], seed: int | None = None, catalogue: Catalogue = CATALOGUE) -> None:
        self.catalogue = catalogue
        self._walk, self._seed = walk, seed
        self._kept: OrderedDict[Hashable, AttributionMethod] = OrderedDict()
        # By their names, so that a search that drew its seed comes back with it.
        self._searches: dict[str, AnchorSearch] = {}
        self._lock = Lock()

    def find(self, strategy: Strategy, *, seed: int | None = None, argument: str = "strategy") -> AttributionMethod:
        """Look up a method.

        Args:
            strategy: A name of the catalogue, an `AnchorSearch`, a `PathGenerator`, or a method, which is itself.
            seed: For methods that draw; None for the constructor's.
            argument: The name of the argument in messages.

        Returns:
            The method. It has the name that it was found by; a method of a path or search has the path's or search's.

        Raises:
            ValueError: If there is no such method, or it does not fit the numbers of the walk.
        """
        if isinstance(strategy, AttributionMethod):
            return strategy
        if isinstance(strategy, PathGenerator):
            return PathMethod(repr(strategy), strategy)
        remedy = "or pass an AnchorSearch, a PathGenerator or an AttributionMethod"
        seed = self._seed if seed is None else seed
        with self._lock:
            if isinstance(strategy, AnchorSearch):
                return self._keep(_key(strategy), lambda: self._along(strategy, repr(strategy)))
            entry = self.catalogue.find(strategy, *STRATEGIES, argument=argument, remedy=remedy)
            name, found = str(strategy), entry.load()
            drawn = seed if getattr(found, "draws", False) else None
            method = self._keep((entry.kind, entry.name, drawn), lambda: self._make(entry.name, found, drawn))
        return replace(method, name=name) if isinstance(method, PathMethod) else method

    def store(self) -> None:
        """Store what the paths of the kept methods have computed for other processes."""
        with self._lock:
            kept = list(self._kept.values())
        for method in kept:
            if method.path is not None:
                method.path.store()

    def _keep(self, key: Hashable, make: Callable[[], AttributionMethod]) -> AttributionMethod:
        if key not in self._kept:
            self._kept[key] = make()
        self._kept.move_to_end(key)
        while len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
        return self._kept[key]

    def _make(self, name: str, found: Any, seed: int | None) -> AttributionMethod:
        if not isinstance(found, type):
            return self.find(found)
        if issubclass(found, AnchorSearch):
            if seed is not None:
                return self._along(found.seeded(seed), name)
            if name not in self._searches:
                self._searches[name] = found.seeded(None)
            return self._along(self._searches[name], name)
        if issubclass(found, PathGenerator):
            return PathMethod(name, found.named(self._walk, seed))
        method: Any = found()
        return cast("AttributionMethod", method)

    def _along(self, search: AnchorSearch, name: str) -> PathMethod:
        return PathMethod(name, MonotonicPath.along(replace(self._walk(), search=search)))


def _key(search: AnchorSearch) -> Hashable:
    """Equal searches share a path; one without a hash shares with itself alone."""
    try:
        hash(search)
    except TypeError:
        return _Itself(search)
    return search


@dataclass(frozen=True, eq=False)
class _Itself:
    """A key for an object without a hash; in a copied dictionary it stands for the copied object."""

    thing: object

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Itself) and self.thing is other.thing

    def __hash__(self) -> int:
        return id(self.thing)
