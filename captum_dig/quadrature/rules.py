r"""The rules: how [0, 1] is cut into cells, and where in each the gradient is taken.

Takes the share of each straight piece in the length of a path, and a number of gradients; gives edges and nodes on
[0, 1]. `captum_dig.quadrature.schedules` finds them on the pieces of a path.
"""

import functools
import itertools
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Final, final

import numpy as np

from captum_dig.catalogue import CATALOGUE
from captum_dig.checks import at_least_one
from captum_dig.paths.bundles import Array, cumulate

# Up to here NumPy's own nodes, to the last bit; 0.1 s.
_FEW_NODES = 256
# The third step is already below the tolerance.
_NEWTON_STEPS = 5


@dataclass(frozen=True)
class Cells:
    """A partition of [0, 1] into n cells with one node inside each, for every example of a batch.

    Attributes:
        edges: Shape (n + 1, B), from 0 to 1, rising.
        nodes: Shape (n, B), each between its two edges.
    """

    edges: Array
    nodes: Array


class QuadratureRule(ABC):
    """A rule that places n cells on paths whose pieces have known lengths.

    Attributes:
        by_length: Whether the rule needs the true lengths of the pieces for every spacing.
        known_sums: Whether attributions take the outputs at the nodes, too. Then only the nodes of the rule count: sums
            are known from node to node.
        refines: Whether the nodes that `cells` places are only the first, and the others go where the error is.
        shares_ends: Whether three or more paths share one gradient at the baseline and one at the input. Their other
            nodes then lie evenly between both, and not where `cells` places them. It needs known sums.
        nodes_per_path: The number of gradients on each path of an ensemble whose number of paths is free.

    Example:
        >>> RULES["riemann_middle"](np.ones((1, 1)), n_steps=2).nodes[:, 0].tolist()
        [0.25, 0.75]
    """

    by_length: ClassVar[bool] = False
    known_sums: ClassVar[bool] = False
    refines: ClassVar[bool] = False
    shares_ends: ClassVar[bool] = False
    nodes_per_path: ClassVar[int] = 12

    @abstractmethod
    def cells(self, lengths: Array, n_steps: int) -> Cells:
        """Place the cells: lengths of shape (S, B), each column summing to 1, to `n_steps` cells of [0, 1]."""

    @property
    def n_shared(self) -> int:
        """The number of gradients that paths share: at the baseline and at the input."""
        return 2 if self.shares_ends else 0

    @final
    def n_paths(self, n_steps: int) -> int:
        """Return the number of paths for which there are gradients, where it is free; below 1 if there are too few."""
        return (n_steps - self.n_shared) // self.nodes_per_path

    @final
    def __call__(self, lengths: Array, n_steps: int) -> Cells:
        """Place the cells and check what the subclass returned.

        Args:
            lengths: The share of each straight piece in its path, shape (S, B).
            n_steps: The number of gradients, at least 1.

        Returns:
            The cells.

        Raises:
            ValueError: If `n_steps` is below 1, or the subclass returned something else.
        """
        at_least_one("n_steps", n_steps)
        cells = self.cells(lengths, n_steps)
        batch = lengths.shape[1]
        if cells.edges.shape != (n_steps + 1, batch) or cells.nodes.shape != (n_steps, batch):
            raise ValueError(f"{type(self).__name__}.cells must place {n_steps} cells for each of {batch} examples")
        inside = (cells.edges[:-1] <= cells.nodes) & (cells.nodes <= cells.edges[1:])
        if (cells.edges[0] != 0).any() or (cells.edges[-1] != 1).any() or not inside.all():
            raise ValueError(f"{type(self).__name__}.cells must cover [0, 1] with every node inside its cell")
        return cells


@dataclass(frozen=True)
class Riemann(QuadratureRule):
    """Equal cells with the node at one place in each.

    Attributes:
        place: 0 for the left edge, 1/2 for the middle, 1 for the right edge.
    """

    place: float

    def cells(self, lengths: Array, n_steps: int) -> Cells:
        """Place equal cells."""
        edges = _even(n_steps)
        nodes = edges[:-1] + self.place * np.diff(edges)
        return _same_for_all(edges, nodes, lengths.shape[1])


