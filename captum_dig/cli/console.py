"""What commands say, and how: colours, one-line errors and warnings, a bar of progress."""

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.text import Text

from captum_dig.errors import CaptumDigError
from captum_dig.visualization import visible


def make_console(*, stderr: bool = False) -> Console:
    """Make the console of a standard stream."""
    # The stream is named because Rich takes one that is not for UTF-8. With NO_COLOR alone, Rich drops the colours;
    # without a colour system it sends no escape at all.
    color_system: Any = None if os.environ.get("NO_COLOR") else "auto"
    return Console(file=sys.stderr if stderr else sys.stdout, color_system=color_system)


def is_watched() -> bool:
    """Tell whether a person looks at standard error."""
    # Not the console's `is_terminal`: `2> log` shall hold no animation, even where colours are forced.
    return sys.stderr is not None and sys.stderr.isatty()


def say(kind: str, message: str, console: Console | None = None) -> None:
    """Say one line on standard error, an error or a warning."""
    style = "bold red" if kind == "error" else "bold yellow"
    line = Text.assemble((f"{kind}: ", style), " ".join(visible(message).split()))
    (console or make_console(stderr=True)).print(line, soft_wrap=True)


def one_line(error: Exception) -> str | None:
    """Say what the user did wrong; None where we did, which deserves a traceback."""
    if hasattr(error, "format_message"):  # Typer's own: an unknown option, a number that is none
        command = getattr(getattr(error, "ctx", None), "command_path", "captum-dig")
        return f"{error.format_message().rstrip('.')}; see {command} --help"
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    bad_input = isinstance(error, (CaptumDigError, ValueError, OSError))
    return str(error) or type(error).__name__ if bad_input else None


@contextmanager
def warnings_as_lines(console: Console) -> Iterator[None]:
    """Show this package's warnings as one line each, and nobody else's."""

    def show(message: Warning | str, category: type[Warning], filename: str, *_: Any, **__: Any) -> None:
        if issubclass(category, UserWarning) and Path(filename).is_relative_to(Path(__file__).parents[1]):
            say("warning", str(message), console)

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = show
        yield


@contextmanager
def progress_bar(console: Console, work: str, total: int, *, shown: bool) -> Iterator[Progress]:
    """Show how far the work is, and take the bar away afterwards."""
    columns = (TextColumn(work), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=console if shown else Console(quiet=True), auto_refresh=shown, transient=True)
    bar.add_task("", total=total)
    try:
        bar.start()
        yield bar
    finally:
        # Ctrl-C may come while the bar is being switched on or off, and Rich then has no bar to take away.
        with suppress(IndexError):
            bar.stop()
