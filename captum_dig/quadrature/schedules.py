"""Schedule: the cells and nodes of a rule on the pieces of paths.

Takes bundles of paths, a rule (`method`) and a number of gradients (`n_steps`); gives nodes and weights.
`captum_dig.attribution` feeds the nodes to the model and sums gradient times weight.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from captum_dig.checks import at_least_one
from captum_dig.paths.bundles import Array, Bundle, Integers, Places, cumulate, laid_out, locate, not_over, on_device
from captum_dig.paths.means import Mean
from captum_dig.paths.polylines import Polyline, StepPlaces
from captum_dig.quadrature.rules import QuadratureRule, check_method

Spacing = Literal["arc", "knots"]


@dataclass(frozen=True)
class Steps:
    """The steps of one bundle: the places of their nodes and cells, path after path.

    Attributes:
        nodes: The places of the nodes.
        begins: Where the cells begin.
        ends: Where they end.
        widths: The widths of the cells on [0, 1], shape (n, B).
    """

    nodes: Places
    begins: Places
    ends: Places
    widths: Array

    @classmethod
    def on(cls, bundle: Bundle, rule: QuadratureRule, spacing: Spacing, counts: Sequence[int]) -> "Steps":
        """Place nodes on the paths of a bundle.

        Args:
            bundle: The paths.
            rule: The rule.
            spacing: How the pieces are laid on [0, 1].
            counts: The number of nodes on each path, not rising.
        """
        laid = laid_out(bundle.lengths(), by_length=spacing == "arc" or rule.by_length)
        # Paths with the same number of nodes are laid out together, as further columns.
        groups = [
            _placed(laid, [path for path, n in enumerate(counts) if n == count], rule, count)
            for count in sorted(set(counts), reverse=True)
        ]
        # Dimension 0 counts steps, as in every array.
        parts = [np.concatenate(arrays) for arrays in zip(*groups, strict=True)]
        path, node, node_share, begin, begin_share, end, end_share, widths = parts
        return cls(
            Places(path, node, node_share), Places(path, begin, begin_share), Places(path, end, end_share), widths
        )


class Schedule:
    """Where a rule puts its nodes and cells on the paths of a batch.

    The paths of an ensemble come one after the other: the steps of the first, then those of the second, and so on. Each
    path has cells of its own. A single path is an ensemble of one. All places are planned once, on the host, and copied
    to the device of the inputs.

    Attributes:
        mean: How the paths are averaged.
        paths: The number of the path of each step, shape (n, 1).
        widths: The widths of the cells on [0, 1], times the weight of the path, shape (n, B).
    """

    def __init__(self, bundles: Sequence[Bundle], steps: Sequence[Steps]) -> None:
        self.mean = Mean.over(bundles)
        each = [part.nodes.path[:, 0] for part in steps]
        firsts = np.cumsum([0, *(bundle.n_paths for bundle in bundles[:-1])])
        self.paths = np.concatenate([path + before for path, before in zip(each, firsts, strict=True)])[:, None]
        self.widths: Array = np.concatenate([part.widths for part in steps]) / self.mean.divisors[self.paths]
        self._sections: list[tuple[slice, Bundle, list[CellPlaces]]] = []
        first = 0
        for bundle, part in zip(bundles, steps, strict=True):
            plans = [CellPlaces.of(bundle, which, part) for which in range(len(bundle.polylines))]
            self._sections.append((slice(first, first + len(part.widths)), bundle, plans))
            first += len(part.widths)

    @classmethod
    def on(cls, bundles: Sequence[Bundle], method: str | QuadratureRule, spacing: Spacing, n_steps: int) -> "Schedule":
        """Place the nodes of a rule on paths.

        The inputs of a bundle move together and share one schedule. Knots that are repeated at the end of a path change
        nothing.

        Args:
            bundles: The paths; those of all bundles are averaged.
            method: The rule, or its name.
            spacing: How the pieces are laid on [0, 1] for the cell rules.
            n_steps: The number of nodes, at least one for each path. They are shared out as in `counts_on`.

        Returns:
            The schedule.

        Raises:
            ValueError: If `method` or `spacing` is unknown, `n_steps` is too low, or a path is too long to be
                measured.

        Example:
            >>> from captum_dig.paths import Knots, Together
            >>> line = Together((Knots(torch.tensor([0.0, 3.0, 4.0])[:, None, None]),))
            >>> schedule = Schedule.on([line], "riemann_middle", "arc", n_steps=2)
            >>> schedule.nodes(slice(0, 2)).flatten().tolist()
            [1.0, 3.0]
        """
        rule, spacing = check_method(method), check_spacing(spacing)
        counts = iter(counts_on(Mean.over(bundles), n_steps))
        steps = [Steps.on(bundle, rule, spacing, [next(counts) for _ in range(bundle.n_paths)]) for bundle in bundles]
        return cls(bundles, steps)

    def nodes(self, steps: slice, which: int = 0) -> Tensor:
        """Return the points of the path where gradients are taken, the first part of what `on_path` returns."""
        return self.on_path(steps, which)[0]

    def weights(self, steps: slice, which: int = 0) -> Tensor:
        """Return the factor of each gradient, the second part of what `on_path` returns."""
        return self.on_path(steps, which)[1]

    def on_path(self, steps: slice, which: int = 0) -> tuple[Tensor, Tensor]:
        """Return the points of the path where gradients are taken, and the factor of each gradient.

        The factor is the displacement of the path over the cell of the node. Over all steps the factors add up to the
        last knot minus the first, times the weight of the path in the mean.

        Args:
            steps: Which nodes, a slice of range(n).
            which: The number of the input.

        Returns:
            Nodes, shape (steps, B, ...), dtype and device of the input, and factors, same shape, float32 or wider.
        """
        parts = [plans[which].on_path(bundle.polylines[which], some) for bundle, plans, some in self._within(steps)]
        nodes, weights = parts[0] if len(parts) == 1 else map(torch.cat, zip(*parts, strict=True))
        if len(self.mean.divisors) > 1:
            divisors = self.mean.divisors[self.paths[steps]].reshape(-1, *[1] * (weights.dim() - 1))
            weights.div_(torch.tensor(divisors, dtype=weights.dtype, device=weights.device))
        return nodes, weights

    def _within(self, steps: slice) -> "Iterator[tuple[Bundle, list[CellPlaces], slice]]":
        """The bundles that have some of the steps, and these as steps of the bundle."""
        for place, bundle, plans in self._sections:
            first, stop = max(steps.start, place.start), min(steps.stop, place.stop)
            if first < stop:
                yield bundle, plans, slice(first - place.start, stop - place.start)


@dataclass(frozen=True)
class CellPlaces:
    """The places of nodes and cells on the way of one input, on its device.

    Attributes:
        cells: The places.
        crosses: For each step, whether a cell ends on another piece than it begins on; on the host.
    """

    cells: StepPlaces
    crosses: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, bundle: Bundle, which: int, steps: Steps) -> "CellPlaces":
        """Find the places of steps on the way of an input."""
        polyline = bundle.polylines[which]
        # Invariant: summed over all cells, heads, whole pieces and tails cover each piece of the path once. A cell goes
        # from a fraction of piece `begin` to a fraction of piece `end`: the rest of `begin` (head), the pieces between,
        # and the start of `end` (tail). Knots 0, 3, 4 and the cell from 2/3 of piece 0 to the end of piece 1: head
        # (1 - 2/3) * 3 = 1, no piece between, tail 1 * 1 = 1, weight 2.
        begin, begin_share = bundle.where(which, steps.begins)
        end, end_share = bundle.where(which, steps.ends)
        same = begin == end
        head = np.where(same, end_share, 1.0) - begin_share
        tail = np.where(same, 0.0, end_share)
        cells = StepPlaces(
            *on_device(bundle.where(which, steps.nodes), polyline),
            *on_device((begin, head), polyline),
            *on_device((end, tail), polyline),
        )
        return cls(cells, ~same.reshape(len(same), -1).all(axis=1))

    def on_path(self, polyline: Polyline, steps: slice) -> tuple[Tensor, Tensor]:
        """The nodes of some steps, and the displacements over their cells."""
        here = StepPlaces(*(places[steps] for places in self.cells if places is not None))
        return polyline.steps(here if self.crosses[steps].any() else here._replace(end=None, tail=None))


def counts_on(mean: Mean, n_steps: int) -> list[int]:
    """Share steps among paths: evenly if all count alike, else more for those with larger weights, as in `n_parts`.

    Args:
        mean: How the paths are averaged.
        n_steps: The number of steps. The first paths get one more.

    Returns:
        The number of steps on each path.

    Raises:
        ValueError: If there are fewer steps than paths.
    """
    n_paths = len(mean.divisors)
    if at_least_one("n_steps", n_steps) < n_paths:
        raise ValueError(
            f"n_steps must be at least {n_paths}, one for each path of the ensemble, got {n_steps}; "
            "take more steps or fewer paths"
        )
    parts = mean.n_parts()
    if n_steps < parts.sum():
        return evenly(n_steps, n_paths)
    counts: list[int] = np.add.reduceat(evenly(n_steps, int(parts.sum())), np.cumsum(parts) - parts).tolist()
    return counts


def evenly(n_steps: int, n_parts: int) -> list[int]:
    """Share steps evenly; the first parts get one more.

    Example:
        >>> evenly(7, 3)
        [3, 2, 2]
    """
    return [n_steps // n_parts + (part < n_steps % n_parts) for part in range(n_parts)]


def check_spacing(spacing: Spacing) -> Spacing:
    """Require the name of a spacing, and return it.

    Raises:
        ValueError: If there is no such spacing.
    """
    if spacing not in get_args(Spacing):
        raise ValueError(f"spacing must be one of {', '.join(map(repr, get_args(Spacing)))}, got {spacing!r}")
    return spacing


def _placed(
    shares: Array, paths: list[int], rule: QuadratureRule, n_steps: int
) -> tuple[Integers, Integers, Array, Integers, Array, Integers, Array, Array]:
    """Place the same number of nodes on some paths: path, node, begin and end of each cell, and its width."""
    # Invariant: edges[0] is the first knot of a path, edges[-1] its last, and each cell ends where the next begins.
    # Three knots 0, 3, 4 and two cells of the midpoint rule: the pieces take the shares 3/4 and 1/4, so `breaks` is
    # 0, 3/4, 1. The nodes 1/4 and 3/4 lie a third into piece 0 (at 1) and at the start of piece 1 (at 3). The
    # middle edge, 1/2, lies two thirds into piece 0 (at 2). Each gradient has the weight 2: 2 - 0, and 4 - 2.
    laid = np.concatenate(shares[paths], axis=1)
    breaks, last = cumulate(laid), not_over(laid).sum(axis=0) - 1
    cells = rule(laid, n_steps)
    node, node_share = locate(cells.nodes, breaks, last)
    edge, edge_share = locate(cells.edges, breaks, last)

    def stepwise(array: Any) -> Any:
        """From (n, R * B) to (R * n, B)."""
        return np.concatenate(np.split(array, len(paths), axis=1))

    return (
        np.repeat(np.array(paths), n_steps)[:, None],
        stepwise(node),
        stepwise(node_share),
        stepwise(edge[:-1]),
        stepwise(edge_share[:-1]),
        stepwise(edge[1:]),
        stepwise(edge_share[1:]),
        stepwise(np.diff(cells.edges, axis=0)),
    )
