"""JSON that another program wrote, or that a fault has changed: read as it is, or refused with the name of a field."""

import json
import re
import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from captum_dig.comparison import ComparedText, Comparison, ComparisonSettings
from captum_dig.comparison.report import report_page
from captum_dig.study import StudyKey, score_study
from captum_dig.text.results import TextAttribution
from tests.comparison.test_results import made_up
from tests.study.test_sheets import answers_of
from tests.text.test_results import result

COMPARISON = made_up(2, methods=("integrated_gradients", "random"), baselines=("pad",))
KEY = StudyKey("s", 0, ("mine", "other"), (("other", "mine"), ("mine", "other")))


def read_answers(data):
    return score_study(KEY, [data], n_resamples=5)


def use_text(found):
    str(found)
    repr(found)
    found.to_html()
    found.to_captum()
    found.to_dict()


def use_comparison(found):
    str(found)
    repr(found)
    found.disagreements()
    found.to_dict()


def nested(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value


# What is read, by which function, and what may be done with it afterwards.
DOCUMENTS = {
    "text": (result().to_dict(), TextAttribution.from_dict, use_text),
    "comparison": (COMPARISON.to_dict(), Comparison.from_dict, use_comparison),
    "settings": (COMPARISON.settings.to_dict(), ComparisonSettings.from_dict, repr),
    "compared text": (COMPARISON.texts[0].to_dict(), ComparedText.from_dict, ComparedText.to_dict),
    "key": (KEY.to_dict(), StudyKey.from_dict, StudyKey.to_dict),
    "answers": (answers_of(KEY, lambda _: ["mine", "other"], "ann"), read_answers, str),
}


def strange():
    """New ones each time: documents hold them, and are changed once more."""
    return [
        None,
        True,
        0,
        -1,
        1.5,
        2**63,
        10**400,
        -(10**400),
        1e308,
        float("nan"),
        float("inf"),
        "NaN",
        "Infinity",
        "-Infinity",
        "",
        "\x1b[31m",
        "\ud800",
        "9" * 5000,
        [],
        {},
        [None],
        [[]],
        {"": None},
        {"text": {}},
        nested(2000),
    ]


def places(value, path=()):
    """Every place in a document, but for what is nested absurdly."""
    yield path
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children if len(path) < 8 else ():
        yield from places(child, (*path, key))


def at(data, path):
    for key in path:
        data = data[key]
    return data


def mutated(data, draw):
    """A document with one change."""
    path = draw(st.sampled_from(sorted(places(data), key=repr)))
    change = draw(st.sampled_from(["replace", "replace", "remove", "repeat", "rename", "move"]))
    if not path:
        return strange()[draw(st.integers(0, len(strange()) - 1))]
    parent, key = at(data, path[:-1]), path[-1]
    if change == "replace":
        parent[key] = strange()[draw(st.integers(0, len(strange()) - 1))]
    elif change == "remove":
        del parent[key]
    elif change == "repeat" and isinstance(parent, list):
        parent.insert(key, parent[key])
    elif change == "rename" and isinstance(parent, dict):
        parent[draw(st.sampled_from(["x", "", "\x1b", 3, None]))] = parent.pop(key)
    elif change == "move":
        document, _, _ = DOCUMENTS[draw(st.sampled_from(sorted(DOCUMENTS)))]
        parent[key] = json.loads(json.dumps(at(document, draw(st.sampled_from(sorted(places(document), key=repr))))))
    return data


# A message names an argument or a field, what it must be, and what it got.
GRAMMAR = re.compile(r".* (?:must|has) .*", re.DOTALL)


def check(data, read, use):
    try:
        found = read(data)
    except (TypeError, ValueError) as error:
        refused = str(error)
    else:
        use(found)
        return True
    assert GRAMMAR.match(refused)
    assert len(refused) < 1000
    return False


@pytest.mark.parametrize("kind", DOCUMENTS)
def test_what_is_whole_is_read(kind):
    data, read, use = DOCUMENTS[kind]
    assert check(json.loads(json.dumps(data)), read, use)


@pytest.mark.parametrize("kind", DOCUMENTS)
@settings(max_examples=150)
@given(data=st.data())
def test_what_is_changed_is_read_or_refused_by_name(kind, data):
    document, read, use = DOCUMENTS[kind]
    document = json.loads(json.dumps(document))
    for _ in range(data.draw(st.integers(1, 2))):
        document = mutated(document, data.draw)
    check(document, read, use)


@pytest.mark.parametrize("kind", DOCUMENTS)
def test_every_field_takes_every_strange_value_or_names_itself(kind):
    document, read, _ = DOCUMENTS[kind]
    text = json.dumps(document)
    document = json.loads(text)
    n_read = 0
    for path in places(document):
        if len(path) > 4 or (kind == "comparison" and any(isinstance(step, int) and step for step in path)):
            continue
        for value in strange():
            data = json.loads(text)
            if path:
                at(data, path[:-1])[path[-1]] = value
            else:
                data = value
            # Reading alone, which is quick.
            n_read += check(data, read, lambda _: None)
    assert n_read


@pytest.mark.parametrize("value", [-1e308, "Infinity", "NaN", 1e-320])
def test_reports_of_strange_numbers_are_drawn(value):
    data = json.loads(json.dumps(COMPARISON.to_dict()))
    for one in data["texts"][0]["measurements"]:
        one["values"] = {name: [value] * len(numbers) for name, numbers in one["values"].items()}
        one |= {"word_scores": [value, 0.5], "seconds": value, "curve": [value] * len(one["curve"])}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = Comparison.from_dict(data)
        use_comparison(found)
        assert "</html>" in report_page(found)
