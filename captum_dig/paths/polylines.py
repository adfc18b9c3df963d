"""Polyline: a path for each example, whose points are made where a node is wanted.

Takes the ends of the paths of one input; gives the lengths of their straight pieces, and points and displacements at
given places. `captum_dig.paths.bundles` puts the polylines of several inputs and several orders into one time, and
`captum_dig.quadrature` asks for the points.
"""

from abc import ABC, abstractmethod

import torch
from torch import Tensor

# Elements of the knots processed in one block.
_BLOCK = 2**22


class Polyline(ABC):
    """A path for each example of a batch, straight from knot to knot, of which no more is made than is asked for.

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

    def steps(
        self,
        node: Tensor,
        share: Tensor,
        begin: Tensor,
        head: Tensor,
        end: Tensor | None = None,
        tail: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Return the nodes of some steps, and the displacements over their cells.

        A displacement is made of shares of the pieces `begin` and `end`, and the whole pieces between these.

        Args:
            node: The numbers of the nodes' pieces, shape (n, B, 1) or (n, B, W), int64.
            share: How far along its piece each node is, in [0, 1], same shape, dtype `precise`.
            begin: The numbers of the pieces that cells begin on, same shape.
            head: The share of each of these, same shape.
            end: The numbers of the pieces that cells end on, at least `begin`; None where all equal `begin`.
            tail: The share of each of these; 0 where `end` equals `begin`.

        Returns:
            The nodes, shape (n, B, ...), dtype of the inputs, and the displacements, same shape, float32 or wider.
        """
        # All at once, because they lie near each other.
        numbers = torch.cat([node, begin] if end is None else [node, begin, end])
        left, right = (part.expand(len(numbers), *part.shape[1:]) for part in self.pieces(numbers))
        shares = (share[..., None], head[..., None])
        if end is None or tail is None:
            points, moves = on_pieces(left, right, *shares)
        else:
            points, moves = on_pieces(left, right, *shares, tail[..., None], (end > begin)[..., None])
        shape = (len(node), *self.inputs.shape)
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
    """A polyline through knots that are all there; several paths, one behind the other, may stand in one.

    Args:
        knots: Shape (P, B, ...), P at least 2.
    """

    def __init__(self, knots: Tensor) -> None:
        super().__init__(knots[-1], knots[0], len(knots) - 1)
        self._knots = self.words_of(knots)

    def lengths(self) -> Tensor:
        """Measure the pieces in blocks: few operations, and temporaries of a bounded size."""
        knots, precise = self._knots, self.precise
        group = max(1, _BLOCK // max(1, knots[0].numel()))
        blocks = zip(knots[:-1].split(group), knots[1:].split(group), strict=True)
        return torch.cat(
            [(right.to(precise) - left.to(precise)).square_().sum(dim=-1) for left, right in blocks]
        ).sqrt_()

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


def on_pieces(
    left: Tensor,
    right: Tensor,
    share: Tensor,
    head: Tensor,
    tail: Tensor | None = None,
    crosses: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the nodes of n steps and the displacements over their cells, from the pieces that these lie on.

    Args:
        left: Where the pieces begin: those of the nodes, those that cells begin on, and, unless `tail` is None, those
            that cells end on, shape (2 * n, ...) or (3 * n, ...).
        right: Where they end, same shape.
        share: How far along its piece each node is, shape (n, ..., 1).
        head: The share of the piece that each cell begins on, same shape.
        tail: The share of the piece that each cell ends on, same shape; 0 where that is the same piece.
        crosses: Where it is another piece, same shape.

    Returns:
        Two tensors of shape (n, ...).
    """
    (node, begin, *last), (node_end, begin_end, *stop) = left.split(len(share)), right.split(len(share))
    # The difference of two points would be the same, but rounding would cancel it where a coordinate hardly moves.
    moved = torch.mul(begin_end - begin, head)
    if tail is not None and crosses is not None:
        moved.add_(torch.mul(stop[0] - last[0], tail)).add_(torch.where(crosses, last[0] - begin_end, 0))
    return between(node, node_end, share), moved
