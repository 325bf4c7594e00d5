"""The backend of a child process: it asks that of the test, over the link, and redaction happens there too.

A call travels as the child made it. The test's process redacts it before anything compares or keeps it, with the one
set of placeholders and known values of the run; so the child needs neither rules nor a recording.
"""

from __future__ import annotations

import functools
import re
import threading
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.backends.backend import PassThrough, Refused, Replayed
from pytest_agentreplay.errors import CannotFreeze, ReplayDiverged
from pytest_agentreplay.intercept.network import in_process
from pytest_agentreplay.intercept.network.guard import Guard
from pytest_agentreplay.intercept.session.callers import find_line_here
from pytest_agentreplay.model.exchanges import ToolCall

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from pytest_agentreplay.backends.backend import Moment, Verdict
    from pytest_agentreplay.intercept.process.child_start import ParentLink
    from pytest_agentreplay.intercept.session.interceptions import Interception
    from pytest_agentreplay.intercept.session.pending_call import PendingCall
    from pytest_agentreplay.model.divergence import Divergence
    from pytest_agentreplay.model.exchanges import Call, Exchange, Outcome, RawCall

GATEWAY = re.compile(r"(?:https?|wss?)://127\.0\.0\.1:[0-9]+/t/[0-9a-f]{16}\.[0-9]+(?:/|\Z)")
"""An address of a gateway: what is asked there is intercepted by the gateway itself."""


class RemoteBackend:
    """What a child's session asks in the place of a recorder or a replayer."""

    def __init__(self, link: ParentLink, root: str) -> None:
        """`root` is the directory whose files count as the agent's."""
        self.link = link
        self.interception: Interception | None = None
        self._root = root
        self._past = 0
        self._reported: dict[str, set[Any]] = {}

    def connection(self, opening: int) -> tuple[Exchange, ...]:
        """Return what is recorded of a lasting connection."""
        exchanges: tuple[Exchange, ...] = self.link.ask("connection", opening)
        return exchanges

    at_once = False

    def recognise(self, call: Call) -> bool:
        """Return True: redaction is the business of the test's process."""
        del call
        return True

    def decide(self, call: Call, moment: Moment) -> Verdict:
        """Decide on a call of this process."""
        if not isinstance(call, ToolCall) and GATEWAY.match(call.url):
            self._past -= 1
            return PassThrough(self._past, self)
        kind, *values = self.link.ask("ask", call, moment, find_line_here(self._root), self._news())
        match kind:
            case "forward":
                (ticket,) = values
                return PassThrough(ticket, self)
            case "answer":
                exchange, ticket, suspends = values
                handed = functools.partial(self.link.ask, "handed", ticket) if suspends else None
                return Replayed(exchange, ticket, handed=handed, hold=functools.partial(self.link.ask, "hold", ticket))
            case "refuse":
                return Refused(*values)
            case "invalid":
                text, path, what = values
                raise CannotFreeze(text, path=path, kind=what)
        raise ReplayDiverged(str(values[0]))

    def part(self, ticket: int, chunks: int, *, at_once: bool = False) -> None:
        """Report how far the answer of a forwarded call has come."""
        if ticket > 0:
            self.link.ask("part", ticket, chunks, at_once)

    def hand_over(self, recorded: int) -> None:
        """Nothing: `handed` has reported it."""

    def settle(self, ticket: int, outcome: Outcome, *, at: int, first: int | None, suspended: bool) -> None:
        """Hand over the outcome of a forwarded call."""
        if ticket > 0:
            times = {"at": at, "first": first, "suspended": suspended}
            self.link.ask("settle", ticket, outcome, times, self._news())

    def latch(self, divergence: Divergence, origin: str) -> Divergence:
        """Fail the test with `divergence`; return the first one, which it keeps."""
        kept: Divergence = self.link.ask("latch", divergence, origin)
        return kept

    def report(self) -> None:
        """Report what this process knows and no call has carried so far; for its end."""
        if any(news := self._news()):
            self.link.ask("note", news)

    def _news(self) -> dict[str, Any]:
        """What the test's process has to know of this one, each fact once."""
        interception = self.interception
        if interception is None:
            return {}
        facts_by_name: dict[str, Any] = {
            "begun": tuple(interception.lanes.begun.items()),
            "met": tuple(interception.tools.seen),
            "functions": tuple(interception.tools.functions),
            "uncompared": tuple(interception.tools.uncompared.items()),
            "ports": tuple(in_process.ports()) if self.link.invitation.mode == "record" else (),
            "problems": tuple(
                (str(problem), getattr(problem, "path", "$"), getattr(problem, "kind", ""))
                for problem in interception.observed.problems
            ),
        }
        news = {}
        for name, facts in facts_by_name.items():
            reported = self._reported.setdefault(name, set())
            if fresh := [fact for fact in facts if fact not in reported]:
                news[name] = fresh
                reported.update(fresh)
        return news


