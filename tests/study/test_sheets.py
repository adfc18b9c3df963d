"""The ranking sheet hides whose explanation is whose, and its answers come back as ranks."""

import base64
import hashlib
import json
import math
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from captum_dig.study import StudyItem, StudyKey, make_study, score_study
from captum_dig.visualization import Segment, visible

METHODS = ("zebra-method", "yak-method", "xerus-method")
HOSTILE = (
    "</script><img src=x onerror=alert(1)>",
    "\"><script>alert('1')</script>",
    "</textarea></form><!--",
    "&lt;b&gt; &amp",
    "\x1b[31mred\x07",
    "\u202egnp.exe",
    "nul\x00",
    "\ud800",
)


def item(*words, decision="POSITIVE", methods=METHODS):
    """Each method gives the words its own scores."""
    return StudyItem(
        decision,
        {m: tuple(Segment(w, (j + i) % 3 - 1.0) for j, w in enumerate(words)) for i, m in enumerate(methods)},
    )


def items(n, methods=METHODS):
    return [item("good", f"film{i}", "bad", methods=methods) for i in range(n)]


def answers_of(key, prefer, participant="p", **others):
    """Answer as a person would who ranks methods by `prefer(sentence) -> methods, best first`; None for no answer."""
    ranks = []
    for i, order in enumerate(key.orders):
        best_first = prefer(i)
        ranks.append([None if best_first is None else best_first.index(method) + 1 for method in order])
    head = {"format": "captum_dig.StudyAnswers", "format_version": 1, "study": key.study}
    return {**head, "participant": participant, "name": "", "revision": 1, "ranks": ranks, **others}


class Reader(HTMLParser):
    """Read a page as a browser would."""

    def __init__(self, page):
        super().__init__(convert_charrefs=True)
        self.elements, self.attributes, self.radios, self.texts, self.decisions, self.form = [], set(), {}, [], [], {}
        self.open = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.elements.append(tag)
        self.attributes |= set(values)
        if values.get("type") == "radio":
            self.radios.setdefault(values["name"], []).append(int(values["value"]))
        if tag == "form":
            self.form = values
        if values.get("class") == "text":
            self.texts.append("")
        if tag not in ("meta", "input", "br"):
            self.open.append((tag, values.get("class")))

    def handle_endtag(self, tag):
        assert self.open.pop()[0] == tag

    def handle_data(self, data):
        if ("p", "text") in self.open:
            self.texts[-1] += data
        if self.open and self.open[-1][0] == "bdi" and ("p", "unseen") not in self.open:
            self.decisions.append(data)


def read(page):
    reader = Reader(page)
    assert reader.open == []
    return reader


# the page -----------------------------------------------------------------------------------------


def test_the_page_names_no_method_and_shows_none_in_its_place():
    study = make_study(items(20), seed=3)
    for method in METHODS:
        assert method not in study.page
        assert method.split("-")[0] not in study.page
    # Nor can the orders be derived: other names for the same pictures give the same page.
    renamed = {method: f"other{i}" for i, method in enumerate(METHODS)}
    other = make_study(items(20, methods=tuple(renamed.values())), seed=3)
    assert other.page == study.page
    assert other.key.orders == tuple(tuple(renamed[m] for m in order) for order in study.key.orders)
    assert "seed" not in study.page


def test_orders_are_drawn_for_each_sentence_and_follow_the_seed():
    orders = make_study(items(60), seed=0).key.orders
    assert orders == make_study(items(60), seed=0).key.orders != make_study(items(60), seed=1).key.orders
    first = [order[0] for order in orders]
    assert all(10 <= first.count(method) <= 30 for method in METHODS)
    assert len(set(orders)) == 6


def test_pictures_stand_in_the_order_of_the_key():
    pictures = {
        name: (Segment("a", score), Segment("b", 1.0)) for name, score in zip(METHODS, (0.25, 0.5, -0.75), strict=True)
    }
    study = make_study([StudyItem("X", pictures)] * 8, seed=0)
    shown = {"0.250": METHODS[0], "0.500": METHODS[1], "0.750": METHODS[2]}
    strengths = [s for s in re.findall(r"--s:([\d.]+)", study.page) if s in shown]
    assert [shown[s] for s in strengths] == [method for order in study.key.orders for method in order]


