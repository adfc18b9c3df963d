import gc

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from captum_dig import Vocabulary
from captum_dig.vocabulary.indexes import FaissIndex, FlatIndex, HalfPrecisionIndex, RowIndex, build_index
from tests import reference

INDEXES = {"flat": FlatIndex, "half precision": HalfPrecisionIndex}


class Everything(RowIndex):
    """An index that rules nothing out."""

    def shortlist(self, queries, count, candidates):
        ids = torch.arange(len(self.rows)).expand(len(queries), -1)
        return ids if candidates is None else torch.where(candidates[ids], ids, -1)


INDEXES["a user's"] = Everything

TABLES = {
    "small integers": lambda draw: torch.randint(0, 3, (60, 3), generator=draw).float(),
    "normal": lambda draw: torch.randn(300, 24, generator=draw),
    "far from the origin": lambda draw: 1000 + torch.randn(300, 8, generator=draw),
    "all sizes": lambda draw: torch.randn(300, 8, generator=draw) * 10 ** torch.randn(300, 1, generator=draw),
    "nearly equal": lambda draw: torch.ones(100, 5) + 1e-4 * torch.randn(100, 5, generator=draw),
    "one row": lambda draw: torch.randn(1, 4, generator=draw),
}


@pytest.mark.parametrize("index", INDEXES)
@pytest.mark.parametrize("table", TABLES)
@given(seed=st.integers(0, 10_000), count=st.integers(1, 20), masked=st.booleans())
def test_the_nearest_rows_are_among_those_found(index, table, seed, count, masked):
    draw = torch.Generator().manual_seed(seed)
    rows = TABLES[table](draw)
    queries = torch.cat([rows[:5], rows[:5] + 0.1 * torch.randn(len(rows[:5]), rows.shape[1], generator=draw)])
    candidates = torch.rand(len(rows), generator=draw) < 0.5 if masked else None
    found = INDEXES[index](rows).search(queries, count, candidates)
    allowed = torch.ones(len(rows), dtype=torch.bool) if candidates is None else candidates
    count = min(count, int(allowed.sum()))
    distances = (queries.double()[:, None] - rows.double()).norm(dim=-1).masked_fill(~allowed, torch.inf)
    for row_ids, row in zip(found, distances, strict=True):
        ids = row_ids[row_ids >= 0]
        assert len(ids.unique()) == len(ids)
        assert allowed[ids].all()
        # Of rows as far as float32 can tell apart, either may be found.
        assert row[ids].sort().values[:count] == pytest.approx(row.sort().values[:count], rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("index", INDEXES)
def test_no_queries_and_no_candidates(index):
    found = INDEXES[index](torch.randn(9, 3))
    assert found.search(torch.empty(0, 3), 2).shape == (0, 2)
    assert found.search(torch.randn(4, 3), 2, torch.zeros(9, dtype=torch.bool)).shape == (4, 0)


def test_most_rows_are_ruled_out():
    rows = torch.randn(4000, 64)
    assert HalfPrecisionIndex(rows).search(rows[:50], 100).shape[1] < 200


@pytest.mark.parametrize("factory", ["Flat", "HNSW8"])
def test_rows_outlive_their_index_and_are_no_copy(factory):
    index = FaissIndex(torch.arange(12.0).reshape(4, 3), factory)
    again = FaissIndex.__new__(FaissIndex)
    again.rows = index.rows
    del index
    gc.collect()
    torch.randn(100_000)
    assert again.rows.flatten().tolist() == list(range(12))


def test_large_tables_are_read_at_half_precision(monkeypatch):
    monkeypatch.setattr("captum_dig.vocabulary.indexes._LARGE", 1)
    for capability, kind in (("AVX512", HalfPrecisionIndex), ("AVX2", FlatIndex)):
        monkeypatch.setattr("torch.backends.cpu.get_cpu_capability", lambda answer=capability: answer)
        assert type(build_index(torch.randn(4, 2), "Flat")) is kind
        assert type(build_index(torch.randn(4, 2), "HNSW8")) is FaissIndex


@given(st.integers(0, 10_000), st.integers(1, 12))
def test_neighbors_are_the_same_with_either_search(seed, k):
    rows = torch.randint(0, 3, (40, 3), generator=torch.Generator().manual_seed(seed)).float()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("captum_dig.vocabulary.rows.build_index", lambda rows, _: HalfPrecisionIndex(rows))
        vocabulary = Vocabulary(rows)
    assert vocabulary.neighbors(torch.arange(40), k).tolist() == [
        reference.neighbors(rows.numpy(), i, k) for i in range(40)
    ]


def test_parameters_follow_the_factory_string():
    rows = torch.randn(2000, 16)
    recalls = [Vocabulary(rows, index=f"IVF40,Flat;nprobe={n}").recall(20) for n in (1, 8, 40)]
    assert recalls == sorted(recalls)
    assert recalls[0] < 0.9
    assert recalls[-1] == 1.0


def test_parameters_that_faiss_does_not_know():
    with pytest.raises(ValueError, match=r"index must be a FAISS factory string .* got 'Flat;speed=9' \(.*speed"):
        Vocabulary(torch.randn(9, 3), index="Flat;speed=9")


FAR = {
    "offset 0": lambda draw: torch.randn(2000, 384, generator=draw),
    "offset 100": lambda draw: 100 + torch.randn(2000, 384, generator=draw),
    "offset 1000": lambda draw: 1000 + torch.randn(2000, 384, generator=draw),
    "two clusters": lambda draw: (
        torch.randn(2000, 384, generator=draw) + 300 * (torch.arange(2000) % 2 * 2 - 1)[:, None]
    ),
    "one long row": lambda draw: torch.cat([1000 * torch.ones(1, 384), torch.randn(1999, 384, generator=draw)]),
    "near the threshold": lambda draw: 2.7 + torch.randn(2000, 384, generator=draw),
    "equal rows": lambda draw: torch.randn(2000, 384, generator=draw)[torch.arange(2000) // 40],
    "nearly equal rows": lambda draw: 1 + 1e-3 * torch.randn(2000, 384, generator=draw),
}


@pytest.mark.parametrize("table", FAR)
@pytest.mark.parametrize("masked", [False, True])
def test_flat_is_exact_in_blocks_and_alone(table, masked):
    draw = torch.Generator().manual_seed(5)
    rows = FAR[table](draw)
    candidates = torch.rand(2000, generator=draw) < 0.4 if masked else None
    vocabulary = Vocabulary(rows)
    ids = torch.arange(300)
    together = vocabulary.neighbors(ids, 50, candidates)
    for some in (1, 25):
        parts = [vocabulary.neighbors(part, 50, candidates) for part in ids[:30].split(some)]
        assert torch.equal(torch.cat(parts), together[:30])
    # In double precision; of rows as far as single precision can tell apart, the first ones.
    some = ids[::10]
    distances = torch.cdist(rows[some].double(), rows.double(), compute_mode="donot_use_mm_for_euclid_dist")
    distances[torch.arange(len(some)), some] = torch.inf
    if candidates is not None:
        distances[:, ~candidates] = torch.inf
    nearest = distances.sort(dim=1).values[:, :50]
    assert torch.allclose(distances.gather(1, together[some]), nearest, rtol=1e-6, atol=0)
    share = (together[some] == distances.float().sort(dim=1, stable=True).indices[:, :50]).float().mean()
    assert share > 0.99
    # Around points that are no rows, too.
    points = rows[:200] + 0.1 * torch.randn(200, 384, generator=draw)
    around = vocabulary.around(points, 50, candidates)
    assert torch.equal(
        around[:20], torch.cat([vocabulary.around(point[None], 50, candidates) for point in points[:20]])
    )


def test_most_answers_are_settled_at_once(monkeypatch):
    rows = torch.randn(6000, 256)
    index = FlatIndex(rows)
    settled = index._search(rows[:512], 100, 8, None)[1]
    assert settled.float().mean() > 0.9
    monkeypatch.setattr(FlatIndex, "_search_exactly", None)
    assert index.search(rows[:512], 100).shape[1] < 200


def test_rows_far_from_the_origin_are_kept_as_they_are():
    rows = 1000 + torch.randn(50, 3)
    assert torch.equal(Vocabulary(rows).rows, rows)
    assert torch.equal(Vocabulary(rows).find(rows), torch.arange(50))
