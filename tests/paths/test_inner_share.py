"""Staggered paths of which the inner path has a share of its own in the mean."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from captum_dig import DiscretizedIntegratedGradients, EnsemblePath, StaggeredPath, StraightLine
from captum_dig.attribution.integral import standard_error
from captum_dig.paths.means import Mean
from captum_dig.quadrature.schedules import counts_on
from tests.attribution.test_summing import BASE, MIX, WORDS, X, curved

INNER = {"line": StraightLine(), "words": WORDS}


def integrate(path, n_steps, rule="known_sums", x=X, base=BASE, function=curved):
    return DiscretizedIntegratedGradients(function, path).integrate(
        x.double(), base.double(), n_steps=n_steps, method=rule
    )


def mixed(share, inner="line", **options):
    return StaggeredPath(INNER[inner], 0.3, inner_share=share, **{"n_orders": 4, **options})


@pytest.mark.parametrize("inner", INNER)
@pytest.mark.parametrize("rule", ["known_sums", "adaptive", "gausslegendre", "riemann_trapezoid"])
def test_the_mean_takes_the_share_of_the_inner_path(inner, rule):
    path = EnsemblePath([INNER[inner]])
    alone, orders = integrate(path, 600, rule), integrate(StaggeredPath(INNER[inner], 0.3, n_orders=4), 2400, rule)
    together = integrate(mixed(0.25, inner), 3000, rule)
    expected = 0.25 * alone.attributions + 0.75 * orders.attributions
    torch.testing.assert_close(together.attributions, expected, rtol=0, atol=2e-4)
    spreads = [standard_error(found.draws[0]) for found in (together, orders)]
    torch.testing.assert_close(spreads[0], 0.75 * spreads[1], rtol=0, atol=2e-4)
    torch.testing.assert_close(together.draws[0].mean(dim=0), together.attributions.sum(dim=-1))


@pytest.mark.parametrize("rule", ["known_sums", "adaptive"])
@given(st.integers(0, 10**6), st.floats(0.01, 0.99), st.integers(0, 3), st.integers(14, 60))
def test_sums_and_linear_functions_are_exact(rule, seed, share, n_pairs, n_steps):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(2, 5, 3, dtype=torch.float64, generator=generator)
    path = mixed(share, n_orders=2 * n_pairs or None, seed=seed)
    found = integrate(path, n_steps, rule, x, torch.zeros_like(x), lambda x: x.sum(dim=-1).cos().prod(dim=1))
    change = x.sum(dim=-1).cos().prod(dim=1) - 1
    torch.testing.assert_close(found.attributions.sum(dim=(1, 2)), change)
    line = integrate(path, n_steps, rule, x, torch.zeros_like(x), lambda x: (x @ MIX[:3, 0].double()).sum(dim=1))
    torch.testing.assert_close(line.attributions, x * MIX[:3, 0].double())


@pytest.mark.parametrize("rule", ["known_sums", "adaptive", "gausslegendre"])
def test_a_batch_is_its_rows(rule):
    for path in (mixed(0.4), mixed(0.4, "words"), mixed(0.4, n_orders=None)):
        together = integrate(path, 48, rule)
        for row in range(len(X)):
            alone = integrate(path, 48, rule, X[row : row + 1], BASE[row : row + 1])
            torch.testing.assert_close(together.attributions[row : row + 1], alone.attributions, rtol=0, atol=1e-9)


def test_the_inner_path_takes_more_gradients_than_an_order():
    path = mixed(0.5, n_orders=None).sized((48 - 2) // 3)
    assert (path.n_orders, path.n_paths, path.n_draws) == (12, 13, 6)
    assert counts_on(Mean.of([1, 12], [0.5, None]), 46) == [10] + [3] * 12
    # The orders may have slightly fewer than 3 each, so that there are more of them.
    path = mixed(0.5, n_orders=None).sized((24 - 2) // 3)
    assert (path.n_orders, path.n_paths, path.n_draws) == (6, 7, 3)
    assert counts_on(Mean.of([1, 6], [0.5, None]), 22) == [6, 3, 3, 3, 3, 2, 2]
    # Too few for so many parts: the first paths get one more.
    assert counts_on(Mean.of([1, 12], [0.5, None]), 14) == [2] + [1] * 12
    with pytest.raises(ValueError, match="n_steps must be at least 3, one for each path of the ensemble, got 2"):
        integrate(mixed(0.5, n_orders=None), 2)


def test_further_orders_leave_the_share_as_it_is():
    seen = []

    def recorded(x):
        seen.append(x.detach())
        return curved(x)

    path = mixed(0.5, n_orders=None)
    refinement = DiscretizedIntegratedGradients(recorded, path).refine(X[:1].double(), BASE[:1].double(), n_steps=48)
    refinement.add_orders(48)
    refinement.add_nodes(1000)
    points = torch.cat(seen)
    assert len(points) == 1096
    assert len(points.flatten(1).unique(dim=0)) == 1096
    assert refinement.n_draws == 6 + 8
    found = refinement.integral()
    seeds = [path.seed, path.sized(16, block=1).seed]
    first, further = (
        integrate(StaggeredPath(StraightLine(), 0.3, n_orders, seed=seed), 3000).attributions
        for n_orders, seed in zip((12, 16), seeds, strict=True)
    )
    expected = 0.5 * integrate(StraightLine(), 400).attributions
    expected += 0.5 * (12 * first + 16 * further) / 28
    torch.testing.assert_close(found.attributions, expected[:1], rtol=0, atol=2e-3)


def test_in_an_ensemble_a_generator_counts_as_often_as_it_has_paths():
    # Two and five paths; of the five, the line has half.
    both = EnsemblePath([StaggeredPath(StraightLine(), 0.8, n_orders=2), mixed(0.5)])
    found = integrate(both, 4000)
    parts = [integrate(path, 3000).attributions for path in both.paths]
    torch.testing.assert_close(found.attributions, (2 * parts[0] + 5 * parts[1]) / 7, rtol=0, atol=1e-4)
    assert len(found.draws[0]) == 1
    torch.testing.assert_close(found.draws[0][0], found.attributions.sum(dim=-1))


def test_at_full_width_there_is_the_inner_path_alone():
    path = StaggeredPath(StraightLine(), 1, inner_share=0.5)
    assert (path.n_paths, path.n_draws, path.free) == (1, 1, False)
    assert torch.equal(integrate(path, 20).attributions, integrate(StraightLine(), 20).attributions)


def test_a_share_of_nothing_changes_nothing():
    none = StaggeredPath(StraightLine(), 0.3, inner_share=0)
    assert torch.equal(integrate(none, 48).attributions, integrate(StaggeredPath(StraightLine(), 0.3), 48).attributions)
    assert repr(none) == repr(StaggeredPath(StraightLine(), 0.3))
    assert repr(mixed(0.25)).endswith("antithetic=True, inner_share=0.25)")


@pytest.mark.parametrize("share", [-0.1, 1, 1.5, float("nan"), "half", None])
def test_wrong_shares(share):
    with pytest.raises(
        ValueError,
        match=f"inner_share must be a number from 0 to below 1, got {share!r}; for the inner path alone, take width=1",
    ):
        StaggeredPath(StraightLine(), inner_share=share)
