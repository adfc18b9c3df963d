"""The answer of a comparison: the best methods, and those that are behind by more than chance."""

from dataclasses import replace

import numpy as np
import pytest

from captum_dig.comparison import Comparison, report_page, verdicts
from tests.comparison.test_results import made_up

METHODS = ("staggered", "integrated_gradients", "dig_greedy", "random")


def compared(means, n=40, seed=0, noise=0.1):
    """A comparison whose log-odds are these means, lower is better, and noise that methods share in part."""
    methods = tuple(means)
    draw = np.random.default_rng(seed)
    first = made_up(n, methods, ("pad",))
    texts = []
    for text in first.texts:
        shared = draw.normal()
        found = []
        for one in text.measurements:
            value = means[one.method] + shared + noise * draw.normal()
            found.append(replace(one, values=dict(one.values) | {"log_odds": (value, value)}))
        texts.append(replace(text, measurements=tuple(found)))
    return Comparison(first.settings, tuple(texts))


def test_the_best_are_named_first():
    comparison = compared({"staggered": -2.0, "integrated_gradients": -1.5, "dig_greedy": -1.99, "random": -0.2})
    (verdict,) = verdicts(comparison)
    assert verdict == (
        "From baseline pad, on 40 texts: DIG greedy and staggered have the best log-odds; "
        "2 of 4 methods are behind by more than chance."
    )
    assert str(comparison).startswith("From baseline pad, on 40 texts: DIG greedy and staggered")
    page = report_page(comparison)
    assert page.index("have the best log-odds") < page.index("<table")


def test_one_may_be_best_alone():
    (verdict,) = verdicts(compared({"staggered": -3.0, "integrated_gradients": -1.0}))
    assert verdict.endswith("staggered has the best log-odds; 1 of 2 methods is behind by more than chance.")


def test_nothing_is_claimed_without_a_difference():
    (verdict,) = verdicts(compared({"staggered": -1.0, "integrated_gradients": -1.001}))
    assert "no method is behind by more than chance" in verdict
    (verdict,) = verdicts(compared({"staggered": -1.0, "random": -1.0}))
    assert "no method is better than random scores by more than chance" in verdict


def test_many_level_methods_are_counted():
    (verdict,) = verdicts(compared(dict.fromkeys((*METHODS[:3], "deeplift"), -1.0) | {"random": 3.0}, seed=2))
    assert " has the best log-odds, and 3 others are level; 1 of 5 methods is behind by more than chance." in verdict


def test_few_texts_tell_nothing_apart():
    (verdict,) = verdicts(compared({"staggered": -9.0, "random": 0.0}, n=5))
    assert verdict == "From baseline pad, on 5 texts: too few to compare methods; take more texts."
    assert verdicts(made_up(8, ("staggered",))) == []
    assert len(verdicts(made_up(8))) == 2


@pytest.mark.parametrize("seed", range(3))
def test_equal_methods_are_rarely_told_apart(seed):
    equal = dict.fromkeys(METHODS[:3], -1.0)
    told = sum("no method is behind" in verdicts(compared(equal, n=12, seed=20 * seed + n))[0] for n in range(20))
    assert told >= 16
