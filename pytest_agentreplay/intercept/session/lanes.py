"""Which strand of which test is running here: every task and thread is stamped with the test that started it.

asyncio and trio copy the context into a new task, so a context variable does it there. A thread begins with an empty
context, so `carry` takes it over, with the agent's name (`thread_starts` calls it). A thread that no test started has
no stamp; it works for the test that is running (`find_interception`).

Which of several threads calls first is chance, and in which order they were started is not. So the lane of a thread,
job or task is known by its label: what it runs, and how many its starter had begun of that before. The label goes into
the snapshot, and a replay finds the recorded lane by it (`model.release_order`).
"""

from __future__ import annotations

import functools
import itertools
import sys
import threading
import weakref
from collections import Counter
from contextlib import contextmanager
from contextvars import Context, ContextVar
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from pytest_agentreplay.intercept.session.agents import AGENT
from pytest_agentreplay.intercept.session.jobs import Jobs
from pytest_agentreplay.intercept.session.replacing import shield
from pytest_agentreplay.model.release_order import Label, Started

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Callable, Iterator

    from pytest_agentreplay.intercept.session.session_parts import Ending, RunClock


# Calls beside each other that a course knows as its latest; with more of them the eldest are forgotten.
KNOWN = 8


class Course:
    """The latest calls that one task, thread or job knows to be over, by their `start`.

    `runner` is the task or the thread's ident, `runs` what the starter can wait for: a task, a future or a thread.
    """

    __slots__ = ("__weakref__", "earlier", "runner", "runs", "starter")

    def __init__(self, starter: Course | None = None, runner: object = None, runs: object = None) -> None:
        """Begin with what `starter` knows now."""
        self.starter = starter
        self.runner = runner
        self.runs = runs
        self.earlier: tuple[int, ...] = starter.earlier if starter is not None else ()

    def learn(self, start: int, before: tuple[int, ...]) -> None:
        """Note that the call `start` is over, which was made when those of `before` were."""
        self.earlier = (*(other for other in self.earlier if other not in before), start)[-KNOWN:]


class CourseTracker(Protocol):
    """`courses.Courses`, which knows while recording which call came after which of another lane."""

    def here(self, call_context: CallContext) -> Course:
        """Return the course of the code that runs here."""

    def start_course(self, call_context: CallContext, runs: object) -> Course:
        """Return the course of a thread or job that is started now."""

    def note_task(self, task: Any, call_context: CallContext) -> None:
        """Note that a task was created."""

    def note_call(self, start: int, course: Course) -> tuple[int, ...]:
        """Note that a call is made; return the calls that it comes after."""

    def note_end(self, start: int, course: Course, before: tuple[int, ...]) -> None:
        """Note that a call has ended."""


class ThreadActivity:
    """What works for the test: who waits for the next call learns from it whether one can still come.

    Its containers are changed by single operations alone, which CPython makes atomic.

    Attributes:
        threads: Threads that the test has started.
        jobs: What it has given to executors.
        loops: Event loops in which it has run.
        working: By ident, threads that run something which the test has started.
        starting: Idents of threads that are about to start another one.
        handed: Work that is on its way to a thread, or its result from there.
        finished: How many jobs executors have done.
        running: By ident, the lane of the job or thread that is under way there.
        main_thread: Ident of the thread that runs the test's first lane.
    """

    def __init__(self) -> None:
        self.threads: weakref.WeakSet[threading.Thread] = weakref.WeakSet()
        self.jobs = Jobs()
        self.loops: weakref.WeakSet[AbstractEventLoop] = weakref.WeakSet()
        self.working: dict[int, int] = {}
        self.starting: set[int] = set()
        self.handed: set[object] = set()
        self.finished = 0
        self.running: dict[int, CallContext] = {}
        self.main_thread = threading.get_ident()

    def is_alone(self) -> bool:
        """Whether the test's own thread runs here, which has started nothing that could still be at work."""
        started = self.threads or self.working or self.starting or self.handed or self.loops or self.finished
        return not started and not self.jobs and self.main_thread == threading.get_ident()

    def clear(self) -> None:
        """Forget all that was under way: in another run, or in a fork."""
        for collection in (self.threads, self.jobs, self.loops, self.working, self.starting, self.handed):
            collection.clear()


