"""Sphinx configuration: pages whose code runs, and a reference made of docstrings."""

import os
import sys
from importlib.metadata import version as installed_version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "captum_dig"
author = "captum_dig developers"
copyright = author  # noqa: A001 (Sphinx's name)
release = installed_version("captum-dig")
version = ".".join(release.split(".")[:2])

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinxcontrib.bibtex",
    "public_names",
    "catalogue_tables",
    "command_line",
    "mathml",
]
exclude_patterns = ["_build", "jupyter_execute"]
# Quotes and dashes stay what a person would type.
smartquotes = False

# ------------------------------------------------------------------------------------------- pages

myst_enable_extensions = ["amsmath", "attrs_inline", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
bibtex_bibfiles = ["references.bib"]
bibtex_default_style = "plain"
bibtex_reference_style = "author_year"

# ------------------------------------------------------------------------------------ code in pages

# Every cell runs at every build, and one that raises fails it. No output is stored.
nb_execution_mode = "force"
nb_execution_raise_on_error = True
# Seconds for a cell: training takes seconds, and minutes where cores are shared.
nb_execution_timeout = 600
nb_merge_streams = True
nb_output_stderr = "show"
# Tables in what a cell shows.
nb_render_markdown_format = "gfm"
# Inherited by the notebooks' processes: nothing is fetched, and nothing is left on the reader's disk.
os.environ |= {"CAPTUM_DIG_CACHE": "", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
# A progress bar is another text at every build, and so is its complaint that it has no widgets.
os.environ |= {"TQDM_DISABLE": "1", "NO_COLOR": "1", "PYTHONWARNINGS": "ignore:IProgress not found"}

# --------------------------------------------------------------------------------------- reference

autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_typehints_format = "short"
autodoc_default_options = {"members": True, "show-inheritance": True}
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False

nitpicky = True
# Names of other projects: their pages would have to be fetched to be linked to.
nitpick_ignore_regex = [
    (r"py:.*", r"(abc|captum|collections|faiss|numpy|np|npt|pathlib|rich|torch|transformers|typing)(\..*)?"),
    # Short names that a signature shows of them, and of Python itself.
    (r"py:.*", r"(Tensor|Module|nn\.Module|PreTrained\w+|Pipeline|VisualizationDataRecord|Console\w*|RenderResult)"),
    # Captum's names for what it accepts.
    (r"py:.*", r"(BaselineType|TargetType|SliceIntType|TensorOrTupleOfTensorsGeneric)"),
    (r"py:.*", r"visualization\.VisualizationDataRecord"),
    # What `refine` hands to the object that it returns.
    (r"py:.*", r"captum_dig\.attribution\.calls\.Call"),
    # Bases of public classes; their methods are shown with each of these.
    (r"py:.*", r"captum_dig\.(paths\.words\.WordPath|paths\.tables\.WalkTable|comparison\.records\.MeasuredTexts)"),
    (r"py:.*", r"captum_dig\.(\w+\.)*_\w+"),
]

# ------------------------------------------------------------------------------------------- output

html_theme = "furo"
html_title = f"captum_dig {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_math_renderer = "mathml"
html_copy_source = False
html_show_sourcelink = False

# `sphinx-build -b linkcheck` needs a network, so it is no part of an ordinary build.
linkcheck_timeout = 20
linkcheck_retries = 2
