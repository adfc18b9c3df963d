"""TextReader: from samples and targets as a user passes them to encodings with their targets.

Takes samples, checked by the form of the task; gives the parts of each: encodings that belong together, with the
resolved target of each. `captum_dig.text.explainer` feeds a `TextStream` with it.
"""

import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from torch import Tensor

from captum_dig.checks import as_index
from captum_dig.models.encoding import TextEncoder
from captum_dig.models.samples import Overflow, Sample, as_samples, check_several, name_of
from captum_dig.tasks.base import Task
from captum_dig.text.questions import EVEN, check_ids
from captum_dig.text.streams import Batch, Errors

Target: TypeAlias = str | int
Baseline: TypeAlias = str | int


@dataclass(frozen=True)
class TextReader:
    """Read samples for a task.

    Attributes:
        task: The task.
        encoder: The tokenizer.
        n_rows: The number of rows of the model's embedding layer.
        contrast: Another label, whose number is subtracted; None for none.
        overflow: For texts longer than the model reads.
    """

    task: Task
    encoder: TextEncoder
    n_rows: int
    contrast: Target | None = None
    overflow: Overflow = "truncate"

    def pair(
        self, texts: Iterable[Sample], target: Target | Sequence[Target], errors: Errors
    ) -> tuple[Iterable[tuple[Any, Any]], int | None]:
        """Pair each text with its target.

        Args:
            texts: The texts. If their number is known they are checked at once, unless errors are recorded.
            target: The target of all, or one for each.
            errors: Whether errors of a text are raised or recorded.

        Returns:
            The pairs, read lazily, and the number of texts, None if it is not known.

        Raises:
            TypeError: If a text is no sample of the task.
            ValueError: If there are more or fewer targets than texts, or a target is unknown.
        """
        given: Any = target.tolist() if isinstance(target, Tensor | np.ndarray) else target
        several = isinstance(given, Sequence) and not isinstance(given, str)
        check_several(texts, self.task.form)
        n_texts = len(texts) if isinstance(texts, Sized) else None
        if several and n_texts is not None and len(given) != n_texts:
            raise ValueError(f"target must be one class, or one for each of the {n_texts} texts, got {len(given)}")
        if n_texts is not None and errors == "raise":
            as_samples(texts, self.task.form)
        if not several or errors == "raise":
            for one in given if several else [given]:
                self.resolve(one)
        return (_together(texts, given) if several else ((text, given) for text in texts)), n_texts

    def read(self, number: int, given: tuple[Any, Any], n_texts: int | None) -> list[Batch]:
        """Encode a sample, and resolve its target.

        Args:
            number: The place of the sample among all, from 0.
            given: The sample and its target.
            n_texts: The number of samples, for messages; None if it is not known.

        Returns:
            The parts of the sample. Encodings that the task compares are one part.

        Raises:
            TypeError: If it is no sample of the task.
            ValueError: If the text or its target cannot be explained.
            ModelError: If a token has no row.
        """
        sample, target = given
        checked = self.task.form.check(sample, name_of(number, n_texts))
        wanted = self.resolve(target)
        name = "the text" if n_texts == 1 else f"text {number + 1}" + (f" of {n_texts}" if n_texts else "")
        encodings = self.task.read(checked, self.encoder, self.overflow, name)
        for encoding in encodings:
            check_ids(encoding, self.n_rows, name)
        parts = [encodings] if self.task.joint else [[encoding] for encoding in encodings]
        return [(part, [wanted] * len(part)) for part in parts]

    def resolve(self, target: Target) -> Any:
        """Resolve a target by the task, with the contrast."""
        return self.task.resolve(target) if self.contrast is None else self.task.against(target, self.contrast)

    def baselines(self, baseline: Baseline | Sequence[Baseline] | None) -> tuple[tuple[int, ...], bool]:
        """Look up the rows of baselines.

        Args:
            baseline: A token or several, ``"even"``, or None for the tokenizer's own.

        Returns:
            The rows, and whether each text takes one of them, the nearest to even odds.

        Raises:
            ValueError: If there is no such token, or nothing to choose from.
            ModelError: If even odds are asked for, and the task has no probabilities.
        """
        if baseline == EVEN or (isinstance(baseline, Sequence) and list(baseline) == [EVEN]):
            self.task.check_measurable()
            rows = self.encoder.even_candidates()
            if len(rows) < 2:
                raise ValueError(
                    "baseline must be a token, got 'even' for a tokenizer with fewer than two of pad, mask, unk"
                )
            return rows, True
        if baseline is None:
            baseline = self.encoder.default_baseline
        several = baseline if isinstance(baseline, Sequence) and not isinstance(baseline, str) else [baseline]
        if not several:
            raise ValueError("baseline must be a token, or several, got none")
        if EVEN in several:
            raise ValueError(
                f"baseline 'even' must stand alone, got {list(several)!r}; leave the others out, or write 'token:even' "
                "for the word"
            )
        return tuple(self.encoder.token_id("baseline", one, self.n_rows) for one in several), False

    @property
    def contrast_label(self) -> str | None:
        """The name of the other label, which was given by its name or index."""
        if self.contrast is None:
            return None
        index = as_index(self.contrast)
        # A wrong index is an error when targets are resolved.
        return str(self.contrast) if index is None or index >= len(self.task.labels) else self.task.labels[index]


def join(
    task: Task, texts: Sample | Sequence[Sample] | None, fields: Mapping[str, str], owner: type | None = None
) -> Sample | Sequence[Sample]:
    """Put the fields of a single sample together that were passed apart.

    Args:
        task: The task.
        texts: A text, several, or None if all fields are passed apart.
        fields: The fields by name; there may be none.
        owner: The class whose constructor may have been meant, for a message.

    Returns:
        The sample, or the texts as they are.

    Raises:
        TypeError: If a field is unknown, or there is no single text to put it beside.
    """
    form = task.form
    if unknown := [name for name in fields if name not in form.names]:
        meant = owner is not None and unknown[0] in inspect.signature(owner).parameters
        own = f"; it is an argument of {owner.__name__}" if owner is not None and meant else ""
        raise TypeError(
            f"explain has no argument {unknown[0]!r}{own}; the fields of a text are {', '.join(map(repr, form.names))}"
        )
    if texts is None:
        if not fields:
            raise TypeError(f"texts must be {form}, or a sequence of these, got nothing")
        return form.join(None, fields)
    if not fields:
        return texts
    if not isinstance(texts, str):
        raise TypeError(
            f"texts must be one string beside {', '.join(map(repr, fields))}, got {type(texts).__name__}; "
            "put all fields into one mapping for each text"
        )
    return form.join(texts, fields)


def _together(texts: Iterable[Sample], targets: Sequence[Target]) -> Iterator[tuple[Sample, Target]]:
    """Pair texts with as many targets."""
    left = iter(targets)
    for number, text in enumerate(texts):
        try:
            target = next(left)
        except StopIteration:
            raise ValueError(f"target must be one class, or one for each text, got {number} for more texts") from None
        yield text, target
    if more := sum(1 for _ in left):
        raise ValueError(f"target must be one class, or one for each text, got {more} more than texts")
