"""The contract of `AttributionMethod`.

Takes a method; raises an error if it breaks a promise. For the tests of plug-ins.
"""

import torch
from torch import Tensor, nn

from captum_dig.errors import ModelError
from captum_dig.methods.base import AttributionMethod, Plan
from captum_dig.models.question import Question
from captum_dig.testing.contract import ContractError, must_be_close, must_be_equal
from captum_dig.vocabulary import Vocabulary

_TOLERANCE = 1e-5


class _Smooth(nn.Module):
    """A smooth function of the embeddings; places and a column scale it."""

    def __init__(self, dim: int, *, linear: bool) -> None:
        super().__init__()
        self.linear = linear
        # Frequencies below 1: few gradients are enough.
        self.direction = torch.cos(torch.arange(dim, dtype=torch.float32, device="cpu") * 2 + 1) / dim

    def forward(self, embeddings: Tensor, places: Tensor, scale: Tensor) -> Tensor:
        total = (embeddings * self.direction).sum(dim=(1, 2)) * scale[:, 0] * (1 + places[:, 0])
        return total if self.linear else torch.sin(total)


def toy_question(
    n_texts: int = 3,
    n_tokens: int = 5,
    dim: int = 4,
    *,
    vocabulary: Vocabulary | None = None,
    linear: bool = False,
) -> Question:
    """Make a question about a small smooth function, with special tokens, padding and a column of its own.

    Args:
        n_texts: B, at least 2.
        n_tokens: T, at least 3.
        dim: D, without a vocabulary.
        vocabulary: Rows to take words from; None for words that are drawn.
        linear: Whether the function is linear in the embeddings.

    Returns:
        The question, the same at every call.
    """
    generator = torch.Generator("cpu").manual_seed(0)
    shape = (n_texts, n_tokens, dim)
    if vocabulary is None:
        inputs = torch.randn(shape, generator=generator, dtype=torch.float32, device="cpu")
        baselines = torch.randn(shape, generator=generator, dtype=torch.float32, device="cpu")
    else:
        ids = torch.randint(len(vocabulary), shape[:2], generator=generator, dtype=torch.int64, device="cpu")
        inputs = vocabulary.rows[ids]
        baselines = vocabulary.rows[0].expand_as(inputs)
    fixed = torch.zeros(shape[:2], dtype=torch.bool, device="cpu")
    fixed[:, 0] = True
    fixed[1, -1] = True
    lengths = torch.full((n_texts,), n_tokens, dtype=torch.int64, device="cpu")
    lengths[1] = n_tokens - 1
    numbers = torch.arange(n_texts, dtype=torch.float32, device="cpu")[:, None]
    return Question(
        _Smooth(inputs.shape[-1], linear=linear),
        inputs,
        torch.where(fixed[..., None], inputs, baselines),
        numbers.to(torch.int64) % 2,
        (1 + numbers / n_texts,),
        fixed,
        lengths=lengths,
    )


def check_method(method: AttributionMethod, question: Question | None = None, *, n_steps: int = 32) -> None:
    """Check every promise of an attribution method to explanations and comparisons.

    - Its scores have the right shape and are finite.
    - They are the same at every call, and those of a text the same in every batch.
    - The question stays unchanged.
    - If the method claims `completes`, scores of a linear function add up.

    Args:
        method: The method.
        question: Something to explain, at least two texts; None for a small smooth function of
            the words that the method's path goes over.
        n_steps: Gradients for each text.

    Raises:
        ContractError: If a promise is broken; the message says which.

    Example:
        >>> from captum_dig.methods.leave_one_out import LeaveOneOut
        >>> check_method(LeaveOneOut())
    """
    name = type(method).__name__
    if not isinstance(method, AttributionMethod):
        raise ContractError(f"{name} must be an AttributionMethod; derive it from captum_dig.AttributionMethod")
    if type(method).__call__ is not AttributionMethod.__call__:
        raise ContractError(f"{name} must leave __call__ alone, which checks the scores; write scores instead")
    if not isinstance(getattr(method, "name", None), str) or not method.name:
        raise ContractError(f"{name} must have a name, a string that is not empty")
    vocabulary = None if method.path is None else method.path.vocabulary
    question = toy_question(vocabulary=vocabulary) if question is None else question
    plan = Plan(n_steps, rows_at_once=7)
    kept = [tensor.clone() for tensor in (question.inputs, question.baselines, *question.arguments)]
    scores = _scores(method, question, plan)
    for before, after in zip(kept, (question.inputs, question.baselines, *question.arguments), strict=True):
        must_be_equal(f"{name}.scores must not change the question; work on a copy", before, after)
    must_be_equal(
        f"{name}.scores must be the same at every call; draw random numbers from plan.seed",
        scores,
        _scores(method, question, plan),
    )
    for row in range(len(question.inputs)):
        alone = _scores(method, question.take(torch.tensor([row], device=question.inputs.device)), plan)
        must_be_close(
            f"{name}.scores must not let other texts change the scores of a text", alone[0], scores[row], 1e-4
        )
    if method.completes:
        linear = toy_question(vocabulary=vocabulary, linear=True)
        found = _scores(method, linear, plan).sum(dim=1)
        must_be_close(
            f"{name} claims completes = True, so its scores of a linear function must add up to the change",
            found,
            linear.changes(rows_at_once=64),
            _TOLERANCE * n_steps,
        )


def _scores(method: AttributionMethod, question: Question, plan: Plan) -> Tensor:
    try:
        return method(question, plan)
    except ModelError as error:
        raise ContractError(f"{type(method).__name__}: {error}") from error
