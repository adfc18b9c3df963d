import itertools
import math
import re

import pytest
import torch
from captum.attr import InputXGradient
from hypothesis import given
from hypothesis import strategies as st

from captum_dig.metrics import infidelity, sensitivity
from captum_dig.metrics.draws import draw

B, T, D = 3, 4, 2
TARGET = torch.tensor([1, 0, 1])
FREE = torch.zeros(B, T, dtype=torch.bool)
WEIGHTS = torch.tensor([[1.0, -2.0], [0.5, 3.0], [-1.0, 1.0], [2.0, 0.25]], dtype=torch.float64)


@pytest.fixture
def embeddings():
    return torch.randn(B, T, D, dtype=torch.float64)


@pytest.fixture
def fixed():
    """Special tokens at the start, padding at the end."""
    return torch.tensor([[True, False, False, False], [True, False, False, True], [True, False, True, True]])


def linear(inputs):
    """Logits of two classes, of opposite sign."""
    total = (inputs * WEIGHTS).sum(dim=(1, 2))
    return torch.stack([-total, total], dim=1)


def curved(inputs):
    total = inputs.pow(3).sum(dim=(1, 2)) + inputs[:, 0, 0] * inputs[:, 1, 1]
    return torch.stack([-total, total], dim=1)


def slopes():
    """The gradient of the linear model's target."""
    return torch.where(TARGET == 1, 1.0, -1.0)[:, None, None] * WEIGHTS


def same_noise(fixed, n_samples, noise, seed):
    """What is added to each sentence, shape (B, n_samples, T, D)."""
    even = draw(n_samples, T, D, seed).double()
    drawn = torch.special.ndtri(even) * noise
    return torch.where(fixed[:, None, :, None], 0, drawn)


def by_loops(forward_func, embeddings, attributions, fixed, baselines, n_samples, noise, seed):
    """Captum's normalized formula: the mean square of what the best multiple of the prediction leaves."""
    found = []
    for b, disturbances in enumerate(same_noise(fixed, n_samples, noise, seed)):
        predicted, happened = [], []
        for disturbance in disturbances:
            slope = attributions[b] / (embeddings[b] - baselines[b])
            predicted.append(float((disturbance * slope).sum()))
            pair = forward_func(torch.stack([embeddings[b], embeddings[b] - disturbance]))[:, TARGET[b]]
            happened.append(float(pair[0] - pair[1]))
        scale = sum(p * h for p, h in zip(predicted, happened, strict=True)) / sum(p * p for p in predicted)
        found.append(sum((scale * p - h) ** 2 for p, h in zip(predicted, happened, strict=True)) / n_samples)
    return found


def test_infidelity_worked_by_hand():
    # One token of two coordinates, of slopes 3 and 4; the attributions know the first alone. All of one disturbance is
    # explained by some multiple, whatever they say; two leave what is not in line with the first coordinate.
    inputs, free = torch.tensor([[[2.0, 5.0]]], dtype=torch.float64), FREE[:1, :1]

    def forward(x):
        return x[:, 0] @ torch.tensor([[3.0], [4.0]], dtype=torch.float64)

    arguments = (forward, inputs, torch.tensor([[[6.0, 0.0]]], dtype=torch.float64), free, torch.tensor([0]))
    assert infidelity(*arguments, n_samples=1).item() == pytest.approx(0, abs=1e-7)
    even = draw(2, 1, 2, seed=0)[:, 0].double()
    (a, b), (c, d) = torch.special.ndtri(even).tolist()
    # The changes (3a + 4b, 3c + 4d) less their part along (a, c): 4 (b, d) less its part along (a, c).
    area = a * d - b * c
    expected = 16 * area**2 / (a * a + c * c) / 2
    assert infidelity(*arguments, n_samples=2, noise=1.0).item() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("moved", [False, True])
