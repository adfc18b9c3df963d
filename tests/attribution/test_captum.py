"""What Captum offers around Integrated Gradients works with ours, and with the straight line gives Captum's numbers."""

import copy
import itertools
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from captum.attr import (
    IntegratedGradients,
    LayerIntegratedGradients,
    LLMGradientAttribution,
    NoiseTunnel,
    TextTokenInput,
    TokenReferenceBase,
    configure_interpretable_embedding_layer,
    remove_interpretable_embedding_layer,
    visualization,
)
from captum.concept import TCAV, Classifier, Concept
from captum.metrics import infidelity, infidelity_perturb_func_decorator, sensitivity_max
from tokenizers import processors
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

from captum_dig import (
    DiscretizedIntegratedGradients,
    LayerDiscretizedIntegratedGradients,
    MonotonicPath,
    PathGenerator,
    StaggeredPath,
    StraightLine,
    Vocabulary,
    VocabularyError,
)
from tests.attribution.test_inputs import SAME_RULES, Sentences, padded_batch
from tests.paths.test_base import PATHS, ROWS, path_name
from tests.tiny_models import tiny_tokenizer

try:
    from captum.testing.attr.helpers.test_config import config
except ModuleNotFoundError:  # Captum 0.8 keeps its test cases out of the wheel.
    config = []


class Bend(PathGenerator):
    """Nine knots for inputs of any shape; neighbouring coordinates go at paces of their own."""

    def knots(self, inputs, baselines):
        pace = 1 + torch.arange(inputs.shape[-1], device=inputs.device) % 3
        between = [torch.lerp(baselines, inputs, ((i / 8) ** pace).to(inputs)) for i in range(1, 8)]
        return torch.stack([baselines, *between, inputs])


def monotonic(n_anchors=5, **options):
    return MonotonicPath(Vocabulary(ROWS), n_anchors=n_anchors, n_neighbors=12, **options)


def leaves(result):
    return [leaf for part in result for leaf in leaves(part)] if isinstance(result, (tuple, list)) else [result]


def layout(result):
    if isinstance(result, (tuple, list)):
        return type(result)(layout(part) for part in result)
    return tuple(result.shape), result.dtype


def assert_alike(got, expected, tolerance=3e-6):
    """Same nesting, shapes and dtypes, and numbers that differ by less than a share of the largest."""
    assert layout(got) == layout(expected)
    largest = max(float(leaf.abs().max()) for leaf in leaves(expected))
    for one, other in zip(leaves(got), leaves(expected), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=tolerance * largest)


def as_tuple(value):
    return value if isinstance(value, tuple) else () if value is None else (value,)


# Captum's own test cases ---------------------------------------------------------------------------


def lively(entry):
    """A case whose output depends on its input: the last weights of Captum's image model are all one number."""
    if not hasattr(entry["model"], "fc2"):
        return entry
    model = copy.deepcopy(entry["model"])
    model.fc2.weight = nn.Parameter(torch.linspace(-0.003, 0.003, 80).reshape(10, 8))
    return entry | {"model": model}


ENTRIES = [lively(e) for e in config if {IntegratedGradients, LayerIntegratedGradients} & set(e["algorithms"])]
on_captums_cases = pytest.mark.parametrize("entry", [pytest.param(e, id=e["name"]) for e in ENTRIES])
# Sizes below the batch and lists of layers are part of the cases.
with_captums_warnings = pytest.mark.filterwarnings(
    "ignore:.*nternal.batch.size", "ignore:Multiple layers provided:UserWarning"
)


def captums_and_ours(entry, path, multiply=True):
    """Two methods for a case, each in a NoiseTunnel where the case asks for one."""
    model, names = entry["model"], entry.get("layer")
    if names is None:
        pair = [
            IntegratedGradients(model, multiply),
            DiscretizedIntegratedGradients(model, path, multiply),
        ]
    else:
        several = isinstance(names, list)
        layer = [model.get_submodule(name) for name in names] if several else model.get_submodule(names)
        pair = [
            LayerIntegratedGradients(model, layer, multiply_by_inputs=multiply),
            LayerDiscretizedIntegratedGradients(model, layer, path, multiply_by_inputs=multiply),
        ]
    return [NoiseTunnel(method) for method in pair] if entry.get("noise_tunnel") else pair


