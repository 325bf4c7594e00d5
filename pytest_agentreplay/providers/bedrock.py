"""Bedrock's Converse, read and written. The path names the model, and says whether the reply is streamed.

A stream is binary frames, each with two checksums.
"""

from __future__ import annotations

import re
import struct
import zlib
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from pytest_agentreplay.model.reading import ReplyReading, ToolUse
from pytest_agentreplay.providers import model_reply
from pytest_agentreplay.providers.dialect import Dialect, read_request
from pytest_agentreplay.providers.lenient import arr, grow, obj, objects, parse_text, rest, string, sum_tokens, unique

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pytest_agentreplay.compare.matching.address import Url
    from pytest_agentreplay.model.exchanges import Json, JsonObject
    from pytest_agentreplay.model.reading import CallReading
    from pytest_agentreplay.providers.model_reply import ModelReply
    from pytest_agentreplay.providers.streams import ServerSentEvent

_MODEL = re.compile(r"/model/([^/]+)/[\w-]+/?$")
_COUNTS = ("inputTokens", "outputTokens", "cacheReadInputTokens", "cacheWriteInputTokens")


def is_request(body: JsonObject) -> bool:
    """Return whether a body has the shape of a Converse request; the messages may stand in a stored prompt."""
    return isinstance(body.get("messages", []), list)


def read_call(body: JsonObject, url: Url) -> CallReading:
    """Read a request; `system` holds the blocks as sent."""
    model, config = model_of(url), obj(body.get("toolConfig"))
    choice = {"toolConfig": rest(config, "tools")} if rest(config, "tools") else {}
    return read_request(
        body,
        model=model,
        system_in="system",
        tools_in="",
        parameters={**rest(body, "messages", "system", "toolConfig"), **choice},
        tools=tuple(arr(config.get("tools"))),
        tools_at="$.toolConfig.tools" if "tools" in config else "",
        stream=url.path.rstrip("/").endswith("-stream"),
    )


def model_of(url: Url) -> str:
    """The model, profile or prompt that a path names."""
    match = _MODEL.search(url.path)
    return unquote(match[1]) if match else ""


def tool_use(block: JsonObject) -> ToolUse | None:
    """A block as a tool call; None for any other."""
    use = block.get("toolUse")
    if not isinstance(use, dict):
        return None
    return ToolUse(string(use.get("toolUseId")), string(use.get("name")), use.get("input"))


def read_reply(body: JsonObject) -> ReplyReading:
    """Read a whole reply."""
    blocks = objects(obj(obj(body.get("output")).get("message")).get("content"))
    uses = tuple(use for block in blocks if (use := tool_use(block)))
    return ReplyReading(
        text="".join(string(block.get("text")) for block in blocks),
        tool_uses=uses,
        finish_reasons=unique([string(body.get("stopReason"))]),
        usage=sum_tokens(obj(body.get("usage")), *_COUNTS),
        model=string(obj(obj(body.get("trace")).get("promptRouter")).get("invokedModelId")),
        ids=unique(use.id for use in uses),
    )


def join(events: Iterable[ServerSentEvent]) -> JsonObject:
    """The reply that a stream of frames amounts to."""
    reply: JsonObject = {}
    blocks: dict[int, JsonObject] = {}
    for event in events:
        value = event.value or {}
        index = value.get("contentBlockIndex")
        block = blocks.setdefault(index, {}) if isinstance(index, int) else {}
        match event.name:
            case "contentBlockStart":
                block.update({name: dict(obj(start)) for name, start in obj(value.get("start")).items()})
            case "contentBlockDelta":
                grow(block, obj(value.get("delta")))
            case "messageStop" | "metadata":
                reply.update(value)
            case name if name.endswith("xception"):
                reply["error"] = {"type": name, "message": value.get("message")}
    content: list[Json] = [_parse_input(blocks[index]) for index in sorted(blocks)]
    return {**reply, "output": {"message": {"role": "assistant", "content": content}}}


def _parse_input(block: JsonObject) -> JsonObject:
    """Return a block whose tool input came in pieces with that input parsed, or with its text as far as it came."""
    use = obj(block.get("toolUse"))
    return {**block, "toolUse": {**use, "input": parse_text(use["input"])}} if "input" in use else block


DIALECTS = (
    Dialect("bedrock", r"/model/[^/]+/converse(?:-stream)?", "aws.bedrock", is_request, read_call, join, read_reply),
)


