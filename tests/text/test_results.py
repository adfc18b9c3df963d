"""Results: frozen, checked, equal after a round trip through strict JSON, and whole when drawn."""

import dataclasses
import json
import math
import re
from html import escape
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from captum_dig.text.results import TextAttribution
from captum_dig.text.settings import ExplanationSettings

SETTINGS = ExplanationSettings(
    model="demo",
    strategy="greedy",
    candidates="all",
    n_anchors=2,
    n_neighbors=500,
    baseline="[PAD]",
    n_steps=50,
    method="gausslegendre",
    spacing="arc",
    output="logit",
    version="0.1.0",
)
FIELDS: dict[str, Any] = {
    "text": "Not  unkind!",
    "tokens": ("[CLS]", "not", "un", "##kind", "!", "[SEP]"),
    "offsets": ((0, 0), (0, 3), (5, 7), (7, 11), (11, 12), (0, 0)),
    "token_ids": (101, 2025, 4895, 18824, 999, 102),
    "special": (True, False, False, False, False, True),
    "token_scores": (0.0, 1.0, -0.5, -0.25, 0.125, 0.0),
    "word_offsets": ((0, 3), (5, 11), (11, 12)),
    "word_scores": (1.0, -0.75, 0.125),
    "labels": ("bad", "good"),
    "probabilities": (0.25, 0.75),
    "target": 1,
    "input_value": 0.5,
    "baseline_value": 0.25,
    "anchors": ((), ("no", "none"), ("in", "non"), ("mean", "nice"), (".", ","), ()),
    "settings": SETTINGS,
}


def result(**changes):
    return TextAttribution(**(FIELDS | changes))


def through_json(data):
    return json.loads(json.dumps(data, allow_nan=False))


@st.composite
def results(draw):
    """Draw results of any text, any scores, and words that are any slices of it."""

    def many(items, count):
        return tuple(draw(st.lists(items, min_size=count, max_size=count)))

    text = draw(st.text())
    cuts = sorted(draw(st.sets(st.integers(0, len(text)))))
    words = tuple(zip(cuts[::2], cuts[1::2], strict=False))
    n = len(words) + 2
    labels = tuple(draw(st.lists(st.text(), min_size=1, max_size=3)))
    return TextAttribution(
        text=text,
        tokens=many(st.text(), n),
        offsets=((0, 0), *words, (0, 0)),
        token_ids=many(st.integers(0), n),
        special=many(st.booleans(), n),
        token_scores=many(st.floats(), n),
        word_offsets=words,
        word_scores=many(st.floats(), len(words)),
        labels=labels,
        probabilities=many(st.floats(), len(labels)),
        target=draw(st.integers(0, len(labels) - 1)),
        input_value=draw(st.floats()),
        baseline_value=draw(st.floats()),
        anchors=many(st.lists(st.text()), n),
        settings=dataclasses.replace(SETTINGS, model=draw(st.text()), seed=draw(st.none() | st.integers(0))),
        truncated=draw(st.integers(0, 3)),
    )


@given(results())
def test_json_gives_back_an_equal_result(first):
    second = TextAttribution.from_dict(through_json(first.to_dict()))
    assert second == first
    assert hash(second) == hash(first)
    assert second.to_dict() == first.to_dict()


@given(results())
def test_every_result_can_be_drawn_and_shows_the_whole_text(drawn):
    picture = drawn.to_picture()
    assert picture.text == drawn.text
    scored = [segment for segment in picture.segments if segment.score is not None]
    assert tuple(segment.text for segment in scored) == drawn.words
    assert [row.token for row in picture.tokens] == list(drawn.tokens)
    assert drawn.to_html().endswith("</html>\n")
    assert "<section" in drawn._repr_html_()
    assert isinstance(str(drawn), str)
    assert "\n" not in repr(drawn)


def test_derived_values():
    one = result()
    assert one.words == ("Not", "unkind", "!")
    assert (one.predicted, one.predicted_label, one.predicted_probability) == (1, "good", 0.75)
    other = result(target=0)
    assert (other.target_label, other.target_probability) == ("bad", 0.25)
    assert other.predicted_label == "good"
    # 1 - 0.5 - 0.25 + 0.125 = 0.375 against 0.5 - 0.25 = 0.25.
    assert one.delta == 0.125
    assert one.delta_percent == 50.0


@pytest.mark.parametrize(("probabilities", "predicted"), [((0.5, 0.5), 0), ((math.nan, 0.1), 1), ((math.nan,) * 2, 0)])
def test_the_prediction_is_the_first_of_the_most_probable(probabilities, predicted):
    assert result(probabilities=probabilities).predicted == predicted


