"""Known sums: the outputs at the nodes say what the attributions between them add up to."""

import io
import json
from dataclasses import replace

import pytest
import torch
from captum.attr import LayerIntegratedGradients, LLMGradientAttribution, TextTokenInput
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from tokenizers import processors
from torch import nn

from captum_dig import (
    DiscretizedIntegratedGradients,
    EnsemblePath,
    LayerDiscretizedIntegratedGradients,
    MonotonicPath,
    NeuronDiscretizedIntegratedGradients,
    PathPerInput,
    StaggeredPath,
    StraightLine,
    TextAttribution,
    TextExplainer,
    Vocabulary,
)
from captum_dig.visualization import plain_text, terminal_text
from tests.tiny_models import tiny_tokenizer

ROWS = torch.randn(60, 6, generator=torch.Generator().manual_seed(3))
WORDS = MonotonicPath(Vocabulary(ROWS), n_anchors=5, n_neighbors=12)
X, BASE = ROWS[torch.arange(1, 13).reshape(3, 4)], ROWS[0].expand(3, 4, 6)
PATHS = [
    StraightLine(),
    WORDS,
    StaggeredPath(StraightLine(), n_orders=4),
    StaggeredPath(WORDS, n_orders=6),
    StaggeredPath(WORDS, n_orders=4, inner_share=0.5),
    EnsemblePath([StraightLine(), StaggeredPath(StraightLine(), 0, n_orders=3, antithetic=False)]),
]
RULES = ["known_sums", "adaptive"]
MIX = torch.randn(6, 6, generator=torch.Generator().manual_seed(4))


def curved(x):
    return torch.tanh(x @ MIX.to(x.dtype)).prod(dim=-1).sum(dim=1) + (x.sum(dim=-1).sin().prod(dim=1))


def known(function, path, x=X, base=BASE, *, multiply=True, rule="known_sums", **options):
    dig = DiscretizedIntegratedGradients(function, path, multiply_by_inputs=multiply)
    return dig.attribute(x, base, method=rule, **options)


