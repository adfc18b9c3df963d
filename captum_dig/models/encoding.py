"""Encoding: a text as the model reads it, and the way back from tokens to words.

Takes texts and a Hugging Face tokenizer; gives for each text its token ids, offsets, special-token marks and words, cut
to the length that the model reads. Two texts that a model reads together are one encoding with two fields.
`captum_dig.tasks` calls it, and `captum_dig.text` explains the encodings.
"""

import hashlib
import json
import warnings
from bisect import bisect_right
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from captum_dig.errors import ModelError
from captum_dig.fields import Field
from captum_dig.models.reading import Reader, Reading
from captum_dig.models.roles import ROLES, find_token, role_ids
from captum_dig.models.samples import Overflow
from captum_dig.models.words import Span, cluster_ends, group_words

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedTokenizerBase


@dataclass(frozen=True)
class Encoding:
    """One sample, or one window of a long one, as the model reads it.

    Attributes:
        text: The text. Several fields stand in it one after the other, each on its own line.
        inputs: The output of the tokenizer for the model, a list of length T for each name, with ``"input_ids"``.
        tokens: The tokens, length T.
        offsets: Start and end of each token in `text`; (0, 0) for special tokens.
        special: Whether the token keeps its embedding along every path, length T: special tokens, and the tokens of a
            field that is not explained. The token for unknown words is not special, because it stands for a word.
        words: For each word of the explained text the positions of its tokens.
        word_offsets: Start and end of each word in `text`.
        truncated: Tokens of the text that the model cannot read.
        start: Where `text`, or the field that was cut into windows, begins in the text that was passed; not 0 for the
            later windows of a long one.
        fields: The fields of the sample with their places in `text`; none where it has only one.
        part: The number of this encoding among those of its sample: the window, or the candidate label.
        beside: The tokens of another text that stay as they are and are no inputs, such as those that a decoder writes.
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
    fields: tuple[Field, ...] = ()
    part: int = 0
    beside: tuple[int, ...] = ()

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
        self._reader = Reader(tokenizer)

    def encode(
        self,
        text: str | Mapping[str, str],
        overflow: Overflow = "truncate",
        name: str = "the text",
        *,
        fixed: Collection[str] = (),
        long: str | None = None,
        overlap: int = 0,
        add: bool = True,
    ) -> list[Encoding]:
        """Encode one text, or two that the model reads together.

        Args:
            text: Any string, or two by the names of their fields, in the order of the model.
            overflow: For a text that is too long: ``"truncate"`` it and warn, cut it into ``"windows"`` between words,
                or raise an ``"error"``.
            name: The name of the text in messages.
            fixed: The fields that are not explained: their tokens keep their embeddings.
            long: The field that is cut where the sample is too long; None for the longest, and for the last one in
                windows.
            overlap: The number of tokens that neighbouring windows share, at most half of a window.
            add: Whether the tokenizer adds its special tokens; a text that is cut always has them.

        Returns:
            One encoding; several windows where `overflow` is ``"windows"`` and the text is too long.

        Raises:
            ValueError: If the text is too long and `overflow` is ``"error"``, gives no token at all, or holds half a
                character (a lone surrogate). Also if the other field leaves no room for the one that is cut.
        """
        sample = {"text": text} if isinstance(text, str) else dict(text)
        _check_characters(sample, name)
        texts = tuple(sample.values())
        whole = self._reader.read(texts, add=add)
        if not len(whole):
            raise ValueError(
                f"{name} must give at least one token, got {texts[0]!r}; this tokenizer adds no special tokens"
            )
        if self.max_tokens is None or len(whole) <= self.max_tokens:
            return [self._encoding(sample, whole, whole, fixed)]
        names = list(sample)
        number = None if long is None else names.index(long)
        if long is not None or overflow == "windows":
            number = len(names) - 1 if number is None else number
            self._check_room(name, names, whole, number)
        surplus = len(whole) - self.max_tokens
        if overflow == "windows":
            return self._windows(sample, whole, number or 0, name, fixed, overlap)
        message = f"{name} has {len(whole)} tokens, {surplus} more than the {self.max_tokens} that the model reads"
        if overflow == "error":
            raise ValueError(f"{message}; shorten it, or pass overflow='truncate' or overflow='windows'")
        warnings.warn(
            f"{message}; the last {surplus} are not explained (overflow='windows' explains them all)", stacklevel=2
        )
        return [self._encoding(sample, self._reader.read(texts, self.max_tokens, number), whole, fixed)]

    @property
    def pads(self) -> bool:
        """Whether the tokenizer has a padding token."""
        return self.pad_id is not None

    @property
    def fingerprint(self) -> str:
        """Hash of the tokenizer, the tokens that have a role, and the number of tokens that the model reads."""
        roles = dict.fromkeys(ROLES) | role_ids(self.tokenizer)
        special = sorted(self._reader.special_ids)
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

    @property
    def default_baseline(self) -> str:
        """The role of the padding token; without one that of the token that ends or begins a text."""
        known = role_ids(self.tokenizer)
        return next((role for role in ("pad", "eos", "bos") if role in known), "pad")

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

    def even_candidates(self) -> tuple[int, ...]:
        """The tokens that can stand for no word: padding, mask and unknown word, those that the tokenizer has."""
        known = role_ids(self.tokenizer)
        return tuple(dict.fromkeys(known[role] for role in ("pad", "mask", "unk") if role in known))

    def token_id(self, argument: str, token: str | int, n_rows: int) -> int:
        """Find the row of a token, as `find_token` of `captum_dig.models.roles` does."""
        return find_token(self.tokenizer, argument, token, n_rows)

    def show(self, token_id: int) -> str:
        """Write a token for people, without the marks of its tokenizer."""
        return show_token(self.tokenizer, token_id)

    def _encoding(
        self, sample: Mapping[str, str], reading: Reading, whole: Reading, fixed: Collection[str], start: int = 0
    ) -> Encoding:
        """Put the fields of a sample into one text, and group the tokens of each field into words."""
        offsets, special = [(0, 0)] * len(reading), list(reading.special)
        words: list[tuple[int, ...]] = []
        word_offsets: list[Span] = []
        fields: list[Field] = []
        begin = 0
        for number, (name, text) in enumerate(sample.items()):
            fields.append(Field(name, begin, begin + len(text)))
            others = [one != number for one in reading.texts]
            places = [(0, 0) if other else place for place, other in zip(reading.places, others, strict=True)]
            marks = [mark or other for mark, other in zip(reading.special, others, strict=True)]
            for i, mark in enumerate(marks):
                if not mark:
                    offsets[i] = (begin + places[i][0], begin + places[i][1])
                    special[i] = name in fixed
            if name not in fixed:
                read = reading.read(number, whole, len(text), self.tokenizer.truncation_side)
                found, spans = group_words(text, places, marks, reading.word_ids, read)
                words += found
                word_offsets += [(begin + a, begin + b) for a, b in spans]
            # A line end between two fields.
            begin += len(text) + 1
        return Encoding(
            text="\n".join(sample.values()),
            inputs=reading.inputs,
            tokens=reading.tokens,
            offsets=tuple(offsets),
            special=tuple(special),
            words=tuple(words),
            word_offsets=tuple(word_offsets),
            truncated=len(whole) - len(reading),
            start=start,
            fields=tuple(fields) if len(fields) > 1 else (),
        )

    def _check_room(self, name: str, names: Sequence[str], whole: Reading, long: int) -> None:
        """Require room for at least one token of the field that is cut."""
        n_others = len(whole) - len(whole.places_in(long))
        if self.max_tokens is not None and n_others >= self.max_tokens:
            others = " and ".join(one for number, one in enumerate(names) if number != long)
            raise ValueError(
                f"{others} of {name} must leave room for {names[long]}, got {n_others} tokens with the special ones, "
                f"where the model reads {self.max_tokens}; shorten {others}"
            )

    def _windows(
        self,
        sample: Mapping[str, str],
        whole: Reading,
        number: int,
        name: str,
        fixed: Collection[str],
        overlap: int,
    ) -> list[Encoding]:
        """Cut one field into parts that fit the model, between words unless a word is longer than a window."""
        names, texts = list(sample), list(sample.values())
        text = texts[number]

        def part(begin: int, end: int) -> dict[str, str]:
            return dict(zip(names, [*texts[:number], text[begin:end], *texts[number + 1 :]], strict=True))

        here = [i for i, one in enumerate(whole.texts) if one == number]
        places = [whole.places[i] for i in here]
        special = [whole.special[i] for i in here]
        _, spans = group_words(text, places, special, [whole.word_ids[i] for i in here])
        # For some tokenizers the white space before a word is a part of it, so a window begins with that.
        marks = {end for (start, end), mark in zip(places, special, strict=True) if mark and start < end}
        solid = len(text.rstrip())
        ends = sorted(end for end in marks | {end for _, end in spans} if end < solid)
        ends.append(len(text))
        last_of_token = sorted(end for _, end in places)
        room = (self.max_tokens or 0) - (len(whole) - len(here))
        windows: list[Encoding] = []
        begin = 0
        while begin < len(text):
            fits = partial(self._fits, part, begin)
            # Where the window is full by the tokens of the whole text; alone it may have more.
            full = bisect_right(last_of_token, begin) + room - 1
            reach = last_of_token[full] if full < len(last_of_token) else len(text)
            following = bisect_right(ends, begin)
            end = _longest(fits, ends[following : max(following + 1, bisect_right(ends, reach))])
            if end is None:
                clusters = [begin + at for at in cluster_ends(text[begin : ends[following]])]
                end = _longest(fits, clusters)
                end = _longest(fits, range(begin + 1, clusters[0])) if end is None else end
            if end is None:
                end = begin + 1
                warnings.warn(
                    f"{name} holds a character of more tokens than the model reads, {text[begin]!r} at {begin}; "
                    "the rest of its tokens are not explained",
                    stacklevel=3,
                )
            window = part(begin, end)
            read = self._reader.read(tuple(window.values()))
            kept = self._reader.read(tuple(window.values()), self.max_tokens, number)
            if len(kept):
                windows.append(replace(self._encoding(window, kept, read, fixed, begin), part=len(windows)))
            begin = end if end == len(text) else _again(ends, last_of_token, begin, end, min(overlap, room // 2))
        return windows

    def _fits(self, part: Callable[[int, int], Mapping[str, str]], begin: int, end: int) -> bool:
        found = self.tokenizer(*part(begin, end).values(), verbose=False)["input_ids"]
        return len(found) <= (self.max_tokens or 0)


def show_token(tokenizer: Any, token_id: int) -> str:
    """Write a token for people, without the marks of its tokenizer."""
    return str(tokenizer.decode([token_id])).strip() or str(tokenizer.convert_ids_to_tokens(token_id))


def _check_characters(sample: Mapping[str, str], name: str) -> None:
    """Require texts that UTF-8 can hold."""
    for field, text in sample.items():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            named = name if len(sample) == 1 else f"{field} of {name}"
            raise ValueError(
                f"{named} must be text that UTF-8 can hold, got {text[error.start]!r} at character {error.start}; "
                "decode it again from its source"
            ) from error


def _again(ends: Sequence[int], last_of_token: Sequence[int], begin: int, end: int, overlap: int) -> int:
    """Find the beginning of the next window, at most some tokens before the end of the last one."""
    earliest = bisect_right(last_of_token, end) - overlap
    possible = (place for place in ends if begin < place < end and bisect_right(last_of_token, place) >= earliest)
    return next(possible, end) if overlap else end


def _longest(fits: Callable[[int], bool], ends: Sequence[int]) -> int | None:
    """Find the last of some ascending ends that fits; None for none."""
    if not ends or not fits(ends[0]):
        return None
    # Usually the last end fits, or one shortly before it; in a long word it may be any.
    low, step = 0, 1
    high = len(ends)
    while high - low > 1:
        middle = max(low + 1, high - step)
        if fits(ends[middle]):
            low = middle
            if step == 1:
                break
            step = max(1, (high - low) // 2)
        else:
            high, step = middle, 2 * step
    return ends[low]
