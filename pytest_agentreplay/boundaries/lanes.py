"""Which strand of which test is running here: every task and thread is stamped with the test that started it.

asyncio and trio copy the context into a new task, so a context variable does it there. A thread begins with an empty
context, so `Thread.start` and `ThreadPoolExecutor.submit` are wrapped to carry it over, with the agent's name. A
thread that no test started has no stamp; it works for the test that is running (`crossing.current`).
"""

from __future__ import annotations

import functools
import itertools
import sys
import threading
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

from pytest_agentreplay.boundaries.agents import AGENT

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Callable, Iterator
    from concurrent.futures import Future
    from weakref import WeakKeyDictionary, WeakSet


class Door(Protocol):
    """The crossing, as far as a lane knows it."""

    threads: WeakSet[threading.Thread]
    jobs: WeakKeyDictionary[Future[Any], tuple[int, int]]
    count: Callable[[], int]
    begun: dict[str, int]
    working: dict[int, int]
    starting: set[int]
    handed: set[object]
    finished: int
    ended: threading.Event

    def main(self) -> Strand:
        """The test's first strand."""

    def over(self) -> bool:
        """Whether the test has ended for whoever carries its stamp."""


@dataclass(slots=True)
class Strand:
    """One lane of one run. `inside` is the number and boundary of the exchange around us, if any.

    `owner` is the task or thread that runs it now. `thread` is the ident of the thread whose own course it is: code
    outside any task, and the root tasks of the event loops that it runs one after the other; None for a task's strand.
    `children` numbers the lanes that begin here; copies of a strand share it. The strand of a thread or job is made
    where that is started, `begun` says when (a reading of the run's counter), and has no `path` until it is met.
    """

    crossing: Door
    path: str = "main"
    owner: object = None
    thread: int | None = field(default_factory=threading.get_ident)
    children: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    inside: tuple[int, str] | None = None
    begun: int | None = None
    parent: Strand | None = None


STRAND: ContextVar[Strand | None] = ContextVar("agentreplay_strand", default=None)

SERVER = "server"
"""What `Strand.inside` names in a server of the test's own process: its own calls are recorded as calls of the run."""


def is_inside(strand: Strand) -> bool:
    """Whether `strand` runs inside an exchange, which holds all that happens there."""
    return strand.inside is not None and strand.inside[1] != SERVER


def running_loop() -> AbstractEventLoop | None:
    """The event loop of asyncio that runs this code, if any."""
    asyncio = sys.modules.get("asyncio")
    return asyncio._get_running_loop() if asyncio is not None else None


def in_loop() -> bool:
    """Whether the thread that runs this runs an event loop, which stands still as long as we hold it."""
    if running_loop() is not None:
        return True
    trio = sys.modules.get("trio")
    return trio is not None and bool(trio.lowlevel.in_trio_run())


def runner() -> object:
    """What runs this code: the asyncio or trio task, else the thread's ident."""
    if (loop := running_loop()) is not None:
        task = sys.modules["asyncio"].current_task(loop)
        if task is not None:
            return task
    trio = sys.modules.get("trio")
    if trio is not None:
        try:
            return trio.lowlevel.current_task()
        except RuntimeError:
            pass
    return threading.get_ident()


def own(strand: Strand) -> Strand:
    """The strand of the running task or thread: `strand` itself, or a child of it made and stamped now."""
    mine = strand_of(runner(), strand)
    if mine is not strand:
        STRAND.set(mine)
    return mine


def strand_of(me: object, strand: Strand) -> Strand:
    """The strand of `me`, which runs here: `strand` when it is its own, else a child of it made now."""
    if strand.owner == me:
        return strand
    here = threading.get_ident() if me == threading.get_ident() or is_root(me) else None
    if here is not None and strand.thread == here:
        mine, mine.owner = strand, me
    else:
        mine = Strand(strand.crossing, "", me, here, inside=strand.inside, parent=strand)
    with _NAMING:
        name(mine)
    return mine


_NAMING = threading.Lock()


def name(strand: Strand) -> str:
    """The path of a strand: that of its parent, and its number among the children, in order of their first crossing."""
    if not strand.path and strand.parent is not None:
        strand.path = f"{name(strand.parent)}.{next(strand.parent.children)}"
        if strand.begun is not None:
            strand.crossing.begun[strand.path] = strand.begun
    return strand.path


