"""From a frozen run to a case: what it says of itself, and the files that make its folder.

Nothing is written here. What is inferred is a proposal; the person who keeps the case edits it, and `laying` never
writes over that.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from pytest_agentreplay import codec
from pytest_agentreplay.cases import render
from pytest_agentreplay.cases.case import FILE, NOTES, RUN, Case, CaseSource
from pytest_agentreplay.cases.evidence import frozen
from pytest_agentreplay.cases.fixtures import of_answers
from pytest_agentreplay.cases.inferring import inferred
from pytest_agentreplay.cases.timeline import notes, plain
from pytest_agentreplay.core.canon import canonical
from pytest_agentreplay.core.drift import table, texts
from pytest_agentreplay.core.model import Failure, Header, HttpCall, HttpReply, Run, ToolCall, ToolReply
from pytest_agentreplay.core.redaction.headers import kept_in_reply
from pytest_agentreplay.core.turns import top_level
from pytest_agentreplay.dialects import READER, genai
from pytest_agentreplay.errors import Leak, TraceIncomplete
from pytest_agentreplay.interchange.freezing import frozen_run
from pytest_agentreplay.store.layout import SLUG_LENGTH, WHOLE_NAME, slug
from pytest_agentreplay.workflow.reviewing import redacted_by

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pytest_agentreplay.core.model import Exchange, Json, JsonObject
    from pytest_agentreplay.core.redaction import Redaction
    from pytest_agentreplay.core.redaction.policy import Policy
    from pytest_agentreplay.interchange.trace import Trace
    from pytest_agentreplay.workflow.importing import Import

TITLE = 100
PARTLY = "the trace does not hold all that a replay needs"


@dataclass(frozen=True, slots=True)
class Scaffold:
    """A case that is not written yet, with the bytes of each file of it by name; `told` is what looks wrong."""

    case: Case
    run: Run
    contents: dict[str, bytes]
    told: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What a person says of a case that is about to be made: its folder and test id, the day, a runner's key."""

    folder: Path
    test: str
    today: str
    runner: str = ""


def from_trace(trace: Trace, found: Import, told: Told) -> Scaffold:
    """The case of an imported run. Raises Leak for one that still holds a secret."""
    run = clean(frozen_run(trace, test=told.test), found.redaction, found.policy)
    stated = table(run.header.kit, "case")
    kept = found.kept(trace)
    source = CaseSource(
        format=trace.source.format,
        version=trace.source.version,
        file=next(iter(kept), ""),
        id=trace.source.id or trace.id,
        fidelity=trace.source.fidelity,
        imported=told.today,
        losses=tuple(texts(stated.get("losses"))),
    )
    return scaffold(run, source, told, found.redaction, kept=kept, missing=tuple(texts(stated.get("missing"))))


def from_refusal(error: TraceIncomplete, found: Import, told: Told) -> Scaffold:
    """The cold case of sources that hold no run that could be read: what they are, and what would bring the rest."""
    kept = found.kept(None)
    source = CaseSource(format="unknown", file=next(iter(kept), ""), fidelity="semantic", imported=told.today)
    run = clean(Run(Header(told.test)), found.redaction, found.policy)
    return scaffold(
        run, source, told, found.redaction, kept=kept, missing=("messages of model calls",), reason=str(error)
    )


def scaffold(
    run: Run,
    source: CaseSource,
    told: Told,
    redaction: Redaction,
    *,
    kept: Mapping[str, bytes] | None = None,
    missing: tuple[str, ...] = (),
    reason: str = "",
) -> Scaffold:
    """The case of a frozen run that comes from `source`, of which the files `kept` stay beside it."""
    text = codec.dumps(run)
    evidence = frozen(run)
    inference = inferred(evidence)
    cold = bool(missing or reason)
    case = Case(
        file=FILE,
        folder=told.folder,
        id=re.sub(r"[^A-Za-z0-9._-]+", "-", told.folder.name).strip("._-")[:TITLE] or "case",
        title=plain(inference.told[0])[:TITLE],
        source=source,
        input=given(evidence.input, run),
        runners={"observed": told.runner, "desired": told.runner} if told.runner else {},
        observed=inference.observed,
        desired=inference.desired,
        semantic=inference.semantic,
        expect="cold" if cold else "reproduces",
        missing=missing,
        reason=(reason or PARTLY) if cold else "",
    )
    contents = {
        RUN: text.encode(),
        FILE: render.case_text(case).encode(),
        NOTES: notes(case, run, inference.told).encode(),
        **answers(run),
        **(kept or {}),
    }
    for name, data in contents.items():
        if leaks := redaction.leaks(data):
            raise Leak(
                f"{name}: not written, because {', '.join(leaks)} would still be in it, in an encoding that redaction "
                "does not reach. Name the value: pytest_agentreplay.secret(...), or a policy: --policy FILE"
            )
    return Scaffold(case, run, contents, inference.told)