def output(entry, inputs):
    """The output that a case explains, shape (B,)."""
    arguments = entry["attribute_args"]
    with torch.no_grad():
        values = entry["model"](*inputs, *as_tuple(arguments.get("additional_forward_args")))
    target = arguments["target"]
    if isinstance(target, torch.Tensor):
        target = target.tolist()
    targets = target if isinstance(target, list) else [target]
    targets = targets * len(values) if len(targets) == 1 else targets
    return torch.stack([values[(i, *as_tuple(t))] for i, t in enumerate(targets)])


def test_there_are_cases_of_every_kind():
    pytest.importorskip("captum.testing.attr.helpers.test_config")
    assert sum("layer" not in entry for entry in ENTRIES) >= 16
    assert sum("layer" in entry for entry in ENTRIES) >= 12
    assert sum(bool(entry.get("noise_tunnel")) for entry in ENTRIES) >= 6


@with_captums_warnings
@pytest.mark.parametrize("multiply", [True, False], ids=["multiplied", "not_multiplied"])
@on_captums_cases
def test_the_straight_line_gives_captums_numbers_on_its_cases(entry, multiply):
    captums, ours = captums_and_ours(entry, StraightLine(), multiply)
    for method in SAME_RULES if multiply else SAME_RULES[:1]:
        arguments = entry["attribute_args"] | {"method": method, "n_steps": 10, "return_convergence_delta": True}
        assert_alike(ours.attribute(**arguments), captums.attribute(**arguments))


@with_captums_warnings
@on_captums_cases
def test_the_trapezoid_is_captums_but_for_the_sum_of_its_weights(entry):
    arguments = entry["attribute_args"] | {"method": "riemann_trapezoid", "n_steps": 20}
    captums, ours = captums_and_ours(entry, StraightLine())
    # Captum's weights add up to 19 / 20, ours to 1.
    expected = rescaled(captums.attribute(**arguments), 20 / 19)
    assert_alike(ours.attribute(**arguments), expected)


def rescaled(result, factor):
    return (
        type(result)(rescaled(part, factor) for part in result)
        if isinstance(result, (tuple, list))
        else result * factor
    )


@with_captums_warnings
@on_captums_cases
def test_a_curve_is_complete_on_captums_cases(entry):
    captums, ours = captums_and_ours(entry, Bend())
    # Twenty copies of every example in a NoiseTunnel are slow.
    n_steps = 50 if entry.get("noise_tunnel") else 100
    arguments = entry["attribute_args"] | {"n_steps": n_steps}
    got = ours.attribute(**arguments)
    assert layout(got) == layout(captums.attribute(**arguments))
    inputs = as_tuple(arguments["inputs"])
    baselines = as_tuple(arguments.get("baselines", tuple(torch.zeros_like(x) for x in inputs)))
    difference = output(entry, inputs) - output(entry, baselines)
    total = sum(leaf.flatten(1).sum(dim=1) for leaf in leaves(got))
    # The models have kinks, so the error falls no faster than 1 / n_steps.
    torch.testing.assert_close(total, difference, rtol=0, atol=5 / n_steps * float(difference.abs().max()))


@pytest.mark.parametrize("entry", [pytest.param(e, id=e["name"]) for e in ENTRIES if e.get("noise_tunnel")])
def test_a_curve_in_a_noise_tunnel_without_noise_is_the_curve_on_captums_cases(entry):
    tunnel = captums_and_ours(entry, Bend())[1]
    arguments = entry["attribute_args"]
    plain = {name: value for name, value in arguments.items() if not name.startswith(("nt_", "stdevs"))}
    assert_alike(tunnel.attribute(**arguments), tunnel.attribution_method.attribute(**plain))


# NoiseTunnel --------------------------------------------------------------------------------------


class FromRows(nn.Module):
    """A classifier of embeddings that has a layer of its own for them."""

    def __init__(self):
        super().__init__()
        self.sentences, self.rows = Sentences(), nn.Identity()

    def forward(self, rows, mask=None):
        mask = torch.ones(rows.shape[:2]) if mask is None else mask
        return self.sentences.read(self.rows(rows), mask)


def few(n_rows=3):
    """Embeddings of short sentences, of their baselines, and masks."""
    ids, mask, _ = padded_batch()
    return ROWS[ids[:n_rows]], ROWS[0].expand(n_rows, 9, 6), mask[:n_rows]


def both_classes(model, path, multiply=True):
    return [
        DiscretizedIntegratedGradients(model, path, multiply),
        LayerDiscretizedIntegratedGradients(model, model.rows, path, multiply_by_inputs=multiply),
    ]


def both_of_captums(model, multiply=True):
    return [
        IntegratedGradients(model, multiply),
        LayerIntegratedGradients(model, model.rows, multiply_by_inputs=multiply),
    ]


