"""Records: the measurements of a comparison, their averages, and JSON that reads back.

Takes the measurements of `captum_dig.comparison.comparing`; gives averages with intervals, tests against a method, and
the texts where methods disagree most. `report` draws them.
"""

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt
import torch

from captum_dig.comparison.settings import ComparisonSettings, MeasureInfo, known_measures
from captum_dig.metrics import (
    Interval,
    PairedTest,
    TokenBatch,
    bootstrap_interval,
    kendall_tau,
    paired_test,
    pooled_delta_percent,
)
from captum_dig.records import (
    TO_DICT,
    check_keys,
    count,
    from_json,
    mapping,
    of_format,
    real,
    show,
    span,
    string,
    to_json,
    tuple_of,
)
from captum_dig.visualization import cut_text

FORMAT = "captum_dig.Comparison"
FORMAT_VERSION = 1
# The method that the others are tested against.
REFERENCE: Final = "integrated_gradients"
Span = tuple[int, int]


@dataclass(frozen=True)
class Measurement:
    """The numbers of one method, text and baseline.

    Attributes:
        method: The method.
        baseline: The baseline.
        word_scores: A score for each word of the text.
        n_gradients: The number of gradients.
        seconds: The time in seconds.
        values: Numbers by the name of the measure: one, or one for each top fraction; NaN where there is none.
        curve: The estimated error in percent for each number of steps, or |delta| for a rule without an estimate; empty
            for other texts and methods.
    """

    method: str
    baseline: str
    word_scores: tuple[float, ...]
    n_gradients: int
    seconds: float
    values: Mapping[str, tuple[float, ...]]
    curve: tuple[float, ...] = ()


