"""Starts: when words begin to move in several random orders.

Takes the numbers of words, a number of orders and a seed; gives a start in [0, 1] for each word and order.
`captum_dig.paths.staggered` makes windows of time from them.
"""

import functools

import numpy as np
import torch
from torch import Tensor

from captum_dig.paths.anchors import scramble
from captum_dig.paths.bundles import Integers

# Starts are balanced among so many successive words, and one of so many choices is taken for each.
_WORDS_AT_ONCE, _CHOICES = 64, 16
# A correlation or weight of 1 as an integer.
_ONE = 1024


def draw(numbers: Tensor, n_orders: int, seed: int, antithetic: bool, n_choices: int = _CHOICES) -> Tensor:
    """Draw starts for numbered words: uniform on [0, 1], spread evenly over the orders, nearly uncorrelated.

    Args:
        numbers: The number of each word, any shape, int64 on the CPU. The same number gets the same starts.
        n_orders: R, even if antithetic.
        seed: Any integer.
        antithetic: Whether each second order is one minus the one before.
        n_choices: The number of choices for each word. With 1 the starts of different words are independent.

    Returns:
        Shape (R, ...), float64: a function of the arguments, for each number by itself.

    Example:
        >>> draw(torch.tensor([5, 5, 7]), n_orders=4, seed=0, antithetic=True).mul(4).floor().sort(dim=0).values.T
        tensor([[0., 1., 2., 3.],
                [0., 1., 2., 3.],
                [0., 1., 2., 3.]], dtype=torch.float64)
    """
    blocks, own = (numbers // _WORDS_AT_ONCE).unique(return_inverse=True)
    parts = _parts(tuple(blocks.tolist()), n_orders, seed, antithetic, n_choices)
    part = torch.from_numpy(parts)[own, numbers % _WORDS_AT_ONCE].movedim(-1, 0)
    order = torch.arange(len(part), device="cpu").reshape(-1, *[1] * numbers.dim())
    inside = scramble(seed, numbers[None], 3 * order + 1).to(torch.float64) / 2**63
    first = (part + inside) / n_orders
    return torch.stack([first, 1 - first], dim=1).flatten(0, 1) if antithetic else first


@functools.lru_cache(maxsize=64)
def _parts(blocks: tuple[int, ...], n_orders: int, seed: int, antithetic: bool, n_choices: int) -> Integers:
    """Choose the part of [0, 1], one of R equal ones, in which each word of some blocks starts in each order.

    A Latin hypercube: a word visits the parts in an order of its own. Word after word, several such orders are drawn,
    and the one is taken that is least correlated with those of the words before. Words that are near count more.

    Args:
        blocks: The numbers of blocks of successive words.
        n_orders: R.
        seed: Any integer.
        antithetic: Whether only the first order of each pair is wanted. The second one has the mirror image.
        n_choices: The number of choices for each word.

    Returns:
        Numbers from 0 to R - 1, shape (blocks, words of a block, orders).

    References:
        Owen (1994) on Latin hypercubes with small correlations [owen-1994].
    """
    # Invariant: each start is uniform in each order. Correlations stay the same if the orders of all words are permuted
    # or all words are mirrored, so the choice favors no part. Two words, R = 4, pairs; values are twice the distance
    # from the middle, in parts. The first word has (3, 1). The second may take (3, 1), with the product 10, or (1, -3),
    # with 0. It takes the latter. Integers make every machine take the same choice.
    first = torch.tensor(blocks, dtype=torch.int64, device="cpu") * _WORDS_AT_ONCE
    numbers = (first[:, None] + torch.arange(_WORDS_AT_ONCE, device="cpu"))[:, :, None, None]
    n_drawn = n_orders // 2 if antithetic else n_orders
    draws = torch.arange(n_choices * n_drawn, device="cpu").reshape(n_choices, n_drawn)
    parts = scramble(seed, numbers, 3 * draws).argsort(dim=-1).argsort(dim=-1)
    if antithetic:
        # A pair takes a part and its mirror image; which comes first is drawn for each word.
        swapped = scramble(seed, numbers, 3 * draws + 2) >= 2**62
        parts = torch.where(swapped, n_orders - 1 - parts, parts)
    # Shape (blocks, words, choices, orders).
    choices: Integers = 2 * parts.numpy() - (n_orders - 1)
    taken = choices[:, :, 0].copy()
    total = max(1, int((np.arange(1 - n_orders, n_orders, 2) ** 2).sum()) // (2 if antithetic else 1))
    for word in range(1, _WORDS_AT_ONCE):
        correlations = _ONE * np.abs(choices[:, word] @ taken[:, :word].swapaxes(1, 2)) // total
        penalties = correlations**2 @ (_ONE // np.arange(word, 0, -1))
        taken[:, word] = choices[np.arange(len(blocks)), word, penalties.argmin(axis=1)]
    chosen: Integers = (taken + n_orders - 1) // 2
    return chosen