@pytest.mark.parametrize("nt_type", ["smoothgrad", "smoothgrad_sq", "vargrad"])
@pytest.mark.parametrize("path", PATHS, ids=path_name)
def test_a_noise_tunnel_without_noise_is_the_plain_call(path, nt_type):
    rows, baselines, mask = few()
    arguments = {"baselines": baselines, "target": [1, 0, 1], "additional_forward_args": mask, "n_steps": 20}
    for method in both_classes(FromRows(), path):
        plain, delta = method.attribute(rows, **arguments, return_convergence_delta=True)
        expected = {"smoothgrad": plain, "smoothgrad_sq": plain**2, "vargrad": torch.zeros_like(plain)}[nt_type]
        got, deltas = NoiseTunnel(method).attribute(
            rows, nt_type, nt_samples=4, stdevs=0.0, **arguments, return_convergence_delta=True
        )
        torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(deltas, delta.repeat_interleave(4), rtol=0, atol=1e-5)


@pytest.mark.parametrize("path", PATHS, ids=path_name)
def test_a_noise_tunnel_is_the_mean_over_noisy_embeddings(path):
    rows, baselines, mask = few()
    model, deviation = FromRows(), 0.05
    noise = torch.normal(0.0, torch.full((12, 9, 6), deviation), generator=torch.Generator().manual_seed(3))
    noisy = rows.repeat_interleave(4, dim=0) + noise
    for method in both_classes(model, path):
        apart = method.attribute(
            noisy, baselines.repeat_interleave(4, dim=0), 1, mask.repeat_interleave(4, dim=0), n_steps=100
        )
        torch.manual_seed(3)
        got, deltas = NoiseTunnel(method).attribute(
            rows, nt_samples=4, stdevs=deviation, baselines=baselines, target=1, additional_forward_args=mask,
            n_steps=100, return_convergence_delta=True
        )  # fmt: skip
        torch.testing.assert_close(got, apart.unflatten(0, (3, 4)).mean(dim=1), rtol=0, atol=1e-6)
        with torch.no_grad():
            differences = model(noisy, mask.repeat_interleave(4, dim=0))[:, 1] - model(baselines, mask)[
                :, 1
            ].repeat_interleave(4)
        torch.testing.assert_close(apart.sum(dim=(1, 2)) - deltas, differences, rtol=0, atol=1e-5)
        assert float(deltas.abs().max()) < 0.02 * float(differences.abs().max())


@pytest.mark.parametrize("multiply", [True, False], ids=["multiplied", "not_multiplied"])
def test_a_straight_line_in_a_noise_tunnel_is_captums(multiply):
    rows, baselines, mask = few()
    model = FromRows()
    for ours, other in zip(
        both_classes(model, StraightLine(), multiply), both_of_captums(model, multiply), strict=True
    ):
        results = []
        for method in (ours, other):
            torch.manual_seed(1)
            results.append(
                NoiseTunnel(method).attribute(
                    rows, "smoothgrad", 5, 2, 0.3, baselines=baselines, target=0, additional_forward_args=mask,
                    return_convergence_delta=True
                )
            )  # fmt: skip
        assert_alike(*results, tolerance=1e-5)
        assert NoiseTunnel(ours).multiplies_by_inputs is multiply


def test_noise_that_leads_away_from_the_vocabulary_is_refused():
    rows, baselines, mask = few()
    for method in both_classes(FromRows(), monotonic()):
        with pytest.raises(VocabularyError, match="inputs must be rows of the vocabulary or lie nearer to one than"):
            NoiseTunnel(method).attribute(
                rows, stdevs=20.0, baselines=baselines, target=1, additional_forward_args=mask
            )


@pytest.mark.parametrize("stdevs", [0.0, 0.1])
def test_token_ids_take_no_noise(stdevs):
    model = Sentences()
    ids, mask, _ = padded_batch()
    # Captum adds its noise to the ids, and the model's embedding layer says what is wrong with the sum.
    for method in (
        LayerIntegratedGradients(model, model.table),
        LayerDiscretizedIntegratedGradients(model, model.table, monotonic()),
    ):
        with pytest.raises(RuntimeError, match="'indices' to have one of the following scalar types: Long, Int"):
            NoiseTunnel(method).attribute(ids, stdevs=stdevs, target=1, additional_forward_args=mask)


# Metrics ------------------------------------------------------------------------------------------


def linear(rows):
    return (rows * torch.linspace(-1, 2, 6)).sum(dim=(1, 2))


