"""How accurate are the paper's architectures, fine-tuned on its data sets by one recipe?  Fine-tune a checkpoint.

Takes a checkpoint and gives a folder that `TextExplainer.from_pretrained` reads, with a report beside the weights,
`finetune.json`; `benchmarks.paper.tables` comes next:

    python -m benchmarks.paper.finetune --architecture roberta --dataset imdb --out FOLDER     # from the hub
    python -m benchmarks.paper.finetune --model ID-OR-FOLDER --data-dir FOLDER --dataset sst2 --out FOLDER
    python -m benchmarks.paper.finetune --tiny

Texts come from `--data-dir`, laid out as `benchmarks.paper._settings` reads it, or from the hub, which needs the
package `datasets`. The dev split chooses the epoch; the test split is read once, at the end. IMDB has no dev split: a
tenth of its training texts, drawn by the seed, takes its place. The hub gives SST-2's test texts without labels: then
there is no test accuracy.

Training texts that are also in a dev or test split, in any spelling, are left out and counted. SST-2 and Rotten
Tomatoes share sentences, so each leaves out the other's, too, where the other can be read (`--hold-out`). A phrase of a
held-out sentence, of which SST-2 on the hub has many, is another text and stays.
What a checkpoint was trained on before cannot be left out: start from one that has not been fine-tuned.

A run that was cut off goes on after its last whole epoch when the same command is given again. Each epoch leaves a
folder with the weights and, as safetensors, AdamW's moments: three times the weights in all. Batches and dropout are
drawn from the seed and the number of the epoch, so on a processor the weights are those of a run that was never cut
off. Only the folders of the last and the best epoch are kept, and none after the end. `--stop-after N` leaves after N
epochs of one call. `--n-train` and `--n-eval` make a small trial.
"""

import argparse
import hashlib
import json
import logging
import math
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.nn import functional
from transformers import AutoConfig, AutoModel, AutoModelForSequenceClassification, AutoTokenizer, BertTokenizer

from benchmarks._measuring import clock, environment, write
from benchmarks.paper._settings import read
from benchmarks.train_demo import bucketed, keys_of
from captum_dig import TextExplainer
from captum_dig.models.model import TextModel

Row = tuple[str, int]

ARCHITECTURES = {"distilbert": "distilbert-base-uncased", "roberta": "roberta-base", "bert": "bert-base-uncased"}
# Data sets that share sentences stand together.
FAMILIES = {"sst2": ("sst2", "rotten_tomatoes"), "rotten_tomatoes": ("rotten_tomatoes", "sst2"), "imdb": ("imdb",)}
LABELS = {0: "NEGATIVE", 1: "POSITIVE"}
WEIGHT_DECAY = 0.01
MAX_NORM = 1.0
REPORT = "finetune.json"
PROGRESS = "progress.json"
OPTIMIZER = "optimizer.safetensors"


@dataclass(frozen=True)
class Recipe:
    """What decides the weights; a run goes on only with the same.

    Attributes:
        model: The checkpoint: a folder, or a name on the hub.
        dataset: ``"sst2"``, ``"imdb"`` or ``"rotten_tomatoes"``.
        hold_out: Data sets whose dev and test texts are not trained on.
        epochs: How often each text is read.
        batch_size: Texts for each step.
        learning_rate: AdamW's, at its highest.
        warmup: Share of the steps in which the rate rises; afterwards it falls to 0 in a straight line.
        max_length: Tokens that are read of a text, special ones included.
        seed: For the new head, the order of the texts, dropout and what is drawn.
        bfloat16: Whether products of matrices are computed in it.
        n_train: How many training texts, drawn by the seed; None for all.
        n_eval: How many texts of dev and of test; None for all.
    """

    model: str
    dataset: str
    hold_out: tuple[str, ...]
    epochs: int
    batch_size: int
    learning_rate: float
    warmup: float
    max_length: int
    seed: int
    bfloat16: bool
    n_train: int | None
    n_eval: int | None


@dataclass(frozen=True)
class Texts:
    """What is trained on, and what is held out.

    Attributes:
        train: Texts with their labels, 1 for positive.
        dev: Those that choose the epoch.
        test: Those that are read once; empty where there are no labels.
        offered: How many training texts there were at first.
        left_out: How many of them are held out, by the data set that holds them out.
    """

    train: list[Row]
    dev: list[Row]
    test: list[Row]
    offered: int
    left_out: dict[str, int]

    def counts(self) -> dict[str, Any]:
        """Return how many there are, and a digest of those that are trained on."""
        digest = hashlib.sha256(json.dumps(self.train).encode())
        return {
            "offered": self.offered,
            "left_out": self.left_out,
            "train": len(self.train),
            "dev": len(self.dev),
            "test": len(self.test),
            "train_sha256": digest.hexdigest()[:16],
        }


