"""Averages, tests and disagreements of measurements that are made up, and how they are drawn."""

import io
import json
import math
import re
import xml.etree.ElementTree

import numpy as np
import pytest
from rich.console import Console

from captum_dig.comparison import (
    METRICS,
    ComparedText,
    Comparison,
    ComparisonSettings,
    Measurement,
    report_page,
    terminal_tables,
)
from captum_dig.metrics import bootstrap_interval, paired_test
from captum_dig.visualization import bar_plot, line_plot

METHODS = ("integrated_gradients", "dig_greedy", "random")
HOSTILE = '<script>alert("x")</script>'


def measurement(method, baseline, scores, values, curve=(), n_gradients=8):
    return Measurement(method, baseline, tuple(scores), n_gradients, 0.5, values, curve)


def made_up(n=12, methods=METHODS, baselines=("pad", "mask"), text="so good"):
    generator = np.random.default_rng(3)
    texts = []
    for number in range(n):
        measurements = []
        for baseline in baselines:
            for place, method in enumerate(methods):
                base = float(generator.normal())
                values = {
                    "log_odds": (base, base - 1.0 - place),
                    "comprehensiveness": (0.1, 0.2),
                    "sufficiency": (math.nan, 0.1 * number),
                }
                if method != "random":
                    values |= {"delta": (0.1 * place,), "change": (2.0,), "delta_percent": (5.0 * place,)}
                scores = (1.0, 2.0) if place == 0 or number % 2 else (2.0, 1.0)
                measurements.append(measurement(method, baseline, scores, values, (4.0, 2.0) if place < 2 else ()))
        texts.append(ComparedText(f"{text} {number}", 1, "POSITIVE", ((0, 2), (3, 7)), tuple(measurements)))
    settings = ComparisonSettings(
        model="tiny",
        fingerprint="0",
        methods=methods,
        details=methods,
        baselines=baselines,
        candidates="words",
        n_steps=8,
        top_fractions=(0.1, 0.2),
        protocols=("default",),
        n_curve_texts=n,
        curve_steps=(8, 16),
        seed=0,
        version="0",
    )
    return Comparison(settings, tuple(texts))


def test_values_are_those_of_the_texts():
    comparison = made_up()
    expected = [text.find("dig_greedy", "mask").values["log_odds"][1] for text in comparison.texts]
    assert comparison.values("log_odds", "dig_greedy", "mask").tolist() == expected
    assert np.isnan(comparison.values("sufficiency", "random", top_fraction=0.1)).all()
    assert np.isnan(comparison.values("delta", "random")).all()


def test_a_summary_holds_intervals_and_tests_against_the_reference():
    comparison = made_up()
    rows = {(row.baseline, row.method): row for row in comparison.summary()}
    assert list(rows) == [(baseline, method) for baseline in ("pad", "mask") for method in METHODS]
    row = rows["pad", "dig_greedy"]
    ours, theirs = (comparison.values("log_odds", name, "pad") for name in ("dig_greedy", "integrated_gradients"))
    assert row.intervals["log_odds"] == bootstrap_interval(ours)
    assert row.tests["log_odds"] == paired_test(ours, theirs)
    assert row.tests["log_odds"].difference.mean == pytest.approx((ours - theirs).mean())
    assert rows["pad", "integrated_gradients"].tests == {}
    assert row.delta_percent == 5.0
    assert row.pooled_delta_percent == pytest.approx(5.0)
    assert math.isnan(rows["pad", "random"].delta_percent)


def test_without_the_reference_nothing_is_tested():
    assert made_up(methods=("dig_greedy", "random")).summary()[0].tests == {}


def test_skipped_texts_do_not_count():
    row = made_up().summary(top_fraction=0.1)[0]
    assert row.intervals["sufficiency"].n == 0
    assert math.isnan(row.intervals["sufficiency"].mean)


