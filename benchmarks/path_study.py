"""Which path explains best at the same number of gradients: the straight line, words, or staggered paths?

Every path × two baselines × four budgets on the models of `benchmarks/paper`, default protocol, paired against
Integrated Gradients and against leave-one-out. Widths, orders and inner paths are chosen on dev splits, at one budget:

    python -m benchmarks.path_study choose --models FOLDER --data-dir FOLDER --out FILE
    python -m benchmarks.path_study test --models FOLDER --data-dir FOLDER --out FILE
    python -m benchmarks.path_study --tiny

Besides faithfulness it reports how far two seeds of a random path agree (Kendall's tau), how far scores move under
small noise, and how far they are from their own limit. Finished texts are kept in `--work`, so a run that was cut off
goes on.
"""

import argparse
import itertools
import statistics
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks._measuring import environment, write
from benchmarks.paper._settings import SMALL, Setting, read
from captum_dig import TextExplainer
from captum_dig.bench import compare
from captum_dig.comparison import Comparison
from captum_dig.methods import METHODS, AttributionMethod, Budget, PathMethod, Task
from captum_dig.metrics import TokenBatch, bootstrap_interval, kendall_tau, paired_test, sensitivity, token_error
from captum_dig.paths import EnsemblePath, PathGenerator, StaggeredPath
from captum_dig.runs import prepare

BASELINES = ("pad", "mask")
BUDGETS = (16, 32, 48, 96)
CHOSEN_AT = 48
METRICS = ("log_odds", "comprehensiveness", "sufficiency")
# Of the grid on the dev splits, see path_study-dev.json.
WIDTH, N_ORDERS, N_ANCHORS = 0.5, 4, 30


