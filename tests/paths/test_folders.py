"""Files of ranked tables that are damaged, replaced or unreadable, and folders that are not there."""

import io
import os
import random
import sys
import time
import tracemalloc
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from captum_dig import MonotonicPath, TextExplainer, Vocabulary
from captum_dig.paths.folders import TableFolder
from tests import damage

ROWS = torch.randn(60, 5, generator=torch.Generator().manual_seed(3))
IDS = torch.arange(1, 60)


def make(folder):
    return MonotonicPath(Vocabulary(ROWS), "greedy", 5, 12, folder=folder and TableFolder(folder))


@pytest.fixture(scope="module")
def expected():
    return make(None).anchor_ids(IDS, 0)


@pytest.fixture
def file(tmp_path):
    path = make(tmp_path)
    path.anchor_ids(IDS, 0)
    path.store()
    (found,) = tmp_path.glob("*.npz")
    return found


def walk(folder):
    """The walks with whatever is in the folder, and what was said about it."""
    path = make(folder)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        walks = path.anchor_ids(IDS, 0)
        path.store()
    return walks, [str(warning.message) for warning in caught]


def said_once(messages, file):
    return len(messages) == 1 and messages[0].startswith(f"{file} ") and messages[0].endswith("the table is built anew")


# Places in a file of ours, from the end of the zip archive and from its first member.
ZIP_FLAGS = {"encrypted": (6, 1), "compressed otherwise": (8, 99), "of a later version": (4, 99)}


def in_the_directory(file, offset, value):
    """Change a byte in each entry of the central directory of a zip archive."""
    data = bytearray(file.read_bytes())
    start = 0
    while (start := data.find(b"PK\x01\x02", start)) >= 0:
        data[start + 2 + offset] = value
        start += 4
    file.write_bytes(data)


@pytest.mark.parametrize(("offset", "value"), ZIP_FLAGS.values(), ids=ZIP_FLAGS.keys())
def test_an_archive_that_python_cannot_open_is_built_anew(file, expected, offset, value):
    in_the_directory(file, offset, value)
    walks, messages = walk(file.parent)
    assert torch.equal(walks, expected)
    assert said_once(messages, file)
    assert walk(file.parent)[1] == []


def replace_member(file, name, data):
    with zipfile.ZipFile(file) as archive:
        members = {member: archive.read(member) for member in archive.namelist()}
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, content in (members | {name: data}).items():
            archive.writestr(member, content)


def header(shape, dtype="<i4"):
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": dtype, "fortran_order": False, "shape": shape})
    return stream.getvalue()


ABSURD = {
    "more rows than memory": ("ranked.npy", header((2**40, 7))),
    "a shape that overflows": ("ranked.npy", header((2**62, 2**62))),
    "deep nesting": ("ids.npy", b"\x93NUMPY\x01\x00\xff\x7f" + b"(" * 0x7FFF),
    "an invalid escape": ("ids.npy", header((3,)).replace(b"descr", b"des\\q")),
    "a bomb": ("ids.npy", header((2**26,)) + bytes(4 * 2**26)),
    "a long key": ("key.npy", header((), f"<U{2**24}") + bytes(2**26)),
    "an old header": ("ids.npy", header((3,)).replace(b"3", b"3L")),
}


@pytest.mark.parametrize(("name", "data"), ABSURD.values(), ids=ABSURD.keys())
def test_absurd_shapes_take_no_memory(file, expected, name, data):
    replace_member(file, name, data)
    tracemalloc.start()
    try:
        walks, messages = walk(file.parent)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert torch.equal(walks, expected)
    assert said_once(messages, file)
    assert peak < 2**23


@pytest.mark.parametrize("fault", damage.REPLACEMENTS.values(), ids=damage.REPLACEMENTS.keys())
def test_something_else_than_a_file_is_reported_and_not_waited_for(file, expected, fault):
    fault(file, random.Random(0))
    walks, messages = walk(file.parent)
    assert torch.equal(walks, expected)
    assert f"{file} cannot be read" in messages[0]
    # A folder stays where it is, and is reported again.
    assert len(messages) == 1 + (fault is damage.make_folder)
    assert fault is damage.make_folder or walk(file.parent)[1] == []


def test_a_file_much_larger_than_its_table_is_not_read(file, expected):
    with file.open("r+b") as stream:
        stream.truncate(2**33)
    walks, messages = walk(file.parent)
    assert torch.equal(walks, expected)
    assert said_once(messages, file)


@pytest.mark.parametrize("name", damage.DAMAGES)
@pytest.mark.parametrize("seed", range(5))
def test_a_damaged_table_is_never_used(file, expected, name, seed):
    damage.DAMAGES[name](file, random.Random(seed))
    assert torch.equal(walk(file.parent)[0], expected)


