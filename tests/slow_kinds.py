"""Tokenizers of pure Python: they report no offsets, and rewrite what they read."""

import json
from pathlib import Path

import pytest
from transformers import BertJapaneseTokenizer, BertweetTokenizer, ByT5Tokenizer, FlaubertTokenizer, PhobertTokenizer

WHOLE = ("film", "wit", "ty", "phim", "hay", "une", "belle", "USER", "don", "n't", "'t")
LETTERS = sorted(set("abcdefghijklmnopqrstuvwxyzADHLOPRSTUéạ@'.,:!-n"))


def _merges(last: str) -> list[tuple[str, str]]:
    """Merge the letters of whole words from the left; `last` marks the end of a word."""
    merges: dict[tuple[str, str], None] = {}
    for word in WHOLE:
        parts = [*word[:-1], word[-1] + last]
        while len(parts) > 1:
            merges[parts[0], parts[1]] = None
            parts = [parts[0] + parts[1], *parts[2:]]
    return list(merges)


def _fairseq(kind, folder: Path, **options):
    pieces = [*LETTERS, *WHOLE]
    (folder / "vocab.txt").write_text("".join(f"{piece}{end} 1\n" for piece in pieces for end in ("", "@@")), "utf-8")
    (folder / "bpe.codes").write_text("".join(f"{a} {b} 1\n" for a, b in _merges("</w>")), "utf-8")
    return kind(str(folder / "vocab.txt"), str(folder / "bpe.codes"), **options)


def _flaubert(folder: Path):
    pytest.importorskip("sacremoses")
    special = ["<s>", "</s>", "<pad>", "<unk>", *(f"<special{i}>" for i in range(10))]
    pieces = [*LETTERS, *(f"{letter}</w>" for letter in LETTERS), *(f"{word}</w>" for word in WHOLE)]
    vocabulary = {piece: i for i, piece in enumerate(dict.fromkeys([*special, *pieces]))}
    (folder / "vocab.json").write_text(json.dumps(vocabulary), "utf-8")
    (folder / "merges.txt").write_text("".join(f"{a} {b}\n" for a, b in _merges("</w>")), "utf-8")
    return FlaubertTokenizer(str(folder / "vocab.json"), str(folder / "merges.txt"), do_lowercase=True)


def _japanese(folder: Path, **options):
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"この映画は長いすば", "映画", "長い", "この", "すば"]
    pieces += [f"##{piece}" for piece in pieces[5:]] + ["##らしい", "film", "a"]
    (folder / "vocab.txt").write_text("\n".join(dict.fromkeys(pieces)) + "\n", "utf-8")
    return BertJapaneseTokenizer(str(folder / "vocab.txt"), **options)


SLOW = {
    "ByT5": lambda folder: ByT5Tokenizer(),
    "BERTweet": lambda folder: _fairseq(BertweetTokenizer, folder, normalization=True),
    "PhoBERT": lambda folder: _fairseq(PhobertTokenizer, folder),
    "FlauBERT": _flaubert,
    "Japanese": _japanese,
    "Japanese characters": lambda folder: _japanese(folder, subword_tokenizer_type="character"),
}
