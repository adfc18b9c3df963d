"""Random numbers for tokens: those of a sentence do not depend on its batch or its padding."""

import torch
from torch import Tensor


def draw(n_samples: int, n_tokens: int, dim: int, seed: int) -> Tensor:
    """Draw numbers for each coordinate of each token.

    More samples, or more tokens, leave those before them as they are.

    Args:
        n_samples: The number of draws.
        n_tokens: T.
        dim: D.
        seed: For drawing.

    Returns:
        Numbers in [0, 1), shape (n, T, D), float32 on the CPU.

    Example:
        >>> torch.equal(draw(3, 5, 2, seed=0)[:2, :4], draw(2, 4, 2, seed=0))
        True
    """
    seeds = torch.randint(
        2**62, (n_samples,), generator=torch.Generator("cpu").manual_seed(seed), dtype=torch.int64, device="cpu"
    )
    return torch.stack([_uniform((n_tokens, dim), one) for one in seeds.tolist()])


def _uniform(shape: tuple[int, int], seed: int) -> Tensor:
    generator = torch.Generator("cpu").manual_seed(seed)
    return torch.rand(shape, generator=generator, dtype=torch.float32, device="cpu")
