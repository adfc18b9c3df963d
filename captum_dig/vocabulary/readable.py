"""The rows of an embedding table that are words for a reader.

Takes a Hugging Face tokenizer and the number of rows of its model's embedding table; gives a mask over the rows.
`captum_dig.text` passes it to a path: ``MonotonicPath(..., candidates=mask)`` takes anchors from these words. Over
every row, as in the paper, most anchors are rows that no text uses (``[unused12]``).

No code here knows a tokenizer's markers (``##``, ``Ġ``, ``▁``, ``</w>``) or special tokens. Each row is decoded
together with a copy of itself, and the text decides: ``"movie movie"`` is a word, ``"##inging"`` or ``"inging"`` is a
piece of one, and ``"! !"`` is not made of letters.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections import Counter
from itertools import compress
from typing import TYPE_CHECKING, Literal

import torch

from captum_dig.vocabulary.rows import check_candidates

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from transformers import PreTrainedTokenizerBase

__all__ = ["candidate_rows", "readable_rows", "word_candidates"]

# A script is native if at least this share of all words is written in it. Lone characters do not count: most
# vocabularies list alphabets that they never write in. Measured shares of words of two letters or more: foreign scripts
# have at most 0.09 % (kana in GPT-2). Written scripts have at least 0.22 % (Greek in Whisper).
NATIVE_SHARE = 0.002
# Chinese is often stored one ideograph a row. Many such rows make their script native too: they are 1.1 % of the words
# in English BERT, 8.7 % in Mistral and 77 % in Chinese BERT.
NATIVE_IDEOGRAPH_SHARE = 0.03
# A script that rarely follows a space is written without spaces, so its words have no word mark. Measured shares of
# marked rows: Chinese, Japanese and Thai at most 15 %, others from 20 %.
SPACED_SHARE = 1 / 6
# A default path has 30 anchors between a word and a baseline. With fewer words every path passes all of them, and the
# rule has probably misread the tokenizer.
MIN_WORDS = 32

_PLACEHOLDER = re.compile(r"[\[<]\|?(unused|reserved|extra)\D*\d+\|?[\]>]")

# Marks and joiners belong to the word around them, in every script.
_JOINERS = frozenset("'\u2019-\u200c\u200d")


def word_candidates(tokenizer: PreTrainedTokenizerBase, n_rows: int) -> torch.BoolTensor:
    """Mark the rows of an embedding table that are readable words of the tokenizer's languages.

    Special tokens, rows without a token, unused rows, symbols, digits, bytes, pieces of words and
    characters of foreign scripts are not marked; ``readable_rows`` states the rule. The mask
    depends on the vocabulary alone: no text is tokenized and nothing is drawn at random.

    Args:
        tokenizer: The model's tokenizer, fast or slow, as ``AutoTokenizer`` returns it.
        n_rows: Number of rows of the embedding table, ``model.get_input_embeddings().weight``'s
            first dimension; often larger than the vocabulary. At least 1.

    Returns:
        Shape ``(n_rows,)``, on the CPU, true where the row is a word.

    Raises:
        TypeError: If ``tokenizer`` is not a Hugging Face tokenizer.
        ValueError: If ``n_rows`` is below 1, if the tokenizer cannot decode what it encodes, or
            if fewer than 32 rows are words.
    """
    if not hasattr(tokenizer, "all_special_ids"):
        raise TypeError(
            f"tokenizer must be a Hugging Face tokenizer, got {type(tokenizer).__name__}; "
            "load it with AutoTokenizer or wrap it in PreTrainedTokenizerFast"
        )
    if n_rows < 1:
        raise ValueError(f"n_rows must be at least 1, got {n_rows}; pass model.get_input_embeddings().weight.shape[0]")
    _require_decoder(tokenizer)

    special = _special_ids(tokenizer)
    used = sorted(i for i in set(tokenizer.get_vocab().values()) - special if 0 <= i < n_rows)
    # Clean-up would close the gaps that show where words begin.
    # (One call a row is faster than ``batch_decode``, which copies its nested lists first.)
    pairs = [str(tokenizer.decode([i, i], clean_up_tokenization_spaces=False)) for i in used]

    mask = torch.zeros(n_rows, dtype=torch.bool, device="cpu")
    mask[torch.tensor(used, dtype=torch.long, device="cpu")] = torch.tensor(
        readable_rows(pairs), dtype=torch.bool, device="cpu"
    )
    n_words = int(mask.sum())
    if n_words < MIN_WORDS:
        raise ValueError(
            f"tokenizer must hold at least {MIN_WORDS} readable words, got {n_words} in {n_rows} "
            'rows; pass candidates="all" or a boolean mask of your own'
        )
    return mask  # type: ignore[return-value]  # torch types every tensor as Tensor


def readable_rows(pairs: Sequence[str]) -> list[bool]:
    """Tell which rows of a vocabulary are words, from each row decoded together with a copy of itself.

    A row is a word if all of these conditions hold:

    1. It consists of letters and their marks, with apostrophes, hyphens or joiners only between them.
    2. It has two letters or more, or is an ideograph. (English "a" and "I" are lost.)
    3. White space separates it from its copy, or its script is written without spaces.
    4. Its scripts are native to the vocabulary. That means: at least 0.2 % of the words use the script and have two
       letters or more, or at least 3 % are lone ideographs of it.

    Beginnings of longer words (``" congrat"`` in GPT-2) pass, because the vocabulary marks them like words.

    Args:
        pairs: For each row, the decoded text of that row followed by itself.

    Returns:
        One flag for each row.

    Example:
        >>> readable_rows(["movie movie", "##inging", "! !", "1997 1997", "の の", "été été"])
        [True, False, False, False, False, True]
    """
    rows = [_halves(pair) for pair in pairs]
    # Look up each character's name once.
    alphabet = {char: _script(char) for char in set().union(*(text for text, _ in rows))}
    shapes = [_scripts(text, alphabet) for text, _ in rows]

    shaped: Counter[str] = Counter()
    marked: Counter[str] = Counter()
    for scripts, (_, spaced) in zip(shapes, rows, strict=True):
        for script in scripts:
            shaped[script] += 1
            marked[script] += spaced
    unspaced = {script for script in shaped if marked[script] < SPACED_SHARE * shaped[script]}
    is_word = [
        bool(scripts) and (spaced or scripts <= unspaced) for scripts, (_, spaced) in zip(shapes, rows, strict=True)
    ]

    long: Counter[str] = Counter()
    lone: Counter[str] = Counter()
    for scripts, (text, _) in compress(zip(shapes, rows, strict=True), is_word):
        for script in scripts:
            (lone if len(text) == 1 else long)[script] += 1
    n_words = sum(is_word)
    native = {script for script, count in long.items() if count >= NATIVE_SHARE * n_words}
    native |= {s for s, count in lone.items() if count >= NATIVE_IDEOGRAPH_SHARE * n_words}
    return [word and scripts <= native for scripts, word in zip(shapes, is_word, strict=True)]


def _require_decoder(tokenizer: PreTrainedTokenizerBase) -> None:
    """Require that the decoder removes the word marks of the pre-tokenizer."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None or backend.decoder is not None or backend.pre_tokenizer is None:
        return
    pieces = "".join(piece for piece, _ in backend.pre_tokenizer.pre_tokenize_str("a b"))
    if set(pieces) - set("a b"):
        raise ValueError(
            f"tokenizer must decode what it encodes, got a backend that turns 'a b' into "
            f'{pieces!r} and has no decoder; set backend_tokenizer.decoder or pass candidates="all"'
        )


