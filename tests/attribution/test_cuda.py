"""What must hold where there is a GPU: the same numbers, on the GPU."""

import pytest
import torch

from captum_dig import (
    DiscretizedIntegratedGradients,
    LayerDiscretizedIntegratedGradients,
    MonotonicPath,
    StraightLine,
    TextExplainer,
    Vocabulary,
)
from tests.tiny_models import tiny_classifier

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")


@pytest.fixture
def ids():
    return torch.tensor([[2, 30, 40, 50, 3], [2, 31, 3, 0, 0]])


def explain(model, ids, path, dtype=torch.float32):
    device = model.device
    layer = model.get_input_embeddings()
    dig = LayerDiscretizedIntegratedGradients(lambda i, mask: model(i, attention_mask=mask).logits, layer, path)
    return dig.attribute(
        ids.to(device),
        torch.tensor([[2, 0, 0, 0, 3], [2, 0, 3, 0, 0]], device=device),
        target=1,
        additional_forward_args=(ids != 0).to(device),
        internal_batch_size=16,
        return_convergence_delta=True,
    )


@pytest.mark.parametrize("kind", ["straight", "greedy", "maxcount", "random_neighbor"])
def test_layers_give_the_numbers_of_the_processor(tokenizer, ids, kind):
    model = tiny_classifier(len(tokenizer))
    vocabulary = Vocabulary.from_layer(model.get_input_embeddings())
    path = StraightLine() if kind == "straight" else MonotonicPath(vocabulary, kind, 5, 20, seed=1)
    here, here_delta = explain(model, ids, path)
    there, there_delta = explain(model.cuda(), ids, path)
    assert there.device.type == there_delta.device.type == "cuda"
    torch.testing.assert_close(there.cpu(), here, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(there_delta.cpu(), here_delta, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_dtypes(tokenizer, ids, dtype):
    model = tiny_classifier(len(tokenizer), dtype=dtype).cuda()
    path = MonotonicPath(Vocabulary.from_layer(model.get_input_embeddings()), n_anchors=5, n_neighbors=20)
    scores, _ = explain(model, ids, path)
    assert scores.device.type == "cuda"
    assert scores.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    assert scores.isfinite().all()


@pytest.mark.filterwarnings("ignore:n_neighbors = 500 is more than")
def test_the_layers_default_path(tokenizer, ids):
    model = tiny_classifier(len(tokenizer)).cuda()
    dig = LayerDiscretizedIntegratedGradients(lambda i: model(i).logits, model.get_input_embeddings())
    scores, delta = dig.attribute(ids.cuda(), torch.zeros_like(ids).cuda(), target=0, return_convergence_delta=True)
    assert scores.shape == (2, 5, 16)
    assert delta.device.type == "cuda"


def test_inputs_and_model_on_the_gpu_and_the_vocabulary_beside_it():
    rows = torch.randn(50, 4)
    dig = DiscretizedIntegratedGradients(
        lambda x: (x**2).sum(dim=1), MonotonicPath(Vocabulary(rows), n_anchors=3, n_neighbors=20)
    )
    inputs = rows[[3, 4]].cuda()
    scores = dig.attribute(inputs, torch.zeros_like(inputs), n_steps=500)
    assert scores.sum().item() == pytest.approx(inputs.square().sum().item(), rel=1e-3)


def test_text_explainers_agree():
    texts = ["A gorgeous, witty, seductive movie.", "dull"]
    here = TextExplainer.demo(cache=False)
    there = TextExplainer.demo(cache=False)
    there.classifier.model.cuda()
    for one, other in zip(here.explain(texts), there.explain(texts), strict=True):
        assert one.token_scores == pytest.approx(other.token_scores, abs=1e-3)
        assert one.anchors == other.anchors
