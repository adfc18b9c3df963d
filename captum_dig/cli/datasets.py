"""Texts that commands read: typed ones, files, and data sets on the hub.

Takes what a person names; gives strings, or mappings where each text has several fields. `explain` and `compare` share
one reader, so that a file holds the same texts for both.
"""

import csv
import io
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, TextIO, TypeAlias

from captum_dig.cli.files import DASH
from captum_dig.models.samples import TEXT_COLUMNS

_TABLES = (".csv", ".tsv")
_RECORDS = (".jsonl", ".ndjson")
_PARQUET = (".parquet", ".pq")
# Tables and pages that are no lines of text, and that nothing here reads.
_OTHERS = (".json", ".xlsx", ".xls", ".ods", ".feather", ".arrow", ".xml", ".html", ".htm")
# No longer than what a C long holds on every platform.
_LONGEST_FIELD = 2**31 - 1


# The columns of a table: one name for the texts, or the name of each field's column. None is found by itself.
Columns: TypeAlias = str | Mapping[str, str] | None


def read_texts(texts: Sequence[str], file: Path | None, column: Columns = None) -> list[Any]:
    """Give the texts that were typed, then those of a file that are not blank.

    Args:
        texts: The typed ones.
        file: A file, read by its ending as in `read_dataset`; ``-`` for lines of standard input; None for none.
        column: The column of the texts, where the file is a table; or the columns of their fields.

    Returns:
        The texts, or for several fields a mapping for each.

    Raises:
        ValueError: If there is no text, or the file cannot be read.
    """
    for text in texts:
        if text != text.encode("utf-8", "ignore").decode("utf-8"):
            raise ValueError(f"TEXT must be UTF-8, got {text!r}; set the terminal to UTF-8, or use --file")
    if column is not None and (file is None or file.suffix.casefold() not in _TABLES + _RECORDS + _PARQUET):
        got = "no file" if file is None else repr(str(file))
        raise ValueError(
            f"--column must come with a table (.csv, .tsv, .jsonl, .parquet), got {got}; name one with --file"
        )
    if file is None:
        if not texts:
            raise ValueError("TEXT must be given, got nothing; type a sentence in quotes, or name a file with --file")
        return list(texts)
    read = [text for text in _from_file("--file", file, column) if _holds(text)]
    if not read:
        raise ValueError(f"--file must hold at least one text, got {_shown(file)} without any; write one text a line")
    return [*texts, *read]


def _holds(text: str | Mapping[str, str]) -> bool:
    """Whether a text, or one of its fields, is not blank."""
    return bool(text.strip()) if isinstance(text, str) else any(value.strip() for value in text.values())


def read_dataset(name: str, split: str, column: Columns, n: int) -> list[Any]:
    """Read the first texts of a data set.

    Args:
        name: A file, read by its ending: ``.csv`` and ``.tsv`` tables, with a row of names, or with texts in the first
            column and numbers in others; ``.jsonl`` lines of JSON; any other, one text a line. Or a data set's name on
            the Hugging Face hub.
        split: The split of a data set on the hub.
        column: The column of the texts, or the columns of their fields; None for one called text, sentence, review or
            content.
        n: How many texts.

    Returns:
        The texts, without those that are blank.

    Raises:
        ValueError: If there is no such data set, it holds no text, or its column of texts is not known.
    """
    path = Path(name)
    if path.is_file():
        texts = _from_file("--data", path, column)
    elif path.exists() or path.suffix or name.startswith((".", "/", "~")):
        raise ValueError(f"--data must be a file or the name of a data set on the hub, got {name!r}, which is neither")
    else:
        texts = _from_hub(name, split, column)
    found = list(islice((text.strip() if isinstance(text, str) else text for text in texts if _holds(text)), n))
    if not found:
        raise ValueError(f"--data must hold at least one text, got {name!r} without any")
    return found


def _from_file(option: str, path: Path, column: Columns) -> Iterator[Any]:
    ending = path.suffix.casefold()
    if ending in _OTHERS:
        raise ValueError(
            f"{option} must hold one text a line, or be a table (.csv, .tsv, .jsonl, .parquet), got {_shown(path)}; "
            "save it as one of these"
        )
    if ending in _PARQUET:
        from captum_dig.datasets.tables import Table

        yield from _from_records(option, Table(path).rows(), column)
        return
    try:
        with _opened(path) as file:
            if ending in _TABLES:
                yield from _from_rows(_commas(file) if ending == ".csv" else _tabs(file), column)
            elif ending in _RECORDS:
                records = (json.loads(line) for line in file if line.strip())
                yield from _from_records(option, records, column)
            else:
                yield from _lines(option, path, file)
    except UnicodeDecodeError as error:
        place = _broken_byte(path, error)
        raise ValueError(f"{option} must be UTF-8 text, got {_shown(path)}{place}; save it as UTF-8") from error
    except OSError as error:
        problem = error.strerror or str(error)
        raise ValueError(f"{option} must be a file that can be read, got {_shown(path)}: {problem}") from error
    except csv.Error as error:
        raise ValueError(
            f"{option} must be a table that can be read, got {_shown(path)}: {error}; see whether quotes are closed"
        ) from error
    except (RecursionError, json.JSONDecodeError) as error:
        raise ValueError(f"{option} must hold one JSON object a line, got {_shown(path)}: {error}") from error


