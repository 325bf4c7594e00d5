"""MCP, of the SDK 1.x and 2.x: every message between a session and a server, whatever carries it.

Intercepted at the transports (`stdio_client`, `sse_client`, `streamable_http_client` and their like): context managers
that give a stream to read and one to write messages. Frameworks import them early, so the code of the functions is
exchanged and not their names. While recording the real transport runs, and all that its tasks do is inside: no HTTP
seam and no guard sees it a second time. While replaying it is not entered: nothing is started, no socket opened.

A session writes in the task of whoever asks, so a message belongs to the lane, and to the tool, that it is sent from.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.errors import ReplayDiverged
from pytest_agentreplay.intercept.mcp.mcp_verifying import LiveServer
from pytest_agentreplay.intercept.mcp.streams import (
    Messages,
    RecordingReader,
    RecordingWriter,
    ReplayStreams,
    ReplayWriter,
)
from pytest_agentreplay.intercept.session import interceptions, lanes
from pytest_agentreplay.intercept.session.patching import wrap_code
from pytest_agentreplay.intercept.streams.dialogue import Opening, RecordingDialogue, ReplayingDialogue, program_address
from pytest_agentreplay.intercept.tools.arguments import Arguments
from pytest_agentreplay.intercept.tools.tool_recording import run_stepwise
from pytest_agentreplay.model.exchanges import Closed
from pytest_agentreplay.providers import json_rpc
from pytest_agentreplay.values.failure import failure_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable
    from types import ModuleType

    from pytest_agentreplay.intercept.mcp.mcp_verifying import Open
    from pytest_agentreplay.intercept.session.interceptions import Interception
    from pytest_agentreplay.intercept.session.patching import Seam
    from pytest_agentreplay.intercept.session.pending_call import PendingCall
    from pytest_agentreplay.model.exchanges import Headers

TRANSPORTS = ("stdio_client", "sse_client", "streamable_http_client", "streamablehttp_client", "websocket_client")
SESSION_ID = "mcp-session-id"


def patch(library: ModuleType) -> None:
    """Lead the transports that `library` defines. Doing it twice does nothing."""
    for name in TRANSPORTS:
        function: Any = inspect.unwrap(getattr(library, name, patch))
        # What is imported from elsewhere, or of a shape that we do not know, is left to the guard.
        if inspect.isasyncgenfunction(function) and function.__module__ == library.__name__:
            wrap_code(function, functools.partial(_connecting, library, Arguments(function, bound=False)))


def _connecting(library: ModuleType, arguments: Arguments, original: Seam) -> Seam:
    """Return the body of a transport's context manager: the real one, or one that asks the interception first."""

    def connect(*args: Any, **kwargs: Any) -> Any:
        interception = interceptions.find_interception()
        if interception is None:
            return original(*args, **kwargs)
        transport = contextlib.asynccontextmanager(functools.partial(original, *args, **kwargs))
        return _open(interception, library, lambda: address(arguments.name_values(args, kwargs)), transport)

    return connect


async def _open(
    interception: Interception, library: ModuleType, find_address: Callable[[], str], transport: Open
) -> AsyncGenerator[Any, None]:
    if _is_part_of_another(interception):
        async with transport() as streams:
            yield streams
        return
    opening = Opening.enter(interception, find_address(), "mcp")
    messages = Messages(library)
    if opening.intercepted.forward:
        async with RecordedStreams(opening, messages, transport()) as streams:
            yield streams
    else:
        ids = hasattr(library, "GetSessionIdCallback")
        async with replay_connection(opening, messages, ids=ids, real=transport) as streams:
            yield streams


def _is_part_of_another(interception: Interception) -> bool:
    """Whether a connection is being opened around this one: one transport may be made of another."""
    call_context = lanes.CALL_CONTEXT.get()
    if call_context is None or call_context.inside is None or call_context.inside[1] != "mcp":
        return False
    return any(intercepted.ticket == call_context.inside[0] for intercepted in interception.pending.open)


def address(arguments: dict[str, Any]) -> str:
    """Whom a transport connects to: the URL, or the command line of the server; never a header or a variable."""
    if "url" in arguments:
        return str(arguments["url"])
    server = arguments["server"]
    return program_address([server.command, *server.args])


class RecordedStreams:
    """A real connection, listened to. An async context manager that gives what the transport gives."""

    def __init__(
        self, opening: Opening, messages: Messages, real: Any, around: Callable[[PendingCall], Any] | None = None
    ) -> None:
        """`real` is the transport's own context manager; `around` is put around what carries a message."""
        self._around = around
        self._taking = RecordingDialogue(opening)
        self._intercepted = opening.intercepted
        self._messages = messages
        self._real = real

    async def __aenter__(self) -> tuple[Any, ...]:
        try:
            streams = await run_stepwise(self._intercepted, self._real.__aenter__())
        except ReplayDiverged:
            raise
        except BaseException as error:
            self._intercepted.partial = None
            self._intercepted.settle(failure_of(error), suspended=True)
            raise
        read, write, *more = streams
        if more and callable(more[0]):
            self._taking.headers = lambda: _session(more[0]())
        writer = RecordingWriter(write, self._taking, self._messages)
        writer.around = self._around
        return RecordingReader(read, self._taking, self._messages), writer, *more

    async def __aexit__(self, *error: object) -> bool | None:
        self._taking.end(Closed(by_agent=True))
        swallowed: bool | None = await run_stepwise(self._intercepted, self._real.__aexit__(*error))
        return swallowed


def _session(identity: str | None) -> Headers:
    return ((SESSION_ID, identity),) if identity else ()


@contextlib.asynccontextmanager
async def replay_connection(
    opening: Opening, messages: Messages, *, ids: bool, real: Open | None = None
) -> AsyncGenerator[tuple[Any, ...], None]:
    """Replay a connection: nothing is connected to. `ids` says that a session id is asked for.

    `real` gives the real connection, to verify what read tools give.
    """
    opening.raise_failure()
    giving, exchange = ReplayingDialogue(opening, json_rpc), opening.intercepted.exchange
    anyio: Any = sys.modules["anyio"]
    read, write = ReplayStreams(giving, messages, anyio), ReplayWriter(giving, messages, anyio)
    if real is not None and exchange is not None:
        write.live = LiveServer(opening.interception, exchange.start, messages, real)
    more = (lambda: dict(giving.headers).get(SESSION_ID),) if ids else ()
    await anyio.lowlevel.checkpoint()
    try:
        yield (read, write, *more)
    finally:
        read.close()
        write.close()
        if write.live is not None:
            await write.live.close()
