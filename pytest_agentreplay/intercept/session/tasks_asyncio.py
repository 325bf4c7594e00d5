"""Tasks of asyncio and uvloop, when they are created: which one of its kind it is, and what its creator knew by then.

Which of several tasks calls first may be chance (the openai SDK asks for the platform in a thread before its first
call). So their lanes are labelled as those of threads are.
"""

from __future__ import annotations

import functools
import weakref
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.intercept.session import lanes
from pytest_agentreplay.intercept.session.patching import wrap

if TYPE_CHECKING:
    from types import ModuleType

    from pytest_agentreplay.intercept.session.lanes import CallContext
    from pytest_agentreplay.intercept.session.patching import Seam


def patch(library: ModuleType) -> None:
    """Wrap `create_task` of the library's event loop. Twice does nothing."""
    loop = getattr(library, "BaseEventLoop", None) or getattr(library, "Loop", None)
    if loop is None:
        return
    if "create_task" not in vars(loop):
        inherited = loop.create_task

        @functools.wraps(inherited)
        def create_task(self: Any, *args: Any, **kwargs: Any) -> Any:
            return inherited(self, *args, **kwargs)

        loop.create_task = create_task
    wrap(loop, "create_task", _creating)


def _creating(original: Seam) -> Seam:
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
    creator = lanes.runner()
    if not isinstance(creator, int):
        call_context.interception.lanes.creators[task] = weakref.ref(creator)
