"""The command line: sentences in, the words that drove the decision out.

Takes what a person types; gives coloured words on a terminal, an HTML page, JSON. It is the last stage of the flow,
behind `captum_dig.text`: no module imports it. PyTorch and Transformers are imported once there is something to
explain, so that ``--help`` and every typing error are answered at once.
"""

import io
import json
import logging
import os
import re
import secrets
import shutil
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.text import Text
from typer import Argument, CallbackParam, Context, Exit, Option, Typer, echo
from typer.core import TyperGroup

from captum_dig import __version__
from captum_dig.encoding import OVERFLOWS
from captum_dig.errors import CaptumDigError
from captum_dig.results import TextAttribution
from captum_dig.visualization import html_page, terminal_text, visible

if TYPE_CHECKING:
    from captum_dig.text import TextExplainer

# Written out, because the modules that own these names import PyTorch; a test compares them.
STRATEGIES = ("greedy", "maxcount", "random_neighbor", "random_anchor", "straight_line", "staggered", "uniform")
RANKED = ("greedy", "maxcount")  # the random ones have nothing to keep
METHODS = ("gausslegendre", "riemann_left", "riemann_middle", "riemann_right", "riemann_trapezoid")
CANDIDATES = ("words", "all")

_DASH = Path("-")  # standard input or output
_EXPLAIN_HELP = (
    "Show which words drove a text classifier's decision.\n\n"
    "Without --model, the text is read by a small English sentiment classifier that comes with captum-dig. "
    r"Each word gets a score: what it adds to the model's output for a label. Red, or \[+], raises that output; "
    r"blue, or \[-], lowers it. Delta says by how much the scores fail to add up: where that is more than "
    "a few percent, raise --n-steps, or set it to auto."
)
_NEIGHBORS_HELP = (
    "Rank the whole vocabulary of a model ahead of time.\n\n"
    "'captum-dig explain' ranks the words that it meets and keeps the result, so this is for many texts, or for a "
    "model that many will use. Baseline, candidates and numbers must be those of the later runs."
)
_EXAMPLES = """Examples:

  captum-dig explain "A gorgeous, witty, seductive movie."
  captum-dig explain "Not bad." "Not good." --target POSITIVE
  captum-dig explain --file reviews.txt --html reviews.html
  captum-dig explain --model ./my-classifier "Hello" --json -
  captum-dig explain -- "-5 stars: begins with a dash\""""


