"""Sums over the intervals between nodes, where the sum of all attributions is known.

Takes intervals, and the gradients and outputs at nodes; gives attributions and their estimated errors. `streaming` and
`refining` call it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from captum_dig.attribution.summing import PathSum, as_tensor, word_sums
from captum_dig.paths.bundles import Array, Integers
from captum_dig.quadrature.interpolation import half_weights
from captum_dig.quadrature.layouts import LaidPaths

# A shared gradient is not used in an interval where it makes the residual so many times larger, beyond the known sum.
_CONTRADICTS = 2.0
# Elements of the intervals that are summed at once.
_BLOCK = 2**20


@dataclass(frozen=True)
class Intervals:
    """The intervals between neighbouring nodes of paths, and the node before and after each.

    Attributes:
        path: The number of the path, shape (n, B).
        nodes: The numbers of four nodes: before the interval, at its begin, at its end, and after it, shape (4, n, B).
        position: The positions of these on [0, 1], likewise.
        gradient: The numbers of their gradients, likewise; -1 where there is none, or none that is usable.
        n_shared: The number of gradients that all paths share. They come first: 0 at the baseline and 1 at the input.
    """

    path: Integers
    nodes: Integers
    position: Array
    gradient: Integers
    n_shared: int

    @classmethod
    def between(
        cls, path: Integers, position: Array, n_paths: int, usable: npt.NDArray[np.bool_] | None = None
    ) -> "Intervals":
        """Find the intervals between nodes, and between these and the ends of their paths.

        Args:
            path: The number of the path of each of N nodes, in any order, shape (N, B) or (N, 1).
            position: Its position on [0, 1], shape (N, B).
            n_paths: The number of paths, R. Each has a node.
            usable: Where the gradients at the baselines and at the inputs may be used, shape (2, B); None if there are
                none.

        Returns:
            N + R intervals, in the order of the paths. The ends count as nodes: N, N + 1 are the baseline and the input
            of path 0, then those of path 1, and so on. The gradient of node k has the number k + `n_shared`.

        Example:
            >>> found = Intervals.between(np.array([[0], [0]]), np.array([[0.75], [0.25]]), n_paths=1)
            >>> found.position[1:3, :, 0].T.tolist()
            [[0.0, 0.25], [0.25, 0.75], [0.75, 1.0]]
            >>> found.gradient[:, :, 0].T.tolist()
            [[-1, -1, 1, 0], [-1, 1, 0, -1], [1, 0, -1, -1]]

            With the gradient at the baseline:

            >>> only_baseline = np.array([[True], [False]])
            >>> found = Intervals.between(np.array([[0], [0]]), np.array([[0.75], [0.25]]), 1, only_baseline)
            >>> found.gradient[:, :, 0].T.tolist()
            [[-1, 0, 3, 2], [0, 3, 2, -1], [3, 2, -1, -1]]
        """
        shape = (2 * n_paths, position.shape[1])
        side = np.tile([[-1.0], [1.0]], (n_paths, 1))
        sides = np.concatenate([np.zeros_like(position), np.broadcast_to(side, shape)])
        paths = np.concatenate(
            [np.broadcast_to(path, position.shape), np.broadcast_to(np.arange(2 * n_paths)[:, None] // 2, shape)]
        )
        positions = np.concatenate([position, np.broadcast_to((side + 1) / 2, shape)])
        # The baseline comes before a node in its place, and the input behind it.
        order = np.lexsort((sides, positions, paths), axis=0)
        columns = np.arange(shape[1])
        ordered = paths[order, columns]
        # Every example has the same number of intervals.
        inside = (ordered[1:] == ordered[:-1]).T
        begins = np.nonzero(inside)[1].reshape(len(columns), -1).T
        own = ordered[begins, columns]
        places = begins + np.arange(-1, 3)[:, None, None]
        clipped = np.clip(places, 0, len(order) - 1)
        nodes = order[clipped, columns]
        n_shared = 0 if usable is None else len(usable)
        # The number of the gradient of each node, shape (N + 2 R, B).
        at_nodes = np.broadcast_to(n_shared + np.arange(len(position))[:, None], position.shape)
        at_end = np.full((2, shape[1]), -1) if usable is None else np.where(usable, [[0], [1]], -1)
        numbers = np.concatenate([at_nodes, np.tile(at_end, (n_paths, 1))])
        on_path = (places == clipped) & (paths[nodes, columns] == own)
        return cls(own, nodes, positions[nodes, columns], np.where(on_path, numbers[nodes, columns], -1), n_shared)

    def __len__(self) -> int:
        return len(self.path)

    def take(self, rows: slice | Integers) -> "Intervals":
        """Take some of the intervals."""
        own = (self.path[rows], self.nodes[:, rows], self.position[:, rows], self.gradient[:, rows])
        return Intervals(*own, self.n_shared)

    def numbered_from(self, first: int) -> "Intervals":
        """Subtract `first` from the numbers of the gradients at nodes; those before are gone, but for shared ones."""
        at_node = self.gradient >= self.n_shared
        return replace(self, gradient=np.where(at_node, self.gradient - first, self.gradient))


class IntervalSum(PathSum):
    """Estimates between neighbouring nodes, corrected to add up to the change of the output.

    Between two neighbouring nodes the attributions of all elements add up to the difference of the outputs there. The
    estimate of an element is the integral of a cubic through the gradients, over the displacements of both halves.
    Gradients that paths share at their ends are left out where the known sum contradicts them. The *residual* is the
    known sum minus the sum of the estimates. It is handed out to words in proportion to the sizes of their estimates,
    and within a word in proportion to those of its elements.

    Two quantities measure the uncertainty of an interval: the size of its residual, and the *change*. The change adds
    up the sizes by which the words' attributions differ with linear interpolation. Their sum is the *indicator*. For
    the *error*, the residual is multiplied by the probability that two words, drawn by their shares, differ; the error
    is half of the sum. A word's part in it is half of its change, and half of the residual times s (1 - s), where s is
    its share.

    Args:
        paths: The paths that are averaged.
        ends: The inputs, shape (B, ...) each.
        options: As for `PathSum`.

    Attributes:
        integration_errors: The errors of each input's words, added up over the intervals, shape (B, W).
        measured: The sum of the sizes of the words' attributions over the intervals, shape (B,).
    """

    def __init__(self, paths: LaidPaths, ends: Sequence[Tensor], **options: bool) -> None:
        super().__init__(paths.mean, ends, **options)
        self._paths = paths
        self.integration_errors = [word_sums(torch.zeros_like(total)[None])[0] for total in self.totals]
        self.measured = self.totals[0].new_zeros(len(ends[0]))

    @property
    def error_percent(self) -> Tensor:
        """The errors in percent of the attributions, (B,); 0 where nothing moves, NaN where they are not finite."""
        errors = torch.cat(self.integration_errors, dim=-1).sum(dim=-1)
        return torch.where(self.measured == 0, 0, 100 * errors / self.measured)

    def add_between(self, intervals: Intervals, gradients: Sequence[Tensor], outputs: Tensor) -> Tensor:
        """Add the attributions of intervals.

        Args:
            intervals: The intervals.
            gradients: The gradients of each input, shape (G, B, ...), the shared ones first.
            outputs: The outputs at all nodes, with the ends behind them as in `Intervals.between`, shape (N + 2 R, B).

        Returns:
            The indicators of the intervals, shape (n, B).
        """
        step = max(1, _BLOCK // max(end.numel() for end in self.totals))
        parts = [intervals.take(slice(at, at + step)) for at in range(0, len(intervals), step)]
        return torch.cat([self._add_some(part, gradients, outputs) for part in parts])

    def _add_some(self, intervals: Intervals, gradients: Sequence[Tensor], outputs: Tensor) -> Tensor:
        _, begin, end, _ = intervals.position
        middle = (begin + end) / 2
        at = torch.from_numpy(intervals.nodes[1:3]).to(outputs.device)
        divisors = self.mean.divisors[intervals.path]
        known = (outputs.gather(0, at[1]) - outputs.gather(0, at[0])) / as_tensor(divisors, outputs)
        rows = torch.from_numpy(np.maximum(intervals.gradient, 0))
        columns = torch.from_numpy(np.arange(begin.shape[1]))
        paths = np.tile(intervals.path, (2, 1))
        halves = np.concatenate([begin, middle]), np.concatenate([middle, end])
        # For each input: the gradients around the intervals, and the displacements over both halves.
        around: list[tuple[Tensor, Tensor]] = []
        for which, kept in enumerate(gradients):
            like = self.totals[which]
            nearby = kept[rows, columns].to(like.dtype).reshape(*rows.shape, like.shape[1:].numel())
            moves = self._paths.moves(which, paths, *halves)
            around.append(
                (nearby, moves.reshape(2, *begin.shape, nearby.shape[-1]) / as_tensor(divisors[..., None], like))
            )
        weights = self._weights(intervals, known, around)
        estimates = []
        for which, (nearby, moves) in enumerate(around):
            like = self.totals[which]
            means = torch.einsum("hjnb,jnbe->hnbe", as_tensor(weights, like), nearby)
            moved = moves.abs().sum(dim=0)
            # An element that does not move gets 0, even where its gradient is NaN.
            cubic, linear = (torch.where(moved > 0, (mean * moves).sum(dim=0), 0) for mean in (means[:2], means[2:]))
            # Both halves at once.
            means = means[:2].reshape(-1, *like.shape)
            self.add_means(which, means, np.tile((end - begin) / (2 * divisors), (2, 1)))
            shape = (*begin.shape, *like.shape[1:])
            estimates.append(_Estimate.of(*(each.reshape(shape) for each in (cubic, linear, moved))))
        return self._hand_out(known, estimates, intervals.path)

    def _weights(self, intervals: Intervals, known: Tensor, around: Sequence[tuple[Tensor, Tensor]]) -> Array:
        """Weigh the gradients around intervals: two halves with the cubic, then two with the line, (4, 4, n, B).

        If the function is steep at the baseline, such as a norm near 0, the gradient there says little about the rest
        of the interval, and the known sum contradicts it. Then shared gradients have no weight in the interval.
        """
        # Invariant: an interval without shared gradients keeps all. f(x) = x / (|x| + 0.001) from 0, the interval to
        # x = 1/4, the gradients 1000 and 0.016: the estimate with both is 125, the known sum 1, and the residual
        # without the shared one 1, too. As 124 > 2 * 1 + 1, the gradient 1000 is not used.
        has, own = intervals.gradient >= 0, intervals.gradient >= intervals.n_shared
        every = half_weights(intervals.position, has)
        if (own == has).all():
            return np.concatenate(every)
        only_own = half_weights(intervals.position, own)
        # The product of each gradient with each half's displacement gives the sum of an estimate with any weights.
        products = torch.stack([torch.einsum("jnbe,hnbe->hjnb", nearby, moves) for nearby, moves in around]).sum(dim=0)
        with_shared, without = (
            (known - (as_tensor(weights.cubic, products) * products).sum(dim=(0, 1))).abs()
            for weights in (every, only_own)
        )
        contradicted = with_shared > _CONTRADICTS * without + known.abs()
        return np.where(contradicted.cpu().numpy(), np.concatenate(only_own), np.concatenate(every))

    def _hand_out(self, known: Tensor, estimates: Sequence["_Estimate"], paths: Integers) -> Tensor:
        """Add estimates and residuals, and return the indicators of the intervals."""
        # Invariant: shares add up to 1 and no element gets more than the residual, so nothing blows up where
        # contributions cancel. Two words, estimates 3 and -1, known sum 6: the residual 4 goes 3 : 1, which makes 6 and
        # 0. A word that does not move has no share.
        moved = torch.cat([word_sums(each.moved) for each in estimates], dim=-1)
        words = torch.cat([each.words for each in estimates], dim=-1)
        linear = torch.cat([each.linear for each in estimates], dim=-1)
        residual, shares, attributed = _corrected(known, words, moved)
        change = (attributed - _corrected(known, linear, moved)[2]).abs()
        # NaN in one word leaves the others without a residual.
        handed_out = shares * residual.nan_to_num(nan=0.0, posinf=math.inf, neginf=-math.inf)[..., None]
        # A residual that can only be that of one word is no error.
        errors = (residual.abs()[..., None] * shares * (1 - shares) + change).sum(dim=0) / 2
        counts = [each.words.shape[-1] for each in estimates]
        parted = zip(estimates, handed_out.split(counts, dim=-1), errors.split(counts, dim=-1), strict=True)
        for which, (each, correction, error) in enumerate(parted):
            # Explicit sizes: there may be no word at all.
            elements = each.elements.reshape(*correction.shape, self.totals[which].shape[2:].numel())
            within = _shares(elements, each.moved.reshape(elements.shape))
            parts = elements + within * correction[..., None]
            self.add_parts(which, parts.reshape(each.elements.shape), paths)
            self.integration_errors[which] += error
        self.measured += attributed.abs().sum(dim=(0, 2))
        return residual.abs() + change.sum(dim=-1)


class _Estimate(NamedTuple):
    """The estimates of n intervals for one input.

    Attributes:
        elements: Of the elements, shape (n, B, ...).
        words: Of the words, (n, B, W).
        linear: Of the words, with linear interpolation.
        moved: The sizes of the displacements of the elements, shape (n, B, ...).
    """

    elements: Tensor
    words: Tensor
    linear: Tensor
    moved: Tensor

    @classmethod
    def of(cls, cubic: Tensor, linear: Tensor, moved: Tensor) -> "_Estimate":
        """Take estimates of elements with cubic and with linear interpolation, shape (n, B, ...) each."""
        return cls(cubic, word_sums(cubic), word_sums(linear), moved)


def _corrected(known: Tensor, words: Tensor, moved: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The residuals, (n, B), each word's share in them, (n, B, W), and the words' attributions with it."""
    residual, shares = known - words.sum(dim=-1), _shares(words, moved)
    return residual, shares, words + shares * residual[..., None]


def _shares(estimates: Tensor, moved: Tensor) -> Tensor:
    """Shares along the last dimension in proportion to the sizes of estimates; by displacement where all are 0."""
    sizes = estimates.abs()
    weights = torch.where(sizes.sum(dim=-1, keepdim=True) > 0, sizes, moved)
    return _ratio(weights, weights.sum(dim=-1, keepdim=True))


def _ratio(part: Tensor, whole: Tensor) -> Tensor:
    """Divide; 0 where the whole is not above 0."""
    return torch.where(whole > 0, part / torch.where(whole > 0, whole, 1), 0)
