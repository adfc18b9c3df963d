"""Transformers Interpret: integrated gradients along the straight line."""

from typing import Any

from _worker import serve
from transformers_interpret import SequenceClassificationExplainer

_KEPT: dict[int, Any] = {}


def explain(model: Any, tokenizer: Any, text: str, n_steps: int) -> list[float]:
    """Explain the predicted label."""
    explainer = _KEPT.setdefault(id(model), SequenceClassificationExplainer(model, tokenizer))
    return [score for _, score in explainer(text, internal_batch_size=n_steps, n_steps=n_steps)]


serve("transformers-interpret", explain)
