"""The same rows from several processes, from Ray and from `datasets`, also if a worker ends."""

import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from captum_dig import TextExplainer
from captum_dig.datasets.batch import ExplainBatch
from captum_dig.datasets.engines import Job, OnRay, Processes, here
from captum_dig.datasets.running import explain_table
from tests.datasets.test_running import TEXTS, content, scores, written

QUICK = {"n_steps": 8, "strategy": "straight_line"}
# One core each: threads decide the last bits of a sum.
ONE_THREAD = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}


def jobs(n):
    return [Job(number, 2 * number, [number, number]) for number in range(n)]


@dataclass(frozen=True)
class Adder:
    """A worker that ends, or fails, at one of its jobs."""

    folder: str = ""
    ends_at: int = -1
    n_ends: int = 0
    fails_at: int = -1

    def __call__(self, job):
        if job.number == self.ends_at:
            traces = len(list(Path(self.folder).iterdir()))
            if traces < self.n_ends:
                (Path(self.folder) / str(traces)).touch()
                os.kill(os.getpid(), signal.SIGKILL)
        if job.number == self.fails_at:
            raise ValueError(f"job {job.number}")
        return sum(job.rows)


def done(engine, worker, n=5):
    return {job.number: found for job, found in engine(worker, jobs(n))}


SUMS = {number: 2 * number for number in range(5)}


def test_jobs_are_done_here_or_in_processes():
    assert done(here, Adder()) == SUMS
    assert done(Processes(3), Adder(), 0) == {}


@pytest.mark.slow
def test_a_process_that_ends_is_replaced(tmp_path):
    assert done(Processes(2), Adder(str(tmp_path), ends_at=3, n_ends=2)) == SUMS
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.slow
def test_a_job_that_ends_every_process_is_named(tmp_path):
    with pytest.raises(
        RuntimeError, match="got 3 that died on rows 2 to 3, the last with status -9; if memory is full"
    ):
        done(Processes(2), Adder(str(tmp_path), ends_at=1, n_ends=9))


@pytest.mark.slow
def test_errors_of_a_worker_are_raised_here():
    with pytest.raises(ValueError, match="job 2"):
        done(Processes(2), Adder(fails_at=2))


@pytest.mark.slow
def test_jobs_are_done_in_processes():
    assert done(Processes(2), Adder()) == SUMS


def test_two_processes_write_the_rows_of_one(tmp_path):
    data = written(tmp_path / "data.csv", [{"text": text} for text in TEXTS])
    run = partial(explain_table, TextExplainer.demo, data, rows_per_part=2, **QUICK)
    run(tmp_path / "one")
    report = run(tmp_path / "two", workers=2)
    assert (report.n_rows, report.n_errors) == (5, 0)
    same(scores(tmp_path / "one"), scores(tmp_path / "two"))


def same(first, second):
    assert len(first) == len(second)
    for one, other in zip(first, second, strict=True):
        assert one["words"] == other["words"]
        assert one["word_scores"] == pytest.approx(other["word_scores"], abs=1e-5)
        assert one["settings_hash"] == other["settings_hash"]


def command(data, out, *more):
    typed = ["explain", "--data", str(data), "--out", str(out), "--rows-per-part", "2", "--n-steps", "24", *more]
    return [sys.executable, "-m", "captum_dig", *typed]


def n_parts(folder):
    return len(list(folder.glob("part-*")))


@pytest.mark.slow
def test_a_run_that_is_killed_goes_on_to_the_same_bytes(tmp_path):
    rows = [{"text": f"{TEXTS[n % 5]} {n}", "id": n} for n in range(60)]
    data = written(tmp_path / "data.csv", rows)
    environment = os.environ | ONE_THREAD
    subprocess.run(command(data, tmp_path / "whole"), check=True, env=environment, capture_output=True)
    n_killed, rng = 0, random.Random(0)
    # Set it to 20 for the long check.
    for _ in range(int(os.environ.get("CAPTUM_DIG_KILLS", "8"))):
        n_wanted = n_parts(tmp_path / "parts") + rng.randint(1, 3)
        process = subprocess.Popen(command(data, tmp_path / "parts"), env=environment, stderr=subprocess.DEVNULL)
        # Parts are counted, so the speed of the machine does not matter. Then somewhere inside the next part.
        while process.poll() is None and n_parts(tmp_path / "parts") < n_wanted:
            time.sleep(0.01)
        time.sleep(rng.uniform(0, 0.2))
        n_killed += process.poll() is None
        process.kill()
        process.wait()
    assert n_killed > 3
    subprocess.run(command(data, tmp_path / "parts"), check=True, env=environment, capture_output=True)
    assert content(tmp_path / "parts") == content(tmp_path / "whole")


