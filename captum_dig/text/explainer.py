"""TextExplainer: from a sentence and a Hugging Face classifier to the words that drove the decision.

Takes texts, gives a frozen `TextAttribution` for each. It puts the stages of the flow together: the model's rows become
a `Vocabulary`, `PathShelf` makes a path over it, and `DiscretizedIntegratedGradients` goes along it.
"""

import functools
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor

from captum_dig import __version__
from captum_dig.errors import ModelError, at_least_one
from captum_dig.models.encoding import OVERFLOWS, Encoding, Overflow, TextEncoder, as_texts
from captum_dig.models.loading import check_tokenizer, load_pretrained
from captum_dig.models.model import Classifier
from captum_dig.paths import MonotonicPath, PathGenerator, WordPath
from captum_dig.paths.tables import RankedTable, TableFolder
from captum_dig.quadrature import Spacing, check_method, check_spacing
from captum_dig.text.batches import Doubling, Run, check_ids, first_steps
from captum_dig.text.results import LARGE_DELTA_PERCENT, TextAttribution
from captum_dig.text.settings import ExplanationSettings
from captum_dig.text.strategies import PathShelf, Strategy
from captum_dig.threads import Lock, eager
from captum_dig.vocabulary import Vocabulary
from captum_dig.vocabulary.readable import candidate_rows

if TYPE_CHECKING:
    from transformers import Pipeline, PreTrainedModel, PreTrainedTokenizerBase

Target: TypeAlias = str | int
Baseline: TypeAlias = str | int


