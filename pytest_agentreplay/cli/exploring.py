"""`agentreplay fuzz --orders`: a test replayed in other orders of its overlapping answers, until one matters."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.backends.order_permutations import LIMIT
from pytest_agentreplay.cli.runs import PYTEST_CODES, REASONS
from pytest_agentreplay.cli.saying import CANNOT, DIVERGED, NOTHING, SAME, USAGE, complain, say, width
from pytest_agentreplay.model.paths import quoted
from pytest_agentreplay.snapshots.store import files
from pytest_agentreplay.snapshots.store.display_path import format_path

if TYPE_CHECKING:
    import argparse

Told = list[dict[str, Any]]

TAIL = 15  # lines of pytest's output where it did not come to the orders


def try_orders(options: argparse.Namespace, file: Path) -> int:
    """`agentreplay fuzz WHAT --orders [--budget N] [--seed N] [--order N] [-- PYTEST-ARGUMENTS]`."""
    from pytest_agentreplay.runs.partial_replay import list_orders
    from pytest_agentreplay.snapshots.store.projects import test_to_run
    from pytest_agentreplay.snapshots.store.reading import load

    if options.json:
        return complain("--json: orders are not printed as plain data", USAGE)
    if options.budget and not (options.budget.isdecimal() and int(options.budget)):
        return complain(f"--budget {options.budget}: with --orders a number of orders, like {LIMIT}", USAGE)
    options.failure = CANNOT
    limit = int(options.budget or LIMIT)
    run = load(file).run
    root, module, test = test_to_run(file.absolute(), run.header.test)
    words = [word for word in options.command if word != test]
    if other := next((word for word in words if "::" in word and not word.startswith("-")), None):
        return complain(f"{format_path(file)}: belongs to {test}, not to {other}", USAGE)
    if not module.is_file():
        return complain(
            f"{format_path(file)}: belongs to {test}, and {format_path(module)} is not there any more", CANNOT
        )
    orders = list_orders(run, limit=limit, seed=options.seed)
    if not orders:
        return complain(f"{format_path(file)}: no two of its answers were waited for at once", NOTHING)
    if options.order is not None and not 0 < options.order <= len(orders):
        return complain(f"{format_path(file)}: there is no order {options.order}; it has 1 to {len(orders)}", USAGE)
    drawn = len(orders) == limit and len(list_orders(run, limit=limit + 1, seed=options.seed)) > limit
    again = f"agentreplay fuzz {quoted(format_path(file))}"
    again += f" --budget {limit}" * (limit != LIMIT) + f" --seed {options.seed}" * (options.seed != 0)
    again = again.replace("{", "{{").replace("}", "}}")
    asked = {
        "test": test,
        "limit": limit,
        "seed": options.seed,
        "only": options.order,
        "again": f"{again} --order {{}}",
    }
    code, printed, told = replayed(root, asked, words)
    if not told:
        return unreached(file, test, code, printed)
    return verdict(file, told, len(orders), drawn=drawn)


def replayed(root: Path, asked: dict[str, Any], words: list[str]) -> tuple[int, str, Told]:
    """Run the orders as items of pytest, up to the first that fails: pytest's code, what it said, what they told."""
    file, _, name = asked["test"].partition("::")
    node = f"{file}::{name.partition('[')[0]}"
    with TemporaryDirectory() as folder:
        plan, into = Path(folder) / "trials.json", Path(folder) / "told.json"
        files.write_whole(plan, json.dumps({**asked, "into": str(into)}))
        command = [sys.executable, "-m", "pytest", node, "-q", "-x", "--agentreplay-mode=model"]
        done = subprocess.run(  # noqa: S603  a test of the user's and the user's own words
            [*command, f"--agentreplay-trials={plan}", *words],
            cwd=root,
            check=False,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
        )
        return done.returncode, done.stdout, json.loads(into.read_bytes()) if into.is_file() else []


def verdict(file: Path, told: Told, total: int, *, drawn: bool) -> int:
    """Say what the orders have told; returns the exit code."""
    from pytest_agentreplay.report.finding import format_finding, restore_finding

    for state in dict.fromkeys(row["state"] for row in told if "state" in row):
        say(state)
    ran = sorted((one["trial"] for one in told if "trial" in one), key=lambda trial: trial["number"])
    race = next((trial["race"] for trial in ran if trial.get("race")), None)
    if race is not None:
        say(format_finding(restore_finding(race), width=width()))
        return DIVERGED
    if failed := next((one for one in told if "complaint" in one), None):
        say(failed["complaint"])
        again = f"agentreplay replay {quoted(format_path(file))}"
        return complain(f"{failed['of']} failed beside the order of answers; that comes first: {again}", CANNOT)
    tried = [trial for trial in ran if trial["number"]]
    how = f"all {total}" if len(tried) == total > 1 else f"{len(tried)} of {total}"
    more = ""
    if drawn and len(tried) == total:
        how, more = f"{total}", " (there are more: --budget, --seed)"
    say(f"same under {how} other orders of its answers{more}: {format_path(file)}")
    if unkept := sum(not trial["kept"] for trial in tried):
        say(f"{unkept} of them cannot come about: what gives way to nobody has its answer at once")
    return SAME


def unreached(file: Path, test: str, code: int, said: str) -> int:
    """Say why no order was replayed; returns the exit code."""
    for row in said.splitlines()[-TAIL:]:
        say(row)
    if code in REASONS:
        return complain(f"{REASONS[code]}: {test}", PYTEST_CODES[code])
    why = "unittest.TestCase methods and tests that do not opt in have no other orders"
    return complain(f"{format_path(file)}: pytest replayed {test} in no order; {why}", CANNOT)
