"""When two calls mean the same, for runs that were not recorded byte for byte.

A trace of another tool holds what was said, not how it was spelled: ids are other ones, arguments have other spaces,
instructions stand in another place. `ByBody` takes the JSON of a request for the call, `ByMeaning` what is asked of
which model: the same words, tools and arguments, in the same order. Whatever says something is compared.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pytest_agentreplay.compare.matching.address import split
from pytest_agentreplay.compare.tolerance import view
from pytest_agentreplay.model import media
from pytest_agentreplay.model.canonical_json import canonical
from pytest_agentreplay.model.exchanges import HttpCall, ToolCall
from pytest_agentreplay.model.turns import function_of
from pytest_agentreplay.providers import READER, encode
from pytest_agentreplay.providers.lenient import obj, objects, parse_text, string
from pytest_agentreplay.providers.messages import add_message, normalize_conversation, normalize_tools

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from pytest_agentreplay.compare.matching import Matching
    from pytest_agentreplay.model.exchanges import Call, Json, JsonObject, Run
    from pytest_agentreplay.model.reading import CallReading

NOWHERE = "https://model"
"""The host of a call of which nobody has to know where it went."""
_DATE = re.compile(r"[-@](?:\d{4}-\d\d-\d\d|\d{8})$")
"""The end of "gpt-5-2025-08-07" and of "claude-sonnet-4-5-20250929"."""


class ByBody:
    """A model's call is the JSON of its body, to whatever host; any other call is itself."""

    def __init__(self, matching: Matching) -> None:
        """`matching` says what of a body counts."""
        self._matching = matching

    def text(self, call: Call) -> str:
        """What two calls have the same that are the same."""
        text = self._matching.text(call)
        reading = READER.read_call(call)
        if isinstance(call, ToolCall) or reading.kind != "model":
            return text
        body = text.partition("\n")[2]
        return f"{canonical([reading.dialect, reading.model, reading.stream])}\n{body}"

    def plainly(self, call: Call) -> Call:
        """The call without the host that it goes to, and without headers."""
        if not isinstance(call, HttpCall) or READER.read_call(call).kind != "model":
            return call
        counted = self._matching.strip_ignored(call)
        assert isinstance(counted, HttpCall)
        return HttpCall(call.method, f"{NOWHERE}{split(call.url).path}", body=counted.body)


class ByMeaning:
    """A model's call is what it says, a tool's its name and arguments; any other call is itself.

    What no call of a run tells (the name of the model, the schemas of tools) was lost on the way and is not compared;
    of a name that is the served one in each call, its date is not.
    """

    def __init__(self, matching: Matching, run: Run) -> None:
        """`matching` says what of a body counts, `run` what is known."""
        self._matching = matching
        self._lost = _find_lost(run)

    def text(self, call: Call) -> str:
        """What two calls have the same that are the same."""
        counted = self._matching.strip_ignored(call)
        if isinstance(call, HttpCall) and (reading := READER.read_call(counted)).kind == "model":
            return canonical(normalize_call(reading, self._lost))
        tool = function_of(counted, READER)
        if tool is not None:
            return canonical([tool.boundary, tool.name, view(tool.arguments)])
        return self._matching.text(call)

    def plainly(self, call: Call) -> Call:
        """The call with nothing but what it means, a model's in one dialect whatever it speaks."""
        counted = self._matching.strip_ignored(call)
        reading = READER.read_call(counted)
        if reading.kind != "model" or isinstance(call, ToolCall):
            return counted
        normalized = normalize_call(reading, self._lost)
        messages, tools = objects(normalized["messages"]), objects(normalized["tools"])
        model = string(normalized["model"]) or "unknown"
        return encode.request("openai_chat", model=model, messages=messages, tools=tools, base=NOWHERE)


def normalize_call(reading: CallReading, without: Collection[str] = ()) -> JsonObject:
    """What a call says to a model, the same for all dialects; `without` names what is left out of it.

    That is "model", "dated" (what the name of a model says of its date), "tools", or a field of all tools. Left out
    always are thoughts, which are the model's own and lost in most traces, and the mark of a failed result, for which
    most APIs have no place.
    """
    tools = [_tool(tool, without) for tool in normalize_tools(reading.tools)]
    return {
        "model": "" if "model" in without else _DATE.sub("" if "dated" in without else r"\g<0>", reading.model),
        "tools": [] if "tools" in without else tools,
        "messages": [*_list_messages(reading)],
    }


