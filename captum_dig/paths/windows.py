"""Windows: when each word moves on a staggered path, and the paths that this makes.

Takes the inner path of each word and its start in each order; gives the bundle of all orders.
`captum_dig.paths.staggered` draws the starts.
"""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from captum_dig.paths.bundles import Array, Bundle, Integers, Places, distinct, times_at
from captum_dig.paths.polylines import Polyline

# Times are float64; where one differs from a knot of the inner path by so little of a piece, it is that knot.
_ROUNDING = 1e-9


class Windows:
    """When the words of one input move in each order.

    Args:
        polyline: The inner paths of the words.
        begins: The times at which they start, shape (R, B, W).
        length: How long each moves.
        moving: Which words move, shape (B, W).

    Attributes:
        length: How long each word moves.
    """

    def __init__(self, polyline: Polyline, begins: Array, length: float, moving: npt.NDArray[np.bool_]) -> None:
        self.length = length
        self._begins, self._n_pieces, self._moving = begins, polyline.n_pieces, moving
        self._speeds = polyline.lengths().cpu().numpy().astype(np.float64) * (polyline.n_pieces / length)

    @classmethod
    def drawn(cls, polyline: Polyline, starts: Array, width: float) -> "Windows":
        """Make windows from starts as shares of 1 - width, shape (R, B, W)."""
        moving = polyline.words_of(polyline.inputs != polyline.baselines).any(dim=-1).cpu().numpy()
        # With width 0 only the order of the starts counts: word after word gets one unit of time.
        return cls(polyline, starts * (1 - width) if width else ranks(starts, moving), width or 1.0, moving)

    def events(self) -> tuple[Array, Array, Integers]:
        """Return the times at which words pass knots of their paths, and the changes there.

        Returns:
            For each order, example, and knot of a word: the time, infinite for a word that does not move; the change of
            the squared speed of all words together; and the change of the number of moving words. Shape (R, B, N) each.
        """
        shape = (*self._begins.shape, self._n_pieces + 1)
        times = self._begins[..., None] + self.length * (np.arange(self._n_pieces + 1) / self._n_pieces)
        times[:, ~self._moving] = math.inf
        squares = np.moveaxis(self._speeds, 0, -1) ** 2
        nothing = np.zeros((*squares.shape[:-1], 1))
        changes = np.diff(np.concatenate([nothing, squares, nothing], axis=-1))
        movers = np.zeros(self._n_pieces + 1, dtype=np.int64)
        movers[0] += 1
        movers[-1] -= 1
        wide = (*self._begins.shape[:2], -1)
        return (
            times.reshape(wide),
            np.broadcast_to(changes, shape).reshape(wide),
            np.broadcast_to(movers, shape).reshape(wide),
        )

    def progress(self, path: Integers, times: Array) -> tuple[Integers, Array]:
        """Find each word's place on its inner path.

        Args:
            path: The orders, shape (n, B) or (n, 1).
            times: Times, shape (n, B).

        Returns:
            Numbers of pieces and fractions of these, shape (n, B, W).
        """
        # Invariant: progress, in pieces, rises with the time from 0 to n_pieces. A word with a whole number is at that
        # knot of its inner path, bit for bit. Two words with starts 0 and 1, width 1/2, on a line (one piece): the
        # windows are [0, 1/2] and [1/2, 1]. At the times 0, 1/2, 1 progress is (0, 0), (1, 0), (1, 1).
        going = (
            np.clip((times[..., None] - self._begins[path, np.arange(times.shape[1])]) / self.length, 0, 1)
            * self._n_pieces
        )
        whole = np.round(going)
        going = np.where(np.abs(going - whole) < _ROUNDING, whole, going)
        piece = np.minimum(np.floor(going), self._n_pieces - 1).astype(np.int64)
        return piece, going - piece


class Staggered(Bundle):
    """Paths on which each word moves in a window of its own.

    Args:
        polylines: The inner path of each input.
        windows: The windows of each input, in the same orders.
    """

    def __init__(self, polylines: tuple[Polyline, ...], windows: list[Windows]) -> None:
        times, changes, movers = (
            np.concatenate(parts, axis=2) for parts in zip(*(w.events() for w in windows), strict=True)
        )
        n_orders, n_examples, n_events = times.shape
        super().__init__(polylines, n_orders)
        self._windows = windows
        # Rows are orders of examples.
        times = times.reshape(-1, n_events)
        different, numbers, by_time = distinct(times)
        speeds = _after(changes.reshape(times.shape), by_time, numbers, different.shape[1])
        moving = _after(movers.reshape(times.shape), by_time, numbers, different.shape[1])
        # Where no word moves, a sum of changes may differ from 0 by rounding.
        lengths = np.sqrt(np.where(moving > 0, np.maximum(speeds, 0), 0))[:, :-1] * np.diff(different)
        # Single precision, as of lengths that are measured: words that are equal stay so.
        lengths = lengths.astype(np.float32).astype(np.float64)
        self._lengths: Array = np.moveaxis(lengths.reshape(n_orders, n_examples, -1), 1, 2)
        self._times: Array = np.moveaxis(different.reshape(n_orders, n_examples, -1), 1, 2)

    def lengths(self) -> Array:
        """Return the length of each piece, from the speeds of the words that move meanwhile."""
        return self._lengths

    def where(self, which: int, places: Places) -> tuple[Integers, Array]:
        """Find the time of each place, and the progress of each word at it."""
        return self._windows[which].progress(places.path, times_at(self._times, places))


def ranks(starts: Array, moving: npt.NDArray[np.bool_]) -> Array:
    """Count for each word the different starts of moving words before its own.

    Args:
        starts: Shape (R, B, W).
        moving: Which words move, shape (B, W).

    Returns:
        Whole numbers, shape (R, B, W).

    Example:
        >>> ranks(np.array([[[0.7, 0.1, 0.1, 0.4]]]), np.array([[True, True, True, False]])).tolist()
        [[[1.0, 0.0, 0.0, 2.0]]]
    """
    starts = np.where(moving, starts, math.inf)
    order = np.argsort(starts, axis=-1, kind="stable")
    ordered = np.take_along_axis(starts, order, axis=-1)
    later = np.zeros(starts.shape)
    later[..., 1:] = ordered[..., 1:] > ordered[..., :-1]
    counted = np.empty_like(later)
    np.put_along_axis(counted, order, np.cumsum(later, axis=-1), axis=-1)
    return counted


def _after(changes: npt.NDArray[Any], by_time: Integers, numbers: Integers, n_times: int) -> npt.NDArray[Any]:
    """Sum the changes up to and at each of the different times: shape (B, N) to (B, P), 0 behind the last one."""
    sums = np.cumsum(np.take_along_axis(changes, by_time, axis=1), axis=1)
    after = np.zeros((len(changes), n_times), dtype=changes.dtype)
    # Of equal times the last one wins, which has all changes behind it. Words that do not move come last of all.
    last = np.ones(numbers.shape, dtype=bool)
    last[:, :-1] = numbers[:, 1:] > numbers[:, :-1]
    row, column = np.nonzero(last & (numbers >= 0))
    after[row, numbers[row, column]] = sums[row, column]
    return after
