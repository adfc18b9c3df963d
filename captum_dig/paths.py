"""PathGenerator: from an input and a baseline to the knots of a path between them.

Takes tensors as Captum hands them to an attribution method (embeddings, batch first), gives knots of shape (P, B, ...),
baseline first. A path is straight from knot to knot; `captum_dig.quadrature` places the gradient evaluations on it.
"""

import threading
import warnings
from abc import ABC, abstractmethod
from collections import OrderedDict
from typing import ClassVar, final

import torch
from torch import Tensor

from captum_dig.anchors import STRATEGIES, AnchorSearch
from captum_dig.errors import PathError, at_least_one
from captum_dig.monotone import is_monotone_path, monotonize
from captum_dig.tables import RankedTable, TableFolder
from captum_dig.vocabulary import Vocabulary

# Ranked tables kept, one per baseline vector; a table of a 256,000-word vocabulary takes 65 MB.
_TABLES = 8


class PathGenerator(ABC):
    """A way from baselines to inputs, as knots that are joined by straight pieces.

    Subclasses implement `knots`. The knots of one example must not depend on the rest of the batch.

    Attributes:
        monotone: Whether every coordinate of these paths runs one way only. What a class promises here is checked.

    Example:
        >>> class Detour(PathGenerator):
        ...     def knots(self, inputs, baselines):
        ...         even = torch.arange(inputs.shape[-1], device=inputs.device) % 2 == 0
        ...         corner = torch.where(even, inputs, baselines)
        ...         return torch.stack([baselines, corner, inputs])
        >>> Detour()(torch.ones(1, 2), torch.zeros(1, 2))[:, 0].tolist()
        [[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]]
    """

    monotone: ClassVar[bool] = False

    @abstractmethod
    def knots(self, inputs: Tensor, baselines: Tensor) -> Tensor:
        """Build the knots: from two tensors of shape (B, ...) one of shape (P, B, ...), P >= 2."""

    @final
    def __call__(self, inputs: Tensor, baselines: Tensor) -> Tensor:
        """Build the knots and check what the subclass returned.

        Args:
            inputs: Where the paths end, shape (B, ...), floating point, finite.
            baselines: Where they begin, same shape, dtype and device.

        Returns:
            Knots, shape (P, B, ...), dtype and device of `inputs`, without gradient; the first equals `baselines` and
            the last `inputs`, exactly.

        Raises:
            TypeError: If `inputs` is not floating point.
            ValueError: If the shapes differ, or a value is NaN or infinite.
            PathError: If the subclass returned something else than such knots.
        """
        _check_ends(inputs, baselines)
        with torch.no_grad():
            inputs, baselines = inputs.detach(), baselines.detach()
            knots = self.knots(inputs, baselines)
            self._check(knots, inputs, baselines)
        return knots

    def _check(self, knots: Tensor, inputs: Tensor, baselines: Tensor) -> None:
        name = type(self).__name__
        if not isinstance(knots, Tensor):
            raise PathError(f"{name}.knots must return a tensor, got {type(knots).__name__}")
        if knots.dim() != inputs.dim() + 1 or len(knots) < 2 or knots.shape[1:] != inputs.shape:
            expected = ", ".join(map(str, inputs.shape))
            raise PathError(f"{name}.knots must return shape (P, {expected}) with P >= 2, got {tuple(knots.shape)}")
        if knots.dtype != inputs.dtype or knots.device != inputs.device:
            raise PathError(
                f"{name}.knots must keep the dtype and device of the inputs, {inputs.dtype} on {inputs.device}, "
                f"got {knots.dtype} on {knots.device}"
            )
        for knot, end, which in ((knots[0], baselines, "first"), (knots[-1], inputs, "last")):
            if not torch.equal(knot, end):
                difference = float((knot - end).abs().max())
                whose = "baselines" if which == "first" else "inputs"
                raise PathError(
                    f"the {which} knot of {name} must equal the {whose} exactly, "
                    f"got a difference of up to {difference:.3g}"
                )
        if not bool(knots.isfinite().all()):
            raise PathError(f"{name}.knots must be finite, got NaN or infinity")
        if self.monotone and not is_monotone_path(knots):
            raise PathError(f"{name} declares monotone = True, but a coordinate of its knots turns back")


