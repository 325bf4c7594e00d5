"""Who made a call: the frames of the code that runs here, then of whoever started it and waits.

A framework makes a model call in a task of its own (LangChain gathers, pydantic-ai and openai-agents start groups of
tasks). Then the stack holds the libraries' frames and the event loop's, and the agent's own line is in the task that
created this one, which waits for it.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.intercept.session import lanes
from pytest_agentreplay.intercept.session.origins import where
from pytest_agentreplay.intercept.session.waiting import awaiting

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

    from pytest_agentreplay.intercept.session.lanes import CallContext

DEEPEST = 50
"""Starters that are looked at: a program that starts each task from the one before it has no end of them."""


def agents_line(root: str) -> str:
    """Return the agent's line that led to what runs here, "shop/agent.py:88 in find_orders"; "" when there is none."""
    return where(_frames(), root)


def waiting_in(source: object, call_context: CallContext | None = None) -> Iterator[FrameType]:
    """The frames of a task or thread that waits, and of those that started it, the innermost first."""
    for starter in _chain(source, call_context):
        yield from _of(starter)


def _frames() -> Iterator[FrameType]:
    me, call_context = lanes.runner(), lanes.CALL_CONTEXT.get()
    outermost = getattr(_coroutine(me), "cr_frame", None)
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        yield frame
        if frame is outermost:
            break
        frame = frame.f_back
    for starter in list(_chain(me, call_context))[1:]:
        yield from _of(starter)
    while frame is not None:  # whoever runs the event loop
        yield frame
        frame = frame.f_back


def _chain(source: object, call_context: CallContext | None) -> Iterator[object]:
    """A task or thread, and who started it, and who started that one."""
    for _ in range(DEEPEST):
        yield source
        starter = _creator(source, call_context)
        while starter is None and call_context is not None:
            call_context = call_context.parent
            if call_context is not None and call_context.owner != source:
                starter = call_context.owner
        if starter is None:
            return
        source = starter


def _creator(task: object, call_context: CallContext | None) -> object:
    """The task that created another one, where that is known and it is still there."""
    nursery = getattr(task, "parent_nursery", None)
    if nursery is not None:
        return nursery.parent_task
    if call_context is None or _coroutine(task) is None:
        return None
    reference = call_context.interception.creators.get(task)
    return reference() if reference is not None else None


def _of(source: object) -> list[FrameType]:
    coroutine = _coroutine(source)
    if coroutine is not None:
        return awaiting(coroutine)
    frames: list[FrameType] = []
    frame = sys._current_frames().get(source) if isinstance(source, int) else None
    while frame is not None:
        frames.append(frame)
        frame = frame.f_back
    return frames


def _coroutine(task: Any) -> object:
    """The coroutine of a task of asyncio's or trio's; None for a thread."""
    get = getattr(task, "get_coro", None)
    return get() if get is not None else getattr(task, "coro", None)
