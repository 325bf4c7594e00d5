"""What coding agents can do through `agentreplay mcp`: look at what is recorded, replay it, and make a case of a run.

No tool records, accepts, redacts or goes live, and none takes a flag, or a path out of the project. What is given to
pytest is the id that a recorded file of the project states, never the word of the call.

The signature of a tool is its schema, and the first paragraph of its docstring is what an agent reads about it. `root`
is the project; each tool also takes `start`, which `mcp_answers` reads.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from pathlib import Path

from pytest_agentreplay.cases.case import FILE, RUN
from pytest_agentreplay.cli.mcp_answers import ToolAnswer, format_call, shorten_prose
from pytest_agentreplay.cli.offline_pytest import TestResult, replay_tests, run_offline
from pytest_agentreplay.cli.runs import compare_snapshots, find_test
from pytest_agentreplay.cli.verbs import MODULES
from pytest_agentreplay.errors import AgentReplayError
from pytest_agentreplay.model.paths import get_test_id
from pytest_agentreplay.model.turns import turns
from pytest_agentreplay.providers import READER
from pytest_agentreplay.report.finding import format_finding
from pytest_agentreplay.report.findings import describe_comparison
from pytest_agentreplay.report.run_view import spell_run
from pytest_agentreplay.report.transcript import list_edit_notes
from pytest_agentreplay.runs import inventory
from pytest_agentreplay.runs.snapshot_selection import normalize_id, select_snapshots
from pytest_agentreplay.snapshots.kit import plural
from pytest_agentreplay.snapshots.store import files, format_path, layout, projects, reading

SCAFFOLD = next(verb for verb, module in MODULES.items() if module == "casework").split()
"""The words of the command line that make a case."""
PERSONAL = "Whether the new behaviour is wanted is up to the person you work for: only they record or accept runs."
OUTLINED = re.compile(r".*?turn \d+(?:: |, (?:user|answers|asks for|ran|retrieved|tried|raised|did not end|status)\b)")
"""Lines of a run that its outline has."""


def list_recorded(root: Path, path: str = "") -> ToolAnswer:
    """List what is recorded in this project, and which tests failed last. Begin here."""
    entries = inventory.read_inventory(root, [find_inside(root, path)] if path else [])
    failed, rows, calls = read_last_failed(root), [], []
    for entry in entries:
        word = {"case": format_path(entry.path.parent), "snapshot": entry.name}.get(entry.kind, format_path(entry.path))
        last = entry.kind != "pending" and not failed.isdisjoint({entry.name, f"{word}/{FILE}::{entry.name}"})
        rows.append(f"{'FAILED LAST  ' * last}{word}: {entry.kind}, {entry.problem or entry.outcome or entry.state}")
        calls.append(format_call("explain_failure", test=word) if last else format_call("show_run", run=word))
    calls.sort(key=lambda call: call.startswith("show"))
    rows.sort(key=lambda row: not row.startswith("FAILED"))
    head = f"{plural(len(entries), 'recording')}; {len(failed) or 'no test'} failed in pytest's last session."
    return ToolAnswer(head, rows, calls, "To record a test is up to the person you work for: pytest --snapshot-record")


def explain_failure(root: Path, test: str) -> ToolAnswer:
    """Explain why a test fails: replay it offline, and show what differs from the recording, where in the code the
    call was made, and the likely cause.
    """  # noqa: D205  one sentence, as an agent reads it
    failed = [result for result in replay_recorded(root, test) if result.outcome == "failed"]
    if not failed:
        return ToolAnswer(f"{test} does not fail in a replay with the code as it is now.")
    name, facts = failed[0].test, failed[0].facts
    turn = {"turn": int(facts["turn"])} if "turn" in facts else {}
    calls = [format_call("show_run", run=name, **turn), format_call("replay", test=name)]
    calls += [format_call("explain_failure", test=other.test) for other in failed[1:]]
    where = f"called from {facts['origin']}: begin there" if "origin" in facts else "see below"
    head = f"{name} fails in a replay: {facts.get('code', 'an error')}, {where}. Fix the code and replay the test."
    return ToolAnswer(head, leave_out_calls(failed[0].text), calls, PERSONAL)


def show_run(root: Path, run: str, turn: int | None = None) -> ToolAnswer:
    """Show a recorded run: its outline, or one turn in full with messages, tool calls and results."""
    file = find_run(root, run)
    snapshot = reading.load(file)
    last = max((each.number for each in turns(snapshot.run, READER)), default=0)
    rows, following = [*spell_run(snapshot.run, turn)], (turn or 0) + 1
    if turn is None:
        rows = [shorten_prose(row, 140) for row in rows if OUTLINED.match(row)]
    what = f"outline of {plural(last, 'turn')}" if turn is None else f"turn {turn} of {last}, in full"
    calls = [format_call("show_run", run=run, turn=following)] if 0 < following <= last else []
    return ToolAnswer(f"{format_path(file)}: {'; '.join([what, *list_edit_notes(snapshot)])}.", rows, calls)


def diff_runs(root: Path, a: str, b: str) -> ToolAnswer:
    """Show every place where two recorded runs differ, such as a test's snapshot and its pending run."""
    first, second = find_run(root, a), find_run(root, b)
    names = format_path(first), format_path(second)
    differences = [describe_comparison(divergence, *names) for divergence in compare_snapshots(first, second)]
    text = "\n\n".join(format_finding(finding, width=120, verbosity=2) for finding in differences)
    count = plural(len(differences), "difference") if differences else "no difference"
    return ToolAnswer(f"{count} between {names[0]} (recorded) and {names[1]} (now).", leave_out_calls(text))