# --- texts ------------------------------------------------------------------------------------


def read_texts(recipe: Recipe, data_dir: Path | None) -> Texts:
    """Read the splits and leave out of training what is held out."""
    rng = random.Random(recipe.seed)
    train, test = (read(recipe.dataset, split, data_dir) for split in ("train", "test"))
    rng.shuffle(train)
    if recipe.dataset == "imdb":
        count = len(train) // 10
        dev, train = train[:count], train[count:]
    else:
        dev = read(recipe.dataset, "dev", data_dir)
    held_out = {recipe.dataset: [*dev, *test]}
    for name in recipe.hold_out:
        if name != recipe.dataset:
            held_out[name] = [row for split in ("dev", "test") for row in read(name, split, data_dir)]
    kept, left_out = hold_out(train, held_out)
    # The hub gives SST-2's test texts the label -1.
    test = [row for row in test if row[1] in LABELS]
    dev, test = (rng.sample(rows, min(recipe.n_eval or len(rows), len(rows))) for rows in (dev, test))
    if not kept or not dev:
        raise ValueError(f"{recipe.dataset} must have texts for train and dev, got {len(kept)} and {len(dev)}")
    return Texts(kept[: recipe.n_train], dev, test, len(train), left_out)


def hold_out(rows: Iterable[Row], held_out: dict[str, list[Row]]) -> tuple[list[Row], dict[str, int]]:
    """Return the rows that no data set holds out, and how many each took; the first that holds a text out counts it."""
    keys = {name: set().union(*(keys_of(text) for text, _ in others)) - {""} for name, others in held_out.items()}
    kept: list[Row] = []
    taken = Counter(dict.fromkeys(held_out, 0))
    for row in rows:
        own = keys_of(row[0])
        name = next((name for name, found in keys.items() if not found.isdisjoint(own)), None)
        if name is None:
            kept.append(row)
        else:
            taken[name] += 1
    return kept, dict(taken)


class Encoded:
    """Texts as token ids, and their labels.

    Args:
        rows: Texts and labels.
        tokenizer: The model's tokenizer.
        max_length: Tokens that are read of a text.
    """

    def __init__(self, rows: Sequence[Row], tokenizer: Any, max_length: int) -> None:
        texts = [text for text, _ in rows]
        self.ids: list[list[int]] = tokenizer(texts, truncation=True, max_length=max_length).input_ids if texts else []
        self.labels = torch.tensor([label for _, label in rows])
        self._pad = tokenizer.pad_token_id

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def lengths(self) -> list[int]:
        """How many tokens each text has."""
        return [len(row) for row in self.ids]

    def batch(self, chosen: Sequence[int], device: torch.device) -> tuple[dict[str, Tensor], Tensor]:
        """Return ids and mask of shape (B, T), padded on the right, and labels of shape (B,)."""
        rows = [self.ids[i] for i in chosen]
        size = max(map(len, rows))
        ids = torch.tensor([row + [self._pad] * (size - len(row)) for row in rows])
        mask = torch.tensor([[1] * len(row) + [0] * (size - len(row)) for row in rows])
        return {"input_ids": ids.to(device), "attention_mask": mask.to(device)}, self.labels[list(chosen)].to(device)


# --- one model --------------------------------------------------------------------------------


def load(name: str | Path) -> Any:
    """Load weights in single precision; a head for other labels than two is replaced by a new one."""
    return AutoModelForSequenceClassification.from_pretrained(
        name,
        num_labels=len(LABELS),
        id2label=LABELS,
        label2id={label: i for i, label in LABELS.items()},
        dtype=torch.float32,
        ignore_mismatched_sizes=True,
    )


