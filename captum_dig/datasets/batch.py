"""ExplainBatch: a batch of columns in, columns of scores out, in any worker.

Takes what makes an explainer, and the names of columns; makes the explainer when the first batch comes. `datasets`, Ray
and data frames call it; `captum_dig.datasets.running` explains the rows of a file by the same function.
"""

import json
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from captum_dig.datasets.tables import BrokenRow
from captum_dig.text.explainer import TextExplainer
from captum_dig.text.rows import COLUMNS, failed
from captum_dig.text.streams import Errors

RESERVED = ("row", "result", *(column.name for column in COLUMNS))

Columns: TypeAlias = str | Mapping[str, str]
MakeExplainer: TypeAlias = TextExplainer | Callable[[], TextExplainer]


@dataclass(frozen=True)
class Meaning:
    """The roles of the columns of a table.

    Attributes:
        column: The column of the texts; or the columns of their fields, by the names of these.
        target_column: The column of the targets; None for one target of all texts.
        keep: Columns that results repeat.
    """

    column: Columns = "text"
    target_column: str | None = None
    keep: tuple[str, ...] = ()

    @property
    def read(self) -> tuple[str, ...]:
        """All columns that are read."""
        texts = (self.column,) if isinstance(self.column, str) else tuple(self.column.values())
        return (*texts, *(() if self.target_column is None else (self.target_column,)), *self.keep)

    def sample(self, row: Mapping[str, Any]) -> Any:
        """The text of a row, or its fields."""
        if isinstance(row, BrokenRow):
            return row
        if isinstance(self.column, str):
            return row.get(self.column)
        return {name: row[column] for name, column in self.column.items() if row.get(column) is not None}

    def target(self, row: Mapping[str, Any], default: Any) -> Any:
        """The target of a row; that of all rows where it holds none."""
        found = None if self.target_column is None else row.get(self.target_column)
        return default if found is None or found == "" else found


def explain_rows(
    explainer: TextExplainer,
    rows: Sequence[Mapping[str, Any]],
    meaning: Meaning,
    *,
    first: int = 0,
    errors: Errors = "record",
    target: Any = "predicted",
    baseline: Any = None,
    **options: Any,
) -> Iterator[list[dict[str, Any]]]:
    """Explain the rows of a table. Ranked tables are not stored.

    Args:
        explainer: The explainer.
        rows: The rows.
        meaning: What their columns mean.
        first: The number of the first row.
        errors: ``"raise"`` raises the first error with the number of its row; ``"record"`` makes a row of it.
        target: The target of rows that name none.
        baseline: As in `TextExplainer.explain_each`.
        options: The other arguments of `TextExplainer.explain_each`.

    Yields:
        For each row its results, as rows: the kept columns, ``"row"``, ``"result"``, and those of `COLUMNS`.

    Raises:
        ValueError: If an argument is wrong; with ``errors="raise"`` also if a row cannot be explained.
    """
    samples = [meaning.sample(row) for row in rows]
    targets = target if meaning.target_column is None else [meaning.target(row, target) for row in rows]
    with warnings.catch_warnings():
        # A column says how many tokens were cut off.
        warnings.filterwarnings("ignore", message=r".* has \d+ tokens, ")
        for outcome in explainer.outcomes(samples, targets, baseline, errors="record", store=False, **options):
            row, number = rows[outcome.number], first + outcome.number
            error = _of(row, outcome.error)
            if error is not None and errors == "raise":
                raise type(error)(f"row {number}: {error}") from error
            found = [result.to_row() for result in outcome.results]
            if error is not None:
                found = [failed(_shown(outcome.sample), error)]
            kept = {name: row.get(name) for name in meaning.keep}
            yield [kept | {"row": number, "result": place} | one for place, one in enumerate(found)]


class LazyExplainer:
    """An explainer that is made on first use; a pickled copy holds only `make`.

    Args:
        make: An explainer, or a function that makes one.
    """

    def __init__(self, make: MakeExplainer) -> None:
        self._make = make
        self._made: TextExplainer | None = None

    def __call__(self) -> TextExplainer:
        """Return the explainer; its ranked tables are stored when this object or the process ends."""
        if self._made is None:
            self._made = self._make if isinstance(self._make, TextExplainer) else self._make()
            weakref.finalize(self, self._made.store)
        return self._made

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_made": None}


@dataclass
class ExplainBatch:
    """A function from a batch of columns to columns of scores, for any engine that maps batches.

    It holds only its arguments until it is called, so it can be sent to workers; each makes an explainer of its own.
    Rows that cannot be explained have an error in place of scores.

    Args:
        explainer: An explainer, or a function that makes one, such as a `functools.partial` of
            `TextExplainer.from_pretrained`. The function is called once in each worker.
        column: The column of the texts; or the columns of their fields, by the names of these.
        target_column: The column of the targets; None for one target of all texts.
        errors: ``"record"``, or ``"raise"`` to end with the first error.
        options: The arguments of `TextExplainer.explain_each`, such as `target` and `n_steps`.

    Raises:
        ValueError: When it is called: if a column is missing, or has the name of a column of results.

    Example:
        >>> explain = ExplainBatch(TextExplainer.demo, options={"n_steps": 8})
        >>> found = explain({"text": ["A gorgeous movie.", None], "id": [7, 8]})
        >>> found["id"], found["predicted"], found["error_kind"]
        ([7, 8], ['POSITIVE', None], [None, 'TaskError'])
    """

    explainer: MakeExplainer = TextExplainer.demo
    column: Columns = "text"
    target_column: str | None = None
    errors: Errors = "record"
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._lazy = LazyExplainer(self.explainer)

    def __call__(self, batch: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
        """Explain a batch.

        Args:
            batch: Lists or arrays of equal length, by the names of their columns.

        Returns:
            The columns of the batch, ``"row"``, ``"result"``, and those of `captum_dig.text.rows.COLUMNS`. A row of the
            batch with several results is repeated.
        """
        columns = {name: _listed(values) for name, values in batch.items()}
        meaning = Meaning(self.column, self.target_column)
        if missing := [name for name in meaning.read if name not in columns]:
            raise ValueError(f"column must be one of {', '.join(map(repr, columns))}, got {missing[0]!r}")
        meaning = Meaning(self.column, self.target_column, tuple(name for name in columns if name not in RESERVED))
        if taken := [name for name in columns if name in RESERVED and name not in meaning.read]:
            raise ValueError(
                f"columns must have other names than those of results, got {', '.join(map(repr, taken))}; rename them"
            )
        rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
        found = explain_rows(self._lazy(), rows, meaning, errors=self.errors, **self.options)
        flat = [row for one in found for row in one]
        return {name: [row[name] for row in flat] for name in (*meaning.keep, *RESERVED)}


def _of(row: Mapping[str, Any], error: Exception | None) -> Exception | None:
    """The error of a row; one that could not be read has its own."""
    return ValueError(row.problem) if isinstance(row, BrokenRow) else error


def _shown(sample: Any) -> str | None:
    """A sample that was not explained, as text that UTF-8 can hold."""
    if isinstance(sample, BrokenRow) or sample is None:
        return None
    text = sample if isinstance(sample, str) else json.dumps(sample, default=str, ensure_ascii=False)
    return text.encode("utf-8", "backslashreplace").decode()


def _listed(values: Any) -> list[Any]:
    """The values of a column of any library, as plain ones."""
    for convert in ("to_pylist", "tolist"):
        if hasattr(values, convert):
            return list(getattr(values, convert)())
    return list(values)
