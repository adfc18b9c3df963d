"""What do scores for a continuation cost, next to Captum's class for language models?

A causal language model of GPT-2's width and vocabulary, with random weights and few layers, reads a prompt of 200 words
and a continuation of 64. Captum's `LLMGradientAttribution` explains each token of the continuation by itself, and adds
the scores up. The explainer here explains the whole continuation at once, which gives the same sums, or each token.
All take the same number of gradients along a path, and see the same number of rows at once. Each runs in a process of
its own. The report has the seconds, the peak memory over that of the loaded model, and the distance of the sums.

    python -m benchmarks.continuation --out benchmarks/results/continuation.json
    python -m benchmarks.continuation --tiny
"""

import argparse
import random
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from captum.attr import LayerIntegratedGradients, LLMGradientAttribution, TextTokenInput
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

from benchmarks._measuring import alone, clock, environment, peak_gb, rounded, write
from captum_dig import PathGenerator, StaggeredPath, StraightLine, TextAttribution, TextExplainer


@dataclass(frozen=True)
class Size:
    """A model and a text."""

    layers: int = 2
    width: int = 768
    n_rows: int = 50_257
    n_prompt: int = 200
    n_continuation: int = 64
    n_steps: int = 8
    rows_at_once: int = 8


TINY = Size(layers=1, width=32, n_rows=300, n_prompt=6, n_continuation=3, n_steps=2)


def make(size: Size) -> tuple[Any, Any, str, str]:
    """Make a model, its tokenizer, a prompt and a continuation."""
    torch.manual_seed(0)
    words = ["[PAD]", "[UNK]", *(f"w{i}" for i in range(size.n_rows - 2))]
    backend = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token="[PAD]",
        unk_token="[UNK]",
        model_max_length=1024,
        model_input_names=["input_ids", "attention_mask"],
    )
    config = GPT2Config(
        vocab_size=size.n_rows,
        n_embd=size.width,
        n_layer=size.layers,
        n_head=size.width // 16,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=1,
    )
    rng = random.Random(0)
    prompt, continuation = (" ".join(rng.choices(words[2:], k=n)) for n in (size.n_prompt, size.n_continuation))
    return GPT2LMHeadModel(config).eval(), tokenizer, prompt, continuation


def run(name: str, size: Size) -> dict[str, Any]:
    """Explain the continuation in one way; return the figures, and the score of each word of the prompt."""
    model, tokenizer, prompt, continuation = make(size)
    scores: list[float] = []

    def captum() -> None:
        layer = LayerIntegratedGradients(model, model.transformer.wte)
        text = TextTokenInput(prompt, tokenizer, baselines=tokenizer.pad_token_id)
        found = LLMGradientAttribution(layer, tokenizer).attribute(
            text, target=continuation, n_steps=size.n_steps, internal_batch_size=size.rows_at_once
        )
        scores.extend(found.seq_attr.tolist())

    def ours(strategy: str | PathGenerator, target: str) -> None:
        explainer = TextExplainer(model, tokenizer, strategy=strategy, cache=False)
        found = explainer.explain(
            prompt,
            target,
            continuation=f" {continuation}",
            n_steps=size.n_steps,
            method="gausslegendre",
            internal_batch_size=size.rows_at_once,
        )
        results = [found] if isinstance(found, TextAttribution) else found
        scores.extend(sum(column) for column in zip(*(r.token_scores for r in results), strict=True))

    before = peak_gb()
    work = {
        "captum": captum,
        "whole, straight line": lambda: ours("straight_line", "predicted"),
        "whole, staggered": lambda: ours(StaggeredPath(StraightLine()), "predicted"),
        "each token, straight line": lambda: ours("straight_line", "tokens"),
    }[name]
    seconds = clock(work)
    return {"seconds": rounded(seconds), "gb": rounded(peak_gb() - before), "scores": scores[: size.n_prompt]}


def main() -> None:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="where the JSON is kept")
    parser.add_argument("--tiny", action="store_true", help="a small model, to see that it runs")
    arguments = parser.parse_args()
    size = TINY if arguments.tiny else Size()
    names = ("captum", "whole, straight line", "whole, staggered", "each token, straight line")
    found = {name: alone(run, name, size) for name in names}
    captums = torch.tensor(found["captum"]["scores"])
    for name, figures in found.items():
        distance = (torch.tensor(figures.pop("scores")) - captums).abs().sum() / captums.abs().sum()
        # Along another path the scores are others.
        figures["distance"] = None if "staggered" in name else rounded(float(distance))
        print(f"{name:28} {figures['seconds']:8.1f} s {figures['gb']:7.2f} GB  distance {figures['distance']}")
    write(
        {
            "question": (__doc__ or "").splitlines()[0],
            "size": asdict(size),
            "environment": environment(),
            "runs": found,
        },
        arguments.out,
    )


if __name__ == "__main__":
    main()
