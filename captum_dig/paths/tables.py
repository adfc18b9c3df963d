"""WalkTable: the words on the way from each word to a baseline.

Takes a `Vocabulary`, an `AnchorSearch` and a baseline, gives for the ids of some words the ids of the words on their
way, each walk found once. In a `RankedTable` each row's best candidates are ranked once, so that a walk is a look-up
that skips visited words, and only rows that a walk meets for the first time cost anything; `TableFolder` keeps what was
ranked for the next process. `captum_dig.paths` turns the anchors into knots.
"""

import contextlib
import functools
import hashlib
import io
import json
import math
import os
import re
import secrets
import stat
import time
import warnings
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from captum_dig.errors import PathError
from captum_dig.paths.anchors import AnchorSearch, Neighborhood
from captum_dig.threads import Lock
from captum_dig.vocabulary import BLOCK_ELEMENTS, Vocabulary, check_rows

# Rows searched for at once: FAISS reads the whole vocabulary for every search.
_SEARCH_ROWS = 1024
# Stands for the end of a walk, whose row the table does not know.
AT_BASELINE: Final = -2
# To be raised with every change to the file, and to what neighbours, costs or monotonize answer.
_FORMAT_VERSION: Final = 1
# Bytes of an archive of three arrays that hold no numbers.
_HEADERS: Final = 2**14
# The name of a file that is being written, and how old one is whose process must have ended.
_PART: Final = re.compile(r"\.[0-9a-f]{32}-[0-9a-f]{16}\.npz")
_LEFTOVER_SECONDS: Final = 24 * 3600

Array = npt.NDArray[np.int32]


