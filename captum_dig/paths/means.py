"""Mean: the weight of each path, where several are averaged.

Takes bundles of paths and their shares; says how much each path counts, and how many gradients it takes.
`captum_dig.quadrature` and `captum_dig.attribution` divide by it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from captum_dig.paths.bundles import Array, Bundle, Integers


@dataclass(frozen=True)
class Mean:
    """How R paths are averaged.

    Attributes:
        divisors: One over the weight of each path, shape (R,): R for every path, where all count alike.
        fixed: Whether the weight stays the same if further paths are added, shape (R,).
    """

    divisors: Array
    fixed: npt.NDArray[np.bool_]

    @classmethod
    def over(cls, bundles: Sequence[Bundle]) -> "Mean":
        """Weigh the paths of bundles.

        Args:
            bundles: The bundles. Their shares add up to 1, or to less if one of them has none.

        Example:
            >>> import torch
            >>> from captum_dig.paths import Knots, Together
            >>> line = Together((Knots(torch.tensor([0.0, 1.0])[:, None, None]),))
            >>> Mean.over([line.sharing(0.5), line, line]).divisors.tolist()
            [2.0, 4.0, 4.0]
        """
        return cls.of([bundle.n_paths for bundle in bundles], [bundle.share for bundle in bundles])

    @classmethod
    def of(cls, counts: Sequence[int], shares: Sequence[float | None]) -> "Mean":
        """Weigh paths, given their number in each bundle, and the share of the bundle."""
        rest = 1.0 - sum(share or 0.0 for share in shares)
        n_even = sum(count for count, share in zip(counts, shares, strict=True) if share is None)
        divisors = [
            n_even / rest if share is None else count / share for count, share in zip(counts, shares, strict=True)
        ]
        return cls(np.repeat(divisors, counts), np.repeat([share is not None for share in shares], counts))

    def n_parts(self) -> Integers:
        """Return for how many paths of the least weight each path counts where gradients are shared out.

        A path with a larger weight takes more of them. If errors fall with the square of the number of nodes, their sum
        of squares is least where this number goes with the weight to the power of 2 / 5.
        """
        parts: Integers = np.rint((self.divisors.max() / self.divisors) ** 0.4).astype(np.int64)
        return parts
