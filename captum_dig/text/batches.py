"""BatchExplainer: from the texts of a batch to their results.

Takes encoded texts, a method and a plan; gives a `TextAttribution` for each explained number.
`captum_dig.text.explainer` chooses the model, task, method and baselines.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from captum_dig.attribution.integral import word_error
from captum_dig.errors import BaselineWarning
from captum_dig.methods.base import AttributionMethod, Plan
from captum_dig.methods.scoring import Scores, by_word, score, spread_percent
from captum_dig.models.encoding import Encoding, TextEncoder
from captum_dig.models.model import TextModel
from captum_dig.paths import PathGenerator
from captum_dig.tasks.base import Task
from captum_dig.text.questions import Questions, ask, ask_from_even, nearest_to_even
from captum_dig.text.results import SURE, TextAttribution, probability_of
from captum_dig.text.settings import LARGE_DELTA_PERCENT, LARGE_ERROR_PERCENT, ExplanationSettings
from captum_dig.vocabulary import Vocabulary


@dataclass(frozen=True)
class BatchExplainer:
    """Everything a batch needs that does not change between batches.

    Attributes:
        model: The model.
        task: The task.
        encoder: The tokenizer.
        method: The attribution method.
        plan: How to integrate.
        baseline_ids: The row that every word becomes in each baseline; results are the mean over them.
        settings: The settings in the results.
        even: Whether each sample takes one of the baselines, the one nearest to even odds.
    """

    model: TextModel
    task: Task
    encoder: TextEncoder
    method: AttributionMethod
    plan: Plan
    baseline_ids: tuple[int, ...]
    settings: ExplanationSettings
    even: bool = False

    def __call__(self, encodings: Sequence[Encoding], wanted: Sequence[Any]) -> list[list[TextAttribution]]:
        """Explain the texts of a batch.

        Args:
            encodings: The texts as the model reads them.
            wanted: The result of `Task.resolve` for each text.

        Returns:
            For each encoding the results of the numbers that the task chose in it.

        Raises:
            ModelError: If the model's output is not finite, or does not fit the task.
        """
        with self.model.evaluating():
            if self.even:
                return [found for part in self._samples(encodings, wanted) for found in self._from_even(*part)]
            questions = ask(self.model, self.task, self.encoder, self.baseline_ids, encodings, wanted)
            return self._explained(questions, encodings)

    def _explained(self, questions: Questions, encodings: Sequence[Encoding]) -> list[list[TextAttribution]]:
        """Score the questions about some texts; the caller holds the model's lock."""
        results: list[list[TextAttribution]] = [[] for _ in encodings]
        if not questions.choices:
            return results
        scores = score(self.method, questions.by_baseline, self.plan)
        nearer = [self._nearer(questions, row) for row in range(len(questions.choices))]
        tokens = scores.values.tolist()
        ends = [question.ends(self.plan.rows_at_once) for question in questions.by_baseline]
        input_values = ends[0][0].tolist()
        baseline_values = torch.stack([at_baseline for _, at_baseline in ends]).mean(dim=0).tolist()
        question = questions.by_baseline[0]
        anchors = self._anchor_words(encodings)
        for number, choice in enumerate(questions.choices):
            encoding = encodings[choice.row]
            word_errors, spread = _errors(scores, number, question.words_of(number))
            results[choice.row].append(
                TextAttribution(
                    text=encoding.text,
                    tokens=encoding.tokens,
                    offsets=encoding.offsets,
                    token_ids=tuple(encoding.ids),
                    special=encoding.special,
                    token_scores=tuple(tokens[number][: len(encoding.ids)]),
                    word_offsets=encoding.word_offsets,
                    word_scores=tuple(sum(tokens[number][j] for j in word) for word in encoding.words),
                    labels=choice.labels,
                    probabilities=choice.probabilities,
                    target=choice.target,
                    input_value=input_values[number],
                    baseline_value=baseline_values[number],
                    anchors=anchors[choice.row],
                    settings=replace(self.settings, n_steps=scores.n_gradients[number]),
                    truncated=encoding.truncated,
                    start=encoding.start,
                    error_percent=None if scores.error_percent is None else scores.error_percent[number],
                    word_errors=word_errors,
                    spread_percent=spread,
                    converged=None if scores.converged is None else scores.converged[number],
                    fields=encoding.fields,
                    span=choice.span,
                    even_baseline=nearer[number],
                )
            )
        far = any(
            result.delta_percent > LARGE_DELTA_PERCENT or (result.error_percent or 0) > LARGE_ERROR_PERCENT
            for found in results
            for result in found
        )
        if self.method.completes and far:
            self._warn_of_zeros()
        if any(nearer):
            warnings.warn(
                f"baseline {self.settings.baseline!r} is no neutral start for some texts: the model is sure of the "
                "explained number there already, so words that speak for it score little; "
                "baseline='even' takes the one of pad, mask and unk that is nearest to even odds for each text",
                BaselineWarning,
                stacklevel=2,
            )
        return results

    def _samples(self, encodings: Sequence[Encoding], wanted: Sequence[Any]) -> list[tuple[list[Encoding], list[Any]]]:
        """Separate the samples of a batch."""
        parts: list[tuple[list[Encoding], list[Any]]] = []
        for encoding, one in zip(encodings, wanted, strict=True):
            if not (self.task.joint and encoding.part):
                parts.append(([], []))
            parts[-1][0].append(encoding)
            parts[-1][1].append(one)
        return parts

    def _from_even(self, encodings: Sequence[Encoding], wanted: Sequence[Any]) -> list[list[TextAttribution]]:
        """Explain one sample from the baseline that is nearest to even odds."""
        questions, ids = ask_from_even(self.model, self.task, self.encoder, self.baseline_ids, encodings, wanted)
        settings = replace(self.settings, baseline=", ".join(map(self.encoder.show, ids)))
        return replace(self, baseline_ids=ids, settings=settings, even=False)._explained(questions, encodings)

    def _nearer(self, questions: Questions, row: int) -> tuple[str, float] | None:
        """Find a better baseline if the model is sure of the explained number at this one already."""
        at_baseline = questions.by_baseline[0].at_baseline
        if len(self.baseline_ids) > 1 or at_baseline is None or self.settings.contrast is not None:
            return None
        probability = probability_of(self.settings.output, float(at_baseline[row]))
        if probability is None or probability <= SURE:
            return None
        candidates = [i for i in self.encoder.even_candidates() if i != self.baseline_ids[0]]
        if not candidates:
            return None
        best, there = nearest_to_even(self.model, self.task, questions, candidates, row)
        return (self.encoder.show(best), there) if abs(there - 0.5) < abs(probability - 0.5) else None

    def _warn_of_zeros(self) -> None:
        """Warn if a large delta comes from a baseline of zeros, which more steps do not repair."""
        # Each model family (Llama, Qwen, Gemma) has an RMSNorm class of its own.
        divides = any(type(module).__name__.endswith("RMSNorm") for module in self.model.model.modules())
        rows = torch.tensor([self.baseline_ids], device=self.model.device, dtype=torch.int64)
        if divides and not bool(self.model.embed(rows).any(dim=-1).all()):
            warnings.warn(
                f"baseline {self.settings.baseline!r} is an embedding of zeros, where a model that divides by its "
                "length (RMSNorm) jumps, so more steps need not make a large delta smaller; "
                "try another, such as baseline='mask' or a common word",
                stacklevel=2,
            )

    def _anchor_words(self, encodings: Sequence[Encoding]) -> list[tuple[tuple[str, ...], ...]]:
        """For each text and token the words that its path passes, if there is one path."""
        nothing: list[tuple[tuple[str, ...], ...]] = [tuple(() for _ in e.ids) for e in encodings]
        if self.method.path is None or len(self.baseline_ids) > 1:
            return nothing
        moving = sorted({i for e in encodings for i, mark in zip(e.ids, e.special, strict=True) if not mark})
        ids = torch.tensor(moving, dtype=torch.int64, device="cpu")
        passed = self.method.path.passed_words(ids, self.baseline_ids[0])
        if passed is None:
            return nothing
        rows = passed.tolist()
        shown = {i: self.encoder.show(i) for row in rows for i in row}
        words = {i: tuple(shown[a] for a in row) for i, row in zip(moving, rows, strict=True)}
        return [tuple(() if mark else words[i] for i, mark in zip(e.ids, e.special, strict=True)) for e in encodings]


