"""The session of one test, as pytest sees it: begun, ended, and reported as an exception of pytest's."""

from __future__ import annotations

import bdb
import functools
import inspect
import json
import os
import re
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any

import pytest
from _pytest.outcomes import OutcomeException

from pytest_agentreplay import errors
from pytest_agentreplay.errors import AgentReplayError, SettingsError, SnapshotError
from pytest_agentreplay.plugin import keys
from pytest_agentreplay.plugin.collected import make_suite
from pytest_agentreplay.plugin.keys import get_nodeid, get_redactors, get_settings, is_opted_in, store_of
from pytest_agentreplay.plugin.reports import list_exception_chain, make_failure

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator, Sequence

    from pytest_agentreplay.model.exchanges import Call, Exchange, Json
    from pytest_agentreplay.report.finding import Finding
    from pytest_agentreplay.runs.run_session import EndedRun, Location, RunSession
    from pytest_agentreplay.settings import Settings
    from pytest_agentreplay.snapshots.codec import Snapshot

INTERRUPTS = (KeyboardInterrupt, SystemExit, pytest.exit.Exception, bdb.BdbQuit)

TOO_LATE = (
    "[AR-UNFROZEN] this test asked for agentreplay while it ran: what it did before ran for real, in a replay too.\n"
    "Name the fixture among its arguments, or mark it: @pytest.mark.agentreplay"
)

# The message of pytest-timeout: https://github.com/pytest-dev/pytest-timeout/blob/main/pytest_timeout.py
TIMED_OUT = re.compile(r"Timeout \(?>[\d.]+s\)?( from pytest-timeout\.)?")
# Of the config: what `agentreplay accept --requests` wants, by "tests" (ids of snapshots), "codes" and "dry_run".
PLAN: pytest.StashKey[dict[str, Any]] = pytest.StashKey()
# What pytest handles, and what ends more than a test.
#
# After any other BaseException a fixture that was refused in its set-up breaks the next test that uses it, finalizers
# are skipped, and anyio's runner ends. So a refusal is an outcome of pytest's, and is raised as itself.
PASSED_THROUGH = (Exception, OutcomeException, KeyboardInterrupt, GeneratorExit, bdb.BdbQuit)


def begin_session(item: pytest.Item) -> RunSession | None:
    """Open the test's session, once; None in mode off. What cannot be set up fails the test with our message."""
    if keys.RUN_SESSION in item.stash:
        return item.stash[keys.RUN_SESSION]
    install_refusal()
    try:
        run_session = make_session(item)
        if run_session is not None:
            late = not is_opted_in(item)
            if late and run_session.mode == "replay":
                raise SettingsError(TOO_LATE)
            add_patches_of_plugins(item.config)
            hold_seeds(item)
            run_session.open()
            run_session.summary = replace(run_session.summary, late=late)
    except AgentReplayError as error:
        item.stash[keys.RUN_SESSION] = None
        raise make_unfit_failure(item, error) from None
    item.stash[keys.RUN_SESSION] = item.config.stash[keys.OPEN] = run_session
    if run_session is not None:
        run_session.check_start()
    return run_session


def make_session(item: pytest.Item) -> RunSession | None:
    """Return the session of a test, not yet open; None where nothing is recorded or replayed."""
    if any(mark.args for mark in item.iter_markers("agentreplay")):
        raise SettingsError("@pytest.mark.agentreplay takes keywords only")
    settings = get_settings(item, proving=item.stash.get(keys.PROVING, False))
    settings = plan_adoption(settings, get_nodeid(item), item.config)
    if settings.permutations or keys.TRIAL in item.stash:
        from pytest_agentreplay.plugin import orders

        if hasattr(item, "_excinfo"):
            raise SettingsError(orders.NO_TESTCASE)
        settings = settings._replace(trial=orders.get_trial(item))
    if keys.LIVE in item.stash:
        settings = settings.in_cell(item.stash[keys.LIVE][0])
    if settings.typed == "convert":
        from pytest_agentreplay.plugin import cassette_conversion

        settings = cassette_conversion.choose_mode(item, settings)
    if settings.mode == "off" or is_left_out(item):
        return None
    from pytest_agentreplay.runs import pause_garbage_collection

    with pause_garbage_collection():
        from pytest_agentreplay.runs import session_factory

        place = locate_test(item, settings)
    if settings.typed == "convert":
        return cassette_conversion.make_session(item, place, settings)
    suite = functools.partial(make_suite, item.session)
    run_session = session_factory.begin_session(
        place, settings, store_of(item.config), suite, get_session_class(item, settings)
    )
    if (backend := getattr(run_session, "live", None)) is not None:
        backend.budget = settings.ledger
    return run_session


