"""Two texts that a model reads together, with tokenizers of every kind."""

import tempfile
import warnings
from functools import cache
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from captum_dig.models.encoding import TextEncoder
from captum_dig.tasks.continuation import ContinuationTask
from tests.kinds import KINDS, tokenizer_of
from tests.slow_kinds import SLOW
from tests.texts import texts

ALL = [*KINDS, *SLOW]


@cache
def slow_tokenizer(kind):
    with tempfile.TemporaryDirectory() as folder:
        return SLOW[kind](Path(folder))


def encoder_of(kind, max_tokens=None):
    return TextEncoder(tokenizer_of(kind) if kind in KINDS else slow_tokenizer(kind), max_tokens)


def encode(encoder, sample, *arguments, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return encoder.encode(sample, *arguments, **options)


@pytest.mark.parametrize("kind", ALL)
@settings(max_examples=12)
@given(texts(6), texts(6), st.sampled_from([(), ("one",), ("two",)]))
def test_every_token_of_a_scored_field_belongs_to_one_word(kind, one, two, fixed):
    encoder = encoder_of(kind)
    ids = list(encoder.tokenizer(one, two, verbose=False)["input_ids"])
    if not ids:
        with pytest.raises(ValueError, match=r"^the text must give at least one token, got "):
            encode(encoder, {"one": one, "two": two}, fixed=fixed)
        return
    (found,) = encode(encoder, {"one": one, "two": two}, fixed=fixed)
    assert found.ids == ids
    assert found.text == f"{one}\n{two}"
    assert [found.text[start:end] for _, start, end in found.fields] == [one, two]
    inside = [i for word in found.words for i in word]
    assert inside == [i for i, mark in enumerate(found.special) if not mark]
    end = 0
    scored = [field for field in found.fields if field.name not in fixed]
    for start, stop in found.word_offsets:
        assert end <= start < stop
        assert any(field.start <= start and stop <= field.end for field in scored)
        end = stop


@pytest.mark.parametrize("kind", ALL)
def test_words_are_those_of_each_text_alone(kind):
    encoder = encoder_of(kind)
    one, two = "the plot is thin", "a witty film, not a bad one"
    (both,) = encode(encoder, {"one": one, "two": two})
    words = [both.text[a:b] for a, b in both.word_offsets]
    expected = [text[a:b] for text in (one, two) for a, b in encode(encoder, text)[0].word_offsets]
    assert words == expected


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("limit", [12, 20])
@settings(max_examples=6)
@given(texts(5), texts(30))
def test_what_is_cut_fits_and_says_how_much(kind, limit, one, two):
    encoder, whole = encoder_of(kind, limit), encoder_of(kind)
    sample = {"one": f"a {one}", "two": two}
    n = len(encode(whole, sample)[0].ids)
    (found,) = encode(encoder, sample)
    assert len(found.ids) <= limit or found.truncated == 0
    assert found.truncated == n - len(found.ids)
    inside = [i for word in found.words for i in word]
    assert inside == [i for i, mark in enumerate(found.special) if not mark]


@pytest.mark.parametrize("kind", ALL)
@settings(max_examples=4)
@given(texts(40), st.sampled_from([0, 4]))
def test_windows_of_one_field_cover_it_and_repeat_the_other(kind, two, overlap):
    encoder = encoder_of(kind, 24)
    windows = encode(encoder, {"one": "a film", "two": two}, "windows", fixed=("one",), overlap=overlap)
    end = 0
    for number, window in enumerate(windows):
        first, second = window.fields
        assert window.text[: first.end] == "a film"
        part = window.text[second.start :]
        assert two[window.start :].startswith(part)
        assert window.start <= end if overlap else window.start == end or not two[end : window.start].strip()
        end = max(end, window.start + len(part))
        assert (window.part, len(window.ids) <= 24) == (number, True)
    assert not two[end:].strip() or end == len(two)


def test_a_field_without_room_is_an_error():
    encoder = encoder_of(next(iter(KINDS)), 12)
    with pytest.raises(ValueError, match=r"one of the text must leave room for two, got \d+ tokens with the special"):
        encode(encoder, {"one": "a film " * 20, "two": "b"}, long="two")
    with pytest.raises(ValueError, match="two of the text must be text that UTF-8 can hold"):
        encode(encoder, {"one": "a", "two": "\ud800"})


@pytest.mark.parametrize("kind", ALL)
@settings(max_examples=10)
@given(texts(5), texts(3))
def test_a_continuation_stands_behind_its_prompt(kind, prompt, continuation):
    encoder = encoder_of(kind)
    tokenizer = encoder.tokenizer
    task = ContinuationTask(torch.nn.Identity(), tokenizer=tokenizer)
    sample = {"text": f"a {prompt}", "continuation": f"{continuation}b"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (found,) = task.read(sample, encoder, "truncate", "the text")
    assert found.text == sample["text"] + sample["continuation"]
    (first, second) = found.fields
    n = next(i for i, (start, _) in enumerate(found.offsets) if start >= second.start and found.special[i])
    assert all(start >= second.start for start, _ in found.offsets[n:])
    assert all(found.special[n:])
    assert found.offsets[-1][1] == len(found.text)
    # The prompt has its own tokens, and the continuation those of the whole text if it begins like the prompt.
    alone, whole = (
        list(tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])
        for text in (sample["text"], found.text)
    )
    assert found.ids[:n][len(found.ids[:n]) - len(alone) :] == alone
    if whole[: len(alone)] == alone and len(whole) > len(alone):
        assert found.ids[n:] == whole[len(alone) :]
    assert all(stop <= first.end for _, stop in found.word_offsets)
    inside = [i for word in found.words for i in word]
    assert inside == [i for i, mark in enumerate(found.special) if not mark]
