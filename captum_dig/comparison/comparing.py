"""Bench: attribution methods side by side, on the same texts, with the same number of gradients.

Takes a `TextExplainer`, texts and the names of methods; gives a frozen `Comparison` with what each method's scores are
worth on each text. What is finished can be kept in a journal, so that a run that was cut off goes on where it was.
"""

import functools
import math
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, cast, get_args

import torch
from torch import Tensor

from captum_dig import __version__
from captum_dig.comparison.identity import identity
from captum_dig.comparison.journal import Journal
from captum_dig.comparison.records import ComparedText, Comparison, ComparisonSettings, Measurement
from captum_dig.errors import ModelError, at_least_one
from captum_dig.methods import METHODS, AttributionMethod, Budget, LeaveOneOut, PathMethod, Task
from captum_dig.metrics import (
    TokenBatch,
    anchor_shares,
    comprehensiveness,
    delta_percent,
    kendall_tau,
    log_odds,
    sufficiency,
    word_approximation_error,
)
from captum_dig.metrics.faithfulness import Protocol
from captum_dig.models.encoding import Encoding, as_texts
from captum_dig.paths import PathGenerator, StraightLine, WordPath
from captum_dig.text.batches import check_ids, prepare
from captum_dig.text.explainer import TextExplainer
from captum_dig.vocabulary.readable import row_kinds

# Methods that are a path of the explainer, and its strategy.
STRATEGIES: Final = {
    "dig_greedy": "greedy",
    "dig_maxcount": "maxcount",
    "dig_random_anchor": "random_anchor",
    "dig_random_neighbor": "random_neighbor",
    "dig_uniform": "uniform",
    "staggered": "staggered",
}
NAMES: Final = ("integrated_gradients", *STRATEGIES, *(name for name in METHODS if name != "integrated_gradients"))
# Looking around every point of every word's line takes seconds for a text.
DEFAULT_METHODS: Final = tuple(name for name in NAMES if name != "dig_uniform")


def compare(
    explainer: TextExplainer,
    texts: Sequence[str],
    methods: Sequence[str | AttributionMethod] = DEFAULT_METHODS,
    baselines: Sequence[str] = ("pad",),
    *,
    n_steps: int = 50,
    top_fractions: Sequence[float] = (0.05, 0.1, 0.2, 0.3, 0.5),
    protocols: Sequence[Protocol] = ("default",),
    n_curve_texts: int = 20,
    curve_steps: Sequence[int] = (8, 16, 32, 64, 128),
    internal_batch_size: int = 64,
    seed: int = 0,
    journal: str | Path | Callable[[ComparisonSettings], Journal | None] | None = None,
    progress: Callable[[int], None] | None = None,
) -> Comparison:
    """Compare attribution methods on the same texts.

    Every text is explained for the class that the model predicts. Texts that are longer than the model reads are cut.

    Args:
        explainer: The model, and the settings of the paths: anchors, neighbours, candidates.
        texts: The texts.
        methods: Names from `NAMES`, or methods of your own.
        baselines: What every word becomes at the baseline, as in `TextExplainer.explain`; each method runs from each.
        n_steps: Gradients that a method may take for a text.
        top_fractions: Shares of tokens to take away, in (0, 1].
        protocols: ``"default"``, ``"paper"``, or both, as in `log_odds`.
        n_curve_texts: For how many of the texts, the first ones, to find deltas for several numbers of steps.
        curve_steps: Those numbers.
        internal_batch_size: How many rows the model sees at once. It changes speed and memory only.
        seed: For all that draws at random.
        journal: A file to keep finished texts in, and to take them from, also for more texts later; or a function that
            opens one for the settings of the comparison; None for no file.
        progress: Called with the number of finished texts after each.

    Returns:
        The comparison.

    Raises:
        ValueError: If an argument is wrong, or the journal is that of another comparison.
        ModelError: If the model has a single output, so that nothing can be said about probabilities; or a method
            fails on it.

    Example:
        >>> explainer = TextExplainer.demo(n_anchors=3)
        >>> comparison = compare(explainer, ["A fine film.", "Dull!"], ["integrated_gradients", "random"], n_steps=8)
        >>> comparison.values("log_odds", "random").shape
        (2,)
    """
    texts = as_texts(texts)
    _check(explainer, texts, seed=seed, n_curve_texts=n_curve_texts)
    internal_batch_size = at_least_one("internal_batch_size", internal_batch_size)
    # A model without a padding token reads one row at a time.
    internal_batch_size = internal_batch_size if explainer.classifier.pads else 1
    resolved = _resolve(explainer, methods, seed)
    baseline_ids = _baseline_ids(explainer, baselines)
    bench = _Bench(explainer, resolved, baseline_ids, internal_batch_size)
    settings = ComparisonSettings(
        model=explainer.classifier.name,
        fingerprint=f"{explainer.classifier.fingerprint}-{explainer.encoder.fingerprint}",
        methods=tuple(method.name for method in resolved),
        details=tuple(map(identity, resolved)),
        baselines=tuple(baselines),
        candidates=explainer.candidates_name,
        n_steps=at_least_one("n_steps", n_steps),
        top_fractions=_fractions(top_fractions),
        protocols=_protocols(protocols),
        n_curve_texts=n_curve_texts,
        curve_steps=tuple(at_least_one("curve_steps", steps) for steps in curve_steps),
        seed=seed,
        version=__version__,
        baseline_ids=tuple(baseline_ids.values()),
    )
    kept = Journal(journal, settings) if isinstance(journal, str | Path) else journal and journal(settings)
    done: list[ComparedText] = []
    try:
        for number, text in enumerate(texts):
            done.append(bench.finish(number, text, settings, kept))
            if progress is not None:
                progress(number + 1)
    finally:
        for method in resolved:
            if isinstance(method, PathMethod):
                method.path.store()
    return Comparison(settings, tuple(done))