def test_delta_percent_where_the_output_does_not_change():
    still = {"input_value": 0.25, "baseline_value": 0.25}
    assert result(**still).delta_percent == math.inf
    assert result(**still, token_scores=(0.0,) * 6).delta_percent == 0.0


def test_results_are_frozen_and_hashable():
    one = result()
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.target = 0  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.settings.n_steps = 0  # type: ignore[misc]
    assert len({one, result(), result(target=0)}) == 2
    assert one != "Not  unkind!"


def test_nan_equals_nan_wherever_it_came_from():
    changes = {"token_scores": (float("nan"),) * 6, "input_value": float("nan")}
    again = {"token_scores": (-math.nan,) * 6, "input_value": np.float32("nan")}
    assert result(**changes) == result(**again)
    assert hash(result(**changes)) == hash(result(**again))


def test_what_is_not_finite_has_a_name_in_json():
    data = result(word_scores=(math.nan, math.inf, -math.inf), input_value=math.inf).to_dict()
    assert data["word_scores"] == ["NaN", "Infinity", "-Infinity"]
    assert data["input_value"] == "Infinity"
    assert data["derived"]["delta"] == "-Infinity"
    assert TextAttribution.from_dict(data).word_scores[1:] == (math.inf, -math.inf)


def test_a_token_called_nan_stays_a_token():
    tokens = ("NaN", "Infinity", *FIELDS["tokens"][2:])
    assert TextAttribution.from_dict(result(tokens=tokens).to_dict()).tokens == tokens


def test_json_tells_other_readers_what_follows_from_the_fields():
    assert result().to_dict()["derived"] == {
        "words": ["Not", "unkind", "!"],
        "predicted_label": "good",
        "target_label": "good",
        "delta": 0.125,
        "delta_percent": 50.0,
    }


def test_numbers_of_other_libraries_become_plain_numbers():
    scores = np.array(FIELDS["token_scores"], dtype=np.float32)
    one = result(token_scores=scores, token_ids=list(np.array(FIELDS["token_ids"])))
    assert one == result()
    assert {type(score) for score in one.token_scores} == {float}
    assert {type(token_id) for token_id in one.token_ids} == {int}


@pytest.mark.parametrize(
    ("changes", "kind", "message"),
    [
        ({"text": b"Not"}, TypeError, r"text must be a string, got b'Not'"),
        ({"tokens": "Not"}, TypeError, r"tokens must be a sequence, got 'Not'"),
        ({"token_ids": (1.5,)}, TypeError, r"token_ids\[0\] must be an integer, got 1.5"),
        ({"target": True}, TypeError, r"target must be an integer, got True"),
        ({"special": (0,)}, TypeError, r"special\[0\] must be a boolean, got 0"),
        ({"token_scores": ("1",)}, TypeError, r"token_scores\[0\] must be a number, got '1'"),
        ({"input_value": None}, TypeError, r"input_value must be a number, got None"),
        ({"offsets": ((0, 1, 2),)}, ValueError, r"offsets\[0\] must be a start and an end, got"),
        ({"anchors": ("no",)}, TypeError, r"anchors\[0\] must be a sequence, got 'no'"),
        ({"settings": {}}, TypeError, r"settings must be an ExplanationSettings, got \{\}"),
        ({"token_ids": (1, 2)}, ValueError, r"token_ids must be as long as tokens, 6, got 2"),
        ({"anchors": ()}, ValueError, r"anchors must be as long as tokens, 6, got 0"),
        ({"word_scores": (1.0,)}, ValueError, r"word_scores must be as long as word_offsets, 3"),
        ({"probabilities": (1.0,)}, ValueError, r"probabilities must be as long as labels, 2"),
        (
            {"offsets": ((0, 99),) * 6},
            ValueError,
            r"offsets must lie in the text of 12 characters, got \(0, 99\) at 0",
        ),
        (
            {"word_offsets": ((5, 11), (0, 3), (11, 12))},
            ValueError,
            r"word_offsets must be in order.* got \(0, 3\) at 1",
        ),
        (
            {"word_offsets": ((0, 3), (5, 5), (11, 12))},
            ValueError,
            r"word_offsets must be .*not empty.* got \(5, 5\) at 1",
        ),
        ({"target": 2}, ValueError, r"target must be the index of one of the 2 labels, got 2"),
        ({"target": -1}, ValueError, r"target must be the index of one of the 2 labels, got -1"),
        ({"truncated": -1}, ValueError, r"truncated must be at least 0, got -1"),
    ],
)
def test_a_field_that_does_not_fit_is_named(changes, kind, message):
    with pytest.raises(kind, match=message):
        result(**changes)


