"""Summary: the words that drive a label over a whole data set.

Takes a folder of scores; gives a `ScoreSummary`, in one pass and in bounded memory.
`captum_dig.datasets.pages` draws it.
"""

import json
import math
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from heapq import heappush, heappushpop
from pathlib import Path
from statistics import NormalDist
from typing import Any, Final

from captum_dig.checks import at_least_one, one_of
from captum_dig.datasets.folders import read_manifest
from captum_dig.datasets.schema import extra
from captum_dig.datasets.tables import Row

BY: Final = ("label", "nothing")
_ALL: Final = "all texts"
# The columns that a summary reads.
_READ: Final = (
    *("row", "text", "target", "words", "word_scores", "value", "baseline_value", "error_percent"),
    *("settings_hash", "error_kind", "error"),
)
_ROWS_AT_ONCE: Final = 1024
# Characters of a text in an example.
_SHOWN: Final = 200
# Texts below which an interval says nothing.
_FEWEST: Final = 5


@dataclass(frozen=True)
class Example:
    """A text in which a word has a large score.

    Attributes:
        row: The number of its row.
        text: Its first 200 characters.
        score: The score of the word there.
    """

    row: int
    text: str
    score: float


@dataclass(frozen=True)
class WordSummary:
    """A word over all texts that explain one label.

    Attributes:
        word: The word.
        n_texts: The number of texts that hold it.
        count: How often they do.
        mean: The mean score of an occurrence.
        total: The sum of its scores.
        spread: The standard deviation of its score in a text, summed over the text.
        half_width: Half the width of the 95 % interval of the mean over texts; infinite for fewer than 5 texts.
        examples: Texts in which it has the largest scores.
    """

    word: str
    n_texts: int
    count: int
    mean: float
    total: float
    spread: float
    half_width: float
    examples: tuple[Example, ...]

    @property
    def is_settled(self) -> bool:
        """Whether the interval leaves out 0, so that the sign is more than chance."""
        return abs(self.mean) > self.half_width


@dataclass(frozen=True)
class GroupSummary:
    """The texts that explain one label.

    Attributes:
        label: The label.
        n_texts: The number of texts.
        change: The mean difference of the explained number between text and baseline, which the words share.
        words: The words with the largest totals, the largest first.
        n_words: The number of different words.
        n_dropped: Occurrences of rare words that were given up to bound memory.
    """

    label: str
    n_texts: int
    change: float
    words: tuple[WordSummary, ...]
    n_words: int
    n_dropped: int


@dataclass(frozen=True)
class ScoreSummary:
    """The words that drive each label over a data set.

    Attributes:
        groups: The labels, that of most texts first.
        n_rows: The number of rows.
        errors: The number of rows with an error, by its kind.
        uncertain: The texts with the largest estimated errors, each with its error in percent as the score.
        n_settings: The number of different settings; scores of more than one are not comparable.
    """

    groups: tuple[GroupSummary, ...]
    n_rows: int
    errors: Mapping[str, int]
    uncertain: tuple[Example, ...]
    n_settings: int


def summarize(
    scores: str | Path | Iterable[Row],
    *,
    by: str = "label",
    fold_case: bool = True,
    top: int = 30,
    n_examples: int = 3,
    most_words: int = 50_000,
) -> ScoreSummary:
    """Add the scores of words up over a data set.

    Words are those of the results, with their pieces joined. The interval is that of a ratio over texts: occurrences in
    one text count as one draw.

    Args:
        scores: A folder that `explain_table` wrote, or rows of `TextAttribution.to_row`.
        by: ``"label"`` for one list of words for each explained label, or ``"nothing"`` for one list of all.
        fold_case: Whether words that differ only in their case are one.
        top: The number of words for each label: those with the largest totals, on either side.
        n_examples: The number of texts for each word.
        most_words: The number of words that are kept in memory for each label; rarer ones are given up.

    Returns:
        The summary.

    Raises:
        ValueError: If an argument is wrong, the folder holds no scores, or no row has a result.
        MissingExtraError: If the folder holds Parquet, and pyarrow is not installed.

    Example:
        >>> from captum_dig import TextExplainer
        >>> results = TextExplainer.demo().explain(["A gorgeous movie.", "Gorgeous!"], "POSITIVE", n_steps=8)
        >>> (group,) = summarize(result.to_row() for result in results).groups
        >>> group.label, group.words[0].word, group.words[0].n_texts
        ('POSITIVE', 'gorgeous', 2)
    """
    one_of("by", by, BY)
    at_least_one("top", top)
    at_least_one("most_words", most_words)
    rows = _rows_of(Path(scores)) if isinstance(scores, str | Path) else iter(scores)
    groups: dict[str, _Group] = {}
    errors: dict[str, int] = {}
    settings: set[str] = set()
    targets: set[str] = set()
    uncertain: list[tuple[float, int, str]] = []
    n_rows, last = 0, -1
    for place, row in enumerate(rows):
        number = int(row.get("row", place))
        n_rows += number != last
        last = number
        if row["error"] is not None:
            errors[row["error_kind"]] = errors.get(row["error_kind"], 0) + 1
            continue
        settings.add(row["settings_hash"])
        targets.add(row["target"])
        label = row["target"] if by == "label" else _ALL
        groups.setdefault(label, _Group(most_words, n_examples)).add(row, number, fold_case=fold_case)
        if row["error_percent"] is not None:
            _keep(uncertain, (float(row["error_percent"]), -number, str(row["text"])[:_SHOWN]), 10)
    if not groups:
        raise ValueError(f"scores must hold a result, got {n_rows} rows without one")
    if len(settings) > 1:
        warnings.warn(
            f"scores must be of one run to be added up, got {len(settings)} different settings; "
            "see the columns settings and settings_hash",
            stacklevel=2,
        )
    if by == "nothing" and len(targets) > 1:
        warnings.warn(
            f"scores of {len(targets)} different labels are added up, {', '.join(sorted(targets)[:5])}, although each "
            "score speaks for the label of its own text; explain one target, or take by='label'",
            stacklevel=2,
        )
    ordered = sorted(groups, key=lambda label: (-groups[label].n_texts, label))
    return ScoreSummary(
        groups=tuple(groups[label].summary(label, top) for label in ordered),
        n_rows=n_rows,
        errors=dict(sorted(errors.items())),
        uncertain=tuple(Example(-number, text, error) for error, number, text in sorted(uncertain, reverse=True)),
        n_settings=len(settings),
    )


