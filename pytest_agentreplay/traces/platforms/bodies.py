"""What a platform kept of a model call and of a whole run: arguments of a client's function, messages, library objects.

A model call is made a body of the API that was spoken, and read as such. Where the platform holds the whole JSON of
both (`whole`), that JSON is the call; elsewhere only what it says is kept.

What went into an agent and what came out of it is as the root of a run tells it. Some tracers write the repr of a
Python value where others write JSON: it is read as what it shows.
"""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.model.canonical_json import NotJson, canonical, parse
from pytest_agentreplay.providers import genai, hosts
from pytest_agentreplay.providers.lenient import arr, obj, objects, rest, string, unique
from pytest_agentreplay.traces import wire
from pytest_agentreplay.traces.platforms import library_messages, span_facts
from pytest_agentreplay.traces.spans import attributes

if TYPE_CHECKING:
    from pytest_agentreplay.model.exchanges import Json, JsonObject
    from pytest_agentreplay.traces.trace import ModelCall

_CLIENT = ("extra_headers", "extra_query", "extra_body", "timeout", "self", "config", "callbacks", "idempotency_key")
"""Arguments of a client's function that are no fields of the request."""
_ITEMS = ("function_call", "function_call_output", "reasoning", "message", "computer_call", "custom_tool_call")

_PRINTED = "messages of model calls are what Python prints of objects, which nobody can read back: export them as JSON"
_HOST = re.compile(r"^[\d.]+(?::\d+)?$|^localhost|\.(?:com|ai|net|io|org|dev|local|internal)(?::\d+)?$|^\[")
"""What some platforms name as the provider: where it was."""
_MAKERS = ((r"gpt-|chatgpt|o\d(-|$)", "openai_chat"), (r"claude-", "anthropic"), (r"gemini-", "gemini"))


def model_call(asked: Json, told: Json, *, provider: str = "", whole: bool = False, **facts: Any) -> ModelCall:
    """The call of `asked`, answered by `told` (None: by nothing). `facts` that say nothing do not count."""
    texts = [text for side in (asked, told) for text in (side, *rest(obj(side), "content", "text").values())]
    printed = any(text is not None and library_messages.from_text(text) is None for text in texts)
    body, told = _body(asked), library_messages.generation(library_messages.from_text(told))
    shape = _shape(body, told)
    provider = hosts.provider(provider) or ("" if _HOST.search(provider) else provider)
    spoken = shape or attributes.dialect(provider)
    answer = _answer(shape, told)
    whole = whole and answer is not None and body.get("stream") is not True and bool(string(body.get("model")))
    where = wire.address(shape or "openai_chat", model=library_messages.gemini_model(body))
    read = wire.json_call(where, _in(shape, body), answer, dialect=spoken)
    if answer is None and told is not None:
        read = replace(read, reply=message(told), finish_reasons=unique([_end(told)]), **_beside(told))
    if not whole:
        said: JsonObject = {name: value for name, value in read.parameters.items() if value is not None}
        read = replace(read, request=None, response=None, status=0, parameters=said)
    known = {name: value for name, value in facts.items() if value not in (None, "", (), {}, 0)}
    if not whole and (provider or not spoken):
        known.setdefault("provider", provider)
    if "parameters" in known:
        known["parameters"] = read.parameters | wire.without_absent(known["parameters"])
    if not known.get("dialect", spoken):
        name = string(known.get("model")) or read.model or string(known.get("response_model"))
        known["dialect"] = next((dialect for maker, dialect in _MAKERS if re.match(maker, name)), "")
    return replace(read, losses=(_PRINTED,) if printed else (), **known)


def _beside(told: Json) -> dict[str, Any]:
    """Return what LangChain keeps beside the text of a message."""
    said = library_messages.fields(inner_message(obj(told)))
    facts = obj(said.get("response_metadata"))
    return {
        "response_model": string(facts.get("model_name")) or string(facts.get("model")),
        "response_id": string(facts.get("id")),
        "fingerprint": string(facts.get("system_fingerprint")),
        "usage": span_facts.usage(said.get("usage_metadata"), facts.get("token_usage"), facts.get("usage")),
    }


def with_tools(body: Json, tools: Json) -> Json:
    """Return a request with the tools that are kept beside it."""
    return {**body, "tools": tools} if isinstance(body, dict) and arr(tools) else body


def is_reply(told: Json) -> bool:
    """Whether an output is a reply of an API as its client returned it."""
    return string(obj(told).get("object")) in {"chat.completion", "response"} or "stop_reason" in obj(told)


