"""Devices and types of weights, by their names.

Takes a name such as ``"auto"`` or ``"bfloat16"``; gives the device or the type of PyTorch. `captum_dig.text.explainer`
moves the model there.
"""

from collections.abc import Iterator

import torch

from captum_dig.errors import ModelError

_TYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


def as_device(device: str | torch.device) -> torch.device:
    """Find a device.

    Args:
        device: ``"auto"`` for the first that there is of a CUDA device, an Apple GPU and the CPU; or a device or a name
            of PyTorch, such as ``"cpu"``, ``"cuda"``, ``"cuda:1"`` or ``"mps"``.

    Returns:
        The device.

    Raises:
        ValueError: If there is no such device here.

    Example:
        >>> as_device("cpu")
        device(type='cpu')
    """
    here = list(_here())
    if isinstance(device, str) and device == "auto":
        return torch.device(here[0])
    try:
        found = torch.device(device)
    except (RuntimeError, TypeError):
        found = None
    # Other kinds, such as 'xpu', are left to PyTorch.
    if found is None or found.type == "meta" or (found.type in ("cuda", "mps") and str(found) not in here):
        raise ValueError(f"device must be 'auto' or one that is here, {', '.join(map(repr, here))}, got {device!r}")
    return found


def as_dtype(dtype: str | torch.dtype) -> torch.dtype:
    """Find a type of weights.

    Args:
        dtype: A floating-point type of PyTorch, or ``"float32"``, ``"float16"`` or ``"bfloat16"``.

    Returns:
        The type.

    Raises:
        ValueError: If it is another one.

    Example:
        >>> as_dtype("bfloat16")
        torch.bfloat16
    """
    found = dtype if isinstance(dtype, torch.dtype) else _TYPES.get(str(dtype))
    if found is None or not found.is_floating_point:
        raise ValueError(f"dtype must be a floating-point type, such as {', '.join(map(repr, _TYPES))}, got {dtype!r}")
    return found


def move(model: torch.nn.Module, device: str | torch.device) -> None:
    """Move a model to a device.

    Raises:
        ValueError: If there is no such device here.
        ModelError: If the model cannot be moved, as some quantized ones.
    """
    found = as_device(device)
    try:
        model.to(found)
    except (RuntimeError, ValueError, NotImplementedError) as error:
        raise ModelError(
            f"model must be one that can be moved to {found}, got {type(model).__name__}: {error}; "
            "load it there, and pass no device"
        ) from error


def _here() -> Iterator[str]:
    """The names of the devices, the fastest first."""
    if torch.cuda.is_available():
        yield "cuda"
        yield from (f"cuda:{number}" for number in range(torch.cuda.device_count()))
    if torch.backends.mps.is_available():
        yield from ("mps", "mps:0")
    yield "cpu"
