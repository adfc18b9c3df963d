"""explain_table: from a file of texts to a folder of scores, in parts that a later run goes on with.

Takes a file, the meaning of its columns, and an explainer; gives a `RunReport`. It cuts the rows into parts, and
an engine explains them. `captum_dig.datasets.summary` reads the folder.
"""

import io
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, Final

from captum_dig.checks import at_least_one, one_of
from captum_dig.datasets.batch import RESERVED, Columns, LazyExplainer, MakeExplainer, Meaning, explain_rows
from captum_dig.datasets.engines import Engine, Job, OnRay, Processes, here
from captum_dig.datasets.folders import PartRecord, ScoreFolder, locked
from captum_dig.datasets.schema import arrow_schema, extra, is_installed
from captum_dig.datasets.tables import Row, Table
from captum_dig.text.rows import json_row
from captum_dig.text.streams import ERRORS, Errors

FILE_FORMATS: Final = {"parquet": ".parquet", "jsonl": ".jsonl"}
ENGINES: Final = ("local", "ray")


@dataclass(frozen=True)
class RunReport:
    """What a run did.

    Attributes:
        n_rows: The number of rows of the whole folder.
        n_results: The number of results.
        n_errors: The number of rows with an error.
        n_cut: The number of results whose text was cut off.
        n_gradients: The gradients that were taken.
        n_before: The number of rows that earlier runs had finished.
        seconds: The time of this run.
    """

    n_rows: int
    n_results: int
    n_errors: int
    n_cut: int
    n_gradients: int
    n_before: int
    seconds: float

    @property
    def rows_per_second(self) -> float:
        """The speed of this run."""
        return (self.n_rows - self.n_before) / self.seconds if self.seconds > 0 else 0.0


def explain_table(
    explainer: MakeExplainer,
    data: str | Path,
    out: str | Path,
    *,
    column: Columns | None = None,
    id_column: str | None = None,
    target_column: str | None = None,
    keep: Sequence[str] = (),
    limit: int | None = None,
    errors: Errors = "raise",
    file_format: str | None = None,
    rows_per_part: int = 256,
    engine: str = "local",
    workers: int = 1,
    address: str | None = None,
    n_gpus: float = 0,
    progress: Callable[[int, int], None] | None = None,
    **options: Any,
) -> RunReport:
    r"""Explain the texts of a file, and write scores into a folder.

    The folder holds parts of the same number of rows, each whole or not there, and a manifest. The same call goes on
    after any end of the process, and gives the same files as a run that was never interrupted. Another run, with
    another input, model or setting, is refused.

    Args:
        explainer: An explainer; or a function that makes one, which is called once in each worker.
        data: A file that ends with .parquet, .csv, .tsv or .jsonl, or a folder of Parquet files.
        out: The folder of the scores.
        column: The column of the texts; or the columns of their fields, by the names of these. None for one called
            text, sentence, review or content.
        id_column: A column that names the rows; results repeat it.
        target_column: The column of the targets; None for one target of all texts.
        keep: Further columns that results repeat.
        limit: The number of rows, from the first; None for all.
        errors: ``"raise"`` ends with the first row that cannot be explained; ``"record"`` writes its error, and goes
            on.
        file_format: ``"parquet"``, which needs the extra ``data``, or ``"jsonl"``. None for Parquet if pyarrow is
            installed, and else for JSON Lines.
        rows_per_part: The number of rows in a part. A process that ends loses at most one part of each worker.
        engine: ``"local"``, or ``"ray"``, which needs the extra ``ray``.
        workers: The number of processes.
        address: The address of the cluster of Ray; None for the one that it finds, or a new one on this machine.
        n_gpus: With Ray, the GPUs of each worker.
        progress: Called with the number of finished rows and that of all.
        options: The arguments of `TextExplainer.explain_each`, such as `target` and `n_steps`.

    Returns:
        A report.

    Raises:
        ValueError: If an argument is wrong, the folder belongs to another run or process, or a row cannot be explained.
        MissingExtraError: If an extra is not installed.
        OSError: If a file cannot be read or written; finished parts stay.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> written = (folder / "reviews.csv").write_text("id,review\n7,A gorgeous movie.\n8,Dull.\n")
        >>> from captum_dig import TextExplainer
        >>> report = explain_table(
        ...     TextExplainer.demo, folder / "reviews.csv", folder / "scores", n_steps=8, file_format="jsonl"
        ... )
        >>> report.n_rows, report.n_errors
        (2, 0)
    """
    if file_format is None:
        file_format = "parquet" if is_installed("pyarrow") else "jsonl"
    ending = FILE_FORMATS[one_of("file_format", file_format, tuple(FILE_FORMATS))]
    one_of("errors", errors, ERRORS)
    one_of("engine", engine, ENGINES)
    at_least_one("workers", workers)
    at_least_one("rows_per_part", rows_per_part)
    if file_format == "parquet":
        extra("pyarrow", "data")
    if engine == "ray":
        extra("ray", "ray")
    began = time.monotonic()
    table = Table(Path(data).expanduser())
    meaning = _meaning(table, column, id_column, target_column, keep)
    n_rows = table.n_rows if limit is None else min(table.n_rows, at_least_one("limit", limit))
    if not n_rows:
        raise ValueError(f"data must have rows, got {str(data)!r} without any")
    out = Path(out).expanduser()
    lazy = LazyExplainer(explainer)
    worker = PartWorker(lazy, meaning, file_format, errors, options)
    with locked(out):
        identity = lazy().identity(**options) | {
            "input": table.digest,
            "column": meaning.column if isinstance(meaning.column, str) else dict(meaning.column),
            "target_column": meaning.target_column,
            "keep": list(meaning.keep),
            "n_rows": n_rows,
            "rows_per_part": rows_per_part,
            "file_format": file_format,
        }
        folder = ScoreFolder(out, identity, ending)
        if file_format == "parquet":
            worker = replace(worker, types=table.types(meaning.keep))
        before = done = sum(part.n_rows for part in folder.parts.values())
        tell = progress or (lambda *_: None)
        tell(done, n_rows)
        run: Engine
        if engine == "ray":
            run = OnRay(workers, address, n_gpus)
        elif workers > 1:
            run = Processes(workers)
        else:
            run, worker = here, replace(worker, progress=lambda number: tell(number, n_rows))
        jobs = _jobs(table.rows(meaning.read), folder.parts, n_rows, rows_per_part)
        for job, (data_of_part, counts) in run(worker, jobs):
            folder.add(job.number, data_of_part, counts)
            done += len(job.rows)
            tell(done, n_rows)
        return _report(folder.parts.values(), before, time.monotonic() - began)


