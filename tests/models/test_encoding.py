import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from captum_dig.errors import ModelError
from captum_dig.models.encoding import TextEncoder
from tests.kinds import CORPUS, tokenizer_of
from tests.kinds import KINDS as KIND_NAMES
from tests.texts import texts
from tests.tiny_models import tiny_tokenizer

SENTENCES = ["Don't café 🤗 a witty, gorgeous movie", "ünïcode naïve 🎬🎬 plot", "the end"]


def byte_level():
    """Byte-level BPE as GPT-2's: no special tokens around a text, a space inside each token's offsets."""
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    backend.train_from_iterator(
        SENTENCES,
        trainers.BpeTrainer(vocab_size=320, initial_alphabet=alphabet, special_tokens=["<|end|>"], show_progress=False),
    )
    return PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<|end|>", pad_token="<|end|>")


def sentence_piece():
    """Unigram with the ▁ mark, as SentencePiece's."""
    backend = Tokenizer(models.Unigram())
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    backend.decoder = decoders.Metaspace()
    backend.train_from_iterator(
        SENTENCES * 3,
        trainers.UnigramTrainer(
            vocab_size=90, special_tokens=["<pad>", "<unk>", "<s>"], unk_token="<unk>", show_progress=False
        ),
    )
    return PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="<unk>", pad_token="<pad>", bos_token="<s>")


KINDS = {"wordpiece": tiny_tokenizer(), "byte-level": byte_level(), "sentencepiece": sentence_piece()}


@pytest.mark.parametrize("kind", KINDS)
class TestEveryTokenizer:
    @given(st.one_of(st.sampled_from(SENTENCES), st.text(min_size=1, max_size=40)))
    def test_every_token_that_is_not_special_belongs_to_one_word(self, kind, text):
        (encoding,) = TextEncoder(KINDS[kind], None).encode(text)
        inside = [i for word in encoding.words for i in word]
        assert inside == [i for i, mark in enumerate(encoding.special) if not mark]

    @given(st.one_of(st.sampled_from(SENTENCES), st.text(min_size=1, max_size=40)))
    def test_words_are_in_order_and_apart(self, kind, text):
        (encoding,) = TextEncoder(KINDS[kind], None).encode(text)
        end = 0
        for start, stop in encoding.word_offsets:
            assert end <= start < stop <= len(text)
            end = stop

    @pytest.mark.parametrize("text", SENTENCES)
    def test_words_are_those_of_the_text(self, kind, text):
        (encoding,) = TextEncoder(KINDS[kind], None).encode(text)
        joined = "".join(text[a:b] for a, b in encoding.word_offsets)
        assert joined == "".join(text.split())


def test_emoji_and_accents_are_whole_words():
    text = "café 🤗 movie"
    for tokenizer in KINDS.values():
        (encoding,) = TextEncoder(tokenizer, None).encode(text)
        assert [text[a:b] for a, b in encoding.word_offsets] == ["café", "🤗", "movie"]


def test_special_tokens_are_those_the_tokenizer_says():
    (encoding,) = TextEncoder(KINDS["wordpiece"], None).encode("a [SEP] qqq☃ movie [MASK]")
    special = [token for token, mark in zip(encoding.tokens, encoding.special, strict=True) if mark]
    assert special == ["[CLS]", "[SEP]", "[MASK]", "[SEP]"]
    # The snowman is unknown, but it stands for a word of the text.
    assert not encoding.special[encoding.tokens.index("[UNK]")]


def test_an_empty_text_has_only_special_tokens():
    (encoding,) = TextEncoder(KINDS["wordpiece"], None).encode("")
    assert encoding.tokens == ("[CLS]", "[SEP]")
    assert encoding.words == encoding.word_offsets == ()
    with pytest.raises(
        ValueError, match="the text must give at least one token, got ''; this tokenizer adds no special tokens"
    ):
        TextEncoder(KINDS["byte-level"], None).encode("")


LONG = "the movie is witty and the plot is dull but the acting was gorgeous and a charming story"


def test_a_long_text_is_truncated_with_a_warning_that_says_how_much():
    whole = len(TextEncoder(KINDS["wordpiece"], None).encode(LONG)[0].ids)
    encoder = TextEncoder(KINDS["wordpiece"], 10)
    with pytest.warns(
        UserWarning,
        match=f"the text has {whole} tokens, {whole - 10} more than the 10 that the model reads; the last {whole - 10} are not",
    ):
        (encoding,) = encoder.encode(LONG)
    assert len(encoding.ids) == 10
    assert encoding.truncated == whole - 10
    assert encoding.tokens[-1] == "[SEP]"


