"""Python child processes of a test, in the process of the test: who may join, and what each of them asks.

One listener serves all tests of this process, from the first child until the process ends, so that a child which
outlives its test finds somebody who refuses its calls. Each connection has a thread, which is not one of the test's.

    child_start      how a child is invited, and its end of the link
    child_backend    the backend that the child's patches ask
    child_multiprocessing    jobs of process pools
"""

from __future__ import annotations

import _thread
import itertools
import os
import re
import secrets
import socket
import sys
import threading
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pytest_agentreplay import clocks
from pytest_agentreplay.backends.backend import Moment, PassThrough, RecordingBackend, Refused, Replayed
from pytest_agentreplay.compare.matching.address import authority
from pytest_agentreplay.errors import AgentReplayError, CannotFreeze, ReplayDiverged
from pytest_agentreplay.intercept.network import in_process
from pytest_agentreplay.intercept.process.child_start import Here, Invitation
from pytest_agentreplay.intercept.session import interceptions, lanes
from pytest_agentreplay.intercept.session.pending_call import describe
from pytest_agentreplay.model.divergence import Divergence, Kind
from pytest_agentreplay.model.exchanges import Exchange, FrameCall, HttpReply, RawCall, ToolCall, ToolReply
from pytest_agentreplay.model.release_order import lanes_above

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Mapping
    from multiprocessing.connection import Connection

    from pytest_agentreplay.backends.backend import Recorder, Verdict
    from pytest_agentreplay.intercept.network.guard import Guard
    from pytest_agentreplay.intercept.session.interceptions import Interception
    from pytest_agentreplay.model.exchanges import Call

PATIENCE = 5.0
"""Seconds that a child which is there has for the calls that it made before the test's end when it was recorded."""

GRACE = 0.5
"""Seconds that a child which has just been started has to join at the end of the test's body."""


OF_PROCESS = re.compile(r"\.[pwj][0-9]+(?:\.|\Z)")


def is_of_process(lane: str) -> bool:
    """Whether `lane` is that of a Python child process, a pool's worker or a job, or below one."""
    return OF_PROCESS.search(lane) is not None


@dataclass(slots=True, eq=False)
class PythonChild:
    """One invited child: its lane, the exchange that it was started in, and whether the test's body started it."""

    token: str
    lane: str
    inside: tuple[int, str] | None
    of_body: bool
    at: int
    program: str = ""
    process: Any = None
    joined: bool = False
    left: bool = False
    ports: set[int] = field(default_factory=set)
    """Those at which it listens."""

    def there(self) -> bool:
        """Whether it may still call."""
        return not self.left and (self.joined or self.process is None or self.process.poll() is None)


