"""The rules that a project has accepted for all of its snapshots; each replay reads them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pytest_agentreplay.core.rules import Rule
from pytest_agentreplay.errors import SettingsError
from pytest_agentreplay.store import files
from pytest_agentreplay.store.display_path import format_path

if TYPE_CHECKING:
    from pathlib import Path

RULES_FILE = "agentreplay-rules.json"


def accepted_rules(root: Path) -> tuple[Rule, ...]:
    """The rules that the project has accepted, from `agentreplay-rules.json` in its root. Raises SettingsError."""
    file = root / RULES_FILE
    if not files.exists(file):
        return ()
    try:
        rows = json.loads(files.read(file))
        return tuple(Rule("http", "body", row["path"], "watch", row["reason"], RULES_FILE) for row in rows)
    except (ValueError, TypeError, KeyError, SettingsError) as error:
        example = '[{"path": "$.store", "reason": "why"}]'
        raise SettingsError(f"{format_path(file)}: is not a list of rules like {example} ({error})") from None
