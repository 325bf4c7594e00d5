"""Which package may import which: the table below, read against every import of the package, type-only and local ones too."""

from __future__ import annotations

import ast
import re
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "pytest_agentreplay"
NAME = "pytest_agentreplay"

PURE = ("core", "dialects", "codec", "errors")
ADAPTERS = ("intercept", "store", "interchange", "cases", "report")
APPLICATION = ("redact", "runs", "cases_run", "case_files", "project_setup")
LAYERS: dict[str, tuple[str, ...]] = {
    "errors": (),
    "clocks": (),
    "core": ("errors",),
    "dialects": ("core", "errors"),
    "codec": ("core", "errors"),
    "policies": PURE,
    "intercept": (*PURE, "clocks"),
    "store": (*PURE, "clocks"),
    "interchange": PURE,
    "cases": PURE,
    "report": PURE,
    "demo": PURE,
    "settings": ("core", "errors"),
    "hookspec": ("core", "errors", "settings"),
    "plugins": ("intercept",),
    "redact": (*PURE, "clocks", "policies", *ADAPTERS, "settings"),
    "runs": (*PURE, "clocks", "policies", *ADAPTERS, "settings", "hookspec", "redact"),
    "cases_run": (*PURE, "clocks", "policies", *ADAPTERS, "settings", "redact", "runs"),
    "case_files": (*PURE, "clocks", "policies", *ADAPTERS, "settings", "redact", "runs", "cases_run"),
    "project_setup": (*PURE, "clocks", *ADAPTERS, "settings"),
    "transcript": (*PURE, "cases", "report"),
    "collect": (*PURE, *APPLICATION, "cases", "report", "settings"),
    "conftests": (*PURE, "cases"),
    "plugin": (*PURE, *APPLICATION, *ADAPTERS, "collect", "conftests", "hookspec", "settings", "transcript"),
    "cli": (*PURE, "policies", *APPLICATION, *ADAPTERS, "conftests", "demo", "settings"),
    "__main__": ("cli",),
    "__init__": (*PURE, "intercept", "cases", "store"),
}
"""Package -> the other packages it may import; each may import itself. `__init__` is the public API, a table of names."""

SEPARATE = (*ADAPTERS, "demo")
"""Packages that never import each other."""

JOINERS: dict[str, str] = {
    "redact": "redacts what exists: runs, snapshots, traces",
    "runs": "one test from its settings to its finding",
    "cases_run": "one case from its file to its verdicts",
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

WRITERS: dict[str, tuple[set[str], str]] = {
    "store.signatures": (
        {"tempfile.TemporaryDirectory"},
        "ssh-keygen reads a signature from a file: a copy in a folder of its own",
    ),
    "demo.shop.shop": ({"LEDGER.open"}, "the refund tool writes the ledger that the demo shows to be untouched"),
    "demo.walk": ({"write_text", "mkdir", "unlink"}, "the demo's folder, laid out for the reader to go on by hand"),
    "cases_run.command_agent": (
        {"tempfile.TemporaryDirectory"},
        "where a command writes its result, until that is read and its secrets are off",
    ),
    "runs.proof_process": (
        {"tempfile.TemporaryDirectory"},
        "what it asks of a pytest of its own, and what that reports",
    ),
    "core.redaction.packed": (
        {"import zipfile"},
        "reads an archive that it holds in memory, and makes it anew there",
    ),
    "interchange.opening": ({"import zipfile"}, "reads an archive that it holds in memory"),
    "interchange.archives": ({"import zipfile"}, "makes an archive in memory"),
    "case_files.bundling": ({"import zipfile"}, "reads the archive of a bundle that it holds in memory"),
    "cli": ({"os.open", "os.O_WRONLY"}, "the null device, where nobody reads on"),
    "cli.accepting": ({"tempfile.TemporaryDirectory"}, "what it asks of a pytest of its own"),
    "cli.exploring": ({"tempfile.TemporaryDirectory"}, "what it asks of a pytest of its own, and what that tells"),
    "cli.leftovers": ({"tempfile.TemporaryDirectory"}, "what a pytest of its own tells"),
}
"""Who may touch the disk beside `store.files`, in which words, and why; none of them touches a file of a project."""


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


def modules() -> dict[str, Path]:
    """Every module of the package by its name inside it ("core.model"; a package is its own name; the public API "__init__")."""
    found = {}
    for file in sorted(PACKAGE.rglob("*.py")):
        parts = file.relative_to(PACKAGE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)] = file
    return found


