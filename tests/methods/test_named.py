"""Explanations and comparisons ask the same questions: of paths, searches and methods of anybody's, by the same names."""

import re

import pytest
import torch

from captum_dig import (
    AnchorSearch,
    AttributionMethod,
    DiscretizedIntegratedGradients,
    Measure,
    PathGenerator,
    StaggeredPath,
    StraightLine,
    TextExplainer,
    compare,
)
from captum_dig.catalogue import CATALOGUE, Entry
from captum_dig.metrics import (
    infidelity,
    sensitivity,
    soft_comprehensiveness,
    soft_sufficiency,
    token_error,
    word_approximation_error,
)

TEXTS = ["a gorgeous, witty movie", "the acting was bad and the story is awful", "dull"]
PATHLESS = ("leave_one_out", "gradient_shap", "idgi", "deeplift", "input_x_gradient", "random")


@pytest.fixture(scope="module")
def explainer(classifier, tokenizer):
    return TextExplainer(classifier, tokenizer, n_anchors=3, n_neighbors=8, candidates="all", cache=False)


def compared(explainer, method, texts=TEXTS[:1], **options):
    options = {"n_steps": 8, "n_curve_texts": 0, "top_fractions": (0.2,), **options}
    return compare(explainer, texts, [method], **options).texts[0].measurements[0]


# ---------------------------------------------------------------------------------------- one set of names


@pytest.mark.parametrize("name", CATALOGUE.names("search", "path", "method"))
def test_a_name_gives_the_same_scores_in_both(explainer, name):
    entry = CATALOGUE.find(name, "search", "path", "method")
    for known_as in (name, *entry.aliases):
        found = compared(explainer, known_as)
        # The first text of a comparison draws from its seed itself.
        result = TextExplainer(
            explainer.classifier.model,
            explainer.encoder.tokenizer,
            n_anchors=3,
            n_neighbors=8,
            candidates="all",
            seed=0,
            cache=False,
        ).explain(TEXTS[0], strategy=known_as, n_steps=8)
        assert found.method == result.settings.strategy == known_as
        assert found.word_scores == pytest.approx(result.word_scores, abs=1e-5)
        assert found.n_gradients == result.settings.n_steps
        if "delta" in found.values:
            assert found.values["delta"][0] == pytest.approx(result.delta, abs=1e-5)


@pytest.mark.parametrize("name", ["straight_line", "greedy", "staggered", "gradient_shap", "deeplift", "leave_one_out"])
@pytest.mark.parametrize("baseline", ["pad", ("pad", "mask")])
def test_several_baselines_and_as_many_steps_as_it_takes_give_the_same_scores_in_both(explainer, name, baseline):
    found = compared(explainer, name, n_steps="auto", baselines=[baseline])
    result = explainer.explain(TEXTS[0], baseline=baseline, strategy=name)
    assert found.word_scores == pytest.approx(result.word_scores, abs=1e-5)
    assert found.n_gradients == result.settings.n_steps
    if "change" in found.values:
        assert found.values["change"][0] == pytest.approx(result.input_value - result.baseline_value, abs=1e-5)
        assert found.values["delta"][0] == pytest.approx(result.delta, abs=1e-5)


@pytest.mark.parametrize("name", PATHLESS)
def test_methods_without_a_path_say_that_there_was_none(explainer, name):
    settings = explainer.explain(TEXTS[0], strategy=name, n_steps=8).settings
    assert (settings.method, settings.spacing) == ("none", "none")
    assert (settings.n_anchors, settings.n_neighbors) == (0, 0)
    assert settings.n_steps == {"gradient_shap": 8, "idgi": 8, "deeplift": 1, "input_x_gradient": 1}.get(name, 0)
    assert settings.seed == (0 if name in ("gradient_shap", "random") else None)
    with pytest.raises(ValueError, match=f"strategy must have a path, got '{name}'; take for example 'straight_line'"):
        explainer.path(name)


def test_scores_that_need_not_add_up_are_not_told_off(explainer):
    for name in PATHLESS:
        result = explainer.explain(TEXTS[0], strategy=name, n_steps=8)
        assert "large" not in str(result)
        assert "n_steps above" not in result.to_html()
        assert ("to which these scores need not add up" in str(result).replace("\n", " ")) == (result.delta_percent > 5)
    far = explainer.explain(TEXTS[0], strategy="greedy", n_steps=1, method="gausslegendre")
    assert far.delta_percent > 5
    rough = explainer.explain(TEXTS[0], strategy="greedy", n_steps=1)
    assert rough.error_percent > 15
    remedies = {str(far): "large, so raise n_steps above 1", str(rough): "large; n_steps='auto' takes gradients until"}
    for shown, remedy in remedies.items():
        assert remedy in " ".join(shown.split())
        assert "need not add up" not in shown


