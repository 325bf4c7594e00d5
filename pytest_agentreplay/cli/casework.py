"""`agentreplay case new`: a case of a test's last run, a snapshot, captured runs, a trace of another tool, a bundle."""

from __future__ import annotations

import os
import re
import subprocess
from argparse import ArgumentTypeError
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_agentreplay.cases.case import FILE
from pytest_agentreplay.cases.schema.model import ID
from pytest_agentreplay.cases.schema.parse import headline
from pytest_agentreplay.cli.redacting import chosen_policy
from pytest_agentreplay.cli.runs import find_test
from pytest_agentreplay.cli.verbs import Exit, Options, Verbs, complain, find_root, say
from pytest_agentreplay.errors import AgentReplayError, CaseError, RunnerError, SettingsError
from pytest_agentreplay.model.paths import get_test_id, quote_word
from pytest_agentreplay.report.escape import escape_line
from pytest_agentreplay.report.terminal import show_progress
from pytest_agentreplay.runs.case_files.bundling import is_bundle, open_bundle
from pytest_agentreplay.runs.case_files.case_writer import day_of, write_files
from pytest_agentreplay.runs.case_files.failures import choose_failures
from pytest_agentreplay.runs.case_files.from_last_run import from_snapshot, latest
from pytest_agentreplay.runs.case_files.scaffold import Scaffold, ScaffoldOptions, folder_name, from_refusal, from_trace
from pytest_agentreplay.runs.case_files.trace_import import Import, import_traces
from pytest_agentreplay.runs.inventory import day_before, days_since
from pytest_agentreplay.runs.own_pytest import prepare_pytest
from pytest_agentreplay.snapshots.kit import plural, table
from pytest_agentreplay.snapshots.store import format_path, layout, reading
from pytest_agentreplay.snapshots.store.run_store import fetch_runs, find_runs, is_store

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_agentreplay.redaction.policy import Policy
    from pytest_agentreplay.traces.trace import Trace

CASES = "cases"
FIDELITY = {
    "bytes": "exact bytes",
    "body-json": "requests as JSON",
    "semantic": "messages and tool calls, not the bytes",
}
"""What the source of a case holds, in words."""
MANY = 20
"""Files of one folder that are read together where one of them alone is not enough."""


def add_verbs(verbs: Verbs) -> None:
    """Declare `case new`."""
    verb = verbs.add("case new", scaffold, policy=True)
    what = "a test's id, a snapshot, a bundle, captured runs or their store, or traces, which are read together"
    verb.value("what", "WHAT", what, nargs="+")
    verb.value("--from", "FORMAT", "read traces as this format", dest="format", default="")
    verb.value("--run", "ID", "the run to take, where a file holds several", dest="wanted", default="")
    verb.flag("--all", "take every run of every file, each into a folder below DIR; of a store, each new failure once")
    verb.value("--since", "WHEN", "of a store: runs since 1d, 2w or a date", type=first_day)
    verb.flag("--cold", "keep a run that was not captured whole, as a case that cannot be replayed yet")
    verb.value("--out", "DIR", "the case's folder (default: cases/NAME)", type=Path)
    verb.value("--runner", "KEY", "the runner of the case, by its key", default="")
    verb.flag("--fixed", "expect the fix: the case fails until the failure is gone")
    verb.flag("--force", "write over files that are not what would be written")


def first_day(text: str) -> str:
    """Return the day that "1d", "2w" or a date says. Raises ArgumentTypeError."""
    if span := re.fullmatch(r"(\d{1,4})([dw])", text):
        return day_before(int(span[1]) * {"d": 1, "w": 7}[span[2]])
    if days_since(text) is None:
        raise ArgumentTypeError(f"{text!r} is no time; write 1d, 2w or a date like 2026-11-28")
    return text[:10]


def is_test(word: str) -> bool:
    """Return whether a word is meant as the id of a test."""
    return word.endswith(".py") or ("::" in word and not os.path.lexists(word))


