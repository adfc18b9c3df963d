"""The application: what all commands have in common."""

import io
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

from typer import Context, Exit, Option, Typer, echo
from typer.core import TyperGroup

from captum_dig import __version__
from captum_dig.cli import plugins
from captum_dig.cli.console import check_columns, one_line, say, signals_as_interrupts
from captum_dig.cli.options import file_option


class _Commands(TyperGroup):
    """Commands whose every failure is one line on standard error and exit status 2, whoever calls them."""

    def main(self, *args: Any, **options: Any) -> Any:
        check_columns()
        try:
            with signals_as_interrupts() as came:
                status = super().main(*args, **options | {"standalone_mode": False})
            status = 128 + came[0] if came else status
        except Exception as error:
            message = one_line(error)
            if message is None:
                raise
            say("error", message)
            status = 2
        for stream in (sys.stdout, sys.stderr):
            try:
                echo(nl=False, file=stream)  # flushes
            except OSError:
                # Nobody reads it, or nothing more fits. Python would try once more at its end, and complain.
                with suppress(OSError):
                    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        sys.exit(status)


app = Typer(
    cls=_Commands,
    help="Show which words drove a text model's decision, with integrated gradients along a path you choose.",
    epilog='Try:\n\n  captum-dig explain "A gorgeous, witty, seductive movie."',
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    add_completion=False,
    pretty_exceptions_enable=False,
)


def main() -> None:
    """Run the command line and leave the interpreter with its exit status."""
    app(prog_name="captum-dig")


@app.callback(invoke_without_command=True)
def _commands(
    context: Context,
    *,
    plugin: Annotated[
        list[Path] | None,
        file_option(
            "--plugin", "Run this file of Python, which adds paths, methods, measures, tasks or formats; read it first."
        ),
    ] = None,
    version: Annotated[bool, Option("--version", help="Show the version and exit.")] = False,
) -> None:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal that is not UTF-8 shows an escape for what it lacks.
            stream.reconfigure(errors="backslashreplace")
    if version:
        echo(f"captum-dig {__version__}")
        raise Exit
    if context.invoked_subcommand is None:
        echo(context.get_help(), nl=False)
        raise Exit
    # The options of a command, which Typer reads next, are checked by it.
    context.obj = plugins.load(plugin or [])
