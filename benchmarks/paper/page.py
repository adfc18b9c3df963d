"""What do the paper's experiments say when they are redone? Writes the page from the committed results.

    python -m benchmarks.paper.page        # docs/benchmarks/paper.md and its figures, from benchmarks/results/paper
    python -m benchmarks.paper.page --tiny # writes nothing, for a check

Every sentence that says who leads is counted from the results, so that it cannot outlive them.
"""

import json
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._pages import number, publish, table
from benchmarks.paper._published import CORRELATION, LENGTHS, NEIGHBORS, RANDOM, TABLES, UPSAMPLED
from benchmarks.paper._settings import PAPER, SMALL, Setting
from captum_dig.comparison import title
from captum_dig.visualization import line_plot

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results" / "paper"
PAGE = ROOT / "docs" / "benchmarks" / "paper.md"
DATASETS = {"sst2": "SST-2", "imdb": "IMDB", "rotten_tomatoes": "Rotten Tomatoes"}
BETTER = {"log_odds": -1, "comprehensiveness": 1, "sufficiency": -1}
SHORT = {"log_odds": "log-odds ↓", "comprehensiveness": "comp. ↑", "sufficiency": "suff. ↓"}
ABLATED = "distilbert-sst2"
Row = dict[str, Any]


def main() -> None:
    """Write the page, or only make it."""
    publish(__doc__, page, RESULTS, PAGE)


def page(results: dict[str, Any]) -> tuple[str, dict[str, str]]:
    """Make the page and its figures, by file name."""
    settings = [setting for setting in (*SMALL, *PAPER) if setting.name in results]
    figures: dict[str, str] = {}
    parts = [
        _introduction(settings, results),
        _verdict(settings, results),
        *(_setting(setting, results[setting.name]) for setting in settings),
        _correlation(settings, results),
        *_ablations(results),
        *_top_fractions(settings, results, figures),
        _differences(results),
    ]
    return "\n\n".join(part for part in parts if part) + "\n", figures


def find(result: dict[str, Any], method: str, baseline: str, fraction: float = 0.2) -> Row | None:
    """Look up a row of a result."""
    wanted = (method, baseline, fraction)
    rows: list[Row] = result["rows"]
    return next((row for row in rows if (row["method"], row["baseline"], row["top_fraction"]) == wanted), None)


def _introduction(settings: Sequence[Setting], results: dict[str, Any]) -> str:
    counts = "; ".join(
        f"{setting.architecture} on {DATASETS[setting.dataset]}, {results[setting.name]['n_texts']} texts"
        for setting in settings
    )
    return f"""# The paper, redone

Sanyal and Ren (2021) compare Discretized Integrated Gradients (DIG) with Integrated Gradients (IG) on three architectures and
three data sets, from a pad baseline, with left Riemann sums. This page does it again, and adds what is published nowhere:
each path with a better rule at the same number of gradients, and from a mask baseline.

Run here: {counts}. The models are small ones (384 wide, 3 or 6 layers), not the paper's: its absolute numbers
cannot come out. Test texts are the first of each split; of IMDB the shortest, because long ones cost most. K = 500 neighbours,
m = 30 anchors, all rows of the vocabulary as candidates, as in the paper; 31 gradients for every path and rule, and for
GradientShap. The paper's own checkpoints are run by `python -m benchmarks.paper.tables --paper-models`, with a network.

- *The paper's rule*: left Riemann sums, every piece of the path an equal part. *Ours*: pieces by their length, and the middles
  of cells (`method="gausslegendre"`, which at 31 gradients on 31 pieces is that).
- *Default protocol*: special tokens are never removed, and at least one token is. *Paper's protocol*: as its code did it.
- Intervals are 95 % bootstrap intervals over texts; p-values are of paired sign-flip tests against IG with the same rule and
  baseline.

This page is generated: `python -m benchmarks.paper.page`."""


