"""What tells paths and searches apart in settings, journals, and among the paths that an explainer keeps."""

import gc
import weakref
from dataclasses import dataclass

import pytest
import torch

from captum_dig import (
    EnsemblePath,
    Greedy,
    MaxCount,
    MonotonicPath,
    PathGenerator,
    RandomNeighbor,
    StaggeredPath,
    StraightLine,
    TextExplainer,
    UniformPath,
    Vocabulary,
    compare,
)
from captum_dig.methods import NamedMethods, PathMethod
from captum_dig.paths import Walk
from captum_dig.paths.anchors import AnchorSearch
from captum_dig.paths.folders import TableFolder

ROWS = torch.randn(60, 5, generator=torch.Generator().manual_seed(3))
OTHERS = ROWS + 1e-6


class Nearest(AnchorSearch):
    def cost(self, neighborhood):
        return (neighborhood.candidates - neighborhood.words[:, None]).norm(dim=-1)


class Weighted(AnchorSearch):
    def __init__(self, weights):
        self.weights = weights

    def cost(self, neighborhood):
        return (neighborhood.candidates * self.weights).sum(dim=-1)


class Slotted(AnchorSearch):
    __slots__ = ("scale",)

    def __init__(self, scale):
        self.scale = scale

    def cost(self, neighborhood):
        return neighborhood.candidates.sum(dim=-1) * self.scale


class Bent(PathGenerator):
    def __init__(self, through):
        self.through = through

    def knots(self, inputs, baselines):
        return torch.stack([baselines, inputs])


@pytest.mark.parametrize("kind", [MonotonicPath, UniformPath])
def test_paths_over_other_rows_or_indexes_print_otherwise(kind):
    def make(rows, index="Flat"):
        return kind(Vocabulary(rows, index=index), "greedy", 4, 12)

    paths = [make(ROWS), make(OTHERS), make(ROWS, "IVF4,Flat"), make(ROWS, "IVF4,Flat;nprobe=4"), make(ROWS, "HNSW8")]
    printed = [repr(path) for path in paths]
    assert len(set(printed)) == len(paths)
    assert len({repr(StaggeredPath(path)) for path in paths}) == len(paths)
    assert len({repr(EnsemblePath([path])) for path in paths}) == len(paths)
    assert repr(make(ROWS.clone())) == printed[0]
    assert Vocabulary(ROWS).fingerprint[:12] in printed[0]
    assert all(len(text) < 140 for text in printed)


def test_a_journal_is_not_taken_for_that_of_another_vocabulary(tmp_path, classifier, tokenizer):
    explainer = TextExplainer(classifier, tokenizer)
    rows = explainer.vocabulary.rows

    def run(vocabulary):
        method = PathMethod("mine", MonotonicPath(vocabulary, "greedy", 4, 12))
        return compare(explainer, ["a witty movie"], [method], n_steps=4, n_curve_texts=0, journal=tmp_path / "journal")

    run(Vocabulary(rows))
    for other in (Vocabulary(rows, index="IVF4,Flat"), Vocabulary(torch.cat([rows, rows[:1] + 1]))):
        with pytest.raises(ValueError, match="journal must be a new file or that of the same comparison"):
            run(other)


def test_long_tensors_tell_paths_apart():
    long, other = torch.zeros(5000), torch.zeros(5000)
    other[2500] = 1
    tiny = torch.tensor([1.0]), torch.tensor([1.0 + 2**-20])
    whole = torch.tensor([1], dtype=torch.int32), torch.tensor([1], dtype=torch.int64)
    for one, two in ((long, other), tiny, whole, (long, long[None]), (long.numpy(), other.numpy())):
        for kind in (Bent, Weighted):
            assert repr(kind(one)) != repr(kind(two))
            assert repr(kind([one])) != repr(kind([two]))
            assert repr(kind({"a": (one,)})) != repr(kind({"a": (two,)}))
    assert repr(Bent(long)) == repr(Bent(long.clone()))
    assert repr(Bent(torch.ones(2, 3))).startswith("Bent(through=Tensor(float32, (2, 3), ")
    assert len(repr(Bent(long))) < 70
    assert repr(Bent(torch.ones(3, dtype=torch.bfloat16, requires_grad=True))).startswith(
        "Bent(through=Tensor(bfloat16"
    )
    assert repr(Bent(torch.ones(3).conj()))


