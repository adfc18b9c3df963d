"""Captum's own two measures: infidelity and sensitivity.

Takes a model as a function of embeddings; gives one number for each sentence. Special tokens and padding are not
disturbed. `captum_dig.metrics.measures` builds on it.
"""

from collections.abc import Callable

import torch
from captum.metrics import infidelity as captum_infidelity
from captum.metrics import sensitivity_max
from torch import Tensor

from captum_dig.checks import at_least_one
from captum_dig.metrics.draws import draw


def infidelity(
    forward_func: Callable[..., Tensor],
    embeddings: Tensor,
    attributions: Tensor,
    fixed: Tensor,
    target: Tensor | None,
    baselines: Tensor | None = None,
    *,
    additional_forward_args: tuple[Tensor, ...] = (),
    noise: float = 0.02,
    n_samples: int = 20,
    seed: int = 0,
) -> Tensor:
    """Measure how badly attributions predict the effect of small noise on the output. Lower is better.

    Args:
        forward_func: From embeddings, shape (B, T, D), and the further arguments to logits (B, C), or to one number for
            each sentence, shape (B,).
        embeddings: Embeddings of the sentences.
        attributions: Attributions to them, shape (B, T, D), before any sum.
        fixed: True for tokens that are left alone, shape (B, T).
        target: The class that was explained, shape (B,); None where `forward_func` gives one number.
        baselines: Where the attributions start, shape (B, T, D); None for zeros. Attributions are divided by
            (embeddings - baselines), which makes them slopes.
        additional_forward_args: Further arguments of `forward_func`.
        noise: Standard deviation of the noise on each coordinate, above 0.
        n_samples: How many disturbances to average over, at least 1.
        seed: For drawing them.

    Returns:
        Captum's infidelity with ``normalize=True``, shape (B,), float32.

    Raises:
        ValueError: If a number is out of range or a shape is wrong.

    Example:
        >>> forward = lambda x: x.sum(dim=1)
        >>> x = torch.tensor([[[3.0, 1.0]]])
        >>> free = torch.zeros(1, 1, dtype=torch.bool)
        >>> infidelity(forward, x, torch.tensor([[[3.0, 0.0]]]), free, torch.tensor([0])) < 1e-4
        tensor([True])

    References:
        Yeh et al. (2019), definition 2.1 [yeh-2019]; `captum.metrics.infidelity`.
    """
    at_least_one("n_samples", n_samples)
    _check(embeddings, fixed, noise)
    for name, tensor in (("attributions", attributions), ("baselines", baselines)):
        if tensor is not None and tensor.shape != embeddings.shape:
            raise ValueError(
                f"{name} must have the shape of the embeddings, {tuple(embeddings.shape)}, got {tuple(tensor.shape)}; "
                "pass one number for each coordinate"
            )
    ways = embeddings if baselines is None else embeddings - baselines

    def disturb(inputs: Tensor) -> tuple[Tensor, Tensor]:
        # Captum repeats every example n_samples times, one after the other; all examples get the same noise.
        copies = len(inputs) // len(embeddings)
        even = draw(copies, embeddings.shape[1], embeddings.shape[2], seed).clamp(1e-7, 1 - 1e-7)
        drawn = (torch.special.ndtri(even.double()) * noise).to(embeddings).repeat(len(embeddings), 1, 1)
        drawn = drawn.masked_fill(fixed.repeat_interleave(copies, dim=0)[..., None], 0)
        way = ways.repeat_interleave(copies, dim=0)
        # Attributions are 0 where nothing moves, and do not predict the effect of a move there.
        drawn = drawn.masked_fill(way == 0, 0)
        return torch.where(way == 0, 0, drawn / way), inputs - drawn

    result: Tensor = captum_infidelity(
        forward_func,
        disturb,
        embeddings,
        attributions,
        additional_forward_args=additional_forward_args or None,
        target=target,
        n_perturb_samples=n_samples,
        normalize=True,
    )
    # A difference of sums may be below 0 by rounding.
    return result.float().clamp(min=0)


def sensitivity(
    explain: Callable[..., Tensor],
    embeddings: Tensor,
    fixed: Tensor,
    *,
    radius: float = 0.02,
    n_samples: int = 5,
    seed: int = 0,
) -> Tensor:
    """Measure how far attributions move when the embeddings move a little. Lower is better.

    Args:
        explain: From embeddings, shape (B, T, D), to attributions of this shape.
        embeddings: Embeddings of the sentences.
        fixed: True for tokens that are left alone, shape (B, T).
        radius: How far each coordinate may move, above 0.
        n_samples: The number of neighbours to try, at least 1.
        seed: For drawing them.

    Returns:
        The largest relative change of the attributions, shape (B,), float32.

    Raises:
        ValueError: If a number is out of range or a shape is wrong.

    Example:
        >>> x = torch.tensor([[[3.0, 1.0]]])
        >>> sensitivity(lambda x: 0 * x + 1, x, torch.zeros(1, 1, dtype=torch.bool))
        tensor([0.])

    References:
        Yeh et al. (2019), definition 3.1 [yeh-2019]; `captum.metrics.sensitivity_max`.
    """
    at_least_one("n_samples", n_samples)
    _check(embeddings, fixed, radius)
    neighbors = iter((2 * draw(n_samples, embeddings.shape[1], embeddings.shape[2], seed).to(embeddings) - 1) * radius)

    def disturb(inputs: Tensor) -> tuple[Tensor]:
        # One neighbour of each sentence at a time.
        return (inputs + next(neighbors).expand_as(inputs).masked_fill(fixed[..., None], 0),)

    def explanations(inputs: Tensor | tuple[Tensor, ...]) -> tuple[Tensor]:
        # Captum turns gradients off, but an explanation may need them.
        with torch.enable_grad():
            return (explain(inputs[0] if isinstance(inputs, tuple) else inputs).detach().contiguous(),)

    # `explain` may accept only this batch of sentences, so it always gets the whole batch.
    result: Tensor = sensitivity_max(
        explanations, embeddings, disturb, n_perturb_samples=n_samples, max_examples_per_batch=len(embeddings)
    )
    return result.float()


def _check(embeddings: Tensor, fixed: Tensor, size: float) -> None:
    if embeddings.dim() != 3 or embeddings.shape[:2] != fixed.shape:
        raise ValueError(
            f"embeddings must have shape (B, T, D) and fixed (B, T), "
            f"got {tuple(embeddings.shape)} and {tuple(fixed.shape)}"
        )
    if not size > 0:
        raise ValueError(f"noise and radius must be above 0, got {size!r}")
