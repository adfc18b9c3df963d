"""RandomScores: the reference for all other methods."""

import torch
from torch import Tensor

from captum_dig.methods.base import AttributionMethod, Plan
from captum_dig.models.question import Question


class RandomScores(AttributionMethod):
    """Scores drawn at random, uniformly from [0, 1)."""

    name = "random"
    draws = True
    n_gradients = 0

    def scores(self, question: Question, plan: Plan) -> Tensor:
        """Draw for each text by itself; its batch changes nothing."""
        n_texts, n_tokens = question.fixed.shape
        lengths = [n_tokens] * n_texts if question.lengths is None else question.lengths.tolist()
        scores = torch.zeros(n_texts, n_tokens, dtype=torch.float32, device="cpu")
        for row, length in zip(scores, lengths, strict=True):
            generator = torch.Generator("cpu").manual_seed(plan.seed)
            row[:length] = torch.rand(length, generator=generator, dtype=torch.float32, device="cpu")
        return scores.to(question.inputs.device)
