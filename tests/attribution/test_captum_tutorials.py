"""The flow of Captum's public tutorials with text, on tiny models: a drop-in changes one line of each, and an import.

Each function is a tutorial's code from the model on. Its last argument is the line that changes: how the attribution
method is made.
"""

import pytest
import torch
from captum.attr import (
    LayerIntegratedGradients,
    LLMGradientAttribution,
    TextTokenInput,
    TokenReferenceBase,
    visualization,
)
from captum.attr._utils.input_layer_wrapper import ModelInputWrapper  # noqa: TID251 - as in the tutorial
from tokenizers import processors
from torch import nn
from transformers import BertConfig, BertForQuestionAnswering, LlamaConfig, LlamaForCausalLM

from captum_dig import (
    LayerDiscretizedIntegratedGradients,
    MonotonicPath,
    PathPerInput,
    StaggeredPath,
    StraightLine,
    Vocabulary,
)
from tests.tiny_models import tiny_tokenizer

pytestmark = pytest.mark.filterwarnings("ignore:Multiple layers provided")


def words(layer):
    return MonotonicPath(Vocabulary.from_layer(layer), n_anchors=6, n_neighbors=20)


def summarize(attributions):
    summed = attributions.sum(dim=-1).squeeze(0)
    return summed / summed.norm()


# ------------------------------------------------------------------------ question answering with BERT


def squad(make):
    """Three layers at once: words, segments and positions."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    model = BertForQuestionAnswering(BertConfig(vocab_size=60, max_position_embeddings=32, **sizes)).eval()
    cls, sep, pad = 1, 2, 0
    question, text = [10, 11, 12], [20, 21, 22, 23, 24]
    input_ids = torch.tensor([[cls, *question, sep, *text, sep]])
    ref_input_ids = torch.tensor([[cls, *[pad] * 3, sep, *[pad] * 5, sep]])
    token_type_ids = torch.tensor([[0] * 5 + [1] * 6])
    ref_token_type_ids = torch.zeros_like(token_type_ids)
    position_ids = torch.arange(11)[None]
    ref_position_ids = torch.zeros_like(position_ids)
    attention_mask = torch.ones_like(input_ids)

    def forward(inputs, token_types, positions, mask, position=0):
        prediction = model(inputs, token_type_ids=token_types, position_ids=positions, attention_mask=mask)
        return prediction[position].max(1).values

    embeddings = model.bert.embeddings
    lig = make(forward, [embeddings.word_embeddings, embeddings.token_type_embeddings, embeddings.position_embeddings])
    parts = lig.attribute(
        inputs=(input_ids, token_type_ids, position_ids),
        baselines=(ref_input_ids, ref_token_type_ids, ref_position_ids),
        additional_forward_args=(attention_mask, 0),
        n_steps=300,
    )
    ends = [
        forward(*three, attention_mask, 0).detach()
        for three in (
            (input_ids, token_type_ids, position_ids),
            (ref_input_ids, ref_token_type_ids, ref_position_ids),
        )
    ]
    assert [summarize(part).shape for part in parts] == [(11,)] * 3
    return parts, sum(part.detach().sum() for part in parts) - (ends[0] - ends[1])[0]


# ------------------------------------------------------------------------- sentiment with a convolution


class TextCNN(nn.Module):
    """Convolutions of several widths over embeddings, as in the tutorial, but small."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(50, 12)
        self.convolutions = nn.ModuleList([nn.Conv2d(1, 6, (size, 12)) for size in (2, 3)])
        self.fc = nn.Linear(12, 1)

    def forward(self, text):
        embedded = self.embedding(text).unsqueeze(1)
        pooled = [torch.relu(convolution(embedded)).squeeze(3).amax(dim=2) for convolution in self.convolutions]
        return self.fc(torch.cat(pooled, dim=1))


def imdb(make):
    """A sentence padded to a length, a reference of padding, and a record for the picture."""
    torch.manual_seed(0)
    model = TextCNN().eval()
    pad = 0
    token_reference = TokenReferenceBase(reference_token_idx=pad)
    lig = make(model, model.embedding)
    tokens = ["it", "was", "a", "fantastic", "performance", "!", "pad"]
    input_indices = torch.tensor([[7, 8, 9, 10, 11, 12, pad]])
    reference_indices = token_reference.generate_reference(7, device="cpu").unsqueeze(0)
    probability = torch.sigmoid(model(input_indices)).item()
    attributions, delta = lig.attribute(input_indices, reference_indices, n_steps=500, return_convergence_delta=True)
    record = visualization.VisualizationDataRecord(
        summarize(attributions).detach().numpy(), probability, "pos", "pos", "pos", attributions.sum(), tokens, delta
    )
    assert len(record.word_attributions) == 7
    return (attributions,), delta[0]


