"""Comparison: the measurements of several methods on the same texts, with tables and a report.

Takes the measurements of `captum_dig.comparison.comparing`; draws them by `report`. The command line comes next.
"""

import io
from pathlib import Path

from rich.console import Console

from captum_dig.comparison.records import MeasuredTexts
from captum_dig.comparison.report import report_page, terminal_tables
from captum_dig.visualization.writing import write_whole


class Comparison(MeasuredTexts):
    """The measurements of several methods on the same texts, with averages, tables and a report.

    Attributes:
        settings: How it was made.
        texts: The texts with their measurements.
    """

    def to_html(self, path: str | Path | None = None) -> str:
        """Draw the comparison as one HTML file that needs nothing else: tables, plots, and texts side by side.

        Args:
            path: Where to write the page, in UTF-8; None writes nothing. An existing file is replaced.

        Returns:
            The page.
        """
        page = report_page(self)
        if path is not None:
            write_whole(path, page.encode("utf-8"))
        return page

    def __str__(self) -> str:
        """Lay out averages as plain text, a table for each baseline."""
        *tables, legend = terminal_tables(self)
        written = io.StringIO()
        for part, width in (*((table, 200) for table in tables), (legend, 80)):
            Console(file=written, width=width, color_system=None).print(part)
        return "\n".join(line.rstrip() for line in written.getvalue().splitlines())

    def __repr__(self) -> str:
        return f"Comparison(model={self.settings.model!r}, methods={self.settings.methods}, n_texts={len(self.texts)})"
