import gc
import json
import os
import re
import threading
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from captum.attr import LayerIntegratedGradients
from transformers import (
    DistilBertConfig,
    DistilBertForMaskedLM,
    DistilBertForTokenClassification,
    DistilBertModel,
    TextClassificationPipeline,
)

from captum_dig import (
    EnsemblePath,
    MaxCount,
    ModelError,
    PathGenerator,
    StaggeredPath,
    StraightLine,
    TextAttribution,
    TextExplainer,
    VocabularyError,
)
from captum_dig.catalogue import CATALOGUE
from captum_dig.methods import PathMethod, Plan
from captum_dig.text.questions import ask
from tests.tiny_models import tiny_classifier, tiny_tokenizer

TEXT = "a gorgeous, witty movie"
TEXTS = [TEXT, "dull", "the acting was not so bad but the story is awful and slow", "no!", "hello world ☃ qqq"]


def make(model, tokenizer, **options):
    return TextExplainer(model, tokenizer, **{"output": "logit", "n_anchors": 4, "n_neighbors": 12, **options})


@pytest.fixture(scope="module")
def explainer(classifier, tokenizer):
    return make(classifier, tokenizer)


def test_scores_add_up_to_the_difference(explainer, classifier, tokenizer):
    result = explainer.explain(TEXT, n_steps=100)
    inputs = tokenizer(TEXT, return_tensors="pt")
    with torch.no_grad():
        logits = classifier(**inputs).logits[0]
    assert result.input_value == pytest.approx(float(logits.max()), abs=1e-5)
    assert result.predicted_label == ["NEGATIVE", "POSITIVE"][int(logits.argmax())] == result.target_label
    assert result.predicted_probability == pytest.approx(float(logits.softmax(0).max()), abs=1e-5)
    assert result.delta == pytest.approx(sum(result.token_scores) - result.input_value + result.baseline_value)
    assert result.delta_percent < 5
    assert sum(result.word_scores) == pytest.approx(sum(result.token_scores), abs=1e-6)


def test_special_tokens_score_exactly_zero_and_keep_their_place(explainer):
    result = explainer.explain(TEXT, strategy="greedy")
    assert result.tokens[0] == "[CLS]"
    assert [s for s, mark in zip(result.token_scores, result.special, strict=True) if mark] == [0.0, 0.0]
    assert result.anchors[0] == ()
    assert len(result.anchors[1]) == 4
    assert result.words == ("a", "gorgeous", ",", "witty", "movie")


def test_the_straight_line_is_captum(explainer, classifier, tokenizer):
    result = explainer.explain(TEXT, target=1, strategy="straight_line", method="riemann_middle", n_steps=20)
    inputs = tokenizer(TEXT, return_tensors="pt")
    baseline = inputs.input_ids.clone()
    baseline[:, 1:-1] = tokenizer.pad_token_id
    lig = LayerIntegratedGradients(lambda ids, mask: classifier(ids, mask).logits, classifier.get_input_embeddings())
    expected = lig.attribute(inputs.input_ids, baseline, 1, inputs.attention_mask, 20, "riemann_middle").sum(dim=-1)[0]
    torch.testing.assert_close(torch.tensor(result.token_scores), expected, rtol=0, atol=1e-5)
    assert result.settings.strategy == "straight_line"


@pytest.mark.parametrize("strategy", CATALOGUE.names("search", "path", "method"))
def test_a_batch_is_its_texts(classifier, tokenizer, strategy):
    explainer = make(classifier, tokenizer, strategy=strategy, seed=3)
    together = explainer.explain(TEXTS, [0, 1, "positive", "NEGATIVE", "predicted"], n_steps=24)
    alone = [explainer.explain(t, w, n_steps=24) for t, w in zip(TEXTS, [0, 1, 1, 0, "predicted"], strict=True)]
    for one, other in zip(together, alone, strict=True):
        assert one.token_scores == pytest.approx(other.token_scores, abs=1e-5)
        assert one.anchors == other.anchors
        assert one.target == other.target
    small = explainer.explain(TEXTS, [0, 1, 1, 0, "predicted"], n_steps=24, batch_size=2, internal_batch_size=7)
    for one, other in zip(small, alone, strict=True):
        assert one.token_scores == pytest.approx(other.token_scores, abs=1e-5)


