"""`agentreplay lineup`: which layer makes a run drift, by runs with some layers released, or between two recordings."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.cli.runs import find_test, read_pair
from pytest_agentreplay.cli.saying import DIVERGED, INCONCLUSIVE, SAME, say, say_data
from pytest_agentreplay.core.kit import plural
from pytest_agentreplay.core.paths import quoted
from pytest_agentreplay.store.display_path import shown

if TYPE_CHECKING:
    import argparse

CODES = {"same": SAME, "drifted": DIVERGED, "inconclusive": INCONCLUSIVE}


def lineup(options: argparse.Namespace) -> int:
    """`agentreplay lineup NODEID|SNAPSHOT` and `agentreplay lineup A B`."""
    if options.other is not None:
        return compare_recordings(Path(options.what), options.other, as_json=options.json)
    from pytest_agentreplay.core.live.lineup import LOOP, smallest_guilty_set
    from pytest_agentreplay.live.lineup_cells import CellRuns
    from pytest_agentreplay.settings.live_runs import BUDGET, amounts_of

    def show_cell(row: dict[str, Any]) -> None:
        if not options.json:
            say(cell_line(row))

    place = (Path.cwd(), options.what) if "::" in options.what else find_test(Path(options.what))
    budget = amounts_of(options.budget, "--budget", BUDGET)
    cells = CellRuns(place[0], place[1], options.runs, budget, show_cell)
    cells.outcome_of(frozenset())
    answer = smallest_guilty_set(cells.suspects, cells.outcome_of)
    guilty, rows = [sorted(layers) for layers in answer.guilty], [*cells.rows.values()]
    writes = [name.partition(":")[2] for name in cells.layers if name not in cells.suspects]
    if options.json:
        data = {"outcome": answer.word, "guilty": guilty, "answer": answer.describe(), "cells": rows}
        say_data(data | {"never_released": writes})
        return CODES[answer.word]
    say(f"\n{answer.describe()}")
    for row in rows:
        if row["outcome"] not in {"same", "drifted"}:
            say(f"not decided: {cell_line(row)}")
    if writes:
        say(f"never released, since it may write: {', '.join(writes)}")
    how = "model" if guilty == [[LOOP]] else "live --replay-runs=auto"
    say(f"next: pytest {quoted(cells.test)} --replay={how}")
    return CODES[answer.word]


def cell_line(row: dict[str, Any]) -> str:
    """Return the row of one cell: what was released, what came of it, what that took, and why it is so."""
    name = " + ".join(row["released"]).replace(":", " ") or "nothing released"
    took = f"{plural(row['runs'], 'run')}, {plural(row['calls'], 'call')}, {plural(row['tokens'], 'token')}"
    why = f", ${row['usd'] or 0:.4f}{row['why'] and ': '}{row['why']}"
    return f"{name:30} {row['outcome'] or 'not run':12} {took}{why}"


def compare_recordings(first: Path, second: Path, *, as_json: bool) -> int:
    """Print the layer that made two recordings differ, and what else differs; returns the exit code."""
    from pytest_agentreplay.core.live.changed_layers import changed_layers, kit_changes
    from pytest_agentreplay.dialects import READER
    from pytest_agentreplay.report.findings import compared

    a, b, matching = read_pair(first, second)
    names, around = (shown(first), shown(second)), kit_changes(a, b, READER)
    rows = [
        compared(divergence, *names).plain() | {"layer": layer, "independent": independent}
        for layer, independent, divergence in changed_layers(a, b, READER, matching)
    ]
    if as_json:
        say_data({"guilty": rows[0]["layer"] if rows else None, "layers": rows, "kit": around})
        return DIVERGED if rows else SAME
    say(f"guilty: {rows[0]['layer']}" if rows else "no layer is guilty: the two recordings hold the same run")
    for row in rows:
        why = "" if row["independent"] else " (may follow from what came before)"
        say(f"  {row['layer']}: {row['headline']}{why}")
    for name, (old, new) in around.items():
        say(f"around it, {name}: {old or '(none)'} -> {new or '(none)'}")
    if rows:
        say(f"next: agentreplay diff {' '.join(map(quoted, names))}")
    return DIVERGED if rows else SAME
