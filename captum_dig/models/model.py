"""TextModel: a Hugging Face text model as a function of its embeddings.

Takes a model; gives its embedding layer, and a function from embeddings to the model's output. `captum_dig.text`
attributes one number of that output to the embeddings.
"""

import hashlib
import inspect
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from captum_dig.errors import ModelError
from captum_dig.models.encoding import Encoding, TextEncoder
from captum_dig.threads import evaluating, own

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

# The origin of a model does not affect its output.
_UNTOLD = ("_name_or_path", "transformers_version")

# Rows of the embedding layer looked up at once.
_ROWS = 4096

_NO_MODEL = "pass a sequence classifier, such as AutoModelForSequenceClassification.from_pretrained(name) gives"


class TextModel:
    """A text model whose word embeddings can be replaced.

    The token ids stay those of the text while the embeddings move along a path. Values that the model derives from ids
    (positions, the pooled token) therefore stay those of the text.

    Args:
        model: A Hugging Face model that reads text.
        name: The name of the model in messages and results; None for the name that it was loaded by.

    Raises:
        ModelError: If the model has no table of input embeddings, or weights without gradients.
    """

    def __init__(self, model: "PreTrainedModel", name: str | None = None) -> None:
        if not isinstance(model, nn.Module) or not hasattr(model, "get_input_embeddings"):
            raise ModelError(f"model must be a Hugging Face model, got {type(model).__name__}; {_NO_MODEL}")
        _check_weights(model)
        self.model = model
        self._layer = _input_embeddings(model)
        self._tables = _tables_like(self._layer, model)
        self.name = name or getattr(model.config, "_name_or_path", "") or type(model).__name__

    @property
    def layer(self) -> nn.Module:
        """The model's layer of word embeddings, looked up each time, because resizing may replace it."""
        layer = _input_embeddings(self.model)
        if layer is not self._layer:
            self._layer, self._tables = layer, _tables_like(layer, self.model)
        return self._layer

    @property
    def device(self) -> torch.device:
        """The device of the model's weights."""
        return next(self.model.parameters()).device

    @property
    def fingerprint(self) -> str:
        """Hash of the weights and the configuration. Each use reads all weights, so keep the result."""
        told = {name: value for name, value in self.model.config.to_dict().items() if name not in _UNTOLD}
        # Keys of the configuration may be numbers and strings, which have no common order.
        told["id2label"] = sorted((str(key), str(label)) for key, label in _pairs(told.get("id2label")))
        digest = hashlib.sha256(json.dumps(told, sort_keys=True, default=str).encode())
        for name, tensor in sorted(self.model.state_dict().items()):
            digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
            digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
        return digest.hexdigest()[:16]

    @property
    def pads(self) -> bool:
        """Whether the model can read several rows at once, by its configuration."""
        return getattr(self.model.config, "pad_token_id", None) is not None

    def hides_padding(
        self, encoder: TextEncoder, inputs_for: Callable[[Sequence[Encoding]], dict[str, Tensor]] = lambda _: {}
    ) -> bool:
        """Test whether a text gives the same output with padding; some models attend to it.

        Args:
            encoder: The tokenizer.
            inputs_for: Further inputs of the model for some texts, as `Task.inputs_for`.
        """
        if not self.pads or not encoder.pads:
            return False
        if not encoder.fits(8):
            return False
        try:
            short, long = (encoder.encode("a " * count)[0] for count in (1, 8))
        except ValueError:
            # A tokenizer without Latin letters.
            return False
        with self.evaluating(), torch.no_grad():
            alone, padded = (
                _first_tensor(
                    self.output(
                        **{name: column.to(self.device) for name, column in encoder.pad(batch).items()},
                        **inputs_for(batch),
                    )
                )[0].float()
                for batch in ([short], [short, long])
            )
        # An output for each token is longer where the text is padded.
        padded = padded[tuple(slice(size) for size in alone.shape)]
        tolerance = 1e-4 if self.model.dtype.itemsize >= 4 else 0.05
        return bool(torch.allclose(alone, padded, rtol=tolerance, atol=tolerance))

    def embed(self, input_ids: Tensor) -> Tensor:
        """Look up the embeddings of ids, shape (B, T), as the model does: shape (B, T, D)."""
        with torch.no_grad():
            rows: Tensor = self.layer(input_ids)
        return rows

    @property
    def stamp(self) -> tuple[object, ...]:
        """PyTorch's version counters of the embedding layer's weights; writing to ``.data`` does not change them."""
        return tuple((weight.data_ptr(), weight._version, weight.dtype) for weight in self.layer.parameters())

    def emits(self, rows: Tensor, ids: Tensor) -> bool:
        """Compare rows with those of the embedding layer, up to rounding to float32.

        Args:
            rows: A table, shape (V, D), float32 on the CPU.
            ids: Which of them to compare, shape (N,), int64 on the CPU.

        Returns:
            True if V is the number of the layer's rows, and the rows are equal.
        """
        weight = getattr(self.layer, "weight", None)
        if isinstance(weight, Tensor) and len(weight) != len(rows):
            return False
        return all(
            torch.equal(self.embed(some.to(self.device)).to("cpu", torch.float32), rows[some])
            for some in ids.split(_ROWS)
        )

    def output(self, **inputs: Any) -> Any:
        """Run the model on the columns that a tokenizer gives.

        Raises:
            ModelError: If the model does not take these columns.
        """
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

    def output_from(self, embeddings: Tensor, **inputs: Any) -> Any:
        """Run the model with `embeddings`, shape (B, T, D), as the output of its embedding layer.

        Raises:
            ModelError: If the model does not look up the ids of the text, or other ids too.
        """
        calls: list[bool] = []
        written = [column for name, column in inputs.items() if name == "decoder_input_ids"]
        others = [column for name, column in inputs.items() if name != "input_ids"]

        def answer(_module: nn.Module, arguments: tuple[Any, ...], output: Tensor) -> Tensor:
            if _is_one_of(arguments[0], written) and (calls or not torch.equal(arguments[0], inputs["input_ids"])):
                # A decoder reads the tokens that it has written; the encoder comes first.
                return output
            placed = _place(embeddings, inputs["input_ids"], arguments[0], output)
            if placed is None and _is_one_of(arguments[0], others):
                # GPT-2 looks up token types among the words; they stay as they are.
                return output
            calls.append(placed is not None)
            return output if placed is None else placed

        with ExitStack() as hooks:
            for table in [self.layer, *self._tables[1:]]:
                hooks.callback(table.register_forward_hook(own(answer)).remove)
            output = self.output(**inputs)
        if not calls or not all(calls):
            problem = "a call with other ids" if calls else "no call"
            raise ModelError(
                "model must call its input embeddings with the ids of the text, "
                f"got {problem} from {type(self.model).__name__}; "
                "attribute with LayerDiscretizedIntegratedGradients to the layers that it does call"
            )
        return output

    @contextmanager
    def evaluating(self) -> Iterator[None]:
        """Lock the model, switch it to eval mode, and restore every module's mode on exit.

        The mode holds for every thread. The lock is re-entrant: an explanation inside another one of the same thread
        does not wait.
        """
        # The caller may be in inference mode, which has no gradients.
        with evaluating(self.model), torch.inference_mode(mode=False):
            yield

    def max_tokens(self, tokenizer: "PreTrainedTokenizerBase") -> int | None:
        """Return the largest number of tokens that the model reads, special ones included; None for no limit.

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
        # Tokenizers without a limit have 10**30.
        if longest < 10**9:
            limits.append(int(longest))
        positions = getattr(self.model.config, "max_position_embeddings", None)
        if isinstance(positions, int) and positions > 0:
            # Models that number positions from the padding index on lose that many rows (RoBERTa: 514 rows, 512
            # tokens).
            tables = [
                m
                for m in self.model.modules()
                if isinstance(m, nn.Embedding) and m.num_embeddings == positions and m not in self._tables
            ]
            lost = max((m.padding_idx + 1 for m in tables if m.padding_idx is not None), default=0)
            limits.append(positions - lost)
        return min(limits, default=None)


def _check_weights(model: nn.Module) -> None:
    """Require weights with gradients."""
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
            f"model must have one table of input embeddings, got {type(model).__name__}; {_NO_MODEL}, "
            "or attribute to its own layers with LayerDiscretizedIntegratedGradients"
        )
    return layer


def _first_tensor(output: Any) -> Tensor:
    """The first tensor of a model's output, such as its logits."""
    values = (output,) if isinstance(output, Tensor) else output.values() if hasattr(output, "values") else output
    for value in values:
        if isinstance(value, Tensor):
            return value
    raise ModelError(f"model must give a tensor, got {type(output).__name__}; {_NO_MODEL}")


