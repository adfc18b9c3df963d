import warnings

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from captum_dig import (
    EnsemblePath,
    MonotonicPath,
    PathError,
    PathGenerator,
    StaggeredPath,
    StraightLine,
    UniformPath,
    Vocabulary,
    VocabularyError,
    upsample,
)
from captum_dig.paths import WordPath, as_ensemble
from captum_dig.paths.monotone import is_monotone_path
from captum_dig.testing import check_path
from tests import reference


def path_name(path):
    if isinstance(path, StaggeredPath):
        return f"Staggered{path_name(path.inner)}{path.width:g}" + ("Mixed" if path.inner_share else "")
    return path.strategy.__class__.__name__ if isinstance(path, MonotonicPath) else type(path).__name__


class Detour(PathGenerator):
    """A path written by a user: even coordinates first, then the others."""

    def knots(self, inputs, baselines):
        even = torch.arange(inputs.shape[-1], device=inputs.device) % 2 == 0
        return torch.stack([baselines, torch.where(even, inputs, baselines), inputs])


ROWS = torch.randn(80, 6, generator=torch.Generator().manual_seed(1))
PATHS = [StraightLine(), Detour()] + [
    MonotonicPath(Vocabulary(ROWS), s, n_anchors=5, n_neighbors=12, seed=2)
    for s in ("greedy", "maxcount", "random_neighbor", "random_anchor")
]
PATHS.append(UniformPath(Vocabulary(ROWS), n_anchors=5, n_neighbors=12))
ENSEMBLES = [
    EnsemblePath([StraightLine(), PATHS[2], Detour()]),
    StaggeredPath(StraightLine(), n_orders=4),
    StaggeredPath(StraightLine(), 0, n_orders=3, seed=5, antithetic=False),
    StaggeredPath(PATHS[2], 0.3, n_orders=2),
    StaggeredPath(Detour(), 1),
    StaggeredPath(PATHS[2], 0.3, n_orders=2, inner_share=0.5),
]


def rounded(path, dtype):
    """The same path for rows of another dtype: rounded rows are rows of a rounded vocabulary only."""
    if isinstance(path, WordPath):
        return type(path)(Vocabulary(ROWS.to(dtype)), path.strategy, path.n_anchors, path.n_neighbors)
    if isinstance(path, StaggeredPath):
        inner = rounded(path.inner, dtype)
        return StaggeredPath(inner, path.width, path.n_orders, path.seed, path.antithetic, inner_share=path.inner_share)
    return EnsemblePath([rounded(p, dtype) for p in path.paths]) if isinstance(path, EnsemblePath) else path


@pytest.mark.parametrize("path", PATHS + ENSEMBLES, ids=path_name)
class TestContract:
    """What every path must keep."""

    @given(seed=st.integers(0, 1000))
    def test_ends_are_exact_and_the_path_is_monotone(self, path, seed):
        ids = torch.randint(0, 80, (3, 4), generator=torch.Generator().manual_seed(seed))
        inputs, baselines = ROWS[ids], ROWS[0].expand(3, 4, 6)
        for knots in as_ensemble(path(inputs, baselines), inputs):
            assert torch.equal(knots[0], baselines)
            assert torch.equal(knots[-1], inputs)
            assert is_monotone_path(knots)

    def test_the_contract(self, path):
        check_path(path, ROWS[torch.arange(12).reshape(3, 4)], ROWS[20:24].expand(3, 4, 6))

    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
    def test_dtypes_are_kept(self, path, dtype):
        inputs, baselines = ROWS[None, 1:4].to(dtype), torch.zeros(1, 3, 6, dtype=dtype)
        ensemble = as_ensemble(rounded(path, dtype)(inputs, baselines), inputs)
        assert ensemble.dtype == dtype
        assert all(map(is_monotone_path, ensemble))

    def test_no_gradient_flows(self, path):
        assert not path(ROWS[None, :2].clone().requires_grad_(), torch.zeros(1, 2, 6)).requires_grad

    def test_integers_are_refused(self, path):
        with pytest.raises(
            TypeError,
            match=r"inputs must be floating point, got torch.int64; for token ids attribute to the embedding layer",
        ):
            path(torch.ones(1, 6, dtype=torch.int64), torch.zeros(1, 6, dtype=torch.int64))

    def test_shapes_must_agree(self, path):
        with pytest.raises(
            ValueError,
            match=r"inputs and baselines must have one shape \(B, ...\) that is not empty, got \(1, 6\) and \(2, 6\)",
        ):
            path(torch.ones(1, 6), torch.ones(2, 6))

    @pytest.mark.parametrize("which", ["inputs", "baselines"])
    def test_values_must_be_finite(self, path, which):
        ends = {"inputs": ROWS[:1].clone(), "baselines": ROWS[1:2].clone()}
        ends[which][0, 3] = float("inf")
        with pytest.raises(ValueError, match=f"{which} must be finite, got NaN or infinity"):
            path(**ends)


