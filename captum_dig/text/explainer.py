"""TextExplainer: from a sentence and a Hugging Face model to the words that drove its decision.

Takes texts; gives a frozen `TextAttribution` for each. It connects the stages of the flow: it makes a `Vocabulary` of
the model's rows, and a method over it from a name of the catalogue. `BatchExplainer` then scores the texts by that
method. `captum_dig.comparison` and the command line build on it.
"""

import functools
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch

from captum_dig import __version__
from captum_dig.catalogue import CATALOGUE, Catalogue
from captum_dig.checks import at_least_one, one_of
from captum_dig.methods.base import AttributionMethod, Plan
from captum_dig.methods.identity import identity
from captum_dig.methods.named import Strategy
from captum_dig.models.devices import as_dtype, move
from captum_dig.models.encoding import Encoding, TextEncoder
from captum_dig.models.loading import Head, check_tokenizer, load_pretrained
from captum_dig.models.model import TextModel
from captum_dig.models.samples import Overflow, Sample, is_sample
from captum_dig.paths import MonotonicPath, PathGenerator
from captum_dig.paths.tables import RankedTable
from captum_dig.quadrature import QuadratureRule, Spacing, check_spacing
from captum_dig.tasks.base import Task
from captum_dig.tasks.choosing import choose_task, task_of_pipeline
from captum_dig.text.batches import BatchExplainer, warn_of_other_rows
from captum_dig.text.following import Candidates, FollowingMethods
from captum_dig.text.prepared import Prepared
from captum_dig.text.questions import EVEN
from captum_dig.text.reading import Baseline, Target, TextReader, join
from captum_dig.text.requests import Request
from captum_dig.text.results import TextAttribution
from captum_dig.text.settings import ExplanationSettings
from captum_dig.text.streams import ERRORS, Errors, Outcome, TextStream
from captum_dig.vocabulary import Vocabulary

