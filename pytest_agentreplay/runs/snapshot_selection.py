"""What a command line means: snapshots, pending runs, the changes of `--replay-set`, the moves of `agentreplay mv`."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_agentreplay.backends.request_changes import change_error, parse_change
from pytest_agentreplay.cases.case import FILE, RUN
from pytest_agentreplay.errors import CannotWrite, SettingsError, SnapshotError, SnapshotMissing
from pytest_agentreplay.model.paths import quote_word
from pytest_agentreplay.runs.accept import explain_nothing_pending, list_pending
from pytest_agentreplay.runs.unused_snapshots import move_command
from pytest_agentreplay.settings.parsers import parse_directory
from pytest_agentreplay.snapshots import codec
from pytest_agentreplay.snapshots.store import files, format_path, layout, locks, projects, snapshots
from pytest_agentreplay.snapshots.store.snapshots import Store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pytest_agentreplay.model.exchanges import JsonObject

    ListFiles = Callable[[Path], Iterable[Path]]


def select_snapshots(words: Iterable[str], here: Path) -> list[Path]:
    """Return the snapshots that `words` name, typed in the folder `here`; without words those of the whole project.

    Raises SettingsError for an id that no snapshot states.
    """
    return select_files(words, here, locks.snapshots, locks.snapshots)


def select_pending(words: Iterable[str], here: Path) -> list[Path]:
    """Return the pending runs that `words` name, or the file itself where a word is one; without words all of them.

    Raises SettingsError for an id that no pending run states.
    """

    def pending_in(folder: Path) -> Iterable[Path]:
        """Return those that lie in a folder, or whose snapshots belong there."""
        return (file for file in list_pending(projects.root_above(folder)) if is_of_folder(file, folder))

    return select_files(words, here, list_pending, pending_in)


def is_of_folder(file: Path, folder: Path) -> bool:
    """Return whether a snapshot or pending run lies in a folder, or its snapshot belongs there."""
    return any(place.is_relative_to(folder) for place in (file, layout.home_path(file) or file))


def select_recorded(path: Path, here: Path) -> list[Path]:
    """Return the files that a path, the id of a test or the id of a captured run means.

    Raises SettingsError for the id of a test that no snapshot states.
    """
    if path.suffix == ".py" or ("::" in str(path) and not files.exists(path)):
        return select_snapshots([path.as_posix()], here)
    if path.name != str(path) or files.exists(path):
        return [path]
    name = f"{path}{layout.RUN_SUFFIX}"
    return [folder / name for folder, names in snapshots.walk(projects.root_above(here)) if name in names] or [path]


def find_run(path: Path, verb: str) -> Path:
    """Return the file that a path means: itself, the run of a case by its folder or file, or one by its id.

    Raises SettingsError for an id that none or several have, and for a file that is no snapshot.
    """
    if files.exists(path / FILE):
        return path / RUN
    if path.name == FILE:
        return path.with_name(RUN)
    chosen = select_recorded(path, Path.cwd())
    if len(chosen) > 1:
        commands = [f"agentreplay {verb} {quote_word(format_path(file))}" for file in chosen]
        raise SettingsError("\n".join([f"{path} is {len(chosen)} snapshots; name one:", *commands]))
    return check_name(chosen[0])


def choose_run(path: Path, verb: str) -> Path:
    """Return the file of one run, also of the only one in a store of captured runs. Raises SettingsError for others."""
    path = find_run(path, verb)
    runs = files.list_below(path, layout.RUN_SUFFIX) if path.is_dir() else [path]
    if len(runs) != 1:
        what = f"holds {len(runs)} captured runs" if runs else "is a folder"
        name = format_path(path)
        raise SettingsError(f"{name}: {what}; to list its runs: agentreplay ls {quote_word(name)}")
    return runs[0]


def check_name(path: Path, advice: str = "to list all: agentreplay ls") -> Path:
    """Return the path. Raises SettingsError for a file that is no snapshot by its name."""
    if path.suffix != ".json" and path.is_file():
        raise SettingsError(f"{format_path(path)}: is no snapshot; {advice}")
    return path


def select_files(words: Iterable[str], here: Path, in_project: ListFiles, in_folder: ListFiles) -> list[Path]:
    """Return the files that `words` name: folders, files or tests; without words those of the whole project."""
    root = projects.root_above(here)
    if not (words := list(words)):
        return [*in_project(root)]
    chosen: list[Path] = []
    for word in words:
        path = here / word
        if path.is_dir():
            chosen += in_folder(path)
        elif path.suffix != ".py" and (path.name.endswith(layout.SUFFIX) or projects.is_file(path)):
            chosen.append(path)  # it may be missing: its reader says what is wrong
        else:
            chosen += select_by_test(word, here, in_project(root))
    return list(dict.fromkeys(chosen))


def select_by_test(word: str, here: Path, candidates: Iterable[Path]) -> list[Path]:
    """Return those of `candidates` that are of the test, class or test file `word`. Raises SettingsError for none."""
    root = projects.root_above(here)
    below = here.relative_to(root).as_posix() if here.is_relative_to(root) else "."
    nodeid = normalize_id(word)
    names = (nodeid, f"{below}/{nodeid}") if below != "." else (nodeid,)
    begins = tuple(f"{name}{mark}" for name in names for mark in ("::", "["))

    def is_meant(test: str | None) -> bool:
        return test is not None and (test in names or test.startswith(begins))

    if chosen := [file for file in candidates if is_meant(snapshots.find_test(file, root))]:
        return chosen
    both = locks.snapshots(root), list_pending(root)
    recorded, waiting = ({snapshots.find_test(file, root) or "" for file in files_of_kind} for files_of_kind in both)
    if any(map(is_meant, recorded)):
        raise SettingsError(f"{word}: {explain_nothing_pending(quote_word(word))}")
    if any(map(is_meant, waiting)):
        raise SettingsError(f"{word}: has no snapshot yet; take its pending run: agentreplay accept {quote_word(word)}")
    tests = (recorded | waiting) - {""}
    raise SettingsError(
        f"{word}: no snapshot or pending run below {format_path(root)} is of this test{describe_nearest(word, tests)}"
    )


def describe_nearest(word: str, tests: Iterable[str]) -> str:
    """Return what of `tests` is nearest to `word`, by id, file or name, as the end of a message; "" for nothing."""
    nodes: dict[str, str] = {}
    for test in sorted(tests):
        module = test.partition("::")[0]
        nodes |= {test.rpartition("::")[2]: test, module: module, test: test}
    near = dict.fromkeys(nodes[name] for name in get_close_matches(word, nodes, n=3))
    return f"; the nearest: {', '.join(near)}" if near else ""


def find_store(root: Path) -> Store:
    """Return the snapshots of the project at `root`, where its ini file has them. Raises SettingsError."""
    folder = projects.ini_value(root, "agentreplay_dir") or layout.DIRECTORY
    return Store(root, parse_directory(folder, "agentreplay_dir"))


def find_home(store: Store, test: str) -> Path:
    """Return where the snapshot of `test` belongs."""
    return store.path_of(Path(test.partition("::")[0]), test)


def move_snapshots(store: Store, here: Path, old: str, new: str) -> list[str]:
    """Move the snapshots of `old` to where those of `new` belong, with their pending runs; returns the lines to print.

    Both are node ids, beginnings of node ids, or test files, typed in the folder `here`. All of them move, or none.
    Raises SettingsError for names that are none, SnapshotMissing, CannotWrite where the new test has one, SnapshotError
    for one not as sealed.
    """
    old, new = check_ids(store.root, here, old, new)
    every = list(list_stated(store, old, new))
    matches = map_snapshots(store, old, every)
    if not matches:
        raise make_missing_error(store, old, new, [test for _, test in every])
    moves, lines, tops = [], [], []
    for test, file in sorted(matches.items()):
        new_id = new + test[len(old) :]
        home = find_home(store, new_id)
        stated = projects.snapshot_id(store.root, new_id)
        moves.append(plan_move(file, home, stated))
        tops.append(layout.test_folder(file, store.directory))
        waiting = layout.pending_path(store.root, file)
        if files.exists(waiting):
            moves.append(plan_move(waiting, layout.pending_path(store.root, home), stated))
            tops.append(layout.pending_folder(store.root))
        lines.append(
            f"{format_path(home)}: the snapshot of {new_id}" + (f", was {format_path(file)}" if home != file else "")
        )
    files.move_all(moves)
    for (file, _, _), top in zip(moves, tops, strict=True):
        files.prune(file, top)
    return lines


def check_ids(root: Path, here: Path, old: str, new: str) -> tuple[str, str]:
    """Return both names as node ids from the root. Raises SettingsError for what is none."""
    old, new = normalize_id(old), normalize_id(new)
    for test_id in (old, new):
        if not layout.names_test(test_id if "::" in test_id else f"{test_id}::test"):
            text = f"{test_id!r:.80} is no node id of a test; one looks like tests/test_shop.py::test_refund"
            raise SettingsError(text)
    if ("::" in old) is not ("::" in new):
        raise SettingsError("mv takes two node ids, or two test files")
    if old == new:
        raise SettingsError(f"{old} is its name already")
    module = new.partition("::")[0]
    if (root / module).is_file():
        return old, new
    if not (here / module).is_file():
        raise SettingsError(f"{module}: there is no such test file; rename the test first, its snapshot then")
    below = here.relative_to(root).as_posix()
    return f"{below}/{old}", f"{below}/{new}"


def normalize_id(name: str) -> str:
    """Return a node id as pytest writes it: with slashes in its file, on every system."""
    file, mark, rest = name.strip().partition("::")
    return f"{file.replace(chr(92), '/').removeprefix('./')}{mark}{rest}"


def list_stated(store: Store, *names: str) -> Iterator[tuple[Path, str]]:
    """Yield the snapshots of the project that can be read, each with the test that it states."""
    folders = (layout.test_folder(find_home(store, name), store.directory) for name in names)
    near = (file for folder in folders for file in snapshots.list_snapshots_in(folder / store.directory, store.root))
    for file in dict.fromkeys((*near, *snapshots.everywhere(store.root, store.directory))):
        if (test := snapshots.find_test(file, store.root)) is not None:
            yield file, test


def map_snapshots(store: Store, old: str, snapshots: Iterable[tuple[Path, str]]) -> dict[str, Path]:
    """Return the snapshot that states `old` itself, else those of its tests. Raises CannotWrite where two state one."""
    stated: dict[str, list[Path]] = {}
    for file, test in snapshots:
        if test == old or test.startswith((f"{old}::", f"{old}[")):
            stated.setdefault(test, []).append(file)
    files_by_id: dict[str, Path] = {}
    for test, (first, *others) in stated.items():
        files_by_id[test] = home if (home := find_home(store, test)) in others else first
        if others and files_by_id[test] != home:
            raise CannotWrite(
                f"{format_path(others[0])} and {format_path(first)} both state {test}; remove the wrong one"
            )
    return {old: files_by_id[old]} if old in files_by_id else files_by_id


def make_missing_error(store: Store, old: str, new: str, tests: list[str]) -> SnapshotError:
    """Return the error for a name that no snapshot states: its file is damaged, or what is there has another name."""
    home = find_home(store, old)
    if "::" in old and files.exists(home):
        codec.loads(files.read_file(home), file=format_path(home))  # says what is wrong, unless it is another test's
    others = tests if "::" in old else sorted({test.partition("::")[0] for test in tests})
    close = get_close_matches(old, [test for test in others if test != new], n=1, cutoff=0)
    instead = f"; the nearest: {move_command(close[0], new)}" if close else ""
    return SnapshotMissing(f"no snapshot states {old}{instead}", file=format_path(home if "::" in old else home.parent))


def plan_move(file: Path, home: Path, test: str) -> tuple[Path, Path, str]:
    """Return one move. Raises CannotWrite for a new place that is taken, SnapshotError for a file not as sealed."""
    if home != file and files.exists(home):
        raise CannotWrite(f"{format_path(home)}: {test} has one already, so nothing was moved; remove it, or keep it")
    return file, home, codec.restate(files.read_file(file), test, file=format_path(file))


def read_changes(texts: Iterable[str], root: Path) -> JsonObject:
    """Return what changes, by name; files of prompts stand below `root`. Raises SettingsError."""
    changes: JsonObject = {}
    for text in texts:
        name, value = parse_change(text)
        if name in changes:
            raise change_error(name, "it is given twice: give one value")
        changes[name] = read_prompt(text, root / str(value)[1:], root) if name == "prompt" else value
    return changes


def read_prompt(change: str, file: Path, root: Path) -> str:
    """Return the text of the file of a prompt. Raises SettingsError."""
    if not file.resolve().is_relative_to(root.resolve()):
        raise change_error(change, f"the file is outside of the project; put it below {root}")
    try:
        text = files.read_file(file).decode()
    except (SnapshotError, UnicodeDecodeError) as error:
        raise change_error(change, str(error)) from None
    if not text.strip():
        raise change_error(change, "the file is empty")
    return text
