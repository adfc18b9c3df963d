"""Attribution methods by name: ours and Captum's, asked the same question.

Takes a `Task`, what a classifier answers to some embeddings and where explanations start; gives a score for each token.
`captum_dig.comparison.comparing` sets them side by side.
"""

import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Final, final

import torch
from captum.attr import DeepLift, InputXGradient
from torch import Tensor, nn

from captum_dig.attribution.inputs import DiscretizedIntegratedGradients
from captum_dig.errors import ModelError, at_least_one
from captum_dig.paths import PathGenerator, StraightLine
from captum_dig.quadrature import Spacing, check_method, check_spacing


@dataclass(frozen=True)
class Task:
    """What is to be attributed: the logit of a class, to the embeddings of some texts.

    Attributes:
        model: From embeddings, shape (B, T, D), and the other columns of the input to logits, shape (B, C).
        inputs: Embeddings of the texts, shape (B, T, D).
        baselines: Where explanations start, same shape.
        target: The class to explain of each text, shape (B,).
        columns: What else the model reads, each of shape (B, ...).
        fixed: True for special tokens and padding, which no method scores, shape (B, T).
        words: The number of the word that each token belongs to, shape (B, T), int64 on the CPU, -1 where there is
            none; None where each token is a word.
    """

    model: nn.Module
    inputs: Tensor
    baselines: Tensor
    target: Tensor
    columns: tuple[Tensor, ...]
    fixed: Tensor
    words: Tensor | None = None

    def path(self, path: PathGenerator, rows: Tensor | slice = slice(None)) -> PathGenerator:
        """Tell a path which tokens form words.

        Args:
            path: The path.
            rows: The numbers of some texts; all of them by default.

        Returns:
            The path for these texts.
        """
        if self.words is None:
            return path
        return path.grouped(self.words[rows.cpu() if isinstance(rows, Tensor) else rows])

    def outputs(self, embeddings: Tensor, rows: Tensor, internal_batch_size: int) -> Tensor:
        """Give the logit of the class for other embeddings, without gradient.

        Args:
            embeddings: Shape (N, T, D).
            rows: For each the number of its text, shape (N,).
            internal_batch_size: How many rows the model sees at once.

        Returns:
            Shape (N,), float32.
        """
        parts = []
        with torch.no_grad():
            for some, which in zip(embeddings.split(internal_batch_size), rows.split(internal_batch_size), strict=True):
                logits = self.model(some, *(column[which] for column in self.columns))
                parts.append(logits.gather(1, self.target[which, None])[:, 0].float())
        return torch.cat(parts)


@dataclass(frozen=True)
class Budget:
    """How much a method may spend on a text.

    Attributes:
        n_steps: Gradient evaluations.
        internal_batch_size: How many rows the model sees at once.
        seed: For methods that draw at random.
    """

    n_steps: int = 50
    internal_batch_size: int = 64
    seed: int = 0


class AttributionMethod(ABC):
    """A way to score the tokens of a text. Subclasses implement `scores`.

    Attributes:
        name: What tables and files call it.
        completes: Whether scores add up to the difference of outputs between input and baseline, up to a delta.
        n_gradients: How many gradients it takes for a text; None for as many as the budget has.

    Example:
        >>> class Length(AttributionMethod):
        ...     name = "length"
        ...
        ...     def scores(self, task, budget):
        ...         return task.inputs.norm(dim=-1)
        >>> embeddings = torch.tensor([[[3.0, 4.0], [0.0, 1.0]]])
        >>> task = Task(
        ...     torch.nn.Identity(), embeddings, embeddings, torch.tensor([0]), (), torch.tensor([[False, True]])
        ... )
        >>> Length()(task, Budget())
        tensor([[5., 0.]])
    """

    name: str
    completes: bool = False
    n_gradients: int | None = None

    def __repr__(self) -> str:
        # It tells apart what journals keep apart.
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"

    @abstractmethod
    def scores(self, task: Task, budget: Budget) -> Tensor:
        """Score the tokens, shape (B, T)."""

    @final
    def __call__(self, task: Task, budget: Budget) -> Tensor:
        """Score the tokens and check what the subclass returned.

        Args:
            task: What to explain.
            budget: How much to spend.

        Returns:
            Scores, shape (B, T), float32 or wider, 0 for tokens that are not scored; higher speaks more for the class.

        Raises:
            ModelError: If the scores are of another shape, or not finite.
        """
        scores = self.scores(task, budget)
        if scores.shape != task.fixed.shape:
            raise ModelError(
                f"{self.name} must score every token, shape {tuple(task.fixed.shape)}, got {tuple(scores.shape)}; "
                "sum over the dimensions of an embedding"
            )
        if not bool(scores.isfinite().all()):
            raise ModelError(f"{self.name} must give finite scores, got NaN or infinity; leave it out for this model")
        return scores.detach().masked_fill(task.fixed, 0)


@dataclass(frozen=True)
class PathMethod(AttributionMethod):
    """Integrated gradients along a path.

    Attributes:
        name: What tables call it.
        path: The path.
        method: The quadrature rule.
        spacing: As in `DiscretizedIntegratedGradients`.
        n_gradients: How many gradients it takes for a text; None for as many as the budget has.
    """

    name: str
    path: PathGenerator
    method: str = "gausslegendre"
    spacing: Spacing = "arc"
    n_gradients: int | None = None
    completes: bool = True

    def __post_init__(self) -> None:
        check_method(self.method)
        check_spacing(self.spacing)
        if self.n_gradients is not None:
            at_least_one("n_gradients", self.n_gradients)

    def scores(self, task: Task, budget: Budget) -> Tensor:
        """Attribute along the path."""
        dig = DiscretizedIntegratedGradients(task.model, task.path(self.path), spacing=self.spacing)
        attributions: Tensor = dig.attribute(
            task.inputs,
            task.baselines,
            target=task.target,
            additional_forward_args=task.columns,
            n_steps=self.n_gradients or budget.n_steps,
            method=self.method,
            internal_batch_size=max(budget.internal_batch_size, len(task.inputs)),
        )
        return attributions.sum(dim=-1)