def test_the_page_shows_every_text_its_decision_and_a_rank_for_each():
    reader = read(make_study(items(2), seed=0).page)
    assert reader.texts == ["goodfilm0bad"] * 3 + ["goodfilm1bad"] * 3
    assert reader.decisions == ["POSITIVE"] * 2
    assert reader.radios == {f"r{i}-{letter}": [1, 2, 3] for i in (1, 2) for letter in "ABC"}
    assert reader.elements.count("fieldset") == reader.elements.count("legend") == 6


def test_the_page_needs_nothing_else_and_runs_only_its_own_script():
    page = make_study(items(1), seed=0).page
    assert not re.search(r"https?:|url\(|@import|src=|innerHTML|eval\(|document\.write", page)
    scripts = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    assert len(scripts) == 1
    digest = base64.b64encode(hashlib.sha256(scripts[0].encode()).digest()).decode()
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1]
    assert policy.startswith("default-src 'none';")
    assert f"script-src 'sha256-{digest}'" in policy
    assert "prefers-color-scheme:dark" in page
    assert not any(name.startswith("on") for name in read(page).attributes)


def test_every_element_that_the_script_asks_for_is_there():
    page = make_study(items(1), seed=0).page
    names = set(re.findall(r'byId\("(\w+)"\)', page))
    assert len(names) > 8
    assert all(len(re.findall(f' id="{name}"', page)) == 1 for name in names)


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_text(text):
    page = make_study([item(text, "word", text, decision=text)], seed=0).page
    page.encode("utf-8")
    reader = read(page)
    assert reader.texts == [visible(text) + "word" + visible(text)] * 3
    assert reader.decisions == [visible(text)]
    assert page.count("<script") == 1
    assert "img" not in reader.elements


@given(st.lists(st.tuples(st.text(), st.none() | st.floats()), min_size=1), st.text())
def test_any_text_and_scores_make_a_page(pairs, decision):
    segments = tuple(Segment(text, score, note="secret") for text, score in pairs)
    page = make_study([StudyItem(decision, {"m1": segments, "m2": segments})], seed=0).page
    assert read(page).texts == ["".join(visible(text) for text, _ in pairs)] * 2
    assert "secret" not in page


def test_colours_are_relative_and_told_in_words():
    segments = (
        Segment("great", 4.0),
        Segment(" "),
        Segment("dull", -1.0),
        Segment("the", 0.01),
        Segment("x", math.nan),
    )
    page = make_study([StudyItem("X", {"m1": segments, "m2": segments})], seed=0).page
    assert '<mark class="for" style="--s:1.000">great</mark>' in page
    assert '<mark class="against" style="--s:0.250">dull</mark>the<mark class="broken">x</mark>' in page
    assert "strongest first: <bdi>great</bdi> for, 100%; <bdi>dull</bdi> against, 25%.</p>" in page
    assert "Hatched" in page
    plain = make_study([StudyItem("X", {"m1": (Segment("a", 0.0),), "m2": (Segment("a"),)})], seed=0).page
    assert "No word is highlighted." in plain
    assert "Hatched" not in plain


def test_what_is_shown_makes_the_id():
    ids = [make_study(items(n), seed=seed).key.study for n, seed in ((6, 0), (6, 1), (7, 0))]
    assert len(set(ids)) == 3
    assert make_study(items(6), seed=0).key.study == ids[0]
    # Not the seed, from which the orders would follow.
    alike = [StudyItem("X", {"m1": (Segment("a", 1.0),), "m2": (Segment("a", 1.0),)})] * 6
    assert make_study(alike, seed=0).page == make_study(alike, seed=1).page


