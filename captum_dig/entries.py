"""Entry and Catalogue: names, and the objects that they stand for.

Takes a name or an alias; gives its `Entry`, which imports the object when it is needed. This module imports no PyTorch,
so the command line lists and checks names at once. `captum_dig.catalogue` holds the entries of the package.
"""

import importlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

Kind = Literal["search", "path", "method", "rule", "measure", "task", "format"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
# The kinds that `strategy` and `methods` take: each is a way to score tokens.
STRATEGIES: Final[tuple[Kind, ...]] = ("search", "path", "method")


@dataclass(frozen=True)
class Entry:
    """One row of the catalogue.

    Attributes:
        name: The name in arguments, options and files.
        kind: ``"search"``, ``"path"``, ``"method"``, ``"rule"``, ``"measure"``, ``"task"`` or ``"format"``.
        title: The name in tables and plots, short.
        home: The class or object itself, or its place: ``"package.module:name"``.
        about: One line for a list.
        aliases: Other names for the same thing.
        default: Whether a comparison takes it where nothing is chosen.
        draws: Whether a search draws at random, so that its choices cannot be kept.

    Raises:
        ValueError: If `kind` is unknown.

    Example:
        >>> Entry("counter", "rule", "Counter", "collections:Counter").load()
        <class 'collections.Counter'>
    """

    name: str
    kind: Kind
    title: str
    home: Any
    about: str = ""
    aliases: tuple[str, ...] = ()
    default: bool = True
    draws: bool = False

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"kind must be one of {', '.join(map(repr, KINDS))}, got {self.kind!r}")

    @property
    def attribute(self) -> str:
        """The name of the class or object in its module."""
        return self.home.partition(":")[2] if isinstance(self.home, str) else self.home.__name__

    def load(self) -> Any:
        """Import the class or object."""
        if not isinstance(self.home, str):
            return self.home
        return getattr(importlib.import_module(self.home.partition(":")[0]), self.attribute)

    def make(self) -> Any:
        """Import the object; of a class make one without arguments."""
        loaded = self.load()
        return loaded() if isinstance(loaded, type) else loaded


@dataclass(frozen=True)
class Catalogue:
    """The entries for looking up names.

    Attributes:
        entries: The entries. A later one replaces an earlier one of the same name and kind.

    Example:
        >>> from captum_dig.catalogue import CATALOGUE
        >>> CATALOGUE.find("straight_line", "search", "path", "method").title
        'IG'
        >>> CATALOGUE.find("integrated_gradients", "path") is CATALOGUE.find("straight_line", "path")
        True
    """

    entries: tuple[Entry, ...]

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries)

    def plus(self, entries: Iterable[Entry]) -> "Catalogue":
        """Return a catalogue with more entries, such as those of a plug-in."""
        return Catalogue((*self.entries, *entries))

    def names(self, *kinds: Kind) -> tuple[str, ...]:
        """List the names of some kinds, without aliases, in the order of the entries."""
        return tuple(dict.fromkeys(entry.name for entry in self.entries if entry.kind in kinds))

    def defaults(self, *kinds: Kind) -> tuple[str, ...]:
        """List the names of some kinds that a comparison takes where nothing is chosen.

        Results have had the first alias of a row from the beginning, where the row has a shorter name.
        """
        rows = {entry.name: entry for entry in self.entries if entry.kind in kinds}
        return tuple((entry.aliases or (entry.name,))[0] for entry in rows.values() if entry.default)

    def get(self, name: object, *kinds: Kind) -> Entry | None:
        """Look up a name or alias among some kinds; None if there is no such entry."""
        for entry in reversed(self.entries):
            if entry.kind in kinds and name in (entry.name, *entry.aliases):
                return entry
        return None

    def find(self, name: object, *kinds: Kind, argument: str = "name", remedy: str = "") -> Entry:
        """Look up a name or alias among some kinds.

        Args:
            name: The name.
            kinds: The kinds to search.
            argument: The name of the argument in the message.
            remedy: The end of the message.

        Returns:
            The entry.

        Raises:
            ValueError: If there is no such entry; the message lists the names.
        """
        entry = self.get(name, *kinds)
        if entry is None:
            known = ", ".join(map(repr, self.names(*kinds)))
            raise ValueError(f"{argument} must be one of {known}, got {name!r}{remedy and '; '}{remedy}")
        return entry

    def title(self, name: str) -> str:
        """Return the title of a path or method; an unknown name is returned unchanged."""
        entry = self.get(name, *STRATEGIES)
        return name if entry is None else entry.title
