"""Decides how one test, or one fixture that is wider than a test, runs: from its settings and its snapshot.

The session of a fixture has the set-up and the finalizers of the fixture, in a snapshot of its own. Between the two it
is paused, while the tests that share the fixture have sessions of their own.
"""

from __future__ import annotations

import functools
import hashlib
import random
import secrets
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_agentreplay import errors
from pytest_agentreplay.model.divergence import Divergence, Kind
from pytest_agentreplay.model.paths import quote_word, selecting
from pytest_agentreplay.runs import pause_garbage_collection
from pytest_agentreplay.snapshots.codec import Snapshot, parsing
from pytest_agentreplay.snapshots.kit import table
from pytest_agentreplay.snapshots.store import files, format_path

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from pytest_agentreplay.model.exchanges import Call, JsonObject
    from pytest_agentreplay.report.finding import Finding
    from pytest_agentreplay.runs.run_session import Location, RunSession
    from pytest_agentreplay.runs.unused_snapshots import Suite
    from pytest_agentreplay.settings import Settings
    from pytest_agentreplay.snapshots.store.snapshots import Store

    Replays = Callable[[Location, Settings, Snapshot, Sequence[str]], RunSession]

# Tests that a report names of those that share a fixture.
MOST_TESTS = 3


@pause_garbage_collection()
def begin_session(
    place: Location, settings: Settings, store: Store, suite: Callable[[], Suite], replays: Replays | None = None
) -> RunSession:
    """Return the session of one test, not yet open. A snapshot that cannot be used makes one that refuses every call.

    `suite` gives what is known of the other tests, for one that was renamed; `replays` makes the session of a plain
    replay, or of a live run.

    Recording raises SnapshotError for a snapshot that is there and cannot be read: it is never recorded over.
    """
    if settings.mode == "record" and not settings.record_from:
        from pytest_agentreplay.runs.recording_session import RecordingSession

        return RecordingSession(place, settings, store)
    from pytest_agentreplay.runs.offline_session import UnusableSnapshotSession

    try:
        snapshot = store.load(place.snapshot, place.test)
        edited = [] if snapshot.sealed else store.list_edits(place.snapshot)  # reads the file again: rarely needed
        if edited and (settings.strict or settings.adopt):
            reason = f"edited after it was recorded: {', '.join(edited)}"
            raise errors.SnapshotEdited(reason, file=format_path(place.snapshot))
    except errors.SnapshotMissing:
        if settings.record_missing and settings.trial is None:
            from pytest_agentreplay.runs.recording_session import RecordingSession

            recording = RecordingSession(place, settings, store)
            recording.note(missing=True)
            return recording
        missing = Divergence(Kind.NEW, "no snapshot is recorded for this test")
        explain = functools.partial(add_former_name, place=place, settings=settings, store=store, suite=suite)
        return UnusableSnapshotSession(place, settings, missing, explain=explain)
    except errors.SnapshotError as error:
        return UnusableSnapshotSession(place, settings, describe_unusable(error, place.test, suite), at_once=True)
    if settings.record_from or settings.adopt or settings.trial is not None:
        from pytest_agentreplay.runs import partial_replay

        if settings.record_from:
            return partial_replay.ForkSession(place, settings, store)
        if settings.adopt:
            return partial_replay.AdoptingSession(place, settings, store, snapshot)
        return partial_replay.OrderExploration(place, settings, snapshot, edited)
    if replays is not None:
        return replays(place, settings, snapshot, edited)
    from pytest_agentreplay.runs.replay_session import ReplaySession

    return ReplaySession(place, settings, snapshot, edited)


def add_former_name(
    divergence: Divergence, place: Location, settings: Settings, store: Store, suite: Callable[[], Suite]
) -> tuple[Divergence, str]:
    """Return the divergence of a missing snapshot, and the former name of the test, whose snapshot it offers, or ""."""
    from pytest_agentreplay.runs.offline_session import make_matching

    matching, now = make_matching(place, settings), divergence.now

    def begins_alike(file: Path) -> bool:
        call = read_first_call(file)
        return call is not None and now is not None and matching.key_alone(call) == matching.key_alone(now)

    snapshots = store.find_around(place.root / place.test.partition("::")[0])
    if (former := suite().find_former(place.test, snapshots, begins_alike)) is None:
        return divergence, ""
    from pytest_agentreplay.runs.unused_snapshots import move_command

    file, old = former
    detail = f"{format_path(file)} is that of {old}, which is gone: was it renamed?"
    return replace(divergence, detail=(detail,), hints=(f"if it was renamed: {move_command(old, place.test)}",)), old


