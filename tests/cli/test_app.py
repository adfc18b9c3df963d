"""The command line: what a person sees, what files hold, and one line for whatever goes wrong."""

import contextlib
import inspect
import json
import os
import re
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from transformers import DistilBertModel
from typer.testing import CliRunner

from captum_dig import TextAttribution, TextExplainer, __version__, cli
from captum_dig.catalogue import CATALOGUE
from captum_dig.cli import explaining, models, options
from captum_dig.entries import KINDS, STRATEGIES
from captum_dig.models.samples import OVERFLOWS
from captum_dig.quadrature import RULES
from tests.tiny_models import save_tiny, tiny_classifier, tiny_tokenizer

TEXT = "a gorgeous, witty movie"
LONG = "good movie " * 40
ESCAPE = "\x1b"
QUICK = ("--n-anchors", "4", "--n-neighbors", "12", "--n-steps", "8")
# A background among 256 colours, or among 16: Rich keeps the codes of a style from an earlier terminal of the process.
RED = re.compile(rf"{ESCAPE}\[[0-9;]*(48;[0-9;]*|4[1-7]|10[1-7])m(movie|gorgeous)")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a tiny classifier that reads 32 tokens."""
    return save_tiny(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture
def run_command(monkeypatch, tmp_path):
    """Run any command, in an empty folder."""
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: CliRunner().invoke(cli.app, [*map(str, arguments)], prog_name="captum-dig")


@pytest.fixture
def run(folder, monkeypatch, tmp_path):
    """Run `captum-dig explain` on the tiny model, in an empty folder."""
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)

    def explain(*arguments, model=folder, stdin=None, **environment):
        return CliRunner(env=environment).invoke(
            cli.app,
            ["explain", "--model", str(model), *QUICK, *map(str, arguments)],
            prog_name="captum-dig",
            input=stdin,
        )

    return explain


def one_line(result):
    """The single line on standard error of a command that failed."""
    assert result.exit_code == 2, result.output
    assert result.stderr.endswith("\n")
    assert result.stderr.count("\n") == 1
    return result.stderr[:-1]


PROGRAM = """
import json, sys, time
from captum_dig import TextAttribution, cli
from captum_dig.cli import models

seconds, entry = float(sys.argv.pop(1)), json.loads(sys.argv.pop(1))

class Explainer:
    def explain_each(self, texts, *_, **__):
        for text in texts:
            time.sleep(seconds)
            yield TextAttribution.from_dict(entry | {"text": text})

