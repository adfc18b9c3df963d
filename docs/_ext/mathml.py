"""Sphinx extension: formulas as MathML, which browsers draw by themselves: no script, and nothing fetched."""

from typing import Any

from docutils import nodes
from docutils.utils.math import wrap_math_code
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx


def _inline(writer: Any, node: nodes.Element) -> None:
    writer.body.append(tex2mathml(node.astext()))
    raise nodes.SkipNode


def _block(writer: Any, node: nodes.Element) -> None:
    code = node.astext()
    wrapped = wrap_math_code(code, as_block=True) if r"\\" in code else code
    writer.body.append(f'<div class="math">{tex2mathml(wrapped, as_block=True)}</div>\n')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the renderer."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