def test_searches_and_paths_of_one_s_own(explainer, classifier, tokenizer):
    class Diagonal(StraightLine):
        def __repr__(self):
            return "Diagonal()"

    straight = explainer.explain(TEXT, strategy="straight_line")
    own = explainer.explain(TEXT, strategy=Diagonal())
    assert own.token_scores == straight.token_scores
    assert own.settings.strategy == "Diagonal()"
    assert (
        explainer.explain(TEXT, strategy=MaxCount()).token_scores
        == explainer.explain(TEXT, strategy="maxcount").token_scores
    )
    assert make(classifier, tokenizer, strategy=MaxCount()).explain(TEXT).settings.strategy == "MaxCount()"


def test_paths_are_told_which_tokens_form_words(explainer):
    told = []

    class Listening(PathGenerator):
        def grouped(self, words):
            told.append(words)
            return StraightLine()

        def knots(self, inputs, baselines):
            raise AssertionError("the path for the batch is another one")

    explainer.explain(["hello dullest", "no!"], strategy=Listening(), n_steps=8)
    assert told[0].tolist() == [[-1, 0, 1, 1, -1], [-1, 0, 1, -1, -1]]
    path = StaggeredPath(StraightLine(), 0, n_orders=2)
    # Two words make two orders, whatever their tokens: a pair of orders is all of them.
    one, other = (
        explainer.explain("hello dullest", strategy=p, n_steps=400) for p in (path, EnsemblePath([path, path]))
    )
    assert one.word_scores == pytest.approx(other.word_scores, abs=1e-2)
    assert one.delta_percent < 5


def test_compared_methods_stagger_words_as_the_explainer_does(explainer):
    encoder, path = explainer.encoder, StaggeredPath(StraightLine())
    encodings = [encoder.encode(text)[0] for text in ("hello dullest", "no!")]
    with explainer.classifier.evaluating():
        pad = encoder.token_id("baseline", "pad", 9)
        asked = ask(explainer.classifier, explainer.task, encoder, [pad], encodings, [None, None])
        (question,) = asked.by_baseline
        scores = PathMethod("staggered", path)(question, Plan(n_steps=20))
    assert question.words.tolist() == [[-1, 0, 1, 1, -1], [-1, 0, 1, -1, -1]]
    for row, result in zip(scores, explainer.explain(["hello dullest", "no!"], strategy=path, n_steps=20), strict=True):
        assert row[: len(result.tokens)].tolist() == pytest.approx(result.token_scores, abs=1e-6)
    unknown = replace(question, words=None)
    assert unknown.path(path) is path


def test_settings_say_how_words_were_staggered(explainer, classifier, tokenizer):
    own = explainer.explain(TEXT, strategy=StaggeredPath(StraightLine(), 0.25, 2, seed=3))
    assert own.settings.strategy == repr(StaggeredPath(StraightLine(), 0.25, 2, seed=3))
    assert own.settings.seed == 3
    named = make(classifier, tokenizer, seed=7, strategy="staggered").explain(TEXT)
    assert (named.settings.strategy, named.settings.seed, named.settings.n_anchors) == ("staggered", 7, 0)
    assert named.anchors == ((),) * len(named.tokens)
    path = StaggeredPath(StraightLine(), 0.3, seed=7, inner_share=0.5)
    assert named.token_scores == explainer.explain(TEXT, strategy=path).token_scores
    uniform = explainer.explain(TEXT, strategy="uniform")
    assert (uniform.settings.n_anchors, uniform.settings.n_neighbors) == (4, 12)
    assert len(uniform.anchors[1]) == 4


def test_each_text_takes_the_gradients_that_it_needs(explainer):
    options = {"strategy": "staggered", "tolerance_percent": 4, "spread_percent": 10, "max_steps": 200}
    together = explainer.explain(TEXTS, **options)
    alone = [explainer.explain(t, **options) for t in TEXTS]
    assert len({result.settings.n_steps for result in together}) > 1
    for one, other in zip(together, alone, strict=True):
        assert one.token_scores == pytest.approx(other.token_scores, abs=1e-5)


