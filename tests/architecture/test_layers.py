"""Which package may import which, as docs/architecture.md says: read against every import, type-only and local ones too."""

from __future__ import annotations

import ast
import functools
import re
import sys
from dataclasses import dataclass

from tests.support.package_sources import NAME, ROOT, trees


def table_of_the_page() -> dict[str, set[str]]:
    """Package -> the other packages it may import; each may import itself."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = page.partition("<!-- layers -->")[2].partition("<!-- /layers -->")[0]
    rows = (line.strip("|").split("|") for line in table.splitlines() if line.startswith("| `"))
    return {re.search(r"`(\w+)`", cells[0])[1]: {*re.findall(r"`(\w+)`", cells[1])} for cells in rows}


LAYERS = table_of_the_page()
SEPARATE = {"intercept", "store", "interchange", "cases", "report", "demo"}
"""Packages that never import each other."""
JOINERS = {
    "redact": "redacts what exists: runs, snapshots, traces",
    "runs": "one test from its settings to its finding",
    "capture": "one run of a service from its first call to its file",
    "cassettes": "a played cassette from the request of today to the report, and to a snapshot",
    "captured_runs": "captured runs from their store to their groups",
    "fuzz": "a run, its replay and what its agent did on neighbours of it",
    "cases_run": "one case from its file to its verdicts",
    "live": "live runs of tests and cases, and what they prove",
    "pages": "from the files of a project to pages that show runs",
    "case_files": "the files of a case, from a trace or a run",
    "project_setup": "the settings and files that a project needs",
    "cli": "every verb hands over to one of the application packages",
    "transcript": "the syrupy extension prints (report) what a test holds (cases)",
    "collect": "pytest items of case files, with their findings",
    "plugin": "hands pytest's facts to the application packages, and their findings (report) back",
    "__init__": "a table of names, each loaded when it is asked for",
}
"""Who may import more than one of the separate packages, and why."""
PYTEST_PACKAGES = {"plugin", "collect", "conftests", "transcript", "hookspec"}
HOST_LIBRARIES = {"pytest", "_pytest", "pluggy", "syrupy"}
"""Libraries that are pytest, or load it."""
EXAMPLE = "demo.shop"
"""The demo's project as it is laid out for the reader: an agent and its test, not ours to load."""


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
    """The name of a module inside the package: "core.model"; a package is its own name, the public API "__init__"."""
    name = path.removesuffix(".py").replace("/", ".")
    return name.removesuffix(".__init__")


def package_of(module: str) -> str:
    return module.partition(".")[0]


def imports(module: str, tree: ast.AST) -> list[Import]:
    """Every import statement in a module, wherever it stands."""
    found: list[Import] = []

    def walk(nodes, *, typing: bool, local: bool) -> None:
        for node in nodes:
            if isinstance(node, ast.Import):
                found.extend(Import(module, alias.name, typing, local, node.lineno) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{module}:{node.lineno}: imports are absolute"
                targets = [f"{node.module}.{alias.name}" for alias in node.names]
                found.extend(Import(module, target, typing, local, node.lineno) for target in targets)
            elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
                walk(node.body, typing=True, local=local)
                walk(node.orelse, typing=typing, local=local)
            else:
                inside = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
                walk(ast.iter_child_nodes(node), typing=typing, local=local or inside)

    walk([tree], typing=False, local=False)
    return found


@functools.cache
def modules() -> set[str]:
    """Every module of the package."""
    return {module_of(path) for path in trees()}


@functools.cache
def package_imports() -> list[Import]:
    """Every import statement of the package."""
    return [found for path, tree in trees().items() for found in imports(module_of(path), tree)]


def ours(found: Import) -> str | None:
    """The module of ours that an import names, or None."""
    if found.of != NAME and not found.of.startswith(f"{NAME}."):
        return None
    module = found.of.removeprefix(NAME).removeprefix(".")
    while module and module not in modules():
        module = module.rpartition(".")[0]
    return module or "__init__"


def test_packages_import_only_what_their_row_names():
    assert {package_of(module) for module in modules()} <= LAYERS.keys(), "a new package needs a row"
    between = [(found, package_of(target)) for found in package_imports() if (target := ours(found)) is not None]
    wrong = [str(found) for found, to in between if to not in LAYERS[package_of(found.by)] | {package_of(found.by)}]
    assert not wrong, "\n".join(wrong)


def test_the_table_keeps_adapters_apart_and_lets_nobody_import_an_entry_point():
    for package in SEPARATE:
        assert not LAYERS[package] & SEPARATE, f"{package} names another adapter in its row"
    joining = {name for name, row in LAYERS.items() if len(row & SEPARATE) > 1}
    assert joining <= JOINERS.keys(), "whoever joins adapters says why in JOINERS"
    assert [name for name, row in LAYERS.items() if row & {"plugin", "cli"}] == ["__main__"]
    assert not LAYERS["errors"]


def test_pytest_is_imported_by_the_pytest_packages_only():
    hosts = [found for found in package_imports() if package_of(found.of) in HOST_LIBRARIES]
    wrong = [str(found) for found in hosts if package_of(found.by) not in PYTEST_PACKAGES]
    assert not wrong, "\n".join(wrong)


def test_a_third_party_library_is_imported_where_it_is_used():
    """At the top of a module it costs everyone who loads that module; its own patch module is loaded for it alone."""
    wrong = []
    for found in package_imports():
        library, package = package_of(found.of), package_of(found.by)
        known = library in {NAME, "__future__"} or library in sys.stdlib_module_names
        if known or found.local or found.typing or found.by.startswith(EXAMPLE):
            continue
        patch = package == "intercept" and library.rstrip("0123456789") in re.split(r"[._]", found.by)
        if not patch and not (package in PYTEST_PACKAGES and library in HOST_LIBRARIES):
            wrong.append(f"{found}: import it inside the function that needs it")
    assert not wrong, "\n".join(wrong)


def test_no_circle():
    """Local imports count: a circle that works only because a function runs late is a circle."""
    edges: dict[str, set[str]] = {name: set() for name in modules()}
    for found in package_imports():
        if (target := ours(found)) in modules() and found.by not in (target, "__init__"):
            edges[found.by].add(target)
    assert (circle := first_circle(edges)) is None, " -> ".join(circle or ())
    assert first_circle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]
    assert first_circle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) is None


def first_circle(edges: dict[str, set[str]]) -> list[str] | None:
    done: set[str] = set()

    def visit(name: str, path: list[str]) -> list[str] | None:
        if name in path:
            return [*path[path.index(name) :], name]
        if name in done:
            return None
        for target in sorted(edges[name]):
            if (circle := visit(target, [*path, name])) is not None:
                return circle
        done.add(name)
        return None

    return next((circle for name in sorted(edges) if (circle := visit(name, [])) is not None), None)


def test_no_module_is_a_drawer_for_leftovers():
    words = {"utils", "helpers", "common", "manager", "misc"}
    assert not [name for name in modules() if words & {*re.split(r"[._]", name)}]
