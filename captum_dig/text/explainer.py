"""TextExplainer: from a sentence and a Hugging Face model to the words that drove its decision.

Takes texts; gives a frozen `TextAttribution` for each. It connects the stages of the flow: it makes a `Vocabulary` of
the model's rows, and a method over it from a name of the catalogue. `BatchExplainer` then scores the texts by that
method. `captum_dig.comparison` and the command line build on it.
"""

import functools
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor

from captum_dig import __version__
from captum_dig.catalogue import CATALOGUE, Catalogue
from captum_dig.checks import as_index, at_least_one, one_of
from captum_dig.errors import ModelError
from captum_dig.methods.base import AttributionMethod, Plan
from captum_dig.methods.identity import identity
from captum_dig.methods.named import NamedMethods, Strategy
from captum_dig.models.devices import as_dtype, move
from captum_dig.models.encoding import Encoding, TextEncoder
from captum_dig.models.loading import Head, check_tokenizer, load_pretrained
from captum_dig.models.model import TextModel
from captum_dig.models.samples import OVERFLOWS, Overflow, Sample, as_samples, check_several, is_sample, name_of
from captum_dig.paths import MonotonicPath, PathGenerator, Walk
from captum_dig.paths.anchors import Greedy
from captum_dig.paths.folders import TableFolder
from captum_dig.paths.tables import RankedTable
from captum_dig.quadrature import QuadratureRule, Spacing, check_spacing
from captum_dig.tasks.base import Task
from captum_dig.text.batches import BatchExplainer, warn_of_other_rows
from captum_dig.text.questions import EVEN, check_ids
from captum_dig.text.results import TextAttribution
from captum_dig.text.settings import ExplanationSettings
from captum_dig.text.streams import ERRORS, Errors, Outcome, TextStream
from captum_dig.threads import Lock, eager
from captum_dig.vocabulary import Vocabulary
from captum_dig.vocabulary.readable import candidate_rows

if TYPE_CHECKING:
    from transformers import Pipeline, PreTrainedModel, PreTrainedTokenizerBase

Target: TypeAlias = str | int
Baseline: TypeAlias = str | int


@dataclass(frozen=True)
class _Request:
    """The checked arguments of an explanation that hold for all texts."""

    explain: BatchExplainer
    strategy: Strategy
    contrast: Target | None
    overflow: Overflow
    batch_size: int
    window: int | None


