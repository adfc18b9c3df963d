"""Captum's layer attribution with a path to choose: from token ids to scores of their embeddings.

Takes a model, a layer and a path; gives attributions of the layer's output. `LayerDiscretizedIntegratedGradients`
replaces Captum's `LayerIntegratedGradients`; `inputs` integrates.
"""

import warnings
from collections.abc import Callable, Sequence
from typing import Any, cast

from captum.attr import LayerIntegratedGradients
from torch import Tensor, nn

from captum_dig._captum import BaselineType, TargetType, format_input_baseline, logged, unlogged
from captum_dig._captum import TensorOrTupleOfTensorsGeneric as Tensors
from captum_dig.attribution.calls import check_shapes, check_steps
from captum_dig.attribution.forward import checked
from captum_dig.attribution.inputs import DiscretizedIntegratedGradients
from captum_dig.attribution.summing import Recorder
from captum_dig.attribution.watching import alone, watch_layers
from captum_dig.errors import ModelError
from captum_dig.paths import MonotonicPath, PathGenerator
from captum_dig.quadrature import QuadratureRule, Spacing, check_method
from captum_dig.threads import eager
from captum_dig.vocabulary import Vocabulary


class LayerDiscretizedIntegratedGradients(LayerIntegratedGradients):
    """Integrated gradients of a layer along a path of your choice.

    It is a subclass of Captum's `LayerIntegratedGradients` with the same interface, and works wherever Captum takes
    one. Threads may share one object, and other threads may call the model meanwhile.

    Args:
        forward_func: The model, or a function that runs it, from token ids.
        layer: The layer, or list of layers, to attribute to: usually ``model.get_input_embeddings()``.
        path: The path from the layer's output for the baselines to its output for the inputs; a list of paths for a
            list of layers, one for each output. None for a `MonotonicPath` with its defaults over the rows of the
            layer, made once.
        device_ids: As in Captum, for `DataParallel`.
        multiply_by_inputs: As in `DiscretizedIntegratedGradients`.
        spacing: As in `DiscretizedIntegratedGradients`.

    Raises:
        TypeError: If `path` is None and a layer is not a table of embeddings.
        ValueError: If `path` is None and several layers have different tables, or `spacing` is unknown.

    Example:
        >>> import torch
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
        path: PathGenerator | Sequence[PathGenerator] | None = None,
        device_ids: list[int] | None = None,
        multiply_by_inputs: bool = True,
        *,
        spacing: Spacing = "arc",
    ) -> None:
        # Captum's type variable means one of the two, not their union.
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
        method: str | QuadratureRule = "gausslegendre",
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
            ModelError: If a layer does not run, or does not return tensors, or returns different outputs in several
                runs of one forward pass. Also if `forward_func` does not take its arguments, or does not return a
                tensor with a gradient.
            VocabularyError: If a `MonotonicPath` is used on a layer whose output is not a row of its vocabulary.

        Example:
            >>> import torch
            >>> from captum_dig import StraightLine
            >>> table = nn.Embedding(9, 4)
            >>> dig = LayerDiscretizedIntegratedGradients(lambda ids: table(ids).sum(dim=(1, 2)), table, StraightLine())
            >>> dig.attribute(torch.tensor([[0, 2]]), torch.tensor([[0, 0]]))[0, 0]
            tensor([0., 0., 0., 0.])
        """
        # Captum checks these with `assert`, which names neither the argument nor the remedy.
        rule = check_method(method)
        check_steps(n_steps, internal_batch_size)
        check_shapes(*format_input_baseline(inputs, baselines))
        if baselines is None:
            self._warn_of_ids()
        # Captum leaves a closure on the object; with a copy, nothing is kept between calls.
        watched = alone(self)
        watched.forward_func = checked(self.forward_func)
        watched.ig._rule = rule
        if rule.known_sums:
            # Captum's gradient function of a layer runs the layer class's forward function, not that which it is given.
            watched.forward_func = watched.ig._recorder = Recorder(watched.forward_func)
        if watched.device_ids is None:
            watched.forward_func = watch_layers(watched.forward_func, self.layer, to_input=attribute_to_layer_input)
        captums: Any = LayerIntegratedGradients.attribute
        with eager():
            return unlogged(captums)(
                watched,
                inputs,
                baselines,
                target,
                additional_forward_args,
                n_steps,
                # Captum takes the names of its own rules only.
                "gausslegendre",
                internal_batch_size,
                return_convergence_delta,
                attribute_to_layer_input,
                grad_kwargs,
            )

    def compute_convergence_delta(
        self,
        attributions: Any,
        start_point: Any,
        end_point: Any,
        target: Any = None,
        additional_forward_args: Any = None,
    ) -> Tensor:
        """Compare the sum of the attributions of each example with the difference of outputs, as Captum does.

        A layer may return several rows for an example, one after the other, such as the words of a document.

        Args:
            attributions: Attributions to the layer; dimension 0 counts examples, or rows of examples.
            start_point: The baselines.
            end_point: The inputs.
            target: As in `attribute`.
            additional_forward_args: As in `attribute`.

        Returns:
            The delta of each example, shape (B,).

        Raises:
            ValueError: If the number of rows is no multiple of the number of examples.
        """
        ends = end_point if isinstance(end_point, tuple) else (end_point,)
        parts = attributions if isinstance(attributions, tuple) else (attributions,)
        folded = tuple(by_example(part, len(ends[0])) for part in parts)
        delta: Tensor = super().compute_convergence_delta(
            folded, start_point, end_point, target=target, additional_forward_args=additional_forward_args
        )
        return delta

    def _warn_of_ids(self) -> None:
        """Warn if the id 0, Captum's default baseline, is another token than padding."""
        for layer in self.layer if isinstance(self.layer, list) else [self.layer]:
            padding = layer.padding_idx if isinstance(layer, nn.Embedding) else None
            if padding:
                warnings.warn(
                    f"baselines must be given where id 0 is no padding, got None for an embedding layer with padding "
                    f"id {padding}; id 0 is used, pass torch.full_like(ids, {padding}) for padding",
                    # Past the wrapper that Captum puts around the method.
                    stacklevel=4,
                )


def by_example(attributions: Tensor, n_examples: int) -> Tensor:
    """Concatenate the rows that a layer returns for an example.

    Args:
        attributions: Shape (N, ...), the rows of an example one after the other.
        n_examples: The number of examples.

    Returns:
        Shape (B, M).

    Raises:
        ValueError: If N is no multiple of the number of examples.

    Example:
        >>> import torch
        >>> by_example(torch.ones(6, 2), n_examples=3).shape
        torch.Size([3, 4])
    """
    if len(attributions) % max(1, n_examples):
        raise ValueError(
            f"a delta must have as many rows of the layer for each of {n_examples} examples, "
            f"got {len(attributions)} rows; explain one example at a time"
        )
    return attributions.reshape(n_examples, -1)


def _default_path(layer: nn.Module | list[nn.Module]) -> MonotonicPath:
    layers = layer if isinstance(layer, list) else [layer]
    for one in layers:
        if ".quantized" in type(one).__module__:
            raise ModelError(
                f"a layer must have a table in floating point, got a quantized {type(one).__name__}; "
                "load the model in float32"
            )
    vocabularies = [Vocabulary.from_layer(one) for one in layers]
    if len({vocabulary.fingerprint for vocabulary in vocabularies}) > 1:
        raise ValueError(
            f"path must be given for {len(layers)} layers with different embedding tables, got None; "
            "attribute to one layer at a time, or pass a list with a path for each layer"
        )
    return MonotonicPath(vocabularies[0])