def candidate_rows(
    candidates: Literal["words", "all"] | torch.Tensor, tokenizer: PreTrainedTokenizerBase, n_rows: int
) -> Callable[[], torch.Tensor | None]:
    """Turn a choice of candidates into a mask that is made on first use.

    Args:
        candidates: ``"words"``, ``"all"``, or a mask.
        tokenizer: The tokenizer.
        n_rows: The number of rows.

    Returns:
        A function that returns the mask of rows that may be anchors, shape (V,); None for all. It raises the errors of
        `word_candidates`.

    Raises:
        ValueError: If the choice is none of these.
    """
    if isinstance(candidates, torch.Tensor):
        mask = check_candidates(candidates, n_rows)
        return CandidateRows(mask)
    if candidates not in ("words", "all"):
        raise ValueError(f"candidates must be 'words', 'all' or a boolean mask, got {candidates!r}")
    return CandidateRows(None if candidates == "all" else functools.partial(word_candidates, tokenizer, n_rows))


class CandidateRows:
    """A mask of candidates that is made once, on first use, and can be sent to another process.

    Args:
        mask: Shape (V,), or a function that gives it; None for every row.

    Example:
        >>> CandidateRows(torch.tensor([True, False]))()
        tensor([ True, False])
    """

    def __init__(self, mask: torch.Tensor | Callable[[], torch.Tensor] | None) -> None:
        self._mask = mask

    def __call__(self) -> torch.Tensor | None:
        """Give the mask; None for every row."""
        if callable(self._mask):
            self._mask = self._mask()
        return self._mask


