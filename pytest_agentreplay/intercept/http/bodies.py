"""Bodies on their way: teed chunk by chunk while recording, played chunk by chunk while replaying.

Written once for every HTTP library; its own patch module makes them streams of the library at hand. A body is never
read ahead of the agent. Once an exception is under way, which may be a cancellation, nothing is awaited but the end of
what gave the chunks, and the turn of a failure.
"""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.intercept.http.http_wire import forever, freeze_exception, never, refuse
from pytest_agentreplay.intercept.session import lanes, replacing
from pytest_agentreplay.intercept.session.replacing import shielded
from pytest_agentreplay.model.exchanges import EMPTY, Body, Failure, HttpReply
from pytest_agentreplay.model.release_order import END

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator

    from pytest_agentreplay.intercept.http.http_wire import Wire
    from pytest_agentreplay.intercept.session.pending_call import PendingCall
    from pytest_agentreplay.model.exchanges import Headers


def texts(raw: list[tuple[bytes, bytes]]) -> Headers:
    """Header bytes as text, byte for character."""
    return tuple([(name.decode("latin-1"), value.decode("latin-1")) for name, value in raw])


class BodyCapture:
    """A reply as far as it has come after its `head`; settled once, by whichever end comes first.

    Attributes:
        is_teed: Whether its chunks come from a `Tee`, which sees their end.
        reading: Whether the agent waits for the next chunk.
    """

    __slots__ = ("_chunks", "_head", "_intercepted", "_watch", "is_teed", "reading")

    def __init__(self, intercepted: PendingCall, head: HttpReply, watch: SuspensionProbe | None = None) -> None:
        self._intercepted = intercepted
        self._head = head
        self._chunks: list[bytes] = []
        self._watch = watch or SuspensionProbe()
        self.reading = self.is_teed = False
        intercepted.partial = self.partial

    def watch_until_suspended(self, awaitable: Awaitable[bytes]) -> Awaitable[bytes]:
        """Return `awaitable`, watched until it is known that the call gives way to others."""
        return awaitable if self._watch.suspended else self._watch.watch(awaitable)

    def add(self, chunk: bytes) -> None:
        """Note a chunk that is about to pass on."""
        if not self._chunks:
            self._intercepted.note_first_byte()
        self._chunks.append(bytes(chunk))

    def note(self, chunk: bytes) -> None:
        """As `add`, where nobody can be made to wait: the answer has come so far."""
        self.add(chunk)
        self._intercepted.wait_in_thread(len(self._chunks))

    async def hold(self, *, end: bool = False) -> None:
        """Wait for the moment of the last chunk that was added, or of the end."""
        chunks = END if end else len(self._chunks)
        if self._watch.suspended:
            await self._intercepted.wait(chunks)
        else:
            self._intercepted.wait_in_thread(chunks, at_once=True)

    def hold_in_thread(self) -> None:
        """Wait, in a thread, for the moment of the end."""
        self._intercepted.hold_in_thread()

    def add_all(self, chunks: list[bytes]) -> None:
        """Note several, leaving out empty ones."""
        for chunk in chunks:
            if chunk:
                self.note(chunk)

    def end(self, failure: Failure | None = None, *, closed: bool = False) -> None:
        """It ended: whole, broken off by `failure`, or `closed` by the agent. Later ends do nothing."""
        intercepted = self._intercepted
        if intercepted.forward:
            if not closed:
                intercepted.hold_in_thread()
            intercepted.settle(self._reply(failure, closed=closed), suspended=self._watch.suspended)
            # The two hold each other, and the chunks with them.
            intercepted.partial = None

    def end_whole(self) -> None:
        """It ended: the head came with the whole body."""
        self.add(self._head.body.data)
        self.end()

    def partial(self) -> HttpReply:
        """What has come when the run ends: left by the agent, or still being waited for."""
        waiting = Failure("builtins.GeneratorExit") if self.reading else None
        return self._reply(waiting, closed=waiting is None)

    def _reply(self, failure: Failure | None, *, closed: bool) -> HttpReply:
        body = b"".join(self._chunks)
        if closed:
            length = next((value for name, value in self._head.headers if name.lower() == "content-length"), "")
            closed = length != str(len(body))
        cuts = tuple(map(len, self._chunks))
        head, kept = self._head, Body(body) if body else EMPTY
        return HttpReply(head.status, head.reason, head.version, head.headers, kept, cuts, failure, closed)


