"""The HTTP boundary of httpx and httpx2, sync and async: one exchange per call that leaves the process.

Intercepted at the network transports, `HTTPTransport` and `AsyncHTTPTransport`, by their code: below it stand
connections and proxies, above it redirects, auth flows, decoding and the transports of others. So a transport that
wraps a network transport (retries, a cache) runs, and what it sends is recorded; one that calls an application or a
mock in the process runs as well, and what the application sends is recorded.

A transport that brings a network client of its own (curl_cffi, a connection pool of httpcore, sockets) is intercepted
as a whole, at `Client._transport_for_url`. That is private: where a future version lacks it, the network guard reports
such a transport.

Rules of this file: while recording the agent gets the native response, whose stream is teed as it flows, never read
ahead. While replaying no network transport is entered.
"""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.intercept.http.bodies import (
    AsyncTeeStream,
    BodyCapture,
    ReplayStream,
    SuspensionProbe,
    TeeStream,
    texts,
)
from pytest_agentreplay.intercept.http.http_wire import Wire, attempt_of, forever, never, revive_exception
from pytest_agentreplay.intercept.network.in_process import is_mocked, reaches_out, stays
from pytest_agentreplay.intercept.session import interceptions, lanes
from pytest_agentreplay.intercept.session.patching import wrap, wrap_code
from pytest_agentreplay.intercept.session.replacing import blame
from pytest_agentreplay.model.exchanges import EMPTY, Body, Failure, HttpCall, HttpReply, RawCall
from pytest_agentreplay.model.release_order import BEGUN

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from pytest_agentreplay.intercept.session.interceptions import Interception
    from pytest_agentreplay.intercept.session.patching import Seam
    from pytest_agentreplay.intercept.session.pending_call import PendingCall


SYNC, ASYNC = "handle_request", "handle_async_request"


def patch(library: ModuleType) -> None:
    """Intercept the network transports of `library`, and where its clients choose one. Twice does nothing."""
    streams = _Streams(library)
    for transport, method in ((library.HTTPTransport, SYNC), (library.AsyncHTTPTransport, ASYNC)):
        wrap_code(vars(transport)[method], functools.partial(streams.sending, method))
    for client in (library.Client, library.AsyncClient):
        wrap(client, "_transport_for_url", streams.choosing)


class _Transport:
    """One call over the network. `_real` sends a request; it is called when the backend said forward, and only then."""

    __slots__ = ("_interception", "_original", "_real", "_streams")

    def __init__(
        self, interception: Interception, streams: _Streams, real: Callable[[Any], Any], original: Callable[..., Any]
    ) -> None:
        self._interception = interception
        self._original = original
        self._streams = streams
        self._real = real

    def handle_request(self, request: Any) -> Any:
        try:
            body = request.read()
        except BaseException as error:
            blame(self._original, error)  # that of a generator of the agent's
            raise
        request, wire = self._enter(request, body)
        if wire is None:
            return self._real(request)
        intercepted = wire.intercepted
        if not intercepted.forward:
            if intercepted.unfinished:
                never(wire)
            intercepted.wait_in_thread(BEGUN)
            return self._streams.replay_response(wire)
        try:
            with intercepted.inside():
                response = self._real(request)
            intercepted.wait_in_thread(BEGUN)
        except BaseException as error:
            wire.fail(error)
            raise
        return self._streams.record_response(response, intercepted, self._streams.tee, SuspensionProbe())

    async def handle_async_request(self, request: Any) -> Any:
        try:
            body = await request.aread()
        except BaseException as error:
            blame(self._original, error)
            raise
        request, wire = self._enter(request, body)
        if wire is None:
            return await self._real(request)
        intercepted = wire.intercepted
        if not intercepted.forward:
            if intercepted.unfinished:
                await forever(wire)
            await intercepted.wait(BEGUN)
            return self._streams.replay_response(wire)
        watch, response = SuspensionProbe(), None
        try:
            try:
                with intercepted.inside():
                    response = await watch.watch(self._real(request))
            except Exception:
                if watch.suspended:
                    await intercepted.wait()
                raise
            if watch.suspended:
                await intercepted.wait(BEGUN)
            else:
                intercepted.wait_in_thread(BEGUN, at_once=True)
        except BaseException as error:
            if response is not None and not isinstance(error, Exception):
                left_behind(response)
            # Perhaps a cancellation: nothing may be awaited here.
            wire.fail(error, suspended=watch.suspended)
            raise
        return self._streams.record_response(response, intercepted, self._streams.async_tee, watch)

    def _enter(self, request: Any, body: bytes) -> tuple[Any, Wire | None]:
        """Return the request that is sent, and its call under way; None for one that stays inside the process."""
        call = call_of(request, body)
        if stays(self._interception, call):
            return request, None
        if self._interception.scope.changes:
            request, call = self._streams.change_request(self._interception, request, call)
        intercepted = self._interception.enter(RawCall(call), attempt=attempt_of(call.headers))
        revive = functools.partial(native, request, self._streams.library)
        return request, Wire(self._interception, intercepted, call, revive)


