"""Measure: one number of a comparison, and how tables show it.

Takes the scores of one text by several methods, and the model; gives a number for each method. The pure functions of
`captum_dig.metrics` do the arithmetic. `captum_dig.comparison` calls every chosen measure.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, final

import torch
from torch import Tensor, nn

from captum_dig.catalogue import Entry
from captum_dig.errors import CaptumDigError
from captum_dig.methods.base import AttributionMethod, Plan
from captum_dig.metrics.agreement import kendall_tau
from captum_dig.metrics.faithfulness import (
    ForwardFunction,
    Protocol,
    TokenBatch,
    comprehensiveness,
    log_odds,
    sufficiency,
)
from captum_dig.metrics.robustness import infidelity, sensitivity
from captum_dig.metrics.soft import soft_comprehensiveness, soft_sufficiency
from captum_dig.metrics.words import anchor_shares, word_approximation_error
from captum_dig.models.question import Question
from captum_dig.vocabulary import Vocabulary


@dataclass(frozen=True)
class Trial:
    """The scores of one text by one method from one baseline.

    Attributes:
        method: The method.
        baseline: The name of the baseline.
        baseline_ids: The rows of the baseline; several are averaged.
        questions: The question, a batch of one text, from each of these rows.
        plan: How the method integrated.
        scores: A score for each token, shape (1, T), on the CPU.
        change: The explained number at the text minus that at the baseline.
        error_percent: The estimated error of the integration, in percent of the scores' sizes; None without one.
    """

    method: AttributionMethod
    baseline: str
    baseline_ids: tuple[int, ...]
    questions: tuple[Question, ...]
    plan: Plan
    scores: Tensor
    change: float
    error_percent: float | None = None

    @property
    def question(self) -> Question:
        """The question from the first baseline."""
        return self.questions[0]


@dataclass(frozen=True)
class Trials:
    """All trials of one text, and the model to measure them on.

    Attributes:
        trials: The trials; they explain the same number of the same text.
        input_ids: The tokens, shape (T,), int64 on the CPU.
        pad_id: The row that replaces a removed token.
        top_fractions: Shares of tokens to remove, in (0, 1].
        log_probability: A function from token ids and attention masks, shape (N, T) each, to log-probabilities of the
            explained number, shape (N,); None if the task has no probability.
        soft_log_probability: A module from embeddings, places and columns, as the `forward` of a question, to
            log-probabilities; None if the task has no probability.
        vocabulary: The rows of the embedding layer.
        row_kinds: A mask of shape (V,) for each kind of row.
        seed: For measures that draw at random.
        known: A cache of numbers that a word has in every text.
        deletes: Whether tokens may be deleted; else padding takes their place, because the number depends on positions.
    """

    trials: tuple[Trial, ...]
    input_ids: Tensor
    pad_id: int
    top_fractions: tuple[float, ...]
    log_probability: ForwardFunction | None
    soft_log_probability: nn.Module | None
    vocabulary: Vocabulary
    row_kinds: Callable[[], Mapping[str, Tensor]]
    seed: int
    known: dict[tuple[Any, ...], float]
    deletes: bool = True

    @property
    def fixed(self) -> Tensor:
        """True for tokens that no method scores, shape (1, T), on the CPU."""
        return self.trials[0].question.fixed.cpu()

    def batch(self, n_copies: int) -> TokenBatch:
        """Repeat the text as token ids, on the device of the model."""
        device = self.trials[0].question.inputs.device
        ids = self.input_ids[None].to(device).repeat(n_copies, 1)
        return TokenBatch(ids, torch.ones_like(ids), self.fixed.to(device).repeat(n_copies, 1), self.pad_id)

    def stacked(self) -> Tensor:
        """The scores of all trials, shape (N, T), on the device of the model."""
        return torch.cat([trial.scores for trial in self.trials]).to(self.trials[0].question.inputs.device)


class Measure(ABC):
    """A number of a comparison. Subclasses implement `values`.

    Attributes:
        name: The name in files.
        title: The heading in reports.
        better: 1 if a higher number is better, -1 if a lower one is, 0 if neither.
        by_fraction: Whether there is one number for each top fraction.
        average: ``"mean"``, or ``"median"`` for ratios, which get no interval and no test.
        column: The heading in the terminal's table; empty for no column there.
        digits: Decimals in that column.
        about: One sentence for the legend.

    Example:
        >>> class Largest(Measure):
        ...     name = title = column = "largest"
        ...
        ...     def values(self, trials):
        ...         return [(float(trial.scores.max()),) for trial in trials.trials]
        >>> Largest().by_fraction
        False
    """

    name: str
    title: str
    better: int = 0
    by_fraction: bool = False
    average: str = "mean"
    column: str = ""
    digits: int = 2
    about: str = ""

    @abstractmethod
    def values(self, trials: Trials) -> Sequence[Sequence[float] | None]:
        """Measure the trials: for each its numbers, or None where it has none."""

    @final
    def __call__(self, trials: Trials) -> list[tuple[float, ...] | None]:
        """Measure the trials and check what the subclass returned.

        Args:
            trials: The trials of one text.

        Returns:
            For each trial one number, or one for each top fraction; None where it has none.

        Raises:
            ValueError: If the subclass returned something else.
        """
        found = self.values(trials)
        expected = len(trials.top_fractions) if self.by_fraction else 1
        numbers = [None if one is None else tuple(float(number) for number in one) for one in found]
        if len(numbers) != len(trials.trials) or any(one is not None and len(one) != expected for one in numbers):
            raise ValueError(
                f"{type(self).__name__}.values must return {expected} numbers, or None, for each of the "
                f"{len(trials.trials)} trials, got {numbers}"
            )
        return numbers


class _Faithfulness(Measure):
    """A metric of token ids, by a protocol. All trials are measured at once, and equal sentences are run once."""

    by_fraction = True
    metric: ClassVar[Callable[..., Tensor]]

    def __init__(self, protocol: Protocol = "default") -> None:
        self._protocol: Protocol = protocol
        if protocol == "paper":
            self.name, self.title = f"paper_{self.name}", f"{self.title}, paper's protocol"

    def values(self, trials: Trials) -> Sequence[Sequence[float] | None]:
        if trials.log_probability is None:
            return [None] * len(trials.trials)
        replaced: dict[str, Any] = {} if trials.deletes else {"removal": "pad"}
        columns = [
            type(self)
            .metric(
                trials.log_probability,
                trials.batch(len(trials.trials)),
                trials.stacked(),
                top_fraction=fraction,
                protocol=self._protocol,
                batch_size=trials.trials[0].plan.rows_at_once,
                **replaced,
            )
            .tolist()
            for fraction in trials.top_fractions
        ]
        return list(zip(*columns, strict=True))


class LogOdds(_Faithfulness):
    """The change of the log-probability when the top tokens are replaced."""

    name, title, column, better = "log_odds", "log-odds", "log-odds", -1
    metric = log_odds


class Comprehensiveness(_Faithfulness):
    """The fall of the probability without the top tokens."""

    name, title, column, better = "comprehensiveness", "comprehensiveness", "comp.", 1
    metric = comprehensiveness


class Sufficiency(_Faithfulness):
    """The fall of the probability with the top tokens alone."""

    name, title, column, better = "sufficiency", "sufficiency", "suff.", -1
    metric = sufficiency


class KendallTau(Measure):
    """Rank correlation with leave-one-out from the same baseline, if it is among the methods."""

    name, title, column, better = "kendall_tau", "tau with leave-one-out", "tau", 1
    about = "tau: rank correlation with leave-one-out."

    def values(self, trials: Trials) -> Sequence[Sequence[float] | None]:
        """Compare the scores of every trial with those of leave-one-out."""
        others = {trial.baseline: trial.scores for trial in trials.trials if trial.method.name == "leave_one_out"}
        ids = torch.ones_like(trials.fixed, dtype=torch.int64)
        batch = TokenBatch(ids, ids, trials.fixed, pad_id=0)
        return [
            (float(kendall_tau(trial.scores, others[trial.baseline], batch)),) if trial.baseline in others else None
            for trial in trials.trials
        ]


class WordApproximationError(Measure):
    """The distance of the path from real words, for paths on which no word depends on the others."""

    name, title, column, better, digits = "word_approximation_error", "WAE", "WAE", -1, 2
    about = "WAE: distance of the path from words."

    def values(self, trials: Trials) -> Sequence[Sequence[float] | None]:
        """Average over the tokens that move."""

        def ways(trial: Trial, ids: Tensor) -> Tensor | None:
            rows = trials.vocabulary.rows[ids]
            goals = trials.vocabulary.rows[[trial.baseline_ids[0]]].expand_as(rows)
            knots = None if trial.method.path is None else trial.method.path.ways(rows, goals)
            return None if knots is None else word_approximation_error(knots[:, :, None], trials.vocabulary)

        return _mean_over_words(self.name, trials, ways)


class AnchorShare(Measure):
    """The share of one kind of row among the words that a path passes."""

    def __init__(self, kind: str, title: str) -> None:
        self.name, self.title, self._kind = f"{kind}_anchors", title, kind

    def values(self, trials: Trials) -> Sequence[Sequence[float] | None]:
        """Average over the tokens that move."""

        def shares(trial: Trial, ids: Tensor) -> Tensor | None:
            path = trial.method.path
            passed = None if path is None else path.passed_words(ids, trial.baseline_ids[0])
            return None if passed is None else anchor_shares(passed, trials.row_kinds())[self._kind]

        return _mean_over_words(self.name, trials, shares)


class _Soft(Measure):
    """A metric that removes parts of every embedding."""

    metric: ClassVar[Callable[..., Tensor]]

    def values(self, trials: Trials) -> Sequence[Sequence[float] | None]:
        model = trials.soft_log_probability
        if model is None:
            return [None] * len(trials.trials)
        question = trials.trials[0].question

        def forward(embeddings: Tensor, _mask: Tensor) -> Tensor:
            arguments = (column.expand(len(embeddings), *column.shape[1:]) for column in question.arguments)
            found: Tensor = model(embeddings, *arguments)
            return found

        ones = torch.ones_like(question.fixed, dtype=torch.int64)
        return [
            (
                float(
                    type(self).metric(
                        forward,
                        question.inputs,
                        ones,
                        trial.scores.to(question.inputs.device),
                        question.fixed,
                        seed=trials.seed,
                    )
                ),
            )
            for trial in trials.trials
        ]


class SoftComprehensiveness(_Soft):
    """The fall of the probability when high-scoring tokens lose most of their embedding."""

    name, title, column, better = "soft_comprehensiveness", "soft comprehensiveness", "soft comp.", 1
    metric = soft_comprehensiveness


class SoftSufficiency(_Soft):
    """The fall of the probability when low-scoring tokens lose most of their embedding."""

    name, title, column, better = "soft_sufficiency", "soft sufficiency", "soft suff.", -1
    metric = soft_sufficiency


class Infidelity(Measure):
    """Captum's infidelity under small noise, for methods that score every dimension."""

    name, title, column, better = "infidelity", "infidelity", "infid.", -1

    def values(self, trials: Trials) -> Sequence[Sequence[float] | None]:
        """Disturb the embeddings, the same way for every method."""
        return [self._value(trial, trials.seed) for trial in trials.trials]

    def _value(self, trial: Trial, seed: int) -> tuple[float] | None:
        question = trial.question
        attributions = trial.method.attributions(question, trial.plan) if len(trial.questions) == 1 else None
        if attributions is None:
            return None
        found = infidelity(
            question.forward,
            question.inputs,
            attributions.to(question.inputs.dtype),
            question.fixed,
            None,
            question.baselines,
            additional_forward_args=question.arguments,
            seed=seed,
        )
        return (float(found),)


