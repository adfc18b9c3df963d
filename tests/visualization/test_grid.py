"""A heat map in a terminal: every score stands under its number and beside its word, in any width."""

import io

from rich.console import Console

from captum_dig.visualization import Picture, Segment
from captum_dig.visualization.grid import TerminalGrid

WORDS = ("the", "old", "cat\x1b[2J")


def picture(name, scores):
    segments = [
        part for word, score in zip(WORDS, scores, strict=True) for part in (Segment(word, score), Segment(" "))
    ]
    return Picture((*segments, Segment(name, None, marked=True)))


PICTURES = tuple(picture(f"token{i}", (0.1 * i, -1.0, 2.0)) for i in range(5))


def drawn(width, *, color=None, **options):
    stream = io.StringIO()
    settings = {"width": width, "force_terminal": True, "color_system": "truecolor", "legacy_windows": False} | options
    Console(file=stream, _environ={}, **settings).print(TerminalGrid(PICTURES, color))
    return stream.getvalue()


def test_each_score_stands_beside_its_word():
    lines = [line.split() for line in drawn(100, color_system=None).splitlines()]
    assert lines[0] == [f"token{i}" for i in range(5)]
    assert lines[1] == ["the", "0", "+0.100", "+0.200", "+0.300", "+0.400"]
    assert lines[2] == ["old", *["-1.000"] * 5]
    # Control characters are shown, not sent.
    assert lines[3] == [r"cat\x1b[2J", *["+2.000"] * 5]


def test_a_wide_grid_is_cut_into_parts():
    text = drawn(45, color_system=None)
    assert max(map(len, text.splitlines())) <= 45
    assert [text.count(f"token{i}") for i in range(5)] == [1] * 5
    assert text.count("the") == 3


def test_colours_are_those_of_words():
    assert "\x1b[" in drawn(100)
    assert "\x1b[38;" not in drawn(100, color=False)
    assert "\x1b[38;" not in drawn(100, no_color=True)
