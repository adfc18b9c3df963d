"""Files of texts: `explain --file` and `compare --data` read the same."""

import csv
import io
import json
import os
import sys
import threading
from pathlib import Path

import pytest

from captum_dig.cli.datasets import read_dataset, read_texts

LONG = "good movie " * 20_000

BOTH = [
    ("a.csv", "text,label\none,1\ntwo,0\n", None),
    ("a.CSV", "label,comment\n1,one\n0,two\n", "Comment"),
    ("a.tsv", "sentence\tlabel\none\t1\ntwo\t0\n", None),
    ("a.jsonl", '{"text": "one"}\n{"text": "two"}\n', None),
    ("a.ndjson", '{"body": "one"}\n{"body": "two"}\n', "body"),
    ("a.txt", "one\n\ntwo\n", None),
    ("a", "one\r\ntwo", None),
    ("a.csv", "\ufeffone\ntwo\n", None),
]


@pytest.mark.parametrize(("name", "content", "column"), BOTH)
def test_one_reader_for_both_commands(tmp_path, name, content, column):
    (tmp_path / name).write_text(content, "utf-8")
    assert read_texts([], tmp_path / name, column) == ["one", "two"]
    assert read_texts(["zero"], tmp_path / name, column) == ["zero", "one", "two"]
    assert read_dataset(str(tmp_path / name), "test", column, 9) == ["one", "two"]


@pytest.mark.parametrize(("name", "column"), [("text", None), ("body", "body")])
def test_parquet_is_a_table_too(tmp_path, name, column):
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(arrow.table({"id": [1, 2, 3], name: ["one", None, "two"]}), tmp_path / "a.parquet")
    assert read_texts([], tmp_path / "a.parquet", column) == ["one", "two"]
    assert read_dataset(str(tmp_path / "a.parquet"), "test", column, 9) == ["one", "two"]


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.txt", "a.jsonl"])
def test_a_text_may_be_long(tmp_path, name):
    before = csv.field_size_limit()
    content = json.dumps({"text": LONG}) if name == "a.jsonl" else f"text\n{LONG}\n"
    (tmp_path / name).write_text(content, "utf-8")
    assert read_texts([], tmp_path / name)[-1] == LONG
    assert read_dataset(str(tmp_path / name), "test", None, 9)[-1] == LONG.strip()
    assert csv.field_size_limit() == before


BAD = [
    ("a.csv", b"label,comment\n1,one\n", None, "--column must name the texts, one of 'label', 'comment', got none"),
    ("a.csv", b"text,label\none,1\n", "body", "--column must be one of 'text', 'label', got 'body'"),
    ("a.csv", b'text\n"one\ntwo\n', None, "must be a table that can be read, got .*see whether quotes are closed"),
    ("a.csv", b"text\n\xff\n", None, r"must be UTF-8 text, got .* with byte 0xff in line 2; save it as UTF-8"),
    ("a.jsonl", b"[1]\n", None, "must hold one JSON object a line, got list"),
    ("a.jsonl", b"[" * 100_000, None, "must hold one JSON object a line, got"),
    ("a.jsonl", b'{"title": "T"}\n', None, "--column must name the texts, one of 'title', got None"),
    ("a.txt", b"text,label\none,1\n", None, "which begins as a table: 'text,label'; name it .csv, or take this line"),
    ("a.txt", b"sentence\tlabel\none\t1\n", None, "begins as a table: .*; name it .tsv, or take this line away"),
    ("a", b'"id","review"\n1,one\n', None, "which begins as a table"),
    ("a.txt", b'{"text": "one"}\n', None, "which holds JSON; name it .jsonl"),
    ("a.json", b'["one"]', None, r"must hold one text a line, or be a table \(.csv, .tsv, .jsonl, .parquet\), got"),
    ("a.xlsx", b"PK\x03\x04", None, "or be a table"),
    ("a.parquet", b"PAR1", None, "data must be Parquet that can be read"),
    ("a.csv", b"", None, "must hold at least one text, got .* without any"),
    ("a.csv", b"text,label\n", None, "must hold at least one text, got .* without any"),
]


@pytest.mark.parametrize(("name", "content", "column", "message"), BAD)
def test_what_is_no_file_of_texts_is_named_by_both(tmp_path, name, content, column, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message) as caught:
        read_texts([], tmp_path / name, column)
    assert "--data" not in str(caught.value)
    with pytest.raises(ValueError, match=message) as caught:
        read_dataset(str(tmp_path / name), "test", column, 9)
    assert "--file" not in str(caught.value)


def test_a_text_that_speaks_of_text_is_no_table(tmp_path):
    lines = ["The text, alas, is dull", "text", '{"so it begins', "review: a good, short one"]
    (tmp_path / "a.txt").write_text("\n".join(lines), "utf-8")
    assert read_texts([], tmp_path / "a.txt") == lines


@pytest.mark.parametrize("file", [None, Path("a.txt"), Path("-")])
def test_a_column_needs_a_table(file):
    with pytest.raises(ValueError, match=r"--column must come with a table \(.csv, .tsv, .jsonl, .parquet\), got"):
        read_texts(["good"], file, "text")


def test_standard_input_is_lines_and_no_table(monkeypatch):
    def type_in(data):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))

    type_in("\ufeffgood movie\r\nbad \u2028 movie\n".encode())
    assert read_texts([], Path("-")) == ["good movie", "bad \u2028 movie"]
    type_in(b"text,label\none,1\n")
    with pytest.raises(ValueError, match="got standard input, which begins as a table"):
        read_texts([], Path("-"))
    type_in(b"one\n\xff")
    with pytest.raises(ValueError, match="got standard input with byte 0xff in line 2"):
        read_texts([], Path("-"))
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(ValueError, match="--file must hold at least one text, got standard input without any"):
        read_texts([], Path("-"))


@pytest.mark.skipif(os.name == "nt", reason="no pipes with names")
def test_a_pipe_is_read_once(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(b"one\n\xff\n"))
    writer.start()
    with pytest.raises(ValueError, match="with byte 0xff in line 2"):
        read_texts([], pipe)
    writer.join()


@pytest.mark.skipif(os.name == "nt", reason="links need rights")
@pytest.mark.parametrize("name", ["loop", "loop/texts.txt"])
def test_links_in_a_circle(tmp_path, name):
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(ValueError, match="--file must be a file that can be read, got .*loop"):
        read_texts([], tmp_path / name)
    with pytest.raises(ValueError, match="--data must be a file or the name of a data set on the hub"):
        read_dataset(str(tmp_path / name), "test", None, 9)
