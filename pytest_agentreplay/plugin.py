"""Door 1: pytest glue only. Options, marker, fixtures, and hooks that hand over at once.

A test that does not ask for the plugin costs a look-up per hook; nothing but `settings` is imported for it. Longer than
a room should be: every hook and fixture of ours stands here, because no other room may know pytest.
"""

from __future__ import annotations

import bdb
import functools
import inspect
import os
import re
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_agentreplay import settings as knobs
from pytest_agentreplay.errors import AgentReplayError, ReplayDiverged, SettingsError, SnapshotError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from pytest_agentreplay.report.findings import Finding
    from pytest_agentreplay.settings import Settings
    from pytest_agentreplay.store.snapshots import Store
    from pytest_agentreplay.workflow.afterwards import Afterwards
    from pytest_agentreplay.workflow.handle import AgentReplay
    from pytest_agentreplay.workflow.renaming import Suite
    from pytest_agentreplay.workflow.scene import Ended, Scene

BASE = pytest.StashKey["Settings"]()
STORE = pytest.StashKey["Store"]()
SCENE = pytest.StashKey["Scene | None"]()
OPEN = pytest.StashKey["Scene | None"]()
FINDING = pytest.StashKey["Finding"]()
SUITE = pytest.StashKey["Suite"]()
LINES = pytest.StashKey["SessionLines"]()
AFTERWARDS = pytest.StashKey["Afterwards"]()
TMP: pytest.StashKey[Path] = pytest.StashKey()
PROVING = pytest.StashKey[bool]()
WANTED = pytest.StashKey[bool]()
UNDO: pytest.StashKey[Callable[[], None]] = pytest.StashKey()
BODY = pytest.StashKey[bool]()
RESEEDS = pytest.StashKey[bool]()
INNER = pytest.StashKey[BaseException]()

SHARED = {"--replay"}
"""Flags that other plugins have as well."""

ME = "pytest_agentreplay.plugin"
"""This module, which owns the fixtures of our names."""

DETERMINED = r"^Failed: \[AR-(?!LATE\])"
"""What pytest-rerunfailures sees of a divergence: the same at each try, unlike a thread that comes late."""

INTERRUPTS = (KeyboardInterrupt, SystemExit, pytest.exit.Exception, bdb.BdbQuit)
TIMED_OUT = re.compile(r"Timeout \(?>[\d.]+s\)?( from pytest-timeout\.)?")

WIDE = (
    "It was asked for outside of the recording, by a fixture that is wider than the test: a recording is one test's.\n"
    "Let the test call the model, or its function-scoped fixture; or let the host pass: agentreplay_allow_hosts."
)

