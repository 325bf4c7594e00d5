"""What a project has recorded: one `Entry` for each snapshot, pending run and case, for `ls` and pages.

Nothing of the project is run. A file that cannot be read is an entry, too: its `problem` says why.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pytest_agentreplay import clocks
from pytest_agentreplay.backends.budget import NANO, PricedReader
from pytest_agentreplay.cases.case import FILE, FOLDER, RUN
from pytest_agentreplay.cases.schema import parse
from pytest_agentreplay.compare.kit_fields import grade_run
from pytest_agentreplay.errors import AgentReplayError, CaseError, SnapshotError
from pytest_agentreplay.model.canonical_json import canonical
from pytest_agentreplay.model.exchanges import (
    Exchange,
    FramesReply,
    Header,
    HttpReply,
    Json,
    JsonObject,
    Run,
    ToolCall,
    ToolReply,
)
from pytest_agentreplay.model.turns import tool_of, turns
from pytest_agentreplay.providers import READER
from pytest_agentreplay.runs import pause_garbage_collection
from pytest_agentreplay.runs.accept import list_pending
from pytest_agentreplay.runs.snapshot_selection import is_of_folder, select_snapshots
from pytest_agentreplay.settings.parsers import Prices, parse_prices
from pytest_agentreplay.snapshots import codec
from pytest_agentreplay.snapshots.kit import PASSED, entries, list_unfrozen, table, text_of
from pytest_agentreplay.snapshots.store import files, format_path, layout, projects, reading, snapshots

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


BILLED = frozenset({"model", "embeddings", "rerank"})
"""The kinds of calls that a provider bills by tokens."""
KINDS = ("snapshot", "pending", "run", "case")
ENDS = 65_536
"""Bytes at either end of a file that a brief entry is read from: a header, and the seal of 3,000 calls."""
PRICES = "agentreplay_prices"


class ModelUse(NamedTuple):
    """What one model was asked in a run. `cost` is in dollars: None without a price, or where a reply has no tokens."""

    model: str
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = 0.0


def sum_uses(model: str, uses: Iterable[ModelUse]) -> ModelUse:
    """Return all uses together, under the name `model`; their cost is None where that of one is."""
    uses = [*uses]
    cost = None if any(use.cost is None for use in uses) else sum(use.cost or 0 for use in uses)
    read, written = sum(use.input_tokens for use in uses), sum(use.output_tokens for use in uses)
    return ModelUse(model, sum(use.calls for use in uses), read, written, cost)


@dataclass(frozen=True, slots=True)
class Entry:
    """One snapshot, pending run or case, as lists show it.

    `path` is the file; of a case its case.yaml. `kind` is "snapshot", "pending", "run" (captured) or "case". `name` is
    the id of the test from the root of the project, or the id of the case. `test` is the id of the test that the file
    states, `state` what a case expects ("reproduces", "fixed", "cold"; "" for others), `outcome` how the recorded test
    ended. `calls` counts all calls, those inside of tools too. `seconds` is how long the run took, `recorded` when, in
    ISO 8601. `grade` is that of the kit ("A", "B", "C", "cold"), `unfrozen` are tools that run for real in a replay.
    `cold` lists what a cold case lacks. `cost` is in dollars, None where it is not known; `uses` has it for each model.
    `tools` are names with the number of their calls, `content` is a digest over calls and outcomes, equal for copies of
    one run.
    """

    path: Path
    kind: str
    name: str
    test: str = ""
    state: str = ""
    outcome: str = ""
    turns: int = 0
    calls: int = 0
    models: tuple[str, ...] = ()
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None
    seconds: float = 0.0
    bytes: int = 0
    recorded: str = ""
    grade: str = ""
    unfrozen: tuple[str, ...] = ()
    cold: tuple[str, ...] = ()
    problem: str = ""
    uses: tuple[ModelUse, ...] = ()
    tools: tuple[tuple[str, int], ...] = ()
    content: str = field(default="", repr=False)


def read_inventory(root: Path, paths: Sequence[Path] = (), *, briefly: bool = False) -> list[Entry]:
    """Return what the project at `root` has recorded, by kind and name; only that at or below `paths`, if any.

    `briefly` leaves out what only the exchanges say, as `read_entry` does. Costs come from `agentreplay_prices` of the
    project. Raises SettingsError for prices that are none.
    """
    reader = PricedReader(READER, {}, read_prices(root))
    largest = reading.find_limit(root)
    recorded = list_recorded(root, paths)
    with pause_garbage_collection():
        rows = [read_entry(path, kind, root, reader, largest, briefly=briefly) for path, kind in recorded]
    return sorted(rows, key=lambda entry: (KINDS.index(entry.kind), entry.name, entry.path))


def read_prices(root: Path) -> Prices:
    """Return the prices of the project at `root`, by pattern of model names. Raises SettingsError."""
    lines, file = projects.ini_lines(root, PRICES)
    return parse_prices(lines, f"{file}: {PRICES}")


def list_recorded(root: Path, paths: Sequence[Path] = ()) -> Iterator[tuple[Path, str]]:
    """Yield the file and the kind of all that is recorded, each once. A snapshot beside a case is that case's."""
    recorded: dict[Path, str] = {}
    for path in map(Path, map(os.path.abspath, paths or [root])):
        of_tests = select_snapshots([format_path(path)], Path.cwd()) if path.suffix == ".py" else [path]
        for file in walk_recorded(path, root) if path.is_dir() else of_tests:
            case = file.with_name(FILE)
            if file.name == FILE or (file.name == RUN and files.exists(case)):
                recorded[case] = "case"
            else:
                kind = "run" if file.name.endswith(layout.RUN_SUFFIX) else "snapshot"
                recorded[file] = "pending" if layout.home_path(file) else kind
        for pending in list_pending(root):
            if is_of_folder(pending, path):
                recorded[pending] = "pending"
    yield from recorded.items()


