"""Door 1: pytest glue only. Options, marker, fixtures, and hooks that hand over at once.

A test that does not ask for the plugin costs a look-up per hook; nothing but `settings` is imported for it. Longer than
a room should be: every hook and fixture of ours stands here, because no other room may know pytest.
"""

from __future__ import annotations

import bdb
import functools
import inspect
import os
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_agentreplay import settings as knobs
from pytest_agentreplay.errors import AgentReplayError, ReplayDiverged, SettingsError, SnapshotError

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

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

SHARED = {"--replay"}
"""Flags that other plugins have as well."""

ME = "pytest_agentreplay.plugin"
"""This module, which owns the fixtures of our names."""

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
        config.pluginmanager.register(Bystanders(), "agentreplay-bystanders")


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
        if settings.mode != "off":
            from pytest_agentreplay.workflow.begin import begin as begin_scene

            suite = functools.partial(suite_of, item.session)
            scene = begin_scene(place_of(item, settings), settings, store_of(item.config), suite)
            scene.open()
    except AgentReplayError as error:
        item.stash[SCENE] = None
        raise unfit(item, error) from None
    item.stash[SCENE] = item.config.stash[OPEN] = scene
    return scene


def unfit(item: pytest.Item, error: AgentReplayError) -> BaseException:
    """The exception that fails a test which cannot be recorded or replayed as it stands."""
    if isinstance(error, SnapshotError):
        from pytest_agentreplay.workflow.begin import refused

        item.stash[FINDING] = refused(error, item.nodeid, functools.partial(suite_of, item.session))
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
    return Place(item.nodeid, store_of(item.config).path_of(item.path, item.nodeid), root, marks, os.environ)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, Any, Any]:
    """A fixture that crosses the doorstep may be refused there; the finding says it, not a traceback."""
    earlier: list[pytest.StashKey[Any]] = [SCENE, FINDING]  # of another go at the same test
    for key in earlier:
        if key in item.stash:
            del item.stash[key]
    if two_recorders(item):
        from pytest_agentreplay.report.clashes import TWO_RECORDERS

        pytest.fail(TWO_RECORDERS, pytrace=False)
    try:
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
    scene.enter_body()
    try:
        result = yield
    except BaseException as raised:  # whatever ended the body is told to the scene, then raised again
        failure = raised
    finally:
        scene.leave_body()
    ended = how_it_ended(item, failure, Ended)
    finding = scene.end_body(ended)
    if ended.interrupted:
        assert failure is not None
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
    finding = getattr(call.excinfo.value, "finding", None) if call.excinfo is not None else None
    if finding is not None and report.failed:
        crash = getattr(report.longrepr, "reprcrash", None)
        if crash is not None:
            crash.message = finding.headline
    if report.when == "teardown" and (scene := item.stash.get(SCENE, None)) is not None:
        report.__dict__["agentreplay"] = dict(scene.told)  # plain data crosses xdist with the report
        afterwards_of(item.config).listen(scene)
        # Let go: it holds the run. A test that is run again opens another one.
        del item.stash[SCENE]
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """While recording: run the test, then replay it at once, offline, to prove the recording. Else pytest's own."""
    if not wanted(item) or item.config.stash[BASE].mode != "record":
        return None
    from _pytest.runner import runtestprotocol

    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reports = runtestprotocol(item, nextitem=nextitem, log=False)
    told = getattr(reports[-1], "agentreplay", None)
    if told is not None and told.get("verdict") in {"created", "replaced"} and item.config.stash[BASE].prove:
        told["proof"] = unproved(item, told) or prove(item, nextitem, reports)
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


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
    try:
        with unasked(item.config):
            reports = runtestprotocol(item, nextitem=nextitem, log=False)
    finally:
        del item.stash[PROVING]
    finding = item.stash.get(FINDING, None)
    before = {report.when for report in recorded if report.failed and report.when != "call"}
    failing = next((report for report in reports if report.failed and report.when not in before), None)
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


class SessionLines:
    """Keeps what each test told, and says it at the end; under xdist the reports bring it to the controller."""

    def __init__(self) -> None:
        self.told: list[dict[str, Any]] = []
        self.elsewhere: list[dict[str, Any]] = []
        self.facts: dict[str, Any] = {}
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
        """Take the plain data that a test's report carries."""
        told = getattr(report, "agentreplay", None)
        if told is not None:
            self.told.append(told)
        if report.when == "call":
            self.passed[report.nodeid] = report.passed
        elif report.when == "teardown":
            self.ran[report.nodeid] = self.passed.pop(report.nodeid, False)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        """Take what a worker process of xdist heard when its tests were over."""
        self.lost |= error is not None or not hasattr(node, "workeroutput")
        self.elsewhere.append(getattr(node, "workeroutput", {}).get("agentreplay", {}))

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
        tests = [(item.nodeid, item.path, wanted(item)) for item in items]
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
        lines += afterwards(self.facts)
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


class Bystanders:
    """While recording: counts the tests without the plugin that look for a model."""

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Listen around a test that did not opt in."""
        if wanted(item):
            return (yield)
        with afterwards_of(item.config).bystander():
            return (yield)


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
    if failure is None and kept:
        failure = kept[-1].value
    return ended(
        None if isinstance(failure, pytest.skip.Exception) else failure,
        interrupted=isinstance(failure, KeyboardInterrupt | SystemExit | pytest.exit.Exception | bdb.BdbQuit),
        skipped=isinstance(failure, pytest.skip.Exception),
    )


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
