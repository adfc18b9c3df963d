"""Methods side by side: the same scores as one by one, known answers, and nothing lost when a run is cut off."""

import io
import json
import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from captum.attr import IntegratedGradients, LayerIntegratedGradients
from rich.console import Console
from torch import nn

from captum_dig import ModelError, TextExplainer
from captum_dig.catalogue import CATALOGUE
from captum_dig.comparison import Comparison, terminal_tables
from captum_dig.comparison.comparing import compare
from captum_dig.methods import AttributionMethod, PathMethod, Plan
from captum_dig.metrics import TokenBatch, comprehensiveness, kendall_tau, log_odds, sufficiency
from captum_dig.models.question import Question
from captum_dig.paths import StaggeredPath, StraightLine
from tests.tiny_models import tiny_classifier, tiny_tokenizer

TEXTS = ["a gorgeous, witty movie", "the acting was bad and the story is awful", "dull", "not good, but not so bad"]
METHODS = {name: CATALOGUE.find(name, "method").load()() for name in CATALOGUE.names("method")}
METHODS["integrated_gradients"] = PathMethod("integrated_gradients", StraightLine())
QUICK = {"n_steps": 6, "top_fractions": (0.2, 0.5), "n_curve_texts": 1, "curve_steps": (4, 8)}


@pytest.fixture(scope="module")
def explainer(classifier, tokenizer):
    return TextExplainer(classifier, tokenizer, n_anchors=3, n_neighbors=8, candidates="all")


@pytest.fixture(scope="module")
def comparison(explainer):
    return compare(explainer, TEXTS, baselines=["pad", "mask"], protocols=["default", "paper"], **QUICK)


class Linear(nn.Module):
    """The sum of all embeddings weighted by dimension, or its opposite at place 1; a second column scales it."""

    def forward(self, embeddings, places, scale):
        total = (embeddings * torch.arange(1.0, embeddings.shape[-1] + 1)).sum(dim=(1, 2)) * scale[:, 0]
        return torch.where(places[:, 0] == 1, -total, total)


class Curved(Linear):
    """The same, bent."""

    def forward(self, embeddings, places, scale):
        return torch.sin(super().forward(embeddings / 20, places, scale))


@pytest.fixture
def question():
    inputs, baselines = torch.randn(3, 5, 4), torch.randn(3, 5, 4)
    fixed = torch.zeros(3, 5, dtype=torch.bool)
    fixed[:, 0] = True
    fixed[1, 3:] = True
    baselines = torch.where(fixed[..., None], inputs, baselines)
    places, scales = torch.tensor([[0], [1], [0]]), torch.tensor([[1.0], [2.0], [3.0]])
    return Question(Linear(), inputs, baselines, places, (scales,), fixed, lengths=torch.tensor([5, 3, 5]))


def exact(question):
    weights = torch.arange(1.0, 5.0)
    signs = torch.tensor([1.0, -2.0, 3.0])
    return ((question.inputs - question.baselines) * weights).sum(dim=-1) * signs[:, None]


@pytest.mark.parametrize("name", ["integrated_gradients", "gradient_shap", "deeplift", "leave_one_out"])
def test_methods_with_a_baseline_are_exact_on_a_linear_model(name, question):
    assert torch.allclose(METHODS[name](question, Plan(n_steps=7)), exact(question), atol=1e-4)


def test_input_x_gradient_is_exact_on_a_linear_model_but_for_the_baseline(question):
    expected = (
        (question.inputs * torch.arange(1.0, 5.0)).sum(dim=-1) * torch.tensor([1.0, -2.0, 3.0])[:, None]
    ).clone()
    expected[question.fixed] = 0
    assert torch.allclose(METHODS["input_x_gradient"](question, Plan()), expected, atol=1e-4)


@pytest.mark.parametrize("name", METHODS)
def test_a_method_scores_no_fixed_token_and_repeats_itself(name, question):
    first, second = (METHODS[name](question, Plan(n_steps=3, seed=5)) for _ in range(2))
    assert (first[question.fixed] == 0).all()
    assert torch.equal(first, second)


@pytest.mark.parametrize("name", METHODS)
def test_a_batch_is_its_rows(name, question):
    whole = METHODS[name](question, Plan(n_steps=4))
    for i in range(3):
        alone = METHODS[name](question.take(torch.tensor([i])), Plan(n_steps=4))
        assert torch.allclose(alone, whole[i : i + 1], atol=1e-5)


