"""Pictures show every string as it is and every score as what it is, on pages and terminals."""

import io
import math
import re
import subprocess
import sys
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.color import Color, ColorSystem
from rich.console import Console
from rich.terminal_theme import DEFAULT_TERMINAL_THEME

from captum_dig.visualization import (
    Picture,
    Scale,
    Segment,
    TokenRow,
    captum_record,
    cut_text,
    html_fragment,
    html_page,
    plain_text,
    terminal_text,
    visible,
)
from captum_dig.visualization.terminal import contrast, word_colors
from captum_dig.visualization.web import DARK, LIGHT

NAN, INF = math.nan, math.inf
HOSTILE = (
    "x<script>alert(1)</script>",
    "a<b<c",
    "&amp",
    "&lt;b&gt;",
    "\"><img src=x onerror='alert(1)'>",
    "entrar<!--#exec",
    "]]></style><script>",
    "<pad>",
    "[bold]x[/bold]",
    "[CLS]",
    ":smile:",
    "\x1b[31mred\x1b]0;title\x07",
    "a\rb",
    "\u202egnp.exe",
    "nul\x00",
    "\ud800",
)
ELEMENTS = re.compile(
    "html|head|meta|title|style|body|main|h1|section|dl|dt|dd|bdi|div|span|p|details|summary|table|tr|th|td"
)
ATTRIBUTES = re.compile("lang|charset|name|content|http-equiv|class|style|title|dir|aria-label|role|tabindex|scope")
scores = st.none() | st.floats()


class Reader(HTMLParser):
    """Read a page as a browser would: elements, attributes, and the text of each marked element."""

    def __init__(self, page):
        super().__init__(convert_charrefs=True)
        self.elements, self.attributes, self.titles, self.styles = [], [], [], []
        self.open, self.texts, self.everything = [], {}, []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append(tag)
        values = dict(attrs)
        self.attributes += [name for name, _ in attrs]
        if "title" in values:
            self.titles.append(values["title"])
        if "style" in values:
            self.styles.append(values["style"])
        if tag != "meta":
            self.open.append((tag, (values.get("class") or tag).split()))
            for name in self.open[-1][1]:
                self.texts.setdefault(name, []).append("")

    def handle_endtag(self, tag):
        assert self.open.pop()[0] == tag

    def handle_data(self, data):
        self.everything.append(data)
        for _, names in self.open:
            for name in names:
                self.texts[name][-1] += data


class LenientReader(Reader):
    """Read a page that leaves elements open, as Captum's does."""

    def handle_endtag(self, tag):
        pass


def read(page):
    reader = Reader(page)
    assert reader.open == []
    assert all(map(ELEMENTS.fullmatch, reader.elements))
    assert all(map(ATTRIBUTES.fullmatch, reader.attributes))
    return reader


def picture_of(*pairs, **others):
    return Picture(tuple(Segment(text, score) for text, score in pairs), **others)


def render(picture, *, color=None, **options):
    settings: dict[str, Any] = {"width": 80, "force_terminal": True, "color_system": "truecolor"}
    stream = io.StringIO()
    # An empty environment: the tests run in terminals of every kind.
    Console(file=stream, legacy_windows=False, **({"_environ": {}} | settings | options)).print(
        terminal_text(picture, color=color)
    )
    return stream.getvalue()


def without_styles(text):
    return re.sub(r"\x1b\[[\d;]*m", "", text)


# what is drawn ------------------------------------------------------------------------------------


@given(st.text())
def test_visible_leaves_nothing_that_controls_the_display(text):
    shown = visible(text)
    shown.encode("utf-8")
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]", shown)
    if shown != text:
        assert text != "".join(c for c in text if c.isprintable())


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain é 喜 🤗 مرحبا", "plain é 喜 🤗 مرحبا"),
        ("a\r\nb\tc\n", "a\nb\tc\n"),
        ("a\rb", r"a\rb"),
        ("\x1b[0m\x07\x9b", r"\x1b[0m\x07\x9b"),
        ("\u202e\u2066\u2028", r"\u202e\u2066\u2028"),
        ("\udc80", r"\udc80"),
    ],
)
def test_visible_writes_controls_as_python_does(text, shown):
    assert visible(text) == shown


