"""Check and convert the fields of a result, and write them as strict JSON.

Takes one value and its name for messages; gives the plain Python value, or raises an error with the name.
`captum_dig.text`, `captum_dig.comparison` and `captum_dig.study` use it for every field of their results.
"""

from __future__ import annotations

import math
import operator
import reprlib
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import fields, is_dataclass
from typing import Any, SupportsFloat, TypeVar

T = TypeVar("T")

# Values of files may be long, or nested deeper than Python's own repr goes.
_SHOWN = reprlib.Repr()
_SHOWN.maxlevel, _SHOWN.maxstring, _SHOWN.maxother = 3, 100, 100
# The largest integer of NumPy and PyTorch.
_LARGEST = 2**63 - 1

# Strict JSON has no such numbers. These are the names that JavaScript gives them, and float() reads
# them too.
_NON_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
# Remedies for data that `to_dict` did not give, or that another version gave.
TO_DICT = ("pass what to_dict gave", "write it with this version's to_dict")


def show(value: Any) -> str:
    """Write a value of a file for a message: shortened, and without its deeper levels."""
    return _SHOWN.repr(value)


def string(name: str, value: Any) -> str:
    """Return a string as it is."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a string, got {show(value)}; convert it first")
    return value


def integer(name: str, value: Any) -> int:
    """Convert an integer of Python or NumPy; a boolean is refused."""
    try:
        if isinstance(value, bool):
            raise TypeError
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer, got {show(value)}; convert it first") from None


def count(name: str, value: Any) -> int:
    """Convert an integer from 0 to the largest of 64 bits."""
    number = integer(name, value)
    if not 0 <= number <= _LARGEST:
        raise ValueError(f"{name} must be in [0, 2**63), got {show(value)}; pass what to_dict gave")
    return number


def flag(name: str, value: Any) -> bool:
    """Return a boolean as it is."""
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be a boolean, got {show(value)}; convert it with bool()")
    return value


def real(name: str, value: Any) -> float:
    """Convert a number to float.

    Every NaN becomes the one object `math.nan`: tuples with it then compare equal.
    """
    if isinstance(value, bool) or not isinstance(value, SupportsFloat):
        raise TypeError(f"{name} must be a number, got {show(value)}; convert it with float()")
    try:
        number = float(value)
    except OverflowError:
        raise ValueError(f"{name} must be a number that fits into 64 bits, got {show(value)}; scale it") from None
    return math.nan if math.isnan(number) else number


def span(name: str, value: Any) -> tuple[int, int]:
    """Convert a start and an end."""
    pair = tuple_of(integer)(name, value)
    if len(pair) != 2:
        raise ValueError(f"{name} must be a start and an end, got {show(value)}; pass two integers")
    return pair[0], pair[1]


def tuple_of(convert: Callable[[str, Any], T]) -> Callable[[str, Any], tuple[T, ...]]:
    """Make a converter of sequences from a converter of their items."""

    def convert_all(name: str, value: Any) -> tuple[T, ...]:
        if isinstance(value, str | bytes | Mapping | Set) or not isinstance(value, Iterable):
            raise TypeError(f"{name} must be a sequence, got {show(value)}; pass a tuple")
        return tuple(convert(f"{name}[{i}]", item) for i, item in enumerate(value))

    return convert_all


def to_json(value: Any) -> Any:
    """Turn tuples into lists, dataclasses into dictionaries, NaN and infinity into their names."""
    if is_dataclass(value):
        return {field.name: to_json(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple):
        return [to_json(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def from_json(value: Any) -> Any:
    """Turn the names of NaN and infinity back into numbers, in a number or a list of numbers."""
    if isinstance(value, list):
        return [_NON_FINITE.get(item, item) if isinstance(item, str) else item for item in value]
    return _NON_FINITE.get(value, value) if isinstance(value, str) else value


def mapping(name: str, value: Any) -> Mapping[str, Any]:
    """Return a mapping as it is."""
    if not isinstance(value, Mapping):
        raise TypeError(f"{name} must be a mapping, got {show(value)}; pass what to_dict gave")
    return value


def check_keys(name: str, data: Any, kind: type, optional: tuple[str, ...] = ()) -> None:
    """Require a mapping with exactly the fields of a dataclass as keys; optional ones may be missing."""
    mapping(name, data)
    expected = [field.name for field in fields(kind)]
    if missing := [key for key in expected if key not in data and key not in optional]:
        raise ValueError(f"{name} must hold every field, got none of {missing}; pass what to_dict gave")
    if unknown := [key for key in data if key not in expected]:
        raise ValueError(f"{name} must hold only the fields of a result, got {show(unknown)}; remove them")


def of_format(name: str, data: Any, kind: str, version: int, remedies: tuple[str, str]) -> dict[str, Any]:
    """Require a mapping of one format and version, and return its other entries.

    The first remedy is for data that is no mapping, the second for another format.
    """
    if not isinstance(data, Mapping):
        raise TypeError(f"{name} must be a mapping, got {type(data).__name__}; {remedies[0]}")
    found = (data.get("format"), data.get("format_version"))
    if found != (kind, version):
        raise ValueError(f"{name} must have the format {(kind, version)}, got {show(found)}; {remedies[1]}")
    return {key: value for key, value in data.items() if key not in ("format", "format_version")}
