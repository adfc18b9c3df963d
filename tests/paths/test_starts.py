"""Starts of words in several orders: spread evenly, nearly uncorrelated, a function of seed, order and number."""

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from captum_dig.paths.starts import draw


@pytest.mark.parametrize("antithetic", [True, False])
@given(st.integers(-5, 1000), st.integers(1, 6))
def test_starts_are_spread_evenly_and_each_number_s_own(antithetic, seed, half):
    n_orders = 2 * half if antithetic else half
    starts = draw(torch.arange(7), n_orders, seed, antithetic)
    assert torch.equal(
        starts.mul(n_orders).floor().sort(dim=0).values, torch.arange(n_orders)[:, None].expand(-1, 7).double()
    )
    assert torch.equal(draw(torch.arange(3), n_orders, seed, antithetic), starts[:, :3])
    assert torch.equal(draw(torch.tensor([[4], [-1], [4]]), n_orders, seed, antithetic)[:, ::2, 0], starts[:, [4, 4]])
    if antithetic:
        torch.testing.assert_close(starts[::2] + starts[1::2], torch.ones(half, 7).double())


def test_any_number_has_starts():
    numbers = torch.tensor([[2**63 - 1, -(2**63)], [10**15, -1]])
    starts = draw(numbers, 4, 0, antithetic=True)
    assert torch.equal(draw(numbers[1:], 4, 0, antithetic=True), starts[:, 1:])
    assert draw(numbers[:0], 4, 0, antithetic=True).shape == (4, 0, 2)


def test_starts_are_uniform_and_uncorrelated_over_seeds():
    starts = torch.stack([draw(torch.arange(5), 4, seed, antithetic=True) for seed in range(2000)])
    torch.testing.assert_close(starts.mean(dim=0), torch.full((4, 5), 0.5).double(), rtol=0, atol=0.03)
    torch.testing.assert_close(starts.var(dim=0), torch.full((4, 5), 1 / 12).double(), rtol=0.1, atol=0)
    correlation = torch.corrcoef(starts[:, 0].T)
    assert float((correlation - torch.eye(5)).abs().max()) < 0.06


@pytest.mark.parametrize(("n_orders", "antithetic"), [(4, True), (14, True), (9, False)])
def test_starts_of_near_words_are_hardly_correlated(n_orders, antithetic):
    def mean_square(n_choices):
        found = []
        for seed in range(8):
            centered = draw(torch.arange(130), n_orders, seed, antithetic, n_choices) - 0.5
            unit = centered / centered.norm(dim=0)
            found.append((unit[:, 1:] * unit[:, :-1]).sum(dim=0).square())
        return float(torch.cat(found).mean())

    n_free = n_orders // 2 if antithetic else n_orders - 1
    assert mean_square(1) == pytest.approx(1 / n_free, rel=0.15)
    assert mean_square(16) < 0.35 / n_free


@pytest.mark.parametrize("antithetic", [True, False])
def test_a_choice_among_starts_leaves_each_word_uniform(antithetic):
    starts = torch.stack([draw(torch.arange(3), 4, seed, antithetic) for seed in range(1000)])
    for order, word in itertools.product(range(4), range(3)):
        counts = (4 * starts[:, order, word]).long().bincount(minlength=4)
        assert float((counts / 1000 - 0.25).abs().max()) < 0.05
