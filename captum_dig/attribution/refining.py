"""Refinement: known sums whose nodes are put where the error is, and which can go on with more nodes.

Takes bundles of paths and the model's gradients and outputs at nodes; gives attributions. It keeps all gradients, so
that nothing is evaluated twice. `inputs` calls it.
"""

import numpy as np
import torch

from captum_dig.attribution.calls import Call
from captum_dig.attribution.integral import Integral
from captum_dig.attribution.intervals import Intervals, IntervalSum
from captum_dig.checks import at_least_one
from captum_dig.paths.bundles import Array, Integers
from captum_dig.quadrature import QuadratureRule
from captum_dig.quadrature.layouts import LaidPaths


class Refinement:
    """Nodes on the paths of a batch, each example with its own, and the gradients and outputs there.

    If three or more paths begin, they share the gradients at both ends, and so do paths that are added later.

    Between two neighbouring nodes of a path lies an interval. `add_nodes` halves the intervals with the largest
    indicators: the size of the residual, plus the change with linear interpolation.

    Args:
        call: The arguments of the call.
        rule: Places the first nodes on each path, where the paths do not share their ends.
        n_steps: The number of gradients to begin with, those at shared ends included.
        n_paths: The number of paths, where it is free.

    Attributes:
        n_steps: The number of gradients so far, for each example.
        n_draws: The number of independent draws among the paths.
    """

    def __init__(self, call: Call, rule: QuadratureRule, n_steps: int, n_paths: int) -> None:
        self._call, self._rule = call, rule
        bundles, self.n_draws = call.lay(n_paths)
        self._ends = call.at_ends(rule, bundles, n_steps)
        self.n_steps, self._n_blocks = self._ends.n_gradients, 1
        self._paths = LaidPaths(call.spacing, rule, inside=self._ends.n_gradients > 0)
        # The paths and positions of the nodes of each example, shape (N, B), and the outputs there.
        self._path = np.zeros((0, len(call.ends[0])), dtype=np.int64)
        self._position: Array = self._path.astype(np.float64)
        self._outputs = self._ends.outputs[:0]
        # The shared ones first.
        self._gradients = list(self._ends.gradients)
        # None until they have been summed, with the indicator of each, shape (n, B).
        self._intervals: tuple[Intervals, Array] | None = None
        self._evaluate(*self._paths.place(bundles, n_steps - self.n_steps))

    def add_orders(self, n_steps: int) -> None:
        """Add further orders, drawn like the first ones; 3 gradients are taken along each.

        Args:
            n_steps: The number of gradients.

        Raises:
            ValueError: If the number of paths is not free, `n_steps` is below 1, or there are fewer gradients than
                paths.
        """
        at_least_one("n_steps", n_steps)
        if not self._call.path.free:
            raise ValueError(f"the number of orders must be free, got {self._call.path!r}; take n_orders=None")
        bundles, n_draws = self._call.lay(n_steps // self._rule.nodes_per_path, self._n_blocks)
        nodes = self._paths.place(bundles, n_steps)
        self._n_blocks += 1
        self.n_draws += n_draws
        self._evaluate(*nodes)

    def add_nodes(self, n_steps: int) -> None:
        """Halve the intervals with the largest indicators.

        Args:
            n_steps: The number of further nodes. Where it exceeds the number of intervals, there are several rounds.

        Raises:
            ValueError: If `n_steps` is below 1.
        """
        n_steps = at_least_one("n_steps", n_steps)
        while n_steps > 0:
            intervals, indicators = self._measured()
            worst = np.argsort(-indicators, axis=0, kind="stable")[:n_steps]
            columns = np.arange(worst.shape[1])
            middle = intervals.position[1:3, worst, columns].mean(axis=0)
            self._evaluate(intervals.path[worst, columns], middle)
            n_steps -= len(worst)

    def integral(self) -> Integral:
        """Return the attributions with all gradients so far, and what is known of their errors."""
        return self._call.integral(self.summed(with_paths=True), self.n_steps, self.n_draws)

    def summed(self, *, with_paths: bool = False) -> IntervalSum:
        """Return the attributions with all gradients so far."""
        total, self._intervals = self._sum(with_paths=with_paths)
        return total

    def _measured(self) -> tuple[Intervals, Array]:
        """The intervals so far, and the indicator of each."""
        if self._intervals is None:
            _, self._intervals = self._sum()
        return self._intervals

    def _sum(self, *, with_paths: bool = False) -> tuple[IntervalSum, tuple[Intervals, Array]]:
        """Sum the intervals: attributions, and the indicator of each interval."""
        # Invariant: the intervals of a path cover it once, so their known sums add up to the difference between input
        # and baseline. One input, f(x) = x^2 from 0 to 4, one node, at 2, with the gradient 4: the intervals [0, 2] and
        # [2, 4] have the estimates 8 and 8, the known sums 4 and 12, and the residuals -4 and 4.
        call, n_paths = self._call, self._paths.n_paths
        total = IntervalSum(self._paths, call.ends, with_means=not call.multiplied, with_paths=with_paths)
        intervals = Intervals.between(self._path, self._position, n_paths, self._ends.usable)
        outputs = torch.cat([self._outputs, self._ends.outputs.repeat(n_paths, 1)])
        indicators = total.add_between(intervals, self._gradients, outputs)
        return total, (intervals, indicators.cpu().numpy().astype(np.float64))

    def _evaluate(self, path: Integers, position: Array) -> None:
        """Take the gradients at new nodes, shape (n, B)."""
        self._intervals = None
        found = [self._call.evaluated(self._paths, path[some], position[some]) for some in self._call.blocks(len(path))]
        gradients, outputs = zip(*found, strict=True)
        self._gradients = [torch.cat(parts) for parts in zip(self._gradients, *gradients, strict=True)]
        self._outputs = torch.cat([self._outputs, *outputs])
        self._path = np.concatenate([self._path, np.broadcast_to(path, position.shape)])
        self._position = np.concatenate([self._position, position])
        self.n_steps += len(path)
