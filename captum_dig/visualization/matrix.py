"""A heat map: the words of one text against the numbers that were explained, such as the tokens of a continuation.

Takes results; writes one page to a stream. The command line offers the format.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import TextIO

from captum_dig.visualization.base import Picture, Scale, Segment, escaped
from captum_dig.visualization.formats import Drawable, Format
from captum_dig.visualization.web import html_document, tint

_STYLE = (
    ".cdig-matrix th{font-weight:400;text-align:start;white-space:nowrap;padding:.15em .5em}"
    ".cdig-matrix thead th{writing-mode:vertical-rl;transform:rotate(180deg);padding:.5em .15em}"
    ".cdig-matrix td{min-width:1.6em;height:1.6em;padding:0;border:1px solid transparent;background-clip:padding-box}"
    ".cdig-matrix{border-collapse:collapse}"
)


class MatrixFormat(Format):
    """One page with a heat map for each text: a row for each explained number, a column for each word."""

    def write(self, results: Iterable[Drawable], file: TextIO) -> None:
        """Write the page; results of the same text that follow each other share a heat map and its colours."""
        pictures = [result.to_picture() for result in results]
        sections = [_section(list(group)) for _, group in groupby(pictures, key=same_text)]
        file.write(html_document(sections or ["<p>No texts.</p>"], title="Word attributions", style=_STYLE) + "\n")


def same_text(picture: Picture) -> tuple[str, tuple[str, ...]]:
    """Return what pictures of the same text have in common: the text and its words."""
    return picture.text, tuple(word.text for word in picture.words)


def _section(pictures: Sequence[Picture]) -> str:
    scale = Scale.of(word.score for picture in pictures for word in picture.words)
    head = "".join(f'<th scope="col">{escaped(word.text)}</th>' for word in pictures[0].words)
    rows = "\n".join(
        f'<tr><th scope="row">{escaped(name_of(picture))}</th>'
        f"{''.join(_cell(word, picture, scale) for word in picture.words)}</tr>"
        for picture in pictures
    )
    table = f'<table class="cdig-matrix"><thead><tr><td></td>{head}</tr></thead><tbody>\n{rows}\n</tbody></table>'
    legend = f"Red raises the number of a row, blue lowers it; the strongest is {scale.show(scale.maximum)}."
    return (
        f'<section class="cdig"><p>{escaped(pictures[0].text)}</p><div class="cdig-scroll">{table}</div>'
        f'<p class="cdig-legend">{escaped(legend)}</p></section>'
    )


def name_of(picture: Picture) -> str:
    """The marked part of the text, or else the explained number."""
    marked = "".join(segment.text for segment in picture.segments if segment.marked).strip()
    return marked or picture.explained


def _cell(word: Segment, picture: Picture, scale: Scale) -> str:
    color = tint(word.score, scale.strength(word.score))
    told = escaped(f"{word.text} on {name_of(picture)}: {picture.told(word)}")
    return f'<td style="background-color:{color}" title="{told}"></td>'
