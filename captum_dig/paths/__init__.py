"""Paths: from an input and a baseline to the points of a path between them.

`base`: the class of paths, and the straight line. `words`: from word to word, as in Discretized Integrated Gradients.
`uniform`: from word to word along the straight line. `ensembles`: several paths, averaged. `staggered`: words that move
one after the other, in several orders. `per_input`: a path for each of several inputs. Below them, `polylines` makes
points where they are wanted, and `bundles` puts several inputs and orders into one time. `means` weighs the paths that
are averaged. `windows` are those of staggered words, and `starts` draws when they begin.
"""

from captum_dig.paths.base import PathGenerator, StraightLine, as_ensemble, upsample
from captum_dig.paths.bundles import Bundle, Places, Together
from captum_dig.paths.ensembles import EnsemblePath
from captum_dig.paths.per_input import PathPerInput
from captum_dig.paths.polylines import Knots, Line, Polyline, StepPlaces
from captum_dig.paths.staggered import StaggeredPath
from captum_dig.paths.uniform import UniformPath
from captum_dig.paths.walks import Walk
from captum_dig.paths.words import MonotonicPath, WordPath

__all__ = [
    "Bundle",
    "EnsemblePath",
    "Knots",
    "Line",
    "MonotonicPath",
    "PathGenerator",
    "PathPerInput",
    "Places",
    "Polyline",
    "StaggeredPath",
    "StepPlaces",
    "StraightLine",
    "Together",
    "UniformPath",
    "Walk",
    "WordPath",
    "as_ensemble",
    "upsample",
]
