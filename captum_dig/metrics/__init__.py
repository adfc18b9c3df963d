"""Measures of explanations.

`words`: the distance of a path from real words. `faithfulness` and `soft`: the change of the output without the words
of high scores. `agreement`: the rank correlation with leave-one-out. `accuracy`: the numerical error of attributions.
`robustness`: Captum's own measures. Each function returns one number for each sentence; `statistics` makes intervals
and tests of them. `measures` and `integration`: the measures of a comparison, built on these
functions.
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
