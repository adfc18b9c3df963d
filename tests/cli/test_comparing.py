"""`captum-dig compare` and `captum-dig study`: what a person sees, what files hold, what goes wrong."""

import json
import os
import re
import signal
import stat
import subprocess
import sys
import threading

import pytest
from typer.testing import CliRunner

from captum_dig import cli
from captum_dig.cli import datasets as hub
from captum_dig.cli.datasets import read_dataset
from captum_dig.comparison import Comparison
from captum_dig.comparison import comparing as bench
from captum_dig.models.model import TextModel
from captum_dig.study import StudyKey
from tests.study.test_sheets import answers_of
from tests.tiny_models import save_tiny, tiny_tokenizer

TEXTS = ["a gorgeous, witty movie", "the acting was bad", "dull and long"]
QUICK = (
    "--n-anchors",
    "3",
    "--n-neighbors",
    "8",
    "--n-steps",
    "4",
    "--methods",
    "integrated-gradients,dig_greedy,random",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_tiny(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture
def run(folder, monkeypatch, tmp_path):
    """Run a command on the tiny model, in a folder with some texts."""
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS) + "\n")
    monkeypatch.setenv("CAPTUM_DIG_CACHE", str(tmp_path / "cache"))

    def command(name, *arguments):
        return CliRunner().invoke(cli.app, [*name.split(), *map(str, arguments)], prog_name="captum-dig")

    return command


@pytest.fixture
def compare(run, folder):
    return lambda *arguments: run("compare", "--model", folder, "--data", "texts.txt", *QUICK, *arguments)


def one_line(result):
    assert result.exit_code == 2, result.output
    assert result.stderr.count("\n") == 1, result.stderr
    return result.stderr[:-1]


def rows_without_time(result):
    rows = (line for line in result.stdout.splitlines() if line.startswith(("IG", "DIG", "random")))
    return [row.rsplit(maxsplit=1)[0] for row in rows]


def test_a_table_and_both_files(compare, tmp_path):
    result = compare("--baseline", "pad", "--baseline", "mask", "--html", "report.html", "--json", "result.json")
    assert result.exit_code == 0, result.output
    assert "baseline pad" in result.stdout
    assert "baseline mask" in result.stdout
    assert "DIG greedy" in result.stdout
    comparison = Comparison.from_dict(json.loads((tmp_path / "result.json").read_text()))
    assert [text.text for text in comparison.texts] == TEXTS
    assert comparison.settings.methods == ("integrated_gradients", "dig_greedy", "random")
    assert (tmp_path / "report.html").read_text().count("<svg") > 4


def test_the_same_command_shows_at_once_what_it_has_found(compare, tmp_path, monkeypatch):
    first = compare()
    monkeypatch.setattr(bench.Bench, "measure", lambda *_: pytest.fail("a finished text was measured again"))
    assert compare().stdout == first.stdout
    (kept,) = (tmp_path / "cache").glob("comparison-*.jsonl")
    assert len(kept.read_bytes().splitlines()) == 1 + len(TEXTS)
    # Fewer texts are among those that are there.
    assert compare("--n", 2).exit_code == 0


def test_a_narrow_terminal_cuts_no_number(compare, monkeypatch):
    wide = compare("--n", 1).stdout
    monkeypatch.setenv("COLUMNS", "40")
    narrow = compare("--n", 1).stdout
    assert narrow.split() == wide.split()
    rows = [line for line in wide.splitlines() if line.startswith(("method", "IG", "DIG", "random"))]
    assert rows
    assert all(row in narrow for row in rows)
    assert "…" not in wide


def test_json_alone_goes_to_standard_output(compare):
    result = compare("--json", "-")
    assert Comparison.from_dict(json.loads(result.stdout)).settings.n_steps == 4


def test_the_protocol_of_the_paper_has_a_table_of_its_own(compare):
    assert "protocol of the paper" in compare("--protocol", "both").stdout
    assert "protocol of the paper" not in compare().stdout


def test_measures_and_steps_are_chosen(compare):
    chosen = ("--measures", "delta,change", "--measures", "soft-sufficiency", "--n-steps", "auto", "--json", "-")
    result = compare("--n", 1, *chosen)
    assert result.exit_code == 0, result.output
    found = Comparison.from_dict(json.loads(result.stdout))
    assert list(found.measures) == ["delta", "change", "soft_sufficiency"]
    assert found.settings.n_steps == "auto"


