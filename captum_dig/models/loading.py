"""Loading: a model and its tokenizer, by a name on the hub or from a folder.

Takes a name; gives a model and a tokenizer. `captum_dig.models.model` wraps the model. A folder may hold anything:
Python code in it runs only if the caller allows it, and unreadable files raise an error that names the folder.
"""

import importlib.util
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch

from captum_dig.errors import ModelError

# Messages of PyTorch and Transformers for a bad file. Other RuntimeErrors are PyTorch's own faults.
_OF_FILES = (
    "PytorchStreamReader",
    "ignore_mismatched_sizes",
    "loading state_dict",
    "negative dimension",
    "Invalid magic",
)

# Tasks with a head of their own, by the end of the trained class's name and by PEFT's name. None can replace another.
_HEADS = {
    "ForSequenceClassification": "sequence classification",
    "SEQ_CLS": "sequence classification",
    "ForTokenClassification": "token classification",
    "TOKEN_CLS": "token classification",
    "ForQuestionAnswering": "question answering",
    "ForQuestionAnsweringSimple": "question answering",
    "QUESTION_ANS": "question answering",
    "ForMultipleChoice": "multiple choice",
    "ForNextSentencePrediction": "next sentence prediction",
}
# Tasks of pretraining, from which a classifier can be fine-tuned.
_PRETRAINING = {
    "ForMaskedLM": "masked language modelling",
    "WithLMHeadModel": "masked language modelling",
    "ForPreTraining": "pre-training",
    "ForCausalLM": "language modelling",
    "LMHeadModel": "language modelling",
    "CAUSAL_LM": "language modelling",
    "ForConditionalGeneration": "generating text",
    "SEQ_2_SEQ_LM": "generating text",
}
# The last matrix of a head that PEFT saves whole.
_HEAD = r"\.(classifier|score)(\.out_proj)?\.weight$"


class Head(NamedTuple):
    """A kind of model.

    Attributes:
        auto_class: The class of Transformers that loads it, such as ``"AutoModelForSequenceClassification"``.
        kind: Its name in messages, such as ``"sequence classifier"``.
    """

    auto_class: str
    kind: str


def load_pretrained(
    name_or_folder: str | Path,
    dtype: torch.dtype,
    head: Callable[[str], Head],
    *,
    trust_remote_code: bool = False,
) -> tuple[Any, Any]:
    """Load a model and its tokenizer.

    Args:
        name_or_folder: A model's name on the Hugging Face hub, or a folder; of a whole model, or of a PEFT adapter.
        dtype: The type to load its weights as.
        head: From the name of the class that the model was trained with, or an empty one, to the kind to load.
        trust_remote_code: Whether Python code that comes with the model may run. Nobody is asked.

    Returns:
        Model and tokenizer.

    Raises:
        TypeError: If `trust_remote_code` is no boolean.
        ModelError: If there is no such model, its files cannot be read, it needs code of its own that may not run, or
            it is of another kind.
    """
    import transformers
    from transformers import AutoConfig, AutoTokenizer

    if not isinstance(trust_remote_code, bool):
        raise TypeError(f"trust_remote_code must be True or False, got {trust_remote_code!r}")
    name = str(name_or_folder)
    _check_place(name, name, ("config.json", "adapter_config.json"))
    adapter = _adapter(name)
    base = name if adapter is None else _base_of(name, adapter)
    _check_place(name, base, ("config.json",))
    trust = {"trust_remote_code": trust_remote_code}
    with _reading(name, "configuration"):
        config = AutoConfig.from_pretrained(base, **trust)
    classes = getattr(config, "architectures", None)
    trained = str(classes[0]) if isinstance(classes, list) and classes else ""
    if adapter is not None:
        trained = str(adapter.get("task_type"))
        config.num_labels = _n_labels(name, config.num_labels)
    wanted = head(trained)
    _check_head(name, trained, wanted)
    with _reading(name, "configuration or weights"):
        model, report = getattr(transformers, wanted.auto_class).from_pretrained(
            base,
            config=config,
            dtype=dtype,
            output_loading_info=True,
            # The adapter's head may have another number of labels than the base model's.
            ignore_mismatched_sizes=adapter is not None,
            **trust,
        )
    missing = {*report["missing_keys"], *(key for key, *_ in report["mismatched_keys"])}
    if adapter is not None and base != name:
        with _reading(name, "adapter"):
            model.load_adapter(name)
        # A weight of the adapter has another name than the weight that it replaces.
        missing &= {key for key, _ in model.named_parameters()}
    if missing:
        task = _task(trained, _PRETRAINING)
        told = f", trained for {task} ({trained}) and" if task else ""
        raise ModelError(
            f"model must be a fine-tuned {wanted.kind}, "
            f"got {name!r}{told} without weights for {', '.join(sorted(missing)[:3])}; "
            "fine-tune it first, or choose one that is"
        )
    # An adapter's tokenizer is its base model's, unless it was saved beside it.
    for source in dict.fromkeys((name, base)):
        try:
            with _reading(source, "tokenizer"):
                tokenizer = AutoTokenizer.from_pretrained(source, **trust)
        except ModelError:
            if source == base:
                raise
            continue
        if source == base or _has_vocabulary(tokenizer, len(model.get_input_embeddings().weight)):
            break
    return model, tokenizer


