"""The number that is explained: logit, log-odds, log-probability, probability, and one label rather than another."""

import json
import math
import re

import pytest
import torch

from captum_dig import TextAttribution, TextExplainer, compare
from captum_dig.tasks.labels import LabelTask
from captum_dig.testing import check_task
from tests.tiny_models import tiny_classifier

TEXT = "a gorgeous, witty movie"
OUTPUTS = ("logit", "log_odds", "log_probability", "probability")


@pytest.fixture(scope="module")
def three(tokenizer):
    return tiny_classifier(len(tokenizer), id2label={0: "BAD", 1: "GOOD", 2: "MIXED"})


def explained(model, tokenizer, output=None, **options):
    return TextExplainer(model, tokenizer, output=output, strategy="straight_line").explain(TEXT, n_steps=40, **options)


@pytest.mark.parametrize("output", OUTPUTS)
def test_each_output_is_explained(three, tokenizer, output):
    with torch.no_grad():
        logits = three(**tokenizer(TEXT, return_tensors="pt")).logits[0].double()
    odds = logits[1] - torch.stack([logits[0], logits[2]]).logsumexp(0)
    expected = {
        "logit": logits[1],
        "log_odds": odds,
        "log_probability": logits.log_softmax(0)[1],
        "probability": logits.softmax(0)[1],
    }
    result = explained(three, tokenizer, output, target="GOOD")
    assert result.settings.output == output
    assert result.input_value == pytest.approx(float(expected[output]), abs=1e-5)
    assert sum(result.word_scores) == pytest.approx(result.input_value - result.baseline_value, abs=1e-5)
    assert f"Explained: {output.replace('_', '-')} of GOOD" in str(result)
    # The log-odds are those of the probability that the result shows.
    if output == "log_odds":
        p = result.target_probability
        assert result.input_value == pytest.approx(math.log(p / (1 - p)), abs=1e-5)


def test_a_constant_on_all_logits_moves_the_logit_alone(three, tokenizer):
    class Shifted(LabelTask):
        def _logits(self, output):
            logits = super()._logits(output)
            return logits + 5 * output.logits[:, :1].detach() + output.logits[:, :1]

    for output, same in (("logit", False), ("log_odds", True), ("log_probability", True), ("probability", True)):
        one, other = (
            TextExplainer(three, tokenizer, task=task, output=output, strategy="straight_line").explain(
                TEXT, "GOOD", n_steps=40
            )
            for task in ("labels", Shifted)
        )
        assert (one.word_scores == pytest.approx(other.word_scores, abs=1e-3)) == same


def test_two_labels_are_one_difference(tokenizer, classifier):
    logit, odds = (
        explained(classifier, tokenizer, output, target=1, contrast=contrast)
        for output, contrast in (("logit", 0), ("log_odds", None))
    )
    assert logit.word_scores == pytest.approx(odds.word_scores, abs=1e-4)
    assert logit.settings.contrast == "NEGATIVE"
    assert "Explained: logit of POSITIVE" in str(logit)
    assert ", less that of NEGATIVE" in str(logit).replace("\n", " ")
    assert "contrast" not in odds.to_dict()["settings"]
    for result in (logit, odds):
        assert TextAttribution.from_dict(json.loads(json.dumps(result.to_dict()))) == result


def test_why_one_label_and_not_another(three, tokenizer):
    good, bad, both = (
        explained(three, tokenizer, target=target, contrast=contrast)
        for target, contrast in (("GOOD", None), ("BAD", None), ("good", "bad"))
    )
    assert both.target_label == "GOOD"
    difference = good.input_value - bad.input_value
    assert both.input_value == pytest.approx(difference, abs=1e-5)
    exact = [a - b for a, b in zip(good.word_scores, bad.word_scores, strict=True)]
    assert both.word_scores == pytest.approx(exact, abs=2e-3)
    explainer = TextExplainer(three, tokenizer, strategy="staggered")
    texts = [TEXT, "dull", "no!"]
    together = explainer.explain(texts, ["GOOD", "MIXED", 1], contrast="BAD", n_steps=24)
    alone = [explainer.explain(t, w, contrast=0, n_steps=24) for t, w in zip(texts, (1, 2, 1), strict=True)]
    for one, other in zip(together, alone, strict=True):
        assert one.word_scores == pytest.approx(other.word_scores, abs=1e-5)


