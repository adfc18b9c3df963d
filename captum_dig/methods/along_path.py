"""PathMethod: integrated gradients along any path."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

from torch import Tensor

from captum_dig.attribution.inputs import DiscretizedIntegratedGradients
from captum_dig.attribution.integral import Integral
from captum_dig.checks import at_least_one
from captum_dig.methods.base import AttributionMethod, Measured, Plan
from captum_dig.methods.scoring import worst_spread_percent
from captum_dig.models.question import Question
from captum_dig.paths import PathGenerator
from captum_dig.quadrature import QuadratureRule, Spacing, check_method, check_spacing

# The number of gradients that n_steps="auto" begins with where the number of paths is fixed.
_FIRST_OF_REFINED = 24


@dataclass(frozen=True)
class PathMethod(AttributionMethod):
    """Integrated gradients along a path.

    Attributes:
        name: The name in tables.
        path: The path.
        method: The quadrature rule; None for the plan's.
        spacing: As in `DiscretizedIntegratedGradients`; None for the plan's.
        n_gradients: The number of gradients for a text; None for that of the plan.

    Raises:
        ValueError: If a name is unknown or a number is below 1.
    """

    name: str
    path: PathGenerator  # type: ignore[misc]  # an attribute of each object, where other methods have None
    method: str | QuadratureRule | None = None
    spacing: Spacing | None = None
    n_gradients: int | None = None
    completes: bool = True

    def __post_init__(self) -> None:
        if self.method is not None:
            check_method(self.method)
        if self.spacing is not None:
            check_spacing(self.spacing)
        if self.n_gradients is not None:
            at_least_one("n_gradients", self.n_gradients)

    def scores(self, question: Question, plan: Plan) -> Tensor:
        """Attribute along the path, and add up the dimensions of each token."""
        return self.attributions(question, plan).sum(dim=-1)

    def estimated(self, question: Question, plan: Plan) -> Measured:
        """Score the tokens, along each draw of the path, with the estimated error of the integration."""
        dig, arguments = self._asked(question, plan)
        return _measured(dig.integrate(method=self.method or plan.method, **arguments))

    def attempts(self, question: Question, plan: Plan) -> Iterator[Measured]:
        """Go on from the last attempt: with further orders where the spread is the larger concern, else with nodes."""
        if not check_method(self.method or plan.method).known_sums:
            yield from super().attempts(question, plan)
            return
        dig, arguments = self._asked(question, plan)
        refinement = dig.refine(**arguments)
        while True:
            found = _measured(refinement.integral())
            yield self.checked(question, found)
            left = plan.max_steps - refinement.n_steps
            if self.path.free and _spreads(found, question, plan):
                if left < arguments["n_steps"]:
                    return
                refinement.add_orders(arguments["n_steps"])
            elif left > 0:
                refinement.add_nodes(min(left, max(1, refinement.n_steps // 2)))
            else:
                return

    def first_steps(self, plan: Plan) -> int:
        """Return 24 where known sums estimate the error; orders that are free need 48 for their spread."""
        refines = check_method(self.method or plan.method).known_sums and not self.path.free
        return _FIRST_OF_REFINED if refines else super().first_steps(plan)

    def attributions(self, question: Question, plan: Plan) -> Tensor:
        """Attribute along the path to every dimension, shape (B, T, D)."""
        dig, arguments = self._asked(question, plan)
        attributions: Tensor = dig.attribute(method=self.method or plan.method, **arguments)
        return attributions

    def _asked(self, question: Question, plan: Plan) -> tuple[DiscretizedIntegratedGradients, dict[str, Any]]:
        """The attribution class for a question, and its arguments."""
        dig = DiscretizedIntegratedGradients(
            question.forward, question.path(self.path), spacing=self.spacing or plan.spacing
        )
        return dig, {
            "inputs": question.inputs,
            "baselines": question.baselines,
            "additional_forward_args": question.arguments,
            "n_steps": int(self.n_gradients or plan.n_steps),
            "internal_batch_size": max(question.fast_rows(plan.rows_at_once), len(question.inputs)),
        }


def _measured(found: Integral) -> Measured:
    """Add up the dimensions of each token."""
    (draws,) = found.draws
    scores = cast("Tensor", found.attributions).sum(dim=-1)
    errors = None if found.integration_errors is None else found.integration_errors[0]
    return Measured(scores, found.error_percent, draws, found.n_steps, errors)


def _spreads(found: Measured, question: Question, plan: Plan) -> bool:
    """Whether the spread over the draws is further above its tolerance than the error of the integration."""
    error = 0.0 if found.error_percent is None else float(found.error_percent.max())
    return worst_spread_percent(found, question) / plan.spread_percent > error / plan.tolerance_percent
