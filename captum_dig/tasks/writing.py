"""WritingTask: the base of tasks whose models write text, and the places of the written tokens in the shown text.

Takes token ids and a tokenizer; gives the text up to each of them and its place. `continuation` and `sequence` use it.
"""

from abc import abstractmethod
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any, Final

from torch import Tensor, nn

from captum_dig.checks import at_least_one
from captum_dig.fields import trimmed
from captum_dig.models.samples import SampleForm
from captum_dig.models.words import Span
from captum_dig.tasks.base import Choice, Task

# The target for a result for each token.
TOKENS: Final = "tokens"


class WritingTask(Task):
    """Explain what a model writes; subclasses say how the model reads, and where its logits are.

    The target is ``"predicted"`` for the whole continuation, or ``"tokens"`` for a result for each of its tokens.

    Args:
        model: The model.
        output: ``"log_probability"``, or ``"logit"``, the sum of the logits; None for ``"log_probability"``.
        fields: The fields whose words are scored: ``"text"``, the only one.
        max_new_tokens: The most tokens that the model writes where no continuation is given.
        tokenizer: The tokenizer.
    """

    form = SampleForm(("text",), ("continuation",))
    output = "log_probability"
    outputs = ("log_probability", "logit")
    shown = ("text",)

    def __init__(
        self,
        model: nn.Module,
        output: str | None = None,
        fields: str | Sequence[str] | None = None,
        max_new_tokens: int = 20,
        tokenizer: Any = None,
    ) -> None:
        super().__init__(model, output, fields)
        self.tokenizer = tokenizer
        self.max_new_tokens = at_least_one("max_new_tokens", max_new_tokens)

    def several(self, wanted: Any) -> bool:
        """Whether each token of the continuation is explained by itself."""
        return isinstance(wanted, str) and wanted == TOKENS

    def resolve(self, wanted: Any) -> str:
        """Check the target.

        Raises:
            ValueError: If it is neither ``"predicted"`` nor ``"tokens"``.
        """
        if not isinstance(wanted, str) or wanted not in {"predicted", TOKENS}:
            raise ValueError(
                f"target must be 'predicted' for the whole continuation, or 'tokens' for each of its tokens, "
                f"got {wanted!r}; pass a continuation of your own as a field: explain(prompt, continuation=...)"
            )
        return wanted

    @abstractmethod
    def total(self, output: Any, places: Tensor, *, normalized: bool) -> Tensor:
        """Add the logits of the tokens up, shape (N,); their log-probabilities if `normalized`."""

    def value(self, output: Any, places: Tensor) -> Tensor:
        """Pick the number of each continuation: the sum over its tokens."""
        return self.total(output, places, normalized=self.output != "logit")

    def log_probability(self, output: Any, places: Tensor) -> Tensor | None:
        """Pick the log-probability of each continuation."""
        return self.total(output, places, normalized=True)


def choice_of(
    row: int, place: tuple[int, ...], text: str, spans: Sequence[Span], fallback: str, probability: float
) -> Choice:
    """Make the choice of written tokens.

    Args:
        row: The index of the encoding.
        place: The place of the number.
        text: The shown text.
        spans: The places of the tokens in it.
        fallback: The name of the tokens where they show nothing.
        probability: Their probability.

    Returns:
        The choice; it has the tokens' part of the text as its name and its span.
    """
    start, end = trimmed(text, spans[0][0], spans[-1][1])
    shown = (start, end) if start < end else None
    return Choice(row, place, 0, (text[start:end].strip() or fallback,), (probability,), shown)


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
