"""How many gradients does n_steps="auto" take until its tolerance truly holds?

Test sentences are explained along fixed paths by two rules that take gradients by need:

- doubling, as before outputs at the nodes were used: Gauss-Legendre nodes, twice as many from anew while the delta is
  above the tolerance; all attempts count;
- refining: known sums, further nodes while the estimated error is above the tolerance; nothing is evaluated twice.

Their token scores are compared with a converged integral along the same path (relative L1 distance). Each rule gets the
loosest tolerance with which that true error is at most 5 %, or 1 %, for 90 % of the sentences.

    python -m benchmarks.stopping --models FOLDER --data-dir FOLDER --settings demo bert-sst2 --out FILE
    python -m benchmarks.stopping --tiny

A setting that the file holds already stays there.
"""

import statistics
from typing import Any

from benchmarks._measuring import rounded, write
from benchmarks._sentences import given, load_setting, reopened, setting_parser
from benchmarks.known_sums import FORMER, REFERENCE_STEPS, errors, scores
from captum_dig import TextAttribution, TextExplainer

RULES = {"doubling": FORMER, "refining": "known_sums"}
TOLERANCES = (80.0, 40.0, 20.0, 10.0, 5.0, 2.5, 1.25, 0.6, 0.3)
BASELINE = "pad"
WANTED_PERCENTS, WANTED_SHARE = (5.0, 1.0), 0.9
FIRST_STEPS, MAX_STEPS = 48, 768
# The path is fixed: its spread is no error of the integral.
_FREE: dict[str, Any] = {"spread_percent": 1e9, "max_steps": MAX_STEPS}


def main() -> None:
    """Measure, print, and write JSON."""
    parser = setting_parser(__doc__, tiny="one path")
    parser.add_argument("--n", type=int, default=40, help="sentences, evenly spread over the test split")
    arguments = given(parser)
    report = reopened(
        __doc__, arguments.out, true_error_percent=WANTED_PERCENTS, share_of_sentences=WANTED_SHARE, max_steps=MAX_STEPS
    )
    for setting in arguments.settings:
        explainer, texts = load_setting(setting, arguments)
        cells: dict[str, Any] = {}
        for path in ["straight_line"] if arguments.tiny else ("straight_line", "staggered", "greedy"):
            references = scores(explainer, texts, (path, BASELINE), 100 if arguments.tiny else REFERENCE_STEPS, FORMER)
            by_rule = {rule: stopped(explainer, texts, path, rule, references) for rule in RULES}
            cells[path] = {"by_tolerance": by_rule, "wanted_percent": {}}
            for percent in WANTED_PERCENTS:
                found = {rule: loosest(by_tolerance, percent) for rule, by_tolerance in by_rule.items()}
                cells[path]["wanted_percent"][f"{percent:g}"] = found
                print(setting, path, percent, found, flush=True)
        report["models"][setting] = {"n_sentences": len(texts), "cells": cells}
        write(report, arguments.out)


def stopped(
    explainer: TextExplainer, texts: list[str], path: str, rule: str, references: list[TextAttribution]
) -> dict[str, dict[str, float]]:
    """Mean gradients and shares of sentences within each wanted error, by tolerance, until all shares are reached."""
    found: dict[str, dict[str, float]] = {}
    for tolerance in TOLERANCES:
        results = scores(explainer, texts, (path, BASELINE), "auto", RULES[rule], tolerance_percent=tolerance, **_FREE)
        percents = [100 * error for error in errors(results, references, 1)]
        spent = rounded(statistics.mean(gradients(rule, result.settings.n_steps) for result in results))
        shares = {f"{wanted:g}": rounded(statistics.mean(p <= wanted for p in percents)) for wanted in WANTED_PERCENTS}
        found[f"{tolerance:g}"] = {"gradients": spent, **shares}
        if min(shares.values()) >= WANTED_SHARE:
            break
    return found


def loosest(by_tolerance: dict[str, dict[str, float]], percent: float) -> dict[str, float] | None:
    """The loosest tolerance with which a wanted error holds; None where none does."""
    for tolerance, row in by_tolerance.items():
        if row[f"{percent:g}"] >= WANTED_SHARE:
            return {"tolerance_percent": float(tolerance), "gradients": row["gradients"]}
    return None


def gradients(rule: str, n_steps: int) -> int:
    """All gradients that were taken: by doubling also those of the attempts before the last."""
    return 2 * n_steps - FIRST_STEPS if rule == "doubling" else n_steps


if __name__ == "__main__":
    main()