class LaneTracker:
    """How lanes began, by which a replay finds those of the recording again.

    Attributes:
        begun: By lane, the reading of the counter when its thread or job was started.
        started: Which threads and jobs were begun.
        tasks: Which one of its kind each task is.
        creators: Of tasks, the tasks that created them.
        courses: While recording: which call came after which of another lane.
    """

    def __init__(self) -> None:
        self.begun: dict[str, int] = {}
        self.started = Started()
        self.tasks: weakref.WeakKeyDictionary[Any, Label] = weakref.WeakKeyDictionary()
        self.creators: weakref.WeakKeyDictionary[Any, weakref.ref[Any]] = weakref.WeakKeyDictionary()
        self.courses: CourseTracker | None = None


class LaneOwner(Protocol):
    """The interception, as far as a lane knows it."""

    work: ThreadActivity
    lanes: LaneTracker
    clock: RunClock
    ending: Ending

    def main(self) -> CallContext:
        """The test's first strand."""

    def is_over(self) -> bool:
        """Return whether the code that runs here comes too late."""


@dataclass(slots=True)
class CallContext:
    """One lane of one run. `inside` is the number and boundary of the exchange around us, if any.

    `owner` is the task or thread that runs it now. `thread` is the ident of the thread whose own course it is: code
    outside any task, and the root tasks of the event loops that it runs one after the other; None for a task's strand.
    `children` numbers the lanes that begin here, `starts` counts the functions that threads and jobs were started with;
    copies of a strand share both. The strand of a thread or job is made where that is started: `begun` says when (a
    reading of the run's counter), `label` what was started. It has no `path` until its first call. `worker` is the
    strand of the thread that has taken this one out of a queue.
    """

    interception: LaneOwner
    path: str = "main"
    owner: object = None
    thread: int | None = field(default_factory=threading.get_ident)
    children: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    starts: Counter[str] = field(default_factory=Counter)
    inside: tuple[int, str] | None = None
    begun: int | None = None
    parent: CallContext | None = None
    label: Label | None = None
    course: Course | None = None
    worker: CallContext | None = None


# What a thread is to call, and with what.
Work: TypeAlias = "tuple[Callable[..., Any], tuple[Any, ...]]"

CALL_CONTEXT: ContextVar[CallContext | None] = ContextVar("agentreplay_strand", default=None)

# What `CallContext.inside` names in a server of the test's own process: its calls are recorded as calls of the run.
SERVER = "server"


def is_inside(call_context: CallContext) -> bool:
    """Whether `call_context` runs inside an exchange, which holds all that happens there."""
    return call_context.inside is not None and call_context.inside[1] != SERVER


def find_running_loop() -> AbstractEventLoop | None:
    """Return the event loop of asyncio that runs this code, if any."""
    asyncio = sys.modules.get("asyncio")
    # `get_running_loop` raises where there is none, which costs six times as much (CPython 3.11); see
    # https://github.com/python/cpython/blob/3.13/Lib/asyncio/events.py.
    return asyncio._get_running_loop() if asyncio is not None else None


def get_trio() -> Any:
    """Return trio; None while another thread is importing it."""
    trio = sys.modules.get("trio")
    return trio if hasattr(trio, "lowlevel") else None


def is_in_loop() -> bool:
    """Whether the thread that runs this runs an event loop, which stands still as long as we hold it."""
    if find_running_loop() is not None:
        return True
    trio = get_trio()
    return trio is not None and bool(trio.lowlevel.in_trio_run())


def find_runner() -> object:
    """What runs this code: the asyncio or trio task, else the thread's ident."""
    if (loop := find_running_loop()) is not None:
        task = sys.modules["asyncio"].current_task(loop)
        if task is not None:
            return task
    trio = get_trio()
    if trio is not None and trio.lowlevel.in_trio_run():  # outside of it `current_task` raises, which takes longer
        try:
            return trio.lowlevel.current_task()
        except RuntimeError:
            pass
    return threading.get_ident()