models.load = lambda *_, **__: Explainer()
cli.main()
"""


@pytest.fixture
def process(entry):
    """Start `captum-dig explain` as its own process, with an explainer that needs no PyTorch and finds the same in each text."""
    stack = contextlib.ExitStack()

    def start(*arguments, seconds=0, environment=(), **options):
        known = {
            k: v for k, v in os.environ.items() if k not in ("FORCE_COLOR", "NO_COLOR", "PYTHONWARNINGS", "COLUMNS")
        }
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options
        command = [sys.executable, "-c", PROGRAM, str(seconds), entry, "explain", *map(str, arguments)]
        # A runner in the background may ignore Ctrl-C, which its children would inherit.
        options = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)} if os.name == "posix" else {}
        return stack.enter_context(subprocess.Popen(command, env=known | dict(environment), **streams, **options))

    with stack:
        yield start


@pytest.fixture(scope="module")
def entry(folder):
    explainer = TextExplainer.from_pretrained(folder, n_anchors=4, n_neighbors=12)
    return json.dumps(explainer.explain(TEXT, n_steps=8).to_dict())


# ------------------------------------------------------------------------------------------ what is shown


def test_version():
    result = CliRunner().invoke(cli.app, ["--version"])
    assert (result.exit_code, result.stdout, result.stderr) == (0, f"captum-dig {__version__}\n", "")


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"]])
def test_help_of_the_program(arguments):
    result = CliRunner().invoke(cli.app, arguments, prog_name="captum-dig")
    assert result.exit_code == 0
    assert "Usage: captum-dig" in result.stdout
    assert 'captum-dig explain "A gorgeous, witty, seductive movie."' in result.stdout
    assert ESCAPE not in result.stdout


def test_help_of_the_command_names_every_choice_and_the_demo():
    result = CliRunner().invoke(cli.app, ["explain", "--help"], prog_name="captum-dig")
    assert result.exit_code == 0
    words = " ".join(result.stdout.replace("│", " ").split())
    for name in (
        *CATALOGUE.names(*STRATEGIES, "rule", "task", "format"),
        *options.CANDIDATES,
        *OVERFLOWS,
        "pad",
        "predicted",
        "[+]",
        "[-]",
    ):
        assert name in words
    assert (
        "Without --model, the text is read by a small English sentiment classifier that comes with captum-dig." in words
    )
    assert "captum-dig explain --file reviews.txt --html reviews.html" in words
    assert 'captum-dig explain -- "-5 stars: begins with a dash"' in words


def test_defaults_are_those_of_the_explainer():
    assert sorted(CATALOGUE.names("rule")) == sorted(RULES)
    ours = {name: p.default for name, p in inspect.signature(explaining.explain).parameters.items()}
    theirs = inspect.signature(TextExplainer.__init__).parameters | dict(
        inspect.signature(TextExplainer.explain).parameters
    )
    shared = ("candidates", "n_anchors", "n_neighbors", "seed", "target", "n_steps", "method", "overflow", "task")
    assert {name: ours[name] for name in shared} == {name: theirs[name].default for name in shared}
    assert ours["tolerance"] == theirs["tolerance_percent"].default
    assert ours["strategy"] == inspect.signature(TextExplainer.__init__).parameters["strategy"].default


def test_several_baselines_are_averaged(run):
    result = run(TEXT, "--baseline", "pad", "--baseline", "mask", "--json", "-")
    (found,) = json.loads(result.stdout)
    assert found["settings"]["baseline"] == "[PAD], [MASK]"
    (alone,) = json.loads(run(TEXT, "--json", "-").stdout)
    assert alone["settings"]["baseline"] == "[PAD]"


def test_a_text_is_shown_without_colour_in_a_pipe(run):
    result = run(TEXT)
    assert (result.exit_code, result.stderr) == (0, "")
    assert ESCAPE not in result.stdout
    assert re.search(r"^Predicted: (NEGATIVE|POSITIVE) \(\d+\.\d %\)$", result.stdout, re.MULTILINE)
    assert re.search(r"^Error: about [\d.]+ % from the integration", result.stdout, re.MULTILINE)
    assert re.search(r"^.*gorgeous.*movie.*\[[+-]+\]", result.stdout, re.MULTILINE)
    assert "[+] speaks for POSITIVE, [-] against it" in result.stdout


def test_colours_where_they_are_asked_for(run):
    result = run(TEXT, FORCE_COLOR="1", TERM="xterm-256color")
    assert result.exit_code == 0
    assert RED.search(result.stdout)
    assert "[+]" not in result.stdout


@pytest.mark.parametrize(
    "environment", [{"NO_COLOR": "1"}, {"NO_COLOR": "1", "FORCE_COLOR": "1", "TERM": "xterm-256color"}]
)
def test_no_color_sends_no_escape_at_all(run, environment):
    result = run(TEXT, **environment)
    assert result.exit_code == 0
    assert ESCAPE not in result.stdout
    assert "[+] speaks for" in result.stdout


def test_escape_sequences_in_a_text_are_shown_not_sent(run, tmp_path):
    result = run(f"good {ESCAPE}[2J{ESCAPE}]0;title\x07 [red]movie[/red]", "--html", "page.html", "--json", "out.json")
    assert result.exit_code == 0
    assert ESCAPE not in result.output
    assert "\x07" not in result.output
    assert r"\x1b" in result.stdout
    for name in ("page.html", "out.json"):
        assert ESCAPE.encode() not in (tmp_path / name).read_bytes()


def test_several_texts_come_in_order_with_a_line_between(run):
    result = run("good movie", "bad movie", "dull")
    assert result.exit_code == 0
    places = [
        re.search(pattern, result.stdout).start()
        for pattern in (r"good(\[.*\])? movie", r"bad(\[.*\])? movie", r"\ndull")
    ]
    assert places == sorted(places)
    assert result.stdout.count("-" * 80) == 2
    assert result.stderr == ""


def test_an_index_may_stand_for_a_label(run):
    for target, label in (("0", "NEGATIVE"), ("1", "POSITIVE"), ("positive", "POSITIVE")):
        result = run(TEXT, "--target", target)
        assert f"Explained: log-odds of {label}" in result.stdout


def test_options_reach_the_explainer(run):
    options = {
        "--baseline": ("mask", "[MASK]"),
        "--strategy": ("random_anchor", "random_anchor"),
        "--candidates": ("all", "all"),
        "--n-anchors": ("3", 3),
        "--n-neighbors": ("9", 9),
        "--n-steps": ("5", 5),
        "--method": ("riemann_left", "riemann_left"),
        "--seed": ("11", 11),
    }
    result = run(TEXT, "--json", "-", *(part for option, (typed, _) in options.items() for part in (option, typed)))
    settings = json.loads(result.stdout)[0]["settings"]
    assert {o: settings[o.removeprefix("--").replace("-", "_")] for o in options} == {
        o: kept for o, (_, kept) in options.items()
    }


def test_auto_takes_more_steps_for_a_smaller_error(run):
    n_steps = []
    for tolerance in ("90", "0.01"):
        options = ("--n-steps", "auto", "--tolerance", tolerance, "--spread", "90", "--baseline", "mask", "--json", "-")
        (entry,) = json.loads(run(TEXT, *options).stdout)
        n_steps.append(entry["settings"]["n_steps"])
    assert n_steps[0] == 48
    assert n_steps[1] > 48


# ---------------------------------------------------------------------------------------- files of texts


def test_a_file_adds_its_lines_to_the_texts(run, tmp_path):
    (tmp_path / "texts.txt").write_bytes("\ufeffgood movie\r\n\r\n   \nbad \u2028 movie\n\u00e9t\u00e9 ☃".encode())
    result = run("dull", "--file", "texts.txt", "--json", "-")
    assert result.exit_code == 0
    assert [entry["text"] for entry in json.loads(result.stdout)] == ["dull", "good movie", "bad \u2028 movie", "été ☃"]


def test_a_dash_is_standard_input(run):
    result = run("--file", "-", "--json", "-", stdin="good movie\n\nbad movie\n")
    assert [entry["text"] for entry in json.loads(result.stdout)] == ["good movie", "bad movie"]


def test_windows_of_a_long_text_are_all_shown(run):
    result = run(LONG, "--overflow", "windows", "--json", "-")
    assert (result.exit_code, result.stderr) == (0, "")
    entries = json.loads(result.stdout)
    assert len(entries) > 1
    assert "".join(entry["text"] for entry in entries) == LONG


def test_a_warning_is_one_line(run):
    result = run(LONG, "good movie")
    assert result.exit_code == 0
    (line,) = result.stderr.splitlines()
    assert re.fullmatch(r"warning: text 1 of 2 has 82 tokens, 50 more than the 32 that the model reads; .*", line)
    assert "Cut off" in result.stdout


# ------------------------------------------------------------------------------------------------- output


def test_json_gives_equal_results_back(run, tmp_path):
    result = run(TEXT, "bad movie ☃", "--json", "out.json")
    assert result.exit_code == 0
    assert "Predicted" in result.stdout
    data = (tmp_path / "out.json").read_text("utf-8")
    assert "☃" in data
    entries = json.loads(data, parse_constant=pytest.fail)
    results = [TextAttribution.from_dict(entry) for entry in entries]
    assert [one.text for one in results] == [TEXT, "bad movie ☃"]
    assert [one.to_dict() for one in results] == entries


def test_json_on_standard_output_is_alone(run):
    result = run(TEXT, "--json", "-")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith("[\n  {\n")
    assert TextAttribution.from_dict(json.loads(result.stdout)[0]).text == TEXT


def test_html_holds_the_texts_escaped(run, tmp_path):
    result = run("good <script>alert(1)</script>", TEXT, "--html", "page.html")
    assert result.exit_code == 0
    page = (tmp_path / "page.html").read_text("utf-8")
    assert "<script" not in page
    assert "&lt;" in page
    assert "gorgeous" in page


def test_new_files_have_the_usual_mode_and_old_ones_keep_theirs(run, tmp_path):
    (tmp_path / "usual").touch()
    old = tmp_path / "old.json"
    old.touch()
    old.chmod(0o640)
    assert run(TEXT, "--html", "new.html", "--json", "old.json").exit_code == 0
    assert stat.S_IMODE((tmp_path / "new.html").stat().st_mode) == stat.S_IMODE((tmp_path / "usual").stat().st_mode)
    assert stat.S_IMODE(old.stat().st_mode) == 0o640
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new.html", "old.json", "usual"]


def test_a_link_stays_a_link(run, tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link.json").symlink_to(tmp_path / "real" / "out.json")
    assert run(TEXT, "--json", "link.json").exit_code == 0
    assert (tmp_path / "link.json").is_symlink()
    assert json.loads((tmp_path / "real" / "out.json").read_text("utf-8"))


def test_a_device_stays_a_device(run):
    assert run(TEXT, "--json", "/dev/null").exit_code == 0
    assert not Path("/dev/null").is_file()


def test_an_old_file_survives_a_run_that_finds_nothing(run, tmp_path):
    (tmp_path / "out.json").write_text("precious", "utf-8")
    (tmp_path / "page.html").write_text("precious too", "utf-8")
    one_line(run(TEXT, "--json", "out.json", "--html", "page.html", "--target", "NEUTRAL"))
    assert (tmp_path / "out.json").read_text("utf-8") == "precious"
    assert (tmp_path / "page.html").read_text("utf-8") == "precious too"
    assert len(list(tmp_path.iterdir())) == 2


def test_what_was_found_before_an_error_is_written(run, tmp_path):
    result = run(
        "good movie", "bad movie", LONG, "dull", "--overflow", "error", "--json", "out.json", "--html", "page.html"
    )
    assert one_line(result).startswith(
        "error: text 3 of 4 has 82 tokens, 50 more than the 32 that the model reads; shorten it"
    )
    assert [entry["text"] for entry in json.loads((tmp_path / "out.json").read_text("utf-8"))] == [
        "good movie",
        "bad movie",
    ]
    assert "bad" in (tmp_path / "page.html").read_text("utf-8")
    assert result.stdout.count("Predicted") == 2


def test_what_was_found_before_an_interruption_is_written(run, tmp_path, monkeypatch):
    each = TextExplainer.explain_each

    def interrupted(*arguments, **options):
        yield next(each(*arguments, **options))
        raise KeyboardInterrupt

    monkeypatch.setattr(TextExplainer, "explain_each", interrupted)
    result = run("good movie", "bad movie", "--json", "out.json")
    assert (result.exit_code, result.stderr) == (130, "")
    assert [entry["text"] for entry in json.loads((tmp_path / "out.json").read_text("utf-8"))] == ["good movie"]


def test_a_write_that_fails_is_told_and_leaves_nothing_behind(run, tmp_path, monkeypatch):
    (tmp_path / "page.html").write_text("precious", "utf-8")

    def full(self, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    result = run(TEXT, "--html", "page.html", "--json", "/dev/null")
    assert (
        one_line(result) == "error: --html must be a file that can be written, got 'page.html': No space left on device"
    )
    assert (tmp_path / "page.html").read_text("utf-8") == "precious"
    assert len(list(tmp_path.iterdir())) == 1


# ------------------------------------------------------------------------------------- names and formats


def test_every_way_to_score_tokens_is_a_strategy(run):
    for name, kept in (("leave_one_out", "leave_one_out"), ("dig-greedy", "dig_greedy")):
        (found,) = json.loads(run(TEXT, "--strategy", name, "--json", "-").stdout)
        assert found["settings"]["strategy"] == kept


def test_a_format_takes_the_place_of_the_picture(run, tmp_path):
    result = run(TEXT, "bad movie", "--format", "jsonl")
    assert (result.exit_code, result.stderr) == (0, "")
    assert [json.loads(line)["text"] for line in result.stdout.splitlines()] == [TEXT, "bad movie"]
    for name, option in (("json", "--json"), ("html", "--html")):
        assert run(TEXT, "--format", name).stdout == run(TEXT, option, "-").stdout


def test_a_format_in_a_file_leaves_the_picture(run, tmp_path):
    result = run(TEXT, "--format", "text", "--out", "out.txt", "--json", "out.json", FORCE_COLOR="1", TERM="xterm")
    assert RED.search(result.stdout) or ESCAPE in result.stdout
    assert "[+] speaks for " in (tmp_path / "out.txt").read_text("utf-8")
    assert json.loads((tmp_path / "out.json").read_text("utf-8"))[0]["text"] == TEXT


@pytest.mark.parametrize("columns", [40, 80])
def test_the_list_names_everything_and_fits(run_command, columns, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    result = run_command("list")
    assert (result.exit_code, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert ESCAPE not in result.stdout
    assert max(map(len, lines)) <= columns
    assert not any(line.endswith(" ") for line in lines)
    begun = [line.split()[0] for line in lines if re.match("  [^ ]", line)]
    assert begun == [entry.name for kind in KINDS for entry in CATALOGUE if entry.kind == kind]
    words = result.stdout.split()
    assert all(word in words for entry in CATALOGUE for word in entry.about.split())


def test_searches_that_draw_are_marked():
    searches = [entry for entry in CATALOGUE if entry.kind == "search"]
    assert [entry.draws for entry in searches] == [entry.load().draws for entry in searches]


RULE = """
from captum_dig.catalogue import Entry
from captum_dig.quadrature.rules import Riemann
from dataclasses import dataclass

