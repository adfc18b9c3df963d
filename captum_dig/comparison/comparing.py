"""Compare attribution methods on the same texts, with the same number of gradients.

Takes a `TextExplainer`, texts and names of methods; gives a frozen `Comparison` with the value of every measure for
each method and text. A journal keeps finished texts, and a stopped run resumes from it. `captum_dig.comparison.results`
draws the comparison.
"""

import math
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal, get_args

import torch
from torch import Tensor

from captum_dig import __version__
from captum_dig.catalogue import CATALOGUE, STRATEGIES, Catalogue
from captum_dig.checks import at_least_one, integer
from captum_dig.comparison.journal import Journal
from captum_dig.comparison.records import ComparedText, Measurement
from captum_dig.comparison.results import Comparison
from captum_dig.comparison.settings import ComparisonSettings, MeasureInfo
from captum_dig.methods.base import AttributionMethod, Plan
from captum_dig.methods.identity import identity
from captum_dig.methods.scoring import score
from captum_dig.metrics.faithfulness import Protocol
from captum_dig.metrics.measures import Measure, Trial, Trials, load_measure, percent_of_change
from captum_dig.models.encoding import Encoding
from captum_dig.models.samples import as_samples
from captum_dig.quadrature import check_method
from captum_dig.text.explainer import TextExplainer
from captum_dig.text.questions import EVEN, Questions, ScalarModel, ask, ask_from_even, check_ids, probable
from captum_dig.text.results import LARGE_DELTA_PERCENT
from captum_dig.vocabulary.readable import row_kinds

_FAITHFULNESS = ("log_odds", "comprehensiveness", "sufficiency")
DEFAULT_METHODS: Final = CATALOGUE.defaults(*STRATEGIES)
DEFAULT_MEASURES: Final = CATALOGUE.defaults("measure")


