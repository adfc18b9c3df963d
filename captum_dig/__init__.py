"""Integrated gradients for language models along a path you choose, as a Captum attribution method.

The flow, one module for each stage: `vocabulary` (rows and neighbours), `anchors` (which word comes next), `tables`
(ranked once, walked over), `paths` (knots), `quadrature` (nodes and weights), `attribution` (Captum's interface;
`neuron` for single neurons), `convergence` (what a delta is made of), `text` (sentences in, results out), `bench`
(methods side by side), `study` (ask people), `cli`.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from captum_dig.anchors import AnchorSearch, Greedy, MaxCount, Neighborhood, RandomAnchor, RandomNeighbor
    from captum_dig.attribution import DiscretizedIntegratedGradients, LayerDiscretizedIntegratedGradients
    from captum_dig.bench import compare
    from captum_dig.candidates import word_candidates
    from captum_dig.comparison import Comparison
    from captum_dig.convergence import ConvergenceReport, convergence_report
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
    from captum_dig.neuron import NeuronDiscretizedIntegratedGradients
    from captum_dig.paths import (
        EnsemblePath,
        MonotonicPath,
        PathGenerator,
        StaggeredPath,
        StraightLine,
        UniformPath,
        upsample,
    )
    from captum_dig.results import TextAttribution
    from captum_dig.settings import ExplanationSettings
    from captum_dig.text import TextExplainer
    from captum_dig.vocabulary import Vocabulary

__version__ = "0.1.0"

# Where each public name lives. They are imported on first use: `captum-dig --help` needs no PyTorch.
_HOMES = {
    "AnchorSearch": "anchors",
    "AttributionMethod": "methods",
    "CaptumDigError": "errors",
    "Comparison": "comparison",
    "ConvergenceReport": "convergence",
    "DiscretizedIntegratedGradients": "attribution",
    "EnsemblePath": "paths",
    "ExplanationSettings": "settings",
    "Greedy": "anchors",
    "LayerDiscretizedIntegratedGradients": "attribution",
    "MaxCount": "anchors",
    "ModelError": "errors",
    "MonotonicPath": "paths",
    "Neighborhood": "anchors",
    "NeuronDiscretizedIntegratedGradients": "neuron",
    "PathError": "errors",
    "PathGenerator": "paths",
    "PathMethod": "methods",
    "RandomAnchor": "anchors",
    "RandomNeighbor": "anchors",
    "StaggeredPath": "paths",
    "StraightLine": "paths",
    "TextAttribution": "results",
    "TextExplainer": "text",
    "TokenBatch": "metrics",
    "UniformPath": "paths",
    "Vocabulary": "vocabulary",
    "VocabularyError": "errors",
    "compare": "bench",
    "comprehensiveness": "metrics",
    "convergence_report": "convergence",
    "kendall_tau": "metrics",
    "leave_one_out": "metrics",
    "log_odds": "metrics",
    "sufficiency": "metrics",
    "upsample": "paths",
    "word_approximation_error": "metrics",
    "word_candidates": "candidates",
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
