"""Tables: rows of a file, read one by one.

Takes a Parquet, CSV, TSV or JSON Lines file, or a folder of Parquet files; gives rows as mappings from names of columns
to values. `captum_dig.datasets.batch` takes the texts out of them.
"""

import csv
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, TextIO

from captum_dig.datasets.schema import extra
from captum_dig.models.samples import TEXT_COLUMNS

Row = Mapping[str, Any]

_PARQUET: Final = (".parquet", ".pq")
_RECORDS: Final = (".jsonl", ".ndjson")
ENDINGS: Final = (*_PARQUET, ".csv", ".tsv", *_RECORDS)
# No longer than a C long holds on every platform.
_LONGEST_CELL: Final = 2**31 - 1
_BLOCK: Final = 2**20
_ROWS_AT_ONCE: Final = 1024


class BrokenRow(dict[str, Any]):
    """A row that cannot be read.

    Attributes:
        problem: The reason.
    """

    def __init__(self, problem: str) -> None:
        super().__init__()
        self.problem = problem


@dataclass(frozen=True)
class Table:
    """A file of rows.

    Attributes:
        path: The file, or a folder of Parquet files.

    Raises:
        ValueError: If there is no such file, or it has another kind.
    """

    path: Path

    def __post_init__(self) -> None:
        if not self.path.exists():
            raise ValueError(f"data must be a file that exists, got {str(self.path)!r}")
        if self.path.is_dir() and not self.files:
            raise ValueError(f"data must be a file, or a folder with Parquet files, got {str(self.path)!r} without any")
        if self.path.is_file() and self.ending not in ENDINGS:
            raise ValueError(
                f"data must end with one of {', '.join(ENDINGS)}, got {str(self.path)!r}; convert it first"
            )

    @property
    def files(self) -> list[Path]:
        """The files in the order of their names."""
        if not self.path.is_dir():
            return [self.path]
        return sorted(file for file in self.path.rglob("*.parquet") if not file.name.startswith((".", "_")))

    @property
    def ending(self) -> str:
        """The ending that tells how to read the files."""
        return ".parquet" if self.path.is_dir() else self.path.suffix.casefold()

    @cached_property
    def names(self) -> list[str]:
        """The names of the columns; for JSON Lines those of the first row.

        Raises:
            ValueError: If the file cannot be read, or two columns have one name.
        """
        if self.ending in _PARQUET:
            names = list(self._parquet(self.files[0]).schema_arrow.names)
        elif self.ending in _RECORDS:
            names = list(next((row for row in self.rows() if not isinstance(row, BrokenRow)), {}))
        else:
            with self._opened() as file:
                names = [name.strip() for name in next(self._cells(file), [])]
        if twice := [name for name in dict.fromkeys(names) if names.count(name) > 1]:
            raise ValueError(f"data must have a name of its own for each column, got {twice[0]!r} twice; rename one")
        if not names:
            raise ValueError(f"data must have columns with names, got {str(self.path)!r} without any")
        return names

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the content."""
        digest = hashlib.sha256()
        for file in self.files:
            with file.open("rb") as stream:
                while block := stream.read(_BLOCK):
                    digest.update(block)
        return digest.hexdigest()

    @cached_property
    def n_rows(self) -> int:
        """The number of rows; other files than Parquet are read to the end, so that a bad one is found early."""
        if self.ending in _PARQUET:
            return sum(self._parquet(file).metadata.num_rows for file in self.files)
        return sum(1 for _ in self.rows())

    def types(self, names: Sequence[str]) -> dict[str, Any]:
        """The types of columns for Arrow; those of text files hold strings."""
        arrow = extra("pyarrow", "data")
        schema = self._parquet(self.files[0]).schema_arrow if self.ending in _PARQUET else None
        return {name: arrow.string() if schema is None else schema.field(name).type for name in names}

    def find(self, name: str, argument: str) -> str:
        """Find a column by its name, in any case.

        Raises:
            ValueError: If there is none; the message lists the names.
        """
        found = [known for known in self.names if known == name]
        found += [known for known in self.names if known.casefold() == name.strip().casefold()]
        if not found:
            raise ValueError(f"{argument} must be one of {', '.join(map(repr, self.names))}, got {name!r}")
        return found[0]

    def text_column(self) -> str:
        """Find the column of texts by the usual names.

        Raises:
            ValueError: If there is none of them.
        """
        for name in TEXT_COLUMNS:
            if any(known.casefold() == name for known in self.names):
                return self.find(name, "column")
        if len(self.names) == 1:
            return self.names[0]
        raise ValueError(
            f"column must name the texts, one of {', '.join(map(repr, self.names))}, got none; give it (--column NAME)"
        )

    def rows(self, names: Sequence[str] | None = None) -> Iterator[Row]:
        """Read all rows.

        Args:
            names: The columns that are needed; others may be there or not. None for all.

        Yields:
            A mapping for each row. A line that holds no JSON object is a `BrokenRow`.

        Raises:
            ValueError: If the file is damaged.
        """
        if self.ending in _PARQUET:
            for file in self.files:
                yield from self._parquet_rows(file, names)
            return
        with self._opened() as stream:
            if self.ending in _RECORDS:
                yield from (_record(line) for line in stream if line.strip())
                return
            cells = self._cells(stream)
            names = [name.strip() for name in next(cells, [])]
            for row in cells:
                if row:
                    yield dict(zip(names, row + [None] * (len(names) - len(row)), strict=False))

    def _opened(self) -> TextIO:
        # A byte that is no UTF-8 makes an error of its row, and not of the file.
        return self.path.open(newline="", encoding="utf-8-sig", errors="surrogateescape")

    def _cells(self, file: TextIO) -> Iterator[list[Any]]:
        if self.ending == ".tsv":
            # A tab-separated line quotes nothing: its texts hold quotes of their own.
            yield from (line.rstrip("\r\n").split("\t") for line in file if line.strip("\r\n"))
            return
        limit = csv.field_size_limit(_LONGEST_CELL)
        reader = csv.reader(file, strict=True)
        try:
            yield from reader
        except csv.Error as error:
            raise ValueError(
                f"data must be a table that can be read, got {str(self.path)!r}: {error} in line {reader.line_num}; "
                "see whether quotes are closed"
            ) from error
        finally:
            csv.field_size_limit(limit)

    def _parquet(self, file: Path) -> Any:
        arrow, parquet = extra("pyarrow", "data"), extra("pyarrow.parquet", "data")
        try:
            return parquet.ParquetFile(file)
        except (arrow.ArrowException, OSError) as error:
            raise ValueError(f"data must be Parquet that can be read, got {str(file)!r}: {error}") from error

    def _parquet_rows(self, file: Path, names: Sequence[str] | None) -> Iterator[Row]:
        arrow = extra("pyarrow", "data")
        columns = None if names is None else list(dict.fromkeys(names))
        try:
            for batch in self._parquet(file).iter_batches(_ROWS_AT_ONCE, columns=columns):
                yield from _values(batch)
        except (arrow.ArrowException, OSError) as error:
            raise ValueError(f"data must be Parquet that can be read, got {str(file)!r}: {error}") from error


def _values(batch: Any) -> Iterator[Row]:
    """The rows of a batch of Arrow; a value that is no UTF-8 keeps its bytes as escapes."""
    names = batch.schema.names
    columns = [[_value(item) for item in column] for column in batch.columns]
    for values in zip(*columns, strict=True):
        yield dict(zip(names, values, strict=True))


def _value(item: Any) -> Any:
    try:
        return item.as_py()
    except UnicodeDecodeError:
        return item.as_buffer().to_pybytes().decode("utf-8", "surrogateescape")


def _record(line: str) -> Row:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        return BrokenRow(f"line must hold a JSON object, got {line.strip()[:60]!r}: {error}")
    return found if isinstance(found, dict) else BrokenRow(f"line must hold a JSON object, got {line.strip()[:60]!r}")
