import math
import re

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from captum_dig.metrics import soft_comprehensiveness, soft_sufficiency
from captum_dig.metrics.draws import draw

METRICS = {"comprehensiveness": soft_comprehensiveness, "sufficiency": soft_sufficiency}
B, T, D = 3, 5, 4
ONES = torch.ones(B, dtype=torch.int64)


def additive(embeddings, mask):
    """Logits of two classes: every coordinate of a token that is attended to speaks for class 1."""
    total = (embeddings * mask[..., None]).sum(dim=(1, 2))
    return torch.stack([torch.zeros_like(total), total], dim=1)


def sentences(lengths=(T,) * B):
    """Embeddings, attention mask and fixed tokens; the first token of each sentence is special."""
    generator = torch.Generator().manual_seed(3)
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    embeddings = torch.randn((len(lengths), max(lengths), D), generator=generator) * mask[..., None]
    fixed = ~mask
    fixed[:, 0] = True
    return embeddings, mask.long(), fixed


def effects(embeddings):
    """What each token says for class 1."""
    return embeddings.sum(dim=2)


def recorded(metric, scores, embeddings, mask, fixed, **arguments):
    """What the model was given after the whole sentences."""
    seen = []

    def watch(rows, attended):
        seen.append(rows)
        return additive(rows, attended)

    metric(watch, embeddings, mask, scores, fixed, **arguments)
    torch.testing.assert_close(seen[0], embeddings)
    return seen[1:]


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


def test_worked_by_hand():
    # The highest token is lost altogether or kept whole, the lowest the other way round: nothing is left to chance.
    embeddings = torch.tensor([[[1.0, 1.0], [0.5, -1.0]]])
    mask, free = torch.ones(1, 2), torch.zeros(1, 2, dtype=torch.bool)
    scores, target = torch.tensor([[9.0, 4.0]]), torch.tensor([1])
    whole, high, low = sigmoid(1.5), sigmoid(2), sigmoid(-0.5)
    found = [metric(additive, embeddings, mask, scores, free, target) for metric in METRICS.values()]
    assert torch.cat(found).tolist() == pytest.approx([whole - low, whole - high], abs=1e-6)
    other = [metric(additive, embeddings, mask, scores, free, 1 - target) for metric in METRICS.values()]
    assert torch.cat(other).tolist() == pytest.approx([low - whole, high - whole], abs=1e-6)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("seed", [0, 6])
def test_it_is_the_mean_over_a_loop(metric, seed):
    embeddings, mask, fixed = sentences()
    scores = torch.randn(B, T)
    draws = draw(4, T, D, seed)
    expected = []
    for b in range(B):
        free = [t for t in range(T) if not fixed[b, t]]
        low, high = min(scores[b, free]), max(scores[b, free])
        falls = []
        for drawn in draws:
            rows = embeddings[b].clone()
            for t in free:
                share = float((scores[b, t] - low) / (high - low))
                for d in range(D):
                    if not drawn[t, d] < (share if metric == "sufficiency" else 1 - share):
                        rows[t, d] = 0
            falls.append(sigmoid(embeddings[b].sum().item()) - sigmoid(rows.sum().item()))
        expected.append(sum(falls) / 4)
    found = METRICS[metric](additive, embeddings, mask, scores, fixed, ONES, n_samples=4, seed=seed)
    assert found.tolist() == pytest.approx(expected, abs=1e-6)


def test_true_scores_beat_their_opposite():
    embeddings, mask, fixed = sentences()
    scores = effects(embeddings)
    good, bad = (soft_comprehensiveness(additive, embeddings, mask, s, fixed, ONES) for s in (scores, -scores))
    assert (good > bad).all()
    good, bad = (soft_sufficiency(additive, embeddings, mask, s, fixed, ONES) for s in (scores, -scores))
    assert (good < bad).all()


@pytest.mark.parametrize("planted", [1, 2, 4])
def test_naming_the_one_token_that_matters_beats_naming_another(planted):
    embeddings, mask, fixed = torch.zeros(1, T, D), torch.ones(1, T), sentences()[2][:1]
    embeddings[0, planted] = 1
    named = {
        t: torch.cat(
            [
                metric(additive, embeddings, mask, 1.0 * (torch.arange(T) == t)[None], fixed, torch.tensor([1]))
                for metric in METRICS.values()
            ]
        ).tolist()
        for t in range(1, T)
    }
    # Without its token the model knows nothing.
    gone = sigmoid(4) - 0.5
    for token, found in named.items():
        assert found == pytest.approx([gone, 0] if token == planted else [0, gone], abs=1e-6)


