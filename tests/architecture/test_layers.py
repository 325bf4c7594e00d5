"""Which room may import which: only those above it in the table of docs/architecture.md, which holds the exact imports.

Every import counts, for types and inside functions too. Set AGENTREPLAY_WRITE_GOLDEN=1 to have the last column of the
table written anew.
"""

from __future__ import annotations

import ast
import functools
import os
import re
import sys
from dataclasses import dataclass

from tests.support.package_sources import NAME, ROOT, trees

PAGE = ROOT / "docs" / "architecture.md"
ROW = re.compile(r"^\| `(\w+)` \| (.*?) \|(.*)\|$", re.MULTILINE)
ADAPTERS = ("intercept", "snapshots.store", "traces", "cases", "report", "cli.demo")
"""What touches the world or another format, each on its own: they never import each other. Who joins two is above both."""
PYTEST_MODULES = ("plugin", "hookspec")
"""Where pytest is imported: the command line prints what the plugin prints without it."""
HOST_LIBRARIES = {"pytest", "_pytest", "pluggy", "syrupy"}
"""Libraries that are pytest, or load it."""
EXAMPLE = "cli.demo.shop"
"""The demo's project as it is laid out for the reader: an agent and its test, not ours to load."""
WITH_FOLDERS = ("intercept", "runs")
"""Large rooms, whose folders import each other in one direction."""
MOST_ROOMS = 15


@dataclass(frozen=True, slots=True)
class Import:
    """One import: by which module, of what, whether for types only, whether inside a function, and on which line."""

    by: str
    of: str
    typing: bool
    local: bool
    line: int

    def __str__(self) -> str:
        return f"{self.by}:{self.line} imports {self.of}"


def module_of(path: str) -> str:
    """Return the name of a module inside the package; a package is its own name, the public API "__init__"."""
    name = path.removesuffix(".py").replace("/", ".")
    return name.removesuffix(".__init__")


def room_of(module: str) -> str:
    return module.partition(".")[0]