@pytest.mark.parametrize("rule", RULES)
@settings(max_examples=60)
@given(
    st.integers(0, 10**6),
    st.sampled_from(range(len(PATHS))),
    st.integers(8, 40),
    st.sampled_from([None, 3, 7]),
    st.booleans(),
)
def test_attributions_add_up_to_the_change_of_the_output(rule, seed, which, n_steps, internal_batch_size, kinked):
    draw = torch.Generator().manual_seed(seed)
    one, two = torch.randn(6, 8, generator=draw), torch.randn(8, generator=draw)

    def model(x):
        hidden = (x @ one).relu() if kinked else torch.tanh(x @ one)
        return (hidden.sum(dim=1) ** 2) @ two

    options = {"rule": rule, "n_steps": n_steps, "internal_batch_size": internal_batch_size}
    got, delta = known(model, PATHS[which], return_convergence_delta=True, **options)
    size = (model(X) - model(BASE)).abs() + got.flatten(1).abs().sum(dim=1)
    assert (delta.abs() <= 1e-5 * size).all()


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("path", PATHS, ids=repr)
@pytest.mark.parametrize("multiply", [True, False])
def test_a_linear_model_keeps_its_exact_attribution(path, multiply, rule):
    weight = torch.linspace(-1, 2, 6)
    got = known(lambda x: (x * weight).sum(dim=(1, 2)), path, n_steps=9, multiply=multiply, rule=rule)
    torch.testing.assert_close(got, (weight * (X - BASE if multiply else torch.ones_like(X))), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("path", PATHS, ids=repr)
def test_it_tends_to_the_integral_and_does_not_depend_on_the_batch(path):
    exact = DiscretizedIntegratedGradients(curved, path).attribute(X, BASE, n_steps=1200)
    errors = [float((known(curved, path, n_steps=n) - exact).norm() / exact.norm()) for n in (24, 240)]
    assert errors[1] < 0.02
    assert errors[1] < errors[0] < 0.5
    got = known(curved, path, n_steps=24)
    for some in (slice(0, 1), slice(1, 3)):
        torch.testing.assert_close(
            known(curved, path, X[some], BASE[some], n_steps=24), got[some], rtol=1e-4, atol=1e-5
        )
    for internal_batch_size in (3, 9, 50):
        blocks = known(curved, path, n_steps=24, internal_batch_size=internal_batch_size)
        torch.testing.assert_close(blocks, got, rtol=1e-4, atol=1e-5)


def test_what_does_not_move_gets_exactly_nothing_and_a_lone_word_gets_everything():
    x = X.clone()
    x[:, 1:] = BASE[:, 1:]
    for path in PATHS:
        got = known(curved, path, x, n_steps=12)
        assert not got[:, 1:].any()
        torch.testing.assert_close(got[:, 0].sum(dim=-1), curved(x) - curved(BASE), rtol=1e-4, atol=1e-5)
    assert not known(curved, PATHS[2], BASE, n_steps=12).any()


def test_gradients_of_zero_share_by_displacement():
    # A step between two nodes: no gradient sees it.
    def step(x):
        return (x.sum(dim=(1, 2)) > 0.55).to(x.dtype) + 0 * x.sum(dim=(1, 2))

    got = known(step, StraightLine(), torch.tensor([[[0.75, 0.25]]]), torch.zeros(1, 1, 2), n_steps=4)
    torch.testing.assert_close(got, torch.tensor([[[0.75, 0.25]]]))


def test_contributions_that_cancel_blow_nothing_up():
    def cancels(x):
        return 1e6 * (x[:, 0, 0] - x[:, 0, 1]) + x[:, 0, 2] ** 3

    x = torch.tensor([[[1.0, 1.0, 1.0]]], dtype=torch.float64)
    got = known(cancels, StraightLine(), x, torch.zeros_like(x), n_steps=6)
    assert float(got.sum()) == pytest.approx(1, abs=1e-6)
    torch.testing.assert_close(got[0, 0, :2], torch.tensor([1e6, -1e6], dtype=torch.float64), rtol=1e-5, atol=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision(dtype):
    model = nn.Sequential(nn.Flatten(), nn.Linear(24, 5), nn.Tanh(), nn.Linear(5, 3)).to(dtype)
    dig = DiscretizedIntegratedGradients(model, StaggeredPath(StraightLine()))
    got = dig.attribute(X.to(dtype), BASE.to(dtype), target=[0, 2, 1], method="known_sums", n_steps=16)
    assert got.dtype == torch.float32
    change = (model(X.to(dtype)) - model(BASE.to(dtype)))[torch.arange(3), [0, 2, 1]].float()
    torch.testing.assert_close(got.sum(dim=(1, 2)), change, rtol=1e-3, atol=1e-3)


def test_tuples_targets_and_further_arguments():
    def model(x, y, scale):
        hidden = torch.tanh(x.sum(dim=1)) * y.sum(dim=1, keepdim=True)
        return hidden[:, :3] * scale[:, None]

    y, scale = torch.rand(3, 5), torch.tensor([1.0, 2.0, 3.0])
    path = StaggeredPath(PathPerInput(WORDS, StraightLine()), n_orders=2)
    for target in (1, [0, 1, 2], torch.tensor([2, 2, 0])):
        dig = DiscretizedIntegratedGradients(model, path)
        options = {"n_steps": 10, "internal_batch_size": 6, "return_convergence_delta": True}
        parts, delta = dig.attribute((X, y), (BASE, 0), target, scale, method="known_sums", **options)
        assert [part.shape for part in parts] == [X.shape, y.shape]
        assert float(delta.abs().max()) < 1e-4


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.places = nn.Embedding(60, 6, _weight=ROWS.clone()), nn.Embedding(9, 6)
        self.mix, self.head = nn.Linear(6, 5), nn.Linear(5, 2)

    def forward(self, ids, positions=None):
        vectors = self.table(ids) if positions is None else self.table(ids) + self.places(positions)
        return self.head(torch.tanh(self.mix(vectors)).sum(dim=1))


@pytest.mark.filterwarnings("ignore:Multiple layers provided")
def test_layers():
    torch.manual_seed(0)
    model = Reader()
    ids, base = torch.tensor([[1, 2, 3], [4, 5, 0]]), torch.zeros(2, 3, dtype=torch.int64)
    for path in PATHS:
        dig = LayerDiscretizedIntegratedGradients(model, model.table, path)
        options = {"n_steps": 9, "method": "known_sums", "return_convergence_delta": True}
        got, delta = dig.attribute(ids, base, torch.tensor([0, 1]), internal_batch_size=4, **options)
        assert got.shape == (2, 3, 6)
        assert float(delta.abs().max()) < 1e-5
        again, _ = dig.attribute(ids, base, torch.tensor([0, 1]), **options)
        torch.testing.assert_close(got, again, rtol=1e-4, atol=1e-6)
    positions = torch.arange(3).expand(2, 3)
    dig = LayerDiscretizedIntegratedGradients(model, [model.table, model.places], [WORDS, StraightLine()])
    _, delta = dig.attribute((ids, positions), (base, base), 1, **options)
    assert float(delta.abs().max()) < 1e-5


@pytest.mark.parametrize(
    "selector", [2, (1,), (slice(0, 3),), lambda output: output.sum(dim=1)], ids=["one", "tuple", "slice", "function"]
)
def test_neurons(selector):
    torch.manual_seed(0)
    layer = nn.Linear(24, 5)
    model = nn.Sequential(nn.Flatten(), layer, nn.Tanh(), nn.Linear(5, 2))
    tanh = model[2]
    dig = NeuronDiscretizedIntegratedGradients(model, tanh, StaggeredPath(StraightLine()))
    got = dig.attribute(X, selector, BASE, method="known_sums", n_steps=8)

    def activation(x):
        output = torch.tanh(layer(x.flatten(1)))
        if callable(selector):
            return selector(output)
        chosen = output[(slice(None), *(selector if isinstance(selector, tuple) else (selector,)))]
        return chosen if chosen.dim() == 1 else chosen.sum(dim=1)

    torch.testing.assert_close(got.sum(dim=(1, 2)), activation(X) - activation(BASE), rtol=1e-4, atol=1e-5)


def test_language_models():
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    tokenizer = tiny_tokenizer()
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(single="$A")
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=len(tokenizer), **sizes)).eval()
    method = LayerDiscretizedIntegratedGradients(model, model.get_input_embeddings(), StaggeredPath(StraightLine()))
    prompt = TextTokenInput("the plot was slow", tokenizer)
    options = {"target": "very lovely", "n_steps": 60}
    one, other = (
        LLMGradientAttribution(method, tokenizer).attribute(prompt, method=rule, **options).token_attr
        for rule in ("known_sums", "gausslegendre")
    )
    torch.testing.assert_close(one, other, rtol=0.05, atol=2e-3)