@given(st.lists(st.integers(-8, 8), min_size=B * T, max_size=B * T), st.sampled_from([0.25, 2, 16]))
def test_scale_and_shift_of_the_scores_do_not_matter_and_their_sign_swaps_the_two(numbers, scale):
    embeddings, mask, fixed = sentences()
    scores = torch.tensor(numbers).reshape(B, T).float()
    for metric, opposite in ((soft_comprehensiveness, soft_sufficiency), (soft_sufficiency, soft_comprehensiveness)):
        found = metric(additive, embeddings, mask, scores, fixed, ONES)
        torch.testing.assert_close(metric(additive, embeddings, mask, scale * scores - 3, fixed, ONES), found)
        # To rounding: a place that is drawn just between the two shares is all but impossible.
        torch.testing.assert_close(opposite(additive, embeddings, mask, -scores, fixed, ONES), found)


@pytest.mark.parametrize("metric", METRICS)
def test_a_token_keeps_as_much_as_its_score_says(metric):
    wide = torch.ones(1, 5, 4000)
    scores = torch.tensor([[7.0, 2.0, 3.0, 5.0, 6.0]])
    fixed = torch.tensor([[True, False, False, False, False]])
    (rows,) = recorded(METRICS[metric], scores, wide, torch.ones(1, 5), fixed, n_samples=1)
    shares = [1, 0, 0.25, 0.75, 1] if metric == "sufficiency" else [1, 1, 0.75, 0.25, 0]
    assert rows.mean(dim=2)[0].tolist() == pytest.approx(shares, abs=0.03)
    assert set(rows.unique().tolist()) == {0, 1}


@pytest.mark.parametrize("metric", METRICS)
def test_tokens_with_equal_scores_lose_half(metric):
    wide, scores = torch.ones(2, 3, 4000), torch.tensor([[2.0, 2.0, 2.0], [9.0, -1.0, 9.0]])
    fixed = torch.tensor([[False, False, False], [True, False, True]])
    (rows,) = recorded(METRICS[metric], scores, wide, torch.ones(2, 3), fixed, n_samples=1)
    assert rows.mean(dim=2).flatten().tolist() == pytest.approx([0.5, 0.5, 0.5, 1, 0.5, 1], abs=0.03)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("score", [-1e6, 1e6, math.inf, math.nan])
def test_fixed_tokens_stay_whole_and_their_scores_do_not_count(metric, score):
    embeddings, mask, fixed = sentences((5, 3, 4))
    scores = torch.randn(3, 5)
    for rows in recorded(METRICS[metric], scores.masked_fill(fixed, score), embeddings, mask, fixed):
        torch.testing.assert_close(rows[fixed], embeddings[fixed], rtol=0, atol=0)
        assert (rows[~fixed] != embeddings[~fixed]).any()
    found, other = (
        METRICS[metric](additive, embeddings, mask, scores.masked_fill(fixed, s), fixed, ONES) for s in (0, score)
    )
    torch.testing.assert_close(other, found, rtol=0, atol=0)


@pytest.mark.parametrize("metric", METRICS)
def test_a_batch_is_its_rows(metric):
    arguments = (*sentences()[:2], torch.randn(B, T), sentences()[2], ONES)
    together = METRICS[metric](additive, *arguments)
    alone = [METRICS[metric](additive, *row) for row in zip(*(a.split(1) for a in arguments), strict=True)]
    torch.testing.assert_close(together, torch.cat(alone))


@pytest.mark.parametrize("metric", METRICS)
def test_a_padded_batch_is_its_rows(metric):
    lengths = (5, 3, 4)
    embeddings, mask, fixed = sentences(lengths)
    scores = torch.randn(3, 5)
    together = METRICS[metric](additive, embeddings, mask, scores, fixed, ONES)
    alone = [
        METRICS[metric](additive, *(a[i : i + 1, :n] for a in (embeddings, mask, scores, fixed)), ONES[:1])
        for i, n in enumerate(lengths)
    ]
    torch.testing.assert_close(together, torch.cat(alone))