def test_leave_one_out_is_the_integral_of_a_path_that_moves_one_token(classifier, tokenizer):
    explainer = TextExplainer(classifier, tokenizer, output="logit", n_anchors=3, n_neighbors=8)
    result = compare(explainer, TEXTS[:1], ["leave_one_out"], n_steps=4, n_curve_texts=0)
    ids = tokenizer(TEXTS[0], return_tensors="pt").input_ids
    lig = LayerIntegratedGradients(lambda x: classifier(x).logits, classifier.get_input_embeddings())
    target = result.texts[0].target
    for place, score in enumerate(result.texts[0].find("leave_one_out", "pad").word_scores, start=1):
        without = ids.clone()
        without[0, place] = tokenizer.pad_token_id
        assert lig.attribute(ids, without, target=target, n_steps=200).sum().item() == pytest.approx(
            score, rel=0.01, abs=2e-3
        )


def test_scores_are_those_of_the_explainer(explainer, comparison):
    for name, strategy in (
        ("integrated_gradients", "straight_line"),
        ("dig_greedy", "greedy"),
        ("dig_maxcount", "maxcount"),
    ):
        for baseline in ("pad", "mask"):
            expected = explainer.explain(TEXTS, baseline=baseline, strategy=strategy, n_steps=6)
            for text, result in zip(comparison.texts, expected, strict=True):
                found = text.find(name, baseline)
                assert found.word_scores == pytest.approx(result.word_scores, abs=1e-5)
                assert found.values["delta"][0] == pytest.approx(result.delta, abs=1e-5)
                assert found.values["delta_percent"][0] == pytest.approx(result.delta_percent, rel=1e-3, abs=1e-3)
                assert (text.target, text.label) == (result.target, result.target_label)


def test_estimated_errors_are_those_of_the_explainer(explainer, comparison):
    assert comparison.settings.method == "known_sums"
    for baseline in ("pad", "mask"):
        results = explainer.explain(TEXTS, baseline=baseline, strategy="greedy", n_steps=6)
        estimates = comparison.values("error_percent", "dig_greedy", baseline)
        assert estimates.tolist() == pytest.approx([result.error_percent for result in results], rel=1e-4)
        assert comparison.values("delta", "dig_greedy", baseline).tolist() == pytest.approx([0] * len(TEXTS), abs=1e-5)
        # GradientShap draws points of its own, and makes no estimate.
        assert np.isnan(comparison.values("error_percent", "gradient_shap", baseline)).all()
    row = next(row for row in comparison.summary() if row.method == "dig_greedy")
    assert row.medians["error_percent"] == np.median(comparison.values("error_percent", "dig_greedy", "pad"))


def test_the_table_of_all_default_methods_fits_eighty_columns(comparison):
    screen = Console(file=io.StringIO(), width=80, color_system=None)
    for part in terminal_tables(comparison):
        screen.print(part)
    shown = screen.file.getvalue()
    assert "…" not in shown
    assert max(map(len, shown.splitlines())) <= 80
    head = next(line for line in shown.splitlines() if line.startswith("method"))
    assert head.split() == ["method", "log-odds↓", "comp.↑", "suff.↓", "tau↑", "Δ", "%↓", "err", "%↓", "WAE↓", "n", "s"]


def test_a_rule_without_an_estimate_has_deltas(explainer):
    rows = {"one": compare(explainer, TEXTS, ["dig_greedy"], method="gausslegendre", **QUICK)}
    rows["auto"] = compare(
        explainer, TEXTS, ["dig_greedy"], method="gausslegendre", **QUICK | {"n_steps": "auto", "n_curve_texts": 0}
    )
    assert "error_percent" not in rows["one"].measures
    expected = explainer.explain(TEXTS, strategy="greedy", n_steps=6, method="gausslegendre")
    found = rows["one"].values("delta_percent", "dig_greedy")
    assert found.tolist() == pytest.approx([result.delta_percent for result in expected], rel=1e-3, abs=1e-3)
    assert max(found) > 1
    # The tolerance is that of a delta.
    assert max(rows["auto"].values("delta_percent", "dig_greedy")) <= 5


