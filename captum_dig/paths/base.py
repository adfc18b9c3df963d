"""PathGenerator: from an input and a baseline to the knots of a path between them.

Takes inputs and baselines as Captum passes them to an attribution method (embeddings, batch first). Gives knots of
shape (P, B, ...), baseline first, or (R, P, B, ...) for R paths that are averaged; or a `Polyline`, which makes points
where they are wanted. A path is straight from knot to knot. `captum_dig.quadrature` places the gradient evaluations
on it.
"""

import reprlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, final

import torch
from torch import Tensor

from captum_dig.errors import PathError
from captum_dig.paths.bundles import Bundle, Together
from captum_dig.paths.monotone import is_monotone_path
from captum_dig.paths.naming import described
from captum_dig.paths.polylines import Knots, Line, Polyline

if TYPE_CHECKING:
    from captum_dig.paths.walks import Walk
    from captum_dig.vocabulary import Vocabulary


class PathGenerator(ABC):
    """A way from baselines to inputs, as knots that are joined by straight pieces; or several ways, an ensemble.

    Subclasses implement `knots`. The knots of one example must not depend on the rest of the batch, with one exception.
    The last knot may be repeated until all examples, or all paths of an ensemble, have the same number. The number of
    paths must not depend on the inputs.

    Attributes:
        monotone: Whether every coordinate of these paths moves in one direction only. It is checked at every call.
        n_paths: The number of paths for an input; each needs at least one gradient. If the number is free, the least.
        n_draws: The number of independent draws among them, each of as many paths, one behind the other. Their spread
            says how far the mean is from that of all draws.
        free: Whether the number of paths is free, so that `sized` chooses it.
        draws: Whether it draws at random, from a seed.
        vocabulary: The rows that it walks over; None for a path without words.

    Example:
        >>> class Detour(PathGenerator):
        ...     def knots(self, inputs, baselines):
        ...         even = torch.arange(inputs.shape[-1], device=inputs.device) % 2 == 0
        ...         corner = torch.where(even, inputs, baselines)
        ...         return torch.stack([baselines, corner, inputs])
        >>> Detour()(torch.ones(1, 2), torch.zeros(1, 2))[:, 0].tolist()
        [[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]]
    """

    monotone: bool = False
    n_paths: int = 1
    n_draws: int = 1
    free: bool = False
    draws: ClassVar[bool] = False
    vocabulary: "Vocabulary | None" = None

    @reprlib.recursive_repr()
    def __repr__(self) -> str:
        # Results and journals name the path by it: no memory address, and all contents of a tensor.
        return described(self)

    @abstractmethod
    def knots(self, inputs: Tensor, baselines: Tensor) -> Tensor | Polyline:
        """Build the path.

        Args:
            inputs: Where it ends, shape (B, ...).
            baselines: Where it begins, same shape.

        Returns:
            The knots, shape (P, B, ...) or (R, P, B, ...), P >= 2. Or a `Polyline` between the same ends, for a path
            whose knots together take much memory.
        """

    def lay(self, inputs: tuple[Tensor, ...], baselines: tuple[Tensor, ...]) -> tuple[Bundle, ...]:
        """Lay the paths of one or several inputs in one time; by default each input moves by itself.

        Args:
            inputs: Where the paths end, each of shape (B, ...).
            baselines: Where they begin, of the same shapes.

        Returns:
            Bundles of paths, all of them averaged.

        Raises:
            PathError: If the number of paths, or of knots, differs between inputs.
        """
        parts = [self._lay_one(end, start) for end, start in zip(inputs, baselines, strict=True)]
        name, counts = type(self).__name__, sorted({n_paths for _, n_paths in parts})
        if len(counts) > 1:
            raise PathError(f"{name} must give every input of a tuple the same number of paths, got {counts}")
        n_knots = sorted({(polyline.n_pieces + 1) // n_paths for polyline, n_paths in parts})
        if len(n_knots) > 1:
            raise PathError(
                f"{name} must give every input of a tuple the same number of knots, got {n_knots}; "
                "take a PathPerInput with a path for each input"
            )
        return (Together(tuple(polyline for polyline, _ in parts), counts[0]),)

    @classmethod
    def named(cls, walk: "Callable[[], Walk]", seed: int | None) -> "PathGenerator":  # noqa: ARG003
        """Make the path for this class's name in the catalogue; by default without arguments.

        Args:
            walk: Gives how to go from word to word, for paths that need words.
            seed: For paths that draw; None for their default.
        """
        return cls()

    def sized(self, n_paths: int, block: int = 0) -> "PathGenerator":  # noqa: ARG002 - by default nothing is free
        """Choose the number of paths, where it is free.

        Args:
            n_paths: The number that the gradients are enough for.
            block: The number of the block of draws; another block has other draws.

        Returns:
            The path with about so many members; by default this one.
        """
        return self

    def describe(self) -> dict[str, int | None]:
        """Return the settings of the path: ``n_anchors``, ``n_neighbors``, and ``seed`` if it draws."""
        return {"n_anchors": 0, "n_neighbors": 0, "seed": seed_of(self)}

    def passed_words(self, ids: Tensor, goal: int) -> Tensor | None:  # noqa: ARG002 - for paths through words
        """Find the words that a path passes between a word and its baseline.

        Args:
            ids: The words, rows of the vocabulary, shape (N,), int64.
            goal: The row of the baseline.

        Returns:
            Row ids, shape (N, m), from the word towards the baseline; None for a path that passes no words.
        """
        return None

    def ways(self, inputs: Tensor, baselines: Tensor) -> Tensor | None:  # noqa: ARG002 - by default they may depend
        """Build the knots of single words, if the path of a word does not depend on the words beside it.

        Args:
            inputs: Vectors of words, shape (N, D).
            baselines: Where their paths begin, shape (N, D).

        Returns:
            Knots, shape (P, N, D); None where the words beside a word matter.
        """
        return None

    def grouped(self, words: Tensor) -> "PathGenerator":  # noqa: ARG002 - for paths that move words, not tokens
        """Group the tokens of a batch into words.

        Args:
            words: The number of the word that each token belongs to, shape (B, T), int64; -1 where there is none.

        Returns:
            The path for that batch: by default this one, which ignores words.
        """
        return self

    def store(self) -> None:  # noqa: B027 - most paths have nothing to keep
        """Store computed tables for other processes; by default there are none."""

    @final
    def __call__(self, inputs: Tensor, baselines: Tensor) -> Tensor:
        """Build the knots and check what the subclass returned.

        Args:
            inputs: Where the paths end, shape (B, ...), floating point, finite.
            baselines: Where they begin, same shape, dtype and device.

        Returns:
            Knots, shape (P, B, ...), or (R, P, B, ...) for an ensemble of R paths, dtype and device of `inputs`,
            without gradient. The first knot of a path equals `baselines` and the last `inputs`, exactly.

        Raises:
            TypeError: If `inputs` is not floating point.
            ValueError: If the shapes differ, or a value is NaN or infinite.
            PathError: If the subclass returned something else than such knots.
        """
        _check_ends(inputs, baselines)
        with torch.no_grad():
            inputs, baselines = inputs.detach(), baselines.detach()
            knots = self.knots(inputs, baselines)
            if isinstance(knots, Polyline):
                knots = Together((knots,)).knots()[0]
            self._check(knots, inputs, baselines)
        return knots

    @final
    def bundles(self, inputs: tuple[Tensor, ...], baselines: tuple[Tensor, ...]) -> tuple[Bundle, ...]:
        """Lay the paths of one or several inputs, as `lay` does, and check them; points are made when they are asked.

        Args:
            inputs: Where the paths end, each of shape (B, ...), floating point, finite.
            baselines: Where they begin, of the same shapes, dtypes and devices.

        Returns:
            Bundles of paths, all of them averaged.

        Raises:
            TypeError: If an input is not floating point.
            ValueError: If shapes differ, or a value is NaN or infinite.
            PathError: If the subclass returned something else than paths between these ends.
        """
        for place, (end, start) in enumerate(zip(inputs, baselines, strict=True)):
            _check_ends(end, start, f" {place}" if len(inputs) > 1 else "")
        with torch.no_grad():
            return self.lay(tuple(end.detach() for end in inputs), tuple(start.detach() for start in baselines))

    def _lay_one(self, inputs: Tensor, baselines: Tensor) -> tuple[Polyline, int]:
        """The paths of one input, checked, one behind the other, and their number."""
        path = self.knots(inputs, baselines)
        if isinstance(path, Polyline):
            self._check_polyline(path, inputs, baselines)
            return path, 1
        self._check(path, inputs, baselines)
        ensemble = as_ensemble(path, inputs)
        return Knots(ensemble.flatten(0, 1)), len(ensemble)

    def _check_polyline(self, path: Polyline, inputs: Tensor, baselines: Tensor) -> None:
        name = type(self).__name__
        if (
            path.inputs.shape != inputs.shape
            or path.inputs.dtype != inputs.dtype
            or path.inputs.device != inputs.device
        ):
            raise PathError(
                f"{name}.knots must return a polyline like the inputs, {tuple(inputs.shape)}, {inputs.dtype} on "
                f"{inputs.device}, got {tuple(path.inputs.shape)}, {path.inputs.dtype} on {path.inputs.device}"
            )
        number = torch.zeros((1, len(inputs), 1), dtype=torch.int64, device=inputs.device)
        share = torch.zeros((1, len(inputs), 1), dtype=path.precise, device=inputs.device)
        last = path.points(number + path.n_pieces - 1, share + 1)[0]
        self._check_path(torch.stack([path.points(number, share)[0], last]), inputs, baselines)

    def _check(self, knots: Tensor | Polyline, inputs: Tensor, baselines: Tensor) -> None:
        name = type(self).__name__
        if not isinstance(knots, Tensor):
            raise PathError(f"{name}.knots must return a tensor or a Polyline, got {type(knots).__name__}")
        extra = knots.dim() - inputs.dim()
        if extra not in (1, 2) or not len(knots) or knots.shape[extra - 1] < 2 or knots.shape[extra:] != inputs.shape:
            expected = ", ".join(map(str, inputs.shape))
            raise PathError(
                f"{name}.knots must return shape (P, {expected}) with P >= 2, got {tuple(knots.shape)}; "
                f"for R paths that are averaged, (R, P, {expected})"
            )
        if knots.dtype != inputs.dtype or knots.device != inputs.device:
            raise PathError(
                f"{name}.knots must keep the dtype and device of the inputs, {inputs.dtype} on {inputs.device}, "
                f"got {knots.dtype} on {knots.device}"
            )
        for path in as_ensemble(knots, inputs):
            self._check_path(path, inputs, baselines)

    def _check_path(self, knots: Tensor, inputs: Tensor, baselines: Tensor) -> None:
        name = type(self).__name__
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

    monotone = True

    def knots(self, inputs: Tensor, baselines: Tensor) -> Polyline:
        """Return the piece between the two ends, without a copy of these."""
        return Line(inputs, baselines)

    def ways(self, inputs: Tensor, baselines: Tensor) -> Tensor:
        """Return the two ends: no word depends on the others."""
        return self(inputs, baselines)

    def __repr__(self) -> str:
        return "StraightLine()"


def as_ensemble(knots: Tensor, inputs: Tensor) -> Tensor:
    """View a single path as an ensemble of one.

    Args:
        knots: One path, shape (P, B, ...), or several, shape (R, P, B, ...).
        inputs: Where they end, shape (B, ...).

    Returns:
        The same numbers, shape (R, P, B, ...).

    Example:
        >>> as_ensemble(torch.ones(2, 1, 3), torch.ones(1, 3)).shape
        torch.Size([1, 2, 1, 3])
    """
    return knots if knots.dim() > inputs.dim() + 1 else knots[None]


def upsample(knots: Tensor, factor: int) -> Tensor:
    """Insert the mean of every two neighbouring knots, several times.

    The path stays the same. With ``spacing="knots"`` it gets denser nodes, the paper's way to a smaller delta. More
    `n_steps` have the same effect.

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


def seed_of(source: object) -> int | None:
    """Return the integer attribute ``seed`` of a path or search; None where there is none."""
    seed = getattr(source, "seed", None)
    return seed if isinstance(seed, int) and not isinstance(seed, bool) else None


def _check_ends(inputs: Tensor, baselines: Tensor, place: str = "") -> None:
    """Require two ends of a path; `place` tells them apart where there are several inputs."""
    if not inputs.is_floating_point():
        raise TypeError(
            f"inputs{place} must be floating point, got {inputs.dtype}; for token ids attribute to the embedding layer "
            "with LayerDiscretizedIntegratedGradients"
        )
    if inputs.dim() == 0 or inputs.shape != baselines.shape or inputs.numel() == 0:
        raise ValueError(
            f"inputs{place} and baselines{place} must have one shape (B, ...) that is not empty, "
            f"got {tuple(inputs.shape)} and {tuple(baselines.shape)}"
        )
    if inputs.dtype != baselines.dtype or inputs.device != baselines.device:
        raise ValueError(
            f"inputs{place} and baselines{place} must have one dtype and device, "
            f"got {inputs.dtype} on {inputs.device} and {baselines.dtype} on {baselines.device}"
        )
    for name, tensor in (("inputs", inputs), ("baselines", baselines)):
        if not bool(tensor.isfinite().all()):
            raise ValueError(f"{name}{place} must be finite, got NaN or infinity; check the model's weights")