@pytest.mark.parametrize("strategy", ["greedy", "straight_line", "staggered"])
def test_several_baselines_are_averaged(explainer, strategy):
    each = [explainer.explain(TEXTS, 1, b, strategy=strategy, n_steps=20) for b in ("pad", "mask", "movie")]
    together = explainer.explain(TEXTS, 1, ["pad", "mask", "movie"], strategy=strategy, n_steps=60)
    for i, result in enumerate(together):
        scores = np.mean([results[i].token_scores for results in each], axis=0)
        assert result.token_scores == pytest.approx(scores, abs=1e-5)
        assert result.baseline_value == pytest.approx(
            np.mean([results[i].baseline_value for results in each]), abs=1e-5
        )
        assert result.delta == pytest.approx(np.mean([results[i].delta for results in each]), abs=1e-5)
        assert result.settings.baseline == "[PAD], [MASK], movie"
        assert result.settings.n_steps == 60
        assert not any(result.anchors)
    with pytest.raises(ValueError, match="n_steps must be at least 2, one for each path from each baseline, got 1"):
        explainer.explain(TEXT, baseline=["pad", "mask"], strategy="straight_line", n_steps=1)
    with pytest.raises(ValueError, match="baseline must be a token, or several, got none"):
        explainer.explain(TEXT, baseline=())
    assert explainer.explain(TEXT, baseline=["pad"]) == explainer.explain(TEXT)


def test_one_moving_word_gets_the_difference(explainer):
    # DistilBERT's head has a ReLU, at whose kinks every rule converges slowly.
    result = explainer.explain("gorgeous", n_steps=200)
    assert result.word_scores[0] == pytest.approx(result.input_value - result.baseline_value, rel=0.005)


def test_a_text_of_special_tokens_alone(explainer):
    result = explainer.explain("")
    assert result.tokens == ("[CLS]", "[SEP]")
    assert result.token_scores == (0.0, 0.0)
    assert result.words == ()
    assert result.delta_percent == 0
    assert TextAttribution.from_dict(json.loads(json.dumps(result.to_dict(), allow_nan=False))) == result
    assert "<html" in result.to_html()


def test_a_text_that_is_the_baseline(explainer):
    result = explainer.explain("movie movie", baseline="movie")
    assert result.token_scores == (0.0,) * 4
    assert result.delta == 0


def test_emoji_and_accents_have_their_offsets(explainer):
    text = "A café 🤗 movie"
    result = explainer.explain(text)
    assert result.words == ("A", "café", "🤗", "movie")
    assert result.text == text


def test_long_texts(explainer):
    long = " ".join(["gorgeous movie"] * 40)
    with pytest.warns(UserWarning, match="text 2 of 2 has 82 tokens, 50 more than the 32 that the model reads"):
        results = explainer.explain(["dull", long])
    assert results[1].truncated == 50
    windows = explainer.explain(long, overflow="windows")
    assert "".join(w.text for w in windows) == long
    assert not any(w.truncated for w in windows)
    assert all(long[w.start :].startswith(w.text) for w in windows)
    assert [w.start == 0 for w in windows] == [True] + [False] * (len(windows) - 1)
    with pytest.raises(ValueError, match="the text has 82 tokens"):
        explainer.explain(long, overflow="error")


@pytest.mark.parametrize(
    ("baseline", "token"),
    [("pad", "[PAD]"), ("mask", "[MASK]"), ("unk", "[UNK]"), ("sep", "[SEP]"), ("dull", "dull"), (1, "[UNK]")],
)
def test_baselines(explainer, classifier, tokenizer, baseline, token):
    result = explainer.explain(TEXT, target=1, baseline=baseline)
    assert result.settings.baseline == token
    ids = tokenizer(TEXT, return_tensors="pt").input_ids
    ids[0, 1:-1] = tokenizer.convert_tokens_to_ids(token)
    with torch.no_grad():
        assert result.baseline_value == pytest.approx(float(classifier(ids).logits[0, 1]), abs=1e-5)


