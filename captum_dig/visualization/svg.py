"""Sentences as a drawing in SVG: for a slide, a paper or a page.

Takes results; writes one drawing to a stream. The command line offers the format.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TextIO

from captum_dig.visualization.base import Picture, escaped
from captum_dig.visualization.formats import Drawable, Format
from captum_dig.visualization.lines import BAR, COLUMN, LINE, MARGIN, SIZE, Piece, extent, pieces_of
from captum_dig.visualization.web import LIGHT, tint


class SvgFormat(Format):
    """One drawing: each word with its colour, and a bar under it as high as its score."""

    def write(self, results: Iterable[Drawable], file: TextIO) -> None:
        """Write the drawing, with the results one under the other."""
        parts: list[str] = []
        top, widest = MARGIN, 0
        for result in results:
            picture = result.to_picture()
            pieces = list(pieces_of(picture))
            columns, lines = extent(picture, pieces)
            widest = max(widest, columns)
            parts.append(_text(picture.explained, MARGIN, top + SIZE, weight="bold"))
            words = top + LINE * bool(picture.explained)
            parts += [_drawn(piece, picture, words) for piece in pieces]
            top += LINE * lines + MARGIN
        width = round(2 * MARGIN + max(widest, 1) * COLUMN)
        file.write(
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {top}" width="{width}" height="{top}" '
            f'font-family="monospace" font-size="{SIZE}" fill="{LIGHT["ink"]}">\n'
            f'<rect width="100%" height="100%" fill="{LIGHT["paper"]}"/>\n'
            + "".join(f"{part}\n" for part in parts if part)
            + "</svg>\n"
        )


def _drawn(piece: Piece, picture: Picture, top: float) -> str:
    x, y = MARGIN + piece.column * COLUMN, top + piece.line * LINE
    width = piece.width * COLUMN
    parts = []
    segment = piece.segment
    if segment is not None and segment.score is not None:
        strength = picture.scale.strength(segment.score)
        parts += [
            f"<title>{escaped(f'{piece.text.strip()}: {picture.told(segment)}')}</title>",
            f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{SIZE + 4}" '
            f'fill="{tint(segment.score, strength)}"/>',
            f'<rect x="{x:.1f}" y="{y + SIZE + 6}" width="{width:.1f}" height="{BAR * strength:.1f}" '
            f'fill="{tint(segment.score, 1.0)}"/>',
        ]
    if segment is not None and segment.marked:
        parts.append(
            f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{SIZE + 4}" fill="none" stroke="{LIGHT["ink"]}"/>'
        )
    weight = "bold" if segment is None else ""
    parts.append(_text(piece.text, x, y + SIZE, width, weight, muted=segment is not None and segment.muted))
    return f"<g>{''.join(parts)}</g>"


def _text(text: str, x: float, y: float, width: float | None = None, weight: str = "", *, muted: bool = False) -> str:
    if not text.strip():
        return ""
    # The width is given, so that every font puts the words over their colours.
    fitted = "" if width is None else f' textLength="{width:.1f}" lengthAdjust="spacingAndGlyphs"'
    bold = f' font-weight="{weight}"' if weight else ""
    faint = ' fill-opacity="0.7"' if muted else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" xml:space="preserve"{fitted}{bold}{faint}>{escaped(text)}</text>'
