"""A child's request sent on to its upstream while recording, and each answer on its way to the child.

By the standard library's own client: what is installed in the test's environment is none of the child's business. An
answer is framed anew for the child's connection, its status, headers and bytes as they are.
"""

from __future__ import annotations

import _thread
import base64
import functools
import http.client
import selectors
import socket
import ssl
import struct
import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from pytest_agentreplay.intercept.http.bodies import BodyCapture
from pytest_agentreplay.intercept.http.http_wire import freeze_exception
from pytest_agentreplay.intercept.session.other_plugins import describe_closed
from pytest_agentreplay.model.exchanges import Failure, HttpReply

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from pytest_agentreplay.intercept.session.interceptions import Interception
    from pytest_agentreplay.intercept.session.pending_call import PendingCall
    from pytest_agentreplay.model.exchanges import Headers, HttpCall


HOP_BY_HOP = frozenset(
    (
        *("connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection"),
        *("te", "trailer", "transfer-encoding", "upgrade"),
    )
)
"""Headers of one connection (RFC 9110, section 7.6.1): they end at the gateway, either way."""


class GatewayWire:
    """The child's end of one exchange. `kept` says whether the connection can carry another one."""

    def __init__(self, connection: socket.socket, method: str, version: str) -> None:
        """`method` and `version` are those of the request, which decide how a body may be framed."""
        self.connection = connection
        self._method = method
        self._modern = version >= "HTTP/1.1"
        self._framing = ""
        self._silent = False
        self.begun = False
        self.kept = True

    def head(self, status: int, reason: str, headers: Headers, length: int | None) -> None:
        """Send the status line and the headers. `length` is that of the body, None where it is not known."""
        self.begun = True
        self._silent = self._method == "HEAD" or status in {204, 304} or status < 200
        sent = [pair for pair in headers if pair[0].lower() not in HOP_BY_HOP]
        if not self._silent:
            sent = [(name, str(length) if name.lower() == "content-length" else value) for name, value in sent]
            sized = any(name.lower() == "content-length" for name, _ in sent)
            if length is None:
                sent = [pair for pair in sent if pair[0].lower() != "content-length"]
                self._framing = "chunked" if self._modern else "close"
            elif not sized:
                sent.append(("Content-Length", str(length)))
        if self._framing == "chunked":
            sent.append(("Transfer-Encoding", "chunked"))
        elif self._framing == "close":
            self.kept = False
            sent.append(("Connection", "close"))
        lines = [f"HTTP/1.1 {status} {reason}", *(f"{name}: {value}" for name, value in sent), "", ""]
        self.connection.sendall("\r\n".join(lines).encode("latin-1"))

    def body(self, chunk: bytes) -> None:
        """Send a part of the body, at once."""
        if chunk and not self._silent:
            self.connection.sendall(b"%x\r\n%b\r\n" % (len(chunk), chunk) if self._framing == "chunked" else chunk)

    def end(self) -> None:
        """The body is complete."""
        if self._framing == "chunked" and not self._silent:
            self.connection.sendall(b"0\r\n\r\n")

    def reset(self) -> None:
        """Break the connection off, as the one that failed was."""
        self.kept = False
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def has_left(self) -> bool:
        """Return whether the child has closed its end."""
        try:
            with selectors.DefaultSelector() as looking:
                looking.register(self.connection, selectors.EVENT_READ)
                return bool(looking.select(0)) and self.connection.recv(1, socket.MSG_PEEK) == b""
        except (OSError, ValueError):
            return True


def play(reply: HttpReply, wire: GatewayWire, complete: Callable[[], None]) -> Failure | None:
    """Send a recorded reply; returns the failure that broke it off. `complete` is called before its last byte goes out.

    One that was not read to its end is sent as far as it came, and left open.
    """
    is_complete = reply.failure is None and not left_early(reply)
    length = _stated_length(reply)
    if length is not None and is_complete:
        length = len(reply.body)  # a secret that was taken out has changed it
    wire.head(reply.status, reply.reason, reply.headers, length)
    *first, last = [*reply.chunks()] or [b""]
    for chunk in first:
        wire.body(chunk)
    if is_complete:
        complete()
        wire.body(last)
        wire.end()
    else:
        wire.body(last)
    return reply.failure


def left_early(reply: HttpReply) -> bool:
    """Whether the agent stopped reading where there may have been more."""
    complete = _stated_length(reply) == len(reply.body) or reply.body.data.rstrip().endswith(b"data: [DONE]")
    return reply.closed and not complete


def _stated_length(reply: HttpReply) -> int | None:
    stated = next((value for name, value in reply.headers if name.lower() == "content-length"), "")
    return int(stated) if stated.isdecimal() else None


PIECE = 65_536
LEFT = Failure("builtins.GeneratorExit")
"""The child gave up waiting: no answer, and none is served for it."""


class ForwardedBody(BodyCapture):
    """A reply as far as it has come; what ends it is the child, which waits for no other call of the test."""

    __slots__ = ("head",)

    def __init__(self, intercepted: PendingCall, response: http.client.HTTPResponse) -> None:
        """`response` has its head already."""
        version = {10: "HTTP/1.0", 11: "HTTP/1.1"}.get(response.version, "HTTP/1.1")
        self.head = HttpReply(response.status, response.reason, version, tuple(response.msg.raw_items()))
        super().__init__(intercepted, self.head)

    def end(self, failure: Failure | None = None, *, closed: bool = False) -> None:
        """It ended: whole, broken off by `failure`, or `closed` by the child."""
        self._intercepted.settle(self._reply(failure, closed=closed))
        self._intercepted.partial = None

    def _reply(self, failure: Failure | None, *, closed: bool) -> HttpReply:
        return replace(super()._reply(failure, closed=closed), closed=closed)


