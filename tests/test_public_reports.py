"""Problems that people reported in public about integrated gradients on text: each must not be one here.

The comment above a test names the reports, as repository and number.
"""

import ast
import itertools
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import transformers
from captum.attr import (
    IntegratedGradients,
    LayerIntegratedGradients,
    LLMGradientAttribution,
    NoiseTunnel,
    TextTokenInput,
    configure_interpretable_embedding_layer,
    remove_interpretable_embedding_layer,
)
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import PreTrainedTokenizerFast

import captum_dig
from captum_dig import (
    DiscretizedIntegratedGradients,
    LayerDiscretizedIntegratedGradients,
    ModelError,
    MonotonicPath,
    PathGenerator,
    StraightLine,
    TextExplainer,
    Vocabulary,
    VocabularyError,
)
from captum_dig.models.model import TextModel
from captum_dig.quadrature import RULES
from captum_dig.visualization import Picture, Segment, captum_record, html_fragment, html_page, plain_text
from tests.tiny_models import WORDS, tiny_tokenizer

V, D = 60, 16
SMALL = {
    "hidden_size": D,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 40,
    "initializer_range": 0.4,
    "num_labels": 2,
}
FAMILIES = {
    "BERT": ("Bert", {}),
    "RoBERTa": ("Roberta", {"type_vocab_size": 1}),
    "XLM-RoBERTa": ("XLMRoberta", {"type_vocab_size": 1}),
    "CamemBERT": ("Camembert", {"type_vocab_size": 1}),
    "DistilBERT": ("DistilBert", {"hidden_dim": 32}),
    "ALBERT": ("Albert", {"embedding_size": 8}),
    "ELECTRA": ("Electra", {"embedding_size": 8}),
    "GPT-2": ("GPT2", {"n_positions": 40}),
    "Llama": ("Llama", {"num_key_value_heads": 1}),
}
# Captum says so about every list of layers.
several_layers = pytest.mark.filterwarnings("ignore:Multiple layers provided:UserWarning")
# Captum reminds of taking the wrapper off, which the test does.
wrapped_layer = pytest.mark.filterwarnings("ignore:In order to make embedding layers more interpretable:UserWarning")
both_paths = pytest.mark.parametrize("kind", ["straight", "monotonic"])


def build(family, task="SequenceClassification", vocab_size=V, pad_token_id=0, **changes):
    name, own = FAMILIES[family]
    torch.manual_seed(3)
    settings = {**SMALL, "vocab_size": vocab_size, "pad_token_id": pad_token_id, **own, **changes}
    model = getattr(transformers, f"{name}For{task}")(getattr(transformers, f"{name}Config")(**settings)).eval()
    # Its row of zeros is where models that divide by lengths have a kink, which is no matter of these tests.
    nn.init.normal_(model.get_input_embeddings().weight.data[pad_token_id], std=0.4)
    return model


def path_over(layer, kind="monotonic"):
    return (
        StraightLine()
        if kind == "straight"
        else MonotonicPath(Vocabulary.from_layer(layer), n_anchors=4, n_neighbors=10)
    )


def logits_of(model):
    return lambda ids, mask=None: model(ids, attention_mask=mask).logits


def explainer_of(model, tokenizer, **options):
    quick = {"output": "logit", "candidates": "all", "n_anchors": 4, "n_neighbors": 10, "cache": False}
    return TextExplainer(model, tokenizer, **quick | options)


