"""Bundle: the polylines of several inputs and several orders, in one time.

Takes a `Polyline` for each input; gives the lengths of the pieces of the joint paths, and tells each word's place on
its own way. `captum_dig.quadrature` lays the pieces on [0, 1] and places the gradients.
"""

import copy
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from captum_dig.paths.polylines import Polyline

Array = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

# Points made at once when all knots of a path are asked for.
_BLOCK = 2**22


class Places(NamedTuple):
    """Places on the paths of a bundle.

    Attributes:
        path: The number of the path, shape (n, B), or (n, 1) where it is the same for all examples, int64.
        piece: The number of its piece for each example, shape (n, B), int64.
        fraction: How far along that piece, in [0, 1], shape (n, B), float64.
    """

    path: Integers
    piece: Integers
    fraction: Array


class Bundle(ABC):
    """R paths for every example of a batch, along which one or several inputs move in one common time.

    Every path is straight from knot to knot, for all inputs together.

    Args:
        polylines: The way of each input.
        n_paths: R.

    Attributes:
        share: The share of these paths in the mean over all paths, in (0, 1]. None: they share the rest evenly with
            the paths of other bundles without a share.
    """

    share: float | None = None

    def __init__(self, polylines: tuple[Polyline, ...], n_paths: int) -> None:
        self.polylines, self.n_paths = polylines, n_paths

    def sharing(self, share: float) -> "Bundle":
        """Return the same paths with a share of their own in the mean."""
        bundle = copy.copy(self)
        bundle.share = share
        return bundle

    @abstractmethod
    def lengths(self) -> Array:
        """Return the length of each piece over all inputs, shape (R, S, B); 0 for pieces that only fill up."""

    @abstractmethod
    def where(self, which: int, places: Places) -> tuple[Integers, Array]:
        """Find the place of each word of an input on its own way.

        Args:
            which: The number of the input.
            places: Places of the bundle.

        Returns:
            Numbers of pieces of ``polylines[which]`` and fractions of these, shape (n, B, 1) or (n, B, W).
        """

    def knots(self, which: int = 0) -> Tensor:
        """Return the knots of all paths of an input, shape (R, P, B, ...)."""
        polyline = self.polylines[which]
        n_pieces, n_examples = self.lengths().shape[1:]
        piece = np.minimum(np.arange(n_pieces + 1), n_pieces - 1)
        fraction = (np.arange(n_pieces + 1) == n_pieces).astype(np.float64)
        knots = polyline.inputs.new_empty(self.n_paths, n_pieces + 1, *polyline.inputs.shape)
        step = max(1, _BLOCK // max(1, polyline.inputs.numel()))
        for path in range(self.n_paths):
            for first in range(0, n_pieces + 1, step):
                some = slice(first, first + step)
                numbers = np.repeat(piece[some, None], n_examples, axis=1)
                shares = np.repeat(fraction[some, None], n_examples, axis=1)
                found = self.where(which, Places(np.full((len(numbers), 1), path), numbers, shares))
                knots[path, some] = polyline.points(*on_device(found, polyline))
        return knots


def all_knots(bundles: Sequence[Bundle]) -> Tensor:
    """Return the knots of the first input on all paths, (R, P, B, ...); paths with fewer knots wait at the inputs."""
    members = [bundle.knots() for bundle in bundles]
    n_knots = max(member.shape[1] for member in members)
    waiting = [member[:, -1:].expand(-1, n_knots - member.shape[1], *member.shape[2:]) for member in members]
    return torch.cat([torch.cat(parts, dim=1) for parts in zip(members, waiting, strict=True)])


class Together(Bundle):
    """All words of all inputs at the same piece, and equally far along it.

    Args:
        polylines: The way of each input. For R > 1 the paths stand one behind the other, with P knots each.
        n_paths: R.
    """

    def __init__(self, polylines: tuple[Polyline, ...], n_paths: int = 1) -> None:
        super().__init__(polylines, n_paths)
        self._n_knots = (polylines[0].n_pieces + 1) // n_paths

    def lengths(self) -> Array:
        """Measure the pieces, without those from the end of a path to the begin of the next."""
        lengths = joint_lengths(self.polylines)
        firsts = [path * self._n_knots for path in range(self.n_paths)]
        return np.stack([lengths[first : first + self._n_knots - 1] for first in firsts])

    def where(self, which: int, places: Places) -> tuple[Integers, Array]:  # noqa: ARG002 - the same for each
        """Return the places themselves."""
        return (places.piece + places.path * self._n_knots)[..., None], places.fraction[..., None]


def joint_lengths(polylines: tuple[Polyline, ...]) -> Array:
    """Measure pieces over all words of all inputs.

    Args:
        polylines: The way of each input, with the same number of pieces S.

    Returns:
        Shape (S, B), float64.
    """
    # A running sum over words: padding behind a text then changes not even the rounding.
    squares = [polyline.lengths().square().cumsum(dim=-1)[..., -1] for polyline in polylines]
    lengths: Array = torch.stack(squares).sum(dim=0).sqrt().cpu().numpy().astype(np.float64)
    return lengths


def on_device(found: tuple[Integers, Array], polyline: Polyline) -> tuple[Tensor, Tensor]:
    """Copy numbers of pieces, and fractions in the precision of a polyline, to its device."""
    numbers, fractions = found
    narrow = fractions if polyline.precise == torch.float64 else fractions.astype(np.float32)
    arrays = (np.ascontiguousarray(numbers), np.ascontiguousarray(narrow))
    on = polyline.inputs.device
    return torch.from_numpy(arrays[0]).to(on), torch.from_numpy(arrays[1]).to(on)


def times_at(times: Array, places: Places) -> Array:
    """Find the time of each place, (n, B), from the times of the knots of each path, (R, P, B)."""
    examples = np.arange(times.shape[2])
    start, stop = (times[places.path, places.piece + knot, examples] for knot in (0, 1))
    found: Array = np.where(places.fraction == 1, stop, start + places.fraction * (stop - start))
    return found


def distinct(times: Array) -> tuple[Array, Integers, Integers]:
    """Sort times and drop those that are equal.

    Args:
        times: Shape (B, N), infinite where there is none.

    Returns:
        The different times of each row, rising, the last one repeated, shape (B, P) with P at least 2; zeros where a
        row has none. For each time of the sorted row the number of times before it that are different, (B, N). And the
        order that sorts each row, (B, N).

    Example:
        >>> distinct(np.array([[0.5, 0.0, 0.5, 1.0]]))[0].tolist()
        [[0.0, 0.5, 1.0]]
    """
    by_time = np.argsort(times, axis=1, kind="stable")
    ordered = np.take_along_axis(times, by_time, axis=1)
    new = np.isfinite(ordered)
    new[:, 1:] &= ordered[:, 1:] > ordered[:, :-1]
    numbers = np.cumsum(new, axis=1) - 1
    count = numbers[:, -1] + 1
    different = np.zeros((len(times), max(2, int(count.max(initial=0)))))
    rows, columns = np.nonzero(new)
    different[rows, numbers[rows, columns]] = ordered[rows, columns]
    # Where a row has fewer times, it waits at its last.
    waiting = np.arange(different.shape[1]) >= np.maximum(count, 1)[:, None]
    last = different[np.arange(len(times)), np.maximum(count, 1) - 1]
    return np.where(waiting, last[:, None], different), numbers, by_time


def cumulate(lengths: Array) -> Array:
    """Return where the pieces begin and end on [0, 1], shape (P, B): the running sum of their shares, (S, B)."""
    breaks = np.concatenate([np.zeros((1, lengths.shape[1])), np.cumsum(lengths, axis=0)])
    # Knots that are repeated at the end must change nothing, not even the rounding: all of them lie at 1.
    breaks[1:-1][~not_over(lengths)[1:]] = 1.0
    breaks[-1] = 1.0
    # Rounding can lift a sum above 1.
    capped: Array = np.minimum(breaks, 1.0)
    return capped


def not_over(lengths: Array) -> npt.NDArray[np.bool_]:
    """Mark the pieces up to the last one that has a length, shape (S, B)."""
    backwards: npt.NDArray[np.bool_] = np.logical_or.accumulate(lengths[::-1] > 0, axis=0)
    return backwards[::-1]


def shares(lengths: Array) -> Array:
    """Divide lengths, (S, B), by their sum; even shares where nothing has a length."""
    # A running sum rounds the same in every batch; rounding decides between pieces of equal length.
    sums = np.cumsum(lengths, axis=0)[-1]
    divided: Array = np.where(sums > 0, lengths / np.where(sums > 0, sums, 1.0), 1 / len(lengths))
    return divided


def locate(positions: Array, breaks: Array, last: Integers) -> tuple[Integers, Array]:
    """Find the piece that each position of [0, 1] lies on, and how far along that piece it lies.

    Args:
        positions: Shape (n, B).
        breaks: Where the pieces begin and end, rising from 0 to 1, shape (P, B).
        last: The last piece that has a length, shape (B,).

    Returns:
        Numbers of pieces, shape (n, B), and fractions in [0, 1].
    """
    # Invariant: position 0 is the first knot and position 1 the last. With `breaks` 0, 3/4, 1 (pieces 0 and 1) the
    # positions 0, 1/2, 3/4 and 1 lie on the pieces 0, 0, 1 and 1, at the fractions 0, 2/3, 0 and 1. A position on a
    # break belongs to the piece that begins there; position 1 belongs to the last piece that has a length.
    piece = np.zeros(positions.shape, dtype=np.int64)
    if len(breaks) > 2:
        for column in range(positions.shape[1]):
            piece[:, column] = np.searchsorted(breaks[1:-1, column], positions[:, column], side="right")
    # The first knot counts as the begin also where the first pieces have no length.
    piece = np.where(positions <= 0, 0, np.where(positions >= 1, last, piece))
    start, stop = np.take_along_axis(breaks, piece, axis=0), np.take_along_axis(breaks, piece + 1, axis=0)
    width = stop - start
    fraction = np.where(width > 0, (positions - start) / np.where(width > 0, width, 1.0), 0.0)
    return piece, np.where(positions >= 1, 1.0, np.clip(fraction, 0.0, 1.0))


def laid_out(lengths: Array, *, by_length: bool) -> Array:
    """Return the share of each piece in its path.

    Args:
        lengths: Shape (R, S, B).
        by_length: Whether shares go by length. If not, pieces have the same share; those without length at the end,
            which repeated knots make, get none.

    Raises:
        ValueError: If a path is too long to be measured.
    """
    if not np.isfinite(lengths).all():
        raise ValueError(
            "inputs and baselines must differ by less than about 1e18, got a path whose length overflows; "
            "scale them down"
        )
    laid = np.stack([shares(each) for each in lengths])
    if by_length:
        return laid
    going = np.stack([not_over(each) for each in laid])
    even: Array = going / going.sum(axis=1, keepdims=True)
    return even
