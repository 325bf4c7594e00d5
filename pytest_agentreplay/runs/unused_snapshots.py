"""Snapshots that no test used: claimed after a full run alone, and never of a test that may be there.

Each process tells what it collected (`look`), the one that reports decides (`conclude`). Whatever is not known for sure
counts for the snapshot: a test that was skipped keeps it, so does a test file that is there and was not collected, and
a single reason to doubt that all tests were run (`narrowed`) ends the search.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_agentreplay import codec
from pytest_agentreplay.core.paths import is_fixture, scope_of
from pytest_agentreplay.errors import SnapshotError
from pytest_agentreplay.store import files, layout, snapshots

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from pytest_agentreplay.store.snapshots import Store

Plain = dict[str, Any]

FILTERS = {
    "keyword": "-k",
    "markexpr": "-m",
    "deselect": "--deselect",
    "ignore": "--ignore",
    "ignore_glob": "--ignore-glob",
    "lf": "--lf",
    "stepwise": "--stepwise",
    "collectonly": "--collect-only",
    "setuponly": "--setup-only",
    "setupplan": "--setup-plan",
    "pyargs": "--pyargs",
}
"""Options of pytest by their names in `config.option`: with one of them not every test is run."""

LOST = "a worker was lost"


@dataclass(frozen=True)
class CollectedTests:
    """What one process collected: `tests` are id, file and whether the test opted in, of those that are to run.

    `fixtures` are id and file of the fixtures wider than a test that the tests share which opted in.
    `seen` holds every test's id ("items") and the nodes that gave tests, by outcome ("passed", "skipped", "failed").
    """

    tests: Sequence[tuple[str, Path, bool]]
    fixtures: Sequence[tuple[str, Path]]
    seen: Mapping[str, Sequence[str]]
    folders: Collection[Path]


def narrowed(options: Mapping[str, Any], words: Sequence[str], here: Path, root: Path, testpaths: Sequence[str]) -> str:
    """Why a session is not over all tests of the project, or "". `words` are the paths that pytest was given."""
    if given := [flag for name, flag in FILTERS.items() if options.get(name)]:
        return f"{' and '.join(given)} left tests out"
    whole = [root / folder for pattern in testpaths for folder in snapshots.named_by(root, pattern)] or [root]
    covered = [here / word for word in words if "::" not in word]
    left = [one for one in whole if not any(one.is_relative_to(up) for up in covered)]
    return f"{left[0].name} was not run whole" if left else ""


def nothing(part: str) -> Plain:
    """What a process tells that looked for nothing, because of `part`."""
    return {"part": part, "tests": 0, "gone": {}, "idle": {}, "unreadable": []}


def look(collected: CollectedTests, store: Store) -> Plain:
    """The snapshots that the tests of this process do not own, as plain data.

    "gone" have no test, "idle" one that did not opt in, both as file and id; "part" says why not all was collected.
    """
    seen = collected.seen
    part = "a collection error" if seen["failed"] else ""
    if len(seen["items"]) > len(collected.tests):
        part = part or "tests were deselected"
    homes = {str(store.path_of(path, test)): (test, wanted) for test, path, wanted in collected.tests}
    homes |= {str(store.path_of(path, fixture)): (fixture, True) for fixture, path in collected.fixtures}
    ids = {test: home for home, (test, _) in homes.items()}
    told = nothing(part) | {"tests": len({test for test, _, _ in collected.tests})}
    for folder in sorted(collected.folders):
        for file in snapshots.snapshots_in(folder, store.root):
            test, wanted = homes.get(str(file), ("", False))
            if test and not wanted:
                told["idle"][str(file)] = test
            elif not test:
                sort_out(file, told, ids, seen, store.root)
    return told


def sort_out(file: Path, told: Plain, ids: Mapping[str, str], seen: Mapping[str, Sequence[str]], root: Path) -> None:
    """Put a file that lies in no test's place where it belongs in `told`, if anywhere."""
    test = snapshots.test_of(file, root)
    if test is None:
        told["unreadable"].append(str(file))
        return
    module = test.partition("::")[0]
    if test in ids:
        gone = files.exists(Path(ids[test]))  # a copy; else it is the only one that its test has
    elif any(test.startswith((f"{one}::", f"{one}/")) or one in {"", "."} for one in seen["skipped"]):
        gone = False
    else:
        place = scope_of(test) if is_fixture(test) else module  # pytest reports the folder of a conftest, not the file
        gone = place in seen["passed"] or module in seen["passed"] or not (root / module).exists()
    if gone:
        told["gone"][str(file)] = test


