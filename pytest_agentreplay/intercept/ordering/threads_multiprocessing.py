"""Jobs of `multiprocessing.pool.ThreadPool` (joblib's threads use it) belong to whoever hands them in.

The pool's own threads outlive the test that first used them and take whatever job comes next. So each job is stamped,
as with `ThreadPoolExecutor`, each element of a `map` by itself. Where nobody names a chunk size it is 1: the default
depends on how many processors the machine has, and with it which calls run beside each other.
"""

from __future__ import annotations

import functools
import sys
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.intercept.session.lanes import CALL_CONTEXT, begin, mark_starting
from pytest_agentreplay.intercept.session.patching import wrap

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import ModuleType

    from pytest_agentreplay.intercept.session.jobs import Job
    from pytest_agentreplay.intercept.session.lanes import CallContext
    from pytest_agentreplay.intercept.session.patching import Seam


def patch(library: ModuleType) -> None:
    """Wrap how a `ThreadPool` begins and takes jobs. Twice does nothing. CPython 3.11-3.14 have these methods."""
    pool = library.ThreadPool
    wrapped: dict[str, Callable[[Seam], Seam]] = {
        "__init__": _remove_stamp,
        "apply_async": _apply_async,
        "_map_async": functools.partial(_map_async, star=library.starmapstar),
        "imap": _wrap_imap,
        "imap_unordered": _wrap_imap,
    }
    for name, make in wrapped.items():
        wrap(pool, name, make)


def is_thread_pool(pool: object) -> bool:
    """Return whether the pool runs its jobs in threads of this process."""
    return isinstance(pool, sys.modules["multiprocessing.pool"].ThreadPool)


def _remove_stamp(original: Seam) -> Seam:
    def begin_pool(self: Any, *args: Any, **kwargs: Any) -> None:
        token = CALL_CONTEXT.set(None)
        try:
            original(self, *args, **kwargs)
        finally:
            CALL_CONTEXT.reset(token)

    return begin_pool


def _apply_async(original: Seam) -> Seam:
    def apply_async(self: Any, func: Callable[..., Any], args: Iterable[Any] = (), *more: Any, **keywords: Any) -> Any:
        call_context, args = CALL_CONTEXT.get(), tuple(args)
        if call_context is not None:
            func = _make_job(self, call_context, func, args)
            more, keywords = _carry_callbacks(call_context, more, keywords)
        return original(self, func, args, *more, **keywords)

    return apply_async


def _map_async(original: Seam, star: object) -> Seam:
    def map_async(
        self: Any, func: Callable[..., Any], iterable: Iterable[Any], mapper: object, *more: Any, **keywords: Any
    ) -> Any:
        call_context = CALL_CONTEXT.get()
        if call_context is None:
            return original(self, func, iterable, mapper, *more, **keywords)
        # Pool.map and its like give: chunksize, callback, error_callback.
        chunksize = (more[0] if more else keywords.pop("chunksize", None)) or 1
        more, keywords = _carry_callbacks(call_context, more[1:], keywords)
        with mark_starting(call_context):
            jobs = [*_make_jobs(self, call_context, func, iterable, chunksize)]
            if mapper is star:
                return original(
                    self, _call_with, [(run, *item) for run, item in jobs], mapper, chunksize, *more, **keywords
                )
            return original(self, _call, jobs, mapper, chunksize, *more, **keywords)

    return map_async


def _wrap_imap(original: Seam) -> Seam:
    def imap(self: Any, func: Callable[..., Any], iterable: Iterable[Any], chunksize: int = 1) -> Any:
        call_context = CALL_CONTEXT.get()
        if call_context is None:
            return original(self, func, iterable, chunksize)
        return original(self, _call, _make_jobs(self, call_context, func, iterable, chunksize), chunksize)

    return imap


def _make_jobs(
    pool: Any, call_context: CallContext, func: Callable[..., Any], iterable: Iterable[Any], chunksize: int
) -> Iterator[Any]:
    for item in iterable:
        yield _make_job(pool, call_context, func, queued=chunksize == 1), item


def _call(job: tuple[Callable[..., Any], Any]) -> Any:
    return job[0](job[1])


def _call_with(job: Callable[..., Any], *args: Any) -> Any:
    return job(*args)


def _make_job(
    pool: Any, call_context: CallContext, func: Callable[..., Any], args: tuple[Any, ...] = (), *, queued: bool = True
) -> Callable[..., Any]:
    """Return `func` stamped, and list it among the jobs of the test: as a future, which tells how far it is.

    With `queued` any free thread of the pool takes it; else it waits for the others of its chunk, and is listed late.
    """
    future: Future[None] = Future()

    def list_job() -> Job:
        # How many threads a pool has, CPython 3.11-3.14: https://github.com/python/cpython/blob/3.13/Lib/multiprocessing/pool.py
        job = call_context.interception.work.jobs.queue(id(pool), pool._processes)
        job.is_told_by(future)
        return job

    job = list_job() if queued else None
    stamped = begin(call_context, func, args)(func)

    @functools.wraps(func)
    def run(*args: Any, **kwargs: Any) -> Any:
        (job or list_job()).begin()
        try:
            return stamped(*args, **kwargs)
        finally:
            future.set_result(None)

    return run


def _carry_callbacks(
    call_context: CallContext, more: Iterable[Any], keywords: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments with callbacks whose jobs count as the strand's: joblib hands its next ones in there."""

    def run_within(callback: Any) -> Any:
        if not callable(callback):
            return callback

        @functools.wraps(callback)
        def run_callback(*args: Any) -> Any:
            token = CALL_CONTEXT.set(call_context)
            try:
                return callback(*args)
            finally:
                CALL_CONTEXT.reset(token)

        return run_callback

    return tuple(map(run_within, more)), {name: run_within(value) for name, value in keywords.items()}