class RemoteRedactor:
    """The redaction of a child: it hands everything on as it is, and what it learns too."""

    def __init__(self, link: ParentLink) -> None:
        self._link = link

    def redact_call(self, raw: RawCall, is_recorded: Callable[[Call], bool] | None = None) -> Call:
        """Return the call as it is."""
        del is_recorded
        return raw.native

    def redact_content(self, call: Call) -> Call:
        """Return `call` as it is."""
        return call

    def redact_outcome(self, call: Call, outcome: Outcome) -> Outcome:
        """Return `outcome` as it is."""
        del call
        return outcome

    def reveal(self, outcome: Outcome) -> Outcome:
        """Return `outcome` as it is: the test's process has put today's places in."""
        return outcome

    def redact_text(self, text: str) -> str:
        """Return `text` as it is."""
        return text

    def hide(self, text: str) -> str:
        """Return `text` as it may be shown."""
        hidden: str = self._link.ask("hide", text)
        return hidden

    def learn(self, category: str, value: str) -> bool:
        """Keep `value` out of the run from now on."""
        return bool(self._link.ask("learn", category, value))


class ParentEnd(threading.Event):
    """Set when the test has ended, in the process of the test."""

    BEAT = 0.1

    def __init__(self, link: ParentLink) -> None:
        super().__init__()
        self._link = link

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the test has ended, and ask for it now and then."""
        left = timeout
        while not self.is_set() and (left is None or left > 0):
            try:
                over = self._link.ask("over")
            except ReplayDiverged:
                over = True
            if over:
                self.set()
            else:
                super().wait(self.BEAT if left is None else min(self.BEAT, left))
                left = None if left is None else left - self.BEAT
        return self.is_set()


class ChildGuard(Guard):
    """The network guard of a child; what it lists is listed with the test's own."""

    link: ParentLink | None = None

    def hear(self, event: str, args: tuple[Any, ...], frame: FrameType | None) -> None:
        """Hear an audit event, and report what was new in it."""
        before = self.counted
        try:
            super().hear(event, args, frame)
        finally:
            if self.link is not None and self.counted != before:
                fresh = [(what, count - before.get(what, 0)) for what, count in self.counted.items()]
                self.link.ask("heard", [(what, count) for what, count in fresh if count])


def held_by(order: type[Any]) -> type[Any]:
    """Return a class like `order` (`Holding` or `ReleaseQueue`) that leaves calls to the gateway alone."""

    class HeldAnswer(order):  # type: ignore[misc]
        async def wait(self, intercepted: PendingCall, chunks: int) -> None:
            if intercepted.ticket > 0:
                await super().wait(intercepted, chunks)

        def wait_in_thread(self, intercepted: PendingCall, chunks: int, *, at_once: bool = False) -> None:
            if intercepted.ticket > 0:
                super().wait_in_thread(intercepted, chunks, at_once=at_once)

        def hold_in_thread(self, intercepted: PendingCall) -> None:
            if intercepted.ticket > 0:
                super().hold_in_thread(intercepted)

    return HeldAnswer