def conclude(
    looked: Sequence[Plain], *, why: str, ran: Mapping[str, bool], told: Iterable[Plain], store: Store
) -> Plain:
    """The unused snapshots of a whole session, as plain data; "why" says why none is claimed.

    `why` is what the session itself speaks against it, `ran` says of each test that ended whether it passed, `told`
    is what the tests with a session told.
    """
    why = why or next((one["part"] for one in looked if one["part"]), "")
    if not why and len(ran) < max((one["tests"] for one in looked), default=0):
        why = "not every test was run"
    found: Plain = {"why": why, "unused": [], "moves": [], "held": [], "unreadable": []}
    found |= {"root": str(store.root), "directory": store.directory}
    if why or not looked:
        return found
    told = list(told)
    opened = {one["test"] for one in told}
    everywhere = set.intersection(*({*one["gone"]} for one in looked))
    asked = {one["test"] for one in told if "fixture" in one and not one.get("idle")}
    gone = {file: test for file, test in looked[0]["gone"].items() if file in everywhere and test not in asked}
    idle = {file: test for one in looked for file, test in one["idle"].items() if ran.get(test) and test not in opened}
    unused = sorted({**gone, **idle}.items())
    unreadable = sorted({file for one in looked for file in one["unreadable"]})
    if not unused:
        return found | {"unreadable": unreadable}
    from pytest_agentreplay.runs.renamed_tests import nearest

    missing = sorted(one["test"] for one in told if one.get("code") == "AR-NEW")
    mine = [(file, test, nearest(test, zip(missing, missing, strict=True))) for file, test in unused]
    return found | {
        "unused": [list(one) for one in unused],
        "moves": moves(unused, missing),
        "held": [[file, test, new[1]] for file, test, new in mine if new is not None],
        "unreadable": unreadable,
    }


def moves(unused: Sequence[tuple[str, str]], missing: Iterable[str]) -> list[list[str]]:
    """Old and new id of the unused snapshot that is nearest to each test without one, as its failure says too."""
    from pytest_agentreplay.runs.renamed_tests import nearest

    left, found = dict(unused), []
    for new in missing:
        pair = nearest(new, left.items())
        if pair is not None:
            del left[pair[0]]
            found.append([pair[1], new])
    return found


def hand_over(found: Plain, into: str) -> None:
    """Write what was found for the command that asked."""
    files.write_whole(Path(into), json.dumps(found))


def delete(found: Plain, *, dry: bool) -> tuple[list[str], list[str]]:
    """Delete the unused snapshots, and the pending run of each. Return what went, and what cannot be read.

    One that may belong to a test without a snapshot stays ("held"). With `dry` nothing is touched. Raises CannotWrite.
    """
    root = Path(found["root"])
    held = {file for file, _, _ in found["held"]}
    went, damaged = [], list(found["unreadable"])
    for name, _ in found["unused"]:
        file = Path(name)
        if name in held or not snapshots.inside(file, root):
            continue
        try:
            codec.loads(files.read(file), file=name)
        except SnapshotError:
            damaged.append(name)
            continue
        pairs = [(file, layout.test_folder(file, found["directory"]))]
        if (pending := layout.pending_path(root, file)).is_file():
            pairs.append((pending, layout.pending_folder(root)))
        for one, top in pairs:
            if not dry:
                files.delete(one, top)
            went.append(str(one))
    return went, damaged
