"""Snapshots that no test used, and the tests that they may belong to under a new name.

Unused ones are claimed after a full run alone, and never of a test that may be there. Each process reports what it
collected (`find_unowned`), the one that prints the footer decides (`find_unused`). Doubt counts for a snapshot: a test
that was skipped keeps it, so does a test file that is there and was not collected, and a single reason to doubt that
all tests were run (`find_limit`) ends the search.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pytest_agentreplay.errors import SnapshotError
from pytest_agentreplay.model.paths import is_fixture, quote_word, scope_of
from pytest_agentreplay.report.summary import CollectedSnapshots, SessionSummary, UnusedSnapshots, to_plain
from pytest_agentreplay.snapshots import codec
from pytest_agentreplay.snapshots.store import files, layout, snapshots

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence


# Options of pytest by their names in `config.option`: with one of them not every test is run.
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

LOST = "a worker was lost"
# How alike the names of two tests of different files must be to be taken for one test.
ALIKE = 0.6

T = TypeVar("T")


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


def find_limit(
    options: Mapping[str, Any], words: Sequence[str], here: Path, root: Path, testpaths: Sequence[str]
) -> str:
    """Return why a session is not over all tests of the project, or "". `words` are the paths that pytest was given."""
    if flags := [flag for name, flag in FILTERS.items() if options.get(name)]:
        return f"{' and '.join(flags)} left tests out"
    folders = [root / folder for pattern in testpaths for folder in snapshots.expand_testpath(root, pattern)] or [root]
    covered = [here / word for word in words if "::" not in word]
    left = [folder for folder in folders if not any(folder.is_relative_to(path) for path in covered)]
    return f"{left[0].name} was not run whole" if left else ""


def find_unowned(collected: CollectedTests, store: snapshots.Store) -> CollectedSnapshots:
    """Return the snapshots that the tests of this process do not own."""
    seen = collected.seen
    part = "a collection error" if seen["failed"] else ""
    if len(seen["items"]) > len(collected.tests):
        part = part or "tests were deselected"
    homes = {str(store.path_of(path, test)): (test, opted_in) for test, path, opted_in in collected.tests}
    homes |= {str(store.path_of(path, fixture)): (fixture, True) for fixture, path in collected.fixtures}
    ids = {test: home for home, (test, _) in homes.items()}
    gone: dict[str, str] = {}
    idle: dict[str, str] = {}
    unreadable: list[str] = []
    for folder in sorted(collected.folders):
        for file in snapshots.list_snapshots_in(folder, store.root):
            test, opted_in = homes.get(str(file), ("", False))
            owner = test or snapshots.find_test(file, store.root)
            if owner is None:
                unreadable.append(str(file))
            elif test and not opted_in:
                idle[str(file)] = test
            elif not test and is_gone(owner, ids, seen, store.root):
                gone[str(file)] = owner
    tests = len({test for test, _, _ in collected.tests})
    return CollectedSnapshots(part, tests, gone, idle, (*unreadable,))


def is_gone(test: str, ids: Mapping[str, str], seen: Mapping[str, Sequence[str]], root: Path) -> bool:
    """Return whether a snapshot in no test's place has no test; `ids` are the right places by id."""
    module = test.partition("::")[0]
    if test in ids:
        return files.exists(Path(ids[test]))  # a copy; else it is the only one that its test has
    if any(test.startswith((f"{node}::", f"{node}/")) or node in {"", "."} for node in seen["skipped"]):
        return False
    place = scope_of(test) if is_fixture(test) else module  # pytest reports the folder of a conftest, not the file
    return place in seen["passed"] or module in seen["passed"] or not (root / module).exists()


def find_unused(
    collected: Sequence[CollectedSnapshots],
    *,
    why: str,
    ran: Mapping[str, bool],
    summaries: Sequence[SessionSummary],
    store: snapshots.Store,
) -> UnusedSnapshots:
    """Return the unused snapshots of a whole session.

    `why` is what the session itself speaks against it, `ran` says of each test that ended whether it passed.
    """
    why = why or next((each.part for each in collected if each.part), "")
    if not why and len(ran) < max((each.tests for each in collected), default=0):
        why = "not every test was run"
    unused = UnusedSnapshots(root=str(store.root), directory=store.directory, why=why)
    if why or not collected:
        return unused
    opened = {summary.test for summary in summaries}
    # Under xdist each worker collects all tests: gone is what no worker has an owner for.
    everywhere = set.intersection(*({*each.gone} for each in collected))
    needed = {summary.test for summary in summaries if summary.fixture is not None and not summary.idle}
    gone = {file: test for file, test in collected[0].gone.items() if file in everywhere and test not in needed}
    pairs = [pair for each in collected for pair in each.idle.items()]
    idle = {file: test for file, test in pairs if ran.get(test) and test not in opened}
    unreadable = (*sorted({file for each in collected for file in each.unreadable}),)
    unowned = sorted({**gone, **idle}.items())
    if not unowned:
        return replace(unused, unreadable=unreadable)
    missing = sorted(summary.test for summary in summaries if summary.code == "AR-NEW")
    nearby = [(file, test, find_nearest(test, zip(missing, missing, strict=True))) for file, test in unowned]
    possible_moves = tuple((file, test, new[1]) for file, test, new in nearby if new is not None)
    return replace(
        unused,
        files=(*unowned,),
        moves=(*find_moves(unowned, summaries),),
        possible_moves=possible_moves,
        unreadable=unreadable,
    )


def find_moves(unused: Sequence[tuple[str, str]], summaries: Sequence[SessionSummary]) -> Iterator[tuple[str, str]]:
    """Yield old and new id of the unused snapshot that the failure of each test without one offers, and no other's."""
    offers = Counter(summary.former for summary in summaries)
    for summary in sorted(summaries, key=lambda summary: summary.test):
        if offers[summary.former] == 1 and any(summary.former == test for _, test in unused):
            yield summary.former, summary.test


