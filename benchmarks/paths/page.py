"""What does the study of paths say? Writes the page from the committed results.

    python -m benchmarks.paths.page        # docs/benchmarks/paths.md and its figures, from benchmarks/results/paths
    python -m benchmarks.paths.page --tiny # writes nothing, for a check

Every sentence that says who leads is counted from the results, so that it cannot outlive them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks._pages import number, publish, table
from benchmarks.paper._settings import Setting
from benchmarks.paper.page import BETTER, DATASETS, SHORT
from benchmarks.paths.study import (
    BASELINES,
    BUDGETS,
    CHOSEN_AT,
    MORE_ORDERS,
    N_ANCHORS,
    N_ORDERS,
    RESULTS,
    SETTING,
    SETTINGS,
    WIDTH,
)
from captum_dig.text.settings import LARGE_DELTA_PERCENT
from captum_dig.visualization import line_plot

PAGE: Final = Path(__file__).parents[2] / "docs" / "benchmarks" / "paths.md"
TITLES: Final = {
    "integrated_gradients": "IG, straight line",
    "dig_greedy": "DIG greedy",
    "dig_maxcount": "DIG maxcount",
    "dig_uniform": "Uniform DIG",
    "dig_random_neighbor": "DIG, random neighbours",
    "dig_random_neighbor_x4": "DIG, random neighbours, mean of 4",
    "staggered": "staggered",
    f"staggered_{MORE_ORDERS}": f"staggered, {MORE_ORDERS} orders",
    "staggered_greedy": "staggered DIG greedy",
    "shapley_order": "one word at a time (width 0)",
    "integrated_gradients_two_baselines": "IG, pad and mask",
    "staggered_two_baselines": "staggered, pad and mask",
    "leave_one_out": "leave one out",
    "random": "random scores",
}
PAIRS: Final = ("integrated_gradients_two_baselines", "staggered_two_baselines")
PATHS: Final = (
    "dig_greedy",
    "dig_maxcount",
    "dig_uniform",
    "dig_random_neighbor_x4",
    "staggered",
    f"staggered_{MORE_ORDERS}",
    "staggered_greedy",
    "shapley_order",
)
DECIDING: Final = ("log_odds", "comprehensiveness")
Row = dict[str, Any]


@dataclass(frozen=True)
class Results:
    """What the files say, by name of file.

    Attributes:
        files: The contents of each.
    """

    files: dict[str, Any]

    @property
    def settings(self) -> list[Setting]:
        """The models of which there is a test at the budget of the choice."""
        return [setting for setting in SETTINGS if f"{setting.name}-{CHOSEN_AT}" in self.files]

    def n_texts(self, setting: Setting, budget: int) -> int:
        """Give the number of texts of a test, 0 where there is none."""
        count: int = self.files.get(f"{setting.name}-{budget}", {}).get("n_texts", 0)
        return count

    def find(self, setting: Setting, stage: object, method: str, baseline: str) -> Row | None:
        """Look up a row."""
        rows: list[Row] = self.files.get(f"{setting.name}-{stage}", {}).get("rows", [])
        return next((row for row in rows if (row["method"], row["baseline"]) == (method, baseline)), None)


def main() -> None:
    """Write the page, or only make it."""
    publish(__doc__, page, RESULTS, PAGE)


def page(files: dict[str, Any]) -> tuple[str, dict[str, str]]:
    """Make the page and its figures, by file name."""
    results = Results(files)
    figures: dict[str, str] = {}
    parts = [
        _introduction(results),
        _default(results),
        _verdict(results),
        _differences(results, "integrated_gradients"),
        _differences(results, "leave_one_out"),
        *_budgets(results, figures),
        *(_setting(results, setting) for setting in results.settings),
        _seeds(results),
        _steadiness(results),
        _choice(results),
        _limits(results),
    ]
    return "\n\n".join(part for part in parts if part) + "\n", figures


def name_of(setting: Setting) -> str:
    """Name a model and its data."""
    return f"{setting.architecture}, {DATASETS[setting.dataset]}"


def verdict(row: Row | None, metric: str, reference: str, level: float = 0.01) -> int:
    """Say whether a method is better than its reference (1), worse (-1), or neither is shown (0)."""
    test = (row or {}).get(metric, {}).get(f"against {reference}")
    if test is None or test["p_value"] >= level:
        return 0
    return 1 if test["mean"] * BETTER[metric] > 0 else -1


def _introduction(results: Results) -> str:
    counts = "; ".join(
        f"{name_of(s)}: {results.n_texts(s, CHOSEN_AT)}"
        + "".join(f", {n} at {b}" for b in BUDGETS if b != CHOSEN_AT and (n := results.n_texts(s, b)))
        for s in results.settings
    )
    return f"""# Which path explains best?