def test_wrong_items_are_refused():
    good, other = (Segment("good", 1.0),), (Segment("other", 1.0),)
    with pytest.raises(ValueError, match="pictures must show 2 to 26 methods, got 1; pass one picture"):
        StudyItem("X", {"m": good})
    with pytest.raises(ValueError, match="pictures must be of one text, got .'good', 'other'.; explain the same"):
        StudyItem("X", {"m": good, "n": other})
    with pytest.raises(TypeError, match="segments must hold Segments, got 'good'"):
        StudyItem("X", {"m": ("good",), "n": good})
    with pytest.raises(TypeError, match="pictures must be a mapping, got list; name the methods"):
        StudyItem("X", [good, good])
    with pytest.raises(TypeError, match="decision must be a string, got 1"):
        StudyItem(1, {"m": good, "n": good})
    with pytest.raises(ValueError, match="items must hold at least one sentence, got none"):
        make_study([], seed=0)
    with pytest.raises(TypeError, match=r"items\[0\] must be a StudyItem, got str; wrap it"):
        make_study(["good"], seed=0)
    with pytest.raises(ValueError, match=r"items\[1\] must have the methods \['m', 'n'\], got \['m', 'o'\]; explain"):
        make_study([StudyItem("X", {"m": good, "n": good}), StudyItem("X", {"m": good, "o": good})], seed=0)
    with pytest.raises(ValueError, match="seed must be at least 0, got -1"):
        make_study(items(1), seed=-1)
    with pytest.raises(TypeError, match="seed must be an integer, got 0.5"):
        make_study(items(1), seed=0.5)


# the key ------------------------------------------------------------------------------------------


def test_the_key_comes_back_from_json():
    key = make_study(items(4), seed=5).key
    assert key.seed == 5
    assert StudyKey.from_dict(json.loads(json.dumps(key.to_dict(), allow_nan=False))) == key


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"format": "x"}, ValueError, r"data must have the format .*StudyKey', 1\), got \('x', 1\); pass the key"),
        ({"format_version": 2}, ValueError, r"got \('captum_dig.StudyKey', 2\)"),
        ({"more": 1}, ValueError, r"data must hold only the fields of a result, got \['more'\]"),
        ({"seed": "0"}, TypeError, "seed must be an integer, got '0'"),
        ({"orders": []}, ValueError, "orders must hold at least one sentence, got none"),
        ({"orders": [["a", "a"]]}, ValueError, r"orders\[0\] must hold each method once, got \('a', 'a'\)"),
        ({"methods": ["a"]}, ValueError, r"methods must be at least 2 different names, got \('a',\)"),
    ],
)
def test_a_wrong_key_is_refused(change, error, message):
    data = StudyKey("id", 0, ("a", "b"), (("b", "a"),)).to_dict()
    with pytest.raises(error, match=message):
        StudyKey.from_dict(data | change)


def test_a_key_that_is_no_mapping_is_refused():
    with pytest.raises(TypeError, match="data must be a mapping, got list; pass the key"):
        StudyKey.from_dict([])


# scores -------------------------------------------------------------------------------------------


def test_answers_written_as_the_page_does_find_the_methods_again():
    """Answer by what the page shows, not by the key."""
    study = make_study(items(5), seed=2)
    reader = read(study.page)
    form = reader.form
    # A person who likes the explanation whose first word is reddest, then the one without colour there.
    looks = [
        re.match(r"[^<]*<mark class=\"(\w+)\"", text) for text in re.findall(r'class="text"[^>]*>(.*)', study.page)
    ]
    likes = {"for": 1, None: 2, "against": 3}
    first = [m[1] if m and m[0].startswith("<") else None for m in looks]
    ranks = [[likes[look] for look in first[i : i + 3]] for i in range(0, 15, 3)]
    head = {"format": form["data-format"], "format_version": int(form["data-version"]), "study": form["data-study"]}
    answer = {**head, "participant": "0" * 32, "name": "Ann", "revision": 1, "ranks": ranks}
    score = score_study(StudyKey.from_dict(study.key.to_dict()), [json.loads(json.dumps(answer))])
    # The first word has the scores -1, 0 and 1.
    assert [mean.mean for mean in score.mean_ranks] == [3.0, 2.0, 1.0]


def test_a_method_that_is_always_first_is_found():
    key = make_study(items(20), seed=0).key
    generator = np.random.default_rng(0)

    def prefer(_):
        return [METHODS[1], *generator.permutation([METHODS[0], METHODS[2]])]

    score = score_study(key, [answers_of(key, prefer, f"p{i}") for i in range(4)])
    best = score.mean_ranks[1]
    assert (best.mean, best.low, best.high, best.n) == (1.0, 1.0, 1.0, 20)
    assert score.p_value == 1 / 10_001
    p = {(c.first, c.second): c.adjusted_p_value for c in score.comparisons}
    assert p[METHODS[0], METHODS[1]] < 0.001
    assert p[METHODS[1], METHODS[2]] < 0.001
    assert p[METHODS[0], METHODS[2]] > 0.1
    assert score.comparisons[0].difference.low > 0
    assert (score.n_participants, score.n_sentences, score.n_rankings, score.n_unranked) == (4, 20, 80, 0)
    # They agree on the first place, and by chance on the others.
    assert 0.75 < score.agreement < 1


