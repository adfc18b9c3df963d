"""Targets, baselines, masks, tuples and layers of every form that Captum takes."""

import pytest
import torch
import transformers
from captum.attr import IntegratedGradients, LayerIntegratedGradients
from torch import nn

from captum_dig import (
    DiscretizedIntegratedGradients,
    LayerDiscretizedIntegratedGradients,
    MonotonicPath,
    PathGenerator,
    StraightLine,
    Vocabulary,
    VocabularyError,
)
from tests.paths.test_base import ROWS
from tests.tiny_models import TINY

MONOTONIC = MonotonicPath(Vocabulary(ROWS), n_anchors=5, n_neighbors=12)
several_layers = pytest.mark.filterwarnings("ignore:Multiple layers provided")


class Tagger(nn.Module):
    """Three labels for a text, and three for each of its words, which see each other."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding.from_pretrained(ROWS.clone())
        self.mix, self.head = nn.Linear(6, 8), nn.Linear(8, 3)

    def tags(self, rows, mask=None):
        hidden = torch.tanh(self.mix(rows))
        seen = hidden if mask is None else hidden * mask[..., None]
        return self.head(torch.tanh(hidden + seen.sum(dim=1, keepdim=True)))

    def labels(self, rows, mask=None):
        tags = torch.sigmoid(self.tags(rows, mask))
        return (tags if mask is None else tags * mask[..., None]).sum(dim=1)

    def places(self, rows, mask=None):
        return self.tags(rows, mask)[..., 0]

    def score(self, rows, mask=None):
        return self.labels(rows, mask)[:, 0]


@pytest.fixture
def tagger():
    return Tagger()


IDS = torch.tensor([[1, 9, 4, 30], [7, 3, 5, 0], [12, 40, 0, 0]])
BASE = torch.zeros_like(IDS)
MASK = torch.tensor([[1.0, 1, 1, 1], [1, 1, 1, 0], [1, 1, 0, 0]])
KINDS = ["inputs", "layer"]


def explain(kind, tagger, output, path, target, *, ids=IDS, base=BASE, mask=MASK, **options):
    """Attributions of the words, and their delta, by one of our classes or, without a path, by Captum's."""
    read, options = getattr(tagger, output), {"return_convergence_delta": True, **options}
    if kind == "inputs":
        method = DiscretizedIntegratedGradients(read, path) if path else IntegratedGradients(read)
        return method.attribute(tagger.table(ids), tagger.table(base), target, mask, **options)

    def model(ids, mask):
        return read(tagger.table(ids), mask)

    method = (
        LayerDiscretizedIntegratedGradients(model, tagger.table, path)
        if path
        else LayerIntegratedGradients(model, tagger.table)
    )
    return method.attribute(ids, base, target, mask, **options)


def close(one, other):
    torch.testing.assert_close(one, other, rtol=0, atol=1e-5)


# Output, target, and the same target row by row.
TARGETS = [
    ("labels", 1, [1, 1, 1]),
    ("labels", -1, [2, 2, 2]),
    ("labels", torch.tensor(2), [2, 2, 2]),
    ("labels", torch.tensor([2]), [2, 2, 2]),
    ("labels", [0, 2, 1], [0, 2, 1]),
    ("labels", torch.tensor([0, 2, 1]), [0, 2, 1]),
    ("labels", (1,), [1, 1, 1]),
    ("labels", [(0,), (2,), (1,)], [0, 2, 1]),
    ("tags", (1, 2), [(1, 2)] * 3),
    ("tags", [(0, 1), (2, 2), (1, 0)], [(0, 1), (2, 2), (1, 0)]),
    ("places", 1, [1, 1, 1]),
    ("places", [3, 0, 1], [3, 0, 1]),
    ("places", torch.tensor([3, 0, 1]), [3, 0, 1]),
    ("score", None, [None] * 3),
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("output", "target", "rowwise"), TARGETS, ids=str)
class TestTargets:
    """Every form of a target."""

    @pytest.mark.parametrize("internal_batch_size", [None, 7])
    def test_on_the_straight_line_they_are_captums(self, tagger, kind, output, target, rowwise, internal_batch_size):
        options = {"internal_batch_size": internal_batch_size, "n_steps": 20}
        got = explain(kind, tagger, output, StraightLine(), target, **options)
        assert got[0].shape == (3, 4, 6)
        assert got[1].shape == (3,)
        close(got, explain(kind, tagger, output, None, target, **options))

    def test_on_a_monotonic_path_they_converge_row_by_row(self, tagger, kind, output, target, rowwise):
        options = {"internal_batch_size": 7, "n_steps": 120}
        got, delta = explain(kind, tagger, output, MONOTONIC, target, **options)
        assert float(got.sum(dim=(1, 2)).abs().min()) > 0.02
        assert float(delta.abs().max()) < 1e-3
        for row, one in enumerate(rowwise):
            here = slice(row, row + 1)
            alone, _ = explain(
                kind, tagger, output, MONOTONIC, one, ids=IDS[here], base=BASE[here], mask=MASK[here], **options
            )
            close(got[here], alone)


