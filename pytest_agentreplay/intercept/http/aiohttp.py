"""The HTTP boundary of aiohttp: google-genai's async client, LiteLLM's and openai's aiohttp transports, agents' tools.

Intercepted at `BaseConnector.connect`, which every wire call passes with its whole request: each redirect is one, and
so is each use of a connection that is kept alive. Parsing, decoding and cookies stay aiohttp's own in both modes: while
recording the connection's protocol is listened to, while replaying a real protocol stands over a played transport.

A body that comes from an async generator or a file is read whole before it is sent: no call is known before. A request
for an upgrade (a WebSocket) is none of HTTP's, and passes by.
"""

from __future__ import annotations

import asyncio
import functools
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.intercept.http.bodies import SuspensionProbe
from pytest_agentreplay.intercept.http.http_wire import Wire, forever, freeze_exception, revive_exception
from pytest_agentreplay.intercept.http.transports import HEARD, PlayedTransport, RecordingProtocol, of_the_wire
from pytest_agentreplay.intercept.network.in_process import stays
from pytest_agentreplay.intercept.session import interceptions
from pytest_agentreplay.intercept.session.other_plugins import describe_closed
from pytest_agentreplay.intercept.session.patching import find_exception, wrap
from pytest_agentreplay.intercept.session.replacing import blame
from pytest_agentreplay.model.exchanges import EMPTY, Body, Failure, HttpCall, HttpReply
from pytest_agentreplay.model.release_order import BEGUN

if TYPE_CHECKING:
    from types import ModuleType

    from pytest_agentreplay.intercept.session.patching import Seam
    from pytest_agentreplay.model.exchanges import Headers


def patch(library: ModuleType) -> None:
    """Wrap the connectors' way out and what the protocol hears (`aiohttp.connector`). Twice does nothing."""
    wrap(library.BaseConnector, "connect", functools.partial(connecting, library))
    for name in ("data_received", "connection_lost", "set_exception", "close"):
        wrap(library.ResponseHandler, name, functools.partial(hearing, name), always=True)


COMES = frozenset({"data_received", "connection_lost"})
"""What a protocol is told by the wire; the rest is the agent's doing, or aiohttp's."""


def hearing(name: str, original: Seam) -> Seam:
    """A method of the protocol; who listens to its wire call is told first. What comes over the wire has its moment."""

    def listen_and_call(protocol: Any, *args: Any, **more: Any) -> Any:
        listener = protocol.__dict__.get(HEARD)
        if listener is None:
            return original(protocol, *args, **more)

        def pass_on() -> Any:
            if protocol.__dict__.get(HEARD) is listener:
                getattr(listener, name)(*args)
            return original(protocol, *args, **more)

        return None if name in COMES and listener.defer(pass_on) else pass_on()

    return listen_and_call


def connecting(library: ModuleType, original: Seam) -> Seam:
    """`BaseConnector.connect`, which asks the interception first."""
    find_interception = interceptions.find_for_http

    async def connect(connector: Any, request: Any, *args: Any, **more: Any) -> Any:
        interception = find_interception()
        if interception is None or "websocket" in request.headers.get("Upgrade", "").lower():
            return await original(connector, request, *args, **more)
        try:
            body = await read_body(request)
        except BaseException as error:
            blame(original, error)  # that of a generator of the agent's
            raise
        call = call_of(request, body)
        if stays(interception, call):
            return await original(connector, request, *args, **more)
        if interception.scope.changes and (new := interception.change_request(call)) is not call:
            call, request.url = new, type(request.url)(new.url, encoded=True)
            set_body(request, call.body.data)
            request.headers.update(call.headers)
        wire = Wire.enter(interception, call, functools.partial(native, request))
        intercepted = wire.intercepted
        if not intercepted.forward:
            return await replay_connection(wire, library, connector, request)
        watch = SuspensionProbe()
        try:
            with intercepted.inside():
                connection = await watch.watch(original(connector, request, *args, **more))
        except BaseException as error:
            # Perhaps a cancellation: nothing may be awaited here.
            interception.observed.note_problem(describe_closed(error))
            intercepted.settle(as_value(error), suspended=watch.suspended)
            raise
        setattr(connection.protocol, HEARD, RecordingProtocol(intercepted, request, connection.protocol))
        return connection

    return connect


async def replay_connection(wire: Wire, library: ModuleType, connector: Any, request: Any) -> Any:
    """Return a connection over a played transport; what was raised before there was one is raised."""
    intercepted = wire.intercepted
    if intercepted.unfinished:
        await forever(wire)
    await intercepted.wait(BEGUN)
    outcome = intercepted.outcome
    if isinstance(outcome, Failure) and not of_the_wire(outcome):
        intercepted.finish()
        raise wire.revive(outcome)
    assert isinstance(outcome, HttpReply | Failure)
    loop = asyncio.get_running_loop()
    protocol = library.ResponseHandler(loop=loop)
    protocol.connection_made(PlayedTransport(wire, outcome, protocol, expects="Expect" in request.headers))
    protocol.force_close()  # never kept for another call
    key = request.connection_key
    connector._acquired.add(protocol)
    if connector._limit_per_host:
        connector._acquired_per_host[key].add(protocol)
    return library.Connection(connector, key, protocol, loop)


def call_of(request: Any, body: bytes) -> HttpCall:
    """The native request as a call; a body that will be compressed on its way is kept as it is."""
    url = str(request.url).partition("#")[0]
    return HttpCall(request.method, url, headers_of(request), Body(body) if body else EMPTY)


def headers_of(request: Any) -> Headers:
    """The headers, as they will be sent."""
    left_out = {"content-encoding"} if request.compress else set()
    return tuple([(name, value) for name, value in request.headers.items() if name.lower() not in left_out])


async def read_body(request: Any) -> bytes:
    """Return the bytes of the request's body; one that can be read once is replaced by what was read."""
    body = request.body
    if not body or isinstance(body, bytes | bytearray):
        return bytes(body or b"")
    try:
        data: bytes = await body.as_bytes()
        read_once = body.consumed
    except (AttributeError, TypeError):  # before aiohttp 3.12, and parts of a multipart that is passed on
        pieces = Pieces()
        await body.write(pieces)
        data, read_once = b"".join(pieces.taken), True
    if read_once:
        set_body(request, data)
    return data


def set_body(request: Any, data: bytes) -> None:
    """Give a request another body."""
    from aiohttp.payload import BytesPayload

    vars(request)["_body" if hasattr(type(request), "_body") else "body"] = BytesPayload(data)


class Pieces:
    """A writer that keeps what a payload writes."""

    def __init__(self) -> None:
        self.taken: list[bytes] = []

    async def write(self, chunk: Any) -> None:
        """Keep a piece."""
        self.taken.append(bytes(chunk))


def as_value(error: BaseException) -> Failure:
    """`error` as a value; one of connecting keeps what the system said."""
    failure, os_error = freeze_exception(error), getattr(error, "os_error", None)
    return replace(failure, args=(os_error.errno, os_error.strerror)) if isinstance(os_error, OSError) else failure


def native(request: Any, failure: Failure) -> BaseException:
    """The recorded failure as an exception of aiohttp, told of the connection that it belongs to."""
    import aiohttp

    kind: Any = find_exception(failure.type)
    if kind is not None and issubclass(kind, aiohttp.ClientConnectorError):
        error: BaseException = kind(request.connection_key, OSError(*(failure.args or (failure.message,))))
        return error
    return revive_exception(failure, aiohttp)
