"""Every task against the same question asked by hand through Captum's layer class."""

import re

import pytest
import torch
from captum.attr import IntegratedGradients, LayerIntegratedGradients, LLMGradientAttribution, TextTokenInput
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertForQuestionAnswering,
    BertForSequenceClassification,
    BertForTokenClassification,
    FillMaskPipeline,
    GPT2Config,
    GPT2LMHeadModel,
    TextGenerationPipeline,
    TokenClassificationPipeline,
    ZeroShotClassificationPipeline,
)

from captum_dig import (
    LayerDiscretizedIntegratedGradients,
    ModelError,
    StraightLine,
    TextAttribution,
    TextExplainer,
    compare,
)
from captum_dig.catalogue import CATALOGUE
from captum_dig.tasks.continuation import ContinuationTask
from captum_dig.tasks.labels import LabelTask
from captum_dig.tasks.masked import MaskedWordTask
from captum_dig.tasks.spans import SpanTask
from captum_dig.tasks.tokens import TokenTask
from captum_dig.tasks.zero_shot import ZeroShotTask
from captum_dig.testing import check_task
from tests.tiny_models import TINY, tiny_tokenizer

PREMISE, HYPOTHESIS = "a gorgeous film", "the plot was dull"
QUESTION, CONTEXT = "was the plot dull?", "the plot was dull and slow but the music is great"
NLI = ("contradiction", "neutral", "entailment")
STEPS = 64


@pytest.fixture(scope="module")
def tokenizer():
    found = tiny_tokenizer()
    found.model_input_names = ["input_ids", "token_type_ids", "attention_mask"]
    return found


@pytest.fixture(scope="module")
def plain():
    """Without token types, which language models have none of."""
    return tiny_tokenizer()


def bert(kind, tokenizer, **changes):
    torch.manual_seed(3)
    return kind(BertConfig(vocab_size=len(tokenizer), **TINY, **changes)).eval()


@pytest.fixture(scope="module")
def models(tokenizer):
    torch.manual_seed(3)
    gpt = GPT2Config(
        vocab_size=len(tokenizer), n_embd=16, n_layer=2, n_head=2, n_positions=40, initializer_range=0.4,
        bos_token_id=2, eos_token_id=3, pad_token_id=0,
    )  # fmt: skip
    tags = {0: "O", 1: "B-PER", 2: "I-PER", 3: "B-LOC", 4: "I-LOC"}
    return {
        "labels": bert(BertForSequenceClassification, tokenizer, id2label={0: "NO", 1: "YES"}),
        "zero_shot": bert(
            BertForSequenceClassification,
            tokenizer,
            id2label=dict(enumerate(NLI)),
            label2id={label: i for i, label in enumerate(NLI)},
        ),
        "tokens": bert(BertForTokenClassification, tokenizer, id2label=tags),
        "spans": bert(BertForQuestionAnswering, tokenizer),
        "masked_word": bert(BertForMaskedLM, tokenizer),
        "continuation": GPT2LMHeadModel(gpt).eval(),
    }


SAMPLES = {
    "labels": [{"text": PREMISE, "text_pair": HYPOTHESIS}, "dull"],
    "zero_shot": ["the plot was dull and slow", "a film"],
    "tokens": ["the plot was dull and slow", "a film"],
    "spans": [{"question": QUESTION, "context": CONTEXT}, {"question": "was it?", "context": "a film"}],
    "masked_word": ["the plot was [MASK] and slow", "a [MASK] film"],
    "continuation": [{"text": PREMISE, "continuation": " with music"}, {"text": "a", "continuation": " film"}],
}
OPTIONS = {"zero_shot": {"task": "zero_shot", "labels": ("good", "bad"), "template": "it is a {} film"}}
KINDS = {
    "labels": LabelTask,
    "zero_shot": ZeroShotTask,
    "tokens": TokenTask,
    "spans": SpanTask,
    "masked_word": MaskedWordTask,
    "continuation": ContinuationTask,
}


