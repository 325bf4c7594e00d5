"""Anthropic's Messages, on its own host, on Bedrock (InvokeModel) and on Vertex (rawPredict)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pytest_agentreplay.model.reading import ReplyReading, ToolUse
from pytest_agentreplay.providers import bedrock, gemini
from pytest_agentreplay.providers.dialect import Dialect, read_request
from pytest_agentreplay.providers.lenient import grow, obj, objects, parse_text, rest, string, unique

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_agentreplay.compare.matching.address import Url
    from pytest_agentreplay.model.exchanges import JsonObject
    from pytest_agentreplay.model.reading import CallReading
    from pytest_agentreplay.providers.streams import ServerSentEvent

_STREAMED = re.compile(r"-stream/?$|:stream\w+$")
_INPUT = "partial_json"
_COUNTS = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")


def fits(body: JsonObject) -> bool:
    """Whether a body has the shape of a Messages request."""
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
        usage=bedrock.usage_of(obj(body.get("usage")), *_COUNTS),
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
    return {**message, "content": [_closed(blocks[index]) for index in sorted(blocks)]}


def _closed(block: JsonObject) -> JsonObject:
    """A block whose input came in pieces: parsed, or the text as far as it came."""
    if not block.get(_INPUT):
        return block
    return {**rest(block, _INPUT), "input": parse_text(block[_INPUT])}


_PATH = r"/v1/messages|/model/[^/]+/invoke(?:-with-response-stream)?|:(?:rawPredict|streamRawPredict)"
ANTHROPIC = Dialect("anthropic", _PATH, "anthropic", fits, read_call, join, read_reply)