def test_scale_takes_the_largest_finite_score():
    scale = Scale.of([0.5, -2.0, None, NAN, INF, -INF])
    assert scale == Scale(2.0)
    assert [scale.strength(s) for s in (0.5, -2.0, None, NAN, INF, 0.0)] == [0.25, 1, 0, 0, 0, 0]
    assert scale.strength(5.0) == 1.0


def test_scale_of_nothing_is_zero_and_divides_by_nothing():
    assert Scale.of([]) == Scale.of([None, NAN, 0.0]) == Scale(0.0)
    assert Scale(0.0).strength(1.0) == 0.0


@pytest.mark.parametrize(
    ("maximum", "score", "shown"),
    [
        (0.9, 0.31234, "+0.312"),
        (2.0, -0.5, "-0.500"),
        (20.0, 0.25, "+0.2"),
        (250.0, -3.2, "-3"),
        (0.02, 0.01, "+0.0100"),
        (1e-9, 5e-10, "+5.00e-10"),
        (1e9, -1e9, "-1.00e+09"),
        (0.9, 0.0, "0"),
        (0.9, -1e-9, "0.000"),
        (0.9, None, "not scored"),
        (0.9, NAN, "not a number (nan)"),
        (0.9, -INF, "not a number (-inf)"),
    ],
)
def test_scale_shows_digits_that_suit_its_size(maximum, score, shown):
    assert Scale(maximum).show(score) == shown


@given(st.data())
def test_cut_text_gives_slices_that_join_to_the_text(data):
    text = data.draw(st.text())
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)))))
    offsets = list(zip(cuts[::2], cuts[1::2], strict=False))
    words = data.draw(st.lists(scores, min_size=len(offsets), max_size=len(offsets)))
    segments = cut_text(text, offsets, words, rest_note="unread")
    assert "".join(segment.text for segment in segments) == text
    assert all(segment.text for segment in segments)
    shown = [text[start:stop] for start, stop in offsets]
    assert [s.text for s in segments if s.score is not None] == [
        word for word, score in zip(shown, words, strict=True) if score is not None
    ]
    assert all(segment.text.strip() for segment in segments if segment.note)


def test_cut_text_refuses_words_that_overlap():
    with pytest.raises(ValueError, match=r"offsets must be in order .* got \(1, 3\) after 2; sort"):
        cut_text("abc", [(0, 2), (1, 3)], [0.0, 0.0])


def test_cut_text_refuses_a_missing_score():
    with pytest.raises(ValueError, match="scores must hold one score for each of the 1 words, got 0"):
        cut_text("abc", [(0, 2)], [])


@pytest.mark.parametrize("score", ["0.5", [0.5], 1j])
def test_a_score_that_is_no_number_is_refused(score):
    with pytest.raises(TypeError, match="score must be a number or None, got"):
        Segment("word", score)


def test_a_picture_of_strings_is_refused():
    with pytest.raises(TypeError, match="segments must hold Segments, got 'word'; wrap it"):
        Picture(("word",))  # type: ignore[arg-type]


def test_a_text_that_is_no_string_is_refused():
    with pytest.raises(TypeError, match="text must be a string, got 3"):
        Segment(3)  # type: ignore[arg-type]


# HTML ---------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.text(), scores)), st.text(), st.booleans())
def test_any_text_is_shown_as_it_is_and_makes_no_element(pairs, other, fragment):
    picture = picture_of(
        *pairs,
        headline=((other, other),),
        settings=((other, other),),
        tokens=(TokenRow(other, 1.0, (other, "b")),),
    )
    reader = read(html_fragment(picture) if fragment else html_page([picture], title=other))
    assert reader.texts["cdig-text"] == ["".join(visible(text) for text, _ in pairs)]
    assert reader.texts["cdig-token"] == [visible(other)]
    assert reader.texts["dt"] == reader.texts["dd"] == [visible(other)] * 2
    if not fragment:
        assert reader.texts["h1"] == reader.texts["title"] == [visible(other)]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_words_are_text_in_every_place(text):
    word = Segment(text, 0.5, note=text)
    row = TokenRow(text, 0.5, (text, text))
    picture = Picture((word,), ((text, text),), ((text, text),), (row,))
    page = html_page([picture], title=text)
    reader = read(page)
    assert "".join(reader.everything).count(visible(text)) == 10
    assert reader.titles == [f"{visible(text.strip())}: +0.500; {visible(text)}"]
    assert "<script" not in page
    page.encode("utf-8")