MARKER = (
    "agentreplay(mode=None, tools=None, expect=None, ...): record this test's model and tool calls, or replay them; "
    "see the settings page for every keyword"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the flags and ini keys of `settings`."""
    add_flags(parser, shared=False)
    for key, options in knobs.INI:
        parser.addini(key, **options)


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests(parser: pytest.Parser) -> Generator[None]:
    """Only now do all plugins and conftests have their flags: whoever came after us would have died of a second one."""
    yield
    add_flags(parser, shared=True)


def add_flags(parser: pytest.Parser, *, shared: bool) -> None:
    """Add our own flags, or those that other plugins are known to have too; one that is taken is left to them."""
    taken = flags(parser)
    group = parser.getgroup("agentreplay", "frozen agent runs")
    for flag, options in knobs.OPTIONS:
        if (flag in SHARED) is shared and flag not in taken:
            group.addoption(flag, **options)


def flags(parser: pytest.Parser) -> dict[str, Any]:
    """The options that are known by now, by their flags."""
    groups = [*getattr(parser, "_groups", ()), getattr(parser, "_anonymous", None)]
    return {
        name: option for group in groups if group is not None for option in group.options for name in option.names()
    }


def pytest_plugin_registered(plugin: object, manager: pytest.PytestPluginManager) -> None:
    """Where another plugin takes a flag of ours, have pytest say so beneath a command line that it cannot read."""
    config = manager.get_plugin("pytestconfig")
    named = getattr(plugin, "__name__", "_pytest.")
    if config is None or not hasattr(plugin, "pytest_addoption") or named.startswith(("_pytest.", ME)):
        return
    if not SHARED.isdisjoint(flags(config._parser)):
        from pytest_agentreplay.report.clashes import FLAG

        config._parser.extra_info["agentreplay"] = FLAG


def pytest_configure(config: pytest.Config) -> None:
    """Resolve what holds for the whole session; a setting that cannot be meant stops pytest with exit code 4."""
    config.addinivalue_line("markers", MARKER)
    if meant_for_us(config):
        from pytest_agentreplay.report.clashes import FLAG

        raise pytest.UsageError(FLAG)
    try:
        config.stash[BASE] = knobs.resolve(
            options=vars(config.option),
            ini={key: config.getini(key) for key, _ in knobs.INI},
            environ=os.environ,
            written=ini_keys(config),
            file=str(config.inipath or ""),
        )
    except SettingsError as error:
        raise pytest.UsageError(str(error)) from None
    config.stash[LINES] = SessionLines()
    config.pluginmanager.register(config.stash[LINES], "agentreplay-session")
    if config.stash[BASE].mode == "record":
        config.pluginmanager.register(Recordings(), "agentreplay-recordings")
    if "rerun_except" in config.option:
        config.option.rerun_except = [*(config.option.rerun_except or ini_list(config, "rerun_except")), DETERMINED]


def pytest_report_header(config: pytest.Config) -> list[str]:
    """One line: the whole matrix; another one for each name of ours that another plugin has too."""
    lines = [config.stash[BASE].headline()]
    if "agentreplay_replay" not in config.option:
        from pytest_agentreplay.report.clashes import FLAG

        lines.append(f"agentreplay: {FLAG}")
    for name, plugin in config.pluginmanager.list_name_plugin():
        module = getattr(plugin, "__name__", ME)
        fixture = getattr(plugin, "agentreplay", None)
        if module != ME and type(fixture) is type(agentreplay) and not name.endswith("conftest.py"):
            from pytest_agentreplay.report.clashes import two_fixtures

            lines.append(f"agentreplay: {two_fixtures(module, name)}")
    return lines


def meant_for_us(config: pytest.Config) -> bool:
    """Whether another plugin's --replay was given one of our words, and no file of that name."""
    option = flags(config._parser).get("--replay")
    if option is None or option.dest == "agentreplay_replay":
        return False
    given = getattr(config.option, option.dest, None)
    words = map(str, given if isinstance(given, list) else [given])
    return any(word in knobs.MODES and not Path(word).exists() for word in words)


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
    from pytest_agentreplay.workflow.handle import AgentReplay

    if "tmp_path" in request.fixturenames:  # a place that must be known before the first call
        request.node.stash[TMP] = request.getfixturevalue("tmp_path")
    return AgentReplay(begin(request.node))


@pytest.fixture
def _agentreplay_scene(request: pytest.FixtureRequest) -> None:
    """Opens the scene of a test that opted in by marker or folder, before its other fixtures: they are part of it."""
    if "tmp_path" in request.fixturenames:
        request.node.stash[TMP] = request.getfixturevalue("tmp_path")
    begin(request.node)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Give the tests that opted in by marker or folder the fixture that opens the scene, behind the wider fixtures."""
    for item in session.items:
        names = getattr(item, "fixturenames", None)
        if names is None or not wanted(item) or {"agentreplay", "_agentreplay_scene"} & {*names}:
            continue
        known = getattr(getattr(item, "_fixtureinfo", None), "name2fixturedefs", {})
        own = (at for at, name in enumerate(names) if name in known and known[name][-1].scope == "function")
        names.insert(next(own, len(names)), "_agentreplay_scene")


@pytest.fixture
def agent_snapshot(request: pytest.FixtureRequest, agentreplay: AgentReplay) -> Any:  # noqa: ARG001  opens the scene
    """`assert agentreplay.run == agent_snapshot`: a readable transcript of the run, kept by syrupy."""
    from pytest_agentreplay.transcript import wrap

    if not request.config.pluginmanager.hasplugin("syrupy"):
        pytest.fail(
            "agent_snapshot needs the plugin syrupy, which is not loaded here (-p no:syrupy?); "
            "pytest-snapshot cannot be loaded beside it",
            pytrace=False,
        )
    scene = request.node.stash[SCENE]
    recording = scene is not None and scene.mode == "record"
    return wrap(request.getfixturevalue("snapshot"), update=recording)


def wanted(item: pytest.Item) -> bool:
    """Whether the test opted in: by fixture, by marker, or by folder."""
    known = item.stash.get(WANTED, None)
    if known is None:
        known = (
            "agentreplay" in getattr(item, "fixturenames", ())
            or item.get_closest_marker("agentreplay") is not None
            or item.config.stash[BASE].covers(item.path, item.config.rootpath)
        )
        item.stash[WANTED] = known
    return known


def foreign_fixture(item: pytest.Item) -> str:
    """What to say of a test that asked for `agentreplay` and got another's, which does not build on ours; else ""."""
    if SCENE in item.stash or "agentreplay" not in getattr(item, "fixturenames", ()):
        return ""
    from pytest_agentreplay.report.clashes import foreign_fixture as told
    from pytest_agentreplay.store.shown import shown

    function = item._request._fixture_defs["agentreplay"].func  # type: ignore[attr-defined]
    code = inspect.unwrap(function).__code__
    plugins = item.config.pluginmanager.list_name_plugin()
    plugin = next((name for name, one in plugins if getattr(one, "__name__", "") == function.__module__), "")
    place = f"{shown(Path(code.co_filename))}:{code.co_firstlineno}"
    return told(function.__module__, "" if plugin.endswith("conftest.py") else plugin, place)


def two_recorders(item: pytest.Item) -> bool:
    """Whether pytest-recording would record or serve the test's requests as well."""
    theirs = item.config.getoption("--disable-recording", default=None)
    return theirs is False and item.get_closest_marker("vcr") is not None and wanted(item)


def begin(item: pytest.Item) -> Scene | None:
    """Open the test's scene, once; None in mode off. What cannot be set up fails the test with our message."""
    if SCENE in item.stash:
        return item.stash[SCENE]
    try:
        marker = [dict(mark.kwargs) for mark in item.iter_markers("agentreplay")]
        if any(mark.args for mark in item.iter_markers("agentreplay")):
            raise SettingsError("@pytest.mark.agentreplay takes keywords only")
        settings = item.config.stash[BASE].for_test(marker, proving=item.stash.get(PROVING, False))
        scene = None
        if settings.mode != "off" and not left_out(item, marker):
            from pytest_agentreplay.workflow.begin import begin as begin_scene

            suite = functools.partial(suite_of, item.session)
            scene = begin_scene(place_of(item, settings), settings, store_of(item.config), suite)
            scene.open()
            hold_seeds(item.config)
    except AgentReplayError as error:
        item.stash[SCENE] = None
        raise unfit(item, error) from None
    item.stash[SCENE] = item.config.stash[OPEN] = scene
    return scene


def hold_seeds(config: pytest.Config) -> None:
    """Keep pytest-randomly from seeding again before body and teardown: the run has its own seeds by then."""
    if getattr(config.option, "randomly_reset_seed", False):
        config.option.randomly_reset_seed = False
        config.stash[RESEEDS] = True


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
        from pytest_agentreplay.workflow.begin import refused

        item.stash[FINDING] = refused(error, nodeid_of(item), functools.partial(suite_of, item.session))
        return failed(item, item.stash[FINDING])
    return pytest.fail.Exception(str(error), pytrace=False)


def suite_of(session: pytest.Session) -> Suite:
    """What the session knows of the project's tests, for those that were renamed."""
    if SUITE not in session.config.stash:
        from pytest_agentreplay.workflow.renaming import Suite

        ids = frozenset(session.config.stash[LINES].seen["items"])
        modules = {item.nodeid.partition("::")[0]: getattr(item, "module", None) for item in session.items}
        session.config.stash[SUITE] = Suite(session.config.rootpath, ids, session.config.args, modules)
    return session.config.stash[SUITE]


def store_of(config: pytest.Config) -> Store:
    """The session's store of snapshots."""
    if STORE not in config.stash:
        from pytest_agentreplay.store.snapshots import Store

        config.stash[STORE] = Store(config.rootpath, config.stash[BASE].directory)
    return config.stash[STORE]


def afterwards_of(config: pytest.Config) -> Afterwards:
    """What hears of the tests of this process once they are over."""
    if AFTERWARDS not in config.stash:
        from pytest_agentreplay.workflow.afterwards import Afterwards

        config.stash[AFTERWARDS] = Afterwards()
    return config.stash[AFTERWARDS]


def place_of(item: pytest.Item, settings: Settings) -> Any:
    """Where the test stands, today's directories included."""
    from pytest_agentreplay.boundaries.places import todays_places
    from pytest_agentreplay.workflow.scene import Place

    made = getattr(item, "funcargs", None) or {}
    root = item.config.rootpath
    tmp = item.stash.get(TMP, None) or made.get("tmp_path")
    marks = todays_places(root, tmp=tmp) if settings.places else {}
    nodeid = nodeid_of(item)
    return Place(nodeid, store_of(item.config).path_of(item.path, nodeid), root, marks, os.environ)


def nodeid_of(item: pytest.Item) -> str:
    """The id of a test, the same in every process: the workers of `xdist --dist loadgroup` append "@group" to it."""
    if getattr(item.config.option, "loadgroup", False) and item.parent is not None:
        return f"{item.parent.nodeid}::{item.name}"
    return item.nodeid


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, Any, Any]:
    """A fixture that crosses the doorstep may be refused there; the finding says it, not a traceback."""
    earlier: list[pytest.StashKey[Any]] = [SCENE, FINDING, INNER]  # of another go at the same test
    for key in earlier:
        if key in item.stash:
            del item.stash[key]
    item.user_properties[:] = [one for one in item.user_properties if not one[0].startswith("agentreplay.")]
    if UNDO in item.stash and not item.stash.get(PROVING, False):
        item.stash[UNDO]()
        del item.stash[UNDO]
    if two_recorders(item):
        from pytest_agentreplay.report.clashes import TWO_RECORDERS

        pytest.fail(TWO_RECORDERS, pytrace=False)
    try:
        with outside(item):
            return (yield)
    except ReplayDiverged as refused:
        scene = item.stash.get(SCENE, None)
        if scene is None:
            raise
        from pytest_agentreplay.workflow.scene import Ended

        finding = scene.end_body(Ended(refused))
        if finding is None:
            raise
        item.stash[FINDING] = finding
        raise failed(item, finding, refused) from None


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
) -> Generator[None, Any, Any]:
    """A wider fixture that was refused: pytest keeps that for the tests that share it, but for Exceptions only."""
    try:
        return (yield)
    except ReplayDiverged as refused:
        if fixturedef.scope == "function":
            raise
        error = pytest.fail.Exception(f"{refused}\n{WIDE}", pytrace=False)
        fixturedef.cached_result = (None, fixturedef.cache_key(request), (error, None))  # type: ignore[arg-type]
        raise error from None


