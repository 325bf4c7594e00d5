"""What the plugin keeps on pytest's config and items, and what it often asks of them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from pytest_agentreplay.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_agentreplay.core.order_permutations import OrderTrial
    from pytest_agentreplay.core.redaction import Redaction
    from pytest_agentreplay.core.redaction.policy import Redactor
    from pytest_agentreplay.report.finding import Finding
    from pytest_agentreplay.runs.late_calls import LateCalls
    from pytest_agentreplay.runs.renamed_tests import Suite
    from pytest_agentreplay.runs.run_session import RunSession
    from pytest_agentreplay.settings import Settings
    from pytest_agentreplay.store.snapshots import Store

BASE: pytest.StashKey[Settings] = pytest.StashKey()
STORE: pytest.StashKey[Store] = pytest.StashKey()
RUN_SESSION: pytest.StashKey[RunSession | None] = pytest.StashKey()
OPEN: pytest.StashKey[RunSession | None] = pytest.StashKey()
FINDING: pytest.StashKey[Finding] = pytest.StashKey()
SUITE: pytest.StashKey[Suite] = pytest.StashKey()
AFTERWARDS: pytest.StashKey[LateCalls] = pytest.StashKey()
PROVING: pytest.StashKey[bool] = pytest.StashKey()
FIXTURES: pytest.StashKey[Any] = pytest.StashKey()
"""The `fixtures.Fixtures` of the process, where there are any; that module imports this one."""
HIDING: pytest.StashKey[list[Redaction]] = pytest.StashKey()
"""Of an item: the redactions of its run and of the proof of that, which know what is not to be shown."""
NODEID: pytest.StashKey[str] = pytest.StashKey()
REDACTION: pytest.StashKey[Redaction] = pytest.StashKey()
WANTED: pytest.StashKey[bool] = pytest.StashKey()
UNDO: pytest.StashKey[Callable[[], None]] = pytest.StashKey()
UNFIT: pytest.StashKey[BaseException] = pytest.StashKey()
BODY: pytest.StashKey[bool] = pytest.StashKey()
RESEEDS: pytest.StashKey[bool] = pytest.StashKey()
INNER: pytest.StashKey[BaseException] = pytest.StashKey()
NEXT: pytest.StashKey[Callable[[], None]] = pytest.StashKey()
"""Of the config, while no test runs after one that was intercepted: to be called when the next one begins."""
TEST: pytest.StashKey[str] = pytest.StashKey()
"""Of an item that is one of several of its test: the id of the test."""
TRIAL: pytest.StashKey[OrderTrial] = pytest.StashKey()
"""Of an item that replays its test in one order of answers: that order."""
LIVE: pytest.StashKey[tuple[str, int]] = pytest.StashKey()
"""Of an item that is one run of a test that goes live: the cell (see `Axes`), and which of its runs."""
TRIED: pytest.StashKey[str] = pytest.StashKey()
"""Of the plain item of a test that has other orders: its id."""
LIVE_RUNS: pytest.StashKey[Any] = pytest.StashKey()
"""Of the config: the `live_items.LiveItems` of a session with live runs; that module imports this one."""


def next_begins(config: pytest.Config) -> None:
    """The next test begins, or the session ends: tools may be called again."""
    if (begins := config.stash.get(NEXT, None)) is not None:
        del config.stash[NEXT]
        begins()


def is_opted_in(item: pytest.Item) -> bool:
    """Whether the test opted in: by fixture, by marker, or by folder. A case has its own way."""
    opted_in = item.stash.get(WANTED, None)
    if opted_in is None:
        opted_in = "agentreplay_case" not in item.keywords and (
            "agentreplay" in getattr(item, "fixturenames", ())
            or item.get_closest_marker("agentreplay") is not None
            or item.config.stash[BASE].covers(item.path, item.config.rootpath)
        )
        item.stash[WANTED] = opted_in
    return opted_in


def nodeid_of(item: pytest.Item) -> str:
    """The id of a test, the same in every process: the workers of `xdist --dist loadgroup` append "@group" to it.

    A test that is replayed in other orders of answers, or goes live, is one test in several items. A secret in it is a
    placeholder.
    """
    if TEST in item.stash:
        return item.stash[TEST]
    if NODEID in item.stash:
        return item.stash[NODEID]
    nodeid = item.nodeid
    if getattr(item.config.option, "loadgroup", False) and item.parent is not None:
        nodeid = f"{item.parent.nodeid}::{item.name}"
    if "[" in nodeid:
        from pytest_agentreplay.redact.redaction_factory import stored_id

        config, indices = item.config, getattr(getattr(item, "callspec", None), "indices", {})
        nth = "-".join(map(str, indices.values())) or "0"
        nodeid = stored_id(nodeid, redaction_of(config), lambda: new_redaction(config), nth)
    item.stash[NODEID] = nodeid
    return nodeid


def redaction_of(config: pytest.Config) -> Redaction:
    """What is known as a secret of the whole session, and hidden where no run of a test knows more."""
    if REDACTION not in config.stash:
        config.stash[REDACTION] = new_redaction(config)
    return config.stash[REDACTION]


def new_redaction(config: pytest.Config) -> Redaction:
    """The same, with nothing numbered yet."""
    from pytest_agentreplay.redact.redaction_factory import redaction_for

    policy = config.stash[BASE].redacted
    try:
        return redaction_for(os.environ, policy=policy, redactors=redactors_of(config))
    except SettingsError:  # each guarded test fails with it
        return redaction_for(os.environ, policy=policy)


def redactors_of(config: pytest.Config) -> dict[str, Redactor | None]:
    """The functions of the project that find what nobody else may read. Raises SettingsError for what is none."""
    from pytest_agentreplay import conftests

    return conftests.redactors_of(config.hook)


def store_of(config: pytest.Config) -> Store:
    """The session's store of snapshots."""
    if STORE not in config.stash:
        from pytest_agentreplay.store.snapshots import Store

        config.stash[STORE] = Store(config.rootpath, config.stash[BASE].directory, config.stash[BASE].largest)
    return config.stash[STORE]


def afterwards_of(config: pytest.Config) -> LateCalls:
    """What hears of the tests of this process once they are over."""
    if AFTERWARDS not in config.stash:
        from pytest_agentreplay.runs.late_calls import LateCalls

        config.stash[AFTERWARDS] = LateCalls()
    return config.stash[AFTERWARDS]
