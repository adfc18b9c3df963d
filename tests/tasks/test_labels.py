"""Regressions: a value is shown, and no percentage, wherever a result is drawn or stored."""

import dataclasses
import json
import math

import pytest
import torch
from typer.testing import CliRunner

from captum_dig import TextAttribution, TextExplainer, cli
from tests.tiny_models import tiny_classifier

TEXT = "a gorgeous, witty movie"


def regression(n_rows, n_labels, problem_type):
    model = tiny_classifier(n_rows)
    model.classifier = torch.nn.Linear(16, n_labels)
    model.config.num_labels = n_labels
    model.num_labels = n_labels
    model.config.problem_type = problem_type
    return model.eval()


@pytest.fixture(params=[(1, "regression"), (1, None), (2, "regression")])
def model(request, tokenizer):
    return regression(len(tokenizer), *request.param)


@pytest.fixture
def result(model, tokenizer):
    return TextExplainer(model, tokenizer, n_anchors=4, n_neighbors=12).explain(TEXT, n_steps=8)


def test_the_value_is_explained_and_has_no_probability(result, model, tokenizer):
    with torch.no_grad():
        outputs = model(**tokenizer(TEXT, return_tensors="pt")).logits[0]
    assert result.input_value == pytest.approx(float(outputs.max()), abs=1e-5)
    assert result.is_regression
    assert all(map(math.isnan, result.probabilities))
    assert result.predicted_label == result.target_label
    assert result.settings.output == "value"


def test_no_picture_shows_a_percentage_that_is_none(result):
    headline = dict(result.to_picture().headline)
    assert headline["Predicted"] == f"{result.input_value:.4g}"
    assert headline["Explained"] == f"value of {result.target_label}"
    for drawn in (str(result), result.to_html(), result._repr_html_(), repr(result), json.dumps(result.to_dict())):
        assert "nan" not in drawn.casefold()


def test_captum_shows_the_value(result):
    record = result.to_captum()
    assert (record.pred_class, record.pred_prob) == (result.target_label, result.input_value)


def test_a_result_is_read_back_from_json_old_and_new(result):
    data = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert data["probabilities"] == [None] * len(result.labels)
    assert TextAttribution.from_dict(data) == result
    old = data | {"probabilities": ["NaN"] * len(result.labels)}
    assert TextAttribution.from_dict(old) == result


def test_a_result_of_before_shows_no_percentage(result):
    old = dataclasses.replace(result, settings=dataclasses.replace(result.settings, output="logit"))
    assert "nan" not in str(old)
    assert f"Explained: logit of {result.target_label}" in str(old)


@pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"FORCE_COLOR": "1", "TERM": "xterm-256color"}])
def test_the_command_shows_the_value(model, tokenizer, tmp_path, monkeypatch, environment):
    monkeypatch.chdir(tmp_path)
    model.save_pretrained("model")
    tokenizer.save_pretrained("model")
    options = ["--n-steps", "8", "--n-anchors", "4", "--n-neighbors", "12", "--html", "page.html", "--json", "out.json"]
    arguments = ["explain", TEXT, "--model", "model", *options]
    result = CliRunner(env=environment | {"COLUMNS": "40"}).invoke(cli.app, arguments)
    assert (result.exit_code, result.stderr) == (0, "")
    assert "Predicted: " in result.stdout.replace("\x1b[1m", "").replace("\x1b[0m", "")
    for shown in (
        result.stdout,
        (tmp_path / "page.html").read_text("utf-8"),
        (tmp_path / "out.json").read_text("utf-8"),
    ):
        assert "nan" not in shown.casefold()


@pytest.mark.parametrize("kind", ["single_label_classification", "multi_label_classification"])
def test_a_single_output_that_is_said_to_be_a_class_keeps_its_probability(tokenizer, kind):
    model = regression(len(tokenizer), 1, kind)
    result = TextExplainer(model, tokenizer, n_anchors=4, n_neighbors=12).explain(TEXT, n_steps=8)
    assert result.probabilities[0] == pytest.approx(1 / (1 + math.exp(-result.input_value)), abs=1e-5)
    assert "%" in dict(result.to_picture().headline)["Predicted"]
