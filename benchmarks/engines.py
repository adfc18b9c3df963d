"""Do all engines give the same rows for a large table, and what does memory do?

Sentences of SST-2 and Rotten Tomatoes go through the demo model with 4 gradients each: in this process, in two
processes, and on Ray where it is installed. The rows are compared with those of this process, and the memory of this
process is measured after the first tenth and at the end.

    python -m benchmarks.engines --data-dir FOLDER --n 10000 --out benchmarks/results/engines.json
    python -m benchmarks.engines --tiny
"""

import argparse
import importlib.util
import json
import tempfile
from pathlib import Path
from typing import Any

from benchmarks._measuring import alone, clock, environment, resident_mb, rounded, write
from benchmarks._sentences import TINY_TEXTS, write_texts
from benchmarks.paper._settings import read
from captum_dig import TextExplainer
from captum_dig.datasets import explain_table

ENGINES = {"one process": {}, "two processes": {"workers": 2}, "ray": {"engine": "ray", "workers": 2}}


def run(data: Path, out: Path, options: dict[str, Any], n_rows: int) -> dict[str, float]:
    """Explain the table with an engine; return the seconds, and the memory gained after the first tenth in MB."""
    memory: list[float] = []

    def tell(done: int, _: int) -> None:
        if not memory and done >= n_rows // 10:
            memory.append(resident_mb())

    seconds = clock(
        lambda: explain_table(TextExplainer.demo, data, out, n_steps=4, file_format="jsonl", progress=tell, **options)
    )
    return {"rows_per_second": rounded(n_rows / seconds), "megabytes": rounded(resident_mb() - memory[0])}


def rows_of(folder: Path) -> list[dict[str, Any]]:
    """Read the rows of a folder of scores, in order."""
    parts = sorted(folder.glob("part-*.jsonl"))
    return [json.loads(line) for part in parts for line in part.read_text("utf-8").splitlines()]


def distance(one: list[dict[str, Any]], other: list[dict[str, Any]]) -> float:
    """The largest difference of a score; infinity where rows or words differ."""
    if [row["words"] for row in one] != [row["words"] for row in other]:
        return float("inf")
    pairs = zip(one, other, strict=True)
    found: float = max(abs(a - b) for x, y in pairs for a, b in zip(x["word_scores"], y["word_scores"], strict=True))
    return found


def main() -> None:
    """Measure, print, and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, help="folder with the data sets")
    parser.add_argument("--n", type=int, default=10_000, help="rows")
    parser.add_argument("--out", type=Path, help="JSON file to write")
    parser.add_argument("--tiny", action="store_true", help="20 rows")
    arguments = parser.parse_args()
    if not arguments.tiny and arguments.data_dir is None:
        parser.error("give --data-dir, or --tiny")
    texts = TINY_TEXTS * 10
    if not arguments.tiny:
        sets = (("rotten_tomatoes", "train"), ("sst2", "test"))
        texts = [text for name, split in sets for text, _ in read(name, split, arguments.data_dir)][: arguments.n]
    report: dict[str, Any] = {
        "question": (__doc__ or "").splitlines()[0],
        "environment": environment(),
        "settings": {"model": "demo", "n_rows": len(texts), "n_steps": 4},
        "engines": {},
    }
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder, "data.jsonl")
        write_texts(data, texts)
        whole: list[dict[str, Any]] = []
        for name, options in ENGINES.items():
            if name == "ray" and importlib.util.find_spec("ray") is None:
                continue
            found = alone(run, data, Path(folder, name), options, len(texts))
            rows = rows_of(Path(folder, name))
            whole = whole or rows
            found["largest_difference"] = rounded(distance(whole, rows))
            report["engines"][name] = found
            print(f"{name:16}", found, flush=True)
    write(report, arguments.out)


if __name__ == "__main__":
    main()
