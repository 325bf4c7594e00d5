"""What the plugin keeps on pytest's config and items, and what it often asks of them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from pytest_agentreplay.errors import SettingsError, SnapshotError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_agentreplay.backends.order_permutations import OrderTrial
    from pytest_agentreplay.redaction.policy import Redactor
    from pytest_agentreplay.redaction.redaction import Redaction
    from pytest_agentreplay.report.finding import Finding
    from pytest_agentreplay.runs.cassettes.watching import CassetteWatch
    from pytest_agentreplay.runs.fuzz.plan import Trial
    from pytest_agentreplay.runs.late_calls import LateCalls
    from pytest_agentreplay.runs.run_session import RunSession
    from pytest_agentreplay.runs.unused_snapshots import Suite
    from pytest_agentreplay.settings import Settings
    from pytest_agentreplay.snapshots.store.snapshots import Store

T = TypeVar("T")

CLOSING = "agentreplay-closing"  # the plugin that closes the sandbox, where somebody asked for it
PROCESSES = "agentreplay-processes"  # the plugin that runs tests that leave state in processes of their own
LIVE_SESSION = "AGENTREPLAY_LIVE_SESSION"  # the variable by which such a process shares the ledger of live runs

# Of the config.
SETTINGS: pytest.StashKey[Settings] = pytest.StashKey()
STORE: pytest.StashKey[Store] = pytest.StashKey()
SUITE: pytest.StashKey[Suite] = pytest.StashKey()
REDACTION: pytest.StashKey[Redaction] = pytest.StashKey()
LATE_CALLS: pytest.StashKey[LateCalls] = pytest.StashKey()
OPEN: pytest.StashKey[RunSession | None] = pytest.StashKey()  # the session of the test that runs
# Of the process that proves recordings: by line of the project that read the shifted clock, what to say of it.
DATE_READS: pytest.StashKey[dict[str, str]] = pytest.StashKey()
# While no test runs after one that was intercepted: to be called when the next one begins.
NEXT: pytest.StashKey[Callable[[], None]] = pytest.StashKey()
# Whether pytest-randomly is to reset its seed again, which it must not do inside of a test.
RESEEDS: pytest.StashKey[bool] = pytest.StashKey()
# Their classes are in modules that import this one.
REPORT: pytest.StashKey[Any] = pytest.StashKey()  # the `session_report.SessionReport`
FIXTURES: pytest.StashKey[Any] = pytest.StashKey()  # the `fixtures.FixtureSessions` of the process, where there are any
LIVE_RUNS: pytest.StashKey[Any] = pytest.StashKey()  # the `live_items.LiveItems` of a session with live runs
CAPTURED: pytest.StashKey[Any] = pytest.StashKey()  # the `groups.RunGroups` of a session with captured runs
CASSETTES: pytest.StashKey[CassetteWatch] = pytest.StashKey()  # of a session with --vcr

# Of an item.
OPTED_IN: pytest.StashKey[bool] = pytest.StashKey()
NODEID: pytest.StashKey[str] = pytest.StashKey()  # the id of its test, of which it may be one of several items
# Its session, from its begin to its last report; None in mode off.
RUN_SESSION: pytest.StashKey[RunSession | None] = pytest.StashKey()
FINDING: pytest.StashKey[Finding] = pytest.StashKey()  # what it failed with
# What its set-up shall fail with, because it cannot be recorded or replayed.
UNFIT: pytest.StashKey[BaseException] = pytest.StashKey()
BODY: pytest.StashKey[bool] = pytest.StashKey()  # whether its body runs
SUBTEST_FAILURE: pytest.StashKey[BaseException] = pytest.StashKey()
PROVING: pytest.StashKey[bool] = pytest.StashKey()  # whether it is replayed to prove its recording
UNDO: pytest.StashKey[Callable[[], None]] = pytest.StashKey()  # withdraws its recording, where it is tried again
# The redactions of its run and of the proof of that, which know what is not to be shown.
REDACTIONS: pytest.StashKey[list[Redaction]] = pytest.StashKey()
TRIAL: pytest.StashKey[OrderTrial] = pytest.StashKey()  # the order of answers in which it replays its test
TRIED: pytest.StashKey[str] = pytest.StashKey()  # of the plain item of a test that has other orders: its id
NEIGHBOUR: pytest.StashKey[Trial] = pytest.StashKey()  # the neighbour of its recording on which it replays its test
# Of one run of a test that goes live: the cell (see `Axes`), and which of its runs.
LIVE: pytest.StashKey[tuple[str, int]] = pytest.StashKey()


def take_out(stash: pytest.Stash, key: pytest.StashKey[T]) -> T | None:
    """Return what stands under a key, and forget it; None where nothing does."""
    value = stash.get(key, None)
    if key in stash:
        del stash[key]
    return value


def begin_next(config: pytest.Config) -> None:
    """The next test begins, or the session ends: tools may be called again."""
    if (begins := take_out(config.stash, NEXT)) is not None:
        begins()


def is_opted_in(item: pytest.Item) -> bool:
    """Return whether the test opted in: by fixture, by marker, or by folder. A case has its own way."""
    opted_in = item.stash.get(OPTED_IN, None)
    if opted_in is None:
        opted_in = "agentreplay_case" not in item.keywords and (
            "agentreplay" in getattr(item, "fixturenames", ())
            or item.get_closest_marker("agentreplay") is not None
            or item.config.stash[SETTINGS].covers(item.path, item.config.rootpath)
            or is_recorded_late(item)
        )
        item.stash[OPTED_IN] = opted_in
    return opted_in


def is_recorded_late(item: pytest.Item) -> bool:
    """Return whether the test was recorded from where it asked for the fixture on: a replay then begins before it.

    So what the test does before, which was not recorded, is refused and does not run.
    """
    settings, place = item.config.stash[SETTINGS], item.path
    # Asked first: without snapshots of its file the store is not loaded.
    if settings.mode != "replay" or not (place.parent / settings.dir / place.stem).is_dir():
        return False
    try:
        snapshot = store_of(item.config).load(store_of(item.config).path_of(place, get_nodeid(item)), get_nodeid(item))
    except SnapshotError:
        return False
    return snapshot.run.header.kit.get("late") is True


def get_settings(node: pytest.Item | pytest.Collector, *, proving: bool = False) -> Settings:
    """Return the settings of what is at a node: those of the session, with its markers. Raises SettingsError."""
    markers = [dict(mark.kwargs) for mark in node.iter_markers("agentreplay")]
    return node.config.stash[SETTINGS].for_test(markers, proving=proving)


def get_nodeid(item: pytest.Item) -> str:
    """Return the id of a test, the same in every process.

    The workers of `xdist --dist loadgroup` append "@group" to the node id. A test that is replayed in other orders of
    answers, or goes live, is one test in several items. A secret in it is a placeholder.
    """
    if NODEID in item.stash:
        return item.stash[NODEID]
    nodeid = item.nodeid
    if getattr(item.config.option, "loadgroup", False) and item.parent is not None:
        nodeid = f"{item.parent.nodeid}::{item.name}"
    item.stash[NODEID] = redact_id(item, nodeid) if "[" in nodeid else nodeid
    return item.stash[NODEID]


def redact_id(item: pytest.Item, nodeid: str) -> str:
    """Return an id with the parameters of `item` as it may be stored: a secret among them is a placeholder."""
    from pytest_agentreplay.runs.redact.redaction_setup import stored_id

    indices = getattr(getattr(item, "callspec", None), "indices", {})
    nth = "-".join(map(str, indices.values())) or "0"
    return stored_id(nodeid, get_redaction(item.config), lambda: make_redaction(item.config), nth)


def get_redaction(config: pytest.Config) -> Redaction:
    """Return what is known as a secret of the whole session, and hidden where no run of a test knows more."""
    if REDACTION not in config.stash:
        config.stash[REDACTION] = make_redaction(config)
    return config.stash[REDACTION]


def make_redaction(config: pytest.Config) -> Redaction:
    """Return the same as `get_redaction`, with nothing numbered yet."""
    from pytest_agentreplay.runs.redact.redaction_setup import redaction_for

    policy = config.stash[SETTINGS].redacted
    try:
        return redaction_for(os.environ, policy=policy, redactors=get_redactors(config))
    except SettingsError:  # each guarded test fails with it
        return redaction_for(os.environ, policy=policy)


def get_redactors(config: pytest.Config) -> dict[str, Redactor | None]:
    """Return the project's functions that find what nobody else may read. Raises SettingsError for what is none."""
    from pytest_agentreplay.plugin import conftests

    return conftests.redactors_of(config.hook)


def store_of(config: pytest.Config) -> Store:
    """Return the session's store of snapshots."""
    if STORE not in config.stash:
        from pytest_agentreplay.snapshots.store.snapshots import Store

        config.stash[STORE] = Store(config.rootpath, config.stash[SETTINGS].dir, config.stash[SETTINGS].largest)
    return config.stash[STORE]


def get_late_calls(config: pytest.Config) -> LateCalls:
    """Return what hears of the tests of this process once they are over."""
    if LATE_CALLS not in config.stash:
        from pytest_agentreplay.runs.late_calls import LateCalls

        config.stash[LATE_CALLS] = LateCalls()
    return config.stash[LATE_CALLS]