@contextmanager
def outside(item: pytest.Item) -> Generator[None]:
    """Around a test's set-up: its wider fixtures come before its scene, and belong to no recording."""
    base = item.config.stash[BASE]
    if base.mode == "off" or not wanted(item):
        yield
        return
    recording = base.mode == "record" and not item.stash.get(PROVING, False)
    with afterwards_of(item.config).bystander("outside" if recording else "refused", allow=base.allow_hosts):
        yield


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Open the scene, run the body under its stamp, and let the gate have the last word."""
    if not wanted(item):
        return (yield)
    if clash := foreign_fixture(item):
        pytest.fail(clash, pytrace=False)
    scene = begin(item)
    if scene is None:
        return (yield)
    from pytest_agentreplay.workflow.scene import Ended

    stamp_coroutine(item, scene)
    result, failure = None, None
    item.stash[BODY] = True
    scene.enter_body()
    try:
        result = yield
    except BaseException as raised:  # whatever ended the body is told to the scene, then raised again
        failure = raised
    finally:
        scene.leave_body()
        item.stash[BODY] = False
    ended = how_it_ended(item, failure, Ended)
    finding = scene.end_body(ended)
    if failure is not None and isinstance(failure, INTERRUPTS):
        raise failure
    if finding is not None:
        item.stash[FINDING] = finding
        unittest_forget(item)
        raise failed(item, finding, ended.failure)  # --pdb here: the agent caught the refusal, its frames are gone
    if scene.told.get("expect") == "fails as recorded":
        unittest_forget(item)
        return None
    if failure is not None:
        raise failure
    return result


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, Any, Any]:
    """Close the scene when all fixtures are down; a recording is sealed here."""
    finding, broken = None, None
    try:
        result = yield
    except AssertionError as error:
        if "mocked but not requested" in str(error) and (scene := item.stash.get(SCENE, None)) is not None:
            from pytest_agentreplay.report.clashes import NOT_REQUESTED

            if scene.mode == "replay":
                error.add_note(NOT_REQUESTED)
        raise
    finally:
        item.config.stash[OPEN] = None
        if item.config.stash.get(RESEEDS, False):
            item.config.option.randomly_reset_seed = True
            del item.config.stash[RESEEDS]
        if (scene := item.stash.get(SCENE, None)) is not None:
            try:
                finding = scene.end()
            except AgentReplayError as error:
                broken = error
    if broken is not None:
        raise unfit(item, broken)
    if finding is not None and FINDING not in item.stash:
        item.stash[FINDING] = finding
        raise failed(item, finding)
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Give the report our plain data, and its one line to the short summary, JUnit and annotations."""
    report = yield
    if item.stash.get(BODY, False):
        return of_a_part(item, call, report)
    finding = getattr(call.excinfo.value, "finding", None) if call.excinfo is not None else None
    if finding is not None and report.failed:
        crash = getattr(report.longrepr, "reprcrash", None)
        if crash is not None:
            crash.message = finding.headline
    if report.when == "teardown" and (scene := item.stash.get(SCENE, None)) is not None:
        report.__dict__["agentreplay"] = dict(scene.told)  # plain data crosses xdist with the report
        afterwards_of(item.config).listen(scene)
        if scene.mode == "record":
            item.stash[UNDO] = scene.withdraw
        # Let go: it holds the run. A test that is run again opens another one.
        del item.stash[SCENE]
    return report


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