class Children:
    """The Python child processes of one test."""

    def __init__(
        self,
        interception: Interception,
        *,
        mode: str,
        greeting: Callable[[], Mapping[str, Any]],
        recorded: Iterable[Exchange] = (),
        unexpected: Container[int] = (),
        learn: Callable[[Mapping[str, str]], None],
    ) -> None:
        """`greeting` is what a child is told when it joins, `recorded` are the exchanges of the snapshot.

        Those that start at `unexpected` need not come again.

        `learn` takes the environment of a child, whose secrets are secrets of the run.
        """
        self.interception = interception
        self.mode = mode
        self.run = secrets.token_hex(8)
        self.guard: Guard | None = None
        self._greeting = greeting
        self._recorded = tuple(recorded)
        self._unexpected = unexpected
        self._learn = learn
        self._numbers: dict[tuple[str, str], itertools.count[int]] = {}
        self._invited: list[PythonChild] = []
        self._lanes: dict[str, None] = {}
        self.calls: dict[int, Call] = {}
        self._recorders: dict[int, Recorder] = {}
        """The calls of children that were forwarded and are under way."""
        self.served: dict[int, int] = {}
        """The calls that a child made to serve a recorded request, by `start`; 0 for a request of another run."""
        self._first: dict[str, int | None] = {}
        self._lock = threading.Lock()

    @property
    def lanes(self) -> tuple[str, ...]:
        """The lanes of child processes and of the jobs of their pools."""
        return tuple(self._lanes)

    def here(self) -> Here:
        """Return where a child would be started by the code that runs here."""
        stamped = lanes.CALL_CONTEXT.get() is not None
        call_context = self.interception.call_context()
        steps: Any = self.interception.clock.steps
        return call_context.path, call_context.inside, stamped, 0 if steps is None else steps.at

    def invite(self, kind: str = "p", program: str = "", here: Here | None = None) -> Invitation:
        """Return an invitation to a lane of its own; `kind` begins its name: a process, a pool's worker, or a job."""
        above, inside, of_body, at = here or self.here()
        begun = self.interception.clock.count()
        with self._lock:
            numbers = self._numbers.setdefault((above, kind), itertools.count(1))
            lane = f"{above}.{kind}{next(numbers)}"
            child = PythonChild(secrets.token_hex(8), lane, inside, of_body, at, program)
            self._lanes[lane] = None
            self._invited.append(child)
        self.interception.lanes.begun[lane] = begun
        server = ChildServer.running()
        server.invited[child.token] = self, child
        self.interception.redactor.learn("key", server.key)
        return Invitation(server.address, server.key, child.token, self.run, self.mode)

    def note_started(self, invitation: Invitation, process: Any) -> None:
        """The child of `invitation` runs as `process`, a `subprocess.Popen`."""
        _, child = ChildServer.running().invited[invitation.token]
        child.process = process

    def strangers(self) -> list[str]:
        """The programs of children that were started by `subprocess` and have not joined, at the end of the test."""
        deadline = clocks.monotonic() + GRACE
        programs = []
        for child in self._invited:
            process = child.process
            while process is not None and not child.joined and process.poll() is None and clocks.monotonic() < deadline:
                clocks.sleep(0.005)
            # One that was killed as soon as it was started has not come to anything.
            if process is not None and not child.joined and (process.returncode or 0) >= 0:
                programs.append(child.program)
        return programs

    def wait_for(self, due: Callable[[], Iterable[str]]) -> None:
        """Wait until nothing is `due` in the lanes of children that are there: the test may be faster than they are."""
        deadline = clocks.monotonic() + PATIENCE
        while self._invited and self.interception.ending.refused is None and clocks.monotonic() < deadline:
            there = tuple(f"{child.lane}." for child in self._invited if child.there())
            if not there or not any(f"{lane}.".startswith(there) for lane in due()):
                return
            clocks.sleep(0.005)

    def greet(self, child: PythonChild, environ: Mapping[str, str]) -> dict[str, Any]:
        """Let `child` in: what it has to know."""
        self._learn(environ)
        child.joined = True
        return {
            **self._greeting(),
            **self.job(child),
            "run": self.run,
            "mode": self.mode,
            "began": clocks.monotonic_ns() - self.interception.clock.now(),
        }

    def job(self, child: PythonChild) -> dict[str, Any]:
        """What a process has to know of the lane of `child`, which it works for."""
        return {"lane": child.lane, "inside": child.inside, "at": child.at, "exchanges": self.order_of(child.lane)}

    def order_of(self, lane: str) -> tuple[Exchange, ...]:
        """The recorded exchanges of `lane` and below, as far as their order is concerned: no bodies, no values."""
        below = f"{lane}."
        expected = (x for x in self._recorded if x.start not in self._unexpected)
        return tuple(skeleton(x) for x in expected if x.lane == lane or x.lane.startswith(below))

    def is_over(self, child: PythonChild) -> bool:
        """Whether `child` comes too late."""
        return self.interception.ending.over.is_set() or (self.interception.ending.body_over and child.of_body)

    def ask(self, call: Call, moment: Moment, line: str, of: PythonChild) -> tuple[Any, ...]:
        """Decide on a call of a child, given as the child made it."""
        interception = self.interception
        if self.is_over(of):
            what = interception.redactor.hide(describe(call))
            interception.ending.late.append(f"{what}   called from {line} in a child process")
            return "late", f"refused: {what} was called after its test had ended"
        interception.pending.activity += 1
        try:
            verdict = self._decide(call, moment)
        except CannotFreeze as error:
            return "invalid", str(error), error.path, error.kind
        except AgentReplayError as error:
            kept = interception.latch(Divergence(Kind.UNREADABLE, str(error)), line)
            return "refuse", strip_recorded(kept)
        match verdict:
            case PassThrough(ticket, recorder):
                if (request := self._served_request(moment.lane, of)) is not None:
                    self.served[ticket] = request
                self.calls[ticket] = call
                self._recorders[ticket] = recorder
                return "forward", ticket
            case Replayed(exchange, ticket):
                self._step(exchange.timing.end or exchange.timing.start)
                outcome = exchange.outcome
                if outcome is not None and not exchange.abandoned:
                    outcome = interception.redactor.reveal(outcome)
                return "answer", replace(exchange, call=told_call(exchange), outcome=outcome), ticket, verdict
            case Refused(divergence):
                return "refuse", strip_recorded(interception.latch(divergence, line))

    def _decide(self, call: Call, moment: Moment) -> Verdict:
        interception, redactor = self.interception, self.interception.redactor
        call = interception.redact(RawCall(call))
        reads = moment.reads or (
            isinstance(call, ToolCall) and call.boundary == "tool" and interception.tools.reads(call.name)
        )
        agent = redactor.redact_text(moment.agent) if moment.agent else ""
        return interception.backend.decide(call, replace(moment, reads=reads, agent=agent))

    def _served_request(self, lane: str, of: PythonChild) -> int | None:
        """The recorded request that a call of a child is made to serve, as in `served`; None for a call of its own.

        A thread or a task that first called while a request was under way serves it and those that follow over the
        same connection, and so does what it starts. One that called before goes on by itself.
        """
        now = self._request_to(of.ports)
        if lane == of.lane:
            return now
        if lane not in self._first:
            inherited = (self._first.get(up) for up in lanes_above(lane))
            self._first[lane] = next((request for request in inherited if request is not None), now)
        first = self._first[lane]
        return first if first is None or now is None else now

    def _request_to(self, ports: set[int]) -> int | None:
        """The recorded request that is under way to one of `ports`, where a child listens and this process does not."""
        running = interceptions._running
        under_way = [*self.calls.items()]
        for interception in {self.interception, running or self.interception} if ports else ():
            mine = interception is self.interception
            calls = [intercepted for intercepted in [*interception.pending.open] if intercepted.forward]
            under_way += [(intercepted.ticket if mine else 0, intercepted.call) for intercepted in calls]
        for request, call in under_way:
            port = int((authority(call) or ":0").rpartition(":")[2])
            if port in ports and not in_process.listens(port):
                return request
        return None

    def settle(self, ticket: int, outcome: Any, times: Mapping[str, Any]) -> None:
        """Keep the outcome of a call of a child; `times` are the rest of what `Gate.settle` takes."""
        interception, call = self.interception, self.calls.pop(ticket, None)
        if call is None or interception.ending.over.is_set():
            return
        self._recorders.pop(ticket).settle(ticket, interception.redactor.redact_outcome(call, outcome), **times)
        self._step(times["at"])

    def latch(self, divergence: Divergence, line: str) -> Divergence:
        """Fail the test with what a child reports."""
        redactor = self.interception.redactor
        now = None if divergence.now is None else redactor.redact_content(divergence.now)
        return strip_recorded(
            self.interception.latch(replace(divergence, now=now, summary=redactor.hide(divergence.summary)), line)
        )

    def stalled(self, call: Call, mine: int, expected: int | None) -> Divergence:
        """Return why a child's call, recorded as the exchange `mine`, is not answered."""
        replayer: Any = self.interception.backend
        recorded = {x.start: x for x in self._recorded}
        missing = None if expected is None else recorded[expected]
        now = self.interception.redactor.redact_content(call)
        return strip_recorded(replayer.explain_stall(now, recorded[mine], missing))

    def note(self, news: Mapping[str, Any]) -> None:
        """Take what a child knows and a later call of it does not say."""
        self.interception.tools.seen.update(news.get("met", ()))
        self.interception.tools.functions.update(news.get("functions", ()))
        for lane, reading in news.get("begun", ()):
            self.interception.lanes.begun.setdefault(lane, reading)
        for place, why in news.get("uncompared", ()):
            self.interception.tools.uncompared.setdefault(place, why)
        for text, path, kind in news.get("problems", ()):
            self.interception.observed.note_problem(CannotFreeze(text, path=path, kind=kind))

    def connection(self, opening: int) -> tuple[Exchange, ...]:
        """Return what is recorded of a lasting connection, as it is served."""
        reveal = self.interception.redactor.reveal
        recorded = self.interception.connection(opening)
        return tuple(x if x.outcome is None else replace(x, outcome=reveal(x.outcome)) for x in recorded)

    def _step(self, at: int) -> None:
        """The wall clock of the test goes on with its children; its seeds do not, since others may draw meanwhile."""
        steps: Any = self.interception.clock.steps
        if steps is not None:
            steps.clock.step_to(at)


