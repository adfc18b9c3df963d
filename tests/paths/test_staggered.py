import itertools
import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from captum_dig import (
    DiscretizedIntegratedGradients,
    EnsemblePath,
    MonotonicPath,
    StaggeredPath,
    StraightLine,
    Vocabulary,
)
from captum_dig.paths.starts import draw
from tests.attribution.test_inputs import nonlinear
from tests.paths.test_base import ROWS, Detour

X, BASE = ROWS[None, 3:7], ROWS[0].expand(1, 4, 6)
WORDS = MonotonicPath(Vocabulary(ROWS), n_anchors=5, n_neighbors=12)


def attribute(forward, path, x, base=None, **options):
    return DiscretizedIntegratedGradients(forward, path).attribute(x, base, **{"n_steps": 600, **options})


def reference(starts, width, x, times):
    """Where each word of a straight line from 0 to x is at some times, one by one; shape (P, T)."""
    points = np.zeros((len(times), len(x)))
    for (k, u), (i, s) in itertools.product(enumerate(times), enumerate(starts)):
        points[k, i] = x[i] * min(max((u - s) / width, 0), 1)
    return points


@given(st.integers(0, 1000), st.floats(0.01, 0.99), st.integers(1, 6))
def test_a_member_has_a_knot_wherever_a_word_starts_or_stops(seed, width, n_words):
    x = torch.linspace(1, 2, n_words, dtype=torch.float64)
    path = StaggeredPath(StraightLine(), width, n_orders=4, seed=seed)
    starts = draw(torch.arange(n_words), 4, seed, antithetic=True).numpy() * (1 - width)
    for knots, s in zip(path(x[None], torch.zeros(1, n_words).double())[:, :, 0], starts, strict=True):
        times = sorted({*s, *(s + width)})
        expected = reference(s, width, x.numpy(), times)
        np.testing.assert_allclose(knots[: len(times)], expected, rtol=0, atol=1e-6)


def test_the_closed_form_of_a_product():
    # x moves first; y has moved by (t - s1) / width while x moves on, until x stops at s0 + width.
    for seed, width in itertools.product(range(8), (0.2, 0.5, 0.9)):
        path = StaggeredPath(StraightLine(), width, n_orders=1, seed=seed, antithetic=False)
        first, second = draw(torch.arange(2), 1, seed, antithetic=False)[0] * (1 - width)
        lag = min(abs(float(second - first)) / width, 1)
        early = 3 * 5 * (1 - lag) ** 2 / 2
        got = attribute(lambda x: x.prod(dim=1), path, torch.tensor([[3.0, 5.0]]))[0]
        expected = [early, 15 - early] if first < second else [15 - early, early]
        torch.testing.assert_close(got, torch.tensor(expected), rtol=0, atol=1e-3)


@pytest.mark.parametrize("width", [0, 0.1, 0.5, 0.9, 1])
def test_two_words_that_may_be_swapped_get_the_same(width):
    def model(x):
        return torch.tanh(x.sum(dim=1)) * x.prod(dim=1) + (x**3).sum(dim=1)

    got = attribute(model, StaggeredPath(StraightLine(), width, seed=11), torch.full((1, 2), 1.5))[0]
    torch.testing.assert_close(got[0], got[1], rtol=1e-4, atol=0)


@pytest.mark.parametrize("inner", [StraightLine(), WORDS, Detour()], ids=repr)
def test_at_full_width_it_is_the_inner_path(inner):
    path = StaggeredPath(inner, 1)
    assert torch.equal(path(X, BASE)[0], inner(X, BASE))
    assert torch.equal(path(X.double(), BASE.double())[0], inner(X.double(), BASE.double()))
    assert torch.equal(attribute(nonlinear, path, X, BASE, n_steps=9), attribute(nonlinear, inner, X, BASE, n_steps=9))


def test_near_full_width_it_is_nearly_the_inner_path():
    one = attribute(nonlinear, StaggeredPath(WORDS, 1 - 1e-4, n_orders=2), X, BASE)
    torch.testing.assert_close(one, attribute(nonlinear, WORDS, X, BASE), rtol=0, atol=1e-2)


def multilinear(x):
    a, b, c = x.unbind(dim=1)
    return a + 2 * a * b - 3 * b * c + 4 * a * b * c


def shapley(forward, x):
    n_words, values = x.shape[1], torch.zeros(x.shape[1])
    for order in itertools.permutations(range(n_words)):
        point = torch.zeros_like(x)
        for word in order:
            before = forward(point)
            point[0, word] = x[0, word]
            values[word] += float(forward(point) - before)
    return values / math.factorial(n_words)


def test_without_width_it_tends_to_shapley_values():
    x = torch.tensor([[1.0, 2.0, -0.5]])
    exact = shapley(multilinear, x)
    # Four nodes for each piece: with one word moving at a time these gradients are constant.
    errors = []
    for n_orders in (4, 64, 1024):
        got = attribute(multilinear, StaggeredPath(StraightLine(), 0, n_orders), x, n_steps=12 * n_orders)[0]
        errors.append(float((got - exact).norm() / exact.norm()))
    assert errors[1] < 0.2
    assert errors[2] < 0.04


def test_without_width_a_pair_of_orders_is_shapley_for_two_words():
    x = torch.tensor([[3.0, -2.0]])

    def model(x):
        return x[:, 0] + 2 * x[:, 1] + 5 * x.prod(dim=1)

    for seed in range(5):
        got = attribute(model, StaggeredPath(StraightLine(), 0, 2, seed), x, n_steps=12)[0]
        torch.testing.assert_close(got, shapley(model, x))


