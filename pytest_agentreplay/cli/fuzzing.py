"""`check fuzz`, `check assertions`: a test or case on neighbours of its recording, in other orders of its answers."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_agentreplay.backends.order_permutations import LIMIT
from pytest_agentreplay.backends.perturbation import OTHER_REPLIES, SERVED, Perturbation, weakest_label
from pytest_agentreplay.cli.runs import PYTEST_CODES, REASONS, find_test
from pytest_agentreplay.cli.verbs import Exit, Options, Verbs, complain, say, say_result, width
from pytest_agentreplay.errors import RunnerError, SettingsError
from pytest_agentreplay.model.paths import quote_word
from pytest_agentreplay.model.turns import seat, top_level, turns
from pytest_agentreplay.providers import READER
from pytest_agentreplay.report.escape import wrap_text
from pytest_agentreplay.report.finding import format_finding, restore_finding
from pytest_agentreplay.report.notices import format_count
from pytest_agentreplay.report.terminal import show_progress
from pytest_agentreplay.runs.case_files import case_writer
from pytest_agentreplay.runs.cases import stored_case
from pytest_agentreplay.runs.fuzz import plan
from pytest_agentreplay.runs.fuzz.neighbours import draw_neighbours, list_arguments, list_candidates
from pytest_agentreplay.runs.own_pytest import prepare_pytest
from pytest_agentreplay.runs.partial_replay import list_orders
from pytest_agentreplay.runs.snapshot_selection import select_snapshots
from pytest_agentreplay.snapshots.store import files, format_path, reading
from pytest_agentreplay.snapshots.store.projects import ini_lines, root_above

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_agentreplay.model.exchanges import Run


def add_verbs(verbs: Verbs) -> None:
    """Declare `check fuzz` and `check assertions`."""
    fuzz_verb = verbs.add("check fuzz", fuzz, json=True)
    fuzz_verb.value("--seed", "N", "draw others (default: 0)", type=int, default=0)
    fuzz_verb.value("--budget", "N|60s", f"trials ({BUDGET}; of orders {LIMIT}), or a time", default="")
    fuzz_verb.add_argument("--dir", type=Path, default=Path("cases"), help="where failures are kept (default: cases)")
    orders = "only other orders of answers that were waited for at once, up to the first that matters"
    fuzz_verb.flag("--orders", orders)
    fuzz_verb.value("--order", "N", "only this order, as a report has named it", type=int)
    assertions_verb = verbs.add("check assertions", check_assertions, json=True)
    for verb in (fuzz_verb, assertions_verb):
        verb.value("what", "NODEID|SNAPSHOT|CASE", "a test, its snapshot, or a case")
    fuzz_verb.value("command", "-- PYTEST-ARGUMENTS", "with --orders: handed to pytest", nargs="*", default=[])


BUDGET = 200
BUDGET_FORM = re.compile(r"(?P<trials>[0-9]{1,6})|(?P<seconds>[0-9]{1,5}(?:\.[0-9]+)?)s")
MOST_DRAWN = 10_000
"""Neighbours that are drawn where only a time is given."""


class FuzzTarget(NamedTuple):
    """What is tried: its recording, the project's root, and the id of the test or the case file for pytest."""

    run: Run
    root: Path
    test: str
    is_case: bool

    @property
    def invariants(self) -> tuple[str, ...]:
        """The invariants of the project."""
        return (*ini_lines(self.root, "agentreplay_invariants")[0],)

    def run_trials(self, trials: Sequence[plan.Trial], **options: Any) -> plan.PlanResult:
        """Return what came of trials of it; the options are those of `plan.run_trials`."""
        return plan.run_trials(self.root, self.test, trials, **options)


def find_target(what: str) -> FuzzTarget:
    """Return the test, snapshot or case that is named. Raises SettingsError, RunnerError, CaseError, SnapshotError."""
    path = Path(what)
    if "::" not in what and stored_case.is_case(path):
        file = stored_case.file_of(path)
        case = stored_case.read_case(file, words=None)
        root = root_above(file.absolute().parent)
        if case.base:
            raise SettingsError(f"{case.file}: is a neighbour itself, of {case.base}: name that")
        if case.expect == "cold":
            raise RunnerError(f"{case.file}: cannot be replayed: {case.reason}")
        run = stored_case.frozen(case, strict=False).run
        return FuzzTarget(run, root, file.absolute().relative_to(root).as_posix(), is_case=True)
    file = find_snapshot(what)
    root, test = find_test(file)
    return FuzzTarget(reading.load(file).run, root, test, is_case=False)


