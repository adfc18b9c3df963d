"""The straight line of a question: outputs and gradients at any of its points.

Takes a `Question` and places on [0, 1]; gives outputs and gradients, a few rows at once. `gradient_shap` and `idgi`
call it.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from captum_dig.models.question import Question


def on_line(question: Question, places: Tensor, rows_at_once: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the outputs and gradients at places of the straight line, the same for every text.

    Args:
        question: B texts and the number to explain.
        places: Shape (N,): 0 is the baseline, and 1 the text.
        rows_at_once: The largest number of rows for the model at once.

    Yields:
        Outputs of shape (n, B) and gradients of shape (n, B, T, D) for the next n places.
    """
    n_texts, ways = len(question.inputs), question.inputs - question.baselines
    for some in places.to(ways).split(max(1, question.fast_rows(rows_at_once) // n_texts)):
        points = (question.baselines + some[:, None, None, None] * ways).flatten(0, 1).requires_grad_()
        columns = (column.repeat(len(some), *[1] * (column.dim() - 1)) for column in question.arguments)
        output = question.forward(points, *columns)
        (gradient,) = torch.autograd.grad(output.sum(), points)
        yield output.detach().unflatten(0, (len(some), n_texts)), gradient.unflatten(0, (len(some), n_texts))