@functools.lru_cache(maxsize=1024)
def read_first_call(file: Path) -> Call | None:
    """Return the first call of a snapshot near a test that has none; None where it cannot be read."""
    from pytest_agentreplay.snapshots.store.reading import load

    with suppress(errors.SnapshotError):
        return next((exchange.call for exchange in load(file).run.exchanges), None)
    return None


def describe_unusable(error: errors.SnapshotError, test: str, suite: Callable[[], Suite]) -> Divergence:
    """Return the divergence for a snapshot that is there and cannot be used, with what helps."""
    reason = str(error).removeprefix(f"{error.file}: ")
    match error:
        case errors.SnapshotEdited():
            from pytest_agentreplay.report.finding import format_edit_hints

            hints: tuple[str, ...] = format_edit_hints(error.file)
        case errors.SnapshotUnreadable() if reason.startswith(f"{error.place}: {parsing.CONFLICT}"):
            # A recording refuses a file with marks, so one side has to be there; a merge that is over has no sides.
            side = f"git checkout --ours {quote_word(error.file)} && pytest --snapshot-record {selecting(test)}"
            hints = (f"while the merge is open, take one side whole, and record it again: {side}",)
        case errors.SnapshotMisplaced() if not suite().has(error.test):
            from pytest_agentreplay.runs.unused_snapshots import move_command

            hints = (f"if it was renamed: {move_command(error.test, test)}",)
        case _:
            hints = ()
    return Divergence(Kind.UNREADABLE, reason, hints=hints)


@pause_garbage_collection()
def begin_fixture_session(
    place: Location, settings: Settings, store: Store, suite: Callable[[], Suite], *, facts: JsonObject, since: int
) -> RunSession:
    """Return the session of a fixture, not yet open.

    `facts` are name and scope of the fixture, for the header of its snapshot; `since` is when the session of pytest
    began, in nanoseconds since the epoch. Raises SnapshotError, while recording, for a snapshot that cannot be read.
    """
    # From the state that a project may have seeded, so that its fixtures draw the same numbers in each of its runs.
    if settings.seed is None:
        settings = settings._replace(seed=seed_from_state(store.snapshot_id(place.test)))
    if settings.record_from:  # a fork is of the tests; what they share is as it was recorded
        settings = settings._replace(mode="replay", record_from=0)
    # Not from that state: two workers of xdist that make a database by a random id each must not share it.
    ids = secrets.randbits(64)
    missing = not files.exists(place.snapshot)
    if settings.mode == "record" or (missing and settings.record_missing):
        from pytest_agentreplay.runs.recording_session import FixtureRecording

        recording = FixtureRecording(place, settings, store, facts | {"ids": ids}, since)
        recording.note(missing=settings.mode != "record")
        session: RunSession = recording
    elif missing:
        from pytest_agentreplay.runs.offline_session import UnrecordedFixtureSession

        explain = functools.partial(add_former_name, place=place, settings=settings, store=store, suite=suite)
        session = UnrecordedFixtureSession(place, settings, explain)
    else:
        session = begin_session(place, settings, store, suite)
        header = session.run().header
        if isinstance(recorded := table(header.kit, "fixture").get("ids"), int):
            ids = recorded
        session.summary = replace(session.summary, instance=header.clock)
    session.chance.ids = ids
    session.summary = replace(session.summary, fixture={name: str(value) for name, value in facts.items()})
    return session


def seed_from_state(test: str) -> int:
    """Return a seed for `test` from the state of the process's generator, which goes on as if nothing was drawn."""
    state = hashlib.blake2b(repr(random.getstate()).encode(), digest_size=16).digest()
    return int.from_bytes(hashlib.blake2b(state + test.encode(), digest_size=4).digest())


def add_users(finding: Finding, tests: list[str]) -> Finding:
    """Return `finding`, of a fixture, with the tests that share it."""
    from pytest_agentreplay.model.paths import name_fixture
    from pytest_agentreplay.report.finding import Line

    listed = ", ".join(tests[:MOST_TESTS]) + (f" and {len(tests) - MOST_TESTS} more" if len(tests) > MOST_TESTS else "")
    lines = (Line("text", f"{finding.test}, shared by {listed}", "fixture"), *finding.lines)
    code, space, rest = finding.headline.partition("] ")
    headline = f"{code}{space}{name_fixture(finding.test)}: {rest}"
    return replace(finding, headline=headline, lines=lines)
