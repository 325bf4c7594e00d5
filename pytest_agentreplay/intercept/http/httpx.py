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
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.intercept.http.bodies import texts
from pytest_agentreplay.intercept.http.clients import ClientPatch, HttpClient
from pytest_agentreplay.intercept.network.in_process import is_mocked, reaches_out
from pytest_agentreplay.intercept.session import interceptions
from pytest_agentreplay.intercept.session.patching import wrap, wrap_code
from pytest_agentreplay.model.exchanges import EMPTY, Body, HttpCall, HttpReply

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from pytest_agentreplay.intercept.session.interceptions import Interception
    from pytest_agentreplay.intercept.session.patching import Seam


SYNC, ASYNC = "handle_request", "handle_async_request"


def patch(library: ModuleType) -> None:
    """Intercept the network transports of `library`, and where its clients choose one. Twice does nothing."""
    transports = _Transports(library)
    for transport, method in ((library.HTTPTransport, SYNC), (library.AsyncHTTPTransport, ASYNC)):
        wrap_code(vars(transport)[method], functools.partial(transports.sending, method))
    for client in (library.Client, library.AsyncClient):
        wrap(client, "_transport_for_url", transports.choosing)


class _Transports:
    """The transports of one library: how it writes requests and replies, and which transports are intercepted."""

    def __init__(self, library: ModuleType) -> None:
        self.library = library
        client = HttpClient(
            read_call=read_call,
            read_reply=self.read_reply,
            make_response=self.make_response,
            stream=stream,
            stream_bases=(library.SyncByteStream, library.AsyncByteStream),
            revive=self.revive,
            change=self.change,
        )
        sync_patch = ClientPatch(client, library)
        async_patch = ClientPatch(replace(client, read_call=read_async_call), library)
        self._send: dict[str, Callable[..., Any]] = {SYNC: sync_patch.send, ASYNC: async_patch.send_async}

    def sending(self, method: str, original: Seam) -> Seam:
        """The method of a network transport, which asks the interception first."""
        find_interception, send_request = interceptions.find_for_http, self._send[method]

        def send(transport: Any, request: Any) -> Any:
            interception = find_interception()
            if interception is None or is_mocked(getattr(transport, "_pool", None), method):
                return original(transport, request)
            return send_request(interception, original, (transport, request), {})

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
                ways = {method: functools.partial(self._ask, interception, transport, method) for method in self._send}
                return SimpleNamespace(**ways)
            return transport

        return _transport_for_url

    def _ask(self, interception: Interception, transport: Any, method: str, request: Any) -> Any:
        """Return the response of a transport that brings its own network client; what it does inside is its call."""
        real = getattr(transport, method)
        return self._send[method](interception, lambda _, sent: real(sent), (transport, request), {})

    def change(self, call: HttpCall, transport: Any, request: Any) -> tuple[tuple[Any, Any], dict[str, Any]]:
        """Return the arguments that send the request as `call`."""
        headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in call.headers]
        more = {"content": call.body.data, "extensions": request.extensions}
        return (transport, self.library.Request(call.method, call.url, headers=headers, **more)), {}

    def read_reply(self, response: Any) -> HttpReply:
        """Return what came before the body; the body too where nothing will flow.

        Taken at once, as the agent may change the response that it is given.
        """
        extensions = response.extensions
        reason = extensions.get("reason_phrase")
        head = HttpReply(
            response.status_code,
            response.reason_phrase if reason is None else reason.decode("latin-1"),
            extensions.get("http_version", b"HTTP/1.1").decode("latin-1"),
            texts(response.headers.raw),
        )
        if not response.is_stream_consumed:
            return head
        # A mock, or a transport that has read ahead.
        if isinstance(response.stream, self.library.ByteStream):
            return replace(head, body=Body(b"".join(response.stream)))
        plain = tuple([pair for pair in head.headers if pair[0].lower() != "content-encoding"])
        return replace(head, headers=plain, body=Body(getattr(response, "_content", b"")))

    def make_response(self, reply: HttpReply, chunks: Any, _transport: Any, _request: Any) -> Any:
        """Return the recorded response as a native one."""
        return self.library.Response(
            reply.status,
            headers=[(name.encode("latin-1"), value.encode("latin-1")) for name, value in reply.headers],
            stream=chunks,
            extensions={
                "http_version": reply.version.encode("latin-1"),
                "reason_phrase": reply.reason.encode("latin-1"),
            },
        )

    def revive(self, error: BaseException, _transport: Any, request: Any) -> BaseException:
        """Tell an exception of the library of the request that it belongs to."""
        if isinstance(error, self.library.HTTPError):
            error.request = request
        return error


def stream(response: Any, tee: Callable[[Any], Any]) -> Any:
    """Lead the chunks of a native response through `tee`, where they are still to come."""
    if not response.is_stream_consumed:
        response.stream = tee(response.stream)
    return response


def read_call(_transport: Any, request: Any) -> HttpCall:
    """Return the native request as a call, its body read."""
    return call_of(request, request.read())


async def read_async_call(_transport: Any, request: Any) -> HttpCall:
    """As `read_call`, for a body of an async generator too."""
    return call_of(request, await request.aread())


def call_of(request: Any, body: bytes) -> HttpCall:
    """Return the native request as a call, with all its headers."""
    # The part after "#" never goes on the wire.
    url = str(request.url).partition("#")[0]
    return HttpCall(request.method, url, texts(request.headers.raw), Body(body) if body else EMPTY)
