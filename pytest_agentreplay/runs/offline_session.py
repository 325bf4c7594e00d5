"""Sessions without a network: what all replays share, and the sessions that have no usable snapshot.

Also what a replay is made of: the rules by which two calls are the same, and the order in which answers came.
"""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.backends.backend import Moment, Refused
from pytest_agentreplay.compare.matching import Matching
from pytest_agentreplay.errors import SettingsError
from pytest_agentreplay.intercept.network.guard import Guard, ModelsOnly
from pytest_agentreplay.model.divergence import Divergence, Kind
from pytest_agentreplay.model.exchanges import Call, Header, Run
from pytest_agentreplay.model.release_order import ReleaseSchedule
from pytest_agentreplay.model.rules import Rule
from pytest_agentreplay.providers import READER, RULES
from pytest_agentreplay.report.summary import ReplaySummary, SessionSummary
from pytest_agentreplay.runs.run_session import EndedRun, Location, RunSession
from pytest_agentreplay.snapshots.kit import table, texts
from pytest_agentreplay.snapshots.store import files, format_path

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from pytest_agentreplay.report.finding import Finding
    from pytest_agentreplay.settings import Settings

    Explain = Callable[[Divergence], tuple[Divergence, str]]

RULES_FILE = "agentreplay-rules.json"


class OfflineSession(RunSession):
    """A test whose calls are answered from a snapshot, or refused."""

    mode = "replay"
    replay = ReplaySummary()

    def summarize(self) -> SessionSummary:
        """Return what the replay has shown."""
        return replace(self.summary, replay=self.replay)

    def note(self, **facts: Any) -> None:
        """Add facts to the summary of the replay; their names and types are those of `ReplaySummary`."""
        self.replay = replace(self.replay, **facts)

    def latch_unjoined_children(self) -> None:
        """Fail the test by child processes whose calls may have been neither recorded nor refused."""
        if (divergence := self.children.find_unjoined()) is not None:
            self.interception.latch(divergence, "")


class UnusableSnapshotSession(OfflineSession):
    """There is no usable snapshot: the first call is refused, and the test fails there.

    With `at_once` it fails even when nothing is asked: unreadable is never absent.
    """

    def __init__(
        self,
        place: Location,
        settings: Settings,
        why: Divergence,
        *,
        at_once: bool = False,
        explain: Explain | None = None,
        seed: int = 0,
    ) -> None:
        """`why` is reported at the first call; `explain` adds what is worth looking for only then."""
        self.backend = RefuseAll(why)
        self.at_once = at_once
        self._explain = explain
        super().__init__(place, settings, self.backend, Header(place.test, clock=time.time_ns(), seed=seed))

    def run(self) -> Run:
        """Return an empty run: nothing was recorded."""
        return Run(Header(self.place.test))

    def end_body(self, _ended: EndedRun) -> Finding | None:
        """Return the finding of the first call, which was refused, if there was one."""
        self.latch_unjoined_children()
        return self.report_calls()

    def end(self) -> Finding | None:
        """Return the same for the calls of the teardown."""
        self.close()
        return self.report_calls()

    def report_calls(self) -> Finding | None:
        """Return the finding of the first call that was refused, or of late calls; None for none."""
        divergence = self.backend.why if self.at_once else self.backend.divergence
        if divergence is None:
            return self.find_late_calls()
        if self._explain is not None:  # it reads other snapshots, which takes time: only where there is a refusal
            divergence, former = self._explain(divergence)
            self.backend.divergence, self._explain = divergence, None
            self.summary = replace(self.summary, former=former)
        return self.describe_divergence(divergence, {"file": str(self.place.snapshot)})


class UnrecordedFixtureSession(UnusableSnapshotSession):
    """A fixture without a snapshot, in a replay. Its calls are refused; all else runs as without the plugin."""

    def __init__(self, place: Location, settings: Settings, explain: Explain) -> None:
        """`explain` adds what is worth looking for at the first refusal."""
        missing = Divergence(Kind.NEW, "no snapshot is recorded for this fixture")
        # Most such fixtures never call a model: they start a database, and need the clock and the sockets for it.
        settings = settings._replace(clock="real", children=())
        super().__init__(place, settings, missing, explain=explain, seed=settings.seed or 0)

    def make_guard(self) -> Guard:
        """Return a guard that refuses model hosts alone: a model that is called past all boundaries must not answer."""
        return ModelsOnly("deny", allow_hosts=self.settings.allow_hosts, root=str(self.place.root))

    def report_calls(self) -> Finding | None:
        """Return the same finding; a fixture that made no call is left out of the report."""
        finding = super().report_calls()
        self.summary = replace(self.summary, silent=finding is None)
        return finding


class RefuseAll:
    """A backend that refuses every call."""

    def __init__(self, why: Divergence) -> None:
        """`why` is what each refusal says."""
        self.why = why
        self.divergence: Divergence | None = None

    def decide(self, call: Call, _moment: Moment) -> Refused:
        """Refuse, whatever it is."""
        return Refused(replace(self.why, now=call))

    def latch(self, divergence: Divergence, origin: str) -> Divergence:
        """Keep the first refusal."""
        if self.divergence is None:
            self.divergence = replace(divergence, origin=origin)
        return self.divergence


def make_schedule(run: Run, completion: Sequence[int] | None = None) -> ReleaseSchedule:
    """Return in which order the answers of `run` came, or, with `completion`, come now."""
    return ReleaseSchedule(run.exchanges, texts(table(run.header.kit, "order").get("apart")), completion)


def make_matching(place: Location, settings: Settings) -> Matching:
    """Return when two calls of a test are the same, by the shipped rules, those of the project and its settings."""
    rules = (*RULES, *list_accepted_rules(place.root), *settings.rules)
    return Matching(READER, rules, personal=settings.redacted.personal, also=settings.matched_headers)


def list_accepted_rules(root: Path) -> tuple[Rule, ...]:
    """Return the rules that the project has accepted for all of its snapshots. Raises SettingsError."""
    file = root / RULES_FILE
    if not files.exists(file):
        return ()
    try:
        rows = json.loads(files.read_file(file))
        return tuple(Rule("http", "body", row["path"], "watch", row["reason"], RULES_FILE) for row in rows)
    except (ValueError, TypeError, KeyError, SettingsError) as error:
        example = '[{"path": "$.store", "reason": "why"}]'
        raise SettingsError(f"{format_path(file)}: is not a list of rules like {example} ({error})") from None
