"""`agentreplay replay`: the test that a snapshot belongs to, or cases, by today's agent or as they are frozen.

`agentreplay cluster` groups kept failures by their cause, and replays a whole group.
"""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.cases_run import stored_case
from pytest_agentreplay.cli import saying
from pytest_agentreplay.cli.live_commands import run_test_live
from pytest_agentreplay.cli.runs import run_test
from pytest_agentreplay.cli.saying import CANNOT, DAMAGED, DIVERGED, SAME, USAGE, complain, say, say_data, width
from pytest_agentreplay.core.kit import plural
from pytest_agentreplay.core.paths import quoted
from pytest_agentreplay.errors import AgentReplayError, CaseError, SettingsError, SnapshotError, SnapshotMissing
from pytest_agentreplay.report.escape import escape_output, wrap_text
from pytest_agentreplay.store.display_path import format_path
from pytest_agentreplay.store.projects import root_above

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from pytest_agentreplay.cases_run.command_line_run import CommandLineRun
    from pytest_agentreplay.cli.verb_table import Verbs
    from pytest_agentreplay.conftests import Hooks
    from pytest_agentreplay.core.clusters import RecordedFailure
    from pytest_agentreplay.report.verdict import Verdict

COLD = -1
"""What a cold case ends with among others: those alone say how it ends then."""
WORST = (DAMAGED, DIVERGED, saying.INCONCLUSIVE, CANNOT)
"""What several cases end with: the first of these that any of them came to."""

MEMBERS = 3
"""Failures of a cluster that are listed."""
GREEN = frozenset({"fixed", "robust", "not reproduced"})
"""Verdicts on the last half of a case that say that its failure is gone."""


def add_verbs(verbs: Verbs) -> None:
    """Declare `replay` and `cluster`."""
    about = "run the test that a snapshot belongs to, offline; or replay cases"
    replay_verb = verbs.add("replay", replay, about, json=True, failure=CANNOT)
    replay_verb.set_defaults(command=[])
    replay_verb.value("--runner-cmd", "CMD", 'or a command: "python agent.py"')
    limit = "seconds that either may take (default: agentreplay_timeout, 120)"
    replay_verb.value("--timeout", "S", limit, type=seconds)
    replay_verb.flag("--live", "ask the real model; of cases, those that say so")
    replay_verb.add_argument("file", nargs="+", type=Path, metavar="FILE", help="a snapshot, or cases: their folders")
    about = "group kept failures by their cause, and count which are gone after a fix"
    cluster_verb = verbs.add("cluster", cluster, about, json=True)
    cluster_verb.paths("cases, snapshots, folders (default: all)")
    cluster_verb.value("--replay", "N|all", "replay cluster N after a fix", type=cluster_number)
    cluster_verb.set_defaults(runner_cmd=None, timeout=None, live=False)
    for verb in (replay_verb, cluster_verb):
        verb.add_argument(
            "--runner", metavar="KEY", help="the runner of both halves of a case, whatever the case names"
        )


def cluster_number(text: str) -> int:
    """A number of a cluster, 0 for "all". Raises ValueError."""
    if text != "all" and int(text) < 1:
        raise ValueError
    return 0 if text == "all" else int(text)


def seconds(text: str) -> float:
    """A time of more than 0 seconds. Raises ValueError."""
    if not 0 < (value := float(text)) < 1_000_000:
        raise ValueError
    return value


def split(words: list[str]) -> tuple[list[str], list[str]]:
    """Return what is ours of what follows `replay`, and what is pytest's: all that follows a snapshot."""
    snapshot = words[:1] and not words[0].startswith("-") and not stored_case.is_case(Path(words[0]))
    ours = [word for word in words[1:] if word == "--live"]
    return ([*words[:1], *ours], [word for word in words[1:] if word not in ours]) if snapshot else (words, [])


def replay(options: argparse.Namespace) -> int:
    """`agentreplay replay FILE ...`, `agentreplay replay CASE ...`."""
    if not any(map(stored_case.is_case, options.file)):
        if len(options.file) > 1 or options.runner or options.runner_cmd or options.json:
            return complain("these flags are for cases, and a snapshot is replayed by its test", USAGE)
        if options.live:
            return run_test_live(options.file[0], *options.command)
        return run_test(options.file[0], "--agentreplay-mode=model", *options.command)
    if options.runner and options.runner_cmd:
        return complain("--runner and --runner-cmd both say what runs the case: give one of them", USAGE)
    from pytest_agentreplay.conftests import loaded
    from pytest_agentreplay.intercept.ordering.overtime import let_end

    told: list[dict[str, Any]] = []
    files = [stored_case.file_of(path).absolute() for path in options.file]
    try:
        with TemporaryDirectory() as folder:
            options.ledger = Path(folder, "ledger.jsonl")
            codes = loaded(files, lambda hooks: [one(file, options, told, hooks) for file in files])
    except SettingsError as error:
        return complain(error, CANNOT)
    if options.json:
        say_data({"as_expected": all(code in {SAME, COLD} for code in codes), "cases": told})
    elif len(codes) > 1:
        from pytest_agentreplay.report.verdict import HalfSummary, count_halves

        halves = [half for case in told for half in case["halves"]]
        if halves:
            say(count_halves([HalfSummary(each["case"], each["file"], each["word"], each["human"]) for each in halves]))
    let_end(code := worst(codes))
    return code


def worst(codes: list[int]) -> int:
    """What several cases end with."""
    warm = [code for code in codes if code != COLD]
    return next((code for code in WORST if code in warm), max(warm)) if warm else CANNOT


