"""Captum's attribution classes with a path to choose: gradients at the nodes, times the weights, summed.

Takes inputs, baselines and Captum's other arguments, gives attributions of the inputs' shape.
`DiscretizedIntegratedGradients` stands where Captum's `IntegratedGradients` stands,
`LayerDiscretizedIntegratedGradients` where `LayerIntegratedGradients` does.
"""

import copy
import warnings
from collections.abc import Callable, Iterator
from typing import Any, Literal, cast, overload

import torch
from captum.attr import GradientAttribution, LayerIntegratedGradients
from torch import Tensor, nn

from captum_dig._captum import (
    BaselineType,
    TargetType,
    TensorOrTupleOfTensorsGeneric,
    expand_additional_forward_args,
    expand_target,
    format_additional_forward_args,
    format_input_baseline,
    format_output,
    is_tuple,
    logged,
    tensorize_baseline,
)
from captum_dig.errors import at_least_one
from captum_dig.layers import watch_layers
from captum_dig.paths import MonotonicPath, PathGenerator, lay_out
from captum_dig.quadrature import Schedule, Spacing, check_method, check_spacing
from captum_dig.vocabulary import Vocabulary

Tensors = Tensor | tuple[Tensor, ...]


class DiscretizedIntegratedGradients(GradientAttribution):
    """Integrated gradients along a path of your choice, with the interface of Captum's `IntegratedGradients`.

    With `StraightLine` it is Integrated Gradients; with `MonotonicPath` it is Discretized Integrated Gradients.
    Whatever the path and the rule, a linear model gets its exact attribution, and where input and baseline agree the
    attribution is exactly 0.

    Args:
        forward_func: The model, or any function of the inputs; its first output dimension is the batch.
        path: The path from baselines to inputs. There is no default: say which.
        multiply_by_inputs: True for attributions that add up to the difference in output. False divides them by
            (inputs - baselines), and gives the mean gradient where these agree.
        spacing: How the cell rules lay the pieces of the path on [0, 1]: ``"arc"`` in proportion to their length,
            ``"knots"`` evenly, as in the paper. Gauss-Legendre always goes by length.

    Raises:
        TypeError: If `path` is not a `PathGenerator`.
        ValueError: If `spacing` is unknown.

    Example:
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
        path: PathGenerator,
        multiply_by_inputs: bool = True,
        *,
        spacing: Spacing = "arc",
    ) -> None:
        super().__init__(forward_func)
        if not isinstance(path, PathGenerator):
            raise TypeError(
                f"path must be a PathGenerator, got {type(path).__name__}; for example MonotonicPath(vocabulary)"
            )
        self.path = path
        self.spacing = check_spacing(spacing)
        self._multiply_by_inputs = multiply_by_inputs

    @overload
    def attribute(
        self,
        inputs: TensorOrTupleOfTensorsGeneric,
        baselines: BaselineType = None,
        target: TargetType = None,
        additional_forward_args: object | None = None,
        n_steps: int = 50,
        method: str = "gausslegendre",
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
        method: str = "gausslegendre",
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
        method: str = "gausslegendre",
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
            method: ``"gausslegendre"``, ``"riemann_left"``, ``"riemann_right"``, ``"riemann_middle"`` or
                ``"riemann_trapezoid"``. As weights add up to 1 here, the last one differs from Captum's, whose weights
                add up to (n - 1) / n.
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
            PathError: If the path is not one.
            VocabularyError: If a `MonotonicPath` is asked about vectors that are not from its vocabulary.

        Example:
            >>> from captum_dig import StraightLine
            >>> dig = DiscretizedIntegratedGradients(lambda x: (x**2).sum(dim=1), StraightLine())
            >>> scores, delta = dig.attribute(
            ...     torch.tensor([[3.0]]), torch.tensor([[1.0]]), n_steps=4, return_convergence_delta=True
            ... )
            >>> scores, delta.abs() < 1e-5
            (tensor([[8.]]), tensor([True]))
        """
        check_method(method)
        _check_steps(n_steps, internal_batch_size)
        ends, starts = _ends(inputs, baselines)
        if internal_batch_size is not None and internal_batch_size < len(ends[0]):
            warnings.warn(
                f"internal_batch_size = {internal_batch_size} cannot be less than the number of examples; "
                f"{len(ends[0])} is used",
                # Past the wrapper that Captum puts around the method.
                stacklevel=3,
            )
        extra_args = format_additional_forward_args(additional_forward_args)
        knots, n_paths = lay_out(self.path, ends, starts)
        schedule = Schedule.on(knots, method, self.spacing, n_steps, n_paths)

        totals = [torch.zeros_like(end, dtype=torch.promote_types(end.dtype, torch.float32)) for end in ends]
        means = [torch.zeros_like(total) for total in totals] if not self._multiply_by_inputs else []
        for steps in _step_blocks(n_steps, len(ends[0]), internal_batch_size):
            n_here = steps.stop - steps.start
            nodes = tuple(schedule.nodes(k, steps).flatten(0, 1).requires_grad_() for k in knots)
            gradients = self.gradient_func(
                forward_fn=self.forward_func,
                inputs=nodes,
                target_ind=expand_target(target, n_here),
                additional_forward_args=expand_additional_forward_args(extra_args, n_here),
            )
            for i, gradient in enumerate(gradients):
                if gradient is None:
                    # With grad_kwargs={"allow_unused": True}: the output does not depend on this one.
                    continue
                # Captum keeps steps before examples in dimension 0.
                stepwise = gradient.detach().unflatten(0, (n_here, -1))
                totals[i] += (stepwise * schedule.weights(knots[i], steps)).sum(dim=0)
                if means:
                    means[i] += (stepwise * schedule.widths(steps, like=totals[i])).sum(dim=0)

        if means:
            totals = [
                _divide(total, end - start, mean)
                for total, end, start, mean in zip(totals, ends, starts, means, strict=True)
            ]
        attributions = tuple(totals)
        formatted: Tensors = format_output(is_tuple(inputs), attributions)
        if not return_convergence_delta:
            return formatted
        delta = self.compute_convergence_delta(
            attributions, baselines, inputs, additional_forward_args=additional_forward_args, target=target
        )
        return formatted, delta

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


