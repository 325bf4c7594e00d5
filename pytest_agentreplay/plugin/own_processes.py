"""Whether a test leaves state in its process; if it does, each of its runs gets a process of its own.

Live runs, neighbours and orders run one test again and again. Before the first of them its frozen run is made twice in
one process. Where the second differs, each run is made in a fork of this process, which stays as it was before the test
ran first; or in another pytest, where this process cannot be forked.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import sys
import threading
import warnings
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import pytest

from pytest_agentreplay.errors import AgentReplayError
from pytest_agentreplay.plugin import collected, keys, orders, proofs
from pytest_agentreplay.plugin.item_session import will_be_skipped
from pytest_agentreplay.plugin.keys import get_nodeid, store_of
from pytest_agentreplay.runs import command
from pytest_agentreplay.snapshots.store import files

if TYPE_CHECKING:
    from collections.abc import Callable

TRIES = 3  # fresh processes in which a frozen run is made again that differed
IN_PROCESS = "the test leaves state in the process: its second frozen run differs from its first: "
OUTSIDE = "the test leaves state outside of its process, so nothing is judged: a second frozen run differs: "
RACE = "the test is a race: some frozen runs in fresh processes differ: "


class TestState(NamedTuple):
    """What a test leaves, in a line; whether its runs are made in processes of their own, or not at all."""

    line: str = ""
    apart: bool = False
    skipped: bool = False


def find_test(item: pytest.Item) -> str:
    """Return the id of the test or case that has several items, of which this is one; "" for any other item."""
    if getattr(item, "trial", None) is not None:
        return "" if item.parent is None else item.parent.nodeid
    marks: tuple[pytest.StashKey[Any], ...] = (keys.LIVE, keys.NEIGHBOUR, keys.TRIAL, keys.TRIED)
    return get_nodeid(item) if any(mark in item.stash for mark in marks) else ""


class OwnProcesses:
    """Checks each test that has several items in this process; or runs the one item that another pytest asks for."""

    def __init__(self, config: pytest.Config) -> None:
        """No test has run."""
        self.config, self.environ = config, dict(os.environ)
        self.tests: dict[str, TestState] = {}
        self.lines: dict[str, str] = {}  # by node id, what the reports of an item say
        file = config.option.agentreplay_apart
        self.job = None if file is None else json.loads(Path(file).read_bytes())

    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        """Run an item in a process of its own where its test leaves state, else as ever."""
        if self.job is not None and self.job["item"] == item.nodeid:
            files.write_whole(Path(self.job["into"]), json.dumps(run_item(item, self.job["ended"]), default=repr))
        if self.job is not None:
            return True
        if keys.TRIAL in item.stash:
            orders.skip_trial(item)
        if not (test := find_test(item)) or will_be_skipped(item):
            return None
        if first := test not in self.tests:
            self.tests[test] = self.check(item, test)
        state = self.tests[test]
        if state.line:
            self.lines[item.nodeid] = f"{test}: {state.line}"
        if state.skipped and not first:
            item.add_marker(pytest.mark.skip(reason=state.line))
        if not (state.apart or (state.skipped and first)):
            return None
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        reports = [make_failure(item, state.line, "setup")] if state.skipped else self.run_apart(item)
        # What other items have set up here: https://github.com/pytest-dev/pytest/blob/9.0.0/src/_pytest/runner.py
        teardown = partial(item.session._setupstate.teardown_exact, nextitem)
        call = pytest.CallInfo.from_call(teardown, "teardown", reraise=(KeyboardInterrupt, pytest.exit.Exception))
        reports += [pytest.TestReport.from_item_and_call(item, call)] if call.excinfo is not None else []
        for report in reports:
            item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Have the reports of an item say what its test leaves."""
        if report.nodeid in self.lines:
            report.__dict__["agentreplay_state"] = self.lines[report.nodeid]

    def check(self, item: pytest.Item, test: str) -> TestState:
        """Make two frozen runs of a test; where the second differs, find out why by some in fresh processes."""
        from pytest_agentreplay.plugin.trial_items import read_plan

        if (read_plan(self.config) or {}).get("apart"):
            return TestState(apart=True)
        items = [other for other in item.session.items if find_test(other) == test]
        if len(items) < 2 and self.config.stash[keys.SETTINGS].released != frozenset():  # a line-up has one run in each
            return TestState()
        # A marker has a few orders tried in every replay: the check would double that.
        if self.config.option.agentreplay_trials is None and any(keys.TRIAL in other.stash for other in items):
            return TestState()
        forks = can_fork()
        why = run_in_fork(partial(compare_runs, item, 2))[0] if forks else compare_runs(item, 2, item)
        if not why:
            return TestState()
        tries = TRIES if forks and isinstance(item, pytest.Function) else 0
        fresh = [run_in_fork(partial(compare_runs, item, 1))[0] for _ in range(tries)]
        kind = IN_PROCESS if not any(fresh) else OUTSIDE if all(fresh) else RACE
        # The neighbours of a case are held against a run of the same process.
        skipped = kind == OUTSIDE or getattr(item, "trial", None) is not None
        return TestState(f"{kind}{why}", kind == IN_PROCESS and not skipped, skipped)

    def run_apart(self, item: pytest.Item) -> list[pytest.TestReport]:
        """Return the reports of an item that another process runs."""
        ended = orders.get_progress(item).ended
        try:
            run = run_in_fork if can_fork() else partial(self.run_elsewhere, item, ended)
            result, code = run(partial(run_item, item, ended))
        except pytest.fail.Exception as failure:  # of pytest-timeout
            result, code = None, failure
        if result is None:
            why = f"the process of this run ended with {code}"
            if keys.LIVE in item.stash:
                self.config.stash[keys.LIVE_RUNS].add(item, {"passed": False, "stopped": why})
            return [make_failure(item, why, "call")]
        if "exit" in result:
            pytest.exit(result["exit"])
        orders.get_progress(item).ended = result["ended"]
        load: Any = partial(self.config.hook.pytest_report_from_serializable, config=self.config)
        reports: list[pytest.TestReport] = [load(data=data) for data in result["reports"]]
        for report in reports:
            if isinstance(report.longrepr, list):  # why it was skipped: JSON has no tuples
                report.longrepr = tuple(report.longrepr)
        return reports

    def run_elsewhere(self, item: pytest.Item, ended: Any, _perform: Any) -> tuple[Any, Any]:
        """Run an item in another pytest with the command line of this one; return as `run_in_fork`."""
        config, where = self.config, self.config.invocation_params.dir
        words = [*map(str, getattr(config, "workerinput", {}).get("mainargv", ["", *config.invocation_params.args]))]
        end = words.index("--") if "--" in words else len(words)
        words[end:end] = [flag for name, flag in proofs.SWITCH_OFF_FLAGS.items() if name in config.option]
        session = getattr(config.stash.get(keys.LIVE_RUNS, None), "session", "")
        with TemporaryDirectory() as folder:
            plan, into = Path(folder, "plan.json"), Path(folder, "result.json")
            files.write_whole(plan, json.dumps({"item": item.nodeid, "ended": ended, "into": str(into)}))
            words[end:end] = [f"--agentreplay-apart={plan}", f"--basetemp={Path(folder, 'tmp')}"]
            python = [*command.make_interpreter_command(where), "-m", "pytest"]
            environ = self.environ | {keys.LIVE_SESSION: session}
            done = command.run_command([*python, *words[1:]], environ=environ, folder=where, stdin=b"", limit=0)
            return (json.loads(files.read_file(into)) if files.exists(into) else None), done.code


