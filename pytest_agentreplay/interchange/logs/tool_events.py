"""Events of the kind "a tool began" and "a tool ended", as the executions that they tell."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_agentreplay.dialects import genai
from pytest_agentreplay.dialects.lenient import obj, string
from pytest_agentreplay.interchange.moments import moment
from pytest_agentreplay.interchange.trace import UNKNOWN, ToolRun, TraceFault

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_agentreplay.core.model import Json, JsonObject

_BEGAN = frozenset({"toolexecutionstart", "tool.execution_start"})
_ENDED = frozenset({"toolexecutioncomplete", "tool.execution_complete"})


def tool_runs(events: Iterable[JsonObject]) -> list[ToolRun]:
    """The executions in order of their beginning. Fields are named in two ways, and may stand under "data"."""
    began: dict[str, JsonObject] = {}
    ended: dict[str, JsonObject] = {}
    for number, event in enumerate(events):
        kind = string(event.get("type")).lower()
        if kind in _BEGAN | _ENDED:
            (began if kind in _BEGAN else ended).setdefault(_id(event) or f"#{number}", event)
    return [_run(call_id, event, ended.get(call_id, {})) for call_id, event in began.items()]


def _run(call_id: str, began: JsonObject, ended: JsonObject) -> ToolRun:
    asked, told = _fields(began), _fields(ended)
    result = told.get("tool_result", told.get("result"))
    seen = genai.parsed(obj(result).get("content", result)) if result is not None else UNKNOWN
    failed = told.get("success") is False or bool(told.get("error"))
    error = told.get("error")
    message = string(error) or string(obj(error).get("message")) or (seen if isinstance(seen, str) else "")
    return ToolRun(
        name=string(asked.get("tool_name")) or string(asked.get("toolName")),
        call_id="" if call_id.startswith("#") else call_id,
        arguments=asked.get("arguments"),
        seen=seen,
        fault=TraceFault(message="" if message == UNKNOWN else message) if failed else None,
        executed=bool(ended),
        started=moment(began.get("timestamp")),
        ended=moment(ended.get("timestamp")),
        id=string(began.get("id")),
    )


def _id(event: JsonObject) -> str:
    fields = _fields(event)
    return string(fields.get("tool_call_id")) or string(fields.get("toolCallId"))


def _fields(event: JsonObject) -> JsonObject:
    data: Json = event.get("data")
    return data if isinstance(data, dict) else event