def write_unused(unused: UnusedSnapshots, into: str) -> None:
    """Write what is unused for the command that asked."""
    files.write_whole(Path(into), json.dumps(to_plain(unused)))


def delete_unused(unused: UnusedSnapshots, *, dry: bool) -> tuple[list[str], list[str]]:
    """Delete the unused snapshots, and the pending run of each. Return what went, and what cannot be read.

    One that may belong to a test without a snapshot stays ("held"). With `dry` nothing is touched. Raises CannotWrite.
    """
    root = Path(unused.root)
    kept = {file for file, _, _ in unused.possible_moves}
    went, damaged = [], [*unused.unreadable]
    for name, _ in unused.files:
        file = Path(name)
        if name in kept or not snapshots.inside(file, root):
            continue
        try:
            codec.loads(
                files.read_file(file), file=name
            )  # unreadable is never absent: a person looks at such a file first
        except SnapshotError:
            damaged.append(name)
            continue
        pairs = [(file, layout.test_folder(file, unused.directory))]
        if (pending := layout.pending_path(root, file)).is_file():
            pairs.append((pending, layout.pending_folder(root)))
        for path, top in pairs:
            if not dry:
                files.delete(path, top)
            went.append(str(path))
    return went, damaged


def move_command(old: str, new: str) -> str:
    """Return the command that gives the snapshot of `old` to `new`."""
    return f"agentreplay mv {quote_word(old)} {quote_word(new)}"


def measure_likeness(first: str, second: str) -> float:
    """Return how alike two node ids are, from 0 to 2: files and what stands in them count the same."""
    if is_fixture(first) is not is_fixture(second):
        return 0
    from difflib import SequenceMatcher

    (file, _, rest), (file_too, _, rest_too) = first.partition("::"), second.partition("::")
    names = SequenceMatcher(None, rest, rest_too, autojunk=False)
    if file == file_too:
        return 1 + names.ratio()
    # The first two are upper bounds of the third, and cheaper: most pairs of a large suite end at them.
    if names.real_quick_ratio() < ALIKE or names.quick_ratio() < ALIKE or (alike := names.ratio()) < ALIKE:
        return 0
    return alike + SequenceMatcher(None, file, file_too, autojunk=False).ratio()


def find_nearest(test: str, others: Iterable[tuple[T, str]]) -> tuple[T, str] | None:
    """Return the pair whose test is most like `test`; None where none is like it at all."""
    candidates = [(measure_likeness(test, other), other, what) for what, other in others]
    best = max(candidates, key=lambda candidate: candidate[0], default=None)
    return (best[2], best[1]) if best is not None and best[0] else None


@dataclass(frozen=True)
class Suite:
    """What a session knows of the tests of the project at `root`: the `ids` collected, whether selected or not.

    `words` are the paths and ids that pytest was given, `modules` the loaded modules by test file.
    """

    root: Path
    ids: frozenset[str]
    words: Sequence[str] = ()
    modules: Mapping[str, object] = field(default_factory=dict)
    _there: dict[str, bool] = field(default_factory=dict)

    def find_former(
        self, test: str, snapshots: Iterable[tuple[T, str]], begins_alike: Callable[[T], bool]
    ) -> tuple[T, str] | None:
        """Return the snapshot that is most likely that of `test` under its former name, of a test that is gone.

        Those that begin with the call that `test` makes go first, then those of its function with other parameters,
        then those whose function is gone. None where another one of its file may be meant too.
        """
        gone = [(pair, pair[1].partition("[")[0]) for pair in snapshots if not self.has(pair[1])]
        here, functions = test.partition("[")[0], {test_id.partition("[")[0] for test_id in self.ids}
        candidates = (
            [pair for pair, _ in gone if begins_alike(pair[0])]
            or [pair for pair, function in gone if function == here]
            or [pair for pair, function in gone if function not in functions]
        )
        best = find_nearest(test, candidates)
        if best is None or select_name(best[1]) == select_name(test):
            return best
        file = best[1].partition("::")[0]
        return best if sum(old.partition("::")[0] == file for _, old in candidates) == 1 else None

    def has(self, test: str) -> bool:
        """Return whether the test is there. What a session over a part of the tests cannot tell is taken for there."""
        if test not in self._there:
            self._there[test] = test in self.ids or self._is_there(test)
        return self._there[test]

    def _is_there(self, test: str) -> bool:
        file, _, rest = test.partition("::")
        if not layout.names_test(test):
            return True
        if not (self.root / file).is_file():
            return False
        if is_fixture(test):
            module = self.modules.get(file)
            return module is None or has_attribute(module, rest.partition("[")[0].replace("@", ""))
        if file not in self._files:
            return True
        typed = [word.partition("::")[2] for word in self.words if "::" in word]
        if not typed:
            return False
        name = rest.partition("[")[0]
        module = self.modules.get(file)
        if module is not None and not has_attribute(module, name):
            return False
        seen = f"{file}::{name}" in {test_id.partition("[")[0] for test_id in self.ids}
        return not seen or any("[" in word for word in typed)

    @cached_property
    def _files(self) -> frozenset[str]:
        return frozenset(test_id.partition("::")[0] for test_id in self.ids)


def select_name(test: str) -> str:
    """Return the parameters of a test, else its name without class and file: what stays when these are renamed."""
    return test.partition("[")[2] or test.rpartition("::")[2]


def has_attribute(thing: object, name: str) -> bool:
    """Return whether a module holds `name`, "Class::test"; inherited tests count."""
    for part in name.split("::"):
        thing = getattr(thing, part, None)
    return thing is not None
