"""Numbers that say what an explanation is worth.

`words`: how far a path is from real words. `faithfulness`: what the model's answer does without the words that an
explanation names. `agreement`: whether scores come in the order of what removing each token does. Each function gives
one number for each sentence, so that averages can carry intervals. `captum_dig.convergence` says how exactly
attributions were computed.
"""

from captum_dig.metrics.agreement import kendall_tau, leave_one_out
from captum_dig.metrics.faithfulness import TokenBatch, comprehensiveness, log_odds, sufficiency
from captum_dig.metrics.words import word_approximation_error

__all__ = [
    "TokenBatch",
    "comprehensiveness",
    "kendall_tau",
    "leave_one_out",
    "log_odds",
    "sufficiency",
    "word_approximation_error",
]