@pytest.mark.parametrize(("rule", "number"), [("known_sums", "error_percent"), ("gausslegendre", "delta_percent")])
def test_the_curve_shows_how_errors_fall(explainer, rule, number):
    result = compare(explainer, TEXTS[:2], ["dig_greedy", "gradient_shap"], method=rule, **QUICK)
    expected = [getattr(explainer.explain(TEXTS[0], strategy="greedy", n_steps=n, method=rule), number) for n in (4, 8)]
    assert result.texts[0].find("dig_greedy", "pad").curve == pytest.approx(expected, rel=1e-3)
    assert result.texts[0].find("gradient_shap", "pad").curve == ()
    assert result.texts[1].find("dig_greedy", "pad").curve == ()


def test_faithfulness_is_that_of_the_metrics(comparison, classifier, tokenizer):
    for text in comparison.texts:
        row = tokenizer(text.text, return_tensors="pt", return_special_tokens_mask=True)
        batch = TokenBatch(row.input_ids, row.attention_mask, row.special_tokens_mask, pad_id=tokenizer.pad_token_id)

        def forward(ids, mask):
            return classifier(input_ids=ids, attention_mask=mask).logits

        for measurement in text.measurements:
            # Every word of these texts is one token.
            scores = torch.tensor([[0.0, *measurement.word_scores, 0.0]])
            if scores.shape != row.input_ids.shape:
                continue
            for metric in (log_odds, comprehensiveness, sufficiency):
                for protocol, name in (("default", metric.__name__), ("paper", f"paper_{metric.__name__}")):
                    expected = [
                        float(metric(forward, batch, scores, top_fraction=f, protocol=protocol)) for f in (0.2, 0.5)
                    ]
                    assert measurement.values[name] == pytest.approx(expected, abs=1e-5, nan_ok=True)


def test_agreement_is_with_leave_one_out_from_the_same_baseline(comparison):
    text = comparison.texts[1]
    for baseline in ("pad", "mask"):
        reference = text.find("leave_one_out", baseline)
        assert reference.values["kendall_tau"] == (1.0,)
        one = text.find("dig_greedy", baseline)
        ones = torch.ones(1, len(one.word_scores), dtype=torch.int64)
        batch = TokenBatch(ones, ones, torch.zeros_like(ones), pad_id=0)
        tau = kendall_tau(torch.tensor([one.word_scores]), torch.tensor([reference.word_scores]), batch)
        assert one.values["kendall_tau"][0] == pytest.approx(float(tau))


def test_costs_and_curves_are_recorded(comparison):
    first, second = comparison.texts[:2]
    assert first.find("dig_greedy", "pad").n_gradients == 6
    assert first.find("deeplift", "pad").n_gradients == 1
    assert first.find("leave_one_out", "pad").n_gradients == 0
    assert len(first.find("dig_greedy", "pad").curve) == 2
    assert first.find("gradient_shap", "pad").curve == ()
    assert second.find("dig_greedy", "pad").curve == ()


def test_words_on_the_way_are_measured(comparison):
    shares = comparison.values("unused_anchors", "dig_greedy", "pad")
    assert ((shares >= 0) & (shares <= 1)).all()
    assert np.isnan(comparison.values("unused_anchors", "integrated_gradients")).all()
    assert (comparison.values("word_approximation_error", "integrated_gradients") > 0).all()


def test_a_planted_word_is_found_by_every_informed_method(tokenizer):
    model = tiny_classifier(len(tokenizer))
    # The logit of a class is one dimension of the mean embedding, and only one word has any of it.
    word = tokenizer.convert_tokens_to_ids("gorgeous")

    class Planted(type(model)):
        def forward(self, input_ids=None, attention_mask=None, **_):
            rows = self.get_input_embeddings()(input_ids)
            total = (rows[..., 0] * attention_mask).sum(dim=1) * 3
            return type("Output", (), {"logits": torch.stack([0 * total, total], dim=1)})

    model.__class__ = Planted
    with torch.no_grad():
        weight = model.get_input_embeddings().weight
        weight[:, 0] = 0
        weight[word, 0] = 1
    explainer = TextExplainer(model, tokenizer, n_anchors=3, n_neighbors=8)
    result = compare(explainer, ["the movie was gorgeous and long"], n_steps=20, n_curve_texts=0)
    for method in result.settings.methods:
        if method != "random":
            scores = result.texts[0].find(method, "pad").word_scores
            assert max(range(len(scores)), key=scores.__getitem__) == 3, method
            assert result.values("log_odds", method)[0] < -0.6
            assert result.values("comprehensiveness", method)[0] > 0.4
            assert abs(result.values("sufficiency", method)[0]) < 1e-5