def explainer(models, tokenizer, name, **options):
    tokenizer = tiny_tokenizer() if name == "continuation" else tokenizer
    return TextExplainer(models[name], tokenizer, strategy="straight_line", **OPTIONS.get(name, {}) | options)


def one(result):
    return result[0] if isinstance(result, list) else result


@pytest.mark.parametrize("name", SAMPLES)
def test_the_task_follows_from_the_class_of_the_model(models, tokenizer, name):
    assert type(explainer(models, tokenizer, name).task) is KINDS[name]


def test_every_task_of_the_catalogue_is_tested():
    # Two have files of their own.
    assert set(CATALOGUE.names("task")) == {*SAMPLES, "sequence", "similarity"}


@pytest.mark.parametrize("name", SAMPLES)
def test_every_task_keeps_its_contract(models, tokenizer, name):
    options = {key: value for key, value in OPTIONS.get(name, {}).items() if key != "task"}
    own = explainer(models, tokenizer, name).encoder.tokenizer
    check_task(KINDS[name], models[name], own, SAMPLES[name], **options)


@pytest.mark.parametrize("name", SAMPLES)
def test_a_batch_equals_single_texts_and_results_come_back_from_json(models, tokenizer, name):
    explain = explainer(models, tokenizer, name).explain
    together = explain(SAMPLES[name], n_steps=8)
    alone = [result for sample in SAMPLES[name] for result in [explain(sample, n_steps=8)]]
    alone = [result for each in alone for result in (each if isinstance(each, list) else [each])]
    assert len(together) == len(alone)
    for both in zip(together, alone, strict=True):
        assert both[0].token_scores == pytest.approx(both[1].token_scores, abs=1e-5)
        assert (both[0].text, both[0].span, both[0].target_label) == (both[1].text, both[1].span, both[1].target_label)
        assert TextAttribution.from_dict(both[0].to_dict()) == both[0]


def test_other_options_of_a_task_are_another_question(models, tokenizer):
    def fingerprint(**options):
        return explainer(models, tokenizer, "zero_shot", **options).fingerprint

    assert fingerprint() == fingerprint()
    different = [{}, {"template": "it is {}"}, {"labels": "good,awful"}, {"output": "probability"}]
    assert len({fingerprint(**options) for options in different}) == len(different)


# ------------------------------------------------------------------------------ by hand, through Captum


def by_hand(model, forward, ids, fixed, mask=None, **inputs):
    """Token scores of Integrated Gradients from padding, with Captum's class and a forward of one number a row."""
    ids = torch.tensor([ids])
    baseline = torch.where(torch.tensor([fixed]), ids, 0)
    layer = LayerIntegratedGradients(lambda rows: forward(model(rows, **inputs)), model.get_input_embeddings())
    return layer.attribute(ids, baseline, n_steps=STEPS).sum(dim=-1)[0].tolist()


def check(result, model, forward, **inputs):
    expected = by_hand(model, forward, result.token_ids, result.special, **inputs)
    assert result.token_scores == pytest.approx(expected, abs=1e-5)
    with torch.no_grad():
        value = float(forward(model(torch.tensor([result.token_ids]), **inputs))[0])
    assert result.input_value == pytest.approx(value, abs=1e-5)


def pair(tokenizer, one, other):
    return tokenizer(one, other, return_tensors="pt")


def explained(models, tokenizer, name, *texts, options=None, **arguments):
    explain = explainer(models, tokenizer, name, **options or {}).explain
    return explain(*texts, n_steps=STEPS, method="gausslegendre", **arguments)


@pytest.mark.parametrize("fields", [None, "text", "text_pair"])
def test_pairs(models, tokenizer, fields):
    batch = pair(tokenizer, PREMISE, HYPOTHESIS)
    result = explained(
        models,
        tokenizer,
        "labels",
        PREMISE,
        text_pair=HYPOTHESIS,
        target="YES",
        options={"fields": fields, "output": "logit"},
    )
    assert list(result.token_ids) == batch.input_ids[0].tolist()
    check(result, models["labels"], lambda o: o.logits[:, 1], token_type_ids=batch.token_type_ids)
    scored = {"text": PREMISE, "text_pair": HYPOTHESIS} if fields is None else {fields: None}
    words = [word for name in scored for word in {"text": PREMISE, "text_pair": HYPOTHESIS}[name].split()]
    assert list(result.words) == words
    assert [result.text[start:end] for _, start, end in result.fields] == [PREMISE, HYPOTHESIS]
    # The types are those of the pair: of two texts in one field they would be others.
    assert batch.token_type_ids.unique().tolist() == [0, 1]


