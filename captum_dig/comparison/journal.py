"""Journal: finished work, one line of JSON for each text, kept as it is done.

Takes the settings of a comparison; gives back what earlier runs with these settings finished. What was killed in the
middle of a line loses this line only.
"""

import itertools
import json
import os
import warnings
from pathlib import Path

from captum_dig.comparison.records import METRICS, ComparedText, ComparisonSettings


class Journal:
    """A file of finished texts.

    Args:
        path: The file; it is made if it is not there, and its folder too.
        settings: The comparison that the texts belong to.

    Attributes:
        path: The file.

    Raises:
        ValueError: If the file is no journal, or that of another comparison.
        OSError: If it cannot be read or written.
    """

    def __init__(self, path: str | Path, settings: ComparisonSettings) -> None:
        self.path = Path(path)
        self._texts: dict[tuple[int, str], ComparedText] = {}
        self._full = False
        head = _line({"journal": 1, "settings": settings.to_dict()})
        self.path.parent.mkdir(parents=True, exist_ok=True)
        written = self.path.read_bytes() if self.path.exists() else b""
        # A line without its end was cut off.
        whole = written[: written.rfind(b"\n") + 1]
        lines = whole.splitlines(keepends=True)
        if not head.startswith(lines[0] if lines else written):
            raise ValueError(
                f"journal must be a new file or that of the same comparison, got {str(self.path)!r}, which is another; "
                "name another file, or remove it"
            )
        for line in lines[1:]:
            try:
                entry = json.loads(line)
                text = ComparedText.from_dict(entry["text"])
                if _fits(text, settings):
                    self._texts[int(entry["number"]), text.text] = text
            except (ValueError, KeyError, TypeError):
                continue  # damaged: this text is done again
        # Another run may be writing to it: nothing is touched that need not be.
        if len(whole) < len(written):
            with self.path.open("r+b") as file:
                file.truncate(len(whole))
        if not lines:
            with self.path.open("ab") as file:
                file.write(head)

    def find(self, number: int, text: str) -> ComparedText | None:
        """Look up a text that was finished at this place among the texts; None if it was not."""
        return self._texts.get((number, text))

    def append(self, number: int, text: ComparedText) -> None:
        """Write a finished text to the disk; where that takes no more, say so once, and go on without."""
        self._texts[number, text.text] = text
        if self._full:
            return
        try:
            with self.path.open("ab") as file:
                file.write(_line({"number": number, "text": text.to_dict()}))
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            self._full = True
            warnings.warn(f"finished texts are not kept from here on: {self.path}: {error.strerror}", stacklevel=4)


def _fits(text: ComparedText, settings: ComparisonSettings) -> bool:
    """Whether all that belongs to a text is there."""
    wanted = set(itertools.product(settings.methods, settings.baselines))
    n_fractions = len(settings.top_fractions)
    return {(m.method, m.baseline) for m in text.measurements} == wanted and all(
        len(values) == (n_fractions if METRICS[name].by_fraction else 1)
        for measurement in text.measurements
        for name, values in measurement.values.items()
    )


def _line(data: object) -> bytes:
    return json.dumps(data, allow_nan=False, sort_keys=True).encode() + b"\n"
