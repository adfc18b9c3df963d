"""Rows: a result as one flat, typed row of a table, and back.

Takes the fields of a `TextAttribution` by name; gives columns of strings, numbers, and lists of these.
`captum_dig.datasets` writes rows to files, and `COLUMNS` documents them.
"""

import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from captum_dig.records import from_json, show, to_json


class Column(NamedTuple):
    """One column of a row.

    Attributes:
        name: Its name.
        kind: Its type, in the words of Arrow, such as ``"list<double>"``.
        about: One line of explanation.
    """

    name: str
    kind: str
    about: str


COLUMNS: Final = (
    Column("text", "string", "The text; the fields of a sample are on lines of their own."),
    Column("target", "string", "The name of the explained class, answer or word."),
    Column("target_index", "int64", "Its place in `labels`."),
    Column("probability", "double", "Its probability; null for a regression."),
    Column("predicted", "string", "The name of the most probable class."),
    Column("value", "double", "The explained number, in the unit of the setting `output`."),
    Column("baseline_value", "double", "The explained number at the baseline."),
    Column("words", "list<string>", "The words of the text."),
    Column("word_scores", "list<double>", "What each word adds to the explained number."),
    Column("word_errors", "list<double>", "The error of each of these scores; null where there is none."),
    Column("word_starts", "list<int64>", "Where each word begins in the text, in characters."),
    Column("word_ends", "list<int64>", "Where each word ends."),
    Column("tokens", "list<string>", "The tokens that the model read."),
    Column("token_scores", "list<double>", "What each token adds."),
    Column("token_ids", "list<int64>", "The id of each token."),
    Column("token_starts", "list<int64>", "Where each token begins in the text; 0 for special tokens."),
    Column("token_ends", "list<int64>", "Where each token ends."),
    Column("special", "list<bool>", "Whether the tokenizer added the token."),
    Column("anchors", "list<list<string>>", "The words that the path of each token passes."),
    Column("labels", "list<string>", "The names that the model decides between."),
    Column("probabilities", "list<double>", "Their probabilities; null for a regression."),
    Column("fields", "list<string>", "The names of the fields in the text; empty for a single one."),
    Column("field_starts", "list<int64>", "Where each field begins in the text."),
    Column("field_ends", "list<int64>", "Where each field ends."),
    Column("span_start", "int64", "Where the explained part of the text begins; null for all of it."),
    Column("span_end", "int64", "Where it ends."),
    Column("start", "int64", "Where the text begins in a longer one that was cut into windows."),
    Column("truncated", "int64", "The number of tokens that were cut off."),
    Column("baseline", "string", "The baseline token."),
    Column("even_baseline", "string", "A baseline nearer to even odds, where this one is far from them."),
    Column("even_probability", "double", "The probability there."),
    Column("n_gradients", "int64", "The gradients that were taken."),
    Column("error_percent", "double", "The estimated error of the integration, in percent of the scores' sizes."),
    Column(
        "spread_percent", "double", "The sum of the standard errors over the orders, in percent of the scores' sizes."
    ),
    Column("converged", "bool", "Whether both errors came within their tolerances; null for a fixed number of steps."),
    Column("settings", "string", "The other settings, as JSON."),
    Column("settings_hash", "string", "The hash of these; rows with another one are not comparable."),
    Column("error_kind", "string", "The class of the error that took the place of a result; else null."),
    Column("error", "string", "Its message; else null."),
)

# Settings that may differ between the texts of one run have columns of their own.
_OF_TEXTS: Final = {"n_steps": "n_gradients", "baseline": "baseline"}
# Columns that are a field of a result under the same name, or under another.
_SAME: Final = (
    *("text", "word_scores", "word_errors", "tokens", "token_scores", "token_ids", "special", "anchors", "labels"),
    *("probabilities", "start", "truncated", "error_percent", "spread_percent", "converged", "baseline_value"),
)
_RENAMED: Final = {"target": "target_index", "input_value": "value"}
_PAIRS: Final = {"word_offsets": ("word_starts", "word_ends"), "offsets": ("token_starts", "token_ends")}
_FIELDS: Final = ("fields", "field_starts", "field_ends")
# In tables that have no null among numbers, NaN stands for null in all columns but these.
_NEVER_NULL: Final = ("value", "baseline_value")