def _special_ids(tokenizer: PreTrainedTokenizerBase) -> set[int]:
    added = {i for i, token in tokenizer.added_tokens_decoder.items() if token.special}
    return added | set(tokenizer.all_special_ids)


def row_kinds(tokenizer: PreTrainedTokenizerBase, n_rows: int) -> dict[str, torch.Tensor]:
    """Mark the rows that are no words: special tokens, unused rows and pieces.

    Args:
        tokenizer: The tokenizer.
        n_rows: The number of rows.

    Returns:
        Masks of shape (V,): ``"special"`` tokens; ``"unused"`` rows, which have no token or one such as ``[unused7]``;
        ``"piece"`` for any other row that `word_candidates` does not mark.

    Raises:
        TypeError: As `word_candidates`.
        ValueError: As `word_candidates`.
    """
    words = word_candidates(tokenizer, n_rows)
    special, used = torch.zeros(2, n_rows, dtype=torch.bool, device="cpu")
    special[[i for i in _special_ids(tokenizer) if i < n_rows]] = True
    names = [(name, i) for name, i in tokenizer.get_vocab().items() if i < n_rows]
    used[[i for name, i in names if not _PLACEHOLDER.fullmatch(name)]] = True
    return {"special": special, "unused": ~used & ~special, "piece": used & ~special & ~words}


def _halves(pair: str) -> tuple[str, bool]:
    """Split a row decoded with its copy: its text ("" if it has none), and whether a space separates them."""
    parts = pair.split()
    if len(parts) == 2 and parts[0] == parts[1]:
        return parts[0], True
    glued = pair.strip()
    half = len(glued) // 2
    return (glued[:half], False) if glued[:half] == glued[half:] else ("", False)


def _script(char: str) -> str | None:
    """Name a letter's script; "" for a mark or joiner, None for a character outside of words."""
    category = unicodedata.category(char)
    if category in {"Lu", "Ll", "Lt", "Lo"}:
        # The standard library has no script property; the first word of the character's name replaces it.
        return unicodedata.name(char, "?").split()[0]
    return "" if category == "Lm" or category[0] == "M" or char in _JOINERS else None


def _scripts(text: str, alphabet: dict[str, str | None]) -> frozenset[str]:
    """Return the scripts a word-shaped text is written in, the empty set for any other text."""
    scripts = frozenset(map(alphabet.get, text))
    too_short = len(text) < 2 and "IDEOGRAPH" not in unicodedata.name(text or " ", "")
    if too_short or None in scripts or not alphabet[text[0]] or text[-1] in _JOINERS:
        return frozenset()
    return frozenset(filter(None, scripts))
