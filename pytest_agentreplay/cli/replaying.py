"""`agentreplay replay`: the test that a snapshot belongs to, or cases, by today's agent or as they are frozen.

`agentreplay case cluster` groups kept failures by their cause, and replays a whole group.
"""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.backends.statistics import clean_runs_needed
from pytest_agentreplay.cli.live_commands import run_test_live
from pytest_agentreplay.cli.runs import run_test
from pytest_agentreplay.cli.verbs import Exit, Options, Verbs, complain, find_root, say, say_data, width
from pytest_agentreplay.compare.clusters import RecordedFailure, group_failures
from pytest_agentreplay.errors import AgentReplayError, CaseError, SettingsError, SnapshotError, SnapshotMissing
from pytest_agentreplay.model.paths import quote_word
from pytest_agentreplay.report.escape import escape_output, wrap_text
from pytest_agentreplay.report.verdict import CaseSummary, count_cases, format_verdict
from pytest_agentreplay.runs.cases import stored_case
from pytest_agentreplay.runs.snapshot_selection import choose_run
from pytest_agentreplay.snapshots.kit import plural
from pytest_agentreplay.snapshots.store import format_path
from pytest_agentreplay.snapshots.store.layout import RUN_SUFFIX

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_agentreplay.plugin.conftests import Hooks

COLD = -1
"""What a cold case ends with among others: those alone say how it ends then."""
WORST = (Exit.DAMAGED, Exit.DIVERGED, Exit.INCONCLUSIVE, Exit.CANNOT)
"""What several cases end with: the first of these that any of them came to."""

MEMBERS = 3
"""Failures of a cluster that are listed."""
VERSION = "2.0"
"""Of the form of `replay --json`: 1 had two halves for each case."""


def add_verbs(verbs: Verbs) -> None:
    """Declare `replay` and `case cluster`."""
    replay_verb = verbs.add("replay", replay, json=True, failure=Exit.CANNOT)
    replay_verb.set_defaults(command=[])
    replay_verb.value("--runner-cmd", "CMD", 'or a command: "python agent.py"')
    limit = "seconds that either may take (default: agentreplay_timeout, 120)"
    replay_verb.value("--timeout", "S", limit, type=seconds)
    replay_verb.flag("--live", "ask the real model; of cases, those that say so")
    replay_verb.value("file", "FILE", "a snapshot, or cases: their folders", nargs="+", type=Path)
    cluster_verb = verbs.add("case cluster", cluster, json=True)
    cluster_verb.paths("cases, snapshots, folders (default: all)")
    cluster_verb.value("--replay", "N|all", "replay cluster N after a fix", type=cluster_number)
    cluster_verb.set_defaults(runner_cmd=None, timeout=None, live=False)
    for verb in (replay_verb, cluster_verb):
        verb.value("--runner", "KEY", "the runner of all checks of a case, whatever it names")


def cluster_number(text: str) -> int:
    """Return a number of a cluster, 0 for "all". Raises ValueError."""
    if text != "all" and int(text) < 1:
        raise ValueError
    return 0 if text == "all" else int(text)


def seconds(text: str) -> float:
    """Return a time of more than 0 seconds. Raises ValueError."""
    if not 0 < (value := float(text)) < 1_000_000:
        raise ValueError
    return value


def split(words: list[str]) -> tuple[list[str], list[str]]:
    """Return what is ours of what follows `replay`, and what is pytest's: all that follows a snapshot."""
    snapshot = words[:1] and not words[0].startswith("-") and not stored_case.is_case(Path(words[0]))
    ours = [word for word in words[1:] if word == "--live"]
    return ([*words[:1], *ours], [word for word in words[1:] if word not in ours]) if snapshot else (words, [])


