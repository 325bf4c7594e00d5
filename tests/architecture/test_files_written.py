"""Who touches the disk: `snapshots.store.files`, and a few modules that touch no file of a project."""

from __future__ import annotations

import ast
import re

from tests.support.package_sources import nodes_of, trees
from tests.support.tables import words

FOLDER = {"tempfile.TemporaryDirectory"}
WRITERS = {
    "snapshots/store/locks.py": FOLDER,  # ssh-keygen reads a signature from a file: a copy in a folder of its own
    "snapshots/store/git_revisions.py": FOLDER,  # an index of its own for git, beside the user's
    "snapshots/store/run_store.py": FOLDER,  # copies of captured runs that lie behind a URL, while a command reads them
    "cli/demo/shop/shop.py": {"LEDGER.open"},  # the refund tool writes the ledger that the demo shows to be untouched
    "cli/demo/local_model.py": {"replace"},  # the model's file, once it is whole
    "cli/demo/walk.py": {"write_text", "mkdir", "unlink"},  # the demo's folder, for the reader to go on by hand
    "runs/cases/command_agent.py": FOLDER,  # where a command writes its result, until its secrets are off
    "runs/credential_files.py": FOLDER,  # placeholders that SDKs read from files while a test is replayed
    "runs/command.py": FOLDER,  # what it asks of a pytest of its own, and what that reports, as in the next three
    "runs/live/lineup_cells.py": FOLDER,
    "plugin/own_processes.py": FOLDER | {"os.fdopen", "os.write"},  # and the pipe from a fork
    "runs/fuzz/plan.py": FOLDER,
    "redaction/packed.py": {"import zipfile"},  # an archive in memory, as in the next two
    "traces/opening.py": {"import zipfile"},
    "runs/case_files/bundling.py": {"import zipfile"},
    "cli/__init__.py": {"os.open", "os.O_WRONLY"},  # the null device, where nobody reads on
    "cli/accepting.py": FOLDER,  # what it asks of a pytest of its own, as in the next two
    "cli/fuzzing.py": FOLDER,
    "cli/snapshot_files.py": FOLDER,
    "cli/offline_pytest.py": FOLDER,  # what pytest writes besides, and its report
    "cli/mcp_server.py": {"os.fdopen"},  # stdout, which belongs to the protocol
    "cli/replaying.py": FOLDER,  # what live models of cases take
}
"""Who may touch the disk beside `snapshots/store/files.py`, and in which words."""
WRITES = {
    "os": words(
        "open fdopen replace rename renames remove unlink mkdir makedirs rmdir removedirs symlink link truncate ftruncate "
        "mkfifo mknod chmod chown utime write pwrite writev sendfile copy_file_range O_WRONLY O_RDWR O_CREAT O_APPEND "
        "O_TRUNC"
    ),
    "shutil": words(
        "copy copy2 copyfile copyfileobj copymode copystat copytree move rmtree chown make_archive unpack_archive"
    ),
    "tempfile": words(
        "NamedTemporaryFile TemporaryFile TemporaryDirectory SpooledTemporaryFile mkstemp mkdtemp mktemp"
    ),
    "io": {"open", "FileIO", "open_code"},
    "builtins": {"open"},
    "logging": {"FileHandler", "basicConfig"},
    "mmap": {"mmap"},
}
"""Library -> what it has that writes to the file system, or opens something for writing."""
KEEPERS = {"sqlite3", "shelve", "dbm", "zipfile", "tarfile", "fileinput", "logging.handlers"}
"""Libraries that write files whatever one does with them."""
PATH_WRITES = words("write_text write_bytes mkdir rmdir unlink touch symlink_to hardlink_to rename chmod")
OPENS = {"open", "fdopen", "FileIO"}


def writes(tree: ast.AST) -> list[tuple[int, str]]:
    """What writes to the file system, or is a way to it: (line, what)."""
    found = []
    imported = [alias for node in nodes_of(tree, ast.Import) for alias in node.names]
    library = {alias.asname or alias.name: alias.name for alias in imported}
    for node in nodes_of(tree, ast.Import, ast.ImportFrom, ast.Attribute, ast.Call):
        match node:
            case ast.Import(names):
                found += [(node.lineno, f"import {alias.name}") for alias in names if alias.name in KEEPERS]
            case ast.ImportFrom(str(module), names):
                found += [
                    (node.lineno, f"{module}.{alias.name}")
                    for alias in names
                    if not KEEPERS.isdisjoint({module, f"{module}.{alias.name}"})
                    or alias.name in WRITES.get(module, ())
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


def test_files_are_written_in_one_module_and_nobody_may_write_who_does_not():
    found = {path: writes(tree) for path, tree in trees().items() if path != "snapshots/store/files.py"}
    wrong = [
        f"{path}:{line} {what}"
        for path, there in found.items()
        for line, what in there
        if what not in WRITERS.get(path, ())
    ]
    assert not wrong, "\n".join(wrong)
    idle = [path for path, words in WRITERS.items() if words - {what for _, what in found[path]}]
    assert not idle, idle


def test_the_search_sees_writing_and_leaves_reading_alone():
    writing = (
        *("open(p, 'w')", "open(p, mode='ab')", "open(p, mode)", "p.open('x')", "p.open(mode='r+')", "io.open(p, 'w')"),
        *("import io as i; i.FileIO(p, 'w')", "gzip.open(p, 'wb')", "p.write_text('')", "p.touch()", "p.replace(q)"),
        *("os.replace(a, b)", "partial(os.replace, a, b)", "from os import replace", "p.unlink()", "import sqlite3"),
        *("import os as system; system.unlink(p)", "os.open(p, os.O_RDWR)", "posix_open(p, os.O_WRONLY | os.O_CREAT)"),
        *("tempfile.mkdtemp()", "from tempfile import NamedTemporaryFile", "shutil.rmtree(p)"),
        *("from shutil import copyfile", "from logging.handlers import RotatingFileHandler", "logging.FileHandler(p)"),
        "from logging import handlers",
    )
    reading = (
        *("open(p)", "open(p, 'rb')", "p.open()", "p.open('rb')", "text.replace('a', 'b')", "replace(run, header=h)"),
        *("dataclasses.replace(run, header=h)", "p.read_text()", "os.lstat(p)", "shutil.get_terminal_size()"),
        *("self.open(host)", "import logging"),
    )
    assert [source for source in (*writing, *reading) if writes(ast.parse(source))] == [*writing]