def test_no_memory_address_is_printed():
    class Plain:
        def __init__(self, value):
            self.value = value

    def function():
        pass

    for kind in (Bent, Weighted):
        for value in (function, Plain(3), [Plain(Plain(function))], {"a": Plain(1)}, lambda: 0, Plain, object()):
            assert " at 0x" not in repr(kind(value))
        assert repr(kind(Plain(1))) != repr(kind(Plain(2)))
        assert repr(kind({"b", "a", "c"})) == repr(kind({"c", "b", "a"}))
    assert repr(Nearest()) == "Nearest()"
    circle = Bent(None)
    circle.through = circle
    assert repr(circle)


def test_a_users_search_is_named_alike_in_every_process(classifier, tokenizer):
    def settings():
        explainer = TextExplainer(classifier, tokenizer, n_anchors=3, n_neighbors=8)
        return explainer.explain("a witty movie", strategy=Nearest(), n_steps=4).settings.strategy

    assert settings() == settings() == "Nearest()"
    assert Nearest().identity is None


def test_searches_without_parameters_are_equal():
    assert Greedy() == Greedy()
    assert hash(Greedy()) == hash(Greedy())
    assert Nearest() == Nearest()
    assert len({Greedy(), Greedy(), MaxCount(), MaxCount(), Nearest()}) == 3
    assert Greedy() != type("Mine", (Greedy,), {})()
    assert Greedy() != "greedy"
    for make in (lambda: Weighted(torch.ones(5)), lambda: Slotted(2)):
        one = make()
        assert one == one
        assert one != make()
    assert RandomNeighbor(seed=1) != RandomNeighbor(seed=2)


class Paths:
    """The paths of the methods that an explainer keeps."""

    def __init__(self):
        vocabulary = Vocabulary(ROWS)
        self.named = NamedMethods(lambda: Walk.over(vocabulary, n_anchors=3, n_neighbors=8))

    def path(self, strategy, *, seed=None):
        return self.named.find(strategy, seed=seed).path


def test_equal_searches_share_a_path():
    paths = Paths()
    assert paths.path(Greedy()) is paths.path(Greedy())
    assert paths.path(Nearest()) is paths.path(Nearest())


@pytest.mark.parametrize(
    "ask",
    [
        lambda paths, k: paths.path(Weighted(k)),
        lambda paths, k: paths.path(RandomNeighbor()),
        lambda paths, k: paths.path("random_neighbor", seed=k),
        lambda paths, k: paths.path("staggered", seed=k),
    ],
    ids=["a user's", "random", "seeds", "staggered"],
)
def test_a_bounded_number_of_paths_is_kept(ask):
    paths = Paths()
    made = [weakref.ref(ask(paths, k)) for k in range(30)]
    gc.collect()
    assert sum(path() is not None for path in made) <= 8


def test_a_path_that_was_dropped_comes_back_the_same():
    paths = Paths()
    before = {name: repr(paths.path(name)) for name in ("random_neighbor", "random_anchor", "greedy", "staggered")}
    for k in range(20):
        paths.path(Weighted(k))
    assert {name: repr(paths.path(name)) for name in before} == before


def test_searches_that_cannot_be_hashed():
    @dataclass
    class Mutable(AnchorSearch):
        weights: torch.Tensor

        def cost(self, neighborhood):
            return (neighborhood.candidates * self.weights).sum(dim=-1)

    search, paths = Mutable(torch.ones(5)), Paths()
    assert paths.path(search) is paths.path(search)
    assert paths.path(Mutable(torch.ones(5))) is not paths.path(search)


def wrapped(path):
    return {
        "itself": path,
        "staggered": StaggeredPath(path),
        "ensemble": EnsemblePath([StraightLine(), path]),
        "both": EnsemblePath([StaggeredPath(path), StraightLine()]),
    }


@pytest.mark.parametrize("name", wrapped(StraightLine()))
def test_wrappers_keep_the_tables_of_the_paths_inside(tmp_path, name, classifier, tokenizer):
    explainer = TextExplainer(classifier, tokenizer, cache=False)

    def make(folder):
        return wrapped(MonotonicPath(explainer.vocabulary, "greedy", 4, 12, folder=TableFolder(folder)))[name]

    explainer.explain("a witty movie", strategy=make(tmp_path / "explain"), n_steps=8)
    assert len(list((tmp_path / "explain").glob("*.npz"))) == 1
    method = PathMethod("mine", make(tmp_path / "compare"))
    compare(explainer, ["a witty movie"], [method], n_steps=8, n_curve_texts=0)
    assert len(list((tmp_path / "compare").glob("*.npz"))) == 1
    assert StraightLine().store() is None
    assert Bent(1).store() is None
