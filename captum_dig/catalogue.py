"""The only table of names: paths, searches, methods, quadrature rules, measures, tasks and formats.

Takes a name or an alias; gives its `Entry`, which imports the object when it is needed. This module imports no PyTorch,
so the command line lists and checks names at once. `captum_dig.methods`, `captum_dig.text` and
`captum_dig.comparison` look up names here.
"""

import importlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

Kind = Literal["search", "path", "method", "rule", "measure", "task", "format"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)


@dataclass(frozen=True)
class Entry:
    """One row of the catalogue.

    Attributes:
        name: The name in arguments, options and files.
        kind: ``"search"``, ``"path"``, ``"method"``, ``"rule"``, ``"measure"``, ``"task"`` or ``"format"``.
        title: The name in tables and plots, short.
        home: The class or object itself, or its place: ``"package.module:name"``.
        about: One line for a list.
        aliases: Other names for the same thing.
        default: Whether a comparison takes it where nothing is chosen.
        draws: Whether a search draws at random, so that its choices cannot be kept.

    Raises:
        ValueError: If `kind` is unknown.

    Example:
        >>> Entry("counter", "rule", "Counter", "collections:Counter").load()
        <class 'collections.Counter'>
    """

    name: str
    kind: Kind
    title: str
    home: Any
    about: str = ""
    aliases: tuple[str, ...] = ()
    default: bool = True
    draws: bool = False

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"kind must be one of {', '.join(map(repr, KINDS))}, got {self.kind!r}")

    @property
    def attribute(self) -> str:
        """The name of the class or object in its module."""
        return self.home.partition(":")[2] if isinstance(self.home, str) else self.home.__name__

    def load(self) -> Any:
        """Import the class or object."""
        if not isinstance(self.home, str):
            return self.home
        return getattr(importlib.import_module(self.home.partition(":")[0]), self.attribute)

    def make(self) -> Any:
        """Import the object; of a class make one without arguments."""
        loaded = self.load()
        return loaded() if isinstance(loaded, type) else loaded


@dataclass(frozen=True)
class Catalogue:
    """The entries for looking up names.

    Attributes:
        entries: The entries. A later one replaces an earlier one of the same name and kind.

    Example:
        >>> CATALOGUE.find("straight_line", "search", "path", "method").title
        'IG'
        >>> CATALOGUE.find("integrated_gradients", "path") is CATALOGUE.find("straight_line", "path")
        True
    """

    entries: tuple[Entry, ...]

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries)

    def plus(self, entries: Iterable[Entry]) -> "Catalogue":
        """Return a catalogue with more entries, such as those of a plug-in."""
        return Catalogue((*self.entries, *entries))

    def names(self, *kinds: Kind) -> tuple[str, ...]:
        """List the names of some kinds, without aliases, in the order of the entries."""
        return tuple(dict.fromkeys(entry.name for entry in self.entries if entry.kind in kinds))

    def defaults(self, *kinds: Kind) -> tuple[str, ...]:
        """List the names of some kinds that a comparison takes where nothing is chosen.

        Results have had the first alias of a row from the beginning, where the row has a shorter name.
        """
        rows = {entry.name: entry for entry in self.entries if entry.kind in kinds}
        return tuple((entry.aliases or (entry.name,))[0] for entry in rows.values() if entry.default)

    def get(self, name: object, *kinds: Kind) -> Entry | None:
        """Look up a name or alias among some kinds; None if there is no such entry."""
        for entry in reversed(self.entries):
            if entry.kind in kinds and name in (entry.name, *entry.aliases):
                return entry
        return None

    def find(self, name: object, *kinds: Kind, argument: str = "name", remedy: str = "") -> Entry:
        """Look up a name or alias among some kinds.

        Args:
            name: The name.
            kinds: The kinds to search.
            argument: The name of the argument in the message.
            remedy: The end of the message.

        Returns:
            The entry.

        Raises:
            ValueError: If there is no such entry; the message lists the names.
        """
        entry = self.get(name, *kinds)
        if entry is None:
            known = ", ".join(map(repr, self.names(*kinds)))
            raise ValueError(f"{argument} must be one of {known}, got {name!r}{remedy and '; '}{remedy}")
        return entry

    def title(self, name: str) -> str:
        """Return the title of a path or method; an unknown name is returned unchanged."""
        entry = self.get(name, *STRATEGIES)
        return name if entry is None else entry.title


# The kinds that `strategy` and `methods` take: each is a way to score tokens.
STRATEGIES: Final[tuple[Kind, ...]] = ("search", "path", "method")

_ANCHORS = "captum_dig.paths.anchors"
_MEASURES = "captum_dig.metrics.measures"
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
            "DIG rnd neighb.",
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
            "words move one after the other, in several orders",
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
        Entry("adaptive", "rule", "adaptive", f"{_RULES}:ADAPTIVE", "known sums with nodes where they are wanted"),
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
        Entry("delta", "measure", "delta", f"{_MEASURES}:Delta", "sum of the scores minus the change of the output"),
        Entry("change", "measure", "change of the output", f"{_MEASURES}:Change", "output at the text minus baseline"),
        Entry("delta_percent", "measure", "delta %", f"{_MEASURES}:DeltaPercent", "|delta| in percent of |change|"),
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
            f"{_MEASURES}:TokenError",
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
        Entry("svg", "format", "SVG", "captum_dig.visualization.svg:SvgFormat", "a drawing of the words, with bars"),
    )
)