class TextExplainer:
    """Explain a text classifier's decisions with integrated gradients along a path of your choice.

    Special tokens keep their place in the baseline and score exactly 0. Token ids, masks and positions stay those of
    the text along the whole path; only the word embeddings move.

    Threads may share an explainer, and explainers a model; explanations of one model run one at a time. An explainer
    can be copied, and sent to another process. Where the model has been trained since, its rows are read again.

    Args:
        model: A Hugging Face sequence classifier.
        tokenizer: Its tokenizer.
        strategy: The path: ``"staggered"`` for a `StaggeredPath` along the straight line, ``"straight_line"`` for
            Integrated Gradients; for Discretized Integrated Gradients the anchor search, ``"greedy"``, ``"maxcount"``,
            ``"random_neighbor"``, ``"random_anchor"``, or an `AnchorSearch`; ``"uniform"`` for a greedy `UniformPath`;
            or any `PathGenerator`.
        n_anchors: The paper's m: words on the way from a word to the baseline.
        n_neighbors: The paper's K: candidates looked at for each anchor.
        candidates: Which rows may be anchors: ``"words"`` that a person can read, ``"all"`` rows as in the paper, or a
            mask of shape (V,).
        seed: For strategies that draw. None is 0 where words are staggered, and a draw of torch's for random searches.
        spacing: As in `DiscretizedIntegratedGradients`.
        name: What results call the model; None for the name that it was loaded by.
        cache: Where what is learnt about the vocabulary is kept for other processes: True for the folder that the
            environment variable CAPTUM_DIG_CACHE names, or else the platform's folder for caches; a folder; or False
            for nowhere.

    Attributes:
        classifier: The model as a function of embeddings.
        encoder: The tokenizer with the model's limits.
        candidates_name: ``"words"``, ``"all"`` or ``"custom"``.

    Raises:
        ModelError: If model or tokenizer cannot be explained.
        VocabularyError: If the embeddings hold NaN or infinity.
        ValueError: If another argument is wrong.

    Example:
        >>> explainer = TextExplainer.demo()
        >>> result = explainer.explain("A gorgeous, witty, seductive movie.")
        >>> result.predicted_label
        'POSITIVE'

    References:
        Sanyal and Ren (2021) [sanyal-ren-2021]; Sundararajan, Taly and Yan (2017) [sundararajan-2017].
    """

    def __init__(
        self,
        model: "PreTrainedModel",
        tokenizer: "PreTrainedTokenizerBase",
        *,
        strategy: Strategy = "staggered",
        n_anchors: int = 30,
        n_neighbors: int = 500,
        candidates: Literal["words", "all"] | Tensor = "words",
        seed: int | None = None,
        spacing: Spacing = "arc",
        name: str | None = None,
        cache: bool | str | Path = True,
    ) -> None:
        self.classifier = Classifier(model, name)
        self.encoder = TextEncoder(tokenizer, self.classifier.max_tokens(tokenizer))
        self.candidates_name = candidates if isinstance(candidates, str) else "custom"
        folder = TableFolder.default() if cache is True else TableFolder(cache) if cache else None
        self._candidates = candidates
        self._shelf = functools.partial(
            PathShelf, n_anchors=n_anchors, n_neighbors=n_neighbors, seed=seed, folder=folder
        )
        self._lock = Lock()
        self._hides_padding: bool | None = None
        self._read_rows()
        check_tokenizer(tokenizer, len(self.vocabulary), self.classifier.name)
        self._spacing = check_spacing(spacing)
        self._strategy = strategy
        # Made now, so that wrong arguments are found now.
        self.path(strategy)

    @classmethod
    def from_pretrained(
        cls,
        name_or_folder: str | Path,
        *,
        dtype: torch.dtype = torch.float32,
        trust_remote_code: bool = False,
        **options: Any,
    ) -> "TextExplainer":
        """Load a classifier by its name on the Hugging Face hub or from a folder.

        Args:
            name_or_folder: The name or folder of a whole model, or of a PEFT adapter (LoRA and others).
            dtype: The type to load the weights as.
            trust_remote_code: Whether Python code that comes with the model may run. Read it first.
            options: Further arguments of the constructor.

        Returns:
            The explainer.

        Raises:
            ModelError: If there is no such model, its files cannot be read, or it is not a fine-tuned sequence
                classifier.
        """
        model, tokenizer = load_pretrained(name_or_folder, dtype, trust_remote_code=trust_remote_code)
        return cls(model, tokenizer, **{"name": str(name_or_folder), **options})

    @classmethod
    def from_pipeline(cls, pipeline: "Pipeline", **options: Any) -> "TextExplainer":
        """Take model and tokenizer from a ``pipeline("text-classification")``.

        Args:
            pipeline: The pipeline.
            options: Further arguments of the constructor.

        Returns:
            The explainer.

        Raises:
            ModelError: If the pipeline has no tokenizer or does not classify texts.
        """
        from transformers import TextClassificationPipeline

        if not isinstance(pipeline, TextClassificationPipeline):
            raise ModelError(f"pipeline must be a TextClassificationPipeline, got {type(pipeline).__name__}")
        model: Any = pipeline.model
        tokenizer: Any = pipeline.tokenizer
        return cls(model, tokenizer, **options)

    @classmethod
    def demo(cls, **options: Any) -> "TextExplainer":
        """Load the sentiment model that comes with the package; nothing is downloaded.

        Args:
            options: Further arguments of the constructor.

        Returns:
            The explainer of a small English sentiment classifier with the labels NEGATIVE and POSITIVE.
        """
        with resources.as_file(resources.files("captum_dig") / "demo") as folder:
            return cls.from_pretrained(folder, **{"name": "demo", **options})

    def explain(
        self,
        texts: str | Sequence[str],
        target: Target | Sequence[Target] = "predicted",
        baseline: Baseline | Sequence[Baseline] = "pad",
        *,
        strategy: Strategy | None = None,
        n_steps: int | Literal["auto"] = "auto",
        tolerance_percent: float = LARGE_DELTA_PERCENT,
        max_steps: int = 400,
        method: str = "gausslegendre",
        batch_size: int = 8,
        internal_batch_size: int = 64,
        overflow: Overflow = "truncate",
    ) -> TextAttribution | list[TextAttribution]:
        """Explain one text or many.

        Args:
            texts: A text, or a sequence of texts.
            target: The class to explain: ``"predicted"``, a label's name or its index; or a sequence of these, one for
                each text.
            baseline: What every word becomes at the other end of its path: ``"pad"``, ``"mask"``, ``"unk"`` or another
                special token's role, a token of the vocabulary, or its id. ``"token:zero"`` is the word where
                ``"zero"`` could mean another kind of baseline. Of several, the mean of the explanations, which share
                the steps.
            strategy: As in the constructor; None for the explainer's own.
            n_steps: Gradient evaluations for each text, at least 1 for each path from each baseline; staggered words
                have 4 paths. With ``"auto"`` 50, then twice as many, from anew, while the text's delta is above the
                tolerance; its result says how many the last attempt took.
            tolerance_percent: For ``"auto"``: the largest delta, in percent of the difference of outputs; by default
                the paper's.
            max_steps: For ``"auto"``: no more than these. Where the model has no limit at the baseline, no number is
                enough.
            method: The quadrature rule, as in `DiscretizedIntegratedGradients.attribute`.
            batch_size: How many texts share a batch. It changes speed and memory only.
            internal_batch_size: How many rows, texts times steps, the model sees at once. It changes speed and memory
                only.
            overflow: For texts longer than the model reads: ``"truncate"`` with a warning, ``"windows"`` that are
                explained one by one, or an ``"error"``.

        Returns:
            A result for a single text, else a list. With ``overflow="windows"`` always a list, with a result for each
            window.

        Raises:
            TypeError: If `texts` is something else.
            ValueError: If an argument is unknown, a number is too low, or a text gives no token; or if anchors are to
                be words, and the tokenizer has too few that can be read.
            ModelError: If the model's output is not finite, or not that of a sequence classifier.
        """
        single = isinstance(texts, str)
        results = list(
            self.explain_each(
                [texts] if isinstance(texts, str) else texts,
                target,
                baseline,
                strategy=strategy,
                n_steps=n_steps,
                tolerance_percent=tolerance_percent,
                max_steps=max_steps,
                method=method,
                batch_size=batch_size,
                internal_batch_size=internal_batch_size,
                overflow=overflow,
            )
        )
        return results[0] if single and overflow != "windows" else results

    def explain_each(
        self,
        texts: Iterable[str],
        target: Target | Sequence[Target] = "predicted",
        baseline: Baseline | Sequence[Baseline] = "pad",
        *,
        strategy: Strategy | None = None,
        n_steps: int | Literal["auto"] = "auto",
        tolerance_percent: float = LARGE_DELTA_PERCENT,
        max_steps: int = 400,
        method: str = "gausslegendre",
        batch_size: int = 8,
        internal_batch_size: int = 64,
        overflow: Overflow = "truncate",
    ) -> Iterator[TextAttribution]:
        """Explain texts one after the other, as results are asked for.

        Arguments are those of `explain`, and are checked at once.

        Args:
            texts: The texts.
            target: The class to explain, or one for each text.
            baseline: What every word becomes at the other end of its path, or several of these.
            strategy: As in the constructor; None for the explainer's own.
            n_steps: Gradient evaluations for each text, or ``"auto"``.
            tolerance_percent: For ``"auto"``.
            max_steps: For ``"auto"``.
            method: The quadrature rule.
            batch_size: How many texts share a batch.
            internal_batch_size: How many rows the model sees at once.
            overflow: What to do with texts that are too long.

        Returns:
            An iterator over the results, in order.

        Raises:
            TypeError: If a text is not a string.
            ValueError: As in `explain`.
        """
        doubling = Doubling(tolerance_percent, max_steps) if n_steps == "auto" else None
        batch_size = at_least_one("batch_size", batch_size)
        internal_batch_size = at_least_one("internal_batch_size", internal_batch_size)
        if overflow not in OVERFLOWS:
            raise ValueError(f"overflow must be one of {', '.join(map(repr, OVERFLOWS))}, got {overflow!r}")
        check_method(method)
        texts = as_texts(texts)
        targets = self._targets(target, len(texts))
        strategy = self._strategy if strategy is None else strategy
        path = self.path(strategy)
        baseline_ids = self._baseline_ids(baseline)
        settings = ExplanationSettings(
            model=self.classifier.name,
            strategy=strategy if isinstance(strategy, str) else repr(strategy),
            candidates=self.candidates_name,
            n_anchors=path.n_anchors if isinstance(path, WordPath) else 0,
            n_neighbors=path.n_neighbors if isinstance(path, WordPath) else 0,
            baseline=", ".join(map(self.encoder.show, baseline_ids)),
            n_steps=first_steps(n_steps, max_steps, path.n_paths * len(baseline_ids)),
            method=method,
            spacing=self._spacing,
            output="value" if self.classifier.is_regression else "logit",
            version=__version__,
            seed=_seed_of(path),
        )
        # A model without a padding token reads one row at a time.
        if not self.classifier.pads:
            internal_batch_size = 1
        batches = self._batches(texts, targets, batch_size if len(texts) > 1 and self._pads else 1, overflow)
        run = Run(self.classifier, self.encoder, path, baseline_ids, settings, internal_batch_size, doubling)
        return self._results(batches, run, strategy)

    def table(self, baseline: Baseline = "pad", *, strategy: Strategy | None = None) -> RankedTable:
        """Look up the ranked table behind the paths to a baseline, for instance to rank the whole vocabulary at once.

        Args:
            baseline: As in `explain`, a single one.
            strategy: As in the constructor, an anchor search; None for the explainer's own, which must then be one.

        Returns:
            The table; `explain` ranks in it what it needs.

        Raises:
            ValueError: If an argument is unknown, or the path is no `MonotonicPath`.
        """
        strategy = self._strategy if strategy is None else strategy
        path = self.path(strategy)
        if not isinstance(path, MonotonicPath):
            raise ValueError(f"strategy must be an anchor search, got {strategy!r}; pass strategy='greedy' for one")
        return path.table(self.vocabulary.rows[self.encoder.token_id("baseline", baseline, len(self.vocabulary))])

    @property
    def vocabulary(self) -> Vocabulary:
        """The rows of the model's embedding layer, as they are now."""
        self._follow_weights()
        return self._vocabulary

    def _read_rows(self) -> None:
        """Read the rows of the model, and make a shelf for paths over them."""
        self._stamp = self.classifier.stamp
        # The caller may be in inference mode, whose tensors no later call could change.
        with torch.inference_mode(mode=False):
            self._vocabulary = Vocabulary.from_layer(self.classifier.layer)
        rows = candidate_rows(self._candidates, self.encoder.tokenizer, len(self._vocabulary))
        self._paths = self._shelf(self._vocabulary, candidates=rows)

    def _follow_weights(self, looked_up: Iterable[int] = ()) -> None:
        """Read the rows again if the model has been trained since.

        Where PyTorch reports no change, the rows that are looked up are compared all the same.
        """
        with self._lock:
            stamp = self.classifier.stamp
            n_rows = len(self._vocabulary)
            ids = range(n_rows) if stamp != self._stamp else {i for i in looked_up if i < n_rows}
            # Hooks of an explanation that this one is inside of do not answer here.
            with eager():
                if ids and not self.classifier.emits(
                    self._vocabulary.rows, torch.tensor(sorted(ids), dtype=torch.int64, device="cpu")
                ):
                    self._read_rows()
            self._stamp = stamp

    def _results(
        self, batches: Iterable[tuple[list[Encoding], list[int | None]]], run: Run, strategy: Strategy
    ) -> Iterator[TextAttribution]:
        try:
            for encodings, wanted in batches:
                self._follow_weights([*run.baseline_ids, *(i for encoding in encodings for i in encoding.ids)])
                run = replace(run, path=self.path(strategy))
                self._warn_of_other_rows(run.path, encodings)
                yield from run.explain(encodings, wanted)
        finally:
            run.path.store()

    def _warn_of_other_rows(self, path: PathGenerator, encodings: Sequence[Encoding]) -> None:
        """Say so if a path of the user's walks over rows that the model does not have any more."""
        own = self._vocabulary.rows
        # Staggered words go along a path of their own.
        path = getattr(path, "inner", path)
        if not isinstance(path, WordPath) or path.vocabulary is self._vocabulary:
            return
        ids = sorted({i for e in encodings for i in e.ids})
        rows = path.vocabulary.rows
        if rows.shape == own.shape and not torch.equal(rows[ids], own[ids]):
            warnings.warn(
                f"the vocabulary of {path!r} must hold the rows of the model, got other rows for words of the text; "
                "if the model has been trained since, make the path anew with "
                "Vocabulary.from_layer(model.get_input_embeddings())",
                stacklevel=4,
            )

    def _batches(
        self, texts: list[str], targets: list[int | None], batch_size: int, overflow: Overflow
    ) -> Iterator[tuple[list[Encoding], list[int | None]]]:
        encodings: list[Encoding] = []
        wanted: list[int | None] = []
        for number, (text, target) in enumerate(zip(texts, targets, strict=True)):
            name = "the text" if len(texts) == 1 else f"text {number + 1} of {len(texts)}"
            try:
                windows = self.encoder.encode(text, overflow, name)
                for encoding in windows:
                    check_ids(encoding, len(self.vocabulary), name)
            except ValueError:
                # The texts before it are explained all the same.
                if encodings:
                    yield encodings, wanted
                raise
            for encoding in windows:
                encodings.append(encoding)
                wanted.append(target)
                if len(encodings) == batch_size:
                    yield encodings, wanted
                    encodings, wanted = [], []
        if encodings:
            yield encodings, wanted

    @property
    def _pads(self) -> bool:
        # A cached property of Python 3.11 holds a lock meanwhile, and this waits for explanations of other threads.
        if self._hides_padding is None:
            self._hides_padding = self.classifier.hides_padding(self.encoder)
        return self._hides_padding

    def path(self, strategy: Strategy, *, seed: int | None = None) -> PathGenerator:
        """Look up the path of a strategy, with the explainer's anchors, neighbours and candidates.

        Args:
            strategy: As in the constructor.
            seed: For a random strategy; None for the explainer's own.

        Returns:
            The path, which later calls share.

        Raises:
            ValueError: If there is no such strategy.
        """
        self._follow_weights()
        return self._paths.path(strategy, seed=seed)

    def _baseline_ids(self, baseline: Baseline | Sequence[Baseline]) -> tuple[int, ...]:
        several = baseline if isinstance(baseline, Sequence) and not isinstance(baseline, str) else [baseline]
        if not several:
            raise ValueError("baseline must be a token, or several, got none")
        return tuple(self.encoder.token_id("baseline", one, len(self.vocabulary)) for one in several)

    def _targets(self, target: Target | Sequence[Target], n_texts: int) -> list[int | None]:
        """The index of the class to explain for each text; None for the predicted one."""
        given: Any = target.tolist() if isinstance(target, Tensor | np.ndarray) else target
        wanted = given if isinstance(given, Sequence) and not isinstance(given, str) else [given] * n_texts
        if len(wanted) != n_texts:
            raise ValueError(f"target must be one class, or one for each of the {n_texts} texts, got {len(wanted)}")
        return [None if one == "predicted" else self.classifier.label_index(one) for one in wanted]


def _seed_of(path: PathGenerator) -> int | None:
    """The seed of a path that has one; what a path of the user's calls so may be anything."""
    seed = getattr(path.strategy if isinstance(path, WordPath) else path, "seed", None)
    return seed if isinstance(seed, int) and not isinstance(seed, bool) else None