class Answer(PathGenerator):
    def __init__(self, answer):
        self.answer = answer

    def knots(self, inputs, baselines):
        return self.answer(inputs, baselines)


class Promise(Answer):
    monotone = True


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (Answer(lambda x, b: [b, x]), "Answer.knots must return a tensor or a Polyline, got list"),
        (
            Answer(lambda x, b: x[None]),
            r"Answer.knots must return shape \(P, 2, 3\) with P >= 2, got \(1, 2, 3\); "
            r"for R paths that are averaged, \(R, P, 2, 3\)$",
        ),
        (Answer(lambda x, b: x[None, None]), r"Answer.knots must return shape .* got \(1, 1, 2, 3\)"),
        (Answer(lambda x, b: torch.stack([b, x])[None, None]), r"must return shape .* got \(1, 1, 2, 2, 3\)"),
        (Answer(lambda x, b: torch.stack([b, x])[None][:0]), r"must return shape .* got \(0, 2, 2, 3\)"),
        (
            Answer(lambda x, b: torch.stack([torch.stack([b, x]), torch.stack([b, b])])),
            "the last knot of Answer must equal the inputs exactly, got a difference of up to 1",
        ),
        (
            Promise(lambda x, b: torch.stack([torch.stack([b, b, x]), torch.stack([b, x + 1, x])])),
            "Promise declares monotone = True, but a coordinate of its knots turns back",
        ),
        (
            Answer(lambda x, b: torch.stack([b, x], dim=1)),
            r"Answer.knots must return shape \(P, 2, 3\).*got \(2, 2, 3\)$|must equal",
        ),
        (
            Answer(lambda x, b: torch.stack([b, x]).double()),
            "Answer.knots must keep the dtype and device of the inputs, torch.float32 on cpu",
        ),
        (
            Answer(lambda x, b: torch.stack([x, b])),
            "the first knot of Answer must equal the baselines exactly, got a difference of up to 1",
        ),
        (
            Answer(lambda x, b: torch.stack([b, x + 1e-3])),
            "the last knot of Answer must equal the inputs exactly, got a difference of up to 0.001",
        ),
        (Answer(lambda x, b: torch.stack([b, x * torch.nan, x])), "Answer.knots must be finite"),
        (
            Promise(lambda x, b: torch.stack([b, x + 1, x])),
            "Promise declares monotone = True, but a coordinate of its knots turns back",
        ),
    ],
)
def test_what_a_path_returns_is_checked(path, message):
    with pytest.raises(PathError, match=message):
        path(torch.ones(2, 3), torch.zeros(2, 3))


@given(st.integers(0, 10_000), st.sampled_from(["greedy", "maxcount"]), st.integers(1, 6))
def test_knots_are_those_of_the_loop(seed, strategy, m):
    rows = torch.randn(25, 4, generator=torch.Generator().manual_seed(seed))
    path = MonotonicPath(Vocabulary(rows), strategy, m, 8)
    got = path(rows[None, 1:6], rows[0].expand(1, 5, 4))[:, 0]
    for i, word in enumerate(range(1, 6)):
        walk = reference.anchor_ids(rows.numpy(), word, 0, m, 8, strategy)
        torch.testing.assert_close(
            got[:, i], torch.tensor(reference.knots(rows.numpy(), walk, 0).copy()), rtol=0, atol=1e-6
        )


def test_noise_starts_at_the_nearest_row_and_ends_at_itself():
    path = PATHS[2]
    noisy = ROWS[None, 5:8] + 1e-4
    knots = path(noisy, ROWS[0].expand(1, 3, 6))
    assert torch.equal(knots[-1], noisy)
    clean = path(ROWS[None, 5:8], ROWS[0].expand(1, 3, 6))
    torch.testing.assert_close(knots[1:-1], clean[1:-1], rtol=0, atol=1e-3)


