"""Do the paper's tables come out the same, with its rule and with ours, from a pad and from a mask baseline?

Runs every experiment and writes one JSON file of averages for each:

    python -m benchmarks.paper.tables --models FOLDER --data-dir FOLDER      # small models in folders
    python -m benchmarks.paper.tables --paper-models                         # the paper's, from the hub
    python -m benchmarks.paper.page                                          # the page and its figures

Finished texts are kept in a journal for each experiment (`--work`), so a run that was cut off goes on where it was.
`--only NAME` runs the experiments whose name begins so. `--tiny` runs everything once with little, for a check.
"""

import argparse
import itertools
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from benchmarks._measuring import environment, rounded, write
from benchmarks.paper._settings import PAPER, SEED, SMALL, M, Setting, table_methods, texts_of
from captum_dig import TextExplainer
from captum_dig.comparison import Comparison
from captum_dig.comparison.comparing import compare
from captum_dig.methods import AttributionMethod, PathMethod

RESULTS = Path(__file__).parents[1] / "results" / "paper"
# The rule that tables call ours.
RULE = "gausslegendre"
Methods = Callable[[TextExplainer], list[AttributionMethod]]


def randoms(explainer: TextExplainer) -> list[AttributionMethod]:
    """Make the ablation of the anchor search: five seeds of each random one."""
    return [
        PathMethod("integrated_gradients", explainer.path("straight_line"), n_gradients=M + 1),
        *(
            PathMethod(f"dig_{strategy}#{seed}", explainer.path(strategy, seed=seed), n_gradients=M + 1)
            for strategy, seed in itertools.product(("random_anchor", "random_neighbor"), range(5))
        ),
    ]


def upsampled(explainer: TextExplainer) -> list[AttributionMethod]:
    """Make the up-sampled paths: factor f takes 2 ** f times as many gradients of the same path."""
    path = explainer.path("maxcount")
    return [
        PathMethod(
            f"f={f}@{name}", path, rule, "knots" if rule == "riemann_left" else "arc", n_gradients=2**f * (M + 1)
        )
        for f in range(4)
        for name, rule in (("paper", "riemann_left"), ("ours", RULE))
    ]


def lengths(m: int) -> Methods:
    """Make the paths of m anchors, and the straight line with as many gradients."""

    def methods(explainer: TextExplainer) -> list[AttributionMethod]:
        found: list[AttributionMethod] = []
        for name, strategy in (("integrated_gradients", "straight_line"), ("dig_maxcount", "maxcount")):
            path = explainer.path(strategy)
            found += [
                PathMethod(f"{name}@paper", path, "riemann_left", "knots", n_gradients=m + 1),
                PathMethod(name, path, n_gradients=m + 1),
            ]
        return found

    return methods


def neighborhoods(explainer: TextExplainer) -> list[AttributionMethod]:
    """Make the paths of one neighbourhood size, with the paper's rule and ours."""
    path = explainer.path("maxcount")
    return [
        PathMethod("dig_maxcount@paper", path, "riemann_left", "knots", n_gradients=M + 1),
        PathMethod("dig_maxcount", path, n_gradients=M + 1),
    ]


