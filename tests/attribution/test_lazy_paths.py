"""Paths whose points are made where a node is wanted: the same numbers as from all of their knots."""

import copy
import tracemalloc

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from captum_dig import (
    DiscretizedIntegratedGradients,
    EnsemblePath,
    LayerDiscretizedIntegratedGradients,
    MonotonicPath,
    PathError,
    PathGenerator,
    PathPerInput,
    Polyline,
    StaggeredPath,
    StraightLine,
    UniformPath,
    Vocabulary,
)
from captum_dig.paths import Knots, Line, Places, Together, as_ensemble, words
from captum_dig.paths.bundles import distinct
from captum_dig.paths.monotone import is_monotone_path
from captum_dig.testing import ContractError, check_path

ROWS = torch.randn(60, 6, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
WORDS = MonotonicPath(Vocabulary(ROWS), n_anchors=5, n_neighbors=12)
X = ROWS[torch.tensor([[1, 2, 3, 1], [4, 1, 1, 5], [6, 0, 7, 8]])]
BASE = ROWS[0].expand(3, 4, 6)
LAZY = [
    StraightLine(),
    WORDS,
    UniformPath(Vocabulary(ROWS), n_anchors=4, n_neighbors=9),
    StaggeredPath(StraightLine()),
    StaggeredPath(StraightLine(), 0, n_orders=3, antithetic=False),
    StaggeredPath(WORDS, 0.3, n_orders=2),
    EnsemblePath([StraightLine(), StaggeredPath(WORDS)]),
    PathPerInput(WORDS),
]
MIX = torch.randn(6, 6, generator=torch.Generator().manual_seed(4), dtype=torch.float64)


def curved(x):
    return torch.tanh(x @ MIX).prod(dim=-1).sum(dim=1) + x.sin().sum(dim=(1, 2))


class AllKnots(PathGenerator):
    """Another path, with all of its knots."""

    def __init__(self, path):
        self.path, self.n_paths = path, path.n_paths

    def knots(self, inputs, baselines):
        return self.path(inputs, baselines)


@pytest.mark.parametrize("spacing", ["arc", "knots"])
@pytest.mark.parametrize("path", LAZY, ids=repr)
@pytest.mark.parametrize("method", ["gausslegendre", "riemann_trapezoid", "riemann_left"])
def test_points_are_those_between_all_knots(path, method, spacing):
    options = {"method": method, "n_steps": 23}
    lazy = DiscretizedIntegratedGradients(curved, path, spacing=spacing).attribute(X, BASE, **options)
    dense = DiscretizedIntegratedGradients(curved, AllKnots(path), spacing=spacing).attribute(X, BASE, **options)
    # Lengths are rounded to single precision.
    torch.testing.assert_close(lazy, dense, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "path", [path for path in LAZY if not isinstance(path, EnsemblePath | StaggeredPath)], ids=repr
)
@given(st.integers(0, 10_000))
def test_a_polyline_measures_and_moves_as_its_knots(path, seed):
    (bundle,) = path.bundles((X,), (BASE,))
    dense = Together((Knots(path(X, BASE)),))
    np.testing.assert_allclose(bundle.lengths(), dense.lengths(), rtol=1e-6)
    random, n_pieces = np.random.default_rng(seed), bundle.lengths().shape[1]
    places = Places(np.zeros((5, 1), dtype=np.int64), random.integers(0, n_pieces, (5, 3)), random.random((5, 3)))
    found = [
        one.polylines[0].points(*(torch.from_numpy(np.ascontiguousarray(a)) for a in one.where(0, places)))
        for one in (bundle, dense)
    ]
    torch.testing.assert_close(*found, rtol=1e-9, atol=1e-9)


def test_points_of_walks_that_are_made_again_are_the_same_to_the_last_bit(monkeypatch):
    numbers = torch.arange(6)[:, None, None].expand(6, 3, 4)
    kept = WORDS.knots(X, BASE).pieces(numbers)
    monkeypatch.setattr(words, "_KEPT", 6)
    again = WORDS.knots(X, BASE)
    assert len(again._kept) == 1
    for one, other in zip(kept, again.pieces(numbers), strict=True):
        assert torch.equal(one, other)


def test_a_word_in_several_places_is_walked_once():
    # Eight words and the resting one.
    assert WORDS.knots(X, BASE)._kept.shape[1] == 9
    # Double precision tells vectors apart that are one row in single precision.
    nearly = X.clone()
    nearly[1, 1] += 1e-12
    assert WORDS.knots(nearly, BASE)._kept.shape[1] == 10
    assert torch.equal(WORDS(nearly, BASE)[-1], nearly)


def test_no_knots_are_made_for_an_attribution_along_a_staggered_line():
    x, base = torch.randn(1, 200, 256), torch.zeros(1, 200, 256)
    dig = DiscretizedIntegratedGradients(lambda x: x.sum(dim=(1, 2)), StaggeredPath(StraightLine(), n_orders=24))
    made = []

    class Watch(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            result = func(*args, **(kwargs or {}))
            if isinstance(result, torch.Tensor):
                made.append(result.untyped_storage().nbytes())
            return result

    with Watch():
        dig.attribute(x, base, n_steps=48, internal_batch_size=2)
    # Two nodes at once; all knots would be 24 x 400 times the input.
    assert max(made) <= 4 * x.numel() * x.element_size()


def test_planning_grows_with_the_tokens_only():
    def planned(width):
        x = torch.zeros(2, 60, width)
        x[..., 0] = 1
        tracemalloc.start()
        StaggeredPath(StraightLine()).bundles((x,), (torch.zeros_like(x),))[0].lengths()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak

    planned(1)
    assert planned(512) < 1.1 * planned(2)


class Lazy(PathGenerator):
    """A user's polyline: by way of the middle."""

    monotone = True

    def knots(self, inputs, baselines):
        return Bent(inputs, baselines, 2)


class Bent(Polyline):
    def _knots(self):
        middle = torch.lerp(self.baselines, self.inputs, 0.25)
        return self.words_of(torch.stack([self.baselines, middle, self.inputs])).to(self.precise)

    def lengths(self):
        return self._knots().diff(dim=0).norm(dim=-1)

    def pieces(self, numbers):
        knots = self._knots()
        if numbers.shape[-1] == 1:
            numbers = numbers.expand(-1, -1, self.n_words)
        rows, columns = torch.arange(knots.shape[1])[:, None], torch.arange(self.n_words)
        return knots[numbers, rows, columns], knots[numbers + 1, rows, columns]


def test_a_polyline_of_ones_own():
    check_path(Lazy(), X.float(), BASE.float())
    check_path(StaggeredPath(Lazy()), X.float(), BASE.float())


class Longer(Bent):
    def lengths(self):
        return 2 * super().lengths()


def test_lengths_that_are_not_those_of_the_pieces_are_told():
    class Wrong(Lazy):
        def knots(self, inputs, baselines):
            return Longer(inputs, baselines, 2)

    with pytest.raises(ContractError, match="Wrong: lengths of a polyline must be those between its knots"):
        check_path(Wrong(), X.float(), BASE.float())


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda x, b: Line(x[:1], b[:1]), r"must return a polyline like the inputs, \(3, 4, 6\), .* got \(1, 4, 6\)"),
        (lambda x, b: Line(x.float(), b.float()), r"torch.float64 on cpu, got .* torch.float32"),
        (lambda x, b: Line(x + 1, b), "the last knot of Made must equal the inputs exactly"),
        (lambda x, b: Line(x, b - 1), "the first knot of Made must equal the baselines exactly"),
    ],
)
def test_a_polyline_is_checked(made, message):
    class Made(PathGenerator):
        def knots(self, inputs, baselines):
            return made(inputs, baselines)

    for ask in (lambda path: path.bundles((X,), (BASE,)), lambda path: path(X, BASE)):
        if "like the inputs" in message or "float32" in message:
            with pytest.raises(PathError):
                ask(Made())
        else:
            with pytest.raises(PathError, match=message):
                ask(Made())
    with pytest.raises(PathError, match=message):
        Made().bundles((X,), (BASE,))


