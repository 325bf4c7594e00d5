"""The interception of one test: every patch comes here to redact a call, ask the backend, and complete the call.

    intercepted = interception.enter(RawCall(call))  raises ReplayDiverged when the backend refuses
    if intercepted.forward:                 recording: make the real call, with native objects
        with intercepted.inside(): ...      calls in here become children
        intercepted.settle(outcome)
    else:                                   replaying: return `intercepted.outcome` as a native object
        intercepted.finish()

The native request keeps its secrets; what the backend gets has been redacted here, once.

Its parts are in `session_parts`, lanes and threads in `lanes`, the calls under way in `pending_call`.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from typing import TYPE_CHECKING, Any, NoReturn, cast

from pytest_agentreplay import clocks
from pytest_agentreplay.backends.backend import Backend, Moment, PassThrough, RecordedRun, Refused, Replayed
from pytest_agentreplay.errors import ReplayDiverged, SettingsError
from pytest_agentreplay.intercept.session import exits, lanes, thread_starts
from pytest_agentreplay.intercept.session.agents import find_agent
from pytest_agentreplay.intercept.session.callers import (
    find_agents_line,
    find_importing_module,
    note_codes_here,
    read_span,
)
from pytest_agentreplay.intercept.session.other_plugins import is_sending_traces
from pytest_agentreplay.intercept.session.pending_call import (
    AnswerOrder,
    PendingCall,
    PendingCalls,
    describe,
    format_caller,
    format_refusal,
)
from pytest_agentreplay.intercept.session.session_parts import (
    OPEN_CASSETTES,
    CallScope,
    Ending,
    Observations,
    RunClock,
    ToolRegistry,
)
from pytest_agentreplay.model.divergence import Divergence, Kind
from pytest_agentreplay.model.exchanges import ToolCall

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from pytest_agentreplay.backends.backend import Verdict
    from pytest_agentreplay.intercept.session.session_parts import Redactor, RunSteps
    from pytest_agentreplay.model.exchanges import Call, Exchange, RawCall


class Interception:
    """The interception of one test, open until `end`. Safe from any thread and task.

    Attributes:
        is_capture: Whether it is that of a run of a service, in which nothing is refused.
    """

    is_capture = False

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
        self.root = root
        self.clock, self.scope, self.ending = RunClock(steps, now, count), CallScope(), Ending()
        self.work, self.lanes, self.tools = lanes.ThreadActivity(), lanes.LaneTracker(), ToolRegistry()
        self.pending, self.observed = PendingCalls(), Observations()
        self.order = AnswerOrder()
        self._agents: dict[str, str] = {}  # by name as somebody says it, the name as it may be stored
        self._call_context = lanes.CallContext(self)
        self._guests: dict[object, lanes.CallContext] = {}

    def call_context(self) -> lanes.CallContext:
        """The strand that runs here: the stamped one, else that of a fixture or of a thread that no test started."""
        if (loop := lanes.find_running_loop()) is not None:
            self.work.loops.add(loop)
        stamped = lanes.CALL_CONTEXT.get()
        if stamped is not None and stamped.interception is self:
            return lanes.find_lane(stamped)
        # No stamp here: a thread that is older than the test will work for the next one too.
        me = lanes.find_runner()
        guest = self._guests[me] = lanes.find_context(me, self._guests.get(me, self._call_context))
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
        self.work.main_thread = call_context.thread or threading.get_ident()
        self._guests.clear()

    def forget(self) -> None:
        """Forget all that was under way: in another run, or in the process of which this one is a fork."""
        self.observed.problems.clear()
        self.lanes.begun.clear()
        for part in (self.clock, self.ending, self.work, self.tools, self.pending):
            part.clear()

    def is_over(self) -> bool:
        """Return whether the code that runs here comes too late: after the test, or after the body that started it."""
        return self.ending.over.is_set() or (self.ending.body_over and lanes.CALL_CONTEXT.get() is not None)

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
            self.ending.late.append(format_caller(what, find_agents_line(self.root)))
            msg = f"refused: {what} was called after its test had ended"
            raise ReplayDiverged(msg)
        if self.scope.changes:
            self.change_request(raw.native, sent=True)
        self.pending.activity += 1
        # The name of an agent stands in the context that runs here: it says nothing of a call that was made elsewhere.
        agent = self.agent() if call_context is None else ""
        call_context = call_context or self.call_context()
        call = self.redact(raw)
        # What a server of the test's own process asks for is recorded beside the exchange that it serves, not in it.
        if call_context.inside and not lanes.is_inside(call_context):
            self.observed.serving.add(call_context.inside[0])
        parent = call_context.inside[0] if call_context.inside and lanes.is_inside(call_context) else None
        reads = reads or (isinstance(call, ToolCall) and call.boundary == "tool" and self.tools.reads(call.name))
        moment = Moment(call_context.path, self.clock.now(), attempt, parent, reads, agent)
        verdict: Verdict | None = None
        if OPEN_CASSETTES and self.scope.answers is not None:
            verdict = self.scope.answers(raw, call, moment)
        verdict = verdict or self.backend.decide(call, moment)
        match verdict:
            case PassThrough(ticket, recorder):
                self.observed.trace = self.observed.trace or read_span()
                intercepted = PendingCall(self, call_context, call, ticket)
                intercepted.forward, intercepted._recorder = True, recorder
                self.pending.open.add(intercepted)
                note_codes_here(self.observed.callers)
            case Replayed(exchange, ticket, compare, handed, early, hold):
                if early is not None:
                    early(find_agents_line(self.root))
                intercepted = PendingCall(self, call_context, call, ticket)
                intercepted.compare, intercepted.handed, intercepted.hold = compare, handed, hold
                intercepted.exchange = exchange
                intercepted.at = exchange.timing.end or exchange.timing.start
                intercepted.suspended = exchange.suspended
                self.order.ask(exchange.start)
                if compare is not None:
                    self.pending.comparing.add(intercepted)
                if exchange.abandoned or exchange.outcome is None:
                    intercepted.unfinished = True
                else:
                    intercepted.outcome = self.redactor.reveal(exchange.outcome)
            case Refused(divergence):
                self.refuse(divergence)
        if (courses := self.lanes.courses) is not None and call_context.inside is None:
            intercepted.course = courses.here(call_context)
            intercepted.before = courses.note_call(ticket, intercepted.course)
        return intercepted

    def change_request(self, call: Any, *, sent: bool = False) -> Any:
        """Return the call that is made in the stead of `call`, which is that itself where a run changes nothing in it.

        Raises ReplayDiverged where it cannot be changed; one that is about to be `sent` must have been.
        """
        from pytest_agentreplay.backends.request_changes import changed_call
        from pytest_agentreplay.providers import READER

        try:
            return changed_call(call, self.scope.changes, READER, sent=sent)
        except SettingsError as error:
            divergence = Divergence(Kind.CHANGE, str(error), lane=self.call_context().path)
        return self.refuse(divergence)

    def agent(self) -> str:
        """The name of the agent that runs here, as it may be stored; "" when nobody says one."""
        name = find_agent()
        if name and name not in self._agents:
            self._agents[name] = self.redactor.redact_text(name)
        return self._agents[name] if name else ""

    def latch(self, divergence: Divergence, origin: str) -> Divergence:
        """Keep the first divergence, which fails the test; whoever waits for a call is told that none will come."""
        ending = self.ending
        ending.refused = refused = self.backend.latch(divergence, origin)
        self.order.refuse(refused)
        if ending.on_refusal is not None:
            ending.on_refusal(refused)
        return refused

    def refuse(self, divergence: Divergence) -> NoReturn:
        """Fail the test with `divergence`, and stop the agent here. Always raises ReplayDiverged."""
        __tracebackhide__ = True
        latched = self.latch(divergence, find_agents_line(self.root))
        raise ReplayDiverged(format_refusal(latched), latched)

    def end_body(self, patience: float = 0.05) -> None:
        """The test body is over: its tasks and threads are refused from now on and named in `late`.

        Fixtures may still cross while they are torn down; they carry no stamp of the body. Waits up to `patience`
        seconds for threads and executor jobs of the body, so that a straggler is told on the test that started it.
        """
        self.ending.body_over = True
        deadline = clocks.monotonic() + patience
        for thread in list(self.work.threads):
            if thread is not threading.current_thread() and thread.is_alive():
                thread.join(max(0.0, deadline - clocks.monotonic()))
        for job in self.work.jobs:
            with contextlib.suppress(Exception):  # still at work, or cancelled
                job.exception(max(0.0, deadline - clocks.monotonic()))

    def is_straggling(self) -> bool:
        """Whether something that the test has started may still call: a thread, an executor's job, a task."""
        return (
            any(thread.is_alive() and thread is not threading.current_thread() for thread in list(self.work.threads))
            or any(not job.done() for job in self.work.jobs)
            or any(sys.modules["asyncio"].all_tasks(loop) for loop in list(self.work.loops) if not loop.is_closed())
        )

    def end(self) -> None:
        """End for good: later calls are refused. An answer that was dropped half read is settled as far as it came."""
        self.ending.body_over = True
        self.ending.over.set()
        for intercepted in list(self.pending.open):
            if intercepted.partial is not None:
                intercepted.settle(intercepted.partial())
        self.order.stop()


