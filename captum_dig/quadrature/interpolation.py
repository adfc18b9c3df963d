"""Interpolation: the mean gradient over each half of an interval between two nodes.

Takes the positions of an interval's ends and of their neighbours; gives the weights of the gradients there.
`captum_dig.attribution.intervals` multiplies the means by the displacements over the halves.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from captum_dig.paths.bundles import Array

# Means of Hermite's basis over the first half of [0, 1], and, in reverse order, over the second half. Of the values:
# h00 = 2s^3 - 3s^2 + 1 and h01 = 1 - h00. Of the slopes: h10 = s^3 - 2s^2 + s and -h11 = s^2 - s^3.
_NEAR_VALUE, _FAR_VALUE = 13 / 16, 3 / 16
_NEAR_SLOPE, _FAR_SLOPE = 11 / 96, 5 / 96


class HalfWeights(NamedTuple):
    """The weights of four gradients in the mean gradient over each half of an interval.

    The gradients are those before the interval, at its begin, at its end, and after it. Weights of a half add up to 1.

    Attributes:
        cubic: Of the cubic through the gradients at both ends, shape (2, 4, n, B).
        linear: Of the straight line through them, likewise.
    """

    cubic: Array
    linear: Array


def half_weights(position: Array, known: npt.NDArray[np.bool_]) -> HalfWeights:
    """Weigh the gradients around intervals.

    The slope at a node is that of the parabola through the gradients of the node and of both neighbours. A node with a
    single neighbour takes the slope of the straight line to it, and a lone node takes slope 0. The cubic has the
    gradients and slopes of both ends. An end of the path has no gradient of its own: the cubic goes on as a straight
    line there, and the linear interpolation is constant.

    Args:
        position: The positions before n intervals, at their begins, at their ends, and after them, shape (4, n, B).
            Before and after an interval they count only where there is a gradient.
        known: Where there is a gradient, shape (4, n, B); at least at one end of each interval.

    Returns:
        The weights; 0 where there is no gradient.

    Example:
        >>> position = np.array([0.0, 1.0, 2.0, 3.0]).reshape(4, 1, 1)
        >>> weights = half_weights(position, np.full((4, 1, 1), True))
        >>> weights.linear[0].ravel().tolist()
        [0.0, 0.75, 0.25, 0.0]
        >>> float((weights.cubic[0] * position**2).sum())  # the mean of t^2 on [1, 1.5] is 19/12
        1.5833333333333333
    """
    gaps = np.diff(position, axis=0)
    joined = known[:-1] & known[1:] & (gaps > 0)
    # Row j weighs gradient j alone, so weights are computed as gradients would be.
    unit = np.eye(4)[:, :, None, None]
    rises = [(unit[j + 1] - unit[j]) * joined[j] / np.where(joined[j], gaps[j], 1) for j in range(3)]
    slopes = [_slope(rises[j : j + 2], gaps[j : j + 2], joined[j : j + 2]) for j in range(2)]
    _, at_begin, at_end, _ = known
    width = gaps[1]
    left_slope = np.where(at_begin, slopes[0], slopes[1])
    right_slope = np.where(at_end, slopes[1], slopes[0])
    left = np.where(at_begin, unit[1], unit[2] - width * right_slope)
    right = np.where(at_end, unit[2], unit[1] + width * left_slope)
    first = _mean(left, right, width * left_slope, width * right_slope)
    second = _mean(right, left, -width * right_slope, -width * left_slope)
    near, far = np.where(at_begin, unit[1], unit[2]), np.where(at_end, unit[2], unit[1])
    linear = np.stack([(3 * near + far) / 4, (near + 3 * far) / 4])
    return HalfWeights(np.stack([first, second]), linear)


def _slope(rises: list[Any], gaps: Array, joined: npt.NDArray[np.bool_]) -> Any:
    """The weights of the slope at a node, shape (4, n, B), from those of the difference quotients on both sides."""
    # Of both quotients, the one over the shorter gap counts more. Gaps 1 and 2: slope = 2/3 first + 1/3 second.
    both = joined.all(axis=0)
    share = np.where(both, gaps[1] / np.where(both, gaps.sum(axis=0), 1), joined[0])
    return share * rises[0] + (1 - share) * rises[1]


def _mean(near: Any, far: Any, near_slope: Any, far_slope: Any) -> Any:
    """The mean of a cubic on [0, 1] over the half that is nearer to one end; slopes point to the other end."""
    return _NEAR_VALUE * near + _FAR_VALUE * far + _NEAR_SLOPE * near_slope - _FAR_SLOPE * far_slope
