"""How much do scores depend on the draw of the orders, at the same number of gradients?

Sentences are explained with several seeds, along staggered paths of several designs: the number of orders, the
quadrature rule, the time that a word moves, and the share of the straight line in the mean. The same gradients are
shared among the paths. For each design:

- error: the relative L2 distance of word scores from those of 256 orders, the limit (median, and 90th percentile);
- same top word: the share of sentences in which the word with the highest score is the same for all seeds;
- covered: the share of words whose limit is within two errors of the score (for 6 pairs of orders and more);
- tau: Kendall's rank correlation of the word scores of two seeds (mean over sentences and pairs of seeds).

The last row is the default of `TextExplainer`, which takes gradients until the error and the spread are small.

    python -m benchmarks.steadiness --models FOLDER --data-dir FOLDER --settings demo bert-sst2 --out FILE
    python -m benchmarks.steadiness --tiny

A setting that the file holds already stays there.
"""

import itertools
import statistics
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from benchmarks._former import IndependentStarts
from benchmarks._measuring import rounded, write
from benchmarks._sentences import distance, explain, given, load_setting, reopened, setting_parser
from captum_dig import StaggeredPath, StraightLine, TextAttribution, TextExplainer

N_STEPS, N_SEEDS = 48, 3


@dataclass(frozen=True)
class Design:
    """One setting of the comparison.

    Attributes:
        n_orders: The number of orders.
        rule: The quadrature rule.
        width: How long a word moves.
        inner_share: The share of the straight line.
        n_steps: The number of gradients.
        decorrelated: Whether the starts of different words are hardly correlated, instead of independent.
    """

    n_orders: int
    rule: str = "known_sums"
    width: float = 0.5
    inner_share: float = 0.0
    n_steps: int = N_STEPS
    decorrelated: bool = True

    def __str__(self) -> str:
        name = f"{self.n_orders} orders, {self.rule}, width {self.width:g}"
        name += f", line {self.inner_share:g}" if self.inner_share else ""
        name += "" if self.decorrelated else ", independent starts"
        return name if self.n_steps == N_STEPS else f"{name}, {self.n_steps} gradients"


# The first is the default of version 0.1, the second that of now. The third puts the last nodes where the error is. The
# fourth has nearly exact integrals along the same orders, so its error comes from the draw. The fifth has no share of
# the straight line, and the starts of the sixth are independent, too.
DEFAULT = Design(12, width=0.3, inner_share=0.5)
DESIGNS = (
    Design(4, "gausslegendre", decorrelated=False),
    DEFAULT,
    replace(DEFAULT, rule="adaptive"),
    replace(DEFAULT, n_steps=7 * N_STEPS),
    Design(14),
    Design(14, decorrelated=False),
    Design(4),
    Design(8),
    Design(12),
    Design(16),
    Design(22),
    Design(14, width=0.7),
)
# As many orders and gradients as a text needs.
AUTO = "n_steps='auto'"
BASELINES = ("pad", "mask")
LIMIT_ORDERS, LIMIT_NODES, LIMIT_SEED = 256, 8, 1000


def main() -> None:
    """Measure, print, and write JSON."""
    parser = setting_parser(__doc__, tiny="few orders")
    parser.add_argument("--n", type=int, default=40, help="sentences, evenly spread over the split")
    parser.add_argument("--split", default="test", choices=["dev", "test"])
    parser.add_argument("--designs", type=int, nargs="+", default=[0, 1, 2, 3, 4, 5], help="numbers of the designs")
    arguments = given(parser)
    n_orders = 16 if arguments.tiny else LIMIT_ORDERS
    report = reopened(
        __doc__,
        arguments.out,
        n_steps=N_STEPS,
        limit=f"{n_orders} orders of {LIMIT_NODES} gradients, seed {LIMIT_SEED}",
        seeds=N_SEEDS,
    )
    for setting in arguments.settings:
        explainer, texts = load_setting(setting, arguments, arguments.split)
        found: dict[str, Any] = {"n_sentences": len(texts), "split": arguments.split, "baselines": {}}
        for baseline in BASELINES[: 1 if arguments.tiny else None]:
            rows = found["baselines"][baseline] = {}
            for name, row in designs(explainer, texts, baseline, [DESIGNS[n] for n in arguments.designs], n_orders):
                rows[name] = row
                print(f"{setting:22}{baseline:6}{name:36}", row, flush=True)
        report["models"][setting] = found
        write(report, arguments.out)


