"""The mean gradient over each half of an interval, against exact means of polynomials and a naive reference."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.polynomial import Polynomial

from captum_dig.quadrature.interpolation import half_weights

GAPS = st.lists(st.floats(0.05, 2.0), min_size=3, max_size=3)
ALL = (True, True, True, True)


def weights(position, known=ALL):
    found = half_weights(np.array(position, dtype=float).reshape(4, 1, 1), np.array(known).reshape(4, 1, 1))
    return found.cubic[:, :, 0, 0], found.linear[:, :, 0, 0]


def means(function, begin, end):
    """The exact means of a polynomial over both halves."""
    whole, middle = function.integ(), (begin + end) / 2
    return [(whole(stop) - whole(start)) / (stop - start) for start, stop in ((begin, middle), (middle, end))]


@given(GAPS, st.lists(st.floats(-3, 3), min_size=3, max_size=3))
def test_a_parabola_is_exact_with_both_neighbours(gaps, coefficients):
    position = np.concatenate([[0.3], 0.3 + np.cumsum(gaps)])
    function = Polynomial(coefficients)
    cubic, _ = weights(position)
    np.testing.assert_allclose(cubic @ function(position), means(function, *position[1:3]), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    "known",
    [
        ALL,
        (False, True, True, True),
        (True, True, True, False),
        (False, True, True, False),
        (False, False, True, True),
        (True, True, False, False),
    ],
)
@given(GAPS)
def test_a_straight_line_is_exact_at_the_ends_of_a_path_too(known, gaps):
    position = np.concatenate([[0.0], np.cumsum(gaps)])
    function = Polynomial([1.0, -2.0])
    cubic, linear = weights(position, known)
    values = np.where(known, function(position), 1e9)
    assert not cubic[:, ~np.array(known)].any()
    assert not linear[:, ~np.array(known)].any()
    np.testing.assert_allclose(cubic.sum(axis=1), 1, rtol=1e-12)
    np.testing.assert_allclose(linear.sum(axis=1), 1, rtol=1e-12)
    np.testing.assert_allclose(cubic @ values, means(function, *position[1:3]), rtol=1e-9, atol=1e-9)


def test_a_lone_node_stands_for_the_whole_path():
    for known in ((False, False, True, False), (False, True, False, False)):
        cubic, linear = weights([0, 0, 0.5, 1], known)
        np.testing.assert_array_equal(cubic, np.tile(np.array(known, dtype=float), (2, 1)))
        np.testing.assert_array_equal(linear, cubic)


def test_nodes_in_one_place_divide_by_nothing():
    cubic, linear = weights([0.5, 0.5, 0.5, 0.5])
    assert np.isfinite(cubic).all()
    np.testing.assert_allclose(cubic.sum(axis=1), 1)
    np.testing.assert_allclose(linear.sum(axis=1), 1)


@given(GAPS, st.lists(st.floats(-3, 3), min_size=4, max_size=4))
def test_it_is_the_mean_of_the_hermite_cubic(gaps, values):
    position = np.concatenate([[0.0], np.cumsum(gaps)])
    a, b, c, d = values
    rises = np.diff(values) / gaps
    left = (gaps[1] * rises[0] + gaps[0] * rises[1]) / (gaps[0] + gaps[1])
    right = (gaps[2] * rises[1] + gaps[1] * rises[2]) / (gaps[1] + gaps[2])
    h = gaps[1]
    # c(s) with c(0) = b, c(1) = c, c'(0) = h * left and c'(1) = h * right.
    cubic = Polynomial([b, h * left, 3 * (c - b) - h * (2 * left + right), 2 * (b - c) + h * (left + right)])
    got, _ = weights(position)
    np.testing.assert_allclose(got @ np.array([a, b, c, d]), means(cubic, 0, 1), rtol=1e-9, atol=1e-9)
