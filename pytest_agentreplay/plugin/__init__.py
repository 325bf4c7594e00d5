"""The pytest plugin: options, marker, fixtures, and hooks that delegate at once.

    plain_imports    our modules, without assertion rewriting
    conflicts        names that other plugins have as well         keys           what is kept on pytest's objects
    runtest_hooks    one test, from its set-up to its report       item_session   the run session of one test
    fixtures         fixtures that are wider than a test           collected      their ids, all tests, the sandbox
    reports          our data in pytest's reports, no secrets      session_report the footer of the session
    proofs           the proof of each new recording               orders         a test in other orders of answers
    cases            cases as items, and in reports                live_items     the live runs of a test
    own_processes    the runs of a test that leaves state          cassette_session suites on vcrpy: --vcr

A test that does not ask for the plugin costs a look-up per hook. Only `plain_imports`, `conflicts`, `keys`,
`runtest_hooks` and `session_report` are imported at start; whatever else is ours waits for a test that uses it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from pytest_agentreplay.plugin import plain_imports  # first: it says how all others are imported

# isort: split
from pytest_agentreplay import settings as knobs
from pytest_agentreplay.errors import SettingsError
from pytest_agentreplay.plugin import conflicts, keys
from pytest_agentreplay.plugin.keys import begin_next, get_nodeid
from pytest_agentreplay.plugin.runtest_hooks import (
    InvalidUse,
    pytest_fixture_setup,
    pytest_runtest_call,
    pytest_runtest_makereport,
    pytest_runtest_protocol,
    pytest_runtest_setup,
    pytest_runtest_teardown,
)
from pytest_agentreplay.plugin.session_report import SessionReport, is_recording
from pytest_agentreplay.settings.table import INI_KEYS

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

    from pytest_agentreplay.runs.fixture_handle import AgentReplay
    from pytest_agentreplay.settings import Settings

# What pytest-rerunfailures sees of a divergence: the same at each try, unlike a thread that comes late.
DIVERGENCE_FAILURE = r"^Failed: \[AR-(?!LATE\])"

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
CASE = "agentreplay_case: a case, as case.yaml has it"


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Add the hooks that others may implement; once, though `-p no:` and `-p` may unload and load us again."""
    from pytest_agentreplay import hookspec

    if not hasattr(pluginmanager.hook, "pytest_agentreplay_patches"):
        pluginmanager.add_hookspecs(hookspec)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the flags and ini keys of `settings`."""
    plain_imports.install()
    conflicts.add_flags(parser, shared=False)
    for key, options in INI_KEYS.items():
        parser.addini(key, **options)


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests(early_config: pytest.Config, parser: pytest.Parser) -> Generator[None]:
    """Only now do all plugins and conftests have their flags: whoever came after us would have died of a second one."""
    if (plan := early_config.known_args_namespace.agentreplay_proof) is not None:
        from pytest_agentreplay.plugin import proofs

        proofs.shift_clock(early_config, plan)
    yield
    conflicts.add_flags(parser, shared=True)


def pytest_plugin_registered(plugin: object, manager: pytest.PytestPluginManager) -> None:
    """Where another plugin takes a flag of ours, have pytest say so beneath a command line that it cannot read."""
    config = manager.get_plugin("pytestconfig")
    module_name = getattr(plugin, "__name__", "_pytest.")
    if (
        config is None
        or not hasattr(plugin, "pytest_addoption")
        or module_name.startswith(("_pytest.", conflicts.OUR_MODULE))
    ):
        return
    if "--replay" in conflicts.list_flags(config._parser):
        # The parser is private. pytest prints its `extra_info` beneath an error of the command line:
        # https://github.com/pytest-dev/pytest/blob/9.0.0/src/_pytest/config/argparsing.py
        config._parser.extra_info["agentreplay"] = conflicts.FLAG


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Prepare the process that proves recordings, before any plugin is configured."""
    if config.option.agentreplay_proof is not None:
        from pytest_agentreplay.plugin import proofs

        proofs.prepare_options(config)


