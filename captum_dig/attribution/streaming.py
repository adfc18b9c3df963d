"""Known sums in one pass: each gradient is dropped once the intervals around it are summed.

Takes the arguments of a call, and a rule; gives attributions. `inputs` calls it. `refining` keeps the gradients, to go
on with more.
"""

import numpy as np
import torch

from captum_dig.attribution.calls import Call
from captum_dig.attribution.intervals import Intervals, IntervalSum
from captum_dig.quadrature import QuadratureRule
from captum_dig.quadrature.layouts import LaidPaths

# An interval takes four successive gradients at most: three beside the first.
_KEPT = 3


def known_sum(call: Call, rule: QuadratureRule, n_steps: int, **options: bool) -> tuple[IntervalSum, int]:
    """Sum along the paths of a call, with the outputs at the nodes.

    Args:
        call: The arguments of the call.
        rule: Places the nodes.
        n_steps: The number of gradients for each example.
        options: As for `captum_dig.attribution.summing.PathSum`.

    Returns:
        The sum, and the number of independent draws among the paths.

    Raises:
        ValueError: If there are fewer gradients than paths.
    """
    bundles, n_draws = call.lay(rule.n_paths(n_steps))
    ends = call.at_ends(rule, bundles, n_steps)
    paths = LaidPaths(call.spacing, rule, inside=ends.n_gradients > 0)
    path, position = paths.place(bundles, n_steps - ends.n_gradients)
    n_nodes = len(path)
    intervals = Intervals.between(path, position, paths.n_paths, ends.usable)
    at_ends = ends.outputs.repeat(paths.n_paths, 1)
    outputs = torch.cat([at_ends.new_zeros(n_nodes, at_ends.shape[1]), at_ends])
    total = IntervalSum(paths, call.ends, **options)
    # Invariant: blocks come from the inputs to the baselines, the way that walks from word to word are made. So an
    # interval is summed in the block of the first gradient that it takes. Four nodes on one path, blocks of two: the
    # first block has the gradients 2 and 3, and completes the interval from 3 to the input. The second block has 0 and
    # 1, and completes the others with the gradients 2 and 3, which were kept.
    at_nodes = intervals.gradient - ends.n_gradients
    first_gradient = np.where(at_nodes >= 0, at_nodes, n_nodes).min(axis=0)[:, 0]
    kept = [each[:0] for each in ends.gradients]
    for steps in reversed(list(call.blocks(n_nodes))):
        found, outputs[steps] = call.evaluated(paths, path[steps], position[steps])
        gradients = [torch.cat(parts) for parts in zip(ends.gradients, found, kept, strict=True)]
        ready = intervals.take(np.flatnonzero((steps.start <= first_gradient) & (first_gradient < steps.stop)))
        if len(ready):
            total.add_between(ready.numbered_from(steps.start), gradients, outputs)
        begin = slice(ends.n_gradients, ends.n_gradients + _KEPT)
        kept = [each[begin].clone() for each in gradients]
    return total, n_draws
