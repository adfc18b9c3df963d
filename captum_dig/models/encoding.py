"""Encoding: a text as the model reads it, and the way back from tokens to words.

Takes texts and a Hugging Face tokenizer; gives for each text its token ids, offsets, special-token marks and words, cut
to the length that the model reads. `captum_dig.tasks` calls it, and `captum_dig.text` explains the encodings.
"""

import hashlib
import json
import warnings
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from captum_dig.checks import as_index
from captum_dig.errors import ModelError
from captum_dig.models.places import Reading, find_places
from captum_dig.models.samples import Overflow
from captum_dig.models.words import Span, cluster_ends, group_words

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedTokenizerBase

# Special tokens that can be named by their role.
_ROLES = ("pad", "mask", "unk", "eos", "bos", "sep", "cls")

# Names of kinds of baselines in other tools; they are words too.
_KINDS = {
    "an embedding of zeros": ("zero", "zeros", "0"),
    "the mean of all embeddings": ("mean", "average"),
    "random embeddings": ("random", "uniform", "gaussian", "noise"),
    "an empty text": ("empty", "none", "null", "blank"),
}


@dataclass(frozen=True)
class Encoding:
    """One text, or one window of a long one, as the model reads it.

    Attributes:
        text: The text.
        inputs: The output of the tokenizer for the model, a list of length T for each name, with ``"input_ids"``.
        tokens: The tokens, length T.
        offsets: Start and end of each token in `text`; (0, 0) for special tokens.
        special: Whether the tokenizer calls the token special, length T. The token for unknown words is not special,
            because it stands for a word.
        words: For each word of the text the positions of its tokens.
        word_offsets: Start and end of each word in `text`.
        truncated: Tokens of the text that the model cannot read.
        start: Where `text` begins in the text that was passed; not 0 for the later windows of a long one.
    """

    text: str
    inputs: dict[str, list[int]]
    tokens: tuple[str, ...]
    offsets: tuple[Span, ...]
    special: tuple[bool, ...]
    words: tuple[tuple[int, ...], ...]
    word_offsets: tuple[Span, ...]
    truncated: int = 0
    start: int = 0

    @property
    def ids(self) -> list[int]:
        """The token ids, length T."""
        return self.inputs["input_ids"]


