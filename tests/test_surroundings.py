"""What the process around the package may set: a default dtype, a default device, inference mode."""

import contextlib
from pathlib import Path

import pytest
import torch

from captum_dig import (
    EnsemblePath,
    LayerDiscretizedIntegratedGradients,
    MonotonicPath,
    StaggeredPath,
    StraightLine,
    TextExplainer,
    UniformPath,
    Vocabulary,
    compare,
)
from captum_dig.comparison.comparing import NAMES
from captum_dig.paths.tables import TableFolder

TEXTS = ["a gorgeous, witty movie", "dull"]
DTYPES = [torch.bfloat16, torch.float16, torch.float64]
STRATEGIES = ["straight_line", "staggered", "greedy", "maxcount", "random_neighbor", "random_anchor", "uniform"]
ROWS = torch.randn(300, 24, generator=torch.Generator().manual_seed(3))


@contextlib.contextmanager
def default_dtype(dtype):
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@contextlib.contextmanager
def default_device(device):
    torch.set_default_device(device)
    try:
        yield
    finally:
        torch.set_default_device(None)


SETTINGS = {
    **{f"dtype {dtype}": lambda dtype=dtype: default_dtype(dtype) for dtype in DTYPES},
    "device": lambda: torch.device("meta"),
    "default device": lambda: default_device("meta"),
}
surroundings = pytest.mark.parametrize("around", SETTINGS.values(), ids=SETTINGS.keys())


@surroundings
@pytest.mark.parametrize("strategy", ["greedy", "maxcount", "random_neighbor", "random_anchor"])
def test_ranked_tables_and_their_files_do_not_depend_on_them(tmp_path, around, strategy):
    def rank(folder):
        path = MonotonicPath(Vocabulary(ROWS), strategy, 6, 40, seed=5, folder=TableFolder(folder))
        walks = path.anchor_ids(torch.arange(1, 300, device="cpu"), 0)
        path.store()
        return walks, [file.read_bytes() for file in sorted(Path(folder).glob("*"))]

    expected, files = rank(tmp_path / "plain")
    with around():
        got, others = rank(tmp_path / "other")
    assert torch.equal(got, expected)
    assert others == files


@surroundings
@pytest.mark.parametrize("index", ["Flat", "HNSW8", "IVF4,Flat;nprobe=4"])
def test_a_vocabulary_does_not_depend_on_them(around, index):
    layer = torch.nn.Embedding(300, 24, _weight=ROWS.clone())

    def build():
        vocabulary = Vocabulary.from_layer(layer, index=index)
        ids, near = torch.arange(50, device="cpu"), ROWS[:50] + 0.01
        return (
            vocabulary.rows,
            vocabulary.neighbors(ids, 20),
            vocabulary.around(near, 20),
            *vocabulary.nearest(near),
            vocabulary.find(ROWS),
            vocabulary.locate(near),
            vocabulary.equal_rows(ROWS[7]),
            vocabulary.spacing,
            vocabulary.recall(10),
            vocabulary.fingerprint,
        )

    expected = build()
    with around():
        got = build()
    for one, other in zip(got, expected, strict=True):
        assert one.equal(other) and one.dtype == other.dtype if isinstance(one, torch.Tensor) else one == other


@surroundings
def test_the_search_at_half_precision_does_not_depend_on_them(around):
    from captum_dig.vocabulary.indexes import HalfPrecisionIndex

    expected = HalfPrecisionIndex(ROWS).search(ROWS[:20], 15)
    with around():
        got = HalfPrecisionIndex(ROWS).search(ROWS[:20], 15)
    assert torch.equal(got, expected)


@surroundings
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_knots_do_not_depend_on_them(around, dtype):
    inputs = ROWS[:6].reshape(2, 3, 24).to(dtype)
    baselines = ROWS[7].expand_as(inputs).to(dtype)

    def build():
        vocabulary = Vocabulary(ROWS.to(dtype))
        greedy = MonotonicPath(vocabulary, "greedy", 5, 40)
        uniform = UniformPath(vocabulary, "maxcount", 5, 20)
        paths = [greedy, uniform, StaggeredPath(greedy), StaggeredPath(StraightLine(), width=0)]
        words = torch.tensor([[0, 0, 1], [0, 1, 2]], device="cpu")
        return [
            path(inputs, baselines) for path in [*paths, EnsemblePath(paths), StaggeredPath(uniform).grouped(words)]
        ]

    expected = build()
    with around():
        got = build()
    assert all(torch.equal(one, other) for one, other in zip(got, expected, strict=True))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_explanations_do_not_depend_on_them(strategy, classifier, tokenizer):
    def explain():
        explainer = TextExplainer(classifier, tokenizer, strategy=strategy, n_anchors=4, n_neighbors=12, seed=3)
        return explainer.explain(TEXTS, baseline=["mask", "unk"], n_steps=8), explainer.explain(TEXTS[0], max_steps=50)

    expected = explain()
    for name, around in SETTINGS.items():
        with around():
            assert explain() == expected, name


def test_comparisons_do_not_depend_on_them(classifier, tokenizer):
    def run():
        explainer = TextExplainer(classifier, tokenizer, n_anchors=4, n_neighbors=12, seed=3)
        comparison = compare(explainer, TEXTS, NAMES, ["mask"], n_steps=8, top_fractions=[0.3], curve_steps=[4])
        ranked = [tau for _, tau in comparison.disagreements()]
        # As text, in which NaN equals NaN.
        return ranked, [
            (m.method, m.baseline, m.word_scores, str(m.values), str(m.curve))
            for text in comparison.texts
            for m in text.measurements
        ]

    expected = run()
    for name, around in SETTINGS.items():
        with around():
            assert run() == expected, name


@surroundings
def test_the_layer_class_does_not_depend_on_them(around, classifier):
    ids = torch.tensor([[2, 30, 31, 3], [2, 40, 41, 3]])
    baselines = torch.tensor([[2, 0, 0, 3]]).expand_as(ids)

    def attribute():
        layer = classifier.get_input_embeddings()
        path = MonotonicPath(Vocabulary.from_layer(layer), "greedy", 4, 12)
        dig = LayerDiscretizedIntegratedGradients(lambda i: classifier(i).logits, layer, path)
        scores, delta = dig.attribute(ids, baselines, target=1, n_steps=12, return_convergence_delta=True)
        return scores.detach(), delta

    expected = attribute()
    with around():
        got = attribute()
    assert all(torch.equal(one, other) and one.dtype == other.dtype for one, other in zip(got, expected, strict=True))
