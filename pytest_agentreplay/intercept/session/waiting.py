"""Where a test waits: the frames of its thread and of its task, and the event loop between them.

A thread that runs an event loop shows the loop, and not what the test awaits; that is found by the loop's root task.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.intercept.session.origins import is_agents

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

_US = str(Path(__file__).parents[2]) + os.sep


@dataclass(frozen=True, slots=True)
class Root:
    """The task that a test waits for. `soon` runs something in its loop, from any thread; `cancel` is to run there."""

    soon: Callable[[Callable[[], object]], object]
    cancel: Callable[[], object]
    coroutine: object


def floor() -> FrameType | None:
    """The innermost frame on the stack that is none of ours: whoever runs the body stands on it, and so do we."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_US):
        frame = frame.f_back
    return frame


def stack(frame: FrameType | None, floor: FrameType | None) -> list[FrameType]:
    """The frames of the body from `frame`, the innermost, out to `floor`; none where the body is over already."""
    frames: list[FrameType] = []
    while frame is not None and frame is not floor:
        frames.append(frame)
        frame = frame.f_back
    # Between the floor and the body stands whoever runs it; between the floor and its end stand we.
    return [] if frames and frames[-1].f_code.co_filename.startswith(_US) else frames


def until_loop(frames: list[FrameType]) -> tuple[list[FrameType], FrameType | None]:
    """What runs within the innermost event loop, and the frame of that loop; all of it where there is none."""
    for number, frame in enumerate(frames):
        if (frame.f_code.co_name == "run_until_complete" and not is_agents(frame.f_code)) or is_trio(frame):
            return frames[:number], frame
    return frames, None


def is_trio(frame: FrameType) -> bool:
    """Whether it is the frame of `trio.run`, which waits for events, or the one within that runs the tasks."""
    return frame.f_globals.get("__name__") == "trio._core._run" and frame.f_code.co_name in {"run", "unrolled_run"}


def root_of(loop: FrameType | None) -> Root | None:
    """The task that a loop of asyncio's runs for, by the frame of its `run_until_complete`."""
    names: dict[str, Any] = loop.f_locals if loop is not None else {}
    runs: Any = names.get("self")
    task: Any = names.get("future")
    if not hasattr(task, "get_coro") or not hasattr(runs, "call_soon_threadsafe"):
        return None
    return Root(runs.call_soon_threadsafe, task.cancel, task.get_coro())


def trio_root(loop: FrameType | None) -> Root | None:
    """The main task of the `trio.run` that runs in this thread, where `loop` is its frame."""
    if loop is None or not is_trio(loop):
        return None
    lowlevel = sys.modules["trio"].lowlevel
    top = lowlevel.current_root_task()
    if top is None or not top.child_nurseries or not (tasks := top.child_nurseries[-1].child_tasks):
        return None
    scope = top.child_nurseries[-1].cancel_scope  # the innermost: the main task's own
    return Root(lowlevel.current_trio_token().run_sync_soon, scope.cancel, next(iter(tasks)).coro)


def awaiting(coroutine: object) -> list[FrameType]:
    """The frames of a coroutine that waits, and of those it awaits, the innermost first."""
    frames: list[FrameType] = []
    for _ in range(sys.getrecursionlimit()):
        kind = next((one for one in ("cr", "gi", "ag") if hasattr(coroutine, f"{one}_frame")), None)
        if kind is None or (frame := getattr(coroutine, f"{kind}_frame")) is None:
            break
        frames.insert(0, frame)
        coroutine = getattr(coroutine, f"{kind}_yieldfrom" if kind == "gi" else f"{kind}_await")
    return frames
