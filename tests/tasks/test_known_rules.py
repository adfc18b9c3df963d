"""Tasks whose right explanation is known: a model that follows a rule gets the word that the rule names on top.

Each model is trained in seconds on sentences of random words, in which one word decides.
"""

import random

import pytest
import torch
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    BertConfig,
    BertForMaskedLM,
    BertForQuestionAnswering,
    BertForSequenceClassification,
    BertForTokenClassification,
    BertModel,
    GPT2Config,
    GPT2LMHeadModel,
)

from captum_dig import TextExplainer
from tests.tiny_models import tiny_tokenizer

pytestmark = pytest.mark.slow

FILLERS = [
    "a",
    "the",
    "of",
    "in",
    "it",
    "this",
    "with",
    "for",
    "on",
    "as",
    "at",
    "by",
    "from",
    "movie",
    "film",
    "plot",
    "story",
    "scene",
    "music",
    "script",
]
GOOD, BAD = ["gorgeous", "witty", "great", "lovely", "charming"], ["dull", "boring", "terrible", "awful", "slow"]
N_HELD_OUT, SHARE = 60, 0.95


@pytest.fixture(scope="module")
def tokenizer():
    found = tiny_tokenizer()
    found.model_input_names = ["input_ids", "token_type_ids", "attention_mask"]
    return found


def sentence(rng, special, *, masked=0.0):
    """Fillers with one special word at a random place, of which some are masked; return the words and the place."""
    words = [rng.choice(FILLERS) for _ in range(rng.randint(4, 7))]
    place = rng.randrange(len(words))
    words.insert(place, special)
    return ["[MASK]" if rng.random() < masked else word for word in words], place


def adjective(rng, masked):
    """A sentence with an adjective, its kind, and the adjective; kind 2 where it is masked."""
    kind = rng.randrange(2)
    word = rng.choice((BAD, GOOD)[kind])
    words, place = sentence(rng, word, masked=masked)
    return words, (kind if words[place] == word else 2), word


def pair(rng, masked=0.0):
    """The word in the second text decides, and one in the first does not."""
    first, _, _ = adjective(rng, masked)
    second, kind, word = adjective(rng, masked)
    return {"text": " ".join(first), "text_pair": " ".join(second)}, kind, (word, 1)


def entity(rng, masked=0.0):
    """A word behind "actor" is a person; the same words elsewhere are not."""
    words, place = sentence(rng, "actor", masked=masked)
    return {"text": " ".join(words)}, place + 2 if words[place] == "actor" else None, ("actor", 0)


def answer(rng, masked=0.0):
    """The answer stands behind "best"; without it, it is the first word."""
    words, place = sentence(rng, "best", masked=masked)
    return {"question": "which is it ?", "context": " ".join(words)}, place + 1 if "best" in words else 0, ("best", 1)


def gap(rng, masked=0.0):
    """The word in the place of the mask follows from one adjective."""
    words, kind, word = adjective(rng, masked)
    words.insert(rng.randrange(len(words) + 1), "[MASK]")
    return {"text": " ".join(words)}, ("bad", "good", "new")[kind], (word, 0)


def prompt(rng, masked=0.0):
    """The next word follows from one adjective."""
    words, kind, word = adjective(rng, masked)
    return {"text": " ".join(words), "continuation": f" {('sad', 'funny', 'new')[kind]}"}, kind, (word, 0)


def hypothesis(rng, masked=0.0):
    """A text entails the hypothesis with the word for its adjective."""
    words, kind, word = adjective(rng, masked)
    asked = rng.randrange(2)
    sample = {"text": " ".join(words), "hypothesis": f"it is a {('sad', 'funny')[asked]} film"}
    return sample, 1 if kind == 2 else 2 * int(kind == asked), (word, 0)


def written(rng, masked=0.0):
    """A decoder writes the word that follows from one adjective."""
    words, kind, word = adjective(rng, masked)
    return {"text": " ".join(words), "continuation": ("sad", "funny", "new")[kind]}, kind, (word, 0)


def similar(rng, masked=0.0):
    """Two texts are near each other if their adjectives are of one kind, and far if not."""
    first, kind, word = adjective(rng, masked)
    second, other, _ = adjective(rng, masked)
    near = 0 if 2 in (kind, other) else 1 if kind == other else -1
    return {"text": " ".join(first), "text_pair": " ".join(second)}, near, (word, 0)


def bart(tokenizer):
    return BartForConditionalGeneration(
        BartConfig(
            vocab_size=len(tokenizer), d_model=48, encoder_layers=2, decoder_layers=1, encoder_attention_heads=4,
            decoder_attention_heads=4, encoder_ffn_dim=96, decoder_ffn_dim=96, max_position_embeddings=40, dropout=0.0,
            pad_token_id=0, bos_token_id=2, eos_token_id=3, decoder_start_token_id=3, init_std=0.2,
            forced_eos_token_id=None,
        )
    )  # fmt: skip


def bert(kind, tokenizer, **changes):
    config = BertConfig(
        vocab_size=len(tokenizer), hidden_size=48, num_hidden_layers=2, num_attention_heads=4, intermediate_size=96,
        max_position_embeddings=40, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, initializer_range=0.2,
        **changes,
    )  # fmt: skip
    return kind(config)


def gpt(tokenizer):
    return GPT2LMHeadModel(
        GPT2Config(
            vocab_size=len(tokenizer), n_embd=48, n_layer=2, n_head=4, n_positions=40, resid_pdrop=0.0, embd_pdrop=0.0,
            attn_pdrop=0.0, initializer_range=0.2, bos_token_id=2, eos_token_id=3, pad_token_id=0,
        )
    )  # fmt: skip


