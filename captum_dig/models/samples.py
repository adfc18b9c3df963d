"""Samples: the texts that a user passes, validated.

Takes any iterable; gives a list of samples, or an error with the remedy. A sample is a text, or several texts by the
names of their fields. `captum_dig.models.encoding` encodes them.
"""

from collections.abc import Iterable, KeysView, Mapping, Set
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

from captum_dig.errors import TaskError

# The treatment of texts that are longer than the model reads.
Overflow = Literal["truncate", "windows", "error"]
OVERFLOWS: tuple[str, ...] = get_args(Overflow)

# Common names for the column of texts in data sets.
TEXT_COLUMNS = ("text", "sentence", "review", "content")

Sample: TypeAlias = str | Mapping[str, str]


@dataclass(frozen=True)
class SampleForm:
    """The fields of a sample.

    Attributes:
        required: The fields that each sample has. Where there is one, a string is enough.
        optional: The fields that a sample may have besides.

    Example:
        >>> SampleForm(("text",), ("text_pair",)).check("good", "the text")
        {'text': 'good'}
    """

    required: tuple[str, ...] = ("text",)
    optional: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all fields, in the order of the model."""
        return (*self.required, *self.optional)

    def check(self, sample: Any, name: str) -> dict[str, str]:
        """Validate one sample.

        Args:
            sample: A string, or a mapping from names of fields to strings.
            name: The name of the sample in messages.

        Returns:
            The strings by the names of their fields, in the order of the model.

        Raises:
            TaskError: If it is something else, a field is missing, or there is no such field.
        """
        if isinstance(sample, str) and len(self.required) == 1:
            return {self.required[0]: sample}
        if not isinstance(sample, Mapping):
            raise TaskError(f"{name} must be {self}, got {_kind(sample)}; pass for example {self._example()}")
        keys = list(sample)
        if missing := [key for key in self.required if key not in sample]:
            raise TaskError(f"{name} must have {_listed(missing)}, got {type(sample).__name__} {_told(keys, name)}")
        if unknown := [key for key in keys if key not in self.names]:
            raise TaskError(
                f"{name} must have no other fields than {_listed(self.names)}, got {_listed(map(str, unknown))} too; "
                "leave it out"
            )
        for key, text in sample.items():
            if not isinstance(text, str):
                raise TaskError(f"{key!r} of {name} must be a string, got {_kind(text)}; pass one sample for each text")
        return {key: sample[key] for key in self.names if key in sample}

    def join(self, text: Sample | None, fields: Mapping[str, str]) -> dict[str, str]:
        """Put a text and its other fields together.

        Args:
            text: The text of the required field that is not among the others, or a mapping with some fields; None where
                all are among the others.
            fields: The other fields by their names.

        Returns:
            The sample, not yet checked.

        Example:
            >>> SampleForm(("question", "context")).join("Anna left.", {"question": "Who left?"})
            {'context': 'Anna left.', 'question': 'Who left?'}
        """
        if isinstance(text, Mapping):
            return dict(text) | dict(fields)
        missing = next((name for name in self.required if name not in fields), self.required[0])
        return ({} if text is None else {missing: text}) | dict(fields)

    def __str__(self) -> str:
        return "a string" if len(self.required) == 1 else f"a mapping with {_listed(self.required)}"

    def _example(self) -> str:
        return "{" + ", ".join(f"'{name}': '...'" for name in (self.names if self.optional else self.required)) + "}"


def as_samples(samples: Iterable[Any], form: SampleForm) -> list[dict[str, str]]:
    """Validate samples.

    Args:
        samples: Strings or mappings, one by one.
        form: The fields that they have.

    Returns:
        For each sample its strings by the names of their fields.

    Raises:
        TypeError: If they are one sample, have no order, or one of them does not have this form.

    Example:
        >>> as_samples((text for text in ("good", "bad")), SampleForm())
        [{'text': 'good'}, {'text': 'bad'}]
    """
    check_several(samples, form)
    listed = list(samples)
    return [form.check(one, name_of(number, len(listed))) for number, one in enumerate(listed)]


def name_of(number: int, n_samples: int | None) -> str:
    """Return the name of a sample in messages about the argument, from its number and that of all, if known."""
    return "the text" if n_samples == 1 else f"texts[{number}]"


def check_several(samples: Any, form: SampleForm) -> None:
    """Require samples one by one; none of them is read.

    Args:
        samples: The samples.
        form: The fields that they have, for messages.

    Raises:
        TypeError: If they are one sample, or have no order.
    """
    if isinstance(samples, str):
        raise TypeError("texts must be a sequence of strings, got one string; put it into a list, or call explain")
    if isinstance(samples, Mapping) or hasattr(samples, "columns"):  # a table of pandas is read as its columns' names
        told = "of strings; put it into a list" if is_sample(samples) else _told(list(samples), "texts")
        raise TypeError(f"texts must be a string or a sequence of strings, got {type(samples).__name__} {told}")
    if isinstance(samples, Set) and not isinstance(samples, KeysView):
        kind = type(samples).__name__
        raise TypeError(f"texts must have an order, got a {kind}; pass a list, such as sorted(texts)")
    if not isinstance(samples, Iterable) or isinstance(samples, bytes | bytearray):
        raise TypeError(f"texts must be a string or a sequence of strings, got {type(samples).__name__}")
    if isinstance(samples, tuple) and len(samples) == 2 and all(isinstance(one, str) for one in samples):
        raise TypeError(
            "texts must be a list where there are two, got a tuple of two; pass a list of two texts, or for a pair "
            f"that the model reads together a mapping such as {form._example()}"
        )


def is_sample(value: object) -> bool:
    """Whether a value looks like one sample: a string, or a mapping of strings."""
    if isinstance(value, Mapping):
        return bool(value) and all(isinstance(text, str) for text in value.values())
    return isinstance(value, str)


def _kind(value: object) -> str:
    if isinstance(value, str):
        return "a string"
    return f"a {type(value).__name__} of {len(value)}" if isinstance(value, tuple | list) else type(value).__name__


def _listed(names: Iterable[str]) -> str:
    return " and ".join(map(repr, names))


def _told(keys: list[Any], name: str) -> str:
    """Name the keys of a mapping, and the remedy."""
    names = [str(key) for key in keys]
    told = f"with {', '.join(map(repr, names[:5])) or 'nothing'}"
    if "input_ids" in names:
        return f"{told}; pass the text itself, which is encoded here"
    column = next((key for key in TEXT_COLUMNS if key in names), names[0] if names else None)
    return told if column is None else f"{told}; pass its strings, such as {name}[{column!r}]"
