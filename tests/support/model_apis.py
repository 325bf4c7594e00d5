"""What the model server speaks in tests beside the dialects that are written: Ollama, Cohere, vectors and ranks."""

from __future__ import annotations

import base64
import json
import os
import struct
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.providers import anthropic
from pytest_agentreplay.providers.dialect import Writer
from pytest_agentreplay.providers.lenient import dump_json
from pytest_agentreplay.providers.openai_chat import write_calls
from pytest_agentreplay.providers.streams import write_events, write_frame
from tests.support.model_script import OTHERS, count_tokens, fresh

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pytest_agentreplay.providers.model_reply import ModelReply


def _line(reply: ModelReply, *, done: bool = True, **more: Any) -> dict[str, Any]:
    """A line of Ollama's; the last one has the counts."""
    line = {"model": reply.model, "created_at": datetime.now(UTC).isoformat(), **more, "done": done}
    counts = {"prompt_eval_count": reply.tokens("input_tokens"), "eval_count": reply.tokens("output_tokens")}
    ended = {"done_reason": "stop", "total_duration": 5_000_000, "load_duration": 1_000_000, **counts}
    return {**line, **ended} if done else line


def _ndjson(lines: Iterable[dict[str, Any]]) -> tuple[bytes, ...]:
    return tuple(dump_json(line).encode() + b"\n" for line in lines)


def _message(reply: ModelReply, text: str) -> dict[str, Any]:
    """A message of Ollama's, with the tool calls where there are any. They bear no id."""
    calls = [{"function": {"name": use.name, "arguments": use.arguments}} for use in reply.uses]
    return {"role": "assistant", "content": text, **({"tool_calls": calls} if calls else {})}


def chat(reply: ModelReply, _body: dict[str, Any] | None = None) -> dict[str, Any]:
    """A chat reply in one piece."""
    return _line(reply, message=_message(reply, reply.text))


def stream_chat(reply: ModelReply, _body: dict[str, Any]) -> tuple[bytes, ...]:
    """A chat reply in lines: a piece of text each, then the tool calls, then the counts."""
    messages = [{"role": "assistant", "content": piece} for piece in reply.pieces(reply.text)]
    messages += [_message(reply, "")] if reply.uses else []
    lines = [_line(reply, message=message, done=False) for message in messages]
    return _ndjson([*lines, _line(reply, message={"role": "assistant", "content": ""})])


def generate(reply: ModelReply, _body: dict[str, Any] | None = None) -> dict[str, Any]:
    """The completion of a prompt in one piece."""
    return _line(reply, response=reply.text)


def stream_generate(reply: ModelReply, _body: dict[str, Any]) -> tuple[bytes, ...]:
    """The completion of a prompt in lines."""
    lines = [_line(reply, response=piece, done=False) for piece in reply.pieces(reply.text)]
    return _ndjson([*lines, _line(reply, response="")])


def cohere_chat(reply: ModelReply, _body: dict[str, Any] | None = None) -> dict[str, Any]:
    """Cohere's reply in one piece; what is said beside tool calls is their plan."""
    message: dict[str, Any] = {"role": "assistant", "content": [{"type": "text", "text": reply.text}]}
    if reply.uses:
        message = {"role": "assistant", "tool_plan": reply.text, "tool_calls": write_calls(reply.uses)}
    counts = {name: reply.tokens(name) for name in ("input_tokens", "output_tokens")}
    usage = {"billed_units": counts, "tokens": counts}
    finish = "TOOL_CALL" if reply.uses else "COMPLETE"
    return {"id": reply.id, "message": message, "finish_reason": finish, "usage": usage}


def stream_cohere_chat(reply: ModelReply, _body: dict[str, Any]) -> tuple[bytes, ...]:
    """Cohere's reply as its events."""
    return write_events((name, {"type": name, **data}) for name, data in _cohere_events(reply))


def _cohere_events(reply: ModelReply) -> Iterator[tuple[str, dict[str, Any]]]:
    body = cohere_chat(reply)
    empty = {"role": "assistant", "content": [], "tool_plan": "", "tool_calls": [], "citations": []}
    yield "message-start", {"id": reply.id, "delta": {"message": empty}}
    if reply.uses:
        for piece in reply.pieces(reply.text):
            yield "tool-plan-delta", {"delta": {"message": {"tool_plan": piece}}}
    else:
        yield "content-start", _part(0, content={"type": "text", "text": ""})
        for piece in reply.pieces(reply.text):
            yield "content-delta", _part(0, content={"text": piece})
        yield "content-end", {"index": 0}
    for index, call in enumerate(body["message"].get("tool_calls", ())):
        function = call["function"]
        yield "tool-call-start", _part(index, tool_calls={**call, "function": {**function, "arguments": ""}})
        for piece in reply.pieces(function["arguments"]):
            yield "tool-call-delta", _part(index, tool_calls={"function": {"arguments": piece}})
        yield "tool-call-end", {"index": index}
    yield "message-end", {"delta": {"finish_reason": body["finish_reason"], "usage": body["usage"]}}


