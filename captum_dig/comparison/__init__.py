"""What several methods' scores of the same texts are worth.

`results` holds the measurements that `captum_dig.comparison.comparing` makes, and averages them with intervals;
`report` draws them as a table on the terminal, and as a page with plots and texts.
"""

from captum_dig.comparison.records import (
    METRICS,
    ComparedText,
    Comparison,
    ComparisonSettings,
    Measurement,
    Metric,
    Summary,
)
from captum_dig.comparison.report import report_page, terminal_tables, title

__all__ = [
    "METRICS",
    "ComparedText",
    "Comparison",
    "ComparisonSettings",
    "Measurement",
    "Metric",
    "Summary",
    "report_page",
    "terminal_tables",
    "title",
]