class StraightLine(PathGenerator):
    """The straight line of Integrated Gradients: two knots.

    Example:
        >>> StraightLine()(torch.ones(1, 3), torch.zeros(1, 3)).shape
        torch.Size([2, 1, 3])

    References:
        Sundararajan, Taly and Yan (2017), section 3 [sundararajan-2017].
    """

    monotone: ClassVar[bool] = True

    def knots(self, inputs: Tensor, baselines: Tensor) -> Tensor:
        """Return the two ends."""
        return torch.stack([baselines, inputs])

    def __repr__(self) -> str:
        return "StraightLine()"


class MonotonicPath(PathGenerator):
    """The path of Discretized Integrated Gradients: from word to word, monotone in every coordinate.

    Every vector along the last dimension of the inputs is a word of its own. Words are recognised by their vectors; a
    vector that is no row (noise, a soft prompt) starts its walk at the nearest row and still ends exactly at itself.
    Where input and baseline agree the path is constant. What is learnt about the vocabulary on the way is kept for
    later calls, so the first sentence takes longest; results do not depend on earlier calls, and threads may share one
    object.

    Args:
        vocabulary: The rows of the embedding layer that is attributed to.
        strategy: ``"greedy"``, ``"maxcount"``, ``"random_neighbor"``, ``"random_anchor"``, or an `AnchorSearch`.
        n_anchors: The paper's m: words on the way, at least 1. The number of gradients is `n_steps`, not this.
        n_neighbors: The paper's K: candidates looked at for each anchor, at least 1.
        candidates: Rows that may be anchors, a boolean mask of shape (V,); None for every row, as in the paper.
        seed: For the random strategies; None draws one from torch's generator.
        folder: Where what is learnt about the vocabulary is kept for other processes; None for nowhere. Random
            strategies and an `AnchorSearch` of your own are not kept.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If `strategy` is unknown, a number is below 1, or `candidates` has another shape or allows no row.

    Example:
        >>> vocabulary = Vocabulary(torch.tensor([[0.0, 0.0], [1.0, 2.0], [2.0, 2.0], [4.0, 3.0]]))
        >>> path = MonotonicPath(vocabulary, "greedy", n_anchors=2, n_neighbors=3)
        >>> path(torch.tensor([[4.0, 3.0]]), torch.tensor([[0.0, 0.0]]))[:, 0].tolist()
        [[0.0, 0.0], [1.0, 2.0], [2.0, 2.0], [4.0, 3.0]]

    References:
        Sanyal and Ren (2021), section 2.3, algorithms 1 and 2 [sanyal-ren-2021].
    """

    monotone: ClassVar[bool] = True

    def __init__(
        self,
        vocabulary: Vocabulary,
        strategy: str | AnchorSearch = "greedy",
        n_anchors: int = 30,
        n_neighbors: int = 500,
        *,
        candidates: Tensor | None = None,
        seed: int | None = None,
        folder: TableFolder | None = None,
    ) -> None:
        if not isinstance(vocabulary, Vocabulary):
            raise TypeError(
                f"vocabulary must be a Vocabulary, got {type(vocabulary).__name__}; "
                "build one with Vocabulary.from_layer(model.get_input_embeddings())"
            )
        self.vocabulary = vocabulary
        self.strategy = _resolve_strategy(strategy, seed)
        self.n_anchors = at_least_one("n_anchors", n_anchors)
        self.n_neighbors = at_least_one("n_neighbors", n_neighbors)
        self.candidates = _resolve_candidates(candidates, len(vocabulary))
        available = len(vocabulary) - 1 if self.candidates is None else int(self.candidates.sum())
        if self.n_neighbors > available:
            warnings.warn(
                f"n_neighbors = {self.n_neighbors} is more than the {available} rows there are; all of them are used",
                stacklevel=2,
            )
            self.n_neighbors = max(1, available)
        self._folder = folder
        self._tables: OrderedDict[bytes, RankedTable] = OrderedDict()
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"MonotonicPath({self.strategy!r}, n_anchors={self.n_anchors}, n_neighbors={self.n_neighbors})"

    def anchor_ids(self, input_ids: Tensor, baseline_id: int) -> Tensor:
        """Find the words that the paths of some words visit.

        Args:
            input_ids: Rows, shape (N,), any integer dtype.
            baseline_id: The row that the paths go to.

        Returns:
            Row ids, shape (N, m + 1), int64 on the CPU, the word itself first. Where no candidate is left,
            `baseline_id`, or the first row that equals it.

        Raises:
            ValueError: If the ids have another shape or are not rows of the vocabulary.

        Example:
            >>> vocabulary = Vocabulary(torch.tensor([[0.0], [1.0], [2.0], [4.0]]))
            >>> MonotonicPath(vocabulary, n_anchors=3, n_neighbors=3).anchor_ids(torch.tensor([3]), baseline_id=0)
            tensor([[3, 2, 1, 0]])
        """
        ids = input_ids.detach().to("cpu", torch.int64)
        if ids.dim() != 1:
            raise ValueError(f"input_ids must have shape (N,), got {tuple(ids.shape)}")
        for value in (*ids.tolist(), baseline_id):
            if not 0 <= value < len(self.vocabulary):
                raise ValueError(
                    f"ids must be rows of the vocabulary, from 0 to {len(self.vocabulary) - 1}, got {value}"
                )
        # Of several equal rows the first stands for them all, as where paths start from vectors.
        goal = self.vocabulary.rows[[baseline_id]]
        return self.table(goal[0]).walk(ids, int(self.vocabulary.find(goal)))

    def table(self, baseline: Tensor) -> RankedTable:
        """Look up the ranked table of the paths to a baseline.

        Args:
            baseline: The vector, shape (D,), float32 on the CPU.

        Returns:
            The table, which later calls share.
        """
        key = baseline.numpy().tobytes()
        with self._lock:
            if key not in self._tables:
                self._tables[key] = RankedTable(
                    self.vocabulary,
                    self.strategy,
                    baseline.clone(),
                    self.n_anchors,
                    self.n_neighbors,
                    self.candidates,
                    self._folder,
                )
            self._tables.move_to_end(key)
            if len(self._tables) > _TABLES:
                self._tables.popitem(last=False)
            return self._tables[key]

    def store(self) -> None:
        """Keep on disk what has been learnt, if there is a folder for it."""
        with self._lock:
            tables = list(self._tables.values())
        for table in tables:
            table.store()

    def knots(self, inputs: Tensor, baselines: Tensor) -> Tensor:
        """Walk from each vector to its baseline, monotonize the anchors, and return the points in reverse."""
        if inputs.dim() < 2 or inputs.shape[-1] != self.vocabulary.dim:
            raise ValueError(
                f"inputs must have shape (B, ..., {self.vocabulary.dim}), the width of the vocabulary, "
                f"got {tuple(inputs.shape)}; "
                "attribute to the layer that `model.get_input_embeddings()` returns"
            )
        # Half precision would round every step; the paths are rounded once, at the end, which keeps them monotone.
        precise = torch.promote_types(inputs.dtype, torch.float32)
        ends = inputs.reshape(-1, inputs.shape[-1])
        starts = baselines.reshape(-1, baselines.shape[-1])
        moving = (ends != starts).any(dim=1)
        knots = ends.expand(self.n_anchors + 2, *ends.shape).clone()
        knots[0] = starts
        if bool(moving.any()):
            knots[:, moving] = self._walk(ends[moving].to(precise), starts[moving].to(precise)).to(inputs.dtype)
        return knots.reshape(len(knots), *inputs.shape)

    def _walk(self, inputs: Tensor, baselines: Tensor) -> Tensor:
        """Knots of vectors that differ from their baselines: two tensors (N, D) to one of (m + 2, N, D)."""
        anchors = self._anchors(inputs, baselines)
        points = [inputs]
        for anchor in anchors:
            points.append(monotonize(anchor, points[-1], baselines, self.n_anchors))
        return torch.stack([*points, baselines]).flip(0)

    def _anchors(self, inputs: Tensor, baselines: Tensor) -> Tensor:
        """Vectors of the anchors, shape (m, N, D), from the input's side."""
        starts = self.vocabulary.locate(inputs)
        goals = baselines.to("cpu", torch.float32)
        goal_ids = self.vocabulary.find(goals)
        # Rows are told apart by their ids, which is quicker than by what they hold.
        strange = goal_ids < 0
        which = goal_ids.clone()
        which[strange] = -1 - torch.unique(goals[strange], dim=0, return_inverse=True)[1]
        ids = torch.empty((self.n_anchors, len(inputs)), dtype=torch.int64)
        for number in which.unique():
            here = which == number
            first = int(here.to(torch.int8).argmax())
            ids[:, here] = self.table(goals[first]).walk(starts[here], int(goal_ids[first]))[:, 1:].T
        # Each row travels once to the device of the inputs.
        met, places = torch.unique(ids.clamp(min=0), return_inverse=True)
        anchors = self.vocabulary.rows[met].to(inputs)[places.to(inputs.device)]
        # A walk that ran dry waits at the baseline, which need not be a row.
        return torch.where((ids < 0)[..., None].to(inputs.device), baselines, anchors)


