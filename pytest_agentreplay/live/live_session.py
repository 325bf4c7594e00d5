"""One test run live: the real model or real tools, everything else from the snapshot, and what that shows.

Nothing is written: a live run reads its snapshot and is compared with it. What happened is put into `told["live_run"]`
as a `LiveResult`. A run that ended because nothing can be said of it (a model that cannot be reached, or refuses, an
interrupt) is `stopped`, and never drifted.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pytest_agentreplay import clocks
from pytest_agentreplay.core.divergence import Absent, Divergence, Kind
from pytest_agentreplay.core.kit import table
from pytest_agentreplay.core.live.live_backend import LiveBackend
from pytest_agentreplay.core.live.observation import observe
from pytest_agentreplay.core.live.result import Drift, LiveResult
from pytest_agentreplay.core.model import Failure, Header, HttpReply, Run
from pytest_agentreplay.core.tolerance import is_named
from pytest_agentreplay.core.turns import turns
from pytest_agentreplay.dialects import READER, mcp
from pytest_agentreplay.errors import ReplayDiverged, SettingsError
from pytest_agentreplay.report.findings import place as place_in_run
from pytest_agentreplay.report.findings import with_steps
from pytest_agentreplay.report.live_findings import live_finding
from pytest_agentreplay.runs import replay_kit
from pytest_agentreplay.runs.replay_session import ReplaySession

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_agentreplay.codec import Snapshot
    from pytest_agentreplay.core.backends.replay import ReplayBackend
    from pytest_agentreplay.core.matching import Matching
    from pytest_agentreplay.core.model import JsonObject, Outcome
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
        super().__init__(place, settings, snapshot, edited)
        self.clock.live_inside = True
        self.stalls = None  # the real world takes its time
        self.result: LiveResult | None = None

    def answering(self, recorded: Run, matching: Matching) -> ReplayBackend:
        """Return the backend of the cell."""
        settings = self.settings
        self.live = LiveBackend(
            recorded,
            matching,
            READER,
            settings.axes,
            tolerances=settings.near,
            policies=settings.off_script,
            spell=mcp.spelled,
        )
        return self.live

    def _order(self) -> ReleaseQueue | None:
        """Return None: the world answers when it does."""
        return None

    def open(self) -> None:
        """Open it. Raises SettingsError where a tool that writes may run off script."""
        super().open()
        for tool in (tool for _, tool in self.tools if tool.effects == "write"):
            if any(how == "live" and is_named(tool.name, name) for name, how in self.settings.off_script):
                self.close()
                line = f"agentreplay_off_script: {tool.name} = live"
                raise SettingsError(f"{line}: it writes, and a tool that writes never runs: take stop or stub")

    def run(self) -> Run:
        """Return the run of now."""
        return Run(Header(self.place.test), self.live.made())

    def end_body(self, ended: EndedRun) -> Finding | None:
        """Compare the run of now with the recorded one; return the finding of one that drifted, or proves nothing."""
        self.told["failed"] = ended.failure is not None
        if ended.skipped:
            return None
        if (stranger := self.strangers()) is not None:
            self.interception.latch(stranger, "")
        divergence = self.live.parted()
        self.result = result = self._judge(ended, divergence)
        self.told["live_run"] = self.redaction.hide_tree(result.plain())
        self._whole = result.same
        if result.same or ended.interrupted:
            return self.stragglers()
        if divergence is not None and divergence.kind in AGENTS:
            return self.parted(divergence, self.snapshot_facts())
        evidence = evidence_lines(self._models(recorded=True), result)
        hints = [hint for each in (divergence, *self.live.changed) if each is not None for hint in each.hints]
        finding = live_finding(result, self.snapshot_facts(), evidence, hints)
        finding = with_steps(finding, self.settings.written)
        self.told["code"] = finding.code
        return finding

    def end(self) -> Finding | None:
        """Close it; what teardown asked is told where the test itself has nothing to tell."""
        code = self.told.get("code")
        finding = super().end()
        self.told["verified"] = self.live.verified
        if self.result is None or self.result.same:
            return finding
        self.told["code"] = code
        return None

    def stopped_early(self) -> Finding | None:
        """Return None: a live run that fails tells all of it itself."""
        return None

    def _judge(self, ended: EndedRun, divergence: Divergence | None) -> LiveResult:
        outcome = self.outcome(ended)
        now = observe(self.run(), READER, outcome)
        usage: dict[str, Any] = table(now, "usage")
        passed = self.reproduced(ended) if self.settings.expect else ended.failure is None
        stopped = "the run was interrupted" if ended.interrupted else self._unanswered()
        if divergence is not None and divergence.kind is Kind.CHANGE:
            stopped = divergence.summary
        models = self._models(recorded=False)
        failure = f"{outcome.get('type', '')}: {outcome.get('message', '')}"
        return LiveResult(
            test=self.place.test,
            cell=self.settings.axes.cell,
            at=datetime.fromtimestamp(clocks.wall(), UTC).isoformat(timespec="seconds"),
            passed=passed,
            drifts=() if stopped else self._drifts(divergence, now, passed=passed),
            off_script=tuple(self.live.off_script),
            calls=usage["calls"],
            tokens={side: usage[f"{side}_tokens"] or 0 for side in ("input", "output")},
            seconds=usage["seconds"],
            model=next(iter(models["model"]), ""),
            served_models=models["served"],
            fingerprints=models["fingerprint"],
            providers=models["provider"],
            packages=self._changed_packages(),
            failure="" if passed or isinstance(ended.failure, ReplayDiverged) else failure,
            changed={name: written for name, written, _ in self.settings.changes},
            stopped=stopped,
        )

    def _drifts(self, divergence: Divergence | None, now: JsonObject, *, passed: bool) -> tuple[Drift, ...]:
        """Return where the run left the recorded one: results of tools first, since what follows comes of them."""
        tools = [self._drift(each, "tool") for each in self.live.changed]
        layer = "model" if self.settings.model == "live" else "tool" if tools else "agent"
        if divergence is not None:  # what comes after it is its consequence
            layer = "agent" if divergence.kind in AGENTS else layer
            return (*tools, self._drift(divergence, layer))
        header = self.snapshot.run.header
        recorded = observe(self.snapshot.run, READER, header.outcome)
        drifts = [*tools, *compare(recorded, now)]
        if not passed and not any(each.path.startswith("$.outcome") for each in drifts):
            said = now["outcome"]
            drifts.append(Drift(layer, "$.outcome", "exact", "the test fails", recorded["outcome"], said, default=True))
        return tuple(drifts)

    def _drift(self, divergence: Divergence, layer: str) -> Drift:
        """Return a divergence as a drift: a result beyond its tolerance, or a call that is not recorded."""
        where, first = place_in_run(divergence), next(iter(divergence.differences), None)
        sides = [None if isinstance(side, Absent) else side for side in (first.recorded, first.now)] if first else []
        recorded, now = sides or (None, None)
        summary = f"{where and f'{where}: '}{divergence.summary}"
        path = first.path if first is not None else ""
        rule = "exact result" if layer == "tool" and divergence in self.live.changed else "recorded calls only"
        default = not self.settings.tolerances
        return Drift(layer, path, rule, summary, recorded, now, divergence.turn, default, divergence.kind.code)

    def _unanswered(self) -> str:
        """Return why the last model call of a lane brought nothing, unless that is recorded so; "" where all did."""
        if self.settings.model == "frozen":
            return ""
        recorded = {refusal_of(x.outcome) for x in self.snapshot.run.exchanges}
        last = {turn.lane: turn.model for turn in turns(self.run(), READER) if turn.model is not None}
        for x in last.values():
            if (why := refusal_of(x.outcome)) and why not in recorded:
                error = READER.read_reply(x.call, x.outcome).error if isinstance(x.outcome, HttpReply) else ""
                return f"the model {why}: {error.removeprefix(why.split()[1]).strip()}".removesuffix(": ")
        return ""

    def _models(self, *, recorded: bool) -> dict[str, tuple[str, ...]]:
        """Return what the models were called, and by whom they were served, recorded or now."""
        exchanges = self.snapshot.run.exchanges if recorded else self.live.made()
        entries = [each for each in replay_kit.models(exchanges, READER) if isinstance(each, dict)]
        names = ("model", "served", "fingerprint", "provider")
        return {name: tuple(dict.fromkeys(str(each[name]) for each in entries if each.get(name))) for name in names}

    def _changed_packages(self) -> dict[str, str]:
        then, now = table(self.snapshot.run.header.kit, "packages"), replay_kit.versions()
        return {name: f"{then[name]} -> {now[name]}" for name in then.keys() & now if then[name] != now[name]}


def refusal_of(outcome: Outcome | None) -> str:
    """Return how a model refused or failed, "answered 401 Unauthorized"; "" where it answered."""
    if isinstance(outcome, HttpReply) and outcome.status >= 400:
        return f"answered {outcome.status} {outcome.reason}".rstrip()
    failure = outcome if isinstance(outcome, Failure) else getattr(outcome, "failure", None)
    if failure is None or failure.cancelled:
        return ""
    return f"did not answer, {failure.type.rpartition('.')[2]}: {failure.message}".rstrip(": ")


def evidence_lines(recorded: dict[str, tuple[str, ...]], result: LiveResult) -> list[str]:
    """Return what changed at the provider and in the SDKs; it proves no drift by itself."""
    sides = {
        "served": ("served model", result.served_models),
        "fingerprint": ("fingerprint", result.fingerprints),
        "provider": ("provider", result.providers),
    }
    lines = [
        f"{what} {', '.join(recorded[name])} -> {', '.join(now)}"
        for name, (what, now) in sides.items()
        if now and recorded[name] and set(now) != set(recorded[name])
    ]
    return [*lines, *(f"{name} {change}" for name, change in sorted(result.packages.items()))]


def compare(recorded: JsonObject, now: JsonObject) -> list[Drift]:
    """Return the drifts by the default tolerances; a stand-in for `core.tolerance.TolerancePolicy`."""
    sides: list[Any] = []
    for side in (recorded, now):
        tools: Any = side["tools"]
        sides.append([{"name": each["name"], "arguments": each["arguments"]} for each in tools])
    if sides[0] == sides[1]:
        return []
    return [Drift("model", "$.tools", "equal", "other tools were called", sides[0], sides[1], default=True)]
