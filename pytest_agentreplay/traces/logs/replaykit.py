"""ReplayKit's trace: one object with a run's id, its status, and what happened in order.

It tells of tools and not of calls of models: a replay returns what the tools gave.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_agentreplay.providers import genai
from pytest_agentreplay.providers.lenient import objects, rest, string
from pytest_agentreplay.traces.assembling import ending, whole
from pytest_agentreplay.traces.formats import Format
from pytest_agentreplay.traces.logs.pairs import known
from pytest_agentreplay.traces.logs.runs import objects_of
from pytest_agentreplay.traces.moments import extent, moment
from pytest_agentreplay.traces.platforms.span_facts import fault, texts
from pytest_agentreplay.traces.trace import UNKNOWN, Source, ToolRun, Trace, TraceFault

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_agentreplay.model.exchanges import Json, JsonObject
    from pytest_agentreplay.traces.formats import Opened

_INPUTS = frozenset({"input_message", "user_message", "input"})
_OUTPUTS = frozenset({"output_message", "final_output", "assistant_message", "output"})
_KNOWN = _INPUTS | _OUTPUTS | {"tool_call", "tool_result", "error"}
_ABOUT = ("run_id", "id", "status", "events", "name", "user_id", "session_id", "tenant_id", "tags", "error")


def _is_run(row: JsonObject) -> bool:
    events = objects(row.get("events"))
    if row.get("events") == []:
        return {"run_id", "status"} <= row.keys()
    return ("run_id" in row or "status" in row) and any(string(one.get("type")) in _KNOWN for one in events)


def _fits(opened: Opened) -> bool:
    return any(map(_is_run, objects_of(opened)[:50]))


def _read(opened: Opened) -> list[Trace]:
    return [_trace(opened, row) for row in objects_of(opened) if _is_run(row) and row["events"]]


def _trace(opened: Opened, row: JsonObject) -> Trace:
    events = objects(row.get("events"))
    errors = [one.get("error", rest(one, "type")) for one in events if one.get("type") == "error"]
    errors += [row["error"]] if row.get("error") else []
    broke = (fault(errors[-1]) or TraceFault()) if errors else None
    outputs = [_content(one) for one in events if string(one.get("type")) in _OUTPUTS]
    return whole(
        Trace(
            source=Source(format="replaykit", file=opened.file, id=known(row, "run_id", "id")),
            id=known(row, "run_id", "id"),
            name=string(row.get("name")),
            status=ending(row.get("status")),
            user=known(row, "user_id"),
            session=known(row, "session_id"),
            tenant=known(row, "tenant_id"),
            tags=texts(row.get("tags")),
            metadata=rest(row, *_ABOUT),
            input=_input([_content(one) for one in events if string(one.get("type")) in _INPUTS]),
            output=outputs[-1] if outputs else None,
            fault=broke,
            steps=tuple(_runs(events)),
            losses=("no call of a model is in the file: only what the tools returned can be replayed",),
            **extent(events),
        )
    )


def _runs(events: Iterable[JsonObject]) -> list[ToolRun]:
    """The calls of tools, each with its result: by id, else by name, else in order."""
    found: list[ToolRun] = []
    for event in events:
        if event.get("type") == "tool_call":
            found.append(_called(event))
        elif event.get("type") == "tool_result":
            at = _asked(event, found)
            if at is not None:
                found[at] = _answered(found[at], event)
    return found


def _called(event: JsonObject) -> ToolRun:
    return ToolRun(
        name=known(event, "tool_name", "name", "tool"),
        call_id=known(event, "call_id", "tool_call_id", "id"),
        arguments=genai.parsed(event.get("tool_args", event.get("arguments", event.get("args", {})))),
        started=moment(event.get("timestamp")),
    )


def _asked(event: JsonObject, found: list[ToolRun]) -> int | None:
    call_id, name = known(event, "call_id", "tool_call_id", "id"), known(event, "tool_name", "name", "tool")
    free = [at for at, run in enumerate(found) if run.result == UNKNOWN and run.fault is None]
    fitting = [at for at in free if call_id and found[at].call_id == call_id]
    fitting = fitting or [at for at in free if name and found[at].name == name]
    fitting = fitting or (free if not name else [])
    return fitting[0] if fitting else None


def _answered(run: ToolRun, event: JsonObject) -> ToolRun:
    error = event.get("error")
    result = next((event[name] for name in ("output", "result", "content") if name in event), UNKNOWN)
    failed = bool(error) or event.get("is_error") is True
    return replace(
        run,
        result=genai.parsed(result),
        fault=(fault(error) or TraceFault(message=string(result))) if failed else None,
        ended=moment(event.get("timestamp")),
    )


def _content(event: JsonObject) -> Json:
    return next((event[name] for name in ("content", "text", "message", "output") if name in event), None)


def _input(said: list[Json]) -> Json:
    """What the agent was asked: the text where it is one, else the user's messages."""
    if len(said) == 1:
        return said[0]
    return [genai.message({"role": "user", "content": one}) for one in said] or None


FORMATS = (Format("replaykit", "trace of ReplayKit", 23.2, _fits, _read),)
