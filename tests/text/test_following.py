"""A model that is trained after its explainer was made."""

import warnings

import pytest
import torch

from captum_dig import MonotonicPath, StaggeredPath, TextExplainer, Vocabulary, compare
from tests.tiny_models import tiny_classifier

TEXT = "a witty film, gorgeous acting."


def make(model, tokenizer, **options):
    return TextExplainer(
        model, tokenizer, **{"strategy": "greedy", "candidates": "all", "n_anchors": 3, "n_neighbors": 9, **options}
    )


def step(weight):
    with torch.no_grad():
        weight.add_(0.3 * torch.randn(weight.shape))


def through_data(weight):
    weight.data += 0.3 * torch.randn(weight.shape)


def optimizer(weight):
    weight.grad = torch.randn(weight.shape)
    torch.optim.SGD([weight], lr=0.3).step()
    weight.grad = None


def rows_of_no_word(weight):
    # Rows that no text holds can be anchors all the same.
    with torch.no_grad():
        weight[60:] += 0.5


@pytest.mark.parametrize("train", [step, through_data, optimizer, rows_of_no_word])
@pytest.mark.parametrize("strategy", ["greedy", "maxcount", "staggered"])
def test_an_explainer_follows_the_weights(tokenizer, train, strategy):
    model = tiny_classifier(len(tokenizer))
    explainer = make(model, tokenizer, strategy=strategy)
    explainer.explain(TEXT, n_steps=8)
    train(model.get_input_embeddings().weight)
    expected = make(model, tokenizer, strategy=strategy).explain(TEXT, n_steps=8)
    assert explainer.explain(TEXT, n_steps=8) == expected


def test_an_explainer_follows_between_two_results(tokenizer):
    model = tiny_classifier(len(tokenizer))
    results = make(model, tokenizer).explain_each([TEXT, TEXT], n_steps=8, batch_size=1)
    next(results)
    step(model.get_input_embeddings().weight)
    assert next(results) == make(model, tokenizer).explain(TEXT, n_steps=8)


def test_a_table_and_a_path_follow_too(tokenizer):
    model = tiny_classifier(len(tokenizer))
    explainer = make(model, tokenizer)
    step(model.get_input_embeddings().weight)
    ids = torch.arange(30)
    fresh = make(model, tokenizer)
    assert torch.equal(explainer.path("greedy").anchor_ids(ids, 0), fresh.path("greedy").anchor_ids(ids, 0))
    assert explainer.vocabulary.fingerprint == fresh.vocabulary.fingerprint


def test_a_table_of_another_size_is_followed(tokenizer):
    model = tiny_classifier(len(tokenizer))
    explainer = make(model, tokenizer)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.resize_token_embeddings(len(tokenizer) + 8)
    assert explainer.explain(TEXT, n_steps=8) == make(model, tokenizer).explain(TEXT, n_steps=8)


def test_the_vocabulary_stays_where_nothing_has_changed(tokenizer):
    model = tiny_classifier(len(tokenizer))
    explainer = make(model, tokenizer)
    vocabulary = explainer.vocabulary
    step(model.classifier.weight)
    explainer.explain(TEXT, n_steps=8)
    assert explainer.vocabulary is vocabulary


@pytest.mark.parametrize("wrap", [lambda path: path, StaggeredPath], ids=["words", "staggered"])
def test_a_path_of_the_users_own_over_old_rows_is_warned_of(tokenizer, wrap):
    model = tiny_classifier(len(tokenizer))
    path = MonotonicPath(Vocabulary.from_layer(model.get_input_embeddings()), n_anchors=3, n_neighbors=9)
    explainer = make(model, tokenizer, strategy=wrap(path))
    explainer.explain(TEXT, n_steps=8)
    weight = model.get_input_embeddings().weight
    with torch.no_grad():
        weight.add_(0.01 * torch.randn(weight.shape))
    with pytest.warns(UserWarning, match="must hold the rows of the model.*make the path anew"):
        explainer.explain(TEXT, n_steps=8)


def test_a_comparison_follows_too(tokenizer):
    model = tiny_classifier(len(tokenizer))
    explainer = make(model, tokenizer)
    step(model.get_input_embeddings().weight)
    options = {"n_steps": 4, "n_curve_texts": 0}
    expected = compare(make(model, tokenizer), [TEXT], ["integrated_gradients"], **options)
    got = compare(explainer, [TEXT], ["integrated_gradients"], **options)
    for name in ("word_approximation_error", "log_odds"):
        assert got.values(name, "integrated_gradients") == expected.values(name, "integrated_gradients")