def find_snapshot(what: str) -> Path:
    """Return the snapshot that is named by its file or test. Raises SettingsError for none, and for several."""
    snapshots = select_snapshots([what], Path.cwd())
    if len(snapshots) != 1:
        raise SettingsError(f"{what}: {'no snapshot is there' if not snapshots else 'names several tests: name one'}")
    return snapshots[0]


def read_budget(text: str) -> tuple[int, float]:
    """Return the number of trials and the seconds of a budget like 200 or 60s. Raises SettingsError."""
    form = BUDGET_FORM.fullmatch(text)
    if form is None or not float(form["trials"] or form["seconds"]):
        raise SettingsError(f"--budget {text}: a number of trials like 200, or a time like 60s")
    return (int(form["trials"]), 0) if form["trials"] else (MOST_DRAWN, float(form["seconds"]))


def fuzz(options: Options) -> int:
    """`agentreplay check fuzz NODEID|SNAPSHOT|CASE [--seed N] [--budget N|60s] [--dir DIR] [--json]`, or `--orders`."""
    if options.orders or options.order is not None:
        return try_orders(options, find_snapshot(options.what))
    if options.command:
        return complain("what follows -- is handed to pytest with --orders alone")
    count, seconds = read_budget(options.budget or str(BUDGET))
    target = find_target(options.what)
    orders, tools = len(list_orders(target.run)), ini_lines(target.root, "agentreplay_tools")[0]
    candidates = list_candidates(target.run, orders=orders, words=target.is_case, tools=tools)
    neighbours = draw_neighbours(candidates, seed=options.seed, budget=count)
    if not neighbours:
        return complain(f"{options.what}: no call of it can be changed", Exit.NOTHING)
    plain = plan.Trial(0, (), "fuzz", target.invariants)
    trials = [plain, *(plain._replace(number=number, neighbour=each) for number, each in enumerate(neighbours, 1))]
    with show_progress(seconds or len(neighbours)) as advance:

        def show_trials(results: Sequence[plan.TrialResult], spent: float) -> None:
            tried = [result for result in results if result.trial.number]
            failed = format_count(sum(bool(each.violations) for each in tried), "failure")
            left = f"{max(seconds - spent, 0):.0f} s" if seconds else str(len(neighbours) - len(tried))
            text = f"{format_count(len(tried), 'trial')}, {failed}, {left} left"
            advance(spent if seconds else len(tried), text)

        done = target.run_trials(trials, seconds=seconds, show=show_trials)
    check_founded(options.what, done)
    failures, gone = plan.group_failures(done.tried), 0
    if failures and (not done.interrupted or seconds):
        failures = [plan.shrink(each, candidates, plain, lambda t: target.run_trials(t).results) for each in failures]
        failures, gone = plan.confirm(failures, plain, lambda t: target.run_trials(t, apart=True).results)
    kept = [(each, case_writer.write(options.dir, target.root, target.test, each)) for each in failures]
    described = [describe_failure(failure, file) for failure, file in kept]
    lines = [*format_fuzz(options.what, done, kept)]
    lines += [f"{format_count(gone, 'failure')} not kept: none shows again in a process of its own"] * bool(gone)
    say_result(options, {"trials": len(done.tried), "failures": described}, lines)
    if done.interrupted and not seconds:
        raise KeyboardInterrupt
    return Exit.DIVERGED if failures else Exit.SAME


def check_founded(what: str, done: plan.PlanResult) -> None:
    """Raise RunnerError where pytest ran no trial, or the test fails on its own recording: the others say nothing."""
    plain = next((result for result in done.results if not result.trial.number), None)
    if plain is None:
        raise RunnerError(f"{what}: pytest ran no neighbour of it: {done.reason}")
    if plain.violations:
        raise RunnerError(f"{what}: it fails on its own recording, and that comes first: {plain.violations[0].text}")


def describe_failure(failure: plan.FuzzFailure, kept: Path) -> dict[str, Any]:
    """Return a failure as plain data."""
    return {
        "invariant": failure.violation.invariant,
        "text": failure.violation.text,
        "perturb": [each.plain() for each in failure.neighbour],
        "served": SERVED[weakest_label(failure.neighbour)],
        "neighbours": failure.shown_by,
        "case": format_path(kept),
    }