def test_a_method_of_ones_own_is_compared(explainer):
    class Length(AttributionMethod):
        name = "length"

        def scores(self, question, plan):
            return question.inputs.norm(dim=-1)

    result = compare(explainer, TEXTS, ["random", Length()], **QUICK)
    assert result.settings.methods == ("random", "length")
    assert (result.values("log_odds", "length") != 0).any()


def test_a_path_method_keeps_its_own_rule_and_cost(explainer):
    paper = PathMethod("paper", explainer.path("greedy"), "riemann_left", "knots", n_gradients=4)
    result = compare(explainer, TEXTS[:1], ["integrated_gradients", paper], **QUICK)
    assert result.texts[0].find("paper", "pad").n_gradients == 4
    expected = TextExplainer(
        explainer.classifier.model,
        explainer.encoder.tokenizer,
        strategy="greedy",
        n_anchors=3,
        n_neighbors=8,
        candidates="all",
        spacing="knots",
    ).explain(TEXTS[0], n_steps=4, method="riemann_left")
    assert result.texts[0].find("paper", "pad").word_scores == pytest.approx(expected.word_scores, abs=1e-5)


# ---------------------------------------------------------------------------------------- journals


def without_seconds(comparison):
    data = comparison.to_dict()
    for text in data["texts"]:
        for measurement in text["measurements"]:
            del measurement["seconds"]
    return data


def test_a_run_that_is_cut_off_goes_on_where_it_was(explainer, tmp_path, comparison):
    journal = tmp_path / "folder" / "journal.jsonl"
    options = {"baselines": ["pad", "mask"], "protocols": ["default", "paper"], **QUICK}

    def stop(done):
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compare(explainer, TEXTS, journal=journal, progress=stop, **options)
    # Killed in the middle of a line.
    with journal.open("ab") as file:
        file.write(b'{"number": 2, "te')
    measured = []
    finished = compare(explainer, TEXTS, journal=journal, progress=measured.append, **options)
    assert measured == [1, 2, 3, 4]
    assert json.dumps(without_seconds(finished), sort_keys=True) == json.dumps(
        without_seconds(comparison), sort_keys=True
    )
    # The first two are those that were kept, down to their clocks.
    again = compare(explainer, TEXTS, journal=journal, **options)
    assert json.dumps(again.to_dict(), sort_keys=True) == json.dumps(finished.to_dict(), sort_keys=True)


def test_a_journal_serves_more_texts_and_other_texts(explainer, tmp_path):
    journal = tmp_path / "journal.jsonl"
    first = compare(explainer, TEXTS[:2], ["random"], journal=journal, **QUICK)
    more = compare(explainer, TEXTS, ["random"], journal=journal, **QUICK)
    assert more.texts[:2] == first.texts
    compare(explainer, ["hello world"], ["random"], journal=journal, **QUICK)
    assert compare(explainer, TEXTS, ["random"], journal=journal, **QUICK).texts == more.texts
    assert len(journal.read_bytes().splitlines()) == 1 + 4 + 1


def test_a_damaged_line_is_done_again(explainer, tmp_path):
    journal = tmp_path / "journal.jsonl"
    compare(explainer, TEXTS[:2], ["random"], journal=journal, **QUICK)
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(lines[0] + b"{}\n" + lines[2])
    compare(explainer, TEXTS[:2], ["random"], journal=journal, **QUICK)
    assert len(journal.read_bytes().splitlines()) == 4


@pytest.mark.parametrize("content", [b"my diary\n", b"my diary"])
def test_a_file_that_is_no_journal_is_left_alone(explainer, tmp_path, content):
    journal = tmp_path / "journal.jsonl"
    journal.write_bytes(content)
    with pytest.raises(
        ValueError, match="journal must be a new file or that of the same comparison, got .*journal.jsonl"
    ):
        compare(explainer, TEXTS, ["random"], journal=journal, **QUICK)
    assert journal.read_bytes() == content


def test_a_journal_of_another_comparison_is_left_alone(explainer, tmp_path):
    journal = tmp_path / "journal.jsonl"
    compare(explainer, TEXTS[:1], ["random"], journal=journal, **QUICK)
    content = journal.read_bytes()
    with pytest.raises(ValueError, match="which is another; name another file, or remove it"):
        compare(explainer, TEXTS[:1], ["random"], journal=journal, **QUICK | {"n_steps": 7})
    assert journal.read_bytes() == content


