"""Writing: a page or another result as a file that is always either the old one or the new one, whole.

Takes a path and bytes. Results, comparisons, journals and the command line write by it.
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

# Parts of files begin and end so, to be recognised where a process was killed between making and renaming one.
_PART: Final = re.compile(r"\.captum-dig-[0-9a-f]{16}\.part")
_DAY: Final = 24 * 3600.0


def write_whole(path: str | Path, data: bytes | None, *, private: bool = False) -> None:
    """Write a file in one step; who reads it meanwhile gets the old content or the new.

    An existing file keeps its mode, and its owner and group where the system lets this process set them. What is
    written is never readable by more people than the file will be. A pipe or a device is written to. Parts that killed
    processes of this user left in the folder more than a day ago are removed.

    Args:
        path: The file; where it is a link, the file that it leads to.
        data: The content; None to find out whether it could be written, and change nothing.
        private: Whether a new file is for its owner alone; else the mode is the usual one.

    Raises:
        OSError: If the file cannot be written; it is then as it was.

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
    # Beside the file itself, also where a link leads to it: only there is replacing it one step.
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
        if data is not None:
            part.replace(target)
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
            # What the old group may do is not for another one.
            mode &= ~stat.S_IRWXG
    part.chmod(mode)


def _remove_stale_parts(folder: Path) -> None:
    """Remove what killed processes of this user left; no process writes for a day."""
    user = os.geteuid() if hasattr(os, "geteuid") else None
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if _PART.fullmatch(entry.name):
                with contextlib.suppress(OSError):
                    found = entry.stat(follow_symlinks=False)
                    mine = user is None or found.st_uid == user
                    if mine and stat.S_ISREG(found.st_mode) and found.st_mtime < time.time() - _DAY:
                        Path(entry.path).unlink()
