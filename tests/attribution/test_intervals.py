"""Sums over intervals, against a naive reference, exact solutions, and the order of their errors."""

import itertools
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
import torch
from numpy.polynomial import Polynomial

from captum_dig import DiscretizedIntegratedGradients, EnsemblePath, StaggeredPath, StraightLine
from captum_dig.attribution.intervals import Intervals
from captum_dig.quadrature import RULES, QuadratureRule
from tests.attribution.test_summing import BASE, PATHS, WORDS, X, curved, known

ONE, START = X[:1].double(), BASE[:1].double()


def hermite(left, right, left_slope, right_slope, width):
    """The cubic on [0, 1] with these values and slopes."""
    left_slope, right_slope = width * left_slope, width * right_slope
    return Polynomial(
        [
            left,
            left_slope,
            3 * (right - left) - 2 * left_slope - right_slope,
            2 * (left - right) + left_slope + right_slope,
        ]
    )


def slope(times, values, k):
    if len(times) == 1:
        return 0.0
    rises = np.diff(values) / np.diff(times)
    if k in (0, len(times) - 1):
        return rises[0 if k == 0 else -1]
    before, after = times[k] - times[k - 1], times[k + 1] - times[k]
    return (after * rises[k - 1] + before * rises[k]) / (before + after)


def point(knots, breaks, time):
    return np.array([np.interp(time, breaks, column) for column in knots.reshape(len(knots), -1).T])


def naive(function, knots, n_nodes, *, with_ends=False):
    """One path, interval by interval and element by element; knots of shape (P, W, F)."""
    lengths = np.sqrt((np.diff(knots, axis=0) ** 2).sum(axis=(1, 2)))
    breaks = np.concatenate([[0.0], np.cumsum(lengths) / lengths.sum()])
    times = np.arange(1, n_nodes + 1) / (n_nodes + 1) if with_ends else (np.arange(n_nodes) + 0.5) / n_nodes
    shape = knots.shape[1:]
    gradients, outputs = [], []
    for time in [0.0, *times, 1.0]:
        x = torch.tensor(point(knots, breaks, time)).reshape(1, *shape).requires_grad_()
        output = function(x)
        outputs.append(float(output.detach()))
        gradients.append(torch.autograd.grad(output.sum(), x)[0].numpy().ravel())
    stations, total = [0.0, *times, 1.0], np.zeros(np.prod(shape))
    if with_ends:
        times, gradients = np.array(stations), np.array(gradients)
    else:
        gradients = np.array(gradients[1:-1])
    errors, sizes = np.zeros(len(total.reshape(shape))), 0.0
    for i, (begin, end) in enumerate(itertools.pairwise(stations)):
        middle, width = (begin + end) / 2, end - begin
        first, second = (
            point(knots, breaks, middle) - point(knots, breaks, begin),
            point(knots, breaks, end) - point(knots, breaks, middle),
        )
        estimate, linear = np.zeros_like(total), np.zeros_like(total)
        for element in range(len(total)):
            values = gradients[:, element]
            left, right = (i, i + 1) if with_ends else (max(i - 1, 0), min(i, n_nodes - 1))
            slopes = [slope(times, values, k) for k in (left, right)]
            # Beyond the first and the last node the gradient goes on straight, and the linear one is constant.
            low = values[left] if times[left] == begin else values[0] - width * slopes[0]
            high = values[right] if times[right] == end else values[-1] + width * slopes[1]
            cubic = hermite(low, high, *slopes, width).integ()
            estimate[element] = (
                2 * (cubic(0.5) - cubic(0)) * first[element] + 2 * (cubic(1) - cubic(0.5)) * second[element]
            )
            line = Polynomial([values[left], values[right] - values[left]]).integ()
            linear[element] = 2 * (line(0.5) - line(0)) * first[element] + 2 * (line(1) - line(0.5)) * second[element]
        known_sum = outputs[i + 1] - outputs[i]
        residual, attributed, shares = handed_out(known_sum, estimate.reshape(shape))
        _, other, _ = handed_out(known_sum, linear.reshape(shape))
        change = np.abs(attributed.sum(axis=1) - other.sum(axis=1))
        errors += (abs(residual) * shares * (1 - shares) + change) / 2
        sizes += np.abs(attributed.sum(axis=1)).sum()
        total += attributed.ravel()
    return total.reshape(shape), errors, sizes


