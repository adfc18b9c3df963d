"""ContinuationTask: a continuation of a prompt, by a causal language model.

Takes a prompt and perhaps a continuation, else the model writes one; gives the places of its tokens. `captum_dig.text`
makes a `Question` about their log-probability.
"""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from captum_dig.errors import ModelError
from captum_dig.fields import Field, trimmed
from captum_dig.models.encoding import Encoding, TextEncoder
from captum_dig.models.samples import Overflow
from captum_dig.tasks.base import Choice
from captum_dig.tasks.writing import TOKENS, WritingTask, choice_of, places_of, texts_of
from captum_dig.threads import evaluating


class ContinuationTask(WritingTask):
    """Explain why a causal language model continues a prompt like this.

    The explained number is the log-probability of the whole continuation given the prompt: the sum over its tokens. The
    tokens of the continuation keep their embeddings, and only those of the prompt are scored.

    The target is ``"predicted"`` for the whole continuation, or ``"tokens"`` for a result for each of its tokens. Each
    of these takes as many gradients as the whole. With ``contrast=`` another continuation, the two are compared at the
    first token that differs: the log-probability of the first one's token less that of the other one's, given all
    before it. Scores then say why the model writes the one rather than the other.

    Args:
        model: A Hugging Face causal language model.
        output: ``"log_probability"``, or ``"logit"``, the sum of the logits; None for ``"log_probability"``.
        fields: The fields whose words are scored: ``"text"``, the only one.
        max_new_tokens: The most tokens that the model writes where no continuation is given. It takes the most
            probable token each time.
        chat: Whether the text is a message of the user, which the chat template of the tokenizer surrounds. The tokens
            of the template keep their embeddings.
        system: The message of the system before it, for a chat; it keeps its embeddings, too.
        tokenizer: The tokenizer.

    Raises:
        ModelError: If `chat` is asked for, and the tokenizer has no chat template.
        ValueError: If `output` or `fields` is something else, or `max_new_tokens` is below 1.
    """

    auto_class = "AutoModelForCausalLM"
    kind = "causal language model"
    pipeline = "TextGenerationPipeline"
    positional = True

    def __init__(
        self,
        model: nn.Module,
        output: str | None = None,
        fields: str | Sequence[str] | None = None,
        max_new_tokens: int = 20,
        chat: bool = False,
        system: str | None = None,
        tokenizer: Any = None,
    ) -> None:
        super().__init__(model, output, fields, max_new_tokens, tokenizer)
        self.chat, self.system = chat or system is not None, system
        if self.chat and not getattr(tokenizer, "chat_template", None):
            raise ModelError(f"tokenizer must have a chat template for chat=True, got {type(tokenizer).__name__}")
        self._parameters = frozenset(inspect.signature(model.forward).parameters)

    @classmethod
    def classes(cls) -> tuple[str, ...]:
        """Return the ends of the names of Transformers' classes for this task."""
        return ("ForCausalLM", "LMHeadModel")

    def against(self, wanted: Any, contrast: Any) -> tuple[str, str]:
        """Check the other continuation; `choose` finds the first token that differs.

        Raises:
            ValueError: If it is no string, or the target is not ``"predicted"``.
        """
        if self.resolve(wanted) != "predicted":
            raise ValueError(f"target must be 'predicted' beside a contrast, got {wanted!r}; it compares one token")
        if not isinstance(contrast, str) or not contrast:
            raise ValueError(f"contrast must be another continuation, such as ' London', got {contrast!r}")
        return wanted, contrast

    def read(self, sample: Mapping[str, str], encoder: TextEncoder, overflow: Overflow, name: str) -> list[Encoding]:
        """Encode a prompt, and a continuation behind it that keeps its embeddings.

        Raises:
            ValueError: As in `TextEncoder.encode`; or if the continuation is empty, the model writes none, or both are
                longer than the model reads.
        """
        if overflow == "windows":
            raise ValueError("overflow must be 'truncate' or 'error' where a continuation follows the text")
        prompt = self._prompt(sample["text"], name)
        if not prompt.words:
            raise ValueError(f"{name} must hold a word to explain before the continuation, got {sample['text']!r}")
        written = sample.get("continuation")
        room = None if encoder.max_tokens is None else encoder.max_tokens - len(prompt.ids)
        self._check_room(name, room, 1)
        ids = self._generated(prompt, room) if written is None else self._tokens(prompt.text, written)
        if not ids:
            told = "none from the model" if written is None else repr(written)
            raise ValueError(f"continuation of {name} must give at least one token, got {told}")
        self._check_room(name, room, len(ids))
        return [self._followed(prompt, ids, written)]

    def choose(self, output: Any, encodings: Sequence[Encoding], wanted: Sequence[Any]) -> list[Choice]:
        """Choose the whole continuation of each prompt, or each of its tokens."""
        logits = self._logits(output).detach().float()
        choices = []
        for row, (encoding, target) in enumerate(zip(encodings, wanted, strict=True)):
            field = encoding.fields[-1]
            # A token of white space at the end of the prompt may begin there, too, but it is scored.
            places = zip(encoding.offsets, encoding.special, strict=True)
            first = next(i for i, ((start, _), fixed) in enumerate(places) if fixed and start >= field.start)
            ids = encoding.ids[first:]
            logs = logits[row, first - 1 : first - 1 + len(ids)].log_softmax(dim=1)
            each = logs.gather(1, torch.tensor(ids, device=logs.device)[:, None])[:, 0].cpu()
            if isinstance(target, tuple):
                choices.append(self._parting(row, encoding, ids, first, logs, target[1]))
                continue
            groups = [[i] for i in range(len(ids))] if target == TOKENS else [list(range(len(ids)))]
            for group in groups:
                place = (first - 1 + group[0], *(ids[i] for i in group))
                own = [encoding.offsets[first + i] for i in group]
                fallback = encoding.tokens[first + group[0]]
                choices.append(choice_of(row, place, encoding.text, own, fallback, float(each[group].sum().exp())))
        return choices

    def _parting(
        self, row: int, encoding: Encoding, ids: Sequence[int], first: int, logs: Tensor, contrast: str
    ) -> Choice:
        """Choose the first token that differs from that of another continuation, and the other's in its place."""
        field = encoding.fields[-1]
        others = self._tokens(encoding.text[: field.start], contrast)
        n = next((i for i, (one, other) in enumerate(zip(ids, others, strict=False)) if one != other), None)
        if n is None:
            raise ValueError(
                f"contrast must differ from the continuation in a token that both have, got {contrast!r} beside "
                f"{encoding.text[field.start :]!r}"
            )
        chosen = torch.tensor([ids[n], others[n]], device=logs.device)
        names = (encoding.tokens[first + n], str(self.tokenizer.convert_ids_to_tokens([others[n]])[0]))
        shown = tuple(str(self.tokenizer.decode([i])).strip() or name for i, name in zip(chosen, names, strict=True))
        span = trimmed(encoding.text, *encoding.offsets[first + n])
        return Choice(
            row,
            # An id beyond the vocabulary means a token that is subtracted, at the same position.
            (first - 1 + n, ids[n], logs.shape[1] + others[n]),
            0,
            shown,
            tuple(logs[n, chosen].exp().tolist()),
            span if span[0] < span[1] else None,
        )

    def keywords(self, places: Tensor) -> dict[str, Any]:
        """Ask only for the logits before the tokens of the continuations, and for no cache, where the model can."""
        found: dict[str, Any] = {"use_cache": False} if "use_cache" in self._parameters else {}
        if "logits_to_keep" in self._parameters:
            first, last = _needed(places)
            found["logits_to_keep"] = torch.arange(first, last + 1, device=places.device)
        return found

    def total(self, output: Any, places: Tensor, *, normalized: bool) -> Tensor:
        """Add the logits or log-probabilities of the tokens of each continuation up."""
        logits = self._logits(output)
        # A place holds the position before the first token, then the ids of the tokens.
        ids = places[:, 1:]
        there = ids >= 0
        first, last = _needed(places)
        # A model that gave only the needed logits begins with the first of them.
        begin = places[:, :1] - (first if logits.shape[1] == last - first + 1 else 0)
        subtracted = ids >= logits.shape[2]
        steps = torch.where(subtracted, 0, torch.arange(ids.shape[1], device=ids.device))
        positions = (begin + steps).clamp(max=logits.shape[1] - 1)
        rows = torch.arange(len(ids), device=ids.device)[:, None].expand_as(ids)
        picked = logits[rows, positions]
        columns = torch.where(subtracted, ids - logits.shape[2], ids.clamp(min=0))
        numbers = (picked.log_softmax(dim=2) if normalized else picked).gather(2, columns[:, :, None])[:, :, 0]
        return torch.where(there, torch.where(subtracted, -numbers, numbers), 0).sum(dim=1)

    def _check_room(self, name: str, room: int | None, n_needed: int) -> None:
        """Require room for a continuation behind the prompt."""
        if room is not None and room < n_needed:
            raise ValueError(
                f"{name} with its continuation must fit the model, got {n_needed - room} tokens more than it reads; "
                "shorten one of them"
            )

    def _prompt(self, text: str, name: str) -> Encoding:
        """Encode a text, or the chat with it, up to where the continuation begins."""
        # Nothing is cut: a prompt without its end has another continuation.
        encoder = TextEncoder(self.tokenizer, None)
        if not self.chat:
            return self._without_end(encoder.encode(text, "error", name)[0])
        messages = [{"role": "user", "content": text}]
        if self.system is not None:
            messages.insert(0, {"role": "system", "content": self.system})
        whole = str(self.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True))
        start = whole.rfind(text.strip())
        if start < 0 or not text.strip():
            raise ValueError(
                f"{name} must stand in the chat template as it is, got {text!r}; leave out what it changes"
            )
        # The template holds the special tokens itself.
        (found,) = encoder.encode(whole, "error", name, add=False)
        return _within(found, start, start + len(text.strip()))

    def _generated(self, prompt: Encoding, room: int | None) -> list[int]:
        """The tokens that the model writes, without the token that ends a text."""
        model: Any = self.model
        inputs = {name: torch.tensor([row], device=model.device) for name, row in prompt.inputs.items()}
        with evaluating(model), torch.no_grad():
            row = model.generate(
                **inputs,
                max_new_tokens=self.max_new_tokens if room is None else min(room, self.max_new_tokens),
                do_sample=False,
                pad_token_id=self.tokenizer.pad_token_id or self.tokenizer.eos_token_id,
            )[0]
        ids: list[int] = row[len(prompt.ids) :].tolist()
        return ids[:-1] if ids and ids[-1] == self.tokenizer.eos_token_id else ids

    def _tokens(self, prompt: str, continuation: str) -> list[int]:
        """The tokens of a continuation, cut from those of the whole text where these begin like the prompt's."""
        body, whole, alone = map(self._body, (prompt, prompt + continuation, continuation))
        # A token for an unknown word may reach from the prompt into the continuation.
        return (whole[len(body) :] if whole[: len(body)] == body else []) or alone

    def _body(self, text: str) -> list[int]:
        """The tokens of a text, without special ones."""
        return list(self.tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])

    def _without_end(self, prompt: Encoding) -> Encoding:
        """Leave out the tokens that the tokenizer adds behind a text."""
        body = self._body(prompt.text)
        n_added = len(prompt.ids) - len(body)
        n_before = next((n for n in range(n_added + 1) if prompt.ids[n : n + len(body)] == body), n_added)
        end = n_before + len(body)
        return replace(
            prompt,
            inputs={name: row[:end] for name, row in prompt.inputs.items()},
            tokens=prompt.tokens[:end],
            offsets=prompt.offsets[:end],
            special=prompt.special[:end],
        )

    def _followed(self, prompt: Encoding, ids: Sequence[int], written: str | None) -> Encoding:
        """Put tokens behind a prompt that keep their embeddings."""
        texts = texts_of(self.tokenizer, prompt.ids, ids)
        continuation = texts[-1] if written is None else written
        start, whole = len(prompt.text), prompt.text + continuation
        values = {"attention_mask": 1, "token_type_ids": 0}
        return replace(
            prompt,
            text=whole,
            inputs={
                name: [*row, *(ids if name == "input_ids" else [values.get(name, 0)] * len(ids))]
                for name, row in prompt.inputs.items()
            },
            tokens=(*prompt.tokens, *map(str, self.tokenizer.convert_ids_to_tokens(list(ids)))),
            offsets=(*prompt.offsets, *places_of(texts, start, len(whole))),
            special=(*prompt.special, *[True] * len(ids)),
            fields=(*(prompt.fields or (Field("text", 0, start),)), Field("continuation", start, len(whole))),
        )

    def _logits(self, output: Any) -> Tensor:
        return self.part_of(output, "logits", "B", "T", "V")


def _needed(places: Tensor) -> tuple[int, int]:
    """The first and the last position whose logits are needed."""
    ends = places[:, 0] + (places[:, 1:] >= 0).sum(dim=1) - 1
    return int(places[:, 0].min()), int(ends.max())


def _within(encoding: Encoding, start: int, end: int) -> Encoding:
    """Fix every token outside of a part of the text."""
    inside = [n for n, (a, b) in enumerate(encoding.word_offsets) if a < end and start < b]
    moving = {i for n in inside for i in encoding.words[n]}
    parts = (Field("template", 0, start), Field("text", start, end), Field("template", end, len(encoding.text)))
    return replace(
        encoding,
        special=tuple(i not in moving for i in range(len(encoding.ids))),
        words=tuple(encoding.words[n] for n in inside),
        word_offsets=tuple(encoding.word_offsets[n] for n in inside),
        fields=tuple(part for part in parts if part.start < part.end),
    )
