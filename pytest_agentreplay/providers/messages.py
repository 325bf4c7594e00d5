"""The messages of a conversation, whoever wrote them: as the OTel GenAI conventions have them, and for people.

A message is known by its shape: a role with a text or blocks (chat, Messages, Converse, Ollama, Cohere), with parts
(Gemini), an item with a type (Responses), or a bare text. `CALLS` and `RESULTS` are the table of the shapes of calls
and results. `chat_message` makes messages of a chat API of those of LangChain.

In the form of the conventions two dialects can be compared, and one be written: `{"role": ..., "parts": [...]}`; a part
is `{"type": "text", "content"}`, `{"type": "tool_call", "id", "name", "arguments"}`, `{"type": "tool_call_response",
"id", "response"}` (with "name" where there is no id, and "is_error"), `{"type": "reasoning", "content"}`, or another
block as it was sent under `{"type": "generic", "block"}`. Arguments are parsed where their text is JSON.
(https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-input-messages.json)
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from pytest_agentreplay.model.reading import ToolUse
from pytest_agentreplay.providers.lenient import arr, first, obj, objects, parse_text, string
from pytest_agentreplay.providers.openai_chat import read_tool_call, write_call

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pytest_agentreplay.model.exchanges import Json, JsonObject
    from pytest_agentreplay.model.reading import CallReading, ReplyReading

# What APIs and libraries call the four roles of the conventions.
ROLES = {
    "model": "assistant",  # Gemini
    "developer": "system",  # OpenAI, instead of "system" since its reasoning models
    "function": "tool",  # OpenAI before tool calls; Gemini's SDKs
    "human": "user",  # LangChain
    "ai": "assistant",
    "system": "system",
    "tool": "tool",
    "chat": "user",
}
RESULT_ROLES = frozenset({"tool", "function"})  # their content is the result of a tool
_SPEAKERS = frozenset({*ROLES, *ROLES.values()})
_TEXTS = frozenset({"text", "input_text", "output_text"})
# Where the schema of a tool's arguments stands: chat and Responses, Gemini in two spellings, Anthropic.
_SCHEMAS = ("parameters", "parametersJsonSchema", "parameters_json_schema", "input_schema")


class Shape(NamedTuple):
    """How a block keeps the call of a tool, or the result of one.

    Attributes:
        type: The type of a block that is the call or result itself; "" for any.
        field: The field of the block that holds it; "" for the block.
        ids: Fields with the id of the call.
        values: Fields with the arguments or the result, of which one is there.
        name: The field with the name of the tool.
    """

    type: str
    field: str
    ids: tuple[str, ...]
    values: tuple[str, ...]
    name: str = "name"

    def find(self, block: JsonObject) -> JsonObject | None:
        """Return the call or result in a block, None if it has none of this shape."""
        if self.type:
            return block if block.get("type") == self.type else None
        inner = block.get(self.field)
        return inner if isinstance(inner, dict) else None


CALLS = (
    Shape("", "functionCall", ("id",), ("args",)),  # https://ai.google.dev/api/caching#FunctionCall
    Shape("", "function_call", ("id",), ("args",)),  # the same, as google-genai dumps it
    Shape("", "toolUse", ("toolUseId",), ("input",)),  # Converse, ToolUseBlock
    Shape("tool_use", "", ("id",), ("input",)),  # https://docs.anthropic.com/en/api/messages
    # Vercel's AI SDK, https://ai-sdk.dev/docs/reference/ai-sdk-core/model-message: version 5 renamed the values.
    Shape("tool-call", "", ("toolCallId",), ("input", "args"), "toolName"),
)
RESULTS = (
    Shape("tool_result", "", ("tool_use_id",), ("content",)),
    Shape("", "functionResponse", ("id", "name"), ("response",)),
    Shape("", "function_response", ("id", "name"), ("response",)),
    Shape("", "toolResult", ("toolUseId",), ("content",)),
    Shape("tool-result", "", ("toolCallId",), ("output", "result")),
)
_GEMINI_RESULTS, _AI_SDK_RESULT = RESULTS[1:3], RESULTS[4]
# Fields and types of blocks that are no text of the message, that for caches (Converse) among them.
_TOOL_FIELDS = frozenset({"cachePoint", *(shape.field for shape in (*CALLS, *RESULTS))}) - {""}
_TOOL_TYPES = frozenset({shape.type for shape in (*CALLS, *RESULTS)}) - {""}
_TOLD_TWICE = frozenset({"tool_call", "function_call", "tool_use", "server_tool_call"})


class _Result(NamedTuple):
    id: str
    value: Json
    shape: Shape | None = None
    is_error: bool = False


def normalize_conversation(reading: CallReading) -> tuple[JsonObject, ...]:
    """Return the messages of a call, instructions first; neighbours of one role are one message."""
    messages = [normalize_message(item) for item in reading.messages]
    if reading.system_at:
        texts = [part for item in reading.system for part in _parts(item)]
        messages.insert(0, {"role": "system", "parts": texts})
    return join_neighbours(messages)


def normalize_message(item: Json) -> JsonObject:
    """Return one message, or item, of any dialect in the form of the conventions."""
    if isinstance(item, str):
        return {"role": "user", "parts": _parts(item)}
    fields = obj(item)
    if isinstance(fields.get("parts"), list) and all("type" in part for part in objects(fields["parts"])):
        # The conventions' own form: parts of Gemini have no type.
        return {"role": string(fields.get("role")) or "user", "parts": arr(fields["parts"])}
    calls: list[Json] = [write_call_part(use) for use in find_tool_uses(fields)]
    results = [_write_result(result) for result in _list_results(fields)]
    role = string(fields.get("role"))
    is_result = role in RESULT_ROLES or string(fields.get("type")).endswith("_call_output")
    role = ROLES.get(role, role) or ("tool" if is_result else "assistant" if calls or "summary" in fields else "user")
    if results and role == "user":
        role = "tool"
    contents = [] if is_result else _read_content(fields)
    return {"role": role, "parts": [*contents, *calls, *results]}


def write_call_part(use: ToolUse) -> JsonObject:
    """Return a tool call as a part."""
    return {"type": "tool_call", "id": use.id, "name": use.name, "arguments": parse_text(use.arguments)}


def normalize_reply(reading: ReplyReading) -> JsonObject:
    """Return a reply as the assistant's message."""
    texts: list[Json] = [{"type": "text", "content": reading.text}] if reading.text else []
    return {
        "role": "assistant",
        "parts": [*texts, *(write_call_part(use) for use in reading.tool_uses)],
        "finish_reason": next(iter(reading.finish_reasons), ""),
    }


