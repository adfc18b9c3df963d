"""Files that are written: whole or not at all, for nobody's eyes before, and with nothing left behind."""

import json
import os
import re
import stat
import subprocess
import sys
import threading
import time

import pytest

from captum_dig.cli.files import check_outputs, write, write_all
from captum_dig.comparison import report
from captum_dig.visualization import writing
from captum_dig.visualization.writing import write_whole
from tests.comparison.test_results import made_up
from tests.text.test_results import result

posix = pytest.mark.skipif(os.name == "nt", reason="no modes")


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def parts(folder):
    return [path for path in folder.iterdir() if path.name.startswith(".captum-dig")]


@pytest.fixture
def spy(monkeypatch):
    """Record the mode that the part of a file has when content gets into it."""
    really, modes = os.fdopen, []

    class Spy:
        def __init__(self, handle):
            self.file = really(handle, "wb")

        def __enter__(self):
            return self

        def __exit__(self, *_):
            self.file.close()

        def write(self, data):
            modes.append(stat.S_IMODE(os.fstat(self.file.fileno()).st_mode))
            return self.file.write(data)

    monkeypatch.setattr(os, "fdopen", lambda handle, *_: Spy(handle))
    return modes


@posix
@pytest.mark.parametrize("old", [0o600, 0o640, 0o644, 0o604, 0o666])
def test_a_file_is_never_readable_by_more_people_than_before(tmp_path, spy, old):
    path = tmp_path / "page.html"
    path.write_bytes(b"old")
    path.chmod(old)
    before = os.umask(0)
    try:
        write_whole(path, b"secret")
    finally:
        os.umask(before)
    assert spy == [old]
    assert mode(path) == old
    assert path.read_bytes() == b"secret"


@posix
@pytest.mark.parametrize("umask", [0o022, 0o077, 0])
def test_a_new_file_has_the_usual_mode_or_a_private_one(tmp_path, umask):
    before = os.umask(umask)
    try:
        write_whole(tmp_path / "usual", b"")
        write_whole(tmp_path / "private", b"", private=True)
    finally:
        os.umask(before)
    assert mode(tmp_path / "usual") == 0o666 & ~umask
    assert mode(tmp_path / "private") == 0o600


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files away")
def test_a_file_stays_its_owners(tmp_path):
    path = tmp_path / "page.html"
    path.write_bytes(b"old")
    path.chmod(0o640)
    os.chown(path, 12345, 54321)
    write_whole(path, b"new")
    assert (path.stat().st_uid, path.stat().st_gid, mode(path)) == (12345, 54321, 0o640)


@posix
def test_what_a_group_may_read_is_not_shown_to_another_group(tmp_path, monkeypatch):
    path = tmp_path / "page.html"
    path.write_bytes(b"old")
    path.chmod(0o664)

    def refuse(*_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "chown", refuse)
    write_whole(path, b"new")
    assert mode(path) == 0o604


def test_readers_see_the_old_file_or_the_new_one_whole(tmp_path):
    path = tmp_path / "page.html"
    contents = [bytes([65 + i]) * 300_000 for i in range(2)]
    path.write_bytes(contents[0])
    done, seen = threading.Event(), set()

    def read():
        while not done.is_set():
            data = path.read_bytes()
            seen.add(data in contents)

    reader = threading.Thread(target=read)
    reader.start()
    for i in range(60):
        write_whole(path, contents[i % 2])
    done.set()
    reader.join()
    assert seen == {True}
    assert parts(tmp_path) == []


@pytest.mark.parametrize("step", ["write", "replace"])
def test_a_failure_leaves_the_old_file_and_no_part(tmp_path, monkeypatch, step):
    path = tmp_path / "page.html"
    path.write_bytes(b"precious")

    def fail(*_, **__):
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(*((os, "fdopen", fail) if step == "write" else (type(path), "replace", fail)))
    with pytest.raises(OSError, match="No space left on device: '.*page.html'"):
        write_whole(path, b"new")
    with pytest.raises(ValueError, match="--html must be a file that can be written, got .*: No space left on device"):
        write("--html", path, b"new")
    assert path.read_bytes() == b"precious"
    assert parts(tmp_path) == []


def test_trying_changes_nothing(tmp_path):
    write_whole(tmp_path / "new", None)
    (tmp_path / "old").write_bytes(b"old")
    write_whole(tmp_path / "old", None)
    assert [path.name for path in tmp_path.iterdir()] == ["old"]
    assert (tmp_path / "old").read_bytes() == b"old"


