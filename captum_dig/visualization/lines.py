"""Lines: a picture as words on lines of equal width, for drawings.

Takes a `Picture`; gives pieces with their line and column. The formats that draw place them on their canvas.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from captum_dig.visualization.base import Picture, Segment, visible

# In pixels: the width of a column of a monospaced font, the height of its lines, and of the bar under a word.
SIZE, COLUMN, LINE, BAR, MARGIN = 16, 9.6, 40, 12, 16
COLUMNS = 80


@dataclass(frozen=True)
class Piece:
    """A part of a line: a word, or the text between two words.

    Attributes:
        text: The text.
        line: The number of its line, from 0.
        column: The number of its first column, from 0.
        segment: The segment that it is a part of; None for the name of a field.
    """

    text: str
    line: int
    column: int
    segment: Segment | None

    @property
    def width(self) -> int:
        """The number of columns."""
        return columns_of(self.text)


def pieces_of(picture: Picture) -> Iterator[Piece]:
    """Lay the segments out in lines; a word that is longer than a line is cut."""
    line = column = 0
    for segment in picture.segments:
        if segment.heading:
            line, column = (line + 1, 0) if column else (line, 0)
            yield Piece(f"{visible(segment.heading)}: ", line, 0, None)
            column = columns_of(segment.heading) + 2
        for number, part in enumerate(segment.text.split("\n")):
            if number:
                line, column = line + 1, 0
            for word in _words(visible(part), whole=segment.score is not None):
                if column and column + columns_of(word) > COLUMNS:
                    line, column = line + 1, 0
                yield Piece(word, line, column, segment)
                column += columns_of(word)


def extent(picture: Picture, pieces: Sequence[Piece]) -> tuple[int, int]:
    """Measure a drawing.

    Args:
        picture: The picture.
        pieces: Its pieces.

    Returns:
        The columns of its longest line, and its lines; the explained number is a line above the words.
    """
    ends = (piece.column + piece.width for piece in pieces)
    lines = 1 + max((piece.line for piece in pieces), default=0)
    return max([columns_of(picture.explained), *ends]), lines + bool(picture.explained)


def _words(text: str, *, whole: bool) -> Iterator[str]:
    """Cut a text that has no score at its spaces, and any text at the width of a line."""
    parts = [text] if whole else [part for part in text.replace(" ", " \0").split("\0") if part]
    for part in parts:
        start = 0
        for end in range(1, len(part) + 1):
            # A mark belongs to the character before it.
            if end == len(part) or (columns_of(part[start : end + 1]) > COLUMNS):
                yield part[start:end]
                start = end


def columns_of(text: str) -> int:
    """The columns of a text: two for a wide character, none for a mark on another."""
    widths = {"W": 2, "F": 2}
    return sum(0 if unicodedata.combining(c) else widths.get(unicodedata.east_asian_width(c), 1) for c in text)