@pytest.mark.parametrize("n_samples", [1, 20])
def test_exact_attributions_of_a_linear_model_have_no_infidelity(embeddings, fixed, moved, n_samples):
    baselines = torch.randn(B, T, D, dtype=torch.float64) if moved else None
    exact = slopes() * (embeddings - baselines if moved else embeddings)
    for held in (FREE, fixed):
        found = infidelity(linear, embeddings, exact, held, TARGET, baselines, n_samples=n_samples)
        torch.testing.assert_close(found, torch.zeros(B), rtol=0, atol=1e-12)


@pytest.mark.parametrize("moved", [False, True])
def test_wrong_attributions_have_more_infidelity(embeddings, moved):
    baselines = torch.randn(B, T, D, dtype=torch.float64) if moved else torch.zeros(B, T, D, dtype=torch.float64)
    exact = slopes() * (embeddings - baselines)
    errors = [
        infidelity(linear, embeddings, exact + k * torch.ones(B, T, D) / 4, FREE, TARGET, baselines) for k in range(4)
    ]
    for less, more in itertools.pairwise(errors):
        assert (less < more).all()
    other = infidelity(linear, embeddings, slopes() * embeddings, FREE, TARGET, torch.ones(B, T, D))
    assert (other > 1e-5).all()


@pytest.mark.parametrize("padded", [False, True])
def test_the_infidelity_of_a_linear_model_is_the_part_of_its_slope_that_attributions_miss(embeddings, fixed, padded):
    held = fixed if padded else FREE
    missed = slopes().clone()
    missed[:, 1, 1] = 0
    found = infidelity(linear, embeddings, missed * embeddings, held, TARGET, n_samples=20_000, noise=0.5)
    # The slope of that coordinate is 3.
    torch.testing.assert_close(found, torch.full((B,), (3 * 0.5) ** 2), rtol=0.05, atol=0)
    nothing = infidelity(linear, embeddings, 0 * embeddings, held, TARGET, n_samples=20_000, noise=0.5)
    whole = (WEIGHTS.square() * ~held[..., None]).sum(dim=(1, 2)) * 0.5**2
    torch.testing.assert_close(nothing, whole.float(), rtol=0.05, atol=0)


@pytest.mark.parametrize("forward_func", [linear, curved])
@pytest.mark.parametrize(("n_samples", "noise", "seed"), [(1, 0.3, 0), (7, 0.02, 5), (20, 1.0, 1)])
def test_infidelity_is_captums_formula(embeddings, fixed, forward_func, n_samples, noise, seed):
    attributions, baselines = torch.randn(2, B, T, D, dtype=torch.float64)
    arguments = {"n_samples": n_samples, "noise": noise, "seed": seed}
    found = infidelity(forward_func, embeddings, attributions, fixed, TARGET, baselines, **arguments)
    expected = by_loops(forward_func, embeddings, attributions, fixed, baselines, **arguments)
    assert found.tolist() == pytest.approx(expected, rel=1e-5, abs=1e-12)


@given(st.floats(0.01, 100), st.sampled_from([-1, 1]))
def test_the_scale_of_attributions_does_not_matter_to_infidelity(scale, sign):
    generator = torch.Generator().manual_seed(2)
    embeddings, attributions = torch.randn((2, B, T, D), generator=generator, dtype=torch.float64)
    one, other = (infidelity(curved, embeddings, a, FREE, TARGET) for a in (attributions, sign * scale * attributions))
    torch.testing.assert_close(one, other)


def test_the_noise_squared_scales_the_infidelity_of_a_linear_model(embeddings):
    wrong = torch.randn(B, T, D, dtype=torch.float64)
    one, other = (infidelity(linear, embeddings, wrong, FREE, TARGET, noise=noise) for noise in (0.02, 0.06))
    torch.testing.assert_close(other, 9 * one)


def test_gradients_predict_a_curved_model_better_than_those_of_other_tokens(embeddings):
    def chosen(inputs):
        return curved(inputs).gather(1, TARGET[:, None])[:, 0]

    inputs = embeddings.requires_grad_()
    attributions = InputXGradient(chosen).attribute(inputs).detach()
    good, bad = (infidelity(curved, embeddings.detach(), a, FREE, TARGET) for a in (attributions, attributions.flip(1)))
    assert (good < bad / 10).all()


