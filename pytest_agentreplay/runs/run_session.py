"""One test while it is recorded or replayed: patches, backend, clock, seeds and guard, set up and torn down together.

`recording_session` and `replay_session` are the two kinds; this is what they share.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

from pytest_agentreplay.errors import ReplayDiverged
from pytest_agentreplay.intercept import registry
from pytest_agentreplay.intercept.environment import debuggers
from pytest_agentreplay.intercept.environment.clock import Clock, ClockAndSeeds
from pytest_agentreplay.intercept.environment.machine import Locale, MissingKeys, Zone, find_places, set_offline
from pytest_agentreplay.intercept.environment.randomness import RandomSource
from pytest_agentreplay.intercept.network.guard import Guard
from pytest_agentreplay.intercept.ordering.overtime import Overtime
from pytest_agentreplay.intercept.process import child_start
from pytest_agentreplay.intercept.session import callers, exits, interceptions, lanes
from pytest_agentreplay.intercept.session.hosts import DeclaredHosts
from pytest_agentreplay.intercept.tools.redirections import refusing, release
from pytest_agentreplay.model.divergence import Divergence, Kind
from pytest_agentreplay.model.paths import quote_word
from pytest_agentreplay.providers.rules import is_declared
from pytest_agentreplay.redaction.secret_names import CATEGORY, secret_environment
from pytest_agentreplay.report.summary import SessionSummary
from pytest_agentreplay.runs import describe_failure
from pytest_agentreplay.runs.redact.redaction_setup import other_policy, redacted_by, redaction_for
from pytest_agentreplay.runs.session_children import HANDOVER, SessionChildren
from pytest_agentreplay.runs.session_tools import SessionTools, resolve_tools
from pytest_agentreplay.snapshots.kit import table
from pytest_agentreplay.snapshots.store import format_path, projects

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextvars import Token
    from os import PathLike

    from pytest_agentreplay.backends.backend import Backend
    from pytest_agentreplay.compare.matching.near_calls import Near
    from pytest_agentreplay.intercept.ordering.stall_watch import StallWatch
    from pytest_agentreplay.intercept.ordering.virtual_time import Timed, VirtualClock
    from pytest_agentreplay.model.exchanges import Exchange, Header, JsonObject, Run
    from pytest_agentreplay.redaction.policy import Redactor
    from pytest_agentreplay.report.finding import Finding
    from pytest_agentreplay.settings import Settings

F = TypeVar("F", bound="Callable[..., Any]")


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

    @property
    def passed(self) -> bool:
        """Whether the body ran to its end without a failure."""
        return self.failure is None and not (self.interrupted or self.skipped)

    def outcome(self) -> JsonObject:
        """Return the end as the header keeps it: status, and type and first line of a failure."""
        if self.failure is None:
            return {"status": "skipped" if self.skipped else "passed"}
        return {"status": "failed", **describe_failure(self.failure)}


class RunSession:
    """Opened before the test body, closed after teardown. `summary` is what it reports at its end."""

    mode: ClassVar[str]

    def __init__(
        self, place: Location, settings: Settings, backend: Backend, header: Header, *, count: Callable[[], int] = int
    ) -> None:
        """Prepare without touching the world.

        `header` says when the run starts, with which seed, and what was around its recording (no kit: it is recorded
        now); `count` as in `Interception`.
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
        self.clock = Clock(settings.clock, header.clock)
        kit = header.kit
        self._other_policy = bool(kit) and other_policy(kit, settings.redacted)
        self.redaction.run.recall(kit)
        # A tool that runs for real would send the placeholder to its service, and fail by it instead of by its absence.
        frozen = settings.model == settings.replay_tools == "frozen"
        self.keys = MissingKeys(kit.get("keys") if frozen else None)
        for placeholder, variables in self.keys.groups.items():
            self.redaction.learn(CATEGORY, placeholder)
            if len(variables) == 1:
                self.redaction.run.placeholders.name({placeholder: variables[0]})
        self._credentials = table(kit, "credentials") if frozen else {}
        self.zone = Zone(kit.get("zone") if settings.clock != "real" else None, header.clock)
        self.locale = Locale(kit.get("locale"))
        self.fixtures = projects.hash_files(place.root, settings.kept_files)
        self.chance = RandomSource(header.seed)
        self.steps = ClockAndSeeds(self.clock, self.chance)
        self.interception = interceptions.Interception(
            backend, self.redaction, steps=self.steps, root=str(place.root), count=count
        )
        self.interception.tools.read_tools = settings.read_tools
        self.interception.tools.live.update(name for name, how in settings.tools if "." not in name and how == "live")
        self.interception.scope.hosts = DeclaredHosts(settings.allow_hosts)
        self.overtime = Overtime(self.interception)
        self.stalls: StallWatch | None = None
        self._virtual_clock: VirtualClock | None = None
        self._kit = kit
        self.tools = SessionTools(self.interception.tools, (x.call for x in self.list_recorded()))
        self.children = SessionChildren(self, header)
        self._late_reported = 0
        self._stack = ExitStack()
        self._intercepting = ExitStack()
        self._token: Token[lanes.CallContext | None] | None = None

    def make_guard(self) -> Guard:
        """Return the network guard: a recording lists what no boundary took, all else denies sockets and children."""
        kind: Literal["listen", "deny"] = "listen" if self.mode == "record" else "deny"
        hosts, programs = self.settings.allow_hosts, self.settings.allow_subprocess
        return Guard(kind, allow_hosts=hosts, allow_subprocess=programs, root=str(self.place.root))

    def run(self) -> Run:
        """Return the run as far as it has come."""
        raise NotImplementedError

    def end_body(self, ended: EndedRun) -> Finding | None:
        """Return the finding that the test must fail with, now that its body is over; None for none."""
        raise NotImplementedError

    def end(self) -> Finding | None:
        """Return what the teardown did wrong, now that it is over; None for nothing. Calls are refused from now on."""
        raise NotImplementedError

    def summarize(self) -> SessionSummary:
        """Return what there is to report by now."""
        return self.summary

    def find_expected_failure(self) -> Finding | None:
        """Return the finding of calls that a body no longer made before it failed as its `xfail` expects."""
        return None

    def withdraw(self) -> None:
        """Undo what `end` has written; nothing, where nothing is."""

    def open(self) -> None:
        """Redirect the tools, and intercept from now on. Raises CannotRedirect, and then nothing has changed."""
        with ExitStack() as stack:
            registry.install()
            exits.install(interceptions.find_interception, refusing)
            debuggers.install()
            redirections = self.tools.redirections
            # What the test left running may still call its tools: they are restored when nothing of it is left.
            stack.callback(release, self.interception, redirections)
            stack.callback(redirections.stop)
            redirections.start()
            self.watch = self.children.guard = self.make_guard()
            with self.watch.refusing_imports():  # a tool's module may be the first to import a library
                tools = resolve_tools(self.settings)
            self.tools.freeze_declared(tools)
            self._note_live_tools()
            if self._credentials:
                from pytest_agentreplay.runs.credential_files import write_placeholders

                self.keys.groups |= write_placeholders(self._credentials, self.place.environ, stack)
            self.watch.joins, self.watch.executed = child_start.joins, redirections.freeze_executed
            stack.callback(self.keys.stop)
            stack.callback(self.pause)
            self.resume()
            stack.callback(self.children.close_gateway)  # opened after all else, closed before it
            self._stack = stack.pop_all()

    def pause(self) -> None:
        """Stop intercepting for a while: clock, seeds, zone, locale and guard are as before. Twice is once.

        What the test has started, a thread for example, stays intercepted. Placeholders of keys stay set: a wider
        fixture may make the client that the test calls.
        """
        self._intercepting.close()

    def resume(self) -> None:
        """Intercept again, with the clock and the random numbers where `pause` left them."""
        with ExitStack() as stack:
            self.keys.start()
            # litellm downloads a list of prices when it is imported, unless told not to.
            stack.enter_context(set_offline())
            parts: list[Any] = [self.interception.clock.steps, self._virtual_clock, self.zone, self.locale]
            for part in filter(None, parts):
                part.start()
                stack.callback(part.stop)
            self.watch.start(self.interception)
            stack.callback(self.watch.stop)
            interceptions.open_for(self.interception)
            stack.callback(interceptions.open_for, None)
            stack.enter_context(child_start.joining(self.children, HANDOVER))
            if self.settings.children:
                from pytest_agentreplay.intercept.gateway.children import declare_children

                stack.enter_context(declare_children(self.settings.children, lambda: self.children.gateway))
            self._intercepting = stack.pop_all()

    def keep_time(self, order: Timed, now: Callable[[], int], passes: Callable[[], int], *, clocks: bool) -> None:
        """Show the test virtual time: `now` for what is written down, `passes` for who waits on the wall clock."""
        from pytest_agentreplay.intercept.ordering.virtual_time import VirtualClock

        self.interception.clock.now, self.clock.passes = now, passes
        self._virtual_clock = VirtualClock(self.interception, order, clocks=clocks)

    def close(self) -> None:
        """Leave everything as it was before `open`. A second call does nothing."""
        self.interception.end()
        self._stack.close()
        if strays := self.children.strays:
            self.summary = replace(self.summary, strays=strays)
        if self.watch.imports:
            self.summary = replace(self.summary, imports={**self.watch.imports})

    def check_start(self) -> None:
        """Raise ReplayDiverged where the run was refused before it began."""
        if (refused := self.interception.ending.refused) is not None:
            raise ReplayDiverged(refused.summary)

    def discard(self) -> None:
        """Close it as if it had not been opened: the test was skipped."""
        self.close()

    def place_tmp(self, folder: Path) -> None:
        """Store the temporary directory that the test has from now on as a mark."""
        if self.settings.places:
            root = Path(self.place.marks.get("root", self.place.root))
            self.redaction.take_places(find_places(root, tmp=folder))

    def enter_body(self) -> None:
        """Mark the test's own thread, so that what it starts belongs to the test too."""
        self._token = lanes.CALL_CONTEXT.set(self.interception.main())
        callers.enter_body()
        if self.mode == "replay":
            self.overtime.start()
            if self.stalls is not None:
                self.stalls.start()

    def leave_body(self) -> None:
        """Remove the mark, refuse late calls of the body, and wait a moment for them."""
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
        from pytest_agentreplay.compare.diagnose.missing import find_advice
        from pytest_agentreplay.report import findings, other_findings
        from pytest_agentreplay.report.finding import rewrite_steps

        if divergence.kind is Kind.NETWORK and self.watch.ledger:
            program = self.watch.ledger[0].line()
            if advice := find_advice(program, *(getattr(x.call, "url", "") for x in self.list_recorded())):
                cause, summary = f"{program} hands out credentials of a login", f"no credentials here: {advice}"
                divergence = replace(divergence, kind=Kind.CREDENTIALS, summary=summary, cause=cause, hints=())
        if divergence.kind is Kind.NETWORK and self.watch.ledger:
            function, _ = self.watch.functions.get(self.watch.ledger[0].origin, (None, None))
            calls = table(self._kit, "around").get(function or "") is True
            finding = other_findings.describe_network(
                self.place.test, self.watch.ledger, function=function, calls=calls
            )
        else:
            if self._kit.get("late"):
                late = "recorded late: name the fixture among its arguments, or mark it, and record again"
                divergence = replace(divergence, hints=(late, *divergence.hints))
            if self._other_policy:
                again = f"agentreplay redact {quote_word(format_path(self.place.snapshot))}"
                how = again if redacted_by(self.settings.redacted) else "give the --redact of its recording again"
                divergence = replace(divergence, hints=(*divergence.hints, f"recorded under another policy: {how}"))
            finding = findings.describe_divergence(divergence, self.place.test, facts)
        if self.overtime.waiting:
            refused = not self.overtime.at_once and (divergence.now is not None or divergence.kind is Kind.NETWORK)
            finding = findings.add_waiting(finding, self.overtime.waiting, refused=refused)
        return self.fail_with(rewrite_steps(finding, self.settings.format_message))

    def fail_with(self, finding: Finding) -> Finding:
        """Note the code of the finding that the test fails with; return the finding."""
        self.summary = replace(self.summary, code=finding.code)
        return finding

    def list_redacted_claims(self) -> dict[str, str]:
        """Return the claims that tokens in served replies lack, each with where its token stands: only of a replay."""
        return {}

    def explain_early_stop(self) -> Finding | None:
        """Return what a test that failed by an error of its own left of its recording: a replay alone has one."""
        return None

    def find_late_calls(self) -> Finding | None:
        """Return the finding of calls that came after the end and are not reported yet; None for none."""
        calls = self.interception.ending.late[self._late_reported :]
        self._late_reported += len(calls)
        if not calls:
            return None
        from pytest_agentreplay.report import other_findings

        return self.fail_with(other_findings.describe_late_calls(self.place.test, calls))

    def count_reported_late_calls(self) -> int:
        """Return how many late calls the test's report covers: all of them where it has a cause of its own."""
        if self._late_reported or not (self.summary.code or self.summary.failed):
            return self._late_reported
        return len(self.interception.ending.late)

    def list_recorded(self) -> tuple[Exchange, ...]:
        """Return the exchanges of the snapshot; none where there is none."""
        return ()

    def await_children(self) -> None:
        """Wait for what child processes are still to do. Only a replay knows of any."""

    def learn_environment(self, environ: Mapping[str, str]) -> None:
        """Redact the secrets in the environment of a child process too."""
        for category, value in secret_environment(environ, self.settings.redacted.secret_environment):
            self.redaction.learn(category, value)

    def freeze(self, function: F, name: str | None, **options: Any) -> F:
        """Freeze `function` for the rest of the test, with the options of `tools.tool.Tool`; return it."""
        self.tools.freeze(function, name, **options)
        self._note_live_tools()
        return function

    def _note_live_tools(self) -> None:
        self.summary = replace(self.summary, live=(*sorted(self.interception.tools.live),))

    def media(self, near: Near) -> None:
        """Let `near` say which pictures, sounds and files of requests are near enough; only a replay calls it."""

    def keep_file(self, path: str | PathLike[str]) -> Path:
        """Keep the hash of a file that the test depends on. Return its path."""
        file = self.place.root / path
        self.fixtures |= projects.hash_files(self.place.root, [str(path)])
        return file

    def secret(self, value: str) -> str:
        """Never write `value`; return it."""
        self.redaction.learn(CATEGORY, value)  # the environment of another machine may hold it as a key
        return value
