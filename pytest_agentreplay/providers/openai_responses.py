"""OpenAI's Responses, read and written.

`messages` are the items of the input; an input that is one text is one message.
The API: https://platform.openai.com/docs/api-reference/responses; its shapes: `openai/types/responses` of the SDK.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_agentreplay.providers.dialect import Dialect, Writer, make_reading, read_request
from pytest_agentreplay.providers.lenient import arr, as_text, first, obj, objects, openai_tokens, rest, string
from pytest_agentreplay.providers.messages import read_item
from pytest_agentreplay.providers.openai_chat import system_texts
from pytest_agentreplay.providers.streams import IndexedPieces, write_events

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pytest_agentreplay.compare.matching.address import Url
    from pytest_agentreplay.model.exchanges import JsonObject
    from pytest_agentreplay.model.reading import CallReading, ReplyReading
    from pytest_agentreplay.providers.model_reply import Conversation, ModelReply, Spoken
    from pytest_agentreplay.providers.streams import ServerSentEvent

_ENDS = {"response.completed", "response.incomplete", "response.failed", "response.cancelled"}
# Where the input may stand on the server instead of in the request.
_STORED = ("prompt", "previous_response_id", "conversation")
# Where a part has its text; speech has it as a transcript.
_TEXTS = ("text", "refusal", "transcript")
# The events that bring a piece of it. Realtime has names of its own,
# https://platform.openai.com/docs/api-reference/realtime-server-events.
_DELTAS = {
    *("response.output_text.delta", "response.refusal.delta", "response.text.delta"),
    *("response.audio_transcript.delta", "response.output_audio_transcript.delta"),
}
# Parts of one text that are kept: a hostile stream may name any index, and memory is not its to take.
_MOST_PARTS = 64


def is_request(body: JsonObject) -> bool:
    """Return whether a body has the shape of a Responses request."""
    return isinstance(body.get("input"), str | list) or bool(first(body, _STORED))


def read_call(body: JsonObject, _url: Url, *, path: str = "$") -> CallReading:
    """Read a request. Without `instructions` the texts of system and developer items stand for them.

    `path` is where `body` stands in what was sent.
    """
    instructions = body.get("instructions")
    return read_request(
        body,
        messages_in="input",
        path=path,
        parameters=rest(body, "model", "instructions", "input", "tools"),
        system=system_texts(body.get("input")) if instructions is None else (instructions,),
        system_at=f"{path}.instructions" if instructions is not None else "",
    )


def read_reply(body: JsonObject) -> ReplyReading:
    """Read a whole response."""
    output = objects(body.get("output"))
    parts = [part for item in output for part in objects(item.get("content"))]
    incomplete = string(obj(body.get("incomplete_details")).get("reason"))
    ids = (string(item.get(name)) for item in output for name in ("id", "call_id", "encrypted_content"))
    return make_reading(
        body,
        filter(None, map(read_item, output)),
        text="".join(string(part.get(first(part, _TEXTS))) for part in parts),
        finish=[incomplete or string(body.get("status"))],
        usage=openai_tokens(obj(body.get("usage")), "input_tokens", "output_tokens"),
        ids=[string(body.get("id")), *ids],
    )


def join(events: Iterable[ServerSentEvent]) -> JsonObject:
    """Return the response that a stream amounts to; the items that came stand in for a last event that did not."""
    response: JsonObject = {}
    items = IndexedPieces()
    for event in events:
        value = event.value or {}
        kind = string(value.get("type")) or event.name
        item = items.find_piece(value.get("output_index"))
        match kind:
            case "error":
                response.setdefault("error", value)
            case "response.output_item.added" | "response.output_item.done":
                item.update(obj(value.get("item")))
            case _ if kind in _DELTAS:
                _add_text(item, value)
            case "response.function_call_arguments.delta":
                item["arguments"] = string(item.get("arguments")) + string(value.get("delta"))
            case "response.custom_tool_call_input.delta":
                item["input"] = string(item.get("input")) + string(value.get("delta"))
            case _ if kind in _ENDS or isinstance(value.get("response"), dict):
                response.update(obj(value.get("response")))
    return response if response.get("output") else {**response, "output": items.list_pieces()}


def _add_text(item: JsonObject, value: JsonObject) -> None:
    index = value.get("content_index")
    at = min(index, _MOST_PARTS) if isinstance(index, int) and index >= 0 else 0
    parts = item.get("content")
    if not isinstance(parts, list):
        parts = item["content"] = []
    parts.extend({"text": ""} for _ in range(len(parts), at + 1))
    part = obj(parts[at])
    part["text"] = string(part.get("text")) + string(value.get("delta"))


def write_request(conversation: Conversation) -> JsonObject:
    """Return the body of a request, without its parameters."""
    body: JsonObject = {"instructions": "\n".join(conversation.system)} if conversation.system else {}
    body["input"] = [item for message in conversation.others for item in _write_items(message)]
    if conversation.tools:
        body["tools"] = [{"type": "function", **tool} for tool in conversation.tools]
    return body


def _write_items(message: Spoken) -> Iterator[JsonObject]:
    for result in message.results:
        yield {"type": "function_call_output", "call_id": result.id, "output": result.text}
    if message.text:
        yield {"role": message.role, "content": message.text}
    for use in message.uses:
        yield {"type": "function_call", "call_id": use.id, "name": use.name, "arguments": as_text(use.arguments)}


def write_reply(reply: ModelReply, _body: JsonObject) -> JsonObject:
    """Return a reply in one piece."""
    reason = {"length": "max_output_tokens", "filter": "content_filter"}.get(reply.end)
    input_tokens, output_tokens = reply.tokens("input_tokens"), reply.tokens("output_tokens")
    return {
        "id": reply.id,
        "object": "response",
        "created_at": reply.created,
        "status": "incomplete" if reason else "completed",
        "error": None,
        "incomplete_details": {"reason": reason} if reason else None,
        "instructions": None,
        "metadata": {},
        "model": reply.model,
        "output": list(_write_output(reply)),
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": {
            "input_tokens": input_tokens,
            "input_tokens_details": {"cached_tokens": reply.tokens("cache_read.input_tokens"), "cache_write_tokens": 0},
            "output_tokens": output_tokens,
            "output_tokens_details": {"reasoning_tokens": reply.tokens("reasoning.output_tokens")},
            "total_tokens": input_tokens + output_tokens,
        },
    }


def _write_output(reply: ModelReply) -> Iterator[JsonObject]:
    if reply.text:
        content: JsonObject = {"type": "output_text", "text": reply.text, "annotations": [], "logprobs": []}
        message: JsonObject = {"type": "message", "id": f"msg_{reply.id}", "status": "completed", "role": "assistant"}
        yield {**message, "content": [content]}
    for use in reply.uses:
        call: JsonObject = {"type": "function_call", "id": f"fc_{use.id}", "call_id": use.id, "status": "completed"}
        yield {**call, "name": use.name, "arguments": as_text(use.arguments)}


def write_stream(reply: ModelReply, body: JsonObject) -> tuple[bytes, ...]:
    """Return a reply as the events of a stream, each text and each tool call in one delta."""
    events = enumerate(_list_events(reply, body))
    return write_events((name, {"type": name, "sequence_number": number, **data}) for number, (name, data) in events)


def _list_events(reply: ModelReply, body: JsonObject) -> Iterator[tuple[str, dict[str, Any]]]:
    response = write_reply(reply, body)
    begun = {**response, "status": "in_progress", "output": [], "usage": None}
    yield "response.created", {"response": begun}
    yield "response.in_progress", {"response": begun}
    for index, item in enumerate(objects(response["output"])):
        is_text = item["type"] == "message"
        empty: JsonObject = {"content": []} if is_text else {"arguments": ""}
        yield "response.output_item.added", {"output_index": index, "item": {**item, **empty, "status": "in_progress"}}
        at = {"item_id": item["id"], "output_index": index}
        if is_text:
            yield from _list_text_events(reply, objects(arr(item["content"]))[0], {**at, "content_index": 0})
        else:
            for piece in reply.pieces(string(item["arguments"])):
                yield "response.function_call_arguments.delta", {**at, "delta": piece}
            call = {"name": item["name"], "arguments": item["arguments"]}
            yield "response.function_call_arguments.done", {**at, **call}
        yield "response.output_item.done", {"output_index": index, "item": item}
    yield f"response.{response['status']}", {"response": response}


def _list_text_events(reply: ModelReply, part: JsonObject, at: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    yield "response.content_part.added", {**at, "part": {**part, "text": ""}}
    for piece in reply.pieces(string(part["text"])):
        yield "response.output_text.delta", {**at, "delta": piece, "logprobs": []}
    yield "response.output_text.done", {**at, "text": part["text"], "logprobs": []}
    yield "response.content_part.done", {**at, "part": part}


_WRITER = Writer("https://api.openai.com", "/v1/responses", write_request, write_reply, write_stream)
DIALECTS = (Dialect("openai_responses", "/responses", "openai", is_request, read_call, read_reply, join, _WRITER),)
