import json
import multiprocessing
import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from captum_dig import Greedy, MonotonicPath, RandomNeighbor, TextExplainer, Vocabulary
from captum_dig.paths.anchors import AnchorSearch
from captum_dig.paths.folders import TableFolder
from tests import reference

ROWS = torch.randn(90, 5, generator=torch.Generator().manual_seed(3))
IDS = torch.arange(1, 60)


def make(folder, rows=ROWS, strategy="greedy", n_anchors=6, n_neighbors=15, **options):
    return MonotonicPath(
        Vocabulary(rows), strategy, n_anchors, n_neighbors, folder=folder and TableFolder(folder), **options
    )


def files(folder):
    return sorted(Path(folder).glob("*"))


@pytest.mark.parametrize("strategy", ["greedy", "maxcount"])
def test_a_table_from_disk_is_the_table_in_memory(tmp_path, strategy):
    expected = make(None, strategy=strategy).anchor_ids(IDS, 0)
    first = make(tmp_path, strategy=strategy)
    assert torch.equal(first.anchor_ids(IDS, 0), expected)
    first.store()
    second = make(tmp_path, strategy=strategy)
    assert second.table(ROWS[0]).n_ranked == first.table(ROWS[0]).n_ranked > 0
    assert torch.equal(second.anchor_ids(IDS, 0), expected)
    assert torch.equal(
        second.anchor_ids(torch.arange(90), 0), make(None, strategy=strategy).anchor_ids(torch.arange(90), 0)
    )


@given(st.integers(0, 10_000), st.sampled_from(["greedy", "maxcount"]))
def test_the_whole_table_is_the_sequential_rule(seed, strategy):
    rows = torch.randint(0, 3, (16, 3), generator=torch.Generator().manual_seed(seed)).float()
    path = make(None, rows, strategy, 4, 9)
    assert list(path.table(rows[0]).rank_all()) == [16]
    got = path.anchor_ids(torch.arange(16), 0).tolist()
    assert got == [reference.anchor_ids(rows.numpy(), w, 0, 4, 9, strategy) for w in range(16)]


def test_a_row_is_ranked_once():
    calls = []

    class Counted(AnchorSearch):
        def cost(self, neighborhood):
            calls.extend(neighborhood.word_ids.tolist())
            return neighborhood.candidates.norm(dim=-1)

    path = make(None, strategy=Counted())
    path.anchor_ids(IDS, 0)
    path.anchor_ids(IDS, 0)
    assert len(calls) == len(set(calls)) == path.table(ROWS[0]).n_ranked


@pytest.mark.parametrize(
    "options",
    [
        {"rows": ROWS + 1e-3},
        {"strategy": "maxcount"},
        {"n_anchors": 7},
        {"n_neighbors": 16},
        {"candidates": torch.arange(90) % 2 == 0},
    ],
    ids=["contents", "strategy", "anchors", "neighbours", "candidates"],
)
def test_whatever_a_table_depends_on_has_a_file_of_its_own(tmp_path, options):
    for path in (make(tmp_path), make(tmp_path, **options)):
        path.anchor_ids(IDS, 0)
        path.store()
    assert len(files(tmp_path)) == 2
    path.anchor_ids(IDS, 1)
    path.store()
    assert len(files(tmp_path)) == 3


def test_a_subclass_of_a_built_in_search_is_not_kept(tmp_path):
    class Far(Greedy):
        def cost(self, neighborhood):
            return -super().cost(neighborhood)

    kept(tmp_path)
    far = make(tmp_path, strategy=Far())
    assert torch.equal(far.anchor_ids(IDS, 0), make(None, strategy=Far()).anchor_ids(IDS, 0))
    far.store()
    assert make(tmp_path).anchor_ids(IDS, 0).equal(make(None).anchor_ids(IDS, 0))


@pytest.mark.parametrize(
    "search", [RandomNeighbor(seed=1), type("Own", (AnchorSearch,), {"cost": lambda self, n: n.candidates.sum(-1)})()]
)
def test_searches_without_an_identity_are_not_kept(tmp_path, search):
    path = make(tmp_path, strategy=search)
    path.anchor_ids(IDS, 0)
    path.store()
    assert files(tmp_path) == []


def kept(folder):
    path = make(folder)
    path.anchor_ids(IDS, 0)
    path.store()
    (file,) = files(folder)
    return file


def truncate(file):
    file.write_bytes(file.read_bytes()[:200])


def replace_text(file):
    file.write_text("something else")


def empty(file):
    file.write_bytes(b"")


def with_arrays(**changes):
    def change(file):
        with np.load(file) as old:
            arrays = {name: old[name] for name in old.files}
        arrays |= {name: make_array(arrays) for name, make_array in changes.items()}
        with file.open("wb") as stream:
            np.savez(stream, **arrays)

    return change


BAD_FILES = {
    "truncated": truncate,
    "foreign": replace_text,
    "empty": empty,
    "another key": with_arrays(key=lambda a: np.array(json.dumps({"format": 0}))),
    "another depth": with_arrays(ranked=lambda a: a["ranked"][:, :-1]),
    "ids beyond the vocabulary": with_arrays(ids=lambda a: a["ids"] + 1000),
    "anchors beyond the vocabulary": with_arrays(ranked=lambda a: a["ranked"] + 1000),
    "another dtype": with_arrays(ids=lambda a: a["ids"].astype(np.float32)),
    "objects": with_arrays(ids=lambda a: np.array([{}], dtype=object)),
}