def _verdict(settings: Sequence[Setting], results: dict[str, Any]) -> str:
    counts: dict[tuple[str, str], list[int]] = {}
    lines = []
    for setting in settings:
        for baseline in ("pad", "mask"):
            for rule in ("@paper", ""):
                cells = []
                for method in ("dig_greedy", "dig_maxcount"):
                    row = find(results[setting.name], method + rule, baseline)
                    for metric, sign in BETTER.items():
                        verdict, cell = _judge(row, metric, sign)
                        counts.setdefault((baseline, rule), [0, 0, 0])[verdict] += 1
                        cells.append(cell)
                name = f"{setting.architecture}, {DATASETS[setting.dataset]}"
                lines.append([name, baseline, "paper's" if rule else "ours", *cells])
    heads = ["model, data", "baseline", "rule"]
    heads += [f"{name} {SHORT[metric]}" for name in ("greedy", "maxcount") for metric in BETTER]
    tallies = "\n".join(
        f"- {baseline}, {'the paper’s rule' if rule else 'our rule'}: DIG better than IG in {wins}, worse in {losses}, "
        f"no difference shown in {ties} of {wins + losses + ties} tests."
        for (baseline, rule), (wins, losses, ties) in counts.items()
    )
    total = sum(sum(tally) for tally in counts.values())
    return f"""## Where DIG wins and where it loses

Differences, DIG minus IG, default protocol, top 20 % of tokens. **Bold** where p < 0.05; ✓ where DIG is better, ✗ where it is
worse. {total} tests stand here, so about {round(total / 20)} would be bold by chance if nothing differed.

{tallies}

{table(heads, lines)}"""


def _judge(row: Row | None, metric: str, sign: int) -> tuple[int, str]:
    """Won (0), lost (1) or open (2), and how to write it."""
    difference = None if row is None else row["difference"].get(metric)
    p_value = None if row is None else row["p_value"].get(metric)
    if difference is None or p_value is None:
        return 2, "–"
    written = f"{difference:+.3f}"
    if p_value >= 0.05:
        return 2, written
    won = difference * sign > 0
    return (0 if won else 1), f"**{written}** {'✓' if won else '✗'}"


def _setting(setting: Setting, result: dict[str, Any]) -> str:
    published = TABLES.get((setting.dataset, setting.architecture), {})
    parts = [f"## {setting.architecture} on {DATASETS[setting.dataset]}"]
    rows = []
    for method in (
        "input_x_gradient",
        "deeplift",
        "gradient_shap",
        "integrated_gradients",
        "dig_greedy",
        "dig_maxcount",
    ):
        paper = published.get(method, (None,) * 4)
        row = find(result, f"{method}@paper", "pad") or find(result, method, "pad")
        if row is None:
            continue
        mean = row["mean"]
        names = ("paper_log_odds", "paper_comprehensiveness", "paper_sufficiency", "word_approximation_error")
        cells = [f"{number(mean.get(name))} ({number(theirs)})" for name, theirs in zip(names, paper, strict=True)]
        rows.append([title(method), *cells])
    parts.append(
        "As in the paper: pad baseline, its rule, its protocol. In brackets the paper's numbers, for a larger model.\n\n"
        + table(["method", "log-odds ↓", "comp. ↑", "suff. ↓", "WAE ↓"], rows)
    )
    rows = []
    for baseline in ("pad", "mask"):
        for method in dict.fromkeys(row["method"] for row in result["rows"]):
            row = find(result, method, baseline)
            if row is None:
                continue
            rule = "paper's" if "@paper" in method else "ours" if f"{method}@paper" in _methods(result) else ""
            rows.append(
                [
                    title(method.removesuffix("@paper")),
                    baseline,
                    rule,
                    *(_interval(row, metric) for metric in BETTER),
                    number(row["delta_percent"], 1),
                    number(row["pooled_delta_percent"], 1),
                ]
            )
    heads = ["method", "baseline", "rule", *(SHORT[metric] for metric in BETTER), "delta %, median", "pooled"]
    parts.append("Default protocol, with intervals.\n\n" + table(heads, rows))
    shares = [(strategy, find(result, f"dig_{strategy}", "pad")) for strategy in ("greedy", "maxcount")]
    parts += [
        f"Of the anchors of {strategy} from pad, {100 * row['mean']['unused_anchors']:.0f} % are unused rows, "
        f"{100 * row['mean']['special_anchors']:.0f} % special tokens, {100 * row['mean']['piece_anchors']:.0f} % pieces "
        "of words or symbols."
        for strategy, row in shares
        if row is not None and row["mean"].get("unused_anchors") is not None
    ]
    return "\n\n".join(parts)


def _methods(result: dict[str, Any]) -> set[str]:
    return {row["method"] for row in result["rows"]}


def _interval(row: Row, metric: str) -> str:
    mean, low, high = (row[end].get(metric) for end in ("mean", "low", "high"))
    if mean is None:
        return "–"
    p_value = row["p_value"].get(metric)
    star = "\\*" if p_value is not None and p_value < 0.05 else ""
    return f"{mean:.3f}{star} [{number(low, 2)}, {number(high, 2)}]"


