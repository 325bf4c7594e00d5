"""Fixtures that are wider than a test: each has a session and a snapshot of its own.

Which fixtures these are does not depend on the test that needs one first: a fixture is intercepted when any collected
test that opted in needs it, deselected tests included, and always when it has a snapshot.
"""

from __future__ import annotations

import functools
import os
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest

from pytest_agentreplay.errors import AgentReplayError, ReplayDiverged
from pytest_agentreplay.model.paths import MARK
from pytest_agentreplay.plugin import collected, item_session, keys, reports
from pytest_agentreplay.plugin.keys import get_nodeid, get_settings, is_opted_in, store_of

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
    from pathlib import Path

    from pytest_agentreplay.redaction.redaction import Redaction
    from pytest_agentreplay.report.finding import Finding
    from pytest_agentreplay.report.summary import SessionSummary
    from pytest_agentreplay.runs.run_session import RunSession


class FixtureSessions:
    """The wide fixtures of one process: those that are set up, and what those that are torn down have to report."""

    def __init__(self, config: pytest.Config) -> None:
        """Nothing is set up yet."""
        self.config = config
        self.session = config.stash[keys.REPORT]
        self.up: dict[int, RunSession] = {}
        self._open: list[RunSession] = []
        self._summaries: list[SessionSummary] = []
        self._stack: list[RunSession] = []
        self._stamps: list[Any] = []
        self._needed: set[int] | None = None

    def close(self) -> None:
        """Close what an interrupt left open."""
        for run_session in [*self._open]:
            self.leave(run_session)
            self.seal(run_session)

    def is_needed(self, fixturedef: pytest.FixtureDef[Any]) -> bool:
        """Return whether a collected test that opted in needs the fixture."""
        if self._needed is None:
            opted_in = filter(is_opted_in, self.session.items)
            self._needed = {id(fixture) for item in opted_in for fixture in collected.list_wide_fixtures(item)}
        return id(fixturedef) in self._needed

    def intercepts(self, fixturedef: pytest.FixtureDef[Any], item: pytest.Item) -> bool:
        """Return whether the fixture is intercepted, whichever test needs it first."""
        if not collected.is_running_code(fixturedef):
            return False
        if is_opted_in(item) or self.is_needed(fixturedef):
            return True
        file = collected.find_sharing_node(fixturedef, item).partition("::")[0]
        folder = (self.config.rootpath / file).parent / self.config.stash[keys.SETTINGS].dir
        # Asked first: without a folder of snapshots the store is not loaded.
        return folder.is_dir() and os.path.lexists(self.find_snapshot(collected.format_fixture_id(fixturedef, item)))

    def intercepts_package(self, node: pytest.Package) -> bool:
        """Return whether the set-up of a package is intercepted, by the same rule."""
        if any(node in item.listchain() for item in self.session.items if is_opted_in(item)):
            return True
        return os.path.lexists(self.find_snapshot(collected.format_package_id(node)))

    def find_snapshot(self, fixture: str) -> Path:
        """Return the file of the fixture's snapshot."""
        return store_of(self.config).path_of(self.config.rootpath / fixture.partition("::")[0], fixture)

    def open_session(
        self, fixture: str, scope: str, node: pytest.Collector | pytest.Item, item: pytest.Item
    ) -> RunSession | None:
        """Return the session of a fixture, opened and paused; None where its node is in mode off."""
        from pytest_agentreplay.runs.session_factory import begin_fixture_session

        settings = get_settings(node, proving=item.stash.get(keys.PROVING, False))._replace(
            expect="", permutations=0, trial=None
        )
        if settings.mode == "off":
            return None
        store = store_of(self.config)
        settings = item_session.plan_adoption(settings, fixture, self.config)
        place = item_session.locate(self.config, fixture, self.find_snapshot(fixture), settings)
        suite = functools.partial(collected.make_suite, item.session)
        facts: Any = {"name": fixture.partition(MARK)[2].partition("[")[0], "scope": scope}
        run_session = begin_fixture_session(place, settings, store, suite, facts=facts, since=self.session.begun)
        item_session.add_patches_of_plugins(self.config)
        run_session.open()
        run_session.pause()
        run_session.keys.stop()
        self._open.append(run_session)
        return run_session

    def enter(self, run_session: RunSession) -> None:
        """Intercept for `run_session` from now on, and for nothing else."""
        from pytest_agentreplay.intercept.session.lanes import CALL_CONTEXT

        if (outer := self.current()) is not None:
            outer.pause()
        self._stamps.append(CALL_CONTEXT.set(None))  # a fixture may be asked for by the body of a test
        self._stack.append(run_session)
        run_session.resume()
        run_session.await_children()

    def leave(self, run_session: RunSession) -> None:
        """Intercept again for what was intercepted before `enter`."""
        from pytest_agentreplay.intercept.session.lanes import CALL_CONTEXT

        run_session.pause()
        run_session.keys.stop()
        if run_session in self._stack:
            self._stack.remove(run_session)
            CALL_CONTEXT.reset(self._stamps.pop())
            if (outer := self.current()) is not None:
                outer.resume()

    def current(self) -> RunSession | None:
        """Return what is intercepted now: the innermost fixture, else the test."""
        return self._stack[-1] if self._stack else self.config.stash.get(keys.OPEN, None)

    @contextmanager
    def stop_interception(self) -> Iterator[None]:
        """A block in which nothing is intercepted."""
        outer = self.current()
        if outer is not None:
            outer.pause()
        try:
            yield
        finally:
            if outer is not None:
                outer.resume()

    def seal(self, run_session: RunSession) -> tuple[Finding | None, AgentReplayError | None]:
        """End the session of a fixture, and keep what it has to report. What its set-up has reported is not new."""
        finding, broken, reported = None, None, bool(run_session.summary.code)
        if run_session not in self._open:
            return None, None
        self._open.remove(run_session)
        self.up = {key: other for key, other in self.up.items() if other is not run_session}
        try:
            finding = run_session.end()
        except AgentReplayError as error:
            broken = error
        if not run_session.summary.silent:
            self._summaries.append(reports.hide_summary(run_session))
        return None if reported else finding, broken

    def take_summaries(self) -> list[SessionSummary]:
        """Return what there is to report since the last time."""
        summaries, self._summaries = self._summaries, []
        return summaries

    def list_recordings(self, item: pytest.Item) -> dict[str, int]:
        """Return which recordings the test has built on: by id of a fixture, when its recording began."""
        wider = [*collected.list_wide_fixtures(item), *list_packages(item)]
        run_sessions = [self.up[id(node)] for node in wider if id(node) in self.up]
        return {
            run_session.place.test: run_session.summary.instance
            for run_session in run_sessions
            if run_session.summary.instance
        }

    def list_redactions(self) -> list[Redaction]:
        """Return what the fixtures that are set up know as secrets."""
        return [run_session.redaction for run_session in self.up.values()]

    def list_sharing_tests(self, fixturedef: pytest.FixtureDef[Any], fixture: str) -> list[str]:
        """Return the collected tests that share the fixture."""
        sharing = [item for item in self.session.items if fixturedef in collected.list_wide_fixtures(item)]
        return [get_nodeid(item) for item in sharing if collected.format_fixture_id(fixturedef, item) == fixture]


