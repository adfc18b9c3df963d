"""AttributionMethod: a way to score the tokens of a text, and the plan that it follows.

Takes a `Question` and a `Plan`; gives a score for each token. `score` calls a method for one or several baselines, and
takes more gradients until the scores add up. `captum_dig.text` and `captum_dig.comparison` call it.
"""

import reprlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, final

import torch
from torch import Tensor

from captum_dig.checks import at_least_one
from captum_dig.errors import ModelError
from captum_dig.models.question import Question
from captum_dig.paths import PathGenerator
from captum_dig.paths.naming import described
from captum_dig.quadrature import QuadratureRule, Spacing, check_method, check_spacing

# The number of gradients that n_steps="auto" begins with.
_FIRST_STEPS = 50
# Elements of the inputs that are attributed together: the knots of a path may take a hundred times as many.
_TOGETHER = 2**19


@dataclass(frozen=True)
class Plan:
    """How to integrate: the number of gradients, the rule, and the condition to stop.

    Attributes:
        n_steps: Gradients for each text; with ``"auto"`` 50, then twice as many from scratch, until the delta is within
            the tolerance.
        method: The quadrature rule.
        spacing: As in `DiscretizedIntegratedGradients`.
        tolerance_percent: For ``"auto"``: the largest delta, in percent of the difference of outputs, above 0. With
            known sums it is the largest estimated error.
        max_steps: For ``"auto"``: the largest number of gradients.
        rows_at_once: The number of rows, texts times steps, for the model at once. It changes speed and memory only.
        seed: For methods that draw at random.

    Raises:
        ValueError: If a name is unknown or a number is too low.

    Example:
        >>> Plan("auto").first(n_needed=4), Plan(12).first(n_needed=4)
        (50, 12)
    """

    n_steps: int | Literal["auto"] = 50
    method: str | QuadratureRule = "gausslegendre"
    spacing: Spacing = "arc"
    tolerance_percent: float = 5.0
    max_steps: int = 400
    rows_at_once: int = 64
    seed: int = 0

    def __post_init__(self) -> None:
        if isinstance(self.n_steps, str) and self.n_steps != "auto":
            raise ValueError(f"n_steps must be 'auto' or an integer of at least 1, got {self.n_steps!r}")
        if not isinstance(self.n_steps, str):
            object.__setattr__(self, "n_steps", at_least_one("n_steps", self.n_steps))
        object.__setattr__(self, "max_steps", at_least_one("max_steps", self.max_steps))
        object.__setattr__(self, "rows_at_once", at_least_one("internal_batch_size", self.rows_at_once))
        if not self.tolerance_percent > 0:
            raise ValueError(f"tolerance_percent must be positive, got {self.tolerance_percent!r}")
        check_method(self.method)
        check_spacing(self.spacing)

    def first(self, n_needed: int) -> int:
        """Return the number of gradients to begin with.

        Args:
            n_needed: The smallest number: one for each path from each baseline.

        Raises:
            ValueError: If there are too few.
        """
        name, most = ("max_steps", self.max_steps) if self.n_steps == "auto" else ("n_steps", int(self.n_steps))
        if most < n_needed:
            raise ValueError(
                f"{name} must be at least {n_needed}, one for each path from each baseline, got {most}; "
                "take more, fewer baselines, or strategy='straight_line'"
            )
        return min(max(_FIRST_STEPS, n_needed), most) if self.n_steps == "auto" else most

    def describe(self, method: "AttributionMethod", n_baselines: int) -> dict[str, Any]:
        """Return the settings of a result: how a method integrates by this plan.

        Args:
            method: The method.
            n_baselines: The number of baselines, which share the gradients.

        Returns:
            ``n_steps``, ``method``, ``spacing``, ``n_anchors``, ``n_neighbors`` and ``seed``; the rule and the spacing
            are ``"none"`` for a method without a path.

        Raises:
            ValueError: If there are fewer gradients than paths.
        """
        path = method.path
        walked: dict[str, Any] = {"n_anchors": 0, "n_neighbors": 0, "seed": self.seed if method.draws else None}
        if path is None:
            return walked | {"n_steps": method.gradients(self, n_baselines), "method": "none", "spacing": "none"}
        rule = self.method if isinstance(self.method, str) else repr(self.method)
        integrated = {"n_steps": method.gradients(self, n_baselines), "method": rule, "spacing": self.spacing}
        return walked | path.describe() | integrated


@dataclass(frozen=True)
class Scores:
    """The scores of some texts by one method.

    Attributes:
        values: A score for each token, shape (B, T), float32 or wider.
        n_gradients: The number of gradients of each text; with ``n_steps="auto"`` that of the last attempt.
        error_percent: The estimated error of each text's scores; None for a method that has no estimate.
    """

    values: Tensor
    n_gradients: tuple[int, ...]
    error_percent: tuple[float, ...] | None = None


