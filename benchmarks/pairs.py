"""Which words of a pair made a model of pairs decide, and do scores name the words that it needs?

A small DistilBERT for sentiment is fine-tuned, in minutes, to tell whether two sentences of SST-2 have the same
sentiment. Pairs of the test split are then explained by several methods with 48 gradients each, and measured by
log-odds and comprehensiveness; each method is tested against random scores.

    python -m benchmarks.pairs --model MODEL --data-dir FOLDER --out benchmarks/results/pairs.json
    python -m benchmarks.pairs --tiny
"""

import argparse
import random
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from benchmarks._measuring import clock, ends, environment, rounded, write
from benchmarks.paper._settings import read
from captum_dig import StaggeredPath, StraightLine, TextExplainer, compare
from captum_dig.methods import PathMethod
from captum_dig.metrics import bootstrap_interval, paired_test

METHODS = (
    "straight_line",
    # The default when results/pairs.json was measured; the present one adds the straight line.
    PathMethod("staggered", StaggeredPath(StraightLine())),
    "greedy",
    "leave_one_out",
    "random",
)
LABELS = {0: "DIFFERENT", 1: "SAME"}


def pairs(sentences: list[tuple[str, int]], n: int, seed: int) -> tuple[list[dict[str, str]], list[int]]:
    """Draw pairs of sentences, and tell for each whether both have the same sentiment."""
    rng = random.Random(seed)
    drawn = [(rng.choice(sentences), rng.choice(sentences)) for _ in range(n)]
    return [{"text": one[0], "text_pair": other[0]} for one, other in drawn], [int(a[1] == b[1]) for a, b in drawn]


def train(model: Any, tokenizer: Any, sentences: list[tuple[str, int]], n_batches: int) -> None:
    """Fine-tune on random pairs."""
    optimizer = torch.optim.AdamW(model.train().parameters(), lr=1e-4)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 50))
    for number in range(n_batches):
        samples, wanted = pairs(sentences, 32, number)
        columns = [[sample[name] for sample in samples] for name in ("text", "text_pair")]
        batch = tokenizer(*columns, padding=True, truncation=True, max_length=96, return_tensors="pt")
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(**batch).logits, torch.tensor(wanted))
        loss.backward()
        optimizer.step()
        schedule.step()
    model.eval()


def accuracy(model: Any, tokenizer: Any, samples: list[dict[str, str]], wanted: list[int]) -> float:
    """The share of pairs that the model tells right."""
    right = 0
    for sample, label in zip(samples, wanted, strict=True):
        with torch.no_grad():
            logits = model(**tokenizer(sample["text"], sample["text_pair"], return_tensors="pt")).logits
        right += int(logits.argmax()) == label
    return right / len(wanted)


def main() -> None:
    """Train, measure, print, and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, help="folder of a sentence classifier; the demo model without it")
    parser.add_argument("--data-dir", type=Path, help="folder with the data sets")
    parser.add_argument("--n", type=int, default=100, help="pairs to explain")
    parser.add_argument("--batches", type=int, default=500, help="batches of 32 pairs to train on")
    parser.add_argument("--out", type=Path, help="JSON file to write")
    parser.add_argument("--tiny", action="store_true", help="two batches, three pairs")
    arguments = parser.parse_args()
    if not arguments.tiny and arguments.data_dir is None:
        parser.error("give --data-dir, or --tiny")
    sentences = [("A gorgeous, witty movie.", 1), ("Dull.", 0), ("Great fun!", 1), ("A boring plot.", 0)]
    sets = {
        split: sentences if arguments.tiny else read("sst2", split, arguments.data_dir) for split in ("train", "test")
    }
    folder = arguments.model or Path(TextExplainer.demo().classifier.model.config._name_or_path)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    torch.manual_seed(0)
    model: Any = AutoModelForSequenceClassification.from_pretrained(folder, id2label=LABELS, dtype=torch.float32)
    seconds = clock(lambda: train(model, tokenizer, sets["train"], 2 if arguments.tiny else arguments.batches))
    samples, wanted = pairs(sets["test"], 3 if arguments.tiny else arguments.n, -1)
    explainer = TextExplainer(model, tokenizer, name="pairs", cache=False)
    comparison = compare(
        explainer,
        samples,
        METHODS,
        ("pad", "mask"),
        n_steps=48,
        method="known_sums",
        measures=("log_odds", "comprehensiveness"),
        top_fractions=(0.2,),
    )
    report: dict[str, Any] = {
        "question": (__doc__ or "").splitlines()[0],
        "environment": environment(),
        "settings": {"model": folder.name, "n_pairs": len(samples), "n_steps": 48},
        "training_seconds": rounded(seconds),
        "accuracy": rounded(accuracy(model, tokenizer, samples, wanted)),
        "rows": [],
    }
    for baseline in comparison.settings.baselines:
        for method in comparison.settings.methods:
            row: dict[str, Any] = {"method": method, "baseline": baseline}
            for measure in ("log_odds", "comprehensiveness"):
                values = comparison.values(measure, method, baseline)
                row[measure] = ends(bootstrap_interval(values))
                if method != "random":
                    test = paired_test(values, comparison.values(measure, "random", baseline))
                    row[measure]["p_value_against_random"] = rounded(test.p_value)
            report["rows"].append(row)
            print(row, flush=True)
    print("accuracy", report["accuracy"], "after", report["training_seconds"], "s")
    write(report, arguments.out)


if __name__ == "__main__":
    main()
