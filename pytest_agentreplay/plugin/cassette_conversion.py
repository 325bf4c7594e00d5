"""A session with `--vcr=convert`: which tests are recorded, what becomes of each, and of the marks in its source."""

from __future__ import annotations

import ast
import re
import sys
import tokenize
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_agentreplay.errors import AgentReplayError
from pytest_agentreplay.plugin import keys
from pytest_agentreplay.plugin.session_report import is_tried_again
from pytest_agentreplay.report.escape import escape_line, escape_output
from pytest_agentreplay.report.notices import format_count
from pytest_agentreplay.runs.cassettes.converting import CassetteRecording, apply_changes, plan_changes
from pytest_agentreplay.snapshots.store import files

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from pytest_agentreplay.report.summary import SessionSummary
    from pytest_agentreplay.runs.run_session import Location
    from pytest_agentreplay.settings import Settings

CONVERTED = "agentreplay_converted"
BY_ITSELF: pytest.StashKey[bool] = pytest.StashKey()  # of a test that may be converted: whether it has opted in itself
DONE = {"replace": "replaced", "delete": "deleted", "add": "added"}


@cache
def names_vcrpy(file: str) -> bool:
    """Return whether a source speaks of vcrpy or its cassettes, in any spelling."""
    return re.search(rb"(?i)vcr|cassette", files.read_if_there(Path(file)) or b"") is not None


def can_open_cassettes(item: pytest.Item) -> bool:
    """Return whether the test is marked `vcr`, or the source of it, a base class or a fixture names vcrpy."""
    if not isinstance(item, pytest.Function) or getattr(item.obj, "is_hypothesis_test", False):
        return False
    # pytest 8.4-9: https://github.com/pytest-dev/pytest/blob/9.0.0/src/_pytest/python.py
    several = item._fixtureinfo.name2fixturedefs.values()
    owners = [*getattr(item.cls, "__mro__", ()), *(each.func for fixtures in several for each in fixtures)]
    modules = [getattr(sys.modules.get(owner.__module__), "__file__", None) or "" for owner in owners]
    root = str(item.config.rootpath)
    own = [file for file in modules if file.startswith(root) and "site-packages" not in file]
    return item.get_closest_marker("vcr") is not None or any(map(names_vcrpy, {str(item.path), *own}))


def choose_mode(item: pytest.Item, settings: Settings) -> Settings:
    """Return the settings of a test: recorded where it is to be converted, else as ever, and never recorded live."""
    snapshot = keys.store_of(item.config).path_of(item.path, keys.get_nodeid(item))
    by_itself = item.stash.get(BY_ITSELF, None)
    if settings.mode == "replay" and (by_itself is False or (by_itself and not files.exists(snapshot))):
        return settings._replace(mode="record")
    return settings._replace(record_missing=False, typed="")


def make_session(item: pytest.Item, place: Location, settings: Settings) -> CassetteRecording:
    """Return the session of a test that is converted, not yet open."""
    config = item.config
    watch, accepts = config.stash[keys.CASSETTES], bool(config.option.agentreplay_accept_stale)
    return CassetteRecording(place, settings, keys.store_of(config), watch=watch, accepts_stale=accepts)


