"""Numbers of labels: from logits to log-odds, log-probabilities and probabilities.

Takes logits and the indexes of labels; gives one number for each row. The tasks that choose between labels use it.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import torch
from torch import Tensor, nn


def _logits(logits: Tensor, labels: Tensor, _: bool) -> Tensor:
    """The logits of the picked labels."""
    return logits.gather(1, labels)


def _log_odds(logits: Tensor, labels: Tensor, alone: bool) -> Tensor:
    """The logarithms of the odds of the picked labels."""
    picked = logits.gather(1, labels)
    if alone:
        return picked
    others = [logits.scatter(1, label[:, None], -torch.inf).logsumexp(dim=1) for label in labels.unbind(dim=1)]
    return picked - torch.stack(others, dim=1)


def _log_probabilities(logits: Tensor, labels: Tensor, alone: bool) -> Tensor:
    """The logarithms of the probabilities of the picked labels."""
    return (nn.functional.logsigmoid(logits) if alone else logits.log_softmax(dim=1)).gather(1, labels)


def _probabilities(logits: Tensor, labels: Tensor, alone: bool) -> Tensor:
    """The probabilities of the picked labels."""
    return (logits.sigmoid() if alone else logits.softmax(dim=1)).gather(1, labels)


# From logits, (N, C), labels, (N, P), and whether each label applies or not by itself, to the numbers, (N, P).
OUTPUTS: Final[Mapping[str, Callable[[Tensor, Tensor, bool], Tensor]]] = MappingProxyType(
    {
        "logit": _logits,
        "log_odds": _log_odds,
        "log_probability": _log_probabilities,
        "probability": _probabilities,
    }
)


def number_of(output: str, logits: Tensor, labels: Tensor, *, alone: bool = False) -> Tensor:
    """Pick one number for each row: that of a label, or that of a first label less that of a second one.

    Args:
        output: A name of `OUTPUTS`; any other name means the logit.
        logits: Shape (N, C).
        labels: Indexes of labels, shape (N, 1) or (N, 2).
        alone: Whether each label applies or not by itself.

    Returns:
        Shape (N,), with gradients.

    Example:
        >>> number_of("log_odds", torch.tensor([[0.5, 2.0]]), torch.tensor([[1]]))
        tensor([1.5000])
    """
    picked = OUTPUTS.get(output, _logits)(logits, labels, alone)
    return picked[:, 0] if picked.shape[1] == 1 else picked[:, 0] - picked[:, 1]
