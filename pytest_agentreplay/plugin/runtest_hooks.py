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
from pytest_agentreplay.plugin import conflicts, keys
from pytest_agentreplay.plugin.keys import begin_next, is_opted_in, take_out

if TYPE_CHECKING:
    from collections.abc import Generator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from pytest_agentreplay.runs.run_session import RunSession


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    """Redact the reason of a `pytest.exit`: no report carries it, and pytest prints it at the session's end."""
    begin_next(item.config)
    try:
        return (yield)
    except pytest.exit.Exception as stop:
        if is_opted_in(item):
            from pytest_agentreplay.plugin import reports

            run_session = item.stash.get(keys.RUN_SESSION, None)
            reports.hide_reason(stop, reports.find_hider(item) if run_session is None else run_session.redaction.hide)
        raise
    finally:
        # pytest keeps its items to the end of the session, and a redaction takes 45 kB.
        take_out(item.stash, keys.REDACTIONS)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, Any, Any]:
    """A fixture that makes a call may be refused there; the finding says it, not a traceback."""
    begin_next(item.config)  # again, for a test that is run once more
    forget_last_try(item)
    if keys.TRIAL in item.stash:
        from pytest_agentreplay.plugin.orders import skip_trial

        skip_trial(item)
    if keys.NEIGHBOUR in item.stash:
        from pytest_agentreplay.plugin.trial_items import skip_unfounded

        skip_unfounded(item)
    if may_be_shared(item):
        from pytest_agentreplay.plugin import fixtures

        fixtures.wrap_package_setups(item)
    if is_opted_in(item) and conflicts.is_asking_for_ours(item):
        from pytest_agentreplay.plugin import item_session

        if not item.config.option.setupplan and not item_session.will_be_skipped(item):
            try:
                item_session.begin_session(item)  # whatever its fixtures do, in whatever order, belongs to the test
            except (pytest.fail.Exception, ReplayDiverged) as unfit:
                item.stash[keys.UNFIT] = unfit
    try:
        return (yield)
    except BaseException as raised:  # some runners make another exception of a refusal
        if (finding := getattr(raised, "finding", None)) is not None:
            item.stash[keys.FINDING] = finding  # of a fixture that it shares
        if keys.NEIGHBOUR in item.stash and isinstance(raised, Exception | ReplayDiverged):
            from pytest_agentreplay.plugin.trial_items import IN_SETUP

            raise pytest.skip.Exception(IN_SETUP, _use_item_location=True) from None
        if (run_session := item.stash.get(keys.RUN_SESSION, None)) is None:
            raise
        from pytest_agentreplay.plugin.item_session import drop_skipped, explain_refused_setup

        if (error := explain_refused_setup(item, run_session, raised)) is None:
            drop_skipped(item, run_session, raised)
            raise
        raise error from None


def forget_last_try(item: pytest.Item) -> None:
    """Forget what an earlier try of the test has left, and withdraw its recording."""
    take_out(item.stash, keys.RUN_SESSION)
    take_out(item.stash, keys.FINDING)
    take_out(item.stash, keys.SUBTEST_FAILURE)
    item.user_properties[:] = [pair for pair in item.user_properties if not pair[0].startswith("agentreplay.")]
    if not item.stash.get(keys.PROVING, False):
        item.stash[keys.REDACTIONS] = []
        if (undo := take_out(item.stash, keys.UNDO)) is not None:
            try:
                undo()
            except AgentReplayError as refused:
                pytest.fail(str(refused), pytrace=False)


class InvalidUse:
    """Fails a test that cannot be recorded or replayed, inside of all wrappers: some must run for their teardown."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Raise what the hook above has kept."""
        if (error := take_out(item.stash, keys.UNFIT)) is not None:
            raise error


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
) -> Generator[None, Any, Any]:
    """Keep a wider fixture out of the recording of the test that needs it first, and clean up after refused ones."""
    item = request._pyfuncitem  # pytest 8.4-9: https://github.com/pytest-dev/pytest/blob/9.0.0/src/_pytest/fixtures.py
    around: AbstractContextManager[None] = nullcontext()
    if is_opted_in(item):
        from pytest_agentreplay.plugin import item_session

        around = item_session.unwrap_refusals(fixturedef)  # before runners of async fixtures take the function
    with around:
        if fixturedef.scope != "function":
            if not may_be_shared(item):
                return (yield)
            from pytest_agentreplay.plugin import fixtures

            return (yield from fixtures.set_up_fixture(fixturedef, request))
        value = yield
        if fixturedef.argname == "tmp_path" and (run_session := item.stash.get(keys.RUN_SESSION, None)) is not None:
            run_session.place_tmp(value)
        return value