_running: Interception | None = None


def find_interception() -> Interception | None:
    """The interception for code that runs here, or None where nothing is recorded or replayed.

    The stamp of the task or thread comes first, so that a straggler of an ended test finds its own, ended interception.
    """
    stamped = lanes.CALL_CONTEXT.get()
    return cast("Interception", stamped.interception) if stamped is not None else _running


def open_for(interception: Interception | None) -> None:
    """Make `interception` the one of the running test (None: no test)."""
    global _running  # noqa: PLW0603  one process runs one test at a time; threads without a stamp need to find it
    _running = interception
    for entry in OPEN_CASSETTES if interception is None else reversed(OPEN_CASSETTES):
        entry.switch(inert=interception is not None)
    if interception is not None:
        thread_starts.stamp_threads()
        exits.install_excepthooks()


def is_running() -> bool:
    """Return whether a test is recorded or replayed in this process."""
    return _running is not None


_after: Interception | None = None


def refuse_after_session(interception: Interception | None) -> None:
    """Have what is called where no test runs come to `interception`, which refuses it (None: have it run)."""
    global _after  # noqa: PLW0603  as in open_for
    _after = interception


def find_for_tool() -> Interception | None:
    """The interception for a tool that is called here, or a connection; None where it just runs."""
    return find_interception() or _after


