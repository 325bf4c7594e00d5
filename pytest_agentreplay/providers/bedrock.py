"""Bedrock's Converse. The model stands in the path, and so does whether the reply is streamed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import unquote

from pytest_agentreplay.model.reading import ReplyReading, ToolUse
from pytest_agentreplay.providers.dialect import Dialect, read_request
from pytest_agentreplay.providers.lenient import (
    arr,
    counts,
    grow,
    obj,
    objects,
    parse_text,
    rest,
    string,
    token_counts,
    unique,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_agentreplay.compare.matching.address import Url
    from pytest_agentreplay.model.exchanges import Json, JsonObject
    from pytest_agentreplay.model.reading import CallReading
    from pytest_agentreplay.providers.streams import ServerSentEvent

_MODEL = re.compile(r"/model/([^/]+)/[\w-]+/?$")
_COUNTS = ("inputTokens", "outputTokens", "cacheReadInputTokens", "cacheWriteInputTokens")


def fits(body: JsonObject) -> bool:
    """Whether a body has the shape of a Converse request; the messages may stand in a stored prompt."""
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
    found = _MODEL.search(url.path)
    return unquote(found[1]) if found else ""


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
        usage=usage_of(obj(body.get("usage")), *_COUNTS),
        model=string(obj(obj(body.get("trace")).get("promptRouter")).get("invokedModelId")),
        ids=unique(use.id for use in uses),
    )


def join(events: Iterable[ServerSentEvent]) -> JsonObject:
    """The reply that a stream of frames amounts to."""
    whole: JsonObject = {}
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
                whole.update(value)
            case name if name.endswith("xception"):
                whole["error"] = {"type": name, "message": value.get("message")}
    content: list[Json] = [_closed(blocks[index]) for index in sorted(blocks)]
    return {**whole, "output": {"message": {"role": "assistant", "content": content}}}


def _closed(block: JsonObject) -> JsonObject:
    """A block whose tool input came in pieces: parsed, or the text as far as it came."""
    use = obj(block.get("toolUse"))
    return {**block, "toolUse": {**use, "input": parse_text(use["input"])}} if "input" in use else block


def usage_of(usage: JsonObject, read: str, written: str, cache_read: str, cache_written: str) -> dict[str, int]:
    """Cached tokens count as input tokens, as the conventions ask; Bedrock and Anthropic list them apart."""
    given = counts((name, usage.get(name)) for name in (read, cache_read, cache_written))
    return token_counts(
        sum(given.values()) if given else None,
        usage.get(written),
        cache_read=usage.get(cache_read),
        cache_written=usage.get(cache_written),
    )


BEDROCK = Dialect("bedrock", r"/model/[^/]+/converse(?:-stream)?", "aws.bedrock", fits, read_call, join, read_reply)
