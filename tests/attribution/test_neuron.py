"""One neuron of a layer, attributed to inputs along a path."""

import inspect

import pytest
import torch
from captum.attr import NeuronIntegratedGradients, NoiseTunnel
from torch import nn

from captum_dig import (
    DiscretizedIntegratedGradients,
    MonotonicPath,
    NeuronDiscretizedIntegratedGradients,
    PathError,
    PathGenerator,
    StraightLine,
    Vocabulary,
    VocabularyError,
)
from captum_dig.quadrature import RULES
from tests.attribution.test_inputs import SAME_RULES, Net, compare
from tests.paths.test_base import PATHS, ROWS, path_name
from tests.tiny_models import tiny_classifier


class Reader(nn.Module):
    """Rows of words to a hidden row for each, to one number for each of two classes."""

    def __init__(self):
        super().__init__()
        self.mix, self.head = nn.Linear(6, 5), nn.Linear(5, 2)

    def hidden(self, rows, scale=None):
        rows = rows if scale is None else rows * scale[:, None, None]
        # Words see each other, or the neurons of one would depend on it alone.
        return torch.tanh(self.mix(torch.sin(rows) + rows.mean(dim=1, keepdim=True)))

    def forward(self, rows, scale=None):
        return self.head(torch.tanh(self.last(self.hidden(rows, scale))))

    def last(self, hidden):
        return hidden.sum(dim=1)


class Squares(nn.Module):
    """A layer without parameters that gives two tensors."""

    def forward(self, x):
        return x, x**2


@pytest.fixture
def reader():
    return Reader()


def squared_sum(output):
    return output.flatten(1).square().sum(dim=1)


def both(model, layer, multiply=True, path=None):
    ours = NeuronDiscretizedIntegratedGradients(model, layer, path or StraightLine(), multiply_by_inputs=multiply)
    return ours, NeuronIntegratedGradients(model, layer, multiply_by_inputs=multiply)


def as_tuple(attributions):
    return attributions if isinstance(attributions, tuple) else (attributions,)


def agree(ours, captums, **call):
    one, other = ours.attribute(**call), captums.attribute(**call)
    assert isinstance(one, tuple) == isinstance(other, tuple)
    assert any(bool(a.any()) for a in as_tuple(one))
    compare(as_tuple(one), as_tuple(other), torch.float32)


FLAT = [2, -1, (2,), [2], (slice(0, 3),), (slice(None),), squared_sum]
DEEP = [(1, 2), (0, -1), (slice(0, 2), 3), (2, slice(None)), (slice(None), slice(1, 4)), squared_sum]


@pytest.mark.filterwarnings("ignore:.*nternal.batch.size")
@pytest.mark.parametrize("multiply", [True, False])
@pytest.mark.parametrize("internal_batch_size", [None, 1, 7, 1000])
@pytest.mark.parametrize("method", SAME_RULES)
def test_the_straight_line_is_captums_neuron_integrated_gradients(reader, method, internal_batch_size, multiply):
    net, options = Net(), {"method": method, "n_steps": 11, "internal_batch_size": internal_batch_size}
    x, y, base = torch.randn(3, 6), torch.randn(3, 4), torch.randn(3, 6)
    for selector in FLAT:
        agree(*both(net, net.first, multiply), inputs=x, neuron_selector=selector, baselines=base, **options)
    for selector in (0, (slice(1, 3),), squared_sum):
        agree(*both(net, net.last, multiply), inputs=(x, y), neuron_selector=selector, baselines=(base, 1), **options)
    rows, start = ROWS[torch.arange(9).reshape(3, 3)], ROWS[20].expand(3, 3, 6)
    for selector in DEEP:
        agree(*both(reader, reader.mix, multiply), inputs=rows, neuron_selector=selector, baselines=start, **options)


