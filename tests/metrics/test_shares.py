"""What kinds of rows a path visits: ``anchor_shares`` and ``row_kinds``."""

import re

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from captum_dig import MonotonicPath, Vocabulary
from captum_dig.metrics import anchor_shares
from captum_dig.vocabulary.readable import row_kinds, word_candidates
from tests.tiny_models import SPECIAL, tiny_tokenizer
from tests.tiny_models import WORDS as TINY_WORDS
from tests.vocabulary.test_readable import (
    UNUSED,
    WORDS,
    SlowWords,
    byte_level,
    metaspace_bpe,
    numbered,
    unigram,
    word_level,
    word_suffix_bpe,
    wordpiece,
)

KINDS = {"low": torch.tensor([True, True, False, False, False]), "odd": torch.arange(5) % 2 == 1}
IDS = st.lists(st.lists(st.integers(0, 4), min_size=3, max_size=3), min_size=1, max_size=5).map(torch.tensor)


def names(tokenizer, n_rows=None):
    """The tokens of each kind."""
    kinds = row_kinds(tokenizer, n_rows or len(tokenizer))
    return {kind: set(tokenizer.convert_ids_to_tokens(mask.nonzero()[:, 0].tolist())) for kind, mask in kinds.items()}


def test_shares_worked_by_hand():
    found = anchor_shares(torch.tensor([[0, 1, 1, 4], [2, 4, 4, 2], [1, 3, 1, 2]]), KINDS)
    assert {kind: share.tolist() for kind, share in found.items()} == {"low": [0.75, 0, 0.5], "odd": [0.5, 0, 0.75]}


def test_an_anchor_counts_as_often_as_the_path_visits_it():
    found = anchor_shares(torch.tensor([[1, 1, 1, 0]]), {"one": torch.arange(5) == 1})
    assert found["one"].tolist() == [0.75]


@given(IDS)
def test_it_is_the_count_of_a_loop(ids):
    for kind, found in anchor_shares(ids, KINDS).items():
        expected = [sum(bool(KINDS[kind][i]) for i in row) / 3 for row in ids.tolist()]
        torch.testing.assert_close(found, torch.tensor(expected))


@given(IDS)
def test_a_batch_is_its_rows_and_the_order_of_anchors_does_not_matter(ids):
    for kind, found in anchor_shares(ids, KINDS).items():
        torch.testing.assert_close(found, torch.cat([anchor_shares(row[None], KINDS)[kind] for row in ids]))
        torch.testing.assert_close(found, anchor_shares(ids.flip(1), KINDS)[kind])
        assert found.dtype == torch.float32


@given(IDS)
def test_kinds_that_cover_every_row_once_share_it_all(ids):
    parts = {f"row {i}": torch.arange(5) == i for i in range(5)}
    torch.testing.assert_close(sum(anchor_shares(ids, parts).values()), torch.ones(len(ids)))