@pytest.mark.parametrize("path", [StraightLine(), MONOTONIC], ids=repr)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("output", "target", "error", "message"),
    [
        ("labels", None, AssertionError, "Target not provided when necessary"),
        ("labels", 3, IndexError, "index 3 is out of bounds"),
        ("labels", [0, 1], AssertionError, "Target list length does not match output"),
        ("labels", torch.tensor([0, 1]), AssertionError, "Tensor target dimension .* is not valid"),
        ("labels", (0, 1), AssertionError, "Cannot choose target column with output shape"),
        ("tags", [(0, 1)], AssertionError, "Target list length does not match output"),
        ("tags", 1, AssertionError, "Target not provided when necessary"),
    ],
    ids=str,
)
def test_targets_that_are_none_fail_as_in_captum(tagger, kind, path, output, target, error, message):
    for one in (path, None):
        with pytest.raises(error, match=message) as caught:
            explain(kind, tagger, output, one, target)
        assert caught.type is error


class Counted(PathGenerator):
    """Another path, and how many rows it was asked for in each call."""

    def __init__(self, path):
        self.path, self.calls = path, []

    def knots(self, inputs, baselines):
        self.calls.append(len(inputs))
        return self.path.knots(inputs, baselines)


class Once(Counted):
    """A path that is built once for the same ends."""

    def __init__(self, path):
        super().__init__(path)
        self.built = {}

    def knots(self, inputs, baselines):
        key = inputs.numpy().tobytes(), baselines.numpy().tobytes()
        if key not in self.built:
            self.built[key] = super().knots(inputs, baselines)
        return self.built[key]


@pytest.mark.parametrize("kind", KINDS)
def test_many_labels_of_a_text_in_one_call_with_a_row_for_each(tagger, kind):
    path = Counted(MONOTONIC)
    rows = {"ids": IDS[:1].expand(3, -1), "base": BASE[:1].expand(3, -1), "mask": MASK[:1].expand(3, -1)}
    together, deltas = explain(kind, tagger, "labels", path, [0, 1, 2], n_steps=200, **rows)
    assert path.calls == [3]
    assert float(deltas.abs().max()) < 1e-3
    for label in range(3):
        one = {name: row[:1] for name, row in rows.items()}
        close(together[label], explain(kind, tagger, "labels", MONOTONIC, label, n_steps=200, **one)[0][0])


@pytest.mark.parametrize("kind", KINDS)
def test_many_labels_call_by_call_on_a_path_that_remembers(tagger, kind):
    path, plain = Once(MONOTONIC), Counted(MONOTONIC)
    for label in range(3):
        got = explain(kind, tagger, "labels", path, label)
        close(got, explain(kind, tagger, "labels", plain, label))
    assert path.calls == [3]
    assert plain.calls == [3, 3, 3]


