"""The hooks around one test: begin its session, run its body, end the session, report it.

`plugin/__init__.py` has these names too, because pytest finds its hooks there.
"""

from __future__ import annotations

import itertools
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from pytest_agentreplay.errors import AgentReplayError, ReplayDiverged
from pytest_agentreplay.plugin import conflicts
from pytest_agentreplay.plugin.session import LINES
from pytest_agentreplay.plugin.stash import (
    BASE,
    BODY,
    FINDING,
    FIXTURES,
    HIDING,
    INNER,
    LIVE,
    LIVE_RUNS,
    NEXT,
    OPEN,
    PROVING,
    RESEEDS,
    RUN_SESSION,
    TRIAL,
    TRIED,
    UNDO,
    UNFIT,
    afterwards_of,
    is_opted_in,
    next_begins,
)

if TYPE_CHECKING:
    from collections.abc import Generator
    from contextlib import AbstractContextManager

    from pytest_agentreplay.plugin.fixtures import FixtureSessions
    from pytest_agentreplay.runs.run_session import RunSession


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    """Redact the reason of a `pytest.exit`: no report carries it, and pytest prints it at the session's end."""
    next_begins(item.config)
    try:
        return (yield)
    except pytest.exit.Exception as stop:
        if is_opted_in(item):
            from pytest_agentreplay.plugin import outcome

            run_session = item.stash.get(RUN_SESSION, None)
            outcome.hide_reason(stop, outcome.hide_of(item) if run_session is None else run_session.redaction.hide)
        raise
    finally:
        if HIDING in item.stash:  # pytest keeps its items to the end of the session, and a redaction takes 45 kB
            del item.stash[HIDING]


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, Any, Any]:
    """A fixture that makes a call may be refused there; the finding says it, not a traceback."""
    next_begins(item.config)  # again, for a test that is run once more
    earlier: list[pytest.StashKey[Any]] = [RUN_SESSION, FINDING, INNER]  # of another go at the same test
    for key in earlier:
        if key in item.stash:
            del item.stash[key]
    item.user_properties[:] = [pair for pair in item.user_properties if not pair[0].startswith("agentreplay.")]
    if not item.stash.get(PROVING, False):
        item.stash[HIDING] = []
        if UNDO in item.stash:
            undo = item.stash[UNDO]
            del item.stash[UNDO]
            try:
                undo()
            except AgentReplayError as refused:
                pytest.fail(str(refused), pytrace=False)
    if TRIAL in item.stash:
        from pytest_agentreplay.plugin.orders import leave_out

        leave_out(item)
    if conflicts.two_recorders(item):
        from pytest_agentreplay.report.plugin_conflicts import TWO_RECORDERS

        pytest.fail(TWO_RECORDERS, pytrace=False)
    if may_be_shared(item):
        from pytest_agentreplay.plugin import fixtures

        fixtures.before_packages(item)
    if is_opted_in(item) and conflicts.asks_for_ours(item):
        from pytest_agentreplay.plugin import session_glue

        if not item.config.option.setupplan and not session_glue.is_skipped(item):
            try:
                session_glue.begin(item)  # whatever its fixtures do, in whatever order, belongs to the test
            except pytest.fail.Exception as unfit:
                item.stash[UNFIT] = unfit
    try:
        return (yield)
    except BaseException as raised:  # some runners make another exception of a refusal
        from pytest_agentreplay.plugin.session_glue import drop_skipped, refused_in_setup

        if (finding := getattr(raised, "finding", None)) is not None:
            item.stash[FINDING] = finding  # of a fixture that it shares
        if (error := refused_in_setup(item, raised)) is None:
            drop_skipped(item, raised)
            raise
        raise error from None


class InvalidUse:
    """Fails a test that cannot be recorded or replayed, inside of all wrappers: some must run for their teardown."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Raise what the hook above has kept."""
        if UNFIT in item.stash:
            error = item.stash[UNFIT]
            del item.stash[UNFIT]
            raise error


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
) -> Generator[None, Any, Any]:
    """Keep a wider fixture out of the recording of the test that needs it first, and clean up after refused ones."""
    item = request._pyfuncitem
    around: AbstractContextManager[None] = nullcontext()
    if is_opted_in(item):
        from pytest_agentreplay.plugin import outcome

        around = outcome.refusals_unwrapped(fixturedef)  # before runners of async fixtures take the function
    with around:
        if fixturedef.scope != "function":
            if not may_be_shared(item):
                return (yield)
            from pytest_agentreplay.plugin import fixtures

            return (yield from fixtures.set_up(fixturedef, request))
        value = yield
        if fixturedef.argname == "tmp_path" and (run_session := item.stash.get(RUN_SESSION, None)) is not None:
            run_session.place_tmp(value)
        return value