def test_a_plug_in_takes_part_where_nothing_is_chosen(run, folder, tmp_path, monkeypatch):
    entry = "Entry('mine', 'method', 'Mine', 'captum_dig.methods.random:RandomScores')"
    (tmp_path / "mine.py").write_text(f"from captum_dig import Entry\nENTRIES = [{entry}]\n")
    asked = []
    monkeypatch.setattr(bench, "compare", lambda _, __, methods, *___, **____: asked.extend(methods) or sys.exit(0))
    run("--plugin mine.py compare", "--model", folder, "--data", "texts.txt")
    assert asked == [*bench.DEFAULT_METHODS, "mine"]


def test_a_damaged_journal_is_set_aside(compare, tmp_path):
    first = compare("--n", 1)
    (kept,) = (tmp_path / "cache").glob("comparison-*.jsonl")
    kept.write_bytes(b"\0" * 100)
    again = compare("--n", 1)
    assert "what was kept is damaged, and was moved to" in again.stderr
    assert rows_without_time(again) == rows_without_time(first) != []


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP", "SIGINT"])
def test_a_request_to_stop_keeps_what_was_found_and_says_so(compare, tmp_path, monkeypatch, name):
    number = getattr(signal, name, None)
    if os.name == "nt" or threading.current_thread() is not threading.main_thread():
        pytest.skip("no signals here")
    # The runner of the tests may ignore it.
    usual = signal.default_int_handler if name == "SIGINT" else signal.SIG_DFL
    before = signal.signal(number, usual)
    really = bench.Bench.measure

    def measure(self, place, *rest):
        if place == 1:
            os.kill(os.getpid(), number)
        return really(self, place, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(bench.Bench, "measure", measure)
        result = compare("--html", "report.html")
    assert result.exit_code == 128 + number
    (kept,) = (tmp_path / "cache").glob("comparison-*.jsonl")
    lines = " ".join(result.stderr.split())
    assert lines == f"warning: stopped; the same command goes on from what is kept in {kept}"
    assert not (tmp_path / "report.html").exists()
    assert len(kept.read_bytes().splitlines()) == 2
    assert signal.getsignal(number) == usual
    signal.signal(number, before)
    assert compare().exit_code == 0
    assert len(kept.read_bytes().splitlines()) == 1 + len(TEXTS)


def test_a_signal_that_is_ignored_stays_so(compare, monkeypatch):
    if os.name == "nt" or threading.current_thread() is not threading.main_thread():
        pytest.skip("no signals here")
    really = bench.Bench.measure

    def measure(*given):
        os.kill(os.getpid(), signal.SIGHUP)
        return really(*given)

    monkeypatch.setattr(bench.Bench, "measure", measure)
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert compare("--n", 1).exit_code == 0
    finally:
        signal.signal(signal.SIGHUP, before)


def test_names_that_mean_something_to_the_terminal_are_shown(run, folder, tmp_path):
    """A baseline in brackets stands in the table, from the journal too."""
    tokenizer = tiny_tokenizer()
    tokenizer.add_tokens(["[/INST]", "[unused5]"])
    other = tmp_path / "other"
    save_tiny(other, tokenizer)
    command = ("compare", "--model", other, "--data", "texts.txt", *QUICK, "--n", 1)
    for _ in range(2):
        result = run(*command, "--baseline", "[/INST]", "--baseline", "[unused5]")
        assert result.exit_code == 0, result.output
        assert "baseline [/INST]" in result.stdout
        assert "baseline [unused5]" in result.stdout


def test_another_token_for_a_role_is_another_comparison(compare, folder, tmp_path):
    first = compare("--n", 1)
    other = tmp_path / "other"
    tokenizer = tiny_tokenizer()
    tokenizer.pad_token = "[MASK]"
    save_tiny(other, tokenizer)
    assert compare("--n", 1, "--model", other).stdout != first.stdout
    assert len(list((tmp_path / "cache").glob("comparison-*.jsonl"))) == 2


@pytest.mark.skipif(os.name == "nt", reason="no modes")
def test_what_is_kept_of_texts_is_for_their_owner_alone(compare, tmp_path):
    before = os.umask(0)
    try:
        compare("--n", 1)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "cache").stat().st_mode) == 0o700
    (kept,) = (tmp_path / "cache").glob("comparison-*.jsonl")
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600


def test_weights_are_hashed_once(compare, monkeypatch):
    really, asked = TextModel.fingerprint.fget, []
    monkeypatch.setattr(TextModel, "fingerprint", property(lambda self: (asked.append(1), really(self))[1]))
    assert compare("--n", 1).exit_code == 0
    assert len(asked) == 1


