"""Soft faithfulness: every word loses a part of its embedding; words with high scores lose more.

Takes a model as a function of embeddings, and one score for each token; gives one number for each sentence. There is no
top fraction and no word is removed whole, so the sentences stay closer to those that the model knows.
`captum_dig.metrics.measures` builds on it.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from captum_dig.checks import at_least_one
from captum_dig.metrics.draws import draw

EmbeddingFunction = Callable[[Tensor, Tensor], Tensor]


def soft_comprehensiveness(
    forward_func: EmbeddingFunction,
    embeddings: Tensor,
    attention_mask: Tensor,
    attributions: Tensor,
    fixed: Tensor,
    target: Tensor | None = None,
    *,
    n_samples: int = 10,
    seed: int = 0,
) -> Tensor:
    """Measure how much the probability falls when high-scoring tokens lose most of their embedding. Higher is better.

    Args:
        forward_func: From embeddings (B, T, D) and attention mask (B, T) to logits (B, C), or to log-probabilities of
            the explained class, shape (B,), which need no target.
        embeddings: Embeddings of the sentences, shape (B, T, D).
        attention_mask: 1 for tokens and 0 for padding, shape (B, T).
        attributions: A score for each token, shape (B, T). In each sentence the lowest becomes 0 and the highest 1;
            where all are equal, 1/2.
        fixed: True for tokens that stay whole, special ones and padding, shape (B, T).
        target: The class that they explain, shape (B,); None for the predicted one.
        n_samples: The number of draws, at least 1.
        seed: For drawing; for the same score, sentences of one shape lose the same coordinates.

    Returns:
        p(whole) - p(rest), averaged over the samples, shape (B,), float32; NaN where every token is fixed or a score is
        NaN.

    Raises:
        ValueError: If the shapes differ or `n_samples` is below 1.

    Example:
        >>> embeddings = torch.tensor([[[2.0], [0.0]]])
        >>> forward = lambda rows, mask: torch.cat([rows.sum(1), torch.zeros(len(rows), 1)], dim=1)
        >>> none = torch.zeros(1, 2, dtype=torch.bool)
        >>> soft_comprehensiveness(forward, embeddings, torch.ones(1, 2), torch.tensor([[1.0, 0.0]]), none)
        tensor([0.3808])

    References:
        Zhao and Aletras (2023), section 3, without their division by the effect of an empty text [zhao-aletras-2023].
    """
    scaled = _scaled(attributions, fixed)
    return _fall(forward_func, embeddings, attention_mask, 1 - scaled, fixed, target, n_samples, seed)


def soft_sufficiency(
    forward_func: EmbeddingFunction,
    embeddings: Tensor,
    attention_mask: Tensor,
    attributions: Tensor,
    fixed: Tensor,
    target: Tensor | None = None,
    *,
    n_samples: int = 10,
    seed: int = 0,
) -> Tensor:
    """Measure how much the probability falls when low-scoring tokens lose most of their embedding. Lower is better.

    Args:
        forward_func: As in `soft_comprehensiveness`.
        embeddings: Embeddings of the sentences, shape (B, T, D).
        attention_mask: Shape (B, T).
        attributions: A score for each token, shape (B, T), scaled as in `soft_comprehensiveness`.
        fixed: True for tokens that stay whole, shape (B, T).
        target: The class that they explain, shape (B,); None for the predicted one.
        n_samples: The number of draws, at least 1.
        seed: For drawing.

    Returns:
        p(whole) - p(rest), averaged over the samples, shape (B,), float32.

    Raises:
        ValueError: As in `soft_comprehensiveness`.

    Example:
        >>> embeddings = torch.tensor([[[2.0], [0.0]]])
        >>> forward = lambda rows, mask: torch.cat([rows.sum(1), torch.zeros(len(rows), 1)], dim=1)
        >>> none = torch.zeros(1, 2, dtype=torch.bool)
        >>> soft_sufficiency(forward, embeddings, torch.ones(1, 2), torch.tensor([[1.0, 0.0]]), none) < 1e-6
        tensor([True])

    References:
        Zhao and Aletras (2023), section 3 [zhao-aletras-2023].
    """
    scaled = _scaled(attributions, fixed)
    return _fall(forward_func, embeddings, attention_mask, scaled, fixed, target, n_samples, seed)


def _scaled(attributions: Tensor, fixed: Tensor) -> Tensor:
    """Scores from 0 for the lowest of a sentence to 1 for the highest."""
    if attributions.shape != fixed.shape:
        raise ValueError(f"attributions must have shape {tuple(fixed.shape)}, got {tuple(attributions.shape)}")
    scores = attributions.float()
    low = scores.masked_fill(fixed, torch.inf).amin(dim=1, keepdim=True)
    high = scores.masked_fill(fixed, -torch.inf).amax(dim=1, keepdim=True)
    return torch.where(high == low, 0.5, (scores - low) / (high - low))


def _fall(
    forward_func: EmbeddingFunction,
    embeddings: Tensor,
    attention_mask: Tensor,
    kept: Tensor,
    fixed: Tensor,
    target: Tensor | None,
    n_samples: int,
    seed: int,
) -> Tensor:
    at_least_one("n_samples", n_samples)
    if embeddings.dim() != 3 or embeddings.shape[:2] != fixed.shape or attention_mask.shape != fixed.shape:
        raise ValueError(
            f"embeddings and attention_mask must begin with the shape of fixed, {tuple(fixed.shape)}, "
            f"got {tuple(embeddings.shape)} and {tuple(attention_mask.shape)}"
        )
    shares = kept.masked_fill(fixed, 1.0)[..., None]
    with torch.no_grad():
        outputs = forward_func(embeddings, attention_mask).float()
        classes = outputs.argmax(dim=-1) if target is None else target.to(outputs.device)
        whole = _probabilities(outputs, classes)
        left = torch.zeros_like(whole)
        for drawn in draw(n_samples, embeddings.shape[1], embeddings.shape[2], seed):
            rows = torch.where(drawn.to(shares.device) < shares, embeddings, 0)
            left += _probabilities(forward_func(rows, attention_mask).float(), classes) / n_samples
    # NaN scores, or no token that may lose anything, give NaN.
    return torch.where(kept.masked_fill(fixed, 0).isnan().any(dim=1) | fixed.all(dim=1), torch.nan, whole - left)


def _probabilities(outputs: Tensor, classes: Tensor) -> Tensor:
    """The probability of one class of each sentence, shape (B,), from logits (B, C) or log-probabilities (B,)."""
    return outputs.exp() if outputs.dim() == 1 else outputs.softmax(dim=1).gather(1, classes[:, None])[:, 0]
