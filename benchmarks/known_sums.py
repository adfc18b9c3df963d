"""What do the outputs at the nodes gain, at the same number of gradients?

For sentences of a development split, the token scores of ``method="known_sums"`` and of the default rule are compared
with a converged integral along the same path (relative L2 distance). The estimate that known sums come with is compared
with their true error (relative L1 distance): the share of texts whose error is below twice the estimate.

    python -m benchmarks.known_sums --model FOLDER --data FOLDER/sst2/dev.tsv --out benchmarks/results/known_sums.json
    python -m benchmarks.known_sums --tiny
"""

import statistics
from typing import Any

import numpy as np

from benchmarks._measuring import rounded, write
from benchmarks._sentences import distance, explain, load, opening, sentence_parser
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


def main() -> None:
    """Measure, print, and write JSON."""
    parser = sentence_parser(__doc__, tiny="few gradients")
    parser.add_argument("--reference-steps", type=int, default=800, help="gradients of the converged integral")
    arguments, explainer, texts = load(parser)
    cells = [
        (path, baseline, n_steps)
        for path in (["staggered"] if arguments.tiny else PATHS)
        for baseline in (BASELINES[:1] if arguments.tiny else BASELINES)
        for n_steps in (STEPS[1:2] if arguments.tiny else STEPS)
    ]
    steps = 100 if arguments.tiny else arguments.reference_steps
    report = opening(__doc__, arguments, texts, reference_steps=steps)
    report["cells"] = {}
    references: dict[tuple[str, str], list[TextAttribution]] = {}
    for path, baseline, n_steps in cells:
        if (path, baseline) not in references:
            references[path, baseline] = scores(explainer, texts, path, baseline, steps, "gausslegendre")
        found = compared(explainer, texts, (path, baseline), references[path, baseline], n_steps)
        report["cells"][f"{path}, {baseline}, {n_steps}"] = found
        print(f"{path:14}{baseline:6}{n_steps:4}", found, flush=True)
    ratios = [cell["ratio"] for cell in report["cells"].values()]
    report["geometric_mean_of_ratios"] = rounded(float(np.exp(np.log(ratios).mean())))
    print("geometric mean of the ratios", report["geometric_mean_of_ratios"])
    write(report, arguments.out)


def scores(
    explainer: TextExplainer, texts: list[str], path: str, baseline: str, n_steps: int, rule: str
) -> list[TextAttribution]:
    """Explanations of the texts by one rule."""
    return explain(explainer, texts, strategy=PATHS[path], baseline=baseline, n_steps=n_steps, method=rule)


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
        results = scores(explainer, texts, *place, n_steps, rule)
        errors = [
            distance(one.token_scores, other.token_scores) for one, other in zip(results, references, strict=True)
        ]
        found[f"{rule}_median"] = rounded(statistics.median(errors))
        found[f"{rule}_p90"] = rounded(float(np.percentile(errors, 90)))
    held = [
        100 * distance(one.token_scores, other.token_scores, 1) <= 2 * (one.error_percent or 0)
        for one, other in zip(results, references, strict=True)
    ]
    found["ratio"] = rounded(found["known_sums_median"] / found["gausslegendre_median"])
    found["ratio_p90"] = rounded(found["known_sums_p90"] / found["gausslegendre_p90"])
    found["below_twice_the_estimate"] = rounded(sum(held) / len(held))
    return found


if __name__ == "__main__":
    main()
