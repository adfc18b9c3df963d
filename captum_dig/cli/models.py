"""The model that a command explains."""

import logging
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from captum_dig.text.explainer import TextExplainer


def load(model: str | None, trust_remote_code: bool = False, **options: Any) -> "TextExplainer":
    """Load a model by its name or folder, or the embedded one, without the chatter of its library."""
    from transformers.utils import logging as chatter

    # Models report their loading in bars and remarks that concern their authors.
    chatter.set_verbosity_error()
    chatter.disable_progress_bar()
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)

    from captum_dig.text.explainer import TextExplainer

    if model is None:
        return TextExplainer.demo(**options)
    return TextExplainer.from_pretrained(model, trust_remote_code=trust_remote_code, **options)
