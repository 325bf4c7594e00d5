"""The hall's other room: taking what a person has looked at. Pending runs, interrupted journals, project-wide rules."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pytest_agentreplay import codec
from pytest_agentreplay.codec import journal
from pytest_agentreplay.core.rules import Rule
from pytest_agentreplay.core.shell import quoted
from pytest_agentreplay.errors import SettingsError, SnapshotError, SnapshotMissing
from pytest_agentreplay.store import files, layout, reading
from pytest_agentreplay.store.shown import shown
from pytest_agentreplay.workflow.recovering import count, torn_off
from pytest_agentreplay.workflow.sealing import CUT

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
        wanted = '[{"path": "$.store", "reason": "why"}]'
        raise SettingsError(f"{shown(file)}: is not a list of rules like {wanted} ({error})") from None


def rule(root: Path, path: str, reason: str) -> str:
    """Accept one rule for all snapshots: the body field at `path` is watched from now on. Gives the line to print."""
    accepted = [r for r in accepted_rules(root) if r.path != path]
    accepted.append(Rule("http", "body", path, "watch", reason, RULES_FILE))
    rows = [{"path": r.path, "reason": r.reason} for r in sorted(accepted, key=lambda r: r.path)]
    file = root / RULES_FILE
    files.write_whole(file, json.dumps(rows, indent=2, ensure_ascii=False) + "\n")
    return f"{shown(file)}: {path} is told as drift and no longer compared: {reason}"


def pending(root: Path) -> list[Path]:
    """The pending runs below `root`."""
    return files.below(layout.pending_folder(root), layout.SUFFIX)


def take(what: Path) -> str:
    """Put a pending run in its snapshot's place. `what` is either file, absolute. Gives the line to print.

    Raises SnapshotMissing where nothing is pending.
    """
    run, home = what, layout.home_path(what)
    if home is None:
        waiting = (layout.pending_path(up, what) for up in what.parents)
        run, home = next((file for file in waiting if files.exists(file)), what), what
    if run == home:
        raise SnapshotMissing(
            "no run is pending for this snapshot; pytest --snapshot-record makes one where the old one has to stay",
            file=shown(what),
        )
    text = reading.data(run)
    header = codec.loads(text, file=shown(run)).run.header
    if CUT in header.kit:
        raise SettingsError(
            f"{shown(run)}: was refused, and is not whole; take the rest: "
            f"agentreplay recover --policy FILE {quoted(shown(run))}"
        )
    files.write_whole(home, text)
    files.remove(run)
    return f"{shown(home)}: taken for {header.test}"


def journals(root: Path) -> list[str]:
    """A line for each journal that an interrupted recording has left and none adds to, and for each refused run."""
    lines = []
    for file in files.below(layout.journal_folder(root), ".jsonl"):
        try:
            if files.growing(file):
                continue
            run, torn = journal.read(files.read(file))
        except SnapshotError as error:
            lines.append(f"# {error}")
            continue
        what = f"{run.header.test}, {count(len(run.exchanges))}" if run else "nothing readable"
        lines.append(f"agentreplay recover {quoted(shown(file))}   # {what}{torn_off(torn)}")
    return lines + [
        f"agentreplay recover --policy FILE {quoted(shown(file))}   # refused, a secret was cut out of it"
        for file in refused(root)
    ]


def refused(root: Path) -> list[Path]:
    """The pending runs that the last scan has refused. One that cannot be read is told when somebody takes it."""
    return [file for file in pending(root) if is_refused(file)]


def is_refused(file: Path) -> bool:
    """Whether a pending run is the rest of one that was refused."""
    try:
        return CUT in codec.loads(reading.data(file), file=shown(file)).run.header.kit
    except SnapshotError:
        return False
