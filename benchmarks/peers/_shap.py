"""SHAP: Owen values of the partition explainer, which takes forward passes alone."""

from typing import Any

import numpy as np
import shap
import torch
from _worker import serve


def explain(model: Any, tokenizer: Any, text: str, n_steps: int) -> list[float]:
    """Explain the predicted label by its log-odds, with at most as many evaluations as there are gradients."""
    target = int(model(**tokenizer(text, return_tensors="pt")).logits.argmax())

    def log_odds(texts: Any) -> Any:
        batch = tokenizer([str(one) for one in texts], return_tensors="pt", padding=True)
        with torch.no_grad():
            logits = model(**batch).logits
        logs = logits.log_softmax(dim=1)
        return (logs[:, target] - (-logs[:, target].expm1()).clamp(min=1e-12).log()).numpy()

    explainer = shap.Explainer(log_odds, shap.maskers.Text(tokenizer), seed=torch.initial_seed())
    values = explainer([text], max_evals=n_steps, batch_size=n_steps, silent=True).values[0]
    scores = np.zeros(len(tokenizer(text)["input_ids"]))
    # SHAP splits the text into the tokens of the tokenizer, special ones included.
    scores[: len(values)] = values
    return [float(score) for score in scores]


serve("shap", explain)
