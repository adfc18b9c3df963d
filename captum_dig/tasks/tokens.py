"""TokenTask: the label of an entity, or of a word, by a token classifier.

Takes a text and logits for each of its tokens; gives the places of the words of each entity. `captum_dig.text` makes a
`Question` about their mean number.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from captum_dig.models.encoding import Encoding
from captum_dig.tasks.base import Choice, Task
from captum_dig.tasks.labels import labels_of
from captum_dig.tasks.numbers import OUTPUTS, number_of

# The label of a word outside of every entity, in the usual schemes.
_OUTSIDE = "O"


@dataclass(frozen=True)
class _Entity:
    """Neighbouring words with one tag: their numbers in the text, and the label of each."""

    tag: str
    words: tuple[int, ...]
    labels: tuple[int, ...]


class TokenTask(Task):
    """Explain why a token classifier finds an entity, or gives a word its label.

    A word has the label of its first token. Neighbouring words with one tag are an entity, as with the pipeline's
    ``aggregation_strategy="first"``. The explained number of an entity is the mean over its words. Without schemes such
    as ``B-`` and ``I-``, as for parts of speech, neighbours with the same tag belong together, too.

    The target is ``"predicted"`` for all entities, a tag such as ``"PER"`` for those of one kind, or words of the text
    for these words with the labels that the model gives them. The result is always a list.

    Args:
        model: A Hugging Face token classifier.
        output: ``"log_odds"``, ``"logit"``, ``"log_probability"`` or ``"probability"``; None for ``"log_odds"``.
        fields: The fields whose words are scored: ``"text"``, the only one.

    Raises:
        ModelError: If the configuration of the model names no labels.
        ValueError: If `output` or `fields` is something else.
    """

    auto_class = "AutoModelForTokenClassification"
    kind = "token classifier"
    pipeline = "TokenClassificationPipeline"
    positional = True
    output = "log_odds"
    outputs = tuple(OUTPUTS)

    def __init__(self, model: nn.Module, output: str | None = None, fields: str | Sequence[str] | None = None) -> None:
        super().__init__(model, output, fields)
        self.token_labels = labels_of(model)
        self.labels = tuple(dict.fromkeys(_tag(label) for label in self.token_labels))

    def several(self, wanted: Any) -> bool:  # noqa: ARG002 - a text may have any number of entities
        """Whether a text may have several numbers, or none: always."""
        return True

    def resolve(self, wanted: Any) -> Any:
        """Check that the target is a string; only a text tells whether it holds these words.

        Raises:
            ValueError: If it is neither ``"predicted"``, nor a tag, nor words.
        """
        if not isinstance(wanted, str) or not wanted.strip():
            raise ValueError(
                f"target must be 'predicted', one of {', '.join(map(repr, self.labels))}, or words of the text, "
                f"got {wanted!r}"
            )
        return wanted, None

    def against(self, wanted: Any, contrast: Any) -> Any:
        """Check the target and another tag, to explain why these words have their tag and not the other.

        Raises:
            ValueError: If there is no such tag.
        """
        if contrast not in self.labels:
            raise ValueError(f"contrast must be one of {', '.join(map(repr, self.labels))}, got {contrast!r}")
        return self.resolve(wanted)[0], contrast

    def choose(self, output: Any, encodings: Sequence[Encoding], wanted: Sequence[Any]) -> list[Choice]:
        """Choose the entities of each text, or the wanted words.

        Raises:
            ValueError: If a text does not hold the wanted words.
        """
        probabilities = self._logits(output).detach().float().softmax(dim=2).cpu()
        choices = []
        for row, (encoding, (target, contrast)) in enumerate(zip(encodings, wanted, strict=True)):
            firsts = [word[0] for word in encoding.words]
            found = probabilities[row, firsts] if firsts else probabilities[row, :0]
            for entity in self._entities(encoding, found.argmax(dim=1).tolist(), target):
                if entity.tag == contrast:
                    continue
                place = [
                    number
                    for i, (word, label) in enumerate(zip(entity.words, entity.labels, strict=True))
                    for number in (firsts[word], label, self._other(contrast, first=i == 0))
                ]
                by_tag = found[list(entity.words)].mean(dim=0)
                spans = [encoding.word_offsets[word] for word in entity.words]
                choices.append(
                    Choice(
                        row,
                        tuple(place),
                        self.labels.index(entity.tag),
                        self.labels,
                        tuple(float(by_tag[self._of_tag(tag)].sum()) for tag in self.labels),
                        (spans[0][0], spans[-1][1]),
                    )
                )
        return choices

    def value(self, output: Any, places: Tensor) -> Tensor:
        """Pick the mean number of the words of each entity."""
        return self._mean(self.output, output, places)

    def log_probability(self, output: Any, places: Tensor) -> Tensor | None:
        """Pick the mean log-probability of the words of each entity."""
        return self._mean("log_probability", output, places)

    def _mean(self, name: str, output: Any, places: Tensor) -> Tensor:
        logits = self._logits(output)
        # A place holds three integers for each word: its token, its label, and another label or one more than the last.
        tokens, labels, others = places.view(len(places), -1, 3).unbind(dim=2)
        there = tokens >= 0
        rows = torch.arange(len(places), device=places.device)[:, None].expand_as(tokens)
        picked = logits[rows[there], tokens[there]]
        numbers = number_of(name, picked, labels[there][:, None])
        against = others[there] < logits.shape[2]
        if bool(against.any()):
            numbers = numbers.clone()
            numbers[against] = numbers[against] - number_of(name, picked[against], others[there][against][:, None])
        sums = torch.zeros(len(places), dtype=numbers.dtype, device=numbers.device)
        return sums.index_add(0, rows[there], numbers) / there.sum(dim=1)

    def _entities(self, encoding: Encoding, labels: Sequence[int], target: str) -> list[_Entity]:
        """Group words into entities, and select the wanted ones."""
        entities: list[_Entity] = []
        for word, label in enumerate(labels):
            name = self.token_labels[label]
            last = entities[-1] if entities else None
            if last is not None and last.tag == _tag(name) and not name.startswith("B-"):
                entities[-1] = _Entity(last.tag, (*last.words, word), (*last.labels, label))
            else:
                entities.append(_Entity(_tag(name), (word,), (label,)))
        if target == "predicted":
            return [entity for entity in entities if entity.tag != _OUTSIDE]
        if target in self.labels:
            return [entity for entity in entities if entity.tag == target]
        start = encoding.text.find(target.strip())
        end = start + len(target.strip())
        words = [n for n, (a, b) in enumerate(encoding.word_offsets) if start >= 0 and a < end and start < b]
        if not words:
            raise ValueError(
                f"target must be 'predicted', one of {', '.join(map(repr, self.labels))}, or words of the text, "
                f"got {target!r}, which {encoding.text[:60]!r} does not hold"
            )
        return [_Entity(_tag(self.token_labels[labels[words[0]]]), tuple(words), tuple(labels[n] for n in words))]

    def _of_tag(self, tag: str) -> list[int]:
        return [i for i, label in enumerate(self.token_labels) if _tag(label) == tag]

    def _other(self, tag: str | None, *, first: bool) -> int:
        """The index of the label of a tag, for the first word or a later one; one more than the last for no tag."""
        if tag is None:
            return len(self.token_labels)
        begins = f"B-{tag}" if first else f"I-{tag}"
        names = [begins, tag, f"I-{tag}", f"B-{tag}"]
        return next(self.token_labels.index(name) for name in names if name in self.token_labels)

    def _logits(self, output: Any) -> Tensor:
        return self.part_of(output, "logits", "B", "T", len(self.token_labels))


def _tag(label: str) -> str:
    """The tag of a label, without the sign of its place in an entity."""
    return label[2:] if label.startswith(("B-", "I-")) else label
