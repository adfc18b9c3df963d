"""Identity: a string for a method or a task that differs if its scores may differ.

Takes the object; gives a string for the settings of a comparison, or of the scores of a data set. A run that goes on
later compares it. The version stands for the code of this package; the code of users is hashed.
"""

import hashlib
import inspect
import sys
from typing import Final

# Levels of attributes to follow: a path, its inner path, the search of that.
_DEPTH: Final = 4
_LIBRARIES: Final = ("captum_dig", "captum", "faiss", "numpy", "torch", "transformers")
# CPython's Py_TPFLAGS_HEAPTYPE.
_MADE_BY_PYTHON: Final = 1 << 9
_PLAIN = (str, bytes, int, float, complex, bool, type(None))


def identity(value: object) -> str:
    """Describe a method or a task, its parts, and a hash of the user's classes among them.

    Args:
        value: The method or task.

    Returns:
        The `repr` of the object. If classes outside of this package take part, a hash of their source and attributes
        follows. For a class without source, as on Python's command line, its compiled code is hashed.

    Example:
        >>> from captum_dig.methods.random import RandomScores
        >>> identity(RandomScores())
        'RandomScores()'
    """
    told = sorted(_describe(kind) for kind in _classes(value, _DEPTH))
    if not told:
        return repr(value)
    return f"{value!r} #{hashlib.sha256(repr(told).encode('utf-8', 'backslashreplace')).hexdigest()[:16]}"


def _classes(value: object, depth: int) -> set[type]:
    """The classes of a value and of its attributes, without those of libraries."""
    kinds = {kind for kind in type(value).__mro__ if _is_the_users(kind)}
    # The attributes of a library's object are not followed.
    if depth and (kinds or _package(type(value)) == "captum_dig"):
        for part in getattr(value, "__dict__", {}).values():
            for one in part if isinstance(part, tuple | list) else (part,):
                kinds |= _classes(one, depth - 1)
    return kinds


def _package(kind: type) -> str:
    return kind.__module__.partition(".")[0]


def _is_the_users(kind: type) -> bool:
    if kind.__module__ == "builtins":
        # A class made by `exec` has the module `builtins`, although it is Python code.
        return bool(kind.__flags__ & _MADE_BY_PYTHON)
    return _package(kind) not in _LIBRARIES and _package(kind) not in sys.stdlib_module_names


def _describe(kind: type) -> tuple[str, str, str]:
    try:
        source = inspect.getsource(kind)
    except (OSError, TypeError):
        source = "\n".join(f"{name} {_code(value)}" for name, value in sorted(vars(kind).items()))
    # An attribute may have been changed after the class was made.
    attributes = {
        name: value for name, value in vars(kind).items() if not name.startswith("__") and isinstance(value, _PLAIN)
    }
    return f"{kind.__module__}.{kind.__qualname__}", source, repr(sorted(attributes.items()))


def _code(value: object) -> str:
    """The compiled code of a function, without memory addresses and file names."""
    code = getattr(value, "__code__", None)
    if code is None:
        return ""
    constants = [constant for constant in code.co_consts if isinstance(constant, _PLAIN)]
    return f"{code.co_code.hex()} {code.co_names} {constants}"
