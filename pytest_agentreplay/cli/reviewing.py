"""`agentreplay review`: pending runs, and snapshots that changed in git, accepted or left by single keys."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_agentreplay.cli.saying import NOTHING, SAME, complain, say, say_data, width
from pytest_agentreplay.snapshots.store.display_path import format_path

if TYPE_CHECKING:
    import argparse

    from pytest_agentreplay.cli.verb_table import Verbs
    from pytest_agentreplay.runs.pending_review import ReviewedRun

KEYS = "a accept  A accept all of this kind  s skip  d whole difference  q quit  ? help"


def add_verbs(verbs: Verbs) -> None:
    """Declare `review`."""
    review_verb = verbs.add("review", review, "look at what waits, turn by turn, and accept or leave it by a key")
    review_verb.add_argument(
        "what", nargs="*", metavar="PATH", help="files, folders, or the ids of tests (default: the whole project)"
    )
    review_verb.add_argument("--list", action="store_true", help="only list what waits, and what to type")
    review_verb.add_argument("--json", action="store_true", help="print the list as plain data")


def review(options: argparse.Namespace) -> int:
    """`agentreplay review [PATH...] [--list | --json]`."""
    from pytest_agentreplay.runs.pending_review import list_reviewed
    from pytest_agentreplay.snapshots.store.git_revisions import explain_no_head

    runs, why = list_reviewed(options.what, Path.cwd()), explain_no_head(Path.cwd())
    uncompared = f"snapshots are not compared with git's HEAD: {why}"
    if why and runs:
        complain(uncompared, SAME)
    if options.json:
        say_data({"runs": [as_data(reviewed) for reviewed in runs]})
        return SAME if runs else NOTHING
    if not runs:
        rest = uncompared if why else "no snapshot differs from git's HEAD"
        return complain(f"nothing waits: no run is pending, and {rest}", NOTHING)
    if not options.list and sys.stdin.isatty() and sys.stdout.isatty():
        return walk(runs)
    for reviewed in runs:
        say(reviewed.describe())
        if command := reviewed.find_command():
            say(f"          {command}{'' if reviewed.pending else '   # to undo it; there is nothing to accept'}")
    return SAME


def walk(runs: list[ReviewedRun]) -> int:
    """Walk the runs by keys. What was accepted stays so, however the walk ends."""
    from pytest_agentreplay.cli.locking import remind
    from pytest_agentreplay.cli.stepping import open_keys, read_command
    from pytest_agentreplay.runs.pending_review import ReviewWalk

    steps = ReviewWalk(runs, width=width())
    say(f"{KEYS}\n\n{steps.show()}")
    try:
        with open_keys() as read_key:
            while not steps.done and (command := read_command(read_key)) is not None:
                if (text := steps.obey(command)) is None:
                    break
                say(text)
    finally:
        say(steps.summarize())
        remind([reviewed.home for reviewed in steps.taken])
    return SAME


def as_data(reviewed: ReviewedRun) -> dict[str, object]:
    """Return a run under review as plain data."""
    header = reviewed.run.header if reviewed.run is not None else None
    return {
        "state": reviewed.state,
        "snapshot": format_path(reviewed.home),
        "pending": format_path(reviewed.pending.file) if reviewed.pending is not None else "",
        "test": header.test if header is not None else "",
        "outcome": header.outcome if header is not None else {},
        "problem": reviewed.problem,
        "command": reviewed.find_command(),
        "divergences": [finding.plain() for finding in reviewed.findings],
    }