@pytest.mark.parametrize("damage", BAD_FILES.values(), ids=BAD_FILES.keys())
def test_a_file_that_cannot_be_used_is_reported_once_and_replaced(tmp_path, damage):
    damage(kept(tmp_path))
    path = make(tmp_path)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        got = path.anchor_ids(IDS, 0)
        path.store()
        path.anchor_ids(IDS, 0)
        path.store()
    assert [str(w.message).split(".npz ")[1].split(" (")[0] for w in caught] in (
        ["cannot be read"],
        ["holds something else than its table; the table is built anew"],
    )
    assert torch.equal(got, make(None).anchor_ids(IDS, 0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert make(tmp_path).table(ROWS[0]).n_ranked > 0


def test_a_folder_that_cannot_be_written_is_reported_once(tmp_path):
    (tmp_path / "file").write_text("")
    path = make(tmp_path / "file" / "folder")
    path.anchor_ids(IDS, 0)
    with pytest.warns(UserWarning, match=r"cannot be written \(.*\); tables are kept in memory only.*CAPTUM_DIG_CACHE"):
        path.store()
    path.anchor_ids(torch.arange(90), 0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        path.store()


def test_a_full_disk_leaves_the_old_file_whole(tmp_path, monkeypatch):
    file = kept(tmp_path)
    before = file.read_bytes()

    def full(path, content):
        with path.open("wb") as stream:
            stream.write(b"half")
        raise OSError(28, "No space left on device")

    path = make(tmp_path)
    path.anchor_ids(torch.arange(90), 0)
    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.warns(UserWarning, match="No space left on device"):
        path.store()
    assert files(tmp_path) == [file]
    assert file.read_bytes() == before


def rank_some(folder, first):
    path = make(folder)
    path.anchor_ids(torch.arange(first, first + 30), 0)
    for _ in range(5):
        path.table(ROWS[0]).rank(torch.arange(first, first + 30))
        path.store()


def test_processes_at_once(tmp_path):
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=rank_some, args=(str(tmp_path), first)) for first in (1, 31, 60)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0, 0]
    assert len(files(tmp_path)) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.equal(make(tmp_path).anchor_ids(IDS, 0), make(None).anchor_ids(IDS, 0))


def test_rows_of_another_process_are_kept(tmp_path):
    one, other = make(tmp_path), make(tmp_path)
    for path, ids in ((one, [1, 2]), (other, [50, 51])):
        path.table(ROWS[0]).rank(torch.tensor(ids))
    one.store()
    other.store()
    assert make(tmp_path).table(ROWS[0]).n_ranked == 4


def test_the_folder_goes_by_argument_environment_and_platform(tmp_path, monkeypatch, classifier, tokenizer):
    def explain(**options):
        explainer = TextExplainer(classifier, tokenizer, strategy="greedy", n_anchors=4, n_neighbors=12, **options)
        explainer.explain("a witty movie")

    monkeypatch.setenv("CAPTUM_DIG_CACHE", str(tmp_path / "environment"))
    explain()
    assert len(files(tmp_path / "environment")) == 1
    explain(cache=tmp_path / "argument")
    assert len(files(tmp_path / "argument")) == 1
    monkeypatch.setenv("CAPTUM_DIG_CACHE", str(tmp_path / "off"))
    explain(cache=False)
    assert not (tmp_path / "off").exists()
    monkeypatch.setenv("CAPTUM_DIG_CACHE", "")
    assert TableFolder.default() is None
    monkeypatch.delenv("CAPTUM_DIG_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "platform"))
    if sys.platform == "linux":
        assert TableFolder.default().folder == tmp_path / "platform" / "captum-dig" / "tables"


def test_results_do_not_depend_on_the_cache(tmp_path, classifier, tokenizer):
    def explain(cache):
        explainer = TextExplainer(classifier, tokenizer, strategy="greedy", n_anchors=4, n_neighbors=12, cache=cache)
        return explainer.explain(["a witty movie", "dull"])

    assert explain(tmp_path) == explain(tmp_path) == explain(False)


def test_the_whole_vocabulary_may_be_ranked_at_once(tmp_path, classifier, tokenizer):
    def make_explainer():
        return TextExplainer(classifier, tokenizer, strategy="greedy", n_anchors=4, n_neighbors=12, cache=tmp_path)

    table = make_explainer().table("mask")
    assert list(table.rank_all()) == [len(table)] == [len(tokenizer)]
    file = table.store()
    assert files(tmp_path) == [file]
    before = file.stat().st_mtime_ns
    make_explainer().explain("a witty movie", baseline="mask")
    assert file.stat().st_mtime_ns == before
    with pytest.raises(ValueError, match="strategy must be an anchor search, got 'straight_line'; pass"):
        make_explainer().table(strategy="straight_line")
    with pytest.raises(ValueError, match="baseline must be"):
        make_explainer().table("padd")


def test_importing_the_package_touches_no_folder(tmp_path):
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    environment.pop("CAPTUM_DIG_CACHE")
    subprocess.run([sys.executable, "-c", "import captum_dig.text.explainer"], env=environment, check=True)
    assert not (tmp_path / "captum-dig").exists()