def package_of(module: str) -> str:
    return module.partition(".")[0]


def imports(module: str, tree: ast.AST) -> list[Import]:
    """Every import statement in a module, wherever it stands; names of ours are resolved to modules."""
    found: list[Import] = []

    def add(node: ast.Import | ast.ImportFrom, *, typing: bool, local: bool) -> None:
        if isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        else:
            assert node.level == 0, f"{module}:{node.lineno}: imports are absolute"
            targets = [f"{node.module}.{alias.name}" for alias in node.names]
        found.extend(Import(module, target, typing, local, node.lineno) for target in targets)

    def walk(node: ast.AST, *, typing: bool, local: bool) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import | ast.ImportFrom):
                add(child, typing=typing, local=local)
            elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
                for inner in child.body:
                    walk(ast.Module([inner], []), typing=True, local=local)
                for inner in child.orelse:
                    walk(ast.Module([inner], []), typing=typing, local=local)
            else:
                inside = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
                walk(child, typing=typing, local=local or inside)

    walk(tree, typing=False, local=False)
    return found


MODULES = modules()
TREES = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in MODULES.items()}
IMPORTS = [found for name, tree in TREES.items() for found in imports(name, tree)]


def ours(found: Import) -> str | None:
    """The module of ours that an import names, or None."""
    if found.of != NAME and not found.of.startswith(f"{NAME}."):
        return None
    path = found.of.removeprefix(NAME).removeprefix(".")
    if package_of(path) not in MODULES and package_of(path) in LAYERS:
        return package_of(path)
    while path and path not in MODULES:
        path = path.rpartition(".")[0]
    return path or "__init__"


def test_every_package_is_in_the_table():
    assert {package_of(name) for name in MODULES} <= set(LAYERS), (
        "a new package needs a row in LAYERS and in docs/architecture.md"
    )


def test_packages_import_only_what_their_row_names():
    wrong = []
    for found in IMPORTS:
        target = ours(found)
        if (
            target is not None
            and package_of(target) != package_of(found.by)
            and package_of(target) not in LAYERS[package_of(found.by)]
        ):
            wrong.append(
                f"{found}: {package_of(found.by)} may import {', '.join(LAYERS[package_of(found.by)]) or 'nothing of ours'}"
            )
    assert not wrong, "\n".join(wrong)


def test_nothing_imports_an_entry_point():
    wrong = [
        str(found)
        for found in IMPORTS
        if package_of(ours(found) or "") in {"plugin", "cli"}
        and package_of(found.by) not in {package_of(ours(found) or ""), "__main__"}
    ]
    assert not wrong, "\n".join(wrong)


def test_adapters_never_import_each_other():
    for package in SEPARATE:
        assert not set(LAYERS[package]) & set(SEPARATE), f"{package} names another adapter in its row"
    joining = {name for name, row in LAYERS.items() if len(set(row) & set(SEPARATE)) > 1}
    assert joining <= set(JOINERS), "whoever joins adapters says why in JOINERS"


def test_pytest_is_imported_by_the_pytest_packages_only():
    wrong = [
        str(f) for f in IMPORTS if f.of.partition(".")[0] in HOST_LIBRARIES and package_of(f.by) not in PYTEST_PACKAGES
    ]
    assert not wrong, "\n".join(wrong)


