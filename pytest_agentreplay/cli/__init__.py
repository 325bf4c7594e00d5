"""The command line. `agentreplay VERB ...`, also `python -m pytest_agentreplay`.

    showing  show           listing  ls                 stats       stats
    runs     demo diff bisect                           sealed      kit reseal recover rules
    accepting   accept                                  auditing    audit
    saying   what is printed, and the exit codes        leftovers   mv prune        serving     serve
    exploring   orders      fuzzing   fuzz vacuity      redacting   policy redact scan
    locking     verify lock                             replaying   replay cluster   exporting   export
    linting     lint                                    casework    scaffold freeze   sharing   cold bundle
    stale_checks   stale                                stepping   step
    initializing   init                                 live_commands   compare lineup drift

Each verb takes the parsed options and gives the exit code.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from pytest_agentreplay.cli import (
    accepting,
    auditing,
    casework,
    exploring,
    exporting,
    fuzzing,
    initializing,
    leftovers,
    linting,
    listing,
    live_commands,
    locking,
    redacting,
    replaying,
    runs,
    sealed,
    serving,
    sharing,
    showing,
    stale_checks,
    stats,
    stepping,
)
from pytest_agentreplay.cli.saying import CANNOT, DAMAGED, INTERRUPTED, SAME, USAGE, complain, say
from pytest_agentreplay.core.order_permutations import LIMIT
from pytest_agentreplay.errors import AgentReplayError, CaseError, RunnerError, SnapshotError, SnapshotMissing

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["build_parser", "main", "script"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb; returns the exit code. Raises SystemExit for words that are no command."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] == ["--version"]:
        from importlib.metadata import version

        say(f"agentreplay {version('frozen-agentreplay')}")
        return SAME
    command = []
    if words[:1] in (["serve"], ["orders"]) and "--" in words:  # argparse wants flags before the file, people do not
        cut = words.index("--")
        words, command = words[:cut], words[cut + 1 :]
    if words[:1] == ["replay"]:
        words, command = replaying.split(words)
    options = build_parser().parse_args(words)
    if command:
        options.command = command
    try:
        code = int(options.run(options))
        sys.stdout.flush()
    except SnapshotMissing as error:
        return complain(error, CANNOT if options.verb == "replay" else USAGE)
    except (CaseError, SnapshotError) as error:
        return complain(error, DAMAGED)
    except RunnerError as error:
        return complain(error, CANNOT)
    except AgentReplayError as error:
        return complain(error, CANNOT if options.verb in {"demo", "orders", "replay", "serve"} else USAGE)
    except BrokenPipeError:  # the reader of `agentreplay show | head` has left, and Python's last flush would complain
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return SAME
    except KeyboardInterrupt:
        return INTERRUPTED
    return code


def script() -> NoReturn:
    """The console script. What a console cannot show (a Windows code page) is shown escaped."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    sys.exit(main())


def number(text: str) -> int:
    """A whole number of at least 1. Raises ValueError."""
    if (value := int(text)) < 1:
        raise ValueError
    return value


def cluster_number(text: str) -> int:
    """A number of a cluster, 0 for "all". Raises ValueError."""
    return 0 if text == "all" else number(text)


def seconds(text: str) -> float:
    """A time of more than 0 seconds. Raises ValueError."""
    if not 0 < (value := float(text)) < 1_000_000:
        raise ValueError
    return value


