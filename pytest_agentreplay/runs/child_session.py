"""A child process of a test: the same patches, tools, clock, seeds and guard as in the test, behind a remote backend.

Entered by name from the child's side: by its `sitecustomize`, by the data of `multiprocessing`, after a fork, or by a
job of a pool. Knows no pytest, and loads as little as the patches need.
"""

from __future__ import annotations

import os
import sys
import threading
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from pytest_agentreplay import clocks
from pytest_agentreplay.intercept import registry
from pytest_agentreplay.intercept.environment.clock import Clock, ClockAndSeeds
from pytest_agentreplay.intercept.environment.machine import Locale, Zone
from pytest_agentreplay.intercept.environment.randomness import RandomSource
from pytest_agentreplay.intercept.network import guard
from pytest_agentreplay.intercept.ordering.holding import Holding
from pytest_agentreplay.intercept.ordering.pausing import Pausing
from pytest_agentreplay.intercept.process import child_backend, child_start
from pytest_agentreplay.intercept.session import interceptions, lanes
from pytest_agentreplay.intercept.session.hosts import DeclaredHosts
from pytest_agentreplay.intercept.session.pending_call import AnswerOrder
from pytest_agentreplay.intercept.tools import tool
from pytest_agentreplay.model.release_order import ReleaseSchedule
from pytest_agentreplay.runs.session_tools import freeze_tools

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pytest_agentreplay.model.divergence import Divergence
    from pytest_agentreplay.model.exchanges import Call, Exchange

    Greeting = Mapping[str, Any]


# Seconds that the main thread of a child holds a call which never ended when recorded, before it reports that.
PATIENCE = 5.0


class ChildSession:
    """What this process, a child, has joined. It is made once; jobs of pools may lead it from run to run."""

    def __init__(self, interception: interceptions.Interception | None, greeting: Greeting) -> None:
        """`interception` is the copy that a fork has left in this process, None in a process of its own."""
        self.forked = interception is not None
        steps: Any = ClockAndSeeds(Clock(greeting["clock"], greeting["wall"]), RandomSource(greeting["seed"]))
        nobody: Any = None  # `attach` sets backend and redactor: jobs of a pool may be of several runs
        if interception is None:
            interception = interceptions.Interception(nobody, nobody, steps=steps, root=greeting["root"])
        self.interception = interception
        steps = interception.clock.steps
        self.steps: ClockAndSeeds = steps
        self.watch: child_backend.ChildGuard | None = None
        self.link: child_start.ParentLink | None = None
        self.run = ""
        self._surroundings = ExitStack()

    def attach(self, link: child_start.ParentLink, greeting: Greeting) -> None:
        """Belong to the run that `link` leads to."""
        interception = self.interception
        # The copy of a fork is that of the run which has invited it: a fixture's, maybe, while jobs are of tests.
        inherited = self.forked and self.run in {"", greeting["run"]}
        if self.link is not None:
            self.link.abandon()
        self.link, self.run, self.greeting = link, greeting["run"], greeting
        backend = child_backend.RemoteBackend(link, greeting["root"])
        backend.interception = interception
        interception.backend, interception.redactor = backend, child_backend.RemoteRedactor(link)
        # The parent numbers starts and finishes: one order over all processes of the test.
        interception.clock.count = lambda: link.ask("count")
        interception.ending.over, interception.pending.main_patience = child_backend.ParentEnd(link), PATIENCE
        # In place: the tools that are frozen already hold this list.
        interception.tools.codecs[:] = greeting["codecs"]
        interception.tools.read_tools, interception.tools.live = greeting["read_tools"], greeting["live"]
        interception.scope.changes = greeting["changes"]
        interception.scope.hosts = DeclaredHosts(greeting["allow_hosts"])
        interception.clock.now = lambda: clocks.monotonic_ns() - greeting["began"]
        interception.forget()
        self._start(greeting, inherited=inherited)
        self.enter_lane(greeting)

    def enter_lane(self, greeting: Greeting) -> lanes.CallContext:
        """Work in the lane of `greeting` from now on, with its order and seeds. Return the context of its calls."""
        interception = self.interception
        call_context = lanes.CallContext(
            interception, greeting["lane"], lanes.find_runner(), threading.get_ident(), inside=greeting["inside"]
        )
        interception.begin_at(call_context)
        interception.order = make_order(interception, self.greeting, greeting["exchanges"])
        self.steps.step(greeting["at"], greeting["lane"], 0)
        return call_context

    def _start(self, greeting: Greeting, *, inherited: bool) -> None:
        """Intercept for the run of `greeting`; `inherited` says that a fork has left all but the guard in place."""
        interception, steps = self.interception, self.steps
        if not inherited:
            steps.stop()
        steps.clock.join(greeting["clock"], greeting["wall"])
        steps.chance.use_seeds(greeting["seed"], greeting["ids"])
        if not inherited:
            registry.install()
            registry.add_patches(greeting["patches"])
            self._surroundings.close()
            for surrounding in (Zone(greeting["zone"], greeting["wall"]), Locale(greeting["locale"])):
                surrounding.start()
                self._surroundings.callback(surrounding.stop)
            with hide_pytest():
                steps.start()
            freeze_tools(greeting["tools"], interception.tools.codecs, greeting["main"])
        if self.watch is not None:
            self.watch.stop()
        self.watch = child_backend.ChildGuard(
            "deny" if greeting["mode"] == "replay" else "listen",
            allow_hosts=greeting["allow_hosts"],
            allow_subprocess=greeting["allow_subprocess"],
            root=greeting["root"],
        )
        self.watch.link = self.link
        self.watch.joins = child_start.joins
        # A program that has the address of the test's gateway may start: what it calls there is seen.
        self.watch.served = lambda environ, _: (
            "" if any(child_backend.GATEWAY.match(value) for value in environ.values()) else None
        )
        self.watch.start(interception)
        child_start.install()
        child_start.exchange(self, child_start.ChildHandover(join_run, run_job, greeting["site"]))
        interceptions.open_for(interception)

    @contextmanager
    def step_aside(self) -> Iterator[None]:
        """Return a block that belongs to no run."""
        assert self.watch is not None
        token = lanes.CALL_CONTEXT.set(None)
        interceptions.open_for(None)
        self.watch.stop()
        self.steps.stop()
        try:
            yield
        finally:
            self.steps.start()
            self.watch.start(self.interception)
            interceptions.open_for(self.interception)
            lanes.CALL_CONTEXT.reset(token)

    def here(self) -> child_start.Here:
        """Return where a child would be started by the code that runs here."""
        call_context = self.interception.call_context()
        return call_context.path, call_context.inside, True, self.steps.at

    def invite(
        self, kind: str = "p", program: str = "", here: child_start.Here | None = None
    ) -> child_start.Invitation:
        """Return an invitation for a child of this child: it joins the run at the test's own process."""
        assert self.link is not None
        invitation: child_start.Invitation = self.link.ask("invite", kind, program, here or self.here())
        return invitation

    def note_started(self, invitation: child_start.Invitation, process: Any) -> None:
        """Do nothing: the guard of this process has seen whether it can join."""


