"""The rows that an embedding layer can emit, searchable: the first stage of the flow.

`rows`: the rows of a table, exact look-up and nearest rows. `indexes`: the search for nearest rows. `readable`: the
rows that a person can read.
"""

from captum_dig.vocabulary.rows import BLOCK_ELEMENTS, Vocabulary, check_candidates, check_rows

__all__ = ["BLOCK_ELEMENTS", "Vocabulary", "check_candidates", "check_rows"]
