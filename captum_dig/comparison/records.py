"""Comparison: what the scores of several methods are worth on the same texts.

Takes the measurements that `captum_dig.comparison.comparing` made; gives averages with intervals, tests against a
method, the texts where methods disagree most, a table, and JSON that reads back. `report`, beside this, draws it.
"""

import io
import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch
from rich.console import Console

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
    integer,
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
from captum_dig.visualization.writing import write_whole

FORMAT = "captum_dig.Comparison"
FORMAT_VERSION = 1
# The method that the others are tested against.
REFERENCE: Final = "integrated_gradients"
Span = tuple[int, int]


@dataclass(frozen=True)
class Metric:
    """How to read a number.

    Attributes:
        title: What tables call it.
        better: 1 if higher is better, -1 if lower is, 0 if neither.
        by_fraction: Whether there is one number for each top fraction.
    """

    title: str
    better: int
    by_fraction: bool = False


METRICS: Final[dict[str, Metric]] = {
    "log_odds": Metric("log-odds", -1, by_fraction=True),
    "comprehensiveness": Metric("comprehensiveness", 1, by_fraction=True),
    "sufficiency": Metric("sufficiency", -1, by_fraction=True),
    "paper_log_odds": Metric("log-odds, paper's protocol", -1, by_fraction=True),
    "paper_comprehensiveness": Metric("comprehensiveness, paper's protocol", 1, by_fraction=True),
    "paper_sufficiency": Metric("sufficiency, paper's protocol", -1, by_fraction=True),
    "kendall_tau": Metric("tau with leave-one-out", 1),
    "delta": Metric("delta", 0),
    "change": Metric("change of the output", 0),
    "delta_percent": Metric("delta %", -1),
    "word_approximation_error": Metric("WAE", -1),
    "special_anchors": Metric("share of special anchors", 0),
    "unused_anchors": Metric("share of unused anchors", 0),
    "piece_anchors": Metric("share of anchors that are no words", 0),
}


