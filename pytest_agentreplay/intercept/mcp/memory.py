"""MCP servers in the process of the test: a server object given to a client, with no transport between them.

Intercepted where the two are tied together: the memory streams of the SDK 1.x and 2.x, which fastmcp uses too, and the
pair of dispatchers that call each other, of 2.x. What the client sends and receives is recorded as over any transport.
While recording, all that the server does is inside: of its life, or of the message that it answers. In a replay the
server is there and is never entered, so none of its tools runs, nor its lifespan where the server runs that itself.

A server whose tools made calls runs in a replay too (`running`). A tool call in which it asked a model or the network
when recorded is answered by the server, whose own calls are replayed; every other tool call is answered from the
recording, and its tool does not run. The server also gets what is no tool call, to be initialized; its answers to
that are dropped.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.intercept.mcp.client import RecordedStreams, replay_connection
from pytest_agentreplay.intercept.mcp.direct import Answered, Listened
from pytest_agentreplay.intercept.mcp.mcp_verifying import CALL
from pytest_agentreplay.intercept.mcp.streams import Messages, ReplayStreams, ReplayWriter
from pytest_agentreplay.intercept.session import interceptions
from pytest_agentreplay.intercept.session.patching import is_trampoline, wrap_code
from pytest_agentreplay.intercept.streams.dialogue import (
    DialogueServer,
    Opening,
    RecordingDialogue,
    ReplayingDialogue,
    escape_path,
)
from pytest_agentreplay.intercept.tools.tool_recording import run_stepwise
from pytest_agentreplay.model.exchanges import FrameCall
from pytest_agentreplay.providers import json_rpc

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Hashable
    from types import FrameType, ModuleType

    from pytest_agentreplay.intercept.session.interceptions import Interception
    from pytest_agentreplay.intercept.session.patching import Seam
    from pytest_agentreplay.intercept.session.pending_call import PendingCall


STREAMS = "create_client_server_memory_streams"
PAIR = "create_direct_dispatcher_pair"
SERVERS = ("Server", "LowLevelServer")
HANDLER = "_handle_message"
"""What answers each message in a task of its own, in the SDK 1.x: the streams of 2.x carry the sender's context there.

