"""Agents that are a child process and speak JSON lines: met where anyio starts a process, for their commands alone.

The Claude Agent SDK starts its program so. Both directions are recorded line by line; a replay starts nothing, and the
process that the SDK is given says what the recorded one said, when the same lines were written to it. Every other
process is none of ours: it is started, and the guard speaks.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.intercept.network.child_events import short_name
from pytest_agentreplay.intercept.session import interceptions
from pytest_agentreplay.intercept.session.patching import wrap_code

if TYPE_CHECKING:
    from types import ModuleType

    from pytest_agentreplay.intercept.session.patching import Seam

AGENTS = frozenset({"claude"})
"""Programs that are agents, by name; whatever speaks `stream-json` is one too."""

SPOKEN = "stream-json"


def patch(library: ModuleType) -> None:
    """Have `anyio.open_process` ask the interception first. Doing it twice does nothing."""
    function: Any = getattr(library, "open_process", None)
    if inspect.iscoroutinefunction(function):
        wrap_code(function, _opening)


def is_agent(command: object) -> bool:
    """Whether a command starts an agent that speaks JSON lines."""
    if not isinstance(command, list | tuple) or not command:
        return False
    words = [str(word) for word in command]
    return short_name(words[0]) in AGENTS or SPOKEN in words


def _opening(original: Seam) -> Seam:
    async def open_process(command: Any, *args: Any, **kwargs: Any) -> Any:
        interception = interceptions.find_interception()
        if interception is None or interceptions.is_within_http() or not is_agent(command):
            return await original(command, *args, **kwargs)
        from pytest_agentreplay.intercept.process.process_streams import open_program

        return await open_program(interception, command, lambda: original(command, *args, **kwargs))

    return open_process
