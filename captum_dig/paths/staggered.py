"""StaggeredPath: words that move one after the other, in several orders.

Takes a path; gives several paths, one for each order, on which every word moves in a time window of its own. It lies
between the path itself, where all words move at once, and Shapley's random orders, where each word moves alone.
`captum_dig.quadrature` shares the gradients among the members.
"""

import copy
import math
import operator
from collections.abc import Callable

import torch
from torch import Tensor

from captum_dig.checks import at_least_one
from captum_dig.paths.anchors import scramble
from captum_dig.paths.base import PathGenerator, StraightLine, as_ensemble
from captum_dig.paths.walks import Walk

# Elements of the knots that are made together.
_BLOCK = 2**22
# Times are float64; where one differs from a knot of the inner path by so little of a piece, it is that knot.
_ROUNDING = 1e-9


class StaggeredPath(PathGenerator):
    """A path on which each word moves in a window of time of its own, averaged over several draws of the windows.

    The elements along dimension 1 of the inputs are the words: tokens for inputs of shape (B, T, D), coordinates for
    (B, D). Word i moves along the inner path while the time goes from s_i to s_i + width, and rests before and after.
    It takes the same time for each piece. The starts s_i are uniform on [0, 1 - width] and independent of each other. A
    word whose input equals its baseline does not move. With ``width=1`` this is the inner path. With ``width=0`` one
    word moves at a time. A member then attributes to a word the change that it adds to the words before it, and the
    mean over many orders tends to Shapley values.

    Starts depend only on the seed, the order and the place of the word. Neither the batch nor padding behind a text
    changes a result. For each word the starts of all orders are spread evenly: one in each of `n_orders` equal parts
    of [0, 1 - width]. Each order by itself stays uniform, and the mean over a few orders is an unbiased estimate of
    the mean over all.

    A member has a knot for each time at which a word starts, passes a knot of the inner path, or stops. If an example
    has more than `n_knots` such times, its member is the polyline through `n_knots` of them, evenly chosen. It is as
    monotone and as complete.

    Windows are drawn for each tensor alone. Several tensors that move together (a tuple of inputs, a list of layers)
    share no windows.

    Args:
        inner: The path of each word: any generator of a single path, such as `StraightLine` or `MonotonicPath`.
        width: How long a word moves, as a share of the whole time, in [0, 1].
        n_orders: The number of paths to average, at least 1, even if antithetic. With ``width=1`` all paths would be
            equal, and there is one.
        seed: Any integer; two that differ by a multiple of 2**62 are equivalent.
        antithetic: Whether orders come in pairs, s and 1 - width - s: a word that is late in one is early in the other.
            In a text of two interchangeable words both then get the same score.
        n_knots: The largest number of knots of a member for each example, at least 2. It bounds memory, which is
            `n_orders` times `n_knots` times that of the inputs, and the time to make them.

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
        n_orders: int = 4,
        seed: int = 0,
        antithetic: bool = True,
        *,
        n_knots: int = 64,
    ) -> None:
        if not isinstance(inner, PathGenerator):
            raise TypeError(f"inner must be a PathGenerator, got {type(inner).__name__}; for example StraightLine()")
        _check_single(inner, inner.n_paths)
        if not (isinstance(width, int | float) and 0 <= width <= 1):
            raise ValueError(f"width must be a number from 0 to 1, got {width!r}")
        self.inner = inner
        self.monotone, self.vocabulary = inner.monotone, inner.vocabulary
        self.width = float(width)
        self.n_orders = at_least_one("n_orders", n_orders)
        self.n_paths = 1 if width == 1 else self.n_orders
        self.seed = _integer("seed", seed)
        self.antithetic = bool(antithetic)
        self.n_knots = at_least_one("n_knots", n_knots)
        if self.antithetic and self.n_orders % 2:
            raise ValueError(
                f"n_orders must be even for pairs of orders, got {n_orders}; take one more, or antithetic=False"
            )
        if self.n_knots < 2:
            raise ValueError(f"n_knots must be at least 2, got {n_knots}; a path has two ends")
        self._words: Tensor | None = None

    def __repr__(self) -> str:
        return (
            f"StaggeredPath({self.inner!r}, width={self.width:g}, n_orders={self.n_orders}, seed={self.seed}, "
            f"antithetic={self.antithetic}, n_knots={self.n_knots})"
        )

    draws = True

    @classmethod
    def named(cls, walk: Callable[[], Walk], seed: int | None) -> "StaggeredPath":  # noqa: ARG003 - no words here
        """Make a staggered straight line."""
        return cls(StraightLine(), seed=0 if seed is None else seed)

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
        """Draw the windows, choose the times of the knots, and look up where each word is at these."""
        if inputs.dim() < 2:
            raise ValueError(
                f"inputs must have shape (B, T, ...), with words in dimension 1, got {tuple(inputs.shape)}"
            )
        ensemble = as_ensemble(self.inner(inputs, baselines), inputs)
        # A path may give more members than its `n_paths` says.
        _check_single(self.inner, len(ensemble))
        inner = ensemble[0]
        shape = inputs.shape[:2]
        moving = (inputs != baselines).reshape(*shape, -1).any(dim=-1).cpu()
        plans = [self._progress(starts, moving, len(inner) - 1) for starts in self._starts(shape)]
        n_knots = max(len(plan) for plan in plans)
        knots = inputs.new_empty(len(plans), n_knots, *inputs.shape)
        inner = inner.reshape(len(inner), *shape, -1)
        for member, plan in zip(knots, plans, strict=True):
            _fill(member.reshape(n_knots, *shape, -1), inner, plan)
            # Examples with fewer knots wait at the inputs, and so do members.
            member[len(plan) :] = inputs
        return knots

    def _starts(self, shape: torch.Size) -> Tensor:
        """The starts of all orders as shares of 1 - width, shape (R, B, T), float64."""
        if self._words is None:
            starts = draw(torch.arange(shape[1], device="cpu"), self.n_orders, self.seed, self.antithetic)[
                :, None
            ].expand(-1, *shape)
        elif self._words.shape == shape:
            starts = draw(self._words, self.n_orders, self.seed, self.antithetic)
        else:
            raise ValueError(
                f"inputs must have the batch and tokens of the words, {tuple(self._words.shape)}, got {tuple(shape)}; "
                "group the path again for each batch"
            )
        return starts[:1] if self.width == 1 else starts

    def _progress(self, starts: Tensor, moving: Tensor, n_pieces: int) -> Tensor:
        """How many pieces of the inner path each word has behind it at each knot, shape (P, B, T), float64."""
        # Invariant: progress rises with the knots, from 0 at the first knot to n_pieces at the last; words that do not
        # move stay at 0 until then. Two words with starts 0 and 1, width 1/2, on a line (one piece). The windows are
        # [0, 1/2] and [1/2, 1], the times are 0, 1/2, 1, and progress is (0, 0), (1, 0), (1, 1): three knots.
        # With width 0 only the order of the starts counts: word after word gets one unit of time.
        begins = starts * (1 - self.width) if self.width else _ranks(starts, moving).to(torch.float64)
        length = self.width or 1.0
        passes = begins[..., None] + length * (torch.arange(n_pieces + 1, dtype=torch.float64, device="cpu") / n_pieces)
        # passes[b, t, k]: when word t passes knot k of its inner path; never, if it does not move.
        passes[~moving] = math.inf
        times, last = _choose(passes.flatten(1), self.n_knots)
        progress = (times[..., None] - begins).div_(length).clamp_(0, 1).mul_(n_pieces)
        # A word at a knot of the inner path must be exactly at it.
        whole = progress.round()
        progress = torch.where((progress - whole).abs() < _ROUNDING, whole, progress)
        progress[:, ~moving] = 0
        progress[0] = 0
        # From its last time on, an example waits at its inputs.
        progress[torch.arange(len(times), device="cpu")[:, None] >= last] = n_pieces
        return progress


def draw(numbers: Tensor, n_orders: int, seed: int, antithetic: bool) -> Tensor:
    """Draw starts for numbered words: uniform on [0, 1], independent between words, spread evenly over the orders.

    Args:
        numbers: The number of each word, any shape, int64 on the CPU. The same number gets the same starts.
        n_orders: R, even if antithetic.
        seed: Any integer.
        antithetic: Whether each second order is one minus the one before.

    Returns:
        Shape (R, ...), float64: a function of the arguments, for each number by itself.

    Example:
        >>> draw(torch.tensor([5, 5, 7]), n_orders=4, seed=0, antithetic=True).mul(4).floor().sort(dim=0).values.T
        tensor([[0., 1., 2., 3.],
                [0., 1., 2., 3.],
                [0., 1., 2., 3.]], dtype=torch.float64)
    """
    n_drawn = n_orders // 2 if antithetic else n_orders
    order = torch.arange(n_drawn, device="cpu").reshape(-1, *[1] * numbers.dim())
    # A Latin hypercube: each word visits the parts of [0, 1] in an order of its own.
    part = scramble(seed, numbers[None], 3 * order).argsort(dim=0).argsort(dim=0)
    inside = scramble(seed, numbers[None], 3 * order + 1).to(torch.float64) / 2**63
    if not antithetic:
        return (part + inside) / n_drawn
    # A pair takes a part and its mirror image; which comes first is drawn for each word.
    swapped = scramble(seed, numbers[None], 3 * order + 2) >= 2**62
    first = (torch.where(swapped, n_orders - 1 - part, part) + inside) / n_orders
    return torch.stack([first, 1 - first], dim=1).flatten(0, 1)


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


def _ranks(starts: Tensor, moving: Tensor) -> Tensor:
    """For each word the number of different starts of moving words before its own, shape (B, T)."""
    ordered, places = torch.where(moving, starts, math.inf).sort(dim=1)
    later = ordered.diff(dim=1, prepend=ordered[:, :1]) > 0
    return torch.empty_like(places).scatter_(1, places, later.cumsum(dim=1))


def _choose(passes: Tensor, n_knots: int) -> tuple[Tensor, Tensor]:
    """Choose at most `n_knots` different times of each example from its passes, (B, N), infinite where there is none.

    Returns:
        Times, rising, the last one repeated, shape (P, B), and the number of the first knot at the last time, shape
        (B,).
    """
    # Invariant: the first and the last time of an example are always chosen. With n_knots = 3 and the passes
    # 0, 1/4, 1/2, 1/2, 3/4, 1 there are 5 different times and 4 gaps between them. The numbers of the chosen times are
    # 0, 2 and 4, and the times 0, 1/2 and 1.
    ordered = passes.sort(dim=1).values
    new = ordered.isfinite()
    new[:, 1:] &= ordered[:, 1:] > ordered[:, :-1]
    different = torch.where(new, ordered, math.inf).sort(dim=1).values
    n_gaps = (new.sum(dim=1) - 1).clamp(min=0)
    last = n_gaps.clamp(max=n_knots - 1)
    steps = torch.arange(max(2, int(last.max()) + 1), device="cpu")[:, None].minimum(last)
    # The nearest integer to steps * n_gaps / last, in integers.
    chosen = (2 * steps * n_gaps + last) // (2 * last).clamp(min=1)
    times = different.gather(1, chosen.T).T
    # An example in which nothing moves has no times.
    return times.nan_to_num(posinf=0.0), last


def _fill(member: Tensor, inner: Tensor, progress: Tensor) -> None:
    """Write into (P, B, T, F) the point of the inner path, (Q, B, T, F), that each word has reached at each knot."""
    # Invariant: a word with progress k, a whole number, is at knot k of its inner path, bit for bit. With the inner
    # knots 0, 10, 30 and a progress of 0, 1.5, 2 a word is at 0, then half-way from 10 to 30, at 20, then at 30.
    n_pieces, n_examples, n_words = len(inner) - 1, *inner.shape[1:3]
    precise = torch.promote_types(inner.dtype, torch.float32)
    rows = torch.arange(n_examples, device=inner.device)[:, None]
    columns = torch.arange(n_words, device=inner.device)
    step = max(1, _BLOCK // inner[0].numel())
    for points, going in zip(member[: len(progress)].split(step), progress.split(step), strict=True):
        piece = going.floor().clamp_(max=n_pieces - 1)
        share = (going - piece).to(precise)[..., None].to(inner.device)
        piece = piece.to(torch.int64).to(inner.device)
        if n_pieces == 1:
            left, right = inner.to(precise)
        else:
            left, right = inner[piece, rows, columns].to(precise), inner[piece + 1, rows, columns].to(precise)
        low, high = torch.minimum(left, right), torch.maximum(left, right)
        # From the left and then into the piece: this is monotone in floating point, which `lerp` is not.
        reached = torch.mul(right - left, share).add_(left).clamp_(low, high)
        points.copy_(torch.where(share >= 1, right, reached))
