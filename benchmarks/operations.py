"""How many operations does a path add to an attribution, and how often does the device wait for the host?

Counts PyTorch's operations with its profiler, with a forward function that is a sum, next to Captum's
LayerIntegratedGradients on the same text and steps: for a whole call, and for each further internal batch. A device
waits where a number is read back (`item`), and where a tensor is copied to or from it; on a processor the same
operations stand for these. With --device cuda, the seconds of a call are measured too.

    python -m benchmarks.operations --out benchmarks/results/operations.json
    python -m benchmarks.operations --tiny
"""

import argparse
from functools import partial
from pathlib import Path
from typing import Any

import torch
from captum.attr import LayerIntegratedGradients
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile

from benchmarks._measuring import clock, environment, rounded, write
from captum_dig import (
    LayerDiscretizedIntegratedGradients,
    MonotonicPath,
    PathGenerator,
    StaggeredPath,
    StraightLine,
    Vocabulary,
)

READ = ("aten::item", "aten::_local_scalar_dense", "aten::is_nonzero")
COPIED = ("aten::_to_copy",)
STEPS = 48


def main() -> None:
    """Count, print, and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--out", type=Path, help="JSON file to write")
    parser.add_argument("--tiny", action="store_true", help="short texts")
    arguments = parser.parse_args()
    report: dict[str, Any] = {
        "question": (__doc__ or "").splitlines()[0],
        "environment": environment(arguments.device),
        "n_steps": STEPS,
        "paths": counts(arguments.device, (2, 6, 8) if arguments.tiny else (8, 128, 256)),
    }
    for name, numbers in report["paths"].items():
        print(f"{name:24}", numbers)
    write(report, arguments.out)


def counts(device: str, sizes: tuple[int, int, int]) -> dict[str, Any]:
    """The operations of a call with one internal batch, and those that each further one adds."""
    n_texts, n_tokens, width = sizes
    torch.manual_seed(0)
    table = nn.Embedding(max(2_000, n_texts * n_tokens), width).to(device)
    ids = torch.randperm(len(table.weight))[: n_texts * n_tokens].reshape(n_texts, n_tokens).to(device)

    def forward(input_ids: Tensor) -> Tensor:
        total: Tensor = table(input_ids).sum(dim=(1, 2))
        return total

    line = StraightLine()
    paths: dict[str, PathGenerator] = {
        "straight line": line,
        "greedy": MonotonicPath(Vocabulary.from_layer(table)),
        "staggered, 4 orders": StaggeredPath(line, n_orders=4),
        "staggered, 24 orders": StaggeredPath(line, n_orders=24),
    }
    methods: dict[str, Any] = {"captum": LayerIntegratedGradients(forward, table)}
    methods |= {name: LayerDiscretizedIntegratedGradients(forward, table, path) for name, path in paths.items()}
    found: dict[str, Any] = {}
    for name, method in methods.items():
        # The first call ranks rows.
        counted(method, ids, 1)
        one, six = counted(method, ids, 1), counted(method, ids, 6)
        found[name] = {"call": one, "further_batch": {kind: rounded((six[kind] - one[kind]) / 5) for kind in one}}
        if device == "cuda":
            found[name]["seconds"] = rounded(min(clock(partial(attribute, method, ids, 6)) for _ in range(5)))
    return found


def counted(method: Any, ids: Tensor, n_batches: int) -> dict[str, int]:
    """The operations of one attribution that takes some internal batches."""
    with profile(activities=[ProfilerActivity.CPU]) as measured:
        attribute(method, ids, n_batches)
    calls = {event.key: event.count for event in measured.key_averages()}
    return {
        "operations": sum(count for key, count in calls.items() if key.startswith("aten::")),
        "copies": sum(calls.get(key, 0) for key in COPIED),
        "read_back": sum(calls.get(key, 0) for key in READ),
    }


def attribute(method: Any, ids: Tensor, n_batches: int) -> None:
    """One attribution to the row 0."""
    method.attribute(ids, torch.zeros_like(ids), n_steps=STEPS, internal_batch_size=len(ids) * STEPS // n_batches)


if __name__ == "__main__":
    main()
