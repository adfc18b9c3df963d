"""What tells one comparison from another: tokenizers, baselines, the code of methods; and methods that explain."""

import importlib.util
import json
import linecache
import sys
import threading
from dataclasses import replace

import pytest
import torch

from captum_dig import TextExplainer
from captum_dig.catalogue import CATALOGUE
from captum_dig.comparison import Comparison
from captum_dig.comparison.comparing import compare
from captum_dig.methods import AttributionMethod, PathMethod
from captum_dig.methods.identity import identity
from captum_dig.models.encoding import TextEncoder
from captum_dig.paths import PathGenerator, StraightLine
from tests.comparison.test_results import made_up
from tests.tiny_models import tiny_classifier, tiny_tokenizer

QUICK = {"n_steps": 4, "top_fractions": (0.2,), "n_curve_texts": 0}
TEXTS = ["a gorgeous, witty movie", "dull and long"]


@pytest.fixture(scope="module")
def explainer(classifier, tokenizer):
    return TextExplainer(classifier, tokenizer, n_anchors=3, n_neighbors=8, candidates="all")


# ---------------------------------------------------------------------------------------- tokenizers


@pytest.mark.parametrize(
    "call",
    [
        {"padding": True},
        {"padding": "max_length", "max_length": 9},
        {"truncation": True, "max_length": 5},
        {"truncation": True, "max_length": 5, "stride": 1, "return_overflowing_tokens": True},
        {"add_special_tokens": False},
    ],
)
def test_what_a_call_leaves_in_the_tokenizer_is_not_its_fingerprint(call):
    tokenizer = tiny_tokenizer()
    before = TextEncoder(tokenizer, 32).fingerprint
    tokenizer(["movie " * 20, "a"], **call)
    assert TextEncoder(tokenizer, 32).fingerprint == before
    encoder = TextEncoder(tokenizer, 32)
    encoder.encode("movie " * 90, "windows")
    assert encoder.fingerprint == before


@pytest.mark.parametrize("role", ["pad", "mask", "unk", "cls", "sep", "bos", "eos"])
@pytest.mark.parametrize("token", ["good", "[MASK]", "[SEP]"])
def test_which_tokens_have_a_role_is_in_the_fingerprint(role, token):
    plain, changed = tiny_tokenizer(), tiny_tokenizer()
    setattr(changed, f"{role}_token", token)
    same = getattr(plain, f"{role}_token") == token
    assert (TextEncoder(plain, 32).fingerprint == TextEncoder(changed, 32).fingerprint) == same


def test_what_the_tokenizer_gives_the_model_is_in_the_fingerprint():
    encoders = [TextEncoder(tiny_tokenizer(), limit) for limit in (32, 31, None)]
    encoders.append(TextEncoder(tiny_tokenizer(), 32))
    encoders[-1].tokenizer.model_input_names = ["input_ids", "attention_mask", "token_type_ids"]
    encoders.append(TextEncoder(tiny_tokenizer(), 32))
    encoders[-1].tokenizer.add_tokens(["zorgle"])
    assert len({encoder.fingerprint for encoder in encoders}) == len(encoders)


@pytest.mark.filterwarnings("ignore:text 1 is longer than the model reads")
def test_a_second_call_finds_what_the_first_has_kept(explainer, tmp_path):
    texts = ["good " * 60, "dull"]
    first = compare(explainer, texts, ["random"], journal=tmp_path / "journal", **QUICK)
    explainer.encoder.tokenizer(texts, padding=True, truncation=True, max_length=7)
    assert compare(explainer, texts, ["random"], journal=tmp_path / "journal", **QUICK) == first


def test_a_role_that_another_token_gets_is_another_comparison(tmp_path):
    model = tiny_classifier(len(tiny_tokenizer()))
    found = []
    for token in ("[PAD]", "[MASK]"):
        tokenizer = tiny_tokenizer()
        tokenizer.pad_token = token
        explainer = TextExplainer(model, tokenizer, n_anchors=3, n_neighbors=8)
        found.append(compare(explainer, TEXTS[:1], ["integrated_gradients"], **QUICK))
    first, second = (comparison.settings for comparison in found)
    assert first.fingerprint != second.fingerprint
    assert first.baseline_ids == (explainer.encoder.token_id("x", "[PAD]", 99),)
    assert second.baseline_ids == (explainer.encoder.token_id("x", "[MASK]", 99),)
    assert found[0].texts[0].measurements[0].word_scores != found[1].texts[0].measurements[0].word_scores


def test_files_from_before_baselines_had_ids_still_read():
    data = json.loads(json.dumps(made_up(2).to_dict()))
    del data["settings"]["baseline_ids"]
    read = Comparison.from_dict(data)
    assert read.settings.baseline_ids == ()
    with pytest.raises(TypeError, match=r"settings.baseline_ids\[0\] must be an integer, got 'pad'"):
        replace(read.settings, baseline_ids=("pad",))


# ---------------------------------------------------------------------------------------- methods

CODE = """
from captum_dig.methods import AttributionMethod
from captum_dig.paths import StraightLine

class Base(AttributionMethod):
    factor = 1

class Mine(Base):
    name = "mine"

    def scores(self, question, plan):
        return self.factor * question.inputs.norm(dim=-1)

class MyPath(StraightLine):
    pass
"""