class _Commands(TyperGroup):
    """Commands whose every failure is one line on standard error and exit status 2, whoever calls them."""

    def main(self, *args: Any, **options: Any) -> Any:
        try:
            status = super().main(*args, **options | {"standalone_mode": False})
        except Exception as error:
            message = _one_line(error)
            if message is None:
                raise
            _say("error", message)
            status = 2
        try:
            echo(nl=False)  # flushes
        except OSError:
            # Nobody reads it, or nothing more fits. Python would try once more at its end, and complain.
            with suppress(OSError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(status)


app = Typer(
    cls=_Commands,
    help="Show which words drove a text classifier's decision, with Discretized Integrated Gradients.",
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
    context: Context, *, version: Annotated[bool, Option("--version", help="Show the version and exit.")] = False
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


def _checked(meaning: str, names: Sequence[str] = ()) -> Any:
    """Make an option that is one of the names, or a number of at least 1 where there are none."""
    listed = ", ".join(names)

    def check(parameter: CallbackParam, value: Any) -> Any:
        if value not in names if names else value < 1:
            requirement = f"one of {listed}" if names else "an integer of at least 1"
            raise ValueError(f"{parameter.opts[0]} must be {requirement}, got {value!r}")
        return value

    return Option(help=f"{meaning}{': ' if names else ''}{listed}.", metavar="NAME" if names else "N", callback=check)


def _steps(meaning: str) -> Any:
    def check(parameter: CallbackParam, value: Any) -> Any:
        if value == "auto":
            return value
        if not value.isdecimal() or int(value) < 1:
            raise ValueError(f"{parameter.opts[0]} must be auto or an integer of at least 1, got {value!r}")
        return int(value)

    return Option(help=f"{meaning}.", metavar="N|auto", callback=check)


def _file(name: str, meaning: str) -> Any:
    # Not `readable`: Typer would ask that of outputs too, and in its own words.
    return Option(name, help=meaning, metavar="FILE", readable=False)


@app.command(help=_EXPLAIN_HELP, epilog=_EXAMPLES)
def explain(
    text: Annotated[list[str] | None, Argument(help="Sentences, each in quotes.", metavar="TEXT")] = None,
    file: Annotated[Path | None, _file("--file", "Explain each line of this file too; - is standard input.")] = None,
    model: Annotated[str | None, Option(help="A folder, or a name on the hub.", show_default="embedded demo")] = None,
    target: Annotated[str, Option(help="The label to explain.", metavar="LABEL")] = "predicted",
    baseline: Annotated[str, Option(help="Starting point: pad, mask, unk or a token.", metavar="TOKEN")] = "pad",
    strategy: Annotated[str, _checked("How words on the way are chosen", STRATEGIES)] = "greedy",
    candidates: Annotated[str, _checked("Choose among readable words, or all tokens", CANDIDATES)] = "words",
    n_anchors: Annotated[int, _checked("How many words lie on the way")] = 30,
    n_neighbors: Annotated[int, _checked("Among how many neighbours each is chosen")] = 500,
    n_steps: Annotated[str, _steps("Gradients for each text; auto: until the delta is small")] = "50",
    tolerance: Annotated[float, Option(help="With auto, a small delta, in percent.", metavar="PERCENT")] = 5.0,
    method: Annotated[str, _checked("How they are summed", METHODS)] = "gausslegendre",
    seed: Annotated[int | None, Option(help="Repeats a random strategy.", metavar="N")] = None,
    overflow: Annotated[str, _checked("For texts too long for the model", OVERFLOWS)] = "truncate",
    html: Annotated[Path | None, _file("--html", "Write an HTML page; - is standard output.")] = None,
    json_path: Annotated[Path | None, _file("--json", "Write JSON; - is standard output.")] = None,
) -> None:
    """Explain texts: show what is found, and write it, whatever ends the work.

    Outputs are checked and texts are read before the model is loaded.
    """
    outputs = {option: path for option, path in (("--html", html), ("--json", json_path)) if path is not None}
    _check_outputs(outputs, file)
    texts = _read_texts(text or [], file)
    messages = _console(stderr=True)
    watched = _watched()
    with _warnings_as_lines(messages):
        with messages.status("Loading the model", spinner="line") if watched else nullcontext():
            path = {"strategy": strategy, "candidates": candidates, "n_anchors": n_anchors, "n_neighbors": n_neighbors}
            explainer = _load(model, **path, seed=seed)
            rule: dict[str, Any] = {"baseline": baseline, "method": method, "overflow": overflow, "n_steps": n_steps}
            # One at a time: as fast on a CPU, shown sooner, and what fails takes no other text with it.
            found = explainer.explain_each(texts, target, **rule, tolerance_percent=tolerance, batch_size=1)
        results: list[TextAttribution] = []
        shown = watched and (len(texts) > 1 or file is not None)
        try:
            # In characters, because the windows of one text are several results.
            with _bar(messages, "Explaining", sum(map(len, texts)), shown=shown) as bar:
                for number, result in enumerate(found):
                    results += [result] if outputs else []
                    # Both may be on one terminal: the bar makes room.
                    bar.stop()
                    if _DASH not in outputs.values():
                        _print(result, first=number == 0, go_on=bool(outputs))
                    bar.start()
                    bar.advance(bar.task_ids[0], len(result.text))
        finally:
            written = not results or _write_all(outputs, results)
    if not written:
        raise Exit(2)


@app.command(help=_NEIGHBORS_HELP)
def neighbors(
    model: Annotated[str | None, Argument(help="A folder, or a name on the hub.", show_default="embedded demo")] = None,
    baseline: Annotated[str, Option(help="Starting point: pad, mask, unk or a token.", metavar="TOKEN")] = "pad",
    strategy: Annotated[str, _checked("How words on the way are chosen", RANKED)] = "greedy",
    candidates: Annotated[str, _checked("Choose among readable words, or all tokens", CANDIDATES)] = "words",
    n_anchors: Annotated[int, _checked("How many words lie on the way")] = 30,
    n_neighbors: Annotated[int, _checked("Among how many neighbours each is chosen")] = 500,
    cache: Annotated[
        Path | None,
        Option(
            help="The folder to keep it in; set CAPTUM_DIG_CACHE to it for later runs.", show_default="platform's cache"
        ),
    ] = None,
) -> None:
    """Rank the whole vocabulary of a model, and keep the table for later runs."""
    if cache is None and os.environ.get("CAPTUM_DIG_CACHE") == "":
        raise ValueError("CAPTUM_DIG_CACHE must name a folder, got nothing; unset it, or name one with --cache")
    messages = _console(stderr=True)
    started = time.perf_counter()
    with _warnings_as_lines(messages):
        path = {"strategy": strategy, "candidates": candidates, "n_anchors": n_anchors, "n_neighbors": n_neighbors}
        table = _load(model, **path, cache=True if cache is None else cache).table(baseline)
        with _bar(messages, "Ranking", len(table), shown=_watched()) as bar:
            for done in table.rank_all():
                bar.update(bar.task_ids[0], completed=done)
        kept = table.store()
    if kept is None:
        raise Exit(2)
    echo(f"{len(table)} rows ranked in {time.perf_counter() - started:.0f} s, kept in {kept}")


def _console(*, stderr: bool = False) -> Console:
    # The stream is named because Rich takes one that is not for UTF-8. With NO_COLOR alone, Rich drops the colours;
    # without a colour system it sends no escape at all.
    color_system: Any = None if os.environ.get("NO_COLOR") else "auto"
    return Console(file=sys.stderr if stderr else sys.stdout, color_system=color_system)


def _watched() -> bool:
    # Not the console's `is_terminal`: `2> log` shall hold no animation, even where colours are forced.
    return sys.stderr is not None and sys.stderr.isatty()


def _say(kind: str, message: str, console: Console | None = None) -> None:
    style = "bold red" if kind == "error" else "bold yellow"
    line = Text.assemble((f"{kind}: ", style), " ".join(visible(message).split()))
    (console or _console(stderr=True)).print(line, soft_wrap=True)


def _one_line(error: Exception) -> str | None:
    """Say what the user did wrong; None where we did, which deserves a traceback."""
    if hasattr(error, "format_message"):  # Typer's own: an unknown option, a number that is none
        command = getattr(getattr(error, "ctx", None), "command_path", "captum-dig")
        return f"{error.format_message().rstrip('.')}; see {command} --help"
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    bad_input = isinstance(error, (CaptumDigError, ValueError, OSError))
    return str(error) or type(error).__name__ if bad_input else None


@contextmanager
def _warnings_as_lines(console: Console) -> Iterator[None]:
    """Show this package's warnings as one line each, and nobody else's."""

    def show(message: Warning | str, category: type[Warning], filename: str, *_: Any, **__: Any) -> None:
        if issubclass(category, UserWarning) and Path(filename).is_relative_to(Path(__file__).parent):
            _say("warning", str(message), console)

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = show
        yield


def _read_texts(texts: Sequence[str], file: Path | None) -> list[str]:
    """Give the texts that were typed, then the lines of the file that are not blank."""
    for text in texts:
        if text != text.encode("utf-8", "ignore").decode("utf-8"):
            raise ValueError(f"TEXT must be UTF-8, got {text!r}; set the terminal to UTF-8, or use --file")
    if file is None:
        if not texts:
            raise ValueError("TEXT must be given, got nothing; type a sentence in quotes, or name a file with --file")
        return list(texts)
    name = "standard input" if file == _DASH else repr(str(file))
    try:
        # Who closes standard input leaves None.
        data = file.read_bytes() if file != _DASH else sys.stdin.buffer.read() if sys.stdin else b""
    except OSError as error:
        raise ValueError(f"--file must be a file that can be read, got {name}: {error.strerror}") from error
    try:
        lines = re.split(r"\r\n|\r|\n", data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        place = f"byte 0x{data[error.start]:02x} in line {1 + data.count(10, 0, error.start)}"
        raise ValueError(f"--file must be UTF-8 text, got {name} with {place}; save it as UTF-8") from error
    lines = [line for line in lines if line.strip()]
    if not lines:
        raise ValueError(f"--file must hold at least one text, got {name} without any; write one text a line")
    return [*texts, *lines]


def _check_outputs(outputs: dict[str, Path], file: Path | None) -> None:
    """Find out whether every output can be written, without changing anything."""
    taken = {} if file is None or file == _DASH else {file.resolve(): "--file"}
    for option, path in outputs.items():
        place = path if path == _DASH else path.resolve()
        if place in taken:
            raise ValueError(f"{option} must be another file than {taken[place]}, got {str(path)!r}; rename one")
        taken[place] = option
        if path.is_dir():
            raise ValueError(f"{option} must be a file, got the folder {str(path)!r}; name a file in it")
        if not path.parent.is_dir():
            raise ValueError(f"{option} must be in a folder that exists, got {str(path)!r}; create the folder first")
        _write(option, path, None)


def _write_all(outputs: dict[str, Path], results: Sequence[TextAttribution]) -> bool:
    """Write what was found to every output that takes it, and say which does not; True if all do."""
    complete = True
    for option, path in outputs.items():
        if option == "--html":
            content = html_page(result.to_picture() for result in results)
        else:
            found = [result.to_dict() for result in results]
            content = json.dumps(found, allow_nan=False, ensure_ascii=False, indent=2) + "\n"
        try:
            # Half a character, which UTF-8 cannot hold, becomes the escape that JSON has for it.
            _write(option, path, content.encode("utf-8", "backslashreplace"))
        except ValueError as error:
            complete = False
            _say("error", str(error))
    return complete


def _write(option: str, path: Path, data: bytes | None) -> None:
    """Write a file so that it is always either the old one or the new one, whole; None only tries."""
    # Beside the file itself, also where a link leads to it: only there is replacing it one step.
    part = path.resolve().with_name(f".captum-dig-{secrets.token_hex(8)}.part")
    stays = path == _DASH or (path.exists() and not path.is_file())  # a pipe or a device cannot be replaced
    try:
        if not stays:
            part.write_bytes(data or b"")
            if path.exists():
                path.open("ab").close()  # the folder may be writable where the file is not
                shutil.copymode(path, part)
        if data is None:
            return
        if path == _DASH:
            echo(data, nl=False)
        elif stays:
            path.write_bytes(data)
        else:
            part.replace(path.resolve())
    except BrokenPipeError:
        return  # the reader has seen enough
    except OSError as error:
        problem = f"{option} must be a file that can be written, got {str(path)!r}: {error.strerror}"
        raise ValueError(problem) from error
    finally:
        part.unlink(missing_ok=True)


def _load(model: str | None, **options: Any) -> "TextExplainer":
    from transformers.utils import logging as chatter

    # Models report their loading in bars and remarks that concern their authors.
    chatter.set_verbosity_error()
    chatter.disable_progress_bar()
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)

    from captum_dig.text import TextExplainer

    return TextExplainer.demo(**options) if model is None else TextExplainer.from_pretrained(model, **options)


@contextmanager
def _bar(console: Console, work: str, total: int, *, shown: bool) -> Iterator[Progress]:
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


def _print(result: TextAttribution, *, first: bool, go_on: bool) -> None:
    screen = _console()
    try:
        if not first:
            screen.rule(characters="-", style="dim")
        screen.print(terminal_text(result.to_picture()))
    except SystemExit:
        # Rich's answer to a reader that has left. Prints go nowhere from now on, but files may still be wanted.
        if not go_on:
            raise
