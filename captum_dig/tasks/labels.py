"""LabelTask: one label of a sequence classifier, or the value of a regression.

Takes a text, or two that the model reads together, and the logits of a model; gives the place of one logit.
`captum_dig.text` makes a `Question` about it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from captum_dig.checks import as_index
from captum_dig.errors import ModelError
from captum_dig.models.encoding import Encoding
from captum_dig.models.samples import SampleForm
from captum_dig.tasks.base import Choice, Task
from captum_dig.tasks.numbers import OUTPUTS, number_of

# The target for every label, and the probability from which a label applies by itself.
_ALL, _APPLIES = "all", 0.5
_NOT_A_CLASSIFIER = "pass a sequence classifier, such as AutoModelForSequenceClassification.from_pretrained(name) gives"


class LabelTask(Task):
    """Explain the log-odds of a label; by default the label that the model predicts.

    A logit can move by a constant that all labels share, and no decision depends on it. The log-odds of a label, its
    logit minus the logarithm of the summed exponentials of the others, cannot: a score of s multiplies the odds by
    exp(s). In a multi-label model, the logit of a label is its log-odds.

    The target is ``"predicted"``, the name or index of a label, or ``"all"``: a result for each label; in a multi-label
    model, for each label with a probability of at least one half.

    A sample is a text, or a pair: ``{"text": ..., "text_pair": ...}``, such as a premise and a hypothesis, or a query
    and a document.

    Args:
        model: A Hugging Face sequence classifier.
        output: ``"logit"``, ``"log_odds"``, ``"log_probability"`` or ``"probability"``; ``"value"`` for a regression.
            None for ``"log_odds"``, or the value.
        fields: The fields whose words are scored: ``"text"``, ``"text_pair"``, or both; None for both. The other keeps
            its embeddings.

    Raises:
        ModelError: If the configuration of the model names no labels.
        ValueError: If `output` or `fields` is something else.

    Example:
        >>> from types import SimpleNamespace
        >>> model = SimpleNamespace(config=SimpleNamespace(id2label={0: "BAD", 1: "GOOD"}, problem_type=None))
        >>> task = LabelTask(model)
        >>> output = SimpleNamespace(logits=torch.tensor([[0.5, 2.0]]))
        >>> (choice,) = task.choose(output, [None], [task.resolve("predicted")])
        >>> task.labels[choice.target], task(output, torch.tensor([choice.place]))
        ('GOOD', tensor([1.5000]))
    """

    auto_class = "AutoModelForSequenceClassification"
    kind = "sequence classifier"
    seeks_padding = True
    pipeline = "TextClassificationPipeline"
    form = SampleForm(("text",), ("text_pair",))
    output = "log_odds"

    def __init__(self, model: nn.Module, output: str | None = None, fields: str | Sequence[str] | None = None) -> None:
        self.model, self.labels = model, labels_of(model)
        # A subclass may explain another number, and say so.
        if self.problem == "regression" and self.output == LabelTask.output:
            self.output = "value"
        super().__init__(model, output, fields)

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of the numbers that can be explained."""
        own = (self.output,)
        return own if self.problem == "regression" or own[0] not in OUTPUTS else tuple(OUTPUTS)

    def against(self, wanted: Any, contrast: Any) -> tuple[Any, Any]:
        """Find two different classes; the difference of their numbers is explained.

        Raises:
            ValueError: If there is no such class, or both are the same.
        """
        pair = self.label_index(wanted), self.label_index(contrast)
        self._check_pair(*pair)
        return pair

    def _check_pair(self, one: int | None, other: int | None) -> None:
        if one == other:
            raise ValueError(
                f"contrast must be another label than target, got {'predicted' if one is None else self.labels[one]!r} "
                "for both; pass the target, too"
            )

    def several(self, wanted: Any) -> bool:
        """Whether all labels are wanted: those that apply, where each label applies or not by itself."""
        return isinstance(wanted, str) and wanted == _ALL and _ALL not in self.labels

    def resolve(self, wanted: Any) -> Any:
        """Find a class by its name, in any case, or its index; None means the predicted class, ``"all"`` every one.

        Raises:
            ValueError: If there is no such class; the message lists the classes.
        """
        return wanted if self.several(wanted) else self.label_index(wanted)

    def choose(
        self,
        output: Any,
        encodings: Sequence[Encoding],  # noqa: ARG002 - labels are the same for each text
        wanted: Sequence[Any],
    ) -> list[Choice]:
        """Choose one label for each text."""
        probabilities = self.probabilities(output).detach().float().tolist()
        predicted = self._logits(output).argmax(dim=1).tolist()
        choices = []
        for row, one in enumerate(wanted):
            places = self._every(probabilities[row]) if one == _ALL else [one if isinstance(one, tuple) else (one,)]
            for place in places:
                found = tuple(predicted[row] if label is None else label for label in place)
                if len(found) == 2:
                    self._check_pair(*found)
                choices.append(Choice(row, found, found[0], self.labels, tuple(probabilities[row])))
        return choices

    def _every(self, probabilities: Sequence[float]) -> list[tuple[int, ...]]:
        """The labels that apply, where each does by itself; else all labels."""
        alone = self.problem == "multi_label_classification"
        return [(label,) for label, probability in enumerate(probabilities) if not alone or probability >= _APPLIES]

    def value(self, output: Any, places: Tensor) -> Tensor:
        """Pick the numbers of the labels; for two labels their difference."""
        alone = self.problem == "multi_label_classification"
        return number_of(self.output, self._logits(output), places, alone=alone)

    def log_probability(self, output: Any, places: Tensor) -> Tensor | None:
        """Pick the log-probabilities of the labels; None for a regression, which has none."""
        if self.problem == "regression":
            return None
        alone = self.problem == "multi_label_classification"
        return number_of("log_probability", self._logits(output), places[:, :1], alone=alone)

    def probabilities(self, output: Any) -> Tensor:
        """Return the probability of each label, shape (B, C); NaN for a regression, which has none."""
        logits = self._logits(output).float()
        if self.problem == "regression":
            return torch.full_like(logits, torch.nan)
        if self.problem == "multi_label_classification":
            return logits.sigmoid()
        return logits.softmax(dim=1)

    def check_measurable(self) -> None:
        """Require a model with probabilities.

        Raises:
            ModelError: If it is a regression.
        """
        if self.problem == "regression":
            raise ModelError(
                f"model must have probabilities, got a regression with the output {', '.join(self.labels)}; "
                "use captum_dig.metrics with a forward function of your own"
            )

    @property
    def problem(self) -> str | None:
        """``"regression"`` or ``"multi_label_classification"``; None where one of the labels is right."""
        # Transformers trains a single output as a regression by default.
        kind = getattr(self.model.config, "problem_type", None) or ("regression" if len(self.labels) == 1 else None)
        # A single label that is no regression applies or not, like one of several labels.
        kind = "multi_label_classification" if kind != "regression" and len(self.labels) == 1 else kind
        return kind if kind in ("regression", "multi_label_classification") else None

    def _logits(self, output: Any) -> Tensor:
        return self.part_of(output, "logits", "B", len(self.labels))


def labels_of(model: nn.Module) -> tuple[str, ...]:
    """Read the names of the labels from the configuration of a model, in the order of their indexes.

    Raises:
        ModelError: If there are no names, or an index has no name.
    """
    labels: Any = getattr(getattr(model, "config", None), "id2label", None)
    if not labels:
        raise ModelError(
            f"model must have labels in its configuration, got {type(model).__name__}; {_NOT_A_CLASSIFIER}"
        )
    return _in_order(labels)


def _in_order(labels: Any) -> tuple[str, ...]:
    """Sort the names of labels by their indexes, which are strings in JSON."""
    pairs = labels.items() if isinstance(labels, Mapping) else enumerate(labels) if _is_list(labels) else ()
    by_index = {as_index(key): str(name) for key, name in pairs}
    if not by_index or set(by_index) != set(range(len(labels))):
        got = f"keys {', '.join(map(repr, list(labels)[:12]))}" if isinstance(labels, Mapping) else repr(labels)
        raise ModelError(
            f"model must have a label for each index from 0 on, got {got}; "
            "set model.config.id2label to a dictionary such as {0: 'NEGATIVE', 1: 'POSITIVE'}"
        )
    return tuple(by_index[i] for i in range(len(by_index)))


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)
