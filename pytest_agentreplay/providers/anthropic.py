"""Anthropic's Messages, on its own host, on Bedrock (InvokeModel) and on Vertex (rawPredict); read and written.

The API: https://docs.anthropic.com/en/api/messages; its streams: .../en/docs/build-with-claude/streaming.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pytest_agentreplay.providers import bedrock, gemini
from pytest_agentreplay.providers.dialect import Dialect, Writer, make_reading, read_request
from pytest_agentreplay.providers.lenient import dump_json, obj, objects, parse_text, rest, string, sum_tokens
from pytest_agentreplay.providers.messages import find_tool_uses
from pytest_agentreplay.providers.streams import IndexedPieces, grow, write_events

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pytest_agentreplay.compare.matching.address import Url
    from pytest_agentreplay.model.exchanges import Json, JsonObject
    from pytest_agentreplay.model.reading import CallReading, ReplyReading, ToolUse
    from pytest_agentreplay.providers.model_reply import Conversation, ModelReply, ToolResult
    from pytest_agentreplay.providers.streams import ServerSentEvent

_STREAMED = re.compile(r"-stream/?$|:stream\w+$")
_COUNTS = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
_SIGNED = ("signature", "data")
"""What a block of thoughts is signed with, and one that is encrypted: new in each reply, and sent back as they came."""


def is_request(body: JsonObject) -> bool:
    """Return whether a body has the shape of a Messages request."""
    return isinstance(body.get("messages"), list) and "max_tokens" in body


def read_call(body: JsonObject, url: Url) -> CallReading:
    """Read a request; `system` is one text or the blocks as sent. Elsewhere the path names model and stream."""
    amazon, google = bedrock.model_of(url), gemini.model_of(url)
    return read_request(
        body,
        model=string(body.get("model")) or amazon or google,
        system_in="system",
        provider="aws.bedrock" if amazon else gemini.provider_of(url),
        stream=body.get("stream") is True or _STREAMED.search(url.path) is not None,
    )


def read_reply(body: JsonObject) -> ReplyReading:
    """Read a whole message. Tools that the server runs itself are not among the tool uses, though their ids count."""
    blocks = objects(body.get("content"))
    return make_reading(
        body,
        find_tool_uses(body),
        text="".join(string(block.get("text")) for block in blocks if block.get("type") == "text"),
        finish=[string(body.get("stop_reason"))],
        usage=sum_tokens(obj(body.get("usage")), *_COUNTS),
        ids=[string(body.get("id")), *(string(block.get(name)) for block in blocks for name in ("id", *_SIGNED))],
    )


def join(events: Iterable[ServerSentEvent]) -> JsonObject:
    """Return the message that a stream of events amounts to."""
    message: JsonObject = {}
    blocks = IndexedPieces()
    for event in events:
        value = event.value or {}
        block = blocks.find_piece(value.get("index"))
        match string(value.get("type")) or event.name:
            case "message_start":
                message.update(obj(value.get("message")))
            case "content_block_start":
                block.update(obj(value.get("content_block")))
            case "content_block_delta":
                grow(block, rest(obj(value.get("delta")), "type", "citation"))
            case "message_delta":
                message.update(obj(value.get("delta")))
                message["usage"] = obj(message.get("usage")) | obj(value.get("usage"))
            case "error":
                message["error"] = value.get("error")
            case name if name.endswith("xception"):
                # Bedrock's frames name what went wrong by their type, "throttlingException".
                message["error"] = {"type": name, "message": value.get("message")}
    return {**message, "content": [_parse_input(obj(block)) for block in blocks.list_pieces()]}


def _parse_input(block: JsonObject) -> JsonObject:
    """Return a block whose input came in pieces with that input parsed, or with its text as far as it came."""
    pieces = block.get("partial_json")
    return {**rest(block, "partial_json"), "input": parse_text(pieces)} if pieces else block


# Tokens asked for if a trace does not say how many: the API wants a number.
MOST = 1024
_ENDS = {"stop": "end_turn", "tools": "tool_use", "length": "max_tokens", "filter": "refusal"}


def write_request(conversation: Conversation) -> JsonObject:
    """Return the body of a request, without its parameters."""
    body: JsonObject = {"max_tokens": MOST}
    if conversation.system:
        body["system"] = "\n".join(conversation.system)
    body["messages"] = conversation.write_messages(_FORM, "assistant", "content")
    if conversation.tools:
        body["tools"] = [
            {**rest(tool, "parameters"), "input_schema": tool["parameters"]} for tool in conversation.tools
        ]
    return body


def _write_text(text: str) -> JsonObject:
    return {"type": "text", "text": text}


def _write_use(use: ToolUse) -> JsonObject:
    return {"type": "tool_use", "id": use.id, "name": use.name, "input": obj(use.arguments)}


def _write_result(result: ToolResult) -> Json:
    block: JsonObject = {"type": "tool_result", "tool_use_id": result.id, "content": result.text}
    return {**block, "is_error": True} if result.is_error else block


_FORM = (_write_text, _write_use, _write_result)


def write_reply(reply: ModelReply, _body: JsonObject) -> JsonObject:
    """Return a reply in one piece."""
    return {
        "id": reply.id,
        "type": "message",
        "role": "assistant",
        "model": reply.model,
        "content": reply.write_blocks(_FORM),
        "stop_reason": _ENDS[reply.end],
        "stop_sequence": None,
        "usage": {"input_tokens": reply.tokens("input_tokens"), "output_tokens": reply.tokens("output_tokens")},
    }


def write_stream(reply: ModelReply, body: JsonObject) -> tuple[bytes, ...]:
    """Return a reply as the events of a stream, each block in one delta."""
    return write_events((string(event["type"]), event) for event in list_events(reply, body))


def list_events(reply: ModelReply, body: JsonObject) -> Iterator[JsonObject]:
    """Yield the events of a reply; Bedrock sends the same in frames."""
    message = write_reply(reply, body)
    yield {"type": "message_start", "message": {**message, "content": [], "stop_reason": None}}
    for index, block in enumerate(objects(message["content"])):
        is_text = block["type"] == "text"
        empty: JsonObject = {"text": ""} if is_text else {"input": {}}
        yield {"type": "content_block_start", "index": index, "content_block": {**block, **empty}}
        kind, field = ("text_delta", "text") if is_text else ("input_json_delta", "partial_json")
        for piece in reply.pieces(string(block["text"]) if is_text else dump_json(block["input"])):
            yield {"type": "content_block_delta", "index": index, "delta": {"type": kind, field: piece}}
        yield {"type": "content_block_stop", "index": index}
    ended: JsonObject = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": ended, "usage": {"output_tokens": reply.tokens("output_tokens")}}
    yield {"type": "message_stop"}


_PATH = r"/v1/messages|/model/[^/]+/invoke(?:-with-response-stream)?|:(?:rawPredict|streamRawPredict)"
_WRITER = Writer("https://api.anthropic.com", "/v1/messages", write_request, write_reply, write_stream)
DIALECTS = (Dialect("anthropic", _PATH, "anthropic", is_request, read_call, read_reply, join, _WRITER),)
