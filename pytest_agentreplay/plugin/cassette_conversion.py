"""A session with `--vcr=convert`: which tests are recorded, what becomes of each, and of the marks in its source."""

from __future__ import annotations

import ast
import inspect
import re
import tokenize
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_agentreplay.cassettes import marks
from pytest_agentreplay.errors import AgentReplayError
from pytest_agentreplay.plugin import keys
from pytest_agentreplay.plugin.session_report import is_tried_again
from pytest_agentreplay.report.escape import escape_line, escape_output
from pytest_agentreplay.report.notices import format_count
from pytest_agentreplay.runs.conversion_session import NO_CASSETTE, ConversionSession
from pytest_agentreplay.store import files

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from pytest_agentreplay.report.summary import RecordingSummary
    from pytest_agentreplay.runs.run_session import Location
    from pytest_agentreplay.settings import Settings

CONVERTED = "agentreplay_converted"
DONE = {"replace": "replaced", "delete": "deleted", "add": "added"}
KEEPS_CASSETTE = "; it reads the fixture vcr, so it keeps its cassette"


@cache
def names_cassettes(file: str) -> bool:
    """Return whether a source speaks of cassettes: of vcrpy in any spelling."""
    return re.search(rb"(?i)vcr|cassette", files.read_if_there(Path(file)) or b"") is not None


def can_open_cassettes(item: pytest.Item) -> bool:
    """Return whether the test is marked `vcr`, or something that it may use from its module or fixtures names vcrpy."""
    function = getattr(item, "obj", None)
    if function is None or getattr(function, "is_hypothesis_test", False):
        return False
    if item.get_closest_marker("vcr") is not None:
        return True
    # pytest 8.4-9: https://github.com/pytest-dev/pytest/blob/9.0.0/src/_pytest/python.py
    info = getattr(item, "_fixtureinfo", None)
    fixtures = [each.func for each in (info.name2fixturedefs.values() if info else ()) for each in each]
    module = vars(getattr(item, "module", None) or object).values()
    bases = [base.__init__ for base in getattr(getattr(item, "cls", None), "__mro__", ())]
    codes = [getattr(inspect.unwrap(each), "__code__", None) for each in (*fixtures, *module, *bases) if callable(each)]
    root = str(item.config.rootpath)
    sources = {str(item.path), *(code.co_filename for code in codes if code and code.co_filename.startswith(root))}
    return any(map(names_cassettes, sorted(sources)))


def choose_mode(item: pytest.Item, settings: Settings) -> Settings:
    """Return the settings of a test: recorded where it is to be converted, else as ever, and never recorded live."""
    as_ever = settings._replace(record_missing=False, converts=False)
    if settings.mode != "replay" or not can_open_cassettes(item):
        return as_ever
    snapshot = keys.store_of(item.config).path_of(item.path, keys.get_nodeid(item))
    return as_ever if keys.has_opted_in(item) and files.exists(snapshot) else settings._replace(mode="record")


def make_session(item: pytest.Item, place: Location, settings: Settings) -> ConversionSession:
    """Return the session of a test that is to be converted, not yet open."""
    config = item.config
    accepts = bool(config.option.agentreplay_accept_stale)
    return ConversionSession(
        place, settings, keys.store_of(config), config.stash[keys.CASSETTES], accepts_stale=accepts
    )


@dataclass
class TestFile:
    """The functions of one test file, as the session has seen them."""

    converted: set[str] = field(default_factory=set)
    left: set[str] = field(default_factory=set)
    opted_in: set[str] = field(default_factory=set)