def judge(model, attributions, rows, baselines, multiply, **options):
    @infidelity_perturb_func_decorator(multiply)
    def perturb(inputs, baselines):
        return inputs + 0.1 * torch.randn_like(inputs)

    torch.manual_seed(4)
    return infidelity(model, perturb, rows, attributions, baselines=baselines, n_perturb_samples=30, **options)


@pytest.mark.parametrize("multiply", [True, False], ids=["multiplied", "not_multiplied"])
@pytest.mark.parametrize("path", PATHS, ids=path_name)
def test_a_linear_model_has_no_infidelity(path, multiply):
    # No padding: the ratio to a difference of 0 tells nothing.
    rows, baselines = ROWS[torch.arange(1, 13).reshape(3, 4)], ROWS[0].expand(3, 4, 6)
    got = DiscretizedIntegratedGradients(linear, path, multiply).attribute(rows, baselines, n_steps=20)
    values = judge(linear, got, rows, baselines, multiply)
    assert values.shape == (3,)
    assert float(values.max()) < 1e-9
    # What it would be with half of the attribution: a quarter of the mean square of the changes.
    assert float(judge(linear, got / 2, rows, baselines, multiply).min()) > 0.01


@pytest.mark.parametrize("multiply", [True, False], ids=["multiplied", "not_multiplied"])
def test_the_infidelity_of_a_straight_line_is_captums(multiply):
    rows, baselines = ROWS[torch.arange(1, 13).reshape(3, 4)], ROWS[0].expand(3, 4, 6)
    model = FromRows()
    values = [
        judge(model, method.attribute(rows, baselines, 1), rows, baselines, multiply, target=1)
        for method in (*both_of_captums(model, multiply), *both_classes(model, StraightLine(), multiply))
    ]
    assert float(values[0].min()) > 1e-6
    for value in values[1:]:
        torch.testing.assert_close(value, values[0], rtol=1e-4, atol=0)


@pytest.mark.parametrize("multiply", [True, False], ids=["multiplied", "not_multiplied"])
def test_the_sensitivity_of_a_straight_line_is_captums(multiply):
    rows, baselines, mask = few()
    model = FromRows()

    def explain(method):
        def explanation(inputs, **options):
            # Captum asks for a tuple, as it gives one; a layer's scores are shaped as the layer says.
            scores = method.attribute(*inputs, **options)
            return (scores,)

        return explanation

    values = []
    for method in (*both_of_captums(model, multiply), *both_classes(model, StraightLine(), multiply)):
        torch.manual_seed(4)
        options = {"baselines": baselines, "target": 1, "additional_forward_args": mask, "n_steps": 20}
        values.append(sensitivity_max(explain(method), rows, **options))
        if not isinstance(method, LayerIntegratedGradients):
            torch.manual_seed(4)
            values.append(sensitivity_max(method.attribute, rows, **options))
    assert values[0].shape == (3,)
    assert float(values[0].min()) > 1e-3
    for value in values[1:]:
        torch.testing.assert_close(value, values[0], rtol=1e-4, atol=0)


@pytest.mark.parametrize("path", PATHS, ids=path_name)
def test_the_sensitivity_of_a_linear_model_is_that_of_its_inputs(path):
    rows, baselines = ROWS[torch.arange(1, 13).reshape(3, 4)], ROWS[0].expand(3, 4, 6)
    values = []
    for method in (IntegratedGradients(linear), DiscretizedIntegratedGradients(linear, path)):
        torch.manual_seed(4)
        values.append(sensitivity_max(method.attribute, rows, baselines=baselines, n_steps=20))
    torch.testing.assert_close(values[1], values[0], rtol=1e-3, atol=0)


@pytest.mark.parametrize("path", PATHS, ids=path_name)
def test_sensitivity_shrinks_with_the_radius(path):
    rows, baselines, mask = few()
    dig = DiscretizedIntegratedGradients(FromRows(), path)
    values = []
    for radius in (0.0, 1e-4, 1e-2):
        torch.manual_seed(4)
        value = sensitivity_max(
            dig.attribute, rows, perturb_radius=radius, baselines=baselines, target=1, additional_forward_args=mask
        )
        values.append(float(value.max()))
    assert values[0] < 1e-6
    assert values[0] < values[1] < values[2] < 0.5


# Concepts -----------------------------------------------------------------------------------------