def test_a_page_needs_nothing_else_and_forbids_scripts():
    page = html_page([picture_of(("good", 1.0))])
    assert not re.search(r"https?:|//|url\(|@import|src=|href=", page)
    assert "content=\"default-src 'none'; style-src 'unsafe-inline'" in page
    assert '<html lang="en">' in page
    assert '<meta charset="utf-8">' in page
    assert 'name="viewport" content="width=device-width' in page
    assert "color-scheme:light dark" in page


def test_a_page_holds_many_pictures_or_none():
    pictures = [picture_of((f"word{i}", 1.0)) for i in range(5)]
    assert read(html_page(pictures)).texts["cdig-text"] == [f"word{i}" for i in range(5)]
    assert "No texts." in html_page([])


def test_the_score_shows_on_hover_and_in_the_table():
    reader = read(html_page([picture_of(("good", 0.5), (" ", None), ("bad", -1.0))]))
    assert reader.titles == ["good: +0.500", "bad: -1.000"]
    assert reader.texts["cdig-token"] == ["good", "bad"]
    assert reader.texts["cdig-number"] == ["+0.500", "-1.000"]


def test_colour_follows_sign_and_strength():
    page = html_page([picture_of(("good", 0.5), ("bad", -1.0), ("zero", 0.0), ("faint", 0.001))])
    assert '<span class="cdig-word cdig-positive" style="--cdig-strength:0.500" title="good:' in page
    assert '<span class="cdig-word cdig-negative" style="--cdig-strength:1.000" title="bad:' in page
    assert '<span class="cdig-word" title="zero: 0">' in page
    assert '<span class="cdig-word" title="faint: +0.001">' in page


@pytest.mark.parametrize("score", [NAN, INF, -INF])
def test_what_is_not_a_number_is_never_painted_as_a_score(score):
    page = html_page([picture_of(("broken", score), (" ", None), ("good", 2.0))])
    reader = read(page)
    assert f'<span class="cdig-word cdig-broken" title="broken: not a number ({score})">' in page
    assert reader.texts["cdig-number"] == [f"not a number ({score})", "+2.000"]
    assert "Hatched: the score is not a number." in reader.texts["cdig-legend"][0]
    # The two of the legend, the good word and its bar: none for the broken word.
    assert reader.styles == ["--cdig-strength:1.000"] * 4


def test_scores_that_are_all_nan_still_make_a_page():
    reader = read(html_page([picture_of(("a", NAN), ("b", NAN))]))
    assert reader.styles == []
    assert reader.texts["cdig-text"] == ["ab"]


def test_the_path_column_stands_only_where_there_are_anchors():
    row = TokenRow("good", 1.0, ("nice", "fine"))
    with_path = read(html_page([picture_of(("good", 1.0), tokens=(row,))]))
    assert "nice → fine" in with_path.texts["cdig-scroll"][0]
    assert "Path" not in read(html_page([picture_of(("good", 1.0))])).texts["cdig-scroll"][0]


def test_text_that_was_cut_off_says_so():
    page = html_page([Picture((Segment("read", 1.0), Segment("unread", note="cut off")))])
    assert '<span class="cdig-word cdig-note" title="cut off">unread</span>' in page


def test_right_to_left_text_keeps_its_own_order():
    page = html_page([picture_of(("مرحبا", 1.0), (" ", None), ("بالعالم", 0.5))])
    text = re.search(r'<div class="cdig-text" dir="auto">(.*?)</div>', page)
    assert text is not None
    # Isolated words would be laid out from left to right.
    assert "bdi" not in text[1]


def test_styles_of_a_fragment_reach_only_what_it_holds():
    style = re.search(r"<style>(.*?)</style>", html_fragment(picture_of(("a", 1.0))), re.DOTALL)
    assert style is not None
    rules = re.sub(r"@media \([^)]*\)", "", style[1])
    selectors = [s for group in re.findall(r"([^{}]+)\{[^{}]", rules) for s in group.split(",")]
    selectors = [selector for selector in selectors if selector.strip()]
    assert len(selectors) > 20
    assert [selector for selector in selectors if ".cdig" not in selector] == []


def rgb(color):
    return tuple(int(color[i : i + 2], 16) for i in (1, 3, 5))


@pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("hue", ["positive", "negative", "hatch"])
def test_words_are_legible_on_every_colour_of_a_page(palette, hue):
    paper, full, ink = (rgb(palette[name]) for name in ("paper", hue, "ink"))
    for percent in range(101):
        mixed = tuple(p + (f - p) * percent / 100 for p, f in zip(paper, full, strict=True))
        assert contrast(ink, mixed) >= 4.5


@pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["light", "dark"])
def test_red_is_positive_and_blue_is_negative(palette):
    positive, negative = rgb(palette["positive"]), rgb(palette["negative"])
    assert positive[0] > max(positive[1:])
    assert negative[2] > max(negative[:2])
    for name, color in palette.items():
        assert f"--cdig-{name}:{color}" in html_page([])


# terminal -----------------------------------------------------------------------------------------


def test_without_colour_sign_and_strength_can_be_read():
    picture = picture_of(
        ("A", 0.0),
        (" ", None),
        ("great", 0.9),
        (" ", None),
        ("dull", -0.31),
        (" ", None),
        ("film", 0.6),
    )
    lines = plain_text(picture).split("\n")
    assert lines[0] == "A great[+++] dull[-] film[++]"
    assert lines[2:6] == [
        "+0.900 ████████████████████ great",
        "+0.600 ██████████████       film",
        "-0.310 ███████              dull",
        "… and 1 weaker word, together 0",
    ]
    assert "[+] raises" in lines[-1]


@pytest.mark.parametrize(
    "options",
    [
        {"no_color": True},
        {"_environ": {"NO_COLOR": "1"}},
        {"color_system": None, "force_terminal": False},
    ],
    ids=["no_color", "NO_COLOR", "pipe"],
)
def test_a_console_without_colour_gets_the_signs(options):
    shown = render(picture_of(("great", 1.0)), **options)
    assert "great[+++]" in without_styles(shown)
    assert "38;" not in shown
    assert "48;" not in shown


def test_a_console_with_colour_gets_colours_and_no_signs():
    shown = render(picture_of(("great", 1.0), (" ", None), ("dull", -1.0)))
    assert without_styles(shown).startswith("great dull\n")
    # White on red and white on blue, as numbers of the 256 colours or, on consoles that have more, as mixtures of light.
    assert re.search(r"\x1b\[38;(5;231|2;255;255;255);48;(5;160|2;215;0;0)mgreat\x1b\[0m", shown)
    assert re.search(r"\x1b\[38;(5;231|2;255;255;255);48;(5;20|2;0;0;215)mdull\x1b\[0m", shown)


def test_colour_can_be_refused():
    shown = render(picture_of(("great", 1.0)), color=False)
    assert shown.startswith("great[+++]\n")


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_words_control_no_terminal(text):
    picture = picture_of((text, 1.0), headline=((text, text),))
    plain = plain_text(picture, width=120)
    lines = plain.split("\n")
    assert lines[0] == f"{visible(text)}: {visible(text)}"
    assert lines[2] == f"{visible(text)}[+++]"
    for shown in (plain, without_styles(render(picture))):
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", shown)


@given(st.lists(st.tuples(st.text(), scores)), st.integers(20, 120))
def test_no_line_is_wider_than_asked(pairs, width):
    picture = picture_of(*pairs, headline=(("Predicted", "positive " * 9),))
    assert all(cell_len(line) <= width for line in plain_text(picture, width=width).split("\n"))


def test_what_is_not_a_number_is_listed_first_and_never_left_out():
    picture = picture_of(("good", 1.0), (" ", None), ("broken", NAN), (" ", None), ("fine", 0.5))
    lines = plain_text(picture, top=1).split("\n")
    assert lines[0] == "good[+++] broken[not a number] fine[++]"
    assert lines[2].split() == ["not", "a", "number", "(nan)", "broken"]
    assert lines[3].split() == ["+1.000", "█" * 20, "good"]
    assert lines[4] == "… and 1 weaker word, together +0.500"


def test_the_pictures_of_a_page_share_a_scale():
    pictures = [picture_of(("good", 2.0)), picture_of(("fine", 0.5))]
    strengths = re.compile(r'class="cdig-word cdig-positive" style="--cdig-strength:([\d.]+)" title')
    assert strengths.findall(html_page(pictures)) == ["1.000", "0.250"]
    assert strengths.findall(html_page(pictures, scale="text")) == ["1.000", "1.000"]
    with pytest.raises(ValueError, match="^scale must be one of 'page', 'text', got 'word'"):
        html_page(pictures, scale="word")