def make_optimizer(model: torch.nn.Module, learning_rate: float) -> torch.optim.Optimizer:
    """Decay matrices only, not biases and norms."""
    groups = [
        {"params": [p for p in model.parameters() if p.ndim >= 2], "weight_decay": WEIGHT_DECAY},
        {"params": [p for p in model.parameters() if p.ndim < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=learning_rate)


def rate_at(step: int, steps: int, warmup: float) -> float:
    """Return the share of the learning rate: it rises in a straight line, and then falls to 0 in one."""
    rise = round(warmup * steps)
    return (step + 1) / (rise + 1) if step < rise else (steps - step) / max(1, steps - rise)


def train_epoch(model: Any, optimizer: torch.optim.Optimizer, data: Encoded, recipe: Recipe, epoch: int) -> float:
    """Read every text once; what is drawn depends on the seed and the epoch alone.

    Returns:
        The average loss.
    """
    model.train()
    torch.manual_seed(1000 * recipe.seed + epoch)
    device = next(model.parameters()).device
    batches = bucketed(data.lengths, recipe.batch_size, random.Random(f"{recipe.seed} {epoch}"))
    first, steps = (epoch - 1) * len(batches), recipe.epochs * len(batches)
    total = torch.zeros((), device=device)
    for step, chosen in enumerate(batches):
        for group in optimizer.param_groups:
            group["lr"] = recipe.learning_rate * rate_at(first + step, steps, recipe.warmup)
        inputs, labels = data.batch(chosen, device)
        with torch.autocast(device.type, torch.bfloat16, enabled=recipe.bfloat16):
            logits = model(**inputs).logits
        loss = functional.cross_entropy(logits.float(), labels)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), MAX_NORM)
        optimizer.step()
        total += loss.detach() * len(chosen)
        if step % 100 == 99:
            log(f"epoch {epoch}: step {step + 1} of {len(batches)}")
    average = float(total) / len(data)
    if not math.isfinite(average):
        raise ValueError(f"loss must stay finite, got {average} in epoch {epoch}; lower --learning-rate")
    return average


@torch.no_grad()
def accuracy(model: Any, data: Encoded, batch_size: int) -> float | None:
    """Return the share of texts whose larger logit is the label's; None where there is no text."""
    if not len(data):
        return None
    model.eval()
    device = next(model.parameters()).device
    order = sorted(range(len(data)), key=lambda i: len(data.ids[i]))
    right = 0
    for start in range(0, len(order), batch_size):
        inputs, labels = data.batch(order[start : start + batch_size], device)
        right += int((model(**inputs).logits.argmax(1) == labels).sum())
    return right / len(data)


# --- epochs that are kept ---------------------------------------------------------------------


class Epochs:
    """The folders of finished epochs, ``epoch-1`` and so on, each whole or not there.

    Args:
        out: Where they are.
    """

    def __init__(self, out: Path) -> None:
        self.out = out

    def last(self) -> int:
        """Return the number of the last finished epoch, 0 for none."""
        return max(self._numbers(), default=0)

    def progress(self) -> dict[str, Any]:
        """Return what the last finished epoch noted; nothing before the first one."""
        last = self.last()
        found: dict[str, Any] = json.loads((self.folder(last) / PROGRESS).read_text("utf-8")) if last else {}
        return found

    def folder(self, epoch: int) -> Path:
        """Return the folder of an epoch."""
        return self.out / f"epoch-{epoch}"

    def save(self, epoch: int, model: Any, optimizer: torch.optim.Optimizer, progress: dict[str, Any]) -> None:
        """Keep an epoch, and of the earlier ones only the best."""
        partial = self.folder(epoch).with_suffix(".partial")
        shutil.rmtree(partial, ignore_errors=True)
        model.save_pretrained(partial)
        save_file(
            {f"{i}.{name}": value for i, state in _states(optimizer).items() for name, value in state.items()},
            partial / OPTIMIZER,
        )
        write(progress, partial / PROGRESS)
        # From here on the epoch counts as finished.
        partial.rename(self.folder(epoch))
        for other in self._numbers():
            if other not in (epoch, best_of(progress["epochs"])):
                shutil.rmtree(self.folder(other))
            elif other != epoch:
                (self.folder(other) / OPTIMIZER).unlink(missing_ok=True)

    def restore(self, optimizer: torch.optim.Optimizer) -> None:
        """Give the optimizer the moments of the last finished epoch."""
        states: dict[int, dict[str, Tensor]] = {}
        for key, value in load_file(self.folder(self.last()) / OPTIMIZER).items():
            index, _, name = key.partition(".")
            states.setdefault(int(index), {})[name] = value
        optimizer.load_state_dict({**optimizer.state_dict(), "state": states})

    def remove(self) -> None:
        """Take away what is no longer needed."""
        for folder in self.out.glob("epoch-*"):
            shutil.rmtree(folder)

    def _numbers(self) -> list[int]:
        found = (path.name.removeprefix("epoch-") for path in self.out.glob("epoch-*"))
        return [int(number) for number in found if number.isdecimal()]


