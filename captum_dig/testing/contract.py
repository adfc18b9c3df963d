"""ContractError, and the comparisons of all contracts."""

import torch
from torch import Tensor

from captum_dig.errors import CaptumDigError


class ContractError(CaptumDigError, AssertionError):
    """A plug-in breaks a promise of its base class."""


def must_be_equal(requirement: str, one: Tensor, other: Tensor) -> None:
    """Require two tensors to have one shape and the same numbers.

    Args:
        requirement: The beginning of the message.
        one: A tensor.
        other: Another.

    Raises:
        ContractError: If they differ; the message has the largest difference.
    """
    if one.shape != other.shape:
        raise ContractError(f"{requirement}; got shapes {tuple(one.shape)} and {tuple(other.shape)}")
    if not torch.equal(one.nan_to_num(), other.nan_to_num()):
        difference = float((one.double() - other.double()).abs().max())
        raise ContractError(f"{requirement}; got a difference of up to {difference:.3g}")


def must_be_close(requirement: str, one: Tensor, other: Tensor, tolerance: float) -> None:
    """Require two tensors to have one shape and nearly the same numbers.

    Args:
        requirement: The beginning of the message.
        one: A tensor.
        other: Another.
        tolerance: The largest difference, relative to the largest number but at least to 1.

    Raises:
        ContractError: If they differ by more; the message has the largest difference.
    """
    if one.shape != other.shape:
        raise ContractError(f"{requirement}; got shapes {tuple(one.shape)} and {tuple(other.shape)}")
    if not one.numel():
        return
    size = max(1.0, float(other.double().abs().max()))
    difference = float((one.double() - other.double()).abs().max())
    if not difference <= tolerance * size:
        raise ContractError(f"{requirement}; got a difference of up to {difference:.3g}")
