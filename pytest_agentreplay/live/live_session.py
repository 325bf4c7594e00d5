"""One test run live: the real model or real tools, everything else from the snapshot, and what that shows.

Nothing is written: a live run reads its snapshot and is compared with it. What happened is put into the
summary as a `LiveResult`. A run that ended because nothing can be said of it (a model that cannot be reached, or
refuses, an interrupt) is `stopped`, and never drifted.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pytest_agentreplay import clocks
from pytest_agentreplay.core.case_backend import AnswerPolicy
from pytest_agentreplay.core.divergence import Absent, Difference, Kind
from pytest_agentreplay.core.kit import versions
from pytest_agentreplay.core.live.live_backend import LiveBackend, layer_of
from pytest_agentreplay.core.live.observation import observe
from pytest_agentreplay.core.live.request_changes import prompt_of
from pytest_agentreplay.core.live.result import WRITES, Drift, LiveResult
from pytest_agentreplay.core.model import Header, Run, ToolReply
from pytest_agentreplay.core.tolerance import is_named
from pytest_agentreplay.core.turns import function_of
from pytest_agentreplay.dialects import READER
from pytest_agentreplay.errors import ReplayDiverged, RunnerError, SettingsError
from pytest_agentreplay.live.tolerance_file import judges_of
from pytest_agentreplay.report.findings import format_place as place_in_run
from pytest_agentreplay.report.live_reports import describe_live_run
from pytest_agentreplay.runs import replay_kit
from pytest_agentreplay.runs.replay_kit import SERVED, find_stop, list_models, sum_usage
from pytest_agentreplay.runs.replay_session import ReplaySession
from pytest_agentreplay.runs.snapshot_selection import read_changes

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_agentreplay.codec import Snapshot
    from pytest_agentreplay.core.backends.replay import ReplayBackend
    from pytest_agentreplay.core.case_backend import ServeMode
    from pytest_agentreplay.core.divergence import Divergence
    from pytest_agentreplay.core.matching import Matching
    from pytest_agentreplay.core.model import Exchange, JsonObject
    from pytest_agentreplay.intercept.ordering.release import ReleaseQueue
    from pytest_agentreplay.report.finding import Finding
    from pytest_agentreplay.runs.run_session import EndedRun, Location
    from pytest_agentreplay.settings import Settings

AGENTS = {Kind.NETWORK, Kind.LATE, Kind.UNFROZEN}
"""What the code under test did, whatever the model says."""


class LiveSession(ReplaySession):
    """A test with a live model, live tools or both. Calls may come in any order; keys are those of the environment."""

    def __init__(self, place: Location, settings: Settings, snapshot: Snapshot, edited: Sequence[str] = ()) -> None:
        """As a replay; nothing goes live before `open`."""
        self.settings = settings
        released, run, now = settings.released or (), snapshot.run, int(clocks.wall() * 1e9)
        today: Any = {name: now for name, layer in (("clock", "clock"), ("seed", "random")) if layer in released}
        snapshot = replace(snapshot, run=replace(run, header=replace(run.header, **today)))
        super().__init__(place, settings, snapshot, edited)
        self.prompts = prompts_of(snapshot.run.exchanges)
        self.clock.live_inside = True
        self.interception.scope.changes = read_changes(settings.changes if settings.model == "live" else (), place.root)
        if "model" in released and "prompt" not in released:
            pinned: Any = self.redaction.reveal(ToolReply([*self.prompts]))
            self.interception.scope.changes = {"prompt": pinned.value}
        self.stalls = None  # the real world takes its time
        self.result: LiveResult | None = None
        self.prices = settings.live_runs.prices if settings.live_runs is not None else ()

    def make_backend(self, recorded: Run, matching: Matching) -> ReplayBackend:
        """Return the backend of the cell."""
        settings = self.settings
        model: ServeMode = "live" if settings.model == "live" else "position"
        cast = AnswerPolicy(model=model, tools="arguments", tolerances=settings.near)
        self.live = LiveBackend(recorded, matching, READER, cast, settings.axes)
        self.live.policies = settings.off_script
        return self.live

    def make_order(self) -> ReleaseQueue | None:
        """Return None: the world answers when it does."""
        return None

    def open(self) -> None:
        """Open it. Raises SettingsError where a tool that writes may run off script, or a judge is not declared."""
        settings = self.settings
        self.judges = judges_of(settings, settings.near) if settings.model == "live" else None
        super().open()
        writes = [tool.name for _, tool in self.tools.frozen if tool.effects == "write"]
        live = [name for name, how in self.settings.off_script if how == "live"]
        if name := next((name for name in writes if any(is_named(name, pattern) for pattern in live)), ""):
            self.close()
            why = "it writes, and a tool that writes never runs: take stop or stub"
            raise SettingsError(f"agentreplay_off_script: {name} = live: {why}")

    def run(self) -> Run:
        """Return the run of now."""
        return Run(Header(self.place.test), self.live.list_made())

    def end_body(self, ended: EndedRun) -> Finding | None:
        """Compare the run of now with the recorded one; return the finding of one that drifted, or proves nothing."""
        self.summary = replace(self.summary, failed=ended.failure is not None)
        if ended.skipped:
            return None
        self.latch_unjoined_children()
        divergence = self.live.find_divergence()
        self.result = result = self._judge(ended, divergence)
        changes = self._changes(result)
        self.note(live_changes=(*changes,), live_run=self.redaction.hide_tree(result.plain()))
        self._complete = result.same
        if result.same or ended.interrupted:
            if self.settings.expect and result.same:
                self.note(expect="fails as recorded")
            return self.find_late_calls()
        if divergence is not None and divergence.kind in {*AGENTS, Kind.CHANGE}:
            return self.describe_divergence(divergence, self.collect_facts())
        finding = describe_live_run(result, self.collect_facts(), changes)
        self.summary = replace(self.summary, code=finding.code)
        return finding

    def end(self) -> Finding | None:
        """Close it; what teardown asked is told where the test itself has nothing to tell."""
        code, finding = self.summary.code, super().end()
        self.note(verified=self.live.verified)
        if self.result is not None and not self.result.same:
            self.summary, finding = replace(self.summary, code=code), None
        return finding

    def _judge(self, ended: EndedRun, divergence: Divergence | None) -> LiveResult:
        made, outcome = self.run(), self.redact_outcome(ended)
        now: Any = observe(made, READER, outcome, self.prices)
        ends = [tuple(map(each.get, ("status", "type"))) for each in (self.snapshot.run.header.outcome, outcome)]
        passed = ends[0] == ends[1] or (ended.failure is None and not self.settings.expect)
        refused = passed or isinstance(ended.failure, ReplayDiverged)
        ending = ": ".join(str(outcome[name]) for name in ("type", "message") if name in outcome)
        failure = "" if refused else ending or "it no longer fails"
        stopped = "the run was interrupted" if ended.interrupted else find_stop(divergence, made, self.snapshot.run)
        drifts: tuple[Drift, ...] = ()
        try:
            drifts = () if stopped else self._drifts(divergence, now, failure)
        except (RunnerError, ReplayDiverged) as error:  # a judge that failed, or was refused its call
            stopped = str(error)
        return LiveResult(
            test=self.place.test,
            cell=self.settings.axes.cell,
            at=datetime.fromtimestamp(clocks.wall(), UTC).isoformat(timespec="seconds"),
            passed=passed,
            drifts=drifts,
            off_script=tuple(self.live.off_script),
            **sum_usage(self.run(), live=self.settings.model == "live"),  # judges have asked since
            packages=dict(
                line.split(" ", 1) for line in versions(self._kit, replay_kit.describe_interpreter(self.place.root))
            ),
            changed=dict(text.split("=", 1) for text in self.settings.changes),
            failure=failure,
            stopped=stopped,
            layers=() if self.settings.released is None else self._layers(),
        )

    def _layers(self) -> tuple[str, ...]:
        """Return what a line-up can release in this run, and what writes; see `LiveResult`."""
        calls = [(x.call, function) for x in self.list_recorded() if (function := function_of(x.call, READER))]
        layers = {WRITES + each.name if self.tools.has_effects(call) else layer_of(each) for call, each in calls}
        return (*sorted(layers), *["prompt"] * (not prompts_of(self.live.list_made()) <= self.prompts))

    def _drifts(self, divergence: Divergence | None, now: JsonObject, failure: str) -> tuple[Drift, ...]:
        """Return where the run left the recorded one: results of tools first, since what follows comes of them."""
        tools = [self._drift(each, "tool", "exact result") for each in self.live.changed]
        layer = "model" if self.settings.model == "live" else "tool" if tools else "agent"
        if divergence is not None:  # what comes after it is its consequence
            layer = "agent" if divergence.kind in AGENTS else layer
            return (*tools, self._drift(divergence, layer, "recorded calls only"))
        recorded = observe(self.snapshot.run, READER, self.snapshot.run.header.outcome, self.prices)
        self.note(unmatched=(*self.settings.near.unmatched(recorded, now),))
        compared = self.settings.near.compare(recorded, now, self.judges)
        drifts = [each for each in compared if each.layer == "model" or not tools]
        drifts = [each if each.layer == "tool" else replace(each, layer=layer) for each in drifts]
        if failure:
            sides = recorded["outcome"], now["outcome"]
            drifts.append(Drift(layer, "$.outcome", "ends as recorded", f"the test ended otherwise: {failure}", *sides))
        return (*tools, *drifts)

    def _drift(self, divergence: Divergence, layer: str, rule: str) -> Drift:
        """Return a divergence as a drift: a result beyond its tolerance, or a call that is not recorded."""
        where, first = place_in_run(divergence), next(iter(divergence.differences), Difference("", None, None))
        recorded, now = (None if isinstance(side, Absent) else side for side in (first.recorded, first.now))
        summary = f"{where and f'{where}: '}{divergence.summary}"
        hints = tuple(map(self.settings.written, divergence.hints))
        more: dict[str, Any] = {"turn": divergence.turn, "code": divergence.kind.code, "hints": hints}
        return Drift(layer, first.path, rule, summary, recorded, now, **more)

    def _changes(self, result: LiveResult) -> list[str]:
        """Return what changed at the provider and in the SDKs; it proves no drift by itself."""
        then = list_models(self.snapshot.run)
        sides = ((name, then[field], getattr(result, field)) for field, name in SERVED.items())
        moved = [(name, f"{', '.join(was)} -> {', '.join(now)}") for name, was, now in sides if was and {*now} - {*was}]
        return [f"{name} {change}" for name, change in (*moved, *result.packages.items())]


def prompts_of(exchanges: Iterable[Exchange]) -> set[str]:
    """Return the system texts of a run."""
    return {prompt_of(READER.read_call(x.call)) for x in exchanges} - {""}