def replay(options: Options) -> int:
    """`agentreplay replay FILE ...`, `agentreplay replay CASE ...`."""
    if runs := [path for path in options.file if path.name.endswith(RUN_SUFFIX)]:
        run, store = runs[0].absolute(), format_path(runs[0].absolute().parents[2])
        how = f"pytest --agentreplay-runs={quote_word(store)} -k {quote_word(run.name.removesuffix(RUN_SUFFIX))}"
        how += f", or make a case of it: agentreplay case new {quote_word(format_path(run))}"
        return complain(f"{format_path(run)}: is a captured run, and no test's; to replay it: {how}")
    if not any(map(stored_case.is_case, options.file)):
        if len(options.file) > 1 or options.runner or options.runner_cmd or options.json:
            return complain("these flags are for cases, and a snapshot is replayed by its test")
        file = choose_run(options.file[0], "replay")
        if options.live:
            return run_test_live(file, *options.command)
        return run_test(file, "--agentreplay-mode=model", *options.command)
    if options.runner and options.runner_cmd:
        return complain("--runner and --runner-cmd both say what runs the case: give one of them")
    from pytest_agentreplay.intercept.ordering.overtime import let_end
    from pytest_agentreplay.plugin.conftests import run_with_hooks

    reports: list[dict[str, Any]] = []
    files = [stored_case.file_of(path).absolute() for path in options.file]
    try:
        with TemporaryDirectory() as folder:
            options.ledger = Path(folder, "ledger.jsonl")
            codes = run_with_hooks(files, lambda hooks: [replay_case(file, options, reports, hooks) for file in files])
    except SettingsError as error:
        return complain(error, Exit.CANNOT)
    if options.json:
        plain = {"schemaVersion": VERSION, "as_expected": all(code in {Exit.SAME, COLD} for code in codes)}
        say_data({**plain, "cases": reports})
    elif len(codes) > 1 and reports:
        say(count_cases([CaseSummary(each["word"], each["state"], len(each["to_read"])) for each in reports]))
    let_end(code := worst(codes))
    return code


def worst(codes: list[int]) -> int:
    """Return what several cases end with."""
    warm = [code for code in codes if code != COLD]
    return next((code for code in WORST if code in warm), max(warm)) if warm else Exit.CANNOT


def replay_case(file: Path, options: Options, reports: list[dict[str, Any]], hooks: Callable[[Path], Hooks]) -> int:
    """Replay one case and report it; returns its exit code."""
    from pytest_agentreplay.runs.cases.command_line_run import CommandLineRun

    try:
        run = CommandLineRun(file, os.environ, here=Path.cwd(), hooks=hooks(file), allow_live=options.live)
        if options.live:
            from pytest_agentreplay.runs.live.history import Ledger

            run.settings = run.settings._replace(ledger=Ledger(options.ledger, run.settings))
        verdict = run.verdict(key=options.runner or "", command=options.runner_cmd or "", limit=options.timeout)
    except AgentReplayError as error:  # what is not there, or cannot be run, may be so at another commit
        damaged = isinstance(error, CaseError | SnapshotError) and not isinstance(error, SnapshotMissing)
        code = Exit.DAMAGED if damaged and file.is_file() else Exit.CANNOT
        if not options.json:
            return complain(error, code)
        reports.append({"file": format_path(file), "cold": False, "error": escape_output(str(error))})
        return code
    reports.append(run.plain(verdict))
    run.keep(verdict)
    if not options.json:
        if verdict.outcome == "failed":
            say(format_verdict(verdict, width=width()) + "\n")
        say(run.panel(verdict, width=width()) + "\n")
    if verdict.outcome != "failed":
        return COLD if verdict.word == "cold" else Exit.SAME
    stopped = verdict.decisive is not None and verdict.decisive.state == "stopped"
    return Exit.INCONCLUSIVE if stopped else Exit.DIVERGED


