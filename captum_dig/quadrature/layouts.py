"""LaidPaths: points and displacements at any positions of any paths.

Takes bundles of paths, one after the other; lays the pieces of each path on [0, 1]. `captum_dig.attribution.refining`
places further nodes by it, for each example by itself.
"""

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
from captum_dig.quadrature.schedules import CellPlaces, Spacing, Steps


class LaidPaths:
    """The paths of bundles, numbered from 0 over all bundles.

    Args:
        spacing: How the pieces of a path are laid on [0, 1].

    Attributes:
        n_paths: The number of paths so far.
    """

    def __init__(self, spacing: Spacing) -> None:
        self._by_length = spacing == "arc"
        self._layouts: list[_Layout] = []
        self.n_paths = 0

    def add(self, bundle: Bundle) -> None:
        """Add the paths of a bundle.

        Raises:
            ValueError: If a path is too long to be measured.
        """
        self._layouts.append(_Layout.of(bundle, self.n_paths, by_length=self._by_length))
        self.n_paths += bundle.n_paths

    def points(self, which: int, path: Integers, position: Array) -> Tensor:
        """Return points of an input.

        Args:
            which: The number of the input.
            path: The numbers of paths, shape (n, B).
            position: Positions in [0, 1] on these, shape (n, B).

        Returns:
            Shape (n, B, ...), dtype of the input.
        """
        found = []
        for layout in self._layouts:
            polyline = layout.bundle.polylines[which]
            found.append(
                polyline.points(*on_device(layout.bundle.where(which, layout.places(path, position)), polyline))
            )
        return self._of_path(found, path)

    def moves(self, which: int, path: Integers, begin: Array, end: Array) -> Tensor:
        """Return displacements of an input between two positions, shape (n, B, ...), float32 or wider."""
        found = []
        for layout in self._layouts:
            begins = layout.places(path, begin)
            cells = Steps(begins, begins, layout.places(path, end), end - begin)
            places = CellPlaces.of(layout.bundle, which, cells)
            found.append(places.on_path(layout.bundle.polylines[which], slice(0, len(path)))[1])
        return self._of_path(found, path)

    def _of_path(self, found: list[Tensor], path: Integers) -> Tensor:
        """Take from each bundle what belongs to its own paths."""
        chosen = found[0]
        for tensor, layout in zip(found[1:], self._layouts[1:], strict=True):
            own = torch.from_numpy(path >= layout.first).to(tensor.device)
            chosen = torch.where(own.reshape(*own.shape, *[1] * (tensor.dim() - 2)), tensor, chosen)
        return chosen


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
    def of(cls, bundle: Bundle, first: int, *, by_length: bool) -> "_Layout":
        columns = np.concatenate(list(laid_out(bundle.lengths(), by_length=by_length)), axis=1)
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
