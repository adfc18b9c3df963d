"""StaggeredPath: words that move one after the other, in several orders.

Takes a path; gives several paths, one for each order, on which every word moves in a time window of its own. It lies
between the path itself, where all words move at once, and Shapley's random orders, where each word moves alone.
`captum_dig.quadrature` shares the gradients among the members.
"""

import copy
import operator
import warnings
from collections.abc import Callable

import torch
from torch import Tensor

from captum_dig.checks import at_least_one
from captum_dig.paths.base import PathGenerator, StraightLine
from captum_dig.paths.bundles import Bundle, all_knots
from captum_dig.paths.means import Mean
from captum_dig.paths.starts import draw
from captum_dig.paths.walks import Walk
from captum_dig.paths.windows import Staggered, Windows

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
            every 12. An inner path with a share takes as many as several orders, so there are fewer. With ``width=1``
            all orders would be equal, and there is one.
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
        self.n_paths = 1 if self.width == 1 else n_orders + (self.inner_share > 0)

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
        """Make the default of `TextExplainer`: the mean of the straight line, and of its staggered orders."""
        return cls(StraightLine(), 0.3, seed=0 if seed is None else seed, inner_share=0.5)

    def sized(self, n_paths: int, block: int = 0) -> "StaggeredPath":
        """Choose the number of orders, if it is free."""
        if not self.free:
            return self
        path = copy.copy(self)
        path.seed += block * _NEXT_BLOCK
        if block:
            # The first block has the inner path already.
            path.inner_share = 0.0
        # The inner path counts as several orders. One part too many is accepted, and some orders then have a node less:
        # with few gradients, 6 orders of 2 or 3 nodes were better than 4 with more.
        for n_orders in range(max(1, n_paths // self._at_once) * self._at_once, 0, -self._at_once):
            path.n_orders = n_orders
            path._count()
            if path._n_parts <= n_paths + 1:
                break
        return path

    @property
    def _n_parts(self) -> int:
        """The number of orders, and for the inner path more than one."""
        if not self.inner_share:
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
        return (bundles[0].sharing(self.inner_share), staggered) if self.inner_share else (staggered,)

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
