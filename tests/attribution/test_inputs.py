import inspect
import itertools
import warnings

import pytest
import torch
from captum.attr import IntegratedGradients, LayerIntegratedGradients
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from captum_dig import (
    DiscretizedIntegratedGradients,
    LayerDiscretizedIntegratedGradients,
    MonotonicPath,
    PathGenerator,
    StraightLine,
    Vocabulary,
)
from captum_dig.quadrature import RULES
from tests import reference
from tests.paths.test_base import ENSEMBLES, PATHS, ROWS, path_name

SAME_RULES = ["riemann_left", "riemann_right", "riemann_middle", "gausslegendre"]


class Net(nn.Module):
    """Two inputs, three outputs, smooth and not linear."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.last = nn.Linear(6, 7), nn.Linear(4, 7), nn.Linear(7, 3)

    def forward(self, x, y=None, scale=None):
        hidden = self.first(x) if y is None else self.first(x) + self.second(y)
        return self.last(torch.tanh(hidden if scale is None else hidden * scale))


@pytest.fixture
def net():
    return Net()


def compare(ours, captums, dtype):
    for one, other in zip(ours, captums, strict=True):
        assert one.dtype == other.dtype
        torch.testing.assert_close(
            one, other, rtol=0 if dtype == torch.float32 else 1e-12, atol=1e-6 if dtype == torch.float32 else 1e-13
        )


@pytest.fixture(params=[torch.float32, torch.float64], ids=["float32", "float64"])
def dtype(request, monkeypatch):
    """In float64 Captum rounds its weights to float32; not here, so that the rule itself is compared."""
    if request.param == torch.float64:
        monkeypatch.setattr(torch.Tensor, "float", torch.Tensor.double)
        torch.set_default_dtype(torch.float64)
        yield request.param
        torch.set_default_dtype(torch.float32)
    else:
        yield request.param


@pytest.mark.filterwarnings("ignore:.*nternal.batch.size")
@pytest.mark.parametrize("multiply", [True, False])
@pytest.mark.parametrize("internal_batch_size", [None, 7])
# Captum's Riemann rules need two steps.
@pytest.mark.parametrize(("method", "n_steps"), [("gausslegendre", 1), *itertools.product(SAME_RULES, (2, 17))])
def test_the_straight_line_is_captums_integrated_gradients(net, dtype, method, n_steps, internal_batch_size, multiply):
    net = net.to(dtype)
    x, y, base = torch.randn(3, 6, dtype=dtype), torch.randn(3, 4, dtype=dtype), torch.randn(3, 6, dtype=dtype)
    ours, captums = DiscretizedIntegratedGradients(net, StraightLine(), multiply), IntegratedGradients(net, multiply)
    options = {"n_steps": n_steps, "method": method, "internal_batch_size": internal_batch_size}
    calls = [
        {"inputs": x, "target": 1},
        {"inputs": x, "baselines": base, "target": [0, 2, 1]},
        {"inputs": x, "baselines": base[:1], "target": torch.tensor([2, 2, 0])},
        {"inputs": x, "baselines": 0.3, "target": 0, "additional_forward_args": (None, torch.rand(3, 1, dtype=dtype))},
        {"inputs": (x, y), "baselines": (base, 1), "target": 1},
        {"inputs": (x, y), "target": 2, "additional_forward_args": torch.rand(3, 1, dtype=dtype)},
    ]
    for call in calls:
        one, other = ours.attribute(**call, **options), captums.attribute(**call, **options)
        assert isinstance(one, tuple) == isinstance(other, tuple)
        compare(*(a if isinstance(a, tuple) else (a,) for a in (one, other)), dtype)
    one = ours.attribute(x, base, 1, None, n_steps, method, internal_batch_size, return_convergence_delta=True)
    other = captums.attribute(x, base, 1, None, n_steps, method, internal_batch_size, return_convergence_delta=True)
    compare(one, other, dtype)


def test_in_float64_captum_itself_rounds_its_weights_to_float32(net):
    net = net.double()
    x = torch.randn(3, 6, dtype=torch.float64)
    ours = DiscretizedIntegratedGradients(net, StraightLine()).attribute(
        x, target=1, n_steps=50, method="riemann_middle"
    )
    captums = IntegratedGradients(net).attribute(x, target=1, n_steps=50, method="riemann_middle")
    relative = float((ours - captums).norm() / captums.norm())
    assert 1e-12 < relative < 3e-8


@pytest.mark.parametrize("n_steps", [1, 2, 7])
def test_trapezoid_weights_add_up_to_one_here_and_not_in_captum(n_steps):
    x = torch.tensor([[2.0, -1.0]])
    ours = DiscretizedIntegratedGradients(lambda v: v @ torch.tensor([3.0, 5.0]), StraightLine())
    got = ours.attribute(x, n_steps=n_steps, method="riemann_trapezoid")
    torch.testing.assert_close(got, torch.tensor([[6.0, -5.0]]))
    if n_steps > 1:
        captums = IntegratedGradients(ours.forward_func).attribute(x, n_steps=n_steps, method="riemann_trapezoid")
        torch.testing.assert_close(captums, got * (n_steps - 1) / n_steps)


@pytest.mark.parametrize("spacing", ["arc", "knots"])
@pytest.mark.parametrize("method", RULES)
@pytest.mark.parametrize("path", PATHS, ids=path_name)
@settings(max_examples=6)
@given(st.integers(1, 60))
def test_a_linear_model_gets_its_exact_attribution(path, method, spacing, n_steps):
    weight = torch.linspace(-1, 2, 6)
    dig = DiscretizedIntegratedGradients(lambda x: (x * weight).sum(dim=(1, 2)), path, spacing=spacing)
    x, base = ROWS[None, 3:7], ROWS[0].expand(1, 4, 6)
    got, delta = dig.attribute(x, base, n_steps=n_steps, method=method, return_convergence_delta=True)
    torch.testing.assert_close(got, weight * (x - base), rtol=1e-5, atol=1e-5)
    assert float(delta.abs()) < 2e-5


def nonlinear(x):
    return torch.tanh(x.sum(dim=-1)).prod(dim=-1) + torch.sin(x).sum(dim=(1, 2))


@pytest.mark.parametrize("path", PATHS, ids=path_name)
def test_it_is_the_path_integral(path):
    x, base = ROWS[None, 3:6], ROWS[0].expand(1, 3, 6)

    def gradient(point):
        leaf = torch.tensor(point)[None].requires_grad_()
        return torch.autograd.grad(nonlinear(leaf).sum(), leaf)[0][0].numpy()

    expected = reference.path_integral(gradient, path(x, base)[:, 0].double().numpy(), n_per_piece=300)
    got = DiscretizedIntegratedGradients(nonlinear, path).attribute(x.double(), base.double(), n_steps=200)
    torch.testing.assert_close(got[0], torch.tensor(expected), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("path", PATHS + ENSEMBLES, ids=path_name)
def test_one_moving_token_gets_the_whole_difference(path):
    base = ROWS[None, 3:7]
    x = base.clone()
    x[0, 2] = ROWS[20]
    got = DiscretizedIntegratedGradients(nonlinear, path).attribute(x, base, n_steps=200)
    assert not got[0, [0, 1, 3]].any()
    assert float(got[0, 2].sum()) == pytest.approx(float(nonlinear(x) - nonlinear(base)), abs=1e-4)


@pytest.mark.parametrize("path", PATHS + ENSEMBLES, ids=path_name)
@pytest.mark.parametrize("method", RULES)
def test_internal_batches_change_nothing(path, method):
    x, base = ROWS[torch.arange(12).reshape(3, 4)], ROWS[20].expand(3, 4, 6)
    dig = DiscretizedIntegratedGradients(nonlinear, path)
    whole = dig.attribute(x, base, n_steps=23, method=method)
    for size in (7, 1000):
        torch.testing.assert_close(
            dig.attribute(x, base, n_steps=23, method=method, internal_batch_size=size), whole, rtol=1e-5, atol=1e-6
        )
    with pytest.warns(
        UserWarning, match="internal_batch_size = 1 cannot be less than the number of examples; 3 is used"
    ):
        torch.testing.assert_close(
            dig.attribute(x, base, n_steps=23, method=method, internal_batch_size=1), whole, rtol=1e-5, atol=1e-6
        )


class Sentences(nn.Module):
    """Embeddings, a mask and one logit for each of two classes."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding.from_pretrained(ROWS.clone())
        self.mix, self.head = nn.Linear(6, 8), nn.Linear(8, 2)

    def forward(self, ids, mask):
        return self.read(self.table(ids), mask)

    def read(self, rows, mask):
        hidden = torch.tanh(self.mix(rows)) * mask[..., None]
        return self.head(torch.tanh(hidden.sum(dim=1)))


