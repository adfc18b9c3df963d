"""Captum's `IntegratedGradients` with a path to choose: gradients at the nodes, times the weights, summed.

Takes inputs, baselines and Captum's other arguments; gives attributions of the inputs' shape. `layer` and `neuron`
build on it, and `captum_dig.methods` scores texts with it.
"""

import warnings
from collections.abc import Callable, Sequence
from typing import Any, Literal, overload

from captum.attr import GradientAttribution
from torch import Tensor

from captum_dig._captum import (
    BaselineType,
    TargetType,
    TensorOrTupleOfTensorsGeneric,
    compute_gradients,
    format_additional_forward_args,
    format_output,
    is_tuple,
    logged,
)
from captum_dig.attribution.calls import Call, check_steps, ends_of
from captum_dig.attribution.forward import checked
from captum_dig.attribution.integral import Integral
from captum_dig.attribution.refining import Refinement
from captum_dig.attribution.streaming import known_sum
from captum_dig.attribution.summing import Evaluations, PathSum, Recorder, WeightedSum
from captum_dig.paths import PathGenerator
from captum_dig.paths.per_input import as_path
from captum_dig.quadrature import RULES, QuadratureRule, Schedule, Spacing, check_method, check_spacing

# The gradients with which `method="adaptive"` begins: this part of all, and at least so many for each path.
_FIRST_SHARE, _FIRST_FOR_PATH = 1 / 2, 2
Tensors = Tensor | tuple[Tensor, ...]


