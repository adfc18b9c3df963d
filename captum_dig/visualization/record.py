"""Words and scores for Captum's own text view.

Takes the values of one row of `captum.attr.visualization.visualize_text`; gives the record for it. No other module
builds on it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from captum_dig.visualization.base import Scale, escaped

if TYPE_CHECKING:
    from captum.attr import visualization


def captum_record(
    words: Sequence[str],
    scores: Sequence[float],
    *,
    predicted_label: str,
    predicted_probability: float,
    target_label: str,
    true_label: str = "unknown",
    delta: float = 0.0,
) -> visualization.VisualizationDataRecord:
    """Make a record for `captum.attr.visualization.visualize_text`.

    Captum's view does not escape words and labels, clips scores to [-1, 1], and paints NaN as the strongest positive
    score. Here words and labels are escaped, scores are divided by the largest one, and NaN and infinity become 0.

    Args:
        words: The words of the text, in order.
        scores: One score for each word.
        predicted_label: Name of the class that the model chose.
        predicted_probability: Its probability, in [0, 1].
        target_label: Name of the class that the scores explain.
        true_label: Name of the right class, if you know it.
        delta: The convergence delta.

    Returns:
        The record. Its `attr_score` is the plain sum of the scores.

    Raises:
        ValueError: `words` and `scores` differ in length.

    Example:
        >>> record = captum_record(
        ...     ["<b>", "good"],
        ...     [-1.0, 4.0],
        ...     predicted_label="positive",
        ...     predicted_probability=0.9,
        ...     target_label="positive",
        ... )
        >>> record.raw_input_ids, record.word_attributions.tolist()
        (['&lt;b&gt;', 'good'], [-0.25, 1.0])
    """
    if len(words) != len(scores):
        raise ValueError(
            f"scores must hold one score for each of the {len(words)} words, got {len(scores)}; "
            "pass the scores of the same words"
        )
    # Loading torch and Captum takes seconds, and the other views do not need them.
    import torch
    from captum.attr import visualization

    scale = Scale.of(scores)
    normalized = [math.copysign(scale.strength(score), score) for score in scores]
    return visualization.VisualizationDataRecord(
        word_attributions=torch.tensor(normalized, dtype=torch.float32, device="cpu"),
        pred_prob=predicted_probability,
        # Captum declares the classes as int and only formats them; its own tutorials pass names.
        pred_class=escaped(predicted_label),  # type: ignore[arg-type]
        true_class=escaped(true_label),  # type: ignore[arg-type]
        attr_class=escaped(target_label),  # type: ignore[arg-type]
        attr_score=float(sum(scores)),
        raw_input_ids=[escaped(word) for word in words],
        convergence_score=delta,
    )