def _correlation(settings: Sequence[Setting], results: dict[str, Any]) -> str:
    rows = []
    for setting in settings:
        cells = []
        for baseline in ("pad", "mask"):
            found = [
                find(results[setting.name], f"{method}@paper", baseline)
                for method in ("integrated_gradients", "dig_greedy", "dig_maxcount")
            ]
            pairs = [(row["mean"]["paper_log_odds"], row["mean"]["word_approximation_error"]) for row in found if row]
            cells.append(number(float(np.corrcoef(np.array(pairs).T)[0, 1]), 2) if len(pairs) == 3 else "–")
        theirs = CORRELATION.get((setting.dataset, setting.architecture))
        rows.append([f"{setting.architecture}, {DATASETS[setting.dataset]}", *cells, number(theirs, 2)])
    return (
        "## Log-odds and word approximation error\n\nPearson correlation over three methods (IG and the two DIGs), the "
        "paper's rule and protocol. Three points decide each number, so it says little.\n\n"
        + table(["model, data", "pad", "mask", "the paper (pad)"], rows)
    )


def _ablations(results: dict[str, Any]) -> Iterable[str]:
    yield _seeds(results.get(f"{ABLATED}-seeds"), results.get(ABLATED))
    yield _upsampled(results.get(f"{ABLATED}-upsampled"))
    yield _lengths({m: results[f"{ABLATED}-m{m}"] for m in LENGTHS if f"{ABLATED}-m{m}" in results})
    yield _neighbors({k: results[f"{ABLATED}-k{k}"] for k in NEIGHBORS if f"{ABLATED}-k{k}" in results})


def _seeds(seeds: dict[str, Any] | None, main_result: dict[str, Any] | None) -> str:
    if seeds is None or main_result is None:
        return ""
    rows = []
    for strategy, (mean, deviation) in RANDOM.items():
        found = [find(seeds, f"dig_{strategy}#{seed}", "pad") for seed in range(5)]
        cells = []
        for metric in ("log_odds", "comprehensiveness", "sufficiency", "word_approximation_error"):
            values = [row["mean"][metric] for row in found if row]
            cells.append(f"{statistics.fmean(values):.3f} ± {statistics.stdev(values):.3f}")
        rows.append([f"DIG {strategy.replace('_', ' ')}", *cells, f"{mean:.3f} ± {deviation:.3f}"])
    reference = find(seeds, "integrated_gradients", "pad")
    if reference:
        metrics = ("log_odds", "comprehensiveness", "sufficiency", "word_approximation_error")
        rows.append(["IG", *(number(reference["mean"][metric]) for metric in metrics), "-0.950"])
    return (
        f"## Random anchors and neighbours\n\nDistilBERT on SST-2, pad, our rule, {seeds['n_texts']} texts, mean ± standard "
        "deviation over five seeds. The last column is the paper's log-odds, with its rule and protocol.\n\n"
        + table(["method", "log-odds ↓", "comp. ↑", "suff. ↓", "WAE ↓", "the paper"], rows)
    )


def _upsampled(result: dict[str, Any] | None) -> str:
    if result is None:
        return ""
    rows = []
    for f, theirs in UPSAMPLED.items():
        paper, ours = (find(result, name, "pad") for name in (f"f={f}@paper", f"f={f}@ours"))
        if paper and ours:
            rows.append(
                [
                    str(f),
                    str(31 * 2**f),
                    *(f"{number(row['mean']['paper_log_odds'])}" for row in (paper, ours)),
                    *(f"{number(row['delta_percent'], 2)}" for row in (paper, ours)),
                    f"{theirs[0]:.3f}, {theirs[2]:.3f}",
                ]
            )
    heads = [
        "f",
        "gradients",
        "log-odds, its rule",
        "ours",
        "delta %, its rule",
        "ours",
        "the paper: log-odds, delta %",
    ]
    return (
        f"## Up-sampling factor f\n\nDIG-maxcount, DistilBERT on SST-2, pad, paper's protocol, {result['n_texts']} texts. "
        "Delta % is the median here; the paper does not define its own.\n\n" + table(heads, rows)
    )