def loss_of_writing(model, batch, labels, _):
    return model(input_ids=batch.input_ids, attention_mask=batch.attention_mask, labels=labels.input_ids).loss


def loss_of_similarity(model, one, other, wanted):
    vectors = []
    for batch in (one, other):
        mask = batch.attention_mask[:, :, None]
        vectors.append((model(**batch).last_hidden_state * mask).sum(dim=1) / mask.sum(dim=1))
    cosine = torch.nn.functional.cosine_similarity(*vectors, dim=1)
    return torch.nn.functional.mse_loss(cosine, torch.tensor(wanted, dtype=torch.float32))


def loss(name, model, tokenizer, samples, wanted):
    texts = [list(sample.values()) for sample in samples]
    if name in {"sequence", "similarity"}:
        columns = [tokenizer(list(column), return_tensors="pt", padding=True) for column in zip(*texts, strict=True)]
        return (loss_of_writing if name == "sequence" else loss_of_similarity)(model, *columns, wanted)
    if name == "continuation":
        texts = [["".join(text)] for text in texts]
    batch = tokenizer(*map(list, zip(*texts, strict=True)), padding=True, return_tensors="pt")
    if name == "continuation":
        batch.pop("token_type_ids", None)
    out = model(**batch)
    cross = torch.nn.functional.cross_entropy
    if name in {"labels", "zero_shot"}:
        return cross(out.logits, torch.tensor(wanted))
    rows = torch.arange(len(samples))
    if name == "tokens":
        tags = torch.zeros(out.logits.shape[:2], dtype=torch.long)
        for row, place in enumerate(wanted):
            if place is not None:
                tags[row, place] = 1
        return cross(out.logits[batch.attention_mask.bool()], tags[batch.attention_mask.bool()])
    if name == "spans":
        places = torch.tensor([batch.word_ids(i).index(None, 1) + 1 + word for i, word in enumerate(wanted)])
        return cross(out.start_logits, places) + cross(out.end_logits, places)
    if name == "masked_word":
        words = torch.tensor(tokenizer.convert_tokens_to_ids(list(wanted)))
        masks = batch.input_ids == tokenizer.mask_token_id
        return cross(out.logits[masks], words.repeat_interleave(masks.sum(dim=1)))
    last = batch.attention_mask.sum(dim=1) - 2
    return cross(out.logits[rows, last - 1], batch.input_ids[rows, last])


def trained(name, model, tokenizer, make):
    rng = random.Random(0)
    optimizer = torch.optim.AdamW(model.train().parameters(), lr=5e-4)
    for _ in range(1000):
        # Masked words are known to the model, so that a baseline of them is no surprise.
        samples, wanted, _ = zip(*(make(rng, rng.choice((0.0, 0.3, 0.9))) for _ in range(64)), strict=True)
        optimizer.zero_grad()
        found = loss(name, model, tokenizer, samples, wanted)
        found.backward()
        optimizer.step()
        # Cosines near 1 are hard to reach, and half as near is near enough.
        if found.detach() < (0.04 if name == "similarity" else 0.003):
            return model.eval()
    raise AssertionError(f"not learned: {found}")


CASES = {
    "labels": (
        lambda t: bert(BertForSequenceClassification, t, id2label={0: "BAD", 1: "GOOD", 2: "NEITHER"}),
        pair,
        {},
    ),
    "zero_shot": (
        lambda t: bert(BertForSequenceClassification, t, id2label={0: "contradiction", 1: "neutral", 2: "entailment"}),
        hypothesis,
        {"task": "zero_shot", "labels": ("sad", "funny"), "template": "it is a {} film"},
    ),
    "tokens": (lambda t: bert(BertForTokenClassification, t, id2label={0: "O", 1: "B-PER"}), entity, {}),
    "spans": (lambda t: bert(BertForQuestionAnswering, t), answer, {}),
    "masked_word": (lambda t: bert(BertForMaskedLM, t), gap, {}),
    "continuation": (gpt, prompt, {}),
    "sequence": (bart, written, {}),
    "similarity": (lambda t: bert(BertModel, t), similar, {"fields": "text"}),
}


@pytest.mark.parametrize("name", CASES)
def test_the_word_that_the_rule_names_is_on_top(name, tokenizer):
    make_model, make, options = CASES[name]
    own = tiny_tokenizer() if name in {"continuation", "sequence"} else tokenizer
    torch.manual_seed(0)
    model = trained(name, make_model(own), tokenizer, make)
    explain = TextExplainer(model, own, cache=False, **options).explain
    rng = random.Random(1)
    right = 0
    for _ in range(N_HELD_OUT):
        sample, wanted, (word, field) = make(rng)
        sample.pop("hypothesis", None)
        found = explain(sample, baseline="mask", n_steps=48)
        if found == []:
            continue
        result = found[0] if isinstance(found, list) else found
        # The word makes two texts similar, or different.
        sign = -1 if wanted == -1 else 1
        best = max(range(len(result.words)), key=lambda i: sign * result.word_scores[i])
        begins = result.fields[field].start if result.fields else 0
        ends = result.fields[field].end if result.fields else len(result.text)
        right += result.words[best] == word and begins <= result.word_offsets[best][0] < ends
    print(f"{name}: {right} of {N_HELD_OUT}")
    assert right >= SHARE * N_HELD_OUT
