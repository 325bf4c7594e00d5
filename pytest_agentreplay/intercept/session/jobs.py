"""The jobs that a test has given to executors: how many wait for a thread there, and how many run.

They are counted as they begin and end. To look at each job of a pool at each answer made a pool of 2,400 jobs seven
times as slow as it is without us.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Future


class Jobs:
    """The jobs that are not done. Safe from any thread; each operation takes as long whatever their number."""

    def __init__(self) -> None:
        """None so far."""
        self.clear()

    def clear(self) -> None:
        """Forget all of them: in another run, or in a fork, where the lock may have been held."""
        self._lock = threading.Lock()
        self._open: set[Job] = set()
        self._executors: dict[int, _Executor] = {}
        self._lost: deque[Job] = deque()
        self.running = 0
        """How many have begun."""

    def __len__(self) -> int:
        """Return how many are not done."""
        self._collect()
        return len(self._open)

    def __iter__(self) -> Iterator[Future[Any]]:
        """Iterate over the futures of those that are not done."""
        self._collect()
        for job in list(self._open):
            future = job.future() if job.future is not None else None
            if future is not None:
                yield future

    def queue(self, executor: int, threads: int) -> Job:
        """Return a job that waits for one of the `threads` of `executor`."""
        job = Job(self, executor)
        with self._lock:
            self._open.add(job)
            self._executors.setdefault(executor, _Executor(threads)).waiting += 1
        return job

    def has_job_to_begin(self) -> bool:
        """Return whether a job waits for an executor that has a thread for it."""
        self._collect()
        with self._lock:
            return any(each.waiting and each.running < each.threads for each in self._executors.values())

    def begin(self, job: Job) -> None:
        """`job` runs from now on."""
        with self._lock:
            if job in self._open and not job.runs:
                job.runs = True
                self.running += 1
                self._executors[job.executor].waiting -= 1
                self._executors[job.executor].running += 1

    def end(self, job: Job) -> None:
        """`job` is done, or was cancelled. Twice does nothing."""
        with self._lock:
            if job not in self._open:
                return
            self._open.discard(job)
            executor = self._executors[job.executor]
            if job.runs:
                self.running -= 1
                executor.running -= 1
            else:
                executor.waiting -= 1
            if not executor.waiting and not executor.running:
                del self._executors[job.executor]

    def lose(self, job: Job) -> None:
        """Nobody holds the future of `job` any more: its executor has dropped it. No lock, the collector calls this."""
        self._lost.append(job)

    def _collect(self) -> None:
        while self._lost:
            self.end(self._lost.popleft())


class Job:
    """One of them."""

    __slots__ = ("executor", "future", "jobs", "runs")

    def __init__(self, jobs: Jobs, executor: int) -> None:
        """Made by `Jobs.queue` alone."""
        self.jobs = jobs
        self.executor = executor
        self.runs = False
        self.future: weakref.ref[Future[Any]] | None = None

    def begin(self) -> None:
        """Its function is called now."""
        self.jobs.begin(self)

    def end(self, _future: object = None) -> None:
        """It is done."""
        self.jobs.end(self)

    def is_told_by(self, future: Future[Any]) -> None:
        """`future` says when it is done."""
        self.future = weakref.ref(future, lambda _: self.jobs.lose(self))
        future.add_done_callback(self.end)


class _Executor:
    """The jobs of one executor."""

    __slots__ = ("running", "threads", "waiting")

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.waiting = self.running = 0
