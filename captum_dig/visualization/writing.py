"""Writing: files that are replaced atomically.

Takes a path and bytes; writes the file. Results, comparisons and the command line use it.
"""

import contextlib
import errno
import os
import re
import secrets
import stat
import time
from pathlib import Path
from typing import Final

# The beginning and end of a part's name; a part is left if its process is killed before the rename.
_PART: Final = re.compile(r"\.captum-dig-[0-9a-f]{16}\.part")
_DAY: Final = 24 * 3600.0


def write_whole(path: str | Path, data: bytes | None, *, private: bool = False, durable: bool = False) -> None:
    """Replace a file atomically; a reader gets the old content or the new content, whole.

    An existing file keeps its mode, and its owner and group if the system lets this process set them. The content is
    never readable by more people than the file will be. A pipe or a device is written to directly. Parts that killed
    processes of this user left in the folder more than a day ago are removed.

    Args:
        path: The file, or a link to it.
        data: The content; None to test whether the file can be written, and change nothing.
        private: Whether a new file is readable by its owner alone; else it gets the usual mode.
        durable: Whether to wait until the content is on the disk, so that it survives a crash of the machine.

    Raises:
        OSError: If the file cannot be written; it is then unchanged.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "page.html"
        >>> write_whole(path, b"new")
        >>> path.read_bytes()
        b'new'
    """
    path = Path(path)
    if path.exists() and not path.is_file():
        if data is not None:
            path.write_bytes(data)
        return
    # In the folder of the file itself, not of a link to it: only there is the rename atomic.
    target = Path(os.path.realpath(path))
    if target.is_symlink():
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    old = target.stat() if target.exists() else None
    if old is not None:
        target.open("ab").close()  # the folder may be writable where the file is not
    _remove_stale_parts(target.parent)
    part = target.with_name(f".captum-dig-{secrets.token_hex(8)}.part")
    mode = 0o666 if old is None and not private else 0o600
    try:
        handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), mode)
        with os.fdopen(handle, "wb") as file:
            if old is not None:
                _liken(part, old)
            file.write(data or b"")
            if durable:
                file.flush()
                os.fsync(handle)
        if data is not None:
            part.replace(target)
    except OSError as error:
        if error.filename is not None:
            raise
        # A full disk does not say where it is full.
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        part.unlink(missing_ok=True)


def _liken(part: Path, old: os.stat_result) -> None:
    """Give a new file the owner, group and mode of an old one, before it has any content."""
    mode = stat.S_IMODE(old.st_mode)
    new = part.stat()
    if hasattr(os, "chown"):
        with contextlib.suppress(OSError):
            os.chown(part, old.st_uid if new.st_uid != old.st_uid else -1, -1)
        try:
            os.chown(part, -1, old.st_gid if new.st_gid != old.st_gid else -1)
        except OSError:
            # The permissions of the old group are not for another group.
            mode &= ~stat.S_IRWXG
    part.chmod(mode)


def is_part(name: str) -> bool:
    """Tell whether a killed process left a file of this name, or another process is writing it.

    Example:
        >>> is_part(".captum-dig-0123456789abcdef.part"), is_part("page.html")
        (True, False)
    """
    return _PART.fullmatch(name) is not None


def _remove_stale_parts(folder: Path) -> None:
    """Remove parts of this user's killed processes; no process writes for a day."""
    user = os.geteuid() if hasattr(os, "geteuid") else None
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if is_part(entry.name):
                with contextlib.suppress(OSError):
                    found = entry.stat(follow_symlinks=False)
                    mine = user is None or found.st_uid == user
                    if mine and stat.S_ISREG(found.st_mode) and found.st_mtime < time.time() - _DAY:
                        Path(entry.path).unlink()
