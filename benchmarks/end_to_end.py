"""What does a path of words cost, next to Captum's LayerIntegratedGradients on the same model, text and steps?

Three comparisons, each with Captum's class and this package's in turn: the time of an attribution once the rows that it
meets are ranked; the peak memory of a process that does nothing else, at few and many steps with the same
`internal_batch_size`; and the share of the path in the time of a batch of long texts. Texts are random words, each one
different, which is the worst case for the path.

    python -m benchmarks.end_to_end --model FOLDER --out benchmarks/results/end_to_end.json
    python -m benchmarks.end_to_end --bert-base --device cuda --out benchmarks/results/end_to_end-gpu.json
    python -m benchmarks.end_to_end --tiny
"""

import argparse
import functools
import statistics
from pathlib import Path
from typing import Any

import torch
import transformers
from captum.attr import LayerIntegratedGradients
from torch import Tensor

from benchmarks._measuring import alone, clock, environment, peak_gb, write
from captum_dig import LayerDiscretizedIntegratedGradients, MonotonicPath, Vocabulary

DEMO = Path(__file__).parents[1] / "captum_dig" / "demo"
ROWS_AT_ONCE = 50


def main() -> None:
    """Measure, print, and write JSON."""
    arguments = parse()
    tiny: bool = arguments.tiny
    model = None if arguments.bert_base else str(arguments.model)
    device: str = arguments.device
    report: dict[str, Any] = {
        "question": (__doc__ or "").splitlines()[0],
        "environment": environment(device),
        "model": arguments.model.name if model else "12 layers, 768 wide, random weights",
        "time": alone(times, model, device, 5 if tiny else 20, 5 if tiny else 50, 2 if tiny else 9),
        "memory": {
            name: {f"n={n}": alone(memory, name, model, device, n, tiny) for n in ((5, 20) if tiny else (50, 500))}
            for name in ("captum", "captum_dig")
        },
        "long_texts": alone(long_texts, model, device, (2, 16, 3) if tiny else (8, 512, 50)),
    }
    for name in ("time", "memory", "long_texts"):
        print(name, report[name])
    write(report, arguments.out)


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=DEMO, help="folder of a sentence classifier; the demo without it")
    parser.add_argument("--bert-base", action="store_true", help="random weights in BERT's base size instead")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--out", type=Path, help="JSON file to write")
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


if __name__ == "__main__":
    main()
