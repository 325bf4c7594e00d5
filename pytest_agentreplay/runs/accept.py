"""What a person accepts: pending runs, what a recording left that was not written, and rules for the whole project.

Also whether a new recording says what its snapshot says: then the old file is kept to the byte, and its diff is empty.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from dataclasses import dataclass, fields, replace
from operator import attrgetter
from typing import TYPE_CHECKING

from pytest_agentreplay.compare.align import divergences
from pytest_agentreplay.compare.matching import Matching
from pytest_agentreplay.errors import SettingsError, SnapshotError, SnapshotMissing, SnapshotUnreadable
from pytest_agentreplay.model.exchanges import Exchange
from pytest_agentreplay.model.paths import quote_word, selecting
from pytest_agentreplay.model.rules import Rule
from pytest_agentreplay.providers import READER, RULES
from pytest_agentreplay.redaction.policy import PLAIN, Policy
from pytest_agentreplay.report.finding import format_keeping
from pytest_agentreplay.runs.offline_session import RULES_FILE, list_accepted_rules
from pytest_agentreplay.runs.redact.final_scan import CUT, scan_run
from pytest_agentreplay.runs.redact.rule_review import Review
from pytest_agentreplay.snapshots import codec
from pytest_agentreplay.snapshots.codec import journal
from pytest_agentreplay.snapshots.kit import table
from pytest_agentreplay.snapshots.store import files, format_path, layout, projects, reading
from pytest_agentreplay.snapshots.store.projects import root_above
from pytest_agentreplay.snapshots.store.snapshots import Store

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from pathlib import Path

    from pytest_agentreplay.model.divergence import Divergence
    from pytest_agentreplay.model.exchanges import Run
    from pytest_agentreplay.snapshots.codec import Snapshot


# What stands apart in a file and yet decides whether a run replays: in which order calls began and ended, and why.
ORDERING_FACTS = ("after", "served", "servers")
read_place = attrgetter(*(f.name for f in fields(Exchange) if f.name not in {"call", "outcome", "timing"}))
"""Where an exchange stands in its run: not what was asked, what came back and how long it took."""


def accept_rule(root: Path, path: str, reason: str) -> str:
    """Accept one rule for all snapshots: the body field at `path` is watched from now on. Return the line to print."""
    accepted = [r for r in list_accepted_rules(root) if r.path != path]
    accepted.append(Rule("http", "body", path, "watch", reason, RULES_FILE))
    rows = [{"path": r.path, "reason": r.reason} for r in sorted(accepted, key=lambda r: r.path)]
    file = root / RULES_FILE
    files.write_whole(file, json.dumps(rows, indent=2, ensure_ascii=False) + "\n")
    return f"{format_path(file)}: {path} is told as drift and no longer compared: {reason}"


def list_divergences(old: Run, new: Run, root: Path, rules: tuple[Rule, ...] = ()) -> tuple[Divergence, ...]:
    """Return every place where `new` parts from `old`, by the rules that the project at `root` has accepted."""
    matching = Matching(READER, (*RULES, *list_accepted_rules(root), *rules))
    return divergences(old, new, READER, matching=matching)


def count_codes(old: Run, new: Run, root: Path, rules: tuple[Rule, ...] = ()) -> dict[str, int]:
    """Return how often each code of a divergence is a change from `old` to `new`, most important first."""
    counts = Counter(divergence.kind.code for divergence in list_divergences(old, new, root, rules))
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def are_all_chosen(codes: Iterable[str], chosen: Collection[str]) -> bool:
    """Return whether `codes` are not empty and all in `chosen`; an empty `chosen` takes any run."""
    present = set(codes)
    return not chosen or (bool(present) and present <= set(chosen))


def explain_nothing_pending(targets: str) -> str:
    """Return that no run is pending for what was typed, and what keeps its recorded replies."""
    return f"no run is pending; to keep the recorded replies under changed requests: {format_keeping(targets)}"


def list_pending(root: Path) -> list[Path]:
    """Return the pending runs below `root`."""
    return files.list_below(layout.pending_folder(root), layout.SUFFIX)


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

    def describe(self) -> str:
        """Return in a few words what it is: calls, outcome, changes."""
        calls, status = count_calls(len(self.run.exchanges)), self.run.header.outcome.get("status", "unknown")
        if self.codes is None:
            return f"{calls}, test {status}, no snapshot before"
        changes = ", ".join(f"{number} {code}" for code, number in self.codes.items())
        return f"{calls}, test {status}, changes: {changes or 'none'}"

    def accept(self) -> str:
        """Put it in its snapshot's place. Return the line to print."""
        files.write_whole(self.home, self.text)
        files.remove(self.file)
        return f"{format_path(self.home)}: taken for {projects.recorded_id(self.file, self.home, self.run.header.test)}"

    def reject(self) -> str:
        """Delete it, if it is still the run that was read. Return the line to print. Raises CannotWrite."""
        files.remove_if_unchanged(self.file, hashlib.sha256(self.text).hexdigest())
        is_left = files.exists(self.file)
        return f"{format_path(self.file)}: {'left, it has been recorded again meanwhile' if is_left else 'deleted'}"


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
            explain_nothing_pending(quote_word(format_path(what))) if files.exists(what) else "there is no such file",
            file=format_path(what),
        )
    text = reading.data(run)  # what is read here is what is written: nobody can exchange the file in between
    new = codec.loads(text, file=format_path(run)).run
    if CUT in new.header.kit:
        raise SettingsError(
            f"{format_path(run)}: was refused, and is not whole; take the rest: "
            f"agentreplay verify --recover --policy FILE {quote_word(format_path(run))}"
        )
    try:
        codes = count_codes(reading.load(home).run, new, root_above(home.parent))
    except SnapshotError:
        codes = None
    return Pending(run, home, text, new, codes)


