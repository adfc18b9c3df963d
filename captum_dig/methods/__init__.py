"""Attribution methods: ours and Captum's, asked the same question.

`base`: the class of methods, and the plan of integration. `scoring`: a method on a batch of texts. `along_path`:
integrated gradients along any path. `captums`, `gradient_shap`, `idgi`, `leave_one_out`, `random`: methods without a
path. `line`: the straight line that some of them take. `named`: methods by the names of the catalogue.
"""

from captum_dig.methods.along_path import PathMethod
from captum_dig.methods.base import AttributionMethod, Plan
from captum_dig.methods.named import NamedMethods, Strategy
from captum_dig.methods.scoring import Scores, score

__all__ = ["AttributionMethod", "NamedMethods", "PathMethod", "Plan", "Scores", "Strategy", "score"]
