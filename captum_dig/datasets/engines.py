"""Engines: the same work in this process, in several, or on a cluster.

Takes a picklable worker and jobs; gives each job's result as soon as it is there. `captum_dig.datasets.running` writes
the results, so a worker that ends early loses nothing: its job is done again.
"""

import multiprocessing
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from multiprocessing.connection import Connection, wait
from typing import Any, Final, TypeAlias

import torch

from captum_dig.datasets.schema import extra

# How often a job is tried whose worker ends in it.
_TRIES: Final = 3


@dataclass(frozen=True)
class Job:
    """Rows of a table that belong together.

    Attributes:
        number: The number of the part that they become.
        first: The number of the first row.
        rows: The rows.
    """

    number: int
    first: int
    rows: list[Any]


# A picklable function from a job to its result.
Worker: TypeAlias = Callable[[Job], Any]
Engine: TypeAlias = Callable[[Worker, Iterable[Job]], Iterator[tuple[Job, Any]]]


def here(worker: Worker, jobs: Iterable[Job]) -> Iterator[tuple[Job, Any]]:
    """Do one job after the other in this process."""
    for job in jobs:
        yield job, worker(job)


@dataclass(frozen=True)
class Processes:
    """Do jobs in several processes of this machine, which share its cores.

    Attributes:
        n_workers: The number of processes.

    Raises:
        RuntimeError: If the workers of one job end three times, for instance because memory is full.
    """

    n_workers: int

    def __call__(self, worker: Worker, jobs: Iterable[Job]) -> Iterator[tuple[Job, Any]]:
        """Do jobs; a process that ends is replaced."""
        waiting = iter(jobs)
        n_threads = max(1, torch.get_num_threads() // self.n_workers)
        running: list[_Process] = []
        try:
            first = list(islice(waiting, self.n_workers))
            # All begin to import before the first gets its job, which waits for that.
            running += [_Process(worker, n_threads) for _ in first]
            for process, job in zip(running, first, strict=True):
                process.give(job)
            while running:
                ready = wait([process.connection for process in running])
                for process in [one for one in running if one.connection in ready]:
                    job, found = process.take()
                    if found is None:
                        running[running.index(process)] = process.replaced()
                        continue
                    following = next(waiting, None)
                    if following is None:
                        process.end()
                        running.remove(process)
                    else:
                        process.give(following)
                    if isinstance(found, Exception):
                        raise found
                    yield job, found
        finally:
            for process in running:
                process.end()


@dataclass
class _Process:
    """A worker in a process of its own, with the job that it does."""

    worker: Worker
    n_threads: int
    tries: int = 1
    job: Job | None = None
    connection: Connection = field(init=False)
    process: Any = field(init=False)

    def __post_init__(self) -> None:
        # A forked child of a process with threads may hang.
        context = multiprocessing.get_context("spawn")
        self.connection, other = context.Pipe()
        self.process = context.Process(target=_serve, args=(self.worker, other, self.n_threads), daemon=True)
        self.process.start()
        other.close()

    def give(self, job: Job) -> "_Process":
        self.job = job
        # One that has ended is noticed when its result is taken.
        with suppress(OSError):
            self.connection.send(job)
        return self

    def take(self) -> tuple[Job, Any]:
        """The finished job and its result, or an exception; None as the result if the process has ended."""
        job = self.job
        if job is None:
            raise RuntimeError("a worker must have a job before it gives a result")
        try:
            found = self.connection.recv()
        except (EOFError, OSError):
            self.process.join()
            return job, None
        self.tries, self.job = 1, None
        return job, found

    def replaced(self) -> "_Process":
        """A new process for the same job."""
        job = self.job
        if job is None or self.tries >= _TRIES:
            place = "no row" if job is None else f"rows {job.first} to {job.first + len(job.rows) - 1}"
            raise RuntimeError(
                f"a worker must finish its job, got {self.tries} that died on {place}, the last with status "
                f"{self.process.exitcode}; if memory is full, use fewer workers or a smaller internal_batch_size"
            )
        return _Process(self.worker, self.n_threads, self.tries + 1).give(job)

    def end(self) -> None:
        """Let the process end by itself, which stores its tables; one that still works is stopped."""
        self.connection.close()
        if self.job is not None:
            self.process.terminate()
        self.process.join()


def _serve(worker: Worker, connection: Connection, n_threads: int) -> None:
    """Do jobs until the other side ends."""
    torch.set_num_threads(n_threads)
    while True:
        try:
            job = connection.recv()
        except (EOFError, OSError, KeyboardInterrupt):
            return
        try:
            found = worker(job)
        except KeyboardInterrupt:
            return
        except Exception as error:
            found = error
        connection.send(found)


@dataclass(frozen=True)
class OnRay:
    """Do jobs on a cluster of Ray; Ray restarts workers that end, and gives them their job again.

    Attributes:
        n_workers: The number of workers.
        address: The address of the cluster; None for the one that Ray finds, or a new one on this machine.
        n_gpus: The GPUs of each worker.
        n_cpus: The cores of each worker.

    Raises:
        MissingExtraError: If Ray is not installed.
    """

    n_workers: int
    address: str | None = None
    n_gpus: float = 0
    n_cpus: int = 1

    def __call__(self, worker: Worker, jobs: Iterable[Job]) -> Iterator[tuple[Job, Any]]:
        """Do jobs, two for each worker on their way."""
        ray = extra("ray", "ray")
        ours = not ray.is_initialized()
        if ours:
            ray.init(address=self.address, log_to_driver=False, include_dashboard=False)
        try:
            yield from self._done(ray, worker, iter(jobs))
        finally:
            if ours:
                ray.shutdown()

    def _done(self, ray: Any, worker: Worker, waiting: Iterator[Job]) -> Iterator[tuple[Job, Any]]:
        restarted = {"max_restarts": -1, "max_task_retries": -1}
        remote = ray.remote(num_cpus=self.n_cpus, num_gpus=self.n_gpus, **restarted)(_Served)
        actors = [remote.remote(worker, self.n_cpus) for _ in range(self.n_workers)]
        running: dict[Any, tuple[Job, Any]] = {}
        for actor in [*actors, *actors]:
            _start(running, actor, waiting)
        while running:
            (done,), _ = ray.wait(list(running), num_returns=1)
            job, actor = running.pop(done)
            _start(running, actor, waiting)
            try:
                found = ray.get(done)
            except ray.exceptions.RayTaskError as error:
                raise error.cause from error
            yield job, found


def _start(running: dict[Any, tuple[Job, Any]], actor: Any, waiting: Iterator[Job]) -> None:
    job = next(waiting, None)
    if job is not None:
        running[actor.do.remote(job)] = (job, actor)


class _Served:
    """A worker in a process of Ray."""

    def __init__(self, worker: Worker, n_cpus: int) -> None:
        torch.set_num_threads(n_cpus)
        self._worker = worker

    def do(self, job: Job) -> Any:
        return self._worker(job)