@pytest.mark.parametrize("path", [StraightLine(), MONOTONIC], ids=repr)
def test_baselines_of_every_form(tagger, path):
    rows = tagger.table(IDS)
    ours = DiscretizedIntegratedGradients(tagger.labels, path)
    captums = IntegratedGradients(tagger.labels)
    forms = {
        0.0: [None, 0, 0.0, torch.zeros(1, 4, 6), torch.zeros(3, 4, 6)],
        0.3: [0.3, torch.full((1, 4, 6), 0.3), torch.full((3, 4, 6), 0.3)],
    }
    for value, same in forms.items():
        expected = None
        for baselines in same:
            got, delta = ours.attribute(rows, baselines, 1, MASK, 200, return_convergence_delta=True)
            expected = got if expected is None else expected
            close(got, expected)
            assert float(delta.abs().max()) < 2e-3, value
            if isinstance(path, StraightLine):
                close((got, delta), captums.attribute(rows, baselines, 1, MASK, 200, return_convergence_delta=True))


@pytest.mark.parametrize("path", [StraightLine(), MONOTONIC], ids=repr)
def test_baselines_of_a_layer_of_every_form(tagger, path):
    def model(ids, mask):
        return tagger.labels(tagger.table(ids), mask)

    ours = LayerDiscretizedIntegratedGradients(model, tagger.table, path)
    captums = LayerIntegratedGradients(model, tagger.table)
    forms = {
        0: [None, 0, torch.zeros(1, 4, dtype=torch.int64), BASE],
        5: [5, torch.full((1, 4), 5), torch.full((3, 4), 5)],
    }
    for word, same in forms.items():
        expected = explain("layer", tagger, "labels", path, 1, base=torch.full_like(IDS, word), n_steps=200)[0]
        for baselines in same:
            got, delta = ours.attribute(IDS, baselines, 1, MASK, 200, return_convergence_delta=True)
            close(got, expected)
            assert float(delta.abs().max()) < 1e-3
            if isinstance(path, StraightLine):
                close((got, delta), captums.attribute(IDS, baselines, 1, MASK, 200, return_convergence_delta=True))


@pytest.mark.parametrize("path", [StraightLine(), MONOTONIC], ids=repr)
def test_tuples_of_inputs_with_baselines_for_each(tagger, path):
    # Two texts of different length.
    first, second = tagger.table(IDS), tagger.table(IDS[:, 1:])

    def model(first, second, scale):
        return tagger.labels(first) * scale + torch.sin(tagger.labels(second)) * tagger.score(first)[:, None]

    scale = torch.tensor([[0.5], [1.0], [2.0]])
    ours, captums = DiscretizedIntegratedGradients(model, path), IntegratedGradients(model)
    zero = ROWS[:1].expand(1, 4, 6)
    for baselines in (None, (0, 0.3), (zero, 0), (0, zero[:, 1:]), (zero.expand(3, -1, -1), zero[:, 1:])):
        for target in (1, [0, 2, 1]):
            options = {"n_steps": 200, "return_convergence_delta": True}
            got, delta = ours.attribute((first, second), baselines, target, scale, **options)
            assert isinstance(got, tuple)
            assert [a.shape for a in got] == [(3, 4, 6), (3, 3, 6)]
            assert float(delta.abs().max()) < 5e-3
            if isinstance(path, StraightLine):
                expected = captums.attribute((first, second), baselines, target, scale, **options)
                close((*got, delta), (*expected[0], expected[1]))
    one = ours.attribute((first,), 0, 1, (second, scale))
    assert isinstance(one, tuple)
    close(one[0], ours.attribute(first, 0, 1, (second, scale)))