def scaffold(options: Options) -> int:
    """`agentreplay case new NODEID|SNAPSHOT|BUNDLE|TRACE... [--out DIR] [--from FORMAT] [--run ID | --all]`."""
    options.traces = [*map(Path, options.what)]
    alone = [word for word in options.what if is_test(word) or is_bundle(Path(word))]
    if alone and (options.all or len(options.what) > 1):
        return complain(f"{alone[0]}: is a case of its own: name it alone")
    policy, _ = chosen_policy(options.policy)
    if stores := [word for word in options.what if is_store(word) or word.endswith(layout.RUN_SUFFIX)]:
        return scaffold_store(options, policy, stores)
    if options.since:
        return complain("--since is for a store of captured runs, and there is none")
    ours = [path for path in options.traces if path.name.endswith(layout.SUFFIX)]
    if (alone or ours) and (options.wanted or options.format):
        return complain("--run and --from are for traces of other tools, and there is none")
    if alone and is_test(alone[0]):
        return write_case(scaffold_test(alone[0], options, policy), options)
    if alone:
        return unpack_bundle(options.traces[0], options)
    if options.all:
        return scaffold_all(options, policy)
    if ours and len(options.traces) > 1:
        return complain("a snapshot is a run of its own: name it alone, or add --all")
    if ours:
        return write_case(scaffold_snapshot(ours[0], options, policy), options)
    trace_import = import_traces(options.traces, policy, os.environ, options.format)
    if trace_import.refusal is not None:
        if not options.cold:
            return complain(f"{trace_import.refusal}; to keep it as a case that cannot be replayed yet: --cold")
        return write_case(scaffold_refusal(trace_import, options), options)
    traces = trace_import.traces
    chosen = [trace for trace in traces if options.wanted in {"", trace.id, trace.source.id, trace.name}]
    if len(chosen) != 1:
        return print_choices(chosen or traces, options.wanted if not chosen else "")
    return write_case(scaffold_trace(chosen[0], trace_import, options), options)


def scaffold_store(options: Options, policy: Policy, stores: list[str]) -> int:
    """`agentreplay case new RUN`, `agentreplay case new STORE [--since WHEN] --all`."""
    if len(stores) < len(options.what):
        return complain(f"{stores[0]}: holds captured runs: name them alone")
    since = options.since or ""
    places = [str(fetch_runs(word, since)) if "://" in word else word for word in stores]
    entries = find_runs(places, since)
    runs = [Path(entry.where) for entry in entries if entry.name or not entry.problem]  # the rest is no run's file
    names = ", ".join(format_path(place) for place in places)
    if not runs:
        return complain(f"{names}: holds no captured run{' of that time' * bool(since)}", Exit.NOTHING)
    if len(runs) == 1:
        return write_case(scaffold_snapshot(runs[0], options, policy), options)
    if not options.all:
        for run in runs[-MANY:]:
            say(f"agentreplay case new {quote_word(format_path(run))}")
        return complain(f"{names}: holds {len(runs)} captured runs: name one, or take each failure with --all")
    options.traces, left_out = choose_failures(runs, options.out or find_root() / CASES)
    for reason, count in left_out.items():
        say(f"{count} left out, {reason}")
    return scaffold_all(options, policy) if options.traces else complain(f"{names}: holds no new failure", Exit.NOTHING)


def unpack_bundle(file: Path, options: Options) -> int:
    """`agentreplay case new BUNDLE [--out DIR] [--force]`."""
    try:
        contents = open_bundle(file)
    except CaseError as error:
        return complain(error, Exit.DAMAGED)
    case_id = headline(contents[FILE]).id
    folder = choose_folder(options, case_id)
    laid = write_files(folder, contents, force=options.force)
    where = format_path(folder)
    report_unwritten(where, laid.kept)
    if case_id != folder.absolute().name:
        say(f"{where}: its id is {escape_line(case_id)}, and lint wants the folder to be called so")
    say(f"{where}: {describe_files(laid.written, laid.same)}\nnext:\n  pytest {quote_word(where)}")
    return Exit.SAME


def print_choices(traces: Iterable[Trace], run_id: str) -> int:
    """Print the runs that there are, and return the exit code."""
    for trace in traces:
        calls = f"{len(trace.model_calls)} model calls, {len(trace.tool_runs)} tool calls"
        status = "error" if trace.faults else trace.status or "unknown"
        say(f"--run {quote_word(trace.id or trace.source.id)}   # {status}, {calls}, {trace.name}")
    why = f"there is no run {run_id!r}" if run_id else "there are several runs"
    return complain(f"{why}: name one of these with --run, or take each with --all")


