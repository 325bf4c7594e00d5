"""The store: snapshots, pending runs and journals of one project, by test.

Whose snapshots lie where: the test that a file states, read from its first bytes, and the files around a test.

Only plain files below the root are listed: a link that leads out of the project is nobody's snapshot.
"""

from __future__ import annotations

import functools
import hashlib
import os
import secrets
from contextlib import suppress
from itertools import islice
from threading import Lock
from typing import TYPE_CHECKING

from pytest_agentreplay.errors import CannotWrite, SnapshotError, SnapshotMisplaced, SnapshotMissing, SnapshotUnreadable
from pytest_agentreplay.model.paths import selecting
from pytest_agentreplay.snapshots import codec
from pytest_agentreplay.snapshots.store import files, format_path, layout, projects

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pytest_agentreplay.model.exchanges import Exchange, Header, Run

# Snapshots that are looked at around a test, and folders beside one another.
MOST = 500

# Folders that pytest does not enter either, as those that begin with a dot.
SKIPPED = frozenset({"node_modules", "venv", "build", "dist", "CVS", "_darcs", "__pycache__"})


def find_test(file: Path, root: Path) -> str | None:
    """Return the id, from `root`, of the test whose snapshot or pending run `file` says it is.

    None for what is unreadable.
    """
    stated = read_stated_id(file)
    return None if stated is None else projects.todays_id(root, layout.home_path(file) or file, stated)


def read_stated_id(file: Path) -> str | None:
    """Return the id that the file states itself; None for what is unreadable."""
    name = format_path(file)
    try:
        stated = codec.read_head(files.head(file, codec.HEAD), file=name).get("test")
        test = str(stated or codec.loads(files.read_file(file), file=name).run.header.test)
    except SnapshotError:
        return None
    return test if layout.names_test(test) else None


def list_snapshots_in(folder: Path, root: Path) -> Iterator[Path]:
    """Yield the files named as snapshots in the folders of modules below `folder`, in order of names."""
    for module in files.list_folders(folder) if inside(folder, root) else ():
        for entry in files.list_entries(module):
            if entry.name.endswith(layout.SUFFIX) and entry.is_file(follow_symlinks=False):
                yield module / entry.name


def inside(path: Path, root: Path) -> bool:
    """Return whether `path`, all links followed, is there and lies below `root`."""
    try:
        return files.resolve_path(path).is_relative_to(files.resolve_path(root))
    except (OSError, RuntimeError):
        return False


def find_around(root: Path, place: Path, directory: str) -> list[Path]:
    """Return the nearest snapshots to tests in the folder `place`: beside them, above, and one step aside.

    `MOST` at most.
    """
    homes: dict[Path, None] = {}
    for up in (place, *(up for up in place.parents if up.is_relative_to(root))):
        aside = [folder for folder in files.list_folders(up)[:MOST] if not is_skipped(folder.name)]
        homes |= dict.fromkeys([up, *aside])
    return [*islice((file for home in homes for file in list_snapshots_in(home / directory, root)), MOST)]


def everywhere(root: Path, directory: str) -> Iterator[Path]:
    """Yield all snapshots of a project, folder by folder."""
    for here, _ in walk(root):
        yield from list_snapshots_in(here / directory, root)


def walk(root: Path) -> Iterator[tuple[Path, list[str]]]:
    """Yield each folder at or below `root` with the names of its files, sorted; none that pytest does not enter."""
    return files.walk(root, lambda folder: is_skipped(folder.name))


def expand_testpath(root: Path, pattern: str) -> list[Path]:
    """Return the files and folders that an entry of pytest's `testpaths` names, wildcards and all."""
    return sorted(root.glob(pattern))


def is_skipped(name: str) -> bool:
    """Return whether no tests are looked for in a folder of this name."""
    return name.startswith(".") or name in SKIPPED


# Seconds for which the journal of a killed recording waits for a person.
JOURNALS_KEPT = 14 * 24 * 3600.0