class CassetteConversion:
    """The hooks of such a session, in each of its processes."""

    def __init__(self, config: pytest.Config) -> None:
        """No test has run."""
        self.config = config
        self.tests: dict[str, dict[str, Any]] = {}
        self.collected: list[str] = []

    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        """Remember what does not run: a mark above it stays."""
        self.collected += map(keys.get_nodeid, items)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Remember what is to run."""
        self.collected += map(keys.get_nodeid, session.items)

    def pytest_sessionfinish(self) -> None:
        """Have the process that prints know what was collected."""
        if hasattr(self.config, "workeroutput"):
            self.config.workeroutput[CONVERTED] = self.collected

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take what a worker of xdist has collected."""
        self.collected += getattr(node, "workeroutput", {}).get(CONVERTED, ())

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Give the last report what became of the test."""
        report = yield
        if call.when == "teardown":
            run_session = item.stash.get(keys.RUN_SESSION, None)
            arguments = getattr(getattr(item, "_fixtureinfo", None), "argnames", ())
            why = run_session.why if isinstance(run_session, ConversionSession) else None
            report.__dict__[CONVERTED] = {
                "test": keys.get_nodeid(item),
                "why": None if why == NO_CASSETTE and item.get_closest_marker("vcr") is None else why,
                "cassettes": [file for loaded in self.config.stash[keys.CASSETTES].opened for file in loaded.files],
                "opted_in": keys.has_opted_in(item),
                "advice": KEEPS_CASSETTE if "vcr" in arguments else "",
            }
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep it, from whichever process."""
        if (facts := getattr(report, CONVERTED, None)) is not None and not is_tried_again(report):
            self.tests[facts["test"]] = facts

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print what was converted, and what is to be deleted for it; the proofs are there by now."""
        if hasattr(self.config, "workerinput"):  # a worker of xdist prints to nobody
            return
        lines = [*self.report()]
        terminalreporter.section("agentreplay: vcrpy", sep="-")
        for row in map(keys.get_redaction(self.config).hide, lines):
            terminalreporter.line(escape_output(escape_line(row)))

    def report(self) -> Iterator[str]:
        """Yield the lines of the report; the snapshots of tests that are not proved go."""
        summaries = {summary.test: summary for summary in self.config.stash[keys.REPORT].summaries}
        refused: dict[str, str] = {}
        sources: dict[str, TestFile] = defaultdict(TestFile)
        needed, converted_from, converted = set[str](), set[str](), set[str]()
        names_parameters = any("[" in str(word) for word in self.config.args)  # the others are not even collected
        for test, facts in self.tests.items():
            file, _, name = test.partition("::")
            function, why = name.partition("[")[0], facts["why"]
            summary = summaries.get(test)
            if why == "" and (why := explain_unproved(summary.recording if summary is not None else None)):
                if summary is not None and summary.recording is not None:
                    files.delete(Path(summary.file), self.config.rootpath)
                why += facts["advice"]
            if why:
                refused[test] = why
            if why == "":
                converted.add(test)
                converted_from |= {*facts["cassettes"]}
                sources[file].converted.add(function)
            else:
                needed |= {*facts["cassettes"]}
            if facts["opted_in"]:
                sources[file].opted_in.add(function)
        for test in self.collected:
            file, _, name = test.partition("::")
            if test not in converted or ("[" in name and names_parameters):
                sources[file].left.add(name.partition("[")[0])
        for file, source in sources.items():
            if source.converted:
                yield from self.change_source(file, source)
        for test, why in refused.items():
            yield f"kept      {test}: {why}"
        yield f"{'convert':<10}{format_count(len(converted), 'test')} converted, {len(refused)} not"
        unneeded = [file for file in sorted(converted_from - needed) if files.exists(self.config.rootpath / file)]
        if unneeded:
            yield f"unneeded  {format_count(len(unneeded), 'cassette')} that no other test of this session plays:"
            yield from (f"{'':<10}{path}" for path in unneeded)
        if any("stale in " in why for why in refused.values()):
            yield "next      convert the stale ones as they ask today: pytest --vcr=convert --accept-stale"
        if converted:
            yield "next      pytest --replay=model"

    def change_source(self, file: str, source: TestFile) -> Iterator[str]:
        """Yield what to delete in a test file and what to put there; with --apply it is written."""
        path = self.config.rootpath / file
        applies = getattr(self.config.option, "agentreplay_apply", False)
        try:
            with tokenize.open(path) as opened:
                encoding = opened.encoding
            text = files.read(path).decode(encoding)
            changes, elsewhere = marks.plan_changes(text, source.converted, source.left, source.opted_in)
            if applies and (changed := marks.apply(text, changes)) != text:
                ast.parse(changed)
                files.write_whole(path, changed.encode(encoding))
        except (AgentReplayError, SyntaxError, ValueError, OSError) as error:
            yield f"kept      {file}: its marks stay, replace them yourself: {error}"
            return
        for change in changes:
            new, old = (change.new or "").strip(), change.old
            word = "replace" if new and old else "delete" if old else "add"
            word = DONE[word] if applies and change.new is not None else word
            yield f"{word:<10}{file}:{change.line}: {f'{old}, by {new}' if new and old else old or new}"
        for test in elsewhere:
            yield f"add       @pytest.mark.agentreplay to {file}::{test}, which is defined elsewhere"


def explain_unproved(recording: RecordingSummary | None) -> str:
    """Return why a recording is no proved snapshot, or ""."""
    if recording is None:
        return "nothing was recorded"
    if recording.proof is None or (recording.proof.replays and not recording.proof.skipped):
        return ""
    why = (recording.proof.skipped or recording.proof.why).partition("\n")[0]
    return f"its snapshot does not replay: {why}"
