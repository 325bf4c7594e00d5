"""What was collected: fixtures that are wider than a test and their ids, the tests, unused snapshots; the sandbox.

The id of a wide fixture is the node that shares it, its name and its parameters. It must not depend on the test that
needs the fixture first, nor on which other tests were selected.
"""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_agentreplay.errors import SettingsError
from pytest_agentreplay.model.paths import MARK
from pytest_agentreplay.plugin import keys
from pytest_agentreplay.plugin.keys import get_nodeid, get_settings, is_opted_in, redact_id, store_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pytest_agentreplay.report.summary import CollectedSnapshots
    from pytest_agentreplay.runs.unused_snapshots import Suite

# The fixtures that pytest 8.4 to 9.2 makes of set-up functions; their names are private, and the last part varies.
XUNIT = re.compile(r"_(?:xunit|unittest)_(setup_module|setup_class|setUpClass)_fixture_")

# Modules whose fixtures run no code of the project's, but for those above: directories, event loops, parameters.
PLAIN_MODULES = ("_pytest.", "pytest_asyncio.", "anyio.")
SHOWN_REASONS = 3  # why the sandbox is not closed, one by one


def is_running_code(fixturedef: pytest.FixtureDef[Any]) -> bool:
    """Return whether the fixture is the project's, or of a plugin that may run its agent."""
    return XUNIT.match(fixturedef.argname) is not None or not fixturedef.func.__module__.startswith(PLAIN_MODULES)


def list_definitions(item: pytest.Item) -> Mapping[str, Any]:
    """Return the fixtures that the test needs, by name, each with those that it overrides."""
    # Private, pytest 8.4 to 9.2; items of other plugins have none:
    # https://github.com/pytest-dev/pytest/blob/9.0.0/src/_pytest/python.py
    info = getattr(item, "_fixtureinfo", None)
    return {} if info is None else info.name2fixturedefs


def list_wide_fixtures(item: pytest.Item) -> Iterator[pytest.FixtureDef[Any]]:
    """Yield the fixtures wider than a test that the test needs, overridden ones included."""
    for several in list_definitions(item).values():
        yield from (fixture for fixture in several if fixture.scope != "function" and is_running_code(fixture))


def format_fixture_id(fixturedef: pytest.FixtureDef[Any], item: pytest.Item) -> str:
    """Return the id of the fixture, as `item` needs it."""
    node = find_sharing_node(fixturedef, item)
    xunit = XUNIT.match(fixturedef.argname)
    name = xunit[1] if xunit is not None else fixturedef.argname
    fixture = f"{node}{MARK}{name}{format_override_suffix(fixturedef, item, node)}"
    parameters = "-".join(list_parameter_labels(fixturedef, item))
    return redact_id(item, f"{fixture}[{parameters}]") if parameters else fixture


def format_package_id(node: pytest.Package) -> str:
    """Return the id of the set-up of a package."""
    return f"{node.nodeid}/__init__.py{MARK}setup_module".removeprefix("./")


def find_sharing_node(fixturedef: pytest.FixtureDef[Any], item: pytest.Item) -> str:
    """Return the node whose tests share the fixture: its scope, or its definition where that is narrower."""
    base = fixturedef.baseid
    if fixturedef.scope in {"session", "package"}:
        return base if ".py" in base else f"{base}/conftest.py".removeprefix("./").lstrip("/")
    kind = pytest.Class if fixturedef.scope == "class" else pytest.Module
    parent = item.getparent(kind)
    node = parent.nodeid if parent is not None else get_nodeid(item)  # class scope, and the test stands in none
    return base if base.startswith(f"{node}::") else node


def format_override_suffix(fixturedef: pytest.FixtureDef[Any], item: pytest.Item, node: str) -> str:
    """Return what tells a fixture from one of the same node that overrides it and asks for it; "" for the outermost."""
    same = [
        fixture
        for fixture in list_definitions(item).get(fixturedef.argname, ())
        if fixture.scope == fixturedef.scope and find_sharing_node(fixture, item) == node
    ]
    above = len(same) - 1 - same.index(fixturedef) if fixturedef in same else 0
    return f"^{above}" if above else ""


def list_parameter_labels(fixturedef: pytest.FixtureDef[Any], item: pytest.Item) -> Iterator[str]:
    """Yield the parameters of the fixture and of the fixtures that it asks for, each as a word."""
    callspec = getattr(item, "callspec", None)
    if callspec is None:
        return
    seen: dict[str, None] = {}
    names = [fixturedef.argname]
    while names:
        name = names.pop(0)
        if name in seen:
            continue
        seen[name] = None
        definitions_of_name = [fixturedef] if name == fixturedef.argname else list_definitions(item).get(name, ())[-1:]
        names += [argument for definition in definitions_of_name for argument in definition.argnames]
    for name in seen:
        if name in callspec.params:
            several = list_definitions(item).get(name, ())
            yield format_parameter(
                callspec.params[name], callspec.indices[name], several[-1] if several else fixturedef
            )