def designs(
    explainer: TextExplainer, texts: list[str], baseline: str, wanted: list[Design], n_orders: int
) -> Iterator[tuple[str, dict[str, float]]]:
    """Measure each design, and the default."""
    kinds = [(design.width, design.inner_share) for design in [DEFAULT, *wanted]]
    limits = {
        kind: scores(
            explainer, texts, baseline, Design(n_orders, "known_sums", *kind, n_orders * LIMIT_NODES), LIMIT_SEED
        )
        for kind in dict.fromkeys(kinds)
    }
    for design, kind in zip(wanted, kinds[1:], strict=True):
        drawn = [scores(explainer, texts, baseline, design, seed) for seed in range(N_SEEDS)]
        yield str(design), compared(drawn, limits[kind]) | {"gradients": design.n_steps}
    drawn = [by_need(explainer, texts, baseline, seed) for seed in range(N_SEEDS)]
    n_gradients = statistics.mean(one.settings.n_steps for results in drawn for one in results)
    yield AUTO, compared(drawn, limits[kinds[0]]) | {"gradients": rounded(n_gradients)}


def scores(
    explainer: TextExplainer, texts: list[str], baseline: str, design: Design, seed: int
) -> list[TextAttribution]:
    """Explanations of the texts along staggered straight lines."""
    kind = StaggeredPath if design.decorrelated else IndependentStarts
    path = kind(StraightLine(), design.width, design.n_orders, seed, inner_share=design.inner_share)
    return explain(explainer, texts, baseline=baseline, strategy=path, n_steps=design.n_steps, method=design.rule)


def by_need(explainer: TextExplainer, texts: list[str], baseline: str, seed: int) -> list[TextAttribution]:
    """Explanations of the texts by the default, with another seed."""
    return explain(explainer, texts, baseline=baseline, strategy=explainer.path("staggered", seed=seed))


def compared(drawn: list[list[TextAttribution]], limit: list[TextAttribution]) -> dict[str, float]:
    """Errors against the limit, and the agreement of the seeds."""
    errors = [
        distance(one.word_scores, exact.word_scores)
        for results in drawn
        for one, exact in zip(results, limit, strict=True)
    ]
    per_text = list(zip(*drawn, strict=True))
    same = [len({int(np.argmax(one.word_scores)) for one in results}) == 1 for results in per_text]
    taus = [
        tau(one, other)
        for results in per_text
        for one, other in itertools.combinations(results, 2)
        if len(one.words) > 1
    ]
    covered = [
        abs(score - exact_score) <= 2 * error
        for results in drawn
        for one, exact in zip(results, limit, strict=True)
        for score, exact_score, error in zip(one.word_scores, exact.word_scores, one.word_errors or (), strict=False)
    ]
    return {
        "error_median": rounded(statistics.median(errors)),
        "error_p90": rounded(float(np.percentile(errors, 90))),
        "same_top_word": rounded(statistics.mean(same)),
        "tau": rounded(statistics.mean(taus)) if taus else 1.0,
    } | ({"covered": rounded(statistics.mean(covered))} if covered else {})


def tau(one: TextAttribution, other: TextAttribution) -> float:
    """Kendall's rank correlation of word scores, which are all different."""
    pairs = [np.subtract.outer(scores, scores) for scores in (one.word_scores, other.word_scores)]
    n_words = len(one.words)
    return float((np.sign(pairs[0]) * np.sign(pairs[1])).sum() / (n_words * (n_words - 1)))


if __name__ == "__main__":
    main()
