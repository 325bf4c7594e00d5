"""Gemini's generateContent, on its own host and on Vertex; read and written.

The model stands in the path, and so does whether the reply is streamed. Fields come in camelCase, or in snake_case from
those who write the JSON by hand: the API takes both.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.model.reading import ReplyReading, ToolUse
from pytest_agentreplay.providers import model_reply
from pytest_agentreplay.providers.dialect import Dialect, read_request
from pytest_agentreplay.providers.lenient import arr, counts, obj, objects, rest, string, token_counts, unique

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_agentreplay.compare.matching.address import Url
    from pytest_agentreplay.model.exchanges import Json, JsonObject
    from pytest_agentreplay.model.reading import CallReading
    from pytest_agentreplay.providers.model_reply import ModelReply
    from pytest_agentreplay.providers.streams import ServerSentEvent

MODEL = re.compile(r"/([^/:]+):\w+$")
VERTEX = ("/publishers/", "/projects/")
_SYSTEM = ("systemInstruction", "system_instruction")
_DECLARATIONS = ("functionDeclarations", "function_declarations")


def is_request(body: JsonObject) -> bool:
    """Return whether a body has the shape of a generateContent request."""
    return isinstance(body.get("contents"), list)


def read_call(body: JsonObject, url: Url) -> CallReading:
    """Read a request; the only declarations of functions stand for the tools where there is nothing beside them."""
    model = model_of(url)
    system_at = next((name for name in _SYSTEM if name in body), "")
    parts = objects(obj(body.get(system_at)).get("parts"))
    texts: tuple[Json, ...] = tuple(part["text"] for part in parts if "text" in part)
    tools, tools_at = arr(body.get("tools")), "$.tools" if "tools" in body else ""
    alone = obj(tools[0]) if len(tools) == 1 else {}
    declared = next((name for name in _DECLARATIONS if isinstance(alone.get(name), list)), "")
    if declared and len(alone) == 1:
        tools, tools_at = arr(alone[declared]), f"$.tools[0].{declared}"
    alone_texts: dict[str, Any] = {"system": texts} if len(texts) == len(parts) > 0 else {}
    return read_request(
        body,
        model=model,
        system_in=system_at,
        messages_in="contents",
        provider=provider_of(url),
        operation="generate_content",
        parameters=rest(body, "contents", "tools", *_SYSTEM),
        tools=tuple(tools),
        tools_at=tools_at,
        stream=":stream" in url.path,
        **alone_texts,
    )


def model_of(url: Url) -> str:
    """The model that a path names."""
    match = MODEL.search(url.path.rstrip("/"))
    return match[1] if match else ""


def provider_of(url: Url) -> str:
    """Vertex where the path is of its kind, else "": the host or the dialect says it."""
    return "gcp.vertex_ai" if any(part in url.path for part in VERTEX) else ""


def tool_use(part: JsonObject) -> ToolUse | None:
    """A part as a tool call; None for any other. The id is "" where the API gives none."""
    call = part.get("functionCall", part.get("function_call"))
    if not isinstance(call, dict):
        return None
    return ToolUse(string(call.get("id")), string(call.get("name")), call.get("args"))


def read_reply(body: JsonObject) -> ReplyReading:
    """Read a whole response. Thoughts are no text."""
    candidates = objects(body.get("candidates"))
    parts = [part for candidate in candidates for part in objects(obj(candidate.get("content")).get("parts"))]
    uses = tuple(use for part in parts if (use := tool_use(part)))
    blocked = string(obj(body.get("promptFeedback")).get("blockReason"))
    return ReplyReading(
        text="".join(string(part.get("text")) for part in parts if not part.get("thought")),
        tool_uses=uses,
        finish_reasons=unique([blocked, *(string(candidate.get("finishReason")) for candidate in candidates)]),
        usage=_usage(obj(body.get("usageMetadata"))),
        response_id=string(body.get("responseId")),
        model=string(body.get("modelVersion")),
        ids=unique([string(body.get("responseId")), *(use.id for use in uses)]),
    )


def join(events: Iterable[ServerSentEvent]) -> JsonObject:
    """The response that a stream of partial ones amounts to; neighbouring texts are one part."""
    response: JsonObject = {}
    candidates: dict[int, JsonObject] = {}
    for event in events:
        chunk = event.value or {}
        response.update(rest(chunk, "candidates"))
        for candidate in objects(chunk.get("candidates")):
            index = candidate.get("index")
            kept = candidates.setdefault(index if isinstance(index, int) else 0, {"content": {"parts": []}})
            kept.update(rest(candidate, "content"))
            for part in objects(obj(candidate.get("content")).get("parts")):
                _add(arr(obj(kept["content"])["parts"]), part)
    return {**response, "candidates": [candidates[index] for index in sorted(candidates)]}


def _add(parts: list[Json], part: JsonObject) -> None:
    last = obj(parts[-1]) if parts else {}
    if isinstance(part.get("text"), str) and "text" in last and last.get("thought") == part.get("thought"):
        last["text"] = string(last["text"]) + string(part["text"])
    else:
        parts.append(dict(part))


def _usage(usage: JsonObject) -> dict[str, int]:
    """Thoughts count as output and the results of the server's own tools as input, as the conventions ask."""
    input_counts = counts((name, usage.get(name)) for name in ("promptTokenCount", "toolUsePromptTokenCount"))
    output_counts = counts((name, usage.get(name)) for name in ("candidatesTokenCount", "thoughtsTokenCount"))
    return token_counts(
        sum(input_counts.values()) if input_counts else None,
        sum(output_counts.values()) if output_counts else None,
        cache_read=usage.get("cachedContentTokenCount"),
        reasoning=usage.get("thoughtsTokenCount"),
    )


