"""Sentences in, scored words out.

`explainer`: the class that users call. `questions`: from encodings to questions. `batches`: from questions to results,
batch by batch. `results` and `settings`: the records. Records load without PyTorch, so this module imports nothing.
"""
