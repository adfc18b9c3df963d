r"""The monotonize step, which keeps every coordinate of a walk between word and baseline.

Takes points and a baseline; gives points that lie between them. These are pure, element-wise functions of tensors, and
broadcast over any leading dimensions. `captum_dig.paths.anchors` prices candidates with them, and
`captum_dig.paths.words` builds knots.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

# Elements of the knots processed in one block.
_BLOCK = 2**22


def monotone_mask(candidates: Tensor, point: Tensor, baseline: Tensor) -> Tensor:
    """Mark the dimensions of candidates that lie between a point and a baseline.

    Both ends count as between. Where point and baseline agree, only their common value does.

    Args:
        candidates: Points to test, shape (..., D).
        point: The end of the interval that the walk comes from, broadcastable to `candidates`.
        baseline: The end that the walk goes to, broadcastable to `candidates`.

    Returns:
        Boolean tensor of the broadcast shape: the set M_a of the paper.

    Example:
        >>> monotone_mask(torch.tensor([0.5, 2.0, 1.0]), torch.ones(3), torch.zeros(3))
        tensor([ True, False,  True])

    References:
        Sanyal and Ren (2021), section 2.3, "Monotonize" [sanyal-ren-2021].
    """
    low, high = torch.minimum(point, baseline), torch.maximum(point, baseline)
    return (low <= candidates) & (candidates <= high)


def monotonize(anchor: Tensor, point: Tensor, baseline: Tensor, n_anchors: int) -> Tensor:
    """Move the dimensions of an anchor that leave the interval between a point and a baseline back into it.

    A dimension inside the interval is kept; every other becomes ``point - (point - baseline) / n_anchors``, one even
    step from the point towards the baseline. The result lies inside the interval in every dimension, rounding included.

    Args:
        anchor: Points to move, shape (..., D).
        point: The end of the interval that the walk comes from, broadcastable to `anchor`.
        baseline: The end that the walk goes to, broadcastable to `anchor`.
        n_anchors: The paper's m, at least 1.

    Returns:
        Tensor of the broadcast shape, dtype and device of `anchor`.

    Example:
        >>> monotonize(torch.tensor([0.5, 2.0]), torch.ones(2), torch.zeros(2), n_anchors=4)
        tensor([0.5000, 0.7500])

    References:
        Sanyal and Ren (2021), section 2.3, "Monotonize" [sanyal-ren-2021].
    """
    low, high = torch.minimum(point, baseline), torch.maximum(point, baseline)
    step = point - (point - baseline) / n_anchors
    # point - (point - baseline) is not always the baseline in floating point, hence the clamp.
    moved = torch.clamp(step, low, high)
    # 0 for a dimension inside the interval and 1 outside: for masks without a pattern, `torch.where` takes three times
    # as long as all of the arithmetic, and `lerp` gives either end exactly.
    outside = (anchor - torch.clamp(anchor, low, high)).sign_().abs_()
    return torch.lerp(anchor, moved, outside)


def is_monotone_path(knots: Tensor) -> bool:
    """Tell whether every coordinate of a path moves in one direction only, from the first to the last knot.

    Args:
        knots: A path, shape (P, ...), baseline first.

    Returns:
        True if no coordinate ever steps away from its end, or moves at all where both ends agree.

    Example:
        >>> is_monotone_path(torch.tensor([[0.0, 1.0], [0.5, 1.0], [2.0, 1.0]]))
        True
        >>> is_monotone_path(torch.tensor([[0.0, 1.0], [0.5, 1.5], [2.0, 1.0]]))
        False

    References:
        Sanyal and Ren (2021), equation 2 [sanyal-ren-2021].
    """
    rising = knots[-1] >= knots[0]
    # A coordinate that only rises from start to end stays between them, and is constant where they agree.
    return all(bool(torch.where(rising, left <= right, left >= right).all()) for left, right in pieces(knots))


def pieces(knots: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the pieces of a path in blocks: few operations, and temporaries of a bounded size.

    Args:
        knots: A path, shape (P, ...).

    Yields:
        Where some pieces begin and where they end, shape (n, ...) each.

    Example:
        >>> [(left.tolist(), right.tolist()) for left, right in pieces(torch.tensor([0.0, 1.0, 3.0]))]
        [([0.0, 1.0], [1.0, 3.0])]
    """
    group = max(1, _BLOCK // max(1, knots[0].numel()))
    yield from zip(knots[:-1].split(group), knots[1:].split(group), strict=True)