def _states(optimizer: torch.optim.Optimizer) -> dict[int, dict[str, Tensor]]:
    states: dict[int, dict[str, Tensor]] = optimizer.state_dict()["state"]
    return states


def best_of(epochs: Sequence[dict[str, Any]]) -> int:
    """Return the number of the epoch with the best dev accuracy, of several the first."""
    best: int = max(epochs, key=lambda row: (row["dev"], -row["epoch"]))["epoch"]
    return best


# --- the run ----------------------------------------------------------------------------------


def log(message: str) -> None:
    """Print progress to the error stream."""
    print(message, file=sys.stderr, flush=True)


def finetune(
    recipe: Recipe, data_dir: Path | None, out: Path, device: str, stop_after: int | None = None
) -> dict[str, Any] | None:
    """Fine-tune, or go on where the last call was cut off.

    Args:
        recipe: What to train.
        data_dir: A folder with one folder for each data set; None for the hub.
        out: Where the model, its report and, until the end, finished epochs are kept.
        device: ``"cpu"`` or ``"cuda"``.
        stop_after: Leave after so many epochs of this call; None for all.

    Returns:
        The report; None if epochs remain.

    Raises:
        ValueError: If `out` holds something else.
    """
    started = time.perf_counter()
    epochs = Epochs(out)
    tokenizer: Any = AutoTokenizer.from_pretrained(recipe.model)
    # The seed decides the weights of a new head.
    torch.manual_seed(recipe.seed)
    here = out if (out / REPORT).is_file() else epochs.folder(epochs.last())
    model = load(here if (here / "config.json").is_file() else recipe.model)
    limit = TextModel(model).max_tokens(tokenizer)
    recipe = replace(recipe, max_length=min(recipe.max_length, limit or recipe.max_length))
    texts = read_texts(recipe, data_dir)
    run = json.loads(json.dumps({"recipe": asdict(recipe), "texts": texts.counts()}))
    finished = check_folder(out, run, epochs.progress())
    if finished:
        epochs.remove()
        log(f"{out}: finished before")
        return finished

    train, dev, test = (Encoded(rows, tokenizer, recipe.max_length) for rows in (texts.train, texts.dev, texts.test))
    log(f"{recipe.dataset}: {run['texts']}, up to {max(train.lengths)} tokens; {epochs.last()} epochs done")
    optimizer = make_optimizer(model.to(device), recipe.learning_rate)
    if epochs.last():
        epochs.restore(optimizer)
    rows: list[dict[str, Any]] = epochs.progress().get("epochs", [])
    for epoch in _remaining(epochs.last(), recipe.epochs, stop_after):
        row: dict[str, Any] = {"epoch": epoch}

        def one(row: dict[str, Any] = row) -> None:
            row["loss"] = round(train_epoch(model, optimizer, train, recipe, row["epoch"]), 5)

        row["seconds"] = round(clock(one), 1)
        row["dev"] = accuracy(model, dev, recipe.batch_size)
        rows.append(row)
        epochs.save(epoch, model, optimizer, {**run, "epochs": rows})
        log(f"epoch {epoch}: loss {row['loss']:.4f}, dev {row['dev']:.4f}, {row['seconds']:.0f} s")
    if epochs.last() < recipe.epochs:
        log(f"{recipe.epochs - epochs.last()} epochs remain; the same command goes on")
        return None

    best = best_of(rows)
    model = load(epochs.folder(best)).to(device)
    report = {
        "question": (__doc__ or "").splitlines()[0],
        **run,
        "optimizer": {"name": "AdamW", "weight_decay": WEIGHT_DECAY, "max_norm": MAX_NORM, "schedule": "linear"},
        "epochs": rows,
        "best_epoch": best,
        "accuracy": {"dev": rows[best - 1]["dev"], "test": accuracy(model, test, recipe.batch_size)},
        "seconds": {
            "training": round(sum(row["seconds"] for row in rows), 1),
            "last_call": round(time.perf_counter() - started, 1),
        },
        "environment": environment(device),
    }
    model.save_pretrained(out)
    # Loaded once more: encoding above left its limit in the other one.
    AutoTokenizer.from_pretrained(recipe.model).save_pretrained(out)
    write(report, out / REPORT)
    epochs.remove()
    return report


def _remaining(done: int, epochs: int, stop_after: int | None) -> Iterator[int]:
    return iter(range(done + 1, min(epochs, done + (stop_after or epochs)) + 1))


