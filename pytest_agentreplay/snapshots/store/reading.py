"""One snapshot by its path, for people who compare runs by hand."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pytest_agentreplay.snapshots import codec
from pytest_agentreplay.snapshots.store import files, format_path
from pytest_agentreplay.snapshots.store.projects import ini_lines, root_above

if TYPE_CHECKING:
    from pytest_agentreplay.snapshots.codec import Snapshot


def load(path: str | Path) -> Snapshot:
    """Read a snapshot file, whichever test it belongs to.

    Args:
        path: The file.

    Returns:
        The snapshot: its run, and what is known of the file.

    Raises:
        SnapshotError: It is missing or cannot be used. The message names the file and the place.
    """
    return codec.loads(data(path), file=format_path(path))


def data(path: str | Path) -> bytes:
    """Return the bytes of a snapshot, as many as its project allows. Raises SnapshotError."""
    file = Path(path)
    return files.read_file(file, find_limit(root_above(file.absolute().parent)))


def find_limit(root: Path) -> int | None:
    """Return the size of the largest snapshot that the project at `root` reads; None for the default."""
    for line in ini_lines(root, "agentreplay_checks")[0]:
        word, _, size = line.partition("=")
        if word.strip() == "largest":
            from pytest_agentreplay.model.sizes import parse_size

            return parse_size(size)
    return None
