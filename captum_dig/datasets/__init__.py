"""Data sets in, scores out.

`running`: the call that explains a file. `batch`: the function that any engine calls. `tables`: rows of a file.
`folders`: parts on the disk, and how a run goes on. `engines`: processes and clusters. `schema`: the types of columns.
"""
