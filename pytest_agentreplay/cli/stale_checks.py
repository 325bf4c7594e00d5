"""`agentreplay stale`: what of a project's snapshots and cases is out of date, by reason, with the next command."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pytest_agentreplay.cli.project_setup.stale_snapshots import find_stale_snapshots
from pytest_agentreplay.cli.saying import DAMAGED, DIVERGED, NOTHING, SAME, complain, say, say_data
from pytest_agentreplay.compare.retired_models import RETIRED
from pytest_agentreplay.compare.staleness import StaleFact
from pytest_agentreplay.model.paths import quoted
from pytest_agentreplay.runs.case_files.case_linting import cases_in, linted
from pytest_agentreplay.runs.redact.chosen_policy import in_force
from pytest_agentreplay.settings.parsers import stale_of
from pytest_agentreplay.snapshots.kit import plural
from pytest_agentreplay.snapshots.store import locks
from pytest_agentreplay.snapshots.store.display_path import format_path
from pytest_agentreplay.snapshots.store.projects import ini_lines, root_above

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pytest_agentreplay.cli.verb_table import Verbs

SHOWN = 3  # files of one reason that are named
STEPS = {
    "gone": "agentreplay prune --dry-run",
    "tool": "correct the line of agentreplay_tools",
    "dead": "agentreplay lint",
}
RECORD = "pytest --snapshot-record, for the tests that should go on"


def add_verbs(verbs: Verbs) -> None:
    """Declare `stale`."""
    about = "print what of snapshots and cases is out of date: age, models, SDKs, tools"
    stale_verb = verbs.add("stale", stale, about, json=True)
    stale_verb.paths("files, or folders (default: the project)")


def stale(options: argparse.Namespace) -> int:
    """`agentreplay stale [PATH...] [--json]`."""
    root = root_above(Path.cwd())
    paths = options.paths or [root]
    snapshots = [file for path in paths for file in (locks.snapshots(path) if path.is_dir() else [path])]
    if not snapshots:
        return complain(f"there is no *.snapshot.json below {', '.join(map(format_path, paths))}", NOTHING)
    lines, file = ini_lines(root, "agentreplay_stale")
    wanted = stale_of(lines, f"{file}: agentreplay_stale")
    staleness = find_stale_snapshots(
        root,
        dict.fromkeys(snapshots),
        days=wanted["stale_days"],
        retired={**RETIRED, **dict(wanted["retired_models"])},
    )
    facts = staleness.facts | find_dead_fixtures(root, paths)
    if options.json:
        rows = [{**fact._asdict(), "files": [*map(format_path, files)]} for fact, files in facts.items()]
        say_data({"snapshots": staleness.read, "stale": rows})
    else:
        say("\n".join(format_stale(facts, staleness.read)))
    for error in staleness.damaged:
        complain(error, DAMAGED)
    return DAMAGED if staleness.damaged else DIVERGED if facts else SAME


def find_dead_fixtures(root: Path, paths: Iterable[Path]) -> dict[StaleFact, list[Path]]:
    """Return the frozen answers of cases that no call of theirs reaches."""
    policy = in_force(root)
    folders = [folder for folder in cases_in(paths) if folder.is_dir()]
    complaints = [complaint for folder in folders for complaint in linted(folder, policy, {}).complaints]
    files = [Path(complaint.file) for complaint in complaints if complaint.rule == "dead"]
    return {StaleFact("dead", "a fixture that no call of its case reaches"): files} if files else {}


def format_stale(facts: Mapping[StaleFact, Sequence[Path]], read: int) -> Iterator[str]:
    """Yield the reasons, each with its first files and the next command."""
    if not facts:
        yield f"{plural(read, 'snapshot')}, none is stale"
    for fact, files in sorted(facts.items()):
        yield f"{fact.text}: {plural(len(files), 'file')}" if files else fact.text
        yield from (f"  {quoted(format_path(file))}" for file in files[:SHOWN])
        if len(files) > SHOWN:
            yield f"  and {len(files) - SHOWN} more"
        yield f"  next: {STEPS.get(fact.kind, RECORD)}"