@pytest.mark.parametrize("target", ["good", "bad"])
def test_zero_shot(models, tokenizer, target):
    text, hypothesis = "the plot was dull and slow", f"it is a {target} film"
    batch = pair(tokenizer, text, hypothesis)
    result = explained(models, tokenizer, "zero_shot", text, target=target)
    assert list(result.token_ids) == batch.input_ids[0].tolist()
    assert list(result.words) == text.split()
    check(result, models["zero_shot"], lambda o: o.logits[:, 2] - o.logits[:, 0], token_type_ids=batch.token_type_ids)
    pipeline = ZeroShotClassificationPipeline(model=models["zero_shot"], tokenizer=tokenizer)
    found = pipeline(text, candidate_labels=["good", "bad"], hypothesis_template="it is a {} film")
    assert dict(zip(result.labels, result.probabilities, strict=True)) == pytest.approx(
        dict(zip(found["labels"], found["scores"], strict=True)), abs=1e-5
    )


def test_entities(models, tokenizer):
    text = "the plot was dull and slow"
    results = explained(models, tokenizer, "tokens", text)
    found = TokenClassificationPipeline(model=models["tokens"], tokenizer=tokenizer, aggregation_strategy="first")(text)
    assert [(r.target_label, r.span) for r in results] == [(f["entity_group"], (f["start"], f["end"])) for f in found]
    names = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
    for result in results:
        words = [1 + n for n, (a, b) in enumerate(result.word_offsets) if result.span[0] <= a and b <= result.span[1]]
        with torch.no_grad():
            labels = models["tokens"](torch.tensor([result.token_ids])).logits[0, words].argmax(dim=1).tolist()
        assert {names[label][2:] for label in labels} == {result.target_label}

        def forward(output, words=words, labels=labels):
            picked = output.logits[:, words]
            index = torch.tensor(labels).expand(len(picked), -1)[:, :, None]
            others = picked.scatter(2, index, -torch.inf).logsumexp(dim=2)
            return (picked.gather(2, index)[:, :, 0] - others).mean(dim=1)

        check(result, models["tokens"], forward)


def test_a_word_and_its_other_label(models, tokenizer):
    text = "the plot was dull and slow"
    (result,) = explained(models, tokenizer, "tokens", text, target="plot", options={"output": "logit"})
    assert result.text[slice(*result.span)] == "plot"
    tag = result.target_label
    other = "LOC" if tag != "LOC" else "PER"
    names = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
    with torch.no_grad():
        label = int(models["tokens"](torch.tensor([result.token_ids])).logits[0, 2].argmax())
    check(result, models["tokens"], lambda o: o.logits[:, 2, label])
    (against,) = explained(
        models, tokenizer, "tokens", text, target="plot", contrast=other, options={"output": "logit"}
    )
    begin = names.index(f"B-{other}")
    check(against, models["tokens"], lambda o: o.logits[:, 2, label] - o.logits[:, 2, begin])
    assert explained(models, tokenizer, "tokens", text, target="plot", contrast=tag) == []


@pytest.mark.parametrize("output", ["log_probability", "start", "end", "logit"])
def test_answers(models, tokenizer, output):
    batch = pair(tokenizer, QUESTION, CONTEXT)
    result = explained(
        models, tokenizer, "spans", question=QUESTION, context=CONTEXT, target="dull and", options={"output": output}
    )
    context = [i for i, number in enumerate(batch.sequence_ids()) if number == 1]
    first = batch.char_to_token(0, CONTEXT.index("dull"), 1) - context[0]
    last = batch.char_to_token(0, CONTEXT.index("and"), 1) - context[0]

    def forward(o):
        start, end = o.start_logits[:, context], o.end_logits[:, context]
        if output == "logit":
            return start[:, first] + end[:, last]
        numbers = {"start": start.log_softmax(1)[:, first], "end": end.log_softmax(1)[:, last]}
        return numbers.get(output, sum(numbers.values()))

    check(result, models["spans"], forward, token_type_ids=batch.token_type_ids)
    assert result.text[slice(*result.span)] == "dull and"


