import itertools
import math
import re

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from captum_dig.metrics import Interval, PairedTest, bootstrap_interval, paired_test

# Eighths are exact in binary, so that sums which are equal come out equal.
EIGHTHS = st.integers(-24, 24).map(lambda n: n / 8)


def sample(n, seed=0):
    return np.random.default_rng(seed).normal(size=n)


def test_two_sentences_worked_by_hand():
    # Of two sentences drawn from 0 and 1 the mean is 0, 1/2 or 1, with probability 1/4, 1/2 and 1/4.
    assert bootstrap_interval([0.0, 1.0]) == Interval(mean=0.5, low=0.0, high=1.0, n=2)
    assert bootstrap_interval([0.0, 1.0], confidence=0.4) == Interval(mean=0.5, low=0.5, high=0.5, n=2)


def test_it_is_the_quantiles_of_means_of_drawn_sentences():
    values = sample(30)
    generator = np.random.default_rng(5)
    means = [generator.choice(values, size=30).mean() for _ in range(20_000)]
    found = bootstrap_interval(values, confidence=0.9, n_resamples=20_000)
    assert found.mean == pytest.approx(values.mean())
    assert [found.low, found.high] == pytest.approx(np.quantile(means, [0.05, 0.95]), abs=0.01)


def test_it_covers_the_true_average_about_as_often_as_asked():
    rows = np.random.default_rng(1).normal(loc=3, scale=2, size=(400, 40))
    found = [bootstrap_interval(row, confidence=0.9, n_resamples=400) for row in rows]
    assert 0.84 < np.mean([interval.low <= 3 <= interval.high for interval in found]) < 0.94


def test_more_sentences_narrow_it_and_more_confidence_widens_it():
    def width(n, confidence=0.95):
        found = bootstrap_interval(sample(n), confidence=confidence, n_resamples=2000)
        return found.high - found.low

    assert width(1600) == pytest.approx(width(100) / 4, rel=0.15)
    assert width(100, 0.5) < width(100, 0.9) < width(100, 0.99)


@given(st.lists(EIGHTHS, min_size=2, max_size=12), st.integers(0, 5))
def test_it_lies_among_the_values_and_moves_with_them(values, seed):
    found = bootstrap_interval(values, n_resamples=200, seed=seed)
    assert min(values) - 1e-12 <= found.low <= found.high <= max(values) + 1e-12
    moved = bootstrap_interval([3 - 2 * v for v in values], n_resamples=200, seed=seed)
    assert [moved.mean, moved.low, moved.high] == pytest.approx(
        [3 - 2 * found.mean, 3 - 2 * found.high, 3 - 2 * found.low]
    )


@given(st.lists(st.one_of(EIGHTHS, st.just(math.nan)), max_size=8))
def test_sentences_without_a_number_do_not_count(values):
    kept = [v for v in values if not math.isnan(v)]
    # Written out, because NaN is not equal to itself.
    found, alone = (bootstrap_interval(v, n_resamples=50) for v in (values, kept))
    assert repr(found) == repr(alone)
    assert found.n == len(kept)


def test_of_one_sentence_there_is_an_average_but_no_interval():
    one, none = bootstrap_interval([math.nan, 2.5]), bootstrap_interval([math.nan])
    assert (one.mean, one.n) == (2.5, 1)
    assert (none.n, math.isnan(none.mean)) == (0, True)
    assert all(math.isnan(end) for found in (one, none) for end in (found.low, found.high))
    assert bootstrap_interval([]).n == 0


def test_lists_arrays_and_tensors_are_the_same():
    values = [0.5, 2.0, -1.25, 8.0]
    expected = bootstrap_interval(values)
    assert bootstrap_interval(np.float32(values)) == expected
    assert bootstrap_interval(torch.tensor(values, requires_grad=True)) == expected
    assert paired_test(torch.tensor(values), values[::-1]) == paired_test(values, np.array(values[::-1]))


@pytest.mark.parametrize("n", [5, 20])
def test_seeds_reproduce_and_the_number_of_samples_matters(n):
    values = sample(n)
    for measure in (bootstrap_interval, lambda v, **arguments: paired_test(v, 0 * v, **arguments)):
        few = measure(values, n_resamples=100)
        assert measure(values, n_resamples=100) == few
        assert measure(values, n_resamples=100, seed=1) != few
        assert measure(values, n_resamples=101) != few


