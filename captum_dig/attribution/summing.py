"""Sums of gradients along a path: each gradient times the displacement of its cell.

Takes a `Schedule` and the gradients at its nodes; gives attributions. `inputs` calls it. `intervals` has sums that take
the outputs at the nodes, too.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from captum_dig._captum import (
    TargetType,
    expand_additional_forward_args,
    expand_target,
    select_targets,
)
from captum_dig.attribution.forward import failures_explained
from captum_dig.paths.bundles import Array, Integers
from captum_dig.paths.means import Mean
from captum_dig.quadrature import Schedule


class Recorder:
    """A forward function that keeps its last output, and can raise `Stopped` to skip the gradient.

    Args:
        forward_func: The model, or a function that runs it.

    Attributes:
        output: The last output, without gradient; None before the first call.
        stops: Whether to raise `Stopped` once the output is there.
    """

    def __init__(self, forward_func: Callable[..., Any]) -> None:
        self._forward_func = forward_func
        self.output: Tensor | None = None
        self.stops = False

    def __call__(self, *arguments: Any) -> Any:
        """Run the function and keep its output."""
        return self.keep(self._forward_func(*arguments))

    def keep(self, output: Any) -> Any:
        """Keep an output, and return it."""
        self.output = output.detach()
        if self.stops:
            raise Stopped
        return output


class Stopped(Exception):  # noqa: N818 - nothing is wrong
    """An output is there, and its gradient is not wanted."""


class Evaluations:
    """The gradients and outputs of one call of `attribute`, at points of its path.

    Args:
        gradient_func: Captum's, which a layer's or a neuron's class may have replaced.
        forward_func: What it runs.
        target: As in Captum.
        extra_args: Further arguments of the forward function.
        inputs: The inputs, as the caller passed them.
        recorder: What keeps the outputs; None where they are not wanted.
        selects: Whether the output that is kept has further dimensions, of which `target` selects one.
    """

    def __init__(
        self,
        gradient_func: Callable[..., Any],
        forward_func: Callable[..., Any],
        target: TargetType,
        extra_args: Any,
        inputs: tuple[Any, ...],
        recorder: Recorder | None = None,
        *,
        selects: bool = True,
    ) -> None:
        self._gradient_func, self._forward_func = gradient_func, forward_func
        self._target, self._extra_args, self._inputs = target, extra_args, inputs
        self._recorder, self._selects = recorder, selects

    def gradients(self, points: Sequence[Tensor]) -> list[Tensor | None]:
        """Return the gradients at points, shape (n, B, ...) each; None where the output does not depend on an input."""
        n_here = len(points[0])
        nodes = tuple(point.flatten(0, 1).requires_grad_() for point in points)
        with failures_explained(self._inputs):
            gradients = self._gradient_func(
                forward_fn=self._forward_func,
                inputs=nodes,
                target_ind=expand_target(self._target, n_here),
                additional_forward_args=expand_additional_forward_args(self._extra_args, n_here),
            )
        # Captum keeps steps before examples in dimension 0.
        return [None if gradient is None else gradient.detach().unflatten(0, (n_here, -1)) for gradient in gradients]

    def outputs(self, n_here: int) -> Tensor:
        """Return the outputs at the last points, shape (n, B), float32 or wider."""
        output: Any = None if self._recorder is None else self._recorder.output
        if output is None:
            raise ValueError(
                "method='known_sums' must see the outputs of the model, got a gradient function that does not run "
                "forward_func; take LayerDiscretizedIntegratedGradients or NeuronDiscretizedIntegratedGradients"
            )
        if self._selects:
            output = select_targets(output, expand_target(self._target, n_here))
        selected: Tensor = output.reshape(n_here, -1)
        return selected.to(torch.promote_types(selected.dtype, torch.float32))

    def outputs_at(self, points: Sequence[Tensor]) -> Tensor:
        """Return the outputs at points, shape (n, B, ...) for each input: shape (n, B), without a gradient."""
        recorder = self._recorder
        if recorder is not None:
            recorder.stops = True
            try:
                self.gradients(points)
            except Stopped:
                pass
            finally:
                recorder.stops = False
        return self.outputs(len(points[0]))


class PathSum:
    """Attributions that grow with each block of steps.

    Args:
        mean: How the R paths are averaged.
        ends: The inputs, shape (B, ...) each.
        with_means: Whether mean gradients are wanted too.
        with_paths: Whether the sums along each path are wanted too.

    Attributes:
        totals: The attributions to each input, float32 or wider.
        means: The mean gradients; empty if they are not wanted.
        by_path: The part of each path in the attributions to the words of each input, shape (R, B, W); empty if they
            are not wanted.
        integration_errors: The estimated errors of the words of each input, shape (B, W); empty without an estimate.
    """

    def __init__(
        self, mean: Mean, ends: Sequence[Tensor], *, with_means: bool = False, with_paths: bool = False
    ) -> None:
        self.mean = mean
        self.totals = [torch.zeros_like(end, dtype=torch.promote_types(end.dtype, torch.float32)) for end in ends]
        self.means = [torch.zeros_like(total) for total in self.totals] if with_means else []
        n_paths = len(mean.divisors)
        self.by_path = [word_sums(total[None]).repeat(n_paths, 1, 1) for total in self.totals] if with_paths else []
        self.integration_errors: list[Tensor] = []

    @property
    def error_percent(self) -> Tensor | None:
        """The estimated error of each example, (B,); None without an estimate."""
        return None

    def add_parts(self, which: int, parts: Tensor, paths: Integers) -> None:
        """Add attributions to an input.

        Args:
            which: The number of the input.
            parts: Attributions of n steps, shape (n, B, ...).
            paths: The numbers of their paths, shape (n, B) or (n, 1).
        """
        self.totals[which] += parts.sum(dim=0)
        if self.by_path:
            _add_at(self.by_path[which], paths, word_sums(parts))

    def by_draw(self, n_draws: int) -> tuple[Tensor, ...]:
        """Return the attributions to the words of each input along each draw, shape (G, B, W).

        The paths without a share of their own are G draws, one behind the other; the others belong to each draw.

        Args:
            n_draws: G.
        """
        # Invariant: the mean over draws is the sum over paths. A path with the part 3 and a share of its own, and two
        # draws of a path each with the parts 1/2 and 1: the draws are 3 + 2 * 1/2 = 4 and 3 + 2 * 1 = 5, and their mean
        # is 3 + 1/2 + 1 = 4.5.
        fixed = torch.from_numpy(self.mean.fixed)
        found = []
        for parts in self.by_path:
            own, drawn = (parts[some.to(parts.device)] for some in (fixed, ~fixed))
            draws = drawn.reshape(n_draws, len(drawn) // n_draws, *drawn.shape[1:])
            found.append(own.sum(dim=0) + n_draws * draws.sum(dim=1))
        return tuple(found)

    def add_means(self, which: int, gradients: Tensor, widths: Array) -> None:
        """Add gradients, (n, B, ...), times the widths of their cells, (n, B), if means are wanted."""
        if self.means:
            like = self.totals[which]
            factors = as_tensor(widths, like)
            self.means[which] += (gradients * factors.reshape(*factors.shape, *[1] * (like.dim() - 1))).sum(dim=0)


class WeightedSum(PathSum):
    """Each gradient times the displacement of the path over its cell.

    Args:
        schedule: Where the gradients are taken.
        evaluations: Gives the gradients.
        ends: The inputs, shape (B, ...) each.
        options: As for `PathSum`.
    """

    def __init__(self, schedule: Schedule, evaluations: Evaluations, ends: Sequence[Tensor], **options: bool) -> None:
        super().__init__(schedule.mean, ends, **options)
        self._schedule, self._evaluations = schedule, evaluations

    def add(self, steps: slice) -> None:
        """Add gradient times weight of some steps; what they take is free again afterwards."""
        nodes, weights = zip(*(self._schedule.on_path(steps, which) for which in range(len(self.totals))), strict=True)
        for which, gradients in enumerate(self._evaluations.gradients(nodes)):
            # With grad_kwargs={"allow_unused": True} an output may not depend on an input.
            if gradients is not None:
                self.add_parts(which, gradients * weights[which], self._schedule.paths[steps])
                self.add_means(which, gradients, self._schedule.widths[steps])


def as_tensor(array: Array, like: Tensor) -> Tensor:
    """Copy an array to the device of a tensor, in its precision."""
    return torch.from_numpy(array.astype(np.float64 if like.dtype == torch.float64 else np.float32)).to(like.device)


def word_sums(parts: Tensor) -> Tensor:
    """Add up the elements of each word: shape (n, B, W, ...) to (n, B, W); (n, B) is a single word."""
    n_words = parts.shape[2] if parts.dim() > 2 else 1
    return parts.reshape(*parts.shape[:2], n_words, -1).sum(dim=-1)


def _add_at(sums: Tensor, paths: Integers, values: Tensor) -> None:
    """Add values, (n, B, W), to the sums of their paths, (R, B, W)."""
    numbers = torch.from_numpy(np.broadcast_to(paths, values.shape[:2]).copy()).to(sums.device)
    sums.scatter_add_(0, numbers[..., None].expand_as(values), values.to(sums.dtype))
