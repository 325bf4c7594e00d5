"""The interception of a captured run: calls are recorded as in a test, but kept raw, and nothing is ever refused.

The engine that records (lanes, order, timing, parts of answers) gets a stand-in for each call and outcome, so that an
`Exchange` holds nothing raw. What was really asked and answered is kept beside it, as `RawCall` and `RawOutcome`.

An agent sends its whole history with every request. So of the bodies of one conversation the latest is kept whole, and
of an earlier one only what the next does not begin or end with: the bytes of what was new, not the square of the turns.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.backends.backend import Moment, RecordBackend
from pytest_agentreplay.intercept.session import lanes
from pytest_agentreplay.intercept.session.agents import find_agent
from pytest_agentreplay.intercept.session.callers import read_span
from pytest_agentreplay.intercept.session.courses import Courses
from pytest_agentreplay.intercept.session.interceptions import Interception
from pytest_agentreplay.intercept.session.jobs import Job, Jobs
from pytest_agentreplay.intercept.session.pending_call import PendingCall
from pytest_agentreplay.model.exchanges import (
    Body,
    Failure,
    FrameCall,
    FramesReply,
    HttpCall,
    HttpReply,
    RawCall,
    RawOutcome,
    RawValue,
    ToolCall,
    ToolReply,
)
from pytest_agentreplay.runs.capture import fail_open
from pytest_agentreplay.runs.capture.ended_capture import LaneFacts
from pytest_agentreplay.snapshots.codec.dedup_reader import count_shared

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_agentreplay.model.exchanges import Call, Headers, JsonObject, Outcome

STAND_IN = Failure("pytest_agentreplay.capture")
"""What an exchange has in the place of its outcome while that is raw."""


class NoRedaction:
    """The redactor of a run that is kept raw: it is never asked for what could be stored."""

    def redact_call(self, raw: RawCall, _is_recorded: Callable[[Call], bool] | None = None) -> Call:
        """Return the stand-in of a call."""
        return stand_in(raw)

    def redact_content(self, call: Call) -> Call:
        """Return the stand-in of a call."""
        return stand_in(RawCall(call))

    def redact_outcome(self, _call: Call, _outcome: Outcome) -> Outcome:
        """Return the stand-in of an outcome."""
        return STAND_IN

    def reveal(self, outcome: Outcome) -> Outcome:
        """Return what was never redacted."""
        return outcome

    def redact_text(self, _text: str) -> str:
        """Return no word of a text."""
        return ""

    hide = redact_text

    def learn(self, _category: str, _value: str) -> bool:
        """Note nothing: `list_secrets` has what was named."""
        return True


_STAND_INS: dict[str, Call] = {}


def stand_in(raw: RawCall) -> Call:
    """Return what an exchange has in the place of a raw call: its boundary alone."""
    boundary = raw.native.boundary
    if boundary not in _STAND_INS:
        _STAND_INS[boundary] = FrameCall("", boundary=boundary)
    return _STAND_INS[boundary]


class UntrackedJob(Job):
    """A job of a pool whose end nobody waits for: its future is left as it is."""

    def begin(self) -> None:
        """Its function is called now."""

    def end(self, _future: object = None) -> None:
        """It is done."""

    def is_told_by(self, future: object) -> None:
        """It has a future."""


class UntrackedJobs(Jobs):
    """The jobs of a captured run."""

    def queue(self, executor: int, _threads: int) -> Job:
        """Return a job."""
        return UntrackedJob(self, executor)


class CaptureInterception(Interception):
    """The interception of one run, open until `end`.

    Attributes:
        run: The run, as the service has it.
        calls: The raw calls by the `start` of their exchange.
        outcomes: The raw outcomes.
        agents: Names of agents, by what exchanges have instead.
        draws: Draws of ids by lane and call site.
        size: The bytes of calls and outcomes in memory, request bodies apart.
        cold: Why the run cannot be replayed; "" where it can.
    """

    is_capture = True

    def __init__(self, run: Any) -> None:
        """Begin in the task or thread that runs here."""
        self.run = run
        self.recorder = recorder = RecordBackend()
        super().__init__(recorder, NoRedaction(), count=recorder.count)
        runner = lanes.find_runner()
        self._call_context.owner = runner
        if not isinstance(runner, int):
            self._call_context.thread = None
        self.courses = self.lanes.courses = Courses()
        self.work.jobs = UntrackedJobs()
        self.calls: dict[int, RawCall] = {}
        self.outcomes: dict[int, RawOutcome] = {}
        self.agents: dict[str, RawValue] = {}
        self.draws: JsonObject = {}
        self.size = 0
        self.cold = ""
        self._pairs: dict[tuple[str, str], tuple[str, str]] = {}
        self._bodies: dict[tuple[str, str], RequestBodies] = {}

    def enter(
        self, raw: RawCall, *, attempt: int = 1, call_context: lanes.CallContext | None = None, reads: bool = False
    ) -> PendingCall:
        """Let the call through. One that comes after the end of the run passes, and is counted."""
        del reads  # nothing is decided by it
        call = stand_in(raw)
        if self.ending.over.is_set():
            fail_open.count("late_calls")
            return CapturedCall(self, call_context or lanes.CALL_CONTEXT.get() or self.main(), call, 0)
        self.pending.activity += 1
        agent = self.agent() if call_context is None else ""
        context = call_context or self.call_context()
        parent = context.inside[0] if context.inside is not None else None
        if parent is not None and not lanes.is_inside(context):
            self.observed.serving.add(parent)
            parent = None
        ticket = self.begin(raw, Moment(context.path, self.clock.now(), attempt, parent, agent=agent))
        intercepted = CapturedCall(self, context, call, ticket, recorder=self.recorder)
        self.pending.open.add(intercepted)
        self.observed.trace = self.observed.trace or read_span()
        if context.inside is None:
            intercepted.course = self.courses.here(context)
            intercepted.before = self.courses.note_call(ticket, intercepted.course)
        return intercepted

    def begin(self, raw: RawCall, moment: Moment) -> int:
        """Keep a call; return the `start` of its exchange."""
        ticket = self.recorder.begin(stand_in(raw), moment)
        self.calls[ticket] = self._shrink(raw, moment.lane)
        return ticket

    def agent(self) -> str:
        """Return the key of the agent that runs here, which is no word of its name."""
        return self.key_of(find_agent())

    def key_of(self, name: str) -> str:
        """Return what exchanges have instead of the name of an agent."""
        if name and name not in self._agents:
            self._agents[name] = key = str(len(self._agents) + 1)
            self.agents[key] = RawValue(name)
        return self._agents[name] if name else ""

    def _shrink(self, raw: RawCall, lane: str) -> RawCall:
        """Return the call with a body that shares its bytes with those before it."""
        call = raw.native
        if isinstance(call, ToolCall):
            self.size += len(str(call.arguments))
            return raw
        if not isinstance(call, HttpCall):
            self.size += len(call.body)
            return raw
        bodies = self._bodies.get(where := (lane, call.url))
        if bodies is None:
            self._bodies[where] = bodies = RequestBodies(call.url)
            self.size += len(call.url)
        body = bodies.add(call.body.data) if len(call.body) else call.body
        return RawCall(HttpCall(call.method, bodies.url, self._share(call.headers), body))

    def _share(self, headers: Headers) -> Headers:
        """Return headers whose pairs are those of earlier calls: most of them come again with each."""
        before = len(self._pairs)
        shared = tuple(map(self._pairs.setdefault, headers, headers))
        for name, value in islice(reversed(self._pairs), len(self._pairs) - before):  # the new ones
            self.size += len(name) + len(value)
        return shared

    def keep_outcome(self, ticket: int, outcome: Outcome) -> None:
        """Keep what came back, until the run has been handed over."""
        if self.ending.over.is_set():
            return
        match outcome:
            case ToolReply(value, items):
                self.size += len(str(value)) + len(str(items))
            case Failure(message=message):
                self.size += len(message)
            case HttpReply() as x:
                self.size += len(x.body)
                headers = self._share(x.headers)
                outcome = HttpReply(x.status, x.reason, x.version, headers, x.body, x.cuts, x.failure, x.closed)
            case FramesReply(body=body):
                self.size += len(body)
        self.outcomes[ticket] = RawOutcome(outcome)

    def end(self) -> None:
        """End: an answer that is still under way counts as far as it has come, and later calls pass."""
        for intercepted in list(self.pending.open):
            if intercepted.partial is not None:
                with suppress(Exception):
                    intercepted.settle(intercepted.partial())
        self.ending.over.set()

    def describe_lanes(self) -> LaneFacts:
        """Return what the run has shown of its lanes."""
        after, serving = dict(self.courses.after), frozenset(self.observed.serving)
        return LaneFacts(dict(self.lanes.begun), after, serving, self.lanes.started)

    def measure(self) -> int:
        """Return the bytes of calls and outcomes in memory."""
        return self.size + sum(bodies.size for bodies in self._bodies.values())

    def forget(self) -> None:
        """Forget the calls: they are handed over, or those of the process of which this one is a fork."""
        self.ending.over.set()
        self.pending.open.clear()
        self.tools.clear()
        self.calls, self.outcomes, self.agents, self.draws = {}, {}, {}, {}
        self._bodies.clear()
        self._pairs.clear()


class CapturedCall(PendingCall):
    """One call of a captured run. Its outcome is kept raw, and the exchange gets a stand-in."""

    __slots__ = ()

    _interception: CaptureInterception

    def __init__(self, *of_any_call: Any, recorder: RecordBackend | None = None) -> None:
        """Made by `CaptureInterception.enter` alone; without `recorder` nothing of it is kept."""
        super().__init__(*of_any_call)
        self.forward, self._recorder = True, recorder

    def settle(self, outcome: Outcome, *, suspended: bool = False) -> None:
        """Keep the outcome; of a call that came too late nothing."""
        if self._recorder is None:
            self.forward = False
        else:
            super().settle(outcome, suspended=suspended)

    def _store(self, outcome: Outcome) -> Outcome:
        self._interception.keep_outcome(self.ticket, outcome)
        return STAND_IN


class RequestBodies:
    """Bodies of which each shares most with the one before; one that does not begins a chain of its own.

    Attributes:
        url: What they were sent to, one text for all of them.
        size: The bytes in memory.
    """

    def __init__(self, url: str = "") -> None:
        """Begin with none."""
        self.url = url
        self.size = 0
        self._chain: _Chain | None = None

    def add(self, data: bytes) -> Body:
        """Return `data` as a body that is restored when it is read."""
        chain = self._chain
        grown = None if chain is None else chain.add(data)
        if chain is None or grown is None:
            chain = self._chain = _Chain(data)
            grown = len(data)
        self.size += grown
        return Body(restore=_Restoring(chain, len(chain.parts) - 1))


class _Restoring:
    """Restores one body; there is one for each call, and a `partial` takes five times the bytes."""

    __slots__ = ("_chain", "_number")

    def __init__(self, chain: _Chain, number: int) -> None:
        self._chain, self._number = chain, number

    def __call__(self) -> bytes:
        return self._chain.restore(self._number)


class _Chain:
    """`parts` are, by body: how many bytes it shares with the beginning of the latest, its own, how many with the end.

    Both numbers never fall from one body to the next, so that each is restored from the latest in one step.
    """

    def __init__(self, data: bytes) -> None:
        self.parts: list[tuple[int, bytes, int]] = [(len(data), b"", 0)]
        self._latest = data

    def add(self, data: bytes) -> int | None:
        """Take the next body. Return by how many bytes the chain has grown; None for a body that begins another chain.

        At least half of the latest body is in the next one.
        """
        latest = self._latest
        head, tail = count_shared(latest, data)
        if 2 * (head + tail) < len(latest):
            return None
        own = latest[head : len(latest) - tail]
        self.parts[-1] = head, own, tail
        grown = len(data) - len(latest) + len(own)
        for number in range(len(self.parts) - 2, -1, -1):
            first, own, last = self.parts[number]
            if first <= head and last <= tail:
                break
            end = len(latest) - min(last, tail)
            more = latest[min(first, head) : first] + own + latest[len(latest) - last : end]
            self.parts[number] = min(first, head), more, min(last, tail)
            grown += len(more) - len(own)
        self.parts.append((len(data), b"", 0))
        self._latest = data
        return grown

    def restore(self, number: int) -> bytes:
        """Return the body `number`."""
        head, own, tail = self.parts[number]
        return self._latest[:head] + own + self._latest[len(self._latest) - tail :]
