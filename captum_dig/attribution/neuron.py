"""Captum's neuron attribution with a path to choose: the parts of the inputs that activate one neuron.

Takes the arguments of `inputs`, with a neuron instead of a target; gives attributions of the inputs' shape.
`NeuronDiscretizedIntegratedGradients` replaces Captum's `NeuronIntegratedGradients`. No other module builds on it.
"""

from collections.abc import Callable, Sequence
from typing import Any

from captum.attr import NeuronIntegratedGradients
from torch import Tensor, nn

from captum_dig._captum import (
    BaselineType,
    SliceIntType,
    TensorOrTupleOfTensorsGeneric,
    construct_neuron_grad_fn,
    logged,
    select_neuron,
    unlogged,
)
from captum_dig.attribution.inputs import DiscretizedIntegratedGradients
from captum_dig.attribution.summing import Recorder
from captum_dig.attribution.watching import alone
from captum_dig.paths import PathGenerator
from captum_dig.quadrature import QuadratureRule, Spacing, check_method
from captum_dig.threads import eager

NeuronSelector = int | tuple[int | SliceIntType, ...] | Callable[[Tensor | tuple[Tensor, ...]], Tensor]


class NeuronDiscretizedIntegratedGradients(NeuronIntegratedGradients):
    """Integrated gradients of one neuron along a path of your choice.

    It is a subclass of Captum's `NeuronIntegratedGradients` with the same interface. The attributions are those of
    `DiscretizedIntegratedGradients` for a model that ends at the neuron. They add up to the difference of its
    activation between inputs and baselines.

    Args:
        forward_func: The model, or a function that runs it.
        layer: The layer that the neuron belongs to; it must run once in each call of `forward_func`.
        path: The path from baselines to inputs. There is no default, because attributions are to the inputs. To explain
            a neuron from words, pass embeddings as inputs, with a path over their vocabulary.
        device_ids: As in Captum, for `DataParallel`.
        multiply_by_inputs: As in `DiscretizedIntegratedGradients`.
        spacing: As in `DiscretizedIntegratedGradients`.

    Raises:
        TypeError: If `path` is not a `PathGenerator`.
        ValueError: If `spacing` is unknown.

    Example:
        >>> import torch
        >>> from captum_dig import StraightLine
        >>> layer = nn.ReLU()
        >>> dig = NeuronDiscretizedIntegratedGradients(layer, layer, StraightLine())
        >>> dig.attribute(torch.tensor([[3.0, 5.0]]), neuron_selector=1, n_steps=2)
        tensor([[0., 5.]])

    References:
        Sundararajan, Taly and Yan (2017), section 3 [sundararajan-2017]; the path is that of Sanyal and Ren (2021)
        [sanyal-ren-2021].
    """

    def __init__(
        self,
        forward_func: Callable[..., Tensor],
        layer: nn.Module,
        path: PathGenerator | Sequence[PathGenerator],
        device_ids: list[int] | None = None,
        multiply_by_inputs: bool = True,
        *,
        spacing: Spacing = "arc",
    ) -> None:
        super().__init__(forward_func, layer, device_ids, multiply_by_inputs)
        checked = DiscretizedIntegratedGradients(forward_func, path, spacing=spacing)
        self.path = checked.path
        self.spacing = checked.spacing

    @logged
    def attribute(
        self,
        inputs: TensorOrTupleOfTensorsGeneric,
        neuron_selector: NeuronSelector,
        baselines: BaselineType = None,
        additional_forward_args: object | None = None,
        n_steps: int = 50,
        method: str | QuadratureRule = "gausslegendre",
        internal_batch_size: int | None = None,
        attribute_to_neuron_input: bool = False,
    ) -> TensorOrTupleOfTensorsGeneric:
        """Attribute the activation of a neuron to the inputs.

        The arguments are those of Captum's `NeuronIntegratedGradients.attribute`; all but `neuron_selector` and
        `attribute_to_neuron_input` are as in `DiscretizedIntegratedGradients.attribute`. Nothing is kept between calls.

        Args:
            inputs: One tensor or a tuple of tensors, each of shape (B, ...); the layer has to depend on all of them.
            neuron_selector: The place of the neuron in one example of the layer's output, an integer or a tuple of
                integers and slices; a slice means the sum of its neurons. Or a function from the output (a tuple of
                tensors if there are several) to one number for each example, shape (B,).
            baselines: Where the paths begin; None for zeros.
            additional_forward_args: Further arguments of the forward function.
            n_steps: The number of gradient evaluations for each example, at least 1.
            method: The quadrature rule.
            internal_batch_size: The largest number of rows to give to the model at once.
            attribute_to_neuron_input: Whether the neuron is one of the layer's input instead of its output.

        Returns:
            Attributions of the shape, and in the tuple form, of `inputs`, float32 or wider, on their device, without
            gradient.

        Raises:
            TypeError: If `neuron_selector` is none of these.
            IndexError: If there is no such neuron.
            AssertionError: If it has more places than the layer's output has dimensions, or the layer was not called.
            ValueError: As in `DiscretizedIntegratedGradients.attribute`.
            PathError: If the path is not one.
            VocabularyError: If a `MonotonicPath` is asked about vectors that are not from its vocabulary.

        Example:
            >>> import torch
            >>> from captum_dig import StraightLine
            >>> layer = nn.ReLU()
            >>> dig = NeuronDiscretizedIntegratedGradients(layer, layer, StraightLine())
            >>> dig.attribute(torch.tensor([[3.0, 5.0]]), lambda output: output.sum(dim=1), n_steps=2)
            tensor([[3., 5.]])
        """
        if not (callable(neuron_selector) or isinstance(neuron_selector, (int, tuple, list))):
            raise TypeError(
                "neuron_selector must be an integer, a tuple of integers and slices, or a function of the layer's "
                f"output, got {neuron_selector!r}; for neurons side by side, (slice(0, 3),)"
            )
        dig = DiscretizedIntegratedGradients(
            self.forward_func, self.path, self.multiplies_by_inputs, spacing=self.spacing
        )
        lone = alone(self)
        if check_method(method).known_sums:
            neuron_selector = _kept(neuron_selector, dig)
        dig.gradient_func = construct_neuron_grad_fn(
            lone.layer, neuron_selector, lone.device_ids, attribute_to_neuron_input
        )
        attribute: Any = DiscretizedIntegratedGradients.attribute
        # Logged once, as this method.
        with eager():
            attributions: TensorOrTupleOfTensorsGeneric = unlogged(attribute)(
                dig,
                inputs,
                baselines,
                additional_forward_args=additional_forward_args,
                n_steps=n_steps,
                method=method,
                internal_batch_size=internal_batch_size,
            )
        return attributions


def _kept(selector: NeuronSelector, dig: DiscretizedIntegratedGradients) -> Callable[..., Tensor]:
    """Select a neuron as Captum does, and let an attribution see its activations."""
    recorder = Recorder(dig.forward_func)
    dig._recorder, dig._selected = recorder, True

    def select(output: Tensor | tuple[Tensor, ...]) -> Tensor:
        activation: Tensor = recorder.keep(select_neuron(output if isinstance(output, tuple) else (output,), selector))
        return activation

    return select
