"""The session of one test, as pytest sees it: begun, ended, and reported as an exception of pytest's."""

from __future__ import annotations

import bdb
import functools
import inspect
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_agentreplay.errors import AgentReplayError, ReplayDiverged, SettingsError, SnapshotError
from pytest_agentreplay.plugin import outcome
from pytest_agentreplay.plugin.session import suite_of
from pytest_agentreplay.plugin.stash import (
    BASE,
    BODY,
    FINDING,
    INNER,
    LIVE,
    LIVE_RUNS,
    OPEN,
    PROVING,
    RESEEDS,
    RUN_SESSION,
    TRIAL,
    is_opted_in,
    nodeid_of,
    redactors_of,
    store_of,
)

if TYPE_CHECKING:
    from pytest_agentreplay.core.order_permutations import OrderTrial
    from pytest_agentreplay.live.live_session import LiveSession
    from pytest_agentreplay.report.finding import Finding
    from pytest_agentreplay.runs.run_session import EndedRun, RunSession
    from pytest_agentreplay.settings import Settings

INTERRUPTS = (KeyboardInterrupt, SystemExit, pytest.exit.Exception, bdb.BdbQuit)

TOO_LATE = (
    "this test asked for agentreplay while it ran: what it did before ran for real, in a replay too.\n"
    "Name the fixture among its arguments, or mark it: @pytest.mark.agentreplay"
)

TIMED_OUT = re.compile(r"Timeout \(?>[\d.]+s\)?( from pytest-timeout\.)?")


def begin(item: pytest.Item) -> RunSession | None:
    """Open the test's session, once; None in mode off. What cannot be set up fails the test with our message."""
    if RUN_SESSION in item.stash:
        return item.stash[RUN_SESSION]
    outcome.install()
    try:
        marker = [dict(mark.kwargs) for mark in item.iter_markers("agentreplay")]
        if any(mark.args for mark in item.iter_markers("agentreplay")):
            raise SettingsError("@pytest.mark.agentreplay takes keywords only")
        settings = item.config.stash[BASE].for_test(marker, proving=item.stash.get(PROVING, False))
        if settings.adopt:
            from pytest_agentreplay.plugin.adopting import planned

            settings = planned(settings, store_of(item.config).snapshot_id(nodeid_of(item)), item.config)
        if settings.orders or TRIAL in item.stash:
            settings = settings._replace(trial=in_which_order(item))
        if LIVE in item.stash:
            settings = settings.in_cell(item.stash[LIVE][0])
        if settings.mode == "replay" and item.stash.get(BODY, False) and not is_opted_in(item):
            raise SettingsError(TOO_LATE)
        run_session = None
        if settings.mode != "off" and not left_out(item, marker):
            from pytest_agentreplay.runs.garbage_collection import uncollected

            with uncollected():
                from pytest_agentreplay.runs.session_factory import begin as begin_scene

                place, store = place_of(item, settings), store_of(item.config)
            suite = functools.partial(suite_of, item.session)
            run_session = begin_scene(place, settings, store, suite, live_session(settings))
            if (backend := getattr(run_session, "live", None)) is not None:
                backend.budget = item.config.stash[LIVE_RUNS].ledger
            add_patches_of_plugins(item.config)
            hold_seeds(item)
            run_session.open()
            if not is_opted_in(item):
                run_session.summary = replace(run_session.summary, late=True)
    except AgentReplayError as error:
        item.stash[RUN_SESSION] = None
        raise unfit(item, error) from None
    item.stash[RUN_SESSION] = item.config.stash[OPEN] = run_session
    return run_session


def live_session(settings: Settings) -> type[LiveSession] | None:
    """The class of a session that asks the real model, or real tools; None for a replay."""
    if not settings.live_parts() and settings.released is None:
        return None
    from pytest_agentreplay.live.live_session import LiveSession

    return LiveSession


def in_which_order(item: pytest.Item) -> OrderTrial | None:
    """The order of answers that the item is about; None for the plain one. Raises SettingsError for a TestCase."""
    from pytest_agentreplay.plugin import orders

    if hasattr(item, "_excinfo"):
        raise SettingsError(orders.NO_TESTCASE)
    return orders.trial_of(item)


def add_patches_of_plugins(config: pytest.Config) -> None:
    """Patch the libraries that other plugins name. Raises SettingsError for what is no table of them."""
    from pytest_agentreplay.intercept import registry

    for hook in (config.hook.pytest_agentreplay_patches, config.hook.pytest_agentreplay_seams):
        for rows in hook():
            if not isinstance(rows, dict) or not all(isinstance(word, str) for row in rows.items() for word in row):
                raise SettingsError(
                    f"{hook.name} returns a dict of two import paths: "
                    f'{{"their_framework": "their_package.patch_module"}}, not {rows!r}'
                )
            registry.add_patches(rows)