BASE = "https://bedrock-runtime.us-east-1.amazonaws.com"
PATH, STREAM_PATH = "/model/{quoted}/converse", "/model/{quoted}/converse-stream"
_STRING = 7
_ENDS = {"stop": "end_turn", "tools": "tool_use", "length": "max_tokens", "filter": "content_filtered"}


def request_body(messages: Sequence[JsonObject], tools: Sequence[JsonObject]) -> JsonObject:
    """The body of a request, without its parameters; the model and whether it streams stand in the path."""
    system, others = model_reply.split_system(messages)
    body: JsonObject = {"messages": [_message(m) for m in others]}
    if system:
        body["system"] = [{"text": text} for text in system]
    if tools:
        body["toolConfig"] = {"tools": [{"toolSpec": _spec(tool)} for tool in tools]}
    return body


def _spec(tool: JsonObject) -> JsonObject:
    about = {"name": tool.get("name"), "description": string(tool.get("description"))}
    return {**about, "inputSchema": {"json": model_reply.schema_of(tool)}}


def _message(message: JsonObject) -> JsonObject:
    role = "assistant" if message.get("role") == "assistant" else "user"
    return {"role": role, "content": model_reply.blocks_of(message, _result, _text, _use)}


def _result(part: JsonObject) -> JsonObject:
    value = model_reply.result_of(part)
    content: JsonObject = {"json": value} if isinstance(value, dict) else {"text": model_reply.text_of(value)}
    result: JsonObject = {"toolUseId": part.get("id"), "content": [content]}
    return {"toolResult": {**result, "status": "error"} if part.get("is_error") is True else result}


def _text(text: str) -> JsonObject:
    return {"text": text}


def _use(use: ToolUse) -> JsonObject:
    return {"toolUse": {"toolUseId": use.id, "name": use.name, "input": model_reply.get_arguments(use)}}


def write_reply(reply: ModelReply) -> JsonObject:
    """Return a reply in one piece."""
    content: list[Json] = [*([_text(reply.text)] if reply.text else []), *map(_use, reply.uses)]
    input_tokens, output_tokens = reply.tokens("input_tokens"), reply.tokens("output_tokens")
    return {
        "output": {"message": {"role": "assistant", "content": content}},
        "stopReason": _ENDS[reply.end],
        "usage": {
            "inputTokens": input_tokens,
            "outputTokens": output_tokens,
            "totalTokens": input_tokens + output_tokens,
        },
        "metrics": {"latencyMs": 0},
    }


def write_stream(reply: ModelReply, _body: JsonObject) -> tuple[bytes, ...]:
    """Return a reply as frames, each block in one delta."""
    return tuple(frame(kind, payload) for kind, payload in _events(reply))


def _events(reply: ModelReply) -> Iterator[tuple[str, JsonObject]]:
    body = write_reply(reply)
    yield "messageStart", {"role": "assistant"}
    for index, block in enumerate(objects(obj(obj(body["output"])["message"])["content"])):
        at: JsonObject = {"contentBlockIndex": index}
        use = obj(block.get("toolUse"))
        if use:
            started: JsonObject = {"toolUse": {"toolUseId": use["toolUseId"], "name": use["name"]}}
            yield "contentBlockStart", {**at, "start": started}
        for piece in reply.pieces(model_reply.dump_json(use["input"]) if use else string(block["text"])):
            yield "contentBlockDelta", {**at, "delta": {"toolUse": {"input": piece}} if use else {"text": piece}}
        yield "contentBlockStop", at
    yield "messageStop", {"stopReason": body["stopReason"]}
    yield "metadata", {"usage": body["usage"], "metrics": body["metrics"]}


def frame(kind: str, payload: dict[str, Any]) -> bytes:
    """One frame of application/vnd.amazon.eventstream."""
    fields = {":event-type": kind, ":content-type": "application/json", ":message-type": "event"}
    headers = b"".join(
        struct.pack(">B", len(name)) + name.encode() + struct.pack(">BH", _STRING, len(value)) + value.encode()
        for name, value in fields.items()
    )
    body = model_reply.dump_json(payload).encode()
    sizes = struct.pack(">II", 16 + len(headers) + len(body), len(headers))
    start = sizes + struct.pack(">I", zlib.crc32(sizes)) + headers + body
    return start + struct.pack(">I", zlib.crc32(start))