def test_it_is_written_in_one_line():
    assert str(Interval(0.12345, -0.1, 1.0, 9)) == "0.123 [-0.100, 1.000]"


def by_all_signs(differences):
    observed, extreme, count = abs(sum(differences)), 0, 0
    for signs in itertools.product((1, -1), repeat=len(differences)):
        total = abs(sum(sign * d for sign, d in zip(signs, differences, strict=True)))
        extreme, count = extreme + (total >= observed), count + 1
    return extreme / count


@pytest.mark.parametrize(
    ("differences", "p_value"),
    [
        # Of 1, 2 and 3 only the two sums of one sign reach 6.
        ([1.0, 2.0, 3.0], 2 / 8),
        # 2 is reached by 2, -2, 4 and -4.
        ([3.0, -1.0], 1.0),
        # 5 is reached where at most one of the two ones goes against the rest, up or down.
        ([1.0, 2.0, 3.0, -1.0], 6 / 16),
        ([5.0], 1.0),
    ],
)
def test_few_sentences_worked_by_hand(differences, p_value):
    assert paired_test(differences, [0.0] * len(differences)).p_value == p_value


@given(st.lists(st.tuples(EIGHTHS, EIGHTHS), min_size=1, max_size=10))
def test_up_to_ten_sentences_it_is_the_share_of_all_choices_of_signs(pairs):
    one, other = zip(*pairs, strict=True)
    expected = by_all_signs([a - b for a, b in pairs])
    assert paired_test(one, other, n_resamples=1).p_value == expected


@given(st.lists(st.tuples(EIGHTHS, EIGHTHS), min_size=2, max_size=20))
def test_the_other_way_round_only_the_sign_changes(pairs):
    one, other = zip(*pairs, strict=True)
    found, turned = (paired_test(*both, n_resamples=300) for both in ((one, other), (other, one)))
    assert turned.p_value == found.p_value
    assert [turned.difference.mean, turned.difference.low, turned.difference.high] == pytest.approx(
        [-found.difference.mean, -found.difference.high, -found.difference.low]
    )
    assert turned.difference.n == found.difference.n == len(pairs)


def test_the_difference_is_the_bootstrap_of_the_differences():
    one, other = sample(25), sample(25, seed=1)
    assert paired_test(one, other, seed=4).difference == bootstrap_interval(one - other, seed=4)


def test_up_to_thirteen_sentences_no_signs_are_drawn():
    thirteen = sample(13) + 0.3
    found = {paired_test(thirteen, 0 * thirteen, n_resamples=n, seed=n).p_value for n in (1, 7, 100)}
    assert found == {by_all_signs(thirteen.tolist())}


def test_of_more_sentences_signs_are_drawn_and_their_own_counts_as_one():
    differences = sample(30) + 0.25
    generator = np.random.default_rng(8)
    drawn = generator.integers(0, 2, size=(500, 30), dtype=np.int8)
    extreme = 1
    for row in drawn:
        total = sum(d if bit else -d for bit, d in zip(row, differences, strict=True))
        extreme += abs(total) >= abs(differences.sum())
    assert paired_test(differences, 0 * differences, n_resamples=500, seed=8).p_value == extreme / 501


def test_drawn_signs_come_near_to_all_of_them():
    differences = sample(14) + 0.4
    signs = 1 - 2 * (np.arange(2**14)[:, None] >> np.arange(14) & 1)
    exact = np.mean(np.abs(signs @ differences) >= abs(differences.sum()) - 1e-9)
    one, other = (paired_test(differences, 0 * differences, seed=seed).p_value for seed in (0, 1))
    assert one != other
    assert [one, other] == pytest.approx([exact, exact], abs=0.02)


def test_a_clear_difference_has_a_small_p_value():
    steady = np.full(10, 2.0) + sample(10) / 10
    assert paired_test(steady, 0 * steady).p_value == 2 / 2**10
    many = np.full(60, 2.0) + sample(60) / 10
    found = paired_test(many, 0 * many)
    assert found.p_value == 1 / 10_001
    assert 1.9 < found.difference.low < found.difference.high < 2.1


