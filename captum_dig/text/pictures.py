"""The picture of a result: what is written above the words, and the words with their scores.

Takes a `TextAttribution`; gives a `Picture`, which `captum_dig.visualization` draws in every format.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

from captum_dig.text.settings import LARGE_DELTA_PERCENT, LARGE_ERROR_PERCENT
from captum_dig.visualization import Picture, TokenRow, cut_text

if TYPE_CHECKING:
    from captum_dig.text.results import TextAttribution

# The number that a score multiplies by its exponential.
_FACTORS = {"log_odds": "odds", "log_probability": "probability", "start": "probability", "end": "probability"}


def picture_of(result: TextAttribution) -> Picture:
    """Cut the text of a result into scored words and the slices between them.

    Args:
        result: The result.

    Returns:
        A picture whose segments join to the text exactly.
    """
    predicted, name = _shortened(result.predicted_label), _shortened(result.target_label)
    target = name
    if result.is_regression:
        predicted = f"{result.input_value:.4g}"
    else:
        predicted += f" ({_percent(result.predicted_probability)})"
        target += f" ({_percent(result.target_probability)})"
    # A single one, such as a given continuation, was not chosen from others.
    decided = len(result.labels) > 1 or result.span is None
    headline = [
        *([("Predicted", predicted)] if decided else []),
        ("Explained", f"{result.settings.output.replace('_', '-')} of {target}{_rather_than(result)}"),
    ]
    numbers = [("Output", f"{result.input_value:.4g} ({result.baseline_value:.4g} at the baseline)")]
    error, large = _delta(result) if result.error_percent is None else _error(result)
    (headline if large else numbers).append(error)
    if result.even_baseline is not None:
        better, probability = result.even_baseline
        headline.append(
            (
                "Baseline",
                f"{result.settings.baseline} is no neutral start: the model gives {name} "
                f"{_percent(result.baseline_probability or 0.0)} there; nearer to even odds: {better} "
                f"({_percent(probability)})",
            )
        )
    if result.truncated:
        headline.append(("Cut off", f"{result.truncated} tokens beyond the model's limit"))
    settings = [(field.name, getattr(result.settings, field.name)) for field in dataclasses.fields(result.settings)]
    # A later field may have words of its own behind the end of the cut one.
    cut_off = "cut off: the model did not read this" if result.truncated and not result.fields else ""
    return Picture(
        segments=cut_text(
            result.text,
            result.word_offsets,
            result.word_scores,
            errors=result.word_errors,
            rest_note=cut_off,
            fields=result.fields,
            span=result.span,
        ),
        headline=tuple(headline),
        settings=tuple((name, str(value)) for name, value in settings if value is not None),
        tokens=tuple(map(TokenRow, result.tokens, result.token_scores, result.anchors)),
        factor="" if result.settings.contrast else _FACTORS.get(result.settings.output, ""),
        label=_side(result),
        numbers=tuple(numbers),
        footing=_footing(result),
    )


def _side(result: TextAttribution) -> str:
    """What words of positive scores speak for; nothing for a value, which has no sides."""
    if result.is_regression:
        return ""
    other = result.settings.contrast
    return _shortened(result.target_label) + ("" if other is None else f" rather than {other}")


def _rather_than(result: TextAttribution) -> str:
    other = result.settings.contrast
    return "" if other is None else f", less that of {other}"


def _delta(result: TextAttribution) -> tuple[tuple[str, str], bool]:
    """Write the delta, and tell whether it is too large to stand aside."""
    hint, large = "", False
    if result.delta_percent > LARGE_DELTA_PERCENT:
        large = result.settings.method != "none"
        remedy = f": large, so raise n_steps above {result.settings.n_steps} or try another baseline"
        hint = remedy if large else ", to which these scores need not add up"
    return ("Delta", f"{result.delta:.2g} ({short(result.delta_percent)} % of the difference){hint}"), large


def _error(result: TextAttribution) -> tuple[tuple[str, str], bool]:
    """Write both errors, and tell whether they are too large to stand aside."""
    parts = [f"about {short(result.error_percent or 0.0)} % from the integration"]
    if result.spread_percent is not None:
        parts.append(f"{short(result.spread_percent)} % from the draw of the orders")
    end, large = "", False
    if result.converged is not None:
        end = ", within the tolerance" if result.converged else ", above the tolerance: raise max_steps"
        large = not result.converged
    elif (result.error_percent or 0.0) > LARGE_ERROR_PERCENT:
        end, large = ": large; n_steps='auto' takes gradients until it is small", True
    return ("Error", f"{' and '.join(parts)}{end}"), large


def _footing(result: TextAttribution) -> str:
    """Write the origin of the scores in one line."""
    settings = result.settings
    parts = [settings.strategy if settings.seed is None else f"{settings.strategy}, seed {settings.seed}"]
    there = result.baseline_probability
    at = "" if there is None else f", where {_shortened(result.target_label)} has {_percent(there)}"
    parts.append(f"baseline {settings.baseline}{at}")
    if settings.n_steps:
        parts.append(f"{settings.n_steps} gradient{'s' * (settings.n_steps > 1)}")
    return "; ".join(parts)


def _shortened(label: str) -> str:
    """A label on one line; a continuation may be long."""
    line = " ".join(label.split())
    return line if len(line) <= 60 else f"{line[:57]}..."


def _percent(probability: float) -> str:
    return f"{100 * probability:.1f} %"


def short(percent: float) -> str:
    """Write a percentage with two digits, or whole from 100 on."""
    return f"{percent:.0f}" if math.isfinite(percent) and percent >= 100 else f"{percent:.2g}"