@pytest.mark.parametrize("path", [StraightLine(), MONOTONIC], ids=repr)
def test_a_mask_among_the_inputs_is_one_among_the_further_arguments(tagger, path):
    def model(ids, mask):
        return tagger.labels(tagger.table(ids), mask)

    ours = LayerDiscretizedIntegratedGradients(model, tagger.table, path)
    captums = LayerIntegratedGradients(model, tagger.table)
    options = {"n_steps": 200, "return_convergence_delta": True}
    expected = ours.attribute(IDS, BASE, 1, MASK, **options)
    for baselines in ((BASE, MASK), (0, MASK), (BASE[:1], MASK)):
        close(ours.attribute((IDS, MASK), baselines, 1, **options), expected)
    assert float(expected[1].abs().max()) < 1e-3
    # Without a baseline of its own the mask gets zeros there: the words keep their scores, only the delta is about
    # a text that nobody reads.
    got, delta = ours.attribute((IDS, MASK), None, 1, **options)
    close(got, expected[0])
    close(delta, captums.attribute((IDS, MASK), None, 1, **options)[1])
    assert float(delta.abs().min()) > 0.1
    if isinstance(path, StraightLine):
        close(captums.attribute((IDS, MASK), (BASE, MASK), 1, **options), expected)


@pytest.mark.parametrize("path", [StraightLine(), MONOTONIC], ids=repr)
def test_the_input_of_the_next_layer_is_the_output_of_the_table(tagger, path):
    def model(ids, mask):
        return tagger.labels(tagger.table(ids), mask)

    options = {"n_steps": 200, "return_convergence_delta": True}
    arguments = (IDS, BASE, [0, 2, 1], MASK)
    got = LayerDiscretizedIntegratedGradients(model, tagger.mix, path).attribute(
        *arguments, attribute_to_layer_input=True, **options
    )
    close(got, LayerDiscretizedIntegratedGradients(model, tagger.table, path).attribute(*arguments, **options))
    if isinstance(path, StraightLine):
        captums = LayerIntegratedGradients(model, tagger.mix)
        close(got, captums.attribute(*arguments, attribute_to_layer_input=True, **options))


def test_the_input_of_the_table_is_no_place_for_a_path(tagger):
    dig = LayerDiscretizedIntegratedGradients(
        lambda ids: tagger.labels(tagger.table(ids)), tagger.table, MonotonicPath(Vocabulary(ROWS), n_neighbors=12)
    )
    with pytest.raises(ValueError, match=r"inputs must have shape \(B, ..., 6\), the width of the vocabulary, got"):
        dig.attribute(IDS, BASE, 1, attribute_to_layer_input=True)


class Twofold(nn.Module):
    """A layer that gives two tensors."""

    def forward(self, rows):
        return torch.tanh(rows), rows**2


@pytest.mark.parametrize("multiply", [True, False])
def test_a_layer_of_two_tensors_gives_a_tuple(tagger, multiply):
    layer = Twofold()

    def model(ids, mask):
        one, other = layer(tagger.table(ids))
        return tagger.labels(one + torch.sin(other), mask)

    arguments = (IDS, BASE, 1, MASK, 50, "gausslegendre", None, True)
    expected = LayerIntegratedGradients(model, layer, multiply_by_inputs=multiply).attribute(*arguments)
    got = LayerDiscretizedIntegratedGradients(model, layer, StraightLine(), multiply_by_inputs=multiply).attribute(
        *arguments
    )
    assert isinstance(got[0], tuple)
    close((*got[0], got[1]), (*expected[0], expected[1]))


@several_layers
@pytest.mark.parametrize("path", [StraightLine(), MONOTONIC], ids=repr)
def test_two_tables_for_texts_of_different_length(tagger, path):
    other = nn.Embedding.from_pretrained(ROWS.flip(0).clone())

    def model(query, article):
        return tagger.labels(tagger.table(query)) + torch.sin(tagger.labels(other(article)))

    inputs, baselines = (IDS[:, :2], 79 - IDS), (BASE[:, :2], 79 - BASE)
    options = {"target": [0, 2, 1], "n_steps": 200, "return_convergence_delta": True}
    got, delta = LayerDiscretizedIntegratedGradients(model, [tagger.table, other], path).attribute(
        inputs, baselines, **options
    )
    assert isinstance(got, list)
    assert [a.shape for a in got] == [(3, 2, 6), (3, 4, 6)]
    assert float(delta.abs().max()) < 1e-3
    if isinstance(path, StraightLine):
        captums = LayerIntegratedGradients(model, [tagger.table, other])
        expected = captums.attribute(inputs, baselines, **options)
        close((*got, delta), (*expected[0], expected[1]))