def unproved(item: pytest.Item, told: dict[str, Any]) -> dict[str, Any] | None:
    """Why a recording is not replayed at once; None when it is."""
    if told.get("unfrozen"):
        return {"skipped": "a tool would run again"}  # that may have been a payment
    # pytest has put its debugger around the function for good.
    return {"skipped": "--trace would stop again"} if item.config.getoption("trace", None) else None


def prove(item: pytest.Item, nextitem: pytest.Item | None, recorded: list[pytest.TestReport]) -> dict[str, Any]:
    """Replay the recording just made, offline: whether it replays, and what moved if not. Nothing is logged.

    A teardown that failed while recording may fail again: that is not the recording's doing.
    """
    from _pytest.runner import runtestprotocol

    item.stash[PROVING] = True
    if hasattr(item, "_request"):
        item._request = False  # the run that is proven is not quite over: without this its fixtures would serve again
    try:
        with unasked(item.config):
            reports = runtestprotocol(item, nextitem=nextitem, log=False)
    finally:
        del item.stash[PROVING]
    finding = item.stash.get(FINDING, None)
    before = {report.when for report in recorded if report.failed and report.when != "call"}
    failing = next((report for report in reports if failed_in_fact(report) and report.when not in before), None)
    from pytest_agentreplay.report.session import judge

    failure = None
    if failing is not None:
        crash = getattr(failing.longrepr, "reprcrash", None)
        failure = crash.message if crash is not None else failing.longreprtext
    return judge(recorded[-1].agentreplay, getattr(reports[-1], "agentreplay", {}), finding, failure)


