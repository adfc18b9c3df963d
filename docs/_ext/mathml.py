"""Sphinx extension: formulas as MathML, which browsers draw by themselves: no script, and nothing fetched."""

from typing import Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging

_LOGGER = logging.getLogger(__name__)


def _mathml(node: nodes.Element, *, as_block: bool) -> str:
    try:
        return str(tex2mathml(node.astext(), as_block=as_block))
    except MathError as error:
        _LOGGER.warning("a formula must be LaTeX that docutils can turn into MathML: %s", error, location=node)
        return ""


def _inline(writer: Any, node: nodes.Element) -> None:
    writer.body.append(_mathml(node, as_block=False))
    raise nodes.SkipNode


def _block(writer: Any, node: nodes.Element) -> None:
    writer.body.append(f'<div class="math">{_mathml(node, as_block=True)}</div>\n')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the renderer."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
