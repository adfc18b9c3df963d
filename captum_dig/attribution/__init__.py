"""Captum's interface, with a path to choose.

`inputs`: attributions of the inputs themselves. `layer`: of a layer's output. `neuron`: of the inputs, to one neuron.
`summing`: sums along the paths. `intervals`: known sums from node to node; `streaming`: in one pass; `refining`: with
further gradients where the error is large. `calls` and `integral`: the arguments of a call, and its results. `forward`:
checks of a forward function. `watching`: checks of a layer while a model runs. `convergence`: the causes of a delta.
"""

from captum_dig.attribution.convergence import ConvergenceReport, convergence_report
from captum_dig.attribution.inputs import DiscretizedIntegratedGradients
from captum_dig.attribution.integral import Integral
from captum_dig.attribution.layer import LayerDiscretizedIntegratedGradients
from captum_dig.attribution.neuron import NeuronDiscretizedIntegratedGradients
from captum_dig.attribution.refining import Refinement

__all__ = [
    "ConvergenceReport",
    "DiscretizedIntegratedGradients",
    "Integral",
    "LayerDiscretizedIntegratedGradients",
    "NeuronDiscretizedIntegratedGradients",
    "Refinement",
    "convergence_report",
]