def _find_lost(run: Run) -> frozenset[str]:
    """Return what no model call of `run` holds, although a run like this must have had it."""
    exchanges = [x for x in run.exchanges if READER.read_call(x.call).kind == "model"]
    readings = [READER.read_call(x.call) for x in exchanges]
    tools = [tool for reading in readings for tool in normalize_tools(reading.tools)]
    parts = [
        part
        for reading in readings
        for message in normalize_conversation(reading)
        for part in objects(message["parts"])
    ]
    used = {part.get("type") for part in parts} & {"tool_call", "tool_call_response"}
    tells = {
        "model": any(reading.model not in {"", "unknown"} for reading in readings),
        "dated": any(READER.read_reply(x.call, x.outcome).model != READER.read_call(x.call).model for x in exchanges),
        "tools": bool(tools) or not (used or any(function_of(x.call, READER) for x in run.exchanges)),
        "description": any(tool.get("description") for tool in tools),
        "parameters": any(_schema(tool.get("parameters")) for tool in tools),
    }
    return frozenset(name for name, present in tells.items() if not present)


def _tool(tool: JsonObject, without: Collection[str]) -> Json:
    about = {"description": tool.get("description"), "parameters": _schema(tool.get("parameters"))}
    return {"name": tool.get("name"), **{name: value for name, value in about.items() if name not in without}}


def _schema(value: Json) -> Json:
    """A schema with the names of its types as JSON Schema spells them; None where it declares nothing."""
    if isinstance(value, list):
        return [_schema(part) for part in value]
    if not isinstance(value, dict):
        return value
    if value.keys() <= {"type", "properties"} and not value.get("properties") and value.get("type") != "array":
        kind = value.get("type", "object")
        return None if isinstance(kind, str) and kind.lower() == "object" else {"type": _lower(kind)}
    return {name: _lower(part) if name == "type" else _schema(part) for name, part in value.items()}


def _lower(kind: Json) -> Json:
    return kind.lower() if isinstance(kind, str) else _schema(kind)


def _list_messages(reading: CallReading) -> list[JsonObject]:
    """Return what is said as messages of the conventions in which the ids of calls are their numbers.

    Neighbouring texts of one speaker are one text.
    """
    messages: list[JsonObject] = []
    calls: list[tuple[str, str]] = []
    answered: set[int] = set()
    for message in normalize_conversation(reading):
        role, parts = string(message.get("role")), objects(message["parts"])
        if role == "tool":
            # What a user says beside results stands behind them.
            role = "user"
            parts.sort(key=lambda part: part.get("type") != "tool_call_response")
        for part in parts:
            match part.get("type"):
                case "text":
                    _add_text(messages, role, string(part.get("content")))
                case "tool_call":
                    use: JsonObject = {"type": "tool_call", "id": f"call {len(calls)}", "name": part.get("name")}
                    use["arguments"] = parse_text(part.get("arguments")) or {}
                    calls.append((string(part.get("id")), string(part.get("name"))))
                    add_message(messages, {"role": "assistant", "parts": [use]})
                case "tool_call_response":
                    number = _find_call(part, calls, answered)
                    answered.add(number)
                    response = _read_result(part, reading.dialect)
                    result: JsonObject = {"type": "tool_call_response", "id": f"call {number}", "response": response}
                    add_message(messages, {"role": "tool", "parts": [result]})
                case "generic":
                    # Without a type it is no text of the conventions, and yet written as one.
                    block: JsonObject = {"content": canonical(_read_block(part.get("block")))}
                    add_message(messages, {"role": role, "parts": [block]})
    return messages


def _add_text(messages: list[JsonObject], role: str, text: str) -> None:
    parts = objects(messages[-1]["parts"]) if messages and messages[-1]["role"] == role else []
    if parts and parts[-1].get("type") == "text":
        parts[-1]["content"] = f"{parts[-1]['content']}{text}"
    elif text:
        add_message(messages, {"role": role, "parts": [{"type": "text", "content": text}]})


def _find_call(part: JsonObject, calls: Sequence[tuple[str, str]], answered: Collection[int]) -> int:
    """Return the number of the call that a result is of: by its id, else by its name, else in turn; -1 for none."""
    names = {string(part.get("id")), string(part.get("name"))} - {""}
    waiting = [number for number in range(len(calls)) if number not in answered]
    by_id = [number for number in waiting if calls[number][0] in names]
    by_name = [number for number in waiting if calls[number][1] in names]
    return next(iter((*by_id, *by_name, *waiting)), -1)


def _read_result(part: JsonObject, dialect: str) -> Json:
    result = part.get("response")
    # Gemini takes objects only: google-genai wraps everything else (`types.FunctionResponse`).
    wrapped = dialect == "gemini" and isinstance(result, dict) and result.keys() == {"result"}
    return parse_text(obj(result)["result"]) if wrapped else result


def _read_block(block: Json) -> Json:
    """A picture, sound or file by its bytes, however it is wrapped; anything else as it was sent."""
    digests: list[Json] = [file.digest for _, file in media.find_media(block)]
    return digests or {name: value for name, value in obj(block).items() if name != "cache_control"}
