"""The command line on models of every task."""

import json

import pytest
from typer.testing import CliRunner

from captum_dig.cli import app
from tests.tasks.test_base import models as models  # noqa: PLC0414 - a fixture
from tests.tasks.test_base import tokenizer as tokenizer  # noqa: PLC0414
from tests.tiny_models import tiny_tokenizer


@pytest.fixture(scope="module")
def folders(models, tokenizer, tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    for name, model in models.items():
        model.save_pretrained(folder / name)
        (tiny_tokenizer() if name == "continuation" else tokenizer).save_pretrained(folder / name)
    return folder


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def explain(folders, name, *arguments):
    return run("explain", "--model", folders / name, *arguments, "--strategy", "straight_line", "--n-steps", 8)


@pytest.mark.parametrize(
    ("name", "arguments", "shown"),
    [
        ("labels", ["a film", "--field", "text_pair=the plot"], ["text: a", "text_pair: the"]),
        ("labels", ["a film", "--field", "text_pair=the plot", "--scored", "text_pair"], ["text: a film\n"]),
        ("zero_shot", ["a film", "--labels", "good,bad"], ["log-odds of ", "hypothesis: this example is"]),
        (
            "zero_shot",
            ["a film", "--labels", "good,bad", "--task-option", "template=it is {}", "--target", "bad"],
            ["log-odds of bad", "hypothesis: it is bad"],
        ),
        ("tokens", ["the plot was dull", "--target", "plot"], [">>plot"]),
        ("spans", ["the plot was dull", "--field", "question=was it?"], ["question: was", "context: "]),
        ("spans", ["the plot was dull", "--field", "question=was it?", "--target", "plot"], [">>plot"]),
        ("masked_word", ["the [MASK] was dull", "--target", "plot", "--contrast", "film"], ["plot (", "less that of film"]),
        ("continuation", ["the plot was", "--field", "continuation= dull"], ["log-probability of dull"]),
        ("continuation", ["the plot was", "--task-option", "max_new_tokens=2"], ["continuation: "]),
    ],
)  # fmt: skip
def test_one_command_for_each_task(folders, name, arguments, shown):
    result = explain(folders, name, *arguments)
    assert result.exit_code == 0, result.output
    for part in shown:
        assert part.casefold() in result.stdout.casefold()


def test_the_numbers_of_one_text_stand_side_by_side_at_the_end(folders):
    result = explain(
        folders, "continuation", "the plot was", "--field", "continuation= dull film", "--target", "tokens"
    )
    table = [line.split() for line in result.stdout.splitlines()[-4:]]
    assert table[0] == ["dull", "film"]
    assert [row[0] for row in table[1:]] == ["the", "plot", "was"]
    assert all(float(score) is not None for row in table[1:] for score in row[1:])
    alone = explain(folders, "continuation", "the plot was", "--field", "continuation= dull")
    assert "---" not in alone.stdout.replace("[---]", "")


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl"])
def test_fields_are_columns_of_a_table(folders, tmp_path, ending):
    table = tmp_path / f"pairs.{ending}"
    rows = [("a film", "the plot"), ("dull", "good")]
    between = {"csv": ",", "tsv": "\t"}.get(ending)
    if between is None:
        lines = [json.dumps({"one": one, "two": two, "id": 3}) for one, two in rows]
    else:
        lines = [between.join(row) for row in [("one", "two"), *rows]]
    table.write_text("\n".join(lines) + "\n", "utf-8")
    columns = ("--column", "text=one", "--column", "text_pair=two")
    result = explain(folders, "labels", "--file", table, *columns, "--json", "-")
    assert [found["text"] for found in json.loads(result.stdout)] == ["a film\nthe plot", "dull\ngood"]
    compared = run(
        "compare", "--model", folders / "labels", "--data", table, *columns, "--methods", "straight_line,random",
        "--n-steps", 4, "--json", "-",
    )  # fmt: skip
    assert [text["text"] for text in json.loads(compared.stdout)["texts"]] == ["a film\nthe plot", "dull\ngood"]
    wrong = explain(folders, "labels", "--file", table, "--column", "text=one", "--column", "text_pair=three")
    assert (wrong.exit_code, wrong.stderr.count("--column must be one of")) == (2, 1)


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("labels", ["a", "--field", "pair"], "--field must be NAME=TEXT, got 'pair'"),
        ("labels", ["a", "--field", "pair=b"], "must have no other fields than 'text' and 'text_pair', got 'pair' too"),
        ("labels", ["a", "--task-option", "template=b"], "those of the task, output, fields for LabelTask, got 'template'"),
        ("labels", ["a", "--scored", "context"], "fields must be one of 'text', 'text_pair', got 'context'"),
        ("labels", ["a", "--task", "tokens"], "model must be a token classifier, got "),
        ("spans", ["a"], "the text must be a mapping with 'question' and 'context', got a string"),
        ("masked_word", ["a"], "must hold [MASK] once for a masked language model, got 'a'"),
        ("labels", ["a", "--column", "text", "--column", "b=c"], "--column must be FIELD=NAME where there are several"),
    ],
)  # fmt: skip
def test_a_wrong_option_is_one_line(folders, name, arguments, message):
    result = explain(folders, name, *arguments)
    assert result.exit_code == 2
    (line,) = result.stderr.strip().splitlines()
    assert message in line
