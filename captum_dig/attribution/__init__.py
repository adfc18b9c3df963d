"""Captum's interface, with a path to choose.

`inputs`: attributions of the inputs themselves. `layer`: of a layer's output. `neuron`: of the inputs, to one neuron.
`summing`: sums along the paths. `refining`: further gradients where they are wanted. `calls` and `integral`: what goes
into a call, and what comes out. `forward`: checks of a forward function. `watching`: checks of a layer while a model
runs. `convergence`: the causes of a delta.
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