class CassetteConversion:
    """The hooks of such a session, in each of its processes."""

    def __init__(self, config: pytest.Config) -> None:
        """No test has run."""
        self.config = config
        self.tests: dict[str, dict[str, Any]] = {}
        self.is_pending = False  # whether a mark is to be replaced or added
        # Whether tests of a function may be missing: a mark above these stays.
        self.is_partial = bool(getattr(config.option, "maxfail", 0)) or any("[" in word for word in config.args)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Have sessions of ours begun for the tests that may be converted."""
        for item in filter(can_open_cassettes, items):
            item.stash[BY_ITSELF] = keys.is_opted_in(item)
            item.stash[keys.OPTED_IN] = True

    def pytest_deselected(self) -> None:
        """Remember that some tests do not run."""
        self.is_partial = True

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Give the last report what became of the test."""
        report = yield
        if call.when == "teardown":
            paths = [Path(loaded.path) for loaded in self.config.stash[keys.CASSETTES].opened]
            # What a mark names lies beside the cassette of the test, into which pytest-recording loads it.
            paths += [paths[0].parent / str(name) for mark in item.iter_markers("vcr") for name in mark.args if paths]
            report.__dict__[CONVERTED] = {
                "test": keys.get_nodeid(item),
                "why": getattr(item.stash.get(keys.RUN_SESSION, None), "unconverted", None),
                "cassettes": [path.as_posix() for path in paths],
                "opted_in": item.stash.get(BY_ITSELF, False),
                "partial": self.is_partial,
            }
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep it, from whichever process."""
        if (facts := getattr(report, CONVERTED, None)) is not None and not is_tried_again(report):
            self.tests[facts["test"]] = facts

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print what was converted, and what is to be deleted for it; the proofs are there by now."""
        if not hasattr(self.config, "workerinput"):  # a worker of xdist prints to nobody
            rows = [*map(keys.get_redaction(self.config).hide, self.report())]
            terminalreporter.section("agentreplay: cassettes", sep="-")
            for row in rows:
                terminalreporter.line(escape_output(escape_line(row)))

    def report(self) -> Iterator[str]:
        """Yield the lines of the report; the snapshots of tests that are not proved go."""
        summaries = {summary.test: summary for summary in self.config.stash[keys.REPORT].summaries}
        groups: defaultdict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))  # by file
        kept, unneeded, needed, used = dict[str, str](), set[str](), set[str](), set[str]()
        for test, facts in self.tests.items():
            why = facts["why"]
            if why == "" and (why := explain_unproved(summaries[test])):
                files.delete(Path(summaries[test].file), self.config.rootpath)
            facts["why"] = why
            if why:
                kept[test] = why
            file, _, name = test.partition("::")
            function, parameters, _ = name.partition("[")
            if why == "":
                unneeded.update(facts["cassettes"])
                used.update(summaries[test].uses)
                groups[file]["converted"].add(function)
            else:
                needed.update(facts["cassettes"])
            if why != "" or (facts["partial"] and parameters):
                groups[file]["left"].add(function)
            if facts["opted_in"]:
                groups[file]["opted_in"].add(function)
        for summary in summaries.values():
            if summary.fixture is not None and summary.is_new and summary.test not in used:
                files.delete(Path(summary.file), self.config.rootpath)
        for file, group in groups.items():
            if group["converted"]:
                yield from self.change_source(file, group)
        yield from (f"kept      {test}: {why}" for test, why in kept.items())
        count = sum(facts["why"] == "" for facts in self.tests.values())
        yield f"convert   {format_count(count, 'test')} converted, {len(kept)} not"
        paths = [path for path in sorted(unneeded - needed) if files.exists(self.config.rootpath / path)]
        if paths:
            once = ", once the marks are replaced" if self.is_pending else ""
            yield f"unneeded  {format_count(len(paths), 'cassette')} that no other test of this session plays{once}:"
        yield from (f"{'':<10}{path}" for path in paths)
        stale = any(why.startswith("stale") for why in kept.values())
        again = "pytest --vcr=convert" + " --accept-stale" * self.config.option.agentreplay_accept_stale
        if stale:
            yield f"next      convert the stale ones as they ask today: {again} --accept-stale"
        if self.is_pending:
            yield f"next      replace the marks: {again} --apply"
        elif count:
            yield "next      replay what was converted: pytest --replay=model"

    def change_source(self, file: str, functions: dict[str, set[str]]) -> Iterator[str]:
        """Yield what to delete in a test file and what to put there; with --apply it is written."""
        path, applies = self.config.rootpath / file, getattr(self.config.option, "agentreplay_apply", False)
        try:
            with tokenize.open(path) as opened:
                encoding = opened.encoding
            text = files.read_file(path).decode(encoding)
            changes, elsewhere = plan_changes(text, **functions)
            if applies and (changed := apply_changes(text, changes)) != text:
                ast.parse(changed)
                files.write_whole(path, changed.encode(encoding))
        except (AgentReplayError, SyntaxError, ValueError, OSError) as error:
            yield f"add       the mark agentreplay in {file} yourself: {error}"
            return
        for change in changes:
            new, old = (change.new or "").strip(), change.old
            word = "replace" if new and old else "delete" if old else "add"
            word = DONE[word] if applies and change.new is not None else word
            self.is_pending |= not applies and change.new is not None
            yield f"{word:<10}{file}:{change.line}: {f'{old}, by {new}' if new and old else old or new}"
        yield from (f"add       {file}::{test}: the mark agentreplay, by hand" for test in elsewhere)


def explain_unproved(summary: SessionSummary) -> str:
    """Return why a recording is no proved snapshot, or ""; without proofs it is taken as it is."""
    proof = summary.recording.proof if summary.recording is not None else None
    if proof is None or (proof.replays and not proof.skipped):
        return ""
    return f"it does not replay without its cassette: {(proof.skipped or proof.why).partition(chr(10))[0]}"
