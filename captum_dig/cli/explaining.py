"""The command that explains texts."""

import io
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Context, Exit, Option

from captum_dig.catalogue import Catalogue
from captum_dig.cli import models, tables
from captum_dig.cli.app import app
from captum_dig.cli.console import is_watched, make_console, progress_bar, warnings_as_lines
from captum_dig.cli.datasets import read_texts
from captum_dig.cli.files import DASH, check_outputs, write_all
from captum_dig.cli.options import (
    CANDIDATES,
    DTYPES,
    MOST_ANCHORS,
    TRUST,
    Device,
    OwnLabels,
    ScoredFields,
    TaskName,
    chosen,
    columns_of,
    count,
    file_option,
    named,
    paired,
    pairs,
    steps,
    task_options,
)
from captum_dig.entries import STRATEGIES
from captum_dig.models.samples import OVERFLOWS
from captum_dig.text.results import TextAttribution
from captum_dig.visualization import Picture, terminal_text
from captum_dig.visualization.grid import TerminalGrid
from captum_dig.visualization.matrix import same_text

_EXPLAIN_HELP = (
    "Show which words drove the decision of a text model.\n\n"
    "Without --model, the text is read by a small English sentiment classifier that comes with captum-dig. "
    "The task follows from the model: a label of a text or of a pair, entities, an answer, a masked word, "
    "or a continuation. "
    r"Each word gets a score: what it adds to the model's output for a label. Red, or \[+], speaks for the label; "
    r"blue, or \[-], against it. Errors say how far to trust the scores: "
    r"lower --tolerance and --spread where they are large."
)
_EXAMPLES = """Examples:

  captum-dig explain "A gorgeous, witty, seductive movie."
  captum-dig explain "Not bad." "Not good." --target POSITIVE
  captum-dig explain --file reviews.txt --html reviews.html
  captum-dig explain --file reviews.csv --column comment
  captum-dig explain --model ./my-classifier "Hello" --json -
  captum-dig explain --model ./nli "A man eats." --field text_pair="Someone eats."
  captum-dig explain --model ./nli "Rates rise again." --labels politics,sport,business
  captum-dig explain --model ./ner "Anna Brown lives in Paris."
  captum-dig explain --model ./qa "Anna lives in Paris." --field question="Where does Anna live?"
  captum-dig explain --model ./masked "The capital of France is [MASK]."
  captum-dig explain --model ./gpt "The capital of France is" --field continuation=" Paris"
  captum-dig explain --file reviews.txt --format jsonl --out scores.jsonl
  captum-dig explain --data reviews.parquet --column comment --errors record --out scores/
  captum-dig explain -- "-5 stars: begins with a dash\""""