@dataclass(frozen=True)
class TwoBaselines(AttributionMethod):
    """The mean of a method's scores from two baselines, whatever the task's own, which share the gradients.

    Attributes:
        name: What tables call it.
        method: The method.
        rows: The embedding that every word becomes in each of the two, shape (2, D).
        n_gradients: Gradients for a text.
    """

    name: str
    method: PathMethod
    rows: Tensor
    n_gradients: int | None = None

    def __repr__(self) -> str:
        return f"TwoBaselines({self.method!r}, n_gradients={self.n_gradients})"

    def scores(self, task: Task, budget: Budget) -> Tensor:
        """Average over the two."""
        fixed = task.fixed[..., None]
        both = [replace(task, baselines=torch.where(fixed, task.inputs, row.to(task.inputs))) for row in self.rows]
        n_steps = self.n_gradients or budget.n_steps
        halves = (n_steps - n_steps // 2, n_steps // 2)
        return sum(
            (replace(self.method, n_gradients=n).scores(one, budget) for one, n in zip(both, halves, strict=True)),
            torch.zeros(()),
        ).div(2)


def paths(explainer: TextExplainer) -> dict[str, PathGenerator]:
    """Make every path of the study, by name."""
    line, greedy = explainer.path("straight_line"), explainer.path("greedy")
    return {
        "integrated_gradients": line,
        "dig_greedy": greedy,
        "dig_maxcount": explainer.path("maxcount"),
        "dig_uniform": explainer.path("uniform"),
        "dig_random_neighbor_x4": EnsemblePath([explainer.path("random_neighbor", seed=seed) for seed in range(4)]),
        "staggered": StaggeredPath(line, WIDTH, N_ORDERS),
        "staggered_greedy": StaggeredPath(greedy, WIDTH, N_ORDERS),
        "shapley_order": StaggeredPath(line, 0.0, N_ORDERS),
    }


def methods(explainer: TextExplainer, budgets: Sequence[int]) -> list[AttributionMethod]:
    """Make every path at every budget, and what it is compared with."""
    ids = [explainer.encoder.token_id("baseline", name, len(explainer.vocabulary)) for name in BASELINES]
    found: list[AttributionMethod] = [METHODS["leave_one_out"], METHODS["random"]]
    for (name, path), budget in itertools.product(paths(explainer).items(), budgets):
        method = PathMethod(f"{name}/{budget}", path, n_gradients=budget)
        found.append(method)
        if name in ("integrated_gradients", "staggered"):
            found.append(TwoBaselines(f"{name}_two_baselines/{budget}", method, explainer.vocabulary.rows[ids], budget))
    return found


def grid(explainer: TextExplainer) -> list[AttributionMethod]:
    """Make the paths among which the dev splits choose."""
    line, greedy = explainer.path("straight_line"), explainer.path("greedy")
    found = [PathMethod("integrated_gradients", line), PathMethod("dig_greedy", greedy)]
    for width, n_orders in itertools.product((0.0, 0.25, 0.5, 0.75), (2, 4, 8)):
        found.append(PathMethod(f"staggered w={width} r={n_orders}", StaggeredPath(line, width, n_orders)))
    found += [
        PathMethod(f"staggered_greedy w={width} r=4", StaggeredPath(greedy, width, 4)) for width in (0.25, 0.5, 0.75)
    ]
    return list(found)


def averages(comparison: Comparison, references: Callable[[str], Sequence[str]]) -> list[dict[str, Any]]:
    """Average each method, and test it against its references."""
    rows = []
    for baseline, method in itertools.product(comparison.settings.baselines, comparison.settings.methods):
        row: dict[str, Any] = {"method": method, "baseline": baseline}
        for metric in METRICS:
            values = comparison.values(metric, method, baseline)
            interval = bootstrap_interval(values)
            row[metric] = {"mean": interval.mean, "low": interval.low, "high": interval.high, "n": interval.n}
            for reference in references(method):
                test = paired_test(values, comparison.values(metric, reference, baseline))
                against = {"difference": test.difference.mean, "low": test.difference.low, "high": test.difference.high}
                row[metric][f"against {reference.partition('/')[0]}"] = against | {"p_value": test.p_value}
        measurements = [text.find(method, baseline) for text in comparison.texts]
        percents = comparison.values("delta_percent", method, baseline)
        row["n_gradients"] = measurements[0].n_gradients
        row["seconds"] = statistics.median(m.seconds for m in measurements)
        row["delta_percent"] = None if np.isnan(percents).all() else float(np.nanmedian(percents))
        rows.append(row)
    return rows


def same_cost(method: str) -> tuple[str, ...]:
    """Name what a method is tested against: Integrated Gradients with as many gradients, and leave-one-out."""
    name, _, budget = method.partition("/")
    line = (f"integrated_gradients/{budget}",) if budget and name != "integrated_gradients" else ()
    return (*line, *(() if method == "leave_one_out" else ("leave_one_out",)))


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
        "staggered": lambda seed: StaggeredPath(line, WIDTH, N_ORDERS, seed),
        "shapley_order": lambda seed: StaggeredPath(line, 0.0, N_ORDERS, seed),
    }
    # What the mean over orders tends to.
    limits: dict[str, tuple[PathGenerator, int]] = {
        "integrated_gradients": (line, 300),
        "dig_greedy": (greedy, 300),
        "staggered": (StaggeredPath(line, WIDTH, 64, seed=99), 64 * 24),
        "shapley_order": (StaggeredPath(line, 0.0, 64, seed=99), 64 * 24),
    }
    found: dict[str, dict[str, list[float]]] = {
        name: {"tau": [], "sensitivity": [], "token_error": []} for name in makers
    }
    classifier, encoder = explainer.classifier, explainer.encoder
    pad = encoder.token_id("baseline", "pad", len(explainer.vocabulary))
    for text in texts:
        with classifier.evaluating():
            task, _, _ = prepare(classifier, encoder, pad, encoder.encode(text), [None])
            ones = torch.ones_like(task.fixed, dtype=torch.int64)
            batch = TokenBatch(ones, ones, task.fixed, pad_id=0)
            for name, make in makers.items():
                first, second = (PathMethod(name, make(seed), n_gradients=budget)(task, Budget()) for seed in (0, 1))
                found[name]["tau"].append(float(kendall_tau(first, second, batch)))
                if name in limits:
                    path, n_steps = limits[name]
                    limit = PathMethod(name, path, n_gradients=n_steps)(task, Budget())
                    found[name]["token_error"].append(float(token_error(first, limit)))

                moved = sensitivity(_explain(make(0), task, budget), task.inputs, task.fixed, radius=0.01)
                found[name]["sensitivity"].append(float(moved))
    return {
        name: {measure: statistics.median(values) for measure, values in measures.items() if values}
        for name, measures in found.items()
    }


