"""Sequence-to-sequence models: the encoder's text is scored, and the decoder's stays."""

import pytest
import torch
from captum.attr import IntegratedGradients
from transformers import BartConfig, BartForConditionalGeneration, T5Config, T5ForConditionalGeneration

from captum_dig import ModelError, TaskError, TextAttribution, TextExplainer, compare
from captum_dig.tasks.sequence import SequenceTask
from captum_dig.testing import check_task
from tests.tiny_models import tiny_classifier, tiny_tokenizer

TEXT, WRITTEN = "the plot was dull and slow", "great music"
STEPS = 64
SAMPLES = [{"text": TEXT, "continuation": WRITTEN}, {"text": "a film", "continuation": "dull"}]


@pytest.fixture(scope="module")
def tokenizer():
    return tiny_tokenizer()


@pytest.fixture(scope="module", params=["t5", "bart"])
def model(request, tokenizer):
    torch.manual_seed(5)
    if request.param == "t5":
        return T5ForConditionalGeneration(
            T5Config(
                vocab_size=len(tokenizer), d_model=16, d_kv=8, d_ff=32, num_layers=2, num_heads=2, dropout_rate=0.0,
                decoder_start_token_id=0, pad_token_id=0, eos_token_id=3, initializer_factor=1.5,
            )
        ).eval()  # fmt: skip
    return BartForConditionalGeneration(
        BartConfig(
            vocab_size=len(tokenizer), d_model=16, encoder_layers=2, decoder_layers=2, encoder_attention_heads=2,
            decoder_attention_heads=2, encoder_ffn_dim=32, decoder_ffn_dim=32, max_position_embeddings=40, dropout=0.0,
            pad_token_id=0, bos_token_id=2, eos_token_id=3, decoder_start_token_id=3, init_std=0.4,
            forced_eos_token_id=None,
        )
    ).eval()  # fmt: skip


def explain(model, tokenizer, *texts, options=None, **arguments):
    explainer = TextExplainer(model, tokenizer, strategy="straight_line", **options or {})
    return explainer.explain(*texts, n_steps=STEPS, method="gausslegendre", **arguments)


def by_hand(model, tokenizer, text, written):
    """Scores of Captum's class on embeddings, for the log-probability of each written token."""
    batch = tokenizer(text, return_tensors="pt")
    ids = tokenizer(text_target=written)["input_ids"][:-1]
    decoder = torch.tensor([[model.config.decoder_start_token_id, *ids[:-1]]])
    special = set(tokenizer.all_special_ids)
    layer = model.get_input_embeddings()
    ends = layer(batch.input_ids).detach()
    fixed = torch.tensor([i in special for i in batch.input_ids[0].tolist()])
    starts = torch.where(fixed[None, :, None], ends, layer(torch.zeros_like(batch.input_ids)))
    found, values = [], []
    for place, token in enumerate(ids):
        if token in special:
            continue

        def forward(embeddings, place=place, token=token):
            n = len(embeddings)
            logits = model(
                inputs_embeds=embeddings,
                attention_mask=batch.attention_mask.expand(n, -1),
                decoder_input_ids=decoder.expand(n, -1),
            ).logits
            return logits.log_softmax(dim=2)[:, place, token]

        scores = IntegratedGradients(forward).attribute(ends, starts, n_steps=STEPS, method="gausslegendre")
        found.append(scores.sum(dim=2)[0])
        values.append(forward(ends).item())
    return torch.stack(found), values


def test_scores_are_those_by_hand(model, tokenizer):
    expected, values = by_hand(model, tokenizer, TEXT, WRITTEN)
    result = explain(model, tokenizer, TEXT, continuation=WRITTEN)
    assert result.token_scores == pytest.approx(expected.sum(dim=0).tolist(), abs=1e-4)
    assert result.input_value == pytest.approx(sum(values), abs=1e-4)
    assert result.text == f"{TEXT}\n{WRITTEN}"
    assert [tuple(field) for field in result.fields] == [("text", 0, 26), ("continuation", 27, 38)]
    assert result.text[slice(*result.span)] == WRITTEN
    assert list(result.words) == TEXT.split()
    assert TextAttribution.from_dict(result.to_dict()) == result
    each = explain(model, tokenizer, TEXT, continuation=WRITTEN, target="tokens")
    assert [one.target_label for one in each] == ["great", "music"]
    for one, scores, value in zip(each, expected, values, strict=True):
        assert one.token_scores == pytest.approx(scores.tolist(), abs=1e-5)
        assert one.input_value == pytest.approx(value, abs=1e-5)
        assert one.target_probability == pytest.approx(torch.tensor(value).exp().item(), abs=1e-5)


