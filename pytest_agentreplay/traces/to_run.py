"""A trace of another tool as a run of ours: the same exchanges in the same order, in the bytes that its APIs speak.

Where the trace holds the bytes of a request or reply they are taken as they are; elsewhere they are written in the
dialect that was spoken. What the trace does not hold is not made up: a call without an answer stays without one, and
is listed as missing.

Times of other tools are coarse, missing or skewed between machines. What they say counts as far as causes allow: a
tool does not run before the reply that asked for it, nor a request go out before the results that stand in it. Steps
that overlap after that did overlap, and each strand of them gets a lane.
"""

from __future__ import annotations

import builtins
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pytest_agentreplay.model.exchanges import (
    Body,
    Exchange,
    Failure,
    Header,
    HttpReply,
    Run,
    Timing,
    ToolCall,
    ToolReply,
)
from pytest_agentreplay.providers import encode
from pytest_agentreplay.providers.lenient import parse_text
from pytest_agentreplay.traces.chains import parts, tool_calls
from pytest_agentreplay.traces.trace import UNKNOWN, ModelCall, ToolRun
from pytest_agentreplay.traces.wire import compact
from pytest_agentreplay.values import freeze_arguments

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_agentreplay.model.exchanges import HttpCall, Json, JsonObject, Outcome
    from pytest_agentreplay.traces.trace import Step, Trace, TraceFault

ASSUMED = "openai_chat"
"""What is written where nobody knows which API was spoken."""
SPEAKING = frozenset({"", "chat", "text_completion", "generate_content"})
"""Operations whose requests and replies are messages, so that they can be written."""
ERROR_STATUS = 400
NAMED = re.compile(r"([A-Za-z_][\w.]*(?:Error|Exception|Timeout|Interrupt)): (.*)", re.DOTALL)


@dataclass(slots=True)
class ConversionNotes:
    """What is lost on the way, and what is missing; each sentence once, in the order in which it was met."""

    losses: dict[str, None] = field(default_factory=dict)
    missing: dict[str, None] = field(default_factory=dict)


def frozen_run(trace: Trace, *, test: str = "") -> Run:
    """The run that `trace` tells of, as a snapshot of the test id `test` holds it."""
    notes = ConversionNotes(dict.fromkeys(trace.losses), dict.fromkeys(trace.missing))
    numbered = zip(trace.steps, _numbers(trace.steps), strict=True)
    kept = [(step, nth) for step, nth in numbered if _crosses(step, nth, trace, notes)]
    places = _positions([step for step, _ in kept])
    exchanges = [_exchange(step, nth, seat, notes) for (step, nth), seat in zip(kept, places, strict=True)]
    return Run(_header(trace, notes, test), tuple(sorted(exchanges, key=lambda exchange: exchange.start)))


def _numbers(steps: Sequence[Step]) -> list[int]:
    """Which model call, or which call of its tool, each step is; counted from 1."""
    counts: dict[str, int] = {}
    numbers = []
    for step in steps:
        kind = "" if isinstance(step, ModelCall) else step.name
        counts[kind] = counts.get(kind, 0) + 1
        numbers.append(counts[kind])
    return numbers


def _crosses(step: Step, nth: int, trace: Trace, notes: ConversionNotes) -> bool:
    """Whether the step went through a boundary, as far as is known, and can be written."""
    if isinstance(step, ModelCall):
        if step.request is not None or step.operation in SPEAKING or step.messages:
            return True
        notes.losses[f"calls of {step.operation} are left out: what was sent is not kept"] = None
        return False
    if step.executed or step.replayable != UNKNOWN:
        return True
    result = f"result of {step.name}, call {nth}"
    if (trace.limits or trace.fault is not None) and step.call_id in _asked_last(trace):
        notes.missing.pop(result, None)
        notes.losses[f"{step.name} was asked for last, and the run was stopped before anything is known of it"] = None
    else:
        notes.missing[result] = None
    return False


def _asked_last(trace: Trace) -> set[str]:
    """The ids of the tool calls that the last reply asks for."""
    return {str(part.get("id")) for call in trace.model_calls[-1:] for part in tool_calls(call)}


def _exchange(step: Step, nth: int, seat: RunPosition, notes: ConversionNotes) -> Exchange:
    call, outcome = _model(step, nth, notes) if isinstance(step, ModelCall) else _tool(step, nth, notes)
    return Exchange(
        call,
        outcome,
        seat.start,
        seat.finish if outcome is not None else None,
        lane=seat.lane,
        suspended=seat.lane != "main",
        parent=seat.parent,
        timing=seat.timing,
        agent=step.agent,
    )


