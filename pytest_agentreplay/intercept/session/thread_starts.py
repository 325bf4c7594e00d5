"""Threads and jobs begin for the test that starts them: `Thread.start` and `ThreadPoolExecutor.submit` are wrapped.

So do the items of a `queue.Queue` that threads take: which of several takes one is chance. What a thread does from then
on belongs to the item, in a lane below that of whoever put it there, unless the thread made calls before its first one.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections import deque
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.intercept.session.callers import find_importing_library, run_for_import
from pytest_agentreplay.intercept.session.lanes import (
    CALL_CONTEXT,
    begin,
    begin_course,
    carry,
    find_runner,
    make_child,
    mark_starting,
)
from pytest_agentreplay.intercept.session.replacing import replace_attribute, shield

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import ThreadPoolExecutor

    from pytest_agentreplay.intercept.session.lanes import CallContext

# What an item of a queue is labelled as. Where none of a recording made calls, it replays by threads.
ITEM = "queue.item"

# The attribute of a queue that holds the strands of its items, by the item's `id`.
LANES = "_agentreplay_lanes"


def stamp_threads() -> None:
    """Wrap `Thread.start` and `ThreadPoolExecutor.submit`, once and for good; inactive they cost one look-up."""
    import queue  # loaded, as logging, by the next import: so only when a test needs it
    from concurrent.futures import ThreadPoolExecutor
    from concurrent.futures.thread import _worker

    # `_worker` and `_max_workers`, CPython 3.11-3.14: https://github.com/python/cpython/blob/3.13/Lib/concurrent/futures/thread.py
    # `_target`, of which a subclass with a `run` of its own makes nothing: https://github.com/python/cpython/blob/3.13/Lib/threading.py
    if getattr(threading.Thread.start, "__agentreplay__", None) is CALL_CONTEXT:
        return
    start, submit = threading.Thread.start, ThreadPoolExecutor.submit
    stamped: Any = functools.wraps(start)(shield(functools.partial(_stamp_start, _worker), start))
    stamped.__agentreplay__ = CALL_CONTEXT
    replace_attribute(threading.Thread, "start", stamped)
    stamped = functools.wraps(submit)(shield(_stamp_submit, submit))  # type: ignore[arg-type]
    replace_attribute(ThreadPoolExecutor, "submit", stamped)
    for kind in (queue.Queue, queue.LifoQueue, queue.PriorityQueue):
        _stamp_items(kind)


def _stamp_start(worker: Any, start: Callable[..., None]) -> Callable[..., None]:
    def stamped_start(self: threading.Thread) -> None:
        call_context = CALL_CONTEXT.get()
        # A worker of a pool serves later tests too; its jobs are marked instead.
        library = "" if getattr(self, "_target", None) is worker else find_importing_library(sys._getframe(1))
        if library:
            self.run = run_for_import(library, self.run)  # type: ignore[method-assign]
        if call_context is not None:
            target = getattr(self, "_target", None)  # https://github.com/python/cpython/blob/3.13/Lib/threading.py
            self.run = begin(call_context, target or self.run, course=begin_course(call_context, self))(self.run)  # type: ignore[method-assign]
            call_context.interception.work.threads.add(self)
            with mark_starting(call_context):
                return start(self)
        return start(self)

    return stamped_start


def _stamp_submit(submit: Callable[..., Any]) -> Callable[..., Any]:
    def stamped_submit(self: ThreadPoolExecutor, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        if library := find_importing_library(sys._getframe(1)):
            fn = run_for_import(library, fn)
        call_context = CALL_CONTEXT.get()
        if call_context is None:
            return submit(self, fn, *args, **kwargs)
        # A pool outlives the test that first used it: its worker must not be stamped, only the job.
        token = CALL_CONTEXT.set(None)
        try:
            with mark_starting(call_context):
                course = begin_course(call_context)
                # `_max_workers`: https://github.com/python/cpython/blob/3.13/Lib/concurrent/futures/thread.py
                job = call_context.interception.work.jobs.queue(id(self), self._max_workers)
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

    return stamped_submit


def _stamp_items(kind: Any) -> None:
    """Wrap `_put` and `_get`, which subclasses override to keep items in another order (documented in queue.py)."""
    put, get = vars(kind)["_put"], vars(kind)["_get"]
    replace_attribute(kind, "_put", functools.wraps(put)(shield(_stamp_put, put)))
    replace_attribute(kind, "_get", functools.wraps(get)(shield(_stamp_get, get)))


def _stamp_put(put: Callable[..., None]) -> Callable[..., None]:
    def stamped_put(self: Any, item: Any) -> None:
        call_context = CALL_CONTEXT.get()
        if call_context is not None and call_context.interception.lanes.started.has(ITEM):
            item_lane = make_child(call_context, ITEM, begin_course(call_context))
            vars(self).setdefault(LANES, {}).setdefault(id(item), deque()).append(item_lane)
        put(self, item)

    return stamped_put


def _stamp_get(get: Callable[..., Any]) -> Callable[..., Any]:
    def stamped_get(self: Any) -> Any:
        item, kept = get(self), vars(self).get(LANES)
        if kept:
            waiting = kept.get(id(item))
            _enter_item_lane(waiting.popleft() if waiting else None)
            if not waiting:
                kept.pop(id(item), None)
        return item

    return stamped_get


def _enter_item_lane(item_lane: CallContext | None) -> None:
    """Have the thread that runs here work in `item_lane`, if it works for others and made no call before."""
    here, me = CALL_CONTEXT.get(), threading.get_ident()
    worker = here.worker or here if here is not None else None
    if worker is None or worker.label is None or worker.path or worker.thread != me or find_runner() != me:
        return
    if item_lane is not None and item_lane.parent is worker:
        return  # urllib3 keeps its connections in a queue: whoever takes what it has put works for nobody else
    if item_lane is None or item_lane.interception is not worker.interception:
        item_lane = worker
    else:
        item_lane.worker, item_lane.thread = worker, me
    CALL_CONTEXT.set(item_lane)
    worker.interception.work.running[me] = item_lane