def test_the_predicted_answer_is_the_most_probable_span(models, tokenizer):
    result = explained(models, tokenizer, "spans", question=QUESTION, context=CONTEXT)
    batch = pair(tokenizer, QUESTION, CONTEXT)
    context = [i for i, number in enumerate(batch.sequence_ids()) if number == 1]
    with torch.no_grad():
        o = models["spans"](**batch)
    start, end = (logits[0, context].softmax(0) for logits in (o.start_logits, o.end_logits))
    scores = {
        (a, b): float(start[a] * end[b]) for a in range(len(context)) for b in range(a, min(a + 15, len(context)))
    }
    a, b = max(scores, key=scores.get)
    words = [batch.token_to_chars(0, context[i]) for i in (a, b)]
    assert result.target_label == CONTEXT[words[0].start : words[1].end]
    assert result.target_probability == pytest.approx(scores[a, b], abs=1e-6)


def test_a_long_context_is_read_in_windows_that_overlap(models, tokenizer):
    long = "the plot was dull and slow " * 9 + "but the acting was great"
    explain = explainer(models, tokenizer, "spans").explain
    result = explain(question=QUESTION, context=long, overflow="windows", n_steps=8)
    assert isinstance(result, TextAttribution)
    assert result.text[result.start : result.start] == ""
    window = result.text[result.fields[1].start :]
    assert long[result.start :].startswith(window)
    asked = explain(question=QUESTION, context=long, target="acting was great", overflow="windows", n_steps=8)
    assert asked.target_label == "acting was great"
    with pytest.warns(UserWarning, match="more than the 32 that the model reads"):
        cut = explain(question=QUESTION, context=long, n_steps=8)
    assert cut.tokens[: len(tokenizer(QUESTION).input_ids)] == tuple(
        tokenizer.convert_ids_to_tokens(tokenizer(QUESTION).input_ids)
    )


def test_a_masked_word(models, tokenizer):
    text = "the plot was [MASK] and slow"
    result = explained(models, tokenizer, "masked_word", text)
    place = result.tokens.index("[MASK]")
    (found, *others) = FillMaskPipeline(model=models["masked_word"], tokenizer=tokenizer)(text)
    assert result.target_label == found["token_str"].strip()
    assert result.labels[1:] == tuple(other["token_str"].strip() for other in others)
    assert result.probabilities == pytest.approx([found["score"], *(other["score"] for other in others)], abs=1e-5)
    good, bad = (tokenizer.convert_tokens_to_ids(word) for word in ("good", "bad"))
    both = explained(models, tokenizer, "masked_word", text, target="good", contrast="bad", options={"output": "logit"})
    check(both, models["masked_word"], lambda o: o.logits[:, place, good] - o.logits[:, place, bad])
    assert both.settings.contrast == "bad"


def test_a_continuation(models, tokenizer):
    result = explained(models, tokenizer, "continuation", PREMISE, continuation=" with music")
    ids = tokenizer.convert_tokens_to_ids(["with", "music"])
    assert result.token_ids[-2:] == tuple(ids)
    n = len(result.token_ids)

    def forward(o):
        logs = o.logits.log_softmax(dim=2)
        return logs[:, n - 3, ids[0]] + logs[:, n - 2, ids[1]]

    check(result, models["continuation"], forward)
    assert list(result.words) == PREMISE.split()
    assert result.text == f"{PREMISE} with music"
    each = explained(models, tokenizer, "continuation", PREMISE, continuation=" with music", target="tokens")
    assert [one.target_label for one in each] == ["with", "music"]
    check(each[1], models["continuation"], lambda o: o.logits.log_softmax(dim=2)[:, n - 2, ids[1]])
    total = [sum(scores) for scores in zip(*(one.token_scores for one in each), strict=True)]
    assert result.token_scores == pytest.approx(total, abs=1e-4)