def test_infidelity_leaves_fixed_tokens_alone_and_gives_the_model_its_further_arguments(embeddings, fixed):
    seen = []

    def watch(inputs, numbers):
        seen.append((inputs, numbers))
        return linear(inputs) * numbers[:, None]

    numbers = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    exact = slopes() * embeddings
    found = infidelity(watch, embeddings, exact, fixed, TARGET, additional_forward_args=(numbers,), n_samples=6)
    torch.testing.assert_close(found, torch.zeros(B), rtol=0, atol=1e-12)
    assert {len(inputs) for inputs, _ in seen} == {B, 6 * B}
    for inputs, given_numbers in seen:
        copies = len(inputs) // B
        torch.testing.assert_close(given_numbers, numbers.repeat_interleave(copies))
        whole, held = (x.repeat_interleave(copies, dim=0) for x in (embeddings, fixed))
        torch.testing.assert_close(inputs[held], whole[held], rtol=0, atol=0)
        if copies > 1:
            assert (inputs[~held] != whole[~held]).all()
            # All sentences get the same noise.
            noise = (inputs - whole).reshape(B, copies, T, D)[:, :, 1]
            torch.testing.assert_close(noise, noise[:1].expand_as(noise))


def test_a_batch_is_its_rows_in_infidelity(embeddings, fixed):
    attributions, baselines = torch.randn(2, B, T, D, dtype=torch.float64)
    arguments = (embeddings, attributions, fixed, TARGET, baselines)
    alone = [infidelity(curved, *row) for row in zip(*(a.split(1) for a in arguments), strict=True)]
    torch.testing.assert_close(infidelity(curved, *arguments), torch.cat(alone))


def test_seeds_reproduce_and_more_samples_steady_the_infidelity(embeddings):
    wrong = torch.randn(B, T, D, dtype=torch.float64)

    def found(n_samples, seed):
        return infidelity(linear, embeddings, wrong, FREE, TARGET, n_samples=n_samples, seed=seed)

    torch.testing.assert_close(found(5, 1), found(5, 1), rtol=0, atol=0)
    assert (found(5, 1) != found(5, 2)).all()
    assert (found(5, 1) != found(6, 1)).all()
    few, many = (torch.stack([found(n, seed) for seed in range(30)]).std(dim=0) for n in (10, 250))
    assert (many < few / 3).all()


def test_an_attribution_that_is_no_number_stays_in_its_sentence(embeddings):
    attributions = slopes() * embeddings
    attributions[1, 2, 0] = math.nan
    assert infidelity(linear, embeddings, attributions, FREE, TARGET).isnan().tolist() == [False, True, False]
    known = sensitivity(lambda x: torch.where(attributions.isnan(), math.nan, x), embeddings, FREE)
    assert known.isnan().tolist() == [False, True, False]


def test_explanations_that_never_change_have_no_sensitivity(embeddings, fixed):
    constant = torch.randn(B, T, D, dtype=torch.float64)
    for explanation in (constant, 0 * constant):
        assert sensitivity(lambda x, e=explanation: e + 0 * x, embeddings, fixed).tolist() == [0] * B
    # Also where every token is fixed.
    assert sensitivity(lambda x: x**3, embeddings, ~FREE).tolist() == [0] * B


def test_sensitivity_worked_by_hand():
    inputs = torch.tensor([[[3.0, 4.0], [9.0, 9.0]]])
    u = draw(1, 2, 2, seed=0)[0, 0]
    # The first token moves from (3, 4), which is 5 long; the second is fixed, and 12.73 long.
    moved = 0.5 * (2 * u - 1).norm().item()
    arguments = {"fixed": torch.tensor([[False, True]]), "radius": 0.5, "n_samples": 1}
    found = sensitivity(lambda x: x, inputs, **arguments)
    assert found.item() == pytest.approx(moved / math.sqrt(25 + 162), rel=1e-4)
    first_alone = sensitivity(lambda x: x * torch.tensor([[1.0], [0.0]]), inputs, **arguments)
    assert first_alone.item() == pytest.approx(moved / 5, rel=1e-4)