def may_be_shared(item: pytest.Item) -> bool:
    """Whether a wider fixture that the test needs may be shared with one that opted in, or have a snapshot."""
    config = item.config
    base = config.stash[BASE]
    if base.mode == "off" or config.option.setupplan:
        return False
    shared = config.stash[LINES].shared
    place = item.path.parent
    if place not in shared:
        folders = itertools.takewhile(lambda folder: folder != config.rootpath.parent, item.path.parents)
        recorded = any((folder / base.directory).is_dir() for folder in folders)
        shared[place] = recorded or any(map(is_opted_in, config.stash[LINES].items))
    return shared[place]


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Open the session, run the body under its stamp, and let the backend have the last word."""
    if not is_opted_in(item):
        return (yield from call_of_late(item))
    if clash := conflicts.foreign_fixture(item):
        pytest.fail(clash, pytrace=False)
    from pytest_agentreplay.plugin import session_glue

    run_session = session_glue.begin(item)
    if run_session is None:
        return (yield)

    session_glue.stamp_coroutine(item, run_session)
    result, failure = None, None
    item.stash[BODY] = True
    run_session.enter_body()
    try:
        result = yield
    except BaseException as raised:  # whatever ended the body is told to the session, then raised again
        failure = raised
    finally:
        run_session.leave_body()
        item.stash[BODY] = False
    return conclude(item, run_session, result, failure)


def call_of_late(item: pytest.Item) -> Generator[None, Any, Any]:
    """The body of a test that may ask for the fixture `agentreplay` while it runs."""
    result, failure = None, None
    item.stash[BODY] = True
    try:
        result = yield
    except BaseException as raised:  # raised again below
        failure = raised
    finally:
        item.stash[BODY] = False
    if (run_session := item.stash.get(RUN_SESSION, None)) is not None:
        run_session.leave_body()
        return conclude(item, run_session, result, failure)
    if failure is not None:
        raise failure
    return result


def conclude(item: pytest.Item, run_session: RunSession, result: Any, failure: BaseException | None) -> Any:
    """The body has given `result` or raised `failure`: let the backend have the last word."""
    from pytest_agentreplay.plugin import session_glue
    from pytest_agentreplay.runs.run_session import EndedRun

    ended = session_glue.how_it_ended(item, failure, EndedRun)
    finding = run_session.end_body(ended)
    if TRIAL in item.stash or TRIED in item.stash:
        from pytest_agentreplay.plugin.orders import remember

        remember(item, run_session, ended)
    if LIVE in item.stash:
        finding, failure = item.config.stash[LIVE_RUNS].conclude(item, run_session, finding, failure)
    if failure is not None and isinstance(failure, session_glue.INTERRUPTS):
        raise failure
    if finding is not None:
        item.stash[FINDING] = finding
        session_glue.unittest_forget(item)
        error = session_glue.failed(item, finding, ended.failure)
        raise error  # --pdb stands here: the agent caught the refusal, its frames are gone
    replay = run_session.summarize().replay
    if replay is not None and replay.expect == "fails as recorded":
        session_glue.unittest_forget(item)
        return None
    if failure is not None:
        raise failure
    return result


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, Any, Any]:
    """Close the session when all fixtures are down; a recording is sealed here."""
    finding, broken, leaving, refused, result = None, None, False, None, None
    if (run_session := item.stash.get(RUN_SESSION, None)) is not None and FIXTURES in item.config.stash:
        run_session.summary = replace(run_session.summary, uses=item.config.stash[FIXTURES].uses(item))
    try:
        result = yield
    except BaseException as raised:
        leaving = isinstance(raised, KeyboardInterrupt | pytest.exit.Exception)
        if not leaving and RUN_SESSION in item.stash and item in (state := item.session._setupstate).stack:
            # A hook of another plugin has failed before pytest's own: the finalizers still belong to the test.
            state.teardown_exact(nextitem)
        if (run_session := item.stash.get(RUN_SESSION, None)) is not None:
            from pytest_agentreplay.plugin.session_glue import broken_off

            broken_off(run_session, raised)
        if run_session is None or not isinstance(raised, ReplayDiverged):
            raise
        refused = raised  # the finding says it, not a traceback
    finally:
        if item.config.stash.get(RESEEDS, False):
            item.config.option.randomly_reset_seed = True
            del item.config.stash[RESEEDS]
        if (run_session := item.stash.get(RUN_SESSION, None)) is not None:
            from pytest_agentreplay.intercept.session import between_tests
            from pytest_agentreplay.intercept.tools import deferred_unpatching

            between_tests.begin(run_session.interception)
            item.config.stash[NEXT] = deferred_unpatching.next_begins
            try:
                finding = run_session.end()
            except AgentReplayError as error:
                broken = error
            except Exception:  # it is in the report, and would be raised again at the end of the session
                item.config.stash[OPEN] = None
                raise
            if not leaving:  # else there will be no report, and the end of the session tells it
                item.config.stash[OPEN] = None
    if broken is not None:
        from pytest_agentreplay.plugin.session_glue import unfit

        raise unfit(item, broken)
    if finding is not None and FINDING not in item.stash:
        from pytest_agentreplay.plugin.session_glue import failed

        item.stash[FINDING] = finding
        raise failed(item, finding, refused)
    if refused is not None and FINDING not in item.stash:
        raise refused
    return result


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Return the report our plain data and its one line, and show nothing in it that is a secret."""
    if "agentreplay_case" in item.keywords:
        from pytest_agentreplay.plugin import cases

        return cases.attach_verdict(item, (yield))
    shared = item.config.stash.get(FIXTURES, None)
    if not is_opted_in(item) and RUN_SESSION not in item.stash:  # a test may ask for the fixture while it runs
        report = yield
        with_finding(item, call, report)  # of a fixture that is wider than the test
        return with_fixtures(shared, call, report)
    from pytest_agentreplay.plugin import outcome

    if call.excinfo is not None:
        outcome.leave_out_our_frames(call.excinfo.value)
    if (run_session := item.stash.get(RUN_SESSION, None)) is not None:
        hiding = item.stash.setdefault(HIDING, [])
        redactions = [run_session.redaction, *(shared.redactions() if shared is not None else ())]
        hiding += [each for each in redactions if each not in hiding]
    hide = outcome.hide_of(item)
    item.config.stash[LINES].hiding = item.nodeid, hide
    report = complete_report(item, call, (yield))
    outcome.hide_report(report, hide)
    return with_fixtures(shared, call, report)


