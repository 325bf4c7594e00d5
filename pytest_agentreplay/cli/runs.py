"""The everyday verbs: look at runs, compare them, run their tests again."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_agentreplay.cli.saying import CANNOT, DIVERGED, NOTHING, SAME, USAGE, complain, say, say_data, width
from pytest_agentreplay.core.align import divergences
from pytest_agentreplay.core.matching import Matching
from pytest_agentreplay.core.paths import typed
from pytest_agentreplay.core.turns import turns
from pytest_agentreplay.dialects import READER, RULES
from pytest_agentreplay.errors import RunnerError, SnapshotError, SnapshotMissing
from pytest_agentreplay.report import findings, transcript
from pytest_agentreplay.report.escape import escape_output
from pytest_agentreplay.report.finding import format_finding
from pytest_agentreplay.runs.offline_session import list_accepted_rules
from pytest_agentreplay.store import reading
from pytest_agentreplay.store.display_path import format_path
from pytest_agentreplay.store.projects import is_file, root_above, test_to_run

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from pytest_agentreplay.cli.verb_table import Verbs
    from pytest_agentreplay.core.divergence import Divergence
    from pytest_agentreplay.core.model import Run

PYTEST_CODES = {0: SAME, 1: DIVERGED, 2: DIVERGED, 3: DIVERGED, 4: USAGE, 5: NOTHING}
REASONS = {2: "pytest was interrupted", 3: "pytest met an internal error", 4: "pytest knows no such test or flag"}


def add_verbs(verbs: Verbs) -> None:
    """Declare `demo`, `show` and `diff`."""
    about = "record, replay and diverge on an embedded model, without a key"
    demo_verb = verbs.add("demo", demo, about, failure=CANNOT)
    demo_verb.add_argument("--dir", type=Path, default=Path("agentreplay-demo"), help="folder for the demo's files")
    demo_verb.flag("--force", "write over what you edited in that folder")
    show_verb = verbs.add("show", show, "print a snapshot as a readable transcript", json=True)
    show_verb.add_argument("file", type=Path, metavar="FILE")
    ways = show_verb.add_mutually_exclusive_group()
    ways.add_argument("--turn", type=int, help="only this turn")
    ways.add_argument("--step", action="store_true", help="walk it turn by turn, forward and back")
    ways.add_argument("--kit", action="store_true", help="what a full replay needs, what of it is there, and a grade")
    ways.add_argument("--textconv", action="store_true", help="for git diff: without times, ids and counts of tokens")
    diff_verb = verbs.add("diff", diff, "print every place where two snapshots differ", json=True)
    for name in ("a", "b"):
        diff_verb.add_argument(name, type=Path, metavar=name.upper())
    diff_verb.flag("--first", "only the first divergent turn")


def demo(options: argparse.Namespace) -> int:
    """`agentreplay demo`."""
    from pytest_agentreplay.demo.walk import walk

    def show_line(line: str) -> None:
        print(line, flush=True)

    fine = walk(options.dir.resolve(), show_line, width=max(60, width() - 5), force=options.force)
    return SAME if fine else DIVERGED


def show(options: argparse.Namespace) -> int:
    """`agentreplay show FILE [--turn N | --step | --kit [--json] | --textconv]`."""
    if options.kit:
        return print_kit(options)
    if options.json:
        return complain("--json: a run is printed as plain data with --kit alone", USAGE)
    if options.textconv:
        return textconv(options.file)
    if options.step:
        from pytest_agentreplay.cli.stepping import step

        return step(options)
    snapshot = reading.load(options.file)
    numbers = sorted({turn.number for turn in turns(snapshot.run, READER)})
    if options.turn is not None and options.turn not in numbers:
        there = f"it has {numbers[0]} to {numbers[-1]}" if numbers else "it has none"
        return complain(f"{format_path(options.file)}: there is no turn {options.turn}; {there}", USAGE)
    say(transcript.show_run(snapshot.run, turn=options.turn, width=width()))
    for note in snapshot.notes:
        say(f"note: {note}")
    if not snapshot.sealed:
        say(
            "note: this snapshot was edited after it was sealed; "
            f"agentreplay verify {format_path(options.file)} says where"
        )
    return SAME


def print_kit(options: argparse.Namespace) -> int:
    """`agentreplay show FILE --kit [--json]`."""
    from pytest_agentreplay.core.kit import kit_of

    snapshot = reading.load(options.file)
    kit = kit_of(snapshot.run, READER, digest=snapshot.digest, sealed=snapshot.sealed)
    if options.json:
        say_data({"file": format_path(options.file), **transcript.dump_kit(kit)})
    else:
        say(f"{format_path(options.file)}\n{transcript.format_kit(kit, width=width())}")
    return SAME if kit.grade.replays else CANNOT


def textconv(file: Path) -> int:
    """Print a snapshot for `git diff`. One that cannot be read is printed as it is: git shows no diff if this fails."""
    try:
        sys.stdout.write(escape_output(transcript.write_textconv(reading.load(file).run)))
    except SnapshotMissing:
        raise
    except SnapshotError:
        sys.stdout.write(escape_output(reading.data(file).decode(errors="replace")))
    return SAME


def read_pair(first: Path, second: Path) -> tuple[Run, Run, Matching]:
    """Return the runs of two snapshots, and what of them is compared."""
    matching = Matching(READER, (*RULES, *list_accepted_rules(root_above(Path.cwd()))))
    return reading.load(first).run, reading.load(second).run, matching


def parted(first: Path, second: Path) -> tuple[Divergence, ...]:
    """Every divergence between two snapshots."""
    a, b, matching = read_pair(first, second)
    return divergences(a, b, READER, matching=matching)


def diff(options: argparse.Namespace) -> int:
    """`agentreplay diff A B [--first] [--json]`."""
    differences = parted(options.a, options.b)[: 1 if options.first else None]
    return tell(differences, options.a, options.b, as_json=options.json)


def tell(found: tuple[Divergence, ...], first: Path, second: Path, *, as_json: bool) -> int:
    """Print divergences for people or as data; returns the exit code."""
    told = [findings.describe_comparison(divergence, format_path(first), format_path(second)) for divergence in found]
    if as_json:
        say_data({"same": not told, "divergences": [finding.plain() for finding in told]})
    elif not told:
        say(f"same: {format_path(first)} and {format_path(second)} hold the same run")
    for finding in () if as_json else told:
        say(format_finding(finding, width=width()) + "\n")
    return DIVERGED if told else SAME


def find_test(file: Path) -> tuple[Path, str]:
    """Return where to run pytest for the test that the snapshot `file` belongs to, and its id from there.

    Raises RunnerError where the test's file is gone.
    """
    root, module, test = test_to_run(file.absolute(), reading.load(file).run.header.test)
    if not is_file(module):
        raise RunnerError(f"{format_path(file)}: belongs to {test}, and {format_path(module)} is not there any more")
    return root, test


def run_test(file: Path, *words: str) -> int:
    """Run the test that the snapshot `file` belongs to, in its project, with `words`; gives our exit code.

    That is 0 or 1 where the test has run, and else 125, by which `git bisect run` skips a commit.
    """
    try:
        root, test = find_test(file)
    except RunnerError as error:
        return complain(error, CANNOT)
    return run_pytest(root, [typed(test), *words], test, {0: SAME, 1: DIVERGED})


def run_pytest(root: Path, words: list[str], what: str, codes: Mapping[int, int] = PYTEST_CODES) -> int:
    """Run pytest in `root`; gives our exit code by that of pytest. `what` names the tests in a complaint."""
    command = [sys.executable, "-m", "pytest", *words]
    done = subprocess.run(command, cwd=root, check=False)  # noqa: S603  a test of the user's and the user's own words
    if done.returncode in REASONS:
        complain(f"{REASONS[done.returncode]}: {what}", done.returncode)
    return codes.get(done.returncode, CANNOT)