def one(file: Path, options: argparse.Namespace, told: list[dict[str, Any]], hooks: Callable[[Path], Hooks]) -> int:
    """Replay one case and tell it; returns its exit code."""
    from pytest_agentreplay.cases_run.command_line_run import CommandLineRun

    try:
        bench = CommandLineRun(file, os.environ, here=Path.cwd(), hooks=hooks(file), allow_live=options.live)
        if (runs := bench.settings.live_runs) is not None:
            from pytest_agentreplay.live.history import Ledger

            bench.settings = bench.settings._replace(live_runs=runs._replace(ledger=Ledger(options.ledger, runs)))
        verdicts = bench.verdicts(key=options.runner or "", command=options.runner_cmd or "", limit=options.timeout)
    except AgentReplayError as error:  # what is not there, or cannot be run, may be so at another commit
        damaged = isinstance(error, CaseError | SnapshotError) and not isinstance(error, SnapshotMissing)
        return refused(error, DAMAGED if damaged and file.is_file() else CANNOT, file, options, told)
    cold = verdicts[0].word == "cold"
    stopped = [verdict for verdict in verdicts if verdict.live.get("stopped")]
    failed = any(verdict.outcome == "failed" and verdict not in stopped for verdict in verdicts)
    told.append(bench.plain(verdicts))
    bench.keep(verdicts)
    if not options.json:
        show(bench, verdicts)
    return COLD if cold else DIVERGED if failed else saying.INCONCLUSIVE if stopped else SAME


def show(bench: CommandLineRun, verdicts: tuple[Verdict, ...]) -> None:
    """Print the panel, and what is not as expected in full."""
    from pytest_agentreplay.report.verdict import format_verdict

    for verdict in verdicts:
        if verdict.outcome == "failed":
            say(format_verdict(verdict, width=width()) + "\n")
    say(bench.panel(verdicts, width=width()) + "\n")


def refused(
    error: AgentReplayError, code: int, file: Path, options: argparse.Namespace, told: list[dict[str, Any]]
) -> int:
    """Say of one case why it has no verdict."""
    if options.json:
        told.append({"file": format_path(file), "cold": False, "error": escape_output(str(error)), "halves": []})
        return code
    return complain(error, code)


def cluster(options: argparse.Namespace) -> int:
    """`agentreplay cluster [PATH...] [--replay N|all] [--json]`."""
    from pytest_agentreplay.case_files.failures import failure_files, read_failure
    from pytest_agentreplay.cli.saying import NOTHING
    from pytest_agentreplay.core.clusters import group_failures

    places, code = options.paths or [root_above(Path.cwd())], SAME
    if missing := [path for path in places if not os.path.lexists(path)]:
        return complain(f"there is no {format_path(missing[0])}", USAGE)
    failures: list[RecordedFailure] = []
    for file in dict.fromkeys(file.absolute() for place in places for file in failure_files(place)):
        try:
            failures += filter(None, [read_failure(file)])
        except (CaseError, SnapshotError) as error:
            code = complain(error, DAMAGED)
    clusters = group_failures(failures)
    if not clusters:
        return code or complain(f"no failure is kept in {', '.join(map(format_path, places))}", NOTHING)
    if options.replay is not None:
        return replay_failures(clusters, options) or code
    if options.json:
        say_data({"clusters": [[asdict(failure) for failure in each] for each in clusters]})
        return code
    say(f"{plural(len(failures), 'failure')}, {plural(len(clusters), 'cause')}")
    command = " ".join(("agentreplay cluster", *(quoted(format_path(path)) for path in options.paths), "--replay"))
    for number, each in enumerate(clusters, 1):
        show_cluster(each, f"{number}. ", f"{command} {number}")
    return code


def show_cluster(failures: list[RecordedFailure], number: str, command: str) -> None:
    """Print the signature of a cluster in words, some of its failures, and how to verify a fix."""
    cause, count, more = failures[0].signature, len(failures), len(failures) - MEMBERS
    place = " ".join(filter(None, (cause.target or "end of the run", cause.path, cause.role and f"({cause.role})")))
    rows = {
        f"\n{number}": f"{plural(count, 'failure')}: {place}; {cause.code}, layer {cause.layer}",
        "   message  ": ": ".join(filter(None, (cause.exception, cause.message))),
        "   kept in  ": ", ".join(each.file for each in failures[:MEMBERS]) + f" and {more} more" * (more > 0),
        "   next     ": f"fix it on {failures[0].file}, then verify{f' on all {count}' * (count > 1)}: {command}",
    }
    for label, text in rows.items():
        say("\n".join(wrap_text(text, width(), label, " " * 12)))


def replay_failures(clusters: list[list[RecordedFailure]], options: argparse.Namespace) -> int:
    """Replay the clusters that `--replay` names, say how many failures are gone, and return the exit code."""
    from pytest_agentreplay.conftests import loaded
    from pytest_agentreplay.core.live.statistics import clean_runs_needed

    chosen = [each for cluster in clusters[max(options.replay - 1, 0) : options.replay or None] for each in cluster]
    if not chosen:
        return complain(f"there is no cluster {options.replay}: there are {len(clusters)}", USAGE)
    paths = [Path(each.file).absolute() for each in chosen if each.replays]
    cases, reports = [stored_case.file_of(path) for path in paths if path.is_dir()], list[dict[str, Any]]()
    if cases:
        loaded(cases, lambda hooks: [one(file, options, reports, hooks) for file in cases])
    green = sum(report["halves"][-1]["word"] in GREEN for report in reports if report["halves"])
    green += sum(run_test(path, "--agentreplay-mode=model") == SAME for path in paths if path.is_file())
    say(f"{green} of {plural(len(chosen), 'failure')} green, {len(chosen) - len(paths)} cannot be replayed")
    say(f"live, a failure of 1 run in 5 is gone after {clean_runs_needed(0.2)} runs without it (95 % sure)")
    return SAME if green == len(chosen) else DIVERGED
