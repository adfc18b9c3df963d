"""What commands say, and how: colours, one-line errors and warnings, a bar of progress."""

import math
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.text import Text
from typer import echo

from captum_dig.errors import BaselineWarning, CaptumDigError
from captum_dig.visualization import visible

# Seconds between two lines of progress where nobody watches.
PAUSE = 10.0
# Rich fills lines of any width, and shows nothing where there is no room.
_NARROWEST, _WIDEST = 10, 10_000


def make_console(*, stderr: bool = False) -> Console:
    """Make the console of a standard stream."""
    # The stream is named because Rich takes one that is not for UTF-8. With NO_COLOR alone, Rich drops the colours;
    # without a colour system it sends no escape at all.
    color_system: Any = None if os.environ.get("NO_COLOR") else "auto"
    stream = sys.stderr if stderr else sys.stdout
    # A stream that was closed is None, and Rich would write to the other one.
    return Console(file=stream, color_system=color_system, quiet=stream is None)


def check_columns() -> None:
    """Let a size that no terminal has count as none: at 0 columns nothing is shown, at a million memory ends."""
    for name, least in (("COLUMNS", _NARROWEST), ("LINES", 1)):
        value = os.environ.get(name)
        if value is not None and not (value.isascii() and value.isdecimal() and least <= int(value[:6]) <= _WIDEST):
            del os.environ[name]


@contextmanager
def signals_as_interrupts() -> Iterator[list[int]]:
    """Treat SIGTERM and SIGHUP like Ctrl-C, so that finished results are written first.

    Yields:
        The numbers of the received signals.
    """
    came: list[int] = []
    names = [name for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    # Who ignores one, as `nohup` does, or runs in a thread, keeps that.
    ours = threading.current_thread() is threading.main_thread()
    numbers = [n for n in (getattr(signal, name) for name in names) if ours and signal.getsignal(n) == signal.SIG_DFL]

    def interrupt(number: int, _frame: object) -> None:
        came.append(number)
        # A second one ends the process at once.
        for n in numbers:
            signal.signal(n, signal.SIG_DFL)
        raise KeyboardInterrupt

    for number in numbers:
        signal.signal(number, interrupt)
    try:
        yield came
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)


def is_watched() -> bool:
    """Tell whether a person looks at standard error."""
    # Not the console's `is_terminal`: `2> log` shall hold no animation, even where colours are forced.
    return sys.stderr is not None and sys.stderr.isatty()


def say(kind: str, message: str, console: Console | None = None) -> None:
    """Say one line on standard error: an error, a warning, or a file that was written."""
    style = {"error": "bold red", "written": "bold green"}.get(kind, "bold yellow")
    line = Text.assemble((f"{kind}: ", style), " ".join(visible(message).split()))
    # Where nobody can be told, the work goes on.
    with suppress(OSError):
        (console or make_console(stderr=True)).print(line, soft_wrap=True)


def one_line(error: Exception) -> str | None:
    """Return one line for a user's error; None for a bug, which needs a traceback."""
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
        # What a picture says of its baseline stands above the words.
        told = issubclass(category, UserWarning) and not issubclass(category, BaselineWarning)
        if told and Path(filename).is_relative_to(Path(__file__).parents[1]):
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


@contextmanager
def progress(console: Console, work: str, done_word: str, unit: str) -> Iterator[Callable[[int, int], None]]:
    """Show a progress bar on a terminal, or write a line now and then to a log.

    Args:
        console: Where the bar is drawn.
        work: The name of the work, such as "Explaining".
        done_word: The same for what is done, such as "explained".
        unit: What is counted, such as "rows".

    Yields:
        A function of the number that is done and the number of all.
    """
    began, last = 0.0, -math.inf
    first: int | None = None
    with progress_bar(console, work, 1, shown=is_watched()) as bar:

        def tell(done: int, total: int) -> None:
            nonlocal began, last, first
            bar.update(bar.task_ids[0], completed=done, total=total)
            now = time.monotonic()
            if first is None:
                # What was there before took no time, and the first one took that of loading, too.
                first, began = done, now
                return
            if is_watched() or now - last < PAUSE or done in (first, total) or sys.stderr is None:
                return
            rate = (done - first) / max(now - began, 1e-9)
            if (total - done) / rate < PAUSE and last < began:
                # Done before anybody asks.
                return
            last = now
            speed = f"{rate:.1f} a second" if rate >= 0.1 else f"{1 / rate:.0f} s each"
            left = _duration((total - done) / rate)
            echo(f"{done_word} {done:,} of {total:,} {unit}, {speed}, about {left} left", err=True)

        yield tell


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