def test_weak_words_share_one_line():
    pairs = [("good", 1.0), (" ", None), ("of", 0.04), (" ", None), ("of", 0.04), (" ", None), (".", -0.01)]
    lines = plain_text(picture_of(*pairs)).split("\n")
    assert lines[2:4] == ["+1.000 ████████████████████ good", "… and 3 weaker words, together +0.070"]


def test_the_origin_and_the_numbers_stand_below():
    picture = picture_of(("good", 1.0), footing="straight <line>", numbers=(("Output", "2 & 1"),))
    assert plain_text(picture).split("\n")[-2:] == ["straight <line>", "Output: 2 & 1"]
    page = html_page([picture])
    assert '<div class="cdig-footing"><bdi>straight &lt;line&gt;</bdi></div>' in page
    fold = page[page.index("<summary>Numbers and settings") :]
    assert "<dt>Output</dt><dd><bdi>2 &amp; 1</bdi></dd>" in fold


def test_a_console_without_unicode_gets_plain_bars():
    file = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    Console(file=file, width=60, _environ={}).print(
        terminal_text(picture_of(("a", 1.0), (" ", None), ("b", -0.5)), top=1)
    )
    file.flush()
    assert b"#" * 20 in file.buffer.getvalue()
    assert b"... and 1 weaker word, together -0.500" in file.buffer.getvalue()


def test_a_picture_of_nothing_prints_nothing():
    assert plain_text(Picture(())) == ""


@pytest.mark.parametrize("positive", [True, False])
def test_words_are_legible_on_every_colour_of_a_terminal(positive):
    for percent in range(101):
        foreground, background = word_colors(percent / 100, positive=positive)
        assert contrast(foreground, background) >= 4.5
        in_256 = [
            Color.from_rgb(*color).downgrade(ColorSystem.EIGHT_BIT).get_truecolor(DEFAULT_TERMINAL_THEME)
            for color in (foreground, background)
        ]
        assert contrast(*in_256) >= 4.5


def test_a_terminal_narrower_than_a_word_is_refused():
    with pytest.raises(ValueError, match="width must be at least 20, got 3; pass"):
        plain_text(Picture(()), width=3)


def test_a_negative_number_of_ranked_words_is_refused():
    with pytest.raises(ValueError, match="top must be at least 0, got -1; pass 0"):
        terminal_text(Picture(()), top=-1)


# Captum -------------------------------------------------------------------------------------------


def record_of(words, scores, **others):
    labels: dict[str, Any] = {
        "predicted_label": "a<b",
        "predicted_probability": 0.9,
        "target_label": "<i>x",
    }
    return captum_record(words, scores, **(labels | others))


def test_record_scores_are_scaled_and_nan_is_nothing():
    record = record_of(["a", "b", "c", "d"], [1.0, -4.0, NAN, -INF], delta=0.25)
    assert record.word_attributions.tolist() == [0.25, -1.0, 0.0, 0.0]
    assert math.isnan(record.attr_score)
    assert record.convergence_score == 0.25


def test_captum_draws_a_record_without_running_it():
    pytest.importorskip("IPython")
    from captum.attr import visualization

    words = [*HOSTILE, "<pad>", "good"]
    record = record_of(words, [NAN, *[0.5] * (len(words) - 1)], true_label="<script>alert(2)")
    page = visualization.visualize_text([record]).data
    reader = LenientReader(page)
    assert not {"script", "img", "i", "pad"} & set(reader.elements)
    shown = "".join(reader.everything)
    for word in (*words, "<script>alert(2)", "a<b (0.90)", "<i>x"):
        assert visible(word) in shown
    assert "#pad" not in shown
    first = re.search(r'<mark style="background-color: (.*?);', page)
    assert first is not None
    assert first[1] == "hsl(0, 75%, 100%)"


def test_record_needs_a_score_for_each_word():
    with pytest.raises(ValueError, match="scores must hold one score for each of the 2 words, got 1"):
        record_of(["a", "b"], [1.0])


def test_pictures_load_no_console_and_no_tensor_library():
    code = (
        # Without the package's own __init__, which imports the attribution methods.
        "import sys, types; package = types.ModuleType('captum_dig');"
        "package.__path__ = [sys.argv[1]]; sys.modules['captum_dig'] = package;"
        "import captum_dig.text.results;"
        "print(sorted({'torch', 'captum', 'rich', 'numpy'} & set(sys.modules)))"
    )
    import captum_dig

    done = subprocess.run(
        [sys.executable, "-c", code, captum_dig.__path__[0]],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "[]"
