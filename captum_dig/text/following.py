"""FollowingMethods: attribution methods over the rows that a model has now.

Takes a model and the settings of walks; gives its vocabulary, and methods and paths over it by name. If the model has
been trained since, its rows are read again. `captum_dig.text.explainer` looks up methods here.
"""

import functools
import hashlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from captum_dig.catalogue import Catalogue
from captum_dig.checks import at_least_one
from captum_dig.methods.base import AttributionMethod
from captum_dig.methods.named import NamedMethods, Strategy
from captum_dig.models.encoding import TextEncoder
from captum_dig.models.model import TextModel
from captum_dig.paths import Walk
from captum_dig.paths.anchors import Greedy
from captum_dig.paths.folders import TableFolder
from captum_dig.threads import Lock, eager
from captum_dig.vocabulary import Vocabulary
from captum_dig.vocabulary.readable import candidate_rows

Candidates: TypeAlias = Literal["words", "all"] | Tensor


class FollowingMethods:
    """Methods over the rows of a model; they are made anew when the rows have changed.

    Args:
        model: The model.
        encoder: Its tokenizer.
        n_anchors: The words on the way from a word to the baseline.
        n_neighbors: The candidates for each anchor.
        candidates: Which rows may be anchors.
        seed: For methods that draw; None as in `NamedMethods`.
        catalogue: The catalogue for names.
        cache: The folder for ranked tables; True for the platform's, False for none.

    Raises:
        VocabularyError: If the embeddings hold NaN or infinity.
        ValueError: If an argument is wrong.
    """

    def __init__(
        self,
        model: TextModel,
        encoder: TextEncoder,
        n_anchors: int,
        n_neighbors: int,
        candidates: Candidates,
        seed: int | None,
        catalogue: Catalogue,
        cache: bool | str | Path,
    ) -> None:
        self.seed = seed
        self._model, self._encoder, self._candidates, self._catalogue = model, encoder, candidates, catalogue
        self._walk = functools.partial(
            _walk,
            n_anchors=at_least_one("n_anchors", n_anchors),
            n_neighbors=at_least_one("n_neighbors", n_neighbors),
            folder=TableFolder.default() if cache is True else TableFolder(cache) if cache else None,
        )
        self._lock = Lock()
        self._vocabulary: Vocabulary
        self._stamp: object
        self._read_rows()

    @property
    def candidates(self) -> str:
        """The name of the rows that may be anchors: ``"words"``, ``"all"`` or ``"custom"``."""
        return self._candidates if isinstance(self._candidates, str) else "custom"

    @property
    def candidates_identity(self) -> str:
        """The same for settings: a mask by its hash."""
        rows = self._candidates
        return rows if isinstance(rows, str) else hashlib.sha256(bytes(rows.tolist())).hexdigest()[:16]

    @property
    def vocabulary(self) -> Vocabulary:
        """The rows of the model's embedding layer, as they are now."""
        self.follow()
        return self.known

    @property
    def known(self) -> Vocabulary:
        """The rows as they were read last; nothing is compared."""
        return self._vocabulary

    def find(self, strategy: Strategy, *, seed: int | None = None, argument: str = "strategy") -> AttributionMethod:
        """Look up a method, as `NamedMethods.find` does, over the rows as they are now."""
        self.follow()
        return self._methods.find(strategy, seed=seed, argument=argument)

    def store(self) -> None:
        """Store the tables that paths have ranked since the last time, for other processes."""
        self._methods.store()

    def follow(self, looked_up: Iterable[int] = ()) -> None:
        """Read the rows again if the model has been trained since.

        Args:
            looked_up: The rows that are used now. If PyTorch reports no change, only these are compared.
        """
        with self._lock:
            stamp = self._model.stamp
            n_rows = len(self._vocabulary)
            ids = range(n_rows) if stamp != self._stamp else {i for i in looked_up if i < n_rows}
            # Hooks of an outer explanation in this thread are ignored here.
            with eager():
                if ids and not self._model.emits(
                    self._vocabulary.rows, torch.tensor(sorted(ids), dtype=torch.int64, device="cpu")
                ):
                    self._read_rows()
            self._stamp = stamp

    def _read_rows(self) -> None:
        """Read the rows of the model, and forget the methods over other rows."""
        self._stamp = self._model.stamp
        # The caller may be in inference mode, and tensors made in it could not be changed later.
        with torch.inference_mode(mode=False):
            self._vocabulary = Vocabulary.from_layer(self._model.layer)
        rows = candidate_rows(self._candidates, self._encoder.tokenizer, len(self._vocabulary))
        walk = functools.partial(self._walk, self._vocabulary, rows)
        self._methods = NamedMethods(walk, self.seed, self._catalogue)


def _walk(
    vocabulary: Vocabulary,
    candidates: Callable[[], Tensor | None],
    n_anchors: int,
    n_neighbors: int,
    folder: TableFolder | None,
) -> Walk:
    """Make a greedy walk; readable words are searched only now."""
    return Walk(vocabulary, Greedy(), n_anchors, n_neighbors, candidates(), folder)
