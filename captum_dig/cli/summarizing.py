"""The command that summarizes scores of a data set."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Exit, Option

from captum_dig.cli.app import app
from captum_dig.cli.console import make_console, warnings_as_lines
from captum_dig.cli.files import DASH, check_outputs, write_all
from captum_dig.cli.options import chosen, count, file_option

_BY = ("label", "nothing")
_HELP = (
    "Show which words drive each label over a data set.\n\n"
    "Reads the folder of scores that 'captum-dig explain --data ... --out scores/' wrote, in one pass. "
    "For each explained label it shows the words with the largest totals, their mean score with an interval, "
    "and the number of texts that hold them."
)
_EXAMPLES = """Examples:

  captum-dig summarize scores/
  captum-dig summarize scores/ --top 50 --html words.html"""


@app.command(help=_HELP, epilog=_EXAMPLES)
def summarize(
    scores: Annotated[Path, Argument(help="The folder of scores.", metavar="FOLDER")],
    by: Annotated[str, chosen("One list of words for each", _BY)] = "label",
    top: Annotated[int, count("The number of words for each label", 10_000)] = 30,
    keep_case: Annotated[bool, Option("--keep-case", help="Tell words apart that differ only in their case.")] = False,
    html: Annotated[Path | None, file_option("--html", "Write a page with bars and examples.")] = None,
) -> None:
    """Add the scores of words up, and show them."""
    outputs = {} if html is None else {"--html": html}
    check_outputs(outputs, {})
    with warnings_as_lines(make_console(stderr=True)):
        from captum_dig.datasets.pages import summary_page, summary_tables
        from captum_dig.datasets.summary import summarize as add_up

        found = add_up(scores, by=by, fold_case=not keep_case, top=top)
    # First the files: the reader of the table may have left.
    written = write_all(outputs, {"--html": lambda: summary_page(found, title=f"Words of {scores.name}")})
    if DASH not in outputs.values():
        screen = make_console()
        for part in summary_tables(found):
            screen.print(part)
            screen.print()
    if not written:
        raise Exit(2)
