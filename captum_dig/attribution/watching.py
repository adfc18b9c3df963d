"""Checks of a layer while a model runs.

Takes a forward function and the layers to attribute to; gives a forward function that raises an error if a layer cannot
be attributed to. `layer` passes it to Captum, which puts the same rows into every run of a layer.
"""

import copy
import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from captum_dig._captum import RECORDING_RUNS
from captum_dig.errors import ModelError
from captum_dig.threads import ThreadLayer, own

_Method = TypeVar("_Method")


def alone(method: _Method) -> _Method:
    """Copy one of Captum's layer methods; the hooks of the copy act in this thread only.

    `DataParallel` runs the replicas of a model in threads of its own, so there hooks act in every thread.

    Args:
        method: The method.

    Returns:
        A copy for one call.
    """
    copied = copy.copy(method)
    lone: Any = copied
    # Captum looks at the model too.
    lone.device_ids = lone.device_ids or getattr(lone.forward_func, "device_ids", None) or None
    layers: Any = lone.layer
    wrap = functools.partial(ThreadLayer, every_thread=lone.device_ids is not None)
    lone.layer = [wrap(layer) for layer in layers] if isinstance(layers, list) else wrap(layers)
    if hasattr(lone, "ig"):
        # Captum sets a function on it during a call.
        lone.ig = copy.copy(lone.ig)
    return copied


def watch_layers(
    forward_func: Callable[..., Any], layer: nn.Module | list[nn.Module], *, to_input: bool = False
) -> Callable[..., Any]:
    """Check the layers in the first two runs of a forward function, on the inputs and on the baselines.

    Args:
        forward_func: The model, or a function that runs it.
        layer: The layer, or list of layers.
        to_input: Whether attributions are to the input of a layer.

    Returns:
        The forward function. It raises `ModelError` if a layer does not run, returns different outputs in several runs,
        or gets transposed ids, whose examples do not come first.

    Example:
        >>> one, other = nn.Linear(2, 2), nn.Linear(2, 2)
        >>> watch_layers(lambda x: one(x), [one, other])(torch.ones(1, 2))
        Traceback (most recent call last):
        captum_dig.errors.ModelError: a layer must run once in forward_func, ... got 0 runs of Linear...
    """
    layers = layer if isinstance(layer, list) else [layer]
    # In later runs, along the path, Captum replaces the output of the layer.
    watched = iter([True] * RECORDING_RUNS)

    @functools.wraps(forward_func, assigned=(), updated=())
    def run(*arguments: Any) -> Any:
        if not next(watched, False):
            return forward_func(*arguments)
        with recorded(layers) as runs:
            result = forward_func(*arguments)
        for one, calls in zip(layers, runs, strict=True):
            if any(_turned(ids, arguments[0]) for inputs, _ in calls for ids in inputs):
                raise ModelError(
                    "a layer must keep examples in the first place, "
                    f"got ids that the model transposes before {type(one).__name__}; "
                    "pass embeddings (inputs_embeds) to DiscretizedIntegratedGradients instead"
                )
            seen = [inputs if to_input else output for inputs, output in calls]
            if not seen or not all(same(seen[0], other) for other in seen[1:]):
                remedy = (
                    "attribute to a layer that runs once, in front of a loop or behind it"
                    if seen
                    else "attribute to a layer that forward_func runs, in the thread that calls it"
                )
                raise ModelError(
                    "a layer must run once in forward_func, or return the same output every time, "
                    f"got {len(seen)} runs of {type(one).__name__}; {remedy}; an encoder-decoder often has a table in "
                    "the encoder and one in the decoder: pass both as a list"
                )
        return result

    return run


@contextmanager
def recorded(layers: Sequence[nn.Module]) -> Iterator[list[list[tuple[Any, Any]]]]:
    """Record the inputs and the output of each layer while the model runs.

    Args:
        layers: The layers.

    Yields:
        A list for each layer, which grows by a pair of inputs and output with each of its runs.

    Example:
        >>> layer = nn.Identity()
        >>> with recorded([layer]) as runs:
        ...     _ = layer(torch.ones(1))
        >>> runs
        [[((tensor([1.]),), tensor([1.]))]]
    """
    runs: list[list[tuple[Any, Any]]] = [[] for _ in layers]
    with ExitStack() as hooks:
        for layer, kept in zip(layers, runs, strict=True):

            def keep(_layer: nn.Module, given: Any, output: Any, kept: list[tuple[Any, Any]] = kept) -> None:
                kept.append((given, output))

            hooks.callback(layer.register_forward_hook(own(keep)).remove)
        yield runs


def _turned(ids: Any, given: Any) -> bool:
    """Whether the layer gets the transpose of the model's inputs."""
    matrices = isinstance(ids, Tensor) and isinstance(given, Tensor) and ids.dim() == given.dim() == 2
    return matrices and ids.T.shape == given.shape and torch.equal(ids.T, given) and not torch.equal(ids, given)


def same(one: Any, other: Any, tolerance: float = 0.0) -> bool:
    """Compare two outputs of a module, as far as they are made of tensors.

    Args:
        one: The first output: a tensor, or tensors in lists, tuples and dictionaries.
        other: The second output.
        tolerance: How far floating-point tensors may differ, relative to their largest number.

    Returns:
        True if they agree.

    Example:
        >>> same((torch.ones(2), None), (torch.ones(2), None)), same(torch.ones(2), torch.ones(1, 2))
        (True, False)
    """
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        if one.shape != other.shape or one.dtype != other.dtype:
            return False
        if not tolerance or not one.is_floating_point() or not one.numel():
            return torch.equal(one, other)
        size = max(float(one.abs().max()), float(other.abs().max()))
        return torch.allclose(one, other, rtol=tolerance, atol=tolerance * size)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(same(a, b, tolerance) for a, b in zip(one, other, strict=True))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and same(list(one.values()), list(other.values()), tolerance)
    return type(one) is type(other)