# The test that has ended last and the ident of its thread; None from when the next one begins.
_ended: tuple[Interception, int] | None = None


def refuse_garbage(interception: Interception) -> None:
    """Refuse the tools of a test that ends, where this thread calls them after it, until the next one begins.

    pytest holds the values of a test's fixtures until the teardown has been reported, so a `__del__` runs that late.
    """
    global _ended  # noqa: PLW0603  as in open_for
    _ended = interception, threading.get_ident()


def allow_tools() -> None:
    """Refuse no tool any more: the next test begins, and its fixtures may call them."""
    global _ended  # noqa: PLW0603  as in open_for
    _ended = None


def has_ended_last(interception: Interception) -> bool:
    """Return whether `interception` is the one of the test that has ended last, and no other test has begun."""
    return _ended is not None and _ended[0] is interception


def find_for_garbage() -> Interception | None:
    """Return the interception of the ended test for a tool that its garbage calls here; None where anything else does.

    Hooks of a conftest or plugin and threads of the suite's own may call tools between tests: they belong to no test.
    """
    ended = _ended
    if ended is None or ended[1] != threading.get_ident():
        return None
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_name != "__del__":
        library = str(frame.f_globals.get("__name__")).partition(".")[0]
        if library in {"pluggy", "_pytest"}:
            return ended[0] if library == "_pytest" else None
        frame = frame.f_back
    return ended[0]


# Boundaries whose exchanges see the bytes that go on below them.
WIRES = frozenset({"http", "mcp", "process", "websocket"})


def is_within_http() -> bool:
    """Whether an HTTP exchange around us already sees what happens here; inner patches of HTTP then step aside."""
    stamped = lanes.CALL_CONTEXT.get()
    return stamped is not None and stamped.inside is not None and stamped.inside[1] in WIRES


def find_for_http() -> Interception | None:
    """The interception that a patch of HTTP asks; None outside of tests, within an exchange, and for no test's calls.

    That is what sends traces, and what a library asks for while it is imported: the guard refuses its connection.
    """
    # What `find_interception` and `is_within_http` tell, with one look: this stands before every request.
    stamped = lanes.CALL_CONTEXT.get()
    interception = (cast("Interception", stamped.interception) if stamped is not None else _running) or _after
    if interception is None or (stamped is not None and stamped.inside is not None and stamped.inside[1] in WIRES):
        return None
    frame = sys._getframe(1)
    module, own = find_importing_module(frame)
    if own:
        interception.observed.importing.add(module)
    elif module:
        return None
    # What sends traces does so in a thread of its own, never in the main one.
    return None if threading.get_ident() != threading.main_thread().ident and is_sending_traces(frame) else interception