def test_without_words_or_kinds_there_is_nothing_to_share():
    assert anchor_shares(torch.zeros(2, 3, dtype=torch.int64), {}) == {}
    assert anchor_shares(torch.zeros(0, 3, dtype=torch.int64), KINDS)["low"].shape == (0,)


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((4,), "anchor_ids must have shape (N, m) with m >= 1, got (4,)"),
        ((2, 3, 4), "anchor_ids must have shape (N, m) with m >= 1, got (2, 3, 4)"),
        ((2, 0), "anchor_ids must have shape (N, m) with m >= 1, got (2, 0)"),
    ],
)
def test_wrong_anchors(shape, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        anchor_shares(torch.zeros(shape, dtype=torch.int64), KINDS)


def test_kinds_of_a_wordpiece_vocabulary(tokenizer):
    found = names(tokenizer)
    assert found["special"] == set(SPECIAL)
    assert found["unused"] == {"[unused0]", "[unused1]"}
    # A lone letter is no word, though it stands among them.
    assert {"##ing", "##a", "!", "[", "b", "a"} <= found["piece"]
    assert not found["piece"] & (set(TINY_WORDS) - {"a"})


def test_placeholders_of_every_spelling_are_unused():
    placeholders = ["[unused12]", "<unused7>", "<extra_id_3>", "<|reserved_special_token_5|>", "<reserved_9>"]
    found = names(wordpiece([*WORDS, *placeholders, "madeupword0001", "<unused>", "[unusual3]"]))
    assert found["unused"] == set(placeholders)
    assert found["piece"] == {"madeupword0001", "<unused>", "[unusual3]"}


def test_a_placeholder_that_serves_as_a_special_token_is_special_alone():
    tokenizer = wordpiece([*WORDS, "<extra_id_3>", "<extra_id_4>"])
    tokenizer.add_special_tokens({"mask_token": "<extra_id_3>"})
    found = names(tokenizer)
    assert found["special"] - set(SPECIAL) == {"<extra_id_3>"}
    assert found["unused"] == {"<extra_id_4>"}


def test_rows_beyond_the_vocabulary_and_holes_in_it_are_unused():
    # Every second row is a hole.
    backend = Tokenizer(models.WordLevel({**{w: 2 * i for i, w in enumerate(WORDS)}, "<unk>": 1}, unk_token="<unk>"))
    n_rows = 2 * len(WORDS) + 64
    kinds = row_kinds(PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="<unk>"), n_rows)
    assert kinds["special"].nonzero()[:, 0].tolist() == [1]
    assert not kinds["piece"].any()
    words = {2 * i for i in range(len(WORDS))}
    assert set(kinds["unused"].nonzero()[:, 0].tolist()) == set(range(n_rows)) - words - {1}


def test_a_table_smaller_than_the_vocabulary():
    kinds = row_kinds(wordpiece(WORDS), 40)
    assert {kind: mask.tolist() for kind, mask in kinds.items()} == {
        "special": [True] * 4 + [False] * 36,
        "unused": [False] * 40,
        "piece": [False] * 40,
    }


def test_a_tokenizer_without_special_tokens():
    backend = Tokenizer(models.WordLevel(numbered(WORDS)))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    kinds = row_kinds(PreTrainedTokenizerFast(tokenizer_object=backend), len(WORDS))
    assert not any(mask.any() for mask in kinds.values())


@pytest.mark.parametrize(
    "make",
    [
        tiny_tokenizer,
        byte_level,
        unigram,
        metaspace_bpe,
        word_suffix_bpe,
        word_level,
        lambda: SlowWords(["<unk>", *WORDS, *UNUSED]),
    ],
)
@pytest.mark.parametrize("extra", [-2, 0, 9])
def test_every_row_is_a_word_or_of_one_kind(make, extra):
    tokenizer = make()
    n_rows = len(tokenizer) + extra
    kinds = row_kinds(tokenizer, n_rows)
    assert list(kinds) == ["special", "unused", "piece"]
    assert all(mask.shape == (n_rows,) and mask.dtype == torch.bool for mask in kinds.values())
    masks = torch.stack([word_candidates(tokenizer, n_rows), *kinds.values()])
    assert masks.sum(dim=0).tolist() == [1] * n_rows


@pytest.mark.parametrize("strategy", ["greedy", "maxcount"])
def test_paths_through_words_alone_visit_no_other_kind(strategy, tokenizer):
    rows = torch.randn(len(tokenizer), 6)
    words, kinds = word_candidates(tokenizer, len(tokenizer)), row_kinds(tokenizer, len(tokenizer))
    ids = words.nonzero()[:5, 0]

    def shares(candidates):
        path = MonotonicPath(Vocabulary(rows), strategy, n_anchors=3, n_neighbors=60, candidates=candidates)
        return anchor_shares(path.anchor_ids(ids, tokenizer.pad_token_id)[:, 1:], kinds)

    assert sum(shares(words).values()).tolist() == [0] * 5
    assert sum(shares(None).values()).sum() > 0
