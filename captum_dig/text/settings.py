"""ExplanationSettings: how an explanation was made.

Takes the arguments of an explanation; gives a frozen record. `results` holds it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args, get_type_hints

from captum_dig.records import integer, string

# The paper's threshold (section 4.3): above it scores are not trusted.
LARGE_DELTA_PERCENT = 5.0
# Somewhat more than the true error, in the median.
LARGE_ERROR_PERCENT = 15.0


@dataclass(frozen=True)
class ExplanationSettings:
    """How an explanation was made, in enough detail to repeat it.

    Args:
        model: Name or folder of the model.
        strategy: The anchor search, the name of another path such as ``"straight_line"``, or the `repr` of a path.
        candidates: Which rows may be anchors, for instance ``"all"`` or ``"words"``.
        n_anchors: Anchors on the way from a word to the baseline; 0 for a path without anchors.
        n_neighbors: The candidates for each anchor; 0 for a path without anchors.
        baseline: The baseline token, or several with commas between them, or the name of another baseline.
        n_steps: Gradient evaluations.
        method: The quadrature rule.
        spacing: How the pieces of the path are laid on [0, 1]: ``"arc"`` or ``"knots"``.
        output: The output that is explained: ``"logit"``, ``"log_odds"``, ``"log_probability"``, ``"probability"``, or
            ``"value"`` of a regression.
        version: The version of captum_dig.
        seed: The seed of a random strategy or path, None for the others.
        contrast: The label whose output was subtracted; None for none.

    Raises:
        TypeError: A field has the wrong type.
    """

    model: str
    strategy: str
    candidates: str
    n_anchors: int
    n_neighbors: int
    baseline: str
    n_steps: int
    method: str
    spacing: str
    output: str
    version: str
    seed: int | None = None
    contrast: str | None = None

    def __post_init__(self) -> None:
        for name, kind in get_type_hints(type(self)).items():
            value = getattr(self, name)
            kinds = get_args(kind) or (kind,)
            if value is None and type(None) in kinds:
                continue
            convert = integer if int in kinds else string
            object.__setattr__(self, name, convert(f"settings.{name}", value))