def test_places_of_tokens_for_unknown_words(model, tokenizer):
    each = explain(model, tokenizer, TEXT, continuation="great \U0001f600 music", target="tokens")
    assert [one.target_label for one in each] == ["great", "\U0001f600", "music"]
    assert [one.text[slice(*one.span)] for one in each] == ["great", "\U0001f600", "music"]


def test_the_contract(model, tokenizer):
    check_task(SequenceTask, model, tokenizer, SAMPLES)


def test_batches_and_padding_change_nothing(model, tokenizer):
    together = explain(model, tokenizer, SAMPLES)
    for result, sample in zip(together, SAMPLES, strict=True):
        alone = explain(model, tokenizer, sample)
        assert result.token_scores == pytest.approx(alone.token_scores, abs=1e-5)


def test_a_decoder_that_reads_the_ids_of_the_encoder(model, tokenizer):
    """What the decoder reads is no text to explain, even if it is the same."""
    written = f"{TEXT} a"
    expected, _ = by_hand(model, tokenizer, TEXT, written)
    result = explain(model, tokenizer, TEXT, continuation=written)
    assert result.token_scores == pytest.approx(expected.sum(dim=0).tolist(), abs=1e-4)


def test_the_model_writes_where_nothing_is_given(model, tokenizer, monkeypatch):
    # The words of a model without training may all be padding.
    monkeypatch.setattr(model.generation_config, "suppress_tokens", [0, 1, 2, 3, 4])
    result = explain(model, tokenizer, TEXT, options={"max_new_tokens": 3})
    ids = model.generate(**tokenizer(TEXT, return_tensors="pt"), max_new_tokens=3, do_sample=False)[0, 1:].tolist()
    while ids[-1] in {0, 3}:
        ids.pop()
    assert result.fields[1].name == "continuation"
    assert result.text[result.fields[1].start :] == tokenizer.decode(ids, skip_special_tokens=False).strip()


@pytest.mark.parametrize("strategy", ["staggered", "greedy", "leave_one_out", "gradient_shap", "deeplift"])
def test_every_way_to_score(model, tokenizer, strategy):
    explainer = TextExplainer(model, tokenizer, strategy=strategy, n_anchors=2, n_neighbors=4, candidates="all")
    result = explainer.explain(TEXT, continuation=WRITTEN, n_steps=8)
    assert len(result.words) == 6
    assert any(result.word_scores)


def test_a_comparison(model, tokenizer):
    explainer = TextExplainer(model, tokenizer)
    found = compare(explainer, SAMPLES, ["integrated_gradients", "random"], n_steps=8, n_curve_texts=0)
    assert found.values("log_odds", "random").shape == (2,)


def test_the_task_follows_from_the_class(model, tokenizer, tmp_path):
    assert isinstance(TextExplainer(model, tokenizer).task, SequenceTask)
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    loaded = TextExplainer.from_pretrained(tmp_path)
    assert isinstance(loaded.task, SequenceTask)
    assert loaded.explain(SAMPLES[1], n_steps=8).text == "a film\ndull"


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"texts": " ", "continuation": "a"}, ValueError, "the text must hold a word to explain, got ' '"),
        ({"texts": "a film", "continuation": ""}, ValueError, "must give at least one token, got ''"),
        ({"texts": "a film", "target": "dull"}, ValueError, "target must be 'predicted' for the whole continuation"),
        ({"texts": "a film", "overflow": "windows"}, ValueError, "overflow must be 'truncate' or 'error' where a mo"),
        ({"texts": "a film", "contrast": "dull"}, ValueError, "contrast must be None for SequenceTask"),
        ({"texts": {"context": "a film"}}, TaskError, "must have 'text'"),
    ],
)
def test_wrong_arguments(model, tokenizer, arguments, error, message):
    with pytest.raises(error, match=message):
        TextExplainer(model, tokenizer).explain(**arguments)


def test_a_model_without_a_decoder(tokenizer):
    with pytest.raises(
        ModelError, match=r"must have an encoder and a decoder, .* got DistilBertForSequenceClassification; for"
    ):
        TextExplainer(tiny_classifier(len(tokenizer)), tokenizer, task="sequence")
