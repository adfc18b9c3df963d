"""What can happen to a file: damage to it, and a disk that takes no more, as functions of a path and a random.Random.

Tests of files that are read back take `damage`, or one of `DAMAGES`. Each function changes the file in place, to the
same effect for the same draws.
"""

import contextlib
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

# Nobody's user, who may read nothing that others may not.
_STRANGER = 54321


def flip_bit(path: Path, rng: random.Random) -> None:
    """Turn one bit round."""
    data = bytearray(path.read_bytes())
    place = rng.randrange(8 * len(data)) if data else 0
    if data:
        data[place // 8] ^= 1 << place % 8
    path.write_bytes(data)


def cut(path: Path, rng: random.Random) -> None:
    """Keep the beginning only, of any length."""
    data = path.read_bytes()
    path.write_bytes(data[: rng.randrange(len(data))] if data else b"")


def swap_bytes(path: Path, rng: random.Random) -> None:
    """Exchange two bytes."""
    data = bytearray(path.read_bytes())
    if data:
        one, other = rng.randrange(len(data)), rng.randrange(len(data))
        data[one], data[other] = data[other], data[one]
    path.write_bytes(data)


def overwrite(path: Path, rng: random.Random) -> None:
    """Write random bytes over up to 64 of them, as a bad sector does."""
    data = bytearray(path.read_bytes())
    start = rng.randrange(len(data)) if data else 0
    length = min(rng.randint(1, 64), len(data) - start)
    data[start : start + length] = rng.randbytes(length)
    path.write_bytes(data)


def insert(path: Path, rng: random.Random) -> None:
    """Put some random bytes somewhere between."""
    data = path.read_bytes()
    start = rng.randint(0, len(data))
    path.write_bytes(data[:start] + rng.randbytes(rng.randint(1, 64)) + data[start:])


def double(path: Path, rng: random.Random) -> None:
    """Write a part of the file a second time at its end."""
    data = path.read_bytes()
    path.write_bytes(data + data[rng.randint(0, len(data)) :])


def make_fifo(path: Path, rng: random.Random) -> None:
    """Put a FIFO in the file's place; opening it waits for a writer that never comes."""
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def make_folder(path: Path, rng: random.Random) -> None:
    """Put an empty folder in the file's place."""
    path.unlink(missing_ok=True)
    path.mkdir()


def make_link_loop(path: Path, rng: random.Random) -> None:
    """Put a symbolic link to itself in the file's place."""
    path.unlink(missing_ok=True)
    path.symlink_to(path.name)


def make_unreadable(path: Path, rng: random.Random) -> None:
    """Take away all rights to the file; root reads it all the same, see `as_other_user`."""
    path.chmod(0)


# Damage to what a file holds; the file stays one.
DAMAGES: dict[str, Callable[[Path, random.Random], None]] = {
    function.__name__: function for function in (flip_bit, cut, swap_bytes, overwrite, insert, double)
}
# Something else in its place.
REPLACEMENTS: dict[str, Callable[[Path, random.Random], None]] = {
    function.__name__: function for function in (make_fifo, make_folder, make_link_loop) if hasattr(os, "mkfifo")
}


def damage(path: Path, rng: random.Random) -> str:
    """Damage a file in one way of `DAMAGES`; returns which."""
    name = rng.choice(list(DAMAGES))
    DAMAGES[name](path, rng)
    return name


def as_stranger(
    command: list[str], *, environment: dict[str, str] | None = None
) -> "subprocess.CompletedProcess[str] | None":
    """Run a command as a user without a name, a home and rights; None where only root could, or without setpriv."""
    if sys.platform != "linux" or not _is_root() or shutil.which("setpriv") is None:
        return None
    user = ["setpriv", f"--reuid={_STRANGER}", f"--regid={_STRANGER}", "--clear-groups"]
    kept = {name: value for name, value in (environment or dict(os.environ)).items() if name != "HOME"}
    # The command, and what it imports, may stand in temporary folders.
    with _opened(Path(command[0]), Path(__file__)):
        return subprocess.run([*user, *command], env=kept, capture_output=True, text=True, check=False)


@contextlib.contextmanager
def as_other_user(path: Path) -> Iterator[bool]:
    """Be a user without rights for a while; False where a file without rights can be read all the same."""
    with _opened(path):
        root = _is_root()
        try:
            if root:
                os.seteuid(_STRANGER)
            yield not os.access(path, os.R_OK, effective_ids=os.access in os.supports_effective_ids)
        finally:
            if root:
                os.seteuid(0)


@contextlib.contextmanager
def _opened(*paths: Path) -> Iterator[None]:
    """Let other users pass through root's folders above some paths; a temporary folder is its user's own."""
    above = dict.fromkeys(folder for path in paths for folder in path.parents) if _is_root() else ()
    modes = {folder: folder.stat().st_mode for folder in above if folder.stat().st_uid == 0}
    closed = {folder: mode for folder, mode in modes.items() if not mode & 1}
    try:
        for folder, mode in closed.items():
            folder.chmod(mode | 0o011)
        yield
    finally:
        for folder, mode in closed.items():
            folder.chmod(mode)


def _is_root() -> bool:
    return hasattr(os, "geteuid") and os.geteuid() == 0


@contextlib.contextmanager
def small_disk(folder: Path, n_bytes: int) -> Iterator[bool]:
    """Mount a disk of so many bytes on an empty folder; False where that is not allowed."""
    options = ["-t", "tmpfs", "-o", f"size={n_bytes},mode=0777", "tmpfs", str(folder)]
    mounted = (
        sys.platform == "linux"
        and os.geteuid() == 0
        and shutil.which("mount") is not None
        and subprocess.run(["mount", *options], capture_output=True, check=False).returncode == 0
    )
    try:
        yield mounted
    finally:
        if mounted:
            subprocess.run(["umount", str(folder)], capture_output=True, check=False)
