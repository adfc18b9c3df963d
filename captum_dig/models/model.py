"""Classifier: a Hugging Face text classifier, as a function of its embeddings.

Takes a model, gives its labels, its embedding layer and a forward function from embeddings to logits. `captum_dig.text`
attributes to that function's first argument.
"""

import hashlib
import inspect
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from captum_dig.errors import ModelError
from captum_dig.models.encoding import TextEncoder, as_index
from captum_dig.threads import evaluating, own

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

# Where a model came from decides nothing.
_UNTOLD = ("_name_or_path", "transformers_version")

# Rows of the embedding layer that are looked up at once.
_ROWS = 4096

_NOT_A_CLASSIFIER = "pass a sequence classifier, such as AutoModelForSequenceClassification.from_pretrained(name) gives"


class Classifier:
    """A sequence classifier whose word embeddings can be replaced.

    The token ids stay those of the text while the embeddings move along a path, so that whatever the model derives from
    ids (positions, the token that is pooled) stays as it is for the text.

    Args:
        model: A Hugging Face model with a classification head.
        name: What messages and results call the model; None for the name that it was loaded by.

    Raises:
        ModelError: If the model has no table of input embeddings, no label names, or none for an index.
    """

    def __init__(self, model: "PreTrainedModel", name: str | None = None) -> None:
        if not isinstance(model, nn.Module) or not hasattr(model, "get_input_embeddings"):
            raise ModelError(f"model must be a Hugging Face model, got {type(model).__name__}; {_NOT_A_CLASSIFIER}")
        labels: Any = getattr(model.config, "id2label", None)
        if not labels:
            raise ModelError(
                f"model must have labels in its configuration, got {type(model).__name__}; {_NOT_A_CLASSIFIER}"
            )
        _check_weights(model)
        self.model = model
        self._layer = _input_embeddings(model)
        self._tables = _tables_like(self._layer, model)
        self.name = name or getattr(model.config, "_name_or_path", "") or type(model).__name__
        self.labels = _labels(labels)

    @property
    def layer(self) -> nn.Module:
        """The model's layer of word embeddings, which resizing or the user may replace."""
        layer = _input_embeddings(self.model)
        if layer is not self._layer:
            self._layer, self._tables = layer, _tables_like(layer, self.model)
        return self._layer

    @property
    def device(self) -> torch.device:
        """Where the model's weights are."""
        return next(self.model.parameters()).device

    @property
    def fingerprint(self) -> str:
        """Hash of the weights and the configuration. Every use reads all weights: keep it where it is needed twice."""
        told = {name: value for name, value in self.model.config.to_dict().items() if name not in _UNTOLD}
        # The configuration's own keys may be numbers and digits, which have no order.
        told["id2label"] = dict(enumerate(self.labels))
        digest = hashlib.sha256(json.dumps(told, sort_keys=True, default=str).encode())
        for name, tensor in sorted(self.model.state_dict().items()):
            digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
            digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
        return digest.hexdigest()[:16]

    @property
    def pads(self) -> bool:
        """Whether the model says that it can read several rows at once."""
        return getattr(self.model.config, "pad_token_id", None) is not None

    def hides_padding(self, encoder: TextEncoder) -> bool:
        """Try out whether a text gives the same logits when it is padded; padding leaks into some models."""
        if not self.pads or not encoder.pads:
            return False
        if not encoder.fits(8):
            return False
        try:
            short, long = (encoder.encode("a " * count)[0] for count in (1, 8))
        except ValueError:
            # A tokenizer that knows no Latin letter.
            return False
        with self.evaluating(), torch.no_grad():
            alone, padded = (
                self.logits(**{name: column.to(self.device) for name, column in encoder.pad(batch).items()})[0].float()
                for batch in ([short], [short, long])
            )
        tolerance = 1e-4 if self.model.dtype.itemsize >= 4 else 0.05
        return bool(torch.allclose(alone, padded, rtol=tolerance, atol=tolerance))

    def embed(self, input_ids: Tensor) -> Tensor:
        """Look up the embeddings of ids, shape (B, T), as the model does: shape (B, T, D)."""
        with torch.no_grad():
            rows: Tensor = self.layer(input_ids)
        return rows

    @property
    def stamp(self) -> tuple[object, ...]:
        """What PyTorch says about changes of the embedding layer's weights; writing to ``.data`` may escape it."""
        return tuple((weight.data_ptr(), weight._version, weight.dtype) for weight in self.layer.parameters())

    def emits(self, rows: Tensor, ids: Tensor) -> bool:
        """Tell whether the embedding layer has these rows, but for rounding to float32.

        Args:
            rows: A table, shape (V, D), float32 on the CPU.
            ids: Which of them to compare, shape (N,), int64 on the CPU.

        Returns:
            True if V is the number of its rows, and they are equal.
        """
        weight = getattr(self.layer, "weight", None)
        if isinstance(weight, Tensor) and len(weight) != len(rows):
            return False
        return all(
            torch.equal(self.embed(some.to(self.device)).to("cpu", torch.float32), rows[some])
            for some in ids.split(_ROWS)
        )

    def logits(self, **inputs: Tensor) -> Tensor:
        """Run the model on what a tokenizer gives: logits of shape (B, C).

        Raises:
            ModelError: If the output is no logits for a whole sequence.
        """
        output: Any = self._run(inputs)
        logits = getattr(output, "logits", None)
        if not isinstance(logits, Tensor) or logits.dim() != 2 or logits.shape[1] != len(self.labels):
            got = tuple(logits.shape) if isinstance(logits, Tensor) else type(output).__name__
            raise ModelError(
                f"model must give logits of shape (B, {len(self.labels)}), got {got} from {type(self.model).__name__}; "
                f"{_NOT_A_CLASSIFIER}"
            )
        return logits

    def _run(self, inputs: dict[str, Tensor]) -> Any:
        try:
            return self.model(**inputs)
        except TypeError as error:
            try:
                inspect.signature(self.model.forward).bind(**inputs)
            except TypeError as reason:
                raise ModelError(
                    f"model must run on what its tokenizer gives, {', '.join(inputs)}, "
                    f"got {type(self.model).__name__}: {reason}; give further arguments a default in `forward`, "
                    "or name what the model takes in tokenizer.model_input_names"
                ) from error
            raise

    def logits_from(self, embeddings: Tensor, **inputs: Tensor) -> Tensor:
        """Run the model with its embedding layer answering `embeddings`, shape (B, T, D), whatever the ids.

        Raises:
            ModelError: If the model does not look up the ids of the text, or other ids too.
        """
        calls: list[bool] = []

        def answer(_module: nn.Module, arguments: tuple[Any, ...], output: Tensor) -> Tensor:
            placed = _place(embeddings, inputs["input_ids"], arguments[0], output)
            calls.append(placed is not None)
            return output if placed is None else placed

        with ExitStack() as hooks:
            for table in [self.layer, *self._tables[1:]]:
                hooks.callback(table.register_forward_hook(own(answer)).remove)
            logits = self.logits(**inputs)
        if not calls or not all(calls):
            problem = "a call with other ids" if calls else "no call"
            raise ModelError(
                "model must call its input embeddings with the ids of the text, "
                f"got {problem} from {type(self.model).__name__}; "
                "attribute with LayerDiscretizedIntegratedGradients to the layers that it does call"
            )
        return logits

    @property
    def is_regression(self) -> bool:
        """Whether the outputs are values, not scores of classes: Transformers trains a single output so by default."""
        kind = getattr(self.model.config, "problem_type", None)
        return kind == "regression" or (kind is None and len(self.labels) == 1)

    def probabilities(self, logits: Tensor) -> Tensor:
        """Turn logits of shape (B, C) into probabilities; NaN for a regression, which has none."""
        if self.is_regression:
            return torch.full_like(logits, torch.nan)
        kind = getattr(self.model.config, "problem_type", None)
        if kind == "multi_label_classification" or logits.shape[1] == 1:
            return logits.sigmoid()
        return logits.softmax(dim=1)

    def label_index(self, label: str | int) -> int:
        """Find a class by its name, in any case, or its index.

        Raises:
            ValueError: If there is no such class; the message lists those there are.
        """
        by_name = {name: i for i, name in enumerate(self.labels)}
        folded = [name.casefold() for name in self.labels]
        if isinstance(label, str):
            if label in by_name:
                return by_name[label]
            if folded.count(label.casefold()) == 1:
                return folded.index(label.casefold())
        index = as_index(label)
        if index is None or index >= len(self.labels):
            names = ", ".join(map(repr, self.labels))
            raise ValueError(
                f"target must be 'predicted', one of {names}, or an index below {len(self.labels)}, got {label!r}"
            )
        return index

    @contextmanager
    def evaluating(self) -> Iterator[None]:
        """Switch to eval mode while other explanations of these modules wait, and restore every module's mode on exit.

        The mode holds for every thread. An explanation inside another one of the same thread does not wait.
        """
        # Gradients do not exist in inference mode, which a caller may be in.
        with evaluating(self.model), torch.inference_mode(mode=False):
            yield

    def max_tokens(self, tokenizer: "PreTrainedTokenizerBase") -> int | None:
        """Count the tokens that the model reads, special ones included; None if nothing limits it.

        Raises:
            ModelError: If the tokenizer's limit is no number.
        """
        limits = []
        longest = tokenizer.model_max_length
        if isinstance(longest, bool) or not isinstance(longest, int | float):
            raise ModelError(
                f"tokenizer must have a number as model_max_length, got {longest!r} for {self.name!r}; "
                "correct it in tokenizer_config.json"
            )
        # Tokenizers without a limit say 10**30.
        if longest < 10**9:
            limits.append(int(longest))
        positions = getattr(self.model.config, "max_position_embeddings", None)
        if isinstance(positions, int) and positions > 0:
            # Models that number positions from their padding index on lose as many (RoBERTa: 514 rows, 512 tokens).
            tables = [
                m
                for m in self.model.modules()
                if isinstance(m, nn.Embedding) and m.num_embeddings == positions and m not in self._tables
            ]
            lost = max((m.padding_idx + 1 for m in tables if m.padding_idx is not None), default=0)
            limits.append(positions - lost)
        return min(limits, default=None)


