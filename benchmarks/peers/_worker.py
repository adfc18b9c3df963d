"""What every script of a peer shares: a job from standard input, a clock, a count of model calls, a report.

These scripts run in environments without this package, so they import PyTorch and Transformers alone.
"""

import importlib.metadata
import json
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer


def load(job: dict[str, Any]) -> tuple[Any, Any, list[int]]:
    """Load the model and its tokenizer; also return a list that counts the rows that the model reads."""
    torch.set_num_threads(1)
    model = AutoModelForSequenceClassification.from_pretrained(job["model"]).eval()
    tokenizer = AutoTokenizer.from_pretrained(job["model"])
    rows = [0]

    def count(_module: Any, _inputs: Any, output: Any) -> None:
        rows[0] += len(output.logits)

    model.register_forward_hook(count)
    return model, tokenizer, rows


def serve(package: str, explain: Callable[[Any, Any, str, int], list[float]]) -> None:
    """Explain each sentence of the job with each seed, and write scores of tokens, seconds and rows.

    Args:
        package: The name of the package, for its version.
        explain: From the model, the tokenizer, a text and the number of gradients or calls to the scores of all tokens.
    """
    warnings.simplefilter("ignore")
    job = json.load(sys.stdin)
    model, tokenizer, rows = load(job)
    explain(model, tokenizer, job["texts"][0], job["n_steps"])
    rows[0], began = 0, time.perf_counter()
    found = []
    for seed in job["seeds"]:
        torch.manual_seed(seed)
        found.append([explain(model, tokenizer, text, job["n_steps"]) for text in job["texts"]])
    n_runs = len(job["seeds"]) * len(job["texts"])
    report = {
        "version": importlib.metadata.version(package),
        "transformers": importlib.metadata.version("transformers"),
        "seconds": (time.perf_counter() - began) / n_runs,
        "rows": rows[0] / n_runs,
        "scores": found,
    }
    # Libraries print on standard output, too.
    print("\n" + json.dumps(report))
