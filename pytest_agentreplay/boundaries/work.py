"""What is at work in a test: threads, executors' jobs and tasks that may still call, and what each of them waits for.

A thread is at work unless it stands in one of the waits of the standard library, where another thread has to come to
its aid. What waits there, and tasks that wait for a lock, a queue or a socket, are told apart from it: nobody can know
whether they will ever go on.
"""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.boundaries.waiting import awaiting

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Collection

    from pytest_agentreplay.boundaries.crossing import Crossing

MEETS = frozenset({"threading", "queue", "concurrent.futures._base"})
"""Modules in which a thread waits for another one."""

WAITS = MEETS | frozenset(
    {
        "selectors",
        "concurrent.futures.thread",
        "trio._core._thread_cache",
        "trio._core._io_epoll",
        "trio._core._io_kqueue",
        "trio._core._io_windows",
    }
)
"""Modules in which a thread waits for another one, or for an event."""

JOINS = frozenset(
    {
        ("asyncio.tasks", "_wait"),
        ("asyncio.tasks", "wait_for"),
        ("asyncio.tasks", "_wait_for_one"),
        ("asyncio.taskgroups", "__aexit__"),
        ("asyncio.taskgroups", "_aexit"),
        ("anyio._backends._asyncio", "__aexit__"),
    }
)
"""Where a task waits for other tasks by a future of its own."""


def waits(thread: int | None) -> bool:
    """Whether the thread stands in a wait of the standard library, or is gone."""
    frame = sys._current_frames().get(thread or 0)
    return frame is None or frame.f_globals.get("__name__") in WAITS


def joins(thread: int) -> object:
    """Where the thread stands, if it waits for another one; None where it does not."""
    frame = sys._current_frames().get(thread)
    if frame is None or frame.f_globals.get("__name__") not in MEETS:
        return None
    return id(frame), frame.f_lasti


def at_work(crossing: Crossing, held: Collection[int]) -> tuple[bool, bool]:
    """Whether a thread or job of the test is at work, and whether one waits for what we do not know.

    `held` are the threads that wait for an answer of ours, or run an event loop that is watched.
    """
    me, main = threading.get_ident(), crossing.main().thread
    # The test's own thread is one of them: it may stand in a wait until the thread that it starts has begun.
    others = [thread for thread in {main, *list(crossing.working)} if thread not in held and thread != me]
    standing = [thread for thread in others if waits(thread)]
    busy = len(standing) < len(others)
    begun = sum(thread.is_alive() for thread in list(crossing.threads))
    begun += sum(not job.done() for job in list(crossing.jobs))
    return busy, bool(standing) or begun > len(crossing.working)


def unknown_waits(loop: AbstractEventLoop, ours: Collection[object]) -> bool:
    """Whether a task of `loop` waits for something else than answers (`ours`), tasks and timers."""
    asyncio = sys.modules["asyncio"]
    return any(not _known(task, ours, asyncio) for task in asyncio.all_tasks(loop))


def _known(task: Any, ours: Collection[object], asyncio: Any) -> bool:
    waiter = getattr(task, "_fut_waiter", None)
    if waiter in ours or isinstance(waiter, asyncio.Task) or hasattr(waiter, "_children"):
        return True
    frames = awaiting(task.get_coro())
    if not frames:
        return False
    inner = frames[0]
    where = inner.f_globals.get("__name__"), inner.f_code.co_name
    return where in JOINS or where == ("asyncio.tasks", "sleep")
