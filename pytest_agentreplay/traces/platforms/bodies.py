"""What a platform kept of a model call and of a whole run: arguments of a client's function, messages, library objects.

A model call is made a body of the API that was spoken, and read as such. Where the platform holds the whole JSON of
both (`keep_bodies`), that JSON is the call; elsewhere only what it says is kept.

What went into an agent and what came out of it is as the root of a run tells it. Some tracers write the repr of a
Python value where others write JSON: it is read as what it shows.
"""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.model.canonical_json import NotJson, canonical, parse
from pytest_agentreplay.providers import hosts
from pytest_agentreplay.providers.lenient import arr, obj, objects, parse_text, rest, string, unique
from pytest_agentreplay.providers.messages import (
    chat_message,
    is_message,
    is_pair,
    join_neighbours,
    langchain_fields,
    langchain_kind,
    normalize_message,
    read_ai_sdk_calls,
)
from pytest_agentreplay.traces import wire
from pytest_agentreplay.traces.platforms import library_dumps, span_facts
from pytest_agentreplay.traces.spans import attributes

if TYPE_CHECKING:
    from pytest_agentreplay.model.exchanges import Json, JsonObject
    from pytest_agentreplay.traces.trace import ModelCall

_CLIENT = ("extra_headers", "extra_query", "extra_body", "timeout", "self", "config", "callbacks", "idempotency_key")
"""Arguments of a client's function that are no fields of the request."""
_ITEMS = ("function_call", "function_call_output", "reasoning", "message", "computer_call", "custom_tool_call")

_REASONS = ("finish_reason", "stop_reason", "finishReason")

_PRINTED = "messages of model calls are what Python prints of objects, which nobody can read back: export them as JSON"
_HOST = re.compile(r"^[\d.]+(?::\d+)?$|^localhost|\.(?:com|ai|net|io|org|dev|local|internal)(?::\d+)?$|^\[")
"""What some platforms name as the provider: where it was."""
_MAKERS = ((r"gpt-|chatgpt|o\d(-|$)", "openai_chat"), (r"claude-", "anthropic"), (r"gemini-", "gemini"))


def model_call(
    request: Json, output: Json, *, provider: str = "", keep_bodies: bool = False, **facts: Any
) -> ModelCall:
    """Return the call of `request`, answered by `output` (None: by nothing). `facts` that say nothing do not count."""
    texts = [text for side in (request, output) for text in (side, *rest(obj(side), "content", "text").values())]
    printed = any(text is not None and library_dumps.from_text(text) is None for text in texts)
    body, output = _body(request), library_dumps.generation(library_dumps.from_text(output))
    shape = _shape(body, output)
    provider = hosts.provider(provider) or ("" if _HOST.search(provider) else provider)
    spoken = shape or attributes.dialect(provider)
    answer = _answer(shape, output)
    keep_bodies = (
        keep_bodies and answer is not None and body.get("stream") is not True and bool(string(body.get("model")))
    )
    where = wire.address(shape or "openai_chat", model=string(body.get("model")).rpartition("/")[2])
    read = wire.json_call(where, _adapt_request(shape, body), answer, dialect=spoken)
    if answer is None and output is not None:
        read = replace(read, reply=message(output), finish_reasons=unique([_end(output)]), **_read_beside(output))
    if not keep_bodies:
        parameters: JsonObject = {name: value for name, value in read.parameters.items() if value is not None}
        read = replace(read, request=None, response=None, status=0, parameters=parameters)
    own = {name: value for name, value in facts.items() if value not in (None, "", (), {}, 0)}
    if not keep_bodies and (provider or not spoken):
        own.setdefault("provider", provider)
    if "parameters" in own:
        own["parameters"] = read.parameters | wire.without_absent(own["parameters"])
    if not own.get("dialect", spoken):
        name = string(own.get("model")) or read.model or string(own.get("response_model"))
        own["dialect"] = next((dialect for maker, dialect in _MAKERS if re.match(maker, name)), "")
    return replace(read, losses=(_PRINTED,) if printed else (), **own)


def _read_beside(output: Json) -> dict[str, Any]:
    """Return what LangChain keeps beside the text of a message."""
    fields = langchain_fields(inner_message(obj(output)))
    facts = obj(fields.get("response_metadata"))
    return {
        "response_model": string(facts.get("model_name")) or string(facts.get("model")),
        "response_id": string(facts.get("id")),
        "fingerprint": string(facts.get("system_fingerprint")),
        "usage": span_facts.usage(fields.get("usage_metadata"), facts.get("token_usage"), facts.get("usage")),
    }