def experiments(setting: Setting, ablate: bool) -> list[tuple[str, Methods, tuple[str, ...], int, dict[str, Any]]]:
    """List what is run with a model: a name, methods, baselines, number of texts, and options of the paths."""
    found: list[tuple[str, Methods, tuple[str, ...], int, dict[str, Any]]] = [
        (setting.name, table_methods, ("pad", "mask"), setting.n_texts, {})
    ]
    if ablate:
        some = max(1, setting.n_texts // 3)
        found += [
            (f"{setting.name}-seeds", randoms, ("pad",), some, {}),
            (f"{setting.name}-upsampled", upsampled, ("pad",), some, {}),
            *((f"{setting.name}-m{m}", lengths(m), ("pad",), some, {"n_anchors": m}) for m in (10, 30, 100)),
            *(
                (f"{setting.name}-k{k}", neighborhoods, ("pad",), some, {"n_neighbors": k})
                for k in (10, 30, 100, 200, 300, 500)
            ),
        ]
    return found


def averages(comparison: Comparison) -> dict[str, Any]:
    """Reduce a comparison to what tables show. Tests are against the straight line with the same rule."""
    rows = []
    for fraction in comparison.settings.top_fractions:
        theirs = comparison.summary("integrated_gradients@paper", fraction)
        ours = comparison.summary("integrated_gradients", fraction)
        for by_theirs, by_ours in zip(theirs, ours, strict=True):
            one = by_theirs if "@paper" in by_ours.method else by_ours
            rows.append(
                {
                    "method": one.method,
                    "baseline": one.baseline,
                    "top_fraction": fraction,
                    "gradients": one.n_gradients,
                    "seconds": round(one.seconds, 4),
                    "delta_percent": rounded(one.delta_percent),
                    "pooled_delta_percent": rounded(one.pooled_delta_percent),
                    "mean": {name: rounded(i.mean) for name, i in one.intervals.items()},
                    "low": {name: rounded(i.low) for name, i in one.intervals.items()},
                    "high": {name: rounded(i.high) for name, i in one.intervals.items()},
                    "n": {name: i.n for name, i in one.intervals.items()},
                    "p_value": {name: rounded(test.p_value) for name, test in one.tests.items()},
                    "difference": {name: rounded(test.difference.mean) for name, test in one.tests.items()},
                }
            )
    return {"settings": comparison.settings.to_dict(), "n_texts": len(comparison.texts), "rows": rows}


def run(setting: Setting, arguments: argparse.Namespace, work: Path, out: Path) -> None:
    """Run the experiments of one model."""
    ablate = setting.name in ("distilbert-sst2", "paper-distilbert-sst2")
    for name, methods, baselines, n_texts, options in experiments(setting, ablate):
        if not name.startswith(arguments.only):
            continue
        texts = texts_of(setting.dataset, "test", arguments.data_dir, min(n_texts, arguments.n))
        folder = setting.model if arguments.paper_models else arguments.models / setting.model
        explainer = TextExplainer.from_pretrained(
            folder, candidates="all", output="logit", name=setting.name, **options
        )
        if arguments.device:
            explainer.classifier.model.to(arguments.device)
        print(f"{name}: {len(texts)} texts", flush=True)
        comparison = compare(
            explainer,
            texts,
            methods(explainer),
            baselines,
            n_steps=M + 1,
            method=RULE,
            top_fractions=setting.top_fractions,
            protocols=("default", "paper"),
            n_curve_texts=0,
            internal_batch_size=arguments.internal_batch_size,
            seed=SEED,
            journal=work / f"{name}.jsonl",
            progress=lambda done: print(f"\r{done}", end="", flush=True) if done % 10 == 0 else None,
        )
        out.mkdir(parents=True, exist_ok=True)
        write(averages(comparison) | {"environment": environment(arguments.device or "cpu")}, out / f"{name}.json")
        print(f"\r{name}: written")


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=Path, help="folder with one folder for each small model")
    parser.add_argument("--data-dir", type=Path, help="folder with one folder for each data set; default: the hub")
    parser.add_argument("--paper-models", action="store_true", help="the paper's checkpoints, from the hub")
    parser.add_argument("--n", type=int, default=300, help="at most so many texts for each experiment; 300")
    parser.add_argument("--only", default="", help="run only experiments whose name begins so")
    parser.add_argument("--device", help="where the model is to be")
    parser.add_argument("--internal-batch-size", type=int, default=64, help="rows that the model sees at once")
    parser.add_argument("--work", type=Path, default=Path(".paper-work"), help="folder for journals")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for results")
    parser.add_argument("--tiny", action="store_true", help="two texts of the embedded model, for a check")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore", "text .* has .* tokens")
    torch.manual_seed(SEED)
    if arguments.tiny:
        with tempfile.TemporaryDirectory() as folder:
            tiny(Path(folder))
        return
    if arguments.models is None and not arguments.paper_models:
        parser.error("--models must name a folder, or --paper-models must be given")
    for setting in PAPER if arguments.paper_models else SMALL:
        run(setting, arguments, arguments.work, arguments.out)


def tiny(folder: Path) -> None:
    """Run every kind of experiment on two texts."""
    explainer = TextExplainer.demo(candidates="all", output="logit", n_anchors=3)
    for name, methods, baselines, _, _ in experiments(replace(SMALL[0], n_texts=2), ablate=True):
        comparison = compare(
            explainer,
            ["A fine film.", "Dull and far too long."],
            methods(explainer),
            baselines,
            n_steps=8,
            method=RULE,
            protocols=("default", "paper"),
            n_curve_texts=0,
            journal=folder / f"{name}.jsonl",
        )
        write(averages(comparison) | {"environment": environment()}, folder / f"{name}.json")
        print(f"{name}: {len(comparison.texts)} texts")


if __name__ == "__main__":
    main()
