"""Report: a comparison as a table on the terminal, and as a page with plots and texts.

Takes a `Comparison`; gives Rich's tables, or HTML. The command line shows them.
"""

import itertools
import math
from collections.abc import Iterable, Sequence

import numpy as np
from rich.table import Table
from rich.text import Text

from captum_dig.catalogue import CATALOGUE
from captum_dig.comparison.records import REFERENCE, ComparedText, MeasuredTexts, Summary
from captum_dig.comparison.settings import MeasureInfo, arrow
from captum_dig.comparison.verdicts import SIGNIFICANT, verdicts
from captum_dig.metrics import Interval
from captum_dig.quadrature import RULES
from captum_dig.visualization import Picture, bar_plot, cut_text, html_document, html_words, line_plot, visible
from captum_dig.visualization.base import escaped, name_line
from captum_dig.visualization.sources import read_source, style_sheet

_LEGEND = (
    "Means over {n} texts ± half the width of their 95 % intervals. {tests}{measures}n: gradients for a text. "
    "s: seconds for a text, median."
)
_STYLE = style_sheet(read_source("captum_dig.comparison", "report.css"))


def title(method: str) -> str:
    """Write a method's name for people."""
    return CATALOGUE.title(method)


def terminal_tables(comparison: MeasuredTexts) -> list[Table | Text]:
    """Lay out verdicts, averages as a table for each baseline, and a legend.

    Args:
        comparison: The comparison.

    Returns:
        The verdicts, the tables and the legend, for Rich to print.
    """
    tables: list[Table | Text] = [Text(name_line(verdict), style="bold") for verdict in verdicts(comparison)]
    summaries = comparison.summary()
    groups = [(baseline, list(rows)) for baseline, rows in itertools.groupby(summaries, key=lambda row: row.baseline)]
    for protocol, (baseline, rows) in itertools.product(comparison.settings.protocols, groups):
        shown = [
            info
            for info in comparison.measures.values()
            if info.column and (not info.by_fraction or info.name.startswith("paper_") == (protocol == "paper"))
        ]
        # Rich would read a string as markup.
        heading = f"baseline {name_line(baseline)}{', protocol of the paper' if protocol == 'paper' else ''}"
        table = Table(title=Text(heading), title_justify="left", box=None, padding=(0, 1, 0, 0), pad_edge=False)
        table.add_column("method", no_wrap=True)
        for name in (*(info.column + arrow(info.better).strip() for info in shown), "n", "s"):
            table.add_column(Text(name_line(name)), justify="right", no_wrap=True)
        for row in rows:
            numbers = (_short(row, info) for info in shown)
            spent = (f"{row.n_gradients:.0f}", f"{row.seconds:.2f}")
            table.add_row(Text(name_line(title(row.method))), *numbers, *spent)
        tables.append(table)
    tests = _tests(comparison, summaries, f"* differs from {title(REFERENCE)} (paired, p < {SIGNIFICANT:g}). ")
    about = "".join(f"{info.about} " for info in comparison.measures.values() if info.column and info.about)
    return [*tables, Text(_LEGEND.format(n=len(comparison.texts), tests=tests, measures=visible(about)))]


def report_page(comparison: MeasuredTexts, *, n_disagreements: int = 5) -> str:
    """Draw a comparison as one HTML file that needs nothing else.

    Args:
        comparison: The comparison.
        n_disagreements: The number of texts to show, from the one where methods disagree most.

    Returns:
        The page, with tables, plots, texts and settings; it holds no script.
    """
    summaries = comparison.summary()
    sections = [
        f"<p>{len(comparison.texts)} texts, model <bdi>{escaped(comparison.settings.model)}</bdi>, "
        f"{comparison.settings.n_steps} gradients for each method that takes more than one.</p>",
        *(f'<p class="cdig-verdict"><strong>{escaped(verdict)}</strong></p>' for verdict in verdicts(comparison)),
        *_html_tables(comparison, summaries),
        *_disagreements(comparison, n_disagreements),
        f'<h2>Plots</h2><div class="cdig-plots">{"".join(_plots(comparison, summaries))}</div>',
        _settings(comparison),
    ]
    return html_document(sections, title="Attribution methods compared", style=_STYLE)


def _tests(comparison: MeasuredTexts, summaries: Sequence[Summary], explained: str) -> str:
    """Explain the tests, or why there are none."""
    if any(row.tests for row in summaries):
        return explained
    if comparison.settings.find_method(REFERENCE) is not None:
        return ""
    return f"No method is tested against another, because {REFERENCE} is not among them. "


def _short(row: Summary, info: MeasureInfo) -> str:
    """Write an average for the terminal; with its spread where there is one for each top fraction."""
    if info.average == "median":
        return _number(row.medians[info.name], info.digits)
    interval = row.intervals[info.name]
    if not info.by_fraction:
        return _number(interval.mean, info.digits)
    half = (interval.high - interval.low) / 2
    test = row.tests.get(info.name)
    star = "*" if test is not None and test.p_value < SIGNIFICANT else ""
    spread = "" if math.isnan(half) else f"±{half:.{info.digits}f}"
    return f"{_number(interval.mean, info.digits)}{spread}{star}"


def _number(value: float, digits: int) -> str:
    return "" if math.isnan(value) else f"{value:.{digits}f}"


