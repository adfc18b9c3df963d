"""Threads: what one thread explains changes nothing in what another computes."""

import contextlib
import copy
import os
import threading

import pytest
import torch
from captum.attr import LayerIntegratedGradients
from torch import nn

from captum_dig import (
    LayerDiscretizedIntegratedGradients,
    NeuronDiscretizedIntegratedGradients,
    StraightLine,
    TextExplainer,
    compare,
    convergence_report,
)
from captum_dig.methods import AttributionMethod
from captum_dig.threads import Lock, ThreadLayer, eager, evaluating, own
from tests.tiny_models import tiny_classifier

TEXT = "a witty film, gorgeous acting."
# Equal, of equal length, longer, shorter.
OTHERS = [TEXT, "a dull plot, terrible music.", "this movie is never slow, and always rather charming.", "bad!"]
TIMEOUT = 60


@pytest.fixture
def model(tokenizer):
    return tiny_classifier(len(tokenizer))


@pytest.fixture
def explainer(model, tokenizer):
    return TextExplainer(model, tokenizer, candidates="all", n_anchors=3, n_neighbors=9, strategy="greedy")


def encode(tokenizer, text):
    return tokenizer([text], return_tensors="pt")


def logits_of(model):
    return lambda ids, mask: model(ids, attention_mask=mask).logits


def layer_method(model, kind=LayerDiscretizedIntegratedGradients):
    path = [StraightLine()] if kind is LayerDiscretizedIntegratedGradients else []
    return kind(logits_of(model), model.get_input_embeddings(), *path)


def call(method, tokenizer, text):
    encoded = encode(tokenizer, text)
    ids, mask = encoded["input_ids"], encoded["attention_mask"]
    return method(ids, torch.zeros_like(ids), target=1, additional_forward_args=mask, n_steps=6)


def ways_to_explain(model, tokenizer):
    """What runs the model with hooks in it, as functions of a text."""
    explainer = TextExplainer(model, tokenizer, strategy="straight_line")
    dig = layer_method(model)
    captums = layer_method(model, LayerIntegratedGradients)
    return {
        "explainer": lambda text: explainer.explain(text, n_steps=6).token_scores,
        "layer": lambda text: call(dig.attribute, tokenizer, text).tolist(),
        "report": lambda text: call(lambda *a, **k: convergence_report(dig, *a, **k), tokenizer, text),
        "report on Captum's": lambda text: call(lambda *a, **k: convergence_report(captums, *a, **k), tokenizer, text),
    }


def in_threads(*functions):
    """Run functions at the same time, each in a thread; their results."""
    barrier, results, errors = threading.Barrier(len(functions)), [None] * len(functions), []

    def work(number, function):
        try:
            barrier.wait(TIMEOUT)
            results[number] = function()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=pair, daemon=True) for pair in enumerate(functions)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(TIMEOUT)
    assert not any(thread.is_alive() for thread in threads)
    if errors:
        raise errors[0]
    return results


@contextlib.contextmanager
def stopped_inside(model, between):
    """Let another function run in the middle of each forward pass of this thread, while its hooks are in place."""
    thread, inside = threading.get_ident(), []

    def stop(_module, _arguments):
        if threading.get_ident() == thread and not inside:
            inside.append(True)
            in_threads(between)
            inside.clear()

    handle = model.register_forward_pre_hook(stop)
    try:
        yield
    finally:
        handle.remove()


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("way", ["explainer", "layer", "report", "report on Captum's"])
def test_a_thread_that_predicts_gets_its_own_predictions(model, tokenizer, way, other):
    explain, encoded = ways_to_explain(model, tokenizer)[way], encode(tokenizer, other)
    with torch.no_grad():
        expected = model(**encoded).logits
    scores, got = explain(TEXT), []

    def predict():
        with torch.no_grad():
            got.append(model(**encoded).logits)

    # In every forward pass, also those on the way, another thread predicts.
    with stopped_inside(model, predict):
        assert explain(TEXT) == scores
    assert len(got) >= 3
    assert all(torch.equal(one, expected) for one in got)