def get_fixtures(config: pytest.Config) -> FixtureSessions:
    """Return the wide fixtures of this process."""
    if keys.FIXTURES not in config.stash:
        config.stash[keys.FIXTURES] = FixtureSessions(config)
    made: FixtureSessions = config.stash[keys.FIXTURES]
    return made


def set_up_live(fixturedef: pytest.FixtureDef[Any], fixtures: FixtureSessions) -> Generator[None, Any, Any]:
    """Set up and tear down a fixture that is not intercepted: no test that opted in needs it.

    The test whose teardown tears it down may have opted in. Fixtures of pytest and of asyncio plugins are torn down
    intercepted, since closing an event loop runs what is left of the test's tasks.
    """
    if not collected.is_running_code(fixturedef):
        with fixtures.stop_interception():
            return (yield)
    stack = ExitStack()
    fixturedef.addfinalizer(stack.close)  # runs last
    try:
        with fixtures.stop_interception():
            return (yield)
    finally:
        fixturedef.addfinalizer(lambda: stack.enter_context(fixtures.stop_interception()))  # runs first


@dataclass(frozen=True, slots=True)
class SharedSetUp:
    """The set-up and teardown of a wide fixture, or of a package, in a session of its own.

    Attributes:
        item: The test that needs it first.
        node: What has the finalizers.
        list_tests: Returns the collected tests that share it.
        keep_failure: Has pytest raise an exception for each of them.
    """

    item: pytest.Item
    node: pytest.FixtureDef[Any] | pytest.Package
    run_session: RunSession
    list_tests: Callable[[], list[str]]
    keep_failure: Callable[[BaseException], object]

    @contextmanager
    def run(self) -> Iterator[None]:
        """Intercept the set-up, which is this block, and later the teardown. A divergence fails with its finding."""
        fixtures = get_fixtures(self.item.config)
        fixtures.up[id(self.node)] = self.run_session
        self.node.addfinalizer(self.tear_down)
        failure = None
        fixtures.enter(self.run_session)
        try:
            self.run_session.check_start()
            yield
        except BaseException as raised:  # raised again below
            failure = raised
        finally:
            fixtures.leave(self.run_session)
            self.silence_refusals()
            self.node.addfinalizer(functools.partial(fixtures.enter, self.run_session))
        if (refused := self.end_set_up(failure)) is not None:
            self.keep_failure(refused)
            raise refused from None
        if failure is not None:
            raise failure

    def silence_refusals(self) -> None:
        """Let the finalizers of the fixture end at a refusal without a word: the finding reports it, once.

        Nothing else stands around a finalizer, and pytest makes a group of exceptions where two of them raise.
        """
        # Both lists are private, pytest 8.4 to 9.2: https://github.com/pytest-dev/pytest/blob/9.0.0/src/_pytest/fixtures.py
        # and https://github.com/pytest-dev/pytest/blob/9.0.0/src/_pytest/runner.py
        stack = self.item.session._setupstate.stack
        finalizers = self.node._finalizers if isinstance(self.node, pytest.FixtureDef) else stack[self.node][0]

        def run(finalizer: Callable[[], object]) -> None:
            try:
                finalizer()
            except ReplayDiverged:
                if self.run_session.interception.ending.refused is None:
                    raise

        finalizers[:] = [functools.partial(run, finalizer) for finalizer in finalizers]

    def end_set_up(self, failure: BaseException | None) -> BaseException | None:
        """End the set-up that `failure` has ended; return what it fails with instead, if anything."""
        from pytest_agentreplay.runs.run_session import EndedRun

        skipped, interrupted = isinstance(failure, pytest.skip.Exception), isinstance(failure, item_session.INTERRUPTS)
        ended = EndedRun(None if skipped else failure, interrupted=interrupted, skipped=skipped)
        finding = self.run_session.end_body(ended)
        if interrupted:
            return None
        if finding is not None:
            return self.make_failure(finding, failure)
        return pytest.fail.Exception(str(failure), pytrace=False) if isinstance(failure, ReplayDiverged) else None

    def tear_down(self) -> None:
        """Seal the session, whose finalizers have run. Raises what the test that is torn down fails with."""
        fixtures = get_fixtures(self.item.config)
        fixtures.leave(self.run_session)
        finding, broken = fixtures.seal(self.run_session)
        if fixtures.session.finishing:
            return  # there is no test to fail any more: the end of the session reports it
        if broken is not None:
            raise item_session.make_unfit_failure(self.item, broken)
        if finding is not None:
            raise self.make_failure(finding)

    def make_failure(self, finding: Finding, failure: BaseException | None = None) -> BaseException:
        """Return the exception for a finding about the fixture."""
        from pytest_agentreplay.runs.session_factory import add_users

        return reports.make_failure(self.item, add_users(finding, self.list_tests()), failure)


