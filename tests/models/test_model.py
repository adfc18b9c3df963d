"""Model families: each has its own way with ids, padding, positions and tables of embeddings."""

import numpy as np
import pytest
import torch
import transformers
from captum.attr import IntegratedGradients, LayerIntegratedGradients, LLMGradientAttribution, TextTokenInput
from torch import nn

from captum_dig import (
    DiscretizedIntegratedGradients,
    LayerDiscretizedIntegratedGradients,
    ModelError,
    MonotonicPath,
    StraightLine,
    TextExplainer,
    Vocabulary,
)
from tests.tiny_models import TINY, tiny_tokenizer

TEXTS = ["a witty movie", "dull", "the acting was not so bad but the story is awful and slow", "no!", "hello world"]


def build(name, tokenizer, head="ForSequenceClassification", **changes):
    torch.manual_seed(3)
    names = {
        "vocab_size": len(tokenizer),
        "pad_token_id": tokenizer.pad_token_id,
        "bos_token_id": tokenizer.cls_token_id,
        "eos_token_id": tokenizer.sep_token_id,
    }
    model = getattr(transformers, f"{name}{head}")
    return model(model.config_class(**{**TINY, "num_labels": 2, **names, **changes})).eval()


def make(model, tokenizer, **options):
    output = None if model.config.problem_type == "regression" else "logit"
    quick = {"output": output, "candidates": "all", "n_anchors": 4, "n_neighbors": 12, "cache": False}
    return TextExplainer(model, tokenizer, **quick | options)


GPT2 = {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 40}
HEADS = {"num_key_value_heads": 1, "head_dim": 8}
# Early releases of Transformers 5 compile parts of DeBERTa and ModernBERT with what newer PyTorch releases deprecate.
older_transformers = pytest.mark.filterwarnings("ignore:`torch.jit.script.*` is deprecated:DeprecationWarning")
# A family's class, what its configuration asks for, and what its words become at the other end of their paths.
FAMILIES = {
    "BERT": ("Bert", {}, "pad"),
    "DistilBERT": ("DistilBert", {"hidden_dim": 32}, "pad"),
    "RoBERTa": ("Roberta", {"type_vocab_size": 1}, "pad"),
    "XLM-R": ("XLMRoberta", {"type_vocab_size": 1}, "pad"),
    "ALBERT": ("Albert", {"embedding_size": 8}, "pad"),
    "ELECTRA": ("Electra", {"embedding_size": 8}, "pad"),
    "DeBERTa-v2": ("DebertaV2", {"type_vocab_size": 0}, "pad"),
    "ModernBERT": ("ModernBert", {"cls_token_id": 2, "sep_token_id": 3}, "pad"),
    "MPNet": ("MPNet", {}, "pad"),
    "GPT-2": ("GPT2", GPT2, "pad"),
    # With GELU, as Galactica has: where ReLU bends, the error of every rule falls with 1 / n_steps only.
    "OPT": ("OPT", {"ffn_dim": 32, "word_embed_proj_dim": 8, "activation_function": "gelu"}, "pad"),
    # An untrained row of padding is exactly zero, where RMSNorm has no limit: x / |x| jumps from one side to the other,
    # and no rule converges on a path that begins there. The row of the mask is as good a baseline, and not zero.
    "Llama": ("Llama", {"num_key_value_heads": 1}, "mask"),
    "Mistral": ("Mistral", HEADS, "mask"),
    "Qwen2": ("Qwen2", {"num_key_value_heads": 1}, "mask"),
    "Qwen3": ("Qwen3", HEADS, "mask"),
    "Gemma": ("Gemma", HEADS, "mask"),
    "Gemma 2": ("Gemma2", HEADS, "mask"),
    "Gemma 3": ("Gemma3Text", HEADS, "mask"),
}


