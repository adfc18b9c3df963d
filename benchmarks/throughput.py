"""How many texts a second, next to a loop over Captum's class, and does memory grow with a data set?

Sentences of mixed length go through one model, each way with the same number of gradients along the straight line: a
loop over Captum's `LayerIntegratedGradients`, one `explain` for each text, one `explain` for all, batches of 8, and
`explain_table` with one and two workers of one thread. Half and a quarter of the gradients stand
beside them, with the token errors of both against a converged integral. Then a longer table is explained with few
gradients: the speed of its first and its last tenth, and the memory after each.

    python -m benchmarks.throughput --model MODEL --data SST2/test.tsv --n 64 --out benchmarks/results/throughput.json
    python -m benchmarks.throughput --tiny
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from captum.attr import LayerIntegratedGradients

from benchmarks._measuring import alone, clock, environment, resident_mb, rounded, write
from benchmarks._sentences import TINY_TEXTS, sentence_parser, write_texts
from captum_dig import TextExplainer
from captum_dig.datasets import explain_table


def make(model: Path | None) -> TextExplainer:
    """Load the model, to explain its logit along the straight line."""
    options: dict[str, Any] = {"output": "logit", "strategy": "straight_line"}
    return TextExplainer.from_pretrained(model, **options) if model else TextExplainer.demo(**options)


def captum(explainer: TextExplainer, texts: list[str], n_steps: int) -> list[torch.Tensor]:
    """Explain the predicted label of each text with Captum's class; return the score of each token."""
    model, tokenizer = explainer.classifier.model, explainer.encoder.tokenizer
    attribution: Any = LayerIntegratedGradients(
        lambda ids, mask: model(input_ids=ids, attention_mask=mask).logits, explainer.classifier.layer
    )
    found = []
    for text in texts:
        inputs = tokenizer(text, return_tensors="pt")
        ids, mask = inputs["input_ids"], inputs["attention_mask"]
        special = torch.isin(ids, torch.tensor(tokenizer.all_special_ids))
        baseline = torch.where(special, ids, tokenizer.pad_token_id)
        with torch.no_grad():
            target = int(model(input_ids=ids, attention_mask=mask).logits.argmax())
        scores = attribution.attribute(ids, baseline, target=target, additional_forward_args=(mask,), n_steps=n_steps)
        found.append(scores.sum(dim=-1)[0])
    return found