def test_anchors_are_words_by_default_and_any_row_if_asked(classifier, tokenizer):
    def kinds(**options):
        explainer = make(classifier, tokenizer, strategy="greedy", n_anchors=8, **options)
        anchors = [a for row in explainer.explain(TEXT).anchors for a in row]
        return [a for a in anchors if not a.isalpha() and a != "[PAD]"]

    assert kinds() == []
    assert kinds(candidates="all") != []


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_dtypes(tokenizer, dtype):
    result = make(tiny_classifier(len(tokenizer), dtype=dtype), tokenizer).explain(TEXT)
    assert all(map(lambda s: s == s, result.token_scores))  # noqa: C417 - NaN is not itself
    assert result.delta_percent < 30


def test_the_model_is_left_as_it_was(tokenizer):
    model = tiny_classifier(len(tokenizer)).train()
    model.distilbert.transformer.layer[0].eval()
    before = [m.training for m in model.modules()]
    explainer = make(model, tokenizer)
    first = explainer.explain(TEXT)
    assert [m.training for m in model.modules()] == before
    assert not model.get_input_embeddings()._forward_hooks
    assert all(p.grad is None for p in model.parameters())
    # Dropout was off, or two runs would differ.
    assert explainer.explain(TEXT) == first


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_inside_modes_without_gradients(explainer, mode):
    expected = explainer.explain(TEXT)
    with mode():
        assert explainer.explain(TEXT).token_scores == pytest.approx(expected.token_scores, abs=1e-6)


