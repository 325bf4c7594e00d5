"""The pytest plugin: options, marker, fixtures, and hooks that delegate at once.

    plain_imports      our modules, without assertion rewriting
    stash              what is kept on pytest's config and items      session_glue  the run session of one test
    conflicts          names that other plugins have as well          recordings    the proof of each new recording
    session            the report at the end of the session           orders        a test in other orders of answers
    sandboxing         the sandbox of the session, where asked for    live_items    the live runs of a test
    shared             one change behind many tests                   cases         cases as items, and in reports
    runtest_hooks      one test, from its set-up to its report        adopting      the tests of accept --requests
    outcome            refusals and secrets in pytest's reports       fresh         the proof in a fresh process
    proving            that process

A test that does not ask for the plugin costs a look-up per hook; `session_glue`, `recordings` and whatever else is ours
wait for one that does.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from pytest_agentreplay.plugin import plain_imports  # first: it says how all others are imported

# isort: split
from pytest_agentreplay import settings as knobs
from pytest_agentreplay.errors import SettingsError
from pytest_agentreplay.plugin import conflicts
from pytest_agentreplay.plugin.runtest_hooks import (
    InvalidUse,
    pytest_fixture_setup,
    pytest_runtest_call,
    pytest_runtest_makereport,
    pytest_runtest_protocol,
    pytest_runtest_setup,
    pytest_runtest_teardown,
)
from pytest_agentreplay.plugin.session import CLOSING, LINES, SessionReport
from pytest_agentreplay.plugin.stash import BASE, FINDING, LIVE_RUNS, RUN_SESSION, next_begins, nodeid_of

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

    from pytest_agentreplay.runs.fixture_handle import AgentReplay

DETERMINED = r"^Failed: \[AR-(?!LATE\])"
"""What pytest-rerunfailures sees of a divergence: the same at each try, unlike a thread that comes late."""

__all__ = [  # the hooks of one test stand in a module of their own; pytest finds its hooks here
    "pytest_fixture_setup",
    "pytest_runtest_call",
    "pytest_runtest_makereport",
    "pytest_runtest_protocol",
    "pytest_runtest_setup",
    "pytest_runtest_teardown",
]

MARKER = (
    "agentreplay(mode=None, tools=None, expect=None, ...): record this test's model and tool calls, or replay them; "
    "see the settings page for every keyword"
)
WITHOUT_RUN = "mode off records no run, and the test reads agentreplay.run; what came before that has run and passed"
CASE = "agentreplay_case: a half of a case, as case.yaml has it"


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Add the hooks that others may implement; once, though `-p no:` and `-p` may unload and load us again."""
    from pytest_agentreplay import hookspec

    if not hasattr(pluginmanager.hook, "pytest_agentreplay_patches"):
        pluginmanager.add_hookspecs(hookspec)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the flags and ini keys of `settings`."""
    plain_imports.install()
    conflicts.add_flags(parser, shared=False)
    for key, options in knobs.INI:
        parser.addini(key, **options)


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests(parser: pytest.Parser) -> Generator[None]:
    """Only now do all plugins and conftests have their flags: whoever came after us would have died of a second one."""
    yield
    conflicts.add_flags(parser, shared=True)


def pytest_plugin_registered(plugin: object, manager: pytest.PytestPluginManager) -> None:
    """Where another plugin takes a flag of ours, have pytest say so beneath a command line that it cannot read."""
    config = manager.get_plugin("pytestconfig")
    module_name = getattr(plugin, "__name__", "_pytest.")
    if config is None or not hasattr(plugin, "pytest_addoption") or module_name.startswith(("_pytest.", conflicts.ME)):
        return
    if not conflicts.SHARED.isdisjoint(conflicts.flags(config._parser)):
        from pytest_agentreplay.report.plugin_conflicts import FLAG

        config._parser.extra_info["agentreplay"] = FLAG


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Prepare the process that proves recordings, before any plugin is configured."""
    if config.option.agentreplay_proof is not None:
        from pytest_agentreplay.plugin import proving

        proving.prepare(config)


