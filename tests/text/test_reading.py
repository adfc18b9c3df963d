"""What is passed as texts, baselines and labels: what is meant is taken, and what may mean two things is refused."""

import re
from collections import UserDict

import pytest
import torch

from captum_dig import TextExplainer, compare
from tests.tiny_models import tiny_classifier, tiny_tokenizer

TEXT = "a gorgeous, witty movie"
QUICK = {"n_anchors": 4, "n_neighbors": 12}


@pytest.fixture(scope="module")
def explainer(classifier, tokenizer):
    return TextExplainer(classifier, tokenizer, **QUICK)


# texts ---------------------------------------------------------------------------------------------


class Table:
    """Iterates over its columns' names, as a table of pandas does."""

    columns = ("text", "label")

    def __iter__(self):
        return iter(self.columns)


NO_TEXTS = [
    (UserDict({"input_ids": [1]}), "got UserDict with 'input_ids'; pass the text itself, which is encoded here"),
    ({"text": ["good", "bad"], "label": [1, 0]}, "with 'text', 'label'; pass its strings, such as texts['text']"),
    ({"label": [1], "review": ["good"]}, "such as texts['review']"),
    ({"body": ["good"]}, "such as texts['body']"),
    ({}, "got dict with nothing"),
    (Table(), "got Table with 'text', 'label'; pass its strings, such as texts['text']"),
    ({"good", "bad"}, "texts must have an order, got a set; pass a list, such as sorted(texts)"),
    (frozenset({"good"}), "texts must have an order, got a frozenset"),
    (("good", "bad"), "got a tuple of two; pass a list of two texts, or for a pair that the model reads together a "),
    ([("good", "bad")], "the text must be a string, got a tuple of 2; pass for example {'text': '...', 'text_pair'"),
    (["good", ["bad"]], "texts[1] must be a string, got a list of 1"),
    ([{"review": "good"}], "the text must have 'text', got dict with 'review'; pass its strings, such as "),
    ([{"text": "good", "label": "1"}], "must have no other fields than 'text' and 'text_pair', got 'label' too"),
    (["a", {"text": "good", "text_pair": None}], "'text_pair' of texts[1] must be a string, got NoneType; pass one"),
    (b"good", "got bytes"),
    (["good", b"bad"], "texts[1] must be a string, got bytes"),
    (["good", None], "texts[1] must be a string, got NoneType"),
    (["good", float("nan")], "texts[1] must be a string, got float"),
    (7, "texts must be a string or a sequence of strings, got int"),
]


@pytest.mark.parametrize(("texts", "message"), NO_TEXTS)
def test_what_is_no_text_is_refused_with_what_to_pass(explainer, texts, message):
    with pytest.raises(TypeError, match=re.escape(message)):
        explainer.explain(texts)
    with pytest.raises(TypeError, match=re.escape(message)):
        explainer.explain_each(texts)
    with pytest.raises(TypeError, match=re.escape(message)):
        compare(explainer, texts, ["random"])


def test_one_sample_is_no_sequence(explainer):
    for call in (explainer.explain_each, lambda texts: compare(explainer, texts, ["random"])):
        with pytest.raises(TypeError, match="got dict of strings; put it into a list"):
            call({"text": "good", "text_pair": "bad"})
        with pytest.raises(TypeError, match="got one string; put it into a list"):
            call("good")


@pytest.mark.parametrize(
    ("texts", "fields", "message"),
    [
        (None, {}, "texts must be a string, or a sequence of these, got nothing"),
        ("good", {"n_step": 3}, "explain has no argument 'n_step'; the fields of a text are 'text', 'text_pair'"),
        (["good"], {"text_pair": "bad"}, "texts must be one string beside 'text_pair', got list"),
        (None, {"text_pair": "bad"}, "the text must have 'text', got dict with 'text_pair'"),
    ],
)
def test_fields_by_name(explainer, texts, fields, message):
    with pytest.raises(TypeError, match=re.escape(message)):
        explainer.explain(texts, **fields)


def test_an_argument_that_neither_the_explainer_nor_its_task_has(classifier, tokenizer):
    with pytest.raises(TypeError, match="the task, output, fields for LabelTask, got 'n_anchor'"):
        TextExplainer(classifier, tokenizer, n_anchor=4)
    with pytest.raises(ValueError, match="task must be one of .*'labels'.* got 'label'; or 'auto'"):
        TextExplainer(classifier, tokenizer, task="label")
    with pytest.raises(ValueError, match="fields must be one of 'text', 'text_pair', got 'premise'"):
        TextExplainer(classifier, tokenizer, fields="premise")
    with pytest.raises(ValueError, match="fields must name at least one of text, text_pair, got none"):
        TextExplainer(classifier, tokenizer, fields=[])


@pytest.mark.parametrize(
    "texts", [["good", "bad"], ("good", "bad", "dull"), dict.fromkeys(["good", "bad"]).keys(), {1: "good"}.values()]
)
def test_texts_that_have_an_order(explainer, texts):
    assert [result.text for result in explainer.explain(texts, n_steps=8)] == list(texts)


