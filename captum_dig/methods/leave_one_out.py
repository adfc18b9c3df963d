"""LeaveOneOut: the change of the output when one token alone is at the baseline."""

import torch
from torch import Tensor

from captum_dig.methods.base import AttributionMethod, Plan
from captum_dig.models.question import Question


class LeaveOneOut(AttributionMethod):
    """The fall of the output when one token alone is at the baseline.

    Sequential Integrated Gradients, whose path moves one token alone, gives the same scores.
    """

    name = "leave_one_out"
    n_gradients = 0

    def scores(self, question: Question, plan: Plan) -> Tensor:
        """Put each token at its baseline in turn."""
        row, place = (~question.fixed).nonzero(as_tuple=True)
        scores = question.inputs.new_zeros(question.fixed.shape, dtype=torch.float32)
        if len(row):
            without = question.inputs[row]
            numbers = torch.arange(len(row), device=row.device)
            without[numbers, place] = question.baselines[row, place]
            whole = torch.arange(len(question.inputs), device=row.device)
            at_input = question.outputs(question.inputs, whole, plan.rows_at_once)
            scores[row, place] = at_input[row] - question.outputs(without, row, plan.rows_at_once)
        return scores
