"""Idgi: the change of the output on each step, shared by squared gradients."""

import torch
from torch import Tensor

from captum_dig.methods.base import AttributionMethod, Plan
from captum_dig.methods.line import on_line
from captum_dig.models.question import Question


class Idgi(AttributionMethod):
    r"""Important Direction Gradient Integration along the straight line.

    The line is cut into even steps. A step from $x_j$ to $x_{j+1}$ changes the output by a known number. The elements
    of the embeddings share it in proportion to their squared gradients at $x_j$:

    $$\phi_i = \sum_j \frac{g_{j,i}^2}{\sum_k g_{j,k}^2}\,\bigl(F(x_{j+1}) - F(x_j)\bigr)$$

    So scores add up exactly. They do not tend to the integral along the line: of the function 3 a + b, from zeros to
    ones, a gets 3.6 and b 0.4. Here only elements that move take part, which keeps special tokens at 0. Where all of
    their gradients are 0, squared displacements take the place of squared gradients.

    Known sums also use outputs, but only to correct an estimate of the integral. With ``n_steps="auto"`` it takes 48
    gradients, because its delta is 0 with any number.

    References:
        Yang, Wang and Bilgic (2023) [yang-2023].
    """

    name = "idgi"
    completes = True

    def scores(self, question: Question, plan: Plan) -> Tensor:
        """Take the gradient and the output at the beginning of each step."""
        places = torch.arange(int(plan.n_steps), dtype=torch.float32, device="cpu") / int(plan.n_steps)
        ways = question.inputs - question.baselines
        shares, outputs = [], []
        for output, gradient in on_line(question, places, plan.rows_at_once):
            shares.append(_shares(gradient, ways))
            outputs.append(output.float())
        at_input, _ = question.ends(plan.rows_at_once)
        changes = torch.cat([*outputs, at_input[None]]).diff(dim=0)
        return (torch.cat(shares) * changes[:, :, None]).sum(dim=0)


def _shares(gradients: Tensor, ways: Tensor) -> Tensor:
    """The share of each token in the change of each step, (n, B, T), from gradients (n, B, T, D); 0 if none moves."""
    moves = ways != 0
    squares = (torch.where(moves, gradients, 0).float() ** 2).sum(dim=-1)
    flat = squares.sum(dim=-1, keepdim=True) == 0
    weights = torch.where(flat, (ways.float() ** 2).sum(dim=-1), squares)
    whole = weights.sum(dim=-1, keepdim=True)
    return weights / torch.where(whole == 0, 1, whole)
