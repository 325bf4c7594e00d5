"""The files of a case put in their places: a new folder whole or not at all, what people wrote left as it is.

What differs from what would be written now was edited: it is kept, and told. Where the run is another one nothing is
written: its files would stand among those of a case that is not theirs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_agentreplay.cases.case import FILE, RUN
from pytest_agentreplay.errors import CaseError, SettingsError, SnapshotError
from pytest_agentreplay.providers.lenient import obj, string
from pytest_agentreplay.snapshots.codec import strict_yaml
from pytest_agentreplay.snapshots.store import files
from pytest_agentreplay.snapshots.store.display_path import format_path

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class WrittenCase:
    """What was done with each file, by name: written, kept because it is another one, the same already."""

    written: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    same: tuple[str, ...] = ()


def lay(folder: Path, contents: Mapping[str, bytes], *, force: bool = False) -> WrittenCase:
    """Put `contents` into `folder`. With `force` over what differs.

    Raises SettingsError where another run is kept there, CannotWrite, SnapshotUnreadable.
    """
    if not files.exists(folder) and files.make_folder(folder, contents):
        return WrittenCase(tuple(contents))
    for inside in {(folder / name).parent for name in contents}:
        files.sweep(inside)
    states = {name: state(folder / name, data) for name, data in contents.items()}
    if states.get(RUN) == "other" and not force:
        said = "another run is kept there; name another folder with --out, or write over it with --force"
        raise SettingsError(f"{format_path(folder)}: {said}")
    wanted = [name for name, found in states.items() if found == "absent" or (force and found == "other")]
    wanted.sort(key=lambda name: name == FILE)  # where no case.yaml is yet, no part of a case is taken for one
    files.write_all_whole({folder / name: contents[name] for name in wanted})
    return WrittenCase(
        tuple(wanted),
        tuple(name for name, found in states.items() if found == "other" and not force),
        tuple(name for name, found in states.items() if found == "same"),
    )


def state(file: Path, data: bytes) -> str:
    """What stands at `file`: nothing ("absent"), these bytes ("same"), or others ("other")."""
    there = files.read_if_there(file, largest=max(len(data) + 1, files.LARGEST))
    if there is None:
        return "absent"
    return "same" if there.replace(b"\r\n", b"\n") == data.replace(b"\r\n", b"\n") else "other"


def day_of(folder: Path) -> str:
    """The day on which the case in `folder` was made, "" where there is none that tells."""
    try:
        value = strict_yaml.load(files.read(folder / FILE), file=FILE, error=CaseError).value
    except (SnapshotError, CaseError):
        return ""
    return string(obj(obj(value).get("source")).get("imported"))
