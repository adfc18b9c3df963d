"""The command line: sentences in, the words that drove the decision out.

Takes what a person types; gives coloured words on a terminal, an HTML page, JSON. It is the last stage of the flow,
behind `captum_dig.text` and `captum_dig.comparison.comparing`: no module imports it. PyTorch and Transformers are
imported once there is something to explain, so that ``--help`` and every typing error are answered at once. Each
command is a module.
"""

from captum_dig.cli import comparing, diagnosing, explaining, listing, ranking, studying, summarizing
from captum_dig.cli.app import app, main

__all__ = ["app", "comparing", "diagnosing", "explaining", "listing", "main", "ranking", "studying", "summarizing"]