def _part(index: int, **message: Any) -> dict[str, Any]:
    """A change of the message's part number `index`."""
    return {"index": index, "delta": {"message": message}}


def invoke_stream(reply: ModelReply, _body: dict[str, Any]) -> tuple[bytes, ...]:
    """The events of a Messages stream, each as base64 in a frame."""
    texts = (json.dumps(event).encode() for event in anthropic.list_events(reply, {}))
    return tuple(write_frame("chunk", {"bytes": base64.b64encode(text).decode()}) for text in texts)


def numbers(count: int) -> list[float]:
    """Numbers between -1 and 1 that never come twice, for a vector or scores."""
    return [(byte - 128) / 128 + int.from_bytes(os.urandom(3), "big") / 2**31 for byte in os.urandom(count)]


def embeddings(_reply: ModelReply, body: dict[str, Any]) -> dict[str, Any]:
    """OpenAI's, which Mistral, Voyage and many more speak too: as numbers or, when asked for, as base64 of floats."""
    given = body.get("input", "")
    many = isinstance(given, list) and bool(given) and not isinstance(given[0], int)
    vectors: list[Any] = [numbers(body.get("dimensions") or 8) for _ in range(len(given) if many else 1)]
    if body.get("encoding_format") == "base64":
        vectors = [base64.b64encode(struct.pack(f"<{len(row)}f", *row)).decode() for row in vectors]
    data = [{"object": "embedding", "index": index, "embedding": row} for index, row in enumerate(vectors)]
    usage = {"prompt_tokens": count_tokens(given), "total_tokens": count_tokens(given)}
    return {"id": fresh("embd-"), "object": "list", "data": data, "model": body.get("model", "demo"), "usage": usage}


def embed_contents(_reply: ModelReply, body: dict[str, Any]) -> dict[str, Any]:
    """Gemini's vector of one content, or of each request of a batch."""
    if "requests" in body:
        return {"embeddings": [{"values": numbers(8)} for _ in body["requests"]]}
    return {"embedding": {"values": numbers(8)}}


def predict(_reply: ModelReply, body: dict[str, Any]) -> dict[str, Any]:
    """A vector for each instance, as Vertex gives them."""
    counts = [{"token_count": count_tokens(instance), "truncated": False} for instance in body.get("instances", ())]
    return {"predictions": [{"embeddings": {"values": numbers(8), "statistics": count}} for count in counts]}


def embed_input(_reply: ModelReply, body: dict[str, Any]) -> dict[str, Any]:
    """Ollama's vector for each input."""
    given = body.get("input", "")
    vectors = [numbers(8) for _ in range(len(given) if isinstance(given, list) else 1)]
    return {"model": body.get("model", "demo"), "embeddings": vectors, "prompt_eval_count": count_tokens(given)}


def embed_texts(_reply: ModelReply, body: dict[str, Any]) -> dict[str, Any]:
    """Cohere's vector for each text, by type of number."""
    texts = body.get("texts") or []
    vectors = [numbers(8) for _ in texts or body.get("inputs") or body.get("images") or ()]
    meta = {"api_version": {"version": "2"}, "billed_units": {"input_tokens": count_tokens(texts)}}
    return {"id": fresh(""), "embeddings": {"float": vectors}, "texts": texts, "meta": meta}


def rerank(_reply: ModelReply, body: dict[str, Any]) -> dict[str, Any]:
    """The documents by their scores."""
    scores = [abs(score) for score in numbers(len(body.get("documents", ())))]
    ranked = sorted(range(len(scores)), key=scores.__getitem__, reverse=True)[: body.get("top_n")]
    results = [{"index": index, "relevance_score": scores[index]} for index in ranked]
    return {"id": fresh(""), "results": results, "meta": {"billed_units": {"search_units": 1}}}


def writes(write: Callable[..., Any], stream: Callable[..., Any] | None = None, kind: str = "") -> Writer:
    """Return the writer of replies alone; an API that does not stream answers in one piece."""
    return Writer("", "", lambda _: {}, write, stream or write, stream_type=kind)


FRAMES, LINES, EVENTS = "application/vnd.amazon.eventstream", "application/x-ndjson", "text/event-stream; charset=utf-8"
OTHERS += [
    ("/invoke-with-response-stream", writes(chat, invoke_stream, FRAMES)),
    ("/api/chat", writes(chat, stream_chat, LINES)),
    ("/api/generate", writes(generate, stream_generate, LINES)),
    ("/v2/chat", writes(cohere_chat, stream_cohere_chat, EVENTS)),
    (":(embedContent|batchEmbedContents)", writes(embed_contents)),
    (":predict", writes(predict)),
    ("/api/embed", writes(embed_input)),
    ("/v2/embed", writes(embed_texts)),
    ("/rerank", writes(rerank)),
    ("/embeddings", writes(embeddings)),
]
