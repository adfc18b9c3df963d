"""Journal: a file of finished texts, one line of JSON for each, written as soon as it is finished.

Takes the settings of a comparison; gives the finished texts of earlier runs with these settings. Every line has a hash,
so a damaged line is skipped and its text is done again. `captum_dig.comparison.comparing` reads and appends.
"""

import hashlib
import json
import os
import re
import secrets
import stat
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from captum_dig.comparison.records import ComparedText, check_text
from captum_dig.comparison.settings import ComparisonSettings
from captum_dig.records import integer

# Raise it with every change to the format.
_FORMAT: Final = 3
_LINE: Final = re.compile(rb'\{"check": "([0-9a-f]{16})", (.*\})', re.DOTALL)
_BEGIN: Final = re.compile(rb'\{"check": "[0-9a-f]{16}", ')
# If one byte of a first line is wrong, two of these are still in it.
_TRACES: Final = (b'{"check": "', b'"journal": ', b'"settings": ')
# Opening must not block if the path is a pipe.
_AT_ONCE: Final = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


class Journal:
    """A file of finished texts.

    A file whose first line is damaged is renamed, with a warning. Only its owner can read the file.

    Args:
        path: The file; it and its folder are made if they do not exist.
        settings: The comparison that the texts belong to.

    Attributes:
        path: The file.

    Raises:
        ValueError: If the file is no journal, or that of another comparison or version.
        OSError: If it cannot be read or made.
    """

    def __init__(self, path: str | Path, settings: ComparisonSettings) -> None:
        self.path = Path(path)
        self._texts: dict[tuple[int, str], ComparedText] = {}
        self._closed = False
        # It is hashed into every line, so lines of another comparison are recognised.
        self._head = _line({"journal": _FORMAT, "settings": settings.to_dict()})
        written = _read(self.path)
        if not written.startswith(self._head):
            if not self._head.startswith(written):
                self._set_aside(written)
                written = b""
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _append(self.path, self._head[len(written) :], new=True)
            written = self._head
        # A last line without a line feed was cut off.
        self._cut_off = not written.endswith(b"\n")
        for line in written.split(b"\n")[1:]:
            self._take(line, settings)

    def find(self, number: int, text: str) -> ComparedText | None:
        """Look up a text that was finished at this place among the texts; None if it was not."""
        return self._texts.get((number, text))

    def append(self, number: int, text: ComparedText) -> None:
        """Write a finished text to the disk; if that fails, warn once and continue without the file."""
        self._texts[number, text.text] = text
        if self._closed:
            return
        line = _line({"number": number, "text": text.to_dict()}, self._head)
        try:
            # A removed file is not made again: it would lack the first line.
            _append(self.path, b"\n" * self._cut_off + line)
            self._cut_off = False
        except OSError as error:
            self._closed = True
            warnings.warn(f"finished texts are not kept from here on: {self.path}: {error.strerror}", stacklevel=4)

    def _take(self, line: bytes, settings: ComparisonSettings) -> None:
        """Read a line; skip it if anything is wrong, and its text is done again."""
        try:
            entry = _checked(line, self._head)
            text = ComparedText.from_dict(entry["text"])
            check_text(text, settings)
            self._texts[integer("number", entry["number"]), text.text] = text
        except (ValueError, KeyError, TypeError, RecursionError):
            return

    def _set_aside(self, written: bytes) -> None:
        """Rename a journal whose first line is damaged; refuse every other file."""
        first = written.partition(b"\n")[0]
        head: dict[str, Any] | None
        try:
            head = _checked(first)
        except ValueError:
            head = _read_old(first)
            if head is None and (_BEGIN.match(first) or sum(trace in first for trace in _TRACES) > 1):
                place = self.path.with_name(f"{self.path.name}.damaged-{secrets.token_hex(4)}")
                self.path.rename(place)
                warnings.warn(f"what was kept is damaged, and was moved to {place}", stacklevel=4)
                return
        version = _FORMAT if head is None else head.get("journal")
        if isinstance(version, int) and version != _FORMAT:
            raise ValueError(
                f"journal must be of format {_FORMAT}, which this version writes, got {str(self.path)!r} of format "
                f"{version}; name another file, or remove it"
            )
        raise ValueError(
            f"journal must be a new file or that of the same comparison, got {str(self.path)!r}, which is another; "
            "name another file, or remove it"
        )


def _read(path: Path) -> bytes:
    """The content of a file; empty if there is no file. It never blocks on a pipe."""
    try:
        handle = os.open(path, os.O_RDONLY | _AT_ONCE)
    except FileNotFoundError:
        return b""
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise ValueError(f"journal must be a file, got {str(path)!r}, which is something else; name another file")
        with os.fdopen(handle, "rb", closefd=False) as file:
            return file.read()
    finally:
        os.close(handle)


def _append(path: Path, data: bytes, *, new: bool = False) -> None:
    """Append whole lines to a file in one write, which runs can share, and wait until they are on disk."""
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | _AT_ONCE | (os.O_CREAT if new else 0), 0o600)
    with os.fdopen(handle, "ab") as file:
        file.write(data)
        file.flush()
        os.fsync(handle)


def _line(data: Mapping[str, Any], head: bytes = b"") -> bytes:
    """Make a line with a hash of the first line and of its own content."""
    content = json.dumps(data, allow_nan=False, sort_keys=True).encode()
    return b'{"check": "%s", %s\n' % (_check(head, content), content[1:])


def _checked(line: bytes, head: bytes = b"") -> dict[str, Any]:
    """Read a line.

    Raises:
        ValueError: If it has another hash.
    """
    found = _LINE.fullmatch(line)
    if found is None or found[1] != _check(head, b"{" + found[2]):
        raise ValueError("line must be as it was written, got another hash")
    entry: dict[str, Any] = json.loads(line)
    return entry


def _read_old(line: bytes) -> dict[str, Any] | None:
    """Read the first line of a journal of the format without hashes; None for other lines."""
    try:
        head = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return head if isinstance(head, dict) and head.keys() == {"journal", "settings"} else None


def _check(head: bytes, content: bytes) -> bytes:
    return hashlib.sha256(head + content).hexdigest()[:16].encode()
