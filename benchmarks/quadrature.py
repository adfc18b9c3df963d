"""Which rule comes nearest to the path integral at the same number of gradients?

For sentences of the SST-2 test split, a pad baseline and the predicted logit, every rule is compared with a converged
integral along the same path. Two errors are reported: delta % (how far the scores miss the difference of outputs, in
percent of it) and token error (relative L2 distance of the token scores from the converged ones), because a delta can
be small by cancellation.

    python -m benchmarks.quadrature --model FOLDER --data FOLDER/sst2/test.tsv --out benchmarks/results/quadrature.json
    python -m benchmarks.quadrature --tiny
"""

import argparse
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._measuring import environment, write
from benchmarks._sentences import TINY_TEXTS, distance
from captum_dig import TextAttribution, TextExplainer

# Name in the table: quadrature rule and spacing. The first is the paper's.
RULES = {
    "left, knots (paper)": ("riemann_left", "knots"),
    "middle, knots": ("riemann_middle", "knots"),
    "left, arc": ("riemann_left", "arc"),
    "right, arc": ("riemann_right", "arc"),
    "trapezoid, arc": ("riemann_trapezoid", "arc"),
    "middle, arc": ("riemann_middle", "arc"),
    "gausslegendre (default)": ("gausslegendre", "arc"),
}
DEFAULT = "gausslegendre (default)"
STEPS = (8, 12, 16, 20, 24, 31, 40, 50, 64, 80, 100, 150, 200)


def main() -> None:
    """Measure, print the tables, and write JSON."""
    arguments = parse()
    texts = TINY_TEXTS if arguments.tiny else read_texts(arguments.data, arguments.n_sentences)
    steps = (8, 50) if arguments.tiny else STEPS
    report: dict[str, Any] = {
        "question": (__doc__ or "").splitlines()[0],
        "environment": environment(),
        "strategies": {},
    }
    report["settings"] = {"model": arguments.model.name if arguments.model else "demo", "n_sentences": len(texts)}
    for strategy in ("greedy", "maxcount"):
        report["strategies"][strategy] = measure(strategy, texts, steps, arguments)
    print_tables(report)
    write(report, arguments.out)


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, help="folder of a sentence classifier; the demo model without it")
    parser.add_argument("--data", type=Path, help="lines of text TAB label")
    parser.add_argument(
        "--n-sentences",
        type=int,
        default=200,
        help="sentences for the default rule and the paper's, from the top of the file",
    )
    parser.add_argument(
        "--n-compared", type=int, default=40, help="sentences for the table of every rule, evenly spread over those"
    )
    parser.add_argument("--n-anchors", type=int, default=30)
    parser.add_argument("--reference-steps", type=int, default=800, help="gradients of the converged integral")
    parser.add_argument("--out", type=Path, help="JSON file to write")
    parser.add_argument("--tiny", action="store_true", help="two sentences, two numbers of steps, the demo model")
    arguments = parser.parse_args()
    if not arguments.tiny and arguments.data is None:
        parser.error("give --data, or --tiny")
    if arguments.tiny:
        arguments.reference_steps = 200
    return arguments


def read_texts(file: Path, count: int) -> list[str]:
    """The first sentences of a file of text TAB label."""
    lines = file.read_text(encoding="utf-8").splitlines()[:count]
    return [line.split("\t")[0] for line in lines]


def measure(strategy: str, texts: list[str], steps: tuple[int, ...], arguments: argparse.Namespace) -> dict[str, Any]:
    """Errors of every rule for one strategy."""
    explainers = {spacing: make_explainer(strategy, spacing, arguments) for spacing in ("arc", "knots")}

    def explain(chosen: list[str], method: str, spacing: str, n_steps: int) -> list[TextAttribution]:
        results = explainers[spacing].explain(
            chosen, method=method, n_steps=n_steps, batch_size=8, internal_batch_size=128
        )
        return results if isinstance(results, list) else [results]

    started = time.perf_counter()
    # Texts of similar length share a batch, which saves padding.
    texts = sorted(texts, key=len)
    reference = explain(texts, "gausslegendre", "arc", arguments.reference_steps)
    compared = slice(0, None, max(1, len(texts) // arguments.n_compared)) if arguments.n_compared else slice(0)
    headline = {}
    for name, n_steps in ((DEFAULT, 50), (next(iter(RULES)), arguments.n_anchors + 1)):
        headline[f"{name}, n={n_steps}"] = summarize(explain(texts, *RULES[name], n_steps), reference)
    table = {
        name: {str(n): summarize(explain(texts[compared], *rule, n), reference[compared]) for n in steps}
        for name, rule in RULES.items()
        if texts[compared]
    }
    return {
        "reference": {
            "n_steps": arguments.reference_steps,
            **spread("delta_percent", [r.delta_percent for r in reference]),
        },
        "headline": headline,
        "table": table,
        "n_compared": len(texts[compared]),
        "seconds": round(time.perf_counter() - started, 1),
    }


def make_explainer(strategy: str, spacing: str, arguments: argparse.Namespace) -> TextExplainer:
    """The paper's setting: every row may be an anchor, K = 500."""
    options: dict[str, Any] = {
        # The committed results are about the logit.
        "output": "logit",
        "strategy": strategy,
        "n_anchors": arguments.n_anchors,
        "candidates": "all",
        "spacing": spacing,
    }
    return (
        TextExplainer.from_pretrained(arguments.model, **options) if arguments.model else TextExplainer.demo(**options)
    )


def summarize(results: list[TextAttribution], reference: list[TextAttribution]) -> dict[str, float]:
    """Median, 95th percentile of both errors over sentences."""
    errors = [distance(r.token_scores, other.token_scores) for r, other in zip(results, reference, strict=True)]
    return spread("delta_percent", [r.delta_percent for r in results]) | spread("token_error", errors)


def spread(name: str, values: list[float]) -> dict[str, float]:
    """Median and 95th percentile under a name, to five digits."""
    median, high = statistics.median(values), float(np.percentile(values, 95))
    return {f"{name}_median": float(f"{median:.5g}"), f"{name}_p95": float(f"{high:.5g}")}


def print_tables(report: dict[str, Any]) -> None:
    """Print medians, rules down and numbers of gradients across."""
    for strategy, found in report["strategies"].items():
        for line, values in found["headline"].items():
            print(f"{strategy}: {line}: {values}")
        for quantity in ("delta_percent_median", "token_error_median") if found["table"] else ():
            print(f"\n{strategy}, {quantity}, {found['n_compared']} sentences")
            columns = list(next(iter(found["table"].values())))
            print(" " * 24 + "".join(f"{n:>9}" for n in columns))
            for name, row in found["table"].items():
                print(f"{name:24}" + "".join(f"{row[n][quantity]:9.3g}" for n in columns))
        print()


if __name__ == "__main__":
    main()