class ByWidth(PathGenerator):
    """For several layers, each with words of its own width."""

    def __init__(self, paths):
        self.paths = {path.vocabulary.dim: path for path in paths}

    def knots(self, inputs, baselines):
        return self.paths[inputs.shape[-1]].knots(inputs, baselines)


@several_layers
def test_two_tables_of_different_width(tagger):
    wide = nn.Embedding.from_pretrained(torch.randn(30, 9))
    down = nn.Linear(9, 6)

    def model(ids):
        return tagger.labels(tagger.table(ids) + down(wide(ids % 30)))

    path = ByWidth([MONOTONIC, MonotonicPath(Vocabulary(wide.weight), n_anchors=5, n_neighbors=12)])
    got, delta = LayerDiscretizedIntegratedGradients(model, [tagger.table, wide], path).attribute(
        IDS, BASE, 1, n_steps=200, return_convergence_delta=True
    )
    assert [a.shape for a in got] == [(3, 4, 6), (3, 4, 9)]
    assert float(delta.abs().max()) < 1e-3


TEXTS = ["a gorgeous, witty, seductive movie", "dull", "the acting was not so bad"]


@pytest.fixture
def texts(tokenizer):
    """Ids, baseline ids that keep the special tokens, and the mask, of texts of different length."""
    encoding = tokenizer(TEXTS, padding=True, return_tensors="pt")
    special = torch.isin(encoding.input_ids, torch.tensor([tokenizer.cls_token_id, tokenizer.sep_token_id]))
    base = torch.where(special, encoding.input_ids, torch.full_like(encoding.input_ids, tokenizer.pad_token_id))
    return encoding.input_ids, base, encoding.attention_mask


def bert(task, tokenizer, **changes):
    torch.manual_seed(3)
    config = transformers.BertConfig(vocab_size=len(tokenizer), pad_token_id=0, **TINY, **changes)
    return getattr(transformers, f"BertFor{task}")(config).eval()


def words_path(layer):
    return MonotonicPath(Vocabulary.from_layer(layer), n_anchors=5, n_neighbors=12)


def check_transformer(model, forward, texts, target, rowwise, difference):
    """Captum's numbers on the straight line, convergence on the other, and a batch that is its rows."""
    ids, base, mask = texts
    layer = model.get_input_embeddings()
    options = {"n_steps": 200, "return_convergence_delta": True}
    straight = LayerDiscretizedIntegratedGradients(forward, layer, StraightLine())
    captums = LayerIntegratedGradients(forward, layer)
    close(straight.attribute(ids, base, target, mask, **options), captums.attribute(ids, base, target, mask, **options))
    dig = LayerDiscretizedIntegratedGradients(forward, layer, words_path(layer))
    got, delta = dig.attribute(ids, base, target, mask, **options)
    with torch.no_grad():
        expected = difference(forward(ids, mask)) - difference(forward(base, mask))
    assert float(expected.abs().mean()) > 0.05
    torch.testing.assert_close(got.sum(dim=(1, 2)), expected, rtol=0, atol=1e-3)
    assert float(delta.abs().max()) < 1e-3
    assert not got[ids == base].any()
    for row, one in enumerate(rowwise):
        here, length = slice(row, row + 1), int(mask[row].sum())
        alone, _ = dig.attribute(ids[here, :length], base[here, :length], one, mask[here, :length], **options)
        close(got[here, :length], alone)
    return got


EVERY = torch.arange(3)


@pytest.mark.parametrize(
    ("target", "rowwise"),
    [((1, 2), [(1, 2)] * 3), ([(4, 2), (1, 0), (3, 1)], [(4, 2), (1, 0), (3, 1)])],
    ids=["one for all", "one for each"],
)
def test_token_classification(tokenizer, texts, target, rowwise):
    model = bert("TokenClassification", tokenizer, num_labels=3)
    places, labels = (torch.tensor(one) for one in zip(*rowwise, strict=True))
    check_transformer(
        model,
        lambda ids, mask: model(ids, attention_mask=mask).logits,
        texts,
        target,
        rowwise,
        lambda output: output[EVERY, places, labels],
    )


