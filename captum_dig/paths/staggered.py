"""StaggeredPath: words that move one after the other, in several orders.

Takes a path; gives several paths, one for each order, on which every word moves in a time window of its own. It lies
between the path itself, where all words move at once, and Shapley's random orders, where each word moves alone.
`captum_dig.quadrature` shares the gradients among the members.
"""

import copy
import math
import operator
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from captum_dig.checks import at_least_one
from captum_dig.paths.base import PathGenerator, StraightLine
from captum_dig.paths.bundles import Array, Bundle, Integers, Mean, Places, all_knots, distinct, times_at
from captum_dig.paths.polylines import Polyline
from captum_dig.paths.starts import draw
from captum_dig.paths.walks import Walk

# Times are float64; where one differs from a knot of the inner path by so little of a piece, it is that knot.
_ROUNDING = 1e-9
# Far from the seeds that people choose.
_NEXT_BLOCK = 2**40


class StaggeredPath(PathGenerator):
    """A path on which each word moves in a window of time of its own, averaged over several draws of the windows.

    The elements along dimension 1 of the inputs are the words: tokens for inputs of shape (B, T, D), coordinates for
    (B, D). Word i moves along the inner path while the time goes from s_i to s_i + width, and rests before and after.
    It takes the same time for each piece. The starts s_i are uniform on [0, 1 - width]. A word whose input equals its
    baseline does not move. With ``width=1`` this is the inner path. With ``width=0`` one word moves at a time. A member
    then attributes to a word the change that it adds to the words before it, and the mean over many orders tends to
    Shapley values.

    Starts depend only on the seed, the order and the place of the word. Neither the batch nor padding behind a text
    changes a result. For each word the starts of all orders are spread evenly: one in each of `n_orders` equal parts
    of [0, 1 - width]. Over the orders, the starts of different words are nearly uncorrelated, above all those of near
    words. Each start by itself is uniform. Two starts in one order depend on each other slightly: a small bias.

    A member has a knot for each time at which a word starts, passes a knot of the inner path, or stops. Points are made
    where a node is wanted: an attribution needs the times of the knots, but not the knots.

    Several inputs (a tuple, a list of layers) move in one time, and words with the same place or number share their
    windows. So a word's embedding, position and segment move together.

    Args:
        inner: The path of each word: any generator of a single path, such as `StraightLine` or `MonotonicPath`.
        width: How long a word moves, as a share of the whole time, in [0, 1].
        n_orders: The number of orders to average, at least 1, even if antithetic. None takes as many as there are
            gradients for. With known sums these are one for every 3, after the 2 at the ends; with other rules, one for
            every 12. An inner path with a share takes the gradients of several. With ``width=1`` all orders would be
            equal, and there is one.
        seed: Any integer; two that differ by a multiple of 2**62 are equivalent.
        antithetic: Whether orders come in pairs, s and 1 - width - s: a word that is late in one is early in the other.
            In a text of two interchangeable words both then get the same score.
        inner_share: The share of the inner path itself in the mean, at least 0 and below 1. If it is above 0, the inner
            path is one more member. It has no draw, so scores depend less on the seed.
        n_knots: Deprecated, without effect: no knots are kept.

    Raises:
        TypeError: If `inner` is no `PathGenerator`, or `seed` no integer.
        ValueError: If a number is out of range, or `n_orders` is odd and `antithetic` True.

    Example:
        >>> from captum_dig import StraightLine
        >>> path = StaggeredPath(StraightLine(), width=0, n_orders=2)
        >>> path(torch.ones(1, 2), torch.zeros(1, 2)).squeeze().tolist()
        [[[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]], [[0.0, 0.0], [0.0, 1.0], [1.0, 1.0]]]

    References:
        Sundararajan, Taly and Yan (2017), section 4.2, on averages over paths and Shapley values [sundararajan-2017].
    """

    def __init__(
        self,
        inner: PathGenerator,
        width: float = 0.5,
        n_orders: int | None = None,
        seed: int = 0,
        antithetic: bool = True,
        *,
        inner_share: float = 0.0,
        n_knots: int | None = None,
    ) -> None:
        if not isinstance(inner, PathGenerator):
            raise TypeError(f"inner must be a PathGenerator, got {type(inner).__name__}; for example StraightLine()")
        _check_single(inner, inner.n_paths)
        if not (isinstance(width, int | float) and 0 <= width <= 1):
            raise ValueError(f"width must be a number from 0 to 1, got {width!r}")
        if not (isinstance(inner_share, int | float) and 0 <= inner_share < 1):
            raise ValueError(
                f"inner_share must be a number from 0 to below 1, got {inner_share!r}; for the inner path alone, take "
                "width=1"
            )
        self.inner = inner
        self.monotone, self.vocabulary = inner.monotone, inner.vocabulary
        self.width = float(width)
        self.n_orders = None if n_orders is None else at_least_one("n_orders", n_orders)
        self.seed = _integer("seed", seed)
        self.antithetic = bool(antithetic)
        self.inner_share = float(inner_share)
        # A further block of orders comes without the inner path, which the first one has.
        self._with_inner = self.inner_share > 0
        self._count()
        if self.antithetic and self.n_orders is not None and self.n_orders % 2:
            raise ValueError(
                f"n_orders must be even for pairs of orders, got {n_orders}; take one more, or antithetic=False"
            )
        if n_knots is not None:
            warnings.warn(
                "n_knots has no effect: points are made where a node is wanted; leave it out",
                DeprecationWarning,
                stacklevel=2,
            )
        self._words: Tensor | None = None

    def _count(self) -> None:
        """Set the numbers that follow from the number of orders."""
        self.free = self.n_orders is None and self.width < 1
        n_orders = self.n_orders or self._at_once
        self.n_draws = 1 if self.width == 1 else max(1, n_orders // self._at_once)
        self.n_paths = 1 if self.width == 1 else n_orders + self._with_inner

    @property
    def _at_once(self) -> int:
        """The number of orders that are drawn together."""
        return 2 if self.antithetic else 1

    def __repr__(self) -> str:
        share = f", inner_share={self.inner_share:g}" if self.inner_share else ""
        return (
            f"StaggeredPath({self.inner!r}, width={self.width:g}, n_orders={self.n_orders}, seed={self.seed}, "
            f"antithetic={self.antithetic}{share})"
        )

    draws = True

    @classmethod
    def named(cls, walk: Callable[[], Walk], seed: int | None) -> "StaggeredPath":  # noqa: ARG003 - no words here
        """Make a staggered straight line."""
        return cls(StraightLine(), seed=0 if seed is None else seed)

    def sized(self, n_paths: int, block: int = 0) -> "StaggeredPath":
        """Choose the number of orders, if it is free."""
        if not self.free:
            return self
        path = copy.copy(self)
        path.seed += block * _NEXT_BLOCK
        path._with_inner = self._with_inner and block == 0
        path.n_orders = max(1, n_paths // self._at_once) * self._at_once
        # The inner path takes more gradients than an order.
        path._count()
        while path.n_parts > n_paths and path.n_orders > self._at_once:
            path.n_orders -= self._at_once
            path._count()
        return path

    @property
    def n_parts(self) -> int:
        """The number of orders, and for the inner path more than one."""
        if not self._with_inner or self.width == 1:
            return self.n_paths
        return int(Mean.of([1, self.n_paths - 1], [self.inner_share, None]).n_parts().sum())

    def describe(self) -> dict[str, int | None]:
        """Say how the inner path was made, and the seed of the starts."""
        return self.inner.describe() | {"seed": self.seed}

    def passed_words(self, ids: Tensor, goal: int) -> Tensor | None:
        """Find the words that the inner path passes."""
        return self.inner.passed_words(ids, goal)

    def ways(self, inputs: Tensor, baselines: Tensor) -> Tensor | None:
        """Build the inner path of single words: each goes along it, in a time of its own."""
        return self.inner.ways(inputs, baselines)

    def grouped(self, words: Tensor) -> "StaggeredPath":
        """Let the tokens of a word move together.

        Args:
            words: The number of the word that each token belongs to, shape (B, T), int64. Starts depend on it instead
                of the place of the token. Tokens with -1, such as padding, belong together too, if they move.

        Returns:
            The path for this one batch.

        Raises:
            ValueError: If `words` is something else.

        Example:
            >>> from captum_dig import StraightLine
            >>> path = StaggeredPath(StraightLine(), width=0, n_orders=2).grouped(torch.tensor([[0, 0, 1]]))
            >>> path(torch.ones(1, 3), torch.zeros(1, 3))[0].squeeze().tolist()
            [[0.0, 0.0, 0.0], [1.0, 1.0, 0.0], [1.0, 1.0, 1.0]]
        """
        if not isinstance(words, Tensor) or words.dim() != 2 or words.is_floating_point() or words.is_complex():
            got = f"{words.dtype} {tuple(words.shape)}" if isinstance(words, Tensor) else type(words).__name__
            raise ValueError(f"words must be integers of shape (B, T), got {got}")
        path = copy.copy(self)
        path.inner = self.inner.grouped(words)
        path._words = words.detach().to("cpu", torch.int64)
        return path

    def store(self) -> None:
        """Store the tables of the inner path."""
        self.inner.store()

    def knots(self, inputs: Tensor, baselines: Tensor) -> Tensor:
        """Make the knots of every member."""
        return all_knots(self.lay((inputs,), (baselines,)))

    def lay(self, inputs: tuple[Tensor, ...], baselines: tuple[Tensor, ...]) -> tuple[Bundle, ...]:
        """Draw the windows, and lay the inner paths of all inputs in them."""
        for end in inputs:
            if end.dim() < 2:
                raise ValueError(
                    f"inputs must have shape (B, T, ...), with words in dimension 1, got {tuple(end.shape)}"
                )
        bundles = self.inner.bundles(inputs, baselines)
        # A path may give more members than its `n_paths` says.
        _check_single(self.inner, sum(bundle.n_paths for bundle in bundles))
        polylines = bundles[0].polylines
        if self.width == 1:
            return bundles
        windows = [Windows.drawn(line, self._starts(line.inputs.shape[:2]).numpy(), self.width) for line in polylines]
        staggered = Staggered(polylines, windows)
        return (bundles[0].sharing(self.inner_share), staggered) if self._with_inner else (staggered,)

    def _starts(self, shape: torch.Size) -> Tensor:
        """The starts of all orders as shares of 1 - width, shape (R, B, T), float64."""
        if self._words is None:
            return self._draw(torch.arange(shape[1], device="cpu"))[:, None].expand(-1, *shape)
        if self._words.shape != shape:
            raise ValueError(
                f"inputs must have the batch and tokens of the words, {tuple(self._words.shape)}, got {tuple(shape)}; "
                "group the path again for each batch"
            )
        return self._draw(self._words)

    def _draw(self, numbers: Tensor) -> Tensor:
        """The starts of numbered words, shape (R, ...)."""
        return draw(numbers, self.n_draws * self._at_once, self.seed, self.antithetic)


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


def _integer(name: str, value: int) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer, got {value!r}; the same one gives the same starts") from None


def _check_single(inner: PathGenerator, n_paths: int) -> None:
    if n_paths != 1:
        raise ValueError(
            f"inner must give a single path, got {n_paths} from {type(inner).__name__}; "
            "put StaggeredPaths into an EnsemblePath instead"
        )


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
