"""Draw tokens and scores as escaped HTML, as terminal text or as a Captum record.

Takes a `Picture`: a text cut into `Segment`s, with headline, settings and tokens. Gives HTML, terminal text or a Captum
record. It imports no model, so it draws the scores of any attribution method. `captum_dig.text.results` makes the
pictures of `TextExplainer`.
"""

from captum_dig.visualization.base import Picture, Scale, Segment, TokenRow, cut_text, visible
from captum_dig.visualization.plots import bar_plot, line_plot
from captum_dig.visualization.record import captum_record
from captum_dig.visualization.terminal import TerminalText, plain_text, terminal_text
from captum_dig.visualization.web import html_document, html_fragment, html_page, html_words

__all__ = [
    "Picture",
    "Scale",
    "Segment",
    "TerminalText",
    "TokenRow",
    "bar_plot",
    "captum_record",
    "cut_text",
    "html_document",
    "html_fragment",
    "html_page",
    "html_words",
    "line_plot",
    "plain_text",
    "terminal_text",
    "visible",
]
