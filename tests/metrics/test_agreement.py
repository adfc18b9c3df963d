import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from captum_dig import TokenBatch, kendall_tau, leave_one_out
from tests.metrics.test_faithfulness import ROWS, bag_of_words, batch, exact


@pytest.mark.parametrize("removal", ["delete", "pad", "mask", "attention"])
@pytest.mark.parametrize("batch_size", [1, 4, 64])
def test_a_linear_model_gets_its_weights(removal, batch_size):
    sentences = batch(ROWS)
    ones = torch.ones(3, dtype=torch.int64)
    found = leave_one_out(bag_of_words, sentences, ones, removal=removal, batch_size=batch_size)
    torch.testing.assert_close(found, exact(sentences) / 4)


def test_by_default_the_predicted_class_is_explained():
    found = leave_one_out(bag_of_words, batch([[5, 6], [15, 16]]))
    # The logit of class 0 is always 0.
    assert found.tolist() == [[0, 0, 0, 0], [0, 1.25, 1.5, 0]]


def test_sentences_without_words():
    assert leave_one_out(bag_of_words, batch([[], []])).tolist() == [[0, 0], [0, 0]]


def tau_by_pairs(one, other):
    agreement = left = right = 0
    for i, j in itertools.combinations(range(len(one)), 2):
        a = (one[i] > one[j]) - (one[i] < one[j])
        b = (other[i] > other[j]) - (other[i] < other[j])
        agreement, left, right = agreement + a * b, left + abs(a), right + abs(b)
    return agreement / math.sqrt(left * right) if left and right else math.nan


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=9))
def test_it_is_kendalls_tau_with_ties(pairs):
    sentences = batch([[9] * len(pairs)])
    one, other = (torch.tensor([[99.0, *values, -99.0]]) for values in zip(*pairs, strict=True))
    expected = tau_by_pairs(*zip(*pairs, strict=True))
    assert kendall_tau(one, other, sentences).item() == pytest.approx(expected, nan_ok=True, abs=1e-6)


def test_padding_and_special_tokens_do_not_count():
    sentences = batch(ROWS)
    noise = torch.where(sentences.removable, 0.0, torch.randn(sentences.input_ids.shape))
    found = kendall_tau(exact(sentences) + noise, exact(sentences), sentences)
    torch.testing.assert_close(found, torch.ones(3))
    torch.testing.assert_close(kendall_tau(-exact(sentences), exact(sentences), sentences), -torch.ones(3))


def test_wrong_arguments():
    sentences = batch([[9, 8]])
    with pytest.raises(ValueError, match=r"others must have the shape of the ids, \(1, 4\), got \(1, 3\)"):
        kendall_tau(torch.ones(1, 4), torch.ones(1, 3), sentences)
    with pytest.raises(ValueError, match="removal must be one of 'delete', 'pad', 'mask', 'attention', got 'blur'"):
        leave_one_out(bag_of_words, sentences, removal="blur")
    bare = TokenBatch(sentences.input_ids, sentences.attention_mask, sentences.special_tokens_mask, pad_id=0)
    with pytest.raises(ValueError, match="got 'mask' for a batch without a mask_id"):
        leave_one_out(bag_of_words, bare)
