import math

import pytest
import torch

from captum_dig import TokenBatch, comprehensiveness, log_odds, sufficiency

METRICS = {"log_odds": log_odds, "comprehensiveness": comprehensiveness, "sufficiency": sufficiency}
PAD, MASK, FIRST, LAST = 0, 1, 2, 3


def bag_of_words(ids, mask):
    """Logits for two classes: token i speaks for class 1 with weight i - 10; padding, mask and specials with none."""
    weight = torch.where((ids > LAST) & (mask > 0), ids - 10.0, 0.0)
    return torch.stack([torch.zeros(len(ids)), weight.sum(dim=1) / 4], dim=1)


def batch(rows):
    width = max(map(len, rows)) + 2
    ids = torch.tensor([[FIRST, *row, LAST, *[PAD] * (width - 2 - len(row))] for row in rows])
    return TokenBatch(ids, (ids != PAD).long(), (ids == FIRST) | (ids == LAST), PAD, MASK)


ROWS = [[12, 14, 9, 8, 11], [16, 7, 13], [5, 18, 10, 9, 9, 12, 11, 13, 6, 15, 10]]


def exact(sentences):
    """The true effect of each token."""
    return torch.where(sentences.removable, sentences.input_ids - 10.0, 0.0)


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


@pytest.mark.parametrize("removal", ["delete", "pad", "mask", "attention"])
def test_worked_by_hand(removal):
    sentences = batch(ROWS[:1])
    # Weights 2, 4, -1, -2, 1: together 4. Two fifths are the tokens 4 and 2; what is left adds up to -2.
    arguments = {"target": torch.tensor([1]), "top_fraction": 0.4, "removal": removal}
    whole, without, alone = sigmoid(4 / 4), sigmoid(-2 / 4), sigmoid(6 / 4)
    found = [metric(bag_of_words, sentences, exact(sentences), **arguments).item() for metric in METRICS.values()]
    assert found == pytest.approx([math.log(without / whole), whole - without, whole - alone], abs=1e-6)


@pytest.mark.parametrize("metric", METRICS)
def test_a_batch_is_its_rows(metric):
    together = METRICS[metric](bag_of_words, batch(ROWS), exact(batch(ROWS)), top_fraction=[0.2, 0.5], batch_size=2)
    alone = [METRICS[metric](bag_of_words, batch([row]), exact(batch([row])), top_fraction=[0.2, 0.5]) for row in ROWS]
    torch.testing.assert_close(together, torch.cat(alone))


@pytest.mark.parametrize("protocol", ["default", "paper"])
def test_true_scores_beat_their_opposite(protocol):
    sentences = batch(ROWS)
    arguments = {"target": torch.tensor([1, 1, 1]), "protocol": protocol, "top_fraction": 0.4}
    for metric, better in ((log_odds, torch.lt), (comprehensiveness, torch.gt), (sufficiency, torch.lt)):
        good, bad = (metric(bag_of_words, sentences, sign * exact(sentences), **arguments) for sign in (1, -1))
        assert better(good, bad).all()


def test_several_fractions_are_averaged():
    sentences = batch(ROWS)
    one, other, both = (
        comprehensiveness(bag_of_words, sentences, exact(sentences), top_fraction=f) for f in (0.2, 0.6, [0.2, 0.6])
    )
    torch.testing.assert_close(both, (one + other) / 2)


def test_by_default_the_predicted_class_is_explained():
    sentences = batch([[5, 6, 7], [15, 16, 17]])
    scores = -exact(sentences)
    implied = comprehensiveness(bag_of_words, sentences, scores)
    torch.testing.assert_close(implied, comprehensiveness(bag_of_words, sentences, scores, torch.tensor([0, 1])))


def seen_by(metric, sentences, scores, **arguments):
    seen = []

    def watch(ids, mask):
        seen.append([row[keep].tolist() for row, keep in zip(ids, mask.bool(), strict=True)])
        return bag_of_words(ids, mask)

    result = metric(watch, sentences, scores, **arguments)
    return result, seen[1]