@contextmanager
def unasked(config: pytest.Config) -> Iterator[None]:
    """No prompt of a debugger (`breakpoint()`, `--pdb`): somebody has been asked about this test already."""
    manager, hook = config.pluginmanager, sys.breakpointhook
    postmortem = manager.unregister(name="pdbinvoke") if manager.hasplugin("pdbinvoke") else None
    sys.breakpointhook = lambda *args, **kwargs: None  # noqa: ARG005  it takes what a debugger would
    try:
        yield
    finally:
        sys.breakpointhook = hook
        if postmortem is not None:
            manager.register(postmortem, "pdbinvoke")


def failed_in_fact(report: pytest.TestReport) -> bool:
    """Whether something failed, as it may have been expected; a pass that nobody expected is none."""
    if hasattr(report, "wasxfail"):
        return report.skipped
    return report.failed and not report.longreprtext.startswith("[XPASS(strict)]")


def tried_again(report: pytest.TestReport) -> bool:
    """Whether the test is run once more because of this report; pytest-rerunfailures says so in a word of its own."""
    return str(report.outcome) == "rerun"


class SessionLines:
    """Keeps what each test told, and says it at the end; under xdist the reports bring it to the controller."""

    def __init__(self) -> None:
        self.told: list[dict[str, Any]] = []
        self.elsewhere: list[dict[str, Any]] = []
        self.facts: dict[str, Any] = {}
        self.crashed: list[str] = []
        self.tries: dict[str, int] = {}
        self.run_again: set[str] = set()
        self.seen: dict[str, list[str]] = {"items": [], "folders": [], "passed": [], "skipped": [], "failed": []}

        self.passed: dict[str, bool] = {}
        self.ran: dict[str, bool] = {}
        self.lost = False
        self.unused: dict[str, Any] = {}

    def pytest_itemcollected(self, item: pytest.Item) -> None:
        """Know each test, one that will be deselected too."""
        self.seen["items"].append(item.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Know which files and folders gave tests, and which could not, or would not."""
        self.seen[report.outcome].append(report.nodeid)

    def pytest_collect_directory(self, path: Path, parent: pytest.Collector) -> None:
        """Know the folders of snapshots, which pytest walks through anyway."""
        if path.match(parent.config.stash[BASE].directory):
            self.seen["folders"].append(str(path))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take the plain data that a test's report carries; of a test that is tried again, those of its last try."""
        if tried_again(report):
            self.run_again.add(report.nodeid)
        told = getattr(report, "agentreplay", None)
        if report.when == "call":
            self.passed[report.nodeid] = report.passed
        elif report.when == "teardown":
            self.ran[told["test"] if told else report.nodeid] = self.passed.pop(report.nodeid, False)
        if told is None:
            return
        if report.nodeid in self.run_again:
            self.run_again.remove(report.nodeid)
            self.tries[report.nodeid] = self.tries.get(report.nodeid, 1) + 1
            return
        if (tries := self.tries.pop(report.nodeid, 1)) > 1:
            told["tries"] = tries
        self.told.append(told)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        """Take what a worker process of xdist heard when its tests were over."""
        self.lost |= error is not None or not hasattr(node, "workeroutput")
        self.elsewhere.append(getattr(node, "workeroutput", {}).get("agentreplay", {}))

    @pytest.hookimpl(optionalhook=True)
    def pytest_handlecrashitem(self, crashitem: str) -> None:
        """Remember in which tests worker processes of xdist have crashed."""
        self.crashed.append(crashitem)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Close what an interrupt left open. A call that came after its test's report fails the session instead."""
        config = session.config
        if (scene := config.stash.get(OPEN, None)) is not None:
            from pytest_agentreplay.workflow.scene import Ended

            scene.end_body(Ended(interrupted=True))
            scene.end()
            self.told.append(scene.told)
        if AFTERWARDS in config.stash:
            self.elsewhere.append(config.stash[AFTERWARDS].facts())
        if looked := self.look(session):
            self.elsewhere.append({"looked": [looked]})
        if self.crashed and (self.told or config.stash[BASE].mode == "record"):
            self.elsewhere.append({"lost": self.crashed})
        if not any(self.elsewhere):
            return
        from pytest_agentreplay.workflow.afterwards import joined

        self.facts = joined(self.elsewhere)
        if (to_controller := getattr(config, "workeroutput", None)) is not None:
            to_controller["agentreplay"] = self.facts
            return
        self.conclude(session)
        fails = "late" in self.facts or (self.unused.get("unused") and config.stash[BASE].unused == "fail")
        if fails and session.exitstatus in {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED}:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def look(self, session: pytest.Session) -> dict[str, Any]:
        """The snapshots that no test of this process owns; nothing is looked for where no folder of snapshots is."""
        config = session.config
        base, items = config.stash[BASE], getattr(session, "items", [])
        wish = base.unused != "ignore" or config.option.agentreplay_unused_into
        beside = {os.path.join(place, base.directory) for place in {item.path.parent for item in items}}  # noqa: PTH118
        folders = {*self.seen["folders"], *filter(os.path.isdir, beside)}
        if not folders or not wish or base.mode == "off":
            return {}
        from pytest_agentreplay.workflow import unused

        words = (config.args, config.invocation_params.dir, config.rootpath, config.getini("testpaths"))
        if part := unused.narrowed(vars(config.option), *words):
            return unused.nothing(part)
        tests = [(nodeid_of(item), item.path, wanted(item)) for item in items]
        return unused.look(unused.Collected(tests, self.seen, {*map(Path, folders)}), store_of(config))

    def conclude(self, session: pytest.Session) -> None:
        """Decide which snapshots are unused, if every test of the project was run to its end."""
        from pytest_agentreplay.workflow import unused

        config = session.config
        stopped = session.shouldstop or session.shouldfail or session.exitstatus not in {0, 1, 5}
        why = unused.LOST if self.lost else "the session was stopped" if stopped else ""
        looked = self.facts.get("looked", [])
        self.unused = unused.conclude(looked, why=why, ran=self.ran, told=self.told, store=store_of(config))
        if into := config.option.agentreplay_unused_into:
            unused.hand_over(self.unused, into)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
        """The footer: only when there is something to say."""
        if not self.told and not self.facts:
            return
        from pytest_agentreplay.report.session import afterwards, footer

        lines = footer(self.told, verbosity=config.get_verbosity(), here=str(config.invocation_params.dir))
        for late in self.facts.get("late", ()):  # too late for a report: it is told below, and counted as an error
            where = late["test"].partition("::")[0], None, late["test"]
            error = pytest.TestReport(late["test"], where, {}, "failed", late["call"], "teardown")
            terminalreporter.stats.setdefault("error", []).append(error)
        lines += afterwards(self.facts, recording=config.stash[BASE].mode == "record")
        if self.unused:
            from pytest_agentreplay.report.unused import unused_lines

            fails = config.stash[BASE].unused == "fail"
            here = str(config.invocation_params.dir)
            lines += unused_lines(self.unused, verbosity=config.get_verbosity(), here=here, fails=fails)
        if not lines:
            return
        if config.get_verbosity() >= 0:
            terminalreporter.section("agentreplay", sep="-")
        for line in lines:
            terminalreporter.line(line)


class Recordings:
    """While recording: proves each new recording, and counts the tests without the plugin that look for a model."""

    def __init__(self) -> None:
        self.running: tuple[pytest.Item, pytest.Item | None] | None = None
        self.reports: list[pytest.TestReport] = []
        self.run_again = False
        self.timer: Any = None

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, Any, Any]:
        """Run the test, whoever does it, once or several times; listen around one that did not opt in."""
        if not wanted(item):
            with afterwards_of(item.config).bystander():
                return (yield)
        self.running, self.timer = (item, nextitem), None
        try:
            return (yield)
        finally:
            self.running = None
            if UNDO in item.stash:
                del item.stash[UNDO]

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> Generator[None]:
        """The last report of a try: replay the recording at once, offline, unless the test is tried again."""
        told = getattr(report, "agentreplay", None)
        if self.running is not None and report.nodeid == self.running[0].nodeid:
            self.reports = [*(self.reports if report.when != "setup" else ()), report]
            self.run_again |= tried_again(report)
            if told is not None:
                if not self.run_again:
                    self.prove(told)
                self.run_again = False
        yield

    def prove(self, told: dict[str, Any]) -> None:
        """Add the proof to what a test told, when there is something to prove."""
        assert self.running is not None
        item, nextitem = self.running
        if told.get("verdict") not in {"created", "replaced"} or not item.config.stash[BASE].prove:
            return
        if (unwilling := unproved(item, told)) is not None:
            told["proof"] = unwilling
            return
        if self.timer is not None:
            hooks = item.config.pluginmanager.hook
            hooks.pytest_timeout_cancel_timer(item=item)
            hooks.pytest_timeout_set_timer(item=item, settings=self.timer)
        told["proof"] = prove(item, nextitem, self.reports)

    @pytest.hookimpl(optionalhook=True, tryfirst=True)
    def pytest_timeout_set_timer(self, settings: Any) -> None:
        """Remember how long pytest-timeout gives the test: its proof gets as long again, and not what is left."""
        self.timer = None if settings.func_only else settings


