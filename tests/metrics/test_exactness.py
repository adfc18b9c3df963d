"""How exactly attributions were computed: ``captum_dig.metrics.accuracy``."""

import math
import re

import numpy as np
import pytest
import torch
from captum.attr import IntegratedGradients
from hypothesis import given
from hypothesis import strategies as st

from captum_dig.metrics import delta_percent, pooled_delta_percent, token_error

NUMBERS = st.integers(-100, 100).map(lambda n: n / 8)


def column(pairs, place):
    return torch.tensor([pair[place] for pair in pairs])


def test_deltas_worked_by_hand():
    deltas, changes = torch.tensor([0.5, -0.5, 0.0, 3.0]), torch.tensor([2.0, -2.0, 7.0, 1.5])
    assert delta_percent(deltas, changes).tolist() == [25, 25, 0, 200]
    # 4 of 12.5.
    assert pooled_delta_percent(deltas, changes) == 32


def test_where_the_output_does_not_change():
    found = delta_percent(torch.tensor([0.0, 0.1, -0.1]), torch.tensor([0.0, 0.0, -0.0]))
    assert found.tolist() == [0, math.inf, math.inf]
    assert math.isnan(pooled_delta_percent(torch.tensor([0.0, 0.1]), torch.zeros(2)))
    assert math.isnan(pooled_delta_percent(torch.zeros(0), torch.zeros(0)))


def test_a_delta_that_is_no_number_stays_in_its_sentence():
    deltas = torch.tensor([math.nan, 1.0, 1.0, math.nan])
    found = delta_percent(deltas, torch.tensor([1.0, math.nan, 4.0, 0.0]))
    assert found.isnan().tolist() == [True, True, False, True]
    assert found[2] == 25
    assert math.isnan(pooled_delta_percent(deltas, torch.ones(4)))


@given(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=6))
def test_deltas_of_a_batch_are_those_of_its_rows(pairs):
    deltas, changes = column(pairs, 0), column(pairs, 1)
    alone = [delta_percent(d, c) for d, c in zip(deltas.split(1), changes.split(1), strict=True)]
    torch.testing.assert_close(delta_percent(deltas, changes), torch.cat(alone))


@given(st.lists(st.tuples(NUMBERS, NUMBERS.filter(bool)), min_size=1, max_size=6))
def test_the_pooled_delta_is_the_mean_of_the_others_weighted_by_change(pairs):
    deltas, changes = column(pairs, 0), column(pairs, 1)
    found = pooled_delta_percent(deltas, changes)
    expected = np.average(delta_percent(deltas, changes).numpy(), weights=changes.abs().numpy())
    assert found == pytest.approx(expected, rel=1e-5, abs=1e-6)
    assert found == pooled_delta_percent(-deltas.flip(0), changes.flip(0))


def test_a_sentence_that_hardly_changes_does_not_rule_the_pooled_delta():
    deltas, changes = torch.tensor([0.01, 0.01]), torch.tensor([1.0, 1e-6])
    assert delta_percent(deltas, changes).mean() > 1e5
    assert pooled_delta_percent(deltas, changes) == pytest.approx(2, abs=1e-3)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64])
def test_results_are_single_precision(dtype):
    ones = torch.ones(3, dtype=dtype)
    assert delta_percent(ones, ones).dtype == torch.float32
    assert token_error(ones[None], ones[None]).dtype == torch.float32
    assert isinstance(pooled_delta_percent(ones, ones), float)


def test_distances_worked_by_hand():
    reference = torch.tensor([[3.0, 4.0], [0.0, 2.0], [1.0, 0.0]])
    # Distances 5, 0 and 3, of lengths 5, 2 and 1.
    attributions = torch.tensor([[6.0, 8.0], [0.0, 2.0], [-2.0, 0.0]])
    assert token_error(attributions, reference).tolist() == [1, 0, 3]


def test_errors_that_cancel_in_the_sum_count():
    attributions, reference = torch.tensor([[2.0, 0.0]]), torch.tensor([[1.0, 1.0]])
    assert delta_percent((attributions - reference).sum(dim=1), reference.sum(dim=1)).item() == 0
    assert token_error(attributions, reference).item() == pytest.approx(1)


def test_a_reference_of_zeros_gives_no_number():
    found = token_error(torch.tensor([[1.0, 0.0], [0.0, 0.0], [1.0, 0.0]]), torch.tensor([[0.0, 0], [0, 0], [1, 0]]))
    assert found.isnan().tolist() == [True, True, False]


@pytest.mark.parametrize("place", [0, 1])
def test_a_score_that_is_no_number_stays_in_its_sentence(place):
    scores = [torch.ones(2, 3), torch.ones(2, 3)]
    scores[place][0, 1] = math.nan
    assert token_error(*scores).isnan().tolist() == [True, False]


@given(st.lists(st.lists(NUMBERS, min_size=1, max_size=5), min_size=1, max_size=4), st.integers(0, 3))
def test_errors_of_a_padded_batch_are_those_of_its_rows(rows, padding):
    width = max(map(len, rows)) + padding
    reference = torch.tensor([row + [0.0] * (width - len(row)) for row in rows])
    attributions = torch.where(reference == 0, 0, reference.roll(1, dims=0) + 1)
    alone = [
        token_error(attributions[i : i + 1, : len(row)], torch.tensor([row])) if any(row) else torch.tensor([math.nan])
        for i, row in enumerate(rows)
    ]
    torch.testing.assert_close(token_error(attributions, reference), torch.cat(alone), equal_nan=True)


@given(st.floats(0.125, 8), st.sampled_from([-1, 1]))
def test_the_scale_of_the_scores_does_not_matter(scale, sign):
    reference = torch.tensor([[1.0, -2.0, 0.5], [3.0, 0.0, 1.0]])
    attributions = reference + torch.tensor([[0.25, 0.0, 0.0], [0.0, -1.0, 1.0]])
    torch.testing.assert_close(
        token_error(sign * scale * attributions, sign * scale * reference), token_error(attributions, reference)
    )


def test_more_steps_of_integrated_gradients_come_nearer():
    method = IntegratedGradients(lambda x: x.pow(4).sum(dim=1))
    inputs, baselines = torch.tensor([[1.0, 2.0, -1.0], [0.5, 3.0, 1.0]]), torch.zeros(2, 3)
    changes = inputs.pow(4).sum(dim=1)
    errors, percents = [], []
    for n_steps in (2, 8, 32):
        attributions = method.attribute(inputs, baselines, n_steps=n_steps, method="riemann_middle")
        errors.append(token_error(attributions, inputs.pow(4)))
        percents.append(delta_percent(attributions.sum(dim=1) - changes, changes))
    for found in (torch.stack(errors), torch.stack(percents)):
        # Second order: four times the steps, a sixteenth of the error.
        torch.testing.assert_close(found[0] / found[1], torch.full((2,), 16.0), rtol=0.1, atol=0)
        torch.testing.assert_close(found[1] / found[2], torch.full((2,), 16.0), rtol=0.1, atol=0)


@pytest.mark.parametrize("metric", [delta_percent, pooled_delta_percent, token_error])
@pytest.mark.parametrize(
    ("one", "other", "message"),
    [
        (torch.ones(2), torch.ones(3), "both must have one shape, got (2,) and (3,)"),
        # These would broadcast.
        (torch.ones(2, 1), torch.ones(2, 3), "both must have one shape, got (2, 1) and (2, 3)"),
        (torch.tensor(1.0), torch.ones(2), "both must have one shape, got () and (2,)"),
    ],
)
def test_wrong_shapes(metric, one, other, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        metric(one, other)
