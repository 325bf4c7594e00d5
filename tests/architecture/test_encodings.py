"""Text is UTF-8 wherever it lies: no file is opened in the encoding of the machine, which on Windows is another one."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("architecture", "core", "codec", "store", "plugin", "compatibility")
FILES = [
    *(ROOT / "pytest_agentreplay").rglob("*.py"),
    *(f for room in ROOMS for f in (ROOT / "tests" / room).rglob("*.py")),
]
FILES += [ROOT / "conftest.py", ROOT / "tests" / "conftest.py", ROOT / "tests" / "smoke.py"]


def unsaid(tree):
    """The calls that read or write text without saying in which encoding."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or any(word.arg in {"encoding", None} for word in node.keywords):
            continue
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        if name in {"read_text", "write_text"}:
            if len(node.args) <= (name == "write_text"):  # the encoding comes next
                yield node
        elif name == "open" and (isinstance(node.func, ast.Name) or isinstance(node.func.value, ast.Name | ast.BinOp)):
            words = [word.value for word in node.args if isinstance(word, ast.Constant) and isinstance(word.value, str)]
            mode = words[-1] if words and set(words[-1]) <= set("rwaxbt+") else None
            owner = getattr(getattr(node.func, "value", None), "id", "")
            if mode is not None and "b" not in mode and owner not in {"os", "webbrowser", "scene"}:
                yield node


def test_every_text_says_its_encoding():
    found = [
        f"{file.relative_to(ROOT).as_posix()}:{node.lineno}"
        for file in FILES
        for node in unsaid(ast.parse(file.read_text(encoding="utf-8")))
    ]
    assert found == []


@pytest.mark.parametrize("source", ["p.read_text()", "p.write_text('x')", "open(p, 'w')", "(a / b).open('a')"])
def test_what_is_not_said_is_found(source):
    assert list(unsaid(ast.parse(source)))


@pytest.mark.parametrize(
    "source",
    ["p.read_text(encoding='utf-8')", "open(p, 'rb')", "p.read_bytes()", "p.read_text('utf-8')", "os.open(p, 1)"],
)
def test_what_is_said_or_binary_passes(source):
    assert not list(unsaid(ast.parse(source)))
