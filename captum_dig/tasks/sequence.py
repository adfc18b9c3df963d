"""SequenceTask: what a model with an encoder and a decoder writes about a text, such as a translation or a summary.

Takes a text and perhaps a continuation, else the model writes one; gives the places of its tokens in the decoder's
output. `captum_dig.text` makes a `Question` about their log-probability.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from captum_dig.errors import ModelError
from captum_dig.fields import Field
from captum_dig.models.encoding import Encoding, TextEncoder
from captum_dig.models.samples import Overflow
from captum_dig.models.words import Span
from captum_dig.tasks.base import Choice
from captum_dig.tasks.writing import TOKENS, WritingTask, choice_of, places_of, texts_of
from captum_dig.threads import evaluating


class SequenceTask(WritingTask):
    """Explain why a sequence-to-sequence model writes this about a text: a translation, a summary, an answer.

    The explained number is the log-probability of the continuation given the text: the sum over its tokens. The encoder
    reads the text, whose words are scored; the decoder reads the continuation, which stays as it is.

    The target is ``"predicted"`` for the whole continuation, or ``"tokens"`` for a result for each of its tokens. Each
    of these takes as many gradients as the whole.

    Args:
        model: A Hugging Face sequence-to-sequence model, such as a T5, BART or Marian.
        output: ``"log_probability"``, or ``"logit"``, the sum of the logits; None for ``"log_probability"``.
        fields: The fields whose words are scored: ``"text"``, the only one.
        max_new_tokens: The most tokens that the model writes where no continuation is given. It takes the most
            probable token each time.
        tokenizer: The tokenizer. A prefix such as ``"translate English to German: "`` is a part of the text.

    Raises:
        ModelError: If the model has no encoder and decoder, or does not say how the decoder begins.
        ValueError: If `output` or `fields` is something else, or `max_new_tokens` is below 1.
    """

    auto_class = "AutoModelForSeq2SeqLM"
    kind = "sequence-to-sequence model"

    def __init__(
        self,
        model: nn.Module,
        output: str | None = None,
        fields: str | Sequence[str] | None = None,
        max_new_tokens: int = 20,
        tokenizer: Any = None,
    ) -> None:
        super().__init__(model, output, fields, max_new_tokens, tokenizer)
        config: Any = getattr(model, "config", None)
        start = getattr(config, "decoder_start_token_id", None)
        if not getattr(config, "is_encoder_decoder", False) or start is None:
            raise ModelError(
                f"model must have an encoder and a decoder, and decoder_start_token_id in its configuration, "
                f"got {type(model).__name__}; for a causal language model pass task='continuation'"
            )
        self.start = int(start)

    @classmethod
    def classes(cls) -> tuple[str, ...]:
        """Return the ends of the names of Transformers' classes for this task."""
        return ("ForConditionalGeneration", "MarianMTModel")

    def read(self, sample: Mapping[str, str], encoder: TextEncoder, overflow: Overflow, name: str) -> list[Encoding]:
        """Encode a text, and show the continuation on a line of its own.

        Raises:
            ValueError: As in `TextEncoder.encode`; or if the continuation is empty, or the model writes none.
        """
        if overflow == "windows":
            raise ValueError("overflow must be 'truncate' or 'error' where a model writes about the whole text")
        (encoding,) = encoder.encode(sample["text"], overflow, name)
        if not encoding.words:
            raise ValueError(f"{name} must hold a word to explain, got {sample['text']!r}")
        given = sample.get("continuation")
        ids = self._generated(encoding) if given is None else self._tokens(given)
        n_special = self._n_special(ids)
        if len(ids) == n_special:
            told = "none from the model" if given is None else repr(given)
            raise ValueError(f"continuation of {name} must give at least one token, got {told}")
        texts = texts_of(self.tokenizer, ids[:n_special], ids[n_special:])
        shown = texts[-1].strip() if given is None else given
        start = len(encoding.text) + 1
        return [
            replace(
                encoding,
                text=f"{encoding.text}\n{shown}",
                fields=(Field("text", 0, start - 1), Field("continuation", start, start + len(shown))),
                beside=tuple(ids),
            )
        ]

    def choose(self, output: Any, encodings: Sequence[Encoding], wanted: Sequence[Any]) -> list[Choice]:
        """Choose the whole continuation of each text, or each of its tokens."""
        logits = self._logits(output).detach().float()
        choices = []
        for row, (encoding, target) in enumerate(zip(encodings, wanted, strict=True)):
            ids = encoding.beside
            logs = logits[row, : len(ids)].log_softmax(dim=1)
            each = logs.gather(1, torch.tensor(ids, device=logs.device)[:, None])[:, 0].cpu()
            first = self._n_special(ids)
            spans = self._spans(encoding, first)
            numbers = range(first, len(ids))
            for group in [[i] for i in numbers] if target == TOKENS else [list(numbers)]:
                # The tokens before the first are read, and do not count.
                place = (group[0], *ids[: group[-1] + 1])
                own = spans[group[0] - first : group[-1] - first + 1]
                fallback = str(self.tokenizer.decode([ids[group[0]]]))
                choices.append(choice_of(row, place, encoding.text, own, fallback, float(each[group].sum().exp())))
        return choices

    def inputs_for(self, encodings: Sequence[Encoding]) -> dict[str, Tensor]:
        """Give the decoder the tokens of the continuations."""
        width = max([1, *(len(encoding.beside) for encoding in encodings)])
        rows = [[*encoding.beside, *[-1] * (width - len(encoding.beside))] for encoding in encodings]
        return self._decoder(torch.tensor(rows, device=self._device))

    def keywords(self, places: Tensor) -> dict[str, Any]:
        """Give the decoder the tokens of the continuations, and ask for no cache."""
        return self._decoder(places[:, 1:])

    def total(self, output: Any, places: Tensor, *, normalized: bool) -> Tensor:
        """Add the logits or log-probabilities of the tokens of each continuation up."""
        ids = places[:, 1:]
        counts = (ids >= 0) & (torch.arange(ids.shape[1], device=ids.device) >= places[:, :1])
        logits = self._logits(output)[:, : ids.shape[1]]
        numbers = (logits.log_softmax(dim=2) if normalized else logits).gather(2, ids.clamp(min=0)[:, :, None])[:, :, 0]
        return torch.where(counts, numbers, 0).sum(dim=1)

    def _decoder(self, ids: Tensor) -> dict[str, Any]:
        """The input of the decoder for tokens, shape (N, L), -1 where there is none: each is read one place later."""
        start = ids.new_full((len(ids), 1), self.start)
        return {"decoder_input_ids": torch.cat([start, ids[:, :-1].clamp(min=0)], dim=1), "use_cache": False}

    def _generated(self, encoding: Encoding) -> list[int]:
        """The tokens that the model writes, without the one that begins and the one that ends."""
        model: Any = self.model
        inputs = {name: torch.tensor([row], device=model.device) for name, row in encoding.inputs.items()}
        with evaluating(model), torch.no_grad():
            row = model.generate(**inputs, max_new_tokens=self.max_new_tokens, do_sample=False, num_beams=1)[0]
        return self._without_end(row[1:].tolist())

    def _tokens(self, continuation: str) -> list[int]:
        """The tokens of a continuation as the model learned to write it, without the one that ends."""
        return self._without_end(list(self.tokenizer(text_target=continuation, verbose=False)["input_ids"]))

    def _without_end(self, ids: list[int]) -> list[int]:
        """Leave out what ends a text: the end token, and padding."""
        config: Any = self.model.config
        own = config.eos_token_id
        ends = {self.tokenizer.eos_token_id, self.tokenizer.pad_token_id, *(own if isinstance(own, list) else [own])}
        while ids and ids[-1] in ends:
            ids = ids[:-1]
        return ids

    def _spans(self, encoding: Encoding, first: int) -> list[Span]:
        """The places of the tokens of a continuation from the first that counts on, in the shown text."""
        ids, (_, start, end) = encoding.beside, encoding.fields[-1]
        if getattr(self.tokenizer, "is_fast", False):
            read = self.tokenizer(text_target=encoding.text[start:end], return_offsets_mapping=True, verbose=False)
            if tuple(read["input_ids"][: len(ids)]) == ids:
                return [(start + a, start + b) for a, b in read["offset_mapping"][first : len(ids)]]
        # What a model writes may be other tokens than those of its text.
        return places_of(texts_of(self.tokenizer, ids[:first], ids[first:]), start, end)

    def _n_special(self, ids: Sequence[int]) -> int:
        """The number of special tokens at the beginning, such as a language's; they are read and do not count."""
        special = set(self.tokenizer.all_special_ids)
        return next((i for i, one in enumerate(ids) if one not in special), len(ids))

    @property
    def _device(self) -> torch.device:
        return next(self.model.parameters()).device

    def _logits(self, output: Any) -> Tensor:
        return self.part_of(output, "logits", "B", "L", "V")
