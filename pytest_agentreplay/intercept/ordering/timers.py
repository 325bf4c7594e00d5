"""Which timer of an event loop is due next, and which line of the agent has set it: for the report of a stall."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.intercept.session.origins import where
from pytest_agentreplay.intercept.session.waiting import awaiting

if TYPE_CHECKING:
    from types import FrameType

OWNERS = ("_task", "_host_task")
"""What holds the task of a timer: `asyncio.timeouts.Timeout`, `anyio.CancelScope`."""


def pending_timer(loop: object, root: str) -> str:
    """Return a sentence about the next timer of `loop`: "" where there is none, or the loop does not show it."""
    # A heap of timer handles in the loops of CPython 3.11-3.14; uvloop and trio keep theirs in C or elsewhere.
    timers = [timer for timer in getattr(loop, "_scheduled", ()) if not timer.cancelled()]
    if not timers:
        return ""
    timer = min(timers, key=lambda timer: timer.when())
    frames = _frames_of(timer, loop)
    line = where(frames, root).partition(" in ")[0]
    set_at = f" set at {line}" if line else ""
    delay = _delay(timer, frames)
    if delay is not None:
        return f"a timer of {delay:g} s{set_at} was still pending"
    left = max(0.0, timer.when() - loop.time())  # type: ignore[attr-defined]
    return f"a timer{set_at}, due in {left:.3g} s, was still pending"


def _frames_of(timer: Any, loop: object) -> list[FrameType]:
    """Return the frames of the task that waits for `timer`, the innermost first; none where no task does."""
    owner = getattr(getattr(timer, "_callback", None), "__self__", None)
    for name in OWNERS:
        if (task := getattr(owner, name, None)) is not None and hasattr(task, "get_coro"):
            return awaiting(task.get_coro())
    for task in sys.modules["asyncio"].all_tasks(loop):
        frames = awaiting(task.get_coro())
        if any(value is timer for frame in frames[:1] for value in frame.f_locals.values()):
            return frames
    return []


def _delay(timer: object, frames: list[FrameType]) -> float | None:
    """Return the seconds of `asyncio.sleep`, where that has set `timer`."""
    names = frames[0].f_locals if frames else {}
    delay = names.get("delay")
    return float(delay) if names.get("h") is timer and isinstance(delay, int | float) else None
