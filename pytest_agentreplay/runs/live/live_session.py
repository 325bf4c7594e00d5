"""One test run live: the real model or real tools, everything else from the snapshot, and what that shows.

Nothing is written: a live run reads its snapshot and is compared with it. What happened is put into the
summary as a `LiveResult`. A run that ended because nothing can be said of it (a model that cannot be reached, or
refuses, an interrupt) is `stopped`, and never drifted.

Before the first call of a model `check_settings` refuses what names nothing, or compares nothing. Settings are the
project's, and no test has each place and tool. So a place counts that any recording of the project has, and a tool that
is declared, called in a recording, or shown to a model there.
"""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from pytest_agentreplay import clocks
from pytest_agentreplay.backends.budget import UNPRICED, list_asking_turns, observe
from pytest_agentreplay.backends.case_backend import AnswerPolicy, ServeMode
from pytest_agentreplay.backends.live_backend import LiveBackend, layer_of
from pytest_agentreplay.backends.request_changes import prompt_of
from pytest_agentreplay.compare.kit_drift import list_versions
from pytest_agentreplay.compare.live_result import WRITES, Drift, LiveResult
from pytest_agentreplay.compare.tolerance import Reach, Tolerance, find_reach, is_named
from pytest_agentreplay.errors import ReplayDiverged, RunnerError, SettingsError
from pytest_agentreplay.model.divergence import Absent, Difference, Divergence, Kind
from pytest_agentreplay.model.exchanges import Exchange, Header, Json, JsonObject, Run, ToolReply
from pytest_agentreplay.model.turns import function_of
from pytest_agentreplay.providers import READER
from pytest_agentreplay.providers.messages import normalize_tools
from pytest_agentreplay.report.findings import format_place as place_in_run
from pytest_agentreplay.report.live_reports import describe_live_run
from pytest_agentreplay.runs import replay_kit
from pytest_agentreplay.runs.live.tolerance_file import judges_of
from pytest_agentreplay.runs.replay_session import ReplaySession
from pytest_agentreplay.runs.session_tools import resolve_tools
from pytest_agentreplay.runs.snapshot_selection import read_changes
from pytest_agentreplay.settings.parsers import suggest_nearest
from pytest_agentreplay.snapshots.store import locks, reading

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence
    from pathlib import Path

    from pytest_agentreplay.backends.budget import Prices
    from pytest_agentreplay.backends.replay import ReplayBackend
    from pytest_agentreplay.compare.matching import Matching
    from pytest_agentreplay.intercept.ordering.release import ReleaseQueue
    from pytest_agentreplay.intercept.tools.tool import Tool
    from pytest_agentreplay.report.finding import Finding
    from pytest_agentreplay.runs.run_session import EndedRun, Location
    from pytest_agentreplay.settings import Settings
    from pytest_agentreplay.snapshots.codec import Snapshot

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
        self.interception.scope.changes = read_changes(
            settings.replay_set if settings.model == "live" else (), place.root
        )
        if "model" in released and "prompt" not in released:
            pinned: Any = self.redaction.reveal(ToolReply([*self.prompts]))
            self.interception.scope.changes = {"prompt": pinned.value}
        self.stalls = None  # the real world takes its time
        self.result: LiveResult | None = None
        self.prices = settings.prices

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
        try:
            refuse_live_writes(settings, (tool for _, tool in self.tools.frozen))
        except SettingsError:
            self.close()
            raise

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
        changes = [*filter(None, [result.served_otherwise]), *map(" ".join, result.packages.items())]
        self.note(live_changes=(*changes,), live_run=self.redaction.hide_tree(result.plain()))
        self._complete = result.same
        if result.same or ended.interrupted:
            if self.settings.expect and result.same:
                self.note(expect="fails as recorded")
            return self.find_late_calls()
        if divergence is not None and divergence.kind in {*AGENTS, Kind.CHANGE}:
            return self.describe_divergence(divergence, self.collect_facts())
        return self.fail_with(describe_live_run(result, self.collect_facts(), changes))

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
        stopped = (
            "the run was interrupted"
            if ended.interrupted
            else replay_kit.find_stop(divergence, made, self.snapshot.run)
        )
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
            **(
                usage := replay_kit.sum_usage(self.run(), live=self.settings.model == "live")
            ),  # judges have asked since
            served_otherwise=self._describe_served(usage),
            packages=dict(
                line.split(" ", 1)
                for line in list_versions(self._kit, replay_kit.describe_interpreter(self.place.root))
            ),
            changed=dict(text.split("=", 1) for text in self.settings.replay_set),
            released=" + ".join(sorted(self.settings.released or ())).replace(":", " "),
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
        recorded = observe(self.snapshot.run, READER, self.snapshot.run.header.outcome, self.prices)
        turns = list_asking_turns(self.run(), READER)
        if divergence is not None:  # what comes after it is its consequence
            layer = "agent" if divergence.kind in AGENTS else layer
            refused = function_of(divergence.now, READER) if divergence.now is not None else None
            requested = [{"name": refused.name, "arguments": refused.arguments, "result": None}] if refused else []
            observed: Any = now | {"tools": [*cast("list[Json]", now["tools"])[: len(turns)], *requested]}
            exceeded = self.settings.near.find_exceeded(recorded, observed, [*turns, f"turn {divergence.turn}"])
            return (*tools, *exceeded, self._drift(divergence, layer, "recorded calls only"))
        compared = self.settings.near.compare(recorded, now, self.judges, turns)
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
        hints = tuple(map(self.settings.format_message, divergence.hints))
        more: dict[str, Any] = {"turn": divergence.turn, "code": divergence.kind.code, "hints": hints}
        return Drift(layer, first.path, rule, summary, recorded, now, **more)

    def _describe_served(self, usage: dict[str, Any]) -> str:
        """Return who answered that had not when it was recorded; it proves no drift by itself."""
        then, changes = replay_kit.list_models(self.snapshot.run), []
        for field, name in replay_kit.SERVED.items():
            if then[field] and {*usage[field]} - {*then[field]}:
                sides = (", ".join(side[field]) for side in (usage, then))
                changes.append(f"{name.replace('served', 'served by')} {', recorded '.join(sides)}")
        return "; ".join(changes)


