"""Known sums whose nodes go where the indicators are largest, and gradients that are kept to go on with."""

import math

import pytest
import torch
from torch import nn

from captum_dig import (
    DiscretizedIntegratedGradients,
    LayerDiscretizedIntegratedGradients,
    NeuronDiscretizedIntegratedGradients,
    PathPerInput,
    StaggeredPath,
    StraightLine,
)
from captum_dig.attribution import Integral
from captum_dig.attribution.integral import FEWEST_DRAWS, standard_error, word_error
from tests.attribution.test_summing import BASE, MIX, PATHS, ROWS, WORDS, Reader, X, curved, known

FREE = StaggeredPath(StraightLine())


def adaptive(function, path, x=X, base=BASE, **options):
    return known(function, path, x, base, rule="adaptive", **options)


@pytest.mark.parametrize("path", PATHS, ids=repr)
def test_it_tends_to_the_integral_and_does_not_depend_on_the_batch(path):
    exact = DiscretizedIntegratedGradients(curved, path).attribute(X, BASE, n_steps=1200)
    got = adaptive(curved, path, n_steps=240)
    assert float((got - exact).norm() / exact.norm()) < 0.02
    got = adaptive(curved, path, n_steps=24)
    for some in (slice(0, 1), slice(1, 3)):
        one = adaptive(curved, path, X[some], BASE[some], n_steps=24)
        torch.testing.assert_close(one, got[some], rtol=1e-4, atol=1e-5)
    blocks = adaptive(curved, path, n_steps=24, internal_batch_size=7)
    torch.testing.assert_close(blocks, got, rtol=1e-4, atol=1e-5)


def test_nodes_go_where_the_function_bends():
    # Flat but for a step at 0.9 of the way, which even nodes meet too late.
    def step(x):
        return torch.sigmoid(200 * (x[:, 0, 0] - 0.9)) * x[:, 0, 1] + 0 * x.sum(dim=(1, 2))

    x, base = torch.ones(1, 1, 2, dtype=torch.float64), torch.zeros(1, 1, 2, dtype=torch.float64)
    exact = DiscretizedIntegratedGradients(step, StraightLine()).attribute(x, base, n_steps=4000)
    errors = {
        method: float(
            (
                DiscretizedIntegratedGradients(step, StraightLine()).attribute(x, base, method=method, n_steps=40)
                - exact
            ).norm()
        )
        for method in ("known_sums", "adaptive")
    }
    assert errors["adaptive"] < errors["known_sums"] / 1.5


def test_a_few_gradients_for_each_path_are_even():
    for n_steps in (8, 10):
        got = adaptive(curved, PATHS[2], n_steps=n_steps)
        torch.testing.assert_close(got, known(curved, PATHS[2], n_steps=n_steps), rtol=1e-4, atol=1e-5)
    assert not torch.allclose(adaptive(curved, PATHS[2], n_steps=12), known(curved, PATHS[2], n_steps=12), atol=1e-5)


@pytest.mark.parametrize(
    ("path", "n_steps", "sizes"),
    [
        # The outputs at both ends, then half of the gradients.
        (StraightLine(), 48, [2, 24, 6, 6, 6, 6]),
        # The two gradients at the ends serve all paths. Then each of 13 paths has two.
        (StaggeredPath(StraightLine(), n_orders=12, inner_share=0.5), 48, [2, 26, 6, 6, 6, 2]),
        (StaggeredPath(StraightLine(), 0.3, inner_share=0.5), 48, [2, 26, 6, 6, 6, 2]),
        (StaggeredPath(StraightLine(), n_orders=12, inner_share=0.5), 96, [2, 46, 12, 12, 12, 12]),
        (StaggeredPath(StraightLine(), n_orders=12, inner_share=0.5), 16, [2, 14]),
    ],
)
def test_it_begins_with_half_of_the_gradients_and_two_for_each_path(path, n_steps, sizes):
    seen = []

    def counted(x):
        seen.append(len(x))
        return curved(x)

    adaptive(counted, path, X[:1], BASE[:1], n_steps=n_steps)
    assert seen == sizes


