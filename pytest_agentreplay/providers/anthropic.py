"""Anthropic's Messages, on its own host, on Bedrock (InvokeModel) and on Vertex (rawPredict); read and written."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.model.reading import ReplyReading, ToolUse
from pytest_agentreplay.providers import bedrock, gemini, model_reply
from pytest_agentreplay.providers.dialect import Dialect, read_request
from pytest_agentreplay.providers.lenient import grow, obj, objects, parse_text, rest, string, sum_tokens, unique

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pytest_agentreplay.compare.matching.address import Url
    from pytest_agentreplay.model.exchanges import JsonObject
    from pytest_agentreplay.model.reading import CallReading
    from pytest_agentreplay.providers.model_reply import ModelReply
    from pytest_agentreplay.providers.streams import ServerSentEvent

_STREAMED = re.compile(r"-stream/?$|:stream\w+$")
_INPUT = "partial_json"
_COUNTS = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")


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
    """Read a whole message. Tools that the server runs itself are not among the tool uses."""
    blocks = objects(body.get("content"))
    return ReplyReading(
        text="".join(string(block.get("text")) for block in blocks if block.get("type") == "text"),
        tool_uses=tuple(tool_use(block) for block in blocks if block.get("type") == "tool_use"),
        finish_reasons=unique([string(body.get("stop_reason"))]),
        usage=sum_tokens(obj(body.get("usage")), *_COUNTS),
        response_id=string(body.get("id")),
        model=string(body.get("model")),
        ids=unique([string(body.get("id")), *(string(block.get("id")) for block in blocks)]),
    )


def tool_use(block: JsonObject) -> ToolUse:
    """A block of the type "tool_use"."""
    return ToolUse(string(block.get("id")), string(block.get("name")), block.get("input"))


def join(events: Iterable[ServerSentEvent]) -> JsonObject:
    """The message that a stream of events amounts to."""
    message: JsonObject = {}
    blocks: dict[int, JsonObject] = {}
    for event in events:
        value = event.value or {}
        index = value.get("index")
        block = blocks.setdefault(index, {}) if isinstance(index, int) else {}
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
                message["error"] = {"type": name, "message": value.get("message")}
    return {**message, "content": [_parse_input(blocks[index]) for index in sorted(blocks)]}


def _parse_input(block: JsonObject) -> JsonObject:
    """Return a block whose input came in pieces with that input parsed, or with its text as far as it came."""
    if not block.get(_INPUT):
        return block
    return {**rest(block, _INPUT), "input": parse_text(block[_INPUT])}


_PATH = r"/v1/messages|/model/[^/]+/invoke(?:-with-response-stream)?|:(?:rawPredict|streamRawPredict)"
DIALECTS = (Dialect("anthropic", _PATH, "anthropic", is_request, read_call, join, read_reply),)


BASE = "https://api.anthropic.com"
PATH, STREAM_PATH = "/v1/messages", ""
MOST = 1024
"""Tokens asked for where a trace does not say how many: the API wants a number."""
_ENDS = {"stop": "end_turn", "tools": "tool_use", "length": "max_tokens", "filter": "refusal"}


def request_body(messages: Sequence[JsonObject], tools: Sequence[JsonObject]) -> JsonObject:
    """The body of a request, without its parameters."""
    system, others = model_reply.split_system(messages)
    body: JsonObject = {"max_tokens": MOST}
    if system:
        body["system"] = "\n".join(system)
    body["messages"] = [_message(m) for m in others]
    if tools:
        body["tools"] = [
            {
                "name": t.get("name"),
                "description": string(t.get("description")),
                "input_schema": model_reply.schema_of(t),
            }
            for t in tools
        ]
    return body


def _message(message: JsonObject) -> JsonObject:
    blocks = model_reply.blocks_of(message, _result, _text, _use)
    return {"role": "assistant" if message.get("role") == "assistant" else "user", "content": blocks}


def _result(part: JsonObject) -> JsonObject:
    block = {
        "type": "tool_result",
        "tool_use_id": part.get("id"),
        "content": model_reply.text_of(model_reply.result_of(part)),
    }
    return {**block, "is_error": True} if part.get("is_error") is True else block


def _text(text: str) -> JsonObject:
    return {"type": "text", "text": text}


def _use(use: ToolUse) -> JsonObject:
    return {"type": "tool_use", "id": use.id, "name": use.name, "input": model_reply.get_arguments(use)}


def write_reply(reply: ModelReply) -> JsonObject:
    """Return a reply in one piece."""
    return {
        "id": reply.id,
        "type": "message",
        "role": "assistant",
        "model": reply.model,
        "content": [*([_text(reply.text)] if reply.text else []), *map(_use, reply.uses)],
        "stop_reason": _ENDS[reply.end],
        "stop_sequence": None,
        "usage": {"input_tokens": reply.tokens("input_tokens"), "output_tokens": reply.tokens("output_tokens")},
    }


def write_stream(reply: ModelReply, _body: JsonObject) -> tuple[bytes, ...]:
    """Return a reply as the events of a stream, each block in one delta."""
    return model_reply.server_sent((event["type"], event) for event in events(reply))


def events(reply: ModelReply) -> Iterator[dict[str, Any]]:
    """The events of a reply."""
    message = write_reply(reply)
    begun = {**message, "content": [], "stop_reason": None}
    yield {"type": "message_start", "message": begun}
    for index, block in enumerate(objects(message["content"])):
        at = {"index": index}
        is_text = block["type"] == "text"
        empty: JsonObject = {"text": ""} if is_text else {"input": {}}
        yield {"type": "content_block_start", **at, "content_block": {**block, **empty}}
        kind, field = ("text_delta", "text") if is_text else ("input_json_delta", "partial_json")
        for piece in reply.pieces(string(block["text"]) if is_text else model_reply.dump_json(block["input"])):
            yield {"type": "content_block_delta", **at, "delta": {"type": kind, field: piece}}
        yield {"type": "content_block_stop", **at}
    ended = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": ended, "usage": {"output_tokens": reply.tokens("output_tokens")}}
    yield {"type": "message_stop"}