# baselines -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def demo():
    return TextExplainer.demo(**QUICK)


@pytest.mark.parametrize(
    ("baseline", "meant"),
    [
        ("zero", "an embedding of zeros"),
        ("Zero", "an embedding of zeros"),
        ("mean", "the mean of all embeddings"),
        ("average", "the mean of all embeddings"),
        ("random", "random embeddings"),
        ("uniform", "random embeddings"),
        ("empty", "an empty text"),
        ("none", "an empty text"),
        ("Even", "the baseline nearest to even odds"),
    ],
)
def test_a_word_that_names_a_kind_of_baseline(demo, baseline, meant):
    vocabulary = demo.encoder.tokenizer.get_vocab()
    if baseline not in vocabulary:
        with pytest.raises(ValueError, match=f"baseline must be one of .* got '{baseline}'$"):
            demo.explain(TEXT, baseline=baseline)
        return
    with pytest.raises(ValueError, match=f"got '{baseline}', which may mean {meant}; 'token:{baseline}' is the token$"):
        demo.explain(TEXT, baseline=baseline)
    assert demo.explain(TEXT, baseline=f"token:{baseline}", n_steps=8).settings.baseline == baseline


def test_digits_are_a_token_or_an_id(demo):
    vocabulary = demo.encoder.tokenizer.get_vocab()
    for number in ("0", "7"):
        with pytest.raises(ValueError, match=f"'token:{number}' is the token, 'id:{number}' is the id"):
            demo.explain(TEXT, baseline=number)
        token = demo.encoder.token_id("baseline", f"token:{number}", len(demo.vocabulary))
        assert token == vocabulary[number]
        assert demo.encoder.token_id("baseline", f"id:{number}", len(demo.vocabulary)) == int(number)
        assert demo.encoder.token_id("baseline", int(number), len(demo.vocabulary)) == int(number)


def test_digits_that_are_no_token_are_an_id(explainer):
    assert explainer.encoder.token_id("baseline", "9", 157) == 9
    with pytest.raises(ValueError, match="got '0', which may mean an embedding of zeros; 'id:0' is the id"):
        explainer.encoder.token_id("baseline", "0", 157)


@pytest.mark.parametrize("baseline", ["token:nosuch", "id:157", "id:-1", "id:", "token:", "id:x", True, [1], None])
def test_what_is_no_baseline(explainer, baseline):
    with pytest.raises(ValueError, match="baseline must be one of 'pad', 'mask', 'unk', 'sep', 'cls', a token of "):
        explainer.encoder.token_id("baseline", baseline, 157)


def test_the_word_for_a_role_that_a_tokenizer_lacks_is_no_role():
    tokenizer = tiny_tokenizer()
    tokenizer.mask_token = None
    tokenizer.add_tokens(["mask"])
    explainer = TextExplainer(tiny_classifier(len(tokenizer)), tokenizer, **QUICK)
    with pytest.raises(ValueError, match="got 'mask', which may mean a special token that this tokenizer lacks"):
        explainer.explain(TEXT, baseline="mask")
    assert explainer.encoder.token_id("baseline", "token:mask", 158) == 157


# labels --------------------------------------------------------------------------------------------


def labelled(id2label, n_labels=12):
    model = tiny_classifier(157)
    model.classifier = torch.nn.Linear(16, n_labels)
    model.config.num_labels = n_labels
    model.config.id2label = id2label
    return TextExplainer(model.eval(), tiny_tokenizer(), **QUICK)


NAMES = tuple(f"class{i}" for i in range(12))


@pytest.mark.parametrize(
    "id2label",
    [
        {str(i): name for i, name in enumerate(NAMES)},
        dict(enumerate(NAMES)),
        {(str(i) if i % 2 else i): name for i, name in enumerate(NAMES)},
        {str(i): NAMES[i] for i in reversed(range(12))},
        list(NAMES),
        NAMES,
        {torch.tensor(i): name for i, name in enumerate(NAMES)},
    ],
)
def test_a_label_is_that_of_its_index(id2label):
    explainer = labelled(id2label)
    assert explainer.task.labels == NAMES
    result = explainer.explain(TEXT, target="class2", n_steps=8)
    assert (result.target, result.target_label) == (2, "class2")


@pytest.mark.parametrize(
    "id2label",
    [
        {i + 1: name for i, name in enumerate(NAMES)},
        {str(i + 1): name for i, name in enumerate(NAMES)},
        {0: "A", "0": "B"},
        {0: "A", 2: "B"},
        {"zero": "A", "one": "B"},
        {-1: "A", 0: "B"},
        {0.5: "A"},
        {True: "A", False: "B"},
        "NEGATIVE",
        3,
        iter(NAMES),
    ],
)
def test_labels_that_leave_an_index_open(id2label):
    with pytest.raises(ValueError, match="model must have a label for each index from 0 on, got") as caught:
        labelled(id2label)
    assert "model.config.id2label" in str(caught.value)


@pytest.mark.parametrize("id2label", [{}, [], None])
def test_no_labels(id2label):
    with pytest.raises(ValueError, match="model must have labels in its configuration"):
        labelled(id2label)