def with_fixtures(
    shared: FixtureSessions | None, call: pytest.CallInfo[None], report: pytest.TestReport
) -> pytest.TestReport:
    """Return the report, with the summaries of the wider fixtures that were torn down with the test."""
    if shared is not None and call.when == "teardown" and (summaries := shared.report()):
        from pytest_agentreplay.plugin.report_data import attach_fixture_summaries

        attach_fixture_summaries(report, summaries)
    return report


def with_finding(item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport) -> bool:
    """Show the headline of the finding that failed the test, and keep its cause; return whether one did."""
    finding = getattr(call.excinfo.value, "finding", None) if call.excinfo is not None else None
    if finding is None or not report.failed:
        return False
    from pytest_agentreplay.plugin.session_glue import show_headline
    from pytest_agentreplay.report.finding import cause_of
    from pytest_agentreplay.report.summary import to_plain

    show_headline(report, finding)
    report.__dict__["agentreplay_cause"] = to_plain(cause_of(finding, item.nodeid))
    return True


def complete_report(item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport) -> pytest.TestReport:
    """Return the report, with the summary of the session of its test."""
    if item.stash.get(BODY, False):
        from pytest_agentreplay.plugin.session_glue import of_a_part

        return of_a_part(item, call, report)
    if hasattr(report, "wasxfail") or call.excinfo is not None:
        from pytest_agentreplay.plugin.expected import correct_report

        correct_report(item, call, report)
    if (
        not with_finding(item, call, report)
        and report.failed
        and (run_session := item.stash.get(RUN_SESSION, None)) is not None
        and run_session.mode == "replay"
    ):
        from pytest_agentreplay.plugin.outcome import notice_redacted
        from pytest_agentreplay.runs.replay_session import OfflineSession

        assert isinstance(run_session, OfflineSession)
        run_session.note(redacted=notice_redacted(report, call.excinfo))
        if report.when != "teardown":
            from pytest_agentreplay.plugin.session_glue import add_stopped_early

            add_stopped_early(item, report, run_session)
    if report.when == "teardown" and (run_session := item.stash.get(RUN_SESSION, None)) is not None:
        from pytest_agentreplay.plugin.report_data import attach_summary, hide_secrets

        attach_summary(report, hide_secrets(run_session.summarize(), run_session.redaction))
        afterwards_of(item.config).listen(run_session)
        if run_session.mode == "record":
            item.stash[UNDO] = run_session.withdraw
        # Let go: it holds the run. A test that is run again opens another one.
        del item.stash[RUN_SESSION]
    return report