def set_up_fixture(fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest) -> Generator[None, Any, Any]:
    """Set up a wider fixture in a session of its own. A divergence fails each test that shares it."""
    item = request._pyfuncitem  # pytest 8.4-9: https://github.com/pytest-dev/pytest/blob/9.0.0/src/_pytest/fixtures.py
    fixtures = get_fixtures(request.config)
    if not fixtures.intercepts(fixturedef, item):
        return (yield from set_up_live(fixturedef, fixtures))

    def keep_failure(error: BaseException) -> BaseException:
        # What the fixture has raised is kept by pytest, for the tests that ask for it after this one.
        fixturedef.cached_result = (None, fixturedef.cache_key(request), (error, None))  # type: ignore[arg-type]
        return error

    fixture = collected.format_fixture_id(fixturedef, item)
    try:
        run_session = fixtures.open_session(fixture, fixturedef.scope, request.node, item)
    except AgentReplayError as error:
        raise keep_failure(item_session.make_unfit_failure(item, error)) from None
    if run_session is None:
        with fixtures.stop_interception():
            return (yield)
    if not is_opted_in(item) and not fixtures.is_needed(fixturedef):
        # Nobody who opted in needs it: prune may take its snapshot.
        run_session.summary = replace(run_session.summary, idle=True)
    list_tests = functools.partial(fixtures.list_sharing_tests, fixturedef, fixture)
    with SharedSetUp(item, fixturedef, run_session, list_tests, keep_failure).run():
        return (yield)


def list_packages(item: pytest.Item) -> list[pytest.Package]:
    """Return the packages that the test is in, outermost first."""
    return [node for node in item.listchain() if isinstance(node, pytest.Package)]


def wrap_package_setups(item: pytest.Item) -> None:
    """Have the set-up of the packages around a test, which is no fixture, run in sessions of their own."""
    state, fixtures = item.session._setupstate, get_fixtures(item.config)
    for node in list_packages(item):
        if node not in state.stack and fixtures.intercepts_package(node):
            node.setup = functools.partial(set_up_package, node, item)  # type: ignore[method-assign]


def set_up_package(node: pytest.Package, item: pytest.Item) -> None:
    """Run `setup_module` of the `__init__.py` of a package, and later its `teardown_module`, as a fixture is run."""
    vars(node).pop("setup", None)
    fixtures = get_fixtures(item.config)
    run_session = fixtures.open_session(collected.format_package_id(node), "package", node, item)
    if run_session is None:
        with fixtures.stop_interception():
            return node.setup()

    def list_tests() -> list[str]:
        return [get_nodeid(item) for item in fixtures.session.items if node in item.listchain()]

    with SharedSetUp(item, node, run_session, list_tests, lambda _: None).run():
        return node.setup()
