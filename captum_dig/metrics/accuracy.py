"""The numerical error of attributions.

Takes attributions, and the outputs that they should add up to, or attributions with many more gradients. Gives one
number for each sentence, and the pooled delta of many. `captum_dig.metrics.integration` builds on it.
"""

import torch
from torch import Tensor


def delta_percent(deltas: Tensor, changes: Tensor) -> Tensor:
    """Measure each delta in percent of the change that attributions should add up to. Lower is better.

    It is huge where the output hardly changes: report the median over sentences, or `pooled_delta_percent`.

    Args:
        deltas: Sum of the attributions minus the change, shape (B,).
        changes: Output at the input minus output at the baseline, shape (B,).

    Returns:
        100 |delta| / |change|, shape (B,), float32; 0 where both are 0, infinity where only the change is.

    Raises:
        ValueError: If the shapes differ.

    Example:
        >>> delta_percent(torch.tensor([0.1, 0.0]), torch.tensor([2.0, 0.0]))
        tensor([5., 0.])

    References:
        Sanyal and Ren (2021), section 4.3 [sanyal-ren-2021].
    """
    _same_shape(deltas, changes)
    sizes = changes.abs().double()
    percent = 100 * deltas.abs().double() / sizes
    return torch.where((sizes == 0) & (deltas == 0), 0.0, percent).float()


def pooled_delta_percent(deltas: Tensor, changes: Tensor) -> float:
    """Measure the deltas of many sentences together in percent of their changes. Lower is better.

    Unlike a mean of ratios it is not dominated by the few sentences whose output hardly changes.

    Args:
        deltas: As in `delta_percent`.
        changes: As in `delta_percent`.

    Returns:
        100 Σ|delta| / Σ|change|; NaN where nothing changes.

    Raises:
        ValueError: If the shapes differ.

    Example:
        >>> pooled_delta_percent(torch.tensor([0.125, 0.125]), torch.tensor([5.0, 0.0]))
        5.0
    """
    _same_shape(deltas, changes)
    total = float(changes.abs().double().sum())
    return 100 * float(deltas.abs().double().sum()) / total if total else float("nan")


def token_error(attributions: Tensor, reference: Tensor) -> Tensor:
    """Measure how far the scores of a sentence are from those of a converged integral. Lower is better.

    Args:
        attributions: A score for each token, shape (B, T); 0 for padding.
        reference: The same, with enough steps that more change nothing.

    Returns:
        Euclidean distance over the length of `reference`, shape (B,), float32; NaN where that is 0.

    Raises:
        ValueError: If the shapes differ.

    Example:
        >>> token_error(torch.tensor([[3.0, 4.5]]), torch.tensor([[3.0, 4.0]]))
        tensor([0.1000])
    """
    _same_shape(attributions, reference)
    length = reference.double().norm(dim=1)
    distance = (attributions.double() - reference.double()).norm(dim=1)
    return torch.where(length > 0, distance / length, torch.nan).float()


def _same_shape(one: Tensor, other: Tensor) -> None:
    if one.shape != other.shape:
        raise ValueError(f"both must have one shape, got {tuple(one.shape)} and {tuple(other.shape)}")