def test_a_long_text_is_an_error_if_asked():
    with pytest.raises(ValueError, match=r"text 3 has \d+ tokens.*pass overflow='truncate' or overflow='windows'"):
        TextEncoder(KINDS["wordpiece"], 10).encode(LONG, "error", "text 3")


@pytest.mark.parametrize("limit", [3, 5, 10])
def test_windows_cover_the_text_and_fit(limit):
    windows = TextEncoder(KINDS["wordpiece"], limit).encode(LONG, "windows")
    assert "".join(w.text for w in windows) == LONG
    assert all(len(w.ids) <= limit and not w.truncated for w in windows)
    if limit > 3:
        # Cut between words: no word of a window is a piece of one of the text.
        words = [w.text[a:b] for w in windows for a, b in w.word_offsets]
        assert words == LONG.split()


def test_special_tokens_in_the_text_take_places_in_its_windows():
    encoder = TextEncoder(KINDS["wordpiece"], 10)
    text = "good [SEP] " * 20 + "end"
    windows = encoder.encode(text, "windows")
    assert "".join(w.text for w in windows) == text
    assert not any(w.truncated for w in windows)
    assert all(len(w.ids) <= 10 for w in windows)
    alone = encoder.encode("[SEP] " * 30, "windows")
    assert "".join(w.text for w in alone) == "[SEP] " * 30


def test_what_is_no_tokenizer_is_refused():
    with pytest.raises(ModelError, match="tokenizer must be a Hugging Face tokenizer, got str; load it with AutoTok"):
        TextEncoder("bert", None)


LIMITS = (5, 8, 12, 20, 64)


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("kind", KIND_NAMES)
@settings(max_examples=8)
@given(texts(60))
def test_windows_hold_every_word_whole(kind, limit, text):
    tokenizer = tokenizer_of(kind)
    if not tokenizer(text)["input_ids"]:
        return
    encoder = TextEncoder(tokenizer, limit)
    room = limit - tokenizer.num_special_tokens_to_add()
    with warnings.catch_warnings():
        # Some single characters are more tokens than a small window holds.
        warnings.filterwarnings("ignore", ".*holds a character of more tokens than the model reads", UserWarning)
        windows = encoder.encode(text, "windows")
    assert "".join(window.text for window in windows) == text or not all(tokenizer(char)["input_ids"] for char in text)
    wide = {char for char in set(text) if len(tokenizer(char, add_special_tokens=False)["input_ids"]) > room}
    covered = [False] * len(text)
    for window in windows:
        assert len(window.ids) <= limit
        assert not window.truncated or wide
        for a, b in window.word_offsets:
            covered[window.start + a : window.start + b] = [True] * (b - a)
    (whole,) = TextEncoder(tokenizer, None).encode(text)
    for (a, b), word in zip(whole.word_offsets, whole.words, strict=True):
        missing = [i for i in range(a, b) if not covered[i] and not text[i].isspace()]
        # A character that gives no token alone has no word of its own.
        assert not any(tokenizer(text[i], add_special_tokens=False)["input_ids"] for i in missing)
        if len(word) * 2 <= room and not wide:
            assert sum(window.start < b and a < window.start + len(window.text) for window in windows) == 1


@pytest.mark.parametrize("limit", LIMITS)
def test_windows_of_trimmed_offsets_lose_no_token(limit):
    tokenizer = tokenizer_of("byte-level-trimmed")
    text = " ".join(CORPUS[:3] * 4)
    (whole,) = TextEncoder(tokenizer, None).encode(text)
    windows = TextEncoder(tokenizer, limit).encode(text, "windows")
    assert "".join(window.text for window in windows) == text
    assert not any(window.truncated for window in windows)
    if limit >= 12:
        # Cut before the blank, a word has the tokens that it has in the whole text.
        assert [t for w in windows for t in w.tokens[1:-1]] == list(whole.tokens[1:-1])


def test_a_word_longer_than_a_window_is_cut_between_characters():
    text = "a" + "👨\u200d👩\u200d👧" * 6 + " end"
    windows = TextEncoder(tokenizer_of("byte-level-trimmed"), 24).encode(text, "windows")
    assert "".join(window.text for window in windows) == text
    assert not any(window.truncated for window in windows)
    assert all(window.text.count("👨") == window.text.count("👧") for window in windows)


def test_a_character_longer_than_a_window_is_said():
    encoder = TextEncoder(tokenizer_of("byte-level"), 2)
    with pytest.warns(
        UserWarning, match="the text holds a character of more tokens than the model reads, '☃' at 2; the"
    ):
        windows = encoder.encode("a ☃ b", "windows")
    assert [window.truncated for window in windows if window.truncated]
    assert "".join(window.text for window in windows) == "a ☃ b"