def pytest_configure(config: pytest.Config) -> None:
    """Resolve what holds for the whole session; a setting that is invalid stops pytest with exit code 4."""
    config.addinivalue_line("markers", MARKER)
    config.addinivalue_line("markers", CASE)
    if word := conflicts.switched_off_by(config):
        raise pytest.UsageError(f"-p {word} switches nothing off: write -p no:pytest_agentreplay")
    if conflicts.meant_for_us(config):
        from pytest_agentreplay.report.plugin_conflicts import FLAG

        raise pytest.UsageError(FLAG)
    try:
        config.stash[BASE] = knobs.resolve(
            options=vars(config.option),
            ini={key: config.getini(key) for key, _ in knobs.INI},
            environ=os.environ,
            written=ini_keys(config),
            file=str(config.inipath or ""),
        )
        if config.stash[BASE].redact or os.path.lexists(config.rootpath / knobs.POLICY):
            from pytest_agentreplay.redact import chosen_policy

            config.stash[BASE] = chosen_policy.with_policy(config.stash[BASE], config.rootpath)
        if config.stash[BASE].changes:
            from pytest_agentreplay.runs.chosen_changes import read_changes

            read_changes(config.stash[BASE].changes, config.rootpath)
        if os.path.lexists(config.rootpath / knobs.TOLERANCES):
            from pytest_agentreplay.live.tolerance_file import with_tolerances

            config.stash[BASE] = with_tolerances(config.stash[BASE], config.rootpath)
    except SettingsError as error:
        raise pytest.UsageError(str(error)) from None
    if config.option.agentreplay_proof is not None:
        from pytest_agentreplay.plugin import proving

        config.stash[BASE] = proving.settings_of(config.stash[BASE])
        config.pluginmanager.register(proving.Proving(config), "agentreplay-proving")
    config.pluginmanager.register(InvalidUse(), "agentreplay-unfit")
    config.stash[LINES] = SessionReport(config)
    config.pluginmanager.register(config.stash[LINES], "agentreplay-session")
    if config.stash[BASE].mode == "record" or config.stash[BASE].record_missing:
        record(config)
    if config.stash[BASE].sandbox != "off":
        from pytest_agentreplay.plugin.sandboxing import Closing

        config.pluginmanager.register(Closing(config.stash[BASE].sandbox), CLOSING)
    if (runs := config.stash[BASE].live_runs) is not None:
        from pytest_agentreplay.plugin.live_items import PLUGIN, LiveItems

        config.stash[LIVE_RUNS] = LiveItems(config, runs)
        config.pluginmanager.register(config.stash[LIVE_RUNS], PLUGIN)
    if config.option.agentreplay_trials is not None:
        from pytest_agentreplay.plugin.orders import Trials, wish_of

        wish = wish_of(config) or {}
        config.pluginmanager.register(Trials(wish["into"]), "agentreplay-trials")
    if "rerun_except" in config.option:
        config.option.rerun_except = [*(config.option.rerun_except or ini_list(config, "rerun_except")), DETERMINED]


def record(config: pytest.Config) -> None:
    """Register what stands by while tests are recorded."""
    from pytest_agentreplay.plugin import fresh
    from pytest_agentreplay.plugin.recordings import Recordings

    proves = config.stash[BASE].prove and fresh.WORKERS not in getattr(config, "workerinput", {})
    afresh = proves and not hasattr(config, "workerinput") and fresh.possible(config)
    config.pluginmanager.register(Recordings(proves=proves and not afresh), "agentreplay-recordings")
    if afresh:
        config.pluginmanager.register(fresh.FreshProof(config), "agentreplay-proof")


def pytest_report_header(config: pytest.Config) -> list[str]:
    """One line: the whole matrix; another one for each name of ours that another plugin has too."""
    lines = [config.stash[BASE].headline()]
    if "agentreplay_replay" not in config.option:
        from pytest_agentreplay.report.plugin_conflicts import FLAG

        lines.append(f"agentreplay: {FLAG}")
    for name, plugin in config.pluginmanager.list_name_plugin():
        module = getattr(plugin, "__name__", conflicts.ME)
        fixture = getattr(plugin, "agentreplay", None)
        if module != conflicts.ME and type(fixture) is type(agentreplay) and not name.endswith("conftest.py"):
            from pytest_agentreplay.report.plugin_conflicts import two_fixtures

            lines.append(f"agentreplay: {two_fixtures(module, name)}")
    if os.path.isdir(config.rootpath / "cases"):  # noqa: PTH112  no pathlib at start
        from pytest_agentreplay.plugin import cases

        lines += cases.hidden(config)
    return lines


