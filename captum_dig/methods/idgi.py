"""Idgi: the change of the output on each step, shared by squared gradients."""

import torch
from torch import Tensor

from captum_dig.methods.base import AttributionMethod, Plan
from captum_dig.models.question import Question


class Idgi(AttributionMethod):
    r"""Important Direction Gradient Integration along the straight line.

    The line is cut into even steps. A step from $x_j$ to $x_{j+1}$ changes the output by a known number. The elements
    of the embeddings share it in proportion to their squared gradients at $x_j$:

    $$\phi_i = \sum_j \frac{g_{j,i}^2}{\sum_k g_{j,k}^2}\,\bigl(F(x_{j+1}) - F(x_j)\bigr)$$

    So scores add up exactly. They do not tend to the integral along the line: of the function 3 a + b, from zeros to
    ones, a gets 3.6 and b 0.4. Here only elements that move take part, which keeps special tokens at 0. Where all of
    their gradients are 0, squared displacements take the place of squared gradients.

    Known sums take the same outputs, but only correct an estimate of the integral with them.

    References:
        Yang, Wang and Bilgic (2023) [yang-2023].
    """

    name = "idgi"
    completes = True

    def scores(self, question: Question, plan: Plan) -> Tensor:
        """Take the gradient and the output at the begin of each step."""
        n_steps, n_texts = int(plan.n_steps), len(question.inputs)
        ways = question.inputs - question.baselines
        shares, outputs = [], []
        places = torch.arange(n_steps, dtype=torch.float32, device="cpu") / n_steps
        for some in places.to(ways).split(max(1, question.fast_rows(plan.rows_at_once) // n_texts)):
            points = (question.baselines + some[:, None, None, None] * ways).flatten(0, 1).requires_grad_()
            columns = (column.repeat(len(some), *[1] * (column.dim() - 1)) for column in question.arguments)
            output = question.forward(points, *columns)
            (gradient,) = torch.autograd.grad(output.sum(), points)
            shares.append(_shares(gradient.unflatten(0, (len(some), n_texts)), ways))
            outputs.append(output.detach().float().unflatten(0, (len(some), n_texts)))
        at_input, _ = question.ends(plan.rows_at_once)
        changes = torch.cat([*outputs, at_input[None]]).diff(dim=0)
        return (torch.cat(shares) * changes[:, :, None]).sum(dim=0)


def _shares(gradients: Tensor, ways: Tensor) -> Tensor:
    """The share of each token in the change of each step, (n, B, T), from gradients (n, B, T, D); 0 without any way."""
    moves = ways != 0
    squares = (torch.where(moves, gradients, 0).float() ** 2).sum(dim=-1)
    flat = squares.sum(dim=-1, keepdim=True) == 0
    weights = torch.where(flat, (ways.float() ** 2).sum(dim=-1), squares)
    whole = weights.sum(dim=-1, keepdim=True)
    return weights / torch.where(whole == 0, 1, whole)