Integrated Gradients (IG) goes straight from the baseline to the text, all words at once. The paper's DIG goes from word to
word. A {{class}}`staggered path <captum_dig.StaggeredPath>` moves each word in a time of its own, in random orders, of which a few
share the gradients. At the same number of gradients, whose scores say best which words the model needs?

- *Models*: small ones, those of [the paper, redone](paper.md) and the one inside the package. Number of test texts at {CHOSEN_AT} gradients, and at
  other numbers: {counts}. The first texts of each split; of IMDB the shortest.
- *Protocol*: the default one. The top 20 % of tokens are taken away (comprehensiveness), replaced by the pad token (log-odds),
  or kept alone (sufficiency); special tokens stay. Every text is explained for the class that the model predicts.
- *Paths*: staggered paths of width {WIDTH:g} and {N_ORDERS} orders, whose words start independently of each other, as in version 0.1; {N_ANCHORS} anchors for paths through words, where `TextExplainer` has 30 by default. Both were [chosen on dev
  splits](#how-the-paths-were-chosen), the anchors for DIG greedy alone. 500 neighbours, words as candidates. All paths with
  `method="gausslegendre"`.
- *Tests*: paired over texts, sign-flip tests and 95 % bootstrap intervals of the difference.

This page is generated: `python -m benchmarks.paths.page`."""


_OF_IMDB: Final = (
    " Of IMDB the texts are drawn at random and cut to 512 tokens; methods that remove words take minutes there, and are "
    "left out."
)


def _default(results: Results) -> str:
    """What the default is worth, from its own test."""
    found = results.files.get("default")
    if not found:
        return ""
    names = {
        "default": "the default, known sums",
        "default_half": "the same with half the gradients",
        "former": "the former default, 4 orders and Gauss-Legendre",
        "idgi": "IDGI, as many gradients",
        "leave_one_out": "leave one out",
        "sampled_shapley": "sampled Shapley values, as many forward passes",
    }
    n_steps, total = found["settings"]["n_steps"], 4 * len(found["cells"])
    counts = []
    for name, title in names.items():
        tally = found["verdicts"][f"{name} against integrated_gradients"]
        counts.append([title, *(str(tally[key]) for key in ("better", "worse", "level"))])
    rows = []
    for setting, cell in found["cells"].items():
        for row in cell["rows"]:
            if row["method"] in names:
                cells = [_difference(row, metric, "integrated_gradients") for metric in DECIDING]
                rows.append(
                    [name_of(SETTING[setting]), str(cell["n_texts"]), row["baseline"], names[row["method"]], *cells]
                )
    half = found["verdicts"]["default_half against former"]
    heads = ["method", "better than IG", "worse", "neither shown"]
    return f"""## The default of `TextExplainer`

Test texts, {n_steps} gradients, log-odds and comprehensiveness, {len(found["cells"])} models and two baselines: {total} tests for each method, each
at p < 0.01. IG has Gauss-Legendre nodes, as in Captum.{_OF_IMDB * ("roberta-imdb" in found["cells"])} The settings
were chosen on development texts. When the default was changed from orders alone to this path, the test results of both were known. It was changed for [steadier
scores](../explanation/known-sums.md#a-share-of-the-line).

{table(heads, counts)}

With {n_steps // 2} gradients, the default was also tested against the former default with {n_steps}. It was better in {half["better"]} of {total} tests, worse in {half["worse"]}, and in {half["level"]}
neither is shown.

{table(["model, data", "texts", "baseline", "method", *(SHORT[metric] for metric in DECIDING)], rows)}

Differences from IG, with 95 % intervals; marks as below. `python -m benchmarks.faithfulness` measures them."""


def _verdict(results: Results) -> str:
    lines, winners = [], []
    for path in PATHS:
        tally, delta = _tally(results, path, results.settings)
        lines.append([TITLES[path], *(str(tally[found]) for found in (1, -1, 0)), number(delta, 1)])
        if tally[1] and not tally[-1]:
            winners.append(f"*{TITLES[path]}*")
    models = []
    for setting in results.settings:
        tally, delta = _tally(results, "staggered", [setting])
        counts = [str(tally[found]) for found in (1, -1, 0)]
        models.append([name_of(setting), str(results.n_texts(setting, CHOSEN_AT)), *counts, number(delta, 1)])
    said = f"Shown to be better somewhere, and nowhere to be worse: {', '.join(winners) or 'no path'}."
    count = len(results.settings) * len(BASELINES) * len(DECIDING)
    heads = ["better than IG", "worse", "neither shown", "delta %"]
    return f"""## Paths with Gauss-Legendre nodes

Log-odds and comprehensiveness at {CHOSEN_AT} gradients, all models and both baselines: {count} tests for each path, each at p < 0.01.
{said}

{table(["path", *heads], lines)}

*Staggered*, model by model:

{table(["model, data", "texts", *heads], models)}

The tests of a path are not independent: the two metrics go together, several models read the same texts, and from two baselines
a model is explained twice. Sufficiency stands in the tables below; there hardly a difference is shown. Where the delta (the mean over models and
baselines of medians) is large, {CHOSEN_AT} gradients are far from the integral, and the row says what the path is worth with these, not what it
is worth."""


def _tally(results: Results, path: str, settings: Sequence[Setting]) -> tuple[dict[int, int], float | None]:
    """Count the tests that a path has won (1), lost (-1) and left open (0), and average its delta."""
    found = [results.find(setting, CHOSEN_AT, path, baseline) for setting in settings for baseline in BASELINES]
    rows = [row for row in found if row is not None]
    verdicts = [verdict(row, metric, "integrated_gradients") for row in rows for metric in DECIDING]
    delta = sum(row["delta_percent"] for row in rows) / len(rows) if rows else None
    return {which: verdicts.count(which) for which in (1, -1, 0)}, delta


def _differences(results: Results, reference: str) -> str:
    rows = []
    for setting in results.settings:
        for baseline in BASELINES:
            for path in (*PATHS, *PAIRS, *(("integrated_gradients",) if reference != "integrated_gradients" else ())):
                row = results.find(setting, CHOSEN_AT, path, baseline)
                if row is not None:
                    cells = [_difference(row, metric, reference) for metric in BETTER]
                    rows.append([name_of(setting), "both" if path in PAIRS else baseline, TITLES[path], *cells])
    heads = ["model, data", "baseline", "path", *SHORT.values()]
    return f"""## Against {"IG" if reference == "integrated_gradients" else "leave-one-out"}

Path minus {TITLES[reference]}, {CHOSEN_AT} gradients, with 95 % intervals. **Bold** where p < 0.01; ✓ where the path is better, ✗
where it is worse. Means over both baselines, which share the gradients, are set against {TITLES[reference]} from pad.

{table(heads, rows)}"""


def _difference(row: Row, metric: str, reference: str) -> str:
    test = row[metric].get(f"against {reference}")
    if test is None:
        return "–"
    mark = {1: " ✓", -1: " ✗", 0: ""}[verdict(row, metric, reference)]
    written = f"{test['mean']:+.3f}"
    return f"{f'**{written}**' if mark else written}{mark} [{test['low']:+.2f}, {test['high']:+.2f}]"


def _budgets(results: Results, figures: dict[str, str]) -> Iterator[str]:
    budgets = [b for b in BUDGETS if any(results.n_texts(setting, b) for setting in results.settings)]
    if len(budgets) < 2:
        return
    yield (
        "## Number of gradients\n\nLog-odds minus those of leave-one-out, which takes no gradient, on the same texts; pad baseline. "
        "Lower is better. Numbers of gradients were tried on different numbers of texts, which the table below gives, so look at "
        "the distance between lines rather than at their slope."
    )
    shown = (
        "integrated_gradients",
        "dig_greedy",
        "dig_uniform",
        "staggered",
        f"staggered_{MORE_ORDERS}",
        "shapley_order",
    )
    for setting in results.settings:
        if sum(results.n_texts(setting, budget) > 0 for budget in budgets) < 2:
            continue
        lines = {}
        for path in shown:
            found = [(b, row) for b in budgets if (row := results.find(setting, b, path, "pad"))]
            if found:
                values = [row["log_odds"]["against leave_one_out"]["mean"] for _, row in found]
                lines[TITLES[path]] = ([b for b, _ in found], values)
        name, heading = (
            f"paths-{setting.name}-budgets.svg",
            f"log-odds against leave-one-out ↓: {name_of(setting)}, pad",
        )
        figures[name] = line_plot(lines, title=heading, x_label="gradients", y_label="difference")
        yield f"![{heading}]({name})"
    rows = []
    for setting in results.settings:
        for budget in budgets:
            for baseline in BASELINES:
                row = results.find(setting, budget, "staggered", baseline)
                if row is not None:
                    cells = [_difference(row, metric, "integrated_gradients") for metric in BETTER]
                    rows.append([name_of(setting), str(budget), str(row["log_odds"]["n"]), baseline, *cells])
    heads = ["model, data", "gradients", "texts", "baseline", *SHORT.values()]
    yield f"Staggered minus IG at each number:\n\n{table(heads, rows)}"


def _setting(results: Results, setting: Setting) -> str:
    rows = []
    for baseline in BASELINES:
        line = results.find(setting, CHOSEN_AT, "integrated_gradients", baseline)
        for method in TITLES:
            row = results.find(setting, CHOSEN_AT, method, baseline)
            if line is not None and row is not None:
                cells = [f"{row[m]['mean']:.3f} [{row[m]['low']:.2f}, {row[m]['high']:.2f}]" for m in BETTER]
                start = "both" if method in PAIRS else baseline
                time = number(row["seconds"] / line["seconds"], 2)
                cost = [number(row["delta_percent"], 1), str(row["n_gradients"]), time]
                rows.append([TITLES[method], start, *cells, *cost])
    heads = ["method", "baseline", *SHORT.values(), "delta %", "gradients", "time, IG = 1"]
    return f"""## {setting.architecture} on {DATASETS[setting.dataset]}

{results.n_texts(setting, CHOSEN_AT)} texts, with 95 % intervals. Delta % and time are medians over texts; a path through words takes longest
for words that it has not met.

{table(heads, rows)}"""


def _seeds(results: Results) -> str:
    rows = []
    for setting in SETTINGS:
        for row in results.files.get(f"{setting.name}-seeds", {"rows": []})["rows"]:
            if row["method"] != "integrated_gradients":
                cells = [_difference(row, metric, "integrated_gradients") for metric in BETTER]
                n, seed = row["log_odds"]["n"], row["method"].partition("#")[2]
                rows.append([name_of(setting), row["baseline"], seed, str(n), *cells])
    if not rows:
        return ""
    heads = ["model, data", "baseline", "seed", "texts", *SHORT.values()]
    return f"""## Other draws

Staggered minus IG for five seeds, on fewer texts. The test above has seed 0.

{table(heads, rows)}"""


def _steadiness(results: Results) -> str:
    rows = []
    for setting in SETTINGS:
        file = results.files.get(f"{setting.name}-steady", {"paths": {}})
        for path, measured in file["paths"].items():
            cells = [number(measured.get(key), 3) for key in ("tau", "sensitivity", "token_error")]
            rows.append([name_of(setting), str(file["n_texts"]), TITLES[path], *cells])
    if not rows:
        return ""
    heads = ["model, data", "texts", "path", "τ of two seeds", "sensitivity", "token error"]
    return f"""## How steady are the scores?

Pad baseline, {CHOSEN_AT} gradients, medians over texts. *τ of two seeds*: Kendall's rank correlation between the scores of two seeds; 1 where
nothing is drawn. *Sensitivity*: how far scores move, relative to their length, when every coordinate of the embeddings moves by up to 0.01, the
worst of five draws. *Token error*: how far scores are from the same path's with many gradients, 300, or for staggered paths 24 in each of 64
other orders.

{table(heads, rows)}"""


def choice(results: Results) -> list[tuple[str, float, float, float]]:
    """Order the paths of the grid: means over dev splits and baselines of the differences from IG, and of delta %."""
    found: dict[str, list[tuple[float, float, float]]] = {}
    for setting in SETTINGS:
        for row in results.files.get(f"{setting.name}-dev", {}).get("rows", []):
            tests = [row[metric].get("against integrated_gradients") for metric in DECIDING]
            if all(tests):
                found.setdefault(row["method"], []).append((tests[0]["mean"], tests[1]["mean"], row["delta_percent"]))
    means = (
        (name, *(sum(column) / len(column) for column in zip(*triples, strict=True))) for name, triples in found.items()
    )
    return sorted(((name, first, second, third) for name, first, second, third in means), key=lambda one: one[1])


def _choice(results: Results) -> str:
    ordered = choice(results)
    if not ordered:
        return ""
    rows = [[name, f"{first:+.3f}", f"{second:+.3f}", number(third, 1)] for name, first, second, third in ordered]
    staggered = [row for row in ordered if row[0].startswith("staggered ")]
    best = staggered[0][0]
    calm = next((row[0] for row in staggered if row[3] < LARGE_DELTA_PERCENT), best)
    if (calm, best) != tuple(f"staggered w={WIDTH} r={n_orders}" for n_orders in (N_ORDERS, MORE_ORDERS)):
        raise ValueError(f"the constants of the study must be what dev splits chose, got {calm} and {best}")
    dev = [s for s in SETTINGS if f"{s.name}-dev" in results.files]
    counts = ", ".join(f"{results.files[f'{s.name}-dev']['n_texts']} of {name_of(s)}" for s in dev)
    return f"""## How the paths were chosen

On dev splits alone, {CHOSEN_AT} gradients, both baselines: {counts}. IMDB has none, and the demo model took no part. Differences from IG, and the median delta in
percent, averaged over models and baselines. The best staggered path by log-odds is *{best}*; the best of those whose delta is
below the {LARGE_DELTA_PERCENT:g} % from which results warn is *{calm}*, which is called *staggered* on this page.

{table(["path", SHORT["log_odds"], SHORT["comprehensiveness"], "delta %"], rows)}"""


def _limits(results: Results) -> str:
    found = {
        ", ".join(f"{key} {value}" for key, value in file["environment"].items()) for file in results.files.values()
    }
    return f"""## What this does not show

- The models are small, and read reviews of films. [Compare on your model](../how-to/compare.md).
- Intervals are over texts, for one draw: a start depends on the seed and the place of a word, so all texts of the test share the draws of seed
  0.
- The number of gradients was fixed. `TextExplainer` takes 50, and doubles them, from anew, where a delta is above {LARGE_DELTA_PERCENT:g} %.
- Log-odds, comprehensiveness and sufficiency ask what the model does with words missing, which is not a text it was trained on.
- With {CHOSEN_AT} gradients for {N_ORDERS} orders, a staggered path has {CHOSEN_AT // N_ORDERS} for each, and its delta is larger than that of a
  single path: look at the delta % above.

Measured with {"; ".join(sorted(found))}."""


if __name__ == "__main__":
    main()