@dataclass(frozen=True)
class _Trial:
    """A method's answer to a text from one baseline."""

    method: AttributionMethod
    baseline: str
    task: Task
    budget: Budget
    scores: Tensor
    seconds: float
    change: float


@dataclass(frozen=True)
class _Bench:
    """Where methods are measured: what stays the same from text to text."""

    explainer: TextExplainer
    methods: tuple[AttributionMethod, ...]
    baseline_ids: dict[str, int]
    internal_batch_size: int
    # A path from word to word is worth the same for a word in every text: (path, baseline, token) -> numbers.
    known: dict[tuple[PathGenerator, int, int], dict[str, float]] = field(default_factory=dict)

    @functools.cached_property
    def kinds(self) -> dict[str, Tensor]:
        """Kinds of rows that are told apart."""
        return row_kinds(self.explainer.encoder.tokenizer, len(self.explainer.vocabulary))

    def finish(self, number: int, text: str, settings: ComparisonSettings, kept: Journal | None) -> ComparedText:
        """Look a text up among those that are finished, or measure it and keep it."""
        found = None if kept is None else kept.find(number, text)
        if found is None:
            found = self.measure(number, text, settings)
            if kept is not None:
                kept.append(number, found)
        return found

    def measure(self, number: int, text: str, settings: ComparisonSettings) -> ComparedText:
        """Explain one text by every method from every baseline, and measure the scores."""
        classifier = self.explainer.classifier
        name = f"text {number + 1}"
        with warnings.catch_warnings():
            # What it says of windows is for explanations.
            warnings.simplefilter("ignore")
            encoding = self.explainer.encoder.encode(text, "truncate", name)[0]
        if encoding.truncated:
            warnings.warn(
                f"{name} is longer than the model reads: its last {encoding.truncated} tokens are cut off", stacklevel=4
            )
        if all(encoding.special):
            warnings.warn(f"{name} has no word to explain, and does not count", stacklevel=4)
        check_ids(encoding, len(self.explainer.vocabulary), name)
        # Each text draws its own numbers, whichever were finished before it.
        budget = Budget(settings.n_steps, self.internal_batch_size, (1_000_003 * settings.seed + number) % 2**63)
        curve_steps = settings.curve_steps if number < settings.n_curve_texts else ()
        with classifier.evaluating():
            trials = [trial for name in self.baseline_ids for trial in self._try(encoding, name, budget)]
            faithfulness = self._faithfulness(encoding, trials, settings)
            curves = [self._curve(trial, curve_steps) for trial in trials]
        numbers = [
            values | self._agreement(trials, trial) | self._accuracy(trial) | self._way(encoding, trial)
            for values, trial in zip(faithfulness, trials, strict=True)
        ]
        measurements = [
            Measurement(
                method=trial.method.name,
                baseline=trial.baseline,
                word_scores=tuple(sum(float(trial.scores[0, j]) for j in word) for word in encoding.words),
                n_gradients=trial.budget.n_steps if trial.method.n_gradients is None else trial.method.n_gradients,
                seconds=trial.seconds,
                values=values,
                curve=curve,
            )
            for trial, values, curve in zip(trials, numbers, curves, strict=True)
        ]
        target = int(trials[0].task.target)
        return ComparedText(text, target, classifier.labels[target], encoding.word_offsets, tuple(measurements))

    def _try(self, encoding: Encoding, baseline: str, budget: Budget) -> list[_Trial]:
        classifier = self.explainer.classifier
        task, at_input, at_baseline = prepare(
            classifier, self.explainer.encoder, self.baseline_ids[baseline], [encoding], [None]
        )
        change = float((at_input - at_baseline)[0, task.target])
        trials = []
        for method in self.methods:
            started = time.perf_counter()
            scores = method(task, budget).cpu()
            trials.append(_Trial(method, baseline, task, budget, scores, time.perf_counter() - started, change))
        return trials

    def _faithfulness(
        self, encoding: Encoding, trials: Sequence[_Trial], settings: ComparisonSettings
    ) -> list[dict[str, tuple[float, ...]]]:
        """The metrics of all trials at once: equal sentences are run once."""
        encoder, classifier = self.explainer.encoder, self.explainer.classifier
        inputs = {name: tensor.to(classifier.device) for name, tensor in encoder.pad([encoding]).items()}
        ids = inputs["input_ids"].repeat(len(trials), 1)
        special = torch.tensor([encoding.special], device=ids.device).repeat(len(trials), 1)
        # A tokenizer that knows no padding has nothing but a baseline to put into a word's place.
        pad_id = next(iter(self.baseline_ids.values())) if encoder.pad_id is None else encoder.pad_id
        batch = TokenBatch(ids, torch.ones_like(ids), special, pad_id)
        scores = torch.cat([trial.scores for trial in trials]).to(ids.device)
        target = trials[0].task.target.expand(len(trials))

        def forward(some_ids: Tensor, mask: Tensor) -> Tensor:
            # Rows of one length at a time: without padding, which leaks into some models.
            # Where nothing is left, one token of padding is.
            lengths = mask.sum(dim=1).clamp(min=1)
            logits = torch.empty(len(some_ids), len(classifier.labels), dtype=torch.float32, device=ids.device)
            for length in lengths.unique().tolist():
                here = lengths == length
                columns = {name: column[:, :length].expand(int(here.sum()), -1) for name, column in inputs.items()}
                logits[here] = classifier.logits(**columns | {"input_ids": some_ids[here, :length]}).float()
            return logits

        found: dict[str, list[Tensor]] = {}
        for protocol in settings.protocols:
            for metric in (log_odds, comprehensiveness, sufficiency):
                found[metric.__name__ if protocol == "default" else f"paper_{metric.__name__}"] = [
                    metric(
                        forward,
                        batch,
                        scores,
                        target,
                        top_fraction=fraction,
                        protocol=cast("Protocol", protocol),
                        batch_size=self.internal_batch_size,
                    )
                    for fraction in settings.top_fractions
                ]
        return [
            {name: tuple(float(column[i]) for column in columns) for name, columns in found.items()}
            for i in range(len(trials))
        ]

    def _agreement(self, trials: Sequence[_Trial], trial: _Trial) -> dict[str, tuple[float, ...]]:
        """Tau with leave-one-out, where that is among the methods."""
        for other in trials:
            if (other.method.name, other.baseline) == (LeaveOneOut.name, trial.baseline):
                ids = torch.ones_like(trial.scores, dtype=torch.int64)
                batch = TokenBatch(ids, ids, trial.task.fixed.cpu(), pad_id=0)
                return {"kendall_tau": (float(kendall_tau(trial.scores, other.scores, batch)),)}
        return {}

    def _accuracy(self, trial: _Trial) -> dict[str, tuple[float, ...]]:
        if not trial.method.completes:
            return {}
        delta, change = (
            trial.scores.double().sum(dim=1) - trial.change,
            torch.tensor([trial.change], dtype=torch.float64, device="cpu"),
        )
        percent = delta_percent(delta, change)
        return {"delta": (float(delta),), "change": (trial.change,), "delta_percent": (float(percent),)}

    def _curve(self, trial: _Trial, steps: Sequence[int]) -> tuple[float, ...]:
        """Deltas in percent by the number of steps."""
        if not isinstance(trial.method, PathMethod):
            return ()
        percents = []
        for n_steps in steps:
            method = replace(trial.method, n_gradients=n_steps)
            try:
                scores = method(trial.task, trial.budget).cpu()
            except ValueError:
                # Fewer steps than the path has members.
                percents.append(math.nan)
                continue
            percents.append(self._accuracy(replace(trial, scores=scores))["delta_percent"][0])
        return tuple(percents)

    def _way(self, encoding: Encoding, trial: _Trial) -> dict[str, tuple[float, ...]]:
        """What the path passes, averaged over the tokens that move."""
        path = trial.method.path if isinstance(trial.method, PathMethod) else None
        # Of other paths the way of a word may depend on the rest of the text.
        if not isinstance(path, StraightLine | WordPath):
            return {}
        goal = self.baseline_ids[trial.baseline]
        moving = [i for i, mark in zip(encoding.ids, encoding.special, strict=True) if not mark and i != goal]
        new = sorted({i for i in moving if (path, goal, i) not in self.known})
        if new:
            # One by one: in another company a word's numbers may be rounded otherwise.
            self.known.update({(path, goal, i): self._ways(path, goal, [i])[0] for i in new})
        ways = [self.known[path, goal, i] for i in moving]
        return {name: (sum(way[name] for way in ways) / len(ways),) for name in ways[0]} if ways else {}

    def _ways(self, path: StraightLine | WordPath, goal: int, ids: Sequence[int]) -> list[dict[str, float]]:
        vocabulary = self.explainer.vocabulary
        rows = vocabulary.rows[list(ids)]
        knots = path(rows, vocabulary.rows[[goal]].expand_as(rows))
        columns = {"word_approximation_error": word_approximation_error(knots[:, :, None], vocabulary)}
        if isinstance(path, WordPath):
            anchors = path.anchor_ids(torch.tensor(ids, dtype=torch.int64, device="cpu"), goal)[:, 1:]
            columns |= {f"{name}_anchors": share for name, share in anchor_shares(anchors, self.kinds).items()}
        return [{name: float(column[i]) for name, column in columns.items()} for i in range(len(ids))]