@dataclass(frozen=True)
class PartWorker:
    """From the rows of a part to its bytes, in any process.

    Attributes:
        explainer: The explainer.
        meaning: What the columns mean.
        file_format: ``"parquet"`` or ``"jsonl"``.
        errors: As in `explain_table`.
        options: As in `explain_table`.
        types: The types of kept columns in Arrow.
        progress: Called with the number of the next row after each row.
    """

    explainer: LazyExplainer
    meaning: Meaning
    file_format: str
    errors: Errors
    options: Mapping[str, Any]
    types: Mapping[str, Any] = field(default_factory=dict)
    progress: Callable[[int], None] | None = None

    def __call__(self, job: Job) -> tuple[bytes, dict[str, int]]:
        """Explain the rows of a part; also count what was found."""
        rows: list[dict[str, Any]] = []
        counts = {"n_rows": len(job.rows), "n_results": 0, "n_errors": 0, "n_cut": 0, "n_gradients": 0}
        each = explain_rows(
            self.explainer(), job.rows, self.meaning, first=job.first, errors=self.errors, **self.options
        )
        for number, found in enumerate(each, start=job.first + 1):
            rows += found
            failures = sum(row["error"] is not None for row in found)
            counts["n_errors"] += failures
            counts["n_results"] += len(found) - failures
            counts["n_cut"] += sum(bool(row["truncated"]) for row in found)
            counts["n_gradients"] += sum(row["n_gradients"] or 0 for row in found)
            if self.progress is not None:
                self.progress(number)
        return self._encoded(rows), counts

    def _encoded(self, rows: list[dict[str, Any]]) -> bytes:
        names = (*self.meaning.keep, *RESERVED)
        if self.file_format == "jsonl":
            lines = (json.dumps(json_row({name: row[name] for name in names}), default=str) for row in rows)
            return "".join(f"{line}\n" for line in lines).encode("utf-8", "backslashreplace")
        arrow, parquet = extra("pyarrow", "data"), extra("pyarrow.parquet", "data")
        more = {**self.types, "row": arrow.int64(), "result": arrow.int64()}
        kept = {name: [_fitting(row[name], kind) for row in rows] for name, kind in self.types.items()}
        others = {name: [row[name] for row in rows] for name in RESERVED}
        file = io.BytesIO()
        parquet.write_table(arrow.table({**kept, **others}, schema=arrow_schema(more)), file, compression="zstd")
        return file.getvalue()


def _meaning(
    table: Table, column: Columns | None, id_column: str | None, target_column: str | None, keep: Sequence[str]
) -> Meaning:
    """Look the columns up in the table."""
    if column is None:
        texts: Columns = table.text_column()
    elif isinstance(column, str):
        texts = table.find(column, "column")
    else:
        texts = {name: table.find(one, "column") for name, one in column.items()}
    kept = ([] if id_column is None else [table.find(id_column, "id_column")]) + [table.find(n, "keep") for n in keep]
    if taken := [name for name in kept if name in RESERVED]:
        raise ValueError(
            f"keep must name other columns than those of results, got {', '.join(map(repr, taken))}; "
            "rename them in the data, or join by 'row'"
        )
    target = None if target_column is None else table.find(target_column, "target_column")
    return Meaning(texts, target, tuple(dict.fromkeys(kept)))


def _jobs(rows: Iterator[Row], finished: Mapping[int, PartRecord], n_rows: int, rows_per_part: int) -> Iterator[Job]:
    """Cut the first rows into parts, without those that are finished."""
    rows = islice(rows, n_rows)
    number = 0
    while part := list(islice(rows, rows_per_part)):
        if number not in finished:
            yield Job(number, number * rows_per_part, part)
        number += 1


def _fitting(value: Any, kind: Any) -> Any:
    """A kept value; in a column of strings any other is written as JSON, and half a character as an escape."""
    if value is None or str(kind) not in ("string", "large_string"):
        return value
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return text.encode("utf-8", "backslashreplace").decode()


def _report(parts: Iterable[PartRecord], before: int, seconds: float) -> RunReport:
    """Add up the parts."""
    names = ("n_rows", "n_results", "n_errors", "n_cut", "n_gradients")
    total = {name: sum(getattr(part, name) for part in parts) for name in names}
    return RunReport(**total, n_before=before, seconds=seconds)