def word_tokenizer(specials, template="<s> $A </s>"):
    """A word for each token, after the special tokens in the order given."""
    vocab = {piece: i for i, piece in enumerate([*specials, *WORDS])}
    backend = Tokenizer(models.WordLevel(vocab, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    backend.post_processor = processors.TemplateProcessing(
        single=template, special_tokens=[(token, vocab[token]) for token in ("<s>", "</s>")]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, pad_token="<pad>", unk_token="<unk>", bos_token="<s>", eos_token="</s>",
        mask_token="<mask>", model_input_names=["input_ids", "attention_mask"], model_max_length=10**30
    )  # fmt: skip


class Reader(nn.Module):
    """A small model in which every word sees the others, with a mask and three classes."""

    def __init__(self, dim=5):
        super().__init__()
        self.table, self.mix, self.head = nn.Embedding(V, dim), nn.Linear(dim, 8), nn.Linear(8, 3)

    def forward(self, ids, mask):
        hidden = torch.tanh(self.mix(self.table(ids))) * mask[..., None]
        return self.head(torch.tanh(hidden.sum(dim=1)) ** 2)


# A batch ------------------------------------------------------------------------------------------


# inseq#113
@both_paths
@pytest.mark.parametrize("internal_batch_size", [None, 3, 7])
@pytest.mark.parametrize("method", RULES)
def test_a_batch_equals_its_rows_whatever_their_targets_and_masks(kind, internal_batch_size, method):
    model = Reader()
    ids = torch.tensor([[1, 7, 9, 2, 0], [1, 20, 33, 5, 2], [1, 41, 2, 0, 0]])
    lengths = [4, 5, 3]
    baselines = torch.where(ids > 2, 0, ids)
    mask = torch.tensor([[1.0] * n + [0.0] * (5 - n) for n in lengths])
    mask[1, 2] = 0
    dig = LayerDiscretizedIntegratedGradients(model, model.table, path_over(model.table, kind))
    options = {"n_steps": 20, "method": method, "return_convergence_delta": True}
    together, deltas = dig.attribute(
        ids, baselines, [2, 0, 1], mask, internal_batch_size=internal_batch_size, **options
    )
    for row, (length, target) in enumerate(zip(lengths, [2, 0, 1], strict=True)):
        here = slice(row, row + 1)
        alone, delta = dig.attribute(
            ids[here, :length], baselines[here, :length], target, mask[here, :length], **options
        )
        assert float((together[row, :length] - alone[0]).abs().max()) < 1e-5
        assert float((deltas[row] - delta[0]).abs()) < 1e-5
        assert not together[row, length:].any()


# captum#1430, captum#245, captum#538, transformers-interpret#51, inseq#279
@both_paths
def test_memory_does_not_grow_with_the_steps_where_an_internal_batch_size_is_set(kind):
    class Largest(TorchDispatchMode):
        elements = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            result = func(*args, **(kwargs or {}))
            if isinstance(result, torch.Tensor):
                self.elements = max(self.elements, result.untyped_storage().nbytes() // result.element_size())
            return result

    model = Reader(dim=32)
    ids, rows = torch.randint(3, V, (4, 20)), []
    path = path_over(model.table, kind)

    def forward(ids):
        rows.append(len(ids))
        return model(ids, torch.ones(ids.shape))

    dig = LayerDiscretizedIntegratedGradients(forward, model.table, path)

    def largest(n_steps):
        with Largest() as seen:
            dig.attribute(ids, target=0, n_steps=n_steps, internal_batch_size=8)
        return seen.elements

    largest(6)
    assert largest(400) == largest(6)
    assert max(rows) == 8
    assert largest(400) < 400 * ids.numel() * 32 / 10


# captum#329, captum#466
@both_paths
@pytest.mark.parametrize("internal_batch_size", [None, 2, 5])
def test_a_model_that_folds_sentences_into_its_batch(kind, internal_batch_size):
    model = Reader()

    def forward(ids, mask):
        rows = torch.tanh(model.mix(model.table(ids))).reshape(-1, ids.shape[-1], 8)
        sentences = (rows * mask.reshape(-1, ids.shape[-1], 1)).sum(dim=1)
        return model.head(torch.tanh(sentences.reshape(len(ids), -1, 8)).prod(dim=1))

    ids, mask = torch.randint(3, V, (2, 4, 3)), torch.randint(0, 2, (2, 4, 3)).float()
    mask[:, :, 0] = 1
    dig = LayerDiscretizedIntegratedGradients(forward, model.table, path_over(model.table, kind))
    options = {"n_steps": 150, "internal_batch_size": internal_batch_size, "return_convergence_delta": True}
    got, delta = dig.attribute(ids, None, [2, 0], mask, **options)
    assert got.shape == (2, 4, 3, 5)
    assert float(delta.abs().max()) < 1e-3
    for row in range(2):
        here = slice(row, row + 1)
        alone = dig.attribute(ids[here], None, [2, 0][row], mask[here], 150)
        torch.testing.assert_close(got[here], alone, rtol=0, atol=1e-5)


# captum#329, captum#466
@both_paths
def test_what_an_encoder_said_is_passed_as_an_argument_and_a_closure_is_told_by_its_sizes(kind):
    model, memory = Reader(), torch.randn(3, 8)

    def forward(ids, memory):
        return model.head(torch.tanh(model.mix(model.table(ids)).sum(dim=1) + memory))

    ids = torch.randint(3, V, (3, 4))
    path = path_over(model.table, kind)
    dig = LayerDiscretizedIntegratedGradients(forward, model.table, path)
    whole, delta = dig.attribute(ids, None, 1, memory, 150, return_convergence_delta=True)
    assert float(delta.abs().max()) < 1e-3
    for size in (3, 10):
        parts = dig.attribute(ids, None, 1, memory, 150, internal_batch_size=size)
        torch.testing.assert_close(parts, whole, rtol=0, atol=1e-5)
    closed = LayerDiscretizedIntegratedGradients(lambda ids: forward(ids, memory), model.table, path)
    with pytest.raises(RuntimeError, match=r"size of tensor a \(15\) must match the size of tensor b \(3\)"):
        closed.attribute(ids, None, 1, n_steps=5)


# Convergence --------------------------------------------------------------------------------------


# captum#1413
@both_paths
def test_with_the_mask_as_a_further_argument_swapped_ends_only_turn_the_sign(kind):
    model = build("DistilBERT")
    table = model.get_input_embeddings()
    ids, base = torch.tensor([[2, 7, 9, 11, 3]]), torch.tensor([[2, 3, 0, 0, 0]])
    dig = LayerDiscretizedIntegratedGradients(logits_of(model), table, path_over(table, kind))
    for mask in (None, torch.ones_like(ids), torch.tensor([[1, 1, 1, 1, 0]])):
        options = {"target": 1, "additional_forward_args": (mask,), "n_steps": 400, "return_convergence_delta": True}
        forth, one = dig.attribute(ids, base, **options)
        back, other = dig.attribute(base, ids, **options)
        with torch.no_grad():
            change = float(model(ids, mask).logits[0, 1] - model(base, mask).logits[0, 1])
        assert float(forth.sum()) == pytest.approx(change, rel=0.02)
        assert float(back.sum()) == pytest.approx(-change, rel=0.02)
        assert max(abs(float(one)), abs(float(other))) < 0.02 * abs(change)


# captum#1334
@pytest.mark.parametrize(("method", "order"), [("riemann_left", 1), ("riemann_trapezoid", 2), ("gausslegendre", 4)])
def test_more_steps_make_the_error_smaller_at_the_order_of_the_rule_on_a_path_with_kinks(method, order):
    class Kinked(PathGenerator):
        def knots(self, inputs, baselines):
            shares = torch.tensor([[0.0, 0.0], [0.7, 0.1], [0.8, 0.9], [1.0, 1.0]]).to(inputs)
            between = [baselines + share * (inputs - baselines) for share in shares[1:-1]]
            return torch.stack([baselines, *between, inputs])

    def model(x):
        return torch.sin(2 * x[:, 0] + x[:, 1]) + x[:, 0] * x[:, 1].exp()

    dig = DiscretizedIntegratedGradients(model, Kinked(), spacing="knots")
    x = torch.tensor([[0.9, 0.8]], dtype=torch.float64)
    steps = [12, 24, 48, 96] if order < 4 else [6, 12]
    deltas = [float(dig.attribute(x, 0, None, None, n, method, None, True)[1].abs()) for n in steps]
    for coarse, fine in itertools.pairwise(deltas):
        assert fine < coarse / 2 ** (order - 0.3)


ENCODER_DECODERS = {
    "BART": (transformers.BartForConditionalGeneration, transformers.BartConfig),
    "Marian": (transformers.MarianMTModel, transformers.MarianConfig),
    "T5": (transformers.T5ForConditionalGeneration, transformers.T5Config),
}


def encoder_decoder(family):
    """A model, a function of encoder and decoder ids, and the layers that look them up."""
    torch.manual_seed(3)
    model, config = ENCODER_DECODERS[family]
    sizes = {"vocab_size": V, "d_model": D, "pad_token_id": 0, "eos_token_id": 3, "decoder_start_token_id": 0}
    if family == "T5":
        sizes |= {"d_kv": 8, "d_ff": 16, "num_layers": 1, "num_heads": 2}
    else:
        sizes |= {
            "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2, "decoder_attention_heads": 2,
            "encoder_ffn_dim": 16, "decoder_ffn_dim": 16, "init_std": 0.3, "max_position_embeddings": 40,
        }  # fmt: skip
    model = model(config(**sizes)).eval()

    def forward(ids, decoder_ids):
        return model(input_ids=ids, decoder_input_ids=decoder_ids).logits[:, -1]

    stack = model if family == "T5" else model.model
    return model, forward, [stack.encoder.embed_tokens, stack.decoder.embed_tokens]


# captum#904, captum#1110, captum#1119, captum#794
@several_layers
@pytest.mark.parametrize("family", ENCODER_DECODERS)
def test_encoder_and_decoder_get_scores_of_their_own_length_that_add_up(family):
    _, forward, layers = encoder_decoder(family)
    path = path_over(layers[0])
    ids, base = torch.tensor([[5, 6, 7, 3], [8, 9, 4, 3]]), torch.tensor([[0, 0, 0, 3]] * 2)
    decoder, start = torch.tensor([[0, 11, 12], [0, 13, 14]]), torch.zeros(2, 3, dtype=torch.int64)
    options = {"target": [11, 12], "n_steps": 200, "return_convergence_delta": True}
    # The decoder's ids stay as they are: only the encoder's count.
    alone, delta = LayerDiscretizedIntegratedGradients(forward, layers[0], path).attribute(
        ids, base, additional_forward_args=decoder, **options
    )
    assert alone.shape == (2, 4, D)
    assert float(delta.abs().max()) < 0.01 * float(alone.sum(dim=(1, 2)).abs().max())
    dig = LayerDiscretizedIntegratedGradients(forward, layers, path)
    got, delta = dig.attribute((ids, decoder), (base, start), **options)
    assert [one.shape for one in got] == [(2, 4, D), (2, 3, D)]
    with torch.no_grad():
        change = (forward(ids, decoder) - forward(base, start))[torch.arange(2), [11, 12]]
    torch.testing.assert_close(sum(one.sum(dim=(1, 2)) for one in got), change, rtol=0.01, atol=1e-3)
    assert float(delta.abs().max()) < 0.01 * float(change.abs().max())


# captum#904, captum#1110
@several_layers
@pytest.mark.parametrize("in_a_list", [False, True])
def test_a_layer_that_is_never_called_is_an_error_that_speaks_of_the_layer(in_a_list):
    _, forward, (encoder, _) = encoder_decoder("T5")
    idle = nn.Embedding(V, D)
    dig = LayerDiscretizedIntegratedGradients(forward, [encoder, idle] if in_a_list else idle, StraightLine())
    with pytest.raises((AssertionError, ValueError), match="layer"):
        dig.attribute(torch.tensor([[5, 6, 3]]), None, 11, torch.tensor([[0, 7]]))


# captum#794, captum#873
@both_paths
@pytest.mark.parametrize("fixed", [False, True], ids=["both move", "one stays"])
@pytest.mark.parametrize("same", [False, True], ids=["two texts", "one text twice"])
def test_a_layer_that_is_called_twice_with_different_words_is_refused(kind, fixed, same):
    bert = build("BERT")
    table = bert.get_input_embeddings()

    def distance(one, other):
        return (bert.bert(one).pooler_output - 2 * bert.bert(other).pooler_output).square().sum(dim=1)

    one, other, base = torch.tensor([[2, 5, 6, 3]]), torch.tensor([[2, 7, 9, 3]]), torch.tensor([[2, 0, 0, 3]])
    other = one if same else other
    dig = LayerDiscretizedIntegratedGradients(distance, table, path_over(table, kind))

    def attribute():
        if fixed:
            return dig.attribute(one, base, additional_forward_args=other, n_steps=200, return_convergence_delta=True)
        return dig.attribute((one, other), (base, base), n_steps=200, return_convergence_delta=True)

    if same and not fixed:
        # Both calls always get the same words, so that one path serves both.
        assert float(attribute()[1].abs()) < 0.01
    else:
        # Both calls would get the words of one, along a path that no text is on.
        with pytest.raises(ValueError, match="layer"):
            attribute()


# captum#434
@both_paths
@pytest.mark.parametrize("n_rows", [1, 2, 3, 4])
def test_a_layer_that_does_not_put_examples_first_is_an_error_that_says_so(kind, n_rows):
    config = transformers.XLNetConfig(vocab_size=V, d_model=D, n_layer=1, n_head=2, d_inner=16, num_labels=2)
    model = transformers.XLNetForSequenceClassification(config).eval()
    table = model.get_input_embeddings()
    ids = torch.randint(5, V, (n_rows, 4))
    dig = LayerDiscretizedIntegratedGradients(lambda ids: model(ids).logits, table, path_over(table, kind))
    with pytest.raises(ValueError, match="example|batch"):
        dig.attribute(ids, None, 1)


# captum#434
def test_embeddings_as_inputs_need_no_order_of_the_layer():
    torch.manual_seed(3)
    config = transformers.XLNetConfig(
        vocab_size=V, d_model=D, n_layer=1, n_head=2, d_inner=16, num_labels=2, initializer_range=0.4
    )
    model = transformers.XLNetForSequenceClassification(config).eval()
    table = model.get_input_embeddings()
    ids = torch.randint(5, V, (3, 4))
    with torch.no_grad():
        rows, base = table(ids), table(torch.zeros_like(ids))
    dig = DiscretizedIntegratedGradients(lambda rows: model(inputs_embeds=rows).logits, path_over(table))
    got, delta = dig.attribute(rows, base, [0, 1, 0], n_steps=300, return_convergence_delta=True)
    assert float(delta.abs().max()) < 0.01 * float(got.sum(dim=(1, 2)).abs().max())


# captum#1080, captum#1141, captum#1493
@both_paths
def test_a_table_that_the_output_does_not_depend_on_scores_zero_where_it_is_allowed(kind):
    model, idle = Reader(), nn.Embedding(V, 5)

    def forward(ids):
        idle(ids)
        return model(ids, torch.ones(ids.shape))

    ids = torch.tensor([[3, 4, 5], [6, 7, 8]])
    dig = LayerDiscretizedIntegratedGradients(forward, idle, path_over(idle, kind))
    with pytest.raises(ModelError, match="an output without input 0"):
        dig.attribute(ids, None, 1)
    got = dig.attribute(ids, None, 1, grad_kwargs={"allow_unused": True})
    assert got.shape == (2, 3, 5)
    assert not got.any()


# captum#1080, captum#1141, captum#1493
def test_an_input_that_the_output_does_not_depend_on_is_named_by_its_place():
    dig = DiscretizedIntegratedGradients(lambda one, other: (one**2).sum(dim=1), StraightLine())
    with pytest.raises(ModelError, match="an output without input 1"):
        dig.attribute((torch.ones(2, 3), torch.ones(2, 3)))


# Which layer --------------------------------------------------------------------------------------


# captum#624, transformers-interpret#14
@pytest.mark.parametrize("place", ["bert.embeddings", "bert.embeddings.LayerNorm", "bert.encoder.layer.0"])
def test_a_layer_whose_output_is_no_row_of_the_vocabulary_is_refused(place):
    model = build("BERT")
    layer = model.get_submodule(place)
    ids, base = torch.tensor([[2, 7, 9, 3]]), torch.tensor([[2, 0, 0, 3]])
    words = path_over(model.get_input_embeddings())
    dig = LayerDiscretizedIntegratedGradients(logits_of(model), layer, words)
    with pytest.raises(VocabularyError, match=r"must be rows of the vocabulary.*model.get_input_embeddings\(\)"):
        dig.attribute(ids, base, 1)
    with pytest.raises(TypeError, match="layer must be an embedding table with a `weight`"):
        LayerDiscretizedIntegratedGradients(logits_of(model), layer)


# captum#624, transformers-interpret#14
@both_paths
@pytest.mark.parametrize("place", ["token_type_embeddings", "position_embeddings"])
def test_token_types_and_positions_that_stay_score_zero_and_are_drawn_without_nan(kind, place):
    model = build("BERT", type_vocab_size=30)
    layer = model.bert.embeddings.get_submodule(place)
    ids, base = torch.tensor([[2, 7, 9, 3]]), torch.tensor([[2, 0, 0, 3]])
    dig = LayerDiscretizedIntegratedGradients(logits_of(model), layer, path_over(layer, kind))
    got = dig.attribute(ids, base, 1)
    assert torch.equal(got, torch.zeros(1, 4, D))
    scores = got.sum(dim=-1)[0].tolist()
    labels = {"predicted_label": "a", "predicted_probability": 0.5, "target_label": "a"}
    assert captum_record("wxyz", scores, **labels).word_attributions.tolist() == [0.0] * 4
    page = html_page([Picture(tuple(map(Segment, "wxyz", scores)))])
    assert "nan" not in page.lower()


# captum#1132
@both_paths
@pytest.mark.parametrize("family", ["BERT", "DistilBERT", "ALBERT", "ELECTRA", "GPT-2", "Llama"])
def test_embeddings_as_inputs_give_the_numbers_of_the_embedding_layer(kind, family):
    model = build(family)
    table = model.get_input_embeddings()
    ids, base = torch.tensor([[2, 7, 9, 11, 3]]), torch.tensor([[2, 4, 4, 4, 3]])
    path = path_over(table, kind)
    layer = LayerDiscretizedIntegratedGradients(logits_of(model), table, path).attribute(ids, base, 1, n_steps=20)
    with torch.no_grad():
        rows, start = table(ids), table(base)
    plain = DiscretizedIntegratedGradients(lambda rows: model(inputs_embeds=rows).logits, path)
    assert float((plain.attribute(rows, start, 1, n_steps=20) - layer).abs().max()) < 1e-6
    if kind == "straight":
        captums = LayerIntegratedGradients(logits_of(model), table)
        torch.testing.assert_close(layer, captums.attribute(ids, base, 1, n_steps=20), rtol=0, atol=1e-6)


# transformers#21089, transformers#21752, transformers#11402, serve#934
@pytest.mark.parametrize("family", FAMILIES)
def test_the_embedding_layer_is_the_one_that_is_called_and_nothing_is_added_twice(family):
    model = build(family)
    text_model = TextModel(model)
    ids = torch.tensor([[2, 7, 9, 11, 3], [2, 8, 5, 12, 3]])
    with torch.no_grad():
        expected, rows = model(ids).logits, text_model.embed(ids)
        torch.testing.assert_close(text_model.output_from(rows, input_ids=ids).logits, expected)
        torch.testing.assert_close(model(inputs_embeds=rows[:1]).logits, expected[:1])
        moved = text_model.output_from(text_model.embed(ids.flip(0)), input_ids=ids).logits
    torch.testing.assert_close(moved, expected.flip(0))
    assert float((moved - expected).abs().max()) > 1e-3


# captum#592, captum#770, captum#622, xai-nlp-notebooks#2
@wrapped_layer
@both_paths
def test_a_wrapped_table_of_words_keeps_predictions_and_gives_the_layers_scores(kind):
    model = build("BERT")
    table = model.get_input_embeddings()
    ids, base = torch.tensor([[2, 7, 9, 3], [2, 8, 5, 3]]), torch.tensor([[2, 0, 0, 3]] * 2)
    layer = LayerDiscretizedIntegratedGradients(logits_of(model), table, path_over(table, kind))
    expected = layer.attribute(ids, base, [0, 1], n_steps=20)
    with torch.no_grad():
        before = model(ids).logits
    wrapper = configure_interpretable_embedding_layer(model, "bert.embeddings.word_embeddings")
    try:
        rows, start = wrapper.indices_to_embeddings(ids), wrapper.indices_to_embeddings(base)
        torch.testing.assert_close(model(inputs_embeds=rows).logits, before)
        assert torch.equal(Vocabulary.from_layer(wrapper).rows, table.weight.detach())
        plain = DiscretizedIntegratedGradients(lambda rows: model(inputs_embeds=rows).logits, path_over(wrapper, kind))
        got = plain.attribute(rows, start, [0, 1], n_steps=20)
    finally:
        remove_interpretable_embedding_layer(model, wrapper)
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-6)
    assert model.get_input_embeddings() is table
    with torch.no_grad():
        assert torch.equal(model(ids).logits, before)


# captum#592, captum#770, captum#622, xai-nlp-notebooks#2
@wrapped_layer
def test_a_wrapper_around_all_embeddings_is_no_vocabulary():
    model = build("BERT")
    wrapper = configure_interpretable_embedding_layer(model, "bert.embeddings")
    with pytest.raises(TypeError, match="layer must be an embedding table.*get_input_embeddings"):
        Vocabulary.from_layer(wrapper)
    remove_interpretable_embedding_layer(model, wrapper)


# captum#1281
@both_paths
def test_noise_goes_over_embeddings_and_none_of_it_changes_nothing(kind):
    model = build("BERT")
    table = model.get_input_embeddings()
    ids, base = torch.tensor([[2, 7, 9, 3], [2, 8, 5, 3]]), torch.tensor([[2, 0, 0, 3]] * 2)
    with torch.no_grad():
        rows, start = table(ids), table(base)
    path = path_over(table, kind)
    dig = DiscretizedIntegratedGradients(lambda rows: model(inputs_embeds=rows).logits, path)
    plain = dig.attribute(rows, start, [0, 1], n_steps=30)
    options = {"nt_samples": 3, "baselines": start, "target": [0, 1], "n_steps": 30}
    torch.testing.assert_close(NoiseTunnel(dig).attribute(rows, stdevs=0.0, **options), plain, rtol=0, atol=1e-6)
    noisy = NoiseTunnel(dig).attribute(rows, stdevs=0.05, **options)
    assert 0 < float((noisy - plain).abs().max()) < float(plain.abs().max())
    shifted = rows + 0.05 * torch.randn_like(rows)
    knots = path(shifted, start)
    assert torch.equal(knots[-1], shifted)
    assert torch.equal(knots[0], start)


# captum#1281
@pytest.mark.parametrize("stdevs", [0.0, 0.5])
def test_noise_over_token_ids_is_an_error_that_speaks_of_ids_or_the_layer(stdevs):
    model = build("BERT")
    table = model.get_input_embeddings()
    ids = torch.tensor([[2, 7, 9, 3]])
    layer = LayerDiscretizedIntegratedGradients(logits_of(model), table, path_over(table))
    with pytest.raises((RuntimeError, TypeError, ValueError), match=r"indices|token ids"):
        NoiseTunnel(layer).attribute(ids, stdevs=stdevs, target=1)
    plain = DiscretizedIntegratedGradients(lambda rows: model(inputs_embeds=rows).logits, path_over(table))
    with pytest.raises(ValueError, match=r"attribute to the layer that `model.get_input_embeddings\(\)` returns"):
        NoiseTunnel(plain).attribute(ids, stdevs=stdevs, target=1)


# captum#1284
@pytest.mark.parametrize("multiply", [True, False])
def test_a_path_of_ones_own_needs_nothing_but_its_knots(multiply):
    class ByGradient(PathGenerator):
        """Coordinates with a small gradient at the baseline go first, as in guided integrated gradients."""

        def knots(self, inputs, baselines):
            with torch.enable_grad():
                point = baselines.clone().requires_grad_()
                (slope,) = torch.autograd.grad(model.head(torch.tanh(model.mix(point)).sum(dim=1)).sum(), point)
            first = slope.abs() <= slope.abs().flatten(1).median(dim=1).values[:, None, None]
            return torch.stack([baselines, torch.where(first, inputs, baselines), inputs])

    model = Reader()
    ids, mask = torch.randint(3, V, (2, 4)), torch.ones(2, 4)
    dig = LayerDiscretizedIntegratedGradients(model, model.table, ByGradient(), multiply_by_inputs=multiply)
    got, delta = dig.attribute(ids, None, [0, 2], mask, 200, return_convergence_delta=True)
    assert got.shape == (2, 4, 5)
    straight = LayerDiscretizedIntegratedGradients(
        model, model.table, StraightLine(), multiply_by_inputs=multiply
    ).attribute(ids, None, [0, 2], mask, 200)
    assert float((got - straight).abs().max()) > 1e-3
    if multiply:
        assert float(delta.abs().max()) < 1e-3


# What is explained --------------------------------------------------------------------------------


# captum#1564, captum#1358, captum#634, captum#853
@both_paths
@pytest.mark.parametrize("target", [(2, 1), [(2, 1), (3, 0)]], ids=str)
@pytest.mark.parametrize("internal_batch_size", [None, 6])
def test_token_classification_takes_a_position_and_a_class(kind, target, internal_batch_size):
    model = build("BERT", "TokenClassification", num_labels=3)
    table = model.get_input_embeddings()
    ids, base = torch.tensor([[2, 7, 9, 11, 3], [2, 8, 5, 3, 0]]), torch.tensor([[2, 0, 0, 0, 3], [2, 0, 0, 3, 0]])
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 1, 0]])
    dig = LayerDiscretizedIntegratedGradients(logits_of(model), table, path_over(table, kind))
    options = {"n_steps": 200, "internal_batch_size": internal_batch_size, "return_convergence_delta": True}
    got, delta = dig.attribute(ids, base, target, mask, **options)
    rowwise = target if isinstance(target, list) else [target] * 2
    with torch.no_grad():
        change = torch.stack(
            [(model(ids, mask).logits - model(base, mask).logits)[row][place] for row, place in enumerate(rowwise)]
        )
    torch.testing.assert_close(got.sum(dim=(1, 2)), change, rtol=0, atol=5e-3)
    assert float(delta.abs().max()) < 5e-3
    alone = dig.attribute(ids[1:, :4], base[1:, :4], rowwise[1], mask[1:, :4], 200)
    torch.testing.assert_close(got[1:, :4], alone, rtol=0, atol=1e-5)


