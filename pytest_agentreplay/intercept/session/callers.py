"""Whose call it is, read off the stack: the line of the agent, who waits for it, whether an import makes it."""

from __future__ import annotations

import errno
import functools
import importlib
import os
import socket
import sys
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn

from pytest_agentreplay.intercept.session import lanes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import CodeType, FrameType

    from pytest_agentreplay.intercept.session.lanes import CallContext

    Refuse = Callable[[str, tuple[Any, ...], FrameType | None], None]
    """Takes an audit event, its arguments and its frame; raises OSError where it is refused."""

# Where the command `pytest` is a file of Python, which stands below every stack.
_SCRIPTS = str(Path(sys.prefix) / ("Scripts" if os.name == "nt" else "bin")) + os.sep

# Code without a file ("<string>"), this package, the standard library, and the command that runs pytest.
_NOT_THE_AGENT = ("<", str(Path(__file__).parents[2]) + os.sep, str(Path(os.__file__).parent) + os.sep, _SCRIPTS)


def find_line_here(root: str) -> str:
    """The innermost line of the agent on the stack, "shop/agent.py:88 in find_orders"; "" when there is none.

    Ours, installed packages and the standard library are nobody's agent. A file outside `root` is a second best.
    """
    return find_line(_walk_stack(sys._getframe(1)), root)


def find_function_here(root: str) -> tuple[str, CodeType | None]:
    """Return the innermost function of the agent's on the stack that has an import path, with its code; "" for none."""
    for frame in _walk_stack(sys._getframe(1)):
        code = frame.f_code
        # A lambda or a local function has no path by which a test could import it.
        if is_agents(code) and code.co_filename.startswith(root) and "<" not in code.co_qualname:
            return f"{frame.f_globals.get('__name__')}.{code.co_qualname}", code
    return "", None


# The frame below which the body of the test runs, while it does: what stands around it has nothing to say.
_runs_body: list[FrameType] = []


def enter_body() -> None:
    """Note the frame that the body of the test runs below: the one around the function that calls the session's own."""
    frame = sys._getframe(2).f_back
    _runs_body[:] = [frame] if frame is not None else []


def leave_body() -> None:
    """Look through whole stacks again."""
    _runs_body.clear()


def note_codes_here(codes: set[CodeType]) -> None:
    """Add the code of every function on the stack to `codes`, of a test's body that of the functions in it."""
    outside = _runs_body[0] if _runs_body else None
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame is not outside:  # no generator: a recorded call walks some thirty frames
        codes.add(frame.f_code)
        frame = frame.f_back


