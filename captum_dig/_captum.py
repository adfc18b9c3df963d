"""The only file that touches Captum's private helpers.

Captum keeps the functions that every attribution class shares under underscored names. They are imported here once, and
the rest of the package imports them from this module under plain names. A change in Captum is met in one place.
"""

from collections.abc import Callable
from typing import Any, Final, TypeVar, cast

from captum._utils.common import _expand_additional_forward_args as expand_additional_forward_args
from captum._utils.common import _expand_target as expand_target
from captum._utils.common import _format_additional_forward_args as format_additional_forward_args
from captum._utils.common import _format_output as format_output
from captum._utils.common import _is_tuple as is_tuple
from captum._utils.common import _run_forward as run_forward
from captum._utils.common import _select_targets as select_targets
from captum._utils.common import _verify_select_neuron as select_neuron
from captum._utils.gradient import compute_gradients, construct_neuron_grad_fn
from captum._utils.typing import BaselineType, SliceIntType, TargetType, TensorOrTupleOfTensorsGeneric
from captum.attr._utils.common import _format_input_baseline as format_input_baseline
from captum.attr._utils.common import _tensorize_baseline as tensorize_baseline
from captum.log import log_usage

__all__ = [
    "RECORDING_RUNS",
    "BaselineType",
    "SliceIntType",
    "TargetType",
    "TensorOrTupleOfTensorsGeneric",
    "compute_gradients",
    "construct_neuron_grad_fn",
    "expand_additional_forward_args",
    "expand_target",
    "format_additional_forward_args",
    "format_input_baseline",
    "format_output",
    "is_tuple",
    "logged",
    "run_forward",
    "select_neuron",
    "select_targets",
    "tensorize_baseline",
    "unlogged",
]

# Captum's layer attribution runs the forward function on the inputs and on the baselines, in this order, to record the
# layer's outputs. After these runs it replaces the outputs itself.
RECORDING_RUNS: Final = 2

_Function = TypeVar("_Function", bound=Callable[..., Any])


def logged(function: _Function) -> _Function:
    """Wrap a method in Captum's log, as Captum wraps its own."""
    return cast("_Function", log_usage(part_of_slo=True)(function))


def unlogged(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the method inside Captum's log, for a method that is logged already."""
    return cast("Callable[..., Any]", getattr(function, "__wrapped__", function))
