"""The exceptions that a caller may want to catch, in one tree, and a warning to turn off.

Wrong arguments raise Python's own `ValueError` and `TypeError`. The classes here mark conditions of the data or the
model that a program can react to. Each is also a `ValueError` or a `TypeError`, which a caller who does not know this
package catches.
Every stage of the flow imports this module; it imports none of them.
"""


class CaptumDigError(Exception):
    """Base of every exception that this package defines."""


class VocabularyError(CaptumDigError, ValueError):
    """Vectors that do not belong to the vocabulary, or a table that cannot be one."""


class PathError(CaptumDigError, ValueError):
    """A `PathGenerator` or an `AnchorSearch` returned something that is not a path."""


class ModelError(CaptumDigError, ValueError):
    """A model or tokenizer that cannot be explained: absent, not a classifier, or not finite."""


class TaskError(CaptumDigError, TypeError):
    """A sample or an argument that the task does not take: other fields, or another name."""


class MissingExtraError(CaptumDigError, ImportError):
    """A package that only some users need, and that is not installed."""


class BaselineWarning(UserWarning):
    """The model is sure of the explained number at the baseline already, so words that speak for it score little."""
