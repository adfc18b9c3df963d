"""Encoding: a text as the model reads it, and the way back from tokens to words.

Takes texts and a Hugging Face tokenizer, gives for each text its token ids, offsets, special-token marks and words, cut
to what the model can read. `captum_dig.text` explains what comes out of here.
"""

import hashlib
import json
import operator
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

from captum_dig.errors import ModelError
from captum_dig.models.words import Span, group_words

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedTokenizerBase

Overflow = Literal["truncate", "windows", "error"]
OVERFLOWS: tuple[str, ...] = get_args(Overflow)

# Special tokens that can be called by what they are for.
_ROLES = ("pad", "mask", "unk", "eos", "bos", "sep", "cls")


@dataclass(frozen=True)
class Encoding:
    """One text, or one window of a long one, as the model reads it.

    Attributes:
        text: The text.
        inputs: What the tokenizer gives the model, a list of length T for each name; ``"input_ids"`` among them.
        tokens: The tokens, length T.
        offsets: Start and end of each token in `text`; (0, 0) for special tokens.
        special: Whether the tokenizer calls the token special, length T. The token for unknown words is not: it stands
            for a word.
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
        tokenizer: A fast Hugging Face tokenizer; slow ones do not know where in the text a token stands.
        max_tokens: How many tokens the model reads, special ones included; None for any number.

    Raises:
        ModelError: If the tokenizer does not report offsets, or the model has no room for a word.
    """

    def __init__(self, tokenizer: "PreTrainedTokenizerBase", max_tokens: int | None) -> None:
        if not getattr(tokenizer, "is_fast", False):
            raise ModelError(
                f"tokenizer must be a fast one, which knows the place of a token in the text, "
                f"got {type(tokenizer).__name__}; "
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
        # An unknown word is not a special token, although tokenizers list its stand-in among them.
        self._special_ids = set(tokenizer.all_special_ids) - {tokenizer.unk_token_id}

    def encode(self, text: str, overflow: Overflow = "truncate", name: str = "the text") -> list[Encoding]:
        """Encode one text.

        Args:
            text: Any string.
            overflow: What to do with a text that is too long: ``"truncate"`` it and warn, cut it into ``"windows"``
                between words, or raise an ``"error"``.
            name: How messages call the text.

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
            return [replace(self._truncate(text[start:end]), start=start) for start, end in self._windows(whole)]
        message = f"{name} has {len(whole.ids)} tokens, {surplus} more than the {self.max_tokens} that the model reads"
        if overflow == "error":
            raise ValueError(f"{message}; shorten it, or pass overflow='truncate' or overflow='windows'")
        warnings.warn(
            f"{message}; the last {surplus} are not explained (overflow='windows' explains them all)", stacklevel=2
        )
        return [self._truncate(text)]

    @property
    def pads(self) -> bool:
        """Whether the tokenizer can make texts equally long."""
        return self.pad_id is not None

    @property
    def fingerprint(self) -> str:
        """Hash of the tokenizer, the tokens that have a role, and the number of tokens that the model reads."""
        roles = {role: getattr(self.tokenizer, f"{role}_token_id", None) for role in _ROLES}
        special = sorted(self._special_ids)
        told = [self._rules(), roles, special, list(self.tokenizer.model_input_names), self.max_tokens]
        return hashlib.sha256(json.dumps(told, sort_keys=True, default=str).encode()).hexdigest()[:16]

    def _rules(self) -> object:
        """The tokenizer's rules and vocabulary, without the truncation and padding that its last call has left."""
        backend = getattr(self.tokenizer, "backend_tokenizer", None)
        if backend is not None:
            return json.loads(backend.to_str()) | {"truncation": None, "padding": None}
        # A tokenizer written in Python keeps its rules in its class, and in merges that not every one has.
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
            return {name: torch.tensor([row]) for name, row in encodings[0].inputs.items()}
        return dict(self.tokenizer.pad([e.inputs for e in encodings], padding_side="right", return_tensors="pt"))

    def token_id(self, argument: str, token: str | int, n_rows: int) -> int:
        """Find the row of a token.

        Args:
            argument: How messages call it.
            token: A special token's role, such as ``"pad"`` or ``"mask"``; a token of the vocabulary; or an id.
            n_rows: The number of rows that the model has.

        Returns:
            The id.

        Raises:
            ValueError: If there is no such token; the message lists the roles there are.
        """
        roles = {role: getattr(self.tokenizer, f"{role}_token_id", None) for role in _ROLES}
        known = {role: i for role, i in roles.items() if i is not None}
        found = known.get(str(token))
        if found is None and isinstance(token, str):
            # Asked last, because a tokenizer copies its vocabulary to answer.
            found = self.tokenizer.get_vocab().get(token)
        index = as_index(token) if found is None else int(found)
        if index is None or index >= n_rows:
            names = ", ".join(map(repr, known))
            raise ValueError(
                f"{argument} must be one of {names}, a token of the vocabulary or an id below {n_rows}, got {token!r}"
            )
        return index

    def show(self, token_id: int) -> str:
        """Write a token as a person reads it, without the marks of its tokenizer."""
        plain = str(self.tokenizer.decode([token_id])).strip()
        return plain or str(self.tokenizer.convert_ids_to_tokens(token_id))

    def _truncate(self, text: str) -> Encoding:
        return self._encode(text, truncation=True, max_length=self.max_tokens)

    def _encode(self, text: str, **limits: Any) -> Encoding:
        # verbose=False: the tokenizer's own warning about long texts names neither the text nor a remedy.
        batch = self.tokenizer(
            text,
            return_offsets_mapping=True,
            return_special_tokens_mask=True,
            return_overflowing_tokens=bool(limits),
            verbose=False,
            **limits,
        )
        # With overflowing tokens the answer is a list of rows, of which the first is the text.
        first = batch.encodings[0]
        ids = list(first.ids)
        special = tuple(
            bool(mark) or token_id in self._special_ids
            for mark, token_id in zip(first.special_tokens_mask, ids, strict=True)
        )
        offsets = tuple((0, 0) if mark else (a, b) for mark, (a, b) in zip(special, first.offsets, strict=True))
        words, word_offsets = group_words(text, offsets, special, first.word_ids)
        truncated = sum(len(rest.ids) - sum(rest.special_tokens_mask) for rest in first.overflowing)
        inputs = {"input_ids": ids, "attention_mask": list(first.attention_mask)}
        if "token_type_ids" in self.tokenizer.model_input_names:
            inputs["token_type_ids"] = list(first.type_ids)
        return Encoding(
            text=text,
            inputs=inputs,
            tokens=tuple(first.tokens),
            offsets=offsets,
            special=special,
            words=words,
            word_offsets=word_offsets,
            truncated=truncated,
        )

    def _windows(self, whole: Encoding) -> list[Span]:
        """Slices of the text that fit the model, cut between words where a word is not longer than a window itself."""
        room = max(1, (self.max_tokens or 0) - self.tokenizer.num_special_tokens_to_add())
        # Special tokens that stand in the text take places too.
        plain = self.tokenizer(whole.text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        ids, offsets = plain["input_ids"], plain["offset_mapping"]
        starts = {whole.offsets[word[0]][0] for word in whole.words}
        slices, first = [], 0
        while first < len(ids):
            stop = min(first + room, len(ids))
            if stop < len(ids):
                cuts = [i for i in range(first + 1, stop + 1) if offsets[i][0] in starts or ids[i] in self._special_ids]
                stop = cuts[-1] if cuts else stop
            begin = 0 if first == 0 else offsets[first][0]
            end = len(whole.text) if stop == len(ids) else offsets[stop][0]
            slices.append((begin, end))
            first = stop
        return slices


def as_index(value: str | int) -> int | None:
    """Read a number that is not negative, also as a command line has it, in digits; None where it is none.

    Example:
        >>> as_index(3), as_index("3"), as_index(-3), as_index("three")
        (3, 3, None, None)
    """
    if isinstance(value, str):
        return int(value) if value.isdecimal() else None
    try:
        number = -1 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        return None
    return number if number >= 0 else None


def as_texts(texts: Iterable[str]) -> list[str]:
    """Check texts, and hold them.

    Args:
        texts: Any strings, one by one.

    Returns:
        Them.

    Raises:
        TypeError: If they are one string, or one of them is none.
    """
    if isinstance(texts, str):
        raise TypeError("texts must be a sequence of strings, got one string; put it into a list, or call explain")
    if not isinstance(texts, Iterable):
        raise TypeError(f"texts must be a string or a sequence of strings, got {type(texts).__name__}")
    texts = list(texts)
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            raise TypeError(f"texts must be strings, got {type(text).__name__} in place {number}")
    return texts
