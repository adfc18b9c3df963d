"""What does a path cost, next to the gradients that are taken along it?

Measured side by side, in one process, on one model: the knots of a 20-token sentence with an empty table (cold) and
with its rows ranked (warm), the same by a straightforward loop (a walk for each word, a search and a cost for each
anchor, as in the original implementation), the 50 gradients of Captum's LayerIntegratedGradients, and the ranking of a
whole vocabulary.

    python -m benchmarks.path_speed --model FOLDER --out benchmarks/results/path_speed.json
    python -m benchmarks.path_speed --tiny
"""

import argparse
import functools
import statistics
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import transformers
from captum.attr import LayerIntegratedGradients

from benchmarks._measuring import alone, clock, environment, peak_gb, write
from captum_dig import LayerDiscretizedIntegratedGradients, MonotonicPath, Vocabulary
from captum_dig.paths.folders import TableFolder

Array = npt.NDArray[np.float32]
DEMO = Path(__file__).parents[1] / "captum_dig" / "demo"


def main() -> None:
    """Measure, print, and write JSON."""
    arguments = parse()
    model = load(arguments.model)
    vocabulary = Vocabulary.from_layer(model.get_input_embeddings())
    ids = sentence(len(vocabulary), 5 if arguments.tiny else 20)
    report: dict[str, Any] = {
        "question": (__doc__ or "").splitlines()[0],
        "environment": environment(),
        "model": {
            "name": arguments.model.name,
            "rows": len(vocabulary),
            "width": vocabulary.dim,
            "tokens": ids.shape[1],
        },
        "gradients": gradients(model, ids, 5 if arguments.tiny else 50),
    }
    for strategy in ("greedy", "maxcount"):
        report[strategy] = knots(vocabulary, ids, strategy, arguments.tiny)
        if not arguments.tiny:
            report[strategy] |= alone(whole_table, arguments.model, strategy)
        print(strategy, report[strategy])
    print("gradients", report["gradients"])
    write(report, arguments.out)


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=DEMO, help="folder of a sentence classifier; the demo without it")
    parser.add_argument("--out", type=Path, help="JSON file to write")
    parser.add_argument("--tiny", action="store_true", help="five tokens, few anchors, no whole table")
    return parser.parse_args()


def load(folder: Path) -> Any:
    """The model in a folder."""
    model: Any = transformers.AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.float32)
    return model.eval()


def sentence(n_rows: int, n_tokens: int) -> torch.Tensor:
    """Ids of a sentence of different words, shape (1, T)."""
    generator = torch.Generator().manual_seed(0)
    return torch.randint(n_rows // 15, n_rows * 2 // 3, (1, n_tokens), generator=generator)


def knots(vocabulary: Vocabulary, ids: torch.Tensor, strategy: str, tiny: bool) -> dict[str, float]:
    """Times of the knots of one sentence."""
    n_anchors, n_neighbors = (3, 50) if tiny else (30, 500)
    inputs, baselines = vocabulary.rows[ids], vocabulary.rows[0].expand(1, ids.shape[1], -1).contiguous()
    cold = [
        clock(lambda: MonotonicPath(vocabulary, strategy, n_anchors, n_neighbors)(inputs, baselines)) for _ in range(3)
    ]
    path = MonotonicPath(vocabulary, strategy, n_anchors, n_neighbors)
    ours = path(inputs, baselines)
    warm = [clock(lambda: path(inputs, baselines)) for _ in range(50)]
    rows = vocabulary.rows.numpy()
    words = ids[0].tolist()
    loop: list[Array] = []
    seconds = clock(lambda: loop.extend(loop_knots(rows, word, 0, n_anchors, n_neighbors, strategy) for word in words))
    difference = float(np.abs(np.stack(loop, axis=1) - ours[:, 0].numpy()).max())
    return {
        "cold_s": statistics.median(cold),
        "warm_ms": 1e3 * statistics.median(warm),
        "loop_s": seconds,
        "largest_difference_from_loop": difference,
    }


def loop_knots(rows: Array, word: int, baseline: int, n_anchors: int, n_neighbors: int, strategy: str) -> Array:
    """Knots of one word, baseline first, by the sequential rule."""
    goal, walk, points = rows[baseline], [word], [rows[word]]
    for _ in range(n_anchors):
        here = rows[walk[-1]]
        distances = np.linalg.norm(rows - here, axis=1)
        distances[walk[-1]] = np.inf
        near = np.argsort(distances, kind="stable")[:n_neighbors]
        near = near[~np.isin(near, [*walk, baseline])]
        low, high = np.minimum(here, goal), np.maximum(here, goal)
        inside = (low <= rows[near]) & (rows[near] <= high)
        moved = np.where(inside, rows[near], here - (here - goal) / n_anchors)
        cost = np.linalg.norm(rows[near] - moved, axis=1) if strategy == "greedy" else (~inside).sum(axis=1)
        walk.append(int(near[np.argmin(cost)]))
        point, anchor = points[-1], rows[walk[-1]]
        low, high = np.minimum(point, goal), np.maximum(point, goal)
        points.append(np.where((low <= anchor) & (anchor <= high), anchor, point - (point - goal) / n_anchors))
    return np.stack([*points, goal])[::-1]


def whole_table(model: Path, strategy: str) -> dict[str, float]:
    """Time, file and memory of ranking every row, nearest neighbours included, in a process that does nothing else."""
    vocabulary = Vocabulary.from_layer(load(model).get_input_embeddings())
    with tempfile.TemporaryDirectory() as folder:
        table = MonotonicPath(vocabulary, strategy, folder=TableFolder(folder)).table(vocabulary.rows[0])
        seconds = clock(lambda: list(table.rank_all()))
        file = table.store()
        size = file.stat().st_size if file else 0
    return {"table_s": seconds, "table_file_mb": size / 1e6, "process_peak_gb": peak_gb()}


def gradients(model: Any, ids: torch.Tensor, n_steps: int) -> dict[str, float]:
    """Times of whole attributions at the same number of steps, warm, taken in turn."""

    def forward(input_ids: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = model(input_ids).logits
        return logits

    layer = model.get_input_embeddings()
    methods: dict[str, Any] = {
        "captum_s": LayerIntegratedGradients(forward, layer),
        "captum_dig_s": LayerDiscretizedIntegratedGradients(forward, layer),
    }
    arguments = {"baselines": torch.zeros_like(ids), "target": 0, "n_steps": n_steps}
    times: dict[str, list[float]] = {name: [] for name in methods}
    for turn in range(8):
        for name, method in methods.items():
            seconds = clock(functools.partial(method.attribute, ids, **arguments))
            # The first turn ranks rows and warms caches up.
            times[name] += [seconds] if turn else []
    medians = {name: statistics.median(values) for name, values in times.items()}
    return {"n_steps": n_steps, **medians, "ratio": medians["captum_dig_s"] / medians["captum_s"]}


if __name__ == "__main__":
    main()
