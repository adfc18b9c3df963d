"""Run: one way to explain, applied to batches of texts.

Takes encoded texts, gives a `TextAttribution` for each: embeds them, attributes along the path, and sums what the
dimensions of a token and the tokens of a word add. `captum_dig.text` decides which model, path and baseline.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

import torch
from torch import Tensor, nn

from captum_dig.attribution.inputs import DiscretizedIntegratedGradients
from captum_dig.errors import ModelError, at_least_one
from captum_dig.methods import Task
from captum_dig.models.encoding import Encoding, TextEncoder
from captum_dig.models.model import Classifier
from captum_dig.paths import PathGenerator, WordPath
from captum_dig.quadrature import Spacing
from captum_dig.text.results import LARGE_DELTA_PERCENT, TextAttribution
from captum_dig.text.settings import ExplanationSettings

# Where n_steps="auto" begins.
_FIRST_STEPS = 50
# Elements of the inputs that are attributed together: their paths take some hundred times as many.
_TOGETHER = 2**19


class EmbeddingModel(nn.Module):
    """A classifier as a function of embeddings, and of the other columns of its input, in this order.

    Args:
        classifier: The model.
        names: What the tokenizer calls the columns.
    """

    def __init__(self, classifier: Classifier, names: Sequence[str]) -> None:
        super().__init__()
        self.model = classifier.model
        self._classifier, self._names = classifier, tuple(names)

    def forward(self, embeddings: Tensor, *columns: Tensor) -> Tensor:
        """Give logits of shape (B, C)."""
        return self._classifier.logits_from(embeddings, **dict(zip(self._names, columns, strict=True)))


def prepare(
    classifier: Classifier,
    encoder: TextEncoder,
    baseline_id: int,
    encodings: Sequence[Encoding],
    targets: Sequence[int | None],
) -> tuple[Task, Tensor, Tensor]:
    """Embed texts that share a batch, and the baseline of each.

    Args:
        classifier: The model; the caller is inside its `evaluating`.
        encoder: The tokenizer.
        baseline_id: The row that every word becomes in the baseline.
        encodings: The texts as the model reads them.
        targets: The index of the class to explain for each text; None for the predicted one.

    Returns:
        What is to be attributed; and the logits at the texts and at their baselines, shape (B, C) each.

    Raises:
        ModelError: If the model's output is not finite, or not that of a sequence classifier.
    """
    inputs = {name: tensor.to(classifier.device) for name, tensor in encoder.pad(encodings).items()}
    ids = inputs["input_ids"]
    fixed = ids.new_tensor([[*e.special, *[True] * (ids.shape[1] - len(e.ids))] for e in encodings], dtype=torch.bool)
    model, columns = EmbeddingModel(classifier, tuple(inputs)), tuple(inputs.values())
    ends, starts = classifier.embed(ids), classifier.embed(torch.where(fixed, ids, baseline_id))
    with torch.no_grad():
        at_input, at_baseline = model(ends, *columns), model(starts, *columns)
    if not bool(torch.stack([at_input, at_baseline]).isfinite().all()):
        raise ModelError(
            f"the output of {classifier.name} must be finite, got NaN or infinity; "
            "check its weights, or load it in float32"
        )
    predicted = at_input.argmax(dim=1).tolist()
    target = ids.new_tensor([p if t is None else t for t, p in zip(targets, predicted, strict=True)])
    words = _word_numbers(encodings, ids.shape[1])
    return Task(model, ends, starts, target, columns, fixed, words), at_input, at_baseline


def check_ids(encoding: Encoding, n_rows: int, name: str) -> None:
    """Require a row of the embedding layer for every token.

    Args:
        encoding: The text as the model reads it.
        n_rows: The number of rows.
        name: How messages call the text.

    Raises:
        ModelError: If a token has none.
    """
    for token, token_id in zip(encoding.tokens, encoding.ids, strict=True):
        if token_id >= n_rows:
            raise ModelError(
                f"model must have a row for every token, got {token!r} in {name} with id {token_id} "
                f"and {n_rows} rows; call model.resize_token_embeddings(len(tokenizer)) and train it"
            )


@dataclass(frozen=True)
class Doubling:
    """When to take twice as many gradients once more.

    Attributes:
        tolerance_percent: The largest delta that is good enough, in percent of the difference of outputs.
        max_steps: The largest number of steps to go to.

    Raises:
        ValueError: If one of them is not positive.
    """

    tolerance_percent: float
    max_steps: int

    def __post_init__(self) -> None:
        at_least_one("max_steps", self.max_steps)
        if not self.tolerance_percent > 0:
            raise ValueError(f"tolerance_percent must be positive, got {self.tolerance_percent!r}")


def first_steps(n_steps: int | str, max_steps: int, n_needed: int) -> int:
    """Say how many steps to begin with.

    Args:
        n_steps: A number, or ``"auto"``.
        max_steps: The largest number of steps to go to, with ``"auto"``.
        n_needed: How many there must be: one for each path from each baseline.

    Raises:
        ValueError: If `n_steps` is neither, or there are too few.
    """
    if isinstance(n_steps, str) and n_steps != "auto":
        raise ValueError(f"n_steps must be 'auto' or an integer of at least 1, got {n_steps!r}")
    name, given = ("max_steps", max_steps) if isinstance(n_steps, str) else ("n_steps", n_steps)
    most = at_least_one(name, given)
    if most < n_needed:
        raise ValueError(
            f"{name} must be at least {n_needed}, one for each path from each baseline, got {most}; "
            "take more, fewer baselines, or strategy='straight_line'"
        )
    return min(max(_FIRST_STEPS, n_needed), most) if isinstance(n_steps, str) else most


@dataclass(frozen=True)
class Run:
    """What stays the same from batch to batch.

    Attributes:
        classifier: The model.
        encoder: The tokenizer.
        path: The path from the baseline to each text.
        baseline_ids: The row that every word becomes at the other end of its path; results are the mean over several.
        settings: What results say about how they were made.
        internal_batch_size: How many rows, texts times steps, the model sees at once.
        doubling: When to double the number of steps of a text, from that of the settings on; None for never.
    """

    classifier: Classifier
    encoder: TextEncoder
    path: PathGenerator
    baseline_ids: tuple[int, ...]
    settings: ExplanationSettings
    internal_batch_size: int
    doubling: Doubling | None = None

    def explain(self, encodings: Sequence[Encoding], targets: Sequence[int | None]) -> list[TextAttribution]:
        """Explain texts that share a batch.

        Args:
            encodings: The texts as the model reads them.
            targets: The index of the class to explain for each text; None for the predicted one.

        Returns:
            A result for each text.

        Raises:
            ModelError: If the model's output is not finite, or not that of a sequence classifier.
        """
        classifier, settings = self.classifier, self.settings
        with classifier.evaluating():
            prepared = [prepare(classifier, self.encoder, b, encodings, targets) for b in self.baseline_ids]
            tasks = [task for task, _, _ in prepared]
            at_input, target = prepared[0][1], tasks[0].target
            outputs = torch.stack([at_input, *(at_baseline for _, _, at_baseline in prepared)])
            values = outputs[:, torch.arange(len(target), device=target.device), target].float()
            input_values, baseline_values = values[0], values[1:].mean(dim=0)
            attributions, n_steps = self._attribute(tasks, input_values - baseline_values)
        scores = attributions.sum(dim=-1).tolist()
        anchors = self._anchor_words(encodings)
        probabilities = classifier.probabilities(at_input.float()).tolist()
        results = [
            TextAttribution(
                text=encoding.text,
                tokens=encoding.tokens,
                offsets=encoding.offsets,
                token_ids=tuple(encoding.ids),
                special=encoding.special,
                token_scores=tuple(scores[i][: len(encoding.ids)]),
                word_offsets=encoding.word_offsets,
                word_scores=tuple(sum(scores[i][j] for j in word) for word in encoding.words),
                labels=classifier.labels,
                probabilities=tuple(probabilities[i]),
                target=int(target[i]),
                input_value=float(input_values[i]),
                baseline_value=float(baseline_values[i]),
                anchors=anchors[i],
                settings=replace(settings, n_steps=n_steps[i]),
                truncated=encoding.truncated,
                start=encoding.start,
            )
            for i, encoding in enumerate(encodings)
        ]
        if any(result.delta_percent > LARGE_DELTA_PERCENT for result in results):
            self._warn_of_zeros()
        return results

    def _warn_of_zeros(self) -> None:
        """Say so if a large delta comes from a baseline that no number of steps copes with."""
        # Llama's, Qwen's, Gemma's and others: each has a class of its own.
        divides = any(type(module).__name__.endswith("RMSNorm") for module in self.classifier.model.modules())
        rows = torch.tensor([self.baseline_ids], device=self.classifier.device)
        if divides and not bool(self.classifier.embed(rows).any(dim=-1).all()):
            warnings.warn(
                f"baseline {self.settings.baseline!r} is an embedding of zeros, where a model that divides by its "
                "length (RMSNorm) jumps, so that more steps need not make a large delta smaller; "
                "try another, such as baseline='mask' or a common word",
                stacklevel=2,
            )

    def _attribute(self, tasks: Sequence[Task], changes: Tensor) -> tuple[Tensor, list[int]]:
        """Attributions of shape (B, T, D), and the number of steps that each text has come to.

        Baselines share the steps, as the paths of an ensemble do.
        """
        ends, spacing = tasks[0].inputs, cast("Spacing", self.settings.spacing)
        n_steps, taken = self.settings.n_steps, [0] * len(ends)
        attributions = torch.zeros_like(ends, dtype=torch.promote_types(ends.dtype, torch.float32))
        left = torch.arange(len(ends), device=ends.device)
        while True:
            for rows in left.split(max(1, _TOGETHER // ends[0].numel())):
                each = [
                    DiscretizedIntegratedGradients(task.model, task.path(self.path, rows), spacing=spacing).attribute(
                        ends[rows],
                        task.baselines[rows],
                        target=task.target[rows],
                        additional_forward_args=tuple(column[rows] for column in task.columns),
                        n_steps=n_steps // len(tasks) + (number < n_steps % len(tasks)),
                        method=self.settings.method,
                        internal_batch_size=max(self.internal_batch_size, len(rows)),
                    )
                    for number, task in enumerate(tasks)
                ]
                attributions[rows] = torch.stack(each).mean(dim=0)
            for row in left.tolist():
                taken[row] = n_steps
            if self.doubling is None or 2 * n_steps > self.doubling.max_steps:
                return attributions, taken
            deltas = attributions[left].sum(dim=(1, 2)) - changes[left]
            left = left[deltas.abs() > self.doubling.tolerance_percent / 100 * changes[left].abs()]
            if not len(left):
                return attributions, taken
            n_steps *= 2

    def _anchor_words(self, encodings: Sequence[Encoding]) -> list[tuple[tuple[str, ...], ...]]:
        """For each text and token the words that its path visits, if there is one path."""
        if not isinstance(self.path, WordPath) or len(self.baseline_ids) > 1:
            return [tuple(() for _ in e.ids) for e in encodings]
        moving = sorted({i for e in encodings for i, mark in zip(e.ids, e.special, strict=True) if not mark})
        anchors = self.path.anchor_ids(torch.tensor(moving, dtype=torch.int64, device="cpu"), *self.baseline_ids)[
            :, 1:
        ].tolist()
        shown = {i: self.encoder.show(i) for row in anchors for i in row}
        words = {i: tuple(shown[a] for a in row) for i, row in zip(moving, anchors, strict=True)}
        return [tuple(() if mark else words[i] for i, mark in zip(e.ids, e.special, strict=True)) for e in encodings]


def _word_numbers(encodings: Sequence[Encoding], n_tokens: int) -> Tensor:
    """The number of the word that each token belongs to, shape (B, T); -1 for special tokens and padding."""
    numbers = torch.full((len(encodings), n_tokens), -1, dtype=torch.int64, device="cpu")
    for row, encoding in zip(numbers, encodings, strict=True):
        for number, word in enumerate(encoding.words):
            row[list(word)] = number
    return numbers
