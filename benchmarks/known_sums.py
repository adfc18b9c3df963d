"""What do the outputs at the nodes gain, at the same number of gradients?

For sentences of a development split, the token scores of ``method="known_sums"`` and of the default rule are compared
with a converged integral along the same path (relative L2 distance). The estimate that known sums come with is compared
with their true error (relative L1 distance): the share of texts whose error is below twice the estimate.

    python -m benchmarks.known_sums --model FOLDER --data FOLDER/sst2/dev.tsv --out benchmarks/results/known_sums.json
    python -m benchmarks.known_sums --tiny
"""

import argparse
import statistics
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._measuring import environment, rounded, write
from captum_dig import StaggeredPath, StraightLine, TextAttribution, TextExplainer

# The orders of the last one are fixed: other orders would be another integral.
PATHS: dict[str, Any] = {
    "straight_line": "straight_line",
    "greedy": "greedy",
    "staggered": StaggeredPath(StraightLine(), n_orders=4),
}
BASELINES = ("pad", "mask")
STEPS = (16, 24, 48)
RULES = ("gausslegendre", "known_sums")
TINY_TEXTS = ["A gorgeous, witty, seductive movie.", "The plot is dull and the acting is terrible."]


def main() -> None:
    """Measure, print, and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, help="folder of a sentence classifier; the demo model without it")
    parser.add_argument("--data", type=Path, help="lines of text TAB label")
    parser.add_argument("--n", type=int, default=40, help="sentences, evenly spread over the file")
    parser.add_argument("--reference-steps", type=int, default=800, help="gradients of the converged integral")
    parser.add_argument("--out", type=Path, help="JSON file to write")
    parser.add_argument("--tiny", action="store_true", help="two sentences, the demo model, few gradients")
    arguments = parser.parse_args()
    if not arguments.tiny and arguments.data is None:
        parser.error("give --data, or --tiny")
    texts = TINY_TEXTS if arguments.tiny else read_texts(arguments.data, arguments.n)
    explainer = TextExplainer.from_pretrained(arguments.model) if arguments.model else TextExplainer.demo()
    cells = [
        (path, baseline, n_steps)
        for path in (["staggered"] if arguments.tiny else PATHS)
        for baseline in (BASELINES[:1] if arguments.tiny else BASELINES)
        for n_steps in (STEPS[1:2] if arguments.tiny else STEPS)
    ]
    report: dict[str, Any] = {
        "question": (__doc__ or "").splitlines()[0],
        "environment": environment(),
        "settings": {
            "model": arguments.model.name if arguments.model else "demo",
            "data": arguments.data.name if arguments.data else "two sentences",
            "n_sentences": len(texts),
            "reference_steps": 100 if arguments.tiny else arguments.reference_steps,
        },
        "cells": {},
    }
    references: dict[tuple[str, str], list[TextAttribution]] = {}
    for path, baseline, n_steps in cells:
        if (path, baseline) not in references:
            steps = report["settings"]["reference_steps"]
            references[path, baseline] = explain(explainer, texts, path, baseline, steps, "gausslegendre")
        found = compared(explainer, texts, (path, baseline), references[path, baseline], n_steps)
        report["cells"][f"{path}, {baseline}, {n_steps}"] = found
        print(f"{path:14}{baseline:6}{n_steps:4}", found, flush=True)
    ratios = [cell["ratio"] for cell in report["cells"].values()]
    report["geometric_mean_of_ratios"] = rounded(float(np.exp(np.log(ratios).mean())))
    print("geometric mean of the ratios", report["geometric_mean_of_ratios"])
    write(report, arguments.out)


def read_texts(file: Path, count: int) -> list[str]:
    """Sentences of a file of text TAB label, evenly spread, the short ones first, which saves padding."""
    lines = file.read_text(encoding="utf-8").splitlines()
    chosen = lines[:: max(1, len(lines) // count)][:count]
    return sorted((line.split("\t")[0] for line in chosen), key=len)


def explain(
    explainer: TextExplainer, texts: list[str], path: str, baseline: str, n_steps: int, rule: str
) -> list[TextAttribution]:
    """Scores of the texts by one rule."""
    results = explainer.explain(
        texts,
        strategy=PATHS[path],
        baseline=baseline,
        n_steps=n_steps,
        method=rule,
        batch_size=8,
        internal_batch_size=128,
    )
    return results if isinstance(results, list) else [results]


def compared(
    explainer: TextExplainer,
    texts: list[str],
    place: tuple[str, str],
    references: list[TextAttribution],
    n_steps: int,
) -> dict[str, float]:
    """Median and 90th percentile of both rules' errors, their ratios, and how often the estimate holds."""
    found: dict[str, float] = {}
    for rule in RULES:
        results = explain(explainer, texts, *place, n_steps, rule)
        errors = [distance(one, other, 2) for one, other in zip(results, references, strict=True)]
        found[f"{rule}_median"] = rounded(statistics.median(errors))
        found[f"{rule}_p90"] = rounded(float(np.percentile(errors, 90)))
    held = [
        100 * distance(one, other, 1) <= 2 * (one.error_percent or 0)
        for one, other in zip(results, references, strict=True)
    ]
    found["ratio"] = rounded(found["known_sums_median"] / found["gausslegendre_median"])
    found["ratio_p90"] = rounded(found["known_sums_p90"] / found["gausslegendre_p90"])
    found["below_twice_the_estimate"] = rounded(sum(held) / len(held))
    return found


def distance(result: TextAttribution, reference: TextAttribution, order: int) -> float:
    """Relative distance of token scores, L1 or L2."""
    exact = np.array(reference.token_scores)
    return float(np.linalg.norm(np.array(result.token_scores) - exact, order) / np.linalg.norm(exact, order))


if __name__ == "__main__":
    main()
