"""The files that pages are made of: all are shipped, and stand in the pages as they are."""

import base64
import hashlib
import re
from pathlib import Path

import pytest

import captum_dig
from captum_dig.comparison import report_page
from captum_dig.datasets import summarize, summary_page
from captum_dig.study import StudyItem, make_study
from captum_dig.visualization import Picture, Segment, html_fragment, html_page
from captum_dig.visualization.sources import read_source
from tests.comparison.test_results import made_up
from tests.datasets.test_summary import row

PACKAGE = Path(captum_dig.__file__).parent
SOURCES = sorted(path for kind in ("html", "css", "js") for path in PACKAGE.rglob(f"*.{kind}"))


def pages():
    words = (Segment("so $light ${ink} \\\\", 0.5), Segment(" "), Segment("bad", -1.0))
    picture = Picture(words, headline=(("Explained", "$title"),))
    study = make_study([StudyItem("$style", {"a": words, "b": (*words[:2], Segment("bad", 0.1))})], seed=0)
    return {
        "page": html_page([picture], title="$sections"),
        "fragment": html_fragment(picture),
        "report": report_page(made_up(2)),
        "study": study.page,
        "summary": summary_page(summarize([row(["$style", "so"], [1.0, -0.5])])),
    }


@pytest.fixture(scope="module")
def drawn():
    return pages()


def test_every_source_is_read_and_wanted_in_the_wheel():
    assert len(SOURCES) == 9
    checks = (PACKAGE.parent / ".ci" / "run").read_text("utf-8")
    for path in SOURCES:
        name = path.relative_to(PACKAGE)
        text = read_source(f"captum_dig.{'.'.join(name.parts[:-1])}", name.name)
        assert text == path.read_text("utf-8")
        assert text.endswith("\n")
        assert not text.startswith("\n")
        assert f'"{name.as_posix()}"' in checks


@pytest.mark.parametrize("source", [path for path in SOURCES if path.suffix in (".css", ".js")], ids=lambda p: p.name)
def test_a_style_sheet_or_script_stands_in_a_page_as_it_is(drawn, source):
    parts = re.split(r"\$(?:light|dark)\b", source.read_text("utf-8"))
    pattern = r"[^{}]+".join(map(re.escape, parts))
    assert any(re.search(pattern, page) for page in drawn.values())


def test_dollar_signs_of_texts_and_names_are_no_placeholders(drawn):
    assert "so $light ${ink} \\\\" in drawn["page"]
    assert "<title>$sections</title>" in drawn["page"]
    assert "<dd><bdi>$title</bdi></dd>" in drawn["fragment"]
    assert "<bdi>$style</bdi>" in drawn["study"]


def test_the_policy_of_a_study_knows_its_script(drawn):
    (script,) = re.findall(r"<script>(.*?)</script>", drawn["study"], re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in drawn["study"]
