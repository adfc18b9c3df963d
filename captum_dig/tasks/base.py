"""Task: how a sample is read, and which number of the model's output is explained.

Takes a sample and the output of a model; gives encodings, and for each encoding the place of one scalar.
`captum_dig.text` makes a `Question` about that scalar.
"""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, final

from torch import Tensor, nn

from captum_dig.checks import as_index, one_of
from captum_dig.errors import ModelError, TaskError
from captum_dig.models.encoding import Encoding, TextEncoder
from captum_dig.models.samples import Overflow, SampleForm
from captum_dig.models.words import Span


@dataclass(frozen=True)
class Choice:
    """One number to explain.

    Attributes:
        row: The index of its encoding in the batch.
        place: The place of the number in the output of that row, as integers of at least 0: for a label its index.
        target: The index of its name in `labels`.
        labels: The names of the numbers that the model decides between, or only that of this one.
        probabilities: The probability of each of them; NaN for one without.
        span: Start and end of the part of the text that it is about, such as an entity; None for the whole text.
    """

    row: int
    place: tuple[int, ...]
    target: int
    labels: tuple[str, ...]
    probabilities: tuple[float, ...]
    span: Span | None = None


class Task(ABC):
    """A kind of question about texts. Subclasses implement `choose` and `value`, and may read other samples.

    Attributes:
        auto_class: The class of Transformers that loads a model for this task.
        kind: The name of such a model in messages.
        pipeline: The name of the class of Transformers' pipelines for this task; empty where there is none.
        form: The fields of a sample.
        long: The field that is cut where a sample is too long; None for the longest, and for the last in windows.
        overlap: The number of tokens that neighbouring windows share, as in `TextEncoder.encode`.
        joint: Whether `choose` compares all encodings of a sample, so that they share a batch.
        positional: Whether the place of the number depends on the positions of tokens, so that none may be deleted.
        seeks_padding: Whether the model looks for a padding token to find the end of a text, as decoders do for labels.
        output: The name of the explained number: ``"logit"``, ``"value"``.
        labels: The names of the numbers that can be explained, where they are the same for each text.
        fields: The fields of a sample whose words are scored; the others keep their embeddings.

    Args:
        model: The model.
        output: The number to explain, where the task has several; None for its own.
        fields: The fields to score, one or several; None for the task's own.

    Raises:
        ModelError: If the model does not fit this task.
        ValueError: If the task has no such number or field.
    """

    auto_class: ClassVar[str]
    kind: ClassVar[str] = "model"
    pipeline: ClassVar[str] = ""
    form: ClassVar[SampleForm] = SampleForm()
    long: ClassVar[str | None] = None
    overlap: ClassVar[int] = 0
    joint: ClassVar[bool] = False
    positional: ClassVar[bool] = False
    seeks_padding: ClassVar[bool] = False
    output: str = "logit"
    labels: tuple[str, ...] = ()

    def __init__(self, model: nn.Module, output: str | None = None, fields: str | Sequence[str] | None = None) -> None:
        self.model = model
        if output is not None:
            self.output = one_of("output", output, self.outputs)
        named = [fields] if isinstance(fields, str) else self.scored if fields is None else list(fields)
        self.fields = tuple(one_of("fields", field, self.shown) for field in named)
        if not self.fields:
            raise ValueError(f"fields must name at least one of {', '.join(self.shown)}, got none")

    @classmethod
    def classes(cls) -> tuple[str, ...]:
        """Return the ends of the names of Transformers' classes for this task."""
        return (cls.auto_class.removeprefix("AutoModel"),)

    @property
    def shown(self) -> tuple[str, ...]:
        """The fields that the model reads: by default those of a sample."""
        return self.form.names

    @property
    def scored(self) -> tuple[str, ...]:
        """The fields that are scored by default: all."""
        return self.shown

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of the numbers that can be explained: by default only one."""
        return (self.output,)

    @classmethod
    def make(cls, model: nn.Module, tokenizer: Any, **options: Any) -> "Task":
        """Make a task of this class; one that looks up words gets the tokenizer, too.

        Args:
            model: The model.
            tokenizer: Its tokenizer.
            options: Further arguments.

        Raises:
            TaskError: If the class has no such argument.
        """
        known = list(inspect.signature(cls).parameters)[1:]
        own = [name for name in known if name != "tokenizer"]
        if unknown := [name for name in options if name not in own]:
            raise TaskError(
                f"TextExplainer must have only its own arguments and those of the task, {', '.join(own)} "
                f"for {cls.__name__}, got {unknown[0]!r}"
            )
        made: Any = cls
        task: Task = made(model, **options | ({"tokenizer": tokenizer} if "tokenizer" in known else {}))
        return task

    def __repr__(self) -> str:
        told = {name: value for name, value in vars(self).items() if not name.startswith("_") and _is_plain(value)}
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in told.items())})"

    def read(self, sample: Mapping[str, str], encoder: TextEncoder, overflow: Overflow, name: str) -> list[Encoding]:
        """Encode one sample.

        Args:
            sample: The texts of the sample by the names of their fields.
            encoder: The tokenizer.
            overflow: As in `TextEncoder.encode`.
            name: The name of the sample in messages.

        Returns:
            One encoding, or one for each window.

        Raises:
            ValueError: As in `TextEncoder.encode`, or if the sample has none of the fields to score.
        """
        fixed = [field for field in sample if field not in self.fields]
        if len(fixed) == len(sample):
            raise ValueError(
                f"{name} must have a field to score, one of {', '.join(self.fields)}, got {', '.join(sample)}"
            )
        return encoder.encode(sample, overflow, name, fixed=fixed, long=self.long, overlap=self.overlap)

    def label_index(self, wanted: Any) -> int | None:
        """Find one of `labels` by its name, in any case, or its index; None for ``"predicted"``.

        Args:
            wanted: The `target` of the user.

        Raises:
            ValueError: If there is no such label; the message lists them.
        """
        if isinstance(wanted, str) and wanted == "predicted":
            return None
        if isinstance(wanted, str):
            if wanted in self.labels:
                return self.labels.index(wanted)
            folded = [name.casefold() for name in self.labels]
            if folded.count(wanted.casefold()) == 1:
                return folded.index(wanted.casefold())
        index = as_index(wanted)
        if index is None or index >= len(self.labels):
            names = ", ".join(map(repr, self.labels))
            raise ValueError(
                f"target must be 'predicted', one of {names}, or an index below {len(self.labels)}, got {wanted!r}"
            )
        return index

    def resolve(self, wanted: Any) -> Any:
        """Check the wanted target before a model runs; `choose` gets the result.

        Args:
            wanted: The `target` of the user; ``"predicted"`` by default.

        Raises:
            ValueError: If there is no such target.
        """
        return wanted

    def several(self, wanted: Any) -> bool:  # noqa: ARG002 - most tasks have one number for each text
        """Whether a text may have several numbers, or none, for the `target` of the user; a result is then a list."""
        return False

    def against(self, wanted: Any, contrast: Any) -> Any:  # noqa: ARG002 - by default there is no second one
        """Check the wanted target and another one, to explain why the first and not the second.

        Args:
            wanted: The `target` of the user.
            contrast: The other target.

        Raises:
            ValueError: If there is no such target, or the task compares none; by default it does not.
        """
        raise ValueError(f"contrast must be None for {type(self).__name__}, got {contrast!r}; it has no two labels")

    def check_measurable(self) -> None:  # noqa: B027 - most tasks have them
        """Require log-probabilities, which the faithfulness measures of a comparison need.

        Raises:
            ModelError: If the model has none.
        """

    def part_of(self, output: Any, name: str, *shape: str | int) -> Tensor:
        """Return a tensor of a model's output by its name, and check its shape.

        Args:
            output: The output of the model.
            name: The name, such as ``"logits"``.
            shape: For each dimension its size, or a letter where the size is free.

        Raises:
            ModelError: If there is no such tensor.
        """
        found = getattr(output, name, None)
        if isinstance(found, Tensor) and _fits(found.shape, shape):
            return found
        got = tuple(found.shape) if isinstance(found, Tensor) else type(output).__name__
        raise ModelError(
            f"model must give {name} of shape ({', '.join(map(str, shape))}), got {got} from "
            f"{type(self.model).__name__}; pass a {self.kind}"
        )

    @abstractmethod
    def choose(self, output: Any, encodings: Sequence[Encoding], wanted: Sequence[Any]) -> list[Choice]:
        """Choose the numbers to explain, in order of the rows: one for each encoding, or for each sample if `joint`.

        A task where `several` holds may choose more of them, or none.

        Args:
            output: The output of the model for the encodings, a batch of B.
            encodings: The inputs of the model.
            wanted: The result of `resolve` for each of them.
        """

    @abstractmethod
    def value(self, output: Any, places: Tensor) -> Tensor:
        """Pick the explained numbers out of an output, shape (N,), with gradients.

        Args:
            output: The output of the model for N rows.
            places: The place of each number, shape (N, P).
        """

    def inputs_for(self, encodings: Sequence[Encoding]) -> dict[str, Tensor]:  # noqa: ARG002 - most models need none
        """Return further inputs of the model for the output that `choose` gets, such as the input of a decoder.

        Args:
            encodings: The texts, a batch of B.
        """
        return {}

    def keywords(self, places: Tensor) -> dict[str, Any]:  # noqa: ARG002 - most models compute no more than is needed
        """Return further arguments of the model, for instance to compute only a part of its output.

        Args:
            places: The places of the numbers that `value` gets with that output, shape (N, P).
        """
        return {}

    def log_probability(self, output: Any, places: Tensor) -> Tensor | None:  # noqa: ARG002 - by default there is none
        """Pick the log-probabilities of the explained numbers, shape (N,); None where they have no meaning."""
        return None

    @final
    def __call__(self, output: Any, places: Tensor) -> Tensor:
        """Pick the explained numbers and check them.

        Args:
            output: The output of the model for N rows.
            places: The place of each number, shape (N, P).

        Returns:
            The numbers, shape (N,).

        Raises:
            ModelError: If the subclass returned another shape.
        """
        values = self.value(output, places)
        if not isinstance(values, Tensor) or values.shape != (len(places),):
            got = tuple(values.shape) if isinstance(values, Tensor) else type(values).__name__
            raise ModelError(f"{type(self).__name__}.value must return shape ({len(places)},), got {got}")
        return values


def _fits(sizes: Sequence[int], shape: Sequence[str | int]) -> bool:
    """Whether sizes are those of a shape, whose letters stand for any size."""
    return len(sizes) == len(shape) and all(
        isinstance(want, str) or want == size for want, size in zip(shape, sizes, strict=True)
    )


def _is_plain(value: object) -> bool:
    """Whether a value says all about itself by its `repr`."""
    if isinstance(value, tuple):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, str | int | float)
