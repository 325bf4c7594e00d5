"""Which dialect a request and its reply are in, where a log tells no URL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_agentreplay.dialects.lenient import obj, objects, string

if TYPE_CHECKING:
    from pytest_agentreplay.core.model import Json

_MESSAGES = frozenset({"message", "message_start"})
_CHAT = frozenset({"chat.completion", "chat.completion.chunk"})
_FAMILIES = (("anthropic_version", "anthropic"), ("contents", "gemini"), ("inferenceConfig", "bedrock"))


def dialect_of(request: Json, reply: Json) -> str:
    """The dialect by the shape of the reply, else by that of the request; "" for what is no model call."""
    asked = obj(request)
    return _of_reply(reply) or _of_request(asked)


def _of_reply(reply: Json) -> str:
    told = obj(reply)
    if isinstance(reply, list):  # the events of a stream
        told = next(iter(objects(reply)), {})
    kind = string(told.get("object"))
    if kind in _CHAT or isinstance(told.get("choices"), list):
        return "openai_chat"
    if kind == "response" or string(told.get("type")).startswith("response."):
        return "openai_responses"
    if string(told.get("type")) in _MESSAGES and ("content" in told or "message" in told):
        return "anthropic"
    if isinstance(told.get("candidates"), list):
        return "gemini"
    if isinstance(obj(told.get("output")).get("message"), dict) or "messageStart" in told:
        return "bedrock"
    if isinstance(told.get("message"), dict) and "done" in told:
        return "ollama_chat"
    return "ollama_generate" if "done" in told and "response" in told else ""


def _of_request(asked: dict[str, Json]) -> str:
    for name, dialect in _FAMILIES:
        if name in asked:
            return dialect
    if isinstance(asked.get("messages"), list):
        schemas = [tool for tool in objects(asked.get("tools")) if "input_schema" in tool]
        ours = schemas or "stop_sequences" in asked or string(asked.get("model")).startswith("claude")
        return "anthropic" if ("system" in asked or ours) and "max_tokens" in asked else "openai_chat"
    return "openai_responses" if "input" in asked and "model" in asked else ""
