"""Integral: attributions along a path, and how far to trust them.

`DiscretizedIntegratedGradients.integrate` returns it. Captum's `attribute` returns the attributions alone.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Integral:
    """Attributions, the estimated error of the integration, and the scores along each draw of the paths.

    Attributes:
        attributions: As from `attribute`: a tensor, or a tuple of them for a tuple of inputs.
        n_steps: The number of gradients for each example.
        error_percent: The estimated error of the integration for each example, shape (B,), in percent of the sizes of
            the words' attributions, added up over all intervals; None for a rule without an estimate.
        draws: For each input the attributions to its words along each independent draw of the paths, shape (G, B, W).
            The words are the elements along dimension 1. The mean over draws is the attribution to the word, multiplied
            by (inputs - baselines) in any case. G is 1 for paths that draw nothing.
        integration_errors: For each input the estimated error of the integration of each word, shape (B, W); None for a
            rule without an estimate.
    """

    attributions: Tensor | tuple[Tensor, ...]
    n_steps: int
    error_percent: Tensor | None
    draws: tuple[Tensor, ...]
    integration_errors: tuple[Tensor, ...] | None = None

    @property
    def word_errors(self) -> tuple[Tensor, ...] | None:
        """The error of each word's attribution, shape (B, W) for each input, as in `word_error`.

        None where there are fewer than 6 draws, which say too little about their spread.
        """
        if len(self.draws[0]) < FEWEST_DRAWS:
            return None
        errors = self.integration_errors or (None,) * len(self.draws)
        return tuple(word_error(drawn, error) for drawn, error in zip(self.draws, errors, strict=True))


# A standard error of fewer draws is itself a matter of luck.
FEWEST_DRAWS = 6


def standard_error(draws: Tensor) -> Tensor:
    """Return the standard error of the mean over dimension 0.

    Draws are treated as independent. Those of a `StaggeredPath` are spread evenly, so their mean is rather better.

    Example:
        >>> import torch
        >>> standard_error(torch.tensor([1.0, 2.0, 3.0, 4.0]))
        tensor(0.6455)
    """
    # Written out: `std` warns where a text has no word.
    squares = (draws - draws.mean(dim=0)).square().sum(dim=0)
    return (squares / (len(draws) * (len(draws) - 1))).sqrt()


def word_error(draws: Tensor, integration_errors: Tensor | None = None) -> Tensor:
    """Combine the standard error over draws with the error of the integration: the root of the sum of their squares.

    A standard error of few draws is uncertain itself. It is multiplied by half of Student's t, so that two errors cover
    the mean of many draws as often as for a normal distribution, in 95 % of cases. The error of the integration is
    estimated as a mean absolute value. Multiplied by the root of pi / 2, it is the standard deviation of a normal
    distribution.

    Args:
        draws: The attributions to words along each draw, shape (G, ...).
        integration_errors: The estimated errors of the integration, shape (...); None for a rule without an estimate.

    Returns:
        Shape (...).

    Example:
        >>> import torch
        >>> word_error(torch.tensor([0.0, 6.0] * 500), torch.tensor(4.0))
        tensor(5.0142)
        >>> word_error(torch.tensor([0.0, 6.0] * 3))
        tensor(1.7765)
    """
    # Cornish and Fisher's expansion of t / 2 at two normal standard deviations. With 5 degrees of freedom it is 1.324,
    # where 1.325 is exact.
    inverse = 1 / max(1, len(draws) - 1)
    spread = standard_error(draws) * (1 + inverse * (1.25 + inverse * (1.53125 + inverse * (1.42969 + inverse * 0.92))))
    return spread if integration_errors is None else torch.hypot(spread, math.sqrt(math.pi / 2) * integration_errors)
