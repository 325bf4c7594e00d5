"""MCP, of the SDK 1.x and 2.x: every message between a session and a server, whatever carries it.

Intercepted at the transports (`stdio_client`, `sse_client`, `streamable_http_client` and their like): context managers
that give a stream to read and one to write messages. Frameworks import them early, so the code of the functions is
exchanged and not their names. While recording the real transport runs, and all that its tasks do is inside: no HTTP
seam and no guard sees it a second time. While replaying it is not entered: nothing is started, no socket opened.

A session writes in the task of whoever asks, so a message belongs to the lane, and to the tool, that it is sent from.
"""

from __future__ import annotations

import contextlib
import inspect
import itertools
import sys
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.errors import ReplayDiverged
from pytest_agentreplay.intercept.mcp.mcp_verifying import LiveServer
from pytest_agentreplay.intercept.mcp.streams import (
    MessageLog,
    Messages,
    RecordingReader,
    RecordingWriter,
    ReplayStreams,
    ReplayWriter,
)
from pytest_agentreplay.intercept.session import interceptions, lanes, patching
from pytest_agentreplay.intercept.session.patching import find_exception, lead, list_parameters
from pytest_agentreplay.intercept.session.replacing import mark_exchanged, noting, shield
from pytest_agentreplay.intercept.streams.dialogue import RecordingDialogue, ReplayingDialogue, program_address
from pytest_agentreplay.intercept.tools.arguments import Arguments
from pytest_agentreplay.intercept.tools.tool_recording import StepWatch, run_stepwise
from pytest_agentreplay.model.exchanges import Closed, Failure, FrameCall, RawCall
from pytest_agentreplay.values.failure import failure_of, raise_able

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable
    from contextlib import AbstractAsyncContextManager
    from types import FunctionType, ModuleType

    from pytest_agentreplay.intercept.mcp.mcp_verifying import Open
    from pytest_agentreplay.intercept.session.interceptions import Interception
    from pytest_agentreplay.intercept.session.pending_call import PendingCall
    from pytest_agentreplay.model.exchanges import Headers

TRANSPORTS = ("stdio_client", "sse_client", "streamable_http_client", "streamablehttp_client", "websocket_client")
SESSION_ID = "mcp-session-id"

_KEYS = itertools.count(1)


def patch(library: ModuleType) -> None:
    """Lead the transports that `library` defines. Doing it twice does nothing."""
    for name in TRANSPORTS:
        function: Any = inspect.unwrap(getattr(library, name, patch))
        if not inspect.isasyncgenfunction(function) or function.__module__ != library.__name__:
            continue  # imported from elsewhere, or of a shape that we do not know: the guard speaks
        current, code = getattr(function, "__agentreplay__", (None, function.__code__))
        # A second copy of this module (test tools that restore sys.modules) takes over from the first.
        if current is not interceptions.find_interception:
            function.__code__ = code
            Transport(function, library)
            mark_exchanged(function, code, interceptions.find_interception)


