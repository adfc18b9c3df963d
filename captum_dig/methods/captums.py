"""Captum's methods without a path: `InputXGradient` and `DeepLift`."""

import warnings
from typing import Any

from captum.attr import DeepLift, InputXGradient
from torch import Tensor

from captum_dig.errors import ModelError
from captum_dig.methods.base import AttributionMethod, Plan
from captum_dig.models.question import Question


class CaptumInputXGradient(AttributionMethod):
    """Captum's `InputXGradient`: one gradient, no baseline."""

    name = "input_x_gradient"
    n_gradients = 1

    def scores(self, question: Question, plan: Plan) -> Tensor:  # noqa: ARG002
        """Multiply embeddings by the gradient at them."""
        method = InputXGradient(question.forward)
        attributions: Tensor = method.attribute(_leaf(question.inputs), additional_forward_args=question.arguments)
        return attributions.sum(dim=-1)


class CaptumDeepLift(AttributionMethod):
    """Captum's `DeepLift`: one backward pass with altered rules for non-linear modules.

    Functions that are no modules, such as a transformer's attention, keep their gradients. Scores therefore need not
    add up.
    """

    name = "deeplift"
    completes = True
    n_gradients = 1

    def scores(self, question: Question, plan: Plan) -> Tensor:  # noqa: ARG002
        """Propagate the difference from the baselines."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Setting forward, backward hooks")
            method: Any = DeepLift(question.forward)
            try:
                attributions: Tensor = method.attribute(
                    _leaf(question.inputs), _leaf(question.baselines), additional_forward_args=question.arguments
                )
            except (AssertionError, RuntimeError, ValueError) as error:
                # The rules of DeepLIFT fail for a module that runs twice, or a model that reads one row at a time.
                reason = str(error).partition("\n")[0]
                raise ModelError(
                    f"deeplift must be possible for the model, got {reason!r}; leave it out of the methods"
                ) from error
        return attributions.sum(dim=-1)


def _leaf(tensor: Tensor) -> Tensor:
    """A copy that requires gradients; Captum would warn about a tensor that does not."""
    return tensor.detach().clone().requires_grad_()
