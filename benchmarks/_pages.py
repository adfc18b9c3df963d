"""What generated pages share: tables, numbers, and the command that writes a page with its figures."""

import argparse
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Lay out a table in Markdown."""
    lines = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def number(value: float | None, digits: int = 3) -> str:
    """Write a number, or a dash where there is none."""
    return "–" if value is None else f"{value:.{digits}f}"


def publish(
    description: str | None, make: Callable[[dict[str, Any]], tuple[str, dict[str, str]]], results: Path, file: Path
) -> None:
    """Write a page, or only make it.

    Args:
        description: What the command says of itself.
        make: From results by name of file to the page, and its figures by file name.
        results: The folder of results, unless the command names another.
        file: Where the page goes, and the figures beside it.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=results, help="folder of results")
    parser.add_argument("--tiny", action="store_true", help="write nothing")
    arguments = parser.parse_args()
    found = {path.stem: json.loads(path.read_text("utf-8")) for path in sorted(arguments.results.glob("*.json"))}
    text, figures = make(found)
    if arguments.tiny:
        print(f"{len(text.splitlines())} lines, {len(figures)} figures")
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    for name, figure in figures.items():
        # Alone in a file, a picture is not part of a page that has a colour.
        (file.parent / name).write_text(figure.replace("currentColor", "#808080") + "\n", encoding="utf-8")
    print(f"written: {file}")