# captum#1564, captum#1358, captum#634, captum#853
@pytest.mark.parametrize(
    ("target", "message"),
    [
        (None, "Target not provided when necessary"),
        (1, "Target not provided when necessary"),
        (torch.tensor([[2, 1], [3, 0]]), "Tensor target dimension .* is not valid"),
    ],
    ids=str,
)
def test_a_target_without_a_position_fails_as_in_captum(target, message):
    model = build("BERT", "TokenClassification")
    table = model.get_input_embeddings()
    ids = torch.tensor([[2, 7, 9, 3], [2, 8, 5, 3]])
    dig = LayerDiscretizedIntegratedGradients(logits_of(model), table, StraightLine())
    with pytest.raises(AssertionError, match=message):
        dig.attribute(ids, None, target, n_steps=2)


# captum#1532
@both_paths
def test_regression_needs_no_target_and_takes_zero(kind):
    model = build("BERT", num_labels=1)
    table = model.get_input_embeddings()
    ids, base = torch.tensor([[2, 7, 9, 3], [2, 8, 5, 3]]), torch.tensor([[2, 0, 0, 3]] * 2)
    dig = LayerDiscretizedIntegratedGradients(logits_of(model), table, path_over(table, kind))
    results = [dig.attribute(ids, base, t, n_steps=10) for t in (None, 0, torch.tensor([0]), torch.tensor([0, 0]))]
    assert all(torch.equal(one, results[0]) for one in results)
    assert float(results[0].abs().max()) > 0