class LayerDiscretizedIntegratedGradients(LayerIntegratedGradients):
    """Integrated gradients of a layer along a path of your choice.

    It has the interface of Captum's `LayerIntegratedGradients` and is one, so that everything in Captum that asks for
    one takes it.

    Args:
        forward_func: The model, or a function that runs it, from token ids.
        layer: The layer, or list of layers, to attribute to: usually ``model.get_input_embeddings()``.
        path: The path from the layer's output for the baselines to its output for the inputs. None for a
            `MonotonicPath` with its defaults over the rows of the layer, made once.
        device_ids: As in Captum, for `DataParallel`.
        multiply_by_inputs: As in `DiscretizedIntegratedGradients`.
        spacing: As in `DiscretizedIntegratedGradients`.

    Raises:
        TypeError: If `path` is None and a layer is not a table of embeddings.
        ValueError: If `path` is None and several layers have different tables, or `spacing` is unknown.

    Example:
        >>> from captum_dig import StraightLine
        >>> table = nn.Embedding(9, 4)
        >>> dig = LayerDiscretizedIntegratedGradients(lambda ids: table(ids).sum(dim=(1, 2)), table, StraightLine())
        >>> dig.attribute(torch.tensor([[1, 2]]), torch.tensor([[0, 0]])).shape
        torch.Size([1, 2, 4])

    References:
        Sanyal and Ren (2021), section 2 [sanyal-ren-2021].
    """

    def __init__(
        self,
        forward_func: Callable[..., Tensor],
        layer: nn.Module | list[nn.Module],
        path: PathGenerator | None = None,
        device_ids: list[int] | None = None,
        multiply_by_inputs: bool = True,
        *,
        spacing: Spacing = "arc",
    ) -> None:
        # Captum's type variable stands for one of the two, not for their union.
        super().__init__(forward_func, cast("nn.Module", layer), device_ids, multiply_by_inputs)
        path = _default_path(layer) if path is None else path
        self.ig: Any = DiscretizedIntegratedGradients(forward_func, path, multiply_by_inputs, spacing=spacing)

    @property
    def path(self) -> PathGenerator:
        """The path that gradients are taken along."""
        return cast("PathGenerator", self.ig.path)

    @property
    def spacing(self) -> Spacing:
        """How the cell rules lay the pieces of the path on [0, 1]."""
        return cast("Spacing", self.ig.spacing)

    @logged
    def attribute(
        self,
        inputs: Tensors,
        baselines: BaselineType = None,
        target: TargetType = None,
        additional_forward_args: object | None = None,
        n_steps: int = 50,
        method: str = "gausslegendre",
        internal_batch_size: int | None = None,
        return_convergence_delta: bool = False,
        attribute_to_layer_input: bool = False,
        grad_kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Attribute the output of the forward function to the layer.

        The arguments are those of Captum's `LayerIntegratedGradients.attribute`; `n_steps`, `method` and
        `internal_batch_size` are as in `DiscretizedIntegratedGradients.attribute`.

        Args:
            inputs: Inputs of the forward function, usually token ids of shape (B, T).
            baselines: Baseline inputs, usually token ids; None for zeros.
            target: The output to explain, in any form that Captum takes.
            additional_forward_args: Further arguments of the forward function. Masks and position ids belong here.
            n_steps: The number of gradient evaluations for each example, at least 1.
            method: The quadrature rule.
            internal_batch_size: The largest number of rows to give to the model at once.
            return_convergence_delta: Whether to return the delta too.
            attribute_to_layer_input: Whether to attribute to the layer's input instead of its output.
            grad_kwargs: Further arguments of `torch.autograd.grad`.

        Returns:
            Attributions of the shape of the layer's output, usually (B, T, D); a tuple if it returns one, a list for a
            list of layers. With `return_convergence_delta`, a pair of these and the delta, shape (B,).

        Raises:
            ValueError: As in `DiscretizedIntegratedGradients.attribute`.
            ModelError: If a layer does not run, or gives different outputs in several runs of one forward pass.
            VocabularyError: If a `MonotonicPath` is used on a layer whose output is not a row of its vocabulary.

        Example:
            >>> from captum_dig import StraightLine
            >>> table = nn.Embedding(9, 4)
            >>> dig = LayerDiscretizedIntegratedGradients(lambda ids: table(ids).sum(dim=(1, 2)), table, StraightLine())
            >>> dig.attribute(torch.tensor([[0, 2]]), torch.tensor([[0, 0]]))[0, 0]
            tensor([0., 0., 0., 0.])
        """
        # Captum checks these with `assert`, which names neither the argument nor the remedy.
        check_method(method)
        _check_steps(n_steps, internal_batch_size)
        # Captum leaves a closure on what it works with; on a copy, nothing is kept between calls.
        watched = copy.copy(self)
        watched.ig = copy.copy(self.ig)
        if not isinstance(self.forward_func, nn.DataParallel) and not self.device_ids:
            watched.forward_func = watch_layers(self.forward_func, self.layer, to_input=attribute_to_layer_input)
        captums: Any = LayerIntegratedGradients.attribute
        return captums.__wrapped__(
            watched,
            inputs,
            baselines,
            target,
            additional_forward_args,
            n_steps,
            method,
            internal_batch_size,
            return_convergence_delta,
            attribute_to_layer_input,
            grad_kwargs,
        )


def _default_path(layer: nn.Module | list[nn.Module]) -> MonotonicPath:
    layers = layer if isinstance(layer, list) else [layer]
    vocabularies = [Vocabulary.from_layer(one) for one in layers]
    if len({vocabulary.fingerprint for vocabulary in vocabularies}) > 1:
        raise ValueError(
            f"path must be given for {len(layers)} layers with different embedding tables, got None; "
            "attribute to one layer at a time, or pass a PathGenerator that serves them all"
        )
    return MonotonicPath(vocabularies[0])


def _check_steps(n_steps: int, internal_batch_size: int | None) -> None:
    at_least_one("n_steps", n_steps)
    if internal_batch_size is not None:
        at_least_one("internal_batch_size", internal_batch_size)


def _ends(inputs: Tensors, baselines: BaselineType) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """Inputs and baselines as equally shaped floating-point tensors."""
    ends, starts = format_input_baseline(inputs, baselines)
    if len(ends) != len(starts):
        raise ValueError(f"baselines must have one entry for each of the {len(ends)} inputs, got {len(starts)}")
    sizes = [len(end) for end in ends if end.dim()]
    if len(set(sizes)) > 1:
        raise ValueError(
            f"inputs must have the same number of examples in their first place, got {sizes}; "
            "explain one example at a time where a layer answers once for a whole batch"
        )
    for end, start in zip(ends, starts, strict=True):
        for name, tensor in (("inputs", end), ("baselines", start)):
            if isinstance(tensor, Tensor) and tensor.is_complex():
                raise TypeError(f"{name} must be real, got {tensor.dtype}; pass real and imaginary parts as two inputs")
        if isinstance(start, Tensor) and start.shape not in (end.shape, (1, *end.shape[1:])):
            raise ValueError(
                f"a baseline must have the shape of its input, {tuple(end.shape)}, or 1 in its first place, "
                f"got {tuple(start.shape)}"
            )
    ends = tuple(end.detach() if end.is_floating_point() else end.to(torch.get_default_dtype()) for end in ends)
    starts = tuple(
        start.detach().to(end.dtype) if isinstance(start, Tensor) else start
        for end, start in zip(ends, starts, strict=True)
    )
    return ends, tensorize_baseline(ends, starts)


def _step_blocks(n_steps: int, n_examples: int, internal_batch_size: int | None) -> Iterator[slice]:
    """Runs of steps that fit into the internal batch together with all examples."""
    per_block = n_steps if internal_batch_size is None else max(1, internal_batch_size // n_examples)
    for start in range(0, n_steps, per_block):
        yield slice(start, min(start + per_block, n_steps))


def _divide(total: Tensor, difference: Tensor, mean: Tensor) -> Tensor:
    """Total over difference; the mean where there is no difference."""
    moving = difference != 0
    return torch.where(moving, total / torch.where(moving, difference, 1), mean)
