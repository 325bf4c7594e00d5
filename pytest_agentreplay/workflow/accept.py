"""The hall's other room: taking what a person has looked at. Pending runs, interrupted journals, project-wide rules."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pytest_agentreplay import codec
from pytest_agentreplay.codec import journal
from pytest_agentreplay.core.places import Places
from pytest_agentreplay.core.redaction import Redaction
from pytest_agentreplay.core.rules import Rule
from pytest_agentreplay.core.secret_names import secret_environment
from pytest_agentreplay.errors import SettingsError, SnapshotMissing
from pytest_agentreplay.store import files, layout
from pytest_agentreplay.store.snapshots import Store
from pytest_agentreplay.workflow.sealing import checked

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

RULES_FILE = "agentreplay-rules.json"


def accepted_rules(root: Path) -> tuple[Rule, ...]:
    """The rules that the project has accepted, from `agentreplay-rules.json` in its root. Raises SettingsError."""
    file = root / RULES_FILE
    if not file.exists():
        return ()
    try:
        rows = json.loads(files.read(file))
        return tuple(Rule("http", "body", row["path"], "watch", row["reason"], RULES_FILE) for row in rows)
    except (ValueError, TypeError, KeyError) as error:
        wanted = '[{"path": "$.store", "reason": "why"}]'
        raise SettingsError(f"{file}: is not a list of rules like {wanted} ({error})") from None


def rule(root: Path, path: str, reason: str) -> str:
    """Accept one rule for all snapshots: the body field at `path` is watched from now on. Gives the line to print."""
    accepted = [r for r in accepted_rules(root) if r.path != path]
    accepted.append(Rule("http", "body", path, "watch", reason, RULES_FILE))
    rows = [{"path": r.path, "reason": r.reason} for r in sorted(accepted, key=lambda r: r.path)]
    files.write_whole(root / RULES_FILE, json.dumps(rows, indent=2, ensure_ascii=False) + "\n")
    return f"{RULES_FILE}: {path} is told as drift and no longer compared: {reason}"


def pending(root: Path) -> list[Path]:
    """The pending runs below `root`."""
    return sorted(layout.pending_folder(root).glob("*.snapshot.json"))


def take(root: Path, what: Path) -> str:
    """Put a pending run in its snapshot's place. `what` is either file. Gives the line to print."""
    store = Store(root)
    run = what if what in pending(root) or "pending" in what.parts else store.pending_of(what)
    if not run.exists():
        raise SnapshotMissing("no run is pending for this snapshot; pytest --snapshot-record makes one", file=str(what))
    text = files.read(run)
    snapshot = codec.loads(text, file=str(run))
    home = store.home_of(run)
    files.write_whole(home, text)
    files.remove(run)
    return f"{home}: taken from the pending run of {snapshot.run.header.recorded} ({snapshot.run.header.test})"


def journals(root: Path) -> list[str]:
    """A line for each journal that an interrupted recording has left."""
    lines = []
    for file, run, torn in Store(root).journals():
        what = f"{run.header.test}, {len(run.exchanges)} calls" if run else "nothing readable"
        lines.append(f"agentreplay recover {file}   # {what}, {torn} bytes torn off")
    return lines


def recover(root: Path, file: Path, environ: Mapping[str, str]) -> str:
    """Make a pending run of a journal, redacted again; it is never promoted by itself. Gives the lines to print."""
    run, torn = journal.read(files.read(file))
    if run is None:
        raise SettingsError(f"{file}: holds no complete record")
    redaction = Redaction(Places({}))
    for category, value in secret_environment(environ):
        redaction.learn(category, value)
    path = Store(root).save_pending(run.header.test, checked(redaction, redaction.rescan(run), str(file)))
    return f"{path}: {len(run.exchanges)} calls recovered, {torn} bytes torn off\nagentreplay accept {path}"
