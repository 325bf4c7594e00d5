"""The HTTP boundary of `http.client` and of what stands on it bare: `urllib.request`, `xmlrpc.client` and their like.

Intercepted where a request's head is complete (`endheaders`). A body that is sent piece by piece afterwards is held
back until the response is asked for: no call is known before it is whole. While replaying the connection keeps its own
course, over a socket whose file is the recorded reply.

Rules of this file: where another HTTP boundary makes the call, or a played socket is in place, it steps aside.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from pytest_agentreplay.intercept.http.files import LISTENING, Playing, hear, listening
from pytest_agentreplay.intercept.http.http_wire import Incoming, Wire, is_chunked, never, revive_exception
from pytest_agentreplay.intercept.network.in_process import stays
from pytest_agentreplay.intercept.session import interceptions
from pytest_agentreplay.intercept.session.patching import wrap
from pytest_agentreplay.intercept.session.replacing import blame, pass_on
from pytest_agentreplay.model.exchanges import EMPTY, Body, Failure, HttpCall, HttpReply

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

    from pytest_agentreplay.intercept.session.interceptions import Interception
    from pytest_agentreplay.intercept.session.patching import Seam
    from pytest_agentreplay.model.exchanges import Headers


@dataclass(slots=True)
class PendingRequest:
    """A request of one connection, from the end of its head to the response: `wire` is there once it was asked for.

    `is_sent` says that what comes of the body passes at once, and a copy is kept.
    """

    interception: Interception
    head: tuple[bytes, ...] = field(repr=False)
    is_sent: bool = False
    held_back: list[bytes] = field(default_factory=list, repr=False)
    wire: Wire | None = None
    real: Any = None


_under: WeakKeyDictionary[Any, PendingRequest] = WeakKeyDictionary()


def patch(library: ModuleType) -> None:
    """Wrap the connection's way out and the response's beginning. Doing it twice does nothing."""
    patches = _Patches(library)
    wrap(library.HTTPResponse, "begin", begin)
    for name in ("endheaders", "send", "getresponse"):
        wrap(library.HTTPConnection, name, getattr(patches, name), always=name != "endheaders")


def begin(original: Seam) -> Seam:
    """`HTTPResponse.begin`, after which the body is teed when a boundary is listening."""
    waiting = LISTENING.get

    def begin(response: Any) -> None:
        intercepted = None if response.headers is not None else waiting()
        original(response)
        if intercepted is not None:
            hear(response, intercepted)

    return begin


class _Patches:
    """The wrapped methods of the connections of one library (`http.client`, or a copy that somebody has vendored)."""

    def __init__(self, library: ModuleType) -> None:
        self._library = library
        self._send: Seam = library.HTTPConnection.send
        self._end: Seam = library.HTTPConnection.endheaders

    def endheaders(self, original: Seam) -> Seam:
        """The end of a request's head: ask, unless a body is still to come."""
        find_interception = interceptions.find_for_http
        self._end = original

        def endheaders(connection: Any, message_body: Any = None, *, encode_chunked: bool = False) -> Any:
            interception = find_interception()
            if interception is None or isinstance(connection.sock, Playing):
                _under.pop(connection, None)
                return original(connection, message_body, encode_chunked=encode_chunked)
            parts = [b""]
            if message_body is not None:
                try:
                    parts = list(pieces(message_body, connection.blocksize))
                except BaseException as error:
                    blame(original, error)  # that of a generator of the agent's
                    raise
                pass_on(original, connection, parts, encode_chunked=encode_chunked)
            head = tuple(connection._buffer)
            if stays(interception, call_of(connection, head, b"".join(parts))):
                _under.pop(connection, None)
                return original(connection, None if message_body is None else parts, encode_chunked=encode_chunked)
            follows = message_body is None and announces_body(headers_of(head))
            if follows and interception.is_capture:
                original(connection)
            under = _under[connection] = PendingRequest(interception, head, follows and interception.is_capture)
            if follows:
                return None
            message = None if parts == [b""] else parts[0] if len(parts) == 1 else parts
            send = functools.partial(original, connection, message, encode_chunked=encode_chunked)
            try:
                return self._ask(connection, under, b"".join(parts), send)
            except BaseException:
                _under.pop(connection, None)
                raise

        return endheaders

    def send(self, original: Seam) -> Seam:
        """A piece of a body: held back until the request is whole."""
        self._send = original

        def send(connection: Any, data: Any) -> Any:
            under = _under.get(connection) if _under else None
            if under is None or under.wire is not None:
                return original(connection, data)
            under.held_back.extend(parts := [*pieces(data, connection.blocksize)])
            if under.is_sent:
                pass_on(original, connection, b"".join(parts))
                original(connection, b"".join(parts))
            return None

        return send

    def getresponse(self, original: Seam) -> Seam:
        """The response: the real one, teed, or the recorded one."""

        def getresponse(connection: Any) -> Any:
            under = _under.get(connection) if _under else None
            if under is None:
                return original(connection)
            try:
                if under.wire is None:
                    send = (lambda: None) if under.is_sent else functools.partial(self._send_held, connection, under)
                    self._ask(connection, under, join_held_back(under), send)
            finally:
                del _under[connection]
            assert under.wire is not None
            intercepted = under.wire.intercepted
            if intercepted.forward:
                try:
                    with listening(intercepted):
                        return original(connection)
                except BaseException as error:
                    under.wire.fail(error)
                    raise
            try:
                raise_recorded(under.wire)
                return original(connection)
            finally:
                connection.sock = under.real

        return getresponse

    def _send_held(self, connection: Any, under: PendingRequest) -> None:
        self._end(connection)
        for part in under.held_back:
            self._send(connection, part)

    def _ask(self, connection: Any, under: PendingRequest, body: bytes, send: Callable[[], object]) -> None:
        """Ask the interception; then send for real, or put a played socket in the place of the real one."""
        call = call_of(connection, under.head, body)
        revive = functools.partial(revive_exception, library=self._library)
        under.wire = Wire.enter(under.interception, call, revive)
        intercepted = under.wire.intercepted
        if not intercepted.forward:
            under.real = connection.sock
            if isinstance(intercepted.outcome, Failure) and not of_the_response(intercepted.outcome):
                raise_recorded(under.wire)
            reply = intercepted.outcome
            connection.sock = Playing(under.wire, reply if isinstance(reply, HttpReply) else HttpReply(200))
            self._end(connection)
            return
        try:
            with intercepted.inside():
                send()
        except BaseException as error:
            under.wire.fail(error)
            raise


