"""Sentences as a drawing in pixels: for a chat, a slide or a document that takes no SVG.

Takes results; writes one drawing to a stream of bytes. The command line offers the format.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, BinaryIO

from captum_dig.visualization.base import Picture
from captum_dig.visualization.formats import Drawable, Format
from captum_dig.visualization.lines import BAR, COLUMN, COLUMNS, LINE, MARGIN, SIZE, Piece, extent, pieces_of
from captum_dig.visualization.web import LIGHT, tint

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Units of the layout for an inch, and pixels for one: two for each unit, so that large screens show sharp letters.
_UNITS, _DOTS = 96, 192


class PngFormat(Format):
    """One drawing as SVG has it: each word with its colour, and a bar under it as high as its score.

    The letters are those of Matplotlib's own font; for other scripts, such as Chinese, take SVG.
    """

    binary = True

    def write(self, results: Iterable[Drawable], file: BinaryIO) -> None:
        """Write the drawing, with the results one under the other."""
        # Slow to import, and needed here alone.
        from matplotlib import rc_context
        from matplotlib.figure import Figure

        pictures = [result.to_picture() for result in results]
        laid = [list(pieces_of(picture)) for picture in pictures]
        extents = [extent(picture, pieces) for picture, pieces in zip(pictures, laid, strict=True)]
        heights = [LINE * lines + MARGIN for _, lines in extents]
        widest = max((columns for columns, _ in extents), default=COLUMNS)
        width, height = round(2 * MARGIN + widest * COLUMN), MARGIN + sum(heights)
        looks: dict[Any, Any] = {"font.family": "monospace", "text.usetex": False, "text.parse_math": False}
        with rc_context(looks), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Glyph .* missing from")
            figure = Figure(figsize=(width / _UNITS, height / _UNITS), facecolor=LIGHT["paper"])
            axes = figure.add_axes((0, 0, 1, 1), xlim=(0, width), ylim=(height, 0))
            axes.set_axis_off()
            top = MARGIN
            for picture, pieces, size in zip(pictures, laid, heights, strict=True):
                begin = top
                if picture.explained:
                    _write(axes, picture.explained, MARGIN, top + SIZE, weight="bold")
                    begin += LINE
                for piece in pieces:
                    _draw(axes, piece, picture, begin)
                top += size
            figure.savefig(file, format="png", dpi=_DOTS, metadata={"Software": None})


def _draw(axes: Axes, piece: Piece, picture: Picture, top: float) -> None:
    from matplotlib.patches import Rectangle

    x, y, width = MARGIN + piece.column * COLUMN, top + piece.line * LINE, piece.width * COLUMN
    segment = piece.segment
    if segment is not None and segment.score is not None:
        strength = picture.scale.strength(segment.score)
        word, full = tint(segment.score, strength), tint(segment.score, 1.0)
        axes.add_patch(Rectangle((x, y), width, SIZE + 4, color=word, linewidth=0))
        axes.add_patch(Rectangle((x, y + SIZE + 6), width, BAR * strength, color=full, linewidth=0))
    if segment is not None and segment.marked:
        axes.add_patch(Rectangle((x, y), width, SIZE + 4, fill=False, edgecolor=LIGHT["ink"], linewidth=0.75))
    faint = segment is not None and segment.muted
    _write(axes, piece.text, x, y + SIZE, weight="bold" if segment is None else "normal", alpha=0.7 if faint else 1.0)


def _write(axes: Axes, text: str, x: float, y: float, **looks: Any) -> None:
    # In points, of which there are 72 for an inch.
    axes.text(x, y, text, fontsize=SIZE * 72 / _UNITS, color=LIGHT["ink"], verticalalignment="baseline", **looks)
