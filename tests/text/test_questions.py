"""Baselines that have decided already, and the one that is nearest to even odds."""

import json
import warnings

import pytest
import torch

from captum_dig import ModelError, TextAttribution, TextExplainer, compare
from captum_dig.errors import BaselineWarning
from captum_dig.text.results import probability_of
from tests.tiny_models import tiny_classifier, tiny_tokenizer

TEXTS = ["a gorgeous, witty movie", "dull", "the acting is great but the plot is slow"]


def make(model, tokenizer, **options):
    return TextExplainer(model, tokenizer, strategy="straight_line", cache=False, **options)


def at_baselines(model, tokenizer, text, label):
    """The probability of a label where every word is another token."""
    row = tokenizer(text, return_tensors="pt").input_ids
    fixed = torch.isin(row, torch.tensor([tokenizer.cls_token_id, tokenizer.sep_token_id]))
    found = {}
    for role in ("pad", "mask", "unk"):
        token_id = getattr(tokenizer, f"{role}_token_id")
        with torch.no_grad():
            found[role] = float(model(torch.where(fixed, row, token_id)).logits.softmax(1)[0, label])
    return found


def biased(tokenizer, by):
    model = tiny_classifier(len(tokenizer))
    with torch.no_grad():
        model.classifier.bias += torch.tensor([0.0, by])
    return model


@pytest.mark.parametrize("by", [-1.0, 0.0, 1.0, 2.0])
def test_each_text_takes_the_baseline_nearest_to_even_odds(tokenizer, by):
    model = biased(tokenizer, by)
    explainer = make(model, tokenizer)
    results = explainer.explain(TEXTS, baseline="even", n_steps=8)
    for text, result in zip(TEXTS, results, strict=True):
        there = at_baselines(model, tokenizer, text, result.target)
        best = min(there, key=lambda role: abs(there[role] - 0.5))
        assert result.settings.baseline == getattr(tokenizer, f"{best}_token")
        assert result.baseline_probability == pytest.approx(there[best], abs=1e-5)
        assert result.token_scores == explainer.explain(text, baseline=best, n_steps=8).token_scores
        assert result.even_baseline is None or result.baseline_probability > 0.8
    assert explainer.explain(TEXTS[0], baseline="even", n_steps=8) == results[0]


def test_a_baseline_that_has_decided_is_named_with_a_better_one(tokenizer):
    model = biased(tokenizer, 3.0)
    result = make(model, tokenizer).explain(TEXTS[0], "POSITIVE", n_steps=8)
    there = at_baselines(model, tokenizer, TEXTS[0], 1)
    assert there["pad"] > 0.8
    other = min(("mask", "unk"), key=lambda role: abs(there[role] - 0.5))
    if abs(there[other] - 0.5) < abs(there["pad"] - 0.5):
        name, probability = result.even_baseline
        assert (name, probability) == (getattr(tokenizer, f"{other}_token"), pytest.approx(there[other], abs=1e-5))
        shown = " ".join(str(result).split())
        assert (
            f"Baseline: [PAD] is no neutral start: the model gives POSITIVE {100 * there['pad']:.1f} % there" in shown
        )
        assert f"nearer to even odds: {name} ({100 * probability:.1f} %)" in shown
        assert "no neutral start" in result.to_html()
    assert TextAttribution.from_dict(json.loads(json.dumps(result.to_dict()))) == result


def test_such_a_baseline_is_warned_of_once(tokenizer):
    explain = make(biased(tokenizer, 3.0), tokenizer).explain
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        results = explain(TEXTS, "POSITIVE", n_steps=8)
    assert any(result.even_baseline for result in results)
    (warning,) = caught
    assert warning.category is BaselineWarning
    assert "baseline '[PAD]' is no neutral start for some texts" in str(warning.message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        explain(TEXTS, "POSITIVE", "even", n_steps=8)


def test_even_may_come_alone_in_a_list(tokenizer):
    explain = make(biased(tokenizer, 3.0), tokenizer).explain
    assert explain(TEXTS[0], baseline=["even"], n_steps=8) == explain(TEXTS[0], baseline="even", n_steps=8)


def test_nothing_is_said_of_a_neutral_baseline_or_a_difference(tokenizer):
    model = biased(tokenizer, 3.0)
    explain = make(model, tokenizer).explain
    assert explain(TEXTS[0], "NEGATIVE", n_steps=8).even_baseline is None
    both = explain(TEXTS[0], "POSITIVE", contrast="NEGATIVE", n_steps=8)
    assert (both.even_baseline, both.baseline_probability) == (None, None)
    assert explain(TEXTS[0], "POSITIVE", ["pad", "mask"], n_steps=8).even_baseline is None
    assert "even_baseline" not in both.to_dict()


@pytest.mark.parametrize("output", ["logit", "log_odds", "log_probability", "probability"])
def test_the_probability_at_the_baseline(tokenizer, output):
    model = biased(tokenizer, 1.0)
    result = make(model, tokenizer, output=output).explain(TEXTS[0], "POSITIVE", n_steps=8)
    there = at_baselines(model, tokenizer, TEXTS[0], 1)["pad"]
    assert result.baseline_probability == (None if output == "logit" else pytest.approx(there, abs=1e-5))


def test_probabilities_of_extreme_numbers():
    assert probability_of("log_odds", -1e9) == 0.0
    assert probability_of("log_odds", 1e9) == 1.0
    assert probability_of("log_probability", 1e-9) == 1.0
    assert probability_of("value", 3.0) is None


def test_comparisons_from_even(tokenizer):
    model = biased(tokenizer, 1.0)
    explainer = make(model, tokenizer)
    compared = compare(
        explainer, TEXTS, ["straight_line", "leave_one_out"], ["even", "pad"], n_steps=8, n_curve_texts=0
    )
    for text, found in zip(TEXTS, compared.texts, strict=True):
        expected = explainer.explain(text, baseline="even", n_steps=8)
        assert found.find("straight_line", "even").word_scores == pytest.approx(expected.word_scores, abs=1e-5)


def test_even_needs_a_choice_and_probabilities(tokenizer):
    lonely = tiny_tokenizer()
    lonely.mask_token = lonely.unk_token = None
    with pytest.raises(ValueError, match="got 'even' for a tokenizer with fewer than two of pad, mask, unk"):
        make(tiny_classifier(len(lonely)), lonely).explain("a film", baseline="even")
    regression = tiny_classifier(len(tokenizer), num_labels=1, problem_type="regression")
    with pytest.raises(ModelError, match="model must have probabilities, got a regression"):
        make(regression, tokenizer).explain("a film", baseline="even")
    with pytest.raises(ValueError, match=r"'even' must stand alone, got \['even', 'pad'\]; leave the others out"):
        make(tiny_classifier(len(tokenizer)), tokenizer).explain("a film", baseline=["even", "pad"])
