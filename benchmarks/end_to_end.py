"""What does a path cost, next to Captum's LayerIntegratedGradients on the same model, text and steps?

Four comparisons, each with Captum's class and this package's in turn: the time of an attribution once the rows that it
meets are ranked; the peak memory of a process that does nothing else, at few and many steps with the same
`internal_batch_size`; the share of the path in the time of a batch of long texts; and time and memory over the loaded
model for every kind of path and models of three sizes, on one thread. Texts are random words, each one different,
which is the worst case for the path.

    python -m benchmarks.end_to_end --model FOLDER --out benchmarks/results/end_to_end.json
    python -m benchmarks.end_to_end --parts paths --out benchmarks/results/end_to_end-paths.json
    python -m benchmarks.end_to_end --bert-base --device cuda --out benchmarks/results/end_to_end-gpu.json
    python -m benchmarks.end_to_end --tiny
"""

import argparse
import functools
import statistics
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
import transformers
from captum.attr import LayerIntegratedGradients
from torch import Tensor

from benchmarks._measuring import alone, clock, environment, peak_gb, rounded, write
from captum_dig import (
    LayerDiscretizedIntegratedGradients,
    MonotonicPath,
    PathGenerator,
    StaggeredPath,
    StraightLine,
    Vocabulary,
)
from captum_dig.paths.folders import TableFolder


@dataclass(frozen=True)
class Size:
    """A BERT with random weights, a batch for it, and how often it is explained."""

    layers: int
    width: int
    n_rows: int
    n_texts: int
    n_tokens: int
    rows_at_once: int
    inner: int = 4
    n_steps: int = 48
    turns: int = 2


# Two steps of eight texts at once, or of one long text, whose layer is less deep and whose steps are fewer for the time
# that they take. With no turns, the seconds are those of the runs that memory is measured in.
SIZES = {
    "small": Size(layers=2, width=64, n_rows=2_000, n_texts=8, n_tokens=20, rows_at_once=384, turns=9),
    "wide": Size(layers=1, width=768, n_rows=30_522, n_texts=8, n_tokens=256, rows_at_once=16),
    "long": Size(
        layers=1, width=4_096, n_rows=8_192, n_texts=1, n_tokens=1_024, rows_at_once=2, inner=1, n_steps=24, turns=0
    ),
}
PATHS = ("straight line", "greedy", "greedy, rows shared", "staggered, 4 orders", "staggered, 24 orders")

DEMO = Path(__file__).parents[1] / "captum_dig" / "demo"
ROWS_AT_ONCE = 50


def main() -> None:
    """Measure, print, and write JSON."""
    arguments = parse()
    tiny: bool = arguments.tiny
    model = None if arguments.bert_base else str(arguments.model)
    device: str = arguments.device
    parts: dict[str, Callable[[], Any]] = {
        "time": lambda: alone(times, model, device, 5 if tiny else 20, 5 if tiny else 50, 2 if tiny else 9),
        "memory": lambda: {
            name: {f"n={n}": alone(memory, name, model, device, n, tiny) for n in ((5,) if tiny else (50, 500))}
            for name in ("captum", "captum_dig")
        },
        "long_texts": lambda: alone(long_texts, model, device, (2, 16, 3) if tiny else (8, 512, 50)),
        "paths": lambda: (
            {"small": compared(replace(SIZES["small"], turns=0), device, PATHS[3:4])}
            if tiny
            else {name: compared(SIZES[name], device) for name in arguments.sizes}
        ),
    }
    report: dict[str, Any] = {
        "question": (__doc__ or "").splitlines()[0],
        "environment": environment(device),
        "model": arguments.model.name if model else "12 layers, 768 wide, random weights",
    }
    for name in arguments.parts:
        report[name] = parts[name]()
        print(name, report[name], flush=True)
    write(report, arguments.out)


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=DEMO, help="folder of a sentence classifier; the demo without it")
    parser.add_argument("--bert-base", action="store_true", help="random weights in BERT's base size instead")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--out", type=Path, help="JSON file to write")
    parts = ("time", "memory", "long_texts", "paths")
    parser.add_argument("--parts", nargs="*", choices=parts, default=parts, help="comparisons to make")
    parser.add_argument("--sizes", nargs="*", choices=SIZES, default=list(SIZES), help="models to compare all paths on")
    parser.add_argument("--tiny", action="store_true", help="short texts, few steps")
    return parser.parse_args()