# captum#956, captum#1102, captum#873, transformers-interpret#63, sentence-transformers#1427
@both_paths
@pytest.mark.parametrize("internal_batch_size", [None, 7])
def test_a_similarity_to_a_query_that_is_read_before_is_one_number_for_each_pair(kind, internal_batch_size):
    model = build("BERT")
    table = model.get_input_embeddings()
    queries = torch.tensor([[2, 5, 6, 10, 12, 3], [2, 21, 22, 23, 24, 3], [2, 31, 7, 32, 33, 3]])
    ids, base = torch.tensor([[2, 7, 9, 3], [2, 8, 5, 3], [2, 13, 14, 3]]), torch.tensor([[2, 0, 0, 3]] * 3)
    with torch.no_grad():
        read = model.bert(queries).pooler_output

    def similarity(ids, read):
        return torch.cosine_similarity(model.bert(ids).pooler_output, read)

    dig = LayerDiscretizedIntegratedGradients(similarity, table, path_over(table, kind))
    options = {"n_steps": 200, "internal_batch_size": internal_batch_size, "return_convergence_delta": True}
    got, delta = dig.attribute(ids, base, None, read, **options)
    assert float(got.abs().sum(dim=(1, 2)).min()) > 0.01
    assert float(delta.abs().max()) < 2e-3
    for row in range(3):
        here = slice(row, row + 1)
        alone = dig.attribute(ids[here], base[here], None, read[here], 200)
        torch.testing.assert_close(got[here], alone, rtol=0, atol=1e-5)


