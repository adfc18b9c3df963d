"""The exceptions that a caller may want to catch, in one tree.

Wrong arguments raise Python's own `ValueError` and `TypeError`; the classes here mark conditions of the data or the
model that a program can react to. Each is also a `ValueError`, so that a caller who knows nothing of this package still
catches it. Every stage of the flow imports this module; it imports none of them.
"""

import operator


class CaptumDigError(Exception):
    """Base of every exception that this package defines."""


class VocabularyError(CaptumDigError, ValueError):
    """Vectors that do not belong to the vocabulary, or a table that cannot be one."""


class PathError(CaptumDigError, ValueError):
    """A `PathGenerator` or an `AnchorSearch` returned something that is not a path."""


class ModelError(CaptumDigError, ValueError):
    """A model or tokenizer that cannot be explained: absent, not a classifier, or not finite."""


def at_least_one(name: str, value: int) -> int:
    """Require a whole number of at least 1, of Python or NumPy; the check that every stage shares.

    Args:
        name: What the message calls it.
        value: The number.

    Returns:
        It, as Python's integer.

    Raises:
        ValueError: If it is something else.

    Example:
        >>> at_least_one("n_steps", 50)
        50
    """
    try:
        number = 0 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = 0
    if number < 1:
        raise ValueError(f"{name} must be an integer of at least 1, got {value!r}")
    return number
