"""The interception of one test: every patch comes here to redact a call, ask the backend, and complete the call.

    intercepted = interception.enter(RawCall(call))  raises ReplayDiverged when the backend refuses
    if intercepted.forward:                 recording: make the real call, with native objects
        with intercepted.inside(): ...      calls in here become children
        intercepted.settle(outcome)
    else:                                   replaying: return `intercepted.outcome` as a native object
        intercepted.finish()

The native request keeps its secrets; what the backend gets has been redacted here, once.

What the session knows of threads and lanes is in `lanes`, of tools in `session_parts`.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, cast

from pytest_agentreplay import clocks
from pytest_agentreplay.core.backends.backend import Backend, Moment, PassThrough, RecordedRun, Refused, Replayed
from pytest_agentreplay.core.divergence import Divergence, Kind
from pytest_agentreplay.core.model import Failure, ToolCall
from pytest_agentreplay.core.release_order import END
from pytest_agentreplay.errors import ReplayDiverged, SettingsError
from pytest_agentreplay.intercept.session import exits, lanes, thread_starts
from pytest_agentreplay.intercept.session.agents import agent_here
from pytest_agentreplay.intercept.session.callers import agents_line, codes_here, module_importing, span_here
from pytest_agentreplay.intercept.session.hosts import DeclaredHosts
from pytest_agentreplay.intercept.session.other_plugins import sends_traces
from pytest_agentreplay.intercept.session.session_parts import Observations, ToolRegistry

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager

    from pytest_agentreplay.core.backends.backend import Recorder
    from pytest_agentreplay.core.model import Call, Exchange, HttpCall, Json, Outcome
    from pytest_agentreplay.core.raw_call import RawCall
    from pytest_agentreplay.intercept.session.courses import Courses


class Redactor(Protocol):
    """What the interception needs of `core.redaction`."""

    def redact_call(self, raw: RawCall, is_recorded: Callable[[Call], bool] | None = None) -> Call:
        """Return the call as it may be stored. One that `is_recorded` byte for byte is redacted already."""

    def redact_content(self, call: Call) -> Call:
        """Return a call of which no header is stored as it may be shown."""

    def redact_outcome(self, call: Call, outcome: Outcome) -> Outcome:
        """Return the outcome as it may be stored."""

    def reveal(self, outcome: Outcome) -> Outcome:
        """A stored outcome as it is served: today's places in the marks' stead."""

    def redact_text(self, text: str) -> str:
        """Any other text as it may be stored."""

    def hide(self, text: str) -> str:
        """A text as it may be shown."""

    def learn(self, category: str, value: str) -> bool:
        """Keep `value` out from now on; False for one that is too short or too common."""


class RunSteps(Protocol):
    """The clock and the seeds: they move when a call is done, and only then."""

    def step(self, at: int, lane: str, count: int) -> None:
        """A call of `lane` (its `count`-th) was done, `at` nanoseconds after the run began."""


class ReleaseOrder(Protocol):
    """In which order answers come: `Holding` while recording, `Serving` in a replay that keeps the recorded order."""

    def ask(self, start: int) -> None:
        """The call that is recorded as `start` was made."""

    async def wait(self, intercepted: PendingCall, chunks: int) -> None:
        """Wait until the answer may come as far as `chunks`."""

    def wait_in_thread(self, intercepted: PendingCall, chunks: int, *, at_once: bool = False) -> None:
        """As `wait`, for a thread; `at_once` says that the caller is a task that has not given way so far."""

    def hold_in_thread(self, intercepted: PendingCall) -> None:
        """Wait until a thread may have the whole answer that is there."""

    def defer(self, then: Callable[[], object]) -> bool:
        """Whether what comes in a callback waits for its moment; `then` is called in it."""

    async def abandon(self, intercepted: PendingCall) -> None:
        """Wait to be given up: the recorded call never ended."""

    def abandon_in_thread(self, intercepted: PendingCall) -> None:
        """As `abandon`, for a thread."""

    def is_released(self, intercepted: PendingCall, chunks: int) -> bool:
        """Whether the answer has come so far."""

    def disturb(self) -> None:
        """Something comes that has no place in the order: a message over a lasting connection."""

    def drop(self, start: int) -> None:
        """Whoever made the call wants no more of its answer."""

    def refuse(self, divergence: Divergence) -> None:
        """The backend has refused for good."""

    def stop(self) -> None:
        """The test is over."""


class PendingCall:
    """One call at the interception: `forward` says to go to the world, else `outcome` is what to give back.

    `exchange` is what is recorded of a replayed call. `compare` is there where the real call is made beside the
    recorded answer: it takes the outcome once, by `compare_outcome`.
    `unfinished` is a replayed call that never ended in the recording: the boundary waits with `abandon`.
    `suspended` is a replayed call during which others ran.
    `at_home` says of a recorded call that its answer is there, and the agent gets it in a moment.
    `partial`, when the boundary sets it, returns what has come so far of an answer that the agent may drop unread.
    `settled`, when the boundary sets it, is called once the real call is over.
    """

    __slots__ = (
        "_call",
        "_call_context",
        "_first",
        "_interception",
        "_recorder",
        "at",
        "at_home",
        "before",
        "compare",
        "course",
        "exchange",
        "forward",
        "handed",
        "outcome",
        "partial",
        "settled",
        "suspended",
        "ticket",
        "unfinished",
    )

    def __init__(self, interception: Interception, call_context: lanes.CallContext, call: Call, ticket: int) -> None:
        """Made by `Interception.enter` alone."""
        self._interception = interception
        self._call_context = call_context
        self._call = call
        self._first: int | None = None
        self._recorder: Recorder | None = None
        self.ticket = ticket
        self.forward = False
        self.unfinished = False
        self.suspended = False
        self.outcome: Outcome | None = None
        self.exchange: Exchange | None = None
        self.partial: Callable[[], Outcome] | None = None
        self.compare: Callable[[Outcome, str, Outcome | None], None] | None = None
        self.handed: Callable[[], object] | None = None
        self.settled: Callable[[], object] | None = None
        self.at = 0
        self.at_home = False
        self.course: lanes.Course | None = None
        self.before: tuple[int, ...] = ()

    @property
    def open(self) -> bool:
        """Whether the real call may be made: the backend has said so, and the outcome is not there yet."""
        return self.forward or self.compare is not None

    def inside(self) -> AbstractContextManager[None]:
        """A block whose calls are children of this one."""
        return lanes.inside(self._call_context, self.ticket, self._call.boundary)

    def first_byte(self) -> None:
        """Note that the answer has begun."""
        if self._first is None:
            self._first = self._interception.now()

    def settle(self, outcome: Outcome, *, suspended: bool = False) -> None:
        """Recording: take the real outcome. Redacted here; settled once, a second time does nothing."""
        if not self.forward:
            return
        self.forward = False
        interception = self._interception
        interception.pending.open.discard(self)
        at = interception.now()
        if self.settled is not None:
            self.settled()
        stored = interception.redactor.redact_outcome(self._call, outcome)
        assert self._recorder is not None
        self._recorder.settle(self.ticket, stored, at=at, first=self._first, suspended=suspended)
        if not (isinstance(outcome, Failure) and outcome.cancelled):
            self._end_course()
        interception.advance_clock(self._call_context, at)

    def _end_course(self) -> None:
        """Recording: note which strands know that this call is over."""
        if self._interception.courses is not None and self.course is not None:
            self._interception.courses.note_end(self.ticket, self.course, self.before)

    def compare_outcome(self, outcome: Outcome, recorded: Outcome | None = None) -> None:
        """Verifying: take the real outcome beside the recorded one. Redacted here; a second time does nothing.

        `recorded` is what was recorded, where the exchange alone does not tell.
        """
        compare, self.compare = self.compare, None
        self._interception.pending.comparing.discard(self)
        if compare is not None:
            compare(
                self._interception.redactor.redact_outcome(self._call, outcome),
                agents_line(self._interception.root),
                recorded,
            )

    def finish(self) -> None:
        """Replaying: the outcome has been handed over whole; the clock moves on."""
        if not self.forward and self.at:
            if self.exchange is not None and self._interception.order is not None:
                self._interception.order.drop(self.exchange.start)
            self._report_handed_over()
            if self.course is not None:
                self._end_course()
            self._interception.advance_clock(self._call_context, self.at)

    @property
    def runs_server(self) -> bool:
        """Replaying: whether the server that this calls runs, because it made calls of its own when recorded."""
        return self.exchange is not None and self.exchange.start in self._interception.observed.servers

    @property
    def connects_to_server(self) -> bool:
        """Replaying: whether this opens a connection to a server that runs for some message."""
        if self.exchange is None or not self._interception.observed.servers:
            return False
        messages = self._interception.connection(self.exchange.start)
        return self.runs_server or any(x.start in self._interception.observed.servers for x in messages)

    @property
    def call(self) -> Call:
        """The call, as it may be stored."""
        return self._call

    async def wait(self, chunks: int = END) -> None:
        """Wait until the answer may come as far as `chunks`, in its own order among others (0: its beginning).

        Without an order a replay lets the other tasks run once, if they did while the recorded call was waited for.
        """
        order = self._interception.order
        if order is not None:
            try:
                await order.wait(self, chunks)
            finally:
                self._report_handed_over()
        elif self.suspended:
            try:
                await self._give_way()
            finally:
                self._report_handed_over()
        else:
            self._report_handed_over()

    def wait_in_thread(self, chunks: int = END, *, at_once: bool = False) -> None:
        """As `wait`, for a thread. While recording `at_once` says that it is a task, which has not given way so far."""
        try:
            if (order := self._interception.order) is not None:
                order.wait_in_thread(self, chunks, at_once=at_once)
            elif self._interception.pause is not None and self.handed is not None:
                self._interception.pause()
        finally:
            self._report_handed_over()

    def hold_in_thread(self) -> None:
        """Recording, in a thread: the answer is there, and the agent gets it next. Wait until others have run out."""
        if (order := self._interception.order) is not None and not lanes.is_inside(self._call_context):
            order.hold_in_thread(self)

    def defer(self, then: Callable[[], object]) -> bool:
        """Recording, in a callback: whether what has come waits for its moment; `then` is called in it."""
        order = self._interception.order
        return order is not None and order.defer(then)

    @property
    def call_context(self) -> lanes.CallContext:
        """The strand that made the call."""
        return self._call_context

    @property
    def thread(self) -> object:
        """The ident of the thread that made the call; a task, where one did."""
        return self._call_context.owner

    def is_released(self, chunks: int) -> bool:
        """Whether `wait` would not wait."""
        order = self._interception.order
        return order is None or order.is_released(self, chunks)

    def _report_handed_over(self) -> None:
        self.suspended = False
        handed, self.handed = self.handed, None
        if handed is not None:
            handed()

    async def _give_way(self) -> None:
        import asyncio

        if asyncio._get_running_loop() is not None:
            await asyncio.sleep(0)
        else:
            await sys.modules["trio"].lowlevel.checkpoint()

    async def abandon(self) -> None:
        """Wait until cancelled, as the recorded call was. Raises ReplayDiverged where nobody does that any more."""
        order, endless = self._interception.order, self._interception.pending.endless
        endless.append(self)
        try:
            if order is not None:
                await order.abandon(self)
            elif (loop := lanes.running_loop()) is not None:
                await loop.create_future()
            else:
                await sys.modules["trio"].sleep_forever()
        finally:
            endless.remove(self)

    def can_wait(self) -> bool:
        """Whether this thread can hold a call that never ended: not the one that has to end the test.

        The main thread of a child holds it for a while: whoever killed the child in the recording may do so again.
        """
        if threading.current_thread() is not threading.main_thread():
            return True
        patience = self._interception.main_patience
        return patience > 0 and self._interception.ended.wait(patience)

    def abandon_in_thread(self) -> NoReturn:
        """Block a thread until the test has ended. Always raises ReplayDiverged."""
        order = self._interception.order
        self._interception.pending.endless.append(self)
        if order is not None:
            order.abandon_in_thread(self)
        self._interception.ended.wait()
        raise ReplayDiverged(f"refused: {describe(self._call)} never ended in the recording, and now its test has")

    def wait_for_end(self, timeout: float | None = None) -> bool:
        """Block a thread until the test has ended; gives whether it has."""
        return self._interception.ended.wait(timeout)


class PendingCalls:
    """The calls that are under way.

    Attributes:
        open: Calls that are made for real and have no outcome yet.
        endless: Replayed calls that wait to be given up, as they were when recorded.
        comparing: Calls that are made for real beside the recorded answer.
    """

    def __init__(self) -> None:
        self.open: set[PendingCall] = set()
        self.endless: list[PendingCall] = []
        self.comparing: set[PendingCall] = set()

    def clear(self) -> None:
        """Forget the calls of another run."""
        self.open.clear()
        self.endless.clear()
        self.comparing.clear()


class Interception:
    """The interception of one test, open until `end`. Safe from any thread and task."""

    def __init__(
        self,
        backend: Backend,
        redactor: Redactor,
        *,
        steps: RunSteps | None = None,
        root: str = "",
        now: Callable[[], int] | None = None,
        count: Callable[[], int] = int,
    ) -> None:
        """`root` is the directory whose files count as the agent's own; `now` gives nanoseconds since the start.

        `count` reads the counter that numbers starts and finishes, where the backend keeps one.
        """
        self.backend = backend
        self._recorded_run = backend if isinstance(backend, RecordedRun) else None
        self.redactor = redactor
        self.steps = steps
        self.root = root
        began = clocks.monotonic_ns()
        self.now = now or (lambda: clocks.monotonic_ns() - began)
        self.count = count
        self.work, self.lanes, self.tools = lanes.ThreadActivity(), lanes.LaneTracker(), ToolRegistry()
        self.pending, self.observed = PendingCalls(), Observations()
        self.courses: Courses | None = None  # while recording: which call came after which of another lane
        self.order: ReleaseOrder | None = None
        self.ended = threading.Event()
        self._body_over = False
        self.late: list[str] = []  # calls that came after the end, each with its place in the code
        # Which HTTP calls are this test's own; None for all. The others go through.
        self.takes: Callable[[HttpCall], bool] | None = None
        self.problems: list[Exception] = []
        self.hosts = DeclaredHosts(())  # those that the test may reach
        self.changes: Mapping[str, Json] = {}  # what a live run changes in requests to models
        self.refused: Divergence | None = None  # once there is one nobody needs to wait for another call any more
        self.on_latch: Callable[[Divergence], None] | None = None
        self.activity = 0  # grows with each call: who waits for another one sees that the test goes on
        self.main_patience = 0.0  # seconds that the main thread holds a call that never ended: more in a child
        self.pause: Callable[[], None] | None = None  # holds a thread's answer back, so that others can ask beside it
        self._agents: dict[str, str] = {}  # by name as somebody says it, the name as it may be stored
        self._counts: dict[str, int] = {}
        self._call_context = lanes.CallContext(self)
        self._guests: dict[object, lanes.CallContext] = {}

    def cannot_keep(self, why: Exception | None) -> None:
        """Note why this run cannot be written, each reason once; None is no reason."""
        if why is not None and str(why) not in map(str, self.problems):
            self.problems.append(why)

    def call_context(self) -> lanes.CallContext:
        """The strand that runs here: the stamped one, else that of a fixture or of a thread that no test started."""
        if (loop := lanes.running_loop()) is not None:
            self.work.loops.add(loop)
        stamped = lanes.CALL_CONTEXT.get()
        if stamped is not None and stamped.interception is self:
            return lanes.own(stamped)
        # No stamp here: a thread that is older than the test will work for the next one too.
        me = lanes.runner()
        guest = self._guests[me] = lanes.strand_of(me, self._guests.get(me, self._call_context))
        return guest

    @property
    def at_once(self) -> bool:
        """Whether what is recorded over a connection waits for its own question only, and for none before it."""
        return self._recorded_run is not None and self._recorded_run.at_once

    def connection(self, opening: int) -> tuple[Exchange, ...]:
        """Return what is recorded of the lasting connection that the exchange `opening` opened."""
        return self._recorded_run.connection(opening) if self._recorded_run is not None else ()

    def redact(self, raw: RawCall) -> Call:
        """Return the call as a backend may see it."""
        recorded = self._recorded_run
        return self.redactor.redact_call(raw, recorded.recognise if recorded is not None else None)

    def main(self) -> lanes.CallContext:
        """The test's first strand, to stamp the test's own thread or task with."""
        return self._call_context

    def begin_at(self, call_context: lanes.CallContext) -> None:
        """Make `call_context` the first one: in a child process of the test, or in a worker of a pool."""
        self._call_context = call_context
        self._guests.clear()

    def forget(self) -> None:
        """Forget all that was under way: in another run, or in the process of which this one is a fork."""
        self._body_over = False
        self.refused = self.on_latch = None
        self._counts.clear()
        self.late.clear()
        self.problems.clear()
        self.lanes.begun.clear()
        for part in (self.work, self.tools, self.pending):
            part.clear()

    def is_over(self) -> bool:
        """Whether the code that runs here comes too late: after the test, or after the body that started it."""
        return self.ended.is_set() or (self._body_over and lanes.CALL_CONTEXT.get() is not None)

    def enter(
        self, raw: RawCall, *, attempt: int = 1, call_context: lanes.CallContext | None = None, reads: bool = False
    ) -> PendingCall:
        """Ask the backend about `raw`, redacted. Raises ReplayDiverged when it refuses.

        `call_context` is the one that made the call, where that is not the one that runs here. `reads` says that the
        call was declared to change nothing; a tool is, too, when `read_tools` has its name.
        """
        __tracebackhide__ = True
        if self.is_over():
            what = self.redactor.hide(describe(raw.native))  # it has not been redacted
            self.late.append(called_from(what, agents_line(self.root)))
            msg = f"refused: {what} was called after its test had ended"
            raise ReplayDiverged(msg)
        if self.changes:
            self.change_request(raw.native, sent=True)
        self.activity += 1
        agent = self.agent() if call_context is None else ""
        call_context = call_context or self.call_context()
        call = self.redact(raw)
        if call_context.inside and not lanes.is_inside(call_context):
            self.observed.serving.add(call_context.inside[0])
        parent = call_context.inside[0] if call_context.inside and lanes.is_inside(call_context) else None
        reads = reads or (isinstance(call, ToolCall) and call.boundary == "tool" and self.tools.reads(call.name))
        verdict = self.backend.decide(call, Moment(call_context.path, self.now(), attempt, parent, reads, agent))
        match verdict:
            case PassThrough(ticket, recorder):
                self.observed.trace = self.observed.trace or span_here()
                intercepted = PendingCall(self, call_context, call, ticket)
                intercepted.forward, intercepted._recorder = True, recorder
                self.pending.open.add(intercepted)
                self.observed.callers |= codes_here()
            case Replayed(exchange, ticket, compare, handed, early):
                if early is not None:
                    early(agents_line(self.root))
                intercepted = PendingCall(self, call_context, call, ticket)
                intercepted.compare, intercepted.handed = compare, handed
                intercepted.exchange = exchange
                intercepted.at = exchange.timing.end or exchange.timing.start
                intercepted.suspended = exchange.suspended
                if (order := self.order) is not None:
                    order.ask(exchange.start)
                if compare is not None:
                    self.pending.comparing.add(intercepted)
                if exchange.abandoned or exchange.outcome is None:
                    intercepted.unfinished = True
                else:
                    intercepted.outcome = self.redactor.reveal(exchange.outcome)
            case Refused(divergence):
                raise ReplayDiverged(refusal(divergence), self.latch(divergence, agents_line(self.root)))
        if self.courses is not None and call_context.inside is None:
            intercepted.course = self.courses.here(call_context)
            intercepted.before = self.courses.made(ticket, intercepted.course)
        return intercepted

    def change_request(self, call: Any, *, sent: bool = False) -> Any:
        """Return the call that is made in the stead of `call`, which is that itself where a run changes nothing in it.

        Raises ReplayDiverged where it cannot be changed; one that is about to be `sent` must have been.
        """
        from pytest_agentreplay.core.live.request_changes import changed_call
        from pytest_agentreplay.dialects import READER

        try:
            return changed_call(call, self.changes, READER, sent=sent)
        except SettingsError as error:
            divergence = Divergence(Kind.CHANGE, str(error), lane=self.call_context().path)
            raise ReplayDiverged(refusal(divergence), self.latch(divergence, agents_line(self.root))) from None

    def agent(self) -> str:
        """The name of the agent that runs here, as it may be stored; "" when nobody says one."""
        name = agent_here()
        if name and name not in self._agents:
            self._agents[name] = self.redactor.redact_text(name)
        return self._agents[name] if name else ""

    def latch(self, divergence: Divergence, origin: str) -> Divergence:
        """Keep the first divergence, which fails the test; whoever waits for a call is told that none will come."""
        self.refused = self.backend.latch(divergence, origin)
        if (order := self.order) is not None:
            order.refuse(self.refused)
        if self.on_latch is not None:
            self.on_latch(self.refused)
        return self.refused

    def advance_clock(self, call_context: lanes.CallContext, at: int) -> None:
        """A call is done: step the clock and the seeds, unless it happened inside another one."""
        if self.steps is not None and call_context.inside is None:
            count = self._counts[call_context.path] = self._counts.get(call_context.path, 0) + 1
            self.steps.step(at, call_context.path, count)

    def end_body(self, patience: float = 0.05) -> None:
        """The test body is over: its tasks and threads are refused from now on and named in `late`.

        Fixtures may still cross while they are torn down; they carry no stamp of the body. Waits up to `patience`
        seconds for threads and executor jobs of the body, so that a straggler is told on the test that started it.
        """
        self._body_over = True
        deadline = clocks.monotonic() + patience
        for thread in list(self.work.threads):
            if thread is not threading.current_thread() and thread.is_alive():
                thread.join(max(0.0, deadline - clocks.monotonic()))
        for job in self.work.jobs:
            with contextlib.suppress(Exception):  # still at work, or cancelled
                job.exception(max(0.0, deadline - clocks.monotonic()))

    def straggling(self) -> bool:
        """Whether something that the test has started may still call: a thread, an executor's job, a task."""
        return (
            any(thread.is_alive() and thread is not threading.current_thread() for thread in list(self.work.threads))
            or any(not job.done() for job in self.work.jobs)
            or any(sys.modules["asyncio"].all_tasks(loop) for loop in list(self.work.loops) if not loop.is_closed())
        )

    def end(self) -> None:
        """End for good: later calls are refused. An answer that was dropped half read is settled as far as it came."""
        self._body_over = True
        self.ended.set()
        for intercepted in list(self.pending.open):
            if intercepted.partial is not None:
                intercepted.settle(intercepted.partial())
        if (order := self.order) is not None:
            order.stop()