@pytest.mark.parametrize("method", SAME_RULES)
def test_the_input_of_the_layer_is_captums(reader, method):
    net = Net()
    x, y = torch.randn(3, 6), torch.randn(3, 4)
    options = {"method": method, "n_steps": 9, "attribute_to_neuron_input": True}
    for selector in FLAT:
        agree(*both(net, net.last), inputs=(x, y), neuron_selector=selector, **options)
    for selector in DEEP:
        agree(
            *both(reader, reader.mix), inputs=ROWS[torch.arange(9).reshape(3, 3)], neuron_selector=selector, **options
        )
    # Where it is an input of the model, only it counts.
    ours, captums = both(net, net.first)
    got = ours.attribute(x, 4, attribute_to_neuron_input=True)
    torch.testing.assert_close(got, captums.attribute(x, 4, attribute_to_neuron_input=True))
    torch.testing.assert_close(got, x * (torch.arange(6) == 4))


@pytest.mark.parametrize("multiply", [True, False])
def test_baselines_and_further_arguments_are_captums(reader, multiply):
    net = Net()
    x, y, scale = torch.randn(3, 6), torch.randn(3, 4), torch.rand(3, 1) + 0.5
    for baselines in (None, 0, 0.3, torch.randn(1, 6), torch.randn(3, 6)):
        agree(*both(net, net.last, multiply), inputs=x, neuron_selector=1, baselines=baselines)
        agree(
            *both(net, net.last, multiply),
            inputs=(x, y),
            neuron_selector=1,
            baselines=None if baselines is None else (baselines, 2),
            additional_forward_args=scale,
        )
    for extra in (scale[:, 0], (scale[:, 0],)):
        agree(
            *both(reader, reader.mix, multiply),
            inputs=ROWS[torch.arange(9).reshape(3, 3)],
            neuron_selector=(0, 1),
            additional_forward_args=extra,
        )


def test_a_layer_of_several_tensors_needs_a_function():
    layer = Squares()

    def model(x):
        return sum(layer(torch.tanh(x)))

    x = torch.randn(3, 4)
    agree(*both(model, layer), inputs=x, neuron_selector=lambda output: output[0][:, 0] * output[1][:, 1])
    ours, captums = both(model, layer)
    for one in (ours, captums):
        with pytest.raises(AssertionError, match="Cannot select neuron index from layer with multiple tensors"):
            one.attribute(x, 0)


def words():
    return ROWS[torch.arange(12).reshape(3, 4)], ROWS[20].expand(3, 4, 6)


