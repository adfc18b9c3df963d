"""Arrays computed by the authors' implementation."""

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from captum_dig import MonotonicPath, Vocabulary, upsample

pytestmark = pytest.mark.shared


@pytest.mark.parametrize("name", ["synthetic-small", "synthetic-wide"])
def test_synthetic(shared, name):
    golden = np.load(shared / "golden" / f"{name}.npz", allow_pickle=False)
    rows, neighbors = torch.tensor(golden["embeddings"]), golden["neighbors"]
    words, baseline = torch.tensor(golden["words"]).long(), int(golden["baseline"])
    vocabulary = Vocabulary(rows)
    np.testing.assert_array_equal(vocabulary.neighbors(torch.arange(len(rows)), neighbors.shape[1]), neighbors)
    seen = 0
    for key in golden:
        if not key.endswith("_knots"):
            continue
        strategy, m, factor, _ = key.split("_")
        path = MonotonicPath(vocabulary, strategy, int(m[1:]), neighbors.shape[1])
        np.testing.assert_array_equal(path.anchor_ids(words, baseline), golden[f"{strategy}_{m}_anchors"])
        knots = upsample(path(rows[words][None], rows[baseline].expand(1, len(words), -1)), int(factor[1:]))
        np.testing.assert_allclose(knots[:, 0], golden[key], rtol=0, atol=1e-6)
        seen += 1
    assert seen == sum(key.endswith("_knots") for key in golden) > 0


@pytest.mark.parametrize("strategy", ["greedy", "maxcount"])
def test_a_real_model(shared, strategy):
    golden = np.load(shared / "golden" / "distilbert-sst2.npz", allow_pickle=False)
    weights = load_file(shared / "models" / "distilbert-sst2" / "model.safetensors")
    rows = weights["distilbert.embeddings.word_embeddings.weight"].float()
    ids, baseline = torch.tensor(golden["input_ids"]).long(), int(golden["baseline"])
    path = MonotonicPath(Vocabulary(rows), strategy, int(golden["m"]), int(golden["n_neighbors"]))
    np.testing.assert_array_equal(path.anchor_ids(ids, baseline), golden[f"{strategy}_anchors"])
    knots = path(rows[ids][None], rows[baseline].expand(1, len(ids), -1))
    np.testing.assert_allclose(knots[:, 0], golden[f"{strategy}_knots"], rtol=0, atol=1e-6)