def get_session_class(item: pytest.Item, settings: Settings) -> Callable[..., RunSession] | None:
    """Return what makes a session on a neighbour, or one that asks the real model or tools; None for a replay."""
    if keys.NEIGHBOUR in item.stash:
        from pytest_agentreplay.plugin.trial_items import make_trial_session

        return make_trial_session(item)
    if settings.replay_break:
        return functools.partial(make_breaking_session, item)
    if not settings.is_live:
        return None
    from pytest_agentreplay.runs.live.live_session import LiveSession

    return LiveSession


def make_breaking_session(
    item: pytest.Item, place: Location, settings: Settings, snapshot: Snapshot, edited: Sequence[str]
) -> RunSession:
    """Return the session of a replay that stops in pytest's debugger."""
    from pytest_agentreplay.intercept.environment import debuggers
    from pytest_agentreplay.runs.partial_replay import BreakingSession

    # https://github.com/pytest-dev/pytest-xdist/blob/v3.8.0/src/xdist/plugin.py has the option and the worker's input.
    if getattr(item.config.option, "dist", "no") != "no" or hasattr(item.config, "workerinput"):
        raise SettingsError("--replay-break stops in a terminal, which a worker of xdist has not: add -n0")

    def stop_at_turn(call: Call, recorded: Exchange | None, request: Json, reply: Any) -> None:
        pytest.set_trace(header=f"turn {settings.replay_break}: call, recorded, request and reply are at hand")
        del call, recorded, request, reply  # the debugger stands here

    debuggers.STOPS.add(stop_at_turn.__code__)
    return BreakingSession(place, settings, snapshot, edited, stop_at_turn)


def add_patches_of_plugins(config: pytest.Config) -> None:
    """Patch the libraries that other plugins name. Raises SettingsError for what is no table of them, or fails."""
    from pytest_agentreplay.intercept import registry

    for rows in config.hook.pytest_agentreplay_patches():
        if not isinstance(rows, dict) or not all(isinstance(word, str) for row in rows.items() for word in row):
            raise SettingsError(
                "pytest_agentreplay_patches returns a dict of two import paths: "
                f'{{"their_framework": "their_package.patch_module"}}, not {rows!r}'
            )
        try:
            registry.add_patches(rows)
        except Exception as error:
            # Tried again for the next test: otherwise that would run without the patch.
            registry.forget_patches(rows)
            raise SettingsError(f"pytest_agentreplay_patches names a patch that fails: {rows!r}: {error!r}") from error


def hold_seeds(item: pytest.Item) -> None:
    """Have pytest-randomly seed now, before the run has its own seeds, and not again before body and teardown."""
    # pytest-randomly seeds before set-up, body and teardown while this option is set:
    # https://github.com/pytest-dev/pytest-randomly/blob/main/src/pytest_randomly/__init__.py
    config = item.config
    if getattr(config.option, "randomly_reset_seed", False):
        if (randomly := config.pluginmanager.get_plugin("randomly")) is not None:
            randomly.pytest_runtest_setup(item)
        config.option.randomly_reset_seed = False
        config.stash[keys.RESEEDS] = True


def will_be_skipped(item: pytest.Item) -> bool:
    """Return whether pytest will skip the test because of its markers: then nothing of it runs."""
    if not any(mark.name in {"skip", "skipif", "xfail"} for mark in item.iter_markers()):
        return False
    # Private: pytest 8.4 to 9.2 evaluate markers inside `pytest_runtest_setup`, which is too late to ask.
    # https://github.com/pytest-dev/pytest/blob/9.0.0/src/_pytest/skipping.py
    from _pytest.skipping import evaluate_skip_marks, evaluate_xfail_marks

    try:
        xfailed = None if item.config.getoption("runxfail") else evaluate_xfail_marks(item)
        return evaluate_skip_marks(item) is not None or (xfailed is not None and not xfailed.run)
    except pytest.fail.Exception:  # a condition that cannot be evaluated: pytest reports it next
        return True


def drop_skipped(item: pytest.Item, run_session: RunSession, raised: BaseException) -> None:
    """Forget a test that was skipped in its set-up before it had made a call: there is nothing to report."""
    made_calls = run_session.interception.pending.activity or run_session.watch.ledger
    if isinstance(raised, pytest.skip.Exception) and not made_calls:
        run_session.discard()
        del item.stash[keys.RUN_SESSION]
        item.config.stash[keys.OPEN] = None