@pytest.mark.parametrize("n", [10, 25])
def test_without_a_difference_every_p_value_is_as_likely(n):
    rows = np.random.default_rng(2).normal(size=(2, 300, n))
    found = np.sort([paired_test(one, other, n_resamples=200).p_value for one, other in zip(*rows, strict=True)])
    assert np.abs(found - (np.arange(300) + 0.5) / 300).max() < 0.09
    assert np.mean(found <= 0.05) < 0.09


def test_equal_sentences_count_in_the_average_but_not_among_the_signs():
    found = paired_test([1.0, 2.0, 3.0, 7.0, 7.0, 7.0], [0.0, 0.0, 0.0, 7.0, 7.0, 7.0])
    assert (found.difference.mean, found.difference.n, found.p_value) == (1.0, 6, 0.25)
    # Thirty zeros leave three signs to choose, so that all choices are tried.
    padded = paired_test([1.0, 2.0, 3.0, *[7.0] * 30], [0.0, 0.0, 0.0, *[7.0] * 30], n_resamples=1)
    assert padded.p_value == 0.25


@pytest.mark.parametrize("n", [1, 5, 40])
def test_a_method_does_not_differ_from_itself(n):
    found = paired_test(sample(n), sample(n))
    assert (found.difference.mean, found.p_value) == (0.0, 1.0)


def test_a_sentence_without_a_number_in_one_method_is_left_out_of_both():
    nan = math.nan
    found = paired_test([2.0, nan, 3.0, 9.0, nan, 5.0], [1.0, 8.0, 1.0, nan, nan, 2.0])
    assert found == paired_test([2.0, 3.0, 5.0], [1.0, 1.0, 2.0])
    assert (found.difference.n, found.p_value) == (3, 0.25)


@pytest.mark.parametrize("values", [[], [math.nan, math.nan]])
def test_of_no_sentence_there_is_no_p_value(values):
    found = paired_test(values, values)
    assert isinstance(found, PairedTest)
    assert math.isnan(found.p_value)
    assert found.difference.n == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"confidence": 0}, "confidence must be in (0, 1), got 0"),
        ({"confidence": 1.0}, "confidence must be in (0, 1), got 1.0"),
        ({"confidence": 95}, "confidence must be in (0, 1), got 95"),
        ({"confidence": math.nan}, "confidence must be in (0, 1), got nan"),
        ({"n_resamples": 0}, "n_resamples must be an integer of at least 1, got 0"),
        ({"n_resamples": 10.0}, "n_resamples must be an integer of at least 1, got 10.0"),
        ({"values": 3.0}, "values must have shape (N,), one number for each sentence, got ()"),
        ({"values": torch.ones(2, 3)}, "values must have shape (N,), one number for each sentence, got (2, 3)"),
    ],
)
def test_wrong_arguments_of_the_interval(arguments, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        bootstrap_interval(**{"values": [1.0, 2.0], **arguments})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"others": [1.0]}, "others must have one number for each of the 2 sentences, got 1"),
        ({"others": [[1.0, 2.0]]}, "others must have shape (N,), one number for each sentence, got (1, 2)"),
        ({"values": [[1.0, 2.0]]}, "values must have shape (N,), one number for each sentence, got (1, 2)"),
        ({"n_resamples": 0}, "n_resamples must be an integer of at least 1, got 0"),
        ({"n_resamples": True}, "n_resamples must be an integer of at least 1, got True"),
    ],
)
def test_wrong_arguments_of_the_test(arguments, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        paired_test(**{"values": [1.0, 2.0], "others": [0.0, 0.0], **arguments})


def test_sums_that_are_equal_count_as_equal_whatever_their_rounding():
    values, others = np.array([3, 0, 5, 1, 8]), np.array([4, 5, 4, 0, 4])
    assert paired_test(values / 10, others / 10).p_value == paired_test(1.0 * values, 1.0 * others).p_value == 1.0


def test_infinity_is_refused():
    with pytest.raises(ValueError, match="values must be finite or NaN, got infinity; report a median, or pool"):
        bootstrap_interval([1.0, math.inf])
    with pytest.raises(ValueError, match="others must be finite or NaN, got infinity"):
        paired_test([1.0, 2.0], [1.0, -math.inf])
