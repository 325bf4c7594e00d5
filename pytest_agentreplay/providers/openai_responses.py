"""OpenAI's Responses, read and written.

`messages` are the items of the input; an input that is one text is one message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_agentreplay.model.reading import ReplyReading, ToolUse
from pytest_agentreplay.providers import model_reply, openai_chat
from pytest_agentreplay.providers.dialect import Dialect, read_request
from pytest_agentreplay.providers.lenient import arr, obj, objects, openai_tokens, rest, string, unique

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pytest_agentreplay.compare.matching.address import Url
    from pytest_agentreplay.model.exchanges import JsonObject
    from pytest_agentreplay.model.reading import CallReading
    from pytest_agentreplay.providers.model_reply import ModelReply
    from pytest_agentreplay.providers.streams import ServerSentEvent

_ENDS = {"response.completed", "response.incomplete", "response.failed", "response.cancelled"}


def is_request(body: JsonObject) -> bool:
    """Whether a body has the shape of a Responses request; the input may stand in a stored prompt or conversation."""
    return isinstance(body.get("input"), str | list) or any(
        name in body for name in ("prompt", "previous_response_id", "conversation")
    )


def read_call(body: JsonObject, _url: Url) -> CallReading:
    """Read a request. Without `instructions` the texts of system and developer items stand for them."""
    instructions = body.get("instructions")
    return read_request(
        body,
        messages_in="input",
        parameters=rest(body, "model", "instructions", "input", "tools"),
        system=openai_chat.system_texts(body.get("input")) if instructions is None else (instructions,),
        system_at="$.instructions" if instructions is not None else "",
    )


def tool_use(item: JsonObject) -> ToolUse | None:
    """An output item as a tool call that the agent has to answer; None for texts and for what the server ran itself."""
    kind, call_id = string(item.get("type")), string(item.get("call_id"))
    if not call_id or not kind.endswith("_call"):
        return None
    arguments = next((item[name] for name in ("arguments", "input", "action", "operation") if name in item), None)
    return ToolUse(call_id, string(item.get("name")) or kind.removesuffix("_call"), arguments)


def read_reply(body: JsonObject) -> ReplyReading:
    """Read a whole response."""
    output = objects(body.get("output"))
    uses = tuple(use for item in output if (use := tool_use(item)))
    parts = [part for item in output for part in objects(item.get("content"))]
    incomplete = string(obj(body.get("incomplete_details")).get("reason"))
    return ReplyReading(
        text="".join(string(part.get("text")) or string(part.get("refusal")) for part in parts),
        tool_uses=uses,
        finish_reasons=unique([incomplete or string(body.get("status"))]),
        usage=openai_tokens(obj(body.get("usage")), "input_tokens", "output_tokens"),
        response_id=string(body.get("id")),
        model=string(body.get("model")),
        ids=unique(
            [string(body.get("id")), *(string(item.get(name)) for item in output for name in ("id", "call_id"))]
        ),
    )


def join(events: Iterable[ServerSentEvent]) -> JsonObject:
    """The response that a stream of events amounts to; the items that came stand in for a last event that did not."""
    response: JsonObject = {}
    items: dict[int, JsonObject] = {}
    for event in events:
        value = event.value or {}
        kind = string(value.get("type")) or event.name
        index = value.get("output_index")
        item = items.setdefault(index, {}) if isinstance(index, int) else {}
        match kind:
            case "error":
                response.setdefault("error", value)
            case "response.output_item.added" | "response.output_item.done":
                item.update(obj(value.get("item")))
            case "response.output_text.delta" | "response.refusal.delta":
                _add_text(item, value)
            case "response.function_call_arguments.delta":
                item["arguments"] = string(item.get("arguments")) + string(value.get("delta"))
            case "response.custom_tool_call_input.delta":
                item["input"] = string(item.get("input")) + string(value.get("delta"))
            case _ if kind in _ENDS or isinstance(value.get("response"), dict):
                response.update(obj(value.get("response")))
    if not response.get("output"):
        response["output"] = [items[index] for index in sorted(items)]
    return response


def _add_text(item: JsonObject, value: JsonObject) -> None:
    index = value.get("content_index")
    at = index if isinstance(index, int) and index >= 0 else 0
    parts = item.get("content")
    if not isinstance(parts, list):
        parts = item["content"] = []
    while len(parts) <= min(at, 64):
        parts.append({"text": ""})
    part = obj(parts[min(at, 64)])
    part["text"] = string(part.get("text")) + string(value.get("delta"))


DIALECTS = (Dialect("openai_responses", "/responses", "openai", is_request, read_call, join, read_reply),)


BASE = "https://api.openai.com"
PATH, STREAM_PATH = "/v1/responses", ""


def request_body(messages: Sequence[JsonObject], tools: Sequence[JsonObject]) -> JsonObject:
    """The body of a request, without its parameters."""
    system, others = model_reply.split_system(messages)
    body: JsonObject = {}
    if system:
        body["instructions"] = "\n".join(system)
    body["input"] = [item for m in others for item in _items(m)]
    if tools:
        body["tools"] = [{"type": "function", **model_reply.function_of(tool)} for tool in tools]
    return body


def _items(message: JsonObject) -> Iterator[JsonObject]:
    parts = objects(message.get("parts"))
    for part in parts:
        if part.get("type") == "tool_call_response":
            output = model_reply.text_of(model_reply.result_of(part))
            yield {"type": "function_call_output", "call_id": part.get("id"), "output": output}
    if text := model_reply.joined_texts(parts):
        yield {"role": string(message.get("role")), "content": text}
    for use in model_reply.make_reply(message, usage={}).uses:
        yield {"type": "function_call", "call_id": use.id, "name": use.name, "arguments": model_reply.arguments(use)}


def write_reply(reply: ModelReply) -> JsonObject:
    """Return a reply in one piece."""
    cut = reply.end in {"length", "filter"}
    reason = {"length": "max_output_tokens", "filter": "content_filter"}.get(reply.end)
    input_tokens, output_tokens = reply.tokens("input_tokens"), reply.tokens("output_tokens")
    return {
        "id": reply.id,
        "object": "response",
        "created_at": reply.created,
        "status": "incomplete" if cut else "completed",
        "error": None,
        "incomplete_details": {"reason": reason} if cut else None,
        "instructions": None,
        "metadata": {},
        "model": reply.model,
        "output": list(_output(reply)),
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


def _output(reply: ModelReply) -> Iterator[JsonObject]:
    if reply.text:
        content: JsonObject = {"type": "output_text", "text": reply.text, "annotations": [], "logprobs": []}
        message: JsonObject = {"type": "message", "id": f"msg_{reply.id}", "status": "completed", "role": "assistant"}
        yield {**message, "content": [content]}
    for use in reply.uses:
        call: JsonObject = {"type": "function_call", "id": f"fc_{use.id}", "call_id": use.id, "status": "completed"}
        yield {**call, "name": use.name, "arguments": model_reply.arguments(use)}


def write_stream(reply: ModelReply, _body: JsonObject) -> tuple[bytes, ...]:
    """Return a reply as the events of a stream, each text and each tool call in one delta."""
    numbered = ((name, {"type": name, "sequence_number": n, **data}) for n, (name, data) in enumerate(_events(reply)))
    return model_reply.server_sent(numbered)


def _events(reply: ModelReply) -> Iterator[tuple[str, dict[str, Any]]]:
    response = write_reply(reply)
    begun = {**response, "status": "in_progress", "output": [], "usage": None}
    yield "response.created", {"response": begun}
    yield "response.in_progress", {"response": begun}
    for index, item in enumerate(objects(response["output"])):
        is_text = item["type"] == "message"
        empty: JsonObject = {"content": []} if is_text else {"arguments": ""}
        yield "response.output_item.added", {"output_index": index, "item": {**item, **empty, "status": "in_progress"}}
        at = {"item_id": item["id"], "output_index": index}
        if is_text:
            yield from _text_events(reply, objects(arr(item["content"]))[0], {**at, "content_index": 0})
        else:
            for piece in reply.pieces(string(item["arguments"])):
                yield "response.function_call_arguments.delta", {**at, "delta": piece}
            call = {"name": item["name"], "arguments": item["arguments"]}
            yield "response.function_call_arguments.done", {**at, **call}
        yield "response.output_item.done", {"output_index": index, "item": item}
    yield f"response.{response['status']}", {"response": response}


def _text_events(reply: ModelReply, part: JsonObject, at: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    yield "response.content_part.added", {**at, "part": {**part, "text": ""}}
    for piece in reply.pieces(string(part["text"])):
        yield "response.output_text.delta", {**at, "delta": piece, "logprobs": []}
    yield "response.output_text.done", {**at, "text": part["text"], "logprobs": []}
    yield "response.content_part.done", {**at, "part": part}
