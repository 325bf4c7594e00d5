"""The verbs about snapshots whose test is gone: those of a renamed test, and those that no test uses."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from pytest_agentreplay.cli.locking import remind
from pytest_agentreplay.cli.runs import PYTEST_CODES, REASONS
from pytest_agentreplay.cli.saying import CANNOT, DAMAGED, DIVERGED, NOTHING, SAME, USAGE, complain, say
from pytest_agentreplay.report.summary import UnusedSnapshots, restore_plain
from pytest_agentreplay.snapshots.store.display_path import format_path
from pytest_agentreplay.snapshots.store.projects import root_above

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from pytest_agentreplay.cli.verb_table import Verbs


def add_verbs(verbs: Verbs) -> None:
    """Declare `mv` and `prune`."""
    mv_verb = verbs.add("mv", mv, "give the snapshots of a renamed test, class or file their new names")
    for name, about in (("old", "the former node id, or test file"), ("new", "the node id, or test file, of today")):
        mv_verb.add_argument(name, metavar=name.upper(), help=about)
    prune_verb = verbs.add("prune", prune, "run all tests offline, then delete the snapshots that none used")
    prune_verb.value("store", "STORE", "a store of captured runs, with --like", nargs="?")
    prune_verb.flag("--like", "delete captured runs that add nothing: of each kind all but the smallest and the newest")
    prune_verb.flag("--dry-run", "only list them")


def mv(options: argparse.Namespace) -> int:
    """`agentreplay mv OLD NEW`."""
    from pytest_agentreplay.runs.snapshot_selection import Project, move_snapshots

    here = Path.cwd()
    project = Project.find(root_above(here), here)
    for line in move_snapshots(project, options.old, options.new):
        say(line)
    remind([project.path_of(options.old), project.path_of(options.new)])
    return SAME


def prune(options: argparse.Namespace) -> int:
    """`agentreplay prune [STORE --like] [--dry-run]`."""
    if options.like or options.store:
        return prune_captured(options)
    from pytest_agentreplay.runs.unused_snapshots import delete_unused

    root = root_above(Path.cwd())
    code, unused = run_all_tests(root)
    if why := unused.why if unused is not None else REASONS.get(code):
        return complain(f"nothing is deleted, because this was no full run: {why}", USAGE if code == 4 else DIVERGED)
    if code not in PYTEST_CODES:
        return complain(f"nothing is deleted: pytest ended with {code}", CANNOT)
    went, damaged = delete_unused(unused, dry=options.dry_run) if unused is not None else ([], [])
    for file in went:
        say(f"{'unused ' if options.dry_run else 'deleted'}   {format_path(file)}")
    if not options.dry_run:
        remind(map(Path, went))
    return report_kept(unused.possible_moves if unused is not None else (), damaged, went)


def prune_captured(options: argparse.Namespace) -> int:
    """`agentreplay prune STORE --like [--dry-run]`."""
    from pytest_agentreplay.runs.captured.sampling import list_redundant
    from pytest_agentreplay.snapshots.store.run_store import RunStore

    if not (options.like and options.store):
        return complain("a store of captured runs and --like belong together: agentreplay prune STORE --like", USAGE)
    store = RunStore(options.store)
    entries = [entry for entry in store.list_runs() if not entry.problem]
    if not entries:
        return complain(f"{options.store}: there are no captured runs, which lie at NAME/DAY/ID.run.json", NOTHING)
    redundant = [*list_redundant(entries)]
    for entry in redundant:
        if not options.dry_run:
            store.delete(entry)
        say(f"{'unused ' if options.dry_run else 'deleted'}   {entry.where}")
    kept = f"{len(entries) - len(redundant):,} of {len(entries):,} runs are kept"
    say(f"{kept}: of each name, models, tools, error and length the smallest and the newest")
    return SAME if redundant else NOTHING


def run_all_tests(root: Path) -> tuple[int, UnusedSnapshots | None]:
    """Run all tests offline; return pytest's code, and what is unused, None where there was nothing to look at."""
    with TemporaryDirectory() as folder:
        into = Path(folder) / "unused.json"
        words = ("-q", "--agentreplay-mode=model", f"--agentreplay-unused-into={into}")
        code = subprocess.run([sys.executable, "-m", "pytest", *words], cwd=root, check=False).returncode  # noqa: S603
        return code, restore_plain(UnusedSnapshots, json.loads(into.read_bytes())) if into.is_file() else None


def report_kept(kept: Sequence[tuple[str, str, str]], unreadable: list[str], went: list[str]) -> int:
    """Print what was left where it is, and what to do about it; return the exit code."""
    from pytest_agentreplay.runs.unused_snapshots import move_command

    for file, old, new in kept:
        say(f"kept      {format_path(file)}: {new} has none, and may have had this one:")
        say(f"          {move_command(old, new)}")
    for file in unreadable:
        complain(f"{format_path(file)}: cannot be read as a snapshot, so it is left where it is", DAMAGED)
    if unreadable:
        return DAMAGED
    return SAME if went or kept else complain("no snapshot is unused", NOTHING)