@dataclass(frozen=True)
class Trapezoid(QuadratureRule):
    """Evenly spaced nodes, both ends included, with cells that meet half-way; the outer two are half as wide."""

    def cells(self, lengths: Array, n_steps: int) -> Cells:
        """Place the cells; a single node lies in the middle."""
        nodes = np.linspace(0.0, 1.0, n_steps) if n_steps > 1 else np.array([0.5])
        edges = np.concatenate([[0.0], (nodes[:-1] + nodes[1:]) / 2, [1.0]])
        return _same_for_all(edges, nodes, lengths.shape[1])


@dataclass(frozen=True)
class CompositeGauss(QuadratureRule):
    """Gauss-Legendre inside each straight piece, as far as there are nodes for it.

    The path is cut into parts. Neighbouring pieces that together are shorter than an even cell, 1 / n, form one part;
    every other piece is a part of its own. Each part gets one node, and the other nodes go one by one to the part with
    the largest length per node. A part of one piece, where the integrand is smooth, takes Gauss-Legendre nodes. A part
    of several pieces takes equal cells with the node in the middle. With fewer than `headroom` nodes for each piece the
    whole path is one part, because a node for every short piece would leave too few for the long ones. On a straight
    line, one piece, this is the rule that Captum calls Gauss-Legendre.

    Attributes:
        headroom: The least number of nodes for each piece for which the path is cut into parts.
    """

    by_length: ClassVar[bool] = True
    headroom: float

    def cells(self, lengths: Array, n_steps: int) -> Cells:
        """Place the cells, for each example by itself."""
        # Paths with many pieces for their nodes are one part each, and have the same cells.
        places, cuts = _middles(n_steps)
        cells = _same_for_all(np.concatenate([[0.0], cuts]), places, lengths.shape[1])
        n_pieces = (lengths > 0).sum(axis=0)
        for column in np.flatnonzero((n_pieces == 1) | (n_steps >= self.headroom * n_pieces)):
            cells.edges[:, column], cells.nodes[:, column] = self._column(lengths[:, column], n_steps)
        return cells

    def _column(self, lengths: Array, n_steps: int) -> tuple[Array, Array]:
        # Pieces without length have no place on [0, 1].
        lengths = lengths[lengths > 0]
        breaks = cumulate(lengths[:, None])[:, 0]
        parts = self._parts(lengths, n_steps)
        shares = np.array([breaks[stop] - breaks[start] for start, stop in parts])
        edges, nodes = [np.zeros(1)], []
        for (start, stop), share, n_nodes in zip(parts, shares, _apportion(shares, n_steps), strict=True):
            places, cuts = _gauss(n_nodes) if stop == start + 1 else _middles(n_nodes)
            nodes.append(breaks[start] + share * places)
            edges.append(breaks[start] + share * cuts)
        joined = np.concatenate(edges)
        joined[-1] = 1.0
        # Where parts meet, rounding must not put a node outside its cell.
        return joined, np.clip(np.concatenate(nodes), joined[:-1], joined[1:])

    def _parts(self, lengths: Array, n_steps: int) -> list[tuple[int, int]]:
        """Cut the pieces into parts, as ranges of pieces; each part gets a rule of its own."""
        # Invariant: the parts are in order and cover every piece once, and no two neighbouring parts are together
        # shorter than an even cell, 1 / n. Three pieces of the lengths 0.10, 0.05, 0.85 and n = 5: the first two are
        # together 0.15 < 0.20, so they become one part, (0, 2), beside (2, 3). That is two parts with 1 and 4 nodes.
        bounds = list(range(len(lengths) + 1))
        shares = list(lengths)
        while len(shares) > 1:
            pairs = np.add(shares[:-1], shares[1:])
            i = int(pairs.argmin())
            if pairs[i] * n_steps >= 1:
                break
            shares[i : i + 2] = [pairs[i]]
            del bounds[i + 1]
        return list(itertools.pairwise(bounds))


