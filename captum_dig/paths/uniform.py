"""UniformPath: from word to word, around points of the straight line.

Takes a `Vocabulary`; gives knots for `captum_dig.quadrature`. `MonotonicPath` searches candidates around the previous
word; this path searches around points of the line. Its walks stay near the line and do not gather at a few hubs.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from captum_dig.paths.anchors import AnchorSearch
from captum_dig.paths.tables import WalkTable
from captum_dig.paths.walks import Walk
from captum_dig.paths.words import WordPath
from captum_dig.vocabulary import Vocabulary

# Points searched around at once: FAISS reads the whole vocabulary for every search.
_SEARCH_POINTS = 1024


class LineTable(WalkTable):
    """Walks whose candidates lie around evenly spaced points of the straight line from a word to the baseline.

    The arguments are those of `WalkTable`.

    Example:
        >>> from captum_dig import Greedy
        >>> vocabulary = Vocabulary(torch.tensor([[0.0], [1.0], [3.0], [6.0]]))
        >>> table = LineTable(Walk(vocabulary, Greedy(), n_anchors=2, n_neighbors=1), vocabulary.rows[0])
        >>> table.walk(torch.tensor([3]), baseline_id=0)
        tensor([[3, 2, 1]])
    """

    def find(self, words: Tensor) -> Tensor:
        """Walk from different words, past the points of each one's line."""
        return torch.cat([self._find(block) for block in words.split(max(1, _SEARCH_POINTS // self._walk.n_anchors))])

    def _find(self, words: Tensor) -> Tensor:
        starts = self._walk.vocabulary.rows[words]
        # From the word's side: shares of the way that is left to the baseline, m / (m + 1) to 1 / (m + 1).
        left = torch.arange(self._walk.n_anchors, 0, -1, dtype=torch.float32, device="cpu") / (self._walk.n_anchors + 1)
        points = self._baseline + left[:, None, None] * (starts - self._baseline)
        proposed = self._walk.vocabulary.around(points.flatten(0, 1), self._walk.n_neighbors, self._walk.candidates)
        visited: Tensor = words[:, None]
        for around in self._allowed(proposed).unflatten(0, points.shape[:2]):
            moving = self._moving(visited[:, -1])
            options = torch.full_like(around, -1)
            options[moving] = self._in_order(visited[moving, -1], around[moving])
            visited = torch.cat([visited, self._step(options, visited)], dim=1)
        return visited


class UniformPath(WordPath):
    """The path of Uniform Discretized Integrated Gradients: from word to word along the straight line.

    As `MonotonicPath`, but the candidates for the j-th word on the way are the rows around the j-th of m evenly spaced
    points between word and baseline. The walk goes to the baseline where no candidate is left.

    Args:
        vocabulary: The rows of the embedding layer that is attributed to.
        strategy: ``"greedy"`` or ``"maxcount"``, or an `AnchorSearch` that prices any candidates.
        n_anchors: The paper's m: points on the line, and so words on the way, at least 1.
        n_neighbors: Candidates around each point, at least 1.
        candidates: Rows that may be anchors, a boolean mask of shape (V,); None for every row, as in the paper.
        seed: For a random strategy; None draws one from torch's generator.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If `strategy` is unknown or chooses its own candidates, a number is below 1, or `candidates` has
            another shape or allows no row.

    Example:
        >>> vocabulary = Vocabulary(torch.tensor([[0.0, 0.0], [1.0, 1.0], [3.0, 4.0], [6.0, 6.0]]))
        >>> path = UniformPath(vocabulary, n_anchors=2, n_neighbors=1)
        >>> path(torch.tensor([[6.0, 6.0]]), torch.tensor([[0.0, 0.0]]))[:, 0].tolist()
        [[0.0, 0.0], [1.0, 1.0], [3.0, 4.0], [6.0, 6.0]]

    References:
        Sinha Roy and Kundu (2024) [sinha-roy-kundu-2024].
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        strategy: str | AnchorSearch = "greedy",
        n_anchors: int = 30,
        n_neighbors: int = 50,
        *,
        candidates: Tensor | None = None,
        seed: int | None = None,
    ) -> None:
        super().__init__(Walk.over(vocabulary, strategy, n_anchors, n_neighbors, candidates, seed))
        if type(self.strategy).propose is not AnchorSearch.propose:
            raise ValueError(
                f"strategy must look at the candidates that it is given, got {self.strategy!r}; "
                "take 'greedy' or 'maxcount', or a MonotonicPath"
            )

    @classmethod
    def named(cls, walk: Callable[[], Walk], seed: int | None) -> "UniformPath":
        """Make a greedy path with the numbers of the walk."""
        over = walk()
        return cls(
            over.vocabulary,
            n_anchors=over.n_anchors,
            n_neighbors=over.n_neighbors,
            candidates=over.candidates,
            seed=seed,
        )

    def make_table(self, baseline: Tensor) -> LineTable:
        """Make the table that looks around the points of each word's line."""
        return LineTable(self.walk, baseline)