def test_random_answers_are_significant_as_often_as_the_level_says():
    key = make_study(items(15), seed=0).key
    generator = np.random.default_rng(1)
    p_values, pairs = [], []
    for _ in range(200):
        people = [answers_of(key, lambda _: list(generator.permutation(METHODS)), f"p{i}") for i in range(2)]
        score = score_study(key, people, n_resamples=199)
        p_values.append(score.p_value)
        pairs.append(min(c.adjusted_p_value for c in score.comparisons))
    assert 0.01 <= np.mean(np.array(p_values) <= 0.05) <= 0.1
    assert np.mean(np.array(pairs) <= 0.05) <= 0.1
    assert 0.4 < np.mean(p_values) < 0.6


def test_mean_ranks_and_agreement_of_a_small_example_by_hand():
    key = StudyKey("id", 0, ("a", "b", "c"), (("c", "a", "b"), ("a", "b", "c")))
    first = (["a", "b", "c"], ["a", "c", "b"], ["b", "a", "c"])
    people = [answers_of(key, lambda i, p=p: first[p] if i == 0 else ["c", "b", "a"], f"p{p}") for p in range(3)]
    score = score_study(key, people)
    # Sentence 1: sums 4, 6, 8; sentence 2: all alike, 9, 6, 3.
    assert [mean.mean for mean in score.mean_ranks] == pytest.approx([(4 / 3 + 3) / 2, 2.0, (8 / 3 + 1) / 2])
    # W = 12 * ((4 - 6)² + 0 + (8 - 6)²) / (3² * (3³ - 3)) = 4 / 9, and 1.
    assert score.agreement == pytest.approx((4 / 9 + 1) / 2)
    # Differences of a and b: -2/3 and 1. Both signs: all four sums are at least as far from 0 as 1/3.
    assert score.comparisons[0].difference.mean == pytest.approx(1 / 6)
    assert score.comparisons[0].p_value == 1.0
    assert (score.n_participants, score.n_sentences, score.n_rankings) == (3, 2, 6)


def test_the_omnibus_test_of_a_small_example_by_hand():
    # Three sentences, all alike: of 6³ ways to permute, the 6 that permute all alike are as extreme.
    key = StudyKey("id", 0, ("a", "b", "c"), (("c", "a", "b"),) * 3)
    score = score_study(key, [answers_of(key, lambda _: ["a", "b", "c"])])
    assert score.p_value == pytest.approx(1 / 36, abs=0.005)
    # Of 2³ signs, two are as extreme; Holm multiplies by three.
    assert [c.p_value for c in score.comparisons] == [0.25] * 3
    assert [c.adjusted_p_value for c in score.comparisons] == [0.75] * 3
    assert math.isnan(score.agreement)
    assert "Kendall's W: none to measure" in str(score)


def test_partial_answers_count_where_they_are_whole():
    key = StudyKey("id", 0, ("a", "b"), (("a", "b"), ("b", "a"), ("a", "b"), ("a", "b")))
    people = [
        answers_of(key, lambda i: None if i == 0 else ["a", "b"], "p0"),
        answers_of(key, lambda i: ["b", "a"] if i == 1 else None, "p1"),
    ]
    people[0]["ranks"][2] = [2, 2]
    people[1]["ranks"][3] = [1, None]
    score = score_study(key, people)
    # Sentence 2: both, of two opinions; sentence 4: the first person only.
    assert [mean.mean for mean in score.mean_ranks] == [1.25, 1.75]
    assert (score.n_sentences, score.n_rankings, score.n_unranked) == (2, 3, 5)
    assert score.agreement == 0.0


def test_the_latest_answers_of_a_person_count():
    key = StudyKey("id", 0, ("a", "b"), (("a", "b"),))
    early = answers_of(key, lambda _: ["b", "a"], revision=1)
    late = answers_of(key, lambda _: ["a", "b"], revision=2)
    for files in ([early, late], [late, early], [late, early, late]):
        score = score_study(key, files)
        assert [mean.mean for mean in score.mean_ranks] == [1.0, 2.0]
        assert (score.n_participants, score.n_superseded) == (1, len(files) - 1)


