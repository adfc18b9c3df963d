"""How fast and how steady are scores next to those of other tools, with as many model calls?

The same sentences go through the same classifier: with Transformers Interpret, SHAP and time_interpret, each in an
environment of its own, with Captum's `LayerIntegratedGradients`, and with this package. All take 48 gradients or
forward passes for a sentence, on one thread. For each tool: seconds and rows of the model for a sentence, the share of
sentences with the same top token for three seeds, and how well its scores name the tokens that the model needs. A
continuation by a language model of random weights goes through inseq, Captum's `LLMGradientAttribution` and this
package.

    python -m benchmarks.peers.run --model MODEL --data SST2/test.tsv --n 100 --out benchmarks/results/peers.json
        --python transformers-interpret=PYTHON --python shap=PYTHON --python time_interpret=PYTHON --python inseq=PYTHON
    python -m benchmarks.peers.run --tiny

Make each environment with `pip install torch "transformers<5" captum` and the tool; inseq and transformers-interpret
with `--no-deps`. A tool without an environment is left out.
"""

import json
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from benchmarks._measuring import alone, clock, ends, environment, rounded, write
from benchmarks._sentences import TINY_TEXTS, sentence_parser
from benchmarks.continuation import TINY, Size, make
from benchmarks.continuation import run as explain_continuation
from benchmarks.throughput import captum
from captum_dig import AttributionMethod, TextAttribution, TextExplainer, compare
from captum_dig.methods import Plan
from captum_dig.metrics import bootstrap_interval
from captum_dig.models.question import Question

N_STEPS: Final = 48
SCRIPTS: Final = {
    "transformers-interpret": "_transformers_interpret.py",
    "shap": "_shap.py",
    "time_interpret": "_time_interpret.py",
}
# What each can do besides, from its documentation.
ABLE: Final = {
    "transformers-interpret": "classifiers, pairs, entities, answers; the straight line",
    "shap": "any function of text; no gradients",
    "time_interpret": "time series first; text through Captum's interface; DIG's and sequential paths",
    "inseq": "generation: causal and sequence-to-sequence models; no classifiers",
    "captum": "any PyTorch model, by hand; the straight line",
    "captum_dig": "every text task; any path; words, errors, comparisons, data sets",
}


@dataclass(frozen=True)
class Given(AttributionMethod):
    """Scores of tokens that were computed elsewhere, by the token ids of a text."""

    name: str
    known: Mapping[tuple[int, ...], Sequence[float]] = field(repr=False)

    n_gradients = 0

    def scores(self, question: Question, plan: Plan) -> Tensor:  # noqa: ARG002 - all is known
        """Look the scores up; the ids are the first column of the input."""
        found = [self.known[tuple(row.tolist())] for row in question.columns[0]]
        return torch.tensor(found, dtype=torch.float32)


