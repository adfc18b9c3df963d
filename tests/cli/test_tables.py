"""The command line on data sets: a folder of scores, and the words in it."""

import json
import os
import re
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from captum_dig.cli import app, console
from tests.datasets.test_running import TEXTS, content, scores, written

QUICK = ("--n-steps", 8, "--strategy", "straight_line")


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def data(tmp_path):
    return written(tmp_path / "reviews.csv", [{"id": f"r{i}", "comment": text} for i, text in enumerate(TEXTS)])


def explain(data, out, *arguments):
    return run("explain", "--data", data, "--out", out, *QUICK, *arguments)


def test_a_file_becomes_a_folder_of_scores(data, tmp_path):
    options = ("--column", "comment", "--id-column", "id", "--rows-per-part", 2, "--device", "cpu")
    result = explain(data, tmp_path / "scores", *options)
    assert result.exit_code == 0, result.output
    assert result.stdout == ""
    assert re.search(r"5 rows, 0 with an error, 40 gradients, [\d.]+ rows a second; scores in .*scores", result.stderr)
    assert [row["id"] for row in scores(tmp_path / "scores")] == [f"r{n}" for n in range(5)]
    before = content(tmp_path / "scores")
    again = explain(data, tmp_path / "scores", *options)
    assert "5 rows, 5 of them before, 0 with an error, 40 gradients; scores in" in again.stderr
    assert content(tmp_path / "scores") == before


def test_lines_instead_of_parquet_and_errors_on_record(tmp_path):
    data = written(tmp_path / "data.jsonl", [{"text": "Dull."}, {"text": None}])
    result = explain(data, tmp_path / "scores", "--format", "jsonl", "--errors", "record")
    assert "2 rows, 1 with an error" in result.stderr
    rows = [json.loads(line) for line in (tmp_path / "scores" / "part-00000.jsonl").read_text().splitlines()]
    assert [row["error_kind"] for row in rows] == [None, "TaskError"]
    result = explain(data, tmp_path / "other", "--format", "jsonl")
    assert result.exit_code == 2
    assert result.stderr.startswith("error: row 1: the text must be a string, got NoneType")


def test_progress_is_lines_where_nobody_watches(data, tmp_path, monkeypatch):
    monkeypatch.setattr(console, "PAUSE", 0.0)
    result = explain(data, tmp_path / "scores", "--column", "comment")
    assert re.search(r"^explained 3 of 5 rows, [\d.]+ a second, about \d+ s left$", result.stderr, flags=re.MULTILINE)
    monkeypatch.setenv("CAPTUM_DIG_CACHE", str(tmp_path / "cache"))
    result = run("compare", "--data", data, "--column", "comment", "--n", 3, "--methods", "random")
    assert re.search(r"^compared 2 of 3 texts, .* about \d+ s left$", result.stderr, flags=re.MULTILINE)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("A text.",), "TEXT must not come with --data"),
        (("--html", "page.html"), "--html must not come with --data"),
        (("--file", "other.txt"), "--file must not come with --data"),
        (("--format", "svg"), "--format must be parquet or jsonl where --data is given, got 'svg'"),
        (("--column", "words"), "column must be one of 'id', 'comment', got 'words'"),
        (("--column", "comment", "--errors", "skip"), "errors must be one of 'raise', 'record', got 'skip'"),
        (("--column", "comment", "--device", "gpu"), "device must be 'auto' or one that is here"),
        (("--column", "comment", "--dtype", "int8"), "--dtype must be one of 'float32', 'float16', 'bfloat16'"),
        (("--column", "comment", "--target", "SAD"), "got 'SAD'"),
        (("--column", "comment", "--workers", 0), "workers must be an integer of at least 1, got 0"),
    ],
)
def test_wrong_options_are_one_line(data, tmp_path, arguments, message):
    result = explain(data, tmp_path / "scores", *arguments)
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1
    assert message in result.stderr


def test_a_folder_and_a_table_come_together(data):
    result = run("explain", "--data", data)
    assert (result.exit_code, result.stderr) == (
        2,
        "error: --out must name the folder of the scores where --data is given, got none\n",
    )
    result = run("explain", "A text.", "--format", "parquet")
    assert "--format must come with --data where it is parquet" in result.stderr


def test_the_words_of_a_folder(data, tmp_path):
    explain(data, tmp_path / "scores", "--column", "comment")
    page = tmp_path / "words.html"
    result = run("summarize", tmp_path / "scores", "--html", page)
    assert result.exit_code == 0, result.output
    assert "NEGATIVE: " in result.stdout
    assert "gorgeous" in result.stdout
    assert "<h2>POSITIVE: " in page.read_text()
    result = run("summarize", tmp_path / "scores", "--by", "nothing")
    assert "warning: scores of 2 different labels are added up" in result.stderr
    result = run("summarize", tmp_path)
    assert result.exit_code == 2
    assert "scores must be a folder with _manifest.json" in result.stderr


@pytest.mark.parametrize("command", ["summarize", "compare"])
def test_files_are_written_if_the_reader_of_the_table_has_left(data, tmp_path, command):
    explain(data, tmp_path / "scores", "--column", "comment")
    typed = {
        "summarize": ["summarize", tmp_path / "scores"],
        "compare": [
            "compare",
            "--data",
            data,
            "--column",
            "comment",
            "--n",
            "2",
            "--methods",
            "random",
            "--n-steps",
            "4",
        ],
    }[command]
    reading, writing = os.pipe()
    os.close(reading)
    page = tmp_path / "page.html"
    environment = os.environ | {"CAPTUM_DIG_CACHE": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, "-m", "captum_dig", *map(str, typed), "--html", str(page)],
        stdout=writing, stderr=subprocess.PIPE, text=True, check=False, env=environment,
    )  # fmt: skip
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, "")
    assert page.read_text("utf-8").endswith("</html>\n")
