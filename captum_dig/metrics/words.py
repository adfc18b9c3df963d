"""The distance of a path from real words, and the kinds of words that it passes.

Takes a path and a `Vocabulary`; gives a number for each sentence or word. `captum_dig.metrics.measures` builds on it.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

from captum_dig.checks import at_least_one
from captum_dig.quadrature import Spacing, check_spacing
from captum_dig.vocabulary import Vocabulary

# Points on a path without inner knots: as many as the paper has anchors.
_POINTS = 30


def word_approximation_error(
    knots: Tensor,
    vocabulary: Vocabulary,
    *,
    n_points: int | None = None,
    spacing: Spacing = "knots",
    ends: bool = False,
) -> Tensor:
    """Measure how far the points of a path are from real words. Lower is better.

    It is the mean distance from points on a word's path to the nearest row of the vocabulary, averaged over the moving
    words of a sentence. Special tokens and padding do not count, because their path is constant.

    Args:
        knots: Paths, shape (P, B, T, D), baseline first, as a `PathGenerator` gives them.
        vocabulary: The rows.
        n_points: How many points of each word's path to measure, at least 1, the ends not among them; None for the
            inner knots themselves, as in the paper, or 30 points where there are none.
        spacing: How the points are laid on the path: ``"knots"`` evenly from knot to knot, as in the paper;
            ``"arc"`` evenly along the length of each word's path, so knots crowded at the ends gain nothing.
        ends: Whether the two ends count as points too. A word is a row, so its ends have distance 0.

    Returns:
        Euclidean distances, shape (B,), float32 on the CPU; NaN for a sentence in which nothing moves.

    Raises:
        ValueError: If `knots` has another shape or `n_points` is below 1.

    Example:
        >>> vocabulary = Vocabulary(torch.tensor([[0.0], [1.0], [4.0]]))
        >>> knots = torch.tensor([0.0, 1.0, 2.0, 4.0]).reshape(4, 1, 1, 1)
        >>> word_approximation_error(knots, vocabulary)
        tensor([0.5000])

    References:
        Sanyal and Ren (2021), section 3.2 and appendix [sanyal-ren-2021].
    """
    if knots.dim() != 4 or len(knots) < 2 or knots.shape[-1] != vocabulary.dim:
        raise ValueError(
            f"knots must have shape (P, B, T, {vocabulary.dim}) with P >= 2, got {tuple(knots.shape)}; "
            "pass what a path returns for embeddings of shape (B, T, D), of an ensemble one path at a time"
        )
    check_spacing(spacing)
    inner = (len(knots) - 2) or _POINTS
    n_points = inner if n_points is None else at_least_one("n_points", n_points)
    moving = (knots != knots[:1]).any(dim=-1).any(dim=0)
    words = knots[:, moving].detach().to("cpu", torch.float32)
    if not words.shape[1]:
        return torch.full((knots.shape[1],), torch.nan, dtype=torch.float32, device="cpu")
    points = _points(words, n_points, spacing)
    if ends:
        points = torch.cat([words[:1], points, words[-1:]])
    distances = vocabulary.nearest(points.flatten(0, 1))[1].reshape(points.shape[:2]).mean(dim=0)
    rows = torch.zeros(moving.shape, dtype=torch.float32, device="cpu")
    rows[moving.cpu()] = distances
    counts = moving.cpu().sum(dim=1)
    return torch.where(counts > 0, rows.sum(dim=1) / counts, torch.nan)


def anchor_shares(anchor_ids: Tensor, kinds: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Measure the share of each kind of row, such as unused rows or pieces of words, among the words on the way.

    Args:
        anchor_ids: Rows on the way, shape (N, m), for N words, as `MonotonicPath.anchor_ids` gives them but without
            the first, the word itself.
        kinds: A mask of shape (V,) for each kind.

    Returns:
        For each kind the share in [0, 1] of every word's anchors, shape (N,), float32.

    Raises:
        ValueError: If `anchor_ids` has another shape or holds no anchor.

    Example:
        >>> anchor_shares(torch.tensor([[1, 2, 2, 3]]), {"even": torch.tensor([True, False, True, False])})
        {'even': tensor([0.5000])}
    """
    if anchor_ids.dim() != 2 or not anchor_ids.shape[1]:
        raise ValueError(f"anchor_ids must have shape (N, m) with m >= 1, got {tuple(anchor_ids.shape)}")
    return {name: mask.to(anchor_ids.device)[anchor_ids].float().mean(dim=1) for name, mask in kinds.items()}


def _points(words: Tensor, n_points: int, spacing: Spacing) -> Tensor:
    """Points on the paths of some words, (P, N, D) to (n, N, D): inner ones, evenly by knot or by length."""
    n_pieces = len(words) - 1
    places = torch.arange(1, n_points + 1, dtype=torch.float64, device="cpu") / (n_points + 1)
    if spacing == "knots":
        breaks = torch.linspace(0, 1, n_pieces + 1, dtype=torch.float64, device="cpu")[:, None].expand(
            -1, words.shape[1]
        )
    else:
        lengths = (words[1:] - words[:-1]).norm(dim=-1).double().cumsum(dim=0)
        breaks = torch.cat([torch.zeros_like(lengths[:1]), lengths / lengths[-1:]])
    # Rounding must not move a knot to the far end of the piece before it.
    piece = (places[:, None, None] >= breaks[None, 1:-1] - 1e-12).sum(dim=1)
    start, stop = breaks.gather(0, piece), breaks.gather(0, piece + 1)
    share = ((places[:, None] - start) / (stop - start).clamp(min=1e-300)).clamp(0, 1).float()[..., None]
    left, right = (words.gather(0, index[..., None].expand(-1, -1, words.shape[-1])) for index in (piece, piece + 1))
    return left.lerp(right, share)
