"""What the interpreter would say about refusals that nobody caught: nothing, since the report says it once and better.

A refusal ends threads, dropped tasks and finalizers, and each of these has a way of its own to print a traceback. The
backend has latched the divergence before any of them is heard.
"""

from __future__ import annotations

import functools
import sys
import threading
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.errors import ReplayDiverged

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable


def install() -> None:
    """Quieten the hooks as they are now, and logs of threads that nobody awaits; what is not of ours passes.

    Doing it twice does nothing.
    """
    import logging

    for module, name in ((sys, "unraisablehook"), (threading, "excepthook")):
        hook = getattr(module, name)
        if not hasattr(hook, "__agentreplay__"):
            setattr(module, name, quietened(hook))
    # The tracing of openai-agents logs whatever ends its exporter, with a traceback, in a thread that no test awaits.
    for name in ("asyncio", "openai.agents"):
        logging.getLogger(name).addFilter(worth_saying)


def quietened(hook: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """`hook`, which takes something with an `exc_value`, without the consequences of a refusal."""

    @functools.wraps(hook)
    def quiet(told: Any) -> Any:
        return None if follows_refusal(told.exc_value) else hook(told)

    quiet.__agentreplay__ = True  # type: ignore[attr-defined]
    return quiet


def worth_saying(record: logging.LogRecord) -> bool:
    """Whether a log record is of anything but a refusal: "Task exception was never retrieved" and its like."""
    return not (record.exc_info and follows_refusal(record.exc_info[1]))


def follows_refusal(error: BaseException | None) -> bool:
    """Whether `error` is a refusal, a group of nothing else, or was raised because of one."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        if isinstance(error, ReplayDiverged):
            return True
        if isinstance(error, BaseExceptionGroup):
            return all(map(follows_refusal, error.exceptions))
        error = error.__cause__ or error.__context__
    return False
