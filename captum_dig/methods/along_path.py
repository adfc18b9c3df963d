"""PathMethod: integrated gradients along any path."""

from dataclasses import dataclass
from typing import Any, cast

from torch import Tensor

from captum_dig.attribution.inputs import DiscretizedIntegratedGradients
from captum_dig.checks import at_least_one
from captum_dig.methods.base import AttributionMethod, Plan
from captum_dig.models.question import Question
from captum_dig.paths import PathGenerator
from captum_dig.quadrature import QuadratureRule, Spacing, check_method, check_spacing


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

    def estimated(self, question: Question, plan: Plan) -> tuple[Tensor, Tensor | None]:
        """Score the tokens; known sums have an estimate of their error."""
        if not check_method(self.method or plan.method).known_sums:
            return self.scores(question, plan), None
        dig, arguments = self._asked(question, plan)
        attributions, errors = dig.attribute_with_error(**arguments)
        return cast("Tensor", attributions).sum(dim=-1), errors

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
            "internal_batch_size": max(plan.rows_at_once, len(question.inputs)),
        }
