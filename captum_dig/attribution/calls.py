"""Call: the checked arguments of one call of `attribute`, and its results.

`inputs` makes it. `streaming` and `refining` ask it for paths, gradients and outputs.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from captum_dig._captum import BaselineType, format_input_baseline, format_output, tensorize_baseline
from captum_dig.attribution.ends import Ends, share_ends
from captum_dig.attribution.integral import Integral
from captum_dig.attribution.summing import Evaluations, PathSum
from captum_dig.checks import at_least_one
from captum_dig.paths import PathGenerator
from captum_dig.paths.bundles import Array, Bundle, Integers
from captum_dig.quadrature import QuadratureRule, Spacing
from captum_dig.quadrature.layouts import LaidPaths


@dataclass(frozen=True)
class Call:
    """The arguments of a call, checked.

    Attributes:
        ends: The inputs, shape (B, ...) each.
        starts: The baselines, likewise.
        path: The path; its number of members may be free.
        spacing: How its pieces are laid on [0, 1].
        evaluations: Gives gradients and outputs.
        rows_at_once: The number of rows for the model at once; None for all.
        in_tuple: Whether the caller passed a tuple.
        multiplied: Whether attributions include the factor (inputs - baselines).
    """

    ends: tuple[Tensor, ...]
    starts: tuple[Tensor, ...]
    path: PathGenerator
    spacing: Spacing
    evaluations: Evaluations
    rows_at_once: int | None
    in_tuple: bool
    multiplied: bool

    def lay(self, n_paths: int, block: int = 0) -> tuple[tuple[Bundle, ...], int]:
        """Lay the paths.

        Args:
            n_paths: The number of paths, where it is free.
            block: The number of the block of draws.

        Returns:
            Bundles, and the number of independent draws among their paths.
        """
        path = self.path.sized(n_paths, block)
        return path.bundles(self.ends, self.starts), path.n_draws

    def blocks(self, n_steps: int) -> Iterator[slice]:
        """Yield slices of ``range(n_steps)``, in order.

        The rows of a slice, for all examples, fit into `rows_at_once`. A slice has at least one step.
        """
        at_once = n_steps if self.rows_at_once is None else max(1, self.rows_at_once // max(1, len(self.ends[0])))
        for start in range(0, n_steps, at_once):
            yield slice(start, min(start + at_once, n_steps))

    def evaluated(self, paths: LaidPaths, path: Integers, position: Array) -> tuple[list[Tensor], Tensor]:
        """Return the gradients and outputs at n positions of paths.

        Args:
            paths: The paths.
            path: Their numbers, shape (n, B) or (n, 1).
            position: The positions on [0, 1], shape (n, B).

        Returns:
            The gradient of each input, shape (n, B, ...), and the outputs, shape (n, B).
        """
        return self._evaluated([paths.points(which, path, position) for which in range(len(self.ends))])

    def at_ends(self, rule: QuadratureRule, bundles: Sequence[Bundle], n_steps: int) -> Ends:
        """Return the outputs at the baselines and at the inputs, and the gradients there if the paths share them.

        Args:
            rule: The rule for nodes on paths.
            bundles: The paths.
            n_steps: The number of gradients. Both ends form one batch if two steps may.

        Returns:
            Outputs of shape (2, B), and gradients of shape (2, B, ...) or (0, B, ...) for each input.
        """
        both = [torch.stack(pair) for pair in zip(self.starts, self.ends, strict=True)]
        together = n_steps >= 2 and (self.rows_at_once is None or 2 * len(self.ends[0]) <= self.rows_at_once)
        parts = [both] if together else [[points[[at]] for points in both] for at in (0, 1)]
        if not share_ends(rule, bundles, n_steps):
            outputs = [self.evaluations.outputs_at(part) for part in parts]
            return Ends(torch.cat(outputs), tuple(points[:0] for points in both))
        gradients, found = zip(*map(self._evaluated, parts), strict=True)
        return Ends.with_gradients(torch.cat(found), [torch.cat(each) for each in zip(*gradients, strict=True)])

    def _evaluated(self, points: Sequence[Tensor]) -> tuple[list[Tensor], Tensor]:
        """The gradients and outputs at points, shape (n, B, ...) for each input."""
        found = zip(self.evaluations.gradients(points), points, strict=True)
        # With grad_kwargs={"allow_unused": True} an output may not depend on an input.
        gradients = [torch.zeros_like(point) if each is None else each for each, point in found]
        return gradients, self.evaluations.outputs(len(points[0]))

    def attributions(self, path_sum: PathSum) -> tuple[Tensor, ...]:
        """Return attributions; if they are not multiplied, divided by (inputs - baselines)."""
        if self.multiplied:
            return tuple(path_sum.totals)
        parts = zip(path_sum.totals, self.ends, self.starts, path_sum.means, strict=True)
        return tuple(_divide(total, end - start, mean) for total, end, start, mean in parts)

    def integral(self, path_sum: PathSum, n_steps: int, n_draws: int) -> Integral:
        """Return attributions with what is known of their errors."""
        return Integral(
            format_output(self.in_tuple, self.attributions(path_sum)),
            n_steps,
            path_sum.error_percent,
            path_sum.by_draw(n_draws),
            tuple(path_sum.integration_errors) or None,
        )


def check_steps(n_steps: int, internal_batch_size: int | None) -> None:
    """Require numbers of steps and rows of at least 1.

    Raises:
        ValueError: If one of them is below 1.
    """
    at_least_one("n_steps", n_steps)
    if internal_batch_size is not None:
        at_least_one("internal_batch_size", internal_batch_size)


def check_shapes(inputs: tuple[Tensor, ...], baselines: tuple[Tensor | float, ...]) -> None:
    """Require baselines of the shape of their inputs, or with a single example.

    Raises:
        ValueError: If one has another shape.
    """
    for end, start in zip(inputs, baselines, strict=True):
        if isinstance(start, Tensor) and start.shape not in (end.shape, (1, *end.shape[1:])):
            raise ValueError(
                f"a baseline must have the shape of its input, {tuple(end.shape)}, or 1 in its first place, "
                f"got {tuple(start.shape)}"
            )


def ends_of(
    inputs: Tensor | tuple[Tensor, ...], baselines: BaselineType
) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """Return inputs and baselines as equally shaped floating-point tensors.

    Raises:
        ValueError: If they do not fit each other.
        TypeError: If one of them is complex.
    """
    ends, starts = format_input_baseline(inputs, baselines)
    if len(ends) != len(starts):
        raise ValueError(f"baselines must have one entry for each of the {len(ends)} inputs, got {len(starts)}")
    sizes = [len(end) for end in ends if end.dim()]
    if len(set(sizes)) > 1:
        raise ValueError(
            f"inputs must have the same number of examples in their first place, got {sizes}; "
            "explain one example at a time where a layer returns one output for a whole batch"
        )
    for end, start in zip(ends, starts, strict=True):
        for name, tensor in (("inputs", end), ("baselines", start)):
            if isinstance(tensor, Tensor) and tensor.is_complex():
                raise TypeError(f"{name} must be real, got {tensor.dtype}; pass real and imaginary parts as two inputs")
    check_shapes(ends, starts)
    ends = tuple(end.detach() if end.is_floating_point() else end.to(torch.get_default_dtype()) for end in ends)
    starts = tuple(
        start.detach().to(end.dtype) if isinstance(start, Tensor) else start
        for end, start in zip(ends, starts, strict=True)
    )
    return ends, tensorize_baseline(ends, starts)


def _divide(total: Tensor, difference: Tensor, mean: Tensor) -> Tensor:
    """Total over difference; the mean where there is no difference."""
    moving = difference != 0
    return torch.where(moving, total / torch.where(moving, difference, 1), mean)
