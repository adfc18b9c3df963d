"""Descriptions of values: short, without memory addresses, and different for different contents.

Takes a path or an anchor search; gives a string from its attributes that names it in results and journals.
"""

import hashlib
import re
import reprlib
from collections.abc import Iterable
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

_ADDRESS = re.compile(r" at 0x[0-9A-Fa-f]+")


def described(thing: object) -> str:
    """Describe an object by its type and its attributes.

    Args:
        thing: The object.

    Returns:
        Such as ``"Bend(through=Tensor(float32, (3,), 4e6b8e1c2f00), sharp=True)"``. It is the same in every process.

    Example:
        >>> class Bend:
        ...     def __init__(self):
        ...         self.sharp = True
        >>> described(Bend())
        'Bend(sharp=True)'
    """
    fields = ", ".join(f"{name}={_value(value)}" for name, value in getattr(thing, "__dict__", {}).items())
    return f"{type(thing).__name__}({fields})"


@reprlib.recursive_repr("...")
def _value(value: object) -> str:
    """Describe a value."""
    if isinstance(value, Tensor | np.ndarray | nn.Module):
        return _array(value)
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_value(key)}: {_value(item)}' for key, item in value.items())}}}"
    if type(value) in (list, tuple, set, frozenset):
        items = list(map(_value, cast("Iterable[object]", value)))
        # The order of a set differs between processes.
        return f"{type(value).__name__}({', '.join(sorted(items) if isinstance(value, set | frozenset) else items)})"
    if type(value).__repr__ is object.__repr__:
        return described(value)
    return _ADDRESS.sub("", repr(value))


def _array(value: Tensor | npt.NDArray[Any] | nn.Module) -> str:
    """Describe numbers by a hash of all of them, which `repr` abbreviates."""
    if isinstance(value, Tensor):
        return f"Tensor({str(value.dtype).removeprefix('torch.')}, {tuple(value.shape)}, {_hash(_bytes(value))})"
    if isinstance(value, nn.Module):
        return f"{type(value).__name__}({_hash(_value(value.state_dict()).encode())})"
    content = _value(value.tolist()).encode() if value.dtype.hasobject else value.tobytes()
    return f"array({value.dtype}, {value.shape}, {_hash(content)})"


def _bytes(tensor: Tensor) -> bytes:
    try:
        plain = tensor.detach().resolve_conj().resolve_neg().cpu().contiguous().reshape(-1)
        return plain.view(torch.uint8).numpy().tobytes()
    except (RuntimeError, NotImplementedError):
        # Tensors without contents, or with another layout.
        return str(tensor).encode()


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:12]
