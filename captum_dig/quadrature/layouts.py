"""LaidPaths: the nodes of a rule, and points and displacements at any positions of any paths.

Takes bundles of paths, one after the other; lays the pieces of each path on [0, 1]. Known sums place their nodes by it,
for each example by itself.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from captum_dig.paths.bundles import (
    Array,
    Bundle,
    Integers,
    Places,
    cumulate,
    laid_out,
    locate,
    not_over,
    on_device,
)
from captum_dig.paths.means import Mean
from captum_dig.quadrature.rules import QuadratureRule
from captum_dig.quadrature.schedules import CellPlaces, Spacing, Steps, counts_on


class LaidPaths:
    """The paths of bundles, numbered from 0 over all bundles.

    Args:
        spacing: How the pieces of a path are laid on [0, 1].
        rule: The rule that places nodes.
        inside: Whether nodes lie evenly between the ends of a path instead, at k / (K + 1).

    Attributes:
        n_paths: The number of paths so far.
    """

    def __init__(self, spacing: Spacing, rule: QuadratureRule, *, inside: bool = False) -> None:
        self._by_length, self._rule, self._inside = spacing == "arc" or rule.by_length, rule, inside
        self._layouts: list[_Layout] = []
        self.n_paths = 0

    @property
    def mean(self) -> Mean:
        """How the paths so far are averaged."""
        return Mean.over([layout.bundle for layout in self._layouts])

    def place(self, bundles: Sequence[Bundle], n_steps: int) -> tuple[Integers, Array]:
        """Add the paths of bundles, and place nodes of the rule on them.

        Args:
            bundles: The bundles.
            n_steps: The number of nodes, shared out as in `counts_on`.

        Returns:
            The number of the path of each node, shape (n_steps, 1), and positions in [0, 1], shape (n_steps, B).

        Raises:
            ValueError: If there are fewer nodes than paths, a path is too long to be measured, or the rule does not
                cover [0, 1].
        """
        counts = counts_on(Mean.over(bundles), n_steps)
        first = self.n_paths
        shares: list[Array] = []
        for bundle in bundles:
            laid = laid_out(bundle.lengths(), by_length=self._by_length)
            self._layouts.append(_Layout.of(bundle, self.n_paths, laid))
            self.n_paths += bundle.n_paths
            shares += list(laid)
        nodes = [self._nodes(each, count) for each, count in zip(shares, counts, strict=True)]
        return np.repeat(np.arange(first, self.n_paths), counts)[:, None], np.concatenate(nodes)

    def _nodes(self, shares: Array, n_steps: int) -> Array:
        """The nodes on a path, shape (n_steps, B)."""
        if not self._inside:
            return self._rule(shares, n_steps).nodes
        return np.tile(np.arange(1, n_steps + 1)[:, None] / (n_steps + 1), shares.shape[1])

    def points(self, which: int, path: Integers, position: Array) -> Tensor:
        """Return points of an input.

        Args:
            which: The number of the input.
            path: The numbers of paths, shape (n, B) or (n, 1).
            position: Positions in [0, 1] on these, shape (n, B).

        Returns:
            Shape (n, B, ...), dtype of the input.

        Raises:
            ValueError: If there is no path of some number.
        """

        def points_of(layout: _Layout, rows: Integers) -> Tensor:
            polyline = layout.bundle.polylines[which]
            places = layout.bundle.where(which, layout.places(path[rows], position[rows]))
            return polyline.points(*on_device(places, polyline))

        return self._from_each(path, points_of)

    def moves(self, which: int, path: Integers, begin: Array, end: Array) -> Tensor:
        """Return displacements of an input between two positions, shape (n, B, ...), float32 or wider."""

        def moves_of(layout: _Layout, rows: Integers) -> Tensor:
            begins = layout.places(path[rows], begin[rows])
            cells = Steps(begins, begins, layout.places(path[rows], end[rows]), end[rows] - begin[rows])
            places = CellPlaces.of(layout.bundle, which, cells)
            return places.on_path(layout.bundle.polylines[which], slice(0, len(rows)))[1]

        return self._from_each(path, moves_of)

    def _from_each(self, path: Integers, make: "Callable[[_Layout, Integers], Tensor]") -> Tensor:
        """Let each bundle make the rows in which some example is on a path of its own."""
        made: Tensor | None = None
        for layout in self._layouts:
            own = (layout.first <= path) & (path < layout.first + layout.bundle.n_paths)
            rows = np.flatnonzero(own.any(axis=1))
            if not len(rows):
                continue
            part = make(layout, rows)
            if own.all():
                return part
            made = part.new_zeros(len(path), *part.shape[1:]) if made is None else made
            at, mine = torch.from_numpy(rows).to(part.device), torch.from_numpy(own[rows]).to(part.device)
            made[at] = torch.where(mine.reshape(*mine.shape, *[1] * (part.dim() - 2)), part, made[at])
        if made is None:
            raise ValueError(f"path must hold numbers below {self.n_paths}, got {path.tolist()}")
        return made


@dataclass(frozen=True)
class _Layout:
    """Where the pieces of the paths of a bundle begin and end on [0, 1].

    Attributes:
        bundle: The bundle.
        first: The number of its first path.
        breaks: Shape (P, R, B), rising from 0 to 1.
        last: The last piece that has a length, shape (R, B).
    """

    bundle: Bundle
    first: int
    breaks: Array
    last: Integers

    @classmethod
    def of(cls, bundle: Bundle, first: int, shares: Array) -> "_Layout":
        """Lay paths from the share of each piece in its path, shape (R, S, B)."""
        columns = np.concatenate(list(shares), axis=1)
        shape = (bundle.n_paths, -1)
        last: Integers = not_over(columns).sum(axis=0) - 1
        return cls(bundle, first, cumulate(columns).reshape(len(columns) + 1, *shape), last.reshape(shape))

    def places(self, path: Integers, position: Array) -> Places:
        """Find positions on paths, shape (n, B) each; a path of another bundle counts as the first or last."""
        own = np.clip(path - self.first, 0, self.bundle.n_paths - 1)
        examples = np.arange(position.shape[1])
        breaks = self.breaks[:, own, examples].reshape(len(self.breaks), -1)
        piece, fraction = locate(position.reshape(1, -1), breaks, self.last[own, examples].ravel())
        return Places(own, piece.reshape(position.shape), fraction.reshape(position.shape))
