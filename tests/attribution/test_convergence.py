import re

import pytest
import torch
import transformers
from captum.attr import DeepLift, IntegratedGradients, LayerIntegratedGradients
from torch import nn

from captum_dig import (
    ConvergenceReport,
    DiscretizedIntegratedGradients,
    LayerDiscretizedIntegratedGradients,
    ModelError,
    MonotonicPath,
    StraightLine,
    Vocabulary,
    convergence_report,
)
from tests.models.test_model import build
from tests.tiny_models import tiny_classifier


class Sentences(nn.Module):
    """A classifier that may derive things from its ids."""

    def __init__(self, problem="none"):
        super().__init__()
        self.problem = problem
        self.words = nn.Embedding(20, 6)
        self.places = nn.Embedding(9, 6)
        self.mix = nn.Linear(6, 6)
        self.weigh = nn.Softmax(dim=1)
        self.noise = nn.Dropout(0.5)
        self.head = nn.Linear(6, 2)

    def forward(self, ids, mask=None):
        hidden = self.words(ids)
        places = torch.arange(ids.shape[1]).expand_as(ids)
        hidden = hidden + self.places(places * (ids > 0) if self.problem == "positions" else places)
        if self.problem == "twice":
            hidden = hidden + self.words(ids.flip(1))
        hidden = torch.tanh(self.mix(hidden))
        scores = hidden.sum(dim=-1)
        if self.problem == "mask":
            scores = scores.masked_fill(ids == 0, -1e4)
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -1e4)
        hidden = self.noise(hidden * self.weigh(scores)[..., None])
        if self.problem == "pooled":
            return self.head(hidden[torch.arange(len(ids)), (ids > 0).sum(dim=1).clamp(min=1) - 1])
        return self.head(hidden.sum(dim=1))


IDS, BASELINES = torch.tensor([[3, 4, 5, 6], [7, 8, 9, 2]]), torch.tensor([[3, 0, 0, 0], [7, 0, 0, 2]])


def report_on(model, layer=None, path=None, **arguments):
    dig = LayerDiscretizedIntegratedGradients(model, model.words if layer is None else layer, path or StraightLine())
    return convergence_report(dig, IDS, BASELINES, target=1, **{"n_steps": 200, **arguments})


@pytest.mark.parametrize("method", [LayerIntegratedGradients, LayerDiscretizedIntegratedGradients])
def test_the_parts_add_up_to_captums_delta(method):
    model = Sentences("positions").eval()
    more = {} if method is LayerIntegratedGradients else {"path": StraightLine()}
    algorithm = method(model, model.words, **more)
    _, delta = algorithm.attribute(IDS, BASELINES, target=1, n_steps=5, return_convergence_delta=True)
    report = convergence_report(algorithm, IDS, BASELINES, target=1, n_steps=5)
    assert report.delta == pytest.approx(delta.tolist(), abs=1e-6)
    with torch.no_grad():
        change = (model(IDS) - model(BASELINES))[:, 1].tolist()
    assert report.output_change == pytest.approx(change, abs=1e-6)
    assert report.delta_percent == pytest.approx(
        [100 * abs(d / c) for d, c in zip(delta.tolist(), change, strict=True)], rel=1e-3
    )


@pytest.mark.parametrize("path", ["straight", "words"])
def test_a_sound_call_has_no_mismatch(path):
    model = Sentences().eval()
    vocabulary = Vocabulary(model.words.weight)
    report = report_on(
        model, path=StraightLine() if path == "straight" else MonotonicPath(vocabulary, n_anchors=3, n_neighbors=9)
    )
    assert report.endpoint_mismatch == (0.0, 0.0)
    assert report.converged
    assert report.source is None
    assert report.remedy is None


def test_too_few_steps_are_told_from_a_wrong_start():
    few, many = (report_on(Sentences().eval(), method="riemann_left", n_steps=n) for n in (2, 400))
    assert few.endpoint_mismatch == many.endpoint_mismatch == (0.0, 0.0)
    assert max(map(abs, many.quadrature_error)) < 0.1 * max(map(abs, few.quadrature_error))
    assert "raise n_steps above 2" in few.remedy


