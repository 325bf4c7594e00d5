"""Agents that are a child process and speak JSON lines: met where anyio starts a process, for their commands alone.

The Claude Agent SDK starts its program so. Both directions are recorded line by line; a replay starts nothing, and the
process that the SDK is given says what the recorded one said, when the same lines were written to it. Every other
process is none of ours: it is started, and the guard speaks.
"""

from __future__ import annotations

import inspect
import json
import shlex
from types import FunctionType
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.core.failure import failure_of, raise_able
from pytest_agentreplay.core.model import Failure, FrameCall
from pytest_agentreplay.dialects import json_rpc, stream_json
from pytest_agentreplay.errors import ReplayDiverged
from pytest_agentreplay.intercept.network.child_events import short_name
from pytest_agentreplay.intercept.process.process_streams import RecordedProcess, ReplayedProcess
from pytest_agentreplay.intercept.session import interceptions
from pytest_agentreplay.intercept.session.patching import lead, loaded_exception, parameters
from pytest_agentreplay.intercept.streams.dialogue import RecordingDialogue, ReplayingDialogue
from pytest_agentreplay.intercept.tools.tool_steps import StepWatch, stepped

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable
    from types import ModuleType

    from pytest_agentreplay.intercept.session.interceptions import Interception

AGENTS = frozenset({"claude"})
"""Programs that are agents, by name; whatever speaks `stream-json` is one too."""

SPOKEN = "stream-json"


def patch(library: ModuleType) -> None:
    """Lead `anyio.open_process`. Doing it twice does nothing."""
    function: Any = getattr(library, "open_process", None)
    if not inspect.iscoroutinefunction(function):
        return
    current, code = getattr(function, "__agentreplay__", (None, function.__code__))
    if current is not interceptions.current:
        function.__code__ = code
        body = FunctionType(code, function.__globals__, function.__name__, function.__defaults__, function.__closure__)
        body.__kwdefaults__ = function.__kwdefaults__
        only = parameters(code)[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
        lead(function, _meeting(body, only))
        function.__agentreplay__ = (interceptions.current, code)


def is_agent(command: object) -> bool:
    """Whether a command starts an agent that speaks JSON lines."""
    if not isinstance(command, list | tuple) or not command:
        return False
    words = [str(word) for word in command]
    return short_name(words[0]) in AGENTS or SPOKEN in words


def _meeting(body: Callable[..., Awaitable[Any]], only: tuple[str, ...]) -> Callable[..., Any]:
    def intercept(
        values: tuple[Any, ...], keywords: tuple[Any, ...], star: tuple[Any, ...], stars: dict[str, Any]
    ) -> Awaitable[Any]:
        given, named = (*values, *star), dict(zip(only, keywords, strict=True)) | stars
        interception = interceptions.current()
        if interception is None or interceptions.within_http() or not is_agent(given[0]):
            return body(*given, **named)
        return _opened(interception, given[0], lambda: body(*given, **named))

    return intercept


async def _opened(interception: Interception, command: Any, start: Callable[[], Any]) -> Any:
    line = shlex.join([short_name(str(command[0])), *map(str, command[1:])])
    address = "stdio:" + line.replace("%", "%25").replace("?", "%3F").replace("#", "%23")
    call = FrameCall(address, boundary="process")
    intercepted = interception.enter(call)
    if not intercepted.forward:
        if isinstance(intercepted.outcome, Failure):
            intercepted.finish()
            raise raise_able(intercepted.outcome, loaded_exception)
        return ReplayedProcess(ReplayingDialogue(interception, intercepted, call, Lines()))
    try:
        process = await stepped(intercepted, start(), StepWatch())
    except ReplayDiverged:
        raise
    except BaseException as error:
        intercepted.settle(failure_of(error), suspended=True)
        raise
    return RecordedProcess(process, RecordingDialogue(interception, intercepted, call))


class Lines:
    """How the lines of one child belong together: a `dialogue.Tongue`."""

    def __init__(self) -> None:
        """Nothing was said yet."""
        self._names: dict[str, str] = {}

    def subject(self, data: bytes, *, by_agent: bool) -> Hashable | None:
        """Which question a line is about."""
        return stream_json.subject(data, by_agent=by_agent)

    def learn(self, recorded: bytes, now: bytes) -> None:
        """Tie the id of a recorded question to today's."""
        if old := stream_json.asked(recorded):
            self._names[old] = stream_json.asked(now)

    def today(self, data: bytes) -> bytes:
        """What the child said, under today's ids."""
        said = json_rpc.message(data)
        renamed = stream_json.renamed(said, self._names)
        return data if renamed is said else json.dumps(renamed, ensure_ascii=False).encode()
