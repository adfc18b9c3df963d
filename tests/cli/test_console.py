"""What surrounds the command: signals, widths, streams that are full or closed."""

import errno
import io
import json
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from captum_dig import MissingExtraError, Vocabulary, cli
from captum_dig.cli import files
from captum_dig.cli.console import one_line, say, signals_as_interrupts
from tests.running import environment_of, run_command

TEXT = "a gorgeous, witty movie"

# As `captum-dig explain`, with an explainer that finds the first text at once and never the second.
SLOW = """
import signal, sys, time
for number in (signal.SIGTERM, signal.SIGHUP):  # which the runner of the tests may ignore
    signal.signal(number, signal.SIG_DFL)
from captum_dig import TextAttribution, cli
from captum_dig.cli import models
from captum_dig.text.settings import ExplanationSettings

class Explainer:
    def explain_each(self, texts, *_, **__):
        settings = ExplanationSettings("m", "s", "all", 0, 0, "p", 8, "g", "arc", "logit", "0")
        for text in texts:
            yield TextAttribution(text, (), (), (), (), (), (), (), ("A",), (1.0,), 0, 1.0, 0.0, (), settings)
            print("found", file=sys.stderr, flush=True)
            time.sleep(60)

models.load = lambda *_, **__: Explainer()
cli.main()
"""


@pytest.mark.skipif(os.name == "nt", reason="no signals")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_end_keeps_what_was_found(tmp_path, number):
    command = [sys.executable, "-c", SLOW, "explain", TEXT, "never", "--json", str(tmp_path / "out.json")]
    with subprocess.Popen(command, env=environment_of(), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stderr.readline() == b"found\n"
        process.send_signal(number)
        assert process.communicate(timeout=60)[1] == b""
    assert process.returncode == 128 + number
    assert [entry["text"] for entry in json.loads((tmp_path / "out.json").read_text("utf-8"))] == [TEXT]


@pytest.mark.skipif(os.name == "nt", reason="no signals")
def test_a_second_signal_ends_at_once_and_an_ignored_one_stays_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    ends = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        with signals_as_interrupts() as came:
            signal.raise_signal(signal.SIGHUP)
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGTERM)
            assert came == [signal.SIGTERM]
            assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
        signal.signal(signal.SIGTERM, ends)


def test_signals_in_a_thread_are_left_alone():
    found = []

    def work():
        with signals_as_interrupts() as came:
            found.append(came)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [[]]


@pytest.mark.parametrize("columns", ["0", "99999999999", "9" * 5000, "-5", "²", "wide", "", "1", "40"])
@pytest.mark.parametrize("name", ["COLUMNS", "LINES"])
def test_a_width_that_no_terminal_has_counts_as_none(monkeypatch, name, columns):
    monkeypatch.setenv(name, columns)
    result = CliRunner(env={name: columns}).invoke(cli.app, ["explain", "--help"], prog_name="captum-dig")
    assert result.exit_code == 0
    assert "Usage" in result.stdout


@pytest.mark.parametrize("columns", ["0", "99999999999", "²", "3", "40"])
def test_an_explanation_at_any_width(monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", columns)
    arguments = ["explain", TEXT, "--n-steps", "8"]
    result = CliRunner(env={"COLUMNS": columns, "NO_COLOR": "1"}).invoke(cli.app, arguments)
    assert (result.exit_code, result.stderr) == (0, "")
    assert "".join(result.stdout.split()).startswith("Predicted:POSITIVE")
    if columns == "40":
        assert max(map(len, result.stdout.splitlines())) <= 40


class Full(io.StringIO):
    def write(self, text):
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_warning_that_nobody_can_read_stops_nothing(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Full())
    say("warning", "the text was cut off")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_an_explanation_with_a_warning_that_nobody_can_read(unbuffered):
    command = [sys.executable, "-m", "captum_dig", "explain", "good movie " * 260, "--n-steps", "8"]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            command,
            env=environment_of() | {"PYTHONUNBUFFERED": unbuffered},
            stdout=subprocess.PIPE,
            stderr=full,
            check=False,
            timeout=240,
        )
    assert b"Predicted: POSITIVE" in done.stdout
    assert done.returncode == 0


def test_a_closed_stream_does_not_move_warnings_to_the_other(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stderr", None)
    say("warning", "the text was cut off")
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--n-anchors", "100000"], "--n-anchors must be at most 1000, got 100000; more take hours, or all memory"),
        (["--n-steps", "20001"], "--n-steps must be at most 20000, got 20001; more take hours, or all memory"),
        (["--n-steps", "9" * 5000], "--n-steps must be auto or an integer of at least 1, got '999"),
    ],
)
def test_numbers_that_would_never_end(arguments, message):
    result = CliRunner().invoke(cli.app, ["explain", TEXT, *arguments])
    assert result.exit_code == 2
    assert result.stderr.startswith(f"error: {message}")


def test_the_runner_of_commands_gives_status_and_streams():
    result = run_command("explain", "--n-anchors", "0", TEXT)
    assert result.error == "--n-anchors must be an integer of at least 1, got 0"
    assert run_command("--version").stdout.startswith("captum-dig ")


def test_a_missing_faiss_is_one_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(MissingExtraError) as caught:
        Vocabulary(torch.eye(3)).neighbors(torch.tensor([0]), 1)
    assert re.fullmatch(r"a search for neighbours needs FAISS, got: .*pip install faiss-cpu", one_line(caught.value))


@pytest.mark.parametrize("watched", [True, False])
def test_a_person_is_told_what_was_written(tmp_path, monkeypatch, capsys, watched):
    monkeypatch.setattr(files, "is_watched", lambda: watched)
    outputs = {"--html": tmp_path / "why.html", "--json": files.DASH}
    assert files.write_all(outputs, {"--html": lambda: "<p>", "--json": lambda: "[]"})
    out, err = capsys.readouterr()
    assert out == "[]"
    assert err == (f"written: {tmp_path / 'why.html'}\n" if watched else "")
