"""Captured runs as items, `STORE::NAME/ID`: each against the code of today, which `captured_runs` does.

The store is listed once, by the process that the user started; the workers of pytest-xdist get the list. An item reads
its run when its turn has come, and keeps nothing of it but a row.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from traceback import extract_tb
from typing import TYPE_CHECKING, Any

import pytest

from pytest_agentreplay.compare.matching.new_values import list_ids
from pytest_agentreplay.errors import AgentReplayError, CannotWrite, RunnerError, SettingsError, SnapshotError
from pytest_agentreplay.intercept.ordering.overtime import let_end
from pytest_agentreplay.model.divergence import Divergence, Kind
from pytest_agentreplay.plugin import keys
from pytest_agentreplay.plugin.cases import find_evaluator
from pytest_agentreplay.plugin.session_report import fail_session, is_tried_again
from pytest_agentreplay.report.escape import escape_output
from pytest_agentreplay.report.finding import format_finding
from pytest_agentreplay.report.findings import describe_comparison
from pytest_agentreplay.runs.captured.captured_replay import CapturedResult, Change, replay_captured
from pytest_agentreplay.runs.captured.groups import RunGroups, sample
from pytest_agentreplay.snapshots import codec
from pytest_agentreplay.snapshots.store.files import append_text
from pytest_agentreplay.snapshots.store.run_store import RunEntry, RunStore

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

PLUGIN = "agentreplay-captured"
PROPERTIES = ("agentreplay.level", "agentreplay.group", "agentreplay.bytes", "agentreplay.new_values")
"""What a report says of a run, as JUnit files have it."""
LOGIN = re.compile(r"(?<=://)[^/@]*@")
ITEM = re.compile(r"(.+)::([^:\]]+)")
"""A store and one of its runs: "runs::refund/ab12", but not "sftp://[::1]/runs" or "simplecache::s3://bucket"."""
PACKAGE = Path(__file__).parents[1]


class CapturedItems:
    """The captured runs of one session, in each of its processes."""

    def __init__(self, config: pytest.Config, store: str | None) -> None:
        """Nothing is listed yet. Raises UsageError for a setting without a store."""
        if store is None:
            raise pytest.UsageError("--agentreplay-sample and --agentreplay-runs-strict need --agentreplay-runs=STORE")
        item = ITEM.fullmatch(store)
        store, self.chosen = item.groups() if item else (store, "")
        try:
            self.store = RunStore(store)
        except SettingsError as error:
            raise pytest.UsageError(f"--agentreplay-runs: {error}") from None
        self.config = config
        self.name = LOGIN.sub("", store).rstrip("/")
        self.ids: dict[str, list[tuple[RunEntry, set[str]]]] = {}
        self.groups = config.stash[keys.CAPTURED] = RunGroups(self.name)
        if config.args_source is not config.ArgsSource.ARGS:
            config.args[:] = []  # no test was named: the runs alone

    @cached_property
    def entries(self) -> list[RunEntry]:
        """The runs of the session. Raises UsageError for a store without any."""
        if (listed := getattr(self.config, "workerinput", {}).get(PLUGIN)) is not None:
            return [RunEntry(*row) for row in listed]
        try:
            entries = [*self.store.list_runs()]
            if not any(not entry.problem for entry in entries):
                why = f": {entries[0].where} {entries[0].problem}" if entries else ", which lie at NAME/DAY/ID.run.json"
                raise pytest.UsageError(f"--agentreplay-runs={self.name}: there are no captured runs{why}")
            count = self.config.stash[keys.SETTINGS].sample
            return sample(entries, count) if count else entries
        except AgentReplayError as error:
            raise pytest.UsageError(f"--agentreplay-runs: {error}") from None

    @cached_property
    def chosen_runs(self) -> dict[str, RunEntry]:
        """By their names, the runs that are items. Raises UsageError where there is none of the name that was typed."""
        runs: dict[str, RunEntry] = {}
        for entry in self.entries:
            name = f"{entry.name}/{entry.id}" if entry.id else entry.where.removeprefix(f"{self.store.where}/")
            if name in runs:  # a service that names its runs itself may take a name again on another day
                name = f"{entry.name}/{entry.day}/{entry.id}"
            runs[name] = entry
        if not self.chosen:
            return runs
        if self.chosen not in runs:
            raise pytest.UsageError(f"--agentreplay-runs={self.name}: there is no run {self.chosen}")
        return {self.chosen: runs[self.chosen]}

    def find_other_ids(self, entry: RunEntry) -> set[str]:
        """Return the ids in another run of the same entry: what stands there too is new in neither."""
        if entry.name not in self.ids:
            others = [other for other in self.entries if other.name == entry.name and not other.problem][:2]
            self.ids[entry.name] = []
            for other in others:
                with suppress(SnapshotError):  # it may have been rotated away by now
                    self.ids[entry.name].append((other, list_ids(self.store.read_run(other).decode(errors="replace"))))
        return next((ids for other, ids in self.ids[entry.name] if other is not entry), set())

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self) -> None:
        """List the store, before workers are started."""
        assert self.chosen_runs

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Have the workers of xdist take the same runs."""
        node.workerinput[PLUGIN] = [(x.where, x.name, x.day, x.id, x.size, {}, x.problem) for x in self.entries]

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, session: pytest.Session, items: list[pytest.Item]) -> None:
        """Add an item for each run, before anybody selects."""
        collector = CapturedStore.from_parent(session, name=self.name, nodeid=self.name)
        added = [CapturedItem.of(collector, name, entry, self) for name, entry in self.chosen_runs.items()]
        if not hasattr(self.config, "workerinput"):  # of a worker's usage error xdist shows nothing: its runs fail
            self._import_runners(added)
        for item in added:
            self.config.hook.pytest_itemcollected(item=item)
        self.config.hook.pytest_collectreport(report=pytest.CollectReport(self.name, "passed", None, [*added]))
        items += added

    def _import_runners(self, items: Iterable[CapturedItem]) -> None:
        """Import the runner of each name. Raises UsageError for one that cannot be, before any run."""
        for item in {item.entry.name: item for item in items if not item.entry.problem}.values():
            try:
                with suppress(SettingsError):  # there is none: its runs say so
                    find_evaluator(item).runners[str(item.entry.head.get("name", item.entry.name))]
            except RunnerError as error:
                raise pytest.UsageError(str(error)) from None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add a run to its group, by what its report carries from whichever process."""
        properties: dict[str, Any] = dict(report.user_properties)
        is_verdict = report.when == "call" or (report.when == "setup" and report.failed)
        if is_verdict and PROPERTIES[0] in properties and not is_tried_again(report):
            self.groups.add(report.nodeid.removeprefix(f"{self.name}::"), *(properties[name] for name in PROPERTIES))

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fail a session that has compared nothing, and show the groups on GitHub."""
        if hasattr(self.config, "workerinput") or not self.groups.counts:
            return
        if not self.groups.replayed:
            fail_session(session, pytest.ExitCode.USAGE_ERROR)
        with suppress(CannotWrite):  # the footer has them
            self.groups.save(self.config.rootpath)
            if file := os.environ.get("GITHUB_STEP_SUMMARY"):
                append_text(Path(file), self.groups.format_markdown())


