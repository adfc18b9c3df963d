"""What the documentation promises to hold; whether it builds, and its code runs, is for Sphinx to say."""

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
REFERENCE = "".join(page.read_text("utf-8") for page in (DOCS / "reference").glob("*.md"))
PACKAGE = "".join(file.read_text("utf-8") for file in (ROOT / "captum_dig").rglob("*.py"))

# Modules that are imported from by their own name, and those whose names come from `captum_dig` itself.
MODULES = (
    "captum_dig",
    "captum_dig.catalogue",
    "captum_dig.comparison",
    "captum_dig.datasets",
    "captum_dig.errors",
    "captum_dig.metrics",
    "captum_dig.study",
    "captum_dig.testing",
    "captum_dig.visualization",
)


def public_names(module):
    thing = importlib.import_module(module)
    errors = [name for name, value in vars(thing).items() if isinstance(value, type) and value.__module__ == module]
    return getattr(thing, "__all__", errors)


@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_is_in_the_reference(module):
    found = re.findall(r"^\.\. (?:auto(?:class|function|exception)|py:data):: ([\w.]+)$", REFERENCE, flags=re.MULTILINE)
    # What the package itself exports is documented under its shorter name.
    top = set(importlib.import_module("captum_dig").__all__)
    wanted = {f"captum_dig.{name}" if name in top else f"{module}.{name}" for name in public_names(module)}
    missing = wanted - set(found)
    assert not missing, f"add them to a page in docs/reference: {sorted(missing)}"


def test_every_key_that_is_cited_is_in_the_bibliography():
    keys = set(re.findall(r"^@\w+\{([^,\s]+),", (DOCS / "references.bib").read_text("utf-8"), flags=re.MULTILINE))
    cited = set(re.findall(r"\[([a-z]+(?:-[a-z]+)*-\d{4})\]", PACKAGE))
    assert "sanyal-ren-2021" in cited
    assert cited <= keys


def test_every_page_is_in_a_table_of_contents():
    for folder in (DOCS, *(path for path in DOCS.iterdir() if path.is_dir() and not path.name.startswith("_"))):
        pages = {path.stem for path in folder.glob("*.md")} - {"index"}
        listing = (folder / "index.md").read_text("utf-8") if pages else ""
        listed = set(re.findall(r"^([\w-]+)$", listing, flags=re.MULTILINE))
        assert pages <= listed or ":glob:" in listing, f"{folder.name}/index.md lacks {sorted(pages - listed)}"


def test_no_output_is_stored():
    assert not list(DOCS.rglob("*.ipynb"))
