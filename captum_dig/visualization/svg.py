"""Sentences as a drawing in SVG: for a slide, a paper or a page.

Takes results; writes one drawing to a stream. The command line offers the format.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TextIO

from captum_dig.visualization.base import Picture, Segment, escaped, visible
from captum_dig.visualization.formats import Drawable, Format
from captum_dig.visualization.web import LIGHT, tint

# In pixels: the width of a column of a monospaced font, the height of its lines, and of the bar under a word.
_SIZE, _COLUMN, _LINE, _BAR, _MARGIN = 16, 9.6, 40, 12, 16
_COLUMNS = 80


@dataclass(frozen=True)
class _Piece:
    """A part of a line: a word, or the text between two words."""

    text: str
    line: int
    column: int
    segment: Segment | None

    @property
    def width(self) -> int:
        return _columns(self.text)


class SvgFormat(Format):
    """One drawing: each word with its colour, and a bar under it as high as its score."""

    def write(self, results: Iterable[Drawable], file: TextIO) -> None:
        """Write the drawing, with the results one under the other."""
        parts: list[str] = []
        top = _MARGIN
        for result in results:
            picture = result.to_picture()
            parts.append(_text(picture.explained, _MARGIN, top + _SIZE, weight="bold"))
            top += _LINE if picture.explained else 0
            pieces = list(_pieces(picture))
            parts += [_drawn(piece, picture, top) for piece in pieces]
            top += _LINE * (1 + max((piece.line for piece in pieces), default=0)) + _MARGIN
        width = round(2 * _MARGIN + _COLUMNS * _COLUMN)
        file.write(
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {top}" width="{width}" height="{top}" '
            f'font-family="monospace" font-size="{_SIZE}" fill="{LIGHT["ink"]}">\n'
            f'<rect width="100%" height="100%" fill="{LIGHT["paper"]}"/>\n'
            + "".join(f"{part}\n" for part in parts if part)
            + "</svg>\n"
        )


def _pieces(picture: Picture) -> Iterator[_Piece]:
    """Lay the segments out in lines; a word that is longer than a line is cut."""
    line = column = 0
    for segment in picture.segments:
        if segment.heading:
            line, column = (line + 1, 0) if column else (line, 0)
            yield _Piece(f"{visible(segment.heading)}: ", line, 0, None)
            column = _columns(segment.heading) + 2
        for number, part in enumerate(segment.text.split("\n")):
            if number:
                line, column = line + 1, 0
            for word in _words(visible(part), whole=segment.score is not None):
                if column and column + _columns(word) > _COLUMNS:
                    line, column = line + 1, 0
                yield _Piece(word, line, column, segment)
                column += _columns(word)


def _words(text: str, *, whole: bool) -> Iterator[str]:
    """Cut a text that has no score at its spaces, and any text at the width of a line."""
    parts = [text] if whole else [part for part in text.replace(" ", " \0").split("\0") if part]
    for part in parts:
        start = 0
        for end in range(1, len(part) + 1):
            # A mark belongs to the character before it.
            if end == len(part) or (_columns(part[start : end + 1]) > _COLUMNS):
                yield part[start:end]
                start = end


def _drawn(piece: _Piece, picture: Picture, top: float) -> str:
    x, y = _MARGIN + piece.column * _COLUMN, top + piece.line * _LINE
    width = piece.width * _COLUMN
    parts = []
    segment = piece.segment
    if segment is not None and segment.score is not None:
        strength = picture.scale.strength(segment.score)
        parts += [
            f"<title>{escaped(f'{piece.text.strip()}: {picture.told(segment)}')}</title>",
            f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{_SIZE + 4}" '
            f'fill="{tint(segment.score, strength)}"/>',
            f'<rect x="{x:.1f}" y="{y + _SIZE + 6}" width="{width:.1f}" height="{_BAR * strength:.1f}" '
            f'fill="{tint(segment.score, 1.0)}"/>',
        ]
    if segment is not None and segment.marked:
        parts.append(
            f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{_SIZE + 4}" fill="none" stroke="{LIGHT["ink"]}"/>'
        )
    weight = "bold" if segment is None else ""
    parts.append(_text(piece.text, x, y + _SIZE, width, weight, muted=segment is not None and segment.muted))
    return f"<g>{''.join(parts)}</g>"


def _text(text: str, x: float, y: float, width: float | None = None, weight: str = "", *, muted: bool = False) -> str:
    if not text.strip():
        return ""
    # The width is given, so that every font puts the words over their colours.
    fitted = "" if width is None else f' textLength="{width:.1f}" lengthAdjust="spacingAndGlyphs"'
    bold = f' font-weight="{weight}"' if weight else ""
    faint = ' fill-opacity="0.7"' if muted else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" xml:space="preserve"{fitted}{bold}{faint}>{escaped(text)}</text>'


def _columns(text: str) -> int:
    """The columns of a text: two for a wide character, none for a mark on another."""
    widths = {"W": 2, "F": 2}
    return sum(0 if unicodedata.combining(c) else widths.get(unicodedata.east_asian_width(c), 1) for c in text)
