"""Live runs and their results: the same tests with one thing changed, which layer drifts, and what was over time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.backends.lineup import LOOP, changed_layers, kit_changes, smallest_guilty_set
from pytest_agentreplay.backends.statistics import LivePlan, SequentialTest, judge
from pytest_agentreplay.cases.case import RUN
from pytest_agentreplay.cli.runs import find_test, read_pair, run_test
from pytest_agentreplay.cli.verbs import Exit, Options, Verbs, complain, find_root, say, show_result, width
from pytest_agentreplay.compare.live_result import LiveResult
from pytest_agentreplay.errors import SettingsError
from pytest_agentreplay.model.paths import quote_word
from pytest_agentreplay.providers import READER
from pytest_agentreplay.report import live_reports
from pytest_agentreplay.report.findings import describe_comparison
from pytest_agentreplay.runs.cases import stored_case
from pytest_agentreplay.runs.live import history
from pytest_agentreplay.runs.live.lineup_cells import CellRuns, run_live
from pytest_agentreplay.runs.own_pytest import prepare_pytest
from pytest_agentreplay.runs.snapshot_selection import read_changes
from pytest_agentreplay.settings.parsers import parse_amounts, parse_live
from pytest_agentreplay.snapshots.kit import plural
from pytest_agentreplay.snapshots.store import files, format_path
from pytest_agentreplay.snapshots.store.projects import ini_value, root_above

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


TOGETHER = " + "
"""What stands between the changes of a setting that has several."""


def add_verbs(verbs: Verbs) -> None:
    """Declare `live compare`, `live lineup` and `live drift`."""
    compare_verb = verbs.add("live compare", compare, json=True)
    compare_verb.value("--set", "NAME=VALUE", "as --replay-set; again for more", action="append", required=True)
    compare_verb.value("--runs", "N", "live runs of each test (default: 10), or auto", default="10")
    compare_verb.value("--budget", "LIMITS", 'of all together: "calls=100 usd=2.00"')
    for form in ("--csv", "--html"):
        compare_verb.value(form, "FILE", "write the table there, too", type=Path)
    compare_verb.value("paths", "PATH", "tests, cases, or folders of them", nargs="+")
    lineup_verb = verbs.add("live lineup", lineup, json=True)
    lineup_verb.value("--runs", "N", "live runs of each cell (default: auto)", default="auto")
    lineup_verb.value("--budget", "LIMITS", 'of all runs: "calls=100 tokens=50000 usd=2.00"')
    lineup_verb.value("what", "NODEID|SNAPSHOT|CASE", "the test, its snapshot, or a case of it")
    lineup_verb.value("other", "SNAPSHOT", "compare two recordings instead", nargs="?", type=Path)
    drift_verb = verbs.add("live drift", drift, json=True)
    drift_verb.paths("histories (default: the project's)", exist=False)
    drift_verb.value("--test", "ID", "only tests whose id holds this", default="")
    drift_verb.add_argument("--by", default="", choices=["model", "date"], help="one row for each model, or each day")
    drift_verb.flag("--judge", "judge all runs of each test together: ends with 0, 1 or 3")
    drift_verb.value("--html", "FILE", "write a page, too", type=Path)


def compare(options: Options) -> int:
    """`agentreplay live compare --set NAME=VALUE... PATH...`."""
    settings: dict[str, list[str]] = {"as recorded": []} if len({*options.set}) == 1 else {}
    settings |= {name: name.split(TOGETHER) for name in options.set}
    root = root_above(Path(options.paths[0].partition("::")[0]).absolute())
    try:
        notes = [*mixed_settings({name: {**read_changes(parts, root)} for name, parts in settings.items()})]
    except SettingsError as error:
        return complain(str(error).replace("--replay-set", "--set", 1))
    limits = [f"--replay-runs={options.runs}", *share_of(options.budget, len(settings))]
    results: dict[str, list[LiveResult]] = {}
    for name, parts in settings.items():
        words = [*limits, *(f"--replay-set={part}" for part in parts), "-q", "--tb=no", *options.paths]
        code, data = run_live(lambda *live: run_setting(root, [*live, *words]))  # noqa: B023  called at once
        if code not in {0, 1, 5}:
            return complain(f"pytest ended with {code} for --set {name!r}", Exit.USAGE if code == 4 else Exit.CANNOT)
        results[name] = [*map(LiveResult.of, data["results"])]
    rows = live_reports.compare_settings(results)
    if not rows[0]["test"]:
        return complain("no test has a snapshot, no case asks a live model: there is nothing to compare", Exit.NOTHING)
    if options.csv:
        files.write_whole(options.csv, live_reports.format_comparison_csv(rows))
    if options.html:
        files.write_whole(options.html, live_reports.format_comparison_html(rows, notes))
    lines = [live_reports.format_comparison(rows), *notes]
    words = [row["verdict"] for row in rows if not row["test"]]
    return show_result(options, {"settings": [*settings], "rows": rows, "notes": notes}, lines, words)


def run_setting(root: Path, words: list[str]) -> int:
    """Run pytest in the working directory, with its report beside ours; return its exit code."""
    command, environ = prepare_pytest(root, words)
    return subprocess.run(command, env=environ, stdout=2, check=False).returncode  # noqa: S603  the user's own words


def mixed_settings(settings: dict[str, dict[str, object]]) -> Iterator[str]:
    """Yield a note for each setting that differs from the first one in more than one thing."""
    (first, base), *others = settings.items()
    for name, each in others:
        if len(keys := [key for key in base | each if base.get(key) != each.get(key)]) > 1:
            things = f"{len(keys)} things: {', '.join(keys)}; which of them counts is not shown"
            yield f"{name} differs from {first} in {things}"


def share_of(budget: str | None, count: int) -> list[str]:
    """Return the flag that gives one of `count` sessions its share of `budget`, so that together they keep it."""
    limits = {} if budget is None else parse_amounts(budget, "--budget")
    parts = {"usd": 1.0 / count, "assumed_output": 1}
    shares = [f"{unit}={limit * parts[unit] if unit in parts else limit // count:f}" for unit, limit in limits.items()]
    return ["--replay-budget", " ".join(shares)] if shares else []


def lineup(options: Options) -> int:
    """`agentreplay live lineup NODEID|SNAPSHOT|CASE` and `agentreplay live lineup A B`.

    Runs the cells of a test, printing a row for each, and says which layer is guilty.
    """
    if options.other is not None:
        return compare_recordings(options)

    def show_cell(row: dict[str, Any]) -> None:
        if not options.json:
            say(cell_line(row))

    file = Path(options.what)
    file = stored_case.file_of(file).with_name(RUN) if stored_case.is_case(file) else file
    root, test = (Path.cwd(), options.what) if "::" in options.what else find_test(file)
    limits = {} if options.budget is None else parse_amounts(options.budget, "--budget")
    cells = CellRuns(root, test, options.runs, limits, show_cell)
    cells.outcome_of(frozenset())
    answer = smallest_guilty_set(cells.suspects, cells.outcome_of)
    guilty, rows = [sorted(layers) for layers in answer.guilty], [*cells.rows.values()]
    writes = [name.partition(":")[2] for name in cells.layers if name not in cells.suspects]
    lines = ["", *([cells.state] if cells.state else []), answer.describe()]
    undecided = [row for row in rows if row["outcome"] not in {"same", "drifted"}]
    lines += [f"not decided: {cell_name(row)}{row['why'] and ': '}{row['why']}" for row in undecided]
    lines += [f"never released, since it may write: {name}" for name in writes]
    shows = guilty or [["model"]] * (answer.word != "same")
    lines += [f"next: pytest {quote_word(cells.test)} {find_flags(layers, cells.layers)}" for layers in shows]
    data = {"outcome": answer.word, "guilty": guilty, "answer": answer.describe(), "cells": rows}
    return show_result(options, data | {"never_released": writes}, lines, [answer.word])


def find_flags(layers: Sequence[str], all_layers: Sequence[str]) -> str:
    """Return the flags with which pytest shows that `layers` make the test drift; `all_layers` are those it has."""
    if layers == [LOOP]:
        return "--replay=model"
    if (
        all(layer.startswith("tool:") for layer in layers) and "prompt" not in all_layers
    ):  # which fails any other replay
        return "--replay-tools=checked"
    how = "--replay=live" if layers == ["model"] else f"--agentreplay-release={quote_word('|'.join(layers))}"
    return how + " --replay-runs=auto" * ("model" in layers)


def cell_name(row: dict[str, Any]) -> str:
    """Return what was released in a cell."""
    return " + ".join(row["released"]).replace(":", " ") or "nothing released"


def cell_line(row: dict[str, Any]) -> str:
    """Return the row of one cell: what came of it, what was released, what that took, and below it why it is so."""
    took = ", ".join(plural(row[unit], unit[:-1]) for unit in ("runs", "calls", "tokens"))
    cost = "" if row["cost"] is None else f", ${row['cost']:.4f}"
    why = row["why"] and f"\n{'':14}{row['why']}"
    return f"{row['outcome'] or 'not run':14}{cell_name(row)}: {took}{cost}{why}"


def compare_recordings(options: Options) -> int:
    """Print which layer made two recordings differ, and what else differs."""
    a, b, matching = read_pair(Path(options.what), options.other)
    names, around = (format_path(Path(options.what)), format_path(options.other)), kit_changes(a, b, READER)
    rows = [
        describe_comparison(divergence, *names).plain() | {"layer": layer, "independent": independent}
        for layer, independent, divergence in changed_layers(a, b, READER, matching)
    ]
    lines = [f"guilty: {rows[0]['layer']}" if rows else "no layer is guilty: the two recordings hold the same run"]
    follows = {True: "", False: " (may follow from what came before)"}
    lines += [f"  {row['layer']}: {row['headline']}{follows[row['independent']]}" for row in rows]
    lines += [f"around it, {name}: {old or '(none)'} -> {new or '(none)'}" for name, (old, new) in around.items()]
    lines += [f"next: agentreplay diff {' '.join(map(quote_word, names))}"] * bool(rows)
    data = {"guilty": rows[0]["layer"] if rows else None, "layers": rows, "kit": around}
    return show_result(options, data, lines, ["drifted"] * len(rows))


def run_test_live(file: Path, *words: str) -> int:
    """As `run_test`, with the real model; the code says what the runs prove. Where none came to its end, nothing."""
    code, data = run_live(lambda *live: run_test(file, *live, *words))
    if code == Exit.CANNOT or "inconclusive" not in {verdict["word"] for verdict in data["verdicts"]}:
        return code
    ended = [result for result in data["results"] if result["cell"] != "FF" and not result["stopped"]]
    return Exit.INCONCLUSIVE if ended else Exit.CANNOT


def drift(options: Options) -> int:
    """`agentreplay live drift [PATH...] [--test ID] [--by model|date] [--judge] [--html FILE] [--json]`."""
    root = find_root()
    history.take_over(root)
    places = options.paths or [root / history.FILE] * files.exists(root / history.FILE)
    runs = [run for run in history.read_runs(places) if options.test in run.test]
    rows = live_reports.build_rows([run for run in runs if "L" in run.cell and not run.stopped], options.by)
    if not rows:
        command = "pytest --replay=live" + f" {options.test}" * bool(options.test)
        return complain(f"there is no live run in the history. To make one:\n  {command}", Exit.NOTHING)
    if options.html:
        files.write_whole(options.html, live_reports.format_page(rows))
    verdicts = judge_runs(root, runs) if options.judge else []
    lines = live_reports.format_trend(rows, width(), sys.stdout.encoding)
    lines += [*[""] * bool(verdicts), *live_reports.format_verdicts(verdicts)]
    return show_result(options, {"rows": rows, "verdicts": verdicts}, lines, (each["word"] for each in verdicts))


def judge_runs(root: Path, runs: Sequence[LiveResult]) -> list[dict[str, Any]]:
    """Return what all runs of each test prove together, by the sequential test of the project's ini file."""
    text = ini_value(root, "agentreplay_live")
    test = SequentialTest(**parse_live(text, "agentreplay_live")["rates"] if text else {})
    groups: dict[str, list[LiveResult]] = {}
    for run in runs:
        name = " ".join([run.test, *(f"{key}={value}" for key, value in sorted(run.changed.items()))])
        groups.setdefault(name, []).append(run)
    cells = {name: dict.fromkeys(sorted({run.cell for run in group}), 0) for name, group in groups.items()}
    return [(judge(groups[name], LivePlan(cells[name], test, auto=True)) or {}) | {"test": name} for name in groups]