def pytest_configure(config: pytest.Config) -> None:
    """Read what holds for the whole session; a setting that is invalid stops pytest with exit code 4."""
    config.addinivalue_line("markers", MARKER)
    config.addinivalue_line("markers", CASE)
    if word := conflicts.find_wrong_switch(config):
        raise pytest.UsageError(f"-p {word} switches nothing off: write -p no:pytest_agentreplay")
    if conflicts.is_meant_for_us(config):
        raise pytest.UsageError(conflicts.FLAG)
    try:
        base = config.stash[keys.SETTINGS] = read_settings(config)
    except (SettingsError, pytest.PytestDeprecationWarning) as error:  # with -W error the warning is one
        raise pytest.UsageError(str(error)) from None
    # The order counts: of hooks that want to be first, that of the last plugin is called first.
    register = config.pluginmanager.register
    if config.option.agentreplay_proof is not None:
        from pytest_agentreplay.plugin.proofs import ProofPlanRunner

        register(ProofPlanRunner(config), "agentreplay-proving")
    register(InvalidUse(), "agentreplay-unfit")
    config.stash[keys.REPORT] = SessionReport(config)
    register(config.stash[keys.REPORT], "agentreplay-session")
    if is_recording(base):
        from pytest_agentreplay.plugin import proofs

        proves = base.prove and proofs.WORKERS not in getattr(config, "workerinput", {})
        afresh = proves and not hasattr(config, "workerinput") and proofs.can_prove_afresh(config)
        register(proofs.ProofInProcess(proves=proves and not afresh), "agentreplay-recordings")
        if afresh:
            register(proofs.FreshProof(config), "agentreplay-proof")
    if base.typed == "convert":
        from pytest_agentreplay.plugin.cassette_conversion import CassetteConversion

        register(CassetteConversion(config), "agentreplay-conversion")
    if config.option.agentreplay_html and not hasattr(config, "workerinput"):
        from pytest_agentreplay.plugin.session_pages import HtmlPages

        register(HtmlPages(config, config.option.agentreplay_html), "agentreplay-html")
    if base.sandbox != "off":
        from pytest_agentreplay.plugin.collected import SandboxClosing

        register(SandboxClosing(base.sandbox), keys.CLOSING)
    if base.is_live:
        from pytest_agentreplay.plugin.live_items import PLUGIN, LiveItems

        config.stash[keys.LIVE_RUNS] = LiveItems(config, base)
        register(config.stash[keys.LIVE_RUNS], PLUGIN)
    option = config.option
    if option.agentreplay_runs is not None or option.agentreplay_runs_strict or option.agentreplay_sample is not None:
        from pytest_agentreplay.plugin.captured_items import PLUGIN, CapturedItems

        register(CapturedItems(config, option.agentreplay_runs), PLUGIN)
    if any(
        vars(option).get(f"agentreplay_{name}") not in {None, False}
        for name in ("vcr", "accept_stale", "apply", "json")
    ):
        from pytest_agentreplay.intercept.http import vcrpy
        from pytest_agentreplay.intercept.registry import when_imported
        from pytest_agentreplay.plugin.cassette_session import PLUGIN, CassetteSession

        when_imported("pytest_recording._vcr", vcrpy.patch)
        register(CassetteSession(config), PLUGIN)
    if config.option.agentreplay_neighbours is not None and not hasattr(config, "workerinput"):
        from pytest_agentreplay.plugin import trial_items

        register(trial_items.TrialResults(trial_items.read_plan(config) or {}), "agentreplay-neighbours")
    if config.option.agentreplay_trials is not None:
        from pytest_agentreplay.plugin.orders import Trials

        register(Trials(config), "agentreplay-trials")
    if "rerun_except" in config.option:
        patterns = config.option.rerun_except or read_ini_list(config, "rerun_except")
        config.option.rerun_except = [*patterns, DIVERGENCE_FAILURE]


