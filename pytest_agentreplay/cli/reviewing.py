"""The verbs `review` and `summarize`: what has changed in recorded runs, to accept by keys or as a comment."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_agentreplay.cli import showing
from pytest_agentreplay.cli.snapshot_files import remind, restore
from pytest_agentreplay.cli.verbs import Exit, Options, Verbs, complain, find_root, say, say_data, width, write_pages
from pytest_agentreplay.compare.matching import Matching
from pytest_agentreplay.errors import CaseError, SnapshotError
from pytest_agentreplay.providers import READER, RULES
from pytest_agentreplay.report.pull_request import RevisionComparison, compare_runs, format_comment, list_case_changes
from pytest_agentreplay.report.terminal import wants_colour
from pytest_agentreplay.runs.captured.groups import read_latest
from pytest_agentreplay.runs.inventory import read_prices
from pytest_agentreplay.runs.offline_session import list_accepted_rules
from pytest_agentreplay.runs.pending_review import ReviewedRun, ReviewWalk, list_reviewed
from pytest_agentreplay.snapshots import codec
from pytest_agentreplay.snapshots.codec import strict_yaml
from pytest_agentreplay.snapshots.store import files, format_path, layout
from pytest_agentreplay.snapshots.store.git_revisions import Repository, explain_no_head

if TYPE_CHECKING:
    from pytest_agentreplay.model.exchanges import JsonObject


def add_verbs(verbs: Verbs) -> None:
    """Declare `review` and `summarize`."""
    review_verb = verbs.add("review", review, "look at what waits, turn by turn, and accept or leave it by a key")
    review_verb.value("what", "PATH", "files, folders, or the ids of tests (default: the whole project)", nargs="*")
    review_verb.flag("--list", "only list what waits, and what to type")
    review_verb.flag("--json", "print the list as plain data")
    about = "what a branch changes in recorded runs, for its pull request"
    summarize_verb = verbs.add("summarize", summarize, about)
    about = "two revisions of git; BASE alone: against the files here (default: where your branch began)"
    summarize_verb.value("revisions", "BASE..HEAD", about, nargs="?")
    summarize_verb.flag("--captured", "add what the latest pytest --agentreplay-runs made of captured runs")
    summarize_verb.flag("--json", "print plain data")
    summarize_verb.value("--out", "FILE", "write it there instead of printing it", type=Path)


def review(options: Options) -> int:
    """`agentreplay review [PATH...] [--list | --json]`."""
    runs, why = list_reviewed(options.what, Path.cwd()), explain_no_head(Path.cwd())
    uncompared = f"snapshots are not compared with git's HEAD: {why}"
    if why and runs:
        complain(uncompared, Exit.SAME)
    if options.json:
        say_data({"runs": [as_data(reviewed) for reviewed in runs]})
        return Exit.SAME if runs else Exit.NOTHING
    if not runs:
        rest = uncompared if why else "no snapshot differs from git's HEAD"
        return complain(f"nothing waits: no run is pending, and {rest}", Exit.NOTHING)
    if not options.list and sys.stdin.isatty() and sys.stdout.isatty():
        return walk(runs)
    for reviewed in runs:
        say(reviewed.describe())
        if command := reviewed.find_command():
            say(f"          {command}{'' if reviewed.pending else '   # to undo it; there is nothing to accept'}")
    return Exit.SAME


def walk(runs: list[ReviewedRun]) -> int:
    """Walk the runs by keys. What was accepted stays so, however the walk ends."""
    steps = ReviewWalk(runs, width=width(), colour=wants_colour(sys.stdout))
    text: str | None = steps.show()
    try:
        with showing.open_keys() as read_key:
            while text is not None:
                write_pages(f"{text}\n")
                if steps.done:
                    break
                say(f"\n{steps.show_keys()}")
                command = showing.read_command(read_key)
                text = None if command is None else steps.obey(command)
    finally:
        say(steps.summarize())
        remind([reviewed.home for reviewed in steps.taken])
    return Exit.SAME


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


def summarize(options: Options) -> int:
    """`agentreplay summarize [BASE..HEAD] [--captured] [--json] [--out FILE]`."""
    import json

    repository = Repository(Path.cwd())
    if options.revisions:
        since, commits = "", repository.read_range(options.revisions)
    else:
        since, base = repository.find_base(os.environ.get("GITHUB_BASE_REF", ""))
        commits = base, ""
    comparison = compare_revisions(repository, commits, since)
    data = {"verdict": comparison.verdict, **asdict(comparison)}
    comment = format_comment(
        comparison, f"agentreplay summarize {f'{words} ' if (words := options.revisions) else ''}--json"
    )
    if options.captured:
        captured = read_latest(find_root())
        comment = f"{comment}\n{captured.pop('markdown')}"
        data["captured"] = captured
    if options.out is not None:
        files.write_whole(options.out, json.dumps(data, indent=2) if options.json else comment)
        say(f"{format_path(options.out)}: {comparison.verdict}")
    elif options.json:
        say_data(data)
    else:
        say(comment.rstrip("\n"))
    return Exit.DAMAGED if comparison.unreadable else Exit.SAME


def compare_revisions(repository: Repository, commits: tuple[str, str], since: str) -> RevisionComparison:
    """Return what differs between the recorded runs of two commits; `since` names the branch that the first is of."""
    root = find_root()
    comparison = RevisionComparison(*commits, since=since)
    snapshots: tuple[dict[str, codec.Snapshot], dict[str, codec.Snapshot]] = ({}, {})
    for path in repository.list_changed(*commits):
        try:
            before, after = (repository.read_file(commit, path) for commit in commits)
            if path.endswith(layout.SUFFIX):
                loaded = [read_snapshot(data, path) for data in (before, after)]
                for of_revision, snapshot in zip(snapshots, loaded, strict=True):
                    if snapshot is not None:
                        of_revision[path] = snapshot
            else:
                comparison.cases[path] = list_case_changes(read_case(before, path), read_case(after, path))
        except (SnapshotError, CaseError) as error:
            comparison.unreadable[path] = str(error)
    former, matching = repository.find_renamed(*commits), Matching(READER, (*RULES, *list_accepted_rules(root)))
    compare_runs(comparison, snapshots, former, matching, read_prices(root))
    return comparison


def read_snapshot(data: bytes | None, path: str) -> codec.Snapshot | None:
    """Return a snapshot, None for no file. Raises SnapshotError, for a body that does not come back too."""
    if data is None:
        return None
    snapshot = codec.loads(data, file=path)
    restore(snapshot)
    return snapshot


def read_case(data: bytes | None, path: str) -> JsonObject | None:
    """Return what a case file says, None for no file. Raises CaseError."""
    if data is None:
        return None
    value = strict_yaml.load(data, file=path, error=CaseError).value
    return value if isinstance(value, dict) else {"the whole": value}