def third_party(found: Import) -> str | None:
    top = found.of.partition(".")[0]
    return None if top in (NAME, "__future__") or top in sys.stdlib_module_names else top


def test_a_third_party_library_is_imported_where_it_is_used():
    """At the top of a module it costs everyone who loads that module; its own patch module is loaded for it alone."""
    wrong = []
    for found in IMPORTS:
        library = third_party(found)
        if library is None or found.local or found.typing or found.by.startswith(EXAMPLE):
            continue
        own_file = package_of(found.by) == "intercept" and library.rstrip("0123456789") in found.by.replace(
            "_", "."
        ).split(".")
        of_pytest = package_of(found.by) in PYTEST_PACKAGES and library in HOST_LIBRARIES
        if not own_file and not of_pytest:
            wrong.append(f"{found}: import it inside the function that needs it")
    assert not wrong, "\n".join(wrong)


def test_no_circle():
    """Local imports count: a circle that works only because a function runs late is a circle."""
    edges: dict[str, set[str]] = {name: set() for name in MODULES}
    for found in IMPORTS:
        target = ours(found)
        if target not in MODULES or found.by in (target, "__init__"):
            continue
        edges[found.by].add(target)
    assert (circle := first_circle(edges)) is None, " -> ".join(circle or ())


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


def test_the_circle_search_sees_circles():
    assert first_circle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]
    assert first_circle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) is None


@pytest.mark.parametrize("word", ["utils", "helpers", "common", "manager", "misc"])
def test_no_drawer_for_leftovers(word):
    assert not [name for name in MODULES if word in re.split(r"[._]", name)]


WRITES = {
    "os": {
        "open", "fdopen", "replace", "rename", "renames", "remove", "unlink", "mkdir", "makedirs", "rmdir", "removedirs",
        "symlink", "link", "truncate", "ftruncate", "mkfifo", "mknod", "chmod", "chown", "utime", "write", "pwrite",
        "writev", "sendfile", "copy_file_range", "O_WRONLY", "O_RDWR", "O_CREAT", "O_APPEND", "O_TRUNC",
    },
    "shutil": {
        "copy", "copy2", "copyfile", "copyfileobj", "copymode", "copystat", "copytree", "move", "rmtree", "chown",
        "make_archive", "unpack_archive",
    },
    "tempfile": {
        "NamedTemporaryFile", "TemporaryFile", "TemporaryDirectory", "SpooledTemporaryFile", "mkstemp", "mkdtemp", "mktemp",
    },
    "io": {"open", "FileIO", "open_code"},
    "builtins": {"open"},
    "logging": {"FileHandler", "basicConfig"},
    "mmap": {"mmap"},
}  # fmt: skip
"""Library -> what it has that writes to the file system, or opens something for writing."""
KEEPERS = {"sqlite3", "shelve", "dbm", "zipfile", "tarfile", "fileinput", "logging.handlers"}
"""Libraries that write files whatever one does with them."""
PATH_WRITES = {
    "write_text", "write_bytes", "mkdir", "rmdir", "unlink", "touch", "symlink_to", "hardlink_to", "rename", "chmod",
}  # fmt: skip
OPENS = {"open", "fdopen", "FileIO"}