def test_two_latest_answers_of_a_person_are_refused():
    key = StudyKey("id", 0, ("a", "b"), (("a", "b"),))
    files = [answers_of(key, lambda _, order=order: order, revision=3) for order in (["a", "b"], ["b", "a"])]
    with pytest.raises(ValueError, match=r"answers\[1\] must be later or earlier than answers\[0\] of the same person"):
        score_study(key, files)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"format": "captum_dig.StudyKey"}, ValueError, r"answers\[1\] must have the format .*; pass what the page"),
        (
            {"format_version": 2},
            ValueError,
            r"answers\[1\] must have the format .* got \('captum_dig.StudyAnswers', 2\)",
        ),
        (
            {"study": "other"},
            ValueError,
            r"answers\[1\] must be of the study 'id', got 'other'; pass the key of its page",
        ),
        ({"more": 1}, ValueError, r"answers\[1\] must hold only the fields .* got \['more'\]; remove"),
        ({"participant": 3}, TypeError, r"answers\[1\]\['participant'\] must be a string, got 3"),
        ({"revision": "1"}, TypeError, r"answers\[1\]\['revision'\] must be an integer, got '1'"),
        ({"ranks": "12"}, TypeError, r"answers\[1\]\['ranks'\] must be a sequence, got '12'"),
        ({"ranks": [[1, 3]]}, ValueError, r"answers\[1\]\['ranks'\]\[0\]\[1\] must be in \[1, 2\], got 3; leave"),
        ({"ranks": [[0, 1]]}, ValueError, r"\['ranks'\]\[0\]\[0\] must be in \[1, 2\], got 0"),
        ({"ranks": [[1.5, 1]]}, TypeError, r"\['ranks'\]\[0\]\[0\] must be an integer, got 1.5"),
        ({"ranks": [[True, 2]]}, TypeError, r"\['ranks'\]\[0\]\[0\] must be an integer, got True"),
        ({"ranks": [[1]]}, ValueError, r"answers\[1\]\['ranks'\] must have the lengths \[2\], got \[1\]; leave"),
        ({"ranks": []}, ValueError, r"must have the lengths \[2\], got \[\]"),
    ],
)
def test_a_wrong_answer_file_is_named(change, error, message):
    key = StudyKey("id", 0, ("a", "b"), (("a", "b"),))
    good = answers_of(key, lambda _: ["a", "b"], "p0")
    with pytest.raises(error, match=message):
        score_study(key, [good, answers_of(key, lambda _: ["a", "b"], "p1") | change])


def test_answers_that_lack_something_are_refused():
    key = StudyKey("id", 0, ("a", "b"), (("a", "b"),))
    answer = answers_of(key, lambda _: ["a", "b"])
    with pytest.raises(ValueError, match=r"answers\[0\] must hold every field, got none of \['ranks'\]"):
        score_study(key, [{name: value for name, value in answer.items() if name != "ranks"}])
    with pytest.raises(TypeError, match=r"answers\[0\] must be a mapping, got list; pass what the page"):
        score_study(key, [[answer]])
    with pytest.raises(ValueError, match="answers must rank at least one sentence, got none in 1 files"):
        score_study(key, [answers_of(key, lambda _: None)])
    with pytest.raises(ValueError, match="answers must rank at least one sentence, got none in 0 files"):
        score_study(key, [])
    with pytest.raises(ValueError, match="n_resamples must be an integer of at least 1, got 0"):
        score_study(key, [answer], n_resamples=0)


def test_the_table_is_plain_and_puts_the_best_first():
    key = StudyKey("id", 0, ("a\x1b[31m", "b"), (("b", "a\x1b[31m"),) * 6)
    people = [answers_of(key, lambda _: ["b", "a\x1b[31m"], f"p{i}") for i in range(2)]
    assert str(score_study(key, people)).split("\n") == [
        "2 participants, 6 sentences, 12 rankings (0 not ranked)",
        "method         mean rank, 95 % interval",
        "b              1.000 [1.000, 1.000]",
        r"a\x1b[31m      2.000 [2.000, 2.000]",
        "difference                               p (Holm)",
        r"a\x1b[31m - b  1.000 [1.000, 1.000]      0.031",
        "all methods alike: p = 0.031",
        "agreement of participants, Kendall's W: 1.00",
    ]
