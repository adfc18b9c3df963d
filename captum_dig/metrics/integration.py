"""Measures of a comparison: the error of each method's integration.

Takes the scores of one text by several methods; gives deltas, estimated errors, and distances from converged scores.
`captum_dig.comparison` calls every chosen measure.
"""

from collections.abc import Sequence
from dataclasses import replace

import torch

from captum_dig.methods.scoring import score
from captum_dig.metrics.accuracy import delta_percent, token_error
from captum_dig.metrics.measures import Measure, Trial, Trials

# The reference of a token error has this many times the gradients.
_CONVERGED = 16


class Delta(Measure):
    """The sum of the scores minus the change of the output."""

    name, title = "delta", "delta"

    def values(self, trials: Trials) -> Sequence[Sequence[float] | None]:
        """Add up the scores of methods that claim to add up."""
        return [(_delta(trial),) if trial.method.completes else None for trial in trials.trials]


class Change(Measure):
    """The explained number at the text minus that at the baseline."""

    name, title = "change", "change of the output"

    def values(self, trials: Trials) -> Sequence[Sequence[float] | None]:
        """Give the change, for methods that claim to add up to it."""
        return [(trial.change,) if trial.method.completes else None for trial in trials.trials]


class DeltaPercent(Measure):
    """|delta| in percent of |change|."""

    name, title, column, better, digits, average = "delta_percent", "delta %", "Δ %", -1, 1, "median"
    about = "Δ %: delta, median."

    def values(self, trials: Trials) -> Sequence[Sequence[float] | None]:
        """Divide delta by change."""
        return [(percent_of_change(trial),) if trial.method.completes else None for trial in trials.trials]


class ErrorPercent(Measure):
    """The estimated error of the integration, in percent of the scores' sizes."""

    name, title, column, better, digits, average = "error_percent", "estimated error %", "err %", -1, 1, "median"
    about = "err %: estimated error of the integration, median."

    def values(self, trials: Trials) -> Sequence[Sequence[float] | None]:
        """Give the estimate, for methods whose quadrature rule makes one."""
        return [None if trial.error_percent is None else (trial.error_percent,) for trial in trials.trials]


class TokenError(Measure):
    """The distance of the scores from those with many times the gradients."""

    name, title, column, better, digits = "token_error", "token error", "error", -1, 3
    about = f"error: distance from the scores with {_CONVERGED} times the gradients."

    def values(self, trials: Trials) -> Sequence[Sequence[float] | None]:
        """Explain again with many gradients."""
        return [self._value(trial) for trial in trials.trials]

    @staticmethod
    def _value(trial: Trial) -> tuple[float] | None:
        if not trial.method.completes or trial.method.n_gradients is not None:
            return None
        many = replace(trial.plan, n_steps=_CONVERGED * int(trial.plan.n_steps))
        return (float(token_error(trial.scores, score(trial.method, trial.questions, many).values.cpu())),)


def _delta(trial: Trial) -> float:
    return float(trial.scores.double().sum()) - trial.change


def percent_of_change(trial: Trial) -> float:
    """Divide the delta of the scores by the change of the output, in percent."""
    delta, change = torch.tensor([[_delta(trial)], [trial.change]], dtype=torch.float64, device="cpu")
    return float(delta_percent(delta, change))
