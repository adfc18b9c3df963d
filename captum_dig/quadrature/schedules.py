"""Schedule: the cells and nodes of a rule on the pieces of paths.

Takes knots, a rule (`method`) and a number of gradients (`n_steps`); gives nodes and weights. `captum_dig.attribution`
feeds the nodes to the model and sums gradient times weight.
"""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from captum_dig.checks import at_least_one
from captum_dig.paths.monotone import pieces
from captum_dig.quadrature.rules import Array, QuadratureRule, check_method, cumulate, not_over

Places = npt.NDArray[np.int64]
Spacing = Literal["arc", "knots"]


@dataclass(frozen=True)
class Schedule:
    """Where a rule puts its nodes and cells on the pieces of the paths of a batch.

    The paths of an ensemble are concatenated: the steps of the first, then those of the second, and so on. Each path
    has cells of its own. A single path is an ensemble of one.

    Attributes:
        node_piece: The piece of each node, shape (n, B): the number of the knot at its beginning.
        node_fraction: How far along that piece, in [0, 1], shape (n, B).
        edge_piece: The same for the two edges of each cell, shape (2, n, B).
        edge_fraction: Shape (2, n, B).
        cell_width: The widths of the cells on [0, 1], a part of it for each path, shape (n, B).
        n_paths: R, the number of paths that are averaged.
    """

    node_piece: Places
    node_fraction: Array
    edge_piece: Places
    edge_fraction: Array
    cell_width: Array
    n_paths: int = 1

    @classmethod
    def on(
        cls,
        knots: tuple[Tensor, ...],
        method: str | QuadratureRule,
        spacing: Spacing,
        n_steps: int,
        n_paths: int = 1,
    ) -> "Schedule":
        """Place the nodes of a rule on paths.

        The tensors of a tuple move together and share one schedule. Knots that are repeated at the end of a path change
        nothing.

        Args:
            knots: For each input tensor its paths, one behind the other, each of shape (R * P, B, ...).
            method: The rule, or its name.
            spacing: How the pieces are laid on [0, 1] for the cell rules.
            n_steps: The number of nodes, at least R. The paths share them evenly; the first ones get one more.
            n_paths: R, the number of paths.

        Returns:
            The schedule.

        Raises:
            ValueError: If `method` or `spacing` is unknown, `n_steps` is below 1 or `n_paths`, or paths differ in their
                number of knots.

        Example:
            >>> knots = torch.tensor([0.0, 3.0, 4.0])[:, None, None]
            >>> schedule = Schedule.on((knots,), "riemann_middle", "arc", n_steps=2)
            >>> schedule.nodes(knots, slice(0, 2)).flatten().tolist()
            [1.0, 3.0]
        """
        rule = check_method(method)
        counts = {len(k) // n_paths for k in knots}
        if len(counts) != 1:
            raise ValueError(
                f"the paths of a tuple of inputs must have the same number of knots, got {sorted(counts)}; "
                "attribute to one of them at a time, or along StraightLine()"
            )
        if at_least_one("n_steps", n_steps) < n_paths:
            raise ValueError(
                f"n_steps must be at least {n_paths}, one for each path of the ensemble, got {n_steps}; "
                "take more steps or fewer paths"
            )
        n_knots = counts.pop()
        by_length = check_spacing(spacing) == "arc" or rule.by_length
        # Invariant: edges[0] is the first knot of a path, edges[-1] its last, and each cell ends where the next begins.
        # Three knots 0, 3, 4 and two cells of the midpoint rule: the pieces take the shares 3/4 and 1/4, so `breaks` is
        # 0, 3/4, 1. The nodes 1/4 and 3/4 lie a third into piece 0 (at 1) and at the start of piece 1 (at 3). The
        # middle edge, 1/2, lies two thirds into piece 0 (at 2). Each gradient has the weight 2: 2 - 0, and 4 - 2.
        laid_out: list[tuple[Places, Array, Places, Array, Array]] = []
        for path in range(n_paths):
            first = path * n_knots
            lengths = _shares(tuple(k[first : first + n_knots] for k in knots))
            laid = lengths if by_length else _even_shares(lengths)
            breaks, last = cumulate(laid), not_over(laid).sum(axis=0) - 1
            cells = rule(laid, n_steps // n_paths + (path < n_steps % n_paths))
            node_piece, node_fraction = _locate(cells.nodes, breaks, last)
            edge_piece, edge_fraction = _locate(cells.edges, breaks, last)
            laid_out.append(
                (
                    node_piece + first,
                    node_fraction,
                    np.stack([edge_piece[:-1], edge_piece[1:]]) + first,
                    np.stack([edge_fraction[:-1], edge_fraction[1:]]),
                    np.diff(cells.edges, axis=0) / n_paths,
                )
            )
        # Dimension -2 of each array counts steps.
        joined = [np.concatenate(parts, axis=-2) for parts in zip(*laid_out, strict=True)]
        node_pieces, node_fractions, edge_pieces, edge_fractions, widths = joined
        return cls(node_pieces, node_fractions, edge_pieces, edge_fractions, widths, n_paths)

    def nodes(self, knots: Tensor, steps: slice) -> Tensor:
        """Return the points of the path where gradients are taken.

        Args:
            knots: The paths, shape (R * P, B, ...).
            steps: Which nodes, a slice of range(n).

        Returns:
            Shape (steps, B, ...), dtype and device of `knots`.
        """
        piece, fraction = self.node_piece[steps], self.node_fraction[steps]
        left, right = _pick(knots, piece), _pick(knots, piece + 1)
        return left.lerp_(right, _like(fraction, left)).to(knots.dtype)

    def weights(self, knots: Tensor, steps: slice) -> Tensor:
        """Return the factor of each gradient: the displacement of the path over the cell of its node.

        Over all steps the factors add up to the last knot minus the first. In an ensemble each path has 1 / R of that.

        Args:
            knots: The paths, shape (R * P, B, ...).
            steps: Which cells, a slice of range(n).

        Returns:
            Shape (steps, B, ...), float32 or wider, device of `knots`.
        """
        # Invariant: summed over all cells, heads, whole pieces and tails cover each piece of the path once. A cell goes
        # from a fraction of piece `begin` to a fraction of piece `end`: the rest of `begin` (head), the pieces between,
        # and the start of `end` (tail). Knots 0, 3, 4 and the cell from 2/3 of piece 0 to the end of piece 1: head
        # (1 - 2/3) * 3 = 1, no piece between, tail 1 * 1 = 1, weight 2. The difference of the two end points would be
        # the same, but rounding would cancel it where a coordinate hardly moves.
        begin, end = self.edge_piece[:, steps]
        from_fraction, to_fraction = self.edge_fraction[:, steps]
        same = begin == end
        head = np.where(same, to_fraction, 1.0) - from_fraction
        tail = np.where(same, 0.0, to_fraction)
        inner = np.maximum(begin + 1, end)
        first, last = _pick(knots, begin + 1), _pick(knots, end)
        weights = (first - _pick(knots, begin)).mul_(_like(head, first))
        weights += (_pick(knots, end + 1) - last).mul_(_like(tail, last))
        if not same.all():
            weights += _pick(knots, inner) - first
        return weights if self.n_paths == 1 else weights.div_(self.n_paths)

    def widths(self, steps: slice, like: Tensor) -> Tensor:
        """Return the widths of the cells on [0, 1], shape (steps, B, 1, ...), as factors of tensors like `like`."""
        return _like(self.cell_width[steps], like[None])


def check_spacing(spacing: Spacing) -> Spacing:
    """Require the name of a spacing, and return it.

    Raises:
        ValueError: If there is no such spacing.
    """
    if spacing not in get_args(Spacing):
        raise ValueError(f"spacing must be one of {', '.join(map(repr, get_args(Spacing)))}, got {spacing!r}")
    return spacing


def _shares(knots: tuple[Tensor, ...]) -> Array:
    """The share of each piece in the Euclidean length of its path over all coordinates of all tensors, shape (S, B)."""
    squares = torch.stack([_squared_steps(path) for path in knots]).sum(dim=0)
    lengths: Array = squares.sqrt().cpu().numpy().astype(np.float64)
    if not np.isfinite(lengths).all():
        raise ValueError(
            "inputs and baselines must differ by less than about 1e18, got a path whose length overflows; "
            "scale them down"
        )
    # A running sum rounds the same in every batch; rounding decides between pieces of equal length.
    sums = np.cumsum(lengths, axis=0)[-1]
    shares: Array = np.where(sums > 0, lengths / np.where(sums > 0, sums, 1.0), 1 / len(lengths))
    return shares


def _even_shares(lengths: Array) -> Array:
    """Give each piece the same share; pieces without length at the end, which repeated knots make, get none."""
    going = not_over(lengths)
    shares: Array = going / going.sum(axis=0)
    return shares


def _squared_steps(path: Tensor) -> Tensor:
    """The squared lengths of the pieces, shape (S, B), float32 or wider."""
    rows = path.reshape(*path.shape[:2], -1, path.shape[-1] if path.dim() > 3 else 1)
    squares = [
        (right.to(_precise(path)) - left.to(_precise(path))).square_().sum(dim=-1) for left, right in pieces(rows)
    ]
    # A running sum: padding behind a text then changes not even the rounding.
    return torch.cat(squares).cumsum(dim=-1)[..., -1]


def _precise(tensor: Tensor) -> torch.dtype:
    """The tensor's dtype, or float32 where that is narrower."""
    return torch.promote_types(tensor.dtype, torch.float32)


def _locate(positions: Array, breaks: Array, last: Places) -> tuple[Places, Array]:
    """The piece that each position of [0, 1] lies on, and how far along that piece it lies, in [0, 1]."""
    # Invariant: position 0 is the first knot and position 1 the last. With `breaks` 0, 3/4, 1 (pieces 0 and 1) the
    # positions 0, 1/2, 3/4 and 1 lie on the pieces 0, 0, 1 and 1, at the fractions 0, 2/3, 0 and 1. A position on a
    # break belongs to the piece that begins there; position 1 belongs to the last piece that has a length.
    inner = breaks[1:-1]
    piece = (positions[:, None] >= inner[None]).sum(axis=1) if len(inner) else np.zeros(positions.shape, dtype=np.int64)
    # The first knot counts as the begin also where the first pieces have no length.
    piece = np.where(positions <= 0, 0, np.where(positions >= 1, last, piece))
    start, stop = np.take_along_axis(breaks, piece, axis=0), np.take_along_axis(breaks, piece + 1, axis=0)
    width = stop - start
    fraction = np.where(width > 0, (positions - start) / np.where(width > 0, width, 1.0), 0.0)
    return piece, np.where(positions >= 1, 1.0, np.clip(fraction, 0.0, 1.0))


def _pick(knots: Tensor, piece: Places) -> Tensor:
    """Knots (P, B, ...) by their numbers (n, B): a copy of shape (n, B, ...), float32 or wider."""
    number = torch.from_numpy(np.ascontiguousarray(piece)).to(knots.device)
    examples = torch.arange(knots.shape[1], device=knots.device)
    picked = knots[number, examples]
    return picked.to(_precise(picked))


def _like(values: Array, tensor: Tensor) -> Tensor:
    """Numbers per (step, example) as a tensor that multiplies one of shape (n, B, ...)."""
    flat = torch.tensor(values.tolist(), dtype=tensor.dtype, device=tensor.device)
    return flat.reshape(*values.shape, *[1] * (tensor.dim() - 2))
