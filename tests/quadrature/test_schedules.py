import time

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from captum_dig.quadrature import RULES, Cells, QuadratureRule, rules
from tests.schedules import schedule_on

METHODS = list(RULES)


def random_knots(seed, n_knots=6, batch=3, shape=(4, 5)):
    return torch.randn(n_knots, batch, *shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def integrate(gradient, knots, method, n_steps, spacing="arc"):
    """Sum of gradient times weight over all nodes of a path of shape (P, B, ...)."""
    schedule = schedule_on((knots,), method, spacing, n_steps)
    steps = slice(0, n_steps)
    return (gradient(schedule.nodes(steps)) * schedule.weights(steps)).sum(dim=0)


@given(st.integers(0, 1000), st.sampled_from(METHODS), st.sampled_from(["arc", "knots"]), st.integers(1, 40))
def test_weights_telescope(seed, method, spacing, n_steps):
    knots = random_knots(seed)
    schedule = schedule_on((knots,), method, spacing, n_steps)
    weights = schedule.weights(slice(0, n_steps))
    torch.testing.assert_close(weights.sum(dim=0), knots[-1] - knots[0], rtol=1e-12, atol=1e-12)
    assert schedule.widths.sum(axis=0).tolist() == pytest.approx([1] * 3)


@given(st.integers(0, 1000), st.sampled_from(METHODS), st.sampled_from(["arc", "knots"]), st.integers(1, 40))
def test_every_node_lies_on_the_stretch_that_its_weight_spans(seed, method, spacing, n_steps):
    knots = random_knots(seed).cumsum(dim=0).abs().cumsum(dim=0)  # rising in every coordinate, so "between" is testable
    schedule = schedule_on((knots,), method, spacing, n_steps)
    steps = slice(0, n_steps)
    nodes, weights = schedule.nodes(steps), schedule.weights(steps)
    right = knots[0] + weights.cumsum(dim=0)
    assert (nodes <= right + 1e-9).all()
    assert (nodes >= right - weights - 1e-9).all()


@given(st.integers(0, 1000), st.sampled_from(METHODS), st.integers(1, 30), st.integers(1, 12))
def test_blocks_of_steps_are_the_whole(seed, method, n_steps, block):
    knots = random_knots(seed)
    schedule = schedule_on((knots,), method, "arc", n_steps)
    parts = [slice(i, min(i + block, n_steps)) for i in range(0, n_steps, block)]
    assert torch.equal(torch.cat([schedule.nodes(p) for p in parts]), schedule.nodes(slice(0, n_steps)))
    assert torch.equal(torch.cat([schedule.weights(p) for p in parts]), schedule.weights(slice(0, n_steps)))


@given(st.integers(0, 1000), st.sampled_from(METHODS), st.integers(1, 30))
def test_an_example_does_not_depend_on_its_batch_or_its_padding(seed, method, n_steps):
    knots = random_knots(seed).float()
    steps = slice(0, n_steps)
    padded = torch.cat([knots, torch.full((6, 3, 3, 5), 0.7)], dim=2)
    together = schedule_on((padded,), method, "arc", n_steps)
    for i in range(3):
        one = knots[:, i : i + 1].contiguous()
        alone = schedule_on((one,), method, "arc", n_steps)
        assert torch.equal(together.weights(steps)[:, i, :4], alone.weights(steps)[:, 0])
        assert torch.equal(together.nodes(steps)[:, i, :4], alone.nodes(steps)[:, 0])


@given(st.integers(0, 1000), st.sampled_from(METHODS), st.integers(1, 60), st.integers(0, 5), st.integers(1, 30))
def test_repeating_a_knot_changes_nothing(seed, method, n_steps, where, times):
    knots = random_knots(seed)
    repeated = torch.cat([knots[:where], knots[where : where + 1].expand(times, *knots.shape[1:]), knots[where:]])
    torch.testing.assert_close(
        integrate(torch.cos, repeated, method, n_steps),
        integrate(torch.cos, knots, method, n_steps),
        rtol=1e-9,
        atol=1e-9,
    )


ORDERS = {"riemann_left": 1, "riemann_right": 1, "riemann_middle": 2, "riemann_trapezoid": 2}


@pytest.mark.parametrize(("method", "order"), ORDERS.items())
def test_order_of_convergence_on_a_straight_line(method, order):
    knots = torch.tensor([0.0, 2.0], dtype=torch.float64)[:, None, None]
    exact = np.sin(2.0)
    errors = [abs(float(integrate(torch.cos, knots, method, n)) - exact) for n in (20, 40, 80)]
    rates = np.log2(np.array(errors[:-1]) / errors[1:])
    assert rates == pytest.approx(order, abs=0.1)


def test_gauss_legendre_is_exact_for_polynomials():
    knots = torch.tensor([0.0, 2.0], dtype=torch.float64)[:, None, None]
    for n in range(1, 8):
        degree = 2 * n - 1
        got = float(integrate(lambda x, d=degree: x**d, knots, "gausslegendre", n))
        assert got == pytest.approx(2 ** (degree + 1) / (degree + 1), rel=1e-12)


def test_gauss_legendre_is_exact_on_every_piece_once_there_are_enough_nodes():
    knots = random_knots(0, n_knots=5, batch=2, shape=(3,))
    # A bilinear form that is no gradient of anything: its integral depends on the path.
    matrix = torch.randn(3, 3, dtype=torch.float64)
    got = integrate(lambda x: x @ matrix, knots, "gausslegendre", 60)
    steps = knots.diff(dim=0)
    middles = (knots[:-1] + knots[1:]) / 2
    torch.testing.assert_close(got, ((middles @ matrix) * steps).sum(dim=0), rtol=1e-11, atol=1e-11)


def test_the_paper_s_rule_is_left_nodes_at_the_knots():
    knots = random_knots(3)
    schedule = schedule_on((knots,), "riemann_left", "knots", 5)
    torch.testing.assert_close(schedule.nodes(slice(0, 5)), knots[:-1])
    torch.testing.assert_close(schedule.weights(slice(0, 5)), knots.diff(dim=0))


def test_arc_spacing_gives_every_cell_the_same_length():
    knots = torch.tensor([[0.0, 0.0], [3.0, 0.0], [3.0, 1.0]])[:, None]
    weights = schedule_on((knots,), "riemann_middle", "arc", 4).weights(slice(0, 4))
    torch.testing.assert_close(weights[:, 0], torch.tensor([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]))


def test_tuples_share_one_parameter():
    first, second = random_knots(0), random_knots(1, shape=(2,))
    schedule = schedule_on((first, second), "riemann_middle", "arc", 7)
    joint = torch.cat([first.flatten(2), second.flatten(2)], dim=2)
    expected = schedule_on((joint,), "riemann_middle", "arc", 7)
    both = torch.cat([schedule.weights(slice(0, 7), i).flatten(2) for i in range(2)], dim=2)
    torch.testing.assert_close(both, expected.weights(slice(0, 7)), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("n_steps", [1, 2, 3, 50])
def test_paths_that_stand_still(method, n_steps):
    knots = torch.ones(6, 2, 3)
    knots[:, 1] = torch.linspace(0, 1, 6)[:, None]
    knots[1:3, 1] = knots[0, 1]
    schedule = schedule_on((knots,), method, "arc", n_steps)
    weights = schedule.weights(slice(0, n_steps))
    assert not weights[:, 0].any()
    torch.testing.assert_close(weights[:, 1].sum(dim=0), torch.ones(3))
    assert schedule.nodes(slice(0, n_steps)).isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_dtypes(dtype):
    knots = random_knots(0).to(dtype)
    schedule = schedule_on((knots,), "gausslegendre", "arc", 9)
    assert schedule.nodes(slice(0, 9)).dtype == dtype
    assert schedule.weights(slice(0, 9)).dtype == torch.promote_types(dtype, torch.float32)


class Outside(QuadratureRule):
    def cells(self, lengths, n_steps):
        edges = np.repeat(np.linspace(0, 1, n_steps + 1)[:, None], lengths.shape[1], axis=1)
        return Cells(edges, edges[:-1] - 0.1)


def test_a_rule_is_checked():
    with pytest.raises(ValueError, match=r"Outside.cells must cover \[0, 1\] with every node inside its cell"):
        Outside()(np.ones((1, 2)), 3)
    with pytest.raises(ValueError, match="n_steps must be an integer of at least 1, got 0"):
        RULES["riemann_left"](np.ones((1, 2)), 0)


def test_unknown_names():
    knots = random_knots(0)
    with pytest.raises(
        ValueError,
        match="method must be one of 'gausslegendre', 'riemann_left'.*got 'greedy'; the anchor search is `strategy`",
    ):
        schedule_on((knots,), "greedy", "arc", 3)
    with pytest.raises(ValueError, match="spacing must be one of 'arc', 'knots', got 'even'"):
        schedule_on((knots,), "riemann_left", "even", 3)


@pytest.mark.parametrize("n", [257, 300, 701])
def test_many_gauss_nodes_are_those_of_numpy(n):
    nodes, weights = np.polynomial.legendre.leggauss(n)
    places, cuts = rules._gauss(n)
    np.testing.assert_allclose(places, (nodes + 1) / 2, rtol=0, atol=1e-15)
    np.testing.assert_allclose(cuts, np.cumsum(weights / 2), rtol=0, atol=2e-14)


def test_few_gauss_nodes_are_those_of_numpy_to_the_last_bit():
    for n in (1, 2, 50, 199, 200, 256):
        assert np.array_equal(rules._gauss(n)[0], (np.polynomial.legendre.leggauss(n)[0] + 1) / 2)


def test_thousands_of_gauss_nodes_are_soon_there_and_exact():
    started = time.perf_counter()
    cells = RULES["gausslegendre"](np.ones((1, 1)), 8000)
    assert time.perf_counter() - started < 20  # NumPy's own take more than 40 s
    weights = np.diff(cells.edges[:, 0])
    assert weights @ cells.nodes[:, 0] ** 9 == pytest.approx(1 / 10, abs=1e-14)
    assert weights @ np.cos(20 * cells.nodes[:, 0]) == pytest.approx(np.sin(20) / 20, abs=1e-14)