@pytest.mark.parametrize("name", ["leave_one_out", "straight_line"])
def test_steps_that_grow_do_so_for_scores_that_add_up_alone(explainer, name):
    few = explainer.explain(TEXTS[0], strategy=name, tolerance_percent=1e-9, max_steps=200)
    assert few.settings.n_steps == {"leave_one_out": 0, "straight_line": 200}[name]


# ---------------------------------------------------------------------------------------- paths of anybody's


class Through(PathGenerator):
    """From every word by way of one word to the baseline."""

    def __init__(self, vocabulary, word):
        self.vocabulary, self.word = vocabulary, word

    def knots(self, inputs, baselines):
        there = self.vocabulary.rows[self.word].to(inputs).expand_as(inputs)
        still = (inputs == baselines).all(dim=-1, keepdim=True)
        return torch.stack([baselines, torch.where(still, inputs, there), inputs])

    def passed_words(self, ids, goal):
        return torch.full((len(ids), 1), self.word)

    def ways(self, inputs, baselines):
        return self(inputs, baselines)


@pytest.mark.parametrize("around", [lambda path: path, lambda path: StaggeredPath(path, n_orders=2)])
def test_a_path_that_says_which_words_it_passes_gets_anchors_and_measures_of_words(explainer, around):
    tokenizer, vocabulary = explainer.encoder.tokenizer, explainer.vocabulary
    path = around(Through(vocabulary, tokenizer.convert_tokens_to_ids("film")))
    result = explainer.explain(TEXTS[0], strategy=path, n_steps=8)
    assert result.anchors == ((), *[("film",)] * 5, ())
    named = explainer.method(path)
    found = compared(explainer, named)
    ids = torch.tensor(tokenizer(TEXTS[0]).input_ids[1:-1])
    rows = vocabulary.rows[ids]
    goals = vocabulary.rows[[tokenizer.pad_token_id]].expand_as(rows)
    errors = word_approximation_error(path.ways(rows, goals)[:, :, None], vocabulary)
    assert found.values["word_approximation_error"] == (pytest.approx(float(errors.mean()), abs=1e-6),)
    assert found.values["special_anchors"] == (0.0,)


def test_a_path_that_knows_no_words_has_neither(explainer):
    class Bend(PathGenerator):
        def knots(self, inputs, baselines):
            return torch.stack([baselines, (inputs + baselines) / 2, inputs])

    assert not any(explainer.explain(TEXTS[0], strategy=Bend(), n_steps=8).anchors)
    values = compared(explainer, explainer.method(Bend())).values
    assert not {"word_approximation_error", "special_anchors", "unused_anchors", "piece_anchors"} & set(values)
    assert "delta" in values


class Nearest(AnchorSearch):
    """A search with a helper that prints as its place in memory."""

    def __init__(self):
        self.helper = object()

    def cost(self, neighborhood):
        return (neighborhood.candidates - neighborhood.words[:, None]).norm(dim=-1)


class Scaled(AttributionMethod):
    """A method with such a helper, and numbers that a print abbreviates."""

    name = "scaled"

    def __init__(self, weights):
        self.helper, self.weights = object(), weights

    def scores(self, question, plan):
        return question.inputs.norm(dim=-1)


def test_nothing_of_ones_own_is_known_by_a_place_in_memory(explainer):
    settings = [explainer.explain(TEXTS[0], strategy=Nearest(), n_steps=4).settings for _ in range(2)]
    assert settings[0] == settings[1]
    assert re.match(r"Nearest\(helper=object\(\)\)", settings[0].strategy)
    weights = torch.zeros(5000)
    other = weights.clone()
    other[2500] = 1
    details = [
        compare(explainer, TEXTS[:1], [method], n_steps=4, n_curve_texts=0).settings.details[0]
        for method in (explainer.method(Nearest()), Scaled(weights), Scaled(weights.clone()), Scaled(other))
    ]
    assert not [one for one in details if re.search(r"0x[0-9a-f]{6}", one)]
    assert details[1] == details[2] != details[3]


def test_a_plug_in_s_row_may_hold_an_object(explainer, classifier, tokenizer):
    rows = [
        Entry("still", "path", "still", StraightLine()),
        Entry("near", "search", "near", Nearest()),
        Entry("mine", "method", "mine", Scaled(torch.ones(1))),
    ]
    own = TextExplainer(
        classifier, tokenizer, n_anchors=3, n_neighbors=8, cache=False, catalogue=CATALOGUE.plus(rows), candidates="all"
    )
    result = own.explain(TEXTS[0], strategy="still", n_steps=8)
    assert result.settings.strategy == "still"
    assert result.token_scores == explainer.explain(TEXTS[0], strategy="straight_line", n_steps=8).token_scores
    assert own.explain(TEXTS[0], strategy="near", n_steps=8).settings.strategy == "near"
    assert own.explain(TEXTS[0], strategy="mine", n_steps=8).settings.method == "none"
    comparison = compare(own, TEXTS[:1], ["still", "near", "mine"], n_steps=4, n_curve_texts=0)
    assert "still" in str(comparison)