def strip_recorded(divergence: Divergence) -> Divergence:
    """Return `divergence` as a child needs it: what was recorded stays in the test's process."""
    return Divergence(divergence.kind, divergence.summary, lane=divergence.lane)


def skeleton(x: Exchange) -> Exchange:
    """`x` as far as its place in the order is concerned."""
    outcome: Any = x.outcome
    if isinstance(outcome, HttpReply):
        outcome = HttpReply(outcome.status, cuts=outcome.cuts, failure=outcome.failure, closed=outcome.closed)
    elif isinstance(outcome, ToolReply) and outcome.items is not None:
        items = (None,) * len(outcome.items)
        outcome = ToolReply(items=items, failure=outcome.failure, closed=outcome.closed)
    elif isinstance(outcome, ToolReply):
        outcome = ToolReply(failure=outcome.failure, closed=outcome.closed)
    return replace(x, call=told_call(x), outcome=outcome)


def told_call(x: Exchange) -> Call:
    """The recorded call, where it is a message: its patch reads that. Else a call that says nothing."""
    return x.call if isinstance(x.call, FrameCall) else ToolCall("")


OF_THE_RUN = frozenset({"connection", "latch", "note", "stalled"})
"""Requests of a child that `Children` answers, whichever child asks."""


@dataclass(slots=True)
class ServedCall:
    """One connection: the child behind it, and its calls that are under way."""

    of: Children
    child: PythonChild
    replayed: dict[int, Replayed] = field(default_factory=dict)

    def answer(self, name: str, values: tuple[Any, ...]) -> Any:
        """Answer one request of the child."""
        return (getattr(self.of, name) if name in OF_THE_RUN else getattr(self, f"_{name}"))(*values)

    def _ask(self, call: Call, moment: Moment, line: str, news: Mapping[str, Any]) -> tuple[Any, ...]:
        self.of.note(news)
        self.child.ports.update(news.get("ports", ()))
        answer = self.of.ask(call, moment, line, self.child)
        match answer:
            case ("answer", exchange, ticket, verdict):
                if verdict.handed is not None:
                    self.replayed[ticket] = verdict
                return "answer", exchange, ticket, verdict.handed is not None
        return answer

    def _settle(self, ticket: int, outcome: Any, times: Mapping[str, Any], news: Mapping[str, Any]) -> None:
        self.of.note(news)
        self.of.settle(ticket, outcome, times)

    def _part(self, ticket: int, chunks: int, at_once: bool) -> None:
        if isinstance(backend := self.of.interception.backend, RecordingBackend):
            backend.part(ticket, chunks, at_once=at_once)

    def _handed(self, ticket: int) -> None:
        if (verdict := self.replayed.pop(ticket, None)) is not None and verdict.handed is not None:
            verdict.handed()

    def _hold(self, ticket: int) -> bool:
        return ticket in self.replayed and self.replayed[ticket].hold()

    def _heard(self, entries: Iterable[tuple[tuple[str, str, str], int]]) -> None:
        if self.of.guard is not None:
            for what, count in entries:
                self.of.guard.count(what, count)

    def _count(self) -> int:
        return self.of.interception.clock.count()

    def _over(self) -> bool:
        return self.of.is_over(self.child)

    def _learn(self, category: str, value: str) -> bool:
        return self.of.interception.redactor.learn(category, value)

    def _hide(self, text: str) -> str:
        return self.of.interception.redactor.hide(text)

    def _invite(self, kind: str, program: str, here: Here) -> Invitation:
        above, inside, _, at = here
        return self.of.invite(kind, program, (above, inside, self.child.of_body, at))

    def _job(self, token: str) -> dict[str, Any]:
        """The child works for the job of another invitation from now on."""
        self.of, self.child = ChildServer.running().invited[token]
        return self.of.job(self.child)


