"""Agents that are a child process and speak JSON lines: met where anyio starts a process, for their commands alone.

The Claude Agent SDK starts its program so. Both directions are recorded line by line; a replay starts nothing, and the
process that the SDK is given says what the recorded one said, when the same lines were written to it. Every other
process is none of ours: it is started, and the guard speaks.
"""

from __future__ import annotations

import inspect
from types import FunctionType
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.intercept.network.child_events import short_name
from pytest_agentreplay.intercept.session import interceptions
from pytest_agentreplay.intercept.session.patching import lead, list_parameters
from pytest_agentreplay.intercept.session.replacing import mark_exchanged

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import ModuleType

AGENTS = frozenset({"claude"})
"""Programs that are agents, by name; whatever speaks `stream-json` is one too."""

SPOKEN = "stream-json"


def patch(library: ModuleType) -> None:
    """Lead `anyio.open_process`. Doing it twice does nothing."""
    function: Any = getattr(library, "open_process", None)
    if not inspect.iscoroutinefunction(function):
        return
    current, code = getattr(function, "__agentreplay__", (None, function.__code__))
    if current is not interceptions.find_interception:
        function.__code__ = code
        body = FunctionType(code, function.__globals__, function.__name__, function.__defaults__, function.__closure__)
        body.__kwdefaults__ = function.__kwdefaults__
        only = list_parameters(code)[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
        lead(function, _make_intercept(body, only))
        mark_exchanged(function, code, interceptions.find_interception)


def is_agent(command: object) -> bool:
    """Whether a command starts an agent that speaks JSON lines."""
    if not isinstance(command, list | tuple) or not command:
        return False
    words = [str(word) for word in command]
    return short_name(words[0]) in AGENTS or SPOKEN in words


def _make_intercept(body: Callable[..., Awaitable[Any]], only: tuple[str, ...]) -> Callable[..., Any]:
    def intercept(
        values: tuple[Any, ...], keywords: tuple[Any, ...], star: tuple[Any, ...], stars: dict[str, Any]
    ) -> Awaitable[Any]:
        positional, keyword_arguments = (*values, *star), dict(zip(only, keywords, strict=True)) | stars
        interception = interceptions.find_interception()
        if interception is None or interceptions.is_within_http() or not is_agent(positional[0]):
            return body(*positional, **keyword_arguments)
        from pytest_agentreplay.intercept.process.process_streams import open_program

        return open_program(interception, positional[0], lambda: body(*positional, **keyword_arguments))

    return intercept
