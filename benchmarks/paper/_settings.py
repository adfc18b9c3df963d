"""What the paper ran, and what is run here: models, data sets, methods.

Takes the folders that a user names; gives texts, and methods for `captum_dig.comparison.comparing.compare`.
"""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from captum_dig import TextExplainer
from captum_dig.methods import AttributionMethod, PathMethod

M = 30
SEED = 0


@dataclass(frozen=True)
class Setting:
    """A fine-tuned model and the data set that it was fine-tuned on.

    Attributes:
        name: What files call it.
        model: A folder beside the other models, or a name on the hub.
        dataset: ``"sst2"``, ``"imdb"`` or ``"rotten_tomatoes"``.
        architecture: What the paper's tables call it.
        n_texts: How many test texts.
        top_fractions: Shares of tokens taken away.
    """

    name: str
    model: str
    dataset: str
    architecture: str
    n_texts: int = 300
    top_fractions: tuple[float, ...] = (0.1, 0.2, 0.3, 0.5)


# Small models of the paper's architectures, 384 wide.
SMALL = (
    Setting("distilbert-sst2", "distilbert-sst2", "sst2", "DistilBERT"),
    Setting("bert-sst2", "bert-sst2", "sst2", "BERT"),
    Setting("bert-rotten-tomatoes", "bert-rotten-tomatoes", "rotten_tomatoes", "BERT"),
    Setting("roberta-imdb", "roberta-imdb", "imdb", "RoBERTa", n_texts=100, top_fractions=(0.2,)),
)
# The checkpoints that the paper names, on the Hugging Face hub.
PAPER = (
    Setting("paper-distilbert-sst2", "distilbert-base-uncased-finetuned-sst-2-english", "sst2", "DistilBERT"),
    Setting("paper-roberta-sst2", "textattack/roberta-base-SST-2", "sst2", "RoBERTa"),
    Setting("paper-bert-sst2", "textattack/bert-base-uncased-SST-2", "sst2", "BERT"),
    Setting("paper-distilbert-imdb", "textattack/distilbert-base-uncased-imdb", "imdb", "DistilBERT", 100, (0.2,)),
    Setting("paper-roberta-imdb", "textattack/roberta-base-imdb", "imdb", "RoBERTa", 100, (0.2,)),
    Setting("paper-bert-imdb", "textattack/bert-base-uncased-imdb", "imdb", "BERT", 100, (0.2,)),
    Setting(
        "paper-distilbert-rt", "textattack/distilbert-base-uncased-rotten-tomatoes", "rotten_tomatoes", "DistilBERT"
    ),
    Setting("paper-roberta-rt", "textattack/roberta-base-rotten-tomatoes", "rotten_tomatoes", "RoBERTa"),
    Setting("paper-bert-rt", "textattack/bert-base-uncased-rotten-tomatoes", "rotten_tomatoes", "BERT"),
)


def read(dataset: str, split: str, data_dir: Path | None) -> list[tuple[str, int]]:
    """Read the texts of a split with their labels, 1 for positive; those of both classes in turn.

    Args:
        dataset: The data set.
        split: ``"train"``, ``"dev"`` or ``"test"``. IMDB has no dev split: it is the test split.
        data_dir: A folder with one folder for each data set; None for the Hugging Face hub.

    Returns:
        Texts and labels.
    """
    found = _from_hub(dataset, split) if data_dir is None else _from_folder(dataset, split, data_dir)
    return [(text.replace("<br />", " ").strip(), label) for text, label in found]


def texts_of(dataset: str, split: str, data_dir: Path | None, n_texts: int) -> list[str]:
    """Read some texts of a split: the first ones, or for IMDB the shortest, because long ones cost most.

    Args:
        dataset: The data set.
        split: As in `read`.
        data_dir: As in `read`.
        n_texts: How many.

    Returns:
        The texts.
    """
    texts = [text for text, _ in read(dataset, split, data_dir)]
    return sorted(texts, key=len)[:n_texts] if dataset == "imdb" else texts[:n_texts]


def _from_folder(dataset: str, split: str, data_dir: Path) -> Iterator[tuple[str, int]]:
    folder = data_dir / dataset
    if dataset == "sst2":
        for line in (folder / f"{split}.tsv").read_text("utf-8").splitlines():
            text, _, label = line.rpartition("\t")
            yield text, int(label)
    elif dataset == "rotten_tomatoes":
        start, stop = {"train": (0.0, 0.8), "dev": (0.8, 0.9), "test": (0.9, 1.0)}[split]
        sides = []
        for name, sign in (("rt-polarity.pos", 1), ("rt-polarity.neg", 0)):
            lines = (folder / name).read_text("utf-8").splitlines()
            some = lines[round(start * len(lines)) : round(stop * len(lines))]
            sides.append([(line.strip(), sign) for line in some])
        yield from _in_turn(*sides)
    else:
        with (folder.with_name("imdb_sample") / "texts.csv").open(newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                if (row["is_valid"] == "True") == (split != "train"):
                    yield row["text"], int(row["label"] == "positive")


def _from_hub(dataset: str, split: str) -> Iterator[tuple[str, int]]:
    from datasets import load_dataset  # type: ignore[import-not-found]  # only where there is a network

    name, column = {
        "sst2": ("stanfordnlp/sst2", "sentence"),
        "imdb": ("stanfordnlp/imdb", "text"),
        "rotten_tomatoes": ("cornell-movie-review-data/rotten_tomatoes", "text"),
    }[dataset]
    names = {"dev": "test" if dataset == "imdb" else "validation"}
    rows = [(row[column], int(row["label"])) for row in load_dataset(name, split=names.get(split, split))]
    if dataset != "rotten_tomatoes":
        yield from rows
    else:
        yield from _in_turn([row for row in rows if row[1] == 1], [row for row in rows if row[1] != 1])


def _in_turn(positive: list[tuple[str, int]], negative: list[tuple[str, int]]) -> Iterator[tuple[str, int]]:
    """One of each class in turn, where they stand one after the other, so that the first ones are half and half."""
    return (item for pair in zip(positive, negative, strict=True) for item in pair)


def table_methods(explainer: TextExplainer) -> list[AttributionMethod]:
    """Make the methods of the paper's tables, each path with the paper's rule and with ours, at the same cost."""
    found: list[AttributionMethod] = []
    for name, strategy in (
        ("integrated_gradients", "straight_line"),
        ("dig_greedy", "greedy"),
        ("dig_maxcount", "maxcount"),
    ):
        path = explainer.path(strategy)
        found += [
            PathMethod(f"{name}@paper", path, "riemann_left", "knots", n_gradients=M + 1),
            PathMethod(name, path, n_gradients=M + 1),
        ]
    return [*found, *map(explainer.method, ("gradient_shap", "deeplift", "input_x_gradient", "random"))]
