"""The staggered path of version 0.1, which results of that version were measured with."""

from torch import Tensor

from captum_dig import StaggeredPath
from captum_dig.paths.starts import draw


class IndependentStarts(StaggeredPath):
    """A staggered path whose words start independently of each other, as in version 0.1."""

    def _draw(self, numbers: Tensor) -> Tensor:
        return draw(numbers, self.n_paths, self.seed, self.antithetic, n_choices=1)
