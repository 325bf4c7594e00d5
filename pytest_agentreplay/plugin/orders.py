"""A test in other orders of answers: items beside the plain one, one for each, so that xdist and shards share them.

`@pytest.mark.agentreplay(permutations=120)` asks for them; so does `agentreplay check fuzz --orders`, by a file that
says which test. They are collected from the snapshot, in replays alone, and share it with the plain item.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from _pytest import python

from pytest_agentreplay.backends.order_permutations import OrderTrial
from pytest_agentreplay.errors import SettingsError, SnapshotError
from pytest_agentreplay.model.paths import quote_word
from pytest_agentreplay.plugin import keys
from pytest_agentreplay.plugin.keys import get_nodeid, get_settings, store_of
from pytest_agentreplay.plugin.reports import get_summary
from pytest_agentreplay.report.summary import to_plain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_agentreplay.backends.order_permutations import Order
    from pytest_agentreplay.model.exchanges import JsonObject
    from pytest_agentreplay.runs.run_session import EndedRun, RunSession

NO_TESTCASE = (
    "@pytest.mark.agentreplay(permutations=...) is not there for methods of unittest.TestCase, of which pytest makes "
    "one item each.\nWrite the test as a function."
)
WISH: pytest.StashKey[dict[str, Any]] = pytest.StashKey()
PROGRESS: pytest.StashKey[dict[str, OrderProgress]] = pytest.StashKey()


@dataclasses.dataclass
class OrderProgress:
    """What this process knows of one test's orders: how it ended in the recorded one, and which changed something."""

    ended: JsonObject | None = None
    broken: bool = False
    race_number: int | None = None


def repeat_item(item: pytest.Function, test: str, word: str) -> pytest.Function:
    """Return the item of `test` again, named by `word` like a parameter: test_refund[live-3]."""
    # Private: the parameters of an item, with the parts of its id. Older releases call the class `CallSpec2`.
    # https://github.com/pytest-dev/pytest/blob/9.0.0/src/_pytest/python.py
    spec = getattr(item, "callspec", None) or (getattr(python, "CallSpec", None) or vars(python)["CallSpec2"])()
    spec = dataclasses.replace(spec, _idlist=(*spec._idlist, word))
    other: pytest.Function = type(item).from_parent(
        item.parent,
        name=f"{item.originalname}[{spec.id}]",
        callspec=spec,
        fixtureinfo=item._fixtureinfo,  # https://github.com/pytest-dev/pytest/blob/9.0.0/src/_pytest/python.py
        keywords={spec.id: True, word: True},
        originalname=item.originalname,
    )
    other.own_markers = [*item.own_markers]
    other.stash[keys.NODEID] = test
    return other


def order_items(item: Any) -> Iterator[Any]:
    """Yield the item and its orders; for `check fuzz --orders` those of its test alone, the recorded one first."""
    wish = read_wish(item.config)
    if wish is None:
        yield item
    if not isinstance(item, pytest.Function):
        return
    test = get_nodeid(item)
    if wish is not None and wish["test"] != store_of(item.config).snapshot_id(test):
        return
    orders_of_test = get_orders(item, test, wish)
    if orders_of_test:
        item.stash[keys.TRIED] = test
    for number, order in [*([(0, ())] if wish is not None else []), *enumerate(orders_of_test, 1)]:
        if wish is None or wish["only"] in {None, number} or not number:
            yield make_trial_item(item, test, OrderTrial(number, len(orders_of_test), order), wish)


def get_orders(item: pytest.Function, test: str, wish: dict[str, Any] | None) -> list[Order]:
    """Return the other orders of a test; none where snapshot or settings do not fit: the plain item tells why."""
    try:
        settings = get_settings(item)
        limit, seed = (settings.permutations, 0) if wish is None else (wish["limit"], wish["seed"])
        if settings.mode != "replay" or settings.axes.cell != "FF" or settings.adopt or not limit:
            return []
        store = store_of(item.config)
        snapshot = store.load(store.path_of(item.path, test), test)
    except (SettingsError, SnapshotError):
        return []
    from pytest_agentreplay.runs.partial_replay import list_orders

    return list_orders(snapshot.run, limit=limit, seed=seed)


def make_trial_item(
    item: pytest.Function, test: str, trial: OrderTrial, wish: dict[str, Any] | None
) -> pytest.Function:
    """Return the item again, in the order of `trial`."""
    other = repeat_item(item, test, f"order-{trial.number}")
    again = f"pytest {quote_word(other.nodeid)}" if wish is None else wish["again"].format(trial.number)
    other.stash[keys.TRIAL] = trial._replace(again=again)
    return other


def read_wish(config: pytest.Config) -> dict[str, Any] | None:
    """Return what `check fuzz --orders` asks for: test, limit, seed, only, again, and into which file to write."""
    file = config.option.agentreplay_trials
    if file is None:
        return None
    if WISH not in config.stash:
        config.stash[WISH] = json.loads(Path(file).read_bytes())
    return config.stash[WISH]


def get_progress(item: pytest.Item) -> OrderProgress:
    """Return what is known of the orders of the item's test."""
    tests = item.config.stash.setdefault(PROGRESS, {})
    return tests.setdefault(get_nodeid(item), OrderProgress())


def get_trial(item: pytest.Item) -> OrderTrial | None:
    """Return the order of the item; None for the plain one."""
    if keys.TRIAL not in item.stash:
        return None
    return item.stash[keys.TRIAL]._replace(ended=get_progress(item).ended)


def skip_trial(item: pytest.Item) -> None:
    """Skip an order of a test that fails in its recorded one, or of which another order has told the race."""
    trial = get_trial(item)
    if trial is None or not trial.number:
        return
    progress = get_progress(item)
    if progress.broken:
        item.add_marker(pytest.mark.skip(reason="it does not replay in its recorded order: that comes first"))
    elif progress.race_number not in {None, trial.number}:
        item.add_marker(pytest.mark.skip(reason=f"order-{progress.race_number} has found a race: that comes first"))


def remember_end(item: pytest.Item, run_session: RunSession, ended: EndedRun) -> None:
    """Keep how the test ended: in the recorded order, for the others; in another, when that has changed something."""
    trial, progress = get_trial(item), get_progress(item)
    if trial is not None and trial.number:
        progress.race_number = trial.number if run_session.summary.code else progress.race_number
    elif run_session.mode == "replay":
        progress.broken = bool(run_session.summary.code)
        redact_outcome = getattr(run_session, "redact_outcome", None)
        progress.ended = None if redact_outcome is None else redact_outcome(ended)


class Trials:
    """Hands what the orders of one test have told to `agentreplay check fuzz --orders`."""

    def __init__(self, config: pytest.Config) -> None:
        wish = read_wish(config) or {}
        self.into = wish["into"]  # the file that the command reads
        self.rows: list[dict[str, Any]] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the result of an order; of what failed also the report of pytest."""
        summary = get_summary(report)
        if summary is not None and summary.trial is not None:
            self.rows.append({"trial": to_plain(summary.trial)})
        if report.failed:
            self.rows.append({"complaint": report.longreprtext, "of": report.nodeid})

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the rows, once: the workers of xdist have sent theirs to the controller."""
        if not hasattr(session.config, "workeroutput"):
            from pytest_agentreplay.snapshots.store import files

            states = [{"state": state} for state in session.config.stash[keys.REPORT].states]
            files.write_whole(Path(self.into), json.dumps([*self.rows, *states]))
