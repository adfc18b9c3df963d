"""From encoded texts to a `Question` for each baseline.

Takes a model, a task and the texts of a batch; gives the questions, and the predicted probabilities.
`captum_dig.text.batches` and `captum_dig.comparison` pass the questions to attribution methods.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import torch
from torch import Tensor, nn

from captum_dig.errors import ModelError
from captum_dig.models.encoding import Encoding, TextEncoder
from captum_dig.models.model import TextModel
from captum_dig.models.question import Question
from captum_dig.tasks.base import Choice, Task

# The name of the baseline that is chosen for each text.
EVEN: Final = "even"


class ScalarModel(nn.Module):
    """A text model as a function of embeddings, places, and the other columns of its input, in this order.

    Args:
        model: The model.
        names: The names of the columns for the model.
        pick: From the output of the model and places to one number for each row, such as a `Task`.
        keywords: From places to further arguments of the model, as `Task.keywords`; None for none.
    """

    def __init__(
        self,
        model: TextModel,
        names: Sequence[str],
        pick: Callable[[Any, Tensor], Tensor],
        keywords: Callable[[Tensor], dict[str, Any]] | None = None,
    ) -> None:
        super().__init__()
        # Captum searches this attribute for modules to hook.
        self.model = model.model
        self._text_model, self._names, self._pick, self._keywords = model, tuple(names), pick, keywords

    def forward(self, embeddings: Tensor, places: Tensor, *columns: Tensor) -> Tensor:
        """Return one number for each row, shape (N,)."""
        keywords = {} if self._keywords is None else self._keywords(places)
        output = self._text_model.output_from(embeddings, **dict(zip(self._names, columns, strict=True)), **keywords)
        return self._pick(output, places)


@dataclass(frozen=True)
class Questions:
    """The same numbers of the same texts, asked from each baseline.

    Attributes:
        by_baseline: A question for each baseline; its rows are those of `choices`. Empty where there are none.
        choices: The explained numbers, in order of the texts.
        names: The names of the columns for the model.
    """

    by_baseline: tuple[Question, ...]
    choices: tuple[Choice, ...]
    names: tuple[str, ...]


def ask(
    model: TextModel,
    task: Task,
    encoder: TextEncoder,
    baseline_ids: Sequence[int],
    encodings: Sequence[Encoding],
    wanted: Sequence[Any],
) -> Questions:
    """Embed the texts of a batch and their baselines, and choose the numbers to explain.

    Args:
        model: The model; the caller holds its lock.
        task: The task.
        encoder: The tokenizer.
        baseline_ids: The row that every word becomes in each baseline.
        encodings: The texts as the model reads them.
        wanted: The result of `Task.resolve` for each text.

    Returns:
        The questions.

    Raises:
        ModelError: If the model's output is not finite, or does not fit the task.
    """
    inputs = {name: tensor.to(model.device) for name, tensor in encoder.pad(encodings).items()}
    ids, lengths = inputs["input_ids"], [len(encoding.ids) for encoding in encodings]
    fixed = ids.new_tensor([[*e.special, *[True] * (ids.shape[1] - len(e.ids))] for e in encodings], dtype=torch.bool)
    ends = model.embed(ids)
    with torch.no_grad():
        output = model.output_from(ends, **inputs, **task.inputs_for(encodings))
    choices = task.choose(output, encodings, wanted)
    if not choices:
        return Questions((), (), tuple(inputs))
    width = max(len(choice.place) for choice in choices)
    places = ids.new_tensor(
        [(*choice.place, *[-1] * (width - len(choice.place))) for choice in choices], dtype=torch.int64
    )
    rows = ids.new_tensor([choice.row for choice in choices], dtype=torch.int64)
    everyone = torch.equal(rows, torch.arange(len(ids), device=ids.device))
    forward = ScalarModel(model, tuple(inputs), task, task.keywords)
    words = word_numbers(encodings, ids.shape[1])
    questions = []
    at_input = task(output, places).detach().float() if everyone else None
    for baseline_id in baseline_ids:
        question = Question(
            forward,
            inputs=ends[rows],
            baselines=model.embed(torch.where(fixed, ids, baseline_id))[rows],
            places=places,
            columns=tuple(column[rows] for column in inputs.values()),
            fixed=fixed[rows],
            words=words[rows.cpu()],
            lengths=torch.tensor(lengths, dtype=torch.int64, device="cpu")[rows.cpu()],
            at_input=at_input,
        )
        at_input, at_baseline = question.ends(len(ids))
        questions.append(replace(question, at_input=at_input, at_baseline=at_baseline))
    known = torch.stack([end for q in questions for end in (q.at_input, q.at_baseline) if end is not None])
    if not bool(known.isfinite().all()):
        raise ModelError(
            f"the output of {model.name} must be finite, got NaN or infinity; check its weights, or load it in float32"
        )
    return Questions(tuple(questions), tuple(choices), tuple(inputs))


def ask_from_even(
    model: TextModel,
    task: Task,
    encoder: TextEncoder,
    candidates: Sequence[int],
    encodings: Sequence[Encoding],
    wanted: Sequence[Any],
) -> tuple[Questions, tuple[int, ...]]:
    """Ask one sample from the baseline at which its first number is nearest to even odds.

    Args:
        model: The model; the caller holds its lock.
        task: The task.
        encoder: The tokenizer.
        candidates: The rows that words may become.
        encodings: The encodings of the sample.
        wanted: The result of `Task.resolve` for each of them.

    Returns:
        The questions, and the row that was chosen; all candidates where there is no number to explain.

    Raises:
        ModelError: As in `ask` and `nearest_to_even`.
    """
    questions = ask(model, task, encoder, candidates, encodings, wanted)
    if not questions.choices:
        return questions, tuple(candidates)
    best, _ = nearest_to_even(model, task, questions, candidates)
    return replace(questions, by_baseline=(questions.by_baseline[candidates.index(best)],)), (best,)


def nearest_to_even(
    model: TextModel, task: Task, questions: Questions, candidates: Sequence[int], row: int = 0
) -> tuple[int, float]:
    """Find the baseline at which an explained number is nearest to even odds.

    Args:
        model: The model; the caller holds its lock.
        task: The task.
        questions: The questions, from any baseline.
        candidates: The rows that words may become.
        row: The number of the choice.

    Returns:
        The row, and the probability there.

    Raises:
        ModelError: If the model has no probability.
    """
    question = questions.by_baseline[0].take(torch.tensor([row], device=questions.by_baseline[0].inputs.device))
    ids = dict(zip(questions.names, question.columns, strict=True))["input_ids"]
    forward = ScalarModel(
        model, questions.names, lambda output, places: probable(task.log_probability(output, places)), task.keywords
    )
    found = []
    for candidate in candidates:
        baseline = model.embed(torch.where(question.fixed, ids, candidate))
        with torch.no_grad():
            found.append(float(forward(baseline, *question.arguments).float().exp()))
    best = min(range(len(candidates)), key=lambda i: abs(found[i] - 0.5))
    return candidates[best], found[best]


def probable(found: Tensor | None) -> Tensor:
    """Require log-probabilities.

    Raises:
        ModelError: If a task has none.
    """
    if found is None:
        raise ModelError("task must give log-probabilities to be compared, got None; use captum_dig.metrics")
    return found


def check_ids(encoding: Encoding, n_rows: int, name: str) -> None:
    """Require a row of the embedding layer for every token.

    Args:
        encoding: The text as the model reads it.
        n_rows: The number of rows.
        name: The name of the text in messages.

    Raises:
        ModelError: If a token has none.
    """
    for token, token_id in zip(encoding.tokens, encoding.ids, strict=True):
        if token_id >= n_rows:
            raise ModelError(
                f"model must have a row for every token, got {token!r} in {name} with id {token_id} "
                f"and {n_rows} rows; call model.resize_token_embeddings(len(tokenizer)) and train it"
            )


def word_numbers(encodings: Sequence[Encoding], n_tokens: int) -> Tensor:
    """The number of the word that each token belongs to, shape (B, T); -1 for special tokens and padding."""
    numbers = torch.full((len(encodings), n_tokens), -1, dtype=torch.int64, device="cpu")
    for row, encoding in zip(numbers, encodings, strict=True):
        for number, word in enumerate(encoding.words):
            row[list(word)] = number
    return numbers
