"""Tokenizers of pure Python: the places of their tokens, their words, windows and explanations."""

import warnings

import pytest
import transformers
from hypothesis import given, settings

from captum_dig import TextExplainer
from captum_dig.models.encoding import TextEncoder
from captum_dig.models.places import find_places
from tests.models.test_model import build
from tests.models.test_words import check
from tests.slow_kinds import SLOW
from tests.texts import texts

# Where the tokenizer writes something else, such as HTTPURL for an address.
unplaced = pytest.mark.filterwarnings("ignore:.* does not report where a token stands:UserWarning")


@pytest.fixture(scope="module", params=SLOW)
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def tokenizer(kind, tmp_path_factory):
    return SLOW[kind](tmp_path_factory.mktemp("slow"))


T5: dict = {"d_kv": 8, "d_ff": 32, "num_decoder_layers": 1, "decoder_start_token_id": 0, "eos_token_id": 1}
MODELS: dict[str, tuple[str, dict]] = {
    "ByT5": ("T5", T5),
    "BERTweet": ("Roberta", {"type_vocab_size": 1}),
    "PhoBERT": ("Roberta", {"type_vocab_size": 1}),
    "FlauBERT": ("Flaubert", {"emb_dim": 16, "n_layers": 2, "n_heads": 2, "max_position_embeddings": 40}),
    "Japanese": ("Bert", {}),
    "Japanese characters": ("Bert", {}),
}
TEXTS = ["a witty film", "Une belle film!", "この映画は長い film", "☃ film 日本 héé", "don't @USER film"]


def words_of(tokenizer, text):
    (encoding,) = TextEncoder(tokenizer, None).encode(text)
    return [text[start:end] for start, end in encoding.word_offsets]


@unplaced
def test_an_explanation_has_words_of_the_text(kind, tokenizer):
    name, changes = MODELS[kind]
    model = build(name, tokenizer, **changes)
    explainer = TextExplainer(model, tokenizer, candidates="all", n_anchors=4, n_neighbors=12, cache=False)
    results = explainer.explain(TEXTS, n_steps=8)
    for text, result in zip(TEXTS, results, strict=True):
        check(text, TextEncoder(tokenizer, None).encode(text)[0])
        assert sum(result.word_scores) == pytest.approx(sum(result.token_scores), abs=1e-6)
        assert any(result.word_scores)
    assert results[0].words == ("a", "witty", "film")
    assert "".join(results[2].words) == TEXTS[2].replace(" ", "")
    assert results[4].words[-1] == "film"
    assert results[0].token_scores == pytest.approx(explainer.explain(TEXTS[0], n_steps=8).token_scores, abs=1e-4)
    walked = explainer.explain(TEXTS[0], n_steps=8, strategy="greedy")
    assert walked.words == ("a", "witty", "film")


@unplaced
def test_what_the_model_reads_is_what_the_tokenizer_gives(tokenizer):
    for text in TEXTS:
        (encoding,) = TextEncoder(tokenizer, None).encode(text)
        assert dict(tokenizer(text)) | {"attention_mask": encoding.inputs["attention_mask"]} == encoding.inputs
        with pytest.warns(UserWarning, match="are not explained"):
            (cut,) = TextEncoder(tokenizer, 6).encode(text * 3)
        assert cut.ids == tokenizer(text * 3, truncation=True, max_length=6)["input_ids"]
        assert cut.truncated == len(tokenizer(text * 3)["input_ids"]) - 6


@unplaced
@given(texts())
@settings(max_examples=15)
def test_invariants(tokenizer, text):
    if any(not mark for mark in TextEncoder(tokenizer, None).encode(text)[0].special):
        check(text, TextEncoder(tokenizer, None).encode(text)[0])


@unplaced
def test_windows(tokenizer):
    text = "a witty film une belle film この映画は長い " * 4
    windows = TextEncoder(tokenizer, 12).encode(text, "windows")
    assert "".join(window.text for window in windows) == text
    assert not any(window.truncated for window in windows)
    assert all(len(window.ids) <= 12 for window in windows)


def test_fingerprints_tell_them_apart(tokenizer):
    fingerprint = TextEncoder(tokenizer, 12).fingerprint
    assert fingerprint == TextEncoder(tokenizer, 12).fingerprint
    tokenizer.add_tokens(["zzz"])
    assert fingerprint != TextEncoder(tokenizer, 12).fingerprint


class TestPlaces:
    def test_bytes(self):
        pieces = [chr(byte) for byte in "é 日à".encode()]
        spans = ((0, 1), (0, 1), (1, 2), (2, 3), (2, 3), (2, 3), (3, 4), (3, 4))
        assert find_places("é 日à", pieces, str.split).spans == spans

    def test_case_accents_and_marks(self):
        assert find_places("Café  NOIR", ["cafe", "▁no", "##ir"], str.split).spans == ((0, 4), (6, 8), (8, 10))
        assert find_places("## a@b", ["##", "a@@", "@@@", "b</w>"], str.split).spans[1:] == ((3, 4), (4, 5), (5, 6))

    def test_a_rewritten_word_takes_its_place(self):
        own = {"http://a.film": ["HTTP@@", "URL"], "☃": ["[UNK]"], "@film": ["@USER"]}
        pieces = ["a", "HTTP@@", "URL", "film", "[UNK]", "@USER", "film"]
        found = find_places("a http://a.film film ☃ @film film", pieces, lambda word: own.get(word, [word]))
        assert found.spans == ((0, 1), (2, 6), (6, 15), (16, 20), (21, 22), (23, 28), (29, 33))
        assert not found.lost

    def test_a_piece_without_a_place_is_said(self):
        found = find_places("a b", ["a", "[NEW]", "b"], str.split)
        assert found.lost == ("[NEW]",)
        assert found.spans[1] == (1, 2)


class Inventing(transformers.BertJapaneseTokenizer):
    """Puts a token into the text that stands for nothing in it."""

    def _tokenize(self, text):
        return [piece for word in super()._tokenize(text) for piece in ("映画", word)]


def test_tokens_without_a_place_are_said_once_and_kept(tmp_path):
    SLOW["Japanese"](tmp_path)
    encoder = TextEncoder(Inventing(str(tmp_path / "vocab.txt")), None)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(3):
            (encoding,) = encoder.encode("a film")
    assert [str(one.message) for one in caught] == [
        "Inventing does not report where a token stands in the text, and some were not found in it; "
        "these count to the word after them"
    ]
    check("a film", encoding)
    assert [len(word) for word in encoding.words] == [2, 2]