def read_ai_sdk_calls(output: Json) -> list[Json]:
    """Return a list of bare calls of Vercel's AI SDK as blocks of a message; [] if something else is in it."""
    calls = objects(parse_text(output))
    return [{**call, "type": "tool-call"} for call in calls] if all(string(c.get("toolCallId")) for c in calls) else []


def normalize_tools(items: Iterable[Json]) -> tuple[JsonObject, ...]:
    """Return tool schemas as the conventions' tool definitions: type, name, description, parameters."""
    definitions: list[JsonObject] = []
    for item in items:
        outer = obj(item)
        inner = obj(outer.get("function")) or obj(outer.get("toolSpec")) or outer
        if declared := objects(inner.get("functionDeclarations", inner.get("function_declarations"))):
            definitions += normalize_tools(declared)
            continue
        schemas = (inner[name] for name in _SCHEMAS if name in inner)
        schema = next(schemas, obj(inner.get("inputSchema")).get("json"))
        name, about = string(inner.get("name")), string(inner.get("description"))
        definitions.append({"type": "function", "name": name, "description": about, "parameters": schema})
    return tuple(definitions)


def join_neighbours(messages: Iterable[JsonObject]) -> tuple[JsonObject, ...]:
    """Return the messages, neighbours of one role in one."""
    merged: list[JsonObject] = []
    for message in messages:
        add_message(merged, message)
    return tuple(merged)


def add_message(messages: list[JsonObject], message: JsonObject) -> None:
    """Add a message behind others: into the last of them if it is of the same role."""
    if messages and messages[-1]["role"] == message["role"]:
        messages[-1] = {**messages[-1], **message, "parts": [*arr(messages[-1]["parts"]), *arr(message["parts"])]}
    elif arr(message["parts"]):
        messages.append(message)


