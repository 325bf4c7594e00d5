"""Ollama's own chat and generate; both stream unless told not to. Tool calls bear no ids."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_agentreplay.model.reading import ReplyReading
from pytest_agentreplay.providers import openai_chat
from pytest_agentreplay.providers.dialect import Dialect, read_request
from pytest_agentreplay.providers.lenient import grow, obj, objects, rest, string, token_counts, unique

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_agentreplay.compare.matching.address import Url
    from pytest_agentreplay.model.exchanges import JsonObject
    from pytest_agentreplay.model.reading import CallReading
    from pytest_agentreplay.providers.streams import ServerSentEvent


def read_chat(body: JsonObject, url: Url) -> CallReading:
    """Read a chat request, which has the fields of a chat completion."""
    return replace(openai_chat.read_call(body, url), stream=body.get("stream") is not False)


def completes(body: JsonObject) -> bool:
    """Whether a body has the shape of a generate request; without a prompt it only loads a model."""
    return isinstance(body.get("model"), str) and bool(string(body.get("prompt")))


def read_generate(body: JsonObject, _url: Url) -> CallReading:
    """Read a generate request: its prompt is one message."""
    return read_request(
        body,
        system_in="system",
        messages_in="prompt",
        tools_in="",
        operation="text_completion",
        stream=body.get("stream") is not False,
    )


def read_reply(body: JsonObject) -> ReplyReading:
    """Read a whole reply of either."""
    message = obj(body.get("message"))
    return ReplyReading(
        text=string(message.get("content")) or string(body.get("response")),
        tool_uses=tuple(openai_chat.tool_use(call) for call in objects(message.get("tool_calls"))),
        finish_reasons=unique([string(body.get("done_reason"))]),
        usage=token_counts(body.get("prompt_eval_count"), body.get("eval_count")),
        model=string(body.get("model")),
    )


def join(events: Iterable[ServerSentEvent]) -> JsonObject:
    """The reply that a stream of lines amounts to: texts are joined, tool calls collected, the rest is the last's."""
    whole: JsonObject = {}
    message: JsonObject = {}
    for event in events:
        line = event.value or {}
        grow(message, obj(line.get("message")))
        text = string(whole.get("response")) + string(line.get("response"))
        whole.update(rest(line, "message", "response"))
        if "response" in line or text:
            whole["response"] = text
    return {**whole, "message": message}


OLLAMA_CHAT = Dialect("ollama_chat", "/api/chat", "ollama", openai_chat.fits, read_chat, join, read_reply)
OLLAMA_GENERATE = Dialect("ollama_generate", "/api/generate", "ollama", completes, read_generate, join, read_reply)
