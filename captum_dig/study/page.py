"""The page for ranking: its look, and the script that keeps and saves the ranks.

Takes sentences with their pictures; gives HTML for `captum_dig.study.sheets`.
"""

import base64
import hashlib
import math
from collections.abc import Sequence
from string import Template

from captum_dig.visualization import Scale, Segment
from captum_dig.visualization.base import escaped
from captum_dig.visualization.sources import read_source, style_sheet
from captum_dig.visualization.web import DARK, LIGHT

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_FAINT = 0.03  # a weaker colour is invisible
_SPOKEN = 10  # words for a screen reader


def _source(name: str) -> str:
    return read_source("captum_dig.study", name)


def _variables(palette: dict[str, str]) -> str:
    return "".join(f"--{name}:{color};" for name, color in palette.items())


_PAGE = Template(_source("study.html"))
_STYLE = style_sheet(Template(_source("study.css")).substitute(light=_variables(LIGHT), dark=_variables(DARK)))
# The script reads everything from the page's elements. It is the same on every page, and so is its hash in the policy.
_SCRIPT = f"\n{_source('study.js')}"
_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; script-src 'sha256-"
    + base64.b64encode(hashlib.sha256(_SCRIPT.encode()).digest()).decode()
    + "'"
)


def draw(articles: str, study: str, n_methods: int, answers_format: str, version: int) -> str:
    """Make one page of the sentences, which needs no other file."""
    hatched = ' <mark class="broken">Hatched</mark> words have no valid score.' if '"broken"' in articles else ""
    return _PAGE.substitute(
        policy=_POLICY,
        style=_STYLE,
        hatched=hatched,
        n_methods=n_methods,
        study=study,
        format=answers_format,
        version=version,
        articles=articles,
        script=_SCRIPT,
    )


def article(index: int, total: int, decision: str, pictures: Sequence[tuple[Segment, ...]]) -> str:
    """Draw one sentence with its explanations in their order on the page, each with a choice of ranks."""
    number = index + 1
    explanations = (
        _explanation(f"{number}-{letter}", letter, segments, len(pictures))
        for letter, segments in zip(LETTERS, pictures, strict=False)
    )
    return (
        f'<article id="s{number}" aria-labelledby="h{number}" tabindex="-1">\n<h2 id="h{number}">Sentence {number} of '
        f"{total}</h2>\n<p>The program decided: <strong><bdi>{escaped(decision)}</bdi></strong></p>\n"
        f'{"".join(explanations)}<p class="state" role="status"></p>\n</article>\n'
    )


def _explanation(name: str, letter: str, segments: tuple[Segment, ...], n_ranks: int) -> str:
    ranks = "".join(
        f'<label><input type="radio" name="r{name}" value="{rank}" aria-label="Rank {rank}">{rank}</label>'
        for rank in range(1, n_ranks + 1)
    )
    scale = Scale.of(segment.score for segment in segments)
    # dir="auto" reads right-to-left text in its own order.
    return (
        f'<fieldset aria-describedby="d{name}">\n<legend>Explanation {letter}</legend>\n'
        f'<p class="text" dir="auto">{"".join(_mark(segment, scale) for segment in segments)}</p>\n'
        f'<p class="unseen" id="d{name}">{_spoken(segments, scale)}</p>\n'
        f'<div class="ranks"><span aria-hidden="true">best</span>{ranks}<span aria-hidden="true">worst</span></div>\n'
        "</fieldset>\n"
    )


def _mark(segment: Segment, scale: Scale) -> str:
    text = escaped(segment.text)
    if segment.score is not None and not math.isfinite(segment.score):
        return f'<mark class="broken">{text}</mark>'
    if segment.score is None or (strength := scale.strength(segment.score)) < _FAINT:
        return text
    return f'<mark class="{"for" if segment.score > 0 else "against"}" style="--s:{strength:.3f}">{text}</mark>'


def _spoken(segments: tuple[Segment, ...], scale: Scale) -> str:
    """Describe the colours in words."""
    words = [(scale.strength(segment.score), segment) for segment in segments if segment.score is not None]
    strongest = sorted((pair for pair in words if pair[0] >= _FAINT), key=lambda pair: -pair[0])[:_SPOKEN]
    said = (
        f"<bdi>{escaped(word.text)}</bdi> {'for' if word.score and word.score > 0 else 'against'}, {strength:.0%}"
        for strength, word in strongest
    )
    return f"Highlighted, strongest first: {'; '.join(said)}." if strongest else "No word is highlighted."
