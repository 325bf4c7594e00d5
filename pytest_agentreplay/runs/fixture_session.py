"""The session of one fixture that is wider than a test: its set-up and its finalizers, in a snapshot of its own.

Between the two it is paused, while the tests that share the fixture have sessions of their own.
"""

from __future__ import annotations

import hashlib
import random
import secrets
from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_agentreplay.core.divergence import Divergence, Kind
from pytest_agentreplay.intercept.network.guard import ModelsOnly
from pytest_agentreplay.runs.garbage_collection import uncollected
from pytest_agentreplay.runs.replay_session import UnusableSnapshotSession
from pytest_agentreplay.runs.session_factory import loaded, renamed
from pytest_agentreplay.store import files

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_agentreplay.core.model import JsonObject
    from pytest_agentreplay.intercept.network.guard import Guard
    from pytest_agentreplay.report.finding import Finding
    from pytest_agentreplay.runs.renamed_tests import Suite
    from pytest_agentreplay.runs.run_session import EndedRun, Location, RunSession
    from pytest_agentreplay.settings import Settings
    from pytest_agentreplay.store.snapshots import Store


def begin(
    place: Location, settings: Settings, store: Store, suite: Callable[[], Suite], *, facts: JsonObject, since: int
) -> RunSession:
    """Return the session of a fixture, not yet open.

    `facts` are name and scope of the fixture, for the header of its snapshot; `since` is when the session of pytest
    began, in nanoseconds since the epoch. Raises SnapshotError, while recording, for a snapshot that cannot be read.
    """
    # Of the state that a project may have seeded, so that its fixtures draw the same numbers in every run of it.
    if settings.seed is None:
        settings = settings._replace(seed=seed_here(store.snapshot_id(place.test)))
    if settings.replay_until:  # a fork is of the tests; what they share is as it was recorded
        settings = settings._replace(mode="replay", replay_until=0)
    # Not of it: two workers of xdist that make a database by a random id each must not share it.
    ids = secrets.randbits(64)
    with uncollected():
        missing = not files.exists(place.snapshot)
        if settings.mode == "record" or (missing and settings.record_missing):
            from pytest_agentreplay.runs.fixture_recording import begin_recording

            session: RunSession = begin_recording(place, settings, store, facts | {"ids": ids}, since)
        elif missing:
            session = Unrecorded(place, settings, lambda divergence: renamed(divergence, place, store, suite))
        else:
            session = loaded(place, settings, store, suite)
            header = session.run().header
            kept = header.kit.get("fixture")
            recorded = kept.get("ids") if isinstance(kept, dict) else None
            ids = recorded if isinstance(recorded, int) else ids
            session.summary = replace(session.summary, instance=header.clock)
    session.chance.ids = ids
    session.summary = replace(session.summary, fixture={name: str(value) for name, value in facts.items()})
    return session


def seed_here(test: str) -> int:
    """A seed for `test` that is drawn from the generator of the process, which goes on as if nothing was drawn."""
    state = hashlib.blake2b(repr(random.getstate()).encode(), digest_size=16).digest()
    return int.from_bytes(hashlib.blake2b(state + test.encode(), digest_size=4).digest())


class Unrecorded(UnusableSnapshotSession):
    """A fixture without a snapshot, in a replay. Its calls are refused; all else runs as if nobody intercepted.

    Most of such fixtures never call a model: they start a database, and need the clock and the sockets for it.
    """

    def __init__(self, place: Location, settings: Settings, explain: Callable[[Divergence], Divergence]) -> None:
        """`explain` adds what is worth looking for at the first refusal."""
        missing = Divergence(Kind.NEW, "no snapshot is recorded for this fixture")
        settings = settings._replace(clock="real", children=())
        super().__init__(place, settings, missing, explain=explain, seed=settings.seed or 0)

    def guard(self) -> Guard:
        """Refuses sockets to known model hosts; a model that is called past all boundaries must not answer."""
        return ModelsOnly("deny", allow_hosts=self.settings.allow_hosts, root=str(self.place.root))

    def end_body(self, ended: EndedRun) -> Finding | None:
        """The refusal, if anything was asked; where nothing was, there is nothing to report either."""
        finding = super().end_body(ended)
        self.summary = replace(self.summary, silent=finding is None)
        return finding

    def end(self) -> Finding | None:
        """The same, for what the finalizers asked."""
        finding = super().end()
        self.summary = replace(self.summary, silent=finding is None)
        return finding


def used_by(finding: Finding, tests: list[str]) -> Finding:
    """`finding`, of a fixture, with the tests that share it."""
    from pytest_agentreplay.core.paths import named
    from pytest_agentreplay.report.finding import Line

    listed = ", ".join(tests[:MOST]) + (f" and {len(tests) - MOST} more" if len(tests) > MOST else "")
    lines = (Line("text", f"{finding.test}, shared by {listed}", "fixture"), *finding.lines)
    code, space, rest = finding.headline.partition("] ")
    headline = f"{code}{space}{named(finding.test)}: {rest}"
    return replace(finding, headline=headline, lines=lines)


MOST = 3
"""Tests that a report names of those that share a fixture."""