PROBLEMS = {
    "positions": ("places looks up other rows", "position_ids"),
    "mask": (
        "weigh is the first module whose output depends on the ids themselves.*a mask",
        "attention mask explicitly",
    ),
    "pooled": (
        "head is the first module whose output depends on the ids themselves.*the position that is pooled",
        "leaves the pooled position",
    ),
}


@pytest.mark.parametrize("problem", PROBLEMS)
def test_what_the_model_derives_from_ids_is_named(problem):
    source, remedy = PROBLEMS[problem]
    model = Sentences(problem).eval()
    few, many = report_on(model, n_steps=20), report_on(model, n_steps=800)
    # No number of steps helps.
    assert few.endpoint_mismatch == pytest.approx(many.endpoint_mismatch)
    assert max(map(abs, many.endpoint_mismatch)) > 100 * max(map(abs, many.quadrature_error))
    assert not many.converged
    assert re.search(source, many.source)
    assert remedy in many.remedy
    assert "n_steps" not in many.remedy


def test_a_layer_called_twice_is_named():
    model = Sentences("twice").eval()
    report = convergence_report(LayerIntegratedGradients(model, model.words), IDS, BASELINES, target=1, n_steps=50)
    assert report.source.startswith("Embedding is called 2 times with different arguments")
    assert "called once" in report.remedy
    with pytest.raises(ModelError, match="a layer must run once in forward_func.*got 2 runs of Embedding"):
        report_on(model)


def test_dropout_is_named():
    report = report_on(Sentences().train())
    assert report.source == "the model gives other outputs at every call"
    assert "call model.eval()" in report.remedy


# captum#1413
def test_a_mask_among_the_inputs_is_named(tokenizer):
    model = tiny_classifier(len(tokenizer))
    layer = model.get_input_embeddings()
    dig = LayerDiscretizedIntegratedGradients(lambda i, m: model(i, attention_mask=m).logits, layer, StraightLine())
    ids, baseline = torch.tensor([[2, 27, 29, 31, 3]]), torch.tensor([[2, 3, 0, 0, 0]])
    mask, other = torch.ones_like(ids), torch.tensor([[1, 1, 0, 0, 0]])
    for n_steps in (50, 500):
        report = convergence_report(dig, (ids, mask), (baseline, other), target=0, n_steps=n_steps)
        assert abs(report.endpoint_mismatch[0]) > 100 * abs(report.quadrature_error[0])
        assert report.source.startswith("inputs[1] differs at the baseline")
        assert "additional_forward_args" in report.remedy
    sound = convergence_report(dig, ids, baseline, target=0, additional_forward_args=mask, n_steps=500)
    assert sound.converged
    assert sound.endpoint_mismatch == (0.0,)


def test_robertas_positions_are_named(tokenizer):
    model = build("Roberta", tokenizer, type_vocab_size=1)
    dig = LayerDiscretizedIntegratedGradients(lambda i: model(i).logits, model.get_input_embeddings(), StraightLine())
    ids = torch.tensor([[2, 27, 29, 31, 3]])
    report = convergence_report(dig, ids, torch.tensor([[2, 0, 0, 0, 3]]), target=0, n_steps=400)
    assert not report.converged
    assert report.source.startswith("roberta.embeddings.position_embeddings looks up other rows")


def test_the_pooled_position_of_gpt2_is_named(tokenizer):
    model = build("GPT2", tokenizer, n_embd=16, n_layer=2, n_head=2, n_positions=40)
    dig = LayerDiscretizedIntegratedGradients(lambda i: model(i).logits, model.get_input_embeddings(), StraightLine())
    ids = torch.tensor([[27, 29, 31, 33]])
    report = convergence_report(dig, ids, torch.tensor([[27, 29, 0, 0]]), target=0, n_steps=400)
    assert max(map(abs, report.endpoint_mismatch)) > 100 * max(map(abs, report.quadrature_error))
    assert "pooled" in report.source
    # With a baseline of another token the same position is read.
    assert convergence_report(dig, ids, torch.tensor([[4, 4, 4, 4]]), target=0, n_steps=400).converged


