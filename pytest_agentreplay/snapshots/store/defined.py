"""Which tests a file defines, read from its text: nothing of it is run."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from pytest_agentreplay.errors import SnapshotError
from pytest_agentreplay.snapshots.store import files

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def tests_in(file: Path, module: str) -> list[str] | None:
    """Return the ids of the tests that `file` defines; None where that cannot be said of it.

    It cannot of a file that is no Python, nor where tests may come from elsewhere: by inheritance, by `import *`.
    `module` is the file as ids name it. A file that is not there defines none.
    """
    try:
        text = files.read(file) if files.exists(file) else b""
        tree = ast.parse(text)
    except (SnapshotError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    if any(isinstance(node, ast.ImportFrom) and node.names[0].name == "*" for node in tree.body):
        return None
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    if any(ast.unparse(base) not in ROOTS for node in classes for base in node.bases):
        return None
    return [f"{module}::{name}" for name in names_in(tree.body)]


ROOTS = {"object", "TestCase", "unittest.TestCase", "IsolatedAsyncioTestCase", "unittest.IsolatedAsyncioTestCase"}
"""Classes from which no test is inherited."""


def names_in(body: list[ast.stmt]) -> Iterator[str]:
    """Return the names of functions, and of methods behind their class, whatever prefix a project has for tests."""
    for node in body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield node.name
            case ast.ClassDef():
                yield from (f"{node.name}::{name}" for name in names_in(node.body))
            case ast.If() | ast.Try() | ast.With():
                yield from names_in([each for each in ast.iter_child_nodes(node) if isinstance(each, ast.stmt)])
