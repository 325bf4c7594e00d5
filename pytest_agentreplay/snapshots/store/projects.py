"""Which project a file belongs to, and the ids of its tests.

The id of a test in its snapshot is relative to the nearest folder that configures pytest, whatever pytest's root is.

In a monorepo the root depends on what is typed: `pytest` in `repo` has the root `repo`, and `pytest packages/shop` has
the root `repo/packages/shop` where that folder configures pytest, too. One snapshot serves both, because it states
`tests/test_a.py::test_x` in both. Snapshots that state the id relative to another of these roots are accepted as well.

Of its other files: which tests one defines, read from its text, and the hashes of those that a run depends on.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import os
import shlex
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.errors import SettingsError, SnapshotError, SnapshotUnreadable
from pytest_agentreplay.snapshots.store import files, format_path, layout
from pytest_agentreplay.snapshots.store.layout import PRIVATE, names_test

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

# Files that make a folder pytest's root -> their tables for it; the first that has one counts, or is named for it.
# In the order of https://docs.pytest.org/en/stable/reference/customize.html#finding-the-rootdir
TABLES = {
    **dict.fromkeys(("pytest.toml", ".pytest.toml", "pytest.ini", ".pytest.ini"), ("pytest",)),
    "pyproject.toml": ("tool.pytest.ini_options", "tool.pytest"),
    "tox.ini": ("pytest",),
    "setup.cfg": ("tool:pytest",),
}
# What pytest takes for a yes; `true` of TOML is among them.
TRUE = {"1", "true", "t", "yes", "y", "on"}
# What makes a folder the root where nothing configures pytest.
BEGINS = ("pyproject.toml", "setup.py", ".git")


def root_above(folder: Path) -> Path:
    """Return the folder that pytest takes for its root when it is started in `folder` (absolute), as far as known."""
    above = (folder, *folder.parents)
    # Our own folder says where a recording was made, whatever was typed then.
    ours = next((up for up in above if (up / PRIVATE).is_dir() or configures(up)), None)
    return ours or next((up for up in above if any((up / name).exists() for name in BEGINS)), folder)


def configures(folder: Path) -> bool:
    """Return whether `folder` holds a configuration of pytest."""
    return configuration(folder) is not None


def configuration(folder: Path) -> tuple[str, str] | None:
    """Return name and text of the file in `folder` that configures pytest; None where there is none."""
    for name, tables in TABLES.items():
        try:
            text = (folder / name).read_text(encoding="utf-8")
        except (OSError, ValueError):  # no text; no name that a system takes: a snapshot of a stranger's may state any
            continue
        if name.endswith(("pytest.toml", "pytest.ini")) or any(f"[{table}]" in text for table in tables):
            return name, text
    return None


def ini_value(root: Path, key: str) -> str | None:
    """Return what pytest's configuration in `root` says under `key`.

    None where it is silent, or pytest cannot read it.
    """
    value = read_settings(root)[0].get(key)
    return value if isinstance(value, str) else None


def ini_lines(root: Path, key: str) -> tuple[list[str], str]:
    """Return the lines of a key that takes several, and the file in which they stand."""
    values, file = read_settings(root)
    return lines_of(values.get(key), key), file


def ini_table(root: Path, types: Mapping[str, str]) -> tuple[dict[str, Any], str]:
    """Return the values of keys by their types in pytest (linelist, bool or string), and the file that has them."""
    values, file = read_settings(root)
    return {key: convert_value(value, types[key], key) for key, value in values.items() if key in types}, file


def convert_value(value: object, kind: str, key: str) -> list[str] | bool | str:
    """Return what a file says under `key` as pytest would, for a key of that type."""
    if kind == "linelist":
        return lines_of(value, key)
    return str(value).strip().lower() in TRUE if kind == "bool" else str(value)


def lines_of(value: object, key: str) -> list[str]:
    """Return the lines of a value that takes several; those of `pythonpath` may share a line."""
    if isinstance(value, str):
        value = shlex.split(value) if key == "pythonpath" else value.splitlines()
    lines = map(str, value) if isinstance(value, list) else ()
    return [line.strip() for line in lines if line.strip()]


def read_settings(root: Path) -> tuple[dict[str, Any], str]:
    """Return what pytest's configuration in `root` says, and its file; no values where pytest cannot read it."""
    name, text = configuration(root) or ("", "")
    file = root / name
    try:
        tables = [read_table(file, text, table) or {} for table in TABLES.get(name, ())]
    except SettingsError:
        tables = []
    return {key: value for values in reversed(tables) for key, value in values.items()}, str(file) if name else ""


