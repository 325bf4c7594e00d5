"""OpenAI's chat completions, which many servers speak.

Instructions are messages here: `system` holds the texts of the system and developer messages, `system_at` is "".
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pytest_agentreplay.model.reading import ReplyReading, ToolUse
from pytest_agentreplay.providers.dialect import Dialect, read_request
from pytest_agentreplay.providers.lenient import arr, grow, obj, objects, openai_tokens, rest, string, unique

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_agentreplay.compare.matching.address import Url
    from pytest_agentreplay.model.exchanges import Json, JsonObject
    from pytest_agentreplay.model.reading import CallReading
    from pytest_agentreplay.providers.streams import ServerSentEvent

_DEPLOYMENT = re.compile(r"/deployments/([^/]+)/")


def is_request(body: JsonObject) -> bool:
    """Return whether a body has the shape of a chat completion request."""
    return isinstance(body.get("messages"), list)


def read_call(body: JsonObject, url: Url) -> CallReading:
    """Read a request; Azure's deployment or Mistral's agent stands for a model that the body does not name."""
    model = string(body.get("model")) or deployment_of(url) or string(body.get("agent_id"))
    return read_request(body, model=model, system=system_texts(body["messages"]))


def system_texts(messages: Json) -> tuple[Json, ...]:
    """What the messages of the system and of the developer say."""
    return tuple(m.get("content") for m in objects(messages) if string(m.get("role")) in {"system", "developer"})


def deployment_of(url: Url) -> str:
    """The deployment that a path of Azure's names."""
    match = _DEPLOYMENT.search(url.path)
    return match[1] if match else ""


def tool_use(call: JsonObject) -> ToolUse:
    """One of a message's `tool_calls`, function or custom."""
    function, custom = obj(call.get("function")), obj(call.get("custom"))
    return ToolUse(
        id=string(call.get("id")),
        name=string(function.get("name")) or string(custom.get("name")),
        arguments=function.get("arguments") if function else custom.get("input"),
    )


def read_reply(body: JsonObject) -> ReplyReading:
    """Read a whole completion."""
    choices = objects(body.get("choices"))
    messages = [obj(choice.get("message")) for choice in choices]
    uses = tuple(tool_use(call) for message in messages for call in objects(message.get("tool_calls")))
    uses += tuple(
        ToolUse("", string(old.get("name")), old.get("arguments"))
        for message in messages
        if (old := obj(message.get("function_call")))
    )
    return ReplyReading(
        text="\n".join(filter(None, (_read_text(message) for message in messages))),
        tool_uses=uses,
        finish_reasons=unique(string(choice.get("finish_reason")) for choice in choices),
        usage=openai_tokens(obj(body.get("usage")), "prompt_tokens", "completion_tokens"),
        response_id=string(body.get("id")),
        model=string(body.get("model")),
        fingerprint=string(body.get("system_fingerprint")),
        ids=unique([string(body.get("id")), *(use.id for use in uses)]),
    )


def join(events: Iterable[ServerSentEvent]) -> JsonObject:
    """The completion that a stream of chunks amounts to."""
    completion: JsonObject = {}
    choices: dict[int, JsonObject] = {}
    for event in events:
        chunk = event.value or {}
        completion.update({name: value for name, value in chunk.items() if name != "choices" and value is not None})
        for choice in objects(chunk.get("choices")):
            index = choice.get("index")
            kept = choices.setdefault(index if isinstance(index, int) else 0, {"message": {}})
            if choice.get("finish_reason"):
                kept["finish_reason"] = choice["finish_reason"]
            _add(obj(kept["message"]), obj(choice.get("delta")))
    return {**completion, "choices": [choices[index] for index in sorted(choices)]}


def _add(message: JsonObject, delta: JsonObject) -> None:
    """Grow `message` by one delta: texts are joined, tool calls by their index, everything else is set."""
    for name, value in delta.items():
        if name == "tool_calls":
            calls = message.setdefault("tool_calls", [])
            for piece in objects(value):
                _add_call(arr(calls), piece)
        elif isinstance(value, str) and isinstance(message.get(name), list):
            arr(message[name]).append({"type": "text", "text": value})
        elif isinstance(value, list):
            # Models of Mistral that think stream the parts of their content.
            message[name] = [*_parts(message.get(name)), *value]
        else:
            grow(message, {name: value})


def _parts(value: Json) -> list[Json]:
    """A content as its parts."""
    return [{"type": "text", "text": value}] if isinstance(value, str) and value else arr(value)


def _add_call(calls: list[Json], piece: JsonObject) -> None:
    """Add a piece to its call. Servers that give no index begin a new call with each new id."""
    index, new_id = piece.get("index"), string(piece.get("id"))
    earlier = [obj(call) for call in calls]
    if isinstance(index, int):
        target = next((call for call in earlier if call.get("index") == index), None)
    else:
        target = earlier[-1] if earlier and new_id in {"", earlier[-1].get("id")} else None
    if target is None:
        target = {"index": index, "id": new_id}
        calls.append(target)
    grow(target, rest(piece, "index", "type"))


def _read_text(message: JsonObject) -> str:
    parts = message.get("content")
    text = string(parts) or "".join(string(part.get("text")) for part in objects(parts))
    return text or string(message.get("refusal"))


DIALECTS: tuple[Dialect, ...] = (
    Dialect("openai_chat", "/(?:chat|agents)/completions", "openai", is_request, read_call, join, read_reply),
)