def flatten(values: Mapping[str, Any], settings: Mapping[str, Any], derived: Mapping[str, Any]) -> dict[str, Any]:
    """Make a row.

    Args:
        values: The fields of a result.
        settings: The fields of its settings.
        derived: Further columns, which `unflatten` does not read.

    Returns:
        The value of each column of `COLUMNS`.
    """
    told = json.dumps({name: value for name, value in settings.items() if name not in _OF_TEXTS}, sort_keys=True)
    row = {name: values[name] for name in _SAME}
    row |= {column: values[name] for name, column in _RENAMED.items()}
    for name, columns in _PAIRS.items():
        row |= _columns(columns, values[name])
    row |= _columns(_FIELDS, values["fields"])
    row |= dict(zip(("span_start", "span_end"), values["span"] or (None, None), strict=True))
    row |= dict(zip(("even_baseline", "even_probability"), values["even_baseline"] or (None, None), strict=True))
    row |= {column: settings[name] for name, column in _OF_TEXTS.items()}
    row |= {"settings": told, "settings_hash": hashlib.sha256(told.encode()).hexdigest()[:16]}
    row |= {"error_kind": None, "error": None, **derived}
    row["probabilities"] = [None if math.isnan(one) else one for one in values["probabilities"]]
    return {column.name: _plain(row[column.name]) for column in COLUMNS}


def failed(text: str | None, error: Exception) -> dict[str, Any]:
    """Make a row of a text without a result; all columns but the text and the error are null."""
    nothing = dict.fromkeys(column.name for column in COLUMNS)
    return nothing | {"text": text, "error_kind": type(error).__name__, "error": str(error)}


def unflatten(row: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Give back the fields of a result and of its settings.

    Args:
        row: A row, also after a round trip through a file. Columns that `COLUMNS` does not know are not read.

    Raises:
        TypeError: If it is no mapping.
        ValueError: If it holds an error, a column is missing, or the settings cannot be read.
    """
    if not isinstance(row, Mapping):
        raise TypeError(f"row must be a mapping, got {type(row).__name__}; pass what to_row gave")
    if missing := [column.name for column in COLUMNS if column.name not in row]:
        raise ValueError(f"row must hold every column, got none of {', '.join(missing)}; pass what to_row gave")
    data = {column.name: _read(row[column.name], column) for column in COLUMNS}
    if data["error"] is not None:
        raise ValueError(f"row must hold a result, got an error: {data['error']}; take rows whose error is null")
    try:
        settings = json.loads(data["settings"])
        settings |= {name: data[column] for name, column in _OF_TEXTS.items()}
    except (TypeError, ValueError) as error:
        raise ValueError(f"settings must be as to_row wrote them, got {show(data['settings'])}") from error
    for name in ("probabilities", *_FIELDS, *(name for pair in _PAIRS.values() for name in pair)):
        if not isinstance(data[name], list):
            raise ValueError(f"{name} must hold a list, got {show(data[name])}; pass what to_row gave")
    values = {name: data[name] for name in _SAME} | {name: data[column] for name, column in _RENAMED.items()}
    for name, (starts, ends) in _PAIRS.items():
        values[name] = list(zip(data[starts], data[ends], strict=True))
    values["fields"] = list(zip(*(data[name] for name in _FIELDS), strict=True))
    values["span"] = None if data["span_start"] is None else (data["span_start"], data["span_end"])
    even = data["even_baseline"]
    values["even_baseline"] = None if even is None else (even, data["even_probability"])
    values["probabilities"] = [math.nan if one is None else one for one in values["probabilities"]]
    return values, settings


def json_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Replace the numbers that strict JSON lacks by their names, which `unflatten` reads."""
    return {
        name: [to_json(one) for one in value] if isinstance(value, list) else to_json(value)
        for name, value in row.items()
    }


def _columns(names: tuple[str, ...], items: tuple[tuple[Any, ...], ...]) -> dict[str, list[Any]]:
    """Turn records into columns."""
    return {name: [item[place] for item in items] for place, name in enumerate(names)}


def _plain(value: Any) -> Any:
    """Turn tuples into lists."""
    return [_plain(item) for item in value] if isinstance(value, tuple | list) else value


def _read(value: Any, column: Column) -> Any:
    """Undo the changes that files and tables make: to arrays, to null, and to numbers that JSON lacks."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if "double" in column.kind:
        value = from_json(value)
    if isinstance(value, float) and math.isnan(value) and column.name not in _NEVER_NULL:
        return None
    return int(value) if column.kind == "int64" and isinstance(value, float) else value