class CapturedStore(pytest.Collector):
    """The store, as the parent of its items."""

    def collect(self) -> Iterator[CapturedItem]:
        """Yield nothing: the items are added before anybody selects."""
        yield from ()


class CapturedItem(pytest.Item):
    """One captured run: its setup replays it, its call is the verdict on `result`.

    So a fault of ours is an error of its setup, and no failure of the user's code.
    """

    entry: RunEntry
    captured: CapturedItems
    result: CapturedResult

    @classmethod
    def of(cls, parent: CapturedStore, name: str, entry: RunEntry, captured: CapturedItems) -> CapturedItem:
        """Return the item of a run."""
        item: CapturedItem = cls.from_parent(parent, name=name)
        item.entry, item.captured = entry, captured
        item.stash[keys.OPTED_IN] = False  # whatever the ini file says of the folder
        return item

    def setup(self) -> None:
        """Replay the run."""
        __tracebackhide__ = True
        fault = ""
        try:
            self.result = self.replay()
        except RunnerError as error:
            self.config.add_cleanup(lambda: let_end(int(self.session.exitstatus)))  # what it started may never end
            self.result = CapturedResult((Change("break the runner", Divergence(Kind.OUTCOME, str(error))),))
        except (SnapshotError, SettingsError) as error:
            self.result = CapturedResult(refused=str(error))
        except Exception as error:
            ours = [frame for frame in extract_tb(error.__traceback__) if PACKAGE in Path(frame.filename).parents]
            where = "".join(f" at {Path(frame.filename).name}:{frame.lineno}" for frame in ours[-1:])
            fault = f"a fault of agentreplay, not of your code: {type(error).__name__}: {error}{where}"
            self.result = CapturedResult(refused=fault)
        values = self.result.level, self.result.group, self.entry.size, self.result.new
        self.user_properties += zip(PROPERTIES, values, strict=True)
        if fault:
            raise pytest.fail.Exception(escape_output(fault), pytrace=False)

    def runtest(self) -> None:
        """Fail by an effect that differs, and with the strict flag by all that is not the same."""
        __tracebackhide__ = True
        result, strict = self.result, self.config.option.agentreplay_runs_strict
        if result.refused and not (strict if result.fails is None else result.fails):
            raise pytest.skip.Exception(escape_output(result.refused), _use_item_location=True)
        changes = (*result.effects, *result.requests)
        findings = [describe_comparison(change.divergence, self.entry.where, "") for change in changes]
        text = escape_output("\n".join([result.refused, *map(format_finding, findings)]).strip())
        if result.effects or result.refused or (strict and result.requests):
            raise pytest.fail.Exception(text, pytrace=False)
        if text:
            self.add_report_section("call", "agentreplay", text)

    def replay(self) -> CapturedResult:
        """Return what the code of today made of the run. Raises what is wrong with its file, and with its runner."""
        if self.entry.problem:
            return CapturedResult(refused=self.entry.problem)
        run = codec.loads(self.captured.store.read_run(self.entry), file=self.entry.where).run
        ids = self.captured.find_other_ids(self.entry)
        return replay_captured(run, Path(self.entry.where), find_evaluator(self), ids)

    def reportinfo(self) -> tuple[Path, int, str]:
        """Return where the item stands: a skip needs a line."""
        return self.path, 0, self.name
