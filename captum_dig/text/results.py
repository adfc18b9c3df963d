"""TextAttribution: the explanation of one text.

Takes plain numbers and strings from `captum_dig.text.batches`; gives a frozen record that can be compared, stored as
JSON and drawn by `captum_dig.visualization`. The command line comes next.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from captum_dig.fields import Field
from captum_dig.records import (
    TO_DICT,
    check_keys,
    flag,
    from_json,
    integer,
    of_format,
    real,
    span,
    string,
    to_json,
    tuple_of,
)
from captum_dig.text.pictures import picture_of, short
from captum_dig.text.rows import flatten, unflatten
from captum_dig.text.settings import ExplanationSettings
from captum_dig.visualization import (
    Picture,
    captum_record,
    html_fragment,
    html_page,
    plain_text,
)
from captum_dig.visualization.writing import write_whole

if TYPE_CHECKING:
    from captum.attr import visualization

FORMAT = "captum_dig.TextAttribution"
FORMAT_VERSION = 1


def _field(name: str, value: Any) -> Field:
    """Convert a name with a start and an end."""
    if not isinstance(value, tuple | list) or len(value) != 3:
        raise ValueError(f"{name} must be a name, a start and an end, got {value!r}; pass a Field")
    return Field(string(f"{name}[0]", value[0]), *span(name, value[1:]))


# Above it, a baseline has decided already.
SURE = 0.8


def probability_of(output: str, value: float) -> float | None:
    """Return the probability that belongs to an explained number; None if there is none.

    Example:
        >>> probability_of("log_odds", 0.0), probability_of("probability", 0.2), probability_of("logit", 0.0)
        (0.5, 0.2, None)
    """
    if output == "log_odds":
        return 1 / (1 + math.exp(-value)) if value > -700 else 0.0
    if output == "log_probability":
        return min(1.0, math.exp(value))
    return value if output == "probability" else None


def _nearer(name: str, value: Any) -> tuple[str, float]:
    """Convert the name of a baseline and a probability."""
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise ValueError(f"{name} must be a baseline and a probability, got {value!r}; pass two values")
    return string(f"{name}[0]", value[0]), real(f"{name}[1]", value[1])


_REALS = ("token_scores", "word_scores", "probabilities", "input_value", "baseline_value")
_CONVERTERS: dict[str, Callable[[str, Any], object]] = {
    "text": string,
    "tokens": tuple_of(string),
    "offsets": tuple_of(span),
    "token_ids": tuple_of(integer),
    "special": tuple_of(flag),
    "token_scores": tuple_of(real),
    "word_offsets": tuple_of(span),
    "word_scores": tuple_of(real),
    "labels": tuple_of(string),
    "probabilities": tuple_of(real),
    "target": integer,
    "input_value": real,
    "baseline_value": real,
    "anchors": tuple_of(tuple_of(string)),
    "truncated": integer,
    "start": integer,
    "error_percent": lambda name, value: None if value is None else real(name, value),
    "word_errors": lambda name, value: None if value is None else tuple_of(real)(name, value),
    "spread_percent": lambda name, value: None if value is None else real(name, value),
    "converged": lambda name, value: None if value is None else flag(name, value),
    "fields": tuple_of(_field),
    "span": lambda name, value: None if value is None else span(name, value),
    "even_baseline": lambda name, value: None if value is None else _nearer(name, value),
}
# Fields that not every explanation has; readers of the others need not know of them.
_OPTIONAL = {
    "error_percent": None,
    "word_errors": None,
    "spread_percent": None,
    "converged": None,
    "fields": (),
    "span": None,
    "even_baseline": None,
}


@dataclass(frozen=True, repr=False)
class TextAttribution:
    """The explanation of one text: tokens, words, their scores, and the delta of these.

    Two results are equal if all fields are equal; NaN counts as equal to NaN. Sequences become tuples, and numbers
    plain Python numbers, so no tensor is kept alive.

    Args:
        text: The text as it was passed.
        tokens: The tokens that the model read, special ones included.
        offsets: Start and end of each token in `text`, in characters; (0, 0) for special tokens.
        token_ids: The id of each token.
        special: Whether each token was added by the tokenizer.
        token_scores: The contribution of each token to the explained output, from the baseline to the text.
        word_offsets: Start and end of each word in `text`: not empty, in order, without overlap.
        word_scores: The contribution of each word: the sum over its tokens.
        labels: The name of each class.
        probabilities: The probability of each class at the text, in [0, 1]; NaN for each of a regression.
        target: The index of the class explained.
        input_value: The explained output at the text.
        baseline_value: The explained output at the baseline; for several baselines the mean.
        anchors: For each token, the words that its path passes, from the token towards the
            baseline; empty for special tokens, for paths without, and for several baselines.
        settings: How the explanation was made.
        truncated: How many tokens of the text were cut off by the model's limit.
        start: Where `text` begins, in characters, in the text that was explained; not 0 for the later windows of a long
            one.
        error_percent: The estimated error of the integration, in percent of the scores' sizes, with known sums, whose
            scores always add up; else None.
        word_errors: The error of each word's score, the root of the sum of two squares. One is the standard error over
            the orders of a staggered path, times half of Student's t. The other is the estimated error of the
            integration, times 1.25. None for a path that draws no orders, or too few.
        spread_percent: The sum of the standard errors over the orders, in percent of the scores' sizes; None likewise.
        converged: With ``n_steps="auto"``, whether the error and the spread came within the tolerances; else None.
        fields: The names and places of the fields in `text`, where the sample has several; each stands on its own line.
        span: Start and end of the part of `text` that the explained number is about, such as an entity; None for all.
        even_baseline: Where the model is sure of the explained number at the baseline already, above 80 %: a baseline
            that is nearer to even odds, and the probability there. Else None.

    Raises:
        TypeError: A field has the wrong type.
        ValueError: Lengths differ, an offset lies outside the text, words overlap, or `target`
            names no label.
    """

    text: str
    tokens: tuple[str, ...]
    offsets: tuple[tuple[int, int], ...]
    token_ids: tuple[int, ...]
    special: tuple[bool, ...]
    token_scores: tuple[float, ...]
    word_offsets: tuple[tuple[int, int], ...]
    word_scores: tuple[float, ...]
    labels: tuple[str, ...]
    probabilities: tuple[float, ...]
    target: int
    input_value: float
    baseline_value: float
    anchors: tuple[tuple[str, ...], ...]
    settings: ExplanationSettings
    truncated: int = 0
    start: int = 0
    error_percent: float | None = None
    word_errors: tuple[float, ...] | None = None
    spread_percent: float | None = None
    converged: bool | None = None
    fields: tuple[Field, ...] = ()
    span: tuple[int, int] | None = None
    even_baseline: tuple[str, float] | None = None

    def __post_init__(self) -> None:
        for name, convert in _CONVERTERS.items():
            object.__setattr__(self, name, convert(name, getattr(self, name)))
        if not isinstance(self.settings, ExplanationSettings):
            raise TypeError(
                f"settings must be an ExplanationSettings, got {self.settings!r}; say how the explanation was made"
            )
        per_token = ("offsets", "token_ids", "special", "token_scores", "anchors")
        self._check_lengths("tokens", per_token)
        self._check_lengths(
            "word_offsets", ("word_scores",) if self.word_errors is None else ("word_scores", "word_errors")
        )
        self._check_lengths("labels", ("probabilities",))
        self._check_offsets("offsets")
        self._check_offsets("word_offsets")
        end = 0
        for i, (start, stop) in enumerate(self.word_offsets):
            if start < end or start == stop:
                raise ValueError(
                    f"word_offsets must be in order, not empty and without overlap, "
                    f"got {(start, stop)} at {i}; merge the words that overlap"
                )
            end = stop
        if not 0 <= self.target < len(self.labels):
            raise ValueError(
                f"target must be the index of one of the {len(self.labels)} labels, "
                f"got {self.target}; pass the class that was explained"
            )
        if self.truncated < 0:
            raise ValueError(f"truncated must be at least 0, got {self.truncated}; pass the number of tokens cut off")

    def __eq__(self, other: object) -> bool:
        """Compare every field; NaN equals NaN, because each is stored as the same object."""
        if not isinstance(other, TextAttribution):
            return NotImplemented
        return self._values() == other._values()

    def __hash__(self) -> int:
        """Hash every field."""
        return hash(self._values())

    def _values(self) -> tuple[Any, ...]:
        return tuple(getattr(self, field.name) for field in dataclasses.fields(self))

    def _check_lengths(self, leader: str, followers: tuple[str, ...]) -> None:
        expected = len(getattr(self, leader))
        for name in followers:
            if (length := len(getattr(self, name))) != expected:
                raise ValueError(
                    f"{name} must be as long as {leader}, {expected}, got {length}; pass one item for each"
                )

    def _check_offsets(self, name: str) -> None:
        for i, (start, stop) in enumerate(getattr(self, name)):
            if not 0 <= start <= stop <= len(self.text):
                raise ValueError(
                    f"{name} must lie in the text of {len(self.text)} characters, "
                    f"got {(start, stop)} at {i}; count characters of the text as it was passed"
                )

    @property
    def words(self) -> tuple[str, ...]:
        """The words, as in the text."""
        return tuple(self.text[start:stop] for start, stop in self.word_offsets)

    @property
    def is_regression(self) -> bool:
        """Tell whether the outputs are values without probabilities."""
        return all(map(math.isnan, self.probabilities))

    @property
    def predicted(self) -> int:
        """Give the index of the most probable class, the first of equals; of a regression, which has none, 0."""
        return max(range(len(self.labels)), key=lambda i: _without_nan(self.probabilities[i]))

    @property
    def predicted_label(self) -> str:
        """Give the name of the most probable class; of a regression that of the output explained."""
        return self.target_label if self.is_regression else self.labels[self.predicted]

    @property
    def predicted_probability(self) -> float:
        """Give the probability of the most probable class; NaN for a regression."""
        return self.probabilities[self.predicted]

    @property
    def target_label(self) -> str:
        """Give the name of the class explained."""
        return self.labels[self.target]

    @property
    def target_probability(self) -> float:
        """Give the probability of the class explained."""
        return self.probabilities[self.target]

    @property
    def baseline_probability(self) -> float | None:
        """Give the probability of the explained number at the baseline; None for a number that means none."""
        return None if self.settings.contrast else probability_of(self.settings.output, self.baseline_value)

    @property
    def delta(self) -> float:
        """Give the sum of the token scores minus (input_value - baseline_value): 0 if exact."""
        return sum(self.token_scores) - (self.input_value - self.baseline_value)

    @property
    def delta_percent(self) -> float:
        """Give |delta| in percent of |input_value - baseline_value|.

        If the output does not change, it is 0 for a delta of 0, and infinity otherwise.
        """
        change = abs(self.input_value - self.baseline_value)
        if change == 0.0:
            return 0.0 if self.delta == 0.0 else math.inf
        return 100.0 * abs(self.delta) / change

    def to_picture(self) -> Picture:
        """Cut the text into scored words and the slices between them, ready to draw.

        Returns:
            A picture whose segments join to `text` exactly.
        """
        return picture_of(self)

    def to_html(self, path: str | Path | None = None) -> str:
        """Draw the explanation as one HTML file that needs nothing else.

        Args:
            path: Where to write the page, in UTF-8; None writes nothing. An existing file is
                replaced.

        Returns:
            The page.
        """
        page = html_page([self.to_picture()], title=f"{self.target_label}: word attributions")
        if path is not None:
            write_whole(path, page.encode("utf-8"))
        return page

    def _repr_html_(self) -> str:
        return html_fragment(self.to_picture())

    def to_captum(self, *, true_label: str = "unknown") -> visualization.VisualizationDataRecord:
        """Make a record of the words for `captum.attr.visualization.visualize_text`.

        Args:
            true_label: Name of the right class, if you know it.

        Returns:
            The record, escaped and scaled to [-1, 1].
        """
        return captum_record(
            self.words,
            self.word_scores,
            predicted_label=self.predicted_label,
            # Captum shows a number behind the name.
            predicted_probability=self.input_value if self.is_regression else self.predicted_probability,
            target_label=self.target_label,
            true_label=true_label,
            delta=self.delta,
        )

    def to_dict(self) -> dict[str, Any]:
        """Give the fields as strict JSON can hold them; `from_dict` gives back an equal result.

        Strict JSON has no NaN and no infinity, so these are the strings ``"NaN"``, ``"Infinity"``
        and ``"-Infinity"``; a probability that is NaN is None. The key ``"derived"`` holds
        values computed from the fields, for readers other than this package.

        Returns:
            A dictionary of lists, strings, numbers, booleans and None.
        """
        data: dict[str, Any] = {"format": FORMAT, "format_version": FORMAT_VERSION}
        data |= {field.name: to_json(getattr(self, field.name)) for field in dataclasses.fields(self)}
        for name, default in _OPTIONAL.items():
            if getattr(self, name) == default:
                del data[name]
        if self.settings.contrast is None:
            del data["settings"]["contrast"]
        data["probabilities"] = [None if math.isnan(one) else to_json(one) for one in self.probabilities]
        derived = ("words", "predicted_label", "target_label", "delta", "delta_percent")
        data["derived"] = {name: to_json(getattr(self, name)) for name in derived}
        return data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> TextAttribution:
        """Make a result from the output of `to_dict`.

        Args:
            data: The dictionary, also after a round trip through JSON. ``"derived"`` is not read.

        Returns:
            A result equal to the first one.

        Raises:
            TypeError: `data` is not a mapping, or a value has the wrong type.
            ValueError: The format is another one, a key is missing or unknown, or the values do not
                fit together.
        """
        values = of_format("data", data, FORMAT, FORMAT_VERSION, TO_DICT)
        values.pop("derived", None)
        values = _OPTIONAL | values
        check_keys("data", values, cls)
        check_keys("settings", values["settings"], ExplanationSettings, optional=("contrast",))
        values["settings"] = ExplanationSettings(**values["settings"])
        if isinstance(values["probabilities"], list):
            values["probabilities"] = [math.nan if one is None else one for one in values["probabilities"]]
        values |= {name: from_json(values[name]) for name in _REALS}
        return cls(**values)

    def to_row(self) -> dict[str, Any]:
        """Give the result as one flat row of a table; `from_row` gives back an equal result.

        Returns:
            The columns of `captum_dig.text.rows.COLUMNS`: strings, numbers, None, and lists of these.

        Example:
            >>> from captum_dig import TextExplainer
            >>> row = TextExplainer.demo().explain("Not bad.").to_row()
            >>> row["words"], row["target"], row["error"]
            (['Not', 'bad', '.'], 'POSITIVE', None)
        """
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        probability = None if math.isnan(self.target_probability) else self.target_probability
        derived = {
            "target": self.target_label,
            "predicted": self.predicted_label,
            "probability": probability,
            "words": self.words,
        }
        return flatten(values, dataclasses.asdict(self.settings), derived)

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> TextAttribution:
        """Make a result from the output of `to_row`.

        Args:
            row: The row, also after a round trip through a file or a data frame. Further columns are not read.

        Returns:
            A result equal to the first one.

        Raises:
            TypeError: `row` is not a mapping, or a value has the wrong type.
            ValueError: A column is missing, the row holds an error, or the values do not fit together.
        """
        values, settings = unflatten(row)
        check_keys("settings", settings, ExplanationSettings, optional=("contrast",))
        return cls(**values, settings=ExplanationSettings(**settings))

    def __str__(self) -> str:
        """Draw the explanation as plain text."""
        return plain_text(self.to_picture())

    def __repr__(self) -> str:
        """Summarize the result in one line."""
        text = self.text if len(self.text) <= 60 else f"{self.text[:57]}..."
        return (
            f"TextAttribution({text!r}, explained={self.target_label!r}, "
            f"words={len(self.word_offsets)}, delta_percent={short(self.delta_percent)})"
        )


def _without_nan(number: float) -> float:
    return -math.inf if math.isnan(number) else number