def test_threads_agree(classifier, tokenizer):
    explainer = make(classifier, tokenizer)
    expected = [make(classifier, tokenizer).explain(t) for t in TEXTS]
    results = {}

    def work(number):
        results[number] = [explainer.explain(t) for t in TEXTS]

    threads = [threading.Thread(target=work, args=(i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [results[i] for i in range(3)] == [expected] * 3


def test_explainers_of_one_model_agree_in_threads(classifier, tokenizer):
    expected = make(classifier, tokenizer).explain(TEXTS)
    results = {}

    def work(number, explainer):
        results[number] = explainer.explain(TEXTS)

    threads = [threading.Thread(target=work, args=(i, make(classifier, tokenizer))) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [results[i] for i in range(4)] == [expected] * 4


def test_from_a_folder_and_from_a_pipeline(tmp_path, classifier, tokenizer):
    classifier.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    options = {"n_anchors": 4, "n_neighbors": 12}
    expected = make(classifier, tokenizer, output="log_odds").explain(TEXT)
    folder = TextExplainer.from_pretrained(tmp_path, **options).explain(TEXT)
    assert folder.settings.model == str(tmp_path)
    pipeline = TextExplainer.from_pipeline(
        TextClassificationPipeline(model=classifier, tokenizer=tokenizer), **options
    ).explain(TEXT)
    for result in (folder, pipeline):
        assert result.token_scores == pytest.approx(expected.token_scores, abs=1e-6)
    with pytest.raises(ModelError, match="pipeline must be one of TextClassificationPipeline.*, got str"):
        TextExplainer.from_pipeline("sentiment-analysis")


def test_one_text_or_many(explainer):
    assert isinstance(explainer.explain(TEXT), TextAttribution)
    assert explainer.explain([TEXT]) == [explainer.explain(TEXT)]
    assert explainer.explain([]) == []
    assert next(explainer.explain_each(iter(TEXTS))).text == TEXT


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (
            {"target": "GOOD"},
            ValueError,
            "target must be 'predicted', one of 'NEGATIVE', 'POSITIVE', or an index below 2, got 'GOOD'",
        ),
        ({"target": 2}, ValueError, "target must be .* got 2"),
        ({"target": None}, ValueError, "target must be 'predicted'.* got None"),
        ({"target": [0.5]}, ValueError, "target must be 'predicted'.* got 0.5"),
        ({"baseline": True}, ValueError, "baseline must be one of .* got True"),
        ({"baseline": 1.5}, ValueError, "baseline must be one of .* got 1.5"),
        ({"target": [0, 1]}, ValueError, "target must be one class, or one for each of the 1 texts, got 2"),
        (
            {"baseline": "padd"},
            ValueError,
            "baseline must be one of 'pad', 'mask', 'unk', 'sep', 'cls', a token of the vocabulary or an id below 157, got 'padd'",
        ),
        ({"baseline": -1}, ValueError, "baseline must be .* or an id below 157, got -1"),
        (
            {"strategy": "gready"},
            ValueError,
            "strategy must be one of 'straight_line', 'greedy', .*'random', got 'gready'; or pass an AnchorSearch, a PathGenerator or",
        ),
        ({"method": "simpson"}, ValueError, "method must be one of 'gausslegendre'.*got 'simpson'"),
        ({"n_steps": 0}, ValueError, "n_steps must be an integer of at least 1, got 0"),
        ({"batch_size": 0}, ValueError, "batch_size must be an integer of at least 1, got 0"),
        ({"internal_batch_size": True}, ValueError, "internal_batch_size must be an integer of at least 1, got True"),
        ({"overflow": "cut"}, ValueError, "overflow must be one of 'truncate', 'windows', 'error', got 'cut'"),
        ({"texts": [TEXT, 3]}, TypeError, r"texts\[1\] must be a string, got int"),
    ],
)
def test_wrong_arguments(explainer, arguments, error, message):
    with pytest.raises(error, match=message):
        explainer.explain(**{"texts": TEXT, **arguments})


def test_numbers_may_come_as_text(explainer):
    assert (
        explainer.explain(TEXT, "1", "11") == explainer.explain(TEXT, 1, 11) == explainer.explain(TEXT, np.int64(1), 11)
    )


def test_texts_before_one_that_fails_are_explained(explainer):
    results = explainer.explain_each([TEXT, "dull", "movie " * 40], overflow="error")
    assert [next(results).text, next(results).text] == [TEXT, "dull"]
    with pytest.raises(ValueError, match="text 3 of 3 has 42 tokens"):
        next(results)


def test_wrong_arguments_of_the_constructor(classifier, tokenizer):
    with pytest.raises(ValueError, match="spacing must be one of 'arc', 'knots', got 'even'"):
        make(classifier, tokenizer, spacing="even")
    with pytest.raises(ValueError, match="candidates must be 'words', 'all' or a boolean mask, got 'some'"):
        make(classifier, tokenizer, candidates="some")
    with pytest.raises(ValueError, match="n_anchors must be an integer of at least 1, got 0"):
        make(classifier, tokenizer, n_anchors=0)
    with pytest.raises(ValueError, match="n_neighbors must be an integer of at least 1, got 0"):
        make(classifier, tokenizer, n_neighbors=0)
    with pytest.raises(ValueError, match=r"candidates must be a boolean mask of shape \(\d+,\), got torch.bool \(3,\)"):
        make(classifier, tokenizer, candidates=torch.ones(3, dtype=torch.bool))


def test_arguments_are_checked_before_the_first_text(explainer):
    with pytest.raises(ValueError, match="baseline must be"):
        explainer.explain_each(TEXTS, baseline="padd")


def test_embeddings_that_are_not_finite(tokenizer):
    model = tiny_classifier(len(tokenizer))
    model.get_input_embeddings().weight.data[5] = torch.nan
    with pytest.raises(VocabularyError, match="weight must be finite, got NaN or infinity in row 5"):
        make(model, tokenizer)


def test_other_weights_that_are_not_finite(tokenizer):
    model = tiny_classifier(len(tokenizer))
    model.classifier.weight.data[0] = torch.nan
    with pytest.raises(ModelError, match="the output of .* must be finite, got NaN or infinity; check its weights"):
        make(model, tokenizer).explain(TEXT)


def test_models_that_classify_no_texts(tmp_path, tokenizer):
    config = DistilBertConfig(vocab_size=len(tokenizer), dim=16, hidden_dim=16, n_layers=1, n_heads=2)
    with pytest.raises(ModelError, match=r"model must give logits of shape \(B, 2\), got \(1, 7, 2\)"):
        make(DistilBertForTokenClassification(config).eval(), tokenizer, task="labels").explain(TEXT)
    with pytest.raises(ModelError, match="model must be a Hugging Face model, got str"):
        make("model", tokenizer)
    for kind in (DistilBertModel, DistilBertForMaskedLM):
        kind(config).save_pretrained(tmp_path)
        tokenizer.save_pretrained(tmp_path)
        with pytest.raises(
            ModelError, match=r"model must be a fine-tuned sequence classifier, got .* without weights for classifier"
        ):
            TextExplainer.from_pretrained(tmp_path, task="labels")
    with pytest.raises(ValueError, match=re.escape("must hold [MASK] once for a masked language model, got")):
        TextExplainer.from_pretrained(tmp_path).explain(TEXT)


def test_folders_that_hold_no_model(tmp_path):
    with pytest.raises(ModelError, match="got '.*nowhere': there is no such folder"):
        TextExplainer.from_pretrained(tmp_path / "nowhere")
    with pytest.raises(ModelError, match="the folder holds no config.json"):
        TextExplainer.from_pretrained(tmp_path)


def test_the_demo():
    explainer = TextExplainer.demo()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        good, bad = explainer.explain(
            ["A gorgeous, witty, seductive movie.", "The plot is dull and the acting is terrible."]
        )
    assert (good.predicted_label, bad.predicted_label) == ("POSITIVE", "NEGATIVE")
    assert max(good.delta_percent, bad.delta_percent) < 5
    assert good.settings.model == "demo"
    best = max(zip(good.word_scores, good.words, strict=True))[1]
    assert best in ("gorgeous", "witty", "seductive")


def test_tokenizers_know_their_limit(classifier):
    assert make(classifier, tiny_tokenizer(max_length=10)).encoder.max_tokens == 10
    assert make(classifier, tiny_tokenizer(max_length=10**30)).encoder.max_tokens == 32


def test_rules_without_an_estimate_double_until_the_delta_is_within_the_tolerance(explainer):
    texts = ["a gorgeous, witty movie", "dull", "the plot is not so good but the acting is great"]
    options = {"target": 1, "strategy": "greedy", "method": "gausslegendre"}
    fixed = {n: explainer.explain(texts, n_steps=n, **options) for n in (48, 96, 192, 384, 768)}
    for tolerance in (100.0, 0.5, 0.05):
        results = explainer.explain(texts, n_steps="auto", tolerance_percent=tolerance, max_steps=800, **options)
        for i, result in enumerate(results):
            wanted = next((n for n in fixed if fixed[n][i].delta_percent <= tolerance), 768)
            assert result.settings.n_steps == wanted
            assert result.token_scores == pytest.approx(fixed[wanted][i].token_scores, abs=1e-5)


def test_the_default_is_staggered(explainer):
    result = explainer.explain(TEXT, n_steps=48)
    assert (result.settings.strategy, result.settings.seed, result.settings.n_anchors) == ("staggered", 0, 0)
    assert result.anchors == ((),) * len(result.tokens)
    assert result.delta_percent < 1e-3
    for n_orders in (None, 12):
        path = StaggeredPath(StraightLine(), 0.3, n_orders, inner_share=0.5)
        assert explainer.explain(TEXT, strategy=path, n_steps=48).token_scores == result.token_scores
    assert len(result.word_errors) == len(result.words)
    assert min(result.word_errors) > 0
    assert f"{result.spread_percent:.2g} % from the draw of the orders" in str(result).replace("\n", "")


def test_an_argument_of_the_constructor_is_named_as_such(explainer):
    with pytest.raises(
        TypeError, match=r"^explain has no argument 'seed'; it is an argument of TextExplainer; the fields"
    ):
        explainer.explain("a film", seed=1)


def test_auto_goes_on_where_it_was(explainer, classifier):
    rows = []
    hook = classifier.register_forward_hook(lambda _module, _args, output: rows.append(len(output.logits)))
    options = {"tolerance_percent": 3, "spread_percent": 8}
    try:
        result = explainer.explain(TEXT, **options)
    finally:
        hook.remove()
    assert 48 < result.settings.n_steps < 400
    assert result.converged
    assert result.error_percent <= 3
    assert result.spread_percent <= 8
    # Every gradient once, and a few outputs: at both ends of the question, and at both ends of the paths.
    assert result.settings.n_steps <= sum(rows) <= result.settings.n_steps + 6
    assert "within the tolerance" in str(result).replace("\n", " ")
    stopped = explainer.explain(TEXT, tolerance_percent=1e-9, max_steps=60)
    assert (stopped.converged, stopped.settings.n_steps) == (False, 60)
    assert "above the tolerance: raise max_steps" in str(stopped).replace("\n", " ")
    assert explainer.explain(TEXT, n_steps=48).converged is None
    assert TextAttribution.from_dict(json.loads(json.dumps(result.to_dict()))) == result


def test_words_that_can_be_read_are_needed_for_anchors_alone(classifier, tokenizer, monkeypatch):
    monkeypatch.setattr("captum_dig.vocabulary.readable.MIN_WORDS", 10**6)
    explainer = make(classifier, tokenizer)
    assert explainer.explain("dull").words == ("dull",)
    with pytest.raises(ValueError, match=r'readable words, .*candidates="all"'):
        explainer.explain("dull", strategy="greedy")
    assert make(classifier, tokenizer, candidates="all").explain("dull", strategy="greedy").anchors[1]


def test_auto_stops_at_the_largest_number_of_steps(explainer):
    for most, reached in ((60, 60), (100, 100), (399, 399), (7, 7)):
        result = explainer.explain("a witty movie", n_steps="auto", tolerance_percent=1e-9, max_steps=most)
        assert result.settings.n_steps == reached


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_steps": 2}, "n_steps must be at least 3, one for each path from each baseline, got 2; take more"),
        ({"n_steps": 5, "baseline": ("pad", "mask")}, "n_steps must be at least 6, one for each path"),
        ({"max_steps": 2}, "max_steps must be at least 3, one for each path from each baseline, got 2"),
        ({"n_steps": "auto", "spread_percent": "few"}, "spread_percent must be a positive number, got 'few'"),
        ({"n_steps": "auto", "spread_percent": -1}, "spread_percent must be a positive number, got -1"),
        ({"n_steps": "many"}, "n_steps must be 'auto' or an integer of at least 1, got 'many'"),
        ({"n_steps": "auto", "tolerance_percent": 0}, "tolerance_percent must be a positive number, got 0"),
        (
            {"n_steps": "auto", "tolerance_percent": float("nan")},
            "tolerance_percent must be a positive number, got nan",
        ),
        ({"n_steps": "auto", "max_steps": 0}, "max_steps must be an integer of at least 1, got 0"),
    ],
)
def test_wrong_numbers_of_steps_are_found_at_once(explainer, arguments, message):
    with pytest.raises(ValueError, match=message):
        explainer.explain_each(["dull"], **arguments)