@posix
def test_links_are_followed_and_circles_are_refused(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "folder" / "page.html")
    write_whole(tmp_path / "link", b"new")
    assert (tmp_path / "folder" / "page.html").read_bytes() == b"new"
    assert (tmp_path / "link").is_symlink()
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    for path in (tmp_path / "a", tmp_path / "a" / "page.html"):
        with pytest.raises(OSError, match="symbolic links|No such file"):
            write_whole(path, b"new")
        with pytest.raises(ValueError, match=r"--html must be .*, got "):
            check_outputs({"--html": path}, {"--file": tmp_path / "b"} if path.name == "page.html" else {})
    assert (tmp_path / "a").is_symlink()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes")
def test_a_pipe_is_written_to(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    write_whole(tmp_path / "pipe", None)
    read = []
    reader = threading.Thread(target=lambda: read.append((tmp_path / "pipe").read_bytes()))
    reader.start()
    write_whole(tmp_path / "pipe", b"new")
    reader.join()
    assert read == [b"new"]
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


def test_parts_of_killed_processes_are_removed_after_a_day(tmp_path):
    names = {
        ".captum-dig-0123456789abcdef.part": False,
        ".captum-dig-fedcba9876543210.part": True,
        ".captum-dig-0123456789abcdeX.part": True,
        "x.captum-dig-0123456789abcdef.part": True,
        ".captum-dig-0123456789abcdef.partial": True,
    }
    for name in names:
        (tmp_path / name).write_bytes(b"")
        if name != ".captum-dig-fedcba9876543210.part":
            os.utime(tmp_path / name, (time.time() - 90_000,) * 2)
    (tmp_path / ".captum-dig-aaaaaaaaaaaaaaaa.part").mkdir()
    os.utime(tmp_path / ".captum-dig-aaaaaaaaaaaaaaaa.part", (0, 0))
    write_whole(tmp_path / "page.html", b"new")
    assert {name: (tmp_path / name).exists() for name in names} == names
    assert (tmp_path / ".captum-dig-aaaaaaaaaaaaaaaa.part").is_dir()


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files away")
def test_parts_of_other_users_stay(tmp_path, monkeypatch):
    part = tmp_path / ".captum-dig-0123456789abcdef.part"
    part.write_bytes(b"")
    os.chown(part, 12345, -1)
    os.utime(part, (0, 0))
    write_whole(tmp_path / "page.html", b"new")
    assert part.exists()


@posix
def test_what_a_killed_process_leaves_is_recognised_and_private(tmp_path):
    path = tmp_path / "page.html"
    path.write_bytes(b"old")
    path.chmod(0o600)
    code = (
        "import os, sys\nfrom pathlib import Path\nfrom captum_dig.visualization.writing import write_whole\n"
        "Path.replace = lambda *_: os.kill(os.getpid(), 9)\nos.umask(0)\nwrite_whole(sys.argv[1], b'secret')"
    )
    subprocess.run([sys.executable, "-c", code, str(path)], check=False)
    (part,) = parts(tmp_path)
    assert writing._PART.fullmatch(part.name)
    assert mode(part) == 0o600
    assert path.read_bytes() == b"old"


@posix
@pytest.mark.parametrize("draw", [lambda path: result().to_html(path), lambda path: made_up(1).to_html(path)])
def test_pages_of_results_are_written_so_too(tmp_path, draw, monkeypatch):
    monkeypatch.setattr(report, "report_page", lambda _: "the page")
    path = tmp_path / "page.html"
    path.write_bytes(b"old")
    path.chmod(0o600)
    reader = path.open("rb")
    page = draw(path)
    with reader:
        assert reader.read() == b"old"
    assert path.read_text("utf-8") == page
    assert mode(path) == 0o600
    with pytest.raises(OSError, match="No such file"):
        draw(tmp_path / "nowhere" / "page.html")


def test_every_output_is_written_and_each_failure_said(tmp_path, capsys):
    outputs = {"--html": tmp_path / "gone" / "page.html", "--json": tmp_path / "out.json"}
    assert not write_all(
        outputs, {"--html": lambda: "page", "--json": lambda: json.dumps("\ud800", ensure_ascii=False)}
    )
    assert re.search("--html must be a file that can be written", capsys.readouterr().err)
    assert (tmp_path / "out.json").read_bytes() == b'"\\ud800"'