class WalkTable(ABC):
    """The walks from words to one baseline, each of which is a function of its word and found once.

    Subclasses implement `find`.

    Args:
        vocabulary: The rows.
        strategy: The cost of a candidate.
        baseline: The vector that paths go to, shape (D,), float32.
        n_anchors: The paper's m, which is also how long the walks are.
        n_neighbors: The paper's K.
        candidates: Rows that may be anchors, a boolean mask of shape (V,); None for all.
    """

    @torch.inference_mode(mode=False)
    def __init__(
        self,
        vocabulary: Vocabulary,
        strategy: AnchorSearch,
        baseline: Tensor,
        n_anchors: int,
        n_neighbors: int,
        candidates: Tensor | None = None,
    ) -> None:
        self._vocabulary = vocabulary
        self._strategy = strategy
        self._baseline = baseline
        self._n_anchors = n_anchors
        self._n_neighbors = n_neighbors
        self._candidates = candidates
        # Walks must not end early at another row with the contents of the baseline, such as a table's padding.
        self._is_baseline = torch.zeros(len(vocabulary), dtype=torch.bool, device="cpu")
        self._is_baseline[vocabulary.equal_rows(baseline)] = True
        # int32 halves the memory of a table and holds any row id.
        self._walks = torch.empty((len(vocabulary), n_anchors + 1), dtype=torch.int32, device="cpu")
        self._walked = torch.zeros(len(vocabulary), dtype=torch.bool, device="cpu")

    @abstractmethod
    def find(self, words: Tensor) -> Tensor:
        """Find the walks of different words, shape (N,): row ids, shape (N, m + 1), AT_BASELINE from where they end."""

    def walk(self, input_ids: Tensor, baseline_id: int) -> Tensor:
        """Walk from every word to the baseline, never twice over the same word.

        Args:
            input_ids: The words, shape (N,), any integer dtype.
            baseline_id: The row of the baseline, which ends a walk; -1 if the baseline is no row.

        Returns:
            Row ids, shape (N, m + 1), the word itself first. Where no candidate is left, and from there on,
            `baseline_id`.

        Raises:
            TypeError: If the words are no integers.
            ValueError: If they have another shape or are not rows of the vocabulary.
        """
        input_ids = check_rows("input_ids", input_ids, len(self._vocabulary))
        new = torch.unique(input_ids[self._walked[input_ids].logical_not()])
        if len(new):
            self._walks[new] = self.find(new).to(torch.int32)
            self._walked[new] = True
        walks = self._walks[input_ids].to(torch.int64)
        return torch.where(walks == AT_BASELINE, baseline_id, walks)

    def _moving(self, current: Tensor) -> Tensor:
        """Which walks have not come to the baseline."""
        return (current >= 0) & ~self._is_baseline[current.clamp(min=0)]

    def _allowed(self, proposed: Tensor) -> Tensor:
        """The candidates without the baseline, for which there is -1."""
        return torch.where(self._is_baseline[proposed.clamp(min=0)], -1, proposed)

    def _order(self, ids: Tensor, proposed: Tensor) -> Tensor:
        """Candidates by cost, the nearer first among equals, absent ones last."""
        rows = self._vocabulary.rows
        costs = self._strategy(
            Neighborhood(ids, rows[ids], proposed, rows[proposed.clamp(min=0)], self._baseline, self._n_anchors)
        )
        ranked = proposed.gather(1, costs.sort(dim=1, stable=True).indices)
        return ranked.gather(1, (ranked < 0).sort(dim=1, stable=True).indices)

    def _in_order(self, ids: Tensor, proposed: Tensor) -> Tensor:
        """The same for many words, in blocks that stay in the processor's caches."""
        step = max(1, BLOCK_ELEMENTS // max(1, proposed.shape[1] * self._vocabulary.dim))
        blocks = zip(ids.split(step), proposed.split(step), strict=True)
        return torch.cat([self._order(words, candidates) for words, candidates in blocks])

    @staticmethod
    def _step(options: Tensor, visited: Tensor) -> Tensor:
        """The first option of each walk that it has not visited, shape (N, 1)."""
        taken = (options[:, :, None] == visited[:, None, :]).any(dim=-1) | (options < 0)
        free = taken.logical_not()
        first = options.gather(1, free.to(torch.int8).argmax(dim=1, keepdim=True))
        return torch.where(free.any(dim=1, keepdim=True), first, AT_BASELINE)


class RankedTable(WalkTable):
    """Each row's best candidates on the way to one baseline, ranked when a walk first meets the row.

    Args:
        vocabulary: The rows.
        strategy: The cost of a candidate.
        baseline: The vector that paths go to, shape (D,), float32.
        n_anchors: The paper's m, which is also how long the walks are.
        n_neighbors: The paper's K.
        candidates: Rows that may be anchors, a boolean mask of shape (V,); None for all.
        folder: Where to look for rows that an earlier process ranked, and to keep those of this one; None for nowhere.

    Example:
        >>> from captum_dig import Greedy
        >>> vocabulary = Vocabulary(torch.tensor([[0.0], [1.0], [2.0], [4.0]]))
        >>> table = RankedTable(vocabulary, Greedy(), vocabulary.rows[0], n_anchors=2, n_neighbors=3)
        >>> table.walk(torch.tensor([3]), baseline_id=0)
        tensor([[3, 2, 1]])
    """

    @torch.inference_mode(mode=False)
    def __init__(
        self,
        vocabulary: Vocabulary,
        strategy: AnchorSearch,
        baseline: Tensor,
        n_anchors: int,
        n_neighbors: int,
        candidates: Tensor | None = None,
        folder: "TableFolder | None" = None,
    ) -> None:
        super().__init__(vocabulary, strategy, baseline, n_anchors, n_neighbors, candidates)
        # A walk has at most m words and the baseline behind it, so one candidate more than those is always free.
        self._depth = n_anchors + 2
        self._ranked = torch.full((len(vocabulary), self._depth), -1, dtype=torch.int32, device="cpu")
        self._known = torch.zeros(len(vocabulary), dtype=torch.bool, device="cpu")
        self._lock = Lock()
        self._folder = folder if strategy.identity is not None else None
        self._n_stored = 0
        if self._folder is not None:
            self._take(self._folder.load(self.key, len(vocabulary), self._depth))
            self._n_stored = self.n_ranked

    def __len__(self) -> int:
        """Return V, the number of rows."""
        return len(self._known)

    @property
    def n_ranked(self) -> int:
        """How many rows have been ranked."""
        return int(self._known.sum())

    @functools.cached_property
    def key(self) -> str:
        """Everything that the table depends on, as JSON: the contents of the vocabulary, never a model's name."""
        mask = "all" if self._candidates is None else digest(self._candidates.numpy())
        values = {
            "format": _FORMAT_VERSION,
            "vocabulary": self._vocabulary.fingerprint,
            "index": self._vocabulary.index_name,
            "strategy": self._strategy.identity,
            "baseline": digest(self._baseline.numpy()),
            "n_anchors": self._n_anchors,
            "n_neighbors": self._n_neighbors,
            "candidates": mask,
        }
        return json.dumps(values, sort_keys=True)

    def find(self, words: Tensor) -> Tensor:
        """Walk from different words, to the best candidate that has not been visited each time."""
        visited: Tensor = words[:, None]
        for _ in range(self._n_anchors):
            moving = self._moving(visited[:, -1])
            options = torch.full((len(words), self._depth), -1, dtype=torch.int64, device="cpu")
            options[moving] = self._options(visited[moving, -1])
            visited = torch.cat([visited, self._step(options, visited)], dim=1)
        return visited

    def rank(self, ids: Tensor) -> None:
        """Rank the rows that have not been ranked yet.

        Args:
            ids: Rows, shape (N,), any integer dtype.

        Raises:
            TypeError: If the ids are no integers.
            ValueError: If they have another shape or are not rows of the vocabulary.
        """
        ids = check_rows("ids", ids, len(self))
        # One thread ranks a row; the others wait for it rather than do the same work again.
        with self._lock:
            new = torch.unique(ids[self._known[ids].logical_not()])
            for block in new.split(_SEARCH_ROWS) if len(new) else ():
                self._ranked[block] = self._best(block).to(torch.int32)
                self._known[block] = True

    def rank_all(self) -> Iterator[int]:
        """Rank the whole vocabulary, block by block; yields how many rows are done."""
        for block in torch.arange(len(self._vocabulary), device="cpu").split(_SEARCH_ROWS):
            self.rank(block)
            yield int(block[-1]) + 1

    def store(self) -> Path | None:
        """Keep what has been ranked since the last time; returns the file, or None if nothing is kept."""
        with self._lock:
            if self._folder is None:
                return None
            if self.n_ranked == self._n_stored:
                return self._folder.path(self.key)
            # Another process may have ranked other rows in the meantime.
            self._take(self._folder.load(self.key, len(self._vocabulary), self._depth))
            ids = self._known.nonzero()[:, 0]
            self._n_stored = len(ids)
            return self._folder.save(self.key, ids.to(torch.int32).numpy(), self._ranked[ids].numpy())

    def _take(self, found: "tuple[Array, Array] | None") -> None:
        if found is not None:
            ids = torch.from_numpy(found[0]).to(torch.int64)
            self._ranked[ids] = torch.from_numpy(found[1])
            self._known[ids] = True

    def _options(self, ids: Tensor) -> Tensor:
        """The ranked candidates of some rows, shape (N, depth), int64."""
        self.rank(ids)
        return self._ranked[ids].to(torch.int64)

    def _best(self, ids: Tensor) -> Tensor:
        """Rank the candidates of some rows: shape (N, depth)."""
        best = self._in_order(ids, self._propose(ids))[:, : self._depth]
        return torch.nn.functional.pad(best, (0, self._depth - best.shape[1]), value=-1)

    def _propose(self, ids: Tensor) -> Tensor:
        """The candidates of some rows, the baseline not among them."""
        proposed = self._strategy.propose(self._vocabulary, ids, self._n_neighbors, self._n_anchors, self._candidates)
        name = f"{type(self._strategy).__name__}.propose"
        if proposed.dim() != 2 or len(proposed) != len(ids) or proposed.dtype != torch.int64:
            raise PathError(f"{name} must return int64 ids of shape ({len(ids)}, K), got {tuple(proposed.shape)}")
        if bool(((proposed < -1) | (proposed >= len(self._vocabulary))).any()):
            raise PathError(f"{name} must return rows below {len(self._vocabulary)}, or -1 where there is none")
        return self._allowed(proposed)


class TableFolder:
    """A folder of ranked tables, one file for each key.

    Files are written in one step, so that another process sees the old one or the new one, whole. A file that cannot be
    used, for any reason, is reported and replaced; a folder that cannot be written is reported once, and then only
    memory is used.

    Args:
        folder: The folder; made when the first table is kept. A leading ``~`` stands for the user's home.

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
        """The folder that the environment variable CAPTUM_DIG_CACHE names, or the platform's folder for caches.

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
        """Where the table of a key is kept."""
        return self.folder / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.npz"

    def load(self, key: str, n_rows: int, depth: int) -> tuple[Array, Array] | None:
        """Read a table.

        Args:
            key: What the table depends on.
            n_rows: V.
            depth: How many candidates are kept for a row.

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
        """Write a table in one step.

        Args:
            key: What the table depends on.
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
            np.savez(part, key=np.array(key), ids=ids, ranked=ranked)
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
        """Remove the parts that processes left which were killed while they wrote."""
        for found in self.folder.glob(".*.npz"):
            # Another process may be removing the same one.
            with contextlib.suppress(OSError):
                if _PART.fullmatch(found.name) and time.time() - found.stat().st_mtime > _LEFTOVER_SECONDS:
                    found.unlink()


def _platform_folder() -> Path:
    """The platform's folder for caches, as far as that is known."""
    import platformdirs

    try:
        return platformdirs.user_cache_path("captum-dig") / "tables"
    except (RuntimeError, KeyError, OSError):
        # No home directory: the path still begins with the sign for one.
        return Path("~/.cache/captum-dig/tables")


def _open_file(path: Path) -> BinaryIO:
    """Open a regular file; anything else, such as a FIFO, could keep its reader waiting."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError("it is no regular file")
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def _read(stream: BinaryIO, key: str, n_rows: int, depth: int) -> tuple[Array, Array] | None:
    """Read a table, and never more bytes than it can have; None if it is another."""
    # What a whole table takes, and ample room for names and headers.
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
    """Read an array from an archive; its bytes are counted before its header is believed."""
    member = archive.getinfo(f"{name}.npy")
    if member.file_size > most:
        raise ValueError(f"{name} has {member.file_size} bytes")
    # Its check sum is compared here, before anything is made of it.
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
    # A copy: what stands on bytes cannot be written.
    return np.frombuffer(content.getbuffer()[content.tell() :], dtype).reshape(shape).copy()


def digest(values: npt.NDArray[np.generic]) -> str:
    """Hexadecimal SHA-256 of an array's bytes."""
    return hashlib.sha256(values.tobytes()).hexdigest()
