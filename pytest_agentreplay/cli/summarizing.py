"""`agentreplay summarize`: what a branch changes in recorded runs, as the body of a comment on its pull request."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_agentreplay.cli.saying import DAMAGED, SAME, say, say_data
from pytest_agentreplay.errors import CaseError, SnapshotError
from pytest_agentreplay.snapshots.store import files, layout
from pytest_agentreplay.snapshots.store.display_path import format_path
from pytest_agentreplay.snapshots.store.projects import root_above

if TYPE_CHECKING:
    import argparse

    from pytest_agentreplay.cli.verb_table import Verbs
    from pytest_agentreplay.model.exchanges import JsonObject, Run
    from pytest_agentreplay.report.pull_request import RevisionComparison
    from pytest_agentreplay.snapshots.store.git_revisions import Repository


def add_verbs(verbs: Verbs) -> None:
    """Declare `summarize`."""
    about = "what a branch changes in recorded runs, for its pull request"
    summarize_verb = verbs.add("summarize", summarize, about)
    summarize_verb.add_argument(
        "revisions", metavar="BASE..HEAD", help="two revisions of git; BASE alone: against the files here"
    )
    summarize_verb.flag("--captured", "add what the latest pytest --agentreplay-runs made of captured runs")
    summarize_verb.add_argument("--json", action="store_true", help="print plain data")
    summarize_verb.add_argument("--out", type=Path, metavar="FILE", help="write it there instead of printing it")


def summarize(options: argparse.Namespace) -> int:
    """`agentreplay summarize BASE..HEAD [--captured] [--json] [--out FILE]`."""
    import json

    from pytest_agentreplay.report.pull_request import format_comment
    from pytest_agentreplay.snapshots.store.git_revisions import Repository

    comparison = compare_revisions(Repository(Path.cwd()), options.revisions)
    data = {"verdict": comparison.verdict, **asdict(comparison)}
    comment = format_comment(comparison, f"agentreplay summarize {options.revisions} --json")
    if options.captured:
        from pytest_agentreplay.runs.captured.groups import read_latest

        captured = read_latest(root_above(Path.cwd()))
        comment = f"{comment}\n{captured.pop('markdown')}"
        data["captured"] = captured
    if options.out is not None:
        files.write_whole(options.out, json.dumps(data, indent=2) if options.json else comment)
        say(f"{format_path(options.out)}: {comparison.verdict}")
    elif options.json:
        say_data(data)
    else:
        say(comment.rstrip("\n"))
    return DAMAGED if comparison.unreadable else SAME


def compare_revisions(repository: Repository, words: str) -> RevisionComparison:
    """Return what the revisions `words` record otherwise."""
    from pytest_agentreplay.compare.matching import Matching
    from pytest_agentreplay.providers import READER, RULES
    from pytest_agentreplay.report.pull_request import RevisionComparison, compare_runs, list_case_changes
    from pytest_agentreplay.runs.inventory import read_prices
    from pytest_agentreplay.runs.offline_session import list_accepted_rules

    root = root_above(Path.cwd())
    commits = repository.read_range(words)
    comparison = RevisionComparison(*commits)
    runs: tuple[dict[str, Run], dict[str, Run]] = ({}, {})
    for path in repository.list_changed(*commits):
        try:
            before, after = (repository.read(commit, path) for commit in commits)
            if path.endswith(layout.SUFFIX):
                loaded = [read_run(data, path) for data in (before, after)]
                for of_revision, run in zip(runs, loaded, strict=True):
                    if run is not None:
                        of_revision[path] = run
            else:
                comparison.cases[path] = list_case_changes(read_case(before, path), read_case(after, path))
        except (SnapshotError, CaseError) as error:
            comparison.unreadable[path] = str(error)
    compare_runs(comparison, *runs, Matching(READER, (*RULES, *list_accepted_rules(root))), read_prices(root))
    return comparison


def read_run(data: bytes | None, path: str) -> Run | None:
    """Return the run of a snapshot, None for no file. Raises SnapshotError, for a body that does not come back too."""
    from pytest_agentreplay.cli.locking import restore
    from pytest_agentreplay.snapshots import codec

    if data is None:
        return None
    snapshot = codec.loads(data, file=path)
    restore(snapshot)
    return snapshot.run


def read_case(data: bytes | None, path: str) -> JsonObject | None:
    """Return what a case file says, None for no file. Raises CaseError."""
    from pytest_agentreplay.snapshots.codec import strict_yaml

    if data is None:
        return None
    value = strict_yaml.load(data, file=path, error=CaseError).value
    return value if isinstance(value, dict) else {"the whole": value}