class TextExplainer:
    """Explain a text model's decisions with integrated gradients along a path of your choice.

    Special tokens keep their place in the baseline and score exactly 0. Token ids, masks and positions stay those of
    the text along the whole path; only the word embeddings move.

    Threads may share an explainer, and explainers may share a model; explanations of one model run one at a time. An
    explainer can be copied, and sent to another process. If the model has been trained since, its rows are read again.

    Args:
        model: A Hugging Face model for one of the tasks, such as a sequence classifier.
        tokenizer: Its tokenizer.
        task: The task: a name of the catalogue, or a subclass of `Task`. ``"auto"`` follows from the model's class, and
            is ``"labels"`` where the class tells nothing.
        output: The number to explain, as in `LabelTask`: for labels ``"logit"``, ``"log_odds"``, ``"log_probability"``
            or ``"probability"``; None for the task's own.
        strategy: How tokens are scored. ``"staggered"`` is a `StaggeredPath` along the straight line,
            ``"straight_line"`` is Integrated Gradients. Discretized Integrated Gradients goes by its anchor search:
            ``"greedy"``, ``"maxcount"``, ``"random_neighbor"``, ``"random_anchor"``, or an `AnchorSearch`.
            ``"uniform"`` is a greedy `UniformPath`. Any `PathGenerator` or `AttributionMethod` works, and so do methods
            without a path, such as ``"leave_one_out"``, ``"gradient_shap"`` and ``"deeplift"``.
        n_anchors: The paper's m: words on the way from a word to the baseline.
        n_neighbors: The paper's K: candidates for each anchor.
        candidates: Which rows may be anchors: ``"words"`` that a person can read, ``"all"`` rows as in the paper, or a
            mask of shape (V,).
        seed: For strategies that draw. None means 0 for staggered words, and a draw of torch's for random searches.
        spacing: As in `DiscretizedIntegratedGradients`.
        name: The name of the model in results; None for the name that it was loaded by.
        catalogue: The catalogue for names; ``CATALOGUE.plus(entries)`` adds the entries of a plug-in.
        cache: The folder for ranked tables. True means the folder in the environment variable CAPTUM_DIG_CACHE, or else
            the platform's folder for caches. False means none.
        device: Where the model shall run; it is moved there. ``"auto"`` is a CUDA device or an Apple GPU, if there is
            one; ``"cpu"``, ``"cuda:1"`` and others go by PyTorch's names. None leaves it where it is.
        options: Further arguments of the task, such as `fields`: the fields of a sample whose words are scored.

    Attributes:
        classifier: The model as a function of embeddings.
        task: The task.
        catalogue: The catalogue for names.
        encoder: The tokenizer with the model's limits.
        candidates_name: ``"words"``, ``"all"`` or ``"custom"``.

    Raises:
        ModelError: If model or tokenizer cannot be explained.
        VocabularyError: If the embeddings hold NaN or infinity.
        TaskError: If there is no such argument.
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
        task: str | type[Task] = "auto",
        output: str | None = None,
        strategy: Strategy = "staggered",
        n_anchors: int = 30,
        n_neighbors: int = 500,
        candidates: Literal["words", "all"] | Tensor = "words",
        seed: int | None = None,
        spacing: Spacing = "arc",
        name: str | None = None,
        catalogue: Catalogue = CATALOGUE,
        cache: bool | str | Path = True,
        device: str | torch.device | None = None,
        **options: Any,
    ) -> None:
        self.classifier = TextModel(model, name)
        if device is not None:
            move(model, device)
        self.catalogue = catalogue
        made = _kind(task, catalogue, model)
        self.task = made.make(model, tokenizer, **options if output is None else options | {"output": output})
        self.encoder = TextEncoder(tokenizer, self.classifier.max_tokens(tokenizer))
        self.candidates_name = candidates if isinstance(candidates, str) else "custom"
        folder = TableFolder.default() if cache is True else TableFolder(cache) if cache else None
        self._candidates, self._seed = candidates, seed
        self._walk = functools.partial(
            _walk,
            n_anchors=at_least_one("n_anchors", n_anchors),
            n_neighbors=at_least_one("n_neighbors", n_neighbors),
            folder=folder,
        )
        self._lock = Lock()
        self._hides_padding: bool | None = None
        self._read_rows()
        check_tokenizer(tokenizer, len(self.vocabulary), self.classifier.name)
        self._spacing = check_spacing(spacing)
        self._strategy = strategy
        # Make it now: a wrong argument then fails here.
        self.method(strategy)

    @classmethod
    def from_pretrained(
        cls,
        name_or_folder: str | Path,
        *,
        task: str | type[Task] = "auto",
        dtype: str | torch.dtype = torch.float32,
        trust_remote_code: bool = False,
        **options: Any,
    ) -> "TextExplainer":
        """Load a model by its name on the Hugging Face hub or from a folder.

        Args:
            name_or_folder: The name or folder of a whole model, or of a PEFT adapter (LoRA and others).
            task: As in the constructor; ``"auto"`` follows from the class that the model was trained with.
            dtype: The type to load the weights as, or its name: ``"float32"``, ``"float16"`` or ``"bfloat16"``.
            trust_remote_code: Whether Python code that comes with the model may run. Read it first.
            options: Further arguments of the constructor.

        Returns:
            The explainer.

        Raises:
            ModelError: If there is no such model, its files cannot be read, or it was not trained for the task.
        """
        catalogue: Catalogue = options.get("catalogue", CATALOGUE)
        found: list[type[Task]] = []

        def head(trained: str) -> Head:
            found.append(_kind(task, catalogue, trained))
            return Head(found[0].auto_class, found[0].kind)

        model, tokenizer = load_pretrained(name_or_folder, as_dtype(dtype), head, trust_remote_code=trust_remote_code)
        return cls(model, tokenizer, task=found[0], **{"name": str(name_or_folder), **options})

    @classmethod
    def from_pipeline(cls, pipeline: "Pipeline", **options: Any) -> "TextExplainer":
        """Take model and tokenizer from a pipeline of Transformers, and the task that fits it.

        Args:
            pipeline: The pipeline, such as that of ``pipeline("text-classification")``.
            options: Further arguments of the constructor.

        Returns:
            The explainer.

        Raises:
            ModelError: If the pipeline has no tokenizer or is for another task.
        """
        tasks = _tasks(options.get("catalogue", CATALOGUE))
        names = [kind.__name__ for kind in type(pipeline).__mro__]
        found = next((one for one in tasks if one.pipeline in names), None)
        if found is None:
            known = ", ".join(dict.fromkeys(one.pipeline for one in tasks if one.pipeline))
            raise ModelError(f"pipeline must be one of {known}, got {type(pipeline).__name__}")
        model: Any = pipeline.model
        tokenizer: Any = pipeline.tokenizer
        return cls(model, tokenizer, **{"task": found, **options})

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
        texts: Sample | Sequence[Sample] | None = None,
        target: Target | Sequence[Target] = "predicted",
        baseline: Baseline | Sequence[Baseline] | None = None,
        *,
        contrast: Target | None = None,
        strategy: Strategy | None = None,
        n_steps: int | Literal["auto"] = "auto",
        tolerance_percent: float = Plan.tolerance_percent,
        spread_percent: float = Plan.spread_percent,
        max_steps: int = 400,
        method: str | QuadratureRule = "known_sums",
        batch_size: int | None = None,
        internal_batch_size: int = 64,
        overflow: Overflow = "truncate",
        **fields: str,
    ) -> TextAttribution | list[TextAttribution]:
        """Explain one text or many.

        Args:
            texts: A text, or a mapping from the names of its fields to texts, such as ``{"text": ..., "text_pair":
                ...}``; or a sequence of these. None if all fields are given by name.
            target: The class to explain: ``"predicted"``, a label's name or its index; or a sequence of these, one for
                each text. Other tasks take other targets.
            baseline: The token that replaces every word at the start of the path: ``"pad"``, ``"mask"``, ``"unk"`` or
                another special token's role, a token of the vocabulary, or its id. ``"token:zero"`` is the word where
                ``"zero"`` could mean another kind of baseline. ``"even"`` takes the one of pad, mask and unk at
                which the model is nearest to even odds for this text. Several baselines share the steps, and the result
                is the mean over them. None is padding, or for a tokenizer without it the token that ends a text.
            contrast: Another label: why the target and not this one? The difference of their numbers is explained.
            strategy: As in the constructor; None for the explainer's own.
            n_steps: Gradient evaluations for each text, at least 1 for each path from each baseline; staggered words
                have at least 2 paths. ``"auto"`` starts at 48 and takes more until the error and the spread are within
                the tolerances. No gradient is taken twice; only rules without known sums restart, with twice as many.
            tolerance_percent: For ``"auto"``: the largest estimated error of the integration, in percent of the sizes
                of the scores. For rules without known sums, the largest delta, in percent of the difference of outputs.
            spread_percent: For ``"auto"`` and staggered words: the largest standard error over the orders, in percent
                of the sizes of the scores.
            max_steps: For ``"auto"``: the largest number. If the model has no limit at the baseline, no number is
                enough.
            method: The quadrature rule, as in `DiscretizedIntegratedGradients.attribute`.
            batch_size: The number of texts in a batch; with ``"auto"`` there is one. None for as many as fill
                `internal_batch_size`. It changes speed and memory only.
            internal_batch_size: The number of rows, texts times steps, for the model at once. It changes speed and
                memory only.
            overflow: For texts longer than the model reads: ``"truncate"`` with a warning, ``"windows"`` that are
                explained one by one, or an ``"error"``.
            fields: The other fields of a single text: ``explain("A man eats.", text_pair="Someone eats.")``.

        Returns:
            A result for a single text, else a list. It is always a list for a task with several numbers for a text,
            such as the entities in it. It is one with ``overflow="windows"``, too, with a result for each window.

        Raises:
            TypeError: If `texts` is something else.
            ValueError: If an argument is unknown, a number is too low, or a text gives no token. Also if anchors must
                be words, and the tokenizer has too few readable words.
            ModelError: If the model's output is not finite, or does not fit the task.
        """
        samples: Any = self._joined(texts, fields)
        single = is_sample(samples)
        results = list(
            self.explain_each(
                [samples] if single else samples,
                target,
                baseline,
                contrast=contrast,
                strategy=strategy,
                n_steps=n_steps,
                tolerance_percent=tolerance_percent,
                spread_percent=spread_percent,
                max_steps=max_steps,
                method=method,
                batch_size=batch_size,
                internal_batch_size=internal_batch_size,
                overflow=overflow,
            )
        )
        listed = self.task.several(target) or (overflow == "windows" and not self.task.joint)
        return results[0] if single and not listed else results

    def explain_each(
        self,
        texts: Iterable[Sample],
        target: Target | Sequence[Target] = "predicted",
        baseline: Baseline | Sequence[Baseline] | None = None,
        *,
        contrast: Target | None = None,
        strategy: Strategy | None = None,
        n_steps: int | Literal["auto"] = "auto",
        tolerance_percent: float = Plan.tolerance_percent,
        spread_percent: float = Plan.spread_percent,
        max_steps: int = 400,
        method: str | QuadratureRule = "known_sums",
        batch_size: int | None = None,
        internal_batch_size: int = 64,
        overflow: Overflow = "truncate",
        window: int | None = None,
    ) -> Iterator[TextAttribution]:
        """Explain texts batch by batch, and yield each result when its batch is finished.

        The arguments are those of `explain`, and are checked at once; the texts of an iterator are read and checked
        when their turn comes, so that memory does not grow with their number.

        Args:
            texts: The texts.
            target: The class to explain, or one for each text.
            baseline: The token that replaces every word at the start of the path, or several of these; None as in
                `explain`.
            contrast: Another label, to explain the difference.
            strategy: As in the constructor; None for the explainer's own.
            n_steps: Gradient evaluations for each text, or ``"auto"``.
            tolerance_percent: For ``"auto"``.
            spread_percent: For ``"auto"``.
            max_steps: For ``"auto"``.
            method: The quadrature rule.
            batch_size: The number of texts in a batch; None for as many as fill `internal_batch_size`.
            internal_batch_size: The number of rows for the model at once.
            overflow: The treatment of texts that are too long.
            window: The number of texts that are read ahead and sorted by length, so that the texts of a batch need
                little padding; None for eight batches, or for one text where batches hold one.

        Returns:
            An iterator over the results, in order.

        Raises:
            TypeError: If a text is not a string.
            ValueError: As in `explain`.
        """
        request = self._request(
            baseline,
            contrast=contrast,
            strategy=strategy,
            n_steps=n_steps,
            tolerance_percent=tolerance_percent,
            spread_percent=spread_percent,
            max_steps=max_steps,
            method=method,
            batch_size=batch_size,
            internal_batch_size=internal_batch_size,
            overflow=overflow,
            window=window,
        )
        outcomes = self._outcomes(texts, target, request, "raise")
        return (result for outcome in outcomes for result in outcome.results)

    def outcomes(
        self,
        texts: Iterable[Sample],
        target: Target | Sequence[Target] = "predicted",
        baseline: Baseline | Sequence[Baseline] | None = None,
        *,
        errors: Errors = "raise",
        store: bool = True,
        **options: Any,
    ) -> Iterator[Outcome]:
        """Explain texts as `explain_each` does, and tell for each text what became of it.

        Args:
            texts: The texts.
            target: As in `explain_each`.
            baseline: As in `explain_each`.
            errors: ``"raise"`` raises the error of a text after the outcomes of those before it. ``"record"`` puts it
                into the outcome of its text, and goes on. Wrong arguments are always raised.
            store: Whether ranked tables are stored at the end, as `explain_each` does. A worker that explains many
                batches calls `store` itself when the last one is done.
            options: The other arguments of `explain_each`.

        Returns:
            An iterator over the outcomes, in order.

        Raises:
            TypeError: If there is no such argument.
            ValueError: As in `explain`.

        Example:
            >>> explainer = TextExplainer.demo()
            >>> for outcome in explainer.outcomes(["A gorgeous movie.", None], errors="record"):
            ...     print(outcome.number, outcome.error or outcome.results[0].predicted_label)
            0 POSITIVE
            1 the text must be a string, got NoneType; pass for example {'text': '...', 'text_pair': '...'}
        """
        one_of("errors", errors, ERRORS)
        return self._outcomes(texts, target, self._request(baseline, **options), errors, store=store)

    def identity(
        self,
        target: Target = "predicted",
        baseline: Baseline | Sequence[Baseline] | None = None,
        **options: Any,
    ) -> dict[str, Any]:
        """Name everything that decides scores, so that a run can go on later and give the same.

        Args:
            target: As in `explain_each`.
            baseline: As in `explain_each`.
            options: The other arguments of `explain_each`; those that change only speed and memory are not named.

        Returns:
            Strings and numbers by name, as JSON can hold them. Each call reads all weights of the model.

        Raises:
            TypeError: If there is no such argument.
            ValueError: As in `explain`.
        """
        request = self._request(baseline, **options)
        plan = request.explain.plan
        self._resolved(target, request.contrast)
        rows = self._candidates
        return {
            "fingerprint": self.fingerprint,
            "task": identity(self.task),
            "method": identity(request.explain.method),
            "candidates": rows if isinstance(rows, str) else hashlib.sha256(bytes(rows.tolist())).hexdigest()[:16],
            "target": target,
            "contrast": request.contrast,
            "baseline": request.explain.settings.baseline,
            "baseline_ids": list(request.explain.baseline_ids),
            "overflow": request.overflow,
            "n_steps": plan.n_steps,
            "rule": identity(plan.method),
            "spacing": plan.spacing,
            "tolerance_percent": float(plan.tolerance_percent),
            "spread_percent": float(plan.spread_percent),
            "max_steps": plan.max_steps,
            "seed": plan.seed,
            "version": __version__,
        }

    def _request(
        self,
        baseline: Baseline | Sequence[Baseline] | None,
        *,
        contrast: Target | None = None,
        strategy: Strategy | None = None,
        n_steps: int | Literal["auto"] = "auto",
        tolerance_percent: float = Plan.tolerance_percent,
        spread_percent: float = Plan.spread_percent,
        max_steps: int = 400,
        method: str | QuadratureRule = "known_sums",
        batch_size: int | None = None,
        internal_batch_size: int = 64,
        overflow: Overflow = "truncate",
        window: int | None = None,
    ) -> "_Request":
        """Check the arguments."""
        plan = Plan(
            n_steps,
            self._rule(method),
            self._spacing,
            tolerance_percent,
            spread_percent,
            max_steps,
            self.rows_at_once(internal_batch_size),
            seed=0 if self._seed is None else self._seed,
        )
        one_of("overflow", overflow, OVERFLOWS)
        if batch_size is not None:
            at_least_one("batch_size", batch_size)
        if window is not None:
            at_least_one("window", window)
        strategy = self._strategy if strategy is None else strategy
        chosen = self.method(strategy)
        even = baseline == EVEN
        baseline_ids = self.encoder.even_candidates() if even else self._baseline_ids(baseline)
        if even:
            self._check_even()
        settings = ExplanationSettings(
            model=self.classifier.name,
            strategy=strategy if isinstance(strategy, str) else repr(strategy),
            candidates=self.candidates_name,
            baseline=EVEN if even else ", ".join(map(self.encoder.show, baseline_ids)),
            output=self.task.output,
            contrast=self._label(contrast),
            version=__version__,
            **plan.describe(chosen, 1 if even else len(baseline_ids)),
        )
        # Texts that take gradients by need are attributed one by one: padding would only cost time.
        together = 1
        if n_steps != "auto":
            together = batch_size or max(1, int(internal_batch_size) // int(n_steps))
        explain = BatchExplainer(self.classifier, self.task, self.encoder, chosen, plan, baseline_ids, settings, even)
        return _Request(explain, strategy, contrast, overflow, together, window)

    def _outcomes(
        self,
        texts: Iterable[Sample],
        target: Target | Sequence[Target],
        request: "_Request",
        errors: Errors,
        *,
        store: bool = True,
    ) -> Iterator[Outcome]:
        """Check the texts, and begin."""
        pairs, n_texts = self._paired(texts, target, request.contrast, errors)
        together = request.batch_size
        stream = TextStream(
            # The outcome tells which text an error is about.
            functools.partial(self._read, request=request, n_texts=1 if errors == "record" else n_texts),
            functools.partial(self._explain_batch, request),
            batch_size=together if together == 1 or (n_texts != 1 and self._pads) else 1,
            window=request.window,
            errors=errors,
        )
        return self._until_stored(stream(pairs), request, store=store)

    def table(self, baseline: Baseline = "pad", *, strategy: Strategy | None = None) -> RankedTable:
        """Look up the ranked table of the paths to a baseline, for instance to rank the whole vocabulary.

        Args:
            baseline: As in `explain`, a single one.
            strategy: As in the constructor, an anchor search; None for the explainer's own, which must then be one.

        Returns:
            The table; `explain` ranks the rows that it needs.

        Raises:
            ValueError: If an argument is unknown, or the path is no `MonotonicPath`.
        """
        strategy = self._strategy if strategy is None else strategy
        path = self.path(strategy)
        if not isinstance(path, MonotonicPath):
            raise ValueError(f"strategy must be an anchor search, got {strategy!r}; pass strategy='greedy' for one")
        return path.table(self.vocabulary.rows[self.encoder.token_id("baseline", baseline, len(self.vocabulary))])

    @property
    def fingerprint(self) -> str:
        """Hash of the model, the tokenizer and the task. Each use reads all weights, so keep the result."""
        task = hashlib.sha256(identity(self.task).encode("utf-8", "backslashreplace")).hexdigest()[:16]
        return f"{self.classifier.fingerprint}-{self.encoder.fingerprint}-{task}"

    @property
    def vocabulary(self) -> Vocabulary:
        """The rows of the model's embedding layer, as they are now."""
        self._follow_weights()
        return self._vocabulary

    def _read_rows(self) -> None:
        """Read the rows of the model, and forget the paths over other rows."""
        self._stamp = self.classifier.stamp
        # The caller may be in inference mode, and tensors made in it could not be changed later.
        with torch.inference_mode(mode=False):
            self._vocabulary = Vocabulary.from_layer(self.classifier.layer)
        rows = candidate_rows(self._candidates, self.encoder.tokenizer, len(self._vocabulary))
        walk = functools.partial(self._walk, self._vocabulary, rows)
        self._methods = NamedMethods(walk, self._seed, self.catalogue)

    def _follow_weights(self, looked_up: Iterable[int] = ()) -> None:
        """Read the rows again if the model has been trained since.

        If PyTorch reports no change, only the looked-up rows are compared.
        """
        with self._lock:
            stamp = self.classifier.stamp
            n_rows = len(self._vocabulary)
            ids = range(n_rows) if stamp != self._stamp else {i for i in looked_up if i < n_rows}
            # Hooks of an outer explanation in this thread are ignored here.
            with eager():
                if ids and not self.classifier.emits(
                    self._vocabulary.rows, torch.tensor(sorted(ids), dtype=torch.int64, device="cpu")
                ):
                    self._read_rows()
            self._stamp = stamp

    def _until_stored(self, outcomes: Iterator[Outcome], request: "_Request", *, store: bool) -> Iterator[Outcome]:
        """Give outcomes their samples without the targets, and store ranked tables at the end."""
        try:
            for outcome in outcomes:
                yield replace(outcome, sample=outcome.sample[0])
        finally:
            path = self.method(request.strategy).path
            if store and path is not None:
                path.store()

    def _explain_batch(
        self, request: "_Request", encodings: list[Encoding], wanted: list[Any]
    ) -> list[list[TextAttribution]]:
        read = (i for encoding in encodings for i in encoding.ids)
        self._follow_weights([*request.explain.baseline_ids, *read])
        explain = replace(request.explain, method=self.method(request.strategy))
        warn_of_other_rows(explain.method.path, self._vocabulary, encodings)
        return explain(encodings, wanted)

    def _read(
        self, number: int, given: tuple[Any, Any], *, request: "_Request", n_texts: int | None
    ) -> list[tuple[list[Encoding], list[Any]]]:
        """Encode a sample and resolve its target; encodings that the task compares stay together."""
        sample, target = given
        checked = self.task.form.check(sample, name_of(number, n_texts))
        wanted = self._resolved(target, request.contrast)
        name = "the text" if n_texts == 1 else f"text {number + 1}" + (f" of {n_texts}" if n_texts else "")
        read = self.task.read(checked, self.encoder, request.overflow, name)
        for encoding in read:
            check_ids(encoding, len(self.vocabulary), name)
        parts = [read] if self.task.joint else [[encoding] for encoding in read]
        return [(part, [wanted] * len(part)) for part in parts]

    def _joined(self, texts: Sample | Sequence[Sample] | None, fields: Mapping[str, str]) -> Sample | Sequence[Sample]:
        """Put the fields of a single sample together that were given apart."""
        form = self.task.form
        if unknown := [name for name in fields if name not in form.names]:
            raise TypeError(
                f"explain has no argument {unknown[0]!r}; the fields of a text are {', '.join(map(repr, form.names))}"
            )
        if texts is None:
            if not fields:
                raise TypeError(f"texts must be {form}, or a sequence of these, got nothing")
            return form.join(None, fields)
        if not fields:
            return texts
        if not isinstance(texts, str):
            raise TypeError(
                f"texts must be one string beside {', '.join(map(repr, fields))}, got {type(texts).__name__}; "
                "put all fields into one mapping for each text"
            )
        return form.join(texts, fields)

    @property
    def _pads(self) -> bool:
        # A cached property of Python 3.11 would hold its lock while this waits for other threads' explanations.
        if self._hides_padding is None:
            self._hides_padding = self.classifier.hides_padding(self.encoder)
        return self._hides_padding

    def rows_at_once(self, internal_batch_size: int) -> int:
        """Return the number of rows for the model at once: one if it would look for a padding token that it lacks.

        Raises:
            ValueError: If `internal_batch_size` is below 1.
        """
        n_rows = at_least_one("internal_batch_size", internal_batch_size)
        return n_rows if self.classifier.pads or not self.task.seeks_padding else 1

    def method(self, strategy: Strategy, *, seed: int | None = None, argument: str = "strategy") -> AttributionMethod:
        """Look up a method, with the explainer's anchors, neighbours and candidates.

        Args:
            strategy: As in the constructor.
            seed: For a method that draws; None for the explainer's own.
            argument: The name of the argument in messages.

        Returns:
            The method, which later calls share.

        Raises:
            ValueError: If there is no such method.
        """
        self._follow_weights()
        return self._methods.find(strategy, seed=seed, argument=argument)

    def store(self) -> None:
        """Store the tables that paths have ranked since the last time, for other processes."""
        self._methods.store()

    def path(self, strategy: Strategy, *, seed: int | None = None) -> PathGenerator:
        """Look up the path of a strategy, with the explainer's anchors, neighbours and candidates.

        Args:
            strategy: As in the constructor.
            seed: For a random strategy; None for the explainer's own.

        Returns:
            The path, which later calls share.

        Raises:
            ValueError: If there is no such strategy, or it has no path.
        """
        path = self.method(strategy, seed=seed).path
        if path is None:
            raise ValueError(f"strategy must have a path, got {strategy!r}; take for example 'straight_line'")
        return path

    def _rule(self, method: str | QuadratureRule) -> str | QuadratureRule:
        """Make a rule that a plug-in brings; the others go by their names."""
        entry = self.catalogue.get(method, "rule")
        if entry is None or entry in CATALOGUE:
            return method
        rule: QuadratureRule = entry.make()
        return rule

    def _baseline_ids(self, baseline: Baseline | Sequence[Baseline] | None) -> tuple[int, ...]:
        if baseline is None:
            baseline = self.encoder.default_baseline
        several = baseline if isinstance(baseline, Sequence) and not isinstance(baseline, str) else [baseline]
        if not several:
            raise ValueError("baseline must be a token, or several, got none")
        return tuple(self.encoder.token_id("baseline", one, len(self.vocabulary)) for one in several)

    def _check_even(self) -> None:
        """Require a choice of baselines, and probabilities."""
        self.task.check_measurable()
        if len(self.encoder.even_candidates()) < 2:
            raise ValueError(
                "baseline must be a token, got 'even' for a tokenizer with fewer than two of pad, mask, unk"
            )

    def _label(self, contrast: Target | None) -> str | None:
        """The name of another label, which was given by its name or index."""
        if contrast is None:
            return None
        index = as_index(contrast)
        # A wrong index is an error when targets are resolved.
        return str(contrast) if index is None or index >= len(self.task.labels) else self.task.labels[index]

    def _paired(
        self, texts: Iterable[Sample], target: Target | Sequence[Target], contrast: Target | None, errors: Errors
    ) -> tuple[Iterable[tuple[Any, Any]], int | None]:
        """Pair each text with its target; also give the number of texts, if it is known.

        Texts whose number is known are checked at once, unless errors are recorded.
        """
        given: Any = target.tolist() if isinstance(target, Tensor | np.ndarray) else target
        several = isinstance(given, Sequence) and not isinstance(given, str)
        check_several(texts, self.task.form)
        n_texts = len(texts) if isinstance(texts, Sized) else None
        if several and n_texts is not None and len(given) != n_texts:
            raise ValueError(f"target must be one class, or one for each of the {n_texts} texts, got {len(given)}")
        if n_texts is not None and errors == "raise":
            as_samples(texts, self.task.form)
        if not several or errors == "raise":
            for one in given if several else [given]:
                self._resolved(one, contrast)
        return (_together(texts, given) if several else ((text, given) for text in texts)), n_texts

    def _resolved(self, target: Target, contrast: Target | None) -> Any:
        """The wanted target, resolved by the task."""
        return self.task.resolve(target) if contrast is None else self.task.against(target, contrast)


