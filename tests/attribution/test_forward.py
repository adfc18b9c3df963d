"""Models, layers and forward functions that cannot be attributed to: each is an error with the remedy."""

import copy
import warnings

import pytest
import torch
import transformers
from captum.attr import LayerIntegratedGradients
from torch import nn

from captum_dig import (
    DiscretizedIntegratedGradients,
    LayerDiscretizedIntegratedGradients,
    ModelError,
    NeuronDiscretizedIntegratedGradients,
    StraightLine,
    TextExplainer,
    convergence_report,
)
from tests.tiny_models import tiny_classifier

IDS = torch.tensor([[2, 27, 29, 3]])
X = torch.tensor([[1.0, 2.0]])


class Words(nn.Module):
    def __init__(self, padding_idx=None):
        super().__init__()
        self.table = nn.Embedding(40, 4, padding_idx=padding_idx)

    def forward(self, ids):
        return self.table(ids), None


WORDS = Words()


def by_layer(forward, layer=WORDS.table):
    return LayerDiscretizedIntegratedGradients(forward, layer, StraightLine())


def by_input(forward):
    return DiscretizedIntegratedGradients(forward, StraightLine())


def without_gradient(function):
    def run(*arguments):
        with torch.no_grad():
            return function(*arguments)

    return run


def summed(ids):
    return WORDS(ids)[0].sum(dim=(1, 2))


OUTPUTS = {
    "dict": (lambda one: {"logits": one}, "must return a tensor, got dict; return its tensor of logits"),
    "tuple": (lambda one: (one,), "must return a tensor, got tuple"),
    "list": (lambda one: [one], "must return a tensor, got list"),
    "ModelOutput": (
        lambda one: transformers.modeling_outputs.SequenceClassifierOutput(logits=one),
        "must return a tensor, got SequenceClassifierOutput",
    ),
    "detached": (lambda one: one.detach(), "with a gradient, got one without; remove torch.no_grad"),
    "numpy": (lambda one: torch.from_numpy(one.detach().numpy()), "with a gradient, got one without"),
}


@pytest.mark.parametrize("report", [False, True], ids=["attribute", "report"])
@pytest.mark.parametrize("kind", OUTPUTS)
def test_outputs_that_are_no_tensor_with_a_gradient(kind, report):
    change, message = OUTPUTS[kind]
    for dig, inputs in ((by_layer(lambda ids: change(summed(ids))), IDS), (by_input(lambda x: change(x.sum(1))), X)):
        with pytest.raises(ModelError, match=message):
            convergence_report(dig, inputs, inputs * 0) if report else dig.attribute(inputs, inputs * 0)


def test_a_forward_function_without_gradients():
    for dig, inputs in ((by_layer(without_gradient(summed)), IDS), (by_input(without_gradient(lambda x: x.sum(1))), X)):
        with pytest.raises(ModelError, match="with a gradient, got one without; remove torch.no_grad"):
            dig.attribute(inputs, inputs * 0)


def test_an_input_that_is_cut_off():
    layer = nn.Linear(2, 2)
    for dig in (by_input(lambda x: layer(x.detach())), NeuronDiscretizedIntegratedGradients(
        lambda x: layer(x.detach()), layer, StraightLine()
    )):  # fmt: skip
        with pytest.raises(ModelError, match="an output without input 0 or with it cut off"):
            dig.attribute(X, **{"target": 0} if type(dig) is DiscretizedIntegratedGradients else {"neuron_selector": 0})


def test_arguments_that_are_missing_or_left_over():
    with pytest.raises(ModelError, match="missing a required argument: 'mask'; pass the others in additional_forward"):
        by_layer(lambda ids, mask: summed(ids)).attribute(IDS, IDS * 0)
    with pytest.raises(ModelError, match="got 2 arguments for .*too many positional arguments"):
        by_input(lambda x: x).attribute(X, additional_forward_args=3)
    with pytest.raises(ModelError, match=r"Bilinear\(input1.*missing a required argument: 'input2'"):
        by_input(nn.Bilinear(2, 2, 1)).attribute(X)


def test_a_type_error_inside_stays_what_it_is():
    with pytest.raises(TypeError, match="unsupported operand"):
        by_input(lambda x: x + "1").attribute(X)


@pytest.mark.parametrize("method", [by_layer, LayerIntegratedGradients])
def test_a_layer_that_gives_something_else_than_tensors(method):
    dig = method(summed, WORDS)
    with pytest.raises(ModelError, match=r"a layer must give a tensor.*got \(Tensor, NoneType\) from Words; choose"):
        convergence_report(dig, IDS, IDS * 0)


def test_a_layer_in_a_loop_gets_a_remedy_that_applies():
    layer = nn.Linear(4, 4)

    def forward(ids):
        hidden = WORDS(ids)[0]
        for _ in range(3):
            hidden = layer(hidden)
        return hidden.sum(dim=(1, 2))

    with pytest.raises(ModelError, match="got 3 runs of Linear; attribute to a layer that runs once, in front of a lo"):
        by_layer(forward, layer).attribute(IDS, IDS * 0)
    assert by_layer(forward).attribute(IDS, IDS * 0).shape == (1, 4, 4)


