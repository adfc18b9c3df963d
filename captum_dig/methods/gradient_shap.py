"""GradientShap: gradients at random points of the straight line."""

import torch
from torch import Tensor

from captum_dig.methods.base import AttributionMethod, Plan
from captum_dig.methods.line import on_line
from captum_dig.models.question import Question


class GradientShap(AttributionMethod):
    """Gradients at random points of the straight line, averaged, times the difference of input and baseline.

    This is Captum's `GradientShap` with one baseline and no noise. Captum's own draws cannot be seeded, and it takes
    all gradients at once.
    """

    name = "gradient_shap"
    draws = True
    completes = True

    def scores(self, question: Question, plan: Plan) -> Tensor:
        """Average the gradients at random places, the same for every text."""
        n_steps = int(plan.n_steps)
        generator = torch.Generator("cpu").manual_seed(plan.seed)
        places = torch.rand(n_steps, generator=generator, dtype=torch.float32, device="cpu")
        ways = question.inputs - question.baselines
        total = torch.zeros_like(ways, dtype=torch.promote_types(ways.dtype, torch.float32))
        for _, gradient in on_line(question, places, plan.rows_at_once):
            total += gradient.sum(dim=0)
        return (total / n_steps * ways).sum(dim=-1)
