"""TableFolder: ranked tables on the disk, one file for each key.

Takes arrays of row ids and the key that they depend on; gives them back in another process. `captum_dig.paths.tables`
decides what is kept.
"""

import contextlib
import hashlib
import io
import math
import os
import re
import secrets
import stat
import time
import warnings
import zipfile
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np
import numpy.typing as npt

# Bytes of an archive of three arrays that hold no numbers.
_HEADERS: Final = 2**14
# The name of a file that is being written, and how old one is whose process must have ended.
_PART: Final = re.compile(r"\.[0-9a-f]{32}-[0-9a-f]{16}\.npz")
_LEFTOVER_SECONDS: Final = 24 * 3600

Array = npt.NDArray[np.int32]


class TableFolder:
    """A folder of ranked tables, one file for each key.

    Files are replaced atomically: another process sees the old file or the new one, whole. An unusable file is reported
    and replaced. A folder that cannot be written is reported once, and then only memory is used.

    Args:
        folder: The folder; made when the first table is written. A leading ``~`` means the user's home.

    Raises:
        ValueError: If the folder is in the home of a user who has none.

    Example:
        >>> import tempfile
        >>> folder = TableFolder(Path(tempfile.mkdtemp()))
        >>> path = folder.save("key", np.array([3], np.int32), np.array([[1, 2]], np.int32))
        >>> folder.load("key", n_rows=4, depth=2)
        (array([3], dtype=int32), array([[1, 2]], dtype=int32))
    """

    def __init__(self, folder: str | Path) -> None:
        try:
            self.folder = Path(folder).expanduser()
        except RuntimeError as error:
            raise ValueError(
                f"folder must be in a home directory that exists, got {str(folder)!r}; name one with its whole path"
            ) from error
        self._writable = True
        self._reported: set[Path] = set()

    @classmethod
    def default(cls) -> "TableFolder | None":
        """Return the folder in the environment variable CAPTUM_DIG_CACHE, or the platform's folder for caches.

        Returns:
            The folder; None if the variable is set to nothing, or the user has no home directory, with a warning.
        """
        named = os.environ.get("CAPTUM_DIG_CACHE")
        if named == "":
            return None
        try:
            return cls(_platform_folder() if named is None else named)
        except ValueError as error:
            warnings.warn(
                f"{error}; until then tables are kept in memory only. CAPTUM_DIG_CACHE names the folder", stacklevel=2
            )
            return None

    def path(self, key: str) -> Path:
        """Return the file of the table of a key."""
        return self.folder / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.npz"

    def load(self, key: str, n_rows: int, depth: int) -> tuple[Array, Array] | None:
        """Read a table.

        Args:
            key: The key of the table.
            n_rows: V.
            depth: The number of candidates of a row.

        Returns:
            Row ids, shape (M,), and their candidates, shape (M, depth); None if there is no file that can be used.
        """
        path = self.path(key)
        try:
            with _open_file(path) as stream:
                found = _read(stream, key, n_rows, depth)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except Exception as error:
            # zipfile, zlib, lzma, ast and NumPy each have errors of their own.
            self._report(path, f"cannot be read ({error})")
            return None
        if found is None:
            self._report(path, "holds something else than its table")
        return found

    def _report(self, path: Path, problem: str) -> None:
        if path not in self._reported:
            self._reported.add(path)
            warnings.warn(f"{path} {problem}; the table is built anew", stacklevel=3)

    def save(self, key: str, ids: Array, ranked: Array) -> Path | None:
        """Write a table atomically.

        Args:
            key: The key of the table.
            ids: Row ids, shape (M,).
            ranked: Their candidates, shape (M, depth).

        Returns:
            The file; None if it could not be written, which is a warning the first time.
        """
        path = self.path(key)
        part = path.with_name(f".{path.stem}-{secrets.token_hex(8)}.npz")
        if not self._writable:
            return None
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._remove_leftovers()
            # In memory first: on a full disk an open archive would fail once more, when it is closed.
            content = io.BytesIO()
            np.savez(content, key=np.array(key), ids=ids, ranked=ranked)
            part.write_bytes(content.getbuffer())
            part.replace(path)
        except OSError as error:
            self._writable = False
            warnings.warn(
                f"{self.folder} cannot be written ({error.strerror or error}); tables are kept in memory only, "
                "choose another folder with CAPTUM_DIG_CACHE",
                stacklevel=2,
            )
            return None
        finally:
            with contextlib.suppress(OSError):
                part.unlink(missing_ok=True)
        return path

    def _remove_leftovers(self) -> None:
        """Remove the parts of files that killed processes left."""
        for found in self.folder.glob(".*.npz"):
            # Another process may be removing the same one.
            with contextlib.suppress(OSError):
                if _PART.fullmatch(found.name) and time.time() - found.stat().st_mtime > _LEFTOVER_SECONDS:
                    found.unlink()


def _platform_folder() -> Path:
    """The platform's folder for caches, if it is known."""
    import platformdirs

    try:
        return platformdirs.user_cache_path("captum-dig") / "tables"
    except (RuntimeError, KeyError, OSError):
        # No home directory: the path still begins with `~`.
        return Path("~/.cache/captum-dig/tables")


def _open_file(path: Path) -> BinaryIO:
    """Open a regular file; refuse others, such as a FIFO, which could block."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError("it is no regular file")
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def _read(stream: BinaryIO, key: str, n_rows: int, depth: int) -> tuple[Array, Array] | None:
    """Read a table, and never more bytes than it can have; None for the table of another key."""
    # The size of a whole table, with ample room for names and headers.
    most = 4 * (n_rows * (depth + 1) + len(key)) + _HEADERS
    if os.fstat(stream.fileno()).st_size > most:
        return None
    with zipfile.ZipFile(stream) as archive:
        stored, ids, ranked = (_member(archive, name, most) for name in ("key", "ids", "ranked"))
    if stored.dtype.kind != "U" or stored.shape != () or str(stored) != key:
        return None
    fits = ids.dtype == ranked.dtype == np.int32 and ids.ndim == 1 and ranked.shape == (len(ids), depth)
    if not fits or not ((ids >= 0) & (ids < n_rows)).all() or not ((ranked >= -1) & (ranked < n_rows)).all():
        return None
    return ids, ranked


def _member(archive: zipfile.ZipFile, name: str, most: int) -> npt.NDArray[Any]:
    """Read an array from an archive; check its size before its header is used."""
    member = archive.getinfo(f"{name}.npy")
    if member.file_size > most:
        raise ValueError(f"{name} has {member.file_size} bytes")
    # Reading compares the checksum, before the bytes are used.
    content = io.BytesIO(archive.read(member))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        version = np.lib.format.read_magic(content)
        if version != (1, 0):
            raise ValueError(f"{name} has format {version}")
        shape, fortran_order, dtype = np.lib.format.read_array_header_1_0(content)
    size = math.prod(shape) * dtype.itemsize
    if fortran_order or dtype.hasobject or size != member.file_size - content.tell():
        raise ValueError(f"{name} is not what its header says")
    # A copy: an array over bytes is read-only.
    return np.frombuffer(content.getbuffer()[content.tell() :], dtype).reshape(shape).copy()


def digest(values: npt.NDArray[np.generic]) -> str:
    """Hexadecimal SHA-256 of an array's bytes."""
    return hashlib.sha256(values.tobytes()).hexdigest()
