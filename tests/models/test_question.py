import pytest
import torch
from torch import nn

from captum_dig import StraightLine
from captum_dig.methods import PathMethod, Plan
from captum_dig.methods.gradient_shap import GradientShap
from captum_dig.models.question import Question

N_STEPS = 12


class Counted(nn.Module):
    """A model that keeps the number of rows of each call."""

    def __init__(self):
        super().__init__()
        self.rows = []

    def forward(self, embeddings, places):
        self.rows.append(len(embeddings))
        return embeddings.sum(dim=(1, 2)) * places


def question_of(n_tokens, width):
    fixed = torch.zeros(1, n_tokens, dtype=torch.bool)
    inputs = torch.ones(1, n_tokens, width)
    return Question(Counted(), inputs, torch.zeros_like(inputs), torch.ones(1), (), fixed)


@pytest.mark.parametrize("method", [PathMethod("line", StraightLine(), method="riemann_middle"), GradientShap()])
@pytest.mark.parametrize(("shape", "most"), [((4, 8), 12), ((512, 1024), 4), ((4096, 1024), 1)])
def test_long_texts_take_few_rows_at_once_on_a_processor(method, shape, most):
    question = question_of(*shape)
    scores = method(question, Plan(N_STEPS, rows_at_once=64))
    assert max(question.forward.rows) == most
    assert sum(question.forward.rows) == N_STEPS
    torch.testing.assert_close(scores, torch.full((1, shape[0]), float(shape[1])))


def test_outputs_too():
    question = question_of(512, 1024)
    rows = torch.zeros(9, dtype=torch.int64)
    found = question.outputs(question.inputs.expand(9, -1, -1), rows, rows_at_once=64)
    assert question.forward.rows == [4, 4, 1]
    assert found.shape == (9,)
    assert question_of(512, 1024).fast_rows(2) == 2
    nothing = question.take(torch.zeros(0, dtype=torch.int64))
    assert nothing.changes(rows_at_once=64).shape == (0,)