def stamp_coroutine(item: pytest.Item, scene: Scene) -> None:
    """Make a coroutine test carry the stamp itself: its runner may have copied its context before the body began."""
    function = getattr(item, "obj", None)
    if not inspect.iscoroutinefunction(function) or hasattr(function, "__agentreplay__"):
        return
    from pytest_agentreplay.boundaries.lanes import STRAND, runner

    strand = scene.crossing.main()

    @functools.wraps(function)
    async def stamped(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        token = STRAND.set(strand)
        strand.owner = runner()
        try:
            return await function(*args, **kwargs)
        finally:
            STRAND.reset(token)

    item.obj = stamped  # type: ignore[attr-defined]
    item.addfinalizer(functools.partial(setattr, item, "obj", function))


def how_it_ended(item: pytest.Item, failure: BaseException | None, ended: type[Ended]) -> Ended:
    """The end of a body as the scene takes it. unittest keeps its failures on the item instead of raising them."""
    kept = getattr(item, "_excinfo", None)
    if failure is None:
        failure = kept[-1].value if kept else item.stash.get(INNER, None)
    return ended(
        None if isinstance(failure, pytest.skip.Exception) else failure,
        interrupted=isinstance(failure, INTERRUPTS) or timed_out(failure),
        skipped=isinstance(failure, pytest.skip.Exception),
    )


def timed_out(failure: BaseException | None) -> bool:
    """Whether pytest-timeout has ended the test; its other method ends the process."""
    return isinstance(failure, pytest.fail.Exception) and TIMED_OUT.fullmatch(str(failure)) is not None


def unittest_forget(item: pytest.Item) -> None:
    """Our verdict replaces what a TestCase has kept."""
    if getattr(item, "_excinfo", None):
        item._excinfo = None  # type: ignore[attr-defined]


def failed(item: pytest.Item, finding: Finding, failure: BaseException | None = None) -> BaseException:
    """The exception that fails a test with our text, and with nothing else: no chain, no traceback is shown.

    A debugger finds the agent's frames in it, down to the line where `failure` stopped it.
    """
    from pytest_agentreplay.report.terminal import text

    writer = item.config.get_terminal_writer()
    for name, value in finding.properties.items():
        item.user_properties.append((f"agentreplay.{name}", value))
    error = pytest.fail.Exception(
        text(finding, width=writer.fullwidth, verbosity=item.config.get_verbosity()), pytrace=False
    )
    error.__suppress_context__ = True
    error.finding = finding  # type: ignore[attr-defined]
    if failure is not None:
        from pytest_agentreplay.boundaries.crossing import where_it_stopped

        error.__traceback__ = where_it_stopped(failure, str(item.config.rootpath))
    return error