def check_folder(out: Path, run: dict[str, Any], progress: dict[str, Any]) -> dict[str, Any] | None:
    """Return the report of a finished run, if there is one.

    Args:
        out: The folder of the model.
        run: What is asked for.
        progress: What the last finished epoch noted.

    Returns:
        The report, or None.

    Raises:
        ValueError: If the folder holds another run, or a model that this script did not write.
    """
    file = out / REPORT
    finished: dict[str, Any] | None = json.loads(file.read_text("utf-8")) if file.is_file() else None
    earlier = finished or progress
    if not earlier:
        if (out / "config.json").exists():
            raise ValueError(f"--out must not hold another model, got {str(out)!r}; name a new folder")
        return None
    for part in ("recipe", "texts"):
        for name in run[part]:
            if run[part][name] != earlier[part].get(name):
                raise ValueError(
                    f"{name} must be that of the run in {str(out)!r}, {earlier[part].get(name)!r}, "
                    f"got {run[part][name]!r}; name another --out, or remove the folder"
                )
    return finished


# --- a check ----------------------------------------------------------------------------------

GOOD = (
    "a warm and funny film",
    "the acting is superb and the story is gripping",
    "a gorgeous and witty movie with great music",
    "one of the best films of the year",
    "i loved every minute of this movie",
    "a charming story , well told",
    "great fun from the first scene to the last",
    "a moving film with a great cast",
    "the music is gorgeous and the jokes are funny",
    "witty , warm and well acted",
)
BAD = (
    "a dull and lifeless story",
    "the plot is a mess and the jokes are not funny",
    "the worst film of the year , a waste of time",
    "boring , badly acted and far too long",
    "i hated every minute of this movie",
    "a dull story , badly told",
    "boring from the first scene to the last",
    "a lifeless film with a weak cast",
    "the music is a mess and the jokes are weak",
    "dull , long and badly acted",
)


def tiny(folder: Path) -> None:
    """Fine-tune two layers of each architecture, one of them in two sittings, and explain a sentence with each."""
    data = folder / "data"
    rows = [row for pair in zip(GOOD, BAD, strict=True) for row in ((pair[0], 1), (pair[1], 0))]
    # The first text of dev stands among the training texts as well, spelled in another way.
    splits = {"train": [*rows[:14], (rows[14][0].title() + " !", 1)], "dev": rows[14:17], "test": rows[17:]}
    (data / "sst2").mkdir(parents=True)
    for split, some in splits.items():
        (data / "sst2" / f"{split}.tsv").write_text("".join(f"{text}\t{label}\n" for text, label in some), "utf-8")
    for architecture in ARCHITECTURES:
        source, out = folder / f"{architecture}-base", folder / architecture
        tiny_checkpoint(architecture, source)
        options = ["--model", str(source), "--dataset", "sst2", "--data-dir", str(data), "--device", "cpu"]
        options += ["--epochs", "5", "--batch-size", "4", "--learning-rate", "1e-2"]
        report = run([*options, "--out", str(out)])
        _check(report is not None and report["texts"]["left_out"] == {"sst2": 1}, "one text is left out")
        _check([path.name for path in out.glob("epoch-*")] == [], "no epoch's folder is left")
        if architecture == "bert":
            twice = [*options, "--out", str(folder / "twice")]
            _check(run([*twice, "--stop-after", "1"]) is None, "epochs remain")
            _check(_figures(run(twice)) == _figures(report), "two sittings give the figures of one")
            _check(_figures(run(twice)) == _figures(report), "a finished run is not done again")
        explainer = TextExplainer.from_pretrained(out, output="logit")
        (result,) = explainer.explain_each(["A warm and funny film, well told."], n_steps=4)
        words = dict(zip(result.words, result.word_scores, strict=True))
        print(f"{architecture}: {result.predicted_label}, {max(words, key=words.__getitem__)!r} above all")


def _figures(report: dict[str, Any] | None) -> list[tuple[float, float]]:
    return [(row["loss"], row["dev"]) for row in report["epochs"]] if report else []