class DiscretizedIntegratedGradients(GradientAttribution):
    """Integrated gradients along a path of your choice, with the interface of Captum's `IntegratedGradients`.

    With `StraightLine` it is Integrated Gradients; with `MonotonicPath` it is Discretized Integrated Gradients.
    For every path and rule a linear model gets its exact attribution. Where input and baseline agree, the attribution
    is exactly 0.

    Args:
        forward_func: The model, or any function of the inputs; its first output dimension is the batch.
        path: The path from baselines to inputs, or a list with a path for each input of a tuple. There is no default.
        multiply_by_inputs: True for attributions that add up to the difference in output. False divides them by
            (inputs - baselines), and gives the mean gradient where these agree.
        spacing: How the cell rules lay the pieces of the path on [0, 1]: ``"arc"`` in proportion to their length,
            ``"knots"`` evenly, as in the paper. Gauss-Legendre always goes by length.

    Raises:
        TypeError: If `path` is not a `PathGenerator`.
        ValueError: If `spacing` is unknown.

    Example:
        >>> import torch
        >>> from captum_dig import StraightLine
        >>> dig = DiscretizedIntegratedGradients(lambda x: (x**2).sum(dim=1), StraightLine())
        >>> dig.attribute(torch.tensor([[1.0, 2.0]]), n_steps=2)
        tensor([[1., 4.]])

    References:
        Sanyal and Ren (2021), equations 1 and 3 [sanyal-ren-2021].
    """

    def __init__(
        self,
        forward_func: Callable[..., Tensor],
        path: PathGenerator | Sequence[PathGenerator],
        multiply_by_inputs: bool = True,
        *,
        spacing: Spacing = "arc",
    ) -> None:
        super().__init__(forward_func)
        self.path = as_path(path)
        self.spacing = check_spacing(spacing)
        self._multiply_by_inputs = multiply_by_inputs
        # Set on a copy, by the classes of layers and neurons: their rule, which Captum may not know, what keeps their
        # outputs, and whether these are selected.
        self._rule: QuadratureRule | None = None
        self._recorder: Recorder | None = None
        self._selected = False

    @overload
    def attribute(
        self,
        inputs: TensorOrTupleOfTensorsGeneric,
        baselines: BaselineType = None,
        target: TargetType = None,
        additional_forward_args: object | None = None,
        n_steps: int = 50,
        method: str | QuadratureRule = "gausslegendre",
        internal_batch_size: int | None = None,
        return_convergence_delta: Literal[False] = False,
    ) -> TensorOrTupleOfTensorsGeneric: ...

    @overload
    def attribute(
        self,
        inputs: TensorOrTupleOfTensorsGeneric,
        baselines: BaselineType = None,
        target: TargetType = None,
        additional_forward_args: object | None = None,
        n_steps: int = 50,
        method: str | QuadratureRule = "gausslegendre",
        internal_batch_size: int | None = None,
        *,
        return_convergence_delta: Literal[True],
    ) -> tuple[TensorOrTupleOfTensorsGeneric, Tensor]: ...

    @logged
    def attribute(
        self,
        inputs: Tensors,
        baselines: BaselineType = None,
        target: TargetType = None,
        additional_forward_args: object | None = None,
        n_steps: int = 50,
        method: str | QuadratureRule = "gausslegendre",
        internal_batch_size: int | None = None,
        return_convergence_delta: bool = False,
    ) -> Tensors | tuple[Tensors, Tensor]:
        """Attribute the output of the forward function to its inputs, along the path or on average over its paths.

        The arguments are those of Captum's `IntegratedGradients.attribute`. Examples in a batch do not influence each
        other, and `internal_batch_size` changes memory and speed only.

        Args:
            inputs: One tensor or a tuple of tensors, each of shape (B, ...). Integers are converted to floating point.
            baselines: Where the paths begin: None for zeros, a number, a tensor of shape (B, ...) or (1, ...), or a
                tuple of these.
            target: The output to explain, in any form that Captum takes.
            additional_forward_args: Further arguments of the forward function. Tensors in them are repeated along
                dimension 0, once for each step.
            n_steps: The number of gradient evaluations for each example, at least 1 for each path of an ensemble.
            method: ``"gausslegendre"``, ``"riemann_left"``, ``"riemann_right"``, ``"riemann_middle"``,
                ``"riemann_trapezoid"``, ``"known_sums"``, ``"adaptive"``, or a `QuadratureRule`. As weights add up to 1
                here, the trapezoid rule differs from Captum's, whose weights add up to (n - 1) / n.
            internal_batch_size: The largest number of rows to give to the model at once, at least B; None for all B *
                `n_steps`.
            return_convergence_delta: Whether to return the delta too.

        Returns:
            Attributions of the shape, and in the tuple form, of `inputs`, float32 or wider, on their device. With
            `return_convergence_delta`, a pair of these and the delta of each example, shape (B,): their sum minus the
            difference between the outputs at input and baseline.

        Raises:
            ValueError: If `n_steps` is below 1 or the number of paths, `internal_batch_size` below 1, `method` unknown,
                or inputs and baselines do not fit each other.
            TypeError: If inputs or baselines are complex.
            ModelError: If `forward_func` does not take its arguments, or does not return a tensor that depends on every
                input by operations with a gradient.
            PathError: If the path is not one.
            VocabularyError: If a `MonotonicPath` is asked about vectors that are not from its vocabulary.

        Example:
            >>> import torch
            >>> from captum_dig import StraightLine
            >>> dig = DiscretizedIntegratedGradients(lambda x: (x**2).sum(dim=1), StraightLine())
            >>> scores, delta = dig.attribute(
            ...     torch.tensor([[3.0]]), torch.tensor([[1.0]]), n_steps=4, return_convergence_delta=True
            ... )
            >>> scores, delta.abs() < 1e-5
            (tensor([[8.]]), tensor([True]))
        """
        rule = self._rule or check_method(method)
        call = self._call(inputs, baselines, target, additional_forward_args, n_steps, rule, internal_batch_size)
        attributions = call.attributions(self._sum(call, rule, n_steps)[0])
        formatted: Tensors = format_output(is_tuple(inputs), attributions)
        if not return_convergence_delta:
            return formatted
        delta = self.compute_convergence_delta(
            attributions, baselines, inputs, additional_forward_args=additional_forward_args, target=target
        )
        return formatted, delta

    def integrate(
        self,
        inputs: Tensors,
        baselines: BaselineType = None,
        target: TargetType = None,
        additional_forward_args: object | None = None,
        n_steps: int = 50,
        method: str | QuadratureRule = "known_sums",
        internal_batch_size: int | None = None,
    ) -> Integral:
        """Attribute as `attribute` does, and say how far to trust the attributions.

        Two things are estimated. The *error of the integration* comes from too few gradients on a path. The delta of
        known sums does not show it: it is 0 up to rounding. Two quantities are added up over the intervals between
        nodes, and halved. The first is the residual's size times the probability that two words, drawn by their shares,
        differ. The second is the change of the words' attributions with linear interpolation. The *spread* is the
        standard error over the draws of a path with several orders. The error of a word combines both.

        Args:
            inputs: As for `attribute`.
            baselines: As for `attribute`.
            target: As for `attribute`.
            additional_forward_args: As for `attribute`.
            n_steps: As for `attribute`.
            method: As for `attribute`, but known sums by default.
            internal_batch_size: As for `attribute`.

        Returns:
            The attributions with both estimates.

        Raises:
            ValueError: As for `attribute`.
            ModelError: As for `attribute`.

        Example:
            >>> import torch
            >>> from captum_dig import StraightLine
            >>> dig = DiscretizedIntegratedGradients(lambda x: (x**4).sum(dim=1), StraightLine())
            >>> found = dig.integrate(torch.tensor([[1.0, 2.0]]), n_steps=8)
            >>> found.attributions, found.error_percent
            (tensor([[ 1., 16.]]), tensor([0.0324]))
        """
        rule = self._rule or check_method(method)
        call = self._call(inputs, baselines, target, additional_forward_args, n_steps, rule, internal_batch_size)
        path_sum, n_draws = self._sum(call, rule, n_steps, with_paths=True)
        return call.integral(path_sum, n_steps, n_draws)

    def refine(
        self,
        inputs: Tensors,
        baselines: BaselineType = None,
        target: TargetType = None,
        additional_forward_args: object | None = None,
        n_steps: int = 48,
        internal_batch_size: int | None = None,
    ) -> Refinement:
        """Attribute with known sums, and go on with more gradients where it is not good enough; none is taken twice.

        Args:
            inputs: As for `attribute`.
            baselines: As for `attribute`.
            target: As for `attribute`.
            additional_forward_args: As for `attribute`.
            n_steps: The number of gradients to begin with.
            internal_batch_size: As for `attribute`.

        Returns:
            The gradients so far. Ask it for attributions, further nodes, or further orders.

        Raises:
            ValueError: As for `attribute`.
            ModelError: As for `attribute`.

        Example:
            >>> import torch
            >>> from captum_dig import StraightLine
            >>> dig = DiscretizedIntegratedGradients(lambda x: (x**4).sum(dim=1), StraightLine())
            >>> refinement = dig.refine(torch.tensor([[3.0, 3.0]]), n_steps=4)
            >>> while refinement.integral().error_percent > 1:
            ...     refinement.add_nodes(4)
            >>> refinement.n_steps
            8
        """
        rule = RULES["adaptive"]
        call = self._call(inputs, baselines, target, additional_forward_args, n_steps, rule, internal_batch_size)
        return Refinement(call, rule, n_steps, rule.n_paths(n_steps))

    def _call(
        self,
        inputs: Tensors,
        baselines: BaselineType,
        target: TargetType,
        additional_forward_args: object | None,
        n_steps: int,
        rule: QuadratureRule,
        internal_batch_size: int | None,
    ) -> Call:
        """Check the arguments of a call."""
        check_steps(n_steps, internal_batch_size)
        ends, starts = ends_of(inputs, baselines)
        if internal_batch_size is not None and internal_batch_size < len(ends[0]):
            warnings.warn(
                f"internal_batch_size = {internal_batch_size} cannot be less than the number of examples; "
                f"{len(ends[0])} is used",
                # Past `attribute` and the wrapper that Captum puts around it.
                stacklevel=4,
            )
        return Call(
            ends,
            starts,
            self.path,
            self.spacing,
            self._evaluations(inputs, target, format_additional_forward_args(additional_forward_args), rule),
            internal_batch_size,
            is_tuple(inputs),
            self._multiply_by_inputs,
        )

    def _sum(self, call: Call, rule: QuadratureRule, n_steps: int, *, with_paths: bool = False) -> tuple[PathSum, int]:
        """Sum along the paths; and the number of independent draws among these."""
        n_paths = rule.n_paths(n_steps)
        if rule.refines:
            # Fewer do not show where the others are wanted.
            shown = rule.n_shared + _FIRST_FOR_PATH * call.path.sized(n_paths).n_paths
            refinement = Refinement(call, rule, min(n_steps, max(shown, int(n_steps * _FIRST_SHARE))), n_paths)
            while refinement.n_steps < n_steps:
                refinement.add_nodes(min(max(1, n_steps // 8), n_steps - refinement.n_steps))
            return refinement.summed(with_paths=with_paths), refinement.n_draws
        options = {"with_means": not call.multiplied, "with_paths": with_paths}
        if rule.known_sums:
            return known_sum(call, rule, n_steps, **options)
        bundles, n_draws = call.lay(n_paths)
        schedule = Schedule.on(bundles, rule, self.spacing, n_steps)
        path_sum = WeightedSum(schedule, call.evaluations, call.ends, **options)
        # From the inputs to the baselines, the way that walks from word to word are made.
        for steps in reversed(list(call.blocks(n_steps))):
            path_sum.add(steps)
        return path_sum, n_draws

    def _evaluations(self, inputs: Tensors, target: TargetType, extra_args: Any, rule: QuadratureRule) -> Evaluations:
        """Captum's gradient function on the arguments of a call, and its outputs if the rule takes them."""
        # A gradient function other than the default, such as a neuron's, need not read the output.
        forward_func: Callable[..., Any] = self.forward_func
        recorder = self._recorder
        if self.gradient_func is compute_gradients:
            forward_func = checked(self.forward_func)
            if rule.known_sums:
                forward_func = recorder = Recorder(forward_func)
        given = inputs if isinstance(inputs, tuple) else (inputs,)
        return Evaluations(
            self.gradient_func, forward_func, target, extra_args, given, recorder, selects=not self._selected
        )

    def attribute_future(self) -> None:
        """Say that futures are not supported, as Captum's `IntegratedGradients` does."""
        raise NotImplementedError("attribute_future is not implemented for DiscretizedIntegratedGradients")

    def has_convergence_delta(self) -> bool:
        """Return True: the attributions of a path add up to a difference of outputs."""
        return True

    @property
    def multiplies_by_inputs(self) -> bool:
        """Whether attributions include the factor (inputs - baselines)."""
        return self._multiply_by_inputs
