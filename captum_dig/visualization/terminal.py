"""Draw a picture in a terminal, or as text without any colour.

Takes a `Picture`; gives a Rich renderable or a plain string. The command line prints it.
"""

from __future__ import annotations

import io
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from captum_dig.visualization.base import Picture, Scale, Segment, visible

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.table import Table
    from rich.text import Text

Color = tuple[int, int, int]

# From weak to strong, on words only: legible on a light and on a dark terminal. All are in the 256-colour palette, so a
# terminal that rounds colours keeps them.
_RAMPS: dict[bool, tuple[Color, ...]] = {
    True: ((255, 215, 215), (255, 175, 175), (255, 135, 135), (255, 95, 95), (215, 0, 0)),
    False: ((215, 215, 255), (175, 175, 255), (135, 175, 255), (95, 135, 255), (0, 0, 215)),
}
_UNCOLORED_BELOW = 0.08
# Weaker words share one line of the ranked list.
_GROUPED_BELOW = 0.05
_BAR_CELLS = 20
_MARKS = 3


def word_colors(strength: float, *, positive: bool) -> tuple[Color, Color]:
    """Choose the colours of a word from its score.

    Args:
        strength: How strong the score is, in [0, 1].
        positive: Whether it is positive (red) or negative (blue).

    Returns:
        Foreground and background as red, green and blue in 0 to 255, with a contrast of at least
        4.5 to 1.
    """
    ramp = _RAMPS[positive]
    background = ramp[max(math.ceil(strength * len(ramp)), 1) - 1]
    foreground = max(((0, 0, 0), (255, 255, 255)), key=lambda color: contrast(color, background))
    return foreground, background


def contrast(one: Color, other: Color) -> float:
    """Compute the contrast ratio of two colours as WCAG 2 defines it.

    Args:
        one: Red, green and blue in 0 to 255.
        other: The same of the other colour.

    Returns:
        A ratio from 1 to 21; text needs 4.5.

    Example:
        >>> contrast((0, 0, 0), (255, 255, 255))
        21.0
    """
    light, dark = sorted((_luminance(one), _luminance(other)), reverse=True)
    return round((light + 0.05) / (dark + 0.05), 6)


def _luminance(color: Color) -> float:
    linear = [c / 255 / 12.92 if c / 255 <= 0.04045 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in color]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@dataclass(frozen=True)
