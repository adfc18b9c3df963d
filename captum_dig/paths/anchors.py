"""AnchorSearch: which word a path visits next.

Takes the rows around a word; gives a cost for each. The candidate with the lowest cost is the next anchor. The cost
depends only on the current word, the candidate, the baseline and the number of anchors. So `captum_dig.paths.tables`
ranks each row's candidates once and walks over the result.
"""

import reprlib
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, final

import torch
from torch import Tensor

from captum_dig.errors import PathError
from captum_dig.paths.monotone import monotone_mask, monotonize
from captum_dig.paths.naming import described
from captum_dig.vocabulary import Vocabulary


@dataclass(frozen=True)
class Neighborhood:
    """The arguments of a cost: some words, and the candidates around them.

    Attributes:
        word_ids: Rows of the current words, shape (N,), int64.
        words: Their vectors, shape (N, D), float32.
        candidate_ids: Rows of the candidates, shape (N, K), int64, nearest first; -1 where there is none.
        candidates: Their vectors, shape (N, K, D), float32; any vector where there is no candidate.
        baseline: The vector that the path goes to, shape (D,), float32.
        n_anchors: The paper's m.
    """

    word_ids: Tensor
    words: Tensor
    candidate_ids: Tensor
    candidates: Tensor
    baseline: Tensor
    n_anchors: int


class AnchorSearch(ABC):
    """A cost for every candidate that could be the next anchor; the lowest wins, ties go to the nearer candidate.

    Subclasses implement `cost`. The cost of a row must depend on nothing but that row of the argument, because costs
    are cached per row.

    Example:
        >>> class Nearest(AnchorSearch):
        ...     def cost(self, neighborhood):
        ...         return (neighborhood.candidates - neighborhood.words[:, None]).norm(dim=-1)
        >>> from captum_dig import MonotonicPath
        >>> path = MonotonicPath(
        ...     Vocabulary(torch.tensor([[0.0], [1.0], [2.0], [4.0]])), Nearest(), n_anchors=2, n_neighbors=3
        ... )
        >>> path.anchor_ids(torch.tensor([3]), baseline_id=0)
        tensor([[3, 2, 1]])
    """

    # Whether costs are drawn at random, from a seed.
    draws: ClassVar[bool] = False

    @classmethod
    def seeded(cls, seed: int | None) -> "AnchorSearch":  # noqa: ARG003 - for searches that draw
        """Make the search for this class's name in the catalogue; by default without arguments."""
        return cls()

    @reprlib.recursive_repr()
    def __repr__(self) -> str:
        # Results and journals name the search by it, and it must be the same in another process.
        return described(self)

    def __eq__(self, other: object) -> bool:
        # Searches of one class without attributes are equal.
        return self is other or (type(self) is type(other) and not _has_parameters(self) and not _has_parameters(other))

    def __hash__(self) -> int:
        return hash(type(self))

    @abstractmethod
    def cost(self, neighborhood: Neighborhood) -> Tensor:
        """Price the candidates: shape (N, K), any real dtype, lower is better."""

    @property
    def identity(self) -> str | None:
        """A name that is unique to these costs and keys their tables on disk; None for no tables on disk."""
        return None

    def propose(
        self,
        vocabulary: Vocabulary,
        word_ids: Tensor,
        n_neighbors: int,
        n_anchors: int,  # noqa: ARG002 - for searches that need another number of candidates
        candidates: Tensor | None,
    ) -> Tensor:
        """Choose the candidates around each word: by default its K nearest rows, nearest first.

        Args:
            vocabulary: The rows.
            word_ids: The current words, shape (N,).
            n_neighbors: The paper's K.
            n_anchors: The paper's m.
            candidates: Rows that may be anchors, a boolean mask of shape (V,); None for all.

        Returns:
            Row ids, of shape (N, K) or any other number of candidates; -1 where there is none.
        """
        return vocabulary.neighbors(word_ids, n_neighbors, candidates)

    @final
    def __call__(self, neighborhood: Neighborhood) -> Tensor:
        """Price the candidates and check what the subclass returned.

        Args:
            neighborhood: The current words and their candidates.

        Returns:
            Costs, shape (N, K).

        Raises:
            PathError: If `cost` returned another shape, or NaN.
        """
        costs = self.cost(neighborhood)
        expected = tuple(neighborhood.candidate_ids.shape)
        if tuple(costs.shape) != expected:
            raise PathError(f"{type(self).__name__}.cost must return shape {expected}, got {tuple(costs.shape)}")
        if bool(costs.isnan().any()):
            raise PathError(f"{type(self).__name__}.cost must not return NaN")
        return costs


class Greedy(AnchorSearch):
    """The candidate that monotonize moves least.

    Example:
        >>> Greedy()
        Greedy()

    References:
        Sanyal and Ren (2021), section 2.3 and algorithm 1 [sanyal-ren-2021].
    """

    def cost(self, neighborhood: Neighborhood) -> Tensor:
        """Distance between a candidate and its monotonized self."""
        candidates, point = neighborhood.candidates, neighborhood.words[:, None]
        moved = monotonize(candidates, point, neighborhood.baseline, neighborhood.n_anchors)
        return moved.sub_(candidates).square_().sum(dim=-1).sqrt_()

    @property
    def identity(self) -> str | None:
        """The name of the strategy; None for a subclass, which may have other costs."""
        return "greedy" if type(self) is Greedy else None


