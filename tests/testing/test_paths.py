"""The contracts for plug-in authors: good ones pass, and each broken one is told what it breaks."""

import pytest
import torch

from captum_dig import (
    AnchorSearch,
    CaptumDigError,
    DiscretizedIntegratedGradients,
    Greedy,
    MonotonicPath,
    PathGenerator,
    StraightLine,
    Vocabulary,
)
from captum_dig.testing import ContractError, check_anchor_search, check_path

INPUTS = torch.randn(3, 4, 6, generator=torch.Generator().manual_seed(1))
BASELINES = torch.randn(3, 4, 6, generator=torch.Generator().manual_seed(2))


class Bend(PathGenerator):
    """Ten lines: half of the way along the straight line, then coordinate by coordinate."""

    monotone = True

    def knots(self, inputs, baselines):
        middle = (inputs + baselines) / 2
        even = torch.arange(inputs.shape[-1], device=inputs.device) % 2 == 0
        return torch.stack([baselines, middle, torch.where(even, inputs, middle), inputs])


def test_a_path_of_ten_lines_passes():
    check_path(Bend(), INPUTS, BASELINES)
    check_path(Bend(), INPUTS[:, 0], BASELINES[:, 0])


class Answer(PathGenerator):
    def __init__(self, answer):
        self.answer = answer

    def knots(self, inputs, baselines):
        return self.answer(inputs, baselines)


class Promise(Answer):
    monotone = True


class Unchecked(PathGenerator):
    def knots(self, inputs, baselines):
        return torch.stack([baselines, inputs])

    def __call__(self, inputs, baselines):  # type: ignore[misc]
        return self.knots(inputs, baselines)


def shifted(inputs, baselines):
    """Everything takes a detour, also what has nowhere to go."""
    return torch.stack([baselines, baselines + 1, inputs])


def centred(inputs, baselines):
    return torch.stack([baselines, (inputs + baselines) / 2 + (inputs - baselines) * inputs.mean(), inputs])


def mixed(inputs, baselines):
    return torch.stack([baselines + (inputs - baselines) * k / len(inputs) for k in range(len(inputs))] + [inputs])


def noisy(inputs, baselines):
    return torch.stack([baselines, inputs + torch.randn_like(inputs), inputs])


def forgetful(inputs, baselines):
    inputs[0, 0] = 0
    return torch.stack([baselines, inputs])


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (Answer(lambda x, b: [b, x]), "Answer: Answer.knots must return a tensor or a Polyline, got list"),
        (Answer(lambda x, b: torch.stack([b, x * 0.99])), "the last knot of Answer must equal the inputs exactly"),
        (Answer(lambda x, b: torch.stack([b, x / 0, x])), "Answer.knots must be finite"),
        (Promise(shifted), "Promise declares monotone = True, but a coordinate of its knots turns back"),
        (
            Answer(lambda x, b: torch.stack([b, b + torch.linspace(0, 1, x.shape[-1]) * (x - b), x])),
            "Answer in torch.float16: Answer.knots must keep the dtype",
        ),
        (Answer(noisy), "Answer.knots must be the same at every call; draw random numbers from a seed of its own; got"),
        (Answer(centred), "must not let the other examples of a batch change the path of an example; got a difference"),
        (Answer(mixed), "must not let the other examples .*; got a difference of"),
        (Answer(shifted), "Answer.knots must stay where an input equals its baseline, got a way of 1; special tokens"),
        (Answer(forgetful), "Answer.knots must not change its inputs; work on a copy"),
        (Unchecked(), "Unchecked must leave __call__ alone, which checks the knots; write knots instead"),
        (lambda x, b: torch.stack([b, x]), "function must be a PathGenerator; derive it from captum_dig.PathGenerator"),
    ],
)
def test_a_broken_path_is_told_what_it_breaks(path, message):
    with pytest.raises(ContractError, match=message):
        check_path(path, INPUTS.clone(), BASELINES.clone())


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        ("linear", "must give the exact attributions of a linear function, got an error of 50 % with 1 steps"),
        ("smooth", "must give attributions that add up to the change of a smooth function, got a delta of 0.*"),
    ],
)
def test_attributions_are_tried(problem, message, monkeypatch):
    true = DiscretizedIntegratedGradients.attribute

    def wrong(self, *arguments, **options):
        result = true(self, *arguments, **options)
        if options.get("return_convergence_delta"):
            return result[0], result[1] + 0.25
        return result / 2 if problem == "linear" else result

    monkeypatch.setattr(DiscretizedIntegratedGradients, "attribute", wrong)
    with pytest.raises(ContractError, match=message):
        check_path(StraightLine(), INPUTS, BASELINES)