def writes(tree: ast.AST) -> list[tuple[int, str]]:
    """What writes to the file system, or is a way to it: (line, what)."""
    found = []
    imported = [alias for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    library = {alias.asname or alias.name: alias.name for alias in imported}
    for node in ast.walk(tree):
        match node:
            case ast.Import(names):
                found += [(node.lineno, f"import {alias.name}") for alias in names if alias.name in KEEPERS]
            case ast.ImportFrom(str(module), names):
                whole = module if module in KEEPERS else None
                found += [
                    (node.lineno, f"{module}.{alias.name}")
                    for alias in names
                    if whole or f"{module}.{alias.name}" in KEEPERS or alias.name in WRITES.get(module, ())
                ]
            case ast.Attribute(ast.Name(owner), name) if name in WRITES.get(library.get(owner, owner), ()):
                found.append((node.lineno, f"{library.get(owner, owner)}.{name}"))
            case ast.Call(ast.Attribute(_, "replace"), [_], []):  # of a path; that of a text takes two words
                found.append((node.lineno, "replace"))
            case ast.Call(ast.Attribute(_, name)) if name in PATH_WRITES:
                found.append((node.lineno, name))
            case ast.Call(ast.Name(name) | ast.Attribute(_, name)) if name in OPENS and for_writing(node):
                found.append((node.lineno, ast.unparse(node.func)))
    return found


def for_writing(call: ast.Call) -> bool:
    """Whether something is opened with a mode that writes, or with one that nobody can read off the line."""
    modes = [*call.args, *(key.value for key in call.keywords if key.arg == "mode")]
    texts = [mode.value for mode in modes if isinstance(mode, ast.Constant) and isinstance(mode.value, str)]
    if any(re.fullmatch(r"[rwxabt+]{1,4}", text) and set(text) & set("wxa+") for text in texts):
        return True
    second = call.args[1:2] if isinstance(call.func, ast.Name) else []
    return any(not isinstance(mode, ast.Constant) for mode in [*second, *modes[len(call.args) :]])


def test_files_are_written_in_one_module():
    wrong = [
        f"{name}:{line} {what}: only store.files touches the disk"
        for name, tree in TREES.items()
        if name != "store.files"
        for line, what in writes(tree)
        if what not in WRITERS.get(name, (set(), ""))[0]
    ]
    assert not wrong, "\n".join(wrong)


def test_nobody_may_write_who_does_not():
    idle = [
        f"{name}: {what}"
        for name, (words, _) in WRITERS.items()
        for what in words - {w for _, w in writes(TREES[name])}
    ]
    assert not idle, idle


@pytest.mark.parametrize(
    "source",
    [
        "open(p, 'w')",
        "open(p, mode='ab')",
        "open(p, mode)",
        "p.open('x')",
        "p.open(mode='r+')",
        "io.open(p, 'w')",
        "import io as i; i.FileIO(p, 'w')",
        "gzip.open(p, 'wb')",
        "p.write_text('')",
        "p.touch()",
        "p.replace(q)",
        "os.replace(a, b)",
        "partial(os.replace, a, b)",
        "from os import replace",
        "import os as system; system.unlink(p)",
        "os.open(p, os.O_RDWR)",
        "posix_open(p, os.O_WRONLY | os.O_CREAT)",
        "tempfile.mkdtemp()",
        "from tempfile import NamedTemporaryFile",
        "shutil.rmtree(p)",
        "from shutil import copyfile",
        "import sqlite3",
        "from logging.handlers import RotatingFileHandler",
        "from logging import handlers",
        "logging.FileHandler(p)",
        "p.unlink()",
    ],
)
def test_the_search_sees_writing(source):
    assert writes(ast.parse(source))


@pytest.mark.parametrize(
    "source",
    [
        "open(p)",
        "open(p, 'rb')",
        "p.open()",
        "p.open('rb')",
        "text.replace('a', 'b')",
        "replace(run, header=h)",
        "dataclasses.replace(run, header=h)",
        "p.read_text()",
        "os.lstat(p)",
        "shutil.get_terminal_size()",
        "self.open(host)",
        "import logging",
    ],
)
def test_the_search_leaves_reading_alone(source):
    assert not writes(ast.parse(source))


def test_the_table_in_the_docs_is_this_one():
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows: dict[str, tuple[str, ...]] = {}
    table = text.partition("<!-- layers -->")[2].partition("<!-- /layers -->")[0]
    for line in table.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        names = re.findall(r"`([a-z_]+)`", cells[0])
        for name in names:
            rows[name] = tuple(re.findall(r"`([a-z_]+)`", cells[1]))
    assert {name: set(row) for name, row in rows.items()} == {name: set(row) for name, row in LAYERS.items()}