def scaffold_all(options: Options, policy: Policy) -> int:
    """Write a case of each run in each file. A file that cannot be read is reported; the others are read."""
    made = failed = 0
    with show_progress(len(options.traces), few=MANY) as advance:
        for number, path in enumerate(options.traces, 1):
            try:
                for case in read_cases(path, options, policy):
                    write_case(case, options, quiet=len(options.traces) > MANY)
                    made += 1
            except AgentReplayError as error:
                failed += 1
                complain(error, Exit.DIVERGED)
            advance(number, "reading")
    unread = f"; {failed} could not be read" * bool(failed)
    where = format_path(options.out or Path(CASES))
    say(f"{plural(made, 'case')} of {plural(len(options.traces), 'file')} in {where}{unread}")
    return Exit.DIVERGED if failed else Exit.SAME if made else Exit.NOTHING


def read_cases(path: Path, options: Options, policy: Policy) -> Iterable[Scaffold]:
    """Yield the case of each run in a file; it is read with those beside it where it is not enough alone."""
    if path.name.endswith(layout.RECORDED):
        yield scaffold_snapshot(path, options, policy)
        return
    trace_import = import_traces([path], policy, os.environ, options.format)
    if trace_import.refusal is not None:
        beside = [other for other in options.traces if other.parent == path.parent and other != path][:MANY]
        together = import_traces([path, *beside], policy, os.environ, options.format) if beside else trace_import
        trace_import = together if together.refusal is None else trace_import
    if trace_import.refusal is not None and not options.cold:
        raise trace_import.refusal
    if not trace_import.traces:
        yield scaffold_refusal(trace_import, options)
    for number, trace in enumerate(trace_import.traces, 1):
        identity = trace.source.id or trace.id or f"{sha256(trace_import.sources[0][1]).hexdigest()} {number}"
        yield scaffold_trace(trace, trace_import, options, f"{trace.source.format} {identity}")


def scaffold_trace(trace: Trace, trace_import: Import, options: Options, identity: str = "") -> Scaffold:
    """Return the case of an imported run; one of many has an identity."""
    folder = choose_folder(options, trace.name if identity else trace.name or trace.id, identity)
    return from_trace(trace, trace_import, make_options(folder, options))


def scaffold_test(nodeid: str, options: Options, policy: Policy) -> Scaffold:
    """Return the case of the latest run of a test."""
    file = latest(find_root(), nodeid)
    test, bracket, parameters = nodeid.partition("[")
    folder = make_options(choose_folder(options, test.rpartition("::")[2] + bracket + parameters), options)
    made = from_snapshot(file, folder, policy, os.environ)
    if made.run.header.outcome.get("status") == "passed" and (failure := find_failure(file)):
        made = from_snapshot(file, folder, policy, os.environ, failure)
    elif made.run.header.outcome.get("status") == "passed":
        why = "its test has passed; what is wrong with the run is for you to say in `observed`"
        complain(f"{format_path(file)}: {why}", Exit.SAME)
    return made


def find_failure(file: Path) -> dict[str, str]:
    """Return how the test of a snapshot fails in a replay, with the recorded requests; empty where it does not."""
    with suppress(RunnerError):
        root, test = find_test(file)
        command, environ = prepare_pytest(root, [get_test_id(test), "--agentreplay-mode=model", "-rf", "--color=no"])
        environ["COLUMNS"] = "9999"  # the summary has the first line of the message, cut at the width
        done = subprocess.run(command, cwd=root, env=environ, capture_output=True, check=False)  # noqa: S603  a test of the user's
        _, failed, rest = done.stdout.decode(errors="replace").rpartition(f"FAILED {test} - ")
        if failed and not rest.startswith("[AR-"):
            kind, colon, message = rest.splitlines()[0].partition(": ")
            if not colon or " " in kind:  # pytest leaves the class of a plain assertion out
                kind, message = "AssertionError", rest.splitlines()[0]
            return {"status": "failed", "type": kind, "message": message}
    return {}