@dataclass(frozen=True)
class ComparisonSettings:
    """How a comparison was made.

    Attributes:
        model: Name or folder of the model.
        fingerprint: Of the model's weights.
        methods: Names of the methods, in order.
        details: The methods in full.
        baselines: Names of the baselines, in order.
        candidates: Which rows may be anchors.
        n_steps: Gradients that a method may take for a text.
        top_fractions: Shares of tokens taken away.
        protocols: Of the faithfulness metrics.
        n_curve_texts: For how many texts deltas were found for several numbers of steps.
        curve_steps: Those numbers.
        seed: For all that draws at random.
        version: The version of captum_dig.
        baseline_ids: The tokens of the baselines; none in files of before they were kept.

    Raises:
        TypeError: If a field has the wrong type.
        ValueError: If methods, baselines or top fractions are missing, or a number is out of range.
    """

    model: str
    fingerprint: str
    methods: tuple[str, ...]
    details: tuple[str, ...]
    baselines: tuple[str, ...]
    candidates: str
    n_steps: int
    top_fractions: tuple[float, ...]
    protocols: tuple[str, ...]
    n_curve_texts: int
    curve_steps: tuple[int, ...]
    seed: int
    version: str
    baseline_ids: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for name, convert in _SETTINGS.items():
            object.__setattr__(self, name, convert(f"settings.{name}", getattr(self, name)))
        for name in ("methods", "baselines"):
            names = getattr(self, name)
            if not names or len(set(names)) < len(names):
                raise ValueError(f"settings.{name} must hold at least one name, and each once, got {show(names)}")
        if not self.top_fractions or not all(0 < fraction <= 1 for fraction in self.top_fractions):
            raise ValueError(f"settings.top_fractions must hold numbers in (0, 1], got {show(self.top_fractions)}")
        if self.seed < 0:
            raise ValueError(f"settings.seed must be at least 0, got {show(self.seed)}")

    def to_dict(self) -> dict[str, Any]:
        """Give the fields as strict JSON can hold them."""
        return {name.name: to_json(getattr(self, name.name)) for name in fields(self)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "ComparisonSettings":
        """Make settings from what `to_dict` gave.

        Raises:
            TypeError: If it is not a mapping, or a value has the wrong type.
            ValueError: If a key is missing or unknown, or a number is out of range.
        """
        check_keys("settings", data, cls, optional=("baseline_ids",))
        return cls(**data)


_SETTINGS: Final[dict[str, Callable[[str, Any], object]]] = {
    "model": string,
    "fingerprint": string,
    "methods": tuple_of(string),
    "details": tuple_of(string),
    "baselines": tuple_of(string),
    "candidates": string,
    "n_steps": count,
    "top_fractions": tuple_of(real),
    "protocols": tuple_of(string),
    "n_curve_texts": count,
    "curve_steps": tuple_of(count),
    "seed": integer,
    "version": string,
    "baseline_ids": tuple_of(count),
}


@dataclass(frozen=True)
class Measurement:
    """What one method's scores of one text, from one baseline, are worth.

    Attributes:
        method: The method.
        baseline: The baseline.
        word_scores: A score for each word of the text.
        n_gradients: How many gradients it took.
        seconds: How long that took.
        values: Numbers by the name of the metric, one for each top fraction or one alone; NaN where there is none.
        curve: |delta| in percent for each of the numbers of steps; empty for other texts and methods.
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
    """One text, and what every method's scores of it are worth.

    Attributes:
        text: The text.
        target: The index of the class explained, the predicted one.
        label: Its name.
        word_offsets: Where the words stand in the text.
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
        """Make a text from what `to_dict` gave.

        Raises:
            TypeError: If it is not a mapping, or a value has the wrong type.
            ValueError: If a key is missing or unknown, a word leaves the text, or has no score.
        """
        check_keys("text", data, cls)
        text, offsets = string("text", data["text"]), tuple_of(span)("word_offsets", data["word_offsets"])
        measurements = tuple_of(_read_measurement)("measurements", data["measurements"])
        for one in measurements:
            # It checks the places of words, too.
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
    for one in text.measurements:
        for name, values in one.values.items():
            if name not in METRICS:
                raise ValueError(f"values must be of {', '.join(map(repr, METRICS))}, got {show(name)}; remove it")
            expected = len(settings.top_fractions) if METRICS[name].by_fraction else 1
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
    """What a method's scores are worth on average.

    Attributes:
        method: The method.
        baseline: The baseline.
        intervals: Averages with intervals, by the name of the metric.
        tests: Paired tests against the reference method, by the name of the metric; none for the reference itself.
        n_gradients: Gradients for a text, on average.
        seconds: Seconds for a text, the median.
        delta_percent: |delta| in percent of the change, the median; NaN where scores do not claim to add up.
        pooled_delta_percent: The same over all texts together.
    """

    method: str
    baseline: str
    intervals: Mapping[str, Interval]
    tests: Mapping[str, PairedTest]
    n_gradients: float
    seconds: float
    delta_percent: float
    pooled_delta_percent: float


@dataclass(frozen=True)
class Comparison:
    """What the scores of several methods are worth on the same texts.

    Attributes:
        settings: How it was made.
        texts: The texts with their measurements.
    """

    settings: ComparisonSettings
    texts: tuple[ComparedText, ...]

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of what was measured, in the order of tables."""
        measured = {name for text in self.texts for m in text.measurements for name in m.values}
        return tuple(name for name in METRICS if name in measured)

    def values(
        self, metric: str, method: str, baseline: str | None = None, top_fraction: float = 0.2
    ) -> npt.NDArray[np.float64]:
        """Look up a number for each text.

        Args:
            metric: The name of the metric.
            method: The name of the method.
            baseline: The baseline; None for the first.
            top_fraction: One of the settings', for metrics that have it; of others the nearest is taken.

        Returns:
            Shape (N,); NaN where a text was skipped or the method has no such number.

        Raises:
            ValueError: If there is no such metric, method or baseline.
        """
        baseline = self.settings.baselines[0] if baseline is None else baseline
        for name, value, known in (
            ("metric", metric, tuple(METRICS)),
            ("method", method, self.settings.methods),
            ("baseline", baseline, self.settings.baselines),
        ):
            if value not in known:
                raise ValueError(f"{name} must be one of {', '.join(map(repr, known))}, got {value!r}")
        nearest = np.abs(np.array(self.settings.top_fractions) - top_fraction).argmin()
        place = int(nearest) if METRICS[metric].by_fraction else 0
        found = (text.find(method, baseline).values.get(metric) for text in self.texts)
        return np.array([math.nan if value is None else value[place] for value in found])

    def summary(self, reference: str = REFERENCE, top_fraction: float = 0.2) -> list[Summary]:
        """Average over the texts.

        Args:
            reference: The method that the others are tested against; no tests where it is not among them.
            top_fraction: As in `values`.

        Returns:
            One for each baseline and method.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            return self._summary(reference, top_fraction)

    def _summary(self, reference: str, top_fraction: float) -> list[Summary]:
        found = []
        for baseline, method in itertools.product(self.settings.baselines, self.settings.methods):
            intervals, tests = {}, {}
            # A mean of ratios would be ruled by the texts whose output hardly changes.
            for metric in (name for name in self.metrics if name != "delta_percent"):
                values = self._finite(metric, method, baseline, top_fraction)
                intervals[metric] = bootstrap_interval(values, seed=self.settings.seed)
                if reference in self.settings.methods and method != reference and METRICS[metric].better:
                    others = self._finite(metric, reference, baseline, top_fraction)
                    tests[metric] = paired_test(values, others, seed=self.settings.seed)
            measurements = [text.find(method, baseline) for text in self.texts]
            percents = self.values("delta_percent", method, baseline)
            deltas, changes = (
                torch.from_numpy(self.values(name, method, baseline)).nan_to_num() for name in ("delta", "change")
            )
            completes = bool((~np.isnan(percents)).any())
            found.append(
                Summary(
                    method=method,
                    baseline=baseline,
                    intervals=intervals,
                    tests=tests,
                    n_gradients=float(np.mean([m.n_gradients for m in measurements])),
                    seconds=float(np.median([m.seconds for m in measurements])),
                    delta_percent=float(np.nanmedian(percents)) if completes else math.nan,
                    pooled_delta_percent=pooled_delta_percent(deltas, changes) if completes else math.nan,
                )
            )
        return found

    def _finite(self, metric: str, method: str, baseline: str, top_fraction: float) -> npt.NDArray[np.float64]:
        """As `values`; infinity, of which there is no average, does not count."""
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

    def to_html(self, path: str | Path | None = None) -> str:
        """Draw the comparison as one HTML file that needs nothing else: tables, plots, and texts side by side.

        Args:
            path: Where to write the page, in UTF-8; None writes nothing. An existing file is replaced.

        Returns:
            The page.
        """
        # Plots are slow to import, and not always asked for.
        from captum_dig.comparison.report import report_page

        page = report_page(self)
        if path is not None:
            write_whole(path, page.encode("utf-8"))
        return page

    def __str__(self) -> str:
        """Lay out averages as plain text, a table for each baseline."""
        from captum_dig.comparison.report import terminal_tables

        *tables, legend = terminal_tables(self)
        written = io.StringIO()
        for part, width in (*((table, 200) for table in tables), (legend, 80)):
            Console(file=written, width=width, color_system=None).print(part)
        return "\n".join(line.rstrip() for line in written.getvalue().splitlines())

    def to_dict(self) -> dict[str, Any]:
        """Give everything as strict JSON can hold it; `from_dict` gives back an equal comparison."""
        return {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "settings": self.settings.to_dict(),
            "texts": [text.to_dict() for text in self.texts],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Comparison":
        """Make a comparison from what `to_dict` gave.

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

    def __repr__(self) -> str:
        return f"Comparison(model={self.settings.model!r}, methods={self.settings.methods}, n_texts={len(self.texts)})"