def test_another_tokenizer_is_another_comparison(compare, folder, tmp_path, monkeypatch):
    compare("--n", 1)
    tokenizer = tiny_tokenizer(max_length=9)
    other = tmp_path / "other"
    save_tiny(other, tokenizer)
    compare("--n", 1, "--model", other)
    assert len(list((tmp_path / "cache").glob("comparison-*.jsonl"))) == 2


def test_an_unwritable_cache_is_said_once_and_costs_nothing_else(compare, tmp_path):
    (tmp_path / "cache").write_text("not a folder")
    result = compare("--n", 1)
    assert result.exit_code == 0
    assert "DIG greedy" in result.stdout
    assert "finished texts are not kept" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--methods", "foo"], "--methods must be one of 'straight_line', .*, got 'foo'"),
        (["--measures", "log_odds,foo"], "--measures must be one of 'log_odds', .*, got 'foo'"),
        (["--measures", ","], "--measures must hold at least one name, got ','"),
        (["--n-steps", "some"], "--n-steps must be auto or an integer of at least 1, got 'some'"),
        (["--baseline", "qqq"], "baselines must be one of 'pad', .*, got 'qqq'"),
        (["--n", "0"], "--n must be an integer of at least 1, got 0"),
        (["--protocol", "mine"], "--protocol must be one of 'default', 'paper', 'both', got 'mine'"),
        (["--data", "nothing.txt"], "--data must be a file or the name of a data set on the hub, got 'nothing.txt'"),
        (["--html", "nowhere/report.html"], "--html must be in a folder that exists"),
        (["--html", "texts.txt"], "--html must be another file than --data, got 'texts.txt'; rename one"),
        (["--html", "a", "--json", "a"], "--json must be another file than --html"),
    ],
)
def test_wrong_arguments_are_one_line(compare, arguments, message):
    assert re.search(message, one_line(compare(*arguments)))


def test_data_must_be_given(run):
    assert "Missing option '--data'" in one_line(run("compare"))


# ---------------------------------------------------------------------------------------- data sets


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.txt", "one\n\n two \n"),
        ("a.tsv", "one\t1\ntwo\t0\n"),
        ("a.tsv", "sentence\tlabel\none\t1\ntwo\t0\n"),
        ("a.csv", "label,text\n1,one\n0,two\n"),
        ("a.csv", "label,content\n1,one\n0,two\n"),
        ("A.CSV", "label,text\n1,one\n0,two\n"),
        ("a.csv", "Label,Text\n1,one\n0,two\n"),
        ("a.jsonl", '{"text": "one"}\n{"text": null}\n{"text": "two"}\n'),
        ("a.csv", "\ufefftext\none\ntwo\n"),
    ],
)
def test_texts_are_read_from_files(tmp_path, name, content):
    (tmp_path / name).write_text(content, encoding="utf-8")
    assert read_dataset(str(tmp_path / name), "test", None, 9) == ["one", "two"]
    assert read_dataset(str(tmp_path / name), "test", None, 1) == ["one"]


def test_quotes_and_commas_stay_in_texts(tmp_path):
    (tmp_path / "a.csv").write_text('text,label\n"so, ""good""\nand long",1\n')
    (tmp_path / "a.tsv").write_text('a " quote\t1\nand "another\t0\n')
    assert read_dataset(str(tmp_path / "a.csv"), "test", None, 9) == ['so, "good"\nand long']
    assert read_dataset(str(tmp_path / "a.tsv"), "test", None, 9) == ['a " quote', 'and "another']


def test_a_column_is_chosen(tmp_path):
    (tmp_path / "a.csv").write_text("title,text\nT,long\n")
    (tmp_path / "a.jsonl").write_text('{"title": "T", "text": "long"}\n')
    for name in ("a.csv", "a.jsonl"):
        assert read_dataset(str(tmp_path / name), "test", "title", 9) == ["T"]


