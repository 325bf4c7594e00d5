"""What an export takes and gives: a case with its frozen run as a trace, and the files that come of it.

A run of ours becomes a trace here, the way back from `to_run`, for whoever takes traces.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias, cast

from pytest_agentreplay.model.canonical_json import canonical
from pytest_agentreplay.model.exchanges import Failure, HttpCall, HttpReply, ToolCall, ToolReply
from pytest_agentreplay.model.turns import is_model, tool_of, top_level
from pytest_agentreplay.providers import READER
from pytest_agentreplay.snapshots.kit import table
from pytest_agentreplay.traces.assembling import assemble_steps
from pytest_agentreplay.traces.chains import tool_calls
from pytest_agentreplay.traces.trace import UNKNOWN, ModelCall, Source, ToolRun, Trace, TraceFault
from pytest_agentreplay.traces.wire import join_readings, model_call
from pytest_agentreplay.values.deserializer import to_plain

if TYPE_CHECKING:
    from pytest_agentreplay.model.exchanges import Exchange, Json, JsonObject, Run
    from pytest_agentreplay.traces.trace import Step

Wanted: TypeAlias = "tuple[str, Json]"
"""One check of a case: its word, and what it wants."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A case that goes out: its id and title, its folder as shown, the frozen run, and its checks by half.

    `calls` are the tool calls that were made, with None for arguments that JSON cannot say.
    """

    id: str
    title: str = ""
    folder: str = ""
    input: Json = None
    trace: Trace
    calls: tuple[tuple[str, JsonObject | None], ...] = ()
    observed: tuple[Wanted, ...] = ()
    desired: tuple[Wanted, ...] = ()
    semantic: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The id as a name in Python and in files."""
        return re.sub(r"\W+", "_", self.id, flags=re.ASCII).strip("_").lower() or "case"

    @property
    def messages(self) -> list[JsonObject]:
        """What went in, as chat messages: the input of the case, else what the first model call was told."""
        own = self.input.get("messages") if isinstance(self.input, dict) else None
        if isinstance(own, list):
            return [message for message in own if isinstance(message, dict)]
        first = next((step for step in self.trace.steps if isinstance(step, ModelCall)), None)
        messages = [] if first is None else [_chat_message(message) for message in first.messages]
        return [message for message in messages if message["role"] != "system"]


@dataclass(frozen=True, slots=True)
class Exported:
    """The files of an export, (name, text) each, the main one first. `losses` are sentences for people."""

    files: tuple[tuple[str, str], ...]
    losses: tuple[str, ...] = field(default=())