@pytest.mark.parametrize(("n_samples", "radius", "seed"), [(1, 0.02, 0), (5, 0.3, 4)])
def test_of_a_linear_explanation_it_is_the_worst_move_of_a_loop(embeddings, fixed, n_samples, radius, seed):

    moves = (2 * draw(n_samples, T, D, seed).double() - 1) * radius
    expected = []
    for b in range(B):
        lengths = [(torch.where(fixed[b, :, None], 0, move) * WEIGHTS).norm().item() for move in moves]
        expected.append(max(lengths) / (embeddings[b] * WEIGHTS).norm().item())
    found = sensitivity(lambda x: x * WEIGHTS, embeddings, fixed, n_samples=n_samples, radius=radius, seed=seed)
    assert found.tolist() == pytest.approx(expected, rel=1e-5)
    # A multiple moves as far for its length.
    again = sensitivity(lambda x: -7 * x * WEIGHTS, embeddings, fixed, n_samples=n_samples, radius=radius, seed=seed)
    torch.testing.assert_close(again, found)


def test_an_explanation_that_bends_more_is_more_sensitive(embeddings):
    found = [sensitivity(lambda x, p=power: x**p, embeddings.abs() + 1, FREE) for power in (1, 2, 3, 5)]
    for less, more in itertools.pairwise(found):
        assert (less < more).all()


@given(st.integers(1, 8), st.integers(1, 8), st.integers(0, 3))
def test_more_neighbours_are_never_better_and_no_move_is_longer_than_the_radius(few, more, seed):
    embeddings = torch.randn((B, T, D), generator=torch.Generator().manual_seed(1))

    def found(n_samples, radius=0.1):
        return sensitivity(lambda x: x, embeddings, FREE, n_samples=n_samples, radius=radius, seed=seed)

    assert (found(few) <= found(few + more)).all()
    lengths = embeddings.flatten(1).norm(dim=1)
    assert (found(few) <= 0.1 * math.sqrt(T * D) / lengths).all()
    torch.testing.assert_close(found(few, radius=0.2), 2 * found(few), rtol=1e-4, atol=0)


def test_sensitivity_leaves_fixed_tokens_alone_and_explains_whole_batches(embeddings, fixed):
    seen = []

    def watch(inputs):
        seen.append(inputs)
        return inputs**2

    sensitivity(watch, embeddings, fixed, n_samples=6, radius=0.25)
    assert [inputs.shape for inputs in seen] == [(B, T, D)] * 7
    torch.testing.assert_close(seen[0], embeddings, rtol=0, atol=0)
    for inputs in seen[1:]:
        torch.testing.assert_close(inputs[fixed], embeddings[fixed], rtol=0, atol=0)
        moves = (inputs - embeddings)[~fixed].abs()
        assert moves.min() > 0
        assert moves.max() <= 0.25


def test_a_batch_is_its_rows_in_sensitivity(embeddings, fixed):
    alone = [sensitivity(lambda x: x**3, *row) for row in zip(embeddings.split(1), fixed.split(1), strict=True)]
    torch.testing.assert_close(sensitivity(lambda x: x**3, embeddings, fixed), torch.cat(alone))


def test_seeds_reproduce_and_the_number_of_neighbours_matters(embeddings):
    def found(n_samples, seed):
        return sensitivity(lambda x: x**2, embeddings, FREE, n_samples=n_samples, seed=seed)

    torch.testing.assert_close(found(5, 1), found(5, 1), rtol=0, atol=0)
    assert (found(5, 1) != found(5, 2)).all()
    assert (found(1, 1) < found(50, 1)).all()