def _keep(heap: list[Any], item: Any, most: int) -> None:
    """Put an item into a heap of the largest ones."""
    if len(heap) < most:
        heappush(heap, item)
    else:
        heappushpop(heap, item)


def _t_quantile(n: int) -> float:
    """The 97.5 % quantile of Student's distribution with n degrees of freedom, at least 4, to 1 %.

    Example:
        >>> round(_t_quantile(4), 2), round(_t_quantile(10_000), 2)
        (2.77, 1.96)
    """
    z = NormalDist().inv_cdf(0.975)
    # The expansion in 1 / n of Abramowitz and Stegun, formula 26.7.5.
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
    )
    return z + math.fsum(term / n**power for power, term in enumerate(terms, start=1))


class _Word:
    """Sums over the texts that hold a word: of counts and of scores, of their squares and products."""

    __slots__ = ("counts", "examples", "n_texts", "products", "scores", "squares", "squares_of_counts")

    def __init__(self) -> None:
        self.n_texts = self.counts = self.squares_of_counts = 0
        self.scores = self.squares = self.products = 0.0
        self.examples: list[tuple[float, int, str, float]] = []

    def summary(self, word: str) -> WordSummary:
        """Compute the mean and its interval.

        The mean is m = S / C for the sums of scores s and counts c over texts. The residuals s - m c of the texts give
        its variance: their sum of squares, times n / (n - 1), over C squared.
        """
        mean = self.scores / self.counts
        residuals = max(0.0, self.squares - 2 * mean * self.products + mean**2 * self.squares_of_counts)
        n = self.n_texts
        error = math.sqrt(residuals * n / max(1, n - 1)) / self.counts
        of_texts = self.scores / n
        return WordSummary(
            word,
            n,
            self.counts,
            mean,
            self.scores,
            math.sqrt(max(0.0, self.squares / n - of_texts**2)),
            _t_quantile(n - 1) * error if n >= _FEWEST else math.inf,
            tuple(Example(-number, text, score) for _, number, text, score in sorted(self.examples, reverse=True)),
        )


@dataclass
class _Group:
    """The words of one label."""

    most_words: int
    n_examples: int
    words: dict[str, _Word] = field(default_factory=dict)
    n_texts: int = 0
    change: float = 0.0
    n_dropped: int = 0

    def add(self, row: Row, number: int, *, fold_case: bool) -> None:
        self.n_texts += 1
        self.change += float(row["value"]) - float(row["baseline_value"])
        in_text: dict[str, list[float]] = {}
        for word, score in zip(row["words"], row["word_scores"], strict=True):
            in_text.setdefault(word.casefold() if fold_case else word, []).append(float(score))
        for word, scores in in_text.items():
            one = self.words.get(word)
            if one is None:
                one = self.words[word] = _Word()
            count, total = len(scores), sum(scores)
            one.n_texts += 1
            one.counts += count
            one.scores += total
            one.squares += total**2
            one.squares_of_counts += count**2
            one.products += total * count
            strongest = max(scores, key=abs)
            if self.n_examples:
                shown = (abs(strongest), -number, str(row["text"])[:_SHOWN], strongest)
                _keep(one.examples, shown, self.n_examples)
        if len(self.words) > 2 * self.most_words:
            self._drop()

    def _drop(self) -> None:
        """Give up the rarest words."""
        ranked = sorted(self.words, key=lambda word: (-self.words[word].counts, word))
        for word in ranked[self.most_words :]:
            self.n_dropped += self.words.pop(word).counts

    def summary(self, label: str, top: int) -> GroupSummary:
        largest = sorted(self.words, key=lambda word: (-abs(self.words[word].scores), word))[:top]
        words = sorted((self.words[word].summary(word) for word in largest), key=lambda one: -one.total)
        return GroupSummary(
            label, self.n_texts, self.change / self.n_texts, tuple(words), len(self.words), self.n_dropped
        )


def _rows_of(folder: Path) -> Iterator[Row]:
    """The rows of the parts that the manifest names."""
    manifest = read_manifest(folder)
    if manifest is None:
        return
    ending = f".{manifest['run']['file_format']}"
    for number in sorted(map(int, manifest["parts"])):
        part = folder / f"part-{number:05d}{ending}"
        if ending == ".parquet":
            arrow, parquet = extra("pyarrow", "data"), extra("pyarrow.parquet", "data")
            try:
                for batch in parquet.ParquetFile(part).iter_batches(_ROWS_AT_ONCE, columns=list(_READ)):
                    yield from batch.to_pylist()
            except (arrow.ArrowException, OSError) as error:
                raise ValueError(f"scores must be as they were written, got {str(part)!r}: {error}") from error
        else:
            with part.open(encoding="utf-8") as file:
                yield from map(json.loads, file)
