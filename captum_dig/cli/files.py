"""What commands write: pages and JSON, each whole or not at all."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from typer import echo

from captum_dig.cli.console import is_watched, say
from captum_dig.visualization.writing import write_whole

DASH = Path("-")  # standard input or output


def check_outputs(outputs: Mapping[str, Path], inputs: Mapping[str, Path | None]) -> None:
    """Find out whether every output can be written, without changing anything, and is none of the inputs."""
    # Not `Path.resolve`: it raises where links lead in a circle.
    taken = {os.path.realpath(file): name for name, file in inputs.items() if file is not None and file != DASH}
    for option, path in outputs.items():
        place = str(path) if path == DASH else os.path.realpath(path)
        if place in taken:
            raise ValueError(f"{option} must be another file than {taken[place]}, got {str(path)!r}; rename one")
        taken[place] = option
        if path.is_dir():
            raise ValueError(f"{option} must be a file, got the folder {str(path)!r}; name a file in it")
        if not path.parent.is_dir():
            raise ValueError(f"{option} must be in a folder that exists, got {str(path)!r}; create the folder first")
        write(option, path, None)


def write_all(outputs: Mapping[str, Path], contents: Mapping[str, Callable[[], str | bytes]]) -> bool:
    """Write every output, and report each failure; True if there is none.

    A person at a terminal is told each file that was written.
    """
    complete = True
    for option, path in outputs.items():
        content = contents[option]()
        try:
            # Half a character, which UTF-8 cannot hold, becomes the escape that JSON has for it.
            data = content.encode("utf-8", "backslashreplace") if isinstance(content, str) else content
            write(option, path, data)
        except ValueError as error:
            complete = False
            say("error", str(error))
        else:
            if path != DASH and is_watched():
                say("written", str(path))
    return complete


def write(option: str, path: Path, data: bytes | None) -> None:
    """Write a file so that it is always either the old one or the new one, whole; None only tries."""
    try:
        if path != DASH:
            write_whole(path, data)
        elif data is not None:
            echo(data, nl=False)
    except BrokenPipeError:
        return  # the reader has seen enough
    except OSError as error:
        problem = f"{option} must be a file that can be written, got {str(path)!r}: {error.strerror}"
        raise ValueError(problem) from error