class TerminalText:
    """A picture that a Rich console can print.

    Args:
        picture: The picture.
        color: Whether words may be coloured; None asks the console.
        top: The number of words in the ranked list; words whose score is not a number are always in it.
    """

    picture: Picture
    color: bool | None = None
    top: int = 10

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Lay the picture out in the width of the console."""
        from rich.text import Text

        colored = console.color_system is not None and not console.no_color
        if self.color is not None:
            colored = colored and self.color
        if self.picture.headline:
            yield from (_pair(name, value) for name, value in self.picture.headline)
            yield Text()
        yield _running_text(self.picture, colored=colored)
        if self.picture.words:
            yield Text()
            yield self._ranking(colored=colored, ascii_only=options.ascii_only)
        ranked = self._ranked()
        if left := [word for word in self.picture.words if not any(word is one for one in ranked)]:
            yield self._rest(left, ascii_only=options.ascii_only)
        if self.picture.scale.maximum:
            yield _legend(self.picture, colored=colored)
        if not all(word.settled for word in ranked):
            yield Text("? The sign is not settled: more gradients may give the other one.")
        if any(word.error is not None for word in ranked):
            sign = "+-" if options.ascii_only else "±"
            yield Text(f"{sign} The error of a score, from the orders of the words and from the integration.")
        if self.picture.footing or self.picture.numbers:
            yield Text()
        if self.picture.footing:
            yield Text(visible(self.picture.footing), style="dim")
        yield from (_pair(name, value, style="dim") for name, value in self.picture.numbers)

    def _rest(self, words: list[Segment], *, ascii_only: bool) -> Text:
        """Group the weak words: punctuation and small words mostly."""
        from rich.text import Text

        total = self.picture.scale.show(sum(word.score or 0.0 for word in words))
        count = f"{len(words)} weaker word{'s' * (len(words) > 1)}"
        return Text(f"{'...' if ascii_only else '…'} and {count}, together {total}")

    def _ranked(self) -> list[Segment]:
        words = self.picture.words
        broken = [word for word in words if not math.isfinite(word.score or 0.0)]
        scale = self.picture.scale
        sound = [word for word in words if math.isfinite(word.score or 0.0)]
        # The strongest stays, also if all scores are 0.
        sound = [word for word in sound if scale.strength(word.score) >= _GROUPED_BELOW or not scale.maximum]
        sound.sort(key=lambda word: -abs(word.score or 0.0))
        return broken + sound[: self.top]

    def _ranking(self, *, colored: bool, ascii_only: bool) -> Table:
        from rich.table import Table
        from rich.text import Text

        scale = self.picture.scale
        table = Table.grid(padding=(0, 1))
        table.add_column(justify="right", no_wrap=True)
        table.add_column(no_wrap=True)
        table.add_column(overflow="fold")
        for word in self._ranked():
            score = word.score or 0.0
            cells = math.ceil(scale.strength(score) * _BAR_CELLS)
            bar = Text(("#" if ascii_only else "█") * cells)
            if colored and cells:
                bar.stylize("rgb({},{},{})".format(*_RAMPS[score > 0][-2]))
            label = Text(" ".join(visible(word.text).split()) + ("" if word.settled else " ?"))
            shown = scale.show(score, word.error)
            table.add_row(Text(shown.replace("±", "+-") if ascii_only else shown), bar, label)
        return table


def terminal_text(picture: Picture, *, color: bool | None = None, top: int = 10) -> TerminalText:
    """Make a picture that ``rich.console.Console.print`` draws.

    On a console with colours, words have a red background (they raise the explained output) or a blue one (they lower
    it). Without colours (`NO_COLOR`, a pipe), one to three signs follow every strong word: ``great[+++]``, ``dull[-]``.
    In both cases a ranked list of words with scores and bars follows. Control characters in the text are shown, not
    sent, and Rich markup in it is not interpreted.

    Args:
        picture: The picture.
        color: False never colours; None and True colour where the console can.
        top: The number of words in the ranked list, at least 0; words whose score is not a number are always in it.

    Returns:
        A Rich renderable.

    Raises:
        ValueError: `top` is negative.
    """
    if top < 0:
        raise ValueError(f"top must be at least 0, got {top}; pass 0 for no ranked list")
    return TerminalText(picture, color, top)


def plain_text(picture: Picture, *, width: int = 80, top: int = 10) -> str:
    """Draw a picture as text without any colour or control code.

    Args:
        picture: The picture.
        width: Columns to fill, at least 20.
        top: The number of words in the ranked list, at least 0.

    Returns:
        Lines joined by line feeds, none longer than `width`, without trailing white space.

    Raises:
        ValueError: `width` is below 20 or `top` is negative.

    Example:
        >>> print(plain_text(Picture((Segment("so", -0.2), Segment(" "), Segment("good", 0.8)))))
        so[-] good[+++]
        <BLANKLINE>
        +0.800 ████████████████████ good
        -0.200 █████                so
        [+] raises the explained output, [-] lowers it; more signs, more strongly.
    """
    if width < 20:
        raise ValueError(f"width must be at least 20, got {width}; pass the columns to fill")
    from rich.console import Console

    stream = io.StringIO()
    # force_jupyter: otherwise a notebook would display the text instead of returning it.
    console = Console(file=stream, width=width, color_system=None, force_jupyter=False, legacy_windows=False)
    console.print(terminal_text(picture, color=False, top=top))
    return "\n".join(line.rstrip() for line in stream.getvalue().rstrip().split("\n"))


def _pair(name: str, value: str, style: str = "") -> Text:
    from rich.text import Text

    return Text.assemble((f"{visible(name)}: ", style or "bold"), (visible(value), style))


def _running_text(picture: Picture, *, colored: bool) -> Text:
    from rich.text import Text

    scale = picture.scale
    text = Text()
    for number, segment in enumerate(picture.segments):
        if segment.heading:
            text.append("" if text.plain.endswith("\n") or not number else "\n")
            text.append(f"{visible(segment.heading)}: ", style="bold")
        # Neighbours that are marked share one pair of signs.
        before, after = (number and picture.segments[number - 1].marked), picture.segments[number + 1 : number + 2]
        if segment.marked and not before:
            text.append(">>")
        text.append(
            visible(segment.text), style="dim" if segment.muted else score_style(segment.score, scale, colored=colored)
        )
        if segment.score is not None and not math.isfinite(segment.score):
            text.append("[not a number]")
        elif not colored and segment.score is not None:
            signs = round(scale.strength(segment.score) * _MARKS)
            text.append(f"[{('+' if segment.score > 0 else '-') * signs}]" if signs else "")
        if segment.marked and not any(one.marked for one in after):
            text.append("<<")
        if segment.note:
            text.append(f" [{visible(segment.note)}]", style="italic")
    return text


def _legend(picture: Picture, *, colored: bool) -> Text:
    from rich.text import Text

    positive, negative = map(visible, picture.sides)
    if not colored:
        return Text(f"[+] {positive}, [-] {negative}; more signs, more strongly.")
    red, blue = (score_style(score, Scale(1.0), colored=True) for score in (1.0, -1.0))
    return Text.assemble((" Red ", red), f" {positive}, ", (" blue ", blue), f" {negative}.")


def score_style(score: float | None, scale: Scale, *, colored: bool) -> str:
    """Choose the colours of a score, as Rich names them; none for a weak one."""
    strength = scale.strength(score)
    if score is None or not colored or strength < _UNCOLORED_BELOW:
        return ""
    foreground, background = word_colors(strength, positive=score > 0)
    return "rgb({},{},{}) on rgb({},{},{})".format(*foreground, *background)
