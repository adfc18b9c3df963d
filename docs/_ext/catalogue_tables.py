"""Sphinx extension: the tables of names are made from the catalogue itself.

In any page, the line ``<!-- catalogue -->`` becomes a section for each kind of entry.
"""

from typing import Any

from sphinx.application import Sphinx

from captum_dig.catalogue import CATALOGUE
from captum_dig.entries import KINDS, Kind

_MARK = "<!-- catalogue -->"
_HEADINGS: dict[Kind, str] = {
    "search": "Searches",
    "path": "Paths",
    "method": "Methods without a path",
    "rule": "Quadrature rules",
    "measure": "Measures",
    "task": "Tasks",
    "format": "Formats",
}


def _table(kind: Kind) -> str:
    """One kind: its names, aliases and meanings."""
    lines = [f"## {_HEADINGS[kind]}", "", "| name | also | title | meaning |", "|---|---|---|---|"]
    for entry in CATALOGUE:
        if entry.kind == kind:
            also = ", ".join(f"`{alias}`" for alias in entry.aliases)
            cells = [text.replace("|", "\\|") for text in (f"`{entry.name}`", also, entry.title, entry.about)]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def tables() -> str:
    """Markdown for all kinds."""
    return "\n".join([*map(_table, KINDS), "## In Python"])


def _fill_in(_app: Sphinx, _page: str, source: list[str]) -> None:
    if _MARK in source[0]:
        source[0] = source[0].replace(_MARK, tables())


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the hook."""
    app.connect("source-read", _fill_in)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