class AttributionMethod(ABC):
    """A way to score the tokens of a text. Subclasses implement `scores`.

    Attributes:
        name: The name in tables and files.
        completes: Whether scores add up to the difference of outputs between input and baseline, up to a delta.
        n_gradients: The number of gradients for a text; None for that of the plan.
        draws: Whether it draws at random, from the plan's seed.
        path: The path that it integrates along; None for a method without a path.

    Example:
        >>> class Length(AttributionMethod):
        ...     name = "length"
        ...
        ...     def scores(self, question, plan):
        ...         return question.inputs.norm(dim=-1)
        >>> embeddings = torch.tensor([[[3.0, 4.0], [0.0, 1.0]]])
        >>> fixed = torch.tensor([[False, True]])
        >>> question = Question(torch.nn.Identity(), embeddings, embeddings, torch.tensor([0]), (), fixed)
        >>> Length()(question, Plan())
        tensor([[5., 0.]])
    """

    name: str
    completes: bool = False
    n_gradients: int | None = None
    draws: bool = False
    path: ClassVar[PathGenerator | None] = None

    @reprlib.recursive_repr()
    def __repr__(self) -> str:
        # It tells apart what journals keep apart: without an address, and with all contents of a tensor.
        return described(self)

    @abstractmethod
    def scores(self, question: Question, plan: Plan) -> Tensor:
        """Score the tokens, shape (B, T); `plan.n_steps` is a number here."""

    def estimated(self, question: Question, plan: Plan) -> tuple[Tensor, Tensor | None]:
        """Score the tokens, (B, T), and estimate the error of each text's scores in percent, (B,), if there is one."""
        return self.scores(question, plan), None

    def attributions(self, question: Question, plan: Plan) -> Tensor | None:  # noqa: ARG002 - by default there are none
        """Score every dimension of the embeddings, shape (B, T, D); None for a method that scores tokens only."""
        return None

    def gradients(self, plan: Plan, n_baselines: int = 1) -> int:
        """Return the number of gradients of a text; with ``n_steps="auto"`` that of the first attempt.

        Raises:
            ValueError: If there are fewer gradients than paths.
        """
        if self.n_gradients is not None:
            return self.n_gradients * n_baselines
        return plan.first(n_baselines * (1 if self.path is None else self.path.n_paths))

    @final
    def __call__(self, question: Question, plan: Plan) -> Tensor:
        """Score the tokens and check what the subclass returned.

        Args:
            question: The texts and the number to explain.
            plan: How to integrate; with ``"auto"`` the first number of gradients is taken. `score` doubles it.

        Returns:
            Scores, shape (B, T), float32 or wider, 0 for fixed tokens. A higher score means a larger contribution to
            the explained number.

        Raises:
            ModelError: If the scores are of another shape, or not finite.
        """
        return self.measured(question, plan)[0]

    @final
    def measured(self, question: Question, plan: Plan) -> tuple[Tensor, Tensor | None]:
        """Score the tokens as a call does, and estimate the error of each text's scores.

        Args:
            question: The texts and the number to explain.
            plan: How to integrate.

        Returns:
            Scores, shape (B, T), and the estimates in percent, shape (B,); None for a method without an estimate.

        Raises:
            ModelError: If the scores are of another shape, or not finite.
        """
        resolved = replace(plan, n_steps=max(1, self.gradients(plan))) if plan.n_steps == "auto" else plan
        scores, errors = self.estimated(question, resolved)
        if scores.shape != question.fixed.shape:
            raise ModelError(
                f"{self.name} must score every token, shape {tuple(question.fixed.shape)}, "
                f"got {tuple(scores.shape)}; sum over the dimensions of an embedding"
            )
        if not bool(scores.isfinite().all()):
            raise ModelError(f"{self.name} must give finite scores, got NaN or infinity; leave it out for this model")
        return scores.detach().masked_fill(question.fixed, 0), errors


def score(method: AttributionMethod, questions: Sequence[Question], plan: Plan) -> Scores:
    """Score the same texts from one or several baselines.

    Baselines share the gradients, like the paths of an ensemble, and their scores are averaged. With ``n_steps="auto"``
    texts whose scores do not add up, or have a larger estimated error than the tolerance, are scored again with twice
    as many gradients, from scratch.

    Args:
        method: The method.
        questions: The same texts from each baseline.
        plan: How to integrate.

    Returns:
        The mean scores.

    Raises:
        ValueError: If there are fewer gradients than paths.
        ModelError: As in `AttributionMethod`.
    """
    n_baselines, inputs = len(questions), questions[0].inputs
    n_steps = method.gradients(plan, n_baselines)
    doubles = plan.n_steps == "auto" and method.completes and method.n_gradients is None
    changes = torch.stack([q.changes(plan.rows_at_once) for q in questions]).mean(dim=0) if doubles else None
    values = torch.zeros(inputs.shape[:2], dtype=torch.promote_types(inputs.dtype, torch.float32), device=inputs.device)
    taken = [n_steps] * len(inputs)
    errors: Tensor | None = None
    left = torch.arange(len(inputs), device=inputs.device)
    while True:
        for rows in left.split(max(1, _TOGETHER // inputs[0].numel())):
            each = []
            for number, question in enumerate(questions):
                share = n_steps // n_baselines + (number < n_steps % n_baselines)
                each.append(method.measured(question.take(rows), replace(plan, n_steps=max(1, share))))
            values[rows] = torch.stack([scores for scores, _ in each]).mean(dim=0).to(values.dtype)
            estimates = [error for _, error in each if error is not None]
            if estimates:
                errors = values.new_zeros(len(inputs)) if errors is None else errors
                errors[rows] = torch.stack(estimates).mean(dim=0).to(values.dtype)
        for row in left.tolist():
            taken[row] = n_steps
        if changes is None or 2 * n_steps > plan.max_steps:
            break
        # Known sums always add up: their estimate decides.
        deltas = (values[left].sum(dim=1) - changes[left]).abs()
        far = deltas > plan.tolerance_percent / 100 * changes[left].abs()
        left = left[far if errors is None else errors[left] > plan.tolerance_percent]
        if not len(left):
            break
        n_steps *= 2
    return Scores(values, tuple(taken), None if errors is None else tuple(errors.tolist()))
