"""Format: a way to write results, by a name.

Takes results, which have a `Picture` and a dictionary; writes text to a stream. The command line offers every format of
the catalogue.
"""

from __future__ import annotations

import io
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import IO, Any, ClassVar, Protocol, TextIO, final

from captum_dig.visualization.base import Picture
from captum_dig.visualization.terminal import plain_text
from captum_dig.visualization.web import html_page


class Drawable(Protocol):
    """The methods of a result that a format may call."""

    def to_picture(self) -> Picture:
        """Cut the text into scored words."""
        ...

    def to_dict(self) -> Mapping[str, Any]:
        """Return the fields in a form that strict JSON can hold."""
        ...


class Format(ABC):
    """A way to write results. Subclasses implement `write`.

    Attributes:
        binary: Whether `write` gets a stream of bytes; else it gets one of text.

    Example:
        >>> import sys
        >>> class Words(Format):
        ...     def write(self, results, file):
        ...         for result in results:
        ...             print(*(word.text for word in result.to_picture().words), file=file)
        >>> Words()([], sys.stdout)
    """

    binary: ClassVar[bool] = False

    @abstractmethod
    def write(self, results: Iterable[Drawable], file: Any) -> None:
        """Write results to a stream of text, in order; of bytes if the format is binary."""

    @final
    def __call__(self, results: Iterable[Drawable], file: IO[Any]) -> None:
        """Write results, and check the arguments.

        Args:
            results: The results.
            file: A stream of text, or of bytes if the format is binary.

        Raises:
            TypeError: If `file` is no such stream, or an item is no result.
        """
        kind = "bytes" if self.binary else "text"
        if not hasattr(file, "write") or isinstance(file, io.TextIOBase) == self.binary:
            raise TypeError(
                f"file must be a stream of {kind}, got {type(file).__name__}; open the file first, "
                f"with mode {'wb' if self.binary else 'w'!r}"
            )
        listed = list(results)
        for result in listed:
            if not hasattr(result, "to_picture") or not hasattr(result, "to_dict"):
                raise TypeError(f"results must hold results such as TextAttribution, got {type(result).__name__}")
        self.write(listed, file)


class TextFormat(Format):
    """Words with signs, and a ranked list, as plain text."""

    def write(self, results: Iterable[Drawable], file: TextIO) -> None:
        """Write the pictures one after the other, with a blank line between them."""
        file.write("\n\n".join(plain_text(result.to_picture()) for result in results) + "\n")


class HtmlFormat(Format):
    """One page that needs nothing else."""

    def write(self, results: Iterable[Drawable], file: TextIO) -> None:
        """Write the page."""
        file.write(html_page(result.to_picture() for result in results))


class JsonFormat(Format):
    """A list in strict JSON, which reads back."""

    def write(self, results: Iterable[Drawable], file: TextIO) -> None:
        """Write the list."""
        found = [result.to_dict() for result in results]
        file.write(json.dumps(found, allow_nan=False, ensure_ascii=False, indent=2) + "\n")


class JsonLinesFormat(Format):
    """Strict JSON with one result a line, which reads back line by line."""

    def write(self, results: Iterable[Drawable], file: TextIO) -> None:
        """Write the lines."""
        for result in results:
            file.write(json.dumps(result.to_dict(), allow_nan=False, ensure_ascii=False) + "\n")
