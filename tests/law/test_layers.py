"""Who may know whom: the table below, read against every import of the package, type-only and local ones too."""

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
WINGS_OF_THE_HALL = ("intercept", "store", "interchange", "cases", "report")
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
    "workflow": (*PURE, "clocks", "policies", *WINGS_OF_THE_HALL, "settings", "hookspec"),
    "transcript": (*PURE, "cases", "report"),
    "collect": (*PURE, "workflow", "cases", "report", "settings"),
    "conftests": (*PURE, "cases"),
    "plugin": (*PURE, "workflow", *WINGS_OF_THE_HALL, "collect", "conftests", "hookspec", "settings", "transcript"),
    "cli": (*PURE, "policies", "workflow", *WINGS_OF_THE_HALL, "conftests", "demo", "settings"),
    "__main__": ("cli",),
    "__init__": (*PURE, "intercept", "cases", "store"),
}
"""Room -> the other rooms it may import. A room may always import itself. `__init__` is the face: its row is its table of names."""

WINGS = (*WINGS_OF_THE_HALL, "demo")

JOINERS: dict[str, str] = {
    "workflow": "the hall: one test from settings to finding, and what a person takes afterwards",
    "cli": "door 2: every verb hands over to a wing",
    "transcript": "the extension prints (report) what a test holds (cases)",
    "collect": "pytest items of case files, with their findings",
    "plugin": "door 1: hands pytest's facts to the hall, and its findings (report) back",
    "__init__": "the face: a table of names; nothing is joined, each is loaded when it is asked for",
}
"""Who may import from more than one wing, and why."""

PYTEST_ROOMS = {"plugin", "collect", "conftests", "transcript", "hookspec"}
HOST_LIBRARIES = {"pytest", "_pytest", "pluggy", "syrupy"}
"""Libraries that are pytest, or load it."""

WRITERS: dict[str, tuple[set[str], str]] = {
    "store.signatures": (
        {"tempfile.TemporaryDirectory"},
        "ssh-keygen reads a signature from a file: a copy in a folder of its own",
    ),
    "demo.shop.shop": ({"LEDGER.open"}, "the refund tool writes the ledger that the demo shows to be untouched"),
    "demo.walk": ({"write_text", "mkdir", "unlink"}, "the demo's folder, laid out for the reader to go on by hand"),
    "workflow.outside": (
        {"tempfile.TemporaryDirectory"},
        "where a command writes its result, until that is read and its secrets are off",
    ),
    "workflow.fresh": ({"tempfile.TemporaryDirectory"}, "what it asks of a pytest of its own, and what that reports"),
    "core.redaction.archives": (
        {"import zipfile"},
        "reads an archive that it holds in memory, and makes it anew there",
    ),
    "interchange.opening": ({"import zipfile"}, "reads an archive that it holds in memory"),
    "interchange.archives": ({"import zipfile"}, "makes an archive in memory"),
    "workflow.bundling": ({"import zipfile"}, "reads the archive of a bundle that it holds in memory"),
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
    """Every module of the package by its name inside it ("core.model"; a package is its own name; the face "__init__")."""
    found = {}
    for file in sorted(PACKAGE.rglob("*.py")):
        parts = file.relative_to(PACKAGE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)] = file
    return found


def room(module: str) -> str:
    return module.partition(".")[0]


def imports(module: str, tree: ast.AST) -> list[Import]:
    """Every import statement in a module, wherever it stands; names of ours are resolved to modules."""
    found: list[Import] = []

    def add(node: ast.Import | ast.ImportFrom, *, typing: bool, local: bool) -> None:
        if isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        else:
            assert node.level == 0, f"{module}:{node.lineno}: imports are absolute in this house"
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
    if room(path) not in MODULES and room(path) in LAYERS:
        return room(path)
    while path and path not in MODULES:
        path = path.rpartition(".")[0]
    return path or "__init__"


def test_every_room_stands_in_the_table():
    assert {room(name) for name in MODULES} <= set(LAYERS), (
        "a new room needs a row in LAYERS and in docs/architecture.md"
    )


def test_rooms_import_only_what_their_row_names():
    wrong = []
    for found in IMPORTS:
        target = ours(found)
        if target is not None and room(target) != room(found.by) and room(target) not in LAYERS[room(found.by)]:
            wrong.append(
                f"{found}: {room(found.by)} may import {', '.join(LAYERS[room(found.by)]) or 'nothing of ours'}"
            )
    assert not wrong, "\n".join(wrong)


def test_nothing_imports_a_door():
    wrong = [
        str(found)
        for found in IMPORTS
        if room(ours(found) or "") in {"plugin", "cli"} and room(found.by) not in {room(ours(found) or ""), "__main__"}
    ]
    assert not wrong, "\n".join(wrong)


def test_wings_never_meet_in_a_wing():
    for wing in WINGS:
        assert not set(LAYERS[wing]) & set(WINGS), f"{wing} names another wing in its row"
    joining = {name for name, row in LAYERS.items() if len(set(row) & set(WINGS)) > 1}
    assert joining <= set(JOINERS), "whoever joins wings says why in JOINERS"


def test_pytest_is_imported_at_its_doors_only():
    wrong = [str(f) for f in IMPORTS if f.of.partition(".")[0] in HOST_LIBRARIES and room(f.by) not in PYTEST_ROOMS]
    assert not wrong, "\n".join(wrong)


def third_party(found: Import) -> str | None:
    top = found.of.partition(".")[0]
    return None if top in (NAME, "__future__") or top in sys.stdlib_module_names else top


def test_a_third_party_library_is_imported_where_it_is_used():
    """At the top of a module it costs everyone who loads that module; its own boundary file is loaded for it alone."""
    wrong = []
    for found in IMPORTS:
        library = third_party(found)
        if library is None or found.local or found.typing or found.by.startswith(EXAMPLE):
            continue
        own_file = room(found.by) == "intercept" and library.rstrip("0123456789") in found.by.replace("_", ".").split(
            "."
        )
        at_door = room(found.by) in PYTEST_ROOMS and library in HOST_LIBRARIES
        if not own_file and not at_door:
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


def test_files_are_written_in_one_room():
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
