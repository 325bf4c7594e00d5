"""`agentreplay replay`: the test that a snapshot belongs to, or cases, by today's agent or as they are frozen."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_agentreplay.cases_run import stored_case
from pytest_agentreplay.cli.runs import run_test
from pytest_agentreplay.cli.saying import CANNOT, DAMAGED, DIVERGED, SAME, USAGE, complain, say, say_data, width
from pytest_agentreplay.errors import AgentReplayError, CaseError, RunnerError, SettingsError, SnapshotError
from pytest_agentreplay.report.escape import printed
from pytest_agentreplay.store.display_path import shown

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from pytest_agentreplay.cases_run.command_line_run import CommandLineRun
    from pytest_agentreplay.conftests import Hooks
    from pytest_agentreplay.report.verdict import Verdict

COLD = -1
"""What a cold case ends with among others: those alone say how it ends then."""
WORST = (DAMAGED, DIVERGED, CANNOT)
"""What several cases end with: the first of these that any of them came to."""


def split(words: list[str]) -> tuple[list[str], list[str]]:
    """What is ours of `replay ...`, and what is pytest's: all that follows a snapshot."""
    snapshot = words[1:2] and not words[1].startswith("-") and not stored_case.is_case(Path(words[1]))
    return (words[:2], words[2:]) if snapshot else (words, [])


def replay(options: argparse.Namespace) -> int:
    """`agentreplay replay FILE ...`, `agentreplay replay CASE ...`."""
    if not any(map(stored_case.is_case, options.file)):
        if len(options.file) > 1 or options.runner or options.runner_cmd or options.live or options.json:
            return complain("these flags are for cases, and a snapshot is replayed by its test", USAGE)
        return run_test(options.file[0], "--agentreplay-mode=model", *options.command)
    if options.runner and options.runner_cmd:
        return complain("--runner and --runner-cmd both say what runs the case: give one of them", USAGE)
    from pytest_agentreplay.conftests import loaded
    from pytest_agentreplay.intercept.ordering.deadline import let_end

    told: list[dict[str, object]] = []
    files = [stored_case.file_of(path).absolute() for path in options.file]
    try:
        codes = loaded(files, lambda hooks: [one(file, options, told, hooks) for file in files])
    except SettingsError as error:
        return complain(error, USAGE)
    if options.json:
        say_data({"as_expected": all(code in {SAME, COLD} for code in codes), "cases": told})
    elif len(codes) > 1:
        from pytest_agentreplay.report.verdict import summary

        for line in summary(half for case in told for half in case["halves"]):  # type: ignore[attr-defined]
            say(line)
    let_end(code := worst(codes))
    return code


def worst(codes: list[int]) -> int:
    """What several cases end with."""
    warm = [code for code in codes if code != COLD]
    return next((code for code in WORST if code in warm), max(warm)) if warm else CANNOT


def one(file: Path, options: argparse.Namespace, told: list[dict[str, object]], hooks: Callable[[Path], Hooks]) -> int:
    """Replay one case and tell it; returns its exit code."""
    from pytest_agentreplay.cases_run.command_line_run import CommandLineRun

    try:
        bench = CommandLineRun(file, os.environ, here=Path.cwd(), hooks=hooks(file), allow_live=options.live)
        verdicts = bench.verdicts(key=options.runner or "", command=options.runner_cmd or "", limit=options.timeout)
    except (CaseError, SnapshotError) as error:
        return refused(error, DAMAGED, file, options, told)
    except SettingsError as error:
        return refused(error, USAGE, file, options, told)
    except RunnerError as error:
        return refused(error, CANNOT, file, options, told)
    cold = verdicts[0].word == "cold"
    failed = any(verdict.outcome == "failed" for verdict in verdicts)
    told.append(bench.plain(verdicts))
    bench.keep(verdicts)
    if not options.json:
        show(bench, verdicts)
    return COLD if cold else DIVERGED if failed else SAME


def show(bench: CommandLineRun, verdicts: tuple[Verdict, ...]) -> None:
    """Print the panel, and what is not as expected in full."""
    from pytest_agentreplay.report.verdict import text

    for verdict in verdicts:
        if verdict.outcome == "failed":
            say(text(verdict, width=width()) + "\n")
    say(bench.panel(verdicts, width=width()) + "\n")


def refused(
    error: AgentReplayError, code: int, file: Path, options: argparse.Namespace, told: list[dict[str, object]]
) -> int:
    """Say of one case why it has no verdict."""
    if options.json:
        told.append({"file": shown(file), "cold": False, "error": printed(str(error)), "halves": []})
        return code
    return complain(error, code)
