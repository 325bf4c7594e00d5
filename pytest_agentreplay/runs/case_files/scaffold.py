"""From a frozen run to a case: what it says of itself, and the files that make its folder.

Nothing is written here. What is inferred is a proposal; the person who keeps the case edits it, and `case_writer` never
writes over that. It is cut to what a case file can say, that has bounds in length, size and number, and to what holds:
what does not fit stands in the frozen run alone, and the case says so.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from pytest_agentreplay.cases import render
from pytest_agentreplay.cases.case import FILE, MOST_ITEMS, NOTES, RUN, Case, CaseSource
from pytest_agentreplay.cases.check_inference import UNWRITABLE, infer_checks
from pytest_agentreplay.cases.evidence import frozen
from pytest_agentreplay.cases.fixtures import of_answers, read_fixture
from pytest_agentreplay.cases.judging import judge
from pytest_agentreplay.cases.render import make_plain, notes
from pytest_agentreplay.cases.schema import model, parse
from pytest_agentreplay.errors import CaseError, Leak
from pytest_agentreplay.model.canonical_json import canonical
from pytest_agentreplay.model.exchanges import Failure, Header, HttpCall, HttpReply, Run, ToolCall, ToolReply
from pytest_agentreplay.model.turns import top_level
from pytest_agentreplay.providers import READER
from pytest_agentreplay.providers.messages import normalize_conversation, normalize_message
from pytest_agentreplay.redaction.headers import kept_in_reply
from pytest_agentreplay.runs.case_files.trace_import import clean_file
from pytest_agentreplay.runs.redact.redaction_setup import redacted_by
from pytest_agentreplay.runs.redact.rule_review import Review
from pytest_agentreplay.snapshots import codec
from pytest_agentreplay.snapshots.codec.styles import unwrap
from pytest_agentreplay.snapshots.kit import table, texts
from pytest_agentreplay.snapshots.store.layout import RESERVED, make_hashed_slug
from pytest_agentreplay.traces.to_run import frozen_run

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from pytest_agentreplay.cases.case import Check
    from pytest_agentreplay.cases.fixtures import Fixture
    from pytest_agentreplay.errors import TraceIncomplete
    from pytest_agentreplay.model.exchanges import Exchange, Json, JsonObject
    from pytest_agentreplay.redaction.redaction import Redaction
    from pytest_agentreplay.runs.case_files.trace_import import Import
    from pytest_agentreplay.traces.trace import Trace

TITLE = 100
LONGEST = 60
UNKEPT = "the source is not kept: what must not be stored stands in it in a coding that hides it"
UNWRITTEN = "its input holds characters that no text file can: they stand in the run alone"
PARTLY = "the trace does not hold all that a replay needs"


@dataclass(frozen=True, slots=True)
class Scaffold:
    """A case that is not written yet, with the bytes of each file of it by name; `sentences` are what looks wrong."""

    case: Case
    run: Run
    contents: dict[str, bytes]
    sentences: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaffoldOptions:
    """What a person says of a case that is about to be made: its folder and test id, the day, a runner's key.

    One that is `fixed` expects that its failure is gone, so that it fails until it is.
    """

    folder: Path
    test: str
    today: str
    runner: str = ""
    fixed: bool = False


def from_trace(trace: Trace, source_import: Import, options: ScaffoldOptions) -> Scaffold:
    """Return the case of an imported run. Raises Leak for one that still holds a secret."""
    run, hidden = clean(frozen_run(trace, test=options.test), source_import)
    stated = table(run.header.kit, "case")
    losses = tuple(texts(stated.get("losses")))
    kept = source_import.list_kept(trace)
    if hidden or source_import.unkept:
        kept, losses = {}, (*losses, UNKEPT)
    source = CaseSource(
        format=trace.source.format,
        version=trace.source.version,
        file=next(iter(kept), ""),
        id=trace.source.id or trace.id,
        fidelity=trace.source.fidelity,
        imported=options.today,
        losses=losses,
    )
    return scaffold(
        run, source, options, source_import.redaction, kept=kept, missing=tuple(texts(stated.get("missing")))
    )


def from_refusal(error: TraceIncomplete, source_import: Import, options: ScaffoldOptions) -> Scaffold:
    """The cold case of sources that hold no run that could be read: what they are, and what would bring the rest."""
    kept = {} if source_import.unkept else source_import.list_kept(None)
    source = CaseSource(format="unknown", file=next(iter(kept), ""), fidelity="semantic", imported=options.today)
    run, _ = clean(Run(Header(options.test)), source_import)
    why = source_import.redaction.redact_text(str(error).removeprefix(f"{error.file}: "))
    return scaffold(
        run, source, options, source_import.redaction, kept=kept, missing=("messages of model calls",), reason=why
    )


def scaffold(
    run: Run,
    source: CaseSource,
    options: ScaffoldOptions,
    redaction: Redaction,
    *,
    kept: Mapping[str, bytes] | None = None,
    missing: tuple[str, ...] = (),
    reason: str = "",
) -> Scaffold:
    """Return the case of a frozen run that comes from `source`, of which the files `kept` stay beside it."""
    text = codec.dumps(run)
    evidence = frozen(run)
    inference = infer_checks(evidence)
    cold = bool(missing or reason)
    case_input = find_input(evidence.input, run)
    case = Case(
        file=FILE,
        folder=options.folder,
        id=re.sub(r"[^A-Za-z0-9._-]+", "-", options.folder.name).strip("._-")[:TITLE] or "case",
        title=make_plain(inference.sentences[0])[:TITLE],
        source=source,
        input=writable(case_input),
        runners={"observed": options.runner, "desired": options.runner} if options.runner else {},
        observed=inference.observed,
        desired=inference.desired,
        semantic=inference.semantic,
        expect="cold" if cold else "fixed" if options.fixed else "reproduces",
        missing=missing,
        reason=(reason or PARTLY) if cold else "",
    )
    losses = [*source.losses] + ([UNWRITTEN] if case.input != case_input else [])
    fixtures = answers(run, losses)
    case = fitting(replace(case, source=replace(source, losses=tuple(losses))))
    case = holding(case, codec.loads(text, file=RUN).run)
    contents = {
        RUN: text.encode(),
        FILE: render.case_text(case).encode(),
        NOTES: writable(notes(case, run, inference.sentences)).encode(),
        **fixtures,
        **(kept or {}),
    }
    for name, data in contents.items():
        # What the run alone gave away stands in its source, too.
        if name in (kept or {}) and redaction.text.leaks(data):
            contents[name] = data = clean_file(data, name, redaction)[0]  # noqa: PLW2901  the bytes that are written
        if leaks := redaction.text.leaks(unwrap(data.decode()).encode() if name == RUN else data):
            raise Leak(
                f"{name}: not written, because {', '.join(leaks)} would still be in it, in an encoding that redaction "
                "does not reach. Name the value: pytest_agentreplay.secret(...), or a policy: --policy FILE"
            )
    return Scaffold(case, run, contents, inference.sentences)


def clean(run: Run, source_import: Import) -> tuple[Run, bool]:
    """The run as it may be stored, and whether something stood in it in a coding that hides it in the trace file."""
    run = replace(run, exchanges=tuple(_with_headers(x, source_import.redaction) for x in run.exchanges))
    record: JsonObject = {**source_import.redaction.record, **redacted_by(source_import.policy)}
    kit: JsonObject = {**run.header.kit, "redactions": {name: value for name, value in record.items() if value}}
    run = replace(run, header=replace(run.header, kit=kit))
    review = Review(run, codec.dumps(run).encode(), source_import.policy, source_import.environ)
    return review.run, bool(review.hits)


def _with_headers(x: Exchange, redaction: Redaction) -> Exchange:
    """Return the exchange with the headers that a recording would keep."""
    call, outcome = x.call, x.outcome
    if isinstance(call, HttpCall):
        call = replace(call, headers=redaction.headers.redact_request(call.headers, call.url))
    if isinstance(outcome, HttpReply):
        kept = tuple(pair for pair in outcome.headers if kept_in_reply(pair[0].lower(), pair[1], frozenset()))
        outcome = replace(outcome, headers=kept)
    return replace(x, call=call, outcome=outcome)


def answers(run: Run, losses: list[str]) -> dict[str, bytes]:
    """A readable file for each tool and arguments: what it gave, each time. What none can say is told in `losses`."""
    calls: dict[str, tuple[str, list[tuple[JsonObject, ToolReply | Failure]]]] = {}
    for x in top_level(run):
        if isinstance(x.call, ToolCall) and x.call.boundary == "tool" and isinstance(x.outcome, ToolReply | Failure):
            _, outcomes = calls.setdefault(canonical([x.call.name, x.call.arguments]), (x.call.name, []))
            outcomes.append((x.call.arguments, x.outcome))
    fixtures = []
    for tool, outcomes in calls.values():
        fixture = of_answers(tool, outcomes)
        if _can_be_read(fixture):
            fixtures.append(fixture)
        else:
            losses.append(
                f"an answer of {make_plain(fixture.tool)} fits into no fixture file: it stands in the run alone"
            )
    return {name: text.encode() for name, text in render.fixture_files(fixtures).items()}


def _can_be_read(fixture: Fixture) -> bool:
    try:
        read_fixture(render.fixture_text(fixture).encode(), file="")
    except (CaseError, UnicodeEncodeError):
        return False
    return True


def folder_name(name: str, identity: str = "") -> str:
    """A name for a case's folder that every system and a case's id take; with a short hash of what had to change.

    With `identity` the hash is always there, and of that: so none of many cases meets another.
    """
    plain_name = re.fullmatch(model.ID, name) and name.islower() and not name.endswith(".")
    if not identity and plain_name and len(name) <= LONGEST and not RESERVED.match(name):
        return name
    return make_hashed_slug(
        f"case-{name}" if RESERVED.match(name) else name or "case", identity or name, LONGEST
    ).lstrip("_.-")


LINE, SENTENCE = 500, 2000
"""Characters of a line and of a sentence in a case file."""
TOO_LARGE = "its input is more than a case file may hold: it stands in the run alone"
UNSAID = "what looks wrong cannot all be said in a case file: notes.md tells it"


UNTRUE = "{}: left out, because the frozen run as it is stored does not show it"
SHOWN = "desired: left out, because the frozen run shows all of it"
NO_SIGN = "no check that was inferred holds on the frozen run: write one under observed and set expect: reproduces"


def holding(case: Case, run: Run) -> Case:
    """The case without the checks that would make it a broken one, evaluated as its file and its run will be read."""
    written, evidence = reread(case), frozen(run)
    results = judge(written, "observed", evidence).results
    observed = tuple(check for check, result in zip(case.observed, results, strict=True) if result.holds)
    losses = [UNTRUE.format(result.check.word) for result in results if not result.holds]
    if judge(written, "desired", evidence).holds:
        case, losses = replace(case, desired=()), [*losses, SHOWN]
    if case.expect != "cold" and not observed:
        case = replace(case, expect="cold", reason=NO_SIGN, missing=("a check of what went wrong",))
    return losing(replace(case, observed=observed), *losses) if losses else case


def fitting(case: Case) -> Case:
    """Return the case as a file can say it. Raises CaseError where nothing of it can be said."""
    source = replace(case.source, id=make_plain(case.source.id)[:LINE], version=make_plain(case.source.version)[:LINE])
    case = replace(case, source=source, missing=sentences(case.missing), reason=case.reason[:SENTENCE])
    case = losing(case)
    if not readable(case):
        case = with_checks(case)
    if not readable(case):
        case = losing(replace(case, input=None), TOO_LARGE)
    reread(case)
    return case


def reread(case: Case) -> Case:
    """Return the case as its file will be read. Raises CaseError, UnicodeEncodeError."""
    return parse.read_case(render.case_text(case).encode(), file=FILE, folder=case.folder, words=None)


def with_checks(case: Case) -> Case:
    """Return the case with the checks that a file can say, each looked at alone."""
    bare = replace(case, input=None, desired=(), semantic=())

    def sayable(checks: Sequence[Check]) -> tuple[Check, ...]:
        return tuple(check for check in checks[:MOST_ITEMS] if readable(replace(bare, observed=(check,))))

    semantic = sentences(case.semantic)
    kept = replace(case, observed=sayable(case.observed), desired=sayable(case.desired), semantic=semantic)
    return case if kept == case else losing(kept, UNSAID)


def readable(case: Case) -> bool:
    """Return whether what is written of the case can be read again."""
    try:
        reread(case)
    except (CaseError, UnicodeEncodeError):
        return False
    return True


def losing(case: Case, *losses: str) -> Case:
    """Return the case, and what else its source does not tell."""
    return replace(case, source=replace(case.source, losses=sentences((*case.source.losses, *losses))))


def sentences(texts_in: Sequence[str]) -> tuple[str, ...]:
    """As many sentences as a case file takes, each as long; of more how many."""
    cut_texts = [sentence[:SENTENCE] for sentence in texts_in if sentence]
    more = len(cut_texts) - MOST_ITEMS
    return tuple(cut_texts if more <= 0 else (*cut_texts[: MOST_ITEMS - 1], f"{more + 1:,} more"))


def find_input(value: Json, run: Run) -> Json:
    """Return the input of a case, in one of its two forms; of what nobody has told the first question."""
    if value in (None, "", [], {}):
        return _find_first_question(run)
    match value:
        case str():
            return {"messages": [{"role": "user", "content": value}]}
        case list() if all(isinstance(message, dict) for message in value):
            return {"messages": [_message(message) for message in value]}
        case {"arguments": dict() as arguments, **others} if others.keys() <= {"typed"}:
            return {"arguments": arguments}
        case {"messages": list() as messages, **others} if not others:
            return {"messages": [_message(message) if isinstance(message, dict) else message for message in messages]}
        case dict():
            return {"arguments": value}
        case _:
            return {"arguments": {"input": value}}


def _find_first_question(run: Run) -> Json:
    """Return what the user said before the first call of a model."""
    for x in top_level(run):
        reading = READER.read_call(x.call)
        if reading.kind == "model":
            messages = [message for message in normalize_conversation(reading) if message.get("role") == "user"]
            return {"messages": [_message(message) for message in messages]} if messages else None
    return None


def _message(message: Any) -> Json:
    """Return a message of any dialect as people write it: role and content."""
    plain_message = normalize_message(message)
    parts = cast("list[JsonObject]", plain_message["parts"])
    if parts and all(part.get("type") == "text" for part in parts):
        return {"role": plain_message["role"], "content": "\n".join(str(part.get("content", "")) for part in parts)}
    return cast("Json", message)


def writable(value: Any) -> Any:
    """Return a value without what no text file can hold: U+FFFD stands for it."""
    match value:
        case str():
            return UNWRITABLE.sub("\ufffd", value)
        case list():
            return [writable(item) for item in value]
        case dict():
            return {writable(name): writable(item) for name, item in value.items()}
        case _:
            return value