def walk_recorded(folder: Path, root: Path) -> Iterator[Path]:
    """Yield the snapshots and cases below `folder`, without those in folders that pytest does not enter either."""
    for here, names in snapshots.walk(folder):
        for file in (here / name for name in names):
            if file.name.endswith(layout.RECORDED) or (file.name == FILE and is_our_case(file, root)):
                yield file


def is_our_case(file: Path, root: Path) -> bool:
    """Return whether a case.yaml lies below a folder `cases`, or its first bytes name the form of a case."""
    # Other tools have files of this name. pytest collects by the same rule: what fails there is a row here.
    below = file.is_relative_to(root) and FOLDER in file.relative_to(root).parts[:-1]
    try:
        return below or b"schemaVersion" in files.head(file, 4096)
    except SnapshotError:
        return True  # the entry says why it cannot be read


def read_entry(
    path: Path, kind: str, root: Path, reader: PricedReader, largest: int | None = None, *, briefly: bool = False
) -> Entry:
    """Return the entry of one file; `briefly` without what only its exchanges say: turns, tokens, cost, grade."""
    entry = Entry(path, kind, format_path(path.parent if kind == "case" else path))
    try:
        if kind == "case":
            case = parse.read_case(files.read_file(path), file=format_path(path), folder=path.parent, words=None)
            size = path.stat().st_size
            entry = replace(entry, name=case.id, state=case.expect, cold=case.missing, bytes=size)
            if not files.exists(path.with_name(RUN)) and (case.base or case.expect == "cold"):
                return replace(entry, grade="" if case.base else "cold")
        file = path.with_name(RUN) if kind == "case" else path
        if briefly and (brief := describe_ends(entry, file, root)):
            return brief
        data = files.read_file(file, largest)
        snapshot = codec.loads(data, file=format_path(file))
        entry = replace(entry, bytes=entry.bytes + len(data))
        return describe_run(entry, snapshot.run, root, reader, sealed=snapshot.sealed)
    except AgentReplayError as error:
        place = f"{error.file}:" if isinstance(error, CaseError | SnapshotError) else ""
        return replace(entry, problem=str(error).removeprefix(place).lstrip())


def describe_ends(entry: Entry, file: Path, root: Path) -> Entry | None:
    """Return `entry` with what the header and the seal of its file say; None where they must be looked for.

    A list of a thousand runs reads 128 kB of each at most. Raises SnapshotError.
    """
    first, last, size = files.read_ends(file, ENDS)
    tail = codec.read_tail(last)
    if tail is None or b'"exchanges"' not in first:  # it is damaged, was never sealed, or begins with a long header
        return None
    calls, recorded = tail
    fields = codec.read_head(first, file=format_path(file))
    recorded = text_of(fields, "recorded") or recorded
    defaults: JsonObject = {} if "capture" in fields else {"outcome": PASSED}
    header = Header(text_of(fields, "test"), recorded, outcome=table(defaults | fields, "outcome"), kit=fields)
    models = dict.fromkeys(text_of(model, "model") for model in entries(fields, "models"))
    return replace(
        entry,
        name=name_run(entry, header.test, root),
        test=header.test,
        outcome=describe_outcome(header),
        calls=calls,
        models=tuple(filter(None, models)),
        bytes=entry.bytes + size,
        recorded=header.recorded,
        unfrozen=list_unfrozen(fields),
    )


