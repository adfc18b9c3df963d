"""Plug-ins of the command line: files of Python that add entries to the catalogue."""

import importlib.util
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from captum_dig.catalogue import CATALOGUE, Catalogue, Entry


def load(paths: Iterable[Path]) -> Catalogue:
    """Run files of Python, and add their entries to the catalogue.

    Args:
        paths: The files; each holds a sequence ``ENTRIES`` of `Entry`.

    Returns:
        The catalogue.

    Raises:
        ValueError: If a file cannot be run, holds no entries, or an entry has no object.

    Example:
        >>> load([]) is CATALOGUE
        True
    """
    catalogue = CATALOGUE
    for path in paths:
        catalogue = catalogue.plus(_entries(path))
    return catalogue


def _entries(path: Path) -> Sequence[Entry]:
    shown = repr(str(path))
    # Not the bare name: a file json.py must not become the module json of everybody.
    name = f"captum_dig_plugin_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path) if path.suffix == ".py" and path.is_file() else None
    if spec is None or spec.loader is None:
        raise ValueError(f"--plugin must be a file of Python, such as toys.py, got {shown}")
    module = importlib.util.module_from_spec(spec)
    # Dataclasses, and the source of a class, are looked up by the name of the module.
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
        entries = getattr(module, "ENTRIES", None)
        if isinstance(entries, list | tuple) and entries and all(isinstance(entry, Entry) for entry in entries):
            for entry in entries:
                entry.load()
            return entries
    except (Exception, SystemExit) as error:
        raise ValueError(f"--plugin must run, got {shown}: {type(error).__name__}: {error}") from error
    raise ValueError(f"--plugin must hold ENTRIES, a list of captum_dig.Entry, got {shown} without")
