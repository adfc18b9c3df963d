import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from captum_dig import (
    DiscretizedIntegratedGradients,
    EnsemblePath,
    LayerDiscretizedIntegratedGradients,
    MonotonicPath,
    NeuronDiscretizedIntegratedGradients,
    PathError,
    PathGenerator,
    StaggeredPath,
    StraightLine,
    Vocabulary,
    convergence_report,
)
from captum_dig.quadrature import RULES
from tests.attribution.test_inputs import Sentences, nonlinear, padded_batch
from tests.paths.test_base import ENSEMBLES, PATHS, ROWS, Detour, path_name
from tests.quadrature.test_schedules import random_knots
from tests.schedules import schedule_on

X, BASE = ROWS[torch.arange(12).reshape(3, 4)], ROWS[20].expand(3, 4, 6)
WALKS = [MonotonicPath(Vocabulary(ROWS), "random_neighbor", 5, 12, seed=seed) for seed in range(3)]


@given(st.integers(0, 1000), st.sampled_from(list(RULES)), st.sampled_from(["arc", "knots"]), st.integers(1, 5))
def test_a_schedule_is_those_of_its_paths_one_behind_the_other(seed, method, spacing, n_paths):
    paths = [random_knots(seed + i) for i in range(n_paths)]
    stacked, n_steps = torch.cat(paths), 4 * n_paths + seed % n_paths
    whole = schedule_on((stacked,), method, spacing, n_steps, n_paths)
    nodes, weights = [], []
    for i, path in enumerate(paths):
        n_here = 4 + (i < seed % n_paths)
        alone = schedule_on((path,), method, spacing, n_here)
        nodes.append(alone.nodes(slice(0, n_here)))
        weights.append(alone.weights(slice(0, n_here)) / n_paths)
    assert torch.equal(whole.nodes(slice(0, n_steps)), torch.cat(nodes))
    torch.testing.assert_close(whole.weights(slice(0, n_steps)), torch.cat(weights), rtol=1e-12, atol=1e-12)
    assert whole.widths.sum(axis=0).tolist() == pytest.approx([1] * 3)


@given(st.integers(0, 1000), st.sampled_from(list(RULES)), st.sampled_from(["arc", "knots"]), st.integers(1, 40))
def test_repeating_the_last_knot_changes_not_even_the_rounding(seed, method, spacing, n_steps):
    knots, steps = random_knots(seed), slice(0, n_steps)
    waiting = torch.cat([knots, knots[-1:].expand(7, *knots.shape[1:])])
    one, other = (schedule_on((k,), method, spacing, n_steps) for k in (knots, waiting))
    assert torch.equal(one.nodes(steps), other.nodes(steps))
    assert torch.equal(one.weights(steps), other.weights(steps))


