"""The captured runs behind a URL, copied to this machine for as long as the process runs, and shown by their URLs."""

from __future__ import annotations

import atexit
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

from pytest_agentreplay.snapshots.store import files
from pytest_agentreplay.snapshots.store.display_path import FETCHED
from pytest_agentreplay.snapshots.store.run_store import USER, RunEntry, RunStore, is_store

AT_ONCE = 16
"""Files that are read together: each waits for an object store for some 20 ms."""


def fetch_runs(url: str, since: str = "") -> Path:
    """Return the folder that holds a copy of the runs behind `url` from day `since` on, or the copy of one run.

    Raises SettingsError for a URL whose package is not installed, SnapshotError for what cannot be read.
    """
    temporary = TemporaryDirectory(prefix="agentreplay-", ignore_cleanup_errors=True)
    atexit.register(temporary.cleanup)
    folder = Path(temporary.name)
    base = url.rstrip("/") if (whole := is_store(url)) else url.rpartition("/")[0]
    FETCHED[folder] = USER.sub("", base)
    store, depth = RunStore(base), 3 if whole else 1

    def copy(entry: RunEntry) -> None:
        files.write_once(folder.joinpath(*entry.where.split("/")[-depth:]), store.read(entry))

    entries = store.list_files(since) if whole else [RunEntry(url)]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        [*pool.map(copy, entries)]
    return folder if whole else folder / url.rpartition("/")[2]