@pytest.mark.parametrize("logits", ["start_logits", "end_logits"])
@pytest.mark.parametrize("target", [1, [5, 1, 3], torch.tensor([5, 1, 3])], ids=str)
def test_question_answering(tokenizer, texts, logits, target):
    model = bert("QuestionAnswering", tokenizer)
    places = torch.as_tensor(target).expand(3)
    check_transformer(
        model,
        lambda ids, mask: getattr(model(ids, attention_mask=mask), logits),
        texts,
        target,
        places.tolist(),
        lambda output: output[EVERY, places],
    )


def test_regression_needs_no_target(tokenizer, texts):
    model = bert("SequenceClassification", tokenizer, num_labels=1)
    expected = None
    for target in (None, 0, -1, torch.tensor(0), torch.tensor([0]), torch.tensor([0, 0, 0]), [0, 0, 0], (0,)):
        rowwise = [None if target is None else 0] * 3
        got = check_transformer(
            model,
            lambda ids, mask: model(ids, attention_mask=mask).logits,
            texts,
            target,
            rowwise if expected is None else [],
            lambda output: output[:, 0],
        )
        expected = got if expected is None else expected
        assert torch.equal(got, expected)
    flat = LayerDiscretizedIntegratedGradients(
        lambda ids, mask: model(ids, attention_mask=mask).logits[:, 0],
        model.get_input_embeddings(),
        words_path(model.get_input_embeddings()),
    )
    ids, base, mask = texts
    close(flat.attribute(ids, base, None, mask, 200), expected)


def test_many_labels_of_a_transformer_in_one_call(tokenizer, texts):
    model = bert("SequenceClassification", tokenizer, num_labels=4, problem_type="multi_label_classification")
    layer = model.get_input_embeddings()
    path = Counted(words_path(layer))
    dig = LayerDiscretizedIntegratedGradients(
        lambda ids, mask: model(ids, attention_mask=mask).logits.sigmoid(), layer, path
    )
    ids, base, mask = (one.repeat_interleave(4, dim=0) for one in texts)
    together, delta = dig.attribute(ids, base, list(range(4)) * 3, mask, 100, return_convergence_delta=True)
    assert path.calls == [12]
    assert float(delta.abs().max()) < 1e-3
    for label in range(4):
        close(together[label::4], dig.attribute(texts[0], texts[1], label, texts[2], 100))


def embeddings_of(model):
    embeddings = model.bert.embeddings
    return [embeddings.word_embeddings, embeddings.position_embeddings, embeddings.token_type_embeddings]


@pytest.fixture
def classified(tokenizer, texts):
    """A classifier that takes position and type ids for each row, and arguments for it."""
    model = bert("SequenceClassification", tokenizer, num_labels=2)

    def forward(ids, mask, positions=None, types=None):
        return model(ids, attention_mask=mask, position_ids=positions, token_type_ids=types).logits

    ids, base, mask = texts
    positions = torch.arange(ids.shape[1]).expand_as(ids)
    return model, forward, (ids, base, [0, 1, 1], (mask, positions, torch.zeros_like(ids)))


