"""Polyline: a path for each example, whose points are made where a node is wanted.

Takes the ends of the paths of one input; gives the lengths of their straight pieces, and points and displacements at
given places. `captum_dig.paths.bundles` puts the polylines of several inputs and several orders into one time, and
`captum_dig.quadrature` asks for the points.
"""

from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor

from captum_dig.paths.monotone import pieces


class StepPlaces(NamedTuple):
    """The places of nodes and their cells on the way of one input, shape (n, B, 1) or (n, B, W) each.

    A cell is made of shares of the pieces `begin` and `end`, and the whole pieces between these.

    Attributes:
        node: The number of the piece of each node, int64.
        share: How far along its piece each node is, in [0, 1], dtype `Polyline.precise`.
        begin: The number of the piece that each cell begins on, int64.
        head: The share of this piece.
        end: The number of the piece that each cell ends on, at least `begin`; None where all equal `begin`.
        tail: The share of this piece, 0 where it is that at the begin; None like `end`.
    """

    node: Tensor
    share: Tensor
    begin: Tensor
    head: Tensor
    end: Tensor | None
    tail: Tensor | None

    def numbers(self) -> Tensor:
        """The numbers of all pieces, one after the other: they lie near each other, and are made at once."""
        return torch.cat([self.node, self.begin] if self.end is None else [self.node, self.begin, self.end])


class Polyline(ABC):
    """A path for each example of a batch, straight from knot to knot; points are computed on request.

    The elements along dimension 1 of the inputs are its W words. Each word may be at a place of its own on its way.
    Inputs of shape (B,) have one word. A place is the number of a piece, 0 at the baseline, and a fraction of it.

    Subclasses implement `lengths` and `pieces`.

    Args:
        inputs: Where the paths end, shape (B, ...).
        baselines: Where they begin, same shape.
        n_pieces: S, the number of pieces, the same for each example.

    Attributes:
        n_words: W.

    Example:
        >>> line = Line(torch.tensor([[3.0, 4.0]]), torch.tensor([[0.0, 0.0]]))
        >>> line.lengths()
        tensor([[[3., 4.]]])
        >>> line.points(torch.tensor([[[0]]]), torch.tensor([[[0.5]]]))
        tensor([[[1.5000, 2.0000]]])
    """

    def __init__(self, inputs: Tensor, baselines: Tensor, n_pieces: int) -> None:
        self.inputs, self.baselines, self.n_pieces = inputs, baselines, n_pieces
        self.n_words = inputs.shape[1] if inputs.dim() > 1 else 1

    @property
    def precise(self) -> torch.dtype:
        """The dtype of the inputs, or float32 where that is narrower."""
        return torch.promote_types(self.inputs.dtype, torch.float32)

    @abstractmethod
    def lengths(self) -> Tensor:
        """Return the Euclidean length of each piece for each word, shape (S, B, W), float32 or wider."""

    @abstractmethod
    def pieces(self, numbers: Tensor) -> tuple[Tensor, Tensor]:
        """Return where pieces begin and where they end.

        Args:
            numbers: The numbers of pieces, shape (n, B, 1) for one place an example or (n, B, W), int64.

        Returns:
            Two tensors that broadcast to (n, B, W, F), where F counts the elements of a word, float32 or wider. They
            may be views, and nobody changes them in place.
        """

    def points(self, numbers: Tensor, fractions: Tensor) -> Tensor:
        """Return points of the path.

        Args:
            numbers: The numbers of pieces, shape (n, B, 1) or (n, B, W), int64, on the device of the inputs.
            fractions: How far along its piece each point is, in [0, 1], same shape, dtype `precise`.

        Returns:
            Shape (n, B, ...), dtype and device of the inputs.
        """
        reached = between(*self.pieces(numbers), fractions[..., None])
        return reached.to(self.inputs.dtype).reshape(len(numbers), *self.inputs.shape)

    def steps(self, cells: "StepPlaces") -> tuple[Tensor, Tensor]:
        """Return the nodes of some steps, and the displacements over their cells.

        Args:
            cells: The places of n nodes and their cells.

        Returns:
            The nodes, shape (n, B, ...), dtype of the inputs, and the displacements, same shape, float32 or wider.
        """
        n_steps = len(cells.node)
        numbers = cells.numbers()
        left, right = (part.expand(len(numbers), *part.shape[1:]) for part in self.pieces(numbers))
        points, moves = on_pieces(left, right, cells)
        shape = (n_steps, *self.inputs.shape)
        return points.to(self.inputs.dtype).reshape(shape), moves.reshape(shape)

    def words_of(self, tensor: Tensor) -> Tensor:
        """View a tensor of shape (..., B, ...) of the inputs' shape as (..., B, W, F)."""
        lead = tensor.shape[: tensor.dim() - self.inputs.dim() + 1]
        return tensor.reshape(*lead, self.n_words, -1)