def test_it_begins_as_known_sums_do():
    for path in PATHS:
        dig = DiscretizedIntegratedGradients(curved, path)
        refinement = dig.refine(X, BASE, n_steps=24)
        expected = known(curved, path, n_steps=24)
        torch.testing.assert_close(refinement.integral().attributions, expected, rtol=1e-4, atol=1e-5)


def test_gradients_are_kept_and_both_ends_are_run_once():
    rows = []

    def counted(x):
        rows.append(len(x))
        return curved(x)

    refinement = DiscretizedIntegratedGradients(counted, FREE).refine(X, BASE, n_steps=24)
    assert (refinement.n_steps, refinement.n_draws) == (24, 3)
    refinement.add_nodes(10)
    refinement.add_orders(24)
    refinement.add_nodes(100)
    refinement.integral()
    assert (refinement.n_steps, refinement.n_draws) == (158, 7)
    # The gradients at both ends count, and serve all orders.
    assert sum(rows) == 3 * 158


def test_further_orders_are_other_orders_and_all_count_alike():
    refinement = DiscretizedIntegratedGradients(curved, FREE).refine(X, BASE, n_steps=48)
    first = refinement.integral()
    refinement.add_orders(48)
    both = refinement.integral()
    (one,), (draws,) = first.draws, both.draws
    assert one.shape == (7, 3, 4)
    torch.testing.assert_close(draws[:7], one, rtol=1e-4, atol=1e-5)
    assert len(draws) == 7 + 8
    assert float((draws[7:, None] - one).flatten(2).norm(dim=-1).min()) > 1e-3
    torch.testing.assert_close(draws.mean(dim=0), both.attributions.sum(dim=-1), rtol=1e-4, atol=1e-5)
    with pytest.raises(
        ValueError, match=r"the number of orders must be free, got StraightLine\(\); take n_orders=None"
    ):
        DiscretizedIntegratedGradients(curved, StraightLine()).refine(X, BASE, n_steps=4).add_orders(4)


def test_orders_that_cannot_be_added_leave_the_others():
    refinement = DiscretizedIntegratedGradients(curved, FREE).refine(X, BASE, n_steps=14)
    before = refinement.integral()
    with pytest.raises(ValueError, match="n_steps must be at least 2, one for each path of the ensemble, got 1"):
        refinement.add_orders(1)
    after = refinement.integral()
    torch.testing.assert_close(after.attributions, before.attributions)
    assert (after.n_steps, len(after.draws[0])) == (14, len(before.draws[0]))


