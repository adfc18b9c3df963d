"""Ends: the outputs at the baselines and at the inputs, and the gradients there that the paths of an ensemble share.

Takes the model's gradients and outputs at both ends; says which of them may be used. `calls` makes it, and `streaming`
and `refining` begin with it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from captum_dig.paths.bundles import Bundle
from captum_dig.quadrature import QuadratureRule

# Sharing costs two gradients and saves about one on each path, so it pays from three paths on.
_FEWEST_PATHS = 3


@dataclass(frozen=True)
class Ends:
    """The outputs at both ends, and perhaps the gradients.

    Attributes:
        outputs: Those at the baselines and at the inputs, shape (2, B).
        gradients: Of each input, shape (2, B, ...), or (0, B, ...) if they were not taken.
        usable: Where the gradients may be used, shape (2, B); None if they were not taken.
    """

    outputs: Tensor
    gradients: tuple[Tensor, ...]
    usable: npt.NDArray[np.bool_] | None = None

    @classmethod
    def with_gradients(cls, outputs: Tensor, gradients: Sequence[Tensor]) -> "Ends":
        """Mark the gradients of an example at an end as unusable if one of them is not finite.

        A function such as the length of a vector has no gradient at 0, where baselines often are.
        """
        finite = [each.isfinite().reshape(*outputs.shape, -1).all(dim=-1) for each in gradients]
        usable = torch.stack(finite).all(dim=0)
        # Elsewhere they become 0: a weight of 0 times NaN would be NaN.
        kept = [torch.where(usable.reshape(*usable.shape, *[1] * (each.dim() - 2)), each, 0) for each in gradients]
        return cls(outputs, tuple(kept), usable.cpu().numpy())

    @property
    def n_gradients(self) -> int:
        """The number of gradients that were taken for each example: 0 or 2."""
        return 0 if self.usable is None else len(self.usable)


def share_ends(rule: QuadratureRule, bundles: Sequence[Bundle], n_steps: int) -> bool:
    """Return whether the paths of bundles share two of `n_steps` gradients; each path needs a node of its own, too."""
    n_paths = sum(bundle.n_paths for bundle in bundles)
    return rule.shares_ends and n_paths >= _FEWEST_PATHS and n_steps >= n_paths + rule.n_shared