def handed_out(known_sum, words):
    """The residual, the words' elements with it, and the shares of the words."""
    residual = known_sum - words.sum()
    shares = np.abs(words.sum(axis=1)) / np.abs(words.sum(axis=1)).sum()
    sizes = np.abs(words).sum(axis=1, keepdims=True)
    # A word that does not move has no share.
    within = np.abs(words) / np.where(sizes > 0, sizes, 1)
    return residual, words + residual * shares[:, None] * within, shares


@pytest.mark.parametrize("n_steps", [1, 2, 3, 9])
@pytest.mark.parametrize("path", [StraightLine(), WORDS], ids=["line", "words"])
def test_it_equals_the_naive_reference(path, n_steps):
    (bundle,) = path.bundles((ONE,), (START,))
    expected, errors, sizes = naive(curved, bundle.knots()[0, :, 0].numpy(), n_steps)
    found = DiscretizedIntegratedGradients(curved, path).integrate(ONE, START, n_steps=n_steps)
    np.testing.assert_allclose(found.attributions[0], expected, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(found.integration_errors[0][0], errors, rtol=1e-9, atol=1e-11)
    assert float(found.error_percent) == pytest.approx(100 * errors.sum() / sizes, rel=1e-9)


@pytest.mark.parametrize("rows", [None, 1, 5])
def test_many_paths_share_the_gradients_at_both_ends(rows):
    path = StaggeredPath(StraightLine(), n_orders=4)
    (bundle,) = path.bundles((ONE,), (START,))
    # 2 at the ends, and 3 inside each path.
    by_path = [naive(curved, knots.numpy(), 3, with_ends=True) for knots in bundle.knots()[:, :, 0]]
    seen = []

    def recorded(x):
        seen.append(x.detach())
        return curved(x)

    dig = DiscretizedIntegratedGradients(recorded, path)
    found = dig.integrate(ONE, START, n_steps=14, internal_batch_size=rows)
    scores, errors, sizes = (np.mean(parts, axis=0) for parts in zip(*by_path, strict=True))
    np.testing.assert_allclose(found.attributions[0], scores, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(found.integration_errors[0][0], errors, rtol=1e-6, atol=1e-8)
    assert float(found.error_percent) == pytest.approx(100 * errors.sum() / sizes, rel=1e-6)
    # Their gradients come with the outputs that known sums need: no point is run twice.
    points = torch.cat(seen)
    assert len(points) == len(points.flatten(1).unique(dim=0)) == 14
    assert torch.equal(points[:2], torch.cat([START, ONE]))


def test_an_end_without_a_gradient_is_left_out():
    # The length of a vector has no gradient at 0.
    def length(x):
        return x.flatten(1).square().sum(dim=1).sqrt()

    path, x = StaggeredPath(StraightLine(), n_orders=4), ONE.repeat(2, 1, 1)
    base = torch.cat([torch.zeros_like(ONE), START])
    dig = DiscretizedIntegratedGradients(length, path)
    found = dig.integrate(x, base, n_steps=30).attributions
    torch.testing.assert_close(found.sum(dim=(1, 2)), length(x) - length(base))
    torch.testing.assert_close(found, dig.attribute(x, base, n_steps=6000), rtol=0, atol=0.05)
    for one in range(2):
        alone = dig.integrate(x[[one]], base[[one]], n_steps=30).attributions
        torch.testing.assert_close(found[[one]], alone, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("rule", ["known_sums", "adaptive"])
@pytest.mark.parametrize("at_baseline", [True, False])
def test_a_steep_end_is_contradicted_by_the_known_sum(rule, at_baseline):
    # All words are divided by one length, which is 0 at an end but for a small number.
    mix = torch.randn(6, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    weights = torch.randn(4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))

    def normalized(x):
        length = (x.square().mean(dim=(1, 2), keepdim=True) + 1e-6).sqrt()
        return ((x / length @ mix).tanh() * weights).flatten(1).sum(dim=1)

    x, base = (ONE, torch.zeros_like(ONE)) if at_baseline else (torch.zeros_like(ONE), ONE)
    dig = DiscretizedIntegratedGradients(normalized, StaggeredPath(StraightLine(), n_orders=8))
    exact = dig.attribute(x, base, n_steps=4000, method="adaptive").sum(dim=-1)
    found = dig.attribute(x, base, n_steps=34, method=rule).sum(dim=-1)
    assert float((found - exact).abs().sum() / exact.abs().sum()) < 0.5


def test_an_input_may_be_one_number_for_each_example():
    path = EnsemblePath([StraightLine()] * 3)
    x = torch.arange(3.0)
    torch.testing.assert_close(known(lambda x: x**3, path, x, 0, n_steps=9), x**3)
    pairs = torch.arange(18.0).reshape(3, 3, 2)
    got = known(lambda x, y: x.flatten(1).sum(dim=1) * y, path, (pairs, x), (0, 0), n_steps=9)
    torch.testing.assert_close(got[0].sum(dim=(1, 2)) + got[1], pairs.sum(dim=(1, 2)) * x, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("n_orders", "n_steps", "shared"), [(1, 24, False), (2, 24, False), (4, 5, False), (4, 6, True)]
)
def test_ends_are_shared_where_it_saves_gradients(n_orders, n_steps, shared):
    path = StaggeredPath(StraightLine(), n_orders=n_orders, antithetic=n_orders > 1)
    seen = []

    def recorded(x):
        seen.append(x.detach())
        return curved(x)

    found = DiscretizedIntegratedGradients(recorded, path).integrate(ONE, START, n_steps=n_steps)
    assert sum(map(len, seen)) == n_steps + (0 if shared else 2)
    assert found.n_steps == n_steps


def test_a_quadratic_function_on_a_line_is_exact_from_two_gradients_on():
    mix = torch.randn(24, 24, dtype=torch.float64, generator=torch.Generator().manual_seed(0))

    def quadratic(x):
        return ((x.flatten(1) @ mix) * x.flatten(1)).sum(dim=1)

    exact = DiscretizedIntegratedGradients(quadratic, StraightLine()).attribute(ONE, START, n_steps=2)
    for rule in ("known_sums", "adaptive"):
        for n_steps in (2, 3, 7):
            got = known(quadratic, StraightLine(), ONE, START, n_steps=n_steps, rule=rule)
            torch.testing.assert_close(got, exact, rtol=1e-9, atol=1e-9)


def error(path, n_steps, function=curved):
    exact = DiscretizedIntegratedGradients(function, path).attribute(ONE, START, n_steps=6000)
    return float((known(function, path, ONE, START, n_steps=n_steps) - exact).norm())


def test_the_error_falls_with_the_cube_on_a_smooth_piece():
    assert error(StraightLine(), 40) / error(StraightLine(), 80) > 6.5


@pytest.mark.parametrize("path", [WORDS, StaggeredPath(StraightLine(), n_orders=2)], ids=["words", "staggered"])
def test_corners_cost_one_order(path):
    # The gradient has a bend where the path has a corner.
    assert error(path, 96) / error(path, 192) > 3


def test_kinks_of_the_function_leave_one_order():
    def kinked(x):
        return (x.sum(dim=-1) - 0.3).relu().prod(dim=1) + x.sum(dim=-1).abs().sum(dim=1)

    assert error(StraightLine(), 30, kinked) / error(StraightLine(), 480, kinked) > 10


def test_intervals_have_their_neighbours_on_the_same_path():
    path = np.array([[1], [0], [0]])
    position = np.array([[0.5], [0.75], [0.25]])
    found = Intervals.between(path, position, 2)
    assert found.path.ravel().tolist() == [0, 0, 0, 1, 1]
    assert found.position[1].ravel().tolist() == [0, 0.25, 0.75, 0, 0.5]
    assert found.position[2].ravel().tolist() == [0.25, 0.75, 1, 0.5, 1]
    assert found.gradient[:, :, 0].T.tolist() == [
        [-1, -1, 2, 1],
        [-1, 2, 1, -1],
        [2, 1, -1, -1],
        [-1, -1, 0, -1],
        [-1, 0, -1, -1],
    ]
    assert len(found.take(slice(1, 3))) == 2


@pytest.mark.parametrize("rows", [1, 2, 3, 5, 8, 13])
@pytest.mark.parametrize("path", PATHS, ids=repr)
def test_blocks_of_any_size_give_the_same(path, rows):
    whole = known(curved, path, X.double(), BASE.double(), n_steps=17)
    blocks = known(curved, path, X.double(), BASE.double(), n_steps=17, internal_batch_size=3 * rows)
    torch.testing.assert_close(blocks, whole, rtol=1e-10, atol=1e-12)


def test_a_residual_goes_to_words_by_their_totals():
    # The elements of the first word cancel, so it has a small share, however large they are.
    def model(x):
        return 100 * (x[:, 0, 0] - x[:, 0, 1]) + 0.01 * x[:, 0, 0] + x[:, 1].sum(dim=1) ** 4

    x = torch.ones(1, 2, 2, dtype=torch.float64)
    got = known(model, StraightLine(), x, torch.zeros_like(x), n_steps=2)
    assert float(got.sum()) == pytest.approx(16.01, abs=1e-9)
    assert float(got[0, 0].sum()) == pytest.approx(0.01, abs=5e-3)


def test_a_word_that_the_output_ignores_gets_nothing_however_small_the_output_is():
    x = torch.ones(1, 2, dtype=torch.float64)
    for size in (1.0, 1e-10, 1e-14):
        got = known(lambda x, size=size: size * x[:, 0] ** 4, StraightLine(), x, torch.zeros_like(x), n_steps=2)
        assert got[0, 1] == 0
        assert float(got[0, 0]) == pytest.approx(size)


def test_intervals_may_be_summed_one_by_one(monkeypatch):
    expected = {rule: known(curved, PATHS[2], X, BASE, n_steps=24, rule=rule) for rule in ("known_sums", "adaptive")}
    monkeypatch.setattr("captum_dig.attribution.intervals._BLOCK", 1)
    for rule, whole in expected.items():
        torch.testing.assert_close(known(curved, PATHS[2], X, BASE, n_steps=24, rule=rule), whole, rtol=1e-4, atol=1e-5)


@dataclass(frozen=True)
class BothEnds(QuadratureRule):
    """Even nodes, both ends included."""

    known_sums: ClassVar[bool] = True

    def cells(self, lengths, n_steps):
        return RULES["riemann_trapezoid"](lengths, n_steps)


@dataclass(frozen=True)
class BothEndsFirst(BothEnds):
    """These nodes first, then others by need."""

    refines: ClassVar[bool] = True
    nodes_per_path: ClassVar[int] = 4


def test_nodes_at_the_ends_of_a_path_count():
    # The gradient at the baseline and at the input is known: no end is interpolated from one side.
    exact = DiscretizedIntegratedGradients(curved, StraightLine()).attribute(ONE, START, n_steps=6000)
    got = known(curved, StraightLine(), ONE, START, n_steps=20, rule=BothEnds())
    assert float((got - exact).norm()) < error(StraightLine(), 20)
    seen = []

    def recorded(x):
        seen.append(x.detach())
        return curved(x)

    known(recorded, StraightLine(), ONE, START, n_steps=8, rule=BothEndsFirst())
    nodes = torch.cat(seen[1:])
    assert len(nodes) == 8
    assert torch.equal(nodes[0], START[0])
    assert torch.equal(nodes[3], ONE[0])


@pytest.mark.parametrize("rule", ["known_sums", "adaptive"])
def test_a_gradient_that_is_nan_stays_with_its_word(rule):
    # The length of a vector has no gradient at 0.
    def lengths(x):
        return x.square().sum(dim=-1).sqrt().sum(dim=1)

    x = torch.tensor([[[3.0, 4.0], [1.0, 2.0], [0.0, 0.0]]])
    base = torch.tensor([[[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]])
    dig = DiscretizedIntegratedGradients(lengths, StraightLine())
    found = dig.integrate(x, base, n_steps=8, method=rule)
    torch.testing.assert_close(
        found.attributions.sum(dim=-1), torch.tensor([[4.0, 5**0.5 - 1, 0.0]]), rtol=0.01, atol=0
    )
    assert 0 < float(found.error_percent) < 5
    # A word that moves, with such a gradient, is NaN, and so is the estimate; the other words keep their scores.
    found = dig.integrate(torch.zeros(1, 2, 2), torch.tensor([[[0.0, 0.0], [1.0, 0.0]]]), n_steps=8, method=rule)
    assert float(found.attributions[0, 1].sum()) == pytest.approx(-1, rel=0.01)

    def undefined(x):
        return x[:, 0].sum(dim=1) ** 2 + (-x[:, 1].sum(dim=1)).sqrt()

    found = dig.__class__(undefined, StraightLine()).integrate(torch.ones(1, 2, 2), n_steps=8, method=rule)
    assert float(found.attributions[0, 0].sum()) == pytest.approx(4, rel=0.05)
    assert found.attributions[0, 1].isnan().all()
    assert found.error_percent.isnan().all()