class Store:
    """The files of the project at `root`; snapshots lie in `directory` beside the tests."""

    def __init__(self, root: Path, directory: str = layout.DIRECTORY, largest: int = files.LARGEST) -> None:
        """Touches nothing. No snapshot of more than `largest` bytes is read or written."""
        self.root = root
        self.directory = directory
        self.largest = largest
        # What `load` has read, by its sha256: a file that is another one by the time of `save` is not written over.
        self._read: dict[Path, str | None] = {}
        self._around: dict[Path, list[tuple[Path, str]]] = {}
        self._find_test = functools.cache(find_test)

    def path_of(self, module: Path, nodeid: str) -> Path:
        """Return where the snapshot of a test belongs; `module` is its file."""
        return projects.snapshot_path(self.root, module, nodeid, self.directory)

    def snapshot_id(self, nodeid: str) -> str:
        """Return the id that a snapshot of the test states: the same from every root of pytest."""
        return projects.snapshot_id(self.root, nodeid)

    def project_of(self, path: Path, nodeid: str, *, recording: bool) -> Path:
        """The folder that the snapshot at `path` has a mark for as the project: the nearest one that configures pytest.

        A snapshot that states another id than a recording writes today was recorded with a mark for `root`.
        """
        project = projects.project_of(self.root, nodeid)
        older = project != self.root and not recording and read_stated_id(path) == nodeid
        return self.root if older else project

    def load(self, path: Path, nodeid: str) -> codec.Snapshot:
        """Return the snapshot of `nodeid` at `path`.

        Raises SnapshotMissing, SnapshotUnreadable, SnapshotTooNew, or SnapshotMisplaced when it is another test's.
        """
        try:
            data = self.data(path)
        except SnapshotMissing:
            # That there was none counts as well: two runs that record a new test do not overwrite each other.
            self._read[path] = None
            message = f"no snapshot is recorded for this test; record it: pytest --snapshot-record {selecting(nodeid)}"
            raise SnapshotMissing(message, file=format_path(path)) from None
        self._read[path] = hashlib.sha256(data).hexdigest()
        snapshot = codec.loads(data, file=format_path(path))
        stated = snapshot.run.header.test
        if stated != nodeid and stated not in projects.accepted_ids(self.root, nodeid):
            other = projects.todays_id(self.root, path, stated)
            raise SnapshotMisplaced(
                f"belongs to {other}, not to {nodeid}; was the test renamed?", file=format_path(path), test=other
            )
        return snapshot

    def find_around(self, module: Path) -> list[tuple[Path, str]]:
        """Return the snapshots near the test file `module`, each with the test that it states.

        Each is looked at once.
        """
        place = module.parent
        if place not in self._around:
            stated = [
                (file, self._find_test(file, self.root)) for file in find_around(self.root, place, self.directory)
            ]
            self._around[place] = [(file, test) for file, test in stated if test is not None]
        return self._around[place]

    def list_edits(self, path: Path) -> list[str]:
        """Return what in the file at `path` is not what was sealed: "exchange 3", "header"."""
        return codec.list_edits(self.data(path), file=format_path(path))

    def data(self, path: Path) -> bytes:
        """Return the bytes of the snapshot at `path`. Raises SnapshotMissing, or SnapshotUnreadable."""
        files.refuse_links(path, layout.test_folder(path, self.directory))
        return files.read_file(path, self.largest)

    def save(self, path: Path, text: str) -> str:
        """Write a snapshot, unless the file has changed since `load`; returns its sha256. Raises CannotWrite."""
        self._refuse(path, layout.test_folder(path, self.directory), text)
        if path in self._read:
            files.write_if_unchanged(path, text, self._read[path])
        else:
            files.write_whole(path, text)
        # The next `save` of this session, after a proof, replaces this one.
        self._read[path] = saved = hashlib.sha256(text.encode()).hexdigest()
        self._clear_journals(path)
        return saved

    def _clear_journals(self, path: Path) -> None:
        """Remove what killed runs have left: journals of the test that is recorded at `path` now, and old ones."""
        folder = layout.journal_path(self.root, path, "").parent
        # Only a recording clears up: a replay leaves everything as it lies.
        for name in files.list_names(folder):
            journal = folder / name
            if layout.home_path(journal) != path and not files.is_older_than(journal, JOURNALS_KEPT):
                continue
            with suppress(SnapshotError):  # gone meanwhile, or no file of ours
                if files.is_growing(journal) is False:
                    files.remove(journal)

    def restore(self, path: Path, data: bytes | None, saved: str) -> None:
        """Put back what stood at `path` before a `save` that gave `saved`; None for nothing.

        Raises CannotWrite, also where another process has written it since.
        """
        if data is None:
            files.remove_if_unchanged(path, saved)
        else:
            files.write_if_unchanged(path, data, saved)

    def save_pending(self, path: Path, text: str) -> Path:
        """Keep a run that waits for a person to put it at `path`; return where. Raises CannotWrite."""
        pending = layout.pending_path(self.root, path)
        self._refuse(pending, self.root, text)
        files.make_private_folder(layout.private_folder(self.root))
        files.write_whole(pending, text)
        return pending

    def _refuse(self, path: Path, top: Path, text: str = "") -> None:
        """Raise CannotWrite for a place behind a link, or a text that is not read again."""
        try:
            files.refuse_links(path, top)
        except SnapshotUnreadable as error:
            raise CannotWrite(str(error)) from None
        self.check_size(path, len(text.encode()))

    def check_size(self, path: Path, size: int) -> None:
        """Raise CannotWrite for a snapshot of `size` bytes or more, where that is too large to be read again."""
        if size > self.largest:
            msg = (
                f"{format_path(path)}: {size:,} bytes are more than the {self.largest:,} that are read again; "
                "record less in one test, or raise largest in agentreplay_checks"
            )
            raise CannotWrite(msg)

    def journal_for(self, path: Path, header: Header) -> Journal:
        """Return the journal of a recording for `path` that begins now.

        Raises CannotWrite where nothing can be written.
        """
        self._refuse(layout.journal_path(self.root, path, ""), self.root)
        files.make_private_folder(layout.private_folder(self.root))
        # Workers and proofs of one test record at once, each into a journal of its own.
        token = f"{os.getpid()}-{secrets.token_hex(3)}"
        return Journal(layout.journal_path(self.root, path, token), header)


