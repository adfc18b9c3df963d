"""The words of a data set: sums by hand, intervals, bounded memory, and pages."""

import io
import math
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from captum_dig import TextExplainer
from captum_dig.datasets.pages import summary_page, summary_tables
from captum_dig.datasets.running import explain_table
from captum_dig.datasets.summary import summarize
from captum_dig.text.rows import failed


def row(words, scores, target="POSITIVE", **changes):
    return {
        "text": " ".join(words),
        "target": target,
        "words": list(words),
        "word_scores": list(scores),
        "value": float(sum(scores)),
        "baseline_value": 0.0,
        "error_percent": None,
        "settings_hash": "same",
        "error_kind": None,
        "error": None,
        **changes,
    }


texts = st.lists(st.lists(st.tuples(st.sampled_from("abcDd"), st.floats(-5, 5)), max_size=6), min_size=1, max_size=12)


@given(texts)
def test_sums_are_those_of_a_loop(drawn):
    rows = [row([word for word, _ in text], [score for _, score in text]) for text in drawn]
    (group,) = summarize(rows).groups
    assert group.n_texts == len(drawn)
    scores = {}
    for number, text in enumerate(drawn):
        for word, score in text:
            scores.setdefault(word.casefold(), {}).setdefault(number, []).append(score)
    assert group.n_words == len(scores) == len(group.words)
    for word in group.words:
        by_text = scores[word.word]
        each = [score for found in by_text.values() for score in found]
        assert (word.count, word.n_texts) == (len(each), len(by_text))
        assert word.total == pytest.approx(sum(each), abs=1e-9)
        assert word.mean == pytest.approx(np.mean(each), abs=1e-9)
        assert word.spread == pytest.approx(np.std([sum(found) for found in by_text.values()]), abs=1e-6)
        assert math.isinf(word.half_width) == (len(by_text) < 5)
    assert [word.total for word in group.words] == sorted((word.total for word in group.words), reverse=True)


def test_the_interval_is_that_of_a_bootstrap_over_texts():
    draw = np.random.default_rng(0)
    counts = draw.integers(1, 4, size=60)
    of_texts = [draw.normal(0.5, 1.0, size=n) + draw.normal(0, 1.0) for n in counts]
    (group,) = summarize(row(["so"] * len(scores), scores) for scores in of_texts).groups
    sums = np.array([scores.sum() for scores in of_texts])
    chosen = draw.integers(0, 60, size=(4000, 60))
    means = sums[chosen].sum(axis=1) / counts[chosen].sum(axis=1)
    assert group.words[0].half_width == pytest.approx(1.96 * means.std(), rel=0.08)


def test_words_may_keep_their_case():
    rows = [row(["Good", "good"], [1.0, 2.0])]
    assert [word.word for word in summarize(rows).groups[0].words] == ["good"]
    assert {word.word: word.total for word in summarize(rows, fold_case=False).groups[0].words} == {
        "Good": 1.0,
        "good": 2.0,
    }


def test_labels_are_told_apart():
    rows = [row(["good"], [1.0]), row(["good"], [-2.0], "NEGATIVE"), row(["good"], [3.0])]
    found = summarize(rows)
    assert [(group.label, group.n_texts, group.words[0].total) for group in found.groups] == [
        ("POSITIVE", 2, 4.0),
        ("NEGATIVE", 1, -2.0),
    ]
    with pytest.warns(UserWarning, match="scores of 2 different labels are added up, NEGATIVE, POSITIVE"):
        (group,) = summarize(rows, by="nothing").groups
    assert group.words[0].total == 2.0


def test_runs_that_are_not_comparable_are_named():
    with pytest.warns(UserWarning, match="scores must be of one run to be added up, got 2 different settings"):
        assert summarize([row(["a"], [1.0]), row(["a"], [1.0], settings_hash="other")]).n_settings == 2