def test_different_times():
    times, numbers, _ = distinct(np.array([[0.5, 0.0, 0.5, 1.0], [np.inf, 0.2, 0.2, np.inf], [np.inf] * 4]))
    assert times.tolist() == [[0, 0.5, 1], [0.2] * 3, [0] * 3]
    assert numbers.tolist() == [[0, 1, 1, 2], [0, 0, 0, 0], [-1] * 4]


# ------------------------------------------------------------------------------------- several inputs


def pair(x, y):
    return (x.sum(dim=(1, 2)) * y.sin().sum(dim=1)).tanh() + (x**2).sum(dim=(1, 2)) * y[:, 0]


Y, Y_BASE = torch.rand(3, 5, dtype=torch.float64), torch.zeros(3, 5, dtype=torch.float64)


@pytest.mark.parametrize("staggered", [False, True])
def test_a_path_for_each_input_is_complete(staggered):
    path = PathPerInput(WORDS, StraightLine())
    dig = DiscretizedIntegratedGradients(pair, StaggeredPath(path, 0.6, n_orders=2) if staggered else path)
    parts, delta = dig.attribute((X, Y), (BASE, Y_BASE), n_steps=1200, return_convergence_delta=True)
    assert [part.shape for part in parts] == [X.shape, Y.shape]
    assert float(delta.abs().max()) < 2e-3
    for few in (2, 7):
        linear = DiscretizedIntegratedGradients(lambda x, y: 2 * x.sum(dim=(1, 2)) - y.sum(dim=1), dig.path)
        exact = linear.attribute((X, Y), (BASE, Y_BASE), n_steps=few)
        torch.testing.assert_close(exact, (2 * (X - BASE), Y_BASE - Y))


