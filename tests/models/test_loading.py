"""Loading: what a folder may hold, and what is said of it."""

import json
import shutil
import sys
from pathlib import Path

import pytest
import torch
from transformers import (
    AutoModelForSequenceClassification,
    BertConfig,
    BertForTokenClassification,
    BertModel,
    DistilBertForQuestionAnswering,
    DistilBertForTokenClassification,
    Qwen2Config,
    Qwen2ForTokenClassification,
)
from typer.testing import CliRunner

from captum_dig import ModelError, TextExplainer, cli
from captum_dig.models.loading import load_pretrained
from tests.running import run_command
from tests.tiny_models import TINY, save_tiny, tiny_classifier, tiny_tokenizer

TEXT = "a gorgeous, witty movie"


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A folder with a tiny classifier."""
    return save_tiny(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture
def folder(saved, tmp_path):
    """A copy of it to damage."""
    return Path(shutil.copytree(saved, tmp_path / "copy"))


def edit(file, **changes):
    """Change keys of a JSON file."""
    file.write_text(json.dumps(json.loads(file.read_text("utf-8")) | changes), "utf-8")


def refused(folder):
    """The one-line message of a ModelError that names the folder."""
    with pytest.raises(ModelError) as caught:
        TextExplainer.from_pretrained(folder)
    message = str(caught.value)
    assert repr(str(folder)) in message
    assert "\n" not in message
    return message


def explained_or_refused(folder):
    """Transformers pays no heed to some settings; whatever it does, there is a result or one line."""
    problem = None
    try:
        explainer = TextExplainer.from_pretrained(folder, n_anchors=4, n_neighbors=12)
    except ModelError as error:
        problem = str(error)
    if problem is None:
        assert explainer.explain(TEXT, baseline="mask", n_steps=8).labels == ("NEGATIVE", "POSITIVE")
    else:
        assert str(folder) in problem or "model_max_length" in problem or "special tokens" in problem
        assert "\n" not in problem


# code in the folder --------------------------------------------------------------------------------


def with_code(folder, classes, file="config.json", **changes):
    """Let a folder name Python code of its own, which leaves a file behind when it runs."""
    trace = folder / "RAN"
    folder.mkdir(exist_ok=True)
    (folder / "own.py").write_text(
        f"from pathlib import Path\nPath({str(trace)!r}).write_text('ran')\n"
        "from transformers import DistilBertConfig, DistilBertForSequenceClassification\n"
        "class OwnConfig(DistilBertConfig):\n    model_type = 'own'\n"
        "class OwnModel(DistilBertForSequenceClassification):\n    config_class = OwnConfig\n",
        "utf-8",
    )
    edit(folder / file, auto_map=classes, **changes)
    return trace


CODE = [
    ("config.json", {"AutoConfig": "own.OwnConfig"}, {"model_type": "own"}),
    ("config.json", {"AutoModelForSequenceClassification": "own.OwnModel"}, {"model_type": "vit"}),
    ("tokenizer_config.json", {"AutoTokenizer": ["own.OwnTokenizer", None]}, {"tokenizer_class": "OwnTokenizer"}),
]


@pytest.mark.parametrize(("file", "classes", "changes"), CODE)
def test_code_that_comes_with_a_model_does_not_run_and_nobody_is_asked(folder, monkeypatch, file, classes, changes):
    monkeypatch.setattr("builtins.input", lambda *_: pytest.fail("somebody was asked"))
    trace = with_code(folder, classes, file, **changes)
    if file == "tokenizer_config.json":
        edit(folder / "config.json", model_type="own", auto_map={"AutoConfig": "own.OwnConfig"})
    assert "pass trust_remote_code=True, on the command line --trust-remote-code" in refused(folder)
    assert not trace.exists()


def test_standard_input_is_no_answer_to_a_question_about_code(folder):
    trace = with_code(folder, {"AutoConfig": "own.OwnConfig"}, model_type="own")
    result = run_command("explain", TEXT, "--model", folder, "--json", "-", input="y\n" * 100)
    assert "model must need no Python code of its own" in result.error
    assert result.stdout == ""
    assert not trace.exists()


@pytest.mark.parametrize("command", [["compare", "--data", "t.txt", "--model"], ["neighbors"]])
def test_no_command_runs_code_that_comes_with_a_model(folder, monkeypatch, command):
    monkeypatch.chdir(folder)
    monkeypatch.setenv("CAPTUM_DIG_CACHE", str(folder / "cache"))
    Path("t.txt").write_text(TEXT, "utf-8")
    trace = with_code(folder, {"AutoConfig": "own.OwnConfig"}, model_type="own")
    result = CliRunner().invoke(cli.app, [*command, str(folder)], input="y\n")
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert not trace.exists()


def test_code_runs_where_the_caller_trusts_it(folder, monkeypatch):
    monkeypatch.setenv("HF_MODULES_CACHE", str(folder / "modules"))
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(folder / "modules"))
    monkeypatch.setattr(sys, "path", [*sys.path])
    trace = with_code(
        folder, {"AutoConfig": "own.OwnConfig", "AutoModelForSequenceClassification": "own.OwnModel"}, model_type="own"
    )
    explainer = TextExplainer.from_pretrained(folder, trust_remote_code=True, n_anchors=4, n_neighbors=12)
    assert type(explainer.classifier.model).__name__ == "OwnModel"
    assert trace.exists()


@pytest.mark.parametrize("trust", [None, "yes", 1])
def test_trust_is_a_boolean(saved, trust):
    with pytest.raises(TypeError, match="trust_remote_code must be True or False, got"):
        TextExplainer.from_pretrained(saved, trust_remote_code=trust)


# tokenizers ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kept", [(), ("tokenizer_config.json",)])
def test_a_folder_without_a_tokenizer(folder, kept):
    for file in ("tokenizer.json", "tokenizer_config.json"):
        if file not in kept:
            (folder / file).unlink()
    message = refused(folder)
    assert "tokenizer" in message


@pytest.mark.shared
@pytest.mark.parametrize("name", ["bert-sst2", "roberta-imdb", "distilbert-sst2"])
def test_a_real_model_without_its_tokenizer(shared, tmp_path, name):
    for file in ("config.json", "model.safetensors"):
        (tmp_path / file).symlink_to(shared / "models" / name / file)
    assert "save it there with tokenizer.save_pretrained" in refused(tmp_path)


def test_a_tokenizer_of_another_model(classifier):
    model = tiny_classifier(1000)
    with pytest.raises(ModelError, match="tokenizer must be the one of the model, got .* with 157 tokens for the 1000"):
        TextExplainer(model, tiny_tokenizer())


def test_a_table_may_be_padded_and_a_tokenizer_grown(tokenizer):
    assert TextExplainer(tiny_classifier(192), tokenizer, n_anchors=4, n_neighbors=12).explain(TEXT, n_steps=8)


# broken files --------------------------------------------------------------------------------------

LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b\nsize 12345\n"


@pytest.mark.parametrize("file", ["model.safetensors", "config.json", "tokenizer.json", "tokenizer_config.json"])
@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[: len(data) // 2],
        lambda data: bytes(range(256)) * 8,
        lambda data: LFS,
        lambda data: b"[" * 100_000,
        lambda data: b"[1, 2]",
        lambda data: b'{"a": 1',
        lambda data: b"\x00" * 1000,
    ],
)
def test_a_file_that_cannot_be_read(folder, file, damage):
    (folder / file).write_bytes(damage((folder / file).read_bytes()))
    refused(folder)


@pytest.mark.parametrize(
    "data", [b"", b"PK\x03\x04 half a zip", b"\x80\x02cos\nsystem\nX\x02\x00\x00\x00id\x85R.", LFS]
)
def test_pickled_weights_that_cannot_be_read(folder, data):
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(data)
    refused(folder)


def test_weights_of_another_shape(folder):
    edit(folder / "config.json", vocab_size=99)
    refused(folder)


@pytest.mark.parametrize(
    "changes",
    [
        {"id2label": ["NEGATIVE", "POSITIVE"]},
        {"id2label": "NEGATIVE"},
        {"id2label": {"0": "A", "a": "B"}},
        {"dtype": "float7"},
        {"dtype": 3},
        {"pad_token_id": 10**6},
        {"pad_token_id": "zero"},
        {"vocab_size": "many"},
        {"vocab_size": -1},
        {"vocab_size": None},
        {"n_layers": "two"},
        {"n_layers": 40},
        {"n_heads": 0},
        {"n_heads": 5},
        {"dim": 1.5},
        {"activation": "nosuch"},
        {"model_type": "nosuch"},
        {"model_type": 7},
        {"model_type": None},
        {"architectures": 5},
        {"max_position_embeddings": "many"},
        {"max_position_embeddings": -5},
    ],
)
def test_a_configuration_that_makes_no_sense(folder, changes):
    edit(folder / "config.json", **changes)
    explained_or_refused(folder)


@pytest.mark.parametrize(
    "changes",
    [
        {"model_max_length": "many"},
        {"model_max_length": None},
        {"model_max_length": -1},
        {"model_max_length": 1},
        {"model_max_length": 20.5},
        {"pad_token": 7},
        {"pad_token": None},
        {"unk_token": ["a"]},
        {"tokenizer_class": 5},
        {"tokenizer_class": "NoSuch"},
        {"added_tokens_decoder": {"x": "y"}},
        {"added_tokens_decoder": [1]},
        {"model_input_names": 3},
    ],
)
def test_settings_of_a_tokenizer_that_make_no_sense(folder, changes):
    edit(folder / "tokenizer_config.json", **changes)
    explained_or_refused(folder)


def test_a_broken_file_on_the_command_line(folder):
    (folder / "model.safetensors").write_bytes(LFS)
    result = CliRunner().invoke(cli.app, ["explain", TEXT, "--model", str(folder), "--json", "-"])
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("error: model must be ")
    assert repr(str(folder)) in result.stderr
    assert result.stderr.count("\n") == 1


def test_faults_of_pytorch_are_not_blamed_on_the_folder(saved, monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("pool INTERNAL ASSERT FAILED; please report a bug to PyTorch")

    monkeypatch.setattr(AutoModelForSequenceClassification, "from_pretrained", fail)
    with pytest.raises(RuntimeError, match="pool INTERNAL ASSERT FAILED") as caught:
        TextExplainer.from_pretrained(saved)
    assert not isinstance(caught.value, ModelError)


# other tasks ---------------------------------------------------------------------------------------


def bert_tagger(n_rows):
    return BertForTokenClassification(BertConfig(vocab_size=n_rows, **TINY))


def qwen_tagger(n_rows):
    """Every weight of a classifier is there, under the same names."""
    return Qwen2ForTokenClassification(Qwen2Config(vocab_size=n_rows, num_key_value_heads=2, **TINY))


@pytest.mark.parametrize(
    ("make", "task"),
    [
        (lambda n: DistilBertForTokenClassification(tiny_classifier(n).config), "token classification"),
        (bert_tagger, "token classification"),
        (qwen_tagger, "token classification"),
        (lambda n: DistilBertForQuestionAnswering(tiny_classifier(n).config), "question answering"),
    ],
)
def test_a_model_of_another_task_is_told_from_one_that_is_not_trained(tmp_path, tokenizer, make, task):
    model = make(len(tokenizer))
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    with pytest.raises(ModelError) as caught:
        TextExplainer.from_pretrained(tmp_path, task="labels")
    message = str(caught.value)
    assert f"which was trained for {task} ({type(model).__name__})" in message
    assert "fine-tune it first" not in message


# adapters ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def adapted(saved, tmp_path_factory):
    """A function that saves a LoRA adapter of a base, and gives its folder and its logits of the text."""
    peft = pytest.importorskip("peft")

    def save(base=saved, n_labels=2, **options):
        folder = tmp_path_factory.mktemp("adapter")
        model = AutoModelForSequenceClassification.from_pretrained(
            base, num_labels=n_labels, ignore_mismatched_sizes=True
        )
        torch.manual_seed(1)
        lora = peft.get_peft_model(
            model, peft.LoraConfig(**{"task_type": "SEQ_CLS", "r": 4, "target_modules": ["q_lin", "v_lin"]} | options)
        )
        for name, weight in lora.named_parameters():
            if "lora_B" in name or "modules_to_save" in name:
                torch.nn.init.normal_(weight)
        lora.peft_config["default"].base_model_name_or_path = str(base)
        lora.save_pretrained(folder)
        with torch.no_grad():
            logits = lora.eval()(**tiny_tokenizer()(TEXT, return_tensors="pt")).logits[0]
        return folder, logits

    return save


OF_PEFT = [
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


@pytest.mark.parametrize(
    ("n_labels", "options"),
    [(2, {}), (3, {}), (2, {"target_modules": ["q_lin", "word_embeddings"]}), (4, {"use_dora": True})],
)
class TestAdapters:
    pytestmark = OF_PEFT

    def test_an_adapter_is_explained_with_its_own_logits(self, adapted, n_labels, options):
        modules = ["pre_classifier", "classifier"]
        folder, logits = adapted(n_labels=n_labels, modules_to_save=modules, **options)
        explainer = TextExplainer.from_pretrained(folder, n_anchors=4, n_neighbors=12)
        result = explainer.explain(TEXT, n_steps=8)
        assert len(result.labels) == n_labels
        assert result.input_value == pytest.approx(float(logits.max()), abs=1e-5)


class TestOtherAdapters:
    pytestmark = OF_PEFT

    def test_a_tokenizer_beside_the_adapter_comes_first(self, adapted):
        folder, _ = adapted()
        own = tiny_tokenizer(max_length=11)
        own.save_pretrained(folder)
        assert load_pretrained(folder, torch.float32)[1].model_max_length == 11

    def test_an_adapter_without_a_part_of_the_head(self, adapted, saved, tmp_path):
        BertModel(BertConfig(vocab_size=157, **TINY), add_pooling_layer=False).save_pretrained(tmp_path / "base")
        folder, _ = adapted(base=tmp_path / "base", target_modules=["query"])
        assert "without weights for bert.pooler" in refused(folder)

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"base_model_name_or_path": "/no/where"}, "an adapter of '/no/where': there is no such folder"),
            ({"base_model_name_or_path": None}, "without base_model_name_or_path"),
            ({"task_type": "TOKEN_CLS"}, "trained for token classification"),
            ({"peft_type": "NOSUCH"}, "its adapter cannot be read"),
        ],
    )
    def test_an_adapter_that_cannot_be_loaded(self, adapted, changes, message):
        folder, _ = adapted()
        edit(folder / "adapter_config.json", **changes)
        assert message in refused(folder)

    @pytest.mark.parametrize("data", [b"", LFS, b"[" * 10_000])
    @pytest.mark.parametrize("file", ["adapter_config.json", "adapter_model.safetensors"])
    def test_an_adapter_whose_files_cannot_be_read(self, adapted, file, data):
        folder, _ = adapted()
        (folder / file).write_bytes(data)
        refused(folder)


def test_an_adapter_where_its_library_is_missing(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "peft", None)
    (tmp_path / "adapter_config.json").write_text('{"base_model_name_or_path": "x"}', "utf-8")
    assert "run: pip install peft" in refused(tmp_path)
