"""Where files lie: pure paths. Different tests get different files, on file systems that fold case too.

    <test dir>/__agent_snapshots__/<module>/<slug>.snapshot.json
    <rootdir>/.pytest_agentreplay/pending/<the snapshot's path below rootdir>
    <rootdir>/.pytest_agentreplay/journal/<the same>.<token>.jsonl

A slug holds what is safe everywhere (Windows' reserved names and trailing dots included); it gets a short hash of the
whole id whenever making it lost something, and whenever folding case could make two ids one. Should two hashes ever be
equal, it is reported: a snapshot has the id of its test, and no other test reads it or writes over it.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import PurePath, PurePosixPath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

DIRECTORY = "__agent_snapshots__"
PRIVATE = ".pytest_agentreplay"
OUTSIDE = "_outside"
SUFFIX = ".snapshot.json"
RUN_SUFFIX = ".run.json"
# How the names of files end that hold a run: of a test, captured from a service.
RECORDED = (SUFFIX, RUN_SUFFIX)
# Folder of the module, slug and ending have 115 characters, of the 260 that Windows gives a path.
SLUG_LENGTH = 60
MODULE_LENGTH = 40
# 40 bits: among 10,000 tests two are alike in one project of 20,000, and that is reported.
HASH_LENGTH = 10
SAFE_NAME = re.compile(r"[a-z_][a-z0-9_]*(?:::[a-z_][a-z0-9_]*)*")
# What needs no hash. No hyphen, which begins a hash; no dot but one that the slug can only have from there.
SAFE_FILE = re.compile(r"[a-z_][a-z0-9_]*\.[a-z][a-z0-9_]*")
UNSAFE = re.compile(r"[^a-z0-9_.]+")
# https://learn.microsoft.com/windows/win32/fileio/naming-a-file#naming-conventions
RESERVED = re.compile(r"(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\.|\Z)", re.IGNORECASE)


def snapshot_path(root: Path, module: Path | str, nodeid: str, directory: str = DIRECTORY) -> Path:
    """Return the snapshot of test `nodeid` of the test file `module` (absolute, or relative to `root`)."""
    file = root / module
    name = nodeid.partition("::")[2]
    is_safe = SAFE_NAME.fullmatch(name) is not None
    test = make_slug(name.replace("::", "."), nodeid, SLUG_LENGTH, is_safe=is_safe)
    return file.parent / directory / module_folder(file.name) / (test + SUFFIX)


def module_folder(name: str) -> str:
    """Return the folder of the tests of one file: its name without `.py`."""
    return make_slug(name.removesuffix(".py"), name, MODULE_LENGTH, is_safe=SAFE_FILE.fullmatch(name) is not None)


def make_slug(text: str, identity: str, length: int, *, is_safe: bool) -> str:
    """Return `text` as a file name of at most `length` characters.

    With a hash of `identity` unless the text `is_safe` as it is.
    """
    if is_safe and len(text) <= length and not RESERVED.match(text):
        return text
    return make_hashed_slug(text, identity, length)


def make_hashed_slug(text: str, identity: str, length: int) -> str:
    """Return `text` as far as a file name may hold it, a hyphen and a short hash of `identity`."""
    # An id may hold lone surrogates: pytest takes them from the names of files that are no UTF-8.
    digest = hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()[:HASH_LENGTH]
    safe = UNSAFE.sub("-", text.lower())[: length - HASH_LENGTH - 1].strip("-.")
    if RESERVED.match(safe) or not safe:
        safe = f"_{safe}"[: length - HASH_LENGTH - 1]
    return f"{safe}-{digest}"


def test_folder(snapshot: Path, directory: str) -> Path:
    """Return the folder of the test file that `snapshot` lies beside."""
    return snapshot.parents[1 + len(PurePath(directory).parts)]


def names_test(nodeid: str) -> bool:
    """Return whether `nodeid` can be the id of a test below the root.

    Any other would be taken for a flag, or lead out.
    """
    name, _, rest = nodeid.partition("::")
    module = PurePosixPath(name)
    # A snapshot may be a stranger's, and its id becomes a word of a command line.
    wrong = name.startswith(("-", "@")) or "\\" in name or ":" in name or module.is_absolute() or ".." in module.parts
    return bool(name and rest) and not wrong


def private_folder(root: Path) -> Path:
    """Return what is ours and belongs in no repository."""
    return root / PRIVATE


def pending_folder(root: Path) -> Path:
    """Return the folder of runs that wait for a person."""
    return private_folder(root) / "pending"


def journal_folder(root: Path) -> Path:
    """Return what a test that is recording has seen so far."""
    return private_folder(root) / "journal"


def pending_path(root: Path, snapshot: Path) -> Path:
    """Return the pending run that may take the place of `snapshot`; there is one, the latest."""
    return pending_folder(root) / get_path_below(root, snapshot)


def journal_path(root: Path, snapshot: Path, token: str) -> Path:
    """Return the journal of one recording for `snapshot`; `token` tells it from other recordings of the same test."""
    place = journal_folder(root) / get_path_below(root, snapshot)
    return place.with_name(f"{place.name.removesuffix(SUFFIX)}.{token}.jsonl")


def get_path_below(root: Path, snapshot: Path) -> Path:
    """Return the path of `snapshot` from `root`; a name of its own for one that lies outside."""
    if snapshot.is_relative_to(root):
        return snapshot.relative_to(root)
    return type(root)(OUTSIDE) / (
        make_hashed_slug(snapshot.name.removesuffix(SUFFIX), str(snapshot), SLUG_LENGTH) + SUFFIX
    )


def home_path(file: Path) -> Path | None:
    """Return where the snapshot belongs whose pending run or journal is `file` (absolute); None for any other file."""
    folder = next((up for up in file.parents if up.name == PRIVATE), None)
    if folder is None:
        return None
    kind, *middle, name = file.relative_to(folder).parts if file.parent != folder else ("", "")
    if kind == "journal" and name.endswith(".jsonl"):
        name = name.removesuffix(".jsonl").rpartition(".")[0] + SUFFIX
    if kind not in {"pending", "journal"} or not name.endswith(SUFFIX) or middle[:1] == [OUTSIDE]:
        return None
    return folder.parent.joinpath(*middle, name)
