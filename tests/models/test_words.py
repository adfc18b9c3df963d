"""Words: the examples that people met, and what holds for every text of every tokenizer."""

import os
import unicodedata
from itertools import pairwise

import pytest
import regex
from hypothesis import given, settings
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
from transformers import GemmaTokenizer, LlamaTokenizer, PreTrainedTokenizerFast

from captum_dig.models.encoding import TextEncoder
from captum_dig.models.words import group_words
from tests.kinds import KINDS, tokenizer_of
from tests.texts import texts
from tests.tiny_models import tiny_tokenizer

# For each kind; a longer run sets more.
N_TEXTS = int(os.environ.get("CAPTUM_DIG_TEXTS", "40"))


def words_of(tokenizer, text):
    (encoding,) = TextEncoder(tokenizer, None).encode(text)
    return [text[start:end] for start, end in encoding.word_offsets]


def check(text, encoding):
    """Require of words what a reader expects, told again in other terms than `group_words` does."""
    spans, words = encoding.word_offsets, encoding.words
    assert [i for word in words for i in word] == [i for i, mark in enumerate(encoding.special) if not mark]
    end = 0
    for start, stop in spans:
        assert end <= start < stop <= len(text)
        end = stop
    if not text.strip():
        return
    cuts = {match.end() for match in regex.finditer(r"\X", text)} | {0}
    cuts |= {i for i in range(len(text) + 1) if text[i - 1 : i].isspace() or text[i : i + 1].isspace()}
    for (start, stop), word in zip(spans, words, strict=True):
        assert not text[start].isspace()
        assert not text[stop - 1].isspace()
        assert {start, stop} <= cuts, "a grapheme cluster is cut"
        assert start == 0 or text[start - 1].isspace() or not unicodedata.category(text[start]).startswith("M")
        solid = [encoding.offsets[i] for i in word if text[slice(*encoding.offsets[i])].strip()]
        for (_, a), (b, _) in pairwise(solid):
            assert not any(char.isspace() for char in text[a:b]), "white space between two tokens"
    if spans:
        rest = text[: spans[0][0]] + "".join(text[a:b] for (_, a), (b, _) in pairwise(spans))
        assert not (rest + text[spans[-1][1] :]).strip(), "a character in no word"


@pytest.mark.parametrize("kind", KINDS)
class TestEveryKind:
    @settings(max_examples=N_TEXTS)
    @given(texts())
    def test_words_hold_whole_characters_and_no_white_space(self, kind, text):
        for one in TextEncoder(tokenizer_of(kind), None).encode(text) if tokenizer_of(kind)(text)["input_ids"] else []:
            check(text, one)

    @settings(max_examples=max(10, N_TEXTS // 10))
    @given(texts(special=True))
    def test_special_tokens_stand_in_no_word(self, kind, text):
        if not tokenizer_of(kind)(text)["input_ids"]:
            return
        (encoding,) = TextEncoder(tokenizer_of(kind), None).encode(text)
        inside = [i for word in encoding.words for i in word]
        assert inside == [i for i, mark in enumerate(encoding.special) if not mark]
        if len(inside) == 0 or all(not text[slice(*encoding.offsets[i])].strip() for i in inside):
            return
        names = set(tokenizer_of(kind).all_special_tokens) - {"<unk>"}
        for start, end in encoding.word_offsets:
            assert not any(name in text[start:end] for name in names)


def pieces(text, *tokens):
    """Cut a text into tokens of one word, by where they end."""
    ends = [0, *tokens]
    offsets = list(pairwise(ends))
    return [text[a:b] for a, b in group_words(text, offsets, [False] * len(offsets), [0] * len(offsets))[1]]


def spelled(*tokens, pre_tokenizer=None, normalizer=None):
    """A tokenizer of just these tokens and single characters."""
    backend = Tokenizer(models.Unigram([("<unk>", -20.0), *((token, -1.0) for token in tokens)], unk_id=0))
    backend.normalizer = normalizer
    backend.pre_tokenizer = pre_tokenizer
    return PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="<unk>")


PREPENDED = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])


