"""Models that are no HTTP call: a Python function that is asked, read by the names of its arguments.

What the names leave open is read loosely: messages of LangChain and of OpenAI's shape, a prompt under any of its usual
names, replies that are a text, an OpenAI completion (llama.cpp gives these) or an object with a text in it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_agentreplay.model.exchanges import Failure, ToolReply
from pytest_agentreplay.model.reading import CallReading, ReplyReading, ToolUse
from pytest_agentreplay.providers import openai_chat
from pytest_agentreplay.providers.lenient import arr, counts, obj, objects, string, unique

if TYPE_CHECKING:
    from pytest_agentreplay.model.exchanges import Json, JsonObject, Outcome, ToolCall

PROVIDER = "in_process"
MESSAGES = ("messages", "conversation", "chat_history", "history")
PROMPTS = ("prompt", "prompts", "input", "inputs", "text", "texts", "question", "query", "message")
SYSTEM = ("system", "system_prompt", "system_message", "instructions")
TOOLS = ("tools", "functions")
TEXTS = ("text", "generated_text", "content", "response", "output", "answer", "completion")
ROLES = {"human": "user", "ai": "assistant", "AIMessageChunk": "assistant", "system": "system", "tool": "tool"}


def read_call(call: ToolCall) -> CallReading:
    """A call of a model function: the first argument with a name of MESSAGES or PROMPTS is what it is told."""
    from pytest_agentreplay.values.deserializer import plain

    arguments = obj(plain(dict(call.arguments)))
    told, system, tools = (_named(arguments, names) for names in ((*MESSAGES, *PROMPTS), SYSTEM, TOOLS))
    held = arguments.get(told)
    messages = tuple(map(message, held)) if isinstance(held, list) else (message(held),) if told else ()
    declared = obj(call.facts.get("parameters"))
    return CallReading(
        kind="model",
        name=call.name,
        dialect=PROVIDER,
        provider=string(call.facts.get("provider")) or PROVIDER,
        operation="chat" if told in MESSAGES else "text_completion",
        model=call.name,
        parameters={**declared, **{name: v for name, v in arguments.items() if name not in (told, system, tools)}},
        system=(arguments[system],) if arguments.get(system) is not None else (),
        messages=messages,
        tools=tuple(arr(arguments.get(tools))),
        system_at=f"$.{system}" if system else "",
        messages_at=f"$.{told}" if told else "",
        tools_at=f"$.{tools}" if tools else "",
        stream=arguments.get("stream") is True,
    )


def message(value: Any) -> Json:
    """A message with its role where the others have it; anything else as it is."""
    found: JsonObject = obj(value)
    role = ROLES.get(string(found.get("type")), "")
    if "role" in found or not role or "content" not in found:
        return value  # type: ignore[no-any-return]
    uses: list[Json] = [
        {"id": use.get("id"), "function": {"name": use.get("name"), "arguments": use.get("args")}}
        for use in objects(found.get("tool_calls"))
    ]
    rest = {key: found[key] for key in ("content", "tool_call_id") if found.get(key) is not None}
    return {"role": role, **rest, **({"tool_calls": uses} if uses else {})}


def read_reply(outcome: Outcome | None) -> ReplyReading:
    """What a model function gave; of a stream the whole that its items amount to."""
    if isinstance(outcome, Failure):
        return ReplyReading(error=f"{outcome.type}: {outcome.message}".rstrip(": "))
    if not isinstance(outcome, ToolReply):
        return ReplyReading()
    from pytest_agentreplay.values.deserializer import plain

    values = [plain(item) for item in outcome.items] if outcome.items is not None else [_result(outcome.value)]
    error = f"{outcome.failure.type}: {outcome.failure.message}".rstrip(": ") if outcome.failure else ""
    whole = _completion(values)
    if whole is not None:
        reading = openai_chat.read_reply(whole)
    else:
        uses = _uses(values)
        said, ids = "".join(map(text, values)), unique(use.id for use in uses)
        reading = ReplyReading(text=said, tool_uses=uses, usage=_usage(values), ids=ids)
    return replace(reading, error=error)


def text(value: Any) -> str:
    """The text in a result: a string, a list of such, or an object's field of one of the usual names."""
    if isinstance(value, str):
        return value
    if isinstance(value, list | tuple):
        return "".join(map(text, value))
    found = obj(value)
    inner = next((found[name] for name in ("message", "choices", *TEXTS) if found.get(name)), "")
    return text(inner)


def _result(value: Json) -> Any:
    """A plain result; what an awaited one of a plain function is wrapped in comes off."""
    from pytest_agentreplay.values.deserializer import plain

    found: Any = plain(value)
    return found["$awaited"] if isinstance(found, dict) and found.keys() == {"$awaited"} else found


class _Piece(NamedTuple):
    """A chunk of a completion, as `openai_chat.join` takes events."""

    value: JsonObject


def _completion(values: list[Any]) -> JsonObject | None:
    """OpenAI's completion, where that is what came, whole or in chunks."""
    found = [value for value in values if isinstance(value, dict) and objects(value.get("choices"))]
    if not found or len(found) != len(values):
        return None
    if any("delta" in choice for choice in objects(found[0]["choices"])):
        return openai_chat.join(map(_Piece, found))  # type: ignore[arg-type]
    if len(found) == 1 and any("message" in choice for choice in objects(found[0]["choices"])):
        return found[0]
    return None


def _uses(values: list[Any]) -> tuple[ToolUse, ...]:
    """The tool calls that LangChain's and OpenAI's messages carry."""
    return tuple(
        ToolUse(string(use.get("id")), string(use.get("name")), use.get("args"))
        if "args" in use
        else openai_chat.tool_use(use)
        for value in values
        for use in objects(obj(value).get("tool_calls"))
    )


def _usage(values: list[Any]) -> dict[str, int]:
    found = next((obj(value)["usage_metadata"] for value in values if obj(obj(value).get("usage_metadata"))), {})
    return counts((name, obj(found).get(name)) for name in ("input_tokens", "output_tokens"))


def _named(arguments: JsonObject, names: tuple[str, ...]) -> str:
    return next((name for name in names if arguments.get(name) is not None), "")
