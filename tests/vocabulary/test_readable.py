"""``captum_dig.vocabulary.readable``: readable words, told from a tokenizer of any kind."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import AutoTokenizer, PreTrainedTokenizer, PreTrainedTokenizerFast

from captum_dig.vocabulary.readable import MIN_WORDS, readable_rows, word_candidates

SHARED = Path(os.environ.get("CAPTUM_DIG_SHARED", Path(__file__).parents[3] / "shared"))
REAL_TOKENIZER = SHARED / "models" / "distilbert-sst2"

SENTENCES = [
    "the gorgeous movie was written with care and every scene shows why people love film",
    "this dull story never finds its voice while actors drift through endless empty rooms",
    "un café très agréable où l'été paraît déjà passé pour toute la famille réunie",
    "good fun 🙂 great music ❤ bright colours ! strong ending , 1997 classic",
]
WORDS = sorted({w for s in SENTENCES for w in s.split() if w.isalpha() and len(w) > 1})
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
UNUSED = ["[unused12]", "<unused7>", "<extra_id_3>", "madeupword0001"]
SYMBOLS = ["!", "...", "1997", "é", "q", "🙂", "🙂🙂", "'", "--", "x1"]
FOREIGN = ["の", "א", "ф", "中", "ก"]


def wrap(backend: Tokenizer, **special: str) -> PreTrainedTokenizerFast:
    return PreTrainedTokenizerFast(tokenizer_object=backend, **special)


def numbered(tokens: list[str]) -> dict[str, int]:
    return {token: row for row, token in enumerate(tokens)}


def kept(tokenizer: Any, n_rows: int | None = None) -> set[str]:
    mask = word_candidates(tokenizer, n_rows or len(tokenizer))
    return {tokenizer.convert_ids_to_tokens(row) for row in mask.nonzero()[:, 0].tolist()}


def wordpiece(tokens: list[str]) -> PreTrainedTokenizerFast:
    backend = Tokenizer(models.WordPiece(numbered([*SPECIAL, *tokens]), unk_token="[UNK]"))
    backend.normalizer = normalizers.BertNormalizer()
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece()
    return wrap(backend, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]")


def byte_level() -> PreTrainedTokenizerFast:
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=900,
        show_progress=False,
        special_tokens=["<s>", "<pad>", "<|reserved_special_token_5|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    backend.train_from_iterator(SENTENCES, trainer)
    return wrap(backend, bos_token="<s>", pad_token="<pad>")


def metaspace_pieces() -> list[str]:
    return [
        *("▁" + word for word in [*WORDS, *SYMBOLS]),
        *["ing", "eous", "ture", "a", "▁"],
        *UNUSED,
        *FOREIGN,
    ]


def unigram() -> PreTrainedTokenizerFast:
    tokens = ["<pad>", "<unk>", *metaspace_pieces()]
    scores = [(token, -float(row)) for row, token in enumerate(tokens)]
    backend = Tokenizer(models.Unigram(scores, unk_id=1))
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    backend.decoder = decoders.Metaspace()
    return wrap(backend, pad_token="<pad>", unk_token="<unk>")


def metaspace_bpe() -> PreTrainedTokenizerFast:
    tokens = ["<s>", "<unk>", "<0x0A>", "<0x41>", "<0xE4>", *metaspace_pieces()]
    backend = Tokenizer(models.BPE(vocab=numbered(tokens), merges=[], unk_token="<unk>", byte_fallback=True))
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    backend.decoder = decoders.Sequence([*steps, decoders.Strip(" ", 1, 0)])
    return wrap(backend, bos_token="<s>", unk_token="<unk>")


def word_suffix_bpe() -> PreTrainedTokenizerFast:
    tokens = ["<unk>", *(w + "</w>" for w in [*WORDS, *SYMBOLS, *FOREIGN]), "gor", "mov", "fil"]
    backend = Tokenizer(models.BPE(vocab=numbered(tokens), merges=[], unk_token="<unk>", end_of_word_suffix="</w>"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    backend.decoder = decoders.BPEDecoder()
    return wrap(backend, unk_token="<unk>")


def word_level() -> PreTrainedTokenizerFast:
    tokens = ["<unk>", *WORDS, "don't", "well-known", *SYMBOLS, *UNUSED, *FOREIGN]
    backend = Tokenizer(models.WordLevel(numbered(tokens), unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return wrap(backend, unk_token="<unk>")


class SlowWords(PreTrainedTokenizer):
    """A tokenizer without a Rust backend."""

    def __init__(self, tokens: list[str]) -> None:
        self.rows = numbered(tokens)
        super().__init__(unk_token="<unk>")

    @property
    def vocab_size(self) -> int:
        return len(self.rows)

    def get_vocab(self) -> dict[str, int]:
        return dict(self.rows)

    def _tokenize(self, text: str, **_: Any) -> list[str]:
        return text.split()

    def _convert_token_to_id(self, token: str) -> int:
        return self.rows.get(token, 0)

    def _convert_id_to_token(self, index: int) -> str:
        return list(self.rows)[index]


def test_wordpiece_keeps_whole_words_only() -> None:
    pieces = ["##ing", "##a", "####", "##の"]
    tokenizer = wordpiece([*WORDS, *pieces, *UNUSED, *SYMBOLS, *FOREIGN])
    assert kept(tokenizer) == set(WORDS)


def test_byte_level_keeps_marked_words_and_no_bytes() -> None:
    tokenizer = byte_level()
    words = kept(tokenizer)
    decoded = {tokenizer.convert_tokens_to_string([word]) for word in words}
    assert {" gorgeous", " movie", " café", " très", " déjà"} <= decoded
    assert all(text[0] == " " and text[1:].isalpha() and len(text) > 2 for text in decoded)


@pytest.mark.parametrize("make", [unigram, metaspace_bpe])
def test_metaspace_keeps_marked_words_only(make: Any) -> None:
    assert kept(make()) == {"▁" + word for word in WORDS}


def test_suffix_that_ends_words_is_a_mark_as_well() -> None:
    assert kept(word_suffix_bpe()) == {word + "</w>" for word in WORDS}


def test_word_level_keeps_every_alphabetic_row() -> None:
    assert kept(word_level()) == {*WORDS, "don't", "well-known"}


def test_slow_tokenizer_without_backend() -> None:
    assert kept(SlowWords(["<unk>", *WORDS, *SYMBOLS, *FOREIGN])) == set(WORDS)


def test_special_tokens_are_found_by_role_not_by_spelling() -> None:
    tokenizer = wordpiece([*WORDS, "blank", "speaker"])
    tokenizer.add_special_tokens({"mask_token": "blank"})
    tokenizer.add_tokens(["speaker"], special_tokens=True)
    assert kept(tokenizer) == set(WORDS)


def test_rows_without_a_token_are_dropped() -> None:
    vocabulary = {word: 2 * row for row, word in enumerate(WORDS)}  # every second row is a hole
    backend = Tokenizer(models.WordLevel({**vocabulary, "<unk>": 1}, unk_token="<unk>"))
    n_rows = 2 * len(WORDS) + 64
    mask = word_candidates(wrap(backend, unk_token="<unk>"), n_rows)
    assert mask.shape == (n_rows,)
    assert mask.dtype == torch.bool
    assert mask.nonzero()[:, 0].tolist() == sorted(vocabulary.values())


def test_table_smaller_than_the_vocabulary() -> None:
    assert word_candidates(wordpiece(WORDS), 40).tolist() == [False] * 4 + [True] * 36


def test_chinese_characters_are_words_where_they_are_the_vocabulary() -> None:
    ideographs = [chr(0x4E00 + offset) for offset in range(100)]
    tokenizer = wordpiece([*ideographs, *WORDS, *("##" + i for i in ideographs), "の", "ア", "ф"])
    assert kept(tokenizer) == {*ideographs, *WORDS}


def test_multilingual_vocabulary_keeps_its_scripts() -> None:
    russian = ["фильм", "хороший", "очень"]
    chinese = ["电影", "好", "时间"]  # follows no space, so it carries no mark
    pieces = ["ами", "ing", "ово"]
    marked = ["▁" + word for word in [*WORDS, *russian]]
    scores = [(token, 0.0) for token in ["<unk>", *marked, *chinese, *pieces, "א", "の"]]
    backend = Tokenizer(models.Unigram(scores, unk_id=0))
    backend.decoder = decoders.Metaspace()
    assert kept(wrap(backend, unk_token="<unk>")) == {*marked, *chinese}


@pytest.mark.parametrize(
    ("n_ideographs", "native"),
    [(30, True), (29, False)],  # of 1,000 words in all
)
def test_lone_ideographs_need_three_percent(n_ideographs: int, native: bool) -> None:
    words = ["film"] * (1000 - n_ideographs) + [chr(0x4E00 + n) for n in range(n_ideographs)]
    flags = readable_rows([f"{word} {word}" for word in words])
    assert flags == [True] * (1000 - n_ideographs) + [native] * n_ideographs


@pytest.mark.parametrize(("n_foreign", "native"), [(2, True), (1, False)])
def test_foreign_words_need_a_share_of_two_in_a_thousand(n_foreign: int, native: bool) -> None:
    pairs = ["film film"] * (1000 - n_foreign) + ["кино кино"] * n_foreign
    assert readable_rows(pairs) == [True] * (1000 - n_foreign) + [native] * n_foreign


def test_unmarked_rows_are_words_when_nothing_is_marked() -> None:
    assert readable_rows(["dogdog", "catcat", "11", "aa", ""]) == [True, True, False, False, False]


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("naïve", True),
        ("nai\u0308ve", True),
        ("don't", True),
        ("o\u2019clock", True),
        ("'tis", False),
        ("dogs'", False),
        ("mp3", False),
        ("of_the", False),
        ("\ufffd\ufffd", False),
        ("\u0308\u0308", False),
    ],
)
def test_shape_of_a_word(text: str, word: bool) -> None:
    assert readable_rows([f"{text} {text}"]) == [word]


@given(st.permutations(["dog dog", "inging", "! !", "の の", "犬 犬", "кино кино", "", "q q"]))
def test_order_of_rows_does_not_matter(pairs: list[str]) -> None:
    flags = dict(zip(pairs, readable_rows(pairs), strict=True))
    assert {pair for pair, word in flags.items() if word} == {"dog dog", "犬 犬", "кино кино"}


@given(st.lists(st.text(alphabet="aéф中のא1!' ##▁", max_size=6), max_size=30))
def test_words_are_made_of_letters_whatever_the_rows(pairs: list[str]) -> None:
    for pair, word in zip(pairs, readable_rows(pairs), strict=True):
        assert not word or any(char.isalpha() for char in pair)


def test_too_few_words_names_the_remedy() -> None:
    tokenizer = wordpiece([*WORDS[: MIN_WORDS - 1], *SYMBOLS])
    with pytest.raises(ValueError, match=r'at least 32 readable words, got 31 .*candidates="all"'):
        word_candidates(tokenizer, len(tokenizer))


def test_marks_that_no_decoder_removes_are_an_error() -> None:
    tokenizer = byte_level()
    tokenizer.backend_tokenizer.decoder = None
    with pytest.raises(ValueError, match=r"has no decoder; set backend_tokenizer\.decoder"):
        word_candidates(tokenizer, len(tokenizer))


def test_bare_backend_is_an_error() -> None:
    backend: Any = byte_level().backend_tokenizer
    with pytest.raises(TypeError, match="must be a Hugging Face tokenizer, got Tokenizer"):
        word_candidates(backend, 900)


def test_no_rows_is_an_error() -> None:
    tokenizer = wordpiece(WORDS)
    with pytest.raises(ValueError, match="n_rows must be at least 1, got 0"):
        word_candidates(tokenizer, 0)


@pytest.mark.skipif(not REAL_TOKENIZER.is_dir(), reason="the shared models are not here")
def test_real_english_vocabulary() -> None:
    tokenizer = AutoTokenizer.from_pretrained(REAL_TOKENIZER)
    mask = word_candidates(tokenizer, 30_522)
    assert int(mask.sum()) == 21_722
    words = ["gorgeous", "movie", "film", "dull"]
    others = ["##ing", "[unused5]", "[CLS]", "[MASK]", "の", "א", "ф", "中", "!", "1997", "q"]
    assert mask[tokenizer.convert_tokens_to_ids(words)].all()
    assert not mask[tokenizer.convert_tokens_to_ids(others)].any()
