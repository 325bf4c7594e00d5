"""`agentreplay check audit`: fields of calls that are not compared, and whether replies depend on them."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from pytest_agentreplay.cli.verbs import Exit, Options, Verbs, complain, find_root, say_result
from pytest_agentreplay.runs.key_audit_run import ProjectAudit, audit_snapshots, list_project_rules
from pytest_agentreplay.snapshots.kit import plural
from pytest_agentreplay.snapshots.store import format_path, locks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_agentreplay.backends.order_permutations import Separator
    from pytest_agentreplay.model.rules import Rule


def add_verbs(verbs: Verbs) -> None:
    """Declare `check audit`."""
    verb = verbs.add("check audit", audit, json=True)
    verb.paths("snapshots, or folders (default: all)")
    verb.flag("--rules", "print the fields that are not compared, and why")


VALUES = 4
"""Values of a field that are named; of the others their number."""


def audit(options: Options) -> int:
    """`agentreplay check audit [PATH...] [--json]`, `agentreplay check audit --rules`."""
    if options.rules:
        return print_rules(options)
    root = find_root()
    paths = options.paths or [root]
    snapshots = [file for path in paths for file in (locks.snapshots(path) if path.is_dir() else [path])]
    if not snapshots:
        return complain(f"there is no *.snapshot.json below {', '.join(map(format_path, paths))}", Exit.NOTHING)
    audited = audit_snapshots(root, dict.fromkeys(snapshots))
    say_result(options, dump_audit(audited), format_audit(audited), audited.damaged)
    if audited.damaged:
        return Exit.DAMAGED
    flagged = any(separator.verdict == "flagged" for separator in audited.separators)
    return Exit.DIVERGED if flagged or audited.faults else Exit.SAME


def print_rules(options: Options) -> int:
    """`agentreplay check audit --rules [--json]`."""
    every = list_project_rules(find_root())
    say_result(options, [asdict(rule) for rule in every], map(format_rule, every))
    return Exit.SAME


def format_rule(rule: Rule) -> str:
    """Return a rule in two lines: what it leaves out, and why."""
    path = f"{rule.path} ~ {rule.pattern}" if rule.pattern else rule.path
    return f"{rule.action:5}  {rule.scope:16} {rule.part:6} {path}\n       {rule.reason}  ({rule.source})"


def format_audit(audited: ProjectAudit) -> Iterator[str]:
    """Yield the lines of the report."""
    counts, unchanged = audited.sensitivity, audited.unchanged
    before = f", {unchanged} unchanged since an earlier audit" if unchanged else ""
    yield f"{plural(audited.snapshots, 'snapshot')}{before}"
    hidden = [f"{number} hidden by {label}" for label, number in counts.hidden.most_common()]
    yield ";\n  ".join([f"key sensitivity {counts.seen}/{counts.tried}", *hidden])
    for file, faults in audited.faults.items():
        for fault in faults:
            yield f"{file}: {fault}: the key does not show it, and no rule says why; please report it"
    for separator in audited.separators:
        if separator.verdict != "noise":
            yield from format_separator(separator, audited.advice.get(separator.path, ""))


def format_separator(separator: Separator, advice: str) -> Iterator[str]:
    """Yield the lines about a field that decides on replies."""
    yield f"{separator.verdict}: {separator.path} separates the replies to calls that are otherwise the same"
    yield (
        f"  purity {separator.purity:.2f}, p = {separator.p_value:.3f} (limit {separator.limit:.3f}), "
        f"{plural(separator.collisions, 'call')}"
    )
    values = [f"{value} ({number})" for value, number in separator.values.items()]
    more = [f"{len(values) - VALUES} more"] if len(values) > VALUES else []
    yield f"  values: {', '.join(values[:VALUES] + more)}"
    yield f"  to compare it, {advice}"


def dump_audit(audited: ProjectAudit) -> dict[str, object]:
    """Return the report as plain data."""
    counts = audited.sensitivity
    return {
        "snapshots": audited.snapshots,
        "unchanged": audited.unchanged,
        "tried": counts.tried,
        "seen": counts.seen,
        "hidden": dict(counts.hidden),
        "faults": audited.faults,
        "separators": [
            {**asdict(separator), "advice": audited.advice.get(separator.path, "")} for separator in audited.separators
        ],
        "damaged": [str(error) for error in audited.damaged],
    }
