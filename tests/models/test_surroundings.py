"""What the process around the package may set: a default dtype, a default device, inference mode."""

import contextlib
from pathlib import Path

import pytest
import torch

from captum_dig import (
    EnsemblePath,
    Greedy,
    LayerDiscretizedIntegratedGradients,
    MonotonicPath,
    StaggeredPath,
    StraightLine,
    TextExplainer,
    UniformPath,
    Vocabulary,
    compare,
)
from captum_dig.paths.folders import TableFolder
from captum_dig.paths.tables import RankedTable
from captum_dig.paths.walks import Walk
from captum_dig.vocabulary.indexes import HalfPrecisionIndex

TEXTS = ["a gorgeous, witty movie", "dull"]
DTYPES = [torch.bfloat16, torch.float16, torch.float64]
STRATEGIES = ["straight_line", "staggered", "greedy", "maxcount", "random_neighbor", "random_anchor", "uniform"]
METHODS = [*STRATEGIES, "input_x_gradient", "deeplift", "gradient_shap", "leave_one_out", "random"]
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
        comparison = compare(explainer, TEXTS, METHODS, ["mask"], n_steps=8, top_fractions=[0.3], curve_steps=[4])
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


@pytest.mark.parametrize("index", ["Flat", "HNSW8", "IVF4,Flat", "half precision"])
@pytest.mark.parametrize("strategy", ["greedy", "random_anchor", "uniform"])
def test_tables_made_in_inference_mode_serve_outside_of_it(tmp_path, monkeypatch, index, strategy):
    if index == "half precision":
        monkeypatch.setattr("captum_dig.vocabulary.rows.build_index", lambda rows, _: HalfPrecisionIndex(rows))
        index = "Flat"

    def make(rows, folder):
        vocabulary = Vocabulary(rows, index=index)
        mask = torch.arange(len(rows)) % 7 > 0
        if strategy == "uniform":
            return UniformPath(vocabulary, "greedy", 4, 20, candidates=mask)
        return MonotonicPath(vocabulary, strategy, 4, 20, candidates=mask, seed=1, folder=folder)

    few, more = torch.arange(1, 40), torch.arange(1, 300)
    expected = make(ROWS, None).anchor_ids(more, 0)
    with torch.inference_mode():
        # The rows too may be such tensors.
        path = make(ROWS.clone(), TableFolder(tmp_path))
        path.anchor_ids(few, 0)
        path.vocabulary.locate(ROWS[:9] + 0.01)
    assert torch.equal(path.anchor_ids(more, 0), expected)
    with torch.inference_mode():
        path.store()
        again = make(ROWS, TableFolder(tmp_path))
        again.anchor_ids(few, 0)
    assert torch.equal(again.anchor_ids(more, 0), expected)
    assert torch.equal(
        path(ROWS[None, 1:9], ROWS[None, :1].expand(1, 8, 24)), again(ROWS[None, 1:9], ROWS[None, :1].expand(1, 8, 24))
    )


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_explainers_made_in_inference_mode_serve_outside_of_it(strategy, classifier, tokenizer):
    def make():
        return TextExplainer(classifier, tokenizer, strategy=strategy, n_anchors=4, n_neighbors=12, seed=3)

    expected = make().explain(TEXTS, n_steps=4)
    with torch.inference_mode():
        explainer = make()
        assert explainer.explain(TEXTS[1], n_steps=4) == make().explain(TEXTS[1], n_steps=4)
        if strategy in ("greedy", "maxcount"):
            list(explainer.table().rank_all())
        explainer.explain("the plot is thin", n_steps=4)
    assert explainer.explain(TEXTS, n_steps=4) == expected


def test_a_table_of_ones_own_made_in_inference_mode():
    with torch.inference_mode():
        table = RankedTable(Walk(Vocabulary(ROWS), Greedy(), 3, 9), ROWS[0].clone())
        table.rank(torch.tensor([1]))
    table.rank(torch.tensor([2]))
    assert table.n_ranked == 2