def test_memory_is_bounded():
    rows = (row([f"rare{n}", "often"], [1.0, 2.0]) for n in range(1000))
    (group,) = summarize(rows, most_words=50).groups
    assert group.n_words <= 101
    assert group.n_dropped >= 900 - 1
    assert group.words[0].word == "often"
    assert group.words[0].count == 1000


def test_examples_and_uncertain_texts():
    rows = [row(["so", "so"], [score, 0.1], error_percent=10.0 * score, row=7 + score) for score in (1, -3, 2, 0.5)]
    found = summarize(rows, n_examples=2)
    examples = found.groups[0].words[0].examples
    assert [(example.score, example.row) for example in examples] == [(-3, 4), (2, 9)]
    assert [one.score for one in found.uncertain] == [20.0, 10.0, 5.0, -30.0]


def test_errors_are_counted_by_kind():
    rows = [row(["a"], [1.0]), failed(None, ValueError("x")), failed("b", TypeError("y")), failed("c", ValueError("z"))]
    assert summarize({"row": n} | one for n, one in enumerate(rows)).errors == {"TypeError": 1, "ValueError": 2}
    with pytest.raises(ValueError, match="scores must hold a result, got 1 rows without one"):
        summarize([failed("a", ValueError("x"))])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"by": "word"}, "by must be one of 'label', 'nothing', got 'word'"),
        ({"top": 0}, "top must be an integer of at least 1, got 0"),
        ({"most_words": 0}, "most_words must be an integer of at least 1, got 0"),
    ],
)
def test_wrong_arguments(arguments, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        summarize([row(["a"], [1.0])], **arguments)


@pytest.mark.parametrize("file_format", ["parquet", "jsonl"])
def test_a_folder_gives_the_sums_of_its_rows(tmp_path, file_format):
    pytest.importorskip("pyarrow")
    data = tmp_path / "data.csv"
    data.write_text("text\nA gorgeous movie.\nDull.\nA dull movie.\n")
    explainer = TextExplainer.demo()
    quick = {"n_steps": 8, "strategy": "straight_line"}
    explain_table(explainer, data, tmp_path / "scores", file_format=file_format, rows_per_part=2, **quick)
    found = summarize(tmp_path / "scores")
    results = explainer.explain(["A gorgeous movie.", "Dull.", "A dull movie."], **quick)
    own = summarize(result.to_row() for result in results)
    assert found.n_rows == 3
    for group, other in zip(found.groups, own.groups, strict=True):
        assert (group.label, group.n_texts) == (other.label, other.n_texts)
        assert [word.word for word in group.words] == [word.word for word in other.words]
        assert [word.total for word in group.words] == pytest.approx([word.total for word in other.words], abs=1e-6)
    with pytest.raises(ValueError, match=r"scores must be a folder with _manifest.json, got .* without it"):
        summarize(tmp_path)


def test_pages_escape_what_texts_hold():
    words = ["<script>", "\x1b[31m", "good"]
    rows = [row(words, [1.0, -2.0, 3.0], "<b>", error_percent=3.0) for _ in range(6)]
    found = summarize(rows)
    page = summary_page(found)
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert "&lt;b&gt;" in page
    assert "\x1b" not in page
    console = Console(width=60, record=True, file=io.StringIO())
    for part in summary_tables(found):
        console.print(part)
    shown = console.export_text()
    assert "\x1b" not in shown
    assert "good" in shown
    assert "+18.00" in shown


def test_words_without_a_settled_sign_are_pale():
    rows = [row(["sure", "unsure"], [1.0 + 0.01 * n, (-1.0) ** n]) for n in range(8)]
    found = summarize(rows)
    by_word = {word.word: word for word in found.groups[0].words}
    assert by_word["sure"].is_settled
    assert not by_word["unsure"].is_settled
    assert summary_page(found).count('<tr class="cdig-faint">') == 1
    assert not replace(by_word["sure"], half_width=math.inf).is_settled