def beside(strand: Strand) -> Strand:
    """`strand` for the thread that runs here, while other threads may run it too."""
    me = threading.get_ident()
    with _NAMING:
        name(strand)
    return replace(strand, owner=me, thread=me)


def is_root(task: object) -> bool:
    """Whether the thread waits for `task`: `asyncio.run` and its like stand on the stack with it, or `trio.run` does.

    A loop in C shows no such frame; its root task then has a lane of its own.
    """
    trio = sys.modules.get("trio")
    if trio is not None and isinstance(task, trio.lowlevel.Task):
        nursery = task.parent_nursery
        return nursery is not None and nursery.parent_task is trio.lowlevel.current_root_task()
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == "run_until_complete":
            return frame.f_locals.get("future") is task
        frame = frame.f_back  # type: ignore[assignment]
    return False


@contextmanager
def inside(strand: Strand, ticket: int, boundary: str) -> Iterator[None]:
    """Crossings made in this block belong to exchange `ticket`."""
    token = STRAND.set(replace(strand, inside=(ticket, boundary)))
    try:
        yield
    finally:
        STRAND.reset(token)


def trio_run() -> object:
    """What stands for the run of trio that is under way here."""
    return sys.modules["trio"].lowlevel.current_trio_token()


def carry(strand: Strand, work: Callable[..., Any]) -> Callable[..., Any]:
    """`work` as it is to run in another thread for the same agent: stamped with a child of `strand`, begun now."""
    agent = AGENT.get()
    child = Strand(strand.crossing, "", inside=strand.inside, begun=strand.crossing.count(), parent=strand)

    @functools.wraps(work)
    def stamped(*args: Any, **kwargs: Any) -> Any:
        child.thread = threading.get_ident()
        with working(strand):
            token, named = STRAND.set(child), AGENT.set(agent)
            try:
                return work(*args, **kwargs)
            finally:
                AGENT.reset(named)
                STRAND.reset(token)

    return stamped


@contextmanager
def working(strand: Strand) -> Iterator[None]:
    """A block that a thread runs for a test."""
    me, at_it = threading.get_ident(), strand.crossing.working
    at_it[me] = at_it.get(me, 0) + 1
    try:
        yield
    finally:
        at_it[me] -= 1
        if not at_it[me]:
            del at_it[me]
        strand.crossing.finished += 1


@contextmanager
def starting(strand: Strand) -> Iterator[None]:
    """A block that starts a thread: whoever runs it waits until the new one is there, which nothing else tells."""
    me, at_it = threading.get_ident(), strand.crossing.starting
    at_it.add(me)
    try:
        yield
    finally:
        at_it.discard(me)


def stamp_threads() -> None:
    """Wrap `Thread.start` and `ThreadPoolExecutor.submit`, once and for good; inactive they cost one look-up."""
    from concurrent.futures import ThreadPoolExecutor  # loads logging and queue, so only when a test needs it

    if getattr(threading.Thread.start, "__agentreplay__", None) is STRAND:
        return
    start, submit = threading.Thread.start, ThreadPoolExecutor.submit

    @functools.wraps(start)
    def stamped_start(self: threading.Thread) -> None:
        strand = STRAND.get()
        if strand is not None:
            self.run = carry(strand, self.run)  # type: ignore[method-assign]
            strand.crossing.threads.add(self)
            with starting(strand):
                return start(self)
        return start(self)

    @functools.wraps(submit)  # type: ignore[arg-type]
    def stamped_submit(self: ThreadPoolExecutor, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        strand = STRAND.get()
        if strand is None:
            return submit(self, fn, *args, **kwargs)
        # A pool outlives the test that first used it: its worker must not be stamped, only the job.
        token = STRAND.set(None)
        try:
            with starting(strand):
                job = submit(self, carry(strand, fn), *args, **kwargs)
                strand.crossing.jobs[job] = id(self), self._max_workers
            return job
        finally:
            STRAND.reset(token)

    stamped_start.__agentreplay__ = STRAND  # type: ignore[attr-defined]
    threading.Thread.start = stamped_start  # type: ignore[method-assign]
    ThreadPoolExecutor.submit = stamped_submit  # type: ignore[method-assign,assignment]
