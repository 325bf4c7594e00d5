"""Which snapshots or pending runs a command line means: files, folders, ids of tests, or all of the project."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

from pytest_agentreplay.errors import SettingsError
from pytest_agentreplay.runs.accept import NOTHING_PENDING, pending
from pytest_agentreplay.runs.snapshot_moves import with_slashes
from pytest_agentreplay.store import layout, locks, snapshots
from pytest_agentreplay.store.display_path import format_path
from pytest_agentreplay.store.projects import is_file, root_above

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


def snapshots_meant(words: Iterable[str], here: Path) -> list[Path]:
    """Return the snapshots that `words` name, typed in the folder `here`; without words those of the whole project.

    Raises SettingsError for an id that no snapshot states.
    """
    words = list(words)
    if not words:
        return [*locks.snapshots(root_above(here))]
    chosen: list[Path] = []
    for word in words:
        path = here / word
        if path.is_dir():
            chosen += locks.snapshots(path)
        elif names_file(path):
            chosen.append(path)
        else:
            chosen += of_test(word, here, locks.snapshots(root_above(here)))
    return list(dict.fromkeys(chosen))


def pending_meant(words: Iterable[str], here: Path) -> list[Path]:
    """Return the pending runs that `words` name, or the file itself where a word is one; without words all of them.

    Raises SettingsError for an id that no pending run states.
    """
    words = list(words)
    if not words:
        return pending(root_above(here))
    chosen: list[Path] = []
    for word in words:
        path = here / word
        if path.is_dir():
            waiting = pending(root_above(path))
            chosen += [file for file in waiting if any(place.is_relative_to(path) for place in places(file))]
        elif names_file(path):
            chosen.append(path)
        else:
            chosen += of_test(word, here, pending(root_above(here)))
    return list(dict.fromkeys(chosen))


def names_file(path: Path) -> bool:
    """Return whether a path is that of a snapshot or a pending run, or would be; its reader says what is wrong."""
    return path.suffix != ".py" and (path.name.endswith(layout.SUFFIX) or is_file(path))


def places(file: Path) -> tuple[Path, ...]:
    """Return where a pending run lies, and where it belongs."""
    home = layout.home_path(file)
    return (file,) if home is None else (file, home)


def of_test(word: str, here: Path, candidates: Iterable[Path]) -> list[Path]:
    """Return those of `candidates` that are of the test, class or test file `word`. Raises SettingsError for none."""
    root = root_above(here)
    below = here.relative_to(root).as_posix() if here.is_relative_to(root) else "."
    nodeid = with_slashes(word)
    names = (nodeid, f"{below}/{nodeid}") if below != "." else (nodeid,)
    begins = tuple(f"{name}{mark}" for name in names for mark in ("::", "["))

    def is_meant(test: str | None) -> bool:
        return test is not None and (test in names or test.startswith(begins))

    if chosen := [file for file in candidates if is_meant(snapshots.test_of(file, root))]:
        return chosen
    tests = {test for file in (*locks.snapshots(root), *pending(root)) if (test := snapshots.test_of(file, root))}
    if any(map(is_meant, tests)):
        raise SettingsError(f"{word}: {NOTHING_PENDING}")
    raise SettingsError(
        f"{word}: no snapshot or pending run below {format_path(root)} is of this test{nearest(word, tests)}"
    )


def nearest(word: str, tests: Iterable[str]) -> str:
    """Return what of `tests` is nearest to `word`, by id, file or name, as the end of a message; "" for nothing."""
    nodes: dict[str, str] = {}
    for test in sorted(tests):
        module = test.partition("::")[0]
        nodes |= {test.rpartition("::")[2]: test, module: module, test: test}
    near = dict.fromkeys(nodes[name] for name in get_close_matches(word, nodes, n=3))
    return f"; the nearest: {', '.join(near)}" if near else ""