class MeansApart(Classifier):
    """The direction from the mean of one concept to that of the other."""

    def __init__(self):
        self.direction = torch.empty(0)

    def train_and_eval(self, dataloader, **_):
        batches = list(dataloader)
        points, labels = (torch.cat(parts) for parts in zip(*batches, strict=True))
        self.direction = points[labels == 1].mean(dim=0) - points[labels == 0].mean(dim=0)

    def weights(self):
        return torch.stack([-self.direction, self.direction])

    def classes(self):
        return [0, 1]


def concepts():
    examples = [torch.randn(12, 9, 6) + shift for shift in (0.0, 0.5)]
    return [Concept(i, f"concept{i}", DataLoader(examples[i], batch_size=4)) for i in range(2)]


@pytest.mark.parametrize("multiply", [True, False], ids=["multiplied", "not_multiplied"])
def test_concept_scores_of_a_straight_line_are_captums(tmp_path, multiply):
    rows, baselines, _ = few(8)
    model, experiment = FromRows(), concepts()

    def scores(method, name, layers):
        # TCAV tells the method its layers, one after the other.
        tcav = TCAV(model, layers, "model", MeansApart(), method, save_path=str(tmp_path / name))
        return tcav.interpret(rows, [experiment], target=1, n_steps=20, baselines=baselines)["0-1"]

    layers = ["rows", "sentences.mix"]
    captums = scores(LayerIntegratedGradients(model, None, multiply_by_inputs=multiply), "captums", layers)
    ours = scores(
        LayerDiscretizedIntegratedGradients(model, None, StraightLine(), multiply_by_inputs=multiply), "ours", layers
    )
    assert ours.keys() == captums.keys() == set(layers)
    for layer in layers:
        for score in ("sign_count", "magnitude"):
            torch.testing.assert_close(ours[layer][score], captums[layer][score], rtol=1e-4, atol=1e-6)
        assert float(captums[layer]["magnitude"].abs().min()) > 1e-4
    words = scores(
        LayerDiscretizedIntegratedGradients(model, None, monotonic(), multiply_by_inputs=multiply), "words", layers[:1]
    )
    # The directions of the two concepts are opposite, whatever the path.
    magnitude = words["rows"]["magnitude"]
    torch.testing.assert_close(magnitude[0], -magnitude[1])
    assert float((magnitude - captums["rows"]["magnitude"]).abs().max()) > 1e-4


# Language models ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def prompter():
    """A tokenizer that puts nothing around a text, as those of language models do."""
    tokenizer = tiny_tokenizer()
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(single="$A")
    return tokenizer


def language_model(family, tokenizer):
    torch.manual_seed(11)
    common = {
        "vocab_size": len(tokenizer), "bos_token_id": 2, "eos_token_id": 3, "pad_token_id": 0, "initializer_range": 0.2
    }  # fmt: skip
    if family == "GPT-2":
        return GPT2LMHeadModel(GPT2Config(**common, n_embd=16, n_layer=2, n_head=2, n_positions=40)).eval()
    return LlamaForCausalLM(
        LlamaConfig(
            **common, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2,
            num_key_value_heads=1, max_position_embeddings=40
        )
    ).eval()  # fmt: skip


def log_probabilities(model, prompt, target):
    """The log-probability of each token of the target, from one call of the model."""
    with torch.no_grad():
        logits = model(torch.cat([prompt, target])[None]).logits[0, len(prompt) - 1 : -1]
    return logits.log_softmax(dim=1).gather(1, target[:, None])[:, 0]


@pytest.mark.parametrize("kind", ["straight", "monotonic", "staggered"])
@pytest.mark.parametrize("family", ["Llama", "GPT-2"])
def test_scores_of_a_prompt_add_up_to_the_change_in_log_probability(prompter, family, kind):
    model = language_model(family, prompter)
    table = model.get_input_embeddings()
    paths = {
        "straight": StraightLine(),
        "monotonic": MonotonicPath(Vocabulary.from_layer(table), n_anchors=6, n_neighbors=20),
        "staggered": StaggeredPath(StraightLine(), n_orders=2),
    }
    layer = LayerDiscretizedIntegratedGradients(model, table, paths[kind])
    prompt = TextTokenInput(
        "[CLS] the plot was slow but the music [SEP]", prompter, baselines="[MASK]", skip_tokens=["[CLS]", "[SEP]"]
    )
    options = {"n_steps": 150, "internal_batch_size": 64}
    got = LLMGradientAttribution(layer, prompter).attribute(prompt, target="is very lovely", **options)

    ids = prompt.inp_tensor[0]
    words = prompt.itp_mask[0]
    assert words.sum() == 7 == len(ids) - 2
    target = torch.tensor(prompter.encode("is very lovely"))
    masked = torch.where(words, prompter.mask_token_id, ids)
    differences = log_probabilities(model, ids, target) - log_probabilities(model, masked, target)
    assert got.input_tokens == ["the", "plot", "was", "slow", "but", "the", "music"]
    assert got.token_attr.shape == (3, 7)
    assert float(differences.abs().min()) > 0.01
    torch.testing.assert_close(got.token_attr.sum(dim=1), differences, rtol=0.01, atol=0)
    torch.testing.assert_close(got.seq_attr.sum(), differences.sum(), rtol=0.01, atol=0)

    captums = LLMGradientAttribution(LayerIntegratedGradients(model, table), prompter)
    other = captums.attribute(prompt, target="is very lovely", **options)
    distance = float((got.token_attr - other.token_attr).norm() / other.token_attr.norm())
    assert distance < 1e-5 if kind == "straight" else distance > 0.01