@pytest.fixture
def load(tmp_path, monkeypatch):
    """Load the module again with other code, as another process would."""

    def loaded(code):
        (tmp_path / "mine.py").write_text(code)
        linecache.clearcache()
        spec = importlib.util.spec_from_file_location("mine", tmp_path / "mine.py")
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setattr(sys, "dont_write_bytecode", True)
        monkeypatch.setitem(sys.modules, "mine", module)
        spec.loader.exec_module(module)
        return module, identity(module.Mine()), identity(PathMethod("path", module.MyPath()))

    return loaded


def test_the_code_of_a_method_its_bases_and_its_path_is_in_its_identity(load):
    _, method, path = load(CODE)
    assert load(CODE)[1:] == (method, path)
    assert load(CODE.replace("norm(dim=-1)", "sum(dim=-1)"))[1] != method
    assert load(CODE.replace("factor = 1", "factor = 2"))[1] != method
    changed = load(CODE.replace("    pass", "    n_paths = 2"))
    assert changed[1] == method
    assert changed[2] != path


def test_an_attribute_that_was_set_later_is_in_its_identity(load):
    module, method, _ = load(CODE)
    module.Base.factor = 3
    assert identity(module.Mine()) != method


def test_a_class_without_source_counts_by_its_code():
    told = []
    for code in (CODE, CODE, CODE.replace("norm", "sum"), CODE.replace("factor = 1", "factor = 2")):
        space = {}
        exec(code, space)
        told.append(identity(space["Mine"]()))
    assert told[0].startswith("Mine() #")
    assert told[0] == told[1]
    assert len(set(told)) == 3


def test_methods_of_the_package_are_known_by_its_version(explainer):
    for name in CATALOGUE.names("method"):
        method = explainer.method(name)
        assert identity(method) == repr(method)
    for strategy in ("greedy", "maxcount", "staggered"):
        method = PathMethod("name", explainer.path(strategy))
        assert identity(method) == repr(method)


def test_a_path_inside_a_path_counts():
    class Mine(PathGenerator):
        def knots(self, inputs, baselines):
            return torch.stack([baselines, inputs])

    from captum_dig.paths import StaggeredPath

    assert "#" in identity(PathMethod("a", StaggeredPath(Mine(), n_orders=2)))
    assert "#" not in identity(PathMethod("a", StaggeredPath(StraightLine(), n_orders=2)))


def test_a_method_whose_code_changed_has_another_journal(explainer, load, tmp_path):
    first = load(CODE)[0].Mine()
    compare(explainer, TEXTS, [first], journal=tmp_path / "journal", **QUICK)
    second = load(CODE.replace("norm", "sum"))[0].Mine()
    with pytest.raises(ValueError, match="which is another"):
        compare(explainer, TEXTS, [second], journal=tmp_path / "journal", **QUICK)


# ---------------------------------------------------------------------------------------- methods that explain


class Explaining(AttributionMethod):
    """Scores of the explainer itself."""

    name = "explaining"

    def __init__(self, explainer):
        self._explainer = explainer

    def __repr__(self):
        return "Explaining()"

    def scores(self, question, plan):
        found = self._explainer.explain(TEXTS[0], strategy="straight_line", n_steps=plan.n_steps)
        return torch.tensor([found.token_scores])


class Hooking(Explaining):
    """The norm of what the embedding layer answers, as a hook of its own sees it."""

    name = "hooking"

    def scores(self, question, plan):
        seen = []
        layer = self._explainer.classifier.layer
        handle = layer.register_forward_hook(lambda _module, _inputs, output: seen.append(output.detach()))
        try:
            self._explainer.explain(TEXTS[0], strategy="straight_line", n_steps=2)
        finally:
            handle.remove()
        assert seen
        return question.inputs.norm(dim=-1)


class Evaluating(Explaining):
    """Integrated gradients with the model's lock taken once more."""

    name = "evaluating"

    def scores(self, question, plan):
        classifier = self._explainer.classifier
        with classifier.evaluating():
            assert not classifier.model.training
            with classifier.evaluating():
                pass
            assert not classifier.model.training
            return self._explainer.method("integrated_gradients").scores(question, plan)


def test_methods_that_explain_hook_or_lock_are_compared(tokenizer):
    model = tiny_classifier(len(tokenizer)).train()
    explainer = TextExplainer(model, tokenizer, n_anchors=3, n_neighbors=8)
    methods = ["integrated_gradients", *(kind(explainer) for kind in (Explaining, Hooking, Evaluating))]
    found = []
    # A lock that is taken twice would keep the thread for ever.
    thread = threading.Thread(target=lambda: found.append(compare(explainer, TEXTS[:1], methods, **QUICK)), daemon=True)
    thread.start()
    thread.join(timeout=60)
    assert not thread.is_alive(), "the comparison hangs"
    (comparison,) = found
    ours, theirs, _, same = (one.word_scores for one in comparison.texts[0].measurements)
    assert theirs == pytest.approx(ours, abs=1e-5)
    assert same == ours
    assert all(module.training for module in model.modules())


def test_weights_are_hashed_once_for_a_comparison(explainer, monkeypatch, tmp_path):
    kind = type(explainer.classifier)
    really, asked = kind.fingerprint.fget, []
    monkeypatch.setattr(kind, "fingerprint", property(lambda self: (asked.append(1), really(self))[1]))
    compare(explainer, TEXTS[:1], ["random"], journal=tmp_path / "journal", **QUICK)
    assert len(asked) == 1