def scaffold_snapshot(file: Path, options: Options, policy: Policy) -> Scaffold:
    """Return the case of a snapshot or a captured run."""
    if file.name.endswith(layout.RUN_SUFFIX):
        header = reading.load(file).run.header
        name = str(table(header.kit, "capture").get("name") or header.test)
        folder = options.out if options.out and not options.all else choose_folder(options, name, header.test)
        chosen = replace(make_options(folder, options), runner=options.runner or name)
        return from_snapshot(file, chosen, policy, os.environ)
    name = file.name.removesuffix(layout.SUFFIX)
    folder = choose_folder(options, name, format_path(file) * options.all)
    return from_snapshot(file, make_options(folder, options), policy, os.environ)


def scaffold_refusal(trace_import: Import, options: Options) -> Scaffold:
    """Return the cold case of files from which no run can be read."""
    name = Path(trace_import.sources[0][0]).name.partition(".")[0]
    folder = choose_folder(options, name, trace_import.sources[0][0] * options.all)
    assert trace_import.refusal is not None
    return from_refusal(trace_import.refusal, trace_import, make_options(folder, options))


def make_options(folder: Path, options: Options) -> ScaffoldOptions:
    """Return what the command line says of a case; the day on which it was made stays that of the first time."""
    root = find_root()
    absolute = Path(os.path.abspath(folder))  # noqa: PTH100  resolving would follow links, which people did not type
    if not re.fullmatch(ID, absolute.name):
        raise SettingsError(f"{format_path(absolute)}: name the folder with at most 100 letters, digits, . _ and -")
    place = absolute.relative_to(root).as_posix() if absolute.is_relative_to(root) else absolute.name
    today = day_of(absolute) or f"{datetime.now(UTC):%Y-%m-%d}"
    test, runner = f"{place}/case.yaml::{absolute.name}", options.runner or ""
    return ScaffoldOptions(folder=absolute, test=test, today=today, runner=runner, fixed=options.fixed)


def choose_folder(options: Options, name: str, identity: str = "") -> Path:
    """Return the folder of a case: `--out`, else one below `cases/` by its name.

    One of many has an identity, by which no two have the same, and lies below `--out`.
    """
    if options.out and not identity:
        return Path(options.out)
    return (options.out or find_root() / CASES) / folder_name(name if identity else name or "case", identity)


def write_case(made: Scaffold, options: Options, *, quiet: bool = False) -> int:
    """Write a case, and say what it is, what was done, and what comes next."""
    laid = write_files(made.case.folder, made.contents, force=options.force)
    where = format_path(made.case.folder)
    report_unwritten(where, laid.kept)
    if quiet:
        return Exit.SAME
    source = made.case.source
    origin = " ".join(filter(None, (source.format, source.id)))
    say(f"{where}: {made.case.expect}, from {origin} ({FIDELITY[source.fidelity]})")
    for sentence in made.sentences:
        say(f"  {sentence}")
    if made.case.expect == "cold":
        say(f"  cannot be replayed: {made.case.reason}")
        for part in made.case.missing:
            say(f"  missing: {part}")
    for loss in source.losses:
        say(f"  loss: {loss}")
    say(f"  {describe_files(laid.written, laid.same)}")
    say(f"next: read {where}/case.yaml, then\n  pytest {quote_word(where)}")
    return Exit.SAME


def report_unwritten(where: str, names: Iterable[str]) -> None:
    """Print which files were left as they are."""
    for name in names:
        say(f"{where}/{name}: kept as it is, which is not what would be written; --force writes over it")


def describe_files(written: tuple[str, ...], same: tuple[str, ...]) -> str:
    """Return what was done with the files, in words."""
    if not written:
        return f"nothing to write: {plural(len(same), 'file is', 'files are')} as they would be written"
    fixtures = [name for name in written if name.startswith("fixtures/")]
    if len(fixtures) <= MANY:
        return f"wrote {', '.join(sorted(written))}"
    others = sorted(set(written) - set(fixtures))
    return f"wrote {', '.join((*others, f'{len(fixtures)} files in fixtures/'))}"
