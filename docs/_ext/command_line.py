"""Sphinx extension: the command line's page is made from the Typer application itself.

In any page, the line ``<!-- commands -->`` becomes a section for each command, with a table of its options.
"""

from typing import Any

import typer
from sphinx.application import Sphinx

from captum_dig.cli import app as application

_MARK = "<!-- commands -->"


def _cell(text: object) -> str:
    return str(text).replace("\\[", "[").replace("|", "\\|").replace("\n", " ")


def _default(parameter: Any) -> str:
    shown = getattr(parameter, "show_default", None)
    if isinstance(shown, str):
        return shown
    value = parameter.default
    return "" if value is None or value is False or callable(value) else f"`{value}`"


def _title(parameter: Any) -> str:
    """How one argument or option is typed."""
    value = parameter.metavar or parameter.name.upper()
    if parameter.param_type_name == "argument":
        return value
    return " ".join([", ".join(parameter.opts), *([] if parameter.is_flag else [value])])


def _section(name: str, command: Any) -> str:
    """One command: its usage, what it does, its arguments and options, its examples."""
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    typed = (f"[{_title(argument)}]{'...' if argument.nargs == -1 else ''}" for argument in arguments)
    usage = " ".join([f"captum-dig {name}", "[OPTIONS]", *typed])
    lines = [f"## captum-dig {name}", "", "```text", usage, "```", "", command.help.replace("\\[", "["), ""]
    lines += ["| what is typed | meaning | default |", "|---|---|---|"]
    for parameter in command.params:
        lines.append(f"| `{_cell(_title(parameter))}` | {_cell(parameter.help or '')} | {_default(parameter)} |")
    if command.epilog:
        examples = [line.strip() for line in command.epilog.splitlines() if line.strip().startswith("captum-dig")]
        lines += ["", "```console", *(f"$ {example}" for example in examples), "```"]
    return "\n".join([*lines, ""])


def commands() -> str:
    """Markdown for all commands."""
    group: Any = typer.main.get_command(application)
    return "\n".join(_section(name, command) for name, command in group.commands.items())


def _fill_in(_app: Sphinx, _page: str, source: list[str]) -> None:
    if _MARK in source[0]:
        source[0] = source[0].replace(_MARK, commands())


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the hook."""
    app.connect("source-read", _fill_in)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
