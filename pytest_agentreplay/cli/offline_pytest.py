"""Replays recorded tests and cases in a pytest of its own, offline and without credentials, and reads how they ended.

For programs that act without a person: whatever the settings, marks and variables of the project say, nothing is
recorded and nothing goes live: the flags of a command line come before all of them, and `leave_out_flags` leaves out
what `addopts` add. Nothing is written in the project either: pytest's cache, byte code and results go to a folder that
is removed.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple
from xml.etree import ElementTree as ET

from pytest_agentreplay.errors import AgentReplayError
from pytest_agentreplay.redaction.secret_names import looks_secret, secret_environment
from pytest_agentreplay.redaction.vendors import find_vendors
from pytest_agentreplay.runs.command import CommandResult, run_command
from pytest_agentreplay.runs.own_pytest import leave_out_flags
from pytest_agentreplay.snapshots.store import format_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

LIMIT = 300.0
"""Seconds that a replay may take; nothing of it waits for a network."""
# `agentreplay_paths` opts in every test: one that no longer does so itself is replayed, too, and not run live.
OFFLINE = "--agentreplay-mode=model --replay-tools=frozen -o agentreplay_paths=."
# All of a finding, and of a failed assertion what stands nearest to it; xunit1 has the file of each test.
REPORTED = "-vv --tb=short --color=no -o junit_logging=no -o junit_family=xunit1"
OUTCOMES = {"passed": "passed", "skipped": "skipped", "failure": "failed", "error": "failed"}
"""What ends a test in a report, and how it has ended then."""
ELSEWHERE = '-o cache_dir="{0}/cache" --basetemp="{0}/tmp" --junitxml="{0}/junit.xml"'
"""What pytest writes, in a folder with slashes on every system: pytest reads these words as a shell would."""


class TestResult(NamedTuple):
    """How a test ended: "passed", "failed" or "skipped"; `facts` are the properties of its finding.

    The id of the test is that from the working directory, which may lie above the root of its project.
    """

    test: str
    outcome: str
    headline: str
    text: str
    facts: Mapping[str, str]


def is_credential(name: str, value: str) -> bool:
    """Return whether a variable holds a key or a password, by its name or its value."""
    return looks_secret(name) or bool(secret_environment({name: value})) or any(find_vendors(value.encode()))


def run_offline(words: list[str], folder: Path) -> tuple[CommandResult, str]:
    """Run `python -m WORDS` in `folder`, without credentials; return how it ended, and the report of its pytest.

    Its exit code is None where it has not ended after LIMIT seconds, and was stopped.
    """
    with TemporaryDirectory(prefix="agentreplay-", ignore_cleanup_errors=True) as made:
        environ = {name: value for name, value in os.environ.items() if not is_credential(name, value)}
        environ |= {"COLUMNS": "120", "PYTHONDONTWRITEBYTECODE": "1", "COVERAGE_FILE": f"{made}/coverage"}
        environ = leave_out_flags(environ, folder)
        environ["PYTEST_ADDOPTS"] += f" {ELSEWHERE.format(Path(made).as_posix())}"
        ended = run_command([sys.executable, "-m", *words], environ=environ, folder=folder, stdin=b"", limit=LIMIT)
        report = Path(made, "junit.xml")
        text = report.read_text(encoding="utf-8") if report.is_file() else "<testsuites/>"
    return ended, text


def replay_tests(folder: Path, tests: list[str]) -> list[TestResult]:
    """Replay tests, cases or folders of them from `folder`, their root, and return how each test ended.

    Raises AgentReplayError where pytest ran none, with the reason that it gave.
    """
    ended, text = run_offline(["pytest", *OFFLINE.split(), *REPORTED.split(), "--", *tests], folder)
    # An error of a teardown is an entry of its own, beside that of a test that has passed.
    entries = sorted(read_report(text, folder), key=lambda entry: entry.outcome == "failed")
    results = {result.test: result for result in entries}
    if not results:
        lines = (ended.stderr + b"\n" + ended.stdout).decode(errors="replace").splitlines()
        silent = f"it was stopped after {LIMIT:.0f} seconds" if ended.code is None else "it ran no test"
        reason = next((line for line in lines if line.startswith(("ERROR", "E  "))), silent)
        raise AgentReplayError(f"pytest could not replay it: {reason.strip()}")
    return [*results.values()]


def read_report(text: str, folder: Path) -> Iterator[TestResult]:
    """Yield the tests of a report in the form of xunit1, which pytest has written in `folder`."""
    for node in ET.fromstring(text).iter("testcase"):  # noqa: S314  our own pytest has written it
        file = node.get("file", "").replace("\\", "/")
        # https://github.com/pytest-dev/pytest/blob/9.0.0/src/_pytest/junitxml.py (mangle_test_address)
        module, place = file.replace("/", ".").removesuffix(".py"), node.get("classname", "")
        names = (*place.removeprefix(module).split("."), node.get("name", "")) if place else ()  # none: not collected
        test = "::".join(filter(None, (format_path(folder / file), *names)))
        facts = {fact.get("name", "").partition(".")[2]: fact.get("value", "") for fact in node.iter("property")}
        ended = next((child for child in node if child.tag in OUTCOMES), ET.Element("passed"))
        yield TestResult(test, OUTCOMES[ended.tag], ended.get("message", ""), ended.text or "", facts)