def call_of(connection: Any, head: tuple[bytes, ...], body: bytes) -> HttpCall:
    """The request as a call; its head is as it goes on the wire."""
    method, _, rest = head[0].decode("latin-1").partition(" ")
    target = rest.rpartition(" ")[0]
    if "://" not in target.partition("?")[0]:
        target = origin_of(connection) + target
    return HttpCall(method, target.partition("#")[0], headers_of(head), Body(body) if body else EMPTY)


def origin_of(connection: Any) -> str:
    """Scheme, host and port of what the connection leads to; behind a tunnel that is its far end."""
    default = connection.default_port
    host, port = connection.host, connection.port
    if connection._tunnel_host:
        host, port = connection._tunnel_host, connection._tunnel_port or default
    return origin("https" if default == 443 else "http", host, port)


def origin(scheme: str, host: str, port: int | None) -> str:
    """As URLs write it: without a port that goes without saying, an IPv6 address in brackets."""
    host_part = f"[{host}]" if ":" in host and not host.startswith("[") else host
    return f"{scheme}://{host_part}" + ("" if port in {None, {"http": 80, "https": 443}.get(scheme)} else f":{port}")


def headers_of(head: tuple[bytes, ...]) -> Headers:
    """The header lines below the request line, as pairs."""
    lines = (line.decode("latin-1").partition(":") for line in head[1:])
    return tuple([(name, value.strip()) for name, _, value in lines])


def announces_body(headers: Headers) -> bool:
    """Whether a body follows a head with these headers."""
    length = next((value for name, value in headers if name.lower() == "content-length"), "0")
    return length != "0" or is_chunked(headers)


def join_held_back(under: PendingRequest) -> bytes:
    """Return the body that was held back, without the chunks that its sender made."""
    sent = b"".join(under.held_back)
    if not is_chunked(headers_of(under.head)):
        return sent
    return b"".join(Incoming(chunked=True, length=None).feed(sent))


def pieces(body: Any, size: int) -> Iterator[bytes]:
    """What `http.client` would send of a body: a file in blocks, an iterable item by item, bytes as they are."""
    if hasattr(body, "read"):
        while block := body.read(size):
            yield block.encode("latin-1") if isinstance(block, str) else bytes(block)
        return
    try:
        yield bytes(memoryview(body))
    except TypeError:
        for part in body:
            yield bytes(part)


def raise_recorded(wire: Wire) -> None:
    """Raise what was raised when recorded; an answer that never came is waited for."""
    intercepted = wire.intercepted
    if intercepted.unfinished:
        never(wire)
    if isinstance(intercepted.outcome, Failure):
        intercepted.wait_in_thread()
        intercepted.finish()
        raise wire.revive(intercepted.outcome)


def of_the_response(failure: Failure) -> bool:
    """Whether `getresponse` raised it rather than `request`, which callers tell apart.

    A timeout without a number is one of either; the wait for an answer is the longer one.
    """
    kinds = {failure.type, *failure.bases}
    late = {"http.client.HTTPException", "builtins.ConnectionResetError", "builtins.BrokenPipeError"}
    return not late.isdisjoint(kinds) or (failure.type == "builtins.TimeoutError" and len(failure.args) < 2)
