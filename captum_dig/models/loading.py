"""Loading: a classifier and its tokenizer, by a name on the hub or from a folder.

Takes a name, gives a model and a tokenizer; `captum_dig.models.model` wraps the model.
"""

from pathlib import Path
from typing import Any

import torch

from captum_dig.errors import ModelError


def load_pretrained(name_or_folder: str | Path, dtype: torch.dtype) -> tuple[Any, Any]:
    """Load a sequence classifier and its tokenizer.

    Args:
        name_or_folder: A model's name on the Hugging Face hub, or a folder.
        dtype: The type to load its weights as.

    Returns:
        Model and tokenizer.

    Raises:
        ModelError: If there is no such model, or it is not a sequence classifier.
    """
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    name = str(name_or_folder)
    folder = Path(name)
    looks_local = folder.is_absolute() or name.startswith((".", "~")) or name.count("/") > 1
    if (looks_local or folder.exists()) and not (folder / "config.json").is_file():
        problem = "there is no such folder" if not folder.exists() else "the folder holds no config.json"
        raise ModelError(
            f"model must be a folder with a saved classifier or a name on the hub, got {name!r}: {problem}"
        )
    try:
        tokenizer = AutoTokenizer.from_pretrained(name)
        model, report = AutoModelForSequenceClassification.from_pretrained(name, dtype=dtype, output_loading_info=True)
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ModelError(
            f"model must be a sequence classifier in a folder or on the hub, got {name!r}: {reason}"
        ) from error
    missing = sorted(report["missing_keys"])
    if missing:
        raise ModelError(
            f"model must be a fine-tuned sequence classifier, "
            f"got {name!r} without weights for {', '.join(missing[:3])}; "
            "fine-tune it first, or choose one that is"
        )
    return model, tokenizer
