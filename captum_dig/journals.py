"""Journal: finished work, one line of JSON for each text, kept as it is done.

Takes the settings of a comparison and its texts; gives back those that an earlier run finished. What was killed in the
middle of a line loses this line only.
"""

import json
import os
from pathlib import Path

from captum_dig.comparison import ComparedText, ComparisonSettings


class Journal:
    """A file of finished texts.

    Args:
        path: The file; it is made if it is not there, and its folder too.
        settings: The comparison that the texts belong to.

    Attributes:
        path: The file.
        texts: What is finished, in order.

    Raises:
        ValueError: If the file is no journal, or that of another comparison.
        OSError: If it cannot be read or written.
    """

    def __init__(self, path: str | Path, settings: ComparisonSettings) -> None:
        self.path = Path(path)
        self.texts: list[ComparedText] = []
        head = _line({"journal": 1, "settings": settings.to_dict()})
        self.path.parent.mkdir(parents=True, exist_ok=True)
        written = self.path.read_bytes() if self.path.exists() else b""
        # A line without its end was cut off.
        lines = written[: written.rfind(b"\n") + 1].splitlines(keepends=True)
        if lines and lines[0] != head:
            raise ValueError(
                f"journal must be a new file or that of the same comparison, got {str(self.path)!r}, which is another; "
                "name another file, or remove it"
            )
        if written and not lines and not head.startswith(written):
            raise ValueError(f"journal must be a new file or a journal, got {str(self.path)!r}; name another file")
        whole = len(head) if lines else 0
        for line in lines[1:]:
            try:
                self.texts.append(ComparedText.from_dict(json.loads(line)))
            except (ValueError, KeyError, TypeError):
                break  # damaged: this text and those after it are done again
            whole += len(line)
        with self.path.open("r+b" if written else "wb") as file:
            file.truncate(whole)
            if not lines:
                file.write(head)

    def append(self, text: ComparedText) -> None:
        """Write a finished text to the disk."""
        with self.path.open("ab") as file:
            file.write(_line(text.to_dict()))
            file.flush()
            os.fsync(file.fileno())
        self.texts.append(text)


def _line(data: object) -> bytes:
    return json.dumps(data, allow_nan=False, sort_keys=True).encode() + b"\n"
