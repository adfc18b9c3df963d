"""Reader: the tokens of one text, or of two that a model reads together.

Takes texts and a Hugging Face tokenizer; gives a `Reading`, which says for each token its text and its place there.
`captum_dig.models.encoding` makes an `Encoding` of it.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from captum_dig.models.places import find_places
from captum_dig.models.words import Span


@dataclass(frozen=True)
class Reading:
    """The output of a tokenizer for one or two texts.

    Attributes:
        inputs: The inputs of the model, a list of length T for each name.
        tokens: The tokens, length T.
        special: Whether the tokenizer calls the token special, length T.
        texts: The number of the text that each token belongs to, length T; -1 where the tokenizer added the token.
        places: Start and end of each token in its text, length T; (0, 0) for a token without a place.
        word_ids: The number of each token's word in its text, as the tokenizer counts; None where it has none.
    """

    inputs: dict[str, list[int]]
    tokens: tuple[str, ...]
    special: tuple[bool, ...]
    texts: tuple[int, ...]
    places: tuple[Span, ...]
    word_ids: tuple[int | None, ...]

    def __len__(self) -> int:
        return len(self.tokens)

    def places_in(self, text: int) -> list[Span]:
        """List the places of the tokens of one text."""
        return [place for place, number in zip(self.places, self.texts, strict=True) if number == text]

    def read(self, text: int, whole: "Reading", length: int, side: str) -> Span:
        """Return start and end of the part of a text that has tokens; the rest was cut off.

        Args:
            text: The number of the text.
            whole: The reading without a cut.
            length: The number of characters of the text.
            side: The side that was cut: ``"left"`` or ``"right"``.
        """
        kept, every = self.places_in(text), whole.places_in(text)
        n_lost = len(every) - len(kept)
        lost = every[:n_lost] if side == "left" else every[len(kept) :]
        first = min((start for start, end in kept if start < end), default=0)
        last = max((end for _, end in kept), default=0)
        begin = max((end for _, end in lost if end <= first), default=0)
        stop = min((start for start, _ in lost if start >= last), default=length)
        return begin, stop


class Reader:
    """Read texts with a tokenizer.

    Args:
        tokenizer: A Hugging Face tokenizer. A slow one, written in Python, does not report places; its tokens are
            searched in the text.
    """

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer: Any = tokenizer
        # Tokenizers list the token for unknown words among the special ones, but it stands for a word.
        self.special_ids = set(tokenizer.all_special_ids) - {tokenizer.unk_token_id}

    def read(
        self, texts: Sequence[str], n_most: int | None = None, long: int | None = None, *, add: bool = True
    ) -> Reading:
        """Read one or two texts.

        Args:
            texts: The texts.
            n_most: The largest number of tokens; None for any.
            long: The number of the text to cut; None for the longest.
            add: Whether the tokenizer adds its special tokens.
        """
        if self.tokenizer.is_fast:
            return self._read_fast(texts, n_most, long, add)
        return self._read_slow(texts, n_most, long, add)

    def _read_fast(self, texts: Sequence[str], n_most: int | None, long: int | None, add: bool) -> Reading:
        strategy = False if n_most is None else "longest_first" if long is None else ("only_first", "only_second")[long]
        # verbose=False: the tokenizer's own warning about long texts names neither the text nor a remedy.
        batch = self.tokenizer(
            *texts,
            add_special_tokens=add,
            return_offsets_mapping=True,
            return_special_tokens_mask=True,
            truncation=strategy,
            max_length=n_most,
            verbose=False,
        )
        first = batch.encodings[0]
        ids = list(first.ids)
        inputs = {"input_ids": ids, "attention_mask": list(first.attention_mask)}
        if "token_type_ids" in self.tokenizer.model_input_names:
            inputs["token_type_ids"] = list(first.type_ids)
        return Reading(
            inputs=inputs,
            tokens=tuple(first.tokens),
            special=self._special(ids, first.special_tokens_mask),
            texts=tuple(-1 if number is None else number for number in first.sequence_ids),
            places=tuple((a, b) for a, b in first.offsets),
            word_ids=tuple(first.word_ids),
        )

    def _read_slow(self, texts: Sequence[str], n_most: int | None, long: int | None, add: bool) -> Reading:
        tokenizer = self.tokenizer
        # Pieces are spelled as in the text; their ids may be that of an unknown one.
        pieces = [list(tokenizer.tokenize(text)) for text in texts]
        ids = [list(tokenizer.convert_tokens_to_ids(some)) for some in pieces]
        found = [find_places(text, some, tokenizer.tokenize) for text, some in zip(texts, pieces, strict=True)]
        if any(places.lost for places in found):
            # A constant message: Python then shows it once.
            warnings.warn(
                f"{type(tokenizer).__name__} does not report where a token stands in the text, and some were not found "
                "in it; these count to the word after them",
                stacklevel=2,
            )
        spans = [list(places.spans) for places in found]
        batch = tokenizer(*texts, add_special_tokens=add, verbose=False)
        if n_most is not None:
            n_added = len(batch["input_ids"]) - sum(map(len, ids))
            left = tokenizer.truncation_side == "left"
            kept = _shares([len(some) for some in ids], max(0, n_most - n_added), long)
            ids, spans = (
                [some[len(some) - n :] if left else some[:n] for some, n in zip(each, kept, strict=True)]
                for each in (ids, spans)
            )
            batch = {
                "input_ids": tokenizer.build_inputs_with_special_tokens(*ids),
                "token_type_ids": tokenizer.create_token_type_ids_from_sequences(*ids),
            }
        row: list[int] = list(batch["input_ids"])
        numbers, places, added = [-1] * len(row), [(0, 0)] * len(row), [1] * len(row)
        begin = 0
        for number, (own, own_places) in enumerate(zip(ids, spans, strict=True)):
            # Special tokens come before, between and after the texts.
            begin = next((k for k in range(begin, len(row) - len(own) + 1) if row[k : k + len(own)] == own), begin)
            here = slice(begin, begin + len(own))
            numbers[here], places[here], added[here] = [number] * len(own), own_places, [0] * len(own)
            begin += len(own)
        inputs = {"input_ids": row, "attention_mask": [1] * len(row)}
        if "token_type_ids" in tokenizer.model_input_names:
            inputs["token_type_ids"] = list(batch["token_type_ids"])
        return Reading(
            inputs=inputs,
            tokens=tuple(map(str, tokenizer.convert_ids_to_tokens(row))),
            special=self._special(row, added),
            texts=tuple(numbers),
            places=tuple(places),
            word_ids=(None,) * len(row),
        )

    def _special(self, ids: Sequence[int], added: Sequence[int]) -> tuple[bool, ...]:
        return tuple(bool(mark) or token_id in self.special_ids for mark, token_id in zip(added, ids, strict=True))


def _shares(lengths: Sequence[int], room: int, long: int | None) -> list[int]:
    """Divide the room for tokens among texts: one alone is cut, or always the longest."""
    kept = list(lengths)
    while sum(kept) > room:
        kept[kept.index(max(kept)) if long is None else long] -= 1
    return kept