def _lengths(found: dict[int, dict[str, Any]]) -> str:
    rows = []
    for m, result in found.items():
        cells = []
        for method in ("integrated_gradients", "dig_maxcount"):
            for rule in ("@paper", ""):
                row = find(result, method + rule, "pad")
                cells.append(
                    "–"
                    if row is None
                    else f"{number(row['mean']['paper_log_odds'])}, {number(row['delta_percent'], 2)}"
                )
        theirs = LENGTHS[m]
        rows.append([str(m), *cells, f"{theirs[1]:.2f}", f"{theirs[3]:.2f}"])
    if not rows:
        return ""
    heads = ["m", "IG, its rule", "IG, ours", "DIG, its rule", "DIG, ours", "the paper's delta % of IG", "of DIG"]
    n_texts = next(iter(found.values()))["n_texts"]
    return (
        f"## Number of anchors m\n\nLog-odds and median delta % with m + 1 gradients; DIG-maxcount, DistilBERT on SST-2, pad, "
        f"paper's protocol, {n_texts} texts. In the paper the delta of DIG grows with m: "
        "more anchors do not shorten the longest piece of the path, which its rule counts as one.\n\n"
        + table(heads, rows)
    )


def _neighbors(found: dict[int, dict[str, Any]]) -> str:
    rows = []
    for k, result in found.items():
        paper, ours = (find(result, name, "pad") for name in ("dig_maxcount@paper", "dig_maxcount"))
        if paper and ours:
            rows.append(
                [
                    str(k),
                    *(number(row["mean"]["paper_log_odds"]) for row in (paper, ours)),
                    number(ours["mean"]["word_approximation_error"]),
                    *(number(row["delta_percent"], 2) for row in (paper, ours)),
                    ", ".join(f"{value:.3f}" for value in NEIGHBORS[k]),
                ]
            )
    if not rows:
        return ""
    heads = ["K", "log-odds, its rule", "ours", "WAE", "delta %, its rule", "ours", "the paper: log-odds, WAE, delta %"]
    n_texts = next(iter(found.values()))["n_texts"]
    return (
        f"## Neighbourhood size K\n\nDIG-maxcount, DistilBERT on SST-2, pad, paper's protocol, {n_texts} texts.\n\n"
        + table(heads, rows)
    )


def _top_fractions(settings: Sequence[Setting], results: dict[str, Any], figures: dict[str, str]) -> Iterable[str]:
    shown = [s for s in settings if len(results[s.name]["settings"]["top_fractions"]) > 1]
    if not shown:
        return
    yield "## Share of tokens taken away\n\nPad baseline, our rule, default protocol."
    for setting in shown:
        result = results[setting.name]
        fractions = result["settings"]["top_fractions"]
        for metric in ("log_odds", "comprehensiveness", "sufficiency"):
            lines = {}
            for method in ("integrated_gradients", "dig_greedy", "dig_maxcount", "gradient_shap", "random"):
                rows = [find(result, method, "pad", fraction) for fraction in fractions]
                lines[title(method)] = ([100 * f for f in fractions], [row["mean"][metric] for row in rows if row])
            name = f"{setting.name}-{metric.replace('_', '-')}.svg"
            heading = f"{SHORT[metric]}: {setting.architecture}, {DATASETS[setting.dataset]}"
            figures[name] = line_plot(lines, title=heading, x_label="top %", y_label=SHORT[metric])
            yield f"![{heading}]({name})"


def _differences(results: dict[str, Any]) -> str:
    environments = {json.dumps(result["environment"], sort_keys=True) for result in results.values()}
    environment = json.loads(next(iter(environments))) if environments else {}
    return f"""## What differs from the paper

- *Models.* Small ones with the same architectures; the RoBERTa here has a WordPiece vocabulary.
- *Texts.* Fewer, and of IMDB the shortest.
- *Class.* The class predicted at the text is explained along the whole path. The paper's code explains whichever class has the
  largest logit at each point.
- *Embeddings.* Word embeddings go into the model once. The paper's code added position embeddings twice for BERT and RoBERTa.
- *Rule.* The paper's rule is left Riemann over the knots, with one wasted gradient at the text itself, which is left out here.
- *Delta %.* The paper does not define it. Here it is |sum of scores − change of the logit| in percent of that change, the median
  over texts and pooled over all.
- *WAE.* Over the inner points of the path, without its ends.

Measured with {", ".join(f"{name} {environment[name]}" for name in ("torch", "transformers", "captum") if name in environment)}."""


if __name__ == "__main__":
    main()