def test_language_models_may_share_a_method(prompter):
    model = language_model("GPT-2", prompter)
    table = model.get_input_embeddings()
    layer = LayerDiscretizedIntegratedGradients(
        model, table, MonotonicPath(Vocabulary.from_layer(table), n_anchors=6, n_neighbors=20)
    )
    one, other = (LLMGradientAttribution(layer, prompter) for _ in range(2))
    assert layer.forward_func is model
    prompts = [TextTokenInput(text, prompter) for text in ("a slow movie", "the music was very lovely")]
    first = one.attribute(prompts[0], target="so dull", n_steps=20).token_attr
    other.attribute(prompts[1], target="never", n_steps=3)
    one.attribute(prompts[1], target=torch.tensor([30, 31, 32]), n_steps=3)
    for method in (one, other):
        assert torch.equal(method.attribute(prompts[0], target="so dull", n_steps=20).token_attr, first)


# Tools around a model -----------------------------------------------------------------------------


@pytest.mark.parametrize("path", PATHS, ids=path_name)
def test_batches_of_a_data_loader_are_the_whole(path):
    model = Sentences()
    ids, mask, _ = padded_batch()
    targets = torch.arange(16) % 2
    dig = LayerDiscretizedIntegratedGradients(model, model.table, path)
    whole = dig.attribute(ids, None, targets, mask, return_convergence_delta=True)
    loader = DataLoader(TensorDataset(ids, targets, mask), batch_size=5)
    parts = [dig.attribute(i, None, t, m, return_convergence_delta=True) for i, t, m in loader]
    assert [len(scores) for scores, _ in parts] == [5, 5, 5, 1]
    together = tuple(torch.cat(column) for column in zip(*parts, strict=True))
    assert_alike(together, whole, 1e-5)


# Captum reminds of taking the wrapper off, which is done below.
@pytest.mark.filterwarnings("ignore:In order to make embedding layers more interpretable:UserWarning")
@pytest.mark.parametrize("wrapped_first", [True, False])
def test_a_wrapped_embedding_layer_gives_the_numbers_of_the_layer_class(wrapped_first):
    model = Sentences()
    ids, mask, _ = padded_batch()
    table, baseline = model.table, torch.zeros_like(ids)

    def with_layer():
        path = MonotonicPath(Vocabulary.from_layer(model.table), n_anchors=5, n_neighbors=12)
        return LayerDiscretizedIntegratedGradients(model, model.table, path).attribute(ids, baseline, 1, mask)

    def with_wrapper():
        wrapper = configure_interpretable_embedding_layer(model, "table")
        path = MonotonicPath(Vocabulary.from_layer(wrapper), n_anchors=5, n_neighbors=12)
        rows, starts = wrapper.indices_to_embeddings(ids), wrapper.indices_to_embeddings(baseline)
        scores = DiscretizedIntegratedGradients(model, path).attribute(rows, starts, 1, mask)
        remove_interpretable_embedding_layer(model, wrapper)
        return scores

    calls = (with_wrapper, with_layer) if wrapped_first else (with_layer, with_wrapper)
    one, other = (call() for call in calls)
    assert model.table is table
    torch.testing.assert_close(one, other, rtol=0, atol=1e-6)


