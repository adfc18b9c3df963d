"""Tokens by their roles: pad, mask and others.

Takes a tokenizer and the name of a token; gives its id. `captum_dig.models.encoding` looks up baselines here.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from captum_dig.checks import as_index

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

# Special tokens that can be named by their role.
ROLES: Final = ("pad", "mask", "unk", "eos", "bos", "sep", "cls")

# Names of kinds of baselines in other tools; they are words too.
_KINDS = {
    "an embedding of zeros": ("zero", "zeros", "0"),
    "the mean of all embeddings": ("mean", "average"),
    "random embeddings": ("random", "uniform", "gaussian", "noise"),
    "the baseline nearest to even odds": ("even",),
    "an empty text": ("empty", "none", "null", "blank"),
}


def role_ids(tokenizer: "PreTrainedTokenizerBase") -> dict[str, int]:
    """Return the id of each special token that a tokenizer has, by its role."""
    ids = {role: getattr(tokenizer, f"{role}_token_id", None) for role in ROLES}
    return {role: int(i) for role, i in ids.items() if i is not None}


def find_token(tokenizer: "PreTrainedTokenizerBase", argument: str, token: str | int, n_rows: int) -> int:
    """Find the row of a token.

    Args:
        tokenizer: The tokenizer.
        argument: The name of the argument in messages.
        token: A special token's role, such as ``"pad"`` or ``"mask"``; a token of the vocabulary; or an id. Where a
            name is ambiguous, ``"token:zero"`` is the token and ``"id:0"`` the id.
        n_rows: The number of rows that the model has.

    Returns:
        The id.

    Raises:
        ValueError: If there is no such token, or its name could mean another kind of baseline. The message lists
            the known roles.
    """
    known = role_ids(tokenizer)
    index, unclear = _row_of(tokenizer, token, known, n_rows) if isinstance(token, str) else (as_index(token), "")
    if index is None or index >= n_rows or unclear:
        names = ", ".join(map(repr, known))
        raise ValueError(
            f"{argument} must be one of {names}, a token of the vocabulary or an id below {n_rows}, "
            f"got {token!r}{unclear}"
        )
    return index


def _row_of(
    tokenizer: "PreTrainedTokenizerBase", token: str, known: Mapping[str, int], n_rows: int
) -> tuple[int | None, str]:
    """Look up the row of a token, and the other meaning that its name could have."""
    if token in known:
        return known[token], ""
    # Done late, because get_vocab copies the vocabulary.
    vocabulary = tokenizer.get_vocab()
    kind, _, rest = token.partition(":")
    if kind == "token" and rest in vocabulary:
        return int(vocabulary[rest]), ""
    if kind == "id" and rest.isdecimal():
        return int(rest), ""
    number = as_index(token)
    readings = [f"'token:{token}' is the token"] * (token in vocabulary)
    readings += [f"'id:{token}' is the id"] * (number is not None and number < n_rows)
    found = int(vocabulary[token]) if token in vocabulary else number
    meant = next((meaning for meaning, names in _KINDS.items() if token.casefold() in names), "")
    if token in ROLES:
        meant = "a special token that this tokenizer lacks"
    if len(readings) > 1 or (readings and meant):
        return found, f"{meant and f', which may mean {meant}'}; {', '.join(readings)}"
    return found, ""
