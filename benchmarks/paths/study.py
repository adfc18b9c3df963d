"""Which path explains best at the same number of gradients: the straight line, words, or staggered paths?

Every path × two baselines × four budgets on the models of `benchmarks/paper`, default protocol, paired against
Integrated Gradients and against leave-one-out. What paths are made of is chosen on dev splits, at one budget:

    python -m benchmarks.paths.study choose --models FOLDER --data-dir FOLDER
    python -m benchmarks.paths.study test --models FOLDER --data-dir FOLDER [--budgets 48] [--n 300]
    python -m benchmarks.paths.study seeds --models FOLDER --data-dir FOLDER
    python -m benchmarks.paths.study steady --models FOLDER --data-dir FOLDER
    python -m benchmarks.paths.study --tiny

*seeds* repeats the test of staggered paths with other draws. *steady* says how far two seeds of a random path agree
(Kendall's tau), how far scores move under small noise, and how far they are from their own limit.
`python -m benchmarks.paths.page` makes the page. Finished texts are kept in `--work`: a run that was cut off goes on.
"""

import argparse
import itertools
import statistics
import tempfile
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
import torch
from torch import Tensor

import captum_dig
from benchmarks._former import IndependentStarts
from benchmarks._measuring import ends, environment, rounded, write
from benchmarks.paper._settings import SMALL, Setting, texts_of
from captum_dig import TextExplainer
from captum_dig.comparison import Comparison
from captum_dig.comparison.comparing import compare
from captum_dig.methods import AttributionMethod, PathMethod, Plan
from captum_dig.metrics import (
    TokenBatch,
    bootstrap_interval,
    kendall_tau,
    paired_test,
    sensitivity,
    token_error,
)
from captum_dig.models.question import Question
from captum_dig.paths import EnsemblePath, MonotonicPath, PathGenerator
from captum_dig.text.questions import ask

# The four of the paper redone, and the one inside the package, wherever --models is.
DEMO: Final = Setting("demo", str(Path(captum_dig.__file__).parent / "demo"), "sst2", "Demo model")
SETTINGS: Final = (*SMALL, DEMO)
SETTING: Final = {setting.name: setting for setting in SETTINGS}
RESULTS: Final = Path(__file__).parents[1] / "results" / "paths"
BASELINES: Final = ("pad", "mask")
BUDGETS: Final = (16, 32, 48, 96)
# The rule that the paths were chosen with.
RULE: Final = "gausslegendre"
CHOSEN_AT: Final = 48
METRICS: Final = ("log_odds", "comprehensiveness", "sufficiency")
# Of the grid on the dev splits, see results/paths/*-dev.json: the staggered path with the best log-odds of those whose
# delta the package would not warn of, and of all; and the best number of anchors.
WIDTH, N_ORDERS, MORE_ORDERS, N_ANCHORS = 0.5, 4, 8, 10


def methods(explainer: TextExplainer) -> list[AttributionMethod]:
    """Make every path, and what paths are compared with."""
    line, greedy = explainer.path("straight_line"), explainer.path("greedy")
    some = [explainer.path("random_neighbor", seed=seed) for seed in range(4)]
    return [
        PathMethod("integrated_gradients", line),
        explainer.method("leave_one_out"),
        explainer.method("random"),
        PathMethod("dig_greedy", greedy),
        PathMethod("dig_maxcount", explainer.path("maxcount")),
        PathMethod("dig_uniform", explainer.path("uniform")),
        PathMethod("dig_random_neighbor_x4", EnsemblePath(some)),
        PathMethod("staggered", IndependentStarts(line, WIDTH, N_ORDERS)),
        PathMethod(f"staggered_{MORE_ORDERS}", IndependentStarts(line, WIDTH, MORE_ORDERS)),
        PathMethod("staggered_greedy", IndependentStarts(greedy, WIDTH, N_ORDERS)),
        PathMethod("shapley_order", IndependentStarts(line, 0.0, N_ORDERS)),
    ]


