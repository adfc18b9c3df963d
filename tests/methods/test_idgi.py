"""IDGI: squared gradients share the known change of every step."""

import itertools
from dataclasses import replace

import pytest
import torch
from torch import nn

from captum_dig import TextExplainer, compare
from captum_dig.methods import Plan
from captum_dig.methods.idgi import Idgi
from captum_dig.models.question import Question
from captum_dig.testing import check_method
from captum_dig.testing.methods import toy_question


class Function(nn.Module):
    """A function of embeddings, as the forward of a question."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, embeddings, places):
        return self.function(embeddings.flatten(1))


def asked(function, inputs, baselines):
    inputs, baselines = (torch.tensor(rows)[None, :, None] for rows in (inputs, baselines))
    fixed = torch.zeros(inputs.shape[:2], dtype=torch.bool)
    return Question(Function(function), inputs, baselines, torch.tensor([0]), (), fixed)


def naive(question, n_steps):
    """The sum of the definition, step by step and element by element."""
    found = torch.zeros(question.inputs.shape)
    for row in range(len(question.inputs)):
        one = question.take(torch.tensor([row]))
        points = [one.baselines + j / n_steps * (one.inputs - one.baselines) for j in range(n_steps + 1)]
        for begin, end in itertools.pairwise(points):
            leaf = begin.clone().requires_grad_()
            output = one.forward(leaf, *one.arguments).sum()
            (gradient,) = torch.autograd.grad(output, leaf)
            squares = torch.where(one.inputs != one.baselines, gradient**2, 0)
            change = float(one.forward(end, *one.arguments).sum()) - float(output.detach())
            found[row] += (change * squares / squares.sum())[0]
    return found.sum(dim=-1)


@pytest.mark.parametrize("n_steps", [1, 2, 7])
@pytest.mark.parametrize("rows_at_once", [1, 4, 64])
def test_scores_are_the_sum_of_the_definition(n_steps, rows_at_once):
    question = toy_question()
    found = Idgi()(question, Plan(n_steps, rows_at_once=rows_at_once))
    torch.testing.assert_close(found, naive(question, n_steps), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(found.sum(dim=1), question.changes(64), rtol=1e-5, atol=1e-5)


def test_a_linear_function_is_shared_by_squared_weights():
    question = asked(lambda x: x @ torch.tensor([3.0, 1.0]), [1.0, 1.0], [0.0, 0.0])
    torch.testing.assert_close(Idgi()(question, Plan(4)), torch.tensor([[3.6, 0.4]]))


def test_a_token_that_does_not_move_gets_zero():
    question = asked(lambda x: x.prod(dim=1), [2.0, 5.0], [1.0, 5.0])
    torch.testing.assert_close(Idgi()(question, Plan(3)), torch.tensor([[5.0, 0.0]]))


def test_steps_without_a_gradient_are_shared_by_displacement():
    # Rounding has the gradient 0 everywhere, and the output jumps by 2 + 4.
    question = asked(lambda x: x.round().sum(dim=1), [2.0, 4.0], [0.0, 0.0])
    torch.testing.assert_close(Idgi()(question, Plan(3)), torch.tensor([[6 * 4 / 20, 6 * 16 / 20]]))


def test_a_text_at_its_baseline_has_zeros():
    question = asked(lambda x: x.sum(dim=1), [2.0, 4.0], [2.0, 4.0])
    assert Idgi()(question, Plan(3)).tolist() == [[0.0, 0.0]]


def test_half_precision_costs_only_the_rounding_of_outputs():
    question = asked(lambda x: (x * torch.tensor([3.0, 1.0], dtype=x.dtype)).sum(dim=1), [1.0, 1.0], [0.0, 0.0])
    half = replace(question, inputs=question.inputs.bfloat16(), baselines=question.baselines.bfloat16())
    scores = Idgi()(half, Plan(4))
    assert scores.dtype == torch.float32
    torch.testing.assert_close(scores, torch.tensor([[3.6, 0.4]]))


def test_the_contract():
    check_method(Idgi())


def test_texts_are_explained_and_compared_by_its_name(classifier, tokenizer):
    explainer = TextExplainer(classifier, tokenizer, n_anchors=3, n_neighbors=8)
    text = "a gorgeous, witty movie"
    result = explainer.explain(text, strategy="idgi", n_steps=6)
    assert result.delta == pytest.approx(0, abs=1e-5)
    assert (result.settings.method, result.settings.n_steps) == ("none", 6)
    compared = compare(explainer, [text], ["idgi", "random"], n_steps=6)
    assert compared.texts[0].find("idgi", "pad").word_scores == pytest.approx(result.word_scores, abs=1e-5)
    assert compared.values("delta", "idgi")[0] == pytest.approx(0, abs=1e-5)