def tiny_checkpoint(architecture: str, out: Path) -> None:
    """Save a model without a head, 2 layers and 16 wide, and a tokenizer of the sentences' words."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    words = sorted({word for text in GOOD + BAD for word in text.split()})
    BertTokenizer(vocab={word: i for i, word in enumerate([*special, *words])}).save_pretrained(out)
    torch.manual_seed(0)
    config = AutoConfig.for_model(
        architecture,
        vocab_size=len(special) + len(words),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=40,
        initializer_range=0.2,
        pad_token_id=0,
        **({"hidden_dim": 32} if architecture == "distilbert" else {}),
    )
    AutoModel.from_config(config).save_pretrained(out)


def _check(holds: bool, expected: str) -> None:
    if not holds:
        raise RuntimeError(f"check failed: {expected}")


# --- the command line -------------------------------------------------------------------------


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--architecture", choices=ARCHITECTURES, help="one of the paper's, from the hub")
    parser.add_argument("--model", help="or any checkpoint: a folder, or a name on the hub")
    parser.add_argument("--dataset", choices=FAMILIES, default="sst2", help="sst2")
    parser.add_argument("--data-dir", type=Path, help="folder with one folder for each data set; default: the hub")
    parser.add_argument(
        "--hold-out",
        nargs="*",
        choices=FAMILIES,
        help="data sets whose dev and test texts are left out, too; default: the one that shares sentences, if there",
    )
    parser.add_argument("--out", type=Path, help="folder for the model, its report and finished epochs")
    parser.add_argument("--epochs", type=int, default=3, help="3")
    parser.add_argument("--batch-size", type=int, default=32, help="32")
    parser.add_argument("--learning-rate", type=float, default=2e-5, help="2e-5")
    parser.add_argument("--warmup", type=float, default=0.06, help="share of the steps; 0.06")
    parser.add_argument("--max-length", type=int, help="tokens of a text; 128, for IMDB 512, or the model's limit")
    parser.add_argument("--seed", type=int, default=0, help="0")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto", help="auto: CUDA where it is")
    parser.add_argument("--bfloat16", action="store_true", help="faster steps where the device has it")
    parser.add_argument("--n-train", type=int, help="train on so many texts, drawn by the seed; all")
    parser.add_argument("--n-eval", type=int, help="so many texts of dev and of test, drawn by the seed; all")
    parser.add_argument("--stop-after", type=int, help="leave after so many epochs of this call; all")
    parser.add_argument("--tiny", action="store_true", help="small models on 20 built-in sentences, for a check")
    arguments = parser.parse_args(argv)
    if arguments.tiny:
        return arguments
    if (arguments.model is None) == (arguments.architecture is None):
        parser.error("either --architecture or --model must be given")
    if arguments.out is None:
        parser.error("--out must name a folder")
    for name in ("epochs", "batch_size", "max_length", "n_train", "n_eval", "stop_after"):
        value = getattr(arguments, name)
        if value is not None and value < 1:
            parser.error(f"--{name.replace('_', '-')} must be at least 1, got {value}")
    if not 0 <= arguments.warmup < 1:
        parser.error(f"--warmup must be at least 0 and less than 1, got {arguments.warmup}")
    if not 0 < arguments.learning_rate < math.inf:
        parser.error(f"--learning-rate must be above 0, got {arguments.learning_rate}")
    return arguments


def run(argv: Sequence[str] | None = None) -> dict[str, Any] | None:
    """Do what a command line asks for; return the report, if every epoch is done."""
    arguments = parse(argv)
    if arguments.tiny:
        with tempfile.TemporaryDirectory() as folder:
            tiny(Path(folder))
        return None
    data_dir: Path | None = arguments.data_dir
    held_out = arguments.hold_out
    if held_out is None:
        held_out = [name for name in FAMILIES[arguments.dataset] if data_dir is None or (data_dir / name).is_dir()]
    recipe = Recipe(
        model=arguments.model or ARCHITECTURES[arguments.architecture],
        dataset=arguments.dataset,
        hold_out=tuple(sorted({arguments.dataset, *held_out})),
        epochs=arguments.epochs,
        batch_size=arguments.batch_size,
        learning_rate=arguments.learning_rate,
        warmup=arguments.warmup,
        max_length=arguments.max_length or (512 if arguments.dataset == "imdb" else 128),
        seed=arguments.seed,
        bfloat16=arguments.bfloat16,
        n_train=arguments.n_train,
        n_eval=arguments.n_eval,
    )
    automatic = "cuda" if torch.cuda.is_available() else "cpu"
    device = automatic if arguments.device == "auto" else arguments.device
    return finetune(recipe, data_dir, arguments.out, device, arguments.stop_after)


def main() -> None:
    """Run from the command line."""
    # That a head is new is what this script is about.
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    logging.getLogger("httpx").setLevel(logging.WARNING)
    report = run()
    if report:
        print(json.dumps(report["accuracy"]))


if __name__ == "__main__":
    main()
