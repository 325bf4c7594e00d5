"""Names that a reader can search for: words that say nothing, names that stand twice, aliases that hide a module.

Each figure is a ceiling that only falls: lower it when you rename, never raise it.
"""

from __future__ import annotations

import ast
import functools
from collections import Counter
from pathlib import PurePosixPath

import pytest

from tests.support.package_sources import NAME, nodes_of, trees
from tests.support.tables import words

VAGUE = words("found one told said known given held asked wanted shown whole named")
"""Words that name what happened to a value, not what it is; pytest, httpx and trio use each in at most 2 of 10,000."""
VAGUE_PER_10_000 = 6
VAGUE_IN = {
    "model/": 0,
    "values/": 0,
    "snapshots/": 2,
    "redaction/": 0,
    "compare/": 0,
    "backends/": 0,
    "providers/": 0,
    "intercept/": 2,
    "intercept/environment/": 0,
    "intercept/ordering/": 0,
    "intercept/session/": 0,
    "traces/": 5,
    "cases/": 17,
    "report/": 6,
    "settings/": 0,
    "runs/": 4,
    "runs/capture/": 0,
    "runs/cassettes/": 0,
    "runs/fuzz/": 0,
    "plugin/": 3,
    "cli/": 3,
}
"""The same by room."""

GONE = {"crossing", "passage", "doorstep", "strand", "scene", "scrub"}
"""Words of the former vocabulary that name nothing in the package any more."""

CLASSES_TWICE = {"CaseFile", "Check", "Finding", "ReplayDiverged", "Runners", "Source", "ToolUse"}
"""Classes of schemas, whose names are part of a file format, the exception that pytest shows, what redaction and tests find."""
STEMS_TWICE = 35
ALIASES = 22


@functools.cache
def identifiers(tree: ast.AST) -> Counter[str]:
    """Return how often each name stands in a module: as a name, attribute, argument or definition."""
    names = [node.id for node in nodes_of(tree, ast.Name)]
    names += [node.attr for node in nodes_of(tree, ast.Attribute)]
    names += [node.arg for node in nodes_of(tree, ast.arg)]
    names += [node.name for node in nodes_of(tree, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)]
    return Counter(names)


def test_vague_words_become_fewer_and_the_former_vocabulary_is_gone():
    counts = sum((identifiers(tree) for tree in trees().values()), Counter())
    rate = 10_000 * sum(counts[word] for word in VAGUE) / counts.total()
    assert rate <= VAGUE_PER_10_000, {word: counts[word] for word in sorted(VAGUE)}
    assert not {word for word in GONE if counts[word]}


@pytest.mark.parametrize("package", VAGUE_IN)
def test_a_room_keeps_its_names(package):
    counts = sum((identifiers(tree) for path, tree in trees().items() if path.startswith(package)), Counter())
    rate = 10_000 * sum(counts[word] for word in VAGUE) / counts.total()
    assert rate <= VAGUE_IN[package], {word: counts[word] for word in sorted(VAGUE)}


def test_no_class_name_stands_twice():
    classes = Counter(node.name for tree in trees().values() for node in nodes_of(tree, ast.ClassDef))
    assert {name for name, count in classes.items() if count > 1} <= CLASSES_TWICE


def test_few_modules_have_the_same_name():
    """Modules of a provider or library may: `http.aiohttp` and `websocket.aiohttp` patch the same one."""
    stems = Counter(PurePosixPath(path).stem for path in trees() if not path.endswith("__init__.py"))
    twice = {stem for stem, count in stems.items() if count > 1}
    assert len(twice) <= STEMS_TWICE, sorted(twice)


def test_few_imports_hide_the_name_of_a_module():
    modules = {PurePosixPath(path.removesuffix("/__init__.py")).stem for path in trees()}
    hidden = [
        f"{path}:{node.lineno} {alias.name} as {alias.asname}"
        for path, tree in trees().items()
        for node in nodes_of(tree, ast.ImportFrom)
        if (node.module or "").startswith(NAME)
        for alias in node.names
        if alias.asname and alias.name in modules
    ]
    assert len(hidden) <= ALIASES, "\n".join(hidden)