# captum#904, captum#1110
@pytest.mark.filterwarnings("ignore:Multiple layers provided")
def test_the_decoders_table_of_bart_is_named(tokenizer):
    config = transformers.BartConfig(
        vocab_size=len(tokenizer), d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=16, decoder_ffn_dim=16, num_labels=2, eos_token_id=3,
        pad_token_id=0, init_std=0.4,
    )  # fmt: skip
    model = transformers.BartForSequenceClassification(config).eval()
    ids, baseline = torch.tensor([[2, 27, 29, 3]]), torch.tensor([[2, 0, 0, 3]])
    encoder, decoder = model.model.encoder.embed_tokens, model.model.decoder.embed_tokens
    alone = LayerDiscretizedIntegratedGradients(lambda i: model(i).logits, encoder, StraightLine())
    report = convergence_report(alone, ids, baseline, target=0, n_steps=200)
    assert abs(report.endpoint_mismatch[0]) > 1000 * abs(report.quadrature_error[0])
    assert report.source.startswith("model.decoder.embed_tokens looks up other rows")
    both = LayerDiscretizedIntegratedGradients(lambda i: model(i).logits, [encoder, decoder], StraightLine())
    assert convergence_report(both, ids, baseline, target=0, n_steps=200).endpoint_mismatch == (0.0,)


@pytest.mark.parametrize("method", [IntegratedGradients, lambda f: DiscretizedIntegratedGradients(f, StraightLine())])
def test_methods_without_a_layer(method):
    report = convergence_report(
        method(lambda x: (x**4).sum(dim=1)), torch.tensor([[1.0, 2.0]]), n_steps=3, method="riemann_left"
    )
    assert report.endpoint_mismatch == (0.0,)
    assert not report.converged


def test_no_hook_is_left_behind():
    model = Sentences("positions").eval()
    before = model(IDS)
    report_on(model)
    assert torch.equal(model(IDS), before)
    assert not model.words._forward_hooks
    assert not nn.modules.module._global_forward_hooks


def test_an_output_that_does_not_change():
    report = ConvergenceReport((0.0, 0.1), (0.0, 0.0), (0.0, 0.0), n_steps=5, tolerance_percent=5)
    assert report.delta_percent == (0.0, float("inf"))
    assert not report.converged


def test_it_prints_a_line_for_each_example():
    lines = str(report_on(Sentences("positions").eval())).splitlines()
    assert lines[0].split("  ")[0] == "example"
    assert [line.split()[0] for line in lines[1:3]] == ["0", "1"]
    assert lines[3] == "200 steps: not converged"
    assert lines[4].startswith("source: places looks up")
    assert lines[5].startswith("remedy: pass what it looks up explicitly")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"tolerance_percent": 0}, "tolerance_percent must be positive, got 0"),
        ({"attribute_to_layer_input": True}, "attribute_to_layer_input must be False"),
        ({"n_steps": 0}, "n_steps must be an integer of at least 1, got 0"),
    ],
)
def test_wrong_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        report_on(Sentences().eval(), **arguments)


def test_other_methods_are_refused():
    with pytest.raises(TypeError, match="attribution_method must be IntegratedGradients.*got DeepLift"):
        convergence_report(DeepLift(nn.Linear(2, 1)), torch.ones(1, 2))


@pytest.mark.parametrize("rule", ["known_sums", "adaptive"])
def test_known_sums_have_an_estimate_in_place_of_a_quadrature_error(rule):
    dig = DiscretizedIntegratedGradients(lambda x: (x**4).sum(dim=1), StraightLine())
    x = torch.tensor([[3.0, 1.0], [2.0, 2.0]])
    few, many = (convergence_report(dig, x, n_steps=n, method=rule) for n in (2, 200))
    assert max(map(abs, few.delta)) < 1e-3
    assert max(few.error_percent) > 5
    assert not few.converged
    assert few.remedy.startswith("raise n_steps above 2")
    assert "estimated error of the integration, in place of a quadrature error: " in str(few)
    assert many.converged
    assert many.remedy is None
    plain = convergence_report(dig, x, n_steps=2)
    assert plain.error_percent is None
    assert "estimated" not in str(plain)