# ---------------------------------------------------------------------------------------- measures


@pytest.fixture
def by_hand(classifier, tokenizer):
    """Embeddings of the first text, its baselines, the label explained, and the functions that metrics take."""
    row = tokenizer(TEXTS[0], return_tensors="pt", return_special_tokens_mask=True)
    table = classifier.get_input_embeddings()
    fixed = row.special_tokens_mask.bool()
    with torch.no_grad():
        inputs = table(row.input_ids)
        baselines = torch.where(fixed[..., None], inputs, table(torch.tensor(tokenizer.pad_token_id)))
        target = classifier(inputs_embeds=inputs, attention_mask=row.attention_mask).logits.argmax(dim=1)

    def logits(rows, mask):
        return classifier(inputs_embeds=rows, attention_mask=mask).logits

    def odds(rows):
        # Of two labels, the log-odds are the difference of their logits.
        both = logits(rows, row.attention_mask.expand(len(rows), -1))
        return both - both.flip(1)

    def explain(rows, n_steps=8):
        found = DiscretizedIntegratedGradients(lambda rows: odds(rows)[:, target[0]], StraightLine())
        return found.attribute(rows, baselines, n_steps=n_steps, method="known_sums")

    return inputs, row.attention_mask, fixed, target, baselines, logits, odds, explain


MEASURES = ("soft_comprehensiveness", "soft_sufficiency", "infidelity", "sensitivity", "token_error")


def test_measures_are_the_functions_called_by_hand(explainer, by_hand):
    inputs, mask, fixed, target, baselines, logits, odds, explain = by_hand
    found = compared(explainer, "integrated_gradients", measures=MEASURES).values
    scores = explain(inputs).sum(dim=-1)
    expected = {
        "soft_comprehensiveness": soft_comprehensiveness(logits, inputs, mask, scores, fixed, target),
        "soft_sufficiency": soft_sufficiency(logits, inputs, mask, scores, fixed, target),
        "infidelity": infidelity(odds, inputs, explain(inputs), fixed, target, baselines),
        "sensitivity": sensitivity(lambda rows: explain(rows).sum(dim=-1, keepdim=True), inputs, fixed),
        "token_error": token_error(scores, explain(inputs, 16 * 8).sum(dim=-1)),
    }
    assert set(found) == set(expected)
    for name, value in expected.items():
        assert found[name] == (pytest.approx(float(value), rel=1e-3, abs=1e-5),), name


def test_a_measure_that_a_method_has_not_is_left_out(explainer):
    found = compared(explainer, "leave_one_out", measures=MEASURES).values
    assert set(found) == {"soft_comprehensiveness", "soft_sufficiency", "sensitivity"}


def test_measures_are_those_asked_for_and_once_for_each_protocol(explainer):
    class Largest(Measure):
        name = title = column = "largest"

        def values(self, trials):
            return [(float(trial.scores.max()),) for trial in trials.trials]

    comparison = compare(
        explainer,
        TEXTS[:2],
        ["random"],
        measures=["sufficiency", Largest()],
        protocols=["default", "paper"],
        n_curve_texts=0,
    )
    assert comparison.metrics == ("sufficiency", "paper_sufficiency", "largest")
    again = type(comparison).from_dict(comparison.to_dict())
    assert again.metrics == comparison.metrics
    assert again.values("largest", "random").tolist() == [max(t.measurements[0].word_scores) for t in again.texts]


@pytest.mark.parametrize(
    ("measures", "message"),
    [
        (["los_odds"], "measures must be one of 'log_odds', .*, got 'los_odds'; or pass a Measure"),
        (["delta", "delta"], "measures must have names of their own, got 'delta' more than once"),
        ("delta", "measures must be a sequence of names or Measures, got 'delta'"),
    ],
)
def test_wrong_measures_are_named(explainer, measures, message):
    with pytest.raises(ValueError, match=message):
        compare(explainer, TEXTS, measures=measures)


@pytest.mark.parametrize(
    ("baselines", "message"),
    [
        ([()], r"baselines must be a sequence of at least one token, got \[\(\)\]"),
        ([("pad", 3)], r"baselines must be a sequence of at least one token, got \[\('pad', 3\)\]"),
        ([("pad", "mask")] * 2, "baselines must be different, got .*; name each once"),
    ],
)
def test_wrong_groups_of_baselines_are_named(explainer, baselines, message):
    with pytest.raises(ValueError, match=message):
        compare(explainer, TEXTS, baselines=baselines)