class MaxCount(AnchorSearch):
    """The candidate with the most monotone dimensions.

    Example:
        >>> MaxCount()
        MaxCount()

    References:
        Sanyal and Ren (2021), section 2.3 and algorithm 2 [sanyal-ren-2021].
    """

    def cost(self, neighborhood: Neighborhood) -> Tensor:
        """Number of dimensions that are not monotone."""
        point = neighborhood.words[:, None]
        monotone = monotone_mask(neighborhood.candidates, point, neighborhood.baseline)
        return monotone.shape[-1] - monotone.sum(dim=-1)

    @property
    def identity(self) -> str | None:
        """The name of the strategy; None for a subclass, which may have other costs."""
        return "maxcount" if type(self) is MaxCount else None


class _RandomSearch(AnchorSearch):
    """A search that draws from a seed."""

    draws = True

    @classmethod
    def seeded(cls, seed: int | None) -> "AnchorSearch":
        """Make the search with a seed; None draws one from torch's generator."""
        return cls(seed)

    def __init__(self, seed: int | None = None) -> None:
        self.seed = _seed(seed)


class RandomNeighbor(_RandomSearch):
    """A neighbour drawn uniformly: the paper's ablation DIG-RandomNeighbor.

    The order of a row's neighbours is a function of the seed and the row. The path of a word therefore does not depend
    on its sentence or batch.

    Args:
        seed: Any integer; None draws one from torch's generator, and keeps it.

    Example:
        >>> RandomNeighbor(seed=7)
        RandomNeighbor(seed=7)

    References:
        Sanyal and Ren (2021), section 4.3 [sanyal-ren-2021].
    """

    def cost(self, neighborhood: Neighborhood) -> Tensor:
        """A pseudo-random number per (word, candidate)."""
        return scramble(self.seed, neighborhood.word_ids[:, None], neighborhood.candidate_ids)


class RandomAnchor(_RandomSearch):
    """A row drawn uniformly from the whole vocabulary: the paper's ablation DIG-RandomAnchor.

    Args:
        seed: Any integer; None draws one from torch's generator, and keeps it.

    Example:
        >>> RandomAnchor(seed=7)
        RandomAnchor(seed=7)

    References:
        Sanyal and Ren (2021), section 4.3 [sanyal-ren-2021].
    """

    def propose(
        self,
        vocabulary: Vocabulary,
        word_ids: Tensor,
        n_neighbors: int,  # noqa: ARG002 - K has no part in this strategy
        n_anchors: int,
        candidates: Tensor | None,
    ) -> Tensor:
        """Draw enough rows for a whole walk, without replacement."""
        allowed: Tensor = (
            torch.arange(len(vocabulary), device="cpu") if candidates is None else candidates.nonzero()[:, 0]
        )
        keys = scramble(self.seed, word_ids[:, None], allowed)
        # A walk may have visited m of them, and one may be the baseline.
        count = min(n_anchors + 2, len(allowed))
        chosen: Tensor = keys.topk(count, dim=1, largest=False).indices
        return allowed[chosen]

    def cost(self, neighborhood: Neighborhood) -> Tensor:
        """The order in which the candidates were drawn."""
        return torch.arange(neighborhood.candidate_ids.shape[1], device="cpu").expand(neighborhood.candidate_ids.shape)


def _has_parameters(search: object) -> bool:
    # The state of an object without its class, slots included: None, a dictionary, or a pair of these.
    state: Any = object.__getstate__(search)
    return any(state) if isinstance(state, tuple) else bool(state)


def _seed(seed: int | None) -> int:
    return int(torch.randint(2**62, (), device="cpu").item()) if seed is None else int(seed)


def scramble(seed: int, left: Tensor, right: Tensor) -> Tensor:
    """Draw pseudo-random numbers that are a function of their arguments, by the mixer of splitmix64.

    Args:
        seed: Any integer.
        left: Any ids, int64.
        right: Other ids, int64, broadcastable to `left`.

    Returns:
        Integers from 0 to 2**63 - 1, of the broadcast shape.

    Example:
        >>> torch.equal(
        ...     scramble(0, torch.tensor([3, 4]), torch.tensor(1))[1:], scramble(0, torch.tensor([4]), torch.tensor(1))
        ... )
        True
    """
    state = (left * 0x1E3779B97F4A7C15) ^ (right * 0x3F58476D1CE4E5B9) ^ ((seed * 0x14D049BB133111EB) % 2**62)
    for shift, factor in ((30, -0x40A7B892E31B1A47), (27, -0x6B2FB644ECCEEE15), (31, 1)):
        # The arithmetic shift of a signed integer copies its sign; the mask removes it.
        state = (state ^ ((state >> shift) & ((1 << (64 - shift)) - 1))) * factor
    return state & (2**63 - 1)