def ini_keys(config: pytest.Config) -> list[str]:
    """The keys that stand in the ini file; pytest's own complaint about unknown ones comes late and without a hint."""
    written = vars(config).get("_inicfg")
    return list(config.inicfg if written is None else written)


def ini_list(config: pytest.Config, key: str) -> list[str]:
    """An ini key of another plugin; empty where this release of it has none."""
    try:
        return list(config.getini(key) or ())
    except (KeyError, ValueError):
        return []


@pytest.hookimpl(tryfirst=True)
def pytest_assertrepr_compare(op: str, left: object, right: object) -> list[str] | None:
    """Say where two runs part; whoever pretty-prints both sides is asked too, and has one line each."""
    if op != "==" or not type(left).__module__ == type(right).__module__ == "pytest_agentreplay.cases.view":
        return None
    from pytest_agentreplay.cases.assertions import first_divergence, told

    divergence = first_divergence(left, right)  # type: ignore[arg-type]
    return told(divergence) if divergence is not None else None


@pytest.fixture
def agentreplay(request: pytest.FixtureRequest) -> AgentReplay:
    """Record this test's model and tool calls, or replay them; a handle with .run, .mode, .tool, .secret ..."""
    from pytest_agentreplay.plugin import session_glue
    from pytest_agentreplay.runs.fixture_handle import AgentReplay

    return AgentReplay(session_glue.begin(request.node), request.config.rootpath, skip_without_run)


def skip_without_run() -> NoReturn:
    """Skip a test in mode off at the place where it reads its run: it can neither hold nor fail there."""
    # Private in pytest 8.4 to 9.2: the skip is reported at the test, not at this line.
    raise pytest.skip.Exception(WITHOUT_RUN, _use_item_location=True)


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """A case file gives its items."""
    if file_path.name != "case.yaml":
        return None
    from pytest_agentreplay.plugin import cases

    return cases.collected(file_path, parent)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_pycollect_makeitem(collector: pytest.Module | pytest.Class) -> Generator[None, Any, Any]:
    """Let a test that goes live, or asks for other orders of answers, have several items, whoever made its own."""
    made = yield
    if isinstance(made, list) and collector.config.stash[BASE].live_runs is not None:
        from pytest_agentreplay.plugin.live_items import live_items

        runs = collector.config.stash[LIVE_RUNS]
        return [each for item in made for each in live_items(item) if runs.is_named(item, each)]
    if isinstance(made, list) and (
        collector.config.option.agentreplay_trials is not None
        or any("orders" in mark.kwargs for item in made for mark in item.iter_markers("agentreplay"))
    ):
        from pytest_agentreplay.plugin.orders import with_orders

        return with_orders(made)
    return made


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Have JUnit's file say how closed the network was; it is written next. What is torn down from now on is late."""
    next_begins(session.config)
    session.config.stash[LINES].finishing = True
    session.config.stash[LINES].into_junit(session.config)


@pytest.fixture
def agent_snapshot(
    request: pytest.FixtureRequest,
    agentreplay: AgentReplay,  # noqa: ARG001  begins the session
) -> Generator[Any]:
    """`assert agentreplay.run == agent_snapshot`: a readable transcript of the run, kept by syrupy."""
    from pytest_agentreplay.transcript import wrap

    if not request.config.pluginmanager.hasplugin("syrupy"):
        pytest.fail(
            "agent_snapshot needs the plugin syrupy, which is not loaded here (-p no:syrupy?); "
            "pytest-snapshot cannot be loaded beside it",
            pytrace=False,
        )
    run_session = request.node.stash[RUN_SESSION]
    recording = run_session is not None and run_session.mode == "record"
    test = nodeid_of(request.node).removeprefix(f"{request.node.parent.nodeid}::")
    beside = getattr(run_session, "beside", None)
    made = wrap(request.getfixturevalue("snapshot"), test, update=recording, beside=beside)
    yield made
    if FINDING in request.node.stash or (run_session is not None and run_session.summary.failed):
        made.count_uncompared()
