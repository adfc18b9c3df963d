"""Scores: mean ranks, tests and agreement of the answers to a study.

Takes a key and the saved answers; gives a `StudyScore`. The command line shows it.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from captum_dig.checks import at_least_one
from captum_dig.records import check_keys, integer, of_format, show, string, tuple_of
from captum_dig.study.sheets import ANSWERS_FORMAT, FORMAT_VERSION, StudyKey
from captum_dig.visualization.base import name_line

if TYPE_CHECKING:
    from captum_dig.metrics import Interval


@dataclass(frozen=True)
class RankComparison:
    """How the ranks of two methods differ on the same sentences.

    Attributes:
        first: One method.
        second: The other.
        difference: The mean rank of `first` minus that of `second`, below 0 where `first` is preferred, with a 95 %
            interval.
        p_value: The p-value of the two-sided sign-flip test over sentences, see `paired_test`.
        adjusted_p_value: The same after Holm's correction for the number of pairs.
    """

    first: str
    second: str
    difference: "Interval"
    p_value: float
    adjusted_p_value: float


@dataclass(frozen=True)
class StudyScore:
    """The scores of a study. ``str`` gives a table.

    Attributes:
        methods: The names of the methods, in the order of the key.
        mean_ranks: The mean rank of each, lower is better, with a 95 % interval over sentences.
        comparisons: The comparison of each pair of methods.
        p_value: The p-value of the test whether the methods differ at all.
        agreement: Kendall's W, averaged over the sentences that at least two people ranked. It is 1 if all agree, and
            1 / n on average if n people rank at random; NaN for no such sentence.
        n_participants: The number of people.
        n_sentences: The number of sentences that at least one person ranked.
        n_rankings: The number of rankings, one for each person and ranked sentence.
        n_unranked: The number of rankings that are missing or use a rank twice.
        n_superseded: The number of files that a later file of the same person replaced.
    """

    methods: tuple[str, ...]
    mean_ranks: tuple["Interval", ...]
    comparisons: tuple[RankComparison, ...]
    p_value: float
    agreement: float
    n_participants: int
    n_sentences: int
    n_rankings: int
    n_unranked: int
    n_superseded: int

    def __str__(self) -> str:
        """Draw a table, best method first."""
        by_rank = sorted(zip(self.methods, self.mean_ranks, strict=True), key=lambda pair: pair[1].mean)
        rows = [(name_line(name), str(mean), "") for name, mean in by_rank]
        pairs = [
            (f"{name_line(c.first)} - {name_line(c.second)}", str(c.difference), f"{c.adjusted_p_value:.2g}")
            for c in self.comparisons
        ]
        table = [("method", "mean rank, 95 % interval", ""), *rows, ("difference", "", "p (Holm)"), *pairs]
        widths = [max(len(row[column]) for row in table) for column in (0, 1)]
        lines = [f"{a:{widths[0]}}  {b:{widths[1]}}  {c}".rstrip() for a, b, c in table]
        agreement = "none to measure" if math.isnan(self.agreement) else f"{self.agreement:.2f}"
        return "\n".join(
            [
                f"{self.n_participants} participants, {self.n_sentences} sentences, {self.n_rankings} rankings "
                f"({self.n_unranked} not ranked)",
                *lines,
                f"all methods alike: p = {self.p_value:.2g}",
                f"agreement of participants, Kendall's W: {agreement}",
            ]
        )


@dataclass(frozen=True)
class _Answers:
    """The checked content of one answer file; fields as the page writes them."""

    study: str
    participant: str
    name: str
    revision: int
    ranks: tuple[tuple[int | None, ...], ...]


def score_study(
    key: StudyKey, answers: Sequence[Mapping[str, Any]], *, n_resamples: int = 10_000, seed: int = 0
) -> StudyScore:
    """Turn the answers of people into mean ranks, and test whether these differ.

    A sentence counts for a person who gave every rank once in it; otherwise it is left out and counted as unranked.
    Ranks are averaged over people first, and the tests sample, sign and permute sentences. Intervals and p-values
    therefore hold for other sentences judged by the same people. If one person saved several times, the latest file
    counts.

    Args:
        key: The key of the study.
        answers: The saved answers, one mapping for each file.
        n_resamples: The number of samples, signs and permutations to draw, at least 1.
        seed: For drawing.

    Returns:
        The ranks and tests.

    Raises:
        TypeError: An answer is no mapping, or a value has the wrong type; the message counts files from 0.
        ValueError: An answer has another format or study, too many or too few ranks, or one out of range. Also if two
            files of one person have the same revision and differ, or if no sentence is ranked.

    Example:
        >>> key = StudyKey("s", 0, ("mine", "other"), (("other", "mine"),))
        >>> answer = {"study": "s", "participant": "p", "name": "", "revision": 1, "ranks": [[2, 1]]}
        >>> score = score_study(key, [{"format": "captum_dig.StudyAnswers", "format_version": 1, **answer}])
        >>> [mean.mean for mean in score.mean_ranks]
        [1.0, 2.0]

    References:
        Friedman (1937) [friedman-1937], by permutation; Kendall and Babington Smith (1939)
        [kendall-babington-smith-1939]; Holm (1979) [holm-1979].
    """
    # These import PyTorch.
    from captum_dig.metrics import bootstrap_interval, paired_test

    n_resamples = at_least_one("n_resamples", n_resamples)
    people = _latest([_read(key, f"answers[{i}]", answer) for i, answer in enumerate(answers)])
    ranks = np.array([_by_method(key, person) for person in people]).reshape(-1, len(key.orders), len(key.methods))
    counts = (~np.isnan(ranks[..., 0])).sum(axis=0)
    if not counts.any():
        raise ValueError(
            f"answers must rank at least one sentence, got none in {len(answers)} files; pass saved answers"
        )
    rows = np.nansum(ranks, axis=0)[counts > 0] / counts[counts > 0, None]
    pairs = list(combinations(range(len(key.methods)), 2))
    tests = [paired_test(rows[:, a], rows[:, b], n_resamples=n_resamples, seed=seed) for a, b in pairs]
    adjusted = _holm([test.p_value for test in tests])
    return StudyScore(
        methods=key.methods,
        mean_ranks=tuple(bootstrap_interval(column, n_resamples=n_resamples, seed=seed) for column in rows.T),
        comparisons=tuple(
            RankComparison(key.methods[a], key.methods[b], test.difference, test.p_value, p)
            for (a, b), test, p in zip(pairs, tests, adjusted, strict=True)
        ),
        p_value=_permutation_test(rows, n_resamples, seed),
        agreement=_kendall_w(ranks, counts),
        n_participants=len(people),
        n_sentences=len(rows),
        n_rankings=int(counts.sum()),
        n_unranked=len(people) * len(key.orders) - int(counts.sum()),
        n_superseded=len(answers) - len(people),
    )


def _read(key: StudyKey, name: str, answer: Any) -> _Answers:
    values = of_format(name, answer, ANSWERS_FORMAT, FORMAT_VERSION, ("pass what the page of the study saved",) * 2)
    check_keys(name, values, _Answers)
    if string(f"{name}['study']", values["study"]) != key.study:
        raise ValueError(
            f"{name} must be of the study {key.study!r}, got {show(values['study'])}; pass the key of its page"
        )
    for field in ("participant", "name"):
        string(f"{name}[{field!r}]", values[field])
    integer(f"{name}['revision']", values["revision"])

    def rank(place: str, value: Any) -> int | None:
        if value is None or 1 <= integer(place, value) <= len(key.methods):
            return None if value is None else int(value)
        raise ValueError(
            f"{place} must be in [1, {len(key.methods)}], got {show(value)}; leave answers as they were saved"
        )

    values["ranks"] = tuple_of(tuple_of(rank))(f"{name}['ranks']", values["ranks"])
    shape, expected = [len(row) for row in values["ranks"]], [len(key.methods)] * len(key.orders)
    if shape != expected:
        raise ValueError(
            f"{name}['ranks'] must have the lengths {show(expected)}, got {show(shape)}; "
            "leave answers as they were saved"
        )
    return _Answers(**values)


def _latest(answers: Sequence[_Answers]) -> list[_Answers]:
    """Keep the latest answers of each person, in the order of their first files."""
    people: dict[str, tuple[int, _Answers]] = {}
    for i, answer in enumerate(answers):
        j, other = people.setdefault(answer.participant, (i, answer))
        if answer.revision == other.revision and answer.ranks != other.ranks:
            raise ValueError(
                f"answers[{i}] must be later or earlier than answers[{j}] of the same person, got revision "
                f"{answer.revision} in both; pass only one of them"
            )
        if answer.revision > other.revision:
            people[answer.participant] = (i, answer)
    return [answer for _, answer in people.values()]


def _by_method(key: StudyKey, answers: _Answers) -> list[list[float]]:
    """The rank of each method in each sentence, shape (sentences, methods); NaN for an unranked sentence."""
    rows = []
    for order, given in zip(key.orders, answers.ranks, strict=True):
        ranks = {m: math.nan if rank is None else float(rank) for m, rank in zip(order, given, strict=True)}
        whole = len(set(given) - {None}) == len(order)
        rows.append([ranks[method] if whole else math.nan for method in key.methods])
    return rows


def _permutation_test(rows: npt.NDArray[np.float64], n_resamples: int, seed: int) -> float:
    """Friedman's test: the share of permutations within sentences whose means lie at least as far apart."""

    def spread(numbers: npt.NDArray[np.float64]) -> float:
        return float(numbers.mean(axis=0).var())

    generator = np.random.default_rng(seed)
    # Rounding may make a spread smaller than an equal one.
    observed = spread(rows) - 1e-12
    extreme = sum(spread(generator.permuted(rows, axis=1)) >= observed for _ in range(n_resamples))
    return (extreme + 1) / (n_resamples + 1)


def _kendall_w(ranks: npt.NDArray[np.float64], counts: npt.NDArray[np.int64]) -> float:
    shared, n_methods = counts > 1, ranks.shape[2]
    if not shared.any():
        return math.nan
    # The variance of the summed ranks, divided by its largest value, that of n equal rankings.
    variances = np.nansum(ranks, axis=0)[shared].var(axis=1)
    return float((variances / (counts[shared] ** 2 * (n_methods**2 - 1) / 12)).mean())


def _holm(p_values: Sequence[float]) -> list[float]:
    adjusted, largest = [0.0] * len(p_values), 0.0
    for done, i in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        largest = max(largest, min(1.0, (len(p_values) - done) * p_values[i]))
        adjusted[i] = largest
    return adjusted
