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
    """`agentreplay lineup NODEID|SNAPSHOT|CASE` and `agentreplay lineup A B`."""
    data, lines, code = line_up(options) if options.other is None else compare_recordings(options)
    if options.json:
        say_data(data)
    else:
        say("\n".join(lines))
    return code


def line_up(options: argparse.Namespace) -> tuple[dict[str, Any], list[str], int]:
    """Run the cells of a test, printing a row for each; return the answer as data and as lines, and the exit code."""
    from pytest_agentreplay.cases.case import RUN
    from pytest_agentreplay.cases_run import stored_case
    from pytest_agentreplay.core.live.lineup import LOOP, smallest_guilty_set
    from pytest_agentreplay.live.lineup_cells import CellRuns
    from pytest_agentreplay.settings.live_runs import BUDGET, amounts_of

    def show_cell(row: dict[str, Any]) -> None:
        if not options.json:
            say(cell_line(row))

    file = Path(options.what)
    file = stored_case.file_of(file).with_name(RUN) if stored_case.is_case(file) else file
    root, test = (Path.cwd(), options.what) if "::" in options.what else find_test(file)
    cells = CellRuns(root, test, options.runs, amounts_of(options.budget, "--budget", BUDGET), show_cell)
    cells.outcome_of(frozenset())
    answer = smallest_guilty_set(cells.suspects, cells.outcome_of)
    guilty, rows = [sorted(layers) for layers in answer.guilty], [*cells.rows.values()]
    writes = [name.partition(":")[2] for name in cells.layers if name not in cells.suspects]
    lines = ["", answer.describe()]
    lines += [f"not decided: {cell_line(row)}" for row in rows if row["outcome"] not in {"same", "drifted"}]
    lines += [f"never released, since it may write: {name}" for name in writes]
    how = "model" if guilty == [[LOOP]] else "live --replay-runs=auto"
    lines.append(f"next: pytest {quoted(cells.test)} --replay={how}")
    data = {"outcome": answer.word, "guilty": guilty, "answer": answer.describe(), "cells": rows}
    return data | {"never_released": writes}, lines, CODES[answer.word]


def cell_line(row: dict[str, Any]) -> str:
    """Return the row of one cell: what was released, what came of it, what that took, and why it is so."""
    name = " + ".join(row["released"]).replace(":", " ") or "nothing released"
    took = ", ".join(plural(row[unit], unit[:-1]) for unit in ("runs", "calls", "tokens"))
    why = f", ${row['cost'] or 0:.4f}{row['why'] and ': '}{row['why']}"
    return f"{name:30} {row['outcome'] or 'not run':12} {took}{why}"


def compare_recordings(options: argparse.Namespace) -> tuple[dict[str, Any], list[str], int]:
    """Return which layer made two recordings differ, and what else differs, as data and as lines, and the exit code."""
    from pytest_agentreplay.core.live.changed_layers import changed_layers, kit_changes
    from pytest_agentreplay.dialects import READER
    from pytest_agentreplay.report.findings import compared

    a, b, matching = read_pair(Path(options.what), options.other)
    names, around = (shown(Path(options.what)), shown(options.other)), kit_changes(a, b, READER)
    rows = [
        compared(divergence, *names).plain() | {"layer": layer, "independent": independent}
        for layer, independent, divergence in changed_layers(a, b, READER, matching)
    ]
    lines = [f"guilty: {rows[0]['layer']}" if rows else "no layer is guilty: the two recordings hold the same run"]
    follows = {True: "", False: " (may follow from what came before)"}
    lines += [f"  {row['layer']}: {row['headline']}{follows[row['independent']]}" for row in rows]
    lines += [f"around it, {name}: {old or '(none)'} -> {new or '(none)'}" for name, (old, new) in around.items()]
    lines += [f"next: agentreplay diff {' '.join(map(quoted, names))}"] * bool(rows)
    data = {"guilty": rows[0]["layer"] if rows else None, "layers": rows, "kit": around}
    return data, lines, DIVERGED if rows else SAME
