r"""Sentences for a paper in LaTeX.

Takes results; writes text to a stream that a document includes with ``\input``. The command line offers the format.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TextIO

from captum_dig.visualization.base import Picture, name_line
from captum_dig.visualization.formats import Drawable, Format
from captum_dig.visualization.web import tint

_SIGNS: Final = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
}


class LatexFormat(Format):
    r"""Words in coloured boxes; the document needs ``\usepackage{xcolor}``."""

    def write(self, results: Iterable[Drawable], file: TextIO) -> None:
        """Write a paragraph for each result."""
        file.write("% \\usepackage{xcolor}\n")
        for result in results:
            file.write(f"{{\\setlength{{\\fboxsep}}{{1pt}}\\noindent {_paragraph(result.to_picture())}\\par}}\n")


def _paragraph(picture: Picture) -> str:
    parts = []
    for segment in picture.segments:
        if segment.heading:
            parts.append(f"\\textbf{{{_escaped(segment.heading)}:}} ")
        text = "\\\\\n".join(map(_escaped, segment.text.split("\n")))
        if segment.marked and segment.text.strip():
            text = f"\\underline{{{text}}}"
        strength = picture.scale.strength(segment.score)
        if strength:
            text = f"\\colorbox[HTML]{{{tint(segment.score, strength)[1:].upper()}}}{{\\strut {text}}}"
        parts.append(text)
    return "".join(parts)


def _escaped(text: str) -> str:
    return "".join(_SIGNS.get(sign, sign) for sign in name_line(text))
