"""Gemini's generateContent, on its own host and on Vertex; read and written.

The model stands in the path, and so does whether the reply is streamed. Fields come in camelCase, or in snake_case from
those who write the JSON by hand: the API takes both, as protobuf's JSON mapping says.
The API: https://ai.google.dev/api/generate-content.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.providers.dialect import Dialect, Writer, make_reading, read_request
from pytest_agentreplay.providers.lenient import add_counts, arr, first, obj, objects, rest, string, token_counts
from pytest_agentreplay.providers.messages import find_tool_uses
from pytest_agentreplay.providers.streams import IndexedPieces, write_events

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_agentreplay.compare.matching.address import Url
    from pytest_agentreplay.model.exchanges import Json, JsonObject
    from pytest_agentreplay.model.reading import CallReading, ReplyReading, ToolUse
    from pytest_agentreplay.providers.model_reply import Conversation, ModelReply, ToolResult
    from pytest_agentreplay.providers.streams import ServerSentEvent

# "/models/NAME:verb", on Vertex "/publishers/google/models/NAME:verb" or "/endpoints/NUMBER:verb".
_MODEL = re.compile(r"/([^/:]+):\w+$")
SYSTEM = ("systemInstruction", "system_instruction")
_DECLARATIONS = ("functionDeclarations", "function_declarations")


def is_request(body: JsonObject) -> bool:
    """Return whether a body has the shape of a generateContent request."""
    return isinstance(body.get("contents"), list)


def read_call(body: JsonObject, url: Url) -> CallReading:
    """Read a request; the only declarations of functions stand for the tools if there is nothing beside them."""
    system_at = first(body, SYSTEM)
    parts = objects(obj(body.get(system_at)).get("parts"))
    texts: tuple[Json, ...] = tuple(part["text"] for part in parts if "text" in part)
    tools, tools_at = arr(body.get("tools")), "$.tools" if "tools" in body else ""
    # Most requests have one tool, which declares all functions: these are what people call the tools.
    alone = obj(tools[0]) if len(tools) == 1 else {}
    declared = next((name for name in _DECLARATIONS if isinstance(alone.get(name), list)), "")
    if declared and len(alone) == 1:
        tools, tools_at = arr(alone[declared]), f"$.tools[0].{declared}"
    alone_texts: dict[str, Any] = {"system": texts} if len(texts) == len(parts) > 0 else {}
    return read_request(
        body,
        model=model_of(url),
        system_in=system_at,
        messages_in="contents",
        provider=provider_of(url),
        operation="generate_content",
        parameters=rest(body, "contents", "tools", *SYSTEM),
        tools=tuple(tools),
        tools_at=tools_at,
        stream=":stream" in url.path,
        **alone_texts,
    )


def model_of(url: Url) -> str:
    """Return the model that a path names, "" if it names none."""
    match = _MODEL.search(url.path.rstrip("/"))
    return match[1] if match else ""


def provider_of(url: Url) -> str:
    """Return Vertex if the path is of its kind, else "": the host or the dialect names the provider."""
    return "gcp.vertex_ai" if "/publishers/" in url.path or "/projects/" in url.path else ""


def read_reply(body: JsonObject) -> ReplyReading:
    """Read a whole response. Thoughts are no text."""
    candidates = objects(body.get("candidates"))
    contents = [obj(candidate.get("content")) for candidate in candidates]
    parts = [part for content in contents for part in objects(content.get("parts"))]
    blocked = string(obj(body.get("promptFeedback")).get("blockReason"))
    uses = tuple(use for content in contents for use in find_tool_uses(content))
    signatures = (string(part.get("thoughtSignature")) for part in parts)
    return make_reading(
        body,
        uses,
        ids=[string(body.get("responseId")), *(use.id for use in uses), *signatures],
        text="".join(string(part.get("text")) for part in parts if not part.get("thought")),
        finish=[blocked, *(string(candidate.get("finishReason")) for candidate in candidates)],
        usage=_count_tokens(obj(body.get("usageMetadata"))),
        response_id=string(body.get("responseId")),
        model=string(body.get("modelVersion")),
    )


def _count_tokens(usage: JsonObject) -> dict[str, int]:
    """Thoughts count as output and the results of the server's own tools as input, as the conventions ask."""
    return token_counts(
        add_counts(usage, "promptTokenCount", "toolUsePromptTokenCount"),
        add_counts(usage, "candidatesTokenCount", "thoughtsTokenCount"),
        cache_read=usage.get("cachedContentTokenCount"),
        reasoning=usage.get("thoughtsTokenCount"),
    )