def read_table(file: Path, text: str, table: str) -> dict[str, Any] | None:
    """Return the values below a table or section; None where there is none. Raises SettingsError for invalid text."""
    if file.suffix == ".toml":
        value: Any = read_toml(file, text)
        for name in table.split("."):
            value = value.get(name) if isinstance(value, dict) else None
        return value if isinstance(value, dict) else None
    from iniconfig import IniConfig, ParseError  # pytest's own parser, and a requirement of pytest

    try:
        parsed = IniConfig(str(file), data=text)
    except ParseError as error:
        raise SettingsError(f"{format_path(file)}: line {error.lineno + 1}: {error.msg}") from None
    return dict(parsed[table].items()) if table in parsed else None


def read_toml(file: Path, text: str) -> dict[str, Any]:
    """Return the values of a TOML file. Raises SettingsError for invalid text."""
    import tomllib

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{format_path(file)}: {error}") from None


def is_file(path: Path) -> bool:
    """Return whether a file stands at `path`; none does where no system takes the name, for which `Path` raises."""
    return os.path.isfile(path)  # noqa: PTH113


def file_of_test(file: Path, nodeid: str) -> tuple[Path, Path]:
    """Return the root of the project and the test's file, for the test `nodeid` that the snapshot `file` names.

    The file need not be there any more. Raises SnapshotUnreadable for a name that no test has: it would be taken for
    a flag, or lead out of the project.
    """
    if not names_test(nodeid):
        raise SnapshotUnreadable(f"{nodeid!r:.80} is no test of this project", file=format_path(file), place="header")
    module = nodeid.partition("::")[0]
    for up in file.parents:
        if is_file(up / module) and file.is_relative_to((up / module).parent):
            return up, up / module
    root = root_above(file.parent)
    return root, root / module


def snapshot_id(root: Path, nodeid: str) -> str:
    """Return the id that a snapshot of the test `nodeid` states; `nodeid` is relative to `root`."""
    return nodeid.removeprefix(_prefix(root, _folder(nodeid)))


def project_of(root: Path, nodeid: str) -> Path:
    """Return the folder that the id in the snapshot of the test `nodeid` is relative to."""
    return root / _prefix(root, _folder(nodeid))


def snapshot_path(root: Path, module: Path | str, nodeid: str, directory: str = layout.DIRECTORY) -> Path:
    """Return the snapshot of the test `nodeid` of the file `module`.

    Its name may hold a hash of the id. Where no file has the name that a recording chooses today, and one has that of
    another root, it is that one.
    """
    path = layout.snapshot_path(root, module, snapshot_id(root, nodeid), directory)
    if len(_roots((root / module).parent, root)) > 1 and not files.exists(path):
        others = (layout.snapshot_path(root, module, stated, directory) for stated in accepted_ids(root, nodeid))
        return next((other for other in others if files.exists(other)), path)
    return path


def accepted_ids(root: Path, nodeid: str) -> tuple[str, ...]:
    """Return what a snapshot of the test may state: its id from `root` and from each folder that configures pytest.

    Folders above `root` are asked, too: they may be the root of another run.
    """
    file, mark, rest = nodeid.partition("::")
    # No folder is looked for on the word of an id that leads out of the project.
    if not layout.names_test(nodeid):
        return (nodeid,)
    return tuple(f"{(root / file).relative_to(up).as_posix()}{mark}{rest}" for up in _roots((root / file).parent, root))


def todays_id(root: Path, snapshot: Path, stated: str) -> str:
    """Return the id relative to `root` of the test that the file `snapshot` states as `stated`."""
    roots = _roots(snapshot.parent, root)
    if roots == (root,) or not snapshot.is_relative_to(root):
        return stated
    file, mark, rest = stated.partition("::")
    for up in roots:
        if snapshot.is_relative_to((up / file).parent) and (up / file).is_relative_to(root):
            return f"{(up / file).relative_to(root).as_posix()}{mark}{rest}"
    # The file was moved to another folder, or its test was: the old id is a guess.
    prefix = _prefix(root, snapshot.parent.relative_to(root).as_posix())
    return stated if stated.startswith(prefix) else prefix + stated


def recorded_id(pending: Path, home: Path, stated: str) -> str:
    """Return the id of the test of a pending run, relative to the root that it was recorded from."""
    root = next((up.parent for up in pending.parents if up.name == layout.PRIVATE), None)
    return stated if root is None else todays_id(root, home, stated)


