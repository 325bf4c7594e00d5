"""The face: a frozen list of names, each loaded when it is asked for and each documented."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import pytest_agentreplay

PACKAGE = Path(__file__).resolve().parents[2] / "pytest_agentreplay"

NAMES = [
    "AgentReplayError", "CannotFreeze", "CannotRedirect", "CannotSign", "CannotWrite", "CaseError", "Closed", "Codec", "Difference", "Divergence", "Exchange",
    "Failure", "Frame", "FrameCall", "FramesReply", "HttpCall", "HttpReply", "Kind", "Leak", "LiveRefused", "PolicyError", "ReplayDiverged", "Run", "RunView", "RunnerError", "SettingsError",
    "Snapshot", "SnapshotEdited", "SnapshotError", "SnapshotMisplaced", "SnapshotMissing", "SnapshotTooNew", "SnapshotUnreadable",
    "ToolCall", "ToolReply", "TraceError", "TraceIncomplete", "TraceUnknown", "__version__", "agent", "assert_same_run", "first_divergence",
    "load", "secret",
]  # fmt: skip
"""A name that is here stays for good; a new one is added on purpose."""


def test_the_public_names_are_these():
    assert pytest_agentreplay.__all__ == NAMES == sorted(NAMES)
    assert dir(pytest_agentreplay) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_public_name_is_there_and_says_what_it_is(name):
    found = getattr(pytest_agentreplay, name)
    if name == "__version__":
        assert found[0].isdigit()
        return
    assert found.__name__ == name
    assert found.__module__.startswith("pytest_agentreplay.")
    assert inspect.getdoc(found)
    for member_name, member in vars(found).items() if inspect.isclass(found) else ():
        if not member_name.startswith("_") and (inspect.isfunction(member) or isinstance(member, property)):
            assert inspect.getdoc(member), f"{name}.{member_name}"


def test_the_errors_of_the_face_are_the_whole_family():
    family = {cls.__name__ for cls in family_of(pytest_agentreplay.AgentReplayError)} | {"ReplayDiverged"}
    assert {name for name in NAMES if getattr(pytest_agentreplay, name) in family_classes()} == family


def family_of(cls):
    yield cls
    for child in cls.__subclasses__():
        if child.__module__ == "pytest_agentreplay.errors":
            yield from family_of(child)


def family_classes():
    return {*family_of(pytest_agentreplay.AgentReplayError), pytest_agentreplay.ReplayDiverged}


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'Tape"):
        _ = pytest_agentreplay.TapeRecorder


def test_importing_the_face_loads_nothing_else():
    code = "import sys, pytest_agentreplay; print(*[m for m in sys.modules if m.startswith('pytest_agentreplay')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["pytest_agentreplay"]


def test_type_checkers_see_every_name():
    tree = ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8"))
    typed = next(node for node in tree.body if isinstance(node, ast.If))
    names = {alias.name for node in typed.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert names | {"__version__"} == set(NAMES)


@pytest.mark.parametrize("file", sorted(PACKAGE.rglob("*.py")), ids=lambda file: str(file.relative_to(PACKAGE)))
def test_every_room_says_its_sentence(file):
    docstring = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8")))
    assert docstring
    assert docstring.splitlines()[0].rstrip().endswith((".", ":", ","))
