"""Bedrock's Converse, read and written. The path names the model, and says whether the reply is streamed.

A stream is binary frames, each with two checksums (`streams`).
The API: https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html,
and .../API_runtime_ConverseStream.html.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import unquote

from pytest_agentreplay.providers.dialect import Dialect, Writer, make_reading, read_request
from pytest_agentreplay.providers.lenient import arr, dump_json, obj, objects, parse_text, rest, string, sum_tokens
from pytest_agentreplay.providers.messages import find_tool_uses
from pytest_agentreplay.providers.streams import IndexedPieces, grow, write_frame

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pytest_agentreplay.compare.matching.address import Url
    from pytest_agentreplay.model.exchanges import Json, JsonObject
    from pytest_agentreplay.model.reading import CallReading, ReplyReading, ToolUse
    from pytest_agentreplay.providers.model_reply import Conversation, ModelReply, ToolResult
    from pytest_agentreplay.providers.streams import ServerSentEvent

# A model id, or the ARN of a profile or prompt, which is quoted: it has slashes and colons in it.
_MODEL = re.compile(r"/model/([^/]+)/[\w-]+/?$")
_COUNTS = ("inputTokens", "outputTokens", "cacheReadInputTokens", "cacheWriteInputTokens")


def is_request(body: JsonObject) -> bool:
    """Return whether a body has the shape of a Converse request; the messages may stand in a stored prompt."""
    return isinstance(body.get("messages", []), list)


def read_call(body: JsonObject, url: Url) -> CallReading:
    """Read a request; `system` holds the blocks as sent."""
    config = obj(body.get("toolConfig"))
    # What stands beside the tools (`toolChoice`) is a parameter.
    choice = rest(config, "tools")
    return read_request(
        body,
        model=model_of(url),
        system_in="system",
        tools_in="",
        parameters={**rest(body, "messages", "system", "toolConfig"), **({"toolConfig": choice} if choice else {})},
        tools=tuple(arr(config.get("tools"))),
        tools_at="$.toolConfig.tools" if "tools" in config else "",
        stream=url.path.rstrip("/").endswith("-stream"),
    )


def model_of(url: Url) -> str:
    """Return the model, profile or prompt that a path names, "" if it names none."""
    match = _MODEL.search(url.path)
    return unquote(match[1]) if match else ""


def read_reply(body: JsonObject) -> ReplyReading:
    """Read a whole reply, which has no id; a prompt router says which model has answered."""
    message = obj(obj(body.get("output")).get("message"))
    return make_reading(
        body,
        find_tool_uses(message),
        text="".join(string(block.get("text")) for block in objects(message.get("content"))),
        finish=[string(body.get("stopReason"))],
        usage=sum_tokens(obj(body.get("usage")), *_COUNTS),
        response_id="",
        model=string(obj(obj(body.get("trace")).get("promptRouter")).get("invokedModelId")),
    )


def join(events: Iterable[ServerSentEvent]) -> JsonObject:
    """Return the reply that a stream of frames amounts to."""
    reply: JsonObject = {}
    blocks = IndexedPieces()
    for event in events:
        value = event.value or {}
        block = blocks.find_piece(value.get("contentBlockIndex"))
        match event.name:
            case "contentBlockStart":
                block.update({name: dict(obj(start)) for name, start in obj(value.get("start")).items()})
            case "contentBlockDelta":
                grow(block, obj(value.get("delta")))
            case "messageStop" | "metadata":
                reply.update(value)
            case name if name.endswith("xception"):
                # A stream that has begun reports errors by the type of a frame, "throttlingException".
                reply["error"] = {"type": name, "message": value.get("message")}
    content: list[Json] = [_parse_input(obj(block)) for block in blocks.list_pieces()]
    return {**reply, "output": {"message": {"role": "assistant", "content": content}}}


def _parse_input(block: JsonObject) -> JsonObject:
    """Return a block whose tool input came in pieces with that input parsed, or with its text as far as it came."""
    use = obj(block.get("toolUse"))
    return {**block, "toolUse": {**use, "input": parse_text(use["input"])}} if "input" in use else block


_ENDS = {"stop": "end_turn", "tools": "tool_use", "length": "max_tokens", "filter": "content_filtered"}


def write_request(conversation: Conversation) -> JsonObject:
    """Return the body of a request, without its parameters; the model and whether it streams stand in the path."""
    body: JsonObject = {"messages": conversation.write_messages(_FORM, "assistant", "content")}
    if conversation.system:
        body["system"] = [_write_text(text) for text in conversation.system]
    if conversation.tools:
        body["toolConfig"] = {"tools": [{"toolSpec": _write_tool(tool)} for tool in conversation.tools]}
    return body


def _write_tool(tool: JsonObject) -> JsonObject:
    return {**rest(tool, "parameters"), "inputSchema": {"json": tool["parameters"]}}


def _write_text(text: str) -> JsonObject:
    return {"text": text}


def _write_use(use: ToolUse) -> JsonObject:
    return {"toolUse": {"toolUseId": use.id, "name": use.name, "input": obj(use.arguments)}}


def _write_result(result: ToolResult) -> Json:
    content: JsonObject = {"json": result.value} if isinstance(result.value, dict) else {"text": result.text}
    block: JsonObject = {"toolUseId": result.id, "content": [content]}
    return {"toolResult": {**block, "status": "error"} if result.is_error else block}


_FORM = (_write_text, _write_use, _write_result)


def write_reply(reply: ModelReply, _body: JsonObject) -> JsonObject:
    """Return a reply in one piece."""
    content = reply.write_blocks(_FORM)
    read, written = reply.tokens("input_tokens"), reply.tokens("output_tokens")
    return {
        "output": {"message": {"role": "assistant", "content": content}},
        "stopReason": _ENDS[reply.end],
        "usage": {"inputTokens": read, "outputTokens": written, "totalTokens": read + written},
        "metrics": {"latencyMs": 0},
    }


def write_stream(reply: ModelReply, body: JsonObject) -> tuple[bytes, ...]:
    """Return a reply as frames, each block in one delta."""
    return tuple(write_frame(kind, payload) for kind, payload in _list_events(reply, body))


def _list_events(reply: ModelReply, body: JsonObject) -> Iterator[tuple[str, JsonObject]]:
    answer = write_reply(reply, body)
    yield "messageStart", {"role": "assistant"}
    for index, block in enumerate(objects(reply.write_blocks(_FORM))):
        at: JsonObject = {"contentBlockIndex": index}
        use = obj(block.get("toolUse"))
        if use:
            yield "contentBlockStart", {**at, "start": {"toolUse": rest(use, "input")}}
        for piece in reply.pieces(dump_json(use["input"]) if use else string(block["text"])):
            yield "contentBlockDelta", {**at, "delta": {"toolUse": {"input": piece}} if use else {"text": piece}}
        yield "contentBlockStop", at
    yield "messageStop", {"stopReason": answer["stopReason"]}
    yield "metadata", rest(answer, "output", "stopReason")


_PATH = "/model/[^/]+/converse(?:-stream)?"
_WRITER = Writer(
    "https://bedrock-runtime.us-east-1.amazonaws.com",
    "/model/{quoted}/converse",
    *(write_request, write_reply, write_stream),
    stream_path="/model/{quoted}/converse-stream",
    group="inferenceConfig",
    stream_type="application/vnd.amazon.eventstream",
)
DIALECTS = (Dialect("bedrock", _PATH, "aws.bedrock", is_request, read_call, read_reply, join, _WRITER),)