def replay(root: Path, test: str) -> ToolAnswer:
    """Replay a test, a test file, a case or a folder of them offline, with the code as it is now; after each edit."""
    results = replay_recorded(root, test)
    failed = {result.test: result.headline for result in results if result.outcome == "failed"}
    rows = [f"{name}: {headline}" for name, headline in failed.items()]
    calls = [format_call("explain_failure", test=name) for name in failed]
    head = ", ".join(f"{count} {outcome}" for outcome, count in Counter(each.outcome for each in results).items())
    return ToolAnswer(f"{head}, offline: every model and tool answer is the recorded one.", rows, calls)


def scaffold_case(root: Path, test: str) -> ToolAnswer:
    """Keep the last run of a failing test as a case below cases/; nothing else is written."""
    file = find_run(root, test)
    find_inside(root, "cases")
    pending = layout.pending_path(root, file)
    outcome = reading.load(pending if files.exists(pending) else file).run.header.outcome
    if outcome.get("status") == "passed" and all(each.outcome != "failed" for each in replay_recorded(root, test)):
        why = f"{test} has passed and does not fail in a replay, so there is no failure to keep"
        raise AgentReplayError(f"{why}; a person may keep its run all the same: agentreplay case new {test}")
    ended, _ = run_offline(["pytest_agentreplay", *SCAFFOLD, test], root)
    lines, errors = (text.decode(errors="replace").splitlines() for text in (ended.stdout, ended.stderr))
    if ended.code or not lines:
        raise AgentReplayError([f"it ended with {ended.code}", *errors][-1].removeprefix("agentreplay: "))
    folder = lines[0].partition(": ")[0]
    head = f"{folder} is a case now. Read its {FILE}, and say in `observed` what is wrong with the run."
    return ToolAnswer(head, lines[1:], [format_call("replay", test=folder)])


def leave_out_calls(text: str) -> list[str]:
    """Return the lines of findings without both whole calls; `show_run` has the recorded one."""
    blocks = [block for block in text.split("\n\n") if not block.startswith(("  recorded: ", "  now: "))]
    return "\n\n".join(blocks).splitlines()


def replay_recorded(root: Path, word: str) -> list[TestResult]:
    """Replay the recorded tests and cases that `word` names: an id, a test file, a case, or a folder of them."""
    targets: dict[Path, dict[str, None]] = {}
    for file, kind in find_recorded(root, word):
        if kind in {"case", "snapshot"}:
            folder, test = (root, format_path(file.parent)) if kind == "case" else find_test(file)
            targets.setdefault(find_inside(root, str(folder)), {})[get_test_id(test)] = None
    if not targets:
        raise AgentReplayError(f"no snapshot and no case belongs to {word}, so nothing can be replayed")
    return [result for folder, tests in targets.items() for result in replay_tests(folder, [*tests])]


def find_run(root: Path, word: str) -> Path:
    """Return the recorded file that `word` names: the id of a test, a snapshot, or a case. Raises AgentReplayError."""
    (file, kind), *others = find_recorded(root, word)
    if kind in {other for _, other in others}:
        raise AgentReplayError(f"{word} has {len(others) + 1} recordings: name one")
    return file.with_name(RUN) if kind == "case" else file


def find_recorded(root: Path, word: str) -> list[tuple[Path, str]]:
    """Return the files of the project that `word` names, each with its kind: "snapshot", "pending", "run" or "case".

    A snapshot comes before the run that is pending for it. Raises AgentReplayError where there are none.
    """
    word = normalize_id(word)
    path = find_inside(root, word.partition("::")[0])
    if path.suffix == ".py" and ("::" not in word or layout.names_test(word)):
        recorded = [(file, "snapshot") for file in select_snapshots([word], root)]
    else:
        there = path.is_dir() or path.name.endswith((FILE, *layout.RECORDED))
        recorded = [*inventory.list_recorded(root, [path])] if there else []
    if not recorded:
        raise AgentReplayError(f"nothing recorded belongs to {word}")
    return recorded


def find_inside(root: Path, word: str) -> Path:
    """Return the path below the project that `word` names. Raises AgentReplayError for one that leads out of it."""
    if not word or word.startswith(("-", "@")) or not word.isprintable():
        raise AgentReplayError(f"{word!r:.80} names nothing")
    path = Path(os.path.abspath(root / word))  # noqa: PTH100  first without asking the disk: a path may name a server
    if not path.is_relative_to(root) or not path.resolve().is_relative_to(root.resolve()):
        raise AgentReplayError(f"{word:.80} leads out of the project, in which this server stays")
    return path


def read_last_failed(root: Path) -> set[str]:
    """Return the tests that failed in pytest's last session, as its cache has them."""
    # https://github.com/pytest-dev/pytest/blob/9.0.0/src/_pytest/cacheprovider.py
    cache = projects.ini_value(root, "cache_dir") or ".pytest_cache"
    try:
        return {*json.loads(files.read_file(root / cache / "v/cache/lastfailed"))}
    except (AgentReplayError, ValueError, TypeError):
        return set()


TOOLS = {tool.__name__: tool for tool in (list_recorded, explain_failure, show_run, diff_runs, replay, scaffold_case)}