DIALECTS = (
    Dialect("gemini", r":(?:generate|streamGenerate)Content", "gcp.gemini", is_request, read_call, join, read_reply),
)


BASE = "https://generativelanguage.googleapis.com"
PATH = "/v1beta/models/{name}:generateContent"
STREAM_PATH = "/v1beta/models/{name}:streamGenerateContent?alt=sse"
_ENDS = {"stop": "STOP", "tools": "STOP", "length": "MAX_TOKENS", "filter": "SAFETY"}


def request_body(messages: Sequence[JsonObject], tools: Sequence[JsonObject]) -> JsonObject:
    """The body of a request, without its parameters; the model and whether it streams stand in the path."""
    system, others = model_reply.split_system(messages)
    body: JsonObject = {"contents": [_content(m) for m in others]}
    if system:
        body["systemInstruction"] = {"parts": [{"text": text} for text in system]}
    if tools:
        body["tools"] = [{"functionDeclarations": [model_reply.function_of(tool) for tool in tools]}]
    return body


def _content(message: JsonObject) -> JsonObject:
    role = "model" if message.get("role") == "assistant" else "user"
    return {"role": role, "parts": model_reply.blocks_of(message, _result, _text, _use)}


def _result(part: JsonObject) -> JsonObject:
    value = model_reply.result_of(part)
    response: JsonObject = value if isinstance(value, dict) else {"result": value}
    return {"functionResponse": {"name": part.get("name") or part.get("id"), "response": response}}


def _text(text: str) -> JsonObject:
    return {"text": text}


def _use(use: ToolUse) -> JsonObject:
    marks: JsonObject = {"id": use.id} if use.id else {}
    return {"functionCall": {**marks, "name": use.name, "args": model_reply.get_arguments(use)}}


def write_reply(reply: ModelReply) -> JsonObject:
    """Return a reply in one piece."""
    read, written = reply.tokens("input_tokens"), reply.tokens("output_tokens")
    parts = [*([_text(reply.text)] if reply.text else []), *map(_use, reply.uses)]
    usage: JsonObject = {"promptTokenCount": read, "candidatesTokenCount": written, "totalTokenCount": read + written}
    return {**_chunk(reply, parts, finishReason=_ENDS[reply.end]), "usageMetadata": usage}


def _chunk(reply: ModelReply, parts: Sequence[JsonObject], **ending: str) -> JsonObject:
    content: JsonObject = {"role": "model", "parts": [*parts]}
    candidate: JsonObject = {"content": content, "index": 0, **ending}
    return {"candidates": [candidate], "modelVersion": reply.model, "responseId": reply.id}


def write_stream(reply: ModelReply, _body: JsonObject) -> tuple[bytes, ...]:
    """Return a reply as a stream of one chunk, or of one for each piece of the text and each call, and an empty one."""
    if not reply.in_pieces:
        return model_reply.server_sent([("", write_reply(reply))])
    parts = [*map(_text, reply.pieces(reply.text)), *map(_use, reply.uses)]
    last = write_reply(replace(reply, text="", uses=()))
    return model_reply.server_sent(("", chunk) for chunk in [*(_chunk(reply, [part]) for part in parts), last])