def find_tool_uses(message: Json) -> tuple[ToolUse, ...]:
    """Return the tool calls that a message carries."""
    fields = obj(message)
    uses = [read_tool_call(call) for call in objects(fields.get("tool_calls"))]
    for shape, inner in _find_shapes(fields, CALLS):
        arguments = inner.get(first(inner, shape.values))
        uses.append(ToolUse(string(inner.get(shape.ids[0])), string(inner.get(shape.name)), arguments))
    item = read_item(fields)
    return (*uses, item) if item else tuple(uses)


def _find_shapes(fields: JsonObject, shapes: Iterable[Shape]) -> Iterator[tuple[Shape, JsonObject]]:
    """Yield the call or result in each block of a message, with its shape."""
    for block in objects(fields.get("content")) or objects(fields.get("parts")):
        pairs = ((shape, inner) for shape in shapes if (inner := shape.find(block)) is not None)
        yield from islice(pairs, 1)


def read_item(item: JsonObject) -> ToolUse | None:
    """Return the call in an item of Responses that the agent has to answer; None for any other item.

    Web searches and the like, which the server runs itself, bear no `call_id`.
    """
    kind, call_id = string(item.get("type")), string(item.get("call_id"))
    if not call_id or not kind.endswith("_call"):
        return None
    arguments = item.get(first(item, ("arguments", "input", "action", "operation")))
    return ToolUse(call_id, string(item.get("name")) or kind.removesuffix("_call"), arguments)


def find_tool_results(message: Json) -> dict[str, Json]:
    """Return the tool results in a message, as sent, by the id of the tool call; without one, by the tool's name."""
    return {result.id: result.value for result in _list_results(obj(message))}


def _list_results(fields: JsonObject) -> Iterator[_Result]:
    if string(fields.get("role")) in RESULT_ROLES:
        names = ("tool_call_id", "tool_name", "name")
        if call_id := next((string(fields[name]) for name in names if string(fields.get(name))), ""):
            yield _Result(call_id, fields.get("content"))
    if string(fields.get("type")).endswith("_call_output"):
        yield _Result(string(fields.get("call_id")), fields.get("output"))
    for shape, inner in _find_shapes(fields, RESULTS):
        call_id = next((string(inner[name]) for name in shape.ids if string(inner.get(name))), "")
        is_error = inner.get("is_error") is True or inner.get("status") == "error"
        yield _Result(call_id, inner.get(first(inner, shape.values)), shape, is_error)


def _write_result(result: _Result) -> JsonObject:
    # Version 5 of the AI SDK wraps a value with its type.
    value = obj(result.value).get("value", result.value) if result.shape == _AI_SDK_RESULT else result.value
    value = _unwrap_result(value) if result.shape in _GEMINI_RESULTS else _parse_result(value)
    part: JsonObject = {"type": "tool_call_response", "id": result.id, "response": value}
    return part | ({"is_error": True} if result.is_error else {})


def _unwrap_result(result: Json) -> Json:
    """Return what a function gave Gemini: the API takes objects alone, so all else comes in one of a single field."""
    if isinstance(result, dict) and len(result) == 1 and (field := next(iter(result))) in {"result", "output"}:
        return parse_text(result[field])
    return result


def _parse_result(result: Json) -> Json:
    """Return what a tool gave: the only text of a list of blocks, parsed where it is JSON."""
    if isinstance(result, list) and len(result) == 1 and isinstance(only := result[0], dict):
        text = only.get("text", only.get("json"))
        return parse_text(text) if text is not None and len(only) <= 2 else result
    return parse_text(result)


def carries_tools(block: JsonObject) -> bool:
    """Return whether a block is the call or the result of a tool."""
    return string(block.get("type")) in _TOOL_TYPES or not _TOOL_FIELDS.isdisjoint(block)


def _read_content(fields: JsonObject) -> list[Json]:
    if string(fields.get("type")) == "reasoning":
        return _thoughts(objects(fields.get("summary")))
    content = fields.get("content", fields.get("parts"))
    return [part for block in (content if isinstance(content, list) else [content]) for part in _parts(block)]


def _parts(block: Json) -> list[Json]:
    """A block as parts; none for the calls and results of tools, which are read apart."""
    if block is None or block == "":
        return []
    if isinstance(block, str):
        return [{"type": "text", "content": block}]
    fields = obj(block)
    if carries_tools(fields):
        return []
    if fields.get("thought") is True:
        return _thoughts([fields])
    if isinstance(fields.get("text"), str) and string(fields.get("type")) in {"", *_TEXTS}:
        return [{"type": "text", "content": fields["text"]}]
    if isinstance(fields.get("thinking"), str):
        return [{"type": "reasoning", "content": fields["thinking"]}]
    return [{"type": "generic", "block": block}]