# captum#388, captum#249, captum#373
@both_paths
@pytest.mark.parametrize("which", ["start_logits", "end_logits"])
def test_a_pair_of_sentences_keeps_its_types_and_start_and_end_are_told_apart(kind, which):
    model = build("BERT", "QuestionAnswering")
    table = model.get_input_embeddings()
    ids, base = torch.tensor([[2, 7, 9, 3, 11, 12, 3]]), torch.tensor([[2, 7, 9, 3, 0, 0, 3]])
    types = torch.tensor([[0, 0, 0, 0, 1, 1, 1]])

    def forward(ids, types):
        return getattr(model(ids, token_type_ids=types), which)

    dig = LayerDiscretizedIntegratedGradients(forward, table, path_over(table, kind))
    got, delta = dig.attribute(ids, base, 5, types, 200, return_convergence_delta=True)
    with torch.no_grad():
        change = float((forward(ids, types) - forward(base, types))[0, 5])
    assert float(got.sum()) == pytest.approx(change, abs=5e-3)
    assert float(delta.abs()) < 5e-3 < abs(change)
    # The question stays as it is.
    assert not got[0, :4].any()


# captum#407, captum#1060, captum#91, ferret#21
@both_paths
def test_logit_probability_and_log_probability_are_three_explanations_each_of_its_own_difference(kind):
    tokenizer = tiny_tokenizer()
    model = build("BERT", vocab_size=len(tokenizer))
    table = model.get_input_embeddings()
    ids = tokenizer("a gorgeous movie", return_tensors="pt").input_ids
    base = torch.where(torch.isin(ids, torch.tensor([2, 3])), ids, 0)
    path = path_over(table, kind)
    outputs = {
        "logit": lambda ids: model(ids).logits,
        "probability": lambda ids: model(ids).logits.softmax(dim=1),
        "log-probability": lambda ids: model(ids).logits.log_softmax(dim=1),
    }
    found = {}
    for name, forward in outputs.items():
        dig = LayerDiscretizedIntegratedGradients(forward, table, path)
        found[name], delta = dig.attribute(ids, base, 1, n_steps=400, return_convergence_delta=True)
        assert float(delta.abs()) < 1e-3 < float(found[name].sum().abs())
    for one, other in (("logit", "probability"), ("logit", "log-probability"), ("probability", "log-probability")):
        assert float((found[one] - found[other]).abs().max()) > 0.01 * float(found[one].abs().max())
    strategy = path if kind == "monotonic" else "straight_line"
    result = explainer_of(model, tokenizer, strategy=strategy).explain("a gorgeous movie", target=1, n_steps=400)
    assert result.settings.output == "logit"
    assert result.token_scores == pytest.approx(found["logit"].sum(dim=-1)[0].tolist(), abs=1e-5)


