"""The contract of `Measure`.

Takes a measure; raises an error if it breaks a promise. For the tests of plug-ins.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn

from captum_dig.methods.along_path import PathMethod
from captum_dig.methods.base import Plan
from captum_dig.methods.leave_one_out import LeaveOneOut
from captum_dig.methods.random import RandomScores
from captum_dig.metrics.measures import Measure, Trial, Trials
from captum_dig.models.question import Question
from captum_dig.paths import MonotonicPath, StraightLine
from captum_dig.testing.contract import ContractError
from captum_dig.vocabulary import Vocabulary


class _Sigmoid(nn.Module):
    """The log-probability, or the logit, of a label that depends on every embedding."""

    def __init__(self, rows: Tensor, *, log: bool) -> None:
        super().__init__()
        self.rows, self.log = rows, log

    def forward(self, embeddings: Tensor, _places: Tensor) -> Tensor:
        logit = torch.tanh(embeddings).sum(dim=(1, 2))
        return nn.functional.logsigmoid(logit) if self.log else logit

    def of_ids(self, ids: Tensor, mask: Tensor) -> Tensor:
        return nn.functional.logsigmoid((torch.tanh(self.rows[ids]) * mask[..., None]).sum(dim=(1, 2)))


def toy_trials() -> Trials:
    """Make trials of four methods on one text, over 30 rows of width 3."""
    generator = torch.Generator("cpu").manual_seed(0)
    rows = torch.randn(30, 3, generator=generator, dtype=torch.float32, device="cpu")
    vocabulary = Vocabulary(rows)
    ids = torch.tensor([1, 5, 9, 12, 20, 2], device="cpu")
    fixed = torch.tensor([[True, False, False, False, False, True]], device="cpu")
    inputs = rows[ids][None]
    baselines = torch.where(fixed[..., None], inputs, rows[0])
    model = _Sigmoid(rows, log=False)
    question = Question(model, inputs, baselines, torch.zeros(1, 1, dtype=torch.int64, device="cpu"), (), fixed)
    plan = Plan(6, seed=3)
    path = MonotonicPath(vocabulary, "greedy", n_anchors=3, n_neighbors=5)
    methods = (
        PathMethod("straight_line", StraightLine()),
        PathMethod("greedy", path),
        LeaveOneOut(),
        RandomScores(),
    )
    change = float(question.changes(rows_at_once=64))
    trials = []
    for method in methods:
        found = method.measured(question, plan)
        error = None if found.error_percent is None else float(found.error_percent)
        trials.append(Trial(method, "row 0", (0,), (question,), plan, found.scores, change, error))
    kinds = {kind: torch.arange(30, device="cpu") % 3 == n for n, kind in enumerate(("special", "unused", "piece"))}
    log = _Sigmoid(rows, log=True)
    return Trials(tuple(trials), ids, 0, (0.2, 0.5), log.of_ids, log, vocabulary, lambda: kinds, 0, {})


def check_measure(measure: Measure, trials: Trials | None = None) -> None:
    """Check every promise of a measure to a comparison.

    - It has a name and a title, and `better` is -1, 0 or 1.
    - It returns the right number of numbers for each trial, none of them infinite.
    - These are the same at every call, and do not depend on the order of the trials.
    - The trials stay unchanged.

    Args:
        measure: The measure.
        trials: The trials to measure; None for four methods on one text.

    Raises:
        ContractError: If a promise is broken; the message says which.

    Example:
        >>> from captum_dig.metrics.measures import KendallTau
        >>> check_measure(KendallTau())
    """
    name = type(measure).__name__
    if not isinstance(measure, Measure):
        raise ContractError(f"{name} must be a Measure; derive it from captum_dig.Measure")
    for attribute in ("name", "title"):
        if not isinstance(getattr(measure, attribute, None), str) or not getattr(measure, attribute):
            raise ContractError(f"{name} must have a {attribute}, a string that is not empty")
    if measure.better not in (-1, 0, 1):
        raise ContractError(f"{name}.better must be -1, 0 or 1, got {measure.better!r}")
    trials = toy_trials() if trials is None else trials
    kept = [trial.scores.clone() for trial in trials.trials]
    found = _numbers(measure, trials)
    if not all(torch.equal(before, trial.scores) for before, trial in zip(kept, trials.trials, strict=True)):
        raise ContractError(f"{name}.values must not change the scores; work on a copy")
    if any(number is not None and any(map(math.isinf, number)) for number in found):
        raise ContractError(f"{name}.values must give finite numbers or NaN, got {found}")
    again = _numbers(measure, replace(trials, known={}))
    if not _same(found, again):
        raise ContractError(f"{name}.values must be the same at every call, got {found} and {again}")
    backwards = _numbers(measure, replace(trials, trials=trials.trials[::-1], known={}))[::-1]
    if not _same(found, backwards):
        raise ContractError(
            f"{name}.values must not depend on the order of the trials, got {found} and {backwards} in reverse"
        )


def _numbers(measure: Measure, trials: Trials) -> list[tuple[float, ...] | None]:
    try:
        return measure(trials)
    except ValueError as error:
        raise ContractError(str(error)) from error


def _same(one: Sequence[tuple[float, ...] | None], other: Sequence[tuple[float, ...] | None]) -> bool:
    return all(
        (a is None) == (b is None) and (a is None or b is None or np.allclose(a, b, 1e-5, 1e-6, equal_nan=True))
        for a, b in zip(one, other, strict=True)
    )
