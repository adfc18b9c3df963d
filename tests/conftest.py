"""What tests share: the folder of golden arrays and models, tiny models, seeds."""

import os
from pathlib import Path

# Workers share two cores: more threads in each only wait for each other. NumPy reads this when it is imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pytest
import torch
from hypothesis import settings

from tests.tiny_models import tiny_classifier, tiny_tokenizer

# Examples share two cores with other workers, so a slow one is no fault; fixed seeds keep runs comparable.
settings.register_profile("captum_dig", deadline=None, derandomize=True, max_examples=25)
# A few examples show whether another release of a library works at all.
settings.register_profile("few", settings.get_profile("captum_dig"), max_examples=5)
settings.load_profile(os.environ.get("CAPTUM_DIG_EXAMPLES", "captum_dig"))
torch.set_num_threads(1)
# Tests keep nothing in the user's cache; also where they start the command line as a process of its own.
os.environ["CAPTUM_DIG_CACHE"] = ""


def pytest_collection_modifyitems(config, items):
    """With few examples keep one case of each test: it meets the same functions of a library as the others."""
    if os.environ.get("CAPTUM_DIG_EXAMPLES") != "few":
        return
    seen, kept, dropped = set(), [], []
    for item in items:
        test = item.nodeid.partition("[")[0]
        (dropped if test in seen else kept).append(item)
        seen.add(test)
    config.hook.pytest_deselected(items=dropped)
    items[:] = kept


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)
    np.random.seed(0)  # noqa: NPY002 - Captum draws from the old generator


@pytest.fixture(scope="session")
def shared():
    """The folder with golden arrays and small real models."""
    folder = Path(os.environ.get("CAPTUM_DIG_SHARED", Path(__file__).parents[2] / "shared"))
    if not (folder / "golden").is_dir():
        pytest.skip(f"no golden arrays and models in {folder}; set CAPTUM_DIG_SHARED")
    return folder


@pytest.fixture(scope="session")
def tokenizer():
    return tiny_tokenizer()


@pytest.fixture(scope="session")
def classifier(tokenizer):
    return tiny_classifier(len(tokenizer))