def make_failure(item: pytest.Item, why: str, when: Literal["setup", "call"]) -> pytest.TestReport:
    """Return the report of an item that has not run to its end."""
    return pytest.TestReport(item.nodeid, item.location, dict.fromkeys(item.keywords, 1), "failed", why, when)


def leave_fixtures(item: pytest.Item) -> None:
    """Leave what is set up to the process that has set it up: this one tears down only its own."""
    # Private, pytest 8.4 to 9.2: https://github.com/pytest-dev/pytest/blob/9.0.0/src/_pytest/fixtures.py
    for finalizers, _ in item.session._setupstate.stack.values():
        finalizers.clear()
    for definition in itertools.chain.from_iterable(collected.list_definitions(item).values()):
        if definition.cached_result is not None:
            definition._finalizers.clear()


def run_item(item: pytest.Item, ended: Any) -> dict[str, Any]:
    """Run an item, and return its reports as plain data; `ended` is how its test ended in the recorded order."""
    from _pytest.runner import runtestprotocol

    orders.get_progress(item).ended = ended
    leave_fixtures(item)
    save: Any = partial(item.config.hook.pytest_report_to_serializable, config=item.config)
    with proofs.disable_prompts(item.config):
        try:
            reports = [save(report=report) for report in runtestprotocol(item, nextitem=None, log=False)]
        except pytest.exit.Exception as stop:
            return {"exit": stop.msg}
    return {"reports": reports, "ended": orders.get_progress(item).ended}


def compare_runs(item: Any, runs: int, nextitem: pytest.Item | None = None) -> str:
    """Return how the last of one or two frozen runs differs; "" where it does not, or the one before it did already.

    Without `nextitem` this process is a fork that ends with it.
    """
    if nextitem is None:
        leave_fixtures(item)
    if not isinstance(item, pytest.Function):
        why: str = item.compare_runs()
        return why
    again = orders.repeat_item(item, get_nodeid(item), "again")
    return "" if runs > 1 and replay(again, item) else replay(again, nextitem)


def replay(item: pytest.Function, nextitem: pytest.Item | None) -> str:
    """Return how a frozen run of a test differs from its recording; "" where it does not."""
    test = get_nodeid(item)
    try:
        recorded = store_of(item.config).load(store_of(item.config).path_of(item.path, test), test).run.header.outcome
    except AgentReplayError:
        return ""
    proof, _ = proofs.replay_recording(item, nextitem, str(recorded.get("status")), ())
    return "" if proof.replays else re.sub(r"^(\[AR-\w+\] |its calls replay, but [^:]*: )", "", proof.why)


def can_fork() -> bool:
    """Return whether a fork of this process can go on: no thread of Python holds a lock, no system library minds."""
    return hasattr(os, "fork") and sys.platform != "darwin" and threading.active_count() == 1


def run_in_fork(perform: Callable[[], Any]) -> tuple[Any, int]:
    """Return what `perform` returns, as JSON has it, None where its process dies; and how that ended."""
    if sys.platform == "win32":
        raise NotImplementedError
    sys.stdout.flush()
    sys.stderr.flush()
    reading, writing = os.pipe()
    with warnings.catch_warnings():  # of threads that are not Python's: that of xdist holds no lock
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if not pid:
        code = 1
        try:
            data = json.dumps(perform(), default=repr).encode()
            while data:
                data = data[os.write(writing, data) :]
            sys.stdout.flush()
            code = 0
        finally:
            os._exit(code)
    os.close(writing)
    try:
        with os.fdopen(reading, "rb") as stream:
            data = stream.read()
    except BaseException:  # an interrupt, or a time limit
        os.kill(pid, signal.SIGKILL)
        raise
    finally:
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return (None if code else json.loads(data)), code
