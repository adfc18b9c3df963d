"""explain --data: a file of texts into a folder of scores."""

import sys
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option, echo

from captum_dig.cli.console import is_watched, make_console, progress, warnings_as_lines
from captum_dig.cli.options import file_option

if TYPE_CHECKING:
    from captum_dig.text.explainer import TextExplainer

PANEL = "Data sets"


def _option(meaning: str, metavar: str, **more: Any) -> Any:
    return Option(help=meaning, metavar=metavar, rich_help_panel=PANEL, **more)


Data = Annotated[
    Path | None,
    file_option("--data", "Explain each row of a table (.parquet, .csv, .tsv, .jsonl) into the folder --out.", PANEL),
]
IdColumn = Annotated[str | None, _option("A column that names the rows; scores repeat it.", "NAME")]
TargetColumn = Annotated[str | None, _option("The column of the labels to explain.", "NAME")]
Keep = Annotated[list[str] | None, _option("Another column that scores repeat.", "NAME")]
Limit = Annotated[int | None, _option("Explain only the first rows.", "N", show_default="all")]
Errors = Annotated[str, _option("For a row that cannot be explained: raise, or record its error and go on.", "NAME")]
RowsPerPart = Annotated[int, _option("The number of rows in a file of scores.", "N")]
EngineName = Annotated[str, _option("local, or ray for a cluster.", "NAME")]
Workers = Annotated[int, _option("The number of processes.", "N")]
Gpus = Annotated[float, _option("With ray, the GPUs of each worker.", "N")]
Address = Annotated[str | None, _option("The address of the cluster of Ray.", "ADDRESS", show_default="found by Ray")]


@dataclass(frozen=True)
class TableRun:
    """What is typed about a data set.

    Attributes:
        data: The file.
        out: The folder; None where none is given, which is an error.
        options: The arguments of `captum_dig.datasets.running.explain_table` by their names.
    """

    data: Path
    out: Path | None
    options: Mapping[str, Any]

    def check(self, format_name: str | None, others: Mapping[str, object]) -> "TableRun":
        """Require a folder, and no option that data sets do not take."""
        if self.out is None:
            raise ValueError("--out must name the folder of the scores where --data is given, got none")
        if given := [option for option, value in others.items() if value]:
            raise ValueError(f"{given[0]} must not come with --data, which writes rows into --out; leave one out")
        if format_name not in (None, "parquet", "jsonl"):
            raise ValueError(f"--format must be parquet or jsonl where --data is given, got {format_name!r}")
        return TableRun(self.data, self.out, {**self.options, "file_format": format_name})

    def run(self, make: Callable[[], "TextExplainer"]) -> None:
        """Explain the rows, show how far the work is, and say at the end what was done."""
        console = make_console(stderr=True)
        with warnings_as_lines(console):
            with console.status("Loading", spinner="line") if is_watched() else nullcontext():
                from captum_dig.datasets.running import explain_table

            with progress(console, "Explaining", "explained", "rows") as tell:
                report = explain_table(make, self.data, self.out or Path(), progress=tell, **self.options)
        if sys.stderr is not None:
            parts = [
                f"{report.n_rows:,} rows",
                *([f"{report.n_before:,} of them before"] if report.n_before else []),
                f"{report.n_errors:,} with an error",
                *([f"{report.n_cut:,} texts cut off"] if report.n_cut else []),
                f"{report.n_gradients:,} gradients",
                *([f"{report.rows_per_second:.1f} rows a second"] if report.n_before < report.n_rows else []),
            ]
            echo(f"{', '.join(parts)}; scores in {self.out}", err=True)
