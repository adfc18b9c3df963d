"""Settings of a comparison, and how to read its numbers.

Takes the arguments of `compare`; gives a frozen record of them that reads back from JSON. `records` keeps it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Final

from captum_dig.catalogue import CATALOGUE
from captum_dig.checks import one_of
from captum_dig.entries import STRATEGIES
from captum_dig.metrics.measures import Measure, load_measure
from captum_dig.records import check_keys, count, flag, integer, real, show, string, to_json, tuple_of


@dataclass(frozen=True)
class MeasureInfo:
    """How to read a number of a comparison; the attributes are those of `Measure`.

    Attributes:
        name: The name in files.
        title: The heading in reports.
        better: 1 if a higher number is better, -1 if a lower one is, 0 if neither.
        by_fraction: Whether there is one number for each top fraction.
        average: ``"mean"``, or ``"median"`` for ratios, which get no interval and no test.
        column: The heading in the terminal's table; empty for no column there.
        digits: Decimals in that column.
        about: One sentence for the legend.

    Raises:
        TypeError: If a field has the wrong type.
        ValueError: If `average` is something else.
    """

    name: str
    title: str
    better: int = 0
    by_fraction: bool = False
    average: str = "mean"
    column: str = ""
    digits: int = 2
    about: str = ""

    def __post_init__(self) -> None:
        for name, convert in _MEASURE.items():
            object.__setattr__(self, name, convert(f"measures.{name}", getattr(self, name)))

    @classmethod
    def of(cls, measure: Measure) -> "MeasureInfo":
        """Read the attributes of a measure."""
        return cls(*(getattr(measure, field.name) for field in fields(cls)))

    @property
    def heading(self) -> str:
        """The title with an arrow to the better side."""
        return self.title + arrow(self.better)


_MEASURE: Final[dict[str, Callable[[str, Any], object]]] = {
    "name": string,
    "title": string,
    "better": integer,
    "by_fraction": flag,
    "average": lambda name, value: one_of(name, string(name, value), ("mean", "median")),
    "column": string,
    "digits": count,
    "about": string,
}


def arrow(better: int) -> str:
    """Return an arrow to the better side, with a space before it; nothing if neither side is better."""
    return {1: " ↑", -1: " ↓"}.get(better, "")


def known_measures() -> dict[str, MeasureInfo]:
    """Describe the measures of the catalogue, by name."""
    return {entry.name: MeasureInfo.of(load_measure(entry)) for entry in CATALOGUE if entry.kind == "measure"}


def read_measure(name: str, data: Any) -> MeasureInfo:
    """Read the description of a measure from a dictionary; a `MeasureInfo` is returned unchanged."""
    if isinstance(data, MeasureInfo):
        return data
    check_keys(name, data, MeasureInfo)
    return MeasureInfo(**data)


@dataclass(frozen=True)
class ComparisonSettings:
    """How a comparison was made.

    Attributes:
        model: Name or folder of the model.
        fingerprint: Hash of the model's weights.
        methods: Names of the methods, in order.
        details: The methods in full.
        baselines: Names of the baselines, in order.
        candidates: Which rows may be anchors.
        n_steps: Gradients that a method may take for a text.
        top_fractions: Shares of removed tokens.
        protocols: The protocols of the faithfulness metrics.
        n_curve_texts: The number of texts with errors for several numbers of steps.
        curve_steps: These numbers of steps.
        seed: The seed of all random draws.
        version: The version of captum_dig.
        baseline_ids: The tokens of the baselines; empty in older files.
        measures: How to read the numbers; empty in older files.
        method: The quadrature rule.

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
    n_steps: int | str
    top_fractions: tuple[float, ...]
    protocols: tuple[str, ...]
    n_curve_texts: int
    curve_steps: tuple[int, ...]
    seed: int
    version: str
    baseline_ids: tuple[int, ...] = ()
    measures: tuple[MeasureInfo, ...] = ()
    method: str = "gausslegendre"

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

    @cached_property
    def known_measures(self) -> dict[str, MeasureInfo]:
        """How to read every number that may stand in such a comparison, by name: the catalogue's and its own."""
        return known_measures() | {info.name: info for info in self.measures}

    def find_method(self, name: str) -> str | None:
        """Return the name in `methods` of the method with this name or alias; None if the comparison is without it."""
        wanted = CATALOGUE.get(name, *STRATEGIES)
        same = (known for known in self.methods if wanted and CATALOGUE.get(known, *STRATEGIES) is wanted)
        return name if name in self.methods else next(same, None)

    def to_dict(self) -> dict[str, Any]:
        """Give the fields as strict JSON can hold them."""
        return {name.name: to_json(getattr(self, name.name)) for name in fields(self)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "ComparisonSettings":
        """Make settings from the output of `to_dict`.

        Raises:
            TypeError: If it is not a mapping, or a value has the wrong type.
            ValueError: If a key is missing or unknown, or a number is out of range.
        """
        check_keys("settings", data, cls, optional=("baseline_ids", "measures", "method"))
        return cls(**data)


_SETTINGS: Final[dict[str, Callable[[str, Any], object]]] = {
    "model": string,
    "fingerprint": string,
    "methods": tuple_of(string),
    "details": tuple_of(string),
    "baselines": tuple_of(string),
    "candidates": string,
    "n_steps": lambda name, value: value if value == "auto" else count(name, value),
    "top_fractions": tuple_of(real),
    "protocols": tuple_of(string),
    "n_curve_texts": count,
    "curve_steps": tuple_of(count),
    "seed": integer,
    "version": string,
    "baseline_ids": tuple_of(count),
    "measures": tuple_of(read_measure),
    "method": string,
}
