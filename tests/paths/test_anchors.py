import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from captum_dig import (
    AnchorSearch,
    Greedy,
    MaxCount,
    MonotonicPath,
    PathError,
    RandomAnchor,
    RandomNeighbor,
    Vocabulary,
)
from captum_dig.testing import check_anchor_search
from tests import reference


class Farthest(AnchorSearch):
    """A search written by a user."""

    def cost(self, neighborhood):
        return -(neighborhood.candidates - neighborhood.words[:, None]).norm(dim=-1)


SEARCHES = [Greedy(), MaxCount(), RandomNeighbor(seed=3), RandomAnchor(seed=3), Farthest()]


def vocabulary(n_rows=60, dim=5, seed=0):
    return Vocabulary(torch.randn(n_rows, dim, generator=torch.Generator().manual_seed(seed)))


def walk(table, search, ids, m=8, k=20, baseline=0, **options):
    return MonotonicPath(table, search, m, k, **options).anchor_ids(torch.tensor(ids), baseline)


@given(st.integers(0, 10_000), st.sampled_from(["greedy", "maxcount"]), st.integers(1, 7), st.integers(1, 19))
def test_the_table_walk_is_the_sequential_rule(seed, strategy, m, k):
    # Few values and few rows: ties, duplicate rows and walks that run dry.
    rows = torch.randint(0, 4, (20, 3), generator=torch.Generator().manual_seed(seed)).float()
    # The last row as the baseline: often one of several equal rows, of which the first stands for all.
    first = next(i for i in range(20) if torch.equal(rows[i], rows[19]))
    got = walk(Vocabulary(rows), strategy, list(range(20)), m, k, baseline=19)
    assert got.tolist() == [reference.anchor_ids(rows.numpy(), w, first, m, k, strategy) for w in range(20)]


@pytest.mark.parametrize("search", SEARCHES, ids=lambda search: type(search).__name__)
@pytest.mark.parametrize("size", [(8, 20), (1, 1), (12, 500)])
def test_the_contract(search, size):
    check_anchor_search(search, vocabulary(), n_anchors=size[0], n_neighbors=size[1])


@pytest.mark.parametrize("kind", ["random_neighbor", "random_anchor"])
def test_seeds(kind):
    table = vocabulary(n_rows=500)
    ids = torch.arange(1, 60)
    one, same, other = (MonotonicPath(table, kind, 8, 50, seed=s).anchor_ids(ids, 0) for s in (1, 1, 2))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    torch.manual_seed(5)
    drawn = MonotonicPath(table, kind, 8, 50).anchor_ids(ids, 0)
    torch.manual_seed(5)
    assert torch.equal(MonotonicPath(table, kind, 8, 50).anchor_ids(ids, 0), drawn)


def test_random_neighbor_is_uniform_over_the_neighbours():
    table = vocabulary(n_rows=300)
    near = table.neighbors(torch.tensor([7]), 10)[0].tolist()
    firsts = [
        int(MonotonicPath(table, "random_neighbor", 1, 10, seed=s).anchor_ids(torch.tensor([7]), 0)[0, 1])
        for s in range(600)
    ]
    counts = [firsts.count(i) for i in near]
    assert sum(counts) == 600
    # 60 expected of each; the standard deviation is 7.3.
    assert all(30 < count < 95 for count in counts)


def test_random_anchor_reaches_the_whole_vocabulary():
    table = vocabulary(n_rows=40)
    firsts = {
        int(MonotonicPath(table, "random_anchor", 1, 39, seed=s).anchor_ids(torch.tensor([7]), 0)[0, 1])
        for s in range(600)
    }
    assert firsts == set(range(40)) - {0, 7}


def test_padding_rows_are_no_way_to_the_baseline():
    rows = torch.cat([torch.randn(30, 4), torch.zeros(20, 4)])
    path = MonotonicPath(Vocabulary(rows), n_anchors=5, n_neighbors=40)
    anchors = path.anchor_ids(torch.arange(30), 40)
    assert (anchors < 30).all()
    assert path.anchor_ids(torch.tensor([35]), 40).tolist() == [[35] + [30] * 5]
    moving = path(rows[None, :30], torch.zeros(1, 30, 4)).diff(dim=0).abs().sum(dim=-1) > 0
    assert moving.sum(dim=0).min() > 2


def test_random_anchor_needs_no_neighbours():
    table = vocabulary()
    row = MonotonicPath(table, "random_anchor", 20, 1, seed=0).anchor_ids(torch.tensor([3]), 0)[0].tolist()
    assert len(set(row)) == 21
    assert 0 not in row


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (
            torch.zeros(2, 3, dtype=torch.int64),
            r"Proposes.propose must return int64 ids of shape \(1, K\), got \(2, 3\)",
        ),
        (torch.full((1, 3), 60), "Proposes.propose must return rows below 60, or -1 where there is none"),
    ],
)
def test_what_a_search_proposes_is_checked(answer, message):
    class Proposes(Greedy):
        def propose(self, *_):
            return answer

    path = MonotonicPath(vocabulary(), Proposes(), 8, 20)
    with pytest.raises(PathError, match=message):
        path.anchor_ids(torch.tensor([3]), 0)


class Wrong(AnchorSearch):
    def __init__(self, answer):
        self.answer = answer

    def cost(self, neighborhood):
        return self.answer(neighborhood)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda n: n.candidates.sum(dim=-1)[:, :3], r"Wrong.cost must return shape \(1, 20\), got \(1, 3\)"),
        (lambda n: n.candidates.sum(dim=-1) * float("nan"), "Wrong.cost must not return NaN"),
    ],
)
def test_what_a_search_answers_is_checked(answer, message):
    path = MonotonicPath(vocabulary(), Wrong(answer), 8, 20)
    with pytest.raises(PathError, match=message):
        path.anchor_ids(torch.tensor([3]), 0)
