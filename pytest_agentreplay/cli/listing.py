"""`agentreplay ls`: the snapshots, pending runs and cases of a project, an entry for each, and their totals."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.cli.saying import DAMAGED, NOTHING, SAME, USAGE, complain, say, say_data, say_drawn
from pytest_agentreplay.report import terminal
from pytest_agentreplay.report.escape import escape_line
from pytest_agentreplay.runs.inventory import Entry, days_since, read_inventory
from pytest_agentreplay.snapshots.kit import plural, told_size
from pytest_agentreplay.snapshots.store.display_path import format_path
from pytest_agentreplay.snapshots.store.projects import root_above

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Sequence

    from pytest_agentreplay.cli.verb_table import Verbs

HEAD = ("name", "kind", "models", "outcome", "grade", "turns", "calls", "tokens", "size", "age")
SPARE = ("models", "calls", "size", "grade")
"""Columns that a narrow terminal does without."""
KINDS = {"snapshot": "snapshot", "pending": "pending run", "run": "captured run", "case": "case"}


def add_verbs(verbs: Verbs) -> None:
    """Declare `ls`."""
    ls_verb = verbs.add("ls", ls, "list snapshots, pending runs and cases, with their totals", json=True)
    ls_verb.paths("files, or folders (default: the project)")
    ls_verb.flag("--plain", "for screen readers: one entry a line")


def ls(options: argparse.Namespace) -> int:
    """`agentreplay ls [PATH...] [--json | --plain]`."""
    entries, code = find_entries(options.paths)
    if options.json and code != USAGE:
        say_data({"entries": [describe_entry(entry) for entry in entries], "totals": count_totals(entries)})
    if options.json or not entries:
        return code
    if options.plain:
        rows = ((name, terminal.spell_cells(HEAD[1:], facts)) for name, *facts in map(make_row, entries))
        say("\n".join([*(f"{escape_line(name)}: {facts}" for name, facts in rows), spell_totals(entries)]))
    else:
        console = terminal.open_console()
        table = terminal.make_table(HEAD, map(make_row, entries), console.width, left=5, spare=SPARE)
        say_drawn(console, table, "", terminal.make_text(spell_totals(entries)))
    return code


def find_entries(paths: Sequence[Path]) -> tuple[list[Entry], int]:
    """Return what is recorded in the project, or below the paths, and the exit code; complain of nothing at all."""
    if missing := [path for path in paths if not os.path.lexists(path)]:
        return [], complain(f"there is no {format_path(missing[0])}", USAGE)
    root = root_above(Path.cwd())
    if entries := read_inventory(root, paths):
        return entries, DAMAGED if any(entry.problem for entry in entries) else SAME
    where = ", ".join(map(format_path, paths or [root]))
    return [], complain(f"nothing is recorded in {where}; to record its tests: pytest --snapshot-record", NOTHING)


def describe_entry(entry: Entry) -> dict[str, Any]:
    """Return an entry as plain data."""
    data = asdict(entry) | {"path": format_path(entry.path), "tools": dict(entry.tools)}
    return data | {"uses": [use._asdict() for use in entry.uses]}


def count_totals(entries: Iterable[Entry]) -> dict[str, int]:
    """Return how many entries of each kind there are, and what they hold together."""
    entries = [*entries]
    kinds = Counter(entry.kind for entry in entries)
    return {
        **{kind: kinds[kind] for kind in KINDS},
        "unreadable": sum(bool(entry.problem) for entry in entries),
        **{name: sum(getattr(entry, name) for entry in entries) for name in ("turns", "calls", "bytes")},
        "tokens": sum(entry.input_tokens + entry.output_tokens for entry in entries),
    }


def spell_totals(entries: Iterable[Entry]) -> str:
    """Return the totals in a line."""
    totals = count_totals(entries)
    kinds = ", ".join(plural(totals[kind], noun) for kind, noun in KINDS.items() if totals[kind])
    unread = f"; {totals['unreadable']} cannot be read" * bool(totals["unreadable"])
    amounts = ", ".join(plural(totals[name], name[:-1]) for name in ("turns", "calls"))
    return f"{kinds}: {amounts}, {totals['tokens']:,} tokens, {told_size(totals['bytes'])}{unread}"


def make_row(entry: Entry) -> list[str]:
    """Return the row of an entry in the table; what cannot be read has its reason behind its name."""
    name = format_path(entry.path.parent) if entry.kind == "case" else entry.name  # what other verbs take
    kind = " ".join(filter(None, (entry.kind, entry.state)))
    if entry.problem:
        return [f"{name}: {entry.problem}", kind, "", "unreadable", *[""] * 6]
    models = ", ".join(entry.models[:1]) + f" +{len(entry.models) - 1}" * (len(entry.models) > 1)
    counts = str(entry.turns), str(entry.calls), f"{entry.input_tokens + entry.output_tokens:,}"
    held = counts if entry.calls else [""] * 3
    outcome = "; runs for real: ".join(filter(None, (entry.outcome, ", ".join(entry.unfrozen))))
    facts = name, kind, models, outcome, entry.grade, *held
    return [*facts, told_size(entry.bytes), format_age(entry.recorded)]


def format_age(recorded: str) -> str:
    """Return how long ago that was: "5 h", "12 days"; "" for what is no time."""
    days = days_since(recorded)
    if days is None:
        return ""
    return f"{max(0, int(days * 24))} h" if days < 2 else f"{days:.0f} days"
