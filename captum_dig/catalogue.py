"""The only table of names: paths, searches, methods, quadrature rules, measures, tasks and formats.

Each row is an `Entry` with the place of its class or object. This module imports no PyTorch. `captum_dig.methods`,
`captum_dig.text` and `captum_dig.comparison` look up names here.
"""

from typing import Final

from captum_dig.entries import Catalogue, Entry

__all__ = ["CATALOGUE", "Catalogue", "Entry"]

_ANCHORS = "captum_dig.paths.anchors"
_MEASURES = "captum_dig.metrics.measures"
_INTEGRATION = "captum_dig.metrics.integration"
_RULES = "captum_dig.quadrature.rules"

CATALOGUE: Final = Catalogue(
    (
        # ------------------------------------------------------------------------------- ways to score tokens
        Entry(
            "straight_line",
            "path",
            "IG",
            "captum_dig.paths.base:StraightLine",
            "Integrated Gradients: the straight line",
            aliases=("integrated_gradients",),
        ),
        Entry(
            "greedy", "search", "DIG greedy", f"{_ANCHORS}:Greedy", "next word: nearest to monotone", ("dig_greedy",)
        ),
        Entry(
            "maxcount", "search", "DIG maxcount", f"{_ANCHORS}:MaxCount", "next word: most monotone", ("dig_maxcount",)
        ),
        Entry(
            "random_anchor",
            "search",
            "DIG rnd anchor",
            f"{_ANCHORS}:RandomAnchor",
            "next word: any row, at random",
            aliases=("dig_random_anchor",),
            draws=True,
        ),
        Entry(
            "random_neighbor",
            "search",
            "DIG rnd neigh.",
            f"{_ANCHORS}:RandomNeighbor",
            "next word: a neighbour, at random",
            aliases=("dig_random_neighbor",),
            draws=True,
        ),
        # Looking around every point of every word's line takes seconds for a text.
        Entry(
            "uniform",
            "path",
            "UDIG",
            "captum_dig.paths.uniform:UniformPath",
            "from word to word along the straight line",
            aliases=("dig_uniform",),
            default=False,
        ),
        Entry(
            "staggered",
            "path",
            "staggered",
            "captum_dig.paths.staggered:StaggeredPath",
            "the mean of the straight line and of orders in which words move one after the other",
        ),
        Entry(
            "input_x_gradient",
            "method",
            "InputXGradient",
            "captum_dig.methods.captums:CaptumInputXGradient",
            "one gradient, no baseline",
        ),
        Entry(
            "deeplift",
            "method",
            "DeepLIFT",
            "captum_dig.methods.captums:CaptumDeepLift",
            "one backward pass with rules for non-linear modules",
        ),
        Entry(
            "gradient_shap",
            "method",
            "GradientShap",
            "captum_dig.methods.gradient_shap:GradientShap",
            "gradients at random points of the straight line",
        ),
        # A variant of the straight line, to compare with: it takes the time of one more path.
        Entry(
            "idgi",
            "method",
            "IDGI",
            "captum_dig.methods.idgi:Idgi",
            "changes of the output along the straight line, shared by squared gradients",
            default=False,
        ),
        Entry(
            "leave_one_out",
            "method",
            "leave-one-out",
            "captum_dig.methods.leave_one_out:LeaveOneOut",
            "the change when one token alone is at the baseline",
        ),
        Entry("random", "method", "random", "captum_dig.methods.random:RandomScores", "scores drawn at random"),
        # ------------------------------------------------------------------------------------ quadrature rules
        Entry("gausslegendre", "rule", "Gauss-Legendre", f"{_RULES}:GAUSS_LEGENDRE", "Gauss-Legendre on each piece"),
        Entry("riemann_left", "rule", "left sum", f"{_RULES}:RIEMANN_LEFT", "the paper's rule"),
        Entry("riemann_right", "rule", "right sum", f"{_RULES}:RIEMANN_RIGHT", "nodes at the right edges"),
        Entry("riemann_middle", "rule", "midpoint rule", f"{_RULES}:RIEMANN_MIDDLE", "nodes in the middle"),
        Entry("riemann_trapezoid", "rule", "trapezoid rule", f"{_RULES}:RIEMANN_TRAPEZOID", "nodes at both ends too"),
        Entry("known_sums", "rule", "known sums", f"{_RULES}:KNOWN_SUMS", "outputs between nodes correct the scores"),
        Entry("adaptive", "rule", "adaptive", f"{_RULES}:ADAPTIVE", "known sums with nodes where the error is large"),
        # ------------------------------------------------------------------------------------------- measures
        Entry("log_odds", "measure", "log-odds", f"{_MEASURES}:LOG_ODDS", "log-probability without the top tokens"),
        Entry(
            "comprehensiveness",
            "measure",
            "comprehensiveness",
            f"{_MEASURES}:COMPREHENSIVENESS",
            "fall of the probability without the top tokens",
        ),
        Entry(
            "sufficiency",
            "measure",
            "sufficiency",
            f"{_MEASURES}:SUFFICIENCY",
            "fall of the probability with the top tokens alone",
        ),
        Entry("paper_log_odds", "measure", "log-odds, paper's protocol", f"{_MEASURES}:PAPER_LOG_ODDS", default=False),
        Entry(
            "paper_comprehensiveness",
            "measure",
            "comprehensiveness, paper's protocol",
            f"{_MEASURES}:PAPER_COMPREHENSIVENESS",
            default=False,
        ),
        Entry(
            "paper_sufficiency",
            "measure",
            "sufficiency, paper's protocol",
            f"{_MEASURES}:PAPER_SUFFICIENCY",
            default=False,
        ),
        Entry(
            "kendall_tau",
            "measure",
            "tau with leave-one-out",
            f"{_MEASURES}:KendallTau",
            "rank correlation with leave-one-out",
        ),
        Entry("delta", "measure", "delta", f"{_INTEGRATION}:Delta", "sum of the scores minus the change of the output"),
        Entry(
            "change", "measure", "change of the output", f"{_INTEGRATION}:Change", "output at the text minus baseline"
        ),
        Entry("delta_percent", "measure", "delta %", f"{_INTEGRATION}:DeltaPercent", "|delta| in percent of |change|"),
        Entry(
            "error_percent",
            "measure",
            "estimated error %",
            f"{_INTEGRATION}:ErrorPercent",
            "estimated error of the integration, in percent of the scores' sizes",
        ),
        Entry(
            "word_approximation_error",
            "measure",
            "WAE",
            f"{_MEASURES}:WordApproximationError",
            "distance of the path from words",
        ),
        Entry("special_anchors", "measure", "share of special anchors", f"{_MEASURES}:SPECIAL_ANCHORS"),
        Entry("unused_anchors", "measure", "share of unused anchors", f"{_MEASURES}:UNUSED_ANCHORS"),
        Entry("piece_anchors", "measure", "share of anchors that are no words", f"{_MEASURES}:PIECE_ANCHORS"),
        Entry(
            "soft_comprehensiveness",
            "measure",
            "soft comprehensiveness",
            f"{_MEASURES}:SoftComprehensiveness",
            "fall of the probability when high scores lose most of their embedding",
            default=False,
        ),
        Entry(
            "soft_sufficiency",
            "measure",
            "soft sufficiency",
            f"{_MEASURES}:SoftSufficiency",
            "fall of the probability when low scores lose most of their embedding",
            default=False,
        ),
        Entry(
            "infidelity",
            "measure",
            "infidelity",
            f"{_MEASURES}:Infidelity",
            "error of the scores as a forecast of small noise",
            default=False,
        ),
        Entry(
            "sensitivity",
            "measure",
            "sensitivity",
            f"{_MEASURES}:Sensitivity",
            "change of the scores under small noise",
            default=False,
        ),
        Entry(
            "token_error",
            "measure",
            "token error",
            f"{_INTEGRATION}:TokenError",
            "distance from the scores with many times the gradients",
            default=False,
        ),
        # ---------------------------------------------------------------------------------- tasks and formats
        Entry(
            "labels",
            "task",
            "labels",
            "captum_dig.tasks.labels:LabelTask",
            "one label of a text or of a pair of texts, or the value of a regression",
            aliases=("pairs",),
        ),
        Entry(
            "zero_shot",
            "task",
            "zero-shot",
            "captum_dig.tasks.zero_shot:ZeroShotTask",
            "one of the labels that you name, by a model of natural language inference",
        ),
        Entry(
            "tokens",
            "task",
            "tokens",
            "captum_dig.tasks.tokens:TokenTask",
            "the entities of a text, or the label of a word",
            aliases=("ner",),
        ),
        Entry(
            "spans",
            "task",
            "spans",
            "captum_dig.tasks.spans:SpanTask",
            "the answer to a question in a context",
            aliases=("question_answering",),
        ),
        Entry(
            "masked_word",
            "task",
            "masked word",
            "captum_dig.tasks.masked:MaskedWordTask",
            "the word in the place of a mask",
            aliases=("fill_mask",),
        ),
        Entry(
            "continuation",
            "task",
            "continuation",
            "captum_dig.tasks.continuation:ContinuationTask",
            "the continuation of a prompt by a language model, given or generated",
        ),
        Entry(
            "sequence",
            "task",
            "sequence",
            "captum_dig.tasks.sequence:SequenceTask",
            "a translation or summary by a model with an encoder and a decoder, given or generated",
            aliases=("seq2seq", "translation", "summarization"),
        ),
        Entry(
            "similarity",
            "task",
            "similarity",
            "captum_dig.tasks.similarity:SimilarityTask",
            "the similarity of two texts by their embeddings",
        ),
        Entry(
            "text", "format", "text", "captum_dig.visualization.formats:TextFormat", "words and signs, for a terminal"
        ),
        Entry(
            "html", "format", "HTML", "captum_dig.visualization.formats:HtmlFormat", "one page that needs nothing else"
        ),
        Entry("json", "format", "JSON", "captum_dig.visualization.formats:JsonFormat", "strict JSON, readable again"),
        Entry("jsonl", "format", "JSON Lines", "captum_dig.visualization.formats:JsonLinesFormat", "one result a line"),
        Entry("csv", "format", "CSV", "captum_dig.visualization.tables:CsvFormat", "a row for each word"),
        Entry("markdown", "format", "Markdown", "captum_dig.visualization.tables:MarkdownFormat", "a table for a page"),
        Entry("latex", "format", "LaTeX", "captum_dig.visualization.latex:LatexFormat", "coloured words for a paper"),
        Entry(
            "matrix",
            "format",
            "heat map",
            "captum_dig.visualization.matrix:MatrixFormat",
            "one page: words against the numbers explained for a text",
        ),
        Entry("grid", "format", "grid", "captum_dig.visualization.grid:GridFormat", "the same as a table of scores"),
        Entry("svg", "format", "SVG", "captum_dig.visualization.svg:SvgFormat", "a drawing of the words, with bars"),
        Entry("png", "format", "PNG", "captum_dig.visualization.png:PngFormat", "the same drawing in pixels"),
    )
)
