"""Samples: the texts that a user passes, validated.

Takes any iterable; gives a list of strings, or an error with the remedy. `captum_dig.models.encoding` encodes them.
"""

from collections.abc import Iterable, KeysView, Mapping, Set
from typing import Any, Literal, get_args

# The treatment of texts that are longer than the model reads.
Overflow = Literal["truncate", "windows", "error"]
OVERFLOWS: tuple[str, ...] = get_args(Overflow)

# Common names for the column of texts in data sets.
TEXT_COLUMNS = ("text", "sentence", "review", "content")


def as_texts(texts: Iterable[str]) -> list[str]:
    """Validate texts.

    Args:
        texts: Any strings, one by one.

    Returns:
        The texts as a list.

    Raises:
        TypeError: If they are one string, have no order, or one of them is no string.

    Example:
        >>> as_texts(text for text in ("good", "bad"))
        ['good', 'bad']
    """
    if isinstance(texts, str):
        raise TypeError("texts must be a sequence of strings, got one string; put it into a list, or call explain")
    if isinstance(texts, Mapping) or hasattr(texts, "columns"):  # a table of pandas is read as its columns' names
        raise TypeError(f"texts must be a string or a sequence of strings, got {_told(texts, 'texts')}")
    if isinstance(texts, Set) and not isinstance(texts, KeysView):
        raise TypeError(f"texts must have an order, got a {type(texts).__name__}; pass a list, such as sorted(texts)")
    if not isinstance(texts, Iterable) or isinstance(texts, bytes | bytearray):
        raise TypeError(f"texts must be a string or a sequence of strings, got {type(texts).__name__}")
    if isinstance(texts, tuple) and len(texts) == 2:
        raise TypeError(f"texts must be a list where there are two, got a tuple of two{_ONE}; pass a list of two texts")
    listed = list(texts)
    for number, text in enumerate(listed):
        if isinstance(text, str):
            continue
        if isinstance(text, Mapping):
            got = _told(text, f"texts[{number}]")
        elif isinstance(text, tuple | list):
            got = f"a {type(text).__name__} of {len(text)} in place {number}{_ONE}; pass a flat list"
        else:
            got = f"{type(text).__name__} in place {number}"
        raise TypeError(f"texts must be strings, got {got}")
    return listed


# Other tools take this for a pair of texts that a model reads together.
_ONE = ", where one text at a time is explained, and no pairs"


def _told(sample: Iterable[Any], name: str) -> str:
    """Name the remedy for a mapping, which Python would read as its keys."""
    keys = [str(key) for key in sample]
    got = f"{type(sample).__name__} with {', '.join(map(repr, keys[:5])) or 'nothing'}"
    if "text_pair" in keys:
        return f"{got}{_ONE}; pass a string"
    if "input_ids" in keys:
        return f"{got}; pass the text itself, which is encoded here"
    column = next((key for key in TEXT_COLUMNS if key in keys), keys[0] if keys else None)
    return got if column is None else f"{got}; pass what it holds, such as {name}[{column!r}]"