def message(told: Json) -> JsonObject | None:
    """The assistant's message in an output that is no reply of an API: a message, a list of them, a text."""
    told = library_messages.ai_sdk_reply(told)
    if isinstance(told, str):
        return _assistant([{"type": "text", "content": told}] if told else [], "")
    if isinstance(told, list):
        found = list(genai.joined(map(genai.message, map(library_messages.message, told))))
        last = next((one for one in reversed(found) if one["role"] == "assistant"), None)
        return None if last is None else _assistant(arr(last["parts"]), _end(told))
    inner = inner_message(obj(told))
    if inner is None:
        return None
    made = genai.message(library_messages.message(inner))
    return _assistant(arr(made["parts"]), _end(told))


def inner_message(told: JsonObject) -> Json:
    """The message in an object that holds one somewhere; None where it holds none."""
    if library_messages.kind(told) or string(told.get("role")) or string(told.get("type")) in _ITEMS:
        return told
    for name in ("message", "output", "response", "completion", "content", "text", "generation"):
        held = told.get(name) if name in {"content", "text"} else library_messages.from_text(told.get(name))
        if isinstance(held, str) and held:
            return {"role": "assistant", "content": held}
        if isinstance(held, dict) and (found := inner_message(held)) is not None:
            return found
    messages = objects(told.get("messages"))
    return messages[-1] if messages else told if isinstance(told.get("content"), list) else None


def messages_of(given: Json) -> list[Json]:
    """The messages in a request, those of LangChain as those of a chat API."""
    items = arr(given) or [given]
    if all(isinstance(one, list) for one in items) and not library_messages.pair(items[0]):
        items = arr(items[0])
    pairs = [(item, library_messages.from_text(item)) for item in items]
    flat = [part for item, read in pairs for part in ((isinstance(item, str) and arr(read)) or [read]) if part]
    return [library_messages.message(one) for item in flat for one in library_messages.ai_sdk_messages(item)]


def _assistant(parts: list[Json], end: str) -> JsonObject:
    return {"role": "assistant", "parts": parts, "finish_reason": end}


def _end(told: Json) -> str:
    """The finish reason that stands beside or in a message."""
    for one in [*objects(told)[-1:], obj(told)]:
        inner = library_messages.fields(inner_message(one) or one)
        places = (one, obj(one.get("generation_info")), obj(inner), obj(obj(inner).get("response_metadata")))
        for place in places:
            for name in ("finish_reason", "stop_reason", "finishReason"):
                if string(place.get(name)):
                    return string(place[name])
    return ""


def _body(asked: Json) -> JsonObject:
    """The request as a body: what a client's function was called with, without what never leaves the client."""
    asked = library_messages.from_text(asked)
    if isinstance(asked, str):
        return {"messages": [{"role": "user", "content": asked}]} if asked else {"messages": []}
    if isinstance(asked, list):
        items = any(string(one.get("type")) in _ITEMS for one in objects(asked))
        return {"input": asked} if items else {"messages": messages_of(asked)}
    told = _called(obj(asked))
    if "contents" in told:
        return told
    body = wire.without_absent(rest(told, *_CLIENT) | obj(told.get("extra_body")))
    if isinstance(body.get("messages"), list | str):
        return body | {"messages": messages_of(body["messages"])}
    for name in ("input", "prompts", "prompt", "query"):
        if library_messages.from_text(body.get(name)) is not body.get(name):
            return rest(body, name) | {"messages": messages_of(body[name])}
    if isinstance(body.get("input"), str | list):
        return body
    prompts = next((body.pop(name) for name in ("prompts", "prompt", "query") if name in body), None)
    if string(body.get("role")):
        return {"messages": [library_messages.message(body)]}
    return body | {"messages": [{"role": "user", "content": one} for one in arr(prompts) or [prompts] if string(one)]}


def _called(told: JsonObject) -> JsonObject:
    """Return the arguments of a call that was kept as `args` and `kwargs`."""
    kwargs, args = told.get("kwargs"), told.get("args")
    if not isinstance(kwargs, dict) and not isinstance(args, list):
        return told
    if set(told) - {"args", "kwargs", "self"}:
        return told
    named = obj(kwargs)
    if {"messages", "input", "contents", "prompt"} & named.keys() or not arr(args):
        return named
    first = next((one for one in arr(args) if isinstance(one, list | dict | str)), None)
    return {**named, "messages": first if isinstance(first, list) else [library_messages.message(first)]}