def padded_batch():
    generator = torch.Generator().manual_seed(0)
    lengths = [1, 9, 3, 5, 2, 7, 4, 6, 8, 3, 9, 1, 2, 5, 7, 4]
    ids = torch.zeros(16, 9, dtype=torch.int64)
    mask = torch.zeros(16, 9)
    for row, length in enumerate(lengths):
        ids[row, :length] = torch.randint(1, 80, (length,), generator=generator)
        mask[row, :length] = 1
    return ids, mask, lengths


@pytest.mark.parametrize("internal_batch_size", [None, 40])
@pytest.mark.parametrize("path", PATHS + ENSEMBLES, ids=path_name)
def test_a_padded_batch_is_its_sentences(path, internal_batch_size):
    model = Sentences()
    ids, mask, lengths = padded_batch()
    targets = [i % 2 for i in range(len(lengths))]
    dig = LayerDiscretizedIntegratedGradients(model, model.table, path)
    options = {"internal_batch_size": internal_batch_size, "return_convergence_delta": True}
    together, deltas = dig.attribute(ids, torch.zeros_like(ids), targets, (mask,), **options)
    for row, length in list(enumerate(lengths))[::3]:
        one = ids[row : row + 1, :length]
        alone, delta = dig.attribute(
            one, torch.zeros_like(one), targets[row], (mask[row : row + 1, :length],), **options
        )
        torch.testing.assert_close(together[row, :length], alone[0], rtol=0, atol=1e-5)
        torch.testing.assert_close(deltas[row], delta[0], rtol=0, atol=1e-5)
        assert not together[row, length:].any()