def _shown(path: Path) -> str:
    return "standard input" if path == DASH else repr(str(path))


@contextmanager
def _opened(path: Path) -> Iterator[TextIO]:
    if path.is_file():
        with path.open(newline="", encoding="utf-8-sig") as file:
            yield file
        return
    # A pipe is read once. Who closes standard input leaves None.
    data = path.read_bytes() if path != DASH else sys.stdin.buffer.read() if sys.stdin else b""
    yield io.StringIO(data.decode("utf-8-sig"), newline="")


def _broken_byte(path: Path, error: UnicodeDecodeError) -> str:
    """Say where the first byte stands that is not UTF-8; a file's error knows the place in a block."""
    data = path.read_bytes() if path.is_file() else error.object
    try:
        data.decode()
    except UnicodeDecodeError as first:
        return f" with byte 0x{data[first.start]:02x} in line {1 + data.count(10, 0, first.start)}"
    return ""


def _lines(option: str, path: Path, file: TextIO) -> Iterator[str]:
    """Lines of text, after a look at the first: that of a table would be explained as a text."""
    lines = (line.rstrip("\r\n") for line in file)
    first = next(lines, "")
    cells = [cell.strip().strip('"').casefold() for cell in first.replace("\t", ",").split(",")]
    if len(cells) > 1 and any(name in cells for name in TEXT_COLUMNS):
        kind = "csv" if "\t" not in first else "tsv"
        raise ValueError(
            f"{option} must hold one text a line, got {_shown(path)}, which begins as a table: {first.strip()!r}; "
            f"name it .{kind}, or take this line away"
        )
    if first.lstrip().startswith('{"') and _is_record(first):
        raise ValueError(f"{option} must hold one text a line, got {_shown(path)}, which holds JSON; name it .jsonl")
    yield first
    yield from lines


def _is_record(line: str) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (RecursionError, ValueError):
        return False


def _tabs(file: TextIO) -> Iterator[list[str]]:
    # A tab-separated line quotes nothing: its texts hold quotes of their own.
    return (line.rstrip("\r\n").split("\t") for line in file if line.strip("\r\n"))


def _commas(file: TextIO) -> Iterator[list[str]]:
    limit = csv.field_size_limit(_LONGEST_FIELD)
    try:
        # Strict, because a quote that is left open makes one text of all that follow.
        yield from csv.reader(file, strict=True)
    finally:
        csv.field_size_limit(limit)


def _from_rows(rows: Iterator[list[str]], column: Columns) -> Iterator[Any]:
    head = next(rows, [])
    names = [name.strip().casefold() for name in head]
    if isinstance(column, Mapping):
        places = {field: _place(head, names, one) for field, one in column.items()}
        for row in rows:
            if len(row) > max(places.values()):
                yield {field: row[place] for field, place in places.items()}
        return
    wanted = TEXT_COLUMNS if column is None else (column.strip().casefold(),)
    place = next((names.index(name) for name in wanted if name in names), None)
    if column is not None:
        place = _place(head, names, column)
    if place is None and names[1:] and not any(name.lstrip("-").isdigit() for name in names):
        # Without a number in it, a first row of several columns is most likely one of names.
        raise ValueError(
            f"--column must name the texts, one of {', '.join(map(repr, head))}, got none; "
            "or give the table a first row of names"
        )
    if place is None and head:
        # No row of names: texts come first.
        yield head[0]
    for row in rows:
        if len(row) > (place or 0):
            yield row[place or 0]


def _place(head: Sequence[str], names: Sequence[str], column: str) -> int:
    """The place of a column by its name, in any case."""
    if column.strip().casefold() not in names:
        raise ValueError(f"--column must be one of {', '.join(map(repr, head))}, got {column!r}")
    return names.index(column.strip().casefold())


def _from_records(option: str, records: Iterable[Any], column: Columns) -> Iterator[Any]:
    for record in records:
        if not isinstance(record, dict):
            raise ValueError(f"{option} must hold one JSON object a line, got {type(record).__name__}")
        names = list(record)
        if isinstance(column, Mapping):
            missing = next((one for one in column.values() if one not in names), None)
            if missing is not None:
                raise ValueError(f"--column must be one of {', '.join(map(repr, names))}, got {missing!r}")
            yield {field: str(record[one]) for field, one in column.items() if record[one] is not None}
            continue
        name = column if column is not None else next((name for name in TEXT_COLUMNS if name in names), None)
        if name not in names:
            listed = ", ".join(map(repr, names)) or "none"
            raise ValueError(f"--column must name the texts, one of {listed}, got {column!r}")
        if record[name] is not None:
            yield str(record[name])


def _from_hub(name: str, split: str, column: Columns) -> Iterator[Any]:
    try:
        import datasets  # type: ignore[import-not-found]  # only where there is a network
    except ImportError:
        raise ValueError(
            f"--data must be a file, got {name!r}; for data sets on the hub, run: pip install datasets"
        ) from None
    try:
        records = datasets.load_dataset(name, split=split, streaming=True)
    except (OSError, ValueError) as error:
        raise ValueError(f"--data must name a data set with the split {split!r}, got {name!r}: {error}") from error
    yield from _from_records("--data", records, column)
