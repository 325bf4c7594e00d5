"""Decides how one test runs, from its settings and its snapshot."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_agentreplay.core.divergence import Divergence, Kind
from pytest_agentreplay.core.paths import quoted
from pytest_agentreplay.errors import SnapshotEdited, SnapshotError, SnapshotMisplaced, SnapshotMissing
from pytest_agentreplay.runs.garbage_collection import uncollected
from pytest_agentreplay.store.display_path import format_path

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_agentreplay.codec import Snapshot
    from pytest_agentreplay.report.finding import Finding
    from pytest_agentreplay.runs.renamed_tests import Suite
    from pytest_agentreplay.runs.run_session import Location, RunSession
    from pytest_agentreplay.settings import Settings
    from pytest_agentreplay.store.snapshots import Store

    Replays = Callable[[Location, Settings, Snapshot, Sequence[str]], RunSession]


def begin(
    place: Location, settings: Settings, store: Store, suite: Callable[[], Suite], replays: Replays | None = None
) -> RunSession:
    """The session of one test, not yet open. A snapshot that cannot be used makes one that refuses every call.

    `suite` gives what is known of the other tests, for one that was renamed; `replays` makes the session of a plain
    replay, or of a live run.

    Recording raises SnapshotError for a snapshot that is there and cannot be read: it is never recorded over.
    """
    with uncollected():
        return loaded(place, settings, store, suite, replays)


def loaded(
    place: Location, settings: Settings, store: Store, suite: Callable[[], Suite], replays: Replays | None = None
) -> RunSession:
    """The session for what the store holds."""
    if settings.mode == "record" and not settings.replay_until:
        from pytest_agentreplay.runs.recording_session import RecordingSession

        return RecordingSession(place, settings, store)
    from pytest_agentreplay.runs.replay_session import ReplaySession, UnusableSnapshotSession

    try:
        snapshot = store.load(place.snapshot, place.test)
        edited = [] if snapshot.sealed else store.edited(place.snapshot)
        if edited and (settings.strict or settings.adopt):
            reason = f"{', '.join(edited)} was edited after it was sealed"
            raise SnapshotEdited(reason, file=format_path(place.snapshot))
    except SnapshotMissing:
        if settings.record_missing and settings.trial is None:
            from pytest_agentreplay.runs.recording_session import RecordingSession, recording_of_missing

            return recording_of_missing(RecordingSession(place, settings, store))
        missing = Divergence(Kind.NEW, "no snapshot is recorded for this test")
        return UnusableSnapshotSession(
            place, settings, missing, explain=lambda divergence: renamed(divergence, place, store, suite)
        )
    except SnapshotError as error:
        return UnusableSnapshotSession(place, settings, unusable(error, place.test, suite), at_once=True)
    if settings.replay_until:
        from pytest_agentreplay.runs.fork_session import ForkSession

        return ForkSession(place, settings, store)
    if settings.adopt:
        from pytest_agentreplay.runs.adopting import AdoptingSession

        return AdoptingSession(place, settings, store, snapshot)
    if settings.trial is not None:
        from pytest_agentreplay.runs.order_exploration import OrderExploration

        return OrderExploration(place, settings, settings.trial, snapshot, edited)
    return (replays or ReplaySession)(place, settings, snapshot, edited)


def renamed(divergence: Divergence, place: Location, store: Store, suite: Callable[[], Suite]) -> Divergence:
    """The divergence of a missing snapshot, with the one that may be the test's own under its former name."""
    former = suite().former(place.test, store.around(place.root / place.test.partition("::")[0]))
    if former is None:
        return divergence
    from pytest_agentreplay.runs.renamed_tests import mv

    file, old = former
    detail = f"{format_path(file)} is that of {old}, which is gone: was it renamed?"
    return replace(divergence, detail=(detail,), hints=(f"if it was renamed: {mv(old, place.test)}",))


def unusable(error: SnapshotError, test: str, suite: Callable[[], Suite]) -> Divergence:
    """The message about a snapshot that is there and cannot be used, with what helps."""
    reason = str(error).removeprefix(f"{error.file}: ")
    file = quoted(error.file)
    match error:
        case SnapshotEdited():
            hints: tuple[str, ...] = (
                f"if the edit is meant: agentreplay reseal {file} --reason WHY",
                f"else take the committed one: git restore {file}",
            )
        case SnapshotMisplaced() if not suite().has(error.test):
            from pytest_agentreplay.runs.renamed_tests import mv

            hints = (f"if it was renamed: {mv(error.test, test)}",)
        case _:
            hints = ()
    return Divergence(Kind.UNREADABLE, reason, hints=hints)


def refused(error: SnapshotError, test: str, suite: Callable[[], Suite]) -> Finding:
    """The finding of a test that cannot be recorded: what stands in its snapshot's place would be lost."""
    from pytest_agentreplay.report import findings

    return findings.describe_divergence(unusable(error, test, suite), test, {"file": error.file})
