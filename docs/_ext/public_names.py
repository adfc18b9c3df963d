"""Sphinx extension: names in docstrings become links, and `[key]` becomes a citation.

The package's docstrings write names between single backticks and papers as a BibTeX key between brackets, so that they
read well in a terminal. Types in signatures name the module that a class lives in; the reference lists it
under the name that it is imported by.
"""

import importlib
import re
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

import captum_dig

_MODULES = (
    "captum_dig.metrics",
    "captum_dig.testing",
    "captum_dig.visualization",
    "captum_dig.study",
    "captum_dig.comparison",
)
# Classes that plug-ins meet in arguments and results, by the module that they are imported from.
_OTHERS = {
    "Catalogue": "captum_dig.catalogue",
    "CATALOGUE": "captum_dig.catalogue",
    "Cells": "captum_dig.quadrature",
    "Choice": "captum_dig.tasks.base",
    "Drawable": "captum_dig.visualization.formats",
    "Encoding": "captum_dig.models.encoding",
    "Integral": "captum_dig.attribution",
    "Journal": "captum_dig.comparison.journal",
    "LabelTask": "captum_dig.tasks.labels",
    "Measured": "captum_dig.methods.base",
    "RankedTable": "captum_dig.paths.tables",
    "Refinement": "captum_dig.attribution",
    "TableFolder": "captum_dig.paths.folders",
    "TextEncoder": "captum_dig.models.encoding",
    "Trial": "captum_dig.metrics.measures",
    "Trials": "captum_dig.metrics.measures",
    "Walk": "captum_dig.paths",
}
_KEY = re.compile(r"^@\w+\{([^,\s]+),", re.MULTILINE)
# What is between double backticks is code already, and what follows a colon is a role.
_QUOTED = re.compile(r"``.+?``|\||(?<!:)`([^`]+)`", re.DOTALL)
_CITED = re.compile(r"\[([a-z]+(?:-[a-z]+)*-\d{4})\]")


def public_names() -> dict[str, str]:
    """Where each public name is documented, by its last part."""
    places = {name: f"captum_dig.{name}" for name in captum_dig.__all__}
    for module in _MODULES:
        for name in importlib.import_module(module).__all__:
            places.setdefault(name, f"{module}.{name}")
    return places | {name: f"{module}.{name}" for name, module in _OTHERS.items()}


def _rewrite(_app: Sphinx, what: str, name: str, _thing: object, _options: Any, lines: list[str]) -> None:
    names = public_names()
    keys = set(_KEY.findall((Path(__file__).parents[1] / "references.bib").read_text("utf-8")))

    def link(match: re.Match[str]) -> str:
        quoted = match[1]
        if quoted is None:
            # A bar is an absolute value here, and would begin a substitution.
            return r"\|" if match[0] == "|" else match[0]
        first, _, rest = quoted.partition(".")
        target = f"{names.get(first)}.{rest}" if rest else names.get(first)
        role = f":py:obj:`{quoted} <{target}>`" if first in names else f"``{quoted}``"
        # As in "`Segment`s".
        return role + (r"\ " if match.string[match.end() : match.end() + 1].isalpha() else "")

    def cite(match: re.Match[str]) -> str:
        if match[1] not in keys:
            raise ValueError(f"references.bib must hold every key that a docstring cites, got {match[1]!r} in {name}")
        return f"(:cite:`{match[1]}`)"

    # Examples are code, and stay as they are.
    parts: list[list[str]] = [[]]
    for line in lines:
        is_example = line.lstrip().startswith((">>>", "..."))
        if is_example or (parts[-1] and parts[-1][0].lstrip().startswith((">>>", "..."))):
            parts.append([line])
        else:
            parts[-1].append(line)
    result = []
    for part in parts:
        text = "\n".join(part)
        result.append(text if text.lstrip().startswith((">>>", "...")) else _CITED.sub(cite, _QUOTED.sub(link, text)))
    lines[:] = "\n".join(result).split("\n")
    if what in ("attribute", "property"):
        # Napoleon takes what stands before a colon in the first line for a type. An empty comment has no colon.
        lines[:0] = ["..", ""]


def _resolve(app: Sphinx, env: Any, node: nodes.Element, content: nodes.TextElement) -> nodes.Node | None:
    if node.get("refdomain") != "py":
        return None
    place = public_names().get(node["reftarget"].rpartition(".")[2])
    if place is None or node["reftarget"] == place:
        return None
    domain = env.get_domain("py")
    found: nodes.Node | None = domain.resolve_xref(env, node["refdoc"], app.builder, "obj", place, node, content)
    return found


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the hooks."""
    # Before Napoleon (500), which breaks texts into fields.
    app.connect("autodoc-process-docstring", _rewrite, priority=400)
    app.connect("missing-reference", _resolve)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