def _labels(labels: Any) -> tuple[str, ...]:
    """Put the names of labels into the order of their indexes, which JSON makes strings."""
    pairs = labels.items() if isinstance(labels, Mapping) else enumerate(labels) if _is_list(labels) else ()
    by_index = {as_index(key): str(name) for key, name in pairs}
    if not by_index or set(by_index) != set(range(len(labels))):
        got = f"keys {', '.join(map(repr, list(labels)[:12]))}" if isinstance(labels, Mapping) else repr(labels)
        raise ModelError(
            f"model must have a label for each index from 0 on, got {got}; "
            "set model.config.id2label to a dictionary such as {0: 'NEGATIVE', 1: 'POSITIVE'}"
        )
    return tuple(by_index[i] for i in range(len(by_index)))


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _check_weights(model: nn.Module) -> None:
    """Require weights that gradients pass through."""
    for module in model.modules():
        if ".quantized" in type(module).__module__:
            raise ModelError(
                f"model must have weights in floating point, got a quantized {type(module).__name__}, "
                "which has no gradient; load the model in float32"
            )
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        if tensor.is_inference():
            raise ModelError(
                f"model must be made outside of torch.inference_mode(), got {name} as an inference tensor, "
                "which has no gradient; load it again outside"
            )


def _input_embeddings(model: "PreTrainedModel") -> nn.Module:
    try:
        layer: Any = model.get_input_embeddings()
    except (AttributeError, NotImplementedError):
        # CANINE hashes characters into several tables.
        layer = None
    if not isinstance(layer, nn.Module):
        raise ModelError(
            f"model must have one table of input embeddings, got {type(model).__name__}; {_NOT_A_CLASSIFIER}, "
            "or attribute to its own layers with LayerDiscretizedIntegratedGradients"
        )
    return layer


