"""Decides how one test is met, from its settings and its snapshot."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_agentreplay.core.divergence import Divergence, Kind
from pytest_agentreplay.errors import SnapshotEdited, SnapshotError, SnapshotMissing
from pytest_agentreplay.workflow.adopting import Adopting
from pytest_agentreplay.workflow.recording import Recording
from pytest_agentreplay.workflow.replaying import Refusing, Replay

if TYPE_CHECKING:
    from pytest_agentreplay.settings import Settings
    from pytest_agentreplay.store.snapshots import Store
    from pytest_agentreplay.workflow.scene import Place, Scene


def begin(place: Place, settings: Settings, store: Store) -> Scene:
    """The scene of one test, not yet open. A snapshot that cannot be used makes one that refuses every call.

    Recording raises SnapshotError for a snapshot that is there and cannot be read: it is never recorded over.
    """
    if settings.mode == "record":
        return Recording(place, settings, store)
    try:
        snapshot = store.load(place.snapshot, place.test)
        if not snapshot.sealed and settings.strict:
            edited = ", ".join(store.edited(place.snapshot)) or "the header"
            raise SnapshotEdited(f"{edited} differs from what was sealed", file=str(place.snapshot))
    except SnapshotMissing:
        return Refusing(place, settings, Divergence(Kind.NEW, "no snapshot is recorded for this test"))
    except SnapshotError as error:
        return Refusing(place, settings, Divergence(Kind.UNREADABLE, str(error)), at_once=True)
    if settings.adopt:
        return Adopting(place, settings, store, snapshot)
    return Replay(place, settings, snapshot)