@older_transformers
@pytest.mark.parametrize("family", FAMILIES)
def test_batches_outputs_and_deltas(family, tokenizer):
    name, changes, baseline = FAMILIES[family]
    model = build(name, tokenizer, **changes)
    explainer = make(model, tokenizer, strategy="greedy")
    for strategy in ("greedy", "staggered"):
        options = {"target": 1, "baseline": baseline, "strategy": strategy, "n_steps": 16}
        for text, result in zip(TEXTS, explainer.explain(TEXTS, **options), strict=True):
            assert explainer.explain(text, **options).token_scores == pytest.approx(
                result.token_scores, rel=5e-6, abs=1e-5
            )
    results = explainer.explain(TEXTS, target=1, baseline=baseline, n_steps=200)
    for text, result in zip(TEXTS, results, strict=True):
        with torch.no_grad():
            logits = model(**tokenizer(text, return_tensors="pt")).logits
        assert result.input_value == pytest.approx(float(logits[0, 1]), abs=1e-5)
        assert abs(result.delta) < 0.02 * max(1.0, abs(result.input_value - result.baseline_value))
        assert [s for s, mark in zip(result.token_scores, result.special, strict=True) if mark] == [0.0, 0.0]


# Layers -------------------------------------------------------------------------------------------


class Recurrent(nn.Module):
    def __init__(self, n_rows):
        super().__init__()
        self.table = nn.Embedding(n_rows, 12, padding_idx=0)
        self.reader = nn.LSTM(12, 8, batch_first=True, bidirectional=True)
        self.labels = nn.Linear(16, 2)

    def forward(self, input_ids, attention_mask):
        states, _ = self.reader(self.table(input_ids))
        return self.labels((states * attention_mask[..., None]).sum(dim=1))


class Convolutional(nn.Module):
    def __init__(self, n_rows):
        super().__init__()
        self.table = nn.Embedding(n_rows, 12)
        self.reader = nn.Conv1d(12, 16, kernel_size=3, padding=1)
        self.labels = nn.Linear(16, 2)

    def forward(self, input_ids, attention_mask):
        maps = self.reader(self.table(input_ids).transpose(1, 2)).relu() * attention_mask[:, None]
        return self.labels(maps.amax(dim=2))


BART = {
    "encoder_layers": 2,
    "decoder_layers": 1,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 32,
    "decoder_ffn_dim": 32,
}
SEQ2SEQ = {
    "BART": ("Bart", BART),
    "mBART": ("MBart", {**BART, "scale_embedding": True}),
    # Gated, as from version 1.1 on: see OPT.
    "T5": (
        "T5",
        {
            "d_kv": 8,
            "d_ff": 32,
            "num_decoder_layers": 1,
            "decoder_start_token_id": 0,
            "feed_forward_proj": "gated-gelu",
        },
    ),
}
PLAIN = {"LSTM": Recurrent, "CNN": Convolutional}
# Captum warns of layers that depend on each other; the tables of encoder and decoder do not.
several_layers = pytest.mark.filterwarnings("ignore:Multiple layers provided")


def build_any(family, tokenizer):
    # An encoder-decoder looks words up in two tables; the one that `get_input_embeddings` gives is not called.
    if family in PLAIN:
        torch.manual_seed(3)
        model = PLAIN[family](len(tokenizer)).eval()
        return model, [model.table]
    if family in SEQ2SEQ:
        name, changes = SEQ2SEQ[family]
        model = build(name, tokenizer, **changes)
        return model, [model.get_encoder().embed_tokens, model.get_decoder().embed_tokens]
    name, changes, _ = FAMILIES[family]
    model = build(name, tokenizer, **changes)
    return model, [model.get_input_embeddings()]


def logits_of(model):
    def forward(ids, mask):
        output = model(input_ids=ids, attention_mask=mask)
        return output if isinstance(output, torch.Tensor) else output.logits

    return forward


def batch_of(tokenizer, texts):
    """Ids, mask, and ids with every word masked: a baseline that leaves special tokens, padding and positions alone."""
    rows = tokenizer(texts, padding=True, return_tensors="pt")
    ids = rows["input_ids"]
    words = ~torch.isin(ids, torch.tensor(tokenizer.all_special_ids))
    return ids, rows["attention_mask"], torch.where(words, tokenizer.mask_token_id, ids)


