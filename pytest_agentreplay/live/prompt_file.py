"""The text of the file that `--replay-set prompt=@FILE` names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_agentreplay.core.live.request_changes import PROMPT, change_error
from pytest_agentreplay.errors import SnapshotError
from pytest_agentreplay.store import files

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_agentreplay.settings import Settings

LARGEST = 4 << 20
"""Bytes that are read of it: more than any model reads."""


def with_prompt(settings: Settings, root: Path) -> Settings:
    """Return the settings with the text of the prompt's file for its name. Raises SettingsError."""
    rows = settings.changes
    return settings._replace(changes=tuple((n, t, read_prompt(t, root) if n == PROMPT else v) for n, t, v in rows))


def read_prompt(written: str, root: Path) -> str:
    """Return the text of "@FILE", a path from `root` that does not leave it. Raises SettingsError."""
    change, path = f"{PROMPT}={written}", (root / written.removeprefix("@")).resolve()
    if not path.is_relative_to(root.resolve()):
        raise change_error(change, f"is outside of the project; put the file below {root}")
    try:
        text = files.head(path, LARGEST + 1).decode()
    except (SnapshotError, UnicodeDecodeError) as error:
        raise change_error(change, str(error)) from None
    if not text.strip() or len(text) > LARGEST:
        raise change_error(change, "is larger than 4 MB" if text.strip() else "is empty")
    return text
