"""Running a coroutine step by step, so that what it crosses meanwhile is known to happen inside its own exchange.

The mark "inside" is set and taken off within each step. Set once for the whole of it, it would leak to whoever runs
between two steps (the consumer of a generator), and could not be taken off by another context (a dropped coroutine).
"""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.intercept.session import lanes

if TYPE_CHECKING:
    from collections.abc import Generator

    from pytest_agentreplay.intercept.session.pending_call import PendingCall


class StepWatch:
    """Whether what was run gave way to others at least once."""

    __slots__ = ("suspended",)

    def __init__(self) -> None:
        """It has not begun."""
        self.suspended = False


@types.coroutine
def stepped(intercepted: PendingCall, coroutine: Any, watch: StepWatch) -> Generator[Any, Any, Any]:
    """Await `coroutine` (or one step of an async generator) as if inside `intercepted`.

    What it marks itself meanwhile, an exchange inside this one, it finds again in its next step.
    """
    step, sent = coroutine.send, None
    mark: lanes.CallContext | None = None
    while True:
        try:
            with intercepted.inside():
                if mark is not None:
                    lanes.CALL_CONTEXT.set(mark)
                beat = step(sent)
                mark = lanes.CALL_CONTEXT.get()
        except StopIteration as stop:
            return stop.value
        watch.suspended = True
        try:
            sent = yield beat
        except GeneratorExit:
            with intercepted.inside():
                lanes.CALL_CONTEXT.set(mark)
                coroutine.close()
            raise
        except BaseException as error:  # thrown in by the event loop: a cancellation mostly
            step, sent = coroutine.throw, error
        else:
            step = coroutine.send