def hold_seeds(item: pytest.Item) -> None:
    """Have pytest-randomly seed now, before the run has its own seeds, and not again before body and teardown."""
    config = item.config
    if getattr(config.option, "randomly_reset_seed", False):
        if (randomly := config.pluginmanager.get_plugin("randomly")) is not None:
            randomly.pytest_runtest_setup(item)
        config.option.randomly_reset_seed = False
        config.stash[RESEEDS] = True


def is_skipped(item: pytest.Item) -> bool:
    """Whether pytest will skip the test because of its markers: then nothing of it runs."""
    if not any(mark.name in {"skip", "skipif", "xfail"} for mark in item.iter_markers()):
        return False
    # Private: pytest 8.4 to 9.2 evaluate markers inside `pytest_runtest_setup`, which is too late to ask.
    from _pytest.skipping import evaluate_skip_marks, evaluate_xfail_marks

    try:
        xfailed = None if item.config.getoption("runxfail") else evaluate_xfail_marks(item)
        return evaluate_skip_marks(item) is not None or (xfailed is not None and not xfailed.run)
    except pytest.fail.Exception:  # a condition that cannot be evaluated: pytest reports it next
        return True


def drop_skipped(item: pytest.Item, raised: BaseException) -> None:
    """Forget a test that was skipped in its set-up before it had made a call: there is nothing to report."""
    run_session = item.stash.get(RUN_SESSION, None)
    if (
        run_session is None
        or not isinstance(raised, pytest.skip.Exception)
        or run_session.interception.activity
        or run_session.watch.ledger
    ):
        return
    run_session.discard()
    del item.stash[RUN_SESSION]
    item.config.stash[OPEN] = None


def left_out(item: pytest.Item, markers: list[dict[str, Any]]) -> bool:
    """Whether it is a property that is kept out of the recordings. Raises SettingsError for one that is not."""
    if not getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
        return False
    if any(keywords.get("mode") == "off" for keywords in markers):
        return True
    raise SettingsError(
        "a hypothesis test cannot be recorded or replayed: it is one test and many runs.\n"
        "Write the example that matters as an ordinary test, several with @pytest.mark.parametrize,\n"
        'or leave this one out, whatever is recorded around it: @pytest.mark.agentreplay(mode="off").'
    )


def unfit(item: pytest.Item, error: AgentReplayError) -> BaseException:
    """The exception that fails a test which cannot be recorded or replayed as it stands."""
    if isinstance(error, SnapshotError):
        from pytest_agentreplay.runs.session_factory import refused

        item.stash[FINDING] = refused(error, nodeid_of(item), functools.partial(suite_of, item.session))
        return failed(item, item.stash[FINDING])
    failure = pytest.fail.Exception(str(error), pytrace=False)
    failure.agentreplay = True  # type: ignore[attr-defined]
    return failure


def place_of(item: pytest.Item, settings: Settings) -> Any:
    """Where the test stands, today's directories included."""
    from pytest_agentreplay.core.paths import type_from
    from pytest_agentreplay.intercept.environment.machine import todays_places
    from pytest_agentreplay.runs.run_session import Location

    tmp = (getattr(item, "funcargs", None) or {}).get("tmp_path")
    nodeid, store = nodeid_of(item), store_of(item.config)
    path = store.path_of(item.path, nodeid)
    project = store.project_of(path, nodeid, recording=settings.mode == "record")
    marks = todays_places(project, tmp=tmp) if settings.places else {}
    root, here = item.config.rootpath, item.config.invocation_params.dir
    if root.anchor == here.anchor:  # else they are on two drives
        type_from(Path(os.path.relpath(root, here)).as_posix())
    return Location(nodeid, path, item.config.rootpath, marks, os.environ, redactors_of(item.config))


def refused_in_setup(item: pytest.Item, raised: BaseException) -> BaseException | None:
    """What to fail a test with whose set-up was ended by `raised`, when its backend has refused a call; else None."""
    run_session = item.stash.get(RUN_SESSION, None)
    refused = run_session is not None and getattr(run_session.interception.backend, "divergence", None) is not None
    if run_session is None or not (refused or isinstance(raised, ReplayDiverged)) or isinstance(raised, INTERRUPTS):
        return None
    from pytest_agentreplay.runs.run_session import EndedRun

    finding = run_session.end_body(EndedRun(raised))
    if finding is None:
        return None
    item.stash[FINDING] = finding
    return failed(item, finding, raised)


