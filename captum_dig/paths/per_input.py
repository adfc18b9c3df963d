"""PathPerInput: several inputs, each on a path of its own, in one common time.

Takes a path for each input of a tuple, or each layer of a list; gives one joint path. At every time all inputs have
covered the same share of the length of their own paths.
"""

from collections.abc import Sequence

import numpy as np
from torch import Tensor

from captum_dig.errors import CaptumDigError, PathError
from captum_dig.paths.base import PathGenerator
from captum_dig.paths.bundles import (
    Array,
    Bundle,
    Integers,
    Places,
    cumulate,
    distinct,
    joint_lengths,
    locate,
    not_over,
    shares,
    times_at,
)
from captum_dig.paths.polylines import Polyline


class PathPerInput(PathGenerator):
    """A path of its own for each input of a tuple, or each layer of a list.

    All inputs leave their baselines together and arrive together. Each goes along its own path at an even speed, so at
    every time all of them have the same share of their paths' lengths behind them. A straight line beside a path from
    word to word therefore moves all the time.

    Args:
        paths: The path of each input, in their order: generators of a single path.

    Raises:
        TypeError: If one of them is no `PathGenerator`.
        ValueError: If there is none, or one gives several paths.

    Example:
        >>> import torch
        >>> from captum_dig import DiscretizedIntegratedGradients, StraightLine
        >>> path = PathPerInput(StraightLine(), StraightLine())
        >>> dig = DiscretizedIntegratedGradients(lambda x, y: (x * y).sum(dim=1), path)
        >>> dig.attribute((torch.ones(1, 1), torch.full((1, 1), 2.0)))
        (tensor([[1.]]), tensor([[1.]]))
    """

    def __init__(self, *paths: PathGenerator) -> None:
        if not paths:
            raise ValueError("paths must hold a PathGenerator for each input, got none")
        for place, path in enumerate(paths):
            if not isinstance(path, PathGenerator):
                raise TypeError(f"paths must be PathGenerators, got {type(path).__name__} for input {place}")
            _check_single(place, path, path.n_paths)
        self.paths = paths
        self.monotone = all(path.monotone for path in paths)
        self.vocabulary = next((path.vocabulary for path in paths if path.vocabulary is not None), None)

    def __repr__(self) -> str:
        return f"PathPerInput({', '.join(map(repr, self.paths))})"

    def describe(self) -> dict[str, int | None]:
        """Return the settings of the first path that has any."""
        settings = [path.describe() for path in self.paths]
        return next((one for one in settings if any(one.values())), settings[0])

    def grouped(self, words: Tensor) -> "PathPerInput":
        """Group the tokens of a batch into words, for every path."""
        return PathPerInput(*[path.grouped(words) for path in self.paths])

    def store(self) -> None:
        """Store the tables of every path."""
        for path in self.paths:
            path.store()

    def knots(self, inputs: Tensor, baselines: Tensor) -> Tensor:
        """Make the knots of the only path."""
        (bundle,) = self.lay((inputs,), (baselines,))
        return bundle.knots()[0]

    def lay(self, inputs: tuple[Tensor, ...], baselines: tuple[Tensor, ...]) -> tuple[Bundle, ...]:
        """Lay each input on its path."""
        if len(inputs) != len(self.paths):
            raise PathError(
                f"PathPerInput must have a path for each of the {len(inputs)} inputs, got {len(self.paths)} paths"
            )
        polylines = []
        for place, (path, end, start) in enumerate(zip(self.paths, inputs, baselines, strict=True)):
            try:
                bundles = path.bundles((end,), (start,))
            except (ValueError, TypeError, CaptumDigError) as error:
                raise type(error)(f"input {place}: {error}") from error
            _check_single(place, path, sum(bundle.n_paths for bundle in bundles))
            polylines.append(bundles[0].polylines[0])
        return (EvenSpeeds(tuple(polylines)),)


def as_path(path: PathGenerator | Sequence[PathGenerator]) -> PathGenerator:
    """Make one path of a list of paths, one for each input.

    Args:
        path: A path, which is itself, or a list or tuple of them.

    Raises:
        TypeError: If it is neither.
        ValueError: If there is none, or one gives several paths.

    Example:
        >>> from captum_dig import StraightLine
        >>> as_path([StraightLine(), StraightLine()])
        PathPerInput(StraightLine(), StraightLine())
    """
    if isinstance(path, list | tuple):
        return PathPerInput(*path)
    if not isinstance(path, PathGenerator):
        raise TypeError(
            f"path must be a PathGenerator, got {type(path).__name__}; for example MonotonicPath(vocabulary)"
        )
    return path


class EvenSpeeds(Bundle):
    """One path on which every input has the same share of its own length behind it.

    Args:
        polylines: The way of each input.
    """

    def __init__(self, polylines: tuple[Polyline, ...]) -> None:
        super().__init__(polylines, 1)
        lengths = [joint_lengths((polyline,)) for polyline in polylines]
        laid = [shares(each) for each in lengths]
        self._breaks = [cumulate(each) for each in laid]
        self._last = [not_over(each).sum(axis=0) - 1 for each in laid]
        # A joint piece ends wherever a piece of some input ends. The times are shares of the length, from 0 to 1.
        self._times = distinct(np.concatenate(self._breaks).T)[0].T[None]
        speed = np.sqrt(sum(np.cumsum(each, axis=0)[-1] ** 2 for each in lengths))
        self._lengths: Array = np.diff(self._times, axis=1) * speed

    def lengths(self) -> Array:
        """Return the length of each joint piece: its time, at the speed of all inputs together."""
        return self._lengths

    def where(self, which: int, places: Places) -> tuple[Integers, Array]:
        """Find the place of an input on its own path at the time of each place."""
        piece, fraction = locate(times_at(self._times, places), self._breaks[which], self._last[which])
        return piece[..., None], fraction[..., None]


def _check_single(place: int, path: PathGenerator, n_paths: int) -> None:
    if n_paths != 1:
        raise ValueError(
            f"paths must be single, got {n_paths} paths from {type(path).__name__} for input {place}; "
            "put the PathPerInput into a StaggeredPath instead"
        )
