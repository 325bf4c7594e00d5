"""OpenAI's Responses. `messages` are the items of the input; an input that is one text is one message."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_agentreplay.model.reading import ReplyReading, ToolUse
from pytest_agentreplay.providers import openai_chat
from pytest_agentreplay.providers.dialect import Dialect, read_request
from pytest_agentreplay.providers.lenient import obj, objects, openai_tokens, rest, string, unique

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_agentreplay.compare.matching.address import Url
    from pytest_agentreplay.model.exchanges import JsonObject
    from pytest_agentreplay.model.reading import CallReading
    from pytest_agentreplay.providers.streams import ServerSentEvent

_ENDS = {"response.completed", "response.incomplete", "response.failed", "response.cancelled"}


def fits(body: JsonObject) -> bool:
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


OPENAI_RESPONSES = Dialect("openai_responses", "/responses", "openai", fits, read_call, join, read_reply)
