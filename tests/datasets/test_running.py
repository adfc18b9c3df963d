"""A file of texts in, a folder of scores out: the same rows, whatever happens on the way."""

import copy
import csv
import json
import os
import pickle  # noqa: TID251 - what engines do to send a function to workers
import re
import stat
import sys
import threading
from functools import partial
from pathlib import Path

import pytest

from captum_dig import MissingExtraError, TextAttribution, TextExplainer
from captum_dig.datasets.batch import RESERVED, ExplainBatch
from captum_dig.datasets.folders import MANIFEST
from captum_dig.datasets.running import explain_table
from captum_dig.datasets.tables import Table
from captum_dig.visualization.writing import is_part

arrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

TEXTS = ["A gorgeous, witty movie.", "Dull.", "Not bad at all.", "No!", "The plot is thin, but the cast is warm."]
QUICK = {"n_steps": 8, "strategy": "straight_line"}


@pytest.fixture(scope="module")
def explainer():
    return TextExplainer.demo()


@pytest.fixture
def data(tmp_path):
    return written(tmp_path / "reviews.csv", [{"id": f"r{i}", "review": text} for i, text in enumerate(TEXTS)])


def written(path, rows):
    """Write rows by the ending of the file."""
    if path.suffix == ".parquet":
        parquet.write_table(arrow.Table.from_pylist(rows), path)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        with path.open("w", newline="") as file:
            table = csv.DictWriter(file, list(rows[0]), delimiter="\t" if path.suffix == ".tsv" else ",")
            table.writeheader()
            table.writerows(rows)
    return path


def scores(folder):
    """All rows of a folder, in order."""
    rows = []
    for part in sorted(folder.glob("part-*")):
        if part.suffix == ".parquet":
            rows += parquet.read_table(part).to_pylist()
        else:
            rows += [json.loads(line) for line in part.read_text().splitlines()]
    return rows


def content(folder):
    return {
        file.name: file.read_bytes() for file in folder.iterdir() if file.name != "_lock" and not is_part(file.name)
    }


# ------------------------------------------------------------------------------------------ one run


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".jsonl", ".parquet"])
@pytest.mark.parametrize("file_format", ["parquet", "jsonl"])
def test_rows_of_every_kind_of_file_are_those_of_single_texts(explainer, tmp_path, ending, file_format):
    rows = [{"id": f"r{i}", "review": text, "stars": str(i)} for i, text in enumerate(TEXTS)]
    data = written(tmp_path / f"reviews{ending}", rows)
    report = explain_table(
        explainer,
        data,
        tmp_path / "scores",
        id_column="id",
        keep=["stars"],
        rows_per_part=2,
        file_format=file_format,
        **QUICK,
    )
    assert (report.n_rows, report.n_results, report.n_errors, report.n_before) == (5, 5, 0, 0)
    assert report.n_gradients == 40
    found = scores(tmp_path / "scores")
    assert list(found[0]) == ["id", "stars", *RESERVED]
    for number, (text, row) in enumerate(zip(TEXTS, found, strict=True)):
        assert (row["id"], row["stars"], row["row"], row["result"]) == (f"r{number}", str(number), number, 0)
        result, alone = TextAttribution.from_row(row), explainer.explain(text, **QUICK)
        assert result.word_scores == pytest.approx(alone.word_scores, abs=1e-6)
        assert result.settings == alone.settings


