"""Bench: measure one text, by every method from every baseline.

Takes the encodings of a text; gives a `ComparedText`. `captum_dig.comparison.comparing` makes it, and passes one text
after the other.
"""

import math
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from captum_dig.comparison.records import ComparedText, Measurement
from captum_dig.comparison.settings import ComparisonSettings
from captum_dig.methods.base import AttributionMethod, Plan
from captum_dig.methods.scoring import Scores, score
from captum_dig.metrics.integration import percent_of_change
from captum_dig.metrics.measures import Measure, Trial, Trials
from captum_dig.models.encoding import Encoding
from captum_dig.text.explainer import TextExplainer
from captum_dig.text.questions import EVEN, Questions, ScalarModel, ask, ask_from_even, check_ids, probable
from captum_dig.vocabulary.readable import row_kinds


@dataclass(frozen=True)
class Bench:
    """Everything a text needs that does not change between texts."""

    explainer: TextExplainer
    methods: tuple[AttributionMethod, ...]
    baselines: Mapping[str, tuple[int, ...]]
    measures: tuple[Measure, ...]
    plan: Plan
    settings: ComparisonSettings
    # On a path from word to word, a word has the same numbers in every text.
    known: dict[tuple[Any, ...], float] = field(default_factory=dict)

    @cached_property
    def kinds(self) -> dict[str, Tensor]:
        """Masks of the kinds of rows."""
        return row_kinds(self.explainer.encoder.tokenizer, len(self.explainer.vocabulary))

    def measure(self, number: int, encodings: Sequence[Encoding]) -> ComparedText | None:
        """Explain one text by every method from every baseline, and measure the scores; None if it has no number."""
        # The draws of a text depend on its number only, not on the texts finished before it.
        plan = replace(self.plan, seed=(1_000_003 * self.settings.seed + number) % 2**63)
        steps = self.settings.curve_steps if number < self.settings.n_curve_texts else ()
        with self.explainer.classifier.evaluating():
            found = {name: self._ask(encodings, name) for name in self.baselines}
            asked = {name: questions for name, (questions, _) in found.items()}
            choices = next(iter(asked.values())).choices
            if not choices:
                warnings.warn(f"text {number + 1} has no number to explain, and does not count", stacklevel=3)
                return None
            encoding = encodings[choices[0].row]
            tried = [
                self._try(method, name, ids, questions, plan)
                for name, (questions, ids) in found.items()
                for method in self.methods
            ]
            trials = self._trials(encoding, next(iter(asked.values())), tuple(trial for trial, _, _ in tried))
            columns = {measure.name: measure(trials) for measure in self.measures}
            curves = [_curve(trial, steps) for trial in trials.trials]
        measurements = tuple(
            Measurement(
                method=trial.method.name,
                baseline=trial.baseline,
                word_scores=tuple(sum(float(trial.scores[0, j]) for j in word) for word in encoding.words),
                n_gradients=n_gradients,
                seconds=seconds,
                values={name: value for name, column in columns.items() if (value := column[place]) is not None},
                curve=curves[place],
            )
            for place, (trial, n_gradients, seconds) in enumerate(tried)
        )
        target = choices[0].target
        return ComparedText(encoding.text, target, choices[0].labels[target], encoding.word_offsets, measurements)

    def read(self, number: int, sample: Mapping[str, str]) -> list[Encoding]:
        """Encode one text, cut to the length that the model reads."""
        explainer, name = self.explainer, f"text {number + 1}"
        with warnings.catch_warnings():
            # Its hint about windows applies to explanations only.
            warnings.simplefilter("ignore")
            encodings = explainer.task.read(sample, explainer.encoder, "truncate", name)
        encoding = encodings[0]
        if encoding.truncated:
            warnings.warn(
                f"{name} is longer than the model reads: its last {encoding.truncated} tokens are cut off", stacklevel=4
            )
        if all(encoding.special):
            warnings.warn(f"{name} has no word to explain, and does not count", stacklevel=4)
        for one in encodings:
            check_ids(one, len(explainer.vocabulary), name)
        return encodings

    def _ask(self, encodings: Sequence[Encoding], baseline: str) -> tuple[Questions, tuple[int, ...]]:
        """Ask a text from a baseline; return the rows of that, too."""
        explainer = self.explainer
        wanted = [explainer.task.resolve("predicted")] * len(encodings)
        ids = self.baselines[baseline]
        asked = explainer.classifier, explainer.task, explainer.encoder, ids, encodings, wanted
        return ask_from_even(*asked) if baseline == EVEN else (ask(*asked), ids)

    def _try(
        self, method: AttributionMethod, baseline: str, ids: tuple[int, ...], asked: Questions, plan: Plan
    ) -> tuple[Trial, int, float]:
        """Score a text by one method; return the trial, its gradients and its seconds."""
        started = time.perf_counter()
        # A task may choose several numbers of a text; only the first is compared.
        first = torch.zeros(1, dtype=torch.int64, device=asked.by_baseline[0].inputs.device)
        questions = tuple(question.take(first) for question in asked.by_baseline)
        scores = score(method, questions, plan)
        seconds = time.perf_counter() - started
        change = float(torch.stack([question.changes(plan.rows_at_once) for question in questions]).mean())
        taken = replace(plan, n_steps=scores.n_gradients[0]) if scores.n_gradients[0] else plan
        error = _error_percent(scores)
        trial = Trial(method, baseline, ids, questions, taken, scores.values.cpu(), change, error)
        return trial, scores.n_gradients[0], seconds

    def _trials(self, encoding: Encoding, asked: Questions, trials: tuple[Trial, ...]) -> Trials:
        explainer, question = self.explainer, trials[0].question
        model, task = explainer.classifier, explainer.task
        # Without a padding token, the baseline replaces a removed word.
        pad_id = explainer.encoder.pad_id
        columns = dict(zip(asked.names, question.columns, strict=True))

        def log_probability(ids: Tensor, mask: Tensor) -> Tensor:
            # Rows of one length at a time need no padding, which some models attend to.
            # If no token is left, one token of padding is.
            lengths = mask.sum(dim=1).clamp(min=1)
            found = torch.empty(len(ids), dtype=torch.float32, device=ids.device)
            for length in lengths.unique().tolist():
                here = lengths == length
                n_rows = int(here.sum())
                inputs = {name: column[:, :length].expand(n_rows, -1) for name, column in columns.items()}
                places = question.places.expand(n_rows, -1)
                output = model.output(**inputs | {"input_ids": ids[here, :length]}, **task.keywords(places))
                found[here] = probable(task.log_probability(output, places)).float()
            return found

        def pick(output: Any, places: Tensor) -> Tensor:
            return probable(task.log_probability(output, places))

        return Trials(
            trials=trials,
            input_ids=torch.tensor(encoding.ids, dtype=torch.int64, device="cpu"),
            pad_id=next(iter(self.baselines.values()))[0] if pad_id is None else pad_id,
            top_fractions=self.settings.top_fractions,
            log_probability=log_probability,
            soft_log_probability=ScalarModel(model, asked.names, pick, task.keywords),
            vocabulary=explainer.vocabulary,
            row_kinds=lambda: self.kinds,
            seed=trials[0].plan.seed,
            known=self.known,
            deletes=not (task.positional or encoding.fields),
        )


def _curve(trial: Trial, steps: Sequence[int]) -> tuple[float, ...]:
    """Estimated errors by the number of steps, for methods along a path; deltas for a rule without an estimate."""
    if trial.method.path is None or not trial.method.completes or trial.method.n_gradients is not None:
        return ()
    percents = []
    for n_steps in steps:
        try:
            scores = score(trial.method, trial.questions, replace(trial.plan, n_steps=n_steps))
        except ValueError:
            # Fewer steps than paths.
            percents.append(math.nan)
            continue
        error = _error_percent(scores)
        percents.append(percent_of_change(replace(trial, scores=scores.values.cpu())) if error is None else error)
    return tuple(percents)


def _error_percent(scores: Scores) -> float | None:
    """The estimated error of the only text."""
    return None if scores.error_percent is None else scores.error_percent[0]
