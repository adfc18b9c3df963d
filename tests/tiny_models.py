"""Tiny models and tokenizers, built in memory: real architectures, random weights."""

from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import DistilBertConfig, DistilBertForSequenceClassification, PreTrainedTokenizerFast

WORDS = [
    "a",
    "an",
    "and",
    "the",
    "of",
    "to",
    "in",
    "it",
    "is",
    "was",
    "this",
    "that",
    "not",
    "no",
    "very",
    "so",
    "but",
    "with",
    "for",
    "on",
    "as",
    "at",
    "by",
    "from",
    "movie",
    "film",
    "plot",
    "story",
    "acting",
    "actor",
    "scene",
    "script",
    "music",
    "gorgeous",
    "witty",
    "seductive",
    "dull",
    "boring",
    "great",
    "good",
    "bad",
    "terrible",
    "awful",
    "lovely",
    "charming",
    "clever",
    "slow",
    "fast",
    "funny",
    "sad",
    "long",
    "short",
    "bright",
    "dark",
    "warm",
    "cold",
    "new",
    "old",
    "first",
    "last",
    "best",
    "worst",
    "never",
    "always",
    "rather",
    "quite",
    "almost",
    "every",
    "some",
    "any",
    "more",
    "most",
    "less",
    "least",
    "one",
    "two",
    "cafe",
    "hello",
    "world",
]
PIECES = [
    "##ly",
    "##s",
    "##ing",
    "##ed",
    "##est",
    "##er",
    "##ful",
    *"abcdefghijklmnopqrstuvwxyz",
    *[f"##{c}" for c in "abcdefghijklmnopqrstuvwxyz"],
]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
SYMBOLS = [",", ".", "!", "?", "'", "-", "<", ">", "/", "(", ")", "&", "[", "]"]

# What most configurations of Transformers ask for, small, and weights large enough that words matter.
TINY = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 40,
    "initializer_range": 0.4,
}


def tiny_tokenizer(max_length: int = 32) -> PreTrainedTokenizerFast:
    """WordPiece over a few words, with special tokens and unused rows, as BERT's."""
    pieces = dict.fromkeys([*SPECIAL, "[unused0]", "[unused1]", *SYMBOLS, *WORDS, *PIECES])
    vocab = {piece: i for i, piece in enumerate(pieces)}
    backend = Tokenizer(models.WordPiece(vocab, unk_token="[UNK]"))
    backend.normalizer = normalizers.BertNormalizer(lowercase=True)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece(cleanup=False)
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", vocab["[CLS]"]), ("[SEP]", vocab["[SEP]"])],
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        model_max_length=max_length,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
        model_input_names=["input_ids", "attention_mask"],
    )


def tiny_classifier(
    n_rows: int, dim: int = 16, dtype: torch.dtype = torch.float32, **changes: Any
) -> DistilBertForSequenceClassification:
    """Two layers, two labels, weights large enough that words matter; changes of the configuration."""
    torch.manual_seed(7)
    labels: dict[str, Any] = {
        "id2label": {0: "NEGATIVE", 1: "POSITIVE"},
        "label2id": {"NEGATIVE": 0, "POSITIVE": 1},
    }
    if {"num_labels", "id2label"} & set(changes):
        labels = {}
    config = DistilBertConfig(
        vocab_size=n_rows,
        dim=dim,
        hidden_dim=2 * dim,
        n_layers=2,
        n_heads=2,
        max_position_embeddings=32,
        initializer_range=0.4,
        **labels | changes,
    )
    model = DistilBertForSequenceClassification(config)
    torch.nn.Module.to(model, dtype)
    return model.eval()


def save_tiny(folder: Path, tokenizer: PreTrainedTokenizerFast | None = None) -> Path:
    """Save a tiny classifier and its tokenizer as a model on the hub has them; return the folder."""
    tokenizer = tiny_tokenizer() if tokenizer is None else tokenizer
    tokenizer.save_pretrained(folder)
    tiny_classifier(len(tokenizer)).save_pretrained(folder)
    return folder