@pytest.mark.filterwarnings("ignore:Multiple layers provided")
@pytest.mark.parametrize("rule", ["known_sums", "adaptive"])
@pytest.mark.parametrize("rows", [None, 1])
def test_an_output_may_depend_on_a_layer_at_one_end_alone(rule, rows):
    class Sometimes(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Identity(), nn.Identity()

        def forward(self, x):
            hidden = self.first(x)
            gate = self.second(x)
            product = hidden.sum(dim=(1, 2))
            return product * gate.sum(dim=(1, 2)).sin() if gate.any() else product

    model = Sometimes()
    layers = [model.first, model.second]
    dig = LayerDiscretizedIntegratedGradients(model, layers, StaggeredPath(StraightLine(), n_orders=4))
    options = {"n_steps": 20, "method": rule, "internal_batch_size": rows, "grad_kwargs": {"allow_unused": True}}
    one, other = dig.attribute(X[:1], torch.zeros_like(X[:1]), **options)
    torch.testing.assert_close(one.sum() + other.sum(), model(X[:1])[0])


@pytest.mark.parametrize("rule", ["known_sums", "adaptive", "gausslegendre"])
@pytest.mark.parametrize("path", [*PATHS, FREE], ids=repr)
def test_the_mean_over_draws_is_the_attribution(path, rule):
    found = DiscretizedIntegratedGradients(curved, path).integrate(X, BASE, n_steps=26, method=rule)
    assert isinstance(found, Integral)
    (draws,) = found.draws
    assert len(draws) == {"StaggeredPath": {4: 2, 6: 3, None: 4 if rule != "gausslegendre" else 1}}.get(
        type(path).__name__, {}
    ).get(getattr(path, "n_orders", 0), 1)
    torch.testing.assert_close(draws.mean(dim=0), found.attributions.sum(dim=-1), rtol=1e-4, atol=1e-5)
    assert (found.error_percent is None) == (rule == "gausslegendre")
    assert found.word_errors is None


def test_the_error_of_a_word_is_that_of_the_orders_and_that_of_the_integration():
    found = DiscretizedIntegratedGradients(curved, FREE).integrate(X, BASE, n_steps=2 + 3 * 2 * FEWEST_DRAWS)
    (errors,), (draws,), (integration,) = found.word_errors, found.draws, found.integration_errors
    assert errors.shape == integration.shape == (3, 4)
    # Half of Student's t with 5 degrees of freedom, at two normal standard deviations.
    spread = standard_error(draws) * 2.649 / 2
    torch.testing.assert_close(errors.square(), spread.square() + math.pi / 2 * integration.square(), rtol=1e-3, atol=0)
    # Two errors cover the mean over many orders for most words.
    limit = known(curved, StaggeredPath(StraightLine(), n_orders=256, seed=9), n_steps=2048).sum(dim=-1)
    far = (found.attributions.sum(dim=-1) - limit).abs() > 2 * errors
    assert int(far.sum()) <= 1


def test_each_input_has_the_errors_of_its_words():
    dig = DiscretizedIntegratedGradients(lambda x, y: curved(x) * (1 + y.sum(dim=-1).sin().sum(dim=1)), FREE)
    both = dig.integrate((X, X[:, :2]), (BASE, BASE[:, :2]), n_steps=20)
    assert [one.shape for one in both.integration_errors] == [(3, 4), (3, 2)]
    # The same words as one input. The second input shares the windows of the first two.
    joined = DiscretizedIntegratedGradients(
        lambda x: curved(x[:, :4]) * (1 + x[:, 4:].sum(dim=-1).sin().sum(dim=1)),
        FREE.grouped(torch.tensor([[0, 1, 2, 3, 0, 1]]).expand(3, -1)),
    ).integrate(torch.cat([X, X[:, :2]], dim=1), torch.cat([BASE, BASE[:, :2]], dim=1), n_steps=20)
    torch.testing.assert_close(
        torch.cat(both.integration_errors, dim=1), joined.integration_errors[0], rtol=1e-3, atol=1e-5
    )


def test_words_that_rest_have_no_error():
    still = DiscretizedIntegratedGradients(curved, FREE).integrate(BASE, BASE, n_steps=48)
    assert float(torch.cat([*still.word_errors, *still.integration_errors]).abs().max()) == 0


def test_without_an_estimate_the_error_of_a_word_is_that_of_the_orders():
    dig = DiscretizedIntegratedGradients(curved, StaggeredPath(StraightLine(), n_orders=12))
    found = dig.integrate(X, BASE, n_steps=24, method="gausslegendre")
    assert found.integration_errors is None
    torch.testing.assert_close(found.word_errors[0], standard_error(found.draws[0]) * 2.649 / 2, rtol=1e-3, atol=0)


@pytest.mark.parametrize(("degrees", "quantile"), [(5, 2.649), (6, 2.517), (10, 2.284), (30, 2.087)])
def test_few_draws_say_less_about_their_spread(degrees, quantile):
    draws = torch.arange(degrees + 1.0)
    torch.testing.assert_close(2 * word_error(draws), quantile * standard_error(draws), rtol=3e-4, atol=0)


def test_two_word_errors_cover_a_normal_error_of_the_integration():
    errors = torch.randn(100_000, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    estimate = errors.abs().mean().expand(len(errors))
    covered = errors.abs() <= 2 * word_error(torch.zeros(6, len(errors)), estimate)
    assert covered.double().mean() == pytest.approx(0.9545, abs=2e-3)


def test_a_free_number_of_orders_follows_the_gradients_and_the_rule():
    for n_steps, rule, n_orders in (
        (48, "known_sums", 14),
        (50, "gausslegendre", 4),
        (3, "known_sums", 2),
        (24, "riemann_left", 2),
    ):
        free, fixed = (
            DiscretizedIntegratedGradients(curved, path).attribute(X, BASE, n_steps=n_steps, method=rule)
            for path in (FREE, StaggeredPath(StraightLine(), n_orders=n_orders))
        )
        assert torch.equal(free, fixed)


def test_tuples_layers_neurons_and_half_precision():
    def model(x, y, scale):
        return (torch.tanh(x.sum(dim=1)) * y.sum(dim=1, keepdim=True))[:, :3] * scale[:, None]

    y, scale = torch.rand(3, 5), torch.tensor([1.0, 2.0, 3.0])
    path = StaggeredPath(PathPerInput(WORDS, StraightLine()), n_orders=2)
    dig = DiscretizedIntegratedGradients(model, path)
    options = {"n_steps": 20, "internal_batch_size": 6, "return_convergence_delta": True, "method": "adaptive"}
    parts, delta = dig.attribute((X, y), (BASE, 0), [0, 1, 2], scale, **options)
    assert [part.shape for part in parts] == [X.shape, y.shape]
    assert float(delta.abs().max()) < 1e-4

    torch.manual_seed(0)
    reader = Reader()
    ids, base = torch.tensor([[1, 2, 3], [4, 5, 0]]), torch.zeros(2, 3, dtype=torch.int64)
    layer = LayerDiscretizedIntegratedGradients(reader, reader.table, FREE)
    got, delta = layer.attribute(ids, base, torch.tensor([0, 1]), **options)
    assert got.shape == (2, 3, 6)
    assert float(delta.abs().max()) < 1e-5

    linear = nn.Linear(24, 5)
    net = nn.Sequential(nn.Flatten(), linear, nn.Tanh(), nn.Linear(5, 2))
    neuron = NeuronDiscretizedIntegratedGradients(net, net[2], FREE)
    got = neuron.attribute(X, 2, BASE, method="adaptive", n_steps=16)
    change = torch.tanh(linear(X.flatten(1)))[:, 2] - torch.tanh(linear(BASE.flatten(1)))[:, 2]
    torch.testing.assert_close(got.sum(dim=(1, 2)), change, rtol=1e-4, atol=1e-5)

    half = DiscretizedIntegratedGradients(lambda x: torch.tanh(x @ MIX.to(x.dtype)).sum(dim=(1, 2)), FREE)
    got = half.attribute(X.bfloat16(), BASE.bfloat16(), method="adaptive", n_steps=16)
    assert got.dtype == torch.float32


def test_only_what_moves_has_scores_and_a_lone_word_has_no_error():
    x = X.clone()
    x[:, 1:] = BASE[:, 1:]
    for path in PATHS:
        found = DiscretizedIntegratedGradients(curved, path).integrate(x, BASE, n_steps=12, method="adaptive")
        assert not found.attributions[:, 1:].any()
        torch.testing.assert_close(found.attributions[:, 0].sum(dim=-1), curved(x) - curved(BASE), rtol=1e-4, atol=1e-5)
        assert float(found.error_percent.max()) < 1e-3


def test_wrong_numbers():
    dig = DiscretizedIntegratedGradients(curved, PATHS[2])
    with pytest.raises(ValueError, match="n_steps must be at least 4, one for each path of the ensemble, got 3"):
        dig.refine(X, BASE, n_steps=3)
    with pytest.raises(ValueError, match="n_steps must be at least 4, one for each path of the ensemble, got 3"):
        dig.attribute(X, BASE, n_steps=3, method="adaptive")
    refinement = DiscretizedIntegratedGradients(curved, FREE).refine(X, BASE, n_steps=8)
    before = refinement.integral()
    for add, n_steps, message in (
        (refinement.add_nodes, 0, "n_steps must be an integer of at least 1, got 0"),
        (refinement.add_orders, 2.5, "n_steps must be an integer of at least 1, got 2.5"),
        (refinement.add_orders, 1, "n_steps must be at least 2, one for each path of the ensemble, got 1"),
    ):
        with pytest.raises(ValueError, match=message):
            add(n_steps)
    # Nothing is lost by a wrong number.
    assert torch.equal(refinement.integral().attributions, before.attributions)
    far = torch.full((1, 2, 3), 1e30)
    with pytest.raises(ValueError, match="must differ by less than about 1e18"):
        DiscretizedIntegratedGradients(lambda x: x.sum(dim=(1, 2)), StraightLine()).refine(far, -far)
    assert ROWS.shape == (60, 6)
