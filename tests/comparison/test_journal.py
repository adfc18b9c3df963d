"""Journals that were cut off, damaged, moved or made by somebody else: nothing is reported that was not measured."""

import io
import json
import os
import random
import stat
import threading
import warnings
from dataclasses import replace

import pytest
from rich.console import Console

from captum_dig.cli import comparing as command
from captum_dig.comparison import journal as journals
from captum_dig.comparison.journal import Journal
from tests.comparison.test_results import made_up

COMPARISON = made_up(4, methods=("integrated_gradients", "random"), baselines=("pad",))
SETTINGS, TEXTS = COMPARISON.settings, COMPARISON.texts
DAMAGED = pytest.mark.filterwarnings("ignore:what was kept is damaged")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "journal.jsonl"


@pytest.fixture
def whole(path):
    """The bytes of a journal that holds every text."""
    fill(Journal(path, SETTINGS))
    return path.read_bytes()


def fill(journal):
    for number, text in enumerate(TEXTS):
        if journal.find(number, text.text) is None:
            journal.append(number, text)


def found(journal):
    return [journal.find(number, text.text) for number, text in enumerate(TEXTS)]


def as_json(text):
    return json.dumps(text.to_dict(), sort_keys=True)


def check(journal):
    """Require that what is found is what was measured, and that the rest can be kept; give how much was found."""
    read = found(journal)
    for text, expected in zip(read, TEXTS, strict=True):
        assert text is None or as_json(text) == as_json(expected)
    assert set(journal._texts) <= {(number, text.text) for number, text in enumerate(TEXTS)}
    return sum(text is not None for text in read)


# ---------------------------------------------------------------------------------------- random faults


def flip(data, draw):
    for _ in range(draw.choice([1, 1, 1, 2, 8])):
        data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)


def cut(data, draw):
    start = draw.randrange(len(data))
    del data[start : draw.choice([len(data), start + draw.randrange(1, 200)])]


def swap(data, draw):
    lines = bytes(data).splitlines(keepends=True)
    i, j = (draw.randrange(len(lines)) for _ in range(2))
    lines[i], lines[j] = lines[j], lines[i]
    data[:] = b"".join(lines)


def move(data, draw):
    start, size, to = draw.randrange(len(data)), draw.randrange(1, 100), draw.randrange(len(data))
    data[to : to + size] = data[start : start + size]


def repeat(data, draw):
    start = draw.randrange(len(data))
    data[start:start] = data[draw.randrange(len(data)) :]


def empty(data, draw):
    start = draw.randrange(len(data))
    size = min(draw.choice([1, 16, 512, 4096]), len(data) - start)
    data[start : start + size] = bytes(size)


def exchange(data, draw):
    digits = [i for i, byte in enumerate(data) if chr(byte).isdigit()]
    data[draw.choice(digits)] = ord(draw.choice("0123456789"))


FAULTS = (flip, cut, swap, move, repeat, empty, exchange)


@DAMAGED
@pytest.mark.parametrize("n", [140, pytest.param(2000, marks=pytest.mark.slow)])
def test_no_fault_changes_a_number_or_ends_the_command(path, whole, n, monkeypatch):
    monkeypatch.setenv("CAPTUM_DIG_CACHE", str(path.parent / "cache"))
    screen = Console(file=io.StringIO())
    kept = command._journal(screen, SETTINGS).path
    draw = random.Random(7)
    counts = []
    for number in range(n):
        data = bytearray(whole)
        FAULTS[number % len(FAULTS)](data, draw)
        kept.write_bytes(data)
        journal = command._journal(screen, SETTINGS)
        counts.append(check(journal))
        if number % 10 == 0:
            fill(journal)
            assert check(command._journal(screen, SETTINGS)) == len(TEXTS)
        for other in kept.parent.glob("*.damaged*"):
            other.unlink()
    # Some faults must hit something, and most leave the other lines alone.
    assert min(counts) == 0
    assert max(counts) == len(TEXTS)
    assert sum(counts) > n