@pytest.mark.parametrize(("n", "count"), [(1, 1), (2, 1), (3, 1), (7, 1), (8, 2), (12, 2), (13, 3)])
def test_the_default_takes_the_nearest_number_of_tokens_and_at_least_one(n, count):
    sentences = batch([list(range(20, 20 + n))])
    _, (left,) = seen_by(comprehensiveness, sentences, exact(sentences))
    assert left == [FIRST, *range(20, 20 + n - count), LAST]


@pytest.mark.parametrize(("n", "count"), [(1, 0), (2, 0), (3, 1), (7, 1), (8, 2), (12, 2), (13, 3)])
def test_the_paper_counts_special_tokens_and_rounds_down(n, count):
    sentences = batch([list(range(20, 20 + n))])
    for metric in (comprehensiveness, sufficiency, log_odds):
        result, (left,) = seen_by(metric, sentences, exact(sentences), protocol="paper")
        if not count:
            assert result.item() == 0
        if metric is sufficiency and count:
            assert left == list(range(20 + n - count, 20 + n))
        if metric is comprehensiveness:
            assert left == [FIRST, *range(20, 20 + n - count), LAST]
        if metric is log_odds:
            assert left == [FIRST, *range(20, 20 + n - count), *[PAD] * count, LAST]


def test_the_paper_may_remove_special_tokens():
    sentences = batch([[9, 8, 7]])
    _, (left,) = seen_by(comprehensiveness, sentences, exact(sentences), target=torch.tensor([1]), protocol="paper")
    assert left == [9, 8, 7, LAST]


def test_equal_scores_go_by_place():
    _, (left,) = seen_by(comprehensiveness, batch([[11, 12, 13, 14]]), torch.zeros(1, 6), top_fraction=0.5)
    assert left == [FIRST, 13, 14, LAST]


def test_a_sentence_without_words_is_no_number():
    found = comprehensiveness(bag_of_words, batch([[], [12, 14]]), torch.zeros(2, 4))
    assert found.isnan().tolist() == [True, False]


def test_padding_on_the_left():
    sentences = batch([[12, 14, 9], [12]])
    turned = TokenBatch(
        sentences.input_ids.flip(1), sentences.attention_mask.flip(1), sentences.special_tokens_mask.flip(1), PAD
    )
    for metric in METRICS.values():
        torch.testing.assert_close(
            metric(bag_of_words, turned, exact(turned)), metric(bag_of_words, sentences, exact(sentences))
        )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"top_fraction": 0}, r"top_fraction must be in \(0, 1\], got 0"),
        ({"top_fraction": 20}, r"top_fraction must be in \(0, 1\], got 20"),
        ({"top_fraction": []}, r"top_fraction must be in \(0, 1\], got \[\]"),
        ({"protocol": "eraser"}, "protocol must be one of 'default', 'paper', got 'eraser'"),
        ({"removal": "blur"}, "removal must be one of 'delete', 'pad', 'mask', 'attention', got 'blur'"),
        ({"protocol": "paper", "removal": "mask"}, "removal must be 'delete' in the paper's protocol, got 'mask'"),
        ({"attributions": torch.ones(1, 5, 8)}, r"attributions must have the shape of the ids, \(1, 5\), got"),
        ({"batch_size": 0}, "batch_size must be an integer of at least 1"),
    ],
)
def test_wrong_arguments(arguments, message):
    sentences = batch([[12, 14, 9]])
    with pytest.raises(ValueError, match=message):
        comprehensiveness(bag_of_words, sentences, **{"attributions": exact(sentences), **arguments})


def test_wrong_batches():
    ids = torch.ones(2, 3, dtype=torch.int64)
    with pytest.raises(
        ValueError, match=r"input_ids and attention_mask must have one shape \(B, T\), got \(2, 3\) and"
    ):
        TokenBatch(ids, torch.ones(3), torch.ones(2, 3), pad_id=0)
    with pytest.raises(ValueError, match="removal must be possible, got 'mask' for a batch without a mask_id"):
        log_odds(bag_of_words, TokenBatch(ids, ids, ids - 1, pad_id=0), torch.ones(2, 3), removal="mask")
