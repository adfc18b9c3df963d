"""One file adds a path, a search, a method, a measure, a task or a format: each toy here is the whole addition."""

import io
import json
import textwrap

import pytest
import torch
from typer.testing import CliRunner

from captum_dig import TextExplainer, cli, compare
from captum_dig.catalogue import CATALOGUE
from captum_dig.testing import check_anchor_search, check_measure, check_method, check_path, check_task
from tests.running import run_command

PLUGIN = """
import torch
from captum_dig import AnchorSearch, AttributionMethod, Entry, Format, Measure, PathGenerator
from captum_dig.tasks.labels import LabelTask


class Corner(PathGenerator):
    monotone = True

    def knots(self, inputs, baselines):
        even = torch.arange(inputs.shape[-1], device=inputs.device) % 2 == 0
        return torch.stack([baselines, torch.where(even, inputs, baselines), inputs])


class Nearest(AnchorSearch):
    def cost(self, neighborhood):
        return (neighborhood.candidates - neighborhood.words[:, None]).norm(dim=-1)


class Length(AttributionMethod):
    name, n_gradients = "length", 0

    def scores(self, question, plan):
        return (question.inputs - question.baselines).norm(dim=-1)


class Largest(Measure):
    name = title = column = "largest"

    def values(self, trials):
        return [(float(trial.scores.max()),) for trial in trials.trials]


class Margin(LabelTask):
    output = "margin"

    def value(self, output, places):
        others = output.logits.scatter(1, places, -torch.inf).amax(dim=1)
        return super().value(output, places) - others


class Lines(Format):
    def write(self, results, file):
        for result in results:
            for word in result.to_picture().words:
                print(word.text, f"{word.score:+.3f}", sep="\\t", file=file)


ENTRIES = [
    Entry("corner", "path", "corner", Corner),
    Entry("nearest", "search", "nearest", Nearest),
    Entry("length", "method", "length", Length),
    Entry("largest", "measure", "largest", Largest),
    Entry("margin", "task", "margin", Margin),
    Entry("lines", "format", "lines", Lines),
]
"""


@pytest.fixture(scope="module")
def plugin():
    namespace = {}
    exec(textwrap.dedent(PLUGIN), namespace)
    return namespace


@pytest.fixture(scope="module")
def explainer(classifier, tokenizer, plugin):
    return TextExplainer(
        classifier,
        tokenizer,
        task="margin",
        n_anchors=3,
        n_neighbors=8,
        candidates="all",
        cache=False,
        catalogue=CATALOGUE.plus(plugin["ENTRIES"]),
    )


def test_each_toy_keeps_its_contract(plugin, classifier, tokenizer):
    check_path(plugin["Corner"](), torch.randn(2, 3, 4), torch.randn(2, 3, 4))
    check_anchor_search(plugin["Nearest"]())
    check_method(plugin["Length"]())
    check_measure(plugin["Largest"]())
    check_task(plugin["Margin"], classifier, tokenizer, ["a fine film", "dull"])


@pytest.mark.parametrize("strategy", ["corner", "nearest", "length"])
def test_explain_takes_them_by_name(strategy, explainer):
    result = explainer.explain("a gorgeous, witty movie", strategy=strategy, n_steps=64)
    assert result.settings.strategy == strategy
    assert result.settings.output == "margin"
    logits = explainer.classifier.output(**explainer.encoder.pad(explainer.encoder.encode(result.text))).logits[0]
    assert result.input_value == pytest.approx(
        float((logits[result.target] - logits[1 - result.target]).detach()), abs=1e-5
    )
    if strategy == "corner":
        assert result.delta_percent < 20


def test_compare_takes_them_by_name_and_writes_their_titles(explainer):
    comparison = compare(
        explainer, ["a fine film"], ["corner", "nearest", "length"], n_steps=4, measures=["largest"], n_curve_texts=0
    )
    assert comparison.values("largest", "length").shape == (1,)
    assert "largest" in str(comparison)
    assert "largest" in comparison.to_html()


def test_a_format_writes_results(plugin, explainer):
    stream = io.StringIO()
    plugin["Lines"]()([explainer.explain("a fine film", n_steps=8)], stream)
    assert [line.split("\t")[0] for line in stream.getvalue().splitlines()] == ["a", "fine", "film"]


@pytest.fixture
def toys(tmp_path):
    path = tmp_path / "toys.py"
    path.write_text(PLUGIN, "utf-8")
    return path


def test_the_command_line_takes_them_in_a_process_of_its_own(toys):
    shown = run_command(
        "--plugin", toys, "explain", "A fine film.", "--strategy", "corner", "--task", "margin", "--format", "lines"
    )
    assert (shown.status, shown.stderr) == (0, "")
    assert [line.split("\t")[0] for line in shown.stdout.splitlines()] == ["A", "fine", "film", "."]


def test_the_command_line_compares_and_lists_them(toys, tmp_path, monkeypatch):
    monkeypatch.setenv("CAPTUM_DIG_CACHE", str(tmp_path / "cache"))
    (tmp_path / "texts.txt").write_text("A fine film.\n", "utf-8")
    options = (
        "--data", tmp_path / "texts.txt", "--methods", "corner,nearest,length", "--measures", "largest", "--n-steps", 4,
        "--n-anchors", 2, "--n-neighbors", 4, "--candidates", "all", "--json", "-",
    )  # fmt: skip
    written = CliRunner().invoke(cli.app, ["--plugin", str(toys), "compare", *map(str, options)])
    assert "largest" in json.loads(written.stdout)["texts"][0]["measurements"][0]["values"]
    listed = CliRunner().invoke(cli.app, ["--plugin", str(toys), "list"]).stdout.split()
    assert {"corner", "nearest", "length", "largest", "margin", "lines"} <= set(listed)