def test_what_a_path_is_tried_on():
    with pytest.raises(ValueError, match=r"inputs must have shape \(B, ..., D\) with B >= 2, got \(1, 4, 6\); one"):
        check_path(StraightLine(), INPUTS[:1], BASELINES[:1])
    with pytest.raises(ValueError, match="inputs and baselines must differ, got equal ones"):
        check_path(StraightLine(), INPUTS, INPUTS)


def test_a_vocabulary_makes_a_path_that_passes():
    rows = torch.randn(40, 6, generator=torch.Generator().manual_seed(3))
    path = MonotonicPath(Vocabulary(rows), n_anchors=4, n_neighbors=9)
    check_path(path, rows[torch.arange(12).reshape(3, 4)], rows[20].expand(3, 4, 6))


class Priced(AnchorSearch):
    def __init__(self, price, identity=None):
        self.price = price
        self.name = identity

    def cost(self, neighborhood):
        return self.price(neighborhood)

    @property
    def identity(self):
        return self.name


def distance(neighborhood):
    return (neighborhood.candidates - neighborhood.words[:, None]).norm(dim=-1)


class Unmasked(Greedy):
    def propose(self, vocabulary, word_ids, n_neighbors, n_anchors, candidates):
        return super().propose(vocabulary, word_ids, n_neighbors, n_anchors, None)


def overwriting(neighborhood):
    neighborhood.candidates.mul_(2)
    return distance(neighborhood)


def test_a_search_of_three_lines_passes():
    check_anchor_search(Priced(distance))
    check_anchor_search(Priced(lambda n: -distance(n), identity="farthest"), n_anchors=3, n_neighbors=500)


@pytest.mark.parametrize(
    ("search", "message"),
    [
        (Priced(lambda n: distance(n)[:, :2]), r"Priced.cost must return shape \(7, 20\), got \(7, 2\)"),
        (Priced(lambda n: distance(n) * torch.nan), "Priced.cost must not return NaN"),
        (Priced(lambda n: torch.rand(n.candidate_ids.shape)), "Priced.cost must be the same at every call"),
        (Priced(lambda n: distance(n) - n.words.mean()), "Priced.cost must not let other words change the costs"),
        (Priced(overwriting), "Priced.cost must not change the neighborhood's candidates; work on a copy"),
        (Priced(distance, identity=3), "Priced.identity must be a string or None, got 3"),
        (Unmasked(), "Unmasked must keep to the candidates, got row 3, which the mask excludes"),
        (distance, "function must be an AnchorSearch; derive it from captum_dig.AnchorSearch"),
    ],
)
def test_a_broken_search_is_told_what_it_breaks(search, message):
    with pytest.raises(ContractError, match=message):
        check_anchor_search(search)


def test_what_a_search_is_tried_on():
    with pytest.raises(ValueError, match="vocabulary must have at least 8 different rows, got 3"):
        check_anchor_search(Greedy(), Vocabulary(torch.eye(3)))
    with pytest.raises(ValueError, match="n_anchors must be an integer of at least 1, got 0"):
        check_anchor_search(Greedy(), n_anchors=0)


def test_a_contract_error_is_an_assertion_and_one_of_ours():
    assert issubclass(ContractError, AssertionError)
    assert issubclass(ContractError, CaptumDigError)