def test_vectors_from_elsewhere_are_refused():
    with pytest.raises(VocabularyError, match=r"get_input_embeddings\(\)"):
        PATHS[2](ROWS[None, :3] + 50, torch.zeros(1, 3, 6))


def test_another_width_is_refused():
    with pytest.raises(
        ValueError, match=r"inputs must have shape \(B, ..., 6\), the width of the vocabulary, got \(1, 7\)"
    ):
        PATHS[2](torch.ones(1, 7), torch.zeros(1, 7))


@pytest.mark.parametrize("baseline", [torch.zeros(6), ROWS.mean(dim=0)], ids=["zeros", "mean"])
def test_a_baseline_may_be_any_vector(baseline):
    path = MonotonicPath(Vocabulary(ROWS[:4]), n_anchors=6, n_neighbors=3)
    knots = path(ROWS[None, :4], baseline.expand(1, 4, 6))
    assert is_monotone_path(knots)
    # Three neighbours are soon used up; the rest of the way is spent at the baseline.
    assert torch.equal(knots[1], knots[0])


def test_a_duplicate_of_a_word_may_be_its_anchor_but_not_the_word_itself():
    rows = torch.tensor([[0.0, 0.0], [1.0, 1.0], [1.0, 1.0], [0.5, 0.5]])
    path = MonotonicPath(Vocabulary(rows), n_anchors=2, n_neighbors=3)
    assert path.anchor_ids(torch.tensor([1, 2]), 0).tolist() == [[1, 2, 3], [2, 1, 3]]


def test_more_neighbours_than_rows_are_clamped():
    with pytest.warns(UserWarning, match="n_neighbors = 500 is more than the 79 rows there are; all of them are used"):
        path = MonotonicPath(Vocabulary(ROWS), n_neighbors=500)
    assert path.n_neighbors == 79
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        path(ROWS[None, :3], torch.zeros(1, 3, 6))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (
            {"strategy": "gready"},
            ValueError,
            "strategy must be one of 'greedy', 'maxcount', 'random_anchor', 'random_neighbor', got 'gready'; or pass an AnchorSearch",
        ),
        ({"strategy": 3}, TypeError, "strategy must be a name or an AnchorSearch, got int"),
        ({"n_anchors": 0}, ValueError, "n_anchors must be an integer of at least 1, got 0"),
        ({"n_neighbors": -5}, ValueError, "n_neighbors must be an integer of at least 1, got -5"),
        ({"n_anchors": 2.5}, ValueError, "n_anchors must be an integer of at least 1, got 2.5"),
        (
            {"candidates": torch.ones(3, dtype=torch.bool)},
            ValueError,
            r"candidates must be a boolean mask of shape \(80,\), got torch.bool \(3,\)",
        ),
        ({"candidates": torch.zeros(80, dtype=torch.bool)}, ValueError, "candidates must allow at least one row"),
    ],
)
def test_wrong_arguments(arguments, error, message):
    with pytest.raises(error, match=message):
        MonotonicPath(Vocabulary(ROWS), **arguments)


def test_a_table_is_no_vocabulary():
    with pytest.raises(TypeError, match="vocabulary must be a Vocabulary, got Tensor"):
        MonotonicPath(ROWS)


@pytest.mark.parametrize(("ids", "baseline", "bad"), [([80], 0, 80), ([-1], 0, -1), ([1], 80, 80), ([1], -2, -2)])
def test_ids_that_are_no_rows(ids, baseline, bad):
    with pytest.raises(ValueError, match=f"ids must be rows of the vocabulary, from 0 to 79, got {bad}"):
        PATHS[2].anchor_ids(torch.tensor(ids), baseline)


def test_upsample_keeps_the_path_and_doubles_its_pieces():
    knots = torch.randn(4, 2, 3)
    dense = upsample(knots, 3)
    assert len(dense) == 3 * 8 + 1
    torch.testing.assert_close(dense[::8], knots)
    torch.testing.assert_close(dense[4], (knots[0] + knots[1]) / 2)
    with pytest.raises(ValueError, match="factor must be at least 0, got -1"):
        upsample(knots, -1)
