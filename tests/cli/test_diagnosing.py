"""The command that shows the facts of a report."""

import pytest
from typer.testing import CliRunner

from captum_dig import TextExplainer, __version__
from captum_dig.cli import app, diagnosing


def test_facts_of_the_installation(tmp_path, monkeypatch):
    monkeypatch.setenv("CAPTUM_DIG_CACHE", str(tmp_path))
    result = CliRunner().invoke(app, ["doctor"])
    assert result.exit_code == 0, result.output
    facts = dict(line.split(maxsplit=1) for line in result.stdout.splitlines())
    assert facts["captum-dig"] == __version__
    assert facts["cache"] == str(tmp_path)
    assert facts["torch"][0].isdigit()
    assert "model" not in facts


def test_a_package_that_is_not_there(monkeypatch):
    monkeypatch.setattr(diagnosing, "_PACKAGES", ("no-such-package",))
    monkeypatch.setenv("CAPTUM_DIG_CACHE", "")
    found = CliRunner().invoke(app, ["doctor"]).stdout
    assert "no-such-package not installed" in found
    assert "cache           none" in found


def test_facts_of_a_model(tmp_path):
    demo = TextExplainer.demo()
    demo.classifier.model.save_pretrained(tmp_path)
    demo.encoder.tokenizer.save_pretrained(tmp_path)
    found = CliRunner().invoke(app, ["doctor", "--model", str(tmp_path)]).stdout
    for part in (
        type(demo.classifier.model).__name__,
        "torch.float32",
        "LabelTask(",
        f"reads           {demo.encoder.max_tokens} tokens",
        f"{len(demo.vocabulary):,} of {demo.vocabulary.dim} numbers",
    ):
        assert part in found


@pytest.mark.parametrize("model", ["/no/such/folder", "./missing"])
def test_a_model_that_is_not_there(model):
    result = CliRunner().invoke(app, ["doctor", "--model", model])
    assert result.exit_code == 2
    assert result.stderr.startswith("error: ")
