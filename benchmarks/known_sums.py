"""What do the outputs at the nodes gain, at the same number of gradients?

Test sentences are explained along one fixed path, by Captum's rule and by those that use the outputs at the nodes:
``"known_sums"`` with even nodes, ``"adaptive"`` with nodes where the error is. Their token scores are compared with a
converged integral along the same path (relative L2 distance), which is itself compared with one of half the gradients.
The estimate of the error is compared with the true error (relative L1 distance): the share of texts whose error is
below twice the estimate.

    python -m benchmarks.known_sums --models FOLDER --data-dir FOLDER --settings demo bert-sst2 --out FILE
    python -m benchmarks.known_sums --tiny

A setting that the file holds already stays there.
"""

import statistics
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from benchmarks._measuring import rounded, write
from benchmarks._sentences import distance, explain, given, load_setting, reopened, setting_parser
from captum_dig import StaggeredPath, StraightLine, TextAttribution, TextExplainer

# The orders of staggered paths are fixed: other orders would be another integral.
PATHS: dict[str, Any] = {
    "straight_line": "straight_line",
    "staggered": StaggeredPath(StraightLine(), n_orders=4),
    "greedy": "greedy",
    "maxcount": "maxcount",
}
BASELINES = ("pad", "mask")
STEPS = (16, 24, 32, 48, 96)
FORMER = "gausslegendre"
RULES = ("known_sums", "adaptive")
REFERENCE_STEPS = 800


def main() -> None:
    """Measure, print, and write JSON."""
    parser = setting_parser(__doc__, tiny="few gradients")
    parser.add_argument("--n", type=int, default=40, help="sentences, evenly spread over the test split")
    arguments = given(parser)
    reference_steps = 100 if arguments.tiny else REFERENCE_STEPS
    report = reopened(__doc__, arguments.out, steps=STEPS, reference_steps=reference_steps)
    for setting in arguments.settings:
        explainer, texts = load_setting(setting, arguments)
        cells = {}
        steps = STEPS[1:2] if arguments.tiny else STEPS
        for path in ["staggered"] if arguments.tiny else PATHS:
            for baseline in BASELINES[:1] if arguments.tiny else BASELINES:
                found = cell(explainer, texts, (path, baseline), steps, reference_steps)
                cells[f"{path}, {baseline}"] = found
                print(setting, path, baseline, found, flush=True)
        of_model = {"n_sentences": len(texts), "cells": cells}
        report["models"][setting] = of_model | {"summary": summary([of_model])}
        report["summary"] = summary(report["models"].values())
        print(report["summary"], flush=True)
        write(report, arguments.out)


def scores(
    explainer: TextExplainer, texts: list[str], place: tuple[str, str], n_steps: int | str, rule: str, **options: Any
) -> list[TextAttribution]:
    """Explanations of the texts by one rule, along a path from a baseline."""
    path, baseline = place
    return explain(explainer, texts, strategy=PATHS[path], baseline=baseline, n_steps=n_steps, method=rule, **options)


def errors(results: list[TextAttribution], references: list[TextAttribution], order: int = 2) -> list[float]:
    """Distances of token scores, one for each text."""
    return [
        distance(one.token_scores, other.token_scores, order) for one, other in zip(results, references, strict=True)
    ]


def cell(
    explainer: TextExplainer, texts: list[str], place: tuple[str, str], steps: Iterable[int], reference_steps: int
) -> dict[str, Any]:
    """Medians and 90th percentiles of the errors of each rule, and how often the estimate holds."""
    references = scores(explainer, texts, place, reference_steps, FORMER)
    half = errors(scores(explainer, texts, place, reference_steps // 2, FORMER), references)
    found: dict[str, Any] = {"half_of_the_reference": statistics.median(half), "steps": {}}
    for n_steps in steps:
        row: dict[str, float] = {}
        for rule in (FORMER, *RULES):
            results = scores(explainer, texts, place, n_steps, rule)
            wrong = errors(results, references)
            row[f"{rule}_median"] = rounded(statistics.median(wrong))
            row[f"{rule}_p90"] = rounded(float(np.percentile(wrong, 90)))
            if rule != FORMER:
                row[f"{rule}_ratio"] = rounded(row[f"{rule}_median"] / row[f"{FORMER}_median"])
                row[f"{rule}_ratio_p90"] = rounded(row[f"{rule}_p90"] / row[f"{FORMER}_p90"])
                held = [
                    100 * error <= 2 * (one.error_percent or 0)
                    for one, error in zip(results, errors(results, references, 1), strict=True)
                ]
                row[f"{rule}_below_twice_the_estimate"] = rounded(statistics.mean(held))
        found["steps"][str(n_steps)] = row
    return found


def summary(models: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """For each rule: mean ratios over all cells, the largest one from 24 gradients on, and shares of the estimate."""
    rows = [
        (int(n_steps), row)
        for model in models
        for found in model["cells"].values()
        for n_steps, row in found["steps"].items()
    ]
    report = {}
    for rule in RULES:
        ratios = [row[f"{rule}_ratio"] for _, row in rows]
        later = [row[f"{rule}_ratio"] for n_steps, row in rows if n_steps >= 24]
        held = [row[f"{rule}_below_twice_the_estimate"] for _, row in rows]
        report[rule] = {
            "n_cells": len(rows),
            "geometric_mean_of_ratios": rounded(statistics.geometric_mean(ratios)),
            "geometric_mean_of_ratios_p90": rounded(
                statistics.geometric_mean(row[f"{rule}_ratio_p90"] for _, row in rows)
            ),
            "largest_ratio_from_24": max(later),
            "cells_from_24_above_1": sum(ratio > 1 for ratio in later),
            "below_twice_the_estimate": rounded(statistics.mean(held)),
            "below_twice_the_estimate_lowest": min(held),
        }
    return report


if __name__ == "__main__":
    main()
