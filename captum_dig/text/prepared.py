"""Prepared: a checked request, with everything that its texts need.

Made by `captum_dig.text.explainer` for each call; its parts read and explain the texts. On one model, requests
with equal identities give equal scores.
"""

from dataclasses import dataclass
from typing import Any

from captum_dig import __version__
from captum_dig.methods.identity import identity
from captum_dig.methods.named import Strategy
from captum_dig.text.batches import BatchExplainer
from captum_dig.text.reading import Target, TextReader
from captum_dig.text.requests import Request


@dataclass(frozen=True)
class Prepared:
    """A request that fits the model.

    Attributes:
        request: The arguments as they were passed.
        strategy: The strategy: that of the request, or else the explainer's own.
        reader: Reads samples and targets.
        explain: Explains the encodings of a batch.
    """

    request: Request
    strategy: Strategy
    reader: TextReader
    explain: BatchExplainer

    def identity(self, target: Target) -> dict[str, Any]:
        """Name everything besides the model that decides scores; speed and memory are not named.

        Args:
            target: The target of all texts.

        Returns:
            Strings, numbers and lists by name, as JSON can hold them.

        Raises:
            ValueError: If there is no such target.
        """
        self.reader.resolve(target)
        plan = self.explain.plan
        return {
            "task": identity(self.explain.task),
            "method": identity(self.explain.method),
            "target": target,
            "contrast": self.request.contrast,
            "baseline": self.explain.settings.baseline,
            "baseline_ids": list(self.explain.baseline_ids),
            "overflow": self.request.overflow,
            "n_steps": plan.n_steps,
            "rule": identity(plan.method),
            "spacing": plan.spacing,
            "tolerance_percent": float(plan.tolerance_percent),
            "spread_percent": float(plan.spread_percent),
            "max_steps": plan.max_steps,
            "seed": plan.seed,
            "version": __version__,
        }