def check_tokenizer(tokenizer: Any, n_rows: int, name: str) -> None:
    """Require a tokenizer that was made for the model.

    From a folder without a tokenizer's files Transformers makes a tokenizer of special tokens alone. It reads every
    word as unknown.

    Args:
        tokenizer: The tokenizer.
        n_rows: The number of rows of the model's embedding layer.
        name: The name of the model in messages.

    Raises:
        ModelError: If it has far fewer tokens than the table has rows, or no list of input names.
    """
    names = tokenizer.model_input_names
    if not isinstance(names, list | tuple) or not all(isinstance(one, str) for one in names):
        raise ModelError(
            f"tokenizer must have a list of names as model_input_names, got {names!r} for {name!r}; "
            "correct it in tokenizer_config.json"
        )
    if not _has_vocabulary(tokenizer, n_rows):
        raise ModelError(
            f"tokenizer must be the one of the model, got {type(tokenizer).__name__} with {len(tokenizer)} tokens "
            f"for the {n_rows} rows of {name!r}; where its folder holds no tokenizer, save it there with "
            "tokenizer.save_pretrained"
        )


def _has_vocabulary(tokenizer: Any, n_rows: int) -> bool:
    # Tables are padded to a round number, by at most a few percent.
    return 2 * len(tokenizer) >= n_rows


def _adapter(name: str) -> Mapping[str, Any] | None:
    """Read the settings of an adapter; None where there is a whole model."""
    file = _find(name, "adapter_config.json")
    if file is None:
        return None
    if importlib.util.find_spec("peft") is None:
        raise ModelError(
            f"model must be a whole one where peft is not installed, got {name!r}, which holds an adapter; "
            "run: pip install peft"
        )
    with _reading(name, "adapter_config.json"):
        settings = json.loads(file.read_bytes())
    if not isinstance(settings, Mapping):
        raise ModelError(f"model must have settings in adapter_config.json, got {type(settings).__name__} in {name!r}")
    return settings


def _find(name: str, file: str) -> Path | None:
    """Find a file in a folder, or download it from the hub; None where it is missing."""
    from transformers.utils.hub import cached_file

    if Path(name).is_dir():
        return Path(name) / file if (Path(name) / file).is_file() else None
    with _reading(name, file):
        found = cached_file(
            name, file, _raise_exceptions_for_missing_entries=False, _raise_exceptions_for_connection_errors=False
        )
    return None if found is None else Path(found)


def _base_of(name: str, adapter: Mapping[str, Any]) -> str:
    if _find(name, "config.json") is not None:
        return name
    base = adapter.get("base_model_name_or_path")
    if not isinstance(base, str) or not base:
        raise ModelError(
            f"model must be an adapter that names its base model, got {name!r} without base_model_name_or_path; "
            "add it to adapter_config.json"
        )
    return base


def _check_place(name: str, base: str, files: Sequence[str]) -> None:
    """Require that a folder holds one of the files; names on the hub pass."""
    folder = Path(base)
    looks_local = folder.is_absolute() or base.startswith((".", "~")) or base.count("/") > 1
    if (looks_local or folder.exists()) and not any((folder / file).is_file() for file in files):
        problem = "there is no such folder" if not folder.exists() else f"the folder holds no {files[0]}"
        got = repr(name) if base == name else f"{name!r}, an adapter of {base!r}"
        raise ModelError(f"model must be a folder with a saved classifier or a name on the hub, got {got}: {problem}")


def _task(trained: str, tasks: Mapping[str, str]) -> str | None:
    return next((task for end, task in tasks.items() if trained.endswith(end)), None)


def _check_head(name: str, trained: str, wanted: Head) -> None:
    """Require a configuration that names no other task."""
    task = _task(trained, _HEADS)
    if task is not None and task != _task(wanted.auto_class, _HEADS):
        raise ModelError(
            f"model must be a {wanted.kind}, got {name!r}, which was trained for {task} ({trained}); "
            "choose another model, or another task"
        )


def _n_labels(name: str, n_labels: int) -> int:
    """Count the labels of an adapter's own head, which the base model's configuration does not know."""
    from safetensors import safe_open

    file = _find(name, "adapter_model.safetensors")
    if file is None:
        return n_labels
    with _reading(name, "adapter"), safe_open(file, "pt") as tensors:
        shapes = [tensors.get_slice(key).get_shape() for key in tensors.keys() if re.search(_HEAD, key)]  # noqa: SIM118
    return min((int(shape[0]) for shape in shapes), default=n_labels)


@contextmanager
def _reading(name: str, what: str) -> Iterator[None]:
    """Turn every error of reading a model's files into a `ModelError`; Transformers checks little."""
    try:
        yield
    except Exception as error:
        text = str(error).strip()
        if type(error) is RuntimeError and not any(mark in text for mark in _OF_FILES):
            raise
        if "trust_remote_code" in text:
            raise ModelError(
                f"model must need no Python code of its own, got {name!r}, which does; read that code, and if you "
                "trust it pass trust_remote_code=True, on the command line --trust-remote-code"
            ) from error
        reason = text.splitlines()[0] if text else type(error).__name__
        if not isinstance(error, (OSError, ValueError)):
            reason = f"its {what} cannot be read: {reason}"
        raise ModelError(f"model must be one in a folder or on the hub, got {name!r}: {reason}") from error