@pytest.mark.parametrize("path", PATHS, ids=path_name)
@pytest.mark.parametrize("selector", [*DEEP[:5], squared_sum], ids=lambda value: getattr(value, "__name__", str(value)))
def test_attributions_add_up_to_the_difference_in_activation(reader, path, selector):
    rows, base = words()
    layer, scale = nn.Identity(), torch.tensor([0.5, 1.0, 0.8])

    def model(x, scale):
        return layer(reader.hidden(x, scale)).sum(dim=(1, 2))

    def activation(x):
        output = reader.hidden(x, scale).detach()
        return selector(output) if callable(selector) else output[(slice(None), *selector)].reshape(3, -1).sum(dim=1)

    got = NeuronDiscretizedIntegratedGradients(model, layer, path).attribute(rows, selector, base, scale, n_steps=300)
    difference = activation(rows) - activation(base)
    assert float(difference.abs().min()) > 1e-3
    torch.testing.assert_close(got.sum(dim=(1, 2)), difference, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("spacing", ["arc", "knots"])
@pytest.mark.parametrize("multiply", [True, False])
@pytest.mark.parametrize("method", RULES)
@pytest.mark.parametrize("path", PATHS, ids=path_name)
def test_it_is_a_model_that_ends_at_the_neuron(reader, path, method, multiply, spacing):
    rows, base = words()
    layer = reader.mix
    dig = NeuronDiscretizedIntegratedGradients(reader, layer, path, None, multiply, spacing=spacing)

    def ends_there(x):
        return layer(torch.sin(x) + x.mean(dim=1, keepdim=True))

    short = DiscretizedIntegratedGradients(ends_there, path, multiply, spacing=spacing)
    torch.testing.assert_close(
        dig.attribute(rows, (1, 3), base, n_steps=13, method=method),
        short.attribute(rows, base, (1, 3), n_steps=13, method=method),
    )


@pytest.mark.parametrize("path", PATHS, ids=path_name)
@pytest.mark.parametrize("method", RULES)
def test_batches_are_their_rows_and_internal_batches_change_nothing(reader, path, method):
    rows, base = words()
    dig = NeuronDiscretizedIntegratedGradients(reader, reader.mix, path)
    whole = dig.attribute(rows, (0, 1), base, n_steps=17, method=method)
    for size in (3, 7, 1000):
        torch.testing.assert_close(
            dig.attribute(rows, (0, 1), base, n_steps=17, method=method, internal_batch_size=size),
            whole,
            rtol=1e-5,
            atol=1e-6,
        )
    alone = [dig.attribute(rows[i : i + 1], (0, 1), base[:1], n_steps=17, method=method) for i in range(3)]
    torch.testing.assert_close(torch.cat(alone), whole, rtol=1e-5, atol=1e-6)


def test_a_neuron_of_a_transformer_is_explained_from_words(tokenizer):
    model = tiny_classifier(len(tokenizer))
    table = model.get_input_embeddings()
    encoding = tokenizer(["a gorgeous, witty movie", "dull"], padding=True, return_tensors="pt")
    ids, mask = encoding.input_ids, encoding.attention_mask
    special = (ids == tokenizer.cls_token_id) | (ids == tokenizer.sep_token_id) | (mask == 0)
    base = torch.where(special, ids, torch.full_like(ids, tokenizer.pad_token_id))
    path = MonotonicPath(Vocabulary.from_layer(table), n_anchors=5, n_neighbors=12)
    layer = model.distilbert.transformer.layer[1].ffn.lin1
    dig = NeuronDiscretizedIntegratedGradients(
        lambda rows, mask: model(inputs_embeds=rows, attention_mask=mask).logits, layer, path
    )
    rows = table(ids).detach()
    got = dig.attribute(rows, (0, 3), table(base), (mask,), n_steps=200)
    assert got.shape == rows.shape
    assert not got[special].any()
    outputs = []
    handle = layer.register_forward_hook(lambda module, args, output: outputs.append(output.detach()[:, 0, 3]))
    for each in (ids, base):
        model(each, attention_mask=mask)
    handle.remove()
    assert float((outputs[0] - outputs[1]).abs().min()) > 0.05
    torch.testing.assert_close(got.sum(dim=(1, 2)), outputs[0] - outputs[1], rtol=1e-2, atol=5e-3)


def test_the_interface_is_captums(reader):
    mine, theirs = (
        list(inspect.signature(c.attribute).parameters.values())
        for c in (NeuronDiscretizedIntegratedGradients, NeuronIntegratedGradients)
    )
    assert [(p.name, p.default, p.kind) for p in mine] == [(p.name, p.default, p.kind) for p in theirs]
    mine, theirs = (
        list(inspect.signature(c).parameters.values())
        for c in (NeuronDiscretizedIntegratedGradients, NeuronIntegratedGradients)
    )
    assert [p.name for p in mine if p.name not in ("path", "spacing")] == [p.name for p in theirs]
    assert next(p for p in mine if p.name == "path").default is inspect.Parameter.empty
    dig = NeuronDiscretizedIntegratedGradients(reader, reader.mix, StraightLine(), None, False)
    assert isinstance(dig, NeuronIntegratedGradients)
    assert NeuronDiscretizedIntegratedGradients(reader, reader.mix, StraightLine(), [0, 1]).device_ids == [0, 1]
    assert dig.multiplies_by_inputs is False
    assert not dig.has_convergence_delta()
    assert dig.get_name() == "Neuron Discretized Integrated Gradients"


def test_the_model_is_called_as_often_as_captum_calls_it(reader):
    rows, base = words()
    calls, counts = [], []
    for method in both(lambda x: calls.append(len(x)) or reader(x), reader.mix):
        calls.clear()
        method.attribute(rows, (0, 1), base, n_steps=50, internal_batch_size=14)
        counts.append(list(calls))
    # From the inputs to the baselines, so the shorter rest comes first.
    assert sorted(counts[0]) == sorted(counts[1])
    assert max(counts[0]) == 12


def test_arguments_by_place_and_past_the_wrapper(reader):
    rows, base = words()
    scale = torch.tensor([0.5, 1.0, 0.8])
    ours, captums = both(reader, reader.mix)
    arguments = (rows, (0, 1), base, scale, 9, "riemann_middle", 7, True)
    expected = captums.attribute(*arguments)
    compare((ours.attribute(*arguments),), (expected,), torch.float32)
    compare((NeuronDiscretizedIntegratedGradients.attribute.__wrapped__(ours, *arguments),), (expected,), torch.float32)


def test_noise_tunnels_take_it(reader):
    rows, base = words()
    got = []
    for method in both(reader, reader.mix):
        torch.manual_seed(5)
        got.append(
            NoiseTunnel(method).attribute(
                rows, nt_type="smoothgrad", nt_samples=4, stdevs=0.1, baselines=base, neuron_selector=(0, 1), n_steps=9
            )
        )
    compare(got[:1], got[1:], torch.float32)


def state(thing, depth=0):
    """What an object holds, and what that holds: identities and versions where tensors are reached."""
    if isinstance(thing, torch.Tensor):
        return id(thing), thing._version, thing.requires_grad, thing.grad is None
    if isinstance(thing, dict):
        return {key: state(value, depth) for key, value in thing.items()}
    if isinstance(thing, (list, tuple, set)):
        return [state(value, depth) for value in thing]
    if depth < 8 and isinstance(thing, (nn.Module, PathGenerator, NeuronIntegratedGradients)):
        return id(thing), {key: state(value, depth + 1) for key, value in vars(thing).items()}
    return id(thing)


def test_nothing_is_kept_between_calls(reader):
    rows, base = words()
    rows.requires_grad_()
    dig = NeuronDiscretizedIntegratedGradients(reader, reader.mix, StraightLine())
    gradient_func, before, inputs = dig.gradient_func, state(dig), state([rows, base])
    first = dig.attribute(rows, (0, 1), base)
    with pytest.raises(IndexError, match="index 99 is out of bounds"):
        dig.attribute(rows, (0, 99), base)
    other = dig.attribute(rows, squared_sum, attribute_to_neuron_input=True, internal_batch_size=7)
    assert dig.gradient_func is gradient_func
    assert state(dig) == before
    assert state([rows, base]) == inputs
    assert torch.equal(dig.attribute(rows, (0, 1), base), first)
    assert not torch.equal(first, other)
    assert not first.requires_grad


def test_a_path_of_words_is_the_only_thing_that_learns(reader):
    rows, base = words()
    path = MonotonicPath(Vocabulary(ROWS), n_anchors=5, n_neighbors=12)
    dig = NeuronDiscretizedIntegratedGradients(reader, reader.mix, path)
    before = {key: value for key, value in vars(dig).items() if key != "path"}
    first = dig.attribute(rows, (0, 1), base)
    assert dig.path is path
    assert {key: value for key, value in vars(dig).items() if key != "path"} == before
    assert torch.equal(dig.attribute(rows, (0, 1), base), first)


def test_the_forward_function_of_the_moment_is_run(reader):
    rows, base = words()
    dig = NeuronDiscretizedIntegratedGradients(lambda x: reader(x * 0), reader.mix, StraightLine())
    assert not dig.attribute(rows, (0, 1), base).any()
    dig.forward_func = reader
    expected = NeuronIntegratedGradients(reader, reader.mix).attribute(rows, (0, 1), base)
    compare((dig.attribute(rows, (0, 1), base),), (expected,), torch.float32)


def test_under_no_grad(reader):
    rows, base = words()
    dig = NeuronDiscretizedIntegratedGradients(reader, reader.mix, PATHS[2])
    with torch.no_grad():
        got = dig.attribute(rows, (0, 1), base)
    assert torch.equal(got, dig.attribute(rows, (0, 1), base))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_dtypes_are_captums(reader, dtype):
    reader = reader.to(dtype)
    rows, base = (x.to(dtype) for x in words())
    ours, captums = both(reader, reader.mix)
    got, expected = ours.attribute(rows, (0, 1), base), captums.attribute(rows, (0, 1), base)
    assert got.dtype == expected.dtype
    tolerance = {torch.float16: 2e-3, torch.bfloat16: 2e-2, torch.float32: 1e-6, torch.float64: 1e-7}[dtype]
    torch.testing.assert_close(got, expected, rtol=0, atol=tolerance)


class Liar(PathGenerator):
    def knots(self, inputs, baselines):
        return torch.stack([inputs, baselines])


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (
            {"neuron_selector": None},
            TypeError,
            "neuron_selector must be an integer, a tuple of integers and slices.*None",
        ),
        ({"neuron_selector": "mix"}, TypeError, "neuron_selector must be an integer.*got 'mix'"),
        ({"neuron_selector": 1.0}, TypeError, "neuron_selector must be an integer.*got 1.0"),
        (
            {"neuron_selector": slice(0, 3)},
            TypeError,
            r"neuron_selector must be.*got slice\(0, 3, None\); for neurons side by side, \(slice\(0, 3\),\)",
        ),
        ({"neuron_selector": (0, 5)}, IndexError, "index 5 is out of bounds for dimension 2 with size 5"),
        ({"neuron_selector": (0, 1, 2)}, AssertionError, "Cannot choose target column with output shape"),
        ({"neuron_selector": 0}, RuntimeError, "grad can be implicitly created only for scalar outputs"),
        ({"n_steps": 0}, ValueError, "n_steps must be an integer of at least 1, got 0"),
        ({"n_steps": 2.0}, ValueError, "n_steps must be an integer of at least 1, got 2.0"),
        ({"method": "greedy"}, ValueError, "method must be one of 'gausslegendre'.*got 'greedy'"),
        ({"internal_batch_size": 0}, ValueError, "internal_batch_size must be an integer of at least 1, got 0"),
        ({"baselines": torch.zeros(1, 7)}, ValueError, r"a baseline must have the shape of its input, \(3, 4, 6\)"),
        ({"baselines": (0, 0)}, ValueError, "baselines must have one entry for each of the 1 inputs, got 2"),
    ],
)
def test_wrong_arguments(reader, arguments, error, message):
    rows, base = words()
    dig = NeuronDiscretizedIntegratedGradients(reader, reader.mix, StraightLine())
    with pytest.raises(error, match=message) as caught:
        dig.attribute(rows, **{"neuron_selector": (0, 1), "baselines": base, **arguments})
    assert caught.type is error