# ------------------------------------------------------------------------------- engines of others


@pytest.fixture(scope="module")
def ray():
    ray = pytest.importorskip("ray")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield ray
    ray.shutdown()


@pytest.mark.slow
def test_ray_does_jobs_and_restarts_workers(ray, tmp_path):
    assert done(OnRay(2), Adder()) == SUMS
    assert done(OnRay(1), Adder(str(tmp_path), ends_at=3, n_ends=2)) == SUMS
    assert len(list(tmp_path.iterdir())) == 2
    with pytest.raises(ValueError, match="job 2"):
        done(OnRay(2), Adder(fails_at=2))


@pytest.mark.slow
def test_ray_writes_the_rows_of_one_process(ray, tmp_path):
    data = written(tmp_path / "data.csv", [{"text": text} for text in TEXTS])
    run = partial(explain_table, TextExplainer.demo, data, rows_per_part=2, **QUICK)
    run(tmp_path / "one")
    run(tmp_path / "ray", engine="ray", workers=2)
    same(scores(tmp_path / "one"), scores(tmp_path / "ray"))


_TWO_NODES = """
import sys
import ray
from ray.cluster_utils import Cluster
from captum_dig import TextExplainer
from captum_dig.datasets import explain_table

cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
cluster.add_node(num_cpus=1)
ray.init(address=cluster.address, log_to_driver=False)
cluster.wait_for_nodes()
assert sum(node["Alive"] for node in ray.nodes()) == 2
ray.shutdown()
report = explain_table(
    TextExplainer.demo, sys.argv[1], sys.argv[2], rows_per_part=1, n_steps=8, strategy="straight_line",
    engine="ray", workers=2, address=cluster.address,
)
cluster.shutdown()
print(report.n_rows, report.n_errors)
"""


@pytest.mark.slow
def test_a_cluster_of_two_nodes(tmp_path):
    """Each node has one core, so the two workers are on different nodes."""
    pytest.importorskip("ray")
    data = written(tmp_path / "data.csv", [{"text": text} for text in TEXTS])
    explain_table(TextExplainer.demo, data, tmp_path / "one", rows_per_part=1, **QUICK)
    typed = [sys.executable, "-c", _TWO_NODES, str(data), str(tmp_path / "ray")]
    done = subprocess.run(typed, check=True, capture_output=True, text=True, timeout=300, env=os.environ | ONE_THREAD)
    assert done.stdout.split()[-2:] == ["5", "0"]
    same(scores(tmp_path / "one"), scores(tmp_path / "ray"))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning:ray")
def test_ray_data_maps_batches(ray):
    from ray.data import ActorPoolStrategy, from_items

    table = from_items([{"id": n, "text": text} for n, text in enumerate(TEXTS)])
    explained = table.map_batches(
        ExplainBatch,
        fn_constructor_kwargs={"options": QUICK},
        batch_size=2,
        compute=ActorPoolStrategy(size=2),
        num_cpus=1,
    )
    rows = sorted(explained.take_all(), key=lambda row: row["id"])
    explainer = TextExplainer.demo()
    same(rows, [explainer.explain(text, **QUICK).to_row() for text in TEXTS])


@pytest.mark.slow
@pytest.mark.parametrize("num_proc", [None, 2])
def test_datasets_map_batches(num_proc):
    datasets = pytest.importorskip("datasets")
    table = datasets.Dataset.from_dict({"id": list(range(5)), "text": TEXTS})
    explain = ExplainBatch(TextExplainer.demo, options=QUICK)
    rows = list(table.map(explain, batched=True, batch_size=2, num_proc=num_proc))
    explainer = TextExplainer.demo()
    same(rows, [explainer.explain(text, **QUICK).to_row() for text in TEXTS])
    assert [row["id"] for row in rows] == list(range(5))