class Transport:
    """One function that opens connections, intercepted from now on."""

    def __init__(self, function: FunctionType, library: ModuleType) -> None:
        """Exchange its code."""
        code = function.__code__
        self._key = f"mcp {next(_KEYS)}"
        self._library = library
        self._arguments = Arguments(function, bound=False)
        self._only = list_parameters(code)[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
        patching.keep(self._key, function, code)
        lead(function, shield(self._connecting, self._pass_on))

    def _connecting(self, real: Callable[..., Any]) -> Callable[..., Any]:
        """Return the body of the context manager: the real one, or one that asks the interception first."""

        def connect(
            values: tuple[Any, ...], only: tuple[Any, ...], star: tuple[Any, ...], stars: dict[str, Any]
        ) -> AsyncGenerator[Any, None]:
            interception = interceptions.find_interception()
            if interception is None:
                return real(values, only, star, stars)  # type: ignore[no-any-return]
            positional, keywords = (*values, *star), dict(zip(self._only, only, strict=True)) | stars
            return self._open(interception, positional, keywords, real)

        return connect

    def _pass_on(
        self, values: tuple[Any, ...], only: tuple[Any, ...], star: tuple[Any, ...], stars: dict[str, Any]
    ) -> AsyncGenerator[Any, None]:
        """Return the real body, where no test is recorded or replayed."""
        keywords = dict(zip(self._only, only, strict=True)) | stars
        return patching.make_unintercepted(self._key)(*values, *star, **keywords)  # type: ignore[no-any-return]

    async def _open(
        self,
        interception: Interception,
        positional: tuple[Any, ...],
        keywords: dict[str, Any],
        body: Callable[..., Any],
    ) -> AsyncGenerator[Any, None]:
        if (around := _find_enclosing_opening(interception)) is not None:
            async with contextlib.asynccontextmanager(patching.lend(self._key, around))(
                *positional, **keywords
            ) as streams:
                yield streams
            return
        call = FrameCall(address(self._arguments.name_values(positional, keywords)), boundary="mcp")
        intercepted = interception.enter(RawCall(call))
        messages = Messages(self._library)

        def real(opened: PendingCall) -> AbstractAsyncContextManager[Any]:
            lent = noting(body, patching.lend(self._key, opened))
            return contextlib.asynccontextmanager(lent)(*positional, **keywords)

        if intercepted.forward:
            async with RecordedStreams(interception, intercepted, call, messages, real(intercepted)) as streams:
                yield streams
        else:
            ids = hasattr(self._library, "GetSessionIdCallback")
            async with replay_connection(interception, intercepted, call, messages, ids=ids, real=real) as streams:
                yield streams


def _find_enclosing_opening(interception: Interception) -> PendingCall | None:
    """Return the opening that is under way around this one, if any: one transport may be made of another."""
    call_context = lanes.CALL_CONTEXT.get()
    if call_context is None or call_context.inside is None or call_context.inside[1] != "mcp":
        return None
    return next(
        (intercepted for intercepted in interception.pending.open if intercepted.ticket == call_context.inside[0]), None
    )


def address(arguments: dict[str, Any]) -> str:
    """Whom a transport connects to: the URL, or the command line of the server; never a header or a variable."""
    if "url" in arguments:
        return str(arguments["url"])
    server = arguments["server"]
    return program_address([server.command, *server.args])


class RecordedStreams:
    """A real connection, listened to. An async context manager that gives what the transport gives."""

    def __init__(
        self,
        interception: Interception,
        intercepted: PendingCall,
        call: FrameCall,
        messages: Messages,
        real: Any,
        *,
        around: Callable[[PendingCall], Any] | None = None,
    ) -> None:
        """`real` is the transport's own context manager; `around` is put around what carries a message."""
        self._around = around
        self._taking = RecordingDialogue(interception, intercepted, call)
        self._intercepted = intercepted
        self._messages = messages
        self._real = real

    async def __aenter__(self) -> tuple[Any, ...]:
        try:
            streams = await run_stepwise(self._intercepted, self._real.__aenter__(), StepWatch())
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
        swallowed: bool | None = await run_stepwise(self._intercepted, self._real.__aexit__(*error), StepWatch())
        return swallowed


def _session(identity: str | None) -> Headers:
    return ((SESSION_ID, identity),) if identity else ()


@contextlib.asynccontextmanager
async def replay_connection(
    interception: Interception,
    intercepted: PendingCall,
    call: FrameCall,
    messages: Messages,
    *,
    ids: bool,
    real: Open | None = None,
) -> AsyncGenerator[tuple[Any, ...], None]:
    """Replay a connection: nothing is connected to. `ids` says that a session id is asked for.

    `real` gives the real connection, to verify what read tools give.
    """
    if isinstance(intercepted.outcome, Failure):
        intercepted.finish()
        raise raise_able(intercepted.outcome, find_exception)
    giving = ReplayingDialogue(interception, intercepted, call, MessageLog())
    anyio: Any = sys.modules["anyio"]
    read, write = ReplayStreams(giving, messages, anyio), ReplayWriter(giving, messages, anyio)
    if real is not None and intercepted.exchange is not None:
        write.live = LiveServer(interception, intercepted.exchange.start, messages, real)
    more = (lambda: dict(giving.headers).get(SESSION_ID),) if ids else ()
    await anyio.lowlevel.checkpoint()
    try:
        yield (read, write, *more)
    finally:
        read.close()
        write.close()
        if write.live is not None:
            await write.live.close()
