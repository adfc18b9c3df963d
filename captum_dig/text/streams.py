"""TextStream: samples in, outcomes out, in order, with few texts in memory.

Takes samples one by one; gives an `Outcome` for each. It reads a window of texts ahead, puts texts of about the same
length into a batch, and puts the results back in order. `captum_dig.text.explainer` says how a text is read and
explained.
"""

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any, Final, Literal, TypeAlias, get_args

from captum_dig.errors import CaptumDigError
from captum_dig.models.encoding import Encoding
from captum_dig.text.results import TextAttribution

Errors = Literal["raise", "record"]
ERRORS: tuple[str, ...] = get_args(Errors)

# Errors of a text, or of a model that reads it. All others are faults of the program.
_OF_TEXTS: Final = (CaptumDigError, ValueError, TypeError, RuntimeError)
# Batches that are read ahead, to be sorted by length.
_BATCHES_AHEAD: Final = 8

Batch: TypeAlias = tuple[list[Encoding], list[Any]]


@dataclass(frozen=True)
class Outcome:
    """The results of one sample, or its error.

    Attributes:
        number: The place of the sample among all, from 0.
        sample: The sample as it was passed.
        results: Its results; there may be none, for instance if a task finds no entity.
        error: The error that took the place of results; None if there was none.
    """

    number: int
    sample: Any
    results: tuple[TextAttribution, ...] = ()
    error: Exception | None = None


@dataclass
class _Text:
    """A sample on its way; `left` counts the parts that are not explained yet."""

    number: int
    sample: Any
    parts: list[Batch] = field(default_factory=list)
    results: list[list[TextAttribution]] = field(default_factory=list)
    left: int = 0
    error: Exception | None = None

    def __post_init__(self) -> None:
        self.left = len(self.parts)
        self.results = [[] for _ in self.parts]

    @property
    def done(self) -> bool:
        return self.left == 0 or self.error is not None

    def outcome(self) -> Outcome:
        found = () if self.error is not None else tuple(result for part in self.results for result in part)
        return Outcome(self.number, self.sample, found, self.error)


# A part of a text: encodings that a task must see together.
_Part: TypeAlias = tuple[_Text, int]


@dataclass(frozen=True)
class TextStream:
    """Explain any number of samples, with a bounded window of them in memory.

    Attributes:
        read: From the number of a sample and the sample to its parts: encodings that belong together, with the resolved
            target of each.
        explain: From the encodings of a batch and their targets to the results of each encoding.
        batch_size: The number of encodings in a batch.
        window: The number of samples that are read ahead and sorted by length; None for 8 batches, or for 1 sample
            where batches hold one.
        errors: ``"raise"`` raises the error of a sample after the outcomes of those before it; ``"record"`` puts it
            into the outcome.
    """

    read: Callable[[int, Any], list[Batch]]
    explain: Callable[[list[Encoding], list[Any]], list[list[TextAttribution]]]
    batch_size: int = 1
    window: int | None = None
    errors: Errors = "raise"

    def __call__(self, samples: Iterable[Any]) -> Iterator[Outcome]:
        """Explain samples.

        Args:
            samples: The samples; read lazily.

        Yields:
            An outcome for each, in order.

        Raises:
            Exception: That of the first sample that fails, with ``errors="raise"``.
        """
        numbered = enumerate(samples)
        window = self.window or (1 if self.batch_size == 1 else _BATCHES_AHEAD * self.batch_size)
        ended: Exception | bool = False
        while ended is False:
            block, ended = self._block(numbered, window)
            waiting = deque(block)
            # An empty batch at the end is for texts without parts.
            for batch in chain(self._batches(block), ([],)):
                failed = min((text.number for text in block if text.error is not None), default=math.inf)
                # An error that will be raised makes the texts behind it vain.
                self._explain([part for part in batch if self.errors == "record" or part[0].number < failed])
                while waiting and waiting[0].done:
                    yield self._finished(waiting.popleft())
        if isinstance(ended, Exception):
            raise ended

    def _block(self, numbered: Iterator[tuple[int, Any]], window: int) -> tuple[list[_Text], Exception | bool]:
        """Read the samples of a window; also tell whether they were the last, or which error ended them."""
        block: list[_Text] = []
        try:
            for number, sample in islice(numbered, window):
                block.append(self._read(number, sample))
        except Exception as error:
            return block, error
        return block, len(block) < window

    def _read(self, number: int, sample: Any) -> _Text:
        try:
            return _Text(number, sample, self.read(number, sample))
        except _OF_TEXTS as error:
            return _Text(number, sample, error=error)

    def _batches(self, block: Sequence[_Text]) -> Iterator[list[_Part]]:
        """Put parts of about the same length together, so that padding is small."""
        parts = [(text, place) for text in block for place in range(len(text.parts))]
        if self.batch_size > 1:
            # The longest first: what needs too much memory fails early.
            parts.sort(key=_length, reverse=True)
        batch: list[_Part] = []
        size = 0
        for text, place in parts:
            batch.append((text, place))
            size += len(text.parts[place][0])
            if size >= self.batch_size:
                yield batch
                batch, size = [], 0
        if batch:
            yield batch

    def _explain(self, batch: Sequence[_Part]) -> None:
        """Explain a batch; if that fails, explain each part by itself, so that no other text is lost."""
        if not batch:
            return
        encodings = [encoding for text, place in batch for encoding in text.parts[place][0]]
        wanted = [one for text, place in batch for one in text.parts[place][1]]
        try:
            found = iter(self.explain(encodings, wanted))
        except _OF_TEXTS as error:
            if len(batch) == 1:
                batch[0][0].error = error
                return
            for part in batch:
                self._explain([part])
            return
        for text, place in batch:
            text.results[place] = [result for _ in text.parts[place][0] for result in next(found)]
            text.left -= 1

    def _finished(self, text: _Text) -> Outcome:
        if text.error is not None and self.errors == "raise":
            raise text.error
        return text.outcome()


def _length(part: _Part) -> int:
    text, place = part
    return max(len(encoding.ids) for encoding in text.parts[place][0])