def _model(call: ModelCall, nth: int, notes: ConversionNotes) -> tuple[HttpCall, Outcome | None]:
    """One call of a model on the wire, and what came back."""
    dialect = call.dialect
    if call.request is None and encode.find_writer(dialect) is None:
        dialect = ASSUMED
        spoke = f"{call.dialect}, which is not written yet" if call.dialect else "not told by the trace"
        notes.losses[f"the API that was spoken is {spoke}: requests and replies are written as {ASSUMED}"] = None
    request = call.request or encode.request(
        dialect,
        model=call.model or call.response_model,
        messages=call.messages,
        tools=call.tools,
        parameters=call.parameters,
        stream=call.stream,
    )
    if call.response is not None:
        return request, call.response
    if call.fault is not None and call.reply is None:
        return request, _make_refusal(call.fault, call.status, notes)
    reply = call.reply and encode.reply(
        request,
        call.reply,
        model=call.response_model or call.model,
        response_id=call.response_id,
        usage=call.usage,
        fingerprint=call.fingerprint,
    )
    if not reply:
        notes.missing[f"reply of model call {nth}"] = None
    return request, reply or None


def _make_refusal(fault: TraceFault, status: int, notes: ConversionNotes) -> Outcome:
    """Return the outcome of a failed call of a model whose answer was not kept."""
    if status < ERROR_STATUS:
        return failure_of(fault, fault.message)
    notes.losses["the bodies of error replies are not kept: they are written from the message alone"] = None
    body = compact({"error": {"message": fault.message, "type": fault.type or None}})
    return HttpReply(status, headers=(("content-type", "application/json"),), body=Body(body), cuts=(len(body),))


def failure_of(fault: TraceFault, message: str) -> Failure:
    """The exception that a source tells of, whose class may stand in its message: "KeyError: 7"."""
    kind = fault.type
    if not kind and (match := NAMED.match(message)):
        kind, message = match[1], match[2]
    kind = kind or "Exception"
    if isinstance(getattr(builtins, kind, None), type):
        kind = f"builtins.{kind}"
    return Failure(kind, message, (message,) if message else ())


def _tool(tool: ToolRun, nth: int, notes: ConversionNotes) -> tuple[ToolCall, Outcome | None]:
    """One run of a tool, and what came of it."""
    call = ToolCall(tool.name, freeze_arguments(_by_name(tool.arguments)))
    if tool.fault is not None:
        seen = tool.replayable
        message = tool.fault.message or (seen if isinstance(seen, str) and seen != UNKNOWN else "")
        return call, failure_of(tool.fault, message)
    if (value := choose_result(tool)) == UNKNOWN:
        notes.missing[f"result of {tool.name}, call {nth}"] = None
        return call, None
    return call, ToolReply(freeze_arguments({"": value})[""])


def choose_result(tool: ToolRun) -> Json:
    """Return the result of the tool; UNKNOWN where there is none.

    What the model saw counts. The tool's own record only gives its type, where both mean the
    same: a dict, and not the text that the agent made of it.
    """
    if UNKNOWN in (tool.seen, tool.result):
        return tool.replayable
    return tool.result if parse_text(tool.result) == parse_text(tool.seen) else tool.seen


def _by_name(arguments: Json) -> JsonObject:
    """A tool's arguments by name; what has no names stands under ""."""
    value = parse_text(arguments)
    if isinstance(value, dict):
        return value
    return {} if value is None or value == "" else {"": value}


def _header(trace: Trace, notes: ConversionNotes, test: str) -> Header:
    began = trace.started or next((step.started for step in trace.steps if step.started), 0)
    recorded = datetime.fromtimestamp(began / 1e9, UTC).isoformat(timespec="seconds") if began else ""
    fault = trace.fault
    outcome: JsonObject = {}
    if trace.status == "error" or fault is not None:
        outcome = {"status": "failed", "type": fault.type if fault else "", "message": fault.message if fault else ""}
    elif trace.status == "ok":
        outcome = {"status": "passed"}
    kit: JsonObject = {
        "case": _case(trace, notes),
        "annotations": _drop_empty({"user": trace.user, "session": trace.session, "tenant": trace.tenant}),
    }
    return Header(test, recorded, began, outcome=_drop_empty(outcome), kit=_drop_empty(kit))


def _case(trace: Trace, notes: ConversionNotes) -> JsonObject:
    """What a case has to know of the run and no exchange tells."""
    source = trace.source
    return _drop_empty(
        {
            "name": trace.name,
            "input": trace.input,
            "output": trace.output,
            "status": trace.status,
            "faults": [{"type": fault.type, "message": fault.message} for fault in trace.faults],
            "limits": trace.limits,
            "grades": trace.grades,
            "user": trace.user,
            "session": trace.session,
            "tenant": trace.tenant,
            "tags": [*trace.tags],
            "source": _drop_empty({"format": source.format, "version": source.version, "id": source.id or trace.id}),
            "fidelity": source.fidelity,
            "losses": [*notes.losses],
            "missing": [*notes.missing],
        }
    )


def _drop_empty(fields: JsonObject) -> JsonObject:
    """Return the fields that are not empty."""
    return {name: value for name, value in fields.items() if value not in (None, "", [], {})}


_MAIN = "main"


@dataclass(frozen=True, slots=True)
class RunPosition:
    """The place of one step: readings of the run's counter, its lane, the reading at which its parent started."""

    start: int
    finish: int
    timing: Timing
    lane: str = _MAIN
    parent: int | None = None


