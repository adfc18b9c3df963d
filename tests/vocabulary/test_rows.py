import gc
import pickle  # noqa: TID251 - as what sends a vocabulary to workers does
import re
import subprocess
import sys

import pytest
import torch
from captum.attr import NoiseTunnel
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from captum_dig import (
    CaptumDigError,
    DiscretizedIntegratedGradients,
    MonotonicPath,
    Vocabulary,
    VocabularyError,
)
from tests import reference


@pytest.fixture
def rows():
    return torch.randn(200, 6)


def test_every_row_finds_itself(rows):
    assert torch.equal(Vocabulary(rows).find(rows), torch.arange(200))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_rows_of_other_dtypes_find_themselves(rows, dtype):
    table = rows.to(dtype)
    assert torch.equal(Vocabulary(table).find(table), torch.arange(200))


def test_equal_rows_are_found_as_the_first(rows):
    rows[150] = rows[3]
    assert Vocabulary(rows).find(rows[[150, 3]]).tolist() == [3, 3]


def test_rows_of_few_values_find_themselves():
    grid = torch.cartesian_prod(*[torch.tensor([-1.0, 0.0, 1.0])] * 6)
    assert torch.equal(Vocabulary(grid).find(grid), torch.arange(len(grid)))


def test_colliding_hashes_are_told_apart(rows, monkeypatch):
    monkeypatch.setattr("captum_dig.vocabulary.rows._hash_rows", lambda r: torch.zeros(len(r), dtype=torch.int64))
    assert torch.equal(Vocabulary(rows).find(rows), torch.arange(200))
    assert Vocabulary(rows).find(rows + 1).eq(-1).all()


def test_negative_zero_is_zero():
    vocabulary = Vocabulary(torch.tensor([[1.0, 0.0], [0.0, 2.0]]))
    assert vocabulary.find(torch.tensor([[-0.0, 2.0]])).tolist() == [1]


def test_a_vector_off_the_table_is_not_found(rows):
    assert Vocabulary(rows).find(rows + 1e-3).eq(-1).all()


@given(st.integers(0, 10_000), st.integers(1, 12))
def test_neighbors_are_those_of_a_loop(seed, k):
    # Small integers: many ties and duplicate rows.
    rows = torch.randint(0, 3, (30, 3), generator=torch.Generator().manual_seed(seed)).float()
    got = Vocabulary(rows).neighbors(torch.arange(30), k)
    assert got.tolist() == [reference.neighbors(rows.numpy(), i, k) for i in range(30)]


def test_neighbors_do_not_depend_on_the_batch():
    rows = torch.randn(3000, 32)
    vocabulary = Vocabulary(rows)
    together = vocabulary.neighbors(torch.arange(100), 50)
    alone = torch.cat([vocabulary.neighbors(torch.tensor([i]), 50) for i in range(100)])
    assert torch.equal(together, alone)


def test_neighbors_honour_a_mask(rows):
    mask = torch.arange(200) % 7 == 0
    vocabulary = Vocabulary(rows)
    got = vocabulary.neighbors(torch.tensor([0, 1]), 28, mask)
    everything = vocabulary.neighbors(torch.tensor([0, 1]), 199)
    for row, full in zip(got.tolist(), everything.tolist(), strict=True):
        assert row == ([i for i in full if i % 7 == 0] + [-1])[:28]


def test_fewer_rows_than_asked_for_leave_a_tail(rows):
    assert Vocabulary(rows[:4]).neighbors(torch.tensor([0]), 6)[0, 3:].tolist() == [-1, -1, -1]


def test_nearest_is_exact(rows):
    queries = torch.randn(40, 6)
    ids, distances = Vocabulary(rows).nearest(queries)
    expected = torch.cdist(queries, rows, compute_mode="donot_use_mm_for_euclid_dist").min(dim=1)
    assert torch.equal(ids, expected.indices)
    torch.testing.assert_close(distances, expected.values)


def test_locate_takes_noise_to_the_nearest_row(rows):
    vocabulary = Vocabulary(rows)
    assert torch.equal(vocabulary.locate(rows + 1e-3), torch.arange(200))