_running: Interception | None = None


def current() -> Interception | None:
    """The interception for code that runs here, or None where nothing is recorded or replayed.

    The stamp of the task or thread comes first, so that a straggler of an ended test finds its own, ended interception.
    """
    stamped = lanes.CALL_CONTEXT.get()
    return cast("Interception", stamped.interception) if stamped is not None else _running


def open_for(interception: Interception | None) -> None:
    """Make `interception` the one of the running test (None: no test)."""
    global _running  # noqa: PLW0603  one process runs one test at a time; threads without a stamp need to find it
    _running = interception
    if interception is not None:
        thread_starts.stamp_threads()
        exits.install_excepthooks()


_after: Interception | None = None


def after_session(interception: Interception | None) -> None:
    """Have what is called where no test runs come to `interception`, which refuses it (None: have it run)."""
    global _after  # noqa: PLW0603  as in open_for
    _after = interception


def for_tool() -> Interception | None:
    """The interception for a tool that is called here, or a connection; None where it just runs."""
    return current() or _after


WIRES = frozenset({"http", "mcp", "process", "websocket"})
"""Boundaries whose exchanges see the bytes that go on below them."""


def within_http() -> bool:
    """Whether an HTTP exchange around us already sees what happens here; inner patches of HTTP then step aside."""
    stamped = lanes.CALL_CONTEXT.get()
    return stamped is not None and stamped.inside is not None and stamped.inside[1] in WIRES


