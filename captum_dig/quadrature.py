r"""Quadrature: where on a path the gradients are taken, and how much each of them counts.

Takes knots, a rule (`method`) and a number of gradients (`n_steps`), gives nodes and weights. `captum_dig.attribution`
feeds the nodes to the model and sums gradient times weight.

Every rule cuts [0, 1] into `n_steps` cells and takes one gradient inside each; the weight of a node is the displacement
of the path over its cell, γ(right edge) - γ(left edge). Weights therefore add up to input - baseline for every path,
rule and number of steps, and a linear model gets its exact attribution. Gauss-Legendre is no exception: the cumulated
weights of its nodes are edges that separate them.
"""

import functools
import itertools
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Final, Literal, final, get_args

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from captum_dig.errors import at_least_one
from captum_dig.monotone import pieces

Array = npt.NDArray[np.float64]
Spacing = Literal["arc", "knots"]


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

    Example:
        >>> RULES["riemann_middle"](np.ones((1, 1)), n_steps=2).nodes[:, 0].tolist()
        [0.25, 0.75]
    """

    @abstractmethod
    def cells(self, lengths: Array, n_steps: int) -> Cells:
        """Place the cells: lengths of shape (S, B), each column summing to 1, to `n_steps` cells of [0, 1]."""

    @final
    def __call__(self, lengths: Array, n_steps: int) -> Cells:
        """Place the cells and check what the subclass answered.

        Args:
            lengths: The share of each straight piece in its path, shape (S, B).
            n_steps: The number of gradients, at least 1.

        Returns:
            The cells.

        Raises:
            ValueError: If `n_steps` is below 1, or the subclass answered something else than such cells.
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
        """Place the cells; a single node stands in the middle."""
        nodes = np.linspace(0.0, 1.0, n_steps) if n_steps > 1 else np.array([0.5])
        edges = np.concatenate([[0.0], (nodes[:-1] + nodes[1:]) / 2, [1.0]])
        return _same_for_all(edges, nodes, lengths.shape[1])


@dataclass(frozen=True)
class CompositeGauss(QuadratureRule):
    """Gauss-Legendre inside each straight piece, as far as there are nodes for it.

    Neighbouring pieces that together are shorter than an even cell, 1 / n, share cells; every other piece is a part of
    its own. Each part gets a node, and the rest go one by one to the part with the largest length per node. A part of
    one piece, where the integrand is smooth, takes Gauss-Legendre nodes; one of several pieces takes equal cells with
    the node in the middle. So does the whole path while there are fewer than `headroom` nodes for each piece: one node
    for every short piece would leave too few for the long ones. On a straight line, one piece, this is the rule that
    Captum calls Gauss-Legendre.

    Attributes:
        headroom: How many nodes there must be for each piece before pieces are told apart.
    """

    headroom: float

    def cells(self, lengths: Array, n_steps: int) -> Cells:
        """Place the cells, for each example by itself."""
        columns = [self._column(column, n_steps) for column in lengths.T]
        edges, nodes = [edges for edges, _ in columns], [nodes for _, nodes in columns]
        return Cells(np.stack(edges, axis=1), np.stack(nodes, axis=1))

    def _column(self, lengths: Array, n_steps: int) -> tuple[Array, Array]:
        # Pieces without length are no pieces: they have no place on [0, 1].
        lengths = lengths[lengths > 0]
        breaks = _cumulated(lengths[:, None])[:, 0]
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
        """Runs of pieces that get a rule together, as ranges of pieces."""
        if n_steps < self.headroom * len(lengths) and len(lengths) > 1:
            return [(0, len(lengths))]
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


RULES: Final[dict[str, QuadratureRule]] = {
    "gausslegendre": CompositeGauss(headroom=1.25),
    "riemann_left": Riemann(0.0),
    "riemann_right": Riemann(1.0),
    "riemann_middle": Riemann(0.5),
    "riemann_trapezoid": Trapezoid(),
}


