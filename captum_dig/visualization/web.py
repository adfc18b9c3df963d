"""Draw pictures as HTML: a page that stands alone, or a fragment for a notebook.

Takes `Picture`s; gives strings. Neither runs a script nor loads anything. The page works from a
file.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from html import escape

from captum_dig.visualization.base import Picture, Scale, TokenRow, visible

# `ink` is written on every mix of `paper` with `positive`, `negative` or `hatch`: a test keeps the
# contrast above 4.5.
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


# A word below this strength would get a colour that nobody can tell from none.
_FAINT = 0.03


def _variables(palette: dict[str, str]) -> str:
    return "{" + "".join(f"--cdig-{name}:{color};" for name, color in palette.items()) + "}"


# Notebooks and documentation sites say themselves whether they are dark; what the system prefers
# does not count there.
_FRAGMENT_COLORS = f"""
.cdig{_variables(LIGHT)}
[data-jp-theme-light="false"] .cdig,.vscode-dark .cdig,html[theme="dark"] .cdig,
[data-theme="dark"] .cdig\
{_variables(DARK)}
@media (prefers-color-scheme:dark){{[data-theme="auto"] .cdig{_variables(DARK)}}}
"""

_PAGE_COLORS = f"""
:root{{color-scheme:light dark}}
:root{_variables(LIGHT)}
@media (prefers-color-scheme:dark){{:root{_variables(DARK)}}}
body{{margin:0;background:var(--cdig-paper);color:var(--cdig-ink);font-family:system-ui,sans-serif}}
main{{max-width:56rem;margin:0 auto;padding:1rem}}
h1{{font-size:1.4rem;margin:.5rem 0 1.5rem;overflow-wrap:anywhere}}
main>.cdig{{margin:0 0 2rem;padding:0 0 2rem;border-bottom:1px solid var(--cdig-hatch)}}
"""

# Words carry their own paper and ink, so they stay legible on whatever a notebook puts behind them.
# Dashes mark the negative words for readers who see neither red nor blue.
_STYLE = """
.cdig{line-height:1.5;text-align:start;overflow-wrap:anywhere}
.cdig-text{font-size:1.15em;line-height:2;white-space:pre-wrap;margin:.75em 0}
.cdig-word{padding:.15em 0;border-radius:.2em}
.cdig-positive,.cdig-negative,.cdig-broken{color:var(--cdig-ink);
background-color:var(--cdig-paper);
print-color-adjust:exact;-webkit-print-color-adjust:exact;forced-color-adjust:none}
.cdig-positive{--cdig-hue:var(--cdig-positive)}
.cdig-negative{--cdig-hue:var(--cdig-negative)}
.cdig-positive,.cdig-negative{background-color:color-mix(in srgb,var(--cdig-hue) \
calc(var(--cdig-strength)*100%),var(--cdig-paper))}
.cdig-negative.cdig-word{text-decoration:underline dashed 1px \
color-mix(in srgb,currentColor calc(var(--cdig-strength)*100%),transparent);\
text-underline-offset:.3em}
.cdig-broken{outline:1px dashed currentColor;outline-offset:-1px;
background-image:repeating-linear-gradient(45deg,\
var(--cdig-hatch) 0 .2em,var(--cdig-paper) .2em .5em)}
.cdig-note{font-style:italic;border-bottom:1px dotted currentColor}
.cdig dl{display:grid;grid-template-columns:max-content minmax(0,1fr);gap:.1em 1em;margin:.5em 0}
.cdig dt{font-weight:600}
.cdig dd{margin:0}
.cdig-legend{font-size:.9em;margin:.5em 0}
.cdig-legend .cdig-word{padding:.15em .5em}
.cdig summary{cursor:pointer;font-size:.9em;padding:.35em 0}
.cdig-scroll{overflow-x:auto}
.cdig table{border-collapse:collapse;font-size:.9em;margin:0}
.cdig th,.cdig td{text-align:start;vertical-align:top;padding:.2em .75em .2em 0;
border:0;background:none;white-space:normal;max-width:none}
.cdig th:nth-child(2),.cdig .cdig-number{font-variant-numeric:tabular-nums;text-align:end;
overflow-wrap:normal;white-space:nowrap}
.cdig td.cdig-bars{width:6em;min-width:4em}
.cdig-bar{display:inline-block;height:.8em;width:calc(var(--cdig-strength)*100%);min-width:1px;
border-radius:.15em;background-color:var(--cdig-hue)}
.cdig td.cdig-token{white-space:pre-wrap;min-width:6.5em}
@media (max-width:40em){.cdig table.cdig-paths td:nth-child(3){display:none}}
"""

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def html_page(pictures: Iterable[Picture], *, title: str = "Word attributions") -> str:
    """Draw pictures as one HTML file that needs nothing else.

    Words stand on red (raises the explained output) or blue (lowers it), as strongly coloured as
    their score is large within its picture. The score shows on hover, and in a table that opens
    without a mouse. Colours follow the light or dark preference of the system. Every string is
    escaped, control characters are shown as escapes, and a score that is NaN or infinite is
    hatched. The page holds no script and forbids any.

    Args:
        pictures: What to draw, in order; none is fine.
        title: The title of the page.

    Returns:
        The page; write it as UTF-8.

    Example:
        >>> from captum_dig.visualization import Segment
        >>> page = html_page([Picture((Segment("<script>", 1.0),))])
        >>> "&lt;script&gt;" in page, "<script" in page
        (True, False)
    """
    sections = [_section(picture, f"Text {i}") for i, picture in enumerate(pictures, start=1)]
    return html_document(sections or ["<p>No texts.</p>"], title=title)


def html_document(sections: Iterable[str], *, title: str, style: str = "") -> str:
    """Put sections that are HTML already into a page of their own, with the colours of `html_page`.

    Args:
        sections: The parts of the page. They are not escaped.
        title: The title, which is.
        style: Further style rules.

    Returns:
        The page; it holds no script and forbids any.

    Example:
        >>> "<p>Done.</p>" in html_document(["<p>Done.</p>"], title="Report")
        True
    """
    name = _escape(title)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        f"<title>{name}</title>\n<style>{_PAGE_COLORS}{_STYLE}{style}</style>\n</head>\n"
        f"<body>\n<main>\n<h1><bdi>{name}</bdi></h1>\n" + "\n".join(sections) + "\n</main>\n</body>\n</html>\n"
    )


def html_words(picture: Picture) -> str:
    """Draw the words of one picture alone, for a page of `html_document`.

    Args:
        picture: What to draw.

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

    Draws what `html_page` draws, without the page. Its styles reach nothing outside of it, and the
    notebook's own fonts and colours stay in force around the words.

    Args:
        picture: What to draw.

    Returns:
        A `style` and a `section` element.
    """
    return f"<style>{_FRAGMENT_COLORS}{_STYLE}</style>\n{_section(picture, 'Word attributions')}"


def _section(picture: Picture, label: str) -> str:
    return "\n".join(
        part
        for part in (
            f'<section class="cdig" aria-label="{label}">',
            _pairs(picture.headline),
            html_words(picture),
            _legend(picture),
            _table(picture.rows),
            _settings(picture),
            "</section>",
        )
        if part
    )


def _words(picture: Picture) -> str:
    scale, parts = picture.scale, []
    for segment in picture.segments:
        text = _escape(segment.text)
        if segment.score is None and not segment.note:
            parts.append(text)
            continue
        remarks = [segment.note] if segment.note else []
        if segment.score is not None:
            remarks.insert(0, scale.show(segment.score))
        kind, style = _look(segment.score, scale)
        note = " cdig-note" if segment.note else ""
        hover = _escape(f"{segment.text.strip()}: {'; '.join(remarks)}" if segment.score is not None else segment.note)
        parts.append(f'<span class="cdig-word{kind}{note}"{style} title="{hover}">{text}</span>')
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
        for score, word in ((largest, "raises"), (-largest, "lowers"))
        for kind, style in (_look(score, picture.scale),)
    ]
    legend = f"Each word {keys[0]} or {keys[1]} the explained output; fainter means less."
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
        path = " → ".join(f"<bdi>{_escape(anchor)}</bdi>" for anchor in row.anchors)
        lines.append(
            f'<tr><td class="cdig-token"><bdi>{_escape(row.token)}</bdi></td>'
            f'<td class="cdig-number">{_escape(scale.show(row.score))}</td>'
            f'<td class="cdig-bars">{bar}</td>' + (f"<td>{path}</td></tr>" if anchored else "</tr>")
        )
    # On a phone the paths need the room of the bars.
    kind = ' class="cdig-paths"' if anchored else ""
    return (
        f"<details><summary>All {len(rows)} scores</summary>"
        '<div class="cdig-scroll" tabindex="0" role="region" aria-label="Scores">'
        f"<table{kind}>{''.join(lines)}</table></div></details>"
    )


def _settings(picture: Picture) -> str:
    if not picture.settings:
        return ""
    return f"<details><summary>Settings</summary>{_pairs(picture.settings)}</details>"


def _pairs(pairs: tuple[tuple[str, str], ...]) -> str:
    items = (f"<dt>{_escape(name)}</dt><dd><bdi>{_escape(value)}</bdi></dd>" for name, value in pairs)
    return f"<dl>{''.join(items)}</dl>" if pairs else ""


def _escape(text: str) -> str:
    return escape(visible(text), quote=True)