def list_journals(root: Path) -> list[str]:
    """Return a line for each journal that an interrupted recording has left, and for each refused run."""
    lines = []
    for file in files.list_below(layout.journal_folder(root), ".jsonl"):
        try:
            if files.is_growing(file):
                continue
            run, torn = journal.read_journal(files.read_file(file))
        except SnapshotError as error:
            lines.append(f"# {error}")
            continue
        if run is not None and not run.exchanges and not torn:
            continue  # a killed fixture that made no call: there is nothing to keep
        what = f"{run.header.test}, {count_calls(len(run.exchanges))}" if run else "nothing readable"
        lines.append(f"agentreplay verify --recover {quote_word(format_path(file))}   # {what}{describe_loss(torn)}")
    return lines + [
        f"agentreplay verify --recover --policy FILE {quote_word(format_path(file))}   # refused, a secret was cut out"
        for file in list_refused(root)
    ]


def list_refused(root: Path) -> list[Path]:
    """Return the pending runs that the last scan has refused. One that cannot be read is reported when it is taken."""
    return [file for file in list_pending(root) if is_refused(file)]


def is_refused(file: Path) -> bool:
    """Return whether a pending run is the rest of one that was refused."""
    try:
        return CUT in codec.loads(reading.data(file), file=format_path(file)).run.header.kit
    except SnapshotError:
        return False


def recover(file: Path, environ: Mapping[str, str], policy: Policy = PLAIN) -> str:
    """Make a pending run of the journal `file` (absolute), redacted again; it is never promoted by itself.

    A pending run is redacted again under `policy`; one that was refused becomes the snapshot of its test.
    Return the lines to print. Raises SnapshotUnreadable for what is neither, Leak for what is not clean yet.
    """
    home = layout.home_path(file)
    if home is not None and file.name.endswith(layout.SUFFIX):
        return redact_pending(file, home, environ, policy)
    if files.is_growing(file):
        raise SnapshotUnreadable("is still being recorded; wait until its session is over", file=format_path(file))
    run, torn = journal.read_journal(files.read_file(file))
    if run is None or home is None:
        wrong = "holds no complete record" if home else "is no journal; agentreplay verify --recover lists them"
        raise SnapshotUnreadable(wrong, file=format_path(file))
    text = redact_run(
        replace(run, header=replace(run.header, outcome={"status": "interrupted"})), environ, policy, home
    )
    root = next(up for up in file.parents if up.name == layout.PRIVATE).parent
    path = Store(root).save_pending(home, text)
    files.remove(file)
    return (
        f"{format_path(path)}: {count_calls(len(run.exchanges))} recovered{describe_loss(torn)}\n"
        f"agentreplay accept {quote_word(format_path(path))}"
    )


def redact_pending(file: Path, home: Path, environ: Mapping[str, str], policy: Policy) -> str:
    """Redact the pending run `file` again; the rest of a refused one goes to `home`, unless a passing run is there."""
    run = codec.loads(reading.data(file), file=format_path(file)).run
    cut = run.header.kit.get(CUT)
    text = redact_run(run, environ, policy, home)
    if not isinstance(cut, list) or keeps_passing(home, run):
        files.write_whole(file, text)
        return f"{format_path(file)}: redacted again\nagentreplay accept {quote_word(format_path(file))}"
    files.write_whole(home, text)
    files.remove(file)
    places = f"; a placeholder stands for {'; '.join(map(str, cut))}" if cut else ""
    test = projects.recorded_id(file, home, run.header.test)
    return f"{format_path(home)}: written for {test}{places}\npytest {selecting(test)}"


def redact_run(run: Run, environ: Mapping[str, str], policy: Policy, home: Path) -> str:
    """Return the text of `run`, redacted again under `policy`. Raises Leak."""
    review = Review(run, codec.dumps(run).encode(), policy, environ)
    return scan_run(review.redaction, review.run, format_path(home))


def keeps_passing(home: Path, run: Run) -> bool:
    """Return whether the snapshot is of a run that passed, and `run` did not."""
    try:
        there = codec.loads(reading.data(home), file=format_path(home)).run.header
    except SnapshotMissing:
        return False
    return there.outcome.get("status") == "passed" != run.header.outcome.get("status")


def count_calls(calls: int) -> str:
    """Return a number of calls in words."""
    return f"{calls} call{'s' * (calls != 1)}"


def describe_loss(torn: int) -> str:
    """Return what a kill of the recording has cost, as the end of a message; "" for nothing."""
    return f", {torn} bytes of an unfinished record dropped" if torn else ""


def is_unchanged(previous: Snapshot, text: bytes, new: Run) -> bool:
    """Return whether `new` says what a sealed snapshot with this text says, in the same order of its calls.

    A test whose calls overlap now and did not then would stay red if its old file were kept.
    """
    if not previous.sealed or previous.notes or previous.revisions:
        return False
    old_order, new_order = (
        (
            [*map(read_place, run.exchanges)],
            [run.header.kit.get(name) for name in ORDERING_FACTS],
            table(run.header.kit, "clock").get("mode"),
            [table(run.header.kit, "order").get(name) for name in ("asleep", "apart")],
        )
        for run in (previous.run, new)
    )
    return old_order == new_order and codec.cut_volatile(text.decode()) == codec.cut_volatile(codec.dumps(new))
