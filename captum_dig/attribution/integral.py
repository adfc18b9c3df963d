"""Integral: attributions along a path, and how far to trust them.

`DiscretizedIntegratedGradients.integrate` returns it. Captum's `attribute` returns the attributions alone.
"""

from dataclasses import dataclass

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
    """

    attributions: Tensor | tuple[Tensor, ...]
    n_steps: int
    error_percent: Tensor | None
    draws: tuple[Tensor, ...]

    @property
    def word_errors(self) -> tuple[Tensor, ...] | None:
        """The standard error of each word's attribution over the draws, shape (B, W) for each input.

        None where there are fewer than 6 draws, which say too little about their spread. Six pairs of orders do: on
        development sentences two standard errors covered the mean over 256 orders for 90 % of the words.
        """
        return None if len(self.draws[0]) < FEWEST_DRAWS else tuple(map(standard_error, self.draws))


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
