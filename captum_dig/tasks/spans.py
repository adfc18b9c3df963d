"""SpanTask: the answer to a question, a span of a context.

Takes a question and a context, and logits for the start and the end of an answer; gives the places of both.
`captum_dig.text` makes a `Question` about them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from captum_dig.fields import trimmed
from captum_dig.models.encoding import Encoding
from captum_dig.models.samples import SampleForm
from captum_dig.models.words import Span
from captum_dig.tasks.base import Choice, Task

# The longest answer, in tokens, as usual for question answering.
_LONGEST = 15


@dataclass(frozen=True)
class _Answer:
    """An answer in one window: the place of its tokens, and its own place in the text of the window."""

    row: int
    place: tuple[int, int, int, int]
    probability: float
    window: str
    tokens: Span

    @property
    def span(self) -> Span:
        """Start and end without white space around."""
        return trimmed(self.window, *self.tokens)

    @property
    def text(self) -> str:
        """The words of the answer."""
        return self.window[slice(*self.span)]


class SpanTask(Task):
    """Explain why a model finds its answer to a question in a context.

    Probabilities of start and end are over the tokens of the context. A context that is too long is read in windows
    that overlap, if asked; the window with the most probable answer is explained.

    The target is ``"predicted"`` for the most probable answer, or words of the context.

    Args:
        model: A Hugging Face model for extractive question answering.
        output: ``"log_probability"`` of the answer, the sum of those of ``"start"`` and ``"end"``, which are two more
            choices; or ``"logit"``, the sum of both logits. None for ``"log_probability"``.
        fields: The fields whose words are scored: ``"question"``, ``"context"``, or both; None for both.

    Raises:
        ValueError: If `output` or `fields` is something else.
    """

    auto_class = "AutoModelForQuestionAnswering"
    kind = "question answering model"
    form = SampleForm(("question", "context"))
    long = "context"
    # As usual for question answering, so that an answer at an end of a window is whole in the next.
    overlap = 128
    joint = True
    positional = True
    output = "log_probability"
    outputs = ("log_probability", "start", "end", "logit")

    @classmethod
    def classes(cls) -> tuple[str, ...]:
        """Return the ends of the names of Transformers' classes for this task."""
        return ("ForQuestionAnswering", "ForQuestionAnsweringSimple")

    def resolve(self, wanted: Any) -> Any:
        """Check that the target is a string; only the context tells whether it holds these words.

        Raises:
            ValueError: If it is no string.
        """
        if not isinstance(wanted, str) or not wanted.strip():
            raise ValueError(f"target must be 'predicted' or words of the context, got {wanted!r}")
        return None if wanted == "predicted" else wanted.strip()

    def choose(self, output: Any, encodings: Sequence[Encoding], wanted: Sequence[Any]) -> list[Choice]:
        """Choose the most probable answer of each sample over all its windows, or the wanted one.

        Raises:
            ValueError: If the context does not hold the wanted words.
        """
        starts, ends = (logits.detach().float().cpu() for logits in self._logits(output))
        choices: list[Choice] = []
        for rows in _samples(encodings):
            answer = wanted[rows[0]]
            likely = _best([self._answer(starts, ends, encodings, row, None) for row in rows])
            chosen = (
                likely
                if answer is None
                else _best([self._answer(starts, ends, encodings, row, answer) for row in rows])
            )
            if likely is None or chosen is None:
                raise ValueError(
                    f"target must be 'predicted' or words of the context, got {answer!r}, "
                    "which the context does not hold"
                )
            answers = {chosen.text: chosen.probability} | (
                {} if likely.text == chosen.text else {likely.text: likely.probability}
            )
            choices.append(Choice(chosen.row, chosen.place, 0, tuple(answers), tuple(answers.values()), chosen.span))
        return choices

    def _answer(
        self, starts: Tensor, ends: Tensor, encodings: Sequence[Encoding], row: int, answer: str | None
    ) -> _Answer | None:
        """Find the wanted answer in one window, or the most probable one; None if the window does not hold it."""
        encoding = encodings[row]
        first, last = _context(encoding)
        start, end = (logits[row, first : last + 1].log_softmax(dim=0) for logits in (starts, ends))
        found = _likeliest(start, end) if answer is None else _tokens_of(answer, encoding, first, last)
        if found is None:
            return None
        a, b = found
        probability = float((start[a] + end[b]).exp())
        return _Answer(
            row,
            (first + a, first + b, first, last),
            probability,
            encoding.text,
            (encoding.offsets[first + a][0], encoding.offsets[first + b][1]),
        )

    def value(self, output: Any, places: Tensor) -> Tensor:
        """Pick the number of each answer."""
        start, end = self._numbers(output, places, normalized=self.output != "logit")
        return {"start": start, "end": end}.get(self.output, start + end)

    def log_probability(self, output: Any, places: Tensor) -> Tensor | None:
        """Pick the log-probability of each answer."""
        start, end = self._numbers(output, places, normalized=True)
        return start + end

    def _numbers(self, output: Any, places: Tensor, *, normalized: bool) -> tuple[Tensor, Tensor]:
        """The numbers of start and end, shape (N,) each."""
        numbers = []
        for logits, place in zip(self._logits(output), places.T[:2], strict=True):
            tokens = torch.arange(logits.shape[1], device=logits.device)
            inside = (tokens >= places[:, 2:3]) & (tokens <= places[:, 3:4])
            kept = logits.masked_fill(~inside, -torch.inf)
            numbers.append((kept.log_softmax(dim=1) if normalized else kept).gather(1, place[:, None])[:, 0])
        return numbers[0], numbers[1]

    def _logits(self, output: Any) -> tuple[Tensor, Tensor]:
        return self.part_of(output, "start_logits", "B", "T"), self.part_of(output, "end_logits", "B", "T")


def _context(encoding: Encoding) -> Span:
    """Find the first and the last token of the context."""
    field = encoding.fields[-1]
    inside = [
        i
        for i, (start, end) in enumerate(encoding.offsets)
        if start < end and field.start <= start and end <= field.end
    ]
    if not inside:
        raise ValueError("context must hold at least one token, got none; pass the text that holds the answer")
    return inside[0], inside[-1]


def _likeliest(start: Tensor, end: Tensor) -> Span:
    """Find the start and the end of the most probable answer, not before its start and not too long."""
    scores = start[:, None] + end[None, :]
    kept = torch.ones_like(scores, dtype=torch.bool).triu() & torch.ones_like(scores, dtype=torch.bool).tril(
        _LONGEST - 1
    )
    best = int(scores.masked_fill(~kept, -torch.inf).argmax())
    return best // len(end), best % len(end)


def _tokens_of(answer: str, encoding: Encoding, first: int, last: int) -> Span | None:
    """Find some words in the context, as tokens counted from its first; None if it does not hold them."""
    begin = encoding.text.find(answer, encoding.fields[-1].start)
    stop = begin + len(answer)
    places = encoding.offsets[first : last + 1]
    inside = [i for i, (start, end) in enumerate(places) if begin >= 0 and start < stop and begin < end]
    return (inside[0], inside[-1]) if inside else None


def _samples(encodings: Sequence[Encoding]) -> list[list[int]]:
    """The rows of the windows of each sample."""
    rows: list[list[int]] = []
    for row, encoding in enumerate(encodings):
        if encoding.part == 0:
            rows.append([])
        rows[-1].append(row)
    return rows


def _best(answers: Sequence[_Answer | None]) -> _Answer | None:
    """The most probable answer, the first of equals; None for none."""
    found = [answer for answer in answers if answer is not None]
    return max(found, key=lambda answer: answer.probability, default=None)