@pytest.mark.filterwarnings("ignore:.*nternal.batch.size")
@pytest.mark.parametrize("internal_batch_size", [None, 1, 3, 1000])
@pytest.mark.parametrize("method", SAME_RULES)
@pytest.mark.parametrize("multiply", [True, False])
def test_layers_are_captums(method, internal_batch_size, multiply):
    model = Sentences()
    ids, mask, _ = padded_batch()
    arguments = (ids, torch.full_like(ids, 3), 1, mask, 11, method, internal_batch_size, True)
    expected = LayerIntegratedGradients(model, model.table, multiply_by_inputs=multiply).attribute(*arguments)
    ours = LayerDiscretizedIntegratedGradients(
        model, model.table, StraightLine(), multiply_by_inputs=multiply
    ).attribute(*arguments)
    swapped = LayerIntegratedGradients(model, model.table)
    swapped.ig = DiscretizedIntegratedGradients(model, StraightLine(), multiply)
    for got in (ours, swapped.attribute(*arguments)):
        torch.testing.assert_close(got, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("path", PATHS + ENSEMBLES, ids=path_name)
def test_three_ways_to_the_same_numbers(path):
    model = Sentences()
    ids, mask, _ = padded_batch()
    base = torch.zeros_like(ids)
    layer = LayerDiscretizedIntegratedGradients(model, model.table, path).attribute(ids, base, 1, mask)
    swapped = LayerIntegratedGradients(model, model.table)
    swapped.ig = DiscretizedIntegratedGradients(model, path)
    torch.testing.assert_close(swapped.attribute(ids, base, 1, mask), layer)
    plain = DiscretizedIntegratedGradients(model.read, path).attribute(model.table(ids), model.table(base), 1, mask)
    torch.testing.assert_close(plain, layer, rtol=0, atol=1e-6)


@pytest.mark.filterwarnings("ignore:n_neighbors = 500 is more than")
def test_the_default_path_of_a_layer_is_made_once_from_its_rows():
    model = Sentences()
    dig = LayerDiscretizedIntegratedGradients(model, model.table)
    assert isinstance(dig.path, MonotonicPath)
    assert dig.path.vocabulary.fingerprint == Vocabulary(ROWS).fingerprint
    path = dig.path
    dig.attribute(torch.tensor([[1, 2]]), target=0, additional_forward_args=torch.ones(1, 2))
    assert dig.path is path


@pytest.mark.filterwarnings("ignore:n_neighbors = 500 is more than", "ignore:Multiple layers provided")
def test_several_layers():
    tables = [nn.Embedding.from_pretrained(ROWS.clone()) for _ in range(2)]

    def model(ids):
        return torch.tanh(tables[0](ids) + tables[1](ids) ** 2).sum(dim=(1, 2))

    ids = torch.tensor([[1, 2, 3]])
    got, delta = LayerDiscretizedIntegratedGradients(model, tables).attribute(
        ids, n_steps=150, return_convergence_delta=True
    )
    assert [a.shape for a in got] == [(1, 3, 6)] * 2
    assert float(delta.abs()) < 1e-3
    tables[1].weight.data += 1
    with pytest.raises(ValueError, match="path must be given for 2 layers with different embedding tables, got None"):
        LayerDiscretizedIntegratedGradients(model, tables)


def test_without_the_input_factor_still_coordinates_get_the_mean_gradient():
    path = MonotonicPath(Vocabulary(ROWS), n_anchors=5, n_neighbors=12)
    x, base = ROWS[None, 3:6].clone(), ROWS[0].expand(1, 3, 6).clone()
    base[0, 1] = x[0, 1]
    got = DiscretizedIntegratedGradients(nonlinear, path, multiply_by_inputs=False).attribute(x, base, n_steps=40)
    whole = DiscretizedIntegratedGradients(nonlinear, path).attribute(x, base, n_steps=40)
    torch.testing.assert_close(got * (x - base), whole)
    assert got[0, 1].abs().min() > 0


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_dtypes_are_captums(dtype):
    model = Sentences().to(dtype)
    ids, mask, _ = padded_batch()
    arguments = (ids, torch.zeros_like(ids), 1, mask.to(dtype))
    expected = LayerIntegratedGradients(model, model.table).attribute(*arguments)
    path = MonotonicPath(Vocabulary.from_layer(model.table), n_anchors=5, n_neighbors=12)
    got = LayerDiscretizedIntegratedGradients(model, model.table, path).attribute(*arguments)
    assert got.dtype == expected.dtype
    precise = LayerDiscretizedIntegratedGradients(
        model.double(), model.table, MonotonicPath(Vocabulary.from_layer(model.table), n_anchors=5, n_neighbors=12)
    )
    reference = precise.attribute(ids, torch.zeros_like(ids), 1, mask.double())
    tolerance = {torch.float16: 0.02, torch.bfloat16: 0.15, torch.float32: 1e-4, torch.float64: 1e-9}[dtype]
    assert float((got - reference).norm() / reference.norm()) < tolerance


class NoDouble(torch.overrides.TorchFunctionMode):
    """Fail where a float64 tensor comes into being."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor) and result.dtype == torch.float64:
            raise AssertionError(f"{func} made a float64 tensor")
        return result


@pytest.mark.parametrize("method", RULES)
def test_no_float64_tensor_on_a_float32_model(method):
    model = Sentences()
    ids, mask, _ = padded_batch()
    with NoDouble():
        path = MonotonicPath(Vocabulary.from_layer(model.table), n_anchors=5, n_neighbors=12)
        dig = LayerDiscretizedIntegratedGradients(model, model.table, path)
        dig.attribute(ids, torch.zeros_like(ids), 1, mask, method=method, return_convergence_delta=True)


def test_integer_inputs_are_converted():
    dig = DiscretizedIntegratedGradients(lambda x: (x**2).sum(dim=1), StraightLine())
    torch.testing.assert_close(dig.attribute(torch.tensor([[3, 1]]), 0), torch.tensor([[9.0, 1.0]]))


def test_under_no_grad():
    with torch.no_grad():
        got = DiscretizedIntegratedGradients(nonlinear, PATHS[2]).attribute(ROWS[None, 3:5], ROWS[None, [0, 0]])
    assert not got.requires_grad


def test_the_model_is_called_as_often_as_captum_calls_it():
    calls = []

    def counted(x):
        calls.append(len(x))
        return nonlinear(x)

    x = ROWS[torch.arange(6).reshape(2, 3)]
    counts = []
    for method in (DiscretizedIntegratedGradients(counted, StraightLine()), IntegratedGradients(counted)):
        calls.clear()
        method.attribute(x, n_steps=50, internal_batch_size=14, return_convergence_delta=True)
        counts.append(list(calls))
    # From the inputs to the baselines, so the shorter rest comes first.
    assert sorted(counts[0]) == sorted(counts[1])


def test_the_interface_is_captums():
    for ours, captums in (
        (DiscretizedIntegratedGradients, IntegratedGradients),
        (LayerDiscretizedIntegratedGradients, LayerIntegratedGradients),
    ):
        mine, theirs = (list(inspect.signature(c.attribute).parameters.values()) for c in (ours, captums))
        assert [(p.name, p.default) for p in mine] == [(p.name, p.default) for p in theirs]
        assert ours.attribute.__wrapped__
    dig = DiscretizedIntegratedGradients(nonlinear, StraightLine(), multiply_by_inputs=False)
    assert dig.has_convergence_delta()
    assert dig.multiplies_by_inputs is False
    assert dig.get_name() == "Discretized Integrated Gradients"
    with pytest.raises(NotImplementedError, match="attribute_future is not implemented"):
        dig.attribute_future()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_steps": 0}, "n_steps must be an integer of at least 1, got 0"),
        ({"n_steps": 2.0}, "n_steps must be an integer of at least 1, got 2.0"),
        ({"method": "greedy"}, "method must be one of 'gausslegendre'.*got 'greedy'; the anchor search is `strategy`"),
        ({"internal_batch_size": 0}, "internal_batch_size must be an integer of at least 1, got 0"),
        (
            {"baselines": torch.zeros(1, 7)},
            r"a baseline must have the shape of its input, \(1, 6\), or 1 in its first place, got \(1, 7\)",
        ),
        ({"baselines": (0, 0)}, "baselines must have one entry for each of the 1 inputs, got 2"),
    ],
)
def test_wrong_arguments(net, arguments, message):
    with pytest.raises(ValueError, match=message):
        DiscretizedIntegratedGradients(net, StraightLine()).attribute(torch.ones(1, 6), **{"target": 0, **arguments})


def test_inputs_of_different_batches_are_named():
    dig = DiscretizedIntegratedGradients(lambda x, y: (x**2).sum(1) + y.sum(), StraightLine())
    with pytest.raises(ValueError, match=r"inputs must have the same number of examples.*got \[2, 1\]"):
        dig.attribute((torch.ones(2, 3), torch.ones(1, 3)))


@pytest.mark.parametrize(("inputs", "baselines", "name"), [(1 + 2j, 0.0, "inputs"), (1.0, 2j, "baselines")])
def test_complex_numbers_are_refused(inputs, baselines, name):
    dig = DiscretizedIntegratedGradients(lambda x: (x.abs() ** 2).sum(1), StraightLine())
    with pytest.raises(TypeError, match=f"{name} must be real, got torch.complex64"):
        dig.attribute(torch.tensor([[inputs]]), torch.tensor([[baselines]]))


@pytest.mark.parametrize("arguments", [{"n_steps": 0}, {"method": "greedy"}])
def test_wrong_arguments_of_a_layer(arguments):
    model = Sentences()
    dig = LayerDiscretizedIntegratedGradients(model, model.table, StraightLine())
    with pytest.raises(ValueError, match="n_steps must be|method must be"):
        dig.attribute(torch.tensor([[1]]), target=0, additional_forward_args=torch.ones(1, 1), **arguments)


def test_a_path_must_be_said():
    with pytest.raises(
        TypeError, match=r"path must be a PathGenerator, got str; for example MonotonicPath\(vocabulary\)"
    ):
        DiscretizedIntegratedGradients(nonlinear, "greedy")
    with pytest.raises(ValueError, match="spacing must be one of 'arc', 'knots', got 'even'"):
        DiscretizedIntegratedGradients(nonlinear, StraightLine(), spacing="even")


def test_no_warnings_in_plain_use():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        DiscretizedIntegratedGradients(nonlinear, PATHS[2]).attribute(
            ROWS[None, 3:5], ROWS[None, [0, 0]], internal_batch_size=7
        )


class Stairs(PathGenerator):
    """Ten steps of equal length, the two coordinates taking turns: every share of nodes is a tie."""

    def knots(self, inputs, baselines):
        even = torch.arange(inputs.shape[-1]) % 2 == 0
        shares = [torch.where(even, (i + 1) // 2 / 5, i // 2 / 5) for i in range(11)]
        return torch.stack([baselines, *(torch.lerp(baselines, inputs, s.to(inputs)) for s in shares[1:-1]), inputs])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_ties_between_pieces_do_not_depend_on_the_batch(dtype):
    x = torch.linspace(0.3, 1.7, 9, dtype=dtype)[:, None].repeat(1, 2)
    dig = DiscretizedIntegratedGradients(lambda z: torch.sin(9 * z[:, 0] * z[:, 1]), Stairs())
    alone = torch.cat([dig.attribute(x[i : i + 1], n_steps=19) for i in range(9)])
    torch.testing.assert_close(dig.attribute(x, n_steps=19), alone, rtol=1e-6, atol=1e-6)


def test_lengths_that_overflow_are_named():
    dig = DiscretizedIntegratedGradients(lambda z: z.sum(dim=1), StraightLine())
    with pytest.raises(ValueError, match="inputs and baselines must differ by less than about 1e18"):
        dig.attribute(torch.tensor([[1e20, 2e20]]))


@pytest.mark.parametrize("multiply", [True, False])
def test_attributions_need_no_gradient_where_inputs_do(multiply):
    x = ROWS[None, 3:5].clone().requires_grad_()
    got = DiscretizedIntegratedGradients(nonlinear, PATHS[2], multiply).attribute(
        x, ROWS[None, [0, 0]].clone().requires_grad_()
    )
    assert not got.requires_grad