def find_lane(call_context: CallContext) -> CallContext:
    """The strand of the running task or thread: `call_context` itself, or a child of it made and stamped now."""
    mine = find_context(find_runner(), call_context)
    if mine is not call_context:
        CALL_CONTEXT.set(mine)
    return mine


def find_context(me: object, call_context: CallContext) -> CallContext:
    """The strand of `me`, which runs here: `call_context` when it is its own, else a child of it made now."""
    if call_context.owner == me:
        return call_context
    here = threading.get_ident() if me == threading.get_ident() or is_root(me) else None
    job = call_context.interception.work.running.get(here) if here is not None and call_context.thread != here else None
    if job is not None and job.parent is not None and job.parent.children is call_context.children:
        # The job runs in a copy of its starter's context, taken where `carry` could not see it.
        call_context = job
    if here is not None and call_context.thread == here:
        mine, mine.owner = call_context, me
    else:
        label = None if here is not None else call_context.interception.lanes.tasks.get(me)
        mine = CallContext(
            call_context.interception, "", me, here, inside=call_context.inside, parent=call_context, label=label
        )
    with _NAMING:
        name(mine)
    return mine


# Two lanes that make their first calls at once must not get one path.
_NAMING = threading.Lock()


def name(call_context: CallContext) -> str:
    """Return the path of a strand: that of its parent, and a number, by order of first calls.

    In a replay threads, jobs and tasks have the recorded path of their label, whichever calls first.
    """
    if not call_context.path and call_context.parent is not None:
        above, started = name(call_context.parent), call_context.interception.lanes.started
        call_context.path = started.lane(above, call_context.label, call_context.parent.starts) or next(
            path for number in call_context.parent.children if not started.is_recorded(path := f"{above}.{number}")
        )
        if call_context.label is not None:
            started.note(call_context.path, call_context.label)
        if call_context.begun is not None:
            call_context.interception.lanes.begun[call_context.path] = call_context.begun
    return call_context.path


def share_context(call_context: CallContext) -> CallContext:
    """`call_context` for the thread that runs here, while other threads may run it too."""
    me = threading.get_ident()
    with _NAMING:
        name(call_context)
    return replace(call_context, owner=me, thread=me)


def is_root(task: object) -> bool:
    """Whether the thread waits for `task`: `asyncio.run` and its like stand on the stack with it, or `trio.run` does.

    A loop in C shows no such frame; its root task then has a lane of its own.
    """
    trio = get_trio()
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
def enter_exchange(call_context: CallContext, ticket: int, boundary: str) -> Iterator[None]:
    """Crossings made in this block belong to exchange `ticket`."""
    here = call_context
    inside = CallContext(  # `dataclasses.replace` takes five times as long, in every call
        here.interception, here.path, here.owner, here.thread, here.children, here.starts, (ticket, boundary),
        here.begun, here.parent, here.label, here.course, here.worker,
    )  # fmt: skip
    token = CALL_CONTEXT.set(inside)
    try:
        yield
    finally:
        CALL_CONTEXT.reset(token)


def get_trio_run() -> object:
    """What stands for the run of trio that is under way here."""
    return sys.modules["trio"].lowlevel.current_trio_token()


def carry(
    call_context: CallContext,
    work: Callable[..., Any],
    args: tuple[Any, ...] = (),
    course: Course | None = None,
    begins: Callable[[], object] | None = None,
) -> Work:
    """Return `work` and `args` as another thread is to run them for the same agent.

    Work that runs in a copy of its starter's context (`asyncio.to_thread`, LangGraph) is stamped within that copy.
    """
    run = begin(call_context, work, args, course, begins)
    if _is_context_run(work) and args:
        return work, (run(args[0]), *args[1:])
    if isinstance(work, functools.partial) and _is_context_run(work.func) and work.args:
        return functools.partial(work.func, run(work.args[0]), *work.args[1:], **work.keywords), args
    return run(work), args


