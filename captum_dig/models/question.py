"""Question: some texts, and one number of the model's output to explain for each.

`captum_dig.text` makes it from encodings and the choices of a task. It is a function of embeddings with their two ends.
`captum_dig.methods` scores it and `captum_dig.metrics` measures it.
"""

from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor, nn

from captum_dig.paths import PathGenerator

# Elements of the embeddings that a processor handles at once. The activations of a transformer, four times as wide,
# then stay below the 32 MB from which on the system takes memory back after each operation: a quarter of the time.
_FAST = 2**21


@dataclass(frozen=True)
class Question:
    """A batch of texts, and for each text a scalar to attribute to its embeddings.

    Attributes:
        forward: A module that maps embeddings, shape (N, T, D), places, shape (N, ...), and the other columns of the
            input to one number for each row, shape (N,).
        inputs: Embeddings of the texts, shape (B, T, D).
        baselines: Where explanations start, same shape.
        places: The place of the number in the output, for each text, shape (B, ...): for a label its index. It is
            passed like a column, so code that repeats rows repeats it too.
        columns: The other inputs of the model, each of shape (B, ...).
        fixed: True for special tokens and padding, which no method scores, shape (B, T).
        words: The number of the word that each token belongs to, shape (B, T), int64 on the CPU, -1 where there is
            none; None where each token is a word.
        lengths: The number of tokens of each text without padding, shape (B,) on the CPU; None for T each.
        at_input: The number at the texts, shape (B,), float32; None where it is not known yet.
        at_baseline: The number at the baselines, likewise.

    Example:
        >>> class Sum(nn.Module):
        ...     def forward(self, embeddings, places):
        ...         return embeddings.sum(dim=(1, 2)) * places
        >>> fixed = torch.zeros(1, 2, dtype=torch.bool)
        >>> question = Question(Sum(), torch.ones(1, 2, 3), torch.zeros(1, 2, 3), torch.tensor([2.0]), (), fixed)
        >>> question.changes(rows_at_once=64)
        tensor([12.])
    """

    forward: nn.Module
    inputs: Tensor
    baselines: Tensor
    places: Tensor
    columns: tuple[Tensor, ...]
    fixed: Tensor
    words: Tensor | None = None
    lengths: Tensor | None = None
    at_input: Tensor | None = None
    at_baseline: Tensor | None = None

    @property
    def arguments(self) -> tuple[Tensor, ...]:
        """The arguments of `forward` after the embeddings."""
        return (self.places, *self.columns)

    def path(self, path: PathGenerator) -> PathGenerator:
        """Group the tokens of a path into words.

        Args:
            path: The path.

        Returns:
            The path for these texts.
        """
        return path if self.words is None else path.grouped(self.words)

    def words_of(self, row: int) -> Tensor | None:
        """The numbers of the words of one text, shape (T,); None where each token is a word."""
        return None if self.words is None else self.words[row]

    def take(self, rows: Tensor) -> "Question":
        """Select some of the texts.

        Args:
            rows: Their numbers, shape (N,), int64.

        Returns:
            The question about these texts.
        """
        if torch.equal(rows.cpu(), torch.arange(len(self.inputs), device="cpu")):
            return self
        taken: dict[str, Any] = {
            field.name: value[rows.to(value.device)]
            for field in fields(self)
            if isinstance(value := getattr(self, field.name), Tensor)
        }
        return replace(self, columns=tuple(column[rows] for column in self.columns), **taken)

    def outputs(self, embeddings: Tensor, rows: Tensor, rows_at_once: int) -> Tensor:
        """Give the number for other embeddings, without gradient.

        Args:
            embeddings: Shape (N, T, D).
            rows: For each the number of its text, shape (N,).
            rows_at_once: How many rows the model sees at once, at most.

        Returns:
            Shape (N,), float32.
        """
        rows_at_once = self.fast_rows(rows_at_once)
        with torch.no_grad():
            parts = [
                self.forward(some, *(column[which] for column in self.arguments)).float()
                for some, which in zip(embeddings.split(rows_at_once), rows.split(rows_at_once), strict=True)
            ]
        return torch.cat(parts)

    def fast_rows(self, rows_at_once: int) -> int:
        """Limit the number of rows at once: on a processor many long rows are slower than a few."""
        if self.inputs.device.type != "cpu":
            return rows_at_once
        return min(rows_at_once, max(1, _FAST // max(1, self.inputs[:1].numel())))

    def ends(self, rows_at_once: int) -> tuple[Tensor, Tensor]:
        """Give the number at the texts and at their baselines, shape (B,), float32 each; runs the model if need be.

        Args:
            rows_at_once: How many rows the model sees at once.
        """
        everyone = torch.arange(len(self.inputs), device=self.inputs.device)
        return (
            self.outputs(self.inputs, everyone, rows_at_once) if self.at_input is None else self.at_input,
            self.outputs(self.baselines, everyone, rows_at_once) if self.at_baseline is None else self.at_baseline,
        )

    def changes(self, rows_at_once: int) -> Tensor:
        """Give the number at the texts minus the number at their baselines, shape (B,), float32."""
        at_input, at_baseline = self.ends(rows_at_once)
        return at_input - at_baseline
