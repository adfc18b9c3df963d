"""The command that compares attribution methods."""

import hashlib
import json
import secrets
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

from rich.console import Console
from rich.table import Table
from typer import Context, Exit, Option

from captum_dig.cli import models
from captum_dig.cli.app import app
from captum_dig.cli.console import is_watched, make_console, progress, say, warnings_as_lines
from captum_dig.cli.datasets import read_dataset
from captum_dig.cli.files import DASH, check_outputs, write_all
from captum_dig.cli.options import (
    CANDIDATES,
    MOST_ANCHORS,
    PROTOCOLS,
    TRUST,
    OwnLabels,
    ScoredFields,
    TaskName,
    chosen,
    columns_of,
    count,
    file_option,
    named,
    several,
    steps,
    task_options,
)
from captum_dig.entries import STRATEGIES

if TYPE_CHECKING:
    from captum_dig.comparison import Comparison, ComparisonSettings
    from captum_dig.comparison.journal import Journal

_WIDER_THAN_TABLES = 1000
# With --curves: enough to see the slope.
_CURVE_TEXTS = 20

_HELP = (
    "Compare attribution methods: which explains your model best?\n\n"
    "Explains the same texts by every method with the same number of gradients, takes away the words with the highest "
    "scores, and measures how the output changes. Every mean comes with an interval.\n\n"
    "Finished texts are kept: the same command resumes a stopped run, and shows a finished one again at once."
)
_EXAMPLES = """Examples:

  captum-dig compare --data reviews.txt --n 50
  captum-dig compare --model ./my-classifier --data test.csv --baseline pad --baseline mask --html report.html
  captum-dig compare --data test.tsv --methods integrated_gradients,dig_greedy,random --json result.json"""


@app.command(help=_HELP, epilog=_EXAMPLES)
def compare(
    context: Context,
    data: Annotated[
        str, Option(help="A file of texts (.txt, .tsv, .csv, .jsonl), or a data set on the hub.", metavar="FILE|NAME")
    ],
    model: Annotated[str | None, Option(help="A folder, or a name on the hub.", show_default="embedded demo")] = None,
    trust_remote_code: Annotated[bool, TRUST] = False,
    methods: Annotated[
        list[str] | None, several("Which methods", *STRATEGIES, default="all but uniform and idgi")
    ] = None,
    measures: Annotated[
        list[str] | None,
        several("What is measured", "measure", default="those of the paper, deltas and estimated errors"),
    ] = None,
    baseline: Annotated[
        list[str] | None,
        Option(help="Starting point; may be given several times.", metavar="TOKEN", show_default="pad"),
    ] = None,
    n: Annotated[int, count("How many texts, the first ones")] = 100,
    n_steps: Annotated[str, steps("Gradients that a method may take for a text; auto: as many as a text needs")] = "50",
    method: Annotated[str, named("How gradients are summed", "rule")] = "known_sums",
    protocol: Annotated[str, chosen("How words are taken away", PROTOCOLS)] = "default",
    candidates: Annotated[str, chosen("Choose among readable words, or all tokens", CANDIDATES)] = "words",
    n_anchors: Annotated[int, count("How many words lie on the way", MOST_ANCHORS)] = 30,
    n_neighbors: Annotated[int, count("Among how many neighbours each is chosen")] = 500,
    seed: Annotated[int, Option(help="For all that draws at random.", metavar="N")] = 0,
    split: Annotated[str, Option(help="The split of a data set on the hub.", metavar="NAME")] = "test",
    column: Annotated[
        list[str] | None,
        Option(help="The column of the texts, or FIELD=NAME for that of a field.", metavar="NAME"),
    ] = None,
    curves: Annotated[
        bool, Option("--curves", help="Also show how errors fall with more gradients: five times the time.")
    ] = False,
    task: TaskName = "auto",
    labels: OwnLabels = None,
    scored: ScoredFields = None,
    html: Annotated[Path | None, file_option("--html", "Write a report with plots; - is standard output.")] = None,
    json_path: Annotated[Path | None, file_option("--json", "Write JSON; - is standard output.")] = None,
) -> None:
    """Compare methods: show a table, and write reports."""
    outputs = {option: path for option, path in (("--html", html), ("--json", json_path)) if path is not None}
    check_outputs(outputs, {"--data": Path(data)})
    texts = read_dataset(data, split, columns_of(column), n)
    messages = make_console(stderr=True)
    with warnings_as_lines(messages):
        with messages.status("Loading the model", spinner="line") if is_watched() else nullcontext():
            from captum_dig.comparison import comparing as bench

            path = {"candidates": candidates, "n_anchors": n_anchors, "n_neighbors": n_neighbors}
            explainer = models.load(
                model, trust_remote_code, **path, catalogue=context.obj, **task_options(task, labels, scored, None)
            )
        kept: list[Path] = []

        def journal(settings: "ComparisonSettings") -> "Journal | None":
            opened = _journal(messages, settings)
            kept.extend([opened.path] if opened is not None else [])
            return opened

        with progress(messages, "Comparing", "compared", "texts") as tell:
            try:
                comparison = bench.compare(
                    explainer,
                    texts,
                    methods or (),
                    baseline or ["pad"],
                    measures=measures or (),
                    n_steps=cast("Any", n_steps),
                    method=method,
                    protocols=cast("Any", PROTOCOLS[protocol]),
                    seed=seed,
                    journal=journal,
                    n_curve_texts=_CURVE_TEXTS if curves else 0,
                    progress=lambda done: tell(done, len(texts)),
                )
            except KeyboardInterrupt:
                for file in kept:
                    say("warning", f"stopped; the same command goes on from what is kept in {file}")
                raise
    # First the files: the reader of the table may have left.
    written = write_all(outputs, _contents(comparison))
    if DASH not in outputs.values():
        _print(comparison)
    if not written:
        raise Exit(2)


def _journal(messages: Console, settings: "ComparisonSettings") -> "Journal | None":
    """Open the journal of a comparison in the folder for caches; None where nothing can be kept."""
    from captum_dig.comparison.journal import Journal
    from captum_dig.paths.folders import TableFolder

    kept = TableFolder.default()
    if kept is None:
        return None
    digest = hashlib.sha256(json.dumps(settings.to_dict(), sort_keys=True).encode()).hexdigest()[:16]
    path = kept.folder / f"comparison-{digest}.jsonl"
    try:
        try:
            return Journal(path, settings)
        except ValueError:
            # Nobody else has a name for a file in this folder.
            damaged = path.rename(path.with_name(f"{path.name}.damaged-{secrets.token_hex(4)}"))
            say("warning", f"what was kept is damaged, and was moved to {damaged}", messages)
            return Journal(path, settings)
    except OSError as error:
        say("warning", f"finished texts are not kept, so stay until the end: {path}: {error.strerror}", messages)
        return None


def _contents(comparison: "Comparison") -> dict[str, Callable[[], str]]:
    from captum_dig.comparison import report_page

    def as_json() -> str:
        return json.dumps(comparison.to_dict(), allow_nan=False, ensure_ascii=False, indent=1) + "\n"

    return {"--html": lambda: report_page(comparison), "--json": as_json}


def _print(comparison: "Comparison") -> None:
    from captum_dig.comparison import terminal_tables

    screen = make_console()
    parts = terminal_tables(comparison)
    # A narrower terminal folds the lines; Rich would cut numbers.
    wide = screen.options.update(width=_WIDER_THAN_TABLES)
    needed = [screen.measure(part, options=wide).maximum for part in parts if isinstance(part, Table)]
    screen.width = max([screen.width, *needed])
    for part in parts:
        screen.print(part)
