"""Processes of `multiprocessing`, and the jobs of pools.

A process gets its invitation with the data that it is prepared with, before its main module is loaded. Which worker of
a pool takes which job is chance, so a job takes an invitation of its own along, and whichever worker has it works in
the job's lane from its first line to its last.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from pytest_agentreplay.errors import ReplayDiverged
from pytest_agentreplay.intercept.ordering import threads_multiprocessing
from pytest_agentreplay.intercept.process import child_start
from pytest_agentreplay.intercept.session.patching import wrap

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

    from pytest_agentreplay.intercept.process.child_start import ChildHandover, Here, Invitation, Inviter

_joined_pools: weakref.WeakSet[Any] = weakref.WeakSet()
"""Pools that have worked for a test: their workers have joined its run, and have to be told of jobs of no test."""


@dataclass(frozen=True, slots=True, eq=False)
class ProcessJob:
    """A job with the invitation to its lane, None for one of no test.

    `of_pool` says that a worker of `multiprocessing.Pool` does it, which no BaseException may reach: such a worker dies
    of one without a word, and whoever waits for the job waits for ever.
    """

    invitation: Invitation | None
    taking: ChildHandover
    work: Callable[..., Any]
    of_pool: bool = False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Do the work, in the worker."""
        try:
            with self.taking.job(self.invitation):
                return self.work(*args, **kwargs)
        except ReplayDiverged as refused:
            if not self.of_pool:
                raise
            raise RuntimeError(str(refused)) from None


def patch(library: ModuleType) -> None:
    """Wrap what `library` starts a process with, or hands a job to a pool with. Doing it twice does nothing."""
    match library.__name__:
        case "multiprocessing.spawn":
            wrap(library, "get_preparation_data", _wrap_preparation, always=True)
        case "concurrent.futures.process":
            wrap(library.ProcessPoolExecutor, "submit", _wrap_submit, always=True)
        case "multiprocessing.pool":
            threads_multiprocessing.patch(library)  # first: pools of threads keep the methods that they inherit
            wrap(library.Pool, "apply_async", _wrap_apply, always=True)
            wrap(library.Pool, "_guarded_task_generation", _wrap_tasks, always=True)


class Prepared(NamedTuple):
    """An invitation among the data that `multiprocessing` prepares a process with: unpickled, it is taken up.

    `main` is the file that is loaded as the main module.
    """

    invitation: Invitation
    taking: ChildHandover
    main: str

    def __reduce__(self) -> tuple[Callable[..., object], tuple[Invitation, str]]:
        return self.taking.join, (self.invitation, self.main)


def _wrap_preparation(original: Callable[[str], dict[str, Any]]) -> Callable[[str], dict[str, Any]]:
    def prepare(name: str) -> dict[str, Any]:
        data = original(name)
        inviter = child_start.inviting()
        taking = child_start.taking()
        # The fork server asks under the name "ignore" for paths alone.
        if inviter is not None and taking is not None and name != "ignore":
            data["agentreplay"] = Prepared(
                inviter.invite(child_start.kind_here()), taking, data.get("init_main_from_path", "")
            )
        return data

    return prepare


def _job(workers: object, work: Callable[..., Any], *, of_pool: bool = False) -> Callable[..., Any]:
    """`work` as it is handed to a pool."""
    inviter, taking = child_start.inviting(), child_start.taking()
    if taking is None or (inviter is None and workers not in _joined_pools):
        return work
    if inviter is None:
        return ProcessJob(None, taking, work, of_pool=of_pool)
    _joined_pools.add(workers)
    return ProcessJob(inviter.invite("j"), taking, work, of_pool=of_pool)


def _wrap_submit(original: Callable[..., Any]) -> Callable[..., Any]:
    def submit(self: Any, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        return original(self, _job(self, fn), *args, **kwargs)

    return submit


def _wrap_apply(original: Callable[..., Any]) -> Callable[..., Any]:
    def apply_async(self: Any, func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return original(self, _job(self, func, of_pool=True), *args, **kwargs)

    return apply_async


def _wrap_tasks(original: Callable[..., Any]) -> Callable[..., Any]:
    def guard_tasks(self: Any, result_job: Any, func: Callable[..., Any], iterable: Any) -> Iterator[Any]:
        if threads_multiprocessing.is_thread_pool(self):
            return cast("Iterator[Any]", original(self, result_job, func, iterable))
        inviter = child_start.inviting()
        here = None if inviter is None else inviter.here()
        return _wrap_each_task(self, original(self, result_job, func, iterable), inviter, here)

    return guard_tasks


def _wrap_each_task(workers: Any, tasks: Iterator[Any], inviter: Inviter | None, here: Here | None) -> Iterator[Any]:
    """Yield the tasks as the pool's own thread takes them, each in a lane below the one that has handed them over."""
    taking = child_start.taking()
    for result, number, work, args, kwargs in tasks:
        if taking is not None and inviter is not None:
            _joined_pools.add(workers)
            work = ProcessJob(inviter.invite("j", here=here), taking, work, of_pool=True)  # noqa: PLW2901  what goes to the worker
        elif taking is not None and workers in _joined_pools:
            work = ProcessJob(None, taking, work, of_pool=True)  # noqa: PLW2901  as above
        yield result, number, work, args, kwargs