def _html_tables(comparison: MeasuredTexts, summaries: Sequence[Summary]) -> Iterable[str]:
    better = [info for info in comparison.measures.values() if info.better]
    shown = [info for info in better if info.average == "mean"]
    medians = [info for info in better if info.average == "median"]
    for baseline, group in itertools.groupby(summaries, key=lambda row: row.baseline):
        heads = [escaped(info.heading) for info in shown]
        heads += [f"{escaped(info.title)}, median{arrow(info.better)}" for info in medians]
        heads += ["pooled delta % ↓", "gradients", "s / text"]
        lines = ["<tr><th>method</th>" + "".join(f'<th scope="col">{head}</th>' for head in heads) + "</tr>"]
        for row in group:
            cells = [_cell(row, info.name) for info in shown]
            cells += [_number(row.medians[info.name], max(2, info.digits)) for info in medians]
            cells += [_number(row.pooled_delta_percent, 2), f"{row.n_gradients:.0f}", f"{row.seconds:.3f}"]
            name = f'<td scope="row"><bdi>{escaped(title(row.method))}</bdi></td>'
            lines.append(f"<tr>{name}{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>")
        yield (
            f'<h2>Baseline <bdi>{escaped(baseline)}</bdi></h2><div class="cdig-scroll" tabindex="0" role="region" '
            f'aria-label="Results"><table class="cdig-results">{"".join(lines)}</table></div>'
        )
    tests = _tests(
        comparison,
        summaries,
        "p: paired sign-flip test against Integrated Gradients from the same baseline. This table has many tests: of "
        "twenty without any difference, one has p &lt; 0.05. ",
    )
    yield (
        f"<p>Means with 95 % bootstrap intervals over texts. Medians have none. {tests}Top share of tokens: 20 % "
        "(or the nearest there is).</p>"
    )


def _cell(row: Summary, metric: str) -> str:
    interval, test = row.intervals[metric], row.tests.get(metric)
    if math.isnan(interval.mean):
        return ""
    text = f"{interval.mean:.3f}<br><small>{_number(interval.low, 3)} … {_number(interval.high, 3)}"
    if test is not None and not math.isnan(test.p_value):
        text += f"<br>p {'&lt; 0.001' if test.p_value < 0.001 else f'= {test.p_value:.3f}'}"
    return f'<span title="{interval.n} texts">{text}</small></span>'


def _plots(comparison: MeasuredTexts, summaries: Sequence[Summary]) -> Iterable[str]:
    settings = comparison.settings
    for metric, info in comparison.measures.items():
        if not info.better or info.average != "mean":
            continue
        bars: dict[str, dict[str, tuple[float, float, float]]] = {}
        for row in summaries:
            interval: Interval = row.intervals[metric]
            if not math.isnan(interval.mean):
                bars.setdefault(title(row.method), {})[row.baseline] = (interval.mean, interval.low, interval.high)
        yield bar_plot(bars, title=f"{info.heading}, with 95 % intervals", label=info.heading)
    for baseline, (metric, info) in itertools.product(settings.baselines, comparison.measures.items()):
        if info.by_fraction and len(settings.top_fractions) > 1:
            percents = [100 * fraction for fraction in settings.top_fractions]
            heading = info.heading
            lines = {
                title(method): (
                    percents,
                    [_mean(comparison.values(metric, method, baseline, f)) for f in settings.top_fractions],
                )
                for method in settings.methods
            }
            yield line_plot(lines, title=f"{heading} by share of tokens, {baseline}", x_label="top %", y_label=heading)
    for baseline in settings.baselines:
        curves = {
            title(method): (settings.curve_steps, np.median(found, axis=0).tolist())
            for method in settings.methods
            if (found := [c for text in comparison.texts if (c := text.find(method, baseline).curve)])
        }
        if curves:
            # A file of another version may name a rule that is not known here.
            rule = RULES.get(settings.method)
            kind = "Estimated error" if rule is not None and rule.known_sums else "Delta"
            yield line_plot(
                curves,
                title=f"{kind} by number of gradients, {baseline}",
                x_label="n_steps",
                y_label=f"median {kind.lower()} %",
                logarithmic=True,
            )


def _mean(values: np.ndarray) -> float:
    return float(np.nanmean(values)) if (~np.isnan(values)).any() else math.nan


def _disagreements(comparison: MeasuredTexts, n: int) -> Iterable[str]:
    baseline = comparison.settings.baselines[0]
    found = comparison.disagreements(n, baseline)
    if found:
        yield (
            f"<h2>Where methods disagree most</h2><p>Baseline <bdi>{escaped(baseline)}</bdi>. Red words speak for the "
            "explained label, blue words against it; fainter means less.</p>"
        )
    for text, tau in found:
        rows = [_words(text, method, baseline) for method in comparison.settings.methods if method != "random"]
        yield (
            f'<section class="cdig cdig-texts"><p>Explained: <bdi>{escaped(text.label)}</bdi>; mean tau between '
            f"methods {tau:.2f}</p><dl>{''.join(rows)}</dl></section>"
        )


def _words(text: ComparedText, method: str, baseline: str) -> str:
    picture = Picture(cut_text(text.text, text.word_offsets, text.find(method, baseline).word_scores))
    return f"<dt>{escaped(title(method))}</dt><dd>{html_words(picture)}</dd>"


def _settings(comparison: MeasuredTexts) -> str:
    written = {
        name: ", ".join(map(str, value)) if isinstance(value, list) else str(value)
        for name, value in comparison.settings.to_dict().items()
    }
    items = "".join(f"<dt>{escaped(name)}</dt><dd><bdi>{escaped(text)}</bdi></dd>" for name, text in written.items())
    return f'<section class="cdig"><details><summary>Settings</summary><dl>{items}</dl></details></section>'