# -------------------------------------------------------------------------------- a language model


def llama(make):
    """The half of the tutorial that takes gradients: a prompt's tokens, scored for a given answer."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    tokenizer = tiny_tokenizer()
    # As those of language models, it puts nothing around a text.
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(single="$A")
    config = LlamaConfig(vocab_size=len(tokenizer), max_position_embeddings=64, initializer_range=0.3, **sizes)
    model = LlamaForCausalLM(config).eval()
    lig = make(model, model.model.embed_tokens)
    llm_attr = LLMGradientAttribution(lig, tokenizer)
    inp = TextTokenInput("[CLS] the plot was slow but the music [SEP]", tokenizer, skip_tokens=["[CLS]", "[SEP]"])
    target = "is very lovely"
    attr_res = llm_attr.attribute(inp, target=target, n_steps=200)
    assert attr_res.seq_attr.shape == (7,)
    assert attr_res.token_attr.shape == (3, 7)

    def log_probability(prompt):
        answer = torch.tensor(tokenizer.encode(target))
        with torch.no_grad():
            logits = model(torch.cat([prompt, answer])[None]).logits[0, len(prompt) - 1 : -1]
        return logits.log_softmax(dim=-1)[torch.arange(len(answer)), answer].sum()

    # The words are explained, and go to the row 0; special tokens stay.
    prompt, words_of_it = inp.inp_tensor[0], inp.itp_mask[0]
    without = torch.where(words_of_it, 0, prompt)
    delta = attr_res.seq_attr.sum() - (log_probability(prompt) - log_probability(without))
    return (attr_res.token_attr[..., None],), delta


# ------------------------------------------------------------------------- a question about a picture


class Answerer(nn.Module):
    """A picture's features gated by a question, of a given length."""

    def __init__(self):
        super().__init__()
        self.vision = nn.Conv2d(3, 8, 3)
        self.text = nn.Embedding(30, 8)
        self.answer = nn.Linear(8, 5)

    def forward(self, v, q, q_len):
        read = torch.arange(q.shape[1]) < q_len[:, None]
        question = (self.text(q) * read[..., None]).sum(dim=1)
        return self.answer(torch.tanh(self.vision(v).mean(dim=(2, 3))) * torch.tanh(question))


def vqa(make):
    """An image and a question move together: the layers are the image itself and the embedding of the words."""
    torch.manual_seed(0)
    model = ModelInputWrapper(Answerer().eval())
    lig = make(model, [model.input_maps["v"], model.module.text])
    image, question, length = torch.rand(1, 3, 6, 6), torch.tensor([[4, 5, 6, 0]]), torch.tensor([3])
    q_reference_indices = TokenReferenceBase(reference_token_idx=0).generate_reference(4, device="cpu").unsqueeze(0)
    answer = model(image, question, length).argmax(dim=1)
    parts, delta = lig.attribute(
        inputs=(image, question),
        baselines=(image * 0, q_reference_indices),
        target=answer,
        additional_forward_args=length,
        n_steps=200,
        return_convergence_delta=True,
    )
    assert [part.shape for part in parts] == [(1, 3, 6, 6), (1, 4, 8)]
    return parts, delta[0]


TUTORIALS = {
    squad: lambda layers: [words(layers[0]), StraightLine(), StraightLine()],
    imdb: words,
    llama: words,
    vqa: lambda layers: [StraightLine(), words(layers[1])],
}


@pytest.mark.parametrize("tutorial", TUTORIALS, ids=lambda tutorial: tutorial.__name__)
def test_the_straight_line_is_captums(tutorial):
    captums, _ = tutorial(LayerIntegratedGradients)
    ours, _ = tutorial(lambda model, layers: LayerDiscretizedIntegratedGradients(model, layers, StraightLine()))
    torch.testing.assert_close(list(ours), list(captums), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("tutorial", TUTORIALS, ids=lambda tutorial: tutorial.__name__)
def test_a_path_through_words_is_complete(tutorial):
    path_for = TUTORIALS[tutorial]
    parts, delta = tutorial(lambda model, layers: LayerDiscretizedIntegratedGradients(model, layers, path_for(layers)))
    assert abs(float(delta)) < 0.02 * max(float(part.abs().sum()) for part in parts)


@pytest.mark.parametrize("tutorial", TUTORIALS, ids=lambda tutorial: tutorial.__name__)
def test_a_staggered_path_is_complete(tutorial):
    def staggered(layers):
        path = TUTORIALS[tutorial](layers)
        return StaggeredPath(PathPerInput(*path) if isinstance(path, list) else path, n_orders=2)

    parts, delta = tutorial(lambda model, layers: LayerDiscretizedIntegratedGradients(model, layers, staggered(layers)))
    assert abs(float(delta)) < 0.02 * max(float(part.abs().sum()) for part in parts)
