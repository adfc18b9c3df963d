import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from captum_dig.paths.monotone import is_monotone_path, monotone_mask, monotonize
from tests import reference

VALUES = st.floats(-1e3, 1e3, width=32)
TRIPLES = hnp.arrays("float32", (3, 5), elements=VALUES)


@given(TRIPLES, st.integers(1, 50))
def test_monotonize_is_the_loop(triple, m):
    anchor, point, baseline = triple
    got = monotonize(*map(torch.tensor, (anchor, point, baseline)), n_anchors=m)
    torch.testing.assert_close(
        got, torch.tensor(reference.monotonize(anchor, point, baseline, m)), rtol=1e-5, atol=1e-4
    )


@given(TRIPLES, st.integers(1, 50))
def test_monotonize_never_leaves_the_interval(triple, m):
    anchor, point, baseline = map(torch.tensor, triple)
    moved = monotonize(anchor, point, baseline, m)
    assert monotone_mask(moved, point, baseline).all()


def test_one_anchor_moves_to_the_baseline_despite_rounding():
    point, baseline = torch.tensor([0.1]), torch.tensor([1e-9])
    moved = monotonize(torch.tensor([5.0]), point, baseline, n_anchors=1)
    assert torch.equal(moved, baseline) or monotone_mask(moved, point, baseline).all()


def test_where_point_and_baseline_agree_only_their_value_is_kept():
    mask = monotone_mask(torch.tensor([1.0, 1.5]), torch.tensor([1.0, 1.0]), torch.tensor([1.0, 1.0]))
    assert mask.tolist() == [True, False]


@pytest.mark.parametrize(
    ("knots", "expected"),
    [
        ([[0.0, 0.0], [1.0, 0.0], [1.0, -2.0]], True),
        ([[0.0], [2.0], [1.0]], False),
        ([[1.0], [1.5], [1.0]], False),
        ([[0.0], [float("nan")], [1.0]], False),
        ([[3.0], [3.0]], True),
    ],
)
def test_is_monotone_path(knots, expected):
    assert is_monotone_path(torch.tensor(knots)) is expected
