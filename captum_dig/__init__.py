"""Integrated gradients for language models along a path you choose, as a Captum attribution method.

The flow, one package for each stage: `vocabulary` (rows and neighbours), `paths` (from word to word, as knots),
`quadrature` (nodes and weights), `attribution` (Captum's interface), `models` (a text model and its tokenizer),
`methods` and `metrics`, `text` (sentences in, results out), `comparison` (methods side by side), `study` (ask people),
`cli`.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from captum_dig.attribution import DiscretizedIntegratedGradients, LayerDiscretizedIntegratedGradients
    from captum_dig.attribution.convergence import ConvergenceReport, convergence_report
    from captum_dig.attribution.neuron import NeuronDiscretizedIntegratedGradients
    from captum_dig.comparison import Comparison
    from captum_dig.comparison.comparing import compare
    from captum_dig.errors import CaptumDigError, ModelError, PathError, VocabularyError
    from captum_dig.methods import AttributionMethod, PathMethod
    from captum_dig.metrics import (
        TokenBatch,
        comprehensiveness,
        kendall_tau,
        leave_one_out,
        log_odds,
        sufficiency,
        word_approximation_error,
    )
    from captum_dig.paths import (
        EnsemblePath,
        MonotonicPath,
        PathGenerator,
        StaggeredPath,
        StraightLine,
        UniformPath,
        upsample,
    )
    from captum_dig.paths.anchors import AnchorSearch, Greedy, MaxCount, Neighborhood, RandomAnchor, RandomNeighbor
    from captum_dig.text.explainer import TextExplainer
    from captum_dig.text.results import TextAttribution
    from captum_dig.text.settings import ExplanationSettings
    from captum_dig.vocabulary import Vocabulary
    from captum_dig.vocabulary.readable import word_candidates

__version__ = "0.1.0"

# Where each public name lives. They are imported on first use: `captum-dig --help` needs no PyTorch.
_HOMES = {
    "AnchorSearch": "paths.anchors",
    "AttributionMethod": "methods",
    "CaptumDigError": "errors",
    "Comparison": "comparison",
    "ConvergenceReport": "attribution.convergence",
    "DiscretizedIntegratedGradients": "attribution",
    "EnsemblePath": "paths",
    "ExplanationSettings": "text.settings",
    "Greedy": "paths.anchors",
    "LayerDiscretizedIntegratedGradients": "attribution",
    "MaxCount": "paths.anchors",
    "ModelError": "errors",
    "MonotonicPath": "paths",
    "Neighborhood": "paths.anchors",
    "NeuronDiscretizedIntegratedGradients": "attribution.neuron",
    "PathError": "errors",
    "PathGenerator": "paths",
    "PathMethod": "methods",
    "RandomAnchor": "paths.anchors",
    "RandomNeighbor": "paths.anchors",
    "StaggeredPath": "paths",
    "StraightLine": "paths",
    "TextAttribution": "text.results",
    "TextExplainer": "text.explainer",
    "TokenBatch": "metrics",
    "UniformPath": "paths",
    "Vocabulary": "vocabulary",
    "VocabularyError": "errors",
    "compare": "comparison.comparing",
    "comprehensiveness": "metrics",
    "convergence_report": "attribution.convergence",
    "kendall_tau": "metrics",
    "leave_one_out": "metrics",
    "log_odds": "metrics",
    "sufficiency": "metrics",
    "upsample": "paths",
    "word_approximation_error": "metrics",
    "word_candidates": "vocabulary.readable",
}

__all__ = [
    "AnchorSearch",
    "AttributionMethod",
    "CaptumDigError",
    "Comparison",
    "ConvergenceReport",
    "DiscretizedIntegratedGradients",
    "EnsemblePath",
    "ExplanationSettings",
    "Greedy",
    "LayerDiscretizedIntegratedGradients",
    "MaxCount",
    "ModelError",
    "MonotonicPath",
    "Neighborhood",
    "NeuronDiscretizedIntegratedGradients",
    "PathError",
    "PathGenerator",
    "PathMethod",
    "RandomAnchor",
    "RandomNeighbor",
    "StaggeredPath",
    "StraightLine",
    "TextAttribution",
    "TextExplainer",
    "TokenBatch",
    "UniformPath",
    "Vocabulary",
    "VocabularyError",
    "compare",
    "comprehensiveness",
    "convergence_report",
    "kendall_tau",
    "leave_one_out",
    "log_odds",
    "sufficiency",
    "upsample",
    "word_approximation_error",
    "word_candidates",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