def read_settings(config: pytest.Config) -> Settings:
    """Return the settings of the session, with the files of policies and tolerances. Raises SettingsError."""
    settings = knobs.read_settings(
        options=vars(config.option),
        ini={key: read_ini_key(config, key) if key in INI_KEYS else None for key in list_ini_keys(config)},
        environ=os.environ,
        file=str(config.inipath or ""),
        typed_words=map(str, config.invocation_params.args),
    )
    if settings.redact or os.path.lexists(config.rootpath / knobs.POLICY):
        from pytest_agentreplay.runs.redact import redaction_setup

        settings = redaction_setup.add_policy(settings, config.rootpath)
    if settings.replay_set:
        from pytest_agentreplay.runs.snapshot_selection import read_changes

        read_changes(settings.replay_set, config.rootpath)
    if os.path.lexists(config.rootpath / knobs.TOLERANCES):
        from pytest_agentreplay.runs.live.tolerance_file import with_tolerances

        settings = with_tolerances(settings, config.rootpath)
    if config.option.agentreplay_proof is not None:
        # As a proof in the process that recorded would have them.
        return settings.for_test([], proving=True)._replace(sandbox="off", unused="ignore")
    return settings


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Return one line with the whole matrix, and another for each name of ours that another plugin has too."""
    lines = [config.stash[keys.SETTINGS].headline()]
    if "agentreplay_replay" not in config.option:
        lines.append(f"agentreplay: {conflicts.FLAG}")
    for name, plugin in config.pluginmanager.list_name_plugin():
        module = getattr(plugin, "__name__", conflicts.OUR_MODULE)
        fixture = getattr(plugin, "agentreplay", None)
        if module != conflicts.OUR_MODULE and type(fixture) is type(agentreplay) and not name.endswith("conftest.py"):
            switch = conflicts.switch_off(name)
            lines.append(f"agentreplay: another plugin has the fixture agentreplay too ({module}); say {switch}")
    if os.path.isdir(config.rootpath / "cases"):  # noqa: PTH112  no pathlib at start
        from pytest_agentreplay.plugin import cases

        lines += cases.list_unseen_cases(config)
    return lines


def list_ini_keys(config: pytest.Config) -> list[str]:
    """Return the keys of the ini file and of `-o`; pytest complains about unknown ones late, and without a hint."""
    # From pytest 9 on `inicfg` is a view that warns, and what it shows is private:
    # https://github.com/pytest-dev/pytest/blob/9.0.0/src/_pytest/config/__init__.py
    written = vars(config).get("_inicfg")
    typed = [word.partition("=")[0] for word in config.known_args_namespace.override_ini or ()]
    return list(dict.fromkeys([*(config.inicfg if written is None else written), *typed]))


def read_ini_key(config: pytest.Config, key: str) -> Any:
    """Return the value of an ini key of ours. Raises SettingsError, since pytest names neither the key nor the file."""
    try:
        return config.getini(key)
    except (TypeError, ValueError, pytest.UsageError) as error:  # by the release of pytest
        where = f"{config.inipath}: " if config.inipath else ""
        instead = "; write true or false" * str(error).startswith("invalid truth value")
        raise SettingsError(f"{where}{key}: {error}{instead}") from None


def read_ini_list(config: pytest.Config, key: str) -> list[str]:
    """Return an ini key of another plugin; empty where this release of it has none."""
    try:
        return list(config.getini(key) or ())
    except (KeyError, ValueError):
        return []


@pytest.hookimpl(tryfirst=True)
def pytest_assertrepr_compare(op: str, left: object, right: object) -> list[str] | None:
    """Say where two runs differ; whoever pretty-prints both sides is asked too, and has one line each."""
    if op != "==" or not type(left).__module__ == type(right).__module__ == "pytest_agentreplay.cases.view":
        return None
    from pytest_agentreplay.cases.assertions import first_divergence, format_divergence

    divergence = first_divergence(left, right)  # type: ignore[arg-type]
    return format_divergence(divergence) if divergence is not None else None


@pytest.fixture
def agentreplay(request: pytest.FixtureRequest) -> AgentReplay:
    """Record this test's model and tool calls, or replay them; a handle with .run, .mode, .tool, .secret ..."""
    from pytest_agentreplay.plugin import item_session
    from pytest_agentreplay.runs.fixture_handle import AgentReplay

    return AgentReplay(item_session.begin_session(request.node), request.config.rootpath, skip_without_run)