def cluster(options: Options) -> int:
    """`agentreplay case cluster [PATH...] [--replay N|all] [--json]`."""
    from pytest_agentreplay.runs.case_files.failures import failure_files, read_failure

    places = options.paths or [find_root()]
    code: int = Exit.SAME
    failures: list[RecordedFailure] = []
    for file in dict.fromkeys(file.absolute() for place in places for file in failure_files(place)):
        try:
            failures += filter(None, [read_failure(file)])
        except (CaseError, SnapshotError) as error:
            code = complain(error, Exit.DAMAGED)
    clusters = group_failures(failures)
    if not clusters:
        return code or complain(f"no failure is kept in {', '.join(map(format_path, places))}", Exit.NOTHING)
    if options.replay is not None:
        return replay_failures(clusters, options) or code
    if options.json:
        say_data({"clusters": [[asdict(failure) for failure in each] for each in clusters]})
        return code
    say(f"{plural(len(failures), 'failure')}, {plural(len(clusters), 'cause')}")
    words = (quote_word(format_path(path)) for path in options.paths)
    command = " ".join(("agentreplay case cluster", *words, "--replay"))
    for number, each in enumerate(clusters, 1):
        show_cluster(each, f"{number}. ", f"{command} {number}")
    return code


def show_cluster(failures: list[RecordedFailure], number: str, command: str) -> None:
    """Print the signature of a cluster in words, some of its failures, and how to verify a fix."""
    cause, count, more = failures[0].signature, len(failures), len(failures) - MEMBERS
    place = " ".join(filter(None, (cause.target or "end of the run", cause.path, cause.role and f"({cause.role})")))
    next_step = f"fix it on {failures[0].file}, then verify{f' on all {count}' * (count > 1)}: {command}"
    if failures[0].file.endswith(RUN_SUFFIX):
        next_step = f"make a case of it: agentreplay case new {quote_word(failures[0].file)}"
    rows = {
        f"\n{number}": f"{plural(count, 'failure')}: {place}; {cause.code}, layer {cause.layer}",
        "   message  ": ": ".join(filter(None, (cause.exception, cause.message))),
        "   kept in  ": ", ".join(each.file for each in failures[:MEMBERS]) + f" and {more} more" * (more > 0),
        "   next     ": next_step,
    }
    for label, text in rows.items():
        say("\n".join(wrap_text(text, width(), label, " " * 12)))


def is_gone(report: dict[str, Any]) -> bool:
    """Return whether the failure of a case is gone: its desired checks hold, or without any the observed ones fail."""
    if "state" not in report or report["state"] == "not fixed":
        return False
    if report["desired"] is not None:
        return bool(report["desired"]["state"] == "hold")
    return report["observed"]["state"] == "gone" if report["observed"] else bool(report["state"] == "fixed")


def replay_failures(clusters: list[list[RecordedFailure]], options: Options) -> int:
    """Replay the clusters that `--replay` names, report how many failures are gone, and return the exit code."""
    from pytest_agentreplay.plugin.conftests import run_with_hooks

    chosen = [each for cluster in clusters[max(options.replay - 1, 0) : options.replay or None] for each in cluster]
    if not chosen:
        return complain(f"there is no cluster {options.replay}: there are {len(clusters)}")
    paths = [Path(each.file).absolute() for each in chosen if each.replays and not each.file.endswith(RUN_SUFFIX)]
    cases, reports = [stored_case.file_of(path) for path in paths if path.is_dir()], list[dict[str, Any]]()
    if cases:
        run_with_hooks(cases, lambda hooks: [replay_case(file, options, reports, hooks) for file in cases])
    gone = sum(map(is_gone, reports))
    gone += sum(run_test(path, "--agentreplay-mode=model") == Exit.SAME for path in paths if path.is_file())
    say(f"{gone} of {plural(len(chosen), 'failure')} gone, {len(chosen) - len(paths)} cannot be replayed")
    say(f"live, a failure of 1 run in 5 is gone after {clean_runs_needed(0.2)} runs without it (95 % sure)")
    return Exit.SAME if gone == len(chosen) else Exit.DIVERGED