def test_every_input_has_the_same_share_of_its_way_behind_it():
    (bundle,) = PathPerInput(WORDS, StraightLine()).bundles((X, Y), (BASE, Y_BASE))
    n_knots = bundle.lengths().shape[1] + 1
    knots = [bundle.knots(which)[0] for which in range(2)]
    assert all(len(part) == n_knots and is_monotone_path(part) for part in knots)
    shares = [
        lengths.cumsum(dim=0) / lengths.sum(dim=0)
        for lengths in (part.diff(dim=0).flatten(2).norm(dim=-1) for part in knots)
    ]
    torch.testing.assert_close(*shares, rtol=1e-6, atol=1e-6)


def test_straight_lines_for_all_inputs_are_the_straight_line():
    together = DiscretizedIntegratedGradients(pair, StraightLine()).attribute((X, Y), (BASE, Y_BASE), n_steps=9)
    each = DiscretizedIntegratedGradients(pair, [StraightLine()] * 2).attribute((X, Y), (BASE, Y_BASE), n_steps=9)
    torch.testing.assert_close(each, together)


def test_examples_do_not_depend_on_each_other_where_inputs_have_paths_of_their_own():
    path = StaggeredPath(PathPerInput(WORDS, StraightLine()), n_orders=2)
    for one in (path, path.inner):
        dig = DiscretizedIntegratedGradients(pair, one)
        batch = dig.attribute((X, Y), (BASE, Y_BASE), n_steps=30)
        for i in range(3):
            alone = dig.attribute((X[i : i + 1], Y[i : i + 1]), (BASE[i : i + 1], Y_BASE[i : i + 1]), n_steps=30)
            torch.testing.assert_close([part[i : i + 1] for part in batch], list(alone), rtol=1e-9, atol=1e-12)