def _together(texts: Iterable[Sample], targets: Sequence[Target]) -> Iterator[tuple[Sample, Target]]:
    """Pair texts with as many targets."""
    left = iter(targets)
    for number, text in enumerate(texts):
        try:
            target = next(left)
        except StopIteration:
            raise ValueError(f"target must be one class, or one for each text, got {number} for more texts") from None
        yield text, target
    if more := sum(1 for _ in left):
        raise ValueError(f"target must be one class, or one for each text, got {more} more than texts")


def _tasks(catalogue: Catalogue) -> list[type[Task]]:
    """All tasks of a catalogue, in order."""
    return [entry.load() for entry in catalogue if entry.kind == "task"]


def _kind(task: str | type[Task], catalogue: Catalogue, model: object) -> type[Task]:
    """Look up a task; ``"auto"`` is the first one for the class of a model, given by itself or by name."""
    if isinstance(task, type) and issubclass(task, Task):
        return task
    if task != "auto":
        found: type[Task] = catalogue.find(task, "task", argument="task", remedy="or 'auto'").load()
        return found
    names = [model] if isinstance(model, str) else [kind.__name__ for kind in type(model).__mro__]
    tasks = _tasks(catalogue)
    suited = (one for one in tasks if any(name.endswith(one.classes()) for name in names))
    return next(suited, tasks[0])


def _walk(
    vocabulary: Vocabulary,
    candidates: Callable[[], Tensor | None],
    n_anchors: int,
    n_neighbors: int,
    folder: TableFolder | None,
) -> Walk:
    """Make a greedy walk; readable words are searched only now."""
    return Walk(vocabulary, Greedy(), n_anchors, n_neighbors, candidates(), folder)