class TestWithoutPreTokenizer:
    """One number for all tokens: white space parts them all the same."""

    @pytest.mark.parametrize("kind", [LlamaTokenizer, GemmaTokenizer])
    @pytest.mark.parametrize("text", ["not a bad bad", "the plot is thin but the cast is great"])
    def test_words_of_tokenizers_that_see_one_word(self, kind, text):
        vocabulary = {piece: i for i, piece in enumerate(["<pad>", "<unk>", "<s>", "</s>", "▁", *sorted(set(text))])}
        assert words_of(kind(vocab=vocabulary, merges=[]), text) == text.split()

    def test_a_prepended_mark(self):
        tokenizer = spelled("▁a", "▁wit", "ty", "▁film", normalizer=PREPENDED)
        assert words_of(tokenizer, "a witty film") == ["a", "witty", "film"]

    def test_lines(self):
        tokenizer = tokenizer_of("lines")
        assert words_of(tokenizer, "good film\nbad end") == ["good", "film", "bad", "end"]

    def test_a_token_of_two_words_keeps_them_together(self):
        assert pieces("New York is", 8, 11) == ["New York", "is"]


class TestScriptsWithoutSpaces:
    """Between their characters the end of a token is the end of a word."""

    @pytest.mark.parametrize(
        ("text", "wanted"),
        [
            ("这部电影很精彩", ["这部", "电影", "很", "精彩"]),
            ("この映画は長い", ["この", "映画", "は", "長い"]),
            ("スーパーman", ["スーパー", "man"]),
            ("หนังเรื่องนี้สนุกมาก", ["หนัง", "เรื่อง", "นี้", "สนุก", "มาก"]),
            ("good电影", ["good", "电影"]),
            ("ຮູບເງົາ", ["ຮູບ", "ເງົາ"]),
            ("ភាពយន្តល្អ", ["ភាពយន្ត", "ល្អ"]),
        ],
    )
    @pytest.mark.parametrize("metaspace", [True, False])
    def test_every_token_is_a_word(self, text, wanted, metaspace):
        pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never") if metaspace else None
        tokenizer = spelled(*wanted, pre_tokenizer=pre_tokenizer)
        assert words_of(tokenizer, text) == wanted

    def test_bert_reads_chinese_character_by_character(self):
        assert words_of(tiny_tokenizer(), "这部电影") == ["这", "部", "电", "影"]
        assert words_of(tokenizer_of("wordpiece-cased"), "good电影") == ["good", "电", "影"]

    def test_a_vowel_sign_stays_with_its_letter(self):
        assert pieces("တာပါ", 1, 2, 4) == ["တာ", "ပါ"]


MARKED = [
    "cafe\u0301",
    "नमस्ते",
    "❤\ufe0f",
    "1\ufe0f\u20e3",
    unicodedata.normalize("NFD", "좋다"),
    "عَرَبِيٌّ",
    "می\u200cخواهم",
    "שָׁלוֹם",
]


class TestMarks:
    """Marks belong to the word of the character before, whether the tokenizer drops them or cuts around them."""

    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("word", MARKED)
    def test_a_word_with_marks_is_one_word(self, kind, word):
        assert words_of(tokenizer_of(kind), f"a {word} film") == ["a", word, "film"]
        assert words_of(tokenizer_of(kind), word) == [word]

    @pytest.mark.parametrize("kind", KINDS)
    def test_marks_in_scripts_without_spaces(self, kind):
        assert "ハ\u3099" in words_of(tokenizer_of(kind), "ハ\u3099")
        assert not any(word.startswith("\u3099") for word in words_of(tokenizer_of(kind), "ハ\u3099ハ\u3099"))

    def test_a_character_that_the_tokenizer_drops_belongs_to_the_word_before(self):
        assert words_of(tiny_tokenizer(), "\ufffdgood\ufffd film \ufffd\ufffd end\ufffd") == [
            "\ufffdgood\ufffd",
            "film \ufffd\ufffd",
            "end\ufffd",
        ]

    def test_pre_tokenizers_still_part_what_no_mark_joins(self):
        assert words_of(tokenizer_of("byte-level"), "cafe\u03012 1\ufe0f\u20e32\ufe0f\u20e3") == [
            "cafe\u0301",
            "2",
            "1\ufe0f\u20e3",
            "2\ufe0f\u20e3",
        ]


def test_what_was_cut_off_belongs_to_no_word():
    with pytest.warns(UserWarning, match="are not explained"):
        (encoding,) = TextEncoder(tokenizer_of("wordpiece-uncased"), 4).encode("the plot\u0301 is thin")
    assert [encoding.text[a:b] for a, b in encoding.word_offsets] == ["the", "plot\u0301"]