@DAMAGED
def test_every_bit_of_the_first_line_counts(path, whole):
    head = whole.index(b"\n")
    for place in range(0, 8 * head, 7):
        data = bytearray(whole)
        data[place // 8] ^= 1 << place % 8
        path.write_bytes(data)
        assert check(Journal(path, SETTINGS)) == 0
        (aside,) = path.parent.glob("*.damaged-*")
        assert aside.read_bytes() == data
        aside.unlink()


def test_every_cut_keeps_the_lines_before_it(path, whole):
    ends = [i for i, byte in enumerate(whole) if byte == 10]
    for stop in range(0, len(whole), 13):
        path.write_bytes(whole[:stop])
        journal = Journal(path, SETTINGS)
        # A line without its line feed is whole, too.
        assert check(journal) == max(0, sum(end <= stop for end in ends) - 1)
        fill(journal)
        assert check(Journal(path, SETTINGS)) == len(TEXTS)


# ---------------------------------------------------------------------------------------- forged lines


def nested(depth=100_000):
    return b"[" * depth + b"]" * depth


@pytest.mark.parametrize(
    "change",
    [
        lambda entry: entry.pop("number"),
        lambda entry: entry.pop("text"),
        lambda entry: entry.update(number="0"),
        lambda entry: entry.update(number=None),
        lambda entry: entry.update(number=1.0),
        lambda entry: entry.update(text=[]),
        lambda entry: entry["text"].update(measurements={}),
        lambda entry: entry["text"].update(measurements=entry["text"]["measurements"][:1]),
        lambda entry: entry["text"].update(measurements=entry["text"]["measurements"] * 2),
        lambda entry: entry["text"].update(word_offsets=[[0, 2], [3]]),
        lambda entry: entry["text"].update(word_offsets=[[0, 2], [3, 10**9]]),
        lambda entry: entry["text"].update(target=-1),
        lambda entry: entry["text"].update(label=None),
        lambda entry: entry["text"]["measurements"][0].update(values=[]),
        lambda entry: entry["text"]["measurements"][0].update(word_scores=[1.0]),
        lambda entry: entry["text"]["measurements"][0].update(word_scores=[1.0, "much"]),
        lambda entry: entry["text"]["measurements"][0].update(curve=[1.0]),
        lambda entry: entry["text"]["measurements"][0].update(n_gradients=10**40),
        lambda entry: entry["text"]["measurements"][0].update(seconds=10**400),
        lambda entry: entry["text"]["measurements"][0]["values"].update(log_odds=[1.0]),
        lambda entry: entry["text"]["measurements"][0]["values"].update(log_odds=1.0),
        lambda entry: entry["text"]["measurements"][0]["values"].update(speed=[1.0]),
    ],
)
def test_a_line_of_another_structure_is_done_again(path, whole, change):
    lines = whole.splitlines(keepends=True)
    entry = json.loads(lines[2])
    del entry["check"]
    change(entry)
    path.write_bytes(b"".join([*lines[:2], journals._line(entry, lines[0]), *lines[3:]]))
    assert check(Journal(path, SETTINGS)) == len(TEXTS) - 1


@pytest.mark.parametrize(
    "content", [b'{"number": Infinity, "text": 1}', b'{"number": %s}' % nested(), b"{}", b'{"a": 1']
)
def test_a_line_that_is_hardly_json_is_done_again(path, whole, content):
    lines = whole.splitlines(keepends=True)
    forged = b'{"check": "%s", %s\n' % (journals._check(lines[0], content), content[1:])
    path.write_bytes(b"".join([lines[0], forged, *lines[2:]]))
    assert check(Journal(path, SETTINGS)) == len(TEXTS) - 1


def test_lines_of_another_comparison_are_not_read(path, whole, tmp_path):
    other = tmp_path / "other.jsonl"
    fill(Journal(other, replace(SETTINGS, seed=1)))
    path.write_bytes(whole.splitlines(keepends=True)[0] + b"".join(other.read_bytes().splitlines(keepends=True)[1:]))
    assert check(Journal(path, SETTINGS)) == 0


# ---------------------------------------------------------------------------------------- other files


def test_a_journal_of_before_lines_had_hashes_is_refused(path):
    content = json.dumps({"journal": 1, "settings": SETTINGS.to_dict()}).encode() + b"\n"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"journal must be of format 3, .* of format 1; name another file, or remove"):
        Journal(path, SETTINGS)
    assert path.read_bytes() == content


@pytest.mark.parametrize(
    "content", [b"my diary\n", b'{"settings": {"colour": "red"}}\n', b"[]\n", b"\0" * 64, nested(), b"\n", b"\xff\xfe"]
)
def test_a_file_that_is_no_journal_is_refused_but_set_aside_in_the_cache(path, content, monkeypatch):
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"journal must be a new file or that of the same comparison"):
        Journal(path, SETTINGS)
    assert path.read_bytes() == content
    monkeypatch.setenv("CAPTUM_DIG_CACHE", str(path.parent / "cache"))
    screen = Console(file=io.StringIO(), width=500)
    kept = command._journal(screen, SETTINGS).path
    kept.write_bytes(content)
    assert check(command._journal(screen, SETTINGS)) == 0
    assert "what was kept is damaged, and was moved to" in screen.file.getvalue()
    assert [other.read_bytes() for other in kept.parent.glob("*.damaged-*")] == [content]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes")