# captum#1271, captum#1366, captum#1449
@pytest.mark.parametrize("family", ["Llama", "GPT-2"])
def test_captums_explainer_of_language_models_takes_the_layer_class_and_skips_the_first_token(family):
    tokenizer = word_tokenizer(["<pad>", "<s>", "</s>", "<unk>", "<mask>"], "$A")
    torch.manual_seed(3)
    common = {"vocab_size": len(tokenizer), "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
    if family == "GPT-2":
        config = transformers.GPT2Config(**common, n_embd=D, n_layer=1, n_head=2, n_positions=40)
        model = transformers.GPT2LMHeadModel(config).eval()
    else:
        config = transformers.LlamaConfig(
            **common, hidden_size=D, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2
        )
        model = transformers.LlamaForCausalLM(config).eval()
    table = model.get_input_embeddings()
    prompt = TextTokenInput("<s> the movie", tokenizer, skip_tokens=[1])
    assert prompt.itp_tensor.shape == (1, 2)
    layer = LayerDiscretizedIntegratedGradients(model, table, path_over(table))
    got = LLMGradientAttribution(layer, tokenizer).attribute(prompt, target="was dull", n_steps=8)
    assert got.token_attr.shape == (2, 2)
    assert bool(got.token_attr.isfinite().all())
    plain = DiscretizedIntegratedGradients(model, StraightLine())
    with pytest.raises(AssertionError, match="LLMGradientAttribution does not support"):
        LLMGradientAttribution(plain, tokenizer)


# Numbers ------------------------------------------------------------------------------------------


# captum#1240, captum#1227, flexynesis#116
@pytest.mark.parametrize("strategy", ["greedy", "maxcount", "random_neighbor", "random_anchor", "straight_line"])
def test_a_model_in_single_precision_makes_no_tensor_in_double_precision(strategy):
    class Single(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            result = func(*args, **(kwargs or {}))
            found = result if isinstance(result, (tuple, list)) else [result]
            assert not [one for one in found if isinstance(one, torch.Tensor) and one.dtype == torch.float64], func
            return result

    tokenizer = tiny_tokenizer()
    model = build("DistilBERT", vocab_size=len(tokenizer))
    explainer = explainer_of(model, tokenizer, strategy=strategy)
    with Single():
        explainer.explain(["a gorgeous movie", "dull"], n_steps=5)
        explainer.explain("a witty story", n_steps=5, method="riemann_trapezoid")


# inseq#156, interpreto#101, inseq#230, inseq#276
@both_paths
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
def test_scores_have_captums_dtype_and_a_table_of_any_precision_is_a_vocabulary(kind, dtype):
    model = build("DistilBERT").to(dtype)
    table = model.get_input_embeddings()
    ids, base = torch.tensor([[2, 7, 9, 3]]), torch.tensor([[2, 0, 0, 3]])
    vocabulary = Vocabulary.from_layer(table)
    assert vocabulary.rows.dtype == torch.float32
    assert torch.equal(vocabulary.find(table.weight), torch.arange(V))
    got, delta = LayerDiscretizedIntegratedGradients(logits_of(model), table, path_over(table, kind)).attribute(
        ids, base, 1, n_steps=10, return_convergence_delta=True
    )
    captums = LayerIntegratedGradients(logits_of(model), table).attribute(ids, base, 1, n_steps=10)
    assert got.dtype == captums.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    assert bool(got.isfinite().all() and delta.isfinite().all())


# Texts --------------------------------------------------------------------------------------------


# inseq#165
@pytest.mark.parametrize(
    "specials",
    [
        ["<pad>", "<s>", "</s>", "<unk>", "<mask>"],
        ["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
        ["</s>", "<unk>", "<s>", "<pad>", "<mask>"],
        ["<mask>", "<unk>", "</s>", "<s>", "<pad>"],
    ],
    ids=lambda specials: f"pad={specials.index('<pad>')},eos={specials.index('</s>')}",
)
@pytest.mark.parametrize("baseline", ["pad", "mask", "unk"])
def test_special_tokens_are_known_by_their_role_whatever_their_ids(specials, baseline):
    tokenizer = word_tokenizer(specials)
    model = build("BERT", vocab_size=len(tokenizer), pad_token_id=tokenizer.pad_token_id)
    results = explainer_of(model, tokenizer).explain(
        ["the witty movie", "dull"], target=1, baseline=baseline, n_steps=20
    )
    for result, n_words in zip(results, (3, 1), strict=True):
        assert result.tokens[0] == "<s>"
        assert result.tokens[-1] == "</s>"
        assert len(result.tokens) == n_words + 2
        assert (result.token_scores[0], result.token_scores[-1]) == (0.0, 0.0)
        ids = torch.tensor([result.token_ids])
        base = ids.clone()
        base[0, 1:-1] = tokenizer.convert_tokens_to_ids(f"<{baseline}>")
        with torch.no_grad():
            ends = [float(model(one, torch.ones_like(one)).logits[0, 1]) for one in (ids, base)]
        assert [result.input_value, result.baseline_value] == pytest.approx(ends, abs=1e-5)


# transformers-interpret#123, transformers-interpret#70
@pytest.mark.parametrize("family", ["RoBERTa", "XLM-RoBERTa", "CamemBERT"])
def test_models_with_one_token_type_and_positions_after_the_padding_id_run_up_to_their_limit(family):
    tokenizer = word_tokenizer(["<s>", "<pad>", "</s>", "<unk>", "<mask>"])
    model = build(family, vocab_size=len(tokenizer), pad_token_id=1, max_position_embeddings=18)
    explainer = explainer_of(model, tokenizer)
    text = "the movie was not so good but the music is very lovely and the acting"
    with pytest.warns(UserWarning, match="17 tokens, 1 more than the 16 that the model reads"):
        result = explainer.explain(text, n_steps=300)
    assert (len(result.tokens), result.truncated) == (16, 1)
    # Also where the baseline is the padding token, from which these models count positions.
    assert result.settings.baseline == "<pad>"
    assert result.delta_percent < 5
    assert min(abs(score) for score in result.word_scores) > 0


# transformers-interpret#123
@both_paths
@pytest.mark.parametrize("family", ["RoBERTa", "XLM-RoBERTa", "CamemBERT"])
def test_positions_passed_explicitly_leave_no_more_than_the_error_of_the_rule(kind, family):
    model = build(family, pad_token_id=1)
    table = model.get_input_embeddings()
    ids, base = torch.tensor([[0, 7, 9, 11, 2]]), torch.tensor([[0, 1, 1, 1, 2]])
    positions = torch.arange(2, 7)[None]
    dig = LayerDiscretizedIntegratedGradients(
        lambda ids, positions: model(ids, position_ids=positions).logits, table, path_over(table, kind)
    )
    got, delta = dig.attribute(ids, base, 1, positions, 400, return_convergence_delta=True)
    assert float(delta.abs()) < 0.02 * float(got.sum().abs())


# transformers-interpret#13
@pytest.mark.parametrize("family", ["GPT-2", "Llama"])
@pytest.mark.parametrize("baseline", ["pad", "eos", "mask"])
def test_the_position_that_is_pooled_stays_that_of_the_text(family, baseline):
    tokenizer = word_tokenizer(["<pad>", "<s>", "</s>", "<unk>", "<mask>"], "$A")
    model = build(family, vocab_size=len(tokenizer))
    explainer = explainer_of(model, tokenizer)
    for result in explainer.explain(["the witty movie was slow", "dull"], target=1, baseline=baseline, n_steps=300):
        assert abs(result.delta) < 0.02 * max(1.0, abs(result.input_value - result.baseline_value))
        with torch.no_grad():
            logits = model(torch.tensor([result.token_ids])).logits
        assert result.input_value == pytest.approx(float(logits[0, 1]), abs=1e-5)


def byte_pairs():
    """Byte-level pairs, which mark the space before a word with a letter."""
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=700, show_progress=False, special_tokens=["<pad>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
    )  # fmt: skip
    backend.train_from_iterator([f"the {word} movie" for word in WORDS] * 3, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=backend, pad_token="<pad>", eos_token="<pad>")


def pieces():
    """Unigrams that mark the space before a word with a low line."""
    scored = [("<pad>", 0.0), ("<unk>", -20.0), *((f"▁{word}", -2.0) for word in WORDS if len(word) > 1)]
    scored += [(letter, -6.0) for letter in "▁abcdefghijklmnopqrstuvwxyzDé'"]
    backend = Tokenizer(models.Unigram(scored, unk_id=1))
    backend.pre_tokenizer, backend.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    return PreTrainedTokenizerFast(tokenizer_object=backend, pad_token="<pad>", unk_token="<unk>")


# shap#3660, ferret#24, inseq#246, inseq#291
@pytest.mark.parametrize("make", [byte_pairs, pieces, tiny_tokenizer])
def test_words_stand_as_in_the_text_and_score_the_sum_of_their_tokens(make):
    tokenizer = make()
    text = "Don't café 🤗 movie"
    model = build("BERT", vocab_size=len(tokenizer))
    result = TextExplainer(model, tokenizer, n_anchors=4, n_neighbors=3, cache=False).explain(text, n_steps=5)
    assert "".join(result.words) == text.replace(" ", "")
    assert {"café", "🤗", "movie"} <= set(result.words)
    assert all(result.text[a:b] == word for (a, b), word in zip(result.word_offsets, result.words, strict=True))
    drawn = [str(result), *(shown for row in result.anchors for shown in row)]
    assert not [one for one in drawn if any(mark in one for mark in ("Ġ", "▁", "##"))]
    sums = [0.0] * len(result.words)
    for score, (start, _), special in zip(result.token_scores, result.offsets, result.special, strict=True):
        # White space of its own belongs to the word that follows.
        if not special:
            sums[next(i for i, (_, stop) in enumerate(result.word_offsets) if stop > start)] += score
    assert result.word_scores == pytest.approx(sums, abs=1e-6)
    assert len(result.tokens) > len(result.words)


# transformers-interpret#95, captum#1109, shap#4051
@pytest.mark.parametrize("overflow", ["error", "truncate", "windows"])
def test_a_text_that_is_too_long_is_told_before_the_model_runs(overflow):
    tokenizer = word_tokenizer(["<pad>", "<s>", "</s>", "<unk>", "<mask>"])
    model = build("BERT", vocab_size=len(tokenizer), max_position_embeddings=512)
    calls = []
    model.register_forward_pre_hook(lambda *_: calls.append(1))
    explainer = explainer_of(model, tokenizer, strategy="straight_line")
    text, options = "movie " * 598, {"n_steps": 2, "overflow": overflow}
    message = "the text has 600 tokens, 88 more than the 512 that the model reads"
    if overflow == "windows":
        assert [len(window.tokens) for window in explainer.explain(text, **options)] == [512, 90]
    elif overflow == "error":
        with pytest.raises(ValueError, match=message):
            explainer.explain(text, **options)
        assert not calls
    else:
        # As an error, the warning stops everything that would come after it.
        with pytest.raises(UserWarning, match=message):
            explainer.explain(text, **options)
        assert not calls


# captum#1226
@pytest.mark.parametrize(
    "word",
    ["x<script>alert(1)</script>", "entrar<!--#exec", "a<b<c", "&amp", "[CLS]", "<pad>", "#pad", "'\"><img src=x>"],
)
def test_markup_in_a_word_is_text_and_what_is_no_number_is_not_painted(word):
    scores = [0.5, float("nan"), float("inf"), -0.2]
    words = ["hello", word, "there", "&lt;"]
    picture = Picture(tuple(map(Segment, words, scores)), headline=(("Predicted", word),))
    for page in (html_page([picture], title=word), html_fragment(picture)):
        escaped = word.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        assert "<script" not in page
        assert "<!--" not in page
        assert "<img" not in page
        assert "&amp;lt;" in page
        assert escaped in page.replace("&#x27;", "'").replace("&#39;", "'").replace("&quot;", '"')
        assert "not a number (nan)" in page
        assert "not a number (inf)" in page
    assert word in plain_text(picture)
    record = captum_record(words, scores, predicted_label=word, predicted_probability=0.9, target_label=word)
    assert record.word_attributions.tolist() == pytest.approx([1.0, 0.0, 0.0, -0.4])
    for shown in (*record.raw_input_ids, record.pred_class, record.attr_class, record.true_class):
        assert "<" not in shown


# captum#544, captum#1130, captum#1833
def test_a_page_is_written_to_a_file_without_a_notebook(tmp_path, monkeypatch):
    for name in ("IPython", "IPython.display", "IPython.core.display"):
        monkeypatch.setitem(sys.modules, name, None)
    tokenizer = tiny_tokenizer()
    result = explainer_of(build("BERT", vocab_size=len(tokenizer)), tokenizer).explain("a café", n_steps=4)
    page = result.to_html(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text("utf-8") == page
    assert "café" in page
    assert result._repr_html_()


# What is installed --------------------------------------------------------------------------------

WITHOUT_FAISS = """
import sys
sys.modules["faiss"] = None
import captum_dig
import torch
from captum_dig import *
table = torch.nn.Embedding(9, 4)
ids = torch.tensor([[1, 2]])
forward = lambda ids: (table(ids) ** 2).sum(dim=(1, 2))
dig = LayerDiscretizedIntegratedGradients(forward, table, StraightLine())
scores, delta = dig.attribute(ids, return_convergence_delta=True)
assert scores.shape == (1, 2, 4) and float(delta.abs()) < 1e-4
try:
    LayerDiscretizedIntegratedGradients(forward, table).attribute(ids)
except ImportError as error:
    assert "pip install faiss-cpu" in str(error), error
else:
    raise AssertionError("a search without FAISS")
"""


# faiss#2317, faiss-wheels#73, faiss-wheels#100, pytorch#149201
def test_without_faiss_everything_but_a_search_works():
    done = subprocess.run([sys.executable, "-c", WITHOUT_FAISS], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


SOURCES = sorted(Path(captum_dig.__path__[0]).rglob("*.py"))


# captum#803, captum#802
def test_captums_insights_are_not_imported():
    for source in SOURCES:
        for node in ast.walk(ast.parse(source.read_text("utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, (ast.Import, ast.ImportFrom)) else []
            whole = [*names, getattr(node, "module", None) or ""]
            assert not [name for name in whole if "insights" in name], source


# neural-cherche#42, opencompass#2635, pyterrier_t5#22
def test_no_method_of_tokenizers_is_used_that_transformers_5_removed():
    removed = {
        "encode_plus",
        "batch_encode_plus",
        "special_tokens_map_extended",
        "additional_special_tokens",
        "prepare_for_model",
        "as_target_tokenizer",
    }
    for source in SOURCES:
        used = {n.attr for n in ast.walk(ast.parse(source.read_text("utf-8"))) if isinstance(n, ast.Attribute)}
        assert not used & removed, source


# captum#1284, captum#1271
def test_our_classes_stand_where_captums_stand():
    model = Reader()
    layer = LayerDiscretizedIntegratedGradients(model, model.table, StraightLine())
    assert isinstance(layer, LayerIntegratedGradients)
    ids, mask = torch.tensor([[3, 4, 5]]), torch.ones(1, 3)
    with torch.no_grad():
        rows = model.table(ids)

    def read(rows, mask):
        return model.head(torch.tanh((torch.tanh(model.mix(rows)) * mask[..., None]).sum(dim=1)) ** 2)

    plain = DiscretizedIntegratedGradients(read, StraightLine()).attribute(rows, 0, 1, mask, 10)
    torch.testing.assert_close(plain, IntegratedGradients(read).attribute(rows, 0, 1, mask, 10), rtol=0, atol=1e-6)