class Line(Polyline):
    """The straight line between the ends: one piece, and no copy of these.

    Args:
        inputs: Where it ends, shape (B, ...).
        baselines: Where it begins, same shape.
    """

    def __init__(self, inputs: Tensor, baselines: Tensor) -> None:
        super().__init__(inputs, baselines, 1)

    def lengths(self) -> Tensor:
        """Measure the distance of the ends."""
        start, end = self.pieces(torch.empty(0))
        return (end - start).square_().sum(dim=-1).sqrt_()

    def pieces(self, numbers: Tensor) -> tuple[Tensor, Tensor]:  # noqa: ARG002 - there is one piece
        """Return the ends."""
        return self.words_of(self.baselines[None]).to(self.precise), self.words_of(self.inputs[None]).to(self.precise)


class Knots(Polyline):
    """A polyline through stored knots; it may hold several paths, one after the other.

    Args:
        knots: Shape (P, B, ...), P at least 2.
    """

    def __init__(self, knots: Tensor) -> None:
        super().__init__(knots[-1], knots[0], len(knots) - 1)
        self._knots = self.words_of(knots)

    def lengths(self) -> Tensor:
        """Measure the pieces in blocks: few operations, and temporaries of a bounded size."""
        precise = self.precise
        squares = [(right.to(precise) - left.to(precise)).square_().sum(dim=-1) for left, right in pieces(self._knots)]
        return torch.cat(squares).sqrt_()

    def pieces(self, numbers: Tensor) -> tuple[Tensor, Tensor]:
        """Look the knots up."""
        return self._at(numbers), self._at(numbers + 1)

    def _at(self, numbers: Tensor) -> Tensor:
        examples = torch.arange(self._knots.shape[1], device=self._knots.device)
        if numbers.shape[-1] == 1:
            return self._knots[numbers[..., 0], examples].to(self.precise)
        words = torch.arange(self.n_words, device=self._knots.device)
        return self._knots[numbers, examples[:, None], words].to(self.precise)


def between(left: Tensor, right: Tensor, share: Tensor) -> Tensor:
    """Return points of pieces that begin at `left` and end at `right`; all arguments broadcast.

    Example:
        >>> between(torch.zeros(2), torch.tensor([4.0, 8.0]), torch.tensor(0.25))
        tensor([1., 2.])
    """
    # From the left and then into the piece: this is monotone in floating point, which `lerp` is not.
    reached = torch.mul(right - left, share).add_(left)
    reached.clamp_(torch.minimum(left, right), torch.maximum(left, right))
    return torch.where(share >= 1, right, reached)


def on_pieces(left: Tensor, right: Tensor, cells: StepPlaces) -> tuple[Tensor, Tensor]:
    """Return the nodes of n steps and the displacements over their cells, from the pieces that these lie on.

    Args:
        left: Where the pieces of `StepPlaces.numbers` begin, shape (2 * n, ..., F) or (3 * n, ..., F).
        right: Where they end, same shape.
        cells: The places, shape (n, ...).

    Returns:
        Two tensors of shape (n, ..., F).
    """
    n_steps = len(cells.node)
    (node, begin, *last), (node_end, begin_end, *stop) = left.split(n_steps), right.split(n_steps)
    # The difference of two points would be the same, but rounding would cancel it where a coordinate hardly moves.
    moved = torch.mul(begin_end - begin, cells.head[..., None])
    if cells.end is not None and cells.tail is not None:
        crosses = (cells.end > cells.begin)[..., None]
        moved.add_(torch.mul(stop[0] - last[0], cells.tail[..., None]))
        moved.add_(torch.where(crosses, last[0] - begin_end, 0))
    return between(node, node_end, cells.share[..., None]), moved
