"""ZeroShotTask: one of the labels that the user names, by a model of natural language inference.

Takes a text and labels; gives the number by which the text entails the sentence of a label. `captum_dig.text` makes a
`Question` about it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from captum_dig.errors import ModelError
from captum_dig.models.encoding import Encoding, TextEncoder
from captum_dig.models.samples import Overflow
from captum_dig.tasks.base import Choice, Task
from captum_dig.tasks.labels import labels_of
from captum_dig.tasks.numbers import OUTPUTS, number_of


class ZeroShotTask(Task):
    """Explain why a text has one of the labels that the user names.

    The model reads the text and a sentence for each label, the hypothesis. The explained number is about entailment
    against contradiction for one label alone: its log-odds by default. The shown probabilities compare the labels, as
    the pipeline of Transformers does with ``multi_label=False``.

    Args:
        model: A Hugging Face sequence classifier with the labels entailment and contradiction.
        output: ``"log_odds"`` of entailment against contradiction, ``"logit"`` of entailment, ``"log_probability"`` or
            ``"probability"``. None for ``"log_odds"``.
        fields: The fields whose words are scored: ``"text"``, ``"hypothesis"``, or both; None for ``"text"``.
        labels: The labels, or one string with commas between.
        template: The hypothesis, with ``{}`` in the place of the label.

    Raises:
        ModelError: If the model has no label for entailment.
        ValueError: If there are no labels, two are the same, the template has no place for them, or `output` or
            `fields` is something else.
    """

    auto_class = "AutoModelForSequenceClassification"
    kind = "model of natural language inference"
    seeks_padding = True
    pipeline = "ZeroShotClassificationPipeline"
    long = "text"
    joint = True
    output = "log_odds"
    outputs = tuple(OUTPUTS)
    shown = ("text", "hypothesis")
    scored = ("text",)

    def __init__(
        self,
        model: nn.Module,
        output: str | None = None,
        fields: str | Sequence[str] | None = None,
        labels: str | Sequence[str] = (),
        template: str = "This example is {}.",
    ) -> None:
        super().__init__(model, output, fields)
        named = labels.split(",") if isinstance(labels, str) else labels
        self.labels = tuple(label.strip() for label in named if label.strip())
        if not self.labels or len(set(self.labels)) < len(self.labels):
            raise ValueError(f"labels must hold at least one label, each once, got {list(labels)}")
        if template.format("a") == template.format("b"):
            raise ValueError(f"template must hold {{}} in the place of the label, got {template!r}")
        self.template = template
        self.n_outputs = len(labels_of(model))
        self.entailment, self.contradiction = _entailment(labels_of(model))

    def read(self, sample: Mapping[str, str], encoder: TextEncoder, overflow: Overflow, name: str) -> list[Encoding]:
        """Encode the text with the hypothesis of each label.

        Raises:
            ValueError: As in `TextEncoder.encode`, or if `overflow` is ``"windows"``, because one window alone has no
                label.
        """
        if overflow == "windows":
            raise ValueError("overflow must be 'truncate' or 'error' where a text is compared with labels")
        pairs = [{"text": sample["text"], "hypothesis": self.template.format(label)} for label in self.labels]
        read = super().read
        return [
            replace(encoding, part=number)
            for number, pair in enumerate(pairs)
            for encoding in read(pair, encoder, overflow, name)
        ]

    def resolve(self, wanted: Any) -> int | None:
        """Find a label by its name or index; None means the most probable one.

        Raises:
            ValueError: If there is no such label.
        """
        return self.label_index(wanted)

    def choose(self, output: Any, encodings: Sequence[Encoding], wanted: Sequence[Any]) -> list[Choice]:
        """Choose one label for each text: the one whose hypothesis is entailed most."""
        entailed = self._logits(output)[:, 0].detach().float().view(-1, len(self.labels))
        probabilities = entailed.softmax(dim=1)
        choices = []
        for number, row in enumerate(range(0, len(encodings), len(self.labels))):
            target = int(probabilities[number].argmax()) if wanted[row] is None else wanted[row]
            found = tuple(probabilities[number].tolist())
            choices.append(Choice(row + target, (0,), target, self.labels, found))
        return choices

    def value(self, output: Any, places: Tensor) -> Tensor:
        """Pick the number of entailment."""
        return number_of(self.output, self._logits(output), places)

    def log_probability(self, output: Any, places: Tensor) -> Tensor | None:
        """Pick the log-probability of entailment against contradiction."""
        return number_of("log_probability", self._logits(output), places)

    def _logits(self, output: Any) -> Tensor:
        """The logits of entailment and contradiction, shape (N, 2)."""
        logits = self.part_of(output, "logits", "B", self.n_outputs)
        return torch.stack([logits[:, self.entailment], logits[:, self.contradiction]], dim=1)


def _entailment(labels: Sequence[str]) -> tuple[int, int]:
    """Find the indexes of entailment and contradiction by their names, or as the pipeline does."""
    names = [label.casefold() for label in labels]
    entailment = next((i for i, name in enumerate(names) if name.startswith("entail")), None)
    if entailment is None or len(names) < 2:
        raise ModelError(
            f"model must have a label that begins with 'entail', and another one, got {', '.join(labels)}; "
            "pass a model that was trained on natural language inference"
        )
    last = len(names) - 1 if entailment == 0 else 0
    return entailment, next((i for i, name in enumerate(names) if name.startswith("contradict")), last)
