"""Texts of a data set: a file, or a name on the hub."""

import csv
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from captum_dig.models.encoding import TEXT_COLUMNS


def read_dataset(name: str, split: str, column: str | None, n: int) -> list[str]:
    """Read the first texts of a data set.

    Args:
        name: A file, read by its ending: ``.csv`` and ``.tsv`` tables, with a row of names, or with texts in the first
            column and numbers in others; ``.jsonl`` lines of JSON; any other, one text a line. Or a data set's name on
            the Hugging Face hub.
        split: The split of a data set on the hub.
        column: The column of the texts; None for one called text, sentence, review or content.
        n: How many texts.

    Returns:
        The texts, without those that are blank.

    Raises:
        ValueError: If there is no such data set, it holds no text, or its column of texts is not known.
    """
    path = Path(name)
    if path.is_file():
        texts = _from_file(path, column)
    elif path.exists() or path.suffix or name.startswith((".", "/", "~")):
        raise ValueError(f"--data must be a file or the name of a data set on the hub, got {name!r}, which is neither")
    else:
        texts = _from_hub(name, split, column)
    found = []
    for text in texts:
        if text.strip():
            found.append(text.strip())
        if len(found) == n:
            break
    if not found:
        raise ValueError(f"--data must hold at least one text, got {name!r} without any")
    return found


def _from_file(path: Path, column: str | None) -> Iterator[str]:
    ending = path.suffix.casefold()
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            if ending in (".csv", ".tsv"):
                # A tab-separated line quotes nothing: its texts hold quotes of their own.
                tabs = csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
                # Strict, because a quote that is left open makes one text of all that follow.
                commas = csv.reader(file, strict=True)
                yield from _from_rows(commas if ending == ".csv" else tabs, column)
            elif ending in (".jsonl", ".ndjson"):
                records = (json.loads(line) for line in file if line.strip())
                yield from _from_records(records, column)
            else:
                yield from file
    except UnicodeDecodeError as error:
        raise ValueError(f"--data must be UTF-8 text, got {str(path)!r}; save it as UTF-8") from error
    except csv.Error as error:
        raise ValueError(
            f"--data must be a table that can be read, got {str(path)!r}: {error}; see whether quotes are closed"
        ) from error
    except (RecursionError, json.JSONDecodeError) as error:
        raise ValueError(f"--data must hold one JSON object a line, got {str(path)!r}: {error}") from error


def _from_rows(rows: Iterator[list[str]], column: str | None) -> Iterator[str]:
    head = next(rows, [])
    names = [name.strip().casefold() for name in head]
    wanted = TEXT_COLUMNS if column is None else (column.strip().casefold(),)
    place = next((names.index(name) for name in wanted if name in names), None)
    if column is not None and place is None:
        raise ValueError(f"--column must be one of {', '.join(map(repr, head))}, got {column!r}")
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


def _from_records(records: Iterable[Any], column: str | None) -> Iterator[str]:
    for record in records:
        if not isinstance(record, dict):
            raise ValueError(f"--data must hold one JSON object a line, got {type(record).__name__}")
        names = list(record)
        name = column if column is not None else next((name for name in TEXT_COLUMNS if name in names), None)
        if name not in names:
            listed = ", ".join(map(repr, names)) or "none"
            raise ValueError(f"--column must name the texts, one of {listed}, got {column!r}")
        if record[name] is not None:
            yield str(record[name])


def _from_hub(name: str, split: str, column: str | None) -> Iterator[str]:
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
    yield from _from_records(records, column)
