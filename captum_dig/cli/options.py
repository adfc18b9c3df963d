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


def checked(meaning: str, names: Collection[str] = ()) -> Any:
    """Make an option that is one of the names, or a number of at least 1 where there are none."""
    listed = ", ".join(names)

    def check(parameter: CallbackParam, value: Any) -> Any:
        if value not in names if names else value < 1:
            requirement = f"one of {listed}" if names else "an integer of at least 1"
            raise ValueError(f"{parameter.opts[0]} must be {requirement}, got {value!r}")
        return value

    return Option(help=f"{meaning}{': ' if names else ''}{listed}.", metavar="NAME" if names else "N", callback=check)


def steps(meaning: str) -> Any:
    """Make an option that is a number of at least 1, or auto."""

    def check(parameter: CallbackParam, value: Any) -> Any:
        if value == "auto":
            return value
        if not value.isdecimal() or int(value) < 1:
            raise ValueError(f"{parameter.opts[0]} must be auto or an integer of at least 1, got {value!r}")
        return int(value)

    return Option(help=f"{meaning}.", metavar="N|auto", callback=check)


def file_option(name: str, meaning: str) -> Any:
    """Make an option that is a file to read or write."""
    # Not `readable`: Typer would ask that of outputs too, and in its own words.
    return Option(name, help=meaning, metavar="FILE", readable=False)
