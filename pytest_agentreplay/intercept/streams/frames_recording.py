"""A lasting connection while it is recorded: what the agent sends, what it takes, and how it ended.

The boundary makes the real calls; this is where it says what passed. A message is noted before it is sent, so that no
answer can come before its question; a frame when the agent takes it, never ahead of it. Safe from any thread.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from pytest_agentreplay.intercept.session import lanes
from pytest_agentreplay.model.exchanges import Body, Closed, Frame, FrameCall, FramesReply, RawCall
from pytest_agentreplay.values.failure import failure_of

if TYPE_CHECKING:
    from pytest_agentreplay.intercept.session.interceptions import Interception
    from pytest_agentreplay.intercept.session.lanes import CallContext
    from pytest_agentreplay.intercept.session.pending_call import PendingCall
    from pytest_agentreplay.model.exchanges import Failure, Headers


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

    def closed(self, closed: Closed) -> None:
        """The connection has ended. What comes later does not count."""
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
        return FramesReply.of(
            self._frames, headers=self._headers, closed=closed, failure=failure, waited=waited or self._waited
        )