def test_the_estimate_is_about_the_error():
    path = StaggeredPath(StraightLine(), n_orders=4)
    dig = DiscretizedIntegratedGradients(curved, path)
    x = torch.randn(40, 4, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    exact = dig.attribute(x, BASE[:1], n_steps=2000)
    for n_steps in (32, 96):
        found = dig.integrate(x, BASE[:1], n_steps=n_steps)
        got = found.attributions
        assert torch.equal(got, known(curved, path, x, BASE[:1], n_steps=n_steps))
        true = 100 * (got - exact).sum(dim=2).abs().sum(dim=1) / exact.sum(dim=2).abs().sum(dim=1)
        assert (true < 2 * found.error_percent).float().mean() >= 0.9
        assert (true > found.error_percent / 30).float().mean() >= 0.9
    linear = DiscretizedIntegratedGradients(lambda x: x.sum(dim=(1, 2)), path)
    assert float(linear.integrate(X, BASE, n_steps=4).error_percent.max()) < 1e-3
    assert linear.integrate(BASE, BASE, n_steps=4).error_percent.tolist() == [0, 0, 0]


@pytest.fixture(scope="module")
def explainer():
    return TextExplainer.demo()


TEXT = "A gorgeous, witty film, but much too long for what it says."


def test_texts_say_how_large_the_error_is(explainer):
    result = explainer.explain(TEXT, method="known_sums", n_steps=24)
    assert result.delta_percent < 1e-3
    assert result.settings.method == "known_sums"
    assert 0 < result.error_percent < 100
    assert "Error" in str(result)
    assert "Delta" not in str(result)
    assert TextAttribution.from_dict(json.loads(json.dumps(result.to_dict()))) == result
    plain = explainer.explain(TEXT, n_steps=24, method="gausslegendre")
    assert plain.error_percent is None
    assert "error_percent" not in plain.to_dict()


def test_auto_goes_by_the_estimate(explainer):
    results = {
        tolerance: explainer.explain(TEXT, strategy="greedy", tolerance_percent=tolerance, max_steps=800)
        for tolerance in (50.0, 0.5)
    }
    assert results[50.0].settings.n_steps == 24
    assert results[0.5].settings.n_steps > 24
    assert explainer.explain(TEXT, tolerance_percent=200.0, spread_percent=200.0).settings.n_steps == 48
    restarting = explainer.explain(TEXT, strategy="greedy", method="gausslegendre", tolerance_percent=200.0)
    assert restarting.settings.n_steps == 48
    assert results[0.5].error_percent <= 0.5 or results[0.5].settings.n_steps == 800


def test_several_baselines_and_windows(explainer):
    several = explainer.explain([TEXT, "Dull."], method="known_sums", n_steps=24, baseline=("pad", "mask"))
    assert all(result.delta_percent < 1e-3 and result.error_percent > 0 for result in several)


def test_no_gradient_and_few_outputs_more_than_the_steps():
    rows = []

    def counted(x):
        rows.append(len(x))
        return curved(x)

    together = known(counted, StaggeredPath(StraightLine(), seed=0), n_steps=14)
    # Both ends at once, whose gradients count, and the nodes of all paths.
    assert rows == [6, 36]
    rows.clear()
    few = known(counted, StaggeredPath(StraightLine(), seed=0), n_steps=14, internal_batch_size=4)
    assert rows[:2] == [3, 3]
    assert max(rows) == 3
    torch.testing.assert_close(few, together)


@pytest.mark.parametrize("rule", RULES)
def test_one_step_takes_no_more_rows_at_once_than_there_are_examples(rule):
    def fixed(x):
        if len(x) > len(X):
            raise ValueError("too many rows")
        return curved(x)

    path = StaggeredPath(StraightLine(), n_orders=1, antithetic=False)
    scores = known(fixed, path, n_steps=1, rule=rule)
    torch.testing.assert_close(scores.flatten(1).sum(dim=1), curved(X) - curved(BASE))


def test_a_gradient_function_without_outputs_is_refused():
    model = Reader()
    captums = LayerIntegratedGradients(model, model.table)
    captums.ig = DiscretizedIntegratedGradients(model, StraightLine())
    captums.ig._rule = None
    ids = torch.tensor([[1, 2, 3]])
    with pytest.raises(AssertionError, match="Approximation method must be one"):
        captums.attribute(ids, target=0, method="known_sums")
    dig = DiscretizedIntegratedGradients(model, StraightLine())
    dig.gradient_func = lambda forward_fn, inputs, target_ind, additional_forward_args: inputs
    with pytest.raises(
        ValueError, match="method='known_sums' must see the outputs of the model, got a gradient function"
    ):
        dig.attribute(torch.ones(1, 2), method="known_sums")


def test_pictures_show_the_spread_and_mark_words_whose_sign_is_not_settled(explainer):
    result = explainer.explain("Not a bad film at all, but the ending is too long and rather dull.", n_steps=48)
    settled = [abs(s) >= 2 * e for s, e in zip(result.word_scores, result.word_errors, strict=True)]
    assert 0 < sum(settled) < len(settled)
    picture = result.to_picture()
    assert [word.settled for word in picture.words] == settled
    assert [word.error for word in picture.words] == list(result.word_errors)
    page = result.to_html()
    assert page.count('cdig-open"') == len(settled) - sum(settled)
    assert page.count("the sign is not settled") == len(settled) - sum(settled)
    assert page.count("The sign is not settled") == 1
    assert page.count("± its error, from the orders") == 1
    text = plain_text(picture, top=len(settled))
    shown = [word for word in picture.words if picture.scale.strength(word.score) >= 0.05]
    assert text.count(" ?\n") == sum(not word.settled for word in shown)
    assert f"{picture.scale.show(result.word_scores[0], result.word_errors[0])} " in text
    assert "? The sign is not settled" in text
    assert "+-" in ascii_lines(picture)
    few = explainer.explain(TEXT, n_steps=12)
    assert few.word_errors is None
    assert few.spread_percent is None
    assert "±" not in str(few)
    with pytest.raises(ValueError, match="word_errors must be as long as word_offsets, 17, got 1"):
        replace(result, word_errors=(0.5,))


def ascii_lines(picture):
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii", errors="strict")
    Console(file=stream, width=80, color_system=None).print(terminal_text(picture))
    stream.seek(0)
    return stream.read()


@pytest.mark.parametrize("rule", ["known_sums", "adaptive", "gausslegendre"])
def test_every_path_needs_a_gradient(rule):
    dig = DiscretizedIntegratedGradients(curved, StaggeredPath(StraightLine(), n_orders=4))
    for n_steps in (1, 2, 3):
        message = f"n_steps must be at least 4, one for each path of the ensemble, got {n_steps}; take more steps"
        with pytest.raises(ValueError, match=message):
            dig.attribute(X, BASE, n_steps=n_steps, method=rule)
