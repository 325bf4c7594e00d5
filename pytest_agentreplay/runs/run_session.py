"""One test while it is recorded or replayed: patches, backend, clock, seeds and guard, set up and torn down together.

`recording_session` and `replay_session` are the two kinds; this is what they share. Knows no pytest.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

from pytest_agentreplay.core.divergence import Divergence, Kind
from pytest_agentreplay.core.model import ToolCall
from pytest_agentreplay.core.paths import quoted
from pytest_agentreplay.core.redaction.secret_names import CATEGORY, secret_environment
from pytest_agentreplay.core.release_order import requests_served
from pytest_agentreplay.core.turns import has_effects
from pytest_agentreplay.dialects import READER
from pytest_agentreplay.dialects.rules import is_declared
from pytest_agentreplay.errors import SettingsError
from pytest_agentreplay.intercept import registry
from pytest_agentreplay.intercept.environment import debuggers
from pytest_agentreplay.intercept.environment.clock import Clock, ClockAndSeeds
from pytest_agentreplay.intercept.environment.machine import Locale, MissingKeys, Zone, offline, todays_places
from pytest_agentreplay.intercept.environment.randomness import RandomSource
from pytest_agentreplay.intercept.network import sandbox
from pytest_agentreplay.intercept.network.child_events import short_name
from pytest_agentreplay.intercept.network.guard import Guard
from pytest_agentreplay.intercept.ordering.overtime import Overtime
from pytest_agentreplay.intercept.process import child_start
from pytest_agentreplay.intercept.process.child_server import Children, is_of_process
from pytest_agentreplay.intercept.session import callers, exits, interceptions, lanes
from pytest_agentreplay.intercept.session.hosts import DeclaredHosts
from pytest_agentreplay.intercept.tools.call_again import Redirections
from pytest_agentreplay.intercept.tools.deferred_unpatching import refusing, release
from pytest_agentreplay.redact.redaction_factory import other_policy, redacted_by, redaction_for
from pytest_agentreplay.report.summary import SessionSummary
from pytest_agentreplay.runs import child_invitation
from pytest_agentreplay.runs.session_tools import ToolNames, resolve_tools
from pytest_agentreplay.store import dependency_hashes as declared
from pytest_agentreplay.store.display_path import format_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from contextvars import Token
    from os import PathLike

    from pytest_agentreplay.cases.view import RunView
    from pytest_agentreplay.core.backends.backend import Backend
    from pytest_agentreplay.core.matching import Near
    from pytest_agentreplay.core.model import Call, Exchange, Json, JsonObject, Run
    from pytest_agentreplay.core.redaction.policy import Redactor
    from pytest_agentreplay.intercept.gateway.gateway import Gateway
    from pytest_agentreplay.intercept.ordering.stall_watch import StallWatch
    from pytest_agentreplay.intercept.ordering.virtual_time import Timed, VirtualClock
    from pytest_agentreplay.intercept.tools.tool import Redirection, Tool
    from pytest_agentreplay.report.finding import Finding
    from pytest_agentreplay.settings import Settings

NO_LOOPBACK = (
    "the gateway listens on loopback, which agentreplay_sandbox has closed for good: say that the test needs it, "
    'by @pytest.mark.agentreplay(allow_hosts=["127.0.0.1"]), or leave the sandbox off'
)

F = TypeVar("F", bound="Callable[..., Any]")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Location:
    """Which test this is and where it stands: node id, snapshot file, root of the project, marks, environment.

    `marks` are today's directories and names by mark ("tmp", "home", ...), `environ` the process environment,
    `redactors` the functions of the project that find what nobody else may read, by category.
    """

    test: str
    snapshot: Path
    root: Path
    marks: Mapping[str, str] = field(repr=False)
    environ: Mapping[str, str] = field(repr=False)
    redactors: Mapping[str, Redactor | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EndedRun:
    """How a test body ended: what it raised, or None; whether it was cut short, or skipped itself."""

    failure: BaseException | None = None
    interrupted: bool = False
    skipped: bool = False

    def outcome(self) -> JsonObject:
        """The end as the header keeps it: status, and type and first line of a failure."""
        if self.failure is None:
            return {"status": "skipped" if self.skipped else "passed"}
        kind = type(self.failure)
        return {
            "status": "failed",
            "type": f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins."),
            "message": str(self.failure).strip().partition("\n")[0],
        }


class RunSession:
    """Opened before the test body, closed after teardown. `summary` is what it reports at its end."""

    mode: ClassVar[str]

    def __init__(
        self,
        place: Location,
        settings: Settings,
        backend: Backend,
        *,
        clock: int,
        seed: int,
        kit: JsonObject | None = None,
        count: Callable[[], int] = int,
    ) -> None:
        """Prepare without touching the world.

        `clock` is the wall time at which the run starts, in nanoseconds, `kit` what was around its recording (None: it
        is recorded now); `count` as in `Interception`.
        """
        self.place = place
        self.settings = settings
        self.annotations: JsonObject = {}
        self.summary = SessionSummary(mode=self.mode, test=place.test, file=str(place.snapshot))
        self.redaction = redaction_for(
            place.environ,
            place.marks,
            headers=settings.headers,
            is_declared=is_declared,
            policy=settings.redacted,
            redactors=place.redactors,
        )
        self.clock = Clock(settings.clock, clock)
        kit = kit or {}
        self._other_policy = bool(kit) and other_policy(kit, settings.redacted)
        self.redaction.recall(kit)
        # A tool that runs for real would send the placeholder to its service, and fail by it instead of by its absence.
        frozen = settings.model == settings.replay_tools == "frozen"
        self.keys = MissingKeys(kit.get("keys") if frozen else None)
        for placeholder, variables in self.keys.groups.items():
            self.redaction.learn(CATEGORY, placeholder)
            if len(variables) == 1:
                self.redaction.name({placeholder: variables[0]})
        self.zone = Zone(kit.get("zone") if settings.clock != "real" else None, clock)
        self.locale = Locale(kit.get("locale"))
        self.fixtures = declared.digests(place.root, settings.fixtures)
        self.chance = RandomSource(seed)
        self.interception = interceptions.Interception(
            backend, self.redaction, steps=ClockAndSeeds(self.clock, self.chance), root=str(place.root), count=count
        )
        self.interception.tools.read_tools = settings.read_tools
        self.interception.scope.hosts = DeclaredHosts(settings.allow_hosts)
        self.overtime = Overtime(self.interception)
        self.stalls: StallWatch | None = None
        self._hands: VirtualClock | None = None
        self._gateway: Gateway | None = None
        self._kit = kit
        self.tools: list[tuple[str, Tool]] = []
        self.children = Children(
            self.interception,
            mode=self.mode,
            greeting=lambda: {
                **child_invitation.describe_run(settings, self.interception, kit, self.tools),
                "wall": clock,
                "seed": seed,
                "ids": self.chance.ids,
            },
            recorded=self.recorded_exchanges(),
            unexpected=requests_served(kit or {}),
            learn=self._learn,
        )
        self._redirections = Redirections(self.interception.tools.codecs)
        self._names = ToolNames({call.name for call in self.recorded_calls() if isinstance(call, ToolCall)})
        self._late_reported = 0
        self._stack = ExitStack()
        self._intercepting = ExitStack()
        self._token: Token[lanes.CallContext | None] | None = None

    def guard(self) -> Guard:
        """Return the network guard: a recording lists what no boundary took, all else denies sockets and children."""
        kind: Literal["listen", "deny"] = "listen" if self.mode == "record" else "deny"
        hosts, programs = self.settings.allow_hosts, self.settings.allow_subprocess
        return Guard(kind, allow_hosts=hosts, allow_subprocess=programs, root=str(self.place.root))

    def run(self) -> Run:
        """The run as far as it has come."""
        raise NotImplementedError

    def end_body(self, ended: EndedRun) -> Finding | None:
        """The test body is over: the finding that the test must fail with, or None."""
        raise NotImplementedError

    def end(self) -> Finding | None:
        """Teardown is over too: what it did wrong, or None. Calls are refused."""
        raise NotImplementedError

    def summarize(self) -> SessionSummary:
        """Return what there is to report by now."""
        return self.summary

    def failed_as_expected(self) -> Finding | None:
        """Return the finding of calls that a body no longer made before it failed as its `xfail` expects."""
        return None

    def withdraw(self) -> None:
        """Undo what `end` has written; nothing, where nothing is."""

    def open(self) -> None:
        """Redirect the tools, and intercept from now on. Raises CannotRedirect, and then nothing has changed."""
        with ExitStack() as stack:
            registry.install()
            exits.install(interceptions.current, refusing)
            debuggers.install()
            stack.callback(release, self.interception, self._redirections)
            stack.callback(self._redirections.stop)
            self._redirections.start()
            self.watch = self.children.guard = self.guard()
            with self.watch.refusing_imports():  # a tool's module may be the first to import a library
                self.tools += resolve_tools(self.settings)
            self._let_live(tool for _, tool in self.tools if tool.effects == "live")
            self.tools = [(path, tool) for path, tool in self.tools if tool.effects != "live"]
            for path, tool in self.tools:
                redirection = self._redirect(tool, path)
                if tool.name in {path, short := path.rpartition(".")[2]}:
                    self._names.add(redirection, short, path)
            self.watch.joins, self.watch.executed = child_start.joins, self._redirections.executed
            stack.callback(self.keys.stop)
            stack.callback(self.pause)
            self.resume()
            self._stack = stack.pop_all()

    def pause(self) -> None:
        """Stop intercepting for a while: clock, seeds, zone, locale and guard are as before. Twice is once.

        What the test itself has started, a thread for example, stays intercepted. Placeholders of keys stay set: a
        wider fixture may make the client that the test calls.
        """
        self._intercepting.close()

    def resume(self) -> None:
        """Intercept again, with the clock and the random numbers where `pause` left them."""
        with ExitStack() as stack:
            self.keys.start()
            stack.enter_context(offline())
            steps = self.interception.clock.steps
            assert isinstance(steps, ClockAndSeeds)
            steps.start()
            stack.callback(steps.stop)
            if self._hands is not None:
                self._hands.start()
                stack.callback(self._hands.stop)
            self.zone.start()
            stack.callback(self.zone.stop)
            self.locale.start()
            stack.callback(self.locale.stop)
            self.watch.start(self.interception)
            stack.callback(self.watch.stop)
            interceptions.open_for(self.interception)
            stack.callback(interceptions.open_for, None)
            stack.enter_context(child_start.joining(self.children, child_invitation.HANDOVER))
            if self.settings.children:
                from pytest_agentreplay.intercept.gateway.children import declared

                stack.enter_context(declared(self.settings.children, lambda: self.gateway))
            self._intercepting = stack.pop_all()

    def keep_time(self, order: Timed, now: Callable[[], int], passes: Callable[[], int], *, clocks: bool) -> None:
        """Show the test virtual time: `now` for what is written down, `passes` for who waits on the wall clock."""
        from pytest_agentreplay.intercept.ordering.virtual_time import VirtualClock

        self.interception.clock.now, self.clock.passes = now, passes
        self._hands = VirtualClock(self.interception, order, clocks=clocks)

    def close(self) -> None:
        """Leave everything as it was before `open`. A second call does nothing."""
        self.interception.end()
        self._stack.close()
        if self._gateway is not None and self._gateway.strays:
            self.summary = replace(self.summary, strays=(*self._gateway.strays,))
        if self.watch.imports:
            self.summary = replace(self.summary, imports={**self.watch.imports})

    def discard(self) -> None:
        """Close it as if it had not been opened: the test was skipped."""
        self.close()

    def place_tmp(self, folder: Path) -> None:
        """The test has a temporary directory from now on: it is stored as a mark."""
        if self.settings.places:
            root = Path(self.place.marks.get("root", self.place.root))
            self.redaction.take_places(todays_places(root, tmp=folder))

    def enter_body(self) -> None:
        """Stamp the test's own thread, so that what it starts carries the stamp on."""
        self._token = lanes.CALL_CONTEXT.set(self.interception.main())
        callers.enter_body()
        if self.mode == "replay":
            self.overtime.start()
            if self.stalls is not None:
                self.stalls.start()

    def leave_body(self) -> None:
        """Take the stamp off, refuse the body's stragglers, and wait a moment for them."""
        self.overtime.stop()
        callers.leave_body()
        if self.stalls is not None:
            self.stalls.stop()
        if self._token is not None:
            lanes.CALL_CONTEXT.reset(self._token)
            self._token = None
        self.interception.end_body()

    def describe_divergence(self, divergence: Divergence, facts: JsonObject) -> Finding:
        """Return the finding of a divergence; of refused calls with all who made them."""
        from pytest_agentreplay.report import findings, other_findings
        from pytest_agentreplay.report.finding import with_steps

        if divergence.kind is Kind.NETWORK and self.watch.ledger:
            function, _ = self.watch.functions.get(self.watch.ledger[0].origin, (None, None))
            around = self._kit.get("around")
            calls = around.get(function or "") if isinstance(around, dict) else None
            finding = other_findings.describe_network(
                self.place.test, self.watch.ledger, function=function, calls=calls is True
            )
        else:
            if self._other_policy:
                again = f"agentreplay redact {quoted(format_path(self.place.snapshot))}"
                how = again if redacted_by(self.settings.redacted) else "give the --redact of its recording again"
                divergence = replace(divergence, hints=(*divergence.hints, f"recorded under another policy: {how}"))
            finding = findings.describe_divergence(divergence, self.place.test, facts)
        if self.overtime.waiting:
            refused = not self.overtime.at_once and (divergence.now is not None or divergence.kind is Kind.NETWORK)
            finding = findings.add_waiting(finding, self.overtime.waiting, refused=refused)
        finding = with_steps(finding, self.settings.written)
        self.summary = replace(self.summary, code=finding.code)
        return finding

    def stopped_early(self) -> Finding | None:
        """Return what a test that failed by an error of its own left of its recording: a replay alone has one."""
        return None

    def stragglers(self) -> Finding | None:
        """The finding of calls that came after the end, as far as none has told them yet."""
        calls = self.interception.ending.late[self._late_reported :]
        self._late_reported += len(calls)
        if not calls:
            return None
        from pytest_agentreplay.report import other_findings

        finding = other_findings.describe_late_calls(self.place.test, calls)
        self.summary = replace(self.summary, code=finding.code)
        return finding

    def late_calls_reported(self) -> int:
        """Return how many late calls the test's report covers: all of them where it has a cause of its own."""
        if self._late_reported or not (self.summary.code or self.summary.failed):
            return self._late_reported
        return len(self.interception.ending.late)

    @property
    def gateway(self) -> Gateway:
        """The gateway for children of this test; made when it is first asked for."""
        if self._gateway is None:
            if sandbox.closed():
                raise SettingsError(NO_LOOPBACK)
            from pytest_agentreplay.intercept.gateway.gateway import Gateway

            self._gateway = Gateway(
                self.interception,
                recording=self.mode == "record",
                recorded=self.recorded_calls(),
                allow_hosts=self.settings.allow_hosts,
                was_asked=self.gateway_was_asked(),
            )
            self.watch.served = self._gateway.starts
            self._stack.callback(self._gateway.close)
        return self._gateway

    def recorded_exchanges(self) -> tuple[Exchange, ...]:
        """The exchanges of the snapshot; none where there is none."""
        return ()

    def recorded_calls(self) -> Iterable[Call]:
        """The calls of the snapshot; none where there is none."""
        return (x.call for x in self.recorded_exchanges())

    def gateway_was_asked(self) -> bool:
        """Whether a child asked the gateway when the snapshot was recorded."""
        order = (self._kit or {}).get("order")
        apart = order.get("apart") if isinstance(order, dict) else None
        return isinstance(apart, list) and any(not is_of_process(str(lane)) for lane in apart)

    def await_children(self) -> None:
        """Wait for what child processes are still to do. Only a replay knows of any."""

    def child_lanes(self) -> tuple[str, ...]:
        """The lanes of the children that the gateway has met."""
        return () if self._gateway is None else self._gateway.lanes

    def _learn(self, environ: Mapping[str, str]) -> None:
        """The secrets in the environment of a child process are secrets of the run."""
        for category, value in secret_environment(environ, self.settings.redacted.secret_environment):
            self.redaction.learn(category, value)

    def strangers(self) -> Divergence | None:
        """Children whose calls may have gone past us: Python that has not joined, others that never asked the gateway.

        They are listed with what no boundary took; a replay is to fail with the divergence.
        """
        allowed = {short_name(program) for program in self.settings.allow_subprocess}
        apart = [name for name in self.children.strangers() if name not in allowed]
        silent = [name for name in (self._gateway.silent if self._gateway is not None else ()) if name not in allowed]
        for name in (*apart, *silent):
            self.watch.count(("child", name, ""))
        if not apart and not silent:
            return None
        name = next(iter((*apart, *silent)))
        what = "has not joined the run" if apart else "has asked its gateway for nothing"
        why = f"child process {name} {what}: what it called elsewhere was neither seen nor refused"
        return Divergence(Kind.NETWORK, why, hints=(f"where it calls nothing: agentreplay_allow_subprocess = {name}",))

    def view(self) -> RunView:
        """The live, read-only view that tests see."""
        from pytest_agentreplay.cases.view import RunView

        return RunView(self.run, READER)

    def freeze(self, function: F, name: Any, **options: Any) -> F:
        """Freeze `function` for the rest of the test, with the options of `tools.tool.Tool`; return it."""
        from pytest_agentreplay.intercept.tools.tool import Tool

        short = getattr(function, "__name__", type(function).__name__)
        tool = Tool(name or short, function, **options)
        if tool.effects == "live":
            self._let_live([tool])
            return function
        redirection = self._redirect(tool)
        self.tools.append(("", tool))
        if not name:
            self._names.add(redirection, short)
        return function

    def _let_live(self, tools: Iterable[Tool]) -> None:
        """Have these tools run for real, as somebody has declared."""
        self.interception.tools.live.update(tool.name for tool in tools)
        self.interception.tools.seen |= self.interception.tools.live
        if self.interception.tools.live:
            self.summary = replace(self.summary, live=(*sorted(self.interception.tools.live),))

    def _redirect(self, tool: Tool, path: str = "") -> Redirection:
        from pytest_agentreplay.intercept.tools.tool import redirect

        redirection = redirect(tool, codecs=self.interception.tools.codecs)
        self._redirections.add(redirection, path)
        return redirection

    def has_effects(self, call: Call) -> bool:
        """Return whether a call may change something outside, by what was declared of the tools."""
        reading = {redirection.tool.name for redirection in self._redirections if redirection.tool.effects == "read"}
        return has_effects(call, READER, lambda name: name in reading or self.interception.tools.reads(name))

    def codec(self, kind: type[T], freeze: Callable[[T], Json], thaw: Callable[[Json], T]) -> None:
        """How values of `kind` are frozen and come back."""
        from pytest_agentreplay.core.serialize import Codec

        self.interception.tools.codecs.append(Codec(kind, freeze, thaw))

    def media(self, near: Near) -> None:
        """Which pictures, sounds and files of requests are near enough: a replay asks, nothing else does."""

    def fixture_file(self, path: str | PathLike[str]) -> Path:
        """Keep the hash of a file that the test depends on; returns its place, from the root of the project."""
        file = self.place.root / path
        self.fixtures |= declared.digests(self.place.root, [str(path)])
        return file

    def secret(self, value: str) -> str:
        """Never write `value`; gives it back."""
        self.redaction.learn(CATEGORY, value)  # the environment of another machine may know it as a key
        return value