def build_parser() -> argparse.ArgumentParser:
    """The verbs and their arguments."""
    parser = argparse.ArgumentParser(
        prog="agentreplay",
        description="Frozen agent runs: look at snapshots, compare them, replay and accept them.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="store_true", help="print the version")
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB", help="one of the verbs below")

    groups: dict[str, list[str]] = {}

    def verb(group: str, name: str, run: Callable[[argparse.Namespace], int], about: str) -> argparse.ArgumentParser:
        groups.setdefault(group, [group]).append(f"  {name:10}{about}")
        added = verbs.add_parser(name, description=f"{about[0].upper()}{about[1:]}.")
        added.set_defaults(run=run)
        return added

    everyday, cases, files = (partial(verb, group) for group in ("everyday", "cases", "files"))
    init = everyday("init", initializing.init, "write the settings that a project needs, once they are shown")
    init.add_argument("--yes", action="store_true", help="write without asking")
    init.add_argument("--dry-run", action="store_true", help="only show what would be written")
    init.add_argument("--no-workflow", action="store_true", help="leave out the workflow that replays the tests")
    demo = everyday("demo", runs.demo, "record, replay and diverge on an embedded model, without a key")
    demo.add_argument("--dir", type=Path, default=Path("agentreplay-demo"), help="folder for the demo's files")
    demo.add_argument("--force", action="store_true", help="write over what you edited in that folder")
    show = everyday("show", showing.show, "print a snapshot as a readable transcript")
    show.add_argument("file", type=Path, metavar="FILE", help="a snapshot, a case's folder, or the id of a test")
    show.add_argument("--turn", type=int, help="only this turn, in full; -1 is the last")
    shown_as = show.add_mutually_exclusive_group()
    shown_as.add_argument("--raw", action="store_true", help="with --turn: requests and replies, byte for byte")
    shown_as.add_argument("--json", action="store_true", help="print plain data")
    shown_as.add_argument("--plain", action="store_true", help="for screen readers: each line complete on its own")
    show.add_argument("--no-pager", action="store_true", help="never page a run that is longer than the terminal")
    shown_as.add_argument(
        "--textconv", action="store_true", help="for git diff: without times, ids and counts of tokens"
    )
    ls = everyday("ls", listing.ls, "list snapshots, pending runs and cases, with their totals")
    ls.add_argument("--plain", action="store_true", help="for screen readers: one entry a line")
    stats_of = everyday("stats", stats.stats, "totals of what is recorded: by model, by tool, by age")
    for listed in (ls, stats_of):
        listed.add_argument("paths", nargs="*", type=Path, metavar="PATH", help="files, folders (default: the project)")
    stats_of.add_argument("--cold", action="store_true", help="what cases that cannot be replayed lack")
    stats_of.add_argument("--by", choices=["model", "hour", "tenant", "tool"], help="with --cold: count by this, too")
    step = everyday("step", stepping.step, "walk a snapshot turn by turn, forward and back")
    step.add_argument("file", type=Path, metavar="SNAPSHOT")
    diff = everyday("diff", runs.diff, "every place where two snapshots part")
    bisect = everyday("bisect", runs.bisect, "the first divergent turn between two snapshots")
    for two, first, second in ((diff, "a", "b"), (bisect, "baseline", "failing")):
        two.add_argument(first, type=Path)
        two.add_argument(second, type=Path)
    replay = everyday("replay", replaying.replay, "run the test that a snapshot belongs to, offline; or replay cases")
    replay.set_defaults(command=[])
    replay.add_argument("--runner", metavar="KEY", help="the runner of both halves of a case, whatever the case names")
    replay.add_argument("--runner-cmd", metavar="CMD", help='or a command: "python agent.py"')
    replay.add_argument(
        "--timeout", type=seconds, metavar="S", help="seconds that either may take (default: agentreplay_timeout, 120)"
    )
    replay.add_argument("--live", action="store_true", help="ask the real model; of cases, those that say so")
    replay.add_argument("--json", action="store_true", help="print plain data of cases")
    replay.add_argument("file", nargs="+", type=Path, metavar="FILE", help="a snapshot, or cases: their folders")
    orders = everyday("orders", exploring.orders, "replay a test in other orders of its answers, until one matters")
    orders.add_argument("--limit", type=number, default=LIMIT, metavar="N", help=f"try at most N (default: {LIMIT})")
    orders.add_argument("--seed", type=int, default=0, metavar="N", help="draw others, where there are more than that")
    orders.add_argument("--order", type=int, metavar="N", help="only this one, as a report has named it")
    orders.add_argument("file", type=Path)
    orders.add_argument(
        "command", nargs="*", metavar="-- PYTEST-ARGUMENTS", help="handed to pytest, its test may be named"
    )
    compare = everyday("compare", live_commands.compare, "the same tests with another model, prompt or parameter, live")
    compare.add_argument(
        "--set", action="append", required=True, metavar="NAME=VALUE", help="as --replay-set; again for more"
    )
    compare.add_argument("--runs", default="10", metavar="N", help="live runs of each test (default: 10), or auto")
    compare.add_argument("--budget", default="", metavar="LIMITS", help='of all together: "calls=100 usd=2.00"')
    for form in ("--csv", "--html"):
        compare.add_argument(form, type=Path, metavar="FILE", help="write the table there, too")
    compare.add_argument("paths", nargs="+", metavar="PATH", help="tests, cases, or folders of them")
    lineup = everyday("lineup", live_commands.lineup, "which layer makes a run drift: prompt, tool, model, loop code")
    lineup.add_argument("--runs", default="auto", metavar="N", help="live runs of each cell (default: auto)")
    lineup.add_argument("--budget", default="", metavar="LIMITS", help='of all runs: "calls=100 tokens=50000 usd=2.00"')
    lineup.add_argument("what", metavar="NODEID|SNAPSHOT|CASE", help="the test, its snapshot, or a case of it")
    lineup.add_argument("other", nargs="?", type=Path, metavar="SNAPSHOT", help="compare two recordings instead")
    fuzz = everyday("fuzz", fuzzing.fuzz, "try a test or case on neighbours of its recording, keep what breaks")
    fuzz.add_argument("--seed", type=int, default=0, metavar="N", help="draw other neighbours (default: 0)")
    fuzz.add_argument("--budget", default=str(fuzzing.BUDGET), metavar="N|60s", help="trials, or a time (default: 200)")
    fuzz.add_argument("--dir", type=Path, default=Path("cases"), help="where failures are kept (default: cases)")
    vacuity = everyday("vacuity", fuzzing.vacuity, "which replies of the model no assertion of a test depends on")
    for verb_of_target in (fuzz, vacuity):
        verb_of_target.add_argument("what", metavar="NODEID|SNAPSHOT|CASE", help="a test, its snapshot, or a case")
    serve = everyday("serve", serving.serve, "answer any process, in whatever language, from a snapshot")
    serve.add_argument("--port", type=int, default=0, help="listen on this port of 127.0.0.1 (default: a free one)")
    serve.add_argument("file", type=Path)
    serve.add_argument("command", nargs="*", metavar="-- COMMAND", help="run this with the variables set")
    accept = everyday("accept", accepting.accept, "take a pending run, changed requests, or one rule for all snapshots")
    accept.add_argument(
        "what", nargs="*", metavar="WHAT", help="snapshots or pending runs: their files, folders, or the ids of tests"
    )
    accept.add_argument("--all", action="store_true", help="those of the whole project")
    accept.add_argument(
        "--code",
        action="append",
        default=[],
        type=accepting.code,
        metavar="CODE",
        help="only where all changes are of this kind, AR-PROMPT for example; may be given several times",
    )
    accept.add_argument("--dry-run", action="store_true", help="only say what would be taken")
    accept.add_argument("--requests", action="store_true", help="take changed requests under the recorded replies")
    accept.add_argument("--rule", metavar="PATH=REASON", help="leave a body field out of the comparison, everywhere")
    accept.add_argument("--reason", default="", help="why every recorded reply still holds (with --requests)")
    drift = everyday(
        "drift", live_commands.drift, "what live runs gave over time, by day and model: a table and a plot"
    )
    drift.add_argument("paths", nargs="*", type=Path, metavar="PATH", help="histories (default: the project's)")
    drift.add_argument("--test", default="", metavar="ID", help="only tests whose id holds this")
    drift.add_argument("--by", default="", choices=["model", "date"], help="one row for each model, or for each day")
    drift.add_argument("--judge", action="store_true", help="judge all runs of each test together: ends with 0, 1 or 3")
    drift.add_argument("--html", type=Path, metavar="FILE", help="write a page, too")
    lint = cases("lint", linting.lint, "what is wrong with cases: contradictions, dead fixtures, secrets")
    lint.add_argument("cases", nargs="*", type=Path, metavar="CASE", help="cases, or folders of them (default: cases)")
    lint.add_argument("--schema", action="store_true", help="print the JSON Schema of case.yaml, for editors")
    kit = files("kit", sealed.kit, "what a full replay needs, what of it a snapshot has, and a grade")
    kit.add_argument("file", type=Path)
    verify = files("verify", locking.verify, "check that snapshots are whole, sealed, and restore to exact bytes")
    verify.add_argument("paths", nargs="+", type=Path, help="files, or folders with what is below them and their locks")
    signers = "these keys alone may have signed the lock of each folder (ssh-keygen's allowed signers)"
    verify.add_argument("--signers", type=Path, metavar="FILE", help=signers)
    reseal = files("reseal", sealed.reseal, "seal a snapshot that was edited on purpose, with the reason")
    reseal.add_argument("file", type=Path)
    reseal.add_argument("--reason", required=True)
    lock = files("lock", locking.lock, "keep or check a list of all snapshots with their digests")
    lock.add_argument("folder", nargs="?", type=Path, metavar="DIR", help="the folder (default: the project)")
    lock.add_argument("--check", action="store_true", help="write nothing; say what is not as it was locked")
    lock.add_argument("--sign", type=Path, metavar="KEY", help="sign the lock with this ssh key, by ssh-keygen")
    mv = files("mv", leftovers.mv, "give the snapshots of a renamed test, class or file their new names")
    for name, about in (("old", "the former node id, or test file"), ("new", "the node id, or test file, of today")):
        mv.add_argument(name, help=about)
    prune = files("prune", leftovers.prune, "run all tests offline, then delete the snapshots that none used")
    prune.add_argument("--dry-run", action="store_true", help="only list them")
    stale = files("stale", stale_checks.stale, "what of snapshots and cases is out of date: age, models, SDKs, tools")
    stale.add_argument("paths", nargs="*", type=Path, metavar="PATH", help="files, or folders (default: the project)")
    recover = files("recover", sealed.recover, "list interrupted and refused recordings, or make a run of one")
    recover.add_argument("journal", nargs="?", type=Path, help="a journal, or a pending run")
    audit = files("audit", auditing.audit, "which fields are not compared, and whether replies hang on them")
    audit.add_argument("paths", nargs="*", type=Path, metavar="PATH", help="snapshots, or folders (default: all)")
    rules = files("rules", sealed.rules, "the fields that are not compared, and why")
    policy = files("policy", redacting.policy, "check a policy file: what it adds, changes, or takes back")
    policy.add_argument("what", choices=["check"])
    policy.add_argument("file", type=Path)
    policy.add_argument("paths", nargs="*", type=Path, metavar="PATH", help="snapshots to look at (default: all)")
    policy.add_argument("--baseline", type=Path, metavar="FILE", help="fail where it is weaker than this policy")
    redact = files("redact", redacting.redact, "take off snapshots what today's rules and a policy find")
    redact.add_argument("files", nargs="+", type=Path, metavar="FILE", help="snapshots, pending runs, or folders")
    redact.add_argument("--reason", default="", metavar="WHY", help="kept in the files")
    redact.add_argument("--dry-run", action="store_true", help="only tell what would change")
    scan = files("scan", redacting.scan, "tell what the rules and a policy find in any file")
    scan.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="files, or folders")
    scaffold = cases("scaffold", casework.scaffold, "a case of a failed run, from another tool's trace or a snapshot")
    scaffold.add_argument("traces", nargs="+", type=Path, metavar="FILE", help="traces, read together, or a snapshot")
    scaffold.add_argument("--from", dest="format", default="", metavar="FORMAT", help="read them as this format")
    scaffold.add_argument(
        "--run", dest="wanted", default="", metavar="ID", help="the run to take, where a file holds several"
    )
    scaffold.add_argument(
        "--all", action="store_true", help="take every run of every file, each into a folder below DIR"
    )
    scaffold.add_argument("--cold", action="store_true", help="keep as a cold case what was not captured")
    freeze = cases("freeze", casework.freeze, "a case of the failing run that a test has just had")
    freeze.add_argument("nodeid", metavar="NODEID", help="the test, as pytest names it")
    for one in (scaffold, freeze):
        one.add_argument("--out", type=Path, metavar="DIR", help="the case's folder (default: cases/NAME)")
        one.add_argument("--runner", default="", metavar="KEY", help="the runner of the case, by its key")
        one.add_argument("--force", action="store_true", help="write over files that are not what would be written")
    cold = cases("cold", sharing.cold, "what cases that cannot be replayed lack, and what to capture next")
    cold.add_argument("paths", nargs="*", type=Path, metavar="PATH", help="cases, or folders (default: cases)")
    cold.add_argument("--by", choices=["model", "hour", "tenant", "tool"], help="count them by this, too")
    cluster = cases("cluster", replaying.cluster, "which kept failures have one cause, and which are gone after a fix")
    cluster.add_argument("paths", nargs="*", type=Path, metavar="PATH", help="cases, snapshots, folders (default: all)")
    cluster.add_argument("--replay", type=cluster_number, metavar="N|all", help="replay cluster N after a fix")
    cluster.add_argument("--runner", metavar="KEY", help="the runner of both halves of a case, whatever the case names")
    cluster.set_defaults(runner_cmd=None, timeout=None, live=False)
    bundle = cases("bundle", sharing.bundle, "a whole case as one file to share; or open one")
    bundle.add_argument("case", nargs="?", type=Path, metavar="CASE", help="the case's folder")
    bundle.add_argument("-o", "--out", type=Path, metavar="FILE", help="the file; with --open the case's new folder")
    bundle.add_argument("--open", type=Path, metavar="FILE", help="open this bundle")
    bundle.add_argument("--force", action="store_true", help="write over files that are not those of the bundle")
    export = cases("export", exporting.export, "a case for another tool: pytest, promptfoo, OpenAI Evals, OTLP")
    export.add_argument("case", type=Path, metavar="CASE", help="a case's folder, or its case.yaml")
    export.add_argument("--to", required=True, choices=exporting.TO, help="the tool")
    export.add_argument("-o", "--out", type=Path, metavar="FILE", help="the file, or a folder (default: this one)")
    export.add_argument("--force", action="store_true", help="write over a file that holds something else")
    for one in (
        ls,
        stats_of,
        diff,
        bisect,
        compare,
        drift,
        fuzz,
        vacuity,
        lineup,
        lint,
        kit,
        rules,
        audit,
        stale,
        scan,
        cold,
        cluster,
    ):
        one.add_argument("--json", action="store_true", help="print plain data")
    for one in (recover, redact, scan, lint, scaffold, freeze, bundle):
        one.add_argument(
            "--policy", action="append", metavar="WHAT", help="pii, strict or a file, beside the project's"
        )
    parser.epilog = "\n\n".join(map("\n".join, groups.values()))
    return parser