def compare(
    explainer: TextExplainer,
    texts: Sequence[str],
    methods: Sequence[str | AttributionMethod] = DEFAULT_METHODS,
    baselines: Sequence[str | tuple[str, ...]] = ("pad",),
    *,
    n_steps: int | Literal["auto"] = 50,
    method: str = "gausslegendre",
    top_fractions: Sequence[float] = (0.05, 0.1, 0.2, 0.3, 0.5),
    protocols: Sequence[Protocol] = ("default",),
    measures: Sequence[str | Measure] = DEFAULT_MEASURES,
    n_curve_texts: int = 20,
    curve_steps: Sequence[int] = (8, 16, 32, 64, 128),
    internal_batch_size: int = 64,
    seed: int = 0,
    journal: str | Path | Callable[[ComparisonSettings], Journal | None] | None = None,
    progress: Callable[[int], None] | None = None,
) -> Comparison:
    """Compare attribution methods on the same texts.

    Every text is explained for the predicted class. Texts longer than the model reads are cut.

    Args:
        explainer: The model, and the settings of the paths: anchors, neighbours, candidates.
        texts: The texts.
        methods: Names of the catalogue's paths, searches and methods, or methods of your own.
        baselines: The tokens that replace every word, as in `TextExplainer.explain`; each method runs from each. A
            tuple of tokens is one baseline: its tokens share the gradients, and the scores are averaged.
        n_steps: Gradients that a method may take for a text; ``"auto"`` as in `TextExplainer.explain`, with a delta of
            5 % at most.
        method: The quadrature rule. With ``"known_sums"`` scores add up for every path, so deltas tell nothing.
        top_fractions: Shares of tokens to remove, in (0, 1].
        protocols: ``"default"``, ``"paper"``, or both, as in `log_odds`.
        measures: Names of the catalogue's measures, or measures of your own.
        n_curve_texts: The number of texts, from the first on, that get deltas for several numbers of steps.
        curve_steps: These numbers of steps.
        internal_batch_size: The number of rows for the model at once. It changes speed and memory only.
        seed: The seed of all random draws.
        journal: A file that keeps finished texts; a later call with the same settings reads them, also for more texts.
            Or a function that opens a journal for the settings of the comparison. None for no journal.
        progress: Called with the number of finished texts after each.

    Returns:
        The comparison.

    Raises:
        ValueError: If an argument is wrong, or the journal is that of another comparison.
        ModelError: If the model has no probabilities, for example with a single output; or if a method fails on it.

    Example:
        >>> explainer = TextExplainer.demo(n_anchors=3)
        >>> comparison = compare(explainer, ["A fine film.", "Dull!"], ["integrated_gradients", "random"], n_steps=8)
        >>> comparison.values("log_odds", "random").shape
        (2,)
    """
    samples = as_samples(texts, explainer.task.form)
    if not samples:
        raise ValueError("texts must hold at least one text, got none")
    seed, n_curve_texts = integer("seed", seed, 0), integer("n_curve_texts", n_curve_texts, 0)
    explainer.task.check_measurable()
    if explainer.task.positional and "paper" in protocols:
        raise ValueError(
            f"protocols must be 'default' for {type(explainer.task).__name__}, got 'paper', which deletes tokens; "
            "the explained number depends on their positions"
        )
    plan = Plan(n_steps, method, rows_at_once=explainer.rows_at_once(internal_batch_size))
    if not check_method(method).known_sums:
        plan = replace(plan, tolerance_percent=LARGE_DELTA_PERCENT)
    resolved = _methods(explainer, methods, seed)
    chosen = _measures(explainer.catalogue, measures, _protocols(protocols))
    by_name = _baselines(explainer, baselines)
    settings = ComparisonSettings(
        model=explainer.classifier.name,
        fingerprint=explainer.fingerprint,
        methods=tuple(method.name for method in resolved),
        details=tuple(map(identity, resolved)),
        baselines=tuple(by_name),
        candidates=explainer.candidates_name,
        n_steps=plan.n_steps,
        top_fractions=_fractions(top_fractions),
        protocols=tuple(protocols),
        n_curve_texts=n_curve_texts,
        curve_steps=tuple(at_least_one("curve_steps", steps) for steps in curve_steps),
        seed=seed,
        version=__version__,
        baseline_ids=tuple(i for ids in by_name.values() for i in ids),
        measures=tuple(map(MeasureInfo.of, chosen)),
        method=method,
    )
    bench = _Bench(explainer, resolved, by_name, chosen, plan, settings)
    kept = Journal(journal, settings) if isinstance(journal, str | Path) else journal and journal(settings)
    try:
        done = list(_measured(bench, samples, kept, progress))
    finally:
        for one in resolved:
            if one.path is not None:
                one.path.store()
    if not done:
        raise ValueError(f"texts must hold a text with a number to explain, got {len(samples)} without one")
    return Comparison(settings, tuple(done))


def _measured(
    bench: "_Bench",
    samples: Sequence[Mapping[str, str]],
    journal: Journal | None,
    progress: Callable[[int], None] | None,
) -> Iterator[ComparedText]:
    """Measure one text after the other, but those that a journal holds."""
    for number, sample in enumerate(samples):
        encodings = bench.read(number, sample)
        found = None if journal is None else journal.find(number, encodings[0].text)
        if found is None:
            found = bench.measure(number, encodings)
            if found is not None and journal is not None:
                journal.append(number, found)
        if found is not None:
            yield found
        if progress is not None:
            progress(number + 1)


@dataclass(frozen=True)
class _Bench:
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
        trial = Trial(method, baseline, ids, questions, taken, scores.values.cpu(), change)
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
                output = model.output(**inputs | {"input_ids": ids[here, :length]})
                found[here] = probable(task.log_probability(output, question.places.expand(n_rows, -1))).float()
            return found

        def pick(output: Any, places: Tensor) -> Tensor:
            return probable(task.log_probability(output, places))

        return Trials(
            trials=trials,
            input_ids=torch.tensor(encoding.ids, dtype=torch.int64, device="cpu"),
            pad_id=next(iter(self.baselines.values()))[0] if pad_id is None else pad_id,
            top_fractions=self.settings.top_fractions,
            log_probability=log_probability,
            soft_log_probability=ScalarModel(model, asked.names, pick),
            vocabulary=explainer.vocabulary,
            row_kinds=lambda: self.kinds,
            seed=trials[0].plan.seed,
            known=self.known,
            deletes=not (task.positional or encoding.fields),
        )