def test_a_folder_of_parquet_is_one_table(explainer, tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    written(data / "b.parquet", [{"text": "Dull."}])
    written(data / "a.parquet", [{"text": "No!"}, {"text": "Not bad."}])
    (data / "_metadata").write_text("")
    explain_table(explainer, data, tmp_path / "scores", **QUICK)
    assert [row["text"] for row in scores(tmp_path / "scores")] == ["No!", "Not bad.", "Dull."]
    report = explain_table(explainer, tmp_path / "scores", tmp_path / "again", column="text", **QUICK)
    assert report.n_rows == 3


def test_targets_and_fields_of_columns(explainer, tmp_path):
    rows = [
        {"text": "Dull.", "wanted": "POSITIVE"},
        {"text": "Dull.", "wanted": "0"},
        {"text": "Dull.", "wanted": ""},
        {"text": "Dull.", "wanted": "SAD"},
    ]
    data = written(tmp_path / "data.csv", rows)
    explain_table(explainer, data, tmp_path / "a", target_column="wanted", errors="record", **QUICK)
    assert [row["target"] for row in scores(tmp_path / "a")] == ["POSITIVE", "NEGATIVE", "NEGATIVE", None]
    assert "got 'SAD'" in scores(tmp_path / "a")[3]["error"]
    pairs = written(tmp_path / "pairs.csv", [{"one": "Dull.", "two": "Bad."}, {"one": "No!", "two": "Yes!"}])
    explain_table(explainer, pairs, tmp_path / "b", column={"text": "one", "text_pair": "two"}, **QUICK)
    assert [row["text"] for row in scores(tmp_path / "b")] == ["Dull.\nBad.", "No!\nYes!"]
    assert scores(tmp_path / "b")[0]["fields"] == ["text", "text_pair"]


def test_a_limit_and_progress(explainer, tmp_path, data):
    told = []
    report = explain_table(
        explainer, data, tmp_path / "scores", limit=3, rows_per_part=2, progress=lambda *one: told.append(one), **QUICK
    )
    assert report.n_rows == 3
    assert told == [(0, 3), (1, 3), (2, 3), (2, 3), (3, 3), (3, 3)]


def test_kept_columns_have_their_types(explainer, tmp_path):
    rows = [{"text": "Dull.", "stars": 2, "tags": ["a", "b"]}, {"text": "No!", "stars": None, "tags": []}]
    explain_table(explainer, written(tmp_path / "data.parquet", rows), tmp_path / "a", keep=["stars", "tags"], **QUICK)
    assert [(row["stars"], row["tags"]) for row in scores(tmp_path / "a")] == [(2, ["a", "b"]), (None, [])]
    explain_table(explainer, written(tmp_path / "data.jsonl", rows), tmp_path / "b", keep=["stars", "tags"], **QUICK)
    assert [(row["stars"], row["tags"]) for row in scores(tmp_path / "b")] == [("2", '["a", "b"]'), (None, "[]")]


# ------------------------------------------------------------------------------------------ bad rows


BAD = [
    {"text": "Dull."},
    {"text": None},
    {"text": 7},
    {"other": "x"},
    {"text": "movie " * 2000},
    {"text": "a" * 1_000_000},
    {"text": "bad \udcff byte"},
    {"text": ""},
]


def test_bad_rows_are_recorded(explainer, tmp_path):
    data = tmp_path / "data.jsonl"
    lines = [json.dumps(row) for row in BAD] + ["no json", "[1]", '{"text": "cut'] + [json.dumps({"text": "No!"})]
    data.write_text("\n".join(lines) + "\n")
    report = explain_table(explainer, data, tmp_path / "scores", errors="record", **QUICK)
    assert (report.n_rows, report.n_results, report.n_errors, report.n_cut) == (12, 5, 7, 1)
    rows = scores(tmp_path / "scores")
    assert [row["row"] for row in rows] == list(range(12))
    told = {row["row"]: (row["error_kind"], row["error"]) for row in rows if row["error"] is not None}
    assert sorted(told) == [1, 2, 3, 6, 8, 9, 10]
    assert told[1] == told[3]
    assert told[1][0] == "TaskError"
    assert told[1][1].startswith("the text must be a string, got NoneType")
    assert told[2][1].startswith("the text must be a string, got int")
    assert told[6][1].startswith("the text must be text that UTF-8 can hold")
    assert all(told[n][1].startswith("line must hold a JSON object") for n in (8, 9, 10))
    assert rows[6]["text"] == "bad \\udcff byte"
    assert rows[4]["truncated"] > 1000


def test_the_first_bad_row_ends_the_run_and_later_parts_go_on(explainer, tmp_path):
    data = written(tmp_path / "data.jsonl", [{"text": "Dull."}, {"text": "No!"}, {"text": None}, {"text": "Not bad."}])
    run = partial(explain_table, explainer, data, tmp_path / "scores", rows_per_part=2, **QUICK)
    with pytest.raises(TypeError, match="row 2: the text must be a string, got NoneType"):
        run()
    assert [row["row"] for row in scores(tmp_path / "scores")] == [0, 1]
    report = run(errors="record")
    assert (report.n_before, report.n_errors, report.n_rows) == (2, 1, 4)


@pytest.mark.parametrize("ending", [".csv", ".tsv"])
def test_bytes_that_are_no_text_are_errors_of_their_rows(explainer, tmp_path, ending):
    separator = "," if ending == ".csv" else "\t"
    data = tmp_path / f"data{ending}"
    lines = [b"id,text", b"1,Dull.", b"2,caf\xe9", b"3", b"4,No!"]
    data.write_bytes(b"\n".join(line.replace(b",", separator.encode()) for line in lines))
    explain_table(explainer, data, tmp_path / "scores", id_column="id", errors="record", **QUICK)
    rows = scores(tmp_path / "scores")
    assert [row["id"] for row in rows] == ["1", "2", "3", "4"]
    assert [row["error"] is None for row in rows] == [True, False, False, True]


def test_parquet_with_nulls_other_types_and_broken_text(explainer, tmp_path):
    rows = arrow.table(
        {"text": arrow.array([b"Dull.", None, b"caf\xe9"]).cast("binary").view("string"), "id": [1, 1, 1]}
    )
    parquet.write_table(rows, tmp_path / "data.parquet")
    explain_table(explainer, tmp_path / "data.parquet", tmp_path / "scores", id_column="id", errors="record", **QUICK)
    found = scores(tmp_path / "scores")
    assert [row["id"] for row in found] == [1, 1, 1]
    assert [row["error_kind"] for row in found] == [None, "TaskError", "ValueError"]
    numbers = written(tmp_path / "numbers.parquet", [{"text": 3}])
    explain_table(explainer, numbers, tmp_path / "other", errors="record", **QUICK)
    assert scores(tmp_path / "other")[0]["error"].startswith("the text must be a string, got int")


# ---------------------------------------------------------------------------------- a run that goes on


class StopRunError(Exception):
    """What ends a run."""


@pytest.mark.parametrize("file_format", ["parquet", "jsonl"])
def test_a_run_goes_on_and_gives_the_same_files(explainer, tmp_path, data, file_format):
    run = partial(explain_table, explainer, data, rows_per_part=1, file_format=file_format, **QUICK)
    run(tmp_path / "whole")
    for end in range(5):
        parts = tmp_path / f"parts{end}"

        def stop(done, _total, end=end):
            if done > end:
                raise StopRunError

        with pytest.raises(StopRunError):
            run(parts, progress=stop)
        report = run(parts)
        assert report.n_before in (end, end + 1)
        assert content(parts) == content(tmp_path / "whole")
    again = run(tmp_path / "whole")
    assert again.n_before == again.n_rows == 5


@pytest.mark.parametrize("damage", ["cut", "changed", "removed"])
def test_a_damaged_part_is_made_anew(explainer, tmp_path, data, damage):
    run = partial(explain_table, explainer, data, tmp_path / "scores", rows_per_part=2, **QUICK)
    run()
    before = content(tmp_path / "scores")
    part = tmp_path / "scores" / "part-00001.parquet"
    if damage == "removed":
        part.unlink()
    else:
        part.write_bytes(part.read_bytes()[:-9] + (b"" if damage == "cut" else b"x" * 9))
    with pytest.warns(UserWarning, match="part-00001.parquet is not as it was written, and is made anew"):
        assert run().n_before == 3
    assert content(tmp_path / "scores") == before


@pytest.mark.parametrize(
    "damaged",
    [b"", b"{", b"[]", b"{}", b'{"format": "captum_dig.scores", "format_version": 1, "run": 3, "parts": {}}', b"\xff"],
)
def test_a_damaged_manifest_is_refused(explainer, tmp_path, data, damaged):
    run = partial(explain_table, explainer, data, tmp_path / "scores", **QUICK)
    run()
    (tmp_path / "scores" / MANIFEST).write_bytes(damaged)
    with pytest.raises(ValueError, match="_manifest.json must be as it was written, .* is damaged"):
        run()


def test_another_run_is_refused_by_name(explainer, tmp_path, data):
    run = partial(explain_table, explainer, data, tmp_path / "scores", **QUICK)
    run()
    for change, told in [
        ({"n_steps": 9}, "n_steps was 8 and is 9 now"),
        ({"strategy": "greedy"}, "method was"),
        ({"target": "POSITIVE"}, "target was 'predicted' and is 'POSITIVE' now"),
        ({"baseline": "mask"}, "baseline was"),
        ({"overflow": "error"}, "overflow was 'truncate' and is 'error' now"),
        ({"limit": 2}, "n_rows was 5 and is 2 now"),
        ({"keep": ["id"]}, "keep was [] and is ['id'] now"),
        ({"rows_per_part": 2}, "rows_per_part was 256 and is 2 now"),
        ({"file_format": "jsonl"}, "file_format was 'parquet' and is 'jsonl' now"),
    ]:
        with pytest.raises(ValueError, match=re.escape(told)):
            run(**change)
    run(batch_size=3, internal_batch_size=7, window=4, errors="record")
    with pytest.raises(ValueError, match="fingerprint was"):
        explain_table(TextExplainer.demo(output="probability"), data, tmp_path / "scores", **QUICK)
    data.write_text(data.read_text().replace("Dull", "Dumb"))
    with pytest.raises(ValueError, match="input was"):
        run()


def test_a_run_that_was_killed_before_its_first_file_goes_on(explainer, tmp_path, data):
    left = tmp_path / "scores" / ".captum-dig-0123456789abcdef.part"
    left.parent.mkdir()
    left.write_bytes(b"half")
    assert explain_table(explainer, data, tmp_path / "scores", **QUICK).n_rows > 0
    explain_table(explainer, data, tmp_path / "whole", **QUICK)
    assert content(tmp_path / "scores") == content(tmp_path / "whole")


def test_folders_of_others_are_refused(explainer, tmp_path, data):
    run = partial(explain_table, explainer, data, **QUICK)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("keep me")
    with pytest.raises(ValueError, match=r"out must be a new folder or that of the same run, got .* with 'notes.txt'"):
        run(tmp_path / "mine")
    with pytest.raises(ValueError, match="out must be a folder, got the file"):
        run(data)
    started, go_on = threading.Event(), threading.Event()

    def wait(*_):
        started.set()
        go_on.wait(30)

    thread = threading.Thread(target=lambda: run(tmp_path / "scores", progress=wait))
    thread.start()
    try:
        assert started.wait(30)
        with pytest.raises(ValueError, match="out must be a folder that no other process writes"):
            run(tmp_path / "scores")
    finally:
        go_on.set()
        thread.join()


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written(explainer, tmp_path, data):
    (tmp_path / "closed").mkdir(mode=stat.S_IRUSR | stat.S_IXUSR)
    with pytest.raises(OSError, match="denied"):
        explain_table(explainer, data, tmp_path / "closed" / "scores", **QUICK)


def test_a_full_disk_loses_no_finished_part(explainer, tmp_path, data, monkeypatch):
    run = partial(explain_table, explainer, data, rows_per_part=2, **QUICK)
    run(tmp_path / "whole")
    write, written_parts = batches_writer(monkeypatch)
    with pytest.raises(OSError, match="No space left"):
        run(tmp_path / "scores")
    assert written_parts == [0, 1]
    monkeypatch.setattr("captum_dig.datasets.folders.write_whole", write)
    assert run(tmp_path / "scores").n_before == 4
    assert content(tmp_path / "scores") == content(tmp_path / "whole")


def batches_writer(monkeypatch):
    """Let the third part find a full disk."""
    from captum_dig.datasets.folders import write_whole

    parts = []

    def full(path, data, **options):
        if Path(path).name.startswith("part-"):
            if len(parts) == 2:
                raise OSError(28, "No space left on device", str(path))
            parts.append(len(parts))
        write_whole(path, data, **options)

    monkeypatch.setattr("captum_dig.datasets.folders.write_whole", full)
    return write_whole, parts


# ------------------------------------------------------------------------------------- wrong arguments


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"column": "words"}, "column must be one of 'id', 'review', got 'words'"),
        ({"id_column": "key"}, "id_column must be one of 'id', 'review', got 'key'"),
        ({"target_column": "key"}, "target_column must be one of 'id', 'review', got 'key'"),
        ({"keep": ["key"]}, "keep must be one of 'id', 'review', got 'key'"),
        ({"data": "missing.csv"}, "data must be a file that exists, got 'missing.csv'"),
        ({"errors": "skip"}, "errors must be one of 'raise', 'record', got 'skip'"),
        ({"engine": "spark"}, "engine must be one of 'local', 'ray', got 'spark'"),
        ({"workers": 0}, "workers must be an integer of at least 1, got 0"),
        ({"limit": 0}, "limit must be an integer of at least 1, got 0"),
        ({"rows_per_part": 0}, "rows_per_part must be an integer of at least 1, got 0"),
        ({"file_format": "xlsx"}, "file_format must be one of 'parquet', 'jsonl', got 'xlsx'"),
        ({"n_steps": 0}, "n_steps must be an integer of at least 1, got 0"),
        ({"target": "SAD"}, "got 'SAD'"),
    ],
)
def test_wrong_arguments_write_nothing(explainer, tmp_path, data, change, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        explain_table(**{"explainer": explainer, "data": data, "out": tmp_path / "scores", **QUICK, **change})
    assert not list((tmp_path / "scores").glob("[!_]*")) if (tmp_path / "scores").exists() else True
    assert not (tmp_path / "scores" / MANIFEST).exists()


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.txt", "Dull.", "data must end with one of .parquet, .pq, .csv, .tsv, .jsonl, .ndjson, got"),
        ("a.csv", "", "data must have columns with names"),
        ("a.csv", "text\n", "data must have rows"),
        ("a.csv", "text,text\na,b\n", "got 'text' twice; rename one"),
        ("a.csv", 'text\n"open\n', "see whether quotes are closed"),
        ("a.csv", "one,two\na,b\n", "column must name the texts, one of 'one', 'two', got none"),
        ("a.parquet", "PAR1", "data must be Parquet that can be read"),
        ("a.jsonl", "no json\n", "data must have columns with names"),
    ],
)
def test_files_that_hold_no_table(explainer, tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=re.escape(message)):
        explain_table(explainer, tmp_path / name, tmp_path / "scores", **QUICK)
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(ValueError, match="a folder with Parquet files, got .* without any"):
        Table(empty)


