"""Options that several commands share, and the names that they take."""

from collections.abc import Collection
from typing import Any

from typer import CallbackParam, Option

# Written out, because the modules that own these names import PyTorch; a test compares them.
STRATEGIES = ("greedy", "maxcount", "random_neighbor", "random_anchor", "straight_line", "staggered", "uniform")
RANKED = ("greedy", "maxcount")  # the random ones have nothing to keep
METHODS = ("gausslegendre", "riemann_left", "riemann_middle", "riemann_right", "riemann_trapezoid")
CANDIDATES = ("words", "all")
PROTOCOLS = {"default": ("default",), "paper": ("paper",), "both": ("default", "paper")}
# A knot of a path for each anchor: 1,000 take some 250 MB for a text of 100 tokens.
MOST_ANCHORS = 1_000
# Gauss-Legendre nodes take seconds to find at 20,000.
MOST_STEPS = 20_000
COMPARED = (
    "integrated_gradients",
    "dig_greedy",
    "dig_maxcount",
    "dig_random_anchor",
    "dig_random_neighbor",
    "staggered",
    "input_x_gradient",
    "deeplift",
    "gradient_shap",
    "leave_one_out",
    "random",
)


TRUST = Option("--trust-remote-code", help="Run Python code that comes with the model; read it first.")


def method_names(methods: str) -> list[str]:
    """Read names with commas between; dashes are as good as underscores."""
    return [name.strip().replace("-", "_") for name in methods.split(",") if name.strip()]


def checked(meaning: str, names: Collection[str] = (), *, most: int | None = None) -> Any:
    """Make an option that is one of the names, or a number from 1 to the most where there are none."""
    listed = ", ".join(names)

    def check(parameter: CallbackParam, value: Any) -> Any:
        if value not in names if names else value < 1:
            requirement = f"one of {listed}" if names else "an integer of at least 1"
            raise ValueError(f"{parameter.opts[0]} must be {requirement}, got {value!r}")
        return value if names else _no_more(parameter, value, most)

    return Option(help=f"{meaning}{': ' if names else ''}{listed}.", metavar="NAME" if names else "N", callback=check)


def steps(meaning: str) -> Any:
    """Make an option that is a number of at least 1, or auto."""

    def check(parameter: CallbackParam, value: Any) -> Any:
        if value == "auto":
            return value
        # Python reads no longer numbers, and nobody means them.
        if not value.isdecimal() or len(value) > 4000 or int(value) < 1:
            raise ValueError(f"{parameter.opts[0]} must be auto or an integer of at least 1, got {value!r}")
        return _no_more(parameter, int(value), MOST_STEPS)

    return Option(help=f"{meaning}.", metavar="N|auto", callback=check)


def _no_more(parameter: CallbackParam, value: int, most: int | None) -> int:
    if most is not None and value > most:
        raise ValueError(f"{parameter.opts[0]} must be at most {most}, got {value}; more take hours, or all memory")
    return value


def file_option(name: str, meaning: str) -> Any:
    """Make an option that is a file to read or write."""
    # Not `readable`: Typer would ask that of outputs too, and in its own words.
    return Option(name, help=meaning, metavar="FILE", readable=False)