def calls(forward, layers, *arguments):
    """What each layer was asked for and what it emitted, in the only call of it."""
    seen = {}
    handles = [
        layer.register_forward_hook(lambda module, given, rows: seen.setdefault(module, []).append((given[0], rows)))
        for layer in layers
    ]
    with torch.no_grad():
        forward(*arguments)
    for handle in handles:
        handle.remove()
    assert [len(seen[layer]) for layer in layers] == [1] * len(layers)
    return [seen[layer][0] for layer in layers]


@several_layers
@older_transformers
@pytest.mark.parametrize("family", [*FAMILIES, *SEQ2SEQ, *PLAIN])
def test_layers_are_captums_on_a_straight_line_and_complete_on_a_curve(family, tokenizer):
    model, layers = build_any(family, tokenizer)
    forward = logits_of(model)
    ids, mask, base = batch_of(tokenizer, TEXTS[:3])
    path = MonotonicPath(Vocabulary.from_layer(layers[0]), n_anchors=4, n_neighbors=12)
    options = {"target": [0, 1, 1], "additional_forward_args": (mask,), "return_convergence_delta": True}

    captums, captums_delta = LayerIntegratedGradients(forward, layers).attribute(ids, base, n_steps=20, **options)
    straight, delta = LayerDiscretizedIntegratedGradients(forward, layers, StraightLine()).attribute(
        ids, base, n_steps=20, **options
    )
    torch.testing.assert_close([*straight, delta], [*captums, captums_delta], rtol=1e-5, atol=1e-5)

    curved, delta = LayerDiscretizedIntegratedGradients(forward, layers, path).attribute(
        ids, base, n_steps=300, internal_batch_size=150, **options
    )
    with torch.no_grad():
        change = (forward(ids, mask) - forward(base, mask)).gather(1, torch.tensor([[0], [1], [1]]))[:, 0]
    assert float(change.abs().min()) > 1e-3
    assert float((delta / change).abs().max()) < 0.02
    before, after = (calls(forward, layers, rows, mask) for rows in (base, ids))
    for attribution, (base_ids, _), (own_ids, rows) in zip(curved, before, after, strict=True):
        assert attribution.shape == rows.shape
        assert not attribution[own_ids == base_ids].any()
        assert (attribution[own_ids != base_ids] != 0).any(dim=1).all()


@older_transformers
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("family", [*FAMILIES, *SEQ2SEQ, *PLAIN])
def test_rows_that_a_model_looks_up_are_those_of_its_vocabulary(family, dtype, tokenizer):
    model, layers = build_any(family, tokenizer)
    model.to(dtype)
    ids, mask, _ = batch_of(tokenizer, TEXTS)
    for layer, (own_ids, rows) in zip(
        layers, calls(logits_of(model), layers, ids, mask.to(dtype) if family in PLAIN else mask), strict=True
    ):
        assert rows.dtype == dtype
        assert torch.equal(Vocabulary.from_layer(layer).find(rows.flatten(0, 1)), own_ids.flatten())


@pytest.mark.parametrize("family", ["GPT-2", "Llama", "Gemma", "Gemma 3"])
def test_bfloat16_models_are_explained_roughly_as_in_float32(family, tokenizer):
    name, changes, _ = FAMILIES[family]
    model = build(name, tokenizer, **changes)
    scores = []
    for dtype in (torch.float32, torch.bfloat16):
        results = make(model.to(dtype), tokenizer).explain(TEXTS, target=1, baseline="mask")
        assert all(result.token_scores[0] == result.token_scores[-1] == 0 for result in results)
        scores.append(torch.tensor([score for result in results for score in result.token_scores]))
    assert float((scores[1] - scores[0]).norm() / scores[0].norm()) < 0.1


