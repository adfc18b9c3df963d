"""Checks of a forward function.

Takes a forward function; gives one that raises an error with a remedy if its arguments or its output are wrong. The
attribution classes pass it to Captum, whose own errors name the inside of PyTorch.
"""

import functools
import inspect
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.futures import Future

from captum_dig.errors import ModelError

_UNUSED = re.compile("differentiated Tensors? (?:at index (\\d+) )?appears? to not have been used in the graph")


def checked(forward_func: Callable[..., Any]) -> Callable[..., Any]:
    """Check that a forward function takes its arguments, and returns a tensor with a gradient.

    Args:
        forward_func: The model, or a function that runs it.

    Returns:
        The forward function. It raises `ModelError` if arguments are missing or left over, if the output is no tensor,
        or if it has no gradient although gradients are recorded.

    Example:
        >>> checked(lambda x: {"logits": x})(torch.ones(1))
        Traceback (most recent call last):
        captum_dig.errors.ModelError: forward_func must return a tensor, got dict; return its tensor of logits...
    """

    # It keeps the signature, which Captum reads to find a function without arguments.
    @functools.wraps(forward_func, assigned=(), updated=())
    def run(*arguments: Any) -> Any:
        with _arguments_checked(forward_func, arguments):
            output = forward_func(*arguments)
        if isinstance(output, Future):
            return output
        if not isinstance(output, Tensor):
            raise ModelError(
                f"forward_func must return a tensor, got {type(output).__name__}; "
                "return its tensor of logits, such as lambda ids: model(ids).logits"
            )
        if torch.is_grad_enabled() and not output.requires_grad:
            raise ModelError(
                "forward_func must return a tensor with a gradient, got one without; "
                "remove torch.no_grad(), detach() and NumPy from it, and load a quantized model in float32"
            )
        return output

    return run


@contextmanager
def _arguments_checked(forward_func: Callable[..., Any], arguments: tuple[Any, ...]) -> Iterator[None]:
    try:
        yield
    except TypeError as error:
        function = forward_func.forward if isinstance(forward_func, nn.Module) else forward_func
        try:
            inspect.signature(function).bind(*arguments)
        except ValueError:
            # A built-in function without a signature.
            raise error from None
        except TypeError as reason:
            raise ModelError(
                f"forward_func must take inputs and additional_forward_args, got {len(arguments)} arguments for "
                f"{getattr(forward_func, '__name__', type(forward_func).__name__)}{inspect.signature(function)}: "
                f"{reason}; pass the others in additional_forward_args"
            ) from error
        raise


@contextmanager
def failures_explained(inputs: tuple[Any, ...]) -> Iterator[None]:
    """Turn errors of a gradient into errors about the caller's arguments.

    Args:
        inputs: The inputs, as the caller passed them.

    Raises:
        ModelError: If the output does not depend on one of the inputs, or a model was made in inference mode.
        TypeError: If integers do not work as floating-point numbers.

    Example:
        >>> with failures_explained((torch.ones(1),)):
        ...     x = torch.ones(1, requires_grad=True)
        ...     torch.autograd.grad(torch.ones(1, requires_grad=True), x)
        Traceback (most recent call last):
        captum_dig.errors.ModelError: forward_func must depend on every input, got an output without input 0...
    """
    try:
        yield
    except RuntimeError as error:
        message = str(error)
        if found := _UNUSED.search(message):
            raise ModelError(
                f"forward_func must depend on every input, got an output without input {found[1] or 0} or with it cut "
                "off by detach(), torch.no_grad() or quantized weights; leave the input out, load the model in "
                "float32, or pass grad_kwargs={'allow_unused': True} to a layer's attribute"
            ) from error
        if "nference tensor" in message:
            raise ModelError(
                "the model must be made outside of torch.inference_mode(), got inference tensors, which have no "
                "gradient; load it again outside"
            ) from error
        if "'indices'" in message and not all(torch.is_floating_point(one) for one in inputs):
            raise TypeError(
                "inputs must be floating point, got integers for a forward_func that looks them up; for token ids "
                "attribute to the embedding layer with LayerDiscretizedIntegratedGradients"
            ) from error
        raise