def load(folder: str | None, device: str) -> Any:
    """The model, on its device."""
    if folder is None:
        torch.manual_seed(0)
        model: Any = transformers.BertForSequenceClassification(transformers.BertConfig())
    else:
        model = transformers.AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.float32)
    return model.eval().to(device)


def explain(method: str, model: Any) -> Any:
    """The attribution class under test."""

    def forward(input_ids: Tensor) -> Tensor:
        logits: Tensor = model(input_ids).logits
        return logits

    layer = model.get_input_embeddings()
    if method == "captum":
        return LayerIntegratedGradients(forward, layer)
    return LayerDiscretizedIntegratedGradients(forward, layer)


def words(model: Any, n_texts: int, n_tokens: int) -> Tensor:
    """Ids of random words, all different, shape (B, T)."""
    generator = torch.Generator().manual_seed(0)
    n_rows = model.config.vocab_size
    ids = n_rows // 15 + torch.randperm(n_rows - n_rows // 15, generator=generator)[: n_texts * n_tokens]
    device: torch.device = model.device
    texts: Tensor = ids.reshape(n_texts, n_tokens)
    return texts.to(device)


def times(folder: str | None, device: str, n_tokens: int, n_steps: int, turns: int) -> dict[str, Any]:
    """Seconds of one attribution, in turn; the first turn, which ranks rows, does not count."""
    model = load(folder, device)
    ids = words(model, 1, n_tokens)
    methods = {name: explain(name, model) for name in ("captum", "captum_dig")}
    seconds: dict[str, list[float]] = {name: [] for name in methods}
    for _ in range(turns):
        for name, method in methods.items():
            seconds[name].append(clock(functools.partial(attribute, method, ids, n_steps)))
    medians = {name: statistics.median(values[1:]) for name, values in seconds.items()}
    # Turns one by one, because a machine's speed drifts.
    ratios = [ours / captums for ours, captums in zip(seconds["captum_dig"], seconds["captum"], strict=True)]
    return {"n_tokens": n_tokens, "n_steps": n_steps, **medians, "ratio": statistics.median(ratios[1:])}


