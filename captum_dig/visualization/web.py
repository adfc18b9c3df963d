"""Draw pictures as HTML: a whole page, or a fragment for a notebook.

Takes `Picture`s; gives strings. Page and fragment run no script and load no file. Results and the command line use
them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from string import Template
from typing import Literal

from captum_dig.checks import one_of
from captum_dig.visualization.base import Picture, Scale, TokenRow, escaped
from captum_dig.visualization.sources import read_source, style_sheet

# `ink` stands on every mix of `paper` with `positive`, `negative` or `hatch`; a test keeps the contrast above 4.5.
LIGHT = {
    "paper": "#ffffff",
    "ink": "#16181d",
    "positive": "#f06a60",
    "negative": "#5c96f5",
    "hatch": "#d9dde3",
}
DARK = {
    "paper": "#14171c",
    "ink": "#f3f5f8",
    "positive": "#b8322a",
    "negative": "#2c58cc",
    "hatch": "#30363f",
}

# A word below this strength would get an invisible colour.
_FAINT = 0.03


def tint(score: float | None, strength: float) -> str:
    """Choose the colour of a word on light paper, as a page does: red or blue, mixed with the paper.

    Args:
        score: Its score; the sign chooses the colour.
        strength: The share of the colour, in [0, 1].

    Example:
        >>> tint(0.3, 1.0), tint(-0.3, 0.5), tint(0.3, 0.0)
        ('#f06a60', '#aecafa', '#ffffff')
    """
    hue = LIGHT["positive" if (score or 0.0) > 0 else "negative"]
    pairs = zip(*(bytes.fromhex(color[1:]) for color in (hue, LIGHT["paper"])), strict=True)
    return "#" + "".join(f"{round(strength * a + (1 - strength) * b):02x}" for a, b in pairs)


def _source(name: str) -> str:
    return read_source("captum_dig.visualization", name)


def _variables(palette: dict[str, str]) -> str:
    return "".join(f"--cdig-{name}:{color};" for name, color in palette.items())


def _colored(source: str) -> str:
    """Fill the two palettes into a style sheet."""
    return Template(source).substitute(light=_variables(LIGHT), dark=_variables(DARK))


_PAGE = Template(_source("page.html"))
# Words have their own paper and ink, and stay legible on any background of a notebook.
# Dashes mark the negative words for readers who see neither red nor blue.
_WORDS = _source("words.css")
_PAGE_STYLE = style_sheet(_colored(_source("page.css")), _WORDS)
# Notebooks and documentation sites say themselves whether they are dark; the system's preference does not count there.
_FRAGMENT_STYLE = style_sheet(_colored(_source("fragment.css")), _WORDS)
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def html_page(
    pictures: Iterable[Picture], *, title: str = "Word attributions", scale: Literal["page", "text"] = "page"
) -> str:
    """Draw pictures as one HTML file that needs no other.

    Words have a red background (they raise the explained output) or a blue one (they lower it). The strength of the
    colour is the size of the score. The score shows on hover, and in a table that opens without a
    mouse. Colours follow the light or dark preference of the system. Every string is escaped, control characters are
    shown as escapes, and a score that is NaN or infinite is hatched. The page holds no script and forbids any.

    Args:
        pictures: The pictures, in order; there may be none.
        title: The title of the page.
        scale: ``"page"`` draws equal scores alike on the whole page. ``"text"`` gives each picture a scale of its own,
            so that texts with small scores have strong colours, too.

    Returns:
        The page; write it as UTF-8.

    Raises:
        ValueError: If `scale` is something else.

    Example:
        >>> from captum_dig.visualization import Segment
        >>> page = html_page([Picture((Segment("<script>", 1.0),))])
        >>> "&lt;script&gt;" in page, "<script" in page
        (True, False)
    """
    drawn = list(pictures)
    if one_of("scale", scale, ("page", "text")) == "page":
        maximum = max((picture.scale.maximum for picture in drawn), default=0.0)
        drawn = [replace(picture, maximum=maximum) for picture in drawn]
    sections = [_section(picture, f"Text {i}") for i, picture in enumerate(drawn, start=1)]
    return html_document(sections or ["<p>No texts.</p>"], title=title)


def html_document(sections: Iterable[str], *, title: str, style: str = "") -> str:
    """Make a page of sections in HTML, with the colours of `html_page`.

    Args:
        sections: The parts of the page. They are not escaped.
        title: The title. It is escaped.
        style: Further style rules.

    Returns:
        The page; it holds no script and forbids any.

    Example:
        >>> "<p>Done.</p>" in html_document(["<p>Done.</p>"], title="Report")
        True
    """
    return _PAGE.substitute(
        policy=_POLICY, title=escaped(title), style=f"{_PAGE_STYLE}{style}", sections="\n".join(sections)
    )


def html_words(picture: Picture) -> str:
    """Draw the words of one picture alone, for a page of `html_document`.

    Args:
        picture: The picture.

    Returns:
        A `div` element.

    Example:
        >>> from captum_dig.visualization import Segment
        >>> html_words(Picture((Segment("so"),)))
        '<div class="cdig-text" dir="auto">so</div>'
    """
    # dir="auto" reads right-to-left text in its own order.
    return f'<div class="cdig-text" dir="auto">{_words(picture)}</div>'


def html_fragment(picture: Picture) -> str:
    """Draw one picture for a notebook cell.

    It draws the same as `html_page`, without the page. Its styles affect nothing outside of it, and the notebook's own
    fonts and colours stay in force around the words.

    Args:
        picture: The picture.

    Returns:
        A `style` and a `section` element.
    """
    return f"<style>{_FRAGMENT_STYLE}</style>\n{_section(picture, 'Word attributions')}"


def _section(picture: Picture, label: str) -> str:
    return "\n".join(
        part
        for part in (
            f'<section class="cdig" aria-label="{label}">',
            _pairs(picture.headline),
            html_words(picture),
            _legend(picture),
            f'<div class="cdig-footing"><bdi>{escaped(picture.footing)}</bdi></div>' if picture.footing else "",
            _table(picture.rows),
            _settings(picture),
            "</section>",
        )
        if part
    )


def _words(picture: Picture) -> str:
    scale, parts = picture.scale, []
    for number, segment in enumerate(picture.segments):
        text = escaped(segment.text)
        if segment.heading:
            # Drawn by the style sheet, like every mark: copied text stays the text.
            line = "" if not number or picture.segments[number - 1].text.endswith("\n") else " cdig-line"
            parts.append(f'<span class="cdig-field{line}" data-name="{escaped(segment.heading)}"></span>')
        marks = " cdig-marked" * segment.marked + " cdig-muted" * segment.muted
        if segment.score is None and not segment.note:
            parts.append(f'<span class="{marks.strip()}">{text}</span>' if marks else text)
            continue
        remarks = [segment.note] if segment.note else []
        if segment.score is not None:
            remarks.insert(0, picture.told(segment))
            if not segment.settled:
                remarks.append("the sign is not settled")
        kind, style = _look(segment.score, scale)
        note = " cdig-note" if segment.note else ""
        hover = escaped(f"{segment.text.strip()}: {'; '.join(remarks)}" if segment.score is not None else segment.note)
        # The mark is drawn by the style sheet: the text stays as it is, also when it is copied.
        unsettled = "" if segment.settled else " cdig-open"
        parts.append(f'<span class="cdig-word{kind}{note}{unsettled}{marks}"{style} title="{hover}">{text}</span>')
    return "".join(parts)


def _look(score: float | None, scale: Scale) -> tuple[str, str]:
    if score is not None and not math.isfinite(score):
        return " cdig-broken", ""
    strength = scale.strength(score)
    if score is None or strength < _FAINT:
        return "", ""
    kind = "positive" if score > 0 else "negative"
    return f" cdig-{kind}", f' style="--cdig-strength:{strength:.3f}"'


def _legend(picture: Picture) -> str:
    if not picture.words:
        return ""
    largest = picture.scale.maximum
    keys = [
        f'<span class="cdig-word{kind}"{style}>{word} ({picture.scale.show(score)})</span>'
        for score, word in ((largest, "Red"), (-largest, "blue"))
        for kind, style in (_look(score, picture.scale),)
    ]
    positive, negative = map(escaped, picture.sides)
    legend = f"{keys[0]} {positive}, {keys[1]} {negative}; fainter means less."
    if not all(word.settled for word in picture.words):
        legend += " <sup>?</sup> The sign is not settled: more gradients may give the other one."
    if any(word.error is not None for word in picture.words):
        legend += " Point at a word for its score ± its error, from the orders of the words and from the integration."
    if any(not math.isfinite(word.score or 0.0) for word in picture.words):
        legend += ' <span class="cdig-word cdig-broken">Hatched</span>: the score is not a number.'
    return f'<div class="cdig-legend">{legend}</div>'


def _table(rows: tuple[TokenRow, ...]) -> str:
    if not rows:
        return ""
    scale = Scale.of(row.score for row in rows)
    anchored = any(row.anchors for row in rows)
    heads = ["Token", "Score", ""] + ["Path to the baseline"] * anchored
    cells = (f'<th scope="col">{head}</th>' if head else "<td></td>" for head in heads)
    lines = [f"<tr>{''.join(cells)}</tr>"]
    for row in rows:
        kind, style = _look(row.score, scale)
        bar = f'<span class="cdig-bar{kind}"{style}></span>' if style else ""
        path = " → ".join(f"<bdi>{escaped(anchor)}</bdi>" for anchor in row.anchors)
        lines.append(
            f'<tr><td class="cdig-token"><bdi>{escaped(row.token)}</bdi></td>'
            f'<td class="cdig-number">{escaped(scale.show(row.score))}</td>'
            f'<td class="cdig-bars">{bar}</td>' + (f"<td>{path}</td></tr>" if anchored else "</tr>")
        )
    # On a phone the paths need the space of the bars.
    kind = ' class="cdig-paths"' if anchored else ""
    return (
        f"<details><summary>All {len(rows)} scores</summary>"
        '<div class="cdig-scroll" tabindex="0" role="region" aria-label="Scores">'
        f"<table{kind}>{''.join(lines)}</table></div></details>"
    )


def _settings(picture: Picture) -> str:
    if not picture.settings and not picture.numbers:
        return ""
    name = "Numbers and settings" if picture.numbers else "Settings"
    return f"<details><summary>{name}</summary>{_pairs((*picture.numbers, *picture.settings))}</details>"


def _pairs(pairs: tuple[tuple[str, str], ...]) -> str:
    items = (f"<dt>{escaped(name)}</dt><dd><bdi>{escaped(value)}</bdi></dd>" for name, value in pairs)
    return f"<dl>{''.join(items)}</dl>" if pairs else ""