def test_token_types_that_a_model_looks_up_among_words(models, tokenizer):
    # GPT-2 adds the embedding of word 0 to every token; it stays on the whole path.
    model = models["continuation"]
    result = TextExplainer(model, tokenizer, strategy="straight_line").explain(
        PREMISE, continuation=" with music", n_steps=STEPS, method="gausslegendre"
    )
    n = len(result.token_ids)
    ids = result.token_ids[-2:]
    types = torch.zeros(1, n, dtype=torch.int64)

    def number(output):
        logs = output.logits.log_softmax(dim=2)
        return logs[:, n - 3, ids[0]] + logs[:, n - 2, ids[1]]

    embed, fixed = model.get_input_embeddings(), torch.tensor([result.special])
    row = torch.tensor([result.token_ids])
    inputs, baselines = embed(row).detach(), embed(torch.where(fixed, row, 0)).detach()

    def forward(rows):
        return number(model(inputs_embeds=rows, token_type_ids=types.expand(len(rows), -1)))

    expected = IntegratedGradients(forward).attribute(inputs, baselines, n_steps=STEPS).sum(dim=-1)[0]
    assert result.token_scores == pytest.approx(expected.tolist(), abs=1e-5)


def test_only_the_needed_logits_are_computed(models, tokenizer, monkeypatch):
    model, seen = models["continuation"], []
    hook = model.lm_head.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0].shape[1]))
    try:
        explained(models, tokenizer, "continuation", PREMISE, continuation=" with music")
    finally:
        hook.remove()
    # The first call chooses; the others see the positions before the two tokens.
    assert seen[0] > 2
    assert set(seen[1:]) == {2}


def test_a_model_without_that_argument_is_explained_all_the_same(models, tokenizer):
    class Plain(GPT2LMHeadModel):
        def forward(self, input_ids, attention_mask=None):
            return super().forward(input_ids, attention_mask=attention_mask)

    plain = Plain(models["continuation"].config).eval()
    plain.load_state_dict(models["continuation"].state_dict())
    sample = {"text": PREMISE, "continuation": " with music"}
    one, other = (
        TextExplainer(model, tiny_tokenizer(), strategy="straight_line").explain([sample, SAMPLES["continuation"][1]])
        for model in (plain, models["continuation"])
    )
    for both in zip(one, other, strict=True):
        assert both[0].token_scores == pytest.approx(both[1].token_scores, abs=1e-5)


def test_a_continuation_agrees_with_captums_class_for_language_models(models):
    model, tokenizer = models["continuation"], tiny_tokenizer()
    # Captum reads the tokens around the text as words, so they are skipped.
    skipped = [tokenizer.cls_token, tokenizer.sep_token]
    tokenizer.backend_tokenizer.post_processor = None
    layer = LayerDiscretizedIntegratedGradients(model, model.transformer.wte, StraightLine())
    prompt = TextTokenInput(PREMISE, tokenizer, baselines=tokenizer.pad_token_id, skip_tokens=skipped)
    got = LLMGradientAttribution(layer, tokenizer).attribute(prompt, target=" with music", n_steps=STEPS)
    explain = TextExplainer(model, tokenizer, strategy="straight_line").explain
    each = explain(PREMISE, continuation=" with music", target="tokens", n_steps=STEPS, method="gausslegendre")
    words = len(PREMISE.split())
    for row, result in zip(got.token_attr, each, strict=True):
        expected = torch.tensor(result.token_scores[:words])
        assert float((row - expected).abs().sum() / expected.abs().sum()) < 0.01


TEMPLATE = (
    "{% for m in messages %}[CLS] {{ m['role'] }} : {{ m['content'] | trim }} [SEP] {% endfor %}"
    "{% if add_generation_prompt %}[CLS] script : {% endif %}"
)