@contextmanager
def hide_pytest() -> Iterator[None]:
    """Return a block in which pytest cannot be imported, unless this process is about to run it.

    time-machine 3 brings a plugin along where it finds pytest, which takes every child 0.2 seconds to import.
    """
    if "pytest" in sys.modules or any("pytest" in word for word in sys.orig_argv):
        yield
        return
    sys.modules["pytest"] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules["pytest"]


_session: ChildSession | None = None
_process = 0


def join_encoded(value: str) -> None:
    """Join the run that the environment of this process invites to."""
    join_run(child_start.Invitation.decode(value))


def join_run(invitation: child_start.Invitation, main: str = "") -> None:
    """Join the run that `invitation` leads to; `main` is the file of the main module, where no command line says it."""
    global _session, _process  # noqa: PLW0603  a process is in one run at a time
    if _process != os.getpid():
        reset_locks()
    running = interceptions._running  # what a fork has copied: None in a process of its own
    lanes.CALL_CONTEXT.set(None)
    interceptions.open_for(None)
    with guard.deaf():  # a socket of ours is none of the test's
        link = child_start.ParentLink(invitation)
    greeting = {**link.ask("join", invitation.token, dict(os.environ)), "main": main}
    if "join" in greeting:  # no test has started this process, but a program that is captured
        greeting["join"](link, greeting)
        return
    if _session is None:
        _session = ChildSession(running, greeting)
    _session.attach(link, greeting)
    _process = os.getpid()
    lanes.CALL_CONTEXT.set(_session.interception.main())


def reset_locks() -> None:
    """After a fork, replace the locks that a thread of the parent may have held, and leave its server to it."""
    lanes._NAMING = threading.Lock()
    tool._LOCK = threading.RLock()
    if guard._active is not None:
        guard._active._lock = threading.RLock()
    if (server := sys.modules.get("pytest_agentreplay.intercept.process.child_server")) is not None:
        server.ChildServer.close_copy()  # the port is the parent's, and stays open there


@contextmanager
def run_job(invitation: child_start.Invitation | None) -> Iterator[None]:
    """Return a block that works for the job of a pool, in the job's lane; without `invitation` for a job of no run."""
    if invitation is None:
        if _session is None or interceptions._running is None:
            yield
        else:
            with _session.step_aside():
                yield
        return
    if _session is None or _session.run != invitation.run or _process != os.getpid():
        join_run(invitation)
        yield
        return
    link = _session.link
    assert link is not None
    before, order = _session.interception.main(), _session.interception.order
    token = lanes.CALL_CONTEXT.set(_session.enter_lane(link.ask("job", invitation.token)))
    try:
        yield
    finally:
        lanes.CALL_CONTEXT.reset(token)
        link.ask("job", link.invitation.token)
        _session.interception.begin_at(before)
        _session.interception.order = order


def make_order(
    interception: interceptions.Interception, greeting: Greeting, recorded: tuple[Exchange, ...]
) -> AnswerOrder:
    """Return the order of answers in this process, as recorded where that matters."""
    if greeting["mode"] == "record":
        order: AnswerOrder = child_backend.held_by(Holding)(interception.backend, interception)
        return order
    policy, schedule = greeting["order"], ReleaseSchedule(recorded)
    if not greeting["waits"] and (policy == "free" or (policy == "auto" and not schedule.matters)):
        return AnswerOrder() if policy == "free" else Pausing(interception.work, None)
    from pytest_agentreplay.intercept.ordering.release import ReleaseQueue

    backend = interception.backend
    assert isinstance(backend, child_backend.RemoteBackend)

    def explain(call: Call, mine: Exchange, expected: Exchange | None) -> Divergence:
        start = None if expected is None else expected.start
        divergence: Divergence = backend.link.ask("stalled", call, mine.start, start)
        return divergence

    loose = policy in {"loose", "free"}
    queue: AnswerOrder = child_backend.held_by(ReleaseQueue)(
        schedule, interception, explain, loose=loose, waits=greeting["waits"]
    )
    return queue