def test_the_words_of_several_inputs_share_their_windows():
    path = StaggeredPath(StraightLine(), 0, n_orders=2).grouped(torch.tensor([[0, 0, 1], [1, 0, 2]]))
    word, place = torch.ones(2, 3, 4), torch.ones(2, 3, 2)
    (bundle,) = path.bundles((word, place), (torch.zeros_like(word), torch.zeros_like(place)))
    ways = [bundle.knots(which)[..., 0] for which in range(2)]
    assert torch.equal(*ways)
    assert torch.equal(ways[0][:, :, 0, 0], ways[0][:, :, 0, 1])
    with pytest.raises(ValueError, match=r"inputs must have the batch and tokens of the words, \(2, 3\), got \(2, 2\)"):
        path.bundles((word, place[:, :2]), (torch.zeros_like(word), torch.zeros_like(place[:, :2])))


@pytest.mark.filterwarnings("ignore:Multiple layers provided")
def test_several_layers_with_a_path_for_each():
    torch.manual_seed(0)
    vocabulary, places = torch.nn.Embedding(60, 6, _weight=ROWS.float()), torch.nn.Embedding(9, 6)

    def model(ids, positions):
        return torch.tanh(vocabulary(ids) + places(positions)).sum(dim=(1, 2))

    ids, positions = torch.tensor([[1, 2, 3]]), torch.tensor([[1, 2, 3]])
    arguments = ((ids, positions), (torch.zeros_like(ids), torch.zeros_like(positions)))
    path = MonotonicPath(Vocabulary.from_layer(vocabulary), n_anchors=5, n_neighbors=12)
    for paths in (
        [path, StraightLine()],
        PathPerInput(path, StraightLine()),
        StaggeredPath(PathPerInput(path, StraightLine()), n_orders=4),
    ):
        dig = LayerDiscretizedIntegratedGradients(model, [vocabulary, places], paths)
        parts, delta = dig.attribute(*arguments, n_steps=400, return_convergence_delta=True)
        assert [part.shape for part in parts] == [(1, 3, 6), (1, 3, 6)]
        assert abs(float(delta)) < 2e-3
    assert (
        repr(LayerDiscretizedIntegratedGradients(model, vocabulary, [StraightLine()]).path)
        == "PathPerInput(StraightLine())"
    )


@pytest.mark.parametrize(
    ("paths", "error", "message"),
    [
        ([], ValueError, "paths must hold a PathGenerator for each input, got none"),
        ([StraightLine(), "greedy"], TypeError, "paths must be PathGenerators, got str for input 1"),
        (
            [StraightLine(), StaggeredPath(StraightLine())],
            ValueError,
            "paths must be single, got 2 paths from StaggeredPath for input 1; put the PathPerInput into a StaggeredPath instead",
        ),
    ],
)
def test_wrong_paths_are_named_by_the_place_of_their_input(paths, error, message):
    with pytest.raises(error, match=message):
        DiscretizedIntegratedGradients(pair, paths)


def test_wrong_inputs_are_named_by_their_place():
    dig = DiscretizedIntegratedGradients(pair, [StraightLine(), WORDS])
    with pytest.raises(ValueError, match=r"input 1: inputs must have shape \(B, ..., 6\), the width of the vocabulary"):
        dig.attribute((X, Y), (BASE, Y_BASE))
    with pytest.raises(PathError, match="PathPerInput must have a path for each of the 1 inputs, got 2 paths"):
        DiscretizedIntegratedGradients(curved, dig.path).attribute(X, BASE)
    spoiled = Y.clone()
    spoiled[0, 0] = torch.nan
    with pytest.raises(ValueError, match="inputs 1 must be finite, got NaN or infinity"):
        dig.attribute((X, spoiled), (BASE, Y_BASE))


def test_a_path_for_each_input_can_be_copied_and_described():
    path = PathPerInput(WORDS, StraightLine())
    assert copy.deepcopy(PathPerInput(StraightLine())).describe() == {"n_anchors": 0, "n_neighbors": 0, "seed": None}
    assert path.describe()["n_anchors"] == 5
    assert path.vocabulary is WORDS.vocabulary
    assert path.monotone
    path.store()
    assert all(
        torch.equal(a, b) for a, b in zip(as_ensemble(PathPerInput(WORDS)(X, BASE), X), [WORDS(X, BASE)], strict=True)
    )