def test_disagreement_leaves_out_random_scores():
    comparison = made_up()
    found = comparison.disagreements(3)
    assert [tau for _, tau in found] == [-1.0, -1.0, -1.0]
    assert all(int(text.text.split()[-1]) % 2 == 0 for text, _ in found)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("speed", "random"), "metric must be one of 'log_odds', .*, got 'speed'"),
        (("log_odds", "other"), "method must be one of 'integrated_gradients', 'dig_greedy', 'random', got 'other'"),
        (("log_odds", "random", "zero"), "baseline must be one of 'pad', 'mask', got 'zero'"),
    ],
)
def test_wrong_names_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        made_up().values(*arguments)


def test_json_reads_back_and_refuses_what_it_does_not_know():
    comparison = made_up()
    data = json.loads(json.dumps(comparison.to_dict(), allow_nan=False))
    assert json.dumps(Comparison.from_dict(data).to_dict()) == json.dumps(comparison.to_dict())
    with pytest.raises(ValueError, match=re.escape("data must have the format ('captum_dig.Comparison', 1)")):
        Comparison.from_dict({"format": "other"})
    with pytest.raises(TypeError, match="data must be a mapping, got list"):
        Comparison.from_dict([])
    data["settings"]["colour"] = "red"
    with pytest.raises(ValueError, match="settings must hold only the fields of a result, got"):
        Comparison.from_dict(data)


# ---------------------------------------------------------------------------------------- pictures


def printed(comparison, width):
    screen = Console(file=io.StringIO(), width=width, color_system=None)
    for part in terminal_tables(comparison):
        screen.print(part)
    return screen.file.getvalue()


def test_the_table_fits_eighty_columns_and_marks_what_differs():
    shown = printed(made_up(n=40), 80)
    assert max(map(len, shown.splitlines())) <= 80
    assert "…" not in shown
    assert "baseline pad" in shown
    assert "baseline mask" in shown
    line = next(line for line in shown.splitlines() if line.startswith("random"))
    assert "*" in line
    assert "± half the width of their 95 % intervals" in shown


def test_the_report_stands_alone_and_escapes_everything():
    comparison = made_up(text=HOSTILE)
    comparison = Comparison.from_dict(json.loads(json.dumps(comparison.to_dict()).replace("tiny", "<b>tiny</b>")))
    page = report_page(comparison)
    assert "<script" not in page
    assert "<b>tiny" not in page
    assert "&lt;" in page
    assert "default-src 'none'" in page
    assert not re.search(r'(src|href)="(?!#)', page)
    assert page.count("<svg") == 3 + 3 * 2 + 2
    assert "Where methods disagree most" in page
    assert "NaN" not in page


def test_the_report_of_one_text_and_one_method_draws_what_there_is():
    page = report_page(made_up(n=1, methods=("random",), baselines=("pad",)))
    assert "Baseline" in page
    assert "disagree" not in page


def test_every_metric_has_a_direction():
    assert {metric.better for metric in METRICS.values()} == {-1, 0, 1}
    assert METRICS["log_odds"].better == METRICS["sufficiency"].better == -1
    assert METRICS["comprehensiveness"].better == 1


@pytest.mark.parametrize(
    "svg",
    [
        bar_plot({"<IG>": {"pad": (1.0, 0.5, 1.5), "mask": (math.nan,) * 3}}, title='a "title" & more', label="x"),
        line_plot({"<IG>": ([8, 16], [4.0, 2.0])}, title="lines", x_label="n", y_label="%", logarithmic=True),
    ],
    ids=["bars", "lines"],
)
def test_plots_are_pictures_that_take_the_colour_of_their_page(svg):
    root = xml.etree.ElementTree.fromstring(svg)
    assert root.get("role") == "img"
    assert root.get("width") is None
    assert "currentColor" in svg
    assert "#010203" not in svg
    assert "&lt;IG&gt;" in svg


def test_equal_plots_are_equal():
    first, second = (line_plot({"a": ([1, 2], [3, 4])}, title="t", x_label="x", y_label="y") for _ in range(2))
    assert first == second