@app.command(help=_EXPLAIN_HELP, epilog=_EXAMPLES)
def explain(
    context: Context,
    text: Annotated[list[str] | None, Argument(help="Sentences, each in quotes.", metavar="TEXT")] = None,
    file: Annotated[
        Path | None,
        file_option(
            "--file", "Explain each line of a file, or a table (.csv, .tsv, .jsonl, .parquet); - is standard input."
        ),
    ] = None,
    field: Annotated[
        list[str] | None, pairs("Another field of each text, such as text_pair", "--field", "NAME=TEXT")
    ] = None,
    column: Annotated[
        list[str] | None,
        Option(help="The column of the texts in a table, or FIELD=NAME for that of a field.", metavar="NAME"),
    ] = None,
    model: Annotated[str | None, Option(help="A folder, or a name on the hub.", show_default="embedded demo")] = None,
    trust_remote_code: Annotated[bool, TRUST] = False,
    target: Annotated[
        str, Option(help="The label to explain; for other tasks words of the text, or another word.", metavar="LABEL")
    ] = "predicted",
    contrast: Annotated[
        str | None, Option(help="Another label: why the first one, and not this?", metavar="LABEL", show_default="none")
    ] = None,
    output: Annotated[
        str | None,
        Option(
            help="The number to explain: log_odds, logit, log_probability or probability; start or end of an answer.",
            metavar="NAME",
            show_default="that of the task",
        ),
    ] = None,
    baseline: Annotated[
        list[str] | None,
        Option(
            help="Starting point: pad, mask, unk, even, a token or id:N; several are averaged.",
            metavar="TOKEN",
            show_default="pad",
        ),
    ] = None,
    task: TaskName = "auto",
    labels: OwnLabels = None,
    scored: ScoredFields = None,
    task_option: Annotated[
        list[str] | None,
        pairs("Another argument of the task, such as template or max_new_tokens", "--task-option", "NAME=VALUE"),
    ] = None,
    strategy: Annotated[
        str, named("The way from the baseline to the text, or another way to score words", *STRATEGIES)
    ] = "staggered",
    candidates: Annotated[str, chosen("From word to word: readable words, or all tokens", CANDIDATES)] = "words",
    n_anchors: Annotated[int, count("From word to word: how many lie on the way", MOST_ANCHORS)] = 30,
    n_neighbors: Annotated[int, count("From word to word: among how many neighbours each is chosen")] = 500,
    n_steps: Annotated[str, steps("Gradients for each text; auto: until both errors are small")] = "auto",
    tolerance: Annotated[
        float, Option(help="With auto, the largest error of the integration, in percent.", metavar="PERCENT")
    ] = 15.0,
    spread: Annotated[
        float, Option(help="With auto, the largest error from the draw of orders, in percent.", metavar="PERCENT")
    ] = 20.0,
    max_steps: Annotated[int, count("With auto, the most gradients for each text")] = 400,
    method: Annotated[str, named("How they are summed", "rule")] = "known_sums",
    seed: Annotated[
        int | None, Option(help="For a strategy that draws: another seed, another draw.", metavar="N")
    ] = None,
    overflow: Annotated[str, chosen("For texts too long for the model", OVERFLOWS)] = "truncate",
    html: Annotated[Path | None, file_option("--html", "Write an HTML page; - is standard output.")] = None,
    json_path: Annotated[Path | None, file_option("--json", "Write JSON; - is standard output.")] = None,
    format_name: Annotated[
        str | None,
        named("Write this instead of showing words", "format", option="--format", others=("parquet",)),
    ] = None,
    out: Annotated[
        Path | None,
        file_option("--out", "Write what --format names to this file, and show words; a folder for --data."),
    ] = None,
    device: Device = "auto",
    dtype: Annotated[str, chosen("The type of the weights", DTYPES)] = "float32",
    batch_size: Annotated[int, count("The number of rows, texts times steps, for the model at once")] = 64,
    data: tables.Data = None,
    id_column: tables.IdColumn = None,
    target_column: tables.TargetColumn = None,
    keep: tables.Keep = None,
    limit: tables.Limit = None,
    errors: tables.Errors = "raise",
    rows_per_part: tables.RowsPerPart = 256,
    engine: tables.EngineName = "local",
    workers: tables.Workers = 1,
    n_gpus: tables.Gpus = 0.0,
    address: tables.Address = None,
) -> None:
    """Explain texts: show what is found, and write it, whatever ends the work.

    Outputs are checked and texts are read before the model is loaded.
    """
    make = partial(
        models.load,
        model,
        trust_remote_code,
        strategy=strategy,
        candidates=candidates,
        n_anchors=n_anchors,
        n_neighbors=n_neighbors,
        seed=seed,
        output=output,
        catalogue=context.obj,
        device=device,
        dtype=dtype,
        **task_options(task, labels, scored, task_option),
    )
    rule: dict[str, Any] = {
        "baseline": baseline,
        "method": method,
        "overflow": overflow,
        "n_steps": n_steps,
        "tolerance_percent": tolerance,
        "spread_percent": spread,
        "max_steps": max_steps,
        "contrast": contrast,
        "internal_batch_size": batch_size,
    }
    if data is not None:
        table = {
            "column": columns_of(column),
            "id_column": id_column,
            "target_column": target_column,
            "keep": keep or (),
            "limit": limit,
            "errors": errors,
            "rows_per_part": rows_per_part,
            "engine": engine,
            "workers": workers,
            "n_gpus": n_gpus,
            "address": address,
            "target": target,
        }
        others = {"TEXT": text, "--file": file, "--field": field, "--html": html, "--json": json_path}
        tables.TableRun(data, out, table | rule).check(format_name, others).run(make)
        return
    if format_name == "parquet":
        raise ValueError("--format must come with --data where it is parquet, got no --data; name the table with it")
    if out is not None and format_name is None:
        raise ValueError(f"--out must come with --format, got {str(out)!r} alone; name a format, such as --format json")
    if format_name is not None and out is None and sys.stdout.isatty() and _is_binary(context.obj, format_name):
        raise ValueError(f"--out must name a file for --format {format_name}, which a terminal cannot show")
    formats = {"--html": "html", "--json": "json"} | ({} if format_name is None else {"--out": format_name})
    paths = {"--html": html, "--json": json_path, "--out": out or (None if format_name is None else DASH)}
    outputs = {option: path for option, path in paths.items() if path is not None}
    check_outputs(outputs, {"--file": file})
    texts = read_texts(text or [], file, columns_of(column))
    messages = make_console(stderr=True)
    watched = is_watched()
    with warnings_as_lines(messages):
        with messages.status("Loading the model", spinner="line") if watched else nullcontext():
            explainer = make()
            fields = paired(field)
            samples = [explainer.task.form.join(text, fields) for text in texts] if fields else texts
            # One at a time: as fast on a CPU, shown sooner, and what fails takes no other text with it.
            found = explainer.explain_each(samples, target, **rule, batch_size=1)
        results: list[TextAttribution] = []
        together: list[Picture] = []
        shown = watched and (len(texts) > 1 or file is not None)
        try:
            # In characters, because the windows of one text are several results.
            with progress_bar(messages, "Explaining", sum(map(_length, samples)), shown=shown) as bar:
                for number, result in enumerate(found):
                    results += [result] if outputs else []
                    # Both may be on one terminal: the bar makes room.
                    bar.stop()
                    if DASH not in outputs.values():
                        picture = result.to_picture()
                        together = _print_grid(together, picture, go_on=bool(outputs))
                        _print(terminal_text(picture), ruled=number > 0, go_on=bool(outputs))
                    bar.start()
                    bar.advance(bar.task_ids[0], len(result.text))
                _print_grid(together, None, go_on=bool(outputs))
        finally:
            written = not results or write_all(outputs, _contents(results, formats, context.obj))
    if not written:
        raise Exit(2)