def _curve(trial: Trial, steps: Sequence[int]) -> tuple[float, ...]:
    """Deltas in percent by the number of steps, for methods along a path."""
    if trial.method.path is None or not trial.method.completes or trial.method.n_gradients is not None:
        return ()
    percents = []
    for n_steps in steps:
        try:
            scores = score(trial.method, trial.questions, replace(trial.plan, n_steps=n_steps)).values.cpu()
        except ValueError:
            # Fewer steps than paths.
            percents.append(math.nan)
            continue
        percents.append(percent_of_change(replace(trial, scores=scores)))
    return tuple(percents)


def _methods(
    explainer: TextExplainer, methods: Sequence[str | AttributionMethod], seed: int
) -> tuple[AttributionMethod, ...]:
    if not methods or isinstance(methods, str):
        raise ValueError(f"methods must be a sequence of at least one name or AttributionMethod, got {methods!r}")
    found = tuple(explainer.method(method, seed=seed, argument="methods") for method in methods)
    names = [method.name for method in found]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"methods must have names of their own, got {twice[0]!r} more than once")
    return found


def _measures(
    catalogue: Catalogue, measures: Sequence[str | Measure], protocols: tuple[str, ...]
) -> tuple[Measure, ...]:
    """The measures by their names, those of faithfulness once for each protocol."""
    if isinstance(measures, str):
        raise ValueError(f"measures must be a sequence of names or Measures, got {measures!r}")
    found: dict[str, Measure] = {}
    for measure in measures:
        names: Sequence[str | Measure] = [measure]
        if measure in _FAITHFULNESS:
            names = [str(measure) if protocol == "default" else f"paper_{measure}" for protocol in protocols]
        for name in names:
            one = name
            if not isinstance(one, Measure):
                one = load_measure(catalogue.find(one, "measure", argument="measures", remedy="or pass a Measure"))
            if one.name in found:
                raise ValueError(f"measures must have names of their own, got {one.name!r} more than once")
            found[one.name] = one
    return tuple(found.values())


def _baselines(explainer: TextExplainer, baselines: Sequence[str | tuple[str, ...]]) -> dict[str, tuple[int, ...]]:
    if not baselines or isinstance(baselines, str):
        raise ValueError(f"baselines must be a sequence of at least one token, got {baselines!r}")
    found: dict[str, tuple[int, ...]] = {}
    for baseline in baselines:
        tokens = baseline if isinstance(baseline, tuple) else (baseline,)
        if not tokens or not all(isinstance(token, str) for token in tokens):
            raise ValueError(f"baselines must be a sequence of at least one token, got {baselines!r}")
        name = ", ".join(tokens)
        if name in found:
            raise ValueError(f"baselines must be different, got {list(baselines)}; name each once")
        if name == EVEN:
            found[name] = explainer.encoder.even_candidates()
            continue
        ids = (explainer.encoder.token_id("baselines", token, len(explainer.vocabulary)) for token in tokens)
        found[name] = tuple(ids)
    return found


def _fractions(top_fractions: Sequence[float]) -> tuple[float, ...]:
    fractions = tuple(map(float, top_fractions))
    if not fractions or not all(0 < fraction <= 1 for fraction in fractions):
        raise ValueError(f"top_fractions must hold numbers in (0, 1], got {list(fractions)}")
    return fractions


def _protocols(protocols: Sequence[Protocol]) -> tuple[str, ...]:
    if not protocols or isinstance(protocols, str) or not set(protocols) <= set(get_args(Protocol)):
        raise ValueError(f"protocols must be a sequence of {get_args(Protocol)}, got {protocols!r}")
    return tuple(protocols)