@pytest.mark.parametrize("path", ["straight", "curved"])
def test_embeddings_are_the_way_into_a_model_that_turns_its_ids_round(path, tokenizer):
    # XLNet looks words up with the sequence first, so that Captum's layer methods, which repeat the first dimension,
    # repeat words instead of texts. It takes embeddings with the batch first.
    model = build_xlnet(tokenizer)
    table = model.get_input_embeddings()
    ids, mask, base = batch_of(tokenizer, TEXTS[:3])
    ends, starts = table(ids).detach(), table(base).detach()

    def forward(rows, mask):
        return model(inputs_embeds=rows, attention_mask=mask).logits

    options = {"target": 1, "n_steps": 200, "return_convergence_delta": True}
    curve = MonotonicPath(Vocabulary.from_layer(table), n_anchors=4, n_neighbors=12)
    dig = DiscretizedIntegratedGradients(forward, StraightLine() if path == "straight" else curve)
    got, delta = dig.attribute(ends, starts, additional_forward_args=(mask,), **options)
    with torch.no_grad():
        change = (forward(ends, mask) - forward(starts, mask))[:, 1]
        torch.testing.assert_close(forward(ends, mask), model(input_ids=ids, attention_mask=mask).logits)
    assert float((delta / change).abs().max()) < 0.02
    assert not got[ids == base].any()
    for i in range(3):
        alone = dig.attribute(ends[i : i + 1], starts[i : i + 1], additional_forward_args=(mask[i : i + 1],), **options)
        torch.testing.assert_close(alone[0], got[i : i + 1], rtol=1e-5, atol=1e-5)
    if path == "straight":
        captums = IntegratedGradients(forward).attribute(ends, starts, additional_forward_args=(mask,), **options)
        torch.testing.assert_close((got, delta), captums, rtol=1e-5, atol=1e-5)


# Language models ----------------------------------------------------------------------------------

GENERATORS = {
    "GPT-2": ("GPT2", "LMHeadModel"),
    "OPT": ("OPT", "ForCausalLM"),
    "Llama": ("Llama", "ForCausalLM"),
    "Mistral": ("Mistral", "ForCausalLM"),
    "Qwen2": ("Qwen2", "ForCausalLM"),
    "Qwen3": ("Qwen3", "ForCausalLM"),
    "Gemma": ("Gemma", "ForCausalLM"),
    "Gemma 2": ("Gemma2", "ForCausalLM"),
    "Gemma 3": ("Gemma3", "ForCausalLM"),
}
GENERATE = {"max_new_tokens": 3, "min_new_tokens": 3, "do_sample": False}


def log_probabilities(logits, continuation):
    """Log-probabilities of the tokens of a continuation; the last logits are those that predict its last token."""
    last = logits[0, -len(continuation) :].log_softmax(dim=1)
    return last.gather(1, continuation[:, None])[:, 0]


# Captum finds no text for a piece that continues a word, and says so twice.
@pytest.mark.filterwarnings("ignore:.*Skipping this token:UserWarning", "ignore:Pretty tokens length:UserWarning")
@pytest.mark.parametrize("family", GENERATORS)
def test_scores_of_a_generated_continuation_add_up(family, tokenizer):
    name, head = GENERATORS[family]
    model = build(name, tokenizer, head, **FAMILIES[family][1])
    table = model.get_input_embeddings()
    path = MonotonicPath(Vocabulary.from_layer(table), n_anchors=4, n_neighbors=12)
    prompt = TextTokenInput(
        "the plot was slow but", tokenizer, baselines="[MASK]", skip_tokens=[tokenizer.cls_token, tokenizer.sep_token]
    )
    got = LLMGradientAttribution(LayerDiscretizedIntegratedGradients(model, table, path), tokenizer).attribute(
        prompt, gen_args=GENERATE, n_steps=300, internal_batch_size=150
    )

    ids, words = prompt.inp_tensor, prompt.itp_mask
    with torch.no_grad():
        whole = model.generate(ids, attention_mask=torch.ones_like(ids), **GENERATE)
        continuation = whole[0, ids.shape[1] :]
        masked = torch.where(words, tokenizer.mask_token_id, ids)
        at_prompt, at_masked = (
            log_probabilities(model(torch.cat([rows, continuation[None]], dim=1)).logits[:, :-1], continuation)
            for rows in (ids, masked)
        )
    assert got.token_attr.shape == (3, 5)
    assert float((at_prompt - at_masked).abs().min()) > 0.01
    torch.testing.assert_close(got.token_attr.sum(dim=1), at_prompt - at_masked, rtol=0.02, atol=0)