def test_an_ensemble_is_the_mean_of_its_paths():
    paths = [StraightLine(), Detour(), *WALKS]
    options = {"n_steps": 12, "method": "riemann_middle"}
    each = [DiscretizedIntegratedGradients(nonlinear, path).attribute(X, BASE, **options) for path in paths]
    got = DiscretizedIntegratedGradients(nonlinear, EnsemblePath(paths)).attribute(
        X, BASE, n_steps=60, method="riemann_middle"
    )
    torch.testing.assert_close(got, torch.stack(each).mean(dim=0), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("spacing", ["arc", "knots"])
@pytest.mark.parametrize("path", PATHS, ids=path_name)
def test_an_ensemble_of_one_is_the_path(path, spacing):
    one, other = (
        DiscretizedIntegratedGradients(nonlinear, p, spacing=spacing).attribute(X, BASE, n_steps=17, method=method)
        for p, method in ((path, "riemann_left"), (EnsemblePath([path]), "riemann_left"))
    )
    assert torch.equal(one, other)


def test_ensembles_in_an_ensemble_count_path_by_path():
    path = EnsemblePath([EnsemblePath(WALKS), StraightLine()])
    assert torch.equal(path(X, BASE), EnsemblePath([*WALKS, StraightLine()])(X, BASE))


@pytest.mark.parametrize("spacing", ["arc", "knots"])
@pytest.mark.parametrize("path", ENSEMBLES, ids=path_name)
@given(st.sampled_from(list(RULES)), st.integers(4, 60))
def test_a_linear_model_gets_its_exact_attribution(path, spacing, method, n_steps):
    weight = torch.linspace(-1, 2, 6)
    dig = DiscretizedIntegratedGradients(lambda x: (x * weight).sum(dim=(1, 2)), path, spacing=spacing)
    got, delta = dig.attribute(X, BASE, n_steps=n_steps, method=method, return_convergence_delta=True)
    torch.testing.assert_close(got, weight * (X - BASE), rtol=1e-5, atol=1e-5)
    assert float(delta.abs().max()) < 5e-5


@pytest.mark.parametrize("path", ENSEMBLES, ids=path_name)
def test_attributions_are_complete(path):
    dig = DiscretizedIntegratedGradients(nonlinear, path)
    assert float(dig.attribute(X, BASE, n_steps=800, return_convergence_delta=True)[1].abs().max()) < 5e-3
    report = convergence_report(dig, X, BASE, n_steps=800)
    assert report.converged
    assert report.endpoint_mismatch == (0.0,) * 3


@pytest.mark.parametrize("multiply", [True, False])
@pytest.mark.parametrize("path", ENSEMBLES, ids=path_name)
def test_a_batch_is_its_rows(path, multiply):
    dig = DiscretizedIntegratedGradients(nonlinear, path, multiply)
    x = X.clone()
    x[1, 2:] = BASE[1, 2:]
    together = dig.attribute(x, BASE, n_steps=23)
    for i in range(3):
        alone = dig.attribute(x[i : i + 1], BASE[i : i + 1], n_steps=23)
        torch.testing.assert_close(together[i : i + 1], alone, rtol=0, atol=1e-6)


@pytest.mark.parametrize("path", ENSEMBLES, ids=path_name)
def test_without_the_input_factor_it_is_the_attribution_divided_by_the_difference(path):
    whole, mean = (DiscretizedIntegratedGradients(nonlinear, path, m).attribute(X, BASE) for m in (True, False))
    torch.testing.assert_close(mean * (X - BASE), whole, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_dtypes_are_kept(dtype):
    dig = DiscretizedIntegratedGradients(nonlinear, StaggeredPath(StraightLine()))
    assert dig.attribute(X.to(dtype), BASE.to(dtype)).dtype == dtype


def test_layers_and_neurons_take_ensembles():
    model = Sentences()
    ids, mask, _ = padded_batch()
    path = StaggeredPath(MonotonicPath(Vocabulary(ROWS), n_anchors=5, n_neighbors=12))
    layer = LayerDiscretizedIntegratedGradients(model, model.table, path)
    attributions, delta = layer.attribute(
        ids, torch.zeros_like(ids), 1, mask, n_steps=400, return_convergence_delta=True
    )
    assert attributions.shape == (16, 9, 6)
    assert float(delta.abs().max()) < 1e-2
    neuron = NeuronDiscretizedIntegratedGradients(model.read, model.head, path)
    got = neuron.attribute(model.table(ids), (1,), model.table(torch.zeros_like(ids)), mask, n_steps=400)
    torch.testing.assert_close(got, attributions, rtol=0, atol=1e-6)


def test_every_path_needs_a_gradient():
    with pytest.raises(
        ValueError,
        match="n_steps must be at least 4, one for each path of the ensemble, got 3; take more steps or fewer paths",
    ):
        DiscretizedIntegratedGradients(nonlinear, StaggeredPath(StraightLine(), n_orders=4)).attribute(
            X, BASE, n_steps=3
        )
    with pytest.raises(ValueError, match="n_steps must be an integer of at least 1, got 0"):
        schedule_on((random_knots(0),), "riemann_left", "arc", 0, 2)


class Several(PathGenerator):
    """As many paths as the input is wide, which is not allowed for inputs of different width."""

    def knots(self, inputs, baselines):
        return torch.stack([baselines, inputs]).expand(inputs.shape[-1], 2, *inputs.shape)


class AsLong(PathGenerator):
    """A path with as many pieces as the input is wide."""

    def knots(self, inputs, baselines):
        return torch.stack(
            [torch.lerp(baselines, inputs, share) for share in torch.linspace(0, 1, inputs.shape[-1] + 1)]
        )


def test_tuples_of_inputs_agree_in_their_paths():
    def model(x, y):
        return x.sum(dim=1) * y.sum(dim=1)

    x, y = torch.rand(2, 3), torch.rand(2, 3)
    for path in (Several(), StaggeredPath(StraightLine()), EnsemblePath([StraightLine(), StraightLine()])):
        dig = DiscretizedIntegratedGradients(model, path)
        got, delta = dig.attribute((x, y), n_steps=60, return_convergence_delta=True)
        assert [a.shape for a in got] == [(2, 3), (2, 3)]
        assert float(delta.abs().max()) < 1e-2
    with pytest.raises(
        PathError, match=r"Several must give every input of a tuple the same number of paths, got \[3, 4\]"
    ):
        DiscretizedIntegratedGradients(model, Several()).attribute((x, torch.rand(2, 4)))
    remedy = (
        r"AsLong must give .* the same number of knots, got \[4, 5\]; take a PathPerInput with a path for each input"
    )
    with pytest.raises(PathError, match=remedy):
        DiscretizedIntegratedGradients(model, AsLong()).attribute((x, torch.rand(2, 4)))


@pytest.mark.parametrize(
    ("paths", "error", "message"),
    [
        ([], ValueError, "paths must hold at least one PathGenerator, got none"),
        ([StraightLine(), "greedy"], TypeError, "paths must hold PathGenerators, got str"),
    ],
)
def test_wrong_arguments(paths, error, message):
    with pytest.raises(error, match=message):
        EnsemblePath(paths)


def test_it_prints_what_it_is_made_of():
    path = EnsemblePath([StraightLine(), StaggeredPath(StraightLine(), 0.25, 2, seed=3)])
    assert repr(path) == (
        "EnsemblePath([StraightLine(), StaggeredPath(StraightLine(), width=0.25, n_orders=2, seed=3, antithetic=True)])"
    )
    assert path.monotone
    assert not EnsemblePath([StraightLine(), Detour()]).monotone
