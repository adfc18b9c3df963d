"""The command that ranks a vocabulary ahead of time."""

import os
import time
from pathlib import Path
from typing import Annotated

from typer import Argument, Context, Exit, Option, echo

from captum_dig.catalogue import Entry
from captum_dig.cli import models
from captum_dig.cli.app import app
from captum_dig.cli.console import is_watched, make_console, progress_bar, warnings_as_lines
from captum_dig.cli.options import CANDIDATES, MOST_ANCHORS, TRUST, chosen, count, named

_NEIGHBORS_HELP = (
    "Rank the whole vocabulary of a model ahead of time.\n\n"
    "'captum-dig explain --strategy greedy' ranks the words that it meets and keeps the result, so this is for many "
    "texts, or for a model that many will use. Strategy, baseline, candidates and numbers must be those of later runs."
)


def _is_kept(entry: Entry) -> bool:
    """Tell whether a search finds the same each time; the class of a plug-in says so itself."""
    return not (entry.draws or getattr(entry.home, "draws", False))


@app.command(help=_NEIGHBORS_HELP)
def neighbors(
    context: Context,
    model: Annotated[str | None, Argument(help="A folder, or a name on the hub.", show_default="embedded demo")] = None,
    trust_remote_code: Annotated[bool, TRUST] = False,
    baseline: Annotated[str, Option(help="Starting point: pad, mask, unk, a token or id:N.", metavar="TOKEN")] = "pad",
    strategy: Annotated[str, named("How words on the way are chosen", "search", where=_is_kept)] = "greedy",
    candidates: Annotated[str, chosen("Choose among readable words, or all tokens", CANDIDATES)] = "words",
    n_anchors: Annotated[int, count("How many words lie on the way", MOST_ANCHORS)] = 30,
    n_neighbors: Annotated[int, count("Among how many neighbours each is chosen")] = 500,
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
    if cache is not None and cache.exists() and not cache.is_dir():
        raise ValueError(f"--cache must be a folder, got the file {str(cache)!r}; name another")
    messages = make_console(stderr=True)
    started = time.perf_counter()
    with warnings_as_lines(messages):
        path = {"strategy": strategy, "candidates": candidates, "n_anchors": n_anchors, "n_neighbors": n_neighbors}
        kept_in = {"catalogue": context.obj, "cache": True if cache is None else cache}
        table = models.load(model, trust_remote_code, **path, **kept_in).table(baseline)
        with progress_bar(messages, "Ranking", len(table), shown=is_watched()) as bar:
            for done in table.rank_all():
                bar.update(bar.task_ids[0], completed=done)
        kept = table.store()
    if kept is None:
        raise Exit(2)
    echo(f"{len(table)} rows ranked in {time.perf_counter() - started:.0f} s, kept in {kept}")
