"""Texts of an iterator, one outcome for each, in order."""

import copy
import itertools
import re

import pytest
import torch

from captum_dig import ModelError, TextExplainer
from captum_dig.errors import TaskError
from tests.tiny_models import tiny_classifier, tiny_tokenizer

WORDS = ["dull", "a gorgeous movie", "the acting was not so bad but the story is awful and slow", "no!"]
EIGHT = {"n_steps": 8, "strategy": "straight_line"}


@pytest.fixture(scope="module")
def explainer(classifier, tokenizer):
    return TextExplainer(classifier, tokenizer, output="logit")


def endless(taken):
    for text in itertools.cycle(WORDS):
        taken.append(text)
        yield text


def test_an_endless_iterator_is_read_one_by_one(explainer):
    taken = []
    results = explainer.explain_each(endless(taken))
    assert not taken
    assert [next(results).text for _ in range(3)] == WORDS[:3] == taken


def test_a_window_is_read_ahead(explainer):
    taken = []
    outcomes = explainer.outcomes(endless(taken), batch_size=2, window=6, **EIGHT)
    found = [next(outcomes) for _ in range(9)]
    assert [outcome.sample for outcome in found] == (WORDS * 3)[:9]
    assert [outcome.number for outcome in found] == list(range(9))
    assert len(taken) == 12


@pytest.mark.parametrize("window", [None, 1, 2, 3, 50])
def test_batches_and_windows_change_no_score(explainer, window):
    texts = WORDS * 2
    for batch_size in (None, 1, 3):
        results = explainer.explain_each(texts, batch_size=batch_size, window=window, **EIGHT)
        for text, result in zip(texts, results, strict=True):
            alone = explainer.explain(text, **EIGHT)
            assert result.text == text
            assert result.token_scores == pytest.approx(alone.token_scores, abs=1e-5)


def test_texts_of_a_batch_have_about_the_same_length(classifier, tokenizer, monkeypatch):
    explainer = TextExplainer(classifier, tokenizer)
    shapes = []
    forward = classifier.forward
    monkeypatch.setattr(
        classifier, "forward", lambda **inputs: shapes.append(inputs["attention_mask"]) or forward(**inputs)
    )
    list(explainer.explain_each([WORDS[0], WORDS[2]] * 4, batch_size=4, **EIGHT))
    batches = [mask for mask in shapes if len(mask) > 4]
    assert batches
    assert all(mask.bool().all() for mask in batches)


def test_by_default_a_batch_fills_the_rows_of_the_model(explainer):
    taken = []
    outcomes = explainer.outcomes(endless(taken), n_steps=32, strategy="straight_line", internal_batch_size=64)
    next(outcomes)
    assert len(taken) == 8 * 2
    taken.clear()
    next(explainer.outcomes(endless(taken), n_steps=50, strategy="straight_line"))
    assert len(taken) == 1


def test_errors_are_recorded_where_they_belong(explainer):
    texts = ["dull", None, "no!", {"text": "a", "wrong": "b"}, "bad \ud800", 7, "movie " * 40]
    outcomes = list(explainer.outcomes(texts, errors="record", overflow="error", **EIGHT))
    assert [outcome.number for outcome in outcomes] == list(range(7))
    assert [outcome.sample for outcome in outcomes] == texts
    assert [len(outcome.results) for outcome in outcomes] == [1, 0, 1, 0, 0, 0, 0]
    told = [outcome.error and str(outcome.error) for outcome in outcomes]
    assert told[0] is told[2] is None
    assert told[1].startswith("the text must be a string, got NoneType")
    assert told[3].startswith("the text must have no other fields")
    assert "the text must be text that UTF-8 can hold" in told[4]
    assert isinstance(outcomes[5].error, TaskError)
    assert "the text has 42 tokens" in told[6]


def test_wrong_targets_are_errors_of_their_texts(explainer):
    outcomes = list(explainer.outcomes(["dull", "no!", "a movie"], ["POSITIVE", "SAD", 0], errors="record", **EIGHT))
    assert [outcome.results[0].target_label if outcome.results else None for outcome in outcomes] == [
        "POSITIVE",
        None,
        "NEGATIVE",
    ]
    assert "got 'SAD'" in str(outcomes[1].error)
    with pytest.raises(ValueError, match="got 'SAD'"):
        explainer.outcomes(["dull", "no!"], ["POSITIVE", "SAD"])


def broken(tokenizer, word):
    """A classifier whose output is not a number where a text holds a word."""
    classifier = copy.deepcopy(tiny_classifier(len(tokenizer)))
    forward = classifier.forward

    def wrong(input_ids=None, **inputs):
        output = forward(input_ids=input_ids, **inputs)
        ids = input_ids if input_ids is not None else wrong.ids
        rows = (ids == tokenizer.convert_tokens_to_ids(word)).any(dim=1)
        output.logits = torch.where(rows[:, None], torch.nan, output.logits)
        return output

    classifier.forward = wrong
    return classifier


def test_one_text_of_a_batch_that_the_model_cannot_read(tokenizer):
    explainer = TextExplainer(broken(tokenizer, "awful"), tokenizer)
    texts = ["dull", "an awful movie", "no!", "a gorgeous movie"]
    outcomes = list(explainer.outcomes(texts, errors="record", batch_size=4, **EIGHT))
    assert [len(outcome.results) for outcome in outcomes] == [1, 0, 1, 1]
    assert isinstance(outcomes[1].error, ModelError)
    outcomes = explainer.outcomes(texts, batch_size=4, **EIGHT)
    assert next(outcomes).sample == "dull"
    with pytest.raises(ModelError):
        next(outcomes)


def test_texts_and_targets_of_an_iterator_are_counted_at_the_end(explainer):
    for targets, told in ((["NEGATIVE"], "got 1 for more texts"), (["NEGATIVE"] * 3, "got 1 more than texts")):
        outcomes = explainer.outcomes(iter(["dull", "no!"]), targets, **EIGHT)
        assert next(outcomes).results[0].target_label == "NEGATIVE"
        with pytest.raises(ValueError, match=re.escape(told)):
            list(outcomes)


def test_the_number_of_texts_is_told_where_it_is_known(explainer):
    with pytest.raises(ValueError, match=r"text 2 has 42 tokens"):
        list(explainer.explain_each(iter(["dull", "movie " * 40]), overflow="error", **EIGHT))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"errors": "ignore"}, ValueError, "errors must be one of 'raise', 'record', got 'ignore'"),
        ({"window": 0}, ValueError, "window must be an integer of at least 1, got 0"),
        ({"batch_size": 0}, ValueError, "batch_size must be an integer of at least 1, got 0"),
        ({"steps": 3}, TypeError, "unexpected keyword argument 'steps'"),
        ({"texts": "dull"}, TypeError, "got one string; put it into a list"),
    ],
)
def test_wrong_arguments_are_raised_at_once(explainer, arguments, error, message):
    with pytest.raises(error, match=re.escape(message)):
        explainer.outcomes(**{"texts": ["dull"], **arguments})


def test_windows_of_a_long_text_stay_together(tokenizer):
    explainer = TextExplainer(tiny_classifier(len(tokenizer)), tiny_tokenizer(max_length=8))
    texts = ["a gorgeous movie " * 5, "dull", "no movie " * 9]
    outcomes = list(explainer.outcomes(texts, overflow="windows", batch_size=4, **EIGHT))
    assert [outcome.sample for outcome in outcomes] == texts
    for text, outcome in zip(texts, outcomes, strict=True):
        starts = [result.start for result in outcome.results]
        assert starts == sorted(starts)
        assert "".join(result.text for result in outcome.results).split() == text.split()
