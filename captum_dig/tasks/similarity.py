"""SimilarityTask: the similarity of two texts by a model of embeddings, such as one for semantic search.

Takes two texts; gives the place of their similarity: the tokens of the text that stays as it is. `captum_dig.text`
makes a `Question` about it.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import torch
from torch import Tensor, nn

from captum_dig.checks import one_of
from captum_dig.errors import ModelError
from captum_dig.fields import Field
from captum_dig.models.encoding import Encoding, TextEncoder
from captum_dig.models.samples import Overflow, SampleForm
from captum_dig.tasks.base import Choice, Task

POOLINGS: Final = ("mean", "cls", "last", "pooler")
# From signed integers of 32 bits to those from 0 on.
_SHIFT: Final = 2**31


class SimilarityTask(Task):
    """Explain why two texts are near each other by their sentence embeddings.

    The model reads each text by itself, and a pooling turns its hidden states into one vector. The explained number is
    the cosine of the two vectors, or their dot product. One text moves along the path, and the other one stays as it
    is; with both fields, there is a result for each. Scores are an attribution of the similarity of this pair: they do
    not say how the model ranks other texts.

    Args:
        model: A Hugging Face model without a head, such as ``AutoModel`` loads.
        output: ``"cosine"``, or ``"dot"`` for the dot product; None for ``"cosine"``.
        fields: The fields whose words are scored: ``"text"``, ``"text_pair"`` or both; None for both.
        pooling: ``"mean"`` of the hidden states, ``"cls"`` for the first one, ``"last"`` for the last one, or
            ``"pooler"`` for the model's own pooled output. Use the one that the model was trained with.
        prefixes: The texts that the model expects before the two, such as ``("query: ", "passage: ")``. Their words are
            scored like the others.

    Raises:
        ValueError: If `output`, `fields` or `pooling` is something else.
    """

    auto_class = "AutoModel"
    kind = "model of embeddings"
    pipeline = "FeatureExtractionPipeline"
    form = SampleForm(("text", "text_pair"))
    output = "cosine"
    outputs = ("cosine", "dot")
    labels = ("the two texts",)

    def __init__(
        self,
        model: nn.Module,
        output: str | None = None,
        fields: str | Sequence[str] | None = None,
        pooling: str = "mean",
        prefixes: tuple[str, str] = ("", ""),
    ) -> None:
        super().__init__(model, output, fields)
        self.pooling = one_of("pooling", pooling, POOLINGS)
        self.prefixes = (str(prefixes[0]), str(prefixes[1]))

    @classmethod
    def classes(cls) -> tuple[str, ...]:
        """Return the ends of the names of Transformers' classes for this task."""
        return ("Model",)

    def several(self, wanted: Any) -> bool:  # noqa: ARG002 - the fields decide
        """Whether both texts are scored, each with a result of its own."""
        return len(self.fields) > 1

    def resolve(self, wanted: Any) -> None:
        """Check the target: there is only the similarity.

        Raises:
            ValueError: If it is not ``"predicted"``, the name of the similarity, or 0.
        """
        self.label_index(wanted)

    def read(self, sample: Mapping[str, str], encoder: TextEncoder, overflow: Overflow, name: str) -> list[Encoding]:
        """Encode each text that is scored; the other one is shown with it.

        Raises:
            ValueError: As in `TextEncoder.encode`.
        """
        if overflow == "windows":
            raise ValueError("overflow must be 'truncate' or 'error' where a text has one embedding")
        texts = {
            field: f"{prefix}{sample[field]}" for field, prefix in zip(self.form.names, self.prefixes, strict=True)
        }
        encodings = {field: encoder.encode(text, overflow, f"{field!r} of {name}")[0] for field, text in texts.items()}
        return [self._beside(encodings, field) for field in self.fields]

    def choose(self, output: Any, encodings: Sequence[Encoding], wanted: Sequence[Any]) -> list[Choice]:  # noqa: ARG002
        """Choose the similarity of each pair."""
        # A place holds the number of tokens of the text that moves, and the vector of the other one.
        return [
            Choice(row, (len(one.ids), *_as_integers(self._vector(one.beside))), 0, self.labels, (math.nan,))
            for row, one in enumerate(encodings)
        ]

    def check_measurable(self) -> None:
        """Refuse: a similarity has no probability.

        Raises:
            ModelError: Always.
        """
        raise ModelError("model must have probabilities, got one of embeddings; a similarity has none")

    def value(self, output: Any, places: Tensor) -> Tensor:
        """Compute the similarity of each text with the one that stays."""
        vectors = self._vectors(output, places[:, 0]).float()
        others = _as_floats(places[:, 1:])
        if self.output == "dot":
            return (vectors * others).sum(dim=1)
        return nn.functional.cosine_similarity(vectors, others, dim=1)

    def _vectors(self, output: Any, lengths: Tensor) -> Tensor:
        """Pool the hidden states of texts of given lengths, shape (N, D)."""
        if self.pooling == "pooler":
            return self.part_of(output, "pooler_output", "B", "D")
        states = self.part_of(output, "last_hidden_state", "B", "T", "D")
        if self.pooling == "cls":
            return states[:, 0]
        if self.pooling == "last":
            return states[torch.arange(len(states), device=states.device), lengths - 1]
        inside = torch.arange(states.shape[1], device=states.device) < lengths[:, None]
        return (states * inside[:, :, None]).sum(dim=1) / lengths[:, None]

    def _vector(self, ids: Sequence[int]) -> Tensor:
        """The vector of the text that stays, shape (D,)."""
        model: Any = self.model
        row = torch.tensor([list(ids)], device=next(model.parameters()).device)
        with torch.no_grad():
            output = model(input_ids=row, attention_mask=torch.ones_like(row))
        return self._vectors(output, row.new_tensor([len(ids)]))[0]

    def _beside(self, encodings: Mapping[str, Encoding], scored: str) -> Encoding:
        """Show both texts, each on a line of its own; only one is read."""
        own = encodings[scored]
        (other,) = [encoding for field, encoding in encodings.items() if field != scored]
        first = scored == self.form.names[0]
        shift = 0 if first else len(other.text) + 1
        texts = [own.text, other.text] if first else [other.text, own.text]
        begin = len(texts[0]) + 1
        moved = [
            (a, b) if fixed else (a + shift, b + shift) for (a, b), fixed in zip(own.offsets, own.special, strict=True)
        ]
        return replace(
            own,
            text="\n".join(texts),
            offsets=tuple(moved),
            word_offsets=tuple((a + shift, b + shift) for a, b in own.word_offsets),
            fields=(
                Field(self.form.names[0], 0, begin - 1),
                Field(self.form.names[1], begin, begin + len(texts[1])),
            ),
            beside=tuple(other.ids),
        )


def _as_integers(vector: Tensor) -> list[int]:
    """The bits of the numbers of a vector as integers of at least 0, for a place; `_as_floats` gives them back."""
    found: list[int] = (vector.float().cpu().view(torch.int32).long() + _SHIFT).tolist()
    return found


def _as_floats(places: Tensor) -> Tensor:
    return (places - _SHIFT).to(torch.int32).view(torch.float32)