@pytest.mark.parametrize("way", ["explainer", "layer", "report", "report on Captum's"])
def test_four_threads_explain_as_one_after_the_other(model, tokenizer, way):
    explain = ways_to_explain(model, tokenizer)[way]
    expected = [explain(text) for text in OTHERS]
    for _ in range(3):
        assert in_threads(*[lambda text=text: explain(text) for text in OTHERS]) == expected


def test_every_way_runs_beside_every_other(model, tokenizer):
    ways = ways_to_explain(model, tokenizer)
    expected = [way(text) for way, text in zip(ways.values(), OTHERS, strict=True)]
    for _ in range(3):
        runs = [lambda way=way, text=text: way(text) for way, text in zip(ways.values(), OTHERS, strict=True)]
        assert in_threads(*runs) == expected
    assert not model.get_input_embeddings()._forward_hooks


def test_the_layer_class_goes_ahead_in_the_middle_of_another_call(model, tokenizer):
    dig = layer_method(model)
    expected = [call(dig.attribute, tokenizer, text) for text in OTHERS[:2]]
    got = []
    with stopped_inside(model, lambda: got.append(call(dig.attribute, tokenizer, OTHERS[1]))):
        assert torch.equal(call(dig.attribute, tokenizer, OTHERS[0]), expected[0])
    assert got
    assert all(torch.equal(one, expected[1]) for one in got)


def test_the_neuron_class_beside_other_runs_of_its_layer():
    layer = nn.Linear(3, 2)
    model = nn.Sequential(layer, nn.ReLU())
    dig = NeuronDiscretizedIntegratedGradients(model, layer, StraightLine())
    inputs = torch.tensor([[1.0, 2.0, 3.0]])
    expected = dig.attribute(inputs, 1, n_steps=4)
    with stopped_inside(model, lambda: model(torch.ones(7, 3))):
        assert torch.equal(dig.attribute(inputs, 1, n_steps=4), expected)


@pytest.mark.parametrize("share", [lambda model: model, copy.copy], ids=["one model", "a shallow copy"])
def test_explainers_whose_models_share_modules_wait_for_each_other(model, tokenizer, share):
    explainers = [TextExplainer(one, tokenizer, strategy="straight_line") for one in (model, share(model))]
    model.train()
    expected = [explainer.explain(OTHERS, n_steps=4) for explainer in explainers]
    inside, waited = threading.Event(), threading.Event()

    def first():
        with explainers[0].classifier.evaluating():
            inside.set()
            # The other one has begun, and stands in front of the model.
            waited.wait(TIMEOUT)
            assert not done
        return explainers[0].explain(OTHERS, n_steps=4)

    done = []

    def second():
        inside.wait(TIMEOUT)
        threading.Timer(0.05, waited.set).start()
        done.append(explainers[1].explain(OTHERS, n_steps=4))
        return done[0]

    assert in_threads(first, second) == expected
    assert all(module.training for module in model.modules())


def test_explainers_of_models_that_share_nothing_do_not_wait(model, tokenizer):
    other = TextExplainer(tiny_classifier(len(tokenizer)), tokenizer, strategy="straight_line")
    with evaluating(model):
        (result,) = in_threads(lambda: other.explain(TEXT, n_steps=4))
    assert result.tokens


def test_an_explanation_inside_another_one_goes_ahead(explainer, model):
    class Asking(AttributionMethod):
        name = "asking"

        def scores(self, question, plan):
            scores = explainer.explain(TEXT, n_steps=4).token_scores
            return torch.tensor([scores])

    model.train()
    (result,) = in_threads(lambda: compare(explainer, [TEXT], [Asking()], n_steps=4, n_curve_texts=0))
    assert result.values("log_odds", "asking").shape == (1,)
    assert all(module.training for module in model.modules())


