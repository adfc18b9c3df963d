"""Checks of arguments, in one grammar of messages: *argument* must *requirement*, got *value*; *remedy*.

Takes a value and the name of its argument; returns the value, or raises an error. Every stage of the flow imports this
module.
"""

import operator
from collections.abc import Collection


def integer(name: str, value: object, at_least: int | None = None) -> int:
    """Require a whole number, of Python or NumPy.

    Args:
        name: The name of the argument.
        value: The number.
        at_least: The smallest number; None for no limit.

    Returns:
        Python's integer.

    Raises:
        ValueError: If it is no integer, or too small.

    Example:
        >>> integer("n_curve_texts", 0, at_least=0)
        0
    """
    limit = "" if at_least is None else f" of at least {at_least}"
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)  # type: ignore[arg-type]  # raises the error that is caught
    except TypeError:
        raise ValueError(f"{name} must be an integer{limit}, got {value!r}") from None
    if at_least is not None and number < at_least:
        raise ValueError(f"{name} must be an integer{limit}, got {value!r}")
    return number


def at_least_one(name: str, value: object) -> int:
    """Require a whole number of at least 1.

    Args:
        name: The name of the argument.
        value: The number.

    Returns:
        Python's integer.

    Raises:
        ValueError: If it is no integer, or below 1.

    Example:
        >>> at_least_one("n_steps", 50)
        50
    """
    return integer(name, value, at_least=1)


def one_of(name: str, value: str, known: Collection[str], remedy: str = "") -> str:
    """Require one of some names.

    Args:
        name: The name of the argument.
        value: The name.
        known: The known names.
        remedy: The end of the message.

    Returns:
        The name.

    Raises:
        ValueError: If it is not a known name.

    Example:
        >>> one_of("spacing", "arc", ("arc", "knots"))
        'arc'
    """
    if value not in known:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, known))}, got {value!r}{remedy and '; '}{remedy}")
    return value


def as_index(value: str | int) -> int | None:
    """Read an integer of at least 0, also from a string of digits; None for anything else.

    Example:
        >>> as_index(3), as_index("3"), as_index(-3), as_index("three")
        (3, 3, None, None)
    """
    if isinstance(value, str):
        return int(value) if value.isdecimal() else None
    try:
        number = -1 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        return None
    return number if number >= 0 else None
