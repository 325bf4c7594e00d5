"""A lasting connection of frames: `FrameRecording` while it is recorded, `FrameReplaying` while it is replayed.

Recording: the patch makes the real calls, and reports here what passed. A message is noted before it is sent, so that
no answer can come before its question; a frame when the agent takes it, never ahead of it.

Replaying: frames are released by the agent's own messages, and nothing is opened. Who takes a frame that is not
released yet waits for it: a task gives way to the others, a thread is held. Where nothing can come any more, because
the recording has no more or because the messages that it followed are not being sent, the divergence is latched instead
of a test that hangs.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from typing import TYPE_CHECKING, NoReturn

from pytest_agentreplay import clocks
from pytest_agentreplay.errors import ReplayDiverged
from pytest_agentreplay.intercept.session import lanes, pending_call
from pytest_agentreplay.model.divergence import Difference, Divergence, Kind
from pytest_agentreplay.model.exchanges import Body, Closed, Failure, Frame, FrameCall, FramesReply, RawCall
from pytest_agentreplay.model.frames import Release
from pytest_agentreplay.values.failure import failure_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_agentreplay.intercept.session.interceptions import Interception
    from pytest_agentreplay.intercept.session.lanes import CallContext
    from pytest_agentreplay.intercept.session.pending_call import PendingCall
    from pytest_agentreplay.model.exchanges import Headers


class FrameRecording:
    """One connection, whose opening went through `intercepted`. Each message settles the one before it."""

    def __init__(
        self, interception: Interception, intercepted: PendingCall, call: FrameCall, headers: Headers = ()
    ) -> None:
        """`call` is the opening as it was asked for, `headers` are those of the handshake's answer."""
        self.interception = interception
        self.opening = intercepted.ticket
        self._call = call
        self._lock = threading.RLock()
        self._headers = headers
        self._frames: list[Frame] = []
        self._intercepted = intercepted
        self._waiting = 0
        self._closing: Closed | None = None
        self._waited = False
        intercepted.partial = self._partial

    def send(self, data: bytes, *, binary: bool = False, call_context: CallContext | None = None) -> None:
        """The agent is about to send `data`. `call_context` is who does, where that is not who runs here."""
        call = FrameCall(self._call.url, self.opening, (), Body(data), binary, self._call.boundary)
        with self._lock:
            self._settle(self._reply())
            self._headers, self._frames, self._waited = (), [], False
            self._intercepted = self.interception.enter(RawCall(call), call_context=call_context)
            self._intercepted.partial = self._partial

    def unsent(self, error: BaseException, closed: Closed | None = None) -> None:
        """The message that was noted last could not be sent; `closed` says that the connection had ended before."""
        with self._lock:
            failure = failure_of(error)
            self._settle(failure if closed is None else self._reply(closed=closed, failure=failure))

    def came(self, data: bytes, *, binary: bool = False) -> None:
        """The agent takes a frame of the other side."""
        with self._lock:
            if not self._frames:
                self._intercepted.note_first_byte()
            call_context = lanes.CALL_CONTEXT.get()
            self._frames.append(Frame(data, binary, call_context is not None and call_context.inside is not None))
            self._waited = self._closing is not None and self._waited

    def waits(self) -> None:
        """The agent begins to wait for a frame."""
        with self._lock:
            self._waiting += 1

    def waits_no_more(self, *, patience: bool = True) -> None:
        """It has one, or (without `patience`) it gave up waiting."""
        with self._lock:
            self._waiting -= 1
            self._waited = self._waited or not patience

    def closes(self, code: int | None = None, reason: str = "") -> None:
        """The agent begins to close the connection: however it ends now, the agent has ended it."""
        with self._lock:
            self._closing = self._closing or Closed(code, reason, by_agent=True)
            self._waited = self._waited or self._waiting > 0

    def note_closed(self, closed: Closed) -> None:
        """Settle the last message: the connection has ended. What comes later does not count."""
        with self._lock:
            self._settle(self._reply(closed=self._closing or closed))

    def broke(self, error: BaseException) -> None:
        """Taking the next frame raised `error`: there will be no other."""
        with self._lock:
            self._settle(self._reply(failure=failure_of(error)))

    def _settle(self, outcome: FramesReply | Failure) -> None:
        intercepted = self._intercepted
        intercepted.partial = None
        intercepted.settle(outcome)

    def _partial(self) -> FramesReply:
        """What has come when the run ends."""
        return self._reply(waited=self._waited or self._waiting > 0)

    def _reply(
        self, *, closed: Closed | None = None, failure: Failure | None = None, waited: bool = False
    ) -> FramesReply:
        return FramesReply.from_frames(
            self._frames, headers=self._headers, closed=closed, failure=failure, waited=waited or self._waited
        )