def test_columns_that_results_have_cannot_be_kept(explainer, tmp_path):
    data = written(tmp_path / "data.csv", [{"text": "Dull.", "labels": "x"}])
    with pytest.raises(ValueError, match="keep must name other columns than those of results, got 'labels'"):
        explain_table(explainer, data, tmp_path / "scores", keep=["labels"], **QUICK)


def test_extras_that_are_missing_are_named(explainer, tmp_path, data, monkeypatch):
    for name in ("pyarrow", "pyarrow.parquet", "ray"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtraError, match=r"pyarrow must be installed .* run: pip install 'captum-dig\[data\]'"):
        explain_table(explainer, data, tmp_path / "scores", file_format="parquet", **QUICK)
    with pytest.raises(MissingExtraError, match=r"ray must be installed .* run: pip install 'captum-dig\[ray\]'"):
        explain_table(explainer, data, tmp_path / "a", engine="ray", file_format="jsonl", **QUICK)
    explain_table(explainer, data, tmp_path / "b", **QUICK)
    assert (tmp_path / "b" / "part-00000.jsonl").exists()


# ------------------------------------------------------------------------------------------ batches


def test_a_batch_of_columns(explainer):
    explain = ExplainBatch(explainer, column="review", options=QUICK)
    found = explain({"review": TEXTS[:2], "id": [3, 4]})
    assert list(found) == ["review", "id", *RESERVED]
    assert found["id"] == [3, 4]
    assert found["text"] == found["review"] == TEXTS[:2]
    for number in range(2):
        row = {name: values[number] for name, values in found.items()}
        assert TextAttribution.from_row(row).word_scores == pytest.approx(
            explainer.explain(TEXTS[number], **QUICK).word_scores, abs=1e-6
        )


