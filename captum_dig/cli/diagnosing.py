"""The command that shows what a report of a fault should hold."""

import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated

from typer import Option, echo

from captum_dig import __version__
from captum_dig.cli.app import app
from captum_dig.cli.options import TRUST

_PACKAGES = ("torch", "transformers", "captum", "faiss-cpu", "numpy", "tokenizers", "rich", "typer", "pyarrow", "ray")
_HELP = (
    "Show versions, devices and folders, for a report of a fault.\n\n"
    "With --model it also loads the model, and shows its class, its tokenizer and the task that follows."
)


@app.command(help=_HELP)
def doctor(
    model: Annotated[str | None, Option(help="A folder, or a name on the hub.", show_default="none")] = None,
    trust_remote_code: Annotated[bool, TRUST] = False,
) -> None:
    """Print one fact a line."""
    _say("captum-dig", __version__)
    _say("Python", f"{platform.python_version()} ({sys.executable})")
    _say("system", platform.platform())
    _say("cores", str(os.cpu_count()))
    for package in _PACKAGES:
        _say(package, _version(package))

    import torch

    from captum_dig.paths.folders import TableFolder

    found = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
    _say("CUDA devices", ", ".join(found) or "none")
    _say("Apple GPU", "yes" if torch.backends.mps.is_available() else "none")
    _say("CPU capability", f"{torch.backends.cpu.get_cpu_capability()}, {torch.get_num_threads()} threads")
    folder = TableFolder.default()
    _say("cache", "none" if folder is None else str(folder.folder))
    if model is not None:
        from captum_dig.cli import models

        explainer = models.load(model, trust_remote_code)
        _say("model", f"{type(explainer.classifier.model).__name__}, {explainer.classifier.model.dtype}")
        tokenizer = explainer.encoder.tokenizer
        _say("tokenizer", f"{type(tokenizer).__name__}, {'fast' if tokenizer.is_fast else 'slow'}")
        _say("task", repr(explainer.task))
        _say("reads", f"{explainer.encoder.max_tokens or 'any number of'} tokens")
        _say("rows", f"{len(explainer.vocabulary):,} of {explainer.vocabulary.dim} numbers")


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _say(name: str, value: str) -> None:
    echo(f"{name:15} {value}")
