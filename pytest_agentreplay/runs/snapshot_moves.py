"""`agentreplay mv OLD NEW`: the snapshots of a test, class or test file that was renamed, under their new names."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

from pytest_agentreplay import codec
from pytest_agentreplay.errors import CannotWrite, SettingsError, SnapshotMissing
from pytest_agentreplay.runs.renamed_tests import mv
from pytest_agentreplay.settings.parsers import directory
from pytest_agentreplay.store import files, layout, projects, snapshots
from pytest_agentreplay.store.display_path import format_path
from pytest_agentreplay.store.projects import ini_value

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from pytest_agentreplay.errors import SnapshotError


@dataclass(frozen=True)
class Project:
    """Where the snapshots of the project at `root` lie, and `here`, where a person types."""

    root: Path
    directory: str
    here: Path

    @classmethod
    def at(cls, root: Path, here: Path) -> Project:
        """The project at `root` as its ini file has it. Raises SettingsError."""
        return cls(root, directory(ini_value(root, "agentreplay_dir") or layout.DIRECTORY, ""), here)

    def home(self, test: str) -> Path:
        """Where the snapshot of `test` belongs."""
        return projects.snapshot_path(self.root, test.partition("::")[0], test, self.directory)


def move(project: Project, old: str, new: str) -> list[str]:
    """Move the snapshots of `old` to where those of `new` belong, with their pending runs; returns the lines to print.

    Both are node ids, beginnings of node ids, or test files. All of them move, or none. Raises SettingsError for
    names that are none, SnapshotMissing, CannotWrite where the new test has one, SnapshotError for one not as sealed.
    """
    old, new = check_ids(project, old, new)
    every = list(all_stated(project, old, new))
    matches = of(project, old, every)
    if not matches:
        raise nothing_of(project, old, new, [test for _, test in every])
    moves, lines, tops = [], [], []
    for test, file in sorted(matches.items()):
        new_id = new + test[len(old) :]
        home = project.home(new_id)
        stated = projects.snapshot_id(project.root, new_id)
        moves.append(restate_snapshot(file, home, stated))
        tops.append(layout.test_folder(file, project.directory))
        waiting = layout.pending_path(project.root, file)
        if files.exists(waiting):
            moves.append(restate_snapshot(waiting, layout.pending_path(project.root, home), stated))
            tops.append(layout.pending_folder(project.root))
        lines.append(
            f"{format_path(home)}: the snapshot of {new_id}" + (f", was {format_path(file)}" if home != file else "")
        )
    files.move_all(moves)
    for (file, _, _), top in zip(moves, tops, strict=True):
        files.prune(file, top)
    return lines


def check_ids(project: Project, old: str, new: str) -> tuple[str, str]:
    """Both names as node ids from the root. Raises SettingsError for what is none."""
    old, new = with_slashes(old), with_slashes(new)
    for test_id in (old, new):
        if not layout.names_test(test_id if "::" in test_id else f"{test_id}::test"):
            text = f"{test_id!r:.80} is no node id of a test; one looks like tests/test_shop.py::test_refund"
            raise SettingsError(text)
    if ("::" in old) is not ("::" in new):
        raise SettingsError("mv takes two node ids, or two test files")
    if old == new:
        raise SettingsError(f"{old} is its name already")
    module = new.partition("::")[0]
    if (project.root / module).is_file():
        return old, new
    if not (project.here / module).is_file():
        raise SettingsError(f"{module}: there is no such test file; rename the test first, its snapshot then")
    below = project.here.relative_to(project.root).as_posix()
    return f"{below}/{old}", f"{below}/{new}"


def with_slashes(name: str) -> str:
    """A node id as pytest writes it: with slashes in its file, on every system."""
    file, mark, rest = name.strip().partition("::")
    return f"{file.replace(chr(92), '/').removeprefix('./')}{mark}{rest}"


def all_stated(project: Project, *names: str) -> Iterator[tuple[Path, str]]:
    """The snapshots of the project that can be read, each with the test that it states."""
    folders = (layout.test_folder(project.home(name), project.directory) for name in names)
    near = (file for folder in folders for file in snapshots.snapshots_in(folder / project.directory, project.root))
    for file in dict.fromkeys((*near, *snapshots.everywhere(project.root, project.directory))):
        if (test := snapshots.test_of(file, project.root)) is not None:
            yield file, test


def of(project: Project, old: str, snapshots: Iterable[tuple[Path, str]]) -> dict[str, Path]:
    """The snapshot that states `old` itself, else those of its tests. Raises CannotWrite where two state the same."""
    stated: dict[str, list[Path]] = {}
    for file, test in snapshots:
        if test == old or test.startswith((f"{old}::", f"{old}[")):
            stated.setdefault(test, []).append(file)
    files_by_id: dict[str, Path] = {}
    for test, (first, *others) in stated.items():
        files_by_id[test] = home if (home := project.home(test)) in others else first
        if others and files_by_id[test] != home:
            raise CannotWrite(
                f"{format_path(others[0])} and {format_path(first)} both state {test}; remove the wrong one"
            )
    return {old: files_by_id[old]} if old in files_by_id else files_by_id


def nothing_of(project: Project, old: str, new: str, tests: list[str]) -> SnapshotError:
    """The error for a name that no snapshot states: its file is damaged, or what is there has another name."""
    home = project.home(old)
    if "::" in old and files.exists(home):
        codec.loads(files.read(home), file=format_path(home))  # says what is wrong, unless it is another test's
    others = tests if "::" in old else sorted({test.partition("::")[0] for test in tests})
    close = get_close_matches(old, [test for test in others if test != new], n=1, cutoff=0)
    instead = f"; the nearest: {mv(close[0], new)}" if close else ""
    return SnapshotMissing(f"no snapshot states {old}{instead}", file=format_path(home if "::" in old else home.parent))


def restate_snapshot(file: Path, home: Path, test: str) -> tuple[Path, Path, str]:
    """One move. Raises CannotWrite where something stands in the new place, SnapshotError for a file not as sealed."""
    if home != file and files.exists(home):
        raise CannotWrite(f"{format_path(home)}: {test} has one already, so nothing was moved; remove it, or keep it")
    return file, home, codec.restated(files.read(file), test, file=format_path(file))
