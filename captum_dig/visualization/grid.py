"""A heat map in a terminal: the words of one text against the numbers that were explained for it.

Takes the pictures of one text, such as those of the tokens of a continuation; gives a Rich renderable or plain text.
The command line prints it below them.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, TextIO

from captum_dig.visualization.base import Picture, Scale, Segment, visible
from captum_dig.visualization.formats import Drawable, Format
from captum_dig.visualization.matrix import name_of, same_text
from captum_dig.visualization.terminal import score_style

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.table import Table
    from rich.text import Text

# In columns: a score or the name of a number, and the widest word.
_CELL, _WORD = 9, 20


@dataclass(frozen=True)
class TerminalGrid:
    """The pictures of one text as a table: a row for each word, a column for each explained number.

    Args:
        pictures: The pictures, all with the same words.
        color: Whether cells may be coloured; None asks the console.
    """

    pictures: tuple[Picture, ...]
    color: bool | None = None

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Lay the table out in the width of the console, in several parts if it is wider."""
        from rich.text import Text

        colored = console.color_system is not None and not console.no_color and self.color is not False
        scale = Scale.of(word.score for picture in self.pictures for word in picture.words)
        room = max(1, (options.max_width - _WORD - 1) // (_CELL + 1))
        for number, part in enumerate(_batches(self.pictures, room)):
            if number:
                yield Text()
            yield _table(part, scale, colored=colored)


def _batches(pictures: Sequence[Picture], size: int) -> Iterable[Sequence[Picture]]:
    return [pictures[start : start + size] for start in range(0, len(pictures), size)]


def _table(pictures: Sequence[Picture], scale: Scale, *, colored: bool) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    table.add_column(max_width=_WORD, overflow="ellipsis", no_wrap=True)
    for picture in pictures:
        table.add_column(Text(_line(name_of(picture))), justify="right", width=_CELL, overflow="ellipsis", no_wrap=True)
    for words in zip(*(picture.words for picture in pictures), strict=True):
        cells = [_cell(word, scale, colored=colored) for word in words]
        table.add_row(Text(_line(words[0].text)), *cells)
    return table


def _cell(word: Segment, scale: Scale, *, colored: bool) -> Text:
    from rich.text import Text

    return Text(scale.show(word.score), style=score_style(word.score, scale, colored=colored))


def _line(text: str) -> str:
    return " ".join(visible(text).split())


class GridFormat(Format):
    """A table of words against explained numbers for each text, as plain text."""

    def write(self, results: Iterable[Drawable], file: TextIO) -> None:
        """Write the tables; results of the same text that follow each other share one."""
        from rich.console import Console

        pictures = [result.to_picture() for result in results]
        parts = []
        for _, group in groupby(pictures, key=same_text):
            stream = io.StringIO()
            console = Console(file=stream, width=100, color_system=None, force_jupyter=False, legacy_windows=False)
            console.print(TerminalGrid(tuple(group), color=False))
            parts.append("\n".join(line.rstrip() for line in stream.getvalue().rstrip().split("\n")))
        file.write("\n\n".join(parts) + "\n")