def _check(explainer: TextExplainer, texts: Sequence[str], **numbers: int) -> None:
    if not texts:
        raise ValueError("texts must hold at least one text, got none")
    for argument, value in numbers.items():
        if not isinstance(value, int) or value < 0:
            raise ValueError(f"{argument} must be an integer of at least 0, got {value!r}")
    classifier = explainer.classifier
    if len(classifier.labels) < 2:
        raise ModelError(f"model must have at least two classes, got {classifier.labels}")
    kind = getattr(classifier.model.config, "problem_type", None)
    if kind in ("regression", "multi_label_classification"):
        raise ModelError(
            f"model must choose one of its classes, got problem_type {kind!r}; "
            "use captum_dig.metrics with a forward function of your own"
        )


def _resolve(
    explainer: TextExplainer, methods: Sequence[str | AttributionMethod], seed: int
) -> tuple[AttributionMethod, ...]:
    if not methods or isinstance(methods, str):
        raise ValueError(f"methods must be a sequence of at least one name or AttributionMethod, got {methods!r}")
    found: list[AttributionMethod] = []
    for method in methods:
        if isinstance(method, AttributionMethod):
            found.append(method)
        elif method in STRATEGIES:
            found.append(PathMethod(method, explainer.path(STRATEGIES[method], seed=seed)))
        elif method in METHODS:
            found.append(METHODS[method])
        else:
            raise ValueError(f"methods must be among {', '.join(map(repr, NAMES))}, got {method!r}")
    names = [method.name for method in found]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"methods must have names of their own, got {twice[0]!r} more than once")
    return tuple(found)


def _baseline_ids(explainer: TextExplainer, baselines: Sequence[str]) -> dict[str, int]:
    if not baselines or isinstance(baselines, str) or not all(isinstance(baseline, str) for baseline in baselines):
        raise ValueError(f"baselines must be a sequence of at least one token, got {baselines!r}")
    if len(set(baselines)) < len(baselines):
        raise ValueError(f"baselines must be different, got {list(baselines)}; name each once")
    return {
        baseline: explainer.encoder.token_id("baselines", baseline, len(explainer.vocabulary)) for baseline in baselines
    }


def _fractions(top_fractions: Sequence[float]) -> tuple[float, ...]:
    fractions = tuple(map(float, top_fractions))
    if not fractions or not all(0 < fraction <= 1 for fraction in fractions):
        raise ValueError(f"top_fractions must hold numbers in (0, 1], got {list(fractions)}")
    return fractions


def _protocols(protocols: Sequence[Protocol]) -> tuple[str, ...]:
    if not protocols or isinstance(protocols, str) or not set(protocols) <= set(get_args(Protocol)):
        raise ValueError(f"protocols must be a sequence of {get_args(Protocol)}, got {protocols!r}")
    return tuple(protocols)
