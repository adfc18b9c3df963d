"""Intervals of averages over sentences, and tests whether two methods differ.

Takes one number for each sentence, as every metric gives it, NaN for skipped sentences; gives an interval or a p-value.
`captum_dig.comparison` reports them.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from torch import Tensor

from captum_dig.checks import at_least_one

Numbers = Sequence[float] | npt.NDArray[np.floating] | Tensor
_RESAMPLES = 10_000
# Numbers drawn in one block.
_BLOCK = 2**22


@dataclass(frozen=True)
class Interval:
    """An average and its confidence interval over samples of sentences.

    Attributes:
        mean: The average over the sentences that count; NaN for none.
        low: The lower end of the interval; NaN for fewer than two sentences.
        high: The upper end.
        n: How many sentences count.
    """

    mean: float
    low: float
    high: float
    n: int

    def __str__(self) -> str:
        return f"{self.mean:.3f} [{self.low:.3f}, {self.high:.3f}]"


@dataclass(frozen=True)
class PairedTest:
    """How two methods differ on the same sentences.

    Attributes:
        difference: The average of the differences, first minus second, with its interval.
        p_value: The share of random signs that give an average difference at least as large. It is small where the
            methods differ; NaN for no sentence.
    """

    difference: Interval
    p_value: float


def bootstrap_interval(
    values: Numbers, *, confidence: float = 0.95, n_resamples: int = _RESAMPLES, seed: int = 0
) -> Interval:
    """Average over sentences, with a bootstrap percentile interval.

    Args:
        values: One number for each sentence, shape (N,); NaN does not count.
        confidence: The coverage of the interval, in (0, 1).
        n_resamples: How many samples to draw, at least 1.
        seed: For drawing.

    Returns:
        The average and its interval.

    Raises:
        ValueError: If `confidence` or `n_resamples` is out of range, or `values` has another shape or holds infinity.

    Example:
        >>> bootstrap_interval([1.0, 1.0, 1.0])
        Interval(mean=1.0, low=1.0, high=1.0, n=3)

    References:
        Efron and Tibshirani (1993), chapter 13 [efron-tibshirani-1993].
    """
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be in (0, 1), got {confidence!r}")
    at_least_one("n_resamples", n_resamples)
    numbers = _numbers("values", values)
    numbers = numbers[~np.isnan(numbers)]
    if len(numbers) < 2:
        return Interval(float(numbers[0]) if len(numbers) else math.nan, math.nan, math.nan, len(numbers))
    generator = np.random.default_rng(seed)
    even = np.full(len(numbers), 1 / len(numbers))
    # How often each sentence is drawn.
    means = [generator.multinomial(len(numbers), even, size=n) @ numbers for n in _blocks(n_resamples, len(numbers))]
    low, high = np.quantile(np.concatenate(means) / len(numbers), [(1 - confidence) / 2, (1 + confidence) / 2])
    return Interval(float(numbers.mean()), float(low), float(high), len(numbers))


def paired_test(values: Numbers, others: Numbers, *, n_resamples: int = _RESAMPLES, seed: int = 0) -> PairedTest:
    """Test whether two methods differ on the same sentences, two-sided.

    If they do not differ, each difference is as likely to have the other sign. All choices of signs are tried if there
    are at most 2 ** 13; otherwise they are drawn at random.

    Args:
        values: One number for each sentence, shape (N,).
        others: Those of the other method, same sentences; where one of the two is NaN, the sentence does not count.
        n_resamples: How many choices of signs, and samples for the interval, to draw, at least 1.
        seed: For drawing.

    Returns:
        The average difference, its interval, and a p-value.

    Raises:
        ValueError: If the shapes differ, a number is infinite, or `n_resamples` is below 1.

    Example:
        >>> paired_test([2.0, 3.0, 5.0, 4.0], [1.0, 2.0, 3.0, 3.0]).p_value
        0.125

    References:
        Fisher (1935), section 21 [fisher-1935].
    """
    first, second = _numbers("values", values), _numbers("others", others)
    if first.shape != second.shape:
        raise ValueError(f"others must have one number for each of the {len(first)} sentences, got {len(second)}")
    differences = first - second
    differences = differences[~np.isnan(differences)]
    interval = bootstrap_interval(differences, n_resamples=n_resamples, seed=seed)
    moved = differences[differences != 0]
    if not len(differences):
        return PairedTest(interval, math.nan)
    if len(moved) <= 13:
        numbers = np.arange(2 ** len(moved))[:, None]
        sums = np.where(numbers >> np.arange(len(moved)) & 1, 1, -1) @ moved
        drawn_itself = 0
    else:
        generator = np.random.default_rng(seed)
        sums = np.concatenate(
            [
                (generator.integers(0, 2, size=(n, len(moved)), dtype=np.int8) * 2 - 1) @ moved
                for n in _blocks(n_resamples, len(moved))
            ]
        )
        drawn_itself = 1
    # Sums that are equal may come out unequal by rounding.
    extreme = np.abs(sums) >= abs(moved.sum()) - 1e-12 * np.abs(moved).sum()
    return PairedTest(interval, float((extreme.sum() + drawn_itself) / (len(sums) + drawn_itself)))


def _blocks(n_resamples: int, n_numbers: int) -> Iterator[int]:
    """Numbers of resamples that fit into memory together."""
    step = max(1, _BLOCK // n_numbers)
    for start in range(0, n_resamples, step):
        yield min(step, n_resamples - start)


def _numbers(name: str, values: Numbers) -> npt.NDArray[np.float64]:
    numbers = np.asarray(values.detach().cpu().double() if isinstance(values, Tensor) else values, dtype=np.float64)
    if numbers.ndim != 1:
        raise ValueError(f"{name} must have shape (N,), one number for each sentence, got {numbers.shape}")
    if np.isinf(numbers).any():
        raise ValueError(f"{name} must be finite or NaN, got infinity; report a median, or pooled numbers")
    return numbers