def upsample(knots: Tensor, factor: int) -> Tensor:
    """Insert the mean of every two neighbouring knots, several times over.

    The path stays the same; with ``spacing="knots"`` it gets denser nodes, which is the paper's way to a smaller delta.
    More `n_steps` does the same.

    Args:
        knots: A path, shape (P, ...).
        factor: The paper's f, at least 0.

    Returns:
        The path with ``(P - 1) * 2**factor + 1`` knots.

    Raises:
        ValueError: If `factor` is negative.

    Example:
        >>> upsample(torch.tensor([0.0, 4.0, 6.0]), factor=1).tolist()
        [0.0, 2.0, 4.0, 5.0, 6.0]

    References:
        Sanyal and Ren (2021), section 4.3, "Effect of Increasing Path Density" [sanyal-ren-2021].
    """
    if factor < 0:
        raise ValueError(f"factor must be at least 0, got {factor}")
    for _ in range(factor):
        middles = (knots[:-1] + knots[1:]) / 2
        pairs = torch.stack([knots[:-1], middles], dim=1).flatten(0, 1)
        knots = torch.cat([pairs, knots[-1:]])
    return knots


def _check_ends(inputs: Tensor, baselines: Tensor) -> None:
    if not inputs.is_floating_point():
        raise TypeError(
            f"inputs must be floating point, got {inputs.dtype}; for token ids attribute to the embedding layer with "
            "LayerDiscretizedIntegratedGradients"
        )
    if inputs.dim() == 0 or inputs.shape != baselines.shape or inputs.numel() == 0:
        raise ValueError(
            "inputs and baselines must have one shape (B, ...) that is not empty, "
            f"got {tuple(inputs.shape)} and {tuple(baselines.shape)}"
        )
    if inputs.dtype != baselines.dtype or inputs.device != baselines.device:
        raise ValueError(
            "inputs and baselines must have one dtype and device, "
            f"got {inputs.dtype} on {inputs.device} and {baselines.dtype} on {baselines.device}"
        )
    for name, tensor in (("inputs", inputs), ("baselines", baselines)):
        if not bool(tensor.isfinite().all()):
            raise ValueError(f"{name} must be finite, got NaN or infinity; check the model's weights")


def _resolve_strategy(strategy: str | AnchorSearch, seed: int | None) -> AnchorSearch:
    if isinstance(strategy, AnchorSearch):
        return strategy
    if not isinstance(strategy, str):
        raise TypeError(f"strategy must be a name or an AnchorSearch, got {type(strategy).__name__}")
    if strategy not in STRATEGIES:
        names = ", ".join(map(repr, STRATEGIES))
        raise ValueError(f"strategy must be one of {names} or an AnchorSearch, got {strategy!r}")
    return STRATEGIES[strategy](seed)


def _resolve_candidates(candidates: Tensor | None, n_rows: int) -> Tensor | None:
    if candidates is None:
        return None
    if not isinstance(candidates, Tensor) or candidates.dtype != torch.bool or candidates.shape != (n_rows,):
        got = (
            f"{candidates.dtype} {tuple(candidates.shape)}"
            if isinstance(candidates, Tensor)
            else type(candidates).__name__
        )
        raise ValueError(f"candidates must be a boolean mask of shape ({n_rows},), got {got}")
    if not bool(candidates.any()):
        raise ValueError("candidates must allow at least one row, got a mask that is False everywhere")
    return candidates.detach().cpu().clone()
