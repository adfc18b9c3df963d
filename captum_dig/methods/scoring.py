"""score: a method on a batch of texts, from one or several baselines, with as many gradients as it takes.

Takes a method, questions and a plan; gives `Scores`. `captum_dig.text` and `captum_dig.comparison` call it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from captum_dig.attribution.integral import FEWEST_DRAWS, standard_error
from captum_dig.methods.base import AttributionMethod, Measured, Plan
from captum_dig.models.question import Question
from captum_dig.quadrature.schedules import evenly

# Elements of the inputs that are attributed together: the knots of a path may take a hundred times as many.
_TOGETHER = 2**19


@dataclass(frozen=True)
class Scores:
    """The scores of some texts by one method.

    Attributes:
        values: A score for each token, shape (B, T), float32 or wider.
        n_gradients: The number of gradients of each text.
        error_percent: The estimated error of the integration of each text; None for a method that has no estimate.
        draws: For each text the scores along each independent draw of the path, shape (G, T); None for a method that
            has too few to tell their spread.
        integration_errors: For each text the estimated error of the integration of each token, shape (T,); None for a
            method that has no estimate.
        converged: For each text with ``n_steps="auto"``, whether its error and spread came within the tolerances; None
            for a fixed number of gradients.
    """

    values: Tensor
    n_gradients: tuple[int, ...]
    error_percent: tuple[float, ...] | None = None
    draws: tuple[Tensor, ...] | None = None
    integration_errors: tuple[Tensor, ...] | None = None
    converged: tuple[bool, ...] | None = None


def score(method: AttributionMethod, questions: Sequence[Question], plan: Plan) -> Scores:
    """Score the same texts from one or several baselines.

    Baselines share the gradients, like the paths of an ensemble, and their scores are averaged. With ``n_steps="auto"``
    each text takes gradients until its error and its spread are within the tolerances of the plan.

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
    n_steps = method.gradients(plan, len(questions))
    shares = evenly(n_steps, len(questions))
    everyone = torch.arange(len(questions[0].inputs), device=questions[0].inputs.device)
    if plan.n_steps == "auto" and method.completes and method.n_gradients is None:
        found = [_attempted(method, [q.take(row) for q in questions], plan, shares) for row in everyone.split(1)]
        return _joined([one for one, _ in found], tuple(good for _, good in found))
    together = max(1, _TOGETHER // questions[0].inputs[0].numel())
    return _joined(
        [
            _mean(
                [
                    method.measured(question.take(rows), replace(plan, n_steps=max(1, share)))
                    for question, share in zip(questions, shares, strict=True)
                ],
                n_steps,
            )
            for rows in everyone.split(together)
        ]
    )


def spread_percent(draws: Tensor, scores: Tensor) -> float:
    """Return the standard errors of scores over the draws of a path, in percent of the scores' sizes.

    Args:
        draws: The scores along each draw, shape (G, W).
        scores: Their means, shape (W,).

    Returns:
        The sum of the standard errors over the sum of the sizes; 0 for scores of 0.

    Example:
        >>> spread_percent(torch.tensor([[1.0, 2.0], [3.0, 2.0]]), torch.tensor([2.0, 2.0]))
        25.0
    """
    size = float(scores.abs().sum())
    return 100 * float(standard_error(draws).sum()) / size if size else 0.0


def _attempted(
    method: AttributionMethod, questions: list[Question], plan: Plan, shares: list[int]
) -> tuple[Measured, bool]:
    """Take gradients for one text until its scores are good, and tell whether they are."""
    n_steps = sum(shares)
    each = [
        method.attempts(question, replace(plan, n_steps=share, max_steps=plan.max_steps * share // n_steps))
        for question, share in zip(questions, shares, strict=True)
    ]
    change = float(torch.stack([question.changes(plan.rows_at_once) for question in questions]).mean())
    found, good = None, False
    for attempt in zip(*each, strict=False):
        found = _mean(list(attempt))
        good = _within(found, change, questions[0], plan)
        if good:
            break
    if found is None:
        raise ValueError(f"{method.name}.attempts must make an attempt with {n_steps} gradients, got none")
    return found, good


def _within(found: Measured, change: float, question: Question, plan: Plan) -> bool:
    """Whether the error and the spread of one text are within the tolerances."""
    if found.error_percent is None:
        near = abs(float(found.scores.sum()) - change) <= plan.tolerance_percent / 100 * abs(change)
    else:
        near = float(found.error_percent) <= plan.tolerance_percent
    return near and worst_spread_percent(found, question) <= plan.spread_percent


def worst_spread_percent(found: Measured, question: Question) -> float:
    """Return the largest spread of the texts of a question, in percent; 0 where there are too few draws to tell."""
    if found.draws is None or len(found.draws) < FEWEST_DRAWS:
        return 0.0
    return max(
        spread_percent(
            by_word(found.draws[:, row], question.words_of(row)),
            by_word(scores, question.words_of(row)),
        )
        for row, scores in enumerate(found.scores)
    )


def by_word(values: Tensor, words: Tensor | None) -> Tensor:
    """Add up the tokens of each word of one text: shape (..., T) to (..., W).

    Args:
        values: Scores of tokens.
        words: The numbers of their words, shape (T,), -1 where there is none; None where each token is a word.

    Example:
        >>> by_word(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([0, 0, 1]))
        tensor([3., 3.])
    """
    if words is None:
        return values
    numbers = words.to(values.device)
    sums = values.new_zeros(*values.shape[:-1], int(numbers.max()) + 2)
    # Tokens without a word come last, and are left out.
    return sums.index_add_(-1, numbers % sums.shape[-1], values)[..., :-1]


def _mean(each: list[Measured], n_gradients: int | None = None) -> Measured:
    """The mean over baselines."""
    draws = [found.draws for found in each if found.draws is not None and len(found.draws) >= FEWEST_DRAWS]
    same = len(draws) == len(each) and len({len(one) for one in draws}) == 1
    return Measured(
        torch.stack([found.scores for found in each]).mean(dim=0),
        _mean_of_known([found.error_percent for found in each]),
        torch.stack(draws).mean(dim=0) if same else None,
        sum(found.n_gradients or 0 for found in each) if n_gradients is None else n_gradients,
        _mean_of_known([found.integration_errors for found in each]),
    )


def _mean_of_known(values: list[Tensor | None]) -> Tensor | None:
    """The mean of those that are there; None if none is."""
    known = [value for value in values if value is not None]
    return torch.stack(known).mean(dim=0) if known else None


def _joined(parts: list[Measured], converged: tuple[bool, ...] | None = None) -> Scores:
    """The texts of all parts, one behind the other."""
    errors = [part.error_percent for part in parts if part.error_percent is not None]
    draws = [draw for part in parts if part.draws is not None for draw in part.draws.unbind(dim=1)]
    by_token = [row for part in parts if part.integration_errors is not None for row in part.integration_errors]
    return Scores(
        torch.cat([part.scores.to(torch.promote_types(part.scores.dtype, torch.float32)) for part in parts]),
        tuple(part.n_gradients or 0 for part in parts for _ in part.scores),
        tuple(torch.cat(errors).tolist()) if errors else None,
        tuple(draws) or None,
        tuple(by_token) or None,
        converged,
    )
