"""The verbs about files of snapshots: `verify`, seal, recover and lock them, `mv` renamed ones, `prune` unused ones."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from pytest_agentreplay.cli.runs import PYTEST_CODES, REASONS
from pytest_agentreplay.cli.verbs import Exit, Options, Verbs, complain, find_root, say
from pytest_agentreplay.errors import SnapshotError, SnapshotMissing
from pytest_agentreplay.model.exchanges import FrameCall, FramesReply, HttpCall, HttpReply
from pytest_agentreplay.model.paths import accepting_edit, quote_word
from pytest_agentreplay.redaction.policy import join_policies
from pytest_agentreplay.report.escape import escape_line
from pytest_agentreplay.report.finding import format_restoring
from pytest_agentreplay.report.summary import UnusedSnapshots, restore_plain
from pytest_agentreplay.report.transcript import list_edit_notes
from pytest_agentreplay.runs import accept as accepting
from pytest_agentreplay.runs.captured.groups import list_redundant
from pytest_agentreplay.runs.own_pytest import prepare_pytest
from pytest_agentreplay.runs.redact import redaction_setup
from pytest_agentreplay.runs.snapshot_selection import check_name, find_home, find_store, move_snapshots
from pytest_agentreplay.runs.unused_snapshots import delete_unused, move_command
from pytest_agentreplay.snapshots import codec
from pytest_agentreplay.snapshots.kit import plural
from pytest_agentreplay.snapshots.store import files, format_path, layout, locks, projects, reading
from pytest_agentreplay.snapshots.store.run_store import RunStore

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def add_verbs(verbs: Verbs) -> None:
    """Declare `verify`, `mv` and `prune`."""
    verb = verbs.add("verify", verify, policy=True)
    verb.paths("files, or folders with what is below them and their locks (default: the project)", exist=False)
    signers = "these keys alone may have signed the lock of each folder (ssh-keygen's allowed signers)"
    verb.value("--signers", "FILE", signers, type=Path)
    verb.flag("--locked", "fail where a folder has no lock, too")
    verb.ways(
        accept_edit="seal snapshots that were edited on purpose, with --reason",
        recover="list interrupted and refused recordings, or make a pending run of one; --policy redacts it more",
        lock="list all snapshots below the folder with their digests in its lock",
    )
    verb.value("--reason", "WHY", "with --accept-edit: why it was edited; kept in the file", default="")
    verb.value("--sign", "KEY", "with --lock: sign it with this ssh key, by ssh-keygen", type=Path)
    mv_verb = verbs.add("mv", mv)
    for name, about in (("old", "the former node id, or test file"), ("new", "the node id, or test file, of today")):
        mv_verb.value(name, name.upper(), about)
    prune_verb = verbs.add("prune", prune)
    prune_verb.value("store", "STORE", "a store of captured runs, with --like", nargs="?")
    prune_verb.flag("--like", "delete captured runs that add nothing: of each kind all but the smallest and the newest")
    prune_verb.flag("--dry-run", "only list them")


def say_line(text: str) -> None:
    """Print what may hold the names of files and the words of people, on one line."""
    say(escape_line(text))


def warn(error: Exception | str, code: int = Exit.USAGE) -> int:
    """Print on stderr, on one line, what is not right; return `code`."""
    return complain(escape_line(str(error)), code)


def verify(options: Options) -> int:
    """`agentreplay verify [PATH...] [--signers FILE | --accept-edit --reason WHY | --recover | --lock]`."""
    if options.policy and not options.recover:
        return complain("--policy is for recordings that were refused: add --recover")
    if options.reason and not options.accept_edit:
        return complain("--reason is for a snapshot that was edited on purpose: add --accept-edit")
    if options.recover:
        return recover(options.paths, options.policy or ())
    if options.accept_edit:
        if not options.paths:
            return complain("say which snapshot was edited: agentreplay verify FILE --accept-edit --reason WHY")
        return max(reseal(path, options.reason.strip()) for path in options.paths)
    paths = [*map(check_name, options.paths)] or [find_root()]
    if options.lock or options.sign is not None:
        if not options.lock or len(paths) > 1 or options.signers is not None:
            return warn("one folder at a time is locked: agentreplay verify DIR --lock [--sign KEY]")
        return lock_folder(paths[0].absolute(), options.sign)
    folders = [path for path in paths if path.is_dir()]
    if options.signers is not None and len(folders) < len(paths):
        return warn("--signers: name the folders whose locks were signed, and no single file")
    targets = [
        file for path in paths for file in (files.list_below(path, layout.RECORDED) if path in folders else [path])
    ]
    guards = [lock for folder in folders for lock in locks.find_locks(folder.absolute())]
    if not (targets or guards or options.signers):
        return warn(f"there is no *.snapshot.json below {', '.join(map(format_path, paths))}", Exit.NOTHING)
    worst = max([Exit.SAME, *map(verify_snapshot, targets), *map(verify_lock, guards)])
    for folder in folders if options.locked else ():
        if not files.exists(folder / projects.LOCK):
            name = format_path(folder)
            how = f"agentreplay verify {quote_word(name)} --lock"
            worst = warn(f"{name}: has no {projects.LOCK}; to write it: {how}", Exit.DAMAGED)
    if options.signers is not None:
        worst = max([worst, *(verify_signature(folder / projects.LOCK, options.signers) for folder in folders)])
    return worst


def reseal(file: Path, reason: str) -> int:
    """`agentreplay verify FILE --accept-edit --reason WHY`."""
    if not (reason and reason.isprintable()):
        return complain("--reason: say why, in one line of plain text; it is kept in the file")
    text = reading.data(file)
    if codec.loads(text, file=format_path(file)).sealed:
        return complain(f"{format_path(file)}: was not edited after it was recorded", Exit.NOTHING)
    new = codec.reseal(text, reason, file=format_path(file), at=f"{datetime.now(UTC):%Y-%m-%d}")
    files.write_if_unchanged(file, new, hashlib.sha256(text).hexdigest())
    say(f"{format_path(file)}: sealed again: {reason}")
    remind([file])
    return Exit.SAME


def recover(journals: Sequence[Path], policies: Sequence[str]) -> int:
    """`agentreplay verify --recover [--policy FILE] [JOURNAL]`."""
    root = find_root()
    policy = join_policies(redaction_setup.load_policies(policies), redaction_setup.load_project_policy(root))
    chosen = journals or (accepting.list_refused(root) if policies else [])
    for file in chosen:
        say(accepting.recover(file.absolute(), os.environ, policy))
    if chosen:
        return Exit.SAME
    lines = accepting.list_journals(root)
    for line in lines:
        say(line)
    return Exit.SAME if lines else complain(f"no recording was interrupted in {root}", Exit.NOTHING)


def verify_snapshot(file: Path) -> int:
    """Print whether one snapshot is whole, and why it was edited; return the exit code."""
    try:
        data = reading.data(file)
        snapshot = codec.loads(data, file=format_path(file))
        restore(snapshot)
        edited = [] if snapshot.sealed else codec.list_edits(data, file=format_path(file))
    except SnapshotError as error:
        return warn(error, Exit.USAGE if isinstance(error, SnapshotMissing) else Exit.DAMAGED)
    if edited:
        how = f"if the edit is meant: {accepting_edit(format_path(file))}"
        return warn(f"{format_path(file)}: edited after it was recorded: {', '.join(edited)}; {how}", Exit.DAMAGED)
    if snapshot.broken:
        return warn(f"{format_path(file)}: {snapshot.broken}; {format_restoring(format_path(file))}", Exit.DAMAGED)
    edits = [f"whole; {note}" for note in list_edit_notes(snapshot)]
    say_line(f"{format_path(file)}: {' '.join(edits) or 'whole and unedited'}")
    return Exit.SAME


def restore(snapshot: codec.Snapshot) -> None:
    """Restore every body of a snapshot. Raises SnapshotUnreadable for one that does not come back."""
    for x in snapshot.run.exchanges:
        for side in (x.call, x.outcome):
            if isinstance(side, HttpCall | HttpReply | FrameCall | FramesReply):
                side.body.data  # noqa: B018  restoring it is the check


def verify_lock(lock: Path) -> int:
    """Print whether the snapshots are those of their lock; return the exit code."""
    try:
        differences = locks.check(lock)
    except SnapshotError as error:
        return warn(error, Exit.DAMAGED)
    for difference in differences:
        warn(f"{format_path(lock)}: {difference}", Exit.DAMAGED)
    if differences:
        return warn(f"if that is meant: agentreplay verify {quote_word(format_path(lock.parent))} --lock", Exit.DAMAGED)
    say_line(f"{format_path(lock)}: the snapshots are those that were locked")
    return Exit.SAME


def verify_signature(lock: Path, signers: Path) -> int:
    """Print who has signed a lock; return the exit code."""
    try:
        name = locks.find_signer(lock, signers)
    except SnapshotError as error:
        return warn(error, Exit.DAMAGED)
    say_line(f"{format_path(lock)}: signed by {name}")
    return Exit.SAME


def lock_folder(folder: Path, key: Path | None) -> int:
    """`agentreplay verify [DIR] --lock [--sign KEY]`."""
    file = folder / projects.LOCK
    if not folder.is_dir():
        return warn(f"{format_path(folder)}: there is no such folder")
    if not files.exists(file) and not any(locks.snapshots(folder)):
        return warn(f"there is no *.snapshot.json below {format_path(folder)}", Exit.NOTHING)
    done = locks.write(folder)
    if isinstance(done, list):
        for why in done:
            warn(why, Exit.DAMAGED)
        how = "restore these, or agentreplay verify FILE --accept-edit --reason WHY"
        return warn(f"{format_path(file)}: not written; {how}", Exit.DAMAGED)
    say_line(f"{format_path(file)}: {plural(done, 'snapshot')} locked")
    if key is not None:
        say_line(f"{format_path(locks.sign_lock(file, key))}: signed")
    return Exit.SAME


def remind(changed: Iterable[Path]) -> None:
    """Print which locks no longer fit, now that these snapshots were written or removed by hand."""
    root = find_root()
    for file in dict.fromkeys(file for snapshot in changed for file in projects.locks_over(snapshot.absolute(), root)):
        if locks.list_faults(file):
            say_line(
                f"{format_path(file)}: no longer fits; to lock what is there: "
                f"agentreplay verify {quote_word(format_path(file.parent))} --lock"
            )


def mv(options: Options) -> int:
    """`agentreplay mv OLD NEW`."""
    here = Path.cwd()
    store = find_store(find_root())
    for line in move_snapshots(store, here, options.old, options.new):
        say(line)
    remind([find_home(store, options.old), find_home(store, options.new)])
    return Exit.SAME


def prune(options: Options) -> int:
    """`agentreplay prune [STORE --like] [--dry-run]`."""
    if options.like or options.store:
        return prune_captured(options)
    root = find_root()
    code, unused = run_all_tests(root)
    if why := unused.why if unused is not None else REASONS.get(code):
        return complain(
            f"nothing is deleted, because this was no full run: {why}", Exit.USAGE if code == 4 else Exit.DIVERGED
        )
    if code not in PYTEST_CODES:
        return complain(f"nothing is deleted: pytest ended with {code}", Exit.CANNOT)
    went, damaged = delete_unused(unused, dry=options.dry_run) if unused is not None else ([], [])
    for file in went:
        say(f"{'unused ' if options.dry_run else 'deleted'}   {format_path(file)}")
    if not options.dry_run:
        remind(map(Path, went))
    return report_kept(unused.possible_moves if unused is not None else (), damaged, went)


def prune_captured(options: Options) -> int:
    """`agentreplay prune STORE --like [--dry-run]`."""
    if not (options.like and options.store):
        return complain("a store of captured runs and --like belong together: agentreplay prune STORE --like")
    store = RunStore(options.store)
    entries = [entry for entry in store.list_runs() if not entry.problem]
    if not entries:
        return complain(f"{options.store}: there are no captured runs, which lie at NAME/DAY/ID.run.json", Exit.NOTHING)
    redundant = [*list_redundant(entries)]
    for entry in redundant:
        if not options.dry_run:
            store.delete(entry)
        say(f"{'unused ' if options.dry_run else 'deleted'}   {entry.where}")
    kept = f"{len(entries) - len(redundant):,} of {len(entries):,} runs are kept"
    say(f"{kept}: of each name, models, tools, error and length the smallest and the newest")
    return Exit.SAME if redundant else Exit.NOTHING


def run_all_tests(root: Path) -> tuple[int, UnusedSnapshots | None]:
    """Run all tests offline; return pytest's code, and what is unused, None where there was nothing to look at."""
    with TemporaryDirectory() as folder:
        into = Path(folder) / "unused.json"
        words = ["-q", "--agentreplay-mode=model", f"--agentreplay-unused-into={into}"]
        command, environ = prepare_pytest(root, words)
        code = subprocess.run(command, cwd=root, env=environ, check=False).returncode  # noqa: S603
        return code, restore_plain(UnusedSnapshots, json.loads(into.read_bytes())) if into.is_file() else None


def report_kept(kept: Sequence[tuple[str, str, str]], unreadable: list[str], went: list[str]) -> int:
    """Print what was left where it is, and what to do about it; return the exit code."""
    for file, old, new in kept:
        say(f"kept      {format_path(file)}: {new} has none, and may have had this one:")
        say(f"          {move_command(old, new)}")
    for file in unreadable:
        complain(f"{format_path(file)}: cannot be read as a snapshot, so it is left where it is", Exit.DAMAGED)
    if unreadable:
        return Exit.DAMAGED
    return Exit.SAME if went or kept else complain("no snapshot is unused", Exit.NOTHING)
