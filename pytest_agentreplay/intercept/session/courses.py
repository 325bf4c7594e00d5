"""What came before a call of another lane by the program's own doing: whoever started that lane had waited for it.

While recording, each task, thread and job has a course: the calls that it knows to be over. A course begins with what
its starter knew. When a call ends while the starter does nothing but wait for the task or job that made it (`await
task`, one task in a `TaskGroup`, `Future.result()`, `Thread.join()`), the starter knows of it too, and so does all
that it starts from then on. The snapshot keeps this for calls that follow one of another lane (`after`).

Where it cannot be seen that somebody waits, nothing is kept: two calls may then come in any order, as before.

Tasks of asyncio and uvloop are labelled when they are created, as threads are: which of several calls first may be
chance (the openai SDK asks for the platform in a thread before its first call).
"""

from __future__ import annotations

import sys
import threading
import weakref
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from pytest_agentreplay.intercept.session import lanes
from pytest_agentreplay.intercept.session.callers import list_awaited_frames
from pytest_agentreplay.intercept.session.lanes import Course
from pytest_agentreplay.intercept.session.patching import wrap

if TYPE_CHECKING:
    from asyncio import Task
    from types import FrameType, ModuleType

    from pytest_agentreplay.intercept.session.lanes import CallContext
    from pytest_agentreplay.intercept.session.patching import Seam

# Modules whose `__aexit__` waits for the tasks of a group, which it keeps in `_tasks`.
GROUPS = frozenset({"asyncio.taskgroups", "anyio._backends._asyncio"})


# Stands for what its starter waits for in any case.
ANYHOW = object()


class Courses:
    """The courses of one recorded test, and after which calls of other lanes each call was made."""

    def __init__(self) -> None:
        """Begin with nobody."""
        self.after: dict[int, tuple[int, ...]] = {}
        self._tasks: WeakKeyDictionary[Task[Any], Course] = WeakKeyDictionary()
        # Not by thread alone: threads that serve children (gateway, joined processes) and their ids are used again.
        self._threads: dict[tuple[int, str], Course] = {}

    def here(self, call_context: lanes.CallContext) -> Course:
        """Return the course of the code that runs here, for the test of `call_context`."""
        runner = lanes.find_runner()
        if isinstance(runner, int):
            job = call_context.interception.work.running.get(runner)
            if job is not None and job.course is not None:
                job.course.runner = runner
                return job.course
            mine = self._threads.get((runner, call_context.path))
            if mine is None:
                mine = self._threads[runner, call_context.path] = Course(runner=runner)
            return mine
        try:
            course: Course | None = self._tasks.get(runner)  # type: ignore[call-overload]
            if course is None:
                course = self._tasks[runner] = Course(runner=runner)  # type: ignore[index]
        except TypeError:  # a task that cannot be referred to weakly knows nothing
            return Course(runner=runner)
        return course

    def note_task(self, task: Task[Any], call_context: lanes.CallContext) -> None:
        """Note that the code that runs here has created `task`."""
        if task not in self._tasks:
            self._tasks[task] = Course(self.here(call_context), task, task)

    def start_course(self, call_context: lanes.CallContext, runs: object) -> Course:
        """Return the course of a thread or job that the code which runs here starts now."""
        return Course(self.here(call_context), runs=runs)

    def note_call(self, start: int, course: Course) -> tuple[int, ...]:
        """Note that a call is made in `course`. Return the calls that this comes after."""
        if course.earlier:
            self.after[start] = course.earlier
        return course.earlier

    def note_end(self, start: int, course: Course, before: tuple[int, ...]) -> None:
        """Note that the call `start`, made in `course`, has ended."""
        course.learn(start, before)
        while course.starter is not None and is_waiting_for(course.starter.runner, course.runs):
            course = course.starter
            course.learn(start, before)


def is_waiting_for(runner: object, runs: object) -> bool:
    """Return whether a task or thread waits for `runs` and for nothing else, and as long as it takes."""
    if runs is None or runs is ANYHOW:
        return runs is ANYHOW
    if isinstance(runner, int):
        if hasattr(runs, "get_coro"):
            return runner == threading.get_ident() and lanes.is_root(runs)
        # https://docs.python.org/3/library/sys.html#sys._current_frames
        return _is_thread_waiting(sys._current_frames().get(runner), runs)
    # What a task waits for, and the futures of a gather: CPython 3.11-3.14, uvloop 0.23 runs the same tasks, see
    # https://github.com/python/cpython/blob/3.13/Lib/asyncio/tasks.py.
    waiter = getattr(runner, "_fut_waiter", None)
    if waiter is None:
        return False
    if waiter is runs:
        return True
    children = getattr(waiter, "_children", None)
    if children is not None:
        return len(children) == 1 and (children[0] is runs or _is_told_by(children[0], runs))
    if _is_told_by(waiter, runs):
        return True
    frames = list_awaited_frames(getattr(runner, "get_coro", lambda: None)())
    return bool(frames) and _is_task_waiting(frames[0], runs)


def _is_task_waiting(frame: FrameType, runs: object) -> bool:
    where, name, names = frame.f_globals.get("__name__"), frame.f_code.co_name, frame.f_locals
    if where in GROUPS and name in {"__aexit__", "_aexit"}:
        return getattr(names.get("self"), "_tasks", None) == {runs}
    if where == "asyncio.tasks" and name == "wait_for":  # until CPython 3.11; later ones start no task
        return names.get("fut") is runs
    if where == "asyncio.tasks" and name == "_wait":
        return names.get("timeout") is None and set(names.get("fs", ())) == {runs}
    return False


def _is_thread_waiting(frame: FrameType | None, runs: object) -> bool:
    while frame is not None and frame.f_globals.get("__name__") in {"threading", "concurrent.futures._base"}:
        if frame.f_code.co_name in {"result", "join"} and frame.f_locals.get("self") is runs:
            return frame.f_locals.get("timeout") is None
        frame = frame.f_back
    return False


def _is_told_by(waiter: object, job: object) -> bool:
    """Return whether the asyncio future `waiter` is that of `job`, as `asyncio.wrap_future` ties them."""
    # CPython 3.11-3.14: https://github.com/python/cpython/blob/3.13/Lib/concurrent/futures/_base.py
    for callback in getattr(job, "_done_callbacks", ()) if not hasattr(job, "get_coro") else ():
        bare = getattr(callback, "__wrapped__", callback)  # `exits` wraps the callbacks of a test's jobs
        for cell in getattr(bare, "__closure__", None) or ():
            if cell.cell_contents is waiter:
                return True
    return False


def patch(library: ModuleType) -> None:
    """Wrap `create_task` of the library's event loop. Twice does nothing."""
    loop = getattr(library, "BaseEventLoop", None) or getattr(library, "Loop", None)
    if loop is not None:
        wrap(loop, "create_task", _note_created)


def _note_created(original: Seam) -> Seam:
    def create_task(self: Any, *args: Any, **kwargs: Any) -> Any:
        task = original(self, *args, **kwargs)
        call_context = lanes.CALL_CONTEXT.get()
        if call_context is not None and call_context.inside is None:
            lanes.label_task(call_context, task)
            note_creator(call_context, task)
            if call_context.interception.lanes.courses is not None:
                call_context.interception.lanes.courses.note_task(task, call_context)
        return task

    return create_task


def note_creator(call_context: CallContext, task: Any) -> None:
    """Keep which task has created `task`: a report names the line of the agent that waits there."""
    creator = lanes.find_runner()
    if not isinstance(creator, int):
        call_context.interception.lanes.creators[task] = weakref.ref(creator)