def for_http() -> Interception | None:
    """The interception that a patch of HTTP asks; None outside of tests, within an exchange, and for no test's calls.

    That is what sends traces, and what a library asks for while it is imported: the guard refuses its connection.
    """
    interception = current() or _after
    if interception is None or within_http():
        return None
    frame = sys._getframe(1)
    module, own = module_importing(frame)
    if own:
        interception.observed.importing.add(module)
    elif module:
        return None
    # What sends traces does so in a thread of its own, never in the main one.
    return None if threading.get_ident() != threading.main_thread().ident and sends_traces(frame) else interception


def describe(call: Call) -> str:
    """A call in a few words: "tool refund", "POST api.openai.com/v1/responses", "SEND api.openai.com/v1/realtime"."""
    if isinstance(call, ToolCall):
        return f"{call.boundary} {call.name}"
    scheme, mark, rest = call.url.partition("://")
    return f"{call.method} {rest.partition('?')[0] if mark else scheme}"


def called_from(what: str, line: str) -> str:
    """What was called, and by which line of the agent; handlers of the interpreter are called by none."""
    return f"{what}   called from {line}" if line else what


def refusal(divergence: Divergence) -> str:
    """The text of the brake; the report says the rest."""
    return f"[{divergence.kind.code}] {divergence.summary}"
