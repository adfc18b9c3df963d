"""MaskedWordTask: a word in the place of the mask, by a masked language model.

Takes a text with one mask token, and logits for each of its tokens; gives the place of one word. `captum_dig.text`
makes a `Question` about it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor, nn

from captum_dig.checks import as_index
from captum_dig.errors import ModelError
from captum_dig.models.encoding import Encoding, TextEncoder, show_token
from captum_dig.models.samples import Overflow
from captum_dig.tasks.base import Choice, Task
from captum_dig.tasks.numbers import OUTPUTS, number_of

# The number of words that a result shows, as many as the pipeline does.
_N_SHOWN = 5


class MaskedWordTask(Task):
    """Explain why a masked language model puts this word in the place of the mask.

    The target is ``"predicted"`` for the most probable token, or a word or id that is one token of the model. With
    another one as `contrast`, the difference of their numbers is explained.

    Args:
        model: A Hugging Face masked language model.
        output: ``"log_odds"``, ``"logit"``, ``"log_probability"`` or ``"probability"``; None for ``"log_odds"``.
        fields: The fields whose words are scored: ``"text"``, the only one.
        tokenizer: The tokenizer, which has a mask token.

    Raises:
        ModelError: If the tokenizer has no mask token.
        ValueError: If `output` or `fields` is something else.
    """

    auto_class = "AutoModelForMaskedLM"
    kind = "masked language model"
    pipeline = "FillMaskPipeline"
    positional = True
    output = "log_odds"
    outputs = tuple(OUTPUTS)

    def __init__(
        self,
        model: nn.Module,
        output: str | None = None,
        fields: str | Sequence[str] | None = None,
        tokenizer: Any = None,
    ) -> None:
        super().__init__(model, output, fields)
        self.tokenizer = tokenizer
        self.mask: str | None = getattr(tokenizer, "mask_token", None)
        if self.mask is None:
            raise ModelError(f"tokenizer must have a mask token, got {type(tokenizer).__name__} without one")

    def resolve(self, wanted: Any) -> tuple[int | None, int | None]:
        """Find the id of a word.

        Raises:
            ValueError: If it is not one token of the model.
        """
        return self._id("target", wanted), None

    def against(self, wanted: Any, contrast: Any) -> tuple[int | None, int | None]:
        """Find the ids of two words; the difference of their numbers is explained.

        Raises:
            ValueError: If one is not one token of the model, or both are the same.
        """
        pair = self._id("target", wanted), self._id("contrast", contrast)
        if pair[0] == pair[1]:
            raise ValueError(f"contrast must be another word than target, got {contrast!r} for both")
        return pair

    def read(self, sample: Mapping[str, str], encoder: TextEncoder, overflow: Overflow, name: str) -> list[Encoding]:
        """Encode a text with one mask.

        Raises:
            ValueError: As in `TextEncoder.encode`, or if a window of the text does not hold exactly one mask.
        """
        found = super().read(sample, encoder, overflow, name)
        for encoding in found:
            if encoding.tokens.count(str(self.mask)) != 1:
                raise ValueError(
                    f"{name} must hold {self.mask} once for a masked language model, got {encoding.text[:60]!r}; "
                    "put it in the place of the word to explain, or load a model that was trained for another task"
                )
        return found

    def choose(self, output: Any, encodings: Sequence[Encoding], wanted: Sequence[Any]) -> list[Choice]:
        """Choose the most probable word for each text, or the wanted one."""
        logits = self._logits(output).detach().float()
        choices = []
        for row, (encoding, (target, contrast)) in enumerate(zip(encodings, wanted, strict=True)):
            place = encoding.tokens.index(str(self.mask))
            probabilities = logits[row, place].softmax(dim=0).cpu()
            first = int(probabilities.argmax()) if target is None else target
            ids = dict.fromkeys([first, *([] if contrast is None else [contrast])])
            ids |= dict.fromkeys(probabilities.topk(min(_N_SHOWN, len(probabilities))).indices.tolist())
            start = encoding.text.find(str(self.mask))
            choices.append(
                Choice(
                    row,
                    (place, first) if contrast is None else (place, first, contrast),
                    0,
                    tuple(show_token(self.tokenizer, token_id) for token_id in ids),
                    tuple(float(probabilities[token_id]) for token_id in ids),
                    (start, start + len(str(self.mask))),
                )
            )
        return choices

    def value(self, output: Any, places: Tensor) -> Tensor:
        """Pick the number of each word; for two words their difference."""
        return number_of(self.output, self._at_mask(output, places), places[:, 1:])

    def log_probability(self, output: Any, places: Tensor) -> Tensor | None:
        """Pick the log-probability of each word."""
        return number_of("log_probability", self._at_mask(output, places), places[:, 1:2])

    def _at_mask(self, output: Any, places: Tensor) -> Tensor:
        logits = self._logits(output)
        return logits.gather(1, places[:, :1, None].expand(-1, -1, logits.shape[2]))[:, 0]

    def _id(self, argument: str, word: Any) -> int | None:
        if isinstance(word, str) and word == "predicted":
            return None
        index = as_index(word)
        if index is not None and index < len(self.tokenizer):
            return index
        # Tokenizers that keep the space before a word have another token at the start of a text.
        for written in (f" {word}", str(word)):
            ids = self.tokenizer(written, add_special_tokens=False)["input_ids"]
            if len(ids) == 1 and ids[0] != self.tokenizer.unk_token_id:
                return int(ids[0])
        raise ValueError(
            f"{argument} must be 'predicted', or one token of the model, got {word!r}, "
            f"which is {len(ids)} tokens or unknown"
        )

    def _logits(self, output: Any) -> Tensor:
        return self.part_of(output, "logits", "B", "T", "V")