def test_labels_that_apply_by_themselves_and_regressions(tokenizer):
    several = tiny_classifier(len(tokenizer), num_labels=3, problem_type="multi_label_classification")
    found = {output: explained(several, tokenizer, output, target=2) for output in OUTPUTS}
    assert found["log_odds"].word_scores == found["logit"].word_scores
    p = found["logit"].target_probability
    assert found["probability"].input_value == pytest.approx(p, abs=1e-5)
    assert found["log_probability"].input_value == pytest.approx(math.log(p), abs=1e-5)
    value = tiny_classifier(len(tokenizer), num_labels=1, problem_type="regression")
    assert explained(value, tokenizer, "value").settings.output == "value"
    with pytest.raises(ValueError, match="output must be one of 'value', got 'log_odds'"):
        TextExplainer(value, tokenizer, output="log_odds")


@pytest.mark.parametrize("output", OUTPUTS)
def test_every_output_keeps_the_contract(three, tokenizer, output):
    class Chosen(LabelTask):
        def __init__(self, model):
            super().__init__(model, output)

    check_task(Chosen, three, tokenizer, [TEXT, "dull", "the acting is great"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"contrast": "GREAT"}, "target must be 'predicted', one of 'BAD', 'GOOD', 'MIXED'"),
        ({"target": "BAD", "contrast": 0}, "contrast must be another label than target, got 'BAD' for both"),
        ({"contrast": "predicted"}, "contrast must be another label than target, got 'predicted' for both"),
        ({"contrast": 7}, "or an index below 3, got 7"),
    ],
)
def test_wrong_contrasts(three, tokenizer, options, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        explained(three, tokenizer, **options)


def test_wrong_outputs(three, tokenizer):
    with pytest.raises(
        ValueError, match="output must be one of 'logit', 'log_odds', 'log_probability', 'probability', got 'odds'"
    ):
        TextExplainer(three, tokenizer, output="odds")
    predicted = explained(three, tokenizer).predicted_label
    with pytest.raises(ValueError, match=f"contrast must be another label than target, got {predicted!r} for both"):
        explained(three, tokenizer, contrast=predicted)


def test_all_labels_of_a_text(three, tokenizer):
    explain = TextExplainer(three, tokenizer, strategy="straight_line").explain
    results = explain(TEXT, "all", n_steps=8)
    assert [result.target_label for result in results] == ["BAD", "GOOD", "MIXED"]
    for result in results:
        alone = explain(TEXT, result.target_label, n_steps=8)
        assert result.word_scores == pytest.approx(alone.word_scores, abs=1e-5)
    both = explain([TEXT, "dull"], "all", n_steps=8)
    assert [(result.text, result.target) for result in both] == [(text, i) for text in (TEXT, "dull") for i in range(3)]
    mixed = explain([TEXT, "dull"], ["all", "GOOD"], n_steps=8)
    assert [result.target_label for result in mixed] == ["BAD", "GOOD", "MIXED", "GOOD"]


def test_all_labels_that_apply(tokenizer):
    model = tiny_classifier(len(tokenizer), num_labels=4, problem_type="multi_label_classification")
    with torch.no_grad():
        chances = model(**tokenizer(TEXT, return_tensors="pt")).logits.sigmoid()[0]
    results = TextExplainer(model, tokenizer, strategy="straight_line").explain(TEXT, "all", n_steps=8)
    assert [result.target for result in results] == [i for i, chance in enumerate(chances) if chance >= 0.5]
    assert all(result.target_probability >= 0.5 for result in results)


def test_labels_that_apply_by_themselves_are_compared(tokenizer):
    model = tiny_classifier(len(tokenizer), num_labels=3, problem_type="multi_label_classification")
    compared = compare(TextExplainer(model, tokenizer), [TEXT], ["straight_line"], n_steps=4, n_curve_texts=0)
    (text,) = compared.texts
    order = sorted(range(4), key=lambda i: -text.measurements[0].word_scores[i])
    ids = tokenizer(TEXT, return_tensors="pt").input_ids
    without = ids.clone()
    without[0, 1 + order[0]] = tokenizer.pad_token_id
    with torch.no_grad():
        before, after = (float(model(rows).logits[0, text.target].sigmoid().log()) for rows in (ids, without))
    # Of five tokens, a fifth is one.
    assert text.measurements[0].values["log_odds"][0] == pytest.approx(after - before, abs=1e-5)


def test_a_label_may_be_called_all(tokenizer):
    model = tiny_classifier(len(tokenizer), id2label={0: "none", 1: "all"})
    assert TextExplainer(model, tokenizer, strategy="straight_line").explain(TEXT, "all", n_steps=8).target == 1
