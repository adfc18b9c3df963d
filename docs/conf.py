"""Sphinx configuration."""

from importlib.metadata import version as installed_version

project = "captum_dig"
author = "captum_dig developers"
copyright = author  # noqa: A001 (Sphinx's name)
release = installed_version("captum-dig")
version = ".".join(release.split(".")[:2])

extensions = ["myst_parser"]
exclude_patterns = ["_build"]
nitpicky = True

html_theme = "furo"
html_title = f"captum_dig {release}"
