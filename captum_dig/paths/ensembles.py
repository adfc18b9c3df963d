"""EnsemblePath: the paths of several generators, averaged.

Takes generators; gives their knots, concatenated. `captum_dig.quadrature` shares the gradients among them.
"""

from collections.abc import Sequence

from torch import Tensor

from captum_dig.paths.base import PathGenerator
from captum_dig.paths.bundles import Bundle, all_knots
from captum_dig.paths.means import Mean


class EnsemblePath(PathGenerator):
    """Several paths from the same baselines to the same inputs; attributions are the mean over them.

    `n_steps` stays the number of all gradients: each of R paths gets its share. A generator of several paths counts as
    many times.

    Args:
        paths: The generators, at least one.

    Raises:
        TypeError: If one of them is no `PathGenerator`.
        ValueError: If there is none.

    Example:
        >>> import torch
        >>> from captum_dig import MonotonicPath, StraightLine, Vocabulary
        >>> vocabulary = Vocabulary(torch.tensor([[0.0], [1.0], [2.0], [4.0]]))
        >>> path = EnsemblePath([StraightLine(), MonotonicPath(vocabulary, n_anchors=2, n_neighbors=3)])
        >>> path(torch.tensor([[4.0]]), torch.tensor([[0.0]])).squeeze().tolist()
        [[0.0, 4.0, 4.0, 4.0], [0.0, 1.0, 2.0, 4.0]]

    References:
        Sundararajan, Taly and Yan (2017), section 4.2, on averages over paths [sundararajan-2017].
    """

    def __init__(self, paths: Sequence[PathGenerator]) -> None:
        self.paths = tuple(paths)
        if not self.paths:
            raise ValueError("paths must hold at least one PathGenerator, got none")
        for path in self.paths:
            if not isinstance(path, PathGenerator):
                raise TypeError(f"paths must hold PathGenerators, got {type(path).__name__}")
        self.monotone = all(path.monotone for path in self.paths)
        self.n_paths = sum(path.n_paths for path in self.paths)
        self.vocabulary = next((path.vocabulary for path in self.paths if path.vocabulary is not None), None)

    def __repr__(self) -> str:
        return f"EnsemblePath([{', '.join(map(repr, self.paths))}])"

    def sized(self, n_paths: int, block: int = 0) -> "EnsemblePath":
        """Choose the number of paths of every generator for which it is free."""
        return EnsemblePath([path.sized(n_paths // len(self.paths), block) for path in self.paths])

    def grouped(self, words: Tensor) -> "EnsemblePath":
        """Group the tokens of a batch into words, for every generator."""
        return EnsemblePath([path.grouped(words) for path in self.paths])

    def store(self) -> None:
        """Store the tables of every generator."""
        for path in self.paths:
            path.store()

    def knots(self, inputs: Tensor, baselines: Tensor) -> Tensor:
        """Collect the paths of all generators; those with fewer knots wait at the inputs."""
        return all_knots(self.lay((inputs,), (baselines,)))

    def lay(self, inputs: tuple[Tensor, ...], baselines: tuple[Tensor, ...]) -> tuple[Bundle, ...]:
        """Lay the paths of all generators, one after the other."""
        members = [path.bundles(inputs, baselines) for path in self.paths]
        if all(bundle.share is None for bundles in members for bundle in bundles):
            return tuple(bundle for bundles in members for bundle in bundles)
        # Each generator keeps the weights of its paths, and counts as often as it has paths.
        laid, n_paths = [], sum(bundle.n_paths for bundles in members for bundle in bundles)
        for bundles in members:
            divisors, first = Mean.over(bundles).divisors, 0
            for bundle in bundles:
                laid.append(bundle.sharing(len(divisors) / n_paths * bundle.n_paths / float(divisors[first])))
                first += bundle.n_paths
        return tuple(laid)
