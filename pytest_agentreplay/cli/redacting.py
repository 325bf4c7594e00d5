"""What is removed from files: check a policy, apply one to what is there, look for secrets in any file."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_agentreplay.cli.verbs import Exit, Options, Verbs, complain, find_root, say, say_result
from pytest_agentreplay.errors import AgentReplayError
from pytest_agentreplay.redaction.policy import PLAIN, Policy, difference, join_policies, rules
from pytest_agentreplay.runs.redact import redaction_setup
from pytest_agentreplay.runs.redact.rule_review import RuleHit, redact_snapshot, write
from pytest_agentreplay.runs.snapshot_selection import check_name
from pytest_agentreplay.settings.parsers import parse_redact
from pytest_agentreplay.settings.table import in_toml
from pytest_agentreplay.snapshots.kit import plural
from pytest_agentreplay.snapshots.store import files, format_path, layout
from pytest_agentreplay.snapshots.store.projects import configuration, root_above

if TYPE_CHECKING:
    from collections.abc import Iterable


def add_verbs(verbs: Verbs) -> None:
    """Declare `redact`."""
    verb = verbs.add("redact", redact, json=True, policy=True)
    verb.value("paths", "PATH", "snapshots, pending and captured runs, or folders; with --dry-run any files", nargs="+")
    verb.value("--reason", "WHY", "kept in the files", default="")
    verb.flag("--dry-run", "change nothing, print what is found")


def check_policy(file: Path, baseline: Path | None, paths: list[Path]) -> int:
    """`agentreplay case lint POLICY [--baseline OTHER] [PATH...]`."""
    read = redaction_setup.load_policy(file)
    counts = Counter(rule.key for rule in rules(read))
    say(f"{format_path(file)}: {'adds to the shipped rules' if counts else 'adds nothing to the shipped rules'}")
    for rule in rules(read):
        say(f"  {rule}")
    report_changes(list_snapshots(paths or [find_root()]), read)
    if baseline is None:
        return Exit.SAME
    changes = difference(read, redaction_setup.load_policy(baseline))
    weaker = [change for change in changes if change.weaker]
    say(f"against {format_path(baseline)}: {'the same' if not changes else ''}".rstrip())
    for change in changes:
        say(f"  {'+' if change.added else '-'} {change.rule}{'   weaker' if change.weaker else ''}")
    if not weaker:
        return Exit.SAME
    return complain(f"{format_path(file)}: is weaker than {format_path(baseline)}: {weaker[0].rule}", Exit.DIVERGED)


def report_changes(snapshots: Iterable[Path], read: Policy) -> None:
    """Print what would be redacted in which snapshots; of those that cannot be read, why."""
    total = changed = 0
    for file in snapshots:
        total += 1
        try:
            hits = redact_snapshot(file, read, os.environ, "").hits
        except AgentReplayError as error:
            say(f"{error}")
            continue
        changed += bool(hits)
        report_hits(file, hits)
    say(f"{changed} of {plural(total, 'snapshot')} would change" if total else "there are no snapshots yet")


def report_hits(file: Path, hits: Iterable[RuleHit]) -> None:
    """Print what was found in a file: by category, how often, and where."""
    by_category: dict[str, list[RuleHit]] = {}
    for hit in hits:
        by_category.setdefault(hit.category, []).append(hit)
    for category, every in sorted(by_category.items()):
        places = "; ".join(hit.place for hit in every[:5]) + (f"; {len(every) - 5} more" if len(every) > 5 else "")
        say(f"{format_path(file)}: {category} {sum(hit.count for hit in every)}: {places}")


def redact(options: Options) -> int:
    """`agentreplay redact FILE... [--policy P] [--reason WHY]`, or --dry-run."""
    paths = [*map(Path, options.paths)]
    if options.dry_run:
        return scan(options, paths)
    if options.json:
        return complain("--json prints what is found: add --dry-run")
    if url := next((word for word in options.paths if "://" in word), ""):
        return complain(f"{url}: files are redacted where they lie; redact a copy in a folder")
    chosen, policy_name = chosen_policy(options.policy)
    reason = options.reason.strip() or f"redacted again{f' with {policy_name}' if policy_name else ''}"
    every = [
        redact_snapshot(file, join_policies(chosen, find_project_policy(file)), os.environ, reason)
        for file in list_snapshots(paths)
    ]
    if not every:
        return complain(f"there is no *{layout.SUFFIX} below {', '.join(map(format_path, paths))}", Exit.NOTHING)
    write(every)
    changed = [rewrite for rewrite in every if rewrite.text]
    for rewrite in changed:
        report_hits(rewrite.file, rewrite.hits)
    say(
        f"{len(changed)} of {plural(len(every), 'snapshot')} redacted and sealed again"
        + (f": {changed[0].reason}" if changed else "")
    )
    if changed and policy_name:
        line = f"replays need it too: agentreplay_redact = {policy_name}"
        name, _ = configuration(find_root()) or ("", "")
        say(in_toml(line) if name.endswith(".toml") else line)
    return Exit.SAME if changed else Exit.NOTHING


def scan(options: Options, paths: list[Path]) -> int:
    """`agentreplay redact --dry-run PATH... [--policy P] [--json]`."""
    from pytest_agentreplay.runs.case_files.case_linting import Skipped, files_in, scan_file

    chosen, _ = chosen_policy(options.policy)
    hits: list[tuple[Path, RuleHit]] = []
    skipped: list[tuple[Path, str]] = []
    count = 0
    for file in files_in(paths):
        try:
            policy = join_policies(chosen, find_project_policy(file)) if file.name.endswith(layout.RECORDED) else chosen
            hits += [(file, hit) for hit in scan_file(file, policy, os.environ)]
            count += 1
        except Skipped as left_out:
            skipped.append((file, str(left_out)))
    rows = [{"file": format_path(f), "place": x.place, "category": x.category, "count": x.count} for f, x in hits]
    left = [{"file": format_path(file), "why": why} for file, why in skipped]
    places = [f"{format_path(f)}:{' ' * (not x.place[:1].isdigit())}{x.place}: {x.category}" for f, x in hits]
    total = f"{sum(hit.count for _, hit in hits)} found in {plural(count, 'file')}"
    unread = [] if options.json else [f"{format_path(file)}: not looked into: {why}" for file, why in skipped]
    say_result(options, {"files": count, "found": rows, "skipped": left}, [*places, total], unread)
    if not count:
        return complain(f"there is nothing to look into in {', '.join(map(format_path, paths))}", Exit.NOTHING)
    return Exit.DIVERGED if hits else Exit.SAME


def chosen_policy(words: list[str] | None) -> tuple[Policy, str]:
    """Return what holds for the project here, with what was named beside it; and its name."""
    names = parse_redact(words or (), "--policy")
    policy = join_policies(redaction_setup.load_policies(names), redaction_setup.find_policy(find_root()))
    return policy, ", ".join(names)


def find_project_policy(file: Path) -> Policy:
    """Return the policy of a file's project, where that is another one than the project here."""
    root = root_above(file.absolute().parent)
    return PLAIN if root == find_root() else redaction_setup.find_policy(root)


def list_snapshots(paths: Iterable[Path]) -> list[Path]:
    """Return the snapshots that were named, and those below the folders that were. Raises SettingsError for others."""
    advice = "to look for secrets in any file: agentreplay redact --dry-run FILE"
    paths = [check_name(path, advice) for path in paths]
    return [file for path in paths for file in (files.list_below(path, layout.RECORDED) if path.is_dir() else [path])]
