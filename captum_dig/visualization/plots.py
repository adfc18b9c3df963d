"""Draw bars with intervals, and lines, as pictures for an HTML page.

Takes numbers by name; gives `svg` elements whose text has the colour of the page around them. The report of a
comparison uses them.
"""

from __future__ import annotations

import io
import math
import re
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from captum_dig.visualization.base import escaped, name_line

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Distinct for colour-blind readers, on white and on black (Okabe and Ito).
_COLORS = (
    "#0090d0",
    "#d55e00",
    "#009e73",
    "#cc79a7",
    "#b88a00",
    "#56b4e9",
    "#8c6bb1",
    "#7f7f7f",
    "#a6761d",
    "#e7298a",
    "#66a61e",
    "#e6550d",
)
_MARKERS = "osD^vPX*<>"
_LINES = ("-", "--", "-.", ":")
# Axes around such numbers overflow.
_TOO_LARGE = 1e100
# A placeholder for the colour of the page's text.
_INK = "#010203"


def bar_plot(
    bars: Mapping[str, Mapping[str, tuple[float, float, float]]], *, title: str, label: str, width: float = 6.0
) -> str:
    """Draw bars with intervals: a row for each name, with a bar for each group.

    Args:
        bars: For each name and group the value and the ends of its interval; NaN is left out.
        title: The title of the picture.
        label: The label of the numbers.
        width: Width in inches.

    Returns:
        An `svg` element.

    Example:
        >>> bar_plot({"IG": {"pad": (1.0, 0.5, 1.5)}}, title="Faithfulness", label="log-odds").startswith("<svg")
        True
    """
    names = list(bars)
    groups = list(dict.fromkeys(group for row in bars.values() for group in row))
    thick = 0.8 / max(1, len(groups))
    first = {group: next(n for n, row in enumerate(bars.values()) if group in row) for group in groups}

    def draw(axes: Axes) -> None:
        for g, group in enumerate(groups):
            for n, name in enumerate(names):
                value, low, high = bars[name].get(group, (math.nan,) * 3)
                if not _drawable(value):
                    continue
                place = n + (g - (len(groups) - 1) / 2) * thick
                axes.barh(
                    place,
                    value,
                    height=0.9 * thick,
                    color=_COLORS[g % len(_COLORS)],
                    label=_label(group) if n == first[group] else None,
                )
                if _drawable(low) and _drawable(high):
                    axes.errorbar(value, place, xerr=[[max(0, value - low)], [max(0, high - value)]], color=_INK, lw=1)
        axes.set_yticks(range(len(names)), list(map(_label, names)), parse_math=False)
        axes.invert_yaxis()
        axes.axvline(0, color=_INK, lw=0.8)
        axes.set_xlabel(_label(label), parse_math=False)
        axes.grid(axis="x", alpha=0.3)
        if len(groups) > 1:
            _legend(axes, loc="lower center", bbox_to_anchor=(0.5, 1.08), ncols=len(groups))

    return _svg(draw, title, (width, 1.1 + 0.2 * len(names) * (0.5 + len(groups))))


def line_plot(
    lines: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    *,
    title: str,
    x_label: str,
    y_label: str,
    logarithmic: bool = False,
    width: float = 6.0,
) -> str:
    """Draw a line for each name.

    Args:
        lines: For each name the places and the values.
        title: The title of the picture.
        x_label: The label of the places.
        y_label: The label of the values.
        logarithmic: Whether both axes are logarithmic.
        width: Width in inches.

    Returns:
        An `svg` element.

    Example:
        >>> line_plot({"IG": ([1, 2], [3, 4])}, title="Delta", x_label="steps", y_label="%").startswith("<svg")
        True
    """

    def draw(axes: Axes) -> None:
        for i, (name, (x, y)) in enumerate(lines.items()):
            look: dict[str, Any] = {
                "color": _COLORS[i % len(_COLORS)],
                "marker": _MARKERS[i % len(_MARKERS)],
                "linestyle": _LINES[i % len(_LINES)],
            }
            shown = [value if _drawable(value) and (value > 0 or not logarithmic) else math.nan for value in y]
            axes.plot(x, shown, label=_label(name), markersize=4, **look)
        if logarithmic and any(value > 0 and _drawable(value) for _, y in lines.values() for value in y):
            axes.set_xscale("log", base=2)
            axes.set_yscale("log")
            places = sorted({place for x, _ in lines.values() for place in x})
            axes.set_xticks(places, [f"{place:g}" for place in places])
        axes.set_xlabel(_label(x_label), parse_math=False)
        axes.set_ylabel(_label(y_label), parse_math=False)
        axes.grid(alpha=0.3)
        _legend(axes, fontsize="small", loc="center left", bbox_to_anchor=(1.0, 0.5))

    return _svg(draw, title, (width, 3.8))


def _drawable(value: float) -> bool:
    return abs(value) < _TOO_LARGE


def _label(name: str) -> str:
    """Write a name for a picture."""
    shown = name_line(name)
    # Matplotlib's legends omit labels that begin with an underscore.
    return f" {shown}" if shown.startswith("_") else shown


def _legend(axes: Axes, **looks: Any) -> None:
    """Add a legend; dollar signs in names make no formulas."""
    for text in axes.legend(frameon=False, **looks).get_texts():
        text.set_parse_math(False)


def _svg(draw: Any, title: str, size: tuple[float, float]) -> str:
    # Slow to import, and needed for reports alone.
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    looks: dict[Any, Any] = dict.fromkeys(
        ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color", "axes.titlecolor"), _INK
    )
    title = _label(title)
    # Equal pictures give equal output, and pictures on one page have different clip ids.
    looks |= {"svg.fonttype": "none", "svg.hashsalt": title, "font.family": "sans-serif", "text.usetex": False}
    with rc_context(looks), warnings.catch_warnings():
        # The reader's browser has letters that Matplotlib's own font lacks.
        warnings.filterwarnings("ignore", "Glyph .* missing from")
        figure = Figure(figsize=size, layout="constrained")
        axes = figure.subplots()
        axes.spines[["top", "right"]].set_visible(False)
        draw(axes)
        axes.set_title(title, fontsize="medium", parse_math=False)
        written = io.StringIO()
        figure.savefig(written, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    svg = written.getvalue()
    svg = svg[svg.index("<svg") :].replace(_INK, "currentColor")
    # The page sets the size, and needs no metadata.
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    label = f'role="img" aria-label="{escaped(title)}"'
    svg = re.sub(r'width="[\d.]+pt" height="[\d.]+pt"', lambda _: label, svg, count=1)
    return svg.strip()
