"""Picture: slices of a text, their scores, and the scale of these.

Takes plain strings and numbers; gives a `Picture`. `web`, `terminal` and `record` draw it.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import SupportsFloat

from captum_dig.fields import Field

# Embeddings, overrides and isolates reorder the text beside them. The marks U+200E, U+200F and U+061C do not, and
# ordinary Arabic and Hebrew text uses them, so they stay.
_BIDI_CONTROLS = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_HIDDEN_CATEGORIES = frozenset({"Cc", "Cs", "Zl", "Zp"})


def visible(text: str) -> str:
    r"""Replace every character that controls the display by a visible escape.

    Control characters (ESC, BEL, a lone carriage return …), bidirectional overrides, line and
    paragraph separators and lone surrogates come out as Python writes them, ``\x1b`` or ``\u202e``.
    Line feeds and tabs stay, a Windows line end becomes a line feed, and every other text comes
    back unchanged.

    Args:
        text: Any string.

    Returns:
        The text, safe to print in a terminal and to encode as UTF-8. It is not escaped for HTML.

    Example:
        >>> print(visible("\x1b[2Jcaf\u00e9"))
        \x1b[2Jcafé
    """
    return "".join(map(_visible_character, text.replace("\r\n", "\n")))


def name_line(text: str) -> str:
    r"""Write a name for a table or a plot: on one line, with control characters as `visible` shows them.

    Args:
        text: Any string.

    Returns:
        One line.

    Example:
        >>> print(name_line("my\nmethod\x1b"))
        my\nmethod\x1b
    """
    return visible(text).replace("\n", "\\n").replace("\t", "\\t")


def escaped(text: str) -> str:
    r"""Write a string for HTML: escaped, and with control characters as `visible` shows them.

    Args:
        text: Any string.

    Returns:
        HTML, also for the value of an attribute.

    Example:
        >>> escaped('<b>\x1b"')
        '&lt;b&gt;\\x1b&quot;'
    """
    return escape(visible(text), quote=True)


def _visible_character(character: str) -> str:
    if character in "\n\t":
        return character
    if character in _BIDI_CONTROLS or unicodedata.category(character) in _HIDDEN_CATEGORIES:
        return ascii(character)[1:-1]
    return character


def _score(name: str, score: object) -> float | None:
    if score is None:
        return None
    if not isinstance(score, SupportsFloat):
        raise TypeError(f"{name} must be a number or None, got {score!r}; pass one score per item")
    return float(score)


@dataclass(frozen=True)
class Scale:
    """Scale scores by the largest finite one, which makes pictures comparable.

    Args:
        maximum: The largest finite |score|, at least 0.

    Example:
        >>> scale = Scale.of([0.5, -2.0, None, float("nan")])
        >>> scale.maximum, scale.strength(0.5), scale.show(0.5)
        (2.0, 0.25, '+0.500')
    """

    maximum: float

    @classmethod
    def of(cls, scores: Iterable[float | None]) -> Scale:
        """Take the scale from scores, leaving out those that are None, NaN or infinite.

        Args:
            scores: The scores drawn together.

        Returns:
            Their scale; its maximum is 0 where no finite score is left.
        """
        finite = (abs(score) for score in scores if score is not None and math.isfinite(score))
        return cls(max(finite, default=0.0))

    def strength(self, score: float | None) -> float:
        """Return |score| / maximum.

        Args:
            score: One score, or None where there is none.

        Returns:
            A number in [0, 1]; 0 for None, NaN and infinity, which are never drawn as strong scores.
        """
        if score is None or not math.isfinite(score) or self.maximum == 0.0:
            return 0.0
        return min(abs(score) / self.maximum, 1.0)

    def show(self, score: float | None, error: float | None = None) -> str:
        """Write a score with its sign, and digits that fit the scale.

        Args:
            score: One score, or None where there is none.
            error: Its error; None where it is not known.

        Returns:
            For instance ``"+0.312"``, ``"+0.312 ± 0.040"``, ``"not a number (nan)"`` or ``"not scored"``.
        """
        if error is not None and score is not None and math.isfinite(score):
            return f"{self.show(score)} ± {self.show(abs(error)).removeprefix('+')}"
        if score is None:
            return "not scored"
        if not math.isfinite(score):
            return f"not a number ({score})"
        if score == 0.0 or self.maximum == 0.0:
            return "0"
        if not 1e-4 <= self.maximum < 1e6:
            return f"{score:+.2e}"
        # Three significant digits of the largest score, and one more from 1 to 10.
        decimals = max(0, 2 - math.floor(math.log10(self.maximum))) + (1 <= self.maximum < 10)
        written = f"{score:+.{decimals}f}"
        return written if float(written) else written[1:]


@dataclass(frozen=True)
class Segment:
    """One verbatim slice of the text: a word, or the text between two words.

    Args:
        text: The slice, exactly as in the text.
        score: The contribution of the slice to the explained output; None for no score (white space, text that the
            model did not read). NaN and infinity are kept, and drawn as such.
        note: A remark for the reader, shown with the slice.
        error: The error of the score; None where it is not known.
        heading: The name of the field that begins here, drawn before the slice; empty for none.
        marked: Whether the explained number is about this slice, such as an entity.
        muted: Whether the slice belongs to a field that is not explained.

    Raises:
        TypeError: `text` is not a string, or `score` is neither a number nor None.
    """

    text: str
    score: float | None = None
    note: str = ""
    error: float | None = None
    heading: str = ""
    marked: bool = False
    muted: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise TypeError(f"text must be a string, got {self.text!r}; pass the slice of the text")
        object.__setattr__(self, "score", _score("score", self.score))
        object.__setattr__(self, "error", _score("error", self.error))

    @property
    def settled(self) -> bool:
        """Whether the sign of the score is certain: two errors do not reach 0."""
        return self.score is None or not self.error or not abs(self.score) < 2 * self.error


@dataclass(frozen=True)
class TokenRow:
    """One row of the token table.

    Args:
        token: The token as the model knows it, for instance ``"##ing"``.
        score: Its score; NaN and infinity are kept.
        anchors: The words its path passes, from the token towards the baseline; empty for a path
            without anchors.

    Raises:
        TypeError: `score` is neither a number nor None.
    """

    token: str
    score: float | None
    anchors: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "score", _score("score", self.score))
        object.__setattr__(self, "anchors", tuple(self.anchors))


@dataclass(frozen=True)
class Picture:
    """Everything that is drawn for one text.

    Args:
        segments: The text, cut into slices that join to the whole of it.
        headline: Pairs of name and value above the text, such as the label and its probability.
        settings: Pairs of name and value for the settings of the scores.
        tokens: The rows of the token table; if there are none, the scored segments fill it.
        factor: The name of the number that a score of s multiplies by exp(s), such as ``"odds"``; empty for none.
        label: What words of positive scores speak for, such as ``"POSITIVE"``; empty if it has no name.
        numbers: Pairs of name and value for specialists, such as the errors; behind a fold where there is one.
        footing: One line about the origin of the scores: the path, the baseline, the number of gradients.
        maximum: The score that is drawn strongest, where pictures share a scale; None for the largest of this one.

    Raises:
        TypeError: `segments` holds something else than `Segment`s.

    Example:
        >>> picture = Picture((Segment("so", 0.1), Segment(" "), Segment("good", 0.9)))
        >>> picture.text, picture.scale.maximum
        ('so good', 0.9)
    """

    segments: tuple[Segment, ...]
    headline: tuple[tuple[str, str], ...] = ()
    settings: tuple[tuple[str, str], ...] = ()
    tokens: tuple[TokenRow, ...] = ()
    factor: str = ""
    label: str = ""
    numbers: tuple[tuple[str, str], ...] = ()
    footing: str = ""
    maximum: float | None = None

    def __post_init__(self) -> None:
        for name in ("segments", "headline", "settings", "tokens", "numbers"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        for segment in self.segments:
            if not isinstance(segment, Segment):
                raise TypeError(f"segments must hold Segments, got {segment!r}; wrap it in Segment(...)")

    @property
    def text(self) -> str:
        """Join the segments to the whole text."""
        return "".join(segment.text for segment in self.segments)

    @property
    def scale(self) -> Scale:
        """Give the scale of the segments."""
        own = Scale.of(segment.score for segment in self.segments)
        return own if self.maximum is None else Scale(self.maximum)

    @property
    def words(self) -> tuple[Segment, ...]:
        """Give the segments that have a score."""
        return tuple(segment for segment in self.segments if segment.score is not None)

    @property
    def explained(self) -> str:
        """Give the explained number, as the headline names it; empty where it does not."""
        return dict(self.headline).get("Explained", "")

    @property
    def sides(self) -> tuple[str, str]:
        """Say what a positive and a negative score mean, in the words of a legend."""
        if self.label:
            return f"speaks for {self.label}", "against it"
        return "raises the explained output", "lowers it"

    def told(self, segment: Segment) -> str:
        """Write the score of a segment, and what it multiplies.

        Args:
            segment: A segment with a score.

        Returns:
            For instance ``"+0.312"``, or ``"+0.312 (odds × 1.4)"``.

        Example:
            >>> word = Segment("good", 0.9)
            >>> Picture((word,), factor="odds").told(word)
            '+0.900 (odds × 2.5)'
        """
        shown = self.scale.show(segment.score, segment.error)
        score = segment.score
        if not self.factor or score is None or not abs(score) < 100:
            return shown
        return f"{shown} ({self.factor} × {math.exp(score):.2g})"

    @property
    def rows(self) -> tuple[TokenRow, ...]:
        """Return the token table; without one, a row for each scored segment."""
        return self.tokens or tuple(TokenRow(word.text, word.score) for word in self.words)


def cut_text(
    text: str,
    offsets: Sequence[tuple[int, int]],
    scores: Sequence[float | None],
    *,
    errors: Sequence[float] | None = None,
    rest_note: str = "",
    fields: Sequence[Field] = (),
    span: tuple[int, int] | None = None,
) -> tuple[Segment, ...]:
    """Cut a text into its words and the slices between them.

    Args:
        text: The text.
        offsets: Start and end of each word, in characters: in order and without overlap.
        scores: One score for each word.
        errors: The error of each score; None where they are not known.
        rest_note: A remark on the text after the last word, for instance that it was cut off; white space gets none.
        fields: The fields of the text. Each has a heading, and is muted where no word of it has a score.
        span: Start and end of the part that is marked; None for none.

    Returns:
        Slices that join to the text. The words have scores, the others have none.

    Raises:
        ValueError: `offsets` and `scores` differ in length, or words overlap or leave the text.

    Example:
        >>> [(segment.text, segment.score) for segment in cut_text("So good!", [(3, 7)], [0.9])]
        [('So ', None), ('good', 0.9), ('!', None)]
    """
    if len(offsets) != len(scores):
        raise ValueError(
            f"scores must hold one score for each of the {len(offsets)} words, got {len(scores)}; "
            "pass the scores of the same words"
        )
    cutter = _Cutter(text, offsets, fields, span)
    segments: list[Segment] = []
    end = 0
    known = errors if errors is not None else [None] * len(scores)
    for (start, stop), score, error in zip(offsets, scores, known, strict=True):
        if not end <= start <= stop <= len(text):
            raise ValueError(
                f"offsets must be in order and inside the text of {len(text)} characters, "
                f"got {(start, stop)} after {end}; sort the words and merge those that overlap"
            )
        segments += cutter.between(end, start)
        segments.append(cutter.word(start, stop, score, error))
        end = stop
    rest = len(text) - len(text[end:].lstrip())
    segments += [*cutter.between(end, rest), *cutter.between(rest, len(text), rest_note)]
    return tuple(segment for segment in segments if segment.text)


@dataclass(frozen=True)
class _Cutter:
    """Cuts a text at the ends of its fields and of the marked part; a word stays whole."""

    text: str
    words: Sequence[tuple[int, int]]
    fields: Sequence[Field]
    span: tuple[int, int] | None

    def between(self, begin: int, end: int, note: str = "") -> list[Segment]:
        """Cut the text between two words."""
        ends = {place for field in self.fields for place in field[1:]} | set(self.span or ())
        places = [begin, *sorted(place for place in ends if begin < place < end), end]
        return [
            Segment(
                self.text[a:b], note=note, heading=self._heading(a), marked=self._marked(a, b), muted=self._muted(a)
            )
            for a, b in pairwise(places)
        ]

    def word(self, start: int, stop: int, score: float | None, error: float | None) -> Segment:
        """Make the segment of a word."""
        return Segment(
            self.text[start:stop],
            score,
            error=error,
            heading=self._heading(start),
            marked=self._marked(start, stop),
        )

    def _heading(self, place: int) -> str:
        return next((field.name for field in self.fields if field.start == place < field.end), "")

    def _marked(self, start: int, stop: int) -> bool:
        return self.span is not None and max(start, self.span[0]) < min(stop, self.span[1])

    def _muted(self, place: int) -> bool:
        field = next((field for field in self.fields if field.start <= place < field.end), None)
        return field is not None and not any(field.start <= start < field.end for start, _ in self.words)