def _explain(path: PathGenerator, task: Task, budget: int) -> Callable[[Tensor], Tensor]:
    """A path's scores as a function of the embeddings, shape (B, T, 1)."""
    method = PathMethod("path", path, n_gradients=budget)
    return lambda embeddings: method(replace(task, inputs=embeddings), Budget())[..., None]


def study(setting: Setting, stage: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Run one stage on one model."""
    explainer = TextExplainer.from_pretrained(arguments.models / setting.model, name=setting.name, n_anchors=N_ANCHORS)
    if arguments.device:
        explainer.classifier.model.to(arguments.device)
    split, n = ("dev", arguments.n_dev) if stage == "choose" else ("test", arguments.n or setting.n_texts)
    texts = [text for text, _ in read(setting.dataset, split, arguments.data_dir)]
    if setting.dataset == "imdb":
        # It has no dev split: the shortest train texts choose, the shortest test texts decide.
        texts = texts if stage == "test" else [text for text, _ in read("imdb", "train", arguments.data_dir)]
        texts = sorted(texts, key=len)
    made = grid(explainer) if stage == "choose" else methods(explainer, arguments.budgets)
    comparison = compare(
        explainer,
        texts[:n],
        made,
        BASELINES,
        n_steps=CHOSEN_AT,
        top_fractions=(0.2,),
        n_curve_texts=0,
        internal_batch_size=arguments.internal_batch_size,
        journal=arguments.work / f"{setting.name}-{stage}.jsonl",
        progress=lambda done: print(f"\r{setting.name} {done}/{n}", end="", flush=True),
    )
    against = (
        same_cost
        if stage == "test"
        else (lambda name: () if name == "integrated_gradients" else ("integrated_gradients",))
    )
    report: dict[str, Any] = {
        "n_texts": n,
        "settings": comparison.settings.to_dict(),
        "rows": averages(comparison, against),
    }
    if stage == "test":
        report["steadiness"] = steadiness(explainer, texts[: arguments.n_steady], CHOSEN_AT)
    print()
    return report


def main() -> None:
    """Run a stage on every model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stage", nargs="?", choices=("choose", "test"), default="test")
    parser.add_argument("--models", type=Path, help="folder with one folder for each model")
    parser.add_argument("--data-dir", type=Path, help="folder with one folder for each data set; default: the hub")
    parser.add_argument("--only", default="", help="models whose name begins so")
    parser.add_argument("--budgets", type=int, nargs="+", default=BUDGETS, help="numbers of gradients")
    parser.add_argument("--n", type=int, help="test texts; 300, or 100 of IMDB")
    parser.add_argument("--n-dev", type=int, default=100, help="dev texts")
    parser.add_argument("--n-steady", type=int, default=20, help="texts for agreement, sensitivity and token error")
    parser.add_argument("--internal-batch-size", type=int, default=64, help="rows that the model sees at once")
    parser.add_argument("--device", help="where the model is to be")
    parser.add_argument("--work", type=Path, default=Path(".paper-work") / "paths", help="folder for journals")
    parser.add_argument("--out", type=Path, help="file for the report")
    parser.add_argument("--tiny", action="store_true", help="two texts of the embedded model, for a check")
    arguments = parser.parse_args()
    if arguments.tiny:
        tiny()
        return
    if arguments.models is None:
        parser.error("--models must name a folder")
    report: dict[str, Any] = {"environment": environment(arguments.device or "cpu"), "models": {}}
    for setting in SMALL:
        if setting.name.startswith(arguments.only):
            report["models"][setting.name] = study(setting, arguments.stage, arguments)
            write(report, arguments.out)


def tiny() -> None:
    """Run both stages on two texts."""
    explainer = TextExplainer.demo(n_anchors=3)
    texts = ["A fine film.", "Dull and far too long."]
    for made, references in ((grid(explainer), lambda _: ()), (methods(explainer, [8]), same_cost)):
        with tempfile.TemporaryDirectory() as folder:
            comparison = compare(
                explainer, texts, made, BASELINES, n_steps=8, n_curve_texts=0, journal=Path(folder) / "journal.jsonl"
            )
        print(f"{len(averages(comparison, references))} rows")
    print(steadiness(explainer, texts[:1], 8))


if __name__ == "__main__":
    main()