def skip_without_run() -> NoReturn:
    """Skip a test in mode off at the place where it reads its run: it can neither hold nor fail there."""
    # Private in pytest 8.4 to 9.2: the skip is reported at the test, not at this line.
    raise pytest.skip.Exception(WITHOUT_RUN, _use_item_location=True)


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Return the collector of a case file."""
    if file_path.name != "case.yaml":
        return None
    from pytest_agentreplay.plugin import cases

    return cases.collect_case(file_path, parent)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_pycollect_makeitem(collector: pytest.Module | pytest.Class) -> Generator[None, Any, Any]:
    """Let a test that goes live, or asks for other orders of answers, have several items, whoever made its own."""
    made = yield
    if isinstance(made, list) and collector.config.stash[keys.SETTINGS].is_live:
        from pytest_agentreplay.plugin.live_items import get_live_items

        runs = collector.config.stash[keys.LIVE_RUNS]
        return [run for item in made for run in get_live_items(item) if runs.is_named(item, run)]
    if isinstance(made, list) and (
        collector.config.option.agentreplay_neighbours is not None or collector.config.stash[keys.SETTINGS].fuzz
    ):
        from pytest_agentreplay.plugin.trial_items import list_items

        return [item for plain in made for item in list_items(plain)]
    if isinstance(made, list) and (
        collector.config.option.agentreplay_trials is not None
        or any("permutations" in mark.kwargs for item in made for mark in item.iter_markers("agentreplay"))
    ):
        from pytest_agentreplay.plugin.orders import order_items

        return [order for item in made for order in order_items(item)]
    return made


def pytest_itemcollected(item: pytest.Item) -> None:
    """Have each test checked that has several items: whether a run of it finds what an earlier one has left."""
    several = keys.LIVE in item.stash or keys.NEIGHBOUR in item.stash or keys.TRIAL in item.stash
    if (several or getattr(item, "trial", None)) and not item.config.pluginmanager.hasplugin(keys.PROCESSES):
        from pytest_agentreplay.plugin.own_processes import OwnProcesses

        item.config.pluginmanager.register(OwnProcesses(item.config), keys.PROCESSES)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Have JUnit's file say how closed the network was; it is written next. What is torn down from now on is late."""
    begin_next(session.config)
    report = session.config.stash[keys.REPORT]
    report.finishing = True
    for plugin in session.config.pluginmanager.get_plugins() if report.levels else ():
        if hasattr(plugin, "add_global_property"):
            plugin.add_global_property("agentreplay.network", min(report.levels))


@pytest.fixture
def agent_snapshot(
    request: pytest.FixtureRequest,
    agentreplay: AgentReplay,  # noqa: ARG001  begins the session
) -> Generator[Any]:
    """`assert agentreplay.run == agent_snapshot`: a readable transcript of the run, kept by syrupy."""
    from pytest_agentreplay.plugin.transcript import wrap

    if not request.config.pluginmanager.hasplugin("syrupy"):
        pytest.fail(
            "agent_snapshot needs the plugin syrupy, which is not loaded here (-p no:syrupy?); "
            "pytest-snapshot cannot be loaded beside it",
            pytrace=False,
        )
    run_session = request.node.stash[keys.RUN_SESSION]
    recording = run_session is not None and run_session.mode == "record"
    test = get_nodeid(request.node).removeprefix(f"{request.node.parent.nodeid}::")
    beside = getattr(run_session, "beside", None)
    made = wrap(request.getfixturevalue("snapshot"), test, update=recording, beside=beside)
    yield made
    if keys.FINDING in request.node.stash or (run_session is not None and run_session.summary.failed):
        made.count_uncompared()
