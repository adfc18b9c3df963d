"""Do the default's scores name the words that a model needs, next to Integrated Gradients with as many gradients?

Test texts are explained from two baselines, and measured by log-odds and comprehensiveness (default protocol, 20 %):

- integrated_gradients: the straight line and Gauss-Legendre nodes, Captum's defaults, with 48 gradients;
- former: the default of version 0.1, 4 staggered orders and Gauss-Legendre nodes, with 48 gradients;
- default: the straight line, 12 staggered orders and known sums, with 48 gradients (`--width`, `--inner-share`:
  another path instead);
- default_half: the same with 24 gradients, so with 6 orders;
- idgi: IDGI along the straight line, with 48 gradients;
- leave_one_out, and sampled_shapley: Shapley values of tokens from random orders, with at most 48 forward
  passes, or one order for longer texts. The long texts of IMDB do without both, which take minutes there.

Each is tested against Integrated Gradients, and the half against the former default (sign-flip tests, paired by text).

    python -m benchmarks.faithfulness --models FOLDER --data-dir FOLDER --settings demo bert-sst2 --out FILE
    python -m benchmarks.faithfulness --tiny

Finished texts are kept in `--work`: a run that was cut off goes on. A setting that the file holds already stays there.
"""

import argparse
import json
import random
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from benchmarks._former import IndependentStarts
from benchmarks._measuring import ends, rounded, write
from benchmarks._sentences import TINY_TEXTS, explainer_of, given, reopened, setting_parser
from benchmarks.paper._settings import Setting, read, texts_of
from benchmarks.paper.page import BETTER
from benchmarks.paths.study import BASELINES, SETTING
from captum_dig import StaggeredPath, StraightLine, TextExplainer
from captum_dig.comparison import Comparison
from captum_dig.comparison.comparing import compare
from captum_dig.methods import AttributionMethod, PathMethod, Plan
from captum_dig.metrics import bootstrap_interval, paired_test
from captum_dig.models.question import Question

N_STEPS: Final = 48
METRICS: Final = ("log_odds", "comprehensiveness")
LEVEL: Final = 0.01
REFERENCE: Final = "integrated_gradients"


