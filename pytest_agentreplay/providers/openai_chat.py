"""OpenAI's chat completions, which many servers speak; read and written.

Instructions are messages here: `system` holds the texts of the system and developer messages, `system_at` is "".
The API: https://platform.openai.com/docs/api-reference/chat; its shapes: `openai/types/chat` of the Python SDK.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.model.reading import ToolUse
from pytest_agentreplay.providers.dialect import Dialect, Writer, make_reading, read_request
from pytest_agentreplay.providers.lenient import arr, as_text, first, obj, objects, openai_tokens, rest, string
from pytest_agentreplay.providers.streams import IndexedPieces, grow, write_events

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pytest_agentreplay.compare.matching.address import Url
    from pytest_agentreplay.model.exchanges import Json, JsonObject
    from pytest_agentreplay.model.reading import CallReading, ReplyReading
    from pytest_agentreplay.providers.model_reply import Conversation, ModelReply, Spoken
    from pytest_agentreplay.providers.streams import ServerSentEvent

# https://learn.microsoft.com/azure/ai-foundry/openai/reference: the deployment stands for the model.
_DEPLOYMENT = re.compile(r"/deployments/([^/]+)/")


def is_request(body: JsonObject) -> bool:
    """Return whether a body has the shape of a chat completion request."""
    return isinstance(body.get("messages"), list)


def read_call(body: JsonObject, url: Url) -> CallReading:
    """Read a request; Azure's deployment or Mistral's agent stands for a model that the body does not name."""
    model = string(body.get("model")) or deployment_of(url) or string(body.get("agent_id"))
    return read_request(body, model=model, system=system_texts(body.get("messages")))


def system_texts(messages: Json) -> tuple[Json, ...]:
    """Return what the messages of the system and of the developer say."""
    return tuple(m.get("content") for m in objects(messages) if string(m.get("role")) in {"system", "developer"})


def deployment_of(url: Url) -> str:
    """Return the deployment that a path of Azure's names, "" if it names none."""
    match = _DEPLOYMENT.search(url.path)
    return match[1] if match else ""


def read_tool_call(call: JsonObject) -> ToolUse:
    """Return one of a message's `tool_calls`: a function, a custom tool, or LangChain's, which has its fields flat."""
    function, custom = obj(call.get("function")), obj(call.get("custom"))
    inner = function or custom or call
    names = ("arguments",) if function else ("input",) if custom else ("args", "arguments")
    arguments = inner.get(first(inner, names))
    return ToolUse(string(call.get("id")), string(inner.get("name")), arguments)


def read_reply(body: JsonObject) -> ReplyReading:
    """Read a whole completion."""
    choices = objects(body.get("choices"))
    messages = [obj(choice.get("message")) for choice in choices]
    # Before tool calls (November 2023) a message had at most one call, without an id; some servers still answer so.
    old: list[JsonObject] = [{"function": call} for message in messages if (call := obj(message.get("function_call")))]
    calls = [call for message in messages for call in objects(message.get("tool_calls"))]
    return make_reading(
        body,
        map(read_tool_call, [*calls, *old]),
        text="\n".join(filter(None, map(_read_text, messages))),
        finish=(string(choice.get("finish_reason")) for choice in choices),
        usage=openai_tokens(obj(body.get("usage")), "prompt_tokens", "completion_tokens"),
        fingerprint=string(body.get("system_fingerprint")),
    )


def _read_text(message: JsonObject) -> str:
    parts = message.get("content")
    text = string(parts) or "".join(string(part.get("text")) for part in objects(parts))
    return text or string(message.get("refusal"))


def join(events: Iterable[ServerSentEvent]) -> JsonObject:
    """Return the completion that a stream of chunks amounts to."""
    completion: JsonObject = {}
    choices = IndexedPieces()
    for event in events:
        chunk = event.value or {}
        completion.update({name: value for name, value in chunk.items() if name != "choices" and value is not None})
        for choice in objects(chunk.get("choices")):
            index = choice.get("index")
            kept = choices.find_piece(index if isinstance(index, int) else 0)
            if choice.get("finish_reason"):
                kept["finish_reason"] = choice["finish_reason"]
            _add_delta(obj(kept.setdefault("message", {})), obj(choice.get("delta")))
    return {**completion, "choices": choices.list_pieces()}