def test_a_token_reference_is_a_baseline():
    model = Sentences()
    ids, mask, _ = padded_batch()
    reference = TokenReferenceBase(reference_token_idx=7).generate_reference(9, device=torch.device("cpu"))
    dig = LayerDiscretizedIntegratedGradients(model, model.table, monotonic())
    got, delta = dig.attribute(ids, reference[None], 1, mask, n_steps=200, return_convergence_delta=True)
    assert torch.equal(got, dig.attribute(ids, torch.full_like(ids, 7), 1, mask, n_steps=200))
    with torch.no_grad():
        differences = model(ids, mask)[:, 1] - model(torch.full_like(ids, 7), mask)[:, 1]
    torch.testing.assert_close(got.sum(dim=(1, 2)) - delta, differences, rtol=0, atol=1e-5)
    assert float(delta.abs().max()) < 0.02 * float(differences.abs().max())


def test_captum_draws_our_scores(tokenizer, classifier, capsys):
    pytest.importorskip("IPython")
    table = classifier.get_input_embeddings()
    path = MonotonicPath(Vocabulary.from_layer(table), n_anchors=5, n_neighbors=12)
    dig = LayerDiscretizedIntegratedGradients(lambda ids: classifier(ids).logits, table, path)
    encoded = tokenizer("a gorgeous, witty movie", return_tensors="pt").input_ids
    scores, delta = dig.attribute(
        encoded, torch.full_like(encoded, tokenizer.pad_token_id), 1, n_steps=50, return_convergence_delta=True
    )
    scores = scores.sum(dim=-1)[0]
    scores = scores / scores.abs().max()
    with torch.no_grad():
        probability = classifier(encoded).logits.softmax(dim=1)[0, 1]
    words = tokenizer.convert_ids_to_tokens(encoded[0].tolist())
    record = visualization.VisualizationDataRecord(
        scores, float(probability), 1, 1, 1, float(scores.sum()), words, float(delta)
    )
    page = visualization.visualize_text([record]).data
    assert "HTML" in capsys.readouterr().out
    assert f"1 ({float(probability):.2f})" in page
    assert f"<b>{float(scores.sum()):.2f}</b>" in page
    cell = visualization.format_word_importances(words, scores)
    assert cell in page
    marks = cell.split("<mark")[1:]
    assert len(marks) == len(words) == 7
    for word, score, mark in zip(words, scores.tolist(), marks, strict=True):
        assert f"> {word} " in mark
        lightness = 100 - int(50 * score) if score > 0 else 100 - int(-40 * score)
        assert f"hsl({120 if score > 0 else 0}, 75%, {lightness}%)" in mark
    assert visualization.format_word_importances(words, scores.tolist()) == cell


# Baselines, order, threads ------------------------------------------------------------------------


FORMS = {
    "none": (None, torch.zeros(3, 4, 6)),
    "number": (0.25, torch.full((3, 4, 6), 0.25)),
    "integer": (1, torch.ones(3, 4, 6)),
    "one_row": (ROWS[None, :4], ROWS[None, :4].expand(3, 4, 6)),
    "every_row": (ROWS[12:24].reshape(3, 4, 6), ROWS[12:24].reshape(3, 4, 6)),
    "some_agree": (ROWS[[0, 1, 20, 21, 4, 22, 6, 7, 8, 9, 10, 23]].reshape(3, 4, 6),) * 2,
    "all_agree": (ROWS[:12].reshape(3, 4, 6),) * 2,
}


def of_two(x, y):
    return torch.tanh(x * y).sum(dim=(1, 2)) + torch.sin(x).sum(dim=(1, 2))


@pytest.mark.parametrize("multiply", [True, False], ids=["multiplied", "not_multiplied"])
@pytest.mark.parametrize("form", FORMS)
def test_baselines_in_every_form(form, multiply):
    x = ROWS[:12].reshape(3, 4, 6)
    given, written_out = FORMS[form]

    def total(rows):
        return of_two(rows, rows.roll(1, dims=2))

    curved = DiscretizedIntegratedGradients(total, Bend(), multiply)
    got = curved.attribute(x, given)
    assert bool(got.isfinite().all())
    assert torch.equal(got, curved.attribute(x, written_out))
    straight = DiscretizedIntegratedGradients(total, StraightLine(), multiply).attribute(x, given)
    # Where input and baseline agree, and nothing is multiplied, Captum's mean gradient is ours too.
    torch.testing.assert_close(straight, IntegratedGradients(total, multiply).attribute(x, given), rtol=0, atol=1e-5)
    if multiply:
        assert not got[written_out == x].any()
    assert (float((got - straight).abs().max()) > 0.01) == (form != "all_agree")


