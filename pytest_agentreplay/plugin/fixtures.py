"""Fixtures that are wider than a test: each has a session and a snapshot of its own.

Which fixtures these are does not depend on the test that needs one first: a fixture is intercepted when any collected
test that opted in needs it, deselected tests included, and always when it has a snapshot.
"""

from __future__ import annotations

import functools
import os
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from pytest_agentreplay.core.paths import MARK
from pytest_agentreplay.errors import AgentReplayError, ReplayDiverged
from pytest_agentreplay.plugin import fixture_names
from pytest_agentreplay.plugin.report_data import hide_secrets
from pytest_agentreplay.plugin.session import LINES, suite_of
from pytest_agentreplay.plugin.stash import (
    BASE,
    FIXTURES,
    OPEN,
    PROVING,
    is_opted_in,
    nodeid_of,
    redactors_of,
    store_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from pytest_agentreplay.core.redaction import Redaction
    from pytest_agentreplay.report.finding import Finding
    from pytest_agentreplay.report.summary import SessionSummary
    from pytest_agentreplay.runs.run_session import RunSession


class FixtureSessions:
    """The wide fixtures of one process: those that are set up, and what those that are torn down have to report."""

    def __init__(self, config: pytest.Config) -> None:
        """Nothing is set up yet."""
        self.config = config
        self.session = config.stash[LINES]
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
            self.sealed(run_session)

    def needed(self, fixturedef: pytest.FixtureDef[Any]) -> bool:
        """Whether a collected test that opted in needs the fixture."""
        if self._needed is None:
            opted_in = filter(is_opted_in, self.session.items)
            self._needed = {id(each) for item in opted_in for each in fixture_names.wide(item)}
        return id(fixturedef) in self._needed

    def intercepts(self, fixturedef: pytest.FixtureDef[Any], item: pytest.Item) -> bool:
        """Whether the fixture is intercepted, whichever test needs it first."""
        if not fixture_names.runs_code(fixturedef):
            return False
        if is_opted_in(item) or self.needed(fixturedef):
            return True
        file = fixture_names.node_of(fixturedef, item).partition("::")[0]
        folder = (self.config.rootpath / file).parent / self.config.stash[BASE].directory
        if not folder.is_dir():
            return False  # before the store is loaded
        fixture = fixture_names.id_of(fixturedef, item)
        return os.path.lexists(store_of(self.config).path_of(self.config.rootpath / file, fixture))

    def intercepts_package(self, node: pytest.Package) -> bool:
        """Whether the set-up of a package is intercepted, by the same rule."""
        if any(node in item.listchain() for item in self.session.items if is_opted_in(item)):
            return True
        fixture = fixture_names.id_of_package(node)
        return os.path.lexists(
            store_of(self.config).path_of(self.config.rootpath / fixture.partition("::")[0], fixture)
        )

    def session_of(
        self, fixture: str, scope: str, node: pytest.Collector | pytest.Item, item: pytest.Item
    ) -> RunSession | None:
        """The session of a fixture, opened and paused; None where its node is in mode off."""
        from pytest_agentreplay.intercept.environment.machine import todays_places
        from pytest_agentreplay.plugin import session_glue as run_sessions
        from pytest_agentreplay.runs import fixture_session as fixtures
        from pytest_agentreplay.runs.run_session import Location

        root = self.config.rootpath
        markers = [dict(mark.kwargs) for mark in node.iter_markers("agentreplay")]
        settings = self.config.stash[BASE].for_test(markers, proving=item.stash.get(PROVING, False))
        settings = settings._replace(expect="", orders=0, trial=None)
        if settings.mode == "off":
            return None
        store = store_of(self.config)
        if settings.adopt:
            from pytest_agentreplay.plugin.adopting import planned

            settings = planned(settings, store.snapshot_id(fixture), self.config)
        path = store.path_of(root / fixture.partition("::")[0], fixture)
        project = store.project_of(path, fixture, recording=settings.mode == "record")
        marks = todays_places(project) if settings.places else {}
        place = Location(fixture, path, root, marks, os.environ, redactors_of(self.config))
        suite = functools.partial(suite_of, item.session)
        facts: Any = {"name": fixture.partition(MARK)[2].partition("[")[0], "scope": scope}
        run_session = fixtures.begin(place, settings, store, suite, facts=facts, since=self.session.begun)
        run_sessions.add_patches_of_plugins(self.config)
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
        """What is intercepted now: the innermost fixture, else the test."""
        return self._stack[-1] if self._stack else self.config.stash.get(OPEN, None)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """A block in which nothing is intercepted."""
        outer = self.current()
        if outer is not None:
            outer.pause()
        try:
            yield
        finally:
            if outer is not None:
                outer.resume()

    def sealed(self, run_session: RunSession) -> tuple[Finding | None, AgentReplayError | None]:
        """End the session of a fixture, and keep what it has to report. What its set-up has reported is not new."""
        finding, broken, reported = None, None, bool(run_session.summary.code)
        if run_session not in self._open:
            return None, None
        self._open.remove(run_session)
        self.up = {key: each for key, each in self.up.items() if each is not run_session}
        try:
            finding = run_session.end()
        except AgentReplayError as error:
            broken = error
        if not run_session.summary.silent:
            self._summaries.append(hide_secrets(run_session.summarize(), run_session.redaction))
        return None if reported else finding, broken

    def report(self) -> list[SessionSummary]:
        """Return what there is to report since the last time."""
        summaries, self._summaries = self._summaries, []
        return summaries

    def uses(self, item: pytest.Item) -> dict[str, int]:
        """Which recordings the test has built on: by id of a fixture, when its recording began."""
        wider = [*fixture_names.wide(item), *packages(item)]
        run_sessions = [self.up[id(each)] for each in wider if id(each) in self.up]
        return {
            run_session.place.test: run_session.summary.instance
            for run_session in run_sessions
            if run_session.summary.instance
        }

    def redactions(self) -> list[Redaction]:
        """What the fixtures that are set up know as secrets."""
        return [run_session.redaction for run_session in self.up.values()]

    def sharing(self, fixturedef: pytest.FixtureDef[Any], fixture: str) -> list[str]:
        """The collected tests that share the fixture."""
        sharing = [item for item in self.session.items if fixturedef in fixture_names.wide(item)]
        return [nodeid_of(item) for item in sharing if fixture_names.id_of(fixturedef, item) == fixture]


def fixtures_of(config: pytest.Config) -> FixtureSessions:
    """The wide fixtures of this process."""
    if FIXTURES not in config.stash:
        config.stash[FIXTURES] = FixtureSessions(config)
    made: FixtureSessions = config.stash[FIXTURES]
    return made


def set_up_live(fixturedef: pytest.FixtureDef[Any], fixtures: FixtureSessions) -> Generator[None, Any, Any]:
    """Set up and tear down a fixture that is not intercepted: no test that opted in needs it.

    The test whose teardown tears it down may have opted in. Fixtures of pytest and of asyncio plugins are torn down
    intercepted, since closing an event loop runs what is left of the test's tasks.
    """
    if not fixture_names.runs_code(fixturedef):
        with fixtures.paused():
            return (yield)
    stack = ExitStack()
    fixturedef.addfinalizer(stack.close)  # runs last
    try:
        with fixtures.paused():
            return (yield)
    finally:
        fixturedef.addfinalizer(lambda: stack.enter_context(fixtures.paused()))  # runs first


def set_up(fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest) -> Generator[None, Any, Any]:
    """Set up a wider fixture in a session of its own. A divergence fails each test that shares it."""
    item = request._pyfuncitem
    fixtures = fixtures_of(request.config)
    if not fixtures.intercepts(fixturedef, item):
        return (yield from set_up_live(fixturedef, fixtures))

    def kept(error: BaseException) -> BaseException:
        """Have pytest raise `error` for every test that shares the fixture, this one included."""
        fixturedef.cached_result = (None, fixturedef.cache_key(request), (error, None))  # type: ignore[arg-type]
        return error

    fixture = fixture_names.id_of(fixturedef, item)
    try:
        run_session = fixtures.session_of(fixture, fixturedef.scope, request.node, item)
    except AgentReplayError as error:
        from pytest_agentreplay.plugin.session_glue import unfit

        raise kept(unfit(item, error)) from None
    if run_session is None:
        with fixtures.paused():
            return (yield)
    if not is_opted_in(item) and not fixtures.needed(fixturedef):
        run_session.summary = replace(
            run_session.summary, idle=True
        )  # nobody who opted in needs it: prune may take its snapshot
    fixtures.up[id(fixturedef)] = run_session
    sharing = functools.partial(fixtures.sharing, fixturedef, fixture)
    fixturedef.addfinalizer(functools.partial(tear_down, item, run_session, sharing))
    result, failure = None, None
    fixtures.enter(run_session)
    try:
        result = yield
    except BaseException as raised:  # raised again below
        failure = raised
    finally:
        fixtures.leave(run_session)
        hold_refusals(fixturedef._finalizers, run_session)
        fixturedef.addfinalizer(functools.partial(fixtures.enter, run_session))
    refused = ended(item, run_session, sharing, failure)
    if refused is not None:
        raise kept(refused) from None
    if failure is not None:
        raise failure
    return result


def packages(item: pytest.Item) -> list[pytest.Package]:
    """Return the packages that the test is in, outermost first."""
    return [node for node in item.listchain() if isinstance(node, pytest.Package)]


def before_packages(item: pytest.Item) -> None:
    """Have the set-up of the packages around a test, which is no fixture, run in sessions of their own."""
    state, fixtures = item.session._setupstate, fixtures_of(item.config)
    for node in packages(item):
        if node not in state.stack and fixtures.intercepts_package(node):
            node.setup = functools.partial(set_up_package, node, item)  # type: ignore[method-assign]


def set_up_package(node: pytest.Package, item: pytest.Item) -> None:
    """Run `setup_module` of the `__init__.py` of a package, and later its `teardown_module`, as a fixture is run."""
    vars(node).pop("setup", None)
    fixtures = fixtures_of(item.config)
    run_session = fixtures.session_of(fixture_names.id_of_package(node), "package", node, item)
    if run_session is None:
        with fixtures.paused():
            return node.setup()

    def sharing() -> list[str]:
        return [nodeid_of(each) for each in fixtures.session.items if node in each.listchain()]

    fixtures.up[id(node)] = run_session
    node.addfinalizer(functools.partial(tear_down, item, run_session, sharing))
    failure = None
    fixtures.enter(run_session)
    try:
        node.setup()
    except BaseException as raised:  # raised again below
        failure = raised
    finally:
        fixtures.leave(run_session)
        hold_refusals(item.session._setupstate.stack[node][0], run_session)
        node.addfinalizer(functools.partial(fixtures.enter, run_session))
    refused = ended(item, run_session, sharing, failure)
    if refused is not None:
        raise refused from None
    if failure is not None:
        raise failure
    return None


def hold_refusals(finalizers: list[Any], run_session: RunSession) -> None:
    """Let the finalizers of the fixture end at a refusal without a word: the finding reports it, once.

    Their list is private in pytest 8.4 to 9.2. Nothing else stands around a finalizer, and pytest makes a group of
    exceptions where two of them raise.
    """

    def run(finalizer: Callable[[], object]) -> None:
        try:
            finalizer()
        except ReplayDiverged:
            if run_session.interception.refused is None:
                raise

    finalizers[:] = [functools.partial(run, finalizer) for finalizer in finalizers]


def ended(
    item: pytest.Item, run_session: RunSession, sharing: Callable[[], list[str]], failure: BaseException | None
) -> BaseException | None:
    """End the set-up that `failure` has ended; return what it fails with instead, if anything."""
    from pytest_agentreplay.plugin.session_glue import INTERRUPTS
    from pytest_agentreplay.runs.run_session import EndedRun

    skipped = isinstance(failure, pytest.skip.Exception)
    interrupted = isinstance(failure, INTERRUPTS)
    finding = run_session.end_body(EndedRun(None if skipped else failure, interrupted=interrupted, skipped=skipped))
    if interrupted:
        return None
    if finding is not None:
        return failed(item, finding, sharing, failure)
    return pytest.fail.Exception(str(failure), pytrace=False) if isinstance(failure, ReplayDiverged) else None


def tear_down(item: pytest.Item, run_session: RunSession, sharing: Callable[[], list[str]]) -> None:
    """The finalizers of the fixture have run: seal its session. Raises what the test that is torn down fails with."""
    from pytest_agentreplay.plugin.session_glue import unfit

    fixtures = fixtures_of(item.config)
    fixtures.leave(run_session)
    finding, broken = fixtures.sealed(run_session)
    if fixtures.session.finishing:
        return  # there is no test to fail any more: the end of the session reports it
    if broken is not None:
        raise unfit(item, broken)
    if finding is not None:
        raise failed(item, finding, sharing)


def failed(
    item: pytest.Item, finding: Finding, sharing: Callable[[], list[str]], failure: BaseException | None = None
) -> BaseException:
    """The exception for a finding about the fixture."""
    from pytest_agentreplay.plugin import session_glue as run_sessions
    from pytest_agentreplay.runs.fixture_session import used_by

    return run_sessions.failed(item, used_by(finding, sharing()), failure)