class SampledShapley(AttributionMethod):
    """Shapley values of the tokens of one text, from as many random orders as `N_STEPS` forward passes allow."""

    name = "sampled_shapley"
    n_gradients = 0

    def scores(self, question: Question, plan: Plan) -> Tensor:
        """Let tokens take their embeddings one after the other; each gets the mean of its changes of the output."""
        places = (~question.fixed[0]).nonzero()[:, 0]
        scores = question.inputs.new_zeros(question.fixed.shape, dtype=torch.float32)
        if len(places) == 0:
            return scores
        n_orders = max(1, N_STEPS // len(places))
        generator = torch.Generator().manual_seed(plan.seed)
        for _ in range(n_orders):
            order = places[torch.randperm(len(places), generator=generator)]
            states = question.baselines.expand(len(order) + 1, -1, -1).clone()
            for number, place in enumerate(order):
                states[number + 1 :, place] = question.inputs[0, place]
            rows = torch.zeros(len(states), dtype=torch.int64)
            scores[0, order] += question.outputs(states, rows, plan.rows_at_once).diff() / n_orders
        return scores


def main() -> None:
    """Measure, print, and write JSON."""
    parser = setting_parser(__doc__, tiny="all methods")
    parser.add_argument("--n", type=int, default=200, help="texts; of IMDB drawn at random")
    parser.add_argument("--width", type=float, default=0.3, help="how long words move on the default path")
    parser.add_argument("--inner-share", type=float, default=0.5, help="the share of the straight line in it")
    parser.add_argument("--work", type=Path, help="folder for finished texts")
    arguments = given(parser)
    report = reopened(
        __doc__,
        arguments.out,
        "cells",
        n_steps=N_STEPS,
        level=LEVEL,
        reference=REFERENCE,
        width=arguments.width,
        inner_share=arguments.inner_share,
    )
    with tempfile.TemporaryDirectory() as scratch:
        work = arguments.work or Path(scratch)
        work.mkdir(parents=True, exist_ok=True)
        for name in arguments.settings:
            setting = SETTING[name]
            explainer, texts = _load(setting, arguments)
            path = StaggeredPath(StraightLine(), arguments.width, inner_share=arguments.inner_share)
            cell = measured(explainer, path, texts, work / name, with_removals=setting.dataset != "imdb")
            report["cells"][name] = {"n_texts": len(texts), "rows": cell}
            for row in cell:
                print(name, row, flush=True)
            report["verdicts"] = verdicts(report["cells"])
            write(report, arguments.out)
    print(json.dumps(report["verdicts"]))


def _load(setting: Setting, arguments: argparse.Namespace) -> tuple[TextExplainer, list[str]]:
    """The model and its test texts."""
    if arguments.tiny:
        return TextExplainer.demo(), TINY_TEXTS
    explainer = explainer_of(setting, arguments.models)
    if setting.dataset != "imdb":
        return explainer, texts_of(setting.dataset, "test", arguments.data_dir, arguments.n)
    texts = [text for text, _ in read(setting.dataset, "test", arguments.data_dir)]
    # A shuffle, so that a run with more texts begins with those of a run with fewer.
    random.Random(0).shuffle(texts)
    return explainer, texts[: arguments.n]


def measured(
    explainer: TextExplainer, path: StaggeredPath, texts: Sequence[str], work: Path, *, with_removals: bool
) -> list[dict[str, Any]]:
    """Averages of each method from each baseline, with their tests."""
    former = PathMethod("former", IndependentStarts(StraightLine(), n_orders=4, seed=0))
    default = PathMethod("default", path)
    runs: dict[str, tuple[Comparison, str]] = {}
    removals: list[str | AttributionMethod] = ["leave_one_out", SampledShapley()] if with_removals else []
    plans: tuple[tuple[str, int, list[str | AttributionMethod]], ...] = (
        ("gausslegendre", N_STEPS, [REFERENCE, former, *removals]),
        ("known_sums", N_STEPS, ["idgi", default]),
        ("known_sums", N_STEPS // 2, [default]),
    )
    for rule, n_steps, methods in plans:
        comparison = compare(
            explainer,
            texts,
            methods,
            BASELINES,
            n_steps=n_steps,
            method=rule,
            measures=METRICS,
            top_fractions=(0.2,),
            n_curve_texts=0,
            journal=work.with_name(f"{work.name}-{rule}-{n_steps}.jsonl"),
        )
        for name in comparison.settings.methods:
            runs["default_half" if n_steps < N_STEPS else name] = comparison, name
    return [_row(runs, name, baseline) for baseline in BASELINES for name in runs]


def _row(runs: Mapping[str, tuple[Comparison, str]], name: str, baseline: str) -> dict[str, Any]:
    row: dict[str, Any] = {"method": name, "baseline": baseline}
    for metric in METRICS:
        values = _values(runs, name, metric, baseline)
        row[metric] = ends(bootstrap_interval(values))
        for reference in (REFERENCE, "former") if name == "default_half" else (REFERENCE,):
            if reference != name:
                test = paired_test(values, _values(runs, reference, metric, baseline))
                row[metric][f"against {reference}"] = ends(test.difference) | {"p_value": rounded(test.p_value)}
    return row


def _values(runs: Mapping[str, tuple[Comparison, str]], name: str, metric: str, baseline: str) -> Any:
    comparison, method = runs[name]
    return comparison.values(metric, method, baseline)


def verdicts(cells: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    """Count the tests that each method wins and loses: settings × baselines × metrics."""
    counts: dict[str, dict[str, int]] = {}
    for cell in cells.values():
        for row in cell["rows"]:
            for metric in METRICS:
                for against, test in row[metric].items():
                    if not against.startswith("against"):
                        continue
                    found = counts.setdefault(f"{row['method']} {against}", {"better": 0, "worse": 0, "level": 0})
                    if test["p_value"] >= LEVEL:
                        found["level"] += 1
                    else:
                        found["better" if test["mean"] * BETTER[metric] > 0 else "worse"] += 1
    return counts


if __name__ == "__main__":
    main()
