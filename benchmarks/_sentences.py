"""What benchmarks of sentences share: their command line, their texts, a report to fill, a distance of scores."""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._measuring import environment
from benchmarks.paper._settings import Setting, read
from benchmarks.paths.study import SETTING
from captum_dig import TextAttribution, TextExplainer

TINY_TEXTS = ["A gorgeous, witty, seductive movie.", "The plot is dull and the acting is terrible."]


def sentence_parser(doc: str | None, tiny: str) -> argparse.ArgumentParser:
    """A command line with a model, sentences, and a file for the report."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, help="folder of a sentence classifier; the demo model without it")
    parser.add_argument("--data", type=Path, help="lines of text TAB label")
    parser.add_argument("--n", type=int, default=40, help="sentences, evenly spread over the file")
    parser.add_argument("--out", type=Path, help="JSON file to write")
    parser.add_argument("--tiny", action="store_true", help=f"two sentences, the demo model, {tiny}")
    return parser


def setting_parser(doc: str | None, tiny: str) -> argparse.ArgumentParser:
    """A command line with settings (a model and its data set each), and a file that keeps those of earlier runs."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=Path, help="folder with the models")
    parser.add_argument("--data-dir", type=Path, help="folder with the data sets")
    parser.add_argument("--settings", nargs="+", default=["demo"], choices=list(SETTING), help="names of settings")
    parser.add_argument("--out", type=Path, help="JSON file to write, or to add settings to")
    parser.add_argument("--tiny", action="store_true", help=f"two sentences, the demo model, {tiny}")
    return parser


def given(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """Read a command line with settings."""
    arguments = parser.parse_args()
    if not arguments.tiny and arguments.data_dir is None:
        parser.error("give --data-dir, or --tiny")
    return arguments


def explainer_of(setting: Setting, models: Path | None) -> TextExplainer:
    """The model of a setting. That of the demo is where it is, wherever the others are."""
    return TextExplainer.from_pretrained((models or Path()) / setting.model, name=setting.name)


def load_setting(name: str, arguments: argparse.Namespace, split: str = "test") -> tuple[TextExplainer, list[str]]:
    """The model of a setting, and sentences spread over a split, the short ones first, which saves padding."""
    setting = SETTING[name]
    if arguments.tiny:
        return TextExplainer.demo(), TINY_TEXTS
    texts = [text for text, _ in read(setting.dataset, split, arguments.data_dir)]
    spread = texts[:: max(1, len(texts) // arguments.n)][: arguments.n]
    return explainer_of(setting, arguments.models), sorted(spread, key=len)


def reopened(doc: str | None, file: Path | None, under: str = "models", **settings: Any) -> dict[str, Any]:
    """A report about models, which stand under a name, with those that the file holds already."""
    kept = json.loads(file.read_text(encoding="utf-8"))[under] if file and file.exists() else {}
    question = (doc or "").splitlines()[0]
    return {"question": question, "environment": environment(), "settings": settings, under: kept}


def explain(explainer: TextExplainer, texts: list[str], **options: Any) -> list[TextAttribution]:
    """Explanations of the texts, several at once."""
    found = explainer.explain(texts, batch_size=8, internal_batch_size=128, **options)
    return found if isinstance(found, list) else [found]


def distance(scores: Sequence[float], reference: Sequence[float], order: int = 2) -> float:
    """Relative distance of scores, L1 or L2."""
    exact = np.array(reference)
    return float(np.linalg.norm(np.array(scores) - exact, order) / np.linalg.norm(exact, order))


def write_texts(data: Path, texts: list[str]) -> None:
    """Write texts as JSON Lines."""
    data.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), encoding="utf-8")