def name_run(entry: Entry, test: str, root: Path) -> str:
    """Return the name of the run in a file that states `test`: the id that its test has today, of a case the case's."""
    if entry.kind in {"case", "run"}:
        return entry.name
    return projects.todays_id(root, layout.home_path(entry.path) or entry.path, test)


def describe_run(entry: Entry, run: Run, root: Path, reader: PricedReader, *, sealed: bool) -> Entry:
    """Return `entry` with what its run shows. Raises SnapshotError where a body cannot be restored."""
    uses: dict[str, ModelUse] = {}
    tools: Counter[str] = Counter()
    for x in run.exchanges:
        if use := read_use(x, reader):
            uses[use.model] = sum_uses(use.model, (uses.get(use.model, ModelUse(use.model)), use))
        elif tool := tool_of(x.call, READER):
            tools[tool.name] += 1
    ends = (x.timing.start if x.timing.end is None else x.timing.end for x in run.exchanges)
    total = sum_uses("", uses.values())
    test, grade = run.header.test, grade_run(run, sealed=sealed)[0].name
    return replace(
        entry,
        name=name_run(entry, test, root),
        test=test,
        outcome=describe_outcome(run.header),
        turns=sum(turn.model is not None for turn in turns(run, READER)),
        calls=len(run.exchanges),
        models=tuple(uses),
        input_tokens=total.input_tokens,
        output_tokens=total.output_tokens,
        cost=total.cost,
        seconds=max(ends, default=0) / NANO,
        recorded=run.header.recorded,
        grade=grade if len(grade) == 1 else grade.lower(),
        unfrozen=list_unfrozen(run.header.kit),
        uses=tuple(uses.values()),
        tools=tuple(tools.items()),
        content=digest_calls(run.exchanges),
    )


def describe_outcome(header: Header) -> str:
    """Return how a run ended; of a captured one also what somebody said of it later, and no other reason to keep it."""
    status, reason = str(header.outcome.get("status", "")), str(table(header.kit, "capture").get("reason", ""))
    return "; ".join(filter(None, (status, reason if reason.startswith("kept") else "")))


def read_use(x: Exchange, reader: PricedReader) -> ModelUse | None:
    """Return what a call to a model used, None for any other call. A call that failed is free unless it says tokens."""
    call = READER.read_call(x.call)
    if call.kind not in BILLED:
        return None
    usage, model = READER.read_reply(x.call, x.outcome).usage, call.model or call.name
    tokens = usage.get("input_tokens", 0), usage.get("output_tokens", 0)
    failed = not isinstance(x.outcome, HttpReply | ToolReply | FramesReply) or getattr(x.outcome, "status", 0) >= 400
    cost = reader.cost(model, *tokens) if usage else 0 if failed else None
    return ModelUse(model, 1, *tokens, None if cost is None else cost / NANO)


def days_since(recorded: str) -> float | None:
    """Return the days since an ISO 8601 time; None for what is none."""
    try:
        then = datetime.fromisoformat(recorded)
    except ValueError:
        return None
    then = then if then.tzinfo else then.replace(tzinfo=UTC)
    return (clocks.wall() - then.timestamp()) / 86400


def day_before(days: float) -> str:
    """Return the day that was so many days ago, as stores of captured runs name it."""
    return f"{datetime.fromtimestamp(clocks.wall() - days * 86400, UTC):%Y-%m-%d}"


def digest_calls(exchanges: Iterable[Exchange]) -> str:
    """Return a digest over what was called and what came back, without times, lanes and the order of ends."""
    digest = hashlib.sha256()
    for x in exchanges:
        called = [x.call.name, x.call.arguments] if isinstance(x.call, ToolCall) else [x.call.url, x.call.body.digest]
        came: Json
        match x.outcome:
            case HttpReply(body=body) | FramesReply(body=body):
                came = [getattr(x.outcome, "status", None), body.digest]
            case ToolReply(value=value, items=items):
                came = [value, list(items or ())]
            case outcome:
                came = [repr(outcome), getattr(outcome, "message", "")]
        digest.update(canonical([*called, came]).encode("utf-8", "surrogatepass") + b"\n")
    return digest.hexdigest()
