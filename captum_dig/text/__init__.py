"""Sentences in, scored words out.

`explainer`: the class that users call. `batches`: texts that share a batch. `results` and `settings`: the records that
come out. `strategies`: paths that go by a name. Records load without PyTorch, so this module imports nothing.
"""