def test_a_batch_is_checked(explainer):
    with pytest.raises(ValueError, match="column must be one of 'review', got 'text'"):
        ExplainBatch(explainer)({"review": ["Dull."]})
    with pytest.raises(ValueError, match="other names than those of results, got 'labels'; rename them"):
        ExplainBatch(explainer)({"text": ["Dull."], "labels": [1]})
    with pytest.raises(TypeError, match="row 0: the text must be a string"):
        ExplainBatch(explainer, errors="raise", options=QUICK)({"text": [None]})
    assert ExplainBatch(explainer)({"text": []})["text"] == []


def test_a_batch_explainer_is_sent_without_its_model():
    explain = ExplainBatch(TextExplainer.demo, options=QUICK)
    assert len(pickle.dumps(explain)) < 1000
    explain({"text": ["Dull."]})
    assert len(pickle.dumps(explain)) < 1000
    assert copy.deepcopy(explain) == explain


def test_ranked_tables_are_stored_once_at_the_end(tmp_path):
    explain = ExplainBatch(partial(TextExplainer.demo, cache=tmp_path), options={"n_steps": 4, "strategy": "greedy"})
    for text in TEXTS[:3]:
        explain({"text": [text]})
    assert not list(tmp_path.iterdir())
    del explain
    assert len(list(tmp_path.iterdir())) == 1


def test_tables_ranked_by_a_run_are_stored(tmp_path, data):
    make = partial(TextExplainer.demo, cache=tmp_path / "cache")
    explain_table(make, data, tmp_path / "scores", rows_per_part=1, n_steps=4, strategy="greedy")
    assert len(list((tmp_path / "cache").iterdir())) == 1