def test_auto_begins_with_a_gradient_for_each_path_from_each_baseline(explainer):
    result = explainer.explain("dull", baseline=["pad"] * 25, max_steps=80)
    assert result.settings.n_steps == 75


def test_texts_whose_paths_are_large_are_attributed_in_parts(explainer, monkeypatch):
    together = explainer.explain(TEXTS, target=1, n_steps=8)
    monkeypatch.setattr("captum_dig.methods.scoring._TOGETHER", 1)
    for one, other in zip(together, explainer.explain(TEXTS, target=1, n_steps=8), strict=True):
        assert one.token_scores == pytest.approx(other.token_scores, abs=1e-5)


def resident_kilobytes():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="only Linux says how much memory a process holds")
def test_many_calls_leave_memory_where_it_was(explainer):
    # Different texts, each time a batch of another shape.
    texts = [" ".join(["good", "bad", "dull", "witty", "plot"][i % 5 :] * (1 + i % 4)) for i in range(20)]

    def call(i):
        explainer.explain(
            texts[i % 20 : i % 20 + 2], strategy=("greedy", "maxcount", "straight_line")[i % 3], n_steps=9
        )

    # As many as there are shapes and strategies: allocators take their share for each.
    for i in range(60):
        call(i)
    gc.collect()
    before, objects = resident_kilobytes(), len(gc.get_objects())
    for i in range(200):
        call(i)
    gc.collect()
    assert resident_kilobytes() - before < 8_000
    assert len(gc.get_objects()) - objects < 500