@pytest.mark.parametrize("system", [None, "a film is a film"])
def test_a_chat_scores_the_message_of_the_user_alone(models, system):
    model, tokenizer = models["continuation"], tiny_tokenizer()
    tokenizer.chat_template = TEMPLATE
    explain = TextExplainer(model, tokenizer, strategy="straight_line", chat=True, system=system).explain
    result = explain(" a film ", continuation="great music", n_steps=STEPS, method="gausslegendre")
    messages = [{"role": "user", "content": "a film"}]
    messages[:0] = [] if system is None else [{"role": "system", "content": system}]
    prompt = tokenizer.apply_chat_template(messages, add_generation_prompt=True)["input_ids"]
    assert list(result.token_ids[: len(prompt)]) == prompt
    assert result.words == ("a", "film")
    assert result.text.count("a film") == (1 if system is None else 3)
    # The scored words are those of the user, which come last.
    assert result.word_offsets[0][0] == result.text.rindex("a film")
    ids = tokenizer.convert_tokens_to_ids(["great", "music"])
    n = len(prompt)

    def forward(o):
        logs = o.logits.log_softmax(dim=2)
        return logs[:, n - 1, ids[0]] + logs[:, n, ids[1]]

    check(result, model, forward)
    assert [name for name, _, _ in result.fields] == ["template", "text", "template", "continuation"]


def test_chats_that_cannot_be(models):
    tokenizer = tiny_tokenizer()
    with pytest.raises(ModelError, match="tokenizer must have a chat template for chat=True, got "):
        TextExplainer(models["continuation"], tokenizer, chat=True)
    tokenizer.chat_template = "{{ messages[0]['content'] | upper }}"
    with pytest.raises(ValueError, match="the text must stand in the chat template as it is, got 'film'"):
        TextExplainer(models["continuation"], tokenizer, chat=True).explain("film", continuation="a")
    with pytest.raises(ValueError, match="must stand in the chat template as it is, got ' '"):
        TextExplainer(models["continuation"], tokenizer, chat=True).explain(" ", continuation="a")


def test_a_language_model_without_a_padding_token(models, monkeypatch):
    tokenizer, model = tiny_tokenizer(), models["continuation"]
    tokenizer.pad_token, tokenizer.eos_token = None, "[SEP]"
    monkeypatch.setattr(model.config, "pad_token_id", None)
    explainer = TextExplainer(model, tokenizer, strategy="straight_line")
    samples = SAMPLES["continuation"]
    together = explainer.explain(samples, n_steps=8)
    for sample, result in zip(samples, together, strict=True):
        assert result.settings.baseline == "[SEP]"
        assert result == explainer.explain(sample, baseline="eos", n_steps=8)
    # It reads many rows at once all the same: they have one length.
    assert explainer.rows_at_once(16) == 16
    written = explainer.explain(PREMISE, n_steps=8)
    assert written.text.startswith(PREMISE)


def test_a_continuation_that_the_model_writes(models, tokenizer):
    result = explainer(models, tokenizer, "continuation", max_new_tokens=3).explain(PREMISE, n_steps=8)
    n = len(tokenizer(PREMISE).input_ids) - 1
    prompt = torch.tensor([list(result.token_ids[:n])])
    written = models["continuation"].generate(prompt, max_new_tokens=3, do_sample=False, pad_token_id=0)[0]
    assert list(result.token_ids) == written.tolist()
    assert result.text.startswith(PREMISE)


def test_a_continuation_that_begins_inside_a_word(models, plain):
    explain = TextExplainer(models["continuation"], plain, strategy="straight_line").explain
    result = explain("a love", continuation="ly film", n_steps=4)
    assert result.text == "a lovely film"
    assert result.text[slice(*result.span)] == "ly film"


def test_a_model_writes_no_more_than_it_reads(models, tokenizer):
    result = explainer(models, tokenizer, "continuation", max_new_tokens=100).explain("a " * 28, n_steps=4)
    assert len(result.token_ids) <= 32


