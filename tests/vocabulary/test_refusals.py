"""Ids that are no rows, and indexes that FAISS takes but cannot search."""

import subprocess
import sys

import pytest
import torch

from captum_dig import Greedy, MonotonicPath, UniformPath, Vocabulary
from captum_dig.paths.tables import RankedTable
from captum_dig.paths.walks import Walk

ROWS = torch.randn(60, 5, generator=torch.Generator().manual_seed(3))
BAD_IDS = {
    "negative": torch.tensor([3, -1]),
    "too large": torch.tensor([60]),
    "fractions": torch.tensor([1.5]),
    "flags": torch.tensor([True, False]),
    "another shape": torch.tensor([[1, 2]]),
    "a number": torch.tensor(1),
    "no tensor": [1, 2],
}


def asked():
    vocabulary = Vocabulary(ROWS)
    table = RankedTable(Walk(vocabulary, Greedy(), 3, 9), ROWS[0])
    return {
        "neighbors": lambda ids: vocabulary.neighbors(ids, 4),
        "rank": table.rank,
        "walk": lambda ids: table.walk(ids, 0),
        "anchor_ids": lambda ids: MonotonicPath(vocabulary, "greedy", 3, 9).anchor_ids(ids, 0),
        "uniform anchor_ids": lambda ids: UniformPath(vocabulary, "greedy", 3, 9).anchor_ids(ids, 0),
    }


@pytest.mark.parametrize("name", asked())
@pytest.mark.parametrize("ids", BAD_IDS.values(), ids=BAD_IDS.keys())
def test_ids_that_are_no_rows_are_refused(name, ids):
    with pytest.raises((ValueError, TypeError), match=r"ids must .*, got "):
        asked()[name](ids)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16, torch.uint8])
@pytest.mark.parametrize("name", asked())
def test_ids_of_any_integer_type_and_none_at_all(name, dtype):
    expected = asked()[name](torch.tensor([3, 7]))
    got = asked()[name](torch.tensor([3, 7], dtype=dtype))
    assert expected is got is None or torch.equal(expected, got)
    asked()[name](torch.empty(0, dtype=dtype))


@pytest.mark.parametrize("goal", [-1, 60, 1.5, True, None])
def test_a_baseline_that_is_no_row_is_refused(goal):
    with pytest.raises(ValueError, match="ids must be rows of the vocabulary, from 0 to 59, got"):
        MonotonicPath(Vocabulary(ROWS), "greedy", 3, 9).anchor_ids(torch.tensor([1]), goal)


@pytest.mark.parametrize("vector", [torch.tensor(1.0), ROWS[:2], ROWS[0, :3]])
def test_equal_rows_takes_one_vector(vector):
    with pytest.raises(ValueError, match="must have shape"):
        Vocabulary(ROWS).equal_rows(vector)


@pytest.mark.parametrize("index", ["HNSW0", "HNSW1", "HNSW01", "HNSW1_SQ8", "IVF2_HNSW0,Flat", "IVF2(HNSW1),Flat"])
def test_graphs_that_would_end_the_process_are_refused(index):
    with pytest.raises(
        ValueError, match=r"index must give each row of a graph at least 2 links, got '.*; try 'HNSW32'"
    ):
        Vocabulary(ROWS, index=index)


@pytest.mark.parametrize("index", ["IVF2,Flat;nprobe=0", "IVF2,Flat;nprobe=-1"])
def test_indexes_that_cannot_search_are_refused_when_they_are_made(index):
    with pytest.raises(ValueError, match="index must be a FAISS factory string that fits"):
        Vocabulary(ROWS, index=index)


@pytest.mark.parametrize("index", ["IVF0,Flat", "IVF00", "IVF0_HNSW8,Flat", "PQ0", "PCA0,Flat"])
def test_indexes_with_a_part_of_size_0_are_refused(index):
    with pytest.raises(ValueError, match=f"index must have no part of size 0, got '{index}'; try 'IVF256,Flat'"):
        Vocabulary(ROWS, index=index)


@pytest.mark.parametrize("index", ["HNSW2", "HNSW", "HNSW16", "IVF4_HNSW8,Flat", "SQ8", "IVF1,Flat", "PCA3,Flat"])
def test_other_indexes_are_taken(index):
    assert Vocabulary(ROWS, index=index).neighbors(torch.arange(9), 5).shape == (9, 5)


def test_no_index_ends_the_process():
    script = (
        "import sys, torch\nfrom captum_dig import Vocabulary\nrows = torch.randn(60, 4)\n"
        "for index in sys.argv[1:]:\n"
        "    try:\n        Vocabulary(rows, index=index).neighbors(torch.arange(3), 5)\n"
        "    except ValueError:\n        pass\n"
        "print('alive')\n"
    )
    names = ["HNSW0", "HNSW1", "NSG0", "NSG1", "PQ0", "LSH", "IVF2_HNSW1,Flat", "IDMap,HNSW1", "HNSW1,Flat", "RQ1x4"]
    command = [sys.executable, "-W", "ignore", "-c", script, *names]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.endswith("alive\n"), done.stderr
