import numpy as np
import pytest
import torch

from captum_dig import MonotonicPath, StraightLine, Vocabulary, word_approximation_error


@pytest.fixture
def vocabulary():
    return Vocabulary(torch.randn(80, 5))


@pytest.fixture
def ends(vocabulary):
    return vocabulary.rows[torch.tensor([[3, 4, 5], [6, 0, 0]])], vocabulary.rows[0].expand(2, 3, 5).contiguous()


def by_hand(points, rows):
    """Mean distance of points (P, D) to the nearest row."""
    return float(np.mean([np.linalg.norm(rows - point, axis=1).min() for point in points]))


@pytest.mark.parametrize("with_ends", [False, True])
def test_over_knots_it_is_the_mean_over_points_and_words(vocabulary, ends, with_ends):
    knots = MonotonicPath(vocabulary, n_anchors=6, n_neighbors=30)(*ends)
    rows = vocabulary.rows.numpy()
    inner = slice(None) if with_ends else slice(1, -1)
    expected = [
        np.mean([by_hand(knots[inner, 0, t].numpy(), rows) for t in range(3)]),
        by_hand(knots[inner, 1, 0].numpy(), rows),
    ]
    assert word_approximation_error(knots, vocabulary, ends=with_ends).tolist() == pytest.approx(expected, rel=1e-4)


def test_the_straight_line_is_measured_between_its_ends(vocabulary, ends):
    knots = StraightLine()(*ends)
    points = [knots[0, 1, 0].lerp(knots[1, 1, 0], k / 5).numpy() for k in range(1, 5)]
    found = word_approximation_error(knots, vocabulary, n_points=4)
    assert float(found[1]) == pytest.approx(by_hand(points, vocabulary.rows.numpy()), rel=1e-4)
    # One straight piece: both spacings are the same.
    torch.testing.assert_close(word_approximation_error(knots, vocabulary, n_points=4, spacing="arc"), found)


def test_knots_heaped_at_the_ends_gain_nothing_by_length(vocabulary, ends):
    line = StraightLine()(*ends)
    heaped = torch.cat([line[0].lerp(line[1], t)[None] for t in (0, 1e-4, 2e-4, 3e-4, 1 - 3e-4, 1 - 2e-4, 1 - 1e-4, 1)])
    assert (word_approximation_error(heaped, vocabulary) < 0.01).all()
    torch.testing.assert_close(
        word_approximation_error(heaped, vocabulary, n_points=30, spacing="arc"),
        word_approximation_error(line, vocabulary, n_points=30),
        rtol=1e-3,
        atol=1e-5,
    )


def test_a_path_through_words_alone_has_none():
    vocabulary = Vocabulary(torch.arange(7.0)[:, None])
    knots = torch.arange(7.0).reshape(7, 1, 1, 1)
    assert word_approximation_error(knots, vocabulary).tolist() == [0.0]
    assert word_approximation_error(knots, vocabulary, n_points=11).item() == pytest.approx(0.5 * 6 / 11)


def test_a_batch_is_its_rows(vocabulary, ends):
    knots = MonotonicPath(vocabulary, n_anchors=6, n_neighbors=30)(*ends)
    alone = torch.cat([word_approximation_error(knots[:, i : i + 1], vocabulary) for i in range(2)])
    torch.testing.assert_close(word_approximation_error(knots, vocabulary), alone)


def test_a_sentence_in_which_nothing_moves(vocabulary):
    still = vocabulary.rows[torch.tensor([[1, 2], [3, 4]])]
    found = word_approximation_error(torch.stack([still, still, still]), vocabulary)
    assert found.isnan().all()
    moved = torch.stack([still, still + torch.tensor([1.0, 0.0])[:, None, None], still])
    assert word_approximation_error(moved, vocabulary).isnan().tolist() == [False, True]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"knots": torch.ones(3, 2, 5)}, r"knots must have shape \(P, B, T, 5\) with P >= 2, got \(3, 2, 5\)"),
        ({"knots": torch.ones(1, 1, 1, 5)}, "got \\(1, 1, 1, 5\\)"),
        ({"n_points": 0}, "n_points must be an integer of at least 1, got 0"),
        ({"spacing": "time"}, "spacing must be one of 'arc', 'knots', got 'time'"),
    ],
)
def test_wrong_arguments(vocabulary, arguments, message):
    with pytest.raises(ValueError, match=message):
        word_approximation_error(**{"knots": torch.ones(2, 1, 1, 5), "vocabulary": vocabulary, **arguments})