class Sensitivity(Measure):
    """Captum's largest sensitivity of the scores under small noise."""

    name, title, column, better = "sensitivity", "sensitivity", "sensit.", -1

    def values(self, trials: Trials) -> Sequence[Sequence[float] | None]:
        """Disturb the embeddings and explain again."""
        return [self._value(trial, trials.seed) for trial in trials.trials]

    def _value(self, trial: Trial, seed: int) -> tuple[float]:
        def explain(embeddings: Tensor) -> Tensor:
            moved = torch.where(trial.question.fixed[..., None], trial.question.inputs, embeddings)
            asked = replace(trial.question, inputs=moved, at_input=None)
            return trial.method(asked, trial.plan)[..., None]

        try:
            return (float(sensitivity(explain, trial.question.inputs, trial.question.fixed, seed=seed)),)
        except CaptumDigError:
            # A path through words cannot start from noise.
            return (math.nan,)


def _mean_over_words(
    name: str, trials: Trials, measure: Callable[[Trial, Tensor], Tensor | None]
) -> list[tuple[float] | None]:
    """Average numbers of single words over the moving tokens; a word has the same number in every text."""
    words = [i for i, mark in zip(trials.input_ids.tolist(), trials.fixed[0].tolist(), strict=True) if not mark]
    found: list[tuple[float] | None] = []
    for trial in trials.trials:
        key = (name, trial.method.path, trial.baseline_ids)
        moving = [] if len(trial.baseline_ids) > 1 else [i for i in words if i != trial.baseline_ids[0]]
        new = sorted({i for i in moving if (*key, i) not in trials.known})
        # One by one: beside other words, a word's number may be rounded differently.
        for i in new:
            measured = measure(trial, torch.tensor([i], dtype=torch.int64, device="cpu"))
            if measured is None:
                break
            trials.known[(*key, i)] = float(measured[0])
        numbers = [trials.known[(*key, i)] for i in moving if (*key, i) in trials.known]
        found.append((sum(numbers) / len(numbers),) if numbers else None)
    return found


def load_measure(entry: Entry) -> Measure:
    """Make the measure of a row of the catalogue."""
    measure: Measure = entry.make()
    return measure


LOG_ODDS: Final = LogOdds()
COMPREHENSIVENESS: Final = Comprehensiveness()
SUFFICIENCY: Final = Sufficiency()
PAPER_LOG_ODDS: Final = LogOdds("paper")
PAPER_COMPREHENSIVENESS: Final = Comprehensiveness("paper")
PAPER_SUFFICIENCY: Final = Sufficiency("paper")
SPECIAL_ANCHORS: Final = AnchorShare("special", "share of special anchors")
UNUSED_ANCHORS: Final = AnchorShare("unused", "share of unused anchors")
PIECE_ANCHORS: Final = AnchorShare("piece", "share of anchors that are no words")