def test_a_named_pipe_is_not_waited_for(path, monkeypatch):
    os.mkfifo(path)
    with pytest.raises(ValueError, match="journal must be a file, got .*, which is something else; name another file"):
        Journal(path, SETTINGS)
    monkeypatch.setenv("CAPTUM_DIG_CACHE", str(path.parent))
    screen = Console(file=io.StringIO(), width=500)
    kept = command._journal(screen, SETTINGS).path
    kept.unlink()
    os.mkfifo(kept)
    assert command._journal(screen, SETTINGS).path.is_file()
    # One that takes the place of the file in the middle of a run.
    journal = Journal(kept, SETTINGS)
    kept.unlink()
    os.mkfifo(kept)
    with pytest.warns(UserWarning, match="finished texts are not kept from here on"):
        fill(journal)
    assert check(journal) == len(TEXTS)


def test_a_folder_in_the_place_of_the_journal_is_said(path, monkeypatch):
    path.mkdir()
    with pytest.raises(ValueError, match="journal must be a file"):
        Journal(path, SETTINGS)


def test_a_link_to_a_file_that_is_not_there_is_followed(path, tmp_path):
    path.symlink_to(tmp_path / "real.jsonl")
    fill(Journal(path, SETTINGS))
    assert check(Journal(tmp_path / "real.jsonl", SETTINGS)) == len(TEXTS)


@pytest.mark.skipif(os.name == "nt", reason="no modes")
def test_nobody_else_reads_a_journal(tmp_path):
    journal = Journal(tmp_path / "new" / "journal.jsonl", SETTINGS)
    fill(journal)
    assert stat.S_IMODE(journal.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(journal.path.parent.stat().st_mode) == 0o700


# ---------------------------------------------------------------------------------------- disks


def refuse_writing(monkeypatch, number):
    really = os.open

    def refuse(file, flags, *rest, **options):
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            raise OSError(number, os.strerror(number), str(file))
        return really(file, flags, *rest, **options)

    monkeypatch.setattr(os, "open", refuse)


def test_a_folder_that_became_read_only_still_serves_what_it_has(path, whole, monkeypatch):
    path.write_bytes(b"".join(whole.splitlines(keepends=True)[:3]))
    refuse_writing(monkeypatch, 30)
    journal = Journal(path, SETTINGS)
    assert check(journal) == 2
    with pytest.warns(UserWarning, match="finished texts are not kept from here on: .*: Read-only file system") as said:
        fill(journal)
    assert len(said) == 1
    assert check(journal) == len(TEXTS)


def test_a_folder_that_cannot_be_written_is_said_once(tmp_path, monkeypatch):
    monkeypatch.setenv("CAPTUM_DIG_CACHE", str(tmp_path))
    refuse_writing(monkeypatch, 30)
    screen = Console(file=io.StringIO(), width=500)
    assert command._journal(screen, SETTINGS) is None
    assert screen.file.getvalue().count("finished texts are not kept, so stay until the end") == 1


def test_a_disk_that_is_full_is_said_once_and_costs_one_line(path, monkeypatch):
    journal = Journal(path, SETTINGS)
    journal.append(0, TEXTS[0])
    really = os.fdopen

    class Full(io.BytesIO):
        def __init__(self, handle):
            super().__init__()
            self.handle = handle

        def write(self, data):
            os.write(self.handle, data[: len(data) // 2])
            os.close(self.handle)
            raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "fdopen", lambda handle, *_, **__: Full(handle))
    with pytest.warns(UserWarning, match="finished texts are not kept from here on: .*: No space left") as said:
        fill(journal)
    assert len(said) == 1
    monkeypatch.setattr(os, "fdopen", really)
    again = Journal(path, SETTINGS)
    assert check(again) == 1
    fill(again)
    assert check(Journal(path, SETTINGS)) == len(TEXTS)


def test_a_journal_that_is_removed_in_the_middle_is_said(path):
    journal = Journal(path, SETTINGS)
    journal.append(0, TEXTS[0])
    path.unlink()
    with pytest.warns(UserWarning, match="finished texts are not kept from here on"):
        fill(journal)
    assert not path.exists()


def test_runs_share_a_journal(path):
    """Eight threads open it at once, and each keeps every text."""
    start, problems = threading.Barrier(8), []

    def run():
        start.wait()
        try:
            journal = Journal(path, SETTINGS)
            for number, text in enumerate(TEXTS):
                journal.append(number, text)
        except Exception as error:
            problems.append(error)

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert check(Journal(path, SETTINGS)) == len(TEXTS)
    assert sum(line.startswith(b'{"check"') for line in path.read_bytes().splitlines()) >= 8 * len(TEXTS)
