"""The public API: a frozen list of names, each loaded when it is asked for and each documented."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys

import pytest

import pytest_agentreplay
from pytest_agentreplay import plugins
from tests.support.package_sources import trees
from tests.support.tables import words

NAMES = sorted(
    words(
        "AgentReplayError CannotFreeze CannotRedirect CannotSign CannotWrite CaseError Closed Codec Difference Divergence "
        "Exchange Failure Frame FrameCall FramesReply HttpCall HttpReply Kind Leak LiveRefused PolicyError ReplayDiverged Run "
        "RunView RunnerError SettingsError Snapshot SnapshotEdited SnapshotError SnapshotMisplaced SnapshotMissing "
        "SnapshotTooNew SnapshotUnreadable ToolCall ToolReply TraceError TraceIncomplete TraceUnknown __version__ agent "
        "assert_same_run first_divergence load secret"
    )
)
"""A name that is here stays for good; a new one is added on purpose."""


def test_the_public_names_are_these_and_each_says_what_it_is():
    assert pytest_agentreplay.__all__ == NAMES == dir(pytest_agentreplay)
    assert pytest_agentreplay.__version__[0].isdigit()
    for name in {*NAMES} - {"__version__"}:
        value = getattr(pytest_agentreplay, name)
        assert value.__name__ == name
        assert value.__module__.startswith("pytest_agentreplay.")
        assert inspect.getdoc(value), name
        members = vars(value).items() if inspect.isclass(value) else ()
        functions = [(key, it) for key, it in members if inspect.isfunction(it) or isinstance(it, property)]
        assert not [key for key, it in functions if not key.startswith("_") and not inspect.getdoc(it)], name
    with pytest.raises(AttributeError, match="no attribute 'Tape"):
        _ = pytest_agentreplay.TapeRecorder


def test_what_other_packages_are_made_of_is_there_too():
    assert sorted(plugins.__all__) == dir(plugins)
    for name in plugins.__all__:
        value = getattr(plugins, name)
        assert value.__name__ == name
        assert value.__module__.startswith("pytest_agentreplay.")
        assert inspect.getdoc(value), name
    with pytest.raises(AttributeError, match="no attribute 'Tape"):
        _ = plugins.TapeRecorder


def test_every_error_is_public():
    def family_of(cls):
        yield cls
        for child in cls.__subclasses__():
            if child.__module__ == "pytest_agentreplay.errors":
                yield from family_of(child)

    assert {cls.__name__ for cls in family_of(pytest_agentreplay.AgentReplayError)} <= {*NAMES}


@pytest.mark.process
def test_importing_the_package_loads_nothing_else():
    code = "import sys, pytest_agentreplay; print(*[m for m in sys.modules if m.startswith('pytest_agentreplay')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["pytest_agentreplay"]


def test_type_checkers_see_every_name():
    for file, public in ("__init__.py", {*NAMES} - {"__version__"}), ("plugins.py", {*plugins.__all__}):
        typed = next(node for node in trees()[file].body if isinstance(node, ast.If))
        names = {alias.name for node in typed.body if isinstance(node, ast.ImportFrom) for alias in node.names}
        assert names == public


def test_every_module_says_what_it_is_for():
    first = {path: (ast.get_docstring(tree) or "").partition("\n")[0].rstrip() for path, tree in trees().items()}
    assert not [path for path, line in first.items() if not line.endswith((".", ":", ","))]