def join(events: Iterable[ServerSentEvent]) -> JsonObject:
    """Return the response that a stream of partial ones amounts to; neighbouring texts are one part."""
    response: JsonObject = {}
    candidates = IndexedPieces()
    for event in events:
        chunk = event.value or {}
        response.update(rest(chunk, "candidates"))
        for candidate in objects(chunk.get("candidates")):
            index = candidate.get("index")
            kept = candidates.find_piece(index if isinstance(index, int) else 0)
            parts = arr(obj(kept.setdefault("content", {"parts": []}))["parts"])
            kept.update(rest(candidate, "content"))
            for part in objects(obj(candidate.get("content")).get("parts")):
                _add_part(parts, part)
    return {**response, "candidates": candidates.list_pieces()}


def _add_part(parts: list[Json], part: JsonObject) -> None:
    last = obj(parts[-1]) if parts else {}
    if isinstance(part.get("text"), str) and "text" in last and last.get("thought") == part.get("thought"):
        last["text"] = string(last["text"]) + string(part["text"])
    else:
        parts.append(dict(part))


# https://ai.google.dev/api/generate-content#FinishReason: there is none for a reply that ends with calls.
_ENDS = {"stop": "STOP", "tools": "STOP", "length": "MAX_TOKENS", "filter": "SAFETY"}


def write_request(conversation: Conversation) -> JsonObject:
    """Return the body of a request, without its parameters; the model and whether it streams stand in the path."""
    body: JsonObject = {"contents": conversation.write_messages(_FORM, "model", "parts")}
    if conversation.system:
        body["systemInstruction"] = {"parts": [_write_text(text) for text in conversation.system]}
    if conversation.tools:
        body["tools"] = [{"functionDeclarations": [*conversation.tools]}]
    return body


def _write_text(text: str) -> JsonObject:
    return {"text": text}


def _write_use(use: ToolUse) -> JsonObject:
    marks: JsonObject = {"id": use.id} if use.id else {}
    return {"functionCall": {**marks, "name": use.name, "args": obj(use.arguments)}}


def _write_result(result: ToolResult) -> Json:
    response: JsonObject = result.value if isinstance(result.value, dict) else {"result": result.value}
    return {"functionResponse": {"name": result.name or result.id, "response": response}}


_FORM = (_write_text, _write_use, _write_result)


def write_reply(reply: ModelReply, _body: JsonObject) -> JsonObject:
    """Return a reply in one piece."""
    read, written = reply.tokens("input_tokens"), reply.tokens("output_tokens")
    parts = reply.write_blocks(_FORM)
    usage: JsonObject = {"promptTokenCount": read, "candidatesTokenCount": written, "totalTokenCount": read + written}
    return {**_write_chunk(reply, parts, finishReason=_ENDS[reply.end]), "usageMetadata": usage}


def _write_chunk(reply: ModelReply, parts: Sequence[Json], **ending: str) -> JsonObject:
    content: JsonObject = {"role": "model", "parts": [*parts]}
    candidate: JsonObject = {"content": content, "index": 0, **ending}
    return {"candidates": [candidate], "modelVersion": reply.model, "responseId": reply.id}


def write_stream(reply: ModelReply, body: JsonObject) -> tuple[bytes, ...]:
    """Return a reply as a stream of one chunk, or of one for each piece of the text and each call, and an empty one."""
    chunks, last = [], reply
    if reply.in_pieces:
        parts = [*map(_write_text, reply.pieces(reply.text)), *map(_write_use, reply.uses)]
        chunks, last = [_write_chunk(reply, [part]) for part in parts], replace(reply, text="", uses=())
    return write_events(("", chunk) for chunk in [*chunks, write_reply(last, body)])


_PATH = ":(?:generate|streamGenerate)Content"
_WRITER = Writer(
    "https://generativelanguage.googleapis.com",
    "/v1beta/models/{name}:generateContent",
    *(write_request, write_reply, write_stream),
    stream_path="/v1beta/models/{name}:streamGenerateContent?alt=sse",
    group="generationConfig",
)
DIALECTS = (Dialect("gemini", _PATH, "gcp.gemini", is_request, read_call, read_reply, join, _WRITER),)
