"""Tables of words: CSV for a program, Markdown for a page.

Takes results; writes text to a stream. The command line offers both formats.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator
from typing import TextIO

from captum_dig.visualization.base import Picture, Segment, name_line
from captum_dig.visualization.formats import Drawable, Format

# Signs that Markdown or HTML could read as more than a letter.
_MARKS = re.compile(r"([\\`*_\[\]#|<>~&$])")
# The beginning of a line that Markdown reads as an item of a list.
_ITEM = re.compile(r"^(\s*\d*)([-+.)])(?=\s|$)")


class CsvFormat(Format):
    """A row for each word, in comma-separated values."""

    def write(self, results: Iterable[Drawable], file: TextIO) -> None:
        """Write the names of the columns, and the words of each result."""
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["result", "explained", "field", "word", "score", "error"])
        for number, result in enumerate(results, start=1):
            picture = result.to_picture()
            for field, word in fielded(picture):
                rows.writerow([number, picture.explained, field, word.text, word.score, word.error])


class MarkdownFormat(Format):
    """A table for each result, in Markdown as GitHub writes it."""

    def write(self, results: Iterable[Drawable], file: TextIO) -> None:
        """Write the lines above the text, the text, and a row for each word."""
        file.write("\n\n".join(map(_markdown, results)) + "\n")


def _markdown(result: Drawable) -> str:
    picture = result.to_picture()
    above, below = (
        "\n".join(f"- **{_plain(name)}:** {_plain(value)}" for name, value in pairs)
        for pairs in (picture.headline, picture.numbers)
    )
    quoted = "\n".join(f"> {_plain(line)}" for line in picture.text.split("\n"))
    rows = [
        f"| {_plain(word.text)} | {picture.scale.show(word.score, word.error)}{'' if word.settled else ' ?'} |"
        for word in sorted(picture.words, key=lambda word: -picture.scale.strength(word.score))
    ]
    table = "\n".join(["| word | score |", "|---|---:|", *rows])
    return "\n\n".join(part for part in (above, quoted, table, _plain(picture.footing), below) if part)


def _plain(text: str) -> str:
    return _ITEM.sub(r"\1\\\2", _MARKS.sub(r"\\\1", name_line(text)))


def fielded(picture: Picture) -> Iterator[tuple[str, Segment]]:
    r"""List the words of a picture with the name of the field of each, which is empty where there is one text.

    Example:
        >>> picture = Picture((Segment("so", 0.1, heading="text"), Segment("\n"), Segment("bad", 0.9, heading="other")))
        >>> [(field, word.text) for field, word in fielded(picture)]
        [('text', 'so'), ('other', 'bad')]
    """
    field = ""
    for segment in picture.segments:
        field = segment.heading or field
        if segment.score is not None:
            yield field, segment
