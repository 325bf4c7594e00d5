"""The package as its source reads: where it lies, and the syntax tree of each module, parsed once and only if asked for."""

import ast
import functools
import gc
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NAME = "pytest_agentreplay"
PACKAGE = ROOT / NAME


@functools.cache
def trees():
    """Return the syntax trees by path inside the package, such as `model/exchanges.py`."""
    files = sorted(PACKAGE.rglob("*.py"))
    collecting = gc.isenabled()
    gc.disable()  # a million objects that all stay: to look for garbage among them takes longer than to parse
    try:
        return {file.relative_to(PACKAGE).as_posix(): ast.parse(file.read_text(encoding="utf-8")) for file in files}
    finally:
        if collecting:
            gc.enable()


@functools.cache
def nodes_by_type(tree):
    """Return the nodes of a tree by their type, each type in the order of the source."""
    nodes = {}
    for node in ast.walk(tree):
        nodes.setdefault(type(node), []).append(node)
    return nodes


def nodes_of(tree, *types):
    """Yield the nodes of a tree that are of one of these types: a tree is walked once, whoever looks for what."""
    for kind in types:
        yield from nodes_by_type(tree).get(kind, ())