def _walk_stack(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def find_line(frames: Iterable[FrameType], root: str) -> str:
    """The first line of the agent among `frames`, as `find_line_here` tells it."""
    fallback = ""
    for frame in frames:
        name = frame.f_code.co_filename
        if is_agents(frame.f_code):
            inner = name.removeprefix(root).lstrip("/\\").replace("\\", "/")
            line = f"{inner}:{frame.f_lineno} in {frame.f_code.co_name}"
            if name.startswith(root):
                return line
            fallback = fallback or line
    return fallback


def is_agents(code: CodeType) -> bool:
    """Whether `code` is the agent's: not ours, no installed package, not the standard library."""
    # A redirected tool's stub has the tool's file, but no line of the agent's; it is marked as tracebacks know it.
    hidden = "__tracebackhide__" in code.co_varnames
    return not hidden and is_agents_file(code.co_filename)


def is_agents_file(name: str) -> bool:
    """Whether a file is the agent's, as `is_agents` says it of code."""
    return "site-packages" not in name and not name.startswith(_NOT_THE_AGENT)


def cut_traceback(error: BaseException, root: str) -> TracebackType | None:
    """The traceback of `error` down to the agent's innermost line: below it are libraries and our brake.

    The innermost one under `root`, else of any agent; None when there is none.
    """
    entries: list[TracebackType] = []
    at = error.__traceback__
    while at is not None:
        entries.append(at)
        at = at.tb_next
    agents = [number for number, entry in enumerate(entries) if is_agents(entry.tb_frame.f_code)]
    inner = [number for number in agents if entries[number].tb_frame.f_code.co_filename.startswith(root)]
    traceback_of_agent: TracebackType | None = None
    for entry in reversed(entries[: (inner or agents or [-1])[-1] + 1]):
        traceback_of_agent = TracebackType(traceback_of_agent, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return traceback_of_agent


_US = str(Path(__file__).parents[2]) + os.sep


@dataclass(frozen=True, slots=True)
class Root:
    """The task that a test waits for. `soon` runs something in its loop, from any thread; `cancel` is to run there."""

    soon: Callable[[Callable[[], object]], object]
    cancel: Callable[[], object]
    coroutine: object


def find_floor() -> FrameType | None:
    """The innermost frame on the stack that is none of ours: whoever runs the body stands on it, and so do we."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_US):
        frame = frame.f_back
    return frame


def list_body_frames(frame: FrameType | None, floor: FrameType | None) -> list[FrameType]:
    """The frames of the body from `frame`, the innermost, out to `floor`; none where the body is over already."""
    frames: list[FrameType] = []
    while frame is not None and frame is not floor:
        frames.append(frame)
        frame = frame.f_back
    # Between the floor and the body stands whoever runs it; between the floor and its end stand we.
    return [] if frames and frames[-1].f_code.co_filename.startswith(_US) else frames


def split_at_loop(frames: list[FrameType]) -> tuple[list[FrameType], FrameType | None]:
    """What runs within the innermost event loop, and the frame of that loop; all of it where there is none."""
    for number, frame in enumerate(frames):
        if (frame.f_code.co_name == "run_until_complete" and not is_agents(frame.f_code)) or is_trio(frame):
            return frames[:number], frame
    return frames, None


def is_trio(frame: FrameType) -> bool:
    """Whether it is the frame of `trio.run`, which waits for events, or the one within that runs the tasks."""
    return frame.f_globals.get("__name__") == "trio._core._run" and frame.f_code.co_name in {"run", "unrolled_run"}


def find_root(loop: FrameType | None) -> Root | None:
    """The task that a loop of asyncio's runs for, by the frame of its `run_until_complete`."""
    names: dict[str, Any] = loop.f_locals if loop is not None else {}
    runs: Any = names.get("self")
    task: Any = names.get("future")
    if not hasattr(task, "get_coro") or not hasattr(runs, "call_soon_threadsafe"):
        return None
    return Root(runs.call_soon_threadsafe, task.cancel, task.get_coro())


def find_trio_root(loop: FrameType | None) -> Root | None:
    """The main task of the `trio.run` that runs in this thread, where `loop` is its frame."""
    if loop is None or not is_trio(loop):
        return None
    lowlevel = sys.modules["trio"].lowlevel
    top = lowlevel.current_root_task()
    if top is None or not top.child_nurseries or not (tasks := top.child_nurseries[-1].child_tasks):
        return None
    scope = top.child_nurseries[-1].cancel_scope  # the innermost: the main task's own
    return Root(lowlevel.current_trio_token().run_sync_soon, scope.cancel, next(iter(tasks)).coro)


def list_awaited_frames(coroutine: object) -> list[FrameType]:
    """The frames of a coroutine that waits, and of those it awaits, the innermost first."""
    frames: list[FrameType] = []
    for _ in range(sys.getrecursionlimit()):
        kind = next((prefix for prefix in ("cr", "gi", "ag") if hasattr(coroutine, f"{prefix}_frame")), None)
        if kind is None or (frame := getattr(coroutine, f"{kind}_frame")) is None:
            break
        frames.insert(0, frame)
        coroutine = getattr(coroutine, f"{kind}_yieldfrom" if kind == "gi" else f"{kind}_await")
    return frames


# Starters that are looked at: a program that starts each task from the one before it has no end of them.
DEEPEST = 50


def find_agents_line(root: str) -> str:
    """Return the agent's line that led to what runs here, "shop/agent.py:88 in find_orders"; "" when there is none."""
    return find_line(_walk_frames(), root)


def walk_waiting(source: object, call_context: CallContext | None = None) -> Iterator[FrameType]:
    """The frames of a task or thread that waits, and of those that started it, the innermost first."""
    for starter in _walk_starters(source, call_context):
        yield from _list_frames(starter)


def _walk_frames() -> Iterator[FrameType]:
    me, call_context = lanes.find_runner(), lanes.CALL_CONTEXT.get()
    outermost = getattr(_get_coroutine(me), "cr_frame", None)
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        yield frame
        if frame is outermost:
            break
        frame = frame.f_back
    for starter in list(_walk_starters(me, call_context))[1:]:
        yield from _list_frames(starter)
    while frame is not None:  # whoever runs the event loop
        yield frame
        frame = frame.f_back


def _walk_starters(source: object, call_context: CallContext | None) -> Iterator[object]:
    """A task or thread, and who started it, and who started that one."""
    for _ in range(DEEPEST):
        yield source
        starter = _find_creator(source, call_context)
        while starter is None and call_context is not None:
            call_context = call_context.parent
            if call_context is not None and call_context.owner != source:
                starter = call_context.owner
        if starter is None:
            return
        source = starter


def _find_creator(task: object, call_context: CallContext | None) -> object:
    """The task that created another one, where that is known and it is still there."""
    nursery = getattr(task, "parent_nursery", None)
    if nursery is not None:
        return nursery.parent_task
    if call_context is None or _get_coroutine(task) is None:
        return None
    reference = call_context.interception.lanes.creators.get(task)
    return reference() if reference is not None else None


def _list_frames(source: object) -> list[FrameType]:
    coroutine = _get_coroutine(source)
    if coroutine is not None:
        return list_awaited_frames(coroutine)
    frames: list[FrameType] = []
    # https://docs.python.org/3/library/sys.html#sys._current_frames, CPython alone
    frame = sys._current_frames().get(source) if isinstance(source, int) else None
    while frame is not None:
        frames.append(frame)
        frame = frame.f_back
    return frames


def _get_coroutine(task: Any) -> object:
    """The coroutine of a task of asyncio's or trio's; None for a thread."""
    get = getattr(task, "get_coro", None)
    return get() if get is not None else getattr(task, "coro", None)


# Every loader of importlib runs a module's code by this function; it has no public name (CPython 3.11-3.14, see
# https://github.com/python/cpython/blob/3.13/Lib/importlib/_bootstrap.py).
_RUNS_MODULES = importlib._bootstrap._call_with_frames_removed.__code__  # type: ignore[attr-defined]
_IMPORTS = vars(importlib._bootstrap)
"""The globals of that function. To ask a frame for its code raises an audit event, to ask for its globals none."""
_STARTED_BY: ContextVar[str] = ContextVar("agentreplay_library_import", default="")
_REFUSAL: ContextVar[Refuse | None] = ContextVar("agentreplay_library_import_refusal", default=None)
_find_refusal: list[Callable[[], Refuse | None]] = []


def find_importing_library(frame: FrameType | None) -> str:
    """Return the name of the library whose import has led to `frame`, or started its thread; "" where none has.

    A module of the project that is imported by a library is the project's.
    """
    module, own = find_importing_module(frame)
    return "" if own else module.partition(".")[0]


def find_importing_module(frame: FrameType | None) -> tuple[str, bool]:
    """Return the module whose import has led to `frame`, "" for none, and whether it is the project's."""
    if started_by := _STARTED_BY.get():
        return started_by, False
    outside = _runs_body[0] if _runs_body else None
    while frame is not None and frame is not outside:  # no generator: each HTTP call walks this stack twice
        around = frame.f_back
        is_import = around is not None and around.f_globals is _IMPORTS and around.f_code is _RUNS_MODULES
        if is_import and frame.f_code.co_name == "<module>":
            return str(frame.f_globals.get("__name__", "")), is_agents(frame.f_code)
        frame = around
    return "", False


def run_for_import(library: str, work: Callable[..., Any]) -> Callable[..., Any]:
    """Return `work`, which a thread is to do that the import of `library` has started.

    What refuses the requests of the import refuses those of `work`, until it returns.
    """
    refusal = _REFUSAL.get() or next((refusal for find in _find_refusal if (refusal := find()) is not None), None)

    @functools.wraps(work)
    def run(*args: Any, **kwargs: Any) -> Any:
        library_token, refusal_token = _STARTED_BY.set(library), _REFUSAL.set(refusal)
        try:
            return work(*args, **kwargs)
        finally:
            _REFUSAL.reset(refusal_token)
            _STARTED_BY.reset(library_token)

    return run


def refuse_by(find: Callable[[], Refuse | None]) -> None:
    """Ask `find`, when an import starts a thread, for what refuses requests of imports at that time."""
    _find_refusal.append(find)


def get_thread_refusal() -> Refuse | None:
    """Return what refuses the requests of this thread; None unless an import has started it."""
    return _REFUSAL.get()


def refuse_connection(kind: str, library: str, target: str) -> NoReturn:
    """Raise the error of a network that is down, which every client turns into its own connection error."""
    why = f"agentreplay refuses {target}: {library} asks for it while it is imported, which is no part of a test"
    if kind == "lookup":
        raise socket.gaierror(socket.EAI_AGAIN, why)
    raise ConnectionRefusedError(errno.ECONNREFUSED, why)


def read_span() -> dict[str, str]:
    """Trace id and span id as their standard writes them; empty when there is no span."""
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return {}
    context = trace.get_current_span().get_span_context()
    if not context.is_valid:
        return {}
    return {"trace_id": f"{context.trace_id:032x}", "span_id": f"{context.span_id:016x}"}