def test_pipelines(models, tokenizer):
    for pipeline, name, options in (
        (TokenClassificationPipeline, "tokens", {}),
        (FillMaskPipeline, "masked_word", {}),
        (TextGenerationPipeline, "continuation", {}),
        (ZeroShotClassificationPipeline, "zero_shot", {"labels": "good, bad"}),
    ):
        made = pipeline(model=models[name], tokenizer=tokenizer)
        assert type(TextExplainer.from_pipeline(made, **options).task) is KINDS[name]


@pytest.mark.parametrize("name", SAMPLES)
def test_a_folder_tells_its_task(models, tokenizer, tmp_path, name):
    models[name].save_pretrained(tmp_path)
    explainer(models, tokenizer, name).encoder.tokenizer.save_pretrained(tmp_path)
    options = OPTIONS.get(name, {})
    loaded = TextExplainer.from_pretrained(tmp_path, strategy="straight_line", **options)
    assert type(loaded.task) is KINDS[name]
    sample = SAMPLES[name][0]
    expected = one(explainer(models, tokenizer, name).explain(sample, n_steps=8))
    assert one(loaded.explain(sample, n_steps=8)).token_scores == pytest.approx(expected.token_scores, abs=1e-5)


@pytest.mark.parametrize("name", [name for name in SAMPLES if name != "labels"])
def test_comparisons(models, tokenizer, name):
    compared = compare(
        explainer(models, tokenizer, name), SAMPLES[name][:1], ["straight_line", "leave_one_out"], n_steps=4,
        n_curve_texts=0,
    )  # fmt: skip
    assert compared.values("comprehensiveness", "straight_line").shape == (1,)


# ---------------------------------------------------------------------------------------- bad input

WRONG = [
    ("labels", {"texts": {"text_pair": "bad"}}, TypeError, "the text must have 'text'"),
    ("labels", {"texts": "good", "options": {"fields": "text_pair"}}, ValueError, "must have a field to score"),
    ("zero_shot", {"texts": "good", "target": "great"}, ValueError, "target must be 'predicted', one of 'good', 'bad'"),
    ("zero_shot", {"texts": "good", "overflow": "windows"}, ValueError, "where a text is compared with labels"),
    ("zero_shot", {"texts": "good", "options": {"labels": ()}}, ValueError, "labels must hold at least one label"),
    ("zero_shot", {"texts": "good", "options": {"labels": "a,a"}}, ValueError, "each once, got"),
    ("zero_shot", {"texts": "good", "options": {"template": "x"}}, ValueError, "template must hold {} in the place"),
    ("zero_shot", {"texts": "good", "contrast": "bad"}, ValueError, "contrast must be None for ZeroShotTask"),
    ("tokens", {"texts": "good", "target": 3}, ValueError, "or words of the text, got 3"),
    ("tokens", {"texts": "good", "target": "bad"}, ValueError, "got 'bad', which 'good' does not hold"),
    ("tokens", {"texts": "good", "contrast": "ORG"}, ValueError, "contrast must be one of 'O', 'PER', 'LOC', got"),
    ("spans", {"texts": "good"}, TypeError, "must be a mapping with 'question' and 'context', got a string"),
    ("spans", {"texts": {"question": "a"}}, TypeError, "the text must have 'context'"),
    ("spans", {"question": "a", "context": ""}, ValueError, "context must hold at least one token"),
    ("spans", {"question": "a", "context": "b", "target": "c"}, ValueError, "which the context does not hold"),
    ("spans", {"question": "a " * 40, "context": "b"}, ValueError, "question of the text must leave room for context"),
    ("masked_word", {"texts": "good"}, ValueError, "once for a masked language model, got 'good'"),
    ("masked_word", {"texts": "a [MASK]", "target": "gorgeously"}, ValueError, "which is 2 tokens or unknown"),
    ("masked_word", {"texts": "[MASK]", "target": "a", "contrast": "a"}, ValueError, "contrast must be another word"),
    ("continuation", {"texts": "", "continuation": "a"}, ValueError, "must hold a word to explain before the cont"),
    ("continuation", {"texts": "a", "continuation": ""}, ValueError, "must give at least one token, got ''"),
    ("continuation", {"texts": "a " * 30, "continuation": "a " * 9}, ValueError, "with its continuation must fit the"),
    ("continuation", {"texts": "a " * 40}, ValueError, "must fit the model, got 10 tokens more than it reads; shorten"),
    ("continuation", {"texts": "a", "target": "b"}, ValueError, "'tokens' for each of its tokens, got 'b'"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "arguments", "error", "message"), WRONG)