def stamp_coroutine(item: pytest.Item, run_session: RunSession) -> None:
    """Make a coroutine test carry the stamp itself: its runner may have copied its context before the body began."""
    function = getattr(item, "obj", None)
    if not inspect.iscoroutinefunction(function) or hasattr(function, "__agentreplay__"):
        return
    from pytest_agentreplay.intercept.session.lanes import CALL_CONTEXT, runner

    call_context = run_session.interception.main()

    @functools.wraps(function)
    async def stamped(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        token = CALL_CONTEXT.set(call_context)
        call_context.owner = runner()
        run_session.interception.call_context()  # its loop may outlive the test
        try:
            with outcome.unwrap_groups(), run_session.overtime.in_task():
                return await function(*args, **kwargs)
        finally:
            CALL_CONTEXT.reset(token)

    item.obj = stamped  # type: ignore[attr-defined]
    item.addfinalizer(functools.partial(setattr, item, "obj", function))


def how_it_ended(item: pytest.Item, failure: BaseException | None, ended: type[EndedRun]) -> EndedRun:
    """The end of a body as the session takes it. unittest keeps its failures on the item instead of raising them."""
    kept = getattr(item, "_excinfo", None)
    if failure is None:
        failure = kept[-1].value if kept else item.stash.get(INNER, None)
    return ended(
        None if isinstance(failure, pytest.skip.Exception) else failure,
        interrupted=isinstance(failure, INTERRUPTS) or timed_out(failure),
        skipped=isinstance(failure, pytest.skip.Exception),
    )


def broken_off(run_session: RunSession, raised: BaseException) -> None:
    """A teardown was ended by `raised`: a run that was interrupted there is not complete either."""
    if isinstance(raised, INTERRUPTS):
        from pytest_agentreplay.runs.run_session import EndedRun

        run_session.end_body(EndedRun(interrupted=True))


def timed_out(failure: BaseException | None) -> bool:
    """Whether pytest-timeout has ended the test; its other method ends the process."""
    return isinstance(failure, pytest.fail.Exception) and TIMED_OUT.fullmatch(str(failure)) is not None


def unittest_forget(item: pytest.Item) -> None:
    """Our verdict replaces what a TestCase has kept."""
    if getattr(item, "_excinfo", None):
        item._excinfo = None  # type: ignore[attr-defined]


def show_headline(report: pytest.TestReport, finding: Finding) -> None:
    """Make the short test summary show the headline of `finding`, without the name of our exception."""
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is not None:
        crash.message = finding.headline


def failed(item: pytest.Item, finding: Finding, failure: BaseException | None = None) -> BaseException:
    """The exception that fails a test with our text, and with nothing else: no chain, no traceback is shown.

    A debugger finds the agent's frames in it, down to the line where `failure` stopped it.
    """
    from pytest_agentreplay.report.escape import escape_output
    from pytest_agentreplay.report.finding import format_finding

    writer = item.config.get_terminal_writer()
    for name, value in finding.properties.items():
        item.user_properties.append((f"agentreplay.{name}", value))
    report_text = format_finding(finding, width=writer.fullwidth, verbosity=item.config.get_verbosity())
    error = pytest.fail.Exception(escape_output(report_text), pytrace=False)
    error.__suppress_context__ = True
    error.finding = finding  # type: ignore[attr-defined]
    error.agentreplay = True  # type: ignore[attr-defined]
    if failure is not None:
        from pytest_agentreplay.intercept.session.callers import where_it_stopped

        error.__traceback__ = where_it_stopped(failure, str(item.config.rootpath))
    return error


def add_stopped_early(item: pytest.Item, report: pytest.TestReport, run_session: RunSession) -> None:
    """Show beside the error of a test how far its replay came; the short summary stays the test's own error."""
    finding = run_session.stopped_early()
    if finding is None:
        return
    from pytest_agentreplay.plugin.outcome import add_section
    from pytest_agentreplay.report.escape import escape_output
    from pytest_agentreplay.report.finding import format_finding

    width = item.config.get_terminal_writer().fullwidth
    add_section(report, escape_output(format_finding(finding, width=width, verbosity=item.config.get_verbosity())))


def of_a_part(item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport) -> pytest.TestReport:
    """The report of a subtest. The recording is its test's, and so is a divergence: it is told there, once."""
    failure = call.excinfo.value if call.excinfo is not None else None
    if isinstance(failure, ReplayDiverged):
        report.outcome = "skipped"
        report.longrepr = (str(item.path), item.location[1] or 0, "the replay has diverged; the test itself tells it")
    elif report.failed and failure is not None:
        item.stash[INNER] = failure
        if item.stash.get(PROVING, False):  # subtests are logged whoever runs them
            report.outcome, report.longrepr = "passed", None
    return report