def may_be_shared(item: pytest.Item) -> bool:
    """Return whether a wider fixture that the test needs may be shared with one that opted in, or have a snapshot."""
    config = item.config
    base = config.stash[keys.SETTINGS]
    if base.mode == "off" or config.option.setupplan:
        return False
    shared: dict[Path, bool] = config.stash[keys.REPORT].shared
    place = item.path.parent
    if place not in shared:
        folders = itertools.takewhile(lambda folder: folder != config.rootpath.parent, item.path.parents)
        recorded = any((folder / base.dir).is_dir() for folder in folders)
        shared[place] = recorded or any(map(is_opted_in, config.stash[keys.REPORT].items))
    return shared[place]


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Open the session, run the body under its stamp, and let the backend have the last word."""
    if is_opted_in(item):
        if clash := conflicts.explain_foreign_fixture(item):
            pytest.fail(clash, pytrace=False)
        from pytest_agentreplay.plugin import item_session

        if (run_session := item_session.begin_session(item)) is None:
            return (yield)
        item_session.stamp_coroutine(item, run_session)
        run_session.enter_body()
    result, failure = None, None
    item.stash[keys.BODY] = True
    try:
        result = yield
    except BaseException as raised:  # whatever ended the body is told to the session, then raised again
        failure = raised
    item.stash[keys.BODY] = False
    # Also of a test that did not opt in, and has asked for the fixture while it ran.
    if (run_session := item.stash.get(keys.RUN_SESSION, None)) is not None:
        run_session.leave_body()
        return conclude_body(item, run_session, result, failure)
    if failure is not None:
        raise failure
    return result


def conclude_body(item: pytest.Item, run_session: RunSession, result: Any, failure: BaseException | None) -> Any:
    """The body has given `result` or raised `failure`: let the backend have the last word."""
    from pytest_agentreplay.plugin import item_session, reports

    ended = item_session.end_of_body(item, failure)
    finding = run_session.end_body(ended)
    if keys.TRIAL in item.stash or keys.TRIED in item.stash:
        from pytest_agentreplay.plugin.orders import remember_end

        remember_end(item, run_session, ended)
    if keys.LIVE in item.stash:
        finding, failure = item.config.stash[keys.LIVE_RUNS].conclude(item, run_session, finding, failure)
    if failure is not None and isinstance(failure, item_session.INTERRUPTS):
        raise failure
    if finding is not None:
        item.stash[keys.FINDING] = finding
        reports.forget_unittest_failure(item)
        error = reports.make_failure(item, finding, ended.failure)
        raise error  # --pdb stands here: the agent caught the refusal, its frames are gone
    replay = run_session.summarize().replay
    # How a test ends on a neighbour is no verdict on it.
    judged = run_session.summary.result is not None
    if judged or (replay is not None and replay.expect == "fails as recorded"):
        reports.forget_unittest_failure(item)
        return None
    if failure is not None:
        raise failure
    return result


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, Any, Any]:
    """Close the session when all fixtures are down; a recording is sealed here."""
    finding, leaving, refused, result = None, False, None, None
    if (run_session := item.stash.get(keys.RUN_SESSION, None)) is not None and keys.FIXTURES in item.config.stash:
        run_session.summary = replace(run_session.summary, uses=item.config.stash[keys.FIXTURES].list_recordings(item))
    try:
        result = yield
    except BaseException as raised:
        leaving = isinstance(raised, KeyboardInterrupt | pytest.exit.Exception)
        # `_setupstate`, pytest 8.4-9: https://github.com/pytest-dev/pytest/blob/9.0.0/src/_pytest/runner.py
        if not leaving and keys.RUN_SESSION in item.stash and item in (state := item.session._setupstate).stack:
            # A hook of another plugin has failed before pytest's own: the finalizers still belong to the test.
            state.teardown_exact(nextitem)
        if (run_session := item.stash.get(keys.RUN_SESSION, None)) is None:
            raise
        from pytest_agentreplay.plugin.item_session import end_broken_teardown

        end_broken_teardown(run_session, raised)
        if not isinstance(raised, ReplayDiverged):
            raise
        refused = raised  # the finding says it, not a traceback
    finally:
        if take_out(item.config.stash, keys.RESEEDS):
            item.config.option.randomly_reset_seed = True
        if (run_session := item.stash.get(keys.RUN_SESSION, None)) is not None:
            from pytest_agentreplay.plugin.item_session import end_session

            finding = end_session(item, run_session, leaving=leaving)
    if isinstance(finding, AgentReplayError):
        from pytest_agentreplay.plugin.item_session import make_unfit_failure

        raise make_unfit_failure(item, finding)
    if finding is not None and keys.FINDING not in item.stash:
        from pytest_agentreplay.plugin.reports import make_failure

        item.stash[keys.FINDING] = finding
        raise make_failure(item, finding, refused)
    if refused is not None and keys.FINDING not in item.stash:
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
    shared = item.config.stash.get(keys.FIXTURES, None)
    guarded = is_opted_in(item) or keys.RUN_SESSION in item.stash  # a test may ask for the fixture while it runs
    if not guarded and shared is None:
        return (yield)
    from pytest_agentreplay.plugin import reports

    if guarded:
        if call.excinfo is not None:
            reports.leave_out_our_frames(call.excinfo.value)
        if (run_session := item.stash.get(keys.RUN_SESSION, None)) is not None:
            hiding = item.stash.setdefault(keys.REDACTIONS, [])
            redactions = [run_session.redaction, *(shared.list_redactions() if shared is not None else ())]
            hiding += [redaction for redaction in redactions if redaction not in hiding]
        hide = reports.find_hider(item)
        item.config.stash[keys.REPORT].hiding = item.nodeid, hide
        report = yield
        reports.complete_report(item, call, report)
        reports.hide_report(report, hide)
    else:
        report = yield
        reports.add_finding(item, call, report)  # of a fixture that is wider than the test
    if shared is not None and call.when == "teardown" and (summaries := shared.take_summaries()):
        reports.attach_fixture_summaries(report, summaries)
    return report
