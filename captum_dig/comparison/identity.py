"""Identity: a method in full, so that journals keep apart what may give other scores.

Takes an attribution method; gives a string for the settings of a comparison. Code of this package is known by its
version; code of anybody else is hashed.
"""

import hashlib
import inspect
import sys
from typing import Final

from captum_dig.methods import AttributionMethod

# How far to follow what a method holds: a path, its inner path, the search of that.
_DEPTH: Final = 4
_LIBRARIES: Final = ("captum_dig", "captum", "faiss", "numpy", "torch", "transformers")
# CPython's Py_TPFLAGS_HEAPTYPE.
_MADE_BY_PYTHON: Final = 1 << 9
_PLAIN = (str, bytes, int, float, complex, bool, type(None))


def identity(method: AttributionMethod) -> str:
    """Write down a method, its parts, and a hash of the classes that a user wrote for them.

    Args:
        method: The method.

    Returns:
        How it prints; where classes outside of this package take part, with a hash of their source and attributes. A
        class without source, as on Python's command line, counts by its compiled code.

    Example:
        >>> from captum_dig.methods import METHODS
        >>> identity(METHODS["random"])
        'RandomScores()'
    """
    told = sorted(_describe(kind) for kind in _classes(method, _DEPTH))
    if not told:
        return repr(method)
    return f"{method!r} #{hashlib.sha256(repr(told).encode('utf-8', 'backslashreplace')).hexdigest()[:16]}"


def _classes(value: object, depth: int) -> set[type]:
    """The classes of a value and of what it holds, without those of libraries."""
    kinds = {kind for kind in type(value).__mro__ if _is_the_users(kind)}
    # What a library's object holds is the library's matter.
    if depth and (kinds or _package(type(value)) == "captum_dig"):
        for part in getattr(value, "__dict__", {}).values():
            for one in part if isinstance(part, tuple | list) else (part,):
                kinds |= _classes(one, depth - 1)
    return kinds


def _package(kind: type) -> str:
    return kind.__module__.partition(".")[0]


def _is_the_users(kind: type) -> bool:
    if kind.__module__ == "builtins":
        # A class that `exec` made says that it is a built-in one, but Python code made it.
        return bool(kind.__flags__ & _MADE_BY_PYTHON)
    return _package(kind) not in _LIBRARIES and _package(kind) not in sys.stdlib_module_names


def _describe(kind: type) -> tuple[str, str, str]:
    try:
        source = inspect.getsource(kind)
    except (OSError, TypeError):
        source = "\n".join(f"{name} {_code(value)}" for name, value in sorted(vars(kind).items()))
    # An attribute may have been set after the class was written.
    attributes = {
        name: value for name, value in vars(kind).items() if not name.startswith("__") and isinstance(value, _PLAIN)
    }
    return f"{kind.__module__}.{kind.__qualname__}", source, repr(sorted(attributes.items()))


def _code(value: object) -> str:
    """The compiled code of a function, without places in memory and files."""
    code = getattr(value, "__code__", None)
    if code is None:
        return ""
    constants = [constant for constant in code.co_consts if isinstance(constant, _PLAIN)]
    return f"{code.co_code.hex()} {code.co_names} {constants}"