def run(model: Path | None, texts: list[str], n_steps: int, rounds: int) -> dict[str, dict[str, float]]:
    """Explain all texts in each way, on one thread, in turns: the speed of a shared machine changes by the minute."""
    torch.set_num_threads(1)
    explainer = make(model)
    explainer.explain(texts[0], n_steps=2)

    def loop(n: int) -> list[list[float]]:
        return [one.tolist() for one in captum(explainer, texts, n)]

    def each(n: int) -> list[list[float]]:
        return [list(result.token_scores) for text in texts for result in explainer.explain_each([text], n_steps=n)]

    def together(n: int, batch_size: int | None = None) -> list[list[float]]:
        return [list(r.token_scores) for r in explainer.explain_each(texts, n_steps=n, batch_size=batch_size)]

    ways: dict[str, tuple[Callable[[int], list[list[float]]], int]] = {
        "captum": (loop, n_steps),
        "one by one": (each, n_steps),
        "together": (together, n_steps),
        "batches of 8": (partial(together, batch_size=8), n_steps),
        "together, half of the gradients": (together, n_steps // 2),
        "together, a quarter of the gradients": (together, n_steps // 4),
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    scores: dict[str, list[list[float]]] = {}
    for _ in range(rounds):
        for name, (way, n) in ways.items():
            seconds[name].append(clock(lambda: scores.update({name: way(n)})))  # noqa: B023 - called at once
    reference = loop(8 * n_steps)
    return {
        name: {
            "gradients": n,
            "texts_per_second": rounded(len(texts) / statistics.median(seconds[name])),
            "median_token_error_percent": rounded(error_percent(scores[name], reference)),
        }
        for name, (_, n) in ways.items()
    }


def error_percent(scores: list[list[float]], reference: list[list[float]]) -> float:
    """The median relative error of a text's token scores, in percent."""
    errors = []
    for one, right in zip(scores, reference, strict=True):
        expected = torch.tensor(right)
        errors.append(float((torch.tensor(one) - expected).abs().sum() / expected.abs().sum()))
    return 100 * float(torch.tensor(errors).median())


def run_workers(workers: int, model: Path | None, texts: list[str], n_steps: int) -> dict[str, float]:
    """Explain a table with workers of one thread; the time to start and to load is not counted."""
    torch.set_num_threads(workers)
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "texts.jsonl"
        write_texts(data, texts)
        ends: list[tuple[float, int]] = []
        explain_table(
            partial(make, model),
            data,
            Path(folder) / "scores",
            n_steps=n_steps,
            rows_per_part=max(1, len(texts) // 16),
            workers=workers,
            file_format="jsonl",
            progress=lambda done, _: ends.append((time.perf_counter(), done)),
        )
    # From the first finished part to the last: what a long run tends to.
    ends = [end for end in ends if end[1]]
    began = next(end for end in ends if end[1] >= 2 * max(1, len(texts) // 16)) if len(texts) >= 32 else ends[0]
    rows = ends[-1][1] - began[1]
    return {"texts_per_second": rounded(rows / max(1e-9, ends[-1][0] - began[0]))}


def run_long(model: Path | None, texts: list[str], n_rows: int) -> dict[str, float]:
    """Explain a long table with few gradients; return its speed and memory at the beginning and at the end."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "texts.jsonl"
        write_texts(data, [texts[number % len(texts)] for number in range(n_rows)])
        told: list[tuple[int, float, float]] = []

        def tell(done: int, _: int) -> None:
            if not told or done >= told[-1][0] + n_rows // 10:
                told.append((done, time.perf_counter(), resident_mb()))

        explain_table(
            partial(make, model), data, Path(folder) / "scores", n_steps=4, file_format="jsonl", progress=tell
        )
    (start, began, _), (first, first_ended, after_first), *_, (before, last_began, _), (end, ended, after) = told
    return {
        "rows": n_rows,
        "first_tenth_rows_per_second": rounded((first - start) / (first_ended - began)),
        "last_tenth_rows_per_second": rounded((end - before) / (ended - last_began)),
        "mb_after_first_tenth": rounded(after_first),
        "mb_more_at_the_end": rounded(after - after_first),
    }


def main() -> None:
    """Measure, print and keep."""
    parser: argparse.ArgumentParser = sentence_parser(__doc__, "4 gradients")
    parser.add_argument("--n-long", type=int, default=10_000, help="rows of the long table")
    arguments = parser.parse_args()
    if not arguments.tiny and arguments.data is None:
        parser.error("give --data, or --tiny")
    texts, n_steps, n_long = TINY_TEXTS, 4, 20
    if not arguments.tiny:
        lines = arguments.data.read_text(encoding="utf-8").splitlines()
        texts = [line.split("\t")[0] for line in lines[:: max(1, len(lines) // arguments.n)]][: arguments.n]
        n_steps, n_long = 50, arguments.n_long
    found: dict[str, Any] = alone(run, arguments.model, texts, n_steps, 1 if arguments.tiny else 3)
    for workers in (1, 2):
        found[f"workers: {workers}"] = run_workers(workers, arguments.model, texts, n_steps)
    for name, figures in found.items():
        print(f"{name:38}", "  ".join(f"{figure} {value}" for figure, value in figures.items()))
    # Rows of the demo model are quick, so that the table can be long.
    long = alone(run_long, None, texts, n_long)
    print(long)
    write(
        {
            "question": (__doc__ or "").splitlines()[0],
            "environment": environment() | {"threads": "1"},
            "settings": {
                "model": arguments.model.name if arguments.model else "demo",
                "data": arguments.data.name if arguments.data else "two sentences",
                "n_sentences": len(texts),
                "n_steps": n_steps,
            },
            "ways": found,
            "long_table": long,
        },
        arguments.out,
    )


if __name__ == "__main__":
    main()
