"""Copies and processes: what is copied or pickled gives the same scores, and shares no lock."""

import copy
import multiprocessing
import os
import pickle  # noqa: TID251 - as what starts worker processes does
import subprocess
import sys

import pytest
import torch

from captum_dig import (
    EnsemblePath,
    LayerDiscretizedIntegratedGradients,
    MonotonicPath,
    NeuronDiscretizedIntegratedGradients,
    StaggeredPath,
    StraightLine,
    TextExplainer,
    UniformPath,
    Vocabulary,
)
from captum_dig.vocabulary.indexes import HalfPrecisionIndex
from tests.tiny_models import tiny_classifier

TEXT = "a witty film, gorgeous acting."

WAYS = [copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))]
every_way = pytest.mark.parametrize("way", WAYS, ids=["copy", "deepcopy", "pickle"])


def make(tokenizer, **options):
    return TextExplainer(
        tiny_classifier(len(tokenizer)),
        tokenizer,
        **{"candidates": "all", "n_anchors": 3, "n_neighbors": 9, **options},
    )


@every_way
@pytest.mark.parametrize("strategy", ["staggered", "straight_line", "greedy", "random_neighbor", "uniform"])
def test_an_explainer_gives_the_same_scores(tokenizer, way, strategy):
    explainer = make(tokenizer, strategy=strategy)
    before = way(explainer)
    expected = explainer.explain(TEXT, n_steps=8)
    assert before.explain(TEXT, n_steps=8) == expected
    assert way(explainer).explain(TEXT, n_steps=8) == expected
    assert explainer.explain(TEXT, n_steps=8) == expected


@pytest.mark.parametrize("candidates", ["words", torch.arange(171) % 2 == 0])
def test_candidates_travel_along(tokenizer, candidates):
    candidates = candidates if isinstance(candidates, str) else candidates[: len(tokenizer)]
    explainer = make(tokenizer, strategy="greedy", candidates=candidates)
    other = pickle.loads(pickle.dumps(explainer))
    assert other.explain(TEXT, n_steps=8) == explainer.explain(TEXT, n_steps=8)


def rows():
    return torch.randn(40, 5, generator=torch.Generator().manual_seed(1))


PATHS = {
    "monotonic": lambda vocabulary: MonotonicPath(vocabulary, n_anchors=3, n_neighbors=5),
    "random": lambda vocabulary: MonotonicPath(vocabulary, "random_anchor", n_anchors=3, n_neighbors=5),
    "uniform": lambda vocabulary: UniformPath(vocabulary, n_anchors=3, n_neighbors=5),
    "staggered": lambda vocabulary: StaggeredPath(MonotonicPath(vocabulary, n_anchors=3, n_neighbors=5)),
    "ensemble": lambda vocabulary: EnsemblePath(
        [StraightLine(), MonotonicPath(vocabulary, "maxcount", n_anchors=3, n_neighbors=5)]
    ),
}


@every_way
@pytest.mark.parametrize("name", PATHS)
def test_a_path_gives_the_same_knots(way, name):
    vocabulary = Vocabulary(rows())
    path = PATHS[name](vocabulary)
    inputs, baselines = vocabulary.rows[[3, 4, 5]][None], vocabulary.rows[[0, 0, 0]][None]
    before = way(path)
    knots = path(inputs, baselines)
    assert torch.equal(before(inputs, baselines), knots)
    assert torch.equal(way(path)(inputs, baselines), knots)


@every_way
@pytest.mark.parametrize("index", ["Flat", "HNSW8", "IVF4,Flat;nprobe=2", "SQ8"])
def test_a_vocabulary_finds_the_same_rows(way, index):
    vocabulary = Vocabulary(rows(), index=index)
    other = way(vocabulary)
    ids = torch.arange(40)
    assert torch.equal(other.rows, vocabulary.rows)
    assert torch.equal(other.neighbors(ids, 5), vocabulary.neighbors(ids, 5))
    assert torch.equal(other.find(rows()), ids)
    assert other.fingerprint == vocabulary.fingerprint


@every_way
def test_a_search_at_half_precision_finds_the_same_rows(way):
    index = HalfPrecisionIndex(rows())
    assert torch.equal(way(index).search(rows(), 3), index.search(rows(), 3))


@every_way
@pytest.mark.parametrize("path", [None, StraightLine()], ids=["words", "straight"])
def test_captums_classes_give_the_same_attributions(way, path):
    model = torch.nn.Sequential(torch.nn.Embedding(9, 4), torch.nn.Flatten(), torch.nn.Linear(8, 2))
    with pytest.warns(UserWarning, match="n_neighbors") if path is None else pytest.MonkeyPatch.context():
        dig = LayerDiscretizedIntegratedGradients(model, model[0], path)
    ids, base = torch.tensor([[3, 4]]), torch.tensor([[0, 0]])
    expected = dig.attribute(ids, base, 1, n_steps=5)
    assert torch.equal(way(dig).attribute(ids, base, 1, n_steps=5), expected)
    neuron = NeuronDiscretizedIntegratedGradients(model[2], model[2], StraightLine())
    assert torch.equal(
        way(neuron).attribute(torch.ones(1, 8), 1, n_steps=5), neuron.attribute(torch.ones(1, 8), 1, n_steps=5)
    )


def explain_elsewhere(explainer, results):
    results.put(explainer.explain(TEXT, n_steps=8).token_scores)


@pytest.mark.slow
def test_a_new_process_gets_an_explainer():
    explainer = TextExplainer.demo(strategy="greedy", n_neighbors=20)
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    process = context.Process(target=explain_elsewhere, args=(explainer, results))
    process.start()
    got = results.get(timeout=120)
    process.join(60)
    assert got == pytest.approx(explainer.explain(TEXT, n_steps=8).token_scores, abs=1e-5)


FORKED = """
import multiprocessing, sys
from captum_dig import TextExplainer
explainer = TextExplainer.demo()
before = explainer.explain("Dull.", n_steps=8).predicted_label

def work(text):
    return explainer.explain(text, n_steps=8).predicted_label

with multiprocessing.get_context("fork").Pool(2) as pool:
    found = pool.map_async(work, ["Dull.", "A gorgeous movie."]).get(timeout=60)
sys.exit(found != [before, "POSITIVE"])
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_pool_that_is_forked_after_an_explanation_explains():
    subprocess.run([sys.executable, "-c", FORKED], check=True, timeout=120, capture_output=True)