def test_locate_refuses_vectors_from_elsewhere(rows):
    vocabulary = Vocabulary(rows)
    with pytest.raises(VocabularyError, match=r"inputs must be rows of the vocabulary.*get_input_embeddings\(\)"):
        vocabulary.locate(rows + 100)


@pytest.mark.parametrize("index", ["Flat", "HNSW16", "IVF4,Flat"])
def test_factory_strings(rows, index):
    vocabulary = Vocabulary(rows, index=index)
    got = vocabulary.neighbors(torch.arange(200), 10)
    exact = Vocabulary(rows).neighbors(torch.arange(200), 10)
    recall = sum(len(set(a) & set(b) - {-1}) for a, b in zip(got.tolist(), exact.tolist(), strict=True)) / exact.numel()
    assert recall == 1 if index == "Flat" else recall > 0.3
    assert (got != torch.arange(200)[:, None]).all()


def test_an_unknown_factory_string_is_named(rows):
    with pytest.raises(
        ValueError, match=r"index must be a FAISS factory string that fits \(200, 6\) rows, got 'Nonsense'"
    ):
        Vocabulary(rows, index="Nonsense")


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_rows_that_are_not_finite_are_named(rows, value):
    rows[17, 2] = value
    with pytest.raises(VocabularyError, match="weight must be finite, got NaN or infinity in row 17"):
        Vocabulary(rows)
    assert issubclass(VocabularyError, CaptumDigError)
    assert issubclass(VocabularyError, ValueError)


@pytest.mark.parametrize("shape", [(3,), (0, 4), (4, 0), (2, 2, 2)])
def test_shapes_that_are_no_table(shape):
    with pytest.raises(ValueError, match=r"weight must have shape \(V, D\)"):
        Vocabulary(torch.zeros(shape))


def test_integers_are_no_table():
    with pytest.raises(TypeError, match="weight must be a floating-point tensor, got torch.int64"):
        Vocabulary(torch.zeros(3, 2, dtype=torch.int64))


def test_it_is_a_snapshot(rows):
    vocabulary = Vocabulary(rows)
    before, fingerprint = rows.clone(), vocabulary.fingerprint
    rows += 1
    assert torch.equal(vocabulary.rows, before)
    assert Vocabulary(rows).fingerprint != fingerprint == Vocabulary(before).fingerprint


def test_rows_are_shared_where_the_caller_wants_no_copy(rows):
    shared = Vocabulary(rows, copy=False)
    assert shared.rows.data_ptr() == rows.data_ptr()
    assert shared.fingerprint == Vocabulary(rows).fingerprint
    assert torch.equal(
        shared.neighbors(torch.arange(9), 3),
        Vocabulary(rows).neighbors(torch.arange(9), 3),
    )
    # Another dtype is another tensor.
    assert Vocabulary(rows.double(), copy=False).rows.dtype == torch.float32


def test_a_layer_shares_its_rows_unless_it_emits_others():
    table = nn.Embedding(1200, 3)
    assert Vocabulary.from_layer(table, copy=False).rows.data_ptr() == table.weight.data_ptr()
    assert Vocabulary.from_layer(table).rows.data_ptr() != table.weight.data_ptr()

    class Late(nn.Embedding):
        def forward(self, ids):
            return torch.where(ids[:, None] < 1000, super().forward(ids), 0.5)

    late = Late.from_pretrained(table.weight.detach().clone())
    rows = Vocabulary.from_layer(late, copy=False).rows
    assert torch.equal(rows[:1000], table.weight[:1000])
    assert bool((rows[1000:] == 0.5).all())
    assert torch.equal(late.weight, table.weight)


def test_a_layer_may_emit_rows_of_another_width():
    class Projected(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.randn(20, 2))
            self.wider = nn.Linear(2, 8)

        def forward(self, ids):
            return self.wider(self.weight[ids])

    layer = Projected()
    for copy in (True, False):
        assert torch.equal(Vocabulary.from_layer(layer, copy=copy).rows, layer(torch.arange(20)).detach())