def begin_course(call_context: CallContext, runs: object = None) -> Course | None:
    """Return the course of what `call_context` starts now, and can wait for as `runs`; None where none is kept."""
    courses = call_context.interception.lanes.courses
    return courses.start_course(call_context, runs) if courses is not None and call_context.inside is None else None


def begin(
    call_context: CallContext,
    work: Callable[..., Any],
    args: tuple[Any, ...] = (),
    course: Course | None = None,
    begins: Callable[[], object] | None = None,
) -> Callable[..., Callable[..., Any]]:
    """Begin a child of `call_context` that runs `work`. Return what stamps a function with it.

    `begins` is called where that function is.
    """
    interception, agent = call_context.interception, AGENT.get()
    child = make_child(call_context, name_work(work, args), course)

    def stamp(function: Callable[..., Any]) -> Callable[..., Any]:
        return functools.wraps(function)(shield(run_in_child, function, always=True))

    def run_in_child(function: Callable[..., Any]) -> Callable[..., Any]:
        def run_stamped(*args: Any, **kwargs: Any) -> Any:
            me = child.thread = threading.get_ident()
            if begins is not None:
                begins()
            with mark_working(call_context):
                # A job may run another one on its own thread, which ends before it.
                before = interception.work.running.get(me)
                interception.work.running[me] = child
                token, agent_token = CALL_CONTEXT.set(child), AGENT.set(agent)
                try:
                    return function(*args, **kwargs)
                finally:
                    AGENT.reset(agent_token)
                    CALL_CONTEXT.reset(token)
                    if before is None:
                        del interception.work.running[me]
                    else:
                        interception.work.running[me] = before

        return run_stamped

    return stamp


def make_child(call_context: CallContext, name: str, course: Course | None) -> CallContext:
    """Return a new strand that begins below `call_context` now, labelled as the next `name` there."""
    interception, inside = call_context.interception, call_context.inside
    label = _next_label(call_context, name) if inside is None else None
    begun = interception.clock.count()
    return CallContext(interception, "", inside=inside, begun=begun, parent=call_context, course=course, label=label)


def label_task(call_context: CallContext, task: Any) -> None:
    """Keep which one of its kind `task` is, which the code of `call_context` has created."""
    coroutine = task.get_coro()
    name = getattr(coroutine, "__qualname__", type(coroutine).__qualname__)
    call_context.interception.lanes.tasks[task] = _next_label(call_context, name)


def _next_label(call_context: CallContext, name: str) -> Label:
    with _NAMING:
        call_context.starts[name] += 1
        return Label(name, call_context.starts[name])


def name_work(work: Any, args: tuple[Any, ...] = ()) -> str:
    """Return the name of the function that does the work, inside of partials, contexts and bound methods."""
    while True:
        if _is_context_run(work) and args:
            work, args = args[0], args[1:]
        elif isinstance(work, functools.partial):
            work, args = work.func, (*work.args, *args)
        else:
            break
    work = getattr(work, "__func__", work)
    callable_work = work if hasattr(work, "__qualname__") else type(work)
    return f"{getattr(callable_work, '__module__', None) or ''}.{callable_work.__qualname__}"


def _is_context_run(work: Any) -> bool:
    return isinstance(getattr(work, "__self__", None), Context) and work.__name__ == "run"


@contextmanager
def mark_working(call_context: CallContext) -> Iterator[None]:
    """A block that a thread runs for a test."""
    me, at_it = threading.get_ident(), call_context.interception.work.working
    at_it[me] = at_it.get(me, 0) + 1
    try:
        yield
    finally:
        at_it[me] -= 1
        if not at_it[me]:
            del at_it[me]
        call_context.interception.work.finished += 1


@contextmanager
def mark_starting(call_context: CallContext) -> Iterator[None]:
    """A block that starts a thread: whoever runs it waits until the new one is there, which nothing else tells."""
    me, at_it = threading.get_ident(), call_context.interception.work.starting
    if (loop := find_running_loop()) is not None:
        call_context.interception.work.loops.add(loop)
    at_it.add(me)
    try:
        yield
    finally:
        at_it.discard(me)