def test_to_run(snapshot: Path, stated: str) -> tuple[Path, Path, str]:
    """Return where to run pytest for the test of `snapshot`, the test's file, and the test's id from there.

    Raises SnapshotUnreadable for a name that no test has.
    """
    above, module = file_of_test(snapshot, stated)
    return project_of(above, stated), module, snapshot_id(above, stated)


# Each test asks for the folders above it, and no configuration comes or goes in a session.
_configures = functools.cache(configures)


@functools.cache
def _prefix(root: Path, folder: str) -> str:
    """Return the nearest folder below `root`, from `folder` up, that configures pytest: "packages/shop/", or ""."""
    parts = PurePosixPath(folder).parts
    if ".." in parts or PurePosixPath(folder).is_absolute():
        return ""
    lengths = range(len(parts), 0, -1)
    return next(("/".join(parts[:n]) + "/" for n in lengths if _configures(root.joinpath(*parts[:n]))), "")


@functools.cache
def _roots(folder: Path, root: Path) -> tuple[Path, ...]:
    """Return `root` and the folders at or above `folder` that configure pytest, the nearest first."""
    return tuple(up for up in (folder, *folder.parents) if up == root or _configures(up))


def _folder(nodeid: str) -> str:
    """Return the folder of a test's file, as its id has it."""
    return nodeid.partition("::")[0].rpartition("/")[0]


# The lock of a folder, which `locks` reads and writes.
LOCK = "agentreplay.lock"


def locks_over(snapshot: Path, root: Path) -> list[Path]:
    """Return the locks that `snapshot` stands under, from `root` down."""
    ups = [up for up in snapshot.parents if up.is_relative_to(root)]
    return [lock for up in reversed(ups) if files.exists(lock := up / LOCK)]


def list_tests(file: Path, module: str) -> list[str] | None:
    """Return the ids of the tests that `file` defines; None where that cannot be read from it.

    It cannot of a file that is no Python, nor where tests may come from elsewhere: by inheritance, by `import *`.
    `module` is the file as ids name it. A file that is not there defines none.
    """
    try:
        text = files.read_if_there(file) or b""
        tree = ast.parse(text)
    except (SnapshotError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    if any(isinstance(node, ast.ImportFrom) and node.names[0].name == "*" for node in tree.body):
        return None
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    if any(ast.unparse(base) not in ROOTS for node in classes for base in node.bases):
        return None
    return [f"{module}::{name}" for name in names_in(tree.body)]


# Classes from which no test is inherited.
ROOTS = {"object", "TestCase", "unittest.TestCase", "IsolatedAsyncioTestCase", "unittest.IsolatedAsyncioTestCase"}


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


PIN_FILES = ("uv.lock", "poetry.lock", "pdm.lock", "Pipfile.lock", "pylock.toml", "conda-lock.yml", "requirements.txt")
MISSING = "missing"


def hash_files(root: Path, patterns: Iterable[str]) -> dict[str, str]:
    """Return path, from the project's root -> sha256, for every file that a pattern (`data/*.json`) matches.

    Which files is said by settings or by code, never by a snapshot. A path without a wildcard that leads to nothing is
    kept as missing, so that its coming is seen.
    """
    digests: dict[str, str] = {}
    for pattern in patterns:
        if any(sign in pattern for sign in "*?["):
            # `Path.glob` takes no absolute pattern.
            base = Path(Path(pattern).anchor) if Path(pattern).is_absolute() else root
            matches = base.glob(str(Path(pattern).relative_to(base)) if base is not root else pattern)
            digests |= {format_from_root(file, root): hash_file(file) for file in matches if file.is_file()}
        else:
            digests[format_from_root(root / pattern, root)] = hash_file(root / pattern)
    return dict(sorted(digests.items()))


def hash_pin_files(root: Path) -> dict[str, str]:
    """Return the files at the root that pin versions, each with its hash."""
    return hash_files(root, (name for name in PIN_FILES if (root / name).is_file()))


def format_from_root(file: Path, root: Path) -> str:
    """Return the path of a file, the same on every machine: from the root when it is below."""
    return file.relative_to(root).as_posix() if file.is_relative_to(root) else file.as_posix()


def hash_file(file: Path) -> str:
    """Return the sha256 of what a file holds; it is read again only when it has changed."""
    try:
        status = file.stat()
        return _hash_version(file, status.st_mtime_ns, status.st_size)
    except OSError:
        return MISSING


@functools.lru_cache(maxsize=4096)
def _hash_version(file: Path, changed: int, size: int) -> str:
    # They are only part of the key: another time or size is another version of the file.
    del changed, size
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