def pairs(made: Sequence[AttributionMethod]) -> list[AttributionMethod]:
    """Choose the methods whose means over two baselines are measured, too."""
    return [
        replace(method, name=f"{method.name}_two_baselines")
        for method in made
        if isinstance(method, PathMethod) and method.name in ("integrated_gradients", "staggered")
    ]


def grid(explainer: TextExplainer) -> list[AttributionMethod]:
    """Make the paths among which the dev splits choose."""
    line, words, vocabulary = explainer.path("straight_line"), explainer.path("greedy"), explainer.vocabulary
    mask = cast("MonotonicPath", words).candidates
    lengths = {m: MonotonicPath(vocabulary, "greedy", n_anchors=m, candidates=mask) for m in (10, 30, 100)}
    found: list[AttributionMethod] = [PathMethod("integrated_gradients", line)]
    for width, n_orders in itertools.product((0.0, 0.25, 0.5, 0.75), (2, 4, 8)):
        found.append(PathMethod(f"staggered w={width} r={n_orders}", IndependentStarts(line, width, n_orders)))
    found += [
        PathMethod(f"staggered_greedy w={width} r=4", IndependentStarts(lengths[30], width, 4))
        for width in (0.25, 0.5, 0.75)
    ]
    found += [PathMethod(f"dig_greedy m={m}", path) for m, path in lengths.items()]
    found.append(PathMethod("dig_greedy m=30 all candidates", MonotonicPath(vocabulary, "greedy")))
    return found


def averages(
    comparison: Comparison, references: Sequence[str], whole: Comparison | None = None
) -> list[dict[str, Any]]:
    """Average each method, and test it against its references, which stand in the `whole` comparison.

    Means over both baselines stand beside the references from the first.
    """
    whole = whole or comparison
    rows = []
    for baseline, method in itertools.product(comparison.settings.baselines, comparison.settings.methods):
        beside = baseline if baseline in whole.settings.baselines else BASELINES[0]
        row: dict[str, Any] = {"method": method, "baseline": beside}
        for metric in METRICS:
            values = comparison.values(metric, method, baseline)
            interval = bootstrap_interval(values)
            row[metric] = ends(interval) | {"n": interval.n}
            for reference in references:
                if reference != method:
                    test = paired_test(values, whole.values(metric, reference, beside))
                    against = ends(test.difference) | {"p_value": rounded(test.p_value)}
                    row[metric][f"against {reference}"] = against
        measurements = [text.find(method, baseline) for text in comparison.texts]
        percents = comparison.values("delta_percent", method, baseline)
        row["n_gradients"] = measurements[0].n_gradients
        row["seconds"] = rounded(statistics.median(m.seconds for m in measurements))
        row["delta_percent"] = None if np.isnan(percents).all() else rounded(float(np.nanmedian(percents)))
        rows.append(row)
    return rows


