"""Averages, tests and disagreements of measurements that are made up, and how they are drawn."""

import io
import json
import math
import re
import xml.etree.ElementTree
from dataclasses import replace

import matplotlib
import numpy as np
import pytest
from rich.console import Console

from captum_dig.comparison import (
    ComparedText,
    Comparison,
    ComparisonSettings,
    Measurement,
    report,
    report_page,
    terminal_tables,
)
from captum_dig.comparison.settings import MeasureInfo, known_measures
from captum_dig.metrics import bootstrap_interval, paired_test
from captum_dig.visualization import bar_plot, line_plot
from captum_dig.visualization.base import escaped, name_line

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


@pytest.mark.parametrize("reference", ["integrated_gradients", "straight_line"])
@pytest.mark.parametrize("listed", ["integrated_gradients", "straight_line"])
def test_the_reference_is_found_by_each_of_its_names(reference, listed):
    comparison = made_up(methods=(listed, "dig_greedy", "random"))
    first, second, _ = comparison.summary(reference)[:3]
    assert first.tests == {}
    ours, theirs = (comparison.values("log_odds", name, "pad") for name in ("dig_greedy", listed))
    assert second.tests["log_odds"] == paired_test(ours, theirs)
    assert "* differs from IG" in " ".join(printed(comparison, 80).split())


def test_an_unknown_reference_is_no_method_of_the_comparison():
    comparison = made_up(methods=("method of mine", "other method of mine", "random"))
    assert comparison.settings.find_method("other method of mine") == "other method of mine"
    assert comparison.settings.find_method("third method of mine") is None
    assert all(row.tests == {} for row in comparison.summary("third method of mine"))


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


def test_curves_of_a_rule_that_this_version_does_not_know_are_drawn():
    comparison = made_up(n=2)
    for method, heading in (
        ("known_sums", "Estimated error by number"),
        ("gausslegendre", "Delta by number"),
        ("of_later", "Delta by number"),
    ):
        assert heading in report_page(replace(comparison, settings=replace(comparison.settings, method=method)))


def test_the_report_shows_medians():
    comparison = made_up(n=3, methods=("integrated_gradients", "dig_greedy"), baselines=("pad",))
    texts = tuple(
        replace(
            text,
            measurements=tuple(
                replace(one, values=dict(one.values) | {"error_percent": (7.0 + number,)}) for one in text.measurements
            ),
        )
        for number, text in enumerate(comparison.texts)
    )
    page = report_page(replace(comparison, texts=texts))
    assert '<th scope="col">delta %, median ↓</th><th scope="col">estimated error %, median ↓</th>' in page
    # The medians of both, then the pooled delta.
    assert "<td>5.00</td><td>8.00</td><td>5.00</td>" in page


def test_medians_of_ones_own_have_their_digits():
    comparison = made_up(n=3, methods=("random",), baselines=("pad",))
    own = MeasureInfo("ratio", "ratio", better=-1, average="median", column="ratio", digits=4)
    texts = tuple(
        replace(text, measurements=tuple(replace(one, values={"ratio": (0.0012,)}) for one in text.measurements))
        for text in comparison.texts
    )
    comparison = replace(comparison, texts=texts, settings=replace(comparison.settings, measures=(own,)))
    assert "<td>0.0012</td>" in report_page(comparison)
    assert "0.0012" in printed(comparison, 80)
    with pytest.raises(ValueError, match="measures.average must be one of 'mean', 'median', got 'max'"):
        replace(own, average="max")


def test_without_deltas_there_is_no_pooled_delta():
    comparison = made_up(n=3, methods=("integrated_gradients",), baselines=("pad",))
    texts = tuple(
        replace(text, measurements=tuple(replace(one, values={"change": (2.0,)}) for one in text.measurements))
        for text in comparison.texts
    )
    assert math.isnan(replace(comparison, texts=texts).summary()[0].pooled_delta_percent)


def test_the_report_of_one_text_and_one_method_draws_what_there_is():
    page = report_page(made_up(n=1, methods=("random",), baselines=("pad",)))
    assert "Baseline" in page
    assert "disagree" not in page


def test_every_metric_has_a_direction():
    measures = known_measures()
    assert {measure.better for measure in measures.values()} == {-1, 0, 1}
    assert measures["log_odds"].better == measures["sufficiency"].better == -1
    assert measures["comprehensiveness"].better == 1


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


# ---------------------------------------------------------------------------------------- names

NAMES = [
    "[unused5]",
    "[/INST]",
    "[bold red]x[/]",
    ":smile:",
    "two\nlines\tand a tab",
    "\x1b[31mred\x1b[0m",
    "\u202ereversed",
    "\ud800 half",
    "$\\foo$",
    "_hidden",
    "电影 ❤️",
    HOSTILE,
]


