"""Data does not act: the package holds nothing that would make code, a class or a process of what a file says."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "pytest_agentreplay"
FILES = sorted(PACKAGE.rglob("*.py"))

MODULES = {"pickle", "cPickle", "_pickle", "marshal", "shelve", "dill", "cloudpickle", "jsonpickle", "joblib", "xmlrpc"}
CALLS = {"eval", "exec", "compile", "__import__", "execfile"}
LOADERS = {"load", "load_all", "full_load", "full_load_all", "unsafe_load", "unsafe_load_all"}
"""Names of PyYAML's that make objects of tags, unless a loader is given; ours are made by `yaml.safe_load`, or another way."""

ALLOWED = {("intercept/session/patching.py", "compile"): "its own text around a function that code has named"}
"""Where such a call stands, and of what."""

IMPORTERS = {
    "__init__.py": "from its own table of lazy names",
    "intercept/registry.py": "from its own table of boundaries",
    "intercept/tools/tool_paths.py": "from ini, marker or code",
    "cases_run/runners.py": "from ini alone; a case names a key of it",
}
"""Who may import by a name that is not written out, and where that name comes from."""


def found(tree: ast.AST) -> set[str]:
    """What in a module could make something act."""
    names: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=aliases):
                names |= {alias.name for alias in aliases if alias.name.partition(".")[0] in MODULES}
            case ast.ImportFrom(module=str(module)) if module.partition(".")[0] in MODULES:
                names.add(module)
            case ast.Call(func=ast.Name(id=name)) if name in CALLS:
                names.add(name)
            case ast.Call(func=ast.Attribute(value=ast.Name(id="yaml"), attr=name)) if name in LOADERS:
                names.add(f"yaml.{name}")
    return names


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.relative_to(PACKAGE).as_posix())
def test_nothing_acts(file: Path) -> None:
    place = file.relative_to(PACKAGE).as_posix()
    assert not {name for name in found(ast.parse(file.read_text(encoding="utf-8"))) if (place, name) not in ALLOWED}


def test_what_would_act_is_found() -> None:
    source = "import pickle\nfrom marshal import loads\neval('1')\nimport yaml\nyaml.load(x)\nyaml.safe_load(x)\n"
    assert found(ast.parse(source)) == {"pickle", "marshal", "eval", "yaml.load"}


def importing(tree: ast.AST) -> bool:
    """Whether a module imports by a name that it does not write out."""
    return any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute | ast.Name)
        and (node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id) == "import_module"
        and not (node.args and isinstance(node.args[0], ast.Constant))
        for node in ast.walk(tree)
    )


def test_only_known_rooms_import_by_name() -> None:
    there = {
        file.relative_to(PACKAGE).as_posix() for file in FILES if importing(ast.parse(file.read_text(encoding="utf-8")))
    }
    assert there <= IMPORTERS.keys(), "a name out of a file must never be imported"
