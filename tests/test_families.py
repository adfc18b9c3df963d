"""Models that treat ids, padding or positions in ways of their own."""

import numpy as np
import pytest
import torch
import transformers

from captum_dig import ModelError, TextExplainer
from tests.models import tiny_tokenizer

TEXTS = ["a witty movie", "dull", "the acting was not so bad but the story is awful and slow", "no!", "hello world"]
TINY = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 40,
    "initializer_range": 0.4,
    "num_labels": 2,
}


def build(name, tokenizer, **changes):
    torch.manual_seed(3)
    names = {"vocab_size": len(tokenizer), "pad_token_id": tokenizer.pad_token_id}
    config = getattr(transformers, f"{name}Config")(**{**TINY, **names, **changes})
    return getattr(transformers, f"{name}ForSequenceClassification")(config).eval()


def make(model, tokenizer, **options):
    return TextExplainer(model, tokenizer, candidates="all", n_anchors=4, n_neighbors=12, cache=False, **options)


FAMILIES = {
    "BERT": ("Bert", {}),
    "RoBERTa": ("Roberta", {"type_vocab_size": 1}),
    "ALBERT": ("Albert", {"embedding_size": 8}),
    "ELECTRA": ("Electra", {"embedding_size": 8}),
    "DeBERTa-v2": ("DebertaV2", {"type_vocab_size": 0}),
    "MPNet": ("MPNet", {}),
    "GPT-2": ("GPT2", {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 40}),
}


# Early releases of Transformers 5 compile parts of DeBERTa with what newer releases of PyTorch deprecate.
@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")
@pytest.mark.parametrize("family", FAMILIES)
def test_batches_outputs_and_deltas(family, tokenizer):
    name, changes = FAMILIES[family]
    model = build(name, tokenizer, **changes)
    explainer = make(model, tokenizer)
    together = explainer.explain(TEXTS, target=1, n_steps=200)
    for text, result in zip(TEXTS, together, strict=True):
        assert explainer.explain(text, target=1, n_steps=200).token_scores == pytest.approx(
            result.token_scores, abs=1e-5
        )
        with torch.no_grad():
            logits = model(**tokenizer(text, return_tensors="pt")).logits
        assert result.input_value == pytest.approx(float(logits[0, 1]), abs=1e-5)
        assert abs(result.delta) < 0.02 * max(1.0, abs(result.input_value - result.baseline_value))


def test_padding_that_leaks_is_found_out(tokenizer):
    # FNet mixes positions without a mask.
    explainer = make(build("FNet", tokenizer), tokenizer)
    for text, result in zip(TEXTS, explainer.explain(TEXTS), strict=True):
        assert result.token_scores == pytest.approx(explainer.explain(text).token_scores, abs=1e-5)


def test_padding_tokens_that_differ_are_found_out(tokenizer):
    model = build("GPT2", tokenizer, n_embd=16, n_layer=2, n_head=2, n_positions=40, pad_token_id=9)
    explainer = make(model, tokenizer)
    for text, result in zip(TEXTS, explainer.explain(TEXTS), strict=True):
        assert result.input_value == pytest.approx(explainer.explain(text).input_value, abs=1e-5)


def test_without_a_padding_token_rows_go_one_by_one():
    tokenizer = tiny_tokenizer()
    model = build("GPT2", tokenizer, n_embd=16, n_layer=2, n_head=2, n_positions=40, pad_token_id=None)
    results = make(model, tokenizer).explain(TEXTS[:2], baseline="mask", n_steps=20)
    assert [r.text for r in results] == TEXTS[:2]


@pytest.mark.parametrize("n_steps", [4, 7])
def test_ids_turned_round_are_refused(tokenizer, n_steps):
    config = transformers.XLNetConfig(
        vocab_size=len(tokenizer), d_model=16, n_layer=1, n_head=2, d_inner=16, num_labels=2
    )
    model = transformers.XLNetForSequenceClassification(config).eval()
    with pytest.raises(ModelError, match="model must call its input embeddings once.*a call with other ids.*XLNet"):
        make(model, tokenizer).explain("a gorgeous, witty movie", n_steps=n_steps)


def test_encoder_decoders_are_refused(tokenizer):
    config = transformers.BartConfig(
        vocab_size=len(tokenizer), d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=16, decoder_ffn_dim=16, num_labels=2, eos_token_id=3, pad_token_id=0
    )  # fmt: skip
    model = transformers.BartForSequenceClassification(config).eval()
    with pytest.raises(
        ModelError, match="model must call its input embeddings once.*LayerDiscretizedIntegratedGradients"
    ):
        make(model, tokenizer).explain("a witty movie")


def test_a_token_without_a_row_is_named():
    tokenizer = tiny_tokenizer()
    model = build("Bert", tokenizer)
    tokenizer.add_tokens(["blorp"])
    with pytest.raises(
        ModelError, match="model must have a row for every token, got 'blorp' in the text with id 157 and 157 rows"
    ):
        make(model, tokenizer).explain("a blorp movie")


def test_texts_before_a_token_without_a_row_are_kept():
    tokenizer = tiny_tokenizer()
    model = build("Bert", tokenizer)
    tokenizer.add_tokens(["blorp"])
    results = make(model, tokenizer).explain_each(["dull", "a blorp movie"])
    assert next(results).text == "dull"
    with pytest.raises(ModelError, match="got 'blorp' in text 2 of 2"):
        next(results)


@pytest.mark.parametrize("limit", [1, 2])
def test_a_limit_without_room_for_a_word(limit):
    tokenizer = tiny_tokenizer(max_length=limit)
    with pytest.raises(
        ModelError, match=f"model must read more than the 2 special tokens of a text, got a limit of {limit}"
    ):
        make(build("Bert", tokenizer), tokenizer)


def test_half_a_character_is_named_and_texts_before_it_are_kept(tokenizer):
    results = make(build("Bert", tokenizer), tokenizer).explain_each(["dull", "bad \ud800 movie"])
    assert next(results).text == "dull"
    with pytest.raises(ValueError, match=r"text 2 of 2 must be text that UTF-8 can hold, got '\\ud800' at character 4"):
        next(results)


@pytest.mark.parametrize("targets", [np.array([1, 0]), torch.tensor([1, 0]), (1, 0)])
def test_targets_of_every_kind_of_sequence(tokenizer, targets):
    results = make(build("Bert", tokenizer), tokenizer).explain(["dull", "witty"], target=targets)
    assert [r.target for r in results] == [1, 0]


@pytest.mark.parametrize("kind", ["regression", "multi_label_classification"])
def test_other_problems(tokenizer, kind):
    model = build("Bert", tokenizer, problem_type=kind, num_labels=1 if kind == "regression" else 3)
    result = make(model, tokenizer).explain("a witty movie")
    if kind == "regression":
        assert np.isnan(result.probabilities[0])
    else:
        with torch.no_grad():
            expected = model(**tokenizer("a witty movie", return_tensors="pt")).logits.sigmoid()[0]
        assert result.probabilities == pytest.approx(expected.tolist(), abs=1e-5)