@dataclass(frozen=True)
class Third(Riemann):
    place: "float" = 1 / 3

ENTRIES = [Entry("third", "rule", "third", Third), Entry("dig-mine", "path", "m", "captum_dig:StraightLine")]
"""


def test_several_files_add_names_to_every_option(run_command, folder, tmp_path):
    (tmp_path / "json.py").write_text(RULE, "utf-8")
    (tmp_path / "more.py").write_text(RULE.replace('"third", "rule"', '"more", "rule"'), "utf-8")
    plugins = ("--plugin", "json.py", "--plugin", "more.py")
    for rule in ("third", "more"):
        options = ("--strategy", "dig-mine", "--method", rule, "--n-steps", 8, "--json", "-")
        result = run_command(*plugins, "explain", TEXT, "--model", folder, *options)
        assert result.exit_code == 0, result.output
        settings = json.loads(result.stdout)[0]["settings"]
        assert settings["method"].startswith("Third(place=0.33")
        assert settings["strategy"] == "dig-mine"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("none.py", None, "--plugin must be a file of Python, such as toys.py, got 'none.py'"),
        ("toys.txt", "ENTRIES = []", "--plugin must be a file of Python, such as toys.py, got 'toys.txt'"),
        ("toys.py", "ENTRIES = [", r"--plugin must run, got 'toys.py': SyntaxError: .*line 1\)"),
        ("toys.py", b"\xff", "--plugin must run, got 'toys.py': SyntaxError: .*"),
        ("toys.py", "import nothing_like_it", "--plugin must run, got 'toys.py': ModuleNotFoundError: .*"),
        ("toys.py", "import sys; sys.exit(0)", "--plugin must run, got 'toys.py': SystemExit: 0"),
        ("toys.py", "", "--plugin must hold ENTRIES, a list of captum_dig.Entry, got 'toys.py' without"),
        ("toys.py", "ENTRIES = [1]", "--plugin must hold ENTRIES, a list of captum_dig.Entry, got 'toys.py' without"),
        (
            "toys.py",
            "from captum_dig import Entry; ENTRIES = [Entry('a', 'colour', 'A', int)]",
            "--plugin must run, got 'toys.py': ValueError: kind must be one of 'search', .*, got 'colour'",
        ),
        (
            "toys.py",
            "from captum_dig import Entry; ENTRIES = [Entry('a', 'path', 'A', 'captum_dig.paths:Missing')]",
            "--plugin must run, got 'toys.py': AttributeError: .*'Missing'",
        ),
    ],
)
def test_a_plug_in_that_cannot_be_used_is_one_line(run_command, tmp_path, name, content, message):
    if content is not None:
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    result = run_command("--plugin", name, "list")
    assert re.fullmatch(f"error: {message}", one_line(result))
    assert result.stdout == ""


# ------------------------------------------------------------------------------------------------- errors


OWN = "; captum-dig list says what each does, and --plugin FILE adds names of your own"


@pytest.fixture
def no_model(monkeypatch):
    """Fail the test if the model is loaded: these errors are found before."""
    monkeypatch.setattr(models, "load", lambda *_, **__: pytest.fail("the model was loaded"))


@pytest.mark.usefixtures("no_model")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "TEXT must be given, got nothing; type a sentence in quotes, or name a file with --file"),
        (
            [TEXT, "--strategy", "greddy"],
            f"--strategy must be one of {', '.join(map(repr, CATALOGUE.names(*STRATEGIES)))}, got 'greddy'{OWN}",
        ),
        (
            [TEXT, "--method", "simpson"],
            f"--method must be one of {', '.join(map(repr, CATALOGUE.names('rule')))}, got 'simpson'{OWN}",
        ),
        ([TEXT, "--candidates", "none"], "--candidates must be one of 'words', 'all', got 'none'"),
        ([TEXT, "--overflow", "wrap"], "--overflow must be one of 'truncate', 'windows', 'error', got 'wrap'"),
        (
            [TEXT, "--task", "labels2"],
            f"--task must be one of 'labels', 'zero_shot', 'tokens', 'spans', 'masked_word', 'continuation', 'sequence', 'similarity', got 'labels2'{OWN}",
        ),
        (
            [TEXT, "--format", "xml"],
            f"--format must be one of 'text', 'html', 'json', 'jsonl', 'csv', 'markdown', 'latex', 'matrix', 'grid', 'svg', 'png', got 'xml'{OWN}",
        ),
        (
            [TEXT, "--out", "out.json"],
            "--out must come with --format, got 'out.json' alone; name a format, such as --format json",
        ),
        ([TEXT, "--format", "json", "--json", "-"], "--out must be another file than --json, got '-'; rename one"),
        ([TEXT, "--n-steps", "0"], "--n-steps must be auto or an integer of at least 1, got '0'"),
        ([TEXT, "--n-steps", "many"], "--n-steps must be auto or an integer of at least 1, got 'many'"),
        ([TEXT, "--n-anchors", "-3"], "--n-anchors must be an integer of at least 1, got -3"),
        ([TEXT, "--n-neighbors", "0"], "--n-neighbors must be an integer of at least 1, got 0"),
        (
            ["good \udcff movie"],
            r"TEXT must be UTF-8, got 'good \udcff movie'; set the terminal to UTF-8, or use --file",
        ),
        (
            ["--file", "missing.txt"],
            "--file must be a file that can be read, got 'missing.txt': No such file or directory",
        ),
        (["--file", "folder"], "--file must be a file that can be read, got 'folder': Is a directory"),
        (
            ["--file", "latin.txt"],
            "--file must be UTF-8 text, got 'latin.txt' with byte 0xe9 in line 2; save it as UTF-8",
        ),
        (
            ["--file", "blank.txt"],
            "--file must hold at least one text, got 'blank.txt' without any; write one text a line",
        ),
        (
            [TEXT, "--file", "blank.txt"],
            "--file must hold at least one text, got 'blank.txt' without any; write one text a line",
        ),
        (["--file", "-"], "--file must hold at least one text, got standard input without any; write one text a line"),
        ([TEXT, "--html", "folder"], "--html must be a file, got the folder 'folder'; name a file in it"),
        (
            [TEXT, "--json", "nowhere/out.json"],
            "--json must be in a folder that exists, got 'nowhere/out.json'; create the folder first",
        ),
        (
            [TEXT, "--json", "latin.txt/out.json"],
            "--json must be in a folder that exists, got 'latin.txt/out.json'; create the folder first",
        ),
        (
            [TEXT, "--json", "/proc/out.json"],
            "--json must be a file that can be written, got '/proc/out.json': No such file or directory",
        ),
        (
            [TEXT, "--html", "same", "--json", "./same"],
            "--json must be another file than --html, got 'same'; rename one",
        ),
        ([TEXT, "--html", "-", "--json", "-"], "--json must be another file than --html, got '-'; rename one"),
        (
            ["--file", "latin.txt", "--json", "latin.txt"],
            "--json must be another file than --file, got 'latin.txt'; rename one",
        ),
    ],
)
def test_an_error_found_before_the_model_is_loaded(run, tmp_path, arguments, message):
    (tmp_path / "folder").mkdir()
    (tmp_path / "latin.txt").write_bytes("good movie\nun caf\u00e9".encode("latin-1"))
    (tmp_path / "blank.txt").write_text(" \n\t\n\n", "utf-8")
    result = run(*arguments)
    assert one_line(result) == f"error: {message}"
    assert result.stdout == ""
    assert len(list(tmp_path.iterdir())) == 3


@pytest.mark.usefixtures("no_model")
@pytest.mark.parametrize(
    ("option", "path"), [("--json", "locked/out.json"), ("--html", "mine.html"), ("--file", "secret.txt")]
)
def test_an_error_of_permissions(run, tmp_path, option, path):
    (tmp_path / "locked").mkdir(0o500)
    for name, mode in (("mine.html", 0o400), ("secret.txt", 0)):
        (tmp_path / name).touch()
        (tmp_path / name).chmod(mode)
    if os.access(tmp_path / "secret.txt", os.R_OK):
        pytest.skip("nothing is forbidden to this user")
    assert one_line(run(TEXT, option, path)).endswith(f"got '{path}': Permission denied")


@pytest.mark.usefixtures("no_model")
@pytest.mark.parametrize(
    ("arguments", "start"),
    [
        (["explain", "--n-anchors", "many", TEXT], "error: Invalid value for '--n-anchors': "),
        (["explain", "--steps", "5", TEXT], "error: No such option: --steps"),
        (["explain", TEXT, "--json"], "error: Option '--json' requires an argument"),
        (["explian", TEXT], "error: No such command 'explian'"),
        (["--colour"], "error: No such option: --colour"),
    ],
)
def test_an_error_of_typing(arguments, start):
    line = one_line(CliRunner().invoke(cli.app, arguments, prog_name="captum-dig"))
    assert line.startswith(start)
    assert re.search(r"; see captum-dig( explain)? --help$", line)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--target", "NEUTRAL"],
            "target must be 'predicted', one of 'NEGATIVE', 'POSITIVE', or an index below 2, got 'NEUTRAL'",
        ),
        (["--target", "2"], "target must be 'predicted', one of 'NEGATIVE', 'POSITIVE', or an index below 2, got '2'"),
    ],
)
def test_an_unknown_target(run, arguments, message):
    assert one_line(run(TEXT, *arguments)) == f"error: {message}"


def test_the_most_gradients_and_the_baseline_nearest_to_even_odds(run):
    options = ("--n-steps", "auto", "--tolerance", "0.001", "--max-steps", "60", "--baseline", "even", "--json", "-")
    (found,) = json.loads(run(TEXT, *options).stdout)
    assert found["settings"]["n_steps"] <= 60
    assert found["settings"]["baseline"] in {"[PAD]", "[MASK]", "[UNK]"}
    assert not found["converged"]


def test_an_unknown_baseline(run):
    line = one_line(run(TEXT, "--baseline", "nosuchtoken"))
    assert line.startswith("error: baseline must be one of 'pad', 'mask', 'unk', ")
    assert line.endswith("got 'nosuchtoken'")


def test_a_model_that_is_not_there(run):
    line = one_line(run(TEXT, model="./nowhere"))
    assert (
        line
        == "error: model must be a folder with a saved classifier or a name on the hub, got './nowhere': there is no such folder"
    )


def test_a_model_that_is_no_classifier(run, folder, tmp_path):
    tiny_tokenizer().save_pretrained(tmp_path / "bare")
    DistilBertModel(tiny_classifier(20).config).save_pretrained(tmp_path / "bare")
    line = one_line(run(TEXT, "--task", "labels", model=tmp_path / "bare"))
    assert line.startswith("error: model must be a fine-tuned sequence classifier, got ")
    assert "classifier.weight" in line
    # Without a head it is a model of embeddings, which compares two texts.
    assert "the text must be a mapping with 'text' and 'text_pair'" in one_line(run(TEXT, model=tmp_path / "bare"))


def test_an_error_of_ours_is_not_blamed_on_the_user(run, monkeypatch):
    monkeypatch.setattr(explaining, "progress_bar", lambda *_, **__: {}["a bug"])
    result = run(TEXT)
    assert isinstance(result.exception, KeyError)


# ------------------------------------------------------------------------------------- as its own process


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (["--help"], b"Usage: captum-dig"),
        (["explain", "--help"], b"Usage: captum-dig explain"),
        (["list"], b"staggered"),
    ],
)
def test_help_needs_no_pytorch(arguments, shown):
    command = [sys.executable, "-X", "importtime", "-m", "captum_dig", *arguments]
    result = subprocess.run(command, check=True, capture_output=True, timeout=120)
    assert shown in result.stdout
    assert not re.search(rb"\| +(torch|transformers|captum|faiss|numpy)$", result.stderr, re.MULTILINE)


def test_the_demo_explains_and_nothing_else_is_said():
    command = [sys.executable, "-m", "captum_dig", "explain", "A gorgeous, witty, seductive movie."]
    environment = {k: v for k, v in os.environ.items() if k != "FORCE_COLOR"}
    result = subprocess.run(command, env=environment, check=True, capture_output=True, timeout=240)
    assert result.stderr == b""
    assert b"Predicted: POSITIVE" in result.stdout
    assert ESCAPE.encode() not in result.stdout


def test_forced_colours_bring_no_bar_into_a_log(process):
    out, err = process(TEXT, TEXT, environment={"FORCE_COLOR": "1", "TERM": "xterm-256color"}).communicate(timeout=60)
    assert err == b""
    assert RED.search(out.decode())


def test_a_narrow_terminal_without_utf8(process):
    environment = {"COLUMNS": "40", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    out, err = process(TEXT, TEXT + " \u2603", environment=environment).communicate(timeout=60)
    lines = out.decode("ascii").splitlines()
    assert err == b""
    assert "-" * 40 in lines
    assert max(map(len, lines)) <= 45  # the escape is longer than what it stands for
    assert any(r"\u2603" in line for line in lines)


@pytest.mark.skipif(os.name == "nt", reason="pipes break in another way")
@pytest.mark.parametrize("extra", [[], ["--json", "-"]])
def test_a_reader_that_leaves_is_no_error(process, tmp_path, extra):
    read, write = os.pipe()
    os.close(read)
    result = process(TEXT, TEXT, "--html", tmp_path / "page.html", *extra, stdout=write)
    os.close(write)
    assert result.communicate(timeout=60)[1] == b""
    assert (tmp_path / "page.html").read_text("utf-8").count("gorgeous") >= 2


@pytest.mark.skipif(os.name == "nt", reason="pipes break in another way")
def test_nothing_is_explained_for_nobody(process):
    result = process(*[TEXT] * 1000, seconds=0.05)
    result.stdout.readline()
    result.stdout.close()
    assert result.stderr.read() == b""
    assert result.wait(timeout=20) == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("extra", [[], ["--json", "-"]])
def test_a_full_disk_is_one_line(process, extra):
    with Path("/dev/full").open("wb") as full:
        result = process(TEXT, *extra, stdout=full)
    err = result.communicate(timeout=60)[1].decode()
    assert result.returncode == 2
    assert re.fullmatch(r"error: .*No space left on device\n", err)


@pytest.mark.skipif(os.name == "nt", reason="no signals")
def test_ctrl_c_is_quiet_and_keeps_what_was_found(process, tmp_path):
    result = process(TEXT, TEXT, "--json", tmp_path / "out.json", seconds=3)
    result.stdout.readline()
    result.send_signal(signal.SIGINT)
    assert result.communicate(timeout=60)[1] == b""
    assert result.returncode == 130
    assert len(json.loads((tmp_path / "out.json").read_text("utf-8"))) == 1


@pytest.mark.skipif(os.name == "nt", reason="no pseudo-terminals")
@pytest.mark.parametrize("texts", [1, 2])
def test_a_bar_for_long_work_on_a_terminal_only(process, texts):
    import pty

    leader, follower = pty.openpty()
    result = process(*[TEXT] * texts, seconds=0.4, environment={"TERM": "xterm", "COLUMNS": "40"}, stderr=follower)
    os.close(follower)
    out = result.communicate(timeout=60)[0]
    shown = b""
    with contextlib.suppress(OSError):  # what Linux says once the process has gone
        while part := os.read(leader, 65536):
            shown += part
    os.close(leader)
    assert b"Loading the model" in shown
    assert (b"Explaining" in shown) == (texts > 1)
    assert shown.endswith(f"{ESCAPE}[?25h\r{ESCAPE}[1A{ESCAPE}[2K".encode())  # the cursor back, the line erased
    assert shown.count(b"\n") == shown.count(f"{ESCAPE}[1A".encode())  # nothing stays on the screen
    assert ESCAPE.encode() not in out


# neighbors ----------------------------------------------------------------------------------------


def test_neighbors_ranks_the_vocabulary_and_says_where(run_command, folder, tmp_path):
    options = ("--n-anchors", "4", "--n-neighbors", "12", "--cache", tmp_path / "tables")
    result = run_command("neighbors", folder, *options)
    assert result.exit_code == 0
    (file,) = (tmp_path / "tables").glob("*.npz")
    assert re.fullmatch(rf"157 rows ranked in \d+ s, kept in {re.escape(str(file))}\n", result.stdout)
    assert result.stderr == ""


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--strategy", "random_anchor"], f"--strategy must be one of 'greedy', 'maxcount', got 'random_anchor'{OWN}"),
        (["--n-anchors", "0"], "--n-anchors must be an integer of at least 1, got 0"),
        (
            ["--baseline", "padd", "--n-neighbors", "12", "--cache", "tables"],
            "baseline must be one of 'pad', .*, got 'padd'",
        ),
        (["--cache", __file__], "--cache must be a folder, got the file '.*test_app.py'; name another"),
        ([], "CAPTUM_DIG_CACHE must name a folder, got nothing; unset it, or name one with --cache"),
    ],
)
def test_neighbors_with_wrong_options(run_command, folder, options, message):
    result = run_command("neighbors", folder, *options)
    assert result.exit_code == 2
    assert re.fullmatch(f"error: {message}\n", result.stderr)


def test_neighbors_in_a_folder_that_cannot_be_written(run_command, folder, tmp_path):
    (tmp_path / "file").write_text("")
    options = ("--n-anchors", "4", "--n-neighbors", "12", "--cache", tmp_path / "file" / "tables")
    result = run_command("neighbors", folder, *options)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("warning: ")
    assert result.stderr.count("\n") == 1


def test_neighbors_keeps_the_search_of_a_plug_in_unless_it_draws(run_command, folder, tmp_path):
    entries = "Entry('mine', 'search', 'M', Greedy), Entry('drawn', 'search', 'D', RandomAnchor)"
    imports = "from captum_dig import Entry, Greedy, RandomAnchor"
    (tmp_path / "mine.py").write_text(f"{imports}\nENTRIES = [{entries}]\n", "utf-8")
    options = ("--n-anchors", "4", "--n-neighbors", "12", "--cache", tmp_path / "tables")
    command = ("--plugin", "mine.py", "neighbors", folder, *options, "--strategy")
    assert run_command(*command, "mine").exit_code == 0
    refused = one_line(run_command(*command, "drawn"))
    assert refused.endswith(f"must be one of 'greedy', 'maxcount', 'mine', got 'drawn'{OWN}")
