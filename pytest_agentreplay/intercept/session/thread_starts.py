"""Threads and jobs begin for the test that starts them: `Thread.start` and `ThreadPoolExecutor.submit` are wrapped."""

from __future__ import annotations

import functools
import sys
import threading
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.intercept.session.callers import library_importing, run_for_import
from pytest_agentreplay.intercept.session.lanes import CALL_CONTEXT, begin, carry, course_of, starting

if TYPE_CHECKING:
    from collections.abc import Callable


def stamp_threads() -> None:
    """Wrap `Thread.start` and `ThreadPoolExecutor.submit`, once and for good; inactive they cost one look-up."""
    from concurrent.futures import ThreadPoolExecutor  # loads logging and queue, so only when a test needs it
    from concurrent.futures.thread import _worker

    if getattr(threading.Thread.start, "__agentreplay__", None) is CALL_CONTEXT:
        return
    start, submit = threading.Thread.start, ThreadPoolExecutor.submit

    @functools.wraps(start)
    def stamped_start(self: threading.Thread) -> None:
        call_context = CALL_CONTEXT.get()
        # A worker of a pool serves later tests too; its jobs are marked instead.
        library = "" if getattr(self, "_target", None) is _worker else library_importing(sys._getframe(1))
        if library:
            self.run = run_for_import(library, self.run)  # type: ignore[method-assign]
        if call_context is not None:
            target = getattr(self, "_target", None)  # CPython 3.11-3.14; a subclass with a run of its own has none
            self.run = begin(call_context, target or self.run, course=course_of(call_context, self))(self.run)  # type: ignore[method-assign]
            call_context.interception.threads.add(self)
            with starting(call_context):
                return start(self)
        return start(self)

    @functools.wraps(submit)  # type: ignore[arg-type]
    def stamped_submit(self: ThreadPoolExecutor, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        if library := library_importing(sys._getframe(1)):
            fn = run_for_import(library, fn)
        call_context = CALL_CONTEXT.get()
        if call_context is None:
            return submit(self, fn, *args, **kwargs)
        # A pool outlives the test that first used it: its worker must not be stamped, only the job.
        token = CALL_CONTEXT.set(None)
        try:
            with starting(call_context):
                course = course_of(call_context)
                job = call_context.interception.jobs.queue(id(self), self._max_workers)
                work, args = carry(call_context, fn, args, course, job.begin)
                try:
                    future = submit(self, work, *args, **kwargs)
                except BaseException:  # it is shut down
                    job.end()
                    raise
                if course is not None:
                    course.runs = future
                job.is_told_by(future)
            return future
        finally:
            CALL_CONTEXT.reset(token)

    stamped_start.__agentreplay__ = CALL_CONTEXT  # type: ignore[attr-defined]
    threading.Thread.start = stamped_start  # type: ignore[method-assign]
    ThreadPoolExecutor.submit = stamped_submit  # type: ignore[method-assign,assignment]