@dataclass(frozen=True)
class ComparedText:
    """One text, and the numbers of every method for it.

    Attributes:
        text: The text.
        target: The index of the explained class, which is the predicted one.
        label: Its name.
        word_offsets: Start and end of each word in the text.
        measurements: One for each method and baseline.
    """

    text: str
    target: int
    label: str
    word_offsets: tuple[Span, ...]
    measurements: tuple[Measurement, ...]

    def find(self, method: str, baseline: str) -> Measurement:
        """Look up the measurement of a method from a baseline.

        Raises:
            ValueError: If there is none.
        """
        for found in self.measurements:
            if (found.method, found.baseline) == (method, baseline):
                return found
        known = sorted({(m.method, m.baseline) for m in self.measurements})
        raise ValueError(f"method and baseline must be one of {known}, got {(method, baseline)}")

    def to_dict(self) -> dict[str, Any]:
        """Give the fields as strict JSON can hold them."""
        return {
            "text": self.text,
            "target": self.target,
            "label": self.label,
            "word_offsets": [list(span) for span in self.word_offsets],
            "measurements": [
                {
                    **{field.name: to_json(getattr(m, field.name)) for field in fields(m) if field.name != "values"},
                    "values": {name: to_json(value) for name, value in m.values.items()},
                }
                for m in self.measurements
            ],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "ComparedText":
        """Make a text from the output of `to_dict`.

        Raises:
            TypeError: If it is not a mapping, or a value has the wrong type.
            ValueError: If a key is missing or unknown, a word leaves the text, or has no score.
        """
        check_keys("text", data, cls)
        text, offsets = string("text", data["text"]), tuple_of(span)("word_offsets", data["word_offsets"])
        measurements = tuple_of(_read_measurement)("measurements", data["measurements"])
        for one in measurements:
            # This also checks the offsets of words.
            cut_text(text, offsets, one.word_scores)
        return cls(text, count("target", data["target"]), string("label", data["label"]), offsets, measurements)


def _read_measurement(name: str, data: Any) -> Measurement:
    check_keys(name, data, Measurement)
    reals = tuple_of(real)
    values = mapping(f"{name}.values", data["values"])
    return Measurement(
        method=string(f"{name}.method", data["method"]),
        baseline=string(f"{name}.baseline", data["baseline"]),
        word_scores=reals(f"{name}.word_scores", from_json(data["word_scores"])),
        n_gradients=count(f"{name}.n_gradients", data["n_gradients"]),
        seconds=real(f"{name}.seconds", from_json(data["seconds"])),
        values={
            string(f"{name}.values", metric): reals(f"{name}.values[{show(metric)}]", from_json(numbers))
            for metric, numbers in values.items()
        },
        curve=reals(f"{name}.curve", from_json(data["curve"])),
    )


def check_text(text: ComparedText, settings: ComparisonSettings) -> None:
    """Require that a text has every number of a comparison with these settings.

    Raises:
        ValueError: If a method or baseline is missing or unknown, or there are too few or too many numbers.
    """
    wanted = sorted(itertools.product(settings.methods, settings.baselines))
    if (found := sorted((m.method, m.baseline) for m in text.measurements)) != wanted:
        raise ValueError(f"measurements must be of each of {show(wanted)}, got {show(found)}; pass what to_dict gave")
    known = settings.known_measures
    for one in text.measurements:
        for name, values in one.values.items():
            if name not in known:
                raise ValueError(f"values must be of {', '.join(map(repr, known))}, got {show(name)}; remove it")
            expected = len(settings.top_fractions) if known[name].by_fraction else 1
            if len(values) != expected:
                raise ValueError(
                    f"values[{name!r}] must hold {expected} numbers, got {len(values)}; pass what to_dict gave"
                )
        if len(one.curve) not in (0, len(settings.curve_steps)):
            raise ValueError(
                f"curve must hold a number for each of the {len(settings.curve_steps)} curve_steps or none, "
                f"got {len(one.curve)}; pass what to_dict gave"
            )


@dataclass(frozen=True)
class Summary:
    """The averages of one method from one baseline.

    Attributes:
        method: The method.
        baseline: The baseline.
        intervals: Averages with intervals, by the name of the measure.
        medians: Medians of ratios, by the name of the measure; NaN where the method has no number.
        tests: Paired tests against the reference method, by the name of the measure; none for the reference itself.
        n_gradients: Gradients for a text, on average.
        seconds: Seconds for a text, the median.
        pooled_delta_percent: |delta| in percent of the change, over all texts together; NaN where scores do not claim
            to add up.
    """

    method: str
    baseline: str
    intervals: Mapping[str, Interval]
    medians: Mapping[str, float]
    tests: Mapping[str, PairedTest]
    n_gradients: float
    seconds: float
    pooled_delta_percent: float

    @property
    def delta_percent(self) -> float:
        """|delta| in percent of the change, the median; NaN where scores do not claim to add up."""
        return self.medians.get("delta_percent", math.nan)


@dataclass(frozen=True)
class MeasuredTexts:
    """The numbers of several methods on the same texts, and their averages.

    Attributes:
        settings: How it was made.
        texts: The texts with their measurements.
    """

    settings: ComparisonSettings
    texts: tuple[ComparedText, ...]

    @property
    def measures(self) -> dict[str, MeasureInfo]:
        """How to read the numbers, by name, in the order of tables; measures without a number are left out."""
        known = {info.name: info for info in self.settings.measures} or known_measures()
        measured = {name for text in self.texts for m in text.measurements for name in m.values}
        return {name: info for name, info in known.items() if name in measured}

    @property
    def metrics(self) -> tuple[str, ...]:
        """The names of the measures, in the order of tables."""
        return tuple(self.measures)

    def values(
        self, metric: str, method: str, baseline: str | None = None, top_fraction: float = 0.2
    ) -> npt.NDArray[np.float64]:
        """Look up a number for each text.

        Args:
            metric: The name of the measure.
            method: The name of the method.
            baseline: The baseline; None for the first.
            top_fraction: The nearest top fraction of the settings is taken, for measures that have them.

        Returns:
            Shape (N,); NaN where a text was skipped or the method has no such number.

        Raises:
            ValueError: If there is no such metric, method or baseline.
        """
        baseline = self.settings.baselines[0] if baseline is None else baseline
        known = self.settings.known_measures
        for name, value, names in (
            ("metric", metric, tuple(known)),
            ("method", method, self.settings.methods),
            ("baseline", baseline, self.settings.baselines),
        ):
            if value not in names:
                raise ValueError(f"{name} must be one of {', '.join(map(repr, names))}, got {value!r}")
        nearest = np.abs(np.array(self.settings.top_fractions) - top_fraction).argmin()
        place = int(nearest) if known[metric].by_fraction else 0
        found = (text.find(method, baseline).values.get(metric) for text in self.texts)
        return np.array([math.nan if value is None else value[place] for value in found])

    def summary(self, reference: str = REFERENCE, top_fraction: float = 0.2) -> list[Summary]:
        """Average over the texts.

        Args:
            reference: The method to test the others against, by its name or an alias; without it among the methods
                there are no tests.
            top_fraction: As in `values`.

        Returns:
            One for each baseline and method.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            return self._summary(self.settings.find_method(reference), top_fraction)

    def _summary(self, reference: str | None, top_fraction: float) -> list[Summary]:
        found = []
        for baseline, method in itertools.product(self.settings.baselines, self.settings.methods):
            intervals, medians, tests = {}, {}, {}
            for metric, info in self.measures.items():
                if info.average == "median":
                    # Texts whose output hardly changes would dominate a mean of ratios.
                    known = self.values(metric, method, baseline, top_fraction)
                    known = known[~np.isnan(known)]
                    medians[metric] = float(np.median(known)) if len(known) else math.nan
                    continue
                values = self.finite_values(metric, method, baseline, top_fraction)
                intervals[metric] = bootstrap_interval(values, seed=self.settings.seed)
                if reference is not None and method != reference and info.better:
                    others = self.finite_values(metric, reference, baseline, top_fraction)
                    tests[metric] = paired_test(values, others, seed=self.settings.seed)
            measurements = [text.find(method, baseline) for text in self.texts]
            deltas, changes = (self.values(name, method, baseline) for name in ("delta", "change"))
            both = ~np.isnan(deltas) & ~np.isnan(changes)
            found.append(
                Summary(
                    method=method,
                    baseline=baseline,
                    intervals=intervals,
                    medians=medians,
                    tests=tests,
                    n_gradients=float(np.mean([m.n_gradients for m in measurements])),
                    seconds=float(np.median([m.seconds for m in measurements])),
                    pooled_delta_percent=pooled_delta_percent(*map(torch.from_numpy, (deltas[both], changes[both]))),
                )
            )
        return found

    def finite_values(
        self, metric: str, method: str, baseline: str | None = None, top_fraction: float = 0.2
    ) -> npt.NDArray[np.float64]:
        """As `values`, with NaN in place of infinity, which has no average."""
        values = self.values(metric, method, baseline, top_fraction)
        return np.where(np.isfinite(values), values, math.nan)

    def disagreements(self, n: int = 5, baseline: str | None = None) -> list[tuple[ComparedText, float]]:
        """Find the texts where methods rank the words most differently.

        Args:
            n: How many texts.
            baseline: The baseline; None for the first.

        Returns:
            The texts, each with the mean Kendall tau between two methods, lowest first. Random scores do not count.
        """
        baseline = self.settings.baselines[0] if baseline is None else baseline
        names = [name for name in self.settings.methods if name != "random"]
        ranked: list[tuple[ComparedText, float]] = []
        for text in self.texts if len(names) > 1 else ():
            scores = torch.tensor(
                [text.find(name, baseline).word_scores for name in names], dtype=torch.float32, device="cpu"
            )
            pairs = torch.combinations(torch.arange(len(names), device="cpu"))
            ones = torch.ones(len(pairs), scores.shape[1], dtype=torch.int64, device="cpu")
            batch = TokenBatch(ones, ones, torch.zeros_like(ones), pad_id=0)
            if scores.shape[1] > 1:
                tau = float(kendall_tau(scores[pairs[:, 0]], scores[pairs[:, 1]], batch).nanmean())
                ranked.append((text, tau))
        return sorted((pair for pair in ranked if not math.isnan(pair[1])), key=lambda pair: pair[1])[:n]

    def to_dict(self) -> dict[str, Any]:
        """Give everything as strict JSON can hold it; `from_dict` gives back an equal comparison."""
        return {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "settings": self.settings.to_dict(),
            "texts": [text.to_dict() for text in self.texts],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Self":
        """Make a comparison from the output of `to_dict`.

        Args:
            data: The dictionary, also after a round trip through JSON.

        Returns:
            A comparison equal to the first one.

        Raises:
            TypeError: If `data` is not a mapping, or a value has the wrong type.
            ValueError: If the format is another one, a key is missing or unknown, or the values do not fit together.
        """
        values = of_format("data", data, FORMAT, FORMAT_VERSION, TO_DICT)
        check_keys("data", values, cls)
        settings = ComparisonSettings.from_dict(values["settings"])
        texts = tuple_of(lambda _, text: ComparedText.from_dict(text))("texts", values["texts"])
        if not texts:
            raise ValueError("texts must hold at least one text, got none; pass what to_dict gave")
        for text in texts:
            check_text(text, settings)
        return cls(settings, texts)
