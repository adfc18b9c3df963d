"""A result as a flat row, through files and data frames, and back."""

import math
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given

from captum_dig import TextAttribution, TextExplainer
from captum_dig.text.rows import COLUMNS, failed, json_row
from tests.text.test_results import result as make
from tests.text.test_results import results, through_json

RESULT = make()


def through_arrow(row):
    arrow = pytest.importorskip("pyarrow")
    from captum_dig.datasets.schema import arrow_schema

    (back,) = arrow.Table.from_pylist([row], schema=arrow_schema()).to_pylist()
    return back


def through_numpy(row):
    """As a data frame holds them: arrays, and NaN for a missing number."""
    lists = {name: np.array(value, dtype=object) for name, value in row.items() if isinstance(value, list)}
    nothing = {name: math.nan for name, value in row.items() if value is None}
    floats = {name: float(value) for name, value in row.items() if type(value) is int}
    return row | lists | nothing | floats


RARE = {
    "regression": {"probabilities": (math.nan, math.nan)},
    "infinite": {"baseline_value": -math.inf, "input_value": math.nan},
    "errors": {
        "word_errors": (0.5, 0.25, 0.0),
        "error_percent": 3.5,
        "spread_percent": 7.5,
        "converged": True,
        "span": (0, 1),
    },
    "even": {"even_baseline": ("mask", 0.4), "truncated": 3, "start": 7},
    "fields": {"fields": (("text", 0, 3), ("text_pair", 5, 12))},
}


def strict(row):
    return through_json(json_row(row))


@pytest.mark.parametrize("through", [dict, strict, through_arrow, through_numpy])
@pytest.mark.parametrize("changes", RARE.values(), ids=RARE)
def test_a_row_gives_the_result_back(changes, through):
    first = make(**changes)
    row = through(first.to_row())
    assert TextAttribution.from_row(row) == first
    assert TextAttribution.from_row({"id": "a", "row": 3} | row) == first


@given(results())
def test_a_row_of_any_result_gives_it_back(first):
    row = first.to_row()
    assert TextAttribution.from_row(row) == first
    assert TextAttribution.from_row(strict(row)) == first
    assert list(row) == [column.name for column in COLUMNS]


@pytest.mark.parametrize("changes", RARE.values(), ids=RARE)
def test_a_row_holds_the_types_of_its_columns(changes):
    types = {"string": str, "int64": int, "double": float, "bool": bool}
    row = make(**changes).to_row()
    for column in COLUMNS:
        value = row[column.name]
        if column.kind.startswith("list<list"):
            assert all(isinstance(one, str) for inner in value for one in inner)
        elif column.kind.startswith("list"):
            kind = types[column.kind[5:-1]]
            assert value is None or all(one is None or type(one) is kind for one in value)
        else:
            assert value is None or type(value) is types[column.kind]


def test_the_hash_of_settings_tells_runs_apart():
    one = RESULT.to_row()
    more = replace(RESULT, settings=replace(RESULT.settings, n_steps=99, baseline="mask")).to_row()
    other = replace(RESULT, settings=replace(RESULT.settings, output="probability")).to_row()
    assert one["settings_hash"] == more["settings_hash"] != other["settings_hash"]
    assert more["n_gradients"] == 99
    assert more["baseline"] == "mask"


@pytest.mark.parametrize(
    ("row", "error", "message"),
    [
        (7, TypeError, "row must be a mapping, got int; pass what to_row gave"),
        ({"text": "a"}, ValueError, "row must hold every column, got none of target, target_index"),
        (failed("a", ValueError("too long")), ValueError, "row must hold a result, got an error: too long"),
        (RESULT.to_row() | {"settings": "{"}, ValueError, "settings must be as to_row wrote them, got '{'"),
        (RESULT.to_row() | {"settings": None}, ValueError, "settings must be as to_row wrote them, got None"),
        (RESULT.to_row() | {"settings": "{}"}, ValueError, "settings must hold every field"),
        (RESULT.to_row() | {"word_scores": [1.0]}, ValueError, "word_scores must be as long as word_offsets"),
        (RESULT.to_row() | {"tokens": [3]}, TypeError, "tokens[0] must be a string, got 3"),
        (RESULT.to_row() | {"tokens": None}, TypeError, "tokens must be a sequence, got None"),
        (RESULT.to_row() | {"word_ends": None}, ValueError, "word_ends must hold a list, got None"),
    ],
)
def test_rows_that_hold_no_result(row, error, message):
    with pytest.raises(error, match=re.escape(message)):
        TextAttribution.from_row(row)


def test_rows_of_real_results():
    explainer = TextExplainer.demo()
    for result in explainer.explain(["A gorgeous movie.", "", "Not bad \N{PILE OF POO} at all."], n_steps=8):
        assert TextAttribution.from_row(strict(result.to_row())) == result
