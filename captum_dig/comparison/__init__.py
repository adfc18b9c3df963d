"""Several methods on the same texts, side by side.

`comparing`: the call that explains and measures. `settings`: how a comparison was made. `records`: measurements and
their averages. `verdicts`: the answer in a sentence. `report`: tables, and a page with plots and texts. `results`: the
`Comparison` that comes out. `journal`: finished texts on the disk.
"""

from captum_dig.comparison.records import ComparedText, Measurement, Summary
from captum_dig.comparison.report import report_page, terminal_tables, title
from captum_dig.comparison.results import Comparison
from captum_dig.comparison.settings import ComparisonSettings, MeasureInfo
from captum_dig.comparison.verdicts import verdicts

__all__ = [
    "ComparedText",
    "Comparison",
    "ComparisonSettings",
    "MeasureInfo",
    "Measurement",
    "Summary",
    "report_page",
    "terminal_tables",
    "title",
    "verdicts",
]