def _positions(steps: Sequence[Step]) -> list[RunPosition]:
    """The place of each step, in their order."""
    causes = list(_causes(steps))
    spans = _spans(steps, causes)
    starts, finishes = _count_readings(spans)
    first = min((begin for begin, _ in spans), default=0)
    parents = _parents(steps, spans)
    lanes = _lanes(steps, causes, starts, finishes, parents)
    return [
        RunPosition(
            starts[at],
            finishes[at],
            Timing(begin - first, None, end - first),
            lanes[_outermost(at, parents)],
            None if (parent := parents[at]) is None else starts[parent],
        )
        for at, (begin, end) in enumerate(spans)
    ]


def _causes(steps: Sequence[Step]) -> Iterator[set[int]]:
    """For each step, the earlier ones that it cannot have come before."""
    asked_by: dict[str, int] = {}
    answered: dict[str, int] = {}
    for at, step in enumerate(steps):
        if isinstance(step, ToolRun):
            yield {asked_by[step.call_id]} if step.call_id in asked_by else set()
            answered |= {step.call_id: at} if step.call_id else {}
        else:
            answered_ids = {
                part.get("id") for _, part in parts(step.messages) if part.get("type") == "tool_call_response"
            }
            yield {answered[call_id] for call_id in answered_ids if isinstance(call_id, str) and call_id in answered}
            asked_by |= {str(part.get("id")): at for part in tool_calls(step)}


def _spans(steps: Sequence[Step], causes: Sequence[set[int]]) -> list[tuple[int, int]]:
    """Beginning and end of each step in nanoseconds; one that nobody has timed comes after what stands before it."""
    spans: list[tuple[int, int]] = []
    before = next((step.started for step in steps if step.started is not None), 0)
    for step, causing in zip(steps, causes, strict=True):
        begin = before if step.started is None else step.started
        begin = max([begin, *(spans[cause][1] for cause in causing)])
        end = begin if step.ended is None else max(begin, step.ended)
        spans.append((begin, end))
        before = end
    return spans


def _count_readings(spans: Sequence[tuple[int, int]]) -> tuple[list[int], list[int]]:
    """Return readings at which each span starts and finishes. What ends at one moment ends before what begins there."""
    events = []
    for at, (begin, end) in enumerate(spans):
        events.append((begin, 1, at, 0))
        events.append((end, 1, at, 1) if begin == end else (end, 0, -at, 1))
    starts, finishes = [0] * len(spans), [0] * len(spans)
    for reading, (_, _, at, finished) in enumerate(sorted(events)):
        (finishes if finished else starts)[abs(at)] = reading
    return starts, finishes


def _parents(steps: Sequence[Step], spans: Sequence[tuple[int, int]]) -> list[int | None]:
    """For each step, the tool inside which it happened: the one that it names, if their times agree."""
    tools = {step.id: at for at, step in enumerate(steps) if isinstance(step, ToolRun) and step.id}

    def inside(at: int, step: Step) -> int | None:
        tool = tools.get(step.parent, at)
        if tool == at or not (spans[tool][0] <= spans[at][0] < spans[tool][1] and spans[at][1] <= spans[tool][1]):
            return None
        return tool if tool < at else None

    return [inside(at, step) for at, step in enumerate(steps)]


def _outermost(at: int, parents: Sequence[int | None]) -> int:
    while (up := parents[at]) is not None:
        at = up
    return at


def _lanes(
    steps: Sequence[Step],
    causes: Sequence[set[int]],
    starts: Sequence[int],
    finishes: Sequence[int],
    parents: Sequence[int | None],
) -> list[str]:
    """The lane of each step: "main" for one that ran alone; one for each strand of those that ran side by side.

    A step goes on with the strand of what caused it, or of its own agent and parent, if that strand is free then.
    """
    lanes = [_MAIN] * len(steps)
    number = 0
    for together in _side_by_side(starts, finishes, parents):
        last: dict[str, int] = {}
        for at in together if len(together) > 1 else ():
            free = [lane for lane, other in last.items() if finishes[other] < starts[at]]
            caused = [lane for lane in free if last[lane] in causes[at]]
            mine = [lane for lane in free if _owner_of(steps[last[lane]]) == _owner_of(steps[at])]
            if lane := next(iter(caused or mine), ""):
                lanes[at] = lane
            else:
                number += 1
                lanes[at] = f"{_MAIN}.{number}"
            last[lanes[at]] = at
    return lanes


def _owner_of(step: Step) -> tuple[str, str]:
    return step.agent, step.parent


def _side_by_side(starts: Sequence[int], finishes: Sequence[int], parents: Sequence[int | None]) -> Iterator[list[int]]:
    """The outermost steps in order of start, those together that overlap, directly or through others."""
    together: list[int] = []
    until = -1
    for at in sorted((at for at in range(len(starts)) if parents[at] is None), key=lambda at: starts[at]):
        if together and starts[at] > until:
            yield together
            together = []
        together.append(at)
        until = max(until, finishes[at]) if len(together) > 1 else finishes[at]
    if together:
        yield together