@several_layers
def test_words_positions_and_types_at_once(classified):
    model, forward, arguments = classified
    layers, options = embeddings_of(model), {"n_steps": 200, "return_convergence_delta": True}
    got, delta = LayerDiscretizedIntegratedGradients(forward, layers, StraightLine()).attribute(*arguments, **options)
    expected = LayerIntegratedGradients(forward, layers).attribute(*arguments, **options)
    assert isinstance(got, list)
    close((*got, delta), (*expected[0], expected[1]))
    # Positions and types stay what they are, so that a path over the words serves all three.
    path = words_path(layers[0])
    got, delta = LayerDiscretizedIntegratedGradients(forward, layers, path).attribute(*arguments, **options)
    assert float(delta.abs().max()) < 1e-3
    assert not got[1].any()
    assert not got[2].any()
    alone = LayerDiscretizedIntegratedGradients(forward, layers[:1], path).attribute(*arguments, n_steps=200)
    assert isinstance(alone, list)
    close(alone[0], got[0])
    close(LayerDiscretizedIntegratedGradients(forward, layers[0], path).attribute(*arguments, n_steps=200), got[0])
    with pytest.raises(ValueError, match="path must be given for 3 layers with different embedding tables"):
        LayerDiscretizedIntegratedGradients(forward, layers)


@several_layers
def test_positions_of_a_single_text_need_no_ids(classified):
    model, forward, (ids, base, _, (mask, *_)) = classified
    layers, options = embeddings_of(model), {"n_steps": 50, "return_convergence_delta": True}
    arguments = (ids[:1], base[:1], 1, mask[:1])
    got, delta = LayerDiscretizedIntegratedGradients(forward, layers, StraightLine()).attribute(*arguments, **options)
    expected = LayerIntegratedGradients(forward, layers).attribute(*arguments, **options)
    close((*got, delta), (*expected[0], expected[1]))


def test_a_whole_block_takes_a_straight_line_only(classified):
    model, forward, arguments = classified
    options = {"n_steps": 50, "return_convergence_delta": True}
    for layer, to_input in ((model.bert.embeddings, False), (model.bert.embeddings.LayerNorm, True)):
        captums = LayerIntegratedGradients(forward, layer)
        straight = LayerDiscretizedIntegratedGradients(forward, layer, StraightLine())
        close(
            straight.attribute(*arguments, attribute_to_layer_input=to_input, **options),
            captums.attribute(*arguments, attribute_to_layer_input=to_input, **options),
        )
        dig = LayerDiscretizedIntegratedGradients(forward, layer, words_path(model.get_input_embeddings()))
        with pytest.raises(VocabularyError, match=r"model.get_input_embeddings\(\)"):
            dig.attribute(*arguments, attribute_to_layer_input=to_input)


@pytest.fixture
def translator():
    """A small encoder-decoder whose three embedding layers share one scaled table."""
    torch.manual_seed(3)
    config = transformers.BartConfig(
        vocab_size=60, d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2, init_std=0.3,
        decoder_attention_heads=2, encoder_ffn_dim=16, decoder_ffn_dim=16, max_position_embeddings=40, pad_token_id=0,
        eos_token_id=3, forced_eos_token_id=None, scale_embedding=True,
    )  # fmt: skip
    model = transformers.BartForSequenceClassification(config).eval()
    ids, mask = torch.tensor([[5, 6, 7, 3], [8, 9, 3, 0]]), torch.tensor([[1, 1, 1, 1], [1, 1, 1, 0]])
    base = torch.tensor([[0, 0, 0, 3], [0, 0, 3, 0]])
    return model, lambda ids, mask: model(ids, attention_mask=mask).logits, (ids, base, [0, 1], mask)


@several_layers
@pytest.mark.filterwarnings("ignore:n_neighbors = 500 is more than")
def test_the_two_tables_of_an_encoder_decoder(translator):
    model, forward, arguments = translator
    layers = [model.model.encoder.embed_tokens, model.model.decoder.embed_tokens]
    options = {"n_steps": 200, "return_convergence_delta": True}
    got, delta = LayerDiscretizedIntegratedGradients(forward, layers, StraightLine()).attribute(*arguments, **options)
    expected = LayerIntegratedGradients(forward, layers).attribute(*arguments, **options)
    close((*got, delta), (*expected[0], expected[1]))
    # They emit the same rows, so that they need no path to be given.
    got, delta = LayerDiscretizedIntegratedGradients(forward, layers).attribute(*arguments, **options)
    assert [a.shape for a in got] == [(2, 4, 16)] * 2
    assert float(delta.abs().max()) < 1e-3
    # The decoder reads the text too: without its table a part of the difference is missing.
    _, alone = LayerDiscretizedIntegratedGradients(forward, layers[0]).attribute(*arguments, **options)
    assert float(alone.abs().max()) > 0.1


