"""The stream of events of a Copilot session: what the user and the assistant said, and which tools ran."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_agentreplay.dialects import genai
from pytest_agentreplay.dialects.lenient import obj, objects, string
from pytest_agentreplay.interchange.assembling import whole
from pytest_agentreplay.interchange.formats import Format
from pytest_agentreplay.interchange.logs import tables
from pytest_agentreplay.interchange.logs.tool_events import tool_runs
from pytest_agentreplay.interchange.moments import in_time, moment
from pytest_agentreplay.interchange.trace import UNKNOWN, ModelCall, Source, Trace, TraceFault

if TYPE_CHECKING:
    from pytest_agentreplay.core.model import Json, JsonObject
    from pytest_agentreplay.interchange.formats import Opened
    from pytest_agentreplay.interchange.trace import Step, ToolRun

_SIGNS = frozenset({"user.message", "assistant.message", "tool.execution_start"})
_LOSSES = ("neither instructions, tools nor parameters of the requests", "no usage of single calls")


def _fits(opened: Opened) -> bool:
    return any(
        string(row.get("type")) in _SIGNS and isinstance(row.get("data"), dict) for row in tables.rows(opened)[:50]
    )


def _read(opened: Opened) -> list[Trace]:
    events = in_time(tables.rows(opened))
    if not events:
        return []
    begun = next((obj(one["data"]) for one in events if one.get("type") == "session.start"), {})
    errors = [obj(one.get("data")) for one in events if one.get("type") == "session.error"]
    broke = TraceFault(string(errors[-1].get("errorType")), string(errors[-1].get("message"))) if errors else None
    times = [at for one in events if (at := moment(one.get("timestamp"))) is not None]
    session = string(begun.get("sessionId"))
    known = session or string(events[0].get("id"))
    return [
        whole(
            Trace(
                source=Source(format="copilot-events", file=opened.file, id=known),
                id=known,
                status="error" if errors else "",
                started=min(times, default=None),
                ended=max(times, default=None),
                session=session,
                input=_asked(events),
                fault=broke,
                steps=tuple(_steps(events, string(begun.get("selectedModel")))),
                losses=(*_LOSSES, *((f"{opened.junk} lines are no events",) if opened.junk else ())),
            )
        )
    ]


def _steps(events: list[JsonObject], model: str) -> list[Step]:
    """What was said and done in order; a call of the model is what the assistant said after all before it."""
    runs = {run.id: run for run in tool_runs(events)}
    known = {run.call_id: run for run in runs.values()}
    before: list[JsonObject] = []
    steps: list[Step] = []
    for event in events:
        data, kind = obj(event.get("data")), event.get("type")
        if kind == "user.message":
            genai.join(before, _text("user", data.get("transformedContent") or data.get("content")))
        elif kind == "session.model_change":
            model = string(data.get("newModel")) or model
        elif kind == "assistant.message" and (reply := _reply(data))["parts"]:
            at, message_id = moment(event.get("timestamp")), string(data.get("messageId"))
            steps.append(ModelCall(model=model, messages=tuple(before), reply=reply, started=at, id=message_id))
            genai.join(before, reply)
        elif kind == "tool.execution_start" and (run := runs.get(string(event.get("id")))):
            steps.append(run)
        elif kind == "tool.execution_complete" and (run := known.get(string(data.get("toolCallId")))):
            genai.join(before, _response(run))
    return steps


def _asked(events: list[JsonObject]) -> Json:
    """What the user wrote first, without what the program puts around it."""
    said = (obj(one.get("data")).get("content") for one in events if one.get("type") == "user.message")
    return next(said, None)


def _text(role: str, content: Json) -> JsonObject:
    return {"role": role, "parts": [{"type": "text", "content": string(content)}]}


def _reply(data: JsonObject) -> JsonObject:
    parts: list[Json] = []
    if string(data.get("reasoningText")):
        parts.append({"type": "reasoning", "content": data["reasoningText"]})
    if string(data.get("content")):
        parts.append({"type": "text", "content": data["content"]})
    parts += [
        {
            "type": "tool_call",
            "id": string(asked.get("toolCallId")),
            "name": string(asked.get("name")),
            "arguments": genai.parsed(asked.get("arguments")),
        }
        for asked in objects(data.get("toolRequests"))
    ]
    return {"role": "assistant", "parts": parts}


def _response(run: ToolRun) -> JsonObject:
    answer: Json = "" if run.seen == UNKNOWN else run.seen
    part: JsonObject = {"type": "tool_call_response", "id": run.call_id, "response": answer}
    return {"role": "tool", "parts": [part | ({"is_error": True} if run.fault else {})]}


FORMATS = (Format("copilot-events", "events of a Copilot session", 23.1, _fits, _read),)
