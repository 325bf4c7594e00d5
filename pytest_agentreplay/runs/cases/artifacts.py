"""What is kept of a case's replay: `.agentreplay/runs/<time>-<case>/`, out of git, without secrets."""

from __future__ import annotations

import re
from datetime import datetime
from typing import TYPE_CHECKING

from pytest_agentreplay.model.paths import near
from pytest_agentreplay.snapshots.store import files, layout

if TYPE_CHECKING:
    from pathlib import Path

FOLDER = ".agentreplay"
PLAIN = re.compile(r"[a-z0-9][a-z0-9_-]*")
"""An id that can be the end of a folder's name as it is."""


class Artifacts:
    """The folder of one replay, made when the first file is kept. `here` is where reports show it from."""

    def __init__(self, root: Path, case: str, *, here: Path, now: datetime | None = None) -> None:
        """`case` is the id of the case."""
        self._top = root / FOLDER
        time = (now or datetime.now().astimezone()).strftime("%Y%m%dT%H%M%S")
        name = f"{time}-{layout.slug(case, case, 60, whole=PLAIN.fullmatch(case) is not None)}"
        self._here = here
        self.folder = self._top / "runs" / name
        self._made = False

    def keep(self, name: str, text: str) -> None:
        """Keep one file; a second one of that name gets a number. Raises CannotWrite."""
        if not self._made:
            self._make()
        stem, dot, ending = name.partition(".")
        number = 1
        while files.exists(self.folder / name):
            number += 1
            name = f"{stem}-{number}{dot}{ending}"
        files.write_whole(self.folder / name, text)

    @property
    def shown(self) -> str:
        """The folder as people would type it, "" while nothing is kept."""
        return near(self.folder, self._here) if self._made else ""

    def _make(self) -> None:
        files.private(self._top)
        number, first = 1, self.folder
        while not files.make_new(self.folder):
            number += 1
            self.folder = first.with_name(f"{first.name}-{number}")
        self._made = True
