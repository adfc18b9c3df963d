"""Tokenizers of every kind, trained in memory on a few sentences of many languages."""

from functools import cache

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

CORPUS = [
    "the plot is thin but the cast is great",
    "Don't miss this gorgeous, witty, seductive movie! It's café noir; naïve, ünïcode.",
    "a witty film, not a bad bad one; New York 2024, 3.14 stars (8/10)",
    "这部电影很精彩 中文电影很好看",
    "この映画は長い スーパーヒーロー ハバパ",
    "หนังเรื่องนี้สนุกมาก เรื่องนี้ดี",
    "ຮູບເງົານີ້ດີ ဒီရုပ်ရှင်ကောင်းတယ် ភាពយន្តនេះល្អណាស់",
    "नमस्ते यह फिल्म अच्छी है বাংলা ছবি தமிழ் படம்",
    "عَرَبِيٌّ فيلم رائع جدا می‌خواهم סרט טוב מאוד שָׁלוֹם",
    "좋다 이 영화는 정말 좋다",
    "фильм был хорошим ταινία ήταν καλή phim này rất hay",
    "❤️ 1️⃣ 🎬🎬 👨‍👩‍👧 🇩🇪 👍🏽 🤗",
]
SPECIAL = ["<pad>", "<unk>", "<s>", "</s>", "<mask>"]


def _wrap(backend: Tokenizer, **options: str) -> PreTrainedTokenizerFast:
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token="<pad>",
        unk_token="<unk>",
        model_input_names=["input_ids", "attention_mask"],
        **options,
    )


def _ends(backend: Tokenizer) -> None:
    backend.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[(name, backend.token_to_id(name)) for name in ("<s>", "</s>")]
    )


def word_piece(lowercase: bool) -> PreTrainedTokenizerFast:
    """WordPiece as BERT's, cased or uncased."""
    backend = Tokenizer(models.WordPiece(unk_token="<unk>"))
    backend.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece(cleanup=False)
    trainer = trainers.WordPieceTrainer(vocab_size=700, special_tokens=SPECIAL, show_progress=False)
    backend.train_from_iterator(CORPUS * 3, trainer)
    _ends(backend)
    return _wrap(backend, cls_token="<s>", sep_token="</s>", mask_token="<mask>")


def byte_level(trim: bool) -> PreTrainedTokenizerFast:
    """Byte-level BPE: as GPT-2's, or with offsets trimmed and special tokens around, as RoBERTa's."""
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=500,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=SPECIAL,
        show_progress=False,
    )
    backend.train_from_iterator(CORPUS, trainer)
    if not trim:
        return _wrap(backend)
    end, begin = (backend.token_to_id(name) or 0 for name in ("</s>", "<s>"))
    backend.post_processor = processors.RobertaProcessing(
        ("</s>", end), ("<s>", begin), trim_offsets=True, add_prefix_space=False
    )
    return _wrap(backend, cls_token="<s>", sep_token="</s>", mask_token="<mask>")


def unigram(normalizer: normalizers.Normalizer | None, metaspace: bool) -> PreTrainedTokenizerFast:
    """Unigram as T5's or XLM-R's; without Metaspace it may learn tokens of several words."""
    backend = Tokenizer(models.Unigram())
    if normalizer is not None:
        backend.normalizer = normalizer
    if metaspace:
        backend.pre_tokenizer = pre_tokenizers.Metaspace()
    backend.decoder = decoders.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=400, special_tokens=SPECIAL, unk_token="<unk>", max_piece_length=6, show_progress=False
    )
    backend.train_from_iterator(CORPUS * 3, trainer)
    _ends(backend)
    return _wrap(backend, bos_token="<s>", eos_token="</s>")


def llama_like(prepend: bool, split: str | None = None) -> PreTrainedTokenizerFast:
    """BPE over the ▁ mark with bytes to fall back on, and no pre-tokenizer, as Llama's (with Prepend) and Gemma's."""
    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.Metaspace()
    trained.train_from_iterator(
        CORPUS,
        trainers.BpeTrainer(
            vocab_size=600,
            special_tokens=[*SPECIAL, *(f"<0x{byte:02X}>" for byte in range(256))],
            show_progress=False,
        ),
    )
    backend = Tokenizer.from_str(trained.to_str().replace('"byte_fallback":false', '"byte_fallback":true'))
    backend.model.unk_token = "<unk>"
    backend.model.byte_fallback = True
    steps = [normalizers.Prepend("▁")] if prepend else []
    backend.normalizer = normalizers.Sequence([*steps, normalizers.Replace(" ", "▁")])
    backend.pre_tokenizer = pre_tokenizers.Split(split, "merged_with_previous") if split else None
    backend.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return _wrap(backend, bos_token="<s>", eos_token="</s>")


def bpe_metaspace(normalizer: normalizers.Normalizer | None = None) -> PreTrainedTokenizerFast:
    """BPE over words that Metaspace cuts."""
    backend = Tokenizer(models.BPE(unk_token="<unk>"))
    if normalizer is not None:
        backend.normalizer = normalizer
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    backend.decoder = decoders.Metaspace()
    backend.train_from_iterator(
        CORPUS, trainers.BpeTrainer(vocab_size=500, special_tokens=SPECIAL, show_progress=False)
    )
    _ends(backend)
    return _wrap(backend, bos_token="<s>", eos_token="</s>")


_KINDS = {
    "wordpiece-uncased": lambda: word_piece(True),
    "wordpiece-cased": lambda: word_piece(False),
    "byte-level": lambda: byte_level(False),
    "byte-level-trimmed": lambda: byte_level(True),
    "unigram-metaspace": lambda: unigram(normalizers.NFKC(), True),
    "unigram-alone": lambda: unigram(
        normalizers.Sequence([normalizers.NFKC(), normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]), False
    ),
    "unigram-squeezed": lambda: unigram(
        normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")]), True
    ),
    "bpe-metaspace": lambda: bpe_metaspace(normalizers.NFC()),
    "bpe-stripped": lambda: bpe_metaspace(normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents()])),
    "llama": lambda: llama_like(True),
    "gemma": lambda: llama_like(False),
    "lines": lambda: llama_like(True, "\n"),
}
KINDS = tuple(_KINDS)


@cache
def tokenizer_of(kind: str) -> PreTrainedTokenizerFast:
    """Train the tokenizer of a kind, once."""
    return _KINDS[kind]()
