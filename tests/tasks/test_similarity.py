"""Models of embeddings: the similarity of two texts, one of which moves."""

import pytest
import torch
from captum.attr import IntegratedGradients
from transformers import BertConfig, BertModel

from captum_dig import ModelError, TaskError, TextAttribution, TextExplainer, compare
from captum_dig.tasks.similarity import SimilarityTask
from captum_dig.testing import check_task
from tests.tiny_models import TINY, tiny_tokenizer

ONE, OTHER = "the plot was dull and slow", "a boring story"
STEPS = 64
SAMPLES = [{"text": ONE, "text_pair": OTHER}, {"text": "a film", "text_pair": "the music is great"}]


@pytest.fixture(scope="module")
def tokenizer():
    return tiny_tokenizer()


@pytest.fixture(scope="module")
def model(tokenizer):
    torch.manual_seed(2)
    return BertModel(BertConfig(vocab_size=len(tokenizer), **TINY)).eval()


def explain(model, tokenizer, *texts, options=None, **arguments):
    explainer = TextExplainer(model, tokenizer, strategy="straight_line", **options or {})
    return explainer.explain(*texts, n_steps=STEPS, method="gausslegendre", **arguments)


def pooled(output, pooling):
    states = output.last_hidden_state
    return {
        "mean": states.mean(dim=1),
        "cls": states[:, 0],
        "last": states[:, -1],
        "pooler": output.pooler_output,
    }[pooling]


@pytest.mark.parametrize("output", ["cosine", "dot"])
@pytest.mark.parametrize("pooling", ["mean", "cls", "last", "pooler"])
@pytest.mark.parametrize("field", ["text", "text_pair"])
def test_scores_are_those_by_hand(model, tokenizer, pooling, output, field):
    result = explain(model, tokenizer, SAMPLES[0], options={"pooling": pooling, "output": output, "fields": field})
    moving, fixed = (ONE, OTHER) if field == "text" else (OTHER, ONE)
    ids = tokenizer(moving, return_tensors="pt").input_ids
    with torch.no_grad():
        vector = pooled(model(**tokenizer(fixed, return_tensors="pt")), pooling)
    special = torch.tensor([i in set(tokenizer.all_special_ids) for i in ids[0].tolist()])
    layer = torch.nn.Embedding.from_pretrained(model.get_input_embeddings().weight.detach())
    starts = torch.where(special[None, :, None], layer(ids), layer(torch.zeros_like(ids)))

    def forward(embeddings):
        own = pooled(model(inputs_embeds=embeddings), pooling)
        return (own * vector).sum(dim=1) if output == "dot" else torch.cosine_similarity(own, vector, dim=1)

    expected = IntegratedGradients(forward).attribute(layer(ids), starts, n_steps=STEPS, method="gausslegendre")
    assert result.token_scores == pytest.approx(expected.sum(dim=2)[0].tolist(), abs=1e-5)
    assert result.input_value == pytest.approx(forward(layer(ids)).item(), abs=1e-5)
    assert result.text == f"{ONE}\n{OTHER}"
    assert list(result.words) == moving.split()
    assert result.is_regression


def test_both_texts_have_a_result(model, tokenizer):
    both = explain(model, tokenizer, SAMPLES[0])
    assert [list(result.words) for result in both] == [ONE.split(), OTHER.split()]
    assert both[0].input_value == pytest.approx(both[1].input_value, abs=1e-5)
    assert [TextAttribution.from_dict(result.to_dict()) for result in both] == both
    assert "cosine of the two texts" in str(both[0])


def test_the_contract(model, tokenizer):
    check_task(SimilarityTask, model, tokenizer, SAMPLES)
    check_task(SimilarityTask, model, tokenizer, SAMPLES, pooling="last")


def test_batches_and_padding_change_nothing(model, tokenizer):
    together = explain(model, tokenizer, SAMPLES)
    alone = [result for sample in SAMPLES for result in explain(model, tokenizer, sample)]
    for one, other in zip(together, alone, strict=True):
        assert one.token_scores == pytest.approx(other.token_scores, abs=1e-5)


@pytest.mark.parametrize("strategy", ["staggered", "greedy", "leave_one_out", "gradient_shap", "deeplift"])
def test_every_way_to_score(model, tokenizer, strategy):
    explainer = TextExplainer(model, tokenizer, strategy=strategy, n_anchors=2, n_neighbors=4, candidates="all")
    for result in explainer.explain(SAMPLES[0], n_steps=8):
        assert any(result.word_scores)


def test_prefixes_stand_in_the_texts(model, tokenizer):
    (result, _) = explain(model, tokenizer, SAMPLES[0], options={"prefixes": ("a film: ", "")})
    assert result.text == f"a film: {ONE}\n{OTHER}"


def test_the_task_follows_from_the_class(model, tokenizer, tmp_path):
    assert isinstance(TextExplainer(model, tokenizer).task, SimilarityTask)
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    loaded = TextExplainer.from_pretrained(tmp_path, fields="text")
    assert list(loaded.explain(SAMPLES[1], n_steps=8).words) == ["a", "film"]


def test_a_comparison_is_refused(model, tokenizer):
    with pytest.raises(
        ModelError, match="^model must have probabilities, got one of embeddings; a similarity has none"
    ):
        compare(TextExplainer(model, tokenizer), SAMPLES, ["random"], n_steps=8)


@pytest.mark.parametrize(
    ("options", "arguments", "error", "message"),
    [
        (
            {"pooling": "max"},
            {},
            ValueError,
            "pooling must be 'mean', 'cls', 'last' or 'pooler', got 'max'|pooling must be",
        ),
        ({"output": "logit"}, {}, ValueError, "output must be .*, got 'logit'"),
        ({}, {"texts": "a film"}, TaskError, "must be a mapping with 'text' and 'text_pair'"),
        ({}, {"texts": SAMPLES[0], "target": "good"}, ValueError, "target must be 'predicted', one of 'the two texts'"),
        (
            {},
            {"texts": SAMPLES[0], "overflow": "windows"},
            ValueError,
            "overflow must be 'truncate' or 'error' where a",
        ),
    ],
)
def test_wrong_arguments(model, tokenizer, options, arguments, error, message):
    with pytest.raises(error, match=message):
        TextExplainer(model, tokenizer, **options).explain(**arguments)