def _errors(scores: Scores, number: int, words: Tensor | None) -> tuple[tuple[float, ...] | None, float | None]:
    """The errors of one text's words, and their spread in percent; None with too few draws.

    Args:
        scores: The scores of a batch.
        number: The number of the text in it.
        words: The number of the word of each token, shape (T,).
    """
    if scores.draws is None:
        return None, None
    draws = by_word(scores.draws[number], words)
    errors = None if scores.integration_errors is None else by_word(scores.integration_errors[number], words)
    spread = spread_percent(draws, by_word(scores.values[number], words))
    return tuple(word_error(draws, errors).tolist()), spread


def warn_of_other_rows(path: PathGenerator | None, vocabulary: Vocabulary, encodings: Sequence[Encoding]) -> None:
    """Warn if a user's path goes over rows that differ from the model's.

    Args:
        path: The path of the method; None for a method without.
        vocabulary: The rows of the model.
        encodings: The texts, whose rows are compared.
    """
    if path is None or path.vocabulary is None or path.vocabulary is vocabulary:
        return
    ids = sorted({i for e in encodings for i in e.ids})
    own, rows = vocabulary.rows, path.vocabulary.rows
    if rows.shape == own.shape and not torch.equal(rows[ids], own[ids]):
        warnings.warn(
            f"the vocabulary of {path!r} must hold the rows of the model, got other rows for words of the text; "
            "if the model has been trained since, make the path anew with "
            "Vocabulary.from_layer(model.get_input_embeddings())",
            stacklevel=4,
        )