# ---------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"methods": ["foo"]}, "methods must be one of 'straight_line', .*, got 'foo'; or pass an AnchorSearch, "),
        ({"methods": "random"}, "methods must be a sequence of at least one name or AttributionMethod, got 'random'"),
        ({"methods": []}, "methods must be a sequence of at least one name"),
        ({"methods": ["random", "random"]}, "methods must have names of their own, got 'random' more than once"),
        ({"baselines": []}, r"baselines must be a sequence of at least one token, got \[\]"),
        ({"baselines": "pad"}, "baselines must be a sequence of at least one token, got 'pad'"),
        ({"baselines": ["nothing"]}, "baselines must be one of 'pad', .*, got 'nothing'"),
        ({"n_steps": 0}, "n_steps must be an integer of at least 1, got 0"),
        ({"top_fractions": [0.0]}, r"top_fractions must hold numbers in \(0, 1\], got \[0.0\]"),
        ({"top_fractions": []}, r"top_fractions must hold numbers in \(0, 1\], got \[\]"),
        ({"protocols": ["mine"]}, r"protocols must be a sequence of .*, got \['mine'\]"),
        ({"curve_steps": [0]}, "curve_steps must be an integer of at least 1, got 0"),
        ({"seed": -1}, "seed must be an integer of at least 0, got -1"),
        ({"n_curve_texts": -1}, "n_curve_texts must be an integer of at least 0, got -1"),
        ({"internal_batch_size": 0}, "internal_batch_size must be an integer of at least 1, got 0"),
        ({"baselines": ["pad", "pad"]}, r"baselines must be different, got \['pad', 'pad'\]; name each once"),
        ({"baselines": [0]}, r"baselines must be a sequence of at least one token, got \[0\]"),
    ],
)
def test_wrong_arguments_are_named(explainer, arguments, message):
    with pytest.raises(ValueError, match=message):
        compare(explainer, TEXTS, **arguments)


def test_no_texts_and_one_text_are_told_apart(explainer):
    with pytest.raises(ValueError, match="texts must hold at least one text, got none"):
        compare(explainer, [])
    with pytest.raises(TypeError, match="texts must be"):
        compare(explainer, 3)


def test_a_model_with_one_output_is_refused(tokenizer):
    model = tiny_classifier(len(tokenizer))
    model.config.id2label = {0: "SCORE"}
    with pytest.raises(ModelError, match="model must have probabilities, got a regression with the output SCORE"):
        compare(TextExplainer(model, tokenizer, n_anchors=3, n_neighbors=8), TEXTS)


def test_a_regression_is_refused(tokenizer):
    model = tiny_classifier(len(tokenizer))
    model.config.problem_type = "regression"
    with pytest.raises(ModelError, match="model must have probabilities, got a regression"):
        compare(TextExplainer(model, tokenizer, n_anchors=3, n_neighbors=8), TEXTS)


def test_gradient_shap_follows_its_seed_and_no_batch(question):
    method = METHODS["gradient_shap"]
    curved = replace(question, forward=Curved())
    first = method(curved, Plan(n_steps=9, seed=3))
    assert torch.allclose(first, method(curved, Plan(n_steps=9, seed=3, rows_at_once=4)), atol=1e-5)
    assert not torch.allclose(first, method(curved, Plan(n_steps=9, seed=4)))
    many = method(curved, Plan(n_steps=20_000))
    assert torch.allclose(many, METHODS["integrated_gradients"](curved, Plan(n_steps=60)), rtol=0.05, atol=0.05)


def test_a_model_that_deeplift_cannot_take_is_named(question):
    class Broken(Linear):
        def forward(self, embeddings, places, scale):
            if len(embeddings) > 3:
                raise RuntimeError("no such batch")
            return super().forward(embeddings, places, scale)

    with pytest.raises(ModelError, match="deeplift must be possible for the model, got 'no such batch'; leave it out"):
        METHODS["deeplift"](replace(question, forward=Broken()), Plan())


def test_paths_of_more_members_than_steps_have_no_point_on_the_curve(explainer):
    many = PathMethod("many", StaggeredPath(StraightLine(), n_orders=6))
    curve = compare(explainer, TEXTS[:1], [many], **QUICK).texts[0].find("many", "pad").curve
    assert np.isnan(curve).tolist() == [True, False]