def steadiness(explainer: TextExplainer, texts: Sequence[str], budget: int) -> dict[str, dict[str, float]]:
    """Measure agreement between two seeds, sensitivity to noise, and token error, from a pad baseline; medians."""
    line, greedy = explainer.path("straight_line"), explainer.path("greedy")
    makers: dict[str, Callable[[int], PathGenerator]] = {
        "integrated_gradients": lambda _: line,
        "dig_greedy": lambda _: greedy,
        "dig_random_neighbor": lambda seed: explainer.path("random_neighbor", seed=seed),
        "dig_random_neighbor_x4": lambda seed: EnsemblePath(
            [explainer.path("random_neighbor", seed=4 * seed + k) for k in range(4)]
        ),
        "staggered": lambda seed: IndependentStarts(line, WIDTH, N_ORDERS, seed),
        f"staggered_{MORE_ORDERS}": lambda seed: IndependentStarts(line, WIDTH, MORE_ORDERS, seed),
        "shapley_order": lambda seed: IndependentStarts(line, 0.0, N_ORDERS, seed),
    }
    # What scores tend to with more gradients, and more orders.
    many = IndependentStarts(line, WIDTH, 64, seed=99)
    limits: dict[str, tuple[PathGenerator, int]] = {
        "integrated_gradients": (line, 300),
        "dig_greedy": (greedy, 300),
        "staggered": (many, 64 * 24),
        f"staggered_{MORE_ORDERS}": (many, 64 * 24),
    }
    found: dict[str, dict[str, list[float]]] = {
        name: {"tau": [], "sensitivity": [], "token_error": []} for name in makers
    }
    classifier, encoder = explainer.classifier, explainer.encoder
    pad = encoder.token_id("baseline", "pad", len(explainer.vocabulary))
    for text in texts:
        with classifier.evaluating():
            (question,) = ask(classifier, explainer.task, encoder, [pad], encoder.encode(text), [None]).by_baseline
            ones = torch.ones_like(question.fixed, dtype=torch.int64)
            batch = TokenBatch(ones, ones, question.fixed, pad_id=0)
            ends = {
                path: PathMethod("limit", path, n_gradients=n_steps)(question, Plan(method=RULE))
                for path, n_steps in dict.fromkeys(limits.values())
            }
            for name, make in makers.items():
                first, second = (
                    PathMethod(name, make(seed), n_gradients=budget)(question, Plan(method=RULE)) for seed in (0, 1)
                )
                found[name]["tau"].append(float(kendall_tau(first, second, batch)))
                if name in limits:
                    found[name]["token_error"].append(float(token_error(first, ends[limits[name][0]])))
                moved = sensitivity(_explain(make(0), question, budget), question.inputs, question.fixed, radius=0.01)
                found[name]["sensitivity"].append(float(moved))
    return {
        name: {measure: rounded(statistics.median(values)) for measure, values in measures.items() if values}
        for name, measures in found.items()
    }


def _explain(path: PathGenerator, question: Question, budget: int) -> Callable[[Tensor], Tensor]:
    """A path's scores as a function of the embeddings, shape (B, T, 1)."""
    method = PathMethod("path", path, n_gradients=budget)
    return lambda embeddings: method(replace(question, inputs=embeddings), Plan(method=RULE))[..., None]


def load(setting: Setting, arguments: argparse.Namespace) -> TextExplainer:
    """Load a model with the chosen settings."""
    explainer = TextExplainer.from_pretrained(
        arguments.models / setting.model, name=setting.name, output="logit", n_anchors=N_ANCHORS
    )
    if arguments.device:
        explainer.classifier.model.to(arguments.device)
    return explainer


def chosen_texts(setting: Setting, stage: str, arguments: argparse.Namespace) -> list[str]:
    """Read the texts of a stage."""
    n = arguments.n or {"choose": 40, "test": setting.n_texts, "seeds": 100, "steady": 10}[stage]
    return texts_of(setting.dataset, "dev" if stage == "choose" else "test", arguments.data_dir, n)


def draws(explainer: TextExplainer) -> list[AttributionMethod]:
    """Make staggered paths of several seeds, and the straight line."""
    line = explainer.path("straight_line")
    found: list[AttributionMethod] = [PathMethod("integrated_gradients", line)]
    found += [PathMethod(f"staggered#{seed}", IndependentStarts(line, WIDTH, N_ORDERS, seed)) for seed in range(5)]
    return found


MADE: Final = {"choose": grid, "seeds": draws}


def beside(
    explainer: TextExplainer, texts: Sequence[str], made: Sequence[AttributionMethod], journal: Path, **options: Any
) -> dict[str, Any]:
    """Compare paths with the straight line among them, at the budget of the choice."""
    comparison = compare(explainer, texts, made, BASELINES, n_steps=CHOSEN_AT, method=RULE, journal=journal, **options)
    return described(comparison, averages(comparison, ["integrated_gradients"]))


