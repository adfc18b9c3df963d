"""AttributionMethod: a way to score the tokens of a text, and the plan that it follows.

Takes a `Question` and a `Plan`; gives a score for each token. `captum_dig.methods.scoring` calls it.
"""

import reprlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, NamedTuple, final

from torch import Tensor

from captum_dig.checks import at_least_one
from captum_dig.errors import ModelError
from captum_dig.models.question import Question
from captum_dig.paths import PathGenerator
from captum_dig.paths.naming import described
from captum_dig.quadrature import QuadratureRule, Spacing, check_method, check_spacing

# The number of gradients that n_steps="auto" begins with, unless a method needs fewer.
_FIRST_STEPS = 48


@dataclass(frozen=True)
class Plan:
    """How to integrate: the number of gradients, the rule, and the condition to stop.

    Attributes:
        n_steps: Gradients for each text. With ``"auto"``, 24 or 48, then more until the scores are within the
            tolerances.
        method: The quadrature rule.
        spacing: As in `DiscretizedIntegratedGradients`.
        tolerance_percent: For ``"auto"``: the largest estimated error of the integration, in percent of the scores'
            sizes, above 0. For a rule without an estimate it is the largest delta, in percent of the difference of
            outputs.
        spread_percent: For ``"auto"`` and paths that draw their orders: the largest standard error over the draws, in
            percent of the scores' sizes, above 0.
        max_steps: For ``"auto"``: the largest number of gradients.
        rows_at_once: The largest number of rows, texts times steps, for the model at once. It changes speed and memory
            only.
        seed: For methods that draw at random.

    Raises:
        ValueError: If a name is unknown or a number is too low.

    Example:
        >>> Plan("auto").first(n_needed=4), Plan(12).first(n_needed=4)
        (48, 12)
    """

    n_steps: int | Literal["auto"] = 50
    method: str | QuadratureRule = "known_sums"
    spacing: Spacing = "arc"
    tolerance_percent: float = 15.0
    spread_percent: float = 20.0
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
        for name in ("tolerance_percent", "spread_percent"):
            value = getattr(self, name)
            if not (isinstance(value, int | float) and value > 0):
                raise ValueError(f"{name} must be a positive number, got {value!r}")
        check_method(self.method)
        check_spacing(self.spacing)

    def first(self, n_needed: int, n_wanted: int = _FIRST_STEPS) -> int:
        """Return the number of gradients to begin with.

        Args:
            n_needed: The smallest number: one for each path from each baseline.
            n_wanted: For ``"auto"``: the number to begin with, if it is allowed.

        Raises:
            ValueError: If there are too few.
        """
        name, most = ("max_steps", self.max_steps) if self.n_steps == "auto" else ("n_steps", int(self.n_steps))
        if most < n_needed:
            raise ValueError(
                f"{name} must be at least {n_needed}, one for each path from each baseline, got {most}; "
                "take more, fewer baselines, or strategy='straight_line'"
            )
        return min(max(n_wanted, n_needed), most) if self.n_steps == "auto" else most

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


class Measured(NamedTuple):
    """The scores of a batch, and how far to trust them.

    Attributes:
        scores: A score for each token, shape (B, T).
        error_percent: The estimated error of the integration of each text, shape (B,); None without an estimate.
        draws: The scores along each independent draw of the path, shape (G, B, T); None for a method without draws.
        n_gradients: The number of gradients of each text; None for that of the plan.
        integration_errors: The estimated error of the integration of each token, shape (B, T); None without an
            estimate.
    """

    scores: Tensor
    error_percent: Tensor | None = None
    draws: Tensor | None = None
    n_gradients: int | None = None
    integration_errors: Tensor | None = None


class AttributionMethod(ABC):
    """A way to score the tokens of a text. Subclasses implement `scores`.

    Attributes:
        name: The name in tables and files.
        completes: Whether scores add up to the difference of outputs between input and baseline, up to a delta.
        n_gradients: The number of gradients for a text; None for that of the plan.
        draws: Whether it draws at random, from the plan's seed.
        path: The path that it integrates along; None for a method without a path.

    Example:
        >>> import torch
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

    def estimated(self, question: Question, plan: Plan) -> Measured:
        """Score the tokens, and say how far to trust the scores; by default nothing is said."""
        return Measured(self.scores(question, plan))

    def attempts(self, question: Question, plan: Plan) -> Iterator[Measured]:
        """Yield better and better scores, for ``n_steps="auto"``; by default with twice as many gradients each time.

        Args:
            question: The texts and the number to explain.
            plan: How to integrate; `n_steps` is the number to begin with. No attempt takes more than `max_steps`.
        """
        n_steps = int(plan.n_steps)
        while n_steps <= plan.max_steps:
            yield self.measured(question, replace(plan, n_steps=n_steps))._replace(n_gradients=n_steps)
            n_steps *= 2

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
        return plan.first(n_baselines * (1 if self.path is None else self.path.n_paths), self.first_steps(plan))

    def first_steps(self, plan: Plan) -> int:  # noqa: ARG002 - the same for each
        """Return the number of gradients that ``n_steps="auto"`` begins with; by default 48."""
        return _FIRST_STEPS

    @final
    def __call__(self, question: Question, plan: Plan) -> Tensor:
        """Score the tokens and check what the subclass returned.

        Args:
            question: The texts and the number to explain.
            plan: How to integrate; with ``"auto"`` the first number of gradients is taken. `score` takes more.

        Returns:
            Scores, shape (B, T), float32 or wider, 0 for fixed tokens. A higher score means a larger contribution to
            the explained number.

        Raises:
            ModelError: If the scores are of another shape, or not finite.
        """
        return self.measured(question, plan).scores

    @final
    def measured(self, question: Question, plan: Plan) -> Measured:
        """Score the tokens as a call does, and say how far to trust the scores.

        Args:
            question: The texts and the number to explain.
            plan: How to integrate.

        Returns:
            Scores, shape (B, T), and estimates of their errors, where the method has some.

        Raises:
            ModelError: If the scores are of another shape, or not finite.
        """
        resolved = replace(plan, n_steps=max(1, self.gradients(plan))) if plan.n_steps == "auto" else plan
        return self.checked(question, self.estimated(question, resolved))

    @final
    def checked(self, question: Question, found: Measured) -> Measured:
        """Check scores, and set those of fixed tokens to 0.

        Raises:
            ModelError: If the scores are of another shape, or not finite.
        """
        scores = found.scores
        if scores.shape != question.fixed.shape:
            raise ModelError(
                f"{self.name} must score every token, shape {tuple(question.fixed.shape)}, "
                f"got {tuple(scores.shape)}; sum over the dimensions of an embedding"
            )
        if not bool(scores.isfinite().all()):
            raise ModelError(f"{self.name} must give finite scores, got NaN or infinity; leave it out for this model")
        return found._replace(scores=scores.detach().masked_fill(question.fixed, 0))