@pytest.mark.parametrize("family", SEQ2SEQ)
def test_words_that_an_encoder_reads_for_a_token_that_its_decoder_writes(family, tokenizer):
    name, changes = SEQ2SEQ[family]
    model = build(name, tokenizer, "ForConditionalGeneration", **changes)
    table = model.get_encoder().embed_tokens
    ids, mask, base = batch_of(tokenizer, TEXTS[:1])
    written = model.generate(ids, attention_mask=mask, **GENERATE)

    def forward(ids, mask, so_far):
        return model(input_ids=ids, attention_mask=mask, decoder_input_ids=so_far).logits[:, -1].log_softmax(dim=1)

    path = MonotonicPath(Vocabulary.from_layer(table), n_anchors=4, n_neighbors=12)
    dig = LayerDiscretizedIntegratedGradients(forward, table, path)
    for length in range(1, written.shape[1]):
        arguments = (mask, written[:, :length])
        target = int(written[0, length])
        scores, delta = dig.attribute(
            ids, base, target, arguments, n_steps=300, internal_batch_size=150, return_convergence_delta=True
        )
        with torch.no_grad():
            change = float((forward(ids, *arguments) - forward(base, *arguments))[0, target])
        assert float(scores.sum()) == pytest.approx(change, rel=0.02, abs=1e-4)
        assert float(delta) == pytest.approx(float(scores.sum()) - change, abs=1e-4)
        assert not scores[ids == base].any()


@pytest.mark.parametrize("family", SEQ2SEQ)
def test_captum_generates_no_target_with_an_encoder_decoder(family, tokenizer):
    # It cuts the prompt off from what was generated, which an encoder-decoder does not repeat. The test before this
    # one has the way that works.
    name, changes = SEQ2SEQ[family]
    model = build(name, tokenizer, "ForConditionalGeneration", **changes)
    path = MonotonicPath(Vocabulary.from_layer(model.get_encoder().embed_tokens), n_anchors=4, n_neighbors=12)
    layer = LayerDiscretizedIntegratedGradients(model, model.get_encoder().embed_tokens, path)
    method = LLMGradientAttribution(layer, tokenizer)
    with pytest.raises((RuntimeError, ValueError), match="non-empty list"):
        method.attribute(TextTokenInput("a witty movie", tokenizer), gen_args=GENERATE)


# Classifiers with ways of their own ---------------------------------------------------------------


def build_xlnet(tokenizer):
    torch.manual_seed(3)
    config = transformers.XLNetConfig(
        vocab_size=len(tokenizer), d_model=16, n_layer=1, n_head=2, d_inner=16, num_labels=2, initializer_range=0.4
    )
    return transformers.XLNetForSequenceClassification(config).eval()


def test_padding_that_leaks_is_found_out(tokenizer):
    # FNet mixes positions without a mask.
    explainer = make(build("FNet", tokenizer), tokenizer)
    for text, result in zip(TEXTS, explainer.explain(TEXTS), strict=True):
        assert result.token_scores == pytest.approx(explainer.explain(text).token_scores, abs=1e-5)


def test_padding_tokens_that_differ_are_found_out(tokenizer):
    model = build("GPT2", tokenizer, **GPT2, pad_token_id=9)
    explainer = make(model, tokenizer)
    for text, result in zip(TEXTS, explainer.explain(TEXTS), strict=True):
        assert result.input_value == pytest.approx(explainer.explain(text).input_value, abs=1e-5)


def test_without_a_padding_token_rows_go_one_by_one():
    tokenizer = tiny_tokenizer()
    model = build("GPT2", tokenizer, **GPT2, pad_token_id=None)
    results = make(model, tokenizer).explain(TEXTS[:2], baseline="mask", n_steps=20)
    assert [r.text for r in results] == TEXTS[:2]