def with_tools(body: Json, tools: Json) -> Json:
    """Return a request with the tools that are kept beside it."""
    return {**body, "tools": tools} if isinstance(body, dict) and arr(tools) else body


def is_reply(output: Json) -> bool:
    """Whether an output is a reply of an API as its client returned it."""
    return string(obj(output).get("object")) in {"chat.completion", "response"} or "stop_reason" in obj(output)


def message(output: Json) -> JsonObject | None:
    """The assistant's message in an output that is no reply of an API: a message, a list of them, a text."""
    if calls := read_ai_sdk_calls(output):
        output = {"role": "assistant", "content": calls}
    if isinstance(output, str):
        return _assistant([{"type": "text", "content": output}] if output else [], "")
    if isinstance(output, list):
        messages = list(join_neighbours(map(normalize_message, map(chat_message, output))))
        last = next((candidate for candidate in reversed(messages) if candidate["role"] == "assistant"), None)
        return None if last is None else _assistant(arr(last["parts"]), _end(output))
    inner = inner_message(obj(output))
    if inner is None:
        return None
    made = normalize_message(chat_message(inner))
    return _assistant(arr(made["parts"]), _end(output))


def inner_message(fields: JsonObject) -> Json:
    """The message in an object that holds one somewhere; None where it holds none."""
    if langchain_kind(fields) or string(fields.get("role")) or string(fields.get("type")) in _ITEMS:
        return fields
    for name in ("message", "output", "response", "completion", "content", "text", "generation"):
        value = fields.get(name) if name in {"content", "text"} else library_dumps.from_text(fields.get(name))
        if isinstance(value, str) and value:
            return {"role": "assistant", "content": value}
        if isinstance(value, dict) and (inner := inner_message(value)) is not None:
            return inner
    messages = objects(fields.get("messages"))
    return messages[-1] if messages else fields if isinstance(fields.get("content"), list) else None


def messages_of(value: Json) -> list[Json]:
    """The messages in a request, those of LangChain as those of a chat API."""
    items = arr(value) or [value]
    if all(isinstance(item, list) for item in items) and not is_pair(items[0]):
        items = arr(items[0])
    pairs = [(item, library_dumps.from_text(item)) for item in items]
    flat = [part for item, read in pairs for part in ((isinstance(item, str) and arr(read)) or [read]) if part]
    return [chat_message(item) for item in flat]


def _assistant(parts: list[Json], end: str) -> JsonObject:
    return {"role": "assistant", "parts": parts, "finish_reason": end}


def _end(output: Json) -> str:
    """The finish reason that stands beside or in a message."""
    for holder in [*objects(output)[-1:], obj(output)]:
        inner = obj(langchain_fields(inner_message(holder) or holder))
        places = (holder, obj(holder.get("generation_info")), inner, obj(inner.get("response_metadata")))
        if reason := next(filter(None, (attributes.text(place, *_REASONS) for place in places)), ""):
            return reason
    return ""


def _body(request: Json) -> JsonObject:
    """The request as a body: what a client's function was called with, without what never leaves the client."""
    request = library_dumps.from_text(request)
    if isinstance(request, str):
        return {"messages": [{"role": "user", "content": request}]} if request else {"messages": []}
    if isinstance(request, list):
        items = any(string(item.get("type")) in _ITEMS for item in objects(request))
        return {"input": request} if items else {"messages": messages_of(request)}
    fields = _read_arguments(obj(request))
    if "contents" in fields:
        return fields
    body = wire.without_absent(rest(fields, *_CLIENT) | obj(fields.get("extra_body")))
    if isinstance(body.get("messages"), list | str):
        return body | {"messages": messages_of(body["messages"])}
    for name in ("input", "prompts", "prompt", "query"):
        if library_dumps.from_text(body.get(name)) is not body.get(name):
            return rest(body, name) | {"messages": messages_of(body[name])}
    if isinstance(body.get("input"), str | list):
        return body
    prompts = next((body.pop(name) for name in ("prompts", "prompt", "query") if name in body), None)
    if string(body.get("role")):
        return {"messages": [chat_message(body)]}
    return body | {
        "messages": [{"role": "user", "content": prompt} for prompt in arr(prompts) or [prompts] if string(prompt)]
    }


