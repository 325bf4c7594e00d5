"""A case as it lies on the disk: its file, and the run that is frozen beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_agentreplay.cases.case import FILE, RUN
from pytest_agentreplay.cases.schema import parse
from pytest_agentreplay.errors import CaseError, SnapshotEdited, SnapshotError, SnapshotMissing
from pytest_agentreplay.snapshots import codec
from pytest_agentreplay.snapshots.codec.strict_yaml import LARGEST
from pytest_agentreplay.snapshots.store import files, format_path

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from pytest_agentreplay.cases.case import Case


def file_of(path: Path) -> Path:
    """Return the case.yaml that a person means by `path`: itself, or the one in that folder."""
    return path / FILE if path.is_dir() else path


def is_case(path: Path) -> bool:
    """Return whether `path` names a case: its file, or its folder."""
    return path.name == FILE or path.is_dir()


def names_our_form(file: Path) -> bool:
    """Return whether the first lines of a file name the form of a case; False for what cannot be read."""
    try:
        return b"schemaVersion" in files.head(file, 4096)
    except SnapshotError:
        return False


def data(file: Path) -> bytes:
    """Return the bytes of a case.yaml. Raises CaseError for what is no plain file of a bearable size."""
    try:
        return files.head(file, LARGEST + 1)
    except SnapshotError as error:
        raise CaseError(str(error).removeprefix(f"{error.file}: "), file=error.file) from None


def read_case(file: Path, words: Collection[str] | None = ()) -> Case:
    """Return the case in a file; `words` are added to the vocabulary, None takes any.

    Raises CaseError with all that is wrong with it.
    """
    return parse.read_case(data(file), file=format_path(file), folder=file.parent, words=words)


def frozen(case: Case, *, strict: bool, largest: int = files.LARGEST) -> codec.Snapshot:
    """Return the run that is frozen beside a case. `strict` refuses one that was edited after it was recorded.

    Raises SnapshotError, CaseError where there is none.
    """
    file = case.folder / RUN
    files.refuse_links(file, case.folder.parent)
    try:
        content = files.read_file(file, largest)
    except SnapshotMissing:
        advice = f"{RUN} is missing beside it; restore it from git, or set expect: cold"
        if case.expect == "cold":
            advice = "cannot be replayed, and no run is kept beside it; agentreplay ls --cold says what to capture"
        raise CaseError(advice, file=case.file) from None
    snapshot = codec.loads(content, file=format_path(file))
    if strict and not snapshot.sealed:
        raise SnapshotEdited("was edited after it was recorded; agentreplay verify says where", file=format_path(file))
    return snapshot
