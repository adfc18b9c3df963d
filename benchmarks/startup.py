"""How long does a first explanation take, next to loading the same model by hand?

Processes are started in turns: one imports PyTorch and Transformers, loads the demo model and reads a sentence; one is
`captum-dig explain` on the same sentence. The report has the medians, their ratio, and the time until the command
shows a first sign on a terminal.

    python -m benchmarks.startup --out benchmarks/results/startup.json
    python -m benchmarks.startup --tiny
"""

import argparse
import os
import pty
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import captum_dig
from benchmarks._measuring import environment, rounded, write

TEXT = "A gorgeous, witty, seductive movie."
BY_HAND = """
import sys
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

model = AutoModelForSequenceClassification.from_pretrained(sys.argv[1], dtype=torch.float32).eval()
tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
print(model(**tokenizer(sys.argv[2], return_tensors="pt")).logits)
"""


def ended(typed: list[str]) -> float:
    """Run a command; return the seconds until its end."""
    began = time.perf_counter()
    subprocess.run(typed, check=True, capture_output=True)
    return time.perf_counter() - began


def first_sign(typed: list[str]) -> float:
    """Run a command on a terminal; return the seconds until it writes."""
    leader, follower = pty.openpty()
    began = time.perf_counter()
    # A dumb terminal shows no sign that moves.
    shown = os.environ | {"TERM": "xterm-256color"}
    with subprocess.Popen(typed, stdout=subprocess.DEVNULL, stderr=follower, env=shown) as process:
        os.close(follower)
        os.read(leader, 1)
        seconds = time.perf_counter() - began
        process.kill()
    os.close(leader)
    return seconds


def main() -> None:
    """Measure, print, and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=9, help="runs of each")
    parser.add_argument("--out", type=Path, help="JSON file to write")
    parser.add_argument("--tiny", action="store_true", help="one run of each")
    arguments = parser.parse_args()
    demo = str(Path(captum_dig.__file__).parent / "demo")
    commands = {
        "by hand": [sys.executable, "-c", BY_HAND, demo, TEXT],
        "captum-dig explain": [sys.executable, "-m", "captum_dig", "explain", TEXT],
    }
    seconds: dict[str, list[float]] = {name: [] for name in (*commands, "first sign")}
    for _ in range(1 if arguments.tiny else arguments.turns):
        for name, typed in commands.items():
            seconds[name].append(ended(typed))
        seconds["first sign"].append(first_sign(commands["captum-dig explain"]))
    medians = {name: statistics.median(each) for name, each in seconds.items()}
    report: dict[str, Any] = {
        "question": (__doc__ or "").splitlines()[0],
        "environment": environment(),
        "seconds": {name: rounded(each) for name, each in medians.items()},
        "ratio": rounded(medians["captum-dig explain"] / medians["by hand"]),
    }
    print(report["seconds"], "ratio", report["ratio"])
    write(report, arguments.out)


if __name__ == "__main__":
    main()