class ChildServer:
    """Listens for the children of this process's tests, in threads that no test knows of."""

    _running: ChildServer | None = None

    def __init__(self) -> None:
        """Bind and listen; nobody is answered yet."""
        self.key = secrets.token_hex(16)
        self.invited: dict[str, tuple[Children, PythonChild]] = {}
        self._process = os.getpid()
        if sys.platform == "linux":
            # An abstract name: no file to tidy up, and the sandbox lets Unix sockets through.
            self.address = f"@agentreplay-{secrets.token_hex(8)}"
            self._socket = socket.socket(socket.AF_UNIX)
            self._socket.bind(self.address.replace("@", "\0", 1))
        else:
            self._socket = socket.socket()
            self._socket.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{self._socket.getsockname()[1]}"
        self._socket.listen(128)

    @classmethod
    def running(cls) -> ChildServer:
        """The listener of this process; it starts when it is first asked for."""
        server = cls._running
        if server is None or server._process != os.getpid():
            import atexit

            server = cls._running = cls()
            atexit.register(server.stop)
            # Not threading.Thread: it must not be taken for a thread of the test.
            _thread.start_new_thread(server._accept, ())
        return server

    def stop(self) -> None:
        """Listen no more; children that are still there find nobody."""
        if self._process == os.getpid():
            self._socket.close()

    @classmethod
    def close_copy(cls) -> None:
        """In a process that was forked: the listener is its parent's."""
        server, cls._running = cls._running, None
        if server is not None:
            server._socket.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:  # closed
                return
            connection.settimeout(None)
            _thread.start_new_thread(self._serve, (connection.detach(),))

    def _serve(self, handle: int) -> None:
        from multiprocessing import AuthenticationError
        from multiprocessing.connection import Connection, answer_challenge, deliver_challenge

        key = self.key.encode()
        with Connection(handle) as connection:
            try:
                deliver_challenge(connection, key)
                answer_challenge(connection, key)
                self._answer(connection)
            except (EOFError, OSError, AuthenticationError):
                pass  # the child has ended, or was killed

    def _answer(self, connection: Connection) -> None:
        serving: ServedCall | None = None
        while True:
            try:
                name, values = connection.recv()
            except (EOFError, OSError):
                if serving is not None:
                    serving.child.left = True
                raise
            if name == "join":
                token, environ = values
                children, child = self.invited[token]
                serving = ServedCall(children, child)
                answer: Any = children.greet(child, environ)
            else:
                assert serving is not None
                answer = self._answer_request(serving, name, values)
            connection.send(answer)

    def _answer_request(self, serving: ServedCall, name: str, values: tuple[Any, ...]) -> Any:
        """Return the answer to one request. What should not happen fails the test, and refuses the child."""
        try:
            return serving.answer(name, values)
        except ReplayDiverged as refused:
            return "late", str(refused)
        except Exception as error:
            why = f"a child process could not be answered: {type(error).__name__}: {error}"
            divergence = Divergence(Kind.UNREADABLE, serving.of.interception.redactor.hide(why))
            interception = serving.of.interception
            interception.observed.note_problem(CannotFreeze(divergence.summary, path="$", kind="child process"))
            kept = interception.latch(divergence, "")
            return ("refuse", strip_recorded(kept)) if name == "ask" else None