def format_fuzz(what: str, done: plan.PlanResult, kept: Sequence[tuple[plan.FuzzFailure, Path]]) -> Iterator[str]:
    """Yield what came of the neighbours, then each cause with its smallest neighbour and its case."""
    broken = sum(bool(result.violations) for result in done.tried)
    yield from [done.state] if done.state else []
    yield f"{what}: {format_count(len(done.tried), 'neighbour')}, {len(done.tried) - broken} hold"
    if done.unjudged:
        why = done.unjudged[0].splitlines()[-1]
        yield from wrap_text(f"{format_count(len(done.unjudged), 'neighbour')} not judged: {why}", width(), "  ")
    for failure, file in kept:
        shown_by = format_count(failure.shown_by, "neighbour")
        text = f"{failure.name}: {failure.violation.text} ({shown_by})"
        yield from ("", *wrap_text(text, width(), "", "    "))
        for each in failure.neighbour:
            yield from wrap_text(each.describe(), width(), "  ")
        served = SERVED[weakest_label(failure.neighbour)]
        yield from wrap_text(f"served {served}: this is about what the agent does, not its answer", width(), "  ")
        yield f"  kept:  pytest {quote_word(format_path(file))}"


def check_assertions(options: Options) -> int:
    """`agentreplay check assertions NODEID|SNAPSHOT|CASE [--json]`."""
    target = find_target(options.what)
    calls = top_level(target.run)
    changes = [
        Perturbation(operator, at)
        for at, exchange in enumerate(calls, 1)
        for operator in OTHER_REPLIES
        if list_arguments(operator, exchange, target.run)
    ]
    if not changes:
        return complain(f"{options.what}: no reply of a model in it can be replaced by another one", Exit.NOTHING)
    trials = [plan.Trial(0, ()), *(plan.Trial(n, (each,), "assertions") for n, each in enumerate(changes, 1))]
    done = target.run_trials(trials)
    check_founded(options.what, done)
    rows = [*make_rows(target.run, done.tried)]
    unchecked, meaning = explain_rows(rows)
    lines = [*filter(None, [done.state]), *map(format_row, rows), f"{options.what}: {meaning}"]
    say_result(options, {"unchecked": unchecked, "turns": rows}, lines)
    return Exit.DIVERGED if unchecked else Exit.SAME


def make_rows(run: Run, results: Sequence[plan.TrialResult]) -> Iterator[dict[str, Any]]:
    """Yield a row for each turn: which other replies the test noticed, which it did not, which ended the run early."""
    calls, every = top_level(run), turns(run, READER)
    by_call: dict[int, list[plan.TrialResult]] = {}
    for result in results:
        by_call.setdefault(result.trial.neighbour[0].at, []).append(result)
    for at, group in sorted(by_call.items()):
        yield {
            "call": at,
            "turn": seat(every, calls[at - 1]).turn.title,
            "noticed": [name_operator(result) for result in group if result.noticed],
            "unnoticed": [name_operator(result) for result in group if result.end == "passed"],
            "stopped": [name_operator(result) for result in group if result.end == "stopped"],
        }


def name_operator(result: plan.TrialResult) -> str:
    """Return the operator of a trial of one perturbation."""
    return result.trial.neighbour[0].operator


def explain_rows(rows: Sequence[dict[str, Any]]) -> tuple[bool, str]:
    """Return whether the test notices nothing, or an empty answer alone; and what the rows mean."""
    noticed = {kind for row in rows for kind in row["noticed"]}
    tried = {kind for row in rows for word in ("unnoticed", "stopped") for kind in row[word]}
    missed = ", ".join(kind for kind in OTHER_REPLIES if kind in tried - noticed)
    if not noticed:
        return True, "NOT CHECKED: whatever the model replies, no assertion of it fails"
    if noticed == {"empty-answer"} and missed:
        return True, f"HARDLY CHECKED: only an empty answer is noticed; no assertion notices {missed}"
    idle = ", ".join(row["turn"] for row in rows if not row["noticed"])
    parts = [f"no assertion notices {missed}"] * bool(missed) + [f"no assertion depends on {idle}"] * bool(idle)
    return False, "; ".join(parts) or "assertions notice each kind of reply, and depend on every turn"


def format_row(row: dict[str, Any]) -> str:
    """Return the line of a turn: which other replies are noticed there, which are not, which ended the run early."""
    parts = [f"{kind} {', '.join(row[kind])}" for kind in ("noticed", "unnoticed", "stopped") if row[kind]]
    return f"{row['turn']:10} {'; '.join(parts)}"


OrderRows = list[dict[str, Any]]

TAIL = 15  # lines of pytest's output where it did not come to the orders


