"""Compare attribution methods on the same texts, with the same number of gradients.

Takes a `TextExplainer`, texts and names of methods; gives a frozen `Comparison` with the value of every measure for
each method and text. A journal keeps finished texts, and a stopped run resumes from it. `captum_dig.comparison.results`
draws the comparison.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, Literal, get_args

from captum_dig import __version__
from captum_dig.catalogue import CATALOGUE, Catalogue
from captum_dig.checks import at_least_one, integer
from captum_dig.comparison.bench import Bench
from captum_dig.comparison.journal import Journal
from captum_dig.comparison.records import ComparedText
from captum_dig.comparison.results import Comparison
from captum_dig.comparison.settings import ComparisonSettings, MeasureInfo
from captum_dig.entries import STRATEGIES
from captum_dig.methods.base import AttributionMethod, Plan
from captum_dig.methods.identity import identity
from captum_dig.metrics.faithfulness import Protocol
from captum_dig.metrics.measures import Measure, load_measure
from captum_dig.models.samples import Sample, as_samples
from captum_dig.quadrature import check_method
from captum_dig.text.explainer import TextExplainer
from captum_dig.text.questions import EVEN
from captum_dig.text.settings import LARGE_DELTA_PERCENT

_FAITHFULNESS = ("log_odds", "comprehensiveness", "sufficiency")
DEFAULT_METHODS: Final = CATALOGUE.defaults(*STRATEGIES)
DEFAULT_MEASURES: Final = CATALOGUE.defaults("measure")


def compare(
    explainer: TextExplainer,
    texts: Sequence[Sample],
    methods: Sequence[str | AttributionMethod] = DEFAULT_METHODS,
    baselines: Sequence[str | tuple[str, ...]] = ("pad",),
    *,
    n_steps: int | Literal["auto"] = 50,
    method: str = "known_sums",
    top_fractions: Sequence[float] = (0.05, 0.1, 0.2, 0.3, 0.5),
    protocols: Sequence[Protocol] = ("default",),
    measures: Sequence[str | Measure] = DEFAULT_MEASURES,
    n_curve_texts: int = 0,
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
        texts: The texts, or mappings from the names of their fields to texts.
        methods: Names of the catalogue's paths, searches and methods, or methods of your own.
        baselines: The tokens that replace every word, as in `TextExplainer.explain`; each method runs from each. A
            tuple of tokens is one baseline: its tokens share the gradients, and the scores are averaged.
        n_steps: Gradients that a method may take for a text; ``"auto"`` as in `TextExplainer.explain`. Without
            an estimated error a method stops at a delta of 15 %; with a rule that makes no estimates, at 5 %.
        method: The quadrature rule of paths. ``"known_sums"`` and ``"adaptive"`` make deltas 0 up to rounding, and
            estimate the error of the integration.
        top_fractions: Shares of tokens to remove, in (0, 1].
        protocols: ``"default"``, ``"paper"``, or both, as in `log_odds`.
        measures: Names of the catalogue's measures, or measures of your own.
        n_curve_texts: The number of texts, from the first on, that get estimated errors for several numbers of steps;
            deltas for a rule without an estimate.
        curve_steps: These numbers of steps.
        internal_batch_size: The largest number of rows for the model at once. It changes speed and memory only.
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
    bench = Bench(explainer, resolved, by_name, chosen, plan, settings)
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
    bench: Bench,
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