@several_layers
@pytest.mark.filterwarnings("ignore:n_neighbors = 500 is more than")
def test_encoder_and_decoder_ids_of_different_length():
    torch.manual_seed(3)
    config = transformers.T5Config(
        vocab_size=60, d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2, pad_token_id=0, eos_token_id=3,
        decoder_start_token_id=0,
    )  # fmt: skip
    model = transformers.T5ForConditionalGeneration(config).eval()

    def forward(ids, decoder_ids, mask):
        return model(input_ids=ids, attention_mask=mask, decoder_input_ids=decoder_ids).logits[:, -1]

    layers = [model.encoder.embed_tokens, model.decoder.embed_tokens]
    ids, mask = torch.tensor([[5, 6, 7, 3], [8, 9, 3, 0]]), torch.tensor([[1, 1, 1, 1], [1, 1, 1, 0]])
    base = torch.tensor([[0, 0, 0, 3], [0, 0, 3, 0]])
    target_ids = torch.tensor([[0, 5, 6], [0, 7, 8]])
    arguments = ((ids, target_ids), (base, torch.zeros_like(target_ids)), [11, 12], mask)
    options = {"n_steps": 200, "return_convergence_delta": True}
    got, delta = LayerDiscretizedIntegratedGradients(forward, layers, StraightLine()).attribute(*arguments, **options)
    expected = LayerIntegratedGradients(forward, layers).attribute(*arguments, **options)
    close((*got, delta), (*expected[0], expected[1]))
    got, delta = LayerDiscretizedIntegratedGradients(forward, layers).attribute(*arguments, **options)
    assert [a.shape for a in got] == [(2, 4, 16), (2, 3, 16)]
    assert float(sum(a.sum(dim=(1, 2)) for a in got).abs().mean()) > 0.1
    assert float(delta.abs().max()) < 0.01


def test_a_table_that_does_not_run_is_an_error(translator):
    model, forward, arguments = translator
    shared = model.get_input_embeddings()
    dig = LayerDiscretizedIntegratedGradients(forward, shared, words_path(shared))
    with pytest.raises((AssertionError, ValueError), match="layer"):
        dig.attribute(*arguments)


@several_layers
def test_a_table_of_a_list_that_does_not_run_is_named(translator):
    model, forward, arguments = translator
    shared = model.get_input_embeddings()
    dig = LayerDiscretizedIntegratedGradients(forward, [model.model.encoder.embed_tokens, shared], words_path(shared))
    with pytest.raises((AssertionError, ValueError), match="layer"):
        dig.attribute(*arguments)


def test_a_table_that_runs_twice_on_different_words_is_an_error(tagger):
    def model(query, article):
        return tagger.labels(tagger.table(query)) + torch.sin(tagger.labels(tagger.table(article)))

    dig = LayerDiscretizedIntegratedGradients(model, tagger.table, MONOTONIC)
    with pytest.raises(ValueError, match="layer"):
        dig.attribute((IDS, IDS.flip(0)), (BASE, BASE), 1)


@several_layers
def test_layers_with_different_numbers_of_examples_are_an_error_that_says_so(classified):
    model, forward, (ids, base, target, (mask, *_)) = classified
    dig = LayerDiscretizedIntegratedGradients(forward, embeddings_of(model)[:2], StraightLine())
    with pytest.raises(ValueError, match="same number of examples"):
        dig.attribute(ids, base, target, mask)


def test_inputs_with_different_numbers_of_examples_are_an_error_that_says_so():
    dig = DiscretizedIntegratedGradients(lambda x, y: (x * y).sum(dim=1), StraightLine())
    with pytest.raises(ValueError, match="same number of examples"):
        dig.attribute((torch.ones(3, 2), torch.ones(1, 2)))
