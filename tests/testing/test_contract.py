"""The contracts of methods, measures and tasks: all of the catalogue pass, and each broken one is told what it breaks."""

import itertools
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from captum_dig import AttributionMethod, Measure, ModelError, Task, Vocabulary
from captum_dig.catalogue import CATALOGUE
from captum_dig.methods import NamedMethods
from captum_dig.metrics.measures import load_measure
from captum_dig.paths import Walk
from captum_dig.tasks.labels import LabelTask
from captum_dig.testing import ContractError, check_measure, check_method, check_task
from captum_dig.testing.measures import toy_trials

SAMPLES = ["a gorgeous, witty movie", "dull", "the acting was bad"]
MEASURES = [entry for entry in CATALOGUE if entry.kind == "measure"]

# ---------------------------------------------------------------------------------------- methods


@pytest.fixture(scope="module")
def named():
    vocabulary = Vocabulary(torch.randn(60, 6, generator=torch.Generator().manual_seed(3)))
    return NamedMethods(lambda: Walk.over(vocabulary, n_anchors=3, n_neighbors=8), seed=1)


@pytest.mark.parametrize("name", CATALOGUE.names("search", "path", "method"))
def test_every_method_keeps_its_contract(named, name):
    check_method(named.find(name))


class Length(AttributionMethod):
    name = "length"

    def scores(self, question, plan):
        return question.inputs.norm(dim=-1)


class Scoring(Length):
    """The scores of a function."""

    def __init__(self, function, **attributes):
        self.function = function
        vars(self).update(attributes)

    def scores(self, question, plan):
        return self.function(question)


class Unchecked(Length):
    def __call__(self, question, plan):  # type: ignore[misc]
        return self.scores(question, plan)


def overwriting(question):
    question.inputs.zero_()
    return question.inputs.norm(dim=-1)


def test_a_method_of_three_lines_passes():
    check_method(Length())


@pytest.mark.parametrize(
    ("method", "message"),
    [
        (len, "builtin_function_or_method must be an AttributionMethod; derive it from"),
        (Unchecked(), "Unchecked must leave __call__ alone, which checks the scores; write scores instead"),
        (Scoring(lambda q: q.inputs[..., 0], name=""), "Scoring must have a name, a string that is not empty"),
        (Scoring(lambda q: q.inputs), r"Scoring: length must score every token, shape \(3, 5\), got \(3, 5, 4\)"),
        (Scoring(lambda q: q.inputs.norm(dim=-1) / 0), "Scoring: length must give finite scores, got NaN or infinity"),
        (Scoring(overwriting), "Scoring.scores must not change the question; work on a copy; got a difference"),
        (Scoring(lambda q: torch.rand(q.fixed.shape)), "Scoring.scores must be the same at every call; draw random"),
        (
            Scoring(lambda q: q.inputs.norm(dim=-1) - q.inputs.norm(dim=-1).mean()),
            "Scoring.scores must not let other texts change the scores of a text; got a difference",
        ),
        (Scoring(lambda q: q.inputs.norm(dim=-1), completes=True), "Scoring claims completes = True, so its scores of"),
    ],
)
def test_a_broken_method_is_told_what_it_breaks(method, message):
    with pytest.raises(ContractError, match=message):
        check_method(method)


# ---------------------------------------------------------------------------------------- measures


@pytest.mark.parametrize("entry", MEASURES, ids=lambda entry: entry.name)
def test_every_measure_keeps_its_contract(entry):
    measure = load_measure(entry)
    check_measure(measure)
    assert (measure.name, measure.title) == (entry.name, entry.title)


def test_the_trials_of_the_contract_have_estimated_errors_along_paths():
    found = load_measure(CATALOGUE.find("error_percent", "measure"))(toy_trials())
    assert [one is None for one in found] == [False, False, True, True]
    assert found[1][0] > 0


class Largest(Measure):
    name = title = "largest"

    def values(self, trials):
        return [(float(trial.scores.max()),) for trial in trials.trials]


class Measuring(Largest):
    """The values of a function."""

    def __init__(self, function=None, **attributes):
        self.function = function
        vars(self).update(attributes)

    def values(self, trials):
        return self.function(trials)


def each(number):
    return Measuring(lambda trials: [(number,) for _ in trials.trials])


def overwritten(trials):
    for trial in trials.trials:
        trial.scores.zero_()
    return [None for _ in trials.trials]


CALLS = itertools.count()


def test_a_measure_of_three_lines_passes():
    check_measure(Largest())
    check_measure(each(float("nan")))


@pytest.mark.parametrize(
    ("measure", "message"),
    [
        (len, "builtin_function_or_method must be a Measure; derive it from captum_dig.Measure"),
        (Measuring(name=3), "Measuring must have a name, a string that is not empty"),
        (Measuring(title=""), "Measuring must have a title, a string that is not empty"),
        (Measuring(better=2), "Measuring.better must be -1, 0 or 1, got 2"),
        (Measuring(lambda trials: [(1.0,)]), "Measuring.values must return 1 numbers, or None, for each of the 4"),
        (Measuring(lambda trials: [(1.0, 2.0)] * 4), "Measuring.values must return 1 numbers"),
        (Measuring(lambda trials: [(1.0,)] * 4, by_fraction=True), "Measuring.values must return 2 numbers"),
        (Measuring(overwritten), "Measuring.values must not change the scores; work on a copy"),
        (each(float("inf")), "Measuring.values must give finite numbers or NaN"),
        (
            Measuring(lambda trials: [(float(next(CALLS)),) for _ in trials.trials]),
            "Measuring.values must be the same at every call",
        ),
        (
            Measuring(lambda trials: [(float(number),) for number, _ in enumerate(trials.trials)]),
            "Measuring.values must not depend on the order of the trials",
        ),
    ],
)
def test_a_broken_measure_is_told_what_it_breaks(measure, message):
    with pytest.raises(ContractError, match=message):
        check_measure(measure)


