"""Refinement: known sums whose nodes are put where the residuals are, and which can go on with more nodes.

Takes bundles of paths and the model's gradients and outputs at nodes; gives attributions. It keeps all gradients, so
that nothing is evaluated twice. `inputs` calls it.
"""

import numpy as np
import torch
from torch import Tensor

from captum_dig.attribution.calls import Call
from captum_dig.attribution.integral import Integral
from captum_dig.attribution.summing import ResidualSum, word_sums
from captum_dig.checks import at_least_one
from captum_dig.paths.bundles import Array, Integers
from captum_dig.quadrature import RULES
from captum_dig.quadrature.layouts import LaidPaths
from captum_dig.quadrature.schedules import check_enough, evenly

# Elements of the intervals that are summed at once.
_BLOCK = 2**22
# The part of the change of the gradients in the indicator of an interval, beside its residual.
_ROUGHNESS = 0.3


class Refinement:
    """Nodes on the paths of a batch, each example with its own, and the gradients and outputs there.

    Between two neighbouring nodes of a path lies an interval. Its *indicator* is the size of its residual, plus 0.3
    times the sizes of the changes of the gradient, times the displacements. `add_nodes` halves the intervals with
    the largest indicators.

    Args:
        call: The arguments of the call.
        n_steps: The number of the first nodes. They lie in the middles of even cells.
        n_paths: The number of paths, where it is free.

    Attributes:
        n_steps: The number of gradients so far, for each example.
        n_draws: The number of independent draws among the paths.
    """

    def __init__(self, call: Call, n_steps: int, n_paths: int) -> None:
        self._call = call
        self._at_once = None if call.rows_at_once is None else max(1, call.rows_at_once // max(1, len(call.ends[0])))
        self._paths = LaidPaths(call.spacing)
        self._n_blocks = self.n_steps = self.n_draws = 0
        # The nodes of each example: their paths, positions, and the numbers of their gradients, shape (N, B). Every
        # path has a node at both ends, where the output is known and there is no gradient (-1).
        nothing = np.zeros((0, len(call.ends[0])), dtype=np.int64)
        self._path, self._number, self._position = nothing, nothing, nothing.astype(np.float64)
        self._at_ends = call.outputs_at_ends(n_steps)
        self._outputs = self._at_ends[:0]
        # Of each interval, shape (M, B); empty until they have been summed.
        self._indicator: Array = self._position
        self._gradients: list[list[Tensor]] = [[] for _ in call.ends]
        self._add_paths(n_steps, n_paths)

    def add_orders(self, n_steps: int) -> None:
        """Add further orders, drawn like the first ones; 4 gradients are taken along each.

        Args:
            n_steps: The number of gradients.

        Raises:
            ValueError: If the number of paths is not free, or there are fewer gradients than paths.
        """
        at_least_one("n_steps", n_steps)
        if not self._call.path.free:
            raise ValueError(f"the number of orders must be free, got {self._call.path!r}; take n_orders=None")
        self._add_paths(n_steps, n_steps // RULES["adaptive"].nodes_per_path)

    def add_nodes(self, n_steps: int) -> None:
        """Halve the intervals where the indicator is largest.

        Args:
            n_steps: The number of further nodes. Where it exceeds the number of intervals, there are several rounds.

        Raises:
            ValueError: If `n_steps` is below 1.
        """
        n_steps = at_least_one("n_steps", n_steps)
        while n_steps > 0:
            if not len(self._indicator):
                self.summed()
            left, right = self._intervals()
            worst = np.argsort(-self._indicator, axis=0, kind="stable")[:n_steps]
            columns = np.arange(left.shape[1])
            left, right = left[worst, columns], right[worst, columns]
            middle = (self._position[left, columns] + self._position[right, columns]) / 2
            self._evaluate(self._path[left, columns], middle)
            n_steps -= len(worst)

    def integral(self) -> Integral:
        """Return the attributions with all gradients so far, and what is known of their errors."""
        return self._call.integral(self.summed(with_paths=True), self.n_steps, self.n_draws)

    def summed(self, *, with_paths: bool = False) -> ResidualSum:
        """Return the attributions with all gradients so far."""
        # Invariant: the intervals of a path cover it once, so their known sums add up to the difference between input
        # and baseline. One input, f(x) = x^2 from 0 to 4, one node, at 2, with the gradient 4: the intervals [0, 2] and
        # [2, 4] have the estimates 8 and 8, the known sums 4 and 12, and the residuals -4 and 4.
        call = self._call
        total = ResidualSum(self._paths.n_paths, call.ends, with_means=not call.multiplied, with_paths=with_paths)
        left, right = self._intervals()
        step = max(1, _BLOCK // max(end.numel() for end in call.ends))
        indicators = [self._sum(total, left[at : at + step], right[at : at + step]) for at in range(0, len(left), step)]
        self._indicator = torch.cat(indicators).cpu().numpy().astype(np.float64)
        return total

    def _add_paths(self, n_steps: int, n_paths: int) -> None:
        """Add paths, and share nodes among them evenly."""
        bundles, n_draws = self._call.lay(n_paths, self._n_blocks)
        n_new = sum(bundle.n_paths for bundle in bundles)
        counts = evenly(check_enough(n_steps, n_new), n_new)
        paths = np.arange(self._paths.n_paths, self._paths.n_paths + n_new)
        for bundle in bundles:
            self._paths.add(bundle)
        self._n_blocks += 1
        self.n_draws += n_draws
        two_ends = np.repeat(paths, 2)[:, None]
        self._keep(two_ends, np.tile([0.0, 1.0], n_new)[:, None], np.full_like(two_ends, -1))
        self._outputs = torch.cat([self._outputs, self._at_ends.repeat(n_new, 1)])
        positions = np.concatenate([_first_positions(count) for count in counts])
        shape = (n_steps, self._path.shape[1])
        path = np.repeat(paths, counts)[:, None]
        self._evaluate(np.broadcast_to(path, shape), np.broadcast_to(positions[:, None], shape))

    def _keep(self, path: Integers, position: Array, number: Integers) -> None:
        """Add nodes, shape (n, B) or (n, 1)."""
        self._indicator = self._indicator[:0]
        shape = (len(path), self._path.shape[1])
        self._path = np.concatenate([self._path, np.broadcast_to(path, shape)])
        self._position = np.concatenate([self._position, np.broadcast_to(position, shape)])
        self._number = np.concatenate([self._number, np.broadcast_to(number, shape)])

    def _evaluate(self, path: Integers, position: Array) -> None:
        """Take the gradients at new nodes, shape (n, B)."""
        step = self._at_once or len(path)
        outputs = [self._outputs]
        for at in range(0, len(path), step):
            some = slice(at, at + step)
            points = [self._paths.points(which, path[some], position[some]) for which in range(len(self._gradients))]
            for kept, gradient in zip(self._gradients, self._call.evaluations.gradients(points), strict=True):
                # With grad_kwargs={"allow_unused": True} an output may not depend on an input.
                if gradient is not None:
                    kept.append(gradient)
            outputs.append(self._call.evaluations.outputs(len(points[0])))
        self._keep(path, position, np.arange(self.n_steps, self.n_steps + len(path))[:, None])
        self._outputs = torch.cat(outputs)
        self._gradients = [[torch.cat(kept)] if kept else [] for kept in self._gradients]
        self.n_steps += len(path)

    def _intervals(self) -> tuple[Integers, Integers]:
        """The numbers of the nodes at the left and right of each interval, shape (M, B), in the order of the paths."""
        order = np.lexsort((self._position, self._path), axis=0)
        columns = np.arange(order.shape[1])
        path = self._path[order, columns]
        # Every example has as many intervals: its nodes, less one for each path.
        inside = (path[1:] == path[:-1]).T
        shape = (order.shape[1], -1)
        return order[:-1].T[inside].reshape(shape).T, order[1:].T[inside].reshape(shape).T

    def _sum(self, total: ResidualSum, left: Integers, right: Integers) -> Tensor:
        """Add some intervals, and return their indicators, shape (n, B)."""
        columns = np.arange(left.shape[1])
        path = self._path[left, columns]
        begin, end = self._position[left, columns], self._position[right, columns]
        numbers = self._number[left, columns], self._number[right, columns]
        # At the ends of a path the neighbour's gradient stands in.
        numbers = np.where(numbers[0] < 0, numbers[1], numbers[0]), np.where(numbers[1] < 0, numbers[0], numbers[1])
        moves = [self._paths.moves(which, path, begin, end) for which in range(len(self._gradients))]
        share = 1 / self._paths.n_paths
        estimates: dict[int, Tensor] = {}
        roughness = torch.zeros(left.shape, dtype=self._outputs.dtype, device=self._outputs.device)
        for which, kept in enumerate(self._gradients):
            if kept:
                one, other = (kept[0][tuple(map(torch.from_numpy, (number, columns)))] for number in numbers)
                mean = (one + other) / 2
                total.add_means(which, mean, (end - begin) * share)
                estimates[which] = mean * moves[which] * share
                roughness += word_sums(((other - one) * moves[which]).abs()).sum(dim=-1) * share
        if not estimates:
            return roughness
        at = torch.from_numpy(np.stack([left, right])).to(self._outputs.device)
        known = self._outputs.gather(0, at[1]) - self._outputs.gather(0, at[0])
        return total.hand_out(known * share, estimates, moves, path).abs() + _ROUGHNESS * roughness


def _first_positions(count: int) -> Array:
    """Where the rule puts the first nodes of a path, shape (n,)."""
    # A cell more than nodes: the node of the first is at the baseline.
    positions: Array = RULES["adaptive"](np.ones((1, 1)), count + 1).nodes[1:, 0]
    return positions