@pytest.mark.parametrize("forms", list(itertools.product(["number", "one_row", "every_row"], repeat=2)), ids="-".join)
def test_baselines_of_two_inputs_in_forms_of_their_own(forms):
    inputs = (ROWS[24:36].reshape(3, 4, 6), ROWS[36:48].reshape(3, 4, 6))
    given, written_out = zip(*(FORMS[form] for form in forms), strict=True)
    dig = DiscretizedIntegratedGradients(of_two, Bend())
    got = dig.attribute(inputs, given, n_steps=300)
    assert all(map(torch.equal, got, dig.attribute(inputs, written_out, n_steps=300)))
    torch.testing.assert_close(
        sum(scores.sum(dim=(1, 2)) for scores in got), of_two(*inputs) - of_two(*written_out), rtol=0, atol=0.01
    )


@pytest.mark.parametrize("path", PATHS, ids=path_name)
def test_baselines_of_a_layer_in_every_form(path):
    model = Sentences()
    ids, mask, _ = padded_batch()
    dig = LayerDiscretizedIntegratedGradients(model, model.table, path)
    for given, written_out in (
        (None, torch.zeros_like(ids)),
        (5, torch.full_like(ids, 5)),
        (torch.arange(9)[None], torch.arange(9).expand(16, 9)),
        (ids.flip(0), ids.flip(0)),
        (ids, ids),
    ):
        got = dig.attribute(ids, given, 1, mask, n_steps=20)
        assert bool(got.isfinite().all())
        assert torch.equal(got, dig.attribute(ids, written_out, 1, mask, n_steps=20))
        assert bool(got.any()) == (given is not ids)


STRATEGIES = ["greedy", "maxcount", "random_neighbor", "random_anchor"]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_earlier_calls_change_nothing(strategy):
    model = Sentences()
    ids, mask, _ = padded_batch()

    def explain(path, rows):
        dig = LayerDiscretizedIntegratedGradients(model, model.table, path)
        return dig.attribute(ids[rows], 0, 1, mask[rows], n_steps=20)

    used = monotonic(strategy=strategy, seed=2)
    first = [explain(used, slice(i, i + 4)) for i in (12, 4, 0, 8)]
    dig = LayerDiscretizedIntegratedGradients(model, model.table, used)
    for baseline in range(20):
        # More baselines than a path remembers.
        dig.attribute(ids[:2], baseline, 0, mask[:2], n_steps=3, method="riemann_left")
    again = [explain(used, slice(i, i + 4)) for i in (12, 4, 0, 8)]
    fresh = [explain(monotonic(strategy=strategy, seed=2), slice(i, i + 4)) for i in (12, 4, 0, 8)]
    assert all(map(torch.equal, first, again))
    assert all(map(torch.equal, first, fresh))


def in_two_threads(work, n_items):
    """Results of work(thread, item), the items in another order in each of two threads that start together."""
    start = threading.Barrier(2)

    def run(thread):
        start.wait(timeout=10)
        items = range(n_items) if thread == 0 else reversed(range(n_items))
        return {item: work(thread, item) for item in items}

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(run, range(2)))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_two_threads_with_one_path_agree_with_one(strategy):
    model = Sentences()
    ids, mask, _ = padded_batch()

    def explain(dig, item):
        row = slice(item, item + 1)
        return dig.attribute(ids[row], item % 3, 1, mask[row], n_steps=20)

    shared = monotonic(strategy=strategy, seed=2)
    # Captum hooks into the layer while it works, so that each thread needs a model of its own.
    models = [copy.deepcopy(model) for _ in range(2)]
    digs = [LayerDiscretizedIntegratedGradients(m, m.table, shared) for m in models]
    alone = LayerDiscretizedIntegratedGradients(model, model.table, monotonic(strategy=strategy, seed=2))
    expected = [explain(alone, item) for item in range(16)]
    for results in in_two_threads(lambda thread, item: explain(digs[thread], item), 16):
        assert all(torch.equal(results[item], expected[item]) for item in range(16))


def test_two_threads_share_one_method_over_embeddings():
    model = Sentences()
    ids, mask, _ = padded_batch()

    def explain(dig, item):
        row = slice(item, item + 1)
        return dig.attribute(ROWS[ids[row]], ROWS[item % 3].expand(1, 9, 6), 1, mask[row], n_steps=20)

    alone = DiscretizedIntegratedGradients(model.read, monotonic())
    expected = [explain(alone, item) for item in range(16)]
    shared = DiscretizedIntegratedGradients(model.read, monotonic())
    for results in in_two_threads(lambda _, item: explain(shared, item), 16):
        assert all(torch.equal(results[item], expected[item]) for item in range(16))