def left_behind(response: Any) -> None:
    """Close a response that came as its caller gave up, beside it: nothing may be awaited in a task that is cancelled.

    trio closes what nobody holds by itself.
    """
    loop = lanes.find_running_loop()
    if loop is not None:
        loop.create_task(response.aclose())


def call_of(request: Any, body: bytes) -> HttpCall:
    """The native request as a call, with all its headers."""
    # The part after "#" never goes on the wire.
    url = str(request.url).partition("#")[0]
    return HttpCall(request.method, url, texts(request.headers.raw), Body(body) if body else EMPTY)


def native(request: Any, library: ModuleType, failure: Failure) -> BaseException:
    """The recorded failure as an exception of the library, told of the request that it belongs to."""
    error: Any = revive_exception(failure, library)
    if isinstance(error, library.HTTPError):
        error.request = request
    raised: BaseException = error
    return raised


def head_of(response: Any) -> HttpReply:
    """What came before the body; taken at once, as the agent may change the response that it is given."""
    extensions = response.extensions
    reason = extensions.get("reason_phrase")
    return HttpReply(
        response.status_code,
        response.reason_phrase if reason is None else reason.decode("latin-1"),
        extensions.get("http_version", b"HTTP/1.1").decode("latin-1"),
        texts(response.headers.raw),
    )


class _Streams:
    """The response and stream classes of one library, which checks that a stream is of its own kind."""

    def __init__(self, library: ModuleType) -> None:
        self.library = library
        self.tee = type("Tee", (TeeStream, library.SyncByteStream), {})
        self.async_tee = type("AsyncTee", (AsyncTeeStream, library.AsyncByteStream), {})
        self.played = type("Played", (ReplayStream, library.SyncByteStream, library.AsyncByteStream), {})

    def change_request(self, interception: Interception, request: Any, call: HttpCall) -> tuple[Any, HttpCall]:
        """Return the request that is sent and its call: another one where the run changes it."""
        if (new := interception.change_request(call)) is not call:
            headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in new.headers]
            more = {"content": new.body.data, "extensions": request.extensions}
            request = self.library.Request(new.method, new.url, headers=headers, **more)
        return request, new

    def sending(self, method: str, original: Seam) -> Seam:
        """The method of a network transport, which asks the interception first."""
        find_interception = interceptions.find_for_http

        def send(transport: Any, request: Any) -> Any:
            interception = find_interception()
            if interception is None or is_mocked(getattr(transport, "_pool", None), method):
                return original(transport, request)
            real = functools.partial(original, transport)
            return getattr(_Transport(interception, self, real, original), method)(request)

        return send

    def choosing(self, original: Seam) -> Seam:
        """The client's choice of a transport; one that brings its own network client is intercepted as a whole."""
        find_interception = interceptions.find_for_http
        network = (self.library.HTTPTransport, self.library.AsyncHTTPTransport)

        def _transport_for_url(client: Any, url: Any) -> Any:
            transport = original(client, url)
            # A network transport's own code asks the interception.
            if isinstance(transport, network) or (interception := find_interception()) is None:
                return transport
            if reaches_out(transport, (SYNC, ASYNC)):
                real = getattr(transport, ASYNC if isinstance(client, self.library.AsyncClient) else SYNC)
                return _Transport(interception, self, real, real)
            return transport

        return _transport_for_url

    def record_response(self, response: Any, intercepted: PendingCall, tee: type, watch: SuspensionProbe) -> Any:
        """Return the native response itself, its stream teed."""
        head = head_of(response)
        if not response.is_stream_consumed:
            response.stream = tee(response.stream, BodyCapture(intercepted, head, watch))
            return response
        # A mock, or a transport that has read ahead: nothing will flow.
        if isinstance(response.stream, self.library.ByteStream):
            body = b"".join(response.stream)
        else:
            plain = tuple([pair for pair in head.headers if pair[0].lower() != "content-encoding"])
            head, body = replace(head, headers=plain), getattr(response, "_content", b"")
        take = BodyCapture(intercepted, head, watch)
        take.add(body)
        take.end()
        return response

    def replay_response(self, wire: Wire) -> Any:
        """Return the recorded response as a native one; a recorded failure is raised."""
        reply = wire.intercepted.outcome
        if isinstance(reply, HttpReply):
            return self.library.Response(
                reply.status,
                headers=[(name.encode("latin-1"), value.encode("latin-1")) for name, value in reply.headers],
                stream=self.played(wire, reply),
                extensions={
                    "http_version": reply.version.encode("latin-1"),
                    "reason_phrase": reply.reason.encode("latin-1"),
                },
            )
        assert isinstance(reply, Failure)
        wire.intercepted.finish()
        raise wire.revive(reply)