class TextEncoder:
    """Turn texts into encodings that fit the model.

    Args:
        tokenizer: A Hugging Face tokenizer. A slow one, written in Python, does not report offsets; its tokens are
            searched in the text.
        max_tokens: How many tokens the model reads, special ones included; None for any number.

    Raises:
        ModelError: If the tokenizer is none, or the model has no room for a word.
    """

    def __init__(self, tokenizer: "PreTrainedTokenizerBase", max_tokens: int | None) -> None:
        if not callable(tokenizer) or not hasattr(tokenizer, "num_special_tokens_to_add"):
            raise ModelError(
                f"tokenizer must be a Hugging Face tokenizer, got {type(tokenizer).__name__}; "
                "load it with AutoTokenizer.from_pretrained(name)"
            )
        n_special = tokenizer.num_special_tokens_to_add()
        if max_tokens is not None and max_tokens <= n_special:
            raise ModelError(
                f"model must read more than the {n_special} special tokens of a text, "
                f"got a limit of {max_tokens} tokens; "
                "check the tokenizer's model_max_length"
            )
        self.tokenizer: Any = tokenizer
        self.max_tokens = max_tokens
        # Tokenizers list the token for unknown words among the special ones, but it stands for a word.
        self._special_ids = set(tokenizer.all_special_ids) - {tokenizer.unk_token_id}

    def encode(self, text: str, overflow: Overflow = "truncate", name: str = "the text") -> list[Encoding]:
        """Encode one text.

        Args:
            text: Any string.
            overflow: For a text that is too long: ``"truncate"`` it and warn, cut it into ``"windows"`` between words,
                or raise an ``"error"``.
            name: The name of the text in messages.

        Returns:
            One encoding; several windows where `overflow` is ``"windows"`` and the text is too long.

        Raises:
            ValueError: If the text is too long and `overflow` is ``"error"``, gives no token at all, or holds half a
                character (a lone surrogate).
        """
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise ValueError(
                f"{name} must be text that UTF-8 can hold, got {text[error.start]!r} at character {error.start}; "
                "decode it again from its source"
            ) from error
        whole = self._encode(text)
        if not whole.ids:
            raise ValueError(
                f"{name} must give at least one token, got {text!r}; this tokenizer adds no special tokens"
            )
        if self.max_tokens is None or len(whole.ids) <= self.max_tokens:
            return [whole]
        surplus = len(whole.ids) - self.max_tokens
        if overflow == "windows":
            return self._windows(text, name)
        message = f"{name} has {len(whole.ids)} tokens, {surplus} more than the {self.max_tokens} that the model reads"
        if overflow == "error":
            raise ValueError(f"{message}; shorten it, or pass overflow='truncate' or overflow='windows'")
        warnings.warn(
            f"{message}; the last {surplus} are not explained (overflow='windows' explains them all)", stacklevel=2
        )
        return [self._encode(text, cut=True)]

    @property
    def pads(self) -> bool:
        """Whether the tokenizer has a padding token."""
        return self.pad_id is not None

    @property
    def fingerprint(self) -> str:
        """Hash of the tokenizer, the tokens that have a role, and the number of tokens that the model reads."""
        roles = {role: getattr(self.tokenizer, f"{role}_token_id", None) for role in _ROLES}
        special = sorted(self._special_ids)
        told = [self._rules(), roles, special, list(self.tokenizer.model_input_names), self.max_tokens]
        return hashlib.sha256(json.dumps(told, sort_keys=True, default=str).encode()).hexdigest()[:16]

    def _rules(self) -> object:
        """The rules and vocabulary of the tokenizer, without the truncation and padding of its last call."""
        backend = getattr(self.tokenizer, "backend_tokenizer", None)
        if backend is not None:
            return json.loads(backend.to_str()) | {"truncation": None, "padding": None}
        # A tokenizer written in Python has its rules in its class, and perhaps in merges.
        kind = f"{type(self.tokenizer).__module__}.{type(self.tokenizer).__qualname__}"
        merges = getattr(self.tokenizer, "bpe_ranks", {})
        return [kind, sorted(self.tokenizer.get_vocab().items()), sorted(merges.items())]

    @property
    def pad_id(self) -> int | None:
        """The id of the padding token, if there is one."""
        found: int | None = self.tokenizer.pad_token_id
        return found

    def fits(self, n_tokens: int) -> bool:
        """Whether the model reads this many tokens besides the special ones."""
        return self.max_tokens is None or n_tokens + self.tokenizer.num_special_tokens_to_add() <= self.max_tokens

    def pad(self, encodings: Sequence[Encoding]) -> "dict[str, Tensor]":
        """Put encodings into one batch: a tensor of shape (B, T) for each input of the model, padded on the right."""
        import torch

        if len(encodings) == 1:
            return {name: torch.tensor([row], device="cpu") for name, row in encodings[0].inputs.items()}
        # The tokenizer would make tensors on the default device, which the caller may have changed.
        with torch.device("cpu"):
            return dict(self.tokenizer.pad([e.inputs for e in encodings], padding_side="right", return_tensors="pt"))

    def token_id(self, argument: str, token: str | int, n_rows: int) -> int:
        """Find the row of a token.

        Args:
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
        roles = {role: getattr(self.tokenizer, f"{role}_token_id", None) for role in _ROLES}
        known = {role: int(i) for role, i in roles.items() if i is not None}
        index, unclear = self._row_of(token, known, n_rows) if isinstance(token, str) else (as_index(token), "")
        if index is None or index >= n_rows or unclear:
            names = ", ".join(map(repr, known))
            raise ValueError(
                f"{argument} must be one of {names}, a token of the vocabulary or an id below {n_rows}, "
                f"got {token!r}{unclear}"
            )
        return index

    def _row_of(self, token: str, known: Mapping[str, int], n_rows: int) -> tuple[int | None, str]:
        """Look up the row of a token, and the other meaning that its name could have."""
        if token in known:
            return known[token], ""
        # Done late, because get_vocab copies the vocabulary.
        vocabulary = self.tokenizer.get_vocab()
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
        if token in _ROLES:
            meant = "a special token that this tokenizer lacks"
        if len(readings) > 1 or (readings and meant):
            return found, f"{meant and f', which may mean {meant}'}; {', '.join(readings)}"
        return found, ""

    def show(self, token_id: int) -> str:
        """Write a token for people, without the marks of its tokenizer."""
        plain = str(self.tokenizer.decode([token_id])).strip()
        return plain or str(self.tokenizer.convert_ids_to_tokens(token_id))

    def _encode(self, text: str, start: int = 0, cut: bool = False) -> Encoding:
        """Encode a text that begins at `start` of the passed one; cut it to the model's length if asked."""
        reading = self._read(text, cut)
        words, word_offsets = group_words(text, reading.places, reading.special, reading.word_ids, reading.read(text))
        return Encoding(
            text=text,
            inputs=reading.inputs,
            tokens=reading.tokens,
            offsets=tuple((0, 0) if m else span for m, span in zip(reading.special, reading.places, strict=True)),
            special=reading.special,
            words=words,
            word_offsets=word_offsets,
            truncated=len(reading.cut_off),
            start=start,
        )

    def _read(self, text: str, cut: bool = False) -> Reading:
        return self._read_fast(text, cut) if self.tokenizer.is_fast else self._read_slow(text, cut)

    def _read_fast(self, text: str, cut: bool) -> Reading:
        # verbose=False: the tokenizer's own warning about long texts names neither the text nor a remedy.
        batch = self.tokenizer(
            text,
            return_offsets_mapping=True,
            return_special_tokens_mask=True,
            return_overflowing_tokens=cut,
            truncation=cut,
            max_length=self.max_tokens if cut else None,
            verbose=False,
        )
        # With overflowing tokens the result is a list of rows; the first row is the text.
        first = batch.encodings[0]
        ids = list(first.ids)
        inputs = {"input_ids": ids, "attention_mask": list(first.attention_mask)}
        if "token_type_ids" in self.tokenizer.model_input_names:
            inputs["token_type_ids"] = list(first.type_ids)
        return Reading(
            inputs=inputs,
            tokens=tuple(first.tokens),
            special=self._special(ids, first.special_tokens_mask),
            places=tuple((a, b) for a, b in first.offsets),
            word_ids=tuple(first.word_ids),
            cut_off=tuple(
                (a, b)
                for rest in first.overflowing
                for mark, (a, b) in zip(rest.special_tokens_mask, rest.offsets, strict=True)
                if not mark
            ),
        )

    def _read_slow(self, text: str, cut: bool) -> Reading:
        tokenizer = self.tokenizer
        # Pieces are spelled as in the text; `ids` may stand for an unknown one.
        pieces = list(tokenizer.tokenize(text))
        ids: list[int] = list(tokenizer.convert_tokens_to_ids(pieces))
        found = find_places(text, pieces, tokenizer.tokenize)
        if found.lost:
            # A constant message: Python then shows it once.
            warnings.warn(
                f"{type(tokenizer).__name__} does not report where a token stands in the text, and some were not found "
                "in it; these count to the word after them",
                stacklevel=2,
            )
        batch = tokenizer(text, verbose=False)
        n_kept = len(ids)
        if cut:
            n_added = len(batch["input_ids"]) - len(ids)
            n_kept = max(0, min(n_kept, (self.max_tokens or 0) - n_added))
            batch = tokenizer(text, truncation=True, max_length=self.max_tokens, verbose=False)
        row: list[int] = list(batch["input_ids"])
        kept = slice(len(ids) - n_kept, None) if tokenizer.truncation_side == "left" else slice(n_kept)
        # Special tokens come before the text and after it.
        n_before = next((k for k in range(len(row) - n_kept + 1) if row[k : k + n_kept] == ids[kept]), 0)
        n_behind = len(row) - n_kept - n_before
        inputs = {"input_ids": row, "attention_mask": [1] * len(row)}
        if "token_type_ids" in tokenizer.model_input_names:
            inputs["token_type_ids"] = list(batch["token_type_ids"])
        around: tuple[Span, ...] = ((0, 0),)
        return Reading(
            inputs=inputs,
            tokens=tuple(map(str, tokenizer.convert_ids_to_tokens(row))),
            special=self._special(row, [*[1] * n_before, *[0] * n_kept, *[1] * n_behind]),
            places=(*around * n_before, *found.spans[kept], *around * n_behind),
            word_ids=(None,) * len(row),
            cut_off=found.spans[: len(ids) - n_kept] if tokenizer.truncation_side == "left" else found.spans[n_kept:],
        )

    def _special(self, ids: Sequence[int], added: Sequence[int]) -> tuple[bool, ...]:
        return tuple(bool(mark) or token_id in self._special_ids for mark, token_id in zip(added, ids, strict=True))

    def _windows(self, text: str, name: str) -> list[Encoding]:
        """Cut a text into parts that fit the model, between words unless a word is longer than a window."""
        whole = self._read(text)
        _, spans = group_words(text, whole.places, whole.special, whole.word_ids)
        # For some tokenizers the white space before a word is a part of it, so a window begins with that.
        marks = {end for (start, end), mark in zip(whole.places, whole.special, strict=True) if mark and start < end}
        solid = len(text.rstrip())
        ends = sorted(end for end in marks | {end for _, end in spans} if end < solid)
        ends.append(len(text))
        last_of_token = sorted(end for _, end in whole.places)
        room = (self.max_tokens or 0) - self.tokenizer.num_special_tokens_to_add()
        windows: list[Encoding] = []
        begin = 0
        while begin < len(text):
            # Where the window is full by the tokens of the whole text; alone it may have more.
            full = bisect_right(last_of_token, begin) + room - 1
            reach = last_of_token[full] if full < len(last_of_token) else len(text)
            following = bisect_right(ends, begin)
            end = self._longest(text, begin, ends[following : max(following + 1, bisect_right(ends, reach))])
            if end is None:
                clusters = [begin + at for at in cluster_ends(text[begin : ends[following]])]
                end = self._longest(text, begin, clusters)
                end = self._longest(text, begin, range(begin + 1, clusters[0])) if end is None else end
            if end is None:
                end = begin + 1
                warnings.warn(
                    f"{name} holds a character of more tokens than the model reads, {text[begin]!r} at {begin}; "
                    "the rest of its tokens are not explained",
                    stacklevel=3,
                )
            window = self._encode(text[begin:end], start=begin, cut=True)
            if window.ids:
                windows.append(window)
            begin = end
        return windows

    def _longest(self, text: str, begin: int, ends: Sequence[int]) -> int | None:
        """Find the last of some ascending ends for which a window from `begin` fits the model; None for none."""
        if not ends or not self._fits(text[begin : ends[0]]):
            return None
        # Usually the last end fits, or one shortly before it; in a long word it may be any.
        low, step = 0, 1
        high = len(ends)
        while high - low > 1:
            middle = max(low + 1, high - step)
            if self._fits(text[begin : ends[middle]]):
                low = middle
                if step == 1:
                    break
                step = max(1, (high - low) // 2)
            else:
                high, step = middle, 2 * step
        return ends[low]

    def _fits(self, text: str) -> bool:
        return len(self.tokenizer(text, verbose=False)["input_ids"]) <= (self.max_tokens or 0)
