"""Verdicts: the answer of a comparison in one sentence for each baseline.

Takes the numbers of a comparison; gives sentences. `captum_dig.comparison.report` puts them before its tables.
"""

from typing import Final

import numpy as np

from captum_dig.catalogue import CATALOGUE
from captum_dig.comparison.records import MeasuredTexts
from captum_dig.comparison.settings import MeasureInfo
from captum_dig.metrics import paired_test

# The p-value below which a difference is more than chance.
SIGNIFICANT: Final = 0.05
# Fewer texts cannot tell methods apart: a test of signs is never significant.
_FEWEST: Final = 6
# Methods that a sentence names.
_NAMED: Final = 3


def verdicts(comparison: MeasuredTexts) -> list[str]:
    """Say which methods are best, from each baseline.

    The first measure with a better side decides. Every method is tested against the best one, on the same texts, with
    Holm's correction for the number of tests.

    Args:
        comparison: The comparison.

    Returns:
        A sentence for each baseline; none if no measure has a better side, or there is one method.
    """
    info = next((one for one in comparison.measures.values() if one.better and one.average == "mean"), None)
    if info is None or len(comparison.settings.methods) < 2:
        return []
    return [_verdict(comparison, info, baseline) for baseline in comparison.settings.baselines]


def _verdict(comparison: MeasuredTexts, info: MeasureInfo, baseline: str) -> str:
    values = {method: comparison.finite_values(info.name, method, baseline) for method in comparison.settings.methods}
    known = {method: found for method, found in values.items() if (~np.isnan(found)).any()}
    n_texts = len(comparison.texts)
    start = f"From baseline {baseline}, on {n_texts} {'text' if n_texts == 1 else 'texts'}"
    if len(known) < 2 or n_texts < _FEWEST:
        return f"{start}: too few to compare methods; take more texts."
    means = {method: info.better * float(np.nanmean(found)) for method, found in known.items()}
    best = max(means, key=means.__getitem__)
    p_values = {
        method: paired_test(found, known[best], seed=comparison.settings.seed).p_value
        for method, found in known.items()
        if method != best
    }
    behind = _behind(p_values)
    level = sorted((method for method in known if method not in behind), key=lambda method: -means[method])
    names = _listed([CATALOGUE.title(method) for method in level])
    if "random" in level:
        return f"{start}: no method is better than random scores by more than chance ({info.title}); take more texts."
    if len(level) > _NAMED:
        told = f"{start}: {CATALOGUE.title(level[0])} has the best {info.title}, and {len(level) - 1} others are level"
    else:
        told = f"{start}: {names} {'has' if len(level) == 1 else 'have'} the best {info.title}"
    others = (
        f"{len(behind)} of {len(known)} methods {'is' if len(behind) == 1 else 'are'}" if behind else "no method is"
    )
    return f"{told}; {others} behind by more than chance."


def _behind(p_values: dict[str, float]) -> set[str]:
    """The methods whose difference from the best is no chance, by Holm's procedure."""
    found = set()
    for place, method in enumerate(sorted(p_values, key=p_values.__getitem__)):
        if not p_values[method] * (len(p_values) - place) < SIGNIFICANT:
            break
        found.add(method)
    return found


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