def _pairs(labels: Any) -> Iterable[tuple[Any, Any]]:
    return labels.items() if isinstance(labels, Mapping) else enumerate(labels or ())


def _tables_like(layer: nn.Module, model: nn.Module) -> list[nn.Module]:
    """The layer, and other layers that share its rows: an encoder-decoder has two such layers, and calls only them."""
    weight = getattr(layer, "weight", None)
    shared = [m for m in model.modules() if isinstance(m, nn.Embedding) and m.weight is weight and m is not layer]
    if not shared:
        return [layer]
    # Of two such layers one may scale its rows.
    some = torch.arange(min(len(shared[0].weight), 64), device=shared[0].weight.device)
    with torch.no_grad():
        return [layer, *(table for table in shared if torch.equal(table(some), layer(some)))]


def _is_one_of(called: Tensor, columns: Iterable[Any]) -> bool:
    """Whether a model looks up another column of its input."""
    return any(isinstance(column, Tensor) and torch.equal(called, column) for column in columns)


def _place(embeddings: Tensor, ids: Tensor, called: Tensor, rows: Tensor) -> Tensor | None:
    """Arrange the embeddings of ids, shape (B, T, D), in the order that a model asks for; None for other ids."""
    if called.dim() != 2:
        return None
    if torch.equal(called, ids):
        return embeddings
    if torch.equal(called[:, : ids.shape[1]], ids):
        # Longformer appends padding.
        return torch.cat([embeddings, rows[:, ids.shape[1] :]], dim=1)
    if ids.shape[1] > 1 and torch.equal(called[:, 1:], ids[:, :-1]):
        # A decoder that reads the text (BART, T5) starts with a token of its own.
        return torch.cat([rows[:, :1], embeddings[:, :-1]], dim=1)
    if torch.equal(called, ids.T):
        # XLNet puts tokens before texts.
        return embeddings.transpose(0, 1)
    return None