def test_wrong_arguments(models, tokenizer, name, arguments, error, message):
    options = arguments.get("options", {})
    given = {key: value for key, value in arguments.items() if key != "options"}
    with pytest.raises(error, match=re.escape(message)):
        explainer(models, tokenizer, name, **options).explain(n_steps=4, **given)


def test_models_that_do_not_fit(models, tokenizer):
    with pytest.raises(ModelError, match="model must have a label that begins with 'entail'"):
        TextExplainer(models["labels"], tokenizer, task="zero_shot", labels="a,b")
    for task, other in (("tokens", "labels"), ("masked_word", "labels"), ("continuation", "labels")):
        made = TextExplainer(models[other], tokenizer, task=task, strategy="straight_line")
        with pytest.raises(ModelError, match="model must give logits of shape"):
            made.explain({"text": "a [MASK] film"} | ({"continuation": "a"} if task == "continuation" else {}))
    with pytest.raises(ModelError, match="model must give start_logits of shape"):
        TextExplainer(models["labels"], tokenizer, task="spans").explain(question="a", context="b", n_steps=4)
    plain = tiny_tokenizer()
    plain.mask_token = None
    with pytest.raises(ModelError, match="tokenizer must have a mask token, got .* without one"):
        TextExplainer(models["masked_word"], plain)


def test_a_text_without_an_entity_has_no_result(models, tokenizer, monkeypatch):
    explain = explainer(models, tokenizer, "tokens").explain
    assert explain("", n_steps=4) == []
    found = explainer(models, tokenizer, "tokens")
    choose = TokenTask.choose
    monkeypatch.setattr(
        TokenTask, "choose", lambda self, output, e, w: choose(self, output, e, w) if "film" in e[0].text else []
    )
    with pytest.warns(UserWarning, match="text 1 has no number to explain, and does not count"):
        compared = compare(found, ["dull", "a film"], ["random"], n_curve_texts=0)
    assert [text.text for text in compared.texts] == ["a film"]
    with pytest.warns(UserWarning, match="text 1 has no number"), pytest.raises(ValueError, match="got 1 without one"):
        compare(found, ["dull"], ["random"], n_curve_texts=0)
    with pytest.raises(ValueError, match="protocols must be 'default' for TokenTask, got 'paper', which deletes"):
        compare(explainer(models, tokenizer, "tokens"), ["a film"], ["random"], protocols=["paper"])


def test_one_continuation_rather_than_another(models, tokenizer):
    result = explained(
        models, tokenizer, "continuation", PREMISE, continuation=" with music", contrast=" with great plot"
    )
    music, great = tokenizer.convert_tokens_to_ids(["music", "great"])
    n = len(result.token_ids)
    check(result, models["continuation"], lambda o: o.logits[:, n - 2, music] - o.logits[:, n - 2, great])
    assert result.labels == ("music", "great")
    assert result.settings.contrast == " with great plot"
    assert result.text[slice(*result.span)] == "music"
    assert "music rather than with great plot" in " ".join(str(result).split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"contrast": " with"}, r"contrast must differ from the continuation in a token that both have, got ' with'"),
        ({"contrast": 3}, r"contrast must be another continuation, such as ' London', got 3$"),
        ({"contrast": " a", "target": "tokens"}, r"target must be 'predicted' beside a contrast, got 'tokens'"),
    ],
)
def test_a_wrong_other_continuation(models, tokenizer, arguments, message):
    with pytest.raises(ValueError, match=message):
        explained(models, tokenizer, "continuation", PREMISE, continuation=" with music", **arguments)