def prompts_of(exchanges: Iterable[Exchange]) -> set[str]:
    """Return the system texts of a run."""
    return {prompt_of(READER.read_call(x.call)) for x in exchanges} - {""}


FREE = {"arguments", "result"}
"""Below these, a run may have what no recording has: that may be ignored, and limited."""
NAME = re.compile(r"[\w.*-]+")
LABELS = ("GET ", "HEAD ", "embeddings ", "retrieval ")
"""How calls that are no tools begin in `agentreplay_off_script`."""


def check_settings(every: Sequence[Settings], root: Path, prices: Prices) -> Iterator[str]:
    """Yield a line for each tolerance that has no place in a recording; `every` has the settings of the tests.

    Raises SettingsError for what names no tool or compares nothing, for a judge that is not declared, and for a tool
    that writes and may run off script; RunnerError for a judge that is not there; SnapshotError, CannotRedirect.
    """
    names, tools = dict[str, str](), set[str]()
    for settings in every:
        if settings.model == "live":
            judges_of(settings, settings.near)
        declared = [tool for _, tool in resolve_tools(settings)]
        refuse_live_writes(settings, declared)
        tools |= {*(tool.name for tool in declared), *(name for name, _ in settings.tools if "." not in name)}
        off_script = {name: f"agentreplay_off_script: {name} = {how}" for name, how in settings.off_script}
        names |= {name: line for name, line in off_script.items() if NAME.fullmatch(name)}
        names |= {name: rule.written for rule in settings.tolerances for name in rule.tools}
    reached: dict[Tolerance, list[Reach]] = {rule: [] for settings in every for rule in settings.tolerances}
    model, snapshots = "", locks.snapshots(root)
    while True:
        names = {name: line for name, line in names.items() if not is_tool(name, tools)}
        idle = [rule for rule, each in reached.items() if not any(map(partial(is_effective, rule), each))]
        if not (names or idle) or (file := next(snapshots, None)) is None:
            break
        run = reading.load(file).run
        observed = observe(run, READER, run.header.outcome, prices)
        model, tools = model or replay_kit.sum_usage(run, live=False)["model"], tools | {*list_tools(run)}
        for rule in idle:
            reached[rule].append(find_reach(rule, observed))
    for name, line in names.items():
        raise SettingsError(
            f"{line} names nothing: no tool of the project has this name"
            + suggest_nearest(name, sorted(tools) or ["(none)"])
        )
    for rule in idle:
        if why := explain_idle(rule, reached[rule], model):
            raise SettingsError(f"{rule.written} compares nothing: {why}")
        if not all(each.open for each in reached[rule]):
            yield f"{rule.written}: no recording has this place; it holds for what is new in a live run"


def refuse_live_writes(settings: Settings, tools: Iterable[Tool]) -> None:
    """Raise SettingsError where a tool that writes may run off script."""
    live = [name for name, how in settings.off_script if how == "live"]
    for tool in tools:
        if tool.effects == "write" and tool.boundary == "tool" and any(is_named(tool.name, name) for name in live):
            why = "it writes, and a tool that writes never runs: take stop or stub"
            raise SettingsError(f"agentreplay_off_script: {tool.name} = live: {why}")


def list_tools(run: Run) -> Iterator[str]:
    """Yield the names of tools in a run: those that were called, asked for, or shown to a model."""
    for x in run.exchanges:
        if (function := function_of(x.call, READER)) is not None:
            yield function.name
        yield from (str(tool["name"]) for tool in normalize_tools(READER.read_call(x.call).tools))
        yield from (use.name for use in READER.read_reply(x.call, x.outcome).tool_uses)


def is_tool(name: str, tools: Collection[str]) -> bool:
    """Return whether a tool has this name; either side may be a pattern."""
    return any(is_named(tool, name) or is_named(name, tool) for tool in (*tools, *LABELS) if tool)


def is_effective(rule: Tolerance, reach: Reach) -> bool:
    """Return whether a recording has something that the rule is about: a number for a budget, what is counted."""
    kind: Any = {"at most": int | float | dict, "forbidden": list}.get(rule.how, object)
    counts = rule.how != "ignore" and not rule.tool and rule.path.steps[0].want == "usage"
    return any(isinstance(value, kind) and not (counts and value is None) for value in reach.values)


def explain_idle(rule: Tolerance, reaches: Sequence[Reach], model: str) -> str:
    """Return why a rule compares nothing in any recording; "" where another run may have its place."""
    if any(each.values for each in reaches):
        kind = "list" if rule.how == "forbidden" else "number"
        return UNPRICED.format(model) if rule.path.steps[-1].want == "cost" else f"no recording has a {kind} there"
    closed = next((each for each in reaches if not each.open), None)
    free = rule.tool or any(step.deep or step.want in FREE for step in rule.path.steps)
    if closed is None or (free and (rule.how == "ignore" or (rule.how == "at most" and not rule.values[1]))):
        return ""
    near = suggest_nearest(closed.missing, sorted(closed.members)) if closed.members else ""
    return f"no recording has {closed.missing} there{near}"
