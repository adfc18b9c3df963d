"""The protocol with Captum: what its layer attribution does, which this package builds on."""

import torch
from captum.attr import LayerIntegratedGradients
from torch import nn

from captum_dig import LayerDiscretizedIntegratedGradients, StraightLine
from captum_dig._captum import RECORDING_RUNS, logged, unlogged


def test_captum_runs_the_model_on_inputs_and_baselines_before_it_replaces_outputs():
    table = nn.Embedding(9, 4)
    seen = []

    def forward(ids):
        rows = table(ids)
        seen.append((ids.tolist(), torch.equal(rows, table.weight[ids])))
        return rows.sum(dim=(1, 2))

    inputs, baselines = torch.tensor([[1, 2]]), torch.tensor([[0, 0]])
    LayerIntegratedGradients(forward, table).attribute(inputs, baselines, n_steps=3, internal_batch_size=1)
    assert RECORDING_RUNS == 2
    assert seen[:RECORDING_RUNS] == [(inputs.tolist(), True), (baselines.tolist(), True)]
    assert len(seen) > RECORDING_RUNS
    assert not any(kept for _, kept in seen[RECORDING_RUNS:])


def test_a_logged_method_has_its_own_inside():
    def plain():
        return 3

    assert unlogged(logged(plain)) is plain
    assert unlogged(plain) is plain
    assert unlogged(LayerDiscretizedIntegratedGradients.attribute) is not LayerDiscretizedIntegratedGradients.attribute
    assert isinstance(
        LayerDiscretizedIntegratedGradients(len, nn.Embedding(2, 2), StraightLine()), LayerIntegratedGradients
    )
