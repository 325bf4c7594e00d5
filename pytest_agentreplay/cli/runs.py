"""The everyday verbs: look at runs, compare them, run their tests again."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_agentreplay.cli.verbs import Exit, Options, Verbs, complain, find_root, say, say_data, width
from pytest_agentreplay.compare.align import divergences
from pytest_agentreplay.compare.matching import Matching
from pytest_agentreplay.errors import RunnerError
from pytest_agentreplay.model.paths import get_test_id
from pytest_agentreplay.providers import READER, RULES
from pytest_agentreplay.report import findings
from pytest_agentreplay.report.finding import format_finding
from pytest_agentreplay.report.terminal import wants_colour
from pytest_agentreplay.runs.offline_session import list_accepted_rules
from pytest_agentreplay.runs.own_pytest import prepare_pytest
from pytest_agentreplay.snapshots.store import format_path, reading
from pytest_agentreplay.snapshots.store.projects import is_file, test_to_run

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_agentreplay.model.divergence import Divergence
    from pytest_agentreplay.model.exchanges import Run

PYTEST_CODES = {0: Exit.SAME, 1: Exit.DIVERGED, 2: Exit.DIVERGED, 3: Exit.DIVERGED, 4: Exit.USAGE, 5: Exit.NOTHING}
REASONS = {2: "pytest was interrupted", 3: "pytest met an internal error", 4: "pytest met a usage error"}


def add_verbs(verbs: Verbs) -> None:
    """Declare `demo` and `diff`."""
    demo_verb = verbs.add("demo", demo, failure=Exit.CANNOT)
    demo_verb.add_argument("--dir", type=Path, default=Path("agentreplay-demo"), help="folder for the demo's files")
    demo_verb.add_argument("--model", choices=("local",), help='a real one: pip install "frozen-agentreplay[local]"')
    demo_verb.flag("--force", "write over what you edited in that folder")
    diff_verb = verbs.add("diff", diff, "print every place where two snapshots differ", json=True)
    for name in ("a", "b"):
        diff_verb.add_argument(name, type=Path, metavar=name.upper())
    diff_verb.flag("--first", "only the first divergent turn")


def demo(options: Options) -> int:
    """`agentreplay demo`."""
    from pytest_agentreplay.cli.demo.walk import walk

    def show_line(line: str) -> None:
        print(line, flush=True)

    flags = {"local": options.model is not None, "force": options.force}
    fine = walk(options.dir.resolve(), show_line, width=max(60, width() - 5), **flags)
    return Exit.SAME if fine else Exit.DIVERGED


def read_pair(first: Path, second: Path) -> tuple[Run, Run, Matching]:
    """Return the runs of two snapshots, and what of them is compared."""
    matching = Matching(READER, (*RULES, *list_accepted_rules(find_root())))
    return reading.load(first).run, reading.load(second).run, matching


def compare_snapshots(first: Path, second: Path) -> tuple[Divergence, ...]:
    """Return every divergence between two snapshots."""
    a, b, matching = read_pair(first, second)
    return divergences(a, b, READER, matching=matching)


def diff(options: Options) -> int:
    """`agentreplay diff A B [--first] [--json]`."""
    from pytest_agentreplay.runs.snapshot_selection import choose_run

    first, second = (choose_run(path, "show") for path in (options.a, options.b))
    differences = compare_snapshots(first, second)[: 1 if options.first else None]
    names = format_path(first), format_path(second)
    described = [findings.describe_comparison(divergence, *names) for divergence in differences]
    if options.json:
        say_data({"same": not described, "divergences": [finding.plain() for finding in described]})
        return Exit.DIVERGED if described else Exit.SAME
    for finding in described:
        print(format_finding(finding, width=width(), see_all="", colour=wants_colour(sys.stdout)) + "\n")
    if described:
        return Exit.DIVERGED
    say(f"same: {names[0]} and {names[1]} hold the same run")
    return Exit.SAME


def find_test(file: Path) -> tuple[Path, str]:
    """Return where to run pytest for the test that the snapshot `file` belongs to, and its id from there.

    Raises RunnerError where the test's file is gone.
    """
    root, module, test = test_to_run(file.absolute(), reading.load(file).run.header.test)
    if not is_file(module):
        raise RunnerError(f"{format_path(file)}: belongs to {test}, and {format_path(module)} is not there any more")
    return root, test


def run_test(file: Path, *words: str) -> int:
    """Run the test that the snapshot `file` belongs to, in its project, with `words`; return our exit code.

    That is 0 or 1 where the test has run, and else 125, by which `git bisect run` skips a commit.
    """
    try:
        root, test = find_test(file)
    except RunnerError as error:
        return complain(error, Exit.CANNOT)
    return run_pytest(root, [get_test_id(test), *words], test, {0: Exit.SAME, 1: Exit.DIVERGED})


def run_pytest(root: Path, words: list[str], what: str, codes: Mapping[int, int] = PYTEST_CODES) -> int:
    """Run pytest in `root`; return our exit code for that of pytest. `what` names the tests in a complaint."""
    command, environ = prepare_pytest(root, words)
    done = subprocess.run(command, cwd=root, env=environ, check=False)  # noqa: S603  a test of the user's and the user's own words
    if done.returncode in REASONS:
        complain(f"{REASONS[done.returncode]}: {what}", done.returncode)
    return codes.get(done.returncode, Exit.CANNOT)
