"""The contract of `Task`.

Takes a class of tasks and a model; raises an error if the class breaks a promise. For the tests of plug-ins.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from captum_dig.errors import ModelError
from captum_dig.models.encoding import Encoding, TextEncoder
from captum_dig.models.model import TextModel
from captum_dig.models.samples import as_samples
from captum_dig.tasks.base import Task
from captum_dig.testing.contract import ContractError, must_be_close, must_be_equal
from captum_dig.text.questions import Questions, ask


def check_task(
    kind: type[Task], model: Any, tokenizer: Any, samples: Sequence[Any], *, tolerance: float = 1e-4, **options: Any
) -> None:
    """Check every promise of a task to explanations.

    - Each sample is read as at least one encoding, the same at every call.
    - Each sample gets at least one choice, in order, with a label.
    - The explained number has a gradient, is the same at every call, and in a padded batch the same as alone.
    - Probabilities lie in [0, 1], and log-probabilities are not above 0.

    Args:
        kind: The class of the task.
        model: A Hugging Face model for it.
        tokenizer: The tokenizer of the model.
        samples: At least two samples, of different lengths.
        tolerance: How far numbers in a batch may differ from those alone.
        options: Further arguments of the task.

    Raises:
        ContractError: If a promise is broken; the message says which.
        ValueError: If there are fewer than two samples.
    """
    if len(samples) < 2:
        raise ValueError(f"samples must hold at least two samples, got {len(samples)}; one cannot show a batch")
    name = getattr(kind, "__name__", repr(kind))
    if not isinstance(kind, type) or not issubclass(kind, Task):
        raise ContractError(f"{name} must be a Task; derive it from captum_dig.Task")
    if kind.__call__ is not Task.__call__:
        raise ContractError(f"{name} must leave __call__ alone, which checks the numbers; write value instead")
    text_model, task = TextModel(model), kind.make(model, tokenizer, **options)
    encoder = TextEncoder(tokenizer, text_model.max_tokens(tokenizer))
    groups = []
    for number, sample in enumerate(as_samples(samples, task.form)):
        read = task.read(sample, encoder, "truncate", f"sample {number}")
        if not read or read != task.read(sample, encoder, "truncate", f"sample {number}"):
            raise ContractError(f"{name}.read must give encodings, the same at every call, got {read}")
        groups.append(read if task.joint else read[:1])
    encodings = [encoding for group in groups for encoding in group]
    with text_model.evaluating():
        together = _ask(name, text_model, task, encoder, encodings)
        _check_choices(name, together, [number for number, group in enumerate(groups) for _ in group])
        _check_values(name, together)
        if text_model.hides_padding(encoder, task.inputs_for):
            alone = [_ask(name, text_model, task, encoder, group) for group in groups]
            values = torch.cat([_at_input(one) for one in alone])
            must_be_close(
                f"{name}.value must not let other texts or padding change a number",
                values,
                _at_input(together),
                tolerance,
            )
        _check_log_probability(name, text_model, task, together)


def _ask(name: str, model: TextModel, task: Task, encoder: TextEncoder, encodings: Sequence[Encoding]) -> Questions:
    baseline = next(i for i in (encoder.pad_id, 0) if i is not None)
    try:
        return ask(model, task, encoder, (baseline,), encodings, [task.resolve("predicted")] * len(encodings))
    except ModelError as error:
        raise ContractError(f"{name}: {error}") from error


def _at_input(questions: Questions) -> Tensor:
    return questions.by_baseline[0].ends(rows_at_once=64)[0]


def _check_choices(name: str, questions: Questions, samples: Sequence[int]) -> None:
    rows = [choice.row for choice in questions.choices]
    found = [samples[row] for row in rows if 0 <= row < len(samples)]
    if rows != sorted(rows) or len(found) != len(rows) or set(found) != set(samples):
        raise ContractError(
            f"{name}.choose must give each of the {len(set(samples))} texts a choice, in order, got rows {rows}"
        )
    for choice in questions.choices:
        if not 0 <= choice.target < len(choice.labels):
            raise ContractError(f"{name}.choose must name one of the {len(choice.labels)} labels, got {choice.target}")
        if len(choice.probabilities) != len(choice.labels) or any(p < 0 or p > 1 for p in choice.probabilities):
            raise ContractError(
                f"{name}.choose must give each label a probability in [0, 1], or NaN, got {choice.probabilities} "
                f"for {choice.labels}"
            )


def _check_values(name: str, questions: Questions) -> None:
    question = questions.by_baseline[0]
    embeddings = question.inputs.detach().clone().requires_grad_()
    values = question.forward(embeddings, *question.arguments)
    (gradient,) = torch.autograd.grad(values.sum(), embeddings, allow_unused=True)
    if gradient is None or not bool(gradient.isfinite().all()):
        raise ContractError(f"{name}.value must have a finite gradient; pick it from the output without detaching")
    again = question.forward(embeddings, *question.arguments)
    must_be_equal(f"{name}.value must be the same at every call", values.detach(), again.detach())


def _check_log_probability(name: str, model: TextModel, task: Task, questions: Questions) -> None:
    question = questions.by_baseline[0]
    with torch.no_grad():
        columns = dict(zip(questions.names, question.columns, strict=True))
        output = model.output(**columns, **task.keywords(question.places))
        logs = task.log_probability(output, question.places)
    if logs is not None and (logs.shape != (len(question.places),) or bool((logs > 1e-6).any())):
        raise ContractError(f"{name}.log_probability must give numbers of at most 0, shape (N,), got {logs.tolist()}")