https://github.com/modelcontextprotocol/python-sdk/blob/v1.21.2/src/mcp/server/lowlevel/server.py
"""

BRIDGES = ("claude_agent_sdk",)
"""Who ties a server to something that is recorded itself: its tools are intercepted where it calls them."""


class _Connection:
    """A connection that stands: its call, and by request of the agent what stands for the call of that."""

    def __init__(self, intercepted: PendingCall) -> None:
        self.intercepted = intercepted
        self.requests: dict[Hashable, DialogueServer] = {}

    def serving(self, intercepted: PendingCall) -> DialogueServer:
        """Return what stands for `intercepted`, that of a message, around what the server does for it."""
        assert isinstance(intercepted.call, FrameCall)
        serving = DialogueServer(intercepted)
        self.requests[json_rpc.subject(intercepted.call.body.data, by_agent=True)] = serving
        return serving


_served: dict[int, _Connection] = {}
"""The connections that stand, by the id of the stream that the server reads."""


def patch(library: ModuleType) -> None:
    """Lead what `library` ties client and server together with. Doing it twice does nothing."""
    if inspect.isasyncgenfunction(function := inspect.unwrap(getattr(library, STREAMS, patch))):
        _exchange(function, library, functools.partial(_streams, library))
    if inspect.isfunction(function := getattr(library, PAIR, None)):
        _exchange(function, library, functools.partial(_pair, library))
    for name in SERVERS:
        members = vars(getattr(library, name, object))
        if inspect.iscoroutinefunction(function := members.get("run")):
            _exchange(function, library, _run)
        if inspect.iscoroutinefunction(function := members.get(HANDLER)):
            _exchange(function, library, _handle)


def _exchange(function: Any, library: ModuleType, intercept: Callable[..., Any]) -> None:
    """Have `intercept(real, *args, **kwargs)` called in the place of a function that `library` defines."""
    if function.__module__ == library.__name__:
        wrap_code(function, functools.partial(functools.partial, intercept))


async def _streams(library: ModuleType, real: Seam, *args: Any, **kwargs: Any) -> AsyncGenerator[Any, None]:
    """The body of the context manager that gives the streams of a client and those of a server."""
    asker = _asker()
    interception = _interception(asker)
    async with contextlib.asynccontextmanager(real)(*args, **kwargs) as (client, server):
        if interception is None:
            yield client, server
            return
        opening = Opening.enter(interception, address(asker), "mcp")
        messages = Messages(library)
        connection = _served[id(server[0])] = _Connection(opening.intercepted)
        try:
            if opening.intercepted.forward:
                at_hand = contextlib.nullcontext(client)
                async with RecordedStreams(opening, messages, at_hand, connection.serving) as (read, write):
                    yield (read, write), server
            elif opening.intercepted.connects_to_server:
                giving = ReplayingDialogue(opening, json_rpc)
                async with run_beside(giving, messages, client, around=connection.serving) as streams:
                    yield streams, server
            else:
                async with replay_connection(opening, messages, ids=False) as (read, write):
                    write.beside = client[1]
                    yield (read, write), server
        finally:
            del _served[id(server[0])]


async def _run(real: Seam, server: Any, read: Any, *args: Any, **kwargs: Any) -> None:
    """The life of a server on two streams. In a replay it waits for the end of what nobody says."""
    connection = _served.get(id(read))
    if connection is None:
        await real(server, read, *args, **kwargs)
        return
    intercepted = connection.intercepted
    if intercepted.exchange is None or intercepted.connects_to_server:
        await run_stepwise(DialogueServer(intercepted), real(server, read, *args, **kwargs))
    else:
        async for _ in read:
            pass


async def _handle(real: Seam, server: Any, message: Any, session: Any, *args: Any, **kwargs: Any) -> None:
    """What a server of the SDK 1.x does for one message: its calls belong to that message."""
    connection = _served.get(id(getattr(session, "_read_stream", None)))
    request = "agent", json_rpc.make_key(getattr(message, "request_id", None))
    serving = connection.requests.get(request) if connection is not None else None
    work = real(server, message, session, *args, **kwargs)
    await (work if serving is None else run_stepwise(serving, work))


def _pair(library: ModuleType, real: Seam, *args: Any, **kwargs: Any) -> Any:
    """The dispatchers of a client and of a server."""
    client, server = real(*args, **kwargs)
    asker = _asker()
    interception = _interception(asker)
    if interception is None:
        return client, server
    opening = Opening.enter(interception, address(asker), "mcp")
    if opening.intercepted.forward:
        return Listened(RecordingDialogue(opening), client), server
    return Answered(opening, library, client if opening.intercepted.connects_to_server else None), server


def _asker() -> FrameType | None:
    """The frame of whoever ties a client and a server together."""
    frame: FrameType | None = sys._getframe(1)
    between = {__name__, wrap_code.__module__, "contextlib"}
    while frame is not None and (frame.f_globals.get("__name__") in between or is_trampoline(frame.f_code)):
        frame = frame.f_back
    return frame


def _interception(asker: FrameType | None) -> Interception | None:
    asking = "" if asker is None else str(asker.f_globals.get("__name__"))
    return None if asking.partition(".")[0] in BRIDGES else interceptions.find_interception()


def address(asker: FrameType | None) -> str:
    """Whom a client is tied to: the name of the server that the asker holds."""
    kind: Any = getattr(sys.modules.get("mcp.server.lowlevel.server"), "Server", None)
    candidates = asker.f_locals.values() if asker is not None and kind is not None else ()
    return "memory:" + escape_path(next((str(server.name) for server in candidates if isinstance(server, kind)), ""))


@contextlib.asynccontextmanager
async def run_beside(
    giving: ReplayingDialogue,
    messages: Messages,
    client: tuple[Any, Any],
    *,
    around: Callable[[PendingCall], DialogueServer],
) -> AsyncGenerator[tuple[ReplayStreams, ReplayWriter], None]:
    """Yield the streams of a session with a server that runs; `client` are the client's real ones.

    `around` returns what stands for the call of a message around what the server does for it.
    """
    anyio: Any = sys.modules["anyio"]
    live: set[Hashable] = set()
    read, write = ReplayStreams(giving, messages, anyio), _ServerRequest(giving, messages, client[1], live, around)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_listen, client[0], giving, messages, live)
        try:
            yield read, write
        finally:
            read.close()
            write.close()
            tasks.cancel_scope.cancel()


async def _listen(real: Any, giving: ReplayingDialogue, messages: Messages, live: set[Hashable]) -> None:
    """Hand over what the server says of tool calls that it answers itself, and what it asks for meanwhile."""
    async for message in real:
        data = messages.encode_received(message)
        if json_rpc.subject(data, by_agent=False) in live or json_rpc.is_request(json_rpc.message(data)):
            giving.hand(data)


class _ServerRequest(ReplayWriter):
    """The agent's side: each message is compared, then answered by the recording or by the server."""

    def __init__(
        self,
        giving: ReplayingDialogue,
        messages: Messages,
        real: Any,
        live: set[Hashable],
        around: Callable[[PendingCall], DialogueServer],
    ) -> None:
        super().__init__(giving, messages, sys.modules["anyio"])
        self._real = real
        self._live = live
        self._around = around

    async def send(self, message: Any) -> None:
        """Say a message; the server gets it unless its recorded answer is all that there is."""
        if self._closed:
            raise self._anyio.ClosedResourceError
        data = self._messages.encode_sent(message)
        intercepted = self._giving.say(data)
        call = json_rpc.message(data).get("method") == CALL
        is_served = call and intercepted.runs_server
        if is_served:
            self._live.add(json_rpc.subject(data, by_agent=True))
        recorded = [answer for answer in self._giving.due if json_rpc.subject(answer, by_agent=False) not in self._live]
        self._giving.due.clear()
        self._giving.due.extend(recorded)
        if is_served or not call:
            await run_stepwise(self._around(intercepted), self._real.send(message))
        else:
            await self._anyio.lowlevel.checkpoint()
