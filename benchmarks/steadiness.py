"""How much do scores depend on the draw of the orders, at the same number of gradients?

Sentences are explained with several seeds, along staggered paths of several designs: the number of orders, the
quadrature rule, and the time that a word moves. The same gradients are shared among the orders. For each design:

- error: the relative L2 distance of word scores from those of 256 orders, the limit (median, and 90th percentile);
- same top word: the share of sentences in which the word with the highest score is the same for all seeds;
- covered: the share of words whose limit is within two standard errors of the score (for 6 pairs of orders and more);
- tau: Kendall's rank correlation of the word scores of two seeds (mean over sentences and pairs of seeds).

    python -m benchmarks.steadiness --model FOLDER --data FOLDER/sst2/dev.tsv --out benchmarks/results/steadiness.json
    python -m benchmarks.steadiness --tiny
"""

import itertools
import statistics

import numpy as np

from benchmarks._measuring import rounded, write
from benchmarks._sentences import distance, explain, load, opening, sentence_parser
from captum_dig import StaggeredPath, StraightLine, TextAttribution, TextExplainer

# Orders, rule, width of the windows. The first was the default before outputs were used.
Design = tuple[int, str, float]
DESIGNS: tuple[Design, ...] = (
    (4, "gausslegendre", 0.5),
    (12, "known_sums", 0.5),
    (4, "known_sums", 0.5),
    (8, "known_sums", 0.5),
    (16, "known_sums", 0.5),
    (24, "known_sums", 0.5),
    (12, "known_sums", 0.7),
)
LIMIT_ORDERS = 256
LIMIT_SEED = 1000


def main() -> None:
    """Measure, print, and write JSON."""
    parser = sentence_parser(__doc__, tiny="few orders")
    parser.add_argument("--baselines", nargs="+", default=["pad", "mask"])
    parser.add_argument("--n-steps", type=int, default=48, help="gradients of each explanation")
    parser.add_argument("--limit-nodes", type=int, default=4, help="gradients for each of the 256 orders of the limit")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--designs", type=int, nargs="+", help="numbers of the designs; all without it")
    arguments, explainer, texts = load(parser)
    designs = [DESIGNS[number] for number in arguments.designs] if arguments.designs else list(DESIGNS)
    if arguments.tiny:
        designs = designs[:2]
    limit_orders = 16 if arguments.tiny else LIMIT_ORDERS
    report = opening(
        __doc__,
        arguments,
        texts,
        n_steps=arguments.n_steps,
        limit=f"{limit_orders} orders of {arguments.limit_nodes} gradients, seed {LIMIT_SEED}",
        seeds=arguments.seeds,
    )
    report["baselines"] = {}
    for baseline in arguments.baselines[: 1 if arguments.tiny else None]:
        steps = limit_orders * arguments.limit_nodes
        limit = scores(explainer, texts, baseline, (limit_orders, "known_sums", 0.5), LIMIT_SEED, steps)
        limits = {0.5: limit}
        found = report["baselines"][baseline] = {}
        for design in designs:
            if design[2] not in limits:
                wide = (limit_orders, "known_sums", design[2])
                limits[design[2]] = scores(explainer, texts, baseline, wide, LIMIT_SEED, steps)
            drawn = [
                scores(explainer, texts, baseline, design, seed, arguments.n_steps) for seed in range(arguments.seeds)
            ]
            name = f"{design[0]} orders, {design[1]}, width {design[2]:g}"
            found[name] = compared(drawn, limits[design[2]])
            print(f"{baseline:6}{name:40}", found[name], flush=True)
    write(report, arguments.out)


def scores(
    explainer: TextExplainer, texts: list[str], baseline: str, design: Design, seed: int, n_steps: int
) -> list[TextAttribution]:
    """Explanations of the texts along staggered straight lines."""
    n_orders, rule, width = design
    path = StaggeredPath(StraightLine(), width=width, n_orders=n_orders, seed=seed)
    return explain(explainer, texts, baseline=baseline, strategy=path, n_steps=n_steps, method=rule)


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