@pytest.mark.parametrize(
    ("name", "content", "column", "message"),
    [
        ("a.txt", b"\n \n", None, "--data must hold at least one text, got .* without any"),
        ("a.txt", b"\xff\n", None, "--data must be UTF-8 text, got .*; save it as UTF-8"),
        ("a.csv", b"title,text\nT,t\n", "body", "--column must be one of 'title', 'text', got 'body'"),
        (
            "a.csv",
            b"label,comment\n1,one\n",
            None,
            "--column must name the texts, one of 'label', 'comment', got none; or give",
        ),
        ("a.csv", b'text\n"one\ntwo\n', None, "unexpected end of data"),
        ("a.jsonl", b'{"title": "T"}\n', None, "--column must name the texts, one of 'title', got None"),
        ("a.jsonl", b"[1]\n", None, "--data must hold one JSON object a line, got list"),
        ("a.jsonl", b"not json\n", None, "--data must hold one JSON object a line, got"),
    ],
)
def test_files_that_hold_no_texts_are_named(tmp_path, name, content, column, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read_dataset(str(tmp_path / name), "test", column, 9)


def test_a_data_set_of_the_hub_needs_a_library(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(ValueError, match="--data must be a file, got 'glue'; .*pip install datasets"):
        read_dataset("glue", "test", None, 9)


def test_a_data_set_of_the_hub_is_read_by_its_split(monkeypatch):
    class Library:
        @staticmethod
        def load_dataset(name, split, streaming):
            if split != "test":
                raise ValueError("Bad split")
            return iter([{"sentence": "one", "label": 1}, {"sentence": "two", "label": 0}])

    monkeypatch.setitem(sys.modules, "datasets", Library)
    assert read_dataset("glue", "test", None, 1) == ["one"]
    with pytest.raises(ValueError, match="--data must name a data set with the split 'dev', got 'glue': Bad split"):
        read_dataset("glue", "dev", None, 1)
    assert hub.__doc__


# ---------------------------------------------------------------------------------------- study


@pytest.fixture
def study(run, folder, tmp_path):
    """Make a study of three sentences, and what the page saves of people who always put DIG-greedy first."""
    files = ("--html", "page.html", "--key", "key.json")
    made = run("study make", "--model", folder, "--data", "texts.txt", "--n-steps", 4, *files)
    assert made.exit_code == 0, made.output
    key = StudyKey.from_dict(json.loads((tmp_path / "key.json").read_text()))
    best_first = ["dig_greedy", "integrated_gradients", "dig_maxcount"]
    for person in ("ann", "bob"):
        answers = answers_of(key, lambda _: best_first, person)
        (tmp_path / f"{person}.json").write_text(json.dumps(answers))
    return key


def test_a_page_a_key_and_a_score(run, study, tmp_path):
    page = (tmp_path / "page.html").read_text()
    assert study.methods == ("integrated_gradients", "dig_greedy", "dig_maxcount")
    assert not any(method in page for method in study.methods)
    scored = run("study score", "--key", "key.json", "ann.json", "bob.json", "--json", "score.json")
    assert scored.exit_code == 0, scored.output
    assert scored.stdout.index("dig_greedy") < scored.stdout.index("dig_maxcount")
    score = json.loads((tmp_path / "score.json").read_text())
    assert score["n_participants"] == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--key", "key.json", "nobody.json"], "FILE must be a file that can be read, got 'nobody.json'"),
        (["--key", "page.html", "ann.json"], "--key must hold JSON, got 'page.html'"),
        (
            ["--key", "ann.json", "bob.json"],
            "--key must be a key that 'make' wrote, got 'ann.json': data must have the format",
        ),
        (["--key", "key.json", "key.json"], "'key.json'"),
        (["--key", "key.json"], "Missing argument 'FILE"),
        (
            ["--key", "key.json", "ann.json", "--json", "ann.json"],
            "--json must be another file than the answers 'ann.json'",
        ),
        (["--key", "key.json", "text.json"], "'text.json'.* must be an integer, got '1'"),
        (["--key", "list.json", "ann.json"], "--key must hold a JSON object, got list in 'list.json'"),
    ],
)
def test_wrong_answers_are_one_line(run, study, tmp_path, arguments, message):
    (tmp_path / "list.json").write_text("[]")
    text = json.loads((tmp_path / "ann.json").read_text())
    text["ranks"][0][0] = "1"
    (tmp_path / "text.json").write_text(json.dumps(text))
    assert re.search(message, one_line(run("study score", *arguments)))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--methods", "random"], "--methods must name at least two methods, got 'random'"),
        (["--html", "key.json"], "--key must be another file than --html"),
        (["--data", "texts.csv"], "--data must be a file or the name of a data set"),
    ],
)
def test_a_study_that_cannot_be_made_is_one_line(run, arguments, message):
    files = ("--html", "page.html", "--key", "key.json")
    assert re.search(message, one_line(run("study make", "--data", "texts.txt", *files, *arguments)))


def test_help_is_answered_without_pytorch():
    code = (
        "import sys\nfrom captum_dig.cli import app\n"
        "try:\n    app(['compare', '--help'])\nexcept SystemExit:\n    pass\nassert 'torch' not in sys.modules"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=dict(os.environ), check=False
    )
    assert done.returncode == 0, done.stderr
    assert "Compare attribution methods" in done.stdout
