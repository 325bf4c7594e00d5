"""Ollama's own chat and generate: requests like chat completions, other replies.

Both stream lines of JSON unless the body says not to, and tool calls bear no ids.
The API: https://github.com/ollama/ollama/blob/main/docs/api.md.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_agentreplay.providers import openai_chat
from pytest_agentreplay.providers.dialect import Dialect, make_reading, read_request
from pytest_agentreplay.providers.lenient import obj, objects, rest, string, token_counts
from pytest_agentreplay.providers.streams import grow

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_agentreplay.compare.matching.address import Url
    from pytest_agentreplay.model.exchanges import JsonObject
    from pytest_agentreplay.model.reading import CallReading, ReplyReading
    from pytest_agentreplay.providers.streams import ServerSentEvent


def read_chat(body: JsonObject, url: Url) -> CallReading:
    """Read a chat request, which has the fields of a chat completion."""
    return replace(openai_chat.read_call(body, url), stream=body.get("stream") is not False)


def is_generate(body: JsonObject) -> bool:
    """Return whether a body has the shape of a generate request; without a prompt it only loads a model."""
    return isinstance(body.get("model"), str) and bool(string(body.get("prompt")))


def read_generate(body: JsonObject, _url: Url) -> CallReading:
    """Read a generate request: its prompt is one message."""
    stream = body.get("stream") is not False
    return read_request(
        body, system_in="system", messages_in="prompt", tools_in="", operation="text_completion", stream=stream
    )


def read_reply(body: JsonObject) -> ReplyReading:
    """Read a whole reply of either."""
    message = obj(body.get("message"))
    return make_reading(
        body,
        map(openai_chat.read_tool_call, objects(message.get("tool_calls"))),
        text=string(message.get("content")) or string(body.get("response")),
        finish=[string(body.get("done_reason"))],
        usage=token_counts(body.get("prompt_eval_count"), body.get("eval_count")),
        # A reply has no id: one that two replies shared would be taken for wiring.
        response_id="",
        ids=(),
    )


def join(events: Iterable[ServerSentEvent]) -> JsonObject:
    """Return the reply that a stream of lines amounts to: texts joined, tool calls collected, the rest of the last."""
    reply: JsonObject = {}
    message: JsonObject = {}
    for event in events:
        line = event.value or {}
        grow(message, obj(line.get("message")))
        text = string(reply.get("response")) + string(line.get("response"))
        reply.update(rest(line, "message", "response"))
        if "response" in line or text:
            reply["response"] = text
    return {**reply, "message": message}


# Its embeddings are in `vectors`.
DIALECTS = (
    Dialect("ollama_chat", "/api/chat", "ollama", openai_chat.is_request, read_chat, read_reply, join),
    Dialect("ollama_generate", "/api/generate", "ollama", is_generate, read_generate, read_reply, join),
)