class Tee:
    """A body while recording, as the client hands it on: by threads at once, by tasks when the event loop is idle.

    At the end of an async body its stream is closed first. Libraries do that next, and what of it gives way to others
    belongs to the call, so that its end is the moment when the agent goes on.
    """

    def __init__(self, stream: Any, take: BodyCapture) -> None:
        """`stream` is an iterable or an async iterable of chunks."""
        # What cannot be closed (the iterator of a list, of a function) gets a generator around it, which can.
        if hasattr(stream, "__aiter__"):
            self._stream = stream if hasattr(stream, "aclose") else (chunk async for chunk in stream)
        else:
            self._stream = stream if hasattr(stream, "close") else (chunk for chunk in stream)
        self._take = take
        self._closed = False
        take.is_teed = True

    @shielded("_stream", "__iter__")
    def _iterate(self, begin: Callable[[], Any]) -> Iterator[bytes]:
        take = self._take
        take.reading = True
        try:
            for chunk in begin():
                take.reading = False
                take.note(chunk)
                yield chunk
                take.reading = True
        except GeneratorExit:
            take.end(closed=True)
            raise
        except BaseException as error:
            take.end(freeze_exception(error))
            raise
        take.end()

    __iter__ = _iterate

    @shielded("_stream", "close")
    def close(self, close: Callable[[], None]) -> None:
        """The agent wants no more."""
        self._take.end(closed=True)
        close()

    @shielded("_stream", "__aiter__")
    async def _iterate_async(self, begin: Callable[[], Any]) -> AsyncIterator[bytes]:
        take = self._take
        chunks = begin()
        while True:
            take.reading = True
            try:
                try:
                    chunk = await take.watch_until_suspended(chunks.__anext__())
                except StopAsyncIteration:
                    raise
                except Exception:
                    await take.hold(end=True)
                    raise
                take.add(chunk)
                await take.hold()
            except StopAsyncIteration:
                await self._end()
                return
            except BaseException as error:
                take.end(freeze_exception(error))
                if not isinstance(error, Exception):
                    await _leave(chunks)  # given up while a chunk waited for its turn
                raise
            take.reading = False
            try:
                yield chunk
            except GeneratorExit:
                try:
                    take.end(closed=True)
                    await _leave(chunks)
                except Exception as error:
                    if replacing.note_fault is None:
                        raise
                    replacing.note_fault(error)  # the event loop closes what was dropped: no guard is around that
                raise

    __aiter__ = _iterate_async

    async def _end(self) -> None:
        try:
            await self._close(self._stream.aclose)
            await self._take.hold(end=True)
        except BaseException as error:
            self._take.end(freeze_exception(error))
            raise
        self._take.end()

    @shielded("_stream", "aclose")
    async def aclose(self, close: Callable[[], Awaitable[None]]) -> None:
        """The agent wants no more."""
        self._take.end(closed=True)
        await self._close(close)

    async def _close(self, close: Callable[[], Awaitable[None]]) -> None:
        if not self._closed:
            self._closed = True
            await close()


async def _leave(chunks: Any) -> None:
    """Close what gave the chunks; not where nobody runs it any more, or the event loop closes it just now."""
    if isinstance(chunks, types.AsyncGeneratorType) and not chunks.ag_running and lanes.is_in_loop():
        await chunks.aclose()


class SuspensionProbe:
    """Notes whether an awaited call ever gave way to others, in any event loop."""

    __slots__ = ("suspended",)

    def __init__(self) -> None:
        self.suspended = False

    @types.coroutine
    def watch(self, awaitable: Awaitable[Any]) -> Generator[Any, Any, Any]:
        """Await `awaitable`; what the event loop sends and throws goes through as it is."""
        steps: Any = awaitable.__await__()
        resume, value = steps.send, None
        while True:
            try:
                step = resume(value)
            except StopIteration as done:
                return done.value
            self.suspended = True
            try:
                resume, value = steps.send, (yield step)
            except BaseException as error:
                resume, value = steps.throw, error


class ReplayStream:
    """A recorded body, sync and async: the chunks as they were, then the end, the failure, or the silence."""

    def __init__(self, wire: Wire, reply: HttpReply) -> None:
        self._wire = wire
        self._reply = reply
        # How far the answer came: to its end, or as far as the agent read.
        self._last = len(reply.cuts) if reply.closed else END
        self._open = True

    def __iter__(self) -> Iterator[bytes]:
        intercepted = self._wire.intercepted
        for number, chunk in enumerate(self._reply.chunks(), 1):
            intercepted.wait_in_thread(number)
            yield chunk
        failure = self._reply.failure
        if failure is not None and failure.cancelled:
            self._open = False
            never(self._wire)
        intercepted.wait_in_thread(self._last)
        self._end()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        intercepted = self._wire.intercepted
        for number, chunk in enumerate(self._reply.chunks(), 1):
            await intercepted.wait(number)
            yield chunk
        failure = self._reply.failure
        if failure is not None and failure.cancelled:
            self._open = False
            await forever(self._wire)
        await intercepted.wait(self._last)
        self._end()

    def close(self) -> None:
        """The agent wants no more, or has had all."""
        if self._open:
            self._open = False
            self._wire.intercepted.finish()

    async def aclose(self) -> None:
        """The agent wants no more, or has had all."""
        self.close()

    def _end(self) -> None:
        """All chunks are out: what comes next is what came next."""
        reply = self._reply
        if reply.failure is not None:
            self.close()
            raise self._wire.revive(reply.failure)
        if reply.closed and not reply.body.data.rstrip().endswith(b"data: [DONE]"):
            count = f"{len(reply.cuts)} chunk{'' if len(reply.cuts) == 1 else 's'}"
            refuse(self._wire, f"the agent reads on where it stopped reading when recorded, after {count}")
        self.close()
