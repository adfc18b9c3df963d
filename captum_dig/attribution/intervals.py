"""Sums over the intervals between nodes, where the sum of all attributions is known.

Takes intervals, and the gradients and outputs at nodes; gives attributions and their estimated errors. `streaming` and
`refining` call it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from captum_dig.attribution.summing import PathSum, word_sums
from captum_dig.paths.bundles import Array, Integers
from captum_dig.quadrature.interpolation import half_weights
from captum_dig.quadrature.layouts import LaidPaths

# The share of a residual that goes by displacement: it decides only where no estimate is above 0.
_BY_DISPLACEMENT = 1e-12
# Elements of the intervals that are summed at once.
_BLOCK = 2**20


@dataclass(frozen=True)
class Intervals:
    """The intervals between neighbouring nodes of paths, and the node before and after each.

    Attributes:
        path: The number of the path, shape (n, B).
        nodes: The numbers of four nodes: before the interval, at its begin, at its end, and after it, shape (4, n, B).
        position: The positions of these on [0, 1], likewise.
        gradient: The numbers of their gradients, likewise; -1 where there is none on this path.
    """

    path: Integers
    nodes: Integers
    position: Array
    gradient: Integers

    @classmethod
    def between(cls, path: Integers, position: Array, gradient: Integers) -> "Intervals":
        """Find the intervals between nodes, in the order of the paths.

        Args:
            path: The number of the path of each node, in any order, shape (N, B). Every example has the same paths.
            position: Its position, likewise.
            gradient: The number of its gradient, likewise; -1 where it has none.
        """
        order = np.lexsort((position, path), axis=0)
        columns = np.arange(order.shape[1])
        ordered = path[order, columns]
        # Every example has as many intervals: its nodes, less one for each path.
        inside = (ordered[1:] == ordered[:-1]).T
        begins = np.nonzero(inside)[1].reshape(len(columns), -1).T
        places = begins + np.arange(-1, 3)[:, None, None]
        clipped = np.clip(places, 0, len(order) - 1)
        nodes, own = order[clipped, columns], path[order[begins, columns], columns]
        here = (places == clipped) & (path[nodes, columns] == own)
        return cls(own, nodes, position[nodes, columns], np.where(here, gradient[nodes, columns], -1))

    def __len__(self) -> int:
        return len(self.path)

    def some(self, rows: slice | Integers) -> "Intervals":
        """Take some of the intervals."""
        return Intervals(self.path[rows], self.nodes[:, rows], self.position[:, rows], self.gradient[:, rows])

    def numbered_from(self, first: int) -> "Intervals":
        """Number the gradients from a first one, of those that are there."""
        return replace(self, gradient=np.where(self.gradient < 0, -1, self.gradient - first))


def with_ends(path: Integers, position: Array, n_paths: int) -> tuple[Integers, Array, Integers]:
    """Add both ends of each path behind nodes, and number the gradients of the nodes.

    Args:
        path: The numbers of the paths of n nodes, shape (n, B) or (n, 1).
        position: Their positions on [0, 1], shape (n, B).
        n_paths: The number of paths, R.

    Returns:
        The paths, positions and numbers of gradients of nodes and ends, -1 for the ends, shape (n + 2 * R, B) each.
    """
    shape = (2 * n_paths, position.shape[1])
    paths = np.broadcast_to(np.repeat(np.arange(n_paths), 2)[:, None], shape)
    ends = np.broadcast_to(np.tile([0.0, 1.0], n_paths)[:, None], shape)
    numbers = np.broadcast_to(np.arange(len(path))[:, None], position.shape)
    return (
        np.concatenate([np.broadcast_to(path, position.shape), paths]),
        np.concatenate([position, ends]),
        np.concatenate([numbers, np.full(shape, -1)]),
    )


class IntervalSum(PathSum):
    """Estimates between neighbouring nodes, corrected to add up to the change of the output.

    Between two neighbouring nodes the attributions of all elements add up to the difference of the outputs there. The
    estimate of an element is the integral of a cubic through the gradients, over the displacements of both halves. The
    residual is the known sum minus the sum of the estimates. It is handed out to words in proportion to the sizes of
    their estimates, and within a word in proportion to those of its elements.

    Two quantities tell how well an interval is known: the size of its residual, and the *change* of the words'
    attributions, in sizes, if gradients are interpolated on a straight line instead. Their sum is the *indicator*. For
    the *error*, the residual is multiplied by the probability that two words drawn by their shares differ, and the mean
    of both is taken.

    Args:
        paths: The paths that are averaged.
        ends: The inputs, shape (B, ...) each.
        options: As for `PathSum`.

    Attributes:
        errors: The sum of the errors of the intervals, shape (B,).
        measured: The sum of the sizes of the words' attributions in each, shape (B,).
    """

    def __init__(self, paths: LaidPaths, ends: Sequence[Tensor], **options: bool) -> None:
        super().__init__(paths.n_paths, ends, **options)
        self._paths = paths
        self.errors, self.measured = (self.totals[0].new_zeros(len(ends[0])) for _ in range(2))

    @property
    def error_percent(self) -> Tensor:
        """The errors in percent of the attributions, (B,); 0 where nothing moves."""
        return torch.where(self.measured > 0, 100 * self.errors / self.measured, 0)

    def add_between(self, intervals: Intervals, gradients: Sequence[Tensor | None], outputs: Tensor) -> Tensor:
        """Add the attributions of intervals.

        Args:
            intervals: The intervals.
            gradients: The gradients of each input, shape (G, B, ...); None where the output does not depend on it.
            outputs: The outputs at the nodes, shape (N, B).

        Returns:
            The indicators of the intervals, shape (n, B).
        """
        step = max(1, _BLOCK // max(end.numel() for end in self.totals))
        parts = [intervals.some(slice(at, at + step)) for at in range(0, len(intervals), step)]
        return torch.cat([self._add_some(part, gradients, outputs) for part in parts])

    def _add_some(self, intervals: Intervals, gradients: Sequence[Tensor | None], outputs: Tensor) -> Tensor:
        _, begin, end, _ = intervals.position
        middle = (begin + end) / 2
        weights = np.concatenate(half_weights(intervals.position, intervals.gradient >= 0))
        rows = torch.from_numpy(np.maximum(intervals.gradient, 0))
        columns = torch.from_numpy(np.arange(begin.shape[1]))
        estimates: dict[int, _Estimate] = {}
        for which, kept in enumerate(gradients):
            if kept is None:
                continue
            like = self.totals[which]
            narrow = torch.from_numpy(weights if like.dtype == torch.float64 else weights.astype(np.float32))
            around = kept[rows, columns].to(like.dtype).reshape(*rows.shape, -1)
            means = torch.einsum("hjnb,jnbe->hnbe", narrow.to(like.device), around)
            means = means.reshape(4, *begin.shape, *like.shape[1:])
            self.add_means(which, means[:2].mean(dim=0), (end - begin) / self.n_paths)
            # Both halves at once.
            paths = np.concatenate([intervals.path, intervals.path])
            moves = self._paths.moves(which, paths, np.concatenate([begin, middle]), np.concatenate([middle, end]))
            moves = moves.reshape(2, *begin.shape, *like.shape[1:]) / self.n_paths
            cubic, linear = ((mean * moves).sum(dim=0) for mean in (means[:2], means[2:]))
            estimates[which] = _Estimate(cubic, word_sums(cubic), word_sums(linear), moves.abs().sum(dim=0))
        if not estimates:
            return outputs.new_zeros(begin.shape)
        at = torch.from_numpy(intervals.nodes[1:3]).to(outputs.device)
        known = (outputs.gather(0, at[1]) - outputs.gather(0, at[0])) / self.n_paths
        return self._hand_out(known, estimates, intervals.path)

    def _hand_out(self, known: Tensor, estimates: Mapping[int, "_Estimate"], paths: Integers) -> Tensor:
        """Add estimates and residuals, and return the indicators of the intervals."""
        # Invariant: shares add up to 1 and no element gets more than the residual, so nothing blows up where
        # contributions cancel. Two words, estimates 3 and -1, known sum 6: the residual 4 goes 3 : 1, which makes 6 and
        # 0. A word that does not move has no share.
        sizes = torch.cat([word_sums(each.moved) for each in estimates.values()], dim=-1)
        words = torch.cat([each.words for each in estimates.values()], dim=-1)
        linear = torch.cat([each.linear for each in estimates.values()], dim=-1)
        residual, shares = _residual(known, words, sizes)
        handed = words + shares * residual[..., None]
        first = 0
        for which, each in estimates.items():
            elements = each.elements.abs() + _BY_DISPLACEMENT * each.moved
            measured = word_sums(elements)
            rates = shares[..., first : first + measured.shape[-1]] * residual[..., None]
            rates = torch.where(measured > 0, rates / torch.where(measured > 0, measured, 1), 0)
            first += measured.shape[-1]
            shape = elements.shape[:2] if elements.dim() == 2 else (*rates.shape, *[1] * (elements.dim() - 3))
            self.add_parts(which, each.elements + elements * rates.reshape(shape), paths)
        other, other_shares = _residual(known, linear, sizes)
        change = (handed - linear - other_shares * other[..., None]).abs().sum(dim=-1)
        # A residual that can only be that of one word is no error.
        unlike = (1 - shares.square().sum(dim=-1)).clamp(min=0)
        self.errors += (residual.abs() * unlike + change).sum(dim=0) / 2
        self.measured += handed.abs().sum(dim=(0, 2))
        return residual.abs() + change


class _Estimate(NamedTuple):
    """The estimates of n intervals for one input.

    Attributes:
        elements: Of the elements, shape (n, B, ...).
        words: Of the words, (n, B, W).
        linear: Of the words, with gradients interpolated on a straight line.
        moved: The sizes of the displacements of the elements.
    """

    elements: Tensor
    words: Tensor
    linear: Tensor
    moved: Tensor


def _residual(known: Tensor, words: Tensor, sizes: Tensor) -> tuple[Tensor, Tensor]:
    """The residuals, (n, B), and each word's share in them, (n, B, W)."""
    weights = words.abs() + _BY_DISPLACEMENT * sizes
    total = weights.sum(dim=-1, keepdim=True)
    shares = torch.where(total > 0, weights / torch.where(total > 0, total, 1), 0)
    return known - words.sum(dim=-1), shares