@dataclass(frozen=True)
class Schedule:
    """Where a rule puts its nodes and cells on the pieces of the paths of a batch.

    Attributes:
        node_piece: The piece that each node stands on, shape (n, B).
        node_fraction: How far along that piece, in [0, 1], shape (n, B).
        edge_piece: The same for the edges of the cells, shape (n + 1, B).
        edge_fraction: Shape (n + 1, B).
        cell_width: The widths of the cells on [0, 1], shape (n, B).
    """

    node_piece: npt.NDArray[np.int64]
    node_fraction: Array
    edge_piece: npt.NDArray[np.int64]
    edge_fraction: Array
    cell_width: Array

    @classmethod
    def on(cls, knots: tuple[Tensor, ...], method: str, spacing: Spacing, n_steps: int) -> "Schedule":
        """Place the nodes of a rule on paths.

        The tensors of a tuple move together, so that they share one schedule.

        Args:
            knots: One path for each input tensor, each of shape (P, B, ...).
            method: The rule.
            spacing: How the pieces are laid on [0, 1] for the cell rules.
            n_steps: The number of nodes, at least 1.

        Returns:
            The schedule.

        Raises:
            ValueError: If `method` or `spacing` is unknown, `n_steps` is below 1, or paths differ in their number of
                knots.

        Example:
            >>> knots = torch.tensor([0.0, 3.0, 4.0])[:, None, None]
            >>> schedule = Schedule.on((knots,), "riemann_middle", "arc", n_steps=2)
            >>> schedule.nodes(knots, slice(0, 2)).flatten().tolist()
            [1.0, 3.0]
        """
        rule = RULES[check_method(method)]
        counts = {len(k) for k in knots}
        if len(counts) != 1:
            raise ValueError(f"the paths of a tuple of inputs must have the same number of knots, got {sorted(counts)}")
        lengths = _shares(knots)
        n_pieces = len(lengths)
        by_length = check_spacing(spacing) == "arc" or isinstance(rule, CompositeGauss)
        laid = lengths if by_length else np.full_like(lengths, 1 / n_pieces)
        breaks = _cumulated(laid)
        cells = rule(laid, n_steps)
        return cls(*_locate(cells.nodes, breaks), *_locate(cells.edges, breaks), np.diff(cells.edges, axis=0))

    def nodes(self, knots: Tensor, steps: slice) -> Tensor:
        """Points of the path where gradients are taken.

        Args:
            knots: The path, shape (P, B, ...).
            steps: Which nodes, a slice of range(n).

        Returns:
            Shape (steps, B, ...), dtype and device of `knots`.
        """
        piece, fraction = self.node_piece[steps], self.node_fraction[steps]
        left, right = _pick(knots, piece), _pick(knots, piece + 1)
        return left.lerp_(right, _like(fraction, left)).to(knots.dtype)

    def weights(self, knots: Tensor, steps: slice) -> Tensor:
        """Displacements of the path over the cells: what each gradient is multiplied by.

        Over all steps they add up to the last knot minus the first.

        Args:
            knots: The path, shape (P, B, ...).
            steps: Which cells, a slice of range(n).

        Returns:
            Shape (steps, B, ...), float32 or wider, device of `knots`.
        """
        # Over its own pieces, not as a difference of two points: that would cancel where a coordinate hardly moves.
        begin, end = self.edge_piece[:-1][steps], self.edge_piece[1:][steps]
        from_fraction, to_fraction = self.edge_fraction[:-1][steps], self.edge_fraction[1:][steps]
        same = begin == end
        head = np.where(same, to_fraction, 1.0) - from_fraction
        tail = np.where(same, 0.0, to_fraction)
        inner = np.maximum(begin + 1, end)
        first, last = _pick(knots, begin + 1), _pick(knots, end)
        weights = (first - _pick(knots, begin)).mul_(_like(head, first))
        weights += (_pick(knots, end + 1) - last).mul_(_like(tail, last))
        if not same.all():
            weights += _pick(knots, inner) - first
        return weights

    def widths(self, steps: slice, like: Tensor) -> Tensor:
        """Widths of the cells on [0, 1], shape (steps, B, 1, ...), to average tensors like `like`, (B, ...), with."""
        return _like(self.cell_width[steps], like[None])


def check_method(method: str) -> str:
    """Return the name of a rule, or say which there are.

    Raises:
        ValueError: If there is no such rule.
    """
    if method not in RULES:
        raise ValueError(
            f"method must be one of {', '.join(map(repr, RULES))}, got {method!r}; the anchor search is `strategy`"
        )
    return method


