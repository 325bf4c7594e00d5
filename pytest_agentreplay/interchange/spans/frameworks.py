"""What frameworks keep under names of their own, as attributes of the GenAI conventions: Google's ADK, the AI SDK.

Both write the conventions' names for models and usage, and their own for what was said.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_agentreplay.dialects import genai
from pytest_agentreplay.dialects.lenient import arr, obj, objects, string
from pytest_agentreplay.interchange.platforms import ai_sdk

if TYPE_CHECKING:
    from pytest_agentreplay.core.model import Json, JsonObject

_ADK = "gcp.vertex.agent."
_OPERATIONS = (("doGenerate", "chat"), ("doStream", "chat"), ("toolCall", "execute_tool"), ("Text", "invoke_agent"))
_AI_SDK = {
    "ai.toolCall.name": "gen_ai.tool.name",
    "ai.toolCall.id": "gen_ai.tool.call.id",
    "ai.toolCall.args": "gen_ai.tool.call.arguments",
    "ai.toolCall.result": "gen_ai.tool.call.result",
    "ai.telemetry.metadata.userId": "user.id",
    "ai.telemetry.metadata.sessionId": "session.id",
    "ai.telemetry.functionId": "gen_ai.agent.name",
}


_AI_SDK_PROVIDERS = {
    "amazon-bedrock": "aws.bedrock",
    "azure": "azure.ai.openai",
    "azure-openai": "azure.ai.openai",
    "mistral": "mistral_ai",
}


def translated(held: JsonObject) -> JsonObject:
    """The attributes, with those that a framework has named otherwise under the conventions' names, too."""
    names = " ".join(held)
    found = _adk(held) if _ADK in names else _ai_sdk(held) if "ai.operationId" in held else {}
    return {name: value for name, value in found.items() if value not in (None, "", [])} | held


def _adk(held: JsonObject) -> JsonObject:
    asked = obj(genai.parsed(held.get(f"{_ADK}llm_request")))
    told = obj(genai.parsed(held.get(f"{_ADK}llm_response")))
    config = obj(asked.get("config"))
    return {
        "gen_ai.input.messages": asked.get("contents"),
        "gen_ai.system_instructions": config.get("system_instruction", config.get("systemInstruction")),
        "gen_ai.tool.definitions": config.get("tools"),
        "gen_ai.output.messages": [told["content"]] if obj(told.get("content")) else None,
        "gen_ai.response.finish_reasons": string(told.get("finish_reason", told.get("finishReason"))),
        "gen_ai.tool.call.arguments": held.get(f"{_ADK}tool_call_args"),
        "gen_ai.tool.call.result": held.get(f"{_ADK}tool_response"),
        "gen_ai.conversation.id": held.get(f"{_ADK}session_id"),
    }


def _ai_sdk(held: JsonObject) -> JsonObject:
    operation = string(held.get("ai.operationId"))
    asked = genai.parsed(held.get("ai.prompt.messages")) or obj(genai.parsed(held.get("ai.prompt"))).get("messages")
    calls = objects(obj(ai_sdk.reply(held.get("ai.response.toolCalls"))).get("tool_calls"))
    words = held.get("ai.response.text")
    answer: JsonObject = {"role": "assistant", "content": words, **({"tool_calls": [*calls]} if calls else {})}
    listed: list[Json] = [one for message in arr(asked) for one in ai_sdk.messages(message)]
    provider, _, api = string(held.get("ai.model.provider")).partition(".")
    return {name: held[old] for old, name in _AI_SDK.items() if old in held} | {
        "gen_ai.provider.name": _AI_SDK_PROVIDERS.get(provider, provider),
        "openai.api.type": api,
        "gen_ai.operation.name": next((name for end, name in _OPERATIONS if operation.endswith(end)), None),
        "gen_ai.input.messages": listed or obj(genai.parsed(held.get("ai.prompt"))).get("prompt"),
        "gen_ai.output.messages": [answer] if words or calls else None,
        "gen_ai.tool.definitions": [_tool(obj(genai.parsed(one))) for one in arr(held.get("ai.prompt.tools"))],
    }


def _tool(one: JsonObject) -> Json:
    schema = one.get("inputSchema", one.get("parameters"))
    return {"name": one.get("name"), "description": one.get("description"), "parameters": schema}
