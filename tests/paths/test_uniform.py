import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from captum_dig import AnchorSearch, RandomNeighbor, UniformPath, Vocabulary
from tests import reference
from tests.paths.test_base import ROWS


@given(st.integers(0, 10_000), st.sampled_from(["greedy", "maxcount"]), st.integers(1, 6), st.integers(1, 10))
def test_walks_and_knots_are_those_of_the_loop(seed, strategy, m, k):
    rows = torch.randn(25, 4, generator=torch.Generator().manual_seed(seed))
    path = UniformPath(Vocabulary(rows), strategy, m, k)
    words = torch.arange(1, 6)
    walks = [reference.uniform_anchor_ids(rows.numpy(), int(word), 0, m, k, strategy) for word in words]
    assert path.anchor_ids(words, 0).tolist() == walks
    got = path(rows[None, 1:6], rows[0].expand(1, 5, 4))[:, 0]
    for i, walk in enumerate(walks):
        torch.testing.assert_close(
            got[:, i], torch.tensor(reference.knots(rows.numpy(), walk, 0).copy()), rtol=0, atol=1e-6
        )


def test_where_no_candidate_is_left_the_walk_goes_to_the_baseline_and_stays():
    vocabulary = Vocabulary(torch.tensor([[0.0], [1.0], [2.0], [6.0]]))
    path = UniformPath(vocabulary, n_anchors=4, n_neighbors=1)
    # Around 4.8 there is the word itself, so nothing is left.
    assert path.anchor_ids(torch.tensor([3, 2]), 0).tolist() == [[3, 0, 0, 0, 0], [2, 0, 0, 0, 0]]
    assert path(torch.tensor([[6.0]]), torch.tensor([[0.0]])).squeeze().tolist() == [0.0, 0.0, 0.0, 0.0, 0.0, 6.0]


def test_a_walk_does_not_depend_on_the_others():
    one, other = (UniformPath(Vocabulary(ROWS), n_anchors=40, n_neighbors=9) for _ in range(2))
    together = one.anchor_ids(torch.arange(1, 80), 0)
    alone = torch.cat([other.anchor_ids(torch.tensor([word]), 0) for word in range(79, 0, -1)]).flip(0)
    assert torch.equal(together, alone)
    assert torch.equal(one.anchor_ids(torch.arange(1, 80), 0), together)


@pytest.mark.parametrize("baseline", [torch.zeros(6), ROWS.mean(dim=0)], ids=["zeros", "mean"])
def test_a_baseline_may_be_any_vector(baseline):
    knots = UniformPath(Vocabulary(ROWS), n_anchors=6, n_neighbors=3)(ROWS[None, :4], baseline.expand(1, 4, 6))
    assert knots.shape == (8, 1, 4, 6)


def test_candidates_and_searches_of_one_s_own():
    class Nearest(AnchorSearch):
        def cost(self, neighborhood):
            return (neighborhood.candidates - neighborhood.words[:, None]).norm(dim=-1)

    allowed = torch.arange(80) % 2 == 0
    for strategy in (Nearest(), RandomNeighbor(3), "greedy"):
        path = UniformPath(Vocabulary(ROWS), strategy, 5, 7, candidates=allowed)
        assert (path.anchor_ids(torch.arange(1, 20), 0)[:, 1:] % 2 == 0).all()


def test_a_search_that_brings_its_own_candidates_is_refused():
    with pytest.raises(ValueError, match=r"strategy must look at the candidates that it is given, got RandomAnchor"):
        UniformPath(Vocabulary(ROWS), "random_anchor")


def test_it_prints_what_makes_it():
    vocabulary = Vocabulary(ROWS)
    assert repr(UniformPath(vocabulary, "maxcount")) == (
        f"UniformPath(MaxCount(), n_anchors=30, n_neighbors=50, vocabulary={vocabulary.fingerprint[:12]})"
    )


def test_rows_around_vectors():
    vectors = torch.randn(700, 6)
    vocabulary = Vocabulary(ROWS)
    expected = torch.cdist(vectors, ROWS).sort(dim=1, stable=True).indices
    assert torch.equal(vocabulary.around(vectors, 5), expected[:, :5])
    assert torch.equal(vocabulary.around(ROWS[3:5], 1)[:, 0], torch.tensor([3, 4]))
    few = vocabulary.around(vectors, 5, torch.arange(80) < 3)
    assert (few[:, 3:] == -1).all()
    assert (few[:, :3].sort(dim=1).values == torch.arange(3)).all()
    with pytest.raises(ValueError, match="n_neighbors must be an integer of at least 1, got 0"):
        vocabulary.around(vectors, 0)
