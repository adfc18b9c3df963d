"""How much longer does importing captum_dig take than importing captum.attr?

Each import in a fresh process, in turn; the medians and their ratio. `path` also imports what a path needs.

    python -m benchmarks.import_time --out benchmarks/results/import_time.json
    python -m benchmarks.import_time --tiny
"""

import argparse
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks._measuring import environment, write

IMPORTS = {
    "captum.attr": "import captum.attr",
    "captum_dig": "import captum_dig",
    "attribution": "from captum_dig import LayerDiscretizedIntegratedGradients",
    "path": "from captum_dig import LayerDiscretizedIntegratedGradients, MonotonicPath, Vocabulary",
}
PROGRAM = """
import sys, time
started = time.perf_counter()
{statement}
print(time.perf_counter() - started, *(name for name in ("faiss", "transformers", "rich") if name in sys.modules))
"""


def main() -> None:
    """Measure, print, and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="JSON file to write")
    parser.add_argument("--tiny", action="store_true", help="one turn")
    arguments = parser.parse_args()
    seconds: dict[str, list[float]] = {name: [] for name in IMPORTS}
    loaded: dict[str, list[str]] = {}
    for _ in range(1 if arguments.tiny else 11):
        for name, statement in IMPORTS.items():
            program = PROGRAM.format(statement=statement)
            answer = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
            time, *loaded[name] = answer.stdout.split()
            seconds[name].append(float(time))
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    report: dict[str, Any] = {
        "question": (__doc__ or "").splitlines()[0],
        "environment": environment(),
        "seconds": medians,
        "ratio_to_captum_attr": {name: value / medians["captum.attr"] for name, value in medians.items()},
        "also_loaded": loaded,
    }
    print(report)
    write(report, arguments.out)


if __name__ == "__main__":
    main()
