"""The fresh process in which recordings are proved: it replays the tests of a plan, and reports to a file alone.

It gets the command line of the session that recorded, so that it has the same plugins, settings and options; what would
select, stop, ask or write is put back here, before any plugin is configured.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_agentreplay.plugin.recordings import replay
from pytest_agentreplay.plugin.stash import TRIAL, nodeid_of
from pytest_agentreplay.report.notices import RAN_ON, TIMED
from pytest_agentreplay.report.summary import Proof, to_plain
from pytest_agentreplay.store import files

if TYPE_CHECKING:
    from collections.abc import Generator

    from pytest_agentreplay.settings import Settings

OURS = {
    "agentreplay_record": False,
    "agentreplay_record_missing": False,
    "agentreplay_replay": None,
    "agentreplay_replay_until": None,
    "agentreplay_mode": "model",
    "agentreplay_sandbox": None,
}
SELECTING: dict[str, Any] = {
    "keyword": "",
    "markexpr": "",
    "deselect": None,
    "pyargs": False,
    "lf": False,
    "failedfirst": False,
    "newfirst": False,
    "stepwise": False,
    "stepwise_skip": False,
    "replay_files": [],  # pytest-replay
}
STOPPING = {"maxfail": 0, "continue_on_collection_errors": True, "usepdb": False, "trace": False}
WRITING = {
    "basetemp": None,  # pytest empties it: the session that recorded has its files there
    "xmlpath": None,
    "pastebin": None,
    "log_file": None,
    "pytestdebug": None,
    "update_snapshots": False,  # syrupy
    "snapshot_update": False,  # pytest-snapshot
    "inline_snapshot": "short-report",  # compares as ever; `disable` would refuse a value that is not there yet
    "replay_record_dir": None,  # pytest-replay
    "report_log": None,  # pytest-reportlog
    "htmlpath": None,  # pytest-html
    "json_report": False,  # pytest-json-report
    "allure_report_dir": None,  # allure-pytest
}
REPLAYS = 5
"""How often a test is replayed whose timers race with the answers: once says little of what is chance."""

NEUTRAL: dict[str, Any] = {**OURS, **SELECTING, **STOPPING, **WRITING}
"""Options by their `dest`, and the value that each has in this process."""


def prepare(config: pytest.Config) -> None:
    """Put options back, and collect the files of the plan."""
    for name, value in NEUTRAL.items():
        if name in config.option:
            setattr(config.option, name, value)
    tests = json.loads(Path(config.option.agentreplay_proof).read_bytes())["tests"]
    modules = dict.fromkeys(config.rootpath / row["test"].partition("::")[0] for row in tests)
    config.args = [str(module) for module in modules if module.is_file()] or config.args


def settings_of(base: Settings) -> Settings:
    """Return the settings of this process: what a proof in the process that recorded would have."""
    return base._replace(mode="replay", record_missing=False, strict=False, sandbox="off", unused="ignore")


class Proving:
    """Runs the tests of the plan, and nothing else."""

    def __init__(self, config: pytest.Config) -> None:
        """Read the plan, and begin the file of the results."""
        plan = json.loads(Path(config.option.agentreplay_proof).read_bytes())
        self.tests = {row["test"]: row for row in plan["tests"]}
        self.results = files.Appending(Path(plan["into"]))
        self.uncollected: dict[str, str] = {}

    def write(self, **row: Any) -> None:
        """Add a row to the results."""
        self.results.append(json.dumps(row).encode() + b"\n")

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Remember which files cannot be collected."""
        if not report.passed:
            crash = getattr(report.longrepr, "reprcrash", None)
            lines = (crash.message if crash is not None else report.longreprtext).strip().splitlines() or [""]
            self.uncollected[report.nodeid] = lines[-1].removeprefix("E").strip()

    def planned(self, item: pytest.Item) -> bool:
        """Return whether it is a test of the plan; its other orders of answers are no part of the proof."""
        return nodeid_of(item) in self.tests and TRIAL not in item.stash

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> Generator[None]:
        """Keep the tests of the plan, whatever other plugins deselect: they did run when they were recorded."""
        before = [item for item in items if self.planned(item)]
        yield
        kept = [item for item in items if self.planned(item)]
        names = {*map(nodeid_of, kept)}
        items[:] = [*kept, *(item for item in before if nodeid_of(item) not in names)]

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Report which tests are not there."""
        for test in self.tests.keys() - {*map(nodeid_of, session.items)}:
            why = self.uncollected.get(test.partition("::")[0])
            reason = "a fresh process does not collect it" + (f": {why}" if why is not None else "")
            self.write(missing=test, why=reason)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool:
        """Replay a test, before any plugin that would run it several times or in a process of its own."""
        test = nodeid_of(item)
        row = self.tests[test]
        self.write(started=test)
        try:
            proof, finding = replay(item, nextitem, row["outcome"], row["broken"])
            if proof.why == RAN_ON:
                # The first test of a process imports its libraries; that is no wait. A second replay has them.
                again, _ = replay(item, nextitem, row["outcome"], row["broken"])
                proof = again if again.replays and not again.skipped else proof
            for number in range(2, REPLAYS + 1):
                if proof.why != TIMED:
                    break
                proof, finding = replay(item, nextitem, row["outcome"], row["broken"])
                if not proof.replays:
                    proof = Proof(False, f"replay {number} of {REPLAYS} failed, for {TIMED}: {proof.why}")
        except pytest.exit.Exception as stop:  # the other tests get a further process
            proof = Proof(skipped=f"it ends the session of pytest: {stop}")
            self.write(test=test, proof=to_plain(proof), parted="")
            raise
        self.write(test=test, proof=to_plain(proof), parted="" if finding is None else finding.test)
        return True