def _shape(body: JsonObject, told: Json) -> str:
    """The dialect that request and reply are in, by their shape."""
    answer = obj(told)
    of_adk = "usage_metadata" in answer and "parts" in obj(answer.get("content"))
    if "contents" in body or "candidates" in answer or of_adk:
        return "gemini"
    if answer.get("object") == "response" or (objects(answer.get("output")) and "choices" not in answer):
        return "openai_responses"
    if answer.get("type") == "message" and isinstance(answer.get("content"), list) and "stop_reason" in answer:
        return "anthropic"
    if "message" in obj(answer.get("output")) and "stopReason" in answer:
        return "bedrock"
    if "input" in body and "messages" not in body:
        return "openai_responses"
    return "openai_chat" if _choices(told) else ""


def _choices(told: Json) -> list[JsonObject]:
    """The choices of a chat reply, or of a list of nothing else."""
    found = objects(told if isinstance(told, list) else obj(told).get("choices"))
    return found if found and all(isinstance(one.get("message"), dict) for one in found) else []


def _answer(shape: str, told: Json) -> JsonObject | None:
    """The reply as a body of the dialect; None where it is no such body, or none at all."""
    answer = obj(told)
    match shape:
        case "openai_chat":
            return {**answer, "choices": [*_choices(told)]} if _choices(told) else None
        case "openai_responses":
            if isinstance(told, list):
                return {"object": "response", "output": told} if objects(told) else None
            return answer if isinstance(answer.get("output"), list) else None
        case "gemini":
            return library_messages.gemini_reply(answer) if "candidates" in answer or "content" in answer else None
        case "anthropic" if answer.get("type") == "message":
            return answer
        case "bedrock" if "output" in answer:
            return answer
    return None


def _in(shape: str, body: JsonObject) -> JsonObject:
    """Return the body as the dialect's reader takes it."""
    if shape == "gemini":
        return library_messages.gemini_request(body)
    if shape == "openai_responses" and "input" not in body:
        return {**rest(body, "messages"), "input": body.get("messages", [])}
    return {"max_tokens": None, **body} if shape == "anthropic" else body


_WRAPPERS = ("output", "result", "final_output", "answer", "response", "return")


def given(value: Json) -> Json:
    """Return the input of a run: a state's messages as those of a chat API, a function's only argument or its names."""
    value = library_messages.from_text(value)
    if isinstance(value, dict) and value.keys() == {"args", "kwargs"}:
        by_order, by_name = arr(value["args"]), obj(value["kwargs"])
        alone = len(by_order) == 1 and not by_name
        value = by_order[0] if alone else value if by_order else by_name
    told = obj(value)
    if _messages(value):
        return {"messages": messages_of(value)}
    if _messages(told.get("messages")):
        return {**told, "messages": messages_of(told["messages"])}
    return value


def final(value: Json) -> Json:
    """Return the output of a run: the last text of the assistant in a state, a message or a reply; else the value."""
    value = library_messages.from_text(value)
    told = obj(value)
    alone = next(iter(told)) if len(told) == 1 else ""
    if alone in _WRAPPERS:
        return final(told[alone])
    messages = value if _messages(value) else told.get("messages") if _messages(told.get("messages")) else None
    if messages is None and (library_messages.kind(told) or string(told.get("role"))):
        messages = [value]
    if messages is None and (
        objects(told.get("choices")) or objects(told.get("candidates")) or told.get("object") == "response"
    ):
        return _text_of(model_call({}, value).reply) or value
    if messages is None:
        return value
    return _text_of(message(messages)) or value


def _messages(value: Json) -> bool:
    items = arr(value)
    return bool(items) and all(map(library_messages.is_message, items))


def _text_of(message: Json) -> str:
    """The text of a message; of one that asks for tools none, for it is no end."""
    parts = objects(obj(message).get("parts"))
    if any(part.get("type") == "tool_call" for part in parts):
        return ""
    return "\n".join(string(part.get("content")) for part in parts if part.get("type") == "text")


def told(value: Json) -> Json:
    """Return the result in a tool's own record: the content of its message, parsed where that is JSON."""
    inner = obj(value).get("output") if len(obj(value)) == 1 and "output" in obj(value) else value
    if library_messages.kind(inner) in {"tool", "function"}:
        inner = library_messages.fields(inner).get("content")
    return genai.parsed(inner)


_LONGEST = 100_000


def literal(text: str) -> Json:
    """Return the value of a text that is JSON or the repr of one; else the text. Nothing in it is called."""
    tree = parse(text)
    if not isinstance(tree, NotJson):
        return tree
    if not text.startswith(("{", "[", "(")) or len(text) > _LONGEST:
        return text
    try:
        value = ast.literal_eval(text)
        canonical(value)
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return text
    found: Json = value
    return found
