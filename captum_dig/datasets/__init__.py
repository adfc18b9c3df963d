"""Data sets in, scores out.

`running`: the call that explains a file. `batch`: the function that any engine calls. `tables`: rows of a file.
`folders`: parts on the disk, and how a run goes on. `engines`: processes and clusters. `schema`: the types of columns.
`summary`: words over all texts. `pages`: pictures of a summary.
"""

from captum_dig.datasets.batch import ExplainBatch
from captum_dig.datasets.pages import summary_page, summary_tables
from captum_dig.datasets.running import RunReport, explain_table
from captum_dig.datasets.schema import arrow_schema
from captum_dig.datasets.summary import Example, GroupSummary, ScoreSummary, WordSummary, summarize

__all__ = [
    "Example",
    "ExplainBatch",
    "GroupSummary",
    "RunReport",
    "ScoreSummary",
    "WordSummary",
    "arrow_schema",
    "explain_table",
    "summarize",
    "summary_page",
    "summary_tables",
]