def test_methods_with_other_numbers_have_another_journal(explainer, tmp_path):
    class Signed(AttributionMethod):
        name = "signed"

        def __init__(self, sign):
            self.sign = sign

        def scores(self, question, plan):
            return self.sign * question.inputs.norm(dim=-1)

    compare(explainer, TEXTS[:1], [Signed(1)], journal=tmp_path / "journal", **QUICK)
    with pytest.raises(ValueError, match="which is another"):
        compare(explainer, TEXTS[:1], [Signed(-1)], journal=tmp_path / "journal", **QUICK)


def test_candidates_tell_paths_apart(classifier, tokenizer):
    rows = torch.arange(len(tokenizer))
    names = {
        repr(TextExplainer(classifier, tokenizer, n_anchors=3, n_neighbors=8, candidates=rows % 2 == k).path("greedy"))
        for k in range(2)
    }
    assert len(names) == 2


def test_a_text_that_is_cut_off_is_told(explainer):
    with pytest.warns(UserWarning, match="text 1 is longer than the model reads: its last 10 tokens are cut off"):
        compare(explainer, ["movie " * 40], ["random"], **QUICK)


def test_a_token_without_a_row_is_named(classifier):
    grown = tiny_tokenizer()
    grown.add_tokens(["zorgle"])
    explainer = TextExplainer(classifier, grown, n_anchors=3, n_neighbors=8)
    with pytest.raises(ModelError, match="model must have a row for every token, got 'zorgle' in text 1"):
        compare(explainer, ["a zorgle movie"], ["random"], **QUICK)


def test_what_a_method_returns_is_checked(question):
    class Flat(AttributionMethod):
        name = "flat"

        def scores(self, question, plan):
            return question.inputs

    class Broken(AttributionMethod):
        name = "broken"

        def scores(self, question, plan):
            return question.fixed / 0

    with pytest.raises(
        ModelError, match=re.escape("flat must score every token, shape (3, 5), got (3, 5, 4); sum over")
    ):
        Flat()(question, Plan())
    with pytest.raises(ModelError, match="broken must give finite scores, got NaN or infinity; leave it out"):
        Broken()(question, Plan())
    with pytest.raises(ValueError, match="method must be one of"):
        PathMethod("mine", StraightLine(), "simpson")


def test_captums_integrated_gradients_is_the_straight_line(question):
    expected = IntegratedGradients(question.forward).attribute(
        question.inputs, question.baselines, additional_forward_args=question.arguments, n_steps=6
    )
    assert torch.allclose(METHODS["integrated_gradients"](question, Plan(n_steps=6)), expected.sum(dim=-1), atol=1e-5)


def test_a_tokenizer_without_padding_is_compared(tokenizer):
    plain = tiny_tokenizer()
    plain.pad_token = None
    model = tiny_classifier(len(plain))
    model.config.pad_token_id = None
    explainer = TextExplainer(model, plain, n_anchors=3, n_neighbors=8)
    result = compare(explainer, TEXTS[:2], ["integrated_gradients"], ["mask"], **QUICK)
    assert np.isfinite(result.values("log_odds", "integrated_gradients")).all()


def test_results_read_back(comparison):
    again = Comparison.from_dict(json.loads(json.dumps(comparison.to_dict(), allow_nan=False)))
    assert again.settings == comparison.settings
    assert json.dumps(again.to_dict()) == json.dumps(comparison.to_dict())


def test_what_a_process_already_knows_changes_no_number(tmp_path, classifier, tokenizer):
    """Numbers of a word are averaged over the words of a text, whichever of these an earlier text had."""
    texts = ["a witty, gorgeous movie", "the plot is thin and a witty scene", "dull plot", "a scene"]

    def run(some, **options):
        explainer = TextExplainer(classifier, tokenizer, n_anchors=5, n_neighbors=20)
        found = compare(explainer, some, ["integrated_gradients", "dig_greedy", "dig_uniform"], **QUICK, **options)
        return [[m.values for m in text.measurements] for text in found.texts]

    expected = run(texts)
    run(texts[:2], journal=tmp_path / "journal")
    assert run(texts, journal=tmp_path / "journal") == expected
    assert [run([text])[0] for text in texts] == expected
