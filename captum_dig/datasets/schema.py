"""The schema of rows, for Arrow and Parquet.

Takes the columns of `captum_dig.text.rows`; gives a schema of pyarrow, which comes with the extra ``data``.
"""

import importlib
from collections.abc import Mapping
from typing import Any

from captum_dig.errors import MissingExtraError
from captum_dig.text.rows import COLUMNS


def extra(module: str, name: str) -> Any:
    """Import a module of an extra.

    Args:
        module: The module, such as ``"pyarrow"``.
        name: The extra, such as ``"data"``.

    Raises:
        MissingExtraError: If it is not installed; the message says how to install it.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise MissingExtraError(
            f"{package} must be installed for this, got {error}; run: pip install 'captum-dig[{name}]'"
        ) from error


def is_installed(module: str) -> bool:
    """Whether a module can be imported."""
    try:
        importlib.import_module(module)
    except ImportError:
        return False
    return True


def arrow_schema(more: Mapping[str, Any] | None = None) -> Any:
    """Make the schema of rows.

    Args:
        more: The types of further columns in pyarrow by their names; they come first.

    Returns:
        The ``pyarrow.Schema``.

    Raises:
        MissingExtraError: If pyarrow is not installed.

    Example:
        >>> arrow_schema().field("word_scores").type
        ListType(list<item: double>)
    """
    arrow = extra("pyarrow", "data")
    fields = [arrow.field(name, kind) for name, kind in (more or {}).items()]
    fields += [arrow.field(column.name, _type(column.kind), metadata={"about": column.about}) for column in COLUMNS]
    return arrow.schema(fields)


def _type(kind: str) -> Any:
    """A type of Arrow by its name."""
    arrow = extra("pyarrow", "data")
    if kind.startswith("list<"):
        return arrow.list_(_type(kind[5:-1]))
    return {"string": arrow.string(), "int64": arrow.int64(), "double": arrow.float64(), "bool": arrow.bool_()}[kind]
