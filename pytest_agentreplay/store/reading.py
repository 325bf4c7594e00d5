"""One snapshot by its path, for people who compare runs by hand."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pytest_agentreplay import codec
from pytest_agentreplay.store import files
from pytest_agentreplay.store.shown import shown

if TYPE_CHECKING:
    from pytest_agentreplay.codec import Snapshot


def load(path: str | Path) -> Snapshot:
    """The snapshot in a file, whichever test it belongs to. Raises SnapshotError, naming the file and the place."""
    return codec.loads(files.read(Path(path)), file=shown(path))