def _add_delta(message: JsonObject, delta: JsonObject) -> None:
    """Grow `message` by one delta: texts are joined, tool calls by their index, everything else is set."""
    for name, value in delta.items():
        before = message.get(name)
        if name == "tool_calls":
            for piece in objects(value):
                _add_call(arr(message.setdefault(name, [])), piece)
        elif isinstance(value, list) or isinstance(before, list):
            # Models of Mistral that think stream the parts of their content, https://docs.mistral.ai/capabilities/reasoning
            message[name] = [*_list_parts(before), *_list_parts(value)]
        else:
            grow(message, {name: value})


def _list_parts(content: Json) -> list[Json]:
    return [{"type": "text", "text": content}] if isinstance(content, str) and content else arr(content)


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


_ENDS = {"stop": "stop", "tools": "tool_calls", "length": "length", "filter": "content_filter"}


def write_request(conversation: Conversation) -> JsonObject:
    """Return the body of a request, without its parameters."""
    body: JsonObject = {"messages": [item for message in conversation.messages for item in _write_messages(message)]}
    if conversation.tools:
        body["tools"] = [{"type": "function", "function": tool} for tool in conversation.tools]
    return body


def _write_messages(message: Spoken) -> Iterator[JsonObject]:
    """Yield one message of the conventions as those of the API, in which each result of a tool is a message."""
    for result in message.results:
        yield {"role": "tool", "tool_call_id": result.id, "content": result.text}
    if message.uses:
        yield {"role": "assistant", "content": message.text or None, "tool_calls": write_calls(message.uses)}
    elif message.text or not message.results:
        yield {"role": message.role, "content": message.text}


def write_call(call_id: str, name: str, arguments: Json) -> JsonObject:
    """Return a tool call of a message; the API wants arguments as text, libraries keep them as objects."""
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def write_calls(uses: Iterable[ToolUse]) -> list[Json]:
    """Return the tool calls of a message."""
    return [write_call(use.id, use.name, as_text(use.arguments)) for use in uses]


def write_reply(reply: ModelReply, _body: JsonObject) -> JsonObject:
    """Return a reply in one piece."""
    message: JsonObject = {"role": "assistant", "content": reply.text or None, "refusal": None}
    if reply.uses:
        message["tool_calls"] = write_calls(reply.uses)
    choice: JsonObject = {"index": 0, "message": message, "logprobs": None, "finish_reason": _ENDS[reply.end]}
    return {**_write_head(reply, "chat.completion"), "choices": [choice], "usage": _write_usage(reply)}


def write_stream(reply: ModelReply, body: JsonObject) -> tuple[bytes, ...]:
    """Return a reply as the chunks of a stream; usage where the request includes it."""
    return write_events((("", chunk) for chunk in _list_chunks(reply, body)), done=True)


def _list_chunks(reply: ModelReply, body: JsonObject) -> Iterator[JsonObject]:
    head = _write_head(reply, "chat.completion.chunk")

    def chunk(delta: dict[str, Any], finish: str | None = None) -> JsonObject:
        return {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    first, *pieces = reply.pieces(reply.text)
    yield chunk({"role": "assistant", "content": first or None})
    for piece in pieces:
        yield chunk({"content": piece})
    for index, use in enumerate(reply.uses):
        first, *pieces = reply.pieces(as_text(use.arguments))
        yield chunk({"tool_calls": [{"index": index, **write_call(use.id, use.name, first)}]})
        for piece in pieces:
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield chunk({}, _ENDS[reply.end])
    if obj(body.get("stream_options")).get("include_usage") is True:
        yield {**head, "choices": [], "usage": _write_usage(reply)}


def _write_head(reply: ModelReply, kind: str) -> JsonObject:
    head: JsonObject = {"id": reply.id, "object": kind, "created": reply.created, "model": reply.model}
    return {**head, "system_fingerprint": reply.fingerprint} if reply.fingerprint else head


def _write_usage(reply: ModelReply) -> JsonObject:
    read, written = reply.tokens("input_tokens"), reply.tokens("output_tokens")
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}


_PATH = "/(?:chat|agents)/completions"
_WRITER = Writer("https://api.openai.com", "/v1/chat/completions", write_request, write_reply, write_stream)
DIALECTS = (Dialect("openai_chat", _PATH, "openai", is_request, read_call, read_reply, join, _WRITER),)
