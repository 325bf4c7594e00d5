"""Accepting what has been reviewed: pending runs, journals of interrupted recordings, project-wide rules."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_agentreplay import codec
from pytest_agentreplay.codec import journal
from pytest_agentreplay.core.align import divergences
from pytest_agentreplay.core.matching import Matching
from pytest_agentreplay.core.paths import quoted
from pytest_agentreplay.core.rules import Rule
from pytest_agentreplay.dialects import READER, RULES
from pytest_agentreplay.errors import SettingsError, SnapshotError, SnapshotMissing
from pytest_agentreplay.redact.final_scan import CUT
from pytest_agentreplay.runs.accepted_rules import RULES_FILE, accepted_rules
from pytest_agentreplay.runs.recovery import count, torn_off
from pytest_agentreplay.store import files, layout, projects, reading
from pytest_agentreplay.store.display_path import format_path
from pytest_agentreplay.store.projects import root_above

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from pathlib import Path

    from pytest_agentreplay.core.model import Run

NOTHING_PENDING = "no run is pending for it; pytest --snapshot-record makes one where the recorded one has to stay"


def rule(root: Path, path: str, reason: str) -> str:
    """Accept one rule for all snapshots: the body field at `path` is watched from now on. Return the line to print."""
    accepted = [r for r in accepted_rules(root) if r.path != path]
    accepted.append(Rule("http", "body", path, "watch", reason, RULES_FILE))
    rows = [{"path": r.path, "reason": r.reason} for r in sorted(accepted, key=lambda r: r.path)]
    file = root / RULES_FILE
    files.write_whole(file, json.dumps(rows, indent=2, ensure_ascii=False) + "\n")
    return f"{format_path(file)}: {path} is told as drift and no longer compared: {reason}"


def codes_between(old: Run, new: Run, root: Path, rules: tuple[Rule, ...] = ()) -> dict[str, int]:
    """Return how often each code of a divergence is a change from `old` to `new`, most important first."""
    matching = Matching(READER, (*RULES, *accepted_rules(root), *rules))
    counts = Counter(one.kind.code for one in divergences(old, new, READER, matching=matching))
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def all_wanted(codes: Iterable[str], chosen: Collection[str]) -> bool:
    """Return whether each of `codes`, and at least one, is in `chosen`; nobody asks where that is empty."""
    present = set(codes)
    return not chosen or (bool(present) and present <= set(chosen))


def pending(root: Path) -> list[Path]:
    """The pending runs below `root`."""
    return files.below(layout.pending_folder(root), layout.SUFFIX)


@dataclass(frozen=True, slots=True)
class Pending:
    """A pending run: its file, the snapshot's place, its text, what it is a run of, and how it differs from that.

    `codes` counts the divergences from the snapshot that stands there; None where there is none, or an unreadable one.
    """

    file: Path
    home: Path
    text: bytes
    run: Run
    codes: dict[str, int] | None

    def about(self) -> str:
        """Return in a few words what it is: calls, outcome, changes."""
        calls, status = count(len(self.run.exchanges)), self.run.header.outcome.get("status", "unknown")
        if self.codes is None:
            return f"{calls}, test {status}, no readable snapshot before"
        changes = ", ".join(f"{number} {code}" for code, number in self.codes.items())
        return f"{calls}, test {status}, changes: {changes or 'none'}"

    def take(self) -> str:
        """Put it in its snapshot's place; returns the line to print."""
        files.write_whole(self.home, self.text)
        files.remove(self.file)
        return f"{format_path(self.home)}: taken for {projects.recorded_id(self.file, self.home, self.run.header.test)}"


def read_pending(what: Path) -> Pending:
    """Return the pending run of `what`, its own file or its snapshot, absolute.

    Raises SnapshotMissing where nothing is pending, SettingsError for one that was refused.
    """
    run, home = what, layout.home_path(what)
    if home is None:
        waiting = (layout.pending_path(up, what) for up in what.parents)
        run, home = next((file for file in waiting if files.exists(file)), what), what
    if run == home:
        raise SnapshotMissing(
            NOTHING_PENDING if files.exists(what) else "there is no such file", file=format_path(what)
        )
    text = reading.data(run)
    new = codec.loads(text, file=format_path(run)).run
    if CUT in new.header.kit:
        raise SettingsError(
            f"{format_path(run)}: was refused, and is not whole; take the rest: "
            f"agentreplay recover --policy FILE {quoted(format_path(run))}"
        )
    try:
        codes = codes_between(reading.load(home).run, new, root_above(home.parent))
    except SnapshotError:
        codes = None
    return Pending(run, home, text, new, codes)


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
        lines.append(f"agentreplay recover {quoted(format_path(file))}   # {what}{torn_off(torn)}")
    return lines + [
        f"agentreplay recover --policy FILE {quoted(format_path(file))}   # refused, a secret was cut out of it"
        for file in refused(root)
    ]


def refused(root: Path) -> list[Path]:
    """The pending runs that the last scan has refused. One that cannot be read is told when somebody takes it."""
    return [file for file in pending(root) if is_refused(file)]


def is_refused(file: Path) -> bool:
    """Whether a pending run is the rest of one that was refused."""
    try:
        return CUT in codec.loads(reading.data(file), file=format_path(file)).run.header.kit
    except SnapshotError:
        return False