@pytest.mark.parametrize("metric", METRICS)
def test_by_default_the_predicted_class_is_explained(metric):
    embeddings, mask, fixed = sentences()
    scores = effects(embeddings)
    predicted = (embeddings.sum(dim=(1, 2)) > 0).long()
    assert set(predicted.tolist()) == {0, 1}
    found = METRICS[metric](additive, embeddings, mask, scores, fixed)
    torch.testing.assert_close(found, METRICS[metric](additive, embeddings, mask, scores, fixed, predicted))
    # Of two classes one falls as the other rises.
    torch.testing.assert_close(-found, METRICS[metric](additive, embeddings, mask, scores, fixed, 1 - predicted))


@pytest.mark.parametrize("metric", METRICS)
def test_seeds_reproduce_and_more_samples_steady_the_result(metric):
    embeddings, mask, fixed = sentences()
    scores = torch.linspace(-1, 2, B * T).reshape(B, T)

    def found(n_samples, seed):
        return METRICS[metric](additive, embeddings, mask, scores, fixed, ONES, n_samples=n_samples, seed=seed)

    torch.testing.assert_close(found(5, 1), found(5, 1), rtol=0, atol=0)
    assert (found(5, 1) != found(5, 2)).all()
    assert (found(5, 1) != found(6, 1)).all()
    one, many = (torch.stack([found(n, seed) for seed in range(40)]).std(dim=0) for n in (1, 64))
    assert (many < one / 3).all()


@pytest.mark.parametrize("metric", METRICS)
def test_the_model_runs_once_for_the_whole_and_once_for_each_sample_without_gradients(metric):
    embeddings, mask, fixed = sentences()
    weight = torch.ones(D, requires_grad=True)
    calls = []

    def watch(rows, attended):
        calls.append(torch.is_grad_enabled())
        assert attended is mask
        return additive(rows * weight, attended)

    before = embeddings.clone()
    found = METRICS[metric](watch, embeddings.requires_grad_(), mask, effects(embeddings), fixed, ONES, n_samples=7)
    assert calls == [False] * 8
    assert not found.requires_grad
    torch.testing.assert_close(embeddings.detach(), before, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_results_are_single_precision(dtype):
    embeddings, mask, fixed = sentences()
    found = soft_sufficiency(additive, embeddings.to(dtype), mask, torch.ones(B, T, dtype=dtype), fixed, ONES)
    assert (found.shape, found.dtype) == ((B,), torch.float32)


@pytest.mark.parametrize("metric", METRICS)
def test_an_output_that_is_no_number_stays_in_its_sentence(metric):
    embeddings, mask, fixed = sentences()
    embeddings[1, 2, 0] = math.nan
    found = METRICS[metric](additive, embeddings, mask, torch.randn(B, T), fixed, ONES)
    assert found.isnan().tolist() == [False, True, False]


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_samples": 0}, "n_samples must be an integer of at least 1, got 0"),
        ({"n_samples": 2.5}, "n_samples must be an integer of at least 1, got 2.5"),
        ({"attributions": torch.ones(B, T, D)}, "attributions must have shape (3, 5), got (3, 5, 4)"),
        ({"attributions": torch.ones(B, T - 1)}, "attributions must have shape (3, 5), got (3, 4)"),
        (
            {"embeddings": torch.ones(B, T + 1, D)},
            "embeddings and attention_mask must begin with the shape of fixed, (3, 5), got (3, 6, 4) and (3, 5)",
        ),
        (
            {"attention_mask": torch.ones(1, T)},
            "embeddings and attention_mask must begin with the shape of fixed, (3, 5), got (3, 5, 4) and (1, 5)",
        ),
    ],
)
def test_wrong_arguments(metric, arguments, message):
    embeddings, mask, fixed = sentences()
    right = {"embeddings": embeddings, "attention_mask": mask, "attributions": torch.ones(B, T), "fixed": fixed}
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        METRICS[metric](additive, **{**right, **arguments})


@pytest.mark.parametrize("metric", METRICS)
def test_a_sentence_that_says_nothing_has_no_number(metric):
    embeddings, mask, fixed = sentences()
    scores = torch.randn(B, T)
    scores[0, ~fixed[0]] = torch.nan
    fixed[1] = True
    found = METRICS[metric](additive, embeddings, mask, scores, fixed, ONES)
    assert found.isnan().tolist() == [True, True, *[False] * (B - 2)]
