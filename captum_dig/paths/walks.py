"""Walk: the settings of a walk from word to word.

Takes a vocabulary, an anchor search and its numbers; gives one object that `captum_dig.paths.words` hands to tables.
"""

import warnings
from dataclasses import dataclass

from torch import Tensor

from captum_dig.catalogue import CATALOGUE
from captum_dig.checks import at_least_one
from captum_dig.paths.anchors import AnchorSearch
from captum_dig.paths.folders import TableFolder
from captum_dig.vocabulary import Vocabulary, check_candidates


@dataclass(frozen=True, eq=False)
class Walk:
    """The settings of a walk from word to word.

    Attributes:
        vocabulary: The rows.
        search: The cost of a candidate for the next word.
        n_anchors: The paper's m, at least 1.
        n_neighbors: The paper's K, at least 1.
        candidates: Rows that may be anchors, a boolean mask of shape (V,); None for all.
        folder: Where ranked tables are kept for other processes; None for nowhere.
    """

    vocabulary: Vocabulary
    search: AnchorSearch
    n_anchors: int
    n_neighbors: int
    candidates: Tensor | None = None
    folder: TableFolder | None = None

    @classmethod
    def over(
        cls,
        vocabulary: Vocabulary,
        strategy: str | AnchorSearch = "greedy",
        n_anchors: int = 30,
        n_neighbors: int = 500,
        candidates: Tensor | None = None,
        seed: int | None = None,
        folder: TableFolder | None = None,
    ) -> "Walk":
        """Check the arguments of a path through words.

        Args:
            vocabulary: The rows.
            strategy: The name of an anchor search, or an `AnchorSearch`.
            n_anchors: The paper's m.
            n_neighbors: The paper's K; more than there are rows is a warning.
            candidates: Rows that may be anchors, a boolean mask of shape (V,); None for all.
            seed: For a random search; None draws one from torch's generator.
            folder: Where ranked tables are kept; None for nowhere.

        Returns:
            The walk.

        Raises:
            TypeError: If an argument has the wrong type.
            ValueError: If `strategy` is unknown, a number is below 1, or `candidates` is no mask, or allows no row.
        """
        if not isinstance(vocabulary, Vocabulary):
            raise TypeError(
                f"vocabulary must be a Vocabulary, got {type(vocabulary).__name__}; "
                "build one with Vocabulary.from_layer(model.get_input_embeddings())"
            )
        if not isinstance(strategy, str | AnchorSearch):
            raise TypeError(f"strategy must be a name or an AnchorSearch, got {type(strategy).__name__}")
        if isinstance(strategy, AnchorSearch):
            search = strategy
        else:
            entry = CATALOGUE.find(strategy, "search", argument="strategy", remedy="or pass an AnchorSearch")
            search = entry.load().seeded(seed)
        n_anchors, n_neighbors = at_least_one("n_anchors", n_anchors), at_least_one("n_neighbors", n_neighbors)
        mask = None if candidates is None else check_candidates(candidates, len(vocabulary))
        available = len(vocabulary) - 1 if mask is None else int(mask.sum())
        if n_neighbors > available:
            warnings.warn(
                f"n_neighbors = {n_neighbors} is more than the {available} rows there are; all of them are used",
                stacklevel=3,
            )
        return cls(vocabulary, search, n_anchors, max(1, min(n_neighbors, available)), mask, folder)
