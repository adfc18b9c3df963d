"""Quadrature: the nodes of a path, at which gradients are taken, and their weights.

`rules`: how [0, 1] is cut into cells, with one gradient in each. `schedules`: the cells and nodes of a rule on the
pieces of paths, for all examples of a batch. `layouts`: points at any positions of any paths. `interpolation`: mean
gradients between two nodes.

Every rule cuts [0, 1] into `n_steps` cells and takes one gradient inside each. The weight of a node is the displacement
of the path over its cell, γ(right edge) - γ(left edge). Weights therefore add up to input - baseline for every path,
rule and number of steps, and a linear model gets its exact attribution. This includes Gauss-Legendre: the running sum
of its weights gives edges that separate its nodes. The paths of an ensemble share the gradients, and count equally.
Rules with known sums use the nodes alone: `captum_dig.attribution.intervals` sums from node to node.
"""

from captum_dig.quadrature.rules import RULES, Cells, QuadratureRule, check_method
from captum_dig.quadrature.schedules import Schedule, Spacing, check_spacing

__all__ = ["RULES", "Cells", "QuadratureRule", "Schedule", "Spacing", "check_method", "check_spacing"]
