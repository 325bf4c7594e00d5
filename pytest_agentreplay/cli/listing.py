"""The verb `ls`: what is recorded in a project, an entry for each; totals by model, tool and age."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.backends.budget import UNPRICED
from pytest_agentreplay.cli.verbs import Exit, Options, Verbs, complain, find_root, say, say_data, say_drawn, say_result
from pytest_agentreplay.model.sizes import format_size
from pytest_agentreplay.report import terminal
from pytest_agentreplay.report.escape import escape_line
from pytest_agentreplay.runs.inventory import Entry, days_since, read_inventory, sum_uses
from pytest_agentreplay.runs.snapshot_selection import select_recorded
from pytest_agentreplay.snapshots.kit import plural
from pytest_agentreplay.snapshots.store import format_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


def add_verbs(verbs: Verbs) -> None:
    """Declare `ls`."""
    verb = verbs.add("ls", ls, json=True)
    about = "files, folders, ids of tests or captured runs (default: the project; with --cold its cases)"
    verb.paths(about, exist=False)
    verb.ways(
        plain="for screen readers: one entry a line",
        totals="only totals: by model, by tool, by age",
        stale="what is out of date: age, models, SDKs, tools, tests",
        cold="what cold cases, which cannot be replayed, lack, and what to capture next",
    )
    verb.add_argument("--by", choices=["model", "hour", "tenant", "tool"], help="with --cold: count by this, too")


HEAD = ("name", "kind", "models", "outcome", "replays", "turns", "calls", "tokens", "size", "age")
SPARE = ("models", "calls", "size", "replays")
"""Columns that a narrow terminal does without."""
REPLAYS = {"A": "yes", "B": "with gaps", "C": "unknown", "cold": "no"}
"""Whether an entry replays, by its grade."""
KINDS = {"snapshot": "snapshot", "pending": "pending run", "run": "captured run", "case": "case"}


def ls(options: Options) -> int:
    """`agentreplay ls [PATH...] [--plain | --totals | --stale | --cold [--by WAY]] [--json]`."""
    if options.by and not options.cold:
        return complain("--by counts cases that cannot be replayed: add --cold")
    options.paths = [file for path in options.paths for file in select_recorded(path, Path.cwd())]
    if missing := [path for path in options.paths if not os.path.lexists(path)]:
        return complain(f"there is no {format_path(missing[0])}")
    if options.stale:
        from pytest_agentreplay.cli.stale_checks import print_stale

        return print_stale(options)
    if options.totals:
        return print_totals(options)
    if options.cold:
        return count_cold(options)
    entries, code = find_entries(options.paths)
    if options.json:
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
    root = find_root()
    if entries := read_inventory(root, paths):
        return entries, Exit.DAMAGED if any(entry.problem for entry in entries) else Exit.SAME
    where = ", ".join(map(format_path, paths or [root]))
    return [], complain(f"nothing is recorded in {where}; to record its tests: pytest --snapshot-record", Exit.NOTHING)


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
    return f"{kinds}: {amounts}, {totals['tokens']:,} tokens, {format_size(totals['bytes'])}{unread}"


def make_row(entry: Entry) -> list[str]:
    """Return the row of an entry in the table; what cannot be read has its reason behind its name."""
    name = format_path(entry.path.parent) if entry.kind == "case" else entry.name  # what other verbs take
    kind = " ".join(filter(None, (entry.kind, entry.state)))
    if entry.problem:
        return [f"{name}: {entry.problem}", kind, "", "unreadable", *[""] * 6]
    models = ", ".join(entry.models[:1]) + f" +{len(entry.models) - 1}" * (len(entry.models) > 1)
    counts = str(entry.turns), str(entry.calls), f"{entry.input_tokens + entry.output_tokens:,}"
    cells = counts if entry.calls else [""] * 3
    outcome = "; runs for real: ".join(filter(None, (entry.outcome, ", ".join(entry.unfrozen))))
    facts = name, kind, models, outcome, REPLAYS.get(entry.grade, entry.grade), *cells
    return [*facts, format_size(entry.bytes), format_age(entry.recorded)]


def format_age(recorded: str) -> str:
    """Return how long ago that was: "5 h", "12 days"; "" for what is no time."""
    days = days_since(recorded)
    if days is None:
        return ""
    return f"{max(0, int(days * 24))} h" if days < 2 else f"{days:.0f} days"


AGES = {"up to 7 days": 7.0, "up to 30 days": 30.0, "up to 180 days": 180.0, "older": float("inf")}
SHOWN = 3  # files of one content that are named; --json has all
TOKENS = ("input_tokens", "output_tokens")


def print_totals(options: Options) -> int:
    """`agentreplay ls --totals [PATH...] [--json]`."""
    entries, code = find_entries(options.paths)
    if not (entries or options.json):
        return code
    data = summarize(entries)
    if options.json:
        say_data(data)
    else:
        console = terminal.open_console()
        say_drawn(console, *draw(data, spell_totals(entries), console.width))
    for entry in entries:
        if entry.problem:
            complain(f"{format_path(entry.path)}: {entry.problem}", Exit.DAMAGED)
    return code


def count_cold(options: Options) -> int:
    """`agentreplay ls --cold [PATH...] [--by model|hour|tenant|tool] [--json]`."""
    from pytest_agentreplay.runs.case_files.failures import survey

    places = options.paths or [find_root() / "cases"]
    cold_cases = survey(places, options.by)
    for why in cold_cases.unread:
        complain(why, Exit.SAME)
    say_result(options, cold_cases.plain(), cold_cases.lines())
    where = ", ".join(map(format_path, places))
    return Exit.SAME if cold_cases.cold else complain(f"every case in {where} can be replayed", Exit.NOTHING)


def summarize(entries: Sequence[Entry]) -> dict[str, Any]:
    """Return the totals as plain data. A cost is None where that of a part of it is not known."""
    total = {**count_totals(entries), "seconds": round(sum(entry.seconds for entry in entries), 3)}
    uses = [use for entry in entries for use in entry.uses]
    models = sorted(dict.fromkeys(use.model for use in uses))
    by_model = [sum_uses(model, (use for use in uses if use.model == model))._asdict() for model in models]
    tools: dict[str, list[int]] = {}
    copies: dict[str, list[Entry]] = {}
    for entry in entries:
        for name, calls in entry.tools:
            tools.setdefault(name, []).append(calls)
        if entry.calls:
            copies.setdefault(entry.content, []).append(entry)
    return {
        "totals": total | sum_uses("", uses)._asdict(),
        "by_model": by_model,
        "by_tool": [{"tool": name, "recordings": len(n), "calls": sum(n)} for name, n in sorted(tools.items())],
        "by_age": [*count_ages(entries)],
        "duplicates": [[format_path(entry.path) for entry in same] for same in copies.values() if len(same) > 1],
    }


def count_ages(entries: Iterable[Entry]) -> Iterator[dict[str, Any]]:
    """Yield the sums for each age that there is."""
    groups: dict[str, list[Entry]] = {age: [] for age in (*AGES, "not known")}
    for entry in entries:
        days = days_since(entry.recorded)
        groups["not known" if days is None else next(age for age, most in AGES.items() if days <= most)].append(entry)
    for age, group in groups.items():
        if group:
            used = sum_uses("", (use for entry in group for use in entry.uses))
            sums = {name: sum(getattr(entry, name) for entry in group) for name in ("calls", "seconds", "bytes")}
            yield {
                "age": age,
                "recordings": len(group),
                **{name: getattr(used, name) for name in (*TOKENS, "cost")},
                **sums,
            }


TABLES = (
    ("by_model", "model", "calls", *TOKENS, "cost"),
    ("by_tool", "tool", "recordings", "calls"),
    ("by_age", "age", "recordings", "calls", *TOKENS, "cost", "seconds", "bytes"),
)
"""The tables: the key of their rows, what names a row, its amounts."""


def draw(data: dict[str, Any], totals: str, width: int) -> Iterator[Any]:
    """Yield the totals, the tables, and what is not known or there twice."""
    unknown = [row for row in data["by_model"] if row["cost"] is None]
    costs = [row["cost"] for row in data["by_model"] if row["cost"] is not None]
    cost = format_cost(sum(costs)) if costs else "cost not known" if unknown else "no model was asked"
    without = f", without {', '.join(row['model'] for row in unknown)}" * bool(costs and unknown)
    yield terminal.make_text(f"{totals}, {data['totals']['seconds']:,.1f} s, {cost}{without}")
    for key, first, *names in TABLES:
        if data[key]:
            rows = ([row[first], *(format_amount(name, row[name]) for name in names)] for row in data[key])
            yield ""
            yield terminal.make_table([first, *(name.removesuffix("_tokens") for name in names)], rows, width)
    if unpriced := [row["model"] for row in unknown if row["input_tokens"] or row["output_tokens"]]:
        yield terminal.make_text("")
        yield terminal.make_text(UNPRICED.format(unpriced[0]).replace(unpriced[0], ", ".join(unpriced), 1))
    if silent := [row["model"] for row in unknown if row["model"] not in unpriced]:
        yield terminal.make_text("")
        yield terminal.make_text(f"the replies of {', '.join(silent)} do not say their tokens")
    for paths in data["duplicates"]:
        yield terminal.make_text("")
        yield terminal.make_text(f"{plural(len(paths), 'file')} with the same calls and replies:")
        yield from (f"  {escape_line(path)}" for path in paths[:SHOWN])
        yield from [f"  and {len(paths) - SHOWN} more"] * (len(paths) > SHOWN)


def format_amount(name: str, amount: Any) -> str:
    """Return an amount as people read it."""
    if name == "cost":
        return format_cost(amount)
    return format_size(amount) if name == "bytes" else f"{amount:,.1f}" if name == "seconds" else f"{amount:,}"


def format_cost(cost: float | None) -> str:
    """Return dollars, or that they are not known."""
    return "not known" if cost is None else f"${cost:.4f}"