def test_without_width_one_word_moves_at_a_time():
    for knots in StaggeredPath(WORDS, 0, seed=2)(X, BASE)[:, :, 0]:
        assert (knots.diff(dim=0).any(dim=-1).sum(dim=-1) <= 1).all()
        moved = [knots.diff(dim=0)[:, word].any(dim=-1).nonzero()[:, 0] for word in range(4)]
        order = sorted(range(4), key=lambda word: int(moved[word][0]))
        for before, after in itertools.pairwise(order):
            assert int(moved[before][-1]) < int(moved[after][0])


def test_a_word_that_nothing_depends_on_gets_nothing():
    got = attribute(lambda x: torch.tanh(x[:, 0] * x[:, 2]), StaggeredPath(StraightLine()), torch.ones(1, 3))
    assert float(got[0, 1]) == 0


def test_padding_and_still_words_change_nothing():
    path = StaggeredPath(WORDS, 0.5, seed=4)
    padded_x, padded_base = torch.cat([X, ROWS[None, 8:11]], dim=1), torch.cat([BASE, ROWS[None, 8:11]], dim=1)
    assert torch.equal(path(padded_x, padded_base)[:, :, :, :4], path(X, BASE))
    assert torch.equal(
        attribute(nonlinear, path, X, BASE), attribute(nonlinear, StaggeredPath(WORDS, 0.5, seed=4), X, BASE)
    )
    assert not torch.equal(path(X, BASE), StaggeredPath(WORDS, 0.5, seed=5)(X, BASE))


def test_threads_agree():
    path = StaggeredPath(WORDS)
    with ThreadPoolExecutor(4) as pool:
        for knots in pool.map(lambda _: path(X, BASE), range(8)):
            assert torch.equal(knots, path(X, BASE))


def test_a_number_of_knots_has_no_effect_and_says_so():
    with pytest.warns(DeprecationWarning, match="n_knots has no effect: points are made where a node is wanted"):
        path = StaggeredPath(WORDS, n_knots=2)
    assert torch.equal(path(X, BASE), StaggeredPath(WORDS)(X, BASE))


def test_tokens_of_a_word_move_together():
    words = torch.tensor([[-1, 0, 0, 1, 2, -1], [0, 1, 1, 1, -1, -1]])
    x, base = torch.rand(2, 6, 3) + 1, torch.zeros(2, 6, 3)
    x[words < 0] = 0
    path = StaggeredPath(StraightLine(), 0.4, seed=1)
    ensemble = path.grouped(words)(x, base)
    progress = (ensemble / x.clamp(min=1e-9))[..., 0]
    torch.testing.assert_close(progress[:, :, 0, 1], progress[:, :, 0, 2])
    torch.testing.assert_close(progress[:, :, 1, 1], progress[:, :, 1, 3])
    assert float((progress[:, :, 0, 2] - progress[:, :, 0, 3]).abs().max()) > 0.1
    # A word's start depends on its number, not on its tokens: three tokens of three words are three words.
    alone = path(x[:1, [1, 3, 4]], base[:1, :3])
    torch.testing.assert_close(ensemble[:, : alone.shape[1], :1, [1, 3, 4]], alone)
    assert torch.equal(EnsemblePath([path]).grouped(words)(x, base), ensemble)
    assert StraightLine().grouped(words)(x, base).shape == (2, 2, 6, 3)
    with pytest.raises(ValueError, match=r"inputs must have the batch and tokens of the words, \(2, 6\), got \(1, 6\)"):
        path.grouped(words)(x[:1], base[:1])
    with pytest.raises(ValueError, match=r"words must be integers of shape \(B, T\), got torch.float32 \(2, 6\)"):
        path.grouped(words.float())


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (
            {"inner": "straight_line"},
            TypeError,
            r"inner must be a PathGenerator, got str; for example StraightLine\(\)",
        ),
        ({"width": 1.5}, ValueError, "width must be a number from 0 to 1, got 1.5"),
        ({"width": float("nan")}, ValueError, "width must be a number from 0 to 1, got nan"),
        ({"width": "wide"}, ValueError, "width must be a number from 0 to 1, got 'wide'"),
        ({"n_orders": 0}, ValueError, "n_orders must be an integer of at least 1, got 0"),
        (
            {"n_orders": 3},
            ValueError,
            "n_orders must be even for pairs of orders, got 3; take one more, or antithetic=False",
        ),
        ({"seed": 0.5}, TypeError, "seed must be an integer, got 0.5; the same one gives the same starts"),
    ],
)
def test_wrong_arguments(arguments, error, message):
    with pytest.raises(error, match=message):
        StaggeredPath(**{"inner": StraightLine(), **arguments})


def test_wrong_inputs():
    with pytest.raises(
        ValueError, match=r"inputs must have shape \(B, T, ...\), with words in dimension 1, got \(3,\)"
    ):
        StaggeredPath(StraightLine())(torch.ones(3), torch.zeros(3))
    with pytest.raises(ValueError, match="inner must give a single path, got 2 from StaggeredPath; put StaggeredPaths"):
        StaggeredPath(StaggeredPath(StraightLine()))
    # An ensemble of one is a single path.
    one = StaggeredPath(EnsemblePath([StraightLine()]))
    assert torch.equal(one(X, BASE), StaggeredPath(StraightLine())(X, BASE))