@pytest.mark.parametrize("index", ["Flat;", " Flat ; "])
def test_flat_is_exact_however_it_is_written(index):
    rows = 1000 + torch.randn(2000, 64)
    ids = torch.arange(0, 2000, 20)
    assert torch.equal(Vocabulary(rows, index=index).neighbors(ids, 5), Vocabulary(rows).neighbors(ids, 5))


@pytest.mark.parametrize("index", [None, 3, b"Flat"])
def test_an_index_that_is_no_string_is_named(rows, index):
    with pytest.raises(TypeError, match="index must be a FAISS factory string, got .*; try 'Flat' or 'HNSW32'"):
        Vocabulary(rows, index=index)


def test_shared_rows_take_part_in_gradients_and_travel_light():
    with torch.inference_mode():
        rows = torch.randn(5, 3)
    (Vocabulary(rows, copy=False).rows @ torch.ones(3, requires_grad=True)).sum().backward()
    table = torch.randn(20_000, 64)
    shared = Vocabulary(table[:100], copy=False)
    sent = pickle.dumps(shared)
    assert len(sent) < 100_000
    assert torch.equal(pickle.loads(sent).rows, shared.rows)


def test_faiss_is_imported_by_the_first_search():
    code = """
import sys, torch
from captum_dig import Vocabulary
vocabulary = Vocabulary(torch.eye(4))
assert vocabulary.find(torch.eye(4)).tolist() == [0, 1, 2, 3]
assert "faiss" not in sys.modules
vocabulary.neighbors(torch.tensor([0]), 2)
assert "faiss" in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_rows_outlive_the_vocabulary(rows):
    kept = Vocabulary(rows).rows
    gc.collect()
    assert torch.equal(kept, rows)


class Scaled(nn.Embedding):
    def forward(self, ids):
        return super().forward(ids) * 4


def test_rows_are_what_the_layer_emits():
    layer = Scaled(9, 3)
    assert torch.equal(Vocabulary.from_layer(layer).rows, 4 * layer.weight.detach())


@pytest.mark.filterwarnings("ignore:In order to make embedding layers more interpretable")
def test_captums_wrapper_is_looked_through():
    from captum.attr import configure_interpretable_embedding_layer, remove_interpretable_embedding_layer

    model = nn.Sequential(nn.Embedding(9, 3))
    plain = Vocabulary.from_layer(model[0]).fingerprint
    wrapper = configure_interpretable_embedding_layer(model, "0")
    assert Vocabulary.from_layer(wrapper).fingerprint == plain
    remove_interpretable_embedding_layer(model, wrapper)


def test_a_layer_that_is_no_table_is_refused():
    with pytest.raises(TypeError, match=r"layer must be an embedding table.*got LayerNorm.*get_input_embeddings\(\)"):
        Vocabulary.from_layer(nn.LayerNorm(3))


def test_spacing_ignores_duplicates():
    rows = torch.tensor([[0.0], [0.0], [1.0], [1.0], [2.0], [2.0]])
    assert Vocabulary(rows).spacing == 1.0


def test_rows_whose_distances_overflow_are_refused(rows):
    with pytest.raises(VocabularyError, match=r"weight must lie within ±1e\+17, got .*; distances would overflow"):
        Vocabulary(rows * 1e20)


def test_noise_that_is_too_strong_is_named_with_a_strength_that_is_not():
    rows = torch.randn(300, 24)
    vocabulary = Vocabulary(rows)
    method = DiscretizedIntegratedGradients(lambda x: x.sum(dim=(1, 2)), MonotonicPath(vocabulary, "greedy", 3, 20))
    inputs, baselines = rows[:12].view(2, 6, 24), rows[-1].expand(2, 6, 24)
    with pytest.raises(VocabularyError, match="where noise was added to rows, as NoiseTunnel does, add less") as caught:
        NoiseTunnel(method).attribute(inputs, baselines=baselines, n_steps=4)
    stdevs = float(re.search(r"stdevs=([\d.e-]+);", str(caught.value))[1])
    assert NoiseTunnel(method).attribute(inputs, baselines=baselines, n_steps=4, stdevs=stdevs).shape == inputs.shape
