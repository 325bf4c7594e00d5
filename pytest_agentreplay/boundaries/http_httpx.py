"""The HTTP boundary of httpx and httpx2, sync and async: one exchange per wire call.

Met at `Client._transport_for_url`, which every wire call passes last: below it stand the default, mounted and user
transports, above it redirects, auth flows and the decoding of bodies. The seam is of the class, so clients that were
built earlier are met too. It is private; where a future version lacks it nothing is wrapped, and the network guard
speaks.

Rules of this file: while recording the agent gets the native response, whose stream is teed as it flows, never read
ahead. While replaying the inner transport is not even looked up.
"""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.boundaries import crossing as doorstep
from pytest_agentreplay.boundaries import lanes
from pytest_agentreplay.boundaries.http_bodies import AsyncTee, Played, Take, Tee, Watch, texts
from pytest_agentreplay.boundaries.http_failures import frozen, thawed
from pytest_agentreplay.boundaries.http_wire import Wire, attempt_of, forever, never
from pytest_agentreplay.boundaries.neighbours import closed
from pytest_agentreplay.boundaries.wrapping import wrap
from pytest_agentreplay.core.model import EMPTY, Body, Failure, HttpCall, HttpReply
from pytest_agentreplay.core.schedule import BEGUN

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from pytest_agentreplay.boundaries.crossing import Crossing, Passage


def meet(library: ModuleType) -> None:
    """Wrap the seam of the two client classes of `library`. Doing it twice does nothing."""
    streams = _Streams(library)
    for client in (library.Client, library.AsyncClient):
        wrap(client, "_transport_for_url", streams.asking)


class _Transport:
    """One wire call. `_real` finds the inner transport; it is called when the gate said forward, and only then."""

    __slots__ = ("_crossing", "_real", "_streams")

    def __init__(self, crossing: Crossing, streams: _Streams, real: Callable[[], Any]) -> None:
        self._crossing = crossing
        self._streams = streams
        self._real = real

    def handle_request(self, request: Any) -> Any:
        wire = self._enter(request, request.read())
        passage = wire.passage
        if not passage.forward:
            if passage.unfinished:
                never(wire)
            passage.come_now(BEGUN)
            return self._streams.replayed(wire)
        try:
            with passage.inside():
                response = self._real().handle_request(request)
            passage.come_now(BEGUN)
        except BaseException as error:
            self._crossing.cannot_keep(closed(error))
            passage.settle(frozen(error))
            raise
        return self._streams.recorded(response, passage, self._streams.tee, Watch())

    async def handle_async_request(self, request: Any) -> Any:
        wire = self._enter(request, await request.aread())
        passage = wire.passage
        if not passage.forward:
            if passage.unfinished:
                await forever(wire)
            await passage.come(BEGUN)
            return self._streams.replayed(wire)
        watch, response = Watch(), None
        try:
            try:
                with passage.inside():
                    response = await watch.over(self._real().handle_async_request(request))
            except Exception:
                if watch.suspended:
                    await passage.come()
                raise
            if watch.suspended:
                await passage.come(BEGUN)
            else:
                passage.come_now(BEGUN, at_once=True)
        except BaseException as error:
            if response is not None:
                left_behind(response)
            # Perhaps a cancellation: nothing may be awaited here.
            self._crossing.cannot_keep(closed(error))
            passage.settle(frozen(error), suspended=watch.suspended)
            raise
        return self._streams.recorded(response, passage, self._streams.async_tee, watch)

    def _enter(self, request: Any, body: bytes) -> Wire:
        call = call_of(request, body)
        passage = self._crossing.enter(call, attempt=attempt_of(call.headers))
        return Wire(self._crossing, passage, call, functools.partial(native, request, self._streams.library))


def left_behind(response: Any) -> None:
    """Close a response that came as its caller gave up, beside it: nothing may be awaited in a task that is cancelled.

    trio closes what nobody holds by itself.
    """
    loop = lanes.running_loop()
    if loop is not None:
        loop.create_task(response.aclose())


def call_of(request: Any, body: bytes) -> HttpCall:
    """The native request as a call, with all its headers."""
    # The part after "#" never goes on the wire.
    url = str(request.url).partition("#")[0]
    return HttpCall(request.method, url, texts(request.headers.raw), Body(body) if body else EMPTY)


def native(request: Any, library: ModuleType, failure: Failure) -> BaseException:
    """The recorded failure as an exception of the library, told of the request that it belongs to."""
    error: Any = thawed(failure, library)
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
        self.tee = type("Tee", (Tee, library.SyncByteStream), {})
        self.async_tee = type("AsyncTee", (AsyncTee, library.AsyncByteStream), {})
        self.played = type("Played", (Played, library.SyncByteStream, library.AsyncByteStream), {})

    def asking(self, original: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        """The seam that gives the real transport, or one that asks at the doorstep first."""
        asked = doorstep.for_http

        def _transport_for_url(client: Any, url: Any) -> Any:
            crossing = asked()
            if crossing is None:
                return original(client, url)
            return _Transport(crossing, self, functools.partial(original, client, url))

        return _transport_for_url

    def recorded(self, response: Any, passage: Passage, tee: type, watch: Watch) -> Any:
        """The native response itself, its stream teed."""
        head = head_of(response)
        if not response.is_stream_consumed:
            response.stream = tee(response.stream, Take(passage, head, watch))
            return response
        # A mock, or a transport that has read ahead: nothing will flow.
        if isinstance(response.stream, self.library.ByteStream):
            body = b"".join(response.stream)
        else:
            plain = tuple([pair for pair in head.headers if pair[0].lower() != "content-encoding"])
            head, body = replace(head, headers=plain), getattr(response, "_content", b"")
        take = Take(passage, head, watch)
        take.add(body)
        take.end()
        return response

    def replayed(self, wire: Wire) -> Any:
        """The recorded response as a native one; a recorded failure is raised."""
        reply = wire.passage.outcome
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
        wire.passage.finish()
        raise wire.revive(reply)
