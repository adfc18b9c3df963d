"""Run `captum-dig` as its own process, as a person does; a traceback fails the test, whatever the status."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

# What the caller's shell says must not decide what a test sees.
_UNSET = ("COLUMNS", "FORCE_COLOR", "NO_COLOR", "PYTHONWARNINGS")


@dataclass(frozen=True)
class Result:
    """What a command left behind."""

    status: int
    stdout: str
    stderr: str

    @property
    def error(self) -> str:
        """The single line on standard error of a command that failed with a cause to name."""
        assert self.status == 2, (self.status, self.stderr)
        assert self.stderr.startswith("error: "), self.stderr
        assert self.stderr.count("\n") == 1, self.stderr
        return self.stderr.removeprefix("error: ").rstrip("\n")


def environment_of(env=()):
    """The environment of a command: the caller's, without what changes a picture, with what a test adds."""
    known = {name: value for name, value in os.environ.items() if name not in _UNSET}
    root = str(Path(__file__).parents[1])
    return known | {"PYTHONPATH": root, "HF_HUB_OFFLINE": "1"} | dict(env)


def run_command(*args, env=(), input="", cwd=None, timeout=240):  # noqa: A002 - as subprocess.run calls it
    """Run `captum-dig` with these arguments and this standard input, and fail on a traceback."""
    done = subprocess.run(
        [sys.executable, "-m", "captum_dig", *map(str, args)],
        env=environment_of(env),
        input=input.encode() if isinstance(input, str) else input,
        capture_output=True,
        check=False,
        cwd=cwd,
        timeout=timeout,
    )
    result = Result(done.returncode, done.stdout.decode(), done.stderr.decode())
    assert "Traceback" not in result.stderr, result.stderr
    return result