def _is_binary(catalogue: Catalogue, format_name: str) -> bool:
    return bool(catalogue.find(format_name, "format").load().binary)


def _length(sample: str | Mapping[str, str]) -> int:
    return len(sample) if isinstance(sample, str) else len("\n".join(sample.values()))


def _contents(
    results: Sequence[TextAttribution], formats: Mapping[str, str], catalogue: Catalogue
) -> dict[str, Callable[[], str | bytes]]:
    """Say how to write each output; a format is imported where its turn comes."""

    def written(name: str) -> str | bytes:
        made = catalogue.find(name, "format").make()
        stream = io.BytesIO() if made.binary else io.StringIO()
        made(results, stream)
        content: str | bytes = stream.getvalue()
        return content

    return {option: partial(written, name) for option, name in formats.items()}


def _print(shown: object, *, ruled: bool, go_on: bool) -> None:
    """Print a picture or a table, below a line if something is above it."""
    screen = make_console()
    try:
        if ruled:
            screen.rule(characters="-", style="dim")
        screen.print(shown)
    except SystemExit:
        # Rich's answer to a reader that has left. Prints go nowhere from now on, but files may still be wanted.
        if not go_on:
            raise


def _print_grid(together: list[Picture], picture: Picture | None, *, go_on: bool) -> list[Picture]:
    """Collect the pictures of one text; print their scores side by side where another text begins, or at the end."""
    if together and (picture is None or same_text(picture) != same_text(together[0])):
        if len(together) > 1:
            _print(TerminalGrid(tuple(together)), ruled=True, go_on=go_on)
        together = []
    return together if picture is None else [*together, picture]