def clean(run: Run, redaction: Redaction, policy: Policy) -> Run:
    """The run as it may be stored: what stood in a coding that a trace file does not show is taken off now."""
    run = replace(run, exchanges=tuple(_with_headers(x, redaction) for x in run.exchanges))
    run = redaction.rescan(run)
    record: JsonObject = {**redaction.record, **redacted_by(policy)}
    kit: JsonObject = {**run.header.kit, "redactions": {name: value for name, value in record.items() if value}}
    return replace(run, header=replace(run.header, kit=kit))


def _with_headers(x: Exchange, redaction: Redaction) -> Exchange:
    """The exchange with the headers that a recording would keep."""
    call, outcome = x.call, x.outcome
    if isinstance(call, HttpCall):
        call = replace(call, headers=redaction.headers(call.headers))
    if isinstance(outcome, HttpReply):
        kept = tuple(pair for pair in outcome.headers if kept_in_reply(pair[0].lower(), frozenset()))
        outcome = replace(outcome, headers=kept)
    return replace(x, call=call, outcome=outcome)


def given(told: Json, run: Run) -> Json:
    """The input of a case, in one of its two forms; of what nobody has told the first question."""
    if told in (None, "", [], {}):
        return _asked_first(run)
    match told:
        case str():
            return {"messages": [{"role": "user", "content": told}]}
        case list() if all(isinstance(one, dict) for one in told):
            return {"messages": [_message(one) for one in told]}
        case {"messages": list() as messages, **others} if not others:
            return {"messages": [_message(one) if isinstance(one, dict) else one for one in messages]}
        case dict():
            return {"arguments": told}
        case _:
            return {"arguments": {"input": told}}


def _asked_first(run: Run) -> Json:
    """What the user said before the first call of a model."""
    for x in top_level(run):
        reading = READER.read_call(x.call)
        if reading.kind == "model":
            said = [one for one in genai.conversation(reading) if one.get("role") == "user"]
            return {"messages": [_message(one) for one in said]} if said else None
    return None


def _message(one: Any) -> Json:
    """A message of any dialect as people write it: role and content."""
    told = genai.message(one)
    parts = cast("list[JsonObject]", told["parts"])
    if parts and all(part.get("type") == "text" for part in parts):
        return {"role": told["role"], "content": "\n".join(str(part.get("content", "")) for part in parts)}
    return cast("Json", one)


def answers(run: Run) -> dict[str, bytes]:
    """A readable file for each tool and arguments: what it gave, each time."""
    same: dict[str, list[tuple[ToolCall, ToolReply | Failure]]] = {}
    for x in top_level(run):
        if isinstance(x.call, ToolCall) and x.call.boundary == "tool" and isinstance(x.outcome, ToolReply | Failure):
            same.setdefault(canonical([x.call.name, x.call.arguments]), []).append((x.call, x.outcome))
    told = [
        of_answers(every[0][0].name, [(call.arguments, outcome) for call, outcome in every]) for every in same.values()
    ]
    return {name: text.encode() for name, text in render.fixture_files(told).items()}


def file_name(name: str, length: int = SLUG_LENGTH - 10) -> str:
    """A name that every system takes, for a file or a folder; one that had to change has a short hash."""
    plain_name = re.fullmatch(r"[a-z0-9][a-z0-9_]*(?:-[a-z_][a-z0-9_]*)*", name) is not None
    return slug(name, name, length, whole=plain_name or WHOLE_NAME.fullmatch(name) is not None)
