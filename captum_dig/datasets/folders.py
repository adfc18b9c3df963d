"""ScoreFolder: the rows of a run on the disk, in parts that are written atomically.

Takes encoded parts and the settings that determine their content; a later run resumes this one. Each part is written
to a temporary file and renamed. The manifest names the run, and each part with the hash of its bytes.
"""

import hashlib
import json
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from filelock import FileLock, Timeout

from captum_dig.records import show
from captum_dig.visualization.writing import is_part, write_whole

FORMAT: Final = "captum_dig.scores"
FORMAT_VERSION: Final = 1
MANIFEST: Final = "_manifest.json"
_LOCK: Final = "_lock"


@dataclass(frozen=True)
class PartRecord:
    """A finished part.

    Attributes:
        n_rows: The number of rows that were read.
        n_results: The number of results.
        n_errors: The number of rows with an error.
        n_cut: The number of results whose text was cut off.
        n_gradients: The gradients that were taken.
        sha256: The hash of the file.
    """

    n_rows: int
    n_results: int
    n_errors: int
    n_cut: int
    n_gradients: int
    sha256: str


class ScoreFolder:
    """A folder of parts, one process at a time.

    Args:
        path: The folder; it is made if it does not exist.
        identity: What decides the content, as JSON can hold it.
        ending: The ending of the parts, such as ``".parquet"``.

    Attributes:
        path: The folder.
        parts: The finished parts by number.

    Raises:
        ValueError: If the folder holds something else, another run, or a damaged manifest.
        OSError: If it cannot be read or written.
    """

    def __init__(self, path: str | Path, identity: Mapping[str, Any], ending: str) -> None:
        self.path = Path(path)
        self._identity = {name: identity[name] for name in sorted(identity)}
        self._ending = ending
        found = read_manifest(self.path, missing=True)
        self.parts: dict[int, PartRecord] = {}
        if found is None:
            others = [file.name for file in self.path.iterdir() if file.name != _LOCK and not is_part(file.name)]
            if others:
                raise ValueError(
                    f"out must be a new folder or that of the same run, got {str(self.path)!r} with "
                    f"{sorted(others)[0]!r}; name another folder"
                )
            self._write_manifest()
        else:
            self._check_same(found["run"])
            self.parts = {int(number): PartRecord(**part) for number, part in found["parts"].items()}
            self._drop_damaged()

    def place(self, number: int) -> Path:
        """Return the file of a part."""
        return self.path / f"part-{number:05d}{self._ending}"

    def add(self, number: int, data: bytes, counts: Mapping[str, int]) -> None:
        """Write a part, then name it in the manifest.

        Raises:
            OSError: If the disk takes no more; finished parts are unchanged.
        """
        write_whole(self.place(number), data, durable=True)
        self.parts[number] = PartRecord(**counts, sha256=hashlib.sha256(data).hexdigest())
        self._write_manifest()

    def _write_manifest(self) -> None:
        told = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "run": self._identity,
            "parts": {str(number): asdict(self.parts[number]) for number in sorted(self.parts)},
        }
        write_whole(self.path / MANIFEST, f"{json.dumps(told, indent=1)}\n".encode(), durable=True)

    def _check_same(self, found: Mapping[str, Any]) -> None:
        # Through JSON, as the other side was.
        own = json.loads(json.dumps(self._identity))
        for name in sorted({*own, *found}):
            if own.get(name) != found.get(name):
                raise ValueError(
                    f"out must be a new folder or that of the same run, got {str(self.path)!r}, whose {name} was "
                    f"{show(found.get(name))} and is {show(own.get(name))} now; name another folder"
                )

    def _drop_damaged(self) -> None:
        for number, part in list(self.parts.items()):
            place = self.place(number)
            if not place.is_file() or hashlib.sha256(place.read_bytes()).hexdigest() != part.sha256:
                warnings.warn(f"{place} is not as it was written, and is made anew", stacklevel=3)
                del self.parts[number]


def read_manifest(folder: Path, *, missing: bool = False) -> dict[str, Any] | None:
    """Read the manifest of a folder.

    Args:
        folder: The folder.
        missing: Whether a folder without a manifest gives None; else it is an error.

    Returns:
        The manifest.

    Raises:
        ValueError: If there is none, or it is damaged.
    """
    place = folder / MANIFEST
    try:
        data = json.loads(place.read_bytes())
        if (data["format"], data["format_version"]) != (FORMAT, FORMAT_VERSION):
            raise ValueError(f"its format is {data['format']!r} {data['format_version']!r}")
        if not isinstance(data["run"], dict):
            raise TypeError("it names no run")
        for number, part in data["parts"].items():
            int(number)
            PartRecord(**part)
    except FileNotFoundError:
        if missing:
            return None
        raise ValueError(f"scores must be a folder with {MANIFEST}, got {str(folder)!r} without it") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"{MANIFEST} must be as it was written, got {str(place)!r}, which is damaged ({error}); "
            "name another folder, or remove this one"
        ) from error
    found: dict[str, Any] = data
    return found


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keep other processes out of a folder, which is made if it does not exist.

    Raises:
        ValueError: If another process writes there, or it is a file.
    """
    if path.exists() and not path.is_dir():
        raise ValueError(f"out must be a folder, got the file {str(path)!r}")
    path.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path / _LOCK)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise ValueError(
            f"out must be a folder that no other process writes, got {str(path)!r}; wait for it, or name another"
        ) from None
    try:
        yield
    finally:
        lock.release()