def imports(module: str, tree: ast.AST) -> list[Import]:
    """Return every import statement in a module, wherever it stands."""
    statements: list[Import] = []

    def walk(nodes, *, typing: bool, local: bool) -> None:
        for node in nodes:
            if isinstance(node, ast.Import):
                statements.extend(Import(module, alias.name, typing, local, node.lineno) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{module}:{node.lineno}: imports are absolute"
                targets = [f"{node.module}.{alias.name}" for alias in node.names]
                statements.extend(Import(module, target, typing, local, node.lineno) for target in targets)
            elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
                walk(node.body, typing=True, local=local)
                walk(node.orelse, typing=typing, local=local)
            else:
                inside = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
                walk(ast.iter_child_nodes(node), typing=typing, local=local or inside)

    walk([tree], typing=False, local=False)
    return statements


@functools.cache
def modules() -> set[str]:
    """Return the names of all modules of the package."""
    return {module_of(path) for path in trees()}


@functools.cache
def package_imports() -> list[Import]:
    """Return every import statement of the package."""
    return [statement for path, tree in trees().items() for statement in imports(module_of(path), tree)]


def find_target(statement: Import) -> str | None:
    """Return the module of ours that an import names, or None."""
    if statement.of != NAME and not statement.of.startswith(f"{NAME}."):
        return None
    module = statement.of.removeprefix(NAME).removeprefix(".")
    while module and module not in modules():
        module = module.rpartition(".")[0]
    return module or "__init__"


@functools.cache
def internal_imports() -> list[tuple[Import, str]]:
    """Return the imports of our own modules, each with the module that it names."""
    return [(statement, target) for statement in package_imports() if (target := find_target(statement)) is not None]


def rooms_of_the_page() -> list[str]:
    """Return the rooms in the order of the table."""
    table = PAGE.read_text(encoding="utf-8").partition("<!-- rooms -->")[2].partition("<!-- /rooms -->")[0]
    return [row[1] for row in ROW.finditer(table)]


def test_a_room_imports_only_rooms_above_it():
    order = rooms_of_the_page()
    assert {room_of(module) for module in modules()} == {*order}, "each room and module of the top has a row"
    wrong = [
        str(statement)
        for statement, target in internal_imports()
        if order.index(room_of(target)) > order.index(room_of(statement.by))
    ]
    assert not wrong, "\n".join(wrong)


def test_there_are_few_rooms():
    assert len([path for path in (ROOT / NAME).iterdir() if path.is_dir() and path.name != "__pycache__"]) <= MOST_ROOMS


def test_the_table_holds_the_exact_imports():
    order = rooms_of_the_page()

    def row(match: re.Match[str]) -> str:
        room = match[1]
        used = {room_of(target) for statement, target in internal_imports() if room_of(statement.by) == room} - {room}
        names = ", ".join(f"`{name}`" for name in order if name in used)
        return f"| `{room}` | {match[2]} | {names or 'nothing'} |"

    page = PAGE.read_text(encoding="utf-8")
    before, begin, rest = page.partition("<!-- rooms -->")
    table, end, after = rest.partition("<!-- /rooms -->")
    exact = ROW.sub(row, table)
    if os.environ.get("AGENTREPLAY_WRITE_GOLDEN"):
        PAGE.write_text(f"{before}{begin}{exact}{end}{after}", encoding="utf-8", newline="\n")
    assert table == exact, "type: AGENTREPLAY_WRITE_GOLDEN=1 pytest tests/architecture/test_layers.py"


def test_the_journeys_of_the_page_name_functions_that_exist():
    page = PAGE.read_text(encoding="utf-8")
    journeys = re.findall(r"<!-- journey -->(.*?)<!-- /journey -->", page, re.DOTALL)
    steps = [step for journey in journeys for step in re.findall(r"^\| `([\w/]+\.py)` \| `([\w.]+)` \|", journey, re.M)]
    assert len(journeys) == 3
    assert len(steps) >= 30
    gone = [f"{path}: {name}" for path, name in steps if name not in definitions(path)]
    assert not gone, "\n".join(gone)


def definitions(path: str) -> set[str]:
    """Return the functions and classes of a module, and the methods as `Class.method`."""
    names = set()
    for node in trees()[path].body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            names |= {f"{node.name}.{inner.name}" for inner in node.body if isinstance(inner, ast.FunctionDef)}
    return names


def adapter_of(module: str) -> str | None:
    return next((name for name in ADAPTERS if f"{module}.".startswith(f"{name}.")), None)


def test_adapters_never_import_each_other():
    wrong = [
        str(statement)
        for statement, target in internal_imports()
        if (of := adapter_of(target)) and (by := adapter_of(statement.by)) and of != by
    ]
    assert not wrong, "\n".join(wrong)
    assert {adapter_of(module) for module in modules()} - {None} == {*ADAPTERS}


def test_pytest_is_imported_by_the_plugin_only():
    hosts = [statement for statement in package_imports() if room_of(statement.of) in HOST_LIBRARIES]
    wrong = [str(statement) for statement in hosts if room_of(statement.by) not in PYTEST_MODULES]
    assert not wrong, "\n".join(wrong)


def test_a_third_party_library_is_imported_where_it_is_used():
    """At the top of a module it costs everyone who loads that module; a module named for it is loaded for it alone."""
    wrong = []
    for statement in package_imports():
        library, room = room_of(statement.of), room_of(statement.by)
        known = library in {NAME, "__future__"} or library in sys.stdlib_module_names
        if known or statement.local or statement.typing or statement.by.startswith(EXAMPLE):
            continue
        named_for_it = library.rstrip("0123456789") in re.split(r"[._]", statement.by)
        if not named_for_it and not (room in PYTEST_MODULES and library in HOST_LIBRARIES):
            wrong.append(f"{statement}: import it inside the function that needs it")
    assert not wrong, "\n".join(wrong)


def test_no_circle_of_modules_and_none_of_the_folders_of_large_rooms():
    """Local imports count: a circle that works only because a function runs late is a circle."""
    edges: dict[str, set[str]] = {name: set() for name in modules()}
    folders: dict[str, set[str]] = {}
    for statement, target in internal_imports():
        if target in modules() and statement.by not in (target, "__init__"):
            edges[statement.by].add(target)
            by, of = (folder_of(name) for name in (statement.by, target))
            if by and of and by != of:
                folders.setdefault(by, set()).add(of)
    assert (circle := first_circle(edges)) is None, " -> ".join(circle or ())
    assert (circle := first_circle(folders)) is None, " -> ".join(circle or ())
    assert first_circle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]
    assert first_circle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) is None


def folder_of(module: str) -> str | None:
    """Return the folder that a module of a large room is in; None for all others."""
    room, _, rest = module.partition(".")
    folder = f"{room}.{rest.partition('.')[0]}"
    inside = room in WITH_FOLDERS and any(name.startswith(f"{folder}.") for name in modules())
    return folder if inside else None


def first_circle(edges: dict[str, set[str]]) -> list[str] | None:
    done: set[str] = set()

    def visit(name: str, path: list[str]) -> list[str] | None:
        if name in path:
            return [*path[path.index(name) :], name]
        if name in done:
            return None
        for target in sorted(edges.get(name, ())):
            if (circle := visit(target, [*path, name])) is not None:
                return circle
        done.add(name)
        return None

    return next((circle for name in sorted(edges) if (circle := visit(name, [])) is not None), None)


def test_no_module_is_a_drawer_for_leftovers():
    words = {"utils", "helpers", "common", "manager", "misc"}
    assert not [name for name in modules() if words & {*re.split(r"[._]", name)}]
