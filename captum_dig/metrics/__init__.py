"""Numbers that say what an explanation is worth.

`words`: how far a path is from real words. `faithfulness` and `soft`: what the model's answer does without the words
that an explanation names. `agreement`: whether scores come in the order of what removing each token does. `accuracy`:
how exactly attributions were computed. `robustness`: Captum's own measures. Each function gives one number for each
sentence; `statistics` makes intervals and tests of them.
"""

from captum_dig.metrics.accuracy import delta_percent, pooled_delta_percent, token_error
from captum_dig.metrics.agreement import kendall_tau, leave_one_out
from captum_dig.metrics.faithfulness import TokenBatch, comprehensiveness, log_odds, sufficiency
from captum_dig.metrics.robustness import infidelity, sensitivity
from captum_dig.metrics.soft import soft_comprehensiveness, soft_sufficiency
from captum_dig.metrics.statistics import Interval, PairedTest, bootstrap_interval, paired_test
from captum_dig.metrics.words import anchor_shares, word_approximation_error

__all__ = [
    "Interval",
    "PairedTest",
    "TokenBatch",
    "anchor_shares",
    "bootstrap_interval",
    "comprehensiveness",
    "delta_percent",
    "infidelity",
    "kendall_tau",
    "leave_one_out",
    "log_odds",
    "paired_test",
    "pooled_delta_percent",
    "sensitivity",
    "soft_comprehensiveness",
    "soft_sufficiency",
    "sufficiency",
    "token_error",
    "word_approximation_error",
]
