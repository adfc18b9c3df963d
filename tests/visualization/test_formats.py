"""Formats: every one of the catalogue writes results, those in JSON read back, and wrong arguments are named."""

import csv
import io
import json
from xml.etree import ElementTree

import pytest

from captum_dig import TextAttribution
from captum_dig.catalogue import CATALOGUE
from captum_dig.visualization.formats import Format


@pytest.fixture(scope="module")
def results(classifier, tokenizer):
    from captum_dig import TextExplainer

    return TextExplainer(classifier, tokenizer, cache=False).explain(["a fine film", "dull ☃"], n_steps=8)


def written(name, results):
    stream = io.StringIO()
    CATALOGUE.find(name, "format").make()(iter(results), stream)
    return stream.getvalue()


TEXTS = [entry.name for entry in CATALOGUE if entry.kind == "format" and not entry.load().binary]


@pytest.mark.parametrize("name", TEXTS)
def test_every_format_writes_each_result_in_order(name, results):
    text = written(name, results)
    assert text.endswith("\n")
    assert 0 <= text.index("film") < text.index("dull")
    assert written(name, []) is not None


def test_json_reads_back(results):
    assert [TextAttribution.from_dict(entry) for entry in json.loads(written("json", results))] == results
    lines = written("jsonl", results).splitlines()
    assert [TextAttribution.from_dict(json.loads(line)) for line in lines] == results


NASTY = "a_film & <b>50%</b> | 1. {x} \\\\ $ # ~ ^"


@pytest.fixture(scope="module")
def nasty(classifier, tokenizer):
    from captum_dig import TextExplainer

    explain = TextExplainer(classifier, tokenizer, cache=False).explain
    return [explain(NASTY, text_pair="- dull\nand slow", n_steps=8)]


def test_csv_has_a_row_for_each_word_and_field(nasty):
    rows = list(csv.DictReader(io.StringIO(written("csv", nasty))))
    (result,) = nasty
    assert [row["word"] for row in rows] == list(result.words)
    assert [float(row["score"]) for row in rows] == list(result.word_scores)
    ends = {name: (start, end) for name, start, end in result.fields}
    for row, (start, _) in zip(rows, result.word_offsets, strict=True):
        assert ends[row["field"]][0] <= start < ends[row["field"]][1]
    assert {row["result"] for row in rows} == {"1"}


def test_markdown_shows_every_sign_as_it_is(nasty):
    text = written("markdown", nasty)
    for mark in ("\\_", "\\&", "\\<b\\>", "\\|", "\\$", "\\#", "\\~", "> \\- dull"):
        assert mark in text
    table = [line for line in text.splitlines() if line.startswith("| ")]
    assert len(table) == 1 + len(nasty[0].words)
    assert all(line.replace("\\|", "").count("|") == 3 for line in table)


def test_latex_escapes_every_sign(nasty):
    text = written("latex", nasty)
    assert text.startswith("% \\usepackage{xcolor}\n")
    for mark in ("\\_", "\\&", "\\%", "\\{", "\\$", "\\#", "\\textbackslash{}", "\\textasciicircum{}", "\\textbar{}"):
        assert mark in text
    assert text.count("{") - 2 * text.count("\\{") == text.count("}") - 2 * text.count("\\}")
    assert "\\textbf{text\\_pair:}" in text


def test_a_heat_map_has_a_row_for_each_number_and_a_column_for_each_word(classifier, tokenizer):
    from captum_dig import TextExplainer

    results = TextExplainer(classifier, tokenizer, cache=False).explain(["a <b> film", "dull"], "all", n_steps=8)
    page = written("matrix", results)
    assert page.count('<table class="cdig-matrix">') == 2
    assert page.count('<th scope="row">') == len(results) == 4
    assert page.count('<th scope="col">') == len(results[0].words) + len(results[2].words)
    assert page.count("background-color:#") == 2 * (len(results[0].words) + len(results[2].words))
    assert "<b>" not in page
    assert "film on log-odds of POSITIVE" in page


def test_svg_is_xml_with_every_word_over_its_colour(nasty):
    root = ElementTree.fromstring(written("svg", nasty))
    name = "{http://www.w3.org/2000/svg}"
    words = [
        group.find(f"{name}text").text for group in root.iter(f"{name}g") if group.find(f"{name}title") is not None
    ]
    assert words == list(nasty[0].words)
    width = float(root.get("width"))
    for rect in root.iter(f"{name}rect"):
        if rect.get("x"):
            assert float(rect.get("x")) + float(rect.get("width")) <= width


def test_svg_keeps_long_texts_inside(classifier, tokenizer):
    from captum_dig.visualization import Picture, Segment

    class Drawn:
        def to_picture(self):
            words = ["film" * 40, " ", "電影" * 30, "e\u0301" * 90, "\n", "so " * 60, "good"]
            return Picture(tuple(Segment(word, None if word.strip() != word or not word else 0.5) for word in words))

        def to_dict(self):
            return {}

    root = ElementTree.fromstring(written("svg", [Drawn()]))
    for text in root.iter("{http://www.w3.org/2000/svg}text"):
        assert float(text.get("x")) + float(text.get("textLength")) <= float(root.get("width")) - 15


def test_wrong_arguments_are_named(results):
    class Nothing(Format):
        def write(self, results, file):
            pytest.fail("wrong arguments came through")

    with pytest.raises(TypeError, match="file must be a stream of text, got str; open the file first"):
        Nothing()(results, "page.html")
    with pytest.raises(TypeError, match="results must hold results such as TextAttribution, got str"):
        Nothing()(["a fine film"], io.StringIO())


def png(results):
    stream = io.BytesIO()
    CATALOGUE.find("png", "format").make()(results, stream)
    return stream.getvalue()


def test_a_drawing_in_pixels(results, nasty):
    from matplotlib.image import imread

    pixels = imread(io.BytesIO(png(results)))
    # As wide as the longest line, at two pixels for each unit.
    assert 2 * 2 * 16 < pixels.shape[1] <= 2 * (2 * 16 + 80 * 9.6)
    scores = results[0].word_scores + results[1].word_scores
    # The paper, and bars in the colours of the signs.
    for color, wanted in (("#ffffff", True), ("#f06a60", max(scores) > 0), ("#5c96f5", min(scores) < 0)):
        rgb = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        assert bool((abs(pixels[:, :, :3] - rgb).max(axis=2) < 0.01).any()) == wanted
    assert png(results) == png(results)
    assert len(imread(io.BytesIO(png([*results, *nasty])))) > len(pixels)
    assert png([])


@pytest.mark.parametrize(
    ("name", "stream", "message"),
    [
        ("png", io.StringIO(), "file must be a stream of bytes, got StringIO; open the file first, with mode 'wb'"),
        ("text", io.BytesIO(), "file must be a stream of text, got BytesIO; open the file first, with mode 'w'"),
        ("png", "a.png", "file must be a stream of bytes, got str; open the file first, with mode 'wb'"),
    ],
)
def test_a_wrong_stream(name, stream, message, results):
    with pytest.raises(TypeError, match=message):
        CATALOGUE.find(name, "format").make()(results, stream)
