"""The server behind a gateway: one thread a connection, and each request a call.

Nothing is answered but by the backend's decision, and a refusal is a status that no SDK tries again. Requests to AWS
are signed again: a child signs for the gateway's address, which AWS does not take.
"""

from __future__ import annotations

import _thread
import json
import re
import selectors
import socket
import socketserver
import sys
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any, Protocol

from pytest_agentreplay import clocks
from pytest_agentreplay.compare.matching.address import split
from pytest_agentreplay.errors import AgentReplayError, CannotFreeze, ReplayDiverged
from pytest_agentreplay.intercept.gateway.forwarding import Forwarding, GatewayWire, left_early, play
from pytest_agentreplay.intercept.http.http_wire import attempt_of
from pytest_agentreplay.intercept.session import lanes, pending_call
from pytest_agentreplay.model.divergence import Divergence, Kind
from pytest_agentreplay.model.exchanges import EMPTY, Body, Failure, HttpCall, HttpReply, RawCall

if TYPE_CHECKING:
    from pytest_agentreplay.intercept.session.interceptions import Interception
    from pytest_agentreplay.intercept.session.lanes import CallContext
    from pytest_agentreplay.intercept.session.pending_call import PendingCall
    from pytest_agentreplay.model.exchanges import Headers


_SCOPE = re.compile(r"Credential=([^/]+)/\d{8}/([^/]+)/([^/]+)/aws4_request")
_MADE_ANEW = frozenset({"authorization", "x-amz-date", "x-amz-security-token", "x-amz-content-sha256"})


def sign_for_upstream(call: HttpCall) -> HttpCall:
    """Return `call` with a signature that its upstream takes; itself, where it was not signed or goes to no AWS host.

    The secret key never leaves the child, so the credentials are those that botocore finds in this process. Raises
    CannotFreeze where there is no botocore, or where it finds other credentials than the child has used.
    """
    signature = next((value for name, value in call.headers if name.lower() == "authorization"), "")
    match = _SCOPE.search(signature)
    if match is None or not split(call.url).host.endswith((".amazonaws.com", ".amazonaws.com.cn", ".api.aws")):
        return call
    try:
        from botocore.auth import SigV4Auth  # type: ignore[import-not-found,import-untyped,unused-ignore]
        from botocore.awsrequest import AWSRequest  # type: ignore[import-not-found,import-untyped,unused-ignore]
        from botocore.session import Session  # type: ignore[import-not-found,import-untyped,unused-ignore]
    except ImportError:
        raise _cannot("there is no botocore to sign it again for AWS") from None
    credentials = Session().get_credentials()
    if credentials is None or credentials.get_frozen_credentials().access_key != match[1]:
        raise _cannot("botocore finds other credentials here than the child has used")
    kept = [pair for pair in call.headers if pair[0].lower() not in _MADE_ANEW]
    signed_headers = {name: value for name, value in kept if name.lower() in {"content-type", "x-amz-target"}}
    request = AWSRequest(call.method, call.url, signed_headers, call.body.data)
    SigV4Auth(credentials.get_frozen_credentials(), match[3], match[2]).add_auth(request)
    anew = [(name, str(value)) for name, value in request.headers.items() if name.lower() in _MADE_ANEW]
    return replace(call, headers=(*kept, *anew))


def _cannot(why: str) -> CannotFreeze:
    return CannotFreeze(
        f"a child's request to AWS is signed for the gateway, and {why}; "
        "call AWS in the test's own process, where the client itself is met",
        path="$",
        kind="HttpCall",
    )


REFUSED = 400
"""The one status of a refusal: clients try 408, 409, 429 and 5xx again."""
PATIENCE = 10.0
"""Seconds after which a child reads on, where the recorded one had left in the middle of an answer."""


class GatewayBackend(Protocol):
    """The gateway, as far as its server knows it."""

    interception: Interception
    recording: bool

    def find(self, method: str, target: str, headers: Headers) -> tuple[CallContext, str] | str:
        """Whose request this is and which URL is meant, or why it is refused; then the test is told."""

    def latch(self, divergence: Divergence) -> str:
        """Fail the test with `divergence`; returns what to tell the child."""

    def broken(self, why: str) -> None:
        """Fail the test with what should not have happened."""


class GatewayServer(socketserver.ThreadingTCPServer):
    """Listens on a free port of 127.0.0.1 from `start` to `stop`."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, gateway: GatewayBackend, port: int = 0) -> None:
        """Bind, and listen."""
        self.gateway = gateway
        self._open: set[socket.socket] = set()
        self._gone = threading.Event()
        super().__init__(("127.0.0.1", port), Handler)
        self._stop, self._stopped = socket.socketpair()  # after a port that is taken has raised

    def start(self) -> None:
        """Answer from now on."""
        # Not threading.Thread: the gateway is the world, so it must not be taken for a thread of the test.
        _thread.start_new_thread(self._serve, ())

    def stop(self) -> None:
        """Listen no more, and cut off whoever is still connected."""
        self._stop.close()
        self._gone.wait(1)
        for connection in list(self._open):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # closed already

    def _serve(self) -> None:
        with selectors.DefaultSelector() as looking, self._stopped, self:
            looking.register(self, selectors.EVENT_READ)
            looking.register(self._stopped, selectors.EVENT_READ)
            while self._stopped not in [key.fileobj for key, _ in looking.select()]:
                self.handle_request()
        self._gone.set()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Return a connection its thread."""
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """The end of a connection."""
        self._open.discard(request)
        self.close_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002  its name and arguments there
        """A child that has left in the middle of an answer is no error of ours; any other fails the test."""
        error = sys.exception()
        if not isinstance(error, OSError):
            self.gateway.broken(f"{type(error).__name__}: {error}")