@dataclass(slots=True)
class Forwarding:
    """One request under way. It is settled before the last byte of its answer goes out: what comes next comes later."""

    interception: Interception
    intercepted: PendingCall
    call: HttpCall
    wire: GatewayWire

    def run(self) -> None:
        """Send it, and pass the answer on as it comes. What fails upstream breaks the child's connection off."""
        upstream, intercepted = upstream_of(self.call), self.intercepted
        with ForwardingWatch(self.wire, upstream) as watch:
            try:
                with intercepted.inside():
                    send(upstream, self.call)
                    response = upstream.getresponse()
            except Exception as error:
                self.interception.observed.note_problem(describe_closed(error))
                self._broken(intercepted.settle, LEFT if watch.left else freeze_exception(error))
            else:
                self._pass_on(response, ForwardedBody(intercepted, response), watch)
            finally:
                upstream.close()

    def _pass_on(self, response: http.client.HTTPResponse, take: ForwardedBody, watch: ForwardingWatch) -> None:
        head = take.head
        try:
            self.wire.head(head.status, head.reason, head.headers, response.length)
            while True:
                try:
                    with self.intercepted.inside():
                        chunk = response.read1(PIECE)
                    if not chunk and response.length:
                        raise http.client.IncompleteRead(b"", response.length)  # noqa: TRY301  the library reads over it
                except Exception as error:
                    if watch.left:
                        take.end(closed=True)
                    else:
                        self._broken(take.end, freeze_exception(error))
                    return
                if chunk:
                    take.add(chunk)
                if not chunk or response.length == 0:
                    break
                self.wire.body(chunk)
        except OSError:  # the child has left
            take.end(closed=True)
            raise
        if watch.left:
            take.end(closed=True)
        else:
            take.end()
            self.wire.body(chunk)
            self.wire.end()

    def _broken(self, settle: Callable[[Failure], None], failure: Failure) -> None:
        settle(failure)
        self.wire.reset()


def upstream_of(call: HttpCall) -> http.client.HTTPConnection:
    """A connection to the host of `call`, through the proxy that the environment names for it."""
    from urllib.request import getproxies, proxy_bypass  # loads a good deal, so only while recording

    url = urlsplit(call.url)
    host, port, secure = url.hostname or "", url.port, url.scheme == "https"
    proxy = urlsplit(getproxies().get(url.scheme, ""))
    connect: Callable[..., http.client.HTTPConnection] = http.client.HTTPConnection
    if secure:
        connect = functools.partial(http.client.HTTPSConnection, context=make_ssl_context())
    if not proxy.hostname or proxy_bypass(host):
        return connect(host, port)
    words = unquote(f"{proxy.username or ''}:{proxy.password or ''}").encode()
    headers = {"Proxy-Authorization": f"Basic {base64.b64encode(words).decode()}"} if proxy.username else {}
    through = connect(proxy.hostname, proxy.port or 8080)
    through.set_tunnel(host, port, headers)
    return through


def make_ssl_context() -> ssl.SSLContext:
    """Return a context that trusts the system's authorities, else those that the HTTP clients bring along."""
    context = ssl.create_default_context()
    paths = ssl.get_default_verify_paths()
    if not context.cert_store_stats()["x509_ca"] and paths.cafile is None and paths.capath is None:
        try:
            import certifi  # type: ignore[import-not-found,unused-ignore]
        except ImportError:
            return context
        context.load_verify_locations(certifi.where())
    return context


def send(upstream: http.client.HTTPConnection, call: HttpCall) -> None:
    """Write the request as the child made it, with the upstream's name for the gateway's."""
    url = urlsplit(call.url)
    target = (url.path or "/") + (f"?{url.query}" if url.query else "")
    upstream.putrequest(call.method, target, skip_host=True, skip_accept_encoding=True)
    upstream.putheader("Host", url.netloc.rpartition("@")[2])
    for name, value in end_to_end(call.headers):
        upstream.putheader(name, value.encode("latin-1"))
    body = call.body.data
    if body or call.method in {"POST", "PUT", "PATCH"}:
        upstream.putheader("Content-Length", str(len(body)))
    upstream.endheaders(body or None)


def end_to_end(headers: Headers) -> Headers:
    """The headers that go on to the upstream; host and length are said anew."""
    return tuple(pair for pair in headers if pair[0].lower() not in HOP_BY_HOP | {"host", "content-length", "expect"})


class ForwardingWatch:
    """Notices while the upstream is waited for that the child has left; then ends the wait. `left` says so."""

    def __init__(self, wire: GatewayWire, upstream: http.client.HTTPConnection) -> None:
        """Begin with `with`."""
        self._wire = wire
        self._upstream = upstream
        self._done, self._wake = socket.socketpair()
        self._over = threading.Lock()
        self.left = False

    def __enter__(self) -> Self:
        self._over.acquire()
        # Not threading.Thread: the gateway is the world, so it must not be taken for a thread of the test.
        _thread.start_new_thread(self._look, ())
        return self

    def __exit__(self, *_: object) -> None:
        self._wake.close()
        with self._over, self._done:
            pass

    def _look(self) -> None:
        with selectors.DefaultSelector() as looking:
            looking.register(self._done, selectors.EVENT_READ)
            looking.register(self._wire.connection, selectors.EVENT_READ)
            readable = [key.fileobj for key, _ in looking.select()]
        if self._done not in readable and self._wire.has_left():
            self.left = True
            try:
                # Not SSLSocket.shutdown: it would take the connection away from under the thread that reads it.
                socket.socket.shutdown(self._upstream.sock, socket.SHUT_RDWR)
            except (AttributeError, TypeError, OSError):
                pass  # not connected yet, or not any more
        self._over.release()
