"""What does a sentence cost, the first time, over the vocabularies of large language models?

Over random rows in clusters, in the sizes of Llama 3 and Gemma 3 tables, each in a process of its own: building the
vocabulary, the knots of a 20-token sentence with an empty table, and the most memory that the process held. `flat` is
what this package chooses for an exact search, `faiss flat` FAISS's exact index, the others approximate ones, with their
recall of the K = 500 nearest rows and the share of anchors that are those of the exact search. `loop` is a
straightforward loop over words and anchors, measured on one word.

Random rows come in clusters of about 1,000, so that the 500 nearest of a row are of its cluster; around a cluster's
center, spread falls from direction to direction. Recall depends on such structure: --model measures the table of a real
model as well.

    python -m benchmarks.large_vocabulary --model FOLDER --out benchmarks/results/large_vocabulary.json
    python -m benchmarks.large_vocabulary --tiny
"""

import argparse
import time
from pathlib import Path
from typing import Any
from unittest import mock

import torch
import transformers
from torch import Tensor

from benchmarks._measuring import alone, clock, environment, peak_gb, write
from benchmarks.path_speed import loop_knots
from captum_dig import MonotonicPath, Vocabulary
from captum_dig.vocabulary.indexes import FaissIndex, build_index

SIZES = {"128,256 x 2,048": (128_256, 2_048), "256,000 x 1,152": (256_000, 1_152)}
TINY = {"2,000 x 64": (2_000, 64)}
INDEXES = {
    "flat": "Flat",
    "faiss flat": "Flat",
    "hnsw": "HNSW32;efSearch=600",
    "ivf": "IVF1024,SQ8;nprobe=48",
}


def main() -> None:
    """Measure, print, and write JSON."""
    arguments = parse()
    report: dict[str, Any] = {"question": (__doc__ or "").splitlines()[0], "environment": environment(), "sizes": {}}
    sizes: dict[str, tuple[int, int] | str] = {**(TINY if arguments.tiny else SIZES)}
    if arguments.model:
        sizes[arguments.model.name] = str(arguments.model)
    for size, shape in sizes.items():
        found = report["sizes"][size] = {}
        for name in arguments.indexes:
            factory = INDEXES[name].replace("IVF1024", "IVF16") if arguments.tiny else INDEXES[name]
            found[name] = alone(measure, name, factory, shape, arguments.tiny)
            print(size, name, {key: value for key, value in found[name].items() if key != "anchors"}, flush=True)
        exact = found["flat"]["anchors"] if "flat" in found else None
        for result in found.values():
            anchors = result.pop("anchors")
            result["same_anchors"] = None if exact is None else float((anchors == exact).float().mean())
    write(report, arguments.out)


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, help="folder of a model whose table is measured too")
    parser.add_argument("--indexes", nargs="+", choices=list(INDEXES), default=list(INDEXES))
    parser.add_argument("--out", type=Path, help="JSON file to write")
    parser.add_argument("--tiny", action="store_true", help="2,000 rows, 5 tokens")
    return parser.parse_args()


def table(n_rows: int, width: int) -> Tensor:
    """Rows in clusters of about 1,000."""
    generator = torch.Generator().manual_seed(0)
    spread = torch.arange(1, width + 1).pow(-0.5)
    spread *= (width / spread.square().sum()).sqrt()
    centers = torch.randn(max(1, n_rows // 1000), width, generator=generator) * spread
    rows = torch.empty(n_rows, width)
    for block in rows.split(4096):
        own = torch.randint(len(centers), (len(block),), generator=generator)
        block.copy_(centers[own]).add_(torch.randn(block.shape, generator=generator) * spread)
    return rows


def table_of(folder: str) -> Tensor:
    """The rows of a model."""
    model = transformers.AutoModel.from_pretrained(folder, dtype=torch.float32)
    return Vocabulary.from_layer(model.get_input_embeddings()).rows.clone()


def measure(name: str, factory: str, source: tuple[int, int] | str, tiny: bool) -> dict[str, Any]:
    """Seconds, memory and anchors of one index."""
    rows = table_of(source) if isinstance(source, str) else table(*source)
    search = FaissIndex if name == "faiss flat" else build_index
    started = time.perf_counter()
    with mock.patch("captum_dig.vocabulary.rows.build_index", search):
        vocabulary = Vocabulary(rows, index=factory)
    build_s = time.perf_counter() - started
    # A user's table belongs to the model; this one is not needed any more.
    del rows
    ids = torch.randperm(len(vocabulary), generator=torch.Generator().manual_seed(1))[: 5 if tiny else 20]
    inputs = vocabulary.rows[ids][None]
    baselines = vocabulary.rows[0].expand_as(inputs).contiguous()
    path = MonotonicPath(vocabulary, n_neighbors=50 if tiny else 500)
    cold_s = clock(lambda: path(inputs, baselines))
    result = {
        "index": factory,
        "build_s": build_s,
        "cold_s": cold_s,
        "warm_ms": 1e3 * clock(lambda: path(inputs, baselines)),
        "table_gb": vocabulary.rows.numel() * 4 / 1e9,
        "process_peak_gb": peak_gb(),
        "anchors": path.anchor_ids(ids, baseline_id=0),
    }
    if name in ("hnsw", "ivf"):
        result["recall"] = vocabulary.recall(path.n_neighbors, n_rows=128)
    if name == "flat":
        matrix = vocabulary.rows.numpy()
        result["loop_s_per_word"] = clock(
            lambda: loop_knots(matrix, int(ids[0]), 0, path.n_anchors, path.n_neighbors, "greedy")
        )
    return result


if __name__ == "__main__":
    main()