STALL = 10.0
"""Seconds that the test's own strand waits for a frame whose turn depends on messages that are not sent."""

STALL_BESIDE = 60.0
"""The same for any other strand: the test may be busy elsewhere before it sends them."""

_BEAT = 0.25

BY_LIBRARIES = frozenset({1000, 1006, 1011})
"""Codes with which libraries close a connection where the agent names none."""

End = Closed | Failure


class FrameReplaying:
    """One connection, whose opening was answered through `intercepted`. Safe from any thread and task."""

    def __init__(self, interception: Interception, intercepted: PendingCall, call: FrameCall) -> None:
        """`call` is the opening as it was asked for."""
        assert intercepted.exchange is not None
        self.interception = interception
        self.opening = intercepted.exchange.start
        self._call = call
        self._release = Release(interception.connection(self.opening), at_once=interception.at_once)
        self._changed = threading.Condition()
        self._frames: deque[Frame] = deque()
        self._end: End | None = None
        self._waited = False
        self._intercepted = intercepted
        self._wakers: list[Callable[[], object]] = []
        self._closed = False
        self.headers = intercepted.outcome.headers if isinstance(intercepted.outcome, FramesReply) else ()
        with self._changed:
            self._note_released(self.opening)

    def send(self, data: bytes, *, binary: bool = False, call_context: CallContext | None = None) -> End | None:
        """The agent sends `data`: raises ReplayDiverged when it did not; gives why it could not be sent, if so."""
        __tracebackhide__ = True
        call = FrameCall(self._call.url, self.opening, (), Body(data), binary, self._call.boundary)
        intercepted = self.interception.enter(RawCall(call), call_context=call_context)
        with self._changed:
            # The clock steps when an exchange ended in the recording: when the next message was sent.
            self._intercepted.finish()
            self._intercepted = intercepted
            assert intercepted.exchange is not None
            self._note_released(intercepted.exchange.start)
        outcome = intercepted.outcome
        if isinstance(outcome, FramesReply) and outcome.failure is not None and outcome.closed is not None:
            return outcome.closed
        return outcome if isinstance(outcome, Failure) else None

    def take(self) -> Frame | End | None:
        """The next frame, or the end once all frames are taken; None: not yet. Raises when nothing can come."""
        __tracebackhide__ = True
        with self._changed:
            if self._frames:
                return self._frames.popleft()
            if self._end is not None and not (isinstance(self._end, Closed) and self._end.by_agent):
                return self._end
            if self._closed:
                return self._end or Closed(by_agent=True)
            if (self._end is not None or self._release.complete) and not self._waited:
                self._refuse("the agent waits for a message where none came in the recording")
            return None

    async def receive(self) -> Frame | End:
        """The next frame or the end; waits for it."""
        __tracebackhide__ = True
        await asyncio.sleep(0)  # a frame that came over a wire let other tasks run, too
        while (received := self.take()) is None:
            await self.more()
        return received

    async def more(self) -> None:
        """Wait until `take` may give something: a frame, the end, or the word of who called `wake`."""
        __tracebackhide__ = True
        loop = asyncio.get_running_loop()
        more: asyncio.Future[None] = loop.create_future()

        def finish() -> None:
            if not more.done():
                more.set_result(None)

        with self._changed:
            if self._frames or self._closed:
                finish()
            self._wakers.append(lambda: loop.call_soon_threadsafe(finish))
        await self._await(more)

    def wake(self) -> None:
        """Let everybody who waits look again."""
        with self._changed:
            self._changed.notify_all()
            waiting, self._wakers = self._wakers, []
            for waker in waiting:
                waker()

    def receive_now(self, timeout: float | None = None) -> Frame | End | None:
        """The next frame or the end; holds this thread until then, or for `timeout` seconds: then None."""
        __tracebackhide__ = True
        deadline = None if timeout is None else clocks.monotonic() + timeout
        patience = self._patience()
        while (received := self.take()) is None:
            now = clocks.monotonic()
            if deadline is not None and now >= deadline:
                return None
            if self.interception.ending.over.is_set():
                raise ReplayDiverged(f"refused: {pending_call.describe(self._call)} is read after its test has ended")
            alone = deadline is None and threading.current_thread() is threading.main_thread() and not self._company()
            if alone or self.interception.ending.refused or (deadline is None and patience(now)):
                self._report_stall()
            with self._changed:
                if not self._frames and not self._closed:
                    self._changed.wait(_BEAT if deadline is None else min(_BEAT, deadline - now))
        return received

    def close(self, now: Closed | None = None, *, chosen: bool = True) -> Closed | None:
        """The agent ends the connection as `now`; gives how the recorded one had ended, where it is told.

        Raises ReplayDiverged where the agent has ended that one otherwise, unless both codes are ones that libraries
        send by themselves and the code of `now` is not `chosen` by the agent.
        """
        __tracebackhide__ = True
        with self._changed:
            end, before = self._end if isinstance(self._end, Closed) else None, self._closed
            if not self._closed:
                self._closed = True
                self._intercepted.finish()
                self.wake()
        if before or now is None or end is None or not end.by_agent or end.code is None:
            return end
        if (end.code, end.reason) != (now.code, now.reason) and (chosen or end.code not in BY_LIBRARIES):
            hide = self.interception.redactor.hide
            recorded, made = (hide(f"{closed.code} {closed.reason}".rstrip()) for closed in (end, now))
            summary = f"the connection is closed with {made}; it was closed with {recorded}"
            lane, differences = self.interception.call_context().path, (Difference("close", recorded, made),)
            divergence = Divergence(Kind.REQUEST, summary, lane=lane, now=self._call, differences=differences)
            self.interception.refuse(divergence)
        return end

    @property
    def ended(self) -> bool:
        """Whether the recorded end has been reached: all frames were taken."""
        with self._changed:
            return self._closed or (self._end is not None and not self._frames)

    async def _await(self, more: asyncio.Future[None]) -> None:
        # Where all messages were made the recorded agent waited here, too, until it gave up.
        patience = None if self._release.complete or self._end is not None else self._patience()
        while not more.done():
            done, _ = await asyncio.wait({more}, timeout=_BEAT)
            if not done and (
                self.interception.ending.refused or (patience is not None and patience(clocks.monotonic()))
            ):
                self._report_stall()

    def _patience(self) -> Callable[[float], bool]:
        """Return a function that says whether nothing has moved for too long."""
        limit = STALL if _is_the_tests_own() else STALL_BESIDE
        since = clocks.monotonic()
        seen = self.interception.pending.activity

        def is_over(now: float) -> bool:
            nonlocal since, seen
            if seen != self.interception.pending.activity:
                seen, since = self.interception.pending.activity, now
            return now - since > limit

        return is_over

    def _company(self) -> bool:
        """Whether another thread of the test could still send what is waited for."""
        me = threading.current_thread()
        others = any(thread.is_alive() and thread is not me for thread in self.interception.work.threads)
        return others or any(not job.done() for job in self.interception.work.jobs)

    def _note_released(self, start: int) -> None:
        self.interception.order.disturb()
        for x in self._release.mark_made(start):
            reply = x.outcome and self.interception.redactor.reveal(x.outcome)
            if isinstance(reply, FramesReply):
                self._frames.extend(self._release.frames(reply))
                self._end = self._end or reply.closed or reply.failure
                self._waited = reply.waited
            elif isinstance(reply, Failure):
                self._end = self._end or reply
            else:
                self._waited = True
        self.wake()

    def _report_stall(self) -> NoReturn:
        if self._release.complete:
            self._refuse("the agent waits for a message where none came in the recording")
        # The backend of a child process does not know what is missing.
        missing = getattr(self.interception.backend, "find_missing", None)
        if missing is not None and (divergence := missing()) is not None:
            self.interception.refuse(divergence)
        self._refuse("the agent waits for a message that came, when recorded, after others that it has not sent")

    def _refuse(self, what: str) -> NoReturn:
        """Latch that the agent wants more than was recorded. Always raises ReplayDiverged."""
        interception = self.interception
        summary = f"{what}: {pending_call.describe(self._call).partition(' ')[2]}"
        interception.refuse(Divergence(Kind.EXTRA, summary, lane=interception.call_context().path, now=self._call))


def _is_the_tests_own() -> bool:
    """Whether the test itself waits here, and no task or thread beside it. Names no lane: a recording names none."""
    if threading.current_thread() is not threading.main_thread():
        return False
    loop = asyncio._get_running_loop()
    return loop is None or lanes.is_root(asyncio.current_task(loop))