class CaptumInputXGradient(AttributionMethod):
    """Captum's `InputXGradient`: one gradient, no baseline."""

    name = "input_x_gradient"
    n_gradients = 1

    def scores(self, task: Task, budget: Budget) -> Tensor:  # noqa: ARG002
        """Multiply embeddings by the gradient at them."""
        method = InputXGradient(task.model)
        attributions: Tensor = method.attribute(
            _leaf(task.inputs), target=task.target, additional_forward_args=task.columns or None
        )
        return attributions.sum(dim=-1)


class CaptumDeepLift(AttributionMethod):
    """Captum's `DeepLift`: one backward pass with altered rules for non-linear modules.

    Functions that are no modules (a transformer's attention among them) keep their gradients, so that scores need not
    add up.
    """

    name = "deeplift"
    completes = True
    n_gradients = 1

    def scores(self, task: Task, budget: Budget) -> Tensor:  # noqa: ARG002
        """Propagate the difference from the baselines."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Setting forward, backward hooks")
            method: Any = DeepLift(task.model)
            try:
                attributions: Tensor = method.attribute(
                    _leaf(task.inputs),
                    _leaf(task.baselines),
                    target=task.target,
                    additional_forward_args=task.columns or None,
                )
            except (AssertionError, RuntimeError, ValueError) as error:
                # A module that runs twice, a model that reads one row at a time: its rules have no place there.
                reason = str(error).partition("\n")[0]
                raise ModelError(
                    f"deeplift must be possible for the model, got {reason!r}; leave it out of the methods"
                ) from error
        return attributions.sum(dim=-1)


class GradientShap(AttributionMethod):
    """Gradients at random points of the straight line, averaged, times the way.

    This is Captum's `GradientShap` with one baseline and no noise; its own draws cannot be seeded, and ask for every
    gradient at once.
    """

    name = "gradient_shap"
    completes = True

    def scores(self, task: Task, budget: Budget) -> Tensor:
        """Average over as many points as there are gradients, the same places for every text."""
        generator = torch.Generator("cpu").manual_seed(budget.seed)
        places = torch.rand(budget.n_steps, generator=generator, dtype=torch.float32, device="cpu")
        ways = task.inputs - task.baselines
        total = torch.zeros_like(ways, dtype=torch.promote_types(ways.dtype, torch.float32))
        n_texts = len(ways)
        for some in places.to(ways).split(max(1, budget.internal_batch_size // n_texts)):
            points = (task.baselines + some[:, None, None, None] * ways).flatten(0, 1).requires_grad_()
            columns = (column.repeat(len(some), *[1] * (column.dim() - 1)) for column in task.columns)
            logits = task.model(points, *columns).gather(1, task.target.repeat(len(some))[:, None])
            (gradient,) = torch.autograd.grad(logits.sum(), points)
            total += gradient.unflatten(0, (len(some), n_texts)).sum(dim=0)
        return (total / budget.n_steps * ways).sum(dim=-1)


class LeaveOneOut(AttributionMethod):
    """What the logit loses when one token alone stands at the baseline.

    Attributing along paths that move one token at a time from such a text (sequential Integrated Gradients) gives the
    same scores.
    """

    name = "leave_one_out"
    n_gradients = 0

    def scores(self, task: Task, budget: Budget) -> Tensor:
        """Put each token at its baseline in turn."""
        row, place = (~task.fixed).nonzero(as_tuple=True)
        scores = task.inputs.new_zeros(task.fixed.shape, dtype=torch.float32)
        if len(row):
            without = task.inputs[row]
            numbers = torch.arange(len(row), device=row.device)
            without[numbers, place] = task.baselines[row, place]
            whole = torch.arange(len(task.inputs), device=row.device)
            at_input = task.outputs(task.inputs, whole, budget.internal_batch_size)
            scores[row, place] = at_input[row] - task.outputs(without, row, budget.internal_batch_size)
        return scores


class RandomScores(AttributionMethod):
    """Scores drawn at random: what a ranking is worth that knows nothing."""

    name = "random"
    n_gradients = 0

    def scores(self, task: Task, budget: Budget) -> Tensor:
        """Draw from [0, 1)."""
        generator = torch.Generator("cpu").manual_seed(budget.seed)
        scores = torch.rand(task.fixed.shape, generator=generator, dtype=torch.float32, device="cpu")
        return scores.to(task.inputs.device)


def _leaf(tensor: Tensor) -> Tensor:
    """A copy that may require gradients; Captum warns where it has to ask for them itself."""
    return tensor.detach().clone().requires_grad_()


# Besides these there are paths, which need a vocabulary.
METHODS: Final[dict[str, AttributionMethod]] = {
    method.name: method
    for method in (
        CaptumInputXGradient(),
        CaptumDeepLift(),
        GradientShap(),
        PathMethod("integrated_gradients", StraightLine()),
        LeaveOneOut(),
        RandomScores(),
    )
}