def try_orders(options: Options, file: Path) -> int:
    """`agentreplay check fuzz WHAT --orders [--budget N] [--seed N] [--order N] [-- PYTEST-ARGUMENTS]`."""
    if options.json:
        return complain("--json: orders are not printed as plain data")
    if options.budget and not (options.budget.isdecimal() and int(options.budget)):
        return complain(f"--budget {options.budget}: with --orders a number of orders, like {LIMIT}")
    options.failure = Exit.CANNOT
    limit = int(options.budget or LIMIT)
    run = reading.load(file).run
    root, test = find_test(file)
    words = [word for word in options.command if word != test]
    if other := next((word for word in words if "::" in word and not word.startswith("-")), None):
        return complain(f"{format_path(file)}: belongs to {test}, not to {other}")
    orders = list_orders(run, limit=limit, seed=options.seed)
    if not orders:
        return complain(f"{format_path(file)}: no two of its answers were waited for at once", Exit.NOTHING)
    if options.order is not None and not 0 < options.order <= len(orders):
        return complain(f"{format_path(file)}: there is no order {options.order}; it has 1 to {len(orders)}")
    drawn = len(orders) == limit and len(list_orders(run, limit=limit + 1, seed=options.seed)) > limit
    again = f"agentreplay check fuzz {quote_word(format_path(file))}"
    again += f" --budget {limit}" * (limit != LIMIT) + f" --seed {options.seed}" * (options.seed != 0)
    again = again.replace("{", "{{").replace("}", "}}")
    plan_data = {"test": test, "limit": limit, "seed": options.seed, "only": options.order}
    plan_data["again"] = f"{again} --order {{}}"
    code, printed, rows = replay_orders(root, plan_data, words)
    if not rows:
        return report_unreached(file, test, code, printed)
    return report_orders(file, rows, len(orders), drawn=drawn)


def replay_orders(root: Path, plan_data: dict[str, Any], words: list[str]) -> tuple[int, str, OrderRows]:
    """Run the orders as items of pytest, up to the first that fails; return pytest's code, its output, the rows."""
    file, _, name = plan_data["test"].partition("::")
    node = f"{file}::{name.partition('[')[0]}"
    with TemporaryDirectory() as folder:
        trials, into = Path(folder) / "trials.json", Path(folder) / "told.json"
        files.write_whole(trials, json.dumps({**plan_data, "into": str(into)}))
        flags = ["-q", "-x", "--agentreplay-mode=model", f"--agentreplay-trials={trials}"]
        command, environ = prepare_pytest(root, [node, *flags, *words])
        done = subprocess.run(  # noqa: S603  a test of the user's and the user's own words
            command, cwd=root, env=environ, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        printed = done.stdout.decode("utf-8", "replace")
        return done.returncode, printed, json.loads(into.read_bytes()) if into.is_file() else []


def report_orders(file: Path, rows: OrderRows, total: int, *, drawn: bool) -> int:
    """Print what the orders have shown; return the exit code."""
    for state in dict.fromkeys(row["state"] for row in rows if "state" in row):
        say(state)
    ran = sorted((row["trial"] for row in rows if "trial" in row), key=lambda trial: trial["number"])
    race = next((trial["race"] for trial in ran if trial.get("race")), None)
    if race is not None:
        say(format_finding(restore_finding(race), width=width()))
        return Exit.DIVERGED
    if failed := next((row for row in rows if "complaint" in row), None):
        say(failed["complaint"])
        again = f"agentreplay replay {quote_word(format_path(file))}"
        return complain(f"{failed['of']} failed beside the order of answers; that comes first: {again}", Exit.CANNOT)
    tried = [trial for trial in ran if trial["number"]]
    how = f"all {total}" if len(tried) == total > 1 else f"{len(tried)} of {total}"
    more = ""
    if drawn and len(tried) == total:
        how, more = f"{total}", " (there are more: --budget, --seed)"
    say(f"same under {how} other orders of its answers{more}: {format_path(file)}")
    if unkept := sum(not trial["kept"] for trial in tried):
        say(f"{unkept} of them cannot come about: what gives way to nobody has its answer at once")
    return Exit.SAME


def report_unreached(file: Path, test: str, code: int, output: str) -> int:
    """Print why no order was replayed; return the exit code."""
    for row in output.splitlines()[-TAIL:]:
        say(row)
    if code in REASONS:
        return complain(f"{REASONS[code]}: {test}", PYTEST_CODES[code])
    why = "unittest.TestCase methods and tests that do not opt in have no other orders"
    return complain(f"{format_path(file)}: pytest replayed {test} in no order; {why}", Exit.CANNOT)
