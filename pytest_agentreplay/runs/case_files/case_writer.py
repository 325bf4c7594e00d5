"""The files of a case put in their places: a new folder whole or not at all, what people wrote left as it is.

What differs from what would be written now was edited: it is kept, and reported. Where the run is another one nothing
is written: its files would stand among those of a case that is not theirs.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_agentreplay.cases.case import FILE, RUN
from pytest_agentreplay.cases.schema.model import VERSION
from pytest_agentreplay.errors import CaseError, SettingsError, SnapshotError
from pytest_agentreplay.model.canonical_json import canonical
from pytest_agentreplay.providers.lenient import obj, string
from pytest_agentreplay.snapshots.codec import strict_yaml
from pytest_agentreplay.snapshots.store import files, format_path

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_agentreplay.model.exchanges import JsonObject
    from pytest_agentreplay.runs.fuzz.plan import FuzzFailure


@dataclass(frozen=True, slots=True)
class WrittenCase:
    """What was done with each file, by name: written, kept because it is another one, the same already."""

    written: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    same: tuple[str, ...] = ()


def write_files(folder: Path, contents: Mapping[str, bytes], *, force: bool = False) -> WrittenCase:
    """Put `contents` into `folder`. With `force` over what differs.

    Raises SettingsError where another run is kept there, CannotWrite, SnapshotUnreadable.
    """
    if not files.exists(folder) and files.make_folder(folder, contents):
        return WrittenCase(tuple(contents))
    for inside in {(folder / name).parent for name in contents}:
        files.sweep(inside)
    states = {name: state(folder / name, data) for name, data in contents.items()}
    if states.get(RUN) == "other" and not force:
        message = "another run is kept there; name another folder with --out, or write over it with --force"
        raise SettingsError(f"{format_path(folder)}: {message}")
    to_write = [
        name for name, file_state in states.items() if file_state == "absent" or (force and file_state == "other")
    ]
    to_write.sort(key=lambda name: name == FILE)  # where no case.yaml is yet, no part of a case is taken for one
    files.write_all_whole({folder / name: contents[name] for name in to_write})
    return WrittenCase(
        tuple(to_write),
        tuple(name for name, file_state in states.items() if file_state == "other" and not force),
        tuple(name for name, file_state in states.items() if file_state == "same"),
    )


def state(file: Path, data: bytes) -> str:
    """Return what stands at `file`: nothing ("absent"), these bytes ("same"), or others ("other")."""
    there = files.read_if_there(file, largest=max(len(data) + 1, files.LARGEST))
    if there is None:
        return "absent"
    return "same" if there.replace(b"\r\n", b"\n") == data.replace(b"\r\n", b"\n") else "other"


def day_of(folder: Path) -> str:
    """Return the day on which the case in `folder` was made, "" where there is none that tells."""
    try:
        value = strict_yaml.load(files.read_file(folder / FILE), file=FILE, error=CaseError).value
    except (SnapshotError, CaseError):
        return ""
    return string(obj(obj(value).get("source")).get("imported"))


LONGEST = 60  # characters of a folder's name, without its digest


def write(cases: Path, root: Path, test: str, failure: FuzzFailure) -> Path:
    """Write the case of a failure into a folder of its own below `cases`; return its file.

    `test` is the node id of a test, or the path of a case file from `root`. The same failure has the same folder: what
    stands there already is left as it is. Raises CannotWrite.
    """
    perturb = [each.plain() for each in failure.neighbour]
    name = make_name(test, ["race"] if failure.race else [each.operator for each in failure.neighbour], perturb)
    file = cases / name / FILE
    base = test if "::" in test else Path(os.path.relpath((root / test).parent, file.absolute().parent)).as_posix()
    title = f"{failure.name}: {failure.violation.text}"[:480]
    lines = [
        f'schemaVersion: "{VERSION}"',
        f"id: {name}",
        f"title: {json.dumps(title)}",
        f"base: {json.dumps(base)}",
        "perturb:",
        *(f"  - {json.dumps(each)}" for each in perturb),
        "# reproduces: the invariant does not hold yet; fixed: it holds, and has to from now on",
        "expect: reproduces",
    ]
    write_files(file.parent, {FILE: "".join(f"{line}\n" for line in lines).encode()})
    return file


def make_name(test: str, kinds: Sequence[str], perturb: list[JsonObject]) -> str:
    """Return the name of the folder: of the test or case, what was changed, and a digest of that with its arguments."""
    subject = test.rpartition("::")[2] if "::" in test else Path(test).parent.name
    words = "-".join([subject, *kinds])
    slug = re.sub(r"[^A-Za-z0-9._-]+", "-", words).strip("-.")[:LONGEST]
    return f"{slug}-{hashlib.sha256(canonical([test, *perturb]).encode()).hexdigest()[:6]}"
