"""Paths: from an input and a baseline to the knots of a path between them.

`base`: the class of paths, and the straight line. `words`: from word to word, as in Discretized Integrated Gradients.
`uniform`: from word to word along the straight line. `ensembles`: several paths, averaged. `staggered`: words that move
one after the other, in several orders.
"""

from captum_dig.paths.base import PathGenerator, StraightLine, as_ensemble, upsample
from captum_dig.paths.ensembles import EnsemblePath, lay_out
from captum_dig.paths.staggered import StaggeredPath
from captum_dig.paths.uniform import UniformPath
from captum_dig.paths.walks import Walk
from captum_dig.paths.words import MonotonicPath, WordPath

__all__ = [
    "EnsemblePath",
    "MonotonicPath",
    "PathGenerator",
    "StaggeredPath",
    "StraightLine",
    "UniformPath",
    "Walk",
    "WordPath",
    "as_ensemble",
    "lay_out",
    "upsample",
]