# ---------------------------------------------------------------------------------------- tasks


def test_the_task_of_labels_keeps_its_contract(classifier, tokenizer):
    check_task(LabelTask, classifier, tokenizer, SAMPLES)


def altered(**methods):
    return type("Altered", (LabelTask,), methods)


def chosen(change):
    return lambda self, output, encodings, wanted: change(LabelTask.choose(self, output, encodings, wanted))


def shifted_target(choices):
    return [replace(choice, target=2) for choice in choices]


def read_more(self, sample, encoder, overflow, name):
    self.n_read = getattr(self, "n_read", 0) + 1
    return LabelTask.read(self, {"text": f"{sample['text']} {'so ' * self.n_read}"}, encoder, overflow, name)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (SimpleNamespace, "SimpleNamespace must be a Task; derive it from captum_dig.Task"),
        (altered(__call__=lambda *_: None), "Altered must leave __call__ alone, which checks the numbers; write value"),
        (altered(read=lambda *_: []), "Altered.read must give encodings, the same at every call, got"),
        (altered(read=read_more), "Altered.read must give encodings, the same at every call, got"),
        (altered(choose=chosen(lambda c: c[:2])), "Altered.choose must give each of the 3 texts a choice, in order"),
        (altered(choose=chosen(lambda c: c[::-1])), r"Altered.choose must give .*, in order, got rows \[2, 1, 0\]"),
        (altered(choose=chosen(shifted_target)), "Altered.choose must name one of the 2 labels, got 2"),
        (altered(value=lambda self, output, places: output.logits), "Altered: Altered.value must return shape"),
        (
            altered(value=lambda self, output, places: output.logits[:, 0] / 0),
            "Altered: the output of .* must be finite, got NaN or infinity",
        ),
        (
            altered(value=lambda self, output, places: output.logits[:, 0].detach().requires_grad_()),
            "Altered.value must have a finite gradient; pick it from the output without detaching",
        ),
        (
            altered(value=lambda self, output, places: output.logits[:, 0] + torch.rand(len(places))),
            "Altered.value must be the same at every call",
        ),
        (
            altered(value=lambda self, output, places: output.logits[:, 0] - output.logits[:, 0].mean()),
            "Altered.value must not let other texts or padding change a number",
        ),
        (
            altered(probabilities=lambda self, output: output.logits[:, :1].sigmoid()),
            r"Altered.choose must give each label a probability in \[0, 1\], or NaN, got \(0\.\d+,\) for \('NEG",
        ),
        (
            altered(probabilities=lambda self, output: output.logits.exp() + 1),
            r"Altered.choose must give each label a probability in \[0, 1\], or NaN",
        ),
        (
            altered(log_probability=lambda self, output, places: output.logits[:, 0] ** 2 + 1),
            r"Altered.log_probability must give numbers of at most 0, shape \(N,\)",
        ),
        (
            altered(log_probability=lambda self, output, places: output.logits.log_softmax(dim=1)),
            r"Altered.log_probability must give numbers of at most 0, shape \(N,\)",
        ),
    ],
)
def test_a_broken_task_is_told_what_it_breaks(kind, message, classifier, tokenizer):
    with pytest.raises(ContractError, match=message):
        check_task(kind, classifier, tokenizer, SAMPLES)


def test_one_text_cannot_show_a_batch(classifier, tokenizer):
    with pytest.raises(ValueError, match="samples must hold at least two samples, got 1; one cannot show a batch"):
        check_task(LabelTask, classifier, tokenizer, SAMPLES[:1])


def test_a_task_without_probabilities_passes(classifier, tokenizer):
    class Plain(LabelTask):
        def log_probability(self, output, places):
            return None

        def probabilities(self, output):
            return torch.full_like(output.logits, torch.nan)

    check_task(Plain, classifier, tokenizer, SAMPLES)


@pytest.mark.parametrize("problem", ["regression", "multi_label_classification"])
def test_labels_of_every_kind_keep_the_contract(problem, classifier, tokenizer, monkeypatch):
    monkeypatch.setattr(classifier.config, "problem_type", problem)
    check_task(LabelTask, classifier, tokenizer, SAMPLES)
    if problem == "regression":
        with pytest.raises(ModelError, match="model must have probabilities, got a regression"):
            LabelTask(classifier).check_measurable()
    else:
        LabelTask(classifier).check_measurable()


def test_a_task_says_by_itself_what_it_broke():
    class Half(Task):
        def choose(self, output, encodings, wanted):
            return []

        def value(self, output, places):
            return output.sum()

    with pytest.raises(ModelError, match=r"Half.value must return shape \(2,\), got \(\)"):
        Half(torch.nn.Identity())(torch.ones(3), torch.zeros(2, 1))
    assert repr(Half(torch.nn.Identity())) == "Half(fields=('text',))"
