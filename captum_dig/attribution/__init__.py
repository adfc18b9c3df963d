"""Captum's interface, with a path to choose.

`inputs`: attributions of the inputs themselves. `layer`: of a layer's output. `neuron`: of the inputs, to one neuron.
`forward`: checks of a forward function. `watching`: checks of a layer while a model runs. `convergence`: the causes of
a delta.
"""

from captum_dig.attribution.convergence import ConvergenceReport, convergence_report
from captum_dig.attribution.inputs import DiscretizedIntegratedGradients
from captum_dig.attribution.layer import LayerDiscretizedIntegratedGradients
from captum_dig.attribution.neuron import NeuronDiscretizedIntegratedGradients

__all__ = [
    "ConvergenceReport",
    "DiscretizedIntegratedGradients",
    "LayerDiscretizedIntegratedGradients",
    "NeuronDiscretizedIntegratedGradients",
    "convergence_report",
]
