"""Random texts of random scripts through `TextExplainer.explain`: no foreign error, and totals that are kept."""

import math
import os
import warnings

import pytest
from hypothesis import HealthCheck, given, settings

from captum_dig import TextExplainer
from captum_dig.errors import CaptumDigError
from tests.kinds import tokenizer_of
from tests.texts import texts
from tests.tiny_models import tiny_classifier

# In all, over the kinds: some in every run, many with `-m slow`, any number by the environment.
FUZZED = ("wordpiece-uncased", "byte-level-trimmed", "unigram-metaspace", "llama")
N_SLOW = int(os.environ.get("CAPTUM_DIG_TEXTS", "2000"))


def explain(kind, text, overflow):
    """Explain a text, or be told why not in this package's words."""
    explainer = EXPLAINERS.setdefault(kind, _explainer(kind))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*(are not explained|the paths of some words)", UserWarning)
        try:
            return explainer.explain([text], n_steps=4, overflow=overflow)
        except (CaptumDigError, ValueError, TypeError) as error:
            if "must" not in str(error):
                raise
            return []


EXPLAINERS: dict[str, TextExplainer] = {}


def _explainer(kind):
    tokenizer = tokenizer_of(kind)
    return EXPLAINERS.get(kind) or TextExplainer(
        tiny_classifier(len(tokenizer), 8), tokenizer, candidates="all", cache=False
    )


def check(kind, text, overflow):
    for result in explain(kind, text, overflow):
        assert sum(result.word_scores) == pytest.approx(sum(result.token_scores), rel=1e-9, abs=1e-9)
        assert all(map(math.isfinite, result.token_scores))
        assert all(score == 0 for score, mark in zip(result.token_scores, result.special, strict=True) if mark)
        assert result.text == text[result.start : result.start + len(result.text)]
        assert str(result)


@pytest.mark.parametrize("kind", FUZZED)
@given(text=texts(20, special=True))
@settings(max_examples=15)
def test_totals_are_kept(kind, text):
    check(kind, text, "windows")


@pytest.mark.slow
@pytest.mark.parametrize("overflow", ["windows", "truncate"])
@pytest.mark.parametrize("kind", FUZZED)
@given(text=texts(20, special=True))
@settings(max_examples=max(1, N_SLOW // 8), suppress_health_check=list(HealthCheck))
def test_totals_are_kept_for_many_texts(kind, overflow, text):
    check(kind, text, overflow)
