"""Sources: the HTML, CSS and JavaScript files of pages.

Takes the name of a file in the package; gives its text. `web` and the other modules that draw pages read each file
once, when they are imported, and fill in the values of a page.
"""

from __future__ import annotations

from importlib import resources


def read_source(package: str, name: str) -> str:
    """Read a file beside the modules of a package.

    Args:
        package: The full name of the package.
        name: The name of the file.

    Returns:
        Its text; every line ends in a line feed.

    Example:
        >>> read_source("captum_dig.visualization", "page.html").startswith("<!DOCTYPE html>")
        True
    """
    # Bytes: reading as text would depend on the platform's line ends.
    return resources.files(package).joinpath(name).read_bytes().decode("utf-8")


def style_sheet(*sources: str) -> str:
    r"""Join style sheets, each after an empty line.

    Example:
        >>> style_sheet("b{}", "i{}")
        '\nb{}\ni{}'
    """
    return "".join(f"\n{source}" for source in sources)