def memory(name: str, folder: str | None, device: str, n_steps: int, tiny: bool) -> float:
    """The most memory that a process holds which makes one attribution, in GB: the GPU's, or the whole process."""
    model = load(folder, device)
    ids = words(model, 1, 5 if tiny else 128)
    method = explain(name, model)
    attribute(method, ids, n_steps, 5 if tiny else ROWS_AT_ONCE // 2)
    return torch.cuda.max_memory_allocated() / 1e9 if device == "cuda" else peak_gb()


def attribute(method: Any, ids: Tensor, n_steps: int, rows_at_once: int = ROWS_AT_ONCE) -> Tensor:
    """One attribution to a pad baseline."""
    scores: Tensor = method.attribute(
        ids, torch.zeros_like(ids), target=0, n_steps=n_steps, internal_batch_size=rows_at_once
    )
    return scores


def long_texts(folder: str | None, device: str, sizes: tuple[int, int, int]) -> dict[str, Any]:
    """Seconds of the path, with an empty and with a full table, and of Captum's whole attribution."""
    n_texts, n_tokens, n_steps = sizes
    model = load(folder, device)
    limit: int = model.config.max_position_embeddings
    ids = words(model, n_texts, min(n_tokens, limit))
    layer = model.get_input_embeddings()
    path = MonotonicPath(Vocabulary.from_layer(layer))
    with torch.no_grad():
        inputs, baselines = layer(ids), layer(torch.zeros_like(ids))
    cold = clock(lambda: path(inputs, baselines))
    warm = statistics.median(clock(lambda: path(inputs, baselines)) for _ in range(3))
    gradients = clock(lambda: attribute(explain("captum", model), ids, n_steps, n_texts))
    return {
        "n_texts": n_texts,
        "n_tokens": ids.shape[1],
        "n_steps": n_steps,
        "path_cold_s": cold,
        "path_warm_s": warm,
        "captum_s": gradients,
        "path_share_percent": 100 * warm / gradients,
        "path_share_cold_percent": 100 * cold / gradients,
    }


def compared(size: Size, device: str, paths: tuple[str, ...] = PATHS) -> dict[str, Any]:
    """Seconds of an attribution along each path, peak memory over the loaded model in MB, and both next to Captum's."""
    with tempfile.TemporaryDirectory() as folder:
        if "greedy" in paths:
            alone(rank, size, folder)
        once = {name: alone(by_itself, size, name, device, folder) for name in ("captum", *paths)}
        megabytes = {name: mb for name, (mb, _) in once.items()}
        seconds = {name: seconds for name, (_, seconds) in once.items()}
        if size.turns:
            seconds = alone(in_turn, size, device, folder, paths)
    return {
        "size": asdict(size),
        "seconds": seconds,
        "time_ratio": {name: rounded(seconds[name] / seconds["captum"]) for name in paths},
        "megabytes": megabytes,
        "memory_ratio": {name: rounded(megabytes[name] / megabytes["captum"]) for name in paths},
    }


def rank(size: Size, folder: str) -> None:
    """Rank the rows that the text meets, and keep them for the processes that are measured."""
    model = of_size(size, "cpu")
    method = along("greedy", model, folder)
    attribute(method, words(model, size.n_texts, size.n_tokens), 1, size.rows_at_once)
    method.path.store()


def by_itself(size: Size, name: str, device: str, folder: str) -> tuple[float, float]:
    """The most MB that a process holds over the loaded model while it makes its only attribution, and its seconds."""
    torch.set_num_threads(1)
    model = of_size(size, device)
    ids = words(model, size.n_texts, size.n_tokens)
    before = held(device)
    seconds = clock(lambda: attribute(along(name, model, folder), ids, size.n_steps, size.rows_at_once))
    return rounded(held(device) - before), rounded(seconds)


def held(device: str) -> float:
    """The most memory so far, in MB: the GPU's, or the whole process's."""
    return torch.cuda.max_memory_allocated() / 1e6 if device == "cuda" else 1e3 * peak_gb()


def in_turn(size: Size, device: str, folder: str, paths: tuple[str, ...]) -> dict[str, float]:
    """The fewest seconds of each path; the first turn, which loads ranked rows, does not count where there are more."""
    torch.set_num_threads(1)
    model = of_size(size, device)
    ids = words(model, size.n_texts, size.n_tokens)
    methods = {name: along(name, model, folder) for name in ("captum", *paths)}
    seconds: dict[str, list[float]] = {name: [] for name in methods}
    for _ in range(size.turns):
        for name, method in methods.items():
            seconds[name].append(clock(functools.partial(attribute, method, ids, size.n_steps, size.rows_at_once)))
    return {name: rounded(min(values[1:] or values)) for name, values in seconds.items()}


def of_size(size: Size, device: str) -> Any:
    """A model with random weights."""
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=size.n_rows,
        hidden_size=size.width,
        num_hidden_layers=size.layers,
        num_attention_heads=max(2, size.width // 64),
        intermediate_size=size.inner * size.width,
        max_position_embeddings=size.n_tokens,
    )
    return transformers.BertForSequenceClassification(config).eval().to(device)


def along(name: str, model: Any, folder: str) -> Any:
    """The attribution class along a path, or Captum's."""

    def forward(input_ids: Tensor) -> Tensor:
        logits: Tensor = model(input_ids).logits
        return logits

    layer = model.get_input_embeddings()
    if name == "captum":
        return LayerIntegratedGradients(forward, layer)
    path: PathGenerator = StraightLine()
    if name.startswith("greedy"):
        path = MonotonicPath(Vocabulary.from_layer(layer, copy=name == "greedy"), folder=TableFolder(folder))
    elif name != "straight line":
        path = StaggeredPath(path, n_orders=int(name.split()[1]))
    return LayerDiscretizedIntegratedGradients(forward, layer, path)


if __name__ == "__main__":
    main()