class Handler(BaseHTTPRequestHandler):
    """One connection of a child."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: GatewayServer

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  the name it has there
        """Say nothing: the report does."""

    def answer(self) -> None:
        """Intercept one request."""
        self.wire = GatewayWire(self.connection, self.command, self.request_version)
        headers = tuple((name, str(value)) for name, value in self.headers.raw_items())
        try:
            body = self._body()
        except ValueError:
            self._refuse("", "the request's body is framed by no rule of HTTP")
            return
        gateway = self.server.gateway
        target = gateway.find(self.command, self.path, headers)
        if isinstance(target, str):
            self._refuse("AR-NET", target)
            return
        call_context, url = target
        call = HttpCall(self.command, url, headers, Body(body) if body else EMPTY)
        token = lanes.CALL_CONTEXT.set(lanes.share_context(call_context))
        try:
            self._cross(call)
        finally:
            lanes.CALL_CONTEXT.reset(token)
            self.close_connection = self.close_connection or not self.wire.kept

    def __getattr__(self, name: str) -> Any:
        """Every method is handled alike: `do_GET` and the rest are `answer`."""
        if name.startswith("do_"):
            return self.answer
        raise AttributeError(name)

    def _cross(self, call: HttpCall) -> None:
        gateway = self.server.gateway
        try:
            sent = sign_for_upstream(call) if gateway.recording else call
            intercepted = gateway.interception.enter(RawCall(call), attempt=attempt_of(call.headers))
        except ReplayDiverged as refused:
            kind = refused.divergence.kind.code if refused.divergence is not None else Kind.LATE.code
            self._refuse(kind, str(refused))
        except CannotFreeze as error:
            gateway.interception.observed.note_problem(error)
            self._refuse("AR-FREEZE", str(error))
        except AgentReplayError as error:
            self._refuse(Kind.UNREADABLE.code, gateway.latch(Divergence(Kind.UNREADABLE, str(error))))
        else:
            if intercepted.forward:
                Forwarding(gateway.interception, intercepted, sent, self.wire).run()
            else:
                self._replay(intercepted, call)

    def _replay(self, intercepted: PendingCall, call: HttpCall) -> None:
        reply = intercepted.outcome
        failure = reply if isinstance(reply, Failure) else None
        if isinstance(reply, HttpReply):
            failure = play(reply, self.wire, intercepted.finish)
        if intercepted.unfinished or (failure is not None and failure.cancelled):
            self._wait(intercepted, None)
        elif failure is not None:
            intercepted.finish()
            self.wire.reset()
        elif isinstance(reply, HttpReply) and left_early(reply):
            self._wait(intercepted, call)

    def _wait(self, intercepted: PendingCall, call: HttpCall | None) -> None:
        """Until the child leaves, as it did when recorded; of `call` it had a part, and must not want more."""
        self.wire.kept = False
        until = clocks.monotonic() + PATIENCE
        while not (self.wire.has_left() or intercepted.wait_for_end(0.02)):
            if call is not None and clocks.monotonic() > until:
                what = f"the child reads on where it stopped reading when recorded: {pending_call.describe(call)}"
                self.server.gateway.latch(Divergence(Kind.EXTRA, what, now=call))
                break
        intercepted.finish()
        self.wire.reset()

    def _body(self) -> bytes:
        """The body of the request, by its length or its chunks. Raises ValueError for what is neither."""
        if self.headers.get("transfer-encoding", "").lower() != "chunked":
            length = int(self.headers.get("content-length") or 0)
            body = self.rfile.read(length)
            if len(body) < length:
                raise ConnectionResetError("the child has left in the middle of its request")
            return body
        parts = []
        while size := int(self.rfile.readline().partition(b";")[0], 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass  # trailers
        return b"".join(parts)

    def _refuse(self, code: str, why: str) -> None:
        """Answer as providers answer to a bad request, so that every SDK raises its own error with our words."""
        message = f"agentreplay: {why}"
        error: dict[str, Any] = {"message": message, "type": "agentreplay_refused", "code": code, "param": None}
        if "/p/gemini" in self.path or "/p/vertex/" in self.path:
            error |= {"code": REFUSED, "status": code}
        body = json.dumps({"type": "error", "error": error, "message": message}).encode()
        headers = (("content-type", "application/json"), ("x-should-retry", "false"), ("x-agentreplay-code", code))
        # Of a refused tunnel clients show the reason, and nothing else.
        reason = message if self.command == "CONNECT" else "Bad Request"
        self.wire.head(REFUSED, reason.encode("ascii", "replace").decode(), headers, len(body))
        self.wire.body(body)
