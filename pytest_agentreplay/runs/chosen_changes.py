"""What `--replay-set` changes in each request to a model: names and values, and the text of a prompt's file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_agentreplay.core.live.request_changes import change_error, parse_change
from pytest_agentreplay.errors import SnapshotError
from pytest_agentreplay.store import files

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from pytest_agentreplay.core.model import JsonObject


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
        text = files.read(file).decode()
    except (SnapshotError, UnicodeDecodeError) as error:
        raise change_error(change, str(error)) from None
    if not text.strip():
        raise change_error(change, "the file is empty")
    return text