def _thoughts(blocks: Iterable[JsonObject]) -> list[Json]:
    return [{"type": "reasoning", "content": string(block.get("text"))} for block in blocks]


# --- LangChain (langchain_core.load and .messages): a serialised object (`{"lc": 1, "id": [..., "HumanMessage"],
# "kwargs": {...}}`), the dump of one (`{"type": "human", "content": ...}`, or with its fields under "data"), or a pair
# of role and text.


def langchain_kind(item: Json) -> str:
    """Return which kind of message of LangChain something is ("human", "ai", "tool" ...), "" for any other."""
    fields = obj(item)
    name = next(iter(arr(fields.get("id"))[-1:]), "") if "lc" in fields else fields.get("type")
    kind = string(name).removesuffix("Chunk").removesuffix("Message").lower()
    is_kind = kind in ROLES and kind not in {"model", "developer"}
    return kind if is_kind and not langchain_fields(fields).keys().isdisjoint({"content", "tool_calls"}) else ""


def langchain_fields(item: Json) -> JsonObject:
    """Return the fields of a message of LangChain, wherever its form keeps them."""
    fields = obj(item)
    inner = fields.get("kwargs") if "lc" in fields else fields.get("data")
    return inner if isinstance(inner, dict) else fields


def is_pair(item: Json) -> bool:
    """Return whether something is the pair of a role and a text, which stands for a message."""
    sides = arr(item)
    return len(sides) == 2 and isinstance(sides[1], str) and string(sides[0]) in _SPEAKERS - {"model", "developer"}


def is_message(item: Json) -> bool:
    """Return whether something is a message, of LangChain or of a chat API."""
    has_role = string(obj(item).get("role")) in _SPEAKERS and {"content", "parts", "tool_calls"} & obj(item).keys()
    return bool(has_role or langchain_kind(item) or is_pair(item))


def chat_message(item: Json) -> Json:
    """Return a message of LangChain as one of a chat API; anything else as it is."""
    if is_pair(item):
        name, text = arr(item)
        return {"role": ROLES.get(string(name), string(name)), "content": text}
    kind, own = langchain_kind(item), langchain_fields(item)
    if not kind:
        return _lift_calls(item) if isinstance(item, dict) else item
    content = own.get("content")
    if kind in RESULT_ROLES:
        answer: JsonObject = {"role": "tool", "tool_call_id": own.get("tool_call_id"), "content": content}
        return answer | ({"name": own["name"]} if string(own.get("name")) else {})
    role = string(own.get("role")) if kind == "chat" else ""
    chat: JsonObject = {"role": role or ROLES[kind], "content": content}
    if kind == "ai" and (calls := _list_calls(own)):
        chat |= {"content": _without_calls(content), "tool_calls": calls}
    return chat


def _lift_calls(message: JsonObject) -> JsonObject:
    """Return a message of a role whose tool calls are in LangChain's form, or in its `additional_kwargs`."""
    if any("function" not in call and "name" in call for call in objects(message.get("tool_calls"))):
        return {**message, "tool_calls": _list_calls(message)}
    calls = obj(message.get("additional_kwargs")).get("tool_calls")
    return {**message, "tool_calls": calls} if isinstance(calls, list) and not message.get("tool_calls") else message


def _list_calls(message: JsonObject) -> list[Json]:
    """The tool calls: as the model wrote them where that was kept, else with parsed arguments."""
    calls = objects(message.get("tool_calls"))
    written = objects(obj(message.get("additional_kwargs")).get("tool_calls"))
    if len(written) >= len(calls):
        return [*written]
    return [
        write_call(string(call.get("id")), string(call.get("name")), call.get("args", call.get("arguments")))
        for call in calls
    ]


def _without_calls(content: Json) -> Json:
    """The content without the blocks that hold the tool calls once more."""
    if not isinstance(content, list):
        return content
    return [
        block
        for block in content
        if string(obj(block).get("type")) not in _TOLD_TWICE and not carries_tools(obj(block))
    ]