def is_left_out(item: pytest.Item) -> bool:
    """Return whether it is a property that is kept out of the recordings. Raises SettingsError for one that is not."""
    if not getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
        return False
    if any(mark.kwargs.get("mode") == "off" for mark in item.iter_markers("agentreplay")):
        return True
    raise SettingsError(
        "a hypothesis test cannot be recorded or replayed: it is one test and many runs.\n"
        "Write the example that matters as an ordinary test, several with @pytest.mark.parametrize,\n"
        'or leave this one out, whatever is recorded around it: @pytest.mark.agentreplay(mode="off").'
    )


def make_unfit_failure(item: pytest.Item, error: AgentReplayError) -> BaseException:
    """Return the exception that fails a test which cannot be recorded or replayed as it stands."""
    if isinstance(error, SnapshotError):
        from pytest_agentreplay.report.findings import describe_divergence
        from pytest_agentreplay.runs.session_factory import describe_unusable

        test = get_nodeid(item)
        divergence = describe_unusable(error, test, functools.partial(make_suite, item.session))
        item.stash[keys.FINDING] = describe_divergence(divergence, test, {"file": error.file})
        return make_failure(item, item.stash[keys.FINDING])
    failure = pytest.fail.Exception(str(error), pytrace=False)
    failure.agentreplay = True  # type: ignore[attr-defined]
    return failure


def locate_test(item: pytest.Item, settings: Settings) -> Location:
    """Return where the test stands, today's directories included."""
    from pytest_agentreplay.model.paths import type_from

    nodeid, root, here = get_nodeid(item), item.config.rootpath, item.config.invocation_params.dir
    if root.anchor == here.anchor:  # else they are on two drives
        type_from(Path(os.path.relpath(root, here)).as_posix())
    tmp = (getattr(item, "funcargs", None) or {}).get("tmp_path")
    return locate(item.config, nodeid, store_of(item.config).path_of(item.path, nodeid), settings, tmp=tmp)


def locate(config: pytest.Config, test: str, path: Path, settings: Settings, *, tmp: Path | None = None) -> Location:
    """Return where a test or fixture stands whose snapshot is at `path`."""
    from pytest_agentreplay.intercept.environment.machine import find_places
    from pytest_agentreplay.runs.run_session import Location

    project = store_of(config).project_of(path, test, recording=settings.mode == "record")
    marks = find_places(project, tmp=tmp) if settings.places else {}
    return Location(test, path, config.rootpath, marks, os.environ, get_redactors(config))


def explain_refused_setup(item: pytest.Item, run_session: RunSession, raised: BaseException) -> BaseException | None:
    """Return what a test fails with whose set-up ended with `raised`, if its backend has refused a call; else None."""
    refused = getattr(run_session.interception.backend, "divergence", None) is not None
    if isinstance(raised, INTERRUPTS) or not (refused or isinstance(raised, errors.ReplayDiverged)):
        return None
    from pytest_agentreplay.runs.run_session import EndedRun

    finding = run_session.end_body(EndedRun(raised))
    if finding is None:
        return None
    item.stash[keys.FINDING] = finding
    return make_failure(item, finding, raised)