@pytest.mark.parametrize("family", [*SEQ2SEQ, "XLNet", "Longformer"])
def test_words_are_followed_to_where_a_model_looks_them_up(family, tokenizer):
    # Shifted into a decoder too, turned round, or among padding.
    if family == "XLNet":
        model = build_xlnet(tokenizer)
    elif family == "Longformer":
        model = build(family, tokenizer, attention_window=8)
    else:
        model, _ = build_any(family, tokenizer)
    explainer = make(model, tokenizer, strategy="greedy")
    together = explainer.explain(TEXTS, target=1, baseline="mask", n_steps=200)
    for text, result in zip(TEXTS, together, strict=True):
        alone = explainer.explain(text, target=1, baseline="mask", n_steps=200)
        assert alone.token_scores == pytest.approx(result.token_scores, abs=1e-5)
        with torch.no_grad():
            logits = model(**tokenizer(text, return_tensors="pt")).logits
        assert result.input_value == pytest.approx(float(logits[0, 1]), abs=1e-5)
        assert abs(result.input_value - result.baseline_value) > 1e-3
        assert abs(result.delta) < 0.01 * abs(result.input_value - result.baseline_value)
        assert result.token_scores[0] == result.token_scores[-1] == 0


@several_layers
@pytest.mark.parametrize("family", SEQ2SEQ)
def test_a_word_scores_what_encoder_and_decoder_make_of_it(family, tokenizer):
    model, layers = build_any(family, tokenizer)
    ids, mask, base = batch_of(tokenizer, TEXTS[:1])
    options = {"target": 1, "additional_forward_args": (mask,), "n_steps": 20}
    encoder, decoder = LayerDiscretizedIntegratedGradients(logits_of(model), layers, StraightLine()).attribute(
        ids, base, **options
    )
    expected = encoder.sum(dim=2)[0]
    expected[:-1] += decoder.sum(dim=2)[0, 1:]
    result = make(model, tokenizer, strategy="straight_line").explain(
        TEXTS[0], target=1, baseline="mask", n_steps=20, method="gausslegendre"
    )
    assert result.token_scores == pytest.approx(expected.tolist(), abs=1e-5)


# Square batches, in which rows and columns are easily taken for each other.
@pytest.mark.parametrize("n_steps", [4, 7])
def test_turned_ids_of_a_square_batch(n_steps, tokenizer):
    explainer = make(build_xlnet(tokenizer), tokenizer, strategy="straight_line")
    text = "a gorgeous, witty movie"
    whole, parts = (
        explainer.explain(text, target=1, baseline="mask", n_steps=n_steps, internal_batch_size=size)
        for size in (64, 3)
    )
    assert whole.token_scores == pytest.approx(parts.token_scores, abs=1e-5)


def test_other_ids_are_refused(tokenizer):
    model = build("Bert", tokenizer)
    model.get_input_embeddings().register_forward_pre_hook(lambda module, given: (given[0] // 2,))
    with pytest.raises(ModelError, match="with the ids of the text, got a call with other ids from BertFor"):
        make(model, tokenizer, strategy="straight_line").explain("a witty movie")


def test_a_table_that_is_not_called_is_refused(tokenizer):
    model, (encoder, decoder) = build_any("BART", tokenizer)
    for table in (encoder, decoder):
        table.weight = nn.Parameter(table.weight.detach().clone())
    with pytest.raises(ModelError, match="got no call from BartFor.*LayerDiscretizedIntegratedGradients"):
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


def test_a_baseline_of_zeros_is_named_where_it_does_harm(tokenizer):
    name, changes, _ = FAMILIES["Llama"]
    explainer = make(build(name, tokenizer, **changes), tokenizer)
    with pytest.warns(UserWarning, match=r"baseline '\[PAD\]' is an embedding of zeros.*try another"):
        explainer.explain(TEXTS[2], n_steps=50)
    # Neither a good baseline nor a harmless row of zeros, as BERT's, is spoken of: warnings are errors here.
    explainer.explain(TEXTS[2], baseline="mask", n_steps=50)
    make(build("Bert", tokenizer), tokenizer).explain(TEXTS[2], n_steps=50)