def test_captums_methods_can_be_measured(embeddings):
    def explain(inputs):
        return InputXGradient(curved).attribute(inputs.requires_grad_(), target=TARGET)

    found = sensitivity(explain, embeddings, FREE)
    # x times the gradient of a sum of cubes is three times the cubes, up to the one product.
    assert ((found > 0) & (found < 0.5)).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_results_are_single_precision_without_gradients(embeddings, dtype):
    inputs = embeddings.to(dtype)
    before = inputs.clone()
    for found in (
        infidelity(curved, inputs, inputs, FREE, TARGET),
        sensitivity(lambda x: x**2, inputs, FREE),
    ):
        assert (found.shape, found.dtype, found.requires_grad) == ((B,), torch.float32, False)
    torch.testing.assert_close(inputs, before, rtol=0, atol=0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_samples": 0}, "n_samples must be an integer of at least 1, got 0"),
        ({"noise": 0}, "noise and radius must be above 0, got 0"),
        ({"noise": -0.02}, "noise and radius must be above 0, got -0.02"),
        ({"noise": math.nan}, "noise and radius must be above 0, got nan"),
        (
            {"embeddings": torch.ones(B, T)},
            "embeddings must have shape (B, T, D) and fixed (B, T), got (3, 4) and (3, 4)",
        ),
        ({"fixed": FREE[:1]}, "embeddings must have shape (B, T, D) and fixed (B, T), got (3, 4, 2) and (1, 4)"),
        (
            {"attributions": torch.ones(B, T)},
            "attributions must have the shape of the embeddings, (3, 4, 2), got (3, 4); pass one number for each coordinate",
        ),
    ],
)
def test_wrong_arguments_of_infidelity(embeddings, arguments, message):
    right = {"embeddings": embeddings, "attributions": embeddings, "fixed": FREE, "target": TARGET}
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        infidelity(linear, **{**right, **arguments})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_samples": False}, "n_samples must be an integer of at least 1, got False"),
        ({"radius": 0.0}, "noise and radius must be above 0, got 0.0"),
        (
            {"embeddings": torch.ones(B, T, D, 1)},
            "embeddings must have shape (B, T, D) and fixed (B, T), got (3, 4, 2, 1) and (3, 4)",
        ),
        ({"fixed": FREE[:, 1:]}, "embeddings must have shape (B, T, D) and fixed (B, T), got (3, 4, 2) and (3, 3)"),
    ],
)
def test_wrong_arguments_of_sensitivity(embeddings, arguments, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        sensitivity(lambda x: x, **{"embeddings": embeddings, "fixed": FREE, **arguments})


def test_a_free_coordinate_that_does_not_move_is_not_disturbed(embeddings):
    baselines = torch.zeros(B, T, D, dtype=torch.float64)
    baselines[:, 0] = embeddings[:, 0]
    exact = slopes() * (embeddings - baselines)
    found = infidelity(linear, embeddings, exact, FREE, TARGET, baselines, noise=0.5)
    torch.testing.assert_close(found, torch.zeros(B), rtol=0, atol=1e-12)


def test_a_padded_batch_is_its_rows(embeddings, fixed):
    short = embeddings[:1, :2]
    wide = torch.cat([short, torch.zeros(1, 3, D, dtype=torch.float64)], dim=1)
    held = torch.tensor([[False, False, True, True, True]])

    def forward(x):
        return torch.stack([x.square().sum(dim=(1, 2)), x.sum(dim=(1, 2))], dim=1)

    def explain(x):
        return x.square() * x

    ones = torch.tensor([0])
    alone = infidelity(forward, short, 1 + short, held[:, :2], ones)
    torch.testing.assert_close(infidelity(forward, wide, 1 + wide, held, ones), alone)
    torch.testing.assert_close(sensitivity(explain, wide, held), sensitivity(explain, short, held[:, :2]))


def test_an_explanation_may_take_gradients_and_come_in_any_layout(embeddings):
    def explain(x):
        leaf = x.detach().requires_grad_()
        (gradient,) = torch.autograd.grad(leaf.square().sum(), leaf)
        return (gradient * x).transpose(0, 1).contiguous().transpose(0, 1)

    assert (sensitivity(explain, embeddings, FREE) > 0).all()


def test_baselines_of_another_shape_are_named(embeddings):
    with pytest.raises(ValueError, match="baselines must have the shape of the embeddings"):
        infidelity(linear, embeddings, embeddings, FREE, TARGET, torch.zeros(1, D))