def _chat_message(message: JsonObject) -> JsonObject:
    """A message of `providers.messages` as role and text."""
    parts = message.get("parts")
    texts = [part.get("content") for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
    return {"role": message.get("role"), "content": "\n".join(text for text in texts if isinstance(text, str))}


def unsaid(target: str, half: str, check: Wanted) -> str:
    """The loss of a check for which the target has no word."""
    return f"{half} {check[0]}: {target} has no word for it, and nothing checks it there"


VERDICT = "AssertionError"
"""What a test says of a run is no fault of the run."""


def trace_of(run: Run, *, id: str, output: Json = None) -> Trace:  # noqa: A002  the field's own name
    """What `run` tells, as the trace called `id` that came to `output`."""
    steps: list[Step] = []
    losses: list[str] = []
    for exchange in top_level(run):
        if (step := step_of(exchange, run.header.clock)) is not None:
            steps.append(step)
        else:
            losses.append(f"the call at {exchange.start} ({exchange.call.boundary}) is neither a model's nor a tool's")
    assembled_steps, missing = assemble_steps(shorten_tool_names(steps))
    outcome, facts = run.header.outcome, table(run.header.kit, "annotations")
    fault = None
    if outcome.get("status") == "failed" and outcome.get("type") != VERDICT:
        fault = TraceFault(str(outcome.get("type", "")), str(outcome.get("message", "")))
    return Trace(
        source=Source(format="snapshot", id=run.header.test, fidelity="bytes"),
        id=id,
        name=id,
        status="error" if fault is not None else "ok",
        started=min((step.started for step in assembled_steps if step.started is not None), default=run.header.clock),
        ended=max((step.ended for step in assembled_steps if step.ended is not None), default=None),
        user=str(facts.get("user", "")),
        session=str(facts.get("session", "")),
        tenant=str(facts.get("tenant", "")),
        output=output,
        fault=fault,
        steps=assembled_steps,
        losses=tuple(losses),
        missing=missing,
    )


def shorten_tool_names(steps: list[Step]) -> list[Step]:
    """Return the steps with each tool under the name by which the model asks for it, where ours says its module too."""
    asked_names = {part.get("name") for step in steps if isinstance(step, ModelCall) for part in tool_calls(step)}
    return [
        replace(step, name=short)
        if isinstance(step, ToolRun)
        and step.name not in asked_names
        and (short := step.name.rpartition(".")[2]) in asked_names
        else step
        for step in steps
    ]


def step_of(exchange: Exchange, clock: int) -> Step | None:
    """One exchange as a step; None for what is neither a model's nor a tool's."""
    timing = exchange.timing
    started, ended = clock + timing.start, None if timing.end is None else clock + timing.end
    call, outcome = exchange.call, exchange.outcome
    if isinstance(call, HttpCall) and is_model(call, READER):
        answer = outcome if isinstance(outcome, HttpReply | Failure) else None
        return model_call(call, answer, started=started, ended=ended, agent=exchange.agent)
    if isinstance(call, ToolCall) and call.boundary == "model":
        return in_process(call, exchange, started, ended)
    tool = tool_of(call, READER)
    if tool is None:
        return None
    arguments = {
        name: plainly(value) if isinstance(call, ToolCall) else value for name, value in tool.arguments.items()
    }
    result, fault = read_tool_outcome(exchange)
    return ToolRun(
        name=tool.name, arguments=arguments, result=result, fault=fault, started=started, ended=ended,
        agent=exchange.agent,
    )  # fmt: skip


def in_process(call: ToolCall, exchange: Exchange, started: int, ended: int | None) -> ModelCall:
    """A model that is a function of the process."""
    reply = READER.read_reply(call, exchange.outcome)
    read = join_readings(
        READER.read_call(call),
        reply,
        is_answered=exchange.outcome is not None and not reply.error,
        fault=TraceFault("", reply.error) if reply.error else None,
        started=started,
        ended=ended,
        agent=exchange.agent,
    )
    return replace(read, dialect="")  # no API is spoken


def read_tool_outcome(exchange: Exchange) -> tuple[Json, TraceFault | None]:
    """Return the result of a tool, and what it raised."""
    match exchange.outcome:
        case ToolReply(value, None, None):
            return plainly(value), None
        case ToolReply(_, items, failure):
            values = [plainly(item) for item in items or ()]
            return values, None if failure is None else TraceFault(failure.type, failure.message)
        case Failure(type=kind, message=message):
            return UNKNOWN, TraceFault(kind, message)
        case HttpReply() as reply:
            reading = READER.read_reply(exchange.call, reply)
            return (UNKNOWN, TraceFault("", reading.error)) if reading.error else (reading.result, None)
        case _:
            return UNKNOWN, None


def plainly(value: Json) -> Json:
    """A frozen value as plain JSON; what JSON has no form for as its text."""
    return jsonish(to_plain(value))


def jsonish(value: object) -> Json:
    """A value as JSON."""
    match value:
        case dict():
            return {str(name): jsonish(inner) for name, inner in value.items()}
        case list() | tuple() | set() | frozenset():
            items = [jsonish(item) for item in value]
            return sorted(items, key=canonical) if isinstance(value, set | frozenset) else items
        case None | bool() | int() | float() | str():
            return cast("Json", value)
        case _:
            return str(value)