@pytest.mark.slow
def test_thousands_of_faults(tmp_path, classifier, tokenizer):
    """Not one gives another table, or an exception; each is reported, or does not matter."""

    def explain():
        explainer = TextExplainer(classifier, tokenizer, strategy="greedy", n_anchors=4, n_neighbors=12, cache=tmp_path)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            return explainer.explain("a witty movie", n_steps=2), len(caught)

    right, _ = explain()
    (file,) = tmp_path.glob("*.npz")
    whole = file.read_bytes()
    folder = TableFolder(tmp_path)
    table = TextExplainer(classifier, tokenizer, strategy="greedy", n_anchors=4, n_neighbors=12, cache=tmp_path).table()
    ids, ranked = folder.load(table.key, len(table), 6)
    rng, reported = random.Random(0), 0
    for number in range(2000):
        file.write_bytes(whole)
        how = damage.damage(file, rng)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = TableFolder(tmp_path).load(table.key, len(table), 6)
        assert len(caught) == (found is None), (number, how)
        assert found is None or (np.array_equal(found[0], ids) and np.array_equal(found[1], ranked)), (number, how)
        reported += found is None
        if number % 20 == 0:
            assert explain()[0] == right, (number, how)
    assert reported > 1000


def test_files_of_killed_processes_are_removed(tmp_path, file):
    old, new = (tmp_path / f".{file.stem}-{letter * 16}.npz" for letter in "ab")
    others = [tmp_path / name for name in (".mine.npz", "notes.txt", f".{file.stem}-{'a' * 16}.npz.bak")]
    for leftover in (old, new, *others):
        leftover.write_bytes(b"half")
    yesterday = time.time() - 25 * 3600
    for leftover in (old, *others):
        os.utime(leftover, (yesterday, yesterday))
    path = make(tmp_path)
    path.anchor_ids(torch.tensor([2]), 1)
    path.store()
    assert not old.exists()
    assert new.exists()
    assert all(other.exists() for other in others)


def test_a_full_disk_is_reported_once_and_leaves_the_old_file(tmp_path, expected):
    with damage.small_disk(tmp_path, 8192) as mounted:
        if not mounted:
            pytest.skip("no disk may be mounted here")
        path = make(tmp_path)
        path.table(ROWS[0]).rank(torch.tensor([1]))
        path.store()
        (file,) = tmp_path.glob("*.npz")
        whole = file.read_bytes()
        (tmp_path / "full").write_bytes(bytes(8192 - len(whole) - len(whole) % 4096)[:3000])
        walks, messages = walk(tmp_path)
        assert torch.equal(walks, expected)
        assert len(messages) == 1
        assert "cannot be written (No space left on device)" in messages[0]
        assert file.read_bytes() == whole
        assert {found.name for found in tmp_path.iterdir()} == {file.name, "full"}


def test_the_users_home_is_not_a_folder_of_that_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("CAPTUM_DIG_CACHE", "~/tables")
    assert TableFolder.default().folder == tmp_path / "home" / "tables"
    assert TableFolder("~/tables").folder == tmp_path / "home" / "tables"


@pytest.mark.parametrize("named", [None, "~/tables", "~nobody-of-this-name/tables"])
def test_without_a_home_there_is_no_folder_and_one_warning(tmp_path, monkeypatch, named):
    def homeless(self):
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Path, "expanduser", homeless)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    for name in ("HOME", "XDG_CACHE_HOME", "CAPTUM_DIG_CACHE"):
        monkeypatch.delenv(name, raising=False)
    if named is not None:
        monkeypatch.setenv("CAPTUM_DIG_CACHE", named)
    with pytest.warns(UserWarning, match="tables are kept in memory only.*CAPTUM_DIG_CACHE") as caught:
        assert TableFolder.default() is None
    assert len(caught) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_folder_in_nobodys_home(monkeypatch):
    monkeypatch.setattr(Path, "expanduser", lambda self: (_ for _ in ()).throw(RuntimeError("no home")))
    with pytest.raises(ValueError, match="folder must be in a home directory that exists, got '~/tables'; name"):
        TableFolder("~/tables")


@pytest.mark.slow
def test_a_user_without_a_home_explains_all_the_same(tmp_path):
    script = (
        "import warnings\n"
        "from captum_dig import TextExplainer\n"
        "with warnings.catch_warnings(record=True) as caught:\n"
        "    warnings.simplefilter('always')\n"
        "    explainer = TextExplainer.demo()\n"
        "    explainer.explain('A fine film.', n_steps=4)\n"
        "    explainer.explain('A fine film.', strategy='greedy', n_steps=4)\n"
        "print(sum('CAPTUM_DIG_CACHE' in str(w.message) for w in caught))\n"
    )
    environment = {name: value for name, value in os.environ.items() if name != "CAPTUM_DIG_CACHE"}
    environment["PYTHONPATH"] = str(Path(__file__).parents[2])
    done = damage.as_stranger([sys.executable, "-c", script], environment=environment)
    if done is None or "Permission denied" in done.stderr:
        pytest.skip("no other user can run this here")
    assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr


def test_a_table_that_this_user_may_not_read(file, expected):
    damage.make_unreadable(file, random.Random(0))
    with damage.as_other_user(file) as refused:
        if not refused:
            pytest.skip("no other user can be tried here")
        with pytest.warns(UserWarning, match=r"cannot be read \(.*Permission denied.*the table is built anew"):
            assert TableFolder(file.parent).load(make(None).table(ROWS[0]).key, 60, 7) is None
    # Whoever may write the folder may replace it.
    assert torch.equal(walk(file.parent)[0], expected)