def _tables_like(layer: nn.Module, model: nn.Module) -> list[nn.Module]:
    """The layer, and others that look up the same rows: an encoder-decoder has two of these, and calls only them."""
    weight = getattr(layer, "weight", None)
    shared = [m for m in model.modules() if isinstance(m, nn.Embedding) and m.weight is weight and m is not layer]
    if not shared:
        return [layer]
    # One of them may scale its rows and another not.
    some = torch.arange(min(len(shared[0].weight), 64), device=shared[0].weight.device)
    with torch.no_grad():
        return [layer, *(table for table in shared if torch.equal(table(some), layer(some)))]


def _place(embeddings: Tensor, ids: Tensor, called: Tensor, rows: Tensor) -> Tensor | None:
    """Put the embeddings of ids, shape (B, T, D), where a model asks for those ids; None if it asks for others."""
    if called.dim() != 2:
        return None
    if torch.equal(called, ids):
        return embeddings
    if torch.equal(called[:, : ids.shape[1]], ids):
        # Longformer appends padding.
        return torch.cat([embeddings, rows[:, ids.shape[1] :]], dim=1)
    if ids.shape[1] > 1 and torch.equal(called[:, 1:], ids[:, :-1]):
        # A decoder that reads the text (BART, T5) begins with a token of its own.
        return torch.cat([rows[:, :1], embeddings[:, :-1]], dim=1)
    if torch.equal(called, ids.T):
        # XLNet puts tokens before texts.
        return embeddings.transpose(0, 1)
    return None