@dataclass(frozen=True)
class KnownSums(Riemann):
    """Known sums of the attributions from node to node: in the middles of equal cells, or between shared ends."""

    place: float = 0.5
    known_sums: ClassVar[bool] = True
    shares_ends: ClassVar[bool] = True
    nodes_per_path: ClassVar[int] = 3


@dataclass(frozen=True)
class Adaptive(KnownSums):
    """Known sums whose last nodes halve the intervals with the largest indicators."""

    refines: ClassVar[bool] = True


GAUSS_LEGENDRE: Final = CompositeGauss(headroom=1.25)
RIEMANN_LEFT: Final = Riemann(0.0)
RIEMANN_RIGHT: Final = Riemann(1.0)
RIEMANN_MIDDLE: Final = Riemann(0.5)
RIEMANN_TRAPEZOID: Final = Trapezoid()
KNOWN_SUMS: Final = KnownSums()
ADAPTIVE: Final = Adaptive()

RULES: Final[dict[str, QuadratureRule]] = {
    entry.name: globals()[entry.attribute] for entry in CATALOGUE if entry.kind == "rule"
}


def check_method(method: str | QuadratureRule) -> QuadratureRule:
    """Look up a rule by its name.

    Args:
        method: The name, or a rule, which is itself.

    Returns:
        The rule.

    Raises:
        ValueError: If there is no such rule; the message lists the names.
    """
    if isinstance(method, QuadratureRule):
        return method
    if method not in RULES:
        raise ValueError(
            f"method must be one of {', '.join(map(repr, RULES))}, got {method!r}; the anchor search is `strategy`"
        )
    return RULES[method]


def _even(n: int) -> Array:
    return np.arange(n + 1) / n


def _same_for_all(edges: Array, nodes: Array, batch: int) -> Cells:
    return Cells(np.repeat(edges[:, None], batch, axis=1), np.repeat(nodes[:, None], batch, axis=1))


def _middles(n: int) -> tuple[Array, Array]:
    """Nodes and right edges of n equal cells of [0, 1]."""
    return (np.arange(n) + 0.5) / n, np.arange(1, n + 1) / n


@functools.lru_cache(maxsize=1024)
def _gauss(n: int) -> tuple[Array, Array]:
    """Nodes and right edges of the n Gauss-Legendre cells of [0, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(n) if n <= _FEW_NODES else _many_nodes(n)
    return (nodes + 1) / 2, np.cumsum(weights / 2)


def _many_nodes(n: int) -> tuple[Array, Array]:
    """Nodes and weights on [-1, 1] as `leggauss` gives them, in O(n^2) instead of O(n^3) for its eigenvalues."""
    # The positive half, descending from 1: Tricomi's estimate, then Newton's iteration.
    x = (1 - 1 / (8 * n**2) + 1 / (8 * n**3)) * np.cos(np.pi * (4 * np.arange(1, n // 2 + 1) - 1) / (4 * n + 2))
    x = np.append(x, np.zeros(n % 2))
    for _ in range(_NEWTON_STEPS):
        before, now = np.ones_like(x), x
        for degree in range(2, n + 1):
            before, now = now, ((2 * degree - 1) * x * now - (degree - 1) * before) / degree
        slope = n * (before - x * now) / (1 - x * x)
        step = now / slope
        x = x - step
        if (np.abs(step) < 1e-12 * (1 - x * x)).all():
            break
    weights = 2 / ((1 - x * x) * slope * slope)
    half = slice(n % 2, None)
    nodes, weights = np.concatenate([-x, x[::-1][half]]), np.concatenate([weights, weights[::-1][half]])
    return nodes, weights * (2 / weights.sum())


def _apportion(shares: Array, n: int) -> list[int]:
    """Distribute n nodes: one to each part, then one by one to the part with the largest share per node."""
    if len(shares) == 1:
        # A straight line: this is called once for each example.
        return [n]
    seats = np.ones(len(shares), dtype=np.int64)
    for _ in range(n - len(shares)):
        seats[np.argmax(shares / seats)] += 1
    return [int(seat) for seat in seats]