def check_spacing(spacing: Spacing) -> Spacing:
    """Return the name of a spacing, or say which there are.

    Raises:
        ValueError: If there is no such spacing.
    """
    if spacing not in get_args(Spacing):
        raise ValueError(f"spacing must be one of {', '.join(map(repr, get_args(Spacing)))}, got {spacing!r}")
    return spacing


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
    nodes, weights = np.polynomial.legendre.leggauss(n)
    return (nodes + 1) / 2, np.cumsum(weights / 2)


def _apportion(shares: Array, n: int) -> list[int]:
    """Share n nodes out: one to each part, then one by one to the part with the largest share per node."""
    seats = np.ones(len(shares), dtype=np.int64)
    for _ in range(n - len(shares)):
        seats[np.argmax(shares / seats)] += 1
    return [int(seat) for seat in seats]


def _shares(knots: tuple[Tensor, ...]) -> Array:
    """The share of each piece in the Euclidean length of its path over all coordinates of all tensors, shape (S, B)."""
    squares = torch.stack([_squared_steps(path) for path in knots]).sum(dim=0)
    lengths: Array = squares.sqrt().cpu().numpy().astype(np.float64)
    if not np.isfinite(lengths).all():
        raise ValueError(
            "inputs and baselines must differ by less than about 1e18, got a path whose length overflows; "
            "scale them down"
        )
    # One after the other, whatever the batch: rounding decides between pieces of equal length.
    sums = np.cumsum(lengths, axis=0)[-1]
    shares: Array = np.where(sums > 0, lengths / np.where(sums > 0, sums, 1.0), 1 / len(lengths))
    return shares


def _squared_steps(path: Tensor) -> Tensor:
    """The squared lengths of the pieces, shape (S, B), float32 or wider."""
    rows = path.reshape(*path.shape[:2], -1, path.shape[-1] if path.dim() > 3 else 1)
    squares = [
        (right.to(_precise(path)) - left.to(_precise(path))).square_().sum(dim=-1) for left, right in pieces(rows)
    ]
    # Added up in order, so that padding behind a text changes not even the rounding.
    return torch.cat(squares).cumsum(dim=-1)[..., -1]


def _precise(tensor: Tensor) -> torch.dtype:
    """The tensor's dtype, or float32 where that is narrower."""
    return torch.promote_types(tensor.dtype, torch.float32)


def _cumulated(lengths: Array) -> Array:
    """Where the pieces begin and end on [0, 1], shape (P, B)."""
    breaks = np.concatenate([np.zeros((1, lengths.shape[1])), np.cumsum(lengths, axis=0)])
    breaks[-1] = 1.0
    # Rounding can lift a sum above 1.
    capped: Array = np.minimum(breaks, 1.0)
    return capped


def _locate(positions: Array, breaks: Array) -> tuple[npt.NDArray[np.int64], Array]:
    """The piece that each position of [0, 1] stands on, and the fraction of it that lies before."""
    inner = breaks[1:-1]
    piece = (positions[:, None] >= inner[None]).sum(axis=1) if len(inner) else np.zeros(positions.shape, dtype=np.int64)
    # The ends of a path are its first and last knot, also where pieces there have no length.
    piece = np.where(positions <= 0, 0, np.where(positions >= 1, len(breaks) - 2, piece))
    start, stop = np.take_along_axis(breaks, piece, axis=0), np.take_along_axis(breaks, piece + 1, axis=0)
    width = stop - start
    fraction = np.where(width > 0, (positions - start) / np.where(width > 0, width, 1.0), 0.0)
    return piece, np.where(positions >= 1, 1.0, np.clip(fraction, 0.0, 1.0))


def _pick(knots: Tensor, piece: npt.NDArray[np.int64]) -> Tensor:
    """Knots (P, B, ...) by their numbers (n, B): a copy of shape (n, B, ...), float32 or wider."""
    number = torch.from_numpy(np.ascontiguousarray(piece)).to(knots.device)
    examples = torch.arange(knots.shape[1], device=knots.device)
    picked = knots[number, examples]
    return picked.to(_precise(picked))


def _like(values: Array, tensor: Tensor) -> Tensor:
    """Numbers per (step, example) as a tensor that multiplies one of shape (n, B, ...)."""
    flat = torch.tensor(values.tolist(), dtype=tensor.dtype, device=tensor.device)
    return flat.reshape(*values.shape, *[1] * (tensor.dim() - 2))
