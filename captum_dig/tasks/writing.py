"""Tokens that a model writes: where each of them stands in the shown text.

Takes token ids and a tokenizer; gives the text up to each of them and its place. The tasks of continuations use it.
"""

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any, Final

from captum_dig.models.words import Span

# The target for a result for each token.
TOKENS: Final = "tokens"


def whole_or_tokens(wanted: Any) -> str:
    """Check the target of a continuation.

    Args:
        wanted: The `target` of the user.

    Returns:
        The target.

    Raises:
        ValueError: If it is neither ``"predicted"`` nor ``"tokens"``.
    """
    if not isinstance(wanted, str) or wanted not in {"predicted", TOKENS}:
        raise ValueError(
            f"target must be 'predicted' for the whole continuation, or 'tokens' for each of its tokens, "
            f"got {wanted!r}; pass a continuation of your own as a field: explain(prompt, continuation=...)"
        )
    return wanted


def texts_of(tokenizer: Any, before: Sequence[int], ids: Sequence[int]) -> list[str]:
    """The text of a continuation up to each of its tokens, with the space that some decoders only keep behind text.

    Args:
        tokenizer: The tokenizer.
        before: The tokens before the continuation.
        ids: The tokens of the continuation.

    Returns:
        A text for each token.
    """
    start = str(tokenizer.decode(list(before)))
    texts = []
    for n in range(1, len(ids) + 1):
        whole = str(tokenizer.decode([*before, *ids[:n]]))
        texts.append(whole[len(start) :] if whole.startswith(start) else str(tokenizer.decode(list(ids[:n]))))
    return texts


def places_of(texts: Sequence[str], start: int, end: int) -> list[Span]:
    """The place of each token of a continuation in the shown text.

    Args:
        texts: The text up to each token, as `texts_of` gives it.
        start: Where the continuation begins.
        end: Where it ends; the last token ends there.

    Returns:
        Start and end of each token.

    Example:
        >>> places_of([" a", " a film"], 5, 12)
        [(5, 7), (7, 12)]
    """
    # A token may be a part of a character, which a decoder shows as one of its own.
    ends = [min(start + len(text), end) for text in texts[:-1]] + [end]
    return list(pairwise([start, *accumulate(ends, max)]))
