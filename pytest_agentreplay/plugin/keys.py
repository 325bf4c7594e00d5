"""What the door keeps on pytest's config and items, and what it asks of them again and again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pytest_agentreplay.core.orders import Trial
    from pytest_agentreplay.report.findings import Finding
    from pytest_agentreplay.settings import Settings
    from pytest_agentreplay.store.snapshots import Store
    from pytest_agentreplay.workflow.afterwards import Afterwards
    from pytest_agentreplay.workflow.renaming import Suite
    from pytest_agentreplay.workflow.scene import Scene

BASE: pytest.StashKey[Settings] = pytest.StashKey()
STORE: pytest.StashKey[Store] = pytest.StashKey()
SCENE: pytest.StashKey[Scene | None] = pytest.StashKey()
OPEN: pytest.StashKey[Scene | None] = pytest.StashKey()
FINDING: pytest.StashKey[Finding] = pytest.StashKey()
SUITE: pytest.StashKey[Suite] = pytest.StashKey()
AFTERWARDS: pytest.StashKey[Afterwards] = pytest.StashKey()
TMP: pytest.StashKey[Path] = pytest.StashKey()
PROVING: pytest.StashKey[bool] = pytest.StashKey()
WANTED: pytest.StashKey[bool] = pytest.StashKey()
UNDO: pytest.StashKey[Callable[[], None]] = pytest.StashKey()
BODY: pytest.StashKey[bool] = pytest.StashKey()
RESEEDS: pytest.StashKey[bool] = pytest.StashKey()
INNER: pytest.StashKey[BaseException] = pytest.StashKey()
TRIAL: pytest.StashKey[tuple[str, Trial]] = pytest.StashKey()
"""Of an item that replays its test in one order of answers: the id of the test, and the order."""
TRIED: pytest.StashKey[str] = pytest.StashKey()
"""Of the plain item of a test that has other orders: its id."""


def wanted(item: pytest.Item) -> bool:
    """Whether the test opted in: by fixture, by marker, or by folder."""
    known = item.stash.get(WANTED, None)
    if known is None:
        known = (
            "agentreplay" in getattr(item, "fixturenames", ())
            or item.get_closest_marker("agentreplay") is not None
            or item.config.stash[BASE].covers(item.path, item.config.rootpath)
        )
        item.stash[WANTED] = known
    return known


def nodeid_of(item: pytest.Item) -> str:
    """The id of a test, the same in every process: the workers of `xdist --dist loadgroup` append "@group" to it.

    A test that is replayed in other orders of answers is one test, in as many items.
    """
    if TRIAL in item.stash:
        return item.stash[TRIAL][0]
    if getattr(item.config.option, "loadgroup", False) and item.parent is not None:
        return f"{item.parent.nodeid}::{item.name}"
    return item.nodeid


def store_of(config: pytest.Config) -> Store:
    """The session's store of snapshots."""
    if STORE not in config.stash:
        from pytest_agentreplay.store.snapshots import Store

        config.stash[STORE] = Store(config.rootpath, config.stash[BASE].directory, config.stash[BASE].largest)
    return config.stash[STORE]


def afterwards_of(config: pytest.Config) -> Afterwards:
    """What hears of the tests of this process once they are over."""
    if AFTERWARDS not in config.stash:
        from pytest_agentreplay.workflow.afterwards import Afterwards

        config.stash[AFTERWARDS] = Afterwards()
    return config.stash[AFTERWARDS]
