"""The commands that ask people: a page to rank explanations on, and what they answered."""

import json
import re
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Context, Exit, Option, Typer

from captum_dig.cli import models
from captum_dig.cli.app import app
from captum_dig.cli.console import is_watched, make_console, progress_bar, warnings_as_lines
from captum_dig.cli.datasets import read_dataset
from captum_dig.cli.files import check_outputs, write_all
from captum_dig.cli.options import MOST_STEPS, TRUST, count, file_option, several
from captum_dig.entries import STRATEGIES
from captum_dig.records import to_json

_STUDY_HELP = (
    "Ask people which explanations they find best, without telling them whose they are.\n\n"
    "'make' writes a page on which they rank, and a key that you keep to yourself; 'score' turns the answers that the "
    "page saves into mean ranks with a test."
)
_MAKE_EXAMPLES = """Examples:

  captum-dig study make --data reviews.txt --n 20 --html page.html --key key.json
  captum-dig study score --key key.json answers-ann.json answers-bob.json"""

_METHODS = ["integrated_gradients", "dig_greedy", "dig_maxcount"]

study = Typer(help=_STUDY_HELP, no_args_is_help=False, rich_markup_mode="rich")
app.add_typer(study, name="study", help=_STUDY_HELP, epilog=_MAKE_EXAMPLES)


@study.command(help="Write a page on which people rank explanations, and the key to it.", epilog=_MAKE_EXAMPLES)
def make(
    context: Context,
    data: Annotated[
        str, Option(help="A file of texts (.txt, .tsv, .csv, .jsonl), or a data set on the hub.", metavar="FILE|NAME")
    ],
    html: Annotated[Path, file_option("--html", "The page, for people.")],
    key: Annotated[Path, file_option("--key", "The key, for you.")],
    model: Annotated[str | None, Option(help="A folder, or a name on the hub.", show_default="embedded demo")] = None,
    trust_remote_code: Annotated[bool, TRUST] = False,
    methods: Annotated[list[str], several("Two or more", *STRATEGIES)] = _METHODS,
    baseline: Annotated[str, Option(help="Starting point: pad, mask, unk, a token or id:N.", metavar="TOKEN")] = "pad",
    n: Annotated[int, count("How many texts, the first ones")] = 20,
    n_steps: Annotated[int, count("Gradients that a method may take for a text", MOST_STEPS)] = 50,
    seed: Annotated[int, Option(help="For the order of the explanations.", metavar="N")] = 0,
    split: Annotated[str, Option(help="The split of a data set on the hub.", metavar="NAME")] = "test",
    column: Annotated[str | None, Option(help="The column of the texts.", metavar="NAME")] = None,
) -> None:
    """Explain texts by several methods, and write page and key."""
    outputs = {"--html": html, "--key": key}
    check_outputs(outputs, {"--data": Path(data)})
    texts = read_dataset(data, split, column, n)
    if len(methods) < 2:
        raise ValueError(f"--methods must name at least two methods, got {', '.join(methods)!r}")
    messages = make_console(stderr=True)
    with warnings_as_lines(messages):
        with messages.status("Loading the model", spinner="line") if is_watched() else nullcontext():
            from captum_dig.comparison import comparing as bench
            from captum_dig.study import StudyItem, make_study
            from captum_dig.visualization import cut_text

            explainer = models.load(model, trust_remote_code, catalogue=context.obj)
        with progress_bar(messages, "Explaining", len(texts), shown=is_watched()) as bar:

            def progress(done: int) -> None:
                bar.update(bar.task_ids[0], completed=done)

            compared = bench.compare(
                explainer,
                texts,
                methods,
                [baseline],
                n_steps=n_steps,
                top_fractions=(0.2,),
                n_curve_texts=0,
                seed=seed,
                progress=progress,
            )
    items = [
        StudyItem(
            text.label,
            {name: cut_text(text.text, text.word_offsets, text.find(name, baseline).word_scores) for name in methods},
        )
        for text in compared.texts
    ]
    made = make_study(items, seed=seed)
    found = {"--html": lambda: made.page, "--key": lambda: _as_json(made.key.to_dict())}
    if not write_all(outputs, found):
        raise Exit(2)


@study.command(help="Turn saved answers into mean ranks, with tests.")
def score(
    answers: Annotated[list[Path], Argument(help="What the page saved, one file for each person.", metavar="FILE")],
    key: Annotated[Path, file_option("--key", "The key that 'make' wrote.")],
    json_path: Annotated[Path | None, file_option("--json", "Write JSON; - is standard output.")] = None,
) -> None:
    """Score answers, and show the result."""
    outputs = {} if json_path is None else {"--json": json_path}
    check_outputs(outputs, {"--key": key, **{f"the answers {str(path)!r}": path for path in answers}})
    from captum_dig.study import StudyKey, score_study

    read = [_read("FILE", path) for path in answers]
    try:
        kept = StudyKey.from_dict(_read("--key", key))
    except (TypeError, ValueError) as error:
        raise ValueError(f"--key must be a key that 'make' wrote, got {str(key)!r}: {error}") from error
    try:
        scored = score_study(kept, read)
    except (TypeError, ValueError) as error:
        # What is wrong stands in a file, not at a place in a list.
        message = re.sub(r"answers\[(\d+)\]", lambda found: repr(str(answers[int(found[1])])), str(error))
        raise ValueError(message) from error
    if json_path != Path("-"):
        make_console().print(str(scored), highlight=False, markup=False)
    if not write_all(outputs, {"--json": lambda: _as_json(to_json(scored))}):
        raise Exit(2)


def _read(option: str, path: Path) -> Mapping[str, Any]:
    try:
        found: Mapping[str, Any] = json.loads(path.read_bytes())
    except OSError as error:
        raise ValueError(f"{option} must be a file that can be read, got {str(path)!r}: {error.strerror}") from error
    except (RecursionError, ValueError) as error:
        raise ValueError(f"{option} must hold JSON, got {str(path)!r}: {error}") from error
    if not isinstance(found, Mapping):
        raise ValueError(f"{option} must hold a JSON object, got {type(found).__name__} in {str(path)!r}")
    return found


def _as_json(data: object) -> str:
    return json.dumps(data, allow_nan=False, ensure_ascii=False, indent=1) + "\n"
