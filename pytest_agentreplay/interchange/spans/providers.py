"""Providers by the names that instrumentations give them: the API that is spoken, and its names of parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_agentreplay.interchange.platforms.usage import usage

if TYPE_CHECKING:
    from pytest_agentreplay.core.model import Json, JsonObject

_LIKE_OPENAI = (
    *("openai", "azure", "azure.ai.openai", "az.ai.openai", "azure.ai.inference", "az.ai.inference", "openrouter"),
    *("mistral_ai", "mistralai", "groq", "deepseek", "perplexity", "x_ai", "xai", "azure_openai", "together"),
    "fireworks",
)
_GOOGLE = (
    *("gcp.gemini", "gcp.vertex.agent", "gcp.vertex_ai", "gcp.gen_ai", "gemini", "google", "vertex_ai", "vertexai"),
    *("google_genai", "google_vertexai"),
)
_DIALECTS = {
    **dict.fromkeys(_LIKE_OPENAI, "openai_chat"),
    "anthropic": "anthropic",
    **dict.fromkeys(("aws.bedrock", "aws_bedrock", "bedrock", "aws", "amazon_bedrock"), "bedrock"),
    **dict.fromkeys(_GOOGLE, "gemini"),
    "ollama": "ollama_chat",
    "cohere": "cohere",
}
_NEW_NAMES = {
    "az.ai.openai": "azure.ai.openai",
    "az.ai.inference": "azure.ai.inference",
    "aws_bedrock": "aws.bedrock",
    "aws": "aws.bedrock",
    "xai": "x_ai",
    "mistralai": "mistral_ai",
    "vertexai": "gcp.vertex_ai",
}
_OPENAI_NAMES = {"stop_sequences": "stop", "choice.count": "n"}


def named(provider: str) -> str:
    """A provider by its name in the conventions, however it was spelled."""
    found = provider.lower()
    return _NEW_NAMES.get(found, found if found in _DIALECTS else provider)


def dialect(provider: str, api: str = "") -> str:
    """The API that a provider is spoken to in; "" unknown. `api` is the word of an instrumentation for it."""
    found = _DIALECTS.get(provider.lower(), "")
    return "openai_responses" if found == "openai_chat" and api.startswith("response") else found


def parameters(spoken: str, given: JsonObject) -> JsonObject:
    """Parameters of a request under the names of the API."""
    names = _OPENAI_NAMES if spoken in {"", "openai_chat"} else {}
    return {names.get(name, name): value for name, value in given.items() if value is not None}


def finish_reason(spoken: str, word: str) -> str:
    """A finish reason in the provider's word: the conventions say "tool_call" for all of them."""
    told = {"openai_chat": "tool_calls", "anthropic": "tool_use", "bedrock": "tool_use"}
    return told.get(spoken, word) if word == "tool_call" else word


def usage_under(held: JsonObject, prefix: str) -> dict[str, int]:
    """The counts of tokens whose names begin with `prefix`."""
    return usage({name.removeprefix(prefix): number(one) for name, one in held.items() if name.startswith(prefix)})


def number(value: Json) -> Json:
    """A text that is a number as that number: some exporters make a text of everything."""
    if not isinstance(value, str):
        return value
    for kind in (int, float):
        try:
            return kind(value) if len(value) < 20 else value
        except ValueError:
            continue
    return value