def test_a_setting_of_the_wrong_type_is_named():
    with pytest.raises(TypeError, match=r"settings.n_steps must be an integer, got '50'"):
        dataclasses.replace(SETTINGS, n_steps="50")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        (lambda data: data.pop("tokens"), ValueError, r"data must hold every field.*\['tokens'\]"),
        (lambda data: data.update(extra=1), ValueError, r"data must hold only.*got \['extra'\]"),
        (lambda data: data.update(format_version=99), ValueError, r"must have the format.*99"),
        (lambda data: data.pop("format"), ValueError, r"must have the format.*got \(None, 1\)"),
        (lambda data: data.update(settings=3), TypeError, r"settings must be a mapping, got 3"),
        (lambda data: data["settings"].pop("model"), ValueError, r"settings must hold.*'model'"),
        (lambda data: data.update(token_scores=["nan"] * 6), TypeError, r"token_scores\[0\] must"),
    ],
)
def test_json_that_is_no_result_is_refused(change, kind, message):
    data = through_json(result().to_dict())
    change(data)
    with pytest.raises(kind, match=message):
        TextAttribution.from_dict(data)


def test_json_that_is_no_mapping_is_refused():
    with pytest.raises(TypeError, match="data must be a mapping, got list; pass what to_dict gave"):
        TextAttribution.from_dict([])  # type: ignore[arg-type]


def test_the_picture_says_what_was_explained_and_how():
    picture = result(target=0, settings=dataclasses.replace(SETTINGS, seed=7)).to_picture()
    assert picture.headline == (
        ("Predicted", "good (75.0 %)"),
        ("Explained", "logit of bad (25.0 %)"),
        ("Delta", "0.12 (50 % of the difference): large, so raise n_steps above 50 or try another baseline"),
    )
    assert picture.numbers == (("Output", "0.5 (0.25 at the baseline)"),)
    assert picture.footing.startswith(f"{SETTINGS.strategy}, seed 7; baseline {SETTINGS.baseline}; 50 gradients")
    assert ("seed", "7") in picture.settings
    assert [segment.text for segment in picture.segments] == ["Not", "  ", "unkind", "!"]
    assert [segment.score for segment in picture.segments] == [1.0, None, -0.75, 0.125]


def test_what_the_model_did_not_read_is_shown_and_noted():
    cut = result(text="Not  unkind! At all.", truncated=3)
    picture = cut.to_picture()
    assert picture.segments[-1].text == "At all."
    assert picture.segments[-1].note == "cut off: the model did not read this"
    assert picture.headline[-1] == ("Cut off", "3 tokens beyond the model's limit")
    assert "At all. [cut off: the model did not read this]" in str(cut)


def test_a_text_without_words():
    empty = result(text=" ", word_offsets=(), word_scores=(), offsets=((0, 0),) * 6)
    assert empty.words == ()
    assert empty.to_picture().text == " "
    assert "All 6 scores" in empty.to_html()


def test_html_is_written_as_utf8(tmp_path):
    path = tmp_path / "page.html"
    page = result(text="Not  ünkind!").to_html(path)
    assert path.read_bytes().decode("utf-8") == page
    assert "ünkind" in page
    assert result().to_html(str(path)) == path.read_text(encoding="utf-8")


def test_html_shows_the_words_of_the_path():
    page = result(anchors=((), ("<mask>", "none"), *FIELDS["anchors"][2:])).to_html()
    assert f"<bdi>{escape('<mask>')}</bdi> → <bdi>none</bdi>" in page


def test_repr_is_one_line_and_str_is_readable():
    assert repr(result()) == ("TextAttribution('Not  unkind!', explained='good', words=3, delta_percent=50)")
    assert len(repr(result(text="Not  unkind!" + " more" * 99))) < 150
    assert "Not[+++]  unkind[--]!" in str(result())
    assert re.search(r"^\+1\.000 █+ Not$", str(result()), re.MULTILINE)


def test_the_record_for_captum_holds_the_words():
    record = result().to_captum(true_label="good")
    assert record.raw_input_ids == ["Not", "unkind", "!"]
    assert record.word_attributions.tolist() == [1.0, -0.75, 0.125]
    assert (record.pred_class, record.attr_class, record.true_class) == ("good", "good", "good")
    assert (record.pred_prob, record.attr_score, record.convergence_score) == (0.75, 0.375, 0.125)


@pytest.mark.parametrize(("score", "large"), [(1.0, True), (0.01, False), (math.nan, False)])
def test_a_large_delta_is_pointed_out(score, large):
    scores = (0.0, 0.25 + score * 0.25, 0.0, 0.0, 0.0, 0.0)
    found = result(token_scores=scores)
    picture = found.to_picture()
    # A large one stands above the words.
    shown = dict(picture.headline if large else picture.numbers)["Delta"]
    assert shown.endswith(": large, so raise n_steps above 50 or try another baseline") == large
    assert ("large, so raise n_steps" in str(found)) == large
    assert ("large, so raise n_steps" in found.to_html()) == large