def test_baselines_of_another_shape():
    with pytest.raises(ValueError, match=r"a baseline must have the shape of its input, \(1, 4\).*got \(4,\)"):
        by_layer(summed).attribute(IDS, IDS[0] * 0)


def test_token_ids_where_embeddings_belong():
    with pytest.raises(TypeError, match="must be floating point, got integers.*LayerDiscretizedIntegratedGradients"):
        by_input(summed).attribute(IDS)


def test_no_baselines_where_id_0_is_no_padding():
    words = Words(padding_idx=1)
    dig = by_layer(lambda ids: words.table(ids).sum(dim=(1, 2)), words.table)
    with pytest.warns(UserWarning, match="id 0 is no padding, got None.*torch.full_like"):
        dig.attribute(IDS)
    dig.attribute(IDS, torch.ones_like(IDS))


def quantized(model, kinds):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.ao.quantization.quantize_dynamic(copy.deepcopy(model), kinds)


def test_quantized_weights(tokenizer):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        per_channel = torch.ao.quantization.float_qparams_weight_only_qconfig
    linear = quantized(tiny_classifier(len(tokenizer)), {nn.Linear})
    table = quantized(tiny_classifier(len(tokenizer)), {nn.Embedding: per_channel})
    with pytest.raises(ModelError, match="got a quantized Linear, which has no gradient; load the model in float32"):
        TextExplainer(linear, tokenizer)
    with pytest.raises(ModelError, match="got a quantized Embedding, which has no gradient"):
        TextExplainer(table, tokenizer)
    with pytest.raises(ModelError, match="table in floating point, got a quantized Embedding"):
        LayerDiscretizedIntegratedGradients(table, table.get_input_embeddings())
    with pytest.raises(ModelError, match="load the model in float32"):
        by_layer(lambda ids: linear(ids).logits, linear.get_input_embeddings()).attribute(IDS, IDS * 0, 1)


def test_a_model_made_in_inference_mode(tokenizer):
    with torch.inference_mode():
        model = tiny_classifier(len(tokenizer))
    message = r"must be made outside of torch.inference_mode\(\).*load it again outside"
    with pytest.raises(ModelError, match=message):
        TextExplainer(model, tokenizer)
    with pytest.raises(ModelError, match=message):
        by_layer(lambda ids: model(ids).logits, model.get_input_embeddings()).attribute(IDS, IDS * 0, 1)


def test_a_model_without_one_table_of_embeddings(tokenizer):
    config = transformers.CanineConfig(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, num_hash_buckets=16
    )
    with pytest.raises(ModelError, match="must have one table of input embeddings, got CanineForSequenceClassific"):
        TextExplainer(transformers.CanineForSequenceClassification(config), tokenizer)


def test_a_model_that_asks_for_more_than_the_tokenizer_gives(tokenizer):
    model = tiny_classifier(len(tokenizer))

    class Boxes(type(model)):
        def forward(self, box, input_ids=None, attention_mask=None):
            return super().forward(input_ids, attention_mask)

    model.__class__ = Boxes
    with pytest.raises(ModelError, match="must run on what its tokenizer gives, input_ids, attention_mask.*'box'"):
        TextExplainer(model, tokenizer).explain("a film")


# Layers that answer several rows for an example ------------------------------------------------


CHARACTERS = nn.Embedding(9, 4)


def of_documents(ids):
    """Shape (B, S, T): all sentences of a batch go through the table in one call."""
    sentences = torch.tanh(CHARACTERS(ids.flatten(0, 1)).sum(dim=1))
    return sentences.unflatten(0, ids.shape[:2]).sum(dim=(1, 2))


def of_characters(ids):
    """Shape (B, T): each character is a row of its own."""
    return torch.tanh(CHARACTERS(ids.flatten())).unflatten(0, ids.shape).sum(dim=(1, 2))


@pytest.mark.parametrize("method", [by_layer, LayerIntegratedGradients])
@pytest.mark.parametrize("n_examples", [1, 2, 3])
@pytest.mark.parametrize(("forward", "shape"), [(of_documents, (2, 4)), (of_characters, (3,))])
def test_deltas_add_up_the_rows_of_each_example(method, n_examples, forward, shape):
    ids = torch.randint(1, 9, (n_examples, *shape))
    dig = method(forward, CHARACTERS)
    report = convergence_report(dig, ids, ids * 0, n_steps=60)
    assert report.delta == pytest.approx((0.0,) * n_examples, abs=1e-5)
    assert report.converged
    if method is by_layer:
        scores, delta = dig.attribute(ids, ids * 0, n_steps=60, return_convergence_delta=True)
        assert delta.tolist() == pytest.approx([0.0] * n_examples, abs=1e-5)
        with torch.no_grad():
            change = forward(ids) - forward(ids * 0)
        torch.testing.assert_close(scores.reshape(n_examples, -1).sum(dim=1), change)


def test_rows_that_do_not_share_out_are_told():
    places = nn.Embedding(3, 4)
    dig = by_layer(lambda ids: WORDS(ids)[0].sum(dim=(1, 2)) + places(torch.arange(3)).sum(), places)
    with pytest.raises(ValueError, match="as many rows of the layer for each of 2 examples, got 3 rows"):
        dig.attribute(IDS[:, :3].repeat(2, 1), n_steps=3, return_convergence_delta=True)
