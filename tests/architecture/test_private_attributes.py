"""What we use of a library that has no public name: beside it stands where to read it, for when a release changes it."""

from __future__ import annotations

import ast
import functools

import pytest

from tests.support.package_sources import PACKAGE, nodes_of, trees

PACKAGES = (
    "backends/", "compare/diagnose/", "intercept/environment/", "intercept/ordering/", "intercept/session/", "plugin/",
    "report/", "runs/",
)  # fmt: skip
PUBLIC = {"_asdict", "_exit", "_fields", "_getframe", "_make", "_replace"}
"""Names that are documented, in spite of their underscore."""
ABOVE, BELOW = 6, 2
"""Lines around the use in which the link stands."""


@functools.cache
def own_names():
    """Return every private name that the package itself defines."""
    names = set()
    for tree in trees().values():
        for node in nodes_of(tree, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Attribute, ast.Name):
            match node:
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                    names.add(name)
                case ast.Attribute(attr=name, ctx=ast.Store(), value=ast.Name(id="self" | "cls" | "made")):
                    names.add(name)
                case ast.Name(id=name, ctx=ast.Store()):
                    names.add(name)
    return names


def private_uses(tree):
    """Yield the line and name of each private attribute or import in a module, those by `getattr` too."""
    for node in nodes_of(tree, ast.Attribute, ast.Call, ast.ImportFrom):
        match node:
            case ast.Attribute(attr=name):
                yield node.lineno, name
            case ast.Call(func=ast.Name(id="getattr" | "hasattr" | "setattr"), args=[_, ast.Constant(str(name)), *_]):
                yield node.lineno, name
            case ast.ImportFrom(module=str(module)) if not module.startswith("pytest_agentreplay"):
                yield from ((node.lineno, alias.name) for alias in node.names)


def unlinked(path, tree, own):
    """Return the private names of libraries that a module uses without a link beside the first use of each."""
    lines = (PACKAGE / path).read_text(encoding="utf-8").splitlines()
    linked = {}
    for line, name in private_uses(tree):
        if name.startswith("_") and not name.startswith("__") and name not in own | PUBLIC:
            beside = lines[max(0, line - 1 - ABOVE) : line + BELOW]
            linked[name] = linked.get(name, False) or any("https://" in text for text in beside)
    return sorted(name for name, has_link in linked.items() if not has_link)


@pytest.mark.parametrize("package", PACKAGES)
def test_a_link_stands_beside_what_is_private_in_a_library(package):
    own = own_names()
    found = {
        path: names
        for path, tree in trees().items()
        if path.startswith(package) and (names := unlinked(path, tree, own))
    }
    assert not found
