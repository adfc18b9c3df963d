"""Field: a part of a text that has a name, such as the premise of a pair.

Takes nothing; `captum_dig.models` makes fields, `captum_dig.text` keeps them in results, and
`captum_dig.visualization` draws them.
"""

from typing import NamedTuple


class Field(NamedTuple):
    r"""A part of a text that has a name.

    Attributes:
        name: The name: ``"text"`` and ``"text_pair"``, ``"question"`` and ``"context"``.
        start: Where it starts in the text, in characters.
        end: Where it ends.

    Example:
        >>> field = Field("text_pair", 4, 8)
        >>> "Two\nends."[field.start : field.end]
        'ends'
    """

    name: str
    start: int
    end: int


def trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    """Leave out white space around a part of a text, which some tokenizers count to a token.

    Example:
        >>> trimmed("in Paris now", 2, 8)
        (3, 8)
    """
    inner = text[start:end]
    return start + len(inner) - len(inner.lstrip()), end - (len(inner) - len(inner.rstrip()))