def stamp_coroutine(item: pytest.Item, run_session: RunSession) -> None:
    """Make a coroutine test carry the stamp itself: its runner may have copied its context before the body began."""
    function = getattr(item, "obj", None)
    if not inspect.iscoroutinefunction(function) or hasattr(function, "__agentreplay__"):
        return
    from pytest_agentreplay.intercept.session.lanes import CALL_CONTEXT, find_runner

    call_context = run_session.interception.main()

    @functools.wraps(function)
    async def run_stamped(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        token = CALL_CONTEXT.set(call_context)
        call_context.owner = find_runner()
        run_session.interception.call_context()  # its loop may outlive the test
        try:
            with unwrap_groups(), run_session.overtime.watch_task():
                return await function(*args, **kwargs)
        finally:
            CALL_CONTEXT.reset(token)

    item.obj = run_stamped  # type: ignore[attr-defined]
    item.addfinalizer(functools.partial(setattr, item, "obj", function))


def end_of_body(item: pytest.Item, failure: BaseException | None) -> EndedRun:
    """Return the end of a body as the session takes it."""
    from pytest_agentreplay.runs.run_session import EndedRun

    if failure is None:
        # unittest keeps its failures on the item instead of raising them:
        # https://github.com/pytest-dev/pytest/blob/9.0.0/src/_pytest/unittest.py
        kept = getattr(item, "_excinfo", None)
        failure = kept[-1].value if kept else item.stash.get(keys.SUBTEST_FAILURE, None)
    skipped = isinstance(failure, pytest.skip.Exception)
    interrupted = isinstance(failure, INTERRUPTS) or is_timeout(failure)
    return EndedRun(None if skipped else failure, interrupted=interrupted, skipped=skipped)


def end_broken_teardown(run_session: RunSession, raised: BaseException) -> None:
    """End a session whose teardown was ended by `raised`: a run that was interrupted there is not complete either."""
    if isinstance(raised, INTERRUPTS):
        from pytest_agentreplay.runs.run_session import EndedRun

        run_session.end_body(EndedRun(interrupted=True))


def end_session(item: pytest.Item, run_session: RunSession, *, leaving: bool) -> Finding | AgentReplayError | None:
    """End the session of a test whose fixtures are down; return its finding, or what kept it from being written.

    With `leaving` the session of pytest ends as well: there will be no report, and its end tells what is left open.
    """
    from pytest_agentreplay.intercept.session import interceptions
    from pytest_agentreplay.intercept.tools import redirections

    interceptions.refuse_garbage(run_session.interception)
    item.config.stash[keys.NEXT] = redirections.next_begins
    result: Finding | AgentReplayError | None
    try:
        result = run_session.end()
    except AgentReplayError as error:
        result = error
    except Exception:  # it is in the report, and would be raised again at the end of the session
        item.config.stash[keys.OPEN] = None
        raise
    if not leaving:
        item.config.stash[keys.OPEN] = None
    return result


def is_timeout(failure: BaseException | None) -> bool:
    """Return whether pytest-timeout has ended the test; its other method ends the process."""
    return isinstance(failure, pytest.fail.Exception) and TIMED_OUT.fullmatch(str(failure)) is not None


def plan_adoption(settings: Settings, test: str, config: pytest.Config) -> Settings:
    """Return the settings of a test or fixture: only what the plan names is adopted, the others are replayed."""
    file = config.option.agentreplay_adopt_plan
    if not settings.adopt or file is None:
        return settings
    if PLAN not in config.stash:
        plan = json.loads(Path(file).read_bytes())
        config.stash[PLAN] = plan | {"tests": frozenset(plan["tests"])}
    plan = config.stash[PLAN]
    if store_of(config).snapshot_id(test) not in plan["tests"]:
        return settings._replace(adopt="")
    return settings._replace(adopt_codes=tuple(plan["codes"]), adopt_dry=plan["dry_run"])


class ReplayDiverged(errors.ReplayDiverged, OutcomeException):
    """A refusal while pytest runs. Still no `Exception`: agents do not catch it by mistake."""


def install_refusal() -> None:
    """Have refusals be outcomes from now on."""
    errors.ReplayDiverged.outcome = ReplayDiverged


@contextmanager
def unwrap_groups() -> Generator[None]:
    """Raise a refusal as itself where a group (task groups, nurseries) or `SystemExit` stands around it."""
    try:
        yield
    except PASSED_THROUGH:
        raise
    except BaseException as raised:
        refusal = next(
            (error for error in list_exception_chain(raised, set()) if isinstance(error, ReplayDiverged)), None
        )
        if refusal is None:
            raise
        raise refusal from None


@contextmanager
def unwrap_refusals(fixturedef: pytest.FixtureDef[Any]) -> Generator[None]:
    """Have the fixture raise a refusal as itself, in its set-up and in its teardown; the set-up is this block."""
    install_refusal()
    function = fixturedef.func
    plain = function.__func__ if isinstance(function, MethodType) else function
    if not isinstance(plain, FunctionType):
        yield
        return
    around = wrap_function(plain)
    fixturedef.func = MethodType(around, function.__self__) if isinstance(function, MethodType) else around  # type: ignore[misc]
    try:
        yield
    finally:
        fixturedef.func = function  # type: ignore[misc]


def wrap_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return `function`, of whatever kind, with `unwrap_groups` around its body. Async runners look at the kind."""
    if inspect.isasyncgenfunction(function):

        @functools.wraps(function)
        async def of_async_generator(*args: Any, **kwargs: Any) -> AsyncGenerator[Any]:
            values = function(*args, **kwargs)
            with unwrap_groups():
                try:
                    async for value in values:
                        yield value
                finally:
                    await values.aclose()

        return of_async_generator
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def of_coroutine(*args: Any, **kwargs: Any) -> Any:
            with unwrap_groups():
                return await function(*args, **kwargs)

        return of_coroutine
    if inspect.isgeneratorfunction(function):

        @functools.wraps(function)
        def of_generator(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
            with unwrap_groups():
                yield from function(*args, **kwargs)

        return of_generator

    @functools.wraps(function)
    def of_function(*args: Any, **kwargs: Any) -> Any:
        with unwrap_groups():
            return function(*args, **kwargs)

    return of_function
