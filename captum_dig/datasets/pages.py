"""Pages: a summary of scores as a page, and as tables for a terminal.

Takes a `ScoreSummary`; gives HTML that needs no other file, or tables of Rich. The command line writes both.
"""

import math
from collections.abc import Iterator
from typing import Final

from rich.table import Table
from rich.text import Text

from captum_dig.datasets.summary import GroupSummary, ScoreSummary, WordSummary
from captum_dig.visualization import bar_plot, visible
from captum_dig.visualization.base import escaped
from captum_dig.visualization.sources import read_source, style_sheet
from captum_dig.visualization.web import html_document

_STYLE: Final = style_sheet(read_source("captum_dig.datasets", "summary.css"))
# The number of words in a plot.
_PLOTTED: Final = 16
# Columns of the terminal's bars.
_WIDTH: Final = 12


def summary_page(summary: ScoreSummary, *, title: str = "Words of a data set") -> str:
    """Draw a summary as one HTML page.

    Args:
        summary: The summary.
        title: The title of the page.

    Returns:
        The page; it holds no script.
    """
    sections = [_head(summary), *(_group(group) for group in summary.groups), *_rest(summary)]
    return html_document(sections, title=title, style=_STYLE)


def summary_tables(summary: ScoreSummary, *, top: int = 10) -> Iterator[Table | Text]:
    """Draw a summary for a terminal.

    Args:
        summary: The summary.
        top: The number of words on each side.

    Yields:
        A line about all, then a table for each label.
    """
    yield Text(_told(summary))
    for group in summary.groups:
        yield Text(visible(_title(group)), style="bold")
        table = Table(box=None, pad_edge=False)
        table.add_column("word", overflow="fold")
        for name in ("total", "mean", "±", "texts"):
            table.add_column(name, justify="right", no_wrap=True)
        table.add_column("", no_wrap=True)
        shown = [word for word in group.words if word.total > 0][:top]
        shown += [word for word in group.words if word.total < 0][-top:]
        largest = max((abs(word.total) for word in shown), default=0.0) or 1.0
        for word in shown:
            style = "" if word.is_settled else "dim"
            # With a sign that is seen without colours, too.
            bar = ("+" if word.total > 0 else "-") * max(1, round(_WIDTH * abs(word.total) / largest))
            color = "red" if word.total > 0 else "blue"
            table.add_row(
                Text(f"{visible(word.word)}{'' if word.is_settled else ' ?'}", style=style),
                Text(f"{word.total:+.2f}", style=style),
                Text(f"{word.mean:+.3f}", style=style),
                Text(_half(word), style=style),
                Text(f"{word.n_texts:,}", style=style),
                Text(bar, style=color),
            )
        yield table


def _told(summary: ScoreSummary) -> str:
    n_errors = sum(summary.errors.values())
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in summary.errors.items())
    errors = f"; {n_errors:,} with an error ({kinds})" if n_errors else ""
    return (
        f"{summary.n_rows:,} rows{errors}. Each score says what a word adds to the explained number of its text; "
        "± is the half width of a 95 % interval over texts, and unknown below 5 texts. "
        "The sign of pale words, or of those with a ?, may be chance."
    )


def _title(group: GroupSummary) -> str:
    count = f"{group.n_texts:,} text{'s' * (group.n_texts != 1)}"
    return f"{group.label}: {count}, with {group.change:+.2f} on average"


def _head(summary: ScoreSummary) -> str:
    return f"<p>{escaped(_told(summary))}</p>"


def _group(group: GroupSummary) -> str:
    largest = max((abs(word.total) for word in group.words), default=0.0) or 1.0
    rows = "".join(_row(word, largest) for word in group.words)
    dropped = f" {group.n_dropped:,} occurrences of rare words were left out." if group.n_dropped else ""
    return (
        f'<section class="cdig"><h2>{escaped(_title(group))}</h2>'
        f"<p>The {len(group.words)} words with the largest totals, of {group.n_words:,}.{dropped} "
        f"Red speaks for {escaped(group.label)}, blue against it. A word opens to texts that hold it.</p>"
        f"{_plot(group)}"
        '<div class="cdig-wide"><table class="cdig-bars"><thead><tr><th>word</th><th>total</th><th></th>'
        f"<th>mean ±</th><th>texts</th></tr></thead><tbody>{rows}</tbody></table></div></section>"
    )


def _plot(group: GroupSummary) -> str:
    """The means of the words with the largest totals, with their intervals."""
    if not group.words:
        return ""
    largest = sorted(group.words, key=lambda word: -abs(word.total))[:_PLOTTED]
    bars = {
        word.word: {"mean": (word.mean, word.mean - word.half_width, word.mean + word.half_width)}
        for word in sorted(largest, key=lambda word: -word.mean)
    }
    svg = bar_plot(bars, title=f"Mean scores for {group.label}, with 95 % intervals", label="mean score")
    return f'<div class="cdig-plot">{svg}</div>'


def _row(word: WordSummary, largest: float) -> str:
    share = 100 * abs(word.total) / largest
    side = "cdig-for" if word.total > 0 else "cdig-against"
    bar = f'<i class="{side}" style="width:{share:.1f}%"></i>'
    halves = ("", bar) if word.total > 0 else (bar, "")
    examples = "".join(
        f"<li>{escaped(f'row {example.row}, {example.score:+.3f}: {example.text}')}</li>" for example in word.examples
    )
    shown = escaped(word.word)
    if examples:
        shown = f"<details><summary>{shown}</summary><ul>{examples}</ul></details>"
    faint = "" if word.is_settled else ' class="cdig-faint"'
    return (
        f'<tr{faint}><td class="cdig-word">{shown}</td><td class="cdig-n">{word.total:+.2f}</td>'
        f'<td><div class="cdig-bar" aria-hidden="true"><span>{halves[0]}</span><span>{halves[1]}</span></div></td>'
        f'<td class="cdig-n">{word.mean:+.3f} ± {_half(word)}</td><td class="cdig-n">{word.n_texts:,}</td></tr>'
    )


def _half(word: WordSummary) -> str:
    return "?" if math.isinf(word.half_width) else f"{word.half_width:.3f}"


def _rest(summary: ScoreSummary) -> Iterator[str]:
    if summary.uncertain:
        items = "".join(
            f"<li>{escaped(f'row {one.row}, about {one.score:.0f} %: {one.text}')}</li>" for one in summary.uncertain
        )
        yield (
            '<section class="cdig"><h2>Least certain texts</h2><p>The largest estimated errors of the integration, '
            f"in percent of the scores; a lower tolerance makes them smaller.</p><ul>{items}</ul></section>"
        )