def main() -> None:
    """Measure, print, and write JSON."""
    parser = sentence_parser(__doc__, tiny="this package and Captum alone")
    parser.add_argument("--python", action="append", default=[], metavar="TOOL=PATH", help="the Python of a tool")
    arguments = parser.parse_args()
    if not arguments.tiny and (arguments.data is None or arguments.model is None):
        parser.error("give --model and --data, or --tiny")
    pythons = dict(one.partition("=")[::2] for one in arguments.python)
    texts = TINY_TEXTS
    if not arguments.tiny:
        lines = arguments.data.read_text(encoding="utf-8").splitlines()
        texts = [line.split("\t")[0] for line in lines[:: max(1, len(lines) // arguments.n)][: arguments.n]]
    seeds = [0, 1] if arguments.tiny else [0, 1, 2]
    found = {
        name: peer(script, pythons[name], arguments.model, texts, seeds)
        for name, script in SCRIPTS.items()
        if name in pythons
    }
    found |= alone(ours, arguments.model, texts, seeds)
    report: dict[str, Any] = {
        "question": (__doc__ or "").splitlines()[0],
        "environment": environment(),
        "settings": {
            "model": arguments.model.name if arguments.model else "demo",
            "n_sentences": len(texts),
            "n_steps": N_STEPS,
        },
        "able": ABLE,
        "classifier": measured(arguments.model, texts, found),
        "continuation": {},
    }
    # The second part takes longer: what was found before it is kept.
    write(report, arguments.out)
    size = TINY if arguments.tiny else Size(n_steps=2)
    report["settings"]["continuation"] = asdict(size)
    report["continuation"] = continuation(size, pythons.get("inseq"))
    write(report, arguments.out)
    for part in ("classifier", "continuation"):
        for name, figures in report[part].items():
            print(part, name, figures)


def peer(script: str, python: str, model: Path, texts: Sequence[str], seeds: Sequence[int]) -> dict[str, Any]:
    """Explain the sentences in the environment of a tool."""
    return _ask(script, python, {"model": str(model), "texts": texts, "n_steps": N_STEPS, "seeds": seeds})


def _ask(script: str, python: str, job: Mapping[str, Any]) -> dict[str, Any]:
    done = subprocess.run(
        [python, str(Path(__file__).with_name(script))],
        input=json.dumps(job),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{script} failed: {done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def ours(model: Path | None, texts: Sequence[str], seeds: Sequence[int]) -> dict[str, dict[str, Any]]:
    """Explain the sentences with Captum and with this package, on one thread."""
    torch.set_num_threads(1)
    ways = {
        "captum": (None, "gausslegendre"),
        "captum_dig, straight line": ("straight_line", "known_sums"),
        "captum_dig, default": ("staggered", "known_sums"),
        "captum_dig, DIG greedy": ("greedy", "known_sums"),
    }
    return {
        name: _run([_load(model, way[0] or "straight_line", seed) for seed in seeds], texts, *way)
        for name, way in ways.items()
    }


def _run(explainers: Sequence[TextExplainer], texts: Sequence[str], strategy: str | None, rule: str) -> dict[str, Any]:
    """Explain the sentences in one way, once for each seed."""
    rows = [0]

    def count(_module: Any, _inputs: Any, output: Any) -> None:
        rows[0] += len(output.logits)

    for explainer in explainers:
        explainer.classifier.model.register_forward_hook(count)
        _scores(explainer, texts[:1], strategy, rule)
    rows[0] = 0
    scores: list[Any] = []
    seconds = clock(lambda: scores.extend(_scores(one, texts, strategy, rule) for one in explainers))
    n_runs = len(explainers) * len(texts)
    return {"seconds": seconds / n_runs, "rows": rows[0] / n_runs, "scores": scores}


def _load(model: Path | None, strategy: str, seed: int) -> TextExplainer:
    options: dict[str, Any] = {"strategy": strategy, "seed": seed}
    return TextExplainer.from_pretrained(model, **options) if model else TextExplainer.demo(**options)


def _scores(explainer: TextExplainer, texts: Sequence[str], strategy: str | None, rule: str) -> list[list[float]]:
    if strategy is None:
        return [row.tolist() for row in captum(explainer, list(texts), N_STEPS)]
    results = (explainer.explain(text, n_steps=N_STEPS, method=rule) for text in texts)
    return [list(result.token_scores) for result in results if isinstance(result, TextAttribution)]


def measured(model: Path | None, texts: Sequence[str], found: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Put the figures of all tools side by side."""
    explainer = _load(model, "straight_line", 0)
    ids = [tuple(explainer.encoder.encode(text)[0].ids) for text in texts]
    known: dict[str, dict[tuple[int, ...], list[float]]] = {
        name: dict(zip(ids, list(one["scores"][0]), strict=True)) for name, one in found.items()
    }
    for name, scores in known.items():
        if any(len(row) != len(values) for row, values in scores.items()):
            raise RuntimeError(f"{name} must give a score for each token of every sentence")
    comparison = compare(
        explainer,
        list(texts),
        [Given(name, scores) for name, scores in known.items()],
        n_steps=1,
        measures=("log_odds", "comprehensiveness"),
        top_fractions=(0.2,),
    )
    return {
        name: {
            **{key: one[key] for key in ("version", "transformers") if key in one},
            "seconds": rounded(one["seconds"]),
            "rows": rounded(one["rows"]),
            "same_top_token": rounded(_same_top(one["scores"])),
            "log_odds": ends(bootstrap_interval(comparison.values("log_odds", name))),
            "comprehensiveness": ends(bootstrap_interval(comparison.values("comprehensiveness", name))),
        }
        for name, one in found.items()
    }


def _same_top(scores: Sequence[Sequence[Sequence[float]]]) -> float:
    """The share of texts whose highest score, without the first and last token, is the same for all seeds."""
    tops = [[int(np.argmax(values[1:-1])) for values in texts] for texts in scores]
    return float(np.mean([len(set(one)) == 1 for one in zip(*tops, strict=True)]))


def continuation(size: Size, python: str | None) -> dict[str, dict[str, Any]]:
    """Explain a continuation: the whole at once, each token, with Captum's class, and with inseq."""
    names = ("captum", "whole, straight line", "each token, straight line")
    found = {name: {"seconds": alone(explain_continuation, name, size)["seconds"]} for name in names}
    if python is None:
        return found
    model, tokenizer, prompt, written = make(size)
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        told = Path(folder, "tokenizer_config.json")
        # The name of this class before Transformers 5.
        told.write_text(told.read_text("utf-8").replace('"TokenizersBackend"', '"PreTrainedTokenizerFast"'), "utf-8")
        job = {
            "model": folder,
            "prompt": prompt,
            "continuation": written,
            "n_steps": size.n_steps,
            "rows_at_once": size.rows_at_once,
            "threads": torch.get_num_threads(),
        }
        inseq = _ask("_inseq.py", python, job)
    return found | {"inseq": {key: inseq[key] for key in ("version", "transformers", "seconds")}}


if __name__ == "__main__":
    main()