def decide(explainer: TextExplainer, texts: Sequence[str], budget: int, work: Path, **options: Any) -> dict[str, Any]:
    """Compare every path at one budget."""
    made, name, references = methods(explainer), explainer.classifier.name, ["integrated_gradients", "leave_one_out"]
    options |= {"n_steps": budget, "method": RULE}
    whole = compare(explainer, texts, made, BASELINES, journal=work / f"{name}-{budget}.jsonl", **options)
    # Their gradients are shared between the baselines.
    means = compare(
        explainer, texts, pairs(made), [BASELINES], journal=work / f"{name}-{budget}-pairs.jsonl", **options
    )
    return described(whole, averages(whole, references) + averages(means, references, whole))


def described(comparison: Comparison, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Say what rows are of."""
    return {"n_texts": len(comparison.texts), "settings": comparison.settings.to_dict(), "rows": rows}


def main() -> None:
    """Run a stage on every model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stage", nargs="?", choices=("choose", "test", "seeds", "steady"), default="test")
    parser.add_argument("--models", type=Path, help="folder with one folder for each model")
    parser.add_argument("--data-dir", type=Path, help="folder with one folder for each data set; default: the hub")
    parser.add_argument("--only", default="", help="models whose name begins so")
    parser.add_argument("--budgets", type=int, nargs="+", default=BUDGETS, help="numbers of gradients to test at")
    parser.add_argument(
        "--n", type=int, help="texts; 40 to choose, 300 to test or 100 of IMDB, 100 for seeds, 10 for steady"
    )
    parser.add_argument("--internal-batch-size", type=int, default=64, help="rows that the model sees at once")
    parser.add_argument("--device", help="where the model is to be")
    parser.add_argument("--work", type=Path, default=Path(".paper-work") / "paths", help="folder for journals")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for results")
    parser.add_argument("--tiny", action="store_true", help="two texts of the embedded model, for a check")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore", "text .* has .* tokens")
    if arguments.tiny:
        with tempfile.TemporaryDirectory() as folder:
            tiny(Path(folder))
        return
    if arguments.models is None:
        parser.error("--models must name a folder")
    arguments.out.mkdir(parents=True, exist_ok=True)
    machine = {"environment": environment(arguments.device or "cpu")}
    options = {
        "top_fractions": (0.2,),
        "n_curve_texts": 0,
        "internal_batch_size": arguments.internal_batch_size,
        "progress": lambda done: print(f"\r{done}", end="", flush=True) if done % 10 == 0 else None,
    }
    for setting in SETTINGS:
        # IMDB has no dev split; it and the demo model show whether the choice of the others carries over.
        left_out = arguments.stage == "choose" and (setting.dataset == "imdb" or setting is DEMO)
        if left_out or not setting.name.startswith(arguments.only):
            continue
        explainer, texts = load(setting, arguments), chosen_texts(setting, arguments.stage, arguments)
        if arguments.stage in MADE:
            name = f"{setting.name}-{'dev' if arguments.stage == 'choose' else arguments.stage}"
            made, journal = MADE[arguments.stage](explainer), arguments.work / f"{name}.jsonl"
            report = beside(explainer, texts, made, journal, **options) | machine
            write(report, arguments.out / f"{name}.json")
        elif arguments.stage == "test":
            for budget in arguments.budgets:
                report = decide(explainer, texts, budget, arguments.work, **options) | machine
                write(report, arguments.out / f"{setting.name}-{budget}.json")
        else:
            report = {"n_texts": len(texts), "n_steps": CHOSEN_AT, "paths": steadiness(explainer, texts, CHOSEN_AT)}
            write(report | machine, arguments.out / f"{setting.name}-steady.json")
        print(f"\r{setting.name}: {arguments.stage} written", flush=True)


def tiny(folder: Path) -> None:
    """Run every stage on two texts."""
    explainer, texts = TextExplainer.demo(n_anchors=3, output="logit"), ["A fine film.", "Dull and far too long."]
    for stage, make in MADE.items():
        report = beside(explainer, texts, make(explainer), folder / f"{stage}.jsonl", n_curve_texts=0)
        print(stage, len(report["rows"]), "rows")
    print(len(decide(explainer, texts, 8, folder, n_curve_texts=0)["rows"]), "rows that decide")
    print(steadiness(explainer, texts[:1], 8))


if __name__ == "__main__":
    main()