def format_parameter(value: object, index: int, fixturedef: pytest.FixtureDef[Any]) -> str:
    """Return a parameter: its id where the fixture gives one, else the value as pytest shows it, else its number."""
    ids: Any = fixturedef.ids
    is_param = fixturedef.params is not None and index < len(fixturedef.params)
    listed = ids[index] if ids and is_param and not callable(ids) else None
    name_of_value = ids(value) if callable(ids) else listed
    if name_of_value is not None:
        return str(name_of_value)
    if value is None or isinstance(value, str | int | float | bool):
        return str(value).encode("unicode_escape").decode("ascii")
    value_name = getattr(value, "__name__", "")
    return value_name if isinstance(value_name, str) and value_name else f"{fixturedef.argname}{index}"


def make_suite(session: pytest.Session) -> Suite:
    """Return what the session knows of the project's tests, for those that were renamed."""
    if keys.SUITE not in session.config.stash:
        from pytest_agentreplay.runs.unused_snapshots import Suite

        opted_in = [*filter(is_opted_in, session.items)]
        fixtures = (format_fixture_id(fixture, item) for item in opted_in for fixture in list_wide_fixtures(item))
        ids = frozenset((*session.config.stash[keys.REPORT].seen["items"], *map(get_nodeid, opted_in), *fixtures))
        modules = {item.nodeid.partition("::")[0]: getattr(item, "module", None) for item in session.items}
        session.config.stash[keys.SUITE] = Suite(session.config.rootpath, ids, session.config.args, modules)
    return session.config.stash[keys.SUITE]


def find_unowned(session: pytest.Session, folders: set[str]) -> CollectedSnapshots:
    """Return the snapshots in these folders, and below, that no test of this process owns."""
    from pytest_agentreplay.report.summary import CollectedSnapshots
    from pytest_agentreplay.runs import unused_snapshots

    config, items = session.config, getattr(session, "items", [])
    words = (config.args, config.invocation_params.dir, config.rootpath, config.getini("testpaths"))
    if part := unused_snapshots.find_limit(vars(config.option), *words):
        return CollectedSnapshots(part)
    tests = [(get_nodeid(item) if is_opted_in(item) else item.nodeid, item.path, is_opted_in(item)) for item in items]
    shared = {
        format_fixture_id(fixture, item) for item in items if is_opted_in(item) for fixture in list_wide_fixtures(item)
    }
    fixtures = [(fixture, config.rootpath / fixture.partition("::")[0]) for fixture in sorted(shared)]
    seen = config.stash[keys.REPORT].seen
    collected = unused_snapshots.CollectedTests(tests, fixtures, seen, {*map(Path, folders)})
    return unused_snapshots.find_unowned(collected, store_of(config))


class SandboxClosing:
    """Closes the sandbox once everything is collected. `why` says what was in its way, where something was.

    It is closed for the whole process and for good, so a test that needs the network would fail under it: it is closed
    only where every selected test is a replay that declares none. Under xdist each worker closes its own.
    """

    def __init__(self, how: str) -> None:
        """`how` is "auto" or "require"."""
        self.how = how
        self.why = ""

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Before any test, and before anybody is told what was collected. Raises UsageError where it must close."""
        from pytest_agentreplay.intercept.network import sandbox

        if not session.items:
            return
        reasons = [*list_hindrances(session)] or [*sandbox.hindrances()]
        if not reasons and not session.config.option.collectonly and (refused := sandbox.close()):
            reasons = [refused]
        more = f", and {len(reasons) - SHOWN_REASONS} more" if len(reasons) > SHOWN_REASONS else ""
        self.why = "; ".join(reasons[:SHOWN_REASONS]) + more
        self.raise_if_required()

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """A worker of xdist that could not close its own ends before it has a test; the controller says why."""
        self.why = getattr(node, "workeroutput", {}).get("agentreplay", {}).get("open", "")
        self.raise_if_required()

    def raise_if_required(self) -> None:
        """Raise UsageError where the sandbox must be closed, and cannot be."""
        if self.why and self.how == "require":
            raise pytest.UsageError(f"--agentreplay-sandbox=require: {self.why}")

    def pytest_report_collectionfinish(self) -> list[str]:
        """Return the level that was reached; before there was anything collected it could not be known."""
        from pytest_agentreplay.intercept.network import sandbox

        if self.why:
            return [f"agentreplay: offline, but not by the kernel: {self.why}"]
        closed = "offline by the kernel, which refuses sockets to C code and child processes too"
        return [f"agentreplay: {closed}"] if sandbox.is_closed() else []


def list_hindrances(session: pytest.Session) -> Iterator[str]:
    """Yield what of the selected tests needs a network, or may need one."""
    base = session.config.stash[keys.SETTINGS]
    if base.replay_tools != "frozen":
        yield f"--replay-tools={base.replay_tools} has tools run"
    for item in session.items:
        case = item.get_closest_marker("agentreplay_case") is not None  # it is replayed, whatever it is
        if not case and not is_opted_in(item):
            yield f"{item.nodeid} is not replayed"
            continue
        with suppress(SettingsError):  # the test itself fails by it
            settings = get_settings(item)
            if settings.mode != "replay":
                yield f"{item.nodeid} is not replayed"
            elif reaches := settings.reaches():
                yield f"{item.nodeid} {reaches}"