@pytest.mark.parametrize("way", ["explainer", "layer", "report"])
def test_an_explanation_inside_the_forward_pass_of_another_one_goes_ahead(model, tokenizer, way):
    ways = ways_to_explain(model, tokenizer)
    expected = {name: explain(text) for (name, explain), text in zip(ways.items(), OTHERS, strict=True)}
    got, busy = [], []

    def explain_too(_module, _arguments):
        if not busy:
            busy.append(True)
            got.append({name: explain(text) for (name, explain), text in zip(ways.items(), OTHERS, strict=True)})
            busy.clear()

    text = dict(zip(ways, OTHERS, strict=True))[way]
    with contextlib.ExitStack() as hooks:
        hooks.callback(model.register_forward_pre_hook(explain_too).remove)
        assert ways[way](text) == expected[way]
    assert got
    assert all(one == expected for one in got)


def test_modes_are_put_back_when_the_switch_is_interrupted(model):
    class Interrupted(nn.Dropout):
        def train(self, mode=True):
            super().train(mode)
            if not mode and armed:
                raise KeyboardInterrupt
            return self

    armed = []
    model.add_module("late", Interrupted())
    model.train()
    armed.append(True)
    with pytest.raises(KeyboardInterrupt), evaluating(model):
        pass
    armed.clear()
    assert all(module.training for module in model.modules())
    # And nobody waits.
    in_threads(lambda: evaluating(model).__enter__())


def test_a_hook_answers_its_own_thread_and_no_later_one_with_its_number():
    layer, hooks = nn.Identity(), []
    in_threads(lambda: hooks.append(layer.register_forward_hook(own(lambda *_: torch.zeros(1)))))
    # Threads that end give their numbers to others.
    assert in_threads(lambda: layer(torch.ones(1))) == [torch.ones(1)]
    assert layer(torch.ones(1)) == 1


def test_hooks_of_data_parallel_replicas_answer_every_thread():
    layer = nn.Identity()
    handle = ThreadLayer(layer, every_thread=True).register_forward_hook(lambda *_: torch.zeros(1))
    assert in_threads(lambda: layer(torch.ones(1))) == [torch.zeros(1)]
    handle.remove()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded")
def test_a_child_that_is_forked_in_the_middle_explains(explainer, model):
    model.train()
    expected = explainer.explain(TEXT, n_steps=4)
    inside, leave, lock = threading.Event(), threading.Event(), explainer.path("greedy")._lock

    def hold():
        with evaluating(model), eager(), lock:
            inside.set()
            leave.wait(TIMEOUT)

    thread = threading.Thread(target=hold)
    thread.start()
    inside.wait(TIMEOUT)
    child = os.fork()
    if not child:
        # Whatever happens, the child must not go on with the tests.
        status = 1
        try:
            restored = all(module.training for module in model.modules())
            status = 0 if restored and explainer.explain(TEXT, n_steps=4) == expected else 2
        finally:
            os._exit(status)
    waiter = threading.Timer(TIMEOUT, os.kill, (child, 9))
    waiter.start()
    _, status = os.waitpid(child, 0)
    waiter.cancel()
    leave.set()
    thread.join()
    assert os.waitstatus_to_exitcode(status) == 0


def test_copies_of_a_lock_are_free():
    lock = Lock()
    with lock:
        in_threads(copy.deepcopy(lock).__enter__)
    lock.forget_other_threads()
    with lock:
        pass


# What compiled code does -----------------------------------------------------------------------


def compiled_model(model):
    return torch.compile(model, backend="eager")


def compiled_in_place(model):
    model.compile(backend="eager")
    return model


def compiled_forward(model):
    model.forward = torch.compile(model.forward, backend="eager")
    return model


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("compiled", [compiled_model, compiled_in_place, compiled_forward])
def test_a_compiled_model_that_has_been_used_is_explained_as_the_plain_one(model, tokenizer, compiled):
    expected = {name: explain(TEXT) for name, explain in ways_to_explain(model, tokenizer).items()}
    fast = compiled(copy.deepcopy(model))
    encoded = encode(tokenizer, TEXT)
    with torch.no_grad():
        before = fast(**encoded).logits
    assert {name: explain(TEXT) for name, explain in ways_to_explain(fast, tokenizer).items()} == expected
    with torch.no_grad():
        assert torch.equal(fast(**encoded).logits, before)
    assert torch._dynamo.eval_frame._stance.stance == "default"
