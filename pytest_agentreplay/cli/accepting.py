"""The verb `accept`: pending runs, changed requests under recorded replies, one rule for all snapshots."""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from difflib import get_close_matches
from pathlib import Path
from tempfile import TemporaryDirectory

from pytest_agentreplay.cli.runs import find_test, run_pytest
from pytest_agentreplay.cli.snapshot_files import remind
from pytest_agentreplay.cli.verbs import Exit, Options, Verbs, complain, find_root, say
from pytest_agentreplay.errors import RunnerError, SettingsError, SnapshotError, SnapshotMissing
from pytest_agentreplay.model.divergence import Kind
from pytest_agentreplay.model.path_parsing import split_path
from pytest_agentreplay.model.paths import get_test_id, quote_word
from pytest_agentreplay.report.finding import format_keeping
from pytest_agentreplay.runs import accept as pending_runs
from pytest_agentreplay.runs.snapshot_selection import select_pending, select_snapshots
from pytest_agentreplay.snapshots.store import files, format_path


def add_verbs(verbs: Verbs) -> None:
    """Declare `accept`."""
    verb = verbs.add("accept", accept)
    verb.value("what", "WHAT", "snapshots or pending runs: their files, folders, or the ids of tests", nargs="*")
    verb.flag("--all", "those of the whole project")
    only = "only where all changes are of this kind, AR-PROMPT for example; may be given several times"
    verb.value("--code", "CODE", only, action="append", default=[], type=parse_code)
    verb.flag("--dry-run", "only say what would be taken")
    verb.value("--rule", "PATH=REASON", "leave a body field out of the comparison, everywhere")
    verb.flag("--requests", "take changed requests under the recorded replies")
    verb.value("--reason", "WHY", "with --requests: why the replies still hold", default="")


def parse_code(text: str) -> str:
    """Return the code of a divergence, in capitals. Raises ArgumentTypeError for another word."""
    codes = [kind.code for kind in Kind]
    if (word := text.strip().upper()) in codes:
        return word
    near = get_close_matches(word, codes, n=1, cutoff=0)
    raise argparse.ArgumentTypeError(f"{text!r} is no code of a change; the nearest is {near[0]}")


def accept(options: Options) -> int:
    """`agentreplay accept [WHAT...] [--all] [--code CODE] [--requests] [--rule ...]`."""
    if options.rule is not None:
        say(pending_runs.accept_rule(find_root(), *split_path(options.rule)))
        return Exit.SAME
    if options.all and options.what:
        return complain("--all takes those of the whole project: name files, folders and tests, or give --all")
    if options.requests:
        return accept_requests(options)
    if options.what or options.all or options.code or options.dry_run:
        return accept_runs(options)
    root = find_root()
    waiting = pending_runs.list_pending(root)
    for file in waiting:
        say(f"agentreplay accept {quote_word(format_path(file))}")
    return Exit.SAME if waiting else complain(pending_runs.explain_nothing_pending("--all"), Exit.NOTHING)


def join_words(words: list[str]) -> str:
    """Return words as they are typed."""
    return " ".join(map(quote_word, words))


def accept_runs(options: Options) -> int:
    """Take pending runs: each whole or not at all. What cannot be taken is reported, and the others are taken."""
    files = select_pending(options.what, Path.cwd())
    if not files:
        code = "".join(f" --code {code}" for code in options.code)
        return complain(
            pending_runs.explain_nothing_pending(f"{join_words(options.what) or '--all'}{code}"), Exit.NOTHING
        )
    worst: int = Exit.SAME
    readable: list[pending_runs.Pending] = []
    for file in files:
        try:
            readable.append(pending_runs.read_pending(file))
        except (SnapshotError, SettingsError) as error:
            damaged = isinstance(error, SnapshotError) and not isinstance(error, SnapshotMissing)
            worst = max(worst, complain(error, Exit.DAMAGED if damaged else Exit.USAGE))
    chosen = [each for each in readable if pending_runs.are_all_chosen(each.codes or (), options.code)]
    for each in readable:
        word = "left     " if each not in chosen else "to take  " if options.dry_run else "take     "
        if len(files) > 1 or options.dry_run or each not in chosen:
            say(f"{word} {format_path(each.home)}: {each.describe()}")
    if options.dry_run:
        return worst
    for each in chosen:
        say(each.accept())
    remind([each.home for each in chosen])
    return worst if chosen or worst else complain("nothing was taken", Exit.NOTHING)


def accept_requests(options: Options) -> int:
    """Run tests on their recorded replies and keep their changed requests, by one pytest for each project."""
    if (not options.all and not options.what) or not (options.reason.strip() or options.dry_run):
        what = "--all" if options.all else join_words(options.what)
        command = format_keeping(what or "FILE")
        return complain(f"say {'' if what else 'of which snapshot, and '}why its replies still hold: {command}")
    files = select_snapshots(options.what, Path.cwd())
    if not files:
        return complain("there is no snapshot there", Exit.NOTHING)
    projects, worst = group_by_project(files, many=len(files) > 1)
    for root, tests in projects.items():
        worst = max(worst, adopt(root, tests, options))
    return worst


def group_by_project(files: list[Path], *, many: bool) -> tuple[dict[Path, list[str]], int]:
    """Return the tests of these snapshots by the root of their project, and the exit code for what has none.

    Raises SnapshotError for a single snapshot that cannot be read.
    """
    projects: dict[Path, list[str]] = defaultdict(list)
    worst: int = Exit.SAME
    for file in files:
        try:
            root, test = find_test(file)
            projects[root].append(test)
        except RunnerError as error:
            worst = max(worst, complain(error, Exit.CANNOT))
        except SnapshotError as error:
            if not many:
                raise
            worst = max(worst, complain(error, Exit.DAMAGED))
    return projects, worst


def adopt(root: Path, tests: list[str], options: Options) -> int:
    """Run these tests of one project; returns the exit code."""
    reason = options.reason.strip() or "dry run"
    with TemporaryDirectory() as folder:
        plan, listed = Path(folder) / "plan.json", Path(folder) / "tests.txt"
        data = {"tests": tests, "codes": options.code, "dry_run": options.dry_run}
        files.write_whole(plan, json.dumps(data))
        typed_once = dict.fromkeys(map(get_test_id, tests))
        files.write_whole(listed, "".join(f"{test}\n" for test in typed_once))
        # A file of arguments (pytest 8.2): 200 ids are longer than a command line of Windows may be.
        test_arguments = [*typed_once] if len(typed_once) == 1 else [f"@{listed}"]
        words = ["-q", "--agentreplay-mode=model", f"--agentreplay-adopt={reason}", f"--agentreplay-adopt-plan={plan}"]
        return run_pytest(root, [*test_arguments, *words], tests[0] if len(tests) == 1 else f"{len(tests)} tests")