class Journal:
    """What one recording has seen so far, on disk as soon as it is settled. Safe from any thread.

    The file is made before the test begins: at its first call an event loop may be running, which nothing may block.
    """

    def __init__(self, path: Path, header: Header) -> None:
        """Create the file. Raises CannotWrite, and leaves none."""
        from pytest_agentreplay.snapshots.codec.journal import JournalWriter

        self.path = path
        self._codec = JournalWriter()
        self._lock = Lock()
        self._file = files.Appending(path)
        try:
            self._file.append(self._codec.begin(header))
        except CannotWrite:
            self._file.close(keep=False)
            raise

    def write(self, exchange: Exchange) -> None:
        """Add an exchange. A full disk ends the journal and not the agent's call: the seal will tell it."""
        with self._lock, suppress(CannotWrite):
            self._file.append(self._codec.exchange(exchange))

    def close(self, *, keep: bool) -> None:
        """End it: kept for `agentreplay verify --recover`, or removed because the run is sealed or not wanted."""
        with self._lock:
            self._file.close(keep=keep)

    def restate(self, run: Run) -> None:
        """Write the kept journal anew, as `run` tells it. Raises CannotWrite; then there is none."""
        text = type(self._codec)()
        try:
            files.write_whole(self.path, b"".join([text.begin(run.header), *map(text.exchange, run.exchanges)]))
        except CannotWrite:
            files.remove(self.path)
            raise