def test_paths_that_fail_say_so(reader):
    rows, base = words()
    with pytest.raises(PathError, match="the first knot of Liar must equal the baselines exactly"):
        NeuronDiscretizedIntegratedGradients(reader, reader.mix, Liar()).attribute(rows, (0, 1), base)
    with pytest.raises(VocabularyError, match="get_input_embeddings"):
        NeuronDiscretizedIntegratedGradients(reader, reader.mix, PATHS[2]).attribute(rows * 100, (0, 1), base)


def test_a_path_must_be_said(reader):
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'path'"):
        NeuronDiscretizedIntegratedGradients(reader, reader.mix)
    with pytest.raises(TypeError, match="path must be a PathGenerator, got int; for example MonotonicPath"):
        NeuronDiscretizedIntegratedGradients(reader, reader.mix, 0)
    with pytest.raises(ValueError, match="spacing must be one of 'arc', 'knots', got 'even'"):
        NeuronDiscretizedIntegratedGradients(reader, reader.mix, StraightLine(), spacing="even")


def test_a_layer_that_does_not_run_is_captums_error(reader):
    rows, base = words()
    for one in both(reader, nn.Linear(6, 5)):
        with pytest.raises(AssertionError, match="Forward hook did not obtain any outputs for given layer"):
            one.attribute(rows, (0, 1), base)