BASELINES = ("[/INST]", "$\\foo$\x1b\u202e<b>")


@pytest.fixture(scope="module")
def named():
    """A comparison in which everything has a name that means something to who shows it."""
    comparison = made_up(2, methods=tuple(NAMES), baselines=BASELINES)
    texts = tuple(replace(text, label=NAMES[5], text=f"so good {NAMES[7]}") for text in comparison.texts)
    looks = dict(zip(("model", "candidates", "version"), BASELINES[1:] * 3, strict=True))
    return Comparison(replace(comparison.settings, **looks), texts)


def test_tables_show_every_name_as_it_is(named):
    screens = [io.StringIO() for _ in range(2)]
    for screen, color in zip(screens, (None, "truecolor"), strict=True):
        console = Console(file=screen, width=200, force_terminal=color is not None, color_system=color)
        for part in terminal_tables(named):
            console.print(part)
    plain, colored = (screen.getvalue() for screen in screens)
    lines = plain.splitlines()
    for name in NAMES:
        assert sum(line.startswith(f"{name_line(name)} ") for line in lines) >= len(BASELINES)
    for baseline in BASELINES:
        assert f"baseline {name_line(baseline)}" in (line.rstrip() for line in lines)
        assert f"baseline {name_line(baseline)}" in colored
    for character in "\x1b\u202e\ud800\t":
        assert character not in plain
    assert str(named).startswith(f"From baseline {name_line(BASELINES[0])}, on 2 texts: too few")


def test_reports_show_every_name_as_it_is(named):
    page = report_page(named, n_disagreements=1)
    page.encode("utf-8")
    for character in "\x1b\u202e":
        assert character not in page
    assert "<script" not in page
    assert "<b>" not in page
    assert f"model <bdi>{escaped(BASELINES[1])}</bdi>" in page
    assert f"Explained: <bdi>{escaped(NAMES[5])}</bdi>" in page
    for baseline in BASELINES:
        assert f"<h2>Baseline <bdi>{escaped(baseline)}</bdi></h2>" in page
    shown = set()
    for svg in re.findall(r"<svg.*?</svg>", page, re.DOTALL):
        root = xml.etree.ElementTree.fromstring(svg)
        shown |= {"".join(text.itertext()).strip() for text in root.iter("{http://www.w3.org/2000/svg}text")}
    for name in NAMES:
        assert f'<td scope="row"><bdi>{escaped(name)}</bdi></td>' in page
        assert name_line(name) in shown
    assert {name_line(baseline) for baseline in BASELINES} <= shown


@pytest.mark.parametrize("user", [{"text.usetex": True}, {"text.parse_math": True, "mathtext.default": "bf"}])
def test_the_readers_settings_of_matplotlib_change_no_name(user):
    with matplotlib.rc_context(user):
        svg = bar_plot({"$a$": {"b": (1.0, math.nan, math.nan)}}, title="$t$", label="$\\frac$")
    assert ">$a$<" in svg
    assert ">$\\frac$<" in svg


def test_infinite_numbers_leave_a_gap_in_plots():
    bars = {"a": {"b": (math.inf, 0.0, 1.0), "c": (1.0, -math.inf, math.inf)}}
    lines = {"a": ([1, 2, 3], [math.inf, 1.0, -math.inf]), "b": ([1, 2], [math.inf, math.inf])}
    for logarithmic in (False, True):
        svg = line_plot(lines, title="t", x_label="x", y_label="y", logarithmic=logarithmic)
        xml.etree.ElementTree.fromstring(svg)
        assert "nan" not in svg.lower()
        assert "inf" not in svg.lower()
    assert bar_plot(bars, title="t", label="x").count("<svg") == 1


# ---------------------------------------------------------------------------------------- tests


def test_the_footer_says_against_which_method_is_tested():
    for comparison, words in (
        (made_up(), "* differs from IG (paired, p < 0.05)."),
        (
            made_up(methods=("dig_greedy", "random")),
            "No method is tested against another, because integrated_gradients is not among them.",
        ),
        (made_up(methods=("integrated_gradients",)), None),
    ):
        shown = " ".join(printed(comparison, 80).split())
        page = "".join(report._html_tables(comparison, comparison.summary()))
        tested = any(row.tests for row in comparison.summary())
        assert ("differs from" in shown) == ("sign-flip" in page) == ("one has p" in page) == tested
        assert "*" in shown or not tested
        if words:
            assert words in shown
            assert ("No method is tested" in words) == ("No method is tested" in page)
        else:
            assert "test" not in shown
