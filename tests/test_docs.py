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


READ_FIRST = [
    ROOT / "README.md",
    DOCS / "index.md",
    DOCS / "citing.md",
    DOCS / "getting-started.md",
    DOCS / "glossary.md",
    DOCS / "explanation" / "scores.md",
    DOCS / "tutorials" / "similarity.md",
    *sorted((DOCS / "how-to").glob("*.md")),
    DOCS / "reference" / "datasets.md",
]


def sentences(text):
    """The sentences of a page, without code, tables and headings; a piece of code counts as one word."""
    text = re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.DOTALL)
    text = re.sub(r"```.*?```", "\n\n", text, flags=re.DOTALL)
    for block in re.split(r"\n\s*\n|\n(?=[-*] |\d+\. |#|\|)", text):
        if not block.lstrip().startswith(("|", "#")):
            told = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", block)
            told = re.sub(r"(\{[a-z:]+\})?`[^`]*`", "X", told)
            yield from re.split(r"(?<=[.!?:;])\**\s+(?=[A-Z*(])", " ".join(told.split()))


@pytest.mark.parametrize("page", READ_FIRST, ids=lambda page: page.name)
def test_no_sentence_is_longer_than_thirty_words(page):
    long = [sentence for sentence in sentences(page.read_text("utf-8")) if len(sentence.split()) > 30]
    assert not long


def test_no_output_is_stored():
    assert not list(DOCS.rglob("*.ipynb"))