def _read_arguments(fields: JsonObject) -> JsonObject:
    """Return the arguments of a call that was kept as `args` and `kwargs`."""
    kwargs, args = fields.get("kwargs"), fields.get("args")
    if not isinstance(kwargs, dict) and not isinstance(args, list):
        return fields
    if set(fields) - {"args", "kwargs", "self"}:
        return fields
    keywords = obj(kwargs)
    if {"messages", "input", "contents", "prompt"} & keywords.keys() or not arr(args):
        return keywords
    first = next((argument for argument in arr(args) if isinstance(argument, list | dict | str)), None)
    return {**keywords, "messages": first if isinstance(first, list) else [chat_message(first)]}


def _shape(body: JsonObject, output: Json) -> str:
    """The dialect that request and reply are in, by their shape."""
    answer = obj(output)
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
    return "openai_chat" if _choices(output) else ""


def _choices(output: Json) -> list[JsonObject]:
    """The choices of a chat reply, or of a list of nothing else."""
    choices = objects(output if isinstance(output, list) else obj(output).get("choices"))
    return choices if choices and all(isinstance(choice.get("message"), dict) for choice in choices) else []


def _answer(shape: str, output: Json) -> JsonObject | None:
    """The reply as a body of the dialect; None where it is no such body, or none at all."""
    answer = obj(output)
    match shape:
        case "openai_chat":
            return {**answer, "choices": [*_choices(output)]} if _choices(output) else None
        case "openai_responses":
            if isinstance(output, list):
                return {"object": "response", "output": output} if objects(output) else None
            return answer if isinstance(answer.get("output"), list) else None
        case "gemini":
            return library_dumps.gemini_reply(answer) if "candidates" in answer or "content" in answer else None
        case "anthropic" if answer.get("type") == "message":
            return answer
        case "bedrock" if "output" in answer:
            return answer
    return None


def _adapt_request(shape: str, body: JsonObject) -> JsonObject:
    """Return the body as the dialect's reader takes it."""
    if shape == "gemini":
        return library_dumps.gemini_request(body)
    if shape == "openai_responses" and "input" not in body:
        return {**rest(body, "messages"), "input": body.get("messages", [])}
    return {"max_tokens": None, **body} if shape == "anthropic" else body


_WRAPPERS = ("output", "result", "final_output", "answer", "response", "return")


def read_input(value: Json) -> Json:
    """Return the input of a run: a state's messages as those of a chat API, a function's only argument or its names."""
    value = library_dumps.from_text(value)
    if isinstance(value, dict) and value.keys() == {"args", "kwargs"}:
        by_order, by_name = arr(value["args"]), obj(value["kwargs"])
        alone = len(by_order) == 1 and not by_name
        value = by_order[0] if alone else value if by_order else by_name
    fields = obj(value)
    if _messages(value):
        return {"messages": messages_of(value)}
    if _messages(fields.get("messages")):
        return {**fields, "messages": messages_of(fields["messages"])}
    return value


def read_output(value: Json) -> Json:
    """Return the output of a run: the last text of the assistant in a state, a message or a reply; else the value."""
    value = library_dumps.from_text(value)
    fields = obj(value)
    alone = next(iter(fields)) if len(fields) == 1 else ""
    if alone in _WRAPPERS:
        return read_output(fields[alone])
    messages = value if _messages(value) else fields.get("messages") if _messages(fields.get("messages")) else None
    if messages is None and (langchain_kind(fields) or string(fields.get("role"))):
        messages = [value]
    if messages is None and (
        objects(fields.get("choices")) or objects(fields.get("candidates")) or fields.get("object") == "response"
    ):
        return _text_of(model_call({}, value).reply) or value
    if messages is None:
        return value
    return _text_of(message(messages)) or value


def _messages(value: Json) -> bool:
    items = arr(value)
    return bool(items) and all(map(is_message, items))


def _text_of(message: Json) -> str:
    """The text of a message; of one that asks for tools none, for it is no end."""
    parts = objects(obj(message).get("parts"))
    if any(part.get("type") == "tool_call" for part in parts):
        return ""
    return "\n".join(string(part.get("content")) for part in parts if part.get("type") == "text")


def read_result(value: Json) -> Json:
    """Return the result in a tool's own record: the content of its message, parsed where that is JSON."""
    inner = obj(value).get("output") if len(obj(value)) == 1 and "output" in obj(value) else value
    if langchain_kind(inner) in {"tool", "function"}:
        inner = langchain_fields(inner).get("content")
    return parse_text(inner)


_LONGEST = 100_000


def parse_literal(text: str) -> Json:
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
    parsed_value: Json = value
    return parsed_value