if TYPE_CHECKING:
    from transformers import Pipeline, PreTrainedModel, PreTrainedTokenizerBase


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
        strategy: How tokens are scored. ``"staggered"`` is ``StaggeredPath(StraightLine(), 0.3, inner_share=0.5)``,
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
        candidates: Candidates = "words",
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
        options |= {} if output is None else {"output": output}
        self.task = choose_task(task, catalogue, model).make(model, tokenizer, **options)
        self.encoder = TextEncoder(tokenizer, self.classifier.max_tokens(tokenizer))
        self._methods = FollowingMethods(
            self.classifier, self.encoder, n_anchors, n_neighbors, candidates, seed, catalogue, cache
        )
        self.candidates_name = self._methods.candidates
        check_tokenizer(tokenizer, len(self._methods.known), self.classifier.name)
        self._hides_padding: bool | None = None
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
            found.append(choose_task(task, catalogue, trained))
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
        found = task_of_pipeline(pipeline, options.get("catalogue", CATALOGUE))
        loaded: Any = pipeline
        return cls(loaded.model, loaded.tokenizer, **{"task": found, **options})

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
            n_steps: Gradient evaluations for each text, at least 1 for each path from each baseline; ``"staggered"``
                has at least 3 paths. ``"auto"`` starts at 48, or at 24 along other paths than staggered ones. It takes
                more until the error and the spread are within the tolerances. No gradient is taken twice; only rules
                without known sums restart, with twice as many.
            tolerance_percent: For ``"auto"``: the largest estimated error of the integration, in percent of the sizes
                of the scores. For rules without known sums, the largest delta, in percent of the difference of outputs.
            spread_percent: For ``"auto"`` and staggered words: the largest standard error over the orders, in percent
                of the sizes of the scores.
            max_steps: For ``"auto"``: the largest number. If the model has no limit at the baseline, no number is
                enough.
            method: The quadrature rule, as in `DiscretizedIntegratedGradients.attribute`.
            batch_size: The number of texts in a batch; with ``"auto"`` there is one. None for as many as fill
                `internal_batch_size`. It changes speed and memory only.
            internal_batch_size: The largest number of rows, texts times steps, for the model at once; on a processor
                long texts take fewer. It changes speed and memory only.
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
        request = Request(
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
        samples: Any = join(self.task, texts, fields, TextExplainer)
        single = is_sample(samples)
        results = list(self._results([samples] if single else samples, target, request))
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
            internal_batch_size: The largest number of rows for the model at once.
            overflow: The treatment of texts that are too long.
            window: The number of texts that are read ahead and sorted by length, so that the texts of a batch need
                little padding; None for eight batches, or for one text where batches hold one.

        Returns:
            An iterator over the results, in order.

        Raises:
            TypeError: If a text is not a string.
            ValueError: As in `explain`.
        """
        request = Request(
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
        return self._results(texts, target, request)

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
        """Explain texts as `explain_each` does, and yield the results or the error of each.

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
        return self._outcomes(texts, target, Request(baseline, **options), errors, store=store)

    def identity(
        self,
        target: Target = "predicted",
        baseline: Baseline | Sequence[Baseline] | None = None,
        **options: Any,
    ) -> dict[str, Any]:
        """Collect every setting that affects scores, so that a later run can resume this one.

        Args:
            target: As in `explain_each`.
            baseline: As in `explain_each`.
            options: The other arguments of `explain_each`; those that change only speed and memory are not named.

        Returns:
            Strings, numbers and lists by name, as JSON can hold them. Each call reads all weights of the model.

        Raises:
            TypeError: If there is no such argument.
            ValueError: As in `explain`.
        """
        prepared = self._prepare(Request(baseline, **options))
        model = {"fingerprint": self.fingerprint, "candidates": self._methods.candidates_identity}
        return model | prepared.identity(target)

    def _prepare(self, request: Request) -> Prepared:
        """Check a request against the model, and make everything that its texts need."""
        n_rows = self.rows_at_once(request.internal_batch_size)
        plan = request.plan(self.catalogue, self._spacing, n_rows, self._methods.seed)
        strategy = self._strategy if request.strategy is None else request.strategy
        chosen = self.method(strategy)
        reader = TextReader(self.task, self.encoder, len(self._methods.known), request.contrast, request.overflow)
        baseline_ids, even = reader.baselines(request.baseline)
        settings = ExplanationSettings(
            model=self.classifier.name,
            strategy=strategy if isinstance(strategy, str) else repr(strategy),
            candidates=self.candidates_name,
            baseline=EVEN if even else ", ".join(map(self.encoder.show, baseline_ids)),
            output=self.task.output,
            contrast=reader.contrast_label,
            version=__version__,
            **plan.describe(chosen, 1 if even else len(baseline_ids)),
        )
        explain = BatchExplainer(self.classifier, self.task, self.encoder, chosen, plan, baseline_ids, settings, even)
        return Prepared(request, strategy, reader, explain)

    def _results(
        self, texts: Iterable[Sample], target: Target | Sequence[Target], request: Request
    ) -> Iterator[TextAttribution]:
        outcomes = self._outcomes(texts, target, request, "raise", store=True)
        return (result for outcome in outcomes for result in outcome.results)

    def _outcomes(
        self,
        texts: Iterable[Sample],
        target: Target | Sequence[Target],
        request: Request,
        errors: Errors,
        *,
        store: bool,
    ) -> Iterator[Outcome]:
        """Check the arguments and the texts, and begin."""
        prepared = self._prepare(request)
        pairs, n_texts = prepared.reader.pair(texts, target, errors)
        together = request.texts_together
        stream = TextStream(
            # An outcome tells which text an error is about.
            functools.partial(prepared.reader.read, n_texts=1 if errors == "record" else n_texts),
            functools.partial(self._explain_batch, prepared),
            batch_size=together if together == 1 or (n_texts != 1 and self._pads) else 1,
            window=request.window,
            errors=errors,
        )
        return self._until_stored(stream(pairs), prepared, store=store)

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
        return self._methods.vocabulary

    def _until_stored(self, outcomes: Iterator[Outcome], prepared: Prepared, *, store: bool) -> Iterator[Outcome]:
        """Give outcomes their samples without the targets, and store ranked tables at the end."""
        try:
            for outcome in outcomes:
                yield replace(outcome, sample=outcome.sample[0])
        finally:
            path = self.method(prepared.strategy).path
            if store and path is not None:
                path.store()

    def _explain_batch(
        self, prepared: Prepared, encodings: list[Encoding], wanted: list[Any]
    ) -> list[list[TextAttribution]]:
        """Explain a batch over the rows that the model has now."""
        read = (i for encoding in encodings for i in encoding.ids)
        self._methods.follow([*prepared.explain.baseline_ids, *read])
        explain = replace(prepared.explain, method=self.method(prepared.strategy))
        warn_of_other_rows(explain.method.path, self._methods.known, encodings)
        return explain(encodings, wanted)

    @property
    def _pads(self) -> bool:
        # A cached property of Python 3.11 would hold its lock while this waits for other threads' explanations.
        if self._hides_padding is None:
            self._hides_padding = self.classifier.hides_padding(self.encoder, self.task.inputs_for)
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
