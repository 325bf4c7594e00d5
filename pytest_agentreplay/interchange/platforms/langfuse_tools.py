"""An observation of Langfuse as the run of a tool: its name, what it was called with, what it gave, by framework."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pytest_agentreplay.dialects.genai import parsed
from pytest_agentreplay.dialects.lenient import arr, obj, string
from pytest_agentreplay.interchange.platforms import faults, finals, langchain, langfuse_rows, literals
from pytest_agentreplay.interchange.spans.dotted_keys import at, text
from pytest_agentreplay.interchange.trace import UNKNOWN, ToolRun, TraceFault

if TYPE_CHECKING:
    from pytest_agentreplay.core.model import Json, JsonObject

_TOOL_NAME = re.compile(
    r"^(?:execute_tool|running tool:?|tool call:?|ai\.toolCall|mcp[._]tool[._]call)\s+(.+)$", re.IGNORECASE
)
_ARGUMENTS = ("gcp.vertex.agent.tool_call_args", "tool_arguments", "ai.toolCall.args", "gen_ai.tool.call.arguments")
_RESULTS = ("gcp.vertex.agent.tool_response", "tool_response", "ai.toolCall.result", "gen_ai.tool.call.result")
_NAMES = ("gen_ai.tool.name", "tool.name", "ai.toolCall.name", "tool_name")
_CALL_IDS = ("gen_ai.tool.call.id", "tool_call.id", "tool_call_id", "ai.toolCall.id", "gcp.vertex.agent.tool_call_id")


def told(observation: JsonObject, held: JsonObject, output: Json) -> bool:
    """Whether a name, an attribute of a framework (`held`), or the message of a tool says that it is a tool."""
    named = _TOOL_NAME.match(string(observation.get("name"))) is not None
    return named or any(name in held for name in (*_NAMES, *_ARGUMENTS)) or langchain.kind(output) == "tool"


def fault(observation: JsonObject) -> TraceFault | None:
    """The error of an observation."""
    if observation.get("level") != "ERROR":
        return None
    return faults.fault(observation.get("statusMessage")) or TraceFault()


def tool_run(told: JsonObject, noted: JsonObject, held: JsonObject, *, as_is: bool) -> ToolRun:
    """The run; `noted` is the observation's metadata, `held` the attributes of a framework in it."""
    output = langfuse_rows.value(told, "output", as_is=as_is)
    said = langchain.fields(output) if langchain.kind(output) == "tool" else {}
    kept = at(held, *_RESULTS)
    failed = fault(told) or (faults.fault(said.get("content")) if said.get("status") == "error" else None)
    result = bare(finals.told(output if output is not None else kept))
    named = _TOOL_NAME.match(string(told.get("name")))
    return ToolRun(
        name=text(held, *_NAMES) or string(said.get("name")) or (named[1] if named else string(told.get("name"))),
        call_id=text(held, *_CALL_IDS) or string(said.get("tool_call_id")) or string(noted.get("tool_call_id")),
        arguments=_arguments(told, noted, held, as_is=as_is),
        result=UNKNOWN if result is None or (failed is not None and not said) else result,
        fault=failed,
    )


def bare(given: Json) -> Json:
    """A result without the envelope of Microsoft's agent framework, or of the ADK, around it."""
    told = obj(given)
    if told.get("type") == "function_result" and "result" in told:
        return parsed(told["result"])
    if set(told) == {"id", "name", "response"}:
        return parsed(told["response"])
    return given


def _arguments(told: JsonObject, noted: JsonObject, held: JsonObject, *, as_is: bool) -> Json:
    """The arguments: from the attributes, as LangChain's handler noted them, else the input."""
    kept = at(held, *_ARGUMENTS)
    if kept is not None:
        return parsed(kept)
    given = langfuse_rows.value(told, "input", as_is=as_is)
    if isinstance(given, str) and isinstance(noted.get("inputs"), dict):
        return noted["inputs"]
    read = literals.read(given) if isinstance(given, str) else given
    inner = obj(read)
    if set(inner) == {"args", "kwargs"} and isinstance(inner["kwargs"], dict):
        return inner["kwargs"] if not arr(inner["args"]) else read
    return inner["args"] if set(inner) == {"id", "name", "args"} else read
