"""Request: the arguments of an explanation that hold for all its texts.

Takes them as a user passes them; gives a frozen record, with the checks that need no model.
`captum_dig.text.explainer` prepares an explanation from it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from captum_dig.catalogue import CATALOGUE, Catalogue
from captum_dig.checks import at_least_one, one_of
from captum_dig.methods.base import Plan
from captum_dig.methods.named import Strategy
from captum_dig.models.samples import OVERFLOWS, Overflow
from captum_dig.quadrature import QuadratureRule, Spacing
from captum_dig.text.reading import Baseline, Target


@dataclass(frozen=True)
class Request:
    """What is asked about every text; the attributes are the arguments of `TextExplainer.explain_each`.

    Raises:
        ValueError: If `overflow` is unknown, or a number of texts is below 1.
    """

    baseline: Baseline | Sequence[Baseline] | None = None
    contrast: Target | None = None
    strategy: Strategy | None = None
    n_steps: int | Literal["auto"] = "auto"
    tolerance_percent: float = Plan.tolerance_percent
    spread_percent: float = Plan.spread_percent
    max_steps: int = 400
    method: str | QuadratureRule = "known_sums"
    batch_size: int | None = None
    internal_batch_size: int = 64
    overflow: Overflow = "truncate"
    window: int | None = None

    def __post_init__(self) -> None:
        one_of("overflow", self.overflow, OVERFLOWS)
        for name in ("batch_size", "window"):
            if getattr(self, name) is not None:
                at_least_one(name, getattr(self, name))

    @property
    def texts_together(self) -> int:
        """The number of texts in a batch."""
        # Texts that take gradients by need are attributed one by one: padding would only cost time.
        if self.n_steps == "auto":
            return 1
        return self.batch_size or max(1, int(self.internal_batch_size) // int(self.n_steps))

    def plan(self, catalogue: Catalogue, spacing: Spacing, rows_at_once: int, seed: int | None) -> Plan:
        """Say how to integrate.

        Args:
            catalogue: The catalogue for the name of the quadrature rule.
            spacing: How the pieces of the path are laid on [0, 1].
            rows_at_once: The number of rows for the model at once.
            seed: The seed of methods that draw; None for 0.

        Returns:
            The plan.

        Raises:
            ValueError: If a number or a name is wrong.
        """
        return Plan(
            self.n_steps,
            self._rule(catalogue),
            spacing,
            self.tolerance_percent,
            self.spread_percent,
            self.max_steps,
            rows_at_once,
            seed=0 if seed is None else seed,
        )

    def _rule(self, catalogue: Catalogue) -> str | QuadratureRule:
        """Make a rule that a plug-in brings; the others go by their names."""
        entry = catalogue.get(self.method, "rule")
        if entry is None or entry in CATALOGUE:
            return self.method
        rule: QuadratureRule = entry.make()
        return rule
